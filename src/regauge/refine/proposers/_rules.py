"""Edits without a model: what a check wants is put where the prompt says otherwise, or added."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.refine._edits import Anchor, Delete, Edit, EditError, Insert, Replace, apply
from regauge.refine._text import content_words
from regauge.refine.proposers._earlier import lost_blocks
from regauge.refine.proposers._problem import Ideas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.refine._clusters import Check, Cluster
    from regauge.refine._edits import Op
    from regauge.refine._memory import Tried
    from regauge.refine._state import Critique
    from regauge.refine._text import Line, PromptText
    from regauge.refine.proposers._problem import Ask, Problem

__all__ = ["RuleProposer", "propose_by_rules"]

_REPLACED_MAX = 2
_HOMES_MAX = 3
_STRANGE_MAX = 2
_GARBLED = 0.85
_RESTORED_MAX = 4
_MEASURE = re.compile(
    r"(?:\b(?:at most|at least|exactly|no more than|not more than|up to|under|about|around|roughly"
    r"|approximately|ideally|more than|fewer than|less than)\s+)?\b(?P<n>\d+)\s+"
    r"(?P<unit>words|characters|sentences|lines|paragraphs|bullets|tokens)\b",
    re.IGNORECASE,
)
_FIELD = re.compile(r"`([^`]+)`")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")


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
        """As `propose_by_rules`."""
        del ask
        edits = propose_by_rules(
            problem.text, problem.cluster, problem.checks, problem.released, problem.lessons
        )
        return Ideas(edits=edits)


def propose_by_rules(
    text: PromptText,
    cluster: Cluster,
    checks: Mapping[str, Check],
    released: Sequence[str] = (),
    tried: Sequence[Tried] = (),
) -> tuple[Edit, ...]:
    """Edits that would make the prompt say what a check wants.

    In this order: put back what an earlier release said, that on the check's subject first; say a
    number as the check wants it ("about 80 words" becomes "at most 80 words"); replace a line that
    is garbled or says something else on the same subject; add the check's advice to the section
    it belongs to; where the prompt says it already, say it last. As long as there is an earlier
    wording on the check's subject that was not tried, nothing else is proposed: it worked once.

    Args:
        text: The prompt.
        cluster: What fails.
        checks: By name, with their advice.
        released: Texts of earlier versions of the prompt, the newest first.
        tried: What was tried for the same failures.
    """
    check = checks.get(cluster.check)
    advice = check.advice.strip() if check else ""
    others = [other.advice for name, other in checks.items() if name != cluster.check]
    edits = _restored(text, check, released) if check else []
    known = {entry.after for entry in tried}
    about = _subject(check) if check else frozenset[str]()
    if not advice or any(
        about & content_words(_said(edit)) and _result(text, edit) not in known for edit in edits
    ):
        return tuple(edits)
    rule = advice if _BULLET.match(advice) else f"- {advice}"
    present = [line for line in text.lines if _plain(line.text) == _plain(advice)]
    if present:
        return (*edits, *_unopposed(text, advice, others, cluster), *_moved(text, present[0]))
    edits += _reworded(text, advice, cluster)
    edits += [
        _edit(Replace(_anchor(line), _indented(rule, line)), strategy, cluster)
        for line, strategy in _rivals(text, advice, others)
    ]
    edits += [
        _edit(Insert(_anchor(home), _indented(rule, home)), "add-rule", cluster)
        for home in _homes(text, advice)
    ]
    return tuple(edits)


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


def _reworded(text: PromptText, advice: str, cluster: Cluster) -> list[Edit]:
    """Lines that speak of the same measure with another number, or half-heartedly."""
    measure = _MEASURE.search(advice)
    if measure is None:
        return []
    field = _FIELD.search(advice)
    named = re.compile(rf"\b{re.escape(field[1])}\b") if field else re.compile("")
    edits: list[Edit] = []
    for line in text.lines:
        if line.kind == "blank" or not named.search(line.text):
            continue
        for said in _MEASURE.finditer(line.text):
            if (
                said["unit"].casefold() != measure["unit"].casefold()
                or line.text.count(said[0]) > 1
            ):
                continue
            if said[0].casefold() == measure[0].casefold():
                continue
            strategy = "strengthen" if said["n"] == measure["n"] else "set-number"
            edits.append(_edit(Replace(_anchor(line), measure[0], said[0]), strategy, cluster))
    return edits[:_REPLACED_MAX]


def _rivals(text: PromptText, advice: str, others: Sequence[str]) -> list[tuple[Line, str]]:
    """Lines that stand where the advice should, the likeliest first."""
    theirs = {_plain(other) for other in others}
    wanted = content_words(advice)
    found: list[tuple[float, int, Line, str]] = []
    for position, line in enumerate(text.lines):
        if line.kind not in {"rule", "text"} or _plain(line.text) in theirs:
            continue
        if "{{" in line.text or len(line.text.split()) < 2:  # noqa: PLR2004 - one word is no rule
            continue
        garbled = _same_letters(line.text, advice)
        if garbled >= _GARBLED:
            found.append((-1.0 - garbled, position, line, "replace-garbled"))
            continue
        said = content_words(line.text)
        shared = len(said & wanted)
        # A line that says more of what another check wants belongs to that one.
        rival = max((len(said & content_words(other)) for other in others), default=0)
        if shared and shared >= rival:
            found.append((-shared / len(said | wanted), position, line, "replace-contradiction"))
    found.sort(key=lambda entry: entry[:2])
    return [(line, strategy) for _, _, line, strategy in found[:_REPLACED_MAX]]


def _unopposed(
    text: PromptText, advice: str, others: Sequence[str], cluster: Cluster
) -> list[Edit]:
    """Without one line that may speak against a rule which is there and not followed.

    Lines on the same subject come first, then such as no check speaks of.
    """
    alike = [
        line for line, _ in _rivals(text, advice, others) if _plain(line.text) != _plain(advice)
    ]
    strange = [
        line
        for line in text.lines
        if line.kind == "rule" and line not in alike and not _is_spoken_of(line, (advice, *others))
    ]
    return [
        _edit(Delete(_anchor(line)), "take-out", cluster)
        for line in (*alike, *strange[-_STRANGE_MAX:])
    ]


def _is_spoken_of(line: Line, advices: Sequence[str]) -> bool:
    """Whether a check wants what a line says, as far as their words tell."""
    said = content_words(line.text)
    return any(3 * len(said & content_words(advice)) > len(said) for advice in advices)


def _homes(text: PromptText, advice: str) -> list[Line]:
    """The lines to add a rule below: the last rules of sections, the nearest in its words first."""
    wanted = content_words(advice)
    sections: dict[tuple[int, str], list[Line]] = {}
    for line in text.lines:
        if line.kind == "rule":
            sections.setdefault((line.message, line.section), []).append(line)
    if not sections:
        plain = [line for line in text.lines if line.kind == "text" and "{{" not in line.text]
        return plain[-1:]

    def near(lines: list[Line]) -> float:
        words = content_words(" ".join([lines[0].section, *(line.text for line in lines)]))
        return len(words & wanted) / len(wanted) if wanted else 0.0

    ranked = sorted(sections.values(), key=near, reverse=True)
    return [lines[-1] for lines in ranked[:_HOMES_MAX]]


def _moved(text: PromptText, line: Line) -> list[Edit]:
    """The same rule in another place: last of all rules, which is followed most, or elsewhere."""
    rules = [other for other in text.lines if other.kind == "rule"]
    ends = {(other.message, other.section): other for other in rules}
    places = [rules[-1], *ends.values()] if rules else []
    return [
        Edit(
            ops=(Delete(_anchor(line)), Insert(_anchor(place), line.text)),
            strategy="move-last" if place == rules[-1] else "move",
            proposer="rules",
            rationale="where a rule stands decides how well it is followed",
        )
        for place in dict.fromkeys(places)
        if place != line
    ][:_HOMES_MAX]


def _edit(op: Op, strategy: str, cluster: Cluster) -> Edit:
    return Edit(
        ops=(op,),
        strategy=strategy,
        proposer="rules",
        rationale=f"{cluster.check} failed {cluster.failures} of {cluster.trials} trials",
    )


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)


def _indented(rule: str, line: Line) -> str:
    return line.text[: len(line.text) - len(line.text.lstrip())] + rule


def _plain(text: str) -> str:
    return " ".join(_BULLET.sub("", text, count=1).casefold().split())


def _same_letters(one: str, other: str) -> float:
    """How nearly two texts are made of the same letters, from 0 to 1, where their words differ."""
    if content_words(one) & content_words(other):
        return 0.0
    mine, its = Counter(_plain(one).replace(" ", "")), Counter(_plain(other).replace(" ", ""))
    return 2 * (mine & its).total() / max(1, mine.total() + its.total())
