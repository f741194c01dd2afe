"""Trials: what they said so far, counted per text, case and check, and how much they vary."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import combinations
from math import sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING

from regauge.gate import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from regauge.digests import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """The verdict of one check on one trial.

    Attributes:
        passed: Whether it passed; a check that abstained leaves no outcome.
        code: The stable word for the kind of failure; empty when it passed.
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
        """The number of counted trials of a case."""
        return len(self.seen.get((text, case), ()))

    def next_trial(self, text: str, case: str) -> int:
        """The first number after all that were counted."""
        return 1 + max((o.trial for o in self.seen.get((text, case), ())), default=-1)

    def check(self, text: str, case: str, check: str) -> Count:
        """The results of one check on one case."""
        passed = trials = 0
        for outcome in self.seen.get((text, case), ()):
            for said in outcome.checks:
                if said.check == check:
                    trials += 1
                    passed += said.passed
        return Count(passed=passed, trials=trials)

    def over(self, text: str, cases: Sequence[str], check: str) -> Count:
        """The results of one check on several cases."""
        return sum((self.check(text, case, check) for case in cases), NONE_DRAWN)

    def whole(self, text: str, case: str) -> Count:
        """The trials of a case in which all its checks passed."""
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


def passed_all(checks: Sequence[str], outcomes: Iterable[Outcome]) -> Count:
    """The trials that passed all of some checks, of those with a verdict of any of them."""
    said = [
        [check.passed for check in outcome.checks if check.check in checks] for outcome in outcomes
    ]
    said = [verdicts for verdicts in said if verdicts]
    return Count(passed=sum(map(all, said)), trials=len(said))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVariance:
    """The variance of one check.

    Attributes:
        agreement: How often two trials of one case get the same verdict, from 0 to 1.
        unsteady: Cases that sometimes pass and sometimes fail.
    """

    agreement: float
    passed: int
    trials: int
    unsteady: tuple[str, ...]

    @property
    def sigma(self) -> float:
        """The standard deviation of a case's verdict: two trials differ at twice its square."""
        return sqrt((1 - self.agreement) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """The variance of a prompt over repeated trials.

    Attributes:
        cases: That have at least two trials; the others say nothing about it.
        answers: How often two trials of one case give the same answer, from 0 to 1.
        verdicts: How often they get the same verdict of every check that judged both.
    """

    cases: int
    trials: int
    answers: float
    verdicts: float
    checks: Mapping[str, CheckVariance]

    @property
    def sigma(self) -> float:
        """The standard deviation of a case's verdict, over all checks."""
        return sqrt(_mean([(1 - check.agreement) / 2 for check in self.checks.values()], none=0.0))

    def to_json(self) -> dict[str, JSON]:
        """A plain document, with standard deviations."""
        rounded = {name: round(getattr(self, name), 4) for name in ("answers", "verdicts", "sigma")}
        checks: dict[str, JSON] = {
            name: {
                **asdict(check),
                "agreement": round(check.agreement, 4),
                "sigma": round(check.sigma, 4),
                "unsteady": list(check.unsteady),
            }
            for name, check in self.checks.items()
        }
        return {"cases": self.cases, "trials": self.trials, **rounded, "checks": checks}


def agreement(values: Sequence[str]) -> float:
    """The share of different pairs that are equal; 1 for fewer than two values.

    >>> agreement(["a", "a", "a", "b"])
    0.5
    """
    pairs = len(values) * (len(values) - 1)
    if not pairs:
        return 1.0
    return sum(n * (n - 1) for n in Counter(values).values()) / pairs


def shown(share: float) -> str:
    """A share in percent that says `100%` or `0%` only where it is exactly that.

    >>> shown(1.0), shown(0.997), shown(0.42), shown(0.001), shown(0.0)
    ('100%', '>99%', '42%', '<1%', '0%')
    """
    words = f"{share:.0%}"
    if words == "100%" and share < 1:
        return ">99%"
    return "<1%" if words == "0%" and share > 0 else words


def variance_of(outcomes: Iterable[Outcome]) -> Variance | None:
    """The variance of one text; None if no case has two trials."""
    by_case: dict[str, dict[int, Outcome]] = {}
    for outcome in outcomes:
        if outcome.checks:
            by_case.setdefault(outcome.case, {})[outcome.trial] = outcome
    cases = {case: [*found.values()] for case, found in by_case.items() if len(found) > 1}
    if not cases:
        return None
    names = sorted({c.check for found in cases.values() for o in found for c in o.checks})
    return Variance(
        cases=len(cases),
        trials=sum(len(found) for found in cases.values()),
        answers=_mean([agreement([o.answer for o in found]) for found in cases.values()]),
        verdicts=_mean([share for found in cases.values() for share in _same_verdicts(found)]),
        checks={name: _check(name, cases) for name in names},
    )


def _check(name: str, cases: Mapping[str, Sequence[Outcome]]) -> CheckVariance:
    said = {
        case: [c.passed for o in found for c in o.checks if c.check == name]
        for case, found in cases.items()
    }
    said = {case: verdicts for case, verdicts in said.items() if verdicts}
    return CheckVariance(
        agreement=_mean([agreement([str(v) for v in verdicts]) for verdicts in said.values()]),
        passed=sum(sum(verdicts) for verdicts in said.values()),
        trials=sum(len(verdicts) for verdicts in said.values()),
        unsteady=tuple(
            sorted(c for c, verdicts in said.items() if 0 < sum(verdicts) < len(verdicts))
        ),
    )


def _same_verdicts(found: Sequence[Outcome]) -> list[float]:
    """The share of trial pairs that agree in shared checks; empty without shared checks."""
    verdicts = [{said.check: said.passed for said in o.checks} for o in found]
    same = [
        all(one[check] == other[check] for check in shared)
        for one, other in combinations(verdicts, 2)
        if (shared := one.keys() & other.keys())
    ]
    return [sum(same) / len(same)] if same else []


def _mean(values: Sequence[float], *, none: float = 1.0) -> float:
    return sum(values) / len(values) if values else none
