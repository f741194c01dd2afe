"""Where rules may go in prompts of many layouts, what is wrong in them, and what texts lose."""

from __future__ import annotations

import pytest

from regauge.refine.edits import (
    PromptText,
    blocks_between,
    changed_lines,
    changed_places,
    changed_statements,
    count_lost_words,
    find_rule,
    lost_statements,
    new_statements,
    op_to_json,
    parts_of,
    rule_places,
    steps_for,
    units_of,
    with_rule,
    without_losses,
)
from regauge.refine.guards import text_warnings
from tests.transcripts import assert_as_written
from tests.unit.statements.test_transcripts import OTHERS
from tests.unit.statements.texts import TEXTS, ZOO, difference


def known(words: str) -> bool:
    return "new" in words


RULE = "- Name at most two labels."


@pytest.mark.parametrize("name", TEXTS)
def test_a_rule_finds_the_places_that_were_written_down(name: str):
    text = PromptText.from_contents(TEXTS[name])
    lines = [f"fault: {diagnostic}" for diagnostic in text_warnings(text)]
    for home in rule_places(text):
        lines.append(f"under {home.heading!r}, about {' '.join(sorted(home.words))}")
        for place in (home, *steps_for(text, home, RULE)):
            made = with_rule(text, place, RULE)
            said = "" if find_rule(made, RULE) else ", not said"
            lines.append(f"    {place.side}: {difference(text.full_text, made.full_text)}{said}")
    assert not find_rule(text, RULE)
    assert_as_written("\n".join([*lines, ""]), f"edits/{name} places")


@pytest.mark.parametrize("name", OTHERS)
def test_what_lies_between_two_texts_is_as_it_was_written_down(name: str):
    old, other = PromptText.from_contents(ZOO), PromptText.from_contents(OTHERS[name])
    lines: list[str] = []
    for before, after in ((old, other), (other, old)):
        lines += [
            f"block: {[op_to_json(op) for op in block]}" for block in blocks_between(before, after)
        ]
        lines += [
            f"words lost: {count_lost_words(before, after)}",
            f"statements lost: {[text for texts in lost_statements(before, after) for text in texts]}",
            f"new: {[*new_statements(before, after, known)]}",
            f"lines: {changed_lines(before, after)}",
            f"statements: {changed_statements(before, after)}",
            f"places: {changed_places(before, after)}",
            f"units: {len(units_of(before, after))}",
            f"kept: {difference(before.full_text, without_losses(before, after).full_text)}",
            *(
                f"part: {difference(before.full_text, part.full_text)}"
                for part in parts_of(before, after)
            ),
        ]
    assert_as_written("\n".join([*lines, ""]), f"edits/{name} between")
