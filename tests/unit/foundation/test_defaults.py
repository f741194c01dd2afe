"""What holds where a user sets nothing: settings, policies, options, and counts at their start."""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from pathlib import PurePath
from typing import Any

import pytest

from regauge.gate import GatePolicy
from regauge.gate._anchor import CheckChange
from regauge.gate._baseline_sessions import TopUp, TopUpPolicy
from regauge.gate._commit import BaseCommit
from regauge.gate._estimate import Bill
from regauge.gate._messages import MessageContext
from regauge.gate._refusal import Refusal
from regauge.gate._result import GateResult
from regauge.gate._types import BaseTrials, CaseReport, GateCase, PolicyOptions
from regauge.gate.baselines import StoredTrials
from regauge.gate.power import DetectableDrop, SensitivityLine, SimulatedSuite
from regauge.maintenance.anchors import AnchorUpdate
from regauge.maintenance.batch_files import ResultLines
from regauge.maintenance.batches import BatchOptions
from regauge.maintenance.calibrations import JudgeStatusRow
from regauge.mutate import MutationProgress
from regauge.mutate._classify import ClassificationPolicy
from regauge.project import Settings
from regauge.providers import Usage
from regauge.providers._rate import Pace
from regauge.refine._policy import AcceptancePolicy, GuardPolicy, RunLimits
from regauge.refine.attempts import Memory
from regauge.refine.feedback import Feedback
from regauge.refine.loop._state import Spending
from regauge.refine.refinement import RefineOptions
from regauge.reports._tally import LabelCounts
from regauge.reports._writer import RunEnd
from regauge.runner import RunOptions, RunProgress
from regauge.runner._budget import Budget, Charge
from regauge.runner._expected import ExpectedCalls
from regauge.runner._plan import CaseRequest, Plan
from regauge.runner._result import CallTotals, JudgedVerdict
from regauge.sim import Rules
from regauge.sim.server import FaultPlan, SimServerOptions
from regauge.stats._policy import (
    AnchorPolicy,
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
)
from tests.transcripts import assert_as_written

VALUES = (
    AcceptancePolicy, AnchorPolicy, CallTotals, CasePolicy, CriticalPolicy, ExpectedCalls, FaultPlan, Feedback,
    GatePolicy, GuardPolicy, LabelCounts, Memory, MutationProgress, NetPolicy, Pace, PolicyOptions,
    RefineOptions, Rules, RunLimits, RunProgress, SimServerOptions, Spending, SuitePolicy, Usage,
)  # fmt: skip
PARTS = (
    AnchorUpdate, BaseCommit, BaseTrials, BatchOptions, Bill, Budget, CaseReport, CaseRequest, Charge, CheckChange,
    DetectableDrop, GateCase, GateResult, JudgeStatusRow, JudgedVerdict, MessageContext, SensitivityLine, Plan, Refusal,
    ResultLines, RunEnd, RunOptions, SimulatedSuite, StoredTrials, TopUp, TopUpPolicy,
)  # fmt: skip
# The least that a table of the settings needs.
TABLES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a provider": {"providers": {"a": {"base_url": "http://a/v1"}}},
    "prices": {
        "providers": {
            "a": {"prices": {"m": {"input_per_million": 1, "output_per_million": 2}}},
        }
    },
    "targets": {
        "targets": {
            "of-http": {"kind": "http", "url": "http://a/"},
            "of-command": {"kind": "command", "argv": ["a"]},
            "of-python": {"kind": "python", "callable": "app:run"},
            "recorded": {"kind": "recorded", "path": "a.jsonl"},
        }
    },
    "a goal": {"refine": {"goals": [{"pass_rate": 0.9}]}},
}


def plain(value: Any) -> Any:
    """A value as JSON, with all fields of its parts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: plain(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if not one.name.startswith("_")
        }
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, Enum | PurePath):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__


def as_lines(value: Any) -> str:
    return json.dumps(plain(value), indent=1, ensure_ascii=False)


@pytest.mark.parametrize("name", TABLES)
def test_settings_that_are_not_given_are_as_it_was_written_down(name: str):
    settings = Settings.model_validate(TABLES[name])
    document = settings.model_dump(mode="json")
    shown = document if name == "nothing" else {key: document[key] for key in TABLES[name]}
    assert_as_written(json.dumps(shown, indent=1) + "\n", f"defaults/settings of {name}")


def test_policies_options_and_counts_begin_as_it_was_written_down():
    lines: list[str] = []
    for value in VALUES:
        lines += [f"{value.__name__}:", as_lines(value())]
    policy = ClassificationPolicy(gate=GatePolicy())
    lines += ["ClassificationPolicy:", as_lines(policy)]
    assert_as_written("\n".join([*lines, ""]), "defaults/values")


def test_parts_of_values_that_are_not_given_are_as_it_was_written_down():
    lines: list[str] = []
    for value in PARTS:
        parts = {
            part.name: plain(part.default)
            for part in dataclasses.fields(value)
            if part.default is not dataclasses.MISSING and not part.name.startswith("_")
        }
        lines.append(f"{value.__name__}: {json.dumps(parts)}")
    assert_as_written("\n".join([*lines, ""]), "defaults/parts")
