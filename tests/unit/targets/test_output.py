"""What a target gives is read as one completion, or it is said what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regauge.errors import DatasetError, ProviderError
from regauge.targets._output import completion_of, read_outputs

CALL = {"name": "find", "arguments": {"n": 1}}
ASSISTANT = {"role": "assistant", "content": "Hello."}
TEXT = {"type": "text", "text": "Ha."}
IMAGE = {"type": "image_url", "image_url": {"url": "https://host/a.png"}}
TOOL_TURN = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": '{"n": 1}'}}],
}
TOOL_USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


def read(output: Any, **rest: Any) -> Any:
    return completion_of(output, provider="python", model="app", **rest)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("Hi.", "Hi."),
        ("", ""),
        ({"text": "Hi."}, "Hi."),
        ({"text": "Hi.", "usage": None, "latency_s": 3}, "Hi."),
        ({"text": "Hi.", "severity": "info"}, '{"text": "Hi.", "severity": "info"}'),
        ({"severity": "ünfo"}, '{"severity": "ünfo"}'),
        ({}, "{}"),
        ({"usage": {}}, '{"usage": {}}'),
        ({"messages": [ASSISTANT]}, "Hello."),
        ({"messages": [ASSISTANT, {"role": "user", "content": "Bye."}]}, "Hello."),
        ({"messages": [ASSISTANT, {"role": "assistant", "content": "Bye."}]}, "Bye."),
        ({"messages": [{"role": "user", "content": "Bye."}]}, None),
        ({"messages": [{"role": "assistant", "content": [TEXT, TEXT]}]}, "Ha.Ha."),
        ({"messages": [ASSISTANT], "text": "Other."}, "Other."),
        ({"messages": [ASSISTANT], "text": None}, None),
        ({"text": None, "tool_calls": [CALL]}, None),
        ({"text": None, "refusal": "No."}, None),
    ],
)
def test_the_text_of_an_output(output: Any, text: str | None):
    assert read(output).text == text


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (3, "it is neither text nor an object: 3"),
        ([], "it is neither text nor an object: []"),
        (None, "it is neither text nor an object: null"),
        ({"text": 3}, "`text` is not text: 3"),
        ({"text": None}, "`text` is null, and there are no tool calls"),
        ({"text": None, "tool_calls": []}, "`text` is null, and there are no tool calls"),
        ({"messages": []}, "`text` is null, and there are no tool calls"),
        ({"messages": "x"}, '`messages` is not a list: "x"'),
        ({"messages": ["x"]}, '`messages` holds something that is not an object: "x"'),
        ({"messages": [{"role": "assistant", "content": []}]}, "`text` is not text: []"),
        ({"messages": [{"role": "assistant", "content": [TEXT, IMAGE]}]}, "`text` is not text: [{"),
        ({"messages": [{"role": "assistant", "content": [TEXT, "x"]}]}, "`text` is not text: [{"),
        ({"messages": [{"role": "model", "content": "x"}]}, "a message has no `role` of system, "),
        ({"text": "x", "messages": [{"type": "ai", "content": "x"}]}, "a message has no `role` of "),
        ({"messages": [{**ASSISTANT, "tool_calls": 5}]}, "`tool_calls` is not a list: 5"),
        ({"messages": [{**ASSISTANT, "content": [TOOL_USE]}, ASSISTANT]}, "a call is not in `tool_"),
        ({"messages": [{**ASSISTANT, "function_call": {"name": "f"}}]}, "a call is not in `tool_"),
        ({"text": "", "context": "x"}, '`context` is not a list: "x"'),
        ({"text": "", "context": {"a": 1}}, '`context` is not a list: {"a": 1}'),
        ({"text": "", "tool_calls": [{"arguments": {}}]}, "a tool call has no name"),
        ({"text": "", "tool_calls": [{"name": 3}]}, 'a tool call has no name: {"name": 3}'),
        ({"text": "", "tool_calls": [{"function": "f"}]}, "a tool call has no name"),
        ({"text": "", "cost_usd": True}, "`cost_usd` is not a number from 0: true"),
        ({"text": "", "cost_usd": -0.1}, "`cost_usd` is not a number from 0: -0.1"),
        ({"text": "", "cost_usd": 10**400}, "`cost_usd` is not a number from 0: 1000"),
        ({"text": "", "cost_usd": "1"}, '`cost_usd` is not a number from 0: "1"'),
        ({"text": "", "cost_usd": float("nan")}, "it holds NaN or an infinity"),
        ({"text": "", "context": [float("inf")]}, "it holds NaN or an infinity"),
        ({"text": "", "usage": 3}, "`usage` is not an object: 3"),
        ({"text": "", "usage": {"input_tokens": -1}}, "`usage` holds no number of tokens: -1"),
        ({"text": "", "usage": {"input_tokens": True}}, "`usage` holds no number of tokens: true"),
        ({"text": "", "usage": {"output_tokens": 1.5}}, "`usage` holds no number of tokens: 1.5"),
        ({"text": "", "finish_reason": "done"}, "`finish_reason` is none of stop, length"),
        ({"text": "", "refusal": 5}, "`refusal` is not text: 5"),
        ({"text": "", "fingerprint": []}, "`fingerprint` is not text: []"),
        ({"text": ["x" * 100]}, '`text` is not text: ["' + "x" * 75),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_output_is_said(output: Any, words: str):
    with pytest.raises(ProviderError) as caught:
        read(output)
    assert caught.value.kind == "malformed"
    assert words in str(caught.value)
    assert "\n  fix: return text, or an object with text, messages, tool_calls" in str(caught.value)
    assert len(str(caught.value).partition("\n")[0]) < 180


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Hi.", "stop"),
        ({"text": "Hi.", "tool_calls": [CALL]}, "stop"),
        ({"text": None, "tool_calls": [CALL]}, "tool_calls"),
        ({"messages": [TOOL_TURN]}, "tool_calls"),
        ({"text": None, "refusal": "No."}, "stop"),
        ({"text": "Hi.", "finish_reason": "length"}, "length"),
    ],
)
def test_the_reason_of_the_end(output: Any, reason: str):
    assert read(output).finish_reason == reason


def test_all_parts_of_an_output_are_kept():
    made = read(
        {
            "text": "Hi.",
            "tool_calls": [CALL, {"id": "x", "function": {"name": "go", "arguments": "{}"}}, {"name": "n"}],
            "context": ["a", {"b": "ü"}],
            "usage": {
                "input_tokens": 0,
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "cached_input_tokens": 2,
                "reasoning_tokens": 1,
            },
            "cost_usd": 0,
            "model": "other",
            "fingerprint": "f",
        },
        latency_s=1.23456,
        cost_usd=0.5,
        attempts=3,
    )  # fmt: skip
    assert [(call.id, call.name, call.arguments) for call in made.tool_calls] == [
        ("call_0", "find", '{"n": 1}'),
        ("x", "go", "{}"),
        ("call_2", "n", "{}"),
    ]
    assert made.context == ("a", '{"b": "ü"}')
    usage = made.usage
    assert (usage.input_tokens, usage.output_tokens) == (0, 4)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (2, 1)
    assert (made.cost_usd, made.model, made.provider, made.fingerprint) == (0.0, "other", "python", "f")  # fmt: skip
    assert (made.latency_s, made.attempts) == (1.2346, 3)
    assert read("Hi.", cost_usd=0.5).cost_usd == 0.5
    assert read("Hi.").cost_usd is None
    assert read({"text": "x", "model": ""}).model == "app"
    usage = read({"text": "x", "usage": {"input_tokens": None, "prompt_tokens": 9}}).usage
    assert (usage.input_tokens, usage.output_tokens) == (9, 0)


def test_calls_are_those_of_all_messages_unless_they_are_stated():
    assert [call.id for call in read({"messages": [TOOL_TURN, ASSISTANT, TOOL_TURN]}).tool_calls] == ["a", "a"]  # fmt: skip
    assert read({"messages": [TOOL_TURN, ASSISTANT], "tool_calls": []}).tool_calls == ()
    other_form = {"role": "assistant", "content": [TOOL_USE]}
    assert read({"messages": [other_form, ASSISTANT], "tool_calls": []}).tool_calls == ()


def outputs(*lines: Any, cost_usd: float | None = None, before: bytes = b"") -> Any:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    data = before + "\n".join(texts).encode()
    return read_outputs(data, place=Path("out.jsonl"), name="app", cost_usd=cost_usd)


def test_recorded_outputs_are_found_by_case_and_trial():
    made = outputs(
        {"case": "a", "text": "0"}, "", "  ", {"case": "a", "trial": 1, "text": "1"}, {"case": "b", "messages": [ASSISTANT]},
        cost_usd=0.25, before=b"\xef\xbb\xbf",
    )  # fmt: skip
    assert [made.find("a", n) and made.find("a", n).text for n in range(3)] == ["0", "1", None]
    first = made.find("a", 0)
    assert (first.provider, first.model, first.cost_usd) == ("recorded", "app", 0.25)
    assert made.find("b", 0).text == "Hello."
    assert made.find("c", 0) is None
    again = outputs({"case": "a", "trial": 1, "text": "1"}, {"case": "a", "text": "0"})
    assert again.digest_of_case("a") == made.digest_of_case("a")
    assert again.digest != made.digest
    assert again.digest_of_case("c") != again.digest_of_case("a")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ""),
        ("[]", "not an object"),
        ({"case": "a", "txt": ""}, "unknown key 'txt'"),
        ({"case": "a", "zzzzz": ""}, "unknown key 'zzzzz'"),
        ({"text": ""}, "`case` is missing"),
        ({"case": "", "text": ""}, "`case` is missing"),
        ({"case": 3, "text": ""}, "`case` is missing"),
        ({"case": "a", "trial": -1, "text": ""}, "`trial` is -1, not a number from 0"),
        ({"case": "a", "trial": True, "text": ""}, "`trial` is True, not a number from 0"),
        ({"case": "a", "trial": "1", "text": ""}, "`trial` is '1', not a number from 0"),
        ({"case": "a"}, "it has neither `text` nor `messages`"),
        ({"case": "a", "text": 3}, "the output is not what was declared: `text` is not text: 3"),
        ({"case": "ok", "text": ""}, "case 'ok' has trial 0 twice"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: Any, message: str):
    with pytest.raises(DatasetError) as caught:
        outputs({"case": "ok", "text": ""}, "", line)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.line == 3
    assert message in diagnostic.message


def test_hints_name_the_key_that_was_meant_or_all_of_them():
    with pytest.raises(DatasetError) as caught:
        outputs({"case": "a", "txt": ""}, {"case": "a", "zzzzz": ""}, {"text": ""})
    assert [diagnostic.fix for diagnostic in caught.value.diagnostics] == [
        "did you mean 'text'?",
        "there are case, trial, text, messages, tool_calls, context, usage, cost_usd",
        "name the golden case",
    ]


def test_a_missing_file_and_a_line_that_is_too_long_are_explained():
    with pytest.raises(DatasetError) as caught:
        read_outputs(None, place=Path("out.jsonl"), name="app", cost_usd=None)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.line, diagnostic.message) == (None, "no such file")
    assert diagnostic.fix == "write it, or correct `path` in [tool.regauge.targets.app]"
    for more, message in ((0, ""), (1, "the line is larger than 10,000,000 bytes")):
        head = '{"case": "ok", "text": "'
        line = head + "x" * (10_000_000 + more - len(head) - 2) + '"}'
        if more:
            with pytest.raises(DatasetError, match=message):
                outputs(line)
        else:
            assert outputs(line).find("ok", 0) is not None
