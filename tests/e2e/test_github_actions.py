"""What a run leaves where people look in a workflow: job summary, marks on lines, JUnit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lxml import etree

if TYPE_CHECKING:
    from tests.conftest import EvalProject

SCHEMA = Path(__file__).parents[1] / "data" / "junit.xsd"
JUDGES = """\
from regauge import golden
from regauge.judges import max_latency_s, min_chars

def agrees(output, case):
    if case.expected["ok"] is None:
        raise ValueError("no opinion\\n::error::x")
    return case.expected["ok"]

@golden("triage", judges=[min_chars(1), agrees, max_latency_s(600)], trials=2)
def test_triage(result):
    result.check()
"""


@pytest.fixture
def workflow(project: EvalProject, monkeypatch: pytest.MonkeyPatch) -> EvalProject:
    """The project one directory below the top of a checkout, in a job of a workflow."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.root.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.root / "summary.md"))
    return project


def marks(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("::")]


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_failed_case_is_marked_on_its_own_line(workflow: EvalProject, workers: str):
    workflow.eval(JUDGES)
    workflow.golden(
        [
            workflow.case(0),
            workflow.case(1, ok=False),
            workflow.case(2, expected={"ok": None}),
            workflow.case(3, ok=False, tier="tracked"),
        ]
    )
    result = workflow.run(workers, "--junitxml=junit.xml")
    assert result.ret == 1
    golden = f"{workflow.root.name}/fixtures/golden/triage.jsonl"
    failed, unmeasured = marks(result.stdout.str())
    assert failed.startswith(f"::error file={golden},line=2,title=evals/test_triage.py%3A%3Atest_")
    assert "agrees" in failed
    assert unmeasured.startswith(f"::error file={golden},line=3,title=evals/test_triage.py")
    assert "%0A%3A%3Aerror" not in unmeasured.rpartition("::")[0]

    summary = workflow.root.joinpath("summary.md").read_text(encoding="utf-8")
    assert summary.startswith(
        "### regauge: 1 of 4 cases failed, 1 unmeasured; 1 tracked case failed without blocking\n"
    )
    assert "| triage `disk-001` | 0 |" in summary

    schema = etree.XMLSchema(etree.parse(SCHEMA))
    schema.assertValid(etree.parse(workflow.root / "junit.xml"))
    names = etree.parse(workflow.root / "junit.xml").xpath(
        "//testcase[contains(@name, 'disk-001')]//property/@name"
    )
    assert {"regauge.case", "regauge.score[0].agrees", "regauge.score[1].agrees"} <= set(names)
    assert not [name for name in names if "score" in name and "max_latency_s" in name]


def test_a_gates_decision_is_in_the_summary_and_on_the_lines_that_changed(workflow: EvalProject):
    workflow.write(".gitignore", ".regauge/\n__pycache__/\n")
    workflow.golden([workflow.case(number) for number in range(2)])
    workflow.command("bump", "triage")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "somebody@example.org"),
        ("config", "user.name", "Somebody"),
        ("add", "-A"),
        ("commit", "-q", "-m", "main"),
    ):
        subprocess.run(["git", *words], cwd=workflow.root, check=True, capture_output=True)
    workflow.prompt(system="Tell how severe the alert is. Answer with JSON: severity and reason.")
    gated = workflow.command("gate", "main", "--json")
    assert gated.returncode == 1
    (mark,) = marks(gated.stderr)
    prompt = f"{workflow.root.name}/prompts/triage.prompt.yml"
    assert mark.startswith(f"::error file={prompt},line=2,title=regauge%3A triage::")
    assert not marks(gated.stdout)
    summary = workflow.root.joinpath("summary.md")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("<!-- regauge gate -->\n### ❌ regauge gate: rejected against `main` (`")
    assert "| prompt | version | cases |" in text
    assert "2 cases not run: the decision needs no trial" in text

    again = workflow.command("gate", "--from", "latest", "--on-broken", "net")
    assert marks(again.stdout) == [mark]
    assert summary.read_text(encoding="utf-8").count("### ❌") == 2


def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(
    workflow: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", os.devnull + "/nowhere")
    result = workflow.run("-k", "disk-000")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["GITHUB_STEP_SUMMARY: /dev/null/nowhere cannot be written: *"])
