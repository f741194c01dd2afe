"""What the history holds of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MeasuredSuite", "RunEntry", "TrialEntry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSuite:
    """One prompt on one dataset with one model, as one run measured it.

    Attributes:
        run: The id of the run.
        started_at: Of the run, ISO 8601 in UTC.
        commit: That was checked out; None outside of a repository.
        dirty: Whether the work tree differed from it.
        arm: In a run that gates, whose trials these are; None in any other.
        cases: How many there were; `measured` of them have an outcome.
        passed: Of the measured. A gate draws again what failed, so of its runs the first trial of
            each case counts alone.
        trials: What an outcome rests on: draws of each case.
        answers: How many the cost is of.
        cost_usd: Of all answers, when they were made; None when the price is unknown.
        judges_digest: Of the judges that decide.
        cases_digest: Of the cases with their inputs and what is expected.
    """

    run: str
    started_at: str
    commit: str | None
    dirty: bool
    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    model: str
    arm: str | None
    cases: int
    measured: int
    passed: int
    trials: int
    answers: int
    cost_usd: float | None
    latency_p50_s: float | None
    judges_digest: str
    cases_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEntry:
    """One row of a run.

    Attributes:
        number: Its place in the run, from 0.
        row: The whole row as JSON in ASCII; see `TrialRow`.
    """

    number: int
    prompt: str
    case: str
    arm: str | None
    trial: int
    outcome: str
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run on its way into the history.

    Attributes:
        document: The whole record as JSON in ASCII; see `RunRecord`.
    """

    id: str
    started_at: str
    finished_at: str
    document: str
    suites: Sequence[MeasuredSuite]
    trials: Sequence[TrialEntry]
