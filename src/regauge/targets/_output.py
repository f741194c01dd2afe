"""Converts outputs of targets to completions; files of recorded outputs."""

from __future__ import annotations

import codecs
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from regauge.digests import digest_of
from regauge.errors import DatasetError, Diagnostic, ProviderError
from regauge.prompts import Role
from regauge.providers import Completion, FinishReason, ToolCall, Usage
from regauge.strict_json import is_mapping, is_sequence, list_of, mapping_of, read_json
from regauge.wording import cut, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.digests import JSON


OUTPUT_MAX: Final = 10_000_000
"""The most bytes of one output."""

OUTPUT_FIELDS: Final = ("text", "messages", "tool_calls", "context", "usage", "cost_usd")
# Further keys of `Completion.to_json`.
_FURTHER: Final = (
    "finish_reason",
    "refusal",
    "fingerprint",
    "model",
    "provider",
    "latency_s",
    "attempts",
    "logprobs",
)
_COST_MAX: Final = sys.float_info.max
_ROLES: Final = (*get_args(Role), "function")


def completion_of(
    output: JSON,
    *,
    provider: str,
    model: str,
    latency_s: float = 0.0,
    cost_usd: float | None = None,
    attempts: int = 1,
) -> Completion:
    """Convert an output to a completion.

    A mapping with `text` or `messages`, and only keys of a completion, has its parts. Any other
    mapping is the output itself, as JSON.

    Args:
        output: The output of the target.
        provider: The kind of the target.
        model: The name of the target, for outputs without a model.
        latency_s: The latency in seconds.
        cost_usd: The cost in US dollars of an output that states none; None if unknown.
        attempts: The number of attempts.

    Raises:
        ProviderError: A part has the wrong type.
    """
    if isinstance(output, str):
        output = {"text": output}
    elif not isinstance(output, Mapping):
        raise _malformed_error(f"it is neither text nor an object: {_format_value(output)}")
    parts = cast("Mapping[str, Any]", output)
    has_parts = ("text" in parts or "messages" in parts) and all(
        key in OUTPUT_FIELDS or key in _FURTHER for key in parts
    )
    if not has_parts:
        parts = {"text": json.dumps(output, ensure_ascii=False)}
    else:
        # Programs may write NaN, which recordings cannot hold.
        try:
            json.dumps(parts, allow_nan=False)
        except ValueError:
            problem = "it holds NaN or an infinity, which JSON does not have"
            raise _malformed_error(problem) from None
    messages = tuple(map(_read_message, _mappings(parts, "messages")))
    calls = parts.get("tool_calls")
    if calls is None:
        calls = [call for message in messages for call in _message_calls(message)]
    cost = parts.get("cost_usd")
    if cost is not None and (
        isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= _COST_MAX
    ):
        raise _malformed_error(f"`cost_usd` is not a number from 0: {_format_value(cost)}")
    tool_calls, text = _tool_calls(calls), _text(parts, messages)
    return Completion(
        text=text,
        finish_reason=_finish_reason(parts, text, tool_calls),
        refusal=_optional_text(parts, "refusal"),
        tool_calls=tool_calls,
        messages=messages,
        context=tuple(_as_text(item) for item in _list(parts, "context")),
        usage=_usage(parts.get("usage")),
        model=str(parts.get("model") or model),
        fingerprint=_optional_text(parts, "fingerprint"),
        provider=provider,
        latency_s=round(latency_s, 4),
        cost_usd=cost_usd if cost is None else float(cost),
        attempts=attempts,
    )


def _finish_reason(
    parts: Mapping[str, Any], text: str | None, calls: Sequence[ToolCall]
) -> FinishReason:
    reason = parts.get("finish_reason")
    if reason is None:
        return "tool_calls" if calls and text is None else "stop"
    reasons = get_args(FinishReason)
    if reason not in reasons:
        raise _malformed_error(
            f"`finish_reason` is none of {', '.join(reasons)}: {_format_value(reason)}"
        )
    return cast("FinishReason", reason)


def _read_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with a text as its content if that is a list of texts."""
    if message.get("role") not in _ROLES:
        raise _malformed_error(
            f"a message has no `role` of {', '.join(_ROLES)}: {_format_value(message)}"
        )
    content = message.get("content")
    texts = [mapping_of(part).get("text") for part in list_of(content)]
    if not texts or not all(isinstance(text, str) for text in texts):
        return message
    return {**message, "content": "".join(map(str, texts))}


def _message_calls(message: Mapping[str, Any]) -> Sequence[object]:
    """The tool calls of a message; those in other forms are errors, as judges would miss them."""
    parts = filter(is_mapping, list_of(message.get("content")))
    uses = [part for part in parts if part.get("type") == "tool_use"]
    if other_call := message.get("function_call") or uses:
        raise _malformed_error(
            f"a call is not in `tool_calls` of its message: {_format_value(other_call)}"
        )
    return _list(message, "tool_calls")


def _optional_text(parts: Mapping[str, Any], name: str) -> str | None:
    value = parts.get(name)
    if not isinstance(value, str | None):
        raise _malformed_error(f"`{name}` is not text: {_format_value(value)}")
    return value


def _text(parts: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The text, or else that of the assistant's last message."""
    text: object = parts.get("text")
    if "text" not in parts:
        assistant_messages = [message for message in messages if message.get("role") == "assistant"]
        text = assistant_messages[-1].get("content") if assistant_messages else None
    if text is None:
        if parts.get("tool_calls") or parts.get("refusal") or messages:
            return None
        raise _malformed_error("`text` is null, and there are no tool calls")
    if not isinstance(text, str):
        raise _malformed_error(f"`text` is not text: {_format_value(text)}")
    return text


def _list(parts: Mapping[str, object], name: str) -> Sequence[object]:
    value = parts.get(name)
    if value is None:
        return ()
    if not is_sequence(value):
        raise _malformed_error(f"`{name}` is not a list: {_format_value(value)}")
    return value


def _mappings(parts: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    entries = _list(parts, name)
    for item in entries:
        if not isinstance(item, Mapping):
            raise _malformed_error(
                f"`{name}` holds something that is not an object: {_format_value(item)}"
            )
    return cast("Sequence[Mapping[str, Any]]", entries)


def _tool_calls(entries: object) -> tuple[ToolCall, ...]:
    """Tool calls in the form `{name, arguments}`, or OpenAI's `{id, function: {...}}`."""
    calls: list[ToolCall] = []
    for number, item in enumerate(_mappings({"tool_calls": entries}, "tool_calls")):
        table = mapping_of(item.get("function", item))
        name = table.get("name")
        if not isinstance(name, str):
            raise _malformed_error(f"a tool call has no name: {_format_value(item)}")
        arguments = table.get("arguments", {})
        id_ = str(item.get("id") or f"call_{number}")
        calls.append(ToolCall(id=id_, name=name, arguments=_as_text(arguments)))
    return tuple(calls)


def _usage(usage_value: object) -> Usage:
    """Token counts under regauge's names or OpenAI's."""
    if usage_value is None:
        return Usage()
    if not isinstance(usage_value, Mapping):
        raise _malformed_error(f"`usage` is not an object: {_format_value(usage_value)}")
    table = cast("Mapping[str, object]", usage_value)

    def count(*names: str) -> int:
        value = next((table[name] for name in names if table.get(name) is not None), 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise _malformed_error(f"`usage` holds no number of tokens: {_format_value(value)}")
        return value

    return Usage(
        input_tokens=count("input_tokens", "prompt_tokens"),
        output_tokens=count("output_tokens", "completion_tokens"),
        cached_input_tokens=count("cached_input_tokens"),
        reasoning_tokens=count("reasoning_tokens"),
    )


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_value(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False, default=repr), 80)


def _malformed_error(reason: str) -> ProviderError:
    fix = f"return text, or an object with {', '.join(OUTPUT_FIELDS)}"
    return ProviderError(
        f"the output is not what was declared: {reason}", fix=fix, kind="malformed"
    )


_KEYS: Final = ("case", "trial", *OUTPUT_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedOutputs:
    """The outputs of a file, by case and trial.

    Attributes:
        name: The name of the target.
        lines: The outputs by case and trial.
        cost_usd: The cost in US dollars of an output that states none; None if unknown.
    """

    name: str
    lines: Mapping[str, Mapping[int, Mapping[str, JSON]]]
    cost_usd: float | None

    @property
    def digest(self) -> str:
        """The digest of all outputs."""
        return digest_of({case: self.digest_of_case(case) for case in self.lines})

    def digest_of_case(self, case: str) -> str:
        """The digest of all outputs of a case."""
        lines = self.lines.get(case, {})
        return digest_of([[trial, lines[trial]] for trial in sorted(lines)])

    def find(self, case: str, trial: int) -> Completion | None:
        """The output of a trial; None if the file does not have it."""
        output = self.lines.get(case, {}).get(trial)
        if output is None:
            return None
        return completion_of(output, provider="recorded", model=self.name, cost_usd=self.cost_usd)


def read_outputs(
    data: bytes | None, *, place: Path, name: str, cost_usd: float | None
) -> RecordedOutputs:
    """Read a file of outputs.

    Args:
        data: The contents; None if the file does not exist.
        place: The path, for errors.
        name: The name of the target.
        cost_usd: The cost in US dollars of an output that states none; None if unknown.

    Raises:
        DatasetError: The file does not exist, or lines are invalid; all errors together.
    """
    if data is None:
        fix = "write it, or correct `path` in [tool.regauge.targets." + name + "]"
        raise DatasetError.at_place(place, "no such file", fix)
    trials: dict[str, dict[int, Mapping[str, JSON]]] = defaultdict(dict)
    diagnostics: list[Diagnostic] = []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case, trial, output = _read_line(line)
        except ValueError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            diagnostics.append(Diagnostic(path=place, line=number, message=message, fix=fix))
            continue
        if trial in trials[case]:
            message, fix = f"case {case!r} has trial {trial} twice", "count its trials from 0"
            diagnostics.append(Diagnostic(path=place, line=number, message=message, fix=fix))
        trials[case][trial] = output
    if diagnostics:
        raise DatasetError(diagnostics)
    return RecordedOutputs(name=name, lines=trials, cost_usd=cost_usd)


def _read_line(line: bytes) -> tuple[str, int, Mapping[str, JSON]]:
    if len(line) > OUTPUT_MAX:
        raise ValueError(f"the line is larger than {OUTPUT_MAX:,} bytes")
    document: object = read_json(line.decode("utf-8"))
    if not isinstance(document, Mapping):
        raise ValueError("not an object\n  fix: write case, trial and text")  # noqa: TRY004
    fields = cast("Mapping[str, Any]", document)
    for key in fields:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"there are {', '.join(_KEYS)}"
            raise ValueError(f"unknown key {key!r}\n  fix: {hint}")
    case, trial = fields.get("case"), fields.get("trial", 0)
    if not isinstance(case, str) or not case:
        raise ValueError("`case` is missing\n  fix: name the golden case")
    if type(trial) is not int or trial < 0:
        raise ValueError(f"`trial` is {trial!r}, not a number from 0")
    if "text" not in fields and "messages" not in fields:
        raise ValueError("it has neither `text` nor `messages`")
    output = {key: fields[key] for key in OUTPUT_FIELDS if key in fields}
    try:
        completion_of(output, provider="", model="")
    except ProviderError as error:
        raise ValueError(str(error)) from error
    return case, trial, output
