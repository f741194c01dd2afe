from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from regauge.errors import ProviderError
from regauge.runner import PlannedTrial
from regauge.runner._lookahead import Lookahead

if TYPE_CHECKING:
    from collections.abc import Callable


class Model:
    """Performs draws, counting; `wait_s` says how long the n-th one takes."""

    def __init__(self, wait_s: Callable[[int], float] = lambda _: 0.0) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.closed = False
        self._wait_s = wait_s

    async def perform(self, draw: PlannedTrial) -> Any:
        self.started.append(draw.trial)
        try:
            await asyncio.sleep(self._wait_s(draw.trial))
        except asyncio.CancelledError:
            self.cancelled.append(draw.trial)
            raise
        self.ended.append(draw.trial)
        return draw.trial

    async def close(self) -> None:
        self.closed = True


def draws_of(count: int) -> list[PlannedTrial]:
    planned = cast("Any", object())
    return [PlannedTrial(planned, trial) for trial in range(count)]


def ahead_of(draws: list[PlannedTrial], model: Model, *, ahead: int) -> Lookahead:
    return Lookahead(draws, perform=model.perform, width=lambda: ahead, close=model.close)


def take(
    lookahead: Lookahead, draw: PlannedTrial, *, waiting: Callable[[], None] = lambda: None
) -> Any:
    return lookahead.take(draw, waiting=waiting, every_s=0.01)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 30),
    ahead=st.integers(1, 8),
    order=st.randoms(use_true_random=False),
    shuffled=st.booleans(),
)
def test_every_draw_is_performed_once_in_whatever_order_it_is_taken(
    count: int, ahead: int, order: Any, *, shuffled: bool
):
    draws = draws_of(count)
    model = Model()
    taken = list(draws)
    if shuffled:
        order.shuffle(taken)
    with ahead_of(draws, model, ahead=ahead) as lookahead:
        assert [take(lookahead, draw) for draw in taken] == [draw.trial for draw in taken]
    assert sorted(model.started) == list(range(count))
    assert model.closed


def test_never_more_than_the_window_runs_ahead_of_what_was_taken():
    draws = draws_of(50)
    model = Model()
    with ahead_of(draws, model, ahead=5) as lookahead:
        until(lambda: len(model.started) >= 5)
        time.sleep(0.05)
        assert model.started == list(range(5))
        for number, draw in enumerate(draws[:20]):
            take(lookahead, draw)
            assert max(model.started) <= number + 5
    assert max(model.started) <= 24


def test_the_window_moves_with_each_draw_that_is_taken():
    draws = draws_of(30)
    model = Model(lambda _: 0.002)
    with ahead_of(draws, model, ahead=4) as lookahead:
        leads: list[int] = []
        for taken, draw in enumerate(draws[:20], 1):
            take(lookahead, draw)
            leads.append(len(model.started) - taken)
    assert max(leads[10:]) >= 3


def test_a_draw_that_is_held_up_does_not_hold_back_those_behind_it():
    """A case waits out a rate limit: the rest of the run goes on, up to a bound."""
    draws = draws_of(50)
    model = Model(lambda number: 2.0 if number == 0 else 0.0)
    with ahead_of(draws, model, ahead=5) as lookahead:
        assert lookahead.take(draws[0], waiting=lambda: None, every_s=10) == 0
        assert model.ended == [*range(1, 26), 0]


@pytest.mark.parametrize(("fixed", "started"), [(False, 9), (True, 5)])
def test_finished_trials_behind_one_that_is_held_up_widen_the_window(*, fixed: bool, started: int):
    draws = draws_of(40)
    model = Model(lambda number: 0.0 if number in {1, 2, 3, 4} else 0.4 + 0.2 * bool(number))
    counts: list[int] = []
    window = Lookahead(
        draws, perform=model.perform, width=lambda: 4, close=model.close, fixed=fixed
    )
    with window as lookahead:
        take(lookahead, draws[0], waiting=lambda: counts.append(len(model.started)))
    assert counts[-1] == started


def test_a_window_that_shrinks_holds_back_what_has_not_begun():
    draws = draws_of(40)
    model = Model()
    width = 10
    with Lookahead(
        draws, perform=model.perform, width=lambda: width, close=model.close
    ) as lookahead:
        until(lambda: len(model.started) == 10)
        width = 2
        for draw in draws[:6]:
            take(lookahead, draw)
        time.sleep(0.02)
        assert len(model.started) == 10
        take(lookahead, draws[9])
        until(lambda: len(model.started) == 12)


def test_a_run_that_may_stop_early_asks_no_further_ahead_while_a_draw_is_held_up():
    draws = draws_of(50)
    model = Model(lambda number: 1.0 if number == 0 else 0.0)
    with Lookahead(
        draws, perform=model.perform, width=lambda: 5, fixed=True, close=model.close
    ) as lookahead:
        assert lookahead.take(draws[0], waiting=lambda: None, every_s=10) == 0
        assert model.ended == [*range(1, 6), 0]


def test_an_error_belongs_to_whoever_takes_the_draw():
    draws = draws_of(3)

    async def perform(draw: PlannedTrial) -> Any:
        if draw.trial == 1:
            raise ProviderError("gone", kind="connection")
        return draw.trial

    model = Model()
    with Lookahead(draws, perform=perform, width=lambda: 8, close=model.close) as lookahead:
        assert take(lookahead, draws[0]) == 0
        with pytest.raises(ProviderError, match="gone"):
            take(lookahead, draws[1])
        assert take(lookahead, draws[2]) == 2


def test_leaving_ends_what_is_under_way():
    draws = draws_of(20)
    model = Model(lambda number: 0.0 if number == 0 else 0.5)
    with ahead_of(draws, model, ahead=4) as lookahead:
        take(lookahead, draws[0])
        until(lambda: len(model.started) == 5)
    assert not model.cancelled
    assert model.closed


def test_an_error_cancels_what_is_under_way_and_leaves_no_thread():
    before = {*threading.enumerate()}
    draws = draws_of(20)
    model = Model(lambda number: 0.0 if number == 0 else 60.0)
    started = time.monotonic()

    def interrupted() -> None:
        with ahead_of(draws, model, ahead=4) as lookahead:
            take(lookahead, draws[0])
            until(lambda: len(model.started) == 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert time.monotonic() - started < 45
    assert sorted(model.cancelled) == [1, 2, 3, 4]
    assert model.closed
    assert {*threading.enumerate()} <= before


def test_whoever_waits_is_told_now_and_then():
    draws = draws_of(1)
    told = threading.Semaphore(0)

    class Waits(Model):
        async def perform(self, draw: PlannedTrial) -> Any:
            for _ in range(2):
                assert await asyncio.to_thread(told.acquire, timeout=60)
            return await super().perform(draw)

    model = Waits()
    with ahead_of(draws, model, ahead=1) as lookahead:
        assert take(lookahead, draws[0], waiting=told.release) == 0
    assert model.ended == [0]


def test_an_interrupt_of_the_block_passes_through():
    draws = draws_of(10)
    model = Model(lambda _: 60.0)

    def interrupted() -> None:
        with ahead_of(draws, model, ahead=2):
            until(lambda: len(model.started) == 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert model.closed
