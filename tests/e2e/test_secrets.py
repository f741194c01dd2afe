"""Keys that a provider repeats, a model writes or a judge raises come out nowhere."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from regauge.recordings import REDACTED
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.conftest import EvalProject

KEY = "keyvalue-abcdef-777"
# In the forms in which a key could be written; what any of them holds is a leak.
FORMS = (KEY, KEY.replace("-", "%2D"), KEY.replace("-", "\\u002d"))
PROVIDER = 'api_key_env = "ACME_LLM"\n'
EVAL = """\
import os
from regauge import golden

def judge(output, case):
    key = os.environ["ACME_LLM"]
    if case.id == "raises":
        raise ValueError(f"Authorization: Bearer {key}")
    return case.id != "fails"

@golden("triage", judges=[judge])
def test_triage(result):
    key = os.environ["ACME_LLM"]
    print(key)
    assert result.case.id != "body", key
    result.check()
"""


@contextmanager
def gateway(status: int) -> Generator[str]:
    """A gateway that repeats the key of every request wherever it can."""

    class Handler(JsonHandler):
        def answer(self) -> None:
            self.given()
            key = self.headers["Authorization"]
            if status != 200:
                words = f"Incorrect API key provided: {key} ({FORMS[1]}, {FORMS[2]})"
                self.say({"error": {"message": words, "code": key}}, status=status)
                return
            call = {"id": key, "type": "function", "function": {"name": key, "arguments": key}}
            message = {"role": "assistant", "content": f"{key} {FORMS[1]}", "tool_calls": [call]}
            self.say(
                {
                    "id": key,
                    "object": "chat.completion",
                    "model": key,
                    "system_fingerprint": key,
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
                }
            )

    with Served(Handler) as server:
        yield server.address


@pytest.fixture
def keyed(project: EvalProject, monkeypatch: pytest.MonkeyPatch) -> EvalProject:
    """A project whose key is in a variable, in a job of a workflow."""
    monkeypatch.setenv("ACME_LLM", KEY)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.root / "summary.md"))
    names = ("passes", "fails", "raises", "body")
    project.golden([project.case(number, id=name) for number, name in enumerate(names)])
    project.prompt(model="local:clerk")
    project.eval(EVAL)
    return project


def leaks(root: Path) -> list[str]:
    """The files below a directory that hold a form of the key."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and path.name != "pyproject.toml"
        and ".git/" not in str(path)
        and any(form.encode() in path.read_bytes() for form in FORMS)
    ]


def leaked(*texts: str) -> list[str]:
    return [line for text in texts for line in text.splitlines() if any(f in line for f in FORMS)]


@pytest.mark.parametrize(
    ("status", "workers"), [(200, "-n0"), (401, "-n0"), (400, "-n0"), (200, "-n2"), (400, "-n2")]
)
def test_a_key_that_the_provider_repeats_is_in_no_output(
    keyed: EvalProject, status: int, workers: str
):
    with gateway(status) as address:
        keyed.use(f"{address}/v1?api-key={KEY}")
        keyed.settings(provider=PROVIDER)
        done = keyed.run(
            "--record=missing",
            "--junitxml=junit.xml",
            "--report=out",
            "-rA",
            "--showlocals",
            *([workers] if workers != "-n0" else []),
        )
        # Of the files of a run, whose texts are looked at below in all; a response or a refusal.
        commands = (
            "record --refresh",
            "doctor",
            "report --format html --output page.html",
            "report --format markdown",
            "report --format json",
            "baseline flaky triage",
            "log triage --runs",
        )
        with_commands = workers == "-n0" and status != 400
        said = [keyed.command(*c.split()) for c in (commands if with_commands else ())]
    assert done.ret == 1
    assert REDACTED in done.stdout.str()
    assert leaked(done.stdout.str(), done.stderr.str()) == []
    for one in said:
        assert leaked(one.stdout, one.stderr) == [], one.args
    assert leaks(keyed.root) == []
    assert keyed.root.joinpath("junit.xml").read_text().count(REDACTED) > 3


def test_the_gate_repeats_no_key(keyed: EvalProject):
    keyed.write(".gitignore", ".regauge/\n__pycache__/\n")
    with gateway(401) as address:
        keyed.use(f"{address}/v1")
        keyed.settings(provider=PROVIDER)
        keyed.command("bump", "triage")
        for words in (
            ("init", "-q", "-b", "main"),
            ("config", "user.email", "a@example.org"),
            ("config", "user.name", "A"),
            ("add", "-A"),
            ("commit", "-q", "-m", "main"),
        ):
            subprocess.run(["git", *words], cwd=keyed.root, check=True, capture_output=True)
        keyed.prompt(model="local:clerk", system="Say what it is, as JSON.")
        for words in (("gate", "main"), ("gate", "main", "--json", "--output", "gate.md")):
            done = keyed.command(*words, "--record", "missing")
            assert done.returncode in {1, 3}, done.stderr
            assert leaked(done.stdout, done.stderr) == []
        done = keyed.run("--gate=main", "--record=missing")
        assert leaked(done.stdout.str(), done.stderr.str()) == []
    assert leaks(keyed.root) == []


def test_a_traceback_of_a_command_holds_no_key(keyed: EvalProject):
    """A plugin of the project that breaks as nothing foresees."""
    keyed.write(
        "conftest.py",
        "import os\n\ndef pytest_regauge_planned():\n    raise KeyError(os.environ['ACME_LLM'])\n",
    )
    keyed.settings(provider=PROVIDER)
    done = keyed.command("record")
    assert "KeyError" in done.stdout + done.stderr
    assert leaked(done.stdout, done.stderr) == []
    ran = keyed.run()
    assert "KeyError" in ran.stdout.str() + ran.stderr.str()
    assert leaked(ran.stdout.str(), ran.stderr.str()) == []


@pytest.mark.parametrize("words", [("lint",), ("record",), ("doctor",)])
def test_credentials_in_a_url_are_refused_with_their_line(
    project: EvalProject, words: tuple[str, ...]
):
    project.use("https://user:hunter2word@llm.example.org/v1?key=abc")
    done = project.command(*words)
    text = done.stdout + done.stderr
    assert done.returncode in {1, 2}
    assert "hunter2word" not in text
    assert "pyproject.toml:8: tool.regauge.providers.local.base_url: a user name" in text
    assert "https://llm.example.org/v1)" in text
    assert "fix: remove what is before the @" in text
    ran = project.run()
    assert ran.ret != 0
    assert "hunter2word" not in ran.stdout.str() + ran.stderr.str()


def test_credentials_in_openai_base_url_are_refused(
    project: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:hunter2word@llm.example.org/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    project.prompt(model="openai:gpt-5-mini")
    done = project.run("--record=missing", "--junitxml=junit.xml")
    text = done.stdout.str() + project.root.joinpath("junit.xml").read_text()
    assert done.ret == 1
    assert "remove what is before the @ from OPENAI_BASE_URL" in text
    assert "hunter2word" not in text
