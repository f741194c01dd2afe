"""Opens the providers of a run, each once; prices of their models."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.errors import ProviderError, UsageError
from regauge.judges import EXTERNAL_JUDGES
from regauge.model_id import SIMULATED
from regauge.project import (
    ENDPOINT_IDENTITY,
    TARGET_KINDS,
    EndpointSettings,
    PriceSettings,
)
from regauge.providers import Endpoint, batch_cost_of, price_of
from regauge.providers.registry import (
    APIS,
    ProviderContext,
    declared_endpoint,
    endpoint_of,
    load_provider,
)
from regauge.targets import TargetProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.cluster import Cluster
    from regauge.model_id import ModelId
    from regauge.project import Project, Settings
    from regauge.providers import CompletionRequest, Provider
    from regauge.targets import Target

_FREE = PriceSettings(input_per_million=0, output_per_million=0)
# Concurrent calls and connections with `--concurrency auto`: a start that rate limits then lower,
# and below the usual limit of open files.
_AUTO_WIDTH = 64
_CONNECTIONS_MAX = 1024
# Files for the local store, recordings, event loops and modules that load.
_SPARE_FILES = 24


class Providers:
    """The providers of a run, opened at their first call.

    Args:
        project: The project that declares the endpoints.
        environ: The environment with the API keys.
        concurrency: Requests in flight per provider, for all processes of the run; each process has
            at least one.
        workers: The number of processes that share the run.
        cluster: The cluster whose workers call models; None for calls from this process.
    """

    def __init__(
        self,
        project: Project,
        environ: Mapping[str, str],
        *,
        concurrency: int | Literal["auto"],
        workers: int,
        note: Callable[[str], None],
        cluster: Cluster | None = None,
    ) -> None:
        self._note = note
        self._root = project.root
        self._settings = project.settings
        self._environ = environ
        self._concurrency: int | Literal["auto"] = (
            concurrency if concurrency == "auto" else max(1, concurrency // workers)
        )
        # Each connection needs a file descriptor.
        connections_max = _connections_max()
        self._cluster = cluster
        if cluster is None and self.width > connections_max:
            self._concurrency = connections_max
        self._open: dict[str, Provider] = {}
        self._targets: dict[Target, Provider] = {}

    @property
    def width(self) -> int:
        """The limit of requests in flight."""
        if self._concurrency != "auto":
            return self._concurrency
        return self._cluster.slots or _AUTO_WIDTH if self._cluster is not None else _AUTO_WIDTH

    def find(self, name: str) -> Provider:
        """The provider with a name.

        Raises:
            UsageError: It is not declared.
        """
        provider = self._open.get(name)
        if provider is None:
            provider = self._open[name] = self._open_provider(name)
        return provider

    def of_target(self, target: Target) -> Provider:
        """The provider that calls a target."""
        provider = self._targets.get(target)
        if provider is None and self._cluster is not None and target.as_declared:
            from regauge.cluster import ClusterTarget

            width = target.settings.concurrency or self._concurrency
            limit = self._cluster.limit(str(target.model), width)
            provider = self._targets[target] = ClusterTarget(self._cluster, target, limit=limit)
        if provider is None:
            provider = self._targets[target] = TargetProvider(
                target,
                home=self._root,
                environ=self._environ,
                concurrency=self._concurrency,
                timeout_s=self._settings.timeout_s,
                note=self._note,
            )
        return provider

    async def end_target(self, target: Target) -> None:
        """End the process of a target; the next call starts a new one."""
        provider = self._targets.pop(target, None)
        if provider is not None:
            await provider.aclose()

    async def aclose(self) -> None:
        """Close all connections and end all processes."""
        for provider in (*self._open.values(), *self._targets.values()):
            await provider.aclose()
        if self._cluster is not None:
            await self._cluster.detach()

    def _open_provider(self, name: str) -> Provider:
        endpoint = endpoint_of(self._settings, name) or EndpointSettings(api=SIMULATED)
        if self._cluster is not None:
            return self._on_cluster(name, endpoint, self._cluster)
        registered = None
        if endpoint.api not in APIS:
            context = ProviderContext(name=name, settings=endpoint, environ=self._environ)
            try:
                registered = load_provider(endpoint.api)(context)
            except UsageError as error:
                # A replay needs no package.
                raise ProviderError(str(error), kind="not-found") from error
            if endpoint.api == SIMULATED:
                return registered
        else:
            import_module("openai")
        from regauge.providers.remote import LocalProvider, RemoteProvider

        if registered is not None and getattr(registered, "local", False):
            location = Endpoint(name=name, settings=endpoint, environ=self._environ)
            return LocalProvider(registered, location)
        return RemoteProvider(
            endpoint,
            name=name,
            environ=self._environ,
            concurrency=self._concurrency,
            timeout_s=self._settings.timeout_s,
            registered=registered,
        )

    def _on_cluster(self, name: str, endpoint: EndpointSettings, cluster: Cluster) -> Provider:
        """A provider whose attempts run on workers; retries and pace belong to this run."""
        from regauge.cluster import ClusterAttempts
        from regauge.providers.remote import RemoteProvider

        location = Endpoint(name=name, settings=endpoint, environ=self._environ)
        return RemoteProvider(
            endpoint,
            name=name,
            environ=self._environ,
            timeout_s=self._settings.timeout_s,
            attempts=ClusterAttempts(cluster, location, root=self._root),
            limit=cluster.limit(location.url or name, self._concurrency),
        )


def _connections_max() -> int:
    """The connections that the limit of open files (`ulimit -n`) allows, at least 1."""
    if sys.platform == "win32":
        return _CONNECTIONS_MAX
    import resource

    try:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        count = sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:  # pragma: no cover - not on the systems tests run on
        return _CONNECTIONS_MAX
    if limit == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return max(1, min(limit - count - _SPARE_FILES, _CONNECTIONS_MAX))


def check_model(settings: Settings, model: ModelId) -> None:
    """Check that a provider exists, and that a local provider has the model.

    Raises:
        UsageError: The provider or the model does not exist.
    """
    if endpoint_of(settings, model.provider) is not None:
        return
    models: tuple[str, ...] = getattr(load_provider(model.provider), "models", (model.model,))
    if model.model not in models:
        names = ", ".join(f"{model.provider}:{name}" for name in models)
        raise UsageError(f"there is no simulated model {model.model!r}\n  fix: write {names}")


def endpoint_digest(settings: Settings, environ: Mapping[str, str], name: str) -> str:
    """The digest of a provider's endpoint; empty if simulated or not declared."""
    settings_of_endpoint = declared_endpoint(settings, name)
    if settings_of_endpoint is None:
        return ""
    identity = settings_of_endpoint.model_dump(mode="json", include={*ENDPOINT_IDENTITY})
    for name_of_option in ("api_key_command", "options"):
        # Unset options do not change the digest.
        if not identity[name_of_option]:
            del identity[name_of_option]
    url = Endpoint(name=name, settings=settings_of_endpoint, environ=environ).url
    return digest_of({**identity, "base_url": url})


def price_for(settings: Settings, request: CompletionRequest) -> PriceSettings | None:
    """The price of the model of a request; None if it is unknown."""
    if request.provider in EXTERNAL_JUDGES or request.provider == "recorded":
        return _FREE
    if request.provider in TARGET_KINDS:
        return None
    endpoint = endpoint_of(settings, request.provider)
    if endpoint is None:
        return _FREE
    url = Endpoint(name=request.provider, settings=endpoint, environ=os.environ).url
    return price_of(endpoint.prices, request.model, url=url)


def batch_cost(settings: Settings, provider: str, cost_usd: float | None) -> float | None:
    """The cost in a batch of calls that cost `cost_usd` live; None if it is unknown."""
    try:
        endpoint = endpoint_of(settings, provider)
    except UsageError:  # a target, or a judge that calls by itself
        return None
    if endpoint is None or endpoint.api not in APIS:
        return None
    url = Endpoint(name=provider, settings=endpoint, environ=os.environ).url
    return batch_cost_of(cost_usd, url=url, share=endpoint.batch_price)
