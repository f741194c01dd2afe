"""The available providers: configured, built-in, and entry points of `regauge.providers`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from regauge.errors import UsageError
from regauge.model_id import SIMULATED
from regauge.on_demand import GROUPS, load_point, registered_points
from regauge.project import EndpointSettings
from regauge.providers._endpoint import Endpoint
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from regauge.project import Settings
    from regauge.providers._types import Provider

    ProviderFactory: TypeAlias = Callable[[Endpoint], Provider]

APIS: Final = ("openai", "responses", "anthropic")
"""The APIs that regauge supports itself."""

# Available without settings.
_USUAL: Final = {
    "openai": EndpointSettings(api_key_env="OPENAI_API_KEY"),
    "anthropic": EndpointSettings(api="anthropic", api_key_env="ANTHROPIC_API_KEY"),
}


ProviderContext: TypeAlias = Endpoint
"""The endpoint of a registered provider: its name, its table of the settings, the environment.

A provider whose class has `local = True` is called directly, without retries and pace.
"""


@cache
def registered_providers() -> Mapping[str, EntryPoint]:
    """Return the entry points of all installed packages, by name."""
    return registered_points(GROUPS["provider"])


@cache
def load_provider(name: str) -> ProviderFactory:
    """Load the class or function of an entry point; it creates a provider from a context.

    Raises:
        UsageError: No entry point has this name, or its package cannot be loaded.
    """
    points = registered_providers()
    point = points.get(name)
    if point is None:
        if name == SIMULATED:
            raise UsageError(
                "the simulated model is not registered: the installed entry points of regauge are"
                " older than its code\n  fix: install it again: pip install --no-deps --editable ."
            )
        names = sorted({*APIS, *points})
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise UsageError(
            f"api = {name!r} is neither an API that regauge speaks nor an entry point of the group"
            f" {GROUPS['provider']}\n  fix: {hint}; or install the package that registers {name!r}"
        )
    fix = "install what it needs, or correct the package that registers it"
    factory: ProviderFactory = load_point(point, "provider", fix=fix)
    return factory


def declared_endpoint(settings: Settings, name: str) -> EndpointSettings | None:
    """Return the endpoint of a configured or built-in provider; None for others."""
    return settings.providers.get(name) or _USUAL.get(name)


def endpoint_of(settings: Settings, name: str) -> EndpointSettings | None:
    """Return the endpoint of a provider; None for the simulated one.

    Raises:
        UsageError: The provider is unknown.
    """
    endpoint = declared_endpoint(settings, name)
    if endpoint is not None:
        return endpoint
    if name == SIMULATED:
        return None
    if name in registered_providers():
        return EndpointSettings(api=name)
    names = sorted({SIMULATED, *_USUAL, *registered_providers(), *settings.providers})
    suggestion = did_you_mean(name, names)
    hint = f"{suggestion} " if suggestion else ""
    fix = f"{hint}declare [tool.regauge.providers.{name}] with its base_url in pyproject.toml"
    raise UsageError(f"there is no provider {name!r}; there are {', '.join(names)}", fix=fix)
