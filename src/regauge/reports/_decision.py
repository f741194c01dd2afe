"""The gate's decision as a document: what Markdown, annotations and the console are made from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "AnchorDocument",
    "AnswerDocument",
    "AuditDocument",
    "CallsDocument",
    "CaseDocument",
    "CheckDocument",
    "ControlDocument",
    "CountDocument",
    "DecisionDocument",
    "DifferenceDocument",
    "NetDocument",
    "NextDocument",
    "PairsDocument",
    "PromptDocument",
    "RefusalDocument",
    "RoundDocument",
    "RuleDocument",
    "SuiteTestDocument",
]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _known_verdict(verdict: str) -> str:
    """Refuse a verdict that no report has words for."""
    from regauge.reports._gate_console import VERDICTS

    if verdict not in VERDICTS:
        raise ValueError(f"no verdict of the gate: {verdict[:40]!r}")
    return verdict


_CaseVerdict = Annotated[str, AfterValidator(_known_verdict)]


class CountDocument(_Document):
    """The number of passed trials of some, as text."""

    passed: int = Field(ge=0)
    trials: int = Field(ge=0)


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


class CheckDocument(_Document):
    """One required check of one case.

    Attributes:
        verdict: What the counts say of this check alone.
        before: Main's stored history, or its first trials of this run where there is none.
        today: Main's trials of this run.
        candidate: The candidate's trials.
        paired: Those of them that were drawn side by side with main's of today.
        direction: `worse` or `better`: which change the evidence is for; null where nothing was
            tested.
        e_value: Evidence against main's record, its trials of today included.
        bound: The e-value that would have named the check in this run.
        e_today: Evidence of the trials side by side alone; null without any.
    """

    check: str
    verdict: _CaseVerdict
    before: CountDocument
    today: CountDocument
    candidate: CountDocument
    paired: CountDocument
    direction: Literal["worse", "better"] | None = None
    e_value: float | None = None
    bound: float | None = None
    e_today: float | None = None


class CaseDocument(_Document):
    """The gate's result for one case.

    Attributes:
        state: Against main: `changed`, `unchanged`, `new` or `removed`.
        verdict: `passed`, `broken`, `fixed`, `flaky`, `mixed`, `undecided`, `drifted`,
            `known-failing`, `new`, `unchanged`, `removed` or `unmeasured`.
        blocks: Whether this case alone keeps the change from being accepted.
        message: The verdict in plain counts.
        accepted: Why the prompt's changelog says that this case may change; empty otherwise.
        edit_sensitive: Whether the case broke in at least 2 of the last 10 versions of the prompt,
            counting this one and those whose changelog accepts it.
        node: The pytest item.
        at: Where the case stands, as `fixtures/golden/x.jsonl:12`.
        before: Main's trials before this run in which every check passed, and how many there were.
        today: The same of main's trials in this run.
        candidate: The same of the candidate's.
        passing: An answer that passed, of the candidate where it was fixed and of main elsewhere.
        failing: An answer that failed.
    """

    prompt: str
    case: str
    tier: str
    state: str
    verdict: _CaseVerdict
    blocks: bool
    message: str
    accepted: str = ""
    edit_sensitive: bool = False
    node: str = ""
    at: str = ""
    before: CountDocument
    today: CountDocument
    candidate: CountDocument
    checks: list[CheckDocument] = []
    passing: AnswerDocument | None = None
    failing: AnswerDocument | None = None


class RoundDocument(_Document):
    """One round of a whole prompt against main's record; it asks for trials side by side.

    Attributes:
        trials: How many trials of each case were used.
        drawn: How many trials of all cases there were.
        fails: Failures of the candidate among them.
        expected: Failures that main's record predicts.
        p_value: How likely so many failures are if main is as its record.
        bound: Up to this p-value both versions are drawn side by side.
        equal: Whether the p-value is that of equal weights, the smaller of two.
        scores: The p-value of each check that gives scores.
    """

    trials: int
    drawn: int
    fails: int
    expected: float
    p_value: float
    bound: float
    equal: bool = False
    scores: dict[str, float] = {}


class ControlDocument(_Document):
    """Main's few trials of the first round: a lamp for an outage, which decides nothing.

    Attributes:
        p_history: How likely they are if main is as its record.
        bound: Up to this p-value main counts as below its record.
    """

    main: CountDocument
    p_history: float
    bound: float


class PairsDocument(_Document):
    """One look at both versions side by side.

    Attributes:
        main: Main's trials side by side so far.
        candidate: The candidate's.
        p_values: How likely the candidate is so far behind if the prompt changed nothing: of all
            cases under the empty text, of the scores of a check under its name.
        bound: Up to this p-value the prompt is worse.
    """

    main: CountDocument
    candidate: CountDocument
    p_values: dict[str, float]
    bound: float


class NetDocument(_Document):
    """One look at all cases side by side, because some broke and others were fixed.

    Attributes:
        p_worse: How likely the candidate is so far behind if nothing changed on the whole.
        p_better: How likely it is so far ahead.
        bound: Up to this `p_worse` the change is rejected.
    """

    main: CountDocument
    candidate: CountDocument
    p_worse: float
    p_better: float
    bound: float


class DifferenceDocument(_Document):
    """Candidate minus main, in mean pass rates between 0 and 1, with the 95 % interval."""

    main: float
    candidate: float
    low: float
    high: float


class SuiteTestDocument(_Document):
    """The tests of a whole prompt.

    Attributes:
        verdict: `passed`, `worse`, `unconfirmed` (asked by the record, not confirmed side by side),
            `undecided`, `unmeasured` or `untested`.
        cases: How many cases were compared.
        first_draws: Trials of every case in the first round.
        asked: What asked for trials side by side: the empty text for all cases, or checks by the
            scores they gave.
        broken: Required cases that broke, without accepted ones.
        fixed: Cases that were fixed.
        side_by_side: Whether the difference is that of trials side by side, not against the record.
        stable_failed: Cases that main never failed and the candidate failed.
        needs: Trials that would have to be drawn live; 0 unless recordings were too short.
    """

    verdict: str
    cases: int
    first_draws: int = 1
    rounds: list[RoundDocument] = []
    asked: list[str] = []
    pairs: list[PairsDocument] = []
    net: list[NetDocument] = []
    broken: int = 0
    fixed: int = 0
    difference: DifferenceDocument | None = None
    side_by_side: bool = False
    control: ControlDocument | None = None
    stable_failed: int = 0
    needs: int = 0


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
        p_value: How likely so many failures are if nothing changed since; null, too.
        of_base: Whether the base's record was compared, since the candidate has no trials.
        base_lost: Whether `regauge baseline update` confirmed a loss of the base.
        lost: Whether the base lost and the change does not make up for it.
        blocks: Whether that rejects the change.
    """

    version: str
    message: str
    cases: int = 0
    difference: DifferenceDocument | None = None
    p_value: float | None = None
    of_base: bool = False
    base_lost: bool = False
    lost: bool = False
    blocks: bool = False


class PromptDocument(_Document):
    """The gate's result for one prompt.

    Attributes:
        path: Of its file.
        state: Against main: `changed`, `new` or `unchanged`.
        base_version: Main's version; null where main has none.
        line: Where the prompt file changed: the first such line of its messages, or else of all.
        diff: Of the prompt file, as a unified diff.
        counts: How many cases have each verdict.
        test: Of the prompt as a whole; null where nothing was tested.
        anchor: The sum of what changed since an old version; null where the settings name none, and
            where the base is that version.
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
    counts: dict[_CaseVerdict, int] = {}
    test: SuiteTestDocument | None = None
    anchor: AnchorDocument | None = None
    rules: list[RuleDocument] = []


class AuditDocument(_Document):
    """The candidate's committed completions next to fresh trials of the same requests.

    Attributes:
        trials: How many were compared.
        better: Those whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        p_value: How likely so many of the first kind are in recordings that were not selected.
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
        provisional: Whether committed answers were weighed: the author of the change recorded
            them, and a run that may call models makes its own trials.
        ref: What the change was compared with, as it was named.
        base_commit: The commit that was compared with.
        reasons: Why, the weightiest first; in plain counts.
        refusals: Why nothing was compared; empty unless the change is refused.
        audit: The candidate's recordings next to its fresh trials; null where none were compared.
        not_run: How many cases were not run, because the change is refused, or rejected whatever
            they show.
        notes: What a reader should know of how the comparison was made.
        rejected_before: How many other versions of the pull request or branch were rejected.
        judge_change_accepted: Why judges may differ from main's, as the command said; empty where
            none does.
        moved_bars: Parts of the bar that the change lowers, such as the tier of a case. Tiers,
            settings and baselines of the base decided; endpoints and expectations of the change.
        caveats: What else the change edits that its prompts were measured by, such as cases or code
            of evals; the headline of an accepted change states it.
        base_unavailable: Prompts whose target on the base could not be called; the history alone
            decided.
        loosened: Options of the command that are looser than the base's policy.
        unmeasured: What the run leaves out and the user did not select so, such as an eval that
            pytest does not collect: `message`, `fix`, `path`, `line`.
        operating_line: How often this gate is wrong, from this suite's own history.
        again: The command that decides again.
        next: What to do, and the command for it.
        policy: What the gate held the change to.
        cells: Main's histories and the states of cases; with the trials of the run enough to
            decide again.
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
