"""How far two raters agree on labels: a judge and people, or a judge and itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from regauge.stats._counts import FloatArray, IntArray

Label = TypeVar("Label", bound="Hashable")
Weights = Literal["none", "linear", "quadratic"]
Side = Literal["first", "second", "tie"]

_BLOCK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfusionMatrix(Generic[Label]):
    """How often each label of one rater met each label of the other.

    Attributes:
        labels: In their order; for weighted kappa from one end of the scale to the other.
        counts: `counts[i][j]`: the first rater said label i, the second label j.
    """

    labels: tuple[Label, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        """How many items were rated."""
        return sum(map(sum, self.counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFlips:
    """What a pairwise judge does when the two answers change places.

    Attributes:
        pairs: How many pairs were judged in both orders.
        flips: Pairs with two different winners, a tie in one order alone included.
        for_first: Flips that name the answer shown first both times.
        for_second: Flips that name the answer shown second both times.
    """

    pairs: int
    flips: int
    for_first: int
    for_second: int

    @property
    def rate(self) -> float | None:
        """The share of pairs that flip, 0 to 1; None without pairs."""
        return self.flips / self.pairs if self.pairs else None


def confusion_matrix(
    first: Sequence[Label], second: Sequence[Label], *, labels: Sequence[Label] | None = None
) -> ConfusionMatrix[Label]:
    """Count the pairs of labels.

    Args:
        first: What the first rater says of each item.
        second: What the second says of the same items, in the same order.
        labels: All labels in their order; without it those that occur, as they first occur in
            `first` and then in `second`.

    Raises:
        ValueError: If the raters rated different numbers of items, a label is not in `labels`,
            or `labels` repeats one.
    """
    _check_paired(len(first), len(second))
    known = tuple(dict.fromkeys([*first, *second])) if labels is None else tuple(labels)
    place = {label: index for index, label in enumerate(known)}
    if len(place) != len(known):
        raise ValueError(f"a label is repeated: {known!r}")
    strange = [label for label in [*first, *second] if label not in place]
    if strange:
        raise ValueError(f"{strange[0]!r} is not one of the labels {known!r}")
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    for one, other in zip(first, second, strict=True):
        counts[place[one], place[other]] += 1
    return ConfusionMatrix(labels=known, counts=tuple(map(tuple, counts.tolist())))


def accuracy(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """The share of items on which both say the same, 0 to 1; None without items.

    Raises:
        ValueError: If the raters rated different numbers of items.
    """
    _check_paired(len(first), len(second))
    same = sum(one == other for one, other in zip(first, second, strict=True))
    return same / len(first) if first else None


def cohen_kappa(
    first: Sequence[Label],
    second: Sequence[Label],
    *,
    weights: Weights = "none",
    labels: Sequence[Label] | None = None,
) -> float | None:
    """Agreement beyond chance: 1 for full agreement, 0 for what chance gives, -1 at worst.

    (Cohen, Educational and Psychological Measurement 1960; weighted: Cohen, Psychological
    Bulletin 1968.) With weights a disagreement costs the distance of the labels in their order,
    or its square.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    0.5

    Args:
        first: What the first rater says of each item.
        second: What the second says of the same items, in the same order.
        weights: `linear` and `quadratic` need labels on a scale.
        labels: All labels in their order; needed for weights, where the order is the scale.

    Returns:
        None where it is not defined: without items, or when both raters use one label only.

    Raises:
        ValueError: As in `confusion_matrix`, or if weights come without labels.
    """
    if weights != "none" and labels is None:
        raise ValueError(f"{weights} weights need the labels in the order of their scale")
    matrix = confusion_matrix(first, second, labels=labels)
    if not matrix.total:
        return None
    seen = np.array(matrix.counts, dtype=np.float64) / matrix.total
    by_chance = np.outer(seen.sum(axis=1), seen.sum(axis=0))
    place = np.arange(len(matrix.labels))
    distance = np.abs(np.subtract.outer(place, place))
    power = {"none": 0, "linear": 1, "quadratic": 2}[weights]
    cost = np.where(distance > 0, distance.astype(np.float64) ** power, 0.0)
    expected = float((cost * by_chance).sum())
    return 1 - float((cost * seen).sum()) / expected if expected > 0 else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The rank correlation, -1 to 1, ties sharing their mean rank (Spearman 1904).

    >>> spearman([1, 2, 3, 4], [10, 20, 30, 25])
    0.8

    Returns:
        None where it is not defined: for fewer than two items, or when one rater never varies.

    Raises:
        ValueError: If the raters rated different numbers of items, or a value is NaN.
    """
    one, other = (_ranks(values) for values in _paired_numbers(first, second))
    # Ranks from 1 to n have the mean (n + 1) / 2, ties or not.
    middle = (one.size + 1) / 2
    one, other = one - middle, other - middle
    scale = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return _limited(float((one * other).sum()) / scale) if scale > 0 else None


def kendall_tau_b(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Concordant less discordant pairs of items, -1 to 1, corrected for ties (Kendall 1945).

    Returns:
        None where it is not defined: for fewer than two items, or when one rater never varies.

    Raises:
        ValueError: If the raters rated different numbers of items, or a value is NaN.
    """
    one, other = _paired_numbers(first, second)
    balance = untied_one = untied_other = 0
    # Every pair is met twice, which changes no ratio. Some items at a time against all: memory
    # grows with the items, not their square.
    for start in range(0, one.size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        signs_one = np.sign(one - one[rows, np.newaxis])
        signs_other = np.sign(other - other[rows, np.newaxis])
        balance += int((signs_one * signs_other).sum())
        untied_one += int(np.count_nonzero(signs_one))
        untied_other += int(np.count_nonzero(signs_other))
    scale = float(np.sqrt(float(untied_one) * float(untied_other)))
    return _limited(balance / scale) if scale > 0 else None


def position_flips(shown: Sequence[Side], exchanged: Sequence[Side]) -> PositionFlips:
    """Compare a pairwise judge's winners with those it names when the answers change places.

    (Zheng et al., "Judging LLM-as-a-judge", NeurIPS 2023: consistency and position bias.)

    >>> position_flips(["first", "first", "tie"], ["second", "first", "tie"]).flips
    1

    Args:
        shown: For each pair, which place won.
        exchanged: For the same pairs with their answers exchanged, which place won.

    Raises:
        ValueError: If there are different numbers of pairs.
    """
    _check_paired(len(shown), len(exchanged))
    pairs = list(zip(shown, exchanged, strict=True))
    consistent = {("first", "second"), ("second", "first"), ("tie", "tie")}
    return PositionFlips(
        pairs=len(pairs),
        flips=sum(pair not in consistent for pair in pairs),
        for_first=pairs.count(("first", "first")),
        for_second=pairs.count(("second", "second")),
    )


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: IntArray = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _paired_numbers(
    first: Sequence[float], second: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    _check_paired(len(first), len(second))
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if np.isnan(one).any() or np.isnan(other).any():
        raise ValueError("a rating is NaN")
    return one, other


def _check_paired(first: int, second: int) -> None:
    if first != second:
        raise ValueError(f"the raters rated {first} and {second} items; it must be the same ones")


def _limited(correlation: float) -> float:
    """Take off what rounding put beyond -1 and 1."""
    return min(1.0, max(-1.0, correlation))
