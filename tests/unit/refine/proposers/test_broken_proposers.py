"""Proposers of others that break: the run continues without their edits, or stops with their names."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from regauge.gate import GatePolicy
from regauge.refine.loop._state import CallProposer, Interrupted, ProposalResult, Spending
from regauge.refine.trials import EvalWorkbench
from tests.unit.refine.proposers.problems import CASES, RELEASED, told


class Broken:
    """A proposer whose every method raises an error."""

    name = "mine"
    calls_model = True

    async def _break(self, *_: object) -> Any:
        raise LookupError("no such table")

    criticise = propose = _break


@pytest.mark.parametrize("kind", ["critique", "edits"])
def test_a_proposer_that_breaks_is_named(kind: Literal["critique", "edits"]):
    config, state, _ = told(RELEASED)
    subject = SimpleNamespace(
        members={name: SimpleNamespace(case=case) for name, case in CASES.items()},
        released_texts=(),
        examples=(),
        prompt=SimpleNamespace(response_format=None),
    )
    bench = EvalWorkbench(
        subject=subject,  # type: ignore[arg-type]
        config=config,
        show_expected=False,
        trials=None,  # type: ignore[arg-type] - no trial is run
        proposers={"mine": Broken()},
        policy=GatePolicy(),
    )
    result = asyncio.run(bench.call_proposer(state, CallProposer(proposer="mine", kind=kind)))
    problem = "mine broke: LookupError: no such table"
    if kind == "edits":
        assert result == ProposalResult(edits=(), spending=Spending(), refused=(problem,))
    else:
        assert result == Interrupted(reason="interrupted", text=problem)
