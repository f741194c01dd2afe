"""Hooks that other plugins and conftest files may implement, and the types of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.gate import Comparison, GatePolicy
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalResult, EvalSession
else:
    __getattr__, _ = lazy_names(__name__)

__all__ = [
    "Comparison",
    "DecisionDocument",
    "EvalResult",
    "EvalSession",
    "GatePolicy",
    "RunRecord",
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
    """Called once by a gate's dry run, with the planned comparison."""


@pytest.hookspec
def pytest_regauge_decided(config: pytest.Config, decision: DecisionDocument) -> None:
    """Called once a gate has decided, before the items report."""


@pytest.hookspec
def pytest_regauge_recorded(
    config: pytest.Config, record: RunRecord, directory: Path, line_counts: Mapping[str, int]
) -> None:
    """Called once per run, when its record is written to a directory.

    `line_counts` maps each recordings file that the run changed to its number of lines.
    """
