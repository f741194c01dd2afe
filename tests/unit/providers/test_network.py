"""Connections that fail, against real servers on 127.0.0.1: the cause and the fix, once each."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager

import pytest

from regauge.bounded_http import certificates_for
from regauge.errors import ProviderError
from regauge.project import EndpointSettings
from regauge.providers.remote import RemoteProvider

OPENSSL = shutil.which("openssl")
AUTHORITY = "[ca]\ndefault_ca=d\n[d]\ndatabase={0}/index\nnew_certs_dir={0}\nserial={0}/serial\n"
POLICY = "default_md=sha256\npolicy=p\ncopy_extensions=copy\nunique_subject=no\n[p]\n"
NAMES = "commonName=supplied\n"


def openssl(*arguments):
    assert OPENSSL is not None, "these tests need the openssl command"
    subprocess.run([OPENSSL, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Makes a self-signed certificate for a name, valid from and until a date."""
    root = tmp_path_factory.mktemp("certificates")
    (root / "index").touch()
    (root / "serial").write_text("01\n", encoding="utf-8")
    (root / "ca.cnf").write_text(AUTHORITY.format(root) + POLICY + NAMES, encoding="utf-8")

    def make(name, *, alternative="IP:127.0.0.1", begin="20200101000000Z", end="21000101000000Z"):
        key, request, path = root / f"{name}.key", root / f"{name}.csr", root / f"{name}.pem"
        openssl(
            "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
            "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternative}",
        )  # fmt: skip
        openssl(
            "ca", "-batch", "-selfsign", "-config", root / "ca.cnf", "-keyfile", key,
            "-in", request, "-out", path, "-startdate", begin, "-enddate", end, "-notext",
        )  # fmt: skip
        return path, key

    return make


@asynccontextmanager
async def tls_server(path, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    server.close()


async def error_of(kit, url, **settings):
    provider = RemoteProvider(EndpointSettings(base_url=url, **settings), name="local", environ={})
    try:
        with pytest.raises(ProviderError) as caught:
            await provider.complete(kit.ask())
    finally:
        await provider.aclose()
    assert caught.value.kind == "connection"
    return caught.value


def refused_certificate(kit, path, key):
    async def main():
        async with tls_server(path, key) as url:
            return await error_of(kit, url)

    error = asyncio.run(main())
    assert error.attempts == 1
    return str(error)


def test_an_expired_certificate(kit, certificate, monkeypatch):
    path, key = certificate("expired", end="20200201000000Z")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    said = refused_certificate(kit, path, key)
    assert "certificate has expired" in said
    assert "fix: renew the server's certificate" in said


def test_a_certificate_that_is_not_yet_valid(kit, certificate, monkeypatch):
    path, key = certificate("future", begin="20900101000000Z")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    assert "fix: check the clock" in refused_certificate(kit, path, key)


def test_a_self_signed_certificate(kit, certificate):
    said = refused_certificate(kit, *certificate("unknown"))
    assert "self-signed certificate" in said
    assert "fix: set SSL_CERT_FILE" in said


def test_a_certificate_for_another_name(kit, certificate, monkeypatch):
    path, key = certificate("other", alternative="DNS:example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    said = refused_certificate(kit, path, key)
    assert "mismatch" in said
    assert "fix: use the name that the certificate is for in base_url" in said


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_certificates_that_cannot_be_read(kit, tmp_path, monkeypatch, content):
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    error = asyncio.run(error_of(kit, "https://127.0.0.1:9/v1"))
    assert f"SSL_CERT_FILE ({path})" in str(error)
    assert "fix: correct SSL_CERT_FILE, or unset it" in str(error)
    assert error.attempts == 1


@pytest.mark.parametrize(
    ("proxy", "said"), [("", "cannot be reached"), ("http://127.0.0.1:9", "SSL_CERT_FILE")]
)
def test_plain_http_needs_certificates_behind_a_proxy_only(kit, tmp_path, monkeypatch, proxy, said):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("HTTP_PROXY", proxy)
    error = asyncio.run(error_of(kit, "http://127.0.0.1:9/v1", max_attempts=1))
    assert said in str(error)


def test_without_certificates_no_server_is_trusted():
    trusted = certificates_for("http://127.0.0.1:9/v1")
    assert isinstance(trusted, ssl.SSLContext)
    assert trusted.verify_mode is ssl.CERT_REQUIRED
    assert not trusted.get_ca_certs()
    assert certificates_for("https://api.example/v1") is True


def test_a_server_that_does_not_speak_tls(kit):
    async def refuse(reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await error_of(kit, f"https://127.0.0.1:{port}/v1")
        finally:
            server.close()

    said = str(asyncio.run(main()))
    assert "fix: the server does not speak TLS here: use http://" in said


def test_a_name_that_does_not_resolve(kit):
    error = asyncio.run(error_of(kit, "http://no-such-host.invalid/v1", max_attempts=1))
    assert "fix: check the host name in base_url of provider 'local'" in str(error)


def test_nobody_listens(kit):
    error = asyncio.run(error_of(kit, "http://127.0.0.1:9/v1", max_attempts=1))
    assert "fix: start the server, or correct base_url of provider 'local'" in str(error)


def test_a_proxy_that_is_not_there(kit, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    error = asyncio.run(error_of(kit, "http://model.example/v1", max_attempts=1))
    assert "fix: start the proxy, correct HTTP_PROXY or HTTPS_PROXY" in str(error)


def test_a_connection_that_closes(kit):
    async def main():
        async with kit.endpoint(lambda *_: kit.Reply(drop=True)) as served:
            return await error_of(kit, served.base_url, max_attempts=1)

    assert "it closed the connection" in str(asyncio.run(main()))


def test_a_server_that_answered_and_goes_away_loses_no_request(kit):
    """It is away for longer than all attempts of a request take together."""

    async def main():
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            content = b'{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}'
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
            writer.write(head.encode() + content)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = EndpointSettings(base_url=f"http://127.0.0.1:{port}/v1", max_attempts=2)
        provider = RemoteProvider(settings, name="local", environ={}, concurrency=8)
        try:
            await provider.complete(kit.ask())
            server.close()
            await server.wait_closed()
            tasks = [asyncio.create_task(provider.complete(kit.ask(trial=n))) for n in range(40)]
            await asyncio.sleep(4)
            server = await asyncio.start_server(answer, "127.0.0.1", port)
            began = time.perf_counter()
            completions = await asyncio.gather(*tasks)
            assert time.perf_counter() - began < 20
            return [completion.text for completion in completions]
        finally:
            await provider.aclose()
            server.close()

    assert asyncio.run(main()) == ["yes"] * 40


def test_variables_that_another_thread_deletes_stop_no_client(kit):
    """As pytest does after each test, while clients are opened in the thread of the run."""
    opened = threading.Event()

    def change():
        while not opened.is_set():
            for number in range(50):
                os.environ[f"REGAUGE_TEST_{number}"] = "set"
            for number in range(50):
                del os.environ[f"REGAUGE_TEST_{number}"]

    async def main():
        for _ in range(100):
            settings = EndpointSettings(base_url="http://127.0.0.1:9/v1", max_attempts=1)
            provider = RemoteProvider(settings, name="local", environ={})
            with pytest.raises(ProviderError, match="cannot be reached"):
                await provider.complete(kit.ask())
            await provider.aclose()

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        asyncio.run(main())
    finally:
        sys.setswitchinterval(interval)
        opened.set()
        thread.join()
