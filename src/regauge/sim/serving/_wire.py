"""The shapes of the OpenAI chat completions interface: requests read, answers written."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.sim.text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.prompts import Role
    from regauge.providers import Completion, Usage

__all__ = ["WireError", "chunks_of", "completion_body", "error_body", "models_body", "read_request"]

# Roles that this model does not know are read as what the user side brought along.
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "user",
    "function": "user",
}
_PARAMETERS: Final = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "frequency_penalty", "presence_penalty", "top_logprobs",
)  # fmt: skip
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_PIECE_CHARS: Final = 24


class WireError(Exception):
    """A request that the interface answers with an error.

    Attributes:
        status: The HTTP status.
        parameter: Which field is at fault, or None.
        code: OpenAI's word for it, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        parameter: str | None = None,
        code: str | None = None,
    ) -> None:
        self.status = status
        self.parameter = parameter
        self.code = code
        super().__init__(message)


def _content(value: Any, at: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if is_list(value):
        texts: list[str] = []
        for part in value:
            fields: dict[str, Any] = part if is_object(part) else {}
            text = fields.get("text", fields.get("refusal"))
            if not isinstance(text, str):
                raise WireError(
                    f"Invalid content: only text parts are supported by {at}.", parameter=at
                )
            texts.append(text)
        return "\n".join(texts)
    raise WireError(f"Invalid type for '{at}': expected a string or a list of parts.", parameter=at)


def _messages(value: Any) -> tuple[Message, ...]:
    if not is_list(value) or not value:
        raise WireError("Missing required parameter: 'messages'.", parameter="messages")
    messages: list[Message] = []
    for index, entry in enumerate(value):
        fields: dict[str, Any] = entry if is_object(entry) else {}
        at = f"messages[{index}]"
        role = _ROLES.get(str(fields.get("role")))
        if role is None:
            raise WireError(
                f"Invalid value for '{at}.role': {fields.get('role')!r}.", parameter=f"{at}.role"
            )
        messages.append(
            Message(role=role, content=_content(fields.get("content"), f"{at}.content"))
        )
    return tuple(messages)


def read_request(body: bytes, models: Sequence[str]) -> tuple[CompletionRequest, dict[str, Any]]:
    """The request in a body, and the body itself as JSON.

    Raises:
        WireError: It is no such request, or it names a model that is not served.
    """
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError("We could not parse the JSON body of your request.") from error
    if not is_object(parsed):
        raise WireError("The body of the request must be a JSON object.")
    fields = parsed
    model = fields.get("model")
    if not isinstance(model, str):
        raise WireError("you must provide a model parameter", parameter="model")
    if model not in models:
        raise WireError(
            f"The model '{model}' does not exist here; this simulated endpoint serves "
            f"{', '.join(models)}.",
            status=404,
            parameter="model",
            code="model_not_found",
        )
    response_format: Any = fields.get("response_format")
    if response_format is not None and not (
        is_object(response_format) and response_format.get("type") in _FORMATS
    ):
        raise WireError(
            "Invalid value for 'response_format.type'.", parameter="response_format.type"
        )
    tools: Any = fields.get("tools") or []
    if not is_list(tools):
        raise WireError("Invalid type for 'tools': expected a list.", parameter="tools")
    return (
        CompletionRequest(
            provider="sim",
            model=model,
            messages=_messages(fields.get("messages")),
            parameters={k: fields[k] for k in _PARAMETERS if fields.get(k) is not None},
            response_format=response_format,
            tools=tuple(tools),
        ),
        fields,
    )


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _total(completions: Sequence[Completion]) -> dict[str, Any]:
    usage = completions[0].usage
    for further in completions[1:]:
        # The prompt is read once, however many answers are drawn.
        usage += type(usage)(output_tokens=further.usage.output_tokens)
    return _usage(usage)


def completion_id(request: CompletionRequest, trial: int) -> str:
    """An id that the same request and trial get again."""
    digest = hashlib.blake2b(f"{request.digest}:{trial}".encode(), digest_size=12).hexdigest()
    return f"chatcmpl-sim-{digest}"


def completion_body(
    completions: Sequence[Completion], *, identity: str, created: int
) -> dict[str, Any]:
    """A `chat.completion` object with one choice for each completion."""
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": completions[0].model,
        "system_fingerprint": completions[0].fingerprint,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": c.text or "", "refusal": c.refusal},
                "logprobs": None,
                "finish_reason": c.finish_reason,
            }
            for index, c in enumerate(completions)
        ],
        "usage": _total(completions),
    }


def chunks_of(
    completions: Sequence[Completion], *, identity: str, created: int, with_usage: bool
) -> list[dict[str, Any]]:
    """The same as `chat.completion.chunk` objects, for a stream."""
    head: dict[str, Any] = {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": created,
        "model": completions[0].model,
        "system_fingerprint": completions[0].fingerprint,
    }

    def chunk(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**head, "choices": [choice], **({"usage": None} if with_usage else {})}

    chunks: list[dict[str, Any]] = []
    for index, completion in enumerate(completions):
        text = completion.text or ""
        chunks.append(chunk(index, {"role": "assistant", "content": ""}))
        chunks += [
            chunk(index, {"content": text[at : at + _PIECE_CHARS]})
            for at in range(0, len(text), _PIECE_CHARS)
        ]
        chunks.append(chunk(index, {}, completion.finish_reason))
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _total(completions)})
    return chunks


def error_body(
    message: str, *, kind: str, parameter: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def models_body(models: Sequence[str]) -> dict[str, Any]:
    """What `GET /v1/models` answers."""
    return {
        "object": "list",
        "data": [
            {"id": model, "object": "model", "created": 1735689600, "owned_by": "regauge-simulated"}
            for model in models
        ],
    }
