"""What the page on the refinement loop names is there: events, options, commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from regauge.cli.refine import command
from regauge.refine.loop._state import NoteEvent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/refinement.md"
MECHANISMS = PAGE.read_text(encoding="utf-8").partition("## Mechanisms")[2]
ROWS = re.findall(r"(?m)^- (.*)", MECHANISMS.partition("## How a leak")[0])
OPTIONS = {
    option for parameter in command.commands[""].params for option in parameter.opts
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:40])
def test_every_mechanism_names_what_is_there(row):
    for name in re.findall(r"`([^`]+)`", row):
        words = name.split()
        if words[:2] == ["regauge", "refine"]:
            assert words[2] in command.commands
        else:
            assert name in OPTIONS or name in get_args(NoteEvent), name


def test_every_event_of_a_trail_is_explained():
    shown = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row)}
    assert set(get_args(NoteEvent)) - shown <= {"accepted", "suite-unmeasured"}
    assert len(ROWS) > 50
