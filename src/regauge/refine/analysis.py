"""Counts of trials, failures that are no chance, evidence for an edit, and variance."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import combinations
from math import comb, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from regauge.gate import NO_TRIALS, Count
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from regauge.criteria import Criterion
    from regauge.digests import JSON
    from regauge.refine._policy import AcceptancePolicy


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
        default_factory=dict[_Key, tuple[Outcome, ...]]
    )

    def with_outcomes(self, outcomes: Iterable[Outcome]) -> Tally:
        """This tally and more; a trial that was counted already changes nothing."""
        seen = dict(self.seen)
        for outcome in outcomes:
            key = (outcome.text, outcome.case)
            earlier_outcomes = seen.get(key, ())
            if outcome.checks and all(outcome.trial != other.trial for other in earlier_outcomes):
                seen[key] = (*earlier_outcomes, outcome)
        return Tally(seen)

    def outcomes(self, text: str, case: str) -> tuple[Outcome, ...]:
        """The counted trials of a case, in the order they came."""
        return self.seen.get((text, case), ())

    def trials(self, text: str, case: str) -> int:
        """The number of counted trials of a case."""
        return len(self.outcomes(text, case))

    def next_trial(self, text: str, case: str) -> int:
        """The first number after all that were counted."""
        return 1 + max((o.trial for o in self.outcomes(text, case)), default=-1)

    def check(self, text: str, case: str, check: str) -> Count:
        """The results of one check on one case."""
        return passed_all((check,), self.outcomes(text, case))

    def over(self, text: str, cases: Sequence[str], check: str) -> Count:
        """The results of one check on several cases."""
        return sum((self.check(text, case, check) for case in cases), NO_TRIALS)

    def whole(self, text: str, case: str) -> Count:
        """The trials of a case in which all its checks passed."""
        outcomes = self.outcomes(text, case)
        passed = sum(all(check.passed for check in o.checks) for o in outcomes)
        return Count(passed=passed, trials=len(outcomes))

    def score(self, text: str, case: str, checks: Collection[str]) -> float | None:
        """The share of some checks that a case passed, over all its trials; None without any."""
        outcomes = self.outcomes(text, case)
        passes = [c.passed for o in outcomes for c in o.checks if c.check in checks]
        return sum(passes) / len(passes) if passes else None

    def checks(self, text: str, cases: Sequence[str]) -> tuple[str, ...]:
        """Every check that said something, by name."""
        outcomes = (o for case in cases for o in self.outcomes(text, case))
        return tuple(sorted({check.check for o in outcomes for check in o.checks}))

    def failures(self, text: str, case: str, check: str) -> tuple[Outcome, ...]:
        """The trials of a case that a check failed."""
        return tuple(
            outcome
            for outcome in self.outcomes(text, case)
            if any(result.check == check and not result.passed for result in outcome.checks)
        )


def passed_all(checks: Sequence[str], outcomes: Iterable[Outcome]) -> Count:
    """The trials that passed all of some checks, of those with a verdict of any of them."""
    reasons = [
        [check.passed for check in outcome.checks if check.check in checks] for outcome in outcomes
    ]
    reasons = [verdicts for verdicts in reasons if verdicts]
    return Count(passed=sum(map(all, reasons)), trials=len(reasons))


# Structure first, then content, then wording: an answer of the wrong form hides what it says.
_ORDER: dict[Criterion, int] = {"format": 0, "completeness": 1, "correctness": 2, "relevance": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One judge as the loop knows it.

    Attributes:
        advice: The instruction that a prompt should hold for this check, as its author or its
            kind of rule would say it; empty where no one can say.
    """

    name: str
    criterion: Criterion = "correctness"
    advice: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCluster:
    """Failures of one check that are more than chance, or that make it flaky.

    Attributes:
        code: The commonest kind of failure among them.
        cases: The train cases the check applies to, those that fail most first.
        failing: Of these, the ones that failed at least once.
        p_flaky: How likely so many failures are of a check that is only flaky.
        p_again: How likely the cases that failed first fail again so often, if it is only flaky.
        unsteady: Whether they pass now and then, so that an edit has to make them steady.
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
        """The name it is stored under."""
        return f"{self.check}/{self.code}" if self.code else self.check


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The failures that are worth a revision, and those that are left alone."""

    clusters: tuple[FailureCluster, ...]
    flaky: tuple[FailureCluster, ...]


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
        tally: What trials said.
        texts: For a check, the digests of the texts whose trials speak for the prompt as it is
            now, that itself last: those since the last edit that was made for the check.
        cases: The train cases.
        checks: By name; one that is not among them counts as correctness.
        policy: What counts as flaky.
        tolerated: How often a check may fail and be flaky only, where it is not `flaky_rate`.
    """
    clusters: list[FailureCluster] = []
    flaky: list[FailureCluster] = []
    # Once an edit is taken back, the text as it is now has no trials of its own.
    names = dict.fromkeys(name for text in texts("") for name in tally.checks(text, cases))
    for name in names:
        rate = (tolerated or {}).get(name, policy.flaky_rate)
        cluster = _cluster(tally, texts(name), cases, name, policy, rate=rate)
        if cluster is not None:
            is_known = cluster.p_flaky < policy.flaky_p or cluster.p_again <= policy.again_p
            (clusters if is_known else flaky).append(cluster)

    def order(cluster: FailureCluster) -> tuple[int, int, str]:
        earlier = checks.get(cluster.check)
        return (
            _ORDER[earlier.criterion if earlier else "correctness"],
            -cluster.failures,
            cluster.check,
        )

    return Diagnosis(clusters=tuple(sorted(clusters, key=order)), flaky=tuple(flaky))


def tail(trials: int, failures: int, rate: float) -> float:
    """The probability of at least this number of failures if each trial fails at `rate`.

    >>> round(tail(3, 3, 0.1), 6)
    0.001
    """
    return sum(
        comb(trials, n) * rate**n * (1 - rate) ** (trials - n) for n in range(failures, trials + 1)
    )


def _cluster(
    tally: Tally,
    texts: Sequence[str],
    cases: Sequence[str],
    check: str,
    policy: AcceptancePolicy,
    *,
    rate: float,
) -> FailureCluster | None:
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
    codes = Counter(result.code for its in results.values() for result in its if not result.passed)
    if not codes:
        return None
    passes = {case: [result.passed for result in its] for case, its in results.items() if its}
    ranked = sorted(passes, key=lambda case: (sum(passes[case]) / len(passes[case]), case))
    failing = tuple(case for case in ranked if not all(passes[case]))
    # The later trials of the cases whose first trial failed.
    again = {case: passes[case][1:] for case in failing if not passes[case][0]}
    later = [passed for its in again.values() for passed in its]
    p_flaky = tail(sum(map(len, passes.values())), codes.total(), rate)
    p_again = tail(len(later), later.count(False), rate)
    if p_flaky >= policy.flaky_p and p_again <= policy.again_p:
        # A few cases fail every time, among many that do not: they are what is to be repaired.
        ranked = [case for case, its in again.items() if not all(its)]
    return FailureCluster(
        check=check,
        code=min(codes, key=lambda code: (-codes[code], code)),
        cases=tuple(ranked),
        failing=tuple(case for case in failing if case in ranked),
        failures=sum(passes[case].count(False) for case in ranked),
        trials=sum(len(passes[case]) for case in ranked),
        p_flaky=p_flaky,
        p_again=p_again,
    )


def better_p(tally: Tally, text: str, than: str, cases: Sequence[str], check: str) -> float:
    """The p-value that a text passes a check no more often than another, over the same cases.

    Within a case all trials are exchangeable when the texts are equally good, however hard the
    case is; see `regauge.stats.suite_p_value`.
    """
    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    return within_cases(counts, direction="better")


def worse_p(tally: Tally, text: str, than: str, cases: Sequence[str], *checks: str) -> float:
    """The p-value that a text fails any of some checks no more often than another.

    A little harm to each of several checks shows here before it shows in any.
    """
    sides = [[passed_all(checks, tally.outcomes(side, c)) for c in cases] for side in (than, text)]
    return within_cases([*zip(*sides, strict=True)], direction="worse")


def within_cases(
    counts: Sequence[tuple[Count, Count]], *, direction: Literal["better", "worse"]
) -> float:
    """The p-value of two texts' counts by case; a case without trials under either says nothing."""
    from regauge.stats import suite_p_value

    both = [pair for pair in counts if pair[0].trials and pair[1].trials]
    old, new = zip(*both, strict=True) if both else ((), ())
    return float(
        suite_p_value(
            [count.passed for count in old],
            [count.trials for count in old],
            [count.passed for count in new],
            [count.trials for count in new],
            direction=direction,
            weights=1,
        )
    )


def mean_effect(tally: Tally, text: str, than: str, cases: Sequence[str]) -> tuple[float, float]:
    """The mean gain in passed checks that both texts have, over the cases of both.

    Returns:
        The mean, and its standard error; 0 where there is no such case, or only one.
    """
    both = {*tally.checks(text, cases)} & {*tally.checks(than, cases)}
    gains = [
        score - its
        for case in cases
        if (score := tally.score(text, case, both)) is not None
        and (its := tally.score(than, case, both)) is not None
    ]
    if not gains:
        return 0.0, 0.0
    error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return fmean(gains), error


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The change of one check between two texts, over the cases that ran under both.

    Attributes:
        mean: How much more often a case passes, from -1 to 1, as a mean over the cases.
        low: Of the 95 % interval of the mean; `high` alike. Trials of one case are much alike, so
            cases count for it and not trials.
    """

    cases: int
    before: Count
    after: Count
    mean: float
    low: float
    high: float


def gain_of(tally: Tally, text: str, than: str, cases: Sequence[str], check: str) -> Gain | None:
    """The gain of a text over another; None if no case ran under both.

    The interval is Newcombe's for a difference of proportions (Statistics in Medicine 1998,
    method 10), with each case as one draw.
    """
    from regauge.stats import wilson

    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    counts = [(its, its_new) for its, its_new in counts if its.trials and its_new.trials]
    if not counts:
        return None
    number = len(counts)
    old, new = (sum(pair[side].rate for pair in counts) / number for side in (0, 1))
    before, after = (wilson(round(rate * number), number) for rate in (old, new))
    mean = new - old
    return Gain(
        cases=number,
        before=sum((its for its, _ in counts), NO_TRIALS),
        after=sum((its_new for _, its_new in counts), NO_TRIALS),
        mean=mean,
        low=max(-1.0, mean - sqrt((new - after.low) ** 2 + (before.high - old) ** 2)),
        high=min(1.0, mean + sqrt((after.high - new) ** 2 + (old - before.low) ** 2)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """The fall in the variance of a check's verdicts between two texts.

    Attributes:
        cases: Drawn at least twice under both.
        sigma_before: The standard deviation of a case's verdict, between 0 and about 0.5: the root
            of the mean of the cases' variances. `sigma_after` is that of the other text.
        fall: Of the variance, with its interval from `low` to `high`; above 0 it fell.
        steadier_p: That it fell no more than by chance.
        gain: How much more often a case passes, as a mean; below 0 it passes less often.
    """

    cases: int
    sigma_before: float
    sigma_after: float
    fall: float
    low: float
    high: float
    steadier_p: float
    gain: float

    def numbers(self) -> dict[str, float | int | str]:
        """For the trail, and for documents."""
        rounded = {name: round(value, 4) for name, value in asdict(self).items()}
        return {**rounded, "steadier_p": self.steadier_p}

    def __str__(self) -> str:
        return (
            f"sigma {self.sigma_before:.2f} before, {self.sigma_after:.2f} with it, on"
            f" {plural(self.cases, 'case')}"
        )


def steadiness_of(
    tally: Tally,
    text: str,
    than: str,
    cases: Sequence[str],
    check: str,
    *,
    confidence: float = 0.95,
) -> Steadiness | None:
    """The fall in variance under a text; None if no case ran twice under both.

    What always fails is steady, too: `gain` tells these apart.
    """
    from regauge.stats import Arms, steadier_p_value, variance_fall

    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    sides = [
        Arms(
            base_passes=its.passed,
            base_trials=its.trials,
            passes=its_new.passed,
            trials=its_new.trials,
        )
        for its, its_new in counts
    ]
    fall = variance_fall(sides, confidence=confidence)
    if fall is None:
        return None
    return Steadiness(
        cases=fall.cases,
        sigma_before=sqrt(fall.base),
        sigma_after=sqrt(fall.candidate),
        fall=fall.base - fall.candidate,
        low=fall.interval.low,
        high=fall.interval.high,
        steadier_p=steadier_p_value(sides),
        gain=fmean(
            its_new.rate - its.rate for its, its_new in counts if its.trials and its_new.trials
        ),
    )


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


def format_share(share: float) -> str:
    """A share in percent that says `100%` or `0%` only where it is exactly that.

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
        answers=_mean([agreement([o.answer for o in outcomes]) for outcomes in cases.values()]),
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
    same = [
        all(first[check] == other[check] for check in shared)
        for first, other in combinations(verdicts, 2)
        if (shared := first.keys() & other.keys())
    ]
    return [sum(same) / len(same)] if same else []


def _mean(values: Sequence[float], *, none: float = 1.0) -> float:
    return sum(values) / len(values) if values else none
