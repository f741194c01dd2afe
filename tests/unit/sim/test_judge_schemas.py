"""Values that the simulated judge takes for its response: those that the schema allows.

Fields without a schema are left out: the judge takes none with a value.
"""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from regauge.sim._judge import Schema, _is_allowed, choose_verdict, scale_score

VALUES: list[Any] = [
    None, True, 0, 3, 1.5, "", "yes", [], ["yes"], ["yes", 3], [["yes"]], {}, {"a": 1}, {"a": "x"},
    {"a": 1, "b": "yes"}, {"a": 1, "b": 2}, {"b": "yes"}, {"a": [{"b": "yes"}]}, {"a": [{"b": 1}]},
]  # fmt: skip
FIELDS = {"a": {"type": "integer"}}
STRICT = {"type": "object", "properties": FIELDS, "required": ["a"], "additionalProperties": False}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": "number"},
    {"type": ["string", "null"]},
    {"enum": ["yes", 3]},
    {"const": "yes"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "array", "items": {"enum": ["yes"]}}},
    {"type": "object", "properties": FIELDS, "additionalProperties": False},
    STRICT,
    {"type": "object", "properties": FIELDS, "additionalProperties": {"type": "string"}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "string"}, STRICT]},
    {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/B"}}},
        "required": ["a"],
        "$defs": {"B": {"type": "object", "properties": {"b": {"const": "yes"}}}},
    },
]


@pytest.mark.parametrize("document", SCHEMAS, ids=str)
def test_a_value_is_taken_where_the_schema_allows_it(document: dict[str, Any]):
    validator = Draft202012Validator(document)
    taken = [value for value in VALUES if _is_allowed(value, Schema(document, document), 0)]
    assert taken == [value for value in VALUES if validator.is_valid(value)]
    assert 0 < len(taken) < len(VALUES)


SCORES = (0, 0.24, 0.5, 0.76, 1)
NUMBER = {"type": "number"}
NAMED = {"enum": ["idk", "no", "yes"]}


@pytest.mark.parametrize(
    ("document", "text", "verdicts"),
    [
        ({"type": "boolean"}, "", [False, False, True, True, True]),
        ({"enum": ["yes", "no"]}, "", ["no", "no", "yes", "yes", "yes"]),
        (NAMED, "", ["no", "no", "idk", "yes", "yes"]),
        ({"enum": ["A", "B", "C"]}, "", ["C", "C", "B", "A", "A"]),
        (NUMBER, "", [0, 0.24, 0.5, 0.76, 1]),
        (NUMBER | {"minimum": 1, "maximum": 5}, "", [1, 1.96, 3, 4.04, 5]),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "", [1, 2, 3, 4, 5]),
        ({"type": "string"}, "", ["no", "no", "yes", "yes", "yes"]),
        ({"type": "string"}, "Options: good / bad.", ["bad.", "bad.", "good", "good", "good"]),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "", [False, False, True, True, True]),
    ],
)
def test_a_verdict_is_the_nearest_to_the_score_in_the_type_of_its_field(
    document: dict[str, Any], text: str, verdicts: list[Any]
):
    schema = Schema(document, document)
    assert [choose_verdict(schema, score, text) for score in SCORES] == verdicts


@pytest.mark.parametrize(
    ("document", "text", "scores"),
    [
        (NUMBER, "", [0, 0.24, 0.5, 0.76, 1]),
        (NUMBER, "from 0 to 10", [0, 2.4, 5, 7.6, 10]),
        (NUMBER, "an integer from 0 to 10", [0, 2, 5, 8, 10]),
        (NUMBER, "between 5 and 5", [0, 0.24, 0.5, 0.76, 1]),
        (NUMBER, "0-10", [0, 2.4, 5, 7.6, 10]),
        (NUMBER | {"minimum": 1, "maximum": 5}, "from 0 to 10", [1, 1.96, 3, 4.04, 5]),
        ({"enum": [1, 3, 5]}, "", [1, 1, 3, 5, 5]),
        (NUMBER, "STRICTLY EITHER 1 or 0", [0, 0, 0, 1, 1]),
    ],
)
def test_a_score_is_on_the_scale_of_the_schema_or_of_the_prompt(
    document: dict[str, Any], text: str, scores: list[float]
):
    schema = Schema(document, document)
    assert [scale_score(schema, score, text) for score in SCORES] == pytest.approx(scores)
