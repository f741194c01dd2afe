"""Requests to models and their completions, for any provider."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, get_args

from regauge.prompts import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.prompts import Message


FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "unknown"]

_FINISH_REASONS: Final = frozenset(get_args(FinishReason))
# `canonical_json` builds an encoder per call, which costs more than a digest may. A mapping that
# is not a dict, such as a read-only view of one, reaches the encoder's default and becomes one.
_ENCODE: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One call of one model.

    Attributes:
        model: Without provider: `clerk-1`, `gpt-5.4-mini`.
        provider: `sim`, `openai`, or the name of a `[tool.regauge.providers.<name>]`.
        parameters: `temperature`, `max_tokens`, `seed` and others, in snake_case.
        response_format: In the API's form.
        tools: In the API's form.
        trial: The trial number, from 0. Not part of the digest.
        origin: The prompt file, for error messages. Not part of the digest.
        named_by: The option, setting or file that names the model. Not part of the digest.
        provider_override: Replaces the provider of the project. Not part of the digest.
        case: The case, for targets other than prompts. Not part of the digest.
        files: The folder of attachments. Not part of the digest.
        conversation: The digest of a conversation that begins with these messages, if the request
            stands for all of it. Such a request is never sent to a provider.
        optional: Parameters that are dropped if the endpoint does not support them. Not part of the
            digest.
    """

    model: str
    provider: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, JSON]
    response_format: Mapping[str, JSON] | None = None
    tools: tuple[Mapping[str, JSON], ...] = ()
    trial: int = 0
    origin: str = ""
    named_by: str = field(default="", compare=False, repr=False)
    provider_override: Provider | None = field(default=None, compare=False, repr=False)
    case: GoldenCase | None = field(default=None, compare=False, repr=False)
    files: Path | None = field(default=None, compare=False, repr=False)
    conversation: str = ""
    optional: tuple[str, ...] = field(default=(), compare=False, repr=False)
    _digest: str = field(default="", init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """The digest of everything that can change the completion."""
        if not self._digest:
            text = _ENCODE(
                {
                    "messages": [m.to_json() for m in self.messages],
                    "model": self.model,
                    "parameters": self.parameters,
                    "provider": self.provider,
                    "response_format": self.response_format,
                    "tools": self.tools,
                }
            )
            digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
            object.__setattr__(self, "_digest", digest)
        return self._digest

    def for_trial(self, trial: int) -> CompletionRequest:
        """Return the same request for another trial, with the same digest."""
        other = replace(self, trial=trial)
        object.__setattr__(other, "_digest", self._digest)
        return other


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts. Cached input is part of the input, reasoning is part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        counts = asdict(other)
        return Usage(**{name: count + counts[name] for name, count in asdict(self).items()})

    def to_json(self) -> dict[str, JSON]:
        """Return the counts; cached input and reasoning only if above 0."""
        counts: dict[str, JSON] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        if self.cached_input_tokens:
            counts["cached_input_tokens"] = self.cached_input_tokens
        if self.reasoning_tokens:
            counts["reasoning_tokens"] = self.reasoning_tokens
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One token of a completion, with its probability.

    Attributes:
        logprob: The natural logarithm of its probability.
        top: The likeliest tokens at its position with their logarithms, the likeliest first.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> list[JSON]:
        """Return the token as a short list: there is one for every token."""
        return [self.token, self.logprob, [list(other) for other in self.top]]

    @classmethod
    def from_json(cls, document: Any) -> TokenLogprob:
        """Read the output of `to_json`.

        Raises:
            TypeError: The document is malformed.
            ValueError: The document is malformed.
        """
        token, logprob, top = document
        return cls(
            token=str(token),
            logprob=float(logprob),
            top=tuple([(str(other), float(its)) for other, its in top]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The output of a model or another target; only `text` is required.

    Attributes:
        text: None for a refusal, or for tool calls only.
        messages: The conversation, in OpenAI's form; targets only.
        context: Retrieved texts; targets only.
        model: As the provider reports it, often a snapshot.
        fingerprint: The provider's `system_fingerprint`.
        latency_s: Of the successful attempt, in seconds; None for batches.
        cost_usd: In US dollars; None if the price is unknown.
        attempts: Attempts, including the successful one.
        logprobs: The tokens of the text, if requested by `logprobs`.
    """

    text: str | None
    finish_reason: FinishReason = "stop"
    refusal: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    messages: tuple[Mapping[str, JSON], ...] = ()
    context: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    fingerprint: str | None = None
    provider: str = ""
    latency_s: float | None = 0.0
    cost_usd: float | None = None
    attempts: int = 1
    logprobs: tuple[TokenLogprob, ...] = ()

    @property
    def is_cut_off(self) -> bool:
        """Return whether it has neither text nor tool calls, or ends at its token limit."""
        is_empty = not ((self.text or "").strip() or self.tool_calls)
        return is_empty or self.finish_reason == "length"

    def to_json(self) -> dict[str, JSON]:
        """Return a plain document for recordings, without empty values."""
        document: dict[str, JSON] = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": self.usage.to_json(),
            "model": self.model,
            "provider": self.provider,
            "latency_s": self.latency_s,
            "cost_usd": self.cost_usd,
        }
        optional: dict[str, JSON] = {
            "refusal": self.refusal,
            "tool_calls": [call.to_json() for call in self.tool_calls] or None,
            "messages": self.messages or None,
            "context": self.context or None,
            "fingerprint": self.fingerprint,
            "attempts": self.attempts if self.attempts != 1 else None,
            "logprobs": [token.to_json() for token in self.logprobs] or None,
        }
        return document | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> Completion:
        """Read the output of `to_json`.

        Raises:
            ValueError: A key is missing or has a value of the wrong type; the message names it.
        """
        # `Any`: values of a file are checked here, one by one.
        fields = cast("Mapping[str, Any]", document)
        try:
            usage: Any = fields["usage"]
            calls: Any = fields.get("tool_calls", ())
            tool_calls = [ToolCall(**call) for call in calls or ()]
            texts = [call.id + call.name + call.arguments for call in tool_calls]
            # Joining refuses what is not text.
            "".join([fields["model"], fields["provider"], *fields.get("context", ()), *texts])
            completion = cls(
                text=fields["text"],
                finish_reason=fields["finish_reason"],
                refusal=fields.get("refusal"),
                tool_calls=tuple(tool_calls),
                messages=tuple(map(dict, fields.get("messages", ()))),
                context=tuple(fields.get("context", ())),
                usage=Usage(**usage),
                model=fields["model"],
                fingerprint=fields.get("fingerprint"),
                provider=fields["provider"],
                latency_s=fields["latency_s"],
                cost_usd=fields.get("cost_usd"),
                attempts=fields.get("attempts", 1),
                logprobs=tuple([TokenLogprob.from_json(t) for t in fields.get("logprobs", ())]),
            )
            is_usual = completion.finish_reason in _FINISH_REASONS
        except KeyError as error:
            raise ValueError(f"the completion has no {error}") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"the completion cannot be read: {error}") from error
        if not is_usual:
            raise ValueError(f"{completion.finish_reason!r} is not a finish reason")
        optional = (completion.text, completion.refusal, completion.fingerprint)
        if {*map(type, optional)} - {str, type(None)}:
            raise ValueError("the text of the completion, or its refusal, is neither text nor null")
        tokens = completion.usage
        counts = (
            *(tokens.input_tokens, tokens.output_tokens),
            *(tokens.cached_input_tokens, tokens.reasoning_tokens),
            completion.attempts,
        )
        latency_s, cost_usd = completion.latency_s, completion.cost_usd
        amounts = (0 if latency_s is None else latency_s, 0 if cost_usd is None else cost_usd)
        if {*map(type, counts)} - {int} or {*map(type, amounts)} - {int, float}:
            raise ValueError(
                "a count of the completion is not a whole number, or its cost or latency is not a"
                " number"
            )
        if not all(0 <= number <= sys.maxsize for number in (*counts, *amounts)):
            raise ValueError("a number of the completion is negative, or too large")
        return completion


def limit_reached(completion: Completion, parameters: Mapping[str, JSON]) -> str:
    """The limit of the request at which the text is cut off; empty if it is not.

    Providers report a stop text like a natural end. A text counts as cut off there if it is empty
    or has an open bracket.
    """
    stop, text = parameters.get("stop"), (completion.text or "").strip()
    if stop and completion.finish_reason == "stop" and not completion.tool_calls:
        is_open = any(text.count(left) > text.count(right) for left, right in ("{}", "[]"))
        return f"stop {stop}" if is_open or not text else ""
    if completion.finish_reason != "length":
        return ""
    limit = parameters.get("max_tokens")
    return "the model's token limit" if limit is None else f"maxTokens {limit}"


class Provider(Protocol):
    """Anything that completes requests; implement it, do not subclass it."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete one request.

        Raises:
            ProviderError: The request failed; `kind` is the reason.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. The provider is not used afterwards."""
        ...


@dataclass(frozen=True)
class Conversation:
    """A completion as a conversation; one without messages is a single turn.

    Attributes:
        completion: The whole completion.
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
            # The text belongs to the messages before it.
            messages = turns.pop().messages if turns else ()
            tool_calls = self.completion.tool_calls if not turns else ()
            turns.append(replace(self.completion, messages=messages, tool_calls=tool_calls))
        elif self.completion.text is not None:
            turns[-1] = replace(turns[-1], text=self.completion.text)
        return tuple(turns)

    @property
    def steps(self) -> int:
        """The number of model calls: messages of the assistant."""
        return [message.get("role") for message in self.messages].count("assistant")

    @cached_property
    def messages(self) -> tuple[Mapping[str, JSON], ...]:
        """All messages, with that of the completion if its target returns only earlier ones."""
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
    """Return the output for reports: the conversation, else the text, else the refusal."""
    if messages:
        return transcript(messages)
    return text if text is not None else refusal


def shown_messages(completion: Completion) -> tuple[Mapping[str, JSON], ...]:
    """Return the messages for reports and judges; empty for a completion that is only a text."""
    if completion.messages or completion.tool_calls:
        return Conversation(completion).messages
    return ()


def _turn(conversation: Completion, messages: Sequence[Mapping[str, JSON]]) -> Completion:
    replies = [message for message in messages if message.get("role") == "assistant"]
    text = text_of(replies[-1]) if replies and replies[-1].get("content") is not None else None
    calls = tuple(call for message in replies for call in _calls(message))
    ends_in_call = bool(replies and not text and replies[-1].get("tool_calls"))
    reason: FinishReason = "tool_calls" if ends_in_call else "stop"
    return replace(
        conversation, text=text, tool_calls=calls, messages=tuple(messages), finish_reason=reason
    )


def transcript(messages: Iterable[Mapping[str, JSON]]) -> str:
    r"""Return messages as one text: an entry for each message and call, further lines indented.

    Indentation keeps text from imitating the beginning of another message.

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
    """Return the text of a message, whose content may be parts."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [cast("dict[str, Any]", part) for part in content if isinstance(part, dict)]
        if len(parts) == len(content) and all(isinstance(part.get("text"), str) for part in parts):
            return "\n".join(part["text"] for part in parts)
    return json.dumps(content, ensure_ascii=False)


def _calls(message: Mapping[str, JSON]) -> tuple[ToolCall, ...]:
    """Return the calls of a message: `id`, `name` and `arguments`, or in OpenAI's form."""
    entries = message.get("tool_calls")
    calls: list[ToolCall] = []
    for number, item in enumerate(entries if isinstance(entries, list | tuple) else ()):
        call = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        inner = call.get("function")
        function = cast("dict[str, Any]", inner) if isinstance(inner, dict) else call
        arguments = function.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        name, key = str(function.get("name", "")), str(call.get("id") or f"call_{number}")
        calls.append(ToolCall(id=key, name=name, arguments=arguments))
    return tuple(calls)
