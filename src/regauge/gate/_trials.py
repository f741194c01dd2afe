"""Trials of the gate: their stored numbers and their facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from regauge.digests import digest_of
from regauge.errors import MissingOutputError, MissingRecordingError, RegaugeError
from regauge.gate._types import TrialFacts
from regauge.providers import shown_messages, shown_output
from regauge.recordings import RecordingKey
from regauge.runner import IndependentTrials, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from regauge.gate._types import NotRecorded, Side
    from regauge.runner import EvalSession, PlannedCase, Trial


EVALS_FIRST: Final = 0
"""First trial number of the evals, which may be recorded again."""

BASELINE_FIRST: Final = 100
"""First trial number of baselines: trials of the base that decide nothing."""

CONTROL_FIRST: Final = 1000
"""First trial number of the base in a gate run."""

REVISION_FIRST: Final = 2000
"""First trial number of revisions in a refinement run; the gate runs its own trials."""

CANDIDATE_FIRST: Final = 3000
"""First trial number of the candidate in a gate run."""

GATE_TRIALS: Final = IndependentTrials(
    first=CONTROL_FIRST,
    unpublished=range(CONTROL_FIRST, CANDIDATE_FIRST),
    store="gate/trials.sqlite3",
)
"""The gate's own trials. CI jobs share them by caching `.regauge/gate`."""


EVALS_COPIES: Final = BASELINE_FIRST - EVALS_FIRST
"""Limit of candidate trials that evals can reuse."""


def stored_number(side: Side, number: int) -> int:
    """The number under which the gate's n-th trial of a side is recorded, both from 0.

    >>> stored_number("candidate", 2), stored_number("base", 2)
    (3002, 1002)
    """
    return number + (CONTROL_FIRST if side == "base" else CANDIDATE_FIRST)


class StoredNumbers:
    """The numbers under which the candidate's trials are stored, by request.

    They are the gate's own numbers. In a replay without any of these, the numbers of the evals are
    used instead.
    """

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._replays = session.options.record == "none"
        self._candidates: dict[str, bool] = {}

    def planned_trial(self, planned_case: PlannedCase, side: Side, nth: int) -> PlannedTrial:
        """The n-th trial of a side, from 0."""
        is_base = side == "base"
        number = stored_number("base", nth) if is_base else self.of_candidate(planned_case, nth)
        return PlannedTrial(planned_case, number)

    def of_candidate(self, planned_case: PlannedCase, nth: int) -> int:
        """The number of the candidate's n-th trial, from 0."""
        number = stored_number("candidate", nth)
        if not self._replays:
            return number
        try:
            digest = planned_case.plan()
        except RegaugeError:  # the request cannot be built, which its trials report
            return number
        is_recorded = self._candidates.get(digest)
        if is_recorded is None:
            first = RecordingKey(digest, stored_number("candidate", 0))
            is_recorded = self._candidates[digest] = self._session.completions.has(
                planned_case, first
            )
        # Numbers after those of the evals belong to the baseline.
        return number if is_recorded or EVALS_FIRST + nth >= BASELINE_FIRST else EVALS_FIRST + nth


_UNAVAILABLE = frozenset({MissingOutputError.__name__, "unavailable"})


def facts_of_trial(
    trial: Trial, checks: Iterable[str], *, graded: Collection[str]
) -> TrialFacts | None:
    """The results of the required checks in one trial; None if it is unmeasured.

    Args:
        trial: A trial of either side.
        checks: Names of the required judges.
        graded: Judges whose scores are compared as well.
    """
    if trial.error is not None or trial.sourced_completion is None:
        return None
    completion = trial.sourced_completion.completion
    return _facts(
        {
            judgement.judge: (judgement.verdict.outcome, judgement.verdict.score)
            for judgement in trial.verdicts
        },
        checks,
        graded,
        answer=shown_output(completion.text, completion.refusal, shown_messages(completion)),
    )


def facts_of_row(
    row: Mapping[str, Any], checks: Iterable[str], *, graded: Collection[str]
) -> TrialFacts | NotRecorded | None:
    """The same from a row of a run record."""
    kind: str | None = row["cause"]["kind"] if row["cause"] is not None else None
    if kind == MissingRecordingError.__name__:
        return "not-recorded"
    if kind in _UNAVAILABLE:
        return "unavailable"
    if kind is not None or row["source"] is None:
        return None
    return _facts(
        {verdict["judge"]: (verdict["outcome"], verdict["score"]) for verdict in row["verdicts"]},
        checks,
        graded,
        answer=shown_output(row["output"], row["refusal"], row.get("messages", ())),
    )


def _facts(
    verdicts: Mapping[str, tuple[str, float]],
    checks: Iterable[str],
    graded: Collection[str],
    *,
    answer: str | None,
) -> TrialFacts | None:
    bits: dict[str, bool | None] = {}
    scores: dict[str, float] = {}
    for check in checks:
        if check not in verdicts:
            return None
        outcome, score = verdicts[check]
        bits[check] = None if outcome == "abstain" else outcome == "pass"
        if outcome != "abstain" and check in graded:
            scores[check] = score
    return TrialFacts(checks=bits, scores=scores, output_digest=digest_of(answer))
