"""The simulated model calls declared tools and fills skeletons, by the rules of its page."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from regauge.prompts import Message, ToolCall
from regauge.sim import complete
from tests.unit.sim.bench import request

if TYPE_CHECKING:
    from regauge.providers import CompletionRequest

SYSTEM = (
    "Fill the slots of the skeleton with the values of the request. A slot that the request states no"
    " value for stays as it is. Answer with the snippet only: no prose, no code fence."
)
ORDER = {
    "type": "function",
    "function": {
        "name": "lookup_order",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "integer"}},
            "required": ["order_id"],
        },
    },
}
IMAGE = {
    "type": "function",
    "function": {
        "name": "lookup_image",
        "parameters": {
            "type": "object",
            "properties": {"service": {"type": "string"}},
            "required": ["service"],
        },
    },
}


def ask(
    wanted: str, skeleton: str, *, tools: tuple = (), system: str = SYSTEM
) -> CompletionRequest:
    user = f"<request>{wanted}</request>\n<skeleton>\n{skeleton}\n</skeleton>\n"
    return dataclasses.replace(request(system, user), tools=tools)


def answered(asked: CompletionRequest, result: object) -> CompletionRequest:
    """The conversation after the call that a completion makes, with the tool's result."""
    (call,) = complete(asked).tool_calls
    content = result if isinstance(result, str) else json.dumps(result)
    turn = Message(role="assistant", content="", tool_calls=(call,))
    reply = Message(role="tool", content=content, tool_call_id=call.id)
    return dataclasses.replace(asked, messages=(*asked.messages, turn, reply))


@pytest.mark.parametrize(
    ("wanted", "skeleton", "filled"),
    [
        ("Region eu-west-1 please.", "region: <region>", "region: eu-west-1"),
        ("We want 3 replicas.", "replicas: <replicas>", "replicas: 3"),
        ("The log level should be debug.", "level: <log_level>", "level: debug"),
        ("Owner is `team a`, size 2.", "o: <owner>\ns: <size>", "o: team a\ns: 2"),
        ("From port 80 to the target port 8080.", "a: <target_port>", "a: 8080"),
        ("A network in 10.8.0.0/16.", 'cidr = "<vpc_cidr>"', 'cidr = "10.8.0.0/16"'),
        ("Nothing is known.", "a: <size>", "a: <size>"),
    ],
)
def test_slots_take_the_values_that_the_request_states(wanted: str, skeleton: str, filled: str):
    assert complete(ask(wanted, skeleton)).text == filled


def test_it_invents_what_is_not_stated_where_the_prompt_does_not_forbid_it():
    loose = "Fill the skeleton. Answer with the snippet only: no code fence."
    assert (
        complete(ask("Anything.", "image: <image>", system=loose)).text == "image: example:latest"
    )


def test_prose_and_fences_come_where_the_prompt_does_not_exclude_them():
    asked = [ask(f"We want {n} replicas.", "n: <replicas>", system="Fill it.") for n in range(60)]
    texts = [complete(one).text or "" for one in asked]
    assert 10 < sum("```" in text for text in texts) < 45
    clean = [complete(ask(f"We want {n} replicas.", "n: <replicas>")).text for n in range(60)]
    assert sum(text == f"n: {n}" for n, text in enumerate(clean)) >= 56


def test_a_tool_gives_the_value_that_the_request_does_not_state():
    asked = ask(
        "The image of the service web, 2 replicas.", "i: <image>\nr: <replicas>", tools=(IMAGE,)
    )
    completion = complete(asked)
    assert completion.text is None
    assert completion.finish_reason == "tool_calls"
    [call] = completion.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("lookup_image", {"service": "web"})
    assert complete(answered(asked, {"image": "web:1.4.2"})).text == "i: web:1.4.2\nr: 2"
    assert complete(answered(asked, "web:1.4.2")).text == "i: web:1.4.2\nr: 2"


def test_a_tool_that_the_conversation_speaks_of_is_called_once():
    asked = dataclasses.replace(
        request("You help customers.", "Where is my order? The order id is 4711."), tools=(ORDER,)
    )
    [call] = complete(asked).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("lookup_order", {"order_id": 4711})
    told = complete(answered(asked, {"status": "It was shipped on Monday."}))
    assert told.tool_calls == ()
    assert "shipped on Monday" in (told.text or "")


def test_a_call_needs_its_required_arguments_and_a_choice_forbids_or_forces_it():
    asked = dataclasses.replace(request("You help.", "Where is my order?"), tools=(ORDER,))
    assert complete(asked).tool_calls == ()
    forced = {"tool_choice": "required"}
    assert complete(dataclasses.replace(asked, parameters=forced)).tool_calls == (
        ToolCall(id="call_1", name="lookup_order", arguments="{}"),
    )
    stated = dataclasses.replace(
        request("You help.", "Where is order 5? Its order id is 5."), tools=(ORDER,)
    )
    none = dataclasses.replace(stated, parameters={"tool_choice": "none"})
    assert complete(stated).tool_calls
    assert complete(none).tool_calls == ()
