"""Several criteria in one response: every score is read, or there is no verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.judges.model._rubric import read_several, several_format
from regauge.judges.model.response import ResponseError
from regauge.prompts import RubricSpec
from tests.unit.judges.asked import completion

SPEC = RubricSpec(kind="graded", low=1, high=5, pass_at=0.75)
CRITERIA = ("is polite", "is brief", "names a time")


def reply(scores: list[Any], **more: Any) -> str:
    rows = [
        {"number": place, "reasoning": f"r{place}", "score": score, **more}
        for place, score in enumerate(scores, start=1)
    ]
    return json.dumps({"verdicts": rows})


@given(st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_the_lowest_score_is_the_verdict_and_every_part_is_kept(scores: list[int]):
    read = read_several(completion(reply(scores)), SPEC, CRITERIA)
    assert read.value == min(scores)
    assert [part.value for part in read.parts] == scores
    assert [part.criterion for part in read.parts] == list(CRITERIA)
    assert read.score == min(part.score for part in read.parts)


@pytest.mark.parametrize(
    "text",
    [
        reply([1, 2]),
        reply([1, 2, 3, 4]),
        reply([1, 2, 6]),
        reply([1, 2, None]),
        reply([1, 2, True]),
        reply([1, 2, 3], number=1),
        reply([1, 2, 3], reasoning=None),
        json.dumps({"verdicts": {"1": 3}}),
        json.dumps({"verdicts": [1, 2, 3]}),
        json.dumps({"score": 3, "reasoning": "all of them"}),
        "All pass.",
    ],
)
def test_a_response_without_a_score_for_each_is_no_verdict(text: str):
    with pytest.raises(ResponseError):
        read_several(completion(text), SPEC, CRITERIA)


def test_the_schema_asks_for_one_verdict_each():
    schema: Any = several_format(SPEC, 3)["json_schema"]
    verdicts = schema["schema"]["properties"]["verdicts"]
    assert (verdicts["minItems"], verdicts["maxItems"]) == (3, 3)
    assert verdicts["items"]["properties"]["score"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}
