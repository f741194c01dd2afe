"""Sections of a message, and `replaceable`: those that a prompt lets be replaced as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast, get_args

import yaml

from regauge.errors import Fault, RegaugeError
from regauge.prompts._types import Role
from regauge.prompts._yaml import line_of, scalar_tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts._prompt import Prompt
    from regauge.prompts._types import Message
    from regauge.prompts._yaml import Reader

_HEADING = re.compile(r"(?P<marks>#{1,6})\s+\S")
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]*)>")
_FENCE = re.compile(r"(?:`{3,}|~{3,})")


class SectionError(RegaugeError):
    """A text does not begin one section of a message, and one only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSection:
    """Where the text of a section stands in its message, without blank lines around it.

    Attributes:
        heading: The number of the line that begins it, from 0.
        first: The number of its first line.
        end: The number after that of its last line.
    """

    heading: int
    first: int
    end: int


def section_below(content: str, heading: str) -> MessageSection:
    r"""The section of a message that a line begins.

    Below a Markdown heading it continues to the next heading that is not deeper, below a line that
    ends with a colon to the next blank line, and between two tags to the closing one.

    >>> section_below("# Labels\n\n- now\n- later\n\n# Form\nJSON.", "# Labels")
    MessageSection(heading=0, first=2, end=4)

    Raises:
        SectionError: There is no such line, there are several, or nothing below it.
    """
    places = heading_lines(content, heading)
    if len(places) != 1:
        times = "no line says" if not places else f"{len(places)} lines say"
        raise SectionError(f"{times} {heading!r}")
    (line,) = places
    lines = content.split("\n")
    first, end = line + 1, _section_end(lines, line)
    while first < end and not lines[first].strip():
        first += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    if first == end:
        raise SectionError(f"nothing below {heading!r}")
    return MessageSection(heading=line, first=first, end=end)


def heading_lines(content: str, heading: str) -> list[int]:
    """The lines that say what begins a section; none inside a code block counts."""
    title = heading.strip()
    if not begins_section(title):
        return []
    lines = content.split("\n")
    in_fence = _mark_fenced(lines)
    return [n for n, line in enumerate(lines) if line.strip() == title and not in_fence[n]]


def begins_section(line: str) -> bool:
    """Return whether a line may begin a section, as far as its form shows."""
    return bool(_HEADING.match(line) or _TAG.fullmatch(line) or line.endswith(":"))


def _section_end(lines: list[str], start: int) -> int:
    """The number of the line that is no longer of the section which a line begins."""
    heading = lines[start].strip()
    marks, tag = _HEADING.match(heading), _TAG.fullmatch(heading)
    in_fence = _mark_fenced(lines)
    if tag is not None:
        closing = f"</{tag['name']}>"
        end = next((n for n in range(start + 1, len(lines)) if lines[n].strip() == closing), None)
        if end is None:
            raise SectionError(f"no line below {heading!r} says {closing!r}")
        return end
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if marks is None and not line:
            return number
        if in_fence[number] or marks is None:
            continue
        other = _HEADING.match(line)
        if other is not None and len(other["marks"]) <= len(marks["marks"]):
            return number
    return len(lines)


def _mark_fenced(lines: list[str]) -> list[bool]:
    """The lines in code blocks, with their fences."""
    in_fence: list[bool] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line.strip())
        in_fence.append(bool(fence or mark))
        if not fence and mark is not None:
            fence = mark[0]
        elif fence and mark is not None and line.strip() == mark[0] and mark[0].startswith(fence):
            fence = ""
    return in_fence


_WORD = re.compile(r"\w+|[^\w\s]")
_SLOT = re.compile(r"\{\{[^{}]*\}\}")
_KEYS = ("section", "message", "words")
_FIX = "write the line that begins the section, in quotes: - '## Labels'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaceable:
    """A section that may be replaced as a whole; its heading or its tags stay.

    Attributes:
        section: The line that begins it: a heading such as `## Labels` or `Labels:`, or a tag
            such as `<labels>` on a line of its own.
        message: The role of the message it stands in; None where only one message has the line.
        words: The most words and marks its text may come to have; None leaves that to the loop.
        line: Where the prompt file says so, from 1.
    """

    section: str
    message: Role | None = None
    words: int | None = None
    line: int = field(default=0, compare=False)

    def locate(self, messages: Sequence[Message]) -> tuple[int, MessageSection]:
        """The number of the message that holds it, from 0, and its place in there.

        Raises:
            SectionError: No message has it, or several have.
        """
        holders = [
            index
            for index, message in enumerate(messages)
            if self.message in {None, message.role} and heading_lines(message.content, self.section)
        ]
        if len(holders) == 1:
            (index,) = holders
            return index, section_below(messages[index].content, self.section)
        if not holders:
            which = f"{self.message} message" if self.message else "message"
            raise SectionError(f"no {which} has a line that says {self.section!r}")
        raise SectionError(f"{len(holders)} messages have a line that says {self.section!r}")


def read_replaceable(reader: Reader, node: yaml.Node) -> tuple[Replaceable, ...]:
    """The sections that may be replaced: the lines that begin them, or mappings that say more."""
    parts: list[Replaceable] = []
    for item in reader.items(node, "replaceable", _FIX):
        mark = _replaceable(reader, item)
        if mark is None:
            continue
        if not begins_section(mark.section):
            message = f"{mark.section!r} begins no section"
            reader.fault(item, message, "a heading is '## Labels', 'Labels:' or '<labels>'")
        elif mark in parts:
            reader.fault(item, f"replaceable has {mark.section!r} twice")
        else:
            parts.append(mark)
    return tuple(parts)


def _replaceable(reader: Reader, item: yaml.Node) -> Replaceable | None:
    if not isinstance(item, yaml.MappingNode):
        text = reader.text(item, "a section of replaceable", _FIX)
        return None if text is None else Replaceable(section=text.strip(), line=line_of(item))
    entries = reader.entries(item, "a section of replaceable")
    (first, (_, value)), *_ = entries.items() or [("", (item, item))]
    if len(entries) == 1 and scalar_tag(value) == "null" and first not in _KEYS:
        reader.fault(item, f"{first!r} is a key here, not a text", f"quote it: - '{first}:'")
        return None
    reader.unknown(entries, _KEYS, "a section of replaceable")
    if "section" not in entries:
        reader.fault(item, "a section of replaceable has no 'section'", _FIX)
        return None
    section = reader.text(entries["section"][1], "`section` of replaceable", _FIX)
    role: str | None = None
    words: int | None = None
    if "message" in entries:
        roles = get_args(Role)
        role = reader.word(entries["message"][1], "`message` of replaceable", roles, noun="role")
    if "words" in entries:
        maximum = reader.json(entries["words"][1], "`words` of replaceable")
        if isinstance(maximum, int) and not isinstance(maximum, bool) and maximum > 0:
            words = maximum
        else:
            reader.fault(entries["words"][1], "`words` of replaceable must be a number from 1 on")
    if section is None or ("message" in entries and role is None):
        return None
    return Replaceable(
        section=section.strip(),
        message=cast("Role | None", role),
        words=words,
        line=line_of(item),
    )


def replaceable_faults(prompt: Prompt) -> list[Fault]:
    """The marks of a prompt that stand for no section of it, or for one that cannot be replaced."""
    faults: list[Fault] = []
    for mark in prompt.replaceable:
        try:
            index, place = mark.locate(prompt.messages)
        except SectionError as error:
            message = f"`replaceable` names no section: {error}"
            fix = (
                "write the line that begins it as the message has it: a heading such as"
                " '## Labels' or 'Labels:', or a tag such as '<labels>'"
            )
            if "messages have" in str(error):
                fix = "say which is meant: `message: system`, below `section:`"
        else:
            lines = prompt.messages[index].content.split("\n")[place.first : place.end]
            message, fix = _explain_irreplaceable(mark, "\n".join(lines))
        if message:
            faults.append(Fault(path=prompt.path, line=mark.line, message=message, fix=fix))
    return faults


def _explain_irreplaceable(mark: Replaceable, text: str) -> tuple[str, str]:
    """The reason why a section cannot be replaced, with the fix; empty if it can."""
    if _SLOT.search(text) and not _SLOT.sub("", text).strip():
        message = f"`replaceable`: {mark.section!r} holds nothing but inputs, which have to stay"
        return message, "leave it out of `replaceable`"
    words = len(_WORD.findall(text))
    if mark.words is not None and mark.words < words / 2:
        # No replacement is let drop more than half.
        message = (
            f"`replaceable`: {mark.section!r} has {words} words and marks, and"
            f" `words: {mark.words}` asks for less than half of them at once"
        )
        return message, f"write {(words + 1) // 2} or more, or shorten the section first"
    return "", ""
