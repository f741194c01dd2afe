"""What the model calls of judges used, added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = ["CallTotals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """What the model calls of a judgement, or of many, used.

    Attributes:
        calls: How many there were; one that judgements of a run share counts for the first.
        live: Those of them that this run paid for.
        retries: How many attempts came to nothing.
        cost_usd: Of all of them, at what they cost when they were made; None where a price is
            not known.
        latency_s: Of all of them, one after the other, in seconds.
    """

    calls: int = 0
    live: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    latency_s: float = 0.0

    def plus(self, completion: Completion, *, live: bool) -> CallTotals:
        """With one more call; `live` when this run pays for it."""
        cost_usd = completion.cost_usd
        return CallTotals(
            calls=self.calls + 1,
            live=self.live + live,
            retries=self.retries + (completion.attempts - 1 if live else 0),
            input_tokens=self.input_tokens + completion.usage.input_tokens,
            output_tokens=self.output_tokens + completion.usage.output_tokens,
            cost_usd=_sum(self.cost_usd, cost_usd),
            spent_usd=_sum(self.spent_usd, cost_usd) if live else self.spent_usd,
            latency_s=round(self.latency_s + completion.latency_s, 6),
        )

    def to_json(self) -> dict[str, JSON]:
        """What holds for a replay, too."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "latency_s": self.latency_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> CallTotals:
        """The totals that `to_json` wrote; what is missing or no number counts as nothing."""

        def number(name: str) -> float:
            value = document.get(name)
            return value if isinstance(value, (int, float)) else 0

        cost_usd = document.get("cost_usd", 0.0)
        return cls(
            calls=int(number("calls")),
            input_tokens=int(number("input_tokens")),
            output_tokens=int(number("output_tokens")),
            cost_usd=cost_usd if isinstance(cost_usd, (int, float)) else None,
            latency_s=number("latency_s"),
        )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else round(one + other, 9)
