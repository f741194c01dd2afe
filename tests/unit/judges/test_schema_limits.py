"""Schemas and patterns that users bring end in a verdict or an error, and soon."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from regauge.errors import JudgeError, UsageError
from regauge.judges import contains_json, deepeval, json_matches_schema
from tests.unit.judges.deepeval_responses import Calls, judge

LIMIT = "regauge.judges.rules._schema._LIMIT_S"
LONG = "a" * 5_000
NAMES = {f"{'a' * 60}!": 1}
SLOW = "^(a|aa)+$"


NEVER: dict[str, Any] = {"not": {}}


def exploding(keyword: str, last: Any) -> dict[str, Any]:
    """A small schema whose references multiply: 8 to the ninth."""
    steps = {f"n{i}": {keyword: [{"$ref": f"#/$defs/n{i + 1}"}] * 8} for i in range(9)}
    return {"$ref": "#/$defs/n0", "$defs": {**steps, "n9": last}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "(x+x+)+y"}, "x" * 5_000),
        ({"propertyNames": {"pattern": SLOW}}, NAMES),
        ({"patternProperties": {SLOW: {}}}, NAMES),
        ({"additionalProperties": False, "patternProperties": {SLOW: {}}}, NAMES),
        ({"unevaluatedProperties": False, "allOf": [{"patternProperties": {SLOW: {}}}]}, NAMES),
        ({"not": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}, LONG),
        (exploding("allOf", {}), 1),
        (exploding("anyOf", NEVER), 1),
        (exploding("oneOf", NEVER), 1),
    ],
)
def test_a_schema_that_takes_too_long_is_no_verdict(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LIMIT, 0.1)
    with pytest.raises(JudgeError, match="took more than"):
        json_matches_schema(schema).check_text(json.dumps(value))


def test_a_schema_of_an_object_in_prose_has_the_same_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LIMIT, 0.1)
    with pytest.raises(JudgeError, match=r"took more than 0\.1 s"):
        contains_json(schema=exploding("allOf", {})).check_text("Here it is: {}")


def test_a_long_list_of_objects_is_compared_in_no_time():
    rows = [{"a": i} for i in range(20_000)]
    unique = json_matches_schema({"uniqueItems": True})
    assert unique.check_text(json.dumps(rows)).outcome == "pass"
    assert unique.check_text(json.dumps([*rows, {"a": 7.0}])).outcome == "fail"
    assert unique.check_text("[1, true, 0, false, null, [1], [true]]").outcome == "pass"


def test_a_pattern_of_deepeval_is_stopped_too():
    with pytest.raises(JudgeError, match="took more than 1 s"):
        judge(deepeval("PatternMatch", pattern=SLOW), Calls(), answer=next(iter(NAMES)))


def test_a_schema_that_is_nested_too_deeply_is_refused(tmp_path: Any):
    path = tmp_path / "deep.json"
    path.write_text('{"not":' * 200_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        json_matches_schema(path)
    schema: Any = {}
    for _ in range(5_000):
        schema = {"not": schema}
    with pytest.raises(UsageError):
        json_matches_schema(schema)


NAME = st.sampled_from(["a", "ab", "b", "c1"])
PATTERN = st.sampled_from(["^a", "b$", "[0-9]", "^a$"])
LEAF = st.sampled_from(
    [True, False, {"type": "integer"}, {"type": "string"}, {"pattern": "^a"}, {"minimum": 1}]
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(NAME, inner, max_size=2),
        "patternProperties": st.dictionaries(PATTERN, inner, max_size=2),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "dependentSchemas": st.dictionaries(NAME, inner, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "if": inner,
        "then": inner,
        "else": inner,
        "uniqueItems": st.booleans(),
    }
    return st.fixed_dictionaries({}, optional=parts)


SCHEMAS = st.recursive(LEAF, grown, max_leaves=8)
SCALARS = st.sampled_from([0, 1, 1.0, True, False, None, "a", "xb"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAME, inner, max_size=3)),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_limits_change_no_verdict(schema: Any, value: Any):
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    given_schema = schema if isinstance(schema, dict) else {"allOf": [schema]}
    verdict = json_matches_schema(given_schema).check_text(json.dumps(value))
    assert (verdict.outcome == "pass") == expected
