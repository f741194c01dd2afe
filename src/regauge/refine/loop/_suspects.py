"""The statement that keeps a rule from being followed, found by leaving statements out.

All statements that no check asks for are left out together; where that helps, one half of them,
and so on to a single one. These texts are only run, never proposed: what is proposed in the end is
the prompt without that one statement, and it is tested as any other edit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.gate import NONE_DRAWN
from regauge.refine.analysis import better_p
from regauge.refine.changes import changed_statements, edit_between, says
from regauge.refine.edits import Edit, ReplaceSection
from regauge.refine.loop._plan import screen_cases, texts_for
from regauge.refine.loop._state import Candidate, Note
from regauge.statements import content_words, delete, normalise
from regauge.statements import replace as replace_node
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Place, Setting, State
    from regauge.statements import Node, Tree

INSTEAD = "replace-hindering"
"""The strategy of an edit that puts a rule where something kept it from being followed."""

# The pass rate has to rise by so much before a statement is looked for; less is often chance.
_RISE_MIN = 0.15
# A statement is taken out with a rule that is added only if it is no more likely than this that
# the rule does as well with it; more trials than these are not drawn to see it.
_CAUSE_P, _CAUSE_TRIALS = 0.01, 24
# Edits of a prompt where nothing speaks against them pass more often than this.
_FOLLOWED = 0.8
_ENDS = frozenset(".。!")


def rule_to_follow(setting: Setting, state: State) -> str:
    """What a check asks for, where the prompt says it; empty where it does not."""
    check = state.cluster.check
    texts = [setting.base, *(one.text for one in state.accepted)]
    added = [
        one.edit.added
        if isinstance(one.edit.ops[0], ReplaceSection)
        else changed_statements(before, one.text)[0]
        for before, one in zip(texts, state.accepted, strict=False)
        if one.cluster.check == check
    ]
    if state.accepted and added and isinstance(state.accepted[-1].edit.ops[0], ReplaceSection):
        return ""  # it was proved as a whole, so no part of it is tried alone
    wanted = setting.checks.get(check)
    rules = ([wanted.advice] if wanted else []) + added[-1:]
    return next((rule for rule in rules if rule.strip() and says(state.text, rule)), "")


def all_suspects(setting: Setting, state: State) -> Candidate | None:
    """The prompt without all statements that may keep a rule from being followed."""
    rule, wanted = rule_to_follow(setting, state), setting.strategies
    if not rule or (wanted and "take-out" not in wanted):
        return None
    places = _suspects(setting, state, state.text, rule)
    return _without(state.text, places) if places else None


def masked(setting: Setting, state: State) -> tuple[Candidate, ...]:
    """Candidates that add a rule, without all that may keep it from being followed.

    Only where none of them is followed well enough: where the rule is best added, and what speaks
    against it, can then hide each other.
    """
    check, cases = state.cluster.check, screen_cases(setting, state.cluster)
    rule = setting.checks[check].advice if check in setting.checks else ""
    if not rule.strip() or says(state.text, rule):
        return ()
    if setting.strategies and INSTEAD not in setting.strategies:
        return ()
    if any(one.edit.strategy == INSTEAD for one in state.candidates):
        return ()
    rates = [state.tally.over(one.text.digest, cases, check).rate for one in state.candidates]
    if max(rates) > _FOLLOWED:
        return ()
    added = [one for one in state.candidates if says(one.text, rule)]
    found = ((one.text, _suspects(setting, state, one.text, rule)) for one in added)
    return tuple(replace(_without(text, places), within=text) for text, places in found if places)


def narrowed(setting: Setting, state: State) -> tuple[State, tuple[Edit, ...]]:
    """Halves of what helped when it was left out; in the end, edits that take one statement out.

    Where leaving statements out does not help, the other candidates remain.
    """
    check, cases = state.cluster.check, screen_cases(setting, state.cluster)
    tally = state.tally
    counts = (tally.over(text, cases, check) for text in texts_for(setting, state, check))
    now = sum(counts, NONE_DRAWN)
    tried = [one for one in state.candidates if one.suspects]
    best = max(tried, key=lambda one: tally.over(one.text.digest, cases, check).rate)
    if best.within is not None:
        now = tally.over(best.within.digest, cases, check)
    count, said = len(best.suspects), tally.over(best.text.digest, cases, check)
    note = Note(
        event="localised",
        subject=best.text.digest,
        text=f"without {plural(count, 'statement')} {check} passed {said.passed} of"
        f" {said.trials}, before {now.passed} of {now.trials}",
        numbers={"passed": said.passed, "trials": said.trials, "statements": count},
    )
    others = tuple(one for one in state.candidates if not one.suspects)
    state = state.noting(note, candidates=others)
    if said.rate < now.rate + _RISE_MIN:
        return state, ()
    if count == 1:
        if best.within is None or _is_cause(state, best):
            return state, tuple(edit for edit in _edits(setting, state, best) if edit.ops)
        again = (best,) if said.trials < _CAUSE_TRIALS else ()
        return replace(state, candidates=(*others, *again)), ()
    middle = (count + 1) // 2
    halves = (best.suspects[:middle], best.suspects[middle:])
    parts = (
        replace(_without(best.within or state.text, half), within=best.within) for half in halves
    )
    return replace(state, candidates=(*others, *parts)), ()


def _is_cause(state: State, best: Candidate) -> bool:
    """Whether failures fall without one statement, by trials of a rule with and without it."""
    assert best.within is not None
    cluster, text = state.cluster, best.within.digest
    return better_p(state.tally, best.text.digest, text, cluster.cases, cluster.check) <= _CAUSE_P


def _edits(setting: Setting, state: State, best: Candidate) -> Iterator[Edit]:
    """What takes one statement out; of a rule that is added, also what puts it there."""
    if best.within is None:
        yield rule_edit("take-out", state.text, best.text)
        return
    yield rule_edit(INSTEAD, state.text, best.text)
    rule = setting.checks[state.cluster.check].advice
    there = _instead(best.within, best.suspects[0], rule)
    if there is not None:
        yield rule_edit(INSTEAD, state.text, there)


def rule_edit(strategy: str, text: PromptText, after: PromptText) -> Edit:
    """An edit for a rule that the prompt has already."""
    why = "where a rule is, and what may speak against it, decide how it is followed"
    return edit_between(
        Edit(ops=(), strategy=strategy, proposer="rules", rationale=why), text, after
    )


def _suspects(setting: Setting, state: State, text: PromptText, rule: str) -> tuple[Place, ...]:
    """The statements that no check asks for, those first that share most with the rule."""
    watched = [
        content_words(wanted)
        for name, other in setting.checks.items()
        if name != state.cluster.check
        for wanted in (other.advice, other.description)
        if wanted
    ]
    about = content_words(f"{rule} {state.cluster.check}")
    found: list[tuple[int, Place]] = []
    for index, tree in enumerate(text.trees):
        for number, node in enumerate(tree.statements):
            said = tree.of(node)
            words = content_words(_label(tree, node) + said)
            if "{{" in said or not words or normalise(said) in normalise(rule):
                continue
            if any(2 * len(words & other) >= len(words | other) for other in watched):
                continue  # another check asks for it
            place = (index, number)
            leaner = _without(text, (place,)).text
            if not state.memory.refuses(state.cluster.key, state.text, leaner):
                found.append((-len(words & about), place))
    return tuple(place for _, place in sorted(found))


def _label(tree: Tree, node: Node) -> str:
    """What an enumeration says of all its entries: `body:`."""
    above = tree.parent(node)
    if node.kind != "clause" or above is None or above.children[0].kind != "gap":
        return ""
    return tree.of(above.children[0])


def _instead(text: PromptText, hindering: Place, rule: str) -> PromptText | None:
    """The text with the rule in the place of what hinders it; None where it is several ones."""
    said = says(text, rule)
    if len(said) != 1:
        return None
    index, node = said[0]
    old = next(n for n, one in enumerate(text.trees[index].statements) if one is node)
    words = text.trees[index].of(node)
    for place in sorted({(index, old), hindering}, reverse=True):
        tree = text.trees[place[0]]
        one = tree.statements[place[1]]
        if place == hindering:
            was = tree.of(one)
            new = words.removeprefix(_label(tree, one))
            new = new if was[-1:] in _ENDS else new.rstrip("".join(_ENDS))
            new = new[:1].upper() + new[1:] if was[:1].isupper() else new[:1].lower() + new[1:]
            content = replace_node(tree, one, new)
        else:
            content = delete(tree, one)
        text = text.with_content(place[0], content)
    return text


def _without(text: PromptText, places: Sequence[Place]) -> Candidate:
    leaner = text
    # From the end, so that the numbers of the others stay.
    for index, number in sorted(places, reverse=True):
        tree = leaner.trees[index]
        leaner = leaner.with_content(index, delete(tree, tree.statements[number]))
    edit = Edit(ops=(), strategy="take-out", proposer="rules", rationale="")
    return Candidate(edit=edit, text=leaner, suspects=tuple(places))
