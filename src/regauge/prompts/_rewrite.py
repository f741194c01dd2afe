"""Writes new texts of messages into a prompt file; untouched lines stay as they are."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import yaml

from regauge.errors import Fault, PromptError
from regauge.prompts._edit import meaning
from regauge.prompts._parse import parse_prompt
from regauge.prompts._yaml import compose, is_scalar, line_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["set_contents"]

_Splice = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class _File:
    """A prompt file's text, how its lines end, and where it is."""

    text: str
    newline: str
    path: Path


def set_contents(text: str, contents: Sequence[str], *, path: Path) -> str:
    """A prompt file's text with other contents of its messages.

    In a literal block only the lines that differ are written anew. A content in any other style is
    written as a literal block in its place. The result is read again, and is only returned when
    nothing but the contents differs.

    Args:
        text: The file as it is.
        contents: Of every message, in order.
        path: For messages.

    Raises:
        PromptError: The text is faulty, has another number of messages, or is written in a way
            that cannot be edited.
    """
    before = parse_prompt(text, path=path)
    if len(contents) != len(before.messages):
        raise _uneditable(
            path, 1, f"it has {len(before.messages)} messages, and {len(contents)} were given"
        )
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    file = _File(text, newline, path)
    nodes = _content_nodes(text, path)
    splices: list[_Splice] = []
    for place, message, content in zip(nodes, before.messages, contents, strict=True):
        if content != message.content:
            if place is None:
                raise _uneditable(path, 1, "a message without a content of its own was given one")
            splices.append(_splice(file, *place, message.content, content))
    edited = text
    for start, end, new in sorted(splices, reverse=True):
        edited = edited[:start] + new + edited[end:]
    wanted = tuple(
        replace(message, content=content)
        for message, content in zip(before.messages, contents, strict=True)
    )
    try:
        after = parse_prompt(edited, path=path)
    except PromptError as error:
        raise _uneditable(path, 1, "the edit would break the file") from error
    if meaning(after) != meaning(replace(before, messages=wanted)):
        raise _uneditable(path, 1, "the edit would change more than the messages")
    return edited


def _content_nodes(text: str, path: Path) -> list[tuple[yaml.Node, yaml.ScalarNode] | None]:
    """The key and the value of every message's content; None where it has none of its own."""
    root = compose(text, path)
    messages = next(value for key, value in root.value if getattr(key, "value", "") == "messages")
    found: list[tuple[yaml.Node, yaml.ScalarNode] | None] = []
    for item in messages.value:
        found.append(None)
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if getattr(key, "value", "") == "content" and is_scalar(value):
                if value.start_mark.index < key.end_mark.index:
                    raise _uneditable(path, line_of(key), "a message's content is an alias")
                found[-1] = (key, value)
    return found


def _splice(file: _File, key: yaml.Node, node: yaml.ScalarNode, old: str, new: str) -> _Splice:
    text, newline = file.text, file.newline
    start, end = node.start_mark.index, node.end_mark.index
    if node.style == "|":
        body_start = text.find("\n", start) + 1
        lines = text[body_start:end].splitlines(keepends=True)
        # Where the header states the indent (`|2`), the first line begins with spaces of its own.
        stated = any(c.isdigit() for c in text[start:body_start].partition("#")[0])
        kept = None if stated else _lines_in_place(lines, old, new, newline)
        if kept is not None:
            return body_start, end, kept
    line_start = text.rfind("\n", 0, key.start_mark.index) + 1
    before_key = text[line_start : key.start_mark.index]
    if before_key.strip(" -"):
        raise _uneditable(file.path, line_of(key), "a message shares its line with another key")
    indent = " " * (len(before_key) + 2)
    # The mark of a block's end stands behind its last line end, that of any other before it.
    closed = newline if text[end - 1] == "\n" or end == len(text) else ""
    return start, end, _block(new, indent, newline) + closed


def _lines_in_place(lines: list[str], old: str, new: str, newline: str) -> str | None:
    """The body of a literal block with the changed lines written anew; None where that is unsafe.

    The lines of the block are those of the content, indented; trailing ones may be left out.
    """
    indent = next((line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip()), "")
    was, now = old.split("\n"), new.split("\n")
    ends_alike = old.endswith("\n") == new.endswith("\n") and not new.endswith("\n\n")
    if not indent or not ends_alike or (now[0].startswith(" ") or not now[0].strip()):
        return None
    if old.endswith("\n"):
        was, now = was[:-1], now[:-1]
    tail = lines[len(was) :]
    lines = lines[: len(was)]
    if len(lines) != len(was):
        return None
    written: list[str] = []
    for tag, a_from, a_to, b_from, b_to in difflib.SequenceMatcher(
        a=was, b=now, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            written += lines[a_from:a_to]
        else:
            written += [(indent + line if line else "") + newline for line in now[b_from:b_to]]
    if written and not lines[-1].endswith("\n"):
        written[-1] = written[-1].rstrip("\r\n")
    return "".join((*written, *tail))


def _block(content: str, indent: str, newline: str) -> str:
    """A content as a literal block."""
    keep = "" if content.endswith("\n") else "-"
    if content.endswith("\n\n"):
        keep = "+"
    first = next((line for line in content.split("\n") if line.strip()), "")
    hint = "2" if first.startswith(" ") else ""
    lines = content.removesuffix("\n").split("\n")
    body = newline.join(indent + line if line else "" for line in lines)
    return f"|{hint}{keep}{newline}{body}"


def _uneditable(path: Path, line: int, why: str) -> PromptError:
    message = f"the messages cannot be edited here: {why}"
    fix = "write each content as a literal block: `content: |`"
    return PromptError([Fault(path=path, line=line, message=message, fix=fix)])
