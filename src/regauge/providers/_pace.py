"""The rate that a server grants, learned from the requests that it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from regauge.providers._quota import Quota

__all__ = ["Pace"]

# All numbers were chosen by simulation (tests/unit/providers/test_pace.py): token buckets, windows
# and refusals at random, over two decades of rates. Lower shares and shorter blocks react sooner,
# and take chance for a limit more often.

# The longest gap between two requests: a server that refuses everything is tried that often.
_GAP_MAX_S: Final = 12.0
# What is sent within this time is one event, however fast a server refuses.
_SPAN_MIN_S: Final = 0.03
# Timers are late; as much is made up for.
_CATCH_UP_S: Final = 0.05
# Requests after which a pace is judged, where the last change was small.
_BLOCK: Final = 16
_STEP_MIN: Final = 1 / 24
_STEP_MAX: Final = 0.3
# Granted requests between two refusals from which a rate is known.
_SURE: Final = 6
# A share of refusals that is too much, on top of `noise`.
_EXCESS: Final = 0.1
_BELOW: Final = 0.97
_NOISE_MIN: Final = 0.08
_NOISE_MAX: Final = 0.6
# Until more is known, a fifth may be refused by chance; 4 deviations above it are a limit.
_CHANCE: Final = 0.2
_DEVIATIONS: Final = 4
# As probable is a streak of refusals, at least, that noise explains while the rate is searched for.
_BY_CHANCE: Final = 0.3
# Limits that are full again later than this are no pace.
_RESET_MAX_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """A refused request: when it was sent, its number, and how many later ones were refused."""

    at: float
    number: int
    refused: int = 0

    def counted(self, number: int) -> _Mark:
        return replace(self, refused=self.refused + 1) if number > self.number else self

    def passed(self, number: int) -> int:
        """How many requests were granted between this one and a later one that was refused."""
        return max(0, number - self.number - self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the next request may be sent; time comes in from outside, in seconds.

    Requests are numbered from 1 as they are sent. One that was not refused by the time that
    refusals take counts as granted. Without a limit in sight there is no pace. Once far more
    are refused than chance would, the rate is searched for: each refusal bounds it by what was
    granted since the last moment at which nothing was left. Once it is known, requests are judged
    in blocks: a block with too many refusals lowers the rate to what was granted, one without
    raises it, faster each time. Where a clearly slower pace does not lower the share of refusals,
    they have nothing to do with it: this share becomes `noise`, and the pace is given up.

    Attributes:
        rate: Requests per second; infinite without a limit in sight.
        step: By how much the next block without refusals raises the rate, as a share.
        noise: The share of refusals that no pace changes.
        unsure: Whether the rate is still searched for.
        clean: The rate of the last block if none of it was refused; otherwise 0.
        sent: Requests so far.
        next_at: When the next one may be sent.
        first: The number before the first of the block.
        first_at: When the first of the block was sent.
        failed: Refusals in the block.
        last: The highest number that was refused.
        full_at: When the block was complete; its last refusals may be on their way.
        notice_s: How long refusals take to come.
        earlier: The speed and the share of refusals of a faster time, to compare with.
        slow_sent: Requests since then at a clearly slower pace.
        slow_failed: Refusals among them.
        mark: The refusal from which granted requests are counted while the rate is searched for.
        streak: The first of the refusals since a request was granted.
    """

    rate: float = math.inf
    step: float = _STEP_MIN
    noise: float = 0.0
    unsure: bool = False
    earlier: tuple[float, float] | None = None
    slow_sent: int = 0
    slow_failed: int = 0
    clean: float = 0.0
    first_at: float | None = None
    sent: int = 0
    next_at: float = -math.inf
    first: int = 0
    failed: int = 0
    last: int = 0
    full_at: float | None = None
    notice_s: float = 0.0
    mark: _Mark | None = None
    streak: _Mark | None = None

    def after_send(self, now: float) -> Pace:
        """After a request was sent."""
        sent = self.sent + 1
        pace = replace(self, sent=sent, first_at=now if self.first_at is None else self.first_at)
        if self.rate < math.inf:
            gap = 1 / self.rate
            pace = replace(pace, next_at=max(self.next_at, now - _CATCH_UP_S) + gap)
            if now - self.next_at > 2 * max(_CATCH_UP_S, gap):
                return pace  # nobody waited: that says nothing of a faster pace
        if self.full_at is None:
            return replace(pace, full_at=now) if sent - self.first >= self._length else pace
        return pace if now - self.full_at < 2 * self.notice_s else pace.judge_block(now)

    @property
    def _length(self) -> int:
        if self.unsure:
            return 2
        return min(max(4, round(2 / self.step)), _BLOCK)

    def judge_block(self, now: float) -> Pace:
        """The pace after a block whose refusals are known."""
        count = self.sent - self.first
        if self.failed == 1 and count < _BLOCK and not self.unsure:
            return self
        share = self.failed / count
        passed = 1 - share
        noise = self.noise
        assert self.first_at is not None
        speed = count / max(now - self.first_at, _SPAN_MIN_S)
        pace = self.compare_with_faster(speed, count)
        if pace.rate > self.rate:
            return pace
        if share < noise or (noise and self.rate == math.inf):
            noise += (share - noise) / 8
        if share > noise + _EXCESS + math.sqrt(noise * (1 - noise) / count):
            rate = min(self.rate, speed) if self.rate == math.inf else self.rate
            lower = max(_BELOW * rate * passed / (1 - noise), self.clean, 1 / _GAP_MAX_S)
            return replace(
                pace.next_block(lower, noise=noise), earlier=pace.earlier or (speed, share)
            )
        if self.rate == math.inf:
            return pace.next_block(self.rate, noise=noise)
        if share <= noise:
            step = min(2 * self.step, 1.0 if self.unsure else _STEP_MAX)
            return pace.next_block(
                self.rate * (1 + self.step), step=step, noise=noise, clean=self.rate
            )
        return pace.next_block(self.rate, noise=noise)

    def compare_with_faster(self, speed: float, count: int) -> Pace:
        """Give the pace up where it does not help: were it a limit, more would pass."""
        if self.earlier is None or speed > 0.7 * self.earlier[0]:
            return self
        sent, failed = self.slow_sent + count, self.slow_failed + self.failed
        pace = replace(self, slow_sent=sent, slow_failed=failed)
        if sent < 2 * _BLOCK:
            return pace
        share, before = failed / sent, self.earlier[1]
        pace = replace(pace, earlier=None, slow_sent=0, slow_failed=0)
        if _NOISE_MIN <= share <= _NOISE_MAX and 0.5 * before <= share <= before + 0.15:
            return pace.next_block(math.inf, noise=share)
        return pace

    def next_block(
        self, rate: float, *, step: float = _STEP_MIN, noise: float, clean: float = 0.0
    ) -> Pace:
        """Begin a block at another rate."""
        return replace(
            self,
            rate=rate,
            step=step,
            noise=noise,
            clean=clean,
            unsure=self.unsure and rate < math.inf,
            first=self.sent - 1,
            first_at=None,
            failed=0,
            full_at=None,
        )

    def after_refusal(
        self, number: int, *, sent_at: float, now: float, hold_s: float | None = None
    ) -> Pace:
        """After a request was refused.

        Args:
            number: Of the request.
            sent_at: When it was sent.
            now: The time.
            hold_s: How long the server asks to wait, in seconds; None where it does not say.
        """
        mark = _Mark(at=sent_at, number=number)
        streak = self.streak.counted(number) if self.streak else mark
        if streak.passed(number):
            streak = mark
        pace = replace(
            self,
            notice_s=max(now - sent_at, 0.9 * self.notice_s),
            mark=self.mark.counted(number) if self.mark else mark,
            streak=streak,
        )
        if number <= self.first:
            return pace
        pace = replace(pace, failed=self.failed + 1, last=max(self.last, number))
        if self.unsure and self.noise ** (streak.refused + 1) < _BY_CHANCE:
            return pace.slow_down(mark, now, hold_s)
        count, usual = pace.last - self.first, max(self.noise, _CHANCE)
        if pace.failed > count * usual + _DEVIATIONS * math.sqrt(count * usual * (1 - usual)):
            return pace.slow_down(mark, now, hold_s)
        return pace

    def slow_down(self, mark: _Mark, now: float, hold_s: float | None) -> Pace:
        """Search for the rate: it is no higher than what was granted since nothing was left."""
        assert self.mark is not None
        assert self.streak is not None
        start = self.mark if self.unsure else self.streak
        passed, span = start.passed(mark.number), mark.at - start.at
        unsure = passed < _SURE
        rate = min(self.rate, (passed + 1) / max(span, _SPAN_MIN_S) / (1 - self.noise))
        if not self.unsure and self.clean > 1.4 * rate and not self.streak.refused:
            # It was not asked for all that it would have granted.
            rate, unsure, start = math.sqrt(self.clean * rate), True, self.streak
        if self.streak.refused:
            rate = min(
                rate, 1 / max(mark.at - self.streak.at, 1e-3 if self.unsure else _SPAN_MIN_S)
            )
        gap = min(1 / rate, _GAP_MAX_S)
        step = 1.0 if unsure else 1 / _SURE
        pace = self.next_block(1 / gap, step=step, noise=self.noise)
        if hold_s is not None:
            gap = min(gap, max(hold_s, gap / 3))
        # Measured from a moment at which all was spent.
        pace = replace(pace, next_at=now + gap, first=self.sent, unsure=unsure, mark=start)
        if self.unsure and not unsure:
            count = mark.number - start.number
            pace = replace(pace, earlier=(count / max(span, _SPAN_MIN_S), 1 - passed / count))
        return pace

    def after_quotas(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> Pace:
        """After a response that states limits: those that run out are paced before they do."""
        rate = math.inf
        for quota in quotas:
            used = quota.limit - quota.remaining
            each = max(1.0, used / max(self.sent, 1)) if quota.tokens else 1.0
            scarce = each * min(in_flight, max(1.0, quota.limit / each / 10))
            if quota.remaining <= scarce and quota.reset_s <= _RESET_MAX_S:
                rate = min(rate, quota.rate / each)
        if rate >= self.rate:
            return self
        gap = min(1 / rate if rate else _GAP_MAX_S, _GAP_MAX_S)
        pace = self.next_block(1 / gap, noise=self.noise)
        return replace(pace, next_at=max(self.next_at, now), first=self.sent, unsure=False)
