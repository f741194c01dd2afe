"""Calls of declared tools, and snippets that are filled from a skeleton in the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.lexicon import Lexicon
from regauge.prompts import ToolCall
from regauge.sim._text import stems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.providers import CompletionRequest
    from regauge.sim._instructions import Layout
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "snippet")


_VALUE: Final = r"`([^`\n]+)`|\"([^\"\n]+)\"|([\w/~$%*+-][\w./:~$%@*+-]*)"
_LINK: Final = r"[\s:=]+(?:(?:is|are|of|as|to|at|in|called|named|should be|set to)\s+)*"
_KINDS: Final[Mapping[str, str]] = _RE.entry("kinds")
_INVENTED: Final[Mapping[str, str]] = _RE.entry("invented")
_VERBS: Final = frozenset(stems(_RE.entry("verbs")))
_OPENING: Final = "Here is the snippet you asked for:"


def tool_results(request: CompletionRequest) -> dict[str, str]:
    """The values that tools returned in the last turn of a conversation, by name.

    The fields of a JSON object have their names; anything else has the name of its tool.
    """
    values: dict[str, str] = {}
    names = {call.id: call.name for m in request.messages for call in m.tool_calls}
    for message in request.messages:
        if message.role == "user":
            values = {}
        if message.role != "tool":
            continue
        try:
            result: Any = json.loads(message.content)
        except ValueError:
            result = message.content
        if isinstance(result, Mapping):
            fields = cast("Mapping[str, object]", result)
            values |= {key: _written(value) for key, value in fields.items()}
        else:
            values[names.get(message.tool_call_id, "result")] = _written(result)
    return values


def fill_skeleton(
    request: CompletionRequest, layout: Layout, dice: Dice
) -> str | tuple[ToolCall, ...] | None:
    """The skeleton with its slots filled, or calls that are needed first; None without one."""
    skeleton = next((body for tag, body in layout.parts if tag.lower() == "skeleton"), "")
    slots = list(dict.fromkeys(_RE.slot.findall(skeleton)))
    if not slots:
        return None
    text = "\n".join(body for tag, body in layout.parts if tag.lower() != "skeleton")
    returned = tool_results(request)
    values = {slot: _returned(slot, returned) or _stated(slot, text) for slot in slots}
    unknown = [slot for slot, value in values.items() if value is None]
    calls = [call for slot in unknown if (call := _call_for(slot, request, text, dice))]
    if calls:
        return _numbered(calls)
    leaves = _RE.leaves.search(layout.instructions) is not None
    for slot in unknown:
        if not leaves or dice.fails(f"invented {slot}", 1.0):
            values[slot] = _INVENTED.get(slot.rpartition("_")[2], "1")
    filled = _RE.slot.sub(lambda match: values.get(match[1]) or match[0], skeleton).strip("\n")
    only = 0.3 if _RE.only.search(layout.instructions) else 0.0
    if dice.fails(
        "code fence", 0.4 + only + (0.3 if _RE.no_fence.search(layout.instructions) else 0)
    ):
        filled = f"```\n{filled}\n```"
    if dice.fails("chatter", 0.7 + only):
        filled = f"{_OPENING}\n\n{filled}"
    return filled


def call_tool(
    request: CompletionRequest, layout: Layout, dice: Dice
) -> tuple[ToolCall, ...] | None:
    """The call of the declared tool that a request without a skeleton speaks of."""
    choice = request.parameters.get("tool_choice")
    if choice == "none" or not request.tools or tool_results(request):
        return None
    words = set(stems(layout.document or layout.instructions))
    scored = [
        (len(words & names) / len(names), function)
        for function in _functions(request)
        if (names := set(stems(_spaced(function["name"]))) - _VERBS)
    ]
    forced = _forced(choice)
    for score, function in sorted(scored, key=lambda part: -part[0]):
        if function["name"] == forced or (not forced and (score == 1 or choice == "required")):
            call = _called(function, layout.document or layout.instructions, forced=bool(choice))
            if call is not None and not dice.fails("missed call", 1.0):
                return _numbered([call])
    return None


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _spaced(name: str) -> str:
    return re.sub(r"[_-]+|(?<=[a-z0-9])(?=[A-Z])", " ", name)


def _returned(slot: str, returned: Mapping[str, str]) -> str | None:
    """The value that a tool returned for a slot: the field with its words, or the last."""
    words = set(stems(_spaced(slot)))
    for name, value in returned.items():
        if set(stems(_spaced(name))) & words:
            return value
    return None


def _stated(name: str, text: str) -> str | None:
    """The value that a text states for a name.

    It stands behind the words of the name, before them where it is a number, or it is the only
    value of the kind that the last word of the name tells.
    """
    words = name.split("_")
    for start in range(len(words)):
        spoken = r"[\s_-]+".join(map(re.escape, words[start:]))
        # A kind alone, such as "cidr", may stand for several values.
        match = re.search(rf"(?i:\b{spoken}){_LINK}(?:{_VALUE})", text)
        value = _value_of(match)
        if value is not None and _fits(words[-1], value):
            return value
        counted = re.search(rf"(?<![\w.-])(\d+(?:\.\d+)?)[\s-]+(?i:{spoken})\b", text)
        if counted is not None:
            return counted[1]
    kind = _KINDS.get(words[-1])
    values = set(re.findall(kind, text)) if kind is not None else set[str]()
    return values.pop() if len(values) == 1 else None


def _value_of(found: re.Match[str] | None) -> str | None:
    if found is None:
        return None
    quoted = found[1] or found[2]
    return quoted if quoted is not None else str(found[3]).rstrip(".:,;")


def _fits(kind: str, value: str) -> bool:
    pattern = _KINDS.get(kind)
    if pattern is not None:
        return re.fullmatch(pattern.replace(r"\b", ""), value) is not None
    if kind in {"replicas", "port", "days", "seconds", "percent", "bits", "number", "count"}:
        return re.fullmatch(r"\d+(?:\.\d+)?%?", value) is not None
    return True


def _functions(request: CompletionRequest) -> Iterator[dict[str, Any]]:
    for tool in request.tools:
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield cast("dict[str, Any]", function)


def _forced(choice: object) -> str:
    """The name of the one tool that a request demands."""
    fields = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    function: dict[str, Any] = fields.get("function") or {}
    return str(function.get("name", ""))


def _call_for(
    slot: str, request: CompletionRequest, text: str, dice: Dice
) -> tuple[str, str] | None:
    """The call that gives a slot its value: of the tool whose name has the slot's last word."""
    if request.parameters.get("tool_choice") == "none":
        return None
    wanted = set(stems(slot.rpartition("_")[2]))
    for function in _functions(request):
        if wanted & set(stems(_spaced(function["name"]))):
            call = _called(function, text, forced=False)
            made = {(c.name, c.arguments) for m in request.messages for c in m.tool_calls}
            if call is not None and call not in made and not dice.fails("missed call", 1.0):
                return call
    return None


def _called(function: Mapping[str, Any], text: str, *, forced: bool) -> tuple[str, str] | None:
    """The name and arguments of a call; None where a required argument is not stated."""
    schema: Any = function.get("parameters") or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    arguments: dict[str, Any] = {}
    for name, declared in properties.items():
        value = _argument(name, declared, text)
        if value is not None:
            arguments[name] = value
        elif name in required and not forced:
            return None
    return str(function["name"]), json.dumps(arguments, ensure_ascii=False)


def _argument(name: str, schema: object, text: str) -> object:
    declared = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    options: object = declared.get("enum")
    if isinstance(options, list):
        known = cast("list[object]", options)
        return next((o for o in known if re.search(rf"\b{re.escape(str(o))}\b", text)), None)
    value = _stated(name, text)
    if value is None or declared.get("type") not in {"integer", "number", "boolean"}:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _numbered(calls: list[tuple[str, str]]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=f"call_{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(dict.fromkeys(calls), start=1)
    )
