"""Conducts a refinement run to its end, and shows what came of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._evals.collected import end_interrupted
from regauge.cli._terminal.meter import Meter
from regauge.cli._terminal.text import echo
from regauge.errors import UsageError
from regauge.refine import BY_SIGNAL, CUT_OFF, find_refinement, headline, remember_status
from regauge.reports import money

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.cli._refine.take import Taking
    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.refine import Note, Refinement, Run, State
    from regauge.runner import EvalSession

__all__ = ["conducted", "ended", "left_at", "saying", "shown_run"]

_STYLES = {"accepted": "green", "confirmed": "green", "rolled-back": "red", "refuted": "red"}


def conducted(
    evals: EvalSession,
    refinement: Refinement,
    run: Run,
    perform: Callable[[Run, Callable[[Note], None]], State],
    *,
    as_json: bool,
) -> Mapping[str, Any]:
    """Run, and write down what came of it."""
    if not as_json:
        click.echo(f"run {run.id}", err=True)

    told = ""

    def listen(note: Note) -> None:
        nonlocal told
        line = f"  {note.event}: {note.text}"
        # Trials for goals may repeat a line, and the end of the command reports a signal.
        if as_json or line == told or BY_SIGNAL in note.text:
            return
        told = line
        with meter.aside():
            echo(line, style=_STYLES.get(note.event, ""), err=True)

    evals.progress.start(0)  # how many answers it takes, nobody knows yet
    try:
        with Meter(lambda: _so_far(evals)) as meter:
            state = perform(run, listen)
    finally:
        evals.close()
    today = datetime.now(UTC).date().isoformat()
    result = refinement.finish(run, state, date=today)
    remember_status(run, state)
    return result


def left_at(run: Run | None) -> str:
    """The command that continues after Ctrl-C or another signal."""
    if run is None or not run.trail.is_file():
        return "nothing was decided yet, the same command begins again"
    if run.facts()["status"] in {"running", "interrupted", "not-verified"}:
        return f"progress saved; continue: regauge refine resume {run.id}"
    return f"the run is over; what came of it: regauge refine show {run.id}"


def _so_far(evals: EvalSession) -> str:
    progress = evals.progress
    judged = f", {progress.judge_calls} judge calls" if progress.judge_calls else ""
    return (
        f"regauge refine: {progress.landed} new answers{judged}, {money(evals.budget.spent_usd)},"
        f" {progress.elapsed_s:.0f} s so far"
    )


def ended(
    project: Project,
    result: Mapping[str, Any],
    taking: Taking,
    *,
    shown: bool = False,
    as_json: bool,
) -> None:
    """Show what came of a run, unless somebody was shown it, and do what was asked for."""
    run = find_refinement(project, str(result["run"]))
    done: dict[str, JSON] = {}
    if BY_SIGNAL in result["stop"]["text"] and not as_json:
        end_interrupted(left_at(run))
    try:
        if not shown or result["revision"] is None:
            shown_run(project, result, as_json=as_json)
        if result["revision"] is not None:
            done = taking.take(run, result)
            if not (taking.anything or shown or as_json):
                echo(f"  apply it: regauge refine apply {run.id}")
        elif result["unverified"] and not as_json:
            echo(f"  go on: {result['unverified']['command']}")
    except KeyboardInterrupt:
        end_interrupted(left_at(run))
    finally:
        if as_json:
            click.echo(json.dumps({**result, "done": done}, ensure_ascii=False, indent=1))
    _leave(run, result)


def shown_run(project: Project, result: Mapping[str, Any], *, as_json: bool) -> Run:
    """Show the rationale of a run; JSON has its own place."""
    run = find_refinement(project, str(result["run"]))
    if not as_json:
        if result["found"]:
            # Where nothing was measured, there is nothing to report but why.
            echo(run.markdown.read_text(encoding="utf-8").rstrip())
            echo()
        echo(headline(result), bold=True)
    return run


def saying(*, as_json: bool) -> Callable[[str], None]:
    """Says what is done, beside JSON on stderr."""
    return lambda line: echo(line, err=as_json)


def _leave(run: Run, result: Mapping[str, Any]) -> None:
    reason, proposed = str(result["stop"]["reason"]), result["revision"] is not None
    if reason == "holdout-looks":
        raise UsageError(
            "the held-out cases decided too often to tell whether a further edit generalises\n"
            "  fix: deal the cases anew with another `split_salt` in [tool.regauge], or hold others"
            " out with `split: holdout`"
        )
    if reason in CUT_OFF:
        click.echo(f"  go on: regauge refine resume {run.id}", err=True)
    elif reason == "underpowered":
        click.echo("  fix: add golden cases that exercise the check, or make it steadier", err=True)
    elif reason == "unreadable":
        if "fix:" not in str(result["stop"]["text"]):
            click.echo("  fix: let another model propose, with --refiner-model", err=True)
    elif reason == "model-calls" and result["spent"]["model_calls"] and not proposed:
        click.echo("  fix: begin a new run with more --budget-refiner-calls", err=True)
    elif reason != "calls" or proposed:
        return
    click.get_current_context().exit(130 if reason == "interrupted" else 3)
