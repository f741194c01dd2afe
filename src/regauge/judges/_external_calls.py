"""Puts a judgement to a program or a web service: one JSON document there, one response back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from typing import IO, TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from regauge.errors import ProviderError
from regauge.providers import Completion, CompletionRequest, Usage
from regauge.providers._failure import AttemptError, retry_after_s
from regauge.providers._rate import quotas_in
from regauge.providers._retry import Ledger, call_with_retries
from regauge.stop_signals import end_group, end_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from pathlib import Path


OUTPUT_MAX: Final = 1_000_000
"""The most bytes of a response that are read."""

Result = TypeVar("Result")

# The end of an error output has its reason.
_STDERR_SHOWN: Final = 400
_ALWAYS: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
# Shorter secrets are ordinary words, which errors would lose.
_SECRET_CHARS: Final = 6
# More attempts help against longer outages of a service, and delay the report of a broken one.
_ATTEMPTS: Final = 4
# The size of a pipe on Linux: what one read can return.
_STEP: Final = 65_536
# The interval at which an ended process is noticed; a longer one delays each call by half of it.
_LOOK_S: Final = 0.005
# Shells and the guard of commands end with this and the number of the signal.
_SIGNALS: Final = 128
_USUAL_FIX: Final = "make the service accept this JSON document"
_FIXES: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "name the variable with the credentials in `headers`, of a target in"
    " `headers_env`",
    HTTPStatus.FORBIDDEN: "check the credentials in the variable that the headers name",
    HTTPStatus.NOT_FOUND: "check the address",
    HTTPStatus.METHOD_NOT_ALLOWED: "set `method` to one that the service accepts",
    HTTPStatus.REQUEST_TIMEOUT: "raise timeout_s",
    HTTPStatus.TOO_MANY_REQUESTS: "lower --concurrency",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class _ExternalCalls:
    """The shared part of both kinds.

    Attributes:
        name: The judge, for errors.
        timeout_s: For one call.
        check: Raises JudgeError for a response that holds no verdict, so that it is not recorded.
    """

    name: str
    timeout_s: float
    check: Callable[[str], object]

    async def aclose(self) -> None:
        """Nothing stays open between calls."""

    def _completion(
        self, request: CompletionRequest, body: bytes, secrets: Iterable[str], *, began: float
    ) -> Completion:
        """The response as a completion, without the values of the environment that were passed.

        Raises:
            ProviderError: It is too long, is no text, or holds no verdict.
        """
        if len(body) > OUTPUT_MAX:
            message = f"the response is longer than {OUTPUT_MAX:,} bytes"
            raise ProviderError(message, fix="respond with a verdict alone", kind="malformed")
        try:
            text = _without(body.decode("utf-8").strip(), secrets)
        except UnicodeDecodeError as error:
            raise ProviderError(f"the response is not UTF-8: {error}", kind="malformed") from error
        try:
            self.check(text)
        except Exception as error:
            raise ProviderError(_without(str(error), secrets), kind="malformed") from error
        return Completion(
            text=text,
            finish_reason="stop",
            usage=Usage(),
            model=request.model,
            provider=request.provider,
            latency_s=time.monotonic() - began,
            cost_usd=0.0,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CommandCalls(_ExternalCalls):
    """Starts a program for every judgement, never through a shell.

    Attributes:
        arguments: The program and its arguments.
        env: The names of environment variables that it gets besides a few such as PATH.
        directory: Where it runs.
    """

    arguments: tuple[str, ...]
    env: tuple[str, ...]
    directory: Path
    _rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = field(
        default_factory=WeakKeyDictionary["asyncio.AbstractEventLoop", asyncio.Semaphore],
        repr=False,
    )

    async def complete(self, request: CompletionRequest) -> Completion:
        """The standard output of the program.

        Raises:
            ProviderError: It cannot be started, fails, takes too long, or writes no verdict.
        """
        values = values_of(self.env)
        environ = {name: os.environ[name] for name in _ALWAYS if name in os.environ} | values
        # A program takes a processor, so no more of them than there are run at a time.
        room = self._rooms.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(max(2, os.cpu_count() or 2))
        )
        async with room:
            began = time.monotonic()
            body = await run_program(
                self.arguments,
                request.messages[-1].content.encode(),
                environ=environ,
                directory=self.directory,
                timeout_s=self.timeout_s,
                output_max=OUTPUT_MAX,
                secrets=values.values(),
            )
        return self._completion(request, body, values.values(), began=began)


async def run_program(
    arguments: Sequence[str],
    stdin: bytes,
    *,
    environ: Mapping[str, str],
    directory: Path,
    timeout_s: float,
    output_max: int,
    secrets: Iterable[str] = (),
    pass_fds: Sequence[int] = (),
) -> bytes:
    """The standard output of a program; at most one byte more than `output_max`.

    Args:
        arguments: The program and its arguments.
        stdin: Its standard input.
        environ: Its environment.
        directory: Where it runs.
        timeout_s: How long it may run, in seconds; it ends with all that it started.
        output_max: How many bytes it may write.
        secrets: What errors leave out.
        pass_fds: The file descriptors that it inherits.

    Raises:
        ProviderError: It cannot be started, fails or takes too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
            cwd=directory,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except OSError as error:
        message = f"{arguments[0]!r} cannot be started: {error.strerror or error}"
        raise ProviderError(
            message, fix=f"give a program that can be executed in {directory}", kind="command"
        ) from error
    reading: asyncio.Future[tuple[bytes, bytes, None]] | None = None
    try:
        async with asyncio.timeout(timeout_s):
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            reading = asyncio.gather(
                _head(process.stdout, process.pid, output_max),
                _tail(process.stderr),
                _write(process.stdin, stdin),
            )
            status = await _ended(process)
            end_group(process.pid)  # what it left behind could hold its output open
            body, errors, _ = await reading
    except TimeoutError:
        if process.returncode is None:
            why = f"the command did not end within {timeout_s:g} s and was stopped"
            fix = "raise `timeout_s`"
        else:
            why = f"the command ended, and a process it left holds its output after {timeout_s:g} s"
            fix = "end that process in the command, or give it other streams"
        raise ProviderError(f"{why}\n  fix: {fix}", kind="timeout") from None
    finally:
        (end_tree if process.returncode is None else end_group)(process.pid)
        if reading is not None and not reading.done():
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        await _ended(process)
    if len(body) <= output_max and status != 0:
        ended = f"failed with exit status {status}"
        number = -status if status < 0 else status - _SIGNALS
        if number in set(signal.Signals):
            ended = f"was ended by {signal.Signals(number).name}"
        text = _without(errors.decode("utf-8", "replace").strip(), secrets)[-_STDERR_SHOWN:]
        raise ProviderError(
            f"the command {ended}: {text or 'it wrote nothing to standard error'}", kind="command"
        )
    return body


async def _ended(process: asyncio.subprocess.Process) -> int:
    """The exit status; `wait` of asyncio waits for those who hold the output, too."""
    while process.returncode is None:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(_LOOK_S)
    return process.returncode


async def _head(stream: asyncio.StreamReader, group: int, output_max: int) -> bytes:
    """The beginning of a stream; a program that writes more is stopped."""
    parts: list[bytes] = []
    size = 0
    while size <= output_max and (part := await stream.read(_STEP)):
        parts.append(part)
        size += len(part)
    if size > output_max:
        end_group(group)
    return b"".join(parts)


async def _tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while part := await stream.read(_STEP):
        tail = (tail + part)[-4 * _STDERR_SHOWN :]
    return tail


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read its input
        stream.write(data)
        await stream.drain()
    stream.close()


@dataclass(frozen=True, kw_only=True, eq=False)
class HttpCalls(_ExternalCalls):
    """Sends every judgement to a web service.

    Attributes:
        url: Where.
        method: How.
        headers: The name of an environment variable for each header.
    """

    url: str
    method: str
    headers: Mapping[str, str]

    async def complete(self, request: CompletionRequest) -> Completion:
        """The body of the response; what may pass is tried again, as calls of models are.

        Raises:
            ProviderError: There is none, or it holds no verdict.
        """
        values = values_of(self.headers.values())
        headers = headers_of(self.headers, values)
        stdin = request.messages[-1].content.encode()
        began = time.monotonic()

        async def attempt(ledger: Ledger) -> bytes:
            try:
                with ledger.clock():
                    return await send(
                        self.method,
                        self.url,
                        body=stdin,
                        headers=headers,
                        timeout_s=min(self.timeout_s, ledger.left_s),
                        output_max=OUTPUT_MAX,
                    )
            except AttemptError as error:
                error.args = (_without(str(error), values.values()),)
                raise

        ledger = Ledger(max_attempts=_ATTEMPTS, deadline_s=2 * self.timeout_s)
        body = await call_with_retries(attempt, ledger)
        return self._completion(request, body, values.values(), began=began)


def headers_of(variables: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Headers with the values of their environment variables.

    Raises:
        ProviderError: A value cannot be sent.
    """
    for name, variable in variables.items():
        if not values[variable].isascii() or not values[variable].isprintable():
            message = f"the value of ${variable} cannot be sent as the header {name!r}"
            raise ProviderError(
                message, fix="give the variable one line of ASCII text", kind="bad-request"
            )
    return {name: values[variable] for name, variable in variables.items()}


async def send(
    method: str,
    url: str,
    *,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout_s: float,
    output_max: int,
    accepted: Container[int] = range(200, 300),
) -> bytes:
    """The body of a response; one byte more than `output_max` at most. Redirects are refused.

    Args:
        method: The HTTP method.
        url: Where.
        body: The body of the request, as JSON; None sends none.
        headers: Further headers.
        timeout_s: How long it may take, in seconds.
        output_max: How many bytes are read.
        accepted: The statuses that are no error.

    Raises:
        AttemptError: There is no response, or it has another status.
    """
    what = f"{method} {url}"
    sent = {"Accept": "application/json, text/plain", "User-Agent": "regauge", **headers}
    if body is not None:
        sent = {"Content-Type": "application/json", **sent}
    # http and https only, as settings and `http_judge` see to
    request = urllib.request.Request(url, data=body, method=method, headers=sent)  # noqa: S310

    def transfer() -> bytes:
        ends = time.monotonic() + timeout_s
        try:
            with urllib.request.build_opener(_NoRedirects).open(
                request, timeout=timeout_s
            ) as response:
                if response.status in accepted:
                    return _read(response, ends, output_max)
            why = f"{what}: status {response.status}, which `status` does not name"
            raise AttemptError(why, kind="server", status=response.status, transient=False)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in accepted:
                    return _read(error, ends, output_max)
                raise _refused_error(what, error) from None
        except IncompleteRead as error:
            why = f"{what}: the response ended early"
            raise AttemptError(why, kind="connection", transient=True) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            why, kind = f"no connection: {reason}", "connection"
            fix = "start the service, or correct its address"
            if isinstance(reason, TimeoutError):
                why, kind = f"no response within {timeout_s:.2g} s", "timeout"
                fix = "raise `timeout_s`, or make the service faster"
            raise AttemptError(f"{what}: {why}\n  fix: {fix}", kind=kind, transient=True) from error

    return await _in_thread(transfer)


def _refused_error(what: str, error: urllib.error.HTTPError) -> AttemptError:
    status = error.code
    text = ""
    with suppress(OSError, HTTPException):
        text = error.read(_STDERR_SHOWN).decode("utf-8", "replace").strip()
    words = f"{what}: status {status}"
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        place = error.headers.get("Location", "elsewhere")
        return AttemptError(
            f"{words}: redirects are not followed, this one goes to {place}\n"
            "  fix: name the last address",
            kind="redirect",
            status=status,
            transient=False,
        )
    limited = status == HTTPStatus.TOO_MANY_REQUESTS
    passing = limited or status == HTTPStatus.REQUEST_TIMEOUT
    fix = "" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _FIXES.get(status, _USUAL_FIX)
    headers = {k.lower(): v for k, v in error.headers.items()}
    failure = AttemptError(
        f"{words}: {text or error.reason}" + (f"\n  fix: {fix}" if fix else ""),
        kind="rate-limit" if limited else "server",
        status=status,
        transient=passing or status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        retry_after_s=retry_after_s(headers),
    )
    failure.quotas = quotas_in(headers)
    return failure


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Headers with secrets go to the named address alone."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""


async def _in_thread(call: Callable[[], Result]) -> Result:
    """The result of a call that waits; the end of the run does not wait for it."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            done.set_exception(error)
        else:
            done.set_result(result)

    done.set_running_or_notify_cancel()
    threading.Thread(target=run, name="regauge-http", daemon=True).start()
    return await asyncio.wrap_future(done)


def _read(response: IO[bytes], ends: float, output_max: int) -> bytes:
    """The body, up to a byte more than is allowed.

    Raises:
        TimeoutError: It takes too long, however steadily it comes.
        IncompleteRead: It ends before the length that its headers state.
    """
    parts: list[bytes] = []
    size = 0
    read: Callable[[int], bytes] = getattr(response, "read1", response.read)
    while size <= output_max and (part := read(_STEP)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > ends:
            raise TimeoutError
    left: int | None = getattr(response, "length", None)
    if size <= output_max and left:
        raise IncompleteRead(b"", left)
    return b"".join(parts)


def values_of(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The values of environment variables.

    Raises:
        ProviderError: One is not set.
    """
    values = {name: environ.get(name, "") for name in names}
    missing = [f"${name}" for name, value in values.items() if not value]
    if missing:
        message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
        raise ProviderError(
            message, fix="set it in the environment of the run", kind="authentication"
        )
    return values


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SECRET_CHARS:
            text = text.replace(secret, "[removed]")
    return text
