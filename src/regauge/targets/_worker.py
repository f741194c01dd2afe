"""Calls a Python function in a process of its own. Reads and writes lines of JSON.

It is started as a script, so that it needs no regauge: a base branch may have another one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import difflib
import enum
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Generator, Mapping
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

_TRACEBACK_LINES = 14
# Frames of these are of no use to a reader.
_NOT_SHOWN = (
    __file__,
    futures.__file__.removesuffix("__init__.py"),
    importlib.__file__,
    "<frozen importlib",
)


class _CallError(Exception):
    """A call without an output, with the kind of its cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _load(name: str, root: Path) -> Any:
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except BaseException as error:
        raise _CallError("import", f"{name} cannot be imported:\n{_last_lines(error)}") from error
    file = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", [])), None)
    if file is not None and root not in Path(file).resolve().parents:
        raise _CallError("outside", f"{name} was imported from {file}, which is not below {root}")
    for part in path.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise _CallError("import", f"{module_name} has no {path!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise _CallError("import", f"{name} is not callable: {type(found).__name__}")
    return found


def _modules_below(root: Path) -> list[str]:
    """The files of the modules that are loaded and are part of the project."""
    found: set[str] = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if root in path.parents:
            inside = path.relative_to(root)
            hidden = any(part.startswith(".") for part in inside.parts)
            if not hidden and "site-packages" not in inside.parts:
                found.add(inside.as_posix())
    return sorted(found)


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
            f"the function takes {signature}, and the case has the inputs"
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


def _plain(value: Any) -> Any:
    """A value that JSON does not have, as one that it has."""
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, Any]", value)}
    if not isinstance(value, type):
        if callable(dump := getattr(value, "model_dump", None)):  # pydantic
            return dump(mode="json")
        if dataclasses.is_dataclass(value):
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _document(output: Any) -> Any:
    """The output as JSON: a text, a mapping or object, or what a `Completion` holds."""
    if isinstance(output, str):
        return output
    if type(output).__name__ == "Completion" and hasattr(output, "to_json"):
        return output.to_json()
    with suppress(TypeError):
        document = _plain(output)
        if isinstance(document, Mapping):
            return cast("Mapping[str, Any]", document)
    raise _CallError(
        "malformed",
        f"the function returned {type(output).__name__}, which is neither text, a mapping nor a"
        " regauge.Completion",
    )


def _tool_result(output: Any) -> dict[str, str]:
    """The result of a tool as the text that a model receives: any other JSON value as JSON."""
    if isinstance(output, str):
        return {"text": output}
    try:
        return {"text": json.dumps(output, ensure_ascii=False, allow_nan=False, default=_plain)}
    except (TypeError, ValueError, RecursionError) as error:
        raise _CallError(
            "malformed", f"the result of the tool cannot be written as JSON: {error}"
        ) from None


def _called(function: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The output of a function; the texts that a generator streams are joined in its thread."""
    output = function(*positional, **named)
    return _joined([*output]) if isinstance(output, Generator) else output


def _joined(chunks: list[Any]) -> str:
    for chunk in chunks:
        if not isinstance(chunk, str):
            raise _CallError(
                "malformed", f"the function streams {type(chunk).__name__}, which is no text"
            )
    return "".join(chunks)


def _last_lines(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_NOT_SHOWN):
        frames = frames.tb_next
    lines = "".join(traceback.format_exception(type(error), error, frames)).splitlines()
    return "\n".join(lines[-_TRACEBACK_LINES:])


class _Worker:
    def __init__(self, setup: Mapping[str, Any], out: IO[bytes]) -> None:
        self._out = out
        self._output_max: int = setup["output_max"]
        self._tool: bool = setup["tool"]
        self._threads = futures.ThreadPoolExecutor(max_workers=setup["width"])
        self._function: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    def load(self, name: str, root: Path) -> None:
        try:
            self._function = _load(name, root)
        except _CallError as error:
            self._write({"error": str(error), "kind": error.kind})
        else:
            self._write({"files": _modules_below(root)})

    def start(self, call: Mapping[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._call(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, call: Mapping[str, Any]) -> None:
        reply: dict[str, Any] = {"id": call["id"]}
        try:
            output = await self._output(call["case"])
            reply["output"] = _tool_result(output) if self._tool else _document(output)
            line = self._line(reply)
        except _CallError as error:
            if self._tool and error.kind == "signature":
                # An application reports wrong arguments to the model, which may correct them.
                content = json.dumps({"error": str(error)})
                self._write({"id": call["id"], "output": {"text": content}})
                return
            line = self._line({"id": call["id"], "error": str(error), "kind": error.kind})
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, as `sys.exit` does
            line = self._line({"id": call["id"], "error": _last_lines(error), "kind": "exception"})
        self._out.write(line)
        self._out.flush()

    async def _output(self, case: Mapping[str, Any]) -> Any:
        positional, named = _arguments(self._function, case)
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*positional, **named)
        loop = asyncio.get_running_loop()
        output = await loop.run_in_executor(
            self._threads, lambda: _called(self._function, positional, named)
        )
        if inspect.isawaitable(output):
            output = await output
        if isinstance(output, AsyncIterator):
            stream = cast("AsyncIterator[object]", output)
            return _joined([chunk async for chunk in stream])
        return output

    def _line(self, reply: Mapping[str, Any]) -> bytes:
        try:
            line = json.dumps(reply, allow_nan=False, default=_plain).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise _CallError(
                "malformed", f"the output cannot be written as JSON: {error}"
            ) from None
        if len(line) > self._output_max:
            raise _CallError("too-large", f"the output is larger than {self._output_max:,} bytes")
        return line + b"\n"

    def _write(self, reply: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(reply).encode() + b"\n")
        self._out.flush()


class _LoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Gives a thread an event loop when its code asks for one, as the main thread has."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return super().get_event_loop()
        except RuntimeError:
            loop = self.new_event_loop()
            self.set_event_loop(loop)
            return loop


async def _serve(worker: _Worker, lines: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in lines:
            loop.call_soon_threadsafe(worker.start, json.loads(line))
        # The parent is gone or needs nothing more; threads and programs that still run end here.
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    """Take the streams over, load the function, and call it for each line."""
    lines = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a path would load more
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what the function prints is no output
    setup = json.loads(lines.readline())
    sys.path[:] = setup["path"]
    if sys.version_info < (3, 14):  # from then on the main thread has none, either
        asyncio.set_event_loop_policy(_LoopPolicy())  # pyright: ignore[reportDeprecated] - before 3.14
    worker = _Worker(setup, out)
    worker.load(setup["callable"], Path(setup["root"]).resolve())
    asyncio.run(_serve(worker, lines))


if __name__ == "__main__":
    main()
