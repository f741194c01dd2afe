"""How far the drawing of answers has come."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["Progress"]


@dataclass(slots=True)
class Progress:
    """Counts of draws; written by the drawing loop, read by whoever reports.

    Attributes:
        total: Draws that have no answer at the start.
        landed: Draws that have one now.
        failed: Draws that ended without one.
        judge_calls: Replies that models of judges gave.
    """

    total: int = 0
    landed: int = 0
    failed: int = 0
    judge_calls: int = 0
    _started: float = field(default=0.0)

    def start(self, total: int) -> None:
        """Begin counting."""
        self.total = total
        self._started = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end at the pace so far; None before the first answer."""
        done = self.landed + self.failed
        return self.elapsed_s / done * (self.total - done) if done else None
