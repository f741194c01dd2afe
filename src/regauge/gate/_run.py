"""Runs the trials that the gate requests, round by round on both sides, until it decides."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from regauge.errors import MissingOutputError, MissingRecordingError, ProviderError
from regauge.evidence import Count
from regauge.gate._engine import Gate
from regauge.gate._trials import (
    EVALS_COPIES,
    EVALS_FIRST,
    StoredNumbers,
    facts_of_trial,
    stored_number,
)
from regauge.gate._types import TrialFacts
from regauge.runner import PlannedTrial, RunProgress, ticking
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.gate._result import CaseComparison
    from regauge.gate._types import GateOutcome, GatePolicy, NotRecorded, Side
    from regauge.runner import EvalSession, PlannedCase, Trial, TrialRunner


# The maximum age of a count; the caller selects the lines to print.
_PROGRESS_EVERY_S = 1.0


def is_base_unavailable(error: BaseException | None) -> bool:
    """Return whether a trial has no output because the base's target cannot be called."""
    return isinstance(error, ProviderError) and error.kind == "unavailable"


class GateRun:
    """One comparison of candidate and base.

    Args:
        compared_cases: The cases.
        policy: Acceptance policy.
        session: Runs and records the trials.
        on_progress: Called every second during calls, with the number of the round.
        copies_per_case: Trials of each case that evals without trials reuse.
        elsewhere: Approximate number of changed cases in other shards, by prompt.
    """

    def __init__(
        self,
        compared_cases: Sequence[CaseComparison],
        policy: GatePolicy,
        *,
        session: EvalSession,
        on_progress: Callable[[int, RunProgress], None],
        copies_per_case: int = 1,
        elsewhere: Mapping[str, int] | None = None,
    ) -> None:
        self.compared_cases = compared_cases
        self._copies_per_case = min(copies_per_case, EVALS_COPIES)
        self.gate = Gate(
            [compared_case.case for compared_case in compared_cases], policy, elsewhere=elsewhere
        )
        self._session = session
        self._on_progress = on_progress
        self._by_key = {compared_case.case.key: compared_case for compared_case in compared_cases}
        self._round_number = 0
        self._progress = RunProgress()
        self._trials: dict[tuple[str, str, Side], list[Trial]] = defaultdict(list)
        self._numbers = StoredNumbers(session)

    @property
    def trials(self) -> Mapping[tuple[str, str, Side], Sequence[Trial]]:
        """The trials by eval, case and side, in the order of their numbers."""
        return self._trials

    def decide(self) -> GateOutcome:
        """Run and judge trials until no more are requested.

        The outcome depends on the trials alone, not on their order; an interrupted run is continued
        by the next.
        """
        run_stoppable(self._decide())
        return self.gate.outcome()

    def run_first_round(self) -> None:
        """Run the trials of the first round only, which do not depend on results."""
        run_stoppable(self._decide(rounds=1))

    def first_outcomes(self) -> dict[tuple[str, str], list[bool | None]]:
        """The candidate's outcomes in the first round, by eval and case; None if unmeasured."""
        outcomes: dict[tuple[str, str], list[bool | None]] = {}
        for compared_case in self.compared_cases:
            trials = self._trials.get((*compared_case.case.key, "candidate"), [])[
                : self.gate.first_trials(compared_case.case.prompt)
            ]
            facts = [self._facts(*compared_case.case.key, trial) for trial in trials]
            outcomes[compared_case.case.key] = [
                trial_facts.passed if isinstance(trial_facts, TrialFacts) else None
                for trial_facts in facts
            ]
        return outcomes

    def base_today(self) -> list[tuple[Count, Count]]:
        """Re-run the base as often as in the first round; return old and new counts by case."""
        recorded = [
            (compared_case, compared_case.base, compared_case.case.baseline.total)
            for compared_case in self.compared_cases
            if compared_case.base is not None and compared_case.case.baseline is not None
        ]
        counts: list[tuple[Count, Count]] = []

        async def run_trials() -> None:
            async with self._session.open_trials() as trials:
                for compared_case, planned_case, before in recorded:
                    base_trials = self._trials[(*compared_case.case.key, "base")]
                    numbers = range(
                        len(base_trials),
                        len(base_trials) + self.gate.first_trials(compared_case.case.prompt),
                    )
                    planned_trials = [
                        PlannedTrial(planned_case, stored_number("base", nth)) for nth in numbers
                    ]
                    new_trials = await trials.run_all(planned_trials, on_trial=self._progress.count)
                    base_trials.extend(new_trials)
                    facts = [self._facts(*compared_case.case.key, trial) for trial in new_trials]
                    passed = [fact.passed for fact in facts if isinstance(fact, TrialFacts)]
                    counts.append((before, Count.of(passed)))

        run_stoppable(run_trials())
        return counts

    async def _decide(self, *, rounds: int | None = None) -> None:
        async with (
            ticking(self._report, every_s=_PROGRESS_EVERY_S),
            self._session.open_trials() as trials,
        ):
            while self._round_number != rounds and (requests := self.gate.pending_trials()):
                await self._round(
                    trials,
                    [(w.prompt, w.case, w.side, n) for w in requests for n in w.trials],
                )
            await self._copy_for_evals(trials)

    async def _round(
        self, trials: TrialRunner, requests: Sequence[tuple[str, str, Side, int]]
    ) -> None:
        """Run all trials of one round at once; the session limits concurrent calls."""
        self._round_number += 1
        self._progress = RunProgress()
        self._progress.start(len(requests))
        planned_trials = [self._planned_trial(*request) for request in requests]
        new_trials = await trials.run_all(planned_trials, on_trial=self._progress.count)
        for (prompt, case, side, number), trial in zip(requests, new_trials, strict=True):
            self._trials[prompt, case, side].append(trial)
            self.gate.observe(prompt, case, side, number, self._facts(prompt, case, trial))

    def _planned_trial(self, prompt: str, case: str, side: Side, number: int) -> PlannedTrial:
        return self._numbers.planned_trial(
            self._planned_case(prompt, case, side, number), side, number
        )

    def _planned_case(self, prompt: str, case: str, side: Side, number: int) -> PlannedCase:
        compared_case = self._by_key[prompt, case]
        planned_case = compared_case.base
        if side == "candidate":
            first = number < self.gate.first_trials(prompt)
            planned_case = compared_case.candidate if first else compared_case.follow_up
        assert planned_case is not None, f"{side} has no {case!r}"
        return planned_case

    async def _copy_for_evals(self, trials: TrialRunner) -> None:
        """Copy the candidate's first trials for the evals, so that they are paid once."""
        if self._session.options.record == "none":
            return
        copies: dict[PlannedTrial, int] = {}
        for (prompt, case, side), side_trials in self._trials.items():
            if side == "candidate":
                for number, trial in enumerate(side_trials[: self._copies_per_case]):
                    if trial.error is None:
                        planned_case = self._planned_case(prompt, case, side, number)
                        copies[PlannedTrial(planned_case, trial.number)] = EVALS_FIRST + number
        await trials.copy(copies)

    def _facts(self, prompt: str, case: str, trial: Trial) -> TrialFacts | NotRecorded | None:
        """The facts of a trial that the engine receives."""
        compared_case = self._by_key[prompt, case]
        if is_base_unavailable(trial.error) or isinstance(trial.error, MissingOutputError):
            return "unavailable"
        if isinstance(trial.error, MissingRecordingError):
            return "not-recorded"
        return facts_of_trial(trial, compared_case.case.checks, graded=compared_case.case.graded)

    def _report(self) -> None:
        self._on_progress(self._round_number, self._progress)
