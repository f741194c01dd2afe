"""Expected tokens of calls: those of the nearest recordings, else of the request's length."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from regauge.project import Project
from regauge.prompts import Message
from regauge.providers import Completion, CompletionRequest, Usage
from regauge.recordings import Recording, RecordingKey
from regauge.runner import EvalSession, RunOptions
from regauge.runner._expected import ExpectedUsage, output_sample, unrecorded_output
from regauge.runner._plan import CaseRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def request_of(*schema: str, text: str = "x" * 400, **parameters: Any) -> CompletionRequest:
    """A request of 100 tokens, whose completion has these properties, if any."""
    properties = {name: {"type": "string"} for name in schema}
    form = {"type": "json_schema", "json_schema": {"schema": {"properties": properties}}}
    return CompletionRequest(
        model="clerk-1",
        provider="sim",
        messages=(Message(role="user", content=text),),
        parameters=parameters,
        response_format=form if schema else None,
    )


def call_of(request: CompletionRequest, *, case: str = "c0", **more: Any) -> CaseRequest:
    return CaseRequest(
        request=request,
        key=RecordingKey(request.digest, 0),
        file="alert",
        prompt="alert",
        version="1.0.0",
        asker_digest="a",
        case=case,
        **more,
    )


def recorded(
    call: CaseRequest, given_in: int, given_out: int, approx: object = ..., **more: Any
) -> Recording:
    usage = Usage(input_tokens=given_in, output_tokens=given_out, **more)
    return Recording(
        key=call.key,
        prompt="alert",
        version="1.0.0",
        case=call.case,
        model=call.model,
        judge=call.judge,
        completion=Completion(text="ok", finish_reason="stop", usage=usage),
        recorded_at="2026-01-01T00:00:00Z",
        request={} if approx is ... else {"approx_tokens": approx},
    )


def expected_of(
    root: Path, call: CaseRequest, recordings: Sequence[Recording], *, expected: Any = None
) -> tuple[int, int, int]:
    with closing(EvalSession(Project(root=root), RunOptions(record="none"), environ={})) as session:
        session.completions.file("alert").merge(recordings, replace=False)
        usage = ExpectedUsage(session.completions).of_request(call, expected=expected)
    return usage.input_tokens, usage.cached_input_tokens, usage.output_tokens


MINE, NEXT, FAR = (request_of(text=letter * 400) for letter in "xyz")
CALL = call_of(MINE)
SAME, SAME_CASE, OTHER_CASE = CALL, call_of(NEXT), call_of(FAR, case="c9")
OF_JUDGE = call_of(NEXT, judge="tone")
OTHER_MODEL = call_of(replace(NEXT, model="clerk-2"))


@pytest.mark.parametrize(
    ("recordings", "tokens"),
    [
        # Nothing is recorded: the length of the request, and a usual completion.
        ([], (100, 0, 300)),
        ([recorded(OF_JUDGE, 10, 10)], (100, 0, 300)),
        ([recorded(SAME, 0, 0, 100)], (100, 0, 300)),
        # The nearest recordings count: the request, then the case, then the prompt.
        ([recorded(SAME, 150, 7, 100)], (150, 0, 7)),
        ([recorded(SAME, 0, 7, 100)], (100, 0, 7)),
        ([recorded(SAME, 60, 7, 100, cached_input_tokens=30)], (60, 30, 7)),
        ([recorded(SAME, 150, 7, 100), recorded(SAME_CASE, 999, 99, 100)], (150, 0, 7)),
        ([recorded(SAME_CASE, 50, 9, 100), recorded(OTHER_CASE, 999, 99, 100)], (50, 0, 9)),
        ([recorded(OTHER_CASE, 50, 9, 200)], (25, 0, 9)),
        # Requests are compared by their length, where recordings have it, else by their tokens.
        ([recorded(SAME_CASE, 50, 9)], (100, 0, 9)),
        ([recorded(SAME_CASE, 50, 9, "many")], (100, 0, 9)),
        # The mean of several.
        (
            [
                recorded(SAME_CASE, 50, 5, 100),
                recorded(replace(SAME_CASE, key=RecordingKey("e" * 64, 0)), 150, 10, 100),
            ],
            (100, 0, 8),
        ),
        # Other models count where the model has none, judges have theirs.
        ([recorded(OTHER_MODEL, 70, 4, 100)], (70, 0, 4)),
        ([recorded(OTHER_MODEL, 70, 4, 100), recorded(OTHER_CASE, 50, 9, 100)], (50, 0, 9)),
        ([recorded(OF_JUDGE, 70, 4, 100), recorded(OTHER_CASE, 50, 9, 100)], (50, 0, 9)),
    ],
)
def test_tokens_of_a_call_are_those_of_the_nearest_recordings(
    tmp_path: Path, recordings: list[Recording], tokens: tuple[int, int, int]
):
    assert expected_of(tmp_path, CALL, recordings) == tokens


def test_a_judge_writes_less_than_a_prompt_and_none_more_than_it_may(tmp_path: Path):
    assert expected_of(tmp_path, OF_JUDGE, []) == (100, 0, 80)
    short = call_of(request_of(max_tokens=20))
    assert expected_of(tmp_path, short, []) == (100, 0, 20)
    assert expected_of(tmp_path, short, [recorded(short, 100, 400, 100)]) == (100, 0, 20)
    assert expected_of(tmp_path, call_of(request_of(max_tokens=999)), []) == (100, 0, 300)
    assert expected_of(tmp_path, CALL, [], expected="y" * 80) == (100, 0, 20)


def test_calls_of_a_conversation_have_the_mean_of_its_recorded_calls(tmp_path: Path):
    talk = replace(MINE, conversation="d")
    calls = [replace(CALL, key=RecordingKey(letter * 64, 0)) for letter in "ef"]
    first, later = recorded(calls[0], 100, 4, 100), recorded(calls[1], 300, 6, 300)
    assert expected_of(tmp_path, replace(CALL, request=talk), [first, later]) == (200, 0, 5)


def test_a_completion_of_this_run_counts_once_the_recordings_were_read(tmp_path: Path):
    made = Completion(
        text="ok", finish_reason="stop", usage=Usage(input_tokens=40, output_tokens=2)
    )
    with closing(
        EvalSession(Project(root=tmp_path), RunOptions(record="none"), environ={})
    ) as session:
        usage = ExpectedUsage(session.completions)
        usage.add(CALL, made)  # its recording is read with the others
        assert usage.of_request(CALL).output_tokens == 300
        usage.add(CALL, made)
        assert usage.of_request(CALL) == made.usage


@pytest.mark.parametrize(
    ("schema", "expected", "tokens"),
    [
        ((), None, 300),
        ((), {"severity": "x" * 4000}, 300),  # facts for judges
        ((), "", 16),
        ((), "x" * 64, 16),
        ((), "x" * 65, 17),
        ((), ["x" * 64], 17),
        (("reason",), None, 16 + 2 + 25),
        (("reason",), "critical", 16 + 2 + 25),
        (("reason",), {"reason": "x" * 8}, 16 + 6),
        (("reason", "a"), {"reason": "x" * 8, "b": "x" * 80}, 16 + 6 + 1 + 25),
    ],
)
def test_an_unrecorded_output_is_as_long_as_what_is_expected_of_it(
    schema: tuple[str, ...], expected: Any, tokens: int
):
    assert unrecorded_output(request_of(*schema), expected) == tokens


_TEXTS = st.sampled_from(["", "critical", "größer", 'a "quoted" one', "x" * 120])
_FIELDS = st.dictionaries(st.sampled_from(["severity", "reason", "é", "b"]), _TEXTS)


@settings(max_examples=20)
@given(
    schema=st.sets(st.sampled_from(["severity", "reason", "owner"])).map(sorted),
    fields=_FIELDS,
    tokens=st.integers(0, 400),
)
def test_a_sample_has_what_is_expected_and_about_the_length(
    schema: list[str], fields: dict[str, str], tokens: int
):
    sample = output_sample(request_of(*schema), fields, tokens=tokens)
    read = json.loads(sample)
    assert list(read) == [*fields, *(name for name in schema if name not in fields)]
    assert {name: read[name] for name in fields} == fields
    unknown = [read[name] for name in schema if name not in fields]
    rest = tokens - len(json.dumps(fields, ensure_ascii=False)) / 4
    assert all(abs(len(text) - 4 * max(0, rest) / len(unknown)) <= 40 for text in unknown)


@pytest.mark.parametrize("expected", [None, "critical"])
def test_a_sample_without_a_schema_is_a_text(expected: Any):
    assert output_sample(request_of(), expected, tokens=0) == "These are the words of a sample."
    for tokens in (8, 16, 100):
        assert abs(len(output_sample(request_of(), expected, tokens=tokens)) - 4 * tokens) <= 33
