"""JSON values compared in part and scored by field."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from regauge.errors import UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import number, shown, value_text
from regauge.judges._json_text import JsonFault, kind_of, same
from regauge.judges._path import Steps, parse_path
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import resolve_in, rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._likeness import share
from regauge.judges.rules._text import normaliser
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from regauge.digests import JSON

__all__ = ["Comparison", "check_tolerance", "is_close", "json_like", "match_pairs"]

Extra = Literal["keys", "all", "none"]

# Pairs of list entries that are compared for their best order; longer lists pair off in order.
_PAIRS_MAX = 10_000


def is_close(left: float, right: float, *, within: float, relative: float) -> bool:
    """Compare two numbers; those beyond the range of a float must be equal.

    >>> is_close(0.1 + 0.2, 0.3, within=0, relative=1e-9)
    True
    """
    try:
        return math.isclose(left, right, rel_tol=relative, abs_tol=within)
    except OverflowError:
        return left == right


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One compared part of a value.

    Attributes:
        path: Its place, such as `steps[0].command`.
        weight: The number of scalar values in it.
        problem: The difference; empty for an equal part.
    """

    path: str
    weight: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two JSON values are compared.

    Attributes:
        extra: What may come on top: further `keys` of objects, `all` (entries of lists, too), or
            `none`.
        ordered: Entries of lists must have the same order.
        relative: How far numbers may differ, as a share of the larger one.
        ignored: Paths that are not compared; without indexes, they apply to every list entry.
        simplify: Applied to texts before they are compared.
    """

    extra: Extra = "keys"
    ordered: bool = True
    relative: float = 1e-9
    ignored: frozenset[Steps] = frozenset()
    simplify: Callable[[str], str] = str

    def equal(self, wanted: JSON, found: JSON) -> bool:
        """Compare two scalar values."""
        if isinstance(wanted, str) and isinstance(found, str):
            return self.simplify(wanted) == self.simplify(found)
        if _is_number(wanted) and _is_number(found):
            return is_close(
                cast("float", wanted), cast("float", found), within=0, relative=self.relative
            )
        return same(wanted, found)

    def parts(self, wanted: JSON, found: JSON, at: Steps = ()) -> Iterator[Part]:
        """Compare two values, part by part."""
        if self._is_ignored(at):
            return
        if isinstance(wanted, Mapping):
            if isinstance(found, Mapping):
                yield from self._objects(wanted, found, at)
                return
        elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
            if isinstance(found, Sequence) and not isinstance(found, str):
                yield from self._lists(wanted, found, at)
                return
        elif self.equal(wanted, found):
            yield Part(path=_path(at), weight=1)
            return
        problem = f"is {_value(found)}, not {_value(wanted)}"
        yield Part(path=_path(at), weight=self._weight(wanted, at), problem=problem)

    def _objects(
        self, wanted: Mapping[str, JSON], found: Mapping[str, JSON], at: Steps
    ) -> Iterator[Part]:
        for key, value in wanted.items():
            if key in found:
                yield from self.parts(value, found[key], (*at, key))
            elif weight := self._weight(value, (*at, key)):
                yield Part(path=_path((*at, key)), weight=weight, problem="is missing")
        further = [key for key in found if key not in wanted] if self.extra == "none" else []
        for key in further:
            if not self._is_ignored((*at, key)):
                yield Part(path=_path((*at, key)), weight=1, problem="is not expected")
        if not wanted and not further:
            yield Part(path=_path(at), weight=1)

    def _lists(self, wanted: Sequence[JSON], found: Sequence[JSON], at: Steps) -> Iterator[Part]:
        pairs = self._pairs(wanted, found, at)
        taken = {place for place in pairs if place is not None}
        for place, (value, other) in enumerate(zip(wanted, pairs, strict=True)):
            here = (*at, place)
            if other is not None:
                yield from self.parts(value, found[other], here)
            elif weight := self._weight(value, here):
                yield Part(path=_path(here), weight=weight, problem="is missing")
        further = [] if self.extra == "all" else [n for n in range(len(found)) if n not in taken]
        for place in further:
            yield Part(
                path=_path((*at, place)),
                weight=1,
                problem=f"is not expected: {_value(found[place])}",
            )
        if not wanted and not further:
            yield Part(path=_path(at), weight=1)

    def _pairs(self, wanted: Sequence[JSON], found: Sequence[JSON], at: Steps) -> list[int | None]:
        """The place in `found` that each entry of `wanted` is compared with."""
        in_order = self.ordered and self.extra != "all"
        if in_order or len(wanted) * len(found) > _PAIRS_MAX:
            return [place if place < len(found) else None for place in range(len(wanted))]
        scores = [
            [self._score(value, other, (*at, place)) for other in found]
            for place, value in enumerate(wanted)
        ]
        return _best_sequence(scores) if self.ordered else _best_pairs(scores)

    def _score(self, wanted: JSON, found: JSON, at: Steps) -> float:
        parts = [*self.parts(wanted, found, at)]
        total = sum(part.weight for part in parts)
        return sum(part.weight for part in parts if not part.problem) / total if total else 1.0

    def _is_ignored(self, at: Steps) -> bool:
        if not self.ignored:
            return False
        return (
            at in self.ignored
            or tuple(step for step in at if isinstance(step, str)) in self.ignored
        )

    def _weight(self, value: JSON, at: Steps) -> int:
        """The number of scalar values in a value; an empty list or object is one."""
        if self._is_ignored(at):
            return 0
        if isinstance(value, Mapping):
            return sum(self._weight(part, (*at, key)) for key, part in value.items()) or 1
        if isinstance(value, Sequence) and not isinstance(value, str):
            return sum(self._weight(part, (*at, n)) for n, part in enumerate(value)) or 1
        return 1


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _path(at: Steps) -> str:
    text = ""
    for step in at:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step and not any(mark in step for mark in ".[]\"'"):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text or "the value"


def _value(value: JSON) -> str:
    return value_text(value) if len(str(value)) <= 80 else f"another {kind_of(value)}"  # noqa: PLR2004


def _best_sequence(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """The pairs with the highest total score whose places rise."""
    width = len(scores[0]) if scores else 0
    best = [[0.0] * (width + 1) for _ in range(len(scores) + 1)]
    for row in range(len(scores) - 1, -1, -1):
        for column in range(width - 1, -1, -1):
            best[row][column] = max(
                scores[row][column] + best[row + 1][column + 1],
                best[row + 1][column],
                best[row][column + 1],
            )
    pairs: list[int | None] = [None] * len(scores)
    row = column = 0
    while row < len(scores) and column < width:
        if best[row][column] == best[row][column + 1]:
            column += 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            pairs[row] = column
            row, column = row + 1, column + 1
    return pairs


def match_pairs(fits: Sequence[Sequence[bool]]) -> dict[int, int]:
    """As many pairs of a row and a column that fit as there are, by row.

    >>> match_pairs([[True, True], [True, False]])
    {1: 0, 0: 1}
    """
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, fit in enumerate(fits[row]):
            if not fit or column in seen:
                continue
            seen.add(column)
            if column not in owner or place(owner[column], seen):
                owner[column] = row
                return True
        return False

    for row in range(len(fits)):
        place(row, set())
    return {row: column for column, row in owner.items()}


def _best_pairs(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """As many equal pairs as there are; then, of the rest, the most alike first."""
    pairs = match_pairs([[score >= 1 for score in line] for line in scores])
    taken = set(pairs.values())
    rest = sorted(
        (-score, row, column)
        for row, line in enumerate(scores)
        for column, score in enumerate(line)
    )
    for _, row, column in rest:
        if row not in pairs and column not in taken:
            pairs[row] = column
            taken.add(column)
    return [pairs.get(row) for row in range(len(scores))]


@rule(codes=("json_invalid", "not_alike"))
def json_like(
    value: JSON | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    extra: Extra = "keys",
    ordered: bool = True,
    ignore: Sequence[str] = (),
    relative: float = 1e-9,
    ignore_case: bool = False,
    ignore_space: bool = False,
    at_least: float = 1.0,
    field: str | None = None,
) -> Check:
    """The output is JSON that has the fields of another value; further keys are allowed.

    The score is the share of scalar values that are equal. `1` equals `1.0`, `true` does not
    equal `1`.

    Args:
        value: The value to compare with; by default the case's `expected`.
        extra: What may come on top: further `keys` of objects, `all` (entries of lists, too), or
            `none`.
        ordered: Entries of lists must have the same order; otherwise each is compared with the
            one that fits best.
        ignore: Paths that are not compared, such as `id` or `items.created_at`; without indexes,
            they apply to every entry of a list.
        relative: How far numbers may differ, as a share of the larger one.
        ignore_case: Compare texts as Unicode case folding makes them.
        ignore_space: In texts, runs of white space count as one space, none at the ends.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON output instead of the whole.

    >>> order = {"id": 7, "items": [{"sku": "a", "n": 2}]}
    >>> print(json_like(order).check_text('{"id": 7, "items": [{"sku": "a", "n": 3}], "at": 1}'))
    fail (0.67): items[0].n is '3', not '2'
    """
    if extra not in {"keys", "all", "none"}:
        raise UsageError(f"json_like: extra is keys, all or none, not {extra!r}")
    share("json_like", at_least)
    check_tolerance("json_like", "relative", relative)
    if isinstance(ignore, str):
        raise UsageError(f"json_like: name the ignored paths as a list, not {ignore!r}")
    comparison = Comparison(
        extra=extra,
        ordered=ordered,
        relative=relative,
        ignored=frozenset(parse_path(path) for path in ignore),
        simplify=normaliser(
            ignore_case=ignore_case, ignore_space=ignore_space, ignore_punctuation=False
        ),
    )

    def check(answer: Answer) -> Verdict:
        wanted = cast("JSON", resolve_in(value, answer, "json_like"))
        found = answer.json
        if isinstance(found, JsonFault):
            return failed(f"not JSON: {found.message}", code="json_invalid", expected=shown(wanted))
        return _verdict([*comparison.parts(wanted, found)], wanted, found, at_least)

    return on_answer(field, check)


def _verdict(parts: Sequence[Part], wanted: JSON, found: JSON, at_least: float) -> Verdict:
    total = Counter[bool]()
    for part in parts:
        total[not part.problem] += part.weight
    score = total[True] / total.total() if total else 1.0
    wrong = [f"{part.path} {part.problem}" for part in parts if part.problem]
    reason = plural(total[True], "equal value")
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""  # noqa: PLR2004
        reason = f"{'; '.join(wrong[:3])}{more}"
    if at_least < 1:
        reason = f"{number(score)} alike, {number(at_least)} wanted: {reason}"
    if score >= at_least:
        return passed(reason, score=score)
    return failed(
        reason,
        code="not_alike",
        score=score,
        expected=shown(wanted),
        actual=shown(found),
        details={"fields": {part.path: not part.problem for part in parts[:100]}},
    )


def check_tolerance(kind: str, name: str, value: float) -> None:
    """Refuse a tolerance that is no number from 0 up.

    Raises:
        UsageError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
        raise UsageError(f"{kind}: {name} is a number from 0 up, not {value!r}")
