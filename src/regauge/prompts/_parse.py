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
from regauge.prompts._template import NAME, compile_template, first_lines, odd_braces
from regauge.prompts._tools import read_message_extras, read_tool_choice, read_tools
from regauge.prompts._types import Message, Role
from regauge.prompts._yaml import compose, line_of, scalar_tag
from regauge.regular_file import read_regular
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from regauge.digests import JSON
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
    "tools",
    "toolChoice",
    "parallelToolCalls",
    "inputs",
    "rubric",
    "replaceable",
    "messages",
    "testData",
    "evaluators",
    "changelog",
)
_TOOL_KEYS = ("tools", "toolChoice", "parallelToolCalls")
_TOOLS_BYTES_MAX = 1024 * 1024
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id")
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


def parse_prompt(
    text: str, *, path: Path, committed: Callable[[str], bytes | None] | None = None
) -> Prompt:
    """Read the text of a prompt file.

    Args:
        path: Where the text is from: it names the prompt and appears in errors.
        committed: Reads a file next to the prompt as a commit has it. A text of a commit is not
            refused for a key that is unknown today. None for the working tree.

    Raises:
        PromptError: All faults of the text, each with its line.
    """
    root = compose(text, path)
    reader = Reader(path, lenient=committed is not None)
    entries = reader.entries(root, "the file")
    _refuse_other_formats(reader, entries)
    lines = {name: line_of(key) for name, (key, _) in entries.items()}
    fields = _read_fields(reader, entries, lines, prompt_name(path))
    _read_tools(reader, entries, lines, fields, _reader_beside(path, committed))
    messages = _read_messages(reader, root, entries, lines)
    _note_variables(reader, text, messages, lines)
    used = [place.removeprefix("variables.") for place in lines if place.startswith("variables.")]
    rubric = read_rubric(reader, entries, used, lines)
    if rubric is not None:
        fields["response_format"] = rubric.response_format()
    _refuse_undeclared(reader, fields.get("inputs"), lines)
    _refuse_unknown_keys(reader, entries)
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
    if "history" in entries:
        return _read_history(reader, entries)
    reader.unknown(entries, _MESSAGE_KEYS, "a message")
    if "content" not in entries and "tool_calls" in entries:
        entries["content"] = (
            item,
            yaml.ScalarNode("tag:yaml.org,2002:str", "", item.start_mark, item.start_mark),
        )
    for name in ("role", "content"):
        if name not in entries:
            reader.fault(item, f"a message has no {name!r}", _MESSAGES_FIX)
    if "role" not in entries or "content" not in entries:
        return None
    (_, role_node), (_, content_node) = entries["role"], entries["content"]
    role = reader.text(role_node, "the role of a message")
    fix = "write one text; images and files are not supported yet"
    content = reader.text(content_node, "the content of a message", fix)
    if role is not None and role not in _ROLES:
        known = f"write one of {', '.join(_ROLES)}"
        reader.fault(role_node, f"role {role!r} is unknown", did_you_mean(role, _ROLES) or known)
    extras = read_message_extras(reader, item, entries)
    if content is not None and not content.strip() and "tool_calls" not in entries:
        reader.fault(content_node, "the content of a message is empty", "write it, or remove it")
    if content is None or role not in _ROLES or extras is None:
        return None
    return Message(role=role, content=content, **extras), content_node


def _read_history(reader: Reader, entries: Entries) -> tuple[Message, yaml.Node] | None:
    """The place of a conversation that cases give: `- history: NAME`."""
    reader.unknown(entries, ("history",), "a history")
    node = entries["history"][1]
    name = reader.text(node, "history", "write the name of an input")
    if name is None:
        return None
    if not NAME.fullmatch(name):
        reader.fault(node, f"{name!r} cannot be the name of an input", "use letters, digits, _")
        return None
    return Message(role="user", content=f"{{{{{name}}}}}", history=True), node


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


def _refuse_unknown_keys(reader: Reader, entries: Entries) -> None:
    """A misspelt key would change what is tested in silence; keys that start with `x-` are free."""
    foreign = {name: entry for name, entry in entries.items() if not name.startswith("x-")}
    reader.unknown(foreign, TOP_KEYS, "a prompt file")


def _reader_beside(
    path: Path, committed: Callable[[str], bytes | None] | None
) -> Callable[[str], str]:
    """Reads the text of a file below the folder of a prompt."""

    def read(name: str) -> str:
        if committed is not None:
            data = committed(name)
            if data is None:
                raise ValueError("the commit has no such file")
        else:
            folder = path.parent.resolve()
            inner = (folder / name).resolve()
            if not inner.is_relative_to(folder):
                raise ValueError("it is a link that leaves the folder of the prompt")
            data = read_regular(inner, bytes_max=_TOOLS_BYTES_MAX)
        return data.decode("utf-8-sig")

    return read


def _read_tools(
    reader: Reader,
    entries: Entries,
    lines: dict[str, int],
    fields: dict[str, Any],
    read: Callable[[str], str],
) -> None:
    """`tools`, `toolChoice` and `parallelToolCalls`; the two latter go with the parameters."""
    given = {
        key: entry
        for key, entry in entries.items()
        if key in _TOOL_KEYS and scalar_tag(entry[1]) != "null"
    }
    if "tools" in given:
        fields["tools"], fields["tool_files"] = read_tools(reader, given["tools"][1], read, lines)
    names = tuple(str(tool["function"]["name"]) for tool in fields.get("tools", ()))
    added: dict[str, JSON] = {}
    for key, name in (("toolChoice", "tool_choice"), ("parallelToolCalls", "parallel_tool_calls")):
        if key not in given:
            continue
        key_node, node = given[key]
        if "tools" not in given:
            reader.fault(key_node, f"{key} is given, but there are no `tools`")
        elif name in (fields.get("parameters") or {}):
            reader.fault(key_node, f"{key} and modelParameters set {name}", "keep one of them")
        elif key == "toolChoice":
            added[name] = read_tool_choice(reader, node, names)
        else:
            added[name] = reader.json(node, key)
            if not isinstance(added[name], bool):
                reader.fault(node, "parallelToolCalls must be true or false")
    if added:
        fields["parameters"] = {**(fields.get("parameters") or {}), **added}
