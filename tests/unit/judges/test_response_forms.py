"""What a model is told of the form of its response, by kind of rubric."""

from __future__ import annotations

import pytest

from regauge.judges.model.requests import response_form
from regauge.prompts import RubricSpec


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (RubricSpec(kind="binary"), '- "verdict": "pass" or "fail".'),
        (
            RubricSpec(kind="graded", low=1, high=5),
            '- "score": a whole number from 1 (worst) to 5 (best).',
        ),
        (
            RubricSpec(kind="choice", choices={"schön": 1, "mixed": 0.5, "poor": 0}),
            '- "choice": "schön", "mixed" or "poor".',
        ),
        (
            RubricSpec(kind="pair"),
            '- "winner": "first" or "second", the one that is better.',
        ),
        (
            RubricSpec(kind="pair", ties=True),
            '- "winner": "first", "second" or "tie", the one that is better; "tie" only where neither is.',
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, RubricSpec) else "",
)
def test_the_form_of_a_response_is_stated(spec: RubricSpec, line: str):
    lines = response_form(spec).splitlines()
    assert lines[0] == "Reply with one JSON object and nothing else. Its keys, in this order:"
    assert lines[1].startswith('- "reasoning": ')
    assert lines[2:] == [line]
