"""The driver of a cluster against a client of Dask, and a worker's checks, without processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.cluster import _driver
from regauge.cluster._calls import request_to_json
from regauge.cluster._driver import Cluster, parse_address
from regauge.cluster._worker_calls import WorkerCalls
from regauge.datasets import GoldenCase
from regauge.errors import ProviderError, UsageError
from regauge.prompts import Attachment, Message
from regauge.providers import AttemptError, CompletionRequest
from regauge.targets import document_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from regauge.cluster._driver import _Worker


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("local", "local"),
        ("127.0.0.1:8786", "tcp://127.0.0.1:8786"),
        ("localhost:1", "tcp://localhost:1"),
        ("tcp://[::1]:8786", "tcp://[::1]:8786"),
        ("tls://dask.example.org:8786", "tls://dask.example.org:8786"),
    ],
)
def test_an_address_of_this_machine_or_with_tls_is_taken(text: str, address: str):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "--cluster takes local or the address of a scheduler, not '127.0.0.1'\n"),
        ("tcp://127.0.0.1:99999", "not 'tcp://127.0.0.1:99999'\n  fix: write tls://HOST:PORT"),
        ("tcp://[::1:8786", "takes local or the address"),
        ("tcp://127.0.0.1:8786/a", "takes local or the address"),
        ("tcp://:8786", "takes local or the address"),
        ("http://127.0.0.1:8786", "takes local or the address"),
        ("10.0.0.5:8786", "10.0.0.5 is another machine, and the connection is not encrypted\n"),
        (
            "dask.example.org:1",
            "fix: start the scheduler with TLS, and write tls://dask.example.org:1",
        ),
    ],
)
def test_any_other_address_is_refused(text: str, words: str):
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert words in str(caught.value)


def test_attachments_outside_of_the_project_are_not_for_workers():
    part = Attachment(kind="image", path="a.png", sha256="0")
    message = Message(role="user", content=part.name, attachments=(part,))
    request = CompletionRequest(
        model="m", provider="p", messages=(message,), parameters={}, files=Path("/other/fixtures")
    )
    with pytest.raises(ProviderError, match="the prompt: its attachments are in /other/fixtures"):
        request_to_json(request, root=Path("/driver"))
    assert request_to_json(request, root=Path("/other"))["files"] == "fixtures"


class Client:
    """What the driver needs of Dask's client; calls end as `answer` says."""

    def __init__(self, answer: Callable[[str], Awaitable[dict[str, Any]]]) -> None:
        self._answer = answer
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.released = 0

    def submit(self, _: object, text: str, *, workers: list[str], pure: bool) -> Client._Future:
        assert not pure
        (address,) = workers
        self.sent.append((address, json.loads(text)))
        return self._Future(self, address)

    class _Future:
        def __init__(self, client: Client, address: str) -> None:
            self._client = client
            self._address = address

        def __await__(self) -> Any:
            async def text() -> str:
                return json.dumps(await self._client._answer(self._address))

            return text().__await__()

        def release(self) -> None:
            self._client.released += 1


class Run:
    """A connected cluster with workers."""

    def __init__(self, answer: Callable[[str], Awaitable[dict[str, Any]]], **slots: int) -> None:
        self.client = Client(answer)
        self.notes: list[str] = []
        self.cluster = Cluster("tcp://127.0.0.1:1", root=Path("/project"), note=self.notes.append)
        self.cluster._client = self.client
        self.cluster._has_room = asyncio.Event()
        self.cluster._update(slots)

    def call(self, *, timeout_s: float = 5) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self.cluster.call({"request": {}}, timeout_s=timeout_s))

    @property
    def workers(self) -> dict[str, _Worker]:
        return self.cluster._workers

    @property
    def busy(self) -> dict[str, int]:
        return {address: worker.busy for address, worker in self.workers.items()}


def test_calls_go_to_the_least_busy_worker_and_leave_its_slot_at_their_end():
    async def main() -> None:
        end = asyncio.Event()

        async def answer(address: str) -> dict[str, Any]:
            await end.wait()
            if run.client.sent[0][0] == address == "a":
                return {"completion": address}
            raise OSError("gone")

        run = Run(answer, a=3, b=1)
        calls = [run.call() for _ in range(6)]
        await asyncio.sleep(0.01)
        assert [address for address, _ in run.client.sent] == ["a", "b", "a", "a"]
        assert run.busy == {"a": 3, "b": 1}
        assert run.cluster.slots == 4
        end.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert run.busy == {"a": 0, "b": 0}
        assert run.client.released == 6
        assert results[0] == {"completion": "a"}
        (lost,) = {str(result) for result in results if isinstance(result, AttemptError)}
        assert lost == (
            "the cluster tcp://127.0.0.1:1 lost this call on worker b\n  the same command continues"
            " from there\n  fix: see the logs of the cluster"
        )
        _, document = run.client.sent[0]
        assert document == {"request": {}, "identity": None, "timeout_s": 5}

    asyncio.run(main())


def test_a_worker_that_refuses_gets_no_calls_and_is_named_once():
    async def main() -> None:
        async def answer(address: str) -> dict[str, Any]:
            if address == "a":
                return {"refused": "other commit"}
            if address == "c":
                raise LookupError("no module")
            return {"completion": address}

        run = Run(answer, a=2, b=1, c=2)
        assert await asyncio.gather(run.call(), run.call(), run.call()) == [{"completion": "b"}] * 3
        assert sorted(run.notes) == [
            "worker a is refused: other commit",
            (
                "worker c is refused: it cannot run regauge: LookupError: no module\n  fix: install"
                " regauge[dask] there and for the scheduler, and restart them"
            ),
        ]
        assert run.cluster.slots == 1
        run.cluster._update({"a": 2})
        with pytest.raises(
            ProviderError, match=r"127\.0\.0\.1:1 has no worker for this project:\n"
        ) as e:
            await run.call()
        assert (e.value.kind, str(e.value).endswith("\n" + run.notes[0])) == ("cluster", True)

    asyncio.run(main())


def test_a_call_ends_with_its_worker_or_after_its_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_driver, "_GRACE_S", 0.02)
    monkeypatch.setattr(_driver, "_CONNECT_S", 0.02)
    monkeypatch.setattr(_driver, "_POLL_S", 0.01)

    async def main() -> None:
        async def answer(_: str) -> dict[str, Any]:
            await asyncio.sleep(60)
            return {}

        run = Run(answer, a=1)
        with pytest.raises(AttemptError, match=r"worker a had no result after 0\.04 s\n") as caught:
            await run.call(timeout_s=0.02)
        assert (caught.value.kind, caught.value.transient) == ("timeout", True)
        call = run.call()
        await asyncio.sleep(0.005)
        run.cluster._update({"b": 1})
        with pytest.raises(AttemptError, match="lost worker a during this call") as caught:
            await call
        assert caught.value.never_sent is False
        run.cluster._update({"b": 0})
        assert run.busy == {"b": 0}
        run.workers["b"].paused = True
        with pytest.raises(
            AttemptError, match=r"127\.0\.0\.1:1 has no worker any more\n"
        ) as caught:
            await run.call()
        assert caught.value.never_sent is True
        run.cluster._client = None
        with pytest.raises(AttemptError, match=r"cannot be reached any more\n.*\n  fix: start its"):
            await run.call()

    asyncio.run(main())


def test_a_scheduler_with_another_version_is_named():
    class Other:
        def __init__(self, answer: object) -> None:
            self._answer = answer

        async def run_on_scheduler(self, _: object) -> object:
            if isinstance(self._answer, Exception):
                raise self._answer
            return self._answer

    cluster = Cluster("tcp://127.0.0.1:1", root=Path("/project"), note=print)
    cluster._identity = {"version": "1.2.3"}
    asyncio.run(cluster._install(Other("1.2.3")))
    for answer, words in (
        ("1.2.4", "the scheduler runs regauge 1.2.4, and this command 1.2.3\n"),
        (ImportError("no regauge"), "the scheduler cannot run regauge: ImportError: no regauge\n"),
    ):
        with pytest.raises(UsageError) as caught:
            asyncio.run(cluster._install(Other(answer)))
        assert str(caught.value).startswith(words)
        assert "fix: install regauge[dask] 1.2.3 where the scheduler runs" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        ("tcp://a:1", OSError("refused"), "the cluster tcp://a:1 cannot be reached: refused\n"),
        ("tcp://a:1", TimeoutError(), "cannot be reached: no response within 30 s\n"),
        ("tls://a:1", OSError("x"), "its scheduler runs, and set DASK_DISTRIBUTED__COMM__TLS__CA"),
        ("local", OSError("x"), "the local cluster cannot be reached: x"),
    ],
)
def test_a_scheduler_that_is_not_there_is_named(address: str, error: Exception, words: str):
    cluster = Cluster(address, root=Path("/project"), note=print)
    failure = cluster._scheduler_error(error)
    assert words in str(failure)
    assert ("DASK_" in str(failure)) is address.startswith("tls")
    cluster._client = object()
    failure = cluster._scheduler_error(error)
    assert f"has no worker\n  fix: start one: dask worker {address}" in str(failure)


def test_a_worker_that_is_not_like_the_driver_says_in_what(tmp_path: Path):
    calls = WorkerCalls(str(tmp_path), 1)
    own = calls._identity
    assert own["commit"] == ""

    def refusal(**other: str) -> str:
        with pytest.raises(UsageError) as caught:
            asyncio.run(calls.make({"identity": {**own, **other}}))
        return str(caught.value)

    words = refusal(version="0.0.1")
    assert words.startswith(
        f"it runs regauge {own['version']}, and this command 0.0.1\n  fix: inst"
    )
    assert refusal() == (
        f"there is no project in its directory, {tmp_path}\n"
        "  fix: start it in a checkout of the project"
    )
    (tmp_path / "prompts").mkdir()
    calls = WorkerCalls(str(tmp_path), 1)
    assert refusal(commit="0123456789abcdef") == (
        "its project is at no commit, and the one of this command at 0123456789ab\n"
        "  fix: check out 0123456789ab there, and restart it"
    )


def test_a_worker_calls_a_target_and_returns_its_error_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\nredact = ['own-[a-z]{6}']\n")
    (tmp_path / "app.py").write_text(
        "def run(x):\n    if x:\n        return 'own-secret'\n    raise ValueError('own-secret')\n"
    )

    async def main() -> list[dict[str, Any]]:
        calls = WorkerCalls(str(tmp_path), 1)
        target, provider = calls._load_target("app:run")

        def call(x: int, digest: str) -> Any:
            case = GoldenCase(id="a", inputs={"x": x}, split="train")
            return calls.make(
                {
                    "identity": calls._identity,
                    "target": "app:run",
                    "digest": digest,
                    "case": document_of(case),
                    "trial": 0,
                    "origin": "run",
                }
            )

        results = [await call(1, target.digest), await call(0, target.digest)]
        with pytest.raises(UsageError, match="the target app:run or a file that it loads is not"):
            await call(1, "other")
        await provider.aclose()
        for _, used in calls._targets.values():
            await used.aclose()
        return results

    result, failed = asyncio.run(main())
    assert "own-secret" not in json.dumps([result, failed])
    assert result["completion"]["text"].startswith("[")
    assert failed["error"]["kind"] == "exception"
    assert failed["error"]["status"] is None
    assert "app:run raised an error at app.py:" in failed["error"]["message"]
