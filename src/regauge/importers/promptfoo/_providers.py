"""Providers of a configuration: models and targets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from regauge.errors import FaultyFileError
from regauge.importers._source import SourceError, is_list, is_mapping, mapping_of, place_of
from regauge.importers.promptfoo._models import (
    is_code,
    model_id,
    prompt_parameters,
    replaced_by_model,
    without_environment,
)
from regauge.providers.remote import GAPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.importers._description import Place
    from regauge.importers.promptfoo._context import Context

__all__ = ["SourceProvider", "read_providers"]

_Kind: TypeAlias = Literal["model", "python", "javascript", "http", "command", "echo", "other"]
_DEPTH_MAX: Final = 4
_LISTED: Final = re.compile(r"file://.*\.(?:ya?ml|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProvider:
    """One provider.

    Attributes:
        kind: `model` for a model that takes chats, `echo` for the prompt itself, `other` for what
            needs a person; else the kind of a target.
        names: What tests may call it.
        model: Its model id; empty for the project's model.
        parameters: Keys of a prompt file that its configuration sets.
        prompts: The prompts that it answers; empty for all.
    """

    kind: _Kind
    id: str
    label: str
    config: Mapping[str, Any]
    place: Place
    names: frozenset[str]
    model: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    prompts: tuple[str, ...] = ()
    transform: str = ""


def read_providers(
    config: Mapping[str, Any], context: Context, place: Place
) -> list[SourceProvider]:
    """The providers of a configuration."""
    key = "providers" if "providers" in config else "targets"
    at = place_of(config, key, otherwise=place)
    return [
        _provider(name, body, context, where)
        for name, body, where in _named(config.get(key), context, at, 0)
    ]


def _named(
    given: Any, context: Context, place: Place, depth: int
) -> Iterator[tuple[str, Mapping[str, Any], Place]]:
    """The id and the keys of each provider, of files too."""
    if given is None or depth > _DEPTH_MAX:
        return
    if is_list(given):
        for number, part in enumerate(given):
            at = place_of(given, number, otherwise=place)
            yield from _named(part, context, at, depth + 1)
        return
    name, body = _name_of(given)
    if not name:
        context.note("person", place, "a provider has no `id`")
    elif _LISTED.fullmatch(name):
        try:
            path = context.repository.resolve(name, context.base)
            yield from _named(context.repository.read_yaml(path), context, place, depth + 1)
        except (SourceError, FaultyFileError) as error:
            context.note("person", place, f"a provider is not imported: {error}")
    else:
        yield name, body, place


def _name_of(given: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    body = mapping_of(given)
    if isinstance(body.get("id"), str):
        return body["id"], body
    if len(body) == 1:
        name, inner = next(iter(body.items()))
        if inner is None or is_mapping(inner):
            return name, inner or {}
    return "", {}


def _provider(name: str, body: Mapping[str, Any], context: Context, place: Place) -> SourceProvider:
    config = body.get("config")
    settings = dict(config) if is_mapping(config) else {}
    label = str(body.get("label") or "")
    full = without_environment(name, context, place).strip()
    prompts = body.get("prompts")
    kind = _kind(full)
    model = model_id(full, settings, context, place) if kind == "model" else ""
    if kind == "model" and not model and (what := replaced_by_model(full, settings)):
        model = model_id(what, settings, context, place) if ":" in what else ""
        why = f"the provider {full} has no counterpart: {model or 'the model of the project'}"
        why += " gets the prompt instead, without tools of an agent; or write a target"
        context.note("person", place, why)
    elif kind == "other" or (kind == "model" and not model):
        kind = "other"
        why = "has no counterpart; write a target for it, see test-an-application"
        context.note("person", place, f"the provider {full or name} {why}")
    return SourceProvider(
        kind=kind,
        id=full,
        label=label,
        config=settings,
        place=place,
        names=frozenset({name, full, label} - {""}),
        model=model,
        parameters=_accepted(model, prompt_parameters(settings, context, place), context, place)
        if kind == "model"
        else {},
        prompts=tuple(map(str, prompts)) if is_list(prompts) else (),
        transform=str(body.get("transform") or settings.get("transform") or ""),
    )


def _accepted(
    model: str, document: dict[str, JSON], context: Context, place: Place
) -> dict[str, JSON]:
    """The keys of a prompt file without those that the endpoint of its model rejects.

    An endpoint that only speaks the API of a vendor is taken to accept them.
    """
    name, _, own = model.partition(":")
    table = context.imported.providers.get(name, {})
    api = str(table.get("api", "anthropic" if name == "anthropic" else "openai"))
    url = str(table.get("base_url", "https://api.openai.com/v1" if api == "openai" else ""))
    given = mapping_of(document.get("modelParameters"))
    keys = {re.sub(r"([A-Z])", r"_\1", key).lower(): key for key in given}
    if document.get("responseFormat") == "json_object":
        keys["json_object"] = "responseFormat"
    rejected = {
        parameter
        for gap in GAPS
        if api in gap.apis and re.search(gap.url, url) and re.match(gap.model, own)
        for parameter in gap.names
        if parameter in keys
    }
    if not rejected:
        return document
    if api == "anthropic" and "base_url" in table:
        context.imported.providers[name] = {**table, "accepts": sorted(rejected)}
        return document
    names = ", ".join(sorted(rejected))
    context.note("changed", place, f"{model} rejects or ignores {names}; the prompt has none")
    kept = {
        key: value for key, value in given.items() if key not in {keys[one] for one in rejected}
    }
    rest = {key: value for key, value in document.items() if key != "modelParameters"}
    if "json_object" in rejected:
        rest.pop("responseFormat", None)
    return {**({"modelParameters": kept} if kept else {}), **rest}


def _kind(name: str) -> _Kind:
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
