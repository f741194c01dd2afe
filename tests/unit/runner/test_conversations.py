"""The turns, tool calls and end of a conversation, with completions that a test states."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import Script, load_dataset
from regauge.errors import DatasetError, MissingRecordingError, PromptError
from regauge.project import Project
from regauge.prompts import ToolCall, parse_prompt
from regauge.providers import Completion, Usage
from regauge.runner import EvalSession, PlannedCase, PlannedTrial, RunOptions, SourcedCompletion
from regauge.runner._completions import Completions
from regauge.runner._conversation import (
    ConversationError,
    Partners,
    bind_partners,
    calls_of,
    converse,
    replay,
)
from regauge.runner._expected import ExpectedUsage

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.runner._plan import CaseRequest

TOOLS = """\
look:
  - args: {id: 7, tags: [a, b]}
    result: {state: sent}
  - args: {id: 8}
    error: gone
"*":
  - args: {free: true}
    result: any tool
"""
PERSONA = """\
version: 1.0.0
model: sim:clerk-1
messages:
  - role: user
    content: "You are {{name}}. So far: {{conversation}}"
"""
SYSTEM = "version: 1.0.0\nmodel: sim:clerk-1\nmessages:\n  - role: system\n    content: Help.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {
        "fixtures/tools/shop.yml": TOOLS,
        "prompts/ann.prompt.yml": PERSONA,
        "prompts/deaf.prompt.yml": PERSONA.replace("conversation", "history"),
        "prompts/mute.prompt.yml": PERSONA.replace("model: sim:clerk-1\n", ""),
        "prompts/odd.prompt.yml": "messages: [",
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return tmp_path


def case_of(root: Path, **keys: Any) -> Any:
    path = root / "fixtures/golden/talk.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"id": "a", "inputs": {}} | keys))
    (case,) = load_dataset(path, fixtures_dir=root / "fixtures")
    return case


def trial_of(root: Path, made: Any, prompt: str = SYSTEM, **keys: Any) -> PlannedTrial:
    case = case_of(root, **keys)
    suite = replace(
        made.suite(),
        prompt=parse_prompt(prompt, path=root / "prompts/talk.prompt.yml"),
        partners=bind_partners([case], Project(root=root), offline=True),
    )
    return PlannedTrial(PlannedCase(suite, case), 3)


def said(text: str | None = None, *calls: tuple[str, str], **more: Any) -> Completion:
    given = {"finish_reason": "tool_calls" if calls else "stop", "latency_s": 0.5, "cost_usd": 0.25}
    tool_calls = tuple(
        ToolCall(id=str(number), name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(calls)
    )
    usage = Usage(input_tokens=10, output_tokens=2)
    return Completion(text=text, tool_calls=tool_calls, usage=usage, **{**given, **more})


def talk(
    trial: PlannedTrial, *completions: Completion
) -> tuple[SourcedCompletion, list[CaseRequest]]:
    """The conversation with these completions, and its calls."""
    requests: list[CaseRequest] = []

    async def call(case_request: CaseRequest) -> SourcedCompletion:
        requests.append(case_request)
        return SourcedCompletion(completion=completions[len(requests) - 1], source="live")

    sourced = asyncio.run(converse(trial, call))
    assert len(requests) == len(completions)
    return sourced, requests


def failure(trial: PlannedTrial, *completions: Completion) -> str:
    with pytest.raises(ConversationError) as caught:
        talk(trial, *completions)
    text = str(caught.value)
    assert text.startswith("case 'a': ")
    assert "(fixtures/golden/talk.jsonl:1)\n  fix: " in text
    return text


def test_turns_are_answered_in_order_and_counted_together(root: Path, made: Any):
    trial = trial_of(root, made, turns=[{"user": "Hi"}, {"user": "Bye"}])
    sourced, requests = talk(trial, said("Hello.", attempts=2), said("See you.", context=("c",)))
    completion = sourced.completion
    assert [(m["role"], m["content"]) for m in completion.messages] == [
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "Bye"),
        ("assistant", "See you."),
    ]
    assert (completion.text, completion.context) == ("See you.", ("c",))
    assert completion.usage == Usage(input_tokens=20, output_tokens=4)
    assert (completion.latency_s, completion.cost_usd, completion.attempts) == (1.0, 0.5, 2)
    assert [len(request.request.messages) for request in requests] == [2, 4]
    assert {request.request.trial for request in requests} == {3}


def test_an_attachment_of_a_turn_is_sent_and_named_in_the_record(root: Path, made: Any):
    (root / "fixtures/a.png").write_bytes(b"\x89PNG\r\n")
    trial = trial_of(root, made, turns=[{"user": ["See ", {"image": "a.png"}]}])
    sourced, (request,) = talk(trial, said("Seen."))
    message = request.request.messages[-1]
    assert [part.path for part in message.attachments] == ["a.png"]
    assert sourced.completion.messages[0] == {"role": "user", "content": "See [image: a.png]"}


@pytest.mark.parametrize(
    "last",
    [{"refusal": "No."}, {"text": "x", "finish_reason": "content_filter"}],
    ids=["refused", "filtered"],
)
def test_a_refusal_ends_a_conversation(root: Path, made: Any, last: dict[str, Any]):
    trial = trial_of(root, made, turns=[{"user": "Hi"}, {"user": "Bye"}])
    sourced, _ = talk(trial, said(**{"text": None, **last}))
    assert [m["content"] for m in sourced.completion.messages] == ["Hi", last.get("refusal", "x")]


def test_a_first_turn_without_text_needs_a_prompt_that_ends_with_the_user(root: Path, made: Any):
    prompt = f"{SYSTEM}  - role: user\n    content: Hi there\n"
    trial = trial_of(root, made, prompt, turns=[{"expected": "x"}, {"user": "Bye"}])
    sourced, _ = talk(trial, said("Hello."), said("See you."))
    assert [m["content"] for m in sourced.completion.messages] == [
        "Hi there",
        "Hello.",
        "Bye",
        "See you.",
    ]
    trial = trial_of(root, made, turns=[{"expected": "x"}])
    assert "turn 1 has no `user`, and the prompt does not end with" in failure(trial)


def test_a_case_with_tools_alone_is_one_turn_of_the_prompt(root: Path, made: Any):
    prompt = f"{SYSTEM}  - role: user\n    content: Where?\n"
    trial = trial_of(root, made, prompt, tools="shop")
    sourced, requests = talk(trial, said(None, ("look", '{"id": 8, "x": 1}')), said("Gone."))
    assert [m["role"] for m in sourced.completion.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [call.name for call in sourced.completion.tool_calls] == ["look"]
    assert requests[1].request.messages[-1].tool_call_id == "0"


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("look", '{"id": 7, "tags": ["a", "b"]}', '{"state": "sent"}'),
        ("look", '{"id": 8}', '{"error": "gone"}'),
        ("look", '{"id": 8, "tags": []}', '{"error": "gone"}'),
        ("look", "{", '{"error": "the arguments are not a JSON object"}'),
        ("look", "[8]", '{"error": "the arguments are not a JSON object"}'),
        ("other", '{"free": true}', "any tool"),
        ("look", '{"free": true}', "any tool"),
    ],
)
def test_a_call_gets_the_result_of_its_arguments(
    root: Path, made: Any, name: str, arguments: str, result: str
):
    trial = trial_of(root, made, turns=[{"user": "Hi"}], tools="shop")
    sourced, _ = talk(trial, said(None, (name, arguments)), said("Done."))
    assert sourced.completion.messages[2]["content"] == result


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look", '{"id": 7}'),
        ("look", '{"id": 7, "tags": ["a"]}'),
        ("look", '{"id": 7, "tags": ["b", "a"]}'),
        ("look", '{"id": 7, "tags": ["a", "c"]}'),
        ("look", '{"id": 7, "tags": ["c", "b"]}'),
        ("look", '{"id": 7, "tags": ["a", "b", "c"]}'),
        ("look", '{"id": 7, "tags": "ab"}'),
        ("look", '{"id": 7, "tags": {"a": "b"}}'),
        ("look", ""),
        ("other", '{"free": 1}'),
    ],
)
def test_a_call_without_a_result_is_named_with_what_to_write(
    root: Path, made: Any, name: str, arguments: str
):
    trial = trial_of(root, made, turns=[{"user": "Hi"}], tools="shop")
    text = failure(trial, said(None, (name, arguments)))
    assert f"no result for the call {name}({arguments}) in turn 1" in text
    assert f"fixtures/tools/shop.yml under `{name}:` as `- args: {arguments or '{}'}` with" in text
    without = trial_of(root, made, turns=[{"user": "Hi"}])
    assert "add `tools: NAME`" in failure(without, said(None, (name, arguments)))


def test_a_turn_has_an_end(root: Path, made: Any):
    call = said(None, ("look", '{"id": 8}'))
    trial = trial_of(root, made, turns=[{"user": "Hi"}], tools="shop", max_steps=3)
    sourced, _ = talk(trial, call, call, said("Done."))
    assert sourced.completion.text == "Done."
    assert "turn 1 did not end within 3 calls of the model" in failure(trial, call, call, call)


def test_a_persona_sees_the_texts_and_ends_the_conversation(root: Path, made: Any):
    keys = {"persona": "ann", "inputs": {"name": "Ann"}, "max_turns": 2, "tools": "shop"}
    trial = trial_of(root, made, **keys)
    sourced, requests = talk(
        trial,
        said("Hi "),
        said(None, ("look", '{"id": 8}')),
        said("Gone."),
        said("Thanks."),
        said("Welcome."),
        said("[END]"),
    )
    assert [m["content"] for m in sourced.completion.messages if m["role"] == "user"] == [
        "Hi",
        "Thanks.",
    ]
    shown = requests[3].request.messages[0].content
    assert shown.startswith("You are Ann. So far: ")
    assert "Hi" in shown
    assert "Gone." in shown
    assert "error" not in shown
    assert requests[0].request.origin == "ann.prompt.yml"
    suite = trial.planned_case.eval
    persona = suite.partners.personas["ann"].prompt
    assert [request.caller_digest for request in requests] == [
        persona.digest,
        suite.prompt.digest,
        suite.prompt.digest,
        persona.digest,
        suite.prompt.digest,
        persona.digest,
    ]
    assert "no end within 2 turns of the persona 'ann'" in failure(
        trial, said("a"), said("b"), said("c"), said("d"), said("e")
    )
    assert "the persona 'ann' ended before its first message" in failure(trial, said("[END]"))
    for nothing in (None, " "):
        assert "the persona 'ann' wrote nothing" in failure(trial, said(nothing))


def test_personas_that_cannot_take_part_are_named_with_their_case(root: Path):
    project = Project(root=root)

    def bind(name: str) -> Partners:
        return bind_partners([case_of(root, persona=name)], project, offline=True)

    assert str(bind("ann").personas["ann"].model) == "sim:clerk-1"
    for name, words in (
        ("deaf", "the persona 'deaf' does not see the conversation\n  fix: put {{conversation}}"),
        ("mute", "the persona 'mute' has no model\n  fix: add `model: provider:model` to its"),
        ("none", "persona: "),
    ):
        with pytest.raises(DatasetError) as caught:
            bind(name)
        assert str(caught.value).startswith("fixtures/golden/talk.jsonl:1: ")
        assert words in str(caught.value)
    with pytest.raises(PromptError, match=r"odd\.prompt\.yml:1: not YAML"):
        bind("odd")
    (root / "pyproject.toml").write_text('[tool.regauge]\nmodel = "sim:judge-1"\n')
    project = Project(root=root)
    assert str(bind("mute").personas["mute"].model) == "sim:judge-1"


def test_a_conversation_is_replayed_as_far_as_it_is_recorded(root: Path, made: Any):
    trial = trial_of(root, made, turns=[{"user": "Hi"}, {"user": "Bye"}])
    live, requests = talk(trial, said("Hello."), said("See you."))
    recorded = dict(zip((r.key for r in requests), ("Hello.", "See you."), strict=True))

    def find(case_request: CaseRequest) -> SourcedCompletion | None:
        text = recorded.get(case_request.key)
        return None if text is None else SourcedCompletion(completion=said(text), source="store")

    again = replay(trial, find)
    assert again is not None
    assert again.completion == live.completion
    assert [call.key for call in calls_of(trial, find)[1]] == [call.key for call in requests]
    del recorded[requests[1].key]
    assert replay(trial, find) is None
    sourced, calls = calls_of(trial, find)
    assert (sourced, [request.key for request in calls]) == (None, [requests[0].key])
    stuck = trial_of(root, made, turns=[{"expected": "x"}])
    assert calls_of(stuck, find) == (None, [])


def test_a_conversation_that_no_recording_continues_is_not_missing(root: Path, made: Any):
    completions = Completions(Project(root=root), "none", environ={})
    stuck = trial_of(root, made, turns=[{"expected": "x"}])
    unrecorded = trial_of(root, made, turns=[{"user": "Hi"}])
    present = [completions.has(trial.planned_case, trial.key) for trial in (stuck, unrecorded)]
    assert present == [True, False]
    completions.finish(complete=False)


@pytest.mark.parametrize(
    ("keys", "calls"),
    [
        ({}, 1),
        ({"turns": [{"user": "Hi"}]}, 1),
        ({"turns": [{"user": "Hi"}, {"user": "Bye"}]}, 2),
        ({"turns": [{"user": "Hi"}, {"user": "Bye"}], "tools": "shop"}, 4),
        ({"persona": "ann", "max_turns": 3, "inputs": {"name": "A"}}, 6),
        ({"persona": "ann", "max_turns": 3, "tools": "shop", "inputs": {"name": "A"}}, 9),
    ],
)
def test_calls_of_a_conversation_are_estimated_without_recordings(
    root: Path, made: Any, keys: dict[str, Any], calls: int
):
    trial = trial_of(root, made, **keys)
    session = EvalSession(Project(root=root), RunOptions(record="none"), environ={})
    usage = ExpectedUsage(session.completions)
    expected, tokens = usage.calls_of_trial(trial)
    assert expected == calls
    (single, of_call) = usage.calls_of_trial(trial_of(root, made))
    assert single == 1
    assert tokens.output_tokens == calls * of_call.output_tokens
    session.close()


def test_a_call_of_no_case_without_a_recording_is_missing(root: Path, made: Any):
    _, (request,) = talk(trial_of(root, made, turns=[{"user": "Hi"}]), said("Hello."))
    session = EvalSession(Project(root=root), RunOptions(record="none"), environ={})

    async def complete() -> None:
        async with session.open_trials() as trials:
            await trials.complete(request)

    with pytest.raises(MissingRecordingError) as caught:
        asyncio.run(complete())
    assert (caught.value.case, caught.value.trial, caught.value.stale) == ("a", 3, False)
    session.close()


def test_the_digest_of_partners_follows_persona_and_script(root: Path):
    project = Project(root=root)
    case = case_of(root, persona="ann", inputs={"name": "A", "x": "y"})
    partners = bind_partners([case], project, offline=True)
    other = Script(persona="ann", max_turns=11)
    assert partners.digest_of(case.script) == partners.digest_of(Script(persona="ann"))
    assert partners.digest_of(case.script) != partners.digest_of(other)
    prompt = parse_prompt(SYSTEM, path=root / "prompts/talk.prompt.yml")
    assert partners.inputs_of(case, "ann", prompt) == {"x": "y"}
    assert [loaded.name for loaded in partners.prompts] == ["ann"]
    (root / "prompts/ann.prompt.yml").write_text(PERSONA.replace("You are", "Be"))
    changed = bind_partners([case], project, offline=True)
    assert changed.digest_of(case.script) != partners.digest_of(case.script)
