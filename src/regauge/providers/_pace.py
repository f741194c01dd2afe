"""The rate that a server grants, learned from the requests that it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from regauge.providers._quota import Quota

__all__ = ["Pace"]

# All numbers were chosen by simulation (tests/unit/providers/test_pace.py): token buckets, windows,
# random refusals, and several workers, over two decades of rates.

# The longest gap between two requests: a server that refuses everything is tried that often.
_GAP_MAX_S: Final = 12.0
# While the rate is searched for; longer gaps find the end of an outage later.
_SEARCH_GAP_MAX_S: Final = 5.0
# The first gap once a limit shows. Longer: slow limits are found with fewer refusals, and what a
# small burst of a fast one refills is lost.
_GAP_FIRST_S: Final = 0.05
# Timers are late; as much is made up for.
_CATCH_UP_S: Final = 0.05
# Shorter intervals between two refusals measure nothing.
_SPAN_MIN_S: Final = 0.01
# This many refusals, nearly in a row, are taken for a limit. Lower: fewer requests are wasted at
# the start, and random refusals are taken for a limit more often. Doubled after each such mistake.
_PATIENCE: Final = 6
_PATIENCE_MAX: Final = 64
_DENSE: Final = 1.4
# Below a limit, two refusals within so many requests are too many.
_CLOSE: Final = 16
# Granted requests from which a rate is known.
_SURE: Final = 6
# The pace after a refusal, as a share of the measured rate: what is saved up is spent as it rises.
_BELOW: Final = 0.9
# The n-th request since the last change raises a known rate by n times this share...
_STEP: Final = 1e-4
# ... at most by a factor of e within the time that refusals take, and within this time ...
_RISE_S: Final = 0.05
# ... and, from 4 to 12 seconds after it, time does: by this share per second and second.
_STEP_PER_S: Final = 0.1
_STEADY_S: Final = 4.0
_STEADY_MAX_S: Final = 8.0
_STEADY_REQUESTS: Final = 24
# A pace this far below what was granted before has to help within so many requests.
_POINTLESS: Final = 0.6
_TRIAL: Final = 20
# Shares of refusals: up to `_CALM`, a limit is what explains them; from `_NOISE_MIN` on, a limit
# that was lowered does not; a share above `_REFUSES_ALL` is an outage.
_CALM: Final = 0.15
_NOISE_MIN: Final = 0.1
_NOISE_MAX: Final = 0.5
_REFUSES_ALL: Final = 0.75
_NOISE_DECAY: Final = 0.8
# Limits that are full again later than this are no pace.
_RESET_MAX_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A request that was refused: its number, and when it was sent."""

    number: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the next request may be sent; time comes in from outside, in seconds.

    Requests are numbered from 1 as they are sent. There is no pace until a dense series of
    refusals shows a limit, at which nothing is left. From then on each refusal bounds the rate by
    what was granted since the last moment at which nothing was left, whatever the kind of limit.
    The pace is set a little below, and rises until requests are refused again.

    Refusals that have nothing to do with the rate look the same at first. But a slower pace does
    not lower their share, so that the measured rate falls with the pace: then the pace is lifted,
    and the next limit needs twice the evidence. Both mistakes are cheap: to lift the pace of a
    real limit costs a few refused requests.

    Attributes:
        rate: Requests per second; infinite without a limit in sight.
        sure: Whether the rate was measured, and not only bounded.
        best: The highest rate measured since the limit was noticed, in requests per second.
        patience: Refusals in a dense series that show a limit.
        noise: The share of refusals that a slower pace did not lower.
        sent: Requests so far.
        next_at: When the next one may be sent.
        changed: The number of the last request before the rate was lowered.
        changed_at: When it was lowered.
        recent: The last refusals since.
        empty: The last refused request at which nothing was left.
        refused: Refusals since `empty`.
        trial_sent: Requests since `best` was measured, up to `empty`.
        trial_refused: Refusals among them.
        notice_s: How long refusals take to come.
    """

    rate: float = math.inf
    sure: bool = False
    best: float = 0.0
    patience: int = _PATIENCE
    noise: float = 0.0
    sent: int = 0
    next_at: float = -math.inf
    changed: int = 0
    changed_at: float = 0.0
    recent: tuple[_Sent, ...] = ()
    empty: _Sent = _Sent()
    refused: int = 0
    trial_sent: int = 0
    trial_refused: int = 0
    notice_s: float = 0.0

    def after_send(self, now: float) -> Pace:
        """After a request was sent."""
        sent = self.sent + 1
        if self.rate == math.inf:
            return replace(self, sent=sent)
        gap = 1 / self.rate
        pace = replace(self, sent=sent, next_at=max(self.next_at, now - _CATCH_UP_S) + gap)
        idle_s = now - self.next_at
        if idle_s > 2 * max(gap, _CATCH_UP_S):
            # No request waited: that time does not show what would have been granted.
            empty = replace(self.empty, at=self.empty.at + idle_s)
            return replace(pace, empty=empty, changed_at=self.changed_at + idle_s)
        count = sent - self.changed
        if self.sure:
            steady_s = _STEADY_S + min(_STEADY_REQUESTS * gap, _STEADY_MAX_S)
            late_s = max(0.0, now - self.changed_at - steady_s)
            step = _STEP * count + _STEP_PER_S * late_s * gap
        else:
            step = float(count > 1)
        # Refusals of the requests before may be on their way.
        return replace(
            pace, rate=self.rate * (1 + min(step, gap / max(self.notice_s, gap, _RISE_S)))
        )

    def after_refusal(self, number: int, *, sent_at: float, now: float) -> Pace:
        """After a request was refused.

        Args:
            number: Of the request.
            sent_at: When it was sent.
            now: The time.
        """
        pace = replace(
            self,
            notice_s=max(now - sent_at, 0.9 * self.notice_s),
            refused=self.refused + (number > self.empty.number),
        )
        if number <= self.changed:
            return pace
        refusals = sorted((*self.recent, _Sent(number=number, at=sent_at)), key=_number)
        most, within = self._evidence
        recent = tuple(refusals[-most:])
        pace = replace(pace, recent=recent)
        if len(recent) < most or recent[-1].number - recent[0].number >= within:
            return pace
        return pace.slow_down(recent[-1], now)

    @property
    def _evidence(self) -> tuple[int, float]:
        """How many refusals within how many requests are too many for the pace."""
        if self.rate == math.inf:
            return self.patience, _DENSE * self.patience
        if not self.sure:
            return 1 + round(4 * self.noise), _CLOSE
        return 2 + math.ceil(1.25 * _CLOSE * self.noise), _CLOSE

    def slow_down(self, last: _Sent, now: float) -> Pace:
        """Lower the rate to what was granted up to a request at which nothing was left."""
        pace = replace(self, recent=(), changed=self.sent, changed_at=now)
        if self.rate == math.inf:
            return replace(pace, empty=last, refused=0).at_rate(1 / _GAP_FIRST_S, now)
        count = max(1, last.number - self.empty.number)
        granted = max(0, count - self.refused)
        measured = (granted + 1) / max(last.at - self.empty.at, _SPAN_MIN_S)
        rate = min(self.rate, measured / (1 - self.noise))
        if granted >= _SURE:
            calm = self.sure and self.refused <= _CALM * count
            if calm:
                # The pace was lower at first; more might have been granted.
                rate = math.sqrt(rate * self.rate)
            pace = replace(
                pace,
                sure=True,
                empty=last,
                refused=0,
                patience=_PATIENCE if calm else self.patience,
                noise=_NOISE_DECAY * self.noise,
                trial_sent=self.trial_sent + count,
                trial_refused=self.trial_refused + self.refused,
            )
            if measured >= self.best:
                pace = pace.begin_trial(measured)
        elif not granted:
            pace = replace(pace, sure=False)
            if last.at - self.empty.at > _SEARCH_GAP_MAX_S:
                # Such a long outage says nothing of the rate after it.
                pace = replace(pace, empty=last, refused=0)
            return pace.lift_or_set(min(rate, self.rate / 2), measured, last, now)
        elif not self.sure:
            rate = max(min(rate, self.rate / 2), measured / 2)
            return pace.lift_or_set(rate, measured, last, now)
        return pace.lift_or_set(_BELOW * rate, measured, last, now)

    def lift_or_set(self, rate: float, measured: float, last: _Sent, now: float) -> Pace:
        """Lift a pace that does not help: were it a limit, fewer requests would be refused."""
        sent = self.trial_sent + last.number - self.empty.number
        refused = self.trial_refused + self.refused
        wanted = _POINTLESS * self.best
        if rate >= wanted or sent * wanted < _TRIAL * rate:
            return self.at_rate(rate, now)
        if not _NOISE_MIN * sent < refused < _REFUSES_ALL * sent:
            return self.begin_trial(measured).at_rate(rate, now)
        return Pace(
            sent=self.sent,
            changed=self.sent,
            patience=min(2 * self.patience, _PATIENCE_MAX),
            noise=min(refused / sent, _NOISE_MAX),
            notice_s=self.notice_s,
        )

    def begin_trial(self, best: float) -> Pace:
        """Compare later rates with this one."""
        return replace(self, best=best, trial_sent=0, trial_refused=0)

    def at_rate(self, rate: float, now: float) -> Pace:
        """Send the next request one gap from now."""
        most_s = _GAP_MAX_S if self.sure else _SEARCH_GAP_MAX_S
        gap = min(1 / rate if rate else most_s, most_s)
        return replace(self, rate=1 / gap, next_at=now + gap)

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
        pace = replace(
            self, sure=True, recent=(), changed=self.sent, changed_at=now, refused=0
        ).at_rate(rate, now)
        return replace(
            pace, empty=_Sent(number=self.sent, at=now), next_at=max(self.next_at, now)
        ).begin_trial(0.0)


def _number(request: _Sent) -> int:
    return request.number
