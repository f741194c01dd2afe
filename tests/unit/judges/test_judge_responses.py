"""Replies whose meaning is known: none is read as another verdict, and plain ones are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from regauge.errors import JudgeError
from regauge.judges import rubric
from regauge.judges.model.response import ResponseError, read_response
from regauge.prompts import RubricSpec
from tests.unit.judges.asked import GRADED, Asked, case, completion, context, verdict_reply

DATA = Path(__file__).parents[2] / "data" / "judge_replies.yml"
ROWS: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
SPECS = {
    "binary": RubricSpec(kind="binary"),
    "graded": RubricSpec(kind="graded", low=1, high=5),
    "choice": RubricSpec(kind="choice", choices={"good": 1, "mixed": 0.5, "poor": 0}),
    "pair": RubricSpec(kind="pair", ties=True),
}
TWO_VERDICTS = "Score: 1\nScore: 5"


def read(reply: str, kind: str) -> float | str | None:
    try:
        return read_response(reply, SPECS[kind]).value
    except ResponseError:
        return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}-{row['reply'][:40]}")
def test_a_reply_is_read_as_what_the_judge_decided_or_not_at_all(row: dict[str, Any]):
    value = read(row["reply"], row["kind"])
    if value is None:
        assert row["read"] == "may", "this reply states its verdict plainly"
    else:
        assert value == row["means"]


def test_every_kind_of_rubric_is_tried():
    assert len(ROWS) >= 170
    for kind in SPECS:
        assert sum(row["kind"] == kind for row in ROWS) >= 10


@given(
    st.sampled_from([1, 2, 3, 4, 5]),
    st.sampled_from([1, 2, 3, 4, 5]),
    st.sampled_from(["\n", "\n\n", ". ", "; ", " - "]),
)
def test_two_scores_are_a_verdict_only_where_they_are_one(one: int, other: int, between: str):
    value = read(f"Score: {one}{between}Score: {other}", "graded")
    assert value in ({one, None} if one == other else {None})
    assert read(f"Score: {one}\n\nFinal score: {other}", "graded") == other


@pytest.mark.asyncio
async def test_two_verdicts_are_asked_for_once_more_and_the_request_says_why(tmp_path: Path):
    replies = [TWO_VERDICTS, verdict_reply(score=4)]
    asked = Asked(lambda _: replies.pop(0))
    judge = rubric("tone").bind(context(tmp_path, tone=GRADED))
    verdict = await judge.judge_with(completion("The disk was full."), case(), asked)
    assert verdict.score == 0.75
    assert "more than one verdict" in asked.requests[1].messages[-1].content


@pytest.mark.asyncio
async def test_a_judge_that_states_two_verdicts_twice_leaves_the_trial_unmeasured(tmp_path: Path):
    asked = Asked(lambda _: TWO_VERDICTS)
    judge = rubric("tone").bind(context(tmp_path, tone=GRADED))
    with pytest.raises(JudgeError, match="asked twice: the response states more than one verdict"):
        await judge.judge_with(completion("The disk was full."), case(), asked)
    assert len(asked.requests) == 2
