"""Pass rates that a prompt is to reach, and what trials say of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regauge.gate import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.tally import Outcome

Standing = Literal["met", "missed", "unsettled"]

_ROOM = 2
# No goal takes more trials than these: it is as good as certainty.
_TRIALS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A share of trials that has to pass.

    Attributes:
        checks: A trial passes when all of these do that say anything of it.
        cases: The trials of these count.
        pass_rate: Above 0 and below 1.
    """

    name: str
    checks: tuple[str, ...]
    cases: tuple[str, ...]
    pass_rate: float

    def to_json(self) -> dict[str, JSON]:
        """A plain document; cases by their number, for which ones they are others know."""
        return {
            "name": self.name,
            "checks": list(self.checks),
            "cases": len(self.cases),
            "pass_rate": self.pass_rate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a goal is reached.

    Attributes:
        standing: `met` when `low` reaches the goal; `missed` when `high` does not.
    """

    goal: Goal
    count: Count
    cases: int
    undrawn: int
    low: float
    high: float
    standing: Standing

    def __str__(self) -> str:
        drawn = f"passed {self.count.passed} of {self.count.trials}"
        bounds = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        more = f", {self.undrawn} cases undrawn" if self.undrawn else ""
        return f"{self.goal.name}: {self.standing} ({drawn}, {bounds}{more})"

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {
            "passed": self.count.passed,
            "trials": self.count.trials,
            "cases": self.cases,
            "undrawn": self.undrawn,
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "standing": self.standing,
        }


def reached(
    goal: Goal, outcomes: Callable[[str], Sequence[Outcome]], cases: Sequence[str]
) -> Reached:
    """Hold a goal to trials.

    Cases that failed are drawn more often than others, so a rate over all trials is rather too
    low, and a mean over cases too high where one failed by bad luck. A goal is met when both
    reach it, the first with its lower bound, and missed when the upper bound of the second does
    not. One more trial that passes never makes a met goal unmet.
    """
    counts: list[Count] = []
    undrawn = 0
    for case in cases:
        drawn = outcomes(case)
        undrawn += not drawn
        count = passed_all(goal.checks, drawn)
        if count.trials:
            counts.append(count)
    total = sum(counts, NONE_DRAWN)
    if not counts:
        low, high, mean = 0.0, 1.0, 0.0
    else:
        from regauge.stats import wilson

        mean = sum(count.rate for count in counts) / len(counts)
        # So many trials, dealt evenly, would tell as much about the mean.
        even = math.floor(len(counts) ** 2 / sum(1 / count.trials for count in counts) + 1e-9)
        low = wilson(total.passed, total.trials).low
        high = wilson(min(even, math.ceil(mean * even - 1e-9)), even).high
    standing: Standing = "unsettled"
    if not undrawn and counts:
        if low >= goal.pass_rate and mean >= goal.pass_rate:
            standing = "met"
        elif high < goal.pass_rate:
            standing = "missed"
    return Reached(
        goal=goal,
        count=total,
        cases=len(counts),
        undrawn=undrawn,
        low=min(low, high),
        high=high,
        standing=standing,
    )


def tolerated(goals: Sequence[Goal], flaky_rate: float) -> Mapping[str, float]:
    """How often each check may fail before its failures are worth an edit.

    A goal that allows fewer failures than a flaky check has wants these repaired, too.
    """
    rates: dict[str, float] = {}
    for goal in goals:
        for check in goal.checks:
            rates[check] = min(rates.get(check, flaky_rate), 1 - goal.pass_rate)
    return rates


def least_trials(pass_rate: float) -> int:
    """The fewest trials that show a pass rate, when every one of them passes.

    >>> least_trials(0.9), least_trials(0.98)
    (35, 189)
    """
    return _trials_at(1.0, pass_rate)


def trials_to_settle(found: Reached) -> int:
    """How many trials of all cases may well settle a goal.

    They meet it if further ones pass about as often as so far, with room for some bad luck.
    """
    count, wanted = found.count, found.goal.pass_rate
    room = _ROOM * least_trials(wanted)
    if not count.trials or count.rate <= wanted:
        return room
    rate = (count.passed + 1) / (count.trials + 2)
    unlucky = _trials_at(rate, wanted) if rate > wanted else room
    return min(unlucky, max(room, _trials_at(count.rate, wanted)))


def passed_all(checks: Sequence[str], outcomes: Iterable[Outcome]) -> Count:
    """How many trials passed all of some checks, of those that any of them says something of."""
    said = [
        [check.passed for check in outcome.checks if check.check in checks] for outcome in outcomes
    ]
    said = [verdicts for verdicts in said if verdicts]
    return Count(passed=sum(map(all, said)), trials=len(said))


def _trials_at(rate: float, wanted: float) -> int:
    """So many trials, `rate` of which pass, put the lower bound at `wanted`.

    Wilson's bound L solves (rate - L)² = z² L (1 - L) / n.
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(0.975)
    return min(_TRIALS_MAX, math.ceil(z * z * wanted * (1 - wanted) / (rate - wanted) ** 2))
