"""Hooks that other plugins and conftest files may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.gate import Comparison, GatePolicy
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalResult, EvalSession

__all__ = [
    "pytest_regauge_case_finished",
    "pytest_regauge_compared",
    "pytest_regauge_decided",
    "pytest_regauge_planned",
    "pytest_regauge_recorded",
]


@pytest.hookspec
def pytest_regauge_planned(config: pytest.Config, evals: EvalSession) -> None:
    """Called once per process after deselection, with the session and its `plan`."""


@pytest.hookspec
def pytest_regauge_case_finished(config: pytest.Config, result: EvalResult) -> None:
    """Called after each case, with its judged trials."""


@pytest.hookspec
def pytest_regauge_compared(
    config: pytest.Config, comparison: Comparison, policy: GatePolicy
) -> None:
    """Called by a gate that is to stop before it draws, with what it would compare."""


@pytest.hookspec
def pytest_regauge_decided(config: pytest.Config, decision: DecisionDocument) -> None:
    """Called once a gate has decided, before the items report."""


@pytest.hookspec
def pytest_regauge_recorded(
    config: pytest.Config, record: RunRecord, directory: Path, written: Mapping[str, int]
) -> None:
    """Called once per run, when its record is written to a directory.

    `written` holds the recordings that the run changed, each with how many lines.
    """
