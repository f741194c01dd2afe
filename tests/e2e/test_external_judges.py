"""Judges that are programs or web services: `command_judge` and `http_judge`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.labelled import write_labels
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conftest import EvalProject

PROGRAM = """\
import json, os, pathlib, sys, time
given = json.load(sys.stdin)
with open("started.txt", "a") as file:
    file.write(given["case"] + "\\n")
{body}
"""
BY_CASE = 'print(json.dumps({"pass": given["case"] != "disk-001", "reason": "by its case"}))'


def program(project: EvalProject, body: str = BY_CASE) -> str:
    project.write("judges/check.py", PROGRAM.replace("{body}", body))
    return f"[{sys.executable!r}, 'judges/check.py']"


def started(project: EvalProject) -> list[str]:
    path = project.root / "started.txt"
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(found)


@pytest.fixture
def project(live: EvalProject) -> EvalProject:
    live.golden([live.case(number) for number in range(3)])
    return live


def judged_by(project: EvalProject, judge: str, *, name: str = "test_triage") -> None:
    project.eval(
        "from regauge import golden\nfrom regauge.judges import *\n"
        f"from regauge.judges import command_judge, http_judge, panel\n\n"
        f"@golden('triage', judges=[min_chars(1), {judge}])\n"
        "def test_triage(result):\n    result.check()\n",
        name=name,
    )


def outcomes(project: EvalProject) -> dict[str, str]:
    return {row["case"]: row["outcome"] for row in project.rows()}


def test_a_program_judges_and_replays_without_a_process(project: EvalProject):
    command = program(project)
    judged_by(project, f"command_judge({command}, deterministic=True)")
    project.run().assert_outcomes(passed=2, failed=1)
    assert set(started(project)) == {"disk-000", "disk-001", "disk-002"}
    result = project.run("--record=none")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*command_judge(*by its case*"])
    assert started(project) == []


def test_a_changed_program_makes_its_verdicts_stale(project: EvalProject):
    judge = f"command_judge({program(project)}, deterministic=True)"
    judged_by(project, judge)
    project.run()
    started(project)
    program(project, "print('fail')\nprint('it is strict now')")
    replay = project.run("--record=none")
    assert replay.ret != 0
    assert set(outcomes(project).values()) == {"unmeasured"}
    assert started(project) == [], "a replay starts nothing"
    project.run("--record=missing").assert_outcomes(failed=3)


def test_without_records_a_replay_is_unmeasured_and_starts_nothing(project: EvalProject):
    judged_by(project, f"command_judge({program(project)}, deterministic=True)")
    project.prompt(model="sim:clerk-1")
    project.eval((project.root / "evals/test_triage.py").read_text(encoding="utf-8"))
    result = project.run("--record=none")
    assert result.ret != 0
    assert started(project) == []


def test_a_program_is_advisory_until_it_is_calibrated(project: EvalProject):
    command = program(project, 'print("pass" if "right" in given["output"] else "fail")')
    judged_by(project, f"command_judge({command}, name='strict')")
    result = project.run()
    result.assert_outcomes(passed=3)
    assert "strict (no calibration record), passed 0, failed 3" in result.stdout.str()
    rows: list[dict[str, Any]] = [
        {
            "id": f"l{number}",
            "inputs": {"text": "x"},
            "output": f"{'right' if number % 2 else 'wrong'} {number}",
            "label": "pass" if number % 2 else "fail",
            "author": "Ada",
        }
        for number in range(40)
    ]
    write_labels(project, rows, "strict")
    done = project.command("judges", "calibrate", "strict", "--repeats=1")
    assert (done.returncode, done.stderr) == (0, "")
    project.run().assert_outcomes(failed=3)


def test_a_deterministic_program_is_asked_twice_at_random(project: EvalProject):
    project.golden([project.case(number) for number in range(24)])
    judged_by(project, f"command_judge({program(project)}, deterministic=True)")
    project.run()
    calls = started(project)
    twice = {case for case in calls if calls.count(case) == 2}
    assert 0 < len(twice) < 24
    project.run("--record=none")
    assert started(project) == []


def test_a_program_that_is_not_deterministic_leaves_its_cases_unmeasured(project: EvalProject):
    project.golden([project.case(number) for number in range(24)])
    fickle = (
        "seen = pathlib.Path('seen-' + given['case'])\n"
        "print('fail' if seen.exists() else 'pass')\nseen.touch()"
    )
    judged_by(project, f"command_judge({program(project, fickle)}, deterministic=True)")
    result = project.run()
    assert result.ret != 0
    assert set(outcomes(project).values()) == {"passed", "unmeasured"}
    assert "is declared deterministic, and its verdicts on case" in result.stdout.str()


def programs(project: EvalProject, bodies: Iterable[str]) -> str:
    """A program that does something else in each golden case."""
    texts = {f"body-{number:02}": body for number, body in enumerate(bodies)}
    project.golden([project.case(0, id=name) for name in texts])
    return program(project, f"exec({texts!r}[given['case']])")


VERDICTS = [
    ("print(True)", "passed", "true"),
    ("print('pass\\nwell put')", "passed", "well put"),
    ("print('FAIL')", "failed", "false"),
    ("print(0.25)", "failed", "returned 0.25, 0.5 wanted"),
    ("print('1')", "passed", "returned 1"),
    ("sys.stdout.buffer.write(b'\\xef\\xbb\\xbffail')", "failed", "false"),
    ('print(\'{"score": 0.9, "reason": "good"}\')', "passed", "good"),
    ('print(\'{"pass": false, "score": 0.9, "reason": "bad"}\')', "failed", "bad"),
]


def test_a_verdict_is_json_or_a_word(project: EvalProject):
    command = programs(project, [body for body, _, _ in VERDICTS])
    judged_by(project, f"command_judge({command}, deterministic=True)")
    project.run()
    rows = sorted(project.rows(), key=lambda row: row["case"])
    for row, (body, outcome, reason) in zip(rows, VERDICTS, strict=True):
        assert (body, row["outcome"]) == (body, outcome)
        assert reason in row["verdicts"][1]["reason"], body


NO_VERDICTS = [
    ("sys.exit('no rules here')", "failed with exit status 1: no rules here"),
    ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    ("print('{\"pass\": tru')", "which is not a verdict"),
    ("print('maybe')", "'maybe', which is not a verdict"),
    ("pass", "responded with nothing"),
    ("print(7)", "returned 7.0"),
    ("print(-0.1)", "returned -0.1"),
    ("print('{\"score\": NaN}')", "returned {'score': nan}"),
    ('print(\'{"verdict": "good"}\')', "returned {'verdict': 'good'}"),
    ("print('[true]')", "returned [True]"),
    ("sys.stdout.buffer.write(b'\\xff\\xfe')", "is not UTF-8"),
    ("while True: sys.stdout.write('x' * 1_000_000)", "longer than 1,000,000 bytes"),
    ("print('x' * 50_000_000)", "longer than 1,000,000 bytes"),
]


def test_what_is_no_verdict_leaves_the_case_unmeasured(project: EvalProject):
    command = programs(project, [body for body, _ in NO_VERDICTS])
    judged_by(project, f"command_judge({command}, deterministic=True)")
    result = project.run()
    assert result.ret != 0
    assert NO_VERDICTS[0][1] in result.stdout.str()
    rows = sorted(project.rows(), key=lambda row: row["case"])
    for row, (body, message) in zip(rows, NO_VERDICTS, strict=True):
        assert (body, row["outcome"]) == (body, "unmeasured")
        assert message in row["cause"]["message"], body
    assert not (project.root / "fixtures/recordings/judges/triage.jsonl").exists()


def test_an_endless_program_is_stopped_with_all_that_it_started(project: EvalProject):
    project.golden([project.case(0)])
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('pids.txt').write_text(f'{os.getpid()} {child.pid}')\n"
        "time.sleep(600)"
    )
    judge = f"command_judge({program(project, body)}, deterministic=True, timeout_s=2)"
    judged_by(project, judge)
    began = time.monotonic()
    result = project.run()
    assert time.monotonic() - began < 60
    assert "did not end within 2 s and was stopped" in result.stdout.str()
    pids = (project.root / "pids.txt").read_text(encoding="utf-8").split()
    assert not [pid for pid in pids if is_running(pid)]


def test_what_a_program_leaves_behind_is_stopped_too(project: EvalProject):
    project.golden([project.case(0)])
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('pids.txt').write_text(str(child.pid))\nprint('pass')"
    )
    judged_by(project, f"command_judge({program(project, body)}, deterministic=True)")
    project.run().assert_outcomes(passed=1)
    [pid] = (project.root / "pids.txt").read_text(encoding="utf-8").split()
    assert not is_running(pid)


def is_running(pid: str) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("command", ["./missing", "judges/plain.txt", "no-such-program-anywhere"])
def test_a_program_that_cannot_be_started_is_named(project: EvalProject, command: str):
    project.write("judges/plain.txt", "text")
    project.golden([project.case(0)])
    judged_by(project, f"command_judge([{command!r}], deterministic=True)")
    result = project.run()
    assert outcomes(project) == {"disk-000": "unmeasured"}
    assert f"{command!r} cannot be started" in result.stdout.str()


def test_a_program_gets_named_variables_alone_and_none_is_recorded(
    project: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JUDGE_TOKEN", "s3cret-value-of-the-judge")
    monkeypatch.setenv("OTHER_TOKEN", "another-value")
    project.golden([project.case(0)])
    body = (
        'seen = sorted(name for name in os.environ if "TOKEN" in name)\n'
        'print(json.dumps({"pass": seen == ["JUDGE_TOKEN"], "reason": os.environ["JUDGE_TOKEN"]}))'
    )
    judge = f"command_judge({program(project, body)}, env=['JUDGE_TOKEN'], deterministic=True)"
    judged_by(project, judge)
    result = project.run()
    result.assert_outcomes(passed=1)
    kept = (project.root / "fixtures/recordings/judges/triage.jsonl").read_text(encoding="utf-8")
    assert "s3cret" not in kept + json.dumps(project.rows())
    monkeypatch.delenv("JUDGE_TOKEN")
    project.run("--record=none").assert_outcomes(passed=1)
    result = project.run("--record=all")
    assert "$JUDGE_TOKEN is not set" in result.stdout.str()


def test_declarations_that_make_no_sense_are_refused_at_collection(project: EvalProject):
    """Each in an eval of its own, so that one run shows all of them."""
    rows = [
        ("command_judge('node judge.js')", "command is a list of texts, not 'node judge.js'"),
        ("command_judge([])", "the command is empty"),
        ("command_judge(['x'], env=['A=B'])", "'A=B' is not a name of an environment variable"),
        ("command_judge(['x'], timeout_s=0)", "timeout_s is a number up to 3600, not 0"),
        ("command_judge(['x'], pass_at=2)", "pass_at is a number up to 1, not 2"),
        ("command_judge(['x'], files=['none.txt'])", "'none.txt' cannot be read"),
        ("http_judge('ftp://x/y')", "'ftp://x/y' is not an address"),
        ("http_judge('judge.example')", "is not an address"),
        ("http_judge('https://me:pw@x/y')", "holds a user name or a password"),
        ("http_judge('https://x/y', method='GET')", "no method 'GET'"),
        ("http_judge('https://x', headers={'A': 'Bearer abc'})", "not a name of an environment"),
        ("http_judge('https://x', headers={'A b': 'C'})", "'A b' is not a name of a header"),
    ]
    (project.root / "evals/test_triage.py").unlink()
    for number, (judge, _) in enumerate(rows):
        judged_by(project, judge, name=f"test_{number}")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = project.not_collected(result)
    assert [row for n, row in enumerate(rows) if row[1] not in said.get(f"test_{n}", "")] == []


def test_cases_name_programs_in_yaml(project: EvalProject):
    program(project)
    check = {
        "command_judge": {"command": [sys.executable, "judges/check.py"], "deterministic": True}
    }
    project.golden([project.case(number, checks=[check]) for number in range(3)])
    project.eval(
        "from regauge import golden\n\n@golden('triage')\ndef test_triage(result):\n"
        "    result.check()\n"
    )
    project.run().assert_outcomes(passed=2, failed=1)
    started(project)
    project.run("--record=none").assert_outcomes(passed=2, failed=1)
    assert started(project) == []


class Service(JsonHandler):
    """Says what `verdicts` holds next, and at the end the last of it again."""

    verdicts: list[tuple[int, Any, dict[str, str]]]
    seen: list[tuple[str, str, dict[str, str], Any]]

    def answer(self) -> None:
        given = self.given()
        self.seen.append((self.command, self.path, dict(self.headers), given))
        status, said, headers = self.verdicts[0]
        if len(self.verdicts) > 1:
            self.verdicts.pop(0)
        if said == "drip":
            self.send_response(200)
            self.end_headers()
            with suppress(BrokenPipeError):
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)
            return
        self.say(said, status=status, headers=headers)


@pytest.fixture
def service() -> Iterator[tuple[str, type[Service]]]:
    class Own(Service):
        verdicts = [(200, {"pass": True, "reason": "fine"}, {})]  # noqa: RUF012 - one per test
        seen = []  # noqa: RUF012 - as above

    with Served(Own) as served:
        yield served.address, Own


def test_a_web_service_judges_and_replays_without_a_connection(
    project: EvalProject, service: tuple[str, type[Service]], monkeypatch: pytest.MonkeyPatch
):
    address, own = service
    monkeypatch.setenv("JUDGE_AUTH", "Bearer s3cret-value")
    judge = (
        f"http_judge('{address}/v1/judge', headers={{'Authorization': 'JUDGE_AUTH'}},"
        " deterministic=True)"
    )
    judged_by(project, judge)
    project.run().assert_outcomes(passed=3)
    method, path, headers, given = own.seen[0]
    assert (method, path) == ("POST", "/v1/judge")
    assert headers["Authorization"] == "Bearer s3cret-value"
    assert headers["Content-Type"] == "application/json"
    assert set(given) == {"protocol", "output", "case", "inputs", "expected", "completion"}
    kept = (project.root / "fixtures/recordings/judges/triage.jsonl").read_text(encoding="utf-8")
    assert "s3cret" not in kept
    own.seen.clear()
    monkeypatch.delenv("JUDGE_AUTH")
    project.run("--record=none").assert_outcomes(passed=3)
    assert own.seen == []


def test_a_service_that_is_busy_is_asked_again(
    project: EvalProject, service: tuple[str, type[Service]]
):
    address, own = service
    project.golden([project.case(0)])
    own.verdicts = [
        (429, {"error": "busy"}, {"Retry-After": "0"}),
        (503, "down", {}),
        (200, {"score": 0.8}, {}),
    ]
    judged_by(project, f"http_judge('{address}', deterministic=True)")
    project.run().assert_outcomes(passed=1)
    assert len(own.seen) >= 3


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (401, {"error": "who are you"}, "status 401"),
        (200, b"{not json", "which is not a verdict"),
        (200, {"score": 7}, "returned {'score': 7}"),
        (200, b"x" * 50_000_000, "longer than 1,000,000 bytes"),
        (200, "drip", "no response within"),
    ],
)
def test_a_service_without_a_verdict_leaves_the_case_unmeasured(
    project: EvalProject,
    service: tuple[str, type[Service]],
    status: int,
    said: Any,
    message: str,
):
    address, own = service
    own.verdicts = [(status, said, {})]
    project.golden([project.case(0)])
    judged_by(project, f"http_judge('{address}', deterministic=True, timeout_s=1)")
    result = project.run()
    assert outcomes(project) == {"disk-000": "unmeasured"}
    assert message in result.stdout.str()


def test_redirects_are_not_followed(project: EvalProject, service: tuple[str, type[Service]]):
    address, own = service
    own.verdicts = [(302, None, {"Location": f"{address}/elsewhere"})]
    project.golden([project.case(0)])
    judged_by(project, f"http_judge('{address}', deterministic=True)")
    result = project.run()
    assert outcomes(project) == {"disk-000": "unmeasured"}
    assert f"this one goes to {address}/elsewhere" in result.stdout.str()
    assert {path for _, path, _, _ in own.seen} <= {"/", ""}


def test_a_service_that_is_not_there_is_named(project: EvalProject):
    project.golden([project.case(0)])
    judged_by(project, "http_judge('http://127.0.0.1:9/judge', deterministic=True, timeout_s=2)")
    result = project.run()
    assert outcomes(project) == {"disk-000": "unmeasured"}
    assert "POST http://127.0.0.1:9/judge: no connection" in result.stdout.str()
