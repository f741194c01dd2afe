"""What a gate says before its last trial: unmeasured, unless it is rejected already."""

from __future__ import annotations

import pytest

from regauge.gate import Gate, GatePolicy
from tests.unit.gate.engine.drive import ONE, others, scripted


@pytest.mark.parametrize("policy", [ONE, GatePolicy()], ids=["one trial", "usual"])
@pytest.mark.parametrize("candidate", ["1", "0", "110", "1110"])
def test_a_gate_is_unmeasured_until_no_trial_is_pending(candidate: str, policy: GatePolicy):
    cases = [scripted(candidate, was="9/12"), *others(1)]
    known = {one.case.key: one for one in cases}
    gate = Gate([one.case for one in cases], policy)
    while wanted := gate.pending_trials():
        for request in wanted:
            for number in request.trials:
                so_far = gate.outcome()
                assert not so_far.finished
                assert so_far.decision in {"unmeasured", "reject"}
                facts = known[request.prompt, request.case].facts(request.side, number)
                gate.observe(request.prompt, request.case, request.side, number, facts)
    assert gate.outcome().finished
    assert gate.outcome().decision != "unmeasured"
