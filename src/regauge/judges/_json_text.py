"""JSON as answers carry it: strict parsing, values found inside prose, equality."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from regauge.strict_json import no_constant, unique

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["JsonFault", "find_json", "kind_of", "parse_integer", "parse_json", "same"]

# How many characters of failed attempts are read before what is left counts as prose.
_FAILED_CHARS_MAX = 1_000_000
_ATTEMPT_CHARS = 50
_TOO_DEEP_CHARS = 50_000


class JsonFault:
    """Why a text is not JSON.

    Attributes:
        message: What is wrong and where, on one line.
    """

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


def parse_integer(digits: str) -> float:
    """An integer; one of more digits than Python reads is beyond the range of a float, too."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_decoder = json.JSONDecoder(
    parse_constant=no_constant, parse_int=parse_integer, object_pairs_hook=unique
)


def parse_json(text: str) -> JSON | JsonFault:
    """Parse a text that must be one JSON value and nothing else.

    `NaN`, infinities, comments, a byte order mark, a second value and a key that is given twice are
    errors.

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        value: JSON = _decoder.decode(text)
    except json.JSONDecodeError as fault:
        return JsonFault(f"{fault.msg} at line {fault.lineno}, column {fault.colno}")
    except RecursionError:
        return JsonFault("nested too deeply")
    except ValueError as fault:
        return JsonFault(str(fault).partition(";")[0])
    return value


def find_json(text: str) -> Iterator[JSON]:
    """The objects and arrays that stand in a text, outermost ones, in order.

    >>> list(find_json('Sure! {"a": [1]} and [2]'))
    [{'a': [1]}, [2]]
    """
    at, failed_chars = 0, 0
    while failed_chars < _FAILED_CHARS_MAX:
        begins = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
        if not begins:
            return
        start = min(begins)
        try:
            value, at = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as fault:
            failed_chars += fault.pos - start + _ATTEMPT_CHARS
            at = start + 1
        except (ValueError, RecursionError):
            failed_chars += _TOO_DEEP_CHARS
            at = start + 1
        else:
            yield value


def kind_of(value: JSON) -> str:
    """The JSON type of a value, as JSON Schema names it.

    >>> kind_of(True), kind_of(1.5), kind_of(None)
    ('boolean', 'number', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def same(left: JSON, right: JSON) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but true is not 1.

    >>> same({"a": 1}, {"a": 1.0}), same(True, 1)
    (True, False)
    """
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left == right
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        return (
            isinstance(left, Mapping)
            and isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(same(left[key], right[key]) for key in left)
        )
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return (
            isinstance(left, Sequence)
            and isinstance(right, Sequence)
            and len(left) == len(right)
            and all(same(one, other) for one, other in zip(left, right, strict=True))
        )
    return isinstance(left, bool) == isinstance(right, bool) and left == right
