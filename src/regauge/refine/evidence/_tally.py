"""What trials said so far: passes and trials per text, case and check. Never changed in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from regauge.gate import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = ["CheckOutcome", "Outcome", "Tally"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """What one check said of one trial.

    Attributes:
        check: The judge's name.
        passed: Whether it passed; a check that abstained leaves no outcome.
        code: The stable word for the kind of failure; empty when it passed.
        reason: In words; for people and critics, never for decisions.
    """

    check: str
    passed: bool
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One judged trial of one case under one text.

    Attributes:
        text: The digest of the prompt's text.
        trial: Its number; one number of one text and case is counted once.
        answer: What the model said, for critics.
        checks: What every check said; none when the trial is unmeasured.
    """

    text: str
    case: str
    trial: int
    checks: tuple[CheckOutcome, ...]
    answer: str = ""


_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts by text and case.

    Attributes:
        seen: Per text and case, the trials that were counted, in the order they came.
    """

    seen: Mapping[_Key, tuple[Outcome, ...]] = field(
        default_factory=lambda: MappingProxyType(dict[_Key, tuple[Outcome, ...]]())
    )

    def with_outcomes(self, outcomes: Iterable[Outcome]) -> Tally:
        """This tally and more; a trial that was counted already changes nothing."""
        seen = dict(self.seen)
        for outcome in outcomes:
            key = (outcome.text, outcome.case)
            known = seen.get(key, ())
            if outcome.checks and all(outcome.trial != other.trial for other in known):
                seen[key] = (*known, outcome)
        return Tally(MappingProxyType(seen))

    def trials(self, text: str, case: str) -> int:
        """How many trials of a case were counted."""
        return len(self.seen.get((text, case), ()))

    def next_trial(self, text: str, case: str) -> int:
        """The first number after all that were counted."""
        return 1 + max((o.trial for o in self.seen.get((text, case), ())), default=-1)

    def check(self, text: str, case: str, check: str) -> Count:
        """How often one check passed one case."""
        passed = trials = 0
        for outcome in self.seen.get((text, case), ()):
            for said in outcome.checks:
                if said.check == check:
                    trials += 1
                    passed += said.passed
        return Count(passed=passed, trials=trials)

    def over(self, text: str, cases: Sequence[str], check: str) -> Count:
        """How often one check passed, over several cases."""
        return sum((self.check(text, case, check) for case in cases), NONE_DRAWN)

    def whole(self, text: str, case: str) -> Count:
        """How often a case passed all its checks."""
        known = self.seen.get((text, case), ())
        passed = sum(all(said.passed for said in o.checks) for o in known)
        return Count(passed=passed, trials=len(known))

    def score(self, text: str, case: str, checks: Collection[str]) -> float | None:
        """The share of some checks that a case passed, over all its trials; None without any."""
        known = self.seen.get((text, case), ())
        said = [c.passed for o in known for c in o.checks if c.check in checks]
        return sum(said) / len(said) if said else None

    def checks(self, text: str, cases: Sequence[str]) -> tuple[str, ...]:
        """Every check that said something, by name."""
        names = {
            said.check
            for case in cases
            for o in self.seen.get((text, case), ())
            for said in o.checks
        }
        return tuple(sorted(names))

    def failures(self, text: str, case: str, check: str) -> tuple[Outcome, ...]:
        """The trials of a case that a check failed."""
        return tuple(
            outcome
            for outcome in self.seen.get((text, case), ())
            if any(said.check == check and not said.passed for said in outcome.checks)
        )

    def since(self, text: str, case: str, first: int) -> tuple[Outcome, ...]:
        """The trials of a case from one number on."""
        return tuple(o for o in self.seen.get((text, case), ()) if o.trial >= first)
