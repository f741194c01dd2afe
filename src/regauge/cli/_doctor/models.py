"""The models that evals ask: whether there is a key, and whether the endpoint still has them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from regauge.cli._doctor.finding import Finding
from regauge.errors import ProviderError, UsageError
from regauge.providers import parse_model_id
from regauge.providers._endpoint import Endpoint
from regauge.providers.listing import list_models
from regauge.providers.registry import APIS, load_provider
from regauge.runner import endpoint_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

    from regauge.cli._doctor.finding import Level
    from regauge.project import EndpointSettings, Settings

__all__ = ["model_findings"]

_SOON_DAYS = 90
_SIMULATED = "sim"


def model_findings(
    models: Iterable[str], settings: Settings, environ: Mapping[str, str], *, offline: bool
) -> Iterator[Finding]:
    """One finding per provider, and one per model that is amiss."""
    by_provider: dict[str, set[str]] = {}
    for text in sorted(set(models)):
        try:
            model = parse_model_id(text)
        except UsageError as error:
            yield Finding(check="models", level="error", message=error.message, fix=error.fix)
            continue
        by_provider.setdefault(model.provider, set()).add(model.model)
    for provider, wanted in sorted(by_provider.items()):
        if provider == _SIMULATED:
            names = ", ".join(sorted(wanted))
            yield Finding(
                check="models", level="ok", message=f"{names}: simulated, needs no key; no LLM"
            )
            continue
        try:
            declared = endpoint_of(settings, provider)
        except UsageError as error:
            yield Finding(check="endpoints", level="error", message=error.message, fix=error.fix)
            continue
        if declared is not None:
            yield from _of_endpoint(provider, wanted, declared, environ, offline=offline)


def _of_endpoint(
    provider: str,
    wanted: set[str],
    endpoint: EndpointSettings,
    environ: Mapping[str, str],
    *,
    offline: bool,
) -> Iterator[Finding]:
    if endpoint.api not in APIS:
        try:
            load_provider(endpoint.api)
        except UsageError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            yield Finding(check="endpoints", level="error", message=message, fix=fix)
            return
    if endpoint.api_key_command:
        program = endpoint.api_key_command[0]
        there = shutil.which(program) is not None
        yield Finding(
            check="keys",
            level="ok" if there else "warning",
            message=f"{program} prints the key for {provider}; it runs before a request only"
            if there
            else f"there is no program {program!r}, the api_key_command of {provider}",
            fix="" if there else f"install {program}, or correct api_key_command",
        )
        return
    variable = Endpoint(name=provider, settings=endpoint, environ=environ).key_env
    if variable is not None and not environ.get(variable, "").strip():
        yield Finding(
            check="keys",
            level="warning",
            message=f"{variable} is not set: {provider} can be replayed, not asked",
            fix=f"export {variable}=...",
        )
        return
    if variable is not None:
        yield Finding(check="keys", level="ok", message=f"{variable} is set, for {provider}")
    if offline or endpoint.api not in APIS:
        return
    try:
        listed = list_models(provider, endpoint, environ)
    except ProviderError as error:
        yield Finding(
            check="endpoints",
            level="error",
            message=f"{provider}: {error}",
            fix="check base_url and key; regauge doctor --offline asks no endpoint",
        )
        return
    message = f"{provider} lists {plural(len(listed), 'model')}"
    yield Finding(check="endpoints", level="ok", message=message)
    today = datetime.now(UTC).date()
    for model in sorted(wanted):
        yield from _of_model(f"{provider}:{model}", model, listed, today)


def _of_model(
    shown: str, model: str, listed: Mapping[str, date | None], today: date
) -> Iterator[Finding]:
    if model not in listed:
        yield Finding(
            check="models",
            level="error",
            message=f"{shown} is not among the models its endpoint lists",
            fix="name one of those, or the snapshot that replaced it",
        )
        return
    last = listed[model]
    if last is None:
        yield Finding(check="models", level="ok", message=f"{shown} is listed")
        return
    days = (last - today).days
    level: Level = "error" if days < 0 else "warning" if days <= _SOON_DAYS else "ok"
    words = "was shut down" if days < 0 else "is shut down"
    yield Finding(
        check="models",
        level=level,
        message=f"{shown} {words} on {last}, by its endpoint's list",
        fix="" if level == "ok" else "try the next one: pytest evals --model PROVIDER:MODEL",
    )
