"""How often a holdout may decide: counted over runs, by what it decided about."""

from __future__ import annotations

import json

from regauge.project import Project
from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.attempts import HoldoutLedger
from regauge.refine.loop._state import RevisionDecision, Spending
from tests.unit.refine.world import HEALTHY, adding, without, world

REFUSAL = RevisionDecision(
    decision="reject", reasons=("all worse",), outcomes=(), spending=Spending()
)


def looks(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_looks_are_kept_per_prompt_and_holdout(tmp_path):
    project = Project(root=tmp_path)
    ledger = HoldoutLedger(project, "one", ["a", "b"])
    assert ledger.read() == looks()

    ledger.add(looks("x", "y"))
    ledger.add(looks("y"))
    HoldoutLedger(project, "one", ["b", "a"]).add(looks("y", "z"))

    assert HoldoutLedger(project, "one", ["a", "b"]).read() == looks("x", "y", "z")
    assert HoldoutLedger(project, "one", ["a", "c"]).read() == looks()
    assert HoldoutLedger(project, "other", ["a", "b"]).read() == looks()


def test_a_ledger_that_cannot_be_read_begins_anew(tmp_path):
    project = Project(root=tmp_path)
    path = project.state_dir / "refine/one.looks.json"
    path.parent.mkdir(parents=True)
    for text in ("[]", "{", json.dumps({"k": 3})):
        path.write_text(text)
        ledger = HoldoutLedger(project, "one", ["a"])
        assert ledger.read() == looks()
    ledger.add(looks("x"))
    assert ledger.read() == looks("x")


def test_every_revision_that_is_verified_takes_one_look_and_the_same_one_none():
    here = world(without("json"))
    state = here.run()
    assert len(state.holdout_looks) == 1
    note = next(n for s in here.states for n in s.notes if n.event == "suite-accept")
    assert note.numbers == {"holdout_looks": 1, "holdout_looks_max": 10}

    again = world(without("json"), holdout_looks_before=state.holdout_looks).run()
    assert again.holdout_looks == state.holdout_looks

    lax = world(without("json"), holdout=())
    assert lax.run().holdout_looks == looks()


def test_a_healthy_prompt_is_looked_at_when_no_look_is_left():
    used = looks(*(f"{n}@8" for n in range(10)))
    assert world(HEALTHY, holdout_looks_before=used).run().stop.reason == "nothing-to-refine"


def test_the_last_look_is_taken_and_what_it_refuses_is_not_proposed():
    policy = RefinePolicy(limits=RunLimits(holdout_looks=1))
    both = {
        "propose": lambda s, _: [adding(f"- Kindly {s.mode.check}.")],
        "says": lambda _: REFUSAL,
    }
    here = world(without("json", "utc"), policy, passes=lambda text, _, c: c in text, **both)

    state = here.run()

    assert state.stop.reason == "holdout-looks"
    assert not state.stop.proposal
    assert here.events.count("suite-reject") == 1
    assert here.events.count("fewer") == 1, "it cannot be asked which of them it is"
