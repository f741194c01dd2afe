"""Trial numbers of the gate: which numbers belong to which arm, so that no answer serves twice.

An answer is recorded under its request and its trial number. The number says what the answer was
drawn for. Answers that chose or admitted a prompt must never count as its history, or the best of
several equal prompts would look better than it is; so each purpose has numbers of its own.
"""

from __future__ import annotations

from typing import Final, Literal

from regauge.errors import UsageError

__all__ = [
    "CANDIDATE_FIRST",
    "CONTROL_FIRST",
    "CONTROL_HOURS",
    "GATE_FIRST",
    "HISTORY_FIRST",
    "REVISION_FIRST",
    "check_trials",
    "stored_number",
]

CANDIDATE_FIRST: Final = 0
"""Evals and the gate's candidate count from here."""

HISTORY_FIRST: Final = 100
"""Baselines count from here: trials of main that nothing was decided by."""

CONTROL_FIRST: Final = 1000
"""Main, drawn again on the day of a comparison, counts from here."""

REVISION_FIRST: Final = 2000
"""Revisions that a refinement tries out count from here; the gate then draws them from 0."""

GATE_FIRST: Final = 3000
"""The gate's own trials of a candidate count from here."""

CONTROL_HOURS: Final = 24
"""A control trial from the local store is today's when it was recorded less than so long ago."""


def stored_number(arm: Literal["candidate", "main"], number: int) -> int:
    """The number under which the gate's n-th trial of an arm is recorded, both counted from 0.

    >>> stored_number("candidate", 2), stored_number("main", 2)
    (2, 1002)
    """
    return number + (CONTROL_FIRST if arm == "main" else CANDIDATE_FIRST)


def check_trials(trials: int, *, what: str) -> None:
    """Refuse so many trials of a candidate that they would run into main's history.

    Args:
        trials: How many, counted from 0.
        what: Who wants them, for the message.

    Raises:
        UsageError: There are too many.
    """
    if trials > HISTORY_FIRST:
        raise UsageError(
            f"{what} wants {trials} trials of a case; trials from number {HISTORY_FIRST} on belong"
            f" to main's history\n  fix: ask for at most {HISTORY_FIRST}"
        )
