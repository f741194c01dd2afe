"""What a response states about the limits of its sender."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Quota", "quotas_in", "seconds_in"]

# Limit, remaining and reset, as OpenAI and compatible servers, Anthropic, and others spell them.
# Azure and GitHub Models may state the length of the period instead of the reset.
_NAMES: Final = (
    *(
        (f"x-ratelimit-limit-{unit}", f"x-ratelimit-remaining-{unit}", f"x-ratelimit-{end}-{unit}")
        for unit in ("requests", "tokens")
        for end in ("reset", "renewalperiod")
    ),
    *(
        (
            f"anthropic-ratelimit-{unit}-limit",
            f"anthropic-ratelimit-{unit}-remaining",
            f"anthropic-ratelimit-{unit}-reset",
        )
        for unit in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
)
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATIONS: Final = re.compile(rf"(?:{_DURATION.pattern})+")
_RESET_MAX_S: Final = 86400.0
# A larger number is a time since 1970.
_EPOCH_FROM: Final = 1_000_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One limit of a server.

    Attributes:
        tokens: Whether it counts tokens; otherwise requests.
        limit: What may be used until it is full again.
        remaining: What is left of it.
        reset_s: In how many seconds it is full again.
    """

    tokens: bool
    limit: float
    remaining: float
    reset_s: float

    @property
    def rate(self) -> float:
        """What it grants per second while it refills; infinite where nothing is used."""
        used = self.limit - self.remaining
        return used / self.reset_s if used > 0 and self.reset_s > 0 else math.inf


def quotas_in(headers: Mapping[str, str], *, now: datetime | None = None) -> tuple[Quota, ...]:
    """The limits that the headers of a response state; those that cannot be read are left out."""
    quotas: list[Quota] = []
    for names in _NAMES:
        if names[1] not in headers:
            continue
        limit, remaining = (_number(headers.get(name)) for name in names[:2])
        reset_s = seconds_in(headers.get(names[2]), now)
        if limit is None or remaining is None or reset_s is None or remaining > limit:
            continue
        quotas.append(
            Quota(tokens="tokens" in names[0], limit=limit, remaining=remaining, reset_s=reset_s)
        )
    return tuple(quotas)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def seconds_in(text: str | None, now: datetime | None = None) -> float | None:
    """A duration such as `1m30.5s` or `20`, or a time: RFC 3339, or seconds since 1970."""
    if text is None:
        return None
    now = now or datetime.now(UTC)
    text = text.strip()
    number = _number(text)
    if number is not None:
        seconds = number - now.timestamp() if number >= _EPOCH_FROM else number
    elif _DURATIONS.fullmatch(text):
        seconds = sum(float(count) * _UNIT_S[unit] for count, unit in _DURATION.findall(text))
    else:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        seconds = (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()
    return seconds if 0 <= seconds <= _RESET_MAX_S else None
