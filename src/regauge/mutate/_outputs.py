"""Differences of outputs, and the test whether a mutant's differ from the base's.

JSON is compared field by field; text by its normalised words; labels and numbers exactly.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from regauge.strict_json import read_json

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
    """An output as comparable fields; a text is the one field of itself.

    >>> fields_of('{"severity": "info", "reason": "It is full."}')
    {'severity': 'info', 'reason': ('it', 'is', 'full')}
    """
    fenced = _FENCE.match(output)
    try:
        document: object = read_json(fenced[1] if fenced else output)
    except ValueError:
        return {"": _words(output)}
    if not isinstance(document, dict | list):
        return {"": _leaf(document)}
    fields = dict(_flat(cast("object", document), ""))
    return {"(fenced)": True, **fields} if fenced else fields


def _flat(document: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(document, dict):
        fields = cast("dict[str, object]", document)
        for name, value in fields.items():
            yield from _flat(value, f"{path}.{name}" if path else name)
        if not fields:
            yield path, "{}"
    elif isinstance(document, list):
        items = cast("list[object]", document)
        yield f"{path}[]", len(items)
        for number, value in enumerate(items):
            yield from _flat(value, f"{path}[{number}]")
    else:
        yield path, _leaf(document)


def _leaf(value: object) -> object:
    if isinstance(value, str):
        # A label is one word; it counts as it is written.
        return _words(value) if len(value.split()) > 1 else value
    return value


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def differences(fields: Fields, other: Fields) -> dict[str, float]:
    """The differences of the fields of two outputs, between 0 and 1; equal fields are left out.

    >>> differences({"a": "x", "b": 1}, {"a": "x", "b": 2})
    {'b': 1.0}
    """
    shares: dict[str, float] = {}
    for name in fields.keys() | other.keys():
        value, other_value = fields.get(name), other.get(name)
        if name not in fields or name not in other or _kind(value) != _kind(other_value):
            shares[name] = 1.0
        elif value != other_value:
            shares[name] = _apart(value, other_value)
    return shares


def _kind(value: object) -> str:
    return type(value).__name__


def _apart(value: object, other: object) -> float:
    """The share of words that two texts do not have in common; 1 for other unequal values."""
    if not isinstance(value, tuple) or not isinstance(other, tuple):
        return 1.0
    a, b = Counter(cast("tuple[str, ...]", value)), Counter(cast("tuple[str, ...]", other))
    size = max(a.total(), b.total(), 1)
    return max(1.0, float(size - (a & b).total())) / size


class Outputs:
    """Compares outputs; equal texts are read once."""

    def __init__(self) -> None:
        self._fields: dict[str, Fields] = {}
        self._different: dict[tuple[str, str], Mapping[str, float]] = {}

    def apart(self, output: str, other: str, noise: Mapping[str, float] | None = None) -> float:
        """The difference of two outputs; 0 where they mean the same.

        Args:
            noise: As `noise` returns it: a field that varies anyway counts less.
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
        """The mean difference of each field between two outputs of the base for one case."""
        total: Counter[str] = Counter()
        pairs = 0
        for outputs in cases:
            count = len(outputs) * (len(outputs) - 1) // 2
            pairs += count
            if len({*outputs}) < 2:  # noqa: PLR2004 - one output differs from none
                continue
            for number, output in enumerate(outputs):
                for other in outputs[:number]:
                    self.apart(output, other)
                    key = (output, other) if output < other else (other, output)
                    total.update(self._different.get(key, {}))
        return {name: value / pairs for name, value in total.items()}

    def novel(self, output: str, known_outputs: Sequence[str]) -> bool:
        """True if an output differs from all of some others."""
        return all(self.apart(output, other) > 0 for other in {*known_outputs})

    def difference_p(
        self,
        cases: Sequence[tuple[Sequence[str], Sequence[str]]],
        *,
        noise: Mapping[str, float],
        seed: int,
    ) -> float:
        """The p-value that the mutant's outputs differ from the base's as these do from each other.

        Outputs change places between mutant and base within a case alone.

        Args:
            cases: For each case the outputs of the base and of the mutant.
        """
        rng = np.random.default_rng(seed)
        observed = 0.0
        permuted = np.zeros(_PERMUTATIONS)
        for base, mutant in cases:
            matrix = self._matrix([*base, *mutant], noise)
            if not base or not mutant or not matrix.any():
                continue
            size, own = len(matrix), len(mutant)
            truth = np.zeros((1, size))
            truth[0, len(base) :] = 1.0
            order = np.argsort(rng.random((_PERMUTATIONS, size)), axis=1)[:, :own]
            chosen = np.zeros((_PERMUTATIONS, size))
            np.put_along_axis(chosen, order, 1.0, axis=1)
            observed += float(_excess(matrix, truth)[0])
            permuted += _excess(matrix, chosen)
        # Equal sums may differ in their last binary digits.
        as_large = int(np.sum(permuted >= observed - 1e-9))
        return (1 + as_large) / (1 + _PERMUTATIONS)

    def first_trials_p(
        self,
        cases: Sequence[tuple[Sequence[str], str, bool]],
        *,
        noise: Mapping[str, float],
        seed: int,
    ) -> float:
        """The p-value of the first trials of all cases.

        Args:
            cases: For each case outputs of the base, the mutant's, and whether the first of the
                base's is the output that its baseline had each time. Then it alone is compared: a
                case was chosen for its baseline, and trials of the baseline prove nothing of it.
        """
        rng = np.random.default_rng(seed)
        observed = 0.0
        permuted = np.zeros(_PERMUTATIONS)
        for base, mutant, is_usual in cases:
            if is_usual:
                values = np.array([0.0, self.apart(base[0], mutant, noise)])
            else:
                matrix = self._matrix([*base, mutant], noise)
                values = matrix.sum(axis=1) / max(len(matrix) - 1, 1)
            if not values.any():
                continue
            observed += float(values[-1])
            permuted += values[rng.integers(len(values), size=_PERMUTATIONS)]
        as_large = int(np.sum(permuted >= observed - 1e-9))
        return (1 + as_large) / (1 + _PERMUTATIONS)

    def _fields_of(self, output: str) -> Fields:
        if output not in self._fields:
            self._fields[output] = fields_of(output)
        return self._fields[output]

    def _matrix(self, outputs: Sequence[str], noise: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array(
            [[self.apart(output, other, noise) for other in outputs] for output in outputs]
        )


def _excess(matrix: NDArray[np.float64], chosen: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance between two groups beyond the distances within them, row by row."""
    own = chosen.sum(axis=1)
    others = chosen.shape[1] - own
    reached = chosen @ matrix
    across = np.sum(reached * (1 - chosen), axis=1)
    within = np.sum(reached * chosen, axis=1)
    rest = matrix.sum() - 2 * across - within
    return np.asarray(
        2 * across / (own * others)
        - within / np.maximum(own * (own - 1), 1)
        - rest / np.maximum(others * (others - 1), 1)
    )
