"""Edits a prompt file in place: only the bytes that must change do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from regauge.errors import Fault, PromptError
from regauge.prompts._parse import parse_prompt
from regauge.prompts._yaml import compose, is_scalar, line_of

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.prompts._prompt import Prompt
    from regauge.prompts._semver import Semver
    from regauge.prompts._types import ChangelogEntry

__all__ = ["meaning", "set_model", "set_version"]

_Splice = tuple[int, int, str]
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 ,.;()/+'-]*[A-Za-z0-9.)]")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_WORDS = {"true", "false", "null"}


def set_version(text: str, version: Semver, entry: ChangelogEntry | None, *, path: Path) -> str:
    """A prompt file's text with another version, and with a changelog entry before the others.

    Comments, line ends and every other character stay as they are. The result is read again, and
    is only returned when nothing but version and changelog differs.

    Raises:
        PromptError: The text is faulty, or written in a way that cannot be edited.
    """
    before = parse_prompt(text, path=path)
    root = compose(text, path)
    newline = _newline(text)
    keys = {key.value: (key, value) for key, value in root.value if is_scalar(key)}
    splices: list[_Splice] = []
    lines: list[str] = []
    if "version" in keys:
        splices.append(_scalar_splice(text, *keys["version"], str(version), path))
    else:
        lines.append(f"version: {version}")
    if entry is not None and "changelog" in keys:
        splices.append(_changelog_splice(text, keys["changelog"], entry, newline, path))
    elif entry is not None:
        lines += ["changelog:", *_entry_lines(entry, "  ")]
    if lines:
        splices.append(_top_level_splice(text, root, lines, newline, path))
    changelog = before.changelog if entry is None else (entry, *before.changelog)
    wanted = replace(before, version=version, changelog=changelog)
    return _edited(text, splices, root, wanted, path)


def set_model(text: str, model: str, *, path: Path) -> str:
    """A prompt file's text with another model; every other character stays as it is.

    Raises:
        PromptError: The text is faulty, or written in a way that cannot be edited.
    """
    before = parse_prompt(text, path=path)
    root = compose(text, path)
    keys = {key.value: (key, value) for key, value in root.value if is_scalar(key)}
    splice = (
        _scalar_splice(text, *keys["model"], model, path)
        if "model" in keys
        else _top_level_splice(text, root, [f"model: {model}"], _newline(text), path)
    )
    return _edited(text, [splice], root, replace(before, model=model), path)


def _newline(text: str) -> str:
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _edited(text: str, splices: list[_Splice], root: yaml.Node, wanted: Prompt, path: Path) -> str:
    """The text with its edits, which is read again and has to mean what is wanted."""
    edited = text
    for start, end, new in sorted(splices, reverse=True):
        edited = edited[:start] + new + edited[end:]
    try:
        after = parse_prompt(edited, path=path)
    except PromptError as error:
        raise _uneditable(path, line_of(root), "the edit would break the file") from error
    if meaning(after) != meaning(wanted):
        raise _uneditable(path, line_of(root), "the edit would change more than that")
    return edited


def _scalar_splice(text: str, key: yaml.Node, value: yaml.Node, new: str, path: Path) -> _Splice:
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        raise _uneditable(path, line_of(key), f"the {key.value} is an alias")
    if start == end:
        return start, end, f" {new}"
    # An anchor, a tag or quotes around the text stay.
    at = text.rfind(value.value, start, end)
    if at < 0:
        raise _uneditable(path, line_of(key), f"the {key.value} is written with escapes")
    return at, at + len(value.value), new


def _changelog_splice(
    text: str, nodes: tuple[yaml.Node, yaml.Node], entry: ChangelogEntry, newline: str, path: Path
) -> _Splice:
    key, value = nodes
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        raise _uneditable(path, line_of(key), "the changelog is an alias")
    items: list[yaml.Node] = value.value if isinstance(value, yaml.SequenceNode) else []
    if not items:
        indent = " " * (key.start_mark.column + 2)
        body = newline + newline.join(_entry_lines(entry, indent))
        return key.end_mark.index + 1, end, body
    first = items[0].start_mark.index
    if isinstance(value, yaml.SequenceNode) and value.flow_style:
        pairs = (f"{name}: {_quoted(said)}" for name, said in _pairs(entry))
        return first, first, "{" + ", ".join(pairs) + "}, "
    dash = text.rfind("-", start, first)
    line_start = text.rfind("\n", 0, dash) + 1
    indent = text[line_start:dash]
    if dash < 0 or indent.strip(" "):
        raise _uneditable(path, line_of(value), "the first entry of changelog shares its line")
    body = "".join(line + newline for line in _entry_lines(entry, indent))
    return line_start, line_start, body


def _top_level_splice(
    text: str, root: yaml.MappingNode, lines: list[str], newline: str, path: Path
) -> _Splice:
    """New top-level lines: below `version` where there is one, else above the first key."""
    if root.flow_style:
        raise _uneditable(path, line_of(root), "the file is one mapping in braces")
    first = root.value[0][0].start_mark
    indent = " " * first.column
    body = "".join(indent + line + newline for line in lines)
    for key, value in root.value:
        if is_scalar(key) and key.value == "version":
            at = text.find("\n", value.end_mark.index) + 1
            return (at, at, body) if at else (len(text), len(text), newline + body)
    at = first.index - first.column
    return at, at, body


def _entry_lines(entry: ChangelogEntry, indent: str) -> list[str]:
    pairs = [f"{name}: {_scalar(said)}" for name, said in _pairs(entry)]
    return [f"{indent}- {pairs[0]}", *(f"{indent}  {pair}" for pair in pairs[1:])]


def _pairs(entry: ChangelogEntry) -> list[tuple[str, str]]:
    pairs = [("version", entry.version), ("date", entry.date), ("text", entry.text)]
    return [(name, said) for name, said in pairs if said]


def _scalar(text: str) -> str:
    """A text as YAML: plain where that is beyond doubt, quoted elsewhere."""
    if re.fullmatch(r"[0-9]+(?:[.-][0-9]+){2}", text):
        return text
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def meaning(prompt: Prompt) -> list[object]:
    """All that a prompt says, without where it says it."""
    evaluators = [(e.name, e.kind, e.body) for e in prompt.evaluators]
    kept = replace(prompt, evaluators=(), warnings=())
    return [kept, evaluators]


def _uneditable(path: Path, line: int, why: str) -> PromptError:
    message = f"version, changelog and model cannot be edited here: {why}"
    fix = "edit them by hand, then `regauge bump NAME` without a part"
    return PromptError([Fault(path=path, line=line, message=message, fix=fix)])
