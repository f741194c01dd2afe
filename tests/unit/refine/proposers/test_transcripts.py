"""What rules propose for prompts of many layouts, what models are asked, and how replies are read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from regauge.judges.model.response import ResponseError
from regauge.refine.analysis import Check, FailureMode
from regauge.refine.attempts import Attempt, Memory
from regauge.refine.edits import EditError, PromptText, apply
from regauge.refine.loop._state import Critique
from regauge.refine.proposers._rules import propose_by_rules
from regauge.refine.proposers.model import ProposerCalls, critique_in, edit_in, request_critique
from tests.transcripts import assert_as_written
from tests.unit.refine.proposers.problems import (
    RELEASED,
    SEVERITY,
    Replies,
    mode,
    prompt,
    told,
    without,
)
from tests.unit.refine.proposers.test_proposers_model import ADD, CRITIQUE, MODEL, NOW, proposals
from tests.unit.statements.texts import TEXTS, difference

ADVICE = (
    "Keep `reason` to at most 30 words.",
    "Write at most 60 words.",
    "Never guess!",
    "You must use slang.",
    "You should not quote dates as YYYY-MM-DD.",
    "A ticket has one kind, and at most 3 labels.",
    "A ticket has two kinds.",
    "- Answer in JSON.",
    "Answer in XML. Use one key.",
    "",
)


@pytest.mark.parametrize("name", TEXTS)
def test_rules_propose_what_was_written_down(name: str):
    text = PromptText.from_contents(TEXTS[name])
    lines: list[str] = []
    for advice in ADVICE:
        check = Check(name="c", advice=advice)
        failures = FailureMode(check="c", failures=3, trials=4)
        lines.append(f"== {advice!r}")
        lines += [
            f"{edit.strategy} by {edit.proposer}, {edit.rationale}:"
            f" {difference(text.full_text, apply(text, edit.ops).full_text)}"
            for edit in propose_by_rules(text, failures, {"c": check})
        ]
    assert_as_written("\n".join([*lines, ""]), f"proposers/rules on {name}")


TRIED = Memory(
    tuple(
        Attempt(
            before="a",
            after=str(number),
            failure_mode=mode().key if number % 4 else "another",
            added_text=f"- line {number}",
            removed_text="- old" if number % 3 == 0 else "",
            result=("refuted", "screened-out", "accepted", "undecided", "rejected-by-person")[
                number % 5
            ],  # type: ignore[arg-type]
            detail=f"detail {number}",
            cycle=number // 4,
            places="# Rules" if number % 2 else "",
        )
        for number in range(22)
    )
)
ASKED: dict[str, dict[str, Any]] = {
    "plain": {},
    "goldens shown": {"show_expected": True},
    "severity": {"check": SEVERITY},
    "tried before": {"memory": TRIED},
    "criticised": {
        "critique": Critique(
            kind="missing",
            hypothesis="No line limits it.",
            author="critic",
            quotes=("9| - severity",),
        )
    },
}


@pytest.mark.parametrize("name", ASKED)
def test_a_model_is_asked_what_was_written_down(name: str):
    """Recordings are keyed by these words."""
    _, ask = proposals(json.dumps(ADD), **ASKED[name])
    critic = Replies(json.dumps(CRITIQUE))
    asyncio.run(request_critique(MODEL, told(NOW, **ASKED[name])[2], ProposerCalls(critic, 40)))
    lines = [
        f"== {message.role}, trial {request.trial}, {dict(request.parameters)}\n{message.content}"
        for request in (ask.asked[0], ask.asked[-1], critic.asked[0])
        for message in request.messages
    ]
    assert_as_written("\n".join([*lines, ""]), f"proposers/asked {name}")


def op(kind: str = "insert_after", **more: Any) -> dict[str, Any]:
    return {
        "op": kind,
        "line": "- severity: critical or warning.",
        "find": "",
        "text": "- x.",
        **more,
    }


REPLIES: dict[str, Any] = {
    "an addition": {"rationale": "r", "ops": [op()]},
    "before": {"rationale": "r", "ops": [op("insert_before")]},
    "a deletion": {"rationale": "r", "ops": [op("delete")]},
    "a replacement": {"rationale": "r", "ops": [op("replace", find="critical", text="fatal")]},
    "a whole line": {"rationale": "r", "ops": [op("replace", text="- severity: any.")]},
    "two kinds": {"rationale": "r", "ops": [op(), op("delete")]},
    "numbered": {
        "rationale": "r",
        "ops": [op(line="8| - severity: critical or warning.", text="9| - x.")],
    },
    "no such line": {"rationale": "r", "ops": [op(line="- nothing of it")]},
    "no such word": {"rationale": "r", "ops": [op("replace", find="nowhere")]},
    "no operation": {"rationale": "r", "ops": []},
    "an unknown one": {"rationale": "r", "ops": [op("rewrite")]},
    "not an object": [1],
    "odd operations": {"rationale": "r", "ops": ["x"]},
    "without text": {"rationale": "r", "ops": [op(text="")]},
    "two lines": {"rationale": "r", "ops": [op(text="- x.\n- y.")]},
    "many": {"rationale": "r", "ops": [op(text=f"- {number}.") for number in range(4)]},
}


def test_replies_are_read_as_it_was_written_down():
    text, lines = prompt(RELEASED), []
    replies = {name: json.dumps(reply) for name, reply in REPLIES.items()}
    replies |= {
        "fenced": f"```json\n{replies['an addition']}\n```",
        "prose": "I would rather not.",
        "the whole prompt": RELEASED.replace("You rate alerts.", "You rate alerts, kindly."),
        "the whole prompt, fenced": f"```\n{without(RELEASED, '- critical: somebody has to be woken up.')}\n```",
        "empty": "",
        "cut off": replies["an addition"][:-9],
    }
    for name, reply in replies.items():
        try:
            edit = edit_in(reply, text, proposer="model:m")
            made = difference(text.full_text, apply(text, edit.ops).full_text)
        except (ResponseError, EditError) as error:
            lines.append(f"{name}: {type(error).__name__}, {error}")
        else:
            lines.append(f"{name}: {edit.strategy} {edit.proposer} {edit.rationale!r}, {made}")
    for reply in (
        CRITIQUE,
        {**CRITIQUE, "kind": "golden-wrong"},
        {**CRITIQUE, "kind": "odd"},
        {},
        [1],
    ):
        try:
            lines.append(str(critique_in(json.dumps(reply), author="critic")))
        except ResponseError as error:
            lines.append(f"{type(error).__name__}, {error}")
    assert_as_written("\n".join([*lines, ""]), "proposers/replies")
