"""Sections of a message, and `replaceable`: sections that may be replaced entirely."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from regauge.errors import Diagnostic, RegaugeError
from regauge.prompts._keys import ReplaceableKeys
from regauge.yaml_document import line_of, scalar_tag, types_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts._parse import Reader
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._types import Message, Role

_HEADING = re.compile(r"(?P<marks>#{1,6})\s+\S")
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]*)>")
_FENCE = re.compile(r"(?:`{3,}|~{3,})")


class SectionError(RegaugeError):
    """A line begins no section of a message, or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSection:
    """The lines of a section in its message, without blank lines around it.

    Attributes:
        heading: The number of the heading line, from 0.
        first: The number of the first line.
        end: The number after that of the last line.
    """

    heading: int
    first: int
    end: int


def section_below(content: str, heading: str) -> MessageSection:
    r"""Find the section of a message below a heading line.

    A Markdown section ends at the next heading of its level or above. A section below a line with
    a colon ends at a blank line, and one below a tag at the closing tag.

    >>> section_below("# Labels\n\n- now\n- later\n\n# Form\nJSON.", "# Labels")
    MessageSection(heading=0, first=2, end=4)

    Raises:
        SectionError: There is no such line, there are several, or the section is empty.
    """
    places = heading_lines(content, heading)
    if len(places) != 1:
        times = "no line is" if not places else f"{len(places)} lines are"
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
    """The numbers of the lines equal to a heading, outside code blocks."""
    title = heading.strip()
    if not begins_section(title):
        return []
    lines = content.split("\n")
    in_fence = _mark_fenced(lines)
    return [n for n, line in enumerate(lines) if line.strip() == title and not in_fence[n]]


def begins_section(line: str) -> bool:
    """Return whether a line has the form of a heading, a tag or a line with a colon."""
    return bool(_HEADING.match(line) or _TAG.fullmatch(line) or line.endswith(":"))


def _section_end(lines: list[str], start: int) -> int:
    """The number of the first line after a section."""
    heading = lines[start].strip()
    marks, tag = _HEADING.match(heading), _TAG.fullmatch(heading)
    in_fence = _mark_fenced(lines)
    if tag is not None:
        closing = f"</{tag['name']}>"
        end = next((n for n in range(start + 1, len(lines)) if lines[n].strip() == closing), None)
        if end is None:
            raise SectionError(f"no line below {heading!r} is {closing!r}")
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
    """Return for each line whether it is in a code block or a fence."""
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
_FIX = "write the line that begins the section, in quotes: - '## Labels'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaceable:
    """A section that may be replaced entirely, except its heading or its tags.

    Attributes:
        section: The heading line, such as `## Labels` or `Labels:`, or a tag such as `<labels>` on
            its own line.
        message: The role of its message; None if only one message has the line.
        words: The limit of words and marks in its text; None for the default of the loop.
        line: The line in the prompt file, from 1.
    """

    section: str
    message: Role | None = None
    words: int | None = None
    line: int = field(default=0, compare=False)

    def locate(self, messages: Sequence[Message]) -> tuple[int, MessageSection]:
        """Find the index of the message, from 0, and the section in it.

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
            raise SectionError(f"no {which} has the line {self.section!r}")
        raise SectionError(f"{len(holders)} messages have the line {self.section!r}")


def read_replaceable(reader: Reader, node: yaml.Node) -> tuple[Replaceable, ...]:
    """Read the replaceable sections: heading lines, or mappings with options."""
    parts: list[Replaceable] = []
    for item in reader.items(node, "replaceable", _FIX):
        mark = _replaceable(reader, item)
        if mark is None:
            continue
        if not begins_section(mark.section):
            message = f"{mark.section!r} begins no section"
            reader.add_error(item, message, "a heading is '## Labels', 'Labels:' or '<labels>'")
        elif mark in parts:
            reader.add_error(item, f"replaceable has {mark.section!r} twice")
        else:
            parts.append(mark)
    return tuple(parts)


def _replaceable(reader: Reader, item: yaml.Node) -> Replaceable | None:
    if not isinstance(item, yaml.MappingNode):
        text = reader.text(item, "a section of replaceable", _FIX)
        return None if text is None else Replaceable(section=text.strip(), line=line_of(item))
    (key, value), *rest = item.value or [(item, item)]
    is_text = isinstance(key, yaml.ScalarNode) and key.value not in types_of(ReplaceableKeys)
    if is_text and not rest and scalar_tag(value) == "null":
        text = str(key.value)
        reader.add_error(item, f"{text!r} is a key here, not a text", f"quote it: - '{text}:'")
        return None
    errors = len(reader.errors)
    values = reader.read(item, ReplaceableKeys, "a section of replaceable", _FIX)
    if len(reader.errors) > errors:
        return None
    values["section"] = values["section"].strip()
    return Replaceable(**values, line=line_of(item))


def replaceable_errors(prompt: Prompt) -> list[Diagnostic]:
    """The errors of a prompt's replaceable sections: missing or not replaceable."""
    diagnostics: list[Diagnostic] = []
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
                fix = "set the role: `message: system`, below `section:`"
        else:
            lines = prompt.messages[index].content.split("\n")[place.first : place.end]
            message, fix = _explain_irreplaceable(mark, "\n".join(lines))
        if message:
            diagnostics.append(
                Diagnostic(path=prompt.path, line=mark.line, message=message, fix=fix)
            )
    return diagnostics


def _explain_irreplaceable(mark: Replaceable, text: str) -> tuple[str, str]:
    """Explain why a section cannot be replaced, with the fix; empty if it can."""
    if _SLOT.search(text) and not _SLOT.sub("", text).strip():
        message = f"`replaceable`: {mark.section!r} holds nothing but inputs, which have to stay"
        return message, "leave it out of `replaceable`"
    words = len(_WORD.findall(text))
    if mark.words is not None and mark.words < words / 2:
        # A replacement may remove at most half of the words.
        message = (
            f"`replaceable`: {mark.section!r} has {words} words and marks, and"
            f" `words: {mark.words}` is less than half of them"
        )
        return message, f"write {(words + 1) // 2} or more, or shorten the section first"
    return "", ""
