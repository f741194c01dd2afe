"""Flaky checks are worked on where that is asked for, and only what makes them steady is kept."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from benchmarks.refine_tasks._scenarios import SCENARIOS, run_one
from benchmarks.refine_tasks._task import load_task
from regauge.refine.loop._loop import begin
from regauge.refine.runs import TrailFile, read_trail, replay_trail
from tests.unit.refine.world import HEALTHY, HOLDOUT, LINES, TRAIN, adding, passes, world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.refine.world import World

STEADY = "- Never give local times."
WORSE = "- Give local times now and then."
FLUFF = "- Kindly mind the reader."
UNSTEADY = {"train-2", "train-5", "holdout-1"}


def flaky(seed: int, line: str, *, variance: bool = True, rate: float = 0.5) -> World:
    """A healthy prompt of which a few cases pass one check now and then."""
    dice = random.Random(seed)

    def ok(text: str, case: str, check: str) -> bool:
        if check != "utc" or case not in UNSTEADY or STEADY in text:
            return passes(text, case, check)
        return WORSE not in text and dice.random() < rate

    return world(
        HEALTHY,
        passes=ok,
        propose=lambda *_: [adding(line)],
        fix_flaky=variance,
    )


def test_an_edit_that_only_makes_verdicts_steady_is_proposed():
    here = flaky(3, STEADY)

    state = here.run()

    assert state.stop is not None
    assert (state.stop.reason, state.stop.proposal) == ("goal-met", True)
    (edit,) = state.accepted
    assert edit.mode.unsteady
    assert set(edit.mode.cases) <= UNSTEADY & set(TRAIN)
    notes = {note.event: note for state in here.states for note in state.notes}
    assert "further trials" in notes["unsteady"].text
    assert notes["confirmed"].text.startswith("utc fails 0 of ")
    assert {"holdout-1"} & {o.case for seen in state.fresh.counted_outcomes.values() for o in seen}
    # None of the trials that chose cases or edit is evidence, and none is drawn twice.
    assert len(here.drawn) == len(set(here.drawn))
    first = here.config.first_trial
    fresh = {
        (o.text, o.case, o.trial) for seen in state.fresh.counted_outcomes.values() for o in seen
    }
    assert not {(text, case, n) for text, case, n in here.drawn if n >= first} & fresh


def test_most_edits_that_steady_are_found_and_none_that_does_not():
    runs = 24
    found: Counter[str] = Counter()
    for seed in range(runs):
        for line in (STEADY, WORSE, FLUFF):
            here = flaky(seed, line)
            stop = here.run().stop
            assert stop is not None
            found[line] += stop.proposal
            fruitless = here.config.fix_flaky and here.states[-1].tested and not stop.proposal
            assert not fruitless or stop.reason != "nothing-to-refine"
    assert found[STEADY] >= runs / 2, "those whose first look shows no flaky check aside"
    assert found[WORSE] == 0, "what always fails is steady, and not wanted"
    assert found[FLUFF] == 0


@pytest.mark.parametrize("seed", range(6))
def test_flaky_checks_are_left_alone_unless_it_is_asked_for(seed: int):
    here = flaky(seed, STEADY, variance=False)

    state = here.run()

    assert state.stop is not None
    if state.flaky:
        assert state.stop.reason == "nothing-to-refine"
        assert state.spending.calls <= here.config.policy.test.baseline_trials * len(TRAIN)


def test_where_failures_do_not_come_back_nothing_is_proposed():
    here = flaky(3, STEADY, rate=0.9)
    here.propose = lambda *_: pytest.fail("nothing is to be proposed")

    state = here.run()

    assert state.stop is not None
    assert state.stop.reason == "nothing-to-refine"
    test = here.config.policy.test
    again = test.steady_trials * test.steady_cases
    assert state.spending.calls <= test.baseline_trials * len(TRAIN) + again


def test_repairs_come_first_and_stay_where_nothing_can_be_steadied():
    dice = random.Random(11)

    def ok(text: str, case: str, check: str) -> bool:
        if check == "utc" and case in UNSTEADY:
            return dice.random() < 0.5
        return LINES[check] in text

    base = HEALTHY.full_text.replace(LINES["json"] + "\n", "")
    here = world(type(HEALTHY).from_contents(base), passes=ok, fix_flaky=True)

    state = here.run()

    assert state.stop is not None
    assert state.stop.proposal
    assert [edit.mode.check for edit in state.accepted] == ["json"]
    assert set(HOLDOUT).isdisjoint(
        c for s in here.states for one in s.open_modes for c in one.cases
    )


def test_its_trail_is_told_again_to_the_same_end(tmp_path: Path):
    path = tmp_path / "trail.jsonl"
    here = flaky(3, STEADY)
    state = here.run(trail=TrailFile.begin(path, {"prompt": "p"}))

    again = replay_trail(begin(here.config), read_trail(path), path)

    assert again == state
    assert again.accepted[0].mode.unsteady


def test_more_hedged_instructions_are_found_on_a_simulated_task():
    task = load_task("incidents")
    changed = Counter[str]()
    for name in ("hedged", "hedged-variance"):
        for index in range(12):
            row, _ = run_one(task, SCENARIOS[name], "rules", index)
            changed[name] += row.changed
            assert not row.worse
    assert changed["hedged-variance"] > changed["hedged"]
