"""The one table of what endpoints are known to ignore or to reject."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from regauge.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.providers._endpoint import Endpoint
    from regauge.providers._types import CompletionRequest

__all__ = ["GAPS", "Gap", "supported"]

_DEFAULT: Final = 1
_SAMPLING: Final = ("frequency_penalty", "presence_penalty", "logit_bias", "min_p")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What some endpoints do not take.

    Attributes:
        apis: The APIs it holds for.
        url: A regular expression that is searched in the endpoint's URL.
        model: A regular expression that is matched with the model.
        names: Parameters, `response_format`, `json_object` (a response format) or `strict` (of a
            tool or a schema).
        does: Whether the endpoint drops them in silence or answers with an error.
        instead: What to do.
    """

    apis: tuple[str, ...]
    url: str = ""
    model: str = ""
    names: tuple[str, ...]
    does: Literal["ignores", "rejects"]
    instead: str


GAPS: Final = (
    # Anthropic's page on compatibility with the OpenAI SDK lists them as ignored.
    Gap(
        apis=("openai",),
        url=r"//api\.anthropic\.com\b",
        names=(
            "response_format",
            "strict",
            "seed",
            "logprobs",
            "top_logprobs",
            "reasoning_effort",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
        ),
        does="ignores",
        instead='set api = "anthropic" for the provider',
    ),
    # Version 2026-10-21 of the API, as the SDK sends it, has no parameters of sampling.
    Gap(
        apis=("anthropic",),
        names=(
            "temperature",
            "top_p",
            "top_k",
            "seed",
            "logprobs",
            "top_logprobs",
            "verbosity",
            "json_object",
            *_SAMPLING,
        ),
        does="rejects",
        instead="remove it; for JSON use responseFormat: json_schema",
    ),
    Gap(
        apis=("responses",),
        names=("seed", "stop", "top_k", *_SAMPLING),
        does="rejects",
        instead='remove it, or use a provider with api = "openai"',
    ),
    Gap(
        apis=("openai", "responses"),
        url=r"//api\.openai\.com\b",
        model=r"(?:o\d|gpt-5(?:-mini|-nano|-pro)?)(?:-\d{4}.*)?$",
        names=("temperature", "top_p", "logprobs", "top_logprobs", *_SAMPLING),
        does="rejects",
        instead="remove it; these models take reasoning_effort",
    ),
    Gap(
        apis=("openai",),
        url=r":11434\b|//ollama\.com\b",
        names=("logit_bias",),
        does="ignores",
        instead="remove it",
    ),
)


def supported(request: CompletionRequest, endpoint: Endpoint) -> CompletionRequest:
    """A request without its optional parameters that the endpoint does not take.

    Raises:
        ProviderError: The request needs what the endpoint does not take.
    """
    needs = set(_needs(request)) - set(endpoint.settings.accepts)
    left_out: set[str] = set()
    for gap in GAPS:
        lacking = [name for name in gap.names if name in needs]
        if (
            not lacking
            or endpoint.settings.api not in gap.apis
            or not re.search(gap.url, endpoint.url)
            or not re.match(gap.model, request.model)
        ):
            continue
        left_out.update(lacking)
        name = next((name for name in lacking if name not in request.optional), None)
        if name is None:
            continue
        where = f"{request.provider}:{request.model}" if gap.model else str(endpoint)
        raise ProviderError(
            f"{request.origin or 'the prompt'} needs `{name}`, which {where} {gap.does}; no request"
            f" was sent\n  fix: {gap.instead}; if the endpoint takes it by now, add"
            f" accepts = [{name!r}] to [tool.regauge.providers.{request.provider}]",
            kind="bad-request",
        )
    if not left_out:
        return request
    kept = {name: value for name, value in request.parameters.items() if name not in left_out}
    return replace(request, parameters=kept)


def _needs(request: CompletionRequest) -> Iterator[str]:
    for name, value in request.parameters.items():
        if name in {"temperature", "top_p"} and value == _DEFAULT:
            continue
        if value is not None and value is not False:
            yield name
    wanted = request.response_format
    if wanted is not None and wanted.get("type") != "text":
        yield "response_format"
        if wanted.get("type") == "json_object":
            yield "json_object"
        schema = wanted.get("json_schema")
        if isinstance(schema, dict) and schema.get("strict"):
            yield "strict"
    for tool in request.tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("strict"):
            yield "strict"
