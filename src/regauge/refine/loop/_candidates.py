"""From proposed edits to candidates: taken apart, guarded, ranked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from regauge.refine.attempts import NO_PRIOR, Tried, named
from regauge.refine.changes import (
    changed_statements,
    comparisons,
    edit_between,
    followed,
    homes,
    lost_words,
    parts_of,
    says,
    units_of,
    with_rule,
    without_losses,
)
from regauge.refine.edits import Edit, EditError, Insert, ReplaceSection, apply
from regauge.refine.loop._state import Candidate, Note
from regauge.refine.loop._suspects import INSTEAD, rule_edit, rule_to_follow
from regauge.statements import content_words, move

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Setting, State

# Each costs a screening of `screen_cases` calls.
_CANDIDATES_MAX = 5
# So many of them are proposals with all of their changes, where there are as many.
_WHOLE_MIN = 2
# As many changes as a section counts for: it comes after all edits of statements.
_SECTION = 10
# Each place is a candidate of its own.
_PLACES_MAX = 3


def candidates_of(
    setting: Setting, state: State, edits: Sequence[Edit]
) -> tuple[tuple[Candidate, ...], tuple[tuple[Note, Tried | None], ...]]:
    """The candidates among proposed edits, the most promising first, and what was refused.

    Of an edit that makes several changes, each is tried alone as well where it stands on its own,
    so that what helps comes without what was wrapped around it.
    """
    pool, refused = _pooled(setting, state, edits)
    kept: list[tuple[tuple[bool, bool, bool, int, int, float, int, float], Candidate]] = []
    for shape, (edit, after) in pool.made.items():
        known = state.memory.refuses(state.cluster.key, state.text, after)
        objection = known or setting.guard.objection(edit, state.text, after)
        if objection:
            entry = None if known else _guarded(state, after, objection)
            refused.append((_note(edit, objection), entry))
            continue
        relevance = _relevance(setting, state, edit, after)
        suspicion = setting.guard.suspicion(state.text, after)
        prior = setting.prior.get(edit.strategy, NO_PRIOR)
        rank = (
            not relevance,
            not pool.agreement[shape],
            bool(suspicion),
            _reach(state.text, edit, after),
            lost_words(state.text, after),
            -relevance,
            -pool.agreement[shape],
            -prior,
        )
        kept.append((rank, Candidate(edit=edit, text=after, suspicion=suspicion)))
    kept.sort(key=lambda entry: entry[0])
    ranked = [candidate for _, candidate in kept]
    # A definition of many entries may help only as a whole, and its parts may be many.
    whole = [one for one in ranked if one.text.shape in pool.whole][:_WHOLE_MIN]
    parts = [one for one in ranked if one not in whole][: _CANDIDATES_MAX - len(whole)]
    return tuple(one for one in ranked if one in whole or one in parts), tuple(refused)


def _pooled(
    setting: Setting, state: State, edits: Sequence[Edit]
) -> tuple[_Pool, list[tuple[Note, Tried | None]]]:
    """What proposals make of the prompt, as a whole and in parts, and those that do not fit it."""
    refused: list[tuple[Note, Tried | None]] = []
    pool = _Pool()
    wholes: list[tuple[Edit, PromptText]] = []
    waiting = list(edits)
    for edit in waiting:
        try:
            literal = apply(state.text, edit.ops)
        except EditError as error:
            refused.append((_note(edit, str(error)), None))
            # What one operation gets wrong, the others may get right.
            if len(edit.ops) > 1:
                waiting += [replace(edit, ops=(op,)) for op in edit.ops]
            continue
        if isinstance(edit.ops[0], ReplaceSection) or edit.strategy == INSTEAD:
            wholes.append((edit, literal))
            continue
        # What is lost next to other changes has no reason of its own.
        after = without_losses(state.text, followed(state.text, literal))
        wholes.append((edit if after == literal else edit_between(edit, state.text, after), after))
        for part in parts_of(state.text, after):
            pool.add(edit_between(edit, state.text, part), part)
    for edit, after in sorted(wholes, key=lambda one: isinstance(one[0].ops[0], ReplaceSection)):
        pool.add(edit, after)
        pool.whole.add(after.shape)
    for edit, after in list(pool.made.values()):
        if _relevance(setting, state, edit, after):
            pool.made |= {
                there.shape: (variant, there)
                for variant, there in _elsewhere(state.text, edit, after)
                if there.shape not in pool.made
                and (not setting.strategies or variant.strategy in setting.strategies)
            }
    return pool, refused


_Made: TypeAlias = "tuple[Edit, PromptText]"


@dataclass
class _Pool:
    """Candidates by what they make of the prompt.

    Attributes:
        whole: What a proposal makes of the prompt with all of its changes.
        agreement: How many proposals lead there; none of what was only moved to another section.
    """

    made: dict[str, _Made] = field(default_factory=dict[str, _Made])
    whole: set[str] = field(default_factory=set[str])
    agreement: Counter[str] = field(default_factory=Counter[str])

    def add(self, edit: Edit, after: PromptText) -> None:
        self.made.setdefault(after.shape, (edit, after))
        self.agreement[after.shape] += 1


def second_thoughts(setting: Setting, state: State) -> tuple[Edit, ...]:
    """The rule in other places, where it is there and not followed well enough.

    As part of a line it stays where it is.
    """
    rule = rule_to_follow(setting, state)
    edits = _moved(state.text, rule) if rule else []
    wanted = setting.strategies
    return tuple(e for e in edits if e.ops and (not wanted or e.strategy in wanted))


def _moved(text: PromptText, rule: str) -> list[Edit]:
    """The rule behind the others of each section, that which comes last first."""
    places = {(index, id(node)) for index, node in says(text, rule)}
    if len(places) != 1:
        return []
    index, said = says(text, rule)[0]
    tree = text.trees[index]
    parent = tree.parent(said)
    if said.kind == "clause" or parent is None:
        return []
    node = parent if parent.kind == "entry" else said
    found: list[Edit] = []
    here = [home for home in homes(text) if home.message == index and home.node is not node]
    last = here[-1:]
    for home in (*last, *here[:-1]):
        if node.start <= home.node.start < node.end:
            continue
        after = text.with_content(index, move(tree, node, home.node))
        strategy = "move-last" if home in last else "move"
        found.append(rule_edit(strategy, text, after))
    return found[:_PLACES_MAX]


def _elsewhere(
    text: PromptText, edit: Edit, after: PromptText
) -> Iterable[tuple[Edit, PromptText]]:
    """An edit that adds one statement, with the statement at the end of other sections."""
    changes = [
        (n, one) for n, found in enumerate(comparisons(text, after)) for one in found.changes
    ]
    if len(changes) != 1 or len(edit.ops) != 1 or not isinstance(edit.ops[0], Insert):
        return
    (index, change) = changes[0]
    tree = after.trees[index]
    if change.kind != "added" or change.now is None or change.now.kind != "sentence":
        return
    for home in homes(text):
        if (home.message, home.heading) != (index, tree.heading(change.now)):
            there = with_rule(text, home, tree.of(change.now))
            yield edit_between(replace(edit, strategy="add-rule"), text, there), there


def _relevance(setting: Setting, state: State, edit: Edit, after: PromptText) -> float:
    """How much of what a check is about an edit speaks of, from 0 to 1."""
    cluster = state.cluster
    check = setting.checks.get(cluster.check)
    reasons = [
        said.reason
        for case in cluster.failing[:3]
        for outcome in state.tally.failures(state.text.digest, case, cluster.check)[:1]
        for said in outcome.checks
        if said.check == cluster.check
    ]
    subject = [cluster.check, *reasons, *((check.advice, check.description) if check else ())]
    about = content_words(" ".join(subject))
    added, removed = changed_statements(state.text, after)
    said = content_words(added or removed or edit.added)
    return len(about & said) / len(said) if said else 0.0


def _reach(text: PromptText, edit: Edit, after: PromptText) -> int:
    """How much an edit may change: a section is more than any statements."""
    return _SECTION if isinstance(edit.ops[0], ReplaceSection) else len(units_of(text, after))


def _note(edit: Edit, objection: str) -> Note:
    text = f"{edit.strategy}: {objection}"
    return Note(event="guarded", subject=edit.digest, text=text, numbers=named(edit))


def _guarded(state: State, after: PromptText, objection: str) -> Tried | None:
    """What is remembered of a refusal, once; it is a lesson, and refuses nothing by itself."""
    if any(one.after == after.shape and one.finding == "guarded" for one in state.memory.tried):
        return None
    key = state.cluster.key
    return Tried.of(state.text, after, key, "guarded", detail=objection, cycle=state.cycle)
