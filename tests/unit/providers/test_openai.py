"""The openai provider against a real HTTP server: what it sends, and what it makes of answers."""

from __future__ import annotations

import json
import math

import pytest

from regauge.errors import ProviderError
from regauge.project import EndpointSettings, PriceSettings
from regauge.providers import ToolCall, Usage
from regauge.providers.remote import RemoteProvider


def test_an_answer_becomes_a_completion(kit):
    completion = kit.talk([]).completion
    assert completion.text == "yes"
    assert completion.finish_reason == "stop"
    assert completion.model == "gpt-9-2031-01-01"
    assert completion.fingerprint == "fp_7"
    assert completion.provider == "local"
    assert completion.usage == Usage(input_tokens=1000, output_tokens=100)
    assert completion.cost_usd is None
    assert completion.attempts == 1
    assert 0 < completion.latency_s < 5


def test_the_body_holds_what_was_asked(kit):
    schema = {"type": "json_object"}
    tools = ({"type": "function", "function": {"name": "page"}},)
    request = kit.ask(
        parameters={"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low"},
        response_format=schema,
        tools=tools,
    )
    talk = kit.talk([], request)
    assert talk.endpoint.bodies == [
        {
            "model": "gpt-9",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "?"},
            ],
            "temperature": 0.5,
            "max_tokens": 9,
            "reasoning_effort": "low",
            "response_format": schema,
            "tools": list(tools),
        }
    ]


def test_all_requests_have_the_same_headers(kit):
    message = type(kit.ask().messages[0])
    requests = [
        kit.ask(messages=(message(role="user", content=text),)) for text in ("a", "bb", "ccc")
    ]
    talk = kit.talk(
        [],
        *requests,
        concurrency=1,
        api_key_env="KEY",
        headers_env={"X-Team": "TEAM"},
        environ={"KEY": "abc", "TEAM": "core"},
    )
    heads = [
        {line for line in head.lower().splitlines() if not line.startswith("content-length")}
        for head in talk.endpoint.heads
    ]
    assert heads[0] == heads[1] == heads[2]
    assert {"authorization: bearer abc", "x-team: core"} < heads[2]


@pytest.mark.parametrize(
    "failing",
    [
        {"status": 400, "document": {"error": {"message": "no such thing"}}},
        {"status": 307, "headers": {"location": "/elsewhere"}},
        {"drop": True},
        {"wire": b"no HTTP\r\n\r\n"},
    ],
    ids=["refused", "redirected", "dropped", "no-http"],
)
def test_an_error_reads_the_same_after_a_completion(kit, failing):
    def words(*replies):
        talk = kit.talk(list(replies), *[kit.ask()] * len(replies), concurrency=1, max_attempts=1)
        error = talk.results[-1]
        assert isinstance(error, ProviderError)
        return str(error).replace(talk.endpoint.base_url, "URL")

    assert words(kit.Reply(**failing)) == words(kit.Reply(), kit.Reply(**failing))


def test_text_of_any_script_survives_both_ways(kit):
    text = 'Grüße, 中文, 🦉, \\ "quoted"\n\u2028\x00'
    request = kit.ask(messages=(type(kit.ask().messages[0])(role="user", content=text),))
    talk = kit.talk([kit.Reply(document=kit.chat(text))], request)
    assert talk.endpoint.bodies[0]["messages"][0]["content"] == text
    assert talk.completion.text == text


def test_the_trial_becomes_a_seed_only_where_the_endpoint_wants_it(kit):
    request = kit.ask(trial=3, parameters={"seed": 40})
    assert kit.talk([], request).endpoint.bodies[0]["seed"] == 40
    assert kit.talk([], request, vary_seed=True).endpoint.bodies[0]["seed"] == 43


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("end_turn", "stop"),
        (None, "unknown"),
        ("meteor", "unknown"),
    ],
)
def test_every_finish_reason_has_one_of_our_names(kit, sent, read):
    assert kit.talk([kit.Reply(document=kit.chat(finish=sent))]).completion.finish_reason == read


def test_a_refusal_is_kept_and_has_no_text(kit):
    reply = kit.Reply(document=kit.chat(None, refusal="I will not."))
    completion = kit.talk([reply]).completion
    assert (completion.text, completion.refusal) == (None, "I will not.")


def test_null_content_after_a_stop_is_empty_text_and_otherwise_none(kit):
    assert kit.talk([kit.Reply(document=kit.chat(None))]).completion.text == ""
    for content in (None, ""):
        cut = kit.Reply(document=kit.chat(content, finish="content_filter"))
        assert kit.talk([cut]).completion.text is None


def test_content_in_parts_is_joined(kit):
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert kit.talk([kit.Reply(document=kit.chat(parts))]).completion.text == "ab"


def test_tool_calls_are_read_with_text_or_objects_as_arguments(kit):
    calls = [
        {"id": "1", "type": "function", "function": {"name": "page", "arguments": '{"who": 1'}},
        {"function": {"name": "wait", "arguments": {"s": 5}}},
    ]
    reply = kit.Reply(document=kit.chat(None, finish="tool_calls", tool_calls=calls))
    assert kit.talk([reply]).completion.tool_calls == (
        ToolCall(id="1", name="page", arguments='{"who": 1'),
        ToolCall(id="", name="wait", arguments='{"s": 5}'),
    )


def test_usage_details_are_read_and_priced(kit):
    document = kit.chat()
    document["usage"]["prompt_tokens_details"] = {"cached_tokens": 400}
    document["usage"]["completion_tokens_details"] = {"reasoning_tokens": 60}
    price = PriceSettings(
        input_per_million=1.0, output_per_million=10.0, cached_input_per_million=0.1
    )
    completion = kit.talk([kit.Reply(document=document)], prices={"gpt-9": price}).completion
    assert completion.usage == Usage(
        input_tokens=1000, output_tokens=100, cached_input_tokens=400, reasoning_tokens=60
    )
    assert completion.cost_usd == pytest.approx(600e-6 + 40e-6 + 1000e-6)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": None},
        "many",
        {"prompt_tokens": "x"},
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": math.inf},
        {"prompt_tokens": 10**400},
    ],
)
def test_missing_usage_is_no_tokens_and_no_known_cost(kit, usage):
    document = kit.chat() | {"usage": usage}
    price = PriceSettings(input_per_million=1.0, output_per_million=10.0)
    completion = kit.talk([kit.Reply(document=document)], prices={"gpt-9": price}).completion
    assert completion.usage == Usage()
    assert completion.cost_usd in (None, 0.0)
    if usage != {"prompt_tokens": None}:
        assert completion.cost_usd is None


def test_a_very_large_answer_is_read_whole(kit):
    text = "0123456789abcdef" * 500_000
    assert kit.talk([kit.Reply(document=kit.chat(text))]).completion.text == text


def test_the_key_and_further_headers_come_from_the_environment(kit):
    talk = kit.talk(
        [],
        environ={"MY_KEY": "key-1\n", "TEAM": "sre"},
        api_key_env="MY_KEY",
        headers_env={"X-Team": "TEAM"},
    )
    assert talk.completion
    head = talk.endpoint.heads[0].lower()
    assert "authorization: bearer key-1\r\n" in head
    assert "x-team: sre\r\n" in head
    assert "content-type: application/json\r\n" in head


def test_a_server_of_ones_own_gets_a_placeholder_and_never_the_openai_key(kit, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    talk = kit.talk([], environ={"OPENAI_API_KEY": "sk-secret"})
    assert "authorization: bearer no-key" in talk.endpoint.heads[0].lower()
    assert "secret" not in talk.endpoint.heads[0]


def test_a_missing_key_names_the_variable_and_the_setting(kit):
    talk = kit.talk([], api_key_env="MY_KEY")
    (error,) = talk.results
    assert isinstance(error, ProviderError)
    assert error.kind == "authentication"
    assert "MY_KEY is not set" in str(error)
    assert "[tool.regauge.providers.local]" in str(error)
    assert talk.endpoint.bodies == []


def test_settings_are_checked_without_asking_anybody():
    settings = EndpointSettings(base_url="http://x/v1", headers_env={"X-Team": "TEAM"})
    provider = RemoteProvider(settings, name="local", environ={})
    with pytest.raises(ProviderError, match="TEAM is not set"):
        provider.check()
    RemoteProvider(settings, name="local", environ={"TEAM": "a"}).check()


def test_openai_itself_needs_its_key_and_says_so():
    provider = RemoteProvider(EndpointSettings(), name="openai", environ={})
    with pytest.raises(ProviderError, match="OPENAI_API_KEY is not set"):
        provider.check()


def test_requests_in_flight_never_exceed_the_concurrency(kit):
    requests = [kit.ask(trial=n) for n in range(40)]
    talk = kit.talk(lambda *_: kit.Reply(wait_s=0.02), *requests, concurrency=5)
    assert talk.endpoint.most_in_flight == 5
    assert len(talk.endpoint.bodies) == 40


def test_auto_concurrency_grows_while_nobody_objects(kit):
    requests = [kit.ask(trial=n) for n in range(300)]
    talk = kit.talk(lambda *_: kit.Reply(wait_s=0.02), *requests)
    assert talk.provider.window.size == 64
    assert 16 < talk.endpoint.most_in_flight <= 64


def test_what_is_no_single_whole_answer_is_refused_before_it_is_sent(kit):
    parts = ({"model": "other"}, {"messages": []}, {"input": "x"}, {"system": "x"})
    for parameters in ({"n": 3}, {"stream": True}, *parts):
        (error,) = kit.talk([], kit.ask(parameters=parameters)).results
        assert isinstance(error, ProviderError), parameters
        assert error.kind == "bad-request"
        assert "prompts/alert.prompt.yml" in str(error)
    assert "n" not in kit.talk([], kit.ask(parameters={"n": 1})).endpoint.bodies[0]


def test_a_limit_goes_out_under_the_name_the_model_takes(kit):
    def script(_, body):
        if "max_tokens" in body:
            said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            error = {"message": said, "code": "unsupported_parameter", "param": "max_tokens"}
            return kit.Reply(status=400, document={"error": error})
        return kit.Reply()

    requests = [kit.ask(parameters={"max_tokens": 7}, trial=n) for n in range(20)]
    talk = kit.talk(script, *requests, concurrency=4)
    assert all(not isinstance(result, BaseException) for result in talk.results)
    assert talk.endpoint.bodies[-1]["max_completion_tokens"] == 7
    assert sum("max_tokens" in body for body in talk.endpoint.bodies) <= 4


def test_a_limit_is_tried_under_its_other_name_again_once_that_is_refused(kit):
    accepted = ["max_completion_tokens", "max_completion_tokens", "max_tokens", "max_tokens"]
    done = []

    def script(_, body):
        name = accepted[min(len(done), 3)]
        if name not in body:
            error = {"message": "no", "code": "unsupported_parameter"}
            error["param"] = next((key for key in body if "tokens" in key), "max_tokens")
            return kit.Reply(status=400, document={"error": error})
        done.append(name)
        return kit.Reply()

    requests = [kit.ask(parameters={"max_tokens": 7}, trial=n) for n in range(4)]
    talk = kit.talk(script, *requests, concurrency=1)
    assert [result.text for result in talk.results] == ["yes"] * 4
    assert len(talk.endpoint.bodies) == 6
    without = kit.talk(script, kit.ask(parameters={"top_p": 0.5}))
    assert without.results[0].kind == "bad-request"


def test_a_limit_with_one_name_is_tried_once(kit):
    error = {"message": "no", "code": "unsupported_parameter", "param": "max_output_tokens"}
    reply = kit.Reply(status=400, document={"error": error})
    talk = kit.talk([reply], kit.ask(parameters={"max_tokens": 7}), api="responses")
    assert (talk.results[0].kind, len(talk.endpoint.bodies)) == ("bad-request", 1)


def test_a_rejected_parameter_that_is_no_limit_is_not_tried_again(kit):
    error = {"message": "no", "code": "unsupported_parameter", "param": "top_p"}
    reply = kit.Reply(status=400, document={"error": error})
    talk = kit.talk(lambda *_: reply, kit.ask(parameters={"max_tokens": 7, "top_p": 0.5}))
    assert isinstance(talk.results[0], BaseException)
    assert len(talk.endpoint.bodies) == 1


def test_the_recorded_form_is_json(kit):
    completion = kit.talk([]).completion
    assert type(completion).from_json(json.loads(json.dumps(completion.to_json()))) == completion
