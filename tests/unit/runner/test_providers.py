"""How many calls of a run are in flight, and what a call costs, by its provider."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import ProviderError, UsageError
from regauge.model_id import parse_model_id
from regauge.project import Project, Settings
from regauge.providers import CompletionRequest
from regauge.runner import _providers
from regauge.runner._providers import (
    Providers,
    batch_cost,
    check_model,
    endpoint_digest,
    price_for,
)

if TYPE_CHECKING:
    from regauge.providers import PriceSettings


def opened(concurrency: Any, *, workers: int = 1, **more: Any) -> Providers:
    project = Project(root=Path("/nowhere"))
    return Providers(project, {}, concurrency=concurrency, workers=workers, note=print, **more)


@pytest.mark.parametrize(
    ("concurrency", "workers", "width"),
    [("auto", 1, 64), ("auto", 4, 64), (8, 1, 8), (8, 4, 2), (9, 4, 2), (1, 4, 1), (7, 7, 1)],
)
def test_the_workers_of_a_run_share_its_concurrency(concurrency: Any, workers: int, width: int):
    assert opened(concurrency, workers=workers).width == width


def limit_files(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """A limit of open files, counted from those that are open."""
    used = sum(1 for _ in Path("/dev/fd").iterdir())
    soft = limit if limit == resource.RLIM_INFINITY else limit + used
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))


@pytest.mark.parametrize(
    ("files", "concurrency", "width"),
    [
        (24 + 10, 64, 10),
        (24 + 10, 10, 10),
        (24 + 10, 9, 9),
        (24 + 10, "auto", 10),
        (24 + 64, "auto", 64),
        (24, 64, 1),
        (0, "auto", 1),
        (resource.RLIM_INFINITY, 1024, 1024),
        (100_000, 1024, 1024),
    ],
)
def test_connections_leave_room_for_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, concurrency: Any, width: int
):
    limit_files(monkeypatch, files)
    assert opened(concurrency).width == width


def test_a_system_that_counts_no_files_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch):
    def fail(_: int) -> None:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(resource, "getrlimit", fail)
    assert opened(1024).width == 1024
    assert _providers._connections_max() == 1024


class Slots:
    """A cluster before and after its connection."""

    slots = 0


def test_calls_on_a_cluster_are_limited_by_its_workers(monkeypatch: pytest.MonkeyPatch):
    limit_files(monkeypatch, 34)
    cluster = Slots()
    providers = opened("auto", cluster=cluster)
    assert providers.width == 64
    cluster.slots = 200
    assert providers.width == 200
    assert opened(100, cluster=cluster).width == 100


def settings(**table: Any) -> Settings:
    prices = {"m": {"input_per_million": 1.0, "output_per_million": 2.0}}
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "prices": prices, **table}
    return Settings.model_validate({"providers": {"x": endpoint}})


@pytest.mark.parametrize(
    ("provider", "model", "price"),
    [
        ("x", "m", (1.0, 2.0)),
        ("x", "other", None),
        ("sim", "clerk-1", (0.0, 0.0)),
        ("recorded", "app", (0.0, 0.0)),
        ("python", "app", None),
        ("command", "app", None),
        ("http", "app", None),
    ],
)
def test_the_price_of_a_call(provider: str, model: str, price: tuple[float, float] | None):
    request = CompletionRequest(provider=provider, model=model, messages=(), parameters={})
    found: PriceSettings | None = price_for(settings(), request)
    assert (found and (found.input_per_million, found.output_per_million)) == price


def test_the_cost_of_a_batch_is_the_share_of_its_provider():
    assert batch_cost(settings(batch_price=0.25), "x", 2.0) == 0.5
    assert batch_cost(settings(), "x", 2.0) is None
    assert batch_cost(settings(), "python", 2.0) is None
    assert batch_cost(settings(), "sim", 2.0) is None


def test_a_model_must_have_a_provider_and_be_one_of_the_simulated_ones():
    check_model(settings(), parse_model_id("x:anything"))
    check_model(settings(), parse_model_id("sim:clerk-1"))
    with pytest.raises(UsageError, match="no simulated model 'clerk-9'\n  fix: write sim:clerk-1"):
        check_model(settings(), parse_model_id("sim:clerk-9"))
    with pytest.raises(UsageError, match="there is no provider 'y'"):
        check_model(settings(), parse_model_id("y:m"))


def test_the_digest_of_an_endpoint_follows_what_changes_its_answers():
    plain = endpoint_digest(settings(), {}, "x")
    assert len(plain) == 64
    assert endpoint_digest(settings(), {}, "sim") == ""
    assert endpoint_digest(settings(timeout_s=5, prices={}), {}, "x") == plain
    for change in (
        {"base_url": "http://127.0.0.1:8/v1"},
        {"api_key_env": "KEY"},
        {"api_key_command": ["key"]},
        {"options": {"effort": "low"}},
        {"vary_seed": True},
    ):
        assert endpoint_digest(settings(**change), {}, "x") != plain


def test_the_digest_of_an_endpoint_stays():
    """Baselines hold it: an option that is introduced, and unset, is no part of it."""
    assert endpoint_digest(settings(), {}, "x")[:12] == "2bb12bf12c5d"
    assert endpoint_digest(settings(options={"effort": "low"}), {}, "x")[:12] == "7cb60809ced9"


def test_a_provider_whose_package_is_missing_is_an_error_of_its_call():
    project = Project(root=Path("/nowhere"))
    project.__dict__["settings"] = settings(api="no-such-api")
    providers = Providers(project, {}, concurrency=1, workers=1, note=print)
    with pytest.raises(ProviderError, match="'no-such-api' is neither an API") as caught:
        providers.find("x")
    assert caught.value.kind == "not-found"


class Workers:
    """A cluster as far as limits go: it notes the server of each and its concurrency."""

    slots = 12

    def __init__(self) -> None:
        self.limits: list[tuple[str, object]] = []

    def limit(self, server: str, concurrency: object) -> None:
        self.limits.append((server, concurrency))


@pytest.mark.parametrize(("concurrency", "width"), [("auto", 12), (5, 5), (5000, 5000)])
def test_calls_to_a_server_share_a_limit_on_a_cluster_whatever_the_names_of_its_providers(
    tmp_path: Path, concurrency: Any, width: int
):
    text = "".join(
        f'[tool.regauge.providers.{name}]\nbase_url = "http://{host}/v1"\n'
        for name, host in (("one", "a"), ("two", "a"), ("three", "b"))
    )
    (tmp_path / "pyproject.toml").write_text(text)
    workers: Any = Workers()
    project = Project(root=tmp_path)
    providers = Providers(
        project, {}, concurrency=concurrency, workers=1, note=print, cluster=workers
    )
    assert providers.width == width
    for name in ("one", "two", "three", "sim", "one"):
        providers.find(name)
    servers = ["http://a/v1", "http://a/v1", "http://b/v1", "sim"]
    assert workers.limits == [(server, concurrency) for server in servers]
