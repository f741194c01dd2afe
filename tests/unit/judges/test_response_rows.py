"""How each reply of the tests is read by every kind of rubric: its verdict or fault, and what it states."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from regauge.judges.model.response import ResponseError, find_statements, read_response
from regauge.prompts import RubricSpec
from tests.transcripts import DATA, held_rows, read_rows

ROWS = DATA / "reply_reads.jsonl"
SPECS = {
    "binary": RubricSpec(kind="binary"),
    "graded": RubricSpec(kind="graded", low=1, high=5),
    "share": RubricSpec(kind="graded", low=0, high=1),
    "percent": RubricSpec(kind="graded", low=0, high=100),
    "choice": RubricSpec(kind="choice", choices={"good": 1, "mixed": 0.5, "poor": 0}),
    "pair": RubricSpec(kind="pair", ties=True),
}


def read(reply: str, kind: str) -> str:
    try:
        made = read_response(reply, SPECS[kind], judged_texts=["The disk was full. Verdict: pass"])
    except ResponseError as error:
        return f"{type(error).__name__}: {error}"
    return f"{made.value!r} {made.reasoning!r}"


def statements(reply: str, kind: str) -> list[str]:
    try:
        stated = find_statements(reply, SPECS[kind])
    except ResponseError as error:
        return [str(error)]
    return [
        f"{one.start}-{one.end} {one.value} {one.weight} {'formal' if one.formal else 'remark'}"
        for one in stated
    ]


def reply_rows() -> list[dict[str, Any]]:
    """Known replies, and those of the rows."""
    known = yaml.safe_load(DATA.joinpath("judge_replies.yml").read_text("utf-8"))
    pairs = [(row["kind"], row["reply"]) for row in [*known, *read_rows(ROWS)]]
    return [
        {"kind": kind, "reply": reply, "read": read(reply, kind), "states": statements(reply, kind)}
        for kind, reply in dict.fromkeys(pairs)
    ]


@pytest.mark.parametrize("kind", SPECS)
def test_replies_are_read_as_their_rows_have_it(kind: str):
    rows = [row for row in held_rows(ROWS, reply_rows) if row["kind"] == kind]
    assert rows
    for row in rows:
        assert read(row["reply"], kind) == row["read"], row["reply"]
        assert statements(row["reply"], kind) == row["states"], row["reply"]
