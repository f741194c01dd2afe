"""Lets threads make loggers while pytest looks through them."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["loggers_may_appear"]


class _Loggers(dict[str, "logging.Logger | logging.PlaceHolder"]):
    """Loggers by name, of which new ones may come while somebody goes through them."""

    def values(self) -> list[logging.Logger | logging.PlaceHolder]:  # type: ignore[override] # a copy
        return list(super().values())


@contextmanager
def loggers_may_appear() -> Generator[None]:
    """Within the block, a library that is imported by another thread fails no item.

    At each phase of an item pytest goes through all loggers there are. A library such as openai
    makes its own when it is imported, which a thread that asks models does meanwhile; a dictionary
    that grows while somebody goes through it is a RuntimeError.
    """
    manager = logging.root.manager
    manager.loggerDict = _Loggers(manager.loggerDict)
    try:
        yield
    finally:
        manager.loggerDict = dict(manager.loggerDict)
