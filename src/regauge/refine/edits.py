"""Prompts as lines, and edits of them: a few operations with one purpose.

An anchor that is not met is an error. All anchors of an edit are looked up in the text before the
edit, so its operations have no order among each other.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.digests import JSON, digest_of
from regauge.errors import RegaugeError
from regauge.prompts import Message, Replaceable, SectionError, section_below
from regauge.statements import Tree, content_words, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.prompts import MessageSection

_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of one message.

    Attributes:
        occurrence: How many equal lines stand above it in the same message.
    """

    message: int
    number: int
    text: str
    occurrence: int


@dataclass(frozen=True, kw_only=True)
class PromptText:
    """The messages of a prompt, to be edited line by line."""

    messages: tuple[Message, ...]

    @classmethod
    def of(cls, *contents: str) -> PromptText:
        """A system message, with further messages of the user where there are any."""
        return cls(
            messages=tuple(
                Message(role="user" if index else "system", content=content)
                for index, content in enumerate(contents)
            )
        )

    @cached_property
    def digest(self) -> str:
        """Over every character of it."""
        return digest_of([[message.role, message.content] for message in self.messages])

    @cached_property
    def shape(self) -> str:
        """The digest without regard to white space: what counts as the same text."""
        return digest_of(
            [[message.role, " ".join(message.content.split())] for message in self.messages]
        )

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Every line, in order."""
        found: list[Line] = []
        for index, message in enumerate(self.messages):
            met: Counter[str] = Counter()
            for number, text in enumerate(message.content.split("\n")):
                found.append(Line(message=index, number=number, text=text, occurrence=met[text]))
                met[text] += 1
        return tuple(found)

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The statements of each message."""
        return tuple(parse(message.content) for message in self.messages)

    def with_content(self, index: int, content: str) -> PromptText:
        """The text with another content of one message; white space at its end stays as it was."""
        messages = list(self.messages)
        old = messages[index].content
        content = content.rstrip() + old[len(old.rstrip()) :]
        messages[index] = replace(messages[index], content=content)
        return PromptText(messages=tuple(messages))

    @cached_property
    def size(self) -> int:
        """Words and marks, as a stand-in for tokens."""
        return sum(count_words(message.content) for message in self.messages)

    @property
    def whole(self) -> str:
        """All messages in one text."""
        return "\n".join(message.content for message in self.messages)


def count_words(text: str) -> int:
    """The number of words and marks in a text.

    >>> count_words("at most 3 entries.")
    5
    """
    return len(_WORD_OR_MARK.findall(text))


class EditError(RegaugeError):
    """An edit does not fit the text: its anchor is missing, stands twice, or is taken."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """One line of the text, found by what it says.

    Attributes:
        line: The whole line; white space around it may be left out.
        occurrence: Which of several equal lines, from 0; None where there must be only one.
    """

    line: str
    occurrence: int | None = None
    message: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """New lines after or before the anchor."""

    anchor: Anchor
    text: str
    where: Literal["after", "before"] = "after"


@dataclass(frozen=True, slots=True)
class Replace:
    """Another text for the anchor's line, or for the one place in it that says `find`."""

    anchor: Anchor
    text: str
    find: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """The anchor's line goes."""

    anchor: Anchor


@dataclass(frozen=True, slots=True)
class ReplaceSection:
    """Another text for the whole section that the anchor begins; it comes alone in its edit."""

    anchor: Anchor
    text: str


Op: TypeAlias = Insert | Replace | Delete | ReplaceSection


def op_from_json(document: JSON, *, blank: bool = False) -> Op:
    """One operation, as `to_json` writes it and as a model is asked to.

    Args:
        document: The operation.
        blank: Whether it may be about a blank line, or bring one in, as a rewrite does that was
            taken apart; a model that says nothing means nothing.
    """
    if not isinstance(document, dict):
        raise EditError(f"an operation is a JSON object, not {type(document).__name__}")
    kind, line, text = document.get("op"), document.get("line"), document.get("text", "")
    if not isinstance(line, str) or not (blank or line.strip()) or not isinstance(text, str):
        raise EditError("an operation names the `line` it is about, and a `text` where it adds one")
    occurrence, message = document.get("occurrence"), document.get("message")
    anchor = Anchor(
        line,
        occurrence if type(occurrence) is int else None,
        message if type(message) is int else None,
    )
    match kind:
        case "insert_after" | "insert_before" if text.strip() or blank:
            return Insert(anchor, text, "after" if kind == "insert_after" else "before")
        case "replace" if text.strip() or blank:
            find = document.get("find")
            return Replace(anchor, text, find if isinstance(find, str) else "")
        case "delete":
            return Delete(anchor)
        case "replace_section" if text.strip():
            return ReplaceSection(anchor, _without_blank_ends(text))
        case "insert_after" | "insert_before" | "replace" | "replace_section":
            raise EditError(f"{kind} needs a `text`")
        case _:
            raise EditError(
                f"there is no operation {kind!r}; there are insert_after, insert_before, replace,"
                " delete, replace_section"
            )


def op_to_json(op: Op) -> dict[str, JSON]:
    """The operation as a plain document."""
    kind = f"insert_{op.where}" if isinstance(op, Insert) else kind_of(op)
    document: dict[str, JSON] = {"op": kind, "line": op.anchor.line}
    if op.anchor.occurrence is not None:
        document["occurrence"] = op.anchor.occurrence
    if op.anchor.message is not None:
        document["message"] = op.anchor.message
    if not isinstance(op, Delete):
        document["text"] = op.text
    if isinstance(op, Replace) and op.find:
        document["find"] = op.find
    return document


def kind_of(op: Op) -> str:
    """The kind of an operation in one word: `insert`, `replace`, `delete`, ..."""
    return "replace_section" if isinstance(op, ReplaceSection) else type(op).__name__.lower()


def _without_blank_ends(text: str) -> str:
    """A text without blank lines before and after it; how far its lines are in stays."""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1])


# Of their words; other forms of one word and a changed word in five pass. Lower refuses edits that
# differ in what matters, higher tests one edit twice.
_NEAR = 0.8
REWRITE = "rewrite"
"""The strategy of an edit that was read off a whole new text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A small revision: up to three operations with one purpose.

    Attributes:
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
        """The edit that `to_json` wrote."""
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
            line, or a section is replaced next to them.
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
    for index, lines in enumerate(contents):
        text = text.with_content(index, "\n".join(lines))
    return text


def ops_between(before: PromptText, after: PromptText) -> tuple[Op, ...]:
    """Operations, each on one line, that make `after` of `before`."""
    return tuple(op for block in blocks_between(before, after) for op in block)


def blocks_between(before: PromptText, after: PromptText) -> list[list[Op]]:
    """The same operations, those of neighbouring lines together."""
    if [m.role for m in before.messages] != [m.role for m in after.messages]:
        raise EditError("messages were added, removed or given another role")
    return [
        block
        for index in range(len(before.messages))
        for block in _message_blocks(
            index,
            before.messages[index].content.split("\n"),
            after.messages[index].content.split("\n"),
        )
    ]


def near_duplicates(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether two edits bring in and take out nearly the same words.

    >>> near_duplicates(["- Answer in JSON only.", ""], ["- Only answer in JSON!", ""])
    True
    """
    words = [
        (content_words(mine), content_words(its)) for mine, its in zip(one, other, strict=True)
    ]
    return all(len(mine & its) >= _NEAR * len(mine | its) for mine, its in words)


def section_at(text: PromptText, anchor: Anchor) -> tuple[int, MessageSection]:
    """The message that holds the section which a line begins, and its place in there."""
    if anchor.message is None:
        return Replaceable(section=anchor.line).found_in(text.messages)
    if anchor.message not in range(len(text.messages)):
        raise SectionError(f"the prompt has no message {anchor.message}")
    return anchor.message, section_below(text.messages[anchor.message].content, anchor.line)


def section_text(text: PromptText, index: int, place: MessageSection) -> str:
    """The text of a section without its heading or tags and surrounding blank lines."""
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
    """The line of an anchor: found by its whole text, else by its text without outer space."""
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


def _message_blocks(index: int, old: list[str], new: list[str]) -> Iterator[list[Op]]:
    occurrences = [old[:at].count(text) for at, text in enumerate(old)]

    def anchor(at: int) -> Anchor:
        # Blank lines are met by their white space too, so their place among all blanks is unsure.
        return Anchor(old[at], occurrences[at], index)

    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        shared = min(a_to - a_from, b_to - b_from)
        ops: list[Op] = [Replace(anchor(a_from + n), new[b_from + n]) for n in range(shared)]
        ops += [Delete(anchor(at)) for at in range(a_from + shared, a_to)]
        more = new[b_from + shared : b_to]
        if more and a_from + shared > 0:
            ops += [Insert(anchor(a_from + shared - 1), text, "after") for text in more]
        else:
            ops += [Insert(anchor(0), text, "before") for text in more]
        yield ops
