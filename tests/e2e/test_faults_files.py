"""Files and options that cannot be used: one clear error each, and no traceback."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def _broken_recording(project: EvalProject) -> None:
    project.write("fixtures/recordings/triage.jsonl", '{"case": "disk-000"\n{}\n')


def _broken_prompt(project: EvalProject) -> None:
    project.write("prompts/triage.prompt.yml", "name: Triage\nmessages:\n  - role: [\n")


def _two_cases_of_one_id(project: EvalProject) -> None:
    project.golden([project.case(1), project.case(2), project.case(1)])


def _no_cases(project: EvalProject) -> None:
    project.golden([])


def _no_prompt(project: EvalProject) -> None:
    (project.root / "prompts" / "triage.prompt.yml").rename(
        project.root / "prompts" / "triages.prompt.yml"
    )


def _no_dataset(project: EvalProject) -> None:
    (project.root / "fixtures" / "golden" / "triage.jsonl").rename(
        project.root / "fixtures" / "golden" / "triages.jsonl"
    )


def _no_provider(project: EvalProject) -> None:
    project.prompt(model="locals:clerk")


def _no_provider_named(project: EvalProject) -> None:
    project.prompt(model="clerk")


def _no_model(project: EvalProject) -> None:
    path = project.prompt()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("model: sim:clerk-1\n", ""), encoding="utf-8")


def _unknown_setting(project: EvalProject) -> None:
    project.settings("trails = 3")


def _not_toml(project: EvalProject) -> None:
    project.settings("trials = = 3")


CASES = [
    (
        _broken_recording,
        (),
        snapshot("""\
unmeasured: 5 cases of triage (RecordingError)
  disk-000, disk-001, disk-002, disk-003, disk-004
  fixtures/recordings/triage.jsonl:1: not a recording: Expecting ',' delimiter: line 1 column 20 (char 19)
    fix: delete the line, then record it again: pytest evals --record=missing
  fixtures/recordings/triage.jsonl:2: not a recording: the recording has no 'digest'
    fix: delete the line, then record it again: pytest evals --record=missing\
"""),
    ),
    (
        _broken_prompt,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
prompts/triage.prompt.yml:3: not YAML: a `[` or `{` above is not closed, or has no value between its commas
  fix: close it, or remove it
ERROR evals/test_triage.py - prompts/triage.prompt.yml:3: not YAML: a `[` or `{` above is not closed, or has no value between its commas\
"""),
    ),
    (
        _two_cases_of_one_id,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
fixtures/golden/triage.jsonl:3: the id 'disk-001' is taken: line 1 has it too
  fix: every case needs an id of its own
ERROR evals/test_triage.py - fixtures/golden/triage.jsonl:3: the id 'disk-001' is taken: line 1 has it too\
"""),
    ),
    (
        _no_cases,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
fixtures/golden/triage.jsonl: no cases
  fix: add one, or remove the file
ERROR evals/test_triage.py - fixtures/golden/triage.jsonl: no cases\
"""),
    ),
    (
        _no_prompt,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
prompts: there is no prompt 'triage'
  fix: did you mean 'triages'?
  eval: evals/test_triage.py:7
ERROR evals/test_triage.py - prompts: there is no prompt 'triage'\
"""),
    ),
    (
        _no_dataset,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
fixtures/golden: no dataset is called 'triage'
  fix: did you mean 'triages'?
  eval: evals/test_triage.py:7
ERROR evals/test_triage.py - fixtures/golden: no dataset is called 'triage'\
"""),
    ),
    (
        _no_provider,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
there is no provider 'locals'; there are anthropic, local, openai, sim
  fix: did you mean 'local'? declare [tool.regauge.providers.locals] with its base_url in pyproject.toml
  eval: evals/test_triage.py:7
ERROR evals/test_triage.py - there is no provider 'locals'; there are anthropic, local, openai, sim\
"""),
    ),
    (
        _no_provider_named,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
prompts/triage.prompt.yml: 'clerk' names no provider
  fix: write provider:model, such as openai:clerk or sim:clerk-1; a provider of your own is a table [tool.regauge.providers.<name>] in pyproject.toml
  eval: evals/test_triage.py:7
ERROR evals/test_triage.py - prompts/triage.prompt.yml: 'clerk' names no provider\
"""),
    ),
    (
        _no_model,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
prompts/triage.prompt.yml:1: the prompt has no model
  fix: add `model: provider:model`, or set `model` in [tool.regauge]
ERROR evals/test_triage.py - prompts/triage.prompt.yml:1: the prompt has no model\
"""),
    ),
    (
        _unknown_setting,
        (),
        snapshot("""\
ERROR collecting evals/test_triage.py
pyproject.toml:6: tool.regauge.trails: no such setting
  fix: did you mean 'trials'?
ERROR evals/test_triage.py - pyproject.toml:6: tool.regauge.trails: no such setting\
"""),
    ),
    (
        None,
        ("--trials=0",),
        snapshot("""\
ERROR collecting evals/test_triage.py
--trials must be from 1 to 10000, not 0
ERROR evals/test_triage.py - --trials must be from 1 to 10000, not 0\
"""),
    ),
    (
        None,
        ("--concurrency=lots",),
        snapshot("""\
ERROR collecting evals/test_triage.py
--concurrency takes a number from 1 to 1024, or auto, not 'lots'
ERROR evals/test_triage.py - --concurrency takes a number from 1 to 1024, or auto, not 'lots'\
"""),
    ),
    (
        None,
        ("--budget-usd=-1",),
        snapshot("""\
ERROR collecting evals/test_triage.py
--budget-usd must be a number of dollars from 0 up, not -1.0
ERROR evals/test_triage.py - --budget-usd must be a number of dollars from 0 up, not -1.0\
"""),
    ),
    (
        None,
        ("--model=clerk",),
        snapshot("""\
ERROR collecting evals/test_triage.py
--model: 'clerk' names no provider
  fix: write provider:model, such as openai:clerk or sim:clerk-1; a provider of your own is a table [tool.regauge.providers.<name>] in pyproject.toml
ERROR evals/test_triage.py - --model: 'clerk' names no provider\
"""),
    ),
    (
        None,
        ("--judge-model=clerk",),
        snapshot("""\
ERROR collecting evals/test_triage.py
--judge-model: 'clerk' names no provider
  fix: write provider:model, such as openai:clerk or sim:clerk-1; a provider of your own is a table [tool.regauge.providers.<name>] in pyproject.toml
ERROR evals/test_triage.py - --judge-model: 'clerk' names no provider\
"""),
    ),
    (
        None,
        ("--model=sim:clerk-2", "-k", "disk-000"),
        snapshot("""\
unmeasured: 1 case of triage (bad-request)
  disk-000
  there is no simulated model 'clerk-2' (prompts/triage.prompt.yml)
    fix: write sim:clerk-1\
"""),
    ),
]


@pytest.mark.parametrize(
    ("break_", "arguments", "words"),
    CASES,
    ids=[" ".join(one[1]) or one[0].__name__.strip("_") for one in CASES],
)
def test_one_clear_error(
    project: EvalProject,
    break_: Callable[[EvalProject], None] | None,
    arguments: tuple[str, ...],
    words: str,
):
    if break_ is not None:
        break_(project)
    # A second eval must not say the same again where the fault is not its own.
    project.eval("def test_other():\n    pass\n", name="test_other")
    result = project.run(*arguments)
    assert result.ret not in {0, 3}
    said = project.complaint(result)
    assert "Traceback" not in said
    assert said == words
    assert break_ is _broken_recording or project.recordings() == []


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["record"], "--judge-model"),
        (["judges", "calibrate", "tone"], "--judge-model"),
    ],
    ids=" ".join,
)
def test_a_judge_model_without_a_provider_is_refused(
    project: EvalProject, command: list[str], option: str
):
    done = project.command(*command, option, "clerk")
    assert done.returncode == 2, done.stdout
    assert f"{option}: 'clerk' names no provider" in done.stderr
    assert "fix: write provider:model, such as openai:clerk" in done.stderr
    assert project.recordings() == []


@pytest.mark.parametrize("break_", [_unknown_setting, _broken_recording, _no_prompt])
def test_two_workers_say_it_too(project: EvalProject, break_: Callable[[EvalProject], None]):
    break_(project)
    result = project.run("-n2")
    assert result.ret not in {0, 3}
    said = project.complaint(result)
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    expected = {
        _unknown_setting: "tool.regauge.trails: no such setting",
        _broken_recording: "triage.jsonl:1",
        _no_prompt: "triages",
    }
    assert expected[break_] in said


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("cost_usd", "-5"),
        ("cost_usd", "1e999"),
        ("latency_s", "-1"),
        ("input_tokens", "NaN"),
        ("output_tokens", "9" * 400),
    ],
)
def test_a_number_that_no_model_states_is_no_recording(project: EvalProject, key: str, number: str):
    project.run().assert_outcomes(passed=5)
    path = project.root / "fixtures/recordings/triage.jsonl"
    text = re.sub(rf'"{key}":[^,}}]+', f'"{key}":{number}', path.read_text(), count=1)
    assert path.write_text(text)
    result = project.run("--record=none")
    assert (result.ret, result.parseoutcomes()) == (1, {"unmeasured": 5})
    said = project.complaint(result)
    assert "triage.jsonl:1: not a recording: " in said
    assert "Error:" not in said


def test_half_a_surrogate_pair_in_an_output_is_escaped_in_each_format(project: EvalProject):
    project.run().assert_outcomes(passed=5)
    path = project.root / "fixtures/recordings/triage.jsonl"
    path.write_text(re.sub('"text":"', '"text":"half \\\\ud800 ', path.read_text(), count=1))
    project.run("--record=none")
    for form in ("json", "md", "html", "csv", "parquet"):
        assert project.command("report", "-o", f"run.{form}").returncode == 0
    rows = json.loads((project.root / "run.json").read_text(encoding="utf-8"))["rows"]
    assert [row["output"][:6] for row in rows if row["output"][:4] == "half"] == ["half \ud800"]
    runs = sorted(path.name for path in (project.root / ".regauge/runs").iterdir())
    compared = project.command("runs", "compare", *runs, "--json")
    assert compared.returncode == 0
    assert json.loads(compared.stdout)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["plain", "xdist"])
def test_a_filter_that_matches_nothing_is_not_green(project: EvalProject, workers: tuple[str, ...]):
    result = project.run("-k", "tape", *workers)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "nothing was measured: none of the 5 collected cases was selected" in (
        result.stdout.str()
    )
    assert project.records() == []


def test_hidden_copies_are_no_files_of_the_project(project: EvalProject):
    project.run("--record=missing").assert_outcomes(passed=5)
    for path in (
        "prompts/._triage.prompt.yml",
        "fixtures/golden/._triage.jsonl",
        "fixtures/recordings/._triage.jsonl",
        "fixtures/labels/._tone.jsonl",
        "fixtures/labels/._tone.calibration.json",
        "fixtures/baselines/._triage.json",
    ):
        project.write(path, "\x00\x05\x16\x07 of macOS")
    result = project.run("--record=none")
    result.assert_outcomes(passed=5)
    assert result.ret == 0
    for command in (["lint"], ["doctor", "--offline"], ["baseline", "show"], ["judges"]):
        done = project.command(*command)
        assert "._" not in done.stdout + done.stderr


def test_line_ends_of_windows_change_no_result(project: EvalProject):
    project.run("--record=missing").assert_outcomes(passed=5)
    for path in (*project.root.glob("prompts/*"), *project.root.glob("fixtures/*/*")):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    result = project.run("--record=none")
    result.assert_outcomes(passed=5)
    assert result.ret == 0


def test_cases_that_are_collected_twice_have_all_had_their_turn(project: EvalProject):
    result = project.run("--keep-duplicates", "evals")
    result.assert_outcomes(passed=10)
    assert result.ret == 0


def test_a_case_that_lacks_an_input_stays_unmeasured_and_the_others_run(project: EvalProject):
    project.golden([project.case(0), project.case(1, inputs={})])
    result = project.run()
    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 1, "unmeasured": 1}
    assert project.complaint(result) == snapshot("""\
unmeasured: 1 case of triage (RenderError)
  disk-001
  prompts/triage.prompt.yml:8: input 'text' is missing (case at fixtures/golden/triage.jsonl:2)
    fix: give the case a value for 'text'\
""")


def test_a_replay_of_a_provider_that_nothing_declares_says_what_is_wrong(project: EvalProject):
    project.prompt(model="locals:clerk")
    result = project.run("--record=none")
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    said = project.complaint(result)
    assert "INTERNALERROR" not in said
    assert "there is no provider 'locals'" in said


def test_recordings_that_cannot_be_read_leave_everything_unmeasured(project: EvalProject):
    project.write("fixtures/recordings", "a file where a directory should be")
    result = project.run()
    assert result.ret != 0
    said = project.complaint(result)
    assert "Traceback" not in said
    assert "fixtures/recordings" in said
    (project.root / "fixtures" / "recordings").unlink()
    project.run("--record=missing").assert_outcomes(passed=5)


def _at_most(file_bytes: int) -> str:
    """Lines after which a process may write files of this size only."""
    return (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_bytes}, {file_bytes}))\n"
    )


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")], ids=["alone", "two workers"])
def test_a_full_disk_ends_in_one_sentence_and_the_same_command_continues(
    live: EvalProject, endpoint: Endpoint, workers: tuple[str, ...]
):
    live.golden(live.case(number) for number in range(60))
    endpoint.answer = _long_answer
    # Each process of the run loads it, workers too.
    limit = live.write("evals/conftest.py", _at_most(150_000))
    done = live.run(*workers)
    said = done.stdout.str() + done.stderr.str()
    assert done.ret == 1, said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    assert "Error: [Errno" not in said
    assert ".regauge/store.sqlite3" in said
    assert "fix: make room" in said
    assert "local:clerk" in said
    assert all(line.endswith("}") for line in _lines(live, ".regauge/runs/*/trials.jsonl"))
    asked = endpoint.total
    assert asked < 60
    limit.unlink()
    live.run("--record=missing").assert_outcomes(passed=60)
    assert len(live.recordings()) == 60
    assert len(endpoint.twice) <= 32


@pytest.mark.parametrize(
    ("command", "calls", "file_bytes"),
    [
        # The claims of 60 calls alone may write 556 kB before the first call.
        (["record"], 60, 600_000),
        (["baseline", "update", "triage"], 240, 150_000),
        (["gate", "HEAD"], 300, 150_000),
        (["refine", "triage", "--proposers=rules"], 86, 150_000),
    ],
    ids=["record", "baseline", "gate", "refine"],
)
def test_a_full_disk_ends_a_command_and_the_same_command_continues(
    live: EvalProject, endpoint: Endpoint, command: list[str], calls: int, file_bytes: int
):
    live.golden(live.case(number) for number in range(60))
    endpoint.answer = _long_answer
    if command[0] == "gate":
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)
        live.prompt(system="Answer in JSON.", version="1.0.1")
        assert live.command("bump", "triage").returncode == 0
    program = f"{_at_most(file_bytes)}from regauge.cli import main; main()"
    done = processes.run("-c", program, *command, cwd=live.root, env={**os.environ})
    printed = done.stdout + done.stderr
    assert done.returncode == 3, printed
    assert "Traceback" not in printed
    assert "INTERNALERROR" not in printed
    assert "Error: [Errno" not in printed
    assert "local store cannot be used: disk I/O error" in printed
    assert "fix: make room" in printed, printed
    # What is under way when the first completion cannot be kept is lost; no call follows.
    assert 0 < endpoint.total <= 64
    if command[0] == "refine":
        command = ["refine", "resume", "latest"]
    continued = live.command(*command)
    assert continued.returncode == 0, continued.stdout + continued.stderr
    assert "fix: make room" not in continued.stdout + continued.stderr
    # The endpoint counts requests when it reads them, which may be after the command ended.
    assert calls <= endpoint.total <= calls + 64


def test_a_record_that_the_disk_does_not_take_leaves_the_table_and_whole_lines(
    live: EvalProject, endpoint: Endpoint
):
    live.golden(live.case(number) for number in range(60))
    endpoint.answer = _long_answer
    live.run().assert_outcomes(passed=60)
    live.write("evals/conftest.py", _at_most(100_000))
    done = live.run("--record=none")
    said = done.stdout.str()
    assert done.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "Traceback" not in said + done.stderr.str()
    assert "the record of this run is incomplete: " in said
    assert "trials.jsonl" in said
    assert "60 passed" in said
    *_, last = sorted(
        live.root.glob(".regauge/runs/*/trials.jsonl"), key=lambda p: p.stat().st_mtime
    )
    rows = last.read_text(encoding="utf-8")
    assert rows.endswith("}\n")
    assert 0 < rows.count("\n") < 60


def _lines(project: EvalProject, pattern: str) -> list[str]:
    found = project.root.glob(pattern)
    return [line for path in found for line in path.read_text(encoding="utf-8").splitlines()]


def _long_answer(text: str) -> str:
    return f"{text} {'x' * 4000}"


def test_few_file_descriptors_lower_the_concurrency(live: EvalProject):
    live.golden(live.case(number) for number in range(60))
    program = (
        "import resource, sys, pytest\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "sys.exit(pytest.main())\n"
    )
    command = (program, "evals", "--concurrency=256")
    done = processes.run("-c", *command, cwd=live.root, env={**os.environ})
    assert done.returncode == 0, done.stdout
    assert "60 passed" in done.stdout


# Each program runs in a fork of an interpreter that has loaded pytest, which takes longer than the rest.
_LIMITED = """\
import itertools, os, resource, sys, pytest

limits, *programs = sys.argv[1:]
for limit, (number, program) in itertools.product(limits.split(), enumerate(programs)):
    if not os.fork():
        output = os.open(f"said-{limit}-{number}", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), int(limit)))
        exec(program)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_too_few_file_descriptors_end_a_run_before_it_begins(live: EvalProject, endpoint: Endpoint):
    limits = (12, 16, 20)
    live.golden(live.case(number) for number in range(20))
    programs = {
        "sys.exit(pytest.main(['evals']))": 4,
        "sys.exit(pytest.main([]))": 4,
        "sys.exit(pytest.main(['evals', '-p', 'xdist', '-n2']))": 4,
        "from regauge.cli import main; main(['record'])": 2,
    }
    command = [sys.executable, "-c", _LIMITED, " ".join(map(str, limits)), *programs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    codes = [*map(int, done.stdout.split())]
    assert codes == [*programs.values()] * len(limits), done.stderr
    for limit, (number, program) in itertools.product(limits, enumerate(programs)):
        said = (live.root / f"said-{limit}-{number}").read_text(encoding="utf-8")
        assert "Traceback" not in said, (limit, program)
        assert "Errno" not in said, (limit, program)
        assert "fix: raise the limit, as with ulimit -n 1024" in said, (limit, program)
    assert endpoint.total == 0


@pytest.mark.parametrize("command", [["record"], ["gate", "HEAD"], ["baseline", "update"]])
def test_a_setting_of_pytest_that_it_does_not_know_is_wrong_use(
    live: EvalProject, command: list[str]
):
    (live.root / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    done = live.command(*command)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "--no-such-option" in done.stderr


def test_the_store_names_the_limit_of_open_files(live: EvalProject):
    live.run().assert_outcomes(passed=5)
    program = (
        "import os, resource, sys\n"
        "from pathlib import Path\n"
        "from regauge.errors import RecordingError\n"
        "from regauge.recordings import LocalStore\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "try:\n"
        "    while True: os.open(os.devnull, os.O_RDONLY)\n"
        "except OSError: pass\n"
        "try: LocalStore(Path('.regauge/store.sqlite3')).get('0' * 64, 0)\n"
        "except RecordingError as error: print(error)\n"
    )
    done = processes.run("-c", program, cwd=live.root, env={**os.environ})
    assert "too many files and connections are open" in done.stdout, done.stderr
    assert "fix: raise the limit, as with ulimit -n 1024" in done.stdout
    assert "permission" not in done.stdout


# Prints the error of a call; all but a few descriptors are taken once everything is loaded.
_NO_DESCRIPTOR = """
import asyncio, os, resource, sys
from pathlib import Path
from regauge.errors import RegaugeError
from regauge.history import find_store
from regauge.history._store import Store
from regauge.project import EndpointSettings, Project
from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.providers.remote import RemoteProvider

def take_all():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True: os.open(os.devnull, os.O_RDONLY)
    except OSError: pass

async def connect():
    settings = EndpointSettings(base_url=sys.argv[2], max_attempts=1)
    message = Message(role="user", content="?")
    request = CompletionRequest(
        model="m", provider="local", messages=(message,), parameters={}
    )
    for full in (False, True):
        provider = RemoteProvider(settings, name="local", environ={})
        if full: take_all()
        try: await provider.complete(request)
        finally: await provider.aclose()

def history():
    place = find_store(Project.find(Path.cwd()), {})
    Store(place)
    take_all()
    Store(place)

try:
    asyncio.run(connect()) if sys.argv[1] == "connect" else history()
except RegaugeError as error: print(error)
"""


@pytest.mark.parametrize("place", ["connect", "history"])
def test_a_call_without_descriptors_names_the_limit(
    live: EvalProject, endpoint: Endpoint, place: str
):
    live.run().assert_outcomes(passed=5)
    command = (_NO_DESCRIPTOR, place, endpoint.base_url)
    done = processes.run("-c", *command, cwd=live.root, env={**os.environ})
    assert done.stderr == "", done.stderr
    what, fix = done.stdout.splitlines()
    assert what.endswith(": too many files and connections are open")
    assert fix == "  fix: raise the limit, as with ulimit -n 1024, or lower --concurrency"
