"""The checks that each sentence of a prompt carries, by leaving it out, within a budget.

What comes of it is for people and for critics: a sentence that nothing needs is dead, or no golden
case tests it. Nothing is ever taken out for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import better_p, diagnose, worse_p
from regauge.refine.loop._plan import calls_left, draws, floor_calls, repair_calls, trials_for
from regauge.refine.loop._search import baseline_drawn, diagnosed
from regauge.refine.loop._state import Bearing, RunTrials
from regauge.statements import content_words, delete

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.refine.analysis import Check
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Setting, State, TrialsDone

# With 8 cases and 4 trials of each, a sentence that all of them need shows at p < 0.05 after the
# correction for 20 sentences. Between both p-values a sentence is named as doubtful.
_CASES_MIN = 8
_TRIALS_MAX = 4
_DOUBTFUL = 0.2
_P_MAX = 0.05
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A sentence, or a clause of one."""

    text: str
    without: PromptText


def pieces(text: PromptText) -> tuple[Piece, ...]:
    """The statements that say something by themselves: none with an input, no example, no data."""
    return tuple(
        Piece(
            text=" ".join(tree.of(node).split()),
            without=text.with_content(index, delete(tree, node)),
        )
        for index, tree in enumerate(text.trees)
        for node in tree.statements
        if "{{" not in tree.of(node) and content_words(tree.of(node))
    )


def after_baseline(setting: Setting, state: State, told: TrialsDone) -> State:
    """Leave sentences out where a budget says so; then diagnose."""
    state = baseline_drawn(setting, state, told)
    if state.phase != "localise" or _next(setting, state) is not None:
        return state
    return diagnosed(setting, state)


def localise(setting: Setting, state: State) -> RunTrials:
    """The trials without the next sentence."""
    action = _next(setting, state)
    assert action is not None, "the phase ends with its last sentence"
    return action


def _next(setting: Setting, state: State) -> RunTrials | None:
    """The trials without the next sentence; None when all were drawn that can be paid."""
    if _budget(setting) <= 0:
        return None
    left_out = _planned(setting, state)
    if len(state.left_out) >= len(left_out):
        return None
    leaner = left_out[len(state.left_out)].without
    cases = _cases(setting, state)
    calls = _budget(setting)
    trials = min(_TRIALS_MAX, max(1, calls // max(1, len(left_out) * len(cases))))
    action = RunTrials(draws=(draws(setting, state, leaner, cases, trials),))
    affordable = trials_for(setting, calls_left(setting, state) - repair_calls(setting))
    return action if action.calls <= affordable else None


def after_localise(setting: Setting, state: State, told: TrialsDone) -> State:
    """Go on to the next sentence; after the last one, say what each carries."""
    piece = _planned(setting, state)[len(state.left_out)]
    state = replace(
        state,
        tally=state.tally.with_outcomes(told.outcomes),
        left_out=(*state.left_out, piece.text),
    )
    if _next(setting, state) is not None:
        return state
    bearings = tuple(_bearings(setting, state))
    for one in bearings:
        numbers = {"cases": one.cases, **one.carries, **one.may_carry, **one.hinders}
        state = state.note("localised", _said(one), setting.base.digest, numbers)
    return diagnosed(setting, replace(state, bearings=bearings))


def _budget(setting: Setting) -> int:
    """The calls it may take, with those of a repair set aside."""
    limits = setting.policy.limits
    room = limits.calls - floor_calls(setting)
    return trials_for(setting, min(limits.localise_calls, room))


def _planned(setting: Setting, state: State) -> list[Piece]:
    """The sentences that the budget pays for, those that speak of a failing check first."""
    found = pieces(setting.base)
    calls = _budget(setting)
    count = calls // max(1, len(_cases(setting, state))) if found else 0
    about = [_words(setting.checks, cluster) for cluster in _failing(setting, state)]

    def relevance(piece: Piece) -> int:
        return max((len(content_words(piece.text) & words) for words in about), default=0)

    return sorted(found, key=lambda piece: -relevance(piece))[:count]


def _cases(setting: Setting, state: State) -> tuple[str, ...]:
    """So many train cases that every sentence has its turn, those that fail most first."""
    calls = _budget(setting)
    each = max(_CASES_MIN, calls // max(1, len(pieces(setting.base))))
    failing = [case for cases in _failing(setting, state).values() for case in cases]
    others = [case for case in setting.train if case not in failing]
    # Half of them pass: a sentence is missed where it works.
    half = failing[: each // 2]
    return tuple(dict.fromkeys([*half, *others, *failing]))[:each]


def _failing(setting: Setting, state: State) -> dict[str, tuple[str, ...]]:
    """The checks that fail under the prompt as it was, with the cases that do."""
    base = setting.base.digest
    test = setting.policy.test
    found = diagnose(state.tally, lambda _: (base,), setting.train, setting.checks, test)
    return {cluster.check: cluster.failing for cluster in found.clusters}


def _bearings(setting: Setting, state: State) -> Iterator[Bearing]:
    base, tally = setting.base.digest, state.tally
    tried = _planned(setting, state)[: len(state.left_out)]
    bound = _P_MAX / max(1, len(tried))
    for piece in tried:
        leaner = piece.without.digest
        cases = [case for case in setting.train if tally.trials(leaner, case)]
        checks = tally.checks(leaner, cases)
        worse = {check: worse_p(tally, leaner, base, cases, check) for check in checks}
        better = {check: better_p(tally, leaner, base, cases, check) for check in checks}
        yield Bearing(
            text=piece.text,
            carries={check: p for check, p in worse.items() if p <= bound},
            may_carry={check: p for check, p in worse.items() if bound < p <= _DOUBTFUL},
            hinders={check: p for check, p in better.items() if p <= bound},
            cases=len(cases),
        )


def _said(bearing: Bearing) -> str:
    short = bearing.text if len(bearing.text) <= _SHOWN else f"{bearing.text[: _SHOWN - 1]}…"
    if not bearing.cases:
        return f"{short!r} was not measured"
    told = [f"carries {check}" for check in bearing.carries]
    told += [f"may carry {check}" for check in bearing.may_carry]
    told += [f"stands in the way of {check}" for check in bearing.hinders]
    return f"{short!r} {' and '.join(told) or f'changes nothing in {bearing.cases} cases'}"


def _words(checks: Mapping[str, Check], name: str) -> frozenset[str]:
    check = checks.get(name)
    return content_words(f"{name} {check.advice} {check.description}" if check else name)
