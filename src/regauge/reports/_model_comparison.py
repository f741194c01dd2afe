"""Several models on the same cases: the pass rate of each, and its difference to the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.reports._record import ModelComparison, RunRecord

    # By case: how many of its measured trials passed, and how many there are.
    CaseCounts = Mapping[tuple[str, str], tuple[int, int]]

# Models are compared to inform, and nothing is blocked: the usual level.
_LEVEL = 0.05


def compare_models(models: Sequence[CaseCounts]) -> list[ModelComparison]:
    """Compare models with the first, case by case.

    The rate is the mean over cases. The p-value is two-sided and comes from the gate's exact test
    within cases, with equal weights; it is multiplied by the number of models that are compared
    with the first.

    Args:
        models: The counts of each model; a case without a measured trial is left out.
    """
    return [
        _compared(model, models[0] if number else None, tests=len(models) - 1)
        for number, model in enumerate(models)
    ]


def _compared(counts: CaseCounts, first: CaseCounts | None, *, tests: int) -> ModelComparison:
    # Loads numpy, which a run of one model does not need.
    from regauge.reports._record import ModelComparison
    from regauge.stats import rate_difference, suite_p_value, wilson

    rates = [passed / trials for passed, trials in counts.values()]
    interval = wilson(sum(rates), len(rates))
    rate = sum(rates) / len(rates) if rates else None
    own = ModelComparison(rate=rate, low=interval.low, high=interval.high)
    both = [key for key in first or () if key in counts]
    if first is None or not both:
        return own
    arms = [
        [tallies[key][place] for key in both] for tallies in (first, counts) for place in (0, 1)
    ]
    comparison = rate_difference(*arms)
    assert comparison is not None, "every case has trials of both"
    worse, better = (
        float(suite_p_value(*arms, weights=1, direction=direction))
        for direction in ("worse", "better")
    )
    p_value = min(1.0, 2 * tests * min(worse, better))
    significant = p_value <= _LEVEL
    return own.model_copy(
        update={
            "cases": len(both),
            "difference": comparison.value,
            "difference_low": comparison.low,
            "difference_high": comparison.high,
            "p_value": p_value,
            "outcome": ("worse" if worse < better else "better") if significant else "not shown",
        }
    )


def models_of(record: RunRecord) -> dict[str, list[str]]:
    """By prompt, the models that a run compares on its cases, the first first."""
    models: dict[str, dict[str, None]] = {}
    for suite in record.suites:
        if suite.comparison is not None:
            models.setdefault(suite.prompt, {})[suite.model] = None
    return {prompt: list(named) for prompt, named in models.items()}


def rate_text(comparison: ModelComparison) -> str:
    """A pass rate with its 95 % interval."""
    if comparison.rate is None:
        return "-"
    return (
        f"{100 * comparison.rate:.0f} % ({100 * comparison.low:.0f} to {100 * comparison.high:.0f})"
    )


def difference_text(comparison: ModelComparison) -> str:
    """The difference to the first model in points, with its 95 % interval and p-value."""
    if comparison.difference is None:
        return "-"
    low, high = 100 * comparison.difference_low, 100 * comparison.difference_high
    points = f"{100 * comparison.difference:+.1f} points ({low:.1f} to {high:.1f})"
    word = f"{comparison.outcome}, " if comparison.outcome != "not shown" else ""
    p_value = "p < 0.001" if comparison.p_value < 0.001 else f"p = {comparison.p_value:.2g}"  # noqa: PLR2004 - in the text
    return f"{points}, {word}{p_value}"
