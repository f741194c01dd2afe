"""A directory of its own, for commands that are run in it as processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests import processes

if TYPE_CHECKING:
    from pathlib import Path


class Place:
    """A directory, and the commands run in it.

    Attributes:
        loaded: Modules that its commands need not load, besides those of all commands.
    """

    loaded: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        self.root = root

    def process(self, *command: str, given: str = "", **environment: str):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("CI", "PYTEST", "COV"))}
        # Other plugins of this repository's tests take seconds to load, in every process.
        plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "regauge.pytest_plugin"}
        env = clean | {"NO_COLOR": "1"} | plugins | environment
        return processes.run(*command, cwd=self.root, env=env, given=given, loaded=self.loaded)

    def regauge(self, *arguments: str, code: int = 0, given: str = "") -> str:
        done = self.process("regauge", *arguments, given=given)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def evals(self, *arguments: str, code: int = 0, **environment: str) -> str:
        done = self.process("pytest", "evals", "-q", *arguments, **environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return file

    def files(self) -> list[str]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        names = sorted(path.relative_to(self.root).as_posix() for path in found)
        return [name for name in names if not name.startswith((".git/", ".regauge/"))]
