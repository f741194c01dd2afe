"""What a line says, statement by statement: its sentences, their clauses, the entries of a list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

from regauge.refine.edits._ops import Anchor, Delete, Replace

if TYPE_CHECKING:
    from regauge.refine.edits._text import Line, PromptText

__all__ = [
    "Statement",
    "lead_of",
    "one_by_one",
    "pieces",
    "said_in",
    "statements",
    "statements_of",
    "written_like",
]

_MARKER = re.compile(r"(?P<space>\s*)(?P<mark>(?:[-*+•]|(?P<number>\d+)(?P<dot>[.)]))\s+)?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'`(\[]?[A-Z])")
_JOINT = re.compile(r"(?:,\s+(?:and also|and|but|while|whereas)|;)\s+")
_BEFORE = re.compile(f"(?:{_JOINT.pattern}|,\\s+)$")
_AFTER = re.compile(f"{_JOINT.pattern}|,\\s+|\\s+")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_ENDS = frozenset(".!?")
_LEAD = re.compile(r"[\w`][\w` /-]{0,30}:\s+(?=[^\s:][^:]*$)")
_ENTRY = re.compile(r",\s+")
# A joint between fewer words joins the entries of an enumeration, and not two clauses.
_CLAUSE_WORDS = 3
# An entry of more words is a clause that happens to have a comma.
_ENTRY_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a line says.

    Attributes:
        start: Where the words begin that say it, in the line; `end` where they end.
        lead: What the line says of all its statements, such as `subject:`.
    """

    line: Line
    start: int
    end: int
    lead: str = ""

    @property
    def part(self) -> str:
        """The words of the line that say it."""
        return self.line.text[self.start : self.end]

    @property
    def text(self) -> str:
        """What it says, to be understood without the line."""
        return self.lead + self.part if self.is_part else self.line.text

    @classmethod
    def whole(cls, line: Line) -> Statement:
        """All that a line says."""
        return cls(line=line, start=0, end=len(line.text))

    @property
    def is_part(self) -> bool:
        """Whether the line says other things as well."""
        return self.end - self.start < len(self.line.text)

    def instead(self, rule: str) -> Replace:
        """A rule in its place, written as it was."""
        line = self.line
        if not self.is_part:
            return Replace(_anchor(line), written_like(rule, line))
        said = _unmarked(rule)
        if self.lead and said.casefold().startswith(self.lead.casefold().strip()):
            said = said[len(self.lead.strip()) :].lstrip()
        if self.part[-1] not in _ENDS:
            said = said.removesuffix(".")
        if self.part[0].islower() and said[1:2].islower():
            said = said[0].lower() + said[1:]
        return Replace(_anchor(line), line.text[: self.start] + said + line.text[self.end :])

    def left_out(self) -> Delete | Replace:
        """The line without it."""
        if not self.is_part:
            return Delete(_anchor(self.line))
        before, after = self.line.text[: self.start], self.line.text[self.end :]
        joint = _BEFORE.search(before)
        if joint is not None:
            return Replace(_anchor(self.line), before[: joint.start()] + after)
        joint = _AFTER.match(after)
        rest = after[joint.end() :] if joint is not None else after
        if self.part[:1].isupper() and not self.lead:
            rest = rest[:1].upper() + rest[1:]
        return Replace(_anchor(self.line), (before + rest).rstrip())


def statements(text: PromptText) -> list[Statement]:
    """Everything that the rules and sentences of a prompt say, in order.

    >>> from regauge.refine.edits import PromptText
    >>> [one.text for one in statements(PromptText.of("Be brief. Say no more."))]
    ['Be brief.', 'Say no more.']
    >>> [one.text for one in statements(PromptText.of("body: short, plain"))]
    ['body: short', 'body: plain']
    """
    lines = (line for line in text.lines if line.kind in {"rule", "text"})
    return [one for line in lines for one in statements_of(line)]


def statements_of(line: Line) -> list[Statement]:
    """Everything that a line says."""
    return [
        Statement(line=line, start=start, end=end, lead=lead)
        for start, end, lead in _spans(line.text)
    ] or [Statement.whole(line)]


def said_in(line: str) -> tuple[str, ...]:
    """What a line says; the line itself where that is one thing."""
    return tuple(lead + line[start:end] for start, end, lead in _spans(line)) or (line,)


def lead_of(rule: str) -> str:
    """What a rule begins with that a line says of all its entries; empty where there is nothing.

    >>> lead_of("- subject: no full stop")
    'subject: '
    """
    found = _LEAD.match(rule, _after_marker(rule))
    return found[0] if found else ""


def pieces(text: str) -> list[str]:
    """A text in lines, and lines that say several things in statements; together they are it."""
    return [piece for line in _LINES.findall(text) for piece in _pieces(line)]


def one_by_one(op: Replace) -> list[Replace]:
    """The changes to a line that says several things, each alone, but for what is only left out.

    Empty when nothing but omissions is changed; the operation itself where there is one change.
    """
    if op.find or "\n" in op.text:
        return [op]
    line = op.anchor.line
    (head, old), (lead, new) = _chunks(line), _chunks(op.text)
    if max(len(old), len(new)) < 2 or head != lead:  # noqa: PLR2004 - one is not taken apart
        return [op]
    is_list = any(_entries(text, _after_marker(text), len(text)) for text in (line, op.text))
    matched = SequenceMatcher(None, [_key(c) for c in old], [_key(c) for c in new], autojunk=False)
    made: dict[str, None] = {}
    for tag, a, b, c, d in matched.get_opcodes():
        together = [new[c:d]] if tag == "replace" else []
        alone = [[chunk] for chunk in new[c:d]] if tag in {"insert", "replace"} else []
        for chunks in (*together, *alone):
            said = head + _joined([*old[:a], *chunks, *old[b:]], is_list=is_list)
            ends = line.rstrip()[-1:]
            made[said if said[-1] in _ENDS or ends not in _ENDS else said + ends] = None
    return [Replace(op.anchor, text) for text in made]


def written_like(rule: str, line: Line, *, below: bool = False) -> str:
    """A rule as another line is written: as far in, with its bullet or number, or with none.

    Args:
        rule: What is to be said.
        line: The other line.
        below: Whether it comes below that line, and so gets the number after its.
    """
    marker = _MARKER.match(line.text)
    assert marker is not None
    mark = marker["mark"] or ""
    if below and marker["number"]:
        mark = mark.replace(marker["number"], str(int(marker["number"]) + 1), 1)
    return marker["space"] + mark + _unmarked(rule)


def _unmarked(rule: str) -> str:
    return rule[_after_marker(rule) :].strip()


def _after_marker(text: str) -> int:
    marker = _MARKER.match(text)
    assert marker is not None
    return marker.end()


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Where the statements of a line stand, with their lead; none where it makes only one."""
    start, end = _after_marker(text), len(text.rstrip())
    entries = _entries(text, start, end)
    if entries:
        return entries
    found: list[tuple[int, int, str]] = []
    for first, last in _split(_SENTENCE, text, start, end):
        body = last - (text[last - 1 : last] in _ENDS)
        clauses = _split(_JOINT, text, first, body)
        if len(clauses) > 1 and all(len(text[a:b].split()) >= _CLAUSE_WORDS for a, b in clauses):
            found += [(a, b, "") for a, b in clauses]
        else:
            found.append((first, last, ""))
    return found if len(found) > 1 else []


def _entries(text: str, start: int, end: int) -> list[tuple[int, int, str]]:
    lead = _LEAD.match(text, start)
    if lead is None or _SENTENCE.search(text, lead.end(), end):
        return []
    end -= text[end - 1] == "."
    found = _split(_ENTRY, text, lead.end(), end)
    short = all(len(text[a:b].split()) <= _ENTRY_WORDS for a, b in found)
    return [(a, b, lead[0]) for a, b in found] if len(found) > 1 and short else []


def _split(at: re.Pattern[str], text: str, start: int, end: int) -> list[tuple[int, int]]:
    cuts = [(match.start(), match.end()) for match in at.finditer(text, start, end)]
    starts, ends = [start, *(b for _, b in cuts)], [*(a for a, _ in cuts), end]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


def _chunks(text: str) -> tuple[str, list[str]]:
    """What a line begins with, and each statement with what stands between it and the last."""
    spans = _spans(text) or [(_after_marker(text), len(text.rstrip()), "")]
    starts = spans[0][0]
    ends = [starts, *(end for _, end, _ in spans)]
    return text[:starts], [text[a:b] for a, b in pairwise(ends)]


def _pieces(line: str) -> list[str]:
    head, chunks = _chunks(line)
    if len(chunks) == 1:
        return [line]
    said = head + "".join(chunks)
    return [head + chunks[0], *chunks[1:], line[len(said) :]]


def _key(chunk: str) -> str:
    """A piece without how it is joined to the others."""
    said = _JOINT.sub("", chunk, count=1) if _JOINT.match(chunk) else chunk
    return " ".join(said.casefold().strip(" ,.;").split())


def _joined(chunks: list[str], *, is_list: bool) -> str:
    """Statements in one line: entries with commas, sentences with full stops between them."""
    text = chunks[0].lstrip(" .,;")
    for chunk in chunks[1:]:
        begins = chunk.lstrip(".")
        if begins[:1] in {",", ";"} or is_list:
            joint = "" if begins[:1] in {",", ";"} else ", "
            text = text.rstrip(".") + joint + begins
        else:
            text += ("" if not text or text[-1] in _ENDS else ".") + " " + begins.lstrip()
    return text
