"""Calls of a program or a web service: one JSON document as input, one response as output."""

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
from regauge.providers import (
    AttemptError,
    Completion,
    CompletionRequest,
    Ledger,
    Usage,
    call_with_retries,
    quotas_in,
    retry_after_s,
)
from regauge.stop_signals import end_group, end_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from pathlib import Path


OUTPUT_MAX: Final = 1_000_000
"""The largest response, in bytes."""

Result = TypeVar("Result")

# The reason is at the end of an error output.
_STDERR_SHOWN: Final = 400
# Programs on Windows need them to start.
WINDOWS_ENV: Final = ("SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "USERPROFILE")
_ALWAYS: Final = (*WINDOWS_ENV, "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
# Shorter secrets are ordinary words, which errors would lose.
_SECRET_CHARS: Final = 6
# More attempts help against longer outages of a service, and delay the report of a broken one.
_ATTEMPTS: Final = 4
# The size of a pipe on Linux: what one read can return.
_STEP: Final = 65_536
# A longer interval delays each call by half of it.
_POLL_S: Final = 0.005
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
        timeout_s: The time limit of a call, in seconds.
        check: Called with each response; raises JudgeError for one without a verdict, which is
            then not recorded.
    """

    timeout_s: float
    check: Callable[[str], object]

    async def aclose(self) -> None:
        """Close nothing: connections end with each call."""

    def _completion(
        self, request: CompletionRequest, body: bytes, secrets: Iterable[str], *, began: float
    ) -> Completion:
        """Convert a response to a completion, without the secrets that were passed.

        Raises:
            ProviderError: It is too long, is not text, or has no verdict.
        """
        if len(body) > OUTPUT_MAX:
            message = f"the response is longer than {OUTPUT_MAX:,} bytes"
            raise ProviderError(message, fix="respond with a verdict alone", kind="malformed")
        try:
            text = _remove_secrets(body.decode("utf-8-sig").strip(), secrets)
        except UnicodeDecodeError as error:
            raise ProviderError(f"the response is not UTF-8: {error}", kind="malformed") from error
        try:
            self.check(text)
        except Exception as error:
            raise ProviderError(_remove_secrets(str(error), secrets), kind="malformed") from error
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
    """Calls of a program, without a shell.

    Attributes:
        arguments: The program and its arguments.
        env: The names of environment variables to pass, in addition to a few such as PATH.
        directory: The working directory.
    """

    arguments: tuple[str, ...]
    env: tuple[str, ...]
    directory: Path
    _semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = field(
        default_factory=WeakKeyDictionary["asyncio.AbstractEventLoop", asyncio.Semaphore],
        repr=False,
    )

    async def complete(self, request: CompletionRequest) -> Completion:
        """Run the program; its standard output is the text.

        Raises:
            ProviderError: It cannot be started, fails, takes too long, or writes no verdict.
        """
        values = environment_values(self.env)
        environ = {name: os.environ[name] for name in _ALWAYS if name in os.environ} | values
        # A program uses a processor: one program per processor at a time.
        semaphore = self._semaphores.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(max(2, os.cpu_count() or 2))
        )
        async with semaphore:
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
    secrets: Iterable[str],
    pass_fds: Sequence[int] = (),
) -> bytes:
    """Run a program and return its standard output, at most one byte more than `output_max`.

    Args:
        arguments: The program and its arguments.
        stdin: The standard input.
        environ: The environment.
        directory: The working directory.
        timeout_s: Seconds until it is stopped, with all processes that it started.
        output_max: The largest output, in bytes.
        secrets: Texts to remove from errors.
        pass_fds: The file descriptors to pass.

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
                _read_start(process.stdout, process.pid, output_max),
                _read_end(process.stderr),
                _write(process.stdin, stdin),
            )
            status = await _wait_for_exit(process)
            end_group(process.pid)  # a process it started could keep its output open
            body, errors, _ = await reading
    except TimeoutError:
        if process.returncode is None:
            problem = f"the command did not end within {timeout_s:g} s and was stopped"
            fix = "raise `timeout_s`"
        else:
            problem = (
                f"the command ended, and a process it left holds its output after {timeout_s:g} s"
            )
            fix = "end that process in the command, or give it other streams"
        raise ProviderError(f"{problem}\n  fix: {fix}", kind="timeout") from None
    finally:
        (end_tree if process.returncode is None else end_group)(process.pid)
        if reading is not None and not reading.done():
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        await _wait_for_exit(process)
    if len(body) <= output_max and status != 0:
        ending = f"failed with exit status {status}"
        number = -status if status < 0 else status - _SIGNALS
        if number in set(signal.Signals):
            ending = f"was ended by {signal.Signals(number).name}"
        text = _remove_secrets(errors.decode("utf-8", "replace").strip(), secrets)[-_STDERR_SHOWN:]
        raise ProviderError(
            f"the command {ending}: {text or 'it wrote nothing to standard error'}", kind="command"
        )
    return body


async def _wait_for_exit(process: asyncio.subprocess.Process) -> int:
    """Wait for the exit status only: `wait` of asyncio also waits for open output."""
    while process.returncode is None:  # noqa: ASYNC110 - no event for it
        await asyncio.sleep(_POLL_S)
    return process.returncode


async def _read_start(stream: asyncio.StreamReader, group: int, output_max: int) -> bytes:
    """Read the start of a stream; stop a program that writes more."""
    parts: list[bytes] = []
    size = 0
    while size <= output_max and (part := await stream.read(_STEP)):
        parts.append(part)
        size += len(part)
    if size > output_max:
        end_group(group)
    return b"".join(parts)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while part := await stream.read(_STEP):
        tail = (tail + part)[-4 * _STDERR_SHOWN :]
    return tail


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # reading its input is optional
        stream.write(data)
        await stream.drain()
    stream.close()


@dataclass(frozen=True, kw_only=True, eq=False)
class HttpCalls(_ExternalCalls):
    """Calls of a web service.

    Attributes:
        url: The address.
        method: The HTTP method.
        headers: The name of an environment variable for each header.
    """

    url: str
    method: str
    headers: Mapping[str, str]

    async def complete(self, request: CompletionRequest) -> Completion:
        """Send the request, with the retries of model calls.

        Raises:
            ProviderError: There is no response, or it has no verdict.
        """
        values = environment_values(self.headers.values())
        headers = build_headers(self.headers, values)
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
                error.args = (_remove_secrets(str(error), values.values()),)
                raise

        ledger = Ledger(max_attempts=_ATTEMPTS, deadline_s=2 * self.timeout_s)
        body = await call_with_retries(attempt, ledger)
        return self._completion(request, body, values.values(), began=began)


def build_headers(variables: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Build headers from environment variables.

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
    """Send a request without following redirects, and return the body of the response.

    Args:
        method: The HTTP method.
        url: The address.
        body: The body of the request, as JSON; None for none.
        headers: Further headers.
        timeout_s: The time limit, in seconds.
        output_max: The largest body, in bytes; at most one byte more is returned.
        accepted: The statuses that are not errors.

    Raises:
        AttemptError: There is no response, or it has another status.
    """
    call = f"{method} {url}"
    all_headers = {"Accept": "application/json, text/plain", "User-Agent": "regauge", **headers}
    if body is not None:
        all_headers = {"Content-Type": "application/json", **all_headers}
    # Settings and `http_judge` allow http and https only.
    request = urllib.request.Request(url, data=body, method=method, headers=all_headers)  # noqa: S310

    def transfer() -> bytes:
        deadline = time.monotonic() + timeout_s
        try:
            with urllib.request.build_opener(_NoRedirects).open(
                request, timeout=timeout_s
            ) as response:
                if response.status in accepted:
                    return _read(response, deadline, output_max)
            problem = f"{call}: status {response.status}, which `status` does not name"
            raise AttemptError(problem, kind="server", status=response.status, transient=False)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in accepted:
                    return _read(error, deadline, output_max)
                raise _refused_error(call, error) from None
        except IncompleteRead as error:
            problem = f"{call}: the response ended early"
            raise AttemptError(problem, kind="connection", transient=True) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            problem, kind = f"no connection: {reason}", "connection"
            fix = "start the service, or correct its address"
            if isinstance(reason, TimeoutError):
                problem, kind = f"no response within {timeout_s:.2g} s", "timeout"
                fix = "raise `timeout_s`, or make the service faster"
            raise AttemptError(
                f"{call}: {problem}\n  fix: {fix}", kind=kind, transient=True
            ) from error

    return await asyncio.wrap_future(start_thread(transfer))


def _refused_error(call: str, error: urllib.error.HTTPError) -> AttemptError:
    status = error.code
    text = ""
    with suppress(OSError, HTTPException):
        text = error.read(_STDERR_SHOWN).decode("utf-8", "replace").strip()
    words = f"{call}: status {status}"
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        place = error.headers.get("Location", "elsewhere")
        return AttemptError(
            f"{words}: redirects are not followed, this one goes to {place}",
            fix="name the last address",
            kind="redirect",
            status=status,
            transient=False,
        )
    limited = status == HTTPStatus.TOO_MANY_REQUESTS
    broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    passing = limited or broken or status == HTTPStatus.REQUEST_TIMEOUT
    fix = "" if broken else _FIXES.get(status, _USUAL_FIX)
    headers = {k.lower(): v for k, v in error.headers.items()}
    return AttemptError(
        f"{words}: {text or error.reason}",
        fix=fix,
        kind="rate-limit" if limited else "server" if passing else "bad-request",
        status=status,
        transient=passing,
        retry_after_s=retry_after_s(headers),
        quotas=quotas_in(headers),
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would receive headers with secrets."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Refuse."""


def start_thread(call: Callable[[], Result]) -> Future[Result]:
    """Start a blocking call in a thread that the end of the process does not wait for."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            done.set_exception(error)
        else:
            done.set_result(result)

    done.set_running_or_notify_cancel()
    threading.Thread(target=run, name="regauge-call", daemon=True).start()
    return done


def _read(response: IO[bytes], deadline: float, output_max: int) -> bytes:
    """Read a body, at most one byte more than `output_max`.

    Raises:
        TimeoutError: The deadline passed.
        IncompleteRead: The body is shorter than its headers state.
    """
    parts: list[bytes] = []
    size = 0
    read: Callable[[int], bytes] = getattr(response, "read1", response.read)
    while size <= output_max and (part := read(_STEP)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
    left: int | None = getattr(response, "length", None)
    if size <= output_max and left:
        raise IncompleteRead(b"", left)
    return b"".join(parts)


def environment_values(
    names: Iterable[str], environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Read environment variables.

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


def _remove_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SECRET_CHARS:
            text = text.replace(secret, "[removed]")
    return text
