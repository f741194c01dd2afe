"""The numbers of every statistic over a grid of counts, to six digits."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from regauge import stats
from regauge.stats import AnchorPolicy, CasePolicy, CriticalPolicy, NetPolicy, SuitePolicy
from tests.transcripts import assert_as_written

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = [
    (passes, trials) for trials in (0, 1, 2, 3, 5, 12, 30) for passes in {0, 1, trials // 2, trials}
]
SOME = sorted({(passes, trials) for passes, trials in COUNTS if passes <= trials})
DRAWN = [one for one in SOME if one[1]]
# Passes and trials of the base and the candidate, of a few cases each.
SUITES = {
    "equal": ([12, 12, 9], [12, 12, 12], [3, 3, 2], [3, 3, 3]),
    "worse": ([12, 12, 9, 5], [12, 12, 12, 10], [1, 2, 0, 0], [3, 3, 3, 1]),
    "better": ([0, 6, 9], [12, 12, 12], [3, 3, 3], [3, 3, 3]),
    "one each": ([12] * 6 + [3] * 2, [12] * 8, [1, 1, 0, 1, 0, 1, 0, 0], [1] * 8),
    "one case": ([20], [24], [4], [12]),
    "some undrawn": ([12, 0, 3], [12, 0, 12], [0, 1, 0], [2, 2, 0]),
    "none": ([], [], [], []),
}


def shown(value: object) -> str:
    """A number to six digits, and what holds numbers alike."""
    match value:
        case bool() | int() | str() | None:
            return str(value)
        case float():
            return f"{value:.6g}"
        case Fraction():
            return str(value)
        case np.ndarray() | np.generic():
            return shown(value.tolist())
        case list() | tuple():
            return f"[{', '.join(map(shown, value))}]"
        case _:
            names = type(value).__dataclass_fields__  # type: ignore[attr-defined]
            return ", ".join(f"{name} {shown(getattr(value, name))}" for name in names)


def of_counts() -> Iterator[str]:
    for passes, trials in SOME:
        if trials:
            yield (
                f"{passes} of {trials}: wilson {shown(stats.wilson(passes, trials))};"
                f" 80 % {shown(stats.wilson(passes, trials, confidence=0.8))}; exact"
                f" {shown(stats.clopper_pearson(passes, trials))}; 80 %"
                f" {shown(stats.clopper_pearson(passes, trials, confidence=0.8))}; flaky"
                f" {shown(stats.flaky_probability(passes, trials))}, between 20 and 70 %"
                f" {shown(stats.flaky_probability(passes, trials, low=0.2, high=0.7))}; rule of three"
                f" {shown(stats.rule_of_three(trials))}"
            )
        bounds = [stats.failures_needed(passes, trials, log_bound=bound) for bound in (1, 4, 8)]
        weights = stats.failure_weight(trials - passes, trials)
        yield f"{passes} of {trials}: failures needed {shown(bounds)}, weight {shown(weights)}"


def of_evidence() -> Iterator[str]:
    for base, candidate in product(SOME, DRAWN):
        worse = stats.log_e_value(*base, *candidate)
        better = stats.log_e_value(*base, *candidate, direction="better")
        drift = stats.log_drift_ratio(candidate, baseline=base, candidate=(0, 5))
        yield (
            f"{base} {candidate}: worse {shown(float(worse))}, better {shown(float(better))},"
            f" drift {shown(float(drift))}"
        )
    for values, checks in product(([5000.0, 900.0, 1.0], [41.0, 40.0, 20.0], [1.0]), (3, 100)):
        bound = stats.e_bh(np.log(values), alpha=0.05, checks=checks)
        yield f"e-BH {values} of {checks}: {shown(bound)}, {shown(bound.is_reached(np.log(values)))}"
    two = stats.e_bh(np.log([[900.0, 50.0], [10.0, 70.0]]), alpha=0.1)
    yield f"e-BH of two families: {shown(two)}"


def of_suites() -> Iterator[str]:
    for name, (s, m, k, r) in SUITES.items():
        expected = stats.expected_failures(s, m, r)
        yield f"{name}: expected failures {shown(float(expected))}"
        for direction in ("worse", "better"):
            p_value = stats.suite_p_value(s, m, k, r, direction=direction)
            equal = stats.suite_p_value(s, m, k, r, direction=direction, weights=1)
            yield f"{name}: {direction} {shown(float(p_value))}, equal {shown(float(equal))}"
        yield f"{name}: difference {shown(stats.rate_difference(s, m, k, r))}"
        yield f"{name}: at 80 % {shown(stats.rate_difference(s, m, k, r, confidence=0.8))}"


def of_audits() -> Iterator[str]:
    for better, worse in ((0, 0), (1, 0), (4, 1), (8, 0), (0, 3), (9, 7)):
        yield f"{better} better, {worse} worse: {shown(stats.audit_p_value(better, worse))}"
        for step in (*stats.AUDIT_STEPS, *stats.FULL_AUDIT):
            p_value = stats.audit_p_value(better, worse, passed=step.passed, failed=step.failed)
            yield f"    {shown(step)}: {shown(p_value)}"
    for step, recorded in product(stats.AUDIT_STEPS, (0, 10, 40, 500)):
        shares = step.shares(recorded), step.shares(recorded, least=5)
        yield f"shares of {recorded}: {shown(shares)}"


def of_scores() -> Iterator[str]:
    old, new = [[0.9, 0.8, 0.9], [0.5], [0.2, 0.3]], [[0.7, 0.6], [0.5, 0.4], []]
    many = [[number / 20 for number in range(20)]] * 3
    for base, candidate in ((old, new), (new, old), (many, [side[::2] for side in many])):
        for direction, low in product(("worse", "better"), (0.0, 0.15)):
            p_value = stats.score_p_value(
                base,
                candidate,
                seed=4,
                direction=direction,  # type: ignore[arg-type]
                permutations=499,
                min_effect=low,
            )
            yield f"{direction} by {low}: {shown(p_value)}"


def of_raters() -> Iterator[str]:
    first, second = [1, 2, 3, 3, 2, 1, 4, 4, 1], [1, 3, 3, 2, 2, 1, 4, 3, 2]
    size = len(first)
    statistics = {
        "accuracy": stats.accuracy(first, second),
        "kappa": stats.cohen_kappa(first, second),
        "linear": stats.cohen_kappa(first, second, weights="linear", labels=[1, 2, 3, 4]),
        "quadratic": stats.cohen_kappa(first, second, weights="quadratic", labels=[1, 2, 3, 4]),
        "spearman": stats.spearman(first, second),
        "kendall": stats.kendall_tau_b(first, second),
    }
    for name, statistic in statistics.items():
        interval = stats.bootstrap_interval(statistic, size, seed=3, resamples=300)
        yield f"{name}: {shown(stats.of_all(statistic, size))}, {shown(interval)}"
    yield f"matrix {shown(stats.confusion_matrix(first, second))}"
    flips = stats.position_flips(
        ["first", "first", "tie", "second"], ["second", "first", "tie", "tie"]
    )
    yield f"flips {shown(flips)}, rate {shown(flips.rate)}"


def of_policies() -> Iterator[str]:
    for policy in (SuitePolicy(extra_pairs=(4, 3)), NetPolicy(extra_pairs=(4,))):
        looks = [
            [
                policy.pairs_of_look(look, cases=cases, first_trials=first)
                for look in range(len(policy.pairs) + 1)
            ]
            for cases, first in ((5, 1), (29, 3), (30, 3), (200, 1))
        ]
        yield f"pairs {shown(looks)}"
    yield f"levels {shown(SuitePolicy(extra_pairs=(4, 3)).levels)}, {shown(NetPolicy(extra_pairs=(4,)).all_levels)}"
    yield f"rounds {[SuitePolicy().extra_round(first) for first in (1, 2, 3, 7)]}"
    case = CasePolicy(extra_steps=(5,))
    yield f"steps {case.all_steps}, cap {case.cap}"
    yield f"bounds {shown([case.log_bound(9, broken=broken) for broken in (1, 3, 9)])}"
    for critical in (CriticalPolicy(), CriticalPolicy(strict=True), CriticalPolicy(failures=1)):
        answers = [(critical.count_trials(n), critical.blocks(n)) for n in range(4)]
        yield f"critical {shown(answers)}"
    kept = [AnchorPolicy().trials_of(cases, baseline_trials=12) for cases in (1, 16, 17, 90)]
    yield f"anchors {kept}"
    sizes = (0, 1, 4, 5, 7, 14, 16, 17, 39, 66, 67, 100, 199, 200, 201)
    yield f"first draws {[stats.auto_first_trials(cases) for cases in sizes]}"
    yield f"baselines {[stats.auto_baseline_trials(cases) for cases in sizes]}"


@pytest.mark.parametrize(
    "numbers",
    [of_counts, of_evidence, of_suites, of_audits, of_scores, of_raters, of_policies],
    ids=lambda numbers: numbers.__name__,
)
def test_the_numbers_are_those_that_were_written_down(numbers):
    assert_as_written("\n".join([*numbers(), ""]), f"stats/{numbers.__name__}")


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (lambda: CasePolicy(alpha=0.0), "alpha"),
        (lambda: CasePolicy(alpha=1.01), "alpha"),
        (lambda: CasePolicy(steps=()), "steps"),
        (lambda: CasePolicy(late_steps=(0,)), "steps"),
        (lambda: CasePolicy(extra_steps=(0,)), "steps"),
        (lambda: CasePolicy(confirm=0.0), "above 0"),
        (lambda: CasePolicy(late_from=0.0), "above 0"),
        (lambda: CasePolicy(control_min=-1), "control_min"),
        (lambda: CasePolicy().log_bound(3, broken=0), "broken"),
        (lambda: CasePolicy().log_bound(3, broken=4), "broken"),
        (lambda: SuitePolicy(extend=0.0), "extend"),
        (lambda: SuitePolicy(screen=()), "rounds"),
        (lambda: SuitePolicy(pairs=()), "rounds"),
        (lambda: SuitePolicy(futile=()), "rounds"),
        (lambda: SuitePolicy(futile=(1.5,)), "level"),
        (lambda: SuitePolicy(extra_pairs=(0,)), "pairs"),
        (lambda: SuitePolicy(small=-1), "small"),
        (lambda: SuitePolicy(control=-1), "control"),
        (lambda: NetPolicy(better=0.0), "level"),
        (lambda: NetPolicy(pairs=(2,)), "each look"),
        (lambda: NetPolicy(extra_pairs=(0,)), "each look"),
        (lambda: CriticalPolicy(first=0), "critical"),
        (lambda: CriticalPolicy(extra=-1), "critical"),
        (lambda: CriticalPolicy(failures=0), "critical"),
        (lambda: CriticalPolicy(failures=9), "critical"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy, fault: str):
    with pytest.raises(ValueError, match=fault):
        policy()


def test_a_policy_may_be_as_small_as_it_can():
    assert CasePolicy(alpha=1.0, steps=(1,), late_steps=(), control_min=0).cap == 1
    assert SuitePolicy(small=0, control=0, pairs=(1,), screen=(1.0,)).rounds == 1
    assert CriticalPolicy(first=1, extra=0, failures=1).blocks(1)
    assert CriticalPolicy(first=3, extra=5, failures=8).blocks(8)
