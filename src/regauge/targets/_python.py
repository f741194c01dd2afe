"""Python functions as targets, called in another process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import ProviderError
from regauge.stop_signals import end_group, end_tree
from regauge.targets._output import OUTPUT_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import PythonTarget

_SCRIPT: Final = Path(__file__).with_name("_worker.py")
# What only judges may read: outputs of code that knows it measure nothing.
_CLOSED: Final = (
    *("fixtures/golden", "fixtures/recordings", "fixtures/baselines", "fixtures/labels"),
    ".regauge",
)
_LINE_MAX: Final = 2 * OUTPUT_MAX
_STDERR_BYTES: Final = 4_000
_STDERR_LINES: Final = 14


class _EndedError(Exception):
    """The process ended during a call.

    Attributes:
        alone: Whether no other call was in progress.
    """

    def __init__(self, message: str, *, alone: bool) -> None:
        super().__init__(message)
        self.alone = alone


class _Process:
    """A process that imports a callable and calls it.

    Args:
        process: The process.
        name: The callable, as `module:function`.
        import_s: The time limit of the import, in seconds.

    Attributes:
        late: The files below the root that calls imported or read.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str, *, import_s: float) -> None:
        self._process = process
        self._name = name
        self._import_s = import_s
        self._numbers = count()
        self._pending: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._ready: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._stderr = b""
        self._retired = False
        self.late: set[str] = set()
        self._readers = [
            asyncio.ensure_future(self._read_lines()),
            asyncio.ensure_future(self._read_stderr()),
        ]

    @classmethod
    async def start(cls, caller: PythonCaller) -> _Process:
        """Start a process, which then imports the callable."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(_SCRIPT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=caller.root,
            env=dict(caller.environ),
            start_new_session=True,
            limit=_LINE_MAX,
        )
        started = cls(process, caller.name, import_s=caller.import_s)
        started._send(
            _setup(
                caller.name,
                caller.root,
                home=caller.home,
                width=caller.width,
                is_tool=caller.is_tool,
            )
        )
        return started

    async def files(self) -> list[str]:
        """The modules below the root that the import loaded.

        Raises:
            ProviderError: The callable cannot be imported.
        """
        try:
            async with asyncio.timeout(self._import_s):
                reply = await asyncio.shield(self._ready)
        except TimeoutError:
            error = _not_imported(self._name, self._import_s)
            if not self._ready.done():  # other calls do not wait for it again
                self._ready.set_result({"error": str(error), "kind": "slow-import"})
            self._end()
            raise error from None
        if "error" in reply:
            kind = "import" if reply["kind"] == "slow-import" else reply["kind"]
            raise ProviderError(_with_fix(reply, self._name), kind=kind)
        files: list[str] = reply["files"]
        return files

    async def call(self, case: GoldenCase, *, timeout_s: float) -> JSON:
        """The output for a case.

        Raises:
            ProviderError: The function raised, took too long, or returned an invalid output.
            _EndedError: The process ended.
        """
        await self.files()
        number = next(self._numbers)
        reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        if self._process.returncode is not None:
            raise _EndedError(self._last_words(), alone=False)
        self._pending[number] = reply
        try:
            call = {"id": number, "case": document_of(case)}
            self._send(json.dumps(call).encode() + b"\n")
            async with asyncio.timeout(timeout_s):
                value = await reply
        except TimeoutError:
            fix = "raise `timeout_s` in pyproject.toml, or make it faster"
            raise ProviderError(
                f"{self._name} did not return within {timeout_s:g} s", fix=fix, kind="timeout"
            ) from None
        finally:
            self._pending.pop(number, None)
            if self._retired and not self._pending:
                await self.close()
        if "error" in value:
            raise ProviderError(_with_fix(value, self._name), kind=value["kind"])
        self.late.update(value.get("late", ()))
        output: JSON = value["output"]
        return output

    async def retire(self) -> None:
        """Stop new calls, as a thread is stuck; the process ends with its last call."""
        self._retired = True
        if not self._pending:
            await self.close()

    async def close(self) -> None:
        """End the process and all its child processes."""
        if self._process.returncode is None:
            end_tree(self._process.pid)
        await asyncio.gather(*self._readers, return_exceptions=True)
        await self._process.wait()

    def _end(self) -> None:
        end_group(self._process.pid)

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError, RuntimeError):  # the reader reports the end of the process
            self._process.stdin.write(line)

    async def _read_lines(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                reply = json.loads(line)
                waiting = self._pending.get(reply["id"]) if "id" in reply else self._ready
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        except ValueError:  # a line that is too long, or not JSON
            self._stderr += b"\nthe process wrote what cannot be read"
        self._end()  # child processes could keep its standard error open
        await asyncio.gather(self._readers[1], return_exceptions=True)
        await self._process.wait()
        alone = len(self._pending) == 1
        if not self._ready.done():
            self._ready.set_result({"error": self._last_words(), "kind": "crash"})
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(_EndedError(self._last_words(), alone=alone))

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while part := await self._process.stderr.read(65_536):
            self._stderr = (self._stderr + part)[-_STDERR_BYTES:]

    def _last_words(self) -> str:
        status = self._process.returncode
        outcome = f"ended with exit status {status}"
        if status is not None and -status in set(signal.Signals):
            outcome = f"was ended by {signal.Signals(-status).name}"
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()[-_STDERR_LINES:]
        words = "\n".join(lines) or "it wrote nothing to standard error"
        return f"the process of {self._name} {outcome}:\n{words}"


def document_of(case: GoldenCase) -> dict[str, JSON]:
    """The case as a target receives it, without its checks and the expected value."""
    return {
        "id": case.id,
        "inputs": case.inputs,
        "expected": None,
        "tags": case.tags,
        "tier": case.tier,
        "split": case.split,
        "source": case.source,
        "licence": case.licence,
        "location": case.location,
        "note": case.note,
    }


def _with_fix(reply: Mapping[str, Any], name: str) -> str:
    words, kind = str(reply["error"]), reply["kind"]
    importable = (
        "correct the name of the function, or see that"
        f" `python -c 'import {name.partition(':')[0]}'` succeeds in the root of the project"
    )
    fixes = {
        "import": importable,
        "crash": importable,
        "outside": "name a function of this project; it may call the other one",
        "signature": "let it take the inputs of the case by name",
        "too-large": "return only what judges need",
        "closed": (
            "keep data of the application elsewhere; a target must not know the golden cases,"
            " recordings and baselines that measure it"
        ),
        "exception": f"correct {reply.get('place') or 'what the function calls'}",
        "malformed": (
            "return text, a mapping of JSON values, a dataclass, a pydantic model or a"
            " regauge.Completion"
        ),
    }
    if kind == "exception":
        place = f" at {reply['place']}" if reply.get("place") else ""
        words = f"{name} raised an error{place}:\n{words}"
    elif kind == "closed":
        words = f"{name} opens {words}, which only judges may read"
    elif kind in {"signature", "too-large", "malformed"}:
        words = f"{name}: {words}"
    return f"{words}\n  fix: {fixes[kind]}" if kind in fixes else words


@dataclass(slots=True, kw_only=True)
class PythonCaller:
    """Calls a function; if the process ends, only the call that ended it fails.

    Attributes:
        name: The callable, as `module:function`.
        root: The directory of the code.
        home: The root of the working project, whose entries in `sys.path` are moved to `root`.
        environ: The environment.
        width: Calls at once.
        import_s: The time limit of the import, in seconds.
        is_tool: Whether it is a tool of a model, which may return any JSON value.
        late: The files below the root that calls imported or read; filled by `aclose`.
    """

    name: str
    root: Path
    home: Path
    environ: Mapping[str, str]
    width: int
    import_s: float
    is_tool: bool = False
    late: set[str] = field(default_factory=set[str])
    _process: asyncio.Task[_Process] | None = None
    _open: list[_Process] = field(default_factory=list[_Process])
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def prepare(self) -> None:
        """Start a process, and have it import the callable."""
        with suppress(ProviderError):  # a call reports it
            await (await self._current_process()).files()

    async def files(self) -> list[str]:
        """The modules below the root that the import loads.

        Raises:
            ProviderError: The callable cannot be imported.
        """
        return await (await self._current_process()).files()

    async def call(self, case: GoldenCase, *, timeout_s: float) -> JSON:
        """The output for a case.

        Raises:
            ProviderError: There is none.
        """
        process = await self._current_process()
        try:
            return await process.call(case, timeout_s=timeout_s)
        except _EndedError as error:
            self._process = None
            if error.alone:
                raise _crash(error) from None
        except ProviderError as error:
            if error.kind == "timeout":
                self._process = None
                await process.retire()
            raise
        # Repeat the calls one by one, to find the one that ends the process.
        async with self._alone:
            single_process = await self._start()
            try:
                return await single_process.call(case, timeout_s=timeout_s)
            except _EndedError as error:
                raise _crash(error) from None
            finally:
                await single_process.close()

    async def aclose(self) -> None:
        """End all processes."""
        self._process = None
        self.late.update(*(process.late for process in self._open))
        await asyncio.gather(*(process.close() for process in self._open))
        self._open.clear()

    async def _current_process(self) -> _Process:
        if self._process is None:
            self._process = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._process)

    async def _start(self) -> _Process:
        process = await _Process.start(self)
        self._open.append(process)
        return process


def _crash(error: _EndedError) -> ProviderError:
    return ProviderError(f"{error}", fix="find out why the function ends its process", kind="crash")


def import_path(root: Path, home: Path) -> list[str]:
    """`sys.path` for code of the project in another directory.

    Args:
        root: The directory of the code.
        home: The root of the working project.
    """
    path: list[str] = []
    for entry in sys.path:
        directory = Path(entry or ".").resolve()
        if root != home and directory.is_relative_to(home):
            other = root / directory.relative_to(home)
            directory = other if other.exists() else directory
        path.append(str(directory))
    own_directories = [str(top) for top in (root, root / "src") if top.is_dir()]
    # Without an entry of the project, the root is first, as with `python -m`.
    return [*(entry for entry in own_directories if entry not in path), *path]


def _not_imported(name: str, import_s: float) -> ProviderError:
    fix = "move work out of the import of its module, or raise `deadline_s` of the target"
    return ProviderError(f"{name} was not imported within {import_s:g} s", fix=fix, kind="import")


def find_modules(target: PythonTarget, *, root: Path, environ: Mapping[str, str]) -> list[str]:
    """The modules below the root that the import of a callable loads; none if it fails.

    The import runs in another process.

    Raises:
        ProviderError: The import takes longer than the deadline of the target.
    """
    name = target.callable
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=root,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        setup = _setup(name, root, home=root)
        output, _ = process.communicate(setup, timeout=target.deadline_s)
        reply = json.loads(output or b"{}")
    except subprocess.TimeoutExpired:
        raise _not_imported(name, target.deadline_s) from None
    except ValueError:
        return []  # the first call reports it
    finally:
        end_group(process.pid)
        process.wait()
    files: list[str] = reply.get("files", [])
    return files


def _setup(name: str, root: Path, *, home: Path, width: int = 1, is_tool: bool = False) -> bytes:
    """The first line of input for a process."""
    setup = {
        "callable": name,
        "root": str(root),
        "home": str(home),
        "closed": _CLOSED,
        "path": import_path(root, home),
        "width": width,
        "tool": is_tool,
        "output_max": OUTPUT_MAX,
    }
    return json.dumps(setup).encode() + b"\n"
