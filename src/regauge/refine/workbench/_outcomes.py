"""What trials of a prompt say, as the loop is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from regauge.refine.evidence import CheckOutcome, Outcome
from regauge.runner import Draw, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.errors import UnmeasuredError
    from regauge.runner import EvalSession, Trial

__all__ = ["outcome_of", "outcomes_of", "usd_of"]


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


def usd_of(trial: Trial) -> float:
    """What the answer and its judgements cost when they were made.

    Answers that the local store had count too: a run that was cut off and resumed has paid them.
    """
    if trial.answer is None or trial.answer.source == "recording":
        return 0.0
    cost = trial.answer.completion.cost_usd or 0.0
    return cost + sum(judged.calls.cost_usd or 0.0 for judged in trial.verdicts if judged.calls)
