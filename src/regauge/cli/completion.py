"""`regauge completion` and `regauge schema`: files for shells and editors."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from regauge.cli import Command
from regauge.schemas import SCHEMAS, schema_text


@click.command(name="completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the shell completion script.

    Examples:
      regauge completion bash >> ~/.bashrc
      regauge completion zsh >> ~/.zshrc
      regauge completion fish > ~/.config/fish/completions/regauge.fish

    Exit codes: 0 done, 2 there is no such shell.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None, "click completes for each of the choices"
    root = click.get_current_context().find_root().command
    completion = shell_class(root, {}, "regauge", "_REGAUGE_COMPLETE")
    # click's `source` runs bash for its version; an old version completes too, in its own order.
    sys.stdout.write(completion.source_template % completion.source_vars())


@click.command(name="schema", cls=Command)
@click.argument("name", required=False, type=click.Choice([*SCHEMAS]))
def schema_command(name: str | None) -> None:
    """Print the JSON Schema of prompt files, golden datasets or [tool.regauge].

    Examples:
      regauge schema                                       list them
      regauge schema prompt > prompts/prompt.schema.json   for the editor
      regauge schema settings

    Exit codes: 0 done, 2 there is no such schema.
    """
    if name is not None:
        click.echo(schema_text(name), nl=False)
    else:
        for schema_name, about in SCHEMAS.items():
            click.echo(f"{schema_name:10} {about}")
