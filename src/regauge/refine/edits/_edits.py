"""Edits: a few operations with one purpose. An anchor that is not met is an error.

All anchors of an edit are looked up in the text before the edit, so its operations have no order
among each other.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.digests import JSON, digest_of
from regauge.prompts import Message, SectionError, section_below
from regauge.refine.edits._ops import (
    Anchor,
    Delete,
    EditError,
    Insert,
    Op,
    Replace,
    ReplaceSection,
    op_from_json,
    op_to_json,
)
from regauge.refine.edits._text import PromptText
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.prompts import Section

__all__ = [
    "Edit",
    "apply",
    "inverse",
    "near_duplicates",
    "ops_between",
    "section_at",
    "section_text",
]

_NEAR = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A small revision: up to three operations with one purpose.

    Attributes:
        ops: What changes.
        strategy: How it was thought of, such as `add-rule` or `restore`.
        proposer: Who thought of it: `rules`, `examples` or `model:<id>`.
        rationale: Why, in a sentence; it never enters the prompt.
    """

    ops: tuple[Op, ...]
    strategy: str
    proposer: str
    rationale: str = ""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest_of([op_to_json(op) for op in self.ops]))

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for the audit trail."""
        return {
            "ops": [op_to_json(op) for op in self.ops],
            "strategy": self.strategy,
            "proposer": self.proposer,
            "rationale": self.rationale,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> Edit:
        """The edit that `to_json` wrote.

        Raises:
            EditError: The document is no edit.
        """
        ops = document.get("ops")
        if not isinstance(ops, list) or not ops:
            raise EditError("an edit has a list `ops` with at least one operation")
        return cls(
            ops=tuple(op_from_json(op, blank=True) for op in ops),
            strategy=str(document.get("strategy", "")),
            proposer=str(document.get("proposer", "")),
            rationale=str(document.get("rationale", "")),
        )

    @property
    def added(self) -> str:
        """The text it brings in, line by line."""
        return "\n".join(op.text for op in self.ops if not isinstance(op, Delete))


def apply(text: PromptText, ops: Sequence[Op]) -> PromptText:
    r"""The text with all operations carried out.

    >>> text = PromptText.of("Rules:\n- Be brief.")
    >>> apply(text, [Insert(Anchor("- Be brief."), "- Answer in JSON.")]).whole
    'Rules:\n- Be brief.\n- Answer in JSON.'

    Raises:
        EditError: An anchor is missing or stands more than once, two operations change the same
            line, or a section is replaced beside them.
    """
    if any(isinstance(op, ReplaceSection) for op in ops):
        return _with_section(text, ops)
    before: dict[tuple[int, int], list[str]] = defaultdict(list)
    after: dict[tuple[int, int], list[str]] = defaultdict(list)
    instead: dict[tuple[int, int], list[str]] = {}
    for op in ops:
        place = _place(text, op.anchor)
        if isinstance(op, Insert):
            (after if op.where == "after" else before)[place] += op.text.split("\n")
            continue
        if place in instead:
            raise EditError(f"two operations change the line {op.anchor.line!r}")
        instead[place] = _replaced(text, place, op) if isinstance(op, Replace) else []
    contents: list[list[str]] = [[] for _ in text.messages]
    for line in text.lines:
        place = (line.message, line.number)
        contents[line.message] += before.get(place, [])
        contents[line.message] += instead.get(place, [line.text])
        contents[line.message] += after.get(place, [])
    return PromptText(
        messages=tuple(
            Message(role=message.role, content="\n".join(lines))
            for message, lines in zip(text.messages, contents, strict=True)
        )
    )


def inverse(text: PromptText, ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations that lead back from `apply(text, ops)` to `text`."""
    if len(ops) == 1 and isinstance(op := ops[0], ReplaceSection):
        apply(text, ops)
        index, place = section_at(text, op.anchor)
        return (ReplaceSection(op.anchor, section_text(text, index, place)),)
    return ops_between(apply(text, ops), text)


def ops_between(before: PromptText, after: PromptText) -> tuple[Op, ...]:
    """Operations, each on one line, that make `after` of `before`.

    Raises:
        EditError: The texts have other messages.
    """
    if [m.role for m in before.messages] != [m.role for m in after.messages]:
        raise EditError("messages were added, removed or given another role")
    return tuple(
        op
        for index in range(len(before.messages))
        for op in _message_ops(
            index,
            before.messages[index].content.split("\n"),
            after.messages[index].content.split("\n"),
        )
    )


def near_duplicates(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two edits bring in and take out nearly the same words.

    Args:
        one: The texts an edit adds, and those it removes.
        other: Of another edit.

    >>> near_duplicates(["- Answer in JSON only.", ""], ["- Only answer in JSON!", ""])
    True
    """
    return all(_alike(mine, its) for mine, its in zip(one, other, strict=True))


def section_at(text: PromptText, anchor: Anchor) -> tuple[int, Section]:
    """The message that holds the section which a line begins, and its place in there.

    Raises:
        SectionError: No line begins it, or several do.
    """
    found: list[tuple[int, Section]] = []
    why = SectionError(f"no line of the prompt begins a section with {anchor.line!r}")
    for index, message in enumerate(text.messages):
        if anchor.message not in {None, index}:
            continue
        if all(line.strip() != anchor.line.strip() for line in message.content.split("\n")):
            continue
        try:
            found.append((index, section_below(message.content, anchor.line)))
        except SectionError as error:
            why = error
    if len(found) > 1:
        raise SectionError(f"{len(found)} messages have a section {anchor.line!r}")
    if not found:
        raise why
    return found[0]


def section_text(text: PromptText, index: int, place: Section) -> str:
    """What a section says, without its heading or tags and without blank lines around it."""
    return "\n".join(text.messages[index].content.split("\n")[place.first : place.end])


def _with_section(text: PromptText, ops: Sequence[Op]) -> PromptText:
    """The text with another section below the same heading or between the same tags."""
    op, *others = ops
    if others or not isinstance(op, ReplaceSection):
        raise EditError("a section is replaced by an edit that does nothing else")
    try:
        index, place = section_at(text, op.anchor)
        lines = text.messages[index].content.split("\n")
        lines[place.first : place.end] = op.text.split("\n")
        after = text.with_content(index, "\n".join(lines))
    except SectionError as error:
        raise EditError(str(error)) from error
    try:
        kept = section_text(after, *section_at(after, op.anchor)) == op.text
    except SectionError:
        kept = False
    fences = [line for line in op.text.split("\n") if line.lstrip().startswith(("```", "~~~"))]
    # A code block that is not closed takes in what follows.
    if not kept or len(fences) % 2:
        raise EditError(f"the new text of {op.anchor.line!r} would not stay inside the section")
    return after


def _place(text: PromptText, anchor: Anchor) -> tuple[int, int]:
    """Which line an anchor means: by its whole text, else by its text without space around it."""
    lines = [
        line for line in text.lines if anchor.message is None or line.message == anchor.message
    ]
    found = [line for line in lines if line.text == anchor.line]
    if not found and anchor.line.strip():
        wanted = anchor.line.strip()
        found = [line for line in lines if line.text.strip() == wanted]
    if not found:
        raise EditError(f"no line of the prompt says {anchor.line!r}")
    if anchor.occurrence is not None:
        if not 0 <= anchor.occurrence < len(found):
            raise EditError(f"there is no occurrence {anchor.occurrence} of {anchor.line!r}")
        found = [found[anchor.occurrence]]
    if len(found) > 1:
        raise EditError(f"{len(found)} lines of the prompt say {anchor.line!r}")
    return found[0].message, found[0].number


def _replaced(text: PromptText, place: tuple[int, int], op: Replace) -> list[str]:
    old = next(line.text for line in text.lines if (line.message, line.number) == place)
    if not op.find:
        return op.text.split("\n")
    if old.count(op.find) != 1:
        raise EditError(f"{op.find!r} stands {old.count(op.find)} times in {old!r}, not once")
    return old.replace(op.find, op.text).split("\n")


def _message_ops(index: int, old: list[str], new: list[str]) -> list[Op]:
    occurrences: list[int] = []
    met: dict[str, int] = {}
    for text in old:
        occurrences.append(met.get(text, 0))
        met[text] = met.get(text, 0) + 1

    def anchor(at: int) -> Anchor:
        # Blank lines are met by their white space too, so their place among all blanks is unsure.
        return Anchor(old[at], occurrences[at], index)

    ops: list[Op] = []
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        shared = min(a_to - a_from, b_to - b_from)
        ops += [Replace(anchor(a_from + n), new[b_from + n]) for n in range(shared)]
        ops += [Delete(anchor(at)) for at in range(a_from + shared, a_to)]
        more = new[b_from + shared : b_to]
        if more and a_from + shared > 0:
            ops += [Insert(anchor(a_from + shared - 1), text, "after") for text in more]
        else:
            ops += [Insert(anchor(0), text, "before") for text in more]
    return ops


def _alike(one: str, other: str) -> bool:
    mine, its = content_words(one), content_words(other)
    if not mine and not its:
        return True
    return len(mine & its) >= _NEAR * len(mine | its)
