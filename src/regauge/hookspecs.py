"""Hooks that other plugins and conftest files may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from regauge.runner import EvalResult, EvalSession

__all__ = ["pytest_regauge_case_finished", "pytest_regauge_planned"]


@pytest.hookspec
def pytest_regauge_planned(config: pytest.Config, evals: EvalSession) -> None:
    """Called once per process after deselection, with the session and its `plan`."""


@pytest.hookspec
def pytest_regauge_case_finished(config: pytest.Config, result: EvalResult) -> None:
    """Called after each case, with its judged trials."""
