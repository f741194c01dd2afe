"""OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from regauge.providers._chat import read_logprobs
from regauge.providers._types import Completion
from regauge.providers._wire import (
    AttachedFile,
    EmbeddedError,
    malformed_error,
    parts_of,
    read_document,
    read_tool_call,
    read_usage,
    sampling_parameters,
)
from regauge.strict_json import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import Message, ToolCall
    from regauge.providers._types import CompletionRequest, FinishReason, TokenLogprob

_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


def body_of(request: CompletionRequest, *, limit_key: str, vary_seed: bool) -> dict[str, Any]:
    """Return the body of the HTTP request; the server stores no response.

    Raises:
        ProviderError: A parameter is not supported, such as `n` or `stream`.
    """
    parameters = sampling_parameters(request, vary_seed=vary_seed)
    text: dict[str, JSON] = {}
    if request.response_format is not None:
        text["format"] = _format(request.response_format)
    if (verbosity := parameters.pop("verbosity", None)) is not None:
        text["verbosity"] = verbosity
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message, request)],
        "store": False,
    }
    if text:
        body["text"] = text
    if (limit := parameters.pop("max_tokens", None)) is not None:
        body[limit_key] = limit
    if (effort := parameters.pop("reasoning_effort", None)) is not None:
        body["reasoning"] = {"effort": effort}
    if parameters.pop("logprobs", None):
        body["include"] = ["message.output_text.logprobs"]
    choice = parameters.pop("tool_choice", None)
    if choice is not None:
        name = mapping_of(mapping_of(choice).get("function")).get("name")
        body["tool_choice"] = {"type": "function", "name": name} if name else choice
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return {**body, **parameters}


def _items(message: Message, request: CompletionRequest) -> Iterator[dict[str, JSON]]:
    """Yield a message as items; tool calls and tool results are separate items here."""
    if message.tool_call_id:
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id,
            "output": message.content,
        }
        return
    if message.content or not message.tool_calls:
        content: JSON = message.content
        if message.attachments:
            content = [_part(part) for part in parts_of(message, request)]
        yield {"role": message.role, "content": content}
    for call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }


def _part(part: str | AttachedFile) -> JSON:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.kind == "image":
        return {"type": "input_image", "image_url": part.url, "detail": "auto"}
    return {"type": "input_file", "filename": part.name, "file_data": part.url}


def _format(response_format: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the format; the fields of `json_schema` are next to the type here."""
    return {
        "type": response_format["type"],
        **mapping_of(response_format.get("json_schema")),
    }


def _tool(tool: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a tool; the function's fields are next to the type here; `strict` defaults to true."""
    function = tool.get("function")
    if not isinstance(function, dict):
        return dict(tool)
    return {"type": "function", "strict": False, **function}


def read_completion(content: bytes, *, endpoint: str) -> Completion:
    """Read the body of a successful response; latency and price are added later.

    Raises:
        AttemptError: The body is not a response: HTML, truncated, empty, or incomplete.
        EmbeddedError: The body is an error.
    """
    table = read_document(content, endpoint=endpoint)
    if error := table.get("error"):
        raise EmbeddedError(error)
    status, output = table.get("status"), table.get("output")
    unfinished = status not in (None, "completed", "incomplete")
    if unfinished or not isinstance(output, list) or (not output and status != "incomplete"):
        state = f" with status {status!r}" if unfinished else " without any output"
        raise malformed_error(f"{endpoint} returned a response{state}", transient=True)
    texts: list[str] = []
    refusals: list[str] = []
    calls: list[ToolCall] = []
    logprobs: list[TokenLogprob] = []
    # Reasoning items have no output text.
    for item in map(mapping_of, list_of(table.get("output"))):
        if item.get("type") == "function_call":
            calls.append(
                read_tool_call(
                    item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments")
                )
            )
        elif item.get("type") == "message":
            for part in map(mapping_of, list_of(item.get("content"))):
                if isinstance(text := part.get("text"), str):
                    texts.append(text)
                    logprobs += read_logprobs(part.get("logprobs"))
                elif isinstance(refusal := part.get("refusal"), str):
                    refusals.append(refusal)
    reason = _finish_reason(table, calls=bool(calls))
    text = "".join(texts) or None
    if text is None and not refusals and not calls and reason == "stop":
        text = ""
    return Completion(
        text=text,
        finish_reason=reason,
        refusal="\n".join(refusals) or None,
        tool_calls=tuple(calls),
        logprobs=tuple(logprobs),
        usage=read_usage(table.get("usage"), input_name="input", output_name="output"),
        model=str(table.get("model") or ""),
    )


def _finish_reason(table: Mapping[str, Any], *, calls: bool) -> FinishReason:
    if table.get("status") == "incomplete":
        reason = mapping_of(table.get("incomplete_details")).get("reason")
        return _INCOMPLETE.get(str(reason), "unknown")
    return "tool_calls" if calls else "stop"
