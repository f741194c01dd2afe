"""Candidates from proposed edits: split, guarded and ranked.

To find the statement that hinders a rule, statements are left out: first all that no check needs;
if that helps, one half of them, and so on to a single one. These texts only run. The proposal in
the end is the prompt without that one statement, tested as any other edit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.attempts import Attempt
from regauge.refine.edits import (
    Edit,
    EditError,
    Insert,
    ReplaceSection,
    apply,
    changed_statements,
    comparisons,
    count_lost_words,
    edit_between,
    find_rule,
    parts_of,
    reductions,
    renumber_text,
    restates,
    rule_edit,
    rule_places,
    units_of,
    with_rule,
    without_losses,
)
from regauge.refine.loop._plan import current_count, screen_count
from regauge.refine.loop._state import Candidate
from regauge.statements import content_words, delete, normalise, replace as put_instead
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.refine.attempts import AttemptResult
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Accepted, LoopState, Place
    from regauge.statements import Node, Tree

# The rationale of an edit for a rule that the prompt already has.
_WHY = "where a rule is, and what may speak against it, decide how it is followed"

# The least rise of the pass rate before a statement is searched for; less is often chance.
_RISE_MIN = 0.15
# Each costs a screening of `screen_cases` calls.
_CANDIDATES_MAX = 5
# Each costs a screening, too; older ones follow where these do not help.
_RELEASES_MAX = 3
# At least this many candidates are complete proposals, if there are any.
_WHOLE_MIN = 2
# The number of changes that a section counts as: it follows all edits of statements.
_SECTION = 10


def candidates_of(
    state: LoopState, edits: Sequence[Edit]
) -> tuple[tuple[Candidate, ...], LoopState]:
    """The candidates among edits, the most promising first, and the state with the rejections.

    Each self-contained change of an edit is also a candidate of its own. So a useful change comes
    without its surroundings.
    """
    pool, wholes, state = _pool(state, edits)
    ranked_pairs: list[tuple[tuple[float, ...], Candidate]] = []
    has_guarded = False
    for shape, (edit, after) in pool.items():
        refusal, attempt = state.memory.refusal(state.mode.key, state.text, after)
        objection = refusal or state.config.guard.objection(edit, state.text, after)
        if objection:
            state = refuse(state, edit, objection, attempt)
            # A rejection by a guard is stored once, as a lesson; it rejects nothing by itself.
            once = not any(
                t.after == shape and t.result == "guarded" for t in state.memory.attempts
            )
            if not refusal and once:
                candidate = Candidate(edit=edit, text=after)
                has_guarded, state = True, add_attempt(state, candidate, objection, "guarded")
            continue
        relevance = _relevance(state, edit, after)
        suspicion = state.config.guard.suspicion(state.text, after)
        is_section = isinstance(edit.ops[0], ReplaceSection)
        rank = (
            not relevance,
            bool(suspicion),
            _SECTION if is_section else len(units_of(state.text, after)),
            count_lost_words(state.text, after),
            -relevance,
        )
        ranked_pairs.append((rank, Candidate(edit=edit, text=after, suspicion=suspicion)))
    ranked_pairs.sort(key=lambda entry: entry[0])
    candidates = [candidate for _, candidate in ranked_pairs]
    # A definition of many entries may help only as a whole, and its parts may be many.
    complete = [candidate for candidate in candidates if candidate.text.shape in wholes][
        :_WHOLE_MIN
    ]
    partial = [candidate for candidate in candidates if candidate not in complete]
    selection = [*complete, *partial[: _CANDIDATES_MAX - len(complete)]]
    state = replace(state, novel=state.novel or bool(ranked_pairs) or has_guarded)
    return tuple(candidate for candidate in candidates if candidate in selection), state


def add_attempt(
    state: LoopState,
    attempted: Candidate | Accepted,
    detail: str = "",
    result: AttemptResult = "refuted",
) -> LoopState:
    """The state with the result of an edit in its memory; by default its strategy is the detail."""
    key = state.mode.key if state.open_modes else ""
    edit = attempted.edit
    entry = Attempt.from_edit(
        edit,
        state.text,
        attempted.text,
        key,
        result,
        detail=detail or edit.strategy,
        cycle=state.cycle,
    )
    return replace(state, memory=state.memory.with_attempts(entry))


def refuse(state: LoopState, edit: Edit, objection: str, attempt: int | None = None) -> LoopState:
    """The state with the note on a rejection by a guard, or for an earlier attempt."""
    numbers = {} if attempt is None else {"attempt": attempt}
    return state.note("guarded", f"{edit.strategy}: {objection}", edit.digest, numbers)


RESTORE = "restore"
"""The strategy of an edit that restores the text of a release."""


def releases_to_try(state: LoopState) -> tuple[Candidate, ...]:
    """The newest releases that no run rejected, unless an accepted edit would be undone."""
    accepted = [edit.edit.strategy for edit in state.accepted]
    if "rules" not in state.config.proposers or any(name != RESTORE for name in accepted):
        return ()
    # Parts of a release that a user rejected may be accepted.
    passed = {"accepted", "rejected-by-person"}
    done = {attempt.after for attempt in state.memory.attempts if attempt.result not in passed}
    done |= {state.text.shape, *state.memory.incumbents}
    candidates: dict[str, Candidate] = {}
    for release in state.config.releases:
        if release.text.shape not in done:
            reason = f"{release.name} has this text, and {state.mode.check} passes with it"
            edit = rule_edit(state.text, release.text, RESTORE, reason)
            candidate = Candidate(edit=edit, text=release.text, release=release)
            candidates.setdefault(release.text.shape, candidate)
    return tuple(candidates.values())[:_RELEASES_MAX]


def smaller_edits(state: LoopState, candidate: Candidate) -> Iterator[Candidate]:
    """A candidate without some of its changes that was not tried, as far as no guard rejects it.

    Half of the changes are left out first, then a quarter, and so on to single ones. The rest may
    have no further errors. Guards have nothing against parts of a release.
    """
    tried_shapes = {other.text.shape for other in state.candidates}
    guard, errors_in, suspicion = state.config.guard, state.config.errors_in, ""
    keep_blocks = candidate.release is not None
    ops = candidate.edit.ops
    if ops and isinstance(ops[0], ReplaceSection):
        return  # it is verified as one unit
    error_count = len(errors_in(candidate.text))
    for text in reductions(state.text, candidate.text, keep_blocks=keep_blocks):
        if text.shape in tried_shapes or len(errors_in(text)) > error_count:
            continue
        edit = edit_between(candidate.edit, state.text, text)
        if not candidate.release:
            refused = state.memory.refuses(state.mode.key, state.text, text)
            if refused or guard.objection(edit, state.text, text):
                continue
            suspicion = guard.suspicion(state.text, text)
        yield replace(candidate, edit=edit, text=text, suspicion=suspicion, is_smaller=True)


def _pool(
    state: LoopState, edits: Sequence[Edit]
) -> tuple[dict[str, tuple[Edit, PromptText]], set[str], LoopState]:
    """The candidates of proposals and their parts by shape, and the shapes of whole proposals."""
    pool: dict[str, tuple[Edit, PromptText]] = {}
    wholes: list[tuple[Edit, PromptText]] = []
    waiting = list(edits)
    for edit in waiting:
        try:
            literal = apply(state.text, edit.ops)
        except EditError as error:
            state = replace(refuse(state, edit, str(error)), novel=True)
            # Other operations of the edit may be valid.
            if len(edit.ops) > 1:
                waiting += [replace(edit, ops=(op,)) for op in edit.ops]
            continue
        if isinstance(edit.ops[0], ReplaceSection):
            wholes.append((edit, literal))
            continue
        # What is lost or laid out anew next to other changes has no reason of its own.
        after = without_losses(state.text, renumber_text(state.text, literal))
        wholes.append((edit if after == literal else edit_between(edit, state.text, after), after))
        for part in parts_of(state.text, after):
            pool.setdefault(part.shape, (edit_between(edit, state.text, part), part))
    for edit, after in sorted(wholes, key=lambda pair: isinstance(pair[0].ops[0], ReplaceSection)):
        pool.setdefault(after.shape, (edit, after))
    for edit, after in list(pool.values()):
        if _relevance(state, edit, after):
            for variant, variant_text in _other_places(state.text, edit, after):
                pool.setdefault(variant_text.shape, (variant, variant_text))
    return pool, {after.shape for _, after in wholes}, state


def _other_places(
    text: PromptText, edit: Edit, after: PromptText
) -> Iterator[tuple[Edit, PromptText]]:
    """An edit that adds one statement, with it instead of one that it restates, or elsewhere.

    The other places are the ends of other sections.
    """
    changes = [
        (n, c) for n, comparison in enumerate(comparisons(text, after)) for c in comparison.changes
    ]
    if len(changes) != 1 or len(edit.ops) != 1 or not isinstance(edit.ops[0], Insert):
        return
    index, change = changes[0]
    tree = after.trees[index]
    if change.kind != "added" or change.now is None or change.now.kind != "sentence":
        return
    for number, old_tree in enumerate(text.trees):
        for node in old_tree.statements:
            if restates(tree.text_of(change.now), old_tree.text_of(node)):
                content = put_instead(old_tree, node, tree.text_of(change.now))
                variant = text.with_content(number, content)
                yield edit_between(edit, text, variant), variant
    for home in rule_places(text):
        if (home.message, home.heading) != (index, tree.heading(change.now)):
            variant = with_rule(text, home, tree.text_of(change.now))
            yield edit_between(replace(edit, strategy="add-rule"), text, variant), variant


def _relevance(state: LoopState, edit: Edit, after: PromptText) -> float:
    """The share of a check's subject that an edit mentions, from 0 to 1."""
    mode = state.mode
    check = state.config.checks.get(mode.check)
    reasons = [
        result.reason
        for case in mode.failing[:3]
        for outcome in state.tally.failures(state.text.digest, case, mode.check)[:1]
        for result in outcome.checks
        if result.check == mode.check
    ]
    subject = [mode.check, *reasons, *((check.advice, check.description) if check else ())]
    about = content_words(" ".join(subject))
    added_text, removed_text = changed_statements(state.text, after)
    words = content_words(added_text or removed_text or edit.added_text)
    return len(about & words) / len(words) if words else 0.0


def rule_to_follow(state: LoopState) -> str:
    """The rule of a check in the prompt; empty if it is missing."""
    check = state.mode.check
    texts = [state.config.base, *(accepted.text for accepted in state.accepted)]
    rule_texts = [
        accepted.edit.added_text
        if isinstance(accepted.edit.ops[0], ReplaceSection)
        else changed_statements(before, accepted.text)[0]
        for before, accepted in zip(texts, state.accepted, strict=False)
        if accepted.mode.check == check
    ]
    if state.accepted and rule_texts and isinstance(state.accepted[-1].edit.ops[0], ReplaceSection):
        return ""  # it was tested as a whole, so no part of it is tried alone
    criterion = state.config.checks.get(check)
    rules = ([criterion.advice] if criterion else []) + rule_texts[-1:]
    return next((rule for rule in rules if rule.strip() and find_rule(state.text, rule)), "")


def all_suspects(state: LoopState) -> Candidate | None:
    """The prompt without all statements that may hinder a rule."""
    rule = rule_to_follow(state)
    places = _suspects(state, state.text, rule) if rule else ()
    return _candidate_without(state.text, places) if places else None


def narrow_suspects(state: LoopState) -> tuple[LoopState, tuple[Edit, ...]]:
    """Halves of the statements whose removal helped; in the end, an edit that removes one.

    If no removal helps, the other candidates remain.
    """
    check, now = state.mode.check, current_count(state)
    ablated = [candidate for candidate in state.candidates if candidate.suspects]
    best = max(ablated, key=lambda candidate: screen_count(state, candidate.text, state.mode).rate)
    count, before = len(best.suspects), screen_count(state, best.text, state.mode)
    remaining = tuple(candidate for candidate in state.candidates if not candidate.suspects)
    state = replace(state, candidates=remaining).note(
        "localised",
        f"without {plural(count, 'statement')}: {check} passes {before} (before {now})",
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
    parts = (_candidate_without(state.text, half) for half in halves)
    return replace(state, candidates=(*remaining, *parts)), ()


def _suspects(state: LoopState, text: PromptText, rule: str) -> tuple[Place, ...]:
    """The statements that no check needs, the most similar to the rule first."""
    check_words = [
        content_words(text)
        for name, other in state.config.checks.items()
        if name != state.mode.check
        for text in (other.advice, other.description)
        if text
    ]
    about = content_words(f"{rule} {state.mode.check}")
    places: list[tuple[int, Place]] = []
    for index, tree in enumerate(text.trees):
        for number, node in enumerate(tree.statements):
            statement = tree.text_of(node)
            words = content_words(_label(tree, node) + statement)
            if "{{" in statement or not words or normalise(statement) in normalise(rule):
                continue
            if any(2 * len(words & other) >= len(words | other) for other in check_words):
                continue  # another check asks for it
            place = (index, number)
            leaner = _candidate_without(text, (place,)).text
            if not state.memory.refuses(state.mode.key, state.text, leaner):
                places.append((-len(words & about), place))
    return tuple(place for _, place in sorted(places))


def _label(tree: Tree, node: Node) -> str:
    """The shared label of an enumeration's entries: `body:`."""
    above = tree.parent(node)
    if node.kind != "clause" or above is None or above.children[0].kind != "gap":
        return ""
    return tree.text_of(above.children[0])


def _candidate_without(text: PromptText, places: Sequence[Place]) -> Candidate:
    leaner = text
    # From the end, so that those in front stay where they are.
    for index, number in sorted(places, reverse=True):
        tree = leaner.trees[index]
        before = text.trees[index]
        line = before.statements[number]
        # The rest of the later text may be parsed differently.
        matches = [node for node in tree.statements if tree.text_of(node) == before.text_of(line)]
        if matches:
            node = min(matches, key=lambda node: abs(node.start - line.start))
            leaner = leaner.with_content(index, delete(tree, node))
    edit = Edit(ops=(), strategy="take-out", proposer="rules", rationale="")
    return Candidate(edit=edit, text=leaner, suspects=tuple(places))
