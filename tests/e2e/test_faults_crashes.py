"""What is paid for is kept, however a run ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

CASES = 120
IN_FLIGHT_MAX = 16


@pytest.fixture(autouse=True)
def hangup_is_not_ignored() -> Iterator[None]:
    """Under `nohup`, children would inherit an ignored SIGHUP; a handler they do not inherit."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("mode", ["missing", "all"])
def test_a_killed_run_goes_on_where_it_stopped(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    kill: Callable[[processes.Started], None],
    mode: str,
):
    command = (f"--record={mode}", f"--concurrency={IN_FLIGHT_MAX}")
    live.golden(live.case(number) for number in range(CASES))
    endpoint.latency_s = 0.1
    first = live.start(*command)
    wait_until(lambda: endpoint.answered.total() >= 40, process=first)
    kill(first)
    answered = set(endpoint.answered)
    assert len(answered) < CASES
    assert live.recordings() == []

    endpoint.latency_s = 0.0
    result = live.run(*command)
    result.assert_outcomes(passed=CASES)
    assert result.ret == 0
    # Only what was on its way when the run was killed is asked again.
    again = {text for text, count in endpoint.calls.items() if count > 1}
    assert len(again) <= IN_FLIGHT_MAX
    assert max(endpoint.calls.values()) <= 2
    assert len(live.recordings()) == CASES
    (suite,) = live.records()[0]["evals"]
    assert suite["replays"] >= len(answered) - IN_FLIGHT_MAX
    assert suite["replays"] + suite["live"] == CASES

    endpoint.forget()
    live.run(*command, "-k", "disk-000").assert_outcomes(passed=1)
    assert endpoint.total == (1 if mode == "all" else 0)


def test_a_killed_run_of_two_workers_goes_on_where_it_stopped(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    kill: Callable[[processes.Started], None],
):
    command = ("-p", "xdist", "-n2", "--record=all", "--concurrency=8")
    live.golden(live.case(number) for number in range(80))
    endpoint.latency_s = 0.05
    first = live.start(*command)
    wait_until(lambda: endpoint.answered.total() >= 20, process=first)
    kill(first)
    # Workers notice that their controller is gone, and end.
    live.wait_for_end_of_workers(wait_until)
    asked = endpoint.calls.copy()

    result = live.run(*command)
    result.assert_outcomes(passed=80)
    again = {text for text, count in endpoint.calls.items() if count > 1}
    assert len(again) <= 16
    assert asked.total() + 80 - len(asked) + len(again) >= endpoint.total
    assert len(live.recordings()) == 80


def test_ctrl_c_keeps_and_publishes_what_was_answered(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
):
    live.golden(live.case(number) for number in range(60))
    endpoint.latency_s = 0.15
    run = live.start("--concurrency=8")
    wait_until(lambda: endpoint.answered.total() >= 16, process=run)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "KeyboardInterrupt" in said
    assert "Task was destroyed" not in said
    (record,) = live.records()
    assert record["status"] == "interrupted"
    (suite,) = record["evals"]
    assert suite["passed"] == suite["cases"] == len(live.rows()) > 0
    assert (
        f"interrupted: {60 - suite['cases']} of 60 cases were not run; the same command continues"
    ) in said
    assert suite["unmeasured"] == suite["failed"] == 0
    kept = {line["case"] for line in live.recordings()}
    assert {row["case"] for row in live.rows()} <= kept
    assert len(kept) >= 16 - 8

    endpoint.latency_s = 0.0
    live.run().assert_outcomes(passed=60)
    assert not endpoint.twice or len(endpoint.twice) <= 8
    assert len(live.recordings()) == 60


def test_ctrl_c_with_two_workers_leaves_a_record_of_what_was_judged(
    live: EvalProject, endpoint: Endpoint, wait_until: Callable[..., None]
):
    live.golden(live.case(number) for number in range(60))
    endpoint.latency_s = 0.15
    run = live.start("-p", "xdist", "-n2", "--concurrency=8")
    wait_until(lambda: endpoint.answered.total() >= 16, process=run)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "INTERNALERROR" not in said
    (record,) = live.records()
    assert record["status"] == "interrupted"
    (suite,) = record["evals"]
    assert suite["passed"] == suite["cases"] == len(live.rows())
    assert f"interrupted: {60 - suite['cases']} of 60 cases were not run" in said
    endpoint.latency_s = 0.0
    live.run().assert_outcomes(passed=60)
    assert len(endpoint.twice) <= 16
    assert len(live.recordings()) == 60


def test_two_runs_at_once_are_both_right_and_pay_once(live: EvalProject, endpoint: Endpoint):
    endpoint.latency_s = 0.02
    live.golden(live.case(number, ok=number != 7) for number in range(60))
    runs = [live.start("--concurrency=8") for _ in range(2)]
    for run in runs:
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 1, said
        assert "1 failed, 59 passed" in said
    assert endpoint.total == 60
    assert len(live.recordings()) == 60
    assert [record["evals"][0]["passed"] for record in live.records()] == [59, 59]
    live.run("--record=none").assert_outcomes(passed=59, failed=1)


def test_a_worker_that_dies_does_not_take_the_run_with_it(live: EvalProject):
    live.golden(live.case(number) for number in range(8))
    live.eval(
        "import os\nfrom regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@golden('triage', judges=[min_chars(1)])\ndef test_triage(result):\n"
        "    if result.case.id == 'disk-003':\n        os._exit(1)\n    result.check()\n"
    )
    result = live.run("-n2")
    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (7, 1)
    assert "INTERNALERROR" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*worker 'gw*' crashed*", "*= regauge =*"])


# One call installs the handlers of both signals, here and in each worker.
@pytest.mark.parametrize(
    ("endings", "workers"),
    [
        ((signal.SIGTERM,), ()),
        ((signal.SIGTERM, signal.SIGHUP), ()),
        ((signal.SIGHUP,), ("-p", "xdist", "-n2")),
        ((signal.SIGTERM, signal.SIGHUP), ("-p", "xdist", "-n2")),
    ],
    ids=[
        "SIGTERM-alone",
        "both at once-alone",
        "SIGHUP-two workers",
        "both at once-two workers",
    ],
)
def test_a_terminated_run_ends_as_ctrl_c_ends_it(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    endings: tuple[signal.Signals, ...],
    workers: tuple[str, ...],
):
    live.golden(live.case(number) for number in range(40))
    endpoint.latency_s = 0.15
    run = live.start(*workers, "--concurrency=8")
    wait_until(lambda: endpoint.answered.total() >= 16, process=run)
    for ending in endings:
        run.send_signal(ending)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    assert "local:clerk" in said
    (record,) = live.records()
    assert record["status"] == "interrupted"
    live.wait_for_end_of_workers(wait_until)
    assert {row["case"] for row in live.rows()} <= {line["case"] for line in live.recordings()}
    endpoint.latency_s = 0.0
    live.run().assert_outcomes(passed=40)
    assert len(live.recordings()) == 40
    assert len(endpoint.twice) <= 16


@pytest.mark.parametrize(
    ("ending", "workers"),
    [(signal.SIGTERM, ()), (signal.SIGINT, ("-p", "xdist", "-n2"))],
    ids=["SIGTERM-alone", "SIGINT-two workers"],
)
def test_a_run_that_ends_before_its_first_verdict_states_that_nothing_was_measured(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    ending: signal.Signals,
    workers: tuple[str, ...],
):
    live.golden(live.case(number) for number in range(40))
    live.eval(
        "import time\nfrom regauge import golden\n\n"
        "def slow(output, case):\n    time.sleep(60)\n    return True\n\n"
        "@golden('triage', judges=[slow])\ndef test_triage(result):\n    result.check()\n"
    )
    run = live.start(*workers, "--concurrency=8")
    wait_until(lambda: endpoint.answered.total() >= 12, process=run)
    run.send_signal(ending)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "Traceback" not in said
    assert said.count("nothing was measured: the run was interrupted before its first case") == 1
    assert live.records() == []
    live.wait_for_end_of_workers(wait_until)
    asked = endpoint.calls.copy()
    live.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@golden('triage', judges=[min_chars(1)])\ndef test_triage(result):\n    result.check()\n"
    )
    live.run().assert_outcomes(passed=40)
    assert len({text for text, count in endpoint.calls.items() if count > 1}) <= 16
    assert len(asked) >= 12


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
def test_ctrl_c_twice_loses_nothing(
    live: EvalProject, endpoint: Endpoint, wait_until: Callable[..., None], pause_s: float
):
    live.golden(live.case(number) for number in range(60))
    endpoint.latency_s = 0.15
    run = live.start("--concurrency=8")
    wait_until(lambda: endpoint.answered.total() >= 16, process=run)
    run.send_signal(signal.SIGINT)
    time.sleep(pause_s)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "Traceback" not in said
    (record,) = live.records()
    assert record["status"] == "interrupted"
    assert {row["case"] for row in live.rows()} <= {line["case"] for line in live.recordings()}


_TWO_CTRL_C = """\
import os, signal, time
from pathlib import Path
import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it

def pytest_runtest_logstart(nodeid):
    if "disk-030" in nodeid:
        os.kill(os.getpid(), signal.SIGINT)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    try:
        return (yield)
    except KeyboardInterrupt:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        except KeyboardInterrupt:
            Path("interrupted-twice").touch()
        raise
"""


@pytest.mark.parametrize("cases", [60, 61], ids=["all recorded", "with a call"])
def test_a_second_ctrl_c_does_not_interrupt_pytest_where_it_ends(live: EvalProject, cases: int):
    live.golden(live.case(number) for number in range(60))
    live.run().assert_outcomes(passed=60)
    live.golden(live.case(number) for number in range(cases))
    live.write("conftest.py", _TWO_CTRL_C)
    result = live.run("--record=missing")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not (live.root / "interrupted-twice").exists()
    assert "interrupted" in [record["status"] for record in live.records()]


_SWALLOWS_CTRL_C = """\
import os, signal, time
from regauge import golden
from regauge.judges import min_chars

class Gone:
    def __del__(self):  # Python ignores what it raises, and pytest fails the case for it
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

def catch_all():
    try:
        Gone.__del__(None)
    except BaseException:
        pass

@golden("triage", judges=[min_chars(1)])
def test_triage(result):
    if result.case.id == "disk-001":
        CALL()
    result.check()
"""


@pytest.mark.parametrize("call", ["catch_all", "Gone"])
@pytest.mark.parametrize("cases", [2, 5], ids=["in the last case", "before others"])
def test_a_ctrl_c_that_an_eval_swallows_ends_the_run(live: EvalProject, cases: int, call: str):
    live.golden(live.case(number) for number in range(cases))
    live.eval(_SWALLOWS_CTRL_C.replace("CALL", call))
    assert live.run().ret == pytest.ExitCode.INTERRUPTED
    (record,) = live.records()
    assert record["status"] == "interrupted"
    assert {row["case"] for row in live.rows()} == {"disk-000", "disk-001"}


_STOPS_WITHOUT_A_LINE = """\
import os, signal
from regauge import golden
from regauge.judges import min_chars

def stop():
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass

stop.__code__ = stop.__code__.replace(co_linetable=b"")

@golden('triage', judges=[min_chars(1)])
def test_triage(result):
    stop()
"""


def test_a_ctrl_c_at_an_instruction_without_a_line_ends_the_run(live: EvalProject):
    """Python has such instructions here and there, and pytest fails to show a frame at one."""
    live.eval(_STOPS_WITHOUT_A_LINE)
    ran = live.run()
    assert ran.ret == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in ran.stderr.str()


_ASKS_SIGNALS = """\
import signal
from pathlib import Path
from regauge import golden
from regauge.judges import min_chars

def own(number, frame):
    Path("own").touch()

{before}

@golden('triage', judges=[min_chars(1)])
def test_triage(result):
    Path("during").write_text(str([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)]))
    result.check()
"""
_AFTER = """\
import signal
from pathlib import Path

def pytest_unconfigure():
    Path("after").write_text(str([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)]))
"""


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("signal.signal(signal.SIGTERM, own)", "<function own"),
        ("signal.signal(signal.SIGHUP, signal.SIG_IGN)", "SIG_IGN"),
    ],
)
def test_handlers_of_a_user_and_ignored_signals_stay(live: EvalProject, before: str, kept: str):
    live.eval(_ASKS_SIGNALS.format(before=before))
    live.run().assert_outcomes(passed=5)
    assert kept in (live.root / "during").read_text()


def test_handlers_stand_while_models_are_called_and_are_put_back(live: EvalProject):
    live.eval(_ASKS_SIGNALS.format(before=""))
    live.write("conftest.py", _AFTER)
    live.run().assert_outcomes(passed=5)
    assert "SIG_DFL" not in (live.root / "during").read_text()
    assert (live.root / "after").read_text().count("SIG_DFL") == 2
    live.run("--record=none").assert_outcomes(passed=5)
    assert (live.root / "during").read_text().count("SIG_DFL") == 2


_COMMAND = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from regauge.cli import main
main()
"""


# How many calls each makes in all.
_CALLS: dict[tuple[str, ...], int] = {
    ("record",): 30,
    ("baseline", "update", "triage"): 120,
    ("gate", "HEAD"): 180,
    ("refine", "triage", "--proposers=rules"): 44,
}


# One call installs the handlers of both signals; so one command shows that SIGHUP is one of them.
# As they end, `refine` has a state of its own to write, and the others what `record` writes.
@pytest.mark.parametrize(
    ("command", "signals"),
    [
        pytest.param(command, signals, id=f"{command[0]}-{name}")
        for command in _CALLS
        for name, signals in {
            "SIGTERM": (signal.SIGTERM,),
            "SIGHUP": (signal.SIGHUP,),
            "all the time": (signal.SIGINT, signal.SIGTERM) * 20,
        }.items()
        if name == "SIGTERM"
        or command[0] == "record"
        or (name == "all the time" and command[0] == "refine")
    ],
)
def test_a_signal_ends_a_command_with_one_sentence(
    live: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    command: tuple[str, ...],
    signals: tuple[signal.Signals, ...],
):
    live.golden(live.case(number) for number in range(30))
    calls = _CALLS[command]
    if command[0] == "gate":
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)
        live.prompt(system="Answer in JSON.", version="1.0.1")
        assert live.command("bump", "triage").returncode == 0
    endpoint.latency_s = 0.1
    words = (*command, "--concurrency=4")
    process = processes.start("regauge", *words, cwd=live.root, env={**os.environ})
    wait_until(lambda: endpoint.answered.total() >= 8, process=process)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.02)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("interrupted: "), said
    asked = endpoint.total
    endpoint.latency_s = 0.0
    if command[0] == "refine":
        assert "no change proposed" not in said
        command = ("refine", "resume", last.split()[-1])
    done = live.command(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    # Only what was on its way when the command was stopped is called again.
    assert asked < calls <= endpoint.total <= calls + 4


def test_ctrl_c_on_a_terminal_leaves_one_line_and_what_was_answered(
    live: EvalProject, endpoint: Endpoint, wait_until: Callable[..., None]
):
    live.golden(live.case(number) for number in range(60))
    endpoint.latency_s = 0.2
    terminal, end = pty.openpty()
    said = ""

    def told(words: str) -> bool:
        nonlocal said
        while select.select([terminal], [], [], 0)[0]:
            said += os.read(terminal, 65536).decode()
        return words in said

    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "record", "--concurrency=4"],
        cwd=live.root,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    wait_until(
        lambda: told("of 60 completions") and endpoint.answered.total() >= 8, process=process
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert told("interrupted: ")
    last = said.rpartition("\r\x1b[K")[2]
    assert re.fullmatch(
        r"interrupted: (\d+) of 60 completions recorded; continue: regauge record --concurrency=4\r\n",
        last,
    )
    os.close(end)
    os.close(terminal)
    endpoint.latency_s = 0.0
    assert live.command("record").returncode == 0
    assert len(live.recordings()) == 60
    # Only what was on its way when the run was stopped is asked again.
    assert endpoint.total <= 60 + 4
