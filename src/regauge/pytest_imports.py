"""Keeps pytest from rewriting the asserts of regauge, as it does for tests and for plugins."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import pytest

__all__ = ["load_as_written"]

_PACKAGE = "regauge"


def load_as_written(config: pytest.Config) -> None:
    """Load modules of regauge as they are on disk from now on, until the run is over.

    Rewritten they take a quarter longer to load, and their asserts are not about what is tested.
    """
    finder = _AsWritten()
    sys.meta_path.insert(0, finder)
    config.add_cleanup(lambda: sys.meta_path.remove(finder))


class _AsWritten(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _PACKAGE:
            return None
        return PathFinder.find_spec(fullname, path, target)
