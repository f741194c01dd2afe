"""One rate limit for several drivers, on a real event loop."""

from __future__ import annotations

import asyncio
import json
import math

from regauge.cluster._limits import LeasedTurns, install
from regauge.providers import AdaptiveLimit, Window
from regauge.providers._rate import Quota


class Scheduler:
    """What a Dask scheduler offers to `install`."""

    def __init__(self) -> None:
        self.extensions = {}
        self.handlers = {}
        self.away = False
        install(self)

    async def ask(self, operation: str, text: str):
        await asyncio.sleep(0.002)
        if self.away:
            raise ConnectionError
        return await self.handlers[operation](text)

    def limit(self, tasks: list[asyncio.Task[None]], *, size: int = 32) -> AdaptiveLimit:
        """The limit of one driver."""

        def turns(model: str) -> LeasedTurns:
            return LeasedTurns(
                "http://here",
                model,
                call_scheduler=self.ask,
                ready=limit.admit,
                begin=lambda work: tasks.append(asyncio.ensure_future(work)),
            )

        limit = AdaptiveLimit(Window(size=size, ceiling=size), turns=turns)
        return limit


class Bucket:
    """A server that grants so many requests a second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.left = 10.0
        self.at = asyncio.get_running_loop().time()
        self.granted = self.refused = 0

    async def answer(self) -> bool:
        now = asyncio.get_running_loop().time()
        self.left = min(10.0, self.left + (now - self.at) * self.rate)
        self.at = now
        granted = self.left >= 1
        self.left -= granted
        self.granted += granted
        self.refused += not granted
        await asyncio.sleep(0.02)
        return granted


def test_two_drivers_share_one_limit():
    async def main():
        scheduler, bucket = Scheduler(), Bucket(100)
        tasks: list[asyncio.Task[None]] = []
        shares = [0, 0]

        async def work(driver: int, limit: AdaptiveLimit) -> None:
            while True:
                async with limit.permit() as permit:
                    if await bucket.answer():
                        permit.on_success()
                        shares[driver] += 1
                    else:
                        permit.on_rate_limit()

        limits = [scheduler.limit(tasks), scheduler.limit(tasks)]
        workers = [asyncio.ensure_future(work(n, limits[n])) for n in (0, 1) for _ in range(40)]
        await asyncio.sleep(3)
        first = (bucket.granted, bucket.refused)
        await asyncio.sleep(5)
        for task in (*workers, *tasks):
            task.cancel()
        return shares, bucket.granted - first[0], bucket.refused - first[1]

    shares, granted, refused = asyncio.run(main())
    assert granted > 0.8 * 5 * 100
    assert refused < 0.15 * granted
    assert min(shares) > 0.3 * max(shares)


def test_without_a_scheduler_the_turns_are_free():
    async def main():
        scheduler = Scheduler()
        scheduler.away = True
        tasks: list[asyncio.Task[None]] = []
        limit = scheduler.limit(tasks)
        for _ in range(3):
            async with asyncio.timeout(5), limit.permit() as permit:
                permit.on_rate_limit()

    asyncio.run(main())


def test_a_lease_that_is_not_used_is_void():
    async def main():
        scheduler = Scheduler()
        tasks: list[asyncio.Task[None]] = []
        turns = LeasedTurns(
            "http://here",
            "m",
            call_scheduler=scheduler.ask,
            ready=lambda: None,
            begin=lambda work: tasks.append(asyncio.ensure_future(work)),
        )
        now = asyncio.get_running_loop().time()
        assert turns.next_at(now, waiting=5) == math.inf
        await asyncio.gather(*tasks)
        later = asyncio.get_running_loop().time()
        soon, late = turns.next_at(later, waiting=5), turns.next_at(later + 60, waiting=5)
        await asyncio.gather(*tasks)
        return soon <= later, late

    assert asyncio.run(main()) == (True, math.inf)


def test_the_limits_in_a_response_of_one_driver_slow_all():
    async def main():
        scheduler = Scheduler()
        tasks: list[asyncio.Task[None]] = []
        first, second = (
            LeasedTurns(
                "http://here",
                "m",
                call_scheduler=scheduler.ask,
                ready=lambda: None,
                begin=lambda work: tasks.append(asyncio.ensure_future(work)),
            )
            for _ in range(2)
        )
        loop = asyncio.get_running_loop()
        quota = Quota(tokens=False, limit=60, remaining=0, reset_s=60)
        first.note((quota,), in_flight=1, now=loop.time())
        await asyncio.gather(*tasks)
        assert second.next_at(loop.time(), waiting=2) == math.inf
        assert second.next_at(loop.time(), waiting=2) == math.inf
        assert len(tasks) == 2
        await asyncio.gather(*tasks)
        assert second.next_at(loop.time(), waiting=2) <= loop.time()
        numbers = second.take(0), second.take(0)
        second.next_at(loop.time(), waiting=2)
        await asyncio.gather(*tasks)
        return second.next_at(loop.time(), waiting=2) - loop.time(), *numbers

    wait_s, number, without = asyncio.run(main())
    assert wait_s > 0.3
    assert number > 0 == without


def test_a_driver_leases_as_many_turns_as_wait_and_sixteen_at_most():
    async def main():
        asked = []

        async def call_scheduler(operation, text):
            assert operation == "regauge_lease"
            asked.append(json.loads(text))
            return json.dumps([[7, 0.0]])

        for waiting in (0, 3, 16, 17):
            tasks: list[asyncio.Task[None]] = []
            turns = LeasedTurns(
                "http://here",
                "m",
                call_scheduler=call_scheduler,
                ready=lambda: None,
                begin=lambda work, tasks=tasks: tasks.append(asyncio.ensure_future(work)),
            )
            turns.next_at(0.0, waiting=waiting)
            await asyncio.gather(*tasks)
            assert turns.take(0.0) == 7
        return asked

    asked = asyncio.run(main())
    assert [lease["count"] for lease in asked] == [1, 3, 16, 16]
    assert asked[0] == {"endpoint": "http://here", "model": "m", "count": 1}
