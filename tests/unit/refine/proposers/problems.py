"""A prompt that fails a check, as proposers are told of it, and models that answer from a list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regauge.datasets import GoldenCase
from regauge.providers import Completion, Usage
from regauge.refine._policy import GuardPolicy, RefinePolicy, RunLimits
from regauge.refine.analysis import Check, CheckOutcome, FailureMode, Outcome, Tally
from regauge.refine.edits import PromptText
from regauge.refine.guards import Guard
from regauge.refine.loop._state import LoopConfig, LoopState
from regauge.refine.problem import problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.providers import CompletionRequest
    from regauge.refine.proposers._protocol import Problem

RELEASED = """\
You rate alerts.

Severities:
- critical: somebody has to be woken up.
- warning: somebody has to look at it.

Answer with one JSON object only. Its keys:
- severity: critical or warning.
- reason: one sentence of at most 30 words.
"""
LIMIT = Check(
    name="max_words(30, field=reason)",
    criterion="format",
    advice="Keep `reason` to at most 30 words.",
    description="The answer has at most `n` words.",
)
SEVERITY = Check(
    name="field_equals(severity)",
    description="A field of the JSON answer has the expected value.",
)
USER = "<alert>\n{{alert}}\n</alert>"


def prompt(system: str) -> PromptText:
    """A prompt with the alert in its second message."""
    return PromptText.from_contents(system, USER)


def mode(check: Check = LIMIT, *, code: str = "too_long") -> FailureMode:
    """Failures of one check."""
    return FailureMode(
        check=check.name,
        code=code,
        cases=("one", "two", "three"),
        failing=("one", "two"),
        failures=8,
        trials=9,
        p_flaky=1e-6,
    )


CASES = {
    "one": GoldenCase(
        id="one",
        inputs={"alert": "Half of the pods of the billing cluster restart all the time."},
        expected={"severity": "critical", "owner": "team-quokka", "minutes": 4711},
        split="train",
        location="x:1",
    ),
    "two": GoldenCase(
        id="two",
        inputs={"alert": "One node of the search cluster is unreachable."},
        expected={"severity": "warning", "owner": "team-wombat", "minutes": 17},
        split="train",
        location="x:2",
    ),
    "three": GoldenCase(
        id="three",
        inputs={"alert": "A certificate expires in six days."},
        expected={"severity": "warning", "owner": "team-numbat", "minutes": 23},
        split="train",
        location="x:3",
    ),
    "held": GoldenCase(
        id="held",
        inputs={"alert": "CANARY-INPUT of the holdout"},
        expected={"severity": "CANARY-EXPECTED"},
        split="holdout",
        location="x:4",
    ),
}


def told(
    system: str, *, check: Check = LIMIT, critique: Any = None, **more: Any
) -> tuple[LoopConfig, LoopState, Problem]:
    """What a run says to a proposer, with trials of train and holdout behind it."""
    text = prompt(system)
    config = LoopConfig(
        base=text,
        train=("one", "two", "three"),
        holdout=("held",),
        checks={LIMIT.name: LIMIT, SEVERITY.name: SEVERITY},
        guard=Guard(text, [], [], GuardPolicy(), replaceable=more.pop("replaceable", ())),
        policy=RefinePolicy(limits=RunLimits(model_calls=more.pop("model_calls", 40))),
        proposers=("model",),
    )
    outcomes = [
        Outcome(
            text=text.digest,
            case=case,
            trial=0,
            output=f'{{"severity": "{golden.expected["severity"]}", "note": "CANARY-ANSWER {case}"}}'  # type: ignore[index, call-overload] - an object each
            if case == "held"
            else '{"severity": "critical"}',
            checks=(
                CheckOutcome(
                    check=check.name,
                    passed=case == "three",
                    code="too_long",
                    reason=f"'critical' where {golden.expected['severity']!r} was wanted",  # type: ignore[index, call-overload]
                ),
            ),
        )
        for case, golden in CASES.items()
    ]
    memory = more.pop("memory", None)
    state = LoopState(
        config=config, phase="propose", text=text, tally=Tally().with_outcomes(outcomes)
    )
    if memory is not None:
        state = replace(state, memory=memory)
    failures = mode(check)
    state = replace(state, open_modes=(failures,), critique=critique)
    return config, state, problem_of(state, CASES, **more)


class Replies:
    """A model that gives prepared replies and keeps what it was asked; the last one is repeated."""

    def __init__(self, *replies: str) -> None:
        self._replies = list(replies)
        self.asked: list[CompletionRequest] = []

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The next reply."""
        self.asked.append(request)
        text = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return Completion(
            text=text,
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1),
            model="m",
            provider="p",
            latency_s=0.0,
            cost_usd=0.01,
        )

    @property
    def said(self) -> str:
        """All that was asked, in one text."""
        return "\n".join(m.content for request in self.asked for m in request.messages)


def without(system: str, *lines: str) -> str:
    """A text without some lines."""
    return "\n".join(line for line in system.split("\n") if line not in lines)


def strategies(edits: Sequence[Any]) -> list[str]:
    """How edits were thought of, in order."""
    return [edit.strategy for edit in edits]
