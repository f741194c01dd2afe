"""Goals, the pass rates to reach, and the power to confirm an edit."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.gate import NO_TRIALS, Count
from regauge.refine.analysis import p_within_cases, passed_all
from regauge.refine.loop._plan import calls_left, fix_calls, number_trials, trials_for
from regauge.refine.loop._state import Note, Trials
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from regauge.digests import JSON
    from regauge.refine.analysis import FailureMode, Outcome
    from regauge.refine.loop._state import LoopConfig, LoopState

GoalStatus = Literal["met", "missed", "undecided"]

# Twice as many trials allow for a failure or two by bad luck.
_ROOM = 2
# No goal takes more trials than these: it is as good as certainty.
_TRIALS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A pass rate to reach.

    Attributes:
        checks: A trial passes if all of these checks with a verdict do.
        cases: The cases whose trials count.
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
        untested: The number of cases without trials.
        status: `met` if `low` reaches the goal; `missed` if `high` does not.
    """

    goal: Goal
    count: Count
    cases: int
    untested: int
    low: float
    high: float
    status: GoalStatus

    def __str__(self) -> str:
        counts = f"passed {self.count.passed} of {self.count.trials}"
        bounds = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        untested = f", {self.untested} cases without trials" if self.untested else ""
        return f"{self.goal.name}: {self.status} ({counts}, {bounds}{untested})"

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

    Failing cases run more often than others, so a rate over all trials is rather too low. A mean
    over cases is too high if one failed by bad luck. A goal is met when both reach it, the first
    with its lower bound, and missed when the upper bound of the second does not. A further passing
    trial never makes a met goal unmet.
    """
    outcomes_by_case = [outcomes(case) for case in cases]
    untested = sum(not trials for trials in outcomes_by_case)
    counts = [
        count for trials in outcomes_by_case if (count := passed_all(goal.checks, trials)).trials
    ]
    total = sum(counts, NO_TRIALS)
    low, high = 0.0, 1.0
    status: GoalStatus = "undecided"
    if counts:
        from regauge.stats import wilson

        mean = sum(count.rate for count in counts) / len(counts)
        # Evenly dealt, this number of trials would give the same evidence about the mean.
        even = math.floor(len(counts) ** 2 / sum(1 / count.trials for count in counts) + 1e-9)
        low = wilson(total.passed, total.trials).low
        high = wilson(min(even, math.ceil(mean * even - 1e-9)), even).high
        if not untested and low >= goal.pass_rate and mean >= goal.pass_rate:
            status = "met"
        elif not untested and high < goal.pass_rate:
            status = "missed"
    return GoalProgress(
        goal=goal,
        count=total,
        cases=len(counts),
        untested=untested,
        low=min(low, high),
        high=high,
        status=status,
    )


def least_trials(pass_rate: float) -> int:
    """The fewest trials that show a pass rate, when every one of them passes.

    >>> least_trials(0.9), least_trials(0.98)
    (35, 189)
    """
    return _trials_at(1.0, pass_rate)


def trials_to_settle(progress: GoalProgress) -> int:
    """The number of trials of all cases that probably settles a goal.

    They meet it if further ones pass about as often as before, with room for some bad luck.
    """
    count, required = progress.count, progress.goal.pass_rate
    room = _ROOM * least_trials(required)
    if not count.trials or count.rate <= required:
        return room
    rate = (count.passed + 1) / (count.trials + 2)
    unlucky = _trials_at(rate, required) if rate > required else room
    return min(unlucky, max(room, _trials_at(count.rate, required)))


def _trials_at(rate: float, required: float) -> int:
    """The trials with this pass rate that put the lower bound at `required`.

    Wilson's bound L solves (rate - L)² = z² L (1 - L) / n.
    """
    z = NormalDist().inv_cdf(0.975)
    return min(_TRIALS_MAX, math.ceil(z * z * required * (1 - required) / (rate - required) ** 2))


# A goal that takes more trials of each case than this is left undecided.
_TRIALS_OF_A_CASE = 12


def spared_modes(state: LoopState, modes: Iterable[FailureMode]) -> tuple[FailureMode, ...]:
    """The failures that no open goal is about; none without goals."""
    if not state.config.goals:
        return ()
    open_goals = [
        goal for goal in state.config.goals if _while_searching(state, goal).status != "met"
    ]
    return tuple(mode for mode in modes if not any(_covers(goal, mode) for goal in open_goals))


def measure_goals(state: LoopState, *, with_revision: bool) -> tuple[GoalProgress, ...]:
    """The progress towards each goal, over training and held-out cases.

    Args:
        config: The configuration, with the goals.
        state: The state, with the trials.
        with_revision: Measure the revision on independent trials, not the first prompt.
    """
    text = state.text if with_revision else state.config.base
    tally = state.fresh if with_revision else state.tally
    return tuple(
        measure_goal(goal, lambda case: tally.outcomes(text.digest, case), goal.cases)
        for goal in state.config.goals
    )


def all_met(progress: Sequence[GoalProgress]) -> bool:
    """Return whether there are goals, and each of them is met."""
    return bool(progress) and all(goal.status == "met" for goal in progress)


def describe_goals(progress: Sequence[GoalProgress]) -> str:
    """The number of met, missed and undecided goals, in words."""
    number = _numbers(progress)
    parts = [f", {number[kind]} {kind}" for kind in ("missed", "undecided") if number[kind]]
    return f"{number['met']} of {plural(len(progress), 'goal')} met{''.join(parts)}"


def goals_note(config: LoopConfig, progress: Sequence[GoalProgress]) -> Note:
    """The note on goals; its subject is the digest of the goals."""
    text = "; ".join(map(str, progress))
    return Note(event="goals", subject=goals_digest(config), text=text, numbers=_numbers(progress))


def goals_digest(config: LoopConfig) -> str:
    """The digest of every goal with its checks and cases."""
    return digest_of([{**goal.to_json(), "cases": list(goal.cases)} for goal in config.goals])


def can_settle(state: LoopState) -> bool:
    """Return whether more trials of the current text may meet an undecided goal."""
    plans = settling_trials(state)
    return settling_key(state) not in state.settled_texts and any(plan.trials for plan in plans)


def settling_key(state: LoopState) -> str:
    """The key of further trials: the text, and whether failures wait for them."""
    return state.text.digest + ("/open" if state.open_modes and not state.accepted else "")


def settling_trials(state: LoopState) -> Trials:
    """More trials of every case of undecided goals, within the budget.

    While failures wait for it, only goals that may allow them count. Goals with few trials come
    first. Every case gets the same number, so that no result selects a trial.
    """
    aside = 0 if state.accepted else fix_calls(state.config)
    room = trials_for(state.config, calls_left(state) - aside)
    waiting = () if state.accepted else state.open_modes

    def may_allow(progress: GoalProgress) -> bool:
        """Return whether a goal covers failures, and passes often enough to be met with them."""
        often = progress.count.trials and progress.count.rate > progress.goal.pass_rate
        return bool(often) and any(_covers(progress.goal, mode) for mode in waiting)

    plans = [
        _missing_trials(state, progress)
        for progress in measure_goals(state, with_revision=bool(state.accepted))
        if progress.status == "undecided" and (not waiting or may_allow(progress))
    ]
    planned_trials: dict[str, int] = {}
    for plan in sorted(plans, key=lambda plan: sum(plan.values())):
        combined = {
            case: max(planned_trials.get(case, 0), plan.get(case, 0))
            for case in {**planned_trials, **plan}
        }
        if sum(combined.values()) <= room:
            planned_trials = combined
    text, tally = state.text, state.fresh if state.accepted else state.tally
    return (number_trials(text, planned_trials, lambda case: tally.next_trial(text.digest, case)),)


def _missing_trials(state: LoopState, progress: GoalProgress) -> dict[str, int]:
    """The further trials of each case of a goal; none if it is out of reach.

    Cases without a verdict of its checks add no evidence, so they are left out.
    """
    text, tally = state.text.digest, state.fresh if state.accepted else state.tally
    goal = progress.goal
    untested = [case for case in goal.cases if not tally.trials(text, case)]
    tested = len(goal.cases) - len(untested)
    spoken_of = progress.cases / tested if tested else 1.0
    case_count = progress.cases + round(len(untested) * spoken_of)
    if least_trials(goal.pass_rate) > _TRIALS_OF_A_CASE * case_count:
        return {}
    trials_per_case = min(_TRIALS_OF_A_CASE, -(-trials_to_settle(progress) // case_count))
    # The gate compares with as many trials of held-out cases.
    least = 0 if state.accepted else state.test.baseline_trials
    silent = {
        case
        for case in goal.cases
        if case not in untested and not passed_all(goal.checks, tally.outcomes(text, case)).trials
    }
    return {
        case: max(
            0, max(trials_per_case, least if case in held_out else 0) - tally.trials(text, case)
        )
        for held_out in [frozenset(state.config.holdout)]
        for case in goal.cases
        if case not in silent
    }


def _while_searching(state: LoopState, goal: Goal) -> GoalProgress:
    """The progress on training cases, by trials since the last edit for the goal."""
    train = frozenset(state.config.train)
    positions = [
        n for n, accepted in enumerate(state.accepted) if accepted.mode.check in goal.checks
    ]
    texts = [state.config.base.digest, *(accepted.text.digest for accepted in state.accepted)]
    texts = texts[positions[-1] + 1 if positions else 0 :]

    def outcomes_of(case: str) -> list[Outcome]:
        return [outcome for text in texts for outcome in state.tally.outcomes(text, case)]

    return measure_goal(goal, outcomes_of, [case for case in goal.cases if case in train])


def _numbers(progress: Sequence[GoalProgress]) -> dict[str, int]:
    kinds: tuple[GoalStatus, ...] = ("met", "missed", "undecided")
    return {kind: sum(goal.status == kind for goal in progress) for kind in kinds}


def _covers(goal: Goal, mode: FailureMode) -> bool:
    return mode.check in goal.checks and not set(mode.failing).isdisjoint(goal.cases)


# Checks that pass less often than this show a prompt that is broken, not one that is noisy.
_NOISY_FROM = 0.5
# A gain is named in steps of a twentieth; one check seldom has more cases than these.
_STEPS = 20
_CASES_MAX = 200


def can_confirm(state: LoopState, mode: FailureMode) -> bool:
    """Return whether an edit that makes the check as good as other ones would be confirmed."""
    return _p_at(state, mode, _ceiling(state, mode)) <= _bound(state.config)


def underpowered_text(state: LoopState, mode: FailureMode) -> str:
    """The message about an edit that cannot be confirmed, with its fix."""
    now = 1 - mode.failures / mode.trials
    best = _ceiling(state, mode)
    # None where not even a perfect edit would be confirmed.
    gains = ((1 - now) * step / _STEPS for step in range(1, _STEPS + 1))
    bound = _bound(state.config)
    least = next((g for g in gains if _p_at(state, mode, now + g) <= bound), None)
    gain = f"at least {100 * least:.0f} points" if least is not None else "more than there are"
    case_count = _cases_needed(state, mode, best)
    help_ = f"about {case_count} train cases with this check" if case_count else "a steadier check"
    return (
        f"{mode.check} passes {100 * now:.0f} % of trials and at best about {100 * best:.0f} %;"
        f" with {plural(len(mode.cases), 'train case')} no edit that gains"
        f" {100 * max(0.0, best - now):.0f} points can be confirmed, it takes {gain};"
        f" {help_} would do"
    )


def _bound(config: LoopConfig) -> float:
    """The p-value that the first edit has to reach at one look."""
    test = config.policy.test
    return test.alpha * 6 / math.pi**2 / test.looks_max


def _ceiling(state: LoopState, mode: FailureMode) -> float:
    """The best pass rate to expect of a check: that of the better half of the others."""
    digest = state.text.digest
    rates = [
        count.rate
        for name in state.tally.checks(digest, state.config.train)
        if name != mode.check
        and (count := state.tally.count_over(digest, state.config.train, name)).trials
    ]
    better = sorted(rates)[len(rates) // 2 :]
    best = fmean(better) if better else 1.0
    now = 1 - mode.failures / mode.trials
    return best if len(rates) > 1 and best >= _NOISY_FROM and now < best else 1.0


def _p_at(state: LoopState, mode: FailureMode, rate: float, times: float = 1.0) -> float:
    """The p-value at the last look of an edit with this pass rate."""
    test, digest = state.test, state.text.digest
    counts = [state.tally.count(digest, case, mode.check) for case in mode.cases]
    counts = [count for count in counts if count.trials]
    if not counts:
        return 1.0
    counts = (counts * math.ceil(times))[: max(1, round(len(counts) * times))]
    old = max(test.baseline_trials, counts[0].trials) + test.looks_max - 1
    new = test.looks_max * test.look_trials
    # The passes, dealt evenly to the cases.
    passes_per_case, remainder = divmod(
        min(round(rate * new * len(counts)), len(counts) * new), len(counts)
    )
    pairs = [
        (
            Count(passed=round(count.rate * old), trials=old),
            Count(passed=passes_per_case + (n < remainder), trials=new),
        )
        for n, count in enumerate(counts)
    ]
    return p_within_cases(pairs, direction="better")


def _cases_needed(state: LoopState, mode: FailureMode, rate: float) -> int:
    """The number of such cases that would confirm it; 0 if no tried number would."""
    times = 1.0
    while len(mode.cases) * times <= _CASES_MAX:
        times *= 1.5
        if _p_at(state, mode, rate, times) <= _bound(state.config):
            return math.ceil(len(mode.cases) * times)
    return 0
