"""`regauge variance`: how much a prompt's answers and verdicts vary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._options import FiniteRange, evals_option
from regauge.cli._terminal import Meter, echo
from regauge.errors import UnmeasuredError
from regauge.maintenance.collection import option_words, with_evals
from regauge.project import TRIALS_MAX, Project
from regauge.refine.tally import shown, variance_of
from regauge.refine.trials import outcomes_of
from regauge.reports import progress_line
from regauge.runner import Draw
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.refine.tally import Variance
    from regauge.runner import EvalSession

__all__ = ["command"]

_EPILOG = """\
\b
Exit codes: 0 done, 2 wrong use or a faulty file, 3 unmeasured.

\b
Examples:
  regauge variance alert-severity
  regauge variance alert-severity --trials 10 --json
"""
_CASES_SHOWN = 8


@click.command(name="variance", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option(
    "--trials", type=click.IntRange(2, TRIALS_MAX), default=5, show_default=True, help="Per case"
)
@click.option("--model", metavar="ID", help="Run provider:model instead of the prompt's model.")
@click.option("--record", type=click.Choice(["none", "missing"]), default="missing", hidden=True)
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--budget-usd", type=FiniteRange(min=0), help="Limit of the cost in US dollars.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@evals_option
def command(prompt: str, *, trials: int, as_json: bool, path: Path | None, **options: Any) -> None:
    """Run each case of prompt NAME several times, and report how often results repeat.

    Stored trials are used first.
    """
    project = Project.find()
    found: list[Variance | None] = []
    missing: list[UnmeasuredError] = []

    def act(evals: EvalSession) -> None:
        try:
            evals.progress.start(_to_ask(evals, trials))
            with Meter(lambda: progress_line(evals.progress, evals.budget)):
                outcomes, errors = run_stoppable(outcomes_of(evals, evals.plan.cases, trials))
        finally:
            evals.close()
        missing.extend(errors)
        found.append(variance_of(outcomes))

    with_evals(
        project,
        path or project.root / "evals",
        act,
        prompts=[prompt],
        options=option_words(options),
        draw=False,
    )
    variance = found[0]
    if as_json:
        said = variance.to_json() if variance is not None else None
        click.echo(json.dumps({"prompt": prompt, "unmeasured": len(missing), "variance": said}))
    elif variance is not None:
        _say(prompt, variance)
    if missing:
        raise UnmeasuredError(
            f"{plural(len(missing), 'trial')} could not be measured: {missing[0]}"
        )


def _to_ask(evals: EvalSession, trials: int) -> int:
    """How many of the trials are neither recorded nor in the local store."""
    return sum(
        not evals.answers.has(planned, Draw(planned, number).key)
        for planned in evals.plan.cases
        if planned.error is None
        for number in range(trials)
    )


def _say(prompt: str, variance: Variance) -> None:
    echo(f"{prompt}: {plural(variance.cases, 'case')}, {variance.trials} trials", bold=True)
    echo("of two trials of one case")
    echo(f"  {shown(variance.answers):>4} give the same answer")
    echo(f"  {shown(variance.verdicts):>4} get the same verdicts")
    for name, check in variance.checks.items():
        line = f"  {shown(check.agreement):>4} {name}: passed {check.passed} of {check.trials}"
        cases = ", ".join(check.unsteady[:_CASES_SHOWN])
        more = len(check.unsteady) - _CASES_SHOWN
        unsteady = f"; unsteady: {cases}{f' and {more} more' if more > 0 else ''}"
        echo(line + (unsteady if cases else ""))
