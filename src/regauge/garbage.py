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

__all__ = ["import_for_good", "import_undisturbed", "keep_for_good"]


def keep_for_good() -> None:
    """Count what is alive now as what will not be garbage; collections pass over it from then on.

    pytest collects garbage five times when it ends, and Python once more. For 1,000 evals and the
    openai SDK that took half a second.
    """
    gc.collect(1)  # what is young and dead already
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
def _paused() -> Generator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
