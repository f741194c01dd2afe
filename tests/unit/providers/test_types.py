"""Requests, completions and model ids as values."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, strategies as st

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.prompts import Message
from regauge.providers import Completion, CompletionRequest, ToolCall, Usage, parse_model_id

texts = st.text(max_size=30)
counts = st.integers(min_value=0, max_value=10**9)
numbers = st.floats(min_value=0, max_value=1e6, allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cached_input_tokens=counts,
    reasoning_tokens=counts,
)
completions = st.builds(
    Completion,
    text=st.none() | texts,
    finish_reason=st.sampled_from(["stop", "length", "content_filter", "tool_calls", "unknown"]),
    refusal=st.none() | texts,
    tool_calls=st.lists(st.builds(ToolCall, id=texts, name=texts, arguments=texts), max_size=2).map(
        tuple
    ),
    usage=usages,
    model=texts,
    fingerprint=st.none() | texts,
    provider=texts,
    latency_s=numbers,
    cost_usd=st.none() | numbers,
    attempts=st.integers(min_value=1, max_value=9),
)
requests = st.builds(
    CompletionRequest,
    model=texts,
    provider=texts,
    messages=st.lists(
        st.builds(Message, role=st.sampled_from(["system", "user"]), content=texts), max_size=3
    ).map(tuple),
    parameters=st.dictionaries(texts, values, max_size=3),
    response_format=st.none() | st.dictionaries(texts, values, max_size=2),
    trial=counts,
    origin=texts,
)


@given(completions)
def test_a_completion_survives_json(completion):
    assert Completion.from_json(json.loads(json.dumps(completion.to_json()))) == completion


@given(requests)
def test_the_digest_is_that_of_the_canonical_request(request):
    assert request.digest == digest_of(
        {
            "provider": request.provider,
            "model": request.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "parameters": request.parameters,
            "response_format": request.response_format,
            "tools": list(request.tools),
        }
    )


@given(requests, counts, texts)
def test_trial_and_origin_are_no_part_of_the_digest(request, trial, origin):
    assert replace(request, trial=trial, origin=origin).digest == request.digest
    assert request.for_trial(trial) == replace(request, trial=trial)
    assert request.for_trial(trial).digest == request.digest


def test_anything_else_changes_the_digest():
    message = Message(role="user", content="?")
    request = CompletionRequest(model="m", provider="p", messages=(message,), parameters={})
    others = [
        replace(request, model="n"),
        replace(request, provider="q"),
        replace(request, messages=(Message(role="system", content="?"),)),
        replace(request, parameters={"seed": 1}),
        replace(request, response_format={"type": "json_object"}),
        replace(request, tools=({"type": "function"},)),
    ]
    assert len({request.digest, *(other.digest for other in others)}) == 7


def test_read_only_mappings_have_the_digest_of_what_they_show():
    inner = MappingProxyType({"type": "json_object"})
    view = CompletionRequest(
        model="m", provider="p", messages=(), parameters=MappingProxyType({}), response_format=inner
    )
    assert view.digest == replace(view, parameters={}, response_format=dict(inner)).digest


@given(usages, usages)
def test_usage_adds_up(one, other):
    total = one + other
    assert total.input_tokens == one.input_tokens + other.input_tokens
    assert total == other + one
    assert one + Usage() == one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"usage": None}, "cannot be read"),
        ({"usage": {"inputs": 3}}, "inputs"),
        ({"finish_reason": "bored"}, "'bored' is not a finish reason"),
        ({"finish_reason": ["stop"]}, "cannot be read"),
        ({"text": 3}, "neither text nor null"),
        ({"refusal": 3}, "neither text nor null"),
        ({"fingerprint": []}, "neither text nor null"),
        *(
            ({"latency_s": value}, "a (count|number) of the completion is")
            for value in (-1, True, "1", math.nan)
        ),
        *(
            ({"cost_usd": value}, "a (count|number) of the completion is")
            for value in (-0.1, "1", math.inf)
        ),
        *(
            ({"usage": {"input_tokens": value}}, "a (count|number) of the completion is")
            for value in (-1, 1.5, None)
        ),
        ({"attempts": "2"}, "a (count|number) of the completion is"),
        ({"provider": None}, "cannot be read"),
        ({"context": [1]}, "cannot be read"),
        ({"messages": ["hello"]}, "cannot be read"),
        ({"tool_calls": [{"id": "1"}]}, "cannot be read"),
        ({"model": ...}, "has no 'model'"),
    ],
)
def test_a_document_that_is_no_completion_says_what_is_wrong(change, words):
    good = Completion(
        text="a", finish_reason="stop", usage=Usage(), model="m", provider="p", latency_s=0.1
    )
    document = {k: v for k, v in {**good.to_json(), **change}.items() if v is not ...}
    with pytest.raises(ValueError, match=words):
        Completion.from_json(document)


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("sim:clerk-1", "sim", "clerk-1"),
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("local:llama3:8b", "local", "llama3:8b"),
        ("router:meta/llama-3:free", "router", "meta/llama-3:free"),
        ("meta/llama:8b", "meta", "llama:8b"),
        (" openai:gpt-5-mini ", "openai", "gpt-5-mini"),
    ],
)
def test_a_model_id_names_provider_and_model(text, provider, model):
    read = parse_model_id(text)
    assert (read.provider, read.model) == (provider, model)
    assert parse_model_id(str(read)) == read


@pytest.mark.parametrize("text", ["a b:c", "a:b c"])
def test_a_model_id_with_a_space_says_so(text):
    with pytest.raises(UsageError, match=r"p\.yml:3: the model '.*' has a space\n  fix: write "):
        parse_model_id(text, location="p.yml:3")


def test_a_model_id_without_a_model_says_so():
    with pytest.raises(UsageError, match=r"p\.yml:3: 'openai:' names no model\n  fix: .*:MODEL"):
        parse_model_id("openai:", location="p.yml:3")


@pytest.mark.parametrize("text", ["gpt-4o", "", ":", ":gpt", "/x"])
def test_a_model_id_without_a_provider_says_how_to_write_it(text):
    with pytest.raises(UsageError, match=r"p\.yml:3: .* names no provider") as caught:
        parse_model_id(text, location="p.yml:3")
    assert "provider:model" in str(caught.value)
