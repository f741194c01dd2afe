"""Updates of baselines: their lines for the user, and when they count as worse."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from regauge.evidence import AuditReport, Count, RoundReport
from regauge.gate import Drift
from regauge.gate._anchor import CheckChange
from regauge.gate._baseline_sessions import EvalTrials, TopUp, TopUpEval
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import BaselineKey, Session, StoredBaseline, StoredTrials
from regauge.maintenance.baselines import EvalUpdate
from tests.transcripts import assert_as_written

if TYPE_CHECKING:
    from regauge.runner import Eval

ROUND = RoundReport(trials=2, total_trials=60, fails=9, expected=3.0, p_value=0.2, bound=0.005)
AUDIT = AuditReport(
    trials=40, better=6, worse=1, p_value=0.01, level=0.05, result="agree", prompts=("triage", "b")
)


def change(direction: Literal["worse", "better"]) -> CheckChange:
    return CheckChange(
        case=f"c-{direction}",
        check="tone",
        direction=direction,
        before=Count(passed=6, trials=12),
        now=Count(passed=1, trials=7),
        e_value=50.0,
        bound=20.0,
    )


def drift(*changes: CheckChange, models: tuple[str, ...] = (), **suite: Any) -> Drift:
    return Drift(
        changes=changes,
        before=Count(passed=100, trials=120),
        now=Count(passed=51, trials=60),
        suite=replace(ROUND, **suite) if suite else None,
        new_models=models,
    )


def baseline(sessions: int) -> StoredBaseline:
    key = BaselineKey(prompt="a" * 64, model="sim:m", dataset="d", judges={"tone": "b" * 64})
    cases = {
        f"c-{n}": StoredTrials(digest="1", numbers=(100, 101), passed=2, checks={}) for n in (1, 2)
    }
    return StoredBaseline(
        key=key,
        version="1.2.0",
        sessions=tuple(
            Session(id=f"2026-11-2{n}T00:00:00Z", first=100, last=101, models=("m",))
            for n in range(sessions)
        ),
        cases=cases if sessions else {},
    )


def trials(**unmeasured: int) -> EvalTrials:
    return EvalTrials(
        unmeasured=Counter(unmeasured), unmeasured_cases={f"c-{n}" for n in range(len(unmeasured))}
    )


MEASURED = EvalTrials(facts={"c-1": {100: TrialFacts(checks={"tone": True}, output_digest="x")}})
UPDATES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a baseline that is complete": {"session_trials": MEASURED},
    "a baseline that is not complete": {"session_trials": MEASURED, "missing_text": "2 sessions"},
    "a written file": {"session_trials": MEASURED, "written_file": "fixtures/baselines/x.json"},
    "losses": {"changes": (change("better"), change("worse"))},
    "gains": {"changes": (change("better"),)},
    "accepted losses": {"accepted": ("c-1", "c-2")},
    "an audit that agrees": {"audit": AUDIT},
    "an audit that is better": {"audit": replace(AUDIT, result="better")},
    "an audit of a worse base": {"audit": replace(AUDIT, result="base-worse")},
    "trials that agree": {"drift": drift(p_value=0.2)},
    "no trials": {"drift": drift()},
    "a case that fails": {"drift": drift(change("worse"), p_value=0.2)},
    "a case that passes": {"drift": drift(change("better"), p_value=0.2)},
    "all cases at the bound": {"drift": drift(p_value=0.005)},
    "a score at the bound": {"drift": drift(scores={"tone": 0.005, "length": 0.9})},
    "another model": {"drift": drift(models=("m-2", "m-3"), p_value=0.2)},
    "unmeasured trials": {
        "session_trials": trials(a=1, b=3, c=2, d=4),
        "rechecked": trials(**dict.fromkeys("abcdef", 1)),
    },
}
WORSE = {
    "losses", "an audit that is better", "a case that fails", "all cases at the bound",
    "a score at the bound",
}  # fmt: skip


def update_of(suite: Eval, baseline: StoredBaseline, parts: dict[str, Any]) -> EvalUpdate:
    plan = TopUp(baseline=baseline, digests={}, first=100)
    return EvalUpdate(eval=suite, request=TopUpEval(top_up=plan, cases=()), **parts)


def described(update: EvalUpdate, before: StoredBaseline | None = None) -> str:
    rows = [*update.lines(before), "-- unmeasured", *update.unmeasured()]
    return "\n".join([*rows, "-- document", json.dumps(update.to_json(), indent=1), ""])


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_is_described_as_it_was_written_down(made: Any, name: str):
    before = replace(baseline(3), version="1.1.0") if "losses" in name or name == "gains" else None
    update = update_of(made.suite(), baseline(2), UPDATES[name])
    assert_as_written(described(update, before), f"baselines/{name}")
    assert update.worse is (name in WORSE)


def test_a_version_without_changes_and_without_a_number_is_compared_too(made: Any):
    update = update_of(made.suite(), baseline(0), {"session_trials": MEASURED})
    assert [*update.lines(replace(baseline(1), version=""))] == [
        "alert: no trials, complete",
        f"  compared with {'a' * 12}:",
        "  no case's pass rate certainly changed",
    ]
