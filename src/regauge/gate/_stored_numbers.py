"""Which stored trials a gate's trials are: what was kept of them is found again, and no other."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.gate._numbers import CONTROL_HOURS, EVALS_FIRST, HISTORY_FIRST, stored_number
from regauge.recordings import RecordingKey

if TYPE_CHECKING:
    from regauge.runner import EvalSession, PlannedCase

__all__ = ["StoredNumbers"]


class StoredNumbers:
    """The numbers under which the trials of a gate are stored, request by request.

    The candidate's trials have the gate's own numbers. Where no model may be called and none of
    these is there, those of the evals serve in their place. Trials of main count that are close
    in time to the candidate's, so that a comparison that is continued takes its own again.
    """

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._replays = session.options.record == "none"
        self._candidates: dict[str, bool] = {}
        self._main: defaultdict[str, list[int]] = defaultdict(list)

    def of_candidate(self, planned: PlannedCase, nth: int) -> int:
        """The number of the candidate's n-th trial, counted from 0."""
        own = stored_number("candidate", nth)
        digest = _digest(planned)
        if not self._replays or not digest:
            return own
        known = self._candidates.get(digest)
        if known is None:
            first = RecordingKey(digest, stored_number("candidate", 0))
            known = self._candidates[digest] = self._session.answers.has(planned, first)
        # Trials behind those of the evals are main's history.
        return own if known or EVALS_FIRST + nth >= HISTORY_FIRST else EVALS_FIRST + nth

    def of_main(self, planned: PlannedCase, nth: int, *, near: datetime | None = None) -> int:
        """The number of main's n-th trial, counted from 0.

        Args:
            planned: What main is asked.
            nth: Which.
            near: When the candidate's trials next to it were made; now, where they are still to
                be. Stored trials of another day are passed over; where no model may be called, all
                that is recorded counts.
        """
        digest = _digest(planned)
        taken = self._main[digest]
        stored = taken[-1] + 1 if taken else stored_number("main", 0)
        while len(taken) <= nth:
            if self._replays or not digest or not self._far(planned, stored, near):
                taken.append(stored)
            stored += 1
        return taken[nth]

    def made_at(self, planned: PlannedCase, nth: int) -> datetime | None:
        """When the candidate's n-th trial was made; None where it is still to be."""
        digest = _digest(planned)
        if not digest:
            return None
        return self._made_at(planned, RecordingKey(digest, self.of_candidate(planned, nth)))

    def _far(self, planned: PlannedCase, stored: int, near: datetime | None) -> bool:
        made_at = self._made_at(planned, RecordingKey(planned.digest, stored))
        if made_at is None:
            return False
        return abs((near or datetime.now(UTC)) - made_at) >= timedelta(hours=CONTROL_HOURS)

    def _made_at(self, planned: PlannedCase, key: RecordingKey) -> datetime | None:
        recorded_at = self._session.answers.recorded_at(planned, key)
        return datetime.fromisoformat(recorded_at) if recorded_at is not None else None


def _digest(planned: PlannedCase) -> str:
    """The digest of what is asked; empty where the case cannot be asked, which its trials say."""
    if planned.error is not None:
        return ""
    if not planned.digest:
        try:
            planned.digest = planned.request(0).digest
        except RegaugeError:
            return ""
    return planned.digest
