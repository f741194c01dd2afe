"""`Script`: the conversation of a case: turns, user, and tool results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from regauge.strict_json import is_sequence

if TYPE_CHECKING:
    from regauge.digests import JSON


_ANY_TOOL: Final = "*"
STEPS_DEFAULT: Final = 8
TURNS_DEFAULT: Final = 10
COUNT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a scripted conversation.

    Attributes:
        user: The user's message: a text, or a list of texts and attachments; empty if the prompt
            itself ends with one.
        expected: The value that judges of this turn compare with.
        checks: Judges of this turn alone.
    """

    user: JSON = ""
    expected: JSON = None
    checks: tuple[JSON, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """A plain document without unset values."""
        document: dict[str, JSON] = {"user": self.user} if self.user else {}
        if self.expected is not None:
            document["expected"] = self.expected
        if self.checks:
            document["checks"] = self.checks
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool for calls with certain arguments.

    Attributes:
        args: Arguments that a call must have; it may have others.
        content: The text that the model receives.
    """

    args: Mapping[str, JSON]
    content: str

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for digests."""
        return {"args": self.args, "content": self.content}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResults:
    """The results of one file below `fixtures/tools`.

    Attributes:
        name: The file without `.yml`.
        entries: By tool, the results in the order of the file; `*` is for all tools.
        functions: By tool, the function that is called instead, as `module:function`.
    """

    name: str
    entries: Mapping[str, tuple[ToolResult, ...]]
    functions: Mapping[str, str] = field(default_factory=dict[str, str])

    def find(self, tool: str, arguments: Mapping[str, JSON]) -> str | None:
        """The text of the first result that matches a call; None if none does."""
        for name in (tool, _ANY_TOOL):
            for entry in self.entries.get(name, ()):
                if _has_parts(entry.args, arguments):
                    return entry.content
        return None

    def find_function(self, tool: str) -> str | None:
        """The function for calls of a tool; None if it has none."""
        if tool in self.functions or tool in self.entries:
            return self.functions.get(tool)
        return self.functions.get(_ANY_TOOL)

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for digests."""
        return {
            "entries": {
                name: [entry.to_json() for entry in entries]
                for name, entries in self.entries.items()
            },
            "functions": dict(self.functions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The conversation of a case.

    Attributes:
        turns: The user's messages; empty if a persona writes them.
        persona: The prompt of the model that plays the user; empty for none.
        max_turns: The maximum number of messages from a persona.
        tools: The results of tool calls; None if the case has none.
        max_steps: The maximum number of calls to the tested model in one turn.
    """

    turns: tuple[Turn, ...] = ()
    persona: str = ""
    max_turns: int = TURNS_DEFAULT
    tools: ToolResults | None = None
    max_steps: int = STEPS_DEFAULT

    @property
    def length(self) -> int:
        """The maximum number of turns."""
        return self.max_turns if self.persona else max(1, len(self.turns))

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for digests."""
        return {
            "turns": [turn.user for turn in self.turns],
            "persona": self.persona,
            "max_turns": self.max_turns,
            "tools": None if self.tools is None else self.tools.to_json(),
            "max_steps": self.max_steps,
        }

    def to_record(self) -> dict[str, JSON]:
        """The keys of the case's record that describe the conversation."""
        record: dict[str, JSON] = {}
        if self.turns:
            record["turns"] = [turn.to_json() for turn in self.turns]
        if self.persona:
            record |= {"persona": self.persona, "max_turns": self.max_turns}
        if self.tools is not None:
            record["tools"] = self.tools.name
        if self.max_steps != STEPS_DEFAULT:
            record["max_steps"] = self.max_steps
        return record

    @property
    def golden(self) -> list[JSON]:
        """The expected values that judges of its turns compare with."""
        return [
            {key: value for key, value in turn.to_json().items() if key != "user"}
            for turn in self.turns
        ]


def _has_parts(expected: JSON, actual: JSON) -> bool:
    """Return whether a value has all keys of an expected mapping, with everything else equal.

    >>> _has_parts({"id": 7}, {"id": 7, "limit": 5}), _has_parts({"id": 1}, {"id": True})
    (True, False)
    """
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and _has_parts(value, actual[key]) for key, value in expected.items()
        )
    if is_sequence(expected):
        if not is_sequence(actual):
            return False
        return len(expected) == len(actual) and all(map(_has_parts, expected, actual))
    return expected == actual and isinstance(expected, bool) is isinstance(actual, bool)


def result_content(result: JSON) -> str:
    """A result for the model: text unchanged, any other value as JSON."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def error_content(message: str) -> str:
    """A tool's error for the model."""
    return json.dumps({"error": message}, ensure_ascii=False)
