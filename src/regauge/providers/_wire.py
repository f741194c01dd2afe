"""Chat completions as they go over the wire, and as they come back."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import ProviderError
from regauge.providers._failure import AttemptError, refusal_in
from regauge.providers._types import TokenLogprob, ToolCall, Usage
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.providers._types import CompletionRequest, FinishReason

__all__ = ["Answer", "EmbeddedError", "body_of", "read_answer"]

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
# One request is one draw, answered at once: what would change that is not a parameter of a model.
_NOT_PARAMETERS: Final = {
    "n": "remove it and ask for several draws with --trials",
    "stream": "remove it; answers are always read whole",
}
_EXCERPT: Final = 120
_CLIENT_ERRORS: Final = 400
_SERVER: Final = 500
_NO_STATUS: Final = 600
_TOO_MANY: Final = 429
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


class Answer:
    """What a response says, before latency and price are known."""

    __slots__ = (
        "fingerprint",
        "finish_reason",
        "logprobs",
        "model",
        "refusal",
        "text",
        "tool_calls",
        "usage",
    )

    def __init__(self, document: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        message = _table(choice.get("message"))
        self.text = _text(message.get("content"))
        self.refusal: str | None = message.get("refusal") or None
        self.tool_calls = _tool_calls(message)
        self.finish_reason: FinishReason = _FINISH.get(
            str(choice.get("finish_reason")).lower(), "unknown"
        )
        if self.text is None and self.refusal is None and not self.tool_calls:
            # Some servers say nothing at all where the answer is empty.
            self.text = "" if self.finish_reason == "stop" else None
        self.logprobs = _logprobs(choice.get("logprobs"))
        self.usage = _usage(document.get("usage"))
        self.model = str(document.get("model") or "")
        fingerprint = document.get("system_fingerprint")
        self.fingerprint = fingerprint if isinstance(fingerprint, str) else None


def body_of(
    request: CompletionRequest, *, limit_key: str = "max_tokens", vary_seed: bool = False
) -> dict[str, Any]:
    """The body of the HTTP request.

    Args:
        request: What is asked.
        limit_key: What the server calls `max_tokens`.
        vary_seed: Whether the trial number goes over the wire, added to the seed of the prompt.

    Raises:
        ProviderError: A parameter asks for something other than one whole answer.
    """
    parameters = request.parameters
    for name, fix in _NOT_PARAMETERS.items():
        if parameters.get(name) not in (None, name == "n"):
            raise ProviderError(
                f"{request.origin or 'the prompt'}: `{name}` is not a parameter regauge can send\n"
                f"  fix: {fix}",
                kind="bad-request",
            )
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
    }
    body.update({name: value for name, value in parameters.items() if name not in _NOT_PARAMETERS})
    if limit_key != "max_tokens" and "max_tokens" in body:
        body[limit_key] = body.pop("max_tokens")
    if request.response_format is not None:
        body["response_format"] = request.response_format
    if request.tools:
        body["tools"] = request.tools
    if vary_seed:
        seed = parameters.get("seed")
        body["seed"] = (seed if isinstance(seed, int) else 0) + request.trial
    return body


def read_answer(content: bytes, *, where: str) -> Answer:
    """Read the body of a successful response.

    Raises:
        AttemptError: It is not a chat completion: HTML, cut off, or empty.
        EmbeddedError: It is an error.
    """
    try:
        document: Any = read_json(content)
    except ValueError as error:
        raise _unreadable(content, where, error) from error
    items = _items(document)
    if len(items) == 1 and (stated := _table(items[0]).get("error")):
        raise EmbeddedError(stated)
    if not isinstance(document, dict):
        raise _malformed(f"{where} answered with JSON that is no object")
    table = cast("dict[str, Any]", document)
    choices = _items(table.get("choices"))
    choice = _table(choices[0] if choices else None)
    if stated := choice.get("error") or table.get("error"):
        raise EmbeddedError(stated)
    if not choices:
        raise _malformed(f"{where} answered without any choices", transient=True)
    if not _is_message(choice.get("message")):
        raise _malformed(f"{where} answered with a choice without a message", transient=True)
    return Answer(table, choice)


def _is_message(value: object) -> bool:
    message = _table(value)
    refusal: Any = message.get("refusal") or ""
    calls: Any = message.get("tool_calls") or []
    return isinstance(value, dict) and isinstance(refusal, str) and isinstance(calls, list)


def _unreadable(content: bytes, where: str, error: ValueError) -> AttemptError:
    start = " ".join(content[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
    if not start:
        return _malformed(f"{where} answered with an empty body", transient=True)
    if not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return _malformed(f"{where} answered with JSON that cannot be read: {error}")
    if start.startswith("<"):
        return _malformed(
            f"{where} answered with a web page, not with JSON: {start}\n"
            "  fix: check the base_url; it ends in /v1 for most servers"
        )
    if start.startswith(("{", "[")):
        return _malformed(f"{where} answered with JSON that is cut off", transient=True)
    return _malformed(f"{where} answered with something else than JSON: {start}")


def _malformed(message: str, *, transient: bool = False) -> AttemptError:
    return AttemptError(message, kind="malformed", transient=transient)


def _table(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(content: object) -> str | None:
    """The text of a message: a string, or the text parts of a list of parts."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_table(part).get("text") for part in cast("list[object]", content)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return json.dumps(content, ensure_ascii=False)


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = _items(message.get("tool_calls"))
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    return tuple([_tool_call(_table(call)) for call in calls])


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = _table(call.get("function"))
    arguments: Any = function.get("arguments", "")
    return ToolCall(
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def _logprobs(value: object) -> tuple[TokenLogprob, ...]:
    """The tokens of the text; what is no token with a finite number is left out, all of them."""
    found: list[TokenLogprob] = []
    for entry in _items(_table(value).get("content")):
        token, logprob = _table(entry).get("token"), _finite(_table(entry).get("logprob"))
        if not isinstance(token, str) or logprob is None:
            return ()
        top: list[tuple[str, float]] = []
        for other in _items(_table(entry).get("top_logprobs")):
            text, its = _table(other).get("token"), _finite(_table(other).get("logprob"))
            if isinstance(text, str) and its is not None:
                top.append((text, its))
        found.append(TokenLogprob(token=token, logprob=logprob, top=tuple(top)))
    return tuple(found)


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _finite(value: object) -> float | None:
    """A number that JSON can hold; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _usage(value: object) -> Usage | None:
    """The tokens a response counts, or None where it counts none that can be read."""
    given = _table(value)
    sent, received = _count(given.get("prompt_tokens")), _count(given.get("completion_tokens"))
    if not given or sent is None or received is None:
        return None
    cached = _count(_table(given.get("prompt_tokens_details")).get("cached_tokens"))
    reasoning = _count(_table(given.get("completion_tokens_details")).get("reasoning_tokens"))
    return Usage(
        input_tokens=sent,
        output_tokens=received,
        cached_input_tokens=cached or 0,
        reasoning_tokens=reasoning or 0,
    )


def _count(value: object) -> int | None:
    """A number of tokens; 0 where it is not given, None where it cannot be one."""
    if value is None:
        return 0
    number = _finite(value)
    return int(number) if number is not None and 0 <= number <= _COUNT_MAX else None
