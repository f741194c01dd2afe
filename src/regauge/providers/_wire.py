"""Shared parts of the APIs: parameters, attachments, and reading responses."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from regauge.errors import ProviderError
from regauge.prompts import OWN_KEYS, ToolCall
from regauge.providers._failure import AttemptError, parse_error_response
from regauge.providers._types import Usage
from regauge.strict_json import list_of, mapping_of, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import Attachment, Message
    from regauge.providers._types import CompletionRequest

# One request is one trial of the prompt's own text and model, read at once: parameters that
# change this are rejected.
_NOT_PARAMETERS: Final = {
    "n": "remove it and use --trials",
    "stream": "remove it; responses are never streamed",
    **{name: f"write it under the key `{key}` of the prompt" for name, key in OWN_KEYS.items()},
}
_EXCERPT: Final = 120
_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
# JSON numbers are exact up to here; a larger count of tokens is an error of the response.
_COUNT_MAX: Final = 2**53


class EmbeddedError(Exception):
    """An error with HTTP status 200, as gateways forward it from the model behind them.

    Attributes:
        status: The HTTP status for its code.
        body: The error as the body of a response with that status.
    """

    def __init__(self, error: object) -> None:
        code = parse_error_response({"error": error}).code
        self.status: int = HTTPStatus.INTERNAL_SERVER_ERROR
        if code.isdecimal() and int(code[:4]) in range(400, 600):
            self.status = int(code)
        elif code.startswith("invalid_"):
            self.status = HTTPStatus.BAD_REQUEST
        elif "rate_limit" in code or "too_many" in code:
            self.status = HTTPStatus.TOO_MANY_REQUESTS
        self.body = json.dumps({"error": error})
        super().__init__(self.body)


def sampling_parameters(request: CompletionRequest, *, vary_seed: bool = False) -> dict[str, JSON]:
    """Return the parameters of a request that are sent.

    Args:
        request: The request.
        vary_seed: Add the trial number to the seed of the prompt.

    Raises:
        ProviderError: A parameter is not supported, such as `n` or `stream`.
    """
    parameters = dict(request.parameters)
    for name, fix in _NOT_PARAMETERS.items():
        if parameters.pop(name, None) not in (None, name == "n"):
            message = (
                f"{request.origin or 'the prompt'}: `{name}` is not a parameter regauge can send"
            )
            raise ProviderError(message, fix=f"{fix}", kind="bad-request")
    if vary_seed:
        seed = parameters.get("seed")
        parameters["seed"] = (seed if isinstance(seed, int) else 0) + request.trial
    return parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """An image or a file as it is sent.

    Attributes:
        data: The content in base64.
    """

    kind: Literal["image", "pdf"]
    name: str
    media_type: str
    data: str

    @property
    def url(self) -> str:
        """A data URL with the content."""
        return f"data:{self.media_type};base64,{self.data}"


def parts_of(message: Message, request: CompletionRequest) -> Iterator[str | AttachedFile]:
    """Yield the texts and attachments of a message, in order.

    Raises:
        ProviderError: A file cannot be read, or has changed since the case was read.
    """
    for part in message.parts:
        yield part if isinstance(part, str) else _attached_file(part, request)


def _attached_file(attachment: Attachment, request: CompletionRequest) -> AttachedFile:
    path = (request.files or Path()) / attachment.path
    try:
        data = path.read_bytes()
    except OSError as error:
        data = b""
        reason = f"cannot be read: {(error.strerror or str(error)).lower()}"
    else:
        reason = "has changed since the case was read"
    if hashlib.sha256(data).hexdigest() != attachment.sha256:
        message = (
            f"{request.origin or 'the prompt'}: the {attachment.kind} {attachment.path} {reason}"
        )
        raise ProviderError(message, fix="restore it, or run again", kind="bad-request")
    return AttachedFile(
        kind=attachment.kind,
        name=path.name,
        media_type=_MEDIA_TYPES[path.suffix.lower()],
        data=base64.b64encode(data).decode("ascii"),
    )


def read_document(content: bytes, *, endpoint: str) -> Mapping[str, Any]:
    """Read the body of a successful response.

    Raises:
        AttemptError: The body is not a JSON object: HTML, truncated, or empty.
        EmbeddedError: The body is an error in a list, as Gemini sends it.
    """
    try:
        document: Any = read_json(content)
    except ValueError as error:
        raise _unreadable_error(content, endpoint, error) from error
    items = list_of(document)
    if len(items) == 1 and (embedded := mapping_of(items[0]).get("error")):
        raise EmbeddedError(embedded)
    if not isinstance(document, dict):
        raise malformed_error(f"{endpoint} returned JSON that is not an object")
    return cast("dict[str, Any]", document)


def _unreadable_error(content: bytes, endpoint: str, error: ValueError) -> AttemptError:
    start = " ".join(content[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
    if not start:
        return malformed_error(f"{endpoint} returned an empty body", transient=True)
    if not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return malformed_error(f"{endpoint} returned JSON that cannot be read: {error}")
    if start.startswith("<"):
        return malformed_error(
            f"{endpoint} returned a web page, not JSON: {start}\n"
            "  fix: check the base_url; it ends in /v1 for most servers"
        )
    if isinstance(error, UnicodeDecodeError) and error.reason != "unexpected end of data":
        return malformed_error(f"{endpoint} returned JSON that is not UTF-8", transient=True)
    if start.startswith(("{", "[")):
        return malformed_error(f"{endpoint} returned truncated JSON", transient=True)
    return malformed_error(f"{endpoint} returned something other than JSON: {start}")


def malformed_error(message: str, *, transient: bool = False) -> AttemptError:
    """Return the failure of a response that cannot be read."""
    return AttemptError(message, kind="malformed", transient=transient)


def finite_number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def read_tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """Return a tool call; arguments other than text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(
        id=str(call_id or ""), name=str(name or ""), arguments="" if arguments is None else text
    )


def read_usage(value: object, *, input_name: str, output_name: str) -> Usage:
    """Return the token counts of a response; zeros if they cannot be read.

    Args:
        value: The value of `usage` in the response.
        input_name: The API's word for the input, such as `prompt`.
        output_name: The API's word for the output.
    """
    detail = mapping_of(value)
    input_tokens = count_of(detail.get(f"{input_name}_tokens"))
    output_tokens = count_of(detail.get(f"{output_name}_tokens"))
    if input_tokens is None or output_tokens is None:
        return Usage()
    cached = mapping_of(detail.get(f"{input_name}_tokens_details")).get("cached_tokens")
    reasoning = mapping_of(detail.get(f"{output_name}_tokens_details")).get("reasoning_tokens")
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_input_tokens=count_of(cached) or 0,
        reasoning_tokens=count_of(reasoning) or 0,
    )


def count_of(value: object) -> int | None:
    """Return a number of tokens; 0 if it is missing, None if it is invalid."""
    if value is None:
        return 0
    number = finite_number(value)
    return int(number) if number is not None and 0 <= number <= _COUNT_MAX else None
