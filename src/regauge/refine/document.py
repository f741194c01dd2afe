"""The result of a refinement run, `result.json`: what `regauge refine --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from regauge.evidence import Count  # noqa: TC001 - pydantic reads it
from regauge.refine.attempts import Attempt
from regauge.refine.loop._state import Stop  # noqa: TC001 - pydantic reads it


class _RefinementDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseCount(_RefinementDocument):
    """Trials of several cases together; `cases` is the number of cases with trials."""

    passed: int
    trials: int
    cases: int


class Compared(_RefinementDocument):
    """The trials of the prompt before, and with the revision."""

    before: CaseCount
    after: CaseCount


class Gain(Compared):
    """The gain in a case's pass rate, from -1 to 1, with its 95 % interval."""

    gain: float
    interval: tuple[float, float]


class FailingCheck(_RefinementDocument):
    """A failing check and its cases.

    Attributes:
        code: The kind of failure; empty for any.
        failures: Failed trials of these cases.
    """

    check: str
    code: str
    cases: list[str]
    failures: int
    trials: int


class OpenFailure(FailingCheck):
    """A check that still fails.

    Attributes:
        edit_count: Edits tried for it.
        has_progress: Whether any of them did better in its first trials.
        limit: The limit at which failed outputs of the base are cut off; empty without one.
    """

    edit_count: int
    has_progress: bool
    limit: str = ""


class FlakyCheck(FailingCheck):
    """A check that fails now and then; `edit_count` is the number of edits tried for it."""

    edit_count: int


class Question(FailingCheck):
    """A failure that no edit can fix: a question to the user."""

    kind: str
    hypothesis: str


class Selection(_RefinementDocument):
    """The trials that selected an edit, which favour it."""

    before: Count
    after: Count
    p: float


class Splits(_RefinementDocument):
    """Trials of training and of held-out cases."""

    train: Compared
    holdout: Compared


class Change(FailingCheck):
    """One accepted edit.

    Attributes:
        added_text: The added lines; `removed_text` has the removed ones.
        attempt: The edit as later runs remember it.
        calls: Trials with the edit before it was accepted.
        fresh: Trials that did not select it.
        redrawn: The gain on trials run again with both texts; None without any.
        fresh_p: The p-value on the trials that did not select it.
    """

    strategy: str
    proposer: str
    rationale: str
    added_text: str
    removed_text: str
    attempt: Attempt
    calls: int
    chosen_by: Selection
    fresh: Splits
    redrawn: Gain | None
    fresh_p: float


class RevisionDocument(_RefinementDocument):
    """The proposed file.

    Attributes:
        version: Its version; empty if the prompt has none.
        why_version: Why major, minor or patch.
        note: The changelog entry.
        growth: The relative growth of the text.
    """

    version: str
    why_version: str
    note: str
    diff: str
    lines_added: int
    lines_removed: int
    growth: float


class SuiteResult(Compared):
    """All checks of all cases, and the last decision of the gate."""

    decision: str
    text: str


class GoalsDocument(_RefinementDocument):
    """The goals, each `before` and `after`."""

    digest: str
    progress: list[dict[str, Any]]


class CriterionDocument(_RefinementDocument):
    """The checks of a criterion together; `after` is None without a revision."""

    criterion: str
    checks: list[str]
    before: CaseCount
    after: CaseCount | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEdit(Attempt):
    """An edit that was not accepted; `earlier` is whether an earlier run rejected it."""

    earlier: bool


class EditResult(_RefinementDocument):
    """An edit that the run tried, with its last result."""

    strategy: str
    proposer: str
    ops: str
    result: str


class UnverifiedEdit(Selection):
    """An edit that passed its own test, before the calls were used up."""

    check: str
    strategy: str
    added_text: str


class Unverified(_RefinementDocument):
    """The rest of a run that was out of calls; `calls` would verify it."""

    calls: int
    edits: list[UnverifiedEdit]


class FeedbackDocument(_RefinementDocument):
    """The notes and comments that proposers saw."""

    summary: str
    remarks: list[dict[str, Any]]


class CaseCounts(_RefinementDocument):
    """The number of training and of held-out cases."""

    train: int
    holdout: int


class HoldoutLooks(_RefinementDocument):
    """Decisions on the held-out cases, over all runs; after `max` none may follow."""

    before: int
    after: int
    max: int


class RefinementUsage(_RefinementDocument):
    """The calls and the cost of a run.

    Attributes:
        calls: All calls; `replays` of them were recorded, and `calls_max` was the limit.
        completions: Calls of the prompt's model, `judge_calls` of LLM judges, `model_calls` of the
            refiner model.
        tested: Edits with a test of their own.
    """

    calls: int
    calls_max: int
    replays: int
    completions: int
    judge_calls: int
    model_calls: int
    usd: float
    cycles: int
    tested: int


class RefinementResult(_RefinementDocument):
    """A run that has stopped.

    Attributes:
        next: The next command, or what else to do; empty for nothing.
        diagnosis: The failures that the run found, in words; empty without measurements.
        variance: How often results repeat, `before` and `after`.
        rejected: The edits that were not accepted, also of earlier runs.
        edits: All edits that the run tried.
        unreadable: Responses of the refiner model without an edit.
        open: The checks that still fail.
        not_needed: Checks left alone, as no goal needs more.
    """

    schema_version: int
    run: str
    prompt: str
    file: str
    version: str
    models: list[str]
    simulated: bool
    stop: Stop
    next: str
    diagnosis: str
    cases: CaseCounts
    holdout_looks: HoldoutLooks
    changes: list[Change]
    revision: RevisionDocument | None
    suite: SuiteResult | None
    variance: dict[str, dict[str, Any]]
    goals: GoalsDocument | None
    criteria: list[CriterionDocument]
    rejected: list[RejectedEdit]
    edits: list[EditResult]
    unreadable: list[str]
    feedback: FeedbackDocument | None
    warnings: list[str]
    preflight: list[str]
    unverified: Unverified | None
    open: list[OpenFailure]
    not_needed: list[FailingCheck]
    flaky: list[FlakyCheck]
    questions: list[Question]
    usage: RefinementUsage
