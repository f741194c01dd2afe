"""The trials of each phase, their calls, the remaining budget, goals, and the power of a test."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, Literal

from regauge.digests import digest_of
from regauge.gate import NO_TRIALS, Count
from regauge.refine.analysis import diagnose, p_within_cases, passed_all
from regauge.refine.loop._state import Action, CallProposer, TrialPlan, Trials
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.analysis import Diagnosis, FailureMode, Outcome
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import LoopConfig, LoopState, Phase, StopReason


# A rule that is followed in half of the trials is distinguished from one followed in nine of ten;
# a wrong half costs only the calls.
_SEARCH_TRIALS = 10


def baseline(state: LoopState) -> Trials:
    """A few trials of every train case with the first prompt; then of unclear ones."""
    test = state.test
    if not state.look_number:
        return (plan_trials(state, state.config.base, state.config.train, test.first_trials),)
    cases = unclear_cases(state)
    return (plan_trials(state, state.config.base, cases, test.look_trials),)


def unclear_cases(state: LoopState) -> tuple[str, ...]:
    """Cases whose failures may be chance, and cases that will be compared.

    The failures that are least likely chance come first. All trials together stay within
    `baseline_trials` per train case, however many checks are unclear.
    """
    test = state.test
    digest = state.config.base.digest
    trials_run = sum(state.tally.trials(digest, case) for case in state.config.train)
    diagnosis = diagnose_train(state, state.config.tolerated)
    unfinished = (c for c in diagnosis.modes if c.trials < len(c.cases) * test.baseline_trials)
    unclear = [c for c in diagnosis.flaky if c.p_flaky < test.unclear_p]
    modes = sorted((*unfinished, *unclear), key=lambda c: (c.p_flaky, c.check))
    # Cases that failed every time so far come first: a few of them soon differ from chance.
    always = (
        case
        for mode in diagnosis.flaky
        for case in mode.failing
        if state.tally.count(digest, case, mode.check).passed == 0
        and state.tally.trials(digest, case) < test.baseline_trials
    )
    cases = dict.fromkeys((*always, *(case for mode in modes for case in mode.cases)))
    room = (test.baseline_trials * len(state.config.train) - trials_run) // test.look_trials
    return tuple(cases)[: max(0, room)]


def screen(state: LoopState) -> Trials:
    """A few trials of a few failing cases, for every candidate.

    Candidates that search for a hindering statement go first, alone; smaller ones go last.
    """
    cases = screen_cases(state, state.mode)
    searches = [candidate for candidate in state.candidates if candidate.suspects]
    smaller = [
        candidate
        for candidate in state.candidates
        if candidate.is_smaller and not screen_count(state, candidate.text, state.mode).trials
    ]
    count = _SEARCH_TRIALS if searches else state.test.screen_cases
    trials = deal_trials(cases, count)
    candidates = searches or smaller or state.candidates
    texts = {candidate.text.digest: candidate.text for candidate in candidates}
    return tuple(
        plan_trials(state, text, cases, trials, check=state.mode.check) for text in texts.values()
    )


def confirm(state: LoopState) -> Trials:
    """The failure mode's cases, under both texts.

    At the first look, the current text gets the trials that it misses. For a flaky check, both
    texts get the same number of new trials. LLM judges of other checks wait for the last
    verification, and so do all other cases.
    """
    test, mode = state.test, state.mode
    trials = test.steady_trials if mode.unsteady else test.look_trials
    base_trials = dict.fromkeys(mode.cases, trials if mode.unsteady else 1)
    if state.look_number == 1 and not mode.unsteady:
        base_trials = _missing_trials(state)
    text, check = state.candidates[0].text, mode.check
    return (
        plan_trials(state, text, mode.cases, trials, check=check),
        plan_trials(state, state.text, mode.cases, base_trials, check=check),
    )


def _missing_trials(state: LoopState) -> dict[str, int]:
    """The further trials of the failure mode's cases with the current text."""
    enough, check = state.test.baseline_trials, state.mode.check
    return {
        case: max(0, enough - state.tally.count(state.text.digest, case, check).trials)
        for case in state.mode.cases
    }


def gate_phase(state: LoopState) -> Phase:
    """The phase in which the verification of accepted edits begins.

    It is the gate; held-out cases without trials run before it.
    """
    base = state.config.base.digest
    all_measured = all(state.tally.trials(base, case) for case in state.config.holdout)
    return "suite" if all_measured else "holdout"


def holdout(state: LoopState) -> Trials:
    """The trials of the first prompt on held-out cases; the gate compares with them."""
    trials = state.test.baseline_trials
    return (plan_trials(state, state.config.base, state.config.holdout, trials),)


def fresh(state: LoopState) -> Trials:
    """More independent trials of the doubtful cases, with both texts.

    The first prompt runs again, as the trials that selected its failures make it look too bad.
    """
    base, now, tally = state.config.base, state.text, state.fresh
    trials = dict.fromkeys(state.pending_cases, state.test.look_trials)

    def first(case: str) -> int:
        chose = state.tally.next_trial(base.digest, case)
        return max(chose, tally.next_trial(base.digest, case))

    revision_trials = number_trials(now, trials, lambda case: tally.next_trial(now.digest, case))
    return revision_trials, number_trials(base, trials, first)


def screen_cases(state: LoopState, mode: FailureMode) -> tuple[str, ...]:
    """The cases of a candidate's first trials: those that fail most."""
    return mode.failing[: state.test.screen_cases]


def screen_count(state: LoopState, text: PromptText, mode: FailureMode) -> Count:
    """The results of a text in the first trials of a failure mode's cases."""
    return state.tally.count_over(text.digest, screen_cases(state, mode), mode.check)


def current_count(state: LoopState) -> Count:
    """The same of the current text, and of those before edits for other checks."""
    cases, check = screen_cases(state, state.mode), state.mode.check
    counts = (state.tally.count_over(text, cases, check) for text in texts_for(state, check))
    return sum(counts, NO_TRIALS)


def plan_trials(
    state: LoopState,
    text: PromptText,
    cases: Iterable[str],
    trials: int | Mapping[str, int],
    *,
    check: str | None = None,
) -> TrialPlan:
    """The next trials of each case, by new numbers."""
    least = 0 if text.digest == state.config.base.digest else state.config.first_trial
    counts = {case: trials if isinstance(trials, int) else trials[case] for case in cases}

    def first(case: str) -> int:
        return max(least, state.tally.next_trial(text.digest, case))

    return number_trials(text, counts, first, check)


def number_trials(
    text: PromptText,
    trials: Mapping[str, int],
    first: Callable[[str], int],
    check: str | None = None,
) -> TrialPlan:
    """Trials of each case, numbered from its first number on."""
    numbers = [(case, first(case) + n) for case, count in trials.items() for n in range(count)]
    return TrialPlan(text=text, trials=tuple(numbers), check=check)


def deal_trials(cases: Sequence[str], trials: int) -> dict[str, int]:
    """A number of trials, dealt evenly to the cases; at least one each."""
    per_case, remainder = divmod(max(len(cases), trials), len(cases))
    return {case: per_case + (n < remainder) for n, case in enumerate(cases)}


# The error rate is shared by the looks: more looks settle more edits and need more trials for each.
FRESH_LOOKS = 6
"""The most looks at independent trials of accepted edits."""

# The gate runs failing cases again; these calls are set aside for it.
_RERUNS = 20
# A critique and four edits; more where responses have to be repeated or edits do not help.
_REFINER_CALLS = 5
# And so much for the fresh trials of every accepted edit.
_FRESH_CALLS = 40
_BEFORE_A_LOOK = frozenset({"screen", "critique", "propose", "holdout", "suite"})


def calls_max(state: LoopState) -> int:
    """The most calls, with those that a user added."""
    return state.config.policy.limits.calls + state.extra_calls


def calls_left(state: LoopState) -> int:
    """The number of remaining calls of any model."""
    return calls_max(state) - state.spending.total


def model_calls_left(state: LoopState) -> int:
    """The number of remaining calls of the refiner model."""
    return max(0, state.config.policy.limits.model_calls - state.spending.model_calls)


def cost_of_trials(config: LoopConfig, trials: int, check: str | None = None) -> int:
    """The approximate calls of some trials, with those of LLM judges."""
    judging = config.judging
    rate = sum(judging.values()) if check is None else judging.get(check, 0.0)
    return math.ceil(trials * (1 + rate) - 1e-9)


def trials_for(config: LoopConfig, calls: int) -> int:
    """The number of fully judged trials within some calls."""
    return int(calls / (1 + sum(config.judging.values())))


def floor_calls(config: LoopConfig) -> int:
    """The fewest calls that find a failure, fix it and verify the fix."""
    first = config.policy.test.baseline_trials * len(config.train)
    return cost_of_trials(config, first) + fix_calls(config)


def enough_calls(config: LoopConfig) -> int:
    """The approximate calls of one fix whose first test shows a gain."""
    model = _REFINER_CALLS if config.proposers[0] in config.critics else 0
    return (
        floor_calls(config)
        + _search_calls(config, _missing_trials_estimate(config))
        + cost_of_trials(config, _FRESH_CALLS)
        + model
    )


def fix_calls(config: LoopConfig) -> int:
    """The fewest calls that fix a known failure and verify the fix."""
    test = config.policy.test
    test_trials = test.screen_cases + test.look_trials * len(config.train)
    return _search_calls(config, test_trials) + _verification_calls(config)


def calls_wanted(state: LoopState) -> int:
    """The approximate further calls of a run that reached its limit of calls.

    They verify the accepted edits, or find and verify one.
    """
    fresh_calls = cost_of_trials(state.config, _FRESH_CALLS) * max(1, len(state.accepted))
    if state.accepted_edits:
        return _verification_calls(state.config) + fresh_calls
    missing_calls = _search_calls(state.config, _missing_trials_estimate(state.config))
    return fix_calls(state.config) + missing_calls + fresh_calls


def suite_calls(config: LoopConfig) -> int:
    """The approximate calls of the gate."""
    return cost_of_trials(config, len(config.cases) + _RERUNS)


def holdout_look(state: LoopState) -> str:
    """The text and trials of a decision on held-out cases; a repetition adds no evidence."""
    return f"{state.text.digest[:16]}@{state.config.first_trial}"


def exceeded(state: LoopState, action: Action | None) -> StopReason | None:
    """The limit that an action would exceed; None if it is within all.

    Calls for the verification of accepted edits are set aside, so no other limit applies to it.
    """
    limits, spending = state.config.policy.limits, state.spending
    worn = state.config.holdout and len(state.holdout_looks) >= limits.holdout_looks
    already_looked = state.phase == "suite" and holdout_look(state) in state.holdout_looks
    if worn and not already_looked and state.phase in _BEFORE_A_LOOK:
        return "holdout-looks"  # an edit could not be verified
    if calls_needed(state, action) > calls_left(state):
        return "calls"
    if action is None or state.phase in {"holdout", "suite", "fresh"}:
        return None
    calls_model = isinstance(action, CallProposer) and action.proposer in state.config.critics
    limits_reached: dict[StopReason, bool] = {
        "model-calls": calls_model and spending.model_calls >= limits.model_calls,
        "usd": limits.usd is not None and 0 < spending.usd >= limits.usd,
        "candidates": state.phase in {"screen", "confirm"} and state.tested > limits.candidates,
    }
    return next((reason for reason, is_reached in limits_reached.items() if is_reached), None)


def calls_needed(state: LoopState, action: Action | None) -> int:
    """The calls of an action, with those set aside to verify its result."""
    if not isinstance(action, tuple):
        return 0
    calls = sum(cost_of_trials(state.config, len(plan.trials), plan.check) for plan in action)
    if state.phase not in {"unsteady", "screen", "confirm"}:
        return calls
    later = cost_of_trials(state.config, _FRESH_CALLS) * len(state.accepted)
    return calls + _verification_calls(state.config) + later


def _search_calls(config: LoopConfig, trials: int) -> int:
    """The approximate calls of trials for one check, whichever it is."""
    share = sum(config.judging.values()) / max(1, len(config.checks))
    return math.ceil(trials * (1 + share) - 1e-9)


def _missing_trials_estimate(config: LoopConfig) -> int:
    """Further trials of cases with the current text before a first test."""
    test = config.policy.test
    extra_trials = test.baseline_trials - test.first_trials
    cases = extra_trials * len(config.train) // test.look_trials
    return max(0, (test.look_trials - extra_trials) * cases)


def _verification_calls(config: LoopConfig) -> int:
    holdout = config.policy.test.baseline_trials * len(config.holdout)
    return suite_calls(config) + cost_of_trials(config, holdout)


def diagnose_train(state: LoopState, tolerated: Mapping[str, float]) -> Diagnosis:
    """Group the failures of training cases.

    Args:
        tolerated: The failure rates of checks that are not worth an edit.
    """
    return diagnose(
        state.tally,
        lambda check: texts_for(state, check),
        state.config.train,
        state.config.checks,
        state.test,
        tolerated=tolerated,
    )


def texts_for(state: LoopState, *checks: str) -> list[str]:
    """The texts whose trials count for some checks: those since the last edit for any of them."""
    positions = [n for n, edit in enumerate(state.accepted) if edit.mode.check in checks]
    all_texts = [state.config.base.digest, *(edit.text.digest for edit in state.accepted)]
    return all_texts[positions[-1] + 1 if positions else 0 :]


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
        return f"{self.goal.name}: {describe_goal(self.to_json())}"

    def to_json(self) -> dict[str, JSON]:
        """A plain document, without the goal."""
        facts = asdict(self)
        del facts["goal"], facts["count"]
        bounds = {"low": round(self.low, 4), "high": round(self.high, 4)}
        return {**asdict(self.count), **facts, **bounds}


def describe_goal(progress: Mapping[str, Any]) -> str:
    """The status and the counts of a goal, from the document of its progress."""
    low, high = (f"{100 * progress[bound]:.1f}" for bound in ("low", "high"))
    untested = progress["untested"]
    rest = f", {plural(untested, 'case')} without trials" if untested else ""
    counts = f"passed {progress['passed']} of {progress['trials']}"
    return f"{progress['status']} ({counts}, {low} to {high} %{rest})"


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
    return tuple(mode for mode in modes if not any(_goal_covers(goal, mode) for goal in open_goals))


def measure_goals(state: LoopState, *, with_revision: bool) -> tuple[GoalProgress, ...]:
    """The progress towards each goal, over training and held-out cases.

    Args:
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


def note_goals(state: LoopState, progress: Sequence[GoalProgress]) -> LoopState:
    """The state with a note on goals; its subject is the digest of the goals."""
    text, numbers = "; ".join(map(str, progress)), _numbers(progress)
    return state.note("goals", text, goals_digest(state.config), numbers)


def goals_digest(config: LoopConfig) -> str:
    """The digest of every goal with its checks and cases."""
    return digest_of([{**goal.to_json(), "cases": list(goal.cases)} for goal in config.goals])


def can_settle(state: LoopState) -> bool:
    """Return whether more trials of the current text may meet an undecided goal."""
    if state.text.digest in state.settled_texts:
        return False
    return any(plan.trials for plan in settling_trials(state))


def settling_trials(state: LoopState) -> Trials:
    """More trials of every case of undecided goals, within the budget.

    While failures wait for it, only goals that may allow them count. Goals with few trials come
    first, and one that is out of reach gets none. Every case gets the same number, so that no
    result selects a trial. Cases without a verdict of a goal's checks add no evidence, so they are
    left out.
    """
    text, tally = state.text, state.fresh if state.accepted else state.tally
    waiting = () if state.accepted else state.open_modes
    aside = fix_calls(state.config) if waiting else 0
    room = trials_for(state.config, calls_left(state) - aside)
    undecided = [
        progress
        for progress in measure_goals(state, with_revision=bool(state.accepted))
        if progress.status == "undecided"
        and (not waiting or any(_goal_covers(progress.goal, mode) for mode in waiting))
    ]
    counts: dict[str, int] = {}
    for progress in sorted(undecided, key=trials_to_settle):
        goal = progress.goal
        outcomes = {case: tally.outcomes(text.digest, case) for case in goal.cases}
        cases = [c for c, o in outcomes.items() if not o or passed_all(goal.checks, o).trials]
        if least_trials(goal.pass_rate) > _TRIALS_OF_A_CASE * len(cases):
            continue
        per_case = min(_TRIALS_OF_A_CASE, -(-trials_to_settle(progress) // len(cases)))
        missing = {c: max(counts.get(c, 0), per_case - len(outcomes[c])) for c in cases}
        if sum({**counts, **missing}.values()) <= room:
            counts |= missing
    return (number_trials(text, counts, lambda case: tally.next_trial(text.digest, case)),)


def _while_searching(state: LoopState, goal: Goal) -> GoalProgress:
    """The progress on training cases, by trials since the last edit for the goal."""
    train, texts = frozenset(state.config.train), texts_for(state, *goal.checks)

    def outcomes_of(case: str) -> list[Outcome]:
        return [outcome for text in texts for outcome in state.tally.outcomes(text, case)]

    return measure_goal(goal, outcomes_of, [case for case in goal.cases if case in train])


def _numbers(progress: Sequence[GoalProgress]) -> dict[str, int]:
    kinds: tuple[GoalStatus, ...] = ("met", "missed", "undecided")
    return {kind: sum(goal.status == kind for goal in progress) for kind in kinds}


def _goal_covers(goal: Goal, mode: FailureMode) -> bool:
    return mode.check in goal.checks and not set(mode.failing).isdisjoint(goal.cases)


# Checks that pass less often than this show a prompt that is broken, not one that is noisy.
_NOISY_FROM = 0.5
# One check seldom has more cases than these.
_CASES_MAX = 200


def _ceiling(state: LoopState, mode: FailureMode) -> float:
    """The best pass rate to expect of a check: that of the better half of the others."""
    digest, train = state.text.digest, state.config.train
    names = [name for name in state.tally.checks(digest, train) if name != mode.check]
    rates = sorted(state.tally.count_over(digest, train, name).rate for name in names)
    best = fmean(rates[len(rates) // 2 :] or [1.0])
    now = 1 - mode.failures / mode.trials
    return best if len(rates) > 1 and best >= _NOISY_FROM and now < best else 1.0


def can_confirm(state: LoopState, mode: FailureMode, times: float = 1.0) -> bool:
    """Return whether an edit that makes the check as good as other ones would be confirmed.

    Args:
        state: The state, with the trials.
        mode: The failures.
        times: The number of such cases, as a multiple of those that there are.
    """
    test, digest = state.test, state.text.digest
    counts = [state.tally.count(digest, case, mode.check) for case in mode.cases]
    counts = [count for count in counts if count.trials]
    counts = (counts * math.ceil(times))[: round(len(counts) * times)]
    old = max(test.baseline_trials, *(count.trials for count in counts[:1]), 0) + test.looks_max - 1
    new = test.looks_max * test.look_trials
    # The passes, dealt evenly to the cases.
    passes = round(_ceiling(state, mode) * new * len(counts))
    pairs = [
        (
            Count(passed=round(count.rate * old), trials=old),
            Count(passed=(passes + n) // len(counts), trials=new),
        )
        for n, count in enumerate(counts)
    ]
    # The p-value that the first edit has to reach at one look.
    bound = test.alpha * 6 / math.pi**2 / test.looks_max
    return p_within_cases(pairs, direction="better") <= bound


def underpowered_text(state: LoopState, mode: FailureMode) -> str:
    """The message about an edit that cannot be confirmed, with its fix."""
    times = 1.0
    while not can_confirm(state, mode, times) and len(mode.cases) * times <= _CASES_MAX:
        times *= 1.5
    case_count = math.ceil(len(mode.cases) * times)
    return (
        f"{mode.check} passes {100 - 100 * mode.failures / mode.trials:.0f} % of trials and at"
        f" best about {100 * _ceiling(state, mode):.0f} %; with"
        f" {plural(len(mode.cases), 'train case')} no edit that gains these points can be"
        f" confirmed; about {case_count} train cases with this check would do"
    )
