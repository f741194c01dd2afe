"""Commands on refinement runs that are over: list, show, apply, roll back, check, count."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._options import branch_option, json_option, pr_option
from regauge.cli._refine.deliver import Taking
from regauge.cli._terminal import echo, short
from regauge.errors import UsageError
from regauge.maintenance.collection import THE_SAME_COMMAND, with_evals
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.refine.attempts import FateTable
from regauge.refine.delivery import check_not_committed, roll_back
from regauge.refine.refinement import Refinement, RunOptions
from regauge.refine.report import headline
from regauge.refine.runs import (
    cut_off,
    edits_of_runs,
    find_refinement,
    list_refinements,
    read_whole,
    reject,
)
from regauge.refine.trail import read_trail
from regauge.strict_json import read_json
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.attempts import Grouping
    from regauge.refine.runs import Run
    from regauge.runner import EvalSession


class NamedRun(click.Argument):
    """Says what a run can be named by, where none is."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Take the value, or ask for one."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter as error:
            error.message = "Name a run: `latest`, a prompt, or an id of `regauge refine list`"
            raise


@click.command(name="list")
@json_option
def list_command(*, as_json: bool) -> None:
    """List runs, newest first."""
    project = Project.find()
    runs, dead = list_refinements(project), cut_off(project)
    listed = [
        {"run": run.id, **run.facts(), **({"status": "cut-off"} if run.id in dead else {})}
        for run in runs
    ]
    if as_json:
        click.echo(json.dumps(listed, indent=1))
        return
    if not runs:
        echo("no prompt was refined here yet: regauge refine NAME")
    for facts in listed:
        words = [str(facts[name]) for name in ("run", "prompt", "status", "stop") if name in facts]
        if facts["run"] in dead:
            words.append(f"continue: regauge refine resume {facts['run']}")
        echo("  ".join(words))


@click.command(name="show")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option("--trail", is_flag=True, help="Every decision in the audit trail.")
@json_option
def show_command(name: str, *, trail: bool, as_json: bool) -> None:
    """Show the reasons and the evidence of a run."""
    run = find_refinement(Project.find(), name)
    if trail:
        _show_trail(run, as_json=as_json)
        return
    _result(run)
    if as_json:
        echo(run.read_end(run.result).rstrip())
    else:
        echo(as_text(run.read_end(run.markdown)))


def as_text(markdown: str) -> str:
    """Markdown for a terminal, where characters need no entities."""
    return html.unescape(markdown).replace("\N{ZERO WIDTH SPACE}", "").rstrip()


@click.command(name="diff")
@click.argument("name", metavar="[RUN]", default="latest")
@json_option
def diff_command(name: str, *, as_json: bool) -> None:
    """Show a run's changes to the prompt file, as a patch."""
    run = find_refinement(Project.find(), name)
    result = _result(run)
    read_whole(run)
    diff = run.diff.read_text(encoding="utf-8") if run.diff.is_file() else ""
    if as_json:
        _say_json(run, diff=diff)
    elif diff:
        click.echo(diff, nl=False)
    else:
        echo(headline(result))
        if result["unverified"]:
            echo(f"next: {result['unverified']['command']}")


@click.command(name="apply")
@click.argument("name", metavar="RUN", cls=NamedRun)
@branch_option
@pr_option
@json_option
def apply_command(name: str, *, branch: str | None, pr: bool, as_json: bool) -> None:
    """Write a run's revision to the prompt file, its version to prompts.lock."""
    project = Project.find()
    run = find_refinement(project, name)
    result = _result(run)
    if result["revision"] is None:
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to apply")
    if branch is not None or pr:
        check_not_committed(run, find_prompt(_prompt(run), root=project.root))
    taking = Taking.prepared(
        project,
        _prompt(run),
        write=branch is None and not pr,
        branch=branch,
        pr=pr,
        say=lambda line: echo(line, err=as_json),
    )
    done = taking.take(run, result)
    if as_json:
        _say_json(run, **done)


@click.command(name="reject")
@click.argument("name", metavar="RUN", cls=NamedRun)
@click.option("--edit", "edits", type=click.IntRange(min=1), multiple=True, help="Only this edit.")
@json_option
def reject_command(name: str, *, edits: tuple[int, ...], as_json: bool) -> None:
    """Reject a run's edits for later runs."""
    project = Project.find()
    run = find_refinement(project, name)
    changes = _result(run)["changes"]
    number = len(changes) if (run.directory / "accepted.json").exists() else 0
    if not number or max(edits, default=0) > number:
        has = f"proposes {plural(number, 'edit')}" if number else "proposes none"
        which = f"no edit {max(edits)}" if number else "nothing to reject"
        fix = f"regauge refine show {run.id}"
        raise UsageError(f"run {run.id} {has}, so there is {which}\n  fix: {fix}")
    refused = sorted(set(edits)) or [*range(1, number + 1)]
    reject(project, run, [edit - 1 for edit in refused])
    run.note(rejected=[*refused])
    if as_json:
        _say_json(run, rejected=[*refused])
        return
    for edit in refused:
        change = changes[edit - 1]
        echo(f"edit {edit} is not proposed again: {change['strategy']} for {change['check']}")


@click.command(name="rollback")
@click.argument("name", metavar="RUN", cls=NamedRun)
@json_option
def rollback_command(name: str, *, as_json: bool) -> None:
    """Undo `apply`."""
    project = Project.find()
    run = find_refinement(project, name)
    changed = roll_back(run, find_prompt(_prompt(run), root=project.root))
    run.note(status="rolled-back")
    if as_json:
        _say_json(run, wrote=[project.relative(path).as_posix() for path in changed])
    else:
        echo(f"rolled back run {run.id}: {', '.join(str(short(path)) for path in changed)}")
        echo(f"  should it not be proposed again: regauge refine reject {run.id}")


@click.command(name="verify")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option("--recompute", is_flag=True, help="Make every decision again, without calls.")
@json_option
def verify_command(name: str, *, recompute: bool, as_json: bool) -> None:
    """Check a run's audit trail and revision for changes."""
    project = Project.find()
    run = find_refinement(project, name)
    events = read_whole(run)
    decisions = _recomputed(project, run) if recompute else None
    if as_json:
        _say_json(run, events=len(events), last=events[-1].digest, recomputed=decisions)
        return
    echo(f"{run.id}: {len(events)} events, chain whole, last {events[-1].digest[:12]}")
    if run.revision.is_file():
        echo(f"  {run.revision.name} is what the run wrote")
    if decisions is not None:
        echo(f"  {decisions} decisions recomputed from the observations, all equal")


RUN_COMMANDS = (
    list_command,
    show_command,
    diff_command,
    apply_command,
    reject_command,
    rollback_command,
    verify_command,
)


def _recomputed(project: Project, run: Run) -> int:
    """Recompute a run's decisions and count the equal ones."""
    facts = run.facts()
    counted: list[int] = []

    def act(evals: EvalSession) -> None:
        options = RunOptions.from_json(facts["options"])
        refinement = Refinement(evals, evals.plan.cases, options, name=_prompt(run), earlier=run)
        counted.append(refinement.verify(run))
        evals.close()

    words = [word for word in map(str, facts["words"]) if not word.startswith("--record=")]
    on_evals(project, _prompt(run), facts.get("evals"), [*words, "--record=none"], act)
    return counted[0]


def on_evals(
    project: Project,
    prompt: str,
    path: Path | str | None,
    words: Sequence[str],
    act: Callable[[EvalSession], None],
    *,
    interrupted: Callable[[], str] = lambda: THE_SAME_COMMAND,
) -> None:
    """Do something with the evals of a prompt and of targets that load it.

    Args:
        path: Where evals are; the usual place if there is none.
        words: Options of the plugin.
        interrupted: The message after Ctrl-C.
    """
    with_evals(
        project,
        Path(path or project.root / "evals"),
        act,
        prompts=[prompt],
        options=words,
        draw=False,
        loading=True,
        interrupted=interrupted,
    )


def _result(run: Run) -> dict[str, Any]:
    """The result of a run.

    Raises:
        UsageError: It is not over.
        TrailError: The file is not what the run wrote.
    """
    found: dict[str, Any] = read_json(run.read_end(run.result))
    return found


def _say_json(run: Run, **facts: JSON) -> None:
    click.echo(json.dumps({"run": run.id, "prompt": _prompt(run), **facts}, ensure_ascii=False))


def _show_trail(run: Run, *, as_json: bool) -> None:
    for event in read_trail(run.trail):
        if as_json:
            click.echo(json.dumps({"seq": event.seq, "kind": event.kind, "body": event.body}))
            continue
        if event.kind == "began":
            echo(f"0 began: {event.body['prompt']} {event.body['version']}")
            continue
        if event.kind == "wrote":
            echo(f"{event.seq} wrote: {', '.join(event.body['files'])}")
            continue
        state = event.body["state"]
        echo(f"{event.seq} {event.body['observation']['kind']} -> {state['phase']}", bold=True)
        for decision in event.body["decisions"]:
            echo(f"    {decision['event']}: {decision['text']}")


def _prompt(run: Run) -> str:
    return str(run.facts()["prompt"])


_GROUPINGS: Mapping[Grouping, str] = {
    "strategy": "strategy",
    "proposer": "proposer",
    "ops": "operations",
}


@click.command(name="stats")
@click.argument("prompt", metavar="[NAME]", required=False)
@json_option
def stats_command(prompt: str | None, *, as_json: bool) -> None:
    """Count the results of all edits, by kind.

    Similar candidates are ordered by `prior` of --json, (kept + 1) / (measured + 2).
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
        _print_table(_GROUPINGS[by], table)


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


def _print_table(title: str, table: FateTable) -> None:
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
