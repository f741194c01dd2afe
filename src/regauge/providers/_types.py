"""Requests to models and their completions, for any provider."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, get_args

from regauge.prompts import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.prompts import Message

__all__ = [
    "Completion",
    "CompletionRequest",
    "FinishReason",
    "Provider",
    "TokenLogprob",
    "ToolCall",
    "Usage",
]

FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "unknown"]

_FINISH_REASONS: Final = frozenset(get_args(FinishReason))
# `canonical_json` builds an encoder per call, which costs more than a digest may. A mapping that
# is no dict, such as a read-only view of one, reaches the encoder's default and becomes one.
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
        trial: From 0. Not part of the digest.
        origin: The prompt file, for error messages. Not part of the digest.
        named_by: The option, setting or file that names the model. Not part of the digest.
        answered_by: Answers instead of a provider of the project. Not part of the digest.
        case: For targets other than prompts. Not part of the digest.
        files: The folder that attachments of messages are in. Not part of the digest.
        conversation: The digest of a conversation that begins with these messages, where the
            request stands for all of it; no provider receives such a request.
        optional: Parameters that are left out where the endpoint is known not to take them. Not
            part of the digest.
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
    answered_by: Provider | None = field(default=None, compare=False, repr=False)
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
        """The same request for another trial, with the same digest."""
        other = replace(self, trial=trial)
        object.__setattr__(other, "_digest", self._digest)
        return other


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens. Cached input is part of the input, reasoning is part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )

    def to_json(self) -> dict[str, JSON]:
        """The counts; those of cached input and reasoning only where there are any."""
        document: dict[str, JSON] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        if self.cached_input_tokens:
            document["cached_input_tokens"] = self.cached_input_tokens
        if self.reasoning_tokens:
            document["reasoning_tokens"] = self.reasoning_tokens
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One token of an answer, with how likely it was.

    Attributes:
        logprob: The natural logarithm of its probability.
        top: The likeliest tokens at its place and theirs, the likeliest first.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> list[JSON]:
        """As short as it can be: there is one of them for every token."""
        return [self.token, self.logprob, [list(other) for other in self.top]]

    @classmethod
    def from_json(cls, document: Any) -> TokenLogprob:
        """The token that `to_json` wrote.

        Raises:
            TypeError: It is no such document.
            ValueError: It is no such document.
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
        attempts: Attempts, the successful one included.
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

    def to_json(self) -> dict[str, JSON]:
        """A plain document for recordings; what is empty is left out."""
        document: dict[str, JSON] = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": self.usage.to_json(),
            "model": self.model,
            "provider": self.provider,
            "latency_s": self.latency_s,
            "cost_usd": self.cost_usd,
        }
        if self.refusal is not None:
            document["refusal"] = self.refusal
        if self.tool_calls:
            document["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.messages:
            document["messages"] = self.messages
        if self.context:
            document["context"] = self.context
        if self.fingerprint is not None:
            document["fingerprint"] = self.fingerprint
        if self.attempts != 1:
            document["attempts"] = self.attempts
        if self.logprobs:
            document["logprobs"] = [token.to_json() for token in self.logprobs]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> Completion:
        """The completion that `to_json` wrote.

        Raises:
            ValueError: A key is missing or holds a value of another kind; the message names it.
        """
        # `Any`: what came out of a file is checked right here, value by value.
        given = cast("Mapping[str, Any]", document)
        try:
            usage: Any = given["usage"]
            calls: Any = given.get("tool_calls", ())
            completion = cls(
                text=given["text"],
                finish_reason=given["finish_reason"],
                refusal=given.get("refusal"),
                tool_calls=tuple([ToolCall(**call) for call in calls]) if calls else (),
                messages=tuple(given.get("messages", ())),
                context=tuple(given.get("context", ())),
                usage=Usage(**usage),
                model=given["model"],
                fingerprint=given.get("fingerprint"),
                provider=given["provider"],
                latency_s=given["latency_s"],
                cost_usd=given.get("cost_usd"),
                attempts=given.get("attempts", 1),
                logprobs=tuple([TokenLogprob.from_json(t) for t in given.get("logprobs", ())]),
            )
            known = completion.finish_reason in _FINISH_REASONS
        except KeyError as error:
            raise ValueError(f"the completion has no {error}") from error
        except TypeError as error:
            raise ValueError(f"the completion cannot be read: {error}") from error
        if not known:
            raise ValueError(f"{completion.finish_reason!r} is not a finish reason")
        if not (completion.text is None or type(completion.text) is str):
            raise ValueError("the text of the completion is neither text nor null")
        return completion


class Provider(Protocol):
    """Serves requests; implement it, do not subclass it."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """Answer one request.

        Raises:
            ProviderError: There is no answer; its `kind` says why.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections. The provider is not used afterwards."""
        ...
