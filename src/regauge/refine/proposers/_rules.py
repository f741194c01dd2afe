"""Edits without a model: what a release said, a number as a check wants it, a rule that is missing.

A statement is replaced only where trials without it showed that it causes the failure, or where it
is the same statement with another number. Otherwise the edit adds.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from regauge.refine.changes import edit_between, homes, says, statement_words, steps_for, with_rule
from regauge.refine.edits import Anchor, Delete, Edit, EditError, Insert, PromptText, Replace, apply
from regauge.refine.proposers._protocol import Ideas
from regauge.statements import content_words, delete, is_negated, normalise, parse, replace, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.refine.analysis import Check, Cluster
    from regauge.refine.attempts import Tried
    from regauge.refine.edits import Line, Op
    from regauge.refine.loop._state import Critique
    from regauge.refine.proposers._protocol import Ask, Problem
    from regauge.statements import Node, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """One place where an earlier version differs.

    Attributes:
        below: The line of the prompt that the place is below; None at its beginning.
        instead: What the prompt says there now, and the version did not; may be nothing.
        lines: What the version said there; may be nothing. Blank lines among them are kept.
        apart: Whether a blank line stood before it.
    """

    below: Line | None
    instead: tuple[Line, ...]
    lines: tuple[str, ...]
    apart: bool = False

    @property
    def text(self) -> str:
        """All that the place is about."""
        return "\n".join((*self.lines, *(line.text for line in self.instead)))

    def ops(self) -> list[tuple[Op, ...]]:
        """Edits that bring the earlier wording back: the smallest that make sense each alone."""
        if not self.instead:
            return [(self._inserted(self.lines),)] if self.below is not None else []
        said = [line for line in self.lines if line.strip()]
        if len(said) == len(self.instead):
            return [
                (Replace(_anchor(now), was),) for now, was in zip(self.instead, said, strict=True)
            ]
        if not said:
            return [(Delete(_anchor(line)),) for line in self.instead]
        first, *rest = self.instead
        return [
            (
                Replace(_anchor(first), "\n".join(self.lines)),
                *(Delete(_anchor(line)) for line in rest),
            )
        ]

    def _inserted(self, lines: Sequence[str]) -> Op:
        assert self.below is not None
        return Insert(_anchor(self.below), "\n".join((*([""] if self.apart else []), *lines)))


def lost_blocks(text: PromptText, version: str) -> list[Lost]:
    """The places where a version differs, in the order of the prompt.

    Blank lines are no difference; those within what was lost come back with it.

    Args:
        text: The prompt.
        version: The messages of the earlier version, one after the other.
    """
    raw = version.split("\n")
    old = [n for n, line in enumerate(raw) if line.strip()]
    now = [line for line in text.lines if line.kind != "blank"]
    matcher = difflib.SequenceMatcher(
        a=[" ".join(raw[n].split()) for n in old],
        b=[" ".join(line.text.split()) for line in now],
        autojunk=False,
    )
    found: list[Lost] = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        lines = raw[old[a_from] : old[a_to - 1] + 1] if a_to > a_from else []
        found.append(
            Lost(
                below=now[b_from - 1] if b_from else None,
                instead=tuple(now[b_from:b_to]),
                lines=tuple(lines),
                apart=a_to > a_from > 0 and old[a_from] - old[a_from - 1] > 1,
            )
        )
    return found


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)


_REPLACED_MAX = 2
_HOMES_MAX = 3
_RESTORED_MAX = 4
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
        edits = propose_by_rules(
            problem.text, problem.cluster, problem.checks, problem.released, problem.lessons
        )
        return Ideas(edits=(*_taken_out(problem), *edits))


def propose_by_rules(
    text: PromptText,
    cluster: Cluster,
    checks: Mapping[str, Check],
    released: Sequence[str] = (),
    tried: Sequence[Tried] = (),
) -> tuple[Edit, ...]:
    """Edits that would make the prompt say what a check wants.

    In this order: put back what an earlier release said, that on the check's subject first; say a
    number as the check wants it ("about 80 words" becomes "at most 80 words"); add the check's
    advice to the section it belongs to. As long as there is an earlier wording on the check's
    subject that was not tried, nothing else is proposed: it worked once.

    Args:
        text: The prompt.
        cluster: What fails.
        checks: By name, with their advice.
        released: Texts of earlier versions of the prompt, the newest first.
        tried: What was tried for the same failures.
    """
    check = checks.get(cluster.check)
    advice = check.advice.strip() if check else ""
    edits = _restored(text, check, released) if check else []
    known = {entry.after for entry in tried}
    about = _subject(check) if check else frozenset[str]()
    if not advice or any(
        about & content_words(_said(edit)) and _result(text, edit) not in known for edit in edits
    ):
        return tuple(edits)
    if not says(text, advice):
        edits += [
            _edit(text, there, strategy, cluster)
            for strategy, there in (*_same_sentence(text, advice), *_reworded(text, advice))
        ][:_REPLACED_MAX]
        edits += [_edit(text, there, "add-rule", cluster) for there in _added(text, advice)]
    return tuple(edits)


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


def _subject(check: Check) -> frozenset[str]:
    return content_words(f"{check.name} {check.advice} {check.description}")


def _said(edit: Edit) -> str:
    """Everything an edit is about: what it brings and what it takes."""
    return "\n".join(
        (edit.added, *(op.anchor.line for op in edit.ops if not isinstance(op, Insert)))
    )


def _result(text: PromptText, edit: Edit) -> str:
    try:
        return apply(text, edit.ops).shape
    except EditError:
        return ""


def _restored(text: PromptText, check: Check, released: Sequence[str]) -> list[Edit]:
    """What earlier releases said and the prompt does not, that on the check's subject first."""
    about = _subject(check)
    found: dict[tuple[Op, ...], float] = {}
    for version in released:
        for lost in lost_blocks(text, version):
            words = content_words(lost.text)
            for ops in lost.ops():
                found.setdefault(ops, len(about & words) / len(about) if about else 0.0)
    ranked = sorted(found, key=lambda ops: -found[ops])
    return [
        Edit(
            ops=ops,
            strategy="restore",
            proposer="rules",
            rationale=f"an earlier release said this, and {check.name} passed then",
        )
        for ops in ranked[:_RESTORED_MAX]
    ]


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
