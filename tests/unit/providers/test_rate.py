"""The adaptive limit: its window, and its queue on a real event loop."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from hypothesis import given, strategies as st

from regauge.providers import AdaptiveLimit, window_for
from regauge.providers._rate import PacedTurns


def test_auto_doubles_per_round_of_answers_until_the_ceiling():
    window = window_for("auto")
    sizes = [window.size]
    for _ in range(3):
        for _ in range(window.size):
            window = window.after_success()
        sizes.append(window.size)
    assert sizes == [16, 32, 64, 64]


def test_a_number_stays_as_given():
    assert window_for(6).after_success().size == 6


@given(st.integers(1, 40), st.integers(1, 8))
def test_the_limit_holds_and_everybody_gets_a_turn(tasks, size):
    async def main():
        limit = AdaptiveLimit(window_for(size))
        most = 0

        async def work():
            nonlocal most
            async with limit.permit() as permit:
                most = max(most, limit.in_flight)
                await asyncio.sleep(0)
                permit.on_success()

        await asyncio.gather(*[work() for _ in range(tasks)])
        assert limit.in_flight == 0
        return most

    assert asyncio.run(main()) == min(tasks, size)


def test_a_refused_request_keeps_its_place_for_a_while():
    async def main():
        limit = AdaptiveLimit(window_for(1), refused_s=0.05)
        async with limit.permit("a") as permit:
            permit.on_rate_limit()
        kept = limit.in_flight
        async with limit.permit("b") as permit:
            permit.on_success()
        return kept, limit.in_flight

    assert asyncio.run(main()) == (1, 0)


@given(st.lists(st.booleans(), min_size=3, max_size=20), st.integers(1, 3))
def test_cancelled_waiters_leave_no_hole(cancelled, size):
    async def main():
        limit = AdaptiveLimit(window_for(size))
        done = []

        async def work(number):
            async with limit.permit() as permit:
                await asyncio.sleep(0)
                permit.on_success()
                done.append(number)

        tasks = [asyncio.create_task(work(number)) for number in range(len(cancelled))]
        await asyncio.sleep(0)
        for task, cancel in zip(tasks, cancelled, strict=True):
            if cancel:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.in_flight == 0
        assert {n for n, cancel in enumerate(cancelled) if not cancel} <= set(done)

    asyncio.run(main())


def test_a_refusal_holds_no_other_request_back():
    async def main():
        limit = AdaptiveLimit(window_for(4))
        async with limit.permit() as permit:
            permit.on_rate_limit()
        began = time.perf_counter()
        async with limit.permit():
            return time.perf_counter() - began

    assert asyncio.run(main()) < 5


def test_scattered_refusals_among_requests_let_go_at_once_slow_nothing_down():
    """Refusals are close where their requests were sent one after the other."""

    async def main():
        turns = PacedTurns()
        limit = AdaptiveLimit(window_for(64), turns=lambda _: turns)
        room = asyncio.Event()

        async def work(number):
            async with limit.permit() as permit:
                await room.wait()
                if number % 5 == 0:
                    permit.on_rate_limit()

        tasks = [asyncio.create_task(work(number)) for number in range(128)]
        await asyncio.sleep(0)
        room.set()
        await asyncio.gather(*tasks)
        return turns.pace.rate

    assert asyncio.run(main()) == math.inf


def test_many_refusals_slow_down_requests_for_this_model_only():
    async def main():
        turns = {"a": PacedTurns(), "b": PacedTurns()}
        limit = AdaptiveLimit(window_for(64), turns=turns.__getitem__)
        for _ in range(8):
            async with limit.permit("a") as permit:
                permit.on_rate_limit()
        async with limit.permit("b") as permit:
            permit.on_success()
        return turns["a"].pace.rate, turns["b"].pace.rate

    slow, free = asyncio.run(main())
    assert slow < 100
    assert free == math.inf


def test_requests_that_are_given_up_wait_no_longer():
    async def main():
        limit = AdaptiveLimit(window_for(1))

        async def work():
            async with limit.permit():
                await asyncio.sleep(0)

        async with limit.permit():
            tasks = [asyncio.create_task(work()) for _ in range(20)]
            await asyncio.sleep(0)
            limit.lift()
            await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(main())


def test_who_was_refused_goes_first():
    async def main():
        limit = AdaptiveLimit(window_for(1))
        order = []

        async def work(name, *, again=False):
            async with limit.permit(is_retry=again):
                order.append(name)
                await asyncio.sleep(0)

        async with limit.permit():
            tasks = [asyncio.create_task(work(name)) for name in "ab"]
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(work("again", again=True)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == ["again", "a", "b"]


def test_a_failure_inside_gives_the_permit_back():
    async def main():
        limit = AdaptiveLimit(window_for(1))
        with pytest.raises(ZeroDivisionError):
            async with limit.permit():
                raise ZeroDivisionError
        return limit.in_flight

    assert asyncio.run(main()) == 0


def test_a_request_that_is_due_sooner_does_not_wait_for_one_that_is_due_later():
    class Due:
        """Turns that are due at one time."""

        def __init__(self, seconds):
            self._at = asyncio.get_running_loop().time() + seconds

        def next_at(self, now, *, waiting):
            del now, waiting
            return self._at

        def take(self, now):
            del now
            return 0

    async def main():
        due = {"later": Due(60), "sooner": Due(0.05)}
        limit = AdaptiveLimit(window_for(4), turns=due.__getitem__)

        async def work(model):
            async with limit.permit(model):
                return model

        later = asyncio.create_task(work("later"))
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            sooner = await work("sooner")
        later.cancel()
        await asyncio.gather(later, return_exceptions=True)
        return sooner, later.cancelled()

    assert asyncio.run(main()) == ("sooner", True)
