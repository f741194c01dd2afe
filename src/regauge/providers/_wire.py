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

__all__ = ["Answer", "body_of", "read_answer"]

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
_SERVER: Final = 500
_TOO_MANY: Final = 429


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
        AttemptError: It is not a chat completion: HTML, cut off, empty, or an error in disguise.
    """
    try:
        document: Any = read_json(content)
    except ValueError as error:
        raise _unreadable(content, where) from error
    if not isinstance(document, dict):
        raise _malformed(f"{where} answered with JSON that is no object")
    table = cast("dict[str, Any]", document)
    choices = cast("list[Any] | None", table.get("choices"))
    if isinstance(choices, list) and choices:
        return Answer(table, _table(choices[0]))
    if table.get("error"):
        # Gateways pass an error of the model behind them on with status 200.
        refusal = refusal_in(table)
        status = int(refusal.code) if refusal.code.isdigit() else _SERVER
        kind = "rate-limit" if status == _TOO_MANY else "server"
        raise AttemptError(
            f"{where} answered 200 with an error: {refusal.message}",
            kind=kind,
            status=status,
            transient=status >= _SERVER or status == _TOO_MANY,
        )
    raise _malformed(f"{where} answered without any choices", transient=True)


def _unreadable(content: bytes, where: str) -> AttemptError:
    start = " ".join(content[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
    if start.startswith("<"):
        return _malformed(
            f"{where} answered with a web page, not with JSON: {start}\n"
            "  fix: check the base_url; it ends in /v1 for most servers"
        )
    if start.startswith(("{", "[")) or not start:
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
    calls: Any = message.get("tool_calls") or ()
    if not calls and message.get("function_call"):
        calls = ({"function": message["function_call"]},)
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
    return float(value) if math.isfinite(value) else None


def _usage(value: object) -> Usage | None:
    """The tokens a response counts, or None where it counts none."""
    given = _table(value)
    if not given:
        return None
    return Usage(
        input_tokens=_count(given.get("prompt_tokens")),
        output_tokens=_count(given.get("completion_tokens")),
        cached_input_tokens=_count(_table(given.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=_count(
            _table(given.get("completion_tokens_details")).get("reasoning_tokens")
        ),
    )


def _count(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0
