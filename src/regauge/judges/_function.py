"""A plain function as a judge."""

from __future__ import annotations

import inspect
import json
import math
from typing import TYPE_CHECKING, Protocol

from regauge.digests import digest_of
from regauge.errors import JudgeError
from regauge.judges._rule import Rule
from regauge.judges._rule_parameters import first_sentence
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.judges._answer import Answer

__all__ = ["JudgeFunction", "as_judge"]


class JudgeFunction(Protocol):
    """A function that judges the text of an answer to a golden case."""

    def __call__(self, output: str, case: GoldenCase, /) -> bool | float | Verdict:
        """True or 1.0 is a pass; a number between 0 and 1 is a score."""
        ...


def as_judge(function: JudgeFunction, *, name: str | None = None, at_least: float = 0.5) -> Rule:
    """Make a judge of a function `(output, case) -> bool | float | Verdict`.

    An answer without text fails before the function is asked. The digest covers the source of
    the function, not of what it calls.

    Args:
        function: The function.
        name: What people read; by default the function's name.
        at_least: The least score that passes, for functions that return a number.
    """
    label: str = name or getattr(function, "__name__", "") or type(function).__name__

    def examine(answer: Answer) -> Verdict:
        if answer.text is None:
            return answer.nothing()
        if answer.case is None:
            raise JudgeError(f"{label}: a function judges a case; none was given", judge=label)
        try:
            said = function(answer.text, answer.case)
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError(
                f"{label} raised {type(error).__name__} on case {answer.case.id!r}: {error}\n"
                f"  defined at {_place(function)}",
                judge=label,
            ) from error
        return _verdict(said, label=label, at_least=at_least)

    digest = digest_of(
        {"kind": "function", "name": label, "least": at_least, "source": _source(function)}
    )
    return Rule(
        kind="function",
        params={},
        name=label,
        digest=digest,
        examine=examine,
        description=first_sentence(function.__doc__),
    )


def _verdict(said: object, *, label: str, at_least: float) -> Verdict:
    match said:
        case Verdict():
            return said
        case bool():
            if said:
                return passed(f"{label} says true")
            return failed(f"{label} says false", code=label)
        case int() | float() if 0 <= said <= 1 and not math.isnan(said):
            reason = f"{label} gives {said:g}, {at_least:g} wanted"
            if said >= at_least:
                return passed(reason, score=float(said))
            return failed(reason, code=label, score=float(said))
        case _:
            raise JudgeError(
                f"{label} returned {said!r}\n"
                "  return True, False, a number from 0 to 1, or a Verdict",
                judge=label,
                raw=repr(said),
            )


def _source(function: object) -> str:
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]  # any callable may come
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return json.dumps([type(function).__module__, type(function).__qualname__])
        return repr((code.co_code, code.co_names, [str(part) for part in code.co_consts]))


def _place(function: object) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
