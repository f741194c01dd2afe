"""Compiles the tests as pytest does, in as many processes as there are workers of xdist.

Each worker would compile all of them: they collect the same tests at the same time.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from _pytest.assertion import rewrite

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["compile_tests"]


def compile_tests(root: Path, config: pytest.Config, *, processes: int) -> None:
    """Write the compiled files that pytest reads, whether Python is to write its own or not."""
    sources = [path for name in ("test_*.py", "conftest.py") for path in root.rglob(name)]
    # Dealt out by size, so that all processes end together.
    sources.sort(key=lambda path: path.stat().st_size)
    children: list[int] = []
    for number in range(processes):
        child = os.fork()
        if not child:
            # What fails here fails again, and with its reason, where the file is collected.
            with contextlib.suppress(Exception):
                for source in sources[number::processes]:
                    _compile(source, config)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _compile(source: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(source)
    compiled = folder / f"{source.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(source, compiled) is None and rewrite.try_makedirs(folder):
        digest, code = rewrite._rewrite_test(source, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, compiled)
