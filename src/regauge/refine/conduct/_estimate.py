"""What a refinement takes, said before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.gate import REVISION_FIRST
from regauge.refine.workbench import deciding_judges
from regauge.runner import Draw, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.refine.workbench import Subject
    from regauge.runner import EvalSession

__all__ = ["Estimate", "ExpectedTrial", "expected_trial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTrial:
    """What one trial of a case takes on average, with its LLM judges.

    Attributes:
        judging: The calls of each judge, by its name.
        call_usd: What one call costs, of the prompt or of a judge; None where a price is missing.
    """

    judging: Mapping[str, float]
    call_usd: float | None


def expected_trial(evals: EvalSession, subject: Subject) -> ExpectedTrial:
    """What a trial takes, from recorded completions and judgements or from the requests."""
    draws: list[Draw] = []
    for member in subject.members.values():
        suite = replace(member.suite, judges=deciding_judges(member.suite))
        planned = PlannedCase(suite, member.case)
        planned.digest = planned.request(REVISION_FIRST).digest
        draws.append(Draw(planned, REVISION_FIRST))
    answers = evals.missing_answers(draws)
    verdicts = evals.missing_judgements(draws)
    costs = [*(one.cost_usd for one in answers), *(one.cost_usd for one in verdicts)]
    calls = len(draws) + sum(one.calls for one in verdicts)
    known = [cost for cost in costs if cost is not None]
    return ExpectedTrial(
        judging={one.judge: round(one.calls / len(draws), 4) for one in verdicts},
        call_usd=sum(known) / calls if len(known) == len(costs) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run takes, before anything is spent.

    Attributes:
        first_look: Calls of all models that say whether anything fails.
        least: Calls below which nothing is begun.
        one_repair: About how many calls find a fault, repair it and verify the repair.
        most: Calls that are never exceeded.
        goals: What each goal takes that was set: its name, and the fewest trials that meet it.
        out_of_reach: What to say of goals that the run cannot show to be met.
        steadying: About how many calls looks at flaky checks take on top, from and to; None where
            none are worked on.
        judged: Whether LLM judges are among these calls.
        call_usd: What one of these calls costs on average; None without a price.
    """

    train: int
    holdout: int
    first_look: int
    least: int
    one_repair: int
    most: int
    goals: tuple[tuple[str, int], ...]
    out_of_reach: tuple[str, ...]
    steadying: tuple[int, int] | None
    judged: bool
    call_usd: float | None

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        goals: dict[str, JSON] = {"goals": [{"name": n, "trials": t} for n, t in self.goals]}
        if self.out_of_reach:
            goals["out_of_reach"] = list(self.out_of_reach)
        steadying: dict[str, JSON] = {"steadying_calls": list(self.steadying or ())}
        return {
            "train": self.train,
            "holdout": self.holdout,
            "first_look_calls": self.first_look,
            "least_calls": self.least,
            "one_repair_calls": self.one_repair,
            "calls_max": self.most,
            "judged": self.judged,
            "call_usd": self.call_usd,
            **(steadying if self.steadying else {}),
            **(goals if self.goals else {}),
        }
