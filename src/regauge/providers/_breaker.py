"""When a provider is so plainly unreachable that asking on would only cost time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Breaker", "Trip"]

# Failures at once are one event: every request in flight sees the same restart of a server.
_IN_A_ROW: Final = 8
_COLD_GRACE_S: Final = 2.0
# These do not pass by waiting; a second request would hear the same.
_FINAL_KINDS: Final = frozenset({"authentication", "quota"})
# One request that always fails may be at fault itself; three of them are not.
_GIVEN_UP: Final = 3
_PASSING_KINDS: Final = frozenset({"connection", "timeout", "server", "rate-limit"})
_GATEWAY: Final = frozenset({502, 503, 504})
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

    It trips on a refused key, on 8 failed connections in a row over 2 seconds (`patience_s` where
    there were answers before), on three requests given up where nothing ever answered, and where
    nothing but 429 came for `patience_s`. An answer resets it.

    Attributes:
        patience_s: How long a server that answered may be away, in seconds.
        refused_since: When the first 429 after the last answer came; None where there is none.
    """

    patience_s: float = 120.0
    answered: bool = False
    failures: int = 0
    given_up: int = 0
    failing_since: float = 0.0
    refused_since: float | None = None
    trip: Trip | None = None

    def after_answer(self) -> Breaker:
        """After an answer."""
        fresh = Breaker(patience_s=self.patience_s, answered=True)
        return self if self == fresh else fresh

    @property
    def outage(self) -> bool:
        """Whether a server that answered before is away, and not one request at fault."""
        return self.answered and self.failures >= _IN_A_ROW

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
        # A gateway that answers for a server that is away.
        transport = kind in _TRANSPORT_KINDS or (self.answered and status in _GATEWAY)
        failures = self.failures + 1 if transport else self.failures
        since = now if failures == 1 else self.failing_since
        given_up = self.given_up + 1 if gave_up and kind in _PASSING_KINDS else self.given_up
        grace_s = self.patience_s if self.answered else _COLD_GRACE_S
        lasting = transport and failures >= _IN_A_ROW and now - since >= grace_s
        refused_since = self.refused_since
        if kind == "rate-limit" and refused_since is None:
            refused_since = now
        stalled = refused_since is not None and now - refused_since >= self.patience_s
        hopeless = given_up >= _GIVEN_UP and not self.answered
        trip = None
        if kind in _FINAL_KINDS or lasting or hopeless or stalled:
            trip = Trip(kind=kind, message=message, status=status, failures=max(failures, 1))
        return Breaker(
            patience_s=self.patience_s,
            refused_since=refused_since,
            answered=self.answered,
            failures=failures,
            given_up=given_up,
            failing_since=since,
            trip=trip,
        )
