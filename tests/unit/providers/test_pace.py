"""The learned pace against simulated servers: events in virtual time, no clock and no network."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regauge.providers._pace import Pace

SECONDS = st.floats(0.001, 60)


class Bucket:
    """Full at first, refilled steadily."""

    def __init__(self, rate, burst):
        self.rate, self.burst, self.left, self.at = rate, burst, burst, 0.0

    def grants(self, now, chance):
        del chance
        self.left = min(self.burst, self.left + (now - self.at) * self.rate)
        self.at = now
        granted = self.left >= 1
        self.left -= granted
        return granted

    def ideal_s(self, count):
        return (count - self.burst) / self.rate


class Refusals:
    """A share of the requests, whenever they come."""

    def __init__(self, share):
        self.share = share

    def grants(self, now, chance):
        del now
        return chance.random() >= self.share


class Both:
    def __init__(self, *servers):
        self.servers = servers

    def grants(self, now, chance):
        return all(server.grants(now, chance) for server in self.servers)


class FixedWindow:
    """So many in each period of the clock."""

    def __init__(self, count, period_s):
        self.count, self.period_s, self.period, self.used = count, period_s, -1, 0

    def grants(self, now, chance):
        del chance
        period = int(now / self.period_s)
        if period != self.period:
            self.period, self.used = period, 0
        self.used += 1
        return self.used <= self.count


class SlidingWindow:
    """So many in any period; refused requests may count, too."""

    def __init__(self, count, period_s, *, refused_count=False):
        self.count, self.period_s, self.refused_count = count, period_s, refused_count
        self.seen = deque()

    def grants(self, now, chance):
        del chance
        while self.seen and self.seen[0] <= now - self.period_s:
            self.seen.popleft()
        granted = len(self.seen) < self.count
        if granted or self.refused_count:
            self.seen.append(now)
        return granted


@dataclass
class Run:
    """What came of a simulated run."""

    requests: int = 0
    answered: int = 0
    end_s: float = 0.0


def run(  # noqa: C901, PLR0915 - one loop over the kinds of events
    server, count, *, latency_s=0.05, refusal_s=0.002, retry_after_s=None, workers=1, seed=0
):
    """So many requests against a server, from workers that each learn their own pace."""
    chance = random.Random(seed)
    order = itertools.count()
    events = []
    result = Run()
    paces = [Pace() for _ in range(workers)]
    windows = [16] * workers
    in_flight = [0] * workers
    timers = [math.inf] * workers
    again = [deque() for _ in range(workers)]
    fresh = [deque([0] * len(range(n, count, workers))) for n in range(workers)]

    def push(at, *event):
        heapq.heappush(events, (at, next(order), *event))

    def admit(worker, now):
        while (queue := again[worker] or fresh[worker]) and in_flight[worker] < windows[worker]:
            at = paces[worker].next_at
            if at > now:
                if not now < timers[worker] <= at:
                    timers[worker] = at
                    push(at + chance.random() * 0.002, "timer", worker)
                return
            refusals = queue.popleft()
            in_flight[worker] += 1
            result.requests += 1
            paces[worker] = paces[worker].after_send(now)
            push(now + chance.random() * 0.001, "arrive", worker, refusals, paces[worker].sent, now)

    for worker in range(workers):
        push(worker * 0.03, "timer", worker)
    while events:
        now, _, kind, worker, *details = heapq.heappop(events)
        if kind == "arrive":
            if server.grants(now, chance):
                push(now + latency_s * chance.uniform(0.8, 1.2), "answer", worker)
            else:
                push(now + refusal_s, "refuse", worker, *details)
            continue
        if kind == "timer":
            timers[worker] = math.inf
        elif kind == "answer":
            in_flight[worker] -= 1
            windows[worker] = min(64, windows[worker] + 1)
            result.answered += 1
            result.end_s = now
        elif kind == "refuse":
            refusals, number, sent_at = details
            in_flight[worker] -= 1
            paces[worker] = paces[worker].after_refusal(
                number, sent_at=sent_at, now=now, hold_s=retry_after_s
            )
            wait_s = retry_after_s or min(0.25 * 2**refusals, 8) * chance.uniform(0.5, 1)
            push(now + wait_s * chance.uniform(1, 1.1), "back", worker, refusals + 1)
        else:
            again[worker].append(details[0])
        admit(worker, now)
    assert result.answered == count
    return result


@pytest.mark.parametrize("retry_after_s", [None, 1.0])
@pytest.mark.parametrize(
    ("rate", "burst", "count"), [(100, 20, 1000), (100, 100, 1000), (20, 20, 200), (4, 4, 120)]
)
@pytest.mark.parametrize("refusal_s", [0.002, 0.05])
def test_a_bucket_is_used_up_with_few_refusals(rate, burst, count, retry_after_s, refusal_s):
    for seed in range(5):
        server = Bucket(rate, burst)
        ideal_s = server.ideal_s(count)
        done = run(server, count, retry_after_s=retry_after_s, refusal_s=refusal_s, seed=seed)
        assert done.end_s <= 1.15 * ideal_s + (retry_after_s or 0) / 4
        assert done.requests <= 1.2 * count + 50


@settings(deadline=None, max_examples=40)
@given(
    rate=st.floats(1, 300),
    seconds_of_burst=st.floats(0.25, 2),
    latency_s=st.floats(0.02, 0.5),
    seed=st.integers(0, 99),
)
def test_any_bucket_is_used_up(rate, seconds_of_burst, latency_s, seed):
    burst = max(4, rate * seconds_of_burst)
    count = int(burst + 20 * rate + 100)
    # What the window lets through is the limit of a fast server.
    ideal_s = max((count - burst) / rate, count * 1.2 * latency_s / 64)
    done = run(Bucket(rate, burst), count, latency_s=latency_s, seed=seed)
    assert done.end_s <= 1.4 * ideal_s + 2
    assert done.requests <= 1.3 * count + 60


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.3])
def test_refusals_at_random_hold_nobody_else_back(share):
    for seed in range(5):
        done = run(Refusals(share), 2000, latency_s=0.1, seed=seed)
        # Ideal is 3.1 s; a request that is refused four times waits for 4.
        assert done.end_s <= 45
        assert done.requests <= 2000 / (1 - share) * 1.1


def test_a_fifth_refused_at_random_takes_as_long_as_its_waits():
    for seed in range(10):
        done = run(Refusals(0.2), 300, latency_s=0.1, refusal_s=0.1, retry_after_s=1.0, seed=seed)
        assert done.end_s <= 9


SERVERS = [
    lambda n: Bucket(0.2 * n + 0.3, n),
    lambda n: Both(Refusals(0.2), Bucket(10 * n, 4 * n)),
    lambda n: Both(Refusals(0.05), SlidingWindow(10 * n, 1.0)),
    lambda n: FixedWindow(20 * n, 60.0),
    lambda n: FixedWindow(5 * n, 1.0),
    lambda n: SlidingWindow(20 * n, 60.0),
    lambda n: SlidingWindow(5 * n, 1.0, refused_count=True),
    lambda n: Refusals(min(0.6, 0.05 * n)),
]


@settings(deadline=None, max_examples=60)
@given(
    make=st.sampled_from(SERVERS),
    size=st.integers(1, 10),
    workers=st.integers(1, 4),
    latency_s=st.floats(0.01, 3),
    retry_after_s=st.none() | st.floats(0.1, 5),
    seed=st.integers(0, 99),
)
def test_any_server_is_worked_through(  # noqa: PLR0917 - as drawn
    make, size, workers, latency_s, retry_after_s, seed
):
    done = run(
        make(size),
        150,
        latency_s=latency_s,
        workers=workers,
        retry_after_s=retry_after_s,
        seed=seed,
    )
    assert done.requests <= 150 * 8


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_share_a_bucket(workers):
    for seed in range(5):
        done = run(Bucket(40, 20), 800, workers=workers, seed=seed)
        assert done.end_s <= 4 * Bucket(40, 20).ideal_s(800)


def test_a_limit_that_rises_is_found():
    server = Bucket(10, 10)
    granted = server.grants

    def grants(now, chance):
        server.rate = 10 if now < 20 else 60
        return granted(now, chance)

    server.grants = grants
    done = run(server, 1400)
    # 210 in the first 20 seconds, 1,190 at 60 a second.
    assert done.end_s <= 1.3 * (20 + 1190 / 60)


steps = st.lists(
    st.tuples(st.sampled_from(["send", "refuse"]), SECONDS, st.none() | SECONDS), max_size=80
)


@given(steps)
def test_a_pace_is_never_slower_than_one_request_in_twelve_seconds(events):
    pace, now, numbers = Pace(), 0.0, []
    for kind, after_s, hold_s in events:
        now += after_s
        if kind == "send":
            now = max(now, pace.next_at)
            pace = pace.after_send(now)
            numbers.append((pace.sent, now))
        elif numbers:
            number, sent_at = numbers.pop(0)
            pace = pace.after_refusal(number, sent_at=sent_at, now=now, hold_s=hold_s)
        assert pace.rate >= 1 / 12 - 1e-9
        assert pace.next_at <= now + 24 + 1e-6
