"""What a run may use, checked before every call and never exceeded by what was estimated."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from regauge.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Budget", "Charge"]

# Until a first call shows it, calls may cost so many times what is expected of them.
_UNKNOWN_EXCESS: Final = 4.0


@dataclass(slots=True)
class Charge:
    """The money and tokens of one call: what was expected, then what it took."""

    expected_usd: float
    expected_tokens: int = 0
    actual_usd: float | None = None
    actual_tokens: int | None = None


@dataclass(slots=True)
class Budget:
    """Keeps count of what calls cost, and of the calls themselves.

    Attributes:
        limit_usd: In US dollars, for all processes of the run together; None is no limit.
        processes: How many processes share the run; each may spend an equal part.
        spent_usd: What finished calls cost.
        reserved_usd: What calls under way are expected to cost.
        limit_tokens: Tokens in and out, for all processes; None is no limit.
        spent_tokens: What finished calls used.
        reserved_tokens: What calls under way are expected to use.
        limit_calls: For all processes; None is no limit.
        calls: How many were made or are under way; one that failed does not count.
        excess: The most that a call cost, as a multiple of what was expected; 0 before the first.
            Later calls are reserved at that rate, so that a limit holds whatever they cost.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
    reserved_usd: float = field(default=0.0)
    processes: int = 1
    limit_tokens: int | None = None
    spent_tokens: int = 0
    reserved_tokens: int = 0
    limit_calls: int | None = None
    calls: int = 0
    excess: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether money or tokens have a limit."""
        return self.limit_usd is not None or self.limit_tokens is not None

    @property
    def _share_usd(self) -> float:
        return float("inf") if self.limit_usd is None else self.limit_usd / self.processes + 1e-12

    def may_fit_later(self, expected_usd: float) -> bool:
        """Whether a call does not fit now, but may once calls under way cost less than reserved."""
        fits = self._committed(expected_usd) <= self._share_usd
        alone = self.spent_usd + expected_usd * (self.excess or 1.0)
        return not fits and self.reserved_usd > 0 and alone <= self._share_usd

    def _committed(self, expected_usd: float) -> float:
        """What is spent, under way and next, at what calls cost compared with what was expected."""
        if not self.reserved_usd + expected_usd:
            return self.spent_usd
        excess = self.excess or (_UNKNOWN_EXCESS if self.reserved_usd else 1.0)
        return self.spent_usd + (self.reserved_usd + expected_usd) * excess

    @contextmanager
    def charge(self, expected_usd: float, *, tokens: int = 0) -> Generator[Charge]:
        """Reserve the expected cost and tokens of a call while it is under way.

        A call that fails costs nothing here: providers do not bill what they did not answer.

        Raises:
            BudgetError: With this call the run could exceed its limit.
        """
        if self._committed(expected_usd) > self._share_usd:
            committed = self.spent_usd + self.reserved_usd
            part = f" (a part of it in each of {self.processes} processes)"
            raise BudgetError(
                f"the budget of ${self.limit_usd:.2f}{part if self.processes > 1 else ''}"
                f" is reached: ${committed:.4f} spent or under way, and the next call is expected"
                f" to cost ${expected_usd:.4f}\n"
                "  what has been answered is kept: the same command with a larger --budget-usd"
                " goes on where this one stopped"
            )
        self._check_counts(tokens)
        charge = Charge(expected_usd, tokens)
        self.reserved_usd += expected_usd
        self.reserved_tokens += tokens
        self.calls += 1
        try:
            yield charge
        except BaseException:
            self.calls -= 1
            raise
        finally:
            self.reserved_usd -= expected_usd
            self.reserved_tokens -= tokens
            if charge.actual_usd is not None:
                self.spent_usd += charge.actual_usd
                if expected_usd:
                    self.excess = max(self.excess, 1.0, charge.actual_usd / expected_usd)
            if charge.actual_tokens is not None:
                self.spent_tokens += charge.actual_tokens

    def _check_counts(self, tokens: int) -> None:
        """Raise a BudgetError where one more call, or its tokens, would be too many."""
        used = self.spent_tokens + self.reserved_tokens
        counts: tuple[tuple[int | None, int, Literal["calls", "tokens"]], ...] = (
            (self.limit_calls, self.calls + 1, "calls"),
            (self.limit_tokens, used + tokens, "tokens"),
        )
        for limit, after, noun in counts:
            if limit is not None and after > limit / self.processes:
                raise BudgetError(
                    f"the budget of {limit} {noun} is reached: one more call makes it {after}\n"
                    f"  what has been answered is kept: the same command with a larger"
                    f" --budget-{noun} goes on where this one stopped",
                    limit=noun,
                )
