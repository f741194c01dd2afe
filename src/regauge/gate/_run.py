"""Draws what the gate wants, wave by wave and side by side, until it has decided."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import MissingRecordingError
from regauge.gate._control import ControlNumbers
from regauge.gate._numbers import stored_number
from regauge.gate._record import facts_of_trial
from regauge.gate.engine import Gate
from regauge.runner import Draw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.gate._compared import Compared
    from regauge.gate._outcome import GateOutcome
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm, NotRecorded, TrialFacts
    from regauge.runner import EvalSession, Trial, Trials

__all__ = ["GateProgress", "GateRun"]

_PROGRESS_EVERY_S = 1.0


@dataclass(slots=True)
class GateProgress:
    """How far a gate run has come; the gate cannot know how many waves there will be.

    Attributes:
        wave: Counted from 1.
        wanted: Trials of this wave.
        landed: Those of them that there are.
        trials: Of all waves so far.
        spent_usd: So far.
    """

    wave: int = 0
    wanted: int = 0
    landed: int = 0
    trials: int = 0
    spent_usd: float = 0.0
    _started: float = field(default=0.0)

    def start_wave(self, wanted: int) -> None:
        """Begin to count anew."""
        self.wave += 1
        self.wanted, self.landed = wanted, 0
        self._started = time.monotonic()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end of this wave, at its pace so far; None before its first trial."""
        if not self.landed:
            return None
        return (time.monotonic() - self._started) / self.landed * (self.wanted - self.landed)


class GateRun:
    """One comparison of candidate and main.

    Args:
        compared: The cases.
        policy: What the change is held to.
        session: Finds recorded answers, asks models and keeps what they say.
        waiting: Called every second while models answer.
    """

    def __init__(
        self,
        compared: Sequence[Compared],
        policy: GatePolicy,
        *,
        session: EvalSession,
        waiting: Callable[[GateProgress], None],
    ) -> None:
        self.compared = compared
        self._first_draws = policy.first_draws
        self.gate = Gate([one.case for one in compared], policy)
        self._session = session
        self._waiting = waiting
        self._by_key = {one.case.key: one for one in compared}
        self._progress = GateProgress()
        self._trials: dict[tuple[str, str, Arm], list[Trial]] = defaultdict(list)
        self._control = ControlNumbers(session)

    @property
    def trials(self) -> Mapping[tuple[str, str, Arm], Sequence[Trial]]:
        """What was made, by suite, case and arm, in the order of the trials' numbers."""
        return self._trials

    def decide(self) -> GateOutcome:
        """Draw and judge until nothing more is wanted.

        The outcome depends on the trials alone, not on the order in which they land; those of a
        run that was cut off are found again by the next.
        """
        asyncio.run(self._decide())
        return self.gate.outcome()

    async def _decide(self) -> None:
        ticker = asyncio.ensure_future(self._tick())
        try:
            async with self._session.making() as trials:
                while wanted := self.gate.wanted():
                    await self._wave(
                        trials,
                        [(w.prompt, w.case, w.arm, n) for w in wanted for n in w.trials],
                    )
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker

    async def _wave(self, trials: Trials, wanted: Sequence[tuple[str, str, Arm, int]]) -> None:
        """All trials of one wave at once; how many calls run side by side is for the session."""
        self._progress.start_wave(len(wanted))
        made = await asyncio.gather(
            *(self._make(trials, prompt, case, arm, n) for prompt, case, arm, n in wanted)
        )
        for (prompt, case, arm, number), trial in zip(wanted, made, strict=True):
            self._trials[prompt, case, arm].append(trial)
            self.gate.observe(prompt, case, arm, number, self._facts(prompt, case, trial))

    async def _make(self, trials: Trials, prompt: str, case: str, arm: Arm, number: int) -> Trial:
        compared = self._by_key[prompt, case]
        planned = compared.main
        if arm == "candidate":
            planned = compared.candidate if number < self._first_draws else compared.again
        assert planned is not None, f"{arm} has no {case!r}"
        stored = (
            self._control.number(planned, number) if arm == "main" else stored_number(arm, number)
        )
        trial = await trials.make(Draw(planned, stored))
        self._progress.landed += 1
        self._progress.trials += 1
        return trial

    def _facts(self, prompt: str, case: str, trial: Trial) -> TrialFacts | NotRecorded | None:
        """What the engine is told of a trial."""
        compared = self._by_key[prompt, case]
        if isinstance(trial.error, MissingRecordingError):
            return "not-recorded"
        return facts_of_trial(trial, compared.case.checks, graded=compared.graded)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            self._progress.spent_usd = self._session.budget.spent_usd
            self._waiting(self._progress)
