"""Which trials a phase asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose
from regauge.refine.goals import tolerated
from regauge.refine.loop._actions import Draws, RunTrials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from regauge.refine.analysis import Cluster
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._findings import Phase
    from regauge.refine.loop._state import Setting, State

__all__ = [
    "baseline",
    "confirm",
    "draws",
    "fresh",
    "holdout",
    "holdout_cases_of",
    "screen",
    "simplify",
    "unclear_cases",
    "verification_phase",
    "without",
]


# A rule that is followed in half of the trials is told from one that is followed in nine of ten;
# a wrong half costs only the calls.
_LACKING_TRIALS = 10


def baseline(setting: Setting, state: State) -> RunTrials:
    """First some trials of every train case under the prompt as it is; then of unclear ones."""
    test = setting.policy.test
    if not state.look:
        return RunTrials(
            draws=(draws(setting, state, setting.base, setting.train, test.first_trials),)
        )
    cases = unclear_cases(setting, state)
    return RunTrials(draws=(draws(setting, state, setting.base, cases, test.look_trials),))


def unclear_cases(setting: Setting, state: State) -> tuple[str, ...]:
    """Cases whose failures may be chance, and such as an edit will be compared on.

    The failures that are likeliest to be more than chance come first. All trials together stay
    within `baseline_trials` per train case, however many checks are unclear.
    """
    test = setting.policy.test
    digest = setting.base.digest
    drawn = sum(state.tally.trials(digest, case) for case in setting.train)
    found = diagnose(
        state.tally,
        lambda _: (digest,),
        setting.train,
        setting.checks,
        test,
        tolerated=tolerated(setting.goals, test.flaky_rate),
    )
    known = (c for c in found.clusters if c.trials < len(c.cases) * test.baseline_trials)
    unclear = [c for c in found.flaky if c.p_flaky < test.unclear_p]
    ranked = sorted((*known, *unclear), key=lambda c: (c.p_flaky, c.check))
    # Cases that failed every time so far come first: a few of them are soon told from chance.
    always = (
        case
        for cluster in found.flaky
        for case in cluster.failing
        if state.tally.check(digest, case, cluster.check).passed == 0
        and state.tally.trials(digest, case) < test.baseline_trials
    )
    cases = dict.fromkeys((*always, *(case for cluster in ranked for case in cluster.cases)))
    room = (test.baseline_trials * len(setting.train) - drawn) // test.look_trials
    return tuple(cases)[: max(0, room)]


def screen(setting: Setting, state: State) -> RunTrials:
    """A few trials of a few failing cases, for every candidate.

    While a statement is sought that keeps a rule from being followed, only without such ones.
    """
    cases = screen_cases(setting, state.cluster)
    lacking = [candidate for candidate in state.candidates if candidate.suspects]
    count = _LACKING_TRIALS if lacking else setting.policy.test.screen_trials
    each, more = divmod(max(len(cases), count), len(cases))
    trials = {case: each + (n < more) for n, case in enumerate(cases)}
    texts = {one.text.digest: one.text for one in lacking or state.candidates}
    if len(lacking) in {1, 2}:  # what they are compared with, once one place is left
        texts |= {one.within.digest: one.within for one in lacking if one.within is not None}
    return RunTrials(
        draws=tuple(
            draws(setting, state, text, cases, trials, check=state.cluster.check)
            for text in texts.values()
        )
    )


def confirm(setting: Setting, state: State) -> RunTrials:
    """First all train cases; then those in question and a few others, under both texts.

    At the first look the cases in question get all the trials of a look, the others one: what
    else a text breaks is for the gate to find. Where edits were accepted before, the text as it
    is has few trials of its own yet, and gets them too. How much verdicts vary is compared on as
    many new trials of either text. LLM judges of other checks wait for the last verification.
    """
    test, cluster = setting.policy.test, state.cluster
    text, check = state.candidates[0].text, cluster.check
    if cluster.unsteady:
        rest = [case for case in setting.train if case not in cluster.cases and state.look == 1]
        return RunTrials(
            draws=(
                draws(setting, state, text, cluster.cases, test.steady_trials, check=check),
                draws(setting, state, text, rest, 1, check=check),
                draws(setting, state, state.text, cluster.cases, test.steady_trials, check=check),
            )
        )
    if state.look == 1:
        rest = [case for case in setting.train if case not in cluster.cases]
        return RunTrials(
            draws=(
                draws(setting, state, text, cluster.cases, test.look_trials, check=check),
                draws(setting, state, text, rest, 1, check=check),
                draws(
                    setting, state, state.text, cluster.cases, _lacking(setting, state), check=check
                ),
            )
        )
    others = [case for case in setting.train if case not in cluster.cases]
    # Other anchors at every look, and the same ones whenever the run is repeated.
    start = (state.look * test.anchors) % max(1, len(others))
    anchors = [*others[start:], *others[:start]][: test.anchors]
    cases = (*cluster.cases, *anchors)
    return RunTrials(
        draws=(
            draws(setting, state, text, cases, test.look_trials, check=check),
            draws(setting, state, state.text, cases, 1, check=check),
        )
    )


def _lacking(setting: Setting, state: State) -> dict[str, int]:
    """How many trials the cases in question lack under the text as it is."""
    enough, check = setting.policy.test.baseline_trials, state.cluster.check
    return {
        case: max(0, enough - state.tally.check(state.text.digest, case, check).trials)
        for case in state.cluster.cases
    }


def simplify(setting: Setting, state: State) -> RunTrials:
    """The text without one accepted edit, on the cases that edit was for."""
    leaner = without(setting, state)
    assert leaner is not None
    index, text = leaner
    cases = state.accepted[index].cluster.cases
    return RunTrials(draws=(draws(setting, state, text, cases, setting.policy.test.look_trials),))


def without(setting: Setting, state: State) -> tuple[int, PromptText] | None:
    """The first accepted edit that a later one may have made needless, and the text without it.

    An edit is only in question when a later one was for the same check, and was not tried yet.
    """
    from regauge.refine.edits import EditError, merged

    tried = {entry.after for entry in state.memory.tried if entry.finding == "confirmed"}
    for index, edit in enumerate(state.accepted[:-1]):
        later = state.accepted[index + 1 :]
        if all(other.cluster.check != edit.cluster.check for other in later):
            continue
        text = state.accepted[index - 1].text if index else setting.base
        try:
            text = merged(edit.text, state.text, text)
        except EditError:
            continue
        if text.shape not in tried and text.shape != state.text.shape:
            return index, text
    return None


def verification_phase(setting: Setting, state: State) -> Phase:
    """Where the verification of accepted edits begins, or goes on."""
    if without(setting, state) is not None:
        return "simplify"
    known = all(state.tally.trials(setting.base.digest, case) for case in setting.holdout)
    return "suite" if known else "holdout"


def holdout(setting: Setting, state: State) -> RunTrials:
    """What the holdout says of the prompt as it was: the gate compares with it."""
    trials = setting.policy.test.baseline_trials
    return RunTrials(draws=(draws(setting, state, setting.base, setting.holdout, trials),))


def fresh(setting: Setting, state: State) -> RunTrials:
    """More trials, that choose nothing, of the cases on which too little is known yet.

    The prompt as it was is drawn along: the trials that named its failures would make it look
    worse than it is.
    """
    trials = setting.policy.test.suite_trials

    def of(text: PromptText, least: Callable[[str], int]) -> Draws:
        return Draws(
            text=text,
            trials=tuple(
                (case, number)
                for case in state.waiting
                for number in _numbers(
                    max(least(case), state.fresh.next_trial(text.digest, case)), trials
                )
            ),
        )

    base = setting.base
    return RunTrials(
        draws=(
            of(state.text, lambda _: 0),
            of(base, lambda case: state.tally.next_trial(base.digest, case)),
        )
    )


def holdout_cases_of(setting: Setting, state: State, check: str) -> tuple[str, ...]:
    """The holdout cases in which a check failed: only these can show a gain."""
    return tuple(
        case
        for case in setting.holdout
        if state.tally.check(setting.base.digest, case, check).failed
    )


def screen_cases(setting: Setting, cluster: Cluster) -> tuple[str, ...]:
    """The cases a candidate is first tried on: those that fail most."""
    return cluster.failing[: setting.policy.test.screen_cases]


def draws(
    setting: Setting,
    state: State,
    text: PromptText,
    cases: Iterable[str],
    trials: int | Mapping[str, int],
    *,
    check: str | None = None,
) -> Draws:
    """The next trials of each case, as numbers that were not drawn yet."""
    least = 0 if text.digest == setting.base.digest else setting.first_trial
    return Draws(
        text=text,
        trials=tuple(
            (case, number)
            for case in cases
            for number in _numbers(
                max(least, state.tally.next_trial(text.digest, case)),
                trials if isinstance(trials, int) else trials[case],
            )
        ),
        check=check,
    )


def _numbers(first: int, count: int) -> range:
    return range(first, first + count)
