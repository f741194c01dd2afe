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
