"""Strict reading of JSON: no repeated keys, and numbers as JSON defines them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic_core import ErrorDetails

_Value = TypeVar("_Value")
_TYPE_NAME: Final = re.compile(r"valid dictionary or instance of \w+")


class DuplicateKeyError(ValueError):
    """An object has a key twice.

    Attributes:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key!r} is given twice")


class InvalidNumberError(ValueError):
    """A constant such as `NaN`, which JSON does not have.

    Attributes:
        word: The constant.
    """

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(f"{word} is not a JSON number")


def syntax_problem(error: json.JSONDecodeError) -> str:
    """The message of a parser, to which a place can be added.

    >>> syntax_problem(json.JSONDecodeError("Unterminated string starting at", '"', 0))
    'Unterminated string starting'
    """
    return error.msg.removesuffix(" at")


def read_json(
    text: str | bytes, *, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse a JSON document from a file or a program: `json.loads`, with one kind of error.

    >>> read_json('{"a": [1]}')
    {'a': [1]}
    >>> read_json("[" * 200_000)
    Traceback (most recent call last):
    ValueError: nested too deeply

    Raises:
        ValueError: It is not JSON, or it is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("an integer has too many digits") from None
        raise


def unique(pairs: list[tuple[str, _Value]]) -> dict[str, _Value]:
    """Build an object from its pairs: the `object_pairs_hook` of a decoder.

    >>> unique([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}

    Raises:
        DuplicateKeyError: A key is given twice.
    """
    values = {intern(key): value for key, value in pairs}
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise DuplicateKeyError(next(key for key, times in counts.items() if times > 1))
    return values


def explain_format(error: ErrorDetails) -> str:
    """Describe an error of pydantic in a file that regauge itself wrote.

    >>> explain_format({"loc": ("cases", 0, "answer"), "type": "missing", "msg": "", "input": 1})
    'written by another version of regauge, or damaged: `cases.0.answer` is missing'
    """
    place = ".".join(map(str, error["loc"]))
    problems = {"missing": f"`{place}` is missing", "extra_forbidden": f"`{place}` is unknown"}
    message = _TYPE_NAME.sub("mapping", error["msg"].removeprefix("Value error, "))
    problem = problems.get(error["type"], f"`{place}`: {message}" if place else message)
    return other_format(problem)


def other_format(problem: object) -> str:
    """State that a file that regauge itself wrote cannot be read, and why."""
    reason = f"the key {problem} is missing" if isinstance(problem, KeyError) else problem
    return f"written by another version of regauge, or damaged: {reason}"


def refuse_constant(word: str) -> NoReturn:
    """Refuse `NaN` and infinities: a decoder's `parse_constant`.

    Raises:
        InvalidNumberError: Always.
    """
    raise InvalidNumberError(word)


def walk(value: object) -> Iterator[object]:
    """Iterate over a value and all values in it, keys of mappings included."""
    yield value
    if isinstance(value, Mapping):
        for pair in cast("Mapping[object, object]", value).items():
            yield from walk(pair)
    elif isinstance(value, list | tuple):
        for part in cast("Sequence[object]", value):
            yield from walk(part)


def mappings_in(value: object) -> Iterator[Mapping[str, Any]]:
    """Iterate over the mappings in a value, at any depth."""
    return (part for part in walk(value) if is_mapping(part))


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping; its keys are texts in every document."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list, a tuple or the like; a text is none."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if is_mapping(value) else {}


def list_of(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if is_list(value) else []


def as_list(value: object) -> list[Any]:
    """The items of a list; any other value as the only item.

    >>> as_list(["a", 1]), as_list("a")
    (['a', 1], ['a'])
    """
    return [*value] if is_sequence(value) else [value]
