"""Processes of `python -m MODULE` and of Python scripts that need not load first what all of them load.

Most of what a short command takes is to load Python modules. So one process per run of the tests
loads them, and what it forks becomes the command: with its own directory, environment, arguments
and streams, and an end like any other's. Run as a script, this file is the process that forks.

A command with `-n` has xdist's workers made in the same way: forks of what it was before pytest
ran in it. What few commands load is `loaded` by a process that forks for these alone.

It has also run commands once: patterns and templates are compiled, types and hooks inspected, and
instructions of prompts read, as in the second run of a process. What a command does before it has
loaded anything is no matter for this: how it answers signals and what it imports is tested with
processes that start from nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib
import inspect
import io
import itertools
import json
import os
import pickle
import pkgutil
import platform
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["KEPT", "Started", "run", "scripts", "start"]

# The variable with the folder that all workers of a run of the tests share.
KEPT = "KEPT_BY_FORKS"

# What regauge loads where it is needed, besides its own modules.
_LOADED_LATE = (
    "_pytest._argcomplete",
    "asyncio",
    "click",
    "concurrent.futures.thread",
    "encodings.idna",
    "encodings.utf_8_sig",
    "execnet",
    "faulthandler",
    "genai_prices.data",
    "httpcore2",
    "jinja2",
    "jsonschema",
    "numpy.fft",
    "numpy.ma",
    "numpy.random",
    "openai.resources.chat",
    "openai.resources.embeddings",
    "openai.resources.files",
    "pdb",
    "pydantic",
    "regauge.judges._deepeval._judge",
    "rich._emoji_codes",
    "rich.console",
    "rich.table",
    "sqlite3",
    "yaml",
)
_WORKERS = 2
# Simulations of the gate take and free megabytes thousands of times: glibc shall keep them.
_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": f"{1 << 26}", "MALLOC_TRIM_THRESHOLD_": f"{1 << 28}"}
_NUMBER = struct.Struct("!i")
# Of Linux on most processors; the number asks the kernel for huge pages at once.
_HUGE_PAGE = 1 << 21
_MADV_COLLAPSE = 25
# What runs once before the first command.
_PROJECT = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "regauge", "--import-mode=importlib"]\n',
    "prompts/triage.prompt.yml": (
        "name: Triage\nversion: 1.0.0\nmodel: sim:clerk-1\nmessages:\n"
        "  - role: system\n    content: 'Say how severe it is: critical or info. Answer with JSON.'\n"
        "  - role: user\n    content: '{{text}}'\n"
    ),
    "fixtures/golden/triage.jsonl": "".join(
        f'{{"id": "{number}", "inputs": {{"text": "critical: the disk is full"}}}}\n'
        for number in range(2)
    ),
    "evals/test_triage.py": (
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@golden('triage', judges=[min_chars(1)])\n"
        "def test_triage(result):\n    result.check()\n"
    ),
}
# Passes its streams, arguments, directory and environment to a fork, and ends as the fork does.
# It imports only what is part of the interpreter: to load `json` and `socket` takes longer than all
# the rest.
_SCRIPT = """\
#!{python} -IS
import _socket, posix, sys
from _json import encode_basestring_ascii as quoted

def text(name):
    return quoted(name.decode(sys.getfilesystemencoding(), "surrogateescape"))

connection = _socket.socket(_socket.AF_UNIX)
connection.connect({address!r})
arguments = ", ".join(map(quoted, sys.argv[1:]))
env = ", ".join(text(name) + ": " + text(value) for name, value in posix.environ.items())
request = (
    '{{"module": ' + quoted({script!r}) + ', "arguments": [' + arguments + '], "cwd": '
    + quoted(posix.getcwd()) + ', "env": {{' + env + '}}}}\\n'
)
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
connection.sendmsg([b"!"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.sendall(request.encode())
connection.recv({size}, _socket.MSG_WAITALL)
code = connection.recv({size}, _socket.MSG_WAITALL)
code = int.from_bytes(code, "big", signed=True)
if code < 0:
    posix.kill(posix.getpid(), -code)
sys.exit(code)
"""


def run(
    module: str,
    *arguments: str,
    cwd: Path,
    env: dict[str, str],
    given: str = "",
    timeout_s: float = 300,
    one_stream: bool = False,
    loaded: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE` with arguments, to its end.

    A module with a slash is a script, `-c` a program, which is the first argument. `given` is what it can read. With `one_stream`, what it writes to both streams is its output. `loaded` are further modules that the process that forks has loaded.
    """
    as_module = () if "/" in module or module == "-c" else ("-m",)
    command = [sys.executable, *as_module, module, *arguments]
    if _fixed_at_start(env) != _forking().fixed_at_start:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if one_stream else subprocess.PIPE,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(given.encode())
        streams[0].seek(0)
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": env}
        fds = [stream.fileno() for stream in streams]
        streams_of_it = [*fds[:2], fds[1 if one_stream else 2]]
        code = _forking(*loaded).run(request, streams_of_it, timeout_s)
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout_s)
        for stream in streams[1:]:
            stream.seek(0)
        said, complained = (stream.read().decode() for stream in streams[1:])
    return subprocess.CompletedProcess(command, code, said, complained)


class Started:
    """A process that runs, as `subprocess.Popen` shows it; its output is that of both streams."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdin: int | None,
        loaded: tuple[str, ...],
    ) -> None:
        self.returncode: int | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is
        self._connection = _forking(*loaded).another()
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": env}
        with Path(os.devnull).open("rb") as nothing:
            number = self._output.fileno()
            given = nothing.fileno() if stdin is None else stdin
            _send(self._connection, request, [given, number, number])
        self.pid = _number(self._connection)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._ended_within(0)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            # It may end in between.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would: it cannot tidy up."""
        self.send_signal(signal.SIGKILL)

    def printed(self) -> str:
        """What it has written so far."""
        number = self._output.fileno()
        # Not read from here on: it would write there.
        return os.pread(number, os.fstat(number).st_size, 0).decode()

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for the end; the output."""
        if self._ended_within(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        with self._output:
            return self.printed(), None

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            self.returncode = _number(self._connection)
            self._connection.close()
        return self.returncode


def start(
    module: str,
    *arguments: str,
    cwd: Path,
    env: dict[str, str],
    stdin: int | None = None,
    loaded: tuple[str, ...] = (),
) -> Started:
    """`python -m MODULE` with arguments, as `run` takes them, not waited for."""
    return Started(module, arguments, cwd=cwd, env=env, stdin=stdin, loaded=loaded)


@contextlib.contextmanager
def scripts(*paths: Path, loaded: tuple[str, ...] = ()) -> Iterator[Path]:
    """A folder for PATH: a shell that finds these scripts there gets forks that become them."""
    # Of their own: a command that waits for its end may itself run these scripts.
    connection = _forking(*loaded).another()
    forking = _Forking(connection)
    with (
        connection,
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as server,
    ):
        address = f"{folder}/socket"
        server.bind(address)
        server.listen()
        for path in paths:
            words = {"script": str(path), "address": address, "size": _NUMBER.size}
            script = Path(folder, path.name)
            script.write_text(_SCRIPT.format(python=sys.executable, **words), encoding="utf-8")
            script.chmod(0o755)
        accepting = threading.Thread(target=_fork_for_scripts, args=[server, forking], daemon=True)
        accepting.start()
        yield Path(folder)
        server.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _fork_for_scripts(server: socket.socket, forking: _Forking) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                forking.serve(connection)


def _fixed_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter reads of its environment once, when it starts."""
    applied = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    return {
        name: value
        for name, value in env.items()
        if name.startswith(("PYTHON", "LANG", "LC_")) and name not in applied
    }


class _Forking:
    """A process that forks, seen from the tests; it ends when its connection is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self.fixed_at_start = _fixed_at_start(os.environ)
        self._one_at_a_time = threading.Lock()
        self._socket = connection

    def run(self, request: dict[str, Any], streams: list[int], timeout_s: float) -> int | None:
        """The exit code of what was asked for, None if it did not end in time."""
        with self._one_at_a_time:
            _send(self._socket, request, streams)
            pid = _number(self._socket)
            ended = select.select([self._socket], [], [], timeout_s)[0]
            if not ended:
                os.kill(pid, signal.SIGKILL)
            code = _number(self._socket)
            return code if ended else None

    def another(self, *loaded: str) -> socket.socket:
        """A connection to another process that forks; it ends with the connection."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.serve(theirs, *loaded)
        return ours

    def serve(self, connection: socket.socket, *loaded: str) -> None:
        """Have another process fork for who asks by this connection, until it is closed.

        It has loaded these modules, too.
        """
        with self._one_at_a_time:
            _send(self._socket, {"loaded": loaded}, [connection.fileno()])


@functools.cache
def _forking(*loaded: str) -> _Forking:
    if loaded:
        connection = _forking().another(*loaded)
        atexit.register(connection.close)
        return _Forking(connection)
    ours, theirs = socket.socketpair()
    kept = tempfile.TemporaryDirectory()
    folder = os.environ.get(KEPT, kept.name)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), folder],
            # Not the directory of the first test, which waits until no process is left there.
            cwd=Path(__file__).parents[1],
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            | _ALLOCATION
            | {"OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()
        kept.cleanup()

    atexit.register(end)
    return _Forking(ours)


def _number(connection: socket.socket) -> int:
    said = connection.recv(_NUMBER.size, socket.MSG_WAITALL)
    assert said, "the process that forks has failed; it says why above"
    number: int = _NUMBER.unpack(said)[0]
    return number


def _load(folder: Path) -> None:
    """Load what commands load; what forks may share is kept in a folder."""
    from _pytest.assertion.rewrite import AssertionRewritingHook
    from _pytest.config import default_plugins

    import regauge

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    for name in _LOADED_LATE:
        importlib.import_module(name)
    for found in pkgutil.walk_packages(regauge.__path__, "regauge."):
        # What cannot be loaded fails where it is used, as it would without this. deepeval reads
        # and writes files of the directory that it is first loaded in.
        if not found.name.endswith("__main__") and "deepeval" not in found.name:
            with contextlib.suppress(Exception):
                importlib.import_module(found.name)
    # Every run looks for secrets in what it writes: their formats, read once.
    importlib.import_module("regauge.recordings").find_secrets(f"password {'x' * 40}")
    _compile_patterns()
    # To show where an error is, pytest finds the module of a line: the paths of all modules, once.
    inspect.getmodule(compile("", "", "exec"))
    _keep_distributions()
    _keep_names_of_plugins()
    # It would say of plugins that they were loaded too early to have their asserts rewritten.
    AssertionRewritingHook._warn_already_imported = _say_nothing  # type: ignore[method-assign] # of pytest
    _keep_lines(folder)
    _run_once()


def _run_once() -> None:
    """Run pytest and commands on small projects, and forget what depends on where and when a run is."""
    import pytest

    from regauge.providers import registry

    # pytest collects garbage at its end, among all that was loaded.
    gc.freeze()
    before = Path.cwd(), {**os.environ}, [*sys.path]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A run in a workflow would write the summary of the test that comes first.
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        del os.environ[name]
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # The SDK of OpenAI states it with each call; Python starts a program to find it out.
    platform.platform()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _PROJECT.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        os.chdir(folder)
        pytest.main(["evals", "--record=missing"])
        # What fails here fails where it is tested, as it would without this.
        with contextlib.suppress(Exception):
            _run_commands(Path(folder, "repository"))
        os.chdir(before[0])
    os.environ.clear()
    os.environ.update(before[1])
    sys.path[:] = before[2]
    # A command leaves its own, for a signal that arrives as it ends.
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for name in [name for name in sys.modules if name.partition(".")[0] in {"evals", "tests"}]:
        del sys.modules[name]
    registry.registered_providers.cache_clear()
    registry.load_provider.cache_clear()
    # Objects of the run that nobody needs would be frozen with the rest.
    gc.collect()


def _run_commands(root: Path) -> None:
    """Run commands on the small project of this directory, and on the prompt that most tests gate."""
    from regauge.cli import main

    def run(*words: str) -> None:
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main([*words])

    run("bump", "triage")
    run("lint")
    run("mutate", "triage")
    run("baseline", "update", "--trials=1")
    run("doctor", "--offline")
    run("runs", "list")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.gate_repo import NAME, PROMPT, REWORDED, GateRepo, label_definitions

    class Repository(GateRepo):
        def _run(self, _module: str, arguments: Iterable[str], _code: int | None) -> str:
            os.environ.clear()
            os.environ.update(self._environ)
            os.chdir(self.root)
            run(*arguments)
            return ""

    root.mkdir()
    repo = Repository(root)
    repo.branch("reworded")
    repo.release("minor", REWORDED)
    repo.gate(code=0)
    repo.branch("bare")
    repo.release("minor", (label_definitions(repo.read(PROMPT)), ""))
    repo.gate(code=1)
    repo.regauge("report", "latest", "-o", "report.html")
    repo.regauge("report", "latest", "-o", "report.md")
    repo.regauge("refine", NAME, "--proposers=rules")
    repo.regauge("log", NAME, "--runs")


def _use_huge_pages() -> None:
    """Have what was loaded in fewer pages: each fork copies a table of them, and its end frees it.

    Where the kernel has none to give, or does not know them, all stays as it was.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    advise = ctypes.CDLL(None).madvise
    for line in maps.read_text(encoding="utf-8").splitlines():
        addresses, access, *file = line.split(maxsplit=5)
        if access != "rw-p" or file[3:] not in ([], ["[heap]"]):
            continue
        begin, end = (int(address, 16) for address in addresses.split("-"))
        begin, end = -(-begin // _HUGE_PAGE) * _HUGE_PAGE, end // _HUGE_PAGE * _HUGE_PAGE
        for page in range(begin, end, _HUGE_PAGE):
            advise(ctypes.c_void_p(page), ctypes.c_size_t(_HUGE_PAGE), _MADV_COLLAPSE)


def _compile_patterns() -> None:
    """Compile the patterns that regauge compiles where it first needs them."""
    from regauge.lexicon import Lexicon

    modules = [module for name, module in sys.modules.items() if name.startswith("regauge.")]
    for lexicon in {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Lexicon)
    }.values():
        for name, entry in lexicon.entries().items():
            if isinstance(entry, str):
                # Lists of words and parts of patterns need not be patterns.
                with contextlib.suppress(re.error, KeyError):
                    lexicon.pattern(name)


def _keep_distributions() -> None:
    """Read what is installed once: `-p regauge` looks through all entry points, then for versions."""
    distributions = metadata.distributions
    kept = {path: [*distributions(path=[path])] for path in sys.path}
    for name in ("entry_points", "metadata"):
        _keep_property(name, {one._path for found in kept.values() for one in found})

    def kept_distributions(**context: Any) -> Iterable[metadata.Distribution]:
        if context:
            return distributions(**context)
        found = (kept.get(path) or distributions(path=[path]) for path in sys.path)
        return itertools.chain.from_iterable(found)

    metadata.distributions = kept_distributions


def _keep_property(name: str, paths: set[Path]) -> None:
    read = getattr(metadata.PathDistribution, name).fget
    kept: dict[Path, Any] = {}

    def value(distribution: metadata.PathDistribution) -> Any:
        path = distribution._path
        if path in kept:
            return kept[path]
        found = read(distribution)
        if path in paths:
            kept[path] = found
        return found

    setattr(metadata.PathDistribution, name, property(value))


def _keep_names_of_plugins() -> None:
    """Have pytest look for hooks and fixtures only where its own plugins and regauge's have some.

    In each run it inspects all names of its plugins, which is a third of a short one.
    """
    from _pytest import fixtures
    from _pytest.config import default_plugins
    from pluggy import _manager

    modules = {f"_pytest.{name}" for name in default_plugins} | {"regauge.pytest_plugin"}
    fixture = fixtures.FixtureFunctionDefinition

    def is_plugin(value: Any) -> bool:
        if isinstance(value, types.ModuleType):
            return value.__name__ in modules
        return type(value).__module__.startswith("_pytest.")

    @functools.cache
    def fixtures_of(holder: Any) -> list[str]:
        return [name for name in dir(holder) if type(getattr(holder, name, None)) is fixture]

    def names_of_fixtures(value: Any) -> list[str]:
        if not is_plugin(value):
            return dir(value)
        # It reads what an object has of its class.
        return fixtures_of(value if isinstance(value, types.ModuleType) else type(value))

    def names_of_hooks(value: Any) -> list[str]:
        names = dir(value)
        return [name for name in names if name.startswith("pytest_")] if is_plugin(value) else names

    fixtures.dir = names_of_fixtures  # type: ignore[attr-defined] # a builtin
    _manager.dir = names_of_hooks  # type: ignore[attr-defined]


def _keep_lines(folder: Path) -> None:
    """Have a gate read the line that it simulates where another fork has simulated the same.

    Its arguments determine it, with the seed among them. It takes a third of a short gate, and
    most gates of the tests have the arguments of one before.
    """
    from regauge.gate import power

    simulate = power.sensitivity_line

    def line(*arguments: Any, **options: Any) -> Any:
        path = folder / hashlib.sha256(pickle.dumps((arguments, options))).hexdigest()
        with contextlib.suppress(OSError):
            return pickle.loads(path.read_bytes())
        simulated = simulate(*arguments, **options)
        # Where a test leaves neither files nor space, nothing is kept.
        with contextlib.suppress(OSError):
            own = path.with_suffix(f".{os.getpid()}")
            own.write_bytes(pickle.dumps(simulated))
            own.replace(path)
        return simulated

    power.sensitivity_line = line  # type: ignore[assignment]


def _say_nothing(_hook: object, _name: str) -> None: ...


def _send(connection: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    socket.send_fds(connection, [b"!"], streams)
    connection.sendall(json.dumps(request).encode() + b"\n")


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What to become; where nobody can ask any more, the process ends."""
    flag, streams, _, _ = socket.recv_fds(connection, 1, 3)
    if not flag:
        os._exit(0)
    words = b""
    while not words.endswith(b"\n"):
        # The next request may have arrived, with streams of its own.
        arrived = connection.recv(65536, socket.MSG_PEEK)
        words += connection.recv(arrived.find(b"\n") + 1 or len(arrived))
    return json.loads(words), streams


def _next(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request, wait for each child; returns in the child only."""
    while True:
        request, streams = _received(connection)
        if "module" not in request:
            # Nobody waits for it: what it is asked for ends when it ends.
            if not os.fork():
                connection.close()
                for name in request["loaded"]:
                    importlib.import_module(name)
                gc.freeze()
                return _next(socket.socket(fileno=streams[0]))
            os.close(streams[0])
            continue
        pid = os.fork()
        if not pid:
            return request, streams
        for stream in streams:
            os.close(stream)
        connection.sendall(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any], streams: list[int], codes: list[int]) -> None:
    """Be what was asked for; an exit code is left in `codes`."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # As in a shell, whatever the parent ignores.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    module = request["module"]
    first = str(Path(module).parent) if "/" in module else request["cwd"]
    sys.path[0:1] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    sys.argv = [module, *request["arguments"]]
    if any(word.startswith("-n") for word in request["arguments"]):
        worker = _fork_workers()
        if worker is not None:
            _become(*worker, codes)
            return
    try:
        if module == "-c":
            program = sys.argv.pop(1)
            exec(program, {"__name__": "__main__"})
        elif "/" in module:
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        codes.append(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise


def _fork_workers() -> tuple[dict[str, Any], list[int]] | None:
    """Make the processes that xdist's workers shall be; returns in each what it is to become."""
    waiting: dict[int, socket.socket] = {}
    for _ in range(_WORKERS):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            for connection in (ours, *waiting.values()):
                connection.close()
            with theirs:
                return _received(theirs)
        theirs.close()
        waiting[pid] = ours
    _use_for_workers(waiting)
    return None


def _use_for_workers(waiting: dict[int, socket.socket]) -> None:
    """Have execnet take a process that waits for each gateway, while there is one."""
    from execnet import gateway_base, gateway_io

    from_nothing = gateway_io.Popen2IOMaster

    class Forked(gateway_base.Popen2IO):
        def __init__(self, code: str, execmodel: Any) -> None:
            (given, stdin), (stdout, said) = os.pipe(), os.pipe()
            request = {"module": "-c", "arguments": [code], "cwd": str(Path.cwd())}
            self._pid, connection = waiting.popitem()
            with connection:
                _send(connection, request | {"env": {**os.environ}}, [given, said, 2])
            os.close(given)
            os.close(said)
            super().__init__(os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb"), execmodel)

        def wait(self) -> int | None:
            return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

        def kill(self) -> None:
            os.kill(self._pid, signal.SIGKILL)

    def gateway(args: list[str], execmodel: Any) -> Any:
        return Forked(args[-1], execmodel) if waiting else from_nothing(args, execmodel)

    gateway_io.Popen2IOMaster = gateway  # type: ignore[assignment, misc]


def _stop(codes: list[int]) -> None:
    """End here: to give back every object of the modules would take as long as all the rest."""
    for code in codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    left: list[int] = []
    # The first that is registered is called last, when all that an end has to do is done.
    atexit.register(_stop, left)
    _load(Path(sys.argv[2]))
    gc.freeze()
    _use_huge_pages()
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        asked = _next(listening)
    _become(*asked, left)
