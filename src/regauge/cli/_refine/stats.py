"""`regauge refine stats`: which edits helped, by kind, over all runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._terminal.text import echo
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.refine import FateTable, edits_of_runs
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.refine import Grouping

__all__ = ["stats_command"]

_GROUPINGS: Mapping[Grouping, str] = {
    "strategy": "strategy",
    "proposer": "proposer",
    "ops": "operations",
}


@click.command(name="stats")
@click.argument("prompt", metavar="[NAME]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def stats_command(prompt: str | None, *, as_json: bool) -> None:
    """Count what became of the edits of all runs that are over, by kind of edit.

    Of candidates that look alike, a later run takes first what was kept more often: it goes by
    `prior` of --json, (kept + 1) / (measured + 2), and writes it into its audit trail.
    """
    project = Project.find()
    edits = edits_of_runs(project)
    if prompt is not None:
        edits = [edit for edit in edits if edit["prompt"] == prompt]
        if not edits:
            find_prompt(prompt, root=project.root)  # a wrong name is no prompt without edits
    tables: dict[Grouping, FateTable] = {by: FateTable.of(edits, by) for by in _GROUPINGS}
    if as_json:
        click.echo(json.dumps(_document(edits, tables), indent=1))
        return
    if not edits:
        of = f" of {prompt}" if prompt else ""
        echo(f"no run tried an edit{of} yet: regauge refine {prompt or 'NAME'}")
        return
    runs = len({edit["run"] for edit in edits})
    echo(f"{plural(len(edits), 'edit')} of {plural(runs, 'run')}")
    for by, table in tables.items():
        echo()
        _show(_GROUPINGS[by], table)


def _document(
    edits: Sequence[Mapping[str, Any]], tables: Mapping[Grouping, FateTable]
) -> dict[str, Any]:
    return {
        "runs": len({edit["run"] for edit in edits}),
        "edits": len(edits),
        **{
            by: {
                kind: {
                    **row,
                    "measured": table.measured(kind),
                    "share_kept": None if share is None else round(share, 4),
                    "prior": round(table.prior(kind), 4),
                }
                for kind, row in table.counts.items()
                for share in [table.share_kept(kind)]
            }
            for by, table in tables.items()
        },
    }


def _show(title: str, table: FateTable) -> None:
    rows = [[title, *table.fates]]
    rows += [
        [kind, *(str(row.get(fate, 0) or "") for fate in table.fates)]
        for kind, row in table.counts.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        echo("  ".join(cells).rstrip(), bold=number == 0)
