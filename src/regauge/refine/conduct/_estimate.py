"""What a refinement takes, said before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run takes, before anything is spent.

    Attributes:
        first_look: Calls that say whether anything fails.
        least: Calls below which nothing is begun.
        one_repair: About how many calls find a fault, repair it and verify the repair.
        most: Calls that are never exceeded.
        goals: What each goal takes that was set: its name, and the fewest trials that meet it.
        out_of_reach: What to say of goals that the run cannot show to be met.
        steadying: About how many calls looks at flaky checks take on top, from and to; None where
            none are worked on.
        call_usd: What one call of the prompt costs on average; None without a price.
    """

    train: int
    holdout: int
    first_look: int
    least: int
    one_repair: int
    most: int
    goals: tuple[tuple[str, int], ...]
    out_of_reach: tuple[str, ...]
    steadying: tuple[int, int] | None
    call_usd: float | None

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        goals: dict[str, JSON] = {"goals": [{"name": n, "trials": t} for n, t in self.goals]}
        if self.out_of_reach:
            goals["out_of_reach"] = list(self.out_of_reach)
        steadying: dict[str, JSON] = {"steadying_calls": list(self.steadying or ())}
        return {
            "train": self.train,
            "holdout": self.holdout,
            "first_look_calls": self.first_look,
            "least_calls": self.least,
            "one_repair_calls": self.one_repair,
            "calls_max": self.most,
            "call_usd": self.call_usd,
            **(steadying if self.steadying else {}),
            **(goals if self.goals else {}),
        }
