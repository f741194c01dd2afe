"""The gate's decision as a document: what Markdown, annotations and the console are made from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from regauge.evidence import (  # noqa: TC001 - pydantic reads them
    CaseVerdict,
    CheckReport,
    Count,
    RateDifference,
    SuiteReport,
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerDocument(_Document):
    """One answer that shows what a case did, as evidence for a reader.

    Attributes:
        arm: Whose answer it is.
        judge: The check that failed it; empty when it passed.
        reason: What that judge said.
        expected: What that judge compares with; null where it compares with nothing.
        output: What it found instead.
    """

    arm: Literal["candidate", "main"]
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
        verdict: That of the whole case.
        blocks: This case alone prevents acceptance.
        message: The verdict with plain counts.
        accepted: The changelog's reason why this case may change; else empty.
        edit_sensitive: The case broke in at least 2 of the last 10 versions, counting this one and
            accepted ones.
        node: The pytest item.
        at: File and line, as `fixtures/golden/x.jsonl:12`.
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
    verdict: CaseVerdict
    blocks: bool
    message: str
    accepted: str = ""
    edit_sensitive: bool = False
    node: str = ""
    at: str = ""
    before: Count
    today: Count
    candidate: Count
    checks: list[CheckReport] = []
    passing: AnswerDocument | None = None
    failing: AnswerDocument | None = None


class RuleDocument(_Document):
    """A rule of versions that a change breaks, or something that is not measured."""

    rule: str
    message: str
    fix: str
    path: str
    line: int | None = None


class AnchorDocument(_Document):
    """A prompt next to an old version: the sum of what changed since.

    Attributes:
        version: The old version.
        message: The difference with its interval, or why it is not measured.
        cases: How many cases were compared.
        difference: The candidate minus the old version; null where nothing was compared.
        p_value: The probability of at least this many failures if nothing changed since; null, too.
        of_base: Whether the base's record was compared, since the candidate has no trials.
        base_lost: Whether `regauge baseline update` confirmed a loss of the base.
        lost: Whether the base lost and the change does not make up for it.
        blocks: Whether that rejects the change.
    """

    version: str
    message: str
    cases: int = 0
    difference: RateDifference | None = None
    p_value: float | None = None
    of_base: bool = False
    base_lost: bool = False
    lost: bool = False
    blocks: bool = False


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
        guarded: Those whose deletion the gate notices.
        counted: All but equivalent ones.
        open: Those that are undecided or not measured.
        base_guarded: The same on the base, by the classes that are committed there; null without.
        trials: Those of mutants for this change.
        floor: The least share; null without one.
        below: `floor` where that rejects the change; `open` where instructions without a class
            decide it, so that the change is unmeasured; empty otherwise.
    """

    prompt: str
    guarded: int
    counted: int
    open: int
    base_guarded: int | None
    base_counted: int | None
    changes: list[GuardChangeDocument]
    trials: int
    notes: list[str]
    floor: float | None
    below: Literal["", "floor", "open"]
    message: str


class PromptDocument(_Document):
    """The gate's result for one prompt.

    Attributes:
        prompt: Its name, with the dataset's if it has several evals.
        path: Its file.
        state: `changed`, `new` or `unchanged` against the base.
        version: As the file states it, or null.
        base_version: The base's; null without one.
        digest: Of everything that changes its behaviour.
        line: The first changed line, of the messages if there is one.
        diff: The prompt file's unified diff.
        counts: Cases by verdict.
        test: The test of the whole prompt; null if not run.
        anchor: The comparison with the anchor; null without one.
        guards: Changes of guarded instructions, with `pull_request` in `[tool.regauge.mutate]`.
        rules: Violated versioning rules: `rule`, `message`, `fix`, `path`, `line`.
    """

    prompt: str
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
    counts: dict[CaseVerdict, int] = {}
    test: SuiteReport | None = None
    anchor: AnchorDocument | None = None
    guards: list[GuardsDocument] = []
    rules: list[RuleDocument] = []


class AuditDocument(_Document):
    """The candidate's committed completions next to fresh trials of the same requests.

    Attributes:
        trials: How many were compared.
        better: Those whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        p_value: The probability of at least this many of the first kind in recordings
            that were not selected.
        level: Up to this p-value the recordings count as better than fresh trials.
        fix: How to record again what is better; empty where the two agree.
        result: `agree`, `better`, or `base-worse`: better, but the base is below its record today,
            too.
    """

    trials: int
    better: int
    worse: int
    p_value: float
    level: float
    result: Literal["agree", "base-worse", "better"]
    message: str
    fix: str = ""


class CallsDocument(_Document):
    """The calls of the gate.

    Attributes:
        first: The first trials of the candidate.
        again: Further trials of the candidate.
        main: Trials of main, drawn for comparison.
        live: Calls that were made now, of prompts and judges; all else was recorded or stored.
        cost_usd: Of the calls that were made now; null when a price is unknown.
    """

    first: int
    again: int
    main: int
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
        base_unavailable: Prompts whose target on the base could not be called; the baseline alone
            decided.
        loosened: Options that are looser than the base's settings.
        unmeasured: Omissions that the user did not select, such as an eval that pytest does not
            collect: `message`, `fix`, `path`, `line`.
        calls: Numbers of trials and their use.
        operating_line: The sensitivity of this gate, from its own baselines.
        again: The command that decides again.
        next: The next step, with its command.
        policy: The settings that decided.
        cells: Baselines and states of cases; with the run's trials enough to decide again.
    """

    schema_version: Literal[1] = 1
    decision: Literal["accept", "reject", "refused", "undecided", "unmeasured"]
    exit_code: int
    provisional: bool = False
    ref: str
    base_commit: str
    reasons: list[str]
    refusals: list[RefusalDocument] = []
    audit: AuditDocument | None = None
    not_run: int = 0
    notes: list[str] = []
    rejected_before: int = 0
    judge_change_accepted: str = ""
    moved_bars: list[str] = []
    caveats: list[str] = []
    base_unavailable: list[str] = []
    loosened: list[str] = []
    prompts: list[PromptDocument]
    unmeasured: list[RuleDocument] = []
    cases: list[CaseDocument]
    calls: CallsDocument
    operating_line: str = ""
    again: str
    next: NextDocument = NextDocument(text="")
    policy: dict[str, Any]
    cells: list[dict[str, Any]] = []
