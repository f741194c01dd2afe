"""From proposed edits to candidates: taken apart, guarded, ranked.

Where a rule is not followed, the statement that hinders it is found by leaving statements out: all
that no check asks for together; where that helps, one half of them, and so on to a single one.
These texts are only run, never proposed: what is proposed in the end is the prompt without that one
statement, and it is tested as any other edit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.gate import NO_TRIALS
from regauge.refine.attempts import NO_PRIOR, Attempt, named
from regauge.refine.edits import (
    Edit,
    EditError,
    Insert,
    ReplaceSection,
    apply,
    changed_statements,
    comparisons,
    edit_between,
    followed,
    homes,
    lost_words,
    parts_of,
    rule_edit,
    says,
    units_of,
    with_rule,
    without_losses,
)
from regauge.refine.loop._plan import screen_cases, texts_for
from regauge.refine.loop._state import Candidate
from regauge.statements import content_words, delete, move, normalise
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import LoopConfig, LoopState, Place
    from regauge.statements import Node, Tree

# The reason for an edit for a rule that the prompt has already.
_WHY = "where a rule is, and what may speak against it, decide how it is followed"
# The strategy of an edit that puts a rule where something kept it from being followed.
INSTEAD = "replace-hindering"

# The pass rate has to rise by so much before a statement is looked for; less is often chance.
_RISE_MIN = 0.15
# Each costs a screening of `screen_cases` calls.
_CANDIDATES_MAX = 5
# So many of them are proposals with all of their changes, where there are as many.
_WHOLE_MIN = 2
# As many changes as a section counts for: it comes after all edits of statements.
_SECTION = 10
# Each place is a candidate of its own.
_PLACES_MAX = 3


def candidates_of(
    setting: LoopConfig, state: LoopState, edits: Sequence[Edit]
) -> tuple[tuple[Candidate, ...], LoopState]:
    """The candidates among edits, the most promising first, and the state that notes refusals.

    Of an edit that makes several changes, each is tried alone as well where it stands on its own,
    so that what helps comes without what was wrapped around it.
    """
    pool, state = _pool(setting, state, edits)
    kept: list[tuple[tuple[float, ...], Candidate]] = []
    guarded: list[Attempt] = []
    for shape, (edit, after) in pool.made.items():
        refusal = state.memory.refuses(state.cluster.key, state.text, after)
        objection = refusal or setting.guard.objection(edit, state.text, after)
        if objection:
            state = _refuse(state, edit, objection)
            # A refusal is remembered once; it is a lesson, and refuses nothing by itself.
            once = not any(t.after == shape and t.finding == "guarded" for t in state.memory.tried)
            if not refusal and once:
                key, cycle = state.cluster.key, state.cycle
                guarded.append(
                    Attempt.from_texts(
                        state.text, after, key, "guarded", detail=objection, cycle=cycle
                    )
                )
            continue
        relevance = _relevance(setting, state, edit, after)
        suspicion = setting.guard.suspicion(state.text, after)
        is_section = isinstance(edit.ops[0], ReplaceSection)
        rank = (
            not relevance,
            not pool.agreement[shape],
            bool(suspicion),
            _SECTION if is_section else len(units_of(state.text, after)),
            lost_words(state.text, after),
            -relevance,
            -pool.agreement[shape],
            -setting.prior.get(edit.strategy, NO_PRIOR),
        )
        kept.append((rank, Candidate(edit=edit, text=after, suspicion=suspicion)))
    kept.sort(key=lambda entry: entry[0])
    ranked = [candidate for _, candidate in kept]
    # A definition of many entries may help only as a whole, and its parts may be many.
    whole = [candidate for candidate in ranked if candidate.text.shape in pool.whole][:_WHOLE_MIN]
    others = [candidate for candidate in ranked if candidate not in whole]
    chosen = [*whole, *others[: _CANDIDATES_MAX - len(whole)]]
    novel = state.novel or bool(kept or guarded)
    state = replace(state, memory=state.memory.with_tried(*guarded), novel=novel)
    return tuple(candidate for candidate in ranked if candidate in chosen), state


def _refuse(state: LoopState, edit: Edit, objection: str) -> LoopState:
    return state.note("guarded", f"{edit.strategy}: {objection}", edit.digest, named(edit))


@dataclass
class _Pool:
    """Candidates by what they make of the prompt.

    Attributes:
        whole: What a proposal makes of the prompt with all of its changes.
        agreement: How many proposals lead there; none of what was only moved to another section.
    """

    made: dict[str, tuple[Edit, PromptText]] = field(
        default_factory=dict[str, "tuple[Edit, PromptText]"]
    )
    whole: set[str] = field(default_factory=set[str])
    agreement: Counter[str] = field(default_factory=Counter[str])

    def add(self, edit: Edit, after: PromptText) -> None:
        self.made.setdefault(after.shape, (edit, after))
        self.agreement[after.shape] += 1


def _pool(setting: LoopConfig, state: LoopState, edits: Sequence[Edit]) -> tuple[_Pool, LoopState]:
    """The prompts that proposals give, whole and in parts."""
    pool = _Pool()
    wholes: list[tuple[Edit, PromptText]] = []
    waiting = list(edits)
    for edit in waiting:
        try:
            literal = apply(state.text, edit.ops)
        except EditError as error:
            state = _refuse(state, edit, str(error))
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
    for edit, after in sorted(wholes, key=lambda pair: isinstance(pair[0].ops[0], ReplaceSection)):
        pool.add(edit, after)
        pool.whole.add(after.shape)
    for edit, after in list(pool.made.values()):
        if _relevance(setting, state, edit, after):
            for variant, variant_text in _elsewhere(state.text, edit, after):
                pool.made.setdefault(variant_text.shape, (variant, variant_text))
    return pool, state


def second_thoughts(setting: LoopConfig, state: LoopState) -> tuple[Edit, ...]:
    """The rule in other places, where it is there and not followed well enough.

    As part of a line it stays where it is.
    """
    rule = rule_to_follow(setting, state)
    return tuple(edit for edit in _move(state.text, rule) if edit.ops) if rule else ()


def _move(text: PromptText, rule: str) -> list[Edit]:
    """The rule behind the others of each section, that which comes last first."""
    (index, statement), *others = says(text, rule)
    if any(node is not statement for _, node in others):
        return []
    tree = text.trees[index]
    parent = tree.parent(statement)
    if statement.kind == "clause" or parent is None:
        return []
    node = parent if parent.kind == "entry" else statement
    edits: list[Edit] = []
    here = [home for home in homes(text) if home.message == index and home.node is not node]
    last = here[-1:]
    for home in (*last, *here[:-1]):
        if node.start <= home.node.start < node.end:
            continue
        after = text.with_content(index, move(tree, node, home.node))
        strategy = "move-last" if home in last else "move"
        edits.append(rule_edit(text, after, strategy, _WHY))
    return edits[:_PLACES_MAX]


def _elsewhere(
    text: PromptText, edit: Edit, after: PromptText
) -> Iterator[tuple[Edit, PromptText]]:
    """An edit that adds one statement, with the statement at the end of other sections."""
    changes = [(n, c) for n, both in enumerate(comparisons(text, after)) for c in both.changes]
    if len(changes) != 1 or len(edit.ops) != 1 or not isinstance(edit.ops[0], Insert):
        return
    index, change = changes[0]
    tree = after.trees[index]
    if change.kind != "added" or change.now is None or change.now.kind != "sentence":
        return
    for home in homes(text):
        if (home.message, home.heading) != (index, tree.heading(change.now)):
            revised = with_rule(text, home, tree.text_of(change.now))
            yield edit_between(replace(edit, strategy="add-rule"), text, revised), revised


def _relevance(setting: LoopConfig, state: LoopState, edit: Edit, after: PromptText) -> float:
    """The share of a check's subject that an edit mentions, from 0 to 1."""
    cluster = state.cluster
    check = setting.checks.get(cluster.check)
    reasons = [
        result.reason
        for case in cluster.failing[:3]
        for outcome in state.tally.failures(state.text.digest, case, cluster.check)[:1]
        for result in outcome.checks
        if result.check == cluster.check
    ]
    subject = [cluster.check, *reasons, *((check.advice, check.description) if check else ())]
    about = content_words(" ".join(subject))
    added, removed = changed_statements(state.text, after)
    words = content_words(added or removed or edit.added)
    return len(about & words) / len(words) if words else 0.0


def rule_to_follow(setting: LoopConfig, state: LoopState) -> str:
    """The rule of a check that the prompt states; empty if it does not."""
    check = state.cluster.check
    texts = [setting.base, *(accepted.text for accepted in state.accepted)]
    added = [
        accepted.edit.added
        if isinstance(accepted.edit.ops[0], ReplaceSection)
        else changed_statements(before, accepted.text)[0]
        for before, accepted in zip(texts, state.accepted, strict=False)
        if accepted.cluster.check == check
    ]
    if state.accepted and added and isinstance(state.accepted[-1].edit.ops[0], ReplaceSection):
        return ""  # it was proved as a whole, so no part of it is tried alone
    criterion = setting.checks.get(check)
    rules = ([criterion.advice] if criterion else []) + added[-1:]
    return next((rule for rule in rules if rule.strip() and says(state.text, rule)), "")


def all_suspects(setting: LoopConfig, state: LoopState) -> Candidate | None:
    """The prompt without all statements that may keep a rule from being followed."""
    rule = rule_to_follow(setting, state)
    places = _suspects(setting, state, state.text, rule) if rule else ()
    return _without(state.text, places) if places else None


def narrowed(setting: LoopConfig, state: LoopState) -> tuple[LoopState, tuple[Edit, ...]]:
    """Halves of what helped when it was left out; in the end, edits that take one statement out.

    Where leaving statements out does not help, the other candidates remain.
    """
    check, cases = state.cluster.check, screen_cases(setting, state.cluster)
    tally = state.tally
    counts = (tally.over(text, cases, check) for text in texts_for(setting, state, check))
    now = sum(counts, NO_TRIALS)
    tried = [candidate for candidate in state.candidates if candidate.suspects]
    best = max(tried, key=lambda candidate: tally.over(candidate.text.digest, cases, check).rate)
    count, before = len(best.suspects), tally.over(best.text.digest, cases, check)
    others = tuple(candidate for candidate in state.candidates if not candidate.suspects)
    state = replace(state, candidates=others).note(
        "localised",
        f"without {plural(count, 'statement')}: {check} passes {before.passed} of {before.trials}"
        f" (before {now.passed} of {now.trials})",
        best.text.digest,
        {"passed": before.passed, "trials": before.trials, "statements": count},
    )
    if before.rate < now.rate + _RISE_MIN:
        return state, ()
    if count == 1:
        edit = rule_edit(state.text, best.text, "take-out", _WHY)
        return state, (edit,) if edit.ops else ()
    middle = (count + 1) // 2
    halves = (best.suspects[:middle], best.suspects[middle:])
    parts = (_without(state.text, half) for half in halves)
    return replace(state, candidates=(*others, *parts)), ()


def _suspects(
    setting: LoopConfig, state: LoopState, text: PromptText, rule: str
) -> tuple[Place, ...]:
    """The statements that no check asks for, those first that share most with the rule."""
    watched = [
        content_words(text)
        for name, other in setting.checks.items()
        if name != state.cluster.check
        for text in (other.advice, other.description)
        if text
    ]
    about = content_words(f"{rule} {state.cluster.check}")
    places: list[tuple[int, Place]] = []
    for index, tree in enumerate(text.trees):
        for number, node in enumerate(tree.statements):
            statement = tree.text_of(node)
            words = content_words(_label(tree, node) + statement)
            if "{{" in statement or not words or normalise(statement) in normalise(rule):
                continue
            if any(2 * len(words & other) >= len(words | other) for other in watched):
                continue  # another check asks for it
            place = (index, number)
            leaner = _without(text, (place,)).text
            if not state.memory.refuses(state.cluster.key, state.text, leaner):
                places.append((-len(words & about), place))
    return tuple(place for _, place in sorted(places))


def _label(tree: Tree, node: Node) -> str:
    """The shared label of an enumeration's entries: `body:`."""
    above = tree.parent(node)
    if node.kind != "clause" or above is None or above.children[0].kind != "gap":
        return ""
    return tree.text_of(above.children[0])


def _without(text: PromptText, places: Sequence[Place]) -> Candidate:
    leaner = text
    # From the end, so that those in front stay where they are.
    for index, number in sorted(places, reverse=True):
        tree = leaner.trees[index]
        node = _still(tree, text.trees[index], number)
        if node is not None:
            leaner = leaner.with_content(index, delete(tree, node))
    edit = Edit(ops=(), strategy="take-out", proposer="rules", rationale="")
    return Candidate(edit=edit, text=leaner, suspects=tuple(places))


def _still(tree: Tree, before: Tree, number: int) -> Node | None:
    """A statement of an earlier text in a later one, whose rest may be read differently."""
    line = before.statements[number]
    same = [node for node in tree.statements if tree.text_of(node) == before.text_of(line)]
    return min(same, key=lambda node: abs(node.start - line.start), default=None)
