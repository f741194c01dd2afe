"""The candidates among edits: how many are screened."""

from __future__ import annotations

import pytest

from regauge.refine.edits import rule_edit
from regauge.refine.loop._candidates import candidates_of
from tests.unit.refine.proposers.problems import prompt, told

BASE = "You rate alerts.\n- Be brief.\n"


@pytest.mark.parametrize(("count", "screened"), [(0, 0), (1, 1), (5, 5), (6, 5), (9, 5)])
def test_a_screening_has_a_few_candidates(count: int, screened: int):
    _, state, _ = told(BASE)
    edits = [
        rule_edit(state.text, prompt(f"{BASE}- Keep part {'abcdefghi'[n]} short.\n"), "add-rule", "why")
        for n in range(count)
    ]  # fmt: skip
    candidates, after = candidates_of(state, edits)
    assert len(candidates) == screened
    assert after.novel is bool(count)
    assert all(candidate.edit in edits for candidate in candidates)
