"""What trials of a prompt say, as the loop is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from regauge.refine.tally import CheckOutcome, Outcome
from regauge.runner import Draw, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.errors import UnmeasuredError
    from regauge.judges import Judge
    from regauge.runner import EvalSession, Suite, Trial

__all__ = [
    "deciding_judges",
    "judge_calls_of",
    "outcome_of",
    "outcomes_of",
    "replayed_calls",
    "usd_of",
]


def deciding_judges(suite: Suite, check: str | None = None) -> tuple[Judge, ...]:
    """The judges of a suite that decide.

    Args:
        check: The only check whose LLM judge is wanted; None wants them all. A suite without
            rules keeps all its judges: a trial has to have a verdict.
    """
    judges = tuple(judge for judge in suite.judges if suite.standing(judge).gates)
    if check is None:
        return judges
    models = {judge.name for judge in suite.model_judges}
    return tuple(one for one in judges if one.name == check or one.name not in models) or judges


async def outcomes_of(
    evals: EvalSession, planned: Sequence[PlannedCase], trials: int
) -> tuple[list[Outcome], list[UnmeasuredError]]:
    """So many trials of every planned case, and why some could not be measured."""
    async with evals.making() as made_by:
        draws = [Draw(case, number) for case in planned for number in range(trials)]
        made = await asyncio.gather(*(made_by.make(draw) for draw in draws))
    found: list[Outcome] = []
    for draw, trial in zip(draws, made, strict=True):
        if trial.error is None:
            suite = draw.planned.suite
            case = f"{suite.dataset.name}/{draw.planned.case.id}"
            found.append(outcome_of(suite.prompt.digest, case, draw.trial, trial))
    return found, [trial.error for trial in made if trial.error is not None]


def outcome_of(text: str, case: str, number: int, trial: Trial) -> Outcome:
    """A measured trial as the loop counts it.

    Args:
        text: The digest of the prompt's text.
        case: The name of the case.
        number: Of the trial.
        trial: With an answer and verdicts.
    """
    assert trial.answer is not None
    return Outcome(
        text=text,
        case=case,
        trial=number,
        answer=trial.answer.completion.text or "",
        checks=tuple(
            CheckOutcome(
                check=judged.judge,
                passed=judged.verdict.outcome == "pass",
                code="" if judged.verdict.outcome == "pass" else judged.verdict.code,
                reason="" if judged.verdict.outcome == "pass" else judged.verdict.reason,
            )
            for judged in trial.verdicts
            if judged.gates and judged.verdict.outcome != "abstain"
        ),
    )


def judge_calls_of(trial: Trial) -> int:
    """How many calls of models its judges took, those that were replayed among them."""
    return sum(judged.calls.calls for judged in trial.verdicts if judged.calls)


def replayed_calls(trial: Trial) -> int:
    """How many calls of a trial, its judges' among them, had been made before."""
    own = trial.answer is not None and trial.answer.source != "live"
    return own + sum(one.calls.calls - one.calls.live for one in trial.verdicts if one.calls)


def usd_of(trial: Trial) -> float:
    """What the answer and its judgements cost when they were made.

    Answers that the local store had count too: a run that was cut off and resumed has paid them.
    """
    if trial.answer is None or trial.answer.source == "recording":
        return 0.0
    cost = trial.answer.completion.cost_usd or 0.0
    return cost + sum(judged.calls.cost_usd or 0.0 for judged in trial.verdicts if judged.calls)
