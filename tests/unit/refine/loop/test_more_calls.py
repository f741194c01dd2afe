"""Nothing is lost when a run's calls are used: it says what is left, and goes on from there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.loop._loop import IllegalTransitionError, advance, begin
from regauge.refine.loop._plan import calls_max, calls_wanted, enough_calls, floor_calls
from regauge.refine.loop._state import MoreCalls
from regauge.refine.runs import TrailFile, read_trail, replay_trail, truncate_trail
from tests.unit.refine.world import LINES, TRAIN, without, world

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.refine.loop._state import LoopState
    from tests.unit.refine.world import World

ALL = without("json", "short", "utc")


def stingy(calls: int) -> World:
    """Three faults, of whose repairs two do not go together, and cases that fail now and then."""

    def ok(text: str, case: str, check: str) -> bool:
        return LINES[check] in text

    return world(
        ALL,
        RefinePolicy(limits=RunLimits(calls=calls)),
        passes=ok,
        refuses=lambda text: LINES["json"] in text and LINES["utc"] in text,
    )


def to_the_end(here: World, state: LoopState, more: int | None = None) -> tuple[LoopState, int]:
    """Go on until calls are not what is lacking; also how often a person was asked for more."""
    asked = 0
    while state.stop is not None and state.stop.reason == "calls":
        asked += 1
        calls = more or calls_wanted(state)
        before = state.spending.calls
        state = advance(state, MoreCalls(calls=calls))
        here.add(None, state)
        state = here.run(state)
        assert state.spending.calls <= before + calls
        assert asked < 40
    return state, asked


def test_whatever_the_budget_is_more_calls_lead_to_the_same_end():
    enough = stingy(600)
    end = enough.run()
    assert end.stop is not None
    assert end.stop.proposal
    went_on = 0
    for calls in range(92, end.spending.calls, 9):
        here = stingy(calls)
        first = here.run()
        assert first.spending.calls <= calls
        state, asked = to_the_end(here, first)

        went_on += asked > 0
        assert state.stop is not None
        assert state.stop.proposal, calls
        assert len(here.drawn) == len(set(here.drawn)), "nothing is paid twice"
    assert went_on, "some budget was too small"


def test_accepted_edits_are_kept_where_no_calls_are_left_for_the_gate():
    here = stingy(600)
    here.run()
    suite = next(state for state in here.states if state.phase == "suite")
    used = replace(suite, extra_calls=suite.spending.calls - 600)

    state = here.run(used)

    assert state.stop is not None
    assert (state.stop.reason, state.stop.proposal, state.stopped_phase) == (
        "calls",
        False,
        "suite",
    )
    assert state.rejected is not None
    assert len(state.rejected.edits) == 3, "all that were stacked, whichever were tried last"
    assert "before 3 accepted edits could be verified; about" in state.stop.text
    assert calls_max(state) == state.spending.calls


@pytest.mark.parametrize("fault", ["json", "short", "utc"])
def test_what_one_repair_is_said_to_take_suffices_and_else_the_lack_is_named(fault: str):
    enough = enough_calls(world(ALL).config)
    policy = RefinePolicy(limits=RunLimits(calls=enough))
    end = world(without(fault), policy).run()
    assert end.stop is not None
    assert end.stop.proposal
    floor = floor_calls(world(ALL).config)
    assert floor < enough
    short = world(without(fault), RefinePolicy(limits=RunLimits(calls=floor)))
    state = short.run()
    assert state.stop is not None
    left = floor - state.spending.calls
    assert f"{left} calls left, and the next step needs " in state.stop.text
    more, _ = to_the_end(short, state)
    assert more.stop is not None
    assert more.stop.proposal


def test_no_dollars_are_no_limit_where_nothing_costs_any():
    for cost, reason in ((0.0, "goal-met"), (0.01, "usd")):
        limits = RunLimits(usd=0.0)
        end = world(without("json"), RefinePolicy(limits=limits), usd=cost).run()
        assert end.stop is not None
        assert end.stop.reason == reason


def test_more_calls_are_for_runs_that_lack_them():
    here = world(without("json"))
    over = here.run()
    with pytest.raises(IllegalTransitionError, match="nothing with more calls"):
        advance(over, MoreCalls(calls=9))
    # One that was cut off may spend less than it was told at first.
    going = advance(begin(here.config), MoreCalls(calls=2 * len(TRAIN)))
    assert calls_max(going) == 2 * len(TRAIN)


def test_a_run_that_was_given_more_calls_is_told_again_from_any_event(tmp_path: Path):
    path = tmp_path / "trail.jsonl"
    here = stingy(98)
    trail = TrailFile.begin(path, {"prompt": "p"})
    state = here.run(trail=trail)
    while state.stop is not None and state.stop.reason == "calls":
        told = MoreCalls(calls=calls_wanted(state))
        state = advance(state, told)
        trail.add(told, state)
        state = here.run(state, trail=trail)
    assert state.stop is not None
    assert state.stop.proposal
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    asked = [n for n, line in enumerate(lines) if b"MoreCalls" in line]
    assert asked

    for kept in (*asked, *(n + 1 for n in asked), len(lines) - 2):
        cut = tmp_path / f"cut-{kept}.jsonl"
        cut.write_bytes(b"".join(lines[:kept]) + lines[kept][:40])
        truncate_trail(cut)
        again = stingy(98)
        events = read_trail(cut)
        half = replay_trail(begin(again.config), events, cut)
        if kept in asked:
            assert half.stop is not None, "it waits for more calls"
            continue
        again.run(half, trail=TrailFile(cut, events))
        assert whole.startswith(cut.read_bytes())
    assert replay_trail(begin(here.config), read_trail(path), path) == replace(state)
