"""What a run may spend, checked before every call and never exceeded by what was estimated."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Budget", "Charge"]


@dataclass(slots=True)
class Charge:
    """The money of one call: what it was expected to cost, then what it did."""

    expected_usd: float
    actual_usd: float | None = None


@dataclass(slots=True)
class Budget:
    """Keeps count of what calls cost.

    Attributes:
        limit_usd: In US dollars, for all processes of the run together; None is no limit.
        processes: How many processes share the run; each may spend an equal part.
        spent_usd: What finished calls cost.
        reserved_usd: What calls under way are expected to cost.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
    reserved_usd: float = field(default=0.0)
    processes: int = 1

    @property
    def _share_usd(self) -> float:
        return float("inf") if self.limit_usd is None else self.limit_usd / self.processes + 1e-12

    def may_fit_later(self, expected_usd: float) -> bool:
        """Whether a call does not fit now, but may once calls under way cost less than reserved."""
        fits = self.spent_usd + self.reserved_usd + expected_usd <= self._share_usd
        return (
            not fits and self.reserved_usd > 0 and self.spent_usd + expected_usd <= self._share_usd
        )

    @contextmanager
    def charge(self, expected_usd: float) -> Generator[Charge]:
        """Reserve the expected cost of a call while it is under way.

        A call that fails costs nothing here: providers do not bill what they did not answer.

        Raises:
            BudgetError: With this call the run could exceed its limit.
        """
        committed = self.spent_usd + self.reserved_usd
        if committed + expected_usd > self._share_usd:
            part = f" (a part of it in each of {self.processes} processes)"
            raise BudgetError(
                f"the budget of ${self.limit_usd:.2f}{part if self.processes > 1 else ''}"
                f" is reached: ${committed:.4f} spent or under way, and the next call is expected"
                f" to cost ${expected_usd:.4f}\n"
                "  what has been answered is kept: the same command with a larger --budget-usd"
                " goes on where this one stopped"
            )
        charge = Charge(expected_usd)
        self.reserved_usd += expected_usd
        try:
            yield charge
        finally:
            self.reserved_usd -= expected_usd
            if charge.actual_usd is not None:
                self.spent_usd += charge.actual_usd
