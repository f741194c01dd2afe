"""The parts of the deepeval adapter that need no deepeval: schemas, fields, fingerprints."""

from __future__ import annotations

import json
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, create_model

from regauge.errors import JudgeError, UsageError
from regauge.judges._deepeval import FIELDS, Fields
from regauge.judges._deepeval._judge import (
    SETTINGS,
    _fix_settings,
    fingerprint,
    installed_version,
    metric_name,
    templates_digest,
)
from regauge.judges._deepeval._requests import (
    _fence_value,
    read_grade,
    read_response,
    response_format,
)
from regauge.judges.model.response import ResponseError
from regauge.providers import Completion
from tests.unit.judges.deepeval_responses import case, completion, instance

TYPES = st.sampled_from([str, int, float, bool, list[str], str | None])
NAMES = st.sampled_from(["title", "default", "properties", "type", "verdict", "reason", "score"])


@st.composite
def models(draw: Any, depth: int = 2) -> type[BaseModel]:
    """Schemas of replies, with nested models, defaults, and fields named like keywords."""
    fields: dict[str, Any] = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        kind = draw(TYPES)
        if depth and draw(st.booleans()):
            kind = list[draw(models(depth=depth - 1))]  # type: ignore[misc]  # made right here
        fields[name] = (kind, Field(default=None)) if draw(st.booleans()) else (kind, ...)
    return create_model(f"Made{draw(st.integers(0, 10**9))}", **fields)


def objects_of(node: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a schema."""
    found = []
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("type") == "object":
            found.append(node)
            for part in node["properties"].values():
                found += objects_of(part)
            for part in node.get("$defs", {}).values():
                found += objects_of(part)
        else:
            for part in node.values():
                found += objects_of(part)
    elif isinstance(node, list):
        for part in node:
            found += objects_of(part)
    return found


@given(models())
def test_every_object_of_a_strict_schema_wants_all_its_keys_and_no_others(model: Any):
    form: Any = response_format("Reply", model.model_json_schema())
    assert form["json_schema"]["strict"] is True
    schema = form["json_schema"]["schema"]
    objects = objects_of(schema)
    assert objects
    for one in objects:
        assert one["required"] == list(one["properties"])
        assert one["additionalProperties"] is False
    assert set(schema["properties"]) == set(model.model_fields)
    model.model_validate(instance(schema))


@pytest.mark.parametrize(
    ("node", "strict"),
    [
        ({"properties": {"a": {"type": "string"}}}, True),
        ({"properties": {"a": {"type": "string"}}, "additionalProperties": False}, True),
        ({"properties": {"a": {"type": "string"}}, "additionalProperties": True}, False),
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "null"}},
            False,
        ),
        ({}, False),
        ({"properties": {}}, False),
    ],
)
def test_a_schema_is_strict_unless_an_object_has_free_keys(node: dict[str, Any], *, strict: bool):
    schema = {"type": "object", "properties": {"inner": {"type": "object"} | node}}
    form: Any = response_format("Reply", schema)
    assert form["json_schema"]["strict"] is strict


def test_free_keys_cannot_be_strict():
    class Knowledge(BaseModel):
        data: dict[str, str]

    schema = Knowledge.model_json_schema()
    form: Any = response_format("Knowledge", schema)
    assert form["json_schema"] == {"name": "Knowledge", "strict": False, "schema": schema}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=10,
)


@given(VALUES)
def test_any_plain_value_has_a_fingerprint_that_json_can_hold(value: Any):
    made = fingerprint(value)
    assert json.dumps(made, allow_nan=False)
    assert made == fingerprint(value)


class Colour(Enum):
    RED = "red"


class Thing:
    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


def enclosing(value: str) -> Any:
    return lambda: value


def test_what_judges_differently_has_another_fingerprint():
    loop: list[Any] = []
    loop.append(loop)
    shared = Thing(a=1)
    values = [
        Colour.RED,
        Thing(a=1),
        Thing(a=2),
        Thing(a=Thing(a=1)),
        [shared, shared],
        [Thing(a=1), Thing(a=1)],
        {1: "x"},
        {"1": "x"},
        {1: "x", "2": "y"},
        {"1": "x", "2": "y"},
        {"a", "b"},
        loop,
        float("nan"),
        *(lambda: 1, lambda: 2),  # on one line, so their source is one
        *[lambda n=n: n for n in (1, 2)][:1],
        enclosing("a"),
        enclosing("b"),
        Thing,
    ]
    made = [json.dumps(fingerprint(value), sort_keys=True) for value in values]
    assert len(set(made)) == len(made)


def test_what_a_measurement_leaves_behind_is_not_in_it():
    one = Thing(criteria="x", threshold=0.5, score=None, reason=None, model=None, _cache=1)
    other = Thing(criteria="x", threshold=0.9, score=0.4, reason="so", model=object(), _cache=2)
    assert fingerprint(one) == fingerprint(other)


def test_fields_are_looked_up_where_the_case_names_them():
    fields = Fields.read(None, judge="j")
    given_case = case(
        {"expected_outcome": "done", "context": "one"}, report="the report", chatbot_role="clerk"
    )
    found = fields.values(completion("the answer"), given_case)
    assert found == {
        "input": "the report",
        "actual_output": "the answer",
        "expected_output": '{"context":"one","expected_outcome":"done"}',
        "context": ["one"],
        "expected_outcome": "done",
        "chatbot_role": "clerk",
        "against": '{"context":"one","expected_outcome":"done"}',
    }


def test_declared_paths_go_first_and_reach_into_the_answer():
    fields = Fields.read(
        {
            "retrieval_context": ["inputs.report", "inputs.alerts"],
            "actual_output": "answer.summary",
            "expected_output": "expected.summary",
        },
        judge="j",
    )
    found = fields.values(
        completion({"summary": "short", "cause": "disk"}),
        case({"summary": "brief"}, report="r", alerts=["a", 1], question="why?"),
    )
    assert found["retrieval_context"] == ["r", '["a",1]']
    assert (found["actual_output"], found["expected_output"]) == ("short", "brief")
    assert found["input"] == "why?", "what other fields take is no question"


@given(st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=20), max_size=3))
def test_fields_are_read_or_refused_with_a_reason(declared: dict[str, str]):
    try:
        fields = Fields.read(declared, judge="j")
    except UsageError as error:
        assert str(error)  # noqa: PT017 - either may happen
    else:
        assert fields.to_json() == {name: [path] for name, path in declared.items()}
        assert all(
            path.split(".")[0].split("[")[0] in {"inputs", "expected", "answer"}
            for path in declared.values()
        )


def test_the_installed_deepeval_is_known_without_it():
    import sys

    before = "deepeval" in sys.modules
    assert installed_version().startswith("4.")
    assert len(templates_digest()) == 64
    assert metric_name("Faithfulness") == "FaithfulnessMetric"
    assert metric_name("GEval") == "GEval"
    with pytest.raises(UsageError, match="no metric 'BaseMetric'"):
        metric_name("BaseMetric")
    assert ("deepeval" in sys.modules) == before


def settings_module() -> Any:
    """deepeval's module of settings, as far as regauge changes it."""
    module: Any = ModuleType("settings")
    module.Settings = type("Settings", (), {"model_fields": dict.fromkeys(SETTINGS)})
    module.autoload_dotenv = module._merge_legacy_keyfile_into_env = print
    module._calc_env_fingerprint = module.get_settings = print
    module._settings_singleton = "read from the environment"
    return module


def test_the_settings_of_deepeval_read_neither_files_nor_the_environment():
    module = settings_module()
    _fix_settings(module)
    assert module.autoload_dotenv() is module._merge_legacy_keyfile_into_env() is None
    assert module._calc_env_fingerprint() == "regauge"
    assert module._settings_singleton is None
    assert module._regauge_settled


@pytest.mark.parametrize(
    "name",
    [
        "Settings",
        "autoload_dotenv",
        "_merge_legacy_keyfile_into_env",
        "_calc_env_fingerprint",
        "_settings_singleton",
        "get_settings",
        "Settings.model_fields",
        *SETTINGS,
    ],
)
def test_a_part_of_the_settings_that_moved_is_named(name: str):
    module = settings_module()
    if name in SETTINGS:
        del module.Settings.model_fields[name]
    elif name == "Settings.model_fields":
        del module.Settings.model_fields
    else:
        delattr(module, name)
    with pytest.raises(
        JudgeError, match=rf"has moved or changed '.*\b{name.rsplit('.', maxsplit=1)[-1]}'"
    ):
        _fix_settings(module)


def test_metrics_of_conversations_tools_and_retrieval_get_them_from_the_completion():
    messages: tuple[Any, ...] = (
        {"role": "user", "content": "Where is 7?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": '{"id": 7}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "sent"},
        {"role": "assistant", "content": "It is sent."},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "You are welcome."},
    )
    whole = Completion(text="You are welcome.", messages=messages, context=("a page",))
    values = Fields.read(None, judge="j").values(whole, case(question="Thanks?"))
    assert values["input"] == "Thanks?"
    assert values["retrieval_context"] == ["a page"]
    assert values["turns"] == [
        {"role": "user", "content": "Where is 7?"},
        {
            "role": "assistant",
            "content": "It is sent.",
            "tools_called": [{"name": "look", "input_parameters": {"id": 7}}],
        },
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "You are welcome."},
    ]


class Grade(BaseModel):
    verdict: str
    score: float = 0.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"verdict": "Yes."}', ""),
        ('{"verdict": "yes", "score": 1e999}', "a number of the response is not finite"),
        ('{"score": 1}', "the response does not fit: verdict: "),
        ("[1]", "the response does not fit: "),
    ],
)
def test_a_response_fits_the_schema_of_its_metric(text: str, why: str):
    if not why:
        assert read_response(completion(text), Grade) == Grade(verdict="Yes.")
        return
    with pytest.raises(ResponseError, match=why):
        read_response(completion(text), Grade)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"score": 1, "reason": "good"}', ""),
        ('{"score": 1}', "the response has no reason"),
        ('{"score": true, "reason": "good"}', "the score is True"),
        ("[]", "the response has no reason"),
    ],
)
def test_a_grade_has_a_score_and_a_reason(text: str, why: str):
    if not why:
        assert read_grade(completion(text)).text == text
        return
    with pytest.raises(ResponseError, match=why):
        read_grade(completion(text))


def test_the_parts_of_an_object_are_fenced_however_a_template_reads_them():
    value = _fence_value("tool", {"name": "search the web", "count": 3}, "0123456789ab", {})
    assert "search the web" in str(value["name"])
    assert str(value["name"]) != "search the web"
    assert (value["count"], len(value)) == (3, 2)
    (first, _) = value
    assert str(first) != "name"


FIELDS = {"output": "The disk is full.", "input": "disk", "blank": "  "}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The disk is full.", ["", "output", ""]),
        ("Actual Output:\nThe disk is full.\n", ["Actual Output:\n", "output", "\n"]),
        (
            "Input:\ndisk\n\nActual Output:\nThe disk is full.",
            ["Input:\n", "input", "\n\nActual Output:\n", "output", ""],
        ),
        # Text that is no heading might be somebody's, so all of it is fenced as one.
        ("Input:\ndisk\nand more", None),
        ("Input:\ndisk and\nActual Output:\nThe disk is full.", None),
        ("look: disk", None),
        ("Nothing of it.", None),
    ],
)
@pytest.mark.parametrize("name", ["text", "test_case_content", "claims"])
def test_the_fields_of_a_text_are_fenced_below_their_headings(
    text: str, parts: list[str] | None, name: str
):
    nonce = "0123456789ab"

    def fence(field: str, value: str) -> str:
        return f"<field.{field}-{nonce}>\n{value}\n</field.{field}-{nonce}>"

    fenced = _fence_value(name, text, nonce, FIELDS)
    if parts is None or name == "claims":
        assert fenced == fence(name, text)
    else:
        assert fenced == "".join(
            fence(part, FIELDS[part]) if part in FIELDS else part for part in parts
        )
    assert _fence_value(name, text, nonce, {}) == fence(name, text)
