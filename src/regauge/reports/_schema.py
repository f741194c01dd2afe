"""The run record: the versioned documents that every report is made from.

A run is a directory `.regauge/runs/<id>/` with `run.json` (`RunRecord`) and `trials.jsonl`
(one `TrialRow` per line). Readers refuse a `schema_version` they do not know.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "SCHEMA_VERSION",
    "Cause",
    "GitState",
    "JudgeName",
    "RunRecord",
    "SuiteSummary",
    "TrialRow",
    "VerdictRow",
]

SCHEMA_VERSION = 1


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VerdictRow(_Document):
    """What one judge said. `score` is from 0 to 1, `cost_usd` in US dollars."""

    judge: str
    judge_digest: str
    outcome: Literal["pass", "fail", "abstain"]
    score: float = Field(ge=0, le=1)
    reason: str
    expected: Any = None
    actual: Any = None
    cost_usd: float = 0.0
    details: dict[str, Any] = {}


class Cause(_Document):
    """Why something is unmeasured, and what it concerns."""

    kind: str
    message: str


class TrialRow(_Document):
    """One judged draw of one case.

    Attributes:
        node: The pytest item.
        case_outcome: Of the whole case, over all its trials.
        outcome: Of this trial.
        source: Where the answer came from; None without an answer.
        latency_s: Of the call that was recorded or made, in seconds.
        cost_usd: Of that call; None when the price is unknown.
    """

    node: str
    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    case: str
    case_digest: str
    tier: str
    split: str
    tags: list[str]
    model: str
    trial: int
    request_digest: str
    case_outcome: Literal["passed", "failed", "unmeasured"]
    outcome: Literal["passed", "failed", "unmeasured"]
    verdicts: list[VerdictRow]
    cause: Cause | None
    source: Literal["recording", "store", "live"] | None
    answer: str | None
    refusal: str | None
    finish_reason: str | None
    answered_by: str | None
    fingerprint: str | None
    input_tokens: int
    output_tokens: int
    latency_s: float | None
    cost_usd: float | None
    attempts: int


class JudgeName(_Document):
    """A judge of a suite."""

    name: str
    digest: str


class SuiteSummary(_Document):
    """One prompt on one dataset with one model: the counts of a run.

    Attributes:
        tracked_failed: Cases of the tier `tracked` that failed; they inform and block nothing.
        replayed: Answers from recordings or the local store; `live` ones were asked for.
        cost_usd: Of all answers, replayed ones at what they cost when they were recorded; None
            when the price of the model is unknown.
        latency_p50_s: The median of the calls' latencies, in seconds.
    """

    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    model: str
    simulated: bool
    judges: list[JudgeName]
    cases: int
    passed: int
    failed: int
    tracked_failed: int
    unmeasured: int
    trials: int
    replayed: int
    live: int
    retries: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    spent_usd: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None


class GitState(_Document):
    """The commit that was checked out, and whether the work tree differed from it."""

    commit: str
    branch: str | None
    dirty: bool


class RunRecord(_Document):
    """One run. Times are ISO 8601 in UTC.

    Attributes:
        status: `interrupted` when it did not reach its end; what is there is right all the same.
        options: How it was told to run.
    """

    schema_version: Literal[1] = 1
    id: str
    started_at: str
    finished_at: str
    status: Literal["finished", "interrupted"]
    regauge_version: str
    python_version: str
    command: list[str]
    git: GitState | None
    options: dict[str, Any]
    suites: list[SuiteSummary]
