"""Collects a prompt file as evals: one item per row of its `testData`, judged by `evaluators`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from regauge.runner import EvalResult, PlannedCase

__all__ = ["CaseRun", "PromptCase", "PromptFile", "is_prompt_file"]

_KEYS = (re.compile(r"^messages:", re.MULTILINE), re.compile(r"^testData:", re.MULTILINE))


class CaseRun(Protocol):
    """The run that the cases of a prompt file belong to."""

    def cases_of_prompt_file(self, path: Path) -> list[tuple[str, PlannedCase]]:
        """The rows of the file's `testData`, with the names of their items."""
        ...

    def judged(self, item: pytest.Item, planned: PlannedCase) -> EvalResult:
        """The judged trials of one of them."""
        ...


def is_prompt_file(path: Path) -> bool:
    """Whether a YAML file is a prompt: by its name, or by the keys it begins its lines with."""
    if re.search(r"[._-]prompt\.ya?ml$", path.name):
        return True
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return False
    return all(key.search(text) for key in _KEYS)


class PromptFile(pytest.File):
    """A prompt file named on the command line."""

    run: CaseRun

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, *, run: CaseRun) -> PromptFile:
        """Make the collector of one file."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        file: PromptFile = make(parent, path=path)
        file.run = run
        return file

    def collect(self) -> Iterator[PromptCase]:
        """One item per row of `testData`."""
        for name, planned in self.run.cases_of_prompt_file(self.path):
            yield PromptCase.of(self, name, planned)


class PromptCase(pytest.Item):
    """One row of `testData`."""

    planned: PlannedCase
    run: CaseRun

    @classmethod
    def of(cls, parent: PromptFile, name: str, planned: PlannedCase) -> PromptCase:
        """Make the item of one row."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        item: PromptCase = make(parent, name=name)
        item.planned, item.run = planned, parent.run
        return item

    def runtest(self) -> None:
        """Get the answer and apply the judges."""
        self.run.judged(self, self.planned).check()

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the file is; rows have no line of their own."""
        return self.path, 0, self.name
