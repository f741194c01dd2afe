"""`regauge completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if shell_class is None:
        raise UsageError(f"click has no completion for {shell!r}")
    root = click.get_current_context().find_root().command
    arguments: Mapping[str, object] = {}
    completion = shell_class(root, {**arguments}, "regauge", _VARIABLE)
    # click's `source` runs bash for its version; an old version completes too, in its own order.
    sys.stdout.write(completion.source_template % completion.source_vars())
