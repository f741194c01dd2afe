"""Trial numbers of the gate, and the stored trials that they stand for.

An answer is recorded under its request and its trial number. The number says what the answer was
drawn for. Answers that chose or admitted a prompt must never count as its history, or the best of
several equal prompts would look better than it is; so each purpose has numbers of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from regauge.errors import RegaugeError
from regauge.recordings import RecordingKey
from regauge.runner import IndependentTrials

if TYPE_CHECKING:
    from regauge.runner import EvalSession, PlannedCase

__all__ = [
    "CANDIDATE_FIRST",
    "CONTROL_FIRST",
    "EVALS_COPIES",
    "EVALS_FIRST",
    "GATE_TRIALS",
    "HISTORY_FIRST",
    "REVISION_FIRST",
    "StoredNumbers",
    "stored_number",
]

EVALS_FIRST: Final = 0
"""Evals count from here; they may be recorded again."""

HISTORY_FIRST: Final = 100
"""Baselines count from here: trials of main that nothing was decided by."""

CONTROL_FIRST: Final = 1000
"""Main, drawn again on the day of a comparison, counts from here."""

REVISION_FIRST: Final = 2000
"""Revisions that a refinement tries out count from here; the gate then draws its own."""

CANDIDATE_FIRST: Final = 3000
"""The gate's candidate counts from here."""

GATE_TRIALS: Final = IndependentTrials(
    first=CONTROL_FIRST,
    unpublished=range(CONTROL_FIRST, CANDIDATE_FIRST),
    store="gate/trials.sqlite3",
)
"""The gate's own trials. A CI job carries them to the next one by keeping `.regauge/gate`."""


EVALS_COPIES: Final = HISTORY_FIRST - EVALS_FIRST
"""The most trials of a candidate that evals may find as theirs."""


def stored_number(arm: Literal["candidate", "main"], number: int) -> int:
    """The number under which the gate's n-th trial of an arm is recorded, both counted from 0.

    >>> stored_number("candidate", 2), stored_number("main", 2)
    (3002, 1002)
    """
    return number + (CONTROL_FIRST if arm == "main" else CANDIDATE_FIRST)


class StoredNumbers:
    """The numbers under which the candidate's trials are stored, request by request.

    They have the gate's own numbers. Where no model may be called and none of these is there,
    those of the evals serve in their place.
    """

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._replays = session.options.record == "none"
        self._candidates: dict[str, bool] = {}

    def of_candidate(self, planned: PlannedCase, nth: int) -> int:
        """The number of the candidate's n-th trial, counted from 0."""
        own = stored_number("candidate", nth)
        if not self._replays:
            return own
        try:
            digest = planned.plan()
        except RegaugeError:  # the case cannot be asked, which its trials say
            return own
        known = self._candidates.get(digest)
        if known is None:
            first = RecordingKey(digest, stored_number("candidate", 0))
            known = self._candidates[digest] = self._session.answers.has(planned, first)
        # Trials behind those of the evals are main's history.
        return own if known or EVALS_FIRST + nth >= HISTORY_FIRST else EVALS_FIRST + nth
