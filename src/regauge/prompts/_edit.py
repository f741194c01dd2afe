"""Edits of prompt files in place, which leave all other bytes unchanged."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

import yaml

from regauge.errors import PromptError, UsageError
from regauge.prompts._parse import Reader, parse_prompt
from regauge.prompts._types import ChangelogEntry, Semver
from regauge.yaml_document import YamlError, compose_document, line_of, scalar_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from regauge.prompts._prompt import Prompt
    from regauge.prompts._types import Part
    from regauge.prompts._versions import PromptLock

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ,.;()/+'-]*[A-Za-z0-9.)]")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
# The marks of a block, and a comment.
_HEADER = re.compile(r"[-+|>0-9]*([ \t]+#[^\r\n]*)?")
_YAML_WORDS = {"true", "false", "null"}


class _Edit:
    """An edit of a prompt file: replacements in its text, checked by parsing the result.

    Args:
        text: The text of the file.
        path: The path, for errors.
        subject: The edited parts, for errors.
        fix: The fix of errors.

    Raises:
        PromptError: The text is invalid.
    """

    def __init__(self, text: str, path: Path, *, subject: str, fix: str) -> None:
        self.text = text
        self._path = path
        self._subject = subject
        self._fix = fix
        self.before = parse_prompt(text, path=path)
        self.root = Reader(text, path).root
        self.keys = {
            key.value: (key, value)
            for key, value in self.root.value
            if isinstance(key, yaml.ScalarNode)
        }
        self.newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
        self._splices: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        """Replace the text between two offsets."""
        self._splices.append((start, end, new))

    def replace_scalar(self, name: str, new: str) -> None:
        """Replace the value of a key of the file."""
        key, value = self.keys[name]
        start, end = value.start_mark.index, value.end_mark.index
        if start < key.end_mark.index:
            raise self.refuse(f"the {name} is an alias", key)
        if start == end:
            return self.replace(start, end, f" {new}")
        # Keep an anchor, a tag or quotes around the text.
        position = self.text.rfind(value.value, start, end)
        if position < 0:
            raise self.refuse(f"the {name} is written with escapes", key)
        return self.replace(position, position + len(value.value), new)

    def add_keys(self, lines: list[str]) -> None:
        """Add top-level lines: below `version`, or without it above the first key."""
        if self.root.flow_style:
            raise self.refuse("the file is one mapping in braces", self.root)
        first = self.root.value[0][0].start_mark
        indent = " " * first.column
        body = "".join(indent + line + self.newline for line in lines)
        position = first.index - first.column
        if "version" in self.keys:
            position = self.text.find("\n", self.keys["version"][1].end_mark.index) + 1
            if not position:
                position, body = len(self.text), self.newline + body
        self.replace(position, position, body)

    def finish(self, expected: Prompt, scope: str = "that") -> str:
        """Apply the replacements and check that the result means `expected`."""
        edited = self.text
        for start, end, new in sorted({*self._splices}, reverse=True):
            edited = edited[:start] + new + edited[end:]
        try:
            after = parse_prompt(edited, path=self._path)
        except PromptError as error:
            raise self.refuse("the edit would break the file") from error
        if meaning(after) != meaning(expected):
            raise self.refuse(f"the edit would change more than {scope}")
        return edited

    def refuse(self, reason: str, node: yaml.Node | None = None) -> PromptError:
        """The error for a file in a form that cannot be edited."""
        message = f"{self._subject} cannot be edited here: {reason}"
        line = 1 if node is None else line_of(node)
        return PromptError.at_place(self._path, message, fix=self._fix, line=line)


def _edit_keys(text: str, path: Path) -> _Edit:
    return _Edit(
        text,
        path,
        subject="version, changelog and model",
        fix="edit them by hand, then `regauge bump NAME` without a part",
    )


def set_version(text: str, version: Semver, entry: ChangelogEntry | None, *, path: Path) -> str:
    """Set the version in a prompt file's text, and add a changelog entry before the others.

    All other characters stay unchanged. The result is parsed to check that only version and
    changelog differ.

    Raises:
        PromptError: The text is invalid, or in a form that cannot be edited.
    """
    edit = _edit_keys(text, path)
    lines: list[str] = []
    if "version" in edit.keys:
        edit.replace_scalar("version", str(version))
    else:
        lines.append(f"version: {version}")
    if entry is not None and "changelog" in edit.keys:
        _add_entry(edit, entry)
    elif entry is not None:
        lines += ["changelog:", *_entry_lines(entry, "  ")]
    if lines:
        edit.add_keys(lines)
    changelog = edit.before.changelog if entry is None else (entry, *edit.before.changelog)
    return edit.finish(replace(edit.before, version=version, changelog=changelog))


def set_model(text: str, model: str, *, path: Path) -> str:
    """Set the model in a prompt file's text; all other characters stay unchanged.

    Raises:
        PromptError: The text is invalid, or in a form that cannot be edited.
    """
    edit = _edit_keys(text, path)
    if "model" in edit.keys:
        edit.replace_scalar("model", model)
    else:
        edit.add_keys([f"model: {model}"])
    return edit.finish(replace(edit.before, model=model))


def _add_entry(edit: _Edit, entry: ChangelogEntry) -> None:
    """Add an entry before the others of a changelog."""
    key, value = edit.keys["changelog"]
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        raise edit.refuse("the changelog is an alias", key)
    items: list[yaml.Node] = value.value if isinstance(value, yaml.SequenceNode) else []
    if not items:
        lines = _entry_lines(entry, " " * (key.start_mark.column + 2))
        body = "".join(edit.newline + line for line in lines)
        return edit.replace(key.end_mark.index + 1, end, body)
    first = items[0].start_mark.index
    if isinstance(value, yaml.SequenceNode) and value.flow_style:
        pairs = (f"{name}: {_quote(words)}" for name, words in _pairs(entry))
        return edit.replace(first, first, "{" + ", ".join(pairs) + "}, ")
    dash = edit.text.rfind("-", start, first)
    line_start = edit.text.rfind("\n", 0, dash) + 1
    indent = edit.text[line_start:dash]
    if dash < 0 or indent.strip(" "):
        raise edit.refuse("the first entry of changelog shares its line", value)
    body = "".join(line + edit.newline for line in _entry_lines(entry, indent))
    return edit.replace(line_start, line_start, body)


def _entry_lines(entry: ChangelogEntry, indent: str) -> list[str]:
    pairs = [f"{name}: {_scalar(text)}" for name, text in _pairs(entry)]
    return [f"{indent}- {pairs[0]}", *(f"{indent}  {pair}" for pair in pairs[1:])]


def _pairs(entry: ChangelogEntry) -> list[tuple[str, str]]:
    pairs = [("version", entry.version), ("date", entry.date), ("text", entry.text)]
    return [(name, text) for name, text in pairs if text]


def _scalar(text: str) -> str:
    """Write a text as YAML: plain if that is safe, otherwise quoted."""
    if re.fullmatch(r"[0-9]+(?:[.-][0-9]+){2}", text):
        return text
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return _quote(text)


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def meaning(prompt: Prompt) -> list[object]:
    """The content of a prompt without line numbers, for comparison."""
    evaluators = [(e.name, e.kind, e.body) for e in prompt.evaluators]
    prompt_without_lines = replace(prompt, evaluators=(), warnings=())
    return [prompt_without_lines, evaluators]


def set_contents(text: str, contents: Sequence[str], *, path: Path) -> str:
    """Set the contents of the messages in a prompt file's text.

    Each content keeps its style, and of a block only lines that differ are replaced, if YAML can
    write the new content so; else it becomes a literal block, or stays in its line in quotes. An
    alias of a block changes the block. The result is parsed to check that only contents differ.

    Args:
        text: The text of the file.
        contents: The content of each message, in order.
        path: The path, for errors.

    Raises:
        PromptError: The text is invalid, has another number of messages, or is in a form that
            cannot be edited.
    """
    fix = "write each content as a literal block: `content: |`"
    edit = _Edit(text, path, subject="the messages", fix=fix)
    messages = edit.before.messages
    if len(contents) != len(messages):
        raise edit.refuse(f"it has {len(messages)} messages, and {len(contents)} were given")
    for place, message, content in zip(_content_nodes(edit), messages, contents, strict=True):
        if content != message.content:
            if place is None:
                raise edit.refuse("a message without a content of its own was given one")
            _replace_content(edit, *place, message.content, content)
    expected = tuple(
        replace(message, content=content)
        for message, content in zip(messages, contents, strict=True)
    )
    return edit.finish(replace(edit.before, messages=expected), "the messages")


def _content_nodes(edit: _Edit) -> list[tuple[yaml.Node, yaml.ScalarNode] | None]:
    """The key and the value of each message's content; None for a message without one."""
    nodes: list[tuple[yaml.Node, yaml.ScalarNode] | None] = []
    for item in edit.keys["messages"][1].value:
        nodes.append(None)
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if getattr(key, "value", "") == "content" and isinstance(value, yaml.ScalarNode):
                nodes[-1] = (key, value)
    return nodes


def _replace_content(
    edit: _Edit, key: yaml.Node, node: yaml.ScalarNode, old: str, new: str
) -> None:
    text, newline = edit.text, edit.newline
    start, end = node.start_mark.index, node.end_mark.index
    if node.style == "|":
        body_start = text.find("\n", start) + 1
        lines = text[body_start:end].splitlines(keepends=True)
        # With an indent in the header (`|2`), the first line may begin with spaces.
        has_indent_hint = any(c.isdigit() for c in text[start:body_start].partition("#")[0])
        body = None if has_indent_hint else _lines_in_place(lines, old, new, newline)
        if body is not None:
            return edit.replace(body_start, end, body)
    if start < key.end_mark.index:
        raise edit.refuse("a message's content is an alias", key)
    line_start = text.rfind("\n", 0, key.start_mark.index) + 1
    before_key = text[line_start : key.start_mark.index]
    shares_line = bool(before_key.strip(" -"))
    new_source = None
    if node.style != "|" and (node.style or not shares_line):
        source = text[start:end].replace(newline, "\n")
        new_source = _in_style(source, node.style, old, new)
    if new_source is not None:
        return edit.replace(start, end, new_source.replace("\n", newline))
    if shares_line:
        return edit.replace(start, end, json.dumps(new, ensure_ascii=False))
    indent = " " * (len(before_key) + 2)
    # A comment follows the header of a block, and the end of other styles.
    is_block = node.style in {"|", ">"}
    header = _HEADER.match(text, start if is_block else end)
    comment = (header and header[1]) or ""
    end += 0 if is_block else len(comment)
    # The end mark of a block is after its last line end, that of other styles before it.
    closed = newline if text[end - 1] == "\n" or end == len(text) else ""
    return edit.replace(start, end, _block(new, indent, newline, comment) + closed)


def _in_style(source: str, style: str | None, old: str, new: str) -> str | None:
    """A content in the style that it has; None if that style cannot have it."""
    ways: dict[str, Callable[[], str | None]] = {
        ">": lambda: _folded_in_place(source, old, new),
        "'": lambda: "'" + new.replace("'", "''") + "'",
        # Other escapes of the author would be lost.
        '"': lambda: (
            json.dumps(new, ensure_ascii=False)
            if source == json.dumps(old, ensure_ascii=False)
            else None
        ),
    }
    write = ways.get(style or "", lambda: new)
    new_source = None if style != ">" and "\n" in source else write()
    return new_source if new_source is not None and _means(new_source, new) else None


def _means(source: str, content: str) -> bool:
    """Return whether a scalar's source has a content."""
    try:
        document = compose_document(f"- {source}")
    except YamlError:
        return False
    value = document.value[0] if document else None
    return isinstance(value, yaml.ScalarNode) and (scalar_tag(value), value.value) == (
        "str",
        content,
    )


def _folded_in_place(source: str, old: str, new: str) -> str | None:
    """Replace the changed lines of a folded block; None if it has more than plain paragraphs."""
    header, *lines = source.split("\n")
    indent = next((line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip()), "")
    body = "\n".join(line[len(indent) :] for line in lines)
    trimmed_body = body.rstrip("\n")
    paragraphs = [part.split("\n") for part in re.split(r"\n{2,}", trimmed_body)]
    was, now = ([line for line in text.split("\n") if line] for text in (old, new))
    if not indent or [" ".join(part) for part in paragraphs] != was:
        return None
    width = max(len(line) for part in paragraphs for line in part)
    paragraphs_now: list[str] = []
    matcher = difflib.SequenceMatcher(a=was, b=now, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        for n in range(b_to - b_from):
            old_lines = paragraphs[a_from + n] if a_from + n < a_to else []
            lines = old_lines if tag == "equal" else _fold(old_lines, now[b_from + n], width)
            paragraphs_now.append("\n".join(lines))
    # A line end within the text is written as an empty line.
    breaks = [f"{gap}\n" for gap in re.findall(r"\n+", new.strip("\n"))]
    body = (
        "".join(map("".join, zip(paragraphs_now, [*breaks, ""], strict=True)))
        + body[len(trimmed_body) :]
    )
    return "\n".join((header, *(indent + line if line else "" for line in body.split("\n"))))


def _fold(lines: Sequence[str], text: str, width: int) -> list[str]:
    """The lines of a paragraph with another text; unchanged words stay in their lines.

    >>> _fold(["Be kind. Use", "JSON."], "Be brief. Use JSON.", 20)
    ['Be brief. Use', 'JSON.']
    """
    if not lines:
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    words = [(number, word) for number, line in enumerate(lines) for word in line.split(" ")]
    now = text.split(" ")
    line_words: list[list[str]] = [[] for _ in lines]
    matcher = difflib.SequenceMatcher(a=[word for _, word in words], b=now, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        for n in range(b_to - b_from):
            place = a_from + n if tag == "equal" else max(0, a_from - (a_from == a_to))
            line_words[words[place][0]].append(now[b_from + n])
    return [" ".join(line) for line in line_words if line]


def _lines_in_place(lines: list[str], old: str, new: str, newline: str) -> str | None:
    """Replace the changed lines in the body of a literal block; None if that is unsafe.

    The lines of the block are the indented lines of the content, maybe without trailing ones.
    """
    indent = next((line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip()), "")
    was, now = old.split("\n"), new.split("\n")
    ends_alike = old.endswith("\n") == new.endswith("\n") and not new.endswith("\n\n")
    if not indent or not ends_alike or (now[0].startswith(" ") or not now[0].strip()):
        return None
    if old.endswith("\n"):
        was, now = was[:-1], now[:-1]
    closing = "" if lines[-1].endswith("\n") else newline  # the file may end without one
    tail = lines[len(was) :]
    lines = [*lines[: len(was) - 1], *(line + closing for line in lines[len(was) - 1 : len(was)])]
    if len(lines) != len(was):
        return None
    new_lines: list[str] = []
    for tag, a_from, a_to, b_from, b_to in difflib.SequenceMatcher(
        a=was, b=now, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            new_lines += lines[a_from:a_to]
        else:
            new_lines += [(indent + line if line else "") + newline for line in now[b_from:b_to]]
    return "".join((*new_lines, *tail)).removesuffix(closing)


def _block(content: str, indent: str, newline: str, comment: str) -> str:
    """Write a content as a literal block, with a comment after its header."""
    keep = "" if content.endswith("\n") else "-"
    if content.endswith("\n\n"):
        keep = "+"
    first = next((line for line in content.split("\n") if line.strip()), "")
    hint = "2" if first.startswith(" ") else ""
    lines = content.removesuffix("\n").split("\n")
    body = newline.join(indent + line if line else "" for line in lines)
    return f"|{hint}{keep}{comment}{newline}{body}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """A version that is ready to be released.

    Attributes:
        before: The previous version in the file; None for none.
        prompt: The prompt with its new version; its `source` is the new text of the file.
        lock: The lock with the new version.
    """

    before: Semver | None
    prompt: Prompt
    lock: PromptLock


def bump(
    text: str,
    part: Part | None,
    *,
    path: Path,
    lock: PromptLock,
    note: str = "",
    date: str = "",
    allow_unchanged: bool = False,
) -> Bump:
    """Compute the next version, without writing files.

    Args:
        text: The text of the prompt file.
        part: The number to raise; None to release the version in the file.
        path: The path, for errors.
        lock: The released versions.
        note: The changelog text; empty for no entry.
        date: The day of the entry, such as `2025-06-30`.
        allow_unchanged: Release a version even if nothing changed since the last one.

    Raises:
        PromptError: The file is invalid or cannot be edited.
        UsageError: Nothing changed, the contract changed without a new major version, or a note is
            for a version that has one.
    """
    prompt = parse_prompt(text, path=path)
    released = lock.entries_of(prompt.name)
    last = released[-1] if released else None
    version = _next_version(prompt, part, None if last is None else last.version)
    if part is None and lock.get(prompt.name, version) is not None:
        fix = f"name the part to raise: regauge bump {quote(prompt.name)} major|minor|patch"
        raise UsageError(f"{prompt.name}@{version} is released already", fix=fix)
    if last is not None and last.matches(prompt) and not allow_unchanged:
        raise UsageError(
            f"{prompt.name} does what {last.version} did: messages, model, parameters, response"
            " format and inputs are the same\n  fix: --allow-unchanged releases it all the same"
        )
    broken = lock.needs_major(replace(prompt, version=version))
    if broken is not None:
        raise UsageError(
            f"the contract of {prompt.name} (jsonSchema, inputs, tools) changed since"
            f" {broken.version}, so {version} would break its callers\n"
            f"  fix: regauge bump {quote(prompt.name)} major"
        )
    note = " ".join(note.split())
    if note and any(entry.version == str(version) for entry in prompt.changelog):
        fix = f"run it without --message, or edit the entry of {version} by hand"
        raise UsageError(f"the changelog of {prompt.name} has {version} already", fix=fix)
    entry = ChangelogEntry(version=str(version), text=note, date=date) if note else None
    edited = set_version(text, version, entry, path=path)
    after = parse_prompt(edited, path=path)
    return Bump(before=prompt.version, prompt=after, lock=lock.add(after))


def _next_version(prompt: Prompt, part: Part | None, released: Semver | None) -> Semver:
    if part is not None:
        version = prompt.version or Semver(0, 0, 0)
        return max(version, released or version).bump(part)
    if prompt.version is None:
        fix = f"regauge bump {quote(prompt.name)} major, which starts it at 1.0.0"
        raise UsageError(f"{prompt.path} has no version", fix=fix)
    if released is not None and prompt.version < released:
        raise UsageError(
            f"{prompt.path} states version {prompt.version}, older than {released}, which is"
            f" released\n  fix: regauge bump {quote(prompt.name)} major|minor|patch"
        )
    return prompt.version
