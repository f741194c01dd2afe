"""Targets: evals of Python functions and of recorded outputs, through pytest and commands."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_what_goes_wrong_in_a_function_leaves_only_its_case_unmeasured(app: EvalProject) -> None:
    words = ["fire", "raise", "exit", "nothing", "sleep", "large", "rain"]
    app.golden(
        [case(n, word, "critical" if word == "fire" else "info") for n, word in enumerate(words)]
    )
    app.settings(provider=TABLE + "timeout_s = 4\n")
    result = app.run()
    text = result.stdout.str()
    assert {row["case"]: row["outcome"] for row in app.rows()} == {
        "c0": "passed",
        **dict.fromkeys(["c1", "c2", "c3", "c4", "c5"], "unmeasured"),
        "c6": "passed",
    }
    for said in (
        "ValueError: the index is empty",
        "ended with exit status 9:",
        "out of memory",
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
        wait_until(lambda: any(_sleeping(app.root)), within_s=60)
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: not any(_sleeping(app.root)), within_s=20)
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


@pytest.mark.parametrize(
    ("target", "pipeline", "said"),
    [
        ("ap", PIPELINE, "there is no target 'ap'; declared: app\n  fix: did you mean 'app'?"),
        ("app.pipeline:missing", PIPELINE, "app.pipeline has no missing\n"),
        ("app.nothing:answer", PIPELINE, "No module named 'app.nothing'"),
        ("app", "1/0\n", "app.pipeline:answer cannot be imported:\n"),
        (
            "app",
            "def answer(question):\n    return question\n",
            "the function takes (question), and the case has the inputs text: missing a",
        ),
        ("app", "answer = 'text'\n", "app.pipeline:answer is not callable: str"),
        ("app", "def answer(text):\n    return [text]\n", "the function returned list"),
        (
            "app",
            "def answer(text):\n    return {'text': text, 'usage': {'input_tokens': 'many'}}\n",
            '`usage` holds no number of tokens: "many"',
        ),
    ],
)
def test_a_target_that_cannot_be_called_is_explained(
    app: EvalProject, target: str, pipeline: str, said: str
) -> None:
    app.golden([case(0, "fire")])
    app.write("app/pipeline.py", pipeline)
    app.eval(EVAL.replace("'app'", repr(target)).replace('"app"', repr(target)))
    result = app.run()
    assert said in result.stdout.str()
    assert result.ret != 0


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
            '*fix: add one: {"case": "c0", "trial": 1, "text": "..."}',
        ]
    )
    assert {row["case"]: row["outcome"] for row in app.rows() if row["trial"] == 1} == {
        "c0": "unmeasured",
        "c1": "failed",
    }
    assert app.recordings() == []

    app.write(
        "fixtures/outputs/logs.jsonl", '{"case": "c0", "txet": "x"}\nno JSON\n{"case": "c1"}\n'
    )
    broken = app.run()
    broken.stdout.fnmatch_lines(
        [
            "*logs.jsonl:1: unknown key 'txet'",
            "*fix: did you mean 'text'?",
            "*logs.jsonl:2: *",
            "*logs.jsonl:3: it has neither `text` nor `messages`",
        ]
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('kind = "pyton"', "app has no kind of target: 'pyton'\n  fix: did you mean 'python'?"),
        ('callable = "a:b"', "app has no kind of target: None"),
        ('kind = "python"\ncallable = "app"', "not the name of a callable: 'app'"),
        ('kind = "python"\ncallable = "a:b"\nfile = ["x"]', "did you mean 'files'?"),
        ('kind = "recorded"\npath = "../x"', "not a path below the project's root: '../x'"),
        ('kind = "http"\nurl = "localhost"', "no URL of an HTTP endpoint: localhost"),
        ('kind = "python"\ncallable = "a:b"\nfiles = ["gone.py"]', "there is no gone.py"),
    ],
)
def test_settings_of_targets_are_explained(app: EvalProject, table: str, said: str) -> None:
    app.settings(provider=f"[tool.regauge.targets.app]\n{table}\n")
    result = app.run("--collect-only")
    assert said in result.stdout.str() + result.stderr.str()
    assert result.ret != 0
