"""Permutation tests within cases: of a suite, scores, the spread of verdicts, recordings."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb, lcm, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from regauge.stats._intervals import (
    FloatArray,
    IntArray,
    Interval,
    count_array,
    tallies,
    two_sides,
    upper_tails,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from regauge.stats._intervals import Direction


def failure_weight(fails: ArrayLike, trials: ArrayLike) -> IntArray:
    """The weight of one failure of a case: 3, 2 or 1, larger for rarer failures.

    3 up to a tenth of all trials, of both sides, 2 up to a fifth, 1 above. It depends on what both
    sides share alone, so permuting trials between them leaves it as it is and the test stays exact.

    >>> failure_weight([0, 2, 3, 13], 13).tolist()
    [3, 2, 1, 1]

    Raises:
        ValueError: If there are more fails than trials, or a count is not whole or below 0.
    """
    failed, drawn = tallies(fails, trials, of="a case (fails)")
    return np.where(10 * failed <= drawn, 3, np.where(5 * failed <= drawn, 2, 1))


def suite_p_value(
    base_passes: ArrayLike,
    base_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    direction: Direction = "worse",
    weights: ArrayLike | None = None,
) -> FloatArray:
    """The exact one-sided p-value that the candidate fails more than the base.

    A stratum holds trials that are exchangeable between the sides if the prompt changed nothing:
    all trials of a case, or those of a case in one round, where both sides ran side by side. Given
    the fails of a stratum, the candidate's share of them is hypergeometric; the statistic is the
    weighted sum of the candidate's fails, and its distribution is the convolution of these
    (Fisher, "The design of experiments", 1935, for one stratum; Mantel & Haenszel, JNCI 1959, and
    Gart, Biometrika 1970, for several).

    >>> p = suite_p_value([12] * 100, 12, [0] * 4 + [1] * 96, 1)
    >>> bool(np.isclose(p, 13.0**-4))
    True

    Args:
        base_passes: Passes of base, one per stratum on the last axis; axes before it are suites of
            their own.
        base_trials: Trials of the base; a stratum with none carries no information.
        passes: Passes of the candidate.
        trials: Trials of the candidate: the same rounds for every case, never more for suspects.
        direction: `better` tests for fewer fails: the same with passes and fails exchanged.
        weights: Weight of a failure in each stratum, whole numbers of at least 1 that depend on
            what both sides share; `failure_weight` of the pooled counts if None, which finds small
            drops spread over stable cases far more often than equal weights.

    Returns:
        Between 0 and 1, in the common shape without the last axis; 1 when nothing can be said.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    sides = two_sides(base_passes, base_trials, passes, trials)
    s, m, k, r = (np.atleast_1d(side) for side in sides)
    if direction == "better":
        s, k = m - s, r - k
    shape = s.shape[:-1]
    rows = (int(np.prod(shape)), s.shape[-1])
    fails, drawn = (r - k).reshape(rows), r.reshape(rows)
    pooled, trials_of_all = (m - s + r - k).reshape(rows), (m + r).reshape(rows)
    weight = failure_weight(pooled, trials_of_all)
    if weights is not None:
        weight = np.broadcast_to(count_array(weights, name="weights"), s.shape).reshape(rows)
    # Where all trials agree, or one side has none, permuting them changes nothing.
    informs = (pooled > 0) & (pooled < trials_of_all) & (drawn > 0) & (drawn < trials_of_all)
    tables = np.stack([pooled, trials_of_all, drawn, weight], axis=-1)[informs]
    if not tables.size:
        return np.ones(shape)
    distinct, which = np.unique(_pack(tables), return_inverse=True)
    kinds = len(distinct)
    where = np.nonzero(informs)[0] * kinds + which
    parts = np.bincount(where, minlength=rows[0] * kinds).reshape(rows[0], kinds)
    observed = np.sum(np.where(informs, weight * fails, 0), axis=1)
    pmfs, least = _hypergeometric(_unpack(distinct))
    return upper_tails(pmfs, parts, observed - parts @ least).reshape(shape)


def expected_failures(
    base_passes: ArrayLike, base_trials: ArrayLike, trials: ArrayLike
) -> FloatArray:
    """The candidate's trials that would fail at the rate of the base's record.

    >>> float(expected_failures([12, 9, 0], 12, 1))
    1.25

    Args:
        base_passes: Passes of the base, one per case on the last axis.
        base_trials: Trials of the base; a case with none counts nothing.
        trials: Trials of the candidate.

    Returns:
        The sum over the last axis.

    Raises:
        ValueError: As in `suite_p_value`.
    """
    s, m, _, r = two_sides(base_passes, base_trials, 0, trials)
    return np.asarray(np.sum(r * (m - s) / np.maximum(m, 1), axis=-1), dtype=np.float64)


# A stratum has fewer trials than this, and a weight below 1,000.
_TRIALS_MOST = 1 << 17


def _pack(tables: IntArray) -> IntArray:
    """Each row (fails, trials, drawn, weight) as one number: whole rows sort far more slowly."""
    if int(tables[:, 1].max()) >= _TRIALS_MOST:
        raise ValueError(f"a stratum must have fewer than {_TRIALS_MOST:,} trials")
    fails, trials, drawn, weight = tables.T
    return np.asarray(
        ((weight * _TRIALS_MOST + fails) * _TRIALS_MOST + trials) * _TRIALS_MOST + drawn
    )


def _unpack(packed: IntArray) -> IntArray:
    rest, drawn = np.divmod(packed, _TRIALS_MOST)
    rest, trials = np.divmod(rest, _TRIALS_MOST)
    weight, fails = np.divmod(rest, _TRIALS_MOST)
    return np.stack([fails, trials, drawn, weight], axis=-1)


def _hypergeometric(tables: IntArray) -> tuple[FloatArray, IntArray]:
    """The weighted fails of the candidate for each row (fails, trials of both, drawn, weight).

    Each starts at 0; the fails that the candidate has at least, weighted, are given apart. The
    binomial coefficients are whole numbers, divided once: each probability is as exact as a float
    can be.
    """
    fails, trials, drawn, weight = tables.T
    least = np.maximum(0, drawn - (trials - fails))
    width = int((weight * (np.minimum(fails, drawn) - least)).max()) + 1
    pmfs = np.zeros((tables.shape[0], width))
    for row, (failed, of_both, taken, heavy) in enumerate(tables.tolist()):
        ways = comb(of_both, taken)
        start = max(0, taken - (of_both - failed))
        for j in range(start, min(failed, taken) + 1):
            share = comb(failed, j) * comb(of_both - failed, taken - j) / ways
            pmfs[row, heavy * (j - start)] = share
    return pmfs, np.asarray(weight * least)


# Keeps a case whose scores hardly vary from deciding alone; in units of the score.
SPREAD_FLOOR = 0.02
# Up to here all choices of the candidate's trials are listed once, and then drawn from.
_CHOICES_LISTED = 5_000


def score_p_value(
    base: Sequence[ArrayLike],
    candidate: Sequence[ArrayLike],
    *,
    seed: int,
    direction: Direction = "worse",
    permutations: int = 10_000,
    min_effect: float = 0.0,
) -> float:
    """The one-sided p-value that the candidate's scores are lower than the base's.

    The statistic is the sum over cases of the candidate's mean score divided by the standard
    deviation of all scores of the case plus 0.02. Scores are permuted between the sides within
    each case (Pitman, JRSS Supplement 1937); the arrangement seen counts as one of those drawn,
    so the p-value is valid for any number of permutations (Phipson & Smyth, SAGMB 2010).

    >>> score_p_value([[0.9, 0.8, 0.9]] * 8, [[0.2]] * 8, seed=1, permutations=999)
    0.001

    Args:
        base: For each case, the scores of the base between 0 and 1; cases may differ in number.
        candidate: For each case of `base`, in its order, the scores of the candidate.
        seed: Of the permutations; one seed gives one p-value. At least 0.
        direction: `better` asks whether the scores are higher.
        permutations: How many are drawn, at least 1; no p-value is below 1/(permutations + 1).
        min_effect: How much lower scores may be and not count: the candidate's are moved by so
            much to the good side first. At least 0.

    Returns:
        Above 0 and at most 1; 1 when no case has scores of both sides that differ.

    Raises:
        ValueError: If the sides have different numbers of cases, a score is outside 0 to 1 or not
            a number, or an option is out of range.
    """
    if len(base) != len(candidate):
        raise ValueError(f"base has scores of {len(base)} cases, the candidate of {len(candidate)}")
    if permutations < 1 or min_effect < 0:
        raise ValueError("permutations must be at least 1 and min_effect at least 0")
    rng = np.random.default_rng(seed)
    seen = 0.0
    permuted = np.zeros(permutations)
    for before, after in zip(base, candidate, strict=True):
        old, new = _scores(before), _scores(after)
        if direction == "better":
            old, new = 1 - old, 1 - new
        both = np.concatenate([old, new + min_effect])
        if not old.size or not new.size or np.ptp(both) == 0:
            continue
        drawn = new.size
        scaled = both / (drawn * (float(np.std(both)) + SPREAD_FLOOR))
        seen += float(np.sum(scaled[old.size :]))
        permuted += _sums_of_choices(scaled, drawn, permutations, rng)
    # Sums in another order differ in their last digits; a tie must count as one.
    tie = 1e-9 * max(1.0, abs(seen))
    as_low = int(np.count_nonzero(permuted <= seen + tie))
    return (1 + as_low) / (1 + permutations)


def _sums_of_choices(
    values: FloatArray, drawn: int, times: int, rng: np.random.Generator
) -> FloatArray:
    """Sums of `drawn` of the values, chosen at random without replacement; shape (times,)."""
    if comb(values.size, drawn) <= _CHOICES_LISTED:
        chosen: IntArray = np.array(list(combinations(range(values.size), drawn)), dtype=np.int64)
        sums = values[chosen].sum(axis=1)
        return np.take(sums, rng.integers(0, sums.size, times))
    order = np.argsort(rng.random((times, values.size)), axis=1)
    return np.asarray(values[order[:, :drawn]].sum(axis=1), dtype=np.float64)


def _scores(values: ArrayLike) -> FloatArray:
    scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if scores.ndim != 1 or not np.all((scores >= 0) & (scores <= 1)):
        raise ValueError(f"scores of a case must be a list of numbers from 0 to 1, not {values!r}")
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Passes of one case in trials of the base and of the candidate."""

    base_passes: int
    base_trials: int
    passes: int
    trials: int

    def __post_init__(self) -> None:
        for passes, trials in (
            (self.base_passes, self.base_trials),
            (self.passes, self.trials),
        ):
            if not 0 <= passes <= trials:
                raise ValueError(f"{passes} of {trials} trials cannot have passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceFall:
    """The mean fall in the variance of a case's verdicts under the candidate.

    Attributes:
        base: The mean variance under base; `candidate` alike. Their roots are standard deviations.
        interval: Of `base - candidate`; above 0 the candidate is steadier.
        cases: How many cases have two trials under both.
    """

    base: float
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

    >>> round(steadier_p_value([Arms(base_passes=4, base_trials=8, passes=8, trials=8)] * 2), 4)
    0.0015

    Returns:
        Between 0 and 1; 1 where no case has two trials under both.
    """
    open_cases = [case for case in _select_measured(cases) if 0 < _pooled_passes(case) < _all(case)]
    # Whole numbers keep equal sums equal.
    unit = lcm(*(_pairs(n) for case in open_cases for n in (case.base_trials, case.trials)))
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
    """The mean fall in variance under the candidate, with an interval.

    The sample variance of k draws has the variance (m - v^2 (k - 3)/(k - 1))/k, where v and m are
    the second and fourth central moments (Mood, Graybill & Boes, "Introduction to the theory of
    statistics", 1974, chapter VI); of verdicts these are p (1 - p) and v (1 - 3 v). For p a pass
    and a fail are added to what was counted (Agresti & Caffo, American Statistician 2000), or
    else few equal verdicts would look certain. The sum over cases and both sides is taken as
    normal. Cases are taken as given; it is their trials that are a sample.

    Args:
        cases: Those with fewer than two trials under either side say nothing.
        confidence: Above 0 and below 1.

    Returns:
        None where no case says anything.
    """
    measured = [*_select_measured(cases)]
    if not measured:
        return None
    number = len(measured)
    base = sum(verdict_variance(case.base_passes, case.base_trials) for case in measured) / number
    candidate = sum(verdict_variance(case.passes, case.trials) for case in measured) / number
    error = sum(
        _error(case.base_passes, case.base_trials) + _error(case.passes, case.trials)
        for case in measured
    )
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * sqrt(error) / number
    fall = base - candidate
    return VarianceFall(
        base=base,
        candidate=candidate,
        interval=Interval(low=fall - half, high=fall + half),
        cases=number,
    )


def _error(passes: int, trials: int) -> float:
    """The variance of `verdict_variance`."""
    rate = (passes + 1) / (trials + 2)
    variance = rate * (1 - rate)
    return variance * (1 - variance * (4 * trials - 6) / (trials - 1)) / trials


def _select_measured(cases: Sequence[Arms]) -> Iterator[Arms]:
    return (case for case in cases if min(case.base_trials, case.trials) > 1)


def _pooled_passes(case: Arms) -> int:
    return case.base_passes + case.passes


def _all(case: Arms) -> int:
    return case.base_trials + case.trials


def _pairs(trials: int) -> int:
    return trials * (trials - 1)


def _fall(case: Arms, unit: int) -> int:
    """The fall of the variance, in parts of a unit."""
    base = case.base_passes * (case.base_trials - case.base_passes)
    candidate = case.passes * (case.trials - case.passes)
    return base * (unit // _pairs(case.base_trials)) - candidate * (unit // _pairs(case.trials))


def _falls(case: Arms, unit: int) -> Iterator[tuple[int, int]]:
    """The possible falls with the same verdicts dealt differently, and their frequencies."""
    pooled = _pooled_passes(case)
    for passes in range(max(0, pooled - case.base_trials), min(pooled, case.trials) + 1):
        dealt = replace(case, base_passes=pooled - passes, passes=passes)
        ways = comb(pooled, passes) * comb(_all(case) - pooled, case.trials - passes)
        yield _fall(dealt, unit), ways


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    """One step of an audit.

    Attributes:
        passed: The share of recorded passes that is repeated, with those of the steps before.
        failed: The same of recorded failures.
        level: Up to this p-value the recordings are better than fresh trials.
        further: Up to this p-value the next step follows.
    """

    passed: Fraction
    failed: Fraction
    level: float
    further: float = 0.0

    def shares(self, recorded: int, *, least: int = 20) -> tuple[Fraction, Fraction]:
        """The shares for this number of recorded trials, of which at least `least` are repeated.

        >>> AUDIT_STEPS[0].shares(40)
        (Fraction(1, 2), Fraction(3, 5))
        """
        passed = max(self.passed, min(Fraction(1), Fraction(least, max(recorded, 1))))
        return passed, max(self.failed, passed)


FULL_AUDIT: Final = (AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.01),)
"""Every recorded trial is compared: fresh ones are there."""

AUDIT_STEPS: Final = (
    AuditStep(passed=Fraction(1, 10), failed=Fraction(3, 5), level=0.003, further=0.20),
    AuditStep(passed=Fraction(2, 5), failed=Fraction(1), level=0.003, further=0.20),
    AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.004),
)
"""Few recorded trials are repeated, and more where these leave a doubt. The levels sum to 1 %."""


def audit_p_value(
    better: int,
    worse: int,
    *,
    passed: Fraction = Fraction(1),
    failed: Fraction = Fraction(1),
) -> float:
    """The exact one-sided p-value that recorded trials pass more often than fresh ones.

    A recorded trial and a fresh one of the same request are exchangeable if no one selected.
    Among the pairs that differ, each is then as likely to have passed first as second; repeating
    passes and failures in different shares shifts the odds by their ratio.

    >>> audit_p_value(8, 0), audit_p_value(0, 3)
    (0.00390625, 1.0)
    >>> round(audit_p_value(4, 1, passed=Fraction(1, 10), failed=Fraction(3, 5)), 5)
    0.00184

    Args:
        better: Pairs whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        passed: The share of recorded passes that was repeated.
        failed: The share of recorded failures that was repeated.
    """
    trials = better + worse
    rate = passed / (passed + failed)
    tail = sum(
        comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(better, trials + 1)
    )
    return float(tail) if better else 1.0
