"""What a run found and did so far: critiques, candidates, edits, notes, what it spent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.gate import Count
    from regauge.refine.analysis import Cluster
    from regauge.refine.attempts import Finding
    from regauge.refine.edits import Edit, PromptText

__all__ = [
    "Accepted",
    "Bearing",
    "Candidate",
    "Confirmed",
    "Critique",
    "CritiqueKind",
    "Note",
    "NoteEvent",
    "Phase",
    "Place",
    "Spent",
    "Stack",
    "Stop",
    "StopReason",
]


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
    "seconds",
    "holdout-looks",  # the held-out cases decided too often to tell what generalises
    "budget-too-small",  # it does not even pay for a first look
    "underpowered",  # no edit could be confirmed with these cases and this noise
    "unreadable",  # no reply of the model that proposes could be read
    "provider-outage",
    "no-key",  # a provider has no key, or refuses the one it is given
    "interrupted",
]


NoteEvent = Literal[
    "heard",  # what people said of answers, before anything was tried
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
        by: Who says so.
    """

    kind: CritiqueKind
    hypothesis: str
    quotes: tuple[str, ...] = ()
    by: str = ""

    @property
    def is_question(self) -> bool:
        """Whether a person has to answer it."""
        return self.kind in {"judge-wrong", "golden-wrong", "model-limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An edit that no guard objects to, and the text it makes.

    Attributes:
        suspicion: What may be wrong with it, as far as words tell; it needs more evidence then.
        suspects: The statements that its text lacks, to find one of them; it is never proposed.
        within: The text that has them all, where that is not the incumbent.
    """

    edit: Edit
    text: PromptText
    suspicion: str = ""
    suspects: tuple[Place, ...] = ()
    within: PromptText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An edit that passed its test.

    Attributes:
        text: The prompt with this edit and those before it.
        before: How often the check passed without it; `after` with it.
    """

    edit: Edit
    cluster: Cluster
    text: PromptText
    before: Count
    after: Count
    p: float
    effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Accepted edits that the gate refuses together; which one it is about is being found out.

    Attributes:
        edits: In their order, each with the text that it and those before it make.
        refused: The fewest of the first that the gate refuses; all of them to begin with.
        passed: The most of the first that it accepts; 0 is the prompt as it was.
        finding: What the refusal says against an edit.
        detail: Why it refuses, in words.
    """

    edits: tuple[Accepted, ...]
    refused: int
    passed: int = 0
    finding: Finding
    detail: str

    @property
    def tried(self) -> int:
        """How many of the first are tried next: all but the newest, and then half."""
        if self.refused == len(self.edits):
            return self.refused - 1
        return (self.passed + self.refused) // 2

    @property
    def settled(self) -> bool:
        """Whether one edit more or less decides."""
        return self.refused - self.passed == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """A candidate that passed its test; others may do better."""

    candidate: Candidate
    p: float
    effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearing:
    """What a sentence of the prompt does, as far as trials without it tell.

    Attributes:
        text: The sentence.
        carries: The checks that fail more often without it, with the p-values that they do not.
        may_carry: Those of which the trials do not settle it.
        hinders: The checks that pass more often without it, likewise.
        cases: How many train cases were drawn without it.
    """

    text: str
    carries: Mapping[str, float]
    may_carry: Mapping[str, float]
    hinders: Mapping[str, float]
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One decision, for the audit trail.

    Attributes:
        event: What was decided.
        subject: What it is about: a digest of a text, or the key of a cluster.
        text: In words.
        numbers: What decided it.
    """

    event: NoteEvent
    subject: str
    text: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict[str, "float | int | str"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has used.

    Attributes:
        calls: Of the prompt's model.
        judge_calls: Of the models of LLM judges.
        model_calls: Of the model that criticises and proposes.
        seconds: Wall clock, over all sittings.
    """

    calls: int = 0
    judge_calls: int = 0
    model_calls: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls,
            judge_calls=self.judge_calls + other.judge_calls,
            model_calls=self.model_calls + other.model_calls,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )

    @property
    def total(self) -> int:
        """All calls together, which is what `--budget-calls` limits."""
        return self.calls + self.judge_calls + self.model_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a run is over. `proposal` says whether it proposes a revision."""

    reason: StopReason
    proposal: bool
    text: str = ""
