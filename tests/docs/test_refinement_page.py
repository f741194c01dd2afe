"""What the page on the refinement loop names is there: events, options, commands, tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from regauge.cli.refine import command
from regauge.refine.loop._state import NoteEvent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/refinement.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").split("## How a leak")[0].splitlines()
    if line.startswith("| ") and not line.startswith(("| mechanism", "| ---"))
]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(
        r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
}
OPTIONS = {
    option for parameter in command.commands[""].params for option in parameter.opts
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_mechanism_names_what_is_there(row):
    _, where, test = row
    assert test.strip("`") in TESTS
    for name in re.findall(r"`([^`]+)`", where):
        words = name.split()
        if words[:2] == ["regauge", "refine"]:
            assert words[2] in command.commands
        else:
            assert name in OPTIONS or name in get_args(NoteEvent), name


def test_every_event_of_a_trail_is_explained():
    shown = {name for _, where, _ in ROWS for name in re.findall(r"`([^`]+)`", where)}
    assert set(get_args(NoteEvent)) - shown <= {"accepted", "suite-unmeasured"}
    assert len(ROWS) > 50
