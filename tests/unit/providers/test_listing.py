"""When a listed model is shut down, whatever its server calls that day."""

from __future__ import annotations

import gzip
import socket
from datetime import date

import pytest
from hypothesis import given, strategies as st

from regauge.errors import ProviderError
from regauge.model_id import parse_model_id
from regauge.project import EndpointSettings
from regauge.providers.listing import find_last_day, list_models, shutdown_of
from tests.served import JsonHandler, Served


@pytest.mark.parametrize(
    ("model", "day"),
    [
        ({"shutdown_date": "2026-12-01"}, date(2026, 12, 1)),
        ({"deprecation": "2026-12-01T10:00:00Z"}, date(2026, 12, 1)),
        ({"deprecation": {"shutdown": "2027-01-02", "replacement": "next"}}, date(2027, 1, 2)),
        ({"expiration_date": 1_800_000_000}, date(2027, 1, 15)),
        ({"deprecation": "2027-01-01", "shutdown_date": "2026-01-01"}, date(2026, 1, 1)),
        ({"created": 1_700_000_000, "deprecation": None}, None),
        ({"shutdown_date": "soon"}, None),
        ({"shutdown_date": True}, None),
        ({"shutdown_date": 0}, None),
    ],
)
def test_the_first_published_last_day_counts(model: dict[str, object], day: date | None):
    assert shutdown_of(model) == day


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_no_value_of_a_server_stops_the_look(value: object):
    day = shutdown_of({"shutdown_date": value})
    assert day is None or isinstance(day, date)


def test_a_server_that_is_not_there_is_an_error_with_a_fix():
    settings = EndpointSettings(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ProviderError) as caught:
        list_models("local", settings, {})
    assert caught.value.kind == "connection"
    assert "cannot be reached" in str(caught.value)
    assert "fix: start the server, or correct base_url of provider 'local'" in str(caught.value)


def test_certificates_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(ProviderError, match="fix: correct SSL_CERT_FILE"):
        list_models("local", EndpointSettings(base_url="https://127.0.0.1:9/v1"), {})


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (bytes(65 * 2**20), {"Content-Encoding": "gzip"}, "more than 64 MiB"),
        (b"[" * 200_000, {}, "returned no list of models"),
        (b"{}", {"Content-Encoding": "gzip"}, "cannot be decompressed"),
    ],
)
def test_a_list_that_cannot_be_read_is_one_sentence(socket_enabled, body, headers, words):
    class Handler(JsonHandler):
        def answer(self):
            self.say(gzip.compress(body, 1) if len(body) > 2**20 else body, headers=headers)

    with Served(Handler) as server, pytest.raises(ProviderError, match=words):
        list_models("local", EndpointSettings(base_url=f"{server.address}/v1"), {})


def test_models_are_listed_with_the_key_and_headers_of_the_endpoint(socket_enabled):
    heads = []

    class Handler(JsonHandler):
        def answer(self):
            heads.append((self.path, dict(self.headers)))
            status = int(self.path.split("/")[1])
            self.say({"data": [{"id": "a", "shutdown_date": "2026-12-01"}]}, status=status)

    def models(status, **more):
        settings = EndpointSettings(
            base_url=f"{server.address}/{status}/v1", api_key_env="KEY",
            headers_env={"X-Team": "TEAM"}, **more,
        )  # fmt: skip
        return list_models("x", settings, {"KEY": "k", "TEAM": "t"})

    with Served(Handler) as server:
        assert models(200) == {"a": date(2026, 12, 1)}
        assert models(200, api="anthropic") == {"a": date(2026, 12, 1)}
        for status, kind in ((401, "authentication"), (403, "authentication"), (404, "server")):
            with pytest.raises(ProviderError, match=f"/v1/models returned {status}") as caught:
                models(status)
            assert (caught.value.kind, caught.value.status) == (kind, status)
    assert [path for path, _ in heads[:2]] == ["/200/v1/models", "/200/v1/models?limit=1000"]
    assert all(head["Authorization"] == "Bearer k" for _, head in heads)
    assert all(head["X-Team"] == "t" for _, head in heads)
    assert ["anthropic-version" in head for _, head in heads[:2]] == [False, True]


def test_a_server_that_does_not_respond_is_named_with_the_time(socket_enabled):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        with pytest.raises(
            ProviderError, match=r"/v1/models did not respond within 0\.1 s"
        ) as caught:
            list_models("x", EndpointSettings(base_url=url), {}, timeout_s=0.1)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    ("model", "day"),
    [
        ("openai:gpt-5", date(2026, 12, 11)),
        ("openai:gpt-5-2025-08-07", date(2026, 12, 11)),
        ("openai:gpt-4-0613", date(2026, 10, 23)),
        ("openai:gpt-5.4", None),
        ("openai:gpt-5-codex", None),
        ("local:gpt-5", None),
        ("anthropic:claude-3-haiku-20240307", date(2026, 4, 20)),
    ],
)
def test_an_announced_last_day_holds_for_dated_snapshots(model: str, day: date | None):
    last = find_last_day(parse_model_id(model))
    assert (last and last.day) == day
