"""Runs whose calls are made by the workers of a Dask cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes
from tests.conftest import PRICES
from tests.labelled import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


# Takes all memory of a worker once it makes a call.
GREEDY = """\
import sys, threading, time

def take():
    while "regauge.providers._client" not in sys.modules:
        time.sleep(0.05)
    taken = []
    while True:
        taken.append(b"x" * 20_000_000)
        time.sleep(0.02)

threading.Thread(target=take, daemon=True).start()
"""
# Each failure of a worker ends a process, and starts another one from nothing.
ONE_FAILURE = "def dask_setup(scheduler):\n    scheduler.allowed_failures = 1\n"
FROM_NOTHING = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])"
# What Dask's own commands load, and those that connect to its scheduler.
LOADED = ("distributed", "distributed.cli.utils")
KEY = "sk-very-secret-123"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Dask:
    """A scheduler and its workers, as processes on 127.0.0.1 whose directory is a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.option = f"--cluster={self.address}"
        self.scheduler: processes.Started | None = None
        self.workers: list[processes.Started] = []

    def start(self, *workers: dict[str, str], nthreads: int = 8) -> None:
        """Start a scheduler, and a worker with each of these environments."""
        self.start_scheduler()
        for environment in workers or ({},):
            self.start_worker(nthreads=nthreads, **environment)

    def start_scheduler(self, *options: str, **environment: str) -> None:
        words = ("--host=127.0.0.1", f"--port={self.port}", "--no-dashboard", *options)
        self.scheduler = self._process("dask_scheduler", *words, **environment)

    def start_worker(
        self,
        *options: str,
        nthreads: int = 8,
        cwd: Path | None = None,
        address: str = "",
        **environment: str,
    ) -> processes.Started:
        words = ["--no-dashboard", f"--nthreads={nthreads}"]
        words += options or ["--no-nanny", "--memory-limit=0"]
        worker = self._process(
            "dask_worker", address or self.address, *words, cwd=cwd, **environment
        )
        self.workers.append(worker)
        return worker

    def _process(
        self, module: str, *words: str, cwd: Path | None = None, **environment: str
    ) -> processes.Started:
        env = {**os.environ, **environment}
        # Only an interpreter that starts from nothing reads sitecustomize.py.
        command = ("-c", FROM_NOTHING) if "PYTHONPATH" in environment else ()
        program = (*command, f"distributed.cli.{module}")
        return processes.start(*program, *words, cwd=cwd or self.root, env=env, loaded=LOADED)

    def wait_for_workers(self, number: int, wait_until: Callable[..., None]) -> None:
        """Wait until so many workers, of all that were started, have found the scheduler."""
        wait_until(lambda: self.logs().count("Registered to:") == number)

    def logs(self) -> str:
        processes = [self.scheduler, *self.workers]
        return "\n".join(process.printed() for process in processes if process is not None)

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                sys.stdout.write(process.communicate(30)[0])
        self.scheduler, self.workers = None, []


class Proxy:
    """A connection to a scheduler that can be cut, and keeps a copy of what passes.

    Attributes:
        up: Whether bytes pass. While it is unset they wait.
        passed: All bytes, in both directions.
    """

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.option = f"--cluster=tcp://127.0.0.1:{self.port}"
        self.up = threading.Event()
        self.up.set()
        self.closed = False
        self.passed = bytearray()
        self._to = port
        self._server = socket.create_server(("127.0.0.1", self.port))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self.up.wait()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except ConnectionRefusedError:  # the scheduler does not listen yet
                    near.close()
                    continue
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.up.wait()
                self.passed += data
                sink.sendall(data)
        for end in (source, sink):
            end.close()

    def cut(self) -> None:
        """Let nothing pass; where connections are `closed`, they end."""
        self.up.clear()
        if self.closed:
            self.drop()

    def drop(self) -> None:
        """Close all connections."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        self._server.close()
        self.drop()


@pytest.fixture
def dask(live: EvalProject) -> Iterator[Dask]:
    """A cluster for the project `live`; no process runs yet."""
    cluster = Dask(live.root)
    live.loaded = LOADED
    yield cluster
    cluster.stop()


def recorded(project: EvalProject, name: str = "triage") -> list[Any]:
    """The recordings without what no two runs have in common."""
    return [
        line | {"recorded_at": "", "completion": line["completion"] | {"latency_s": 0}}
        for line in project.recordings(name)
    ]


def git(root: Path, *words: str) -> None:
    own = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *own, *words], cwd=root, check=True, capture_output=True)


def forget(project: EvalProject) -> None:
    """Leave nothing of what ran before."""
    for name in (".regauge", "fixtures/recordings"):
        shutil.rmtree(project.root / name, ignore_errors=True)


def test_workers_record_what_one_process_records_and_the_driver_needs_no_key(
    judged: EvalProject, endpoint: Endpoint, dask: Dask, monkeypatch: pytest.MonkeyPatch
):
    """Judge calls are made by workers as well; a key in an answer stays where the key is."""

    def answer(text: str) -> str:
        return told(text) if "<answer-" in text else f"My key is {KEY}, pass"

    endpoint.answer = answer
    judged.settings(
        'judge_model = "local:clerk"', provider='prices = {}\napi_key_env = "DESK_SECRET"\n'
    )
    dask.start({"DESK_SECRET": KEY}, {"DESK_SECRET": KEY})
    assert judged.run(dask.option, "--trials=2").ret == 0
    answers, judgements = recorded(judged), recorded(judged, "judges/triage")
    calls = endpoint.total
    assert (len(answers), len(judgements)) == (10, calls - 10)
    assert answers[0]["completion"]["text"] == "My key is [redacted by regauge], pass"
    forget(judged)
    endpoint.forget()
    monkeypatch.setenv("DESK_SECRET", KEY)
    assert judged.run("--trials=2").ret == 0
    assert endpoint.total == calls
    assert recorded(judged) == answers
    assert recorded(judged, "judges/triage") == judgements


def test_a_killed_worker_loses_no_answer_and_pays_again_only_what_it_made(
    live: EvalProject, endpoint: Endpoint, dask: Dask, wait_until: Callable[..., None]
):
    live.golden([live.case(number) for number in range(60)])
    endpoint.latency_s = 0.3
    dask.start({}, {}, nthreads=4)
    run = live.start(dask.option)
    wait_until(lambda: endpoint.answered.total() > 10, process=run, within_s=120)
    dask.workers[0].kill()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 0, out
    assert len(live.recordings()) == 60
    assert sum(count - 1 for count in endpoint.calls.values()) <= 4
    # The driver looks at the workers again and again, with one connection.
    assert dask.logs().count("Receive client connection: ") == 1


def test_a_scheduler_that_is_killed_leaves_cases_unmeasured_and_the_same_command_continues(
    live: EvalProject, endpoint: Endpoint, dask: Dask, wait_until: Callable[..., None]
):
    live.settings(provider=f"{PRICES}deadline_s = 3\n")
    live.golden([live.case(number) for number in range(40)])
    endpoint.latency_s = 0.3
    dask.start(nthreads=4)
    run = live.start(dask.option)
    wait_until(lambda: endpoint.answered.total() > 8, process=run, within_s=120)
    assert dask.scheduler is not None
    dask.scheduler.kill()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 1, out
    assert " unmeasured in " in out
    # A call under way is lost; one that waits reaches neither scheduler nor worker until its
    # deadline.
    causes = "(lost (this call on )?worker|cannot be reached any more|has no worker any more)"
    assert re.search(f"the cluster {dask.address} {causes}", out), out
    assert "the same command continues" in out
    assert "Traceback" not in out
    dask.stop()
    dask.start(nthreads=4)
    assert live.run(dask.option).ret == 0
    assert len(live.recordings()) == 40
    assert sum(count - 1 for count in endpoint.calls.values()) <= 4


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("10.1.2.3:8786", "fix: start the scheduler with TLS, and write tls://10.1.2.3:8786"),
        ("tcp://dask.example:8786", "dask.example is another machine, and the connection is not"),
        ("http://127.0.0.1:8786", "--cluster takes local or the address of a scheduler"),
        ("127.0.0.1", "fix: write tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine"),
        ("tcp://127.0.0.1:8786/x", "--cluster takes local or the address of a scheduler"),
    ],
)
def test_an_address_that_is_not_encrypted_or_none_is_refused(
    live: EvalProject, address: str, sentence: str
):
    run = live.run(f"--cluster={address}")
    assert (run.ret, sentence in run.stderr.str()) == (4, True)
    done = live.command("record", f"--cluster={address}")
    assert (done.returncode, sentence in done.stderr) == (2, True)


def test_options_that_do_not_go_with_a_cluster_are_refused(live: EvalProject):
    assert "fix: leave out -n" in live.run("--cluster=local", "-n2").stderr.str()
    done = live.command("record", "--cluster=local", "--batch")
    assert done.returncode == 2
    assert "--cluster does not go with --batch" in done.stderr


@pytest.fixture
def proxy(dask: Dask, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    between = Proxy(dask.port)
    between.closed = getattr(request, "param", "") == "closed"
    yield between
    between.stop()


def test_what_travels_is_text_and_the_names_of_two_functions(
    live: EvalProject, dask: Dask, proxy: Proxy
):
    live.settings(provider=f'{PRICES}api_key_env = "DESK_SECRET"\n')
    dask.start({"DESK_SECRET": KEY})
    assert live.run(proxy.option).ret == 0
    assert b"disk 3 is full" in proxy.passed
    assert KEY.encode() not in proxy.passed
    named = re.findall(rb"regauge\.[a-z_.]+\W+[a-z_]+", proxy.passed)
    functions = {tuple(re.findall(rb"[a-z_.]{5,}", name)) for name in named}
    assert functions == {
        (b"regauge.cluster._limits", b"install"),
        (b"regauge.cluster._worker", b"make_call"),
    }


@pytest.mark.parametrize("proxy", ["closed", "silent"], indirect=True)
def test_a_network_that_is_away_for_ten_seconds_loses_nothing(
    live: EvalProject,
    endpoint: Endpoint,
    dask: Dask,
    proxy: Proxy,
    wait_until: Callable[..., None],
):
    live.golden([live.case(number) for number in range(60)])
    endpoint.latency_s = 0.3
    dask.start(nthreads=4)
    run = live.start(proxy.option)
    wait_until(lambda: endpoint.answered.total() > 8, process=run, within_s=120)
    proxy.cut()
    time.sleep(10)
    proxy.up.set()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 0, out
    assert len(live.recordings()) == 60
    assert sum(count - 1 for count in endpoint.calls.values()) <= 4


def test_two_runs_at_once_share_the_workers_and_pay_once(
    live: EvalProject, endpoint: Endpoint, dask: Dask
):
    live.golden([live.case(number) for number in range(60)])
    endpoint.latency_s = 0.3
    dask.start({}, {}, nthreads=4)
    runs = [live.start(dask.option) for _ in range(2)]
    for run in runs:
        out, _ = run.communicate(timeout=600)
        assert run.returncode == 0, out
    assert len(live.recordings()) == endpoint.total == 60


def test_a_clock_that_is_an_hour_ahead_on_a_worker_changes_nothing(
    live: EvalProject, endpoint: Endpoint, dask: Dask, tmp_path: Path
):
    skewed = "import time\n_now = time.time\ntime.time = lambda: _now() + 3600\n"
    (tmp_path / "sitecustomize.py").write_text(skewed)
    endpoint.object_to_each = 4
    dask.start({"PYTHONPATH": str(tmp_path)}, nthreads=4)
    assert live.run(dask.option).ret == 0
    assert not endpoint.twice
    for line in live.recordings():
        at = datetime.fromisoformat(line["recorded_at"])
        assert abs(datetime.now(UTC) - at) < timedelta(minutes=10)
        assert 0 <= line["completion"]["latency_s"] < 60


def test_a_worker_that_is_not_like_the_driver_is_refused_and_the_others_continue(
    live: EvalProject,
    endpoint: Endpoint,
    dask: Dask,
    tmp_path: Path,
    wait_until: Callable[..., None],
):
    live.settings(provider=f'{PRICES}api_key_env = "DESK_SECRET"\n')
    live.write(".gitignore", ".regauge/\n")
    git(live.root, "init", "-q", "-b", "main")
    git(live.root, "add", "-A")
    git(live.root, "commit", "-qm", "One")
    git(live.root, "clone", "-q", str(live.root), str(tmp_path / "older"))
    git(live.root, "commit", "-qm", "Two", "--allow-empty")
    git(live.root, "clone", "-q", str(live.root), str(tmp_path / "other"))
    settings = tmp_path / "other/pyproject.toml"
    settings.write_text(settings.read_text() + "timeout_s = 7\n")
    (tmp_path / "regauge-9.9.9.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n"
    (tmp_path / "regauge-9.9.9.dist-info/METADATA").write_text(metadata)
    dask.start_scheduler()
    dask.start_worker(DESK_SECRET=KEY, PYTHONPATH=str(tmp_path))
    dask.start_worker(DESK_SECRET=KEY, cwd=tmp_path / "older")
    dask.start_worker(DESK_SECRET=KEY, cwd=tmp_path / "other")
    dask.start_worker()
    dask.wait_for_workers(4, wait_until)
    live.golden([live.case(number) for number in range(40)])
    done = live.command("record", dask.option)
    said = done.stdout + done.stderr
    assert done.returncode == 3, said
    assert "it runs regauge 9.9.9, and this command 0." in said
    assert "its project is at " in said
    assert "[tool.regauge.providers.local] or the URL in its environment is not the one" in said
    assert "no key for provider 'local': DESK_SECRET is not set" in said
    assert endpoint.total == 0
    dask.start_worker(DESK_SECRET=KEY)
    dask.wait_for_workers(5, wait_until)
    done = live.command("record", dask.option)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 of 40 completions recorded" in done.stdout
    assert "warning: worker tcp://127.0.0.1:" in done.stdout
    assert endpoint.total == 40


def test_a_worker_out_of_memory_leaves_cases_unmeasured_and_the_same_command_continues(
    live: EvalProject, endpoint: Endpoint, dask: Dask, tmp_path: Path
):
    live.settings(provider=f"{PRICES}deadline_s = 5\nmax_attempts = 2\n")
    (tmp_path / "sitecustomize.py").write_text(GREEDY)
    live.golden([live.case(number) for number in range(2)])
    endpoint.latency_s = 3
    dask.start_scheduler("--preload", ONE_FAILURE)
    options = ("--nanny", "--memory-limit=400MB")
    small = dask.start_worker(*options, nthreads=2, PYTHONPATH=str(tmp_path))
    done = live.command("record", dask.option)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "--memory-limit" in done.stderr
    small.send_signal(signal.SIGTERM)
    sys.stdout.write(small.communicate(30)[0])
    dask.workers.remove(small)
    endpoint.latency_s = 0
    dask.start_worker()
    done = live.command("record", dask.option)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(live.recordings()) == 2


def test_a_cluster_with_tls(live: EvalProject, dask: Dask, tmp_path: Path, monkeypatch: Any):
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -keyout {key} -out {pem}",
        shell=True,
        check=True,
        capture_output=True,
    )
    address = f"tls://127.0.0.1:{dask.port}"
    words = (f"--tls-ca-file={pem}", f"--tls-cert={pem}", f"--tls-key={key}")
    dask.start_scheduler("--protocol=tls", *words)
    dask.start_worker("--no-nanny", "--memory-limit=0", *words, address=address)
    for end in ("CLIENT__CERT", "CLIENT__KEY", "CA_FILE"):
        file = key if end.endswith("KEY") else pem
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{end}", str(file))
    # Dask reads its environment when it is loaded.
    live.loaded = ()
    assert live.run(f"--cluster={address}").ret == 0
    assert len(live.recordings()) == 5


def test_a_gate_draws_both_sides_on_workers(live: EvalProject, endpoint: Endpoint, dask: Dask):
    live.write(".gitignore", ".regauge/\n")
    assert live.command("bump", "triage").returncode == 0
    git(live.root, "init", "-q", "-b", "main")
    git(live.root, "add", "-A")
    git(live.root, "commit", "-qm", "One")
    prompt = live.root / "prompts/triage.prompt.yml"
    prompt.write_text(prompt.read_text().replace("with JSON:", "with JSON only:"))
    assert live.command("bump", "triage", "minor", "-m", "Only.").returncode == 0
    git(live.root, "commit", "-qam", "Two")
    dask.start()
    done = live.run("--gate=HEAD~1", "--record=missing", dask.option)
    assert done.ret == 0
    assert "accepted" in done.stdout.str().lower()
    assert endpoint.total >= 10


def test_a_target_is_called_on_workers_that_have_its_files(
    live: EvalProject, dask: Dask, tmp_path: Path
):
    live.write("app.py", "import os\n\ndef answer(text):\n    return os.environ['ONLY_THERE']\n")
    live.settings('[tool.regauge.targets.echo]\nkind = "python"\ncallable = "app:answer"\n')
    live.eval(
        "from regauge import golden\nfrom regauge.judges import contains\n\n"
        "@golden('triage', target='echo', judges=[contains('over there')])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    shutil.copytree(live.root, tmp_path / "copy")
    dask.start_scheduler()
    dask.start_worker(cwd=tmp_path / "copy", ONLY_THERE="over there")
    assert live.run(dask.option).ret == 0
    assert len(live.recordings()) == 5
    live.write("app.py", "def answer(text):\n    return 'another'\n")
    done = live.command("record", dask.option)
    assert done.returncode == 3
    assert "the target echo or a file that it loads is not the one of this command" in done.stderr


COUNT_WORKERS = """
from multiprocessing import active_children

def pytest_sessionfinish():
    print("workers at work:", len(active_children()) > 0)

def pytest_unconfigure():
    print("workers left:", len(active_children()))
"""


def test_local_workers_need_no_scheduler_and_end_with_the_run(
    live: EvalProject, endpoint: Endpoint
):
    """And no port of their own: another cluster has the one that Dask takes first."""
    live.write("conftest.py", COUNT_WORKERS)
    with ExitStack() as stack:
        with suppress(OSError):  # as it may really be
            stack.enter_context(socket.create_server(("127.0.0.1", 8787)))
        live.loaded = LOADED
        run = live.start("--cluster=local")
        out, _ = run.communicate(timeout=600)
    assert run.returncode == 0, out
    assert "5 passed" in out
    assert "workers at work: True" in out
    assert "workers left: 0" in out
    assert endpoint.total == 5


def test_a_scheduler_without_regauge_is_named(live: EvalProject, dask: Dask, tmp_path: Path):
    blocked = "import sys\nsys.modules['regauge'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    dask.start_scheduler(PYTHONPATH=str(tmp_path))
    dask.start_worker()
    done = live.command("record", dask.option)
    assert done.returncode == 3
    assert f"the cluster {dask.address}: the scheduler cannot run regauge: " in done.stderr
    assert "fix: install regauge[dask] 0." in done.stderr


def test_a_scheduler_or_workers_that_are_not_there_are_named(
    live: EvalProject, dask: Dask, monkeypatch: pytest.MonkeyPatch
):
    dask.start_scheduler()
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "3s")
    # Dask reads its environment when it is loaded.
    live.loaded = ()
    done = live.command("record", dask.option)
    assert done.returncode == 3
    assert f"the cluster {dask.address} has no worker" in done.stderr
    assert f"fix: start one: dask worker {dask.address}" in done.stderr


def test_tls_without_certificates_ends_with_the_variables_to_set(live: EvalProject):
    done = live.command("record", "--cluster=tls://10.1.2.3:8786")
    assert done.returncode == 3
    assert (
        "fix: see that its scheduler runs, and set DASK_DISTRIBUTED__COMM__TLS__CA" in done.stderr
    )
