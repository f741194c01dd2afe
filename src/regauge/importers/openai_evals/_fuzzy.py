"""The comparison of `FuzzyMatch`, as a judge of imported cases."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase

__all__ = ["fuzzy_match"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def fuzzy_match(output: str, case: GoldenCase) -> bool:
    """Whether the output or a text of `expected` contains the other.

    Case, ASCII punctuation, English articles and runs of white space do not count.
    """
    expected = case.expected
    answers = cast("list[object]", expected) if isinstance(expected, list) else [expected]
    return any(_alike(_normalized(output), _normalized(str(answer))) for answer in answers)


def _normalized(text: str) -> str:
    words = re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION))
    return " ".join(words.split())


def _alike(one: str, other: str) -> bool:
    if not one or not other:
        return one == other
    return one in other or other in one
