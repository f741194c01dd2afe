"""The agreement of two raters on labels: a judge and users, or a judge and itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from regauge.stats._intervals import FloatArray, IntArray

Label = TypeVar("Label", bound="Hashable")
Weights = Literal["none", "linear", "quadratic"]
# Takes the count of each item in each sample, shape (samples, items), and returns the value of each
# sample, NaN if undefined, as `bootstrap_interval` requires.
Sampled: TypeAlias = "Callable[[IntArray], FloatArray]"
Side = Literal["first", "second", "tie"]

# Rows of all pairs at once: memory grows with it, and time hardly falls above.
_BLOCK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfusionMatrix(Generic[Label]):
    """The counts of all pairs of labels from two raters.

    Attributes:
        labels: All labels; for weighted kappa in the order of the scale.
        counts: `counts[i][j]`: items with label i by the first rater and j by the second.
    """

    labels: tuple[Label, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        """The number of rated items."""
        return sum(map(sum, self.counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFlips:
    """The flips of a pairwise judge when two outputs are exchanged.

    Attributes:
        pairs: The number of pairs judged in both orders.
        flips: Pairs with two different winners, including a tie in one order.
        for_first: Flips in favour of the output shown first.
        for_second: Flips in favour of the output shown second.
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
        first: The first rater's label of each item.
        second: The second rater's labels of the same items, in the same order.
        labels: All labels in their order; None for those that occur, in order of occurrence in
            `first` and then in `second`.

    Raises:
        ValueError: If the raters rated different numbers of items, a label is not in `labels`,
            or `labels` repeats one.
    """
    _check_paired(len(first), len(second))
    names = tuple(dict.fromkeys([*first, *second])) if labels is None else tuple(labels)
    place = {label: index for index, label in enumerate(names)}
    if len(place) != len(names):
        raise ValueError(f"a label is repeated: {names!r}")
    strange = [label for label in [*first, *second] if label not in place]
    if strange:
        raise ValueError(f"{strange[0]!r} is not one of the labels {names!r}")
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    for a, b in zip(first, second, strict=True):
        counts[place[a], place[b]] += 1
    return ConfusionMatrix(labels=names, counts=tuple(map(tuple, counts.tolist())))


def of_all(statistic: Sampled, items: int) -> float | None:
    """The value of a statistic over all items; None if undefined."""
    value = float(statistic(np.ones((1, items), dtype=np.int64))[0])
    return None if np.isnan(value) else value


def accuracy(first: Sequence[Hashable], second: Sequence[Hashable]) -> Sampled:
    """The share of items with the same label from both raters, 0 to 1; undefined without items.

    Raises:
        ValueError: If the raters rated different numbers of items.
    """
    _check_paired(len(first), len(second))
    matches = np.array([a == b for a, b in zip(first, second, strict=True)], dtype=float)
    return lambda samples: _ratio(
        np.asarray(samples @ matches, dtype=np.float64), samples.sum(axis=1).astype(np.float64)
    )


def cohen_kappa(
    first: Sequence[Label],
    second: Sequence[Label],
    *,
    weights: Weights = "none",
    labels: Sequence[Label] | None = None,
) -> Sampled:
    """Agreement beyond chance: 1 for full agreement, 0 for chance, -1 at worst.

    (Cohen, Educational and Psychological Measurement 1960; weighted: Cohen, Psychological
    Bulletin 1968.) With weights a disagreement costs the distance of the labels in their order,
    or its square. It is undefined without items, or if both raters use one label only.

    >>> of_all(cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"]), 4)
    0.5

    Args:
        first: The first rater's label of each item.
        second: The second rater's labels of the same items, in the same order.
        weights: `linear` and `quadratic` need labels on a scale.
        labels: All labels in the order of the scale; required for weights.

    Raises:
        ValueError: As in `confusion_matrix`, or if weights come without labels.
    """
    if weights != "none" and labels is None:
        raise ValueError(f"{weights} weights need the labels in the order of their scale")
    names = confusion_matrix(first, second, labels=labels).labels
    place = {label: index for index, label in enumerate(names)}
    cells = [place[a] * len(names) + place[b] for a, b in zip(first, second, strict=True)]
    within = np.eye(len(names) ** 2)[np.array(cells, dtype=np.int64)]
    places = np.arange(len(names))
    distance = np.abs(np.subtract.outer(places, places))
    power = {"none": 0, "linear": 1, "quadratic": 2}[weights]
    cost = np.where(distance > 0, distance.astype(np.float64) ** power, 0.0)

    def statistic(samples: IntArray) -> FloatArray:
        counts = (samples @ within).reshape(len(samples), len(names), len(names))
        # A sample without items has no counts, and so no disagreement by chance.
        seen = counts / np.maximum(samples.sum(axis=1), 1)[:, np.newaxis, np.newaxis]
        by_chance = seen.sum(axis=2)[:, :, np.newaxis] * seen.sum(axis=1)[:, np.newaxis, :]
        expected = (cost * by_chance).sum(axis=(1, 2))
        return 1 - _ratio((cost * seen).sum(axis=(1, 2)), expected)

    return statistic


def spearman(first: Sequence[float], second: Sequence[float]) -> Sampled:
    """The rank correlation, -1 to 1, with mean ranks for ties (Spearman 1904).

    >>> of_all(spearman([1, 2, 3, 4], [10, 20, 30, 25]), 4)
    0.8

    It is undefined for fewer than two items, or if one rater never varies.

    Raises:
        ValueError: If the raters rated different numbers of items, or a value is NaN.
    """
    a, b, kind = _kinds(first, second)
    levels = [np.unique(values, return_inverse=True)[1] for values in (a, b)]

    def statistic(samples: IntArray) -> FloatArray:
        counts = _sums(samples, kind)
        # Ranks from 1 to n have the mean (n + 1) / 2, ties or not.
        middle = (counts.sum(axis=1, keepdims=True) + 1) / 2
        ranks: list[FloatArray] = []
        for level in levels:
            of_level = _sums(counts, level)
            # Equal values share the mean of their ranks.
            ranks.append((np.cumsum(of_level, axis=1) - (of_level - 1) / 2)[:, level] - middle)
        first_ranks, second_ranks = ranks
        scale = np.sqrt(
            (counts * first_ranks**2).sum(axis=1) * (counts * second_ranks**2).sum(axis=1)
        )
        return _clip(_ratio((counts * first_ranks * second_ranks).sum(axis=1), scale))

    return statistic


def kendall_tau_b(first: Sequence[float], second: Sequence[float]) -> Sampled:
    """Concordant less discordant pairs of items, -1 to 1, corrected for ties (Kendall 1945).

    It is undefined for fewer than two items, or if one rater never varies.

    Raises:
        ValueError: If the raters rated different numbers of items, or a value is NaN.
    """
    a, b, kind = _kinds(first, second)

    def statistic(samples: IntArray) -> FloatArray:
        counts = _sums(samples, kind)
        balance, untied_one, untied_other = (np.zeros(len(samples)) for _ in range(3))
        # Every pair counts twice, which changes no ratio. Items are processed in blocks, so memory
        # grows with their number, not its square.
        for start in range(0, a.size, _BLOCK):
            rows = slice(start, start + _BLOCK)
            signs_one = np.sign(a[:, np.newaxis] - a[rows])
            signs_other = np.sign(b[:, np.newaxis] - b[rows])
            balance += (counts @ (signs_one * signs_other) * counts[:, rows]).sum(axis=1)
            untied_one += (counts @ np.abs(signs_one) * counts[:, rows]).sum(axis=1)
            untied_other += (counts @ np.abs(signs_other) * counts[:, rows]).sum(axis=1)
        return _clip(_ratio(balance, np.sqrt(untied_one * untied_other)))

    return statistic


def position_flips(original: Sequence[Side], exchanged: Sequence[Side]) -> PositionFlips:
    """Compare a pairwise judge's winners with those for exchanged outputs.

    (Zheng et al., "Judging LLM-as-a-judge", NeurIPS 2023: consistency and position bias.)

    >>> position_flips(["first", "first", "tie"], ["second", "first", "tie"]).flips
    1

    Args:
        original: The winning place of each pair.
        exchanged: The winning place of the same pairs with their outputs exchanged.

    Raises:
        ValueError: If there are different numbers of pairs.
    """
    _check_paired(len(original), len(exchanged))
    pairs = list(zip(original, exchanged, strict=True))
    consistent = {("first", "second"), ("second", "first"), ("tie", "tie")}
    return PositionFlips(
        pairs=len(pairs),
        flips=sum(pair not in consistent for pair in pairs),
        for_first=pairs.count(("first", "first")),
        for_second=pairs.count(("second", "second")),
    )


def _ratio(part: FloatArray, total: FloatArray) -> FloatArray:
    """The ratio, NaN if the total is 0."""
    ratio = np.full(part.shape, np.nan)
    np.divide(part, total, out=ratio, where=total > 0)
    return ratio


def _sums(counts: IntArray | FloatArray, kind: IntArray) -> FloatArray:
    """The sum of counts for each kind; every kind from 0 on has an item."""
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
    sums: FloatArray = np.add.reduceat(counts[:, order].astype(np.float64), starts, axis=1)
    return sums


def _kinds(
    first: Sequence[float], second: Sequence[float]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Both ratings of each kind, and the kind of each item."""
    _check_paired(len(first), len(second))
    rated = np.array([first, second], dtype=np.float64)
    if np.isnan(rated).any():
        raise ValueError("a rating is NaN")
    kinds, kind = np.unique(rated, axis=1, return_inverse=True)
    return kinds[0], kinds[1], kind.reshape(-1)


def _check_paired(first: int, second: int) -> None:
    if first != second:
        raise ValueError(f"the raters rated {first} and {second} items; it must be the same ones")


def _clip(correlations: FloatArray) -> FloatArray:
    """Clip rounding errors beyond -1 and 1."""
    return np.clip(correlations, -1.0, 1.0)
