"""Where a refinement run stands, what it asks for and what it observed: all of it values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from regauge.gate import NO_TRIALS, REVISION_FIRST
from regauge.refine.analysis import Outcome, Tally
from regauge.refine.attempts import Memory
from regauge.refine.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.gate import Count
    from regauge.refine._policy import RefinePolicy
    from regauge.refine.analysis import Check, FailureCluster
    from regauge.refine.attempts import Finding
    from regauge.refine.edits import PromptText
    from regauge.refine.guards import Guard
    from regauge.refine.loop._goals import Goal

Place: TypeAlias = "tuple[int, int]"
"""A statement: the message it is in, and its number there."""


Phase = Literal[
    "look", "baseline", "localise", "release", "unsteady", "critique", "propose", "screen",
    "confirm", "simplify", "holdout", "suite", "fresh", "settle", "stopped",
]  # fmt: skip


StopReason = Literal[
    "goal-met",  # nothing fails reproducibly any more, and the suite accepts the revision;
    # or every goal that was set is met, with a revision or without one
    "goal-open",  # a goal is missed or not settled, and nothing fails reproducibly
    "improved",  # the suite accepts the revision; something else still fails
    "nothing-to-refine",  # nothing failed reproducibly to begin with
    "no-acceptable-edit",  # cycles in a row accepted nothing
    "only-known-edits",  # proposers came with nothing new
    "questions",  # what still fails is for a person to answer, not for an edit
    "suite-refused",  # every accepted edit was taken back
    "cycles",
    "candidates",
    "calls",
    "model-calls",
    "usd",
    "holdout-looks",  # the held-out cases decided too often to tell what generalises
    "budget-too-small",  # it does not even pay for a first look
    "underpowered",  # no edit could be confirmed with these cases and this noise
    "unreadable",  # no reply of the model that proposes could be read
    "provider-outage",
    "no-key",  # a provider has no key, or refuses the one it is given
    "interrupted",
]


NoteEvent = Literal[
    "feedback",  # what people said of answers, before anything was tried
    "preflight",  # the prompt says something twice, or may contradict itself
    "released",  # how failing cases do with all that an earlier release said
    "localised",  # what a sentence carries, or stands in the way of
    "diagnosed",
    "goals",  # which of the goals that were set are met
    "unsteady",  # what cases of a flaky check did when they were drawn again
    "criticised",
    "unreadable",  # what a proposer said is no edit of this prompt
    "guarded",
    "screened",
    "confirmed",
    "refuted",
    "undecided",
    "kept",  # an earlier edit is still needed
    "simplified",  # an earlier edit is needed no longer
    "suite-accept",
    "suite-reject",
    "suite-undecided",
    "suite-unmeasured",
    "steadier",  # an edit makes verdicts vary less, on trials that chose nothing
    "bisected",  # of edits the suite refused together, fewer are tried
    "rolled-back",
    "set-aside",  # an edit was accepted, and no calls are left to verify it
    "accepted",
    "limit",
    "more-calls",  # a person lets it go on
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
        kind: `judge-wrong`, `golden-wrong` and `model-limit` are questions to a person; no edit
            of the prompt answers them.
        quotes: Lines of the prompt it is about.
    """

    kind: CritiqueKind
    hypothesis: str
    quotes: tuple[str, ...] = ()
    by: str = ""

    @property
    def is_question(self) -> bool:
        """Return whether a person has to answer it."""
        return self.kind in {"judge-wrong", "golden-wrong", "model-limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An edit that no guard objects to, and the text it makes.

    Attributes:
        suspicion: What may be wrong with it, as far as words tell; it needs more evidence then.
        suspects: The statements that its text lacks, to find one of them; it is never proposed.
        p: That it helps no more than by chance, once its test is over; `effect` is the mean gain.
    """

    edit: Edit
    text: PromptText
    p: float = 1.0
    effect: float = 0.0
    suspicion: str = ""
    suspects: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An edit that passed its test.

    Attributes:
        text: The prompt with this edit and those before it.
    """

    edit: Edit
    cluster: FailureCluster
    text: PromptText
    before: Count = NO_TRIALS
    after: Count = NO_TRIALS
    p: float = 1.0
    effect: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EditBisection:
    """Accepted edits that the gate refuses together, while the one it refuses is searched.

    Attributes:
        refused: The fewest of the first edits that the gate refuses; all of them to begin with.
        passed: The most of the first edits that it accepts; 0 is the prompt as it was.
        finding: What the refusal says against an edit.
    """

    edits: tuple[Accepted, ...]
    refused: int
    passed: int = 0
    finding: Finding
    detail: str

    @property
    def tried(self) -> int:
        """The number of first edits to try next: all but the newest, then half."""
        if self.refused == len(self.edits):
            return self.refused - 1
        return (self.passed + self.refused) // 2

    @property
    def settled(self) -> bool:
        """Return whether one edit more or less decides."""
        return self.refused - self.passed == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The effect of a sentence of the prompt, from trials without it.

    Attributes:
        carries: The checks that fail more often without it, with the p-values that they do not.
        may_carry: Those of which the trials do not settle it.
        hinders: The checks that pass more often without it, too.
    """

    text: str
    carries: Mapping[str, float]
    may_carry: Mapping[str, float]
    hinders: Mapping[str, float]
    cases: int


Numbers: TypeAlias = "Mapping[str, float | int | str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One decision, for the audit trail; its subject is a digest of a text or a cluster's key."""

    event: NoteEvent
    subject: str
    text: str
    numbers: Numbers = field(default_factory=dict[str, "float | int | str"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The calls that a run has used: of the prompt's model, of LLM judges, of the refiner."""

    calls: int = 0
    judge_calls: int = 0
    model_calls: int = 0
    usd: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
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
    """The reason why a run is over. `proposal` says whether it proposes a revision."""

    reason: StopReason
    proposal: bool
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Trials of one text: for each case, the numbers to draw.

    Attributes:
        check: The only check whose LLM judge is asked; None asks all of them. Rules judge always.
    """

    text: PromptText
    trials: tuple[tuple[str, int], ...]
    check: str | None = None


Trials: TypeAlias = tuple[Draws, ...]
"""Trials to run and to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProposer:
    """Ask a proposer why the state's cluster fails, or for edits that would repair it.

    Attributes:
        what: `look` makes one call before anything else, to see that replies can be read.
    """

    what: Literal["look", "critique", "edits"]
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuite:
    """Let the gate compare the revision with the base, on trials that chose nothing."""

    calls_max: int


Action: TypeAlias = Trials | AskProposer | RunSuite


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsDone:
    """The results of trials; unmeasured ones are left out."""

    outcomes: tuple[Outcome, ...]
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Return whether a reply of the model that proposes can be read; `fault` is why not."""

    proposer: str
    fault: str
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Critiqued:
    """A critique; None where there is none, and `refused` is why it could not be read."""

    critique: Critique | None
    spent: Spent
    refused: str = ""


_PlainEdit: TypeAlias = Annotated[
    Edit, PlainSerializer(Edit.to_json, return_type=dict[str, Any]), PlainValidator(Edit.from_json)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The edits of a proposer.

    Attributes:
        unread: How many of those are replies of a model that cannot be read.
    """

    edits: tuple[_PlainEdit, ...]
    spent: Spent
    refused: tuple[str, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSaid:
    """The decision of the gate, with its trials.

    Attributes:
        short: Whether it decided nothing because it wants more calls than are left.
    """

    decision: Literal["accept", "reject", "undecided", "unmeasured"]
    reasons: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    spent: Spent
    short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Nothing more can be drawn: a person stopped the run, or a provider is down."""

    reason: Literal["interrupted", "provider-outage", "no-key", "calls", "usd"]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreCalls:
    """A person lets a run go on that used its calls, with so many from here on."""

    calls: int


Observation: TypeAlias = (
    Looked | TrialsDone | Critiqued | Proposed | SuiteSaid | Interrupted | MoreCalls
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An earlier version of the prompt with the same messages."""

    name: str
    text: PromptText
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The fixed settings of a run.

    Attributes:
        proposers: The cheapest first; `critics` are those that call a model.
        first_trial: The number of the first trial of a changed text. Smaller numbers are left to
            the gate, so that no trial that chose a revision also admits it.
        prior: How often edits of a strategy were kept in earlier runs.
        feedback: How much human feedback there is, in words; it decides nothing.
        judging: The checks of LLM judges, with the calls that one verdict takes on average.
        look: The proposer whose model is called once before anything else; empty for none.
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
    prior: Mapping[str, float] = field(default_factory=dict[str, float])
    variance: bool = False
    looked_before: frozenset[str] = frozenset()
    goals: tuple[Goal, ...] = ()
    releases: tuple[Release, ...] = ()
    errors_in: Callable[[PromptText], Sequence[str]] = lambda _: ()
    feedback: str = ""
    look: str = ""
    removals: tuple[Accepted, ...] = ()
    judging: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def tolerated(self) -> Mapping[str, float]:
        """The failure rate of each check that is not worth an edit.

        A goal that allows fewer failures than a flaky check has wants these fixed, too.
        """
        rates: dict[str, float] = {}
        for goal in self.goals:
            for check in goal.checks:
                rate = rates.get(check, self.policy.test.flaky_rate)
                rates[check] = min(rate, 1 - goal.pass_rate)
        return rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """Where a run is.

    Attributes:
        text: The base with all accepted edits.
        tally: Trials that may choose edits.
        fresh: Trials that chose nothing: the evidence of the last verification.
        paired: Trials of a test that chose neither its cases nor its edit.
        steadied: The flaky checks that were looked at again, by the keys of their clusters.
        open: Clusters of this cycle that are still to be worked on; the first is the current one.
        confirmed: Candidates that passed their test and leave failures; others may leave fewer.
        tier: Which of the proposers is called.
        novel: Whether any proposer came with something new in this cycle.
        look: Which look at the current evidence, from 1.
        idle: Cycles in a row that accepted nothing.
        waiting: Cases that the last verification needs more trials of, for the accepted edits
            with the texts in `doubtful`.
        left_out: Sentences, each with the trials without it, `sentence` the number of those that
            were run, and `bearings` what they showed.
        looked: The looks at the held-out cases over all runs, by the texts they decided about.
        spared: Clusters that no goal wants repaired.
        settled: What more trials were run for to settle goals, each of it once.
        release: Which release is tried, and `restored_from` the texts that all were tried on.
        helped: The failures that it repairs, for which parts of it are still to be tested.
        way_back: What a person can do by hand; empty where no release does better.
        ending: Why no further edit is sought; what is accepted is verified all the same.
        read: Whether any reply of a model was read as edits; `unread` is why the last was not.
        granted: The calls it may make on top of the policy's limit.
        left: The phase it stopped in.
    """

    phase: Phase
    text: PromptText
    cycle: int = 1
    tally: Tally = field(default_factory=Tally)
    fresh: Tally = field(default_factory=Tally)
    paired: Tally = field(default_factory=Tally)
    steadied: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)
    spent: Spent = field(default_factory=Spent)
    accepted: tuple[Accepted, ...] = ()
    open: tuple[FailureCluster, ...] = ()
    flaky: tuple[FailureCluster, ...] = ()
    questions: tuple[tuple[FailureCluster, Critique], ...] = ()
    critique: Critique | None = None
    candidates: tuple[Candidate, ...] = ()
    confirmed: tuple[Candidate, ...] = ()
    tier: int = 0
    novel: bool = False
    look: int = 0
    tested: int = 0
    idle: int = 0
    waiting: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    stack: EditBisection | None = None
    taken_back: str = ""
    looked: frozenset[str] = frozenset()
    left_out: tuple[tuple[str, Draws], ...] = ()
    sentence: int = 0
    bearings: tuple[Ablation, ...] = ()
    spared: tuple[FailureCluster, ...] = ()
    settled: frozenset[str] = frozenset()
    release: int = 0
    restored_from: frozenset[str] = frozenset()
    helped: tuple[FailureCluster, ...] = ()
    way_back: str = ""
    ending: StopReason | None = None
    read: bool = False
    unread: str = ""
    granted: int = 0
    left: Phase | None = None
    stop: Stop | None = None
    notes: tuple[Note, ...] = ()

    @property
    def cluster(self) -> FailureCluster:
        """The failures that are being worked on."""
        return self.open[0]

    def noting(self, *notes: Note) -> LoopState:
        """The state with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def note(
        self, event: NoteEvent, text: str, subject: str = "", numbers: Numbers | None = None
    ) -> LoopState:
        """The state with one more note, about its text unless another subject is named."""
        subject = subject or self.text.digest
        return self.noting(Note(event=event, subject=subject, text=text, numbers=numbers or {}))
