"""What an edit gained, on trials that chose nothing: counts, and an interval for the gain."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from regauge.gate import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.evidence._tally import Tally

__all__ = ["Gain", "gain_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How one check did under two texts, over the cases that were drawn under both.

    Attributes:
        cases: How many cases that are.
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
    """What a text gained over another; None where no case was drawn under both.

    The interval is Newcombe's for a difference of proportions (Statistics in Medicine 1998,
    method 10), with each case as one draw.
    """
    from regauge.stats import wilson

    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    counts = [(its, mine) for its, mine in counts if its.trials and mine.trials]
    if not counts:
        return None
    number = len(counts)
    old, new = (sum(pair[side].rate for pair in counts) / number for side in (0, 1))
    before, after = (wilson(round(rate * number), number) for rate in (old, new))
    mean = new - old
    return Gain(
        cases=number,
        before=sum((its for its, _ in counts), NONE_DRAWN),
        after=sum((mine for _, mine in counts), NONE_DRAWN),
        mean=mean,
        low=max(-1.0, mean - sqrt((new - after.low) ** 2 + (before.high - old) ** 2)),
        high=min(1.0, mean + sqrt((after.high - new) ** 2 + (old - before.low) ** 2)),
    )
