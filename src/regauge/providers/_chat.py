"""OpenAI's chat completions API, which most servers support."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.providers._types import Completion, TokenLogprob
from regauge.providers._wire import (
    AttachedFile,
    EmbeddedError,
    finite_number,
    malformed_error,
    parts_of,
    read_document,
    read_tool_call,
    read_usage,
    sampling_parameters,
)
from regauge.strict_json import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.prompts import Message, ToolCall
    from regauge.providers._types import CompletionRequest, FinishReason

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}


def body_of(
    request: CompletionRequest, *, limit_key: str = "max_tokens", vary_seed: bool = False
) -> dict[str, Any]:
    """Return the body of the HTTP request.

    Args:
        request: The request.
        limit_key: The server's name of `max_tokens`.
        vary_seed: Add the trial number to the seed of the prompt.

    Raises:
        ProviderError: A parameter is not supported, such as `n` or `stream`.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message, request) for message in request.messages],
        **sampling_parameters(request, vary_seed=vary_seed),
    }
    if limit_key != "max_tokens" and "max_tokens" in body:
        body[limit_key] = body.pop("max_tokens")
    if request.response_format is not None:
        body["response_format"] = request.response_format
    if request.tools:
        body["tools"] = request.tools
    return body


def _message(message: Message, request: CompletionRequest) -> dict[str, JSON]:
    fields: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.attachments:
        fields["content"] = [_part(part) for part in parts_of(message, request)]
    if message.tool_calls:
        fields["content"] = message.content or None
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _part(part: str | AttachedFile) -> JSON:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "file", "file": {"filename": part.name, "file_data": part.url}}


def read_completion(content: bytes, *, endpoint: str) -> Completion:
    """Read the body of a successful response; latency and price are added later.

    Raises:
        AttemptError: The body is not a chat completion: HTML, truncated, or empty.
        EmbeddedError: The body is an error.
    """
    table = read_document(content, endpoint=endpoint)
    choices = list_of(table.get("choices"))
    choice = mapping_of(choices[0] if choices else None)
    if error := choice.get("error") or table.get("error"):
        raise EmbeddedError(error)
    if not choices:
        raise malformed_error(f"{endpoint} returned no choices", transient=True)
    if not _is_message(choice.get("message")):
        raise malformed_error(f"{endpoint} returned a choice without a message", transient=True)
    message = mapping_of(choice.get("message"))
    text = _text(message.get("content"))
    refusal: str | None = message.get("refusal") or None
    tool_calls = _tool_calls(message)
    finish_reason: FinishReason = _FINISH.get(str(choice.get("finish_reason")).lower(), "unknown")
    if not text and refusal is None and not tool_calls:
        # Some servers send null for an empty text; a filter or a limit may leave no text at all.
        text = "" if finish_reason == "stop" else None
    fingerprint = table.get("system_fingerprint")
    return Completion(
        text=text,
        finish_reason=finish_reason,
        refusal=refusal,
        tool_calls=tool_calls,
        logprobs=read_logprobs(mapping_of(choice.get("logprobs")).get("content")),
        usage=read_usage(table.get("usage"), input_name="prompt", output_name="completion"),
        model=str(table.get("model") or ""),
        fingerprint=fingerprint if isinstance(fingerprint, str) else None,
    )


def _is_message(value: object) -> bool:
    message = mapping_of(value)
    refusal: Any = message.get("refusal") or ""
    calls: Any = message.get("tool_calls") or []
    return isinstance(value, dict) and isinstance(refusal, str) and isinstance(calls, list)


def _text(content: object) -> str | None:
    """Return the text of a message: a string, or the text parts of a list of parts."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [mapping_of(part).get("text") for part in cast("list[object]", content)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return json.dumps(content, ensure_ascii=False)


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = list_of(message.get("tool_calls"))
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    return tuple(
        read_tool_call(call.get("id"), function.get("name"), function.get("arguments"))
        for call in map(mapping_of, calls)
        for function in [mapping_of(call.get("function"))]
    )


def read_logprobs(value: object) -> tuple[TokenLogprob, ...]:
    """Return the tokens of the text; empty if an entry is not a token with a finite number."""
    token_logprobs: list[TokenLogprob] = []
    for entry in map(mapping_of, list_of(value)):
        token, logprob = entry.get("token"), finite_number(entry.get("logprob"))
        if not isinstance(token, str) or logprob is None:
            return ()
        top: list[tuple[str, float]] = []
        for other in map(mapping_of, list_of(entry.get("top_logprobs"))):
            text, its = other.get("token"), finite_number(other.get("logprob"))
            if isinstance(text, str) and its is not None:
                top.append((text, its))
        token_logprobs.append(TokenLogprob(token=token, logprob=logprob, top=tuple(top)))
    return tuple(token_logprobs)
