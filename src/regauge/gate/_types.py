"""The values a gate works on: what is compared, what is drawn, what is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.evidence import CaseState, CaseTier, Count

Arm: TypeAlias = Literal["candidate", "main"]
NotRecorded: TypeAlias = Literal["not-recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The trials of the base of one case before this run.

    Attributes:
        checks: Passes and trials of each required check; a check that abstained has fewer trials.
        whole: Trials in which every required check passed.
        scores: The scores of each check, where it gives any, each between 0 and 1.
        sessions: Ids of the runs the trials were made in.
        distinct_answers: How many different texts the answers were.
    """

    checks: Mapping[str, Count]
    whole: Count
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    sessions: tuple[str, ...] = ()
    distinct_answers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One golden case of one prompt, and what is known of it on main.

    Attributes:
        prompt: The name of the prompt.
        case: The id of the golden case.
        checks: The names of the checks that must pass; at least one.
        history: Main's trials; None where there are none.
        state: `unchanged` when the request is the same to the byte: nothing is drawn. `new` when
            main has no such case, so it is judged by its own bar.
        tier: `critical` cases must not fail whatever main does; `tracked` ones count for the suite
            alone.
        strict: Whether one failure of a critical case is enough.
        accepted: Why this case may change its verdict, or may be removed; empty when it may not.
        broke_before: In how many of the last versions of main its changelog accepts that the case
            broke.
        recorded: Whether both sides have recorded outputs alone, so that no trial can be added.
    """

    prompt: str
    case: str
    checks: tuple[str, ...]
    history: History | None = None
    state: CaseState = "changed"
    tier: CaseTier = "required"
    strict: bool = False
    accepted: str = ""
    broke_before: int = 0
    recorded: bool = False

    def __post_init__(self) -> None:
        if not self.checks or len(set(self.checks)) < len(self.checks):
            raise ValueError(
                f"case {self.case!r} of {self.prompt!r} needs checks with names of their own, "
                f"not {list(self.checks)}"
            )

    @property
    def key(self) -> tuple[str, str]:
        """Prompt and case: what a case is known by."""
        return self.prompt, self.case


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """The result of one trial.

    Attributes:
        checks: Whether each required check passed; None where it abstained.
        scores: The scores of checks that give one, between 0 and 1.
        answer: A digest of the answer's text: equal texts have equal digests.
    """

    checks: Mapping[str, bool | None]
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    answer: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether all checks passed that had an opinion; None when none had."""
        opinions = [passed for passed in self.checks.values() if passed is not None]
        return all(opinions) if opinions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Trials of one case that the gate asks for.

    Attributes:
        trials: Numbers counted from 0 within the arm: the candidate's own trials, and main's
            trials of this run. Whoever draws knows under which numbers they are stored.
    """

    prompt: str
    case: str
    arm: Arm
    trials: range


def tier_held(tier: CaseTier, base: Count, trials_min: int) -> CaseTier:
    """The tier a case is held to: a critical one only if the base passed that many trials.

    A case that the base itself fails now and then would block changes that did nothing.

    >>> from regauge.evidence import Count
    >>> tier_held("critical", Count(passed=3, trials=3), 1)
    'critical'
    >>> tier_held("critical", Count(passed=2, trials=3), 1)
    'required'
    """
    proven = not base.failed and base.trials >= trials_min
    return "required" if tier == "critical" and not proven else tier
