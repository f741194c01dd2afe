"""`regauge schema`: the JSON Schemas of files that users write."""

from __future__ import annotations

import click

from regauge.schemas import SCHEMAS, schema_text

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge schema                                       list them
  regauge schema prompt > prompts/prompt.schema.json   for the editor
  regauge schema settings

Exit codes: 0 done, 2 there is no such schema.
"""


@click.command(name="schema", epilog=_EPILOG)
@click.argument("name", required=False, type=click.Choice([*SCHEMAS]))
def command(name: str | None) -> None:
    """Print the JSON Schema of prompt files, golden datasets or [tool.regauge]."""
    if name is not None:
        click.echo(schema_text(name), nl=False)
    else:
        for schema_name, about in SCHEMAS.items():
            click.echo(f"{schema_name:10} {about}")
