"""Draws and judges trials of main, all of them side by side: what baselines lack, or fresh ones."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import BudgetError, MissingRecordingError
from regauge.gate._numbers import stored_number
from regauge.gate._record import facts_of_trial
from regauge.runner import Draw
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from regauge.gate._types import TrialFacts
    from regauge.gate.baselines._redraw import Redraw
    from regauge.gate.baselines._update import TopUp
    from regauge.providers import Completion
    from regauge.runner import EvalSession, PlannedCase, Progress, Trial, Trials

__all__ = ["AskedRedraw", "AskedSuite", "LandedSuite", "draw_trials", "draws_of", "redraw_trials"]

_PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSuite:
    """One eval, and what this session draws for it."""

    asked: TopUp
    cases: tuple[PlannedCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRedraw:
    """One eval whose history is complete, and what asks for fresh trials of it."""

    redraw: Redraw
    checks: Mapping[str, str]
    cases: tuple[PlannedCase, ...]


@dataclass(slots=True, kw_only=True)
class LandedSuite:
    """What became of the trials of one eval.

    Attributes:
        facts: By case and trial number.
        served: Who answered, as the provider says it.
        unmeasured: Why trials could not be measured, with how many share the reason.
        unmeasured_cases: The cases they belong to.
    """

    facts: dict[str, dict[int, TrialFacts]] = field(
        default_factory=lambda: defaultdict[str, dict[int, "TrialFacts"]](dict)
    )
    served: set[str] = field(default_factory=set[str])
    unmeasured: Counter[str] = field(default_factory=Counter[str])
    unmeasured_cases: set[str] = field(default_factory=set[str])

    def take(self, draw: Draw, trial: Trial, checks: Mapping[str, str]) -> TrialFacts | None:
        """Note one trial; what it showed, or None where it could not be measured."""
        case_id = draw.planned.case.id
        facts = facts_of_trial(trial, checks, graded=checks)
        if facts is None or trial.answer is None:
            self.unmeasured[_why(trial)] += 1
            self.unmeasured_cases.add(case_id)
            return None
        self.facts[case_id][draw.trial] = facts
        self.served.add(_served(trial.answer.completion))
        return facts


def _served(completion: Completion) -> str:
    return f"{completion.model} {completion.fingerprint or ''}".strip()


def _why(trial: Trial) -> str:
    """Why a trial could not be measured, in words that trials of one cause share."""
    match trial.error:
        case MissingRecordingError():
            return "no answer is kept, and no model may be asked (--record=none)"
        case BudgetError():
            return "the budget was reached; the same command goes on from here"
        case None:
            return "no verdict"
        case error:
            return str(error)


def draws_of(suite: AskedSuite) -> list[Draw]:
    """The draws of one eval in this session, round by round."""
    numbers = {planned.case.id: suite.asked.numbers(planned.case.id) for planned in suite.cases}
    rounds = max((len(drawn) for drawn in numbers.values()), default=0)
    return [
        Draw(planned, numbers[planned.case.id][index])
        for index in range(rounds)
        for planned in suite.cases
        if index < len(numbers[planned.case.id])
    ]


def draw_trials(
    suites: Sequence[AskedSuite],
    *,
    session: EvalSession,
    waiting: Callable[[Progress], None],
) -> list[LandedSuite]:
    """Have every trial made; one that cannot be measured is noted and does not count.

    Args:
        suites: What is asked for.
        session: Finds answers, asks models and keeps what they say.
        waiting: Called now and then while models answer.
    """

    async def draw_all() -> list[LandedSuite]:
        _expect(session, sum(len(draws_of(suite)) for suite in suites))
        async with _ticking(session, waiting), session.making() as trials:
            return [await _draw_suite(suite, trials) for suite in suites]

    return run_stoppable(draw_all())


def redraw_trials(
    asked: Sequence[AskedRedraw],
    *,
    session: EvalSession,
    waiting: Callable[[Progress], None],
) -> list[LandedSuite]:
    """Have fresh trials made until each asked history is held against enough of them.

    They have the numbers of a gate's trials of main: none of them was drawn for a history.

    Args:
        asked: What is asked for; it takes in what its trials show.
        session: Finds answers, asks models and keeps what they say.
        waiting: Called now and then while models answer.
    """

    async def redraw_all() -> list[LandedSuite]:
        _expect(session, 0)
        async with _ticking(session, waiting), session.making() as trials:
            return [await _redraw_suite(one, session, trials) for one in asked]

    return run_stoppable(redraw_all())


async def _draw_suite(suite: AskedSuite, trials: Trials) -> LandedSuite:
    draws = draws_of(suite)
    made = await asyncio.gather(*(trials.make(draw) for draw in draws))
    landed = LandedSuite()
    for draw, trial in zip(draws, made, strict=True):
        landed.take(draw, trial, suite.asked.history.key.judges)
    return landed


async def _redraw_suite(asked: AskedRedraw, session: EvalSession, trials: Trials) -> LandedSuite:
    planned = {one.case.id: one for one in asked.cases}
    landed = LandedSuite()
    for wave in asked.redraw.waves():
        session.progress.total += len(wave)
        draws = [Draw(planned[case], stored_number("main", nth)) for case, nth in wave]
        made = await asyncio.gather(*(trials.make(draw) for draw in draws))
        for (case, nth), draw, trial in zip(wave, draws, made, strict=True):
            asked.redraw.take(case, nth, landed.take(draw, trial, asked.checks))
    return landed


def _expect(session: EvalSession, trials: int) -> None:
    progress = session.progress
    progress.start(progress.landed + progress.failed + trials)


@asynccontextmanager
async def _ticking(
    session: EvalSession, waiting: Callable[[Progress], None]
) -> AsyncGenerator[None]:
    ticker = asyncio.ensure_future(_tick(session, waiting))
    try:
        yield
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker


async def _tick(session: EvalSession, waiting: Callable[[Progress], None]) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        waiting(session.progress)
