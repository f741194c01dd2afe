"""Schemas of dotprompt and scores of OpenAI's Evals, as they are converted."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.importers.dotprompt import _schema
from regauge.importers.openai_evals._registry import _scores


def test_other_keys_may_be_declared_before_named_ones():
    schema = _schema({"(*)": "number", "name": "string, the owner", "size?": "integer"})
    assert schema["additionalProperties"] == {"type": "number"}
    assert schema["properties"]["name"] == {"type": "string", "description": "the owner"}
    assert schema["required"] == ["name"]


@pytest.mark.parametrize(
    ("spec", "scores"),
    [
        ({"choice_scores": {"good": 1, "bad": -1}}, {"good": 1.0, "bad": 0.0}),
        ({"choice_scores": {"good": 3, "fair": 1.5}}, {"good": 1.0, "fair": 0.5}),
        ({"choice_strings": ["0", "4"], "choice_scores": "from_strings"}, {"0": 0.0, "4": 1.0}),
        ({"choice_scores": {"good": "much"}}, "its choices have scores that are not numbers"),
    ],
)
def test_scores_of_choices_are_spread_from_0_to_1(spec: dict[str, Any], scores: object):
    assert _scores(spec) == scores
