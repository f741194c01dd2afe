"""The Responses API and Anthropic's Messages API, through their SDKs against a real server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import sys
import threading
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from regauge.errors import ProviderError
from regauge.judges.model import requests as judge_requests
from regauge.project import EndpointSettings, PriceSettings
from regauge.prompts import Attachment, Message, load_prompt
from regauge.providers import (
    CompletionRequest,
    ToolCall,
    Usage,
    _endpoint,
    cost_of,
    parse_model_id,
    price_of,
)
from regauge.providers._endpoint import Endpoint
from regauge.providers.remote import RemoteProvider, load_gaps

RUBRICS = Path(judge_requests.__file__).parent / "rubrics"
TOOL = {
    "type": "function",
    "function": {
        "name": "page",
        "description": "Page a person.",
        "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
    },
}
STRICT = {"type": "function", "function": {"name": "page", "strict": True}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}


def response(*output: Any, **changes: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-9-2031-01-01",
        "output": list(output),
        "usage": {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 400},
            "output_tokens": 100,
            "output_tokens_details": {"reasoning_tokens": 60},
        },
        **changes,
    }


def said(text: str = "yes", **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], **more}
    return {"type": "message", "role": "assistant", "content": [part]}


def message(*content: Any, stop: str = "end_turn", **changes: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-9-20310101",
        "content": list(content),
        "stop_reason": stop,
        "usage": {
            "input_tokens": 500,
            "cache_read_input_tokens": 400,
            "cache_creation_input_tokens": 100,
            "output_tokens": 100,
        },
        **changes,
    }


def text(words: str = "yes") -> dict[str, Any]:
    return {"type": "text", "text": words}


class Api:
    """One of the two APIs: how it answers, and how tests ask it."""

    def __init__(self, kit: Any, name: str) -> None:
        self.kit = kit
        self.name = name
        self.path = "/v1/responses" if name == "responses" else "/v1/messages"

    def answer(self, words: str = "yes") -> dict[str, Any]:
        return response(said(words)) if self.name == "responses" else message(text(words))

    def talk(self, script: Any, *requests: Any, **settings: Any) -> Any:
        replies = [
            one if isinstance(one, self.kit.Reply) else self.kit.Reply(document=one)
            for one in script
        ]
        return self.kit.talk(replies, *requests, api=self.name, **settings)


@pytest.fixture(params=["responses", "anthropic"])
def api(kit: Any, request: pytest.FixtureRequest) -> Api:
    return Api(kit, request.param)


@pytest.fixture
def responses(kit: Any) -> Api:
    return Api(kit, "responses")


@pytest.fixture
def anthropic(kit: Any) -> Api:
    return Api(kit, "anthropic")


def test_a_request_of_the_responses_api_says_the_same_in_its_own_words(responses: Api):
    request = responses.kit.ask(
        parameters={
            "temperature": 0.5,
            "max_tokens": 9,
            "reasoning_effort": "low",
            "verbosity": "low",
            "logprobs": True,
            "top_logprobs": 2,
            "tool_choice": {"type": "function", "function": {"name": "page"}},
            "parallel_tool_calls": False,
        },
        response_format=FORMAT,
        tools=(TOOL,),
    )
    talk = responses.talk([response(said())], request)
    assert talk.completion.text == "yes"
    assert "POST /v1/responses " in talk.endpoint.heads[0]
    assert talk.endpoint.bodies == [
        {
            "model": "gpt-9",
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "?"},
            ],
            "store": False,
            "text": {
                "format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True},
                "verbosity": "low",
            },
            "max_output_tokens": 9,
            "reasoning": {"effort": "low"},
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 2,
            "tool_choice": {"type": "function", "name": "page"},
            "tools": [{"type": "function", "strict": False, **TOOL["function"]}],  # type: ignore[dict-item]
            "temperature": 0.5,
            "parallel_tool_calls": False,
        }
    ]


def test_a_request_of_the_messages_api_says_the_same_in_its_own_words(anthropic: Api):
    request = anthropic.kit.ask(
        parameters={
            "stop": "END",
            "reasoning_effort": "low",
            "tool_choice": "required",
            "parallel_tool_calls": False,
        },
        response_format=FORMAT,
        tools=(TOOL,),
    )
    talk = anthropic.talk(
        [message(text())], request, environ={"KEY": "secret-key"}, api_key_env="KEY"
    )
    head = talk.endpoint.heads[0].lower()
    assert "post /v1/messages " in head
    assert "secret-key" in head
    assert "anthropic-version: " in head
    assert talk.endpoint.bodies == [
        {
            "model": "gpt-9",
            "max_tokens": 4096,
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [{"role": "user", "content": "?"}],
            "stop_sequences": ["END"],
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": SCHEMA},
            },
            "tools": [
                {
                    "name": "page",
                    "description": "Page a person.",
                    "input_schema": TOOL["function"]["parameters"],  # type: ignore[index]
                }
            ],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        }
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "page"}}, {"type": "tool", "name": "page"}),
    ],
)
def test_every_tool_choice_has_a_counterpart_at_anthropic(
    anthropic: Api, choice: object, sent: object
):
    request = anthropic.kit.ask(parameters={"tool_choice": choice}, tools=(TOOL,))
    talk = anthropic.talk([message(text())], request)
    assert talk.endpoint.bodies[0]["tool_choice"] == sent


def test_usage_is_counted_and_priced_alike(api: Api):
    price = PriceSettings(
        input_per_million=1.0, output_per_million=10.0, cached_input_per_million=0.1
    )
    completion = api.talk([api.answer()], prices={"gpt-9": price}).completion
    usage = completion.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (1000, 100, 400)
    assert completion.cost_usd == pytest.approx(0.00164)
    assert completion.finish_reason == "stop"


def test_reasoning_is_no_text_and_its_tokens_are_counted(responses: Api, anthropic: Api):
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "h"}],
    }
    completion = responses.talk([response(reasoning, said())]).completion
    assert (completion.text, completion.usage.reasoning_tokens) == ("yes", 60)
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    usage = {"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
    completion = anthropic.talk([message(thinking, hidden, text(), usage=usage)]).completion
    assert completion.text == "yes"
    assert completion.usage == Usage(input_tokens=1, output_tokens=9, reasoning_tokens=7)


def test_tool_calls_in_parallel_are_all_read(responses: Api, anthropic: Api):
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{who}",
            "call_id": f"call_{who}",
            "name": "page",
            "arguments": json.dumps({"who": who}),
        }
        for who in ("ann", "bob")
    ]
    read = (
        ToolCall(id="call_ann", name="page", arguments='{"who": "ann"}'),
        ToolCall(id="call_bob", name="page", arguments='{"who": "bob"}'),
    )
    completion = responses.talk([response(*calls)]).completion
    assert (completion.text, completion.finish_reason) == (None, "tool_calls")
    assert completion.tool_calls == read
    blocks = [
        {"type": "tool_use", "id": f"call_{who}", "name": "page", "input": {"who": who}}
        for who in ("ann", "bob")
    ]
    completion = anthropic.talk([message(text("One moment."), *blocks, stop="tool_use")]).completion
    assert (completion.text, completion.finish_reason) == ("One moment.", "tool_calls")
    assert completion.tool_calls == read


def test_a_refusal_has_no_text(responses: Api, anthropic: Api):
    refused = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    completion = responses.talk([response(refused)]).completion
    assert (completion.text, completion.refusal) == (None, "I will not.")
    completion = anthropic.talk([message(stop="refusal")]).completion
    assert (completion.text, completion.refusal) == (None, "the model refused")
    assert completion.finish_reason == "content_filter"


def test_an_answer_that_was_cut_says_why(responses: Api, anthropic: Api):
    for reason, name in (("max_output_tokens", "length"), ("content_filter", "content_filter")):
        cut = response(said("ye"), status="incomplete", incomplete_details={"reason": reason})
        assert responses.talk([cut]).completion.finish_reason == name
    cut = message(text("ye"), stop="max_tokens")
    assert anthropic.talk([cut]).completion.finish_reason == "length"
    filtered = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    assert responses.talk([response(said(""), **filtered)]).completion.text is None


def test_a_response_without_any_output_is_tried_again(responses: Api):
    assert responses.talk([response(), response(said("yes"))]).completion.text == "yes"


def test_logprobs_of_the_responses_api_are_read(responses: Api):
    tokens = [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -3}]}]
    (token,) = responses.talk([response(said(logprobs=tokens))]).completion.logprobs
    assert (token.token, token.logprob, token.top) == ("yes", -0.1, (("no", -3.0),))


def test_a_rate_limit_is_waited_for_and_an_overload_tried_again(api: Api):
    reset = "2031-01-01T00:00:00Z"
    headers = {
        "retry-after": "0",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": reset,
    }
    limited = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    script = [
        api.kit.Reply(status=429, headers=headers, document=limited),
        api.kit.Reply(status=529, document=overloaded),
        api.answer(),
    ]
    talk = api.talk(script)
    assert (talk.completion.text, talk.completion.attempts) == ("yes", 3)
    assert talk.provider.calls.failures == {"rate-limit": 1, "server": 1}


@pytest.mark.parametrize("cut", ["body", "json", "dropped", "in progress"])
def test_a_response_that_breaks_off_is_asked_for_again(api: Api, cut: str):
    whole = json.dumps(api.answer()).encode()
    broken = {
        "body": api.kit.Reply(document=api.answer(), cut=20),
        "json": api.kit.Reply(raw=whole[:-20]),
        "dropped": api.kit.Reply(drop=True),
        "in progress": api.kit.Reply(document={"status": "in_progress", "model": "m"}),
    }
    completion = api.talk([broken[cut], api.answer()]).completion
    assert (completion.text, completion.attempts) == ("yes", 2)


def test_a_failed_response_is_an_error_and_no_answer(responses: Api):
    failed = response(status="failed", error={"code": "server_error", "message": "broke"})
    talk = responses.talk([failed, response(said())])
    assert talk.completion.attempts == 2
    (error,) = responses.talk([failed] * 2, max_attempts=2).results
    assert isinstance(error, ProviderError)
    assert error.kind == "server"
    assert "broke" in str(error)


def test_a_refused_key_names_its_variable(api: Api):
    document = {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}
    reply = api.kit.Reply(status=401, document=document)
    (error,) = api.talk([reply], environ={"KEY": "k-123456"}, api_key_env="KEY").results
    assert isinstance(error, ProviderError)
    assert error.kind == "authentication"
    assert "bad key" in str(error)
    assert "fix: put a key that 'local' accepts into KEY" in str(error)


def test_what_the_messages_api_has_no_place_for_is_refused_before_it_is_sent(anthropic: Api):
    late = (Message(role="user", content="?"), Message(role="system", content="Be brief."))
    talk = anthropic.talk([], anthropic.kit.ask(messages=late))
    (error,) = talk.results
    assert "a system message after the first turn" in str(error)
    assert talk.endpoint.bodies == []
    (error,) = anthropic.talk([], anthropic.kit.ask(messages=late[1:])).results
    assert "no user message" in str(error)


def test_a_missing_sdk_is_one_sentence_with_the_command(
    anthropic: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    (error,) = anthropic.talk([]).results
    assert str(error) == (
        "provider 'local' needs the package 'anthropic', which is not installed\n"
        "  fix: pip install 'regauge[anthropic]'"
    )


def key_command(path: Path, program: str) -> dict[str, Any]:
    """A command that appends to a file whenever it runs, and prints what `program` says."""
    runs = path / "runs"
    script = path / "key.py"
    script.write_text(
        f"import pathlib, sys, time\nruns = pathlib.Path({str(runs)!r})\n"
        "with runs.open('a') as f: f.write('x')\n"
        f"count = len(runs.read_text())\n{program}\n"
    )
    return {"api_key_command": [sys.executable, str(script)]}


@pytest.mark.parametrize(
    ("status", "message"), [(401, "key-number-1 has expired"), (400, "API key expired.")]
)
def test_a_key_of_a_command_is_sent_and_renewed_when_it_is_refused(
    api: Api, tmp_path: Path, status: int, message: str
):
    expired = {"error": {"type": "authentication_error", "message": message}}
    script = [api.kit.Reply(status=status, document=expired), api.answer("key-number-2 it is")]
    talk = api.talk(script, **key_command(tmp_path, "print(f'key-number-{count}')"))
    assert talk.completion.text == "[redacted by regauge] it is"
    assert [head.count("key-number-1") for head in talk.endpoint.heads] == [1, 0]
    assert "key-number-2" in talk.endpoint.heads[1]
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_key_that_expires_during_a_run_is_renewed(api: Api, tmp_path: Path):
    expired = api.kit.Reply(status=401, document={"error": {"message": "expired"}})
    command = key_command(tmp_path, "print(f'key-number-{count}')")
    requests = [api.kit.ask(), api.kit.ask(trial=1)]
    talk = api.talk([api.answer(), expired, api.answer()], *requests, concurrency=1, **command)
    assert [completion.text for completion in talk.results] == ["yes", "yes"]
    heads = talk.endpoint.heads
    assert ["key-number-1" in head for head in heads] == [True, True, False]
    assert "key-number-2" in heads[2]


def test_many_requests_run_the_command_once_and_a_key_that_stays_refused_is_final(
    api: Api, tmp_path: Path
):
    command = key_command(tmp_path, "print('the-same-key')")
    requests = [api.kit.ask() for _ in range(8)]
    talk = api.talk([api.answer()] * 8, *requests, **command)
    assert [completion.text for completion in talk.results] == ["yes"] * 8
    assert (tmp_path / "runs").read_text() == "x"
    refused = {"error": {"message": "the-same-key is not known"}}
    reply = api.kit.Reply(status=401, document=refused)
    (error,) = api.talk([reply], **command).results
    assert isinstance(error, ProviderError)
    assert error.kind == "authentication"
    assert "the-same-key" not in str(error)
    assert "fix: see that `api_key_command` prints a key" in str(error)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("sys.exit('secret-on-stderr')", "ended with exit code 1"),
        ("pass", "did not print a key, one line of ASCII text"),
        ("print('one\\ntwo')", "did not print a key, one line of ASCII text"),
    ],
)
def test_a_command_that_prints_no_key_is_run_once_and_says_so(
    kit: Any, tmp_path: Path, program: str, complaint: str
):
    command = key_command(tmp_path, program)
    results = kit.talk([], kit.ask(), kit.ask(), **command).results
    for error in results:
        assert isinstance(error, ProviderError)
        assert complaint in str(error)
        assert "secret" not in str(error)
    assert (tmp_path / "runs").read_text() == "x"


def test_a_command_that_is_not_there_is_named(kit: Any):
    (error,) = kit.talk([], api_key_command=["no-such-program-here"]).results
    assert "api_key_command (no-such-program-here) cannot be started" in str(error)
    settings = EndpointSettings(api_key_command=["no-such-program-here"], base_url="http://a/v1")
    with pytest.raises(ProviderError, match="there is no program 'no-such-program-here'"):
        Endpoint(name="x", settings=settings, environ={}).check()


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_endpoint, "_COMMAND_S", 0.1)
    settings = EndpointSettings(api_key_command=["sleep", "60"], base_url="http://a/v1")

    async def fetch() -> None:
        endpoint = Endpoint(name="x", settings=settings, environ={})
        with pytest.raises(ProviderError, match=r"\(sleep\) did not end within 0\.1 s"):
            await endpoint.fetch_key()
        while any("waitpid" in t.name for t in threading.enumerate()):  # noqa: ASYNC110 - a thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)  # the loop closes the pipes of the ended command

    asyncio.run(fetch())


@pytest.mark.parametrize(
    ("endpoint", "changes", "name"),
    [
        (
            ("openai", "https://api.anthropic.com/v1", "claude"),
            {"response_format": FORMAT},
            "response_format",
        ),
        (("openai", "https://api.anthropic.com/v1", "claude"), {"parameters": {"seed": 0}}, "seed"),
        (("anthropic", None, "claude"), {"parameters": {"temperature": 0}}, "temperature"),
        (
            ("anthropic", None, "claude"),
            {"response_format": {"type": "json_object"}},
            "json_object",
        ),
        (("responses", None, "gpt-9"), {"parameters": {"stop": ["x"]}}, "stop"),
        (("openai", None, "gpt-5-mini"), {"parameters": {"temperature": 0.0}}, "temperature"),
        (("openai", "https://api.anthropic.com/v1", "claude"), {"tools": (STRICT,)}, "strict"),
        (
            ("openai", "http://127.0.0.1:11434/v1", "llama"),
            {"parameters": {"logit_bias": {"1": 2}}},
            "logit_bias",
        ),
    ],
)
def test_what_an_endpoint_ignores_or_rejects_is_refused_before_anything_is_sent(
    kit: Any, endpoint: tuple[str, str | None, str], changes: dict[str, Any], name: str
):
    api, url, model = endpoint
    sent: list[Any] = []

    async def answer(request: Any) -> Any:
        sent.append(request)
        return httpx2.Response(200, json=kit.chat() if api == "openai" else {})

    async def complete(**settings: Any) -> None:
        provider = RemoteProvider(
            EndpointSettings(api=api, base_url=url, max_attempts=1, **settings),
            name="local",
            environ={"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            transport=httpx2.MockTransport(answer),
        )
        try:
            await provider.complete(kit.ask(model=model, **changes))
        finally:
            await provider.aclose()

    with pytest.raises(ProviderError, match=f"prompts/alert.prompt.yml needs `{name}`") as caught:
        asyncio.run(complete())
    assert sent == []
    assert f"accepts = [{name!r}]" in str(caught.value)
    with suppress(ProviderError):
        asyncio.run(complete(accepts=[name, "strict"]))
    assert len(sent) == 1


def test_a_judge_asks_a_model_without_temperature_without_one(kit: Any):
    sent: list[dict[str, Any]] = []

    async def answer(request: Any) -> Any:
        sent.append(json.loads(request.content))
        return httpx2.Response(200, json=kit.chat())

    async def complete(model: str) -> None:
        provider = RemoteProvider(
            EndpointSettings(max_attempts=1),
            name="openai",
            environ={"OPENAI_API_KEY": "k"},
            transport=httpx2.MockTransport(answer),
        )
        prompt = load_prompt(RUBRICS / "factuality.prompt.yml")
        texts = {name: name for name in prompt.variables}
        request = judge_requests.build_request(
            prompt, texts, model=parse_model_id(f"openai:{model}"), trial=0
        )
        try:
            await provider.complete(request)
        finally:
            await provider.aclose()

    asyncio.run(complete("gpt-5-mini"))
    asyncio.run(complete("gpt-4.1-mini"))
    assert ["temperature" in body for body in sent] == [False, True]


def test_a_deerror_is_no_need(kit: Any):
    script = [kit.Reply(document=message(text()))]
    request = kit.ask(parameters={"temperature": 1, "logprobs": False})
    assert kit.talk(script, request, api="anthropic").completion.text == "yes"


def test_the_page_lists_what_endpoints_do_not_take():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "connect-a-provider.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index("| endpoint | ignored or rejected |")
    rows = lines[start + 2 : start + 2 + len(load_gaps())]
    assert [set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in rows] == [
        set(gap.names) for gap in load_gaps()
    ]


def test_images_and_files_are_sent_in_the_words_of_each_api(kit: Any, tmp_path: Path):
    (tmp_path / "a.webp").write_bytes(b"image")
    (tmp_path / "b.pdf").write_bytes(b"paper")
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("image", "paper")}
    image = Attachment(kind="image", path="a.webp", sha256=sums["image"], start=4)
    paper = Attachment(kind="pdf", path="b.pdf", sha256=sums["paper"], start=4 + len(image.name))
    content = f"See {image.name}{paper.name}"
    shown = Message(role="user", content=content, attachments=(image, paper))
    request = kit.ask(messages=(shown,), files=tmp_path)
    data = {name: base64.b64encode(name.encode()).decode() for name in ("image", "paper")}
    urls = f"data:image/webp;base64,{data['image']}", f"data:application/pdf;base64,{data['paper']}"
    script = [kit.Reply(document=response(said()))]
    [sent] = kit.talk(script, request, api="responses").endpoint.bodies[0]["input"]
    assert sent["content"] == [
        {"type": "input_text", "text": "See "},
        {"type": "input_image", "image_url": urls[0], "detail": "auto"},
        {"type": "input_file", "filename": "b.pdf", "file_data": urls[1]},
    ]
    script = [kit.Reply(document=message(text()))]
    [sent] = kit.talk(script, request, api="anthropic").endpoint.bodies[0]["messages"]
    source = {"type": "base64", "media_type": "image/webp", "data": data["image"]}
    document = {"type": "base64", "media_type": "application/pdf", "data": data["paper"]}
    assert sent["content"] == [
        {"type": "text", "text": "See "},
        {"type": "image", "source": source},
        {"type": "document", "source": document},
    ]
    (tmp_path / "a.webp").write_bytes(b"other")
    with pytest.raises(ProviderError, match=r"image a\.webp has changed since the case"):
        _ = kit.talk([], request).completion


def test_tool_calls_and_results_are_sent_in_the_words_of_each_api(kit: Any):
    call = ToolCall(id="call_1", name="page", arguments='{"who": "ann"}')
    request = kit.ask(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="Page Ann."),
            Message(role="assistant", content="", tool_calls=(call,)),
            Message(role="tool", content="paged", tool_call_id="call_1"),
        ),
        tools=(TOOL,),
    )
    chat = kit.talk([], request).endpoint.bodies[0]["messages"]
    assert chat[2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "page", "arguments": '{"who": "ann"}'},
                }
            ],
        },
        {"role": "tool", "content": "paged", "tool_call_id": "call_1"},
    ]
    script = [kit.Reply(document=response(said()))]
    sent = kit.talk(script, request, api="responses").endpoint.bodies[0]["input"]
    assert sent[2:] == [
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "page",
            "arguments": '{"who": "ann"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "paged"},
    ]
    script = [kit.Reply(document=message(text()))]
    turns = kit.talk(script, request, api="anthropic").endpoint.bodies[0]["messages"]
    assert turns[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "page", "input": {"who": "ann"}}
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "paged"}],
        },
    ]


def test_a_request_without_tools_keeps_its_digest(kit: Any):
    request = kit.ask()
    assert request.digest == "28e1641e010e31d647f8993bac06c2a57ce443ec3ae986a665ffb1e5b213c1b1"
    call = ToolCall(id="c", name="page", arguments="{}")
    with_call = Message(role="assistant", content="", tool_calls=(call,))
    asked = kit.ask(messages=(*request.messages, with_call))
    plain = kit.ask(messages=(*request.messages, Message(role="assistant", content="")))
    assert asked.digest != plain.digest


def test_published_prices_count_where_the_settings_set_none():
    own = PriceSettings(input_per_million=7.0, output_per_million=7.0)
    url, model = "https://api.anthropic.com/v1", "claude-sonnet-4-5"
    price = price_of({}, model, url=url)
    assert price is not None
    assert (price.input_per_million, price.output_per_million) == (3.0, 15.0)
    assert price_of({model: own}, model, url=url) is own
    assert cost_of(Usage(input_tokens=1_000, output_tokens=100), price) == pytest.approx(0.0045)
    # Beyond the first tier the price is another one.
    assert cost_of(Usage(input_tokens=300_000), price) is None


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("https://api.openai.com/v1", "no-such-model-at-all"),
        ("https://api.openai.com/v1", "text-embedding-3-small"),
        ("https://gateway.example.org/v1", "gpt-4o"),
        ("http://127.0.0.1:11434/v1", "gpt-4o"),
        ("", "gpt-4o"),
    ],
)
def test_a_price_that_is_not_listed_stays_unknown(url: str, model: str):
    assert price_of({}, model, url=url) is None


def test_the_endpoints_of_the_page_are_settings_and_lead_to_their_urls():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "connect-a-provider.md"
    (block,) = (
        block
        for block in re.findall(
            r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        if "providers.azure]" in block
    )
    tables = tomllib.loads(block)["tool"]["regauge"]["providers"]
    assert set(tables) == {"azure", "vertex", "bedrock", "gemini", "openrouter", "ollama"}
    for name, table in tables.items():
        sent: list[httpx2.Request] = []

        async def answer(request: httpx2.Request, sent: list[httpx2.Request] = sent) -> Any:
            sent.append(request)
            return httpx2.Response(200, json=CHAT)

        settings = EndpointSettings(
            **{**table, "api_key_command": [sys.executable, "-c", "print('a-key')"]}
            if "api_key_command" in table
            else table
        )
        environ = {settings.api_key_env: "a-key"} if settings.api_key_env else {}

        async def complete(
            settings: EndpointSettings = settings,
            name: str = name,
            environ: dict[str, str] = environ,
            answer: Any = answer,
        ) -> None:
            provider = RemoteProvider(
                settings, name=name, environ=environ, transport=httpx2.MockTransport(answer)
            )
            request = CompletionRequest(
                model="m",
                provider=name,
                messages=(Message(role="user", content="?"),),
                parameters={},
            )
            await provider.complete(request)
            await provider.aclose()

        asyncio.run(complete())
        (request,) = sent
        assert str(request.url).lower() == f"{table['base_url']}/chat/completions".lower()
        keyed = "api_key_env" in table or "api_key_command" in table
        assert ("a-key" in request.headers["authorization"]) == keyed


CHAT = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "y"}, "finish_reason": "stop"}],
}
