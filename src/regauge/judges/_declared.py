"""What an eval can say of a judge that it declares, whichever it is: its name and its criterion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.criteria import CRITERIA
from regauge.errors import UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from typing import Self

    from regauge.criteria import Criterion

__all__ = ["Declared", "criterion_named", "criterion_of"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A judge as an eval declares it.

    Attributes:
        name: What people read.
        criterion: What it is about, which is no part of a digest; None where its parts say it.
    """

    name: str
    criterion: Criterion | None

    def named(self, name: str) -> Self:
        """The same judge under a name of your choice."""
        return replace(self, name=name)

    def judging(self, criterion: str) -> Self:
        """The same judge, counted under another criterion.

        Raises:
            UsageError: There is no such criterion.
        """
        return replace(self, criterion=criterion_named(criterion, judge=self.name))
