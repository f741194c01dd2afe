"""The versioned documents of a run, from which every report is made, and of its gate.

A run is a directory `.regauge/runs/<id>/` with `run.json` (`RunRecord`) and `trials.jsonl`
(one `TrialRow` per line). Readers refuse a `schema_version` they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt

from regauge.datasets import SHARDS_MAX
from regauge.evidence import (  # noqa: TC001 - pydantic reads them
    AnchorReport,
    AuditReport,
    CaseStatus,
    CheckReport,
    Count,
    SuiteReport,
)
from regauge.gate import GateCase, GatePolicy  # noqa: TC001 - pydantic reads them
from regauge.project import Criterion  # noqa: TC001 - pydantic reads it


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OutputDocument(_Document):
    """One output of a case, as evidence.

    Attributes:
        side: The side of the trial.
        text: The full text.
        judge: The check that failed it; empty if it passed.
        reason: The judge's reason.
        expected: The expected value, or null.
        output: The value that the judge compared with it, or null.
    """

    side: Literal["candidate", "base"]
    trial: int
    text: str
    judge: str = ""
    reason: str = ""
    expected: Any = None
    output: Any = None


class CaseDocument(_Document):
    """The gate's result for one case.

    Attributes:
        tier: `critical`, `required` or `tracked`.
        state: `changed`, `unchanged`, `new` or `removed` against the base.
        status: That of the whole case.
        blocks: This case alone prevents acceptance.
        message: The status with plain counts.
        accepted: The changelog's reason why this case may change; else empty.
        edit_sensitive: The case broke in at least 2 of the last 10 versions, counting this one and
            accepted ones.
        node: The pytest item.
        location: File and line, as `fixtures/golden/x.jsonl:12`.
        before: The base's trials before this run: `passed` (every check) and `trials`.
        today: The same of the base's trials in this run.
        candidate: The same of the candidate's.
        checks: The same by judge, with `e_value` and the `bound` for broken.
        passing: An output that passed, the candidate's if fixed, else the base's.
        failing: An output that failed.
    """

    prompt: str
    case: str
    tier: str
    state: str
    status: CaseStatus
    blocks: bool
    message: str
    accepted: str = ""
    edit_sensitive: bool = False
    node: str = ""
    location: str = ""
    before: Count
    today: Count
    candidate: Count
    checks: list[CheckReport] = []
    passing: OutputDocument | None = None
    failing: OutputDocument | None = None


class RuleDocument(_Document):
    """A rule of versions that a change breaks, or something that is not measured."""

    rule: str
    message: str
    fix: str
    path: str
    line: int | None = None


class GuardChangeDocument(_Document):
    """An instruction that a change deletes, adds, edits, guards, or takes the guard of.

    Attributes:
        line: Of the prompt file; of the base's for a deleted instruction.
        before: Its class on the base; null where there is none.
        after: Its class now; null where it was not measured, and for a deleted instruction.
        causes: What took its guard away, such as `deletes case X`.
        cases: The cases that guard it now, that changed, or that got better.
    """

    kind: Literal["deleted", "added", "edited", "unguarded", "guarded"]
    line: int
    text: str
    before: str | None
    after: str | None
    causes: list[str]
    cases: list[str]
    message: str


class GuardsDocument(_Document):
    """The instructions of a prompt that golden cases guard, next to the base's.

    Attributes:
        prompt: Its name.
        guarded: Instructions whose deletion the gate detects.
        total: Instructions without equivalent ones.
        open: Undecided or unmeasured instructions.
        base_guarded: The number on base, by its committed classes; null without these.
        trials: Trials of mutants for this change.
        floor: The least share of guarded instructions, from 0 to 1; null without one.
        below: `floor` if the floor rejects the change; `open` if undecided instructions decide
            that, so that the change is unmeasured; else empty.
    """

    prompt: str
    guarded: int
    total: int
    open: int
    base_guarded: int | None
    base_total: int | None
    changes: list[GuardChangeDocument]
    trials: int
    notes: list[str]
    floor: float | None
    below: Literal["", "floor", "open"]
    message: str


class PromptDocument(_Document):
    """The gate's result for one prompt.

    Attributes:
        prompt: Its name, with the dataset's if it has several, or the function's of evals that
            share one.
        dataset: The name of its golden dataset.
        path: Its file.
        state: `changed`, `new` or `unchanged` against the base.
        version: As the file states it, or null.
        base_version: The base's; null without one.
        digest: Of everything that changes its behaviour.
        line: The first changed line, of the messages if there is one.
        diff: The prompt file's unified diff; empty for its further evals.
        counts: Cases by status.
        test: The test of the whole prompt; null if not run.
        anchor: The comparison with the anchor; null without one.
        guards: Changes of guarded instructions, with `pull_request` in `[tool.regauge.mutate]`.
        rules: Violated versioning rules: `rule`, `message`, `fix`, `path`, `line`.
    """

    prompt: str
    dataset: str = ""
    path: str
    state: str
    version: str | None
    base_version: str | None
    digest: str
    base_digest: str | None
    model: str
    base_model: str | None
    simulated: bool
    line: int = 1
    diff: str = ""
    counts: dict[CaseStatus, int] = {}
    test: SuiteReport | None = None
    anchor: AnchorReport | None = None
    guards: list[GuardsDocument] = []
    rules: list[RuleDocument] = []


class CallsDocument(_Document):
    """The calls of the gate.

    Attributes:
        first: The first trials of the candidate.
        follow_up: Further trials of the candidate.
        base: Trials of the base, for comparison.
        live: Calls of this run, of prompts and judges; the others are replayed.
        cost_usd: Cost of the live calls; null if a price is unknown.
    """

    first: int
    follow_up: int
    base: int
    live: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class RefusalDocument(_Document):
    """The reason why a change is not compared.

    Attributes:
        part: `bar`, `judge`, `model` or `trials`.
        details: The judges that differ or the lowered parts of the bar.
    """

    part: Literal["bar", "judge", "model", "trials"]
    message: str
    details: list[str] = []
    fix: str


class NextDocument(_Document):
    """The next step after a decision.

    Attributes:
        command: The command for it; empty where it takes none.
    """

    text: str
    command: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.text, self.command)))


class DecisionDocument(_Document):
    """A gate's decision, its reasons, the next step, and all it takes to decide again.

    Attributes:
        exit_code: 0 accept, 1 reject, 2 refused, 3 unmeasured, 4 undecided.
        provisional: Committed recordings were used; a run that may call models makes its own
            trials.
        ref: The base as named in the command.
        reasons: Reasons with plain counts, most important first.
        refusals: Reasons of a refusal: `part` (`bar`, `judge`, `model` or `trials`) and `details`.
        audit: The candidate's recordings compared with its fresh trials; null without a comparison.
        not_run: Cases that were not run, because the change is refused, or rejected whatever they
            show.
        notes: Remarks on the comparison.
        rejected_before: Rejected other versions of the pull request or branch.
        judge_change_accepted: The REASON of `--accept-judge-change`.
        moved_bars: Lowered parts of the bar, such as the tier of a case. Tiers, settings and
            baselines of the base decided; endpoints and expectations of the change.
        caveats: Other edits that affect the measurement, such as cases or code of evals.
        not_measured: Edits that ran no trial: `text`, and the `command` that measures them.
        base_unavailable: Prompts whose target on the base could not be called, at least in some
            trials.
        looser_options: Options that are looser than the base's settings.
        unmeasured: Omissions that the user did not select, such as an eval that pytest does not
            collect: `message`, `fix`, `path`, `line`.
        calls: Numbers of trials and their use.
        sensitivity: The sensitivity of this gate, from its own baselines.
        rerun_command: The command that decides again.
        next: The next step, with its command.
        policy: The settings that decided.
        gate_cases: Baselines and states of cases; with the run's trials enough to decide again.
    """

    schema_version: Literal[1] = 1
    decision: Literal["accept", "reject", "refused", "undecided", "unmeasured"]
    exit_code: int
    provisional: bool = False
    ref: str
    base_commit: str
    reasons: list[str]
    refusals: list[RefusalDocument] = []
    audit: AuditReport | None = None
    not_run: int = 0
    notes: list[str] = []
    rejected_before: int = 0
    judge_change_accepted: str = ""
    moved_bars: list[str] = []
    caveats: list[str] = []
    not_measured: list[NextDocument] = []
    base_unavailable: list[str] = []
    looser_options: list[str] = []
    prompts: list[PromptDocument]
    unmeasured: list[RuleDocument] = []
    cases: list[CaseDocument]
    calls: CallsDocument
    sensitivity: str = ""
    rerun_command: str
    next: NextDocument = NextDocument(text="")
    policy: GatePolicy
    gate_cases: list[GateCase] = []


SCHEMA_VERSION = 1


class CallUsage(_Document):
    """Model calls of judges.

    Attributes:
        calls: A call that several verdicts share counts for one.
        live: Of these, calls of this run.
        retries: Attempts beyond the first, of this run's calls.
        cost_usd: Of all calls, replayed ones at the recorded cost; null without a price.
        spent_usd: Of this run's calls.
        latency_s: Sum of the calls, in seconds; null if one is unknown.
    """

    calls: NonNegativeInt = 0
    live: NonNegativeInt = 0
    retries: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    cost_usd: NonNegativeFloat | None = 0.0
    spent_usd: NonNegativeFloat | None = 0.0
    latency_s: NonNegativeFloat | None = 0.0


class VerdictRow(_Document):
    """The verdict of one judge. `score` is from 0 to 1.

    Attributes:
        criterion: The kind of quality; empty in runs that state none.
        outcome: An `abstain` counts nowhere.
        reason: One line, with the evidence quoted.
        blocking: It is blocking; else advisory.
        status_reason: The reason for its status, for an LLM judge.
        usage: Its model calls, see `usage`; null without any.
        labels: `expected` and `actual` are labels; `actual` is omitted if they agree.
        details: For programs. Rules state `code`, a stable failure code.
    """

    judge: str
    judge_digest: str
    criterion: Criterion | Literal[""] = ""
    outcome: Literal["pass", "fail", "abstain"]
    score: float = Field(ge=0, le=1)
    reason: str
    expected: Any = None
    actual: Any = None
    blocking: bool = True
    status_reason: str = ""
    usage: CallUsage | None = None
    labels: bool = False
    details: dict[str, Any] = {}


class Cause(_Document):
    """The reason why something is unmeasured, and what it concerns.

    Attributes:
        kind: A stable code; cases with one cause are reported together.
        raw: The unreadable response of a judge's model, shortened.
        traceback: Of a judge that raised.
    """

    kind: str
    message: str
    raw: str | None = None
    traceback: str | None = None


class TrialRow(_Document):
    """One judged trial of one case.

    Attributes:
        node: The pytest item.
        prompt_digest: Of everything that changes its behaviour.
        case: The id.
        case_digest: Of its id, inputs and expected.
        tier: `critical`, `required` or `tracked`.
        split: `train` or `holdout`.
        model: As `provider:model`.
        trial: From 0.
        request_digest: With `trial` the key of the recording.
        case_outcome: Of all trials; `failed` too if the test failed or was skipped after them.
        not_blocking: The reason why a failed case does not block; else empty.
        cause: The reason why it is unmeasured, or null.
        source: The source of the completion; null without one.
        output: The text, or null.
        messages: Of a conversation, or a completion with tool calls.
        refusal: The model's refusal, as the provider reports it.
        finish_reason: `stop`, `length`, `content_filter`, `tool_calls` or `unknown`.
        response_model: The model as the provider reports it.
        fingerprint: The provider's `system_fingerprint`.
        latency_s: Of the call, in seconds.
        cost_usd: Of the call; null without a price.
        side: The side of the trial, with `--gate`; else null.
        lost_usage: Model calls of judges that ended without a verdict, see `usage`.
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
    trial: NonNegativeInt
    request_digest: str
    case_outcome: Literal["passed", "failed", "unmeasured"]
    not_blocking: str = ""
    outcome: Literal["passed", "failed", "unmeasured"]
    verdicts: list[VerdictRow]
    cause: Cause | None
    source: Literal["recording", "store", "live"] | None
    output: str | None
    messages: list[dict[str, Any]] = []
    refusal: str | None
    finish_reason: str | None
    response_model: str | None
    fingerprint: str | None
    input_tokens: NonNegativeInt
    output_tokens: NonNegativeInt
    latency_s: NonNegativeFloat | None
    cost_usd: NonNegativeFloat | None
    attempts: NonNegativeInt
    side: Literal["candidate", "base"] | None = None
    lost_usage: list[CallUsage] = []


# By eval, case and side: the rows of the trials of a gate, sorted by number.
Rows: TypeAlias = Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]


class LabelRow(_Document):
    """The outputs for one expected label.

    Attributes:
        count: Cases with this expected label and a judged output.
        precision: The correct share of outputs with this label, from 0 to 1; null without any.
        recall: The correct share of outputs for cases with this label, from 0 to 1.
        outputs: The number of outputs per label; `(other)` for unexpected labels, `(no label)` for
            outputs without one.
    """

    label: str
    count: int
    precision: float | None
    recall: float
    outputs: dict[str, int]


class JudgeName(_Document):
    """A judge of an eval.

    Attributes:
        criterion: The kind of quality; empty in runs that state none.
        blocking: It is blocking; else advisory.
        status_reason: The reason for its status, for an LLM judge.
        passed: Passed trials.
        failed: Failed trials.
        abstained: Trials without an opinion.
        labels: The rows of the confusion matrix over the first judged trial of each case, for a
            judge that compares labels.
    """

    name: str
    digest: str
    criterion: Criterion | Literal[""] = ""
    blocking: bool = True
    status_reason: str = ""
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    labels: list[LabelRow] = []


class ModelComparison(_Document):
    """One of several models or runs on the same cases, compared with the first.

    Attributes:
        rate: The mean pass rate over cases, from 0 to 1; null without a measured trial.
        low: The lower end of its 95 % interval.
        high: The upper end.
        cases: Cases with trials of both; 0 for the first itself.
        difference: This rate minus that of the first on those cases, from -1 to 1; or null.
        difference_low: The lower end of its 95 % interval.
        difference_high: The upper end.
        p_value: The two-sided p-value, times the number of models compared with the first.
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


class EvalSummary(_Document):
    """One eval of a prompt with one model: the counts of a run.

    Attributes:
        prompt_digest: Of everything that changes its behaviour.
        eval: Its file and function.
        model: As `provider:model`.
        judges: Name, digest, status and counts of each.
        failed: Without tracked cases.
        tracked_failed: Failed cases of the tier `tracked`.
        not_blocking: Other failed cases that do not block, such as flaky ones.
        unmeasured: Cases without a completion or verdict.
        replays: Completions from recordings or the local store.
        live: Completions of this run's calls.
        retries: Attempts beyond the first.
        cut_off: Passed trials whose output ends at its token limit.
        cost_usd: Of all completions, replayed ones at the recorded cost; null without a price.
        spent_usd: Of this run's calls.
        latency_p50_s: Median latency of the calls, in seconds.
        latency_p95_s: The 95th percentile.
        judge_usage: Model calls of judges, see `usage`; the numbers above exclude them.
        judge_latency_s: Mean latency of a verdict's calls, in seconds.
        all_of_k: The probability that k trials of a case all pass (pass^k), for k from 1 to the
            fewest measured trials of a case; empty with one trial, and with `--gate`.
        one_of_k: The probability that one of k trials passes (pass@k), for the same k.
        side: The side of these trials, with `--gate`; else null.
        comparison: With several models: the comparison with the first.
    """

    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    eval: str = ""
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
    replays: int
    live: int
    retries: int
    cut_off: int = 0
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    spent_usd: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    judge_usage: CallUsage = CallUsage()
    judge_latency_s: float | None = None
    all_of_k: list[float] = []
    one_of_k: list[float] = []
    side: Literal["candidate", "base"] | None = None
    comparison: ModelComparison | None = None


class Suggestion(_Document):
    """The result of a refinement run after a failed run.

    Attributes:
        run: The id of the refinement run; empty without one.
        stop: The reason why it ended.
        headline: The result, in one sentence.
        diff: The diff of the prompt file; empty without a revision.
        evidence: Failed trials before and after, a line per edit and one for the suite.
        markdown: The rationale.
        calls: Calls of the prompt's model.
        usd: The cost, in US dollars.
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
    """The checked-out commit, and whether the work tree differed from it.

    Attributes:
        branch: Null if none is checked out.
        dirty: The work tree differs from the commit.
    """

    commit: str
    branch: str | None
    dirty: bool


class ShardEval(_Document):
    """A shard's part of one eval with one model.

    Attributes:
        eval: The node id of the test function, or the prompt file.
        dataset_digest: The SHA-256 of the golden file.
        judges: The digest of each judge, by name.
        total: The number of cases in the golden file.
        cases: The number of this shard's cases.
        selected_cases: The number of this shard's selected cases.
        plan: The digest of the assignment by time; empty for an assignment by id.
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
    selected_cases: int = Field(ge=0)
    plan: str = ""


class JobState(_Document):
    """The CI job of a shard.

    Attributes:
        id: The workflow run or the pipeline; empty outside CI.
        fork: Whether it ran for a pull request from a fork.
    """

    id: str = ""
    fork: bool = False


class ShardPart(_Document):
    """The shard that a run is.

    Attributes:
        number: The number of the shard, from 1.
        count: The number of shards.
        shard_by: The assignment of cases to shards.
        base: The base commit of a gate; empty without a gate.
        record: The record mode.
        exit_status: The exit status of pytest.
        selection: Options that selected cases, such as `-k disk` and node ids.
        evals: Its part of each eval, in the order of collection.
        lines: The number of lines of each file next to the record, to detect truncated copies.
        unmeasured: Why it is not measured whole.
    """

    number: int = Field(ge=1)
    count: int = Field(ge=1, le=SHARDS_MAX)
    shard_by: Literal["id", "time"]
    base: str = ""
    record: str
    exit_status: int
    job: JobState
    selection: list[str] = []
    evals: list[ShardEval]
    lines: dict[str, int] = {}
    unmeasured: list[str] = []


class MergedShards(_Document):
    """The shards of a merged run.

    Attributes:
        count: The number of shards.
        missing: The numbers of missing or unfinished shards.
        base: The base commit of a gate; empty without a gate.
    """

    count: int = Field(ge=1, le=SHARDS_MAX)
    missing: list[int] = []
    base: str = ""


class RunRecord(_Document):
    """One run. Times are ISO 8601 in UTC.

    Attributes:
        id: Start and four random digits; the name of the directory.
        started_at: Beginning of collection.
        finished_at: End of the last case.
        status: An `interrupted` run has the results up to then.
        command: The words of the command line.
        git: Null outside of a repository.
        evals: A summary per eval and model.
        decision: [The gate's decision](gate.md#the-decision-as-json), or null.
        suggestions: Proposals of `--suggest`.
        failed_tests: The messages of tests that failed apart from their judges, by node id: own
            assertions, fixtures and marks, and plain tests in directories of evals. Files there
            that pytest cannot collect are among them.
        shard: The part of a [sharded run](../how-to/scale.md#shards), with digests of what it ran;
            else null.
        merged: For merged shards: their `count`, those `missing`, and the `base` of a gate.
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
    evals: list[EvalSummary]
    decision: DecisionDocument | None = None
    suggestions: list[Suggestion] = []
    failed_tests: dict[str, str] = {}
    shard: ShardPart | None = None
    merged: MergedShards | None = None

    @property
    def awaits_decision(self) -> bool:
        """Return whether these are trials of a gate that has not decided, as in a shard."""
        return self.decision is None and any(eval_.side for eval_ in self.evals)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEval:
    """The measurement of one eval of a prompt with one model in one run.

    Attributes:
        eval: Its file and function.
        run: The id of the run.
        started_at: The start of the run, ISO 8601 in UTC.
        commit: The checked-out commit; None outside a repository.
        dirty: Whether the work tree differed from the commit.
        side: The side of the trials, with `--gate`; else None.
        cases: The number of cases.
        measured: The number of cases with an outcome.
        passed: The number of passed cases; in a gate run, by the first trial of each case.
        trials: The number of trials per case.
        completions: The number of completions in `cost_usd`.
        cost_usd: The cost of all completions when they were made; None if a price is unknown.
        latency_p50_s: The median latency, in seconds.
        judges_digest: The digest of the blocking judges.
        cases_digest: The digest of the cases with inputs and expected outputs.
    """

    run: str
    started_at: str
    commit: str | None
    dirty: bool
    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    eval: str
    model: str
    side: str | None
    cases: int
    measured: int
    passed: int
    trials: int
    completions: int
    cost_usd: float | None
    latency_p50_s: float | None
    judges_digest: str
    cases_digest: str

    @property
    def rate(self) -> float | None:
        """The share of measured cases that passed, from 0 to 1; None without any."""
        return self.passed / self.measured if self.measured else None

    @property
    def cost_per_completion_usd(self) -> float | None:
        """None if the price is unknown or there are no completions."""
        if self.cost_usd is None or not self.completions:
            return None
        return self.cost_usd / self.completions
