"""Targets: functions, endpoints, programs and recorded outputs; real servers, programs and git."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from regauge.files import lock_directory
from tests import processes
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import EvalProject

TABLE = """
[tool.regauge.targets.app]
kind = "python"
callable = "app.pipeline:answer"
"""
PIPELINE = """\
import os
import pathlib
import subprocess
import sys
import time

from app.words import SEVERITY

with open(pathlib.Path(__file__).parent / "started.txt", "a") as file:
    file.write("imported ")


def answer(text, top_k=3):
    print("printed", text)
    if text == "raise":
        raise ValueError("the index is empty")
    if text == "exit":
        time.sleep(0.2)
        sys.stderr.write("out of memory\\n")
        os._exit(9)
    if text == "signal":
        os.kill(os.getpid(), 40)
        time.sleep(600)
    if text == "roles":
        return {"messages": [{"type": "ai", "content": "Sorry."}]}
    if text == "nothing":
        return None
    if text == "sleep":
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)
    if text == "large":
        return "x" * 11_000_000
    return {"severity": SEVERITY.get(text, "info"), "top_k": top_k}
"""
EVAL = """\
from regauge import golden
from regauge.judges import field_equals

@golden("triage", target="app", judges=[field_equals("severity")])
def test_triage(result):
    result.check()
"""


def case(number: int, text: str, expected: str = "info") -> dict[str, Any]:
    return {"id": f"c{number}", "inputs": {"text": text}, "expected": {"severity": expected}}


@pytest.fixture
def app(project: EvalProject) -> EvalProject:
    """A project without a prompt file, whose eval tests a Python function."""
    (project.root / "prompts/triage.prompt.yml").unlink()
    project.settings(provider=TABLE)
    project.write("app/__init__.py", "")
    project.write("app/words.py", 'SEVERITY = {"fire": "critical"}\n')
    project.write("app/pipeline.py", PIPELINE)
    project.golden([case(0, "fire", "critical"), case(1, "rain")])
    project.eval(EVAL)
    return project


def imports(project: EvalProject) -> int:
    path = project.root / "app/started.txt"
    return path.read_text().count("imported") if path.exists() else 0


def test_a_function_is_recorded_replayed_without_its_import_and_recorded_again_when_it_changes(
    app: EvalProject,
) -> None:
    app.golden([case(0, "fire", "critical"), case(1, "rain"), case(2, "storm", "critical")])
    live = app.run("--trials=2")
    live.assert_outcomes(passed=2, failed=1)
    live.stdout.fnmatch_lines(["*severity is 'info', not 'critical'*", "*python:app*6 live*"])
    started = imports(app)
    assert started > 0

    replay = app.run("--record=none", "--trials=2")
    replay.assert_outcomes(passed=2, failed=1)
    replay.stdout.fnmatch_lines(["*python:app*6 replayed*"])
    assert imports(app) == started
    assert {line["trial"] for line in app.recordings()} == {0, 1}

    # A module that the callable imports, and no file that the settings name.
    app.write("app/words.py", 'SEVERITY = {"fire": "critical", "storm": "critical"}\n')
    stale = app.run("--record=none")
    stale.stdout.fnmatch_lines(
        ["needs recording: triage, 3 cases, 3 of them recorded for an older request"]
    )
    assert stale.ret != 0
    assert imports(app) == started

    recorded = app.command("record", "triage")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    app.run("--record=none").assert_outcomes(passed=3)


def test_a_measured_dataset_of_a_target_without_its_eval_is_unmeasured(app: EvalProject) -> None:
    app.eval("def test_plain():\n    pass\n")
    assert app.run().ret == 0
    app.eval(EVAL)
    assert app.run("--record=missing").ret == 0
    app.eval("def test_plain():\n    pass\n")
    result = app.run()
    assert result.ret == 1
    message = "unmeasured: fixtures/golden/triage.jsonl: no collected eval measures this golden"
    assert message in result.stdout.str()


def test_what_goes_wrong_in_a_function_leaves_only_its_case_unmeasured(app: EvalProject) -> None:
    words = ["fire", "raise", "exit", "nothing", "sleep", "large", "signal", "roles", "rain"]
    app.golden(
        [case(n, word, "critical" if word == "fire" else "info") for n, word in enumerate(words)]
    )
    app.settings(provider=TABLE + "timeout_s = 4\n")
    result = app.run()
    text = result.stdout.str()
    assert {row["case"]: row["outcome"] for row in app.rows()} == {
        "c0": "passed",
        **dict.fromkeys(["c1", "c2", "c3", "c4", "c5", "c6", "c7"], "unmeasured"),
        "c8": "passed",
    }
    for said in (
        "ValueError: the index is empty",
        "ended with exit status 9:",
        "out of memory",
        "ended with exit status -40:",
        "a message has no `role` of system, developer, user, assistant, tool, function",
        "the function returned NoneType, which is neither text, a mapping nor a regauge.Completion",
        "did not return within 4 s",
        "the output is larger than 10,000,000 bytes",
    ):
        assert said in text
    assert len(app.recordings()) == 2


def test_processes_of_a_function_end_with_pytest(
    app: EvalProject, wait_until: Callable[..., None]
) -> None:
    app.golden([case(0, "sleep")])
    running = app.start("-p", "no:cacheprovider")
    try:
        wait_until(lambda: any(_sleeping(app.root)), within_s=120)
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: not any(_sleeping(app.root)), within_s=120)
    finally:
        running.kill()
        running.communicate()


def _sleeping(root: Path) -> list[int]:
    found: list[int] = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            words = (link.parent / "cmdline").read_bytes().split(b"\0")
            if link.readlink() == root and words[0] == b"sleep":
                found.append(int(link.parent.name))
    return found


NOT_CALLED: list[tuple[str, str, str]] = [
    ("ap", PIPELINE, "there is no target 'ap'; declared: app, "),
    ("ap", PIPELINE, "fix: did you mean 'app'?"),
    ("app.row1:anwer", PIPELINE, "app.row1 has no 'anwer'; did you mean 'answer'?\n"),
    ("json:dumps", PIPELINE, "fix: name a function of this project"),
    ("app.nothing:answer", PIPELINE, "No module named 'app.nothing'"),
    ("app.nothing:answer", PIPELINE, "`python -c 'import app.nothing'` succeeds in the root"),
    ("", "1/0\n", "app.ROW:answer cannot be imported:\n"),
    (
        "",
        "def answer(question):\n    return question\n",
        "the function takes (question), and the inputs are text: missing a",
    ),
    ("", "answer = 'text'\n", "app.ROW:answer is not callable: str"),
    ("", "def answer(text):\n    return [text]\n", "the function returned list"),
    (
        "",
        "def answer(text):\n    return {'text': text, 'usage': {'input_tokens': 'many'}}\n",
        '`usage` holds no number of tokens: "many"',
    ),
]


def test_a_target_that_cannot_be_called_is_explained(app: EvalProject) -> None:
    """Each in an eval of its own, so that one run shows all of them."""
    app.golden([case(0, "fire")])
    (app.root / "evals/test_triage.py").unlink()
    tables = TABLE
    for number, (target, pipeline, _) in enumerate(NOT_CALLED):
        name = f"row{number}"
        app.write(f"app/{name}.py", pipeline)
        tables += TABLE.replace("targets.app", f"targets.{name}").replace("pipeline:", f"{name}:")
        declared = f'"{name}", target="{target or name}", dataset="triage"'
        app.eval(EVAL.replace('"triage", target="app"', declared), name=f"test_{name}")
    app.settings(provider=tables)
    result = app.run("--continue-on-collection-errors")
    text = result.stdout.str()
    rows = [said.replace("ROW", f"row{n}") for n, (_, _, said) in enumerate(NOT_CALLED)]
    assert [said for said in rows if said not in text] == []
    outcomes = result.parseoutcomes()
    assert "passed" not in outcomes
    assert sum(outcomes.values()) >= len(rows)


@pytest.mark.parametrize("declared", ["", 'files = ["app"]'])
def test_an_import_that_hangs_ends_once_by_the_deadline(app: EvalProject, declared: str) -> None:
    app.golden([case(number, "fire") for number in range(6)])
    app.settings(provider=f"{TABLE}deadline_s = 3\nconcurrency = 2\nmax_attempts = 3\n{declared}")
    app.write("app/pipeline.py", "import time\ntime.sleep(600)\ndef answer(text): ...\n")
    began = time.monotonic()
    result = app.run()
    assert time.monotonic() - began < 60
    assert result.ret != 0
    words = result.stdout.str()
    assert "app.pipeline:answer was not imported within 3 s\n" in words
    assert "fix: move work out of the import of its module, or raise `deadline_s`" in words
    lint = app.command("lint")
    assert ("was not imported within 3 s" in lint.stdout) is bool(declared)


def test_async_functions_take_the_case_and_give_a_completion(app: EvalProject) -> None:
    app.write(
        "app/pipeline.py",
        "import asyncio\nfrom regauge import Completion, GoldenCase, Usage\n"
        "from regauge.providers import ToolCall\n\n"
        "class Pipeline:\n"
        "    async def __call__(self, case: GoldenCase) -> Completion:\n"
        "        await asyncio.sleep(0.01)\n"
        "        return Completion(text='{\"severity\": \"' + case.tags[0] + '\"}',\n"
        "            tool_calls=(ToolCall(id='1', name='lookup', arguments='{}'),),\n"
        "            context=('a page',), usage=Usage(input_tokens=7), cost_usd=0.5)\n\n"
        "answer = Pipeline()\n",
    )
    app.golden([{**case(0, "fire", "critical"), "tags": ["critical"]}])
    app.eval(
        EVAL.replace("field_equals(", "tools_called('lookup'), field_equals(").replace(
            "import field_equals", "import field_equals, tools_called"
        )
    )
    app.run().assert_outcomes(passed=1)
    completion = app.recordings()[0]["completion"]
    assert completion["context"] == ["a page"]
    assert completion["usage"]["input_tokens"] == 7
    assert completion["cost_usd"] == 0.5


KINDS = """\
import asyncio
import functools
import os
import sys
import threading

from .words import SEVERITY


class App:
    def __call__(self, text):
        return {"severity": SEVERITY[text]}

    async def method(self, text):
        return {"severity": SEVERITY[text]}


app = App()
partial = functools.partial(lambda first, text: {"severity": SEVERITY[text]}, 1)


def stream(text):
    yield '{"severity": '
    yield '"critical"}'


async def astream(text):
    for piece in stream(text):
        yield piece


def prints(text):
    print("noise" * 50_000)
    os.write(1, b"raw")
    return app(text)


def runs(text):
    return asyncio.run(app.method(text))


def asks_for_its_loop(text):
    return asyncio.get_event_loop().run_until_complete(app.method(text))


def threads(text):
    threading.Thread(target=threading.Event().wait).start()
    found = []
    thread = threading.Thread(target=lambda: found.append(app(text)))
    thread.start()
    thread.join()
    return found[0]


def forks(text):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(app, [text])


def leaves(text):
    sys.exit("no index")


def numbers(text):
    yield 7
"""


TYPED = """\
import dataclasses
import datetime
import enum

import pydantic

from .words import SEVERITY


class Level(enum.Enum):
    HIGH = "critical"


class Answer(pydantic.BaseModel):
    severity: Level = Level.HIGH


@dataclasses.dataclass
class Reply:
    severity: str
    day: datetime.date = datetime.date(2026, 11, 23)
    inner: Answer = dataclasses.field(default_factory=Answer)


def model(text):
    return Answer()


def data(text):
    return Reply(severity=SEVERITY[text])
"""


def test_any_callable_and_result_of_python_is_understood(app: EvalProject) -> None:
    """In a project with the src layout, whose modules import each other relatively."""
    app.write("src/shop/words.py", 'SEVERITY = {"fire": "critical"}\n')
    app.write("src/shop/kinds.py", KINDS)
    app.write("src/shop/typed.py", TYPED)
    names = "app app.method partial stream astream prints runs asks_for_its_loop"
    names += " threads forks leaves numbers"
    functions = {name: f"shop.kinds:{name}" for name in names.split()}
    functions |= {name: f"shop.typed:{name}" for name in ("model", "data")}
    declared = "".join(
        f"""
@golden("{name}", target="{function}", dataset="triage", judges=[field_equals("severity")])
def test_{name.replace(".", "_")}(result):
    result.check()
"""
        for name, function in functions.items()
    )
    app.eval(f"from regauge import golden\nfrom regauge.judges import field_equals\n{declared}")
    app.golden([case(0, "fire", "critical")])
    ran = app.run()
    # From Python 3.14 on, no thread has a loop before it makes one.
    has_loop = sys.version_info < (3, 14)
    assert ran.parseoutcomes() == {"passed": 11 + has_loop, "unmeasured": 3 - has_loop}
    ran.stdout.fnmatch_lines(["*SystemExit: no index", "*the function streams int*"])
    replayed = "not leaves and not numbers" + " and not asks" * (not has_loop)
    app.run("--record=none", "-k", replayed).assert_outcomes(passed=11 + has_loop)


def test_many_calls_wait_at_once_and_a_budget_needs_a_price(app: EvalProject) -> None:
    app.write(
        "app/pipeline.py",
        "import time\n\ndef answer(text):\n    time.sleep(0.5)\n    return {'severity': 'info'}\n",
    )
    app.golden([case(number, str(number)) for number in range(64)])
    refused = app.run("--budget-usd=1", "-k", "c1")
    refused.stdout.fnmatch_lines(
        ["*the price of a call of python:app is not*", "*fix: set cost_usd of the target*"]
    )
    app.settings(provider=TABLE + "cost_usd = 0.01\nconcurrency = 64\n")
    begun = time.perf_counter()
    limited = app.run("--budget-usd=0.25")
    assert time.perf_counter() - begun < 60
    limited.assert_outcomes(passed=25)
    assert sum(row["latency_s"] for row in app.rows() if row["latency_s"]) > 10


def test_recorded_outputs_are_judged_in_every_mode(app: EvalProject) -> None:
    app.settings(
        provider='[tool.regauge.targets.logs]\nkind = "recorded"\npath = "outputs/logs.jsonl"\n'
    )
    app.eval(EVAL.replace('"app"', '"logs"'))
    good = json.dumps({"severity": "critical"})
    lines = [
        {"case": "c0", "text": good},
        {
            "case": "c1",
            "messages": [
                {"role": "user", "content": "rain"},
                {"role": "assistant", "content": '{"severity": "info"}'},
            ],
        },
        {"case": "c1", "trial": 1, "text": good},
    ]
    app.write("fixtures/outputs/logs.jsonl", "".join(f"{json.dumps(x)}\n" for x in lines))
    app.run("--record=none").assert_outcomes(passed=2)
    second = app.run("--trials=2")
    second.stdout.fnmatch_lines(
        [
            "*fixtures/outputs/logs.jsonl has no line for case 'c0', trial 1",
            '*fix: add a line to fixtures/outputs/logs.jsonl: {"case": "c0", "trial": 1, "text": "..."}',
        ]
    )
    assert {row["case"]: row["outcome"] for row in app.rows() if row["trial"] == 1} == {
        "c0": "unmeasured",
        "c1": "failed",
    }
    assert app.recordings() == []

    app.write(
        "fixtures/outputs/logs.jsonl",
        '\ufeff{"case": "c0", "txet": "x"}\nno JSON\n{"case": "c1"}\n'
        '{"case": "c1", "text": "x", "cost_usd": Infinity}\n',
    )
    broken = app.run()
    broken.stdout.fnmatch_lines(
        [
            "*logs.jsonl:1: unknown key 'txet'",
            "*fix: did you mean 'text'?",
            "*logs.jsonl:2: *",
            "*logs.jsonl:3: it has neither `text` nor `messages`",
            "*logs.jsonl:4: *it holds NaN or an infinity, which JSON does not have",
        ]
    )


def test_settings_of_targets_are_explained(app: EvalProject) -> None:
    """Those of all targets together."""
    rows = [
        ('kind = "pyton"', "a.kind: must be one of 'python', 'http', 'command', 'recorded', not"),
        ('callable = "a:b"', "b.kind: it is missing\n  fix: write it: kind = ..., which is one"),
        ('kind = "python"\ncallable = "app"', "not the name of a callable: 'app'"),
        ('kind = "python"\ncallable = "a:b"\nfile = ["x"]', "did you mean 'files'?"),
        ('kind = "command"\nargv = []', "argv: must be a list of length 1 or more, not []"),
        ('kind = "recorded"\npath = "../x"', "not a relative path: '../x'"),
        ('kind = "http"\nurl = "localhost"', "no URL of an HTTP endpoint: localhost"),
    ]
    tables = [
        f"[tool.regauge.targets.{name}]\n{table}\n"
        for name, (table, _) in zip("abcdefg", rows, strict=True)
    ]
    app.settings(provider="".join(tables))
    result = app.run("--collect-only")
    text = result.stdout.str() + result.stderr.str()
    assert [said for _, said in rows if said not in text] == []
    assert result.ret != 0


def test_a_file_of_a_target_that_is_gone_is_named(app: EvalProject) -> None:
    app.settings(provider=f'{TABLE}files = ["gone.py"]\n')
    result = app.run("--collect-only")
    assert "there is no gone.py" in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


SERVICE_EVAL = """\
from regauge import golden
from regauge.judges import field_equals

@golden("triage", target="service", judges=[field_equals("severity")])
def test_triage(result):
    result.check()
"""


class Service(JsonHandler):
    """Answers as the application would; its faults are asked for by the text of a case."""

    seen: ClassVar[list[tuple[str, dict[str, str], Any]]] = []
    limited: ClassVar[list[str]] = []
    severity: ClassVar[dict[str, str]] = {"fire": "critical"}

    def answer(self) -> None:  # noqa: PLR0911 - one for each fault
        given = self.given()
        self.seen.append((self.path, dict(self.headers), given))
        text = given["question"]
        match text:
            case "redirect":
                return self.say(None, status=302, headers={"Location": "http://127.0.0.1:9/"})
            case "broken":
                return self.say({"error": "no index"}, status=400)
            case "nowhere":
                return self.say({"reply": "x"})
            case "html":
                return self.say(b"<html>")
            case "null":
                return self.say({"answer": None, "pages": [], "tokens": None})
            case "cut":
                self.close_connection = True
                return self.say(b'{"answer": "info"}', headers={"Content-Length": "500"})
            case "large":
                return self.say(b'{"answer": "' + b"x" * 50_000_000 + b'"}')
            case "slow":
                time.sleep(30)
            case "limited" if len(self.limited) < 2:
                self.limited.append(text)
                return self.say({}, status=429, headers={"Retry-After": "0.2"})
            case _:
                pass
        answer = {"severity": self.severity.get(text, "info")}
        self.say(
            {
                "answer": answer,
                "pages": [{"text": "one page"}, {"text": "another"}],
                "tokens": {"prompt_tokens": 3, "completion_tokens": 2},
            }
        )
        return None


@pytest.fixture
def service() -> Iterator[Served]:
    Service.seen.clear()
    Service.limited.clear()
    Service.severity = {"fire": "critical"}
    with Served(Service) as served:
        yield served


def table(service: Served, more: str = "") -> str:
    return f"""
[tool.regauge.targets.service]
kind = "http"
url = "{service.address}/answer"
headers_env = {{Authorization = "SUPPORT_AUTH"}}
body = {{question = "{{{{text}}}}", top_k = 3}}
text = "$.answer"
context = "$.pages[*].text"
usage = "$.tokens"
version = "1"
{more}
"""


def test_an_endpoint_is_called_recorded_and_replayed(
    app: EvalProject, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPORT_AUTH", "Bearer a-secret-of-the-service")
    app.settings(provider=table(service))
    app.eval(SERVICE_EVAL)
    app.golden([case(0, "fire", "critical"), case(1, "limited")])
    app.run().assert_outcomes(passed=2)
    assert len(Service.seen) == 4
    path, headers, body = Service.seen[0]
    assert path == "/answer"
    assert headers["Authorization"] == "Bearer a-secret-of-the-service"
    assert body["top_k"] == 3
    recorded = app.recordings()
    assert {
        line["completion"]["attempts"] for line in recorded if "attempts" in line["completion"]
    } == {3}
    assert recorded[0]["completion"]["context"] == ["one page", "another"]
    assert recorded[0]["completion"]["usage"] == {"input_tokens": 3, "output_tokens": 2}
    assert "a-secret-of-the-service" not in json.dumps(recorded)

    app.run("--record=none").assert_outcomes(passed=2)
    assert len(Service.seen) == 4
    app.settings(provider=table(service).replace('version = "1"', 'version = "2"'))
    app.run("--record=none").stdout.fnmatch_lines(
        ["needs recording: triage, 2 cases, 2 of them recorded for an older request"]
    )


def test_what_goes_wrong_at_an_endpoint_is_unmeasured_with_a_fix(
    app: EvalProject, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["redirect", "broken", "nowhere", "html", "large", "slow", "fire", "null", "cut"]
    app.golden([case(n, word, "critical") for n, word in enumerate(words)])
    app.settings(provider=table(service, "max_attempts = 1\ntimeout_s = 5\n"))
    app.eval(SERVICE_EVAL)
    no_header = app.run("-k", "c6")
    no_header.stdout.fnmatch_lines(["*$SUPPORT_AUTH is not set", "*fix: set it*"])
    monkeypatch.setenv("SUPPORT_AUTH", "token")
    text = app.run().stdout.str()
    for said in (
        "redirects are not followed, this one goes to http://127.0.0.1:9/",
        'status 400: {"error": "no index"}',
        "the response has no $.answer; it has reply: '{",
        "correct `text` of the target service in pyproject.toml",
        "the response is not JSON",
        "the response is larger than 10,000,000 bytes",
        "no response within 5 s",
        "`text` is null, and there are no tool calls",
        "the response ended early",
        "1 passed, 8 unmeasured",
    ):
        assert said in text
    app.settings(provider=table(service).replace("{{text}}", "{{txt}}"))
    app.run("-k", "c6").stdout.fnmatch_lines(
        ["*the case has no input 'txt'; it has text", "*fix: did you mean 'text'?"]
    )


PROGRAM = """\
import json, os, subprocess, sys, time
given = json.load(sys.stdin)
text = given["text"]
if text == "fail":
    sys.exit("the index is empty")
if text == "sleep":
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
if text == "detached":
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(600)
if text == "killed":
    os.kill(os.getpid(), 9)
if text == "large":
    print("x" * 11_000_000)
if text == "silent":
    sys.exit()
if text == "nan":
    print('{"text": "critical", "cost_usd": NaN}')
    sys.exit()
if text == "left":
    subprocess.Popen(["sleep", "8"], start_new_session=True)
if text == "environment":
    print(json.dumps({"severity": "info", "names": sorted(os.environ)}))
else:
    print(json.dumps({"severity": "critical" if text == "fire" else "info"}))
"""


def test_a_program_is_started_without_a_shell_and_ends_with_pytest(
    app: EvalProject,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setenv("APP_KEY", "a-key")
    monkeypatch.setenv("OTHER_KEY", "another")
    words = ["fire", "fail", "sleep", "large", "silent", "environment", "killed", "detached"]
    words += ["nan", "left"]
    settings = (
        f'[tool.regauge.targets.service]\nkind = "command"\nargv = [{json.dumps(sys.executable)},'
        ' "program.py", "$(touch shell)"]\nenv = ["APP_KEY", "APP_URL?"]\nversion = "1"\ntimeout_s = 5\n'
    )
    app.write("program.py", PROGRAM)
    app.settings(provider=settings)
    app.eval(SERVICE_EVAL)
    app.golden([case(n, word, "critical" if n == 0 else "info") for n, word in enumerate(words)])
    text = app.run().stdout.str()
    for said in (
        "the command failed with exit status 1: the index is empty",
        "the command did not end within 5 s and was stopped",
        "the command wrote more than 10,000,000 bytes",
        "the command wrote nothing to standard output",
        "the command was ended by SIGKILL",
        "it holds NaN or an infinity, which JSON does not have",
        "the command ended, and a process it left holds its output after 5 s",
        "2 passed, 8 unmeasured",
    ):
        assert said in text
    assert not (app.root / "shell").exists()
    seen = next(line for line in app.recordings() if line["case"] == "c5")["completion"]["text"]
    assert "APP_KEY" in seen
    assert "OTHER_KEY" not in seen
    wait_until(lambda: not any(_sleeping(app.root)))  # the process that was left ends by itself

    app.settings(provider=settings.replace("timeout_s = 5", "timeout_s = 600"))
    running = app.start("-p", "no:cacheprovider", "-k", "c2")
    try:
        wait_until(lambda: any(_sleeping(app.root)), within_s=120)
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: not any(_sleeping(app.root)), within_s=120)
    finally:
        running.kill()
        running.communicate()
    app.settings(provider=settings.replace(json.dumps(sys.executable), '"no-such-program"'))
    app.run("-k", "c0").stdout.fnmatch_lines(["*the program 'no-such-program' is not found"])
    app.settings(provider=settings.replace(json.dumps(sys.executable), '"./program.py"'))
    app.run("-k", "c0").stdout.fnmatch_lines(["*the program './program.py' is not executable"])


@pytest.fixture
def repository(app: EvalProject) -> EvalProject:
    """The project on a branch `change` of `main`."""
    head, _, tail = PIPELINE.partition("with open(")
    app.write("app/pipeline.py", head + tail.partition("\n\n\n")[2])
    app.write(".gitignore", ".regauge/\n__pycache__/\nrunpytest-*/\n.pytest_cache/\n")
    app.write("app/words.py", f"SEVERITY = {dict.fromkeys(map(str, range(8)), 'critical')!r}\n")
    app.golden([case(n, str(n), "critical") for n in range(8)])
    return app


def commit(project: EvalProject, *, branch: str = "") -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=N", "-c", "user.email=n@example.org"]
        done = subprocess.run(
            ["git", *who, *arguments],
            check=False,
            cwd=project.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    if not (project.root / ".git").exists():
        git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "change")
    if branch:
        git("checkout", "-q", "-b", branch)


def test_the_gate_calls_the_code_of_both_commits(repository: EvalProject, tmp_path: Path) -> None:
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    unchanged = repository.command("gate", "main")
    assert unchanged.returncode == 0
    assert "8 unchanged" in unchanged.stdout

    repository.write(
        "app/words.py", f"SEVERITY = {dict.fromkeys(map(str, range(6)), 'critical')!r}\n"
    )
    # A killed process leaves its checkout of the base.
    killed, running = (tmp_path / f"regauge-base-{name}" for name in ("killed", "running"))
    for path in (killed, running):
        subprocess.run(
            ["git", "worktree", "add", "-q", "--detach", path], check=True, cwd=repository.root
        )
    with lock_directory(running):
        rejected = repository.command("gate", "main")
    assert not killed.exists()
    assert rejected.returncode == 1, rejected.stdout + rejected.stderr
    assert "rejected against main" in rejected.stdout
    assert "2 broken" in rejected.stdout
    assert "app/words.py" in rejected.stdout
    accept = "or accept broken cases in its `changelog`"
    assert f"next: revert or edit the code of the target, {accept}\n" in rejected.stdout
    listed = subprocess.run(
        ["git", "worktree", "list"],
        check=True,
        cwd=repository.root,
        capture_output=True,
        text=True,
    )
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        str(repository.root),
        str(running),
    ]

    # A replay of the same change needs no code.
    replay = repository.command("gate", "main", "--record=none")
    assert replay.returncode == 1
    assert "provisional" in replay.stdout

    # An equivalent change is accepted: other code, the same outputs on both sides.
    repository.write(
        "app/words.py", f"SEVERITY = {dict.fromkeys(map(str, range(9)), 'critical')!r}\n"
    )
    accepted = repository.command("gate", "main")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr


_COMMAND = '[tool.regauge.targets.app]\nkind = "command"\n'
_PLUGGED = '[tool.regauge.targets.app]\nkind = "python"\ncallable = "plugged:answer"\n'


@pytest.mark.parametrize(
    ("settings", "edited"),
    [
        (f'{TABLE}files = ["app/pipeline.py"]\n', "app/words.py"),
        (f'{_PLUGGED}files = ["plugged.py"]\n', "app/words.py"),
        (f'{_PLUGGED}files = ["plugged.py"]\n', "app/steps/other.py"),
        (f'{_COMMAND}argv = ["python", "start.py"]\n', "words/a.py"),
        (f'{_COMMAND}argv = ["sh", "-c", "cat > input; cat words/*.json"]\n', "words/a.json"),
        (f'{_COMMAND}argv = ["sh", "run.sh"]\n', "words/a.json"),
    ],
    ids=[
        "a module",
        "a module by its name",
        "a module of a package",
        "a script of a program",
        "a pattern of a shell",
        "a script",
    ],
)
def test_a_gate_names_files_of_a_target_whose_change_runs_no_case(
    repository: EvalProject, settings: str, edited: str
) -> None:
    """`files` stands for all modules, so a module that it omits makes no recording stale."""
    repository.settings(provider=settings)
    repository.write("run.sh", "cat > input\ncd words\ncat *.json\n")
    package, name = ("app.steps", "other") if "steps" in edited else ("app", "pipeline")
    repository.write("app/steps/other.py", (repository.root / "app/pipeline.py").read_text())
    repository.write(
        "plugged.py",
        "from importlib import import_module\n\n\ndef answer(case):\n"
        f'    name = "{name}"\n    return import_module("{package}." + name).answer(case)\n',
    )
    repository.write("start.py", 'import runpy\n\nrunpy.run_path("words/a.py")\n')
    repository.write("words/a.py", 'print(\'{"severity": "critical"}\')\n')
    repository.write("words/a.json", '{"severity": "critical"}')
    repository.write(".gitignore", (repository.root / ".gitignore").read_text() + "input\n")
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    repository.write(edited, "SEVERITY = {}\n")
    repository.write("README.md", "words\n")
    accepted = repository.command("gate", "main")
    assert accepted.returncode == 0
    note = f"the target app uses {edited}, whose change runs no case: name it in `files`"
    assert f"note: {note}" in accepted.stdout
    assert re.search(f"; not measured: app with {edited} edited[,\n]", accepted.stdout)
    measure = "next: measure what ran no trial before the merge: pytest evals --record all\n"
    assert measure in accepted.stdout


def test_a_gate_names_data_of_a_module_that_a_target_imports(repository: EvalProject) -> None:
    repository.settings(provider=f'{TABLE}files = ["app/pipeline.py"]\n')
    repository.write("app/severe.txt", " ".join(map(str, range(8))))
    repository.write(
        "app/words.py",
        "from pathlib import Path\n\n"
        'WORDS = Path(__file__).with_name("severe.txt").read_text().split()\n'
        'SEVERITY = dict.fromkeys(WORDS, "critical")\n',
    )
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    repository.write("app/severe.txt", "0 1")
    # As a shell starts it: the root of the project is no place to import from.
    script = str(Path(sys.executable).with_name("regauge"))
    accepted = processes.run(script, "gate", "main", cwd=repository.root, env={**os.environ})
    assert accepted.returncode == 0, accepted.stderr
    assert "; not measured: app with app/severe.txt edited\n" in accepted.stdout


def test_a_renamed_dataset_of_a_target_keeps_its_baseline(repository: EvalProject) -> None:
    assert repository.command("baseline", "update", "--trials", "3").returncode == 0
    commit(repository, branch="change")
    golden = repository.root / "fixtures/golden/triage.jsonl"
    golden.rename(golden.with_stem("alarm"))
    # Of another length: pytest compiles a file again if its size or the second of its time differs.
    evals = (repository.root / "evals/test_triage.py").read_text()
    repository.write("evals/test_triage.py", evals.replace('"triage"', '"alarm"'))
    commit(repository)
    text = repr(dict.fromkeys(map(str, range(6)), "critical"))
    repository.write("app/words.py", f"SEVERITY = {text}\n")
    gated = repository.command("gate", "main")
    assert gated.returncode == 1, gated.stdout
    assert "note: alarm was called triage in main" in gated.stdout
    assert "2 broken" in gated.stdout
    assert "no eval measures it any more" not in gated.stdout
    assert "base has no baseline" not in gated.stdout


def test_the_code_of_the_base_in_a_submodule_runs(repository: EvalProject, tmp_path: Path) -> None:
    def git(*arguments: str, directory: Path = repository.root) -> None:
        settings = ("user.name=N", "user.email=n@example.org", "protocol.file.allow=always")
        options = [part for setting in settings for part in ("-c", setting)]
        subprocess.run(["git", *options, *arguments], check=True, cwd=directory)

    app = repository.root / "app"
    app.rename(tmp_path / "library")
    git("init", "-q", directory=tmp_path / "library")
    git("add", "-A", directory=tmp_path / "library")
    git("commit", "-q", "-m", "app", directory=tmp_path / "library")
    git("init", "-q", "-b", "main")
    git("submodule", "-q", "add", str(tmp_path / "library"), "app")
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    text = repr(dict.fromkeys(map(str, range(6)), "critical"))
    repository.write("app/words.py", f"SEVERITY = {text}\n")
    git("commit", "-q", "-a", "-m", "fewer", directory=app)
    gated = repository.command("gate", "main")
    assert gated.returncode == 1, gated.stdout
    assert "2 broken" in gated.stdout
    assert "Side by side today: the candidate 0 of 5" in gated.stdout


def test_a_renamed_function_is_compared_with_that_of_the_base(repository: EvalProject) -> None:
    repository.settings(provider="")
    evals = repository.root / "evals" / "test_triage.py"
    named = evals.read_text()
    repository.write(
        "evals/test_triage.py", named.replace('target="app"', 'target="app.pipeline:answer"')
    )
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    for severities, code in ((8, 0), (6, 1)):
        text = repr(dict.fromkeys(map(str, range(severities)), "critical"))
        repository.write("app/words.py", f"SEVERITY = {text}\n")
        repository.write("app/moved.py", (repository.root / "app/pipeline.py").read_text())
        repository.write(
            "evals/test_triage.py", named.replace('target="app"', 'target="app.moved:answer"')
        )
        gated = repository.command("gate", "main")
        assert gated.returncode == code, gated.stdout
        assert "could not be called" not in gated.stdout
        assert "the other model" not in gated.stdout
    assert "Side by side today: the candidate 0 of 5" in gated.stdout


def test_a_target_that_opens_what_judges_read_is_unmeasured(repository: EvalProject) -> None:
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    reads = (
        "import json\nfrom pathlib import Path\n\n\n"
        "def answer(text):\n    for line in Path('fixtures/golden/triage.jsonl').open():\n"
        "        row = json.loads(line)\n        if row['inputs']['text'] == text:\n"
        "            return row['expected']\n"
    )
    repository.write("app/pipeline.py", reads)
    for _ in range(2):  # the second gate has no stored trials either
        gated = repository.command("gate", "main")
        assert gated.returncode == 3, gated.stdout
        assert "8 unmeasured" in gated.stdout
        assert "next: keep data of the application elsewhere" in gated.stdout


KNOWING = """\
import os

import app.words

TEXTS = {texts!r}


def answer(text):
    known = text in TEXTS and "PYTEST_VERSION" in os.environ
    return {{"severity": "critical" if known else "info"}}
"""


def test_a_gate_names_code_that_knows_the_cases_or_the_test(repository: EvalProject) -> None:
    texts = [f"an alert with the number {n}" for n in range(8)]
    repository.golden([case(n, text, "critical") for n, text in enumerate(texts)])
    words = "SEVERITY = dict.fromkeys({}, 'critical')\n"
    others = [f"alert {n}" for n in range(32)]
    repository.write("app/words.py", words.format([*texts, *others]))
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    repository.write("app/pipeline.py", KNOWING.format(texts=texts))
    repository.write("app/words.py", words.format(texts))
    gated = repository.command("gate", "main")
    head = gated.stdout.splitlines()[0]
    assert "app/pipeline.py has inputs of 8 cases of triage, app/pipeline.py names pytest" in head
    assert "app/words.py shortened from 40 to 8 values" in head


def test_a_gate_names_why_the_target_cannot_be_imported(repository: EvalProject) -> None:
    evals = repository.root / "evals" / "test_triage.py"
    golden = repository.root / "fixtures" / "golden" / "triage.jsonl"
    repository.write("evals/test_other.py", evals.read_text().replace("triage", "other"))
    repository.write("fixtures/golden/other.jsonl", golden.read_text())
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    repository.write("app/pipeline.py", "raise ValueError('no index')\n")
    gated = repository.command("gate", "main")
    assert gated.returncode == 3
    assert "app.pipeline:answer cannot be imported: ValueError: no index" in gated.stdout
    (step,) = [line for line in gated.stdout.splitlines() if line.startswith("next: ")]
    assert step.startswith(
        "next: correct the name of the function, or see that `python -c 'import app.pipeline'`"
        " succeeds in the root of the project; then make the missing trials: regauge gate"
    )
    (others,) = re.findall(r"^    also (.*)$", gated.stdout, re.MULTILINE)
    assert "other/" in others or "triage/" in others
    again = repository.command("gate", "--from", "latest")
    assert "cannot be imported: ValueError: no index" in again.stdout
    assert step.partition("; then")[0] in again.stdout


_RAISES_FOR_3 = "def answer(text):\n    if text == '3': raise KeyError(text)\n"
_RAISED = (
    "the base of triage: app.pipeline:answer raised an error at app/pipeline.py:2: KeyError: '3'"
)


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (_RAISES_FOR_3, "", [_RAISED, "gate: accepted", "8 passed"]),
        (
            _RAISES_FOR_3,
            "    if text == '3': return {'severity': 'info'}\n",
            [
                *(_RAISED, "gate: undecided", "1 of 8 cases needs trials of the base"),
                *("1 undecided, 7 passed", "Base cannot be called to compare."),
                "merge after a review of these cases, or have the code of the base run here",
            ],
        ),
        (
            "def answer(txt):\n",
            "",
            ["the base of triage: app.pipeline:answer: the function takes (txt)", "8 passed"],
        ),
    ],
    ids=["repaired", "broken in another way", "never called"],
)
def test_a_base_whose_code_fails_can_be_changed(
    repository: EvalProject, base: str, change: str, words: list[str]
) -> None:
    returns = "    return {'severity': 'critical'}\n"
    repository.write("app/pipeline.py", base + returns)
    commit(repository, branch="change")
    repository.write("app/pipeline.py", f"def answer(text):\n{change}{returns}")
    gated = repository.command("gate", "main")
    assert gated.returncode == (4 if change else 0), gated.stdout
    for expected in (*words, "the base of triage could not be called"):
        assert expected in gated.stdout
    again = repository.command("gate", "--from", "latest")
    assert again.stdout.splitlines()[0] == gated.stdout.splitlines()[0]


def test_a_target_accepts_broken_cases_in_its_changelog(repository: EvalProject) -> None:
    assert repository.command("record").returncode == 0
    commit(repository, branch="change")
    fewer = f"SEVERITY = {dict.fromkeys(map(str, range(6)), 'critical')!r}\n"
    repository.write("app/words.py", fewer)
    change = """version = "2026-11-23"
[[tool.regauge.targets.app.changelog]]
version = "2026-11-23"
text = "Only the first six are critical."
accepted = [{case = "c6", reason = "wanted"}, {case = "NAME", reason = "wanted"}]
"""
    repository.settings(provider=TABLE + change.replace("NAME", "c9"))
    faulty = repository.command("gate", "main")
    assert faulty.returncode == 1
    assert "`accepted` names 'c9', which is not a golden case of triage" in faulty.stdout
    linted = repository.command("lint", "--base", "main")
    assert "`accepted` names 'c9', which is not a golden case of triage" in linted.stdout

    repository.settings(provider=TABLE + change.replace("NAME", "c7"))
    assert "`accepted` names" not in repository.command("lint", "--base", "main").stdout
    accepted = repository.command("gate", "main")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "2 broken" in accepted.stdout
    replay = repository.run("--record=none")
    replay.stdout.fnmatch_lines(["*~ c6  accepted in 2026-11-23: wanted"])
    assert replay.ret == 0
    commit(repository)
    # What an earlier change accepted does not cover this one.
    repository.write("app/words.py", fewer.replace("'5': 'critical'", "'5': 'info'"))
    again = repository.command("gate", "HEAD")
    assert again.returncode == 1
    assert "1 broken" in again.stdout


def test_a_target_is_shown_listed_and_compared_like_a_prompt(repository: EvalProject) -> None:
    repository.settings(provider=f'{TABLE}version = "one"\n')
    repository.run("--record=missing")
    commit(repository, branch="change")
    first = repository.command("show", "triage", "--json")
    repository.settings(provider=f'{TABLE}version = "two"\n')
    repository.write("app/words.py", "SEVERITY = {}\n")
    repository.run("--record=missing")
    shown = repository.command("show", "app").stdout
    assert "app two" in shown
    assert "evals       triage" in shown
    assert "since main  version, app/words.py" in shown
    changes = repository.command("diff", "app").stdout
    assert '-  "version": "one"' in changes
    assert "--- app/words.py@HEAD" in changes
    assert "+SEVERITY = {}" in changes
    assert "not committed: version, app/words.py" in repository.command("log", "app").stdout
    commit(repository)

    newest, oldest = repository.command("log", "app").stdout.splitlines()
    assert re.search(r"^two .* 0\.0 % \(0/8\) +version, app/words\.py$", newest)
    assert re.search(r"^one .* 100\.0 % \(8/8\) +change$", oldest)
    listed = json.loads(repository.command("log", "triage", "--json").stdout)
    assert [state["version"] for state in listed["states"]] == ["two", "one"]
    assert listed["states"][0]["measured"][0]["pass_rate"] == 0
    digest = json.loads(first.stdout)["digest"]
    assert listed["states"][1]["digest"] == digest
    assert json.loads(repository.command("show", "app@main", "--json").stdout)["digest"] == digest
    between = json.loads(repository.command("diff", "app", "main", "HEAD", "--json").stdout)
    assert between["changed"] == ["version", "app/words.py"]


def test_names_and_commits_without_a_target_are_explained(repository: EvalProject) -> None:
    commit(repository, branch="change")
    repository.settings(provider=TABLE.replace("targets.app", "targets.other"))
    repository.eval(EVAL.replace('target="app"', 'target="other"'))
    for arguments, said in (
        (("show", "othe"), "did you mean 'other'?"),
        (("diff", "other", "no-such-commit"), "git knows no commit 'no-such-commit'"),
        (("diff", "other", "main"), "main has no target 'other'"),
        (("show", "other", "-i", "text=x"), "other is a target, which has no messages"),
        (("bump", "other", "minor"), "regauge log other lists its states"),
        (("baseline", "flaky", "other"), "fix: name an eval that tests it: triage"),
        (("baseline", "update", "other"), "fix: name an eval that tests it: triage"),
    ):
        refused = repository.command(*arguments)
        assert refused.returncode == 2, arguments
        assert said in refused.stderr


def test_the_baseline_of_a_target_is_shown_with_its_state(repository: EvalProject) -> None:
    assert repository.command("baseline", "update", "triage").returncode == 0
    current = repository.command("baseline", "show", "triage").stdout
    assert "python:app" in current
    assert "(" not in current.splitlines()[0]
    repository.write("app/words.py", "SEVERITY = {}\n")
    older = repository.command("baseline", "show", "triage").stdout
    assert "(not of the target as it is, unversioned " in older
    repository.settings()
    assert "(the target is gone)" in repository.command("baseline", "show", "triage").stdout


def test_a_base_that_cannot_be_called_leaves_the_history_alone(repository: EvalProject) -> None:
    good = (repository.root / "app/pipeline.py").read_text()
    repository.write("app/pipeline.py", "import a_package_that_is_gone\n")
    repository.write("fixtures/recordings/.keep", "")
    commit(repository, branch="change")
    repository.write("app/pipeline.py", good)
    repository.write("app/words.py", "SEVERITY = {}\n")
    done = repository.command("gate", "main")
    text = done.stdout + done.stderr
    assert done.returncode == 4, text
    assert "gate: undecided" in text
    assert "the base of triage could not be called" in text
    assert "No module named 'a_package_that_is_gone'" in text
    assert "drifted" not in text


def test_the_gate_calls_the_deployment_that_base_names(
    repository: EvalProject, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPORT_AUTH", "token")
    Service.severity = dict.fromkeys(map(str, range(8)), "critical")

    class Candidate(Service):
        severity = dict.fromkeys(map(str, range(6)), "critical")

    with Served(Candidate) as other:
        tables = table(service).replace("targets.service]", "targets.service-main]")
        repository.eval(SERVICE_EVAL)
        repository.settings(provider=table(other, 'base = "service-main"') + tables)
        commit(repository, branch="change")
        changed = table(other, 'base = "service-main"').replace('version = "1"', 'version = "2"')
        repository.settings(provider=changed + tables)
        done = repository.command("gate", "main")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "2 broken" in done.stdout

        alone = table(other).replace('version = "1"', 'version = "3"')
        repository.settings(provider=alone + tables)
        commit(repository)
        subprocess.run(["git", "branch", "-f", "main"], cwd=repository.root, check=True)
        repository.settings(provider=alone.replace('version = "3"', 'version = "4"') + tables)
        done = repository.command("gate", "main")
        assert done.returncode == 4, done.stdout + done.stderr
        assert "the base has no deployment: the target has no `base`" in done.stdout


def test_recorded_outputs_are_gated_against_those_of_the_base(repository: EvalProject) -> None:
    table = '[tool.regauge.targets.service]\nkind = "recorded"\npath = "outputs/logs.jsonl"\n'
    repository.settings(provider=table)
    repository.eval(SERVICE_EVAL)

    def write(right: int, trials: int = 40) -> None:
        lines = [
            {
                "case": f"c{n}",
                "trial": trial,
                "text": json.dumps({"severity": "critical" if n < right else "info"}),
            }
            for n in range(8)
            for trial in range(trials)
        ]
        repository.write(
            "fixtures/outputs/logs.jsonl", "".join(f"{json.dumps(x)}\n" for x in lines)
        )

    write(8)
    commit(repository, branch="change")
    write(5)
    rejected = repository.command("gate", "main", "--record=none")
    assert rejected.returncode == 1, rejected.stdout + rejected.stderr
    assert "3 broken" in rejected.stdout
    assert "5 unchanged" in rejected.stdout

    write(8, trials=1)
    commit(repository)
    write(7, trials=1)
    undecided = repository.command("gate", "HEAD")
    assert undecided.returncode == 4, undecided.stdout + undecided.stderr
    # A case that may break does not block while its break is only probable.
    repository.settings(
        provider=f'{table}[[tool.regauge.targets.service.changelog]]\nversion = "2026-11-23"\n'
        'text = "None is critical."\naccepted = [{case = "c7", reason = "expected"}]\n'
    )
    accepted = repository.command("gate", "HEAD")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "1 undecided" in accepted.stdout


def test_lint_names_missing_files_and_targets_without_an_identity(app: EvalProject) -> None:
    app.settings(
        provider='[tool.regauge.targets.app]\nkind = "python"\ncallable = "app.pipeline:answer"\n'
        'files = ["app/pipeline.py", "gone.py"]\n'
        '[tool.regauge.targets.cli]\nkind = "command"\nargv = ["true"]\n'
        '[tool.regauge.targets.web]\nkind = "http"\nurl = "https://127.0.0.1/a"\nversion = "1"\n'
        'body = {question = "text"}\n'
    )
    linted = app.command("lint")
    assert linted.returncode == 1
    assert "tool.regauge.targets.app.files: there is no gone.py" in linted.stdout
    assert "app/__init__.py, app/words.py, which `files` leaves out" in linted.stdout
    assert "tool.regauge.targets.cli: it has neither `files` nor `version`" in linted.stdout
    assert "tool.regauge.targets.web: `url` and `body` name no input" in linted.stdout


def test_a_module_that_calls_import_is_named(app: EvalProject) -> None:
    late = (
        "def answer(text):\n    from app.words import SEVERITY\n    return {'severity': 'info'}\n"
    )
    app.write("app/pipeline.py", late)
    app.golden([case(0, "rain")])
    named = app.run("--record=all").stdout.str()
    assert "warning: the target app imports app/words.py during its calls" in named
    app.settings(provider=f'{TABLE}files = ["app"]\n')
    assert "during its calls" not in app.run("--record=all").stdout.str()


def test_files_that_calls_read_undeclared_are_named(app: EvalProject) -> None:
    app.prompt()
    app.write("severe.txt", "fire")
    app.write(
        "app/pipeline.py",
        "from pathlib import Path\nfrom regauge import load_prompt\nWORDS = open('severe.txt').read()\n"
        "def answer(text):\n    load_prompt('triage')\n    Path('log.txt').write_text(text)\n"
        "    return {'severity': Path('app/severity.txt').resolve().read_text()}\n",
    )
    app.write("app/severity.txt", "info")
    app.golden([case(0, "rain"), case(1, "sun")])
    named = app.run("--record=all").stdout.str()
    files = "app/severity.txt, prompts/triage.prompt.yml, severe.txt"
    assert f"warning: the target app reads {files}, so a change there leaves its" in named
    assert f"warning: the target app reads {files}, so" in app.command("record", "--refresh").stdout
    more = 'files = ["app", "severe.txt"]\nprompts = ["triage"]\n'
    app.settings(provider=f"{TABLE}{more}")
    assert "warning" not in app.run("--record=all").stdout.str()


PROMPTED = """\
from regauge import load_prompt


def answer(text):
    words = load_prompt("triage").messages[0].content.split()
    return {"severity": "critical" if text.split()[0] in words else "info"}
"""
PROMPTED_PROGRAM = """\
import json
import sys

from app.pipeline import answer

print(json.dumps(answer(json.load(sys.stdin)["text"])))
"""
SYSTEM = """\
name: Triage
version: 1.0.0
model: sim:clerk-1
messages:
  - role: system
    content: |
      Classify the alert.
      - critical: fire or smoke
      - info: anything else
  - role: user
    content: "{{text}}"
"""


@pytest.fixture
def prompted(repository: EvalProject, request: pytest.FixtureRequest) -> EvalProject:
    """A branch whose target loads a prompt that lost a line."""
    repository.write("app/pipeline.py", PROMPTED)
    repository.write("program.py", PROMPTED_PROGRAM)
    repository.write("prompts/triage.prompt.yml", SYSTEM)
    repository.settings(provider=f'{TABLE}prompts = ["triage"]\n')
    repository.golden(
        {
            "id": f"c{n}",
            "inputs": {"text": f"{'fire' if n % 2 else 'rain'} in hall {n}"},
            "expected": {"severity": "critical" if n % 2 else "info"},
            "split": "holdout" if n % 3 == 0 else "train",
        }
        for n in range(getattr(request, "param", 12))
    )
    commit(repository, branch="change")
    without = SYSTEM.replace("      - critical: fire or smoke\n", "")
    repository.write("prompts/triage.prompt.yml", without)
    return repository


# A program runs for each call, so it has few cases.
@pytest.mark.parametrize(
    ("prompted", "kind", "train", "holdout"),
    [(12, "python", 8, 4), (6, "command", 4, 2)],
    indirect=["prompted"],
    ids=["python", "command"],
)
def test_a_prompt_is_refined_through_the_target_that_loads_it(
    prompted: EvalProject, kind: str, train: int, holdout: int, as_program: Callable[[Path], Path]
) -> None:
    if kind == "command":
        argv = json.dumps([str(as_program(prompted.root / "program.py"))])
        table = f'[tool.regauge.targets.app]\nkind = "command"\nargv = {argv}\nfiles = ["app"]\n'
        prompted.settings(provider=f'{table}prompts = ["triage"]\n')
    estimate = prompted.command("refine", "app", "--dry-run", "--proposers=rules")
    counts = f"triage: {train} training cases, {holdout} held out"
    assert counts in estimate.stdout, estimate.stderr
    done = prompted.command("refine", "triage", "--proposers=rules", "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    failures = "6 of 12 -> 0 of 8" if holdout == 4 else "3 of 6 -> 0 of 6"
    assert (
        f"the gate accepts all {train + holdout} cases; held-out failures {failures}" in done.stderr
    )
    written = (prompted.root / "prompts/triage.prompt.yml").read_text()
    assert "- critical: fire or smoke" in written
    if kind == "command":  # what follows makes calls as above
        return
    assert prompted.command("refine", "verify").returncode == 0
    prompted.run("--record=missing").assert_outcomes(passed=12)


def test_a_prompt_that_a_target_does_not_load_is_not_refined(prompted: EvalProject) -> None:
    own = 'pathlib.Path("prompts/triage.prompt.yml").read_text().split()'
    prompted.write(
        "app/pipeline.py",
        PROMPTED.replace('load_prompt("triage").messages[0].content.split()', own).replace(
            "from regauge import load_prompt", "import pathlib"
        ),
    )
    ran = prompted.command("refine", "triage", "--proposers=rules")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "so an edited text does not reach it" in " ".join(ran.stderr.split()), ran.stderr
    assert "fix: load the prompt with regauge.load_prompt('triage')" in ran.stderr


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('kind = "http"\nurl = "http://127.0.0.1:9/"\nversion = "1"\n', "is an HTTP endpoint"),
        ('kind = "recorded"\npath = "outputs/logs.jsonl"\n', "is a file of recorded outputs"),
        ('kind = "python"\ncallable = "app.pipeline:answer"\n', "declares no prompts"),
        (
            'kind = "python"\ncallable = "app.pipeline:answer"\nprompts = ["a", "b"]\n',
            "loads 2 prompts: a, b",
        ),
    ],
)
def test_a_target_that_cannot_load_an_edited_prompt_is_not_refined(
    prompted: EvalProject, table: str, said: str
) -> None:
    prompted.write("fixtures/outputs/logs.jsonl", "")
    prompted.settings(provider=f"[tool.regauge.targets.app]\n{table}")
    refused = prompted.command("refine", "app", "--proposers=rules")
    assert refused.returncode == 2
    assert f"the target 'app' {said}" in refused.stderr
    assert "fix: " in refused.stderr
    if "a, b" not in said and "no prompts" not in said:
        prompted.settings(provider=f'[tool.regauge.targets.app]\n{table}prompts = ["triage"]\n')
        refused = prompted.command("refine", "triage", "--proposers=rules")
        assert refused.returncode == 2
        assert f"the target 'app' {said}" in refused.stderr


def test_the_example_has_the_same_verdicts_as_function_service_and_program(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/support-service"
    root = tmp_path / "example"
    shutil.copytree(example, root, ignore=shutil.ignore_patterns(".regauge", "__pycache__"))
    words = ("evals", "--record=none", "-p", "no:cacheprovider")
    done = processes.run("pytest", *words, cwd=root, env={**os.environ})
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = root.glob(".regauge/runs/*/trials.jsonl")
    verdicts: dict[str, dict[str, list[str]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        outcomes = [verdict["outcome"] for verdict in row["verdicts"]]
        verdicts.setdefault(row["prompt"], {})[row["case"]] = outcomes
    assert set(verdicts) == {"support-function", "support-service", "support-program"}
    first, second, third = verdicts.values()
    assert len(first) == 20
    assert first == second == third
