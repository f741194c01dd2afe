"""The number of requests in flight, and when the next may be sent, by the limits of the server."""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

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
# Limits count per minute, hour or day; a later reset is an error of the header.
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
        """The permits per second while it refills; infinite without any use."""
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
# A shorter interval is completed with the rate known before: what a process that stood still sends
# in one burst is no rate. Longer: a lower limit is noticed later.
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
# The pace after a refusal, as a share of the measured rate: what is saved up is spent as it rises.
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
# Where not even the granted requests before the limit came so fast, the search rises by this share.
_BEYOND: Final = 0.1
# The rate rises at most by a factor of e within the time that refusals take, and within this.
_RISE_S: Final = 0.1
# From 3 to 11 seconds after it, time raises it: by this share per second and second.
_STEP_PER_S: Final = 0.1
_STEADY_S: Final = 3.0
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
_PAUSE_MAX_S: Final = 120.0


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
        measured: The rate that was measured last, or 0; when a limit shows, all that was granted
            before.
        best: The highest rate measured since the limit was noticed, in requests per second.
        patience: Refusals in a dense series that show a limit.
        confirmed: How often the same rate was measured in a row; another rate halves it.
        noise: The share of refusals that a slower pace did not lower.
        sent: Requests so far.
        next_at: When the next one may be sent.
        changed: The number of the last request before the rate was lowered.
        changed_at: When it was lowered.
        recent: The last refusals since.
        empty: The last refused request at which nothing was left; before one, where the pace
            began: the first request, or the last one before it was lifted.
        refused: Refusals since `empty`.
        trial_sent: Requests since `best` was measured, up to `empty`.
        trial_refused: Refusals among them.
        notice_s: How long refusals take to come.
    """

    rate: float = math.inf
    sure: bool = False
    measured: float = 0.0
    best: float = 0.0
    patience: int = _PATIENCE
    confirmed: int = 0
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
            empty = self.empty if self.sent else replace(self.empty, at=now)
            return replace(self, sent=sent, empty=empty)
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
            step = _STEP / 4**self.confirmed * count + _STEP_PER_S * late_s * gap
        else:
            step = float(count > 1)
        # Refusals of the requests before may be on their way.
        step = min(step, gap / max(self.notice_s, gap, _RISE_S))
        if not self.sure and self.rate >= self.measured > 0:
            step *= _BEYOND
        return replace(pace, rate=self.rate * (1 + step))

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
        refusals = sorted((*self.recent, _Sent(number=number, at=sent_at)), key=_number_of)
        most, within = self._evidence
        recent = tuple(refusals[-most:])
        pace = replace(pace, recent=recent)
        if len(recent) < most or recent[-1].number - recent[0].number >= within:
            return pace
        return pace.slow_down(recent[-1], now)

    @property
    def _evidence(self) -> tuple[int, float]:
        """The refusals, and the requests they are among, that are too many for the pace."""
        if self.rate == math.inf:
            return self.patience, _DENSE * self.patience
        if not self.sure:
            return 1 + round(4 * self.noise), _CLOSE
        # A pace that rises more slowly meets its limit with fewer refusals at a time.
        within = _CLOSE * 2**self.confirmed
        least = 1 if self.confirmed >= _STEADY_FROM else 2
        return least + math.ceil(1.25 * within * self.noise), within

    def slow_down(self, last: _Sent, now: float) -> Pace:
        """Lower the rate to what was granted up to a request at which nothing was left."""
        pace = replace(self, recent=(), changed=self.sent, changed_at=now)
        count = max(1, last.number - self.empty.number)
        granted = max(0, count - self.refused)
        span_s = max(last.at - self.empty.at, _SPAN_MIN_S)
        known_s = max(0.0, _KNOWN_S - span_s) if self.sure and granted >= _SURE else 0.0
        measured = (granted + 1 + known_s * self.measured) / (span_s + known_s)
        if self.rate == math.inf:
            pace = replace(pace, empty=last, refused=0, measured=measured)
            return pace.at_rate(1 / _GAP_FIRST_S, now)
        rate = min(self.rate, measured / (1 - self.noise))
        below = _BELOW
        if granted >= _SURE:
            calm = self.sure and self.refused <= _CALM * count
            same = calm and abs(measured - self.measured) <= _SAME * measured
            confirmed = min(self.confirmed + 1, _CONFIRMED_MAX) if same else self.confirmed // 2
            if calm and not same:
                # The pace was lower at first; more might have been granted.
                rate = math.sqrt(rate * self.rate)
            below = 1 - max(_BELOW_MIN, (1 - _BELOW) / 2**confirmed)
            pace = replace(
                pace,
                sure=True,
                confirmed=confirmed,
                measured=measured,
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
            pace = replace(pace, sure=False, confirmed=0)
            if last.at - self.empty.at > _SEARCH_GAP_MAX_S:
                # Such a long outage says nothing of the rate after it.
                pace = replace(pace, empty=last, refused=0)
            return pace.lift_or_set(min(rate, self.rate / 2), measured, last, now)
        elif not self.sure:
            rate = max(min(rate, self.rate / 2), measured / 2)
            return pace.lift_or_set(rate, measured, last, now)
        return pace.lift_or_set(below * rate, measured, last, now)

    def lift_or_set(self, rate: float, measured: float, last: _Sent, now: float) -> Pace:
        """Lift a pace that does not help: were it a limit, fewer requests would be refused."""
        sent = self.trial_sent + last.number - self.empty.number
        refused = self.trial_refused + self.refused
        pointless_below = _POINTLESS * self.best
        if rate >= pointless_below or sent * pointless_below < _TRIAL * rate:
            return self.at_rate(rate, now)
        if not _NOISE_MIN * sent < refused < _REFUSES_ALL * sent:
            return self.begin_trial(measured).at_rate(rate, now)
        return Pace(
            sent=self.sent,
            changed=self.sent,
            empty=_Sent(number=self.sent, at=now),
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
            if quota.remaining <= scarce and quota.reset_s <= _PAUSE_MAX_S:
                rate = min(rate, quota.rate / each)
        if rate >= self.rate:
            return self
        pace = replace(
            self, sure=True, recent=(), changed=self.sent, changed_at=now, refused=0
        ).at_rate(rate, now)
        return replace(
            pace, empty=_Sent(number=self.sent, at=now), next_at=max(self.next_at, now)
        ).begin_trial(0.0)


def _number_of(request: _Sent) -> int:
    return request.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The limit of requests in flight.

    Attributes:
        size: Requests in flight at once, at least 1.
        ceiling: The limit of `size`.
    """

    size: int
    ceiling: int

    def answered(self) -> Window:
        """After an answer: one more at a time, which doubles the window with each round."""
        return self if self.size >= self.ceiling else replace(self, size=self.size + 1)


# A server whose burst is smaller refuses what a larger first window sends at once; two rounds of
# answers lead from here to 64.
_WINDOW_FIRST: Final = 16
_WINDOW_MAX: Final = 64


def window_for(concurrency: int | Literal["auto"]) -> Window:
    """The window a run starts with: from 16 towards the number as given, `auto` towards 64."""
    ceiling = _WINDOW_MAX if concurrency == "auto" else concurrency
    return Window(size=min(_WINDOW_FIRST, ceiling), ceiling=ceiling)


class RequestTurns(Protocol):
    """When the requests for one model may be sent; time comes in from outside, in seconds."""

    def next_at(self, now: float, *, waiting: int) -> float:
        """The time of the next request; infinite while that is not known.

        Args:
            now: The time.
            waiting: The requests that wait, at least 1.
        """
        ...

    def take(self, now: float) -> int:
        """Send a request; returns its number."""
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
        """Note that a request was answered with 429, with the limits that it stated."""
        ...

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Note the limits that an answer stated."""
        ...


class PacedTurns:
    """Turns by a pace of their own."""

    def __init__(self) -> None:
        self.pace = Pace()

    def next_at(self, now: float, *, waiting: int) -> float:
        """The time that the pace allows."""
        del now, waiting
        return self.pace.next_at

    def take(self, now: float) -> int:
        """Send a request; returns its number."""
        self.pace = self.pace.after_send(now)
        return self.pace.sent

    def refuse(
        self,
        number: int,
        *,
        sent_at: float,
        now: float,
        quotas: tuple[Quota, ...],
        in_flight: int,
    ) -> None:
        """Slow down where refusals show a limit."""
        pace = self.pace.after_refusal(number, sent_at=sent_at, now=now)
        self.pace = pace.after_quotas(quotas, in_flight=in_flight, now=now)

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Slow down before a limit is reached."""
        self.pace = self.pace.after_quotas(quotas, in_flight=in_flight, now=now)


@dataclass(slots=True)
class _Lane:
    """The requests for one model: their turns, and those that wait, refused ones first."""

    turns: RequestTurns
    again: deque[asyncio.Future[Permit]] = field(default_factory=deque["asyncio.Future[Permit]"])
    fresh: deque[asyncio.Future[Permit]] = field(default_factory=deque["asyncio.Future[Permit]"])

    @property
    def waiting(self) -> deque[asyncio.Future[Permit]]:
        return self.again or self.fresh

    def next_at(self, now: float) -> float:
        """The time of the next request."""
        return self.turns.next_at(now, waiting=len(self.again) + len(self.fresh))


class Permit:
    """Leave to have one request in flight; reports the outcome to the limit.

    Attributes:
        kept_s: How long the place of the request is kept after it.
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

    def answered(self, quotas: tuple[Quota, ...] = ()) -> None:
        """The provider answered."""
        self._limit.on_answer(self._turns, quotas)

    def refused(self, quotas: tuple[Quota, ...] = ()) -> None:
        """The provider answered 429."""
        self.kept_s = self._limit.refused_s
        self._turns.refuse(
            self._number,
            sent_at=self._sent_at,
            now=asyncio.get_running_loop().time(),
            quotas=quotas,
            in_flight=self._limit.in_flight,
        )


class AdaptiveLimit:
    """Holds requests back until the window has room and the pace of their model allows it.

    For one event loop. A request that was refused goes before those that never had a turn, so
    that no request starves behind a long queue.

    Args:
        window: The limit of requests in flight.
        turns: Makes the turns of a model; by default they have a pace of their own.
        refused_s: How long a refused request keeps its place, in seconds.
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
        """The window as it is now."""
        return self._window

    @property
    def in_flight(self) -> int:
        """The number of permits in use."""
        return self._in_flight

    def permit(self, model: str = "", *, again: bool = False) -> _PermitContext:
        """Wait for room: `async with limit.permit(model) as permit`.

        Args:
            model: Limits are learned for each model.
            again: The request was refused before and goes to the front of the queue.
        """
        return _PermitContext(self, model, again=again)

    async def acquire(self, model: str, *, again: bool) -> Permit:
        """Wait for room; every permit is given back with `release`."""
        lane = self._lane(model)
        turn: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        (lane.again if again else lane.fresh).append(turn)
        self.admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                for queue in (lane.again, lane.fresh):
                    if turn in queue:
                        queue.remove(turn)
            raise

    def release(self) -> None:
        """Give one permit back."""
        self._in_flight -= 1
        self.admit()

    def resize(self, ceiling: int) -> None:
        """Change the most requests in flight, at least 1; those in flight continue."""
        ceiling = max(1, ceiling)
        self._window = Window(size=min(self._window.size, ceiling), ceiling=ceiling)
        self.admit()

    def lift(self) -> None:
        """Hold nothing back any more: the requests that wait are given up."""
        self._lifted = True
        self.admit()

    def on_answer(self, turns: RequestTurns, quotas: tuple[Quota, ...]) -> None:
        """An answer came for a model."""
        self._window = self._window.answered()
        if quotas:
            now = asyncio.get_running_loop().time()
            turns.note(quotas, in_flight=self._in_flight, now=now)
        self.admit()

    def _lane(self, model: str) -> _Lane:
        lane = self._lanes.get(model)
        if lane is None:
            lane = self._lanes[model] = _Lane(self._turns(model))
        return lane

    def admit(self) -> None:
        """Let requests go, one of each model in turn, and come back when the next one may."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        lanes = [lane for lane in self._lanes.values() if lane.waiting]
        while lanes and (self._lifted or self._in_flight < self._window.size):
            lanes = [lane for lane in lanes if self._admit_one(lane, now)]
        if self._in_flight >= self._window.size:
            return
        held = [lane.next_at(now) for lane in self._lanes.values() if lane.waiting]
        at = max(min(held, default=math.inf), now)
        if at == math.inf:
            return
        if self._timer is None or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._reopen)

    def _admit_one(self, lane: _Lane, now: float) -> bool:
        """Let one request of a lane go; whether there may be another."""
        queue = lane.waiting
        if not queue or not (self._lifted or self._in_flight < self._window.size):
            return False
        if not self._lifted and lane.next_at(now) > now:
            return False
        turn = queue.popleft()
        if not turn.done():
            self._in_flight += 1
            # Numbered here: several requests may be let go before the first of them wakes.
            number = lane.turns.take(now)
            turn.set_result(Permit(self, lane.turns, number, sent_at=now))
        return True

    def _reopen(self) -> None:
        self._timer = None
        self.admit()


class _PermitContext:
    __slots__ = ("_again", "_limit", "_model", "_permit")

    def __init__(self, limit: AdaptiveLimit, model: str, *, again: bool) -> None:
        self._limit = limit
        self._model = model
        self._again = again

    async def __aenter__(self) -> Permit:
        self._permit = await self._limit.acquire(self._model, again=self._again)
        return self._permit

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._permit.kept_s:
            asyncio.get_running_loop().call_later(self._permit.kept_s, self._limit.release)
        else:
            self._limit.release()
