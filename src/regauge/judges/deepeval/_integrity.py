"""Whether what a metric left behind hangs together: a score in range, a verdict per item."""

from __future__ import annotations

import math
from typing import Any, Final, cast

from regauge.errors import JudgeError
from regauge.wording import plural

__all__ = ["Judged", "judged"]

_JUDGED_ITEMS: Final = (
    "claims",
    "statements",
    "opinions",
    "prompt_instructions",
    "user_intentions",
)
"""What a metric takes out of an answer and gives verdicts on, one by one."""

_FOUND_ITEMS: Final = ("extracted_pii", "advices", "misuses", "role_violations")
"""What a metric looks for in an answer because it should not be there; none is what is wanted."""

_PER_PART: Final = {
    "HallucinationMetric": "context",
    "ContextualPrecisionMetric": "retrieval_context",
    "ArgumentCorrectnessMetric": "tools_called",
}


class Judged:
    """How many things a metric gave verdicts on.

    Attributes:
        what: What they are, such as `claims`; empty where the metric counts nothing.
        count: How many; None where the metric counts nothing.
        vacuous: Whether there was nothing to judge, so that the score says nothing.
    """

    __slots__ = ("count", "vacuous", "what")

    def __init__(self, what: str = "", count: int | None = None, *, vacuous: bool = False) -> None:
        self.what = what
        self.count = count
        self.vacuous = vacuous


def judged(metric: Any, score: object, test_case: Any, *, judge: str) -> Judged:
    """Check a finished metric.

    Raises:
        JudgeError: The score is none from 0 to 1, or verdicts are missing or too many.
    """
    if type(score) not in {int, float, bool} or not math.isfinite(float(score)):  # type: ignore[arg-type]  # it is a number
        raise _broken(judge, f"its score is {score!r}, which is no number")
    number = float(score)  # type: ignore[arg-type]  # it is a number
    if not 0 <= number <= 1:
        raise _broken(judge, f"its score is {number:g}, which is not from 0 to 1")
    verdicts = _verdicts(metric)
    if verdicts is None:
        return Judged()
    asked, answered = (
        _list(getattr(metric, name, None)) for name in ("assessment_questions", "coverage_verdicts")
    )
    if asked is not None and answered is not None:
        _same_count(judge, len(answered), len(asked), "questions")
    for name in (*_JUDGED_ITEMS, *_FOUND_ITEMS):
        items = _list(getattr(metric, name, None))
        if items is not None:
            _same_count(judge, len(verdicts), len(items), name)
            return Judged(name, len(items), vacuous=not items and name in _JUDGED_ITEMS)
    for kind in type(metric).__mro__:
        if kind.__name__ in _PER_PART:
            part = _PER_PART[kind.__name__]
            items = _list(getattr(test_case, part, None)) or []
            _same_count(judge, len(verdicts), len(items), f"entries of {part}")
    return Judged("verdicts", len(verdicts), vacuous=not verdicts)


def _verdicts(metric: Any) -> list[Any] | None:
    for attribute in ("verdicts", "alignment_verdicts"):
        found = _list(getattr(metric, attribute, None))
        if found is not None:
            return found
    groups = _list(getattr(metric, "verdicts_list", None))
    if groups is None:
        return None
    return [verdict for group in groups for verdict in group.verdicts]


def _list(value: object) -> list[Any] | None:
    return list(cast("list[object]", value)) if isinstance(value, list) else None


def _same_count(judge: str, verdicts: int, items: int, what: str) -> None:
    if verdicts != items:
        raise _broken(judge, f"the model gave {plural(verdicts, 'verdict')} for {items} {what}")


def _broken(judge: str, why: str) -> JudgeError:
    return JudgeError(
        f"{judge}: the measurement cannot be trusted: {why}\n"
        "  fix: see the judge's replies in fixtures/recordings/judges, or use a better judge model",
        judge=judge,
    )
