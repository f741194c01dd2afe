"""Opens the providers a run needs, each once, and knows what their models cost."""

from __future__ import annotations

import math
import os
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
from regauge.providers import batch_cost_of, price_of
from regauge.providers._endpoint import Endpoint
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
# Left for the local store, recordings, event loops and what modules open while they load.
_SPARE_FILES = 24


class Providers:
    """The providers of a run, opened when they are first asked.

    Args:
        project: Where endpoints are declared.
        environ: Where keys are.
        concurrency: Requests in flight at once, per provider, over all processes of the run.
        workers: How many processes share the run.
        cluster: Its workers call models; None calls them from this process.
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
            concurrency if concurrency == "auto" else math.ceil(concurrency / workers)
        )
        # A connection needs a file descriptor, and a request that gets none fails.
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
        """End the process of a target; the next call starts another one."""
        provider = self._targets.pop(target, None)
        if provider is not None:
            await provider.aclose()

    async def aclose(self) -> None:
        """Close the connections and end the processes of all of them."""
        for provider in (*self._open.values(), *self._targets.values()):
            await provider.aclose()
        if self._cluster is not None:
            await self._cluster.detach()

    def _opened(self, name: str) -> Provider:
        endpoint = endpoint_of(self._settings, name) or EndpointSettings(api=SIMULATED)
        if self._cluster is not None:
            return self._on_cluster(name, endpoint, self._cluster)
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

        return RemoteProvider(
            endpoint,
            name=name,
            environ=self._environ,
            concurrency=self._concurrency,
            timeout_s=self._settings.timeout_s,
            registered=registered,
        )

    def _on_cluster(self, name: str, endpoint: EndpointSettings, cluster: Cluster) -> Provider:
        """A provider whose attempts are made by workers; its retries and pace are of this run."""
        from regauge.cluster import ClusterAttempts
        from regauge.providers.remote import RemoteProvider

        where = Endpoint(name=name, settings=endpoint, environ=self._environ)
        return RemoteProvider(
            endpoint,
            name=name,
            environ=self._environ,
            timeout_s=self._settings.timeout_s,
            attempts=ClusterAttempts(cluster, where, root=self._root),
            limit=cluster.limit(where.url or name, self._concurrency),
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


def check_model(settings: Settings, model: ModelId) -> None:
    """See that a provider is there and, where it lists its models in this process, has the model.

    Raises:
        UsageError: It is not, or has not.
    """
    if endpoint_of(settings, model.provider) is not None:
        return
    models: tuple[str, ...] = getattr(load_provider(model.provider), "models", (model.model,))
    if model.model not in models:
        names = ", ".join(f"{model.provider}:{name}" for name in models)
        raise UsageError(f"there is no simulated model {model.model!r}\n  fix: write {names}")


def endpoint_digest(settings: Settings, environ: Mapping[str, str], name: str) -> str:
    """The digest of what decides which model answers under a provider's name.

    Empty for the simulated provider, and for one that nothing declares.
    """
    declared = declared_endpoint(settings, name)
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
    """The cost of calls in a batch that cost so much live; None if it is unknown."""
    try:
        endpoint = endpoint_of(settings, provider)
    except UsageError:  # a target, or a judge that calls by itself
        return None
    if endpoint is None or endpoint.api not in APIS:
        return None
    url = Endpoint(name=provider, settings=endpoint, environ=os.environ).url
    return batch_cost_of(cost_usd, url=url, share=endpoint.batch_price)
