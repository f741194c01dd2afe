"""Parameters of rules: as JSON for digests, as words for names, without types for people."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from regauge.errors import UsageError
from regauge.judges._answer import Expected, Missing
from regauge.judges._evidence import quote
from regauge.judges._rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.digests import JSON

__all__ = ["first_sentence", "form_of", "name_of", "plain", "rules_in"]


def form_of(signature: inspect.Signature) -> str:
    """A signature without types."""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))


def plain(value: object, *, of: str) -> JSON:  # noqa: PLR0911 - one per type
    """A parameter as JSON, for digests and reports.

    Raises:
        UsageError: The parameter is of a type that no rule takes.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Expected():
            return {"expected": value.path}
        case Missing():
            return {"default": True}
        case Rule():
            return value.reference
        case PurePath():
            return value.as_posix()
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            if any(isinstance(key, Rule) for key, _ in pairs):
                return [{"of": plain(key, of=of), "is": plain(part, of=of)} for key, part in pairs]
            return {str(key): plain(part, of=of) for key, part in pairs}
        case list() | tuple():
            return [plain(part, of=of) for part in cast("Sequence[object]", value)]
        case set() | frozenset():
            parts = cast("AbstractSet[object]", value)
            return sorted((plain(part, of=of) for part in parts), key=str)
        case _:
            raise UsageError(f"{of}: a parameter cannot be a {type(value).__name__}: {value!r}")


def rules_in(value: object) -> Iterator[Rule]:
    match value:
        case Rule():
            yield value
        case Mapping():
            for key, part in cast("Mapping[object, object]", value).items():
                yield from rules_in((key, part))
        case list() | tuple():
            for part in cast("Sequence[object]", value):
                yield from rules_in(part)
        case _:
            pass


def first_sentence(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0].strip()


def name_of(kind: str, bound: inspect.BoundArguments) -> str:
    words: list[str] = []
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            words.extend(_word(part) for part in value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words.extend(f"{name}={_word(part)}" for name, part in value.items())
        elif value != parameter.default or isinstance(value, bool) != isinstance(
            parameter.default, bool
        ):
            keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            words.append(f"{key}={_word(value)}" if keyword else _word(value))
    return f"{kind}({', '.join(words)})" if words else kind


def _word(value: object) -> str:  # noqa: PLR0911 - one per type
    match value:
        case Rule():
            return value.name
        case str() if value.replace("_", "").replace("-", "").replace(".", "").isalnum():
            return value if len(value) <= 40 else quote(value, 40)  # noqa: PLR2004 - a line's share
        case str():
            return quote(value, 40)
        case Mapping():
            return "{…}" if value else "{}"
        case list() | tuple():
            parts = cast("Sequence[object]", value)
            shown = ", ".join(_word(part) for part in parts[:3])
            return f"[{shown}{', …' if len(parts) > 3 else ''}]"  # noqa: PLR2004
        case PurePath():
            return value.name
        case _:
            return str(value)
