"""Goals, pass rates that a prompt is to reach, and whether any edit can be confirmed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.gate import NO_TRIALS, Count
from regauge.refine.analysis import passed_all, within_cases
from regauge.refine.loop._plan import calls_left, numbered, repair_calls, trials_for
from regauge.refine.loop._state import Note, Trials
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from regauge.digests import JSON
    from regauge.refine.analysis import FailureCluster, Outcome
    from regauge.refine.loop._state import LoopConfig, LoopState

GoalStatus = Literal["met", "missed", "unsettled"]

# Bad luck in further trials: twice as many allow for a failure or two.
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
        """A plain document, with the number of cases."""
        return {**asdict(self), "checks": list(self.checks), "cases": len(self.cases)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalProgress:
    """The progress towards a goal.

    Attributes:
        standing: `met` when `low` reaches the goal; `missed` when `high` does not.
    """

    goal: Goal
    count: Count
    cases: int
    undrawn: int
    low: float
    high: float
    standing: GoalStatus

    def __str__(self) -> str:
        drawn = f"passed {self.count.passed} of {self.count.trials}"
        bounds = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        more = f", {self.undrawn} cases undrawn" if self.undrawn else ""
        return f"{self.goal.name}: {self.standing} ({drawn}, {bounds}{more})"

    def to_json(self) -> dict[str, JSON]:
        """A plain document, without the goal."""
        facts = asdict(self)
        del facts["goal"], facts["count"]
        bounds = {"low": round(self.low, 4), "high": round(self.high, 4)}
        return {**asdict(self.count), **facts, **bounds}


def measure_goal(
    goal: Goal, outcomes: Callable[[str], Sequence[Outcome]], cases: Sequence[str]
) -> GoalProgress:
    """Compare trials with a goal.

    Cases that failed run more often than others, so a rate over all trials is rather too low, and
    a mean over cases too high where one failed by bad luck. A goal is met when both reach it, the
    first with its lower bound, and missed when the upper bound of the second does not. One more
    trial that passes never makes a met goal unmet.
    """
    drawn = [outcomes(case) for case in cases]
    undrawn = sum(not trials for trials in drawn)
    counts = [count for trials in drawn if (count := passed_all(goal.checks, trials)).trials]
    total = sum(counts, NO_TRIALS)
    low, high = 0.0, 1.0
    standing: GoalStatus = "unsettled"
    if counts:
        from regauge.stats import wilson

        mean = sum(count.rate for count in counts) / len(counts)
        # So many trials, dealt evenly, would tell as much about the mean.
        even = math.floor(len(counts) ** 2 / sum(1 / count.trials for count in counts) + 1e-9)
        low = wilson(total.passed, total.trials).low
        high = wilson(min(even, math.ceil(mean * even - 1e-9)), even).high
        if not undrawn and low >= goal.pass_rate and mean >= goal.pass_rate:
            standing = "met"
        elif not undrawn and high < goal.pass_rate:
            standing = "missed"
    return GoalProgress(
        goal=goal,
        count=total,
        cases=len(counts),
        undrawn=undrawn,
        low=min(low, high),
        high=high,
        standing=standing,
    )


def least_trials(pass_rate: float) -> int:
    """The fewest trials that show a pass rate, when every one of them passes.

    >>> least_trials(0.9), least_trials(0.98)
    (35, 189)
    """
    return _trials_at(1.0, pass_rate)


def trials_to_settle(progress: GoalProgress) -> int:
    """The number of trials of all cases that probably settles a goal.

    They meet it if further ones pass about as often as so far, with room for some bad luck.
    """
    count, required = progress.count, progress.goal.pass_rate
    room = _ROOM * least_trials(required)
    if not count.trials or count.rate <= required:
        return room
    rate = (count.passed + 1) / (count.trials + 2)
    unlucky = _trials_at(rate, required) if rate > required else room
    return min(unlucky, max(room, _trials_at(count.rate, required)))


def _trials_at(rate: float, required: float) -> int:
    """So many trials, `rate` of which pass, put the lower bound at `wanted`.

    Wilson's bound L solves (rate - L)² = z² L (1 - L) / n.
    """
    z = NormalDist().inv_cdf(0.975)
    return min(_TRIALS_MAX, math.ceil(z * z * required * (1 - required) / (rate - required) ** 2))


# A goal that takes more trials of each case than this is left unsettled.
_TRIALS_OF_A_CASE = 12


def spared(
    setting: LoopConfig, state: LoopState, clusters: Iterable[FailureCluster]
) -> tuple[FailureCluster, ...]:
    """The failures that no goal wants repaired: those it speaks of are met, or none does."""
    if not setting.goals:
        return ()
    open_goals = [
        goal for goal in setting.goals if _while_searching(setting, state, goal).standing != "met"
    ]
    return tuple(
        cluster for cluster in clusters if not any(_speaks_of(goal, cluster) for goal in open_goals)
    )


def standings(setting: LoopConfig, state: LoopState, *, revised: bool) -> tuple[GoalProgress, ...]:
    """The progress towards each goal, over training and held-out cases.

    Args:
        setting: With the goals.
        state: With the trials.
        revised: Of the revision, on trials that chose nothing; else of the prompt as it was.
    """
    text = state.text if revised else setting.base
    tally = state.fresh if revised else state.tally
    return tuple(
        measure_goal(goal, lambda case: tally.outcomes(text.digest, case), goal.cases)
        for goal in setting.goals
    )


def all_met(progress: Sequence[GoalProgress]) -> bool:
    """Return whether there are goals, and each of them is met."""
    return bool(progress) and all(goal.standing == "met" for goal in progress)


def counted(progress: Sequence[GoalProgress]) -> str:
    """The number of met, missed and unsettled goals, in words."""
    number = _numbers(progress)
    others = [f", {number[kind]} {kind}" for kind in ("missed", "unsettled") if number[kind]]
    return f"{number['met']} of {plural(len(progress), 'goal')} met{''.join(others)}"


def goals_note(setting: LoopConfig, progress: Sequence[GoalProgress]) -> Note:
    """The note on goals; its subject is what they were when the run began."""
    text = "; ".join(map(str, progress))
    return Note(event="goals", subject=goals_digest(setting), text=text, numbers=_numbers(progress))


def goals_digest(setting: LoopConfig) -> str:
    """Over every goal with its checks and cases: the same digest, the same question."""
    return digest_of([{**goal.to_json(), "cases": list(goal.cases)} for goal in setting.goals])


def can_settle(setting: LoopConfig, state: LoopState) -> bool:
    """Return whether more trials of the text as it is may meet a goal that is not settled."""
    plans = settle(setting, state)
    return settling(state) not in state.settled and any(plan.trials for plan in plans)


def settling(state: LoopState) -> str:
    """The subject of further trials: the text, and whether failures wait for them."""
    return state.text.digest + ("/open" if state.open and not state.accepted else "")


def settle(setting: LoopConfig, state: LoopState) -> Trials:
    """More trials of every case of goals that are not settled, as far as they can be paid.

    While failures wait for it, only of goals that may turn out to allow them. Goals that take few
    trials come first. Trials are dealt evenly: none is drawn because of what another one said.
    """
    aside = 0 if state.accepted else repair_calls(setting)
    room = trials_for(setting, calls_left(setting, state) - aside)
    waiting = () if state.accepted else state.open

    def may_allow(progress: GoalProgress) -> bool:
        """Return whether a goal covers failures, and passes often enough to be met with them."""
        often = progress.count.trials and progress.count.rate > progress.goal.pass_rate
        return bool(often) and any(_speaks_of(progress.goal, cluster) for cluster in waiting)

    plans = [
        _lacking(setting, state, progress)
        for progress in standings(setting, state, revised=bool(state.accepted))
        if progress.standing == "unsettled" and (not waiting or may_allow(progress))
    ]
    more: dict[str, int] = {}
    for plan in sorted(plans, key=lambda plan: sum(plan.values())):
        both = {case: max(more.get(case, 0), plan.get(case, 0)) for case in {**more, **plan}}
        if sum(both.values()) <= room:
            more = both
    text, tally = state.text, state.fresh if state.accepted else state.tally
    return (numbered(text, more, lambda case: tally.next_trial(text.digest, case)),)


def _lacking(setting: LoopConfig, state: LoopState, progress: GoalProgress) -> dict[str, int]:
    """The further trials of each case of a goal; none if it stays out of reach.

    Cases on which its checks keep silent tell nothing, so they are drawn no further.
    """
    text, tally = state.text.digest, state.fresh if state.accepted else state.tally
    goal = progress.goal
    undrawn = [case for case in goal.cases if not tally.trials(text, case)]
    drawn = len(goal.cases) - len(undrawn)
    spoken_of = progress.cases / drawn if drawn else 1.0
    telling = progress.cases + round(len(undrawn) * spoken_of)
    if least_trials(goal.pass_rate) > _TRIALS_OF_A_CASE * telling:
        return {}
    each = min(_TRIALS_OF_A_CASE, -(-trials_to_settle(progress) // telling))
    # The gate will compare with as many trials of held-out cases.
    least = 0 if state.accepted else setting.policy.test.baseline_trials
    silent = {
        case
        for case in goal.cases
        if case not in undrawn and not passed_all(goal.checks, tally.outcomes(text, case)).trials
    }
    return {
        case: max(0, max(each, least if case in held_out else 0) - tally.trials(text, case))
        for held_out in [frozenset(setting.holdout)]
        for case in goal.cases
        if case not in silent
    }


def _while_searching(setting: LoopConfig, state: LoopState, goal: Goal) -> GoalProgress:
    """The progress on training cases, by trials since the last edit for the goal."""
    train = frozenset(setting.train)
    made_for = [
        n for n, accepted in enumerate(state.accepted) if accepted.cluster.check in goal.checks
    ]
    texts = [setting.base.digest, *(accepted.text.digest for accepted in state.accepted)]
    texts = texts[made_for[-1] + 1 if made_for else 0 :]

    def drawn(case: str) -> list[Outcome]:
        return [outcome for text in texts for outcome in state.tally.outcomes(text, case)]

    return measure_goal(goal, drawn, [case for case in goal.cases if case in train])


def _numbers(progress: Sequence[GoalProgress]) -> dict[str, int]:
    kinds: tuple[GoalStatus, ...] = ("met", "missed", "unsettled")
    return {kind: sum(goal.standing == kind for goal in progress) for kind in kinds}


def _speaks_of(goal: Goal, cluster: FailureCluster) -> bool:
    return cluster.check in goal.checks and not set(cluster.failing).isdisjoint(goal.cases)


# Checks that pass less often than this show a prompt that is broken, not one that is noisy.
_NOISY_FROM = 0.5
# A gain is named in steps of a twentieth; one check seldom has more cases than these.
_STEPS = 20
_CASES_MAX = 200


def can_confirm(setting: LoopConfig, state: LoopState, cluster: FailureCluster) -> bool:
    """Return whether an edit that makes the check as good as other ones would be confirmed."""
    return _p_at(setting, state, cluster, _ceiling(setting, state, cluster)) <= _bound(setting)


def underpowered_text(setting: LoopConfig, state: LoopState, cluster: FailureCluster) -> str:
    """The message about an edit that cannot be confirmed, with its fix."""
    now = 1 - cluster.failures / cluster.trials
    best = _ceiling(setting, state, cluster)
    # None where not even a perfect edit would be confirmed.
    gains = ((1 - now) * step / _STEPS for step in range(1, _STEPS + 1))
    bound = _bound(setting)
    least = next((g for g in gains if _p_at(setting, state, cluster, now + g) <= bound), None)
    gain = f"at least {100 * least:.0f} points" if least is not None else "more than there are"
    more = _cases_needed(setting, state, cluster, best)
    help_ = f"about {more} train cases with this check" if more else "a steadier check"
    return (
        f"{cluster.check} passes {100 * now:.0f} % of trials and at best about {100 * best:.0f} %;"
        f" with {plural(len(cluster.cases), 'train case')} no edit that gains"
        f" {100 * max(0.0, best - now):.0f} points can be confirmed, it takes {gain};"
        f" {help_} would do"
    )


def _bound(setting: LoopConfig) -> float:
    """The p-value that the first edit has to reach at one look."""
    test = setting.policy.test
    return test.alpha * 6 / math.pi**2 / test.looks


def _ceiling(setting: LoopConfig, state: LoopState, cluster: FailureCluster) -> float:
    """The best pass rate to expect of a check: that of the better half of the others."""
    digest = state.text.digest
    rates = [
        count.rate
        for name in state.tally.checks(digest, setting.train)
        if name != cluster.check and (count := state.tally.over(digest, setting.train, name)).trials
    ]
    better = sorted(rates)[len(rates) // 2 :]
    best = fmean(better) if better else 1.0
    now = 1 - cluster.failures / cluster.trials
    return best if len(rates) > 1 and best >= _NOISY_FROM and now < best else 1.0


def _p_at(
    setting: LoopConfig, state: LoopState, cluster: FailureCluster, rate: float, times: float = 1.0
) -> float:
    """The p-value of the last look at an edit that passes this share of the trials."""
    test, digest = setting.policy.test, state.text.digest
    counts = [state.tally.check(digest, case, cluster.check) for case in cluster.cases]
    counts = [count for count in counts if count.trials]
    if not counts:
        return 1.0
    counts = (counts * math.ceil(times))[: max(1, round(len(counts) * times))]
    old = max(test.baseline_trials, counts[0].trials) + test.looks - 1
    new = test.looks * test.look_trials
    # So many passes, dealt evenly to the cases.
    whole, more = divmod(min(round(rate * new * len(counts)), len(counts) * new), len(counts))
    pairs = [
        (
            Count(passed=round(count.rate * old), trials=old),
            Count(passed=whole + (n < more), trials=new),
        )
        for n, count in enumerate(counts)
    ]
    return within_cases(pairs, direction="better")


def _cases_needed(
    setting: LoopConfig, state: LoopState, cluster: FailureCluster, rate: float
) -> int:
    """The number of such cases that would confirm it; 0 if no tried number would."""
    times = 1.0
    while len(cluster.cases) * times <= _CASES_MAX:
        times *= 1.5
        if _p_at(setting, state, cluster, rate, times) <= _bound(setting):
            return math.ceil(len(cluster.cases) * times)
    return 0
