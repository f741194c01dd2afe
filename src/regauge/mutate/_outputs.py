"""Differences of outputs, and the test whether a mutant's outputs differ from the base's.

JSON is compared field by field; text by its normalised words; labels and numbers exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from regauge.strict_json import is_list, is_mapping, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Fields: TypeAlias = "Mapping[str, object]"

_WORD = re.compile(r"\w+")
_FENCE = re.compile(r"\A\s*```\w*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
# The smallest p-value is 1 / 4,000, far below the level of either stage.
_PERMUTATIONS = 3999
# A field that never varied on the base counts 50 times one that always does.
_STEADY = 0.02


def fields_of(output: str) -> Fields:
    """Return an output as comparable fields; a text is a single field.

    >>> fields_of('{"severity": "info", "reason": "It is full."}')
    {'severity': 'info', 'reason': ('it', 'is', 'full')}
    """
    fence = _FENCE.match(output)
    try:
        document: object = read_json(fence[1] if fence else output)
    except ValueError:
        return {"": _words(output)}
    if not (is_mapping(document) or is_list(document)):
        return {"": _leaf(document)}
    fields = dict(_flat(document, ""))
    return {"(fenced)": True, **fields} if fence else fields


def _flat(document: object, path: str) -> Iterator[tuple[str, object]]:
    if is_mapping(document):
        for name, value in document.items():
            yield from _flat(value, f"{path}.{name}" if path else name)
        if not document:
            yield path, "{}"
    elif is_list(document):
        yield f"{path}[]", len(document)
        for number, value in enumerate(document):
            yield from _flat(value, f"{path}[{number}]")
    else:
        yield path, _leaf(document)


def _leaf(value: object) -> object:
    if isinstance(value, str):
        # A label is one word; it is compared exactly.
        return _words(value) if len(value.split()) > 1 else value
    return value


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def differences(fields: Fields, other: Fields) -> dict[str, float]:
    """Return the differences of two outputs by field, from 0 to 1; equal fields are left out.

    >>> differences({"a": "x", "b": 1}, {"a": "x", "b": 2})
    {'b': 1.0}
    """
    shares: dict[str, float] = {}
    for name in fields.keys() | other.keys():
        value, other_value = fields.get(name), other.get(name)
        if name not in fields or name not in other or _kind(value) != _kind(other_value):
            shares[name] = 1.0
        elif value != other_value:
            shares[name] = _word_distance(value, other_value)
    return shares


def _kind(value: object) -> str:
    return type(value).__name__


def _word_distance(value: object, other: object) -> float:
    """Return the share of words that differ between two texts; 1 for other unequal values."""
    if not isinstance(value, tuple) or not isinstance(other, tuple):
        return 1.0
    a, b = Counter(cast("tuple[str, ...]", value)), Counter(cast("tuple[str, ...]", other))
    size = max(a.total(), b.total(), 1)
    return max(1.0, float(size - (a & b).total())) / size


class Outputs:
    """Comparison of outputs; equal texts are parsed once."""

    def __init__(self) -> None:
        self._fields: dict[str, Fields] = {}
        self._different: dict[tuple[str, str], Mapping[str, float]] = {}

    def distance(self, output: str, other: str, noise: Mapping[str, float] | None = None) -> float:
        """Return the difference of two outputs; 0 if they are equivalent.

        Args:
            output: An output.
            other: Another output.
            noise: From `noise`: a field that varies anyway counts less.
        """
        if output == other:
            return 0.0
        key = (output, other) if output < other else (other, output)
        if key not in self._different:
            self._different[key] = differences(self._fields_of(output), self._fields_of(other))
        distances = self._different[key]
        noise = noise or {}
        return sum(value / (_STEADY + noise.get(name, 0.0)) for name, value in distances.items())

    def noise(self, cases: Iterable[Sequence[str]]) -> dict[str, float]:
        """Return the mean difference of each field between two outputs of the base for one case."""
        total: Counter[str] = Counter()
        pairs = 0
        for outputs in cases:
            count = len(outputs) * (len(outputs) - 1) // 2
            pairs += count
            if len({*outputs}) < 2:  # noqa: PLR2004 - one output differs from none
                continue
            for number, output in enumerate(outputs):
                for other in outputs[:number]:
                    self.distance(output, other)
                    key = (output, other) if output < other else (other, output)
                    total.update(self._different.get(key, {}))
        return {name: value / pairs for name, value in total.items()}

    def is_novel(self, output: str, known_outputs: Sequence[str]) -> bool:
        """Return whether an output differs from all of the others."""
        return all(self.distance(output, other) > 0 for other in {*known_outputs})

    def difference_p_value(
        self,
        cases: Sequence[tuple[Sequence[str], Sequence[str]]],
        *,
        noise: Mapping[str, float],
        seed: int,
    ) -> float:
        """Return the p-value of a difference between the mutant's outputs and the base's.

        Outputs are permuted between mutant and base within each case.

        Args:
            cases: For each case the outputs of the base and of the mutant.
            noise: From `noise`.
            seed: The seed of the permutations.
        """
        rng = np.random.default_rng(seed)
        excess = 0.0
        permuted_excess = np.zeros(_PERMUTATIONS)
        for base, mutant in cases:
            matrix = self._matrix([*base, *mutant], noise)
            if not base or not mutant or not matrix.any():
                continue
            size, mutant_size = len(matrix), len(mutant)
            truth = np.zeros((1, size))
            truth[0, len(base) :] = 1.0
            order = np.argsort(rng.random((_PERMUTATIONS, size)), axis=1)[:, :mutant_size]
            groups = np.zeros((_PERMUTATIONS, size))
            np.put_along_axis(groups, order, 1.0, axis=1)
            excess += float(_excess(matrix, truth)[0])
            permuted_excess += _excess(matrix, groups)
        # Equal sums may differ in their last binary digits.
        as_large = int(np.sum(permuted_excess >= excess - 1e-9))
        return (1 + as_large) / (1 + _PERMUTATIONS)

    def first_trials_p_value(
        self,
        cases: Sequence[tuple[Sequence[str], str, bool]],
        *,
        noise: Mapping[str, float],
        seed: int,
    ) -> float:
        """Return the p-value for the first trials of all cases.

        Args:
            cases: For each case the outputs of the base, the mutant's, and whether the base's first
                is the only output of its baseline. Then only that one is compared: the baseline
                selected the case, so its trials are not evidence.
            noise: From `noise`.
            seed: The seed of the permutations.
        """
        rng = np.random.default_rng(seed)
        distance = 0.0
        permuted_distance = np.zeros(_PERMUTATIONS)
        for base, mutant, is_usual in cases:
            if is_usual:
                values = np.array([0.0, self.distance(base[0], mutant, noise)])
            else:
                matrix = self._matrix([*base, mutant], noise)
                values = matrix.sum(axis=1) / max(len(matrix) - 1, 1)
            if not values.any():
                continue
            distance += float(values[-1])
            permuted_distance += values[rng.integers(len(values), size=_PERMUTATIONS)]
        as_large = int(np.sum(permuted_distance >= distance - 1e-9))
        return (1 + as_large) / (1 + _PERMUTATIONS)

    def _fields_of(self, output: str) -> Fields:
        if output not in self._fields:
            self._fields[output] = fields_of(output)
        return self._fields[output]

    def _matrix(self, outputs: Sequence[str], noise: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array(
            [[self.distance(output, other, noise) for other in outputs] for output in outputs]
        )


def _excess(matrix: NDArray[np.float64], groups: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance between two groups beyond the distances within them, row by row."""
    group_size = groups.sum(axis=1)
    rest_size = groups.shape[1] - group_size
    group_distances = groups @ matrix
    across = np.sum(group_distances * (1 - groups), axis=1)
    within = np.sum(group_distances * groups, axis=1)
    rest = matrix.sum() - 2 * across - within
    return np.asarray(
        2 * across / (group_size * rest_size)
        - within / np.maximum(group_size * (group_size - 1), 1)
        - rest / np.maximum(rest_size * (rest_size - 1), 1)
    )
