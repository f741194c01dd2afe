"""What becomes of several accepted edits when the gate refuses them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
        if note.event == "fewer"
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
