"""What trials say for and against an edit: exact tests within cases, and mean effects."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from regauge.refine.evidence._goals import passed_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.evidence._tally import Tally

__all__ = ["better_p", "mean_effect", "worse_p", "worse_together_p"]


def better_p(tally: Tally, text: str, than: str, cases: Sequence[str], check: str) -> float:
    """The p-value that a text passes a check no more often than another, over the same cases.

    Within a case all trials are exchangeable when the texts are equally good, however hard the
    case is; see `regauge.stats.suite_p_value`.
    """
    return _within_cases(tally, text, than, cases, check, better=True)


def worse_p(tally: Tally, text: str, than: str, cases: Sequence[str], check: str) -> float:
    """The p-value that a text fails a check no more often than another."""
    return _within_cases(tally, text, than, cases, check, better=False)


def worse_together_p(
    tally: Tally, text: str, than: str, cases: Sequence[str], checks: Sequence[str]
) -> float:
    """The p-value that a text fails any of several checks no more often than another.

    A little harm to each of them shows here before it shows in any.
    """
    return _p_of(
        [
            (
                passed_all(checks, tally.since(than, case, 0)),
                passed_all(checks, tally.since(text, case, 0)),
            )
            for case in cases
        ],
        better=False,
    )


def mean_effect(tally: Tally, text: str, than: str, cases: Sequence[str]) -> tuple[float, float]:
    """How much more of the checks pass that both texts have, as a mean over the cases of both.

    Returns:
        The mean, and its standard error; 0 where there is no such case, or only one.
    """
    both = {*tally.checks(text, cases)} & {*tally.checks(than, cases)}
    gains = [
        mine - its
        for case in cases
        if (mine := tally.score(text, case, both)) is not None
        and (its := tally.score(than, case, both)) is not None
    ]
    if not gains:
        return 0.0, 0.0
    error = stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return fmean(gains), error


def _within_cases(
    tally: Tally, text: str, than: str, cases: Sequence[str], check: str, *, better: bool
) -> float:
    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    return _p_of(counts, better=better)


def _p_of(counts: Sequence[tuple[Count, Count]], *, better: bool) -> float:
    """Of what two texts passed of each case, the second one's last."""
    from regauge.stats import suite_p_value

    counts = [(its, mine) for its, mine in counts if its.trials and mine.trials]
    if not counts:
        return 1.0
    return float(
        suite_p_value(
            [its.passed for its, _ in counts],
            [its.trials for its, _ in counts],
            [mine.passed for _, mine in counts],
            [mine.trials for _, mine in counts],
            direction="better" if better else "worse",
            weights=1,
        )
    )
