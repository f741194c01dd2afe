"""Never run: mypy and pyright check that hooks and errors type as promised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

from regauge import Trial
from regauge.errors import ProviderError, RegaugeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from regauge.hookspecs import (
        Comparison,
        DecisionDocument,
        EvalResult,
        EvalSession,
        GatePolicy,
        RunRecord,
    )


def pytest_regauge_planned(config: pytest.Config, evals: EvalSession) -> None:
    del config
    assert_type(len(evals.plan.cases), int)


def pytest_regauge_case_finished(result: EvalResult) -> None:
    assert_type(result.trials, tuple[Trial, ...])


def pytest_regauge_compared(comparison: Comparison, policy: GatePolicy) -> None:
    del comparison, policy


def pytest_regauge_decided(decision: DecisionDocument) -> None:
    assert_type(decision.exit_code, int)


def pytest_regauge_recorded(
    record: RunRecord, directory: Path, line_counts: Mapping[str, int]
) -> None:
    assert_type(record.id, str)
    assert_type(directory / "run.json", Path)
    assert_type(sum(line_counts.values()), int)


def explain(error: RegaugeError) -> tuple[str, str, int]:
    return error.message, error.fix, error.exit_code


usage: RegaugeError = UsageError("no such prompt", fix="regauge new prompt NAME")
provider: RegaugeError = ProviderError("refused", kind="connection")
