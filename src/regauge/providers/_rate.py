"""Limits on requests in flight and on their rate, learned from the server."""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

# Limit, remaining and reset: names of OpenAI and compatible servers, Anthropic, and others.
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
# Limits count per minute, hour or day; a later reset is an error of the header.
_RESET_MAX_S: Final = 86400.0
# A larger number is a time since 1970.
_EPOCH_FROM: Final = 1_000_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One limit of a server.

    Attributes:
        tokens: Whether it counts tokens; otherwise requests.
        limit: The units available per period.
        remaining: The units left.
        reset_s: Seconds until it is full again.
    """

    tokens: bool
    limit: float
    remaining: float
    reset_s: float

    @property
    def rate(self) -> float:
        """The permits per second while it refills; infinite without any use."""
        consumed = self.limit - self.remaining
        return consumed / self.reset_s if consumed > 0 and self.reset_s > 0 else math.inf


def quotas_in(headers: Mapping[str, str], *, now: datetime | None = None) -> tuple[Quota, ...]:
    """Return the limits in the headers of a response; unreadable ones are left out."""
    quotas: list[Quota] = []
    if not any("ratelimit" in name for name in headers):
        return ()  # most servers state none, and each look-up of a header takes time
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
    """Parse a duration such as `1m30.5s` or `20`, or a time: RFC 3339, or seconds since 1970."""
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
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    return seconds if 0 <= seconds <= _RESET_MAX_S else None


# All numbers were chosen by simulation (tests/unit/providers/test_pace.py): token buckets, windows,
# random refusals, and several workers, over two decades of rates.

# The longest gap between two requests, also to a server that refuses everything.
_GAP_MAX_S: Final = 12.0
# The same while the rate is unknown; longer gaps find the end of an outage later.
_SEARCH_GAP_MAX_S: Final = 5.0
# The first gap once a limit shows. Longer: slow limits are found with fewer refusals, and the
# refill of a fast limit with a small burst is lost.
_GAP_FIRST_S: Final = 0.05
# Timers are late; the pace catches up by at most this time.
_CATCH_UP_S: Final = 0.05
# Shorter intervals between two refusals are not a measurement.
_SPAN_MIN_S: Final = 0.01
# A shorter interval is completed with the rate known before: a burst after a stall of the process
# is not a rate. Longer: a lower limit is noticed later.
_KNOWN_S: Final = 1.0
# This many refusals, nearly in a row, are taken for a limit. Lower: fewer requests are wasted at
# the start, and random refusals are taken for a limit more often. Doubled after each such mistake.
_PATIENCE: Final = 6
_PATIENCE_MAX: Final = 64
_DENSE: Final = 1.4
# Below a limit, two refusals within so many requests are too many.
_CLOSE: Final = 16
# Granted requests from which a rate is known.
_SURE: Final = 6
# The pace after a refusal, as a share of the measured rate: the saved tokens are used as it rises.
_BELOW: Final = 0.9
# ... and at least so far below it, however often the rate was measured. Less: a limit is met more
# often by requests that arrive late, together.
_BELOW_MIN: Final = 0.01
# The n-th request since the last change raises a known rate by n times this share...
_STEP: Final = 1e-4
# ... which each time that the same rate is measured, within this share of it, ...
_SAME: Final = 0.1
# ... divides by 4, so often at most, while the pace is set half as far below it. More: fewer
# refusals of a steady limit, and a limit that rises a little is found later.
_CONFIRMED_MAX: Final = 5
# A rate that was measured alike so often has met its limit at one refusal. With 2 refusals each
# time, a steady bucket refuses 0.86 % of the requests of a minute instead of 0.64 %.
_STEADY_FROM: Final = 2
# Above the rate of the requests granted before the limit, the search rises by this share.
_BEYOND: Final = 0.1
# The rate rises at most by a factor of e within the time that refusals take, and within this.
_RISE_S: Final = 0.1
# From 3 to 11 seconds after it, time raises it: by this share per second and second.
_STEP_PER_S: Final = 0.1
_STEADY_S: Final = 3.0
_STEADY_MAX_S: Final = 8.0
_STEADY_REQUESTS: Final = 24
# A pace this far below the granted rate has to help within this number of requests.
_POINTLESS: Final = 0.6
_TRIAL: Final = 20
# Shares of refusals: up to `_CALM`, a limit explains them; from `_NOISE_MIN` on, a lowered limit
# does not; a share above `_REFUSES_ALL` is an outage.
_CALM: Final = 0.15
_NOISE_MIN: Final = 0.1
_NOISE_MAX: Final = 0.5
_REFUSES_ALL: Final = 0.75
_NOISE_DECAY: Final = 0.8
# Limits that reset later than this set no pace.
_PAUSE_MAX_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentRequest:
    """A rejected request: its number, and its time in seconds."""

    number: int = 0
    sent_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The time of the next request; the caller passes the clock, in seconds.

    Requests are numbered from 1 as they are sent. There is no pace until a dense series of refusals
    shows a limit, which is then exhausted. From then on each refusal bounds the rate by the
    requests granted since the limit was last exhausted. The pace is set a little below, and rises
    until requests are refused again.

    Refusals that are independent of the rate look the same at first. But a slower pace does not
    lower their share, so the measured rate falls with the pace. Then the pace is lifted, and the
    next limit needs twice the evidence. Both mistakes are cheap: lifting the pace of a real limit
    costs a few refused requests.

    Attributes:
        rate: Requests per second; infinite without a known limit.
        is_measured: Whether the rate was measured, and not only bounded.
        measured_rate: The last measured rate, or 0; when a limit shows, all requests granted
            before.
        best_rate: The highest rate measured since the limit was noticed, in requests per second.
        patience: Refusals in a dense series that show a limit.
        confirmations: Consecutive measurements of the same rate; another rate halves it.
        noise: The share of refusals that a slower pace did not lower.
        request_count: Requests so far.
        next_at: The time of the next request.
        changed_number: The number of the last request before the rate was lowered.
        changed_at: The time when it was lowered.
        recent: The last refusals since.
        last_exhausted: The last refused request at which the limit was exhausted. Before one, the
            start of the pace: the first request, or the last one before the pace was lifted.
        refusal_count: Refusals since `last_exhausted`.
        trial_requests: Requests since `best_rate` was measured, up to `last_exhausted`.
        trial_refusals: Refusals among them.
        refusal_delay_s: The time until a refusal arrives, in seconds.
    """

    rate: float = math.inf
    is_measured: bool = False
    measured_rate: float = 0.0
    best_rate: float = 0.0
    patience: int = _PATIENCE
    confirmations: int = 0
    noise: float = 0.0
    request_count: int = 0
    next_at: float = -math.inf
    changed_number: int = 0
    changed_at: float = 0.0
    recent: tuple[_SentRequest, ...] = ()
    last_exhausted: _SentRequest = _SentRequest()
    refusal_count: int = 0
    trial_requests: int = 0
    trial_refusals: int = 0
    refusal_delay_s: float = 0.0

    def after_send(self, now: float) -> Pace:
        """Return the pace after a request was sent."""
        request_count = self.request_count + 1
        if self.rate == math.inf:
            last_exhausted = (
                self.last_exhausted
                if self.request_count
                else replace(self.last_exhausted, sent_at=now)
            )
            return replace(self, request_count=request_count, last_exhausted=last_exhausted)
        gap = 1 / self.rate
        pace = replace(
            self, request_count=request_count, next_at=max(self.next_at, now - _CATCH_UP_S) + gap
        )
        idle_s = now - self.next_at
        if idle_s > 2 * max(gap, _CATCH_UP_S):
            # No request waited: idle time is not evidence of a limit.
            last_exhausted = replace(
                self.last_exhausted, sent_at=self.last_exhausted.sent_at + idle_s
            )
            return replace(pace, last_exhausted=last_exhausted, changed_at=self.changed_at + idle_s)
        count = request_count - self.changed_number
        if self.is_measured:
            steady_s = _STEADY_S + min(_STEADY_REQUESTS * gap, _STEADY_MAX_S)
            late_s = max(0.0, now - self.changed_at - steady_s)
            step = _STEP / 4**self.confirmations * count + _STEP_PER_S * late_s * gap
        else:
            step = float(count > 1)
        # Refusals of earlier requests may still arrive.
        step = min(step, gap / max(self.refusal_delay_s, gap, _RISE_S))
        if not self.is_measured and self.rate >= self.measured_rate > 0:
            step *= _BEYOND
        return replace(pace, rate=self.rate * (1 + step))

    def after_refusal(self, number: int, *, sent_at: float, now: float) -> Pace:
        """Return the pace after a request was refused.

        Args:
            number: The number of the request.
            sent_at: The time when it was sent.
            now: The time.
        """
        pace = replace(
            self,
            refusal_delay_s=max(now - sent_at, 0.9 * self.refusal_delay_s),
            refusal_count=self.refusal_count + (number > self.last_exhausted.number),
        )
        if number <= self.changed_number:
            return pace
        refusal = _SentRequest(number=number, sent_at=sent_at)
        refusals = sorted((*self.recent, refusal), key=lambda request: request.number)
        refusals_max, within = self._evidence
        recent = tuple(refusals[-refusals_max:])
        pace = replace(pace, recent=recent)
        if len(recent) < refusals_max or recent[-1].number - recent[0].number >= within:
            return pace
        return pace.slow_down(recent[-1], now)

    @property
    def _evidence(self) -> tuple[int, float]:
        """The number of refusals that is too many, and the requests they are among."""
        if self.rate == math.inf:
            return self.patience, _DENSE * self.patience
        if not self.is_measured:
            return 1 + round(4 * self.noise), _CLOSE
        # A pace that rises more slowly meets its limit with fewer refusals at a time.
        within = _CLOSE * 2**self.confirmations
        least = 1 if self.confirmations >= _STEADY_FROM else 2
        return least + math.ceil(1.25 * within * self.noise), within

    def slow_down(self, last: _SentRequest, now: float) -> Pace:
        """Lower the rate to the requests granted up to one at which the limit was exhausted."""
        pace = replace(self, recent=(), changed_number=self.request_count, changed_at=now)
        count = max(1, last.number - self.last_exhausted.number)
        granted_count = max(0, count - self.refusal_count)
        span_s = max(last.sent_at - self.last_exhausted.sent_at, _SPAN_MIN_S)
        known_s = (
            max(0.0, _KNOWN_S - span_s) if self.is_measured and granted_count >= _SURE else 0.0
        )
        measured = (granted_count + 1 + known_s * self.measured_rate) / (span_s + known_s)
        if self.rate == math.inf:
            pace = replace(pace, last_exhausted=last, refusal_count=0, measured_rate=measured)
            return pace.at_rate(1 / _GAP_FIRST_S, now)
        rate = min(self.rate, measured / (1 - self.noise))
        below = _BELOW
        if granted_count >= _SURE:
            is_calm = self.is_measured and self.refusal_count <= _CALM * count
            is_same_rate = is_calm and abs(measured - self.measured_rate) <= _SAME * measured
            confirmations = (
                min(self.confirmations + 1, _CONFIRMED_MAX)
                if is_same_rate
                else self.confirmations // 2
            )
            if is_calm and not is_same_rate:
                # The pace was lower at first; the limit may allow more.
                rate = math.sqrt(rate * self.rate)
            below = 1 - max(_BELOW_MIN, (1 - _BELOW) / 2**confirmations)
            pace = replace(
                pace,
                is_measured=True,
                confirmations=confirmations,
                measured_rate=measured,
                last_exhausted=last,
                refusal_count=0,
                patience=_PATIENCE if is_calm else self.patience,
                noise=_NOISE_DECAY * self.noise,
                trial_requests=self.trial_requests + count,
                trial_refusals=self.trial_refusals + self.refusal_count,
            )
            if measured >= self.best_rate:
                pace = pace.begin_trial(measured)
        elif not granted_count:
            pace = replace(pace, is_measured=False, confirmations=0)
            if last.sent_at - self.last_exhausted.sent_at > _SEARCH_GAP_MAX_S:
                # The rate after such a long outage is unknown.
                pace = replace(pace, last_exhausted=last, refusal_count=0)
            return pace.lift_or_set(min(rate, self.rate / 2), measured, last, now)
        elif not self.is_measured:
            rate = max(min(rate, self.rate / 2), measured / 2)
            return pace.lift_or_set(rate, measured, last, now)
        return pace.lift_or_set(below * rate, measured, last, now)

    def lift_or_set(self, rate: float, measured: float, last: _SentRequest, now: float) -> Pace:
        """Set the rate, or lift the pace if it did not reduce refusals."""
        request_count = self.trial_requests + last.number - self.last_exhausted.number
        refusal_count = self.trial_refusals + self.refusal_count
        pointless_below = _POINTLESS * self.best_rate
        if rate >= pointless_below or request_count * pointless_below < _TRIAL * rate:
            return self.at_rate(rate, now)
        if not _NOISE_MIN * request_count < refusal_count < _REFUSES_ALL * request_count:
            return self.begin_trial(measured).at_rate(rate, now)
        return Pace(
            request_count=self.request_count,
            changed_number=self.request_count,
            last_exhausted=_SentRequest(number=self.request_count, sent_at=now),
            patience=min(2 * self.patience, _PATIENCE_MAX),
            noise=min(refusal_count / request_count, _NOISE_MAX),
            refusal_delay_s=self.refusal_delay_s,
        )

    def begin_trial(self, best: float) -> Pace:
        """Compare later rates with this one."""
        return replace(self, best_rate=best, trial_requests=0, trial_refusals=0)

    def at_rate(self, rate: float, now: float) -> Pace:
        """Set a rate; the next request is one gap from now."""
        most_s = _GAP_MAX_S if self.is_measured else _SEARCH_GAP_MAX_S
        gap = min(1 / rate if rate else most_s, most_s)
        return replace(self, rate=1 / gap, next_at=now + gap)

    def after_quotas(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> Pace:
        """Return the pace after a response with limits: it slows down before they run out."""
        rate = math.inf
        for quota in quotas:
            consumed = quota.limit - quota.remaining
            units_per_request = (
                max(1.0, consumed / max(self.request_count, 1)) if quota.tokens else 1.0
            )
            scarce = units_per_request * min(
                in_flight, max(1.0, quota.limit / units_per_request / 10)
            )
            if quota.remaining <= scarce and quota.reset_s <= _PAUSE_MAX_S:
                rate = min(rate, quota.rate / units_per_request)
        if rate >= self.rate:
            return self
        pace = replace(
            self,
            is_measured=True,
            recent=(),
            changed_number=self.request_count,
            changed_at=now,
            refusal_count=0,
        ).at_rate(rate, now)
        return replace(
            pace,
            last_exhausted=_SentRequest(number=self.request_count, sent_at=now),
            next_at=max(self.next_at, now),
        ).begin_trial(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The limit of requests in flight.

    Attributes:
        size: Requests in flight at once, at least 1.
        ceiling: The maximum of `size`.
    """

    size: int
    ceiling: int

    def after_success(self) -> Window:
        """Return the window after a success: one larger, so that it doubles with each round."""
        return self if self.size >= self.ceiling else replace(self, size=self.size + 1)


# Of `auto`. A larger first window exceeds the burst of small servers; two rounds of successes lead
# from here to 64.
_WINDOW_FIRST: Final = 16
_WINDOW_MAX: Final = 64


def window_for(concurrency: int | Literal["auto"]) -> Window:
    """Return the first window of a run: the given number, or 16 of at most 64 for `auto`."""
    if concurrency == "auto":
        return Window(size=_WINDOW_FIRST, ceiling=_WINDOW_MAX)
    return Window(size=concurrency, ceiling=concurrency)


class RequestTurns(Protocol):
    """The times of requests for one model; the caller passes the clock, in seconds."""

    def next_at(self, now: float, *, waiting: int) -> float:
        """Return the time of the next request; infinite while it is unknown.

        Args:
            now: The time.
            waiting: Number of waiting requests, at least 1.
        """
        ...

    def take(self, now: float) -> int:
        """Send a request; return its number."""
        ...

    def refuse(
        self,
        number: int,
        *,
        sent_at: float,
        now: float,
        quotas: tuple[Quota, ...],
        in_flight: int,
    ) -> None:
        """Note a 429 for a request, with the limits that it stated."""
        ...

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Note the limits that a response stated."""
        ...


class PacedTurns:
    """Turns with their own pace."""

    def __init__(self) -> None:
        self.pace = Pace()

    def next_at(self, now: float, *, waiting: int) -> float:
        """Return the time that the pace allows."""
        del now, waiting
        return self.pace.next_at

    def take(self, now: float) -> int:
        """Send a request; return its number."""
        self.pace = self.pace.after_send(now)
        return self.pace.request_count

    def refuse(
        self,
        number: int,
        *,
        sent_at: float,
        now: float,
        quotas: tuple[Quota, ...],
        in_flight: int,
    ) -> None:
        """Slow down if refusals show a limit."""
        pace = self.pace.after_refusal(number, sent_at=sent_at, now=now)
        self.pace = pace.after_quotas(quotas, in_flight=in_flight, now=now)

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Slow down before a limit is reached."""
        self.pace = self.pace.after_quotas(quotas, in_flight=in_flight, now=now)


@dataclass(slots=True)
class _Lane:
    """The requests for one model: their turns, and the waiting ones, retries first."""

    turns: RequestTurns
    retries: deque[asyncio.Future[Permit]] = field(default_factory=deque["asyncio.Future[Permit]"])
    first_attempts: deque[asyncio.Future[Permit]] = field(
        default_factory=deque["asyncio.Future[Permit]"]
    )

    @property
    def waiting(self) -> deque[asyncio.Future[Permit]]:
        return self.retries or self.first_attempts

    def next_at(self, now: float) -> float:
        """Return the time of the next request."""
        return self.turns.next_at(now, waiting=len(self.retries) + len(self.first_attempts))


class Permit:
    """Permission to have one request in flight; reports the outcome to the limit.

    Attributes:
        kept_s: Seconds for which the request keeps its place afterwards.
    """

    __slots__ = ("_limit", "_number", "_sent_at", "_turns", "kept_s")

    def __init__(
        self, limit: AdaptiveLimit, turns: RequestTurns, number: int, *, sent_at: float
    ) -> None:
        self._limit = limit
        self._turns = turns
        self._number = number
        self._sent_at = sent_at
        self.kept_s = 0.0

    def on_success(self, quotas: tuple[Quota, ...] = ()) -> None:
        """Report a response without an error."""
        self._limit.on_success(self._turns, quotas)

    def on_rate_limit(self, quotas: tuple[Quota, ...] = ()) -> None:
        """Report a 429."""
        self.kept_s = self._limit.refused_s
        self._turns.refuse(
            self._number,
            sent_at=self._sent_at,
            now=asyncio.get_running_loop().time(),
            quotas=quotas,
            in_flight=self._limit.in_flight,
        )


class AdaptiveLimit:
    """A limit that delays requests until the window has room and their model's pace allows it.

    For one event loop. Retries go before first attempts, so that no request starves behind a long
    queue.

    Args:
        window: The limit of requests in flight.
        turns: Called with each model; by default each has its own pace.
        refused_s: Seconds for which a refused request keeps its place.
    """

    def __init__(
        self,
        window: Window,
        *,
        turns: Callable[[str], RequestTurns] = lambda _: PacedTurns(),
        refused_s: float = 0.0,
    ) -> None:
        self._window = window
        self._turns = turns
        self.refused_s = refused_s
        self._in_flight = 0
        self._lanes: dict[str, _Lane] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._lifted = False

    @property
    def window(self) -> Window:
        """The current window."""
        return self._window

    @property
    def in_flight(self) -> int:
        """The number of permits in use."""
        return self._in_flight

    @asynccontextmanager
    async def permit(self, model: str = "", *, is_retry: bool = False) -> AsyncGenerator[Permit]:
        """Wait for room, and take it within the block.

        Args:
            model: The model; each has its own limits.
            is_retry: Whether the request was refused before; it goes to the front of the queue.
        """
        permit = await self._acquire(model, is_retry=is_retry)
        try:
            yield permit
        finally:
            if permit.kept_s:
                asyncio.get_running_loop().call_later(permit.kept_s, self._release)
            else:
                self._release()

    async def _acquire(self, model: str, *, is_retry: bool) -> Permit:
        """Wait for room, which `_release` returns."""
        lane = self._lanes.get(model)
        if lane is None:
            lane = self._lanes[model] = _Lane(self._turns(model))
        turn: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        (lane.retries if is_retry else lane.first_attempts).append(turn)
        self.admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            else:
                for queue in (lane.retries, lane.first_attempts):
                    if turn in queue:
                        queue.remove(turn)
            raise

    def _release(self) -> None:
        self._in_flight -= 1
        self.admit()

    def resize(self, ceiling: int) -> None:
        """Change the maximum of requests in flight, at least 1; those in flight continue."""
        ceiling = max(1, ceiling)
        self._window = Window(size=min(self._window.size, ceiling), ceiling=ceiling)
        self.admit()

    def lift(self) -> None:
        """Stop delaying requests: the waiting ones are about to fail."""
        self._lifted = True
        self.admit()

    def on_success(self, turns: RequestTurns, quotas: tuple[Quota, ...]) -> None:
        """Grow the window after a success, and note the stated limits."""
        self._window = self._window.after_success()
        if quotas:
            now = asyncio.get_running_loop().time()
            turns.note(quotas, in_flight=self._in_flight, now=now)
        self.admit()

    def admit(self) -> None:
        """Admit requests, one of each model in turn, and schedule the next one."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        lanes = [lane for lane in self._lanes.values() if lane.waiting]
        while lanes and (self._lifted or self._in_flight < self._window.size):
            lanes = [lane for lane in lanes if self._admit_one(lane, now)]
        if self._in_flight >= self._window.size:
            return
        turn_times = [lane.next_at(now) for lane in self._lanes.values() if lane.waiting]
        next_at = max(min(turn_times, default=math.inf), now)
        if next_at == math.inf:
            return
        if self._timer is None or next_at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(next_at, self._reopen)

    def _admit_one(self, lane: _Lane, now: float) -> bool:
        """Admit one request of a lane; return whether another may follow."""
        queue = lane.waiting
        if not queue or not (self._lifted or self._in_flight < self._window.size):
            return False
        if not self._lifted and lane.next_at(now) > now:
            return False
        turn = queue.popleft()
        if not turn.done():
            self._in_flight += 1
            # Numbered here: several requests may be admitted before the first of them wakes.
            number = lane.turns.take(now)
            turn.set_result(Permit(self, lane.turns, number, sent_at=now))
        return True

    def _reopen(self) -> None:
        self._timer = None
        self.admit()
