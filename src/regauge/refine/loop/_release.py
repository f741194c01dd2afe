"""A known release first: all that differs from it is put back, then as little of it as helps.

diagnosed -> release: the whole difference, on the failing cases
it helps? the same without half of it, without a quarter, ... -> confirm
it does not? the next release, and then the proposers
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.attempts import named
from regauge.refine.edits import Delete, Edit, Insert, apply, blocks_between, ops_between
from regauge.refine.loop._plan import dealt, draws, screen_cases
from regauge.refine.loop._search import begin_test, enter_tier, next_cluster, tried
from regauge.refine.loop._state import Candidate, Trials
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.analysis import Cluster
    from regauge.refine.edits import Op, PromptText
    from regauge.refine.loop._state import Release, Setting, State

RESTORE = "restore"
"""The strategy of an edit that puts back what a release said."""

# Each is a few calls; what is left then is proposed as it is.
_HALVINGS_MAX = 12
# Of the pass rate on the failing cases: a part that does not lose more is as good as the whole.
_AS_GOOD = 0.17


def release(setting: Setting, state: State) -> Trials:
    """The failing cases under the release, or under a part of what differs from it."""
    clusters = state.open[:1] if state.helped else state.open
    text = _fewer(setting, state)[1] if state.helped else _release(setting, state).text
    assert text is not None
    cases = dict.fromkeys(case for cluster in clusters for case in screen_cases(setting, cluster))
    trials = dealt([*cases], setting.policy.test.screen_cases)
    # Rules always judge; an LLM judge only where its check is among those that fail.
    judged = sorted({one.check for one in state.open if one.check in setting.judging})
    check = None if len(judged) > 1 else (judged or [state.open[0].check])[0]
    return (draws(setting, state, text, cases, trials, check=check),)


def after_release(setting: Setting, state: State) -> State:
    """Take less of the release, test what is left of it, or go on without it."""
    return _next_part(setting, state) if state.helped else _after_whole(setting, state)


def _after_whole(setting: Setting, state: State) -> State:
    known = _release(setting, state)
    helped: list[Cluster] = []
    for cluster in state.open:
        was, now = _counts(setting, state, known.text, cluster)
        if now.trials and now.rate > was.rate:
            helped.append(cluster)
    before, after = _counts(setting, state, known.text, state.open[0])
    numbers = {"passed": after.passed, "trials": after.trials, "helped": len(helped)}
    state = state.note(
        "released",
        f"restore {known.name}: {state.open[0].check} passes {after.passed} of {after.trials}"
        f" (before {before.passed} of {before.trials})",
        known.text.digest,
        numbers,
    )
    if not helped:
        state = tried(state, known.text, f"{known.name} is no better", "screened-out")
        return _go_on(setting, state)
    way_back = f"{known.name} passes more often: {known.command}"
    return _for_one(setting, replace(state, way_back=way_back), tuple(helped))


def _for_one(setting: Setting, state: State, helped: tuple[Cluster, ...]) -> State:
    """As little of the release as helps one check; what else it repairs is another edit."""
    others = (cluster for cluster in state.open if cluster is not helped[0])
    return _next_part(setting, replace(state, open=(helped[0], *others), helped=helped))


def _next_part(setting: Setting, state: State) -> State:
    """Go on to the next part to leave out; test what is left when there is none."""
    units, text = _fewer(setting, state)
    return state if text is not None else _tested(setting, state, units)


def _fewer(setting: Setting, state: State) -> tuple[tuple[int, ...], PromptText | None]:
    """The parts of a release that are still needed, and the text without more of them to run next.

    Half of the parts are left out first, then a quarter, and so on to single ones. A text that has
    trials is not run again.
    """
    known = _release(setting, state).text
    units = tuple(range(unit_count(state.text, known)))
    start, size = 0, (len(units) + 1) // 2
    for _ in range(_HALVINGS_MAX):
        while start >= len(units) and size > 1:
            start, size = 0, size // 2
        if len(units) < 2 or start >= len(units):  # noqa: PLR2004 - two parts
            break
        fewer = units[:start] + units[start + size :]
        text = with_units(state.text, known, fewer)
        if fewer and not _counts(setting, state, text, state.cluster)[1].trials:
            return units, text
        if fewer and _is_as_good(setting, state, text):
            units = fewer
        else:
            start += size
    return units, None


def _tested(setting: Setting, state: State, units: Sequence[int]) -> State:
    """Test what is left of the release as any other edit."""
    known = _release(setting, state)
    text = with_units(state.text, known.text, units)
    edit = Edit(
        ops=ops_between(state.text, text),
        strategy=RESTORE,
        proposer="rules",
        rationale=f"{known.name} has this text, and {state.cluster.check} passes with it",
    )
    refused = state.memory.refuses(state.cluster.key, state.text, text)
    if refused:
        state = state.note("guarded", f"{RESTORE}: {refused}", edit.digest, named(edit))
        more = state.helped[1:]
        return _for_one(setting, state, more) if more else _go_on(setting, state)
    state = _done(state)
    candidate = Candidate(edit=edit, text=text)
    # The proposers follow from the first one on if the test refuses it.
    return begin_test(replace(state, candidates=(candidate,), confirmed=(), tier=-1, novel=True))


def _go_on(setting: Setting, state: State) -> State:
    """The next release, or the proposers."""
    number = state.release + 1
    if number < len(setting.releases):
        nxt = replace(state, release=number, helped=())
        if _release(setting, nxt).text.shape != state.text.shape:
            return nxt
        return _go_on(setting, nxt)
    state = _done(state)
    return enter_tier(setting, state) if state.open else next_cluster(setting, state)


def _done(state: State) -> State:
    restored_from = state.restored_from | {state.text.digest}
    return replace(state, restored_from=restored_from, release=0, helped=())


def _release(setting: Setting, state: State) -> Release:
    return setting.releases[state.release]


def _counts(
    setting: Setting, state: State, text: PromptText, cluster: Cluster
) -> tuple[Count, Count]:
    """The passed trials of a cluster's check before the edit, and under a text."""
    cases = screen_cases(setting, cluster)
    return (
        state.tally.over(state.text.digest, cases, cluster.check),
        state.tally.over(text.digest, cases, cluster.check),
    )


def _is_as_good(setting: Setting, state: State, text: PromptText) -> bool:
    """Return whether a part does as well as the whole, and leaves no more errors in the prompt."""
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

    >>> from regauge.refine.edits import PromptText
    >>> now, was = PromptText.of("Be long.\nUse JSON."), PromptText.of("Be brief.\nUse JSON.")
    >>> with_units(now, was, [0]).whole
    'Be brief.\nUse JSON.'
    """
    every = _units(text, known)
    return apply(text, [op for unit in units for op in every[unit]])


def _units(text: PromptText, known: PromptText) -> list[list[Op]]:
    """Blocks of lines that differ; those that exchange a word belong together, such as tags."""
    units: list[tuple[set[str], list[Op]]] = []
    for block in blocks_between(text, known):
        old = "\n".join(op.anchor.line for op in block if not isinstance(op, Insert))
        new = "\n".join(op.text for op in block if not isinstance(op, Delete))
        words = {*content_words(old)} ^ {*content_words(new)}
        joined = [unit for unit in units if unit[0] & words]
        units = [unit for unit in units if unit not in joined]
        ops = [*(op for unit in joined for op in unit[1]), *block]
        units.append((words.union(*(unit[0] for unit in joined)), ops))
    return [ops for _, ops in units]
