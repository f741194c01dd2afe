"""Shared parts of the APIs of models: completions, and reading responses."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from regauge.errors import ProviderError
from regauge.prompts import ToolCall
from regauge.providers._failure import AttemptError, refusal_in
from regauge.providers._types import Usage
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import Attachment, Message
    from regauge.providers._types import CompletionRequest

# One request is one draw, answered at once: what would change that is not a parameter of a model.
_NOT_PARAMETERS: Final = {
    "n": "remove it and use --trials",
    "stream": "remove it; answers are always read whole",
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
_CLIENT_ERRORS: Final = 400
_SERVER: Final = 500
_NO_STATUS: Final = 600
_TOO_MANY: Final = 429
# JSON numbers are exact up to here; a larger count of tokens is an error of the response.
_COUNT_MAX: Final = 2**53


class EmbeddedError(Exception):
    """An error under HTTP status 200, as gateways pass it on from the model behind them.

    Attributes:
        status: The HTTP status that its code stands for.
        body: The error as the body of a response with that status.
    """

    def __init__(self, error: object) -> None:
        code = refusal_in({"error": error}).code
        limited = "rate_limit" in code or "too_many" in code
        self.status = _TOO_MANY if limited else _SERVER
        if code.isdecimal() and _CLIENT_ERRORS <= int(code[:4]) < _NO_STATUS:
            self.status = int(code)
        self.body = json.dumps({"error": error})
        super().__init__(self.body)


def sampling_parameters(request: CompletionRequest, *, vary_seed: bool = False) -> dict[str, JSON]:
    """The parameters of a request that go over the wire.

    Args:
        request: The request.
        vary_seed: Whether the trial number is added to the seed of the prompt.

    Raises:
        ProviderError: A parameter asks for something other than one whole answer.
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
    """An image or a file as it goes over the wire.

    Attributes:
        data: The content in base64.
    """

    kind: Literal["image", "pdf"]
    name: str
    media_type: str
    data: str

    @property
    def url(self) -> str:
        """A URL that holds the content."""
        return f"data:{self.media_type};base64,{self.data}"


def parts_of(message: Message, request: CompletionRequest) -> Iterator[str | AttachedFile]:
    """The texts and attachments of a message, in order.

    Raises:
        ProviderError: A file cannot be read, or is no longer the one that the case names.
    """
    for part in message.parts:
        yield part if isinstance(part, str) else _attached_file(part, request)


def _attached_file(attached: Attachment, request: CompletionRequest) -> AttachedFile:
    path = (request.files or Path()) / attached.path
    try:
        data = path.read_bytes()
    except OSError as error:
        data = b""
        reason = f"cannot be read: {(error.strerror or str(error)).lower()}"
    else:
        reason = "has changed since the case was read"
    if hashlib.sha256(data).hexdigest() != attached.sha256:
        message = f"{request.origin or 'the prompt'}: the {attached.kind} {attached.path} {reason}"
        raise ProviderError(message, fix="restore it, or run again", kind="bad-request")
    return AttachedFile(
        kind=attached.kind,
        name=path.name,
        media_type=_MEDIA_TYPES[path.suffix.lower()],
        data=base64.b64encode(data).decode("ascii"),
    )


def read_document(content: bytes, *, where: str) -> Mapping[str, Any]:
    """Read the body of a successful response.

    Raises:
        AttemptError: It is no JSON object: HTML, cut off, or empty.
        EmbeddedError: It is an error in a list, as Gemini sends it.
    """
    try:
        document: Any = read_json(content)
    except ValueError as error:
        raise _unreadable(content, where, error) from error
    items = items_of(document)
    if len(items) == 1 and (stated := table_of(items[0]).get("error")):
        raise EmbeddedError(stated)
    if not isinstance(document, dict):
        raise malformed(f"{where} answered with JSON that is no object")
    return cast("dict[str, Any]", document)


def _unreadable(content: bytes, where: str, error: ValueError) -> AttemptError:
    start = " ".join(content[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
    if not start:
        return malformed(f"{where} answered with an empty body", transient=True)
    if not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return malformed(f"{where} answered with JSON that cannot be read: {error}")
    if start.startswith("<"):
        return malformed(
            f"{where} answered with a web page, not with JSON: {start}\n"
            "  fix: check the base_url; it ends in /v1 for most servers"
        )
    if start.startswith(("{", "[")):
        return malformed(f"{where} answered with JSON that is cut off", transient=True)
    return malformed(f"{where} answered with something else than JSON: {start}")


def malformed(message: str, *, transient: bool = False) -> AttemptError:
    """The failure of a response that cannot be read."""
    return AttemptError(message, kind="malformed", transient=transient)


def table_of(value: object) -> Mapping[str, Any]:
    """A JSON object; empty for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items_of(value: object) -> list[object]:
    """A JSON array; empty for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def finite(value: object) -> float | None:
    """A number that JSON can hold; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def read_tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call of a tool; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(
        id=str(call_id or ""), name=str(name or ""), arguments="" if arguments is None else text
    )


def read_usage(value: object, *, sent: str, received: str) -> Usage:
    """The tokens that a response counts; none where it counts none that can be read.

    Args:
        value: What the response holds under `usage`.
        sent: What the API calls the input, such as `prompt`.
        received: What it calls the output.
    """
    detail = table_of(value)
    read = count_of(detail.get(f"{sent}_tokens"))
    written = count_of(detail.get(f"{received}_tokens"))
    if read is None or written is None:
        return Usage()
    cached = table_of(detail.get(f"{sent}_tokens_details")).get("cached_tokens")
    reasoning = table_of(detail.get(f"{received}_tokens_details")).get("reasoning_tokens")
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_input_tokens=count_of(cached) or 0,
        reasoning_tokens=count_of(reasoning) or 0,
    )


def count_of(value: object) -> int | None:
    """A number of tokens; 0 where it is not given, None where it cannot be one."""
    if value is None:
        return 0
    number = finite(value)
    return int(number) if number is not None and 0 <= number <= _COUNT_MAX else None
