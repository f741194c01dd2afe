"""Anthropic's Messages API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import ProviderError
from regauge.providers._types import Completion, Usage
from regauge.providers._wire import (
    AttachedFile,
    EmbeddedError,
    count_of,
    malformed_error,
    parts_of,
    read_document,
    read_tool_call,
    sampling_parameters,
)
from regauge.strict_json import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.prompts import Message, ToolCall
    from regauge.providers._types import CompletionRequest, FinishReason

# The API requires a limit; the default for prompts that set none.
_LIMIT: Final = 4096
_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def body_of(request: CompletionRequest, *, limit_key: str, vary_seed: bool) -> dict[str, Any]:
    """Return the body of the HTTP request.

    Raises:
        ProviderError: A parameter or the form of the request is not supported.
    """
    parameters = sampling_parameters(request, vary_seed=vary_seed)
    system, messages = _split(request)
    body: dict[str, Any] = {
        "model": request.model,
        limit_key: parameters.pop("max_tokens", None) or _LIMIT,
        "messages": messages,
    }
    if system:
        body["system"] = system
    if (stop := parameters.pop("stop", None)) is not None:
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    config: dict[str, JSON] = {}
    if (effort := parameters.pop("reasoning_effort", None)) is not None:
        config["effort"] = effort
    if (schema := _schema(request)) is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    if config:
        body["output_config"] = config
    choice = _tool_choice(
        parameters.pop("tool_choice", None), parallel=parameters.pop("parallel_tool_calls", None)
    )
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if choice is not None:
            body["tool_choice"] = choice
    return {**body, **parameters}


def _split(request: CompletionRequest) -> tuple[list[JSON], list[JSON]]:
    """Return the instructions before the first turn, and the turns."""
    system: list[JSON] = []
    messages: list[JSON] = []
    for message in request.messages:
        if message.role not in {"system", "developer"}:
            messages.append(_turn(request, message))
        elif messages:
            raise _request_error(
                request,
                f"a {message.role} message after the first turn, which Anthropic's API does not"
                " take",
                "move it to the beginning of `messages`",
            )
        else:
            system.append({"type": "text", "text": message.content})
    if not messages:
        raise _request_error(
            request,
            "no user message, which Anthropic's API needs",
            "write the input into a message with role: user",
        )
    return system, messages


def _turn(request: CompletionRequest, message: Message) -> dict[str, JSON]:
    """Return one turn; tool results have the role user here, and the API joins turns."""
    if message.tool_call_id:
        block: dict[str, JSON] = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": message.content,
        }
        return {"role": "user", "content": [block]}
    if message.attachments:
        parts = [_part(part) for part in parts_of(message, request)]
        return {"role": message.role, "content": parts}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    blocks: list[JSON] = []
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError as error:
            raise _request_error(
                request,
                f"a call of {call.name} whose arguments are not JSON",
                "write the arguments as a mapping",
            ) from error
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return {"role": "assistant", "content": blocks}


def _part(part: str | AttachedFile) -> JSON:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = "image" if part.kind == "image" else "document"
    source: dict[str, JSON] = {
        "type": "base64",
        "media_type": part.media_type,
        "data": part.data,
    }
    return {"type": kind, "source": source}


def _schema(request: CompletionRequest) -> JSON:
    """Return the JSON schema of the output; None if the output is free."""
    wanted_format = request.response_format
    if wanted_format is None or wanted_format.get("type") == "text":
        return None
    return mapping_of(wanted_format.get("json_schema")).get("schema")


def _tool(tool: Mapping[str, JSON]) -> dict[str, JSON]:
    function = tool.get("function")
    if not isinstance(function, dict):
        return dict(tool)
    return {
        "name": function.get("name"),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
        **{key: function[key] for key in ("description", "strict") if key in function},
    }


def _tool_choice(choice: JSON, *, parallel: JSON) -> dict[str, JSON] | None:
    kinds = {"auto": "auto", "required": "any", "none": "none"}
    fields: dict[str, JSON] | None = None
    if isinstance(choice, str):
        fields = {"type": kinds.get(choice, choice)}
    elif choice is not None:
        function = mapping_of(mapping_of(choice).get("function"))
        fields = {"type": "tool", "name": function.get("name")}
    if parallel is False:
        fields = fields or {"type": "auto"}
        if fields["type"] != "none":
            fields["disable_parallel_tool_use"] = True
    return fields


def _request_error(request: CompletionRequest, problem: str, fix: str) -> ProviderError:
    message = f"{request.origin or 'the prompt'} has {problem}"
    return ProviderError(message, fix=fix, kind="bad-request")


def read_completion(content: bytes, *, endpoint: str) -> Completion:
    """Read the body of a successful response; latency and price are added later.

    Raises:
        AttemptError: The body is not a message: HTML, truncated, or empty.
        EmbeddedError: The body is an error.
    """
    table = read_document(content, endpoint=endpoint)
    if error := table.get("error"):
        raise EmbeddedError(error)
    blocks: object = table.get("content")
    if not isinstance(blocks, list):
        raise malformed_error(f"{endpoint} returned no content", transient=True)
    texts: list[str] = []
    calls: list[ToolCall] = []
    # Thinking blocks have no output text.
    for block in map(mapping_of, list_of(table.get("content"))):
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            texts.append(text)
        elif block.get("type") == "tool_use":
            calls.append(
                read_tool_call(block.get("id"), block.get("name"), block.get("input") or {})
            )
    reason: FinishReason = _FINISH.get(str(table.get("stop_reason")), "unknown")
    text = "".join(texts) if texts else None
    refusal = None
    if table.get("stop_reason") == "refusal":
        text, refusal = None, text or "the model refused"
    elif text is None and not calls and reason == "stop":
        text = ""
    return Completion(
        text=text,
        finish_reason=reason,
        refusal=refusal,
        tool_calls=tuple(calls),
        usage=_usage(table.get("usage")),
        model=str(table.get("model") or ""),
    )


def _usage(value: object) -> Usage:
    """Return the token counts of a message; reads and writes of the cache count as input."""
    arguments = mapping_of(value)
    uncached_input = count_of(arguments.get("input_tokens"))
    output = count_of(arguments.get("output_tokens"))
    if uncached_input is None or output is None:
        return Usage()
    cache_reads = count_of(arguments.get("cache_read_input_tokens")) or 0
    cache_writes = count_of(arguments.get("cache_creation_input_tokens")) or 0
    thinking = count_of(mapping_of(arguments.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(
        input_tokens=uncached_input + cache_reads + cache_writes,
        output_tokens=output,
        cached_input_tokens=cache_reads,
        reasoning_tokens=thinking or 0,
    )
