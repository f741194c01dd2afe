"""Keys of prompt files with more complex values: tools, conversations, rubrics."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import yaml

from regauge.prompts._keys import (
    TOOL_NAME,
    MessageKeys,
    RubricKeys,
    RubricKind,
    ScaleKeys,
    Share,
    ToolKeys,
)
from regauge.prompts._types import Message, Role, ToolCall, content_of
from regauge.wording import did_you_mean
from regauge.yaml_document import (
    YamlError,
    key_of,
    line_of,
    read_yaml,
    scalar_tag,
    type_of,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from regauge.digests import JSON
    from regauge.prompts._parse import Reader
    from regauge.yaml_document import Entries

_CHOICES: Final = ("auto", "none", "required")
_TOOLS_FIX: Final = "write `- name: lookup`, below it `description:` and `parameters:`"
_CALL_FIX: Final = "write `- id: call_1`, below it `name:` and `arguments:`"


def read_tools(
    reader: Reader, node: yaml.Node
) -> tuple[tuple[Mapping[str, JSON], ...], tuple[str, ...]]:
    """Read the tools of a prompt, in the form of the OpenAI API, and the names of their files.

    Args:
        reader: Receives the errors, and the line of each tool.
        node: A list of tools, or `{file: PATH}`; an item of the list may be such a file, too.
    """
    tools: dict[str, Mapping[str, JSON]] = {}
    files: list[str] = []
    items = [node] if _file_in(node) else reader.items(node, "tools", _TOOLS_FIX)
    for item in items:
        file = _file_in(item)
        if file:
            files.append(file)
        values = _values_in_file(reader, item, file) if file else _values(reader, item)
        for value in values:
            tool = _tool(reader, item, value)
            if tool is None:
                continue
            name = str(tool["name"])
            if name in tools:
                reader.add_error(item, f"tools declares {name!r} twice", "rename or remove one")
            tools[name] = {"type": "function", "function": tool}
            reader.lines[f"tools.{name}"] = line_of(item)
    return tuple(tools.values()), tuple(files)


def _file_in(node: yaml.Node) -> str:
    """The path of `{file: PATH}`; empty for anything else."""
    if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        key, value = node.value[0]
        if (
            isinstance(key, yaml.ScalarNode)
            and key.value == "file"
            and isinstance(value, yaml.ScalarNode)
        ):
            return str(value.value)
    return ""


def _values_in_file(reader: Reader, node: yaml.Node, file: str) -> tuple[JSON, ...]:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
        reader.add_error(
            node,
            f"tools: {file!r} is not a path below the folder of the prompt",
            "write it with / from that folder, such as tools/orders.yml",
        )
        return ()
    try:
        document = read_yaml(reader.read_sibling(file))
    except YamlError as error:
        problem = str(error).removeprefix("not YAML: ")
        place = "" if error.line is None else f", line {error.line}"
        reader.add_error(node, f"tools: the file {file!r}{place}: {problem}", error.fix)
        return ()
    except (ValueError, OSError) as error:
        problem = getattr(error, "strerror", None) or " ".join(str(error).split())
        fix = "write it in the folder of the prompt, or correct the path"
        reader.add_error(node, f"tools: the file {file!r} cannot be read: {problem}", fix)
        return ()
    return tuple(document) if isinstance(document, list) else (document,)


def _values(reader: Reader, node: yaml.Node) -> tuple[JSON, ...]:
    if not isinstance(node, yaml.MappingNode):
        reader.mapping(node, "a tool", _TOOLS_FIX)
        return ()
    value = reader.json(node, "a tool")
    return () if value is None else (value,)


def _tool(reader: Reader, node: yaml.Node, value: JSON) -> dict[str, JSON] | None:
    """Check the function of a tool; None, with an error, if it is invalid."""
    if isinstance(value, dict) and value.get("type") == "function" and "function" in value:
        value = value["function"]
    if not isinstance(value, dict):
        reader.add_error(node, "a tool must be a mapping", _TOOLS_FIX)
        return None
    keys = types_of(ToolKeys)
    unknown = next((key for key in value if key not in keys), None)
    name = value.get("name")
    if unknown is not None:
        # Schemas of Anthropic and of MCP.
        is_schema = unknown in {"input_schema", "inputSchema"}
        similar = "parameters" if is_schema else unknown
        fix = did_you_mean(similar, keys) or f"known keys: {', '.join(keys)}"
        if unknown == "type":
            fix = "remove `type`, or write the other keys below `function:`"
        reader.add_error(node, f"a tool has no key {unknown!r}", fix)
    elif not isinstance(name, str) or not re.fullmatch(TOOL_NAME, name):
        problem = "a tool has no `name`" if name is None else f"{name!r} cannot name a tool"
        reader.add_error(node, problem, "write up to 64 letters, digits, _ and -")
    elif not isinstance(value.get("parameters", {}), dict):
        reader.add_error(node, f"the parameters of tool {name!r} are not a JSON schema", _TOOLS_FIX)
    elif not isinstance(value.get("strict", False), bool):
        reader.add_error(node, f"`strict` of tool {name!r} must be true or false")
    else:
        return value
    return None


def read_tool_choice(reader: Reader, node: yaml.Node, names: tuple[str, ...]) -> JSON:
    """Read `auto`, `none`, `required` or the name of a tool, in the form of the OpenAI API."""
    choice = reader.text(node, "toolChoice", f"write {', '.join(_CHOICES)} or the name of a tool")
    if choice is None or choice in _CHOICES:
        return choice
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    choices = (*_CHOICES, *names)
    fix = did_you_mean(choice, choices) or f"write one of {', '.join(choices)}"
    reader.add_error(node, f"toolChoice names no tool: {choice!r}", fix)
    return None


def tool_calls_of(value: object) -> tuple[ToolCall, ...]:
    """Parse the calls in a message: `id`, `name` and `arguments`, or the form of the OpenAI API.

    Raises:
        ValueError: The value is not such a list.
    """
    if not isinstance(value, list) or not value:
        raise ValueError(f"`tool_calls` is not a list of calls; {_CALL_FIX}")
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
    """Parse the messages of a history, in the form of the OpenAI API.

    Raises:
        ValueError: The value is not such a list; the error has the place.
    """
    if not isinstance(value, list):
        raise ValueError("it is not a list of messages")  # noqa: TRY004 - one kind for callers
    return tuple(_message(number, item) for number, item in enumerate(cast("list[object]", value)))


def _message(number: int, item: object) -> Message:
    fields = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    unknown = sorted(fields.keys() - types_of(MessageKeys).keys())
    place = f"message {number}"
    if role not in get_args(Role):
        raise ValueError(f"{place} has no role among {', '.join(get_args(Role))}")
    if unknown:
        raise ValueError(f"{place} has no key {unknown[0]!r}")
    try:
        text, attachments = content_of("" if content is None else content)
    except ValueError as error:
        raise ValueError(f"the content of {place} {error}") from error
    for part in attachments:
        if role != "user":
            raise ValueError(f"{place} has an attachment, and its role is {role}, not user")
        if not part.sha256:
            raise ValueError(f"{place} names {part.kind} {part.path!r}, read by no dataset")
    try:
        calls = tool_calls_of(fields["tool_calls"]) if "tool_calls" in fields else ()
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    call_id = fields.get("tool_call_id", "")
    if content is None and not calls:
        raise ValueError(f"{place} has no content")
    if (role == "tool") != bool(call_id) or not isinstance(call_id, str):
        raise ValueError(f"{place}: role `tool` and `tool_call_id` belong together")
    return Message(
        role=cast("Role", role),
        content=text,
        tool_calls=calls,
        tool_call_id=call_id,
        attachments=attachments,
    )


def read_message_extras(reader: Reader, item: yaml.Node, entries: Entries) -> dict[str, Any] | None:
    """Read `tool_calls` and `tool_call_id` of a message; None, with an error, if invalid."""
    role_node = entries["role"][1]
    role = role_node.value if isinstance(role_node, yaml.ScalarNode) else ""
    extras: dict[str, Any] = {}
    if "tool_calls" in entries:
        key, node = entries["tool_calls"]
        if role != "assistant":
            reader.add_error(key, "only a message of the assistant has `tool_calls`")
            return None
        try:
            extras["tool_calls"] = tool_calls_of(reader.json(node, "tool_calls"))
        except ValueError as error:
            problem, _, fix = str(error).partition("; ")
            reader.add_error(node, problem, fix)
            return None
    if "tool_call_id" in entries and scalar_tag(entries["tool_call_id"][1]) != "null":
        extras["tool_call_id"] = reader.text(entries["tool_call_id"][1], "tool_call_id")
    if (role == "tool") != ("tool_call_id" in extras):
        reader.add_error(
            item,
            "role `tool` and `tool_call_id` belong together",
            "name the call whose result this message is, such as `tool_call_id: call_1`",
        )
        return None
    return extras


_KINDS: tuple[RubricKind, ...] = get_args(RubricKind)
_KEY_KINDS = {"scale": "graded", "choices": "choice", "ties": "pair"}
_JUDGED_VARIABLES: Mapping[RubricKind, tuple[str, ...]] = {
    "graded": ("answer",),
    "binary": ("answer",),
    "choice": ("answer",),
    "pair": ("first", "second"),
}
_OF_CONVERSATIONS = frozenset({"conversation", "tool_calls"})
_REFERENCES = ("reference", "expected")
_FIX = f"write `kind:` with one of {', '.join(_KINDS)}"
# Models follow a schema with up to this many listed values; a longer scale takes any number.
_LISTED_MAX = 11
_CHOICES_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSpec:
    """The form of a rubric's verdict.

    Attributes:
        kind: `graded` on a scale, `binary`, `choice` of a label, or `pair` for the better of two.
        low: The worst value of the scale.
        high: The best value of the scale.
        choices: The score of each label, from 0 (worst) to 1 (best).
        reference: The verdict compares with a reference.
        ties: A pair may be a tie.
        pass_at: The least score from 0 to 1 that passes, unless the eval sets one.
    """

    kind: RubricKind
    low: float = 0
    high: float = 1
    choices: Mapping[str, float] = field(default_factory=dict[str, float])
    reference: bool = False
    ties: bool = False
    pass_at: float = 0.5

    @property
    def steps(self) -> tuple[int, ...]:
        """The values of a short scale of whole numbers, worst first; empty for any other scale."""
        is_whole = self.low == int(self.low) and self.high == int(self.high)
        count = int(self.high - self.low) + 1
        if self.kind != "graded" or not is_whole or not _CHOICES_MIN < count <= _LISTED_MAX:
            return ()
        return tuple(range(int(self.low), int(self.high) + 1))

    @property
    def verdict_key(self) -> str:
        """The key of the verdict in the response."""
        return {"graded": "score", "binary": "verdict", "choice": "choice", "pair": "winner"}[
            self.kind
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """The possible verdicts; empty for a graded one."""
        match self.kind:
            case "graded":
                return ()
            case "binary":
                return ("pass", "fail")
            case "choice":
                return tuple(self.choices)
            case "pair":
                return ("first", "second", "tie") if self.ties else ("first", "second")

    def __str__(self) -> str:
        means: Mapping[RubricKind, str] = {
            "graded": f"graded, {self.low:g} to {self.high:g}",
            "binary": "pass or fail",
            "choice": "choice of " + ", ".join(self.choices),
            "pair": "the better of two" + (", or a tie" if self.ties else ""),
        }
        against = ", against a reference" if self.reference else ""
        return f"{means[self.kind]}{against}, passes at {self.pass_at:g}"

    def response_format(self) -> dict[str, JSON]:
        """The response format for the OpenAI API: reasoning first, then the verdict."""
        verdict: dict[str, JSON] = {"type": "string", "enum": list(self.labels)}
        if self.kind == "graded":
            steps = self.steps
            verdict = {"type": "integer", "enum": list(steps)} if steps else {"type": "number"}
        schema: dict[str, JSON] = {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, self.verdict_key: verdict},
            "required": ["reasoning", self.verdict_key],
            "additionalProperties": False,
        }
        name = f"rubric_{self.kind}"
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": schema},
        }

    def to_json(self) -> dict[str, JSON]:
        """Convert the settings outside the response format to JSON, for digests."""
        return {
            "kind": self.kind,
            "scale": [self.low, self.high],
            "choices": dict(self.choices),
            "reference": self.reference,
            "pass_at": self.pass_at,
        }


def read_rubric(reader: Reader, entries: Entries, variables: Collection[str]) -> RubricSpec | None:
    """Read the key `rubric`; None, with errors, if it is invalid.

    Args:
        reader: Receives the errors.
        entries: The top-level entries of the file.
        variables: The variables of the messages.
    """
    key, node = entries["rubric"]
    inner = reader.read(node, RubricKeys, "rubric", _FIX)
    for other in ("responseFormat", "jsonSchema"):
        if other in entries:
            message = f"{other} is given, but `rubric` decides the form of the reply"
            reader.add_error(entries[other][0], message, "remove it")
    if "kind" not in inner:
        return None
    kind: RubricKind = inner["kind"]
    for name, of in _KEY_KINDS.items():
        if name in inner and kind != of:
            reader.add_error(
                key_of(node, name), f"rubric: {name!r} belongs to the kind {of}, not {kind}"
            )
    missing = [name for name in _JUDGED_VARIABLES[kind] if name not in variables]
    if kind != "pair" and _OF_CONVERSATIONS.intersection(variables):
        missing = []
    if missing:
        message = f"no message uses {{{{{missing[0]}}}}}, so nothing would be judged"
        reader.add_error(key, message, f"put {{{{{missing[0]}}}}} into a message")
    low, high = _scale(reader, key_of(node, "scale"), inner)
    return RubricSpec(
        kind=kind,
        low=low,
        high=high,
        choices=_choices(reader, node, inner) if kind == "choice" else {},
        reference=_reference(reader, key_of(node, "reference"), inner, variables),
        ties=inner.get("ties", False),
        pass_at=inner.get("pass_at", 0.5),
    )


def _scale(reader: Reader, node: yaml.Node, inner: dict[str, Any]) -> tuple[float, float]:
    if "scale" not in inner:
        return 0, 1
    fix = "write `scale: {min: 1, max: 5}`"
    ends = reader.read(inner["scale"], ScaleKeys, "scale", fix)
    if "max" not in ends:
        return 0, 1
    scale = ScaleKeys(**ends)
    if scale.min >= scale.max:
        reader.add_error(node, f"scale: min {scale.min} is not below max {scale.max}", fix)
        return 0, 1
    return scale.min, scale.max


def _choices(reader: Reader, node: yaml.Node, inner: dict[str, Any]) -> dict[str, float]:
    fix = "write `choices: {good: 1, bad: 0}`, the score of each label from 0 to 1"
    if "choices" not in inner:
        reader.add_error(node, "a rubric of kind choice has no `choices`", fix)
        return {}
    labels = reader.mapping(inner["choices"], "choices", fix)
    if labels is None:
        return {}
    if len(labels) < _CHOICES_MIN:
        reader.add_error(inner["choices"], "choices: there is nothing to choose between", fix)
    names_by_fold: dict[str, str] = {}
    scores: dict[str, float] = {}
    for name, (key, value) in labels.items():
        twin = names_by_fold.setdefault(name.strip().casefold(), name)
        if twin != name or not name.strip():
            reader.add_error(
                key, f"choices: {name!r} cannot be distinguished from {twin!r} in a reply"
            )
        score = reader.number(value, type_of(Share), f"the score of {name!r}")
        scores[name] = 0.0 if score is None else score
    return scores


def _reference(
    reader: Reader, key: yaml.Node, inner: dict[str, Any], variables: Collection[str]
) -> bool:
    is_used = any(name.partition(".")[0] in _REFERENCES for name in variables)
    setting = inner.get("reference", is_used)
    if setting != is_used:
        uses = "no message uses" if setting else "a message uses"
        message = f"rubric: reference is {str(setting).lower()}, but {uses}"
        reader.add_error(key, f"{message} {{{{reference}}}} or {{{{expected}}}}")
    return is_used
