"""The providers of a configuration: models, endpoints, programs and code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from regauge.errors import InvalidFileError
from regauge.importers._source import SourceError
from regauge.importers.promptfoo._models import (
    is_code,
    model_id,
    prompt_parameters,
    replaced_by_model,
    without_environment,
)
from regauge.providers.remote import load_gaps
from regauge.strict_json import is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context

_Kind: TypeAlias = Literal["model", "python", "javascript", "http", "command", "echo", "other"]
_DEPTH_MAX: Final = 4
_LISTED: Final = re.compile(r"file://.*\.(?:ya?ml|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProvider:
    """One provider.

    Attributes:
        kind: `model` for a model that takes chats, `echo` for the prompt itself, `other` without a
            counterpart; else the kind of a target.
        names: Names that tests use for it.
        model: Its model id; empty for the project's model.
        parameters: Keys of a prompt file from its configuration.
        prompts: The prompts that it runs; empty for all.
    """

    kind: _Kind
    id: str
    label: str
    config: Mapping[str, Any]
    context: Context
    names: frozenset[str]
    model: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    prompts: tuple[str, ...] = ()
    transform: str = ""


def read_providers(config: Mapping[str, Any], context: Context) -> list[SourceProvider]:
    """The providers of a configuration."""
    key = "providers" if "providers" in config else "targets"
    providers = _named_providers(config.get(key), context.locate(config, key), 0)
    return [_provider(name, body, provider_context) for name, body, provider_context in providers]


def _named_providers(
    value: Any, context: Context, depth: int
) -> Iterator[tuple[str, Mapping[str, Any], Context]]:
    """The id and the keys of each provider, including those in files, with its context."""
    if value is None or depth > _DEPTH_MAX:
        return
    if is_list(value):
        for part, part_context in context.locate_items(value):
            yield from _named_providers(part, part_context, depth + 1)
        return
    name, body = _name_of(value)
    if not name:
        context.note("manual", "a provider has no `id`")
    elif _LISTED.fullmatch(name):
        try:
            document = context.repository.read_yaml(context.repository.resolve(name, context.base))
            yield from _named_providers(document, context, depth + 1)
        except (SourceError, InvalidFileError) as error:
            context.note("manual", f"a provider is not imported: {error}")
    else:
        yield name, body, context


def _name_of(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, str):
        return value, {}
    body = mapping_of(value)
    if isinstance(body.get("id"), str):
        return body["id"], body
    if len(body) == 1:
        name, inner = next(iter(body.items()))
        if inner is None or is_mapping(inner):
            return name, inner or {}
    return "", {}


def _provider(name: str, body: Mapping[str, Any], context: Context) -> SourceProvider:
    settings = dict(mapping_of(body.get("config")))
    label = str(body.get("label") or "")
    full = without_environment(name, context).strip()
    kind = _kind_of_provider(full)
    model = model_id(full, settings, context) if kind == "model" else ""
    if kind == "model" and not model and (replacement := replaced_by_model(full, settings)):
        model = model_id(replacement, settings, context) if ":" in replacement else ""
        text = f"the provider {full} has no counterpart: {model or 'the model of the project'}"
        text += " gets the prompt instead, without tools of an agent; or write a target"
        context.note("manual", text)
    elif kind == "other" or (kind == "model" and not model):
        kind = "other"
        text = "has no counterpart; write a target for it, see test-an-application"
        context.note("manual", f"the provider {full or name} {text}")
    return SourceProvider(
        kind=kind,
        id=full,
        label=label,
        config=settings,
        context=context,
        names=frozenset({name, full, label} - {""}),
        model=model,
        parameters=_parameters_of(model, settings, context) if kind == "model" else {},
        prompts=tuple(map(str, list_of(body.get("prompts")))),
        transform=str(body.get("transform") or settings.get("transform") or ""),
    )


def _parameters_of(model: str, config: Mapping[str, Any], context: Context) -> dict[str, JSON]:
    """The keys of a prompt file without those that the model's endpoint rejects.

    Another endpoint with the API of a vendor is assumed to accept them.
    """
    document = prompt_parameters(config, context)
    name, _, model_name = model.partition(":")
    table = context.imported.providers.get(name, {})
    api = str(table.get("api", "anthropic" if name == "anthropic" else "openai"))
    url = str(table.get("base_url", "https://api.openai.com/v1" if api == "openai" else ""))
    parameters = mapping_of(document.get("modelParameters"))
    keys = {re.sub(r"([A-Z])", r"_\1", key).lower(): key for key in parameters}
    if document.get("responseFormat") == "json_object":
        keys["json_object"] = "responseFormat"
    rejected = {
        parameter
        for gap in load_gaps()
        if api in gap.apis and re.search(gap.url, url) and re.match(gap.model, model_name)
        for parameter in gap.names
        if parameter in keys
    }
    if not rejected:
        return document
    if api == "anthropic" and "base_url" in table:
        context.imported.providers[name] = {**table, "accepts": sorted(rejected)}
        return document
    names = ", ".join(sorted(rejected))
    context.note("changed", f"{model} rejects or ignores {names}; the prompt has none")
    rejected_keys = {keys[name] for name in rejected}
    accepted = {key: value for key, value in parameters.items() if key not in rejected_keys}
    rest = {key: value for key, value in document.items() if key != "modelParameters"}
    if "json_object" in rejected:
        rest.pop("responseFormat", None)
    return {**({"modelParameters": accepted} if accepted else {}), **rest}


def _kind_of_provider(name: str) -> _Kind:
    if name == "echo":
        return "echo"
    if name in {"http", "https"} or name.startswith(("http://", "https://")):
        return "http"
    if name.startswith("exec:"):
        return "command"
    if re.search(r"\.(?:go|rb)(?::\w+)?\Z", name):
        return "other"
    if is_code(name):
        return "python" if re.search(r"\.py(?::\w+)?\Z", name) else "javascript"
    return "model"
