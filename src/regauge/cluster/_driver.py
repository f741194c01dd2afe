"""The driver of a cluster: assigns calls to workers, and handles the loss of workers."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from regauge.cluster._calls import (
    digest_endpoint,
    encode,
    find_identity,
    request_to_json,
    result_from,
)
from regauge.cluster._limits import LeasedTurns, install
from regauge.cluster._worker import make_call
from regauge.errors import ProviderError, UsageError
from regauge.on_demand import require
from regauge.providers import AdaptiveLimit, AttemptError, Ledger, Window, call_with_retries
from regauge.targets import document_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from regauge.providers import Completion, CompletionRequest, Endpoint, Quota
    from regauge.targets import Target


LOCAL: Final = "local"
# Calls at once of a local worker; a call waits for its server and takes no processor.
_LOCAL_CALLS: Final = 64
_CONNECT_S: Final = 5.0
# A shorter interval notices the loss of a worker earlier, and costs the scheduler more requests.
_POLL_S: Final = 0.5
# A connection that is silent for longer counts as lost.
_SILENT_S: Final = 30.0
# The most seconds between the time limit of an attempt and its result.
_GRACE_S: Final = 30.0
# Refusals return through worker, driver and scheduler; until those of a full window are known, no
# other requests replace them. Longer: refusals by chance leave the window empty.
_REFUSED_S: Final = 0.1
_WORKER_FIX: Final = (
    "see the logs of the workers, and start them again; where memory ran out, raise --memory-limit"
)
# Calls of a target for one case that may end their worker, until it counts as failed.
_LOST_MAX: Final = 3
_SAME: Final = "  the same command continues from there"


def parse_address(text: str) -> str:
    """Parse the value of `--cluster`: the address of a scheduler, or `local`.

    >>> parse_address("127.0.0.1:8786")
    'tcp://127.0.0.1:8786'

    Raises:
        UsageError: The address is invalid, or of another machine without encryption; Dask is
            missing.
    """
    require("distributed", use="--cluster")
    if text == LOCAL:
        return text
    address = text if "://" in text else f"tcp://{text}"
    try:
        parts = urlsplit(address)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if not host or port is None or address != f"{scheme}://{_in_url(host)}:{port}":
        scheme = ""
    if scheme not in {"tcp", "tls"}:
        raise UsageError(
            f"--cluster takes local or the address of a scheduler, not {text!r}",
            fix="write tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine",
        )
    if scheme == "tcp" and not _is_here(host or ""):
        raise UsageError(
            f"--cluster {text}: {host} is another machine, and the connection is not encrypted",
            fix=f"start the scheduler with TLS, and write tls://{host}:{port}",
        )
    return address


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# Dask raises a TypeError where `tls://` has no certificates.
_CONNECTION_ERRORS = OSError, TypeError, ValueError, RuntimeError, Warning


@dataclass(slots=True, eq=False)
class _Worker:
    """The driver's view of a worker.

    Attributes:
        slots: The most calls at once: its threads.
        busy: The calls in progress.
        refusal: The reason why it receives no calls; empty if it does.
        paused: Whether it starts no calls for now, such as with little memory.
        loss: Done when the scheduler has lost the worker.
    """

    address: str
    slots: int
    loss: asyncio.Future[None]
    busy: int = 0
    refusal: str = ""
    paused: bool = False


class Cluster:
    """The workers of a Dask cluster, for one run.

    A run connects at its first call, once per event loop. A call whose worker is lost fails, and
    its caller repeats it.

    Args:
        address: The address of the scheduler, or `local` for workers on this machine.
        root: The root of the project.
        note: Called with each warning for the user.
    """

    def __init__(self, address: str, *, root: Path, note: Callable[[str], None]) -> None:
        self._address = address
        self._root = root
        self._note = note
        self._identity: dict[str, str] | None = None
        self._local: Any = None
        self._client: Any = None
        self._failure: ProviderError | None = None
        self._opening: asyncio.Lock | None = None
        self._watching = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers: dict[str, _Worker] = {}
        # With the number that the user has set.
        self._limits: list[tuple[AdaptiveLimit, int | None]] = []
        self._has_room: asyncio.Event | None = None
        self._printed_refusals: set[str] = set()

    def __str__(self) -> str:
        return "the local cluster" if self._address == LOCAL else f"the cluster {self._address}"

    @property
    def slots(self) -> int:
        """The most calls at once of all workers; 0 before the run is connected."""
        return sum(worker.slots for worker in self._accepting_workers())

    def _accepting_workers(self) -> list[_Worker]:
        workers = self._workers.values()
        return [worker for worker in workers if not (worker.refusal or worker.paused)]

    def limit(self, server: str, concurrency: int | Literal["auto"]) -> AdaptiveLimit:
        """The limit of calls to a server: by the slots of workers, and by its rate.

        The window belongs to this run; the scheduler keeps the rate for all runs of the cluster.
        """
        ceiling = None if concurrency == "auto" else concurrency
        first = ceiling or 16

        def turns(model: str) -> LeasedTurns:
            return LeasedTurns(
                server,
                model,
                call_scheduler=self._call_scheduler,
                ready=limit.admit,
                begin=self._begin,
            )

        limit = AdaptiveLimit(Window(size=first, ceiling=first), turns=turns, refused_s=_REFUSED_S)
        self._limits.append((limit, ceiling))
        return limit

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call_scheduler(self, operation: str, text: str) -> Any:
        """Call an operation of `_limits` on the scheduler.

        Raises:
            OSError: The scheduler cannot be reached.
        """
        await self.open()
        client = self._client
        if client is None:
            raise ConnectionError("the scheduler cannot be reached")
        async with asyncio.timeout(_SILENT_S):
            return await getattr(client.scheduler, operation)(text=text)

    async def open(self) -> None:
        """Connect, and wait for the first worker.

        Raises:
            ProviderError: The scheduler cannot be reached, or has no worker.
        """
        if self._opening is None:
            self._opening, self._has_room = asyncio.Lock(), asyncio.Event()
        async with self._opening:
            if self._failure is not None:
                raise self._failure
            if self._watching:
                return
            try:
                async with asyncio.timeout(None if self._address == LOCAL else _start_s()):
                    await self._start()
            except UsageError as error:
                self._failure = ProviderError(f"{self}: {error}", kind="cluster")
                raise self._failure from error
            except _CONNECTION_ERRORS as error:
                self._failure = self._scheduler_error(error)
                raise self._failure from error

    async def call(self, call: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, Any]:
        """The result of a call, from the first worker that does not refuse it.

        Raises:
            ProviderError: There is no result.
        """
        local = {"root": str(self._root)} if self._address == LOCAL else {}
        text = encode({**call, **local, "identity": self._identity, "timeout_s": timeout_s})
        while True:
            worker = await self._take()
            try:
                result = await self._run_call(worker, text, timeout_s)
            finally:
                worker.busy -= 1
                self._move()
            if "refused" not in result:
                return result
            self._refuse(worker, result["refused"])

    async def detach(self) -> None:
        """Disconnect from the scheduler; another event loop may connect again."""
        self._watching = False
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._disconnect()
        self._opening = self._has_room = None
        self._limits.clear()

    def stop(self) -> None:
        """End the workers of a local cluster."""
        local, self._local = self._local, None
        if local is not None:
            local.close(timeout=10)

    async def _start(self) -> None:
        if self._identity is None:
            self._identity = await asyncio.to_thread(find_identity, self._root)
        if self._address == LOCAL and self._local is None:
            self._local = await asyncio.to_thread(_start_local)
        while True:
            try:
                await self._connect()
                break
            except OSError:
                await asyncio.sleep(_POLL_S)
        while not self._workers:
            self._update(await self._client.nthreads())
            await asyncio.sleep(0 if self._workers else _POLL_S)
        self._watching = True
        self._begin(self._watch())

    async def _connect(self) -> Any:
        from distributed import Client

        connect: Any = Client
        address = self._address if self._local is None else self._local.scheduler_address
        client: Any = connect(
            address,
            asynchronous=True,
            set_as_default=False,
            direct_to_workers=False,
            timeout=_CONNECT_S,
        )
        try:
            await client
            await self._install(client)
        except BaseException:
            with suppress(Exception):
                await client.close(timeout=1)
            raise
        self._client = client
        return client

    async def _install(self, client: Any) -> None:
        """Install the limits in the scheduler.

        Raises:
            UsageError: The scheduler has no regauge, or another version.
        """
        assert self._identity is not None
        version = self._identity["version"]
        fix = f"install regauge[dask] {version} where the scheduler runs, and restart it"
        try:
            theirs = await client.run_on_scheduler(install)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"the scheduler cannot run regauge: {type(error).__name__}: {error}", fix=fix
            ) from error
        if theirs != version:
            raise UsageError(
                f"the scheduler runs regauge {theirs}, and this command {version}", fix=fix
            )

    async def _disconnect(self) -> None:
        self._update({})
        self._resize()
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                await client.close(timeout=1)

    async def _watch(self) -> None:
        """Update the workers, and reconnect after the loss of the connection."""
        while True:
            try:
                client: Any = self._client or await self._connect()
                async with asyncio.timeout(_SILENT_S):
                    slots = await client.nthreads()
                    running = await client.scheduler.ncores_running()
                self._update(slots)
                for address, worker in self._workers.items():
                    worker.paused = address not in running
                self._resize()
            except (UsageError, *_CONNECTION_ERRORS):
                await self._disconnect()
            await asyncio.sleep(_POLL_S)

    def _update(self, slots: Mapping[str, int]) -> None:
        """Update the workers with their numbers of threads."""
        for address in self._workers.keys() - slots.keys():
            self._workers.pop(address).loss.set_result(None)
        for address, count in slots.items():
            if address not in self._workers and count:
                loss = asyncio.get_running_loop().create_future()
                self._workers[address] = _Worker(address, count, loss)

    def _resize(self) -> None:
        for limit, ceiling in self._limits:
            limit.resize(min(self.slots, ceiling or self.slots))
        self._move()

    def _move(self) -> None:
        """Wake the calls that wait for a worker."""
        if self._has_room is not None:
            self._has_room.set()
            self._has_room = asyncio.Event()

    async def _take(self) -> _Worker:
        """Reserve a slot of the least busy worker.

        Raises:
            ProviderError: All workers are refused, or there is none.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + _CONNECT_S
        while True:
            accepted = self._accepting_workers()
            free = [worker for worker in accepted if worker.busy < worker.slots]
            if free:
                worker = min(free, key=lambda worker: worker.busy / worker.slots)
                worker.busy += 1
                return worker
            if self._workers and all(worker.refusal for worker in self._workers.values()):
                raise ProviderError(
                    f"{self} has no worker for this project:\n"
                    + "\n".join(sorted({worker.refusal for worker in self._workers.values()})),
                    kind="cluster",
                )
            if not accepted and loop.time() >= until:
                if self._client is None:
                    problem, fix = f"{self} cannot be reached any more", "start its scheduler again"
                else:
                    problem, fix = f"{self} has no worker any more", _WORKER_FIX
                raise self._connection_error(problem, fix, never_sent=True)
            assert self._has_room is not None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_room.wait(), _POLL_S)

    async def _run_call(self, worker: _Worker, text: str, timeout_s: float) -> Mapping[str, Any]:
        """The result of a call on one worker."""
        # Only a text is sent; Dask sends the function by name.
        future = self._client.submit(make_call, text, workers=[worker.address], pure=False)
        result = asyncio.ensure_future(self._result(future, worker))
        ends: set[asyncio.Future[Any]] = {result, worker.loss}
        try:
            await asyncio.wait(
                ends, timeout=timeout_s + _GRACE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if result.done():
                return result.result()
            if worker.loss.done():
                raise self._connection_error(
                    f"{self} lost worker {worker.address} during this call", _WORKER_FIX
                )
            raise AttemptError(
                f"worker {worker.address} had no result after {timeout_s + _GRACE_S:g} s",
                fix="see its log, and restart it",
                kind="timeout",
                transient=True,
            )
        finally:
            if not result.done():
                result.cancel()
            future.release()

    async def _result(self, future: Any, worker: _Worker) -> Mapping[str, Any]:
        from distributed import KilledWorker

        try:
            result: Mapping[str, Any] = json.loads(await future)
        except (CancelledError, KilledWorker, OSError) as error:
            raise self._connection_error(
                f"{self} lost this call on worker {worker.address}", "see the logs of the cluster"
            ) from error
        except Exception as error:  # noqa: BLE001 - of a process with other code
            return {
                "refused": f"it cannot run regauge: {type(error).__name__}: {error}\n"
                "  fix: install regauge[dask] there and for the scheduler, and restart them"
            }
        return result

    def _refuse(self, worker: _Worker, reason: str) -> None:
        if not worker.refusal:
            worker.refusal = f"worker {worker.address} is refused: {reason}"
            if worker.refusal not in self._printed_refusals:
                self._printed_refusals.add(worker.refusal)
                self._note(worker.refusal)
            self._resize()

    def _connection_error(
        self, problem: str, fix: str, *, never_sent: bool = False
    ) -> AttemptError:
        return AttemptError(
            f"{problem}\n{_SAME}", fix=fix, kind="connection", transient=True, never_sent=never_sent
        )

    def _scheduler_error(self, error: Exception) -> ProviderError:
        if self._client is not None:
            problem, fix = f"{self} has no worker", f"start one: dask worker {self._address}"
        else:
            reason = str(error) or f"no response within {_start_s():g} s"
            problem, fix = f"{self} cannot be reached: {reason}", "see that its scheduler runs"
            if self._address.startswith("tls:"):
                fix += ", and set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..CLIENT__CERT and ..KEY"
        return ProviderError(f"{problem}\n  fix: {fix}", kind="connection")


def _start_s() -> float:
    """Seconds for a scheduler and workers that start with the command, as Dask is configured."""
    from importlib import import_module

    import_module("distributed")  # has the defaults
    dask: Any = import_module("dask")
    seconds: float = dask.utils.parse_timedelta(
        dask.config.get("distributed.comm.timeouts.connect")
    )
    return seconds


def _start_local() -> Any:
    import logging

    from distributed import LocalCluster

    start: Any = LocalCluster
    return start(
        n_workers=os.cpu_count() or 1,
        threads_per_worker=_LOCAL_CALLS,
        host="127.0.0.1",
        dashboard_address=None,
        # Dask's profiler takes 1 % of a core in each worker, for the dashboard.
        config={"distributed.worker.profile.enabled": False},
        # A free port, as Dask warns if another local cluster has the default one.
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        silence_logs=logging.CRITICAL,
    )


class ClusterAttempts:
    """Makes attempts at one endpoint on the workers of a cluster.

    Args:
        cluster: The cluster.
        endpoint: The endpoint; the driver needs no API key.
        root: The root of the project.

    Attributes:
        attempt_count: Number of attempts.
    """

    def __init__(self, cluster: Cluster, endpoint: Endpoint, *, root: Path) -> None:
        self._cluster = cluster
        self._digest = digest_endpoint(endpoint)
        self._root = root
        self.attempt_count = 0

    async def open(self) -> None:
        """Connect to the cluster."""
        await self._cluster.open()

    async def call(
        self, request: CompletionRequest, *, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """The completion of a request, with the rate limits in its response.

        Raises:
            ProviderError: The attempt failed.
        """
        self.attempt_count += 1
        document = request_to_json(request, root=self._root)
        call = {"endpoint": self._digest, "request": document}
        return result_from(await self._cluster.call(call, timeout_s=timeout_s))

    async def aclose(self) -> None:
        """Do nothing: the run disconnects from the cluster."""


class ClusterTarget:
    """Calls a target on the workers of a cluster.

    A worker makes the retries of the target's settings. Calls that are lost with their worker are
    repeated.

    Args:
        cluster: The cluster.
        target: The target, with the files of the driver.
        limit: The limit of calls at once.
    """

    def __init__(self, cluster: Cluster, target: Target, *, limit: AdaptiveLimit) -> None:
        self._cluster = cluster
        self._target = target
        self._limit = limit

    async def complete(self, request: CompletionRequest) -> Completion:
        """The output for the case of a request.

        Raises:
            ProviderError: There is no output.
        """
        assert request.case is not None
        deadline_s = self._target.settings.deadline_s
        call = {
            "target": self._target.name,
            "digest": self._target.digest,
            "case": document_of(request.case),
            "trial": request.trial,
            "origin": request.origin,
        }

        async def attempt(ledger: Ledger) -> Completion:
            async with self._limit.permit(is_retry=ledger.attempts > 1):
                await self._cluster.open()
                result = await self._cluster.call(call, timeout_s=deadline_s)
                return result_from(result)[0]

        ledger = Ledger(max_attempts=_LOST_MAX, deadline_s=_LOST_MAX * deadline_s)
        return await call_with_retries(attempt, ledger)

    async def aclose(self) -> None:
        """Do nothing: the run disconnects from the cluster."""
