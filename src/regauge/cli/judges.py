"""`regauge judges`: every kind of judge, with its parameters."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import echo
from regauge.judges import JudgeDescription, describe, judge_kinds, reference_page
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge judges
  regauge judges words
  regauge judges --json

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="judges", epilog=_EPILOG)
@click.argument("word", default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--markdown", is_flag=True, help="The reference page of regauge's own judges.")
def command(word: str, *, as_json: bool, markdown: bool) -> None:
    """List the judges, or those whose name or summary contains WORD.

    Judges that other packages register under the entry point group `regauge.judges` are listed
    too.
    """
    kinds = judge_kinds(installed=not markdown)
    found = [
        description
        for name, kind in sorted(kinds.items())
        if word.lower() in f"{name} {(description := describe(name, kind)).summary}".lower()
    ]
    if markdown:
        click.echo(reference_page(found), nl=False)
    elif as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        _print(found)
        if not found:
            echo(f"no judge has {word!r} in its name or summary: `regauge judges` lists all")


def _print(found: Sequence[JudgeDescription]) -> None:
    for judge in found:
        echo(f"{judge.name}{judge.form}", bold=True)
        echo(f"    {judge.summary}")
        if judge.install:
            echo(f"    install: {judge.install}")
        for parameter in judge.parameters:
            known = parameter.default not in {"", "None"}
            default = f" (default {parameter.default})" if known else ""
            echo(f"      {parameter.name}: {parameter.text}{default}")
    echo(plural(len(found), "judge"))
