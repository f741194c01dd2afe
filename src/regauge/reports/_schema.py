"""The run record: the versioned documents that every report is made from.

A run is a directory `.regauge/runs/<id>/` with `run.json` (`RunRecord`) and `trials.jsonl`
(one `TrialRow` per line). Readers refuse a `schema_version` they do not know.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regauge.criteria import Criterion  # noqa: TC001 - pydantic reads it
from regauge.datasets import SHARDS_MAX
from regauge.reports._decision import DecisionDocument  # noqa: TC001 - pydantic reads it

__all__ = [
    "SCHEMA_VERSION",
    "Cause",
    "GitState",
    "JobState",
    "JudgeName",
    "LabelRow",
    "MergedShards",
    "ModelComparison",
    "RunRecord",
    "ShardPart",
    "ShardSuite",
    "Suggestion",
    "SuiteSummary",
    "TrialRow",
    "VerdictRow",
]

SCHEMA_VERSION = 1


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VerdictRow(_Document):
    """The verdict of one judge. `score` is from 0 to 1.

    Attributes:
        criterion: What kind of quality the judge is about; empty in runs that did not say so.
        gates: Whether it counts for the outcome; otherwise it informs.
        standing: Why it does or does not, for a judge that asks a model.
        cost_usd: Of its model calls, in US dollars; None when a price is unknown. A replayed call
            counts what it cost when it was made.
        spent_usd: What this run paid for them.
        retries: Attempts beyond the first, of the calls that this run made.
        input_tokens: Of all its calls.
        output_tokens: Of all its calls.
        calls: How many model calls it took; what judgements share counts for one of them.
        live_calls: Those that this run made.
        latency_s: Of the calls, one after the other, in seconds; None where one is unknown.
        labels: Whether `expected` and `actual` are labels; `actual` is left out where they agree.
    """

    judge: str
    judge_digest: str
    criterion: Criterion | Literal[""] = ""
    outcome: Literal["pass", "fail", "abstain"]
    score: float = Field(ge=0, le=1)
    reason: str
    expected: Any = None
    actual: Any = None
    gates: bool = True
    standing: str = ""
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    calls: int = 0
    live_calls: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latency_s: float | None = 0.0
    labels: bool = False
    details: dict[str, Any] = {}


class Cause(_Document):
    """The reason why something is unmeasured, and what it concerns.

    Attributes:
        raw: What a judge's model said that could not be read, or the beginning of it.
        traceback: Of a judge that raised.
    """

    kind: str
    message: str
    raw: str | None = None
    traceback: str | None = None


class TrialRow(_Document):
    """One judged draw of one case.

    Attributes:
        node: The pytest item.
        case_outcome: Of the whole case, over all its trials.
        not_blocking: Why a failed case does not fail the run; empty where it does.
        outcome: Of this trial.
        arm: In a run that gates, whose trial it is; None in any other.
        source: Where the answer came from; None without an answer.
        messages: Of a conversation, or of a completion with tool calls.
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
    not_blocking: str = ""
    outcome: Literal["passed", "failed", "unmeasured"]
    verdicts: list[VerdictRow]
    cause: Cause | None
    source: Literal["recording", "store", "live"] | None
    answer: str | None
    messages: list[dict[str, Any]] = []
    refusal: str | None
    finish_reason: str | None
    answered_by: str | None
    fingerprint: str | None
    input_tokens: int
    output_tokens: int
    latency_s: float | None
    cost_usd: float | None
    attempts: int
    arm: Literal["candidate", "main"] | None = None


class LabelRow(_Document):
    """The outputs for one expected label.

    Attributes:
        count: The cases that expect it and have a judged output.
        precision: The share of outputs with this label that are right, from 0 to 1; None where no
            output has it.
        recall: The share of outputs for this label that are right, from 0 to 1.
        outputs: How often each label was given; `(other)` stands for labels that no case expects,
            `(no label)` for outputs without any.
    """

    label: str
    count: int
    precision: float | None
    recall: float
    outputs: dict[str, int]


class JudgeName(_Document):
    """A judge of a suite.

    Attributes:
        criterion: What kind of quality it is about; empty in runs that did not say so.
        gates: Whether its verdicts count for outcomes; otherwise they inform.
        standing: Why they do or do not, for a judge that asks a model.
        passed: How many trials it passed; `failed` and `abstained` count alike.
        labels: Where it compares labels, such as a severity: the confusion matrix, by row, over the
            first judged trial of each case.
    """

    name: str
    digest: str
    criterion: Criterion | Literal[""] = ""
    gates: bool = True
    standing: str = ""
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    labels: list[LabelRow] = []


class ModelComparison(_Document):
    """One of several models on the same cases, or one of several runs.

    Attributes:
        rate: The mean pass rate over cases, from 0 to 1; None where no trial was measured.
        low: The lower end of its 95 % interval.
        high: The upper end.
        cases: Cases with trials of this model and of the first; 0 for the first itself.
        difference: This rate minus that of the first on those cases, from -1 to 1; None without
            any.
        difference_low: The lower end of its 95 % interval.
        difference_high: The upper end.
        p_value: How likely a difference so large is if the models are alike: two-sided, multiplied
            by the number of models that are compared with the first.
        outcome: `worse` or `better` up to a p-value of 0.05.
    """

    rate: float | None
    low: float
    high: float
    cases: int = 0
    difference: float | None = None
    difference_low: float = -1.0
    difference_high: float = 1.0
    p_value: float = 1.0
    outcome: Literal["worse", "better", "not shown"] = "not shown"


class SuiteSummary(_Document):
    """One prompt on one dataset with one model: the counts of a run.

    Attributes:
        failed: Cases that failed and fail the run.
        tracked_failed: Cases of the tier `tracked` that failed; they inform and block nothing.
        not_blocking: Other cases that failed and do not fail the run, such as flaky ones.
        replayed: Answers from recordings or the local store; `live` ones were asked for.
        cost_usd: Of all answers, replayed ones at what they cost when they were recorded; None
            when the price of the model is unknown.
        latency_p50_s: The median of the calls' latencies, in seconds.
        judge_calls: Model calls of judges; none of the sums above holds any of them.
        judge_live: Those of them that this run made.
        judge_retries: Attempts beyond the first, of those.
        judge_input_tokens: Of all calls of judges.
        judge_output_tokens: Of all calls of judges.
        judge_cost_usd: What they cost when they were made; None when a price is unknown.
        judge_spent_usd: What this run paid for them.
        judge_latency_s: How long a judgement's calls took in the mean, in seconds.
        all_of_k: How likely k trials of a case all pass (pass^k), for k = 1, 2, ... up to the
            fewest measured trials of a case; empty with one trial, and in a run that gates.
        one_of_k: How likely at least one of k trials passes (pass@k), for the same k.
        arm: In a run that gates, whose trials these are; None in any other.
        comparison: Where several models have the same cases, this one next to the first.
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
    not_blocking: int = 0
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
    judge_calls: int = 0
    judge_live: int = 0
    judge_retries: int = 0
    judge_input_tokens: int = 0
    judge_output_tokens: int = 0
    judge_cost_usd: float | None = 0.0
    judge_spent_usd: float | None = 0.0
    judge_latency_s: float | None = None
    all_of_k: list[float] = []
    one_of_k: list[float] = []
    arm: Literal["candidate", "main"] | None = None
    comparison: ModelComparison | None = None


class Suggestion(_Document):
    """The result of the refinement loop after a failed run.

    Attributes:
        run: The refinement run; empty where there was none.
        stop: Why it ended.
        headline: The result of it, in one sentence.
        diff: Of the prompt's file; empty where nothing is proposed.
        evidence: A line per edit and one for the suite: how often trials failed before and after.
        markdown: The whole rationale.
        calls: Of the prompt's model.
        usd: What it cost, in US dollars.
    """

    prompt: str
    run: str = ""
    stop: str
    headline: str
    diff: str = ""
    evidence: list[str] = []
    markdown: str = ""
    calls: int = 0
    usd: float = 0.0
    simulated: bool = False


class GitState(_Document):
    """The commit that was checked out, and whether the work tree differed from it."""

    commit: str
    branch: str | None
    dirty: bool


class ShardSuite(_Document):
    """The part of one eval, with one model, that a shard ran.

    Attributes:
        eval: The node id of the test function, or the prompt file.
        dataset_digest: The SHA-256 of the golden file.
        judges: The digest of each judge, by its name.
        total: The cases of the golden file.
        cases: Those of them that are this shard's.
        planned: Those of them that were selected.
        plan: The digest of how cases were dealt by time; empty where a hash of ids deals them.
    """

    eval: str
    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    dataset_digest: str
    model: str
    judges: dict[str, str]
    trials: int
    total: int = Field(ge=0)
    cases: int = Field(ge=0)
    planned: int = Field(ge=0)
    plan: str = ""


class JobState(_Document):
    """The CI job that a shard ran in.

    Attributes:
        id: Of the workflow run or the pipeline; empty outside of CI.
        fork: Whether it ran for a pull request from a fork.
    """

    id: str = ""
    fork: bool = False


class ShardPart(_Document):
    """The part that a run is of a sharded one.

    Attributes:
        number: From 1.
        by: How cases are dealt.
        base: The commit that a gate compares with; empty for a run that does not gate.
        record: The record mode.
        exit_status: Of pytest.
        suites: What it ran, in the order of collection.
    """

    number: int = Field(ge=1)
    count: int = Field(ge=1, le=SHARDS_MAX)
    by: Literal["id", "time"]
    base: str = ""
    record: str
    exit_status: int
    job: JobState
    suites: list[ShardSuite]


class MergedShards(_Document):
    """The shards that a run was merged from.

    Attributes:
        missing: The numbers of shards that were not there or did not finish.
        base: The commit that a gate compares with; empty for a run that does not gate.
    """

    count: int = Field(ge=1, le=SHARDS_MAX)
    missing: list[int] = []
    base: str = ""


class RunRecord(_Document):
    """One run. Times are ISO 8601 in UTC.

    Attributes:
        status: `interrupted` when it did not reach its end; what is there is right all the same.
        options: The options of the run.
        decision: What a run that gates has come to; None of any other.
        suggestions: What `--suggest` found for prompts that failed.
        shard: The part that this run is of a sharded one; None of a whole run.
        merged: The shards that it was merged from; None where there were none.
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
    decision: DecisionDocument | None = None
    suggestions: list[Suggestion] = []
    shard: ShardPart | None = None
    merged: MergedShards | None = None
