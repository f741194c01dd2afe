"""Tools that a model may call, and messages of a conversation: calls, results, histories."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import yaml

from regauge.prompts._types import Message, Role, ToolCall, content_of
from regauge.prompts._yaml import is_scalar, line_of, scalar_tag
from regauge.wording import did_you_mean
from regauge.yaml_errors import explain_yaml_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.digests import JSON
    from regauge.prompts._yaml import Entries, Reader

_TOOL_KEYS: Final = ("name", "description", "parameters", "strict")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHOICES: Final = ("auto", "none", "required")
_TOOLS_FIX: Final = "write `- name: lookup`, below it `description:` and `parameters:`"
_CALL_FIX: Final = "write `- id: call_1`, below it `name:` and `arguments:`"
_MESSAGE_KEYS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})


def read_tools(
    reader: Reader,
    node: yaml.Node,
    read: Callable[[str], str],
    lines: dict[str, int],
) -> tuple[tuple[Mapping[str, JSON], ...], tuple[str, ...]]:
    """The tools of a prompt in the form the OpenAI API takes, and the files that hold some.

    Args:
        reader: Notes the errors.
        node: A list of tools, or `{file: PATH}`; an item of the list may be such a file, too.
        read: Reads a file next to the prompt; raises ValueError or OSError where it cannot.
        lines: Where the line of each tool is noted.
    """
    tools: dict[str, Mapping[str, JSON]] = {}
    files: list[str] = []
    items = [node] if _file_in(node) else reader.items(node, "tools", _TOOLS_FIX)
    for item in items:
        file = _file_in(item)
        if file:
            files.append(file)
        for value in _values_in_file(reader, item, file, read) if file else (_value(reader, item),):
            tool = _tool(reader, item, value)
            if tool is None:
                continue
            name = str(tool["name"])
            if name in tools:
                reader.fault(item, f"tools declares {name!r} twice", "rename or remove one")
            tools[name] = {"type": "function", "function": tool}
            lines[f"tools.{name}"] = line_of(item)
    return tuple(tools.values()), tuple(files)


def _file_in(node: yaml.Node) -> str:
    """The path of `{file: PATH}`; empty for anything else."""
    if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        key, value = node.value[0]
        if is_scalar(key) and key.value == "file" and is_scalar(value):
            return str(value.value)
    return ""


def _values_in_file(
    reader: Reader, node: yaml.Node, file: str, read: Callable[[str], str]
) -> tuple[JSON, ...]:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
        reader.fault(
            node,
            f"tools: {file!r} is no path below the folder of the prompt",
            "write it with / from that folder, such as tools/orders.yml",
        )
        return ()
    try:
        document: object = yaml.safe_load(read(file))
    except yaml.MarkedYAMLError as error:
        line, problem, fix = explain_yaml_error(error)
        reader.fault(node, f"tools: the file {file!r}, line {line}: {problem}", fix)
        return ()
    except (ValueError, OSError, yaml.YAMLError, RecursionError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        fix = "write it in the folder of the prompt, or correct the path"
        reader.fault(node, f"tools: the file {file!r} cannot be read: {why}", fix)
        return ()
    values = cast("list[JSON]", document if isinstance(document, list) else [document])
    return tuple(values)


def _value(reader: Reader, node: yaml.Node) -> JSON:
    if not isinstance(node, yaml.MappingNode):
        reader.mapping(node, "a tool", _TOOLS_FIX)
        return None
    return reader.json(node, "a tool")


def _tool(reader: Reader, node: yaml.Node, value: JSON) -> dict[str, JSON] | None:
    """The function of a tool; None, with the error noted, where it is none."""
    if value is None:
        return None
    if isinstance(value, dict) and value.get("type") == "function" and "function" in value:
        value = value["function"]
    if not isinstance(value, dict):
        reader.fault(node, "a tool must be a mapping", _TOOLS_FIX)
        return None
    unknown = next((key for key in value if key not in _TOOL_KEYS), None)
    name = value.get("name")
    if unknown is not None:
        fix = did_you_mean(unknown, _TOOL_KEYS) or f"known keys: {', '.join(_TOOL_KEYS)}"
        reader.fault(node, f"a tool has no key {unknown!r}", fix)
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        problem = "a tool has no `name`" if name is None else f"{name!r} cannot name a tool"
        reader.fault(node, problem, "write up to 64 letters, digits, _ and -")
    elif not isinstance(value.get("parameters", {}), dict):
        reader.fault(node, f"the parameters of tool {name!r} are no JSON schema", _TOOLS_FIX)
    elif not isinstance(value.get("strict", False), bool):
        reader.fault(node, f"`strict` of tool {name!r} must be true or false")
    else:
        return value
    return None


def read_tool_choice(reader: Reader, node: yaml.Node, names: tuple[str, ...]) -> JSON:
    """`auto`, `none`, `required`, or the one tool to call, in the form the OpenAI API takes."""
    choice = reader.text(node, "toolChoice", f"write {', '.join(_CHOICES)} or the name of a tool")
    if choice is None or choice in _CHOICES:
        return choice
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    choices = (*_CHOICES, *names)
    fix = did_you_mean(choice, choices) or f"write one of {', '.join(choices)}"
    reader.fault(node, f"toolChoice names no tool: {choice!r}", fix)
    return None


def tool_calls_of(value: object) -> tuple[ToolCall, ...]:
    """The calls in a message: `id`, `name` and `arguments`, or as the OpenAI API writes them.

    Raises:
        ValueError: They are no such list.
    """
    if not isinstance(value, list) or not value:
        raise ValueError(f"`tool_calls` is no list of calls; {_CALL_FIX}")
    return tuple(_call(item) for item in cast("list[object]", value))


def _call(item: object) -> ToolCall:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    inner: object = fields.get("function", fields)
    function = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    name = function.get("name")
    if not isinstance(name, str) or not isinstance(fields.get("id"), str):
        raise ValueError(f"a tool call has no `id` or no `name`; {_CALL_FIX}")  # noqa: TRY004
    arguments = function.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=fields["id"], name=name, arguments=arguments)


def is_conversation(value: object) -> bool:
    """Return whether a value is a list of messages."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(item, dict)
        and cast("dict[str, object]", item).get("role") in get_args(Role)
        and not item.keys().isdisjoint({"content", "tool_calls"})
        for item in cast("list[object]", value)
    )


def conversation_of(value: object) -> tuple[Message, ...]:
    """The messages of a history: a list as the OpenAI API takes it; an empty one is none.

    Raises:
        ValueError: It is no such list; the message says where.
    """
    if not isinstance(value, list):
        raise ValueError("it is no list of messages")  # noqa: TRY004 - one kind for callers
    return tuple(_message(number, item) for number, item in enumerate(cast("list[object]", value)))


def _message(number: int, item: object) -> Message:
    fields = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    unknown = sorted(fields.keys() - _MESSAGE_KEYS)
    where = f"message {number}"
    if role not in get_args(Role):
        raise ValueError(f"{where} has no role among {', '.join(get_args(Role))}")
    if unknown:
        raise ValueError(f"{where} has no key {unknown[0]!r}")
    try:
        text, attachments = content_of("" if content is None else content)
    except ValueError as error:
        raise ValueError(f"the content of {where} {error}") from error
    for part in attachments:
        if role != "user":
            raise ValueError(f"{where} has an attachment, and its role is {role}, not user")
        if not part.sha256:
            raise ValueError(f"{where} names {part.kind} {part.path!r}, read by no dataset")
    try:
        calls = tool_calls_of(fields["tool_calls"]) if "tool_calls" in fields else ()
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    answers = fields.get("tool_call_id", "")
    if content is None and not calls:
        raise ValueError(f"{where} has no content")
    if (role == "tool") != bool(answers) or not isinstance(answers, str):
        raise ValueError(f"{where}: role `tool` and `tool_call_id` belong together")
    return Message(
        role=cast("Role", role),
        content=text,
        tool_calls=calls,
        tool_call_id=answers,
        attachments=attachments,
    )


def read_message_extras(reader: Reader, item: yaml.Node, entries: Entries) -> dict[str, Any] | None:
    """`tool_calls` and `tool_call_id` of a message; None, with the error noted, where faulty."""
    role_node = entries["role"][1]
    role = role_node.value if is_scalar(role_node) else ""
    extras: dict[str, Any] = {}
    if "tool_calls" in entries:
        key, node = entries["tool_calls"]
        if role != "assistant":
            reader.fault(key, "only a message of the assistant has `tool_calls`")
            return None
        try:
            extras["tool_calls"] = tool_calls_of(reader.json(node, "tool_calls"))
        except ValueError as error:
            what, _, fix = str(error).partition("; ")
            reader.fault(node, what, fix)
            return None
    if "tool_call_id" in entries and scalar_tag(entries["tool_call_id"][1]) != "null":
        extras["tool_call_id"] = reader.text(entries["tool_call_id"][1], "tool_call_id")
    if (role == "tool") != ("tool_call_id" in extras):
        reader.fault(
            item,
            "role `tool` and `tool_call_id` belong together",
            "name the call that this message answers, such as `tool_call_id: call_1`",
        )
        return None
    return extras
