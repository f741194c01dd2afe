"""The result of a refinement run, `result.json`: what `regauge refine --json` prints."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from regauge.evidence import Count  # noqa: TC001 - pydantic reads it
from regauge.refine.attempts import Attempt  # noqa: TC001 - pydantic reads it
from regauge.refine.loop._state import Stop  # noqa: TC001 - pydantic reads it


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseCount(_Document):
    """Trials of several cases together; `cases` is the number of cases with trials."""

    passed: int
    trials: int
    cases: int


class Compared(_Document):
    """The trials of the prompt before, and with the revision."""

    before: CaseCount
    after: CaseCount


class Gain(Compared):
    """The gain in a case's pass rate, from -1 to 1, with its 95 % interval."""

    gain: float
    interval: tuple[float, float]


class FailingCheck(_Document):
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
        tried: Edits tried for it.
        moved: Whether any of them did better in its first trials.
    """

    tried: int
    moved: bool


class FlakyCheck(FailingCheck):
    """A check that fails now and then; `tried` counts the edits tried for it."""

    tried: int


class Question(FailingCheck):
    """A failure that no edit can fix: a question to the user."""

    kind: str
    hypothesis: str


class Selection(_Document):
    """The trials that selected an edit, which favour it."""

    before: Count
    after: Count
    p: float


class Splits(_Document):
    """Trials of training and of held-out cases."""

    train: Compared
    holdout: Compared


class Change(FailingCheck):
    """One accepted edit.

    Attributes:
        added: The added lines; `removed` the removed ones.
        attempt: The edit as later runs remember it.
        calls: Trials with the edit before it was accepted.
        fresh: Trials that did not select it.
        redrawn: The gain on trials run again with both texts; None without any.
        fresh_p: The p-value on the trials that did not select it.
    """

    strategy: str
    proposer: str
    rationale: str
    added: str
    removed: str
    attempt: Attempt
    calls: int
    chosen_by: Selection
    fresh: Splits
    redrawn: Gain | None
    fresh_p: float


class RevisionDocument(_Document):
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


class GoalsDocument(_Document):
    """The goals, each with its progress `before` and `after`."""

    digest: str
    reached: list[dict[str, Any]]


class CriterionDocument(_Document):
    """The checks of a criterion together; `after` is None without a revision."""

    criterion: str
    checks: list[str]
    before: CaseCount
    after: CaseCount | None


class RejectedEdit(_Document):
    """An edit that was not accepted.

    Attributes:
        before: The shape of the text before it; `after` with it.
        detail: Why.
        earlier: Whether an earlier run rejected it.
    """

    before: str
    after: str
    failure_mode: str
    result: str
    detail: str
    cycle: int
    places: str
    proposer: str
    strategy: str
    ops: str
    earlier: bool
    added: str
    removed: str


class EditResult(_Document):
    """An edit that the run tried, with its last result."""

    strategy: str
    proposer: str
    ops: str
    result: str


class UnverifiedEdit(_Document):
    """An edit that passed its own test, before the calls were used up."""

    check: str
    strategy: str
    p: float
    before: Count
    after: Count
    added: str


class Unverified(_Document):
    """What a run that was out of calls did not verify; `calls` would verify it."""

    calls: int
    edits: list[UnverifiedEdit]


class FeedbackDocument(_Document):
    """The notes and comments that proposers saw."""

    feedback: str
    said: list[dict[str, Any]]


class CaseCounts(_Document):
    """The number of training and of held-out cases."""

    train: int
    holdout: int


class HoldoutLooks(_Document):
    """Decisions on the held-out cases, over all runs; after `max` none may follow."""

    before: int
    after: int
    max: int


class Spent(_Document):
    """The calls and the cost of a run.

    Attributes:
        calls: All calls; `replayed` of them were recorded, and `calls_max` was the limit.
        completions: Calls of the prompt's model, `judge_calls` of LLM judges, `model_calls` of the
            refiner model.
        tested: Edits with a test of their own.
    """

    calls: int
    calls_max: int
    replayed: int
    completions: int
    judge_calls: int
    model_calls: int
    usd: float
    cycles: int
    tested: int


class RefinementResult(_Document):
    """A run that has stopped.

    Attributes:
        next: The next command, or what else to do; empty for nothing.
        found: The failures that the run found, in words; empty without measurements.
        variance: How often results repeat, `before` and `after`.
        rejected: The edits that were not accepted, also of earlier runs.
        edits: All edits that the run tried.
        unreadable: Responses of the refiner model without an edit.
        open: The checks that still fail.
        spared: Checks left alone, as no goal needs more.
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
    found: str
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
    people: FeedbackDocument | None
    warnings: list[str]
    preflight: list[str]
    unverified: Unverified | None
    open: list[OpenFailure]
    spared: list[FailingCheck]
    flaky: list[FlakyCheck]
    questions: list[Question]
    spent: Spent
