"""A known release first: all that differs from it is put back, then as little of it as helps.

diagnosed -> release: the whole difference, on the failing cases
it helps? the same without half of it, without a quarter, ... -> confirm
it does not? the next release, and then the proposers
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from regauge.refine.edits import Edit, EditError, PromptText, ops_between
from regauge.refine.loop._plan import draws, screen_cases
from regauge.refine.loop._screening import begin_test
from regauge.refine.loop._search import enter_tier, next_cluster, tried
from regauge.refine.loop._state import Candidate, Note, RunTrials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate import Count
    from regauge.prompts import Message
    from regauge.refine.analysis import Cluster
    from regauge.refine.loop._state import Release, Setting, State, TrialsDone

RESTORE = "restore"
"""The strategy of an edit that puts back what a release said."""

# Each is a few calls; what is left then is proposed as it is.
_HALVINGS_MAX = 12
# Of the pass rate on the failing cases: a part that does not lose more is as good as the whole.
_AS_GOOD = 0.17
_WORD_MIN = 4


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of one message that differ, as positions in the text and in the release."""

    message: int
    now: tuple[int, int]
    was: tuple[int, int]


def release(setting: Setting, state: State) -> RunTrials:
    """The failing cases under the release, or under a part of what differs from it."""
    text = _text(setting, state)
    cases = _cases(setting, state)
    each, more = divmod(max(len(cases), setting.policy.test.screen_cases), len(cases))
    trials = {case: each + (n < more) for n, case in enumerate(cases)}
    # Rules always judge; an LLM judge only where its check is among those that fail.
    judged = sorted({one.check for one in state.open if one.check in setting.judging})
    check = None if len(judged) > 1 else (judged or [state.open[0].check])[0]
    return RunTrials(draws=(draws(setting, state, text, cases, trials, check=check),))


def after_release(setting: Setting, state: State, told: TrialsDone) -> State:
    """Take less of the release, test what is left of it, or go on without it."""
    state = replace(state, tally=state.tally.with_outcomes(told.outcomes))
    if state.kept_units is None:
        return _after_whole(setting, state)
    text = _text(setting, state)
    units, (start, size) = state.kept_units, state.leaving_out
    if _is_as_good(setting, state, text):
        units = units[:start] + units[start + size :]
    else:
        start += size
    return _next_part(setting, replace(state, kept_units=units, leaving_out=(start, size)))


def _after_whole(setting: Setting, state: State) -> State:
    known = _release(setting, state)
    text = _text(setting, state)
    helped = [cluster for cluster in state.open if _gain(setting, state, text, cluster) > 0]
    before, after = _counts(setting, state, text, state.open[0])
    state = state.noting(
        Note(
            event="released",
            subject=text.digest,
            text=f"all that differs from {known.name}: {state.open[0].check} passed"
            f" {after.passed} of {after.trials}, before {before.passed} of {before.trials}",
            numbers={"passed": after.passed, "trials": after.trials, "helped": len(helped)},
        )
    )
    if not helped:
        state = tried(state, text, f"{known.name} does no better", "screened-out")
        return _go_on(setting, state)
    # One edit for one check: what else the release repairs is the next cycle's edit.
    others = tuple(cluster for cluster in state.open if cluster is not helped[0])
    units = tuple(range(unit_count(state.text, known.text)))
    state = replace(
        state,
        open=(helped[0], *others),
        way_back=f"{known.name} passes more often: {known.command}",
        kept_units=units,
        leaving_out=(0, (len(units) + 1) // 2),
    )
    return _next_part(setting, state)


def _next_part(setting: Setting, state: State) -> State:
    """Go on to the next part to leave out; test what is left when there is none."""
    units = state.kept_units or ()
    start, size = state.leaving_out
    parts = state.parts_tried + 1
    while start >= len(units) and size > 1:
        start, size = 0, size // 2
    if len(units) < 2 or start >= len(units) or parts > _HALVINGS_MAX:  # noqa: PLR2004 - two parts
        return _tested(setting, state)
    state = replace(state, leaving_out=(start, size), parts_tried=parts)
    if len(units[:start] + units[start + size :]) == 0:
        return _next_part(setting, replace(state, leaving_out=(start + size, size)))
    return state


def _tested(setting: Setting, state: State) -> State:
    """Test what is left of the release as any other edit."""
    known = _release(setting, state)
    text = with_units(state.text, known.text, state.kept_units or ())
    refused = state.memory.refuses(state.cluster.key, state.text, text)
    if refused:
        note = Note(event="guarded", subject=text.digest, text=f"{RESTORE}: {refused}")
        return _go_on(setting, state.noting(note))
    try:
        ops = ops_between(state.text, text)
    except EditError:
        return _go_on(setting, state)
    edit = Edit(
        ops=ops,
        strategy=RESTORE,
        proposer="rules",
        rationale=f"{known.name} said this, and {state.cluster.check} passed with it",
    )
    state = _done(state)
    candidate = Candidate(edit=edit, text=text)
    # The proposers follow from the first one on if the test refuses it.
    return begin_test(replace(state, candidates=(candidate,), confirmed=(), tier=-1, novel=True))


def _go_on(setting: Setting, state: State) -> State:
    """The next release, or the proposers."""
    number = state.release + 1
    if number < len(setting.releases):
        nxt = replace(state, release=number, kept_units=None, parts_tried=0)
        if _release(setting, nxt).text.shape != state.text.shape:
            return nxt
        return _go_on(setting, nxt)
    state = _done(state)
    return enter_tier(setting, state) if state.open else next_cluster(setting, state)


def _done(state: State) -> State:
    return replace(
        state,
        restored_from=state.restored_from | {state.text.digest},
        release=0,
        kept_units=None,
        parts_tried=0,
    )


def _release(setting: Setting, state: State) -> Release:
    return setting.releases[state.release]


def _text(setting: Setting, state: State) -> PromptText:
    known = _release(setting, state).text
    if state.kept_units is None:
        return known
    start, size = state.leaving_out
    units = state.kept_units
    return with_units(state.text, known, units[:start] + units[start + size :])


def _cases(setting: Setting, state: State) -> tuple[str, ...]:
    clusters = state.open[:1] if state.kept_units is not None else state.open
    return tuple(dict.fromkeys(case for one in clusters for case in screen_cases(setting, one)))


def _counts(
    setting: Setting, state: State, text: PromptText, cluster: Cluster
) -> tuple[Count, Count]:
    """How often the check of a cluster passed before, and under a text."""
    cases = screen_cases(setting, cluster)
    return (
        state.tally.over(state.text.digest, cases, cluster.check),
        state.tally.over(text.digest, cases, cluster.check),
    )


def _gain(setting: Setting, state: State, text: PromptText, cluster: Cluster) -> float:
    before, after = _counts(setting, state, text, cluster)
    return after.rate - before.rate if after.trials else 0.0


def _is_as_good(setting: Setting, state: State, text: PromptText) -> bool:
    """Whether a part does as well as the whole, and leaves no more errors in the prompt."""
    whole = _release(setting, state).text
    if len(setting.errors_in(text)) > len(setting.errors_in(whole)):
        return False
    part, best = (_counts(setting, state, one, state.cluster)[1].rate for one in (text, whole))
    return part >= best - _AS_GOOD


def unit_count(text: PromptText, known: PromptText) -> int:
    """In how many parts a text differs from a release that are put back each as a whole."""
    return len(_units(text, known))


def with_units(text: PromptText, known: PromptText, units: Sequence[int]) -> PromptText:
    r"""A text with some of the parts that differ as a release has them.

    >>> now, was = PromptText.of("Be long.\nUse JSON."), PromptText.of("Be brief.\nUse JSON.")
    >>> with_units(now, was, [0]).whole
    'Be brief.\nUse JSON.'
    """
    every = _units(text, known)
    chosen = [block for unit in units for block in every[unit]]
    messages: list[Message] = []
    for number, message in enumerate(text.messages):
        lines = message.content.split("\n")
        was = known.messages[number].content.split("\n")
        for block in sorted((b for b in chosen if b.message == number), key=lambda b: -b.now[0]):
            lines[slice(*block.now)] = was[slice(*block.was)]
        messages.append(replace(message, content="\n".join(lines)))
    return PromptText(messages=tuple(messages))


def _units(text: PromptText, known: PromptText) -> list[list[_Block]]:
    """Blocks that differ; those that exchange a word belong together, such as two tags."""
    units: list[tuple[set[str], list[_Block]]] = []
    for block, words in _blocks(text, known):
        joined = [unit for unit in units if unit[0] & words]
        units = [unit for unit in units if unit not in joined]
        units.append(
            (
                words.union(*(unit[0] for unit in joined)),
                [*(b for unit in joined for b in unit[1]), block],
            )
        )
    return [blocks for _, blocks in sorted(units, key=lambda unit: min(map(_place, unit[1])))]


def _place(block: _Block) -> tuple[int, int]:
    return block.message, block.now[0]


def _blocks(text: PromptText, known: PromptText) -> Iterator[tuple[_Block, set[str]]]:
    for number, (now, was) in enumerate(zip(text.messages, known.messages, strict=True)):
        mine, its = now.content.split("\n"), was.content.split("\n")
        matched = SequenceMatcher(
            None, [one.strip() for one in mine], [one.strip() for one in its], autojunk=False
        )
        for tag, low, high, first, last in matched.get_opcodes():
            if tag != "equal":
                old = _words("\n".join(its[first:last]))
                words = old ^ _words("\n".join(mine[low:high]))
                yield _Block(number, (low, high), (first, last)), words


def _words(text: str) -> set[str]:
    return {word.casefold() for word in re.findall(r"\w+", text) if len(word) >= _WORD_MIN}
