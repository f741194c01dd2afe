"""Reads the text of a prompt file into a Prompt, or into all that is wrong with it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import yaml

from regauge.errors import PromptError
from regauge.prompts._declared import (
    read_changelog,
    read_evaluators,
    read_inputs,
    read_test_data,
    read_version,
)
from regauge.prompts._parameters import read_parameters
from regauge.prompts._prompt import Prompt
from regauge.prompts._reader import Entries, Reader
from regauge.prompts._replaceable import read_replaceable
from regauge.prompts._response import read_response_format
from regauge.prompts._rubric import read_rubric
from regauge.prompts._template import compile_template, first_lines, odd_braces
from regauge.prompts._types import Message, Role
from regauge.prompts._yaml import compose, line_of, scalar_tag
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.prompts._types import InputSpec

__all__ = ["SUFFIXES", "TOP_KEYS", "parse_prompt", "prompt_name"]

SUFFIXES = (".prompt.yml", ".prompt.yaml")
TOP_KEYS = (
    "name",
    "description",
    "version",
    "owner",
    "model",
    "modelParameters",
    "responseFormat",
    "jsonSchema",
    "inputs",
    "rubric",
    "replaceable",
    "messages",
    "testData",
    "evaluators",
    "changelog",
)
_ROLES: tuple[Role, ...] = get_args(Role)
# A text full of braces is in another template language; a few warnings say so.
_ODD_MAX = 20
_MESSAGES_FIX = "write `- role: user` and `content: ...` for each message"


def prompt_name(path: Path) -> str:
    """The name of the prompt in a file: its file name without `.prompt.yml`.

    >>> from pathlib import Path
    >>> prompt_name(Path("prompts/alert-severity.prompt.yml"))
    'alert-severity'
    """
    for suffix in (*SUFFIXES, ".yml", ".yaml"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def parse_prompt(text: str, *, path: Path) -> Prompt:
    """Read the text of a prompt file.

    Args:
        path: Where the text is from: it names the prompt and appears in errors.

    Raises:
        PromptError: All faults of the text, each with its line.
    """
    root = compose(text, path)
    reader = Reader(path)
    entries = reader.entries(root, "the file")
    _refuse_other_formats(reader, entries)
    lines = {name: line_of(key) for name, (key, _) in entries.items()}
    fields = _read_fields(reader, entries, lines, prompt_name(path))
    messages = _read_messages(reader, root, entries, lines)
    _note_variables(reader, text, messages, lines)
    used = [place.removeprefix("variables.") for place in lines if place.startswith("variables.")]
    rubric = read_rubric(reader, entries, used, lines)
    if rubric is not None:
        fields["response_format"] = rubric.response_format()
    _refuse_undeclared(reader, fields.get("inputs"), lines)
    _warn_of_unknown_keys(reader, entries)
    if reader.faults:
        raise PromptError(sorted(reader.faults, key=lambda fault: fault.line or 0))
    return Prompt(
        name=prompt_name(path),
        path=path,
        messages=tuple(message for message, _ in messages),
        warnings=tuple(sorted(reader.warnings, key=lambda warning: warning.line or 0)),
        lines=lines,
        source=text,
        rubric=rubric,
        **fields,
    )


def _refuse_other_formats(reader: Reader, entries: Entries) -> None:
    """One fault, and no more, for a file that is a prompt of another tool."""
    if "messages" in entries or "prompt" not in entries:
        return
    key, _ = entries["prompt"]
    fix = "move its text to `messages:` as `- role: user` with `content:`"
    if "model" in entries and isinstance(entries["model"][1], yaml.MappingNode):
        fix += ", the model's name to `model:`, and its settings to `modelParameters:`"
    reader.fault(key, "there are no `messages`: `prompt` is another tool's format", fix)
    raise PromptError(reader.faults)


def _read_fields(
    reader: Reader, entries: Entries, lines: dict[str, int], name: str
) -> dict[str, Any]:
    fields: dict[str, Any] = {"title": name}
    texts = {"name": "title", "description": "description", "model": "model", "owner": "owner"}
    for key, (_, node) in entries.items():
        if key in texts and scalar_tag(node) != "null":
            fields[texts[key]] = reader.text(node, key, _text_fix(key, node))
        elif key == "version":
            fields["version"] = read_version(reader, node)
        elif key == "modelParameters" and scalar_tag(node) != "null":
            fields["parameters"] = read_parameters(reader, node, lines)
        elif key == "inputs":
            fields["inputs"] = read_inputs(reader, node, lines)
        elif key == "replaceable":
            fields["replaceable"] = read_replaceable(reader, node)
        elif key == "changelog":
            fields["changelog"] = read_changelog(reader, node)
        elif key == "testData":
            fields["test_data"] = read_test_data(reader, node)
        elif key == "evaluators":
            fields["evaluators"] = read_evaluators(reader, node)
    fields["response_format"] = read_response_format(reader, entries)
    return fields


def _text_fix(key: str, node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        if key == "model":
            return "write `model: openai/gpt-4o` and put its settings under `modelParameters:`"
        if node.flow_style:
            return "quote the text: braces outside quotes are a mapping"
    return ""


def _read_messages(
    reader: Reader, root: yaml.Node, entries: Entries, lines: dict[str, int]
) -> list[tuple[Message, yaml.Node]]:
    """Every message, with the node of its content."""
    if "messages" not in entries:
        reader.fault(root, "there are no `messages`", _MESSAGES_FIX)
        return []
    key, node = entries["messages"]
    found: list[tuple[Message, yaml.Node]] = []
    items = reader.items(node, "messages", _MESSAGES_FIX)
    if not items and (isinstance(node, yaml.SequenceNode) or scalar_tag(node) == "null"):
        reader.fault(key, "`messages` is empty", _MESSAGES_FIX)
    for number, item in enumerate(items):
        lines[f"messages[{number}]"] = line_of(item)
        message = _read_message(reader, item)
        if message is not None:
            found.append(message)
    return found


def _read_message(reader: Reader, item: yaml.Node) -> tuple[Message, yaml.Node] | None:
    entries = reader.mapping(item, "a message", _MESSAGES_FIX)
    if entries is None:
        return None
    reader.unknown(entries, ("role", "content"), "a message", fatal=False)
    for name in ("role", "content"):
        if name not in entries:
            reader.fault(item, f"a message has no {name!r}", _MESSAGES_FIX)
    if "role" not in entries or "content" not in entries:
        return None
    (_, role_node), (_, content_node) = entries["role"], entries["content"]
    role = reader.text(role_node, "the role of a message")
    fix = "write one text; parts such as images are not supported"
    content = reader.text(content_node, "the content of a message", fix)
    if role is not None and role not in _ROLES:
        known = f"write one of {', '.join(_ROLES)}"
        reader.fault(role_node, f"role {role!r} is unknown", did_you_mean(role, _ROLES) or known)
    if content is not None and not content.strip():
        reader.fault(content_node, "the content of a message is empty", "write it, or remove it")
    if content is None or role not in _ROLES:
        return None
    return Message(role=role, content=content), content_node


def _note_variables(
    reader: Reader, text: str, messages: list[tuple[Message, yaml.Node]], lines: dict[str, int]
) -> None:
    """Note the line of each variable's first use, and warn of braces that hold no name."""
    for message, node in messages:
        used = compile_template(message.content).slots
        # A text with YAML escapes in its placeholders has the line of the message alone.
        seen = first_lines(text, node.start_mark.index, node.end_mark.index) if used else {}
        for _, name in used:
            lines.setdefault(f"variables.{name}", seen.get(name, line_of(node)))
        for odd in islice(dict.fromkeys(odd_braces(message.content)), _ODD_MAX):
            line = _line_of_text(text, node, odd)
            fix = "write {{name}} for an input; see the reference for literal braces"
            inner = odd.strip("{} ")
            if odd.startswith("{{{{"):
                message_text = f"{odd} is {{{{{inner}}}}} between two literal pairs of braces"
            else:
                message_text = f"{odd} holds no name of an input, so it stays text"
            reader.warn(line, message_text, fix)


def _line_of_text(text: str, node: yaml.Node, wanted: str) -> int:
    """The line of a text inside a node, as the file has it."""
    at = text.find(wanted, node.start_mark.index, node.end_mark.index)
    return line_of(node) if at < 0 else text.count("\n", 0, at) + 1


def _refuse_undeclared(
    reader: Reader, inputs: tuple[InputSpec, ...] | None, lines: dict[str, int]
) -> None:
    if inputs is None:
        return
    declared = [spec.name for spec in inputs]
    for place, line in list(lines.items()):
        prefix, _, name = place.partition(".")
        if prefix == "variables" and name not in declared:
            fix = did_you_mean(name, declared) or f"declare {name!r} under `inputs:`"
            message = f"{{{{{name}}}}} is not among the declared inputs"
            reader.fault_at(line, message, fix)


def _warn_of_unknown_keys(reader: Reader, entries: Entries) -> None:
    """Unknown keys are other people's; those that start with `x-` say so themselves."""
    foreign = {name: entry for name, entry in entries.items() if not name.startswith("x-")}
    reader.unknown(foreign, TOP_KEYS, "a prompt file", fatal=False)
