"""Retries of requests: after which failures, when, and how long."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from regauge.providers._failure import AttemptError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

Result = TypeVar("Result")

# Waits double from the first to the longest: 6 attempts without `Retry-After` reach it. Shorter
# ones meet the same overload again; longer ones delay every run with one lost request.
_WAIT_FIRST_S: Final = 0.25
_WAIT_MAX_S: Final = 8.0
# A restarting server is tried more often: a refused connection costs nothing. After a 429 the
# pace of all requests limits the load, so that the wait of one need not grow.
_OUTAGE_WAIT_MAX_S: Final = 2.0
# The first wait if the provider states a delay.
_WAIT_FIRST_STATED_S: Final = 0.05
_DOUBLINGS_MAX: Final = 10


@dataclass(slots=True, kw_only=True)
class Ledger:
    """The attempts and time that one request has used so far.

    A 429 is the provider's queue, and an unreachable server that worked before is restarting: such
    attempts count against the deadline only. Waiting for a permit does not count.

    Attributes:
        max_attempts: Maximum number of attempts.
        deadline_s: Time limit of attempts and waits together, in seconds.
        attempts: All attempts, including those that count against the deadline only.
        failures: The attempts that count against `max_attempts`.
        spent_s: The used part of the deadline, in seconds.
    """

    max_attempts: int
    deadline_s: float
    attempts: int = 0
    failures: int = 0
    spent_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left until the deadline; at least 0.05."""
        return max(self.deadline_s - self.spent_s, 0.05)

    @contextmanager
    def clock(self) -> Generator[None]:
        """Count the time of an attempt against the deadline."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - began

    def wait_after(self, error: Exception, *, chance: float) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is none.

        Args:
            error: The exception of the last attempt.
            chance: A random number from 0 to 1, so that requests do not return all at once.
        """
        if not isinstance(error, AttemptError) or not error.transient:
            return None
        if error.kind != "rate-limit" and not error.outage:
            self.failures += 1
            if self.failures >= self.max_attempts:
                return None
        waits_short = error.outage or error.kind == "rate-limit"
        longest = _OUTAGE_WAIT_MAX_S if waits_short else _WAIT_MAX_S
        wait = wait_s(self.attempts, error.retry_after_s, chance=chance, longest_s=longest)
        if self.spent_s + wait >= self.deadline_s:
            return None
        self.spent_s += wait
        return wait


def wait_s(
    attempt: int, retry_after_s: float | None, *, chance: float, longest_s: float = _WAIT_MAX_S
) -> float:
    """Return the seconds to wait after attempt number `attempt` (from 1).

    The wait doubles from a quarter of a second to 8 seconds; `chance` (0 to 1) removes up to half
    of it. It is at least the delay that the provider requests, plus up to a tenth (at most half a
    second).
    """
    doublings = min(attempt - 1, _DOUBLINGS_MAX)
    if retry_after_s is None:
        return min(_WAIT_FIRST_S * 2.0**doublings, longest_s) * (1 - chance / 2)
    least = max(retry_after_s, min(_WAIT_FIRST_STATED_S * 2.0**doublings, longest_s))
    return least + chance * min(least / 10, 0.5)


async def call_with_retries(
    attempt: Callable[[Ledger], Awaitable[Result]], ledger: Ledger
) -> Result:
    """Call `attempt` until it succeeds, its failure is final, or the ledger is used up.

    Raises:
        AttemptError: The failure of the last attempt, with the number of attempts.
    """
    while True:
        ledger.attempts += 1
        try:
            return await attempt(ledger)
        except AttemptError as error:
            # Jitter spreads load; it needs no secure random numbers.
            wait_s = ledger.wait_after(error, chance=random.random())  # noqa: S311
            if wait_s is None:
                error.attempts = ledger.attempts
                raise
        await asyncio.sleep(wait_s)
