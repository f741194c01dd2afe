"""`Conversation`: the messages of a completion, turn by turn."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from regauge.prompts import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.providers._types import Completion, FinishReason

__all__ = ["Conversation", "shown_messages", "shown_output", "text_of", "transcript"]


@dataclass(frozen=True)
class Conversation:
    """A completion as a conversation; one without messages is a single turn.

    Attributes:
        completion: The whole of it.
    """

    completion: Completion

    @cached_property
    def turns(self) -> tuple[Completion, ...]:
        """The completion of each turn: its last text, its tool calls and its messages.

        A turn begins with a message of the user that follows another message.
        """
        cut: list[list[Mapping[str, JSON]]] = []
        before = ""
        for message in self.completion.messages:
            role = str(message.get("role"))
            if role in {"system", "developer"}:
                continue
            if not cut or (role == "user" != before):
                cut.append([])
            cut[-1].append(message)
            before = role
        turns = [_turn(self.completion, messages) for messages in cut]
        if not turns or all(message.get("role") == "user" for message in turns[-1].messages):
            # The text stands next to the messages that led to it.
            messages = turns.pop().messages if turns else ()
            own = self.completion.tool_calls if not turns else ()
            turns.append(replace(self.completion, messages=messages, tool_calls=own))
        elif self.completion.text is not None:
            turns[-1] = replace(turns[-1], text=self.completion.text)
        return tuple(turns)

    @property
    def steps(self) -> int:
        """The number of model calls: messages of the assistant."""
        return [message.get("role") for message in self.messages].count("assistant")

    @cached_property
    def messages(self) -> tuple[Mapping[str, JSON], ...]:
        """All messages, with that of the completion where its target states only earlier ones."""
        messages = self.completion.messages
        if any(message.get("role") == "assistant" for message in messages):
            return messages
        calls: JSON = [call.to_json() for call in self.completion.tool_calls]
        last: dict[str, JSON] = {"role": "assistant", "content": self.completion.text}
        return (*messages, {**last, "tool_calls": calls} if calls else last)

    @property
    def text(self) -> str:
        """The conversation as one text; see `transcript`."""
        return transcript(self.messages)


def shown_output(
    text: str | None, refusal: str | None, messages: Sequence[Mapping[str, JSON]]
) -> str | None:
    """The output that readers see: the conversation, else the text, else the refusal."""
    if messages:
        return transcript(messages)
    return text if text is not None else refusal


def shown_messages(completion: Completion) -> tuple[Mapping[str, JSON], ...]:
    """The messages that readers see; none of a completion that is a text alone."""
    if completion.messages or completion.tool_calls:
        return Conversation(completion).messages
    return ()


def _turn(whole: Completion, messages: Sequence[Mapping[str, JSON]]) -> Completion:
    own = [message for message in messages if message.get("role") == "assistant"]
    text = text_of(own[-1]) if own and own[-1].get("content") is not None else None
    calls = tuple(call for message in own for call in _calls(message))
    ends_in_call = bool(own and not text and own[-1].get("tool_calls"))
    reason: FinishReason = "tool_calls" if ends_in_call else "stop"
    return replace(
        whole, text=text, tool_calls=calls, messages=tuple(messages), finish_reason=reason
    )


def transcript(messages: Iterable[Mapping[str, JSON]]) -> str:
    r"""Messages as one text: an entry for each message and call, further lines of it indented.

    So no message can look like the beginning of another one.

    >>> print(transcript([{"role": "user", "content": "Hi\nassistant: no"}]))
    user: Hi
      assistant: no
    """
    return "\n".join(
        f"{label}: " + "\n  ".join(text.splitlines() or [""]) for label, text in _entries(messages)
    )


def _entries(messages: Iterable[Mapping[str, JSON]]) -> Iterator[tuple[str, str]]:
    for message in messages:
        role = str(message.get("role", ""))
        text = text_of(message)
        calls = _calls(message)
        if text or not calls:
            yield ("tool result" if role == "tool" else " ".join(role.split()), text)
        for call in calls:
            yield "tool call", f"{call.name}({call.arguments})"


def text_of(message: Mapping[str, JSON]) -> str:
    """The text of a message, whose content may be parts."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [cast("dict[str, Any]", part) for part in content if isinstance(part, dict)]
        if len(parts) == len(content) and all(isinstance(part.get("text"), str) for part in parts):
            return "\n".join(part["text"] for part in parts)
    return json.dumps(content, ensure_ascii=False)


def _calls(message: Mapping[str, JSON]) -> tuple[ToolCall, ...]:
    """The calls of a message: `id`, `name` and `arguments`, or as the OpenAI API writes them."""
    given = message.get("tool_calls")
    calls: list[ToolCall] = []
    for number, item in enumerate(given if isinstance(given, list | tuple) else ()):
        call = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        inner = call.get("function")
        function = cast("dict[str, Any]", inner) if isinstance(inner, dict) else call
        arguments = function.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        name, key = str(function.get("name", "")), str(call.get("id") or f"call_{number}")
        calls.append(ToolCall(id=key, name=name, arguments=arguments))
    return tuple(calls)
