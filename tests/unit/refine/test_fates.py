"""What became of edits, and which strategy comes first for it."""

from __future__ import annotations

from dataclasses import replace

from regauge.refine._fates import FateTable, fates_of, strategy_prior
from regauge.refine._state import Spent, SuiteSaid
from regauge.refine._trail import decisions_of
from tests.unit.refine.world import JSON, TRAIN, adding, without, world

REFUSAL = SuiteSaid(decision="reject", reasons=("all worse",), outcomes=(), spent=Spent())


def fates(here) -> dict[str, str]:
    """By the line that an edit adds."""
    state = here.run()
    decisions = [decision for one in here.states for decision in decisions_of(one)]
    accepted = [one.edit for one in state.accepted]
    found = fates_of(decisions, accepted, proposes=state.stop.proposal)
    assert {op for entry in found for op in entry["ops"].split("+")} <= {
        "insert",
        "replace",
        "delete",
    }
    return {entry["strategy"]: entry["fate"] for entry in found}


def edits(*lines: str):
    return [replace(adding(line), strategy=line) for line in lines]


def test_each_edit_ends_in_one_fate():
    fluff, leak = "- Kindly mind bees.", f"- Mind order {TRAIN[0]}-x7."
    here = world(without("json"), propose=lambda *_: edits(fluff, leak, JSON))
    assert fates(here) == {fluff: "screened-out", leak: "guarded", JSON: "kept"}

    refused = world(without("json"), says=REFUSAL, propose=lambda *_: edits(JSON))
    assert fates(refused) == {JSON: "rolled-back"}


def test_an_edit_that_breaks_another_check_is_refuted():
    def trading(text, _, check):
        return ("jason" in text) == (check == "json")

    here = world(without("json"), passes=trading, propose=lambda *_: edits("- Answer in jason."))
    assert fates(here)["- Answer in jason."] == "refuted"


def test_strategies_that_were_kept_come_first_among_candidates_that_look_alike():
    lines = ("- Bees answer JSON.", "- Cats answer JSON.", "- Dogs answer JSON.")
    known = [{"strategy": lines[2], "fate": "kept"}, {"strategy": lines[0], "fate": "refuted"}]
    prior = strategy_prior(known)
    assert prior == {lines[0]: 0.3333, lines[2]: 0.6667}

    def order(**changes) -> list[str]:
        here = world(without("json"), propose=lambda *_: edits(*lines), **changes)
        here.run()
        first = next(one for one in here.states if one.phase == "screen")
        return [candidate.edit.strategy for candidate in first.candidates]

    assert order() == list(lines)
    assert order(prior=prior) == [lines[2], lines[1], lines[0]]


def test_a_table_counts_every_fate_of_every_kind():
    entries = [
        {"ops": "insert", "fate": "kept"},
        {"ops": "insert", "fate": "guarded"},
        {"ops": "delete", "fate": "refuted"},
        {"ops": "delete", "fate": "of another version"},
        {"fate": "kept"},
    ]
    table = FateTable.of(entries, "ops")

    assert table.counts == {"delete": {"refuted": 1}, "insert": {"kept": 1, "guarded": 1}}
    assert table.fates == ("kept", "refuted", "guarded")
    assert table.share_kept("insert") == 2 / 3
    assert table.share_kept("nothing") == 1 / 2
