"""Writes of the same moment go to the local store as one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["Writes"]

_T = TypeVar("_T")


class Writes:
    """Performs writes together that the event loop asks for at once. For one event loop.

    A transaction costs several times what a row in it does, and answers land in bursts.

    Args:
        together: Opens the transaction.
    """

    def __init__(self, together: Callable[[], AbstractContextManager[None]]) -> None:
        self._together = together
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def do(self, write: Callable[[], _T]) -> _T:
        """What `write` returns, once it is kept.

        Raises:
            Exception: What `write` raised, or what kept the transaction from ending; then nothing
                of it is kept.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((write, future))
        return await future

    def _flush(self) -> None:
        # What was cancelled meanwhile is written all the same: an answer that landed is paid for.
        waiting, self._waiting = self._waiting, []
        try:
            with self._together():
                results = [write() for write, _ in waiting]
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            if len(waiting) == 1:
                _fail(waiting[0][1], error)
            else:
                self._one_by_one(waiting)
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)

    def _one_by_one(self, waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]]) -> None:
        """One write must not fail the others."""
        for write, future in waiting:
            try:
                with self._together():
                    result = write()
            except Exception as error:  # noqa: BLE001 - it belongs to who asked
                _fail(future, error)
            else:
                if not future.done():
                    future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
