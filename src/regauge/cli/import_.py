"""`regauge import`: convert a suite of another tool to files of this project."""

from __future__ import annotations

from pathlib import Path

import click

from regauge.cli._options import STDOUT, json_option, output_option, write_output
from regauge.cli._terminal import echo, echo_json
from regauge.errors import UsageError
from regauge.importers import count_text, load_importer, plan_files, write_files
from regauge.project import Project
from regauge.wording import plural

__all__ = ["import_command"]

_EPILOG = """\
\b
Examples:
  regauge import promptfoo promptfooconfig.yaml
  regauge import promptfoo evals --check
  regauge import deepeval tests/evals --name bot

Exit codes: 0 written, 1 --check found lines that need manual work, 2 refused.
"""


@click.command(name="import", epilog=_EPILOG)
@click.argument("format_name", metavar="FORMAT")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Print the report only; write no other file.")
@click.option("--name", metavar="NAME", default="", help="Stem of the names of written files.")
@output_option()
@json_option
def import_command(
    format_name: str, path: Path, *, check: bool, name: str, output: str | None, as_json: bool
) -> None:
    """Import a suite of another tool.

    Formats: braintrust, deepeval, dotprompt, inspect, langsmith, openai-evals, promptfoo, prompty.
    Packages add more by the entry point group regauge.importers.

    Writes prompts, golden cases, evals, settings and IMPORT.md, a report of lines that were
    changed, dropped or need you. It runs no code of the source and overwrites nothing.
    """
    if output is not None and not check:
        raise UsageError("-o needs --check", fix="an import writes its report to IMPORT.md")
    importer = load_importer(format_name)
    if not path.exists():
        fix = f"name a file or a directory: regauge import {format_name} PATH"
        raise UsageError(f"{path} does not exist", fix=fix)
    root = Project.find().root
    imported = importer(path, root=root, name=name)
    plan = plan_files(format_name, imported, root, check=check)
    if as_json:
        notes = [
            {"kind": note.kind, "place": str(note.place), "text": note.text}
            for note in imported.notes
        ]
        document = {
            "format": format_name,
            "written": [] if check else plan.paths,
            "evals": len(imported.evals),
            "cases": sum(map(len, imported.datasets.values())),
            "assertions": imported.assertions,
            "unmeasured": imported.unmeasured,
            "notes": notes,
        }
        echo_json(document)
    if check:
        if output is not None or not as_json:
            write_output(plan.report, output or STDOUT)
        raise SystemExit(1 if imported.needs_manual_work else 0)
    write_files(plan, root)
    if as_json:
        return
    for path_written in plan.paths:
        echo(f"wrote {path_written}", style="green")
    # The report joins all places of a text on one line.
    manual_lines = len({note.text for note in imported.notes if note.kind == "manual"})
    echo(count_text(imported))
    if manual_lines:
        verb = "needs" if manual_lines == 1 else "need"
        count = plural(manual_lines, "line")
        echo(f"{count} of {plan.paths[-1]} {verb} manual work", style="yellow")
    if imported.evals:
        echo(f"next: read {plan.paths[-1]}, then pytest evals")
