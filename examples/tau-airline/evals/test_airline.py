"""100 recorded conversations of GPT-4o as an airline's agent, four trials of each task."""

import json

from regauge import golden
from regauge.judges import calls, calls_in_order, each_turn, in_turn, max_steps, never_calls

WRITING = (
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
)


def writing_calls_are_expected(completion, case):
    """The calls that changed the database are those of the task, in any order."""
    made, waiting = [], {}
    for message in completion.messages:
        waiting |= {call["id"]: call for call in message.get("tool_calls", ())}
        if message["role"] == "tool":
            call = waiting[message["tool_call_id"]]
            if call["name"] in WRITING and not message["content"].startswith("Error"):
                made.append(as_text(call["name"], json.loads(call["arguments"])))
    wanted = [as_text(call["name"], call["args"]) for call in case.expected["writes"]]
    return sorted(made) == sorted(wanted)


def as_text(name, arguments):
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


@golden("airline", target="gpt-4o", judges=[writing_calls_are_expected])
def test_airline(result):
    """Measured, not asserted: the agent solves less than half of the tasks."""
    assert result.outcome != "unmeasured"


@golden(
    "airline-calls",
    dataset="airline",
    target="gpt-4o",
    judges=[
        max_steps(40),
        never_calls("update_reservation_passengers"),
        ~calls_in_order("transfer_to_human_agents", "book_reservation"),
        ~in_turn(1, calls("book_reservation")),
        each_turn(~calls("cancel_reservation", at_least=4)),
    ],
)
def test_calls(result):
    """Rules of the policy that every trial keeps."""
    result.check()
