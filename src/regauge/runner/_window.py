"""How far models are asked ahead of the case that is being judged."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Window"]

# So many windows more, so that what is held up for long does not have all the rest paid for.
_ASIDE_MAX: Final = 2
# What landed is kept, so that it is paid for once, whenever it is judged.
_LANDED_MAX: Final = 4


class Window:
    """How many draws may be under way or waiting to be judged, at the moment.

    A draw that waits for a library to load asks nobody meanwhile, and makes room for another.

    Args:
        width: How many, where none is held up; asked again each time.
        fixed: Whether it stays so, for a run that may stop at its first failure.

    Attributes:
        moved: Set when there may be room where there was none; for the event loop alone.
    """

    def __init__(self, width: Callable[[], int], *, fixed: bool = False) -> None:
        self._width = width
        self._fixed = fixed
        self._aside: dict[tuple[int, int], int] = {}
        self.moved = asyncio.Event()

    @property
    def size(self) -> int:
        """How many draws there is room for."""
        width = self._width()
        return width if self._fixed else width + min(len(self._aside), _ASIDE_MAX * width)

    def reach(self, landed: int) -> int:
        """How far ahead draws may start while one of them is held up, such as by a rate limit.

        Args:
            landed: Draws behind it that are done and wait to be judged.
        """
        return self.size if self._fixed else self.size + min(landed, _LANDED_MAX * self._width())

    @contextmanager
    def aside(self, draw: tuple[int, int]) -> Generator[None]:
        """Within the block, a draw (by its `id`) does not count; may be entered more than once."""
        self._aside[draw] = self._aside.get(draw, 0) + 1
        self.moved.set()
        try:
            yield
        finally:
            self._aside[draw] -= 1
            if not self._aside[draw]:
                del self._aside[draw]
