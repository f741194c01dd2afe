"""Whether a check passes a case as good as always where it passed it only sometimes."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.evidence._tally import Tally

__all__ = ["Steadiness", "steadiness_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """How much less the verdicts of a check vary under one text than under another.

    Attributes:
        cases: Drawn at least twice under both.
        sigma_before: The standard deviation of a case's verdict, between 0 and about 0.5: the root
            of the mean of the cases' variances. `sigma_after` is that of the other text.
        low: Of the interval of the variance's fall; `high` alike. Above 0 it fell.
        p: That it fell no more than by chance.
        gain: How much more often a case passes, as a mean; below 0 it passes less often.
    """

    cases: int
    sigma_before: float
    sigma_after: float
    low: float
    high: float
    p: float
    gain: float

    @property
    def fall(self) -> float:
        """How much smaller the variance is."""
        return self.sigma_before**2 - self.sigma_after**2

    def numbers(self) -> dict[str, float | int | str]:
        """For the trail, and for documents."""
        return {
            "cases": self.cases,
            "sigma_before": round(self.sigma_before, 4),
            "sigma_after": round(self.sigma_after, 4),
            "fall": round(self.fall, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "steadier_p": self.p,
            "gain": round(self.gain, 4),
        }

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
    """How much steadier a check is under a text; None where no case was drawn twice under both.

    What always fails is steady, too: `gain` tells these apart.
    """
    from regauge.stats import Arms, steadier_p_value, variance_fall

    counts = [(tally.check(than, case, check), tally.check(text, case, check)) for case in cases]
    arms = [
        Arms(
            main_passes=its.passed,
            main_trials=its.trials,
            passes=mine.passed,
            trials=mine.trials,
        )
        for its, mine in counts
    ]
    fall = variance_fall(arms, confidence=confidence)
    if fall is None:
        return None
    return Steadiness(
        cases=fall.cases,
        sigma_before=sqrt(fall.main),
        sigma_after=sqrt(fall.candidate),
        low=fall.interval.low,
        high=fall.interval.high,
        p=steadier_p_value(arms),
        gain=fmean(mine.rate - its.rate for its, mine in counts if its.trials and mine.trials),
    )
