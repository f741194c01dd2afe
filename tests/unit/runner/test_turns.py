from __future__ import annotations

import asyncio
import threading
import time

from regauge.runner._turns import Turns


def test_a_loop_that_sleeps_lets_others_go_on_at_once_and_a_busy_one_when_it_is_done():
    turns = Turns()
    working, work = threading.Event(), threading.Event()
    done: list[float] = []

    async def busy() -> None:
        await asyncio.sleep(0.01)
        working.set()
        work.wait(10)  # holds the loop, as what it has to do would
        await asyncio.sleep(0)  # more to do: no sleep
        done.append(time.monotonic())
        await asyncio.sleep(60)

    def run() -> None:
        task = turns.loop.create_task(busy())
        turns.loop.call_later(0.2, task.cancel)
        turns.loop.run_until_complete(asyncio.wait([task]))
        turns.loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    working.wait(10)
    turns.give_way(0.001)
    assert not done  # it does not wait longer than it was told
    threading.Timer(0.02, work.set).start()
    turns.give_way(10)
    assert done
    thread.join(10)
    assert not thread.is_alive()
