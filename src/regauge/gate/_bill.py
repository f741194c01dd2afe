"""What trials without a recorded completion take: calls, tokens and cost, judges included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.runner import Draw, EvalSession

__all__ = ["Bill", "bill_draws"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What some trials take.

    Attributes:
        trials: Of both arms.
        calls: Calls for answers that are not recorded.
        judge_calls: About how many calls their judges make.
        tokens: About how many tokens all calls use, in and out.
        cost_usd: About what they cost; None when a price is unknown.
    """

    trials: int = 0
    calls: int = 0
    judge_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Bill) -> Bill:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Bill(
            trials=self.trials + other.trials,
            calls=self.calls + other.calls,
            judge_calls=self.judge_calls + other.judge_calls,
            tokens=self.tokens + other.tokens,
            cost_usd=(self.cost_usd or 0) + (other.cost_usd or 0) if known else None,
        )

    def times(self, share: float) -> Bill:
        """So many of it."""
        return Bill(
            trials=round(share * self.trials),
            calls=round(share * self.calls),
            judge_calls=round(share * self.judge_calls),
            tokens=round(share * self.tokens),
            cost_usd=None if self.cost_usd is None else share * self.cost_usd,
        )


def bill_draws(draws: Sequence[Draw], session: EvalSession) -> Bill:
    """What draws take that have no completion yet."""
    bill = Bill(trials=len(draws), calls=len(draws))
    for completions in session.missing_answers(draws):
        bill += Bill(tokens=completions.tokens, cost_usd=completions.cost_usd)
    for judged in session.missing_judgements(draws):
        bill += Bill(judge_calls=judged.calls, tokens=judged.tokens, cost_usd=judged.cost_usd)
    return bill
