"""Small projects with evals in them, for tests that run pytest in a process of its own."""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

# pytester forgets the modules that a test imports; these ones can be loaded but once.
import numpy.fft  # noqa: F401
import pandas.core.arrays.arrow.extension_types  # noqa: F401
import pytest
from _pytest.pytester import RunResult
from hypothesis import HealthCheck, settings

from tests import processes
from tests.compiled import compile_tests
from tests.fakes import Endpoint
from tests.parts import EvalParts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from _pytest.pytester import Pytester

pytest_plugins = ["pytester"]
# A failure in what tests share shows what differs, as one in a test does.
pytest.register_assert_rewrite(*(f"tests.{name}" for name in ("gate_repo", "place", "transcripts")))
# Test files of suites that are imported.
collect_ignore = ["data"]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")
# In `make test` the examples are the same each time, and more of them find little more.
settings.register_profile("ci", settings.get_profile("ci"), max_examples=60)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[object]) -> None:
    """Compile the tests once before the workers start, and give them a folder to share."""
    kept = tempfile.TemporaryDirectory()
    config.add_cleanup(kept.cleanup)
    os.environ[processes.KEPT] = kept.name
    compile_tests(Path(__file__).parent, config, processes=len(specs))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage once, after ten thousand tests are collected, and never among them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


# A parent that runs in the background has its children ignore Ctrl-C.
_PYTEST = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import pytest
sys.exit(pytest.console_main())
"""
SYSTEM = "Say how severe the alert is. Answer with JSON: the keys severity and reason."
PRICES = 'prices = { "clerk" = { input_per_million = 1.0, output_per_million = 2.0 } }\n'
EVAL = """\
from regauge import golden
from regauge.judges import min_chars

def agrees(output, case):
    return case.expected["ok"]

@golden("triage", judges=[min_chars(1), agrees])
def test_triage(result):
    result.check()
"""


def case(number: int, *, ok: bool = True, **more: Any) -> dict[str, Any]:
    """A golden case that the judge `agrees` passes if it is `ok`, whatever the answer is."""
    text = f"critical: disk {number} is full"
    return {"id": f"disk-{number:03}", "inputs": {"text": text}, "expected": {"ok": ok}} | more


class EvalProject:
    """A project in a directory of its own.

    Args:
        pytester: Where it is.
        base_url: Of the provider `local`; without one the simulated model answers.

    Attributes:
        loaded: Modules that its commands need not load, besides those of all commands.
    """

    case = staticmethod(case)
    loaded: tuple[str, ...] = ()

    def __init__(self, pytester: Pytester, *, base_url: str | None = None) -> None:
        self.root = pytester.path
        self._runs = 0
        self._base_url = base_url or "http://127.0.0.1:9/v1"
        self._model = "local:clerk" if base_url else "sim:clerk-1"
        self.settings()
        self.prompt()
        self.golden([case(number) for number in range(5)])
        self.eval(EVAL)

    def use(self, base_url: str) -> None:
        """Ask another server from now on."""
        self._base_url = base_url
        self.settings()

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def settings(self, regauge: str = "", *, provider: str = PRICES, pytest: str = "") -> None:
        """pyproject.toml; `regauge` and `provider` are lines of the tables of that name."""
        self.write(
            "pyproject.toml",
            "[tool.pytest.ini_options]\n"
            'addopts = ["-p", "regauge", "--import-mode=importlib"]\n'
            f'filterwarnings = ["error"]\n{pytest}\n'
            f"[tool.regauge]\n{regauge}\n"
            f'[tool.regauge.providers.local]\nbase_url = "{self._base_url}"\n{provider}',
        )

    def prompt(
        self,
        *,
        name: str = "triage",
        model: str | None = None,
        system: str = SYSTEM,
        user: str = "{{text}}",
        version: str = "1.0.0",
    ) -> Path:
        return self.write(
            f"prompts/{name}.prompt.yml",
            f"name: Triage\nversion: {version}\nmodel: {model or self._model}\nmessages:\n"
            f"  - role: system\n    content: '{system}'\n"
            f"  - role: user\n    content: '{user}'\n",
        )

    def golden(self, cases: Iterable[Any], *, name: str = "triage") -> Path:
        lines = "".join(f"{json.dumps(one)}\n" for one in cases)
        return self.write(f"fixtures/golden/{name}.jsonl", lines)

    def eval(self, text: str, *, name: str = "test_triage") -> Path:
        return self.write(f"evals/{name}.py", text)

    def judged_by(
        self,
        judges: str,
        *,
        more: str = "",
        options: str = "",
        body: str = "result.check()",
        name: str = "test_triage",
    ) -> Path:
        """An eval of `triage` with the judges given; `more` stands above it."""
        return self.eval(
            "from regauge import Verdict, golden\nfrom regauge.judges import *\n"
            f"{more}\n\n@golden('triage', judges=[{judges}]{options})\n"
            f"def test_triage(result):\n    {body}\n",
            name=name,
        )

    def run(self, *arguments: str) -> RunResult:
        """`pytest evals` with arguments, to its end."""
        return self.pytest("evals", *arguments)

    def pytest(self, *arguments: str) -> RunResult:
        """`pytest` with arguments, to its end."""
        parallel = ["-p", "xdist"] if any(word.startswith("-n") for word in arguments) else []
        self._runs += 1
        own = f"--basetemp={self.root / f'runpytest-{self._runs}'}"
        begun = time.perf_counter()
        done = processes.run(
            "pytest",
            *parallel,
            own,
            *arguments,
            cwd=Path.cwd(),
            env={**os.environ},
            loaded=self.loaded,
        )
        took_s = time.perf_counter() - begun
        sys.stdout.write(done.stdout + done.stderr)
        streams = done.stdout.splitlines(), done.stderr.splitlines()
        return RunResult(done.returncode, *streams, took_s)

    def start(self, *arguments: str) -> processes.Started:
        """`pytest evals` with arguments, not waited for."""
        words = ("pytest", "evals", *arguments)
        env = {**os.environ}
        return processes.start(*words, cwd=self.root, env=env, loaded=self.loaded)

    def start_from_nothing(self, *arguments: str) -> subprocess.Popen[str]:
        """The same in a process that has loaded nothing."""
        return subprocess.Popen(
            [sys.executable, "-c", _PYTEST, "evals", *arguments],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_end_of_workers(self, wait_until: Callable[..., None]) -> None:
        """Wait until no process works in this project any more."""

        def working() -> bool:
            for link in Path("/proc").glob("[0-9]*/cwd"):
                with suppress(OSError):
                    if link.readlink() == self.root and int(link.parent.name) != os.getpid():
                        return True
            return False

        wait_until(lambda: not working(), every_s=0.1)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`regauge` with arguments, to its end."""
        env = {**os.environ}
        return processes.run("regauge", *arguments, cwd=self.root, env=env, loaded=self.loaded)

    def start_command(self, *arguments: str) -> processes.Started:
        """`regauge` with arguments, not waited for."""
        env = {**os.environ}
        return processes.start("regauge", *arguments, cwd=self.root, env=env, loaded=self.loaded)

    def recordings(self, name: str = "triage") -> list[dict[str, Any]]:
        path = self.root / "fixtures" / "recordings" / f"{name}.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def records(self) -> list[dict[str, Any]]:
        """The run records, the oldest first."""
        # Ids of runs of the same second are in no order.
        paths = sorted(
            self.root.glob(".regauge/runs/*/run.json"), key=lambda path: path.stat().st_mtime_ns
        )
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def rows(self) -> list[dict[str, Any]]:
        """The trials of the only run, or of the latest one."""
        paths = self.root.glob(".regauge/runs/*/trials.jsonl")
        path = max(paths, key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def plain(self, text: str) -> str:
        """`text` without what differs from run to run: paths, times, run ids, ports."""
        text = text.replace(str(self.root.resolve()), "ROOT").replace(str(self.root), "ROOT")
        text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        text = re.sub(r"in \d+\.\d+s", "in TIME", text)
        text = re.sub(r"\([0-9a-f]{12}\)", "(DIGEST)", text)
        return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)

    def complaint(self, result: RunResult) -> str:
        """What a run says went wrong: its output without the frame that pytest puts around."""
        text = self.plain(result.stdout.str() + result.stderr.str())
        frame = re.compile(
            r"=|!|platform |rootdir: |configfile: |plugins: |collect|evals/.*%\]"
            r"|prompt  |triage  |recorded: |run RUN"
        )
        kept = [re.sub(r"^_+ | _+$", "", line) for line in text.splitlines()]
        return "\n".join(line for line in kept if line and not frame.match(line))

    @staticmethod
    def not_collected(result: RunResult) -> dict[str, str]:
        """What a run says of each file of evals that it cannot collect, by the file's name."""
        heading = re.compile(r"^_+ ERROR collecting evals/(\S+)\.py _+$", re.MULTILINE)
        _, *parts = heading.split(result.stdout.str())
        return dict(zip(parts[::2], parts[1::2], strict=True))


def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment of the outer run decide nothing."""
    for name in tuple(os.environ):
        if name in {"CI", "PYTEST_ADDOPTS", "COLUMNS"} or name.startswith(
            ("PYTEST_XDIST", "OPENAI_", "COV_CORE", "GITHUB_", "REGAUGE_")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    # The plugins of this repository's tests take seconds to load, in every process.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # The machine has few cores; a thread per core for each small process only costs time.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint that answers as the text asks."""
    with Endpoint() as served:
        yield served


@pytest.fixture
def project(pytester: Pytester, monkeypatch: pytest.MonkeyPatch) -> EvalProject:
    """A project with one prompt, five golden cases and one eval; the simulated model answers."""
    quiet_environment(monkeypatch)
    return EvalProject(pytester)


@pytest.fixture
def live(pytester: Pytester, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> EvalProject:
    """The same project, with `endpoint` to answer."""
    quiet_environment(monkeypatch)
    return EvalProject(pytester, base_url=endpoint.base_url)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Wait for something to become true, with a deadline, while a process runs."""

    def wait(
        holds: Callable[[], bool],
        *,
        process: processes.Started | subprocess.Popen[str] | None = None,
        within_s: float = 120,
        every_s: float = 0.01,
    ) -> None:
        until = time.monotonic() + within_s
        while not holds():
            assert process is None or process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until, "waited too long"
            time.sleep(every_s)

    return wait


@pytest.fixture
def kill() -> Callable[[processes.Started], None]:
    """End a process as a power cut would: it cannot tidy up."""

    def end(process: processes.Started) -> None:
        process.kill()
        process.communicate(timeout=30)

    return end


@pytest.fixture(scope="session")
def made() -> EvalParts:
    """What makes the values a run is made of."""
    return EvalParts()


@pytest.fixture(scope="session")
def modules_loaded_by() -> Callable[[str], set[str]]:
    """The modules that a statement loads, in a process of its own."""

    @functools.cache
    def loaded(statement: str) -> set[str]:
        script = f"{statement}\nimport sys\nprint(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    return loaded
