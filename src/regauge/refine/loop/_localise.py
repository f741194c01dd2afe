"""The checks that each sentence of a prompt carries, by leaving it out, within a budget.

What comes of it is for people and for critics: a sentence that nothing needs is dead, or no golden
case tests it. Nothing is ever taken out for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import better_p, diagnose, worse_p
from regauge.refine.loop._plan import calls_left, draws, floor_calls, repair_calls, trials_for
from regauge.refine.loop._search import baseline_drawn, diagnosed
from regauge.refine.loop._state import Bearing, LeftOut
from regauge.statements import content_words, delete

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.refine.analysis import Check
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Setting, State

# With 8 cases and 4 trials of each, a sentence that all of them need shows at p < 0.05 after the
# correction for 20 sentences. Between both p-values a sentence is named as doubtful.
_CASES_MIN = 8
_TRIALS_MAX = 4
_DOUBTFUL = 0.2
_P_MAX = 0.05
# A line of the trail.
_SHOWN = 80


def after_baseline(setting: Setting, state: State) -> State:
    """Leave sentences out where a budget says so; then diagnose."""
    state = baseline_drawn(setting, state)
    if state.phase != "localise":
        return state
    return _next(setting, replace(state, left_out=_planned(setting, state)))


def after_localise(setting: Setting, state: State) -> State:
    """Go on to the next sentence."""
    return _next(setting, replace(state, sentence=state.sentence + 1))


def _next(setting: Setting, state: State) -> State:
    """The trials of the next sentence; after the last that can be paid, what each carries."""
    if state.sentence < len(state.left_out):
        affordable = trials_for(setting, calls_left(setting, state) - repair_calls(setting))
        if len(state.left_out[state.sentence].draws.trials) <= affordable:
            return state
    bearings = tuple(_bearings(setting, state))
    for bearing in bearings:
        numbers = {
            "cases": bearing.cases,
            **bearing.carries,
            **bearing.may_carry,
            **bearing.hinders,
        }
        state = state.note("localised", _said(bearing), setting.base.digest, numbers)
    return diagnosed(setting, replace(state, bearings=bearings))


def pieces(text: PromptText) -> list[tuple[str, PromptText]]:
    """The statements that say something by themselves, each with the text without it.

    Statements with an input, examples and data are left out.
    """
    return [
        (" ".join(tree.of(node).split()), text.with_content(index, delete(tree, node)))
        for index, tree in enumerate(text.trees)
        for node in tree.statements
        if "{{" not in tree.of(node) and content_words(tree.of(node))
    ]


def _planned(setting: Setting, state: State) -> tuple[LeftOut, ...]:
    """Trials that the budget pays for without each sentence, those on a failing check first.

    They are of so many train cases that every sentence has its turn, those that fail most first.
    """
    limits = setting.policy.limits
    # The calls of a repair are set aside.
    room = limits.calls - floor_calls(setting)
    budget = trials_for(setting, min(limits.localise_calls, room))
    found = pieces(setting.base)
    if budget <= 0 or not found:
        return ()
    failing_of = _failing(setting, state)
    each = max(_CASES_MIN, budget // len(found))
    failing = [case for cases in failing_of.values() for case in cases]
    others = [case for case in setting.train if case not in failing]
    # Half of them pass: a sentence is missed where it works.
    cases = tuple(dict.fromkeys([*failing[: each // 2], *others, *failing]))[:each]
    about = [_words(setting.checks, check) for check in failing_of]

    def relevance(said: str) -> int:
        return max((len(content_words(said) & words) for words in about), default=0)

    chosen = sorted(found, key=lambda one: -relevance(one[0]))[: budget // len(cases)]
    trials = min(_TRIALS_MAX, max(1, budget // max(1, len(chosen) * len(cases))))
    return tuple(
        LeftOut(said=said, draws=draws(setting, state, leaner, cases, trials))
        for said, leaner in chosen
    )


def _failing(setting: Setting, state: State) -> dict[str, tuple[str, ...]]:
    """The checks that fail under the prompt as it was, with the cases that do."""
    base = setting.base.digest
    test = setting.policy.test
    found = diagnose(state.tally, lambda _: (base,), setting.train, setting.checks, test)
    return {cluster.check: cluster.failing for cluster in found.clusters}


def _bearings(setting: Setting, state: State) -> Iterator[Bearing]:
    base, tally = setting.base.digest, state.tally
    tried = state.left_out[: state.sentence]
    bound = _P_MAX / max(1, len(tried))
    for one in tried:
        leaner = one.draws.text.digest
        cases = [case for case in setting.train if tally.trials(leaner, case)]
        checks = tally.checks(leaner, cases)
        worse = {check: worse_p(tally, leaner, base, cases, check) for check in checks}
        better = {check: better_p(tally, leaner, base, cases, check) for check in checks}
        yield Bearing(
            text=one.said,
            carries={check: p for check, p in worse.items() if p <= bound},
            may_carry={check: p for check, p in worse.items() if bound < p <= _DOUBTFUL},
            hinders={check: p for check, p in better.items() if p <= bound},
            cases=len(cases),
        )


def _said(bearing: Bearing) -> str:
    short = bearing.text if len(bearing.text) <= _SHOWN else f"{bearing.text[: _SHOWN - 1]}…"
    if not bearing.cases:
        return f"{short!r} was not measured"
    effects = [f"carries {check}" for check in bearing.carries]
    effects += [f"may carry {check}" for check in bearing.may_carry]
    effects += [f"stands in the way of {check}" for check in bearing.hinders]
    return f"{short!r} {' and '.join(effects) or f'changes nothing in {bearing.cases} cases'}"


def _words(checks: Mapping[str, Check], name: str) -> frozenset[str]:
    check = checks.get(name)
    return content_words(f"{name} {check.advice} {check.description}" if check else name)
