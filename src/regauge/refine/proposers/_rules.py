"""Edits without a model: what a check wants is put where the prompt says otherwise, or added."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.refine.edits import (
    Delete,
    Edit,
    EditError,
    Insert,
    Replace,
    anchor_of,
    apply,
    content_words,
    lead_of,
    plain,
    rivals,
    second_places,
    statements,
    written_like,
)
from regauge.refine.proposers._earlier import lost_blocks
from regauge.refine.proposers._problem import Ideas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.refine.edits import Line, Op, PromptText, Statement
    from regauge.refine.evidence import Check, Cluster
    from regauge.refine.loop import Critique
    from regauge.refine.memory import Tried
    from regauge.refine.proposers._problem import Ask, Problem

__all__ = ["RuleProposer", "propose_by_rules"]

_REPLACED_MAX = 2
_HOMES_MAX = 3
_RESTORED_MAX = 4
_MEASURE = re.compile(
    r"(?:\b(?:at most|at least|exactly|no more than|not more than|up to|under|about|around|roughly"
    r"|approximately|ideally|more than|fewer than|less than)\s+)?\b(?P<n>\d+)\s+"
    r"(?P<unit>words|characters|sentences|lines|paragraphs|bullets|tokens)\b",
    re.IGNORECASE,
)
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
    present = [one for one in statements(text) if _says(one, advice)]
    if present:
        return (*edits, *second_places(text, present[0], others))
    edits += _reworded(text, advice, cluster)
    edits += [
        _edit(one.instead(advice), strategy, cluster)
        for one, strategy in rivals(text, advice, others)
    ]
    edits += [
        _edit(Insert(anchor_of(home), written_like(advice, home, below=True)), "add-rule", cluster)
        for home in _homes(text, advice)
    ]
    return tuple(edits)


def _says(one: Statement, advice: str) -> bool:
    """Whether a statement is what a check wants, word for word."""
    return plain(one.text).rstrip(".") == plain(advice).rstrip(".")


def _taken_out(problem: Problem) -> list[Edit]:
    """Without a line, where trials without it passed the check more often."""
    hindering = {plain(sentence) for sentence in problem.hindering}
    return [
        Edit(
            ops=(Delete(anchor_of(line)),),
            strategy="take-out",
            proposer="rules",
            rationale=f"{problem.check.name} passed more often when it was left out",
        )
        for line in problem.text.lines
        if line.text.strip() and plain(line.text) in hindering
    ]


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
    subject = lead_of(advice)
    for line in text.lines:
        if line.kind == "blank" or not named.search(line.text):
            continue
        if subject and lead_of(line.text) not in {"", subject}:
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
            edits.append(_edit(Replace(anchor_of(line), measure[0], said[0]), strategy, cluster))
    return edits[:_REPLACED_MAX]


def _homes(text: PromptText, advice: str) -> list[Line]:
    """The lines to add a rule below: the last ones of sections, the nearest in its words first.

    These are rules; where the prompt has none they are other lines that say something.
    """
    wanted = content_words(advice)
    has_rules = any(line.kind == "rule" for line in text.lines)
    sections: dict[tuple[int, str], list[Line]] = {}
    for line in text.lines:
        if line.kind == ("rule" if has_rules else "text") and (has_rules or _tells(line)):
            sections.setdefault((line.message, line.section), []).append(line)

    def near(lines: list[Line]) -> float:
        words = content_words(" ".join([lines[0].section, *(line.text for line in lines)]))
        return len(words & wanted) / len(wanted) if wanted else 0.0

    ranked = sorted(sections.values(), key=near, reverse=True)
    return [lines[-1] for lines in ranked[:_HOMES_MAX]]


def _tells(line: Line) -> bool:
    """Whether a line says something, and does not only mark a place or take an input."""
    return "{{" not in line.text and len(content_words(line.text)) > 1


def _edit(op: Op, strategy: str, cluster: Cluster) -> Edit:
    return Edit(
        ops=(op,),
        strategy=strategy,
        proposer="rules",
        rationale=f"{cluster.check} failed {cluster.failures} of {cluster.trials} trials",
    )
