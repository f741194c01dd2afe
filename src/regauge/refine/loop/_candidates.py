"""From proposed edits to candidates: taken apart, guarded, ranked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.edits import (
    Delete,
    Edit,
    EditError,
    Insert,
    Replace,
    ReplaceSection,
    apply,
    content_words,
    one_by_one,
    other_places,
    said_in,
    second_places,
    statements_of,
)
from regauge.refine.loop._findings import Candidate, Note
from regauge.refine.memory import NO_PRIOR, Tried, changed_places, changed_statements, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.refine.edits import Op, PromptText
    from regauge.refine.loop._state import Setting, State

__all__ = ["REWRITE", "candidates_of", "second_thoughts"]

_CANDIDATES_MAX = 5
_SECTION = 10

REWRITE = "rewrite"
"""The strategy of an edit that was read off a whole new text."""


def candidates_of(
    setting: Setting, state: State, edits: Sequence[Edit]
) -> tuple[tuple[Candidate, ...], tuple[tuple[Note, Tried | None], ...]]:
    """The candidates among proposed edits, the most promising first, and what was refused.

    An edit of several operations is tried operation by operation first, so that what helps comes
    without what was wrapped around it; the whole of it comes last.

    Returns:
        The candidates, and per refusal a note with what is to be remembered of it.
    """
    parts = Counter(part for edit in edits for part in _parts(state.text, edit))
    wholes = Counter(edit for edit in edits if len(edit.ops) > 1)
    others = _wanted_elsewhere(setting, state)
    variants = Counter(
        variant
        for part in parts
        if _relevance(setting, state, part)
        for variant in other_places(state.text, part, others)
        if not setting.strategies or variant.strategy in setting.strategies
    )
    kept: list[tuple[tuple[bool, bool, int, float, int, float], Candidate]] = []
    refused: list[tuple[Note, Tried | None]] = []
    met: set[str] = set()
    # Of edits that make the same text, the one that may change least stands for all.
    ranked = sorted(parts.items(), key=lambda entry: _reach(entry[0]))
    for edit, agreement in (*ranked, *wholes.items(), *variants.items()):
        try:
            after = apply(state.text, edit.ops)
        except EditError as error:
            refused.append((_note(edit, str(error)), None))
            continue
        if after.shape in met:
            continue
        met.add(after.shape)
        known = state.memory.refuses(state.cluster.key, state.text, after)
        objection = known or setting.guard.objection(edit, state.text, after)
        if objection:
            entry = None if known else _guarded(state, after, objection)
            refused.append((_note(edit, objection), entry))
            continue
        relevance = _relevance(setting, state, edit)
        is_variant = edit in variants
        prior = setting.prior.get(edit.strategy, NO_PRIOR)
        rank = (not relevance, is_variant, _reach(edit), -relevance, -agreement, -prior)
        kept.append((rank, Candidate(edit=edit, text=after)))
    kept.sort(key=lambda entry: entry[0])
    return tuple(candidate for _, candidate in kept[:_CANDIDATES_MAX]), tuple(refused)


def second_thoughts(setting: Setting, state: State) -> tuple[Edit, ...]:
    """Edits of what was accepted for the same check before and does not suffice."""
    check = state.cluster.check
    accepted = [one for one in state.accepted if one.cluster.check == check]
    if accepted and isinstance(accepted[-1].edit.ops[0], ReplaceSection):
        return ()  # it was proved as a whole, so no part of it is tried alone
    said = accepted[-1].edit.added.split("\n") if accepted else []
    added = [
        one
        for line in state.text.lines
        if line.kind in {"rule", "text"} and line.text in said
        for one in statements_of(line)
    ]
    if len(added) != 1:
        return ()
    return tuple(
        edit
        for edit in second_places(state.text, added[0], _wanted_elsewhere(setting, state))
        if not setting.strategies or edit.strategy in setting.strategies
    )


def _wanted_elsewhere(setting: Setting, state: State) -> list[str]:
    """What other checks want, in their words."""
    return [
        text
        for name, other in setting.checks.items()
        if name != state.cluster.check
        for text in (other.advice, other.description)
        if text
    ]


def _parts(text: PromptText, edit: Edit) -> Iterable[Edit]:
    """One edit per operation, without operations that only take a line out or repeat one.

    Of a rewrite, each change to what a line says comes alone, without what the line no longer says.
    """
    there = {line.text.strip() for line in text.lines}
    many = len(edit.ops) > 1
    for whole in edit.ops:
        rewritten = many or edit.strategy == REWRITE
        for op in one_by_one(whole) if rewritten and isinstance(whole, Replace) else [whole]:
            part = _without_repetition(_kept_apart(op) if rewritten else op, there)
            if part is not None and not (many and isinstance(part, Delete)):
                yield replace(edit, ops=(part,))


def _kept_apart(op: Op) -> Op:
    """A line that is replaced by one on another subject is not what is wrong, so it stays."""
    if isinstance(op, Replace) and not op.find:
        old, new = content_words(op.anchor.line), content_words(op.text)
        if not old & new:
            return Insert(op.anchor, op.text)
    return op


def _without_repetition(op: Op, there: set[str]) -> Op | None:
    """An operation that brings in a line which is there already only takes its own line out."""
    match op:
        case Insert() if op.text.strip() in there:
            return None
        case Replace() if not op.find and op.text.strip() in there:
            return Delete(op.anchor)
        case _:
            return op


def _relevance(setting: Setting, state: State, edit: Edit) -> float:
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
    said = content_words(_brought_in(edit) or " ".join(op.anchor.line for op in edit.ops))
    return len(about & said) / len(said) if said else 0.0


def _brought_in(edit: Edit) -> str:
    """What an edit adds, without what the lines that it replaces say as well."""
    return "\n".join(
        one
        for op in edit.ops
        if not isinstance(op, Delete)
        for line in op.text.split("\n")
        for one in said_in(line)
        if not isinstance(op, Replace) or one not in said_in(op.anchor.line)
    )


def _reach(edit: Edit) -> int:
    """How much an edit may change: a section is more than any lines."""
    return _SECTION if isinstance(edit.ops[0], ReplaceSection) else len(edit.ops)


def _note(edit: Edit, objection: str) -> Note:
    text = f"{edit.strategy}: {objection}"
    return Note(event="guarded", subject=edit.digest, text=text, numbers=named(edit))


def _guarded(state: State, after: PromptText, objection: str) -> Tried:
    added, removed = changed_statements(state.text, after)
    return Tried(
        before=state.text.shape,
        after=after.shape,
        cluster=state.cluster.key,
        added=added,
        removed=removed,
        finding="guarded",
        detail=objection,
        cycle=state.cycle,
        places=changed_places(state.text, after),
    )
