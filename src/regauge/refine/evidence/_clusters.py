"""What fails reproducibly, grouped by check and kind of failure; what is merely flaky, apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import comb
from types import MappingProxyType
from typing import TYPE_CHECKING

from regauge.gate import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.criteria import Criterion
    from regauge.refine._policy import TestPolicy
    from regauge.refine.evidence._tally import Tally

__all__ = ["Check", "Cluster", "Diagnosis", "diagnose", "tail"]

# Structure first, then content, then wording: an answer of the wrong form hides what it says.
_ORDER: dict[Criterion, int] = {"format": 0, "completeness": 1, "correctness": 2, "relevance": 3}

_TOLERATED: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One judge as the loop knows it.

    Attributes:
        advice: The instruction that a prompt should hold for this check, as its author or its
            kind of rule would say it; empty where nobody can say.
        description: What the check wants, in words.
    """

    name: str
    criterion: Criterion = "correctness"
    advice: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Failures of one check that are more than chance, or that make it flaky.

    Attributes:
        code: The commonest kind of failure among them.
        cases: The train cases the check applies to, those that fail most first.
        failing: Of these, the ones that failed at least once.
        failures: Of `trials`.
        p_flaky: How likely so many failures are of a check that is only flaky.
        p_again: How likely the cases that failed first fail again so often, if it is only flaky.
        unsteady: Whether they pass now and then, so that an edit has to make them steady.
    """

    check: str
    code: str
    cases: tuple[str, ...]
    failing: tuple[str, ...]
    failures: int
    trials: int
    p_flaky: float
    p_again: float = 1.0
    unsteady: bool = False

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return f"{self.check}/{self.code}" if self.code else self.check


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is worth a revision, what is left alone."""

    clusters: tuple[Cluster, ...]
    flaky: tuple[Cluster, ...]


def diagnose(
    tally: Tally,
    texts: Callable[[str], Sequence[str]],
    cases: Sequence[str],
    checks: Mapping[str, Check],
    policy: TestPolicy,
    *,
    tolerated: Mapping[str, float] = _TOLERATED,
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
    clusters: list[Cluster] = []
    flaky: list[Cluster] = []
    # Once an edit is taken back, the text as it is now has no trials of its own.
    names = dict.fromkeys(name for text in texts("") for name in tally.checks(text, cases))
    for name in names:
        rate = tolerated.get(name, policy.flaky_rate)
        cluster = _cluster(tally, texts(name), cases, name, policy, rate=rate)
        if cluster is not None:
            is_known = cluster.p_flaky < policy.flaky_p or cluster.p_again <= policy.again_p
            (clusters if is_known else flaky).append(cluster)

    def order(cluster: Cluster) -> tuple[int, int, str]:
        known = checks.get(cluster.check)
        return _ORDER[known.criterion if known else "correctness"], -cluster.failures, cluster.check

    return Diagnosis(clusters=tuple(sorted(clusters, key=order)), flaky=tuple(flaky))


def tail(trials: int, failures: int, rate: float) -> float:
    """How likely at least so many failures are, when each trial fails at `rate`.

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
    policy: TestPolicy,
    *,
    rate: float,
) -> Cluster | None:
    counts = {
        case: sum((tally.check(text, case, check) for text in texts), NONE_DRAWN) for case in cases
    }
    counts = {case: count for case, count in counts.items() if count.trials}
    failures = sum(count.failed for count in counts.values())
    trials = sum(count.trials for count in counts.values())
    if not failures:
        return None
    codes = Counter(
        said.code
        for case in counts
        for text in texts
        for outcome in tally.failures(text, case, check)
        for said in outcome.checks
        if said.check == check
    )
    ranked = sorted(counts, key=lambda case: (counts[case].rate, case))
    failing = tuple(case for case in ranked if counts[case].failed)
    p_flaky = tail(trials, failures, rate)
    again, repeated = _again(tally, texts, failing, check)
    p_again = tail(again.trials, again.failed, rate)
    if p_flaky >= policy.flaky_p and p_again <= policy.again_p:
        # A few cases fail every time, among many that do not: they are what is to be repaired.
        ranked = repeated
    return Cluster(
        check=check,
        code=min(codes, key=lambda code: (-codes[code], code)),
        cases=tuple(ranked),
        failing=tuple(case for case in failing if case in ranked),
        failures=sum(counts[case].failed for case in ranked),
        trials=sum(counts[case].trials for case in ranked),
        p_flaky=p_flaky,
        p_again=p_again,
    )


def _again(
    tally: Tally, texts: Sequence[str], failing: Sequence[str], check: str
) -> tuple[Count, list[str]]:
    """The later trials of the cases whose first trial failed, and those that failed again."""
    later = NONE_DRAWN
    repeated: list[str] = []
    for case in failing:
        said = [
            one.passed
            for text in texts
            for outcome in tally.seen.get((text, case), ())
            for one in outcome.checks
            if one.check == check
        ]
        if said[0]:
            continue
        later += Count(passed=sum(said[1:]), trials=len(said) - 1)
        if not all(said[1:]):
            repeated.append(case)
    return later, repeated
