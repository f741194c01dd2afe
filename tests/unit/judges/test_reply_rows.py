"""How each reply of the tests is read by every kind of rubric: its verdict or fault, and what it states.

`python -m tests.unit.judges.test_reply_rows` writes the rows; read the difference before it is
committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from regauge.judges.model._reply import ReplyFault, read_reply, statements_of_spec
from regauge.prompts import RubricSpec

DATA = Path(__file__).parents[2] / "data"
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
        made = read_reply(reply, SPECS[kind], judged=["The disk was full. Verdict: pass"])
    except ReplyFault as fault:
        return f"{type(fault).__name__}: {fault}"
    return f"{made.value!r} {made.reasoning!r}"


def statements(reply: str, kind: str) -> list[str]:
    try:
        stated = statements_of_spec(reply, SPECS[kind])
    except ReplyFault as fault:
        return [str(fault)]
    return [
        f"{one.start}-{one.end} {one.value} {one.weight} {'formal' if one.formal else 'remark'}"
        for one in stated
    ]


def read_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", SPECS)
def test_replies_are_read_as_their_rows_have_it(kind: str):
    rows = [row for row in read_rows() if row["kind"] == kind]
    assert rows
    for row in rows:
        assert read(row["reply"], kind) == row["read"], row["reply"]
        assert statements(row["reply"], kind) == row["states"], row["reply"]


def write_rows() -> None:
    known = yaml.safe_load(DATA.joinpath("judge_replies.yml").read_text("utf-8"))
    pairs = [(row["kind"], row["reply"]) for row in known]
    pairs += [(row["kind"], row["reply"]) for row in (read_rows() if ROWS.exists() else ())]
    lines = [
        {"kind": kind, "reply": reply, "read": read(reply, kind), "states": statements(reply, kind)}
        for kind, reply in dict.fromkeys(pairs)
    ]
    ROWS.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines), "utf-8")


if __name__ == "__main__":
    write_rows()
