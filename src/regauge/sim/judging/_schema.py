"""A valid value for any JSON schema, with a say for whoever knows what a field means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["choose", "fill", "graded", "spread"]

_DEPTH_MAX: Final = 12
_NOTHING: Final = "Nothing to add."
_EITHER: Final = re.compile(r"STRICTLY EITHER 1\b")
_WHOLE: Final = re.compile(r"\ban integer\b|\bwhole number\b", re.IGNORECASE)
_STRICT: Final = 0.75
_SCALES: Final = (
    re.compile(
        r"\b(?:between|from|of)\s+(?P<low>\d+(?:\.\d+)?)\s+(?:and|to)\s+(?P<high>\d+(?:\.\d+)?)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?P<low>[01])\s*(?:-|–|\.\.)\s*(?P<high>100|10|5|1)\b"),  # noqa: RUF001 - texts in the wild hold this character
)
_GOOD: Final = frozenset(
    """yes true pass passed correct same equivalent good full fully supported faithful excellent
    agree agrees relevant safe positive tp accept""".split()  # noqa: SIM905 - it reads as a list
)
_MIDDLING: Final = frozenset(
    """partly partial partially borderline some mixed fair minor unclear mostly idk
    unknown""".split()  # noqa: SIM905 - it reads as a list
)
_BAD: Final = frozenset(
    """no false fail failed incorrect wrong different bad none unsupported unfaithful poor
    disagree irrelevant unsafe negative contradicted contradicts reject not""".split()  # noqa: SIM905 - it reads as a list
)
_OPTIONS: Final = re.compile(
    r"'verdict'[^\n\[]{0,20}\[(?P<options>[^\]\n]+)\]|Options: (?P<more>[^\n]+)"
)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEPTH_MAX):
        target: Any = schema.get("$ref") if is_object(schema) else None
        if not isinstance(target, str):
            break
        schema = root
        for step in target.removeprefix("#").strip("/").split("/"):
            schema = schema.get(step, {}) if is_object(schema) else {}
    return schema if is_object(schema) else {}


def _variants(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schema's alternatives, references followed; itself when it has none."""
    schema = _resolved(schema, root)
    for word in ("anyOf", "oneOf", "allOf"):
        found: Any = schema.get(word)
        if is_list(found) and found:
            return [inner for variant in found for inner in _variants(variant, root)]
    kinds: Any = schema.get("type")
    if is_list(kinds):
        return [{**schema, "type": kind} for kind in kinds]
    return [schema]


def spread(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    """The values that a schema lists, in order; empty when any will do."""
    values: list[Any] = []
    for variant in _variants(schema, root):
        if is_list(variant.get("enum")):
            values += variant["enum"]
        elif "const" in variant:
            values.append(variant["const"])
    return values


def _kind(variant: Mapping[str, Any]) -> str:
    kind = variant.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in variant else "string"


def _scale(schema: Mapping[str, Any], root: Mapping[str, Any], text: str) -> tuple[float, float]:
    """The least and the greatest score: as the schema says, else the prompt, else 0 and 1."""
    numbers = [value for value in spread(schema, root) if isinstance(value, int | float)]
    if len(numbers) > 1:
        return min(numbers), max(numbers)
    for variant in _variants(schema, root):
        low, high = variant.get("minimum"), variant.get("maximum")
        if isinstance(low, int | float) and isinstance(high, int | float):
            return float(low), float(high)
    for pattern in _SCALES:
        match = pattern.search(text)
        if match is not None and float(match["low"]) < float(match["high"]):
            return float(match["low"]), float(match["high"])
    return 0.0, 1.0


def graded(schema: Mapping[str, Any], root: Mapping[str, Any], score: float, text: str) -> float:
    """A score from 0 to 1 on the scale that is asked for, and whole where whole ones are."""
    low, high = _scale(schema, root, text)
    if _EITHER.search(text):
        return high if score >= _STRICT else low
    value = low + (high - low) * score
    numbers = [value for value in spread(schema, root) if isinstance(value, int | float)]
    if numbers:
        return min(numbers, key=lambda number: abs(number - value))
    return round(value) if _WHOLE.search(text) else value


def _worth(option: str) -> float | None:
    words = re.findall(r"[a-z]+", option.lower())
    if not words:
        return None
    for named, worth in ((_MIDDLING, 0.5), (_BAD, 0.0), (_GOOD, 1.0)):
        if any(word in named for word in words):
            return worth
    return None


def _nearest(options: list[str], score: float) -> str:
    """The option whose wording comes nearest to a score; unknown words are best first."""
    last = max(1, len(options) - 1)
    worths = [_worth(option) for option in options]
    known = len({w for w in worths if w is not None}) > 1
    ranked = [
        (w if known and w is not None else 1 - i / last) for i, w in enumerate(worths)
    ]  # fmt: skip
    return options[min(range(len(options)), key=lambda i: abs(ranked[i] - score))]


def choose(schema: Mapping[str, Any], root: Mapping[str, Any], score: float, text: str) -> Any:
    """A verdict of a field's own kind that says as much as a score from 0 to 1."""
    options = spread(schema, root)
    if options and all(isinstance(option, bool) for option in options):
        return (score >= 0.5) if len(set(options)) > 1 else options[0]  # noqa: PLR2004 - the middle
    if options:
        return _nearest([str(option) for option in options], score)
    for variant in _variants(schema, root):
        match _kind(variant):
            case "boolean":
                return score >= 0.5  # noqa: PLR2004 - the middle
            case "number" | "integer":
                low, high = _scale(schema, root, "")
                return _number(variant, low + (high - low) * score)
            case _:
                continue
    named = _OPTIONS.search(text)
    told = (named["options"] or named["more"]) if named is not None else "yes, no"
    words = [o.strip(" \"'`[]()") for o in re.split(r",|\bor\b|/", told)]
    return _nearest([word for word in words if word] or ["yes", "no"], score)


def _number(variant: Mapping[str, Any], value: float) -> float | int:
    low, high = variant.get("minimum"), variant.get("maximum")
    if isinstance(low, int | float):
        value = max(value, low)
    if isinstance(high, int | float):
        value = min(value, high)
    return round(value) if variant.get("type") == "integer" else round(value, 3)


def _allowed(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0
) -> bool:
    """Whether a value is what a schema allows, as far as its kinds, values and fields go."""
    return depth < _DEPTH_MAX and any(
        _is(value, variant, root, depth) for variant in _variants(schema, root)
    )


def _is(value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> bool:
    options = spread(variant, root)
    if options:
        return value in options
    match _kind(variant):
        case "array":
            entry: Any = variant.get("items") or {}
            return is_list(value) and all(_allowed(v, entry, root, depth + 1) for v in value)
        case "object":
            return is_object(value) and _is_object(value, variant, root, depth)
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case kind:
            return isinstance(value, {"string": str, "boolean": bool}.get(kind, type(None)))


def _is_object(
    value: Mapping[str, Any], variant: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> bool:
    fields: Any = variant.get("properties") or {}
    rest: Any = variant.get("additionalProperties", True)
    inner: Any = rest if is_object(rest) else {}
    known = rest is not False or set(value) <= set(fields)
    whole = set(variant.get("required") or ()) <= set(value)
    return (
        known
        and whole
        and all(_allowed(v, fields.get(k, inner), root, depth + 1) for k, v in value.items())
    )


def fill(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    name: str,
    say: Callable[[str, Mapping[str, Any], Mapping[str, Any]], Any],
    depth: int = 0,
) -> Any:
    """A value that the schema allows.

    Args:
        schema: What is to be filled.
        root: The schema that references point into.
        name: The name of the field; empty for the whole.
        say: Is asked what a field holds, and answers None where it does not know.
        depth: How deep the field lies; beyond a limit lists are left empty.
    """
    variants = _variants(schema, root)
    said = say(name, schema, root) if name else None
    if said is not None:
        for variant in variants:
            if _kind(variant) in ("number", "integer") and _is(said, variant, root, depth):
                return _number(variant, said) if not spread(variant, root) else said
            shaped = _members(said, variant, root, say, depth)
            if _is(shaped, variant, root, depth):
                return shaped
    if any(variant.get("type") == "null" for variant in variants):
        return None
    return _made(variants[0], root, say, depth)


def _members(
    value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], say: Any, depth: int
) -> Any:
    """Plain texts put into the shape of a list's entries, where that shape is an object."""
    entry: Any = variant.get("items")
    if not is_list(value) or not is_object(entry) or _kind(variant) != "array":
        return value
    inner = _variants(entry, root)[0]
    if _kind(inner) != "object" or depth > _DEPTH_MAX:
        return value
    made: list[Any] = []
    for text in value:
        if is_object(text):
            made.append(text)
            continue

        def told(name: str, below: Any, top: Any, text: Any = text) -> Any:
            first = next(iter(inner.get("properties", {"": None})))
            return text if name == first else say(name, below, top)

        made.append(fill(inner, root, "", told, depth + 1))
    return made


def _made(  # noqa: PLR0911 - one line for each kind of value
    variant: Mapping[str, Any], root: Mapping[str, Any], say: Any, depth: int
) -> Any:
    options = spread(variant, root)
    if options:
        return options[0]
    match _kind(variant):
        case "object":
            properties: Any = variant.get("properties") or {}
            if depth > _DEPTH_MAX:
                return {}
            return {
                key: fill(inner, root, key, say, depth + 1) for key, inner in properties.items()
            }
        case "array":
            least: Any = variant.get("minItems") or 0
            entry: Any = variant.get("items") or {}
            if depth > _DEPTH_MAX:
                return []
            return [fill(entry, root, "", say, depth + 1) for _ in range(int(least))]
        case "number" | "integer":
            return _number(variant, 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _NOTHING
