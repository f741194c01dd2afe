"""The process that calls a Python function: reads and writes lines of JSON.

It is started as a script without regauge, of which a base branch may have another version.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import enum
import errno
import importlib
import inspect
import json
import os
import queue
import re
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import asyncio

_TRACEBACK_LINES = 14
# Files whose frames are removed from tracebacks.
_NOT_SHOWN = (__file__, importlib.__file__, "<frozen importlib")


class _CallError(Exception):
    """A failed call, with the kind of its cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _load(name: str, root: Path) -> Any:
    module_name, _, path = name.partition(":")
    try:
        module: Any = importlib.import_module(module_name)
    except BaseException as error:
        raise _CallError("import", f"{name} cannot be imported:\n{_last_lines(error)}") from error
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), None)
    if file is not None and root not in Path(file).resolve().parents:
        raise _CallError("outside", f"{name} was imported from {file}, which is not below {root}")
    for part in path.split("."):
        if not hasattr(module, part):
            near = difflib.get_close_matches(part, dir(module), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise _CallError("import", f"{module_name} has no {path!r}{hint}")
        module = getattr(module, part)
    if not callable(module):
        raise _CallError("import", f"{name} is not callable: {type(module).__name__}")
    return module


def _project_files(root: Path, files: Iterable[str]) -> list[str]:
    """The files of the project among `files`, relative to its root."""
    names: set[str] = set()
    for file in files:
        path = Path(file).resolve()
        if root in path.parents:
            inside = path.relative_to(root)
            hidden = any(part.startswith(".") for part in inside.parts)
            if not hidden and "site-packages" not in inside.parts:
                names.add(inside.as_posix())
    return sorted(names)


def _modules_below(root: Path) -> list[str]:
    """The files of loaded modules of the project."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return _project_files(root, (file for file in files if file and file.endswith(".py")))


# What separates paths in the arguments of a program, or in the address of a database.
_BETWEEN_PATHS = re.compile(r"[\s'\"\[\](),:;|<>&=?]+")
# Events of programs that code starts, which are not watched themselves.
_PROGRAM_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})


class _ReadFiles:
    """The files that Python code opens for reading, except code and settings.

    What only judges may read stays closed: code that tries to open it, or names it to a program,
    gets an error, and no output of the process counts after that.

    Args:
        root: The project's root, which is the working directory.
        closed: The directories that stay closed, relative to `root` and to `home`.
        home: The root of the working project.

    Attributes:
        paths: The paths, absolute or relative to the root; they may not exist.
        denied: The first path that was denied; empty without any.
    """

    def __init__(self, root: Path, *, closed: Iterable[str], home: Path) -> None:
        self._prefix = f"{root}{os.sep}"
        self._closed_prefixes = tuple(
            f"{top.resolve() / directory}{os.sep}" for top in (root, home) for directory in closed
        )
        self.paths: set[str] = set()
        self.denied = ""
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, str | bytes | os.PathLike):
                return
            name = os.fsdecode(cast("str | bytes", path))
            if name.endswith((".py", ".pyc", "pyproject.toml")):
                return
            self._check(name)
            inside = name.startswith(self._prefix) or not os.path.isabs(name)  # noqa: PTH117 - faster
            if inside and not flags & (os.O_WRONLY | os.O_RDWR):
                self.paths.add(name)
        elif event == "sqlite3.connect":
            self._check(*_BETWEEN_PATHS.split(os.fsdecode(arguments[0])))
        elif event in _PROGRAM_EVENTS:
            self._check(*_BETWEEN_PATHS.split(str(arguments[:2])))

    def _check(self, *names: str) -> None:
        for name in names:
            if os.path.realpath(name).startswith(self._closed_prefixes):
                self.denied = self.denied or name.removeprefix(self._prefix)
                raise PermissionError(errno.EACCES, "only judges may read it", name)


def _arguments(function: Any, case: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    inputs = case["inputs"]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return (), inputs
    if list(signature.parameters) == ["case"] and "case" not in inputs:
        return (_golden_case(case),), {}
    try:
        signature.bind(**inputs)
    except TypeError as error:
        raise _CallError(
            "signature",
            f"the function takes {signature}, and the inputs are"
            f" {', '.join(inputs) or '(none)'}: {error}",
        ) from error
    return (), inputs


def _golden_case(case: Mapping[str, Any]) -> Any:
    try:
        from regauge.datasets import GoldenCase
    except ImportError:
        return SimpleNamespace(**case)
    fields: dict[str, Any] = {**case, "tags": tuple(case["tags"])}
    return GoldenCase(**fields)


def _to_json(value: Any) -> Any:
    """Convert a value to a type that JSON has."""
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, Any]", value)}
    if not isinstance(value, type):
        if callable(dump := getattr(value, "model_dump", None)):  # pydantic
            return dump(mode="json")
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _document(output: Any) -> Any:
    """The output as JSON: a text, a mapping or object, or the parts of a `Completion`."""
    if isinstance(output, str):
        return output
    if type(output).__name__ == "Completion" and hasattr(output, "to_json"):
        return output.to_json()
    with suppress(TypeError):
        document = _to_json(output)
        if isinstance(document, Mapping):
            return cast("Mapping[str, Any]", document)
    raise _CallError(
        "malformed",
        f"the function returned {type(output).__name__}, which is neither text, a mapping nor a"
        " regauge.Completion",
    )


def _tool_result(output: Any) -> dict[str, str]:
    """The result of a tool as text for a model; other values than text as JSON."""
    if isinstance(output, str):
        return {"text": output}
    try:
        return {"text": json.dumps(output, ensure_ascii=False, allow_nan=False, default=_to_json)}
    except (TypeError, ValueError, RecursionError) as error:
        raise _CallError(
            "malformed", f"the result of the tool cannot be written as JSON: {error}"
        ) from None


def _call_function(function: Any, positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Call a function; the texts of a generator are joined in its thread."""
    output = function(*positional, **keywords)
    return _join([*output]) if isinstance(output, Generator) else output


def _join(chunks: list[Any]) -> str:
    for chunk in chunks:
        if not isinstance(chunk, str):
            raise _CallError(
                "malformed", f"the function streams {type(chunk).__name__}, which is not text"
            )
    return "".join(chunks)


def _last_lines(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_NOT_SHOWN):
        frames = frames.tb_next
    lines = "".join(traceback.format_exception(type(error), error, frames)).splitlines()
    return "\n".join(lines[-_TRACEBACK_LINES:])


class _FunctionWorker:
    """Calls the function in threads; awaitables run on the event loop of the initial thread.

    Args:
        setup: The first line of input, decoded.
        out: The stream of replies.
    """

    def __init__(self, setup: Mapping[str, Any], out: IO[bytes]) -> None:
        self._out = out
        self._out_lock = threading.Lock()
        self._output_max: int = setup["output_max"]
        self._tool: bool = setup["tool"]
        self._width: int = setup["width"]
        self._function: Any = None
        self._root = Path(setup["root"]).resolve()
        self._files: list[str] = []
        self._read = _ReadFiles(self._root, closed=setup["closed"], home=Path(setup["home"]))
        self._reported_counts = (0, 0)
        self._calls: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looping = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def load(self, name: str) -> None:
        """Import the function, and reply with the modules that it loads."""
        try:
            self._function = _load(name, self._root)
            self._check_closed()
        except _CallError as error:
            self._write(self._error_of(error))
        else:
            self._files = _modules_below(self._root)
            self._reported_counts = (len(sys.modules), 0)
            self._write({"files": self._files})

    def read(self, lines: IO[bytes]) -> None:
        """Start the calls of the parent, and end the process with the parent."""
        for line in lines:
            self._calls.put(json.loads(line))
            if not self._idle.acquire(blocking=False) and self._threads < self._width:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()
        # The parent ended or closed its pipe: end all threads and child processes.
        if sys.platform == "win32":
            os._exit(1)  # there are no groups
        os.killpg(0, signal.SIGKILL)

    def wait(self) -> None:
        """Run the event loop for awaitables in this thread."""
        import asyncio

        async def loop() -> None:
            self._loop = asyncio.get_running_loop()
            self._looping.set()
            await asyncio.Event().wait()

        asyncio.run(loop())

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            self._call(call["id"], call["case"])
            self._idle.release()

    def _call(self, number: int, case: Mapping[str, Any]) -> None:
        try:
            positional, keywords = _arguments(self._function, case)
            output: Any = _call_function(self._function, positional, keywords)
            if inspect.isawaitable(output) or isinstance(output, AsyncIterator):
                self._looping.wait()
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._await, number, cast("object", output))
                return
            self._reply(number, output)
        except BaseException as error:  # noqa: BLE001 - the parent receives it, even `SystemExit`
            self._refuse(number, error)

    def _await(self, number: int, output: Any) -> None:
        async def reply() -> None:
            try:
                value = await output if inspect.isawaitable(output) else output
                if isinstance(value, AsyncIterator):
                    stream = cast("AsyncIterator[object]", value)
                    value = _join([chunk async for chunk in stream])
                self._reply(number, value)
            except BaseException as error:  # noqa: BLE001 - as above
                self._refuse(number, error)

        assert self._loop is not None
        task = self._loop.create_task(reply())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _check_closed(self) -> None:
        if self._read.denied:
            raise _CallError("closed", self._read.denied)

    def _error_of(self, error: _CallError) -> Mapping[str, str]:
        """The reply for a failed call; a denied file is its cause, whatever the code made of it."""
        if self._read.denied:
            return {"error": self._read.denied, "kind": "closed"}
        return {"error": str(error), "kind": error.kind}

    def _place_of(self, error: BaseException) -> str:
        """The innermost line of the project that an error comes from; empty without one."""
        places = [
            f"{path}:{line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            for path in _project_files(self._root, [frame.f_code.co_filename])
        ]
        return places[-1] if places else ""

    def _reply(self, number: int, output: Any) -> None:
        self._check_closed()
        document = _tool_result(output) if self._tool else _document(output)
        reply: dict[str, Any] = {"id": number, "output": document}
        counts = len(sys.modules), len(self._read.paths)
        if counts != self._reported_counts:
            self._reported_counts = counts
            late = _modules_below(self._root)
            late += _project_files(self._root, filter(os.path.isfile, [*self._read.paths]))
            reply["late"] = [file for file in late if file not in self._files]
        self._send(self._line(reply))

    def _refuse(self, number: int, error: BaseException) -> None:
        place = ""
        if not isinstance(error, _CallError):
            place = self._place_of(error)
            error = _CallError("exception", _last_lines(error))
        reply = {**self._error_of(error), "place": place}
        if self._tool and reply["kind"] == "signature":
            # An application reports wrong arguments to the model, which may correct them.
            self._write({"id": number, "output": {"text": json.dumps({"error": str(error)})}})
        else:
            self._write({"id": number, **reply})

    def _line(self, reply: Mapping[str, Any]) -> bytes:
        try:
            line = json.dumps(reply, allow_nan=False, default=_to_json).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise _CallError(
                "malformed", f"the output cannot be written as JSON: {error}"
            ) from None
        if len(line) > self._output_max:
            raise _CallError("too-large", f"the output is larger than {self._output_max:,} bytes")
        return line + b"\n"

    def _write(self, reply: Mapping[str, Any]) -> None:
        self._send(json.dumps(reply).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        with self._out_lock:
            self._out.write(line)
            self._out.flush()


def _give_threads_loops() -> None:
    """Give each thread an event loop when its code requests one."""
    import asyncio

    if sys.version_info >= (3, 14):  # which has no such loops for any thread
        return

    class LoopPolicy(asyncio.DefaultEventLoopPolicy):
        def get_event_loop(self) -> asyncio.AbstractEventLoop:
            try:
                return super().get_event_loop()
            except RuntimeError:
                loop = self.new_event_loop()
                self.set_event_loop(loop)
                return loop

    asyncio.set_event_loop_policy(LoopPolicy())  # pyright: ignore[reportDeprecated] - before 3.14


def main() -> None:
    """Take the streams over, load the function, and call it for each line."""
    lines = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as null_device:  # noqa: PTH123 - a path would load more
        os.dup2(null_device.fileno(), 0)
    os.dup2(2, 1)  # prints of the function go to standard error
    setup = json.loads(lines.readline())
    sys.path[:] = setup["path"]
    worker = _FunctionWorker(setup, out)
    worker.load(setup["callable"])
    _give_threads_loops()  # before the first call
    threading.Thread(target=worker.read, args=(lines,), daemon=True).start()
    worker.wait()


if __name__ == "__main__":
    main()
