"""Collects a prompt file as evals: one item per row of its `testData`, judged by `evaluators`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.pytest_run import PytestRun
    from regauge.runner import PlannedCase

__all__ = ["PromptCase", "PromptFile", "is_prompt_file"]

_KEYS = (re.compile(r"^messages:", re.MULTILINE), re.compile(r"^testData:", re.MULTILINE))


def is_prompt_file(path: Path) -> bool:
    """Whether a YAML file is a prompt: by its name, or by the keys it begins its lines with."""
    if re.search(r"[._-]prompt\.ya?ml$", path.name):
        return True
    text = path.read_text(encoding="utf-8", errors="replace")
    return all(key.search(text) for key in _KEYS)


class PromptFile(pytest.File):
    """A prompt file named on the command line."""

    run: PytestRun

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, *, run: PytestRun) -> PromptFile:
        """Make the collector of one file."""
        file: PromptFile = cls.from_parent(parent, path=path)
        file.run = run
        return file

    def collect(self) -> Iterator[PromptCase]:
        """One item per row of `testData`."""
        for planned in self.run.cases_of_prompt_file(self.path):
            item: PromptCase = PromptCase.from_parent(self, name=planned.case.id)
            item.planned = planned
            yield item


class PromptCase(pytest.Item):
    """One row of `testData`."""

    planned: PlannedCase
    parent: PromptFile

    def runtest(self) -> None:
        """Get the answer and apply the judges."""
        self.parent.run.judged(self, self.planned).check()

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the file is; rows have no line of their own."""
        return self.path, 0, self.name
