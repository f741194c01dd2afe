"""What a state asks for, and what it is told: trials, critiques, proposals, the gate's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from regauge.refine.analysis import Cluster
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.loop._findings import Critique, Spent
    from regauge.refine.tally import Outcome

__all__ = [
    "Action",
    "AskCritique",
    "AskProposals",
    "Critiqued",
    "Draws",
    "Interrupted",
    "Look",
    "Looked",
    "MoreCalls",
    "Observation",
    "Proposed",
    "RunSuite",
    "RunTrials",
    "SuiteSaid",
    "TrialsDone",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Trials of one text: for each case, the numbers to draw.

    Attributes:
        check: The only check whose LLM judge is asked; None asks all of them. Rules judge always.
    """

    text: PromptText
    trials: tuple[tuple[str, int], ...]
    check: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrials:
    """Draw and judge trials."""

    draws: tuple[Draws, ...]

    @property
    def calls(self) -> int:
        """How many calls of the prompt's model it takes at the most."""
        return sum(len(draws.trials) for draws in self.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Make one call to the model that proposes, to see that its replies can be read."""

    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskCritique:
    """Ask why a cluster fails."""

    cluster: Cluster
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProposals:
    """Ask for edits that would repair a cluster."""

    cluster: Cluster
    proposer: str
    critique: Critique | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuite:
    """Let the gate compare the revision with the base, on trials that chose nothing."""

    text: PromptText
    calls_max: int


Action: TypeAlias = Look | RunTrials | AskCritique | AskProposals | RunSuite


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsDone:
    """What the trials said; those that could not be measured are missing from it."""

    outcomes: tuple[Outcome, ...]
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Whether a reply of the model that proposes can be read; `fault` is why not."""

    proposer: str
    fault: str
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Critiqued:
    """A critique; None where there is none, and `refused` is why it could not be read."""

    critique: Critique | None
    spent: Spent
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The edits of a proposer.

    Attributes:
        refused: Why others could not be used, in words.
        unread: How many of those are replies of a model that cannot be read.
    """

    edits: tuple[Edit, ...]
    spent: Spent
    refused: tuple[str, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSaid:
    """What the gate decided, with the trials it drew.

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

    reason: Literal["interrupted", "provider-outage", "no-key", "calls", "usd", "seconds"]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreCalls:
    """A person lets a run go on that used its calls, with so many from here on."""

    calls: int


Observation: TypeAlias = (
    Looked | TrialsDone | Critiqued | Proposed | SuiteSaid | Interrupted | MoreCalls
)
