"""The adaptive limit: its decisions as properties, its queue on a real event loop."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.providers import AdaptiveLimit, Window, window_for

windows = st.builds(
    lambda size, more, doubling, epoch: Window(
        size=size, ceiling=size + more, doubling=doubling, epoch=epoch
    ),
    st.integers(1, 64),
    st.integers(0, 64),
    st.booleans(),
    st.integers(0, 5),
)
events = st.lists(st.tuples(st.sampled_from(["answered", "objected"]), st.integers(-2, 0)))


def round_of(window, *, epoch=None):
    began = window.size
    for _ in range(began):
        window = window.answered(window.epoch if epoch is None else epoch)
    return window


@given(windows, events)
def test_the_size_stays_between_one_and_the_ceiling(window, steps):
    for name, back in steps:
        window = getattr(window, name)(window.epoch + back)
        assert 1 <= window.size <= window.ceiling


@given(windows, events)
def test_only_answers_grow_and_only_objections_shrink(window, steps):
    for name, back in steps:
        after = getattr(window, name)(window.epoch + back)
        assert (after.size >= window.size) if name == "answered" else (after.size <= window.size)
        window = after


@given(windows, st.integers(1, 50))
def test_a_burst_of_objections_halves_once(window, count):
    epoch = window.epoch
    after = window
    for _ in range(count):
        after = after.objected(epoch)
    assert after.size == max(1, window.size // 2)
    assert after.epoch == epoch + 1


@given(windows)
def test_answers_to_requests_from_before_a_cut_prove_nothing(window):
    cut = window.objected(window.epoch)
    assert round_of(cut, epoch=window.epoch) == cut


def test_auto_doubles_per_clean_round_until_the_ceiling():
    window = window_for("auto")
    sizes = [window.size]
    for _ in range(3):
        window = round_of(window)
        sizes.append(window.size)
    assert sizes == [16, 32, 64, 64]


def test_after_the_first_objection_each_round_adds_one():
    window = round_of(window_for("auto"))
    window = window.objected(window.epoch)
    assert [window.size, round_of(window).size, round_of(round_of(window)).size] == [16, 17, 18]


def test_a_number_starts_at_itself_and_returns_to_it():
    window = window_for(6)
    assert round_of(window).size == 6
    window = window.objected(0)
    for _ in range(10):
        window = round_of(window)
    assert window.size == 6


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
                permit.answered()

        await asyncio.gather(*[work() for _ in range(tasks)])
        assert limit.in_flight == 0
        return most

    assert asyncio.run(main()) == min(tasks, size)


@given(st.lists(st.booleans(), min_size=3, max_size=20), st.integers(1, 3))
def test_cancelled_waiters_leave_no_hole(cancelled, size):
    async def main():
        limit = AdaptiveLimit(window_for(size))
        done = []

        async def work(number):
            async with limit.permit() as permit:
                await asyncio.sleep(0)
                permit.answered()
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


def test_after_an_objection_nobody_starts_before_the_time_named():
    async def main():
        limit = AdaptiveLimit(window_for(4))
        async with limit.permit() as permit:
            permit.objected(0.15)
        began = time.perf_counter()

        async def work():
            async with limit.permit():
                return time.perf_counter() - began

        return await asyncio.gather(*[work() for _ in range(3)])

    assert min(asyncio.run(main())) >= 0.14


def test_who_was_refused_goes_first():
    async def main():
        limit = AdaptiveLimit(window_for(1))
        order = []

        async def work(name, *, again=False):
            async with limit.permit(again=again):
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
