"""The simulated model: a pure function of a request and a trial, and its provider."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.errors import ProviderError
from regauge.providers import Completion, Usage
from regauge.sim._instructions import read_instructions, read_layout
from regauge.sim._judge import judge
from regauge.sim._refiner import refine
from regauge.sim._reply import call_tool, compose, fill_skeleton, tool_results
from regauge.sim._rules import CLERK_1, Dice, Rules
from regauge.sim._text import CHARS_PER_TOKEN, count_tokens, read_document, stems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.prompts import ToolCall
    from regauge.providers import CompletionRequest, FinishReason, ProviderContext

# The ranges of OpenAI's API reference; the limit on tokens is ours.
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "max_tokens": (1, 1_000_000),
    "max_completion_tokens": (1, 1_000_000),
    "n": (1, 128),
    "top_logprobs": (0, 20),
}
_STOPS_MAX: Final = 4


class BadParameterError(ValueError):
    """A parameter outside its range; `parameter` names it."""

    def __init__(self, message: str, *, parameter: str) -> None:
        self.parameter = parameter
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The meaning of a request's parameters for the simulated model.

    Attributes:
        temperature: From 0 to 2; 1 by default.
        tokens_max: The maximum output in tokens, or None.
        seed: Added to the trial number.
    """

    temperature: float
    tokens_max: int | None
    stop: tuple[str, ...]
    seed: int
    n: int


def _number(name: str, value: JSON) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadParameterError(f"Invalid type for '{name}': expected a number.", parameter=name)
    value_min, value_max = _RANGES[name]
    if not value_min <= value <= value_max:
        side, bound = ("minimum", value_min) if value < value_min else ("maximum", value_max)
        raise BadParameterError(
            f"Invalid '{name}': {value} is outside its range; the {side} is {bound}.",
            parameter=name,
        )
    if name in {"max_tokens", "max_completion_tokens", "n", "top_logprobs"} and value != int(value):
        raise BadParameterError(f"Invalid type for '{name}': expected an integer.", parameter=name)
    return float(value)


def read_parameters(parameters: Mapping[str, JSON]) -> Sampling:
    """Check and read the parameters; those without an effect here are only checked.

    Raises:
        BadParameterError: One is of the wrong type or outside its range.
    """
    numbers = {
        name: _number(name, value)
        for name in _RANGES
        if (value := parameters.get(name)) is not None
    }
    stop = parameters.get("stop")
    stops = [stop] if isinstance(stop, str) else list(cast("Sequence[JSON]", stop or ()))
    if len(stops) > _STOPS_MAX or not all(isinstance(text, str) for text in stops):
        raise BadParameterError(
            f"Invalid 'stop': expected at most {_STOPS_MAX} texts.", parameter="stop"
        )
    seed = parameters.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadParameterError("Invalid type for 'seed': expected an integer.", parameter="seed")
    limit = numbers.get("max_completion_tokens", numbers.get("max_tokens"))
    return Sampling(
        temperature=numbers.get("temperature", 1.0),
        tokens_max=int(limit) if limit is not None else None,
        stop=tuple(str(text) for text in stops if text),
        seed=seed if isinstance(seed, int) else 0,
        n=int(numbers.get("n", 1)),
    )


REFUSAL: Final = "I'm sorry, but I can't help with that."

_TOKENS_PER_MESSAGE: Final = 4  # its frame


def _compose_reply(
    request: CompletionRequest, dice: Dice
) -> tuple[str | tuple[ToolCall, ...], FinishReason]:
    """Return the text before it is cut, or the tool calls, and the finish reason."""
    # Requests of refiners and judges are recognised by their schemas; the first match replies.
    for role in (refine, judge):
        text = role(request, dice)
        if text is not None:
            return text, "stop"
    layout = read_layout(request.messages)
    instructions = read_instructions(layout, request.response_format)
    if instructions.requests_harm:
        return REFUSAL, "content_filter"
    # The seed is the words of the document, not its spacing.
    seed = " ".join(layout.document.split() or stems(layout.instructions))
    dice = dice.with_seed(seed, tokens=instructions.tokens)
    reply = fill_skeleton(request, layout, dice) or call_tool(request, layout, dice)
    if reply is not None:
        return reply, "stop" if isinstance(reply, str) else "tool_calls"
    results = tool_results(request)
    lines = [f"{name}: {value}" for name, value in results.items()]
    document = read_document(
        "\n\n".join((layout.document, *lines)), (*layout.parts, *results.items())
    )
    text = compose(document, instructions, dice)
    if not instructions.wants_json and not any(value in text for value in results.values()):
        text = "\n".join((text, *lines))
    return text, "stop"


def complete(request: CompletionRequest, *, rules: Rules = CLERK_1) -> Completion:
    """Complete a request. The same request and trial always have the same completion.

    Raises:
        ProviderError: A parameter is out of range; its kind is `bad-request`.
    """
    try:
        sampling = read_parameters(request.parameters)
    except BadParameterError as error:
        place = f" of {request.origin}" if request.origin else ""
        raise ProviderError(
            f"the simulated model does not take the parameters{place}: {error}\n"
            f"  fix: change or remove {error.parameter} in modelParameters",
            kind="bad-request",
            status=400,
        ) from error
    number, temperature = request.trial + sampling.seed, sampling.temperature
    dice = Dice(rules=rules, number=number, temperature=temperature)
    reply, reason = _compose_reply(request, dice)
    text, calls = (reply, ()) if isinstance(reply, str) else (None, reply)
    if text is not None and reason == "stop":
        for stop in sampling.stop:
            text = text.split(stop, 1)[0]
        if sampling.tokens_max is not None and count_tokens(text) > sampling.tokens_max:
            text, reason = text[: sampling.tokens_max * CHARS_PER_TOKEN], "length"
    output = text if text is not None else "".join(call.name + call.arguments for call in calls)
    input_tokens = sum(count_tokens(m.content) + _TOKENS_PER_MESSAGE for m in request.messages)
    return Completion(
        text=text,
        tool_calls=calls,
        finish_reason=reason,
        refusal=text if reason == "content_filter" else None,
        usage=Usage(input_tokens=input_tokens, output_tokens=count_tokens(output)),
        model=rules.model,
        fingerprint=rules.fingerprint,
        provider="sim",
        latency_s=0.0,
        cost_usd=0.0,
    )


class SimulatedProvider:
    """The provider of `sim:clerk-1` in this process; its latency is the computing time."""

    local = True
    models = (CLERK_1.model,)

    def __init__(self, context: ProviderContext | None = None) -> None:
        del context  # no endpoint, no key

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete one request.

        Raises:
            ProviderError: The model has another name, or a parameter is out of range.
        """
        if request.model != CLERK_1.model:
            place = f" ({request.origin})" if request.origin else ""
            message = f"there is no simulated model {request.model!r}{place}"
            raise ProviderError(
                message, fix=f"write sim:{CLERK_1.model}", kind="bad-request", status=404
            )
        if any(message.attachments for message in request.messages):
            raise ProviderError(
                f"{request.origin or 'the prompt'} has an attachment, which the simulated model"
                " does not read\n  fix: use a model that does, with `model:` or --model",
                kind="bad-request",
            )
        started = time.perf_counter()
        completion = complete(request)
        return dataclasses.replace(completion, latency_s=round(time.perf_counter() - started, 6))

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""
