"""Opens the providers a run needs, each once, and knows what their models cost."""

from __future__ import annotations

import math
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.errors import ProviderError, UsageError
from regauge.judges import EXTERNAL
from regauge.model_id import SIMULATED
from regauge.project import (
    ENDPOINT_IDENTITY,
    TARGET_KINDS,
    EndpointSettings,
    PriceSettings,
)
from regauge.providers import batch_cost_of, price_of
from regauge.providers._endpoint import Endpoint
from regauge.providers.registry import (
    APIS,
    ProviderContext,
    load_provider,
    registered_providers,
)
from regauge.targets import TargetProvider
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.model_id import ModelId
    from regauge.project import Project, Settings
    from regauge.providers import CompletionRequest, Provider
    from regauge.targets import Target

__all__ = ["Providers", "batch_cost", "check_model", "endpoint_digest", "endpoint_of", "price_for"]

_FREE = PriceSettings(input_per_million=0, output_per_million=0)
# There without being declared.
_USUAL = {
    "openai": EndpointSettings(api_key_env="OPENAI_API_KEY"),
    "anthropic": EndpointSettings(api="anthropic", api_key_env="ANTHROPIC_API_KEY"),
}
_AUTO_WIDTH = 64
_CONNECTIONS_MAX = 1024
# Left for the local store, recordings, event loops and what modules open while they load.
_SPARE_FILES = 24


class Providers:
    """The providers of a run, opened when they are first asked.

    Args:
        project: Where endpoints are declared.
        environ: Where keys are.
        concurrency: Requests in flight at once, per provider, over all processes of the run.
        workers: How many processes share the run.
    """

    def __init__(
        self,
        project: Project,
        environ: Mapping[str, str],
        *,
        concurrency: int | Literal["auto"],
        workers: int,
    ) -> None:
        self._root = project.root
        self._settings = project.settings
        self._environ = environ
        self._concurrency: int | Literal["auto"] = (
            concurrency if concurrency == "auto" else math.ceil(concurrency / workers)
        )
        # A connection needs a file descriptor, and a request that gets none fails.
        connections_max = _connections_max()
        if self.width > connections_max:
            self._concurrency = connections_max
        self._open: dict[str, Provider] = {}
        self._targets: dict[Target, TargetProvider] = {}

    @property
    def width(self) -> int:
        """The limit of requests in flight."""
        return _AUTO_WIDTH if self._concurrency == "auto" else self._concurrency

    def of(self, name: str) -> Provider:
        """The provider of a name.

        Raises:
            UsageError: Nothing declares it.
        """
        provider = self._open.get(name)
        if provider is None:
            provider = self._open[name] = self._opened(name)
        return provider

    def of_target(self, target: Target) -> Provider:
        """The caller of a target."""
        provider = self._targets.get(target)
        if provider is None:
            provider = self._targets[target] = TargetProvider(
                target,
                home=self._root,
                environ=self._environ,
                concurrency=self._concurrency,
                timeout_s=self._settings.timeout_s,
            )
        return provider

    async def end_target(self, target: Target) -> None:
        """End the process of a target; the next call starts another one."""
        provider = self._targets.pop(target, None)
        if provider is not None:
            await provider.aclose()

    async def aclose(self) -> None:
        """Close the connections and end the processes of all of them."""
        for provider in (*self._open.values(), *self._targets.values()):
            await provider.aclose()

    def _opened(self, name: str) -> Provider:
        endpoint = endpoint_of(self._settings, name) or EndpointSettings(api=SIMULATED)
        registered = None
        if endpoint.api not in APIS:
            context = ProviderContext(name=name, settings=endpoint, environ=self._environ)
            try:
                registered = load_provider(endpoint.api)(context)
            except UsageError as error:
                # A replay of its answers needs no package.
                raise ProviderError(str(error), kind="not-found") from error
            if getattr(registered, "local", False):
                return registered
        else:
            import_module("openai")
        from regauge.providers.remote import RemoteProvider

        # Loaded now: where no more files can be opened, a retry could not load them.
        import_module("stamina")
        return RemoteProvider(
            endpoint,
            name=name,
            environ=self._environ,
            concurrency=self._concurrency,
            timeout_s=self._settings.timeout_s,
            registered=registered,
        )


def _connections_max() -> int:
    """The connections that the limit of open files (`ulimit -n`) allows, at least 1."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        count = sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):  # pragma: no cover - not on the systems tests run on
        return _CONNECTIONS_MAX
    if limit == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return max(1, min(limit - count - _SPARE_FILES, _CONNECTIONS_MAX))


def endpoint_of(settings: Settings, name: str) -> EndpointSettings | None:
    """Where a provider is; None for the simulated one, which is nowhere.

    Raises:
        UsageError: Nothing declares it.
    """
    declared = settings.providers.get(name) or _USUAL.get(name)
    if declared is not None:
        return declared
    if name == SIMULATED:
        return None
    if name in registered_providers():
        return EndpointSettings(api=name)
    known = sorted({SIMULATED, *_USUAL, *registered_providers(), *settings.providers})
    meant = did_you_mean(name, known)
    hint = f"{meant} " if meant else ""
    raise UsageError(
        f"there is no provider {name!r}; there are {', '.join(known)}\n"
        f"  fix: {hint}declare [tool.regauge.providers.{name}] with its base_url in pyproject.toml"
    )


def check_model(settings: Settings, model: ModelId) -> None:
    """See that a provider is there and, where it lists its models in this process, has the model.

    Raises:
        UsageError: It is not, or has not.
    """
    if endpoint_of(settings, model.provider) is not None:
        return
    known: tuple[str, ...] = getattr(load_provider(model.provider), "models", (model.model,))
    if model.model not in known:
        names = ", ".join(f"{model.provider}:{name}" for name in known)
        raise UsageError(f"there is no simulated model {model.model!r}\n  fix: write {names}")


def endpoint_digest(settings: Settings, environ: Mapping[str, str], name: str) -> str:
    """The digest of what decides which model answers under a provider's name.

    Empty for the simulated provider, and for one that nothing declares.
    """
    declared = settings.providers.get(name) or _USUAL.get(name)
    if declared is None:
        return ""
    identity = declared.model_dump(mode="json", include={*ENDPOINT_IDENTITY})
    for added in ("api_key_command", "options"):
        # Without a digest of their own where they are not set.
        if not identity[added]:
            del identity[added]
    url = Endpoint(name=name, settings=declared, environ=environ).url
    return digest_of({**identity, "base_url": url})


def price_for(settings: Settings, request: CompletionRequest) -> PriceSettings | None:
    """The price of the model of a request; None if it is unknown."""
    if request.provider in EXTERNAL or request.provider == "recorded":
        return _FREE
    if request.provider in TARGET_KINDS:
        return None
    endpoint = endpoint_of(settings, request.provider)
    if endpoint is None:
        return _FREE
    url = Endpoint(name=request.provider, settings=endpoint, environ=os.environ).url
    return price_of(endpoint.prices, request.model, url=url)


def batch_cost(settings: Settings, provider: str, cost_usd: float | None) -> float | None:
    """The cost of calls in a batch that cost so much live; None if it is unknown."""
    try:
        endpoint = endpoint_of(settings, provider)
    except UsageError:  # a target, or a judge that calls by itself
        return None
    if endpoint is None or endpoint.api not in APIS:
        return None
    url = Endpoint(name=provider, settings=endpoint, environ=os.environ).url
    return batch_cost_of(cost_usd, url=url, share=endpoint.batch_price)
