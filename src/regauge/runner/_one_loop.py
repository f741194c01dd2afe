"""One event loop for work that is done bit by bit, where each bit would have had its own."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from typing import Any

__all__ = ["OneLoop"]

Done = TypeVar("Done")


class OneLoop:
    """Runs coroutines, one after the other; for one thread."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within the block, all coroutines run on the same event loop."""
        try:
            # It is not the one of the thread, which tests make and close as they need it.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as self._runner:
                yield
        finally:
            self._runner = None

    def run(self, work: Coroutine[Any, Any, Done]) -> Done:
        """Run a coroutine to its end."""
        if self._runner is None:
            return run_stoppable(work)
        return run_stoppable(work, self._runner)
