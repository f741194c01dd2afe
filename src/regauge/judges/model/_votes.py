"""Several votes on one answer, and the one score they make."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REDUCERS", "Ballot", "Reducer", "check_reducer", "count"]

Reducer = Literal["median", "mean", "majority", "min", "all"]

REDUCERS: tuple[Reducer, ...] = get_args(Reducer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """What votes come to.

    Attributes:
        score: From 0 to 1; for `majority` and `all` the share of votes that pass.
        passes: Whether that passes.
        agreement: The share of votes that say pass or fail as most of them do.
    """

    score: float
    passes: bool
    agreement: float


def check_reducer(reducer: str, *, judge: str) -> None:
    """Refuse a word that is no reducer.

    Raises:
        UsageError: It is none.
    """
    if reducer not in REDUCERS:
        known = ", ".join(REDUCERS)
        raise UsageError(f"{judge}: no reducer {reducer!r}\n  fix: write one of {known}")


def count(scores: Sequence[float], reducer: Reducer, *, at_least: float) -> Ballot:
    """Make one score of several, at least one.

    >>> count([1.0, 0.5, 0.0], "median", at_least=0.5).passes
    True
    >>> count([1.0, 1.0, 0.0], "all", at_least=0.5).passes
    False
    """
    passing = sum(score >= at_least for score in scores)
    share = passing / len(scores)
    agreement = max(share, 1 - share)
    match reducer:
        case "majority":
            return Ballot(score=share, passes=2 * passing > len(scores), agreement=agreement)
        case "all":
            return Ballot(score=share, passes=passing == len(scores), agreement=agreement)
        case "median":
            score = statistics.median(scores)
        case "mean":
            score = statistics.fmean(scores)
        case "min":
            score = min(scores)
    return Ballot(score=score, passes=score >= at_least, agreement=agreement)
