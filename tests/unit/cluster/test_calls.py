"""Calls and results as JSON text: what a worker reads is what the driver wrote."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, strategies as st

from regauge.cluster._calls import (
    encode,
    error_from,
    error_to_json,
    request_from,
    request_to_json,
    result_from,
    result_to_json,
)
from regauge.errors import ProviderError
from regauge.prompts import Attachment, Message, ToolCall
from regauge.providers import AttemptError, Completion, CompletionRequest, Usage
from regauge.providers._rate import Quota

TEXTS = st.text()
NUMBERS = st.floats(0, 1e6)
MAYBE = st.none() | NUMBERS
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
TABLES = st.dictionaries(TEXTS, JSONS, max_size=3)
CALLS = st.builds(ToolCall, id=TEXTS, name=TEXTS, arguments=TEXTS)
ATTACHED = st.builds(Attachment, kind=st.sampled_from(["image", "pdf"]), path=TEXTS, sha256=TEXTS)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS,
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    tool_call_id=TEXTS,
    attachments=st.lists(ATTACHED, max_size=2).map(tuple),
)
REQUESTS = st.builds(
    CompletionRequest,
    model=TEXTS,
    provider=TEXTS,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    parameters=TABLES,
    response_format=st.none() | TABLES,
    tools=st.lists(TABLES, max_size=2).map(tuple),
    trial=st.integers(0, 9),
    origin=TEXTS,
    named_by=TEXTS,
    files=st.just(Path("/driver/project/fixtures")),
    optional=st.lists(TEXTS, max_size=2).map(tuple),
)
QUOTAS = st.lists(
    st.builds(Quota, tokens=st.booleans(), limit=NUMBERS, remaining=NUMBERS, reset_s=NUMBERS),
    max_size=2,
).map(tuple)


@given(REQUESTS)
def test_a_worker_makes_the_request_of_the_driver_with_files_of_its_own_project(request_):
    text = encode(request_to_json(request_, root=Path("/driver/project")))
    read = request_from(json.loads(text), root=Path("/worker"))
    assert read == request_
    assert read.digest == request_.digest
    assert (read.named_by, read.optional) == (request_.named_by, request_.optional)
    if any(message.attachments for message in request_.messages):
        assert read.files == Path("/worker/fixtures")


@given(st.builds(Completion, text=st.none() | TEXTS, model=TEXTS, latency_s=MAYBE), QUOTAS)
def test_a_driver_reads_the_completion_of_a_worker(completion, quotas):
    assert result_from(json.loads(encode(result_to_json(completion, quotas)))) == (
        completion,
        quotas,
    )


def test_usage_and_tool_calls_come_back():
    completion = Completion(
        text=None,
        finish_reason="tool_calls",
        tool_calls=(ToolCall(id="1", name="find", arguments="{"),),
        usage=Usage(input_tokens=5, output_tokens=7, cached_input_tokens=2),
        cost_usd=0.25,
        fingerprint="fp",
    )
    assert result_from(json.loads(encode(result_to_json(completion, ()))))[0] == completion


@given(
    st.builds(
        AttemptError,
        TEXTS,
        kind=TEXTS,
        status=st.none() | st.integers(100, 599),
        transient=st.booleans(),
        retry_after_s=MAYBE,
        param=TEXTS,
    ),
    QUOTAS,
    st.booleans(),
)
def test_the_error_of_an_attempt_comes_back_with_what_decides_a_retry(error, quotas, never_sent):
    error.quotas, error.never_sent = quotas, never_sent
    read = error_from(json.loads(encode(error_to_json(error))))
    assert isinstance(read, AttemptError)
    assert str(read) == str(error)
    assert vars(read) == vars(error)


def test_an_error_that_is_final_stays_final():
    read = error_from(json.loads(encode(error_to_json(ProviderError("No.", kind="not-found")))))
    assert not isinstance(read, AttemptError)
    assert (str(read), read.kind) == ("No.", "not-found")
