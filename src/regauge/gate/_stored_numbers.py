"""Which stored trials the trials of a gate's candidate are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.gate._numbers import EVALS_FIRST, HISTORY_FIRST, stored_number
from regauge.recordings import RecordingKey

if TYPE_CHECKING:
    from regauge.runner import EvalSession, PlannedCase

__all__ = ["StoredNumbers"]


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
