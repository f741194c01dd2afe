"""In GitHub Actions nothing that a model, a judge, a provider or a dataset wrote is executed."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.runner_log import executed

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

# Seven commands, and the same behind characters that the runner skips or reads as line ends.
LINES = (
    "::stop-commands::x9",
    "::add-mask::accepted",
    "::error file=a.py,line=1::forged",
    "a ##[warning]forged",
    "::set-output name=decision::accept",
    "::group::forged",
    "::add-matcher::m.json",
)
HOSTILE = "\n".join(
    [
        "fine",
        *LINES,
        *[f"   \u00a0\t{line}" for line in LINES],
        *[line.replace("::", ":\u200b:").replace("##", "#\u00ad#") for line in LINES],
        *[f"\u200d{line}\r{line}" for line in LINES],
        "\x1b::warning::forged",
    ]
)
EVAL = """\
import logging, sys, warnings
from regauge import Verdict, golden

HOSTILE = {hostile!r}

def reasons(output, case):
    print(output)
    print(HOSTILE, file=sys.stderr)
    logging.getLogger("judge").warning(HOSTILE)
    if case.id.startswith("raises"):
        raise ValueError(HOSTILE)
    return Verdict(outcome="fail", score=0.0, reason=HOSTILE, expected=HOSTILE, actual=output)

@golden("triage", judges=[reasons])
def test_triage(result):
    if result.case.id.startswith("body"):
        assert result.output == "::error::something else"
    if result.case.id.startswith("loose"):
        raise RuntimeError(result.output)
    warnings.warn(HOSTILE)
    result.check()
"""


@pytest.fixture
def hostile(live: EvalProject, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> EvalProject:
    """A project in a job of a workflow whose every text is hostile."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(live.root))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(live.root / "summary.md"))

    def answer(_: str) -> str:
        return HOSTILE

    endpoint.answer = answer
    live.settings('model = "local:clerk"\njudge_model = "local:clerk"', pytest="")
    pyproject = live.root / "pyproject.toml"
    text = pyproject.read_text().replace(
        'filterwarnings = ["error"]', 'filterwarnings = ["always"]'
    )
    pyproject.write_text(text)
    live.golden(
        [
            live.case(0),
            live.case(1, id="raises"),
            live.case(2, id="body"),
            live.case(3, id="loose"),
            live.case(4, id="tracked", tier="tracked"),
            live.case(5, inputs={"text": HOSTILE}, tags=[HOSTILE]),
        ]
    )
    live.eval(EVAL.format(hostile=HOSTILE))
    return live


def own(log: str) -> list[str]:
    """The lines that regauge marks files with; they are taken out of the log."""
    return [line for line in log.splitlines() if line.startswith("::error file=fixtures/golden/")]


def others(log: str) -> list[str]:
    """What the runner executes in a log besides the marks of regauge."""
    marks = set(own(log))
    return executed("\n".join(line for line in log.split("\n") if line not in marks))


def test_the_runner_executes_the_seven_commands_in_a_log_that_nothing_guards():
    assert len(executed("\n".join(LINES))) == 7
    assert len(executed(HOSTILE)) == 36


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-rA", "-v", "--tb=long", "--showlocals", "--color=yes"),
        ("-s",),
        ("-s", "-n2"),
        ("-n2", "-v"),
        ("--capture=tee-sys",),
        ("--capture=sys", "--tb=native", "-o", "log_cli=true", "-o", "log_cli_level=DEBUG"),
        ("-q", "--tb=line", "-x"),
    ],
    ids=" ".join,
)
def test_pytest_prints_no_command_of_others(hostile: EvalProject, words: tuple[str, ...]):
    done = hostile.run("--record=missing", *words)
    log = done.stdout.str()
    assert "forged" in log + done.stderr.str()
    assert others(log) == []
    assert others(done.stderr.str()) == []
    assert len(own(log)) == (1 if "-x" in words else 5)
    assert set(executed("\n".join(own(log)))) == {"error"}


def test_errors_of_a_provider_and_of_files_are_no_commands(
    hostile: EvalProject, endpoint: Endpoint
):
    endpoint.object_to_each = 1
    hostile.settings(provider="max_attempts = 1\ndeadline_s = 1")
    done = hostile.run("--record=missing")
    assert others(done.stdout.str() + done.stderr.str()) == []
    hostile.write("fixtures/golden/triage.jsonl", json.dumps({"id": HOSTILE}) + "\n")
    done = hostile.run()
    assert done.ret
    assert others(done.stdout.str() + done.stderr.str()) == []


def test_outside_of_actions_output_stays_as_it_is(
    hostile: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("GITHUB_ACTIONS")
    done = hostile.run("--record=missing", "-s")
    assert len(executed(done.stdout.str())) > 7


def test_runs_without_evals_and_other_plugins_keep_their_commands(
    hostile: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    hostile.write("tests/test_plain.py", "def test_it():\n    print('\\n::notice::from a test')\n")
    done = hostile.pytest("tests", "-s")
    assert executed(done.stdout.str()) == ["notice"]
    hostile.write(
        "conftest.py",
        "import sys\n\ndef pytest_runtest_logreport(report):\n"
        "    print('::notice::by a plugin', file=sys.stderr)\n",
    )
    done = hostile.run("--record=missing", "-k", "disk-000")
    assert set(executed(done.stderr.str())) == {"notice"}


def test_commands_print_no_command_of_others(hostile: EvalProject, endpoint: Endpoint):
    """Every command that shows texts of others, on both streams, for people and as JSON."""
    hostile.write(".gitignore", ".regauge/\n__pycache__/\n")
    hostile.command("bump", "triage")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.org"),
        ("config", "user.name", "A"),
        ("add", "-A"),
        ("commit", "-q", "-m", "main"),
    ):
        subprocess.run(["git", *words], cwd=hostile.root, check=True, capture_output=True)
    block = "".join(f"      {line}\n" for line in ["Rate it.", *LINES])
    hostile.write(
        "prompts/triage.prompt.yml",
        "name: Triage\nversion: 1.0.0\nmodel: local:clerk\ndescription: '::error::forged'\n"
        f"messages:\n  - role: system\n    content: |\n{block}"
        "  - role: user\n    content: '{{text}}'\n",
    )
    hostile.write("answer.txt", HOSTILE)
    hostile.write("prompts/\n::error::forged.prompt.yml", "messages: []\n::error::forged: 1\n")
    hostile.run("--record=missing")
    hostile.run("--record=missing")
    shown = 0
    for words in (
        ("lint",),
        ("lint", "--json"),
        ("show", "triage"),
        ("show", "triage", "--json"),
        ("diff", "triage"),
        ("diff", "triage", "--json"),
        ("log", "triage"),
        ("log", "triage", "--runs"),
        (
            "runs",
            "list",
        ),
        ("runs", "list", "--json"),
        ("report", "latest", "--format", "markdown"),
        ("report", "latest", "--format", "json"),
        ("report", "latest", "--format", "csv"),
        ("report", "latest", "--format", "html"),
        ("runs", "compare", "latest", "latest", "--outputs"),
        ("runs", "compare", "latest", "latest", "--json"),
        ("judges", "list"),
        ("judges", "try", "contains:::error::x", "answer.txt"),
        ("judges", "try", "json_parses", "answer.txt"),
        ("new", "case", "triage", HOSTILE, "--from-run", "latest", "--case", "disk-000", "-n"),
        ("record", "--refresh"),
        ("baseline", "flaky", "triage"),
        ("gate", "main", "--record", "missing"),
        ("gate", "main", "--record", "missing", "--json"),
        ("baseline", "show"),
        ("doctor", "--offline"),
        ("bump", "triage", HOSTILE),
        ("bump", HOSTILE),
        ("gate", HOSTILE),
        ("runs", "list", HOSTILE),
        (HOSTILE,),
        ("refine", "triage", "--refiner-model", "local:clerk", "--max-cycles", "1"),
    ):
        done = hostile.command(*words)
        own_marks = [
            line
            for line in done.stdout.splitlines() + done.stderr.splitlines()
            if line.startswith("::error file=prompts/")
        ]
        log = "\n".join(line for line in done.stdout.split("\n") if line not in own_marks)
        errors = "\n".join(line for line in done.stderr.split("\n") if line not in own_marks)
        assert executed(log) == [], words
        assert executed(errors) == [], words
        shown += "forged" in done.stdout + done.stderr
        if "--json" in words and words[0] != "runs" and done.returncode in {0, 1}:
            json.loads(done.stdout)
    assert shown > 12
    assert set(executed("\n".join(own_marks))) <= {"error"}
