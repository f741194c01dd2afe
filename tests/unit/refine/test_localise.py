"""Which line carries which check, and what that costs."""

from __future__ import annotations

import asyncio

from regauge.refine._localise import lines_to_leave_out, localise
from regauge.refine._state import Draws, Interrupted
from regauge.refine._tally import Tally
from tests.unit.refine.world import HEALTHY, LINES, TRAIN, world


def known(here):
    """Three trials of every train case under the prompt as it is."""
    trials = tuple((case, n) for case in TRAIN for n in range(3))
    done = asyncio.run(here.draw([Draws(text=HEALTHY, trials=trials)]))
    return Tally().with_outcomes(done.outcomes)


def test_each_check_is_traced_to_its_line_and_other_lines_to_none():
    here = world(HEALTHY)

    found, _ = asyncio.run(localise(here.setting, HEALTHY, known(here), here, calls_max=200))

    assert {c.line.text: set(c.checks) for c in found} == {
        "You help.": set(),
        **{line: {name} for name, line in LINES.items()},
    }
    assert [c.line.text for c in found if not c.is_needed] == ["You help."]


def test_no_more_is_drawn_than_may_be_and_no_holdout_case():
    here = world(HEALTHY)
    tally = known(here)
    here.drawn.clear()

    found, _ = asyncio.run(localise(here.setting, HEALTHY, tally, here, calls_max=20))

    assert len(here.drawn) == 16
    assert len(found) == 2
    assert {case for _, case, _ in here.drawn} == set(TRAIN)


def test_an_outage_leaves_out_what_was_not_tried():
    here = world(HEALTHY, told={3: Interrupted(reason="provider-outage")})

    found, _ = asyncio.run(localise(here.setting, HEALTHY, known(here), here, calls_max=200))

    assert [c.line.text for c in found] == ["You help."]


def test_headings_and_inputs_are_not_left_out():
    assert [line.text for line in lines_to_leave_out(HEALTHY)] == ["You help.", *LINES.values()]
