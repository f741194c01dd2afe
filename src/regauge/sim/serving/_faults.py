"""Faults that the server injects on purpose, and its rate limit."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Fault", "FaultPlan", "RateLimit", "parse_faults", "parse_rate"]

Fault = int | Literal["drop", "truncate", "timeout"]

_NAMED: Final[Mapping[str, Literal["drop", "truncate", "timeout"]]] = {
    "drop": "drop",
    "truncate": "truncate",
    "timeout": "timeout",
}
_STATUSES: Final = range(400, 600)
_RATE: Final = re.compile(r"(?P<count>\d+)\s*/\s*(?P<unit>s|m|min|h)")
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Which share of the requests fails in which way, decided by seed and request number.

    Attributes:
        shares: Pairs of a fault and its share, from 0 to 1; together at most 1.
        seed: Another seed fails other requests.
    """

    shares: tuple[tuple[Fault, float], ...] = ()
    seed: int = 0

    def decide(self, number: int) -> Fault | None:
        """What goes wrong with the request of this number, if anything."""
        if not self.shares:
            return None
        digest = hashlib.blake2b(f"{self.seed}:{number}".encode(), digest_size=7).digest()
        left = int.from_bytes(digest) / 2**56
        for fault, share in self.shares:
            if left < share:
                return fault
            left -= share
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """So many requests per so many seconds."""

    count: int
    per_s: float


class Bucket:
    """A rate limit at work: full at first, refilled steadily."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._left = float(limit.count)
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """0 when a request may pass, which it then has; else the seconds until one may."""
        rate = self._limit.count / self._limit.per_s
        if self._at is not None:
            self._left = min(self._limit.count, self._left + (now - self._at) * rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / rate


def parse_faults(text: str, *, seed: int = 0) -> FaultPlan:
    """Read `429=0.2,500=0.05,drop=0.01`.

    Raises:
        UsageError: A name is no fault, a share is no number from 0 to 1, or they exceed 1.

    >>> parse_faults("429=0.2,drop=0.01").shares
    ((429, 0.2), ('drop', 0.01))
    """
    shares: list[tuple[Fault, float]] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = piece.partition("=")
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if not equals or not 0 <= share <= 1:
            raise UsageError(
                f"{piece!r} is not a fault with a share\n  fix: write NAME=SHARE with a share "
                f"from 0 to 1, such as 429=0.2"
            )
        name = name.strip()
        if name.isdecimal() and int(name) in _STATUSES:
            shares.append((int(name), share))
        elif name in _NAMED:
            shares.append((_NAMED[name], share))
        else:
            raise UsageError(
                f"{name!r} is no fault\n  fix: use an HTTP status from 400 to 599, drop, "
                f"truncate or timeout"
            )
    if sum(share for _, share in shares) > 1 + 1e-9:
        raise UsageError(f"the shares of {text!r} add up to more than 1")
    return FaultPlan(shares=tuple(shares), seed=seed)


def parse_rate(text: str) -> RateLimit:
    """Read `100/s`, `600/m` or `1000/h`.

    Raises:
        UsageError: The text says something else.

    >>> parse_rate("600/m").per_s
    60.0
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or int(match["count"]) < 1:
        raise UsageError(f"{text!r} is not a rate\n  fix: write such as 100/s, 600/m or 1000/h")
    return RateLimit(count=int(match["count"]), per_s=_UNIT_S[match["unit"]])
