"""Whether verdicts of the same case vary less under a candidate than under main."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import comb, lcm, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from regauge.stats._intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Passes of one case in trials of main and of the candidate."""

    main_passes: int
    main_trials: int
    passes: int
    trials: int

    def __post_init__(self) -> None:
        for passes, trials in (
            (self.main_passes, self.main_trials),
            (self.passes, self.trials),
        ):
            if not 0 <= passes <= trials:
                raise ValueError(f"{passes} of {trials} trials cannot have passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceFall:
    """How much less the verdicts of a case vary under the candidate, as a mean over cases.

    Attributes:
        main: The mean variance under main; `candidate` alike. Their roots are standard deviations.
        interval: Of `main - candidate`; above 0 the candidate is steadier.
        cases: How many cases have two trials under both.
    """

    main: float
    candidate: float
    interval: Interval
    cases: int


def verdict_variance(passes: int, trials: int) -> float:
    """The unbiased estimate of p (1 - p), the variance of a verdict that passes at the rate p.

    It is the sample variance of zeros and ones, and half the share of pairs of trials whose
    verdicts differ; 0 where there is no pair.

    >>> verdict_variance(3, 4)
    0.25
    """
    return passes * (trials - passes) / _pairs(trials) if trials > 1 else 0.0


def steadier_p_value(cases: Sequence[Arms]) -> float:
    """The exact one-sided p-value that verdicts vary no less under the candidate.

    The statistic is the sum over cases of the fall of `verdict_variance`. With an unchanged
    prompt all trials of a case are exchangeable, so the passes among the candidate's are
    hypergeometric, case by case, and the sum's distribution is the convolution of these: a
    permutation test (Pitman, JRSS Supplement 1937) that permutes within cases alone, so that it
    does not matter how much cases differ or how alike trials of one case are.

    It does not ask in which direction verdicts went: what always fails is steady as well.

    >>> round(steadier_p_value([Arms(main_passes=4, main_trials=8, passes=8, trials=8)] * 2), 4)
    0.0015

    Returns:
        Between 0 and 1; 1 where no case has two trials under both.
    """
    open_cases = [case for case in _measured(cases) if 0 < _pooled(case) < _all(case)]
    # Whole numbers keep equal sums equal.
    unit = lcm(*(_pairs(n) for case in open_cases for n in (case.main_trials, case.trials)))
    observed = sum(_fall(case, unit) for case in open_cases)
    reached = {0: 1}
    for case in open_cases:
        after: defaultdict[int, int] = defaultdict(int)
        for fall, ways in _falls(case, unit):
            for total, before in reached.items():
                after[total + fall] += before * ways
        reached = after
    as_steady = sum(ways for total, ways in reached.items() if total >= observed)
    return as_steady / sum(reached.values())


def variance_fall(cases: Sequence[Arms], *, confidence: float = 0.95) -> VarianceFall | None:
    """How much less verdicts vary under the candidate, with an interval.

    The sample variance of k draws has the variance (m - v^2 (k - 3)/(k - 1))/k, where v and m are
    the second and fourth central moments (Mood, Graybill & Boes, "Introduction to the theory of
    statistics", 1974, chapter VI); of verdicts these are p (1 - p) and v (1 - 3 v). For p a pass
    and a fail are added to what was counted (Agresti & Caffo, American Statistician 2000), or
    else few equal verdicts would look certain. The sum over cases and both arms is taken as
    normal. Cases are taken as given; it is their trials that are a sample.

    Args:
        cases: Those with fewer than two trials under either arm say nothing.
        confidence: Above 0 and below 1.

    Returns:
        None where no case says anything.
    """
    known = [*_measured(cases)]
    if not known:
        return None
    number = len(known)
    main = sum(verdict_variance(case.main_passes, case.main_trials) for case in known) / number
    candidate = sum(verdict_variance(case.passes, case.trials) for case in known) / number
    error = sum(
        _error(case.main_passes, case.main_trials) + _error(case.passes, case.trials)
        for case in known
    )
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * sqrt(error) / number
    fall = main - candidate
    return VarianceFall(
        main=main,
        candidate=candidate,
        interval=Interval(low=fall - half, high=fall + half),
        cases=number,
    )


def _error(passes: int, trials: int) -> float:
    """The variance of `verdict_variance`."""
    rate = (passes + 1) / (trials + 2)
    variance = rate * (1 - rate)
    return variance * (1 - variance * (4 * trials - 6) / (trials - 1)) / trials


def _measured(cases: Sequence[Arms]) -> Iterator[Arms]:
    return (case for case in cases if min(case.main_trials, case.trials) > 1)


def _pooled(case: Arms) -> int:
    return case.main_passes + case.passes


def _all(case: Arms) -> int:
    return case.main_trials + case.trials


def _pairs(trials: int) -> int:
    return trials * (trials - 1)


def _fall(case: Arms, unit: int) -> int:
    """How much the variance falls, in parts of a unit."""
    main = case.main_passes * (case.main_trials - case.main_passes)
    candidate = case.passes * (case.trials - case.passes)
    return main * (unit // _pairs(case.main_trials)) - candidate * (unit // _pairs(case.trials))


def _falls(case: Arms, unit: int) -> Iterator[tuple[int, int]]:
    """What the fall could have been with the same verdicts dealt otherwise, and how often."""
    pooled = _pooled(case)
    for passes in range(max(0, pooled - case.main_trials), min(pooled, case.trials) + 1):
        dealt = replace(case, main_passes=pooled - passes, passes=passes)
        ways = comb(pooled, passes) * comb(_all(case) - pooled, case.trials - passes)
        yield _fall(dealt, unit), ways
