"""The states, actions and observations of a refinement run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from regauge.gate import NO_TRIALS, REVISION_FIRST
from regauge.refine.analysis import Outcome, Tally
from regauge.refine.attempts import Memory
from regauge.refine.edits import Edit, PromptText

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.gate import Count
    from regauge.refine._policy import AcceptancePolicy, RefinePolicy
    from regauge.refine.analysis import Check, FailureMode
    from regauge.refine.attempts import AttemptResult
    from regauge.refine.guards import Guard
    from regauge.refine.loop._plan import Goal

Place: TypeAlias = "tuple[int, int]"
"""A statement: its message, and its number in there."""


Phase = Literal[
    "baseline", "unsteady", "critique", "propose", "screen",
    "confirm", "holdout", "suite", "fresh", "settle", "stopped",
]  # fmt: skip


StopReason = Literal[
    "goal-met",  # no reproducible failure is left, and the gate accepts the revision;
    # or every goal is met, with a revision or without one
    "goal-open",  # a goal is missed or undecided, without a reproducible failure
    "improved",  # the gate accepts the revision; other failures remain
    "nothing-to-refine",  # no reproducible failure to begin with
    "no-acceptable-edit",  # cycles in a row accepted nothing
    "no-new-edit",  # proposers had none, or only known ones
    "questions",  # the remaining failures are questions to the user
    "suite-refused",  # every accepted edit was rolled back
    "cycles",
    "candidates",
    "calls",
    "model-calls",
    "usd",
    "tokens",
    "holdout-looks",  # too many decisions on the same held-out cases
    "underpowered",  # no edit could be confirmed with these cases and this noise
    "unreadable",  # no response of the refiner model could be read
    "provider-outage",
    "no-key",  # a provider has no key, or rejects it
    "unmeasured",  # trials, or the gate, without a completion or verdict
    "interrupted",
]


NoteEvent = Literal[
    "feedback",  # the amount of human feedback
    "preflight",  # repeated or contradicting statements of the prompt
    "localised",  # the checks that a sentence carries or hinders
    "diagnosed",
    "goals",  # the progress towards goals
    "unsteady",  # further trials of a flaky check
    "criticised",
    "unreadable",  # a response without a usable edit
    "guarded",
    "screened",
    "confirmed",
    "refuted",
    "undecided",
    "suite-accept",
    "suite-reject",
    "suite-undecided",
    "suite-unmeasured",
    "fewer",  # the gate rejected several edits; fewer are tested
    "rolled-back",
    "accepted",
    "limit",
    "more-calls",  # a user continues the run
    "stopped",
]


CritiqueKind = Literal[
    "missing", "contradicted", "ambiguous", "buried", "garbled", "too-long",
    "judge-wrong", "golden-wrong", "model-limit",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique:
    """A hypothesis about why cases fail; never evidence for an edit.

    Attributes:
        kind: `judge-wrong`, `golden-wrong` and `model-limit` are questions to the user, without an
            edit of the prompt.
        quotes: The lines of the prompt that it is about.
    """

    kind: CritiqueKind
    hypothesis: str
    quotes: tuple[str, ...] = ()
    author: str = ""

    @property
    def is_question(self) -> bool:
        """Return whether the user has to decide."""
        return self.kind in {"judge-wrong", "golden-wrong", "model-limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An earlier version of the prompt with the same messages."""

    name: str
    text: PromptText
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An edit that passed all guards, and the text with it.

    Attributes:
        suspicion: A possible problem by its words; the edit then needs more evidence.
        suspects: The statements that its text leaves out, to find a hindering one; such a text is
            never proposed.
        is_smaller: Whether it is a screened candidate without some of its changes.
        release: The release whose text it restores, in part or as a whole.
    """

    edit: Edit
    text: PromptText
    suspicion: str = ""
    suspects: tuple[Place, ...] = ()
    is_smaller: bool = False
    release: Release | None = None

    @property
    def name(self) -> str:
        """Its strategy, with the name of a restored release."""
        return f"{self.edit.strategy} {self.release.name}" if self.release else self.edit.strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An edit that passed its test.

    Attributes:
        text: The prompt with this edit and those before it.
        p: The p-value of its test.
    """

    edit: Edit
    mode: FailureMode
    text: PromptText
    before: Count = NO_TRIALS
    after: Count = NO_TRIALS
    p: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEdits:
    """Accepted edits that the gate rejects together, while it tests fewer and fewer of them.

    Attributes:
        result: The result of the rejected edit, once it is found.
    """

    edits: tuple[Accepted, ...]
    result: AttemptResult
    detail: str


Numbers: TypeAlias = "Mapping[str, float | int | str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One decision, for the audit trail; its subject is the digest of a text or a failure mode."""

    event: NoteEvent
    subject: str
    text: str
    numbers: Numbers = field(default_factory=dict[str, "float | int | str"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The calls and cost of a run: the prompt's model, LLM judges and the refiner."""

    calls: int = 0
    judge_calls: int = 0
    model_calls: int = 0
    usd: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            calls=self.calls + other.calls,
            judge_calls=self.judge_calls + other.judge_calls,
            model_calls=self.model_calls + other.model_calls,
            usd=self.usd + other.usd,
        )

    @property
    def total(self) -> int:
        """All calls together, which is what `--budget-calls` limits."""
        return self.calls + self.judge_calls + self.model_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The reason for the end of a run; `proposal` is whether it proposes a revision."""

    reason: StopReason
    proposal: bool
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """Trials of one text: cases and trial numbers.

    Attributes:
        check: The only check whose LLM judge is called; None for all. Rules always judge.
    """

    text: PromptText
    trials: tuple[tuple[str, int], ...]
    check: str | None = None


Trials: TypeAlias = tuple[TrialPlan, ...]
"""Trials to run and judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProposer:
    """Call a proposer for a critique of the state's failure mode, or for edits."""

    kind: Literal["critique", "edits"]
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGate:
    """Compare the revision with the base by the gate, on independent trials."""

    calls_max: int


Action: TypeAlias = Trials | CallProposer | RunGate


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResults:
    """The results of trials; unmeasured ones are left out.

    Attributes:
        problem: Why one is unmeasured; empty if none is.
    """

    outcomes: tuple[Outcome, ...]
    spending: Spending
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CritiqueResult:
    """A critique or None; `refused` is why a response could not be read."""

    critique: Critique | None
    spending: Spending
    refused: str = ""


_PlainEdit: TypeAlias = Annotated[
    Edit, PlainSerializer(Edit.to_json, return_type=dict[str, Any]), PlainValidator(Edit.from_json)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalResult:
    """The edits of a proposer.

    Attributes:
        refused: The reasons why others could not be used.
        unread: The number of unreadable responses among those.
    """

    edits: tuple[_PlainEdit, ...]
    spending: Spending
    refused: tuple[str, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionDecision:
    """The decision of the gate, with its trials.

    Attributes:
        short: Whether it is undecided for want of calls.
    """

    decision: Literal["accept", "reject", "undecided", "unmeasured"]
    reasons: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    spending: Spending
    short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The end of all calls: the user stopped the run, or trials cannot be measured."""

    reason: Literal[
        "interrupted", "provider-outage", "no-key", "calls", "usd", "tokens", "unmeasured"
    ]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreCalls:
    """The number of calls with which a user continues a run that was out of calls."""

    calls: int


Observation: TypeAlias = (
    TrialResults | CritiqueResult | ProposalResult | RevisionDecision | Interrupted | MoreCalls
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The fixed configuration of a run.

    Attributes:
        proposers: The cheapest first; `critics` are those that call a model.
        first_trial: The number of the first trial of a changed text. Smaller numbers belong to the
            gate, so that no trial both selects and verifies a revision.
        fix_flaky: Whether flaky checks are worked on, too.
        holdout_looks_before: The decisions on held-out cases in earlier runs.
        feedback: The amount of human feedback, in words; for reports only.
        judging: The checks of LLM judges, with the average calls of one verdict.
        removals: Text without effect; a run with any removes text and fixes nothing.
    """

    base: PromptText
    train: tuple[str, ...]
    holdout: tuple[str, ...]
    checks: Mapping[str, Check]
    guard: Guard
    policy: RefinePolicy
    proposers: tuple[str, ...] = ("rules",)
    critics: frozenset[str] = frozenset()
    first_trial: int = REVISION_FIRST
    fix_flaky: bool = False
    holdout_looks_before: frozenset[str] = frozenset()
    goals: tuple[Goal, ...] = ()
    releases: tuple[Release, ...] = ()
    errors_in: Callable[[PromptText], Sequence[str]] = lambda _: ()
    feedback: str = ""
    removals: tuple[Accepted, ...] = ()
    judging: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def cases(self) -> tuple[str, ...]:
        """All cases."""
        return (*self.train, *self.holdout)

    @property
    def tolerated(self) -> Mapping[str, float]:
        """The failure rate of each check that is not worth an edit.

        It is lower for checks in a goal that allows fewer failures than a flaky check has.
        """
        rates: dict[str, float] = {}
        for goal in self.goals:
            for check in goal.checks:
                rate = rates.get(check, self.policy.test.flaky_rate)
                rates[check] = min(rate, 1 - goal.pass_rate)
        return rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """The state of a run.

    Attributes:
        config: Its configuration, which never changes.
        text: The base with all accepted edits.
        tally: Trials that may select edits.
        fresh: Independent trials: the evidence of the last verification.
        paired: Trials of a test that selected neither its cases nor its edit.
        problem: Why a trial was unmeasured; empty if none was.
        steadied: The flaky checks that ran again, by the keys of their failure modes.
        open_modes: The remaining failure modes of this cycle; the first is the current one.
        proposer_index: The number of the current proposer.
        novel: Whether any proposal of this cycle was new.
        look_number: The number of the look at the current evidence, from 1.
        idle: Cycles in a row that accepted nothing.
        pending_cases: Cases that the last verification needs more trials of, for the accepted edits
            with the texts in `doubtful_texts`.
        holdout_looks: The decisions on held-out cases over all runs.
        spared_modes: Failure modes that no open goal is about.
        settled_texts: The texts with trials that were run to settle goals.
        better_release: A release that passes more often, whose text could not be proposed.
        ending: The reason to end the search; accepted edits are verified all the same.
        has_readable_response: Whether any response of a model was read as edits;
            `unreadable_reason` is the last error.
        extra_calls: The calls on top of the policy's limit.
        stopped_phase: The phase in which it stopped.
    """

    config: LoopConfig = field(repr=False, compare=False)
    phase: Phase
    text: PromptText
    cycle: int = 1
    tally: Tally = field(default_factory=Tally)
    fresh: Tally = field(default_factory=Tally)
    paired: Tally = field(default_factory=Tally)
    problem: str = ""
    steadied: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)
    spending: Spending = field(default_factory=Spending)
    accepted: tuple[Accepted, ...] = ()
    open_modes: tuple[FailureMode, ...] = ()
    flaky: tuple[FailureMode, ...] = ()
    questions: tuple[tuple[FailureMode, Critique], ...] = ()
    critique: Critique | None = None
    candidates: tuple[Candidate, ...] = ()
    proposer_index: int = 0
    novel: bool = False
    look_number: int = 0
    tested: int = 0
    idle: int = 0
    pending_cases: tuple[str, ...] = ()
    doubtful_texts: tuple[str, ...] = ()
    rejected: RejectedEdits | None = None
    rollback_reason: str = ""
    holdout_looks: frozenset[str] = frozenset()
    spared_modes: tuple[FailureMode, ...] = ()
    settled_texts: frozenset[str] = frozenset()
    better_release: Release | None = None
    ending: StopReason | None = None
    has_readable_response: bool = False
    unreadable_reason: str = ""
    extra_calls: int = 0
    stopped_phase: Phase | None = None
    stop: Stop | None = None
    notes: tuple[Note, ...] = ()

    @property
    def test(self) -> AcceptancePolicy:
        """The evidence that each step needs."""
        return self.config.policy.test

    @property
    def accepted_edits(self) -> tuple[Accepted, ...]:
        """All accepted edits, also while the gate tests fewer of them."""
        return self.accepted if self.rejected is None else self.rejected.edits

    @property
    def mode(self) -> FailureMode:
        """The current failure mode."""
        return self.open_modes[0]

    def note(
        self, event: NoteEvent, text: str, subject: str = "", numbers: Numbers | None = None
    ) -> LoopState:
        """The state with one more note, by default about its text."""
        subject = subject or self.text.digest
        note = Note(event=event, subject=subject, text=text, numbers=numbers or {})
        return replace(self, notes=(*self.notes, note))
