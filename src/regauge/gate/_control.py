"""Which numbers main's trials of today have, so that yesterday's never pass for them."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from regauge.gate._numbers import CONTROL_HOURS, stored_number
from regauge.recordings import RecordingKey

if TYPE_CHECKING:
    from regauge.runner import EvalSession, PlannedCase

__all__ = ["ControlNumbers"]


class ControlNumbers:
    """The trial numbers under which main is drawn today, case by case.

    What was drawn less than a day ago is taken up again, so a run that was cut off asks only for
    the rest.
    """

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._taken: defaultdict[PlannedCase, list[int]] = defaultdict(list)

    def number(self, planned: PlannedCase, nth: int) -> int:
        """The number of main's n-th trial of today, counted from 0.

        Older ones are passed over; where nothing may be asked, all that is recorded counts.
        """
        taken = self._taken[planned]
        stored = taken[-1] + 1 if taken else stored_number("main", 0)
        while len(taken) <= nth:
            if self._session.options.record == "none" or not self._old(planned, stored):
                taken.append(stored)
            stored += 1
        return taken[nth]

    def _old(self, planned: PlannedCase, stored: int) -> bool:
        if not planned.digest:
            planned.digest = planned.request(stored).digest
        recorded_at = self._session.answers.recorded_at(
            planned.suite.prompt.name, RecordingKey(planned.digest, stored)
        )
        if recorded_at is None:
            return False
        age = datetime.now(UTC) - datetime.fromisoformat(recorded_at)
        return age >= timedelta(hours=CONTROL_HOURS)
