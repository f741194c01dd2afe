"""deepeval's test cases, made of the fields of a golden case. Imports deepeval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from deepeval.test_case import (
    ArenaTestCase,
    Contestant,
    ConversationalTestCase,
    LLMTestCase,
    MCPServer,
    ToolCall,
    Turn,
)

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["ANSWER", "RIVAL", "arena_case", "conversation", "single_turn", "tool_calls"]

ANSWER: Final = "answer"
RIVAL: Final = "against"

_SINGLE: Final = (
    "input",
    "actual_output",
    "expected_output",
    "context",
    "retrieval_context",
    "metadata",
)
_CONVERSATION: Final = ("scenario", "context", "user_description", "expected_outcome", "metadata")
_OF_THE_ANSWER: Final = ("retrieval_context", "provider_transcript")


def single_turn(fields: Mapping[str, JSON]) -> LLMTestCase:
    """A test case of one question and one answer."""
    given: dict[str, Any] = {name: fields[name] for name in _SINGLE if name in fields}
    given.setdefault("input", "")
    for name in ("tools_called", "expected_tools"):
        if name in fields:
            given[name] = tool_calls(fields[name])
    if "mcp_servers" in fields:
        given["mcp_servers"] = _servers(fields["mcp_servers"])
    made: Any = LLMTestCase(**given)
    made.multimodal = False  # a text may spell deepeval's mark of an image; it stays a text
    trace = fields.get("trace")
    if isinstance(trace, Mapping):
        made._trace_dict = dict(trace)  # noqa: SLF001 - where metrics of agents look for it
    return cast("LLMTestCase", made)


def conversation(fields: Mapping[str, JSON]) -> ConversationalTestCase:
    """A conversation whose last turn is the answer."""
    turns = [_turn(turn) for turn in _many(fields.get("turns"))]
    if not turns:
        turns = [Turn(role="user", content=str(fields.get("input", "")))]
    last: dict[str, Any] = {name: fields[name] for name in _OF_THE_ANSWER if name in fields}
    if "tools_called" in fields:
        last["tools_called"] = tool_calls(fields["tools_called"])
    answer = str(fields.get("actual_output", ""))
    turns.append(Turn(role="assistant", content=answer, **last))
    given: dict[str, Any] = {name: fields[name] for name in _CONVERSATION if name in fields}
    if "chatbot_role" in fields:
        given["chatbot_role"] = fields["chatbot_role"]
    if "mcp_servers" in fields:
        given["mcp_servers"] = _servers(fields["mcp_servers"])
    made = ConversationalTestCase(turns=turns, **given)
    made.multimodal = False  # as above
    return made


def arena_case(fields: Mapping[str, JSON]) -> ArenaTestCase:
    """The answer and the text it competes with, on the same input."""
    rival = {**fields, "actual_output": fields.get("against")}
    return ArenaTestCase(
        contestants=[
            Contestant(name=ANSWER, test_case=single_turn(fields)),
            Contestant(name=RIVAL, test_case=single_turn(rival)),
        ]
    )


def tool_calls(value: object) -> list[ToolCall]:
    """Tool calls, written as names or as objects with deepeval's keys."""
    return [_tool_call(tool) for tool in _many(value)]


def _tool_call(tool: Any) -> ToolCall:
    if isinstance(tool, ToolCall):
        return tool
    given: dict[str, Any] = {"name": tool} if isinstance(tool, str) else dict(tool)
    return ToolCall(**given)


def _turn(value: object) -> Turn:
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", value))
    if given.get("tools_called") is not None:
        given["tools_called"] = tool_calls(given["tools_called"])
    return Turn(**given)


def _servers(value: object) -> list[MCPServer]:
    return [MCPServer(**cast("dict[str, Any]", entry)) for entry in _many(value)]


def _many(value: object) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(cast("Sequence[object]", value))
    return [value]
