"""Keeps Python's garbage collector from walking what lives as long as the process."""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import ModuleType

__all__ = ["collecting_seldom", "import_for_good", "import_undisturbed", "keep_for_good"]

# Python's own are 700, 10 and 10: right for a program of which nobody knows anything.
_SELDOM = (20_000, 50, 50)


def keep_for_good(*, after_collecting: int = 0) -> None:
    """Count what is alive now as what will not be garbage; collections pass over it from then on.

    pytest collects garbage five times when it ends, and Python once more. For 1,000 evals and the
    openai SDK that took half a second.

    Args:
        after_collecting: The oldest generation that is looked through for what is dead already.
    """
    gc.collect(after_collecting)
    gc.freeze()


def import_undisturbed(module: str) -> ModuleType:
    """Import a module without looking for garbage meanwhile: an import makes next to none.

    Raises:
        ImportError: It cannot be imported.
    """
    with _paused():
        return importlib.import_module(module)


def import_for_good(module: str) -> None:
    """Import a large module whose objects will live as long as the process.

    Raises:
        ImportError: It cannot be imported.
    """
    if module not in sys.modules:
        import_undisturbed(module)
        keep_for_good()


@contextmanager
def collecting_seldom() -> Generator[None]:
    """Within the block, look for garbage after 20,000 new objects; a judged case makes thousands.

    Next to none of it is in circles, so next to nothing is found. A collector that is off stays so.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _paused() -> Generator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
