"""Which sentence carries which check, and what that costs."""

from __future__ import annotations

import pytest

from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.edits import PromptText
from regauge.refine.loop._search import pieces
from tests.unit.refine.world import HEALTHY, LINES, TRAIN, passes, without as without_lines, world

LONG = """\
You sort tickets. Be quick about it,
and never guess! A ticket has one kind.

# Rules
- Answer in JSON. Use one key.
  The key is `kind`.
1. Mind {{input}} here.
- ???
The end"""


def with_calls(calls: int, ablation_calls: int) -> RefinePolicy:
    return RefinePolicy(limits=RunLimits(calls=calls, ablation_calls=ablation_calls))


def test_a_prompt_is_taken_apart_into_sentences():
    text = PromptText.from_contents(LONG)

    assert [said for said, _ in pieces(text)] == [
        "You sort tickets.",
        "Be quick about it, and never guess!",
        "A ticket has one kind.",
        "Answer in JSON.",
        "Use one key.",
        "The key is `kind`.",
        "The end",
    ]


@pytest.mark.parametrize(
    ("sentence", "line", "instead"),
    [
        ("You sort tickets.", "You sort tickets. Be quick about it,", "Be quick about it,"),
        ("Answer in JSON.", "- Answer in JSON. Use one key.", "- Use one key."),
        ("Use one key.", "- Answer in JSON. Use one key.", "- Answer in JSON."),
        ("The key is `kind`.", "  The key is `kind`.", None),
        ("The end", "The end", None),
    ],
)
def test_a_sentence_is_left_out_and_nothing_else(sentence, line, instead):
    text = PromptText.from_contents(LONG)
    (leaner,) = (leaner for said, leaner in pieces(text) if said == sentence)

    wanted = [instead if other == line else other for other in LONG.split("\n")]
    left = [row.rstrip() for row in leaner.messages[0].content.split("\n")]
    assert left == [row for row in wanted if row is not None]


def test_each_check_is_traced_to_its_line_and_other_lines_to_none():
    here = world(HEALTHY, with_calls(400, 200))

    state = here.run()

    assert {bearing.text: set(bearing.carries) for bearing in state.ablations} == {
        "You help.": set(),
        **{line.removeprefix("- "): {name} for name, line in LINES.items()},
    }
    assert {bearing.cases for bearing in state.ablations} == {len(TRAIN)}
    notes = [note for one in here.states for note in one.notes]
    assert [note.text for note in notes if note.event == "localised"] == [
        "'You help.' changes nothing in 8 cases",
        "'Be short.' carries short",
        "'Answer in JSON.' carries json",
        "'Give times in UTC.' carries utc",
    ]
    assert state.stop.reason == "nothing-to-refine"
    assert {case for text, case, _ in here.drawn if text != HEALTHY.digest} == set(TRAIN)


def test_a_line_in_the_way_of_a_failing_check_is_found_first_and_the_run_goes_on():
    line = "- Answer as JSON or in prose, as you like."
    base = PromptText.from_contents(HEALTHY.full_text.replace("You help.", f"You help.\n{line}"))

    def hindered(text: str, case: str, check: str) -> bool:
        return passes(text, case, check) and not (check == "json" and line in text)

    here = world(base, with_calls(400, 16), passes=hindered, propose=lambda *_: [])
    state = here.run()

    first = state.ablations[0]
    assert first.text == line.removeprefix("- ")
    assert set(first.hinders) == {"json"}
    assert state.stop.reason == "goal-met"
    assert state.text == HEALTHY


@pytest.mark.parametrize(("calls", "ablation_calls", "tried"), [(400, 20, 2), (100, 200, 1)])
def test_no_more_is_drawn_than_may_be_and_a_repair_is_set_aside(calls, ablation_calls, tried):
    here = world(without_lines("json"), with_calls(calls, ablation_calls))

    state = here.run()

    assert len(state.ablations) == tried
    assert state.spending.calls <= calls
    assert "screened" in here.events, "calls are left for a repair"


def test_few_calls_measure_every_sentence_on_fewer_cases():
    train = tuple(f"train-{number}" for number in range(24))

    state = world(HEALTHY, with_calls(1000, 40), train=train).run()

    assert [bearing.cases for bearing in state.ablations] == [10] * 4


def test_nothing_is_left_out_unless_asked_for():
    assert not world(HEALTHY).run().ablation_plans


@pytest.mark.parametrize(("failing", "shown"), [(12, 4), (3, 3), (16, 8)])
def test_half_of_the_cases_that_sentences_are_tried_on_pass(failing: int, shown: int):
    train = tuple(f"train-{number}" for number in range(16))
    here = world(
        HEALTHY,
        with_calls(600, 32),
        train=train,
        passes=lambda text, case, check: (
            passes(text, case, check)
            and not (check == "utc" and case in train and train.index(case) < failing)
        ),
    )
    here.run()
    first = next(text for text, _, _ in here.drawn if text != HEALTHY.digest)
    cases = {case for text, case, _ in here.drawn if text == first}
    assert len(cases) == 8
    assert sum(train.index(case) < failing for case in cases) == shown
