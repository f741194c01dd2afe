"""`regauge completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge completion bash >> ~/.bashrc
  regauge completion zsh >> ~/.zshrc
  regauge completion fish > ~/.config/fish/completions/regauge.fish

Exit codes: 0 done, 2 there is no such shell.
"""
_VARIABLE = "_REGAUGE_COMPLETE"


@click.command(name="completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the shell completion script."""
    shell_class = get_completion_class(shell)
    assert shell_class is not None, "click completes for each of the choices"
    root = click.get_current_context().find_root().command
    completion = shell_class(root, {}, "regauge", _VARIABLE)
    # click's `source` runs bash for its version; an old version completes too, in its own order.
    sys.stdout.write(completion.source_template % completion.source_vars())
