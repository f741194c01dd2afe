"""What a model is told of sections that may be replaced, and what is made of its replies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from regauge.prompts import Replaceable
from regauge.providers import parse_model_id
from regauge.refine.edits import Anchor, ReplaceSection, apply
from regauge.refine.proposers.model import ModelProposer, ProposerCalls, request_edits
from regauge.sim import SimulatedProvider
from tests.unit.refine.proposers.problems import RELEASED, USER, Replies, prompt, told, without

MODEL = ModelProposer(model=parse_model_id("sim:clerk-1"))
SEVERITIES = "Severities:"
MARKS = (
    Replaceable(section=SEVERITIES),
    Replaceable(section="<alert>", message="user", words=9),
)
NEW = "- critical: wake somebody up.\n- warning: look at it today."


def edits(*replies: str, replaceable: Any = MARKS) -> tuple[Any, Replies]:
    ask = Replies(*replies)
    _, _, problem = told(RELEASED, replaceable=replaceable)
    return asyncio.run(request_edits(MODEL, problem, ProposerCalls(ask, 40))), ask


def reply(line: str, text: str) -> str:
    op = {"op": "replace_section", "line": line, "find": "", "text": text}
    return json.dumps({"rationale": "Plainer.", "ops": [op]})


def test_the_sections_that_may_be_replaced_are_shown_with_their_lines_and_limits():
    _, ask = edits(reply(SEVERITIES, NEW))
    said = ask.said
    told_of = said[said.index("Sections that may be replaced as a whole:") :]
    listed = json.loads(told_of[told_of.index("[") : told_of.index("\n]") + 2])
    assert listed == [
        {
            "line": SEVERITIES,
            "message": "system",
            "its text": "lines 4 to 5",
            "words at most": 50,
        },
        {"line": "<alert>", "message": "user", "its text": "lines 2 to 2", "words at most": 9},
    ]
    _, ask = edits(reply(SEVERITIES, NEW), replaceable=())
    assert ">\n(none)\n</" in ask.said[ask.said.index("Sections that may be replaced") :]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (SEVERITIES, NEW),
        (f"3| {SEVERITIES}", NEW),
        (SEVERITIES, f"{SEVERITIES}\n{NEW}\n"),
        (SEVERITIES, "\n".join(f"{n}| {line}" for n, line in enumerate(NEW.split("\n"), 4))),
    ],
)
def test_a_section_is_read_with_what_was_said_around_it_left_out(line, text):
    said, _ = edits(reply(line, text))
    (op,) = said.edits[0].ops
    assert op == ReplaceSection(Anchor(SEVERITIES, None, 0), NEW)
    assert said.edits[0].strategy == "model-replace-section"
    lost = RELEASED.split("\n")[3:5]
    expected = RELEASED.replace("\n".join(lost), NEW)
    assert apply(prompt(RELEASED), said.edits[0].ops).messages[0].content == expected


def test_tags_that_were_said_again_stay_once():
    said, _ = edits(reply("<alert>", "<alert>\nThe alert: {{alert}}\n</alert>"))
    after = apply(prompt(RELEASED), said.edits[0].ops)
    assert after.messages[1].content == USER.replace("{{alert}}", "The alert: {{alert}}")


def test_the_simulated_refiner_proposes_a_section_at_times_and_only_where_it_may():
    def kinds(replaceable: Any) -> dict[str, int]:
        found: dict[str, int] = {}
        for cycle in range(1, 16):
            lines = without(RELEASED, "- warning: somebody has to look at it.")
            _, state, problem = told(lines, replaceable=replaceable)
            problem = _in_cycle(problem, cycle)
            said = asyncio.run(
                request_edits(MODEL, problem, ProposerCalls(SimulatedProvider().complete, 40))
            )
            for edit in said.edits:
                found[edit.strategy] = found.get(edit.strategy, 0) + 1
                if edit.strategy == "model-replace-section":
                    apply(state.text, edit.ops)
        return found

    with_marks, without_marks = kinds(MARKS[:1]), kinds(())
    assert 3 <= with_marks["model-replace-section"] <= 30
    assert with_marks["model-add"] > 3
    assert "model-replace-section" not in without_marks


def _in_cycle(problem: Any, cycle: int) -> Any:
    from dataclasses import replace

    return replace(problem, cycle=cycle)
