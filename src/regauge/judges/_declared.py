"""What an eval can say of a judge that it declares, whichever it is: its name and its criterion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.judges._criteria import criterion_named

if TYPE_CHECKING:
    from typing import Self

    from regauge.criteria import Criterion

__all__ = ["Declared"]


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
