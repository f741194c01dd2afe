"""Scores as models write them: `4`, `4/5`, `4 out of 5`, `80%`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from regauge.judges._evidence import number, quote

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.prompts import RubricSpec

__all__ = ["SCORE", "ReplyFault", "TwoVerdictsFault", "share_of", "value_of"]

_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
SCORE: Final = rf"{_NUMBER}(?:[ \t]*(?:/|out[ \t]of)[ \t]*{_NUMBER}|[ \t]*%)?"
"""A pattern of what `value_of` reads."""

_PARTS: Final = re.compile(
    rf"(?P<value>{_NUMBER})[ \t]*(?:(?:/|out[ \t]of)[ \t]*(?P<of>{_NUMBER})|(?P<percent>%))?"
)
_PERCENT: Final = 100


class ReplyFault(ValueError):  # noqa: N818 - a reply is at fault, like a JsonFault
    """Why a reply holds no verdict.

    Attributes:
        wrong: What the model is shown of it; never words of the reply.
    """

    wrong: str = "it was not the one JSON object that was asked for"


class TwoVerdictsFault(ReplyFault):
    """A reply states two verdicts."""

    wrong = "it stated more than one verdict, and not the one JSON object that was asked for"


def value_of(stated: JSON, spec: RubricSpec) -> float:
    """A stated score on the scale of a rubric.

    `4/5` is 4 on a scale that ends at 5, and 0.8 on one that ends at 1; a percentage is a share
    of the scale, or itself on one that ends at 100.

    Raises:
        ReplyFault: It is no number, or not on the scale.
    """
    value: float
    if isinstance(stated, bool) or not isinstance(stated, (int, float, str)):
        raise ReplyFault(f"the score is {_kind(stated)}, not a number")
    if isinstance(stated, str):
        value = _written(stated, spec)
    else:
        try:
            value = float(stated)
        except OverflowError:
            value = math.inf
    if not spec.low <= value <= spec.high:  # NaN is on no scale
        shown = stated if isinstance(stated, str) else repr(stated)[:40]
        raise ReplyFault(
            f"the score {shown} is not on the scale {number(spec.low)} to {number(spec.high)}"
        )
    return value


def share_of(value: float, spec: RubricSpec) -> float:
    """Where a value lies on its scale, from 0 (worst) to 1 (best)."""
    return (value - spec.low) / (spec.high - spec.low)


def _written(text: str, spec: RubricSpec) -> float:
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        raise ReplyFault(f"the score is {quote(text)}, not a number")
    value = float(found["value"])
    if found["percent"]:
        if spec.high == _PERCENT:
            return value
        return spec.low + value / _PERCENT * (spec.high - spec.low)
    if found["of"] is None:
        return value
    whole = float(found["of"])
    if whole == spec.high:
        return value
    if spec.high == 1 and whole > 0:
        return value / whole
    raise ReplyFault(f"the score {text.strip()} is of {found['of']}, not of {number(spec.high)}")


def _kind(value: JSON) -> str:
    if value is None:
        return "null"
    return "a boolean" if isinstance(value, bool) else "an object or a list"
