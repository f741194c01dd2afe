"""Tool calls as several vendors write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regauge.providers import ToolCall


def calls_of(output: Any) -> list[ToolCall]:
    """The tool calls of an output, in the forms of several vendors."""
    if isinstance(output, Mapping):
        output = output.get("tool_calls", [output])
    calls: list[ToolCall] = []
    for item in output if isinstance(output, list) else []:
        function = item.get("function", item.get("functionCall", item))
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            continue
        arguments = function.get("arguments", function.get("input", function.get("args", {})))
        calls.append(
            ToolCall(
                id=str(item.get("id", "")),
                name=function["name"],
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
            )
        )
    return calls
