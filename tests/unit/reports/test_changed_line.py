"""The line that a decision names for a changed prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from regauge.prompts import parse_prompt
from regauge.reports.decisions import changed_line

SOURCE = """\
name: greet
description: Greets.
version: 1.0.0
messages:
  - role: system
    content: |
      Be kind.
      Be brief.
      Use names.
  - role: user
    content: Hello
"""
LINES = SOURCE.splitlines(keepends=True)


def line_between(before: list[str], after: list[str]) -> int:
    base, head = (
        parse_prompt("".join(lines), path=Path("a.prompt.yml")) for lines in (before, after)
    )
    return changed_line(head, base)


@pytest.mark.parametrize("number", [7, 8, 9, 11])
def test_a_reworded_line_of_the_messages_is_named(number: int):
    reworded = LINES[number - 1].rstrip("\n") + "!\n"
    after = [*LINES[: number - 1], reworded, *LINES[number:]]
    assert line_between(LINES, after) == number


@pytest.mark.parametrize("number", [7, 8, 9])
def test_a_new_line_is_named_and_for_a_removed_one_the_line_at_its_place(number: int):
    longer = [*LINES[: number - 1], "      Be new.\n", *LINES[number - 1 :]]
    assert line_between(LINES, longer) == number
    shorter = [*LINES[: number - 1], *LINES[number:]]
    assert line_between(LINES, shorter) == number


def test_messages_come_before_other_keys_and_these_count_alone():
    described = [LINES[0], "description: Says hello.\n", *LINES[2:]]
    assert line_between(LINES, described) == 2
    both = [*described[:7], "      Be very brief.\n", *described[8:]]
    assert line_between(LINES, both) == 8
    assert line_between(LINES, LINES) == 1
