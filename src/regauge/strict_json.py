"""What JSON that people or models wrote must hold to: each key once, numbers that JSON knows."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn, TypeVar

__all__ = ["NoNumberError", "TwiceError", "no_constant", "unique"]

_Value = TypeVar("_Value")


class TwiceError(ValueError):
    """An object gives a key twice.

    Attributes:
        key: Which one.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key!r} is given twice")


class NoNumberError(ValueError):
    """A word such as `NaN` stands for a number.

    Attributes:
        word: Which one.
    """

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(f"{word} is no JSON number")


def unique(pairs: list[tuple[str, _Value]]) -> dict[str, _Value]:
    """An object out of its keys and values: the `object_pairs_hook` of a decoder.

    >>> unique([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}

    Raises:
        TwiceError: A key is given twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        counted = Counter(key for key, _ in pairs)
        raise TwiceError(next(key for key, times in counted.items() if times > 1))
    return values


def no_constant(word: str) -> NoReturn:
    """Refuse what Python reads as a number and JSON does not have: a decoder's `parse_constant`.

    Raises:
        NoNumberError: Always.
    """
    raise NoNumberError(word)
