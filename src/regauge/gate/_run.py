"""Draws what the gate wants, wave by wave and side by side, until it has decided."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import MissingRecordingError, ProviderError
from regauge.evidence import Count
from regauge.gate._engine import Gate
from regauge.gate._record import (
    EVALS_COPIES,
    EVALS_FIRST,
    StoredNumbers,
    facts_of_trial,
    stored_number,
)
from regauge.gate._types import TrialFacts
from regauge.runner import PlannedTrial, ticking
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.gate._decided import CaseComparison
    from regauge.gate._types import GateOutcome, GatePolicy, NotRecorded, Side
    from regauge.runner import EvalSession, PlannedCase, Trial, TrialRunner


# The caller decides which lines are printed; this is how old a count can be.
_PROGRESS_EVERY_S = 1.0


def is_base_unavailable(error: BaseException | None) -> bool:
    """Return whether a trial has no output because the base's target cannot be called."""
    return isinstance(error, ProviderError) and error.kind == "unavailable"


@dataclass(slots=True)
class GateProgress:
    """The progress of a gate run; the number of waves is not known in advance.

    Attributes:
        wave: Counted from 1.
        requested: Trials of this wave.
        landed: Those of them that there are.
        trials: Of all waves so far.
        spent_usd: So far.
    """

    wave: int = 0
    requested: int = 0
    landed: int = 0
    trials: int = 0
    spent_usd: float = 0.0
    _started: float = field(default=0.0)

    def start_wave(self, requested: int) -> None:
        """Begin to count again."""
        self.wave += 1
        self.requested, self.landed = requested, 0
        self._started = time.monotonic()

    def count(self) -> None:
        """Count a trial that has landed."""
        self.landed += 1
        self.trials += 1

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end of this wave, at its pace so far; None before its first trial."""
        if not self.landed:
            return None
        return (time.monotonic() - self._started) / self.landed * (self.requested - self.landed)


class GateRun:
    """One comparison of candidate and the base.

    Args:
        compared: The cases.
        policy: What the change is held to.
        session: Finds recorded answers, asks models and keeps what they say.
        waiting: Called every second while models answer.
        copied: How many trials of each case are kept as trials of the evals, too, where these
            have none.
        elsewhere: By prompt, about how many changed cases other shards have.
    """

    def __init__(
        self,
        compared: Sequence[CaseComparison],
        policy: GatePolicy,
        *,
        session: EvalSession,
        waiting: Callable[[GateProgress], None],
        copied: int = 1,
        elsewhere: Mapping[str, int] | None = None,
    ) -> None:
        self.compared = compared
        self._copied = min(copied, EVALS_COPIES)
        self.gate = Gate([each.case for each in compared], policy, elsewhere=elsewhere)
        self._session = session
        self._waiting = waiting
        self._by_key = {each.case.key: each for each in compared}
        self._progress = GateProgress()
        self._trials: dict[tuple[str, str, Side], list[Trial]] = defaultdict(list)
        self._numbers = StoredNumbers(session)

    @property
    def trials(self) -> Mapping[tuple[str, str, Side], Sequence[Trial]]:
        """The trials made, by suite, case and side, in the order of their numbers."""
        return self._trials

    def decide(self) -> GateOutcome:
        """Draw and judge until nothing more is wanted.

        The outcome depends on the trials alone, not on the order in which they land; those of a
        run that was cut off are found again by the next.
        """
        run_stoppable(self._decide())
        return self.gate.outcome()

    def draw_first_wave(self) -> None:
        """Run the trials of the first wave alone, which are wanted whatever they show."""
        run_stoppable(self._decide(waves=1))

    def first_outcomes(self) -> dict[tuple[str, str], list[bool | None]]:
        """The candidate's first verdicts, by suite and case; None for unmeasured ones."""
        outcomes: dict[tuple[str, str], list[bool | None]] = {}
        for each in self.compared:
            made = self._trials.get((*each.case.key, "candidate"), [])[
                : self.gate.first_draws(each.case.prompt)
            ]
            facts = [self._facts(*each.case.key, trial) for trial in made]
            outcomes[each.case.key] = [
                x.passed if isinstance(x, TrialFacts) else None for x in facts
            ]
        return outcomes

    def base_today(self) -> list[tuple[Count, Count]]:
        """As many trials of the base as of the first round: for each case its record, and these."""
        recorded = [
            (each, each.base, each.case.history.whole)
            for each in self.compared
            if each.base is not None and each.case.history is not None
        ]
        counts: list[tuple[Count, Count]] = []

        async def draw() -> None:
            async with self._session.open_trials() as making:
                for each, planned, before in recorded:
                    made = self._trials[(*each.case.key, "base")]
                    numbers = range(len(made), len(made) + self.gate.first_draws(each.case.prompt))
                    draws = [PlannedTrial(planned, stored_number("base", nth)) for nth in numbers]
                    drawn = await making.run_all(draws, on_trial=self._progress.count)
                    made.extend(drawn)
                    facts = [self._facts(*each.case.key, trial) for trial in drawn]
                    passed = [fact.passed for fact in facts if isinstance(fact, TrialFacts)]
                    judged = [outcome for outcome in passed if outcome is not None]
                    counts.append((before, Count(passed=sum(judged), trials=len(judged))))

        run_stoppable(draw())
        return counts

    async def _decide(self, *, waves: int | None = None) -> None:
        async with (
            ticking(self._report, every_s=_PROGRESS_EVERY_S),
            self._session.open_trials() as trials,
        ):
            while self._progress.wave != waves and (requests := self.gate.pending_trials()):
                await self._wave(
                    trials,
                    [(w.prompt, w.case, w.side, n) for w in requests for n in w.trials],
                )
            await self._copy_for_evals(trials)

    async def _wave(
        self, trials: TrialRunner, requests: Sequence[tuple[str, str, Side, int]]
    ) -> None:
        """All trials of one wave at once; how many calls run side by side is for the session."""
        self._progress.start_wave(len(requests))
        draws = [self._draw(*request) for request in requests]
        made = await trials.run_all(draws, on_trial=self._progress.count)
        for (prompt, case, side, number), trial in zip(requests, made, strict=True):
            self._trials[prompt, case, side].append(trial)
            self.gate.observe(prompt, case, side, number, self._facts(prompt, case, trial))

    def _draw(self, prompt: str, case: str, side: Side, number: int) -> PlannedTrial:
        planned = self._planned_case(prompt, case, side, number)
        if side == "candidate":
            return PlannedTrial(planned, self._numbers.of_candidate(planned, number))
        return PlannedTrial(planned, stored_number("base", number))

    def _planned_case(self, prompt: str, case: str, side: Side, number: int) -> PlannedCase:
        compared = self._by_key[prompt, case]
        planned = compared.base
        if side == "candidate":
            first = number < self.gate.first_draws(prompt)
            planned = compared.candidate if first else compared.again
        assert planned is not None, f"{side} has no {case!r}"
        return planned

    async def _copy_for_evals(self, trials: TrialRunner) -> None:
        """Have evals find the candidate's first trials as theirs, so that these are paid once."""
        if self._session.options.record == "none":
            return
        copies: dict[PlannedTrial, int] = {}
        for (prompt, case, side), made in self._trials.items():
            if side == "candidate":
                for number, trial in enumerate(made[: self._copied]):
                    if trial.error is None:
                        planned = self._planned_case(prompt, case, side, number)
                        copies[PlannedTrial(planned, trial.number)] = EVALS_FIRST + number
        await trials.copy(copies)

    def _facts(self, prompt: str, case: str, trial: Trial) -> TrialFacts | NotRecorded | None:
        """The facts of a trial that the engine receives."""
        compared = self._by_key[prompt, case]
        if isinstance(trial.error, MissingRecordingError) or is_base_unavailable(trial.error):
            return "not-recorded"
        return facts_of_trial(trial, compared.case.checks, graded=compared.graded)

    def _report(self) -> None:
        self._progress.spent_usd = self._session.budget.spent_usd
        self._waiting(self._progress)
