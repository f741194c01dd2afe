"""Counts of trials, failure modes, evidence for an edit, and variance."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import combinations
from math import comb, sqrt
from typing import TYPE_CHECKING, Literal

from regauge.gate import NO_TRIALS, Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.project import Criterion
    from regauge.refine._policy import AcceptancePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """The verdict of one check on one trial.

    Attributes:
        passed: Whether it passed; a check that abstained leaves no outcome.
        code: The stable word for the kind of failure; empty if it passed.
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
        trial: Its number; each number of a text and case is counted once.
        is_cut_off: Whether the output is empty or cut off.
        limit: The limit at which it is cut off; empty without one.
    """

    text: str
    case: str
    trial: int
    checks: tuple[CheckOutcome, ...]
    output: str = ""
    is_cut_off: bool = False
    limit: str = ""


_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts by text and case.

    Attributes:
        counted_outcomes: The counted trials of each text and case, in order of arrival.
    """

    counted_outcomes: Mapping[_Key, tuple[Outcome, ...]] = field(
        default_factory=dict[_Key, tuple[Outcome, ...]]
    )

    def with_outcomes(self, outcomes: Iterable[Outcome]) -> Tally:
        """The tally with further trials; a trial that was counted changes nothing."""
        seen = dict(self.counted_outcomes)
        for outcome in outcomes:
            key = (outcome.text, outcome.case)
            earlier_outcomes = seen.get(key, ())
            if outcome.checks and all(outcome.trial != other.trial for other in earlier_outcomes):
                seen[key] = (*earlier_outcomes, outcome)
        return Tally(seen)

    def outcomes(self, text: str, case: str) -> tuple[Outcome, ...]:
        """The counted trials of a case, in order of arrival."""
        return self.counted_outcomes.get((text, case), ())

    def trials(self, text: str, case: str) -> int:
        """The number of counted trials of a case."""
        return len(self.outcomes(text, case))

    def next_trial(self, text: str, case: str) -> int:
        """The first number after all counted trials."""
        return 1 + max((o.trial for o in self.outcomes(text, case)), default=-1)

    def count(self, text: str, case: str, check: str) -> Count:
        """The results of one check on one case."""
        return passed_all((check,), self.outcomes(text, case))

    def count_over(self, text: str, cases: Sequence[str], check: str) -> Count:
        """The results of one check on several cases."""
        return sum((self.count(text, case, check) for case in cases), NO_TRIALS)

    def case_count(self, text: str, case: str) -> Count:
        """The trials of a case in which all its checks passed."""
        outcomes = self.outcomes(text, case)
        passed = sum(all(check.passed for check in o.checks) for o in outcomes)
        return Count(passed=passed, trials=len(outcomes))

    def checks(self, text: str, cases: Sequence[str]) -> tuple[str, ...]:
        """The names of all checks with a verdict."""
        outcomes = (o for case in cases for o in self.outcomes(text, case))
        return tuple(sorted({check.check for o in outcomes for check in o.checks}))

    def failures(self, text: str, case: str, check: str) -> tuple[Outcome, ...]:
        """The trials of a case in which a check failed."""
        return tuple(
            outcome
            for outcome in self.outcomes(text, case)
            if any(result.check == check and not result.passed for result in outcome.checks)
        )


def passed_all(checks: Sequence[str], outcomes: Iterable[Outcome]) -> Count:
    """The trials that passed all given checks, among those with any of their verdicts."""
    reasons = [
        [check.passed for check in outcome.checks if check.check in checks] for outcome in outcomes
    ]
    reasons = [verdicts for verdicts in reasons if verdicts]
    return Count(passed=sum(map(all, reasons)), trials=len(reasons))


# Structure first, then content, then wording: an output of the wrong form hides its content.
_ORDER: dict[Criterion, int] = {"format": 0, "completeness": 1, "correctness": 2, "relevance": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One judge in the loop.

    Attributes:
        advice: The instruction that a prompt needs to pass this check; empty if unknown.
    """

    name: str
    criterion: Criterion = "correctness"
    advice: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureMode:
    """Failures of one check that are more than chance, or that make it flaky.

    Attributes:
        code: The commonest kind of failure.
        cases: The train cases with this check, most failures first.
        failing: Those with at least one failure.
        p_flaky: The p-value of this many failures if the check is only flaky.
        p_again: The p-value of this many repeated failures if the check is only flaky.
        unsteady: Whether the cases pass at times, so that the trials that
            selected them are not evidence.
    """

    check: str
    code: str = ""
    cases: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    failures: int = 0
    trials: int = 0
    p_flaky: float = 1.0
    p_again: float = 1.0
    unsteady: bool = False

    @property
    def key(self) -> str:
        """The key of the failure mode: its check and code."""
        return f"{self.check}/{self.code}" if self.code else self.check


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The failures that are worth a revision, and flaky ones."""

    modes: tuple[FailureMode, ...]
    flaky: tuple[FailureMode, ...]


def diagnose(
    tally: Tally,
    texts: Callable[[str], Sequence[str]],
    cases: Sequence[str],
    checks: Mapping[str, Check],
    policy: AcceptancePolicy,
    *,
    tolerated: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Group the failures of a prompt.

    Args:
        tally: The trials so far.
        texts: Called with a check; returns the digests of the texts that count for it, the current
            one last: those since the last edit for the check.
        cases: The train cases.
        checks: Checks by name; others count as correctness.
        policy: The limits of flakiness.
        tolerated: The failure rate up to which a check is flaky, by check; `flaky_rate` by default.
    """
    modes: list[FailureMode] = []
    flaky: list[FailureMode] = []
    # After a roll-back the current text has no trials of its own.
    names = dict.fromkeys(name for text in texts("") for name in tally.checks(text, cases))
    for name in names:
        rate = (tolerated or {}).get(name, policy.flaky_rate)
        mode = _mode(tally, texts(name), cases, name, policy, rate=rate)
        if mode is not None:
            is_known = mode.p_flaky < policy.flaky_p or mode.p_again <= policy.again_p
            (modes if is_known else flaky).append(mode)

    def order(mode: FailureMode) -> tuple[int, int, str]:
        earlier = checks.get(mode.check)
        return (_ORDER[earlier.criterion if earlier else "correctness"], -mode.failures, mode.check)

    return Diagnosis(modes=tuple(sorted(modes, key=order)), flaky=tuple(flaky))


def tail(trials: int, failures: int, rate: float) -> float:
    """The probability of at least this number of failures if each trial fails at `rate`.

    >>> round(tail(3, 3, 0.1), 6)
    0.001
    """
    return sum(
        comb(trials, n) * rate**n * (1 - rate) ** (trials - n) for n in range(failures, trials + 1)
    )


def _mode(
    tally: Tally,
    texts: Sequence[str],
    cases: Sequence[str],
    check: str,
    policy: AcceptancePolicy,
    *,
    rate: float,
) -> FailureMode | None:
    results = {
        case: [
            result
            for text in texts
            for outcome in tally.outcomes(text, case)
            for result in outcome.checks
            if result.check == check
        ]
        for case in cases
    }
    codes = Counter(
        result.code for rows in results.values() for result in rows if not result.passed
    )
    if not codes:
        return None
    passes = {case: [result.passed for result in rows] for case, rows in results.items() if rows}
    ordered_cases = sorted(passes, key=lambda case: (sum(passes[case]) / len(passes[case]), case))
    failing = tuple(case for case in ordered_cases if not all(passes[case]))
    # The later trials of the cases whose first trial failed.
    later_passes = {case: passes[case][1:] for case in failing if not passes[case][0]}
    later = [passed for rows in later_passes.values() for passed in rows]
    p_flaky = tail(sum(map(len, passes.values())), codes.total(), rate)
    p_again = tail(len(later), later.count(False), rate)
    if p_flaky >= policy.flaky_p and p_again <= policy.again_p:
        # A few cases fail every time, among many that do not: only those need a fix.
        ordered_cases = [case for case, rows in later_passes.items() if not all(rows)]
    return FailureMode(
        check=check,
        code=min(codes, key=lambda code: (-codes[code], code)),
        cases=tuple(ordered_cases),
        failing=tuple(case for case in failing if case in ordered_cases),
        failures=sum(passes[case].count(False) for case in ordered_cases),
        trials=sum(len(passes[case]) for case in ordered_cases),
        p_flaky=p_flaky,
        p_again=p_again,
    )


def p_better(tally: Tally, text: str, other: str, cases: Sequence[str], check: str) -> float:
    """The p-value of a text passing a check more often than another, over the same cases.

    Within a case all trials are exchangeable when the texts are equally good, however hard the
    case is; see `regauge.stats.suite_p_value`.
    """
    return p_within_cases(paired_counts(tally, text, other, cases, check), direction="better")


def p_worse(tally: Tally, text: str, other: str, cases: Sequence[str], check: str) -> float:
    """The p-value of a text failing a check more often than another."""
    return p_within_cases(paired_counts(tally, text, other, cases, check), direction="worse")


def paired_counts(
    tally: Tally, text: str, other: str, cases: Sequence[str], check: str
) -> list[tuple[Count, Count]]:
    """The counts of a check under the other text and under a text, of cases with trials of both."""
    pairs = [(tally.count(other, case, check), tally.count(text, case, check)) for case in cases]
    return [(old, new) for old, new in pairs if old.trials and new.trials]


def sides_of(counts: Sequence[tuple[Count, Count]]) -> tuple[list[int], ...]:
    """Passes and trials of the old side, and of the new one, one number per case."""
    columns = zip(*((o.passed, o.trials, n.passed, n.trials) for o, n in counts), strict=True)
    return tuple(map(list, columns)) or ([], [], [], [])


def p_within_cases(
    counts: Sequence[tuple[Count, Count]], *, direction: Literal["better", "worse"]
) -> float:
    """The p-value of two texts' counts by case."""
    from regauge.stats import suite_p_value

    return float(suite_p_value(*sides_of(counts), direction=direction, weights=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVariance:
    """The variance of one check.

    Attributes:
        agreement: The share of equal verdicts among pairs of a case's trials, from 0 to 1.
        unsteady: Cases with mixed verdicts.
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
        cases: The number of cases with at least two trials.
        outputs: The share of equal outputs among pairs of a case's trials, from 0 to 1.
        verdicts: The share of pairs with the same verdict of every shared check.
    """

    cases: int
    trials: int
    outputs: float
    verdicts: float
    checks: Mapping[str, CheckVariance]

    @property
    def sigma(self) -> float:
        """The standard deviation of a case's verdict, over all checks."""
        return sqrt(
            _mean([(1 - check.agreement) / 2 for check in self.checks.values()], default=0.0)
        )

    def to_json(self) -> dict[str, JSON]:
        """A plain document, with standard deviations."""
        rounded = {name: round(getattr(self, name), 4) for name in ("outputs", "verdicts", "sigma")}
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


def format_share(share: float) -> str:
    """A share in percent; `100%` and `0%` are exact.

    >>> [format_share(share) for share in (1.0, 0.997, 0.42, 0.001, 0.0)]
    ['100%', '>99%', '42%', '<1%', '0%']
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
    cases = {case: [*outcomes.values()] for case, outcomes in by_case.items() if len(outcomes) > 1}
    if not cases:
        return None
    names = sorted({c.check for outcomes in cases.values() for o in outcomes for c in o.checks})
    return Variance(
        cases=len(cases),
        trials=sum(len(outcomes) for outcomes in cases.values()),
        outputs=_mean([agreement([o.output for o in outcomes]) for outcomes in cases.values()]),
        verdicts=_mean(
            [share for outcomes in cases.values() for share in _same_verdicts(outcomes)]
        ),
        checks={name: _check(name, cases) for name in names},
    )


def _check(name: str, cases: Mapping[str, Sequence[Outcome]]) -> CheckVariance:
    sentences = {
        case: [c.passed for o in outcomes for c in o.checks if c.check == name]
        for case, outcomes in cases.items()
    }
    sentences = {case: verdicts for case, verdicts in sentences.items() if verdicts}
    return CheckVariance(
        agreement=_mean([agreement([str(v) for v in verdicts]) for verdicts in sentences.values()]),
        passed=sum(sum(verdicts) for verdicts in sentences.values()),
        trials=sum(len(verdicts) for verdicts in sentences.values()),
        unsteady=tuple(
            sorted(c for c, verdicts in sentences.items() if 0 < sum(verdicts) < len(verdicts))
        ),
    )


def _same_verdicts(outcomes: Sequence[Outcome]) -> list[float]:
    """The share of trial pairs that agree in shared checks; empty without shared checks."""
    verdicts = [{check.check: check.passed for check in o.checks} for o in outcomes]
    agreements = [
        all(first[check] == other[check] for check in shared)
        for first, other in combinations(verdicts, 2)
        if (shared := first.keys() & other.keys())
    ]
    return [sum(agreements) / len(agreements)] if agreements else []


def _mean(values: Sequence[float], *, default: float = 1.0) -> float:
    return sum(values) / len(values) if values else default
