"""When a provider is so plainly unreachable that asking on would only cost time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Breaker", "Trip"]

# Failures at once are one event: every request in flight sees the same restart of a server.
_IN_A_ROW: Final = 8
_COLD_GRACE_S: Final = 2.0
_WARM_GRACE_S: Final = 30.0
# These do not pass by waiting; a second request would hear the same.
_FINAL_KINDS: Final = frozenset({"authentication", "quota"})
# One request that always fails may be at fault itself; three of them are not.
_GIVEN_UP: Final = 3
_PASSING_KINDS: Final = frozenset({"connection", "timeout", "server", "rate-limit"})
_TRANSPORT_KINDS: Final = frozenset({"connection", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """Why the provider is given up: the kind and message of the failure that settled it."""

    kind: str
    message: str
    status: int | None
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known about the health of one provider; time comes in from outside, in seconds.

    It trips on a refused key, on 8 failed connections in a row over 2 seconds (30 seconds where
    there were answers before), and on three requests given up where nothing ever answered.
    An answer mends it.
    """

    answered: bool = False
    failures: int = 0
    given_up: int = 0
    failing_since: float = 0.0
    trip: Trip | None = None

    def after_answer(self) -> Breaker:
        """After an answer."""
        if self.answered and self.failures == 0 and self.given_up == 0 and self.trip is None:
            return self
        return Breaker(answered=True)

    def after_failure(
        self, now: float, *, kind: str, message: str, status: int | None = None, gave_up: bool
    ) -> Breaker:
        """After an attempt that failed.

        Args:
            now: The time, in seconds of any steady clock.
            kind: The kind of the failure.
            message: What to say to requests that are not even tried any more.
            status: The HTTP status, if there was one.
            gave_up: Whether the request used up its attempts or its deadline with this one.
        """
        if self.trip is not None:
            return self
        transport = kind in _TRANSPORT_KINDS
        failures = self.failures + 1 if transport else self.failures
        since = now if failures == 1 else self.failing_since
        given_up = self.given_up + 1 if gave_up and kind in _PASSING_KINDS else self.given_up
        grace_s = _WARM_GRACE_S if self.answered else _COLD_GRACE_S
        lasting = transport and failures >= _IN_A_ROW and now - since >= grace_s
        hopeless = given_up >= _GIVEN_UP and not self.answered
        trip = None
        if kind in _FINAL_KINDS or lasting or hopeless:
            trip = Trip(kind=kind, message=message, status=status, failures=max(failures, 1))
        return Breaker(
            answered=self.answered,
            failures=failures,
            given_up=given_up,
            failing_since=since,
            trip=trip,
        )
