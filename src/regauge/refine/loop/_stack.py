"""Which of several accepted edits the gate refuses: asked about fewer of them, by halves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.attempts import named
from regauge.refine.loop._findings import Note

if TYPE_CHECKING:
    from regauge.refine.loop._findings import Stack, StopReason
    from regauge.refine.loop._state import State

__all__ = ["passed", "passed_part", "refused", "trying"]


def refused(stack: Stack, edits: int) -> Stack:
    """What is known once the gate refused so many of the first edits."""
    return replace(stack, refused=edits)


def passed(stack: Stack, edits: int) -> Stack:
    """What is known once the gate accepted so many of the first edits."""
    return replace(stack, passed=edits)


def trying(state: State, stack: Stack) -> State:
    """Ask the gate about fewer of the first edits."""
    first = stack.edits[: stack.tried]
    note = Note(
        event="bisected",
        subject=first[-1].text.digest,
        text=f"the suite refuses the first {stack.refused} of {len(stack.edits)} edits together"
        f" and accepts {stack.passed}: {len(first)} are tried",
        numbers={
            "edits": len(stack.edits),
            "refused": stack.refused,
            "passed": stack.passed,
            "tried": len(first),
        },
    )
    return state.noting(note, stack=stack, accepted=first, text=first[-1].text, phase="suite")


def passed_part(state: State, reason: StopReason) -> State:
    """Go on with the most edits that the gate is known to accept; a limit forbids to ask on."""
    stack = state.stack
    assert stack is not None
    first = stack.edits[: stack.passed]
    notes = [
        Note(
            event="set-aside",
            subject=edit.text.digest,
            text=f"{edit.edit.strategy} for {edit.cluster.key}: not verified",
            numbers=named(edit.edit),
        )
        for edit in stack.edits[stack.passed :]
    ]
    return state.noting(
        *notes,
        stack=None,
        accepted=first,
        text=first[-1].text,
        taken_back=stack.detail,
        ending=reason,
    )
