from __future__ import annotations

import asyncio

import pytest

from regauge.runner._session import OneLoop


async def this_loop() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


async def broken() -> None:
    await asyncio.sleep(0)
    raise ValueError("as it does")


def test_what_shares_a_loop_runs_on_one_that_is_closed_at_the_end():
    loop = OneLoop()
    with loop.shared():
        first = loop.run(this_loop())
        with pytest.raises(ValueError, match="as it does"):
            loop.run(broken())
        assert loop.run(this_loop()) is first
        assert not first.is_closed()
    assert first.is_closed()
    assert loop.run(this_loop()) is not first


def test_the_loop_of_the_thread_is_left_alone():
    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    try:
        loop = OneLoop()
        with loop.shared():
            assert loop.run(this_loop()) is not own
            assert asyncio.get_event_loop() is own
        assert asyncio.get_event_loop() is own
    finally:
        asyncio.set_event_loop(None)
        own.close()
