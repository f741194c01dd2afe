"""What a metric is made of, as one JSON value: the part of a judge's digest that it brings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import PurePath
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["fingerprint"]

# What a metric's measurement leaves on it, and what the adapter puts in place of what was there.
_RESULTS: Final = frozenset(
    {
        "async_mode",
        "confidence",
        "error",
        "eval_mode",
        "evaluation_cost",
        "evaluation_model",
        "flaky",
        "input_tokens",
        "model",
        "output_tokens",
        "reason",
        "score",
        "score_breakdown",
        "skipped",
        "success",
        "system_one_fallback_reason",
        "system_one_model",
        "threshold",
        "using_native_model",
        "verbose_logs",
        "verbose_mode",
    }
)
_PLAIN: Final = (bool, int, str, type(None))


def fingerprint(value: object) -> JSON:
    """A value as JSON that changes when the value would judge differently.

    Functions and classes count by their source, functions by what they enclose too, objects by
    their class and public attributes, without the results of a measurement, the model and the
    threshold. Shared and circular references are numbered, so a graph is told from a tree.

    >>> fingerprint({"steps": ["look"], "limit": 2})
    {'steps': ['look'], 'limit': 2}
    """
    return _Walk().of(value)


class _Walk:
    """One walk through one value."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # an id is only unique while its object lives

    def of(self, value: object) -> JSON:  # noqa: C901, PLR0911 - one per type
        if isinstance(value, Enum):
            return self.of(value.value)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, PurePath):
            return value.as_posix()
        if isinstance(value, type):
            return {"source": _source(value)}
        if id(value) in self._seen:
            return {"again": self._seen[id(value)]}
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if inspect.isroutine(value):
            return self._function(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            if all(isinstance(key, str) for key in pairs):
                return {str(key): self.of(part) for key, part in pairs.items()}
            return [[self.of(key), self.of(part)] for key, part in pairs.items()]
        if isinstance(value, (list, tuple)):
            return [self.of(part) for part in cast("list[object]", value)]
        if isinstance(value, AbstractSet):
            return sorted((self.of(part) for part in cast("AbstractSet[object]", value)), key=str)
        return self._object(value)

    def _function(self, value: Any) -> JSON:
        """By source, and by what tells apart functions that share a line or enclose values."""
        code: CodeType | None = getattr(value, "__code__", None)
        made: dict[str, JSON] = {"source": _source(value)}
        if code is not None:
            # Only they share lines; pytest rewrites the asserts of others, and so their code.
            if code.co_name == "<lambda>":
                made["constants"] = _constants(code)
            cells: tuple[CellType, ...] = getattr(value, "__closure__", None) or ()
            # A cell that nothing was put into yet compares as empty.
            made["encloses"] = [self.of(cell.cell_contents) for cell in cells if cell != CellType()]
        return made

    def _object(self, value: object) -> JSON:
        kept: dict[str, Any] = getattr(value, "__dict__", {})
        return {
            "class": self.of(type(value)),
            "with": {
                name: self.of(kept[name])
                for name in sorted(kept)
                if not name.startswith("_") and name not in _RESULTS
            },
        }


def _source(value: Any) -> str:
    """The source of what a project wrote, the name of what an installed library brings."""
    name = f"{value.__module__}.{value.__qualname__}"
    if str(value.__module__).partition(".")[0] in {"deepeval", "builtins", "pydantic"}:
        return name
    try:
        return f"{name}\n{inspect.getsource(value)}"
    except (OSError, TypeError):
        return name


def _constants(code: CodeType) -> list[JSON]:
    """What a function and those within it mention by name and by value."""
    return [*code.co_names, *(_constant(value) for value in code.co_consts)]


def _constant(value: object) -> JSON:
    if isinstance(value, CodeType):
        return _constants(value)
    if isinstance(value, frozenset):  # its order is another in every process
        return sorted(repr(part) for part in cast("frozenset[object]", value))
    return repr(value)
