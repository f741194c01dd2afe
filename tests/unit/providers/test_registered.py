"""Providers of other packages: what they raise and return becomes an error of the call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.errors import ProviderError, UsageError
from regauge.project import EndpointSettings, Settings
from regauge.providers import Completion, CompletionRequest, registry
from regauge.providers._endpoint import Endpoint
from regauge.providers.registry import endpoint_of, load_provider
from regauge.providers.remote import open_api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUEST = CompletionRequest(provider="house", model="m", messages=(), parameters={})


class House:
    """A provider that answers as a test says."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.closed = 0

    async def complete(self, request: CompletionRequest) -> Any:
        assert request is REQUEST
        if self._answer == "sleep":
            await asyncio.sleep(60)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def aclose(self) -> None:
        self.closed += 1


def called(answer: Any) -> Any:
    """The completion, or the error of the call."""

    async def call() -> Any:
        house = House(answer)
        settings = EndpointSettings(api="house", base_url="http://127.0.0.1:9/v1")
        endpoint = Endpoint(name="house", settings=settings, environ={})
        api = open_api(endpoint, timeout_s=5, connections=1, registered=house)
        await api.open()
        try:
            completion, quotas = await api.call(REQUEST, timeout_s=0.05)
        except ProviderError as error:
            return error
        else:
            assert quotas == ()
            return completion
        finally:
            await api.aclose()
            assert (api.attempt_count, house.closed) == (1, 1)

    return asyncio.run(call())


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ("yes", "malformed", "house (http://127.0.0.1:9/v1) returned str, not a Completion"),
        (None, "malformed", "returned NoneType, not a Completion"),
        (Completion(text="a", cost_usd=-1.0), "malformed", "a number of the completion"),
        (Completion(text=cast("Any", 5)), "malformed", "neither text nor null"),
        (Completion(text="a", usage=cast("Any", None)), "malformed", "house (http://127.0.0.1:9"),
        ("sleep", "timeout", "house (http://127.0.0.1:9/v1)"),
        (TimeoutError(), "timeout", "0.05 s"),
        (ValueError("odd"), "malformed", "raised ValueError: odd\n  fix: correct the provider; a"),
        (ProviderError("no", kind="server"), "server", "no"),
    ],
)
def test_what_another_provider_does_is_an_error_of_the_call(answer: Any, kind: str, words: str):
    error = called(answer)
    assert error.kind == kind
    assert words in str(error)


def test_its_completion_gets_a_latency_unless_it_has_one():
    assert called(Completion(text="a", finish_reason="stop")).latency_s < 1
    assert called(Completion(text="a", finish_reason="stop", latency_s=7.0)).latency_s == 7.0


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that registers the provider `houses`."""
    info = tmp_path / "house_provider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-provider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regauge.providers]\nhouses = house_made:House\n")
    (tmp_path / "house_made.py").write_text("class House: pass\n")
    with monkeypatch.context() as changed:
        changed.syspath_prepend(str(tmp_path))
        forget_providers()
        yield
    forget_providers()


def forget_providers() -> None:
    """Look at the installed packages again."""
    registry.registered_providers.cache_clear()
    registry.load_provider.cache_clear()


def test_a_registered_provider_needs_no_settings(package: None):
    endpoint = endpoint_of(Settings(), "houses")
    assert endpoint == EndpointSettings(api="houses")
    assert load_provider("houses").__name__ == "House"
    own = Settings.model_validate({"providers": {"houses": {"base_url": "http://a/v1"}}})
    assert endpoint_of(own, "houses").base_url == "http://a/v1"
    assert endpoint_of(Settings(), "sim") is None
    with pytest.raises(
        UsageError, match=r"no provider 'house'; there are .*\n  fix: did you mean 'h"
    ):
        endpoint_of(Settings(), "house")
    with pytest.raises(
        UsageError, match=r"api = 'house' is neither an API .*\n  fix: did you mean 'h"
    ):
        load_provider("house")
    with pytest.raises(UsageError, match="\n  fix: there are anthropic, houses, openai, responses"):
        load_provider("xyz")


def test_a_simulated_model_that_is_not_registered_is_to_be_installed_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(registry, "registered_providers", dict)
    load_provider.cache_clear()
    with pytest.raises(
        UsageError, match=r"the simulated model is not registered: .*\n  fix: install"
    ):
        load_provider("sim")
