"""Model calls in spans of every convention, and the cases that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regauge.errors import UsageError
from regauge.maintenance.spans import SpanCall, candidate_cases, read_spans, write_candidates
from regauge.project import Settings
from regauge.prompts import parse_prompt

PROMPT = parse_prompt(
    "version: 1.0.0\nmessages:\n  - role: system\n    content: 'Sort {{kind}}.'\n"
    "  - role: user\n    content: 'Text: {{text}}'\n",
    path=Path("sort.prompt.yml"),
)
ONE_INPUT = parse_prompt(
    "version: 1.0.0\nmessages:\n  - role: user\n    content: 'Text: {{text}}'\n",
    path=Path("sort.prompt.yml"),
)


def typed(value: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    match value:
        case list():
            return {"arrayValue": {"values": [typed(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}
        case _:
            return {"stringValue": value}


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": typed(value)} for key, value in values.items()]


def read(tmp_path: Path, *documents: object) -> list[tuple[tuple[tuple[str, str], ...], str, str]]:
    path = tmp_path / "spans.json"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    return [(call.messages, call.output, call.model) for call in read_spans(path)]


SENT = [{"role": "user", "content": "Hello"}]
PARTS = [{"role": "user", "parts": [{"type": "text", "content": "Hello"}, {"text": "you"}]}]
GOT = [{"role": "assistant", "parts": [{"content": "Hi"}]}]
HELLO = (("user", "Hello"),)
SPANS: list[tuple[dict[str, Any], object]] = [
    ({"attributes": {}}, None),
    ({"attributes": {"gen_ai.input.messages": [{"role": "system", "content": "x"}]}}, None),
    ({"attributes": {"gen_ai.input.messages": SENT}}, (HELLO, "", "")),
    ({"attributes": [{"key": "gen_ai.input.messages", "value": SENT}]}, (HELLO, "", "")),
    (
        {"attributes": {"gen_ai.input.messages": SENT, "gen_ai.response.model": "m-2"}},
        (HELLO, "", "m-2"),
    ),
    (
        {
            "attributes": {
                "gen_ai.input.messages": json.dumps(PARTS),
                "gen_ai.output.messages": json.dumps(GOT),
                "gen_ai.system_instructions": json.dumps([{"content": "Be"}, {"content": "kind"}]),
                "gen_ai.request.model": "m-1",
                "gen_ai.response.model": "m-2",
            }
        },
        ((("system", "Be\nkind"), ("user", "Hello\nyou")), "Hi", "m-1"),
    ),
    (
        {"attributes": pairs({"gen_ai.input.messages": SENT, "gen_ai.output.messages": GOT})},
        (HELLO, "Hi", ""),
    ),
    (
        {
            "attributes": {},
            "events": [
                {"name": "gen_ai.system.message", "attributes": {"content": "Be kind"}},
                {"name": "gen_ai.user.message", "attributes": {"gen_ai.event.content": "Hello"}},
                {
                    "name": "gen_ai.choice",
                    "attributes": {"message": json.dumps({"role": "assistant", "content": "Hi"})},
                },
            ],
        },
        ((("system", "Be kind"), ("user", "Hello")), "Hi", ""),
    ),
    (
        {
            "attributes": {},
            "events": [
                {"name": "gen_ai.user.message", "attributes": {"content": "Hello"}},
                {"name": "gen_ai.choice", "attributes": {"content": "Hi"}},
            ],
        },
        (HELLO, "Hi", ""),
    ),
    (
        {
            "attributes": {"gen_ai.request.model": "m-1"},
            "events": [
                {
                    "name": "gen_ai.client.inference.operation.details",
                    "attributes": {
                        "gen_ai.input.messages": SENT,
                        "gen_ai.request.model": "m-3",
                        "other": SENT,
                    },
                }
            ],
        },
        (HELLO, "", "m-1"),
    ),
    (
        {
            "attributes": {
                "gen_ai.prompt.0.content": "Be kind",
                "gen_ai.prompt.0.role": "system",
                "gen_ai.prompt.10.content": "last",
                "gen_ai.prompt.2.content": "Hello",
                "gen_ai.prompt.3.role": "user",
                "gen_ai.completion.0.content": "Hi",
            }
        },
        ((("system", "Be kind"), ("user", "Hello"), ("user", "last")), "Hi", ""),
    ),
    (
        {
            "attributes": {
                "llm.input_messages.0.message.content": "Hello",
                "llm.input_messages.0.message.role": "user",
                "llm.output_messages.0.message.content": "Hi",
                "llm.model_name": "m-4",
            }
        },
        (HELLO, "Hi", "m-4"),
    ),
    ({"attributes": {"input.value": "Hello", "output.value": "Hi"}}, (HELLO, "Hi", "")),
    ({"attributes": {"input.value": "Hello", "output.value": {"a": 1}}}, (HELLO, "", "")),
    ({"attributes": {"input.value": {"a": 1}}}, None),
    ({"attributes": {"gen_ai.input.messages": "[no JSON"}}, None),
    # Parts without text, such as images, calls of tools and what is no part at all.
    *(
        (
            {
                "attributes": {
                    "gen_ai.input.messages": [
                        {"role": "user", "content": [{"type": "text", "text": "Hello"}, part]}
                    ]
                }
            },
            (HELLO, "", ""),
        )
        for part in (None, 7, {}, [], "", {"type": "image", "image_url": "x"}, {"content": 7})
    ),
    *(
        ({"attributes": {"gen_ai.input.messages": [*SENT, message]}}, (HELLO, "", ""))
        for message in (
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "assistant"},
            {"role": "assistant", "parts": []},
            {"role": "assistant", "content": 7},
            {"role": "assistant", "parts": [{"type": "tool_call", "name": "find"}]},
        )
    ),
]


@pytest.mark.parametrize(("span", "call"), SPANS)
def test_a_call_is_read_in_every_convention(tmp_path: Path, span: dict[str, Any], call: object):
    assert read(tmp_path, span) == ([] if call is None else [call])


def test_spans_are_found_at_any_depth_and_numbered(tmp_path: Path):
    span = {"attributes": {"input.value": "Hello"}}
    deep = {"resourceSpans": [{"scopeSpans": [{"spans": [span, {"attributes": {}}]}]}]}
    old = {"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": [span]}]}]}
    assert len(read(tmp_path, deep, old, [span, [span]], {"spans": 3}, "text")) == 4
    calls = read_spans(tmp_path / "spans.json")
    assert [call.place.rpartition(":")[2] for call in calls] == ["1", "3", "4", "5"]


def test_a_file_of_spans_that_cannot_be_read_is_refused(tmp_path: Path):
    path = tmp_path / "spans.json"
    with pytest.raises(UsageError, match="fix: give a file of spans"):
        read_spans(path)
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageError, match=r"spans\.json is not UTF-8\n  fix: save it as UTF-8"):
        read_spans(path)
    path.write_text('{"attributes": {}}\n\n{"a": }')
    with pytest.raises(UsageError, match=r"spans\.json:3: not JSON"):
        read_spans(path)
    with path.open("wb") as file:
        file.truncate(512 * 2**20 + 1)
    with pytest.raises(UsageError, match="larger than 512 MiB"):
        read_spans(path)


def called(number: int, user: str, *, system: str = "Sort it.", output: str = "o") -> SpanCall:
    messages = (("system", system), ("user", user))
    return SpanCall(messages=messages, output=output, model="m", place=f"s:{number}")


FULL = "Text: the disk of the node in the hall is full since noon"


def test_calls_become_cases_the_most_frequent_first():
    calls = [
        called(1, "Text: it rains"),
        called(2, FULL),
        called(3, f"{FULL} 17"),
        called(4, "no text"),
        called(5, "Text: mail bob@acme-mail.de"),
        called(6, "Text: known case"),
    ]
    existing = [{"kind": "it", "text": "known case"}]
    found = candidate_cases(calls, PROMPT, Settings(), existing)
    assert (found.calls, found.unmatched, found.masked) == (6, ("s:4",), 1)
    assert found.duplicates == 2
    inputs = [document["inputs"] for document in found.documents]
    assert inputs[0] == {"kind": "it", "text": FULL.removeprefix("Text: ")}
    assert {"kind": "it", "text": "mail <email>"} in inputs
    assert len(inputs) == 3


@pytest.mark.parametrize(
    ("prompt", "inputs"),
    [(None, {"input": "free words"}), (ONE_INPUT, {"text": "free words"}), (PROMPT, None)],
)
def test_messages_of_another_form_are_the_only_input(prompt: Any, inputs: object):
    found = candidate_cases([called(1, "free words", system="x")], prompt, Settings())
    assert [document["inputs"] for document in found.documents] == ([inputs] if inputs else [])


def test_cases_are_added_once_below_what_is_there(tmp_path: Path):
    path = tmp_path / "fixtures" / "more" / "cases.jsonl"
    found = candidate_cases([called(1, "Text: it rains"), called(2, FULL)], PROMPT, Settings())
    assert write_candidates(path, found) == 2
    lines = path.read_text().splitlines()
    path.write_text(lines[0])
    assert write_candidates(path, found) == 1
    assert path.read_text().splitlines() == lines
    assert write_candidates(path, found) == 0
    for broken in ("{", "[]", '{"no": "id"}'):
        path.write_text(broken)
        with pytest.raises(UsageError, match="cannot take cases"):
            write_candidates(path, found)
