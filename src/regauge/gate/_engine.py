"""The gate itself: which trials it wants next, and what they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm, GateCase, GateOutcome, NotRecorded, TrialFacts, Wanted


class Gate:
    """Compares a candidate with main, wave by wave.

    Ask what is `wanted`, draw all of it in any order, `observe` each trial, and ask again until
    nothing is wanted. The same trials always give the same outcome, whatever order they land in.
    """

    def __init__(self, cases: Iterable[GateCase], policy: GatePolicy) -> None:
        """Begin with the cases of all prompts that are compared together.

        Raises:
            ValueError: If two cases have the same prompt and id.
        """
        raise NotImplementedError

    def wanted(self) -> tuple[Wanted, ...]:
        """The trials of this wave that have not been observed; empty when all is decided.

        Asking twice gives the same trials. A trial that was observed is never wanted again.
        """
        raise NotImplementedError

    def observe(
        self,
        prompt: str,
        case: str,
        arm: Arm,
        number: int,
        facts: TrialFacts | NotRecorded | None,
    ) -> None:
        """Take in one wanted trial.

        Args:
            number: As in `Wanted.trials`.
            facts: None where the trial could not be measured, after all retries; `not-recorded`
                where only recordings may be used and there is none.

        Raises:
            ValueError: If the trial is not wanted.
        """
        raise NotImplementedError

    def outcome(self) -> GateOutcome:
        """What is decided so far; final once nothing is wanted.

        Before that, cases that wait for trials count as unmeasured.
        """
        raise NotImplementedError
