"""Bodies of requests and responses of the three APIs, as values."""

from __future__ import annotations

import errno
import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import ProviderError
from regauge.prompts import Attachment, Message
from regauge.providers import (
    Completion,
    CompletionRequest,
    ToolCall,
    Usage,
    _chat,
    _messages,
    _responses,
)
from regauge.providers._client import connection_error, setup_error
from regauge.providers._cost import published_price
from regauge.providers._failure import AttemptError
from regauge.providers._wire import EmbeddedError, sampling_parameters

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

USER = Message(role="user", content="?")


def ask(*messages: Message, **changes: Any) -> CompletionRequest:
    given = {"model": "m", "provider": "p", "messages": messages or (USER,), "parameters": {}}
    return CompletionRequest(**{**given, **changes})


def chat(message: object, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop", **choice}]}


def read(module: ModuleType, document: object) -> Completion:
    completion: Completion = module.read_completion(json.dumps(document).encode(), endpoint="x")
    return completion


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (chat({"content": "a"}), "a"),
        (chat({"content": {"a": "ü"}}), '{"a": "ü"}'),
        (chat({"content": [{"text": "a"}, {"image": 1}, 3, {"text": "b"}]}), "ab"),
        (chat({"content": [{"image": 1}]}), ""),
        (chat({}), ""),
        (chat({"content": None}, finish_reason="length"), None),
        (chat({"content": ""}, finish_reason="content_filter"), None),
        (chat({"content": None, "refusal": "No."}), None),
        (chat({"content": None, "tool_calls": [{"function": {"name": "f"}}]}), None),
    ],
)
def test_the_text_of_a_chat_completion(document: object, text: str | None):
    assert read(_chat, document).text == text


def test_a_call_in_the_old_form_is_read():
    call = {"name": "find", "arguments": '{"n": 1}'}
    completion = read(_chat, chat({"content": None, "function_call": call}))
    assert [(c.name, c.arguments) for c in completion.tool_calls] == [("find", '{"n": 1}')]
    both = chat(
        {"content": None, "function_call": call, "tool_calls": [{"function": {"name": "g"}}]}
    )
    assert [c.name for c in read(_chat, both).tool_calls] == ["g"]


@pytest.mark.parametrize(
    ("document", "text", "reason"),
    [
        ({"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}, "a", "stop"),
        ({"content": [], "stop_reason": "end_turn"}, "", "stop"),
        ({"content": [], "stop_reason": "max_tokens"}, None, "length"),
        ({"content": [{"type": "text", "text": 3}], "stop_reason": "odd"}, None, "unknown"),
        (
            {"content": [{"type": "tool_use", "id": "1", "name": "f"}], "stop_reason": "tool_use"},
            None,
            "tool_calls",
        ),
    ],
)
def test_the_text_of_a_message(document: object, text: str | None, reason: str):
    completion = read(_messages, document)
    assert (completion.text, completion.finish_reason) == (text, reason)


def test_an_error_in_a_message_or_a_refusal_is_no_text():
    with pytest.raises(EmbeddedError) as caught:
        read(_messages, {"error": {"type": "overloaded_error"}, "content": []})
    assert caught.value.status == 500
    refused = {"content": [{"type": "text", "text": "Not that."}], "stop_reason": "refusal"}
    assert (read(_messages, refused).text, read(_messages, refused).refusal) == (None, "Not that.")
    assert read(_messages, {**refused, "content": []}).refusal == "the model refused"
    with pytest.raises(AttemptError, match="x returned no content"):
        read(_messages, {"content": "a"})


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, Usage(input_tokens=5, output_tokens=2)),
        ({"input_tokens": 5}, Usage(input_tokens=5)),
        ({"input_tokens": 5, "output_tokens": -1}, Usage()),
        ({"input_tokens": "5", "output_tokens": 1}, Usage()),
        (None, Usage()),
        (
            {
                "input_tokens": 5,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 1,
                "output_tokens": 4,
                "output_tokens_details": {"thinking_tokens": 2},
            },
            Usage(input_tokens=9, output_tokens=4, cached_input_tokens=3, reasoning_tokens=2),
        ),
    ],
)
def test_the_tokens_of_a_message(usage: object, expected: Usage):
    assert read(_messages, {"content": [], "usage": usage}).usage == expected


@pytest.mark.parametrize(
    ("document", "text", "reason"),
    [
        ({"output": [{"type": "reasoning"}]}, "", "stop"),
        ({"output": [], "status": "incomplete"}, None, "unknown"),
        (
            {
                "output": [],
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
            },
            None,
            "length",
        ),
        ({"output": [{"type": "function_call", "id": "1", "name": "f"}]}, None, "tool_calls"),
        (
            {"output": [{"type": "message", "content": [{"text": "a"}, {"text": "b"}]}]},
            "ab",
            "stop",
        ),
    ],
)
def test_the_text_of_a_response(document: object, text: str | None, reason: str):
    completion = read(_responses, document)
    assert (completion.text, completion.finish_reason) == (text, reason)


def test_tools_in_the_form_of_an_api_are_sent_as_they_are():
    own = {"type": "web_search"}
    plain = {"type": "function", "function": {"name": "f"}}
    strict = {"type": "function", "function": {"name": "f", "strict": True, "description": "d"}}
    request = ask(tools=(own, plain, strict))
    assert _messages.body_of(request, limit_key="max_tokens", vary_seed=False)["tools"] == [
        own,
        {"name": "f", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "f",
            "input_schema": {"type": "object", "properties": {}},
            "description": "d",
            "strict": True,
        },
    ]
    assert _responses.body_of(request, limit_key="max_tokens", vary_seed=False)["tools"] == [
        own,
        {"type": "function", "strict": False, "name": "f"},
        {"type": "function", "strict": True, "name": "f", "description": "d"},
    ]


def test_text_next_to_tool_calls_is_sent_and_arguments_must_be_json():
    call = ToolCall(id="1", name="f", arguments='{"n": 1}')
    empty = ToolCall(id="2", name="g", arguments="")
    spoken = Message(role="assistant", content="Let me see.", tool_calls=(call, empty))
    body = _messages.body_of(ask(USER, spoken), limit_key="max_tokens", vary_seed=False)
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}},
        {"type": "tool_use", "id": "2", "name": "g", "input": {}},
    ]
    silent = Message(role="assistant", content="", tool_calls=(call,))
    body = _messages.body_of(ask(USER, silent), limit_key="max_tokens", vary_seed=False)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    broken = Message(
        role="assistant", content="", tool_calls=(ToolCall(id="1", name="f", arguments="{"),)
    )
    with pytest.raises(
        ProviderError, match="the prompt has a call of f whose arguments are not JSON"
    ):
        _messages.body_of(ask(USER, broken), limit_key="max_tokens", vary_seed=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read: no such file or directory"), (b"x", "has changed since the case")],
)
def test_an_attachment_that_is_not_the_one_of_the_case_is_not_sent(
    tmp_path: Path, content: bytes | None, words: str
):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    part = Attachment(kind="image", path="a.png", sha256=hashlib.sha256(b"y").hexdigest())
    message = Message(role="user", content=part.name, attachments=(part,))
    with pytest.raises(ProviderError, match=f"^the prompt: the image a.png {words}") as caught:
        _chat.body_of(ask(message, files=tmp_path))
    assert (caught.value.kind, caught.value.fix) == ("bad-request", "restore it, or run again")


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        ({"n": 1, "stream": None}, {}),
        ({"n": None, "top_p": 0.5}, {"top_p": 0.5}),
        ({"seed": 5}, {"seed": 8}),
        ({"seed": None}, {"seed": 3}),
        ({}, {"seed": 3}),
    ],
)
def test_parameters_and_seeds_are_sent(parameters: dict[str, Any], sent: dict[str, Any]):
    request = ask(parameters=parameters, trial=3)
    assert sampling_parameters(request, vary_seed="seed" in sent) == sent


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "rate_limit_exceeded"}, 429),
        ({"code": "too_many_requests"}, 429),
        ({"code": 399}, 500),
        ({"code": 400}, 400),
        ({"code": "599"}, 599),
        ({"code": 600}, 500),
        ({"code": "odd"}, 500),
    ],
)
def test_an_error_with_status_200_has_the_status_of_its_code(error: object, status: int):
    embedded = EmbeddedError(error)
    assert embedded.status == status
    assert json.loads(embedded.body) == {"error": error} == json.loads(str(embedded))


def test_a_client_that_cannot_be_set_up_names_its_cause():
    full = OSError(errno.EMFILE, "Too many open files")
    environ = {"SSL_CERT_FILE": "c.pem"}
    for error, variables, words in (
        (full, environ, "x: too many files and connections are open\n  fix: raise the limit"),
        (
            OSError("gone:"),
            environ,
            "the certificates of SSL_CERT_FILE (c.pem) cannot be read: gone\n",
        ),
        (
            ValueError("odd proxy"),
            environ,
            "x: the client cannot be set up: odd proxy\n  fix: check",
        ),
        (OSError("gone"), {}, "x: the client cannot be set up: gone\n"),
    ):
        failure = setup_error(error, endpoint="x", environ=variables)
        assert words in str(failure)
        assert (failure.transient, failure.never_sent, failure.kind) == (False, False, "connection")


def test_a_connection_without_a_descriptor_was_never_sent():
    error = RuntimeError("outer")
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    failure = connection_error(error, endpoint="x", provider="p")
    assert "x cannot be reached: too many files and connections are open\n" in str(failure)
    assert (failure.transient, failure.never_sent) == (True, True)


def test_without_the_table_of_prices_a_price_is_unknown(monkeypatch: pytest.MonkeyPatch):
    url = "https://api.openai.com/v1"
    assert published_price.__wrapped__(url, "gpt-4o") is not None
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert published_price.__wrapped__(url, "gpt-4o") is None
