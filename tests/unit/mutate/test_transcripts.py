"""Every mutant of prompts of many layouts: what it changes, where, and what it is called."""

from __future__ import annotations

import pytest

from regauge.mutate import choose_operators, mutants_of
from tests.transcripts import assert_as_written
from tests.unit.mutate.test_operators import prompt
from tests.unit.statements.texts import TEXTS, difference


@pytest.mark.parametrize("name", TEXTS)
def test_the_mutants_of_a_prompt_are_those_that_were_written_down(name: str):
    of = prompt(TEXTS[name])
    lines: list[str] = []
    for one in mutants_of(of, choose_operators("all")):
        place = one.place
        lines.append(
            f"{one.id} {place.part} {place.start}-{place.end} line {place.line}"
            f" {'' if one.scored else 'unscored '}{one.section!r} {one.text!r}"
        )
        for before, after in zip(of.messages, one.prompt.messages, strict=False):
            if before != after:
                lines.append(f"    {difference(before.content, after.content)}")
    assert_as_written("\n".join([*lines, ""]), f"mutants/{name}")
