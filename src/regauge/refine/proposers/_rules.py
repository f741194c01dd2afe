"""Edits without a model: a number as a check wants it, a rule that is missing.

A statement is replaced only where trials without it showed that it causes the failure, or where it
is the same statement with another number. Otherwise the edit adds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from regauge.refine.changes import edit_between, homes, says, statement_words, steps_for, with_rule
from regauge.refine.edits import Edit, PromptText
from regauge.refine.proposers._protocol import Ideas
from regauge.statements import content_words, delete, is_negated, normalise, parse, replace, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.refine.analysis import Check, Cluster
    from regauge.refine.loop._state import Critique
    from regauge.refine.proposers._protocol import Ask, Problem
    from regauge.statements import Node, Tree


_REPLACED_MAX = 2
_HOMES_MAX = 3
_MEASURE = re.compile(
    r"(?:\b(?:at most|at least|exactly|no more than|not more than|up to|under|about|around|roughly"
    r"|approximately|ideally|more than|fewer than|less than)\s+)?\b(?P<n>\d+)\s+"
    r"(?P<unit>words|characters|sentences|lines|paragraphs|bullets|tokens)\b",
    re.IGNORECASE,
)
# Two sentences are the same but for their values, where so few words differ in so few places, and
# so many are shared.
_VALUES_MAX, _SHARED_MIN, _SAME = 2, 3, 0.6
_ENDS = frozenset(".。!")
_FIELD = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class RuleProposer:
    """Puts what a check wants where the prompt says otherwise; it asks no model."""

    name: str = "rules"
    asks_model: bool = False

    async def criticise(self, problem: Problem, ask: Ask) -> Critique | None:
        """Its edits need no critique."""
        del problem, ask
        return None

    async def propose(self, problem: Problem, ask: Ask) -> Ideas:
        """As `propose_by_rules`, after taking out what was seen to stand in the way."""
        del ask
        edits = propose_by_rules(problem.text, problem.cluster, problem.checks)
        return Ideas(edits=(*_taken_out(problem), *edits))


def propose_by_rules(
    text: PromptText, cluster: Cluster, checks: Mapping[str, Check]
) -> tuple[Edit, ...]:
    """Edits that would make the prompt say what a check wants.

    In this order: say a number as the check wants it ("about 80 words" becomes "at most 80
    words"); add the check's advice to the section it belongs to.
    """
    check = checks.get(cluster.check)
    advice = check.advice.strip() if check else ""
    if not advice or says(text, advice):
        return ()
    reworded = [*_same_sentence(text, advice), *_reworded(text, advice)][:_REPLACED_MAX]
    added = [("add-rule", there) for there in _added(text, advice)]
    return tuple(_edit(text, there, strategy, cluster) for strategy, there in (*reworded, *added))


def _taken_out(problem: Problem) -> list[Edit]:
    """Without a statement, or with the advice instead, where trials without it passed more."""
    hindering = {normalise(sentence) for sentence in problem.hindering}
    advice = problem.check.advice.strip()
    text = problem.text
    why = f"{problem.check.name} passed more often when it was left out"
    found: list[Edit] = []
    for index, tree in enumerate(text.trees):
        for said, node in statement_words(tree).items():
            if said not in hindering:
                continue
            leaner = text.with_content(index, delete(tree, node))
            made = [("take-out", leaner)]
            if advice and not says(text, advice):
                other = replace(tree, node, advice.removeprefix("- "))
                made.append(("replace-hindering", text.with_content(index, other)))
            found += [
                edit_between(
                    Edit(ops=(), strategy=strategy, proposer="rules", rationale=why), text, there
                )
                for strategy, there in made
            ]
    return found


def _same_sentence(text: PromptText, advice: str) -> list[tuple[str, PromptText]]:
    """Instead of a statement that is the advice but for a value, or its negation."""
    found: list[tuple[str, PromptText]] = []
    wanted = parse(advice).statements
    if len(wanted) != 1:
        return []
    bare = parse(advice).of(wanted[0])
    for index, tree in enumerate(text.trees):
        for node in tree.statements:
            said = tree.of(node)
            if "{{" not in said and (_differs_in_value(said, bare) or _is_negation(said, bare)):
                new = bare if said[-1:] in _ENDS else bare.rstrip("".join(_ENDS))
                there = text.with_content(index, replace(tree, node, _cased(new, said)))
                found.append(("set-value", there))
    return found


def _differs_in_value(one: str, other: str) -> bool:
    """Whether two sentences are the same but for a value in one or two places."""
    mine, its = tokens(one), tokens(other)
    opcodes = SequenceMatcher(None, mine, its, autojunk=False).get_opcodes()
    changes = [(b - a, d - c) for tag, a, b, c, d in opcodes if tag != "equal"]
    shared = sum(b - a for tag, a, b, *_ in opcodes if tag == "equal")
    return (
        0 < len(changes) <= _VALUES_MAX
        and all(0 < gone <= _VALUES_MAX and 0 < come <= _VALUES_MAX for gone, come in changes)
        and shared >= max(_SHARED_MIN, _SAME * max(len(mine), len(its)))
    )


def _is_negation(one: str, other: str) -> bool:
    negated = {is_negated(one), is_negated(other)}
    words = content_words(one)
    return negated == {True, False} and len(words) > 1 and words == content_words(other)


def _reworded(text: PromptText, advice: str) -> list[tuple[str, PromptText]]:
    """Statements that give the same measure of the same thing otherwise, or half-heartedly."""
    wanted = _MEASURE.search(advice)
    if wanted is None:
        return []
    edits: list[tuple[str, PromptText]] = []
    for index, tree in enumerate(text.trees):
        for node in tree.statements:
            said = tree.of(node)
            found = list(_MEASURE.finditer(said))
            if len(found) != 1 or not _is_about(tree, node, found[0], advice, wanted):
                continue
            (other,) = found
            same_number = other["n"] == wanted["n"]
            same_unit = other["unit"].casefold() == wanted["unit"].casefold()
            if other[0].casefold() == wanted[0].casefold() or not (same_number or same_unit):
                continue
            strategy = "strengthen" if same_number and same_unit else "set-number"
            strategy = strategy if same_unit else "set-unit"
            new = said[: other.start()] + _cased(wanted[0], other[0]) + said[other.end() :]
            edits.append((strategy, text.with_content(index, replace(tree, node, new))))
    return edits


def _is_about(
    tree: Tree, node: Node, found: re.Match[str], advice: str, wanted: re.Match[str]
) -> bool:
    """Whether a measure is of what the advice is about: its field, or nothing else."""
    entry = next(
        (one for one in reversed(tree.path(node)) if one.kind in {"entry", "sentence"}), node
    )
    field = _FIELD.search(advice)
    if field:
        return bool(re.search(rf"\b{re.escape(field[1])}\b", tree.text[entry.start : node.end]))
    said = tree.of(node)
    rest = content_words(said[: found.start()] + " " + said[found.end() :])
    about = content_words(advice[: wanted.start()] + " " + advice[wanted.end() :])
    label = tree.text[entry.start : node.start] if node.kind == "clause" else ""
    rest |= content_words(label)
    return 2 * len(rest & about) >= len(rest)


def _cased(measure: str, like: str) -> str:
    return (
        measure[0].upper() + measure[1:] if like[0].isupper() else measure[0].lower() + measure[1:]
    )


def _added(text: PromptText, advice: str) -> list[PromptText]:
    """The prompt with the advice at the end of sections, the nearest in its words first."""
    wanted = content_words(advice)
    ranked = sorted(homes(text), key=lambda home: -len(home.words & wanted))
    steps = [step for home in ranked[:1] for step in steps_for(text, home, advice)]
    places = [*ranked[:1], *steps, *ranked[1:]]
    return [with_rule(text, home, advice) for home in places[:_HOMES_MAX]]


def _edit(text: PromptText, after: PromptText, strategy: str, cluster: Cluster) -> Edit:
    why = f"{cluster.check} failed {cluster.failures} of {cluster.trials} trials"
    edit = Edit(ops=(), strategy=strategy, proposer="rules", rationale=why)
    return edit_between(edit, text, after)
