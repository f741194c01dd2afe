"""A completion as a conversation: its turns, steps, messages and text."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.providers import Completion, Conversation, ToolCall, Usage
from regauge.providers._types import shown_messages, shown_output, text_of

CALL = {"id": "c1", "name": "look", "arguments": '{"a": 1}'}
OPENAI = {"function": {"name": "look", "arguments": {"a": 1}}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None, *calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | ({"tool_calls": [*calls]} if calls else {})


def completion(text: str | None, *messages: dict[str, Any], calls: tuple[ToolCall, ...] = ()):
    return Completion(
        text=text,
        finish_reason="stop",
        usage=Usage(),
        model="m",
        provider="p",
        messages=messages,
        tool_calls=calls,
    )


SYSTEM = {"role": "system", "content": "Be kind."}
TOOL = {"role": "tool", "content": "found"}


@pytest.mark.parametrize(
    ("messages", "turns", "steps"),
    [
        ([], [("end", 0)], 1),
        ([SYSTEM], [("end", 0)], 1),
        ([user("a")], [("end", 1)], 1),
        ([user("a"), user("b")], [("end", 2)], 1),
        ([user("a"), said("x")], [("end", 2)], 1),
        ([SYSTEM, user("a"), said("x"), user("b"), said("y")], [("x", 2), ("end", 2)], 2),
        ([user("a"), said("x"), user("b")], [("x", 2), ("end", 1)], 1),
        ([user("a"), said(None, CALL), TOOL, said("x"), user("b"), said("y")], [("x", 4), ("end", 2)], 3),
        ([user("a"), said("x"), said("z"), user("b"), said(None, CALL)], [("z", 3), ("end", 2)], 3),
        ([{"role": "developer", "content": "d"}, user("a"), said("x")], [("end", 2)], 1),
    ],
)  # fmt: skip
def test_a_turn_begins_with_the_user(
    messages: list[dict[str, Any]], turns: list[tuple[str, int]], steps: int
):
    talk = Conversation(completion("end", *messages))
    assert [(turn.text, len(turn.messages)) for turn in talk.turns] == turns
    assert talk.steps == steps


def test_a_turn_has_its_own_calls_and_reason():
    own = (ToolCall(id="o", name="own", arguments="{}"),)
    messages = [user("a"), said(None, CALL, OPENAI), user("b"), said("y")]
    first, second = Conversation(completion(None, *messages, calls=own)).turns
    assert [(call.id, call.name, call.arguments) for call in first.tool_calls] == [
        ("c1", "look", '{"a": 1}'),
        ("call_1", "look", '{"a": 1}'),
    ]
    assert (first.text, first.finish_reason) == (None, "tool_calls")
    assert (second.text, second.finish_reason, second.tool_calls) == ("y", "stop", ())
    (alone,) = Conversation(completion("x", user("a"), calls=own)).turns
    assert alone.tool_calls == own
    _, last = Conversation(completion("x", user("a"), said("y"), user("b"), calls=own)).turns
    assert last.tool_calls == ()


def test_a_conversation_is_shown_with_the_text_of_its_completion():
    own = (ToolCall(id="o", name="own", arguments="{}"),)
    text = Conversation(completion("two\nlines", user("a"), calls=own)).text
    assert text == "user: a\nassistant: two\n  lines\ntool call: own({})"
    assert (
        Conversation(completion(None, user("a"), calls=own)).text == "user: a\ntool call: own({})"
    )
    complete = completion("x", user("a"), said("x"), TOOL)
    assert Conversation(complete).text == "user: a\nassistant: x\ntool result: found"
    assert shown_messages(completion("x")) == ()
    assert len(shown_messages(completion("x", calls=own))) == 1
    assert len(shown_messages(complete)) == 3
    assert shown_output("t", "r", [user("a")]) == "user: a"
    assert shown_output("t", "r", []) == "t"
    assert shown_output("", "r", []) == ""
    assert shown_output(None, "r", []) == "r"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("x", "x"),
        ([], ""),
        ([{"text": "a"}, {"text": "b"}], "a\nb"),
        ([{"text": "a"}, {"image": "ä"}], '[{"text": "a"}, {"image": "ä"}]'),
        ([{"text": 3}], '[{"text": 3}]'),
        (["a"], '["a"]'),
        ({"k": 1}, '{"k": 1}'),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(content: Any, text: str):
    assert text_of({"content": content}) == text
