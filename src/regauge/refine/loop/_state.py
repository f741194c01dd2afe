"""Where a refinement run stands, and what it is about: all of it values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.gate import REVISION_FIRST
from regauge.refine.attempts import Memory
from regauge.refine.loop._findings import (
    Accepted,
    Bearing,
    Candidate,
    Confirmed,
    Critique,
    Note,
    Phase,
    Spent,
    Stack,
    Stop,
    StopReason,
)
from regauge.refine.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine._policy import RefinePolicy
    from regauge.refine.analysis import Check, Cluster
    from regauge.refine.edits import PromptText
    from regauge.refine.goals import Goal
    from regauge.refine.guards import Guard

__all__ = [
    "Release",
    "Setting",
    "State",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An earlier version of the prompt with the same messages.

    Attributes:
        name: What a person calls it, such as `1.0.0`.
        command: What puts its file back.
    """

    name: str
    text: PromptText
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run is about; it never changes during the run.

    Attributes:
        train: The ids of cases that proposers may learn of.
        holdout: The ids of cases that only verify.
        proposers: Who is asked for edits, the cheapest first.
        critics: Those of the proposers that want a critique before.
        first_trial: The number of the first trial of a changed text. Smaller numbers are left to
            the gate, so that no trial that chose a revision also admits it.
        prior: How often edits of a strategy were kept in earlier runs: what comes first of
            candidates that look alike.
        strategies: Only edits thought of in these ways; all when empty.
        variance: Whether an edit may be accepted because it makes a flaky check steady.
        looked_before: The looks at the held-out cases that earlier runs took.
        goals: What is to be reached; without any, that nothing fails reproducibly.
        releases: Earlier versions, the newest first.
        errors_in: What is wrong with a text as such, in words.
        heard: How much people said of answers, in words; what they said decides nothing.
        judging: The checks of LLM judges, with the calls that one verdict takes on average.
        look: The proposer whose model is called once before anything else; empty for none.
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
    strategies: tuple[str, ...] = ()
    variance: bool = False
    looked_before: frozenset[str] = frozenset()
    goals: tuple[Goal, ...] = ()
    releases: tuple[Release, ...] = ()
    errors_in: Callable[[PromptText], Sequence[str]] = lambda _: ()
    heard: str = ""
    look: str = ""
    judging: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a run stands.

    Attributes:
        text: The incumbent: the base with all accepted edits.
        tally: What trials said that may choose edits.
        fresh: What trials said that chose nothing: the evidence of the last verification.
        paired: What trials of a test said that chose neither its cases nor its edit.
        steadied: The flaky checks that were looked at again, by the keys of their clusters.
        open: Clusters of this cycle that are still to be worked on; the first is the current one.
        confirmed: Candidates that passed their test and leave failures; others may leave fewer.
        tier: Which of the proposers is asked.
        novel: Whether any proposer came with something new in this cycle.
        look: Which look at the current evidence, from 1.
        idle: Cycles in a row that accepted nothing.
        waiting: The cases that the last verification needs more trials of.
        doubtful: The texts of accepted edits that these trials are about.
        stack: The accepted edits of which the gate refuses some, while it is asked which.
        taken_back: Why the last accepted edit was taken back; empty where none was.
        left_out: The sentences that were left out in turn, and `bearings` what that told.
        looked: The looks at the held-out cases, in earlier runs and in this one, by the texts
            they decided about.
        spared: Clusters that are left alone because no goal asks for more.
        settled: What more trials were drawn for to settle goals, each of it once.
        release: Which release is tried, and `restored_from` the texts that all were tried on.
        kept_units: The parts of what differs from it that are still needed; None at first.
        leaving_out: Which of them are left out next: the first, and how many.
        parts_tried: How often parts were left out.
        way_back: What a person can do by hand; empty where no release does better.
        ending: Why no further edit is sought; what is accepted is verified all the same.
        read: Whether any reply of a model was read as edits.
        unread: Why the last one that could not be read was not.
        granted: The calls it may make on top of the policy's limit.
        left: The phase it stopped in.
        notes: What the last step decided.
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
    open: tuple[Cluster, ...] = ()
    flaky: tuple[Cluster, ...] = ()
    questions: tuple[tuple[Cluster, Critique], ...] = ()
    critique: Critique | None = None
    candidates: tuple[Candidate, ...] = ()
    confirmed: tuple[Confirmed, ...] = ()
    tier: int = 0
    novel: bool = False
    look: int = 0
    tested: int = 0
    idle: int = 0
    waiting: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    stack: Stack | None = None
    taken_back: str = ""
    looked: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    bearings: tuple[Bearing, ...] = ()
    spared: tuple[Cluster, ...] = ()
    settled: frozenset[str] = frozenset()
    release: int = 0
    restored_from: frozenset[str] = frozenset()
    kept_units: tuple[int, ...] | None = None
    leaving_out: tuple[int, int] = (0, 0)
    parts_tried: int = 0
    way_back: str = ""
    ending: StopReason | None = None
    read: bool = False
    unread: str = ""
    granted: int = 0
    left: Phase | None = None
    stop: Stop | None = None
    notes: tuple[Note, ...] = ()

    @property
    def cluster(self) -> Cluster:
        """The failures that are being worked on."""
        return self.open[0]

    def preceded_by(self, *notes: Note) -> State:
        """The state with notes before its own."""
        return replace(self, notes=(*notes, *self.notes))

    def noting(self, *notes: Note, **changes: object) -> State:
        """The state with further notes and other changes."""
        return replace(self, notes=(*self.notes, *notes), **changes)  # type: ignore[arg-type]
