"""What becomes of several accepted edits when the gate refuses them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.refine.loop._state import EditBisection
from regauge.refine.loop._verification import after_limit
from tests.unit.refine.world import LINES, without, world

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.refine.world import World

ALL = without("json", "short", "utc")

# Which lines the gate refuses, what it is asked about, and what is proposed in the end.
REFUSALS = {
    "the newest": (("utc",), [("json", "short")], ["json", "short"]),
    "the one between": (("short",), [("json", "short"), ("json",)], ["json", "utc"]),
    "the first": (("json",), [("json", "short"), ("json",)], ["short", "utc"]),
    "two that do not go together": ((("json", "utc"),), [("json", "short")], ["json", "short"]),
    "the first and the newest": (
        ("json", "utc"),
        [("json", "short"), ("json",), ("short",)],
        ["short"],
    ),
}


def refusing(bad: tuple[str | tuple[str, str], ...]) -> Callable[[str], bool]:
    def refuses(text: str) -> bool:
        groups = [(name,) if isinstance(name, str) else name for name in bad]
        return any(all(LINES[name] in text for name in group) for group in groups)

    return refuses


def tried(here: World) -> list[tuple[str, ...]]:
    """The edits that fewer and fewer were tried of."""
    return [
        tuple(one.mode.check for one in state.accepted)
        for state in here.states
        for note in state.notes
        if note.event == "bisected"
    ]


@pytest.mark.parametrize(("bad", "asked", "kept"), REFUSALS.values(), ids=REFUSALS)
def test_the_edit_that_the_gate_refuses_is_found_and_the_others_stay(bad, asked, kept):
    here = world(ALL, refuses=refusing(bad))

    state = here.run()

    assert tried(here) == asked
    assert state.stop is not None
    assert state.stop.proposal
    assert [edit.mode.check for edit in state.accepted] == kept
    assert {name for name, line in LINES.items() if line in state.text.full_text} == set(kept)
    assert here.events.count("rolled-back") == 3 - len(kept)
    assert len(here.drawn) == len(set(here.drawn)), "no trial is drawn twice"


@pytest.mark.parametrize("edits", range(2, 10))
def test_any_one_of_many_is_found_in_few_steps(edits: int):
    for culprit in range(1, edits + 1):
        stack = EditBisection(edits=(None,) * edits, refused=edits, result="undecided", detail="")  # type: ignore[arg-type]
        steps = 0
        while not stack.is_settled:
            side = "refused" if stack.next_count >= culprit else "passed"
            stack = replace(stack, **{side: stack.next_count})
            steps += 1
        assert stack.refused == culprit
        assert steps <= 1 + (edits - 1).bit_length()


def test_where_a_limit_forbids_to_ask_on_the_most_that_the_gate_accepted_is_verified():
    here = world(ALL, refuses=refusing(("utc",)))
    here.run()
    asking = next(state for state in here.states if state.bisection is not None)
    assert asking.bisection is not None
    known = replace(asking, bisection=replace(asking.bisection, passed=1), notes=())

    state = after_limit(known, "calls")

    assert [edit.mode.check for edit in state.accepted] == ["json"]
    assert state.text == state.accepted[0].text
    assert state.bisection is None
    assert [note.event for note in state.notes] == ["limit", "set-aside", "set-aside"]
    assert state.phase == "fresh", "its fresh trials have their say"
    nothing = after_limit(asking, "calls")
    assert nothing.stop is not None
    assert nothing.stop.reason == "calls"
    assert nothing.bisection == asking.bisection, "it can go on from there"
