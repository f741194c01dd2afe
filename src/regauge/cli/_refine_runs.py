"""The commands of `regauge refine` on runs: review, delivery, rejection, statistics."""

from __future__ import annotations

import html
import json
from collections import Counter
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._options import branch_option, json_option, pr_option
from regauge.cli._proposals import Delivery
from regauge.cli._terminal import echo, short_path
from regauge.errors import UsageError
from regauge.maintenance.collection import with_evals
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.refine.delivery import check_not_committed, headline, roll_back
from regauge.refine.refinement import Refinement, RefineOptions
from regauge.refine.runs import (
    dead_runs,
    find_refinement,
    list_refinements,
    read_events,
    read_result,
    read_verified,
    readable_results,
    reject_edits,
)
from regauge.wording import plural, table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.document import EditResult
    from regauge.refine.runs import Run
    from regauge.runner import EvalSession


# The statuses of runs that are not over.
_CONTINUED = frozenset({"interrupted", "not-verified", "unmeasured"})


class NamedRun(click.Argument):
    """A run by its name, whose error message lists the possible names."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Find the run; explain a missing name."""
        try:
            name = super().process_value(ctx, value)
        except click.MissingParameter as error:
            error.message = "Name a run: `latest`, a prompt, or an id of `regauge refine list`"
            raise
        return name if ctx.resilient_parsing else find_refinement(Project.find(), name)


@click.command(name="list")
@json_option
def list_command(*, as_json: bool) -> None:
    """List runs, newest first."""
    project = Project.find()
    dead = dead_runs(project)
    rows = [
        {"run": run.id, **run.facts(), **({"status": "cut-off"} if run.id in dead else {})}
        for run in list_refinements(project, warn=lambda text: echo(f"warning: {text}", err=True))
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        echo("no prompt was refined here yet: regauge refine NAME")
    for facts in rows:
        words = [str(facts[name]) for name in ("run", "prompt", "status", "stop") if name in facts]
        command = facts.get("next", "") if facts["status"] in _CONTINUED else ""
        if facts["run"] in dead:
            command = f"regauge refine resume {facts['run']}"
        if command:
            words.append(f"continue: {command}")
        echo("  ".join(dict.fromkeys(words)))


@click.command(name="show")
@click.argument("run", metavar="[RUN]", default="latest", cls=NamedRun)
@click.option("--trail", is_flag=True, help="Every decision in the audit trail.")
@json_option
def show_command(run: Run, *, trail: bool, as_json: bool) -> None:
    """Show the reasons and the evidence of a run."""
    if trail:
        _show_trail(run, as_json=as_json)
        return
    result = run.read_view(run.result)  # checked for the text, too
    echo(result.rstrip() if as_json else as_text(run.read_view(run.markdown)))


def as_text(markdown: str) -> str:
    """Convert Markdown for a terminal, without entities."""
    return html.unescape(markdown).replace("\N{ZERO WIDTH SPACE}", "").rstrip()


@click.command(name="diff")
@click.argument("run", metavar="[RUN]", default="latest", cls=NamedRun)
@json_option
def diff_command(run: Run, *, as_json: bool) -> None:
    """Show a run's changes to the prompt file, as a patch."""
    result = read_result(run)
    read_verified(run)
    diff = run.diff.read_text(encoding="utf-8") if run.diff.is_file() else ""
    if as_json:
        _print_json(run, diff=diff)
    elif diff:
        click.echo(diff, nl=False)
    else:
        echo(headline(result))
        if result.next:
            echo(f"next: {result.next}")


@click.command(name="apply")
@click.argument("run", metavar="RUN", cls=NamedRun)
@branch_option
@pr_option
@json_option
def apply_command(run: Run, *, branch: str | None, pr: bool, as_json: bool) -> None:
    """Write a run's revision to the prompt file and prompts.lock."""
    project = Project.find()
    result = read_result(run)
    if result.revision is None:
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to apply")
    if branch is not None or pr:
        check_not_committed(run, find_prompt(run.prompt, root=project.root))
    print_line = partial(echo, err=as_json)
    write = branch is None and not pr
    delivery = Delivery.prepare(
        project, run.prompt, write=write, branch=branch, pr=pr, print_line=print_line
    )
    done = delivery.deliver(run, result)
    if as_json:
        _print_json(run, **done)


@click.command(name="reject")
@click.argument("run", metavar="RUN", cls=NamedRun)
@click.option(
    "--edit",
    "edits",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Only this edit.",
)
@json_option
def reject_command(run: Run, *, edits: tuple[int, ...], as_json: bool) -> None:
    """Reject a run's edits for later runs."""
    project = Project.find()
    result = read_result(run)
    changes = result.changes if result.revision is not None else []
    number = len(changes)
    if not number or max(edits, default=0) > number:
        has = f"proposes {plural(number, 'edit')}" if number else "proposes none"
        which = f"no edit {max(edits)}" if number else "nothing to reject"
        fix = f"regauge refine show {run.id}"
        raise UsageError(f"run {run.id} {has}, so there is {which}\n  fix: {fix}")
    refused = sorted(set(edits)) or [*range(1, number + 1)]
    reject_edits(project, run, [edit - 1 for edit in refused])
    if as_json:
        _print_json(run, rejected=[*refused])
        return
    for edit in refused:
        change = changes[edit - 1]
        echo(f"edit {edit} is not proposed again: {change.strategy} for {change.check}")


@click.command(name="rollback")
@click.argument("run", metavar="RUN", cls=NamedRun)
@json_option
def rollback_command(run: Run, *, as_json: bool) -> None:
    """Undo `apply`."""
    project = Project.find()
    changed = roll_back(run, find_prompt(run.prompt, root=project.root))
    run.note(status="rolled-back", next="")
    if as_json:
        _print_json(run, wrote=[project.relative(path).as_posix() for path in changed])
    else:
        echo(f"rolled back run {run.id}: {', '.join(str(short_path(path)) for path in changed)}")
        echo(f"  should it not be proposed again: regauge refine reject {run.id}")


@click.command(name="verify")
@click.argument("run", metavar="[RUN]", default="latest", cls=NamedRun)
@click.option("--recompute", is_flag=True, help="Make every decision again, without calls.")
@json_option
def verify_command(run: Run, *, recompute: bool, as_json: bool) -> None:
    """Check a run's audit trail and revision for changes."""
    project = Project.find()
    events = read_verified(run)
    decisions = _recompute(project, run) if recompute else None
    if as_json:
        _print_json(run, events=len(events), last=events[-1].digest, recomputed=decisions)
        return
    echo(f"{run.id}: {len(events)} events, chain whole, last {events[-1].digest[:12]}")
    if run.revision.is_file():
        echo(f"  {run.revision.name} is what the run wrote")
    if decisions is not None:
        echo(f"  {decisions} decisions recomputed from the observations, all equal")


def _recompute(project: Project, run: Run) -> int:
    """Recompute a run's decisions and count the equal ones."""
    facts = run.facts()

    def act(evals: EvalSession) -> int:
        options = RefineOptions.from_json(facts["options"])
        refinement = Refinement(evals, evals.plan.cases, options, name=run.prompt, earlier=run)
        count = refinement.verify(run)
        evals.close()
        return count

    words = [word for word in map(str, facts["words"]) if not word.startswith("--record=")]
    return with_evals(
        project,
        evals_of(facts),
        act,
        prompts=[run.prompt],
        options=[*words, "--record=none"],
        include_targets=True,
    )


def evals_of(facts: Mapping[str, Any]) -> Path | None:
    """The directory or file of the evals of a run; None for `evals`."""
    return Path(facts["evals"]) if facts.get("evals") else None


def _print_json(run: Run, **facts: JSON) -> None:
    click.echo(json.dumps({"run": run.id, "prompt": run.prompt, **facts}, ensure_ascii=False))


def _show_trail(run: Run, *, as_json: bool) -> None:
    for event in read_events(run):
        body = event.body
        if as_json:
            click.echo(json.dumps({"seq": event.seq, "kind": event.kind, "body": body}))
        elif event.kind == "began":
            echo(f"0 began: {body['prompt']} {body['version']}")
        elif event.kind == "wrote":
            echo(f"{event.seq} wrote: {', '.join(body['files'])}")
        else:
            phase = body["state"]["phase"]
            echo(f"{event.seq} {body['observation']['kind']} -> {phase}", bold=True)
            for decision in body["decisions"]:
                echo(f"    {decision['event']}: {decision['text']}")


@click.command(name="stats")
@click.argument("prompt", metavar="[NAME]", required=False)
@json_option
def stats_command(prompt: str | None, *, as_json: bool) -> None:
    """Count the results of all edits, by kind."""
    project = Project.find()
    readable = readable_results(project, warn=lambda text: echo(f"warning: {text}", err=True))
    runs = [run for run in readable if prompt in {None, run.prompt}]
    edits = [edit for run in runs for edit in run.edits]
    if prompt is not None and not edits:
        find_prompt(prompt, root=project.root)  # reports an unknown name
    counts = {
        grouping: _count_results(edits, grouping) for grouping in ("strategy", "proposer", "ops")
    }
    count = sum(bool(run.edits) for run in runs)
    if as_json:
        click.echo(json.dumps({"runs": count, "edits": len(edits), **counts}, indent=1))
        return
    if not edits:
        of = f" of {prompt}" if prompt else ""
        echo(f"no run tried an edit{of} yet: regauge refine {prompt or 'NAME'}")
        return
    echo(f"{plural(len(edits), 'edit')} of {plural(count, 'run')}")
    results = sorted({edit.result for edit in edits})
    for grouping, rows in counts.items():
        lines = [[grouping, *results]]
        lines += [
            [kind, *(str(row[result] or "") for result in results)] for kind, row in rows.items()
        ]
        echo()
        for number, line in enumerate(table_lines(lines, texts=[0])):
            echo(line, bold=number == 0)


def _count_results(edits: Sequence[EditResult], grouping: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for edit in sorted(edits, key=attrgetter(grouping)):
        counts.setdefault(getattr(edit, grouping), Counter())[edit.result] += 1
    return counts


RUN_COMMANDS = (
    list_command,
    show_command,
    diff_command,
    apply_command,
    reject_command,
    rollback_command,
    verify_command,
    stats_command,
)
