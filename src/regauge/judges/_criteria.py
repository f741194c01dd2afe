"""Which kind of quality a judge is about: what it says itself, and what its author says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.criteria import CRITERIA
from regauge.errors import UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from regauge.criteria import Criterion

__all__ = ["criterion_named", "criterion_of"]


def criterion_of(judge: object) -> Criterion:
    """What a judge says that it is about; correctness where it says nothing usable."""
    said = getattr(judge, "criterion", None)
    for criterion in CRITERIA:
        if said == criterion:
            return criterion
    return "correctness"


def criterion_named(word: str, *, judge: str) -> Criterion:
    """The criterion of a name.

    Args:
        word: The name.
        judge: Of which judge it was said.

    Raises:
        UsageError: There is no such criterion.
    """
    if word not in CRITERIA:
        hint = did_you_mean(word, CRITERIA) or f"there are {', '.join(CRITERIA)}"
        raise UsageError(f"{judge}: there is no criterion {word!r}\n  fix: {hint}")
    return word
