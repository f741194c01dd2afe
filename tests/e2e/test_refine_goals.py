"""Goals of `regauge refine` as people set them: in pyproject.toml of a real repository."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.gate_repo import EVAL, NAME, PROMPT, GateRepo, label_definitions

if TYPE_CHECKING:
    from pathlib import Path

TWICE = "      - as you see fit\n"
GOALS = """
[[tool.regauge.refine.goals]]
judge = "field_equals"
pass_rate = 0.8

[[tool.regauge.refine.goals]]
prompt = "alert-severity"
criterion = "format"
pass_rate = 0.9
"""


@pytest.fixture
def repo(tmp_path: Path) -> GateRepo:
    """A branch whose prompt lost its label definitions; main has them."""
    repo = GateRepo(tmp_path)
    repo.branch("broken")
    repo.edit(PROMPT, label_definitions(repo.read(PROMPT)), TWICE + TWICE)
    repo.commit("Lose the definitions")
    return repo


def setting(repo: GateRepo, goals: str) -> None:
    repo.write("pyproject.toml", repo.read("pyproject.toml").split("\n[[tool")[0] + goals)


def result(repo: GateRepo) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(repo.regauge("refine", "show", "--json"))
    return document


def test_a_run_stops_when_its_goals_are_met_and_can_be_told_again(repo: GateRepo):
    setting(repo, GOALS)
    said = repo.regauge("refine", NAME)
    assert "; 2 of 2 goals met" in said
    assert "## Goals" in said
    found = result(repo)
    equals, form = found["goals"]["progress"]
    assert (equals["checks"], equals["before"]["status"]) == (
        ["field_equals(severity)"],
        "missed",
    )
    assert (equals["after"]["status"], form["after"]["status"]) == ("met", "met")
    assert equals["after"]["low"] >= 0.8
    criteria = {one["criterion"]: one for one in found["criteria"]}
    assert criteria["correctness"]["before"]["passed"] < criteria["correctness"]["before"]["trials"]
    assert "| format (1 check) | all | failed " in said

    trail = next((repo.root / ".regauge/refine").glob("*/trail.jsonl"))
    began = json.loads(trail.read_text().split("\n")[0])["body"]
    assert began["goals"]["digest"] == found["goals"]["digest"]
    # What the run was held to is what it is told again with, whatever is asked for now.
    setting(repo, GOALS.replace("0.8", "0.5"))
    assert "decisions recomputed" in repo.regauge("refine", "verify", "--recompute")


def test_failures_that_goals_allow_are_left_alone(repo: GateRepo):
    setting(repo, '\n[[tool.regauge.refine.goals]]\njudge = "json_parses"\npass_rate = 0.8\n')
    said = repo.regauge("refine", NAME)
    assert "no change proposed (goal-met: the prompt as it is meets every goal)" in said
    assert said.count("failing    nothing fails more often than goals allow") == 1
    assert "## Left alone, as no goal needs more\n\n- `field_equals(severity)` failed" in said
    assert result(repo)["usage"]["tested"] == 0


def test_a_goal_that_speaks_of_nothing_is_refused_with_its_line(repo: GateRepo):
    wrong = """
[[tool.regauge.refine.goals]]
judge = "json_parse"
pass_rate = 0.8
[[tool.regauge.refine.goals]]
tag = "databse"
pass_rate = 0.8
[[tool.regauge.refine.goals]]
criterion = "relevance"
pass_rate = 0.8
"""
    setting(repo, wrong)
    said = repo.regauge("refine", NAME, code=2)
    text = repo.read("pyproject.toml").split("\n")
    lines = [text.index(line) + 1 for line in wrong.split("\n") if '= "' in line]
    assert f"pyproject.toml:{lines[0]}: tool.regauge.refine.goals.0.judge: " in said
    assert "have no judge 'json_parse'\n  fix: did you mean 'json_parses'?" in said
    assert f"pyproject.toml:{lines[1]}: " in said
    assert "no case of alert-severity has the tag 'databse'" in said
    assert f"pyproject.toml:{lines[2]}: " in said
    assert (
        "no judge that decides about alert-severity counts under relevance: json_parses(kind=object) (format)"
        in said
    )

    for command, code in (("lint", 1), ("doctor", 1)):
        said = repo.regauge(command, code=code)
        assert f"pyproject.toml:{lines[0]}: tool.regauge.refine.goals.0.judge: " in said
        assert "has the tag 'databse'" in said

    setting(repo, wrong.replace('judge = "json_parse"', 'prompt = "alert-sev"'))
    assert "there is no prompt 'alert-sev'\n" in repo.regauge("lint", code=1)
    assert "there is no prompt 'alert-sev'\n  fix: did you mean" in repo.regauge(
        "refine", NAME, code=2
    )
    setting(repo, '\n[[tool.regauge.refine.goals]]\ncriterion = "fromat"\npass_rate = 1.0\n')
    said = repo.regauge("refine", NAME, code=2)
    assert "there is no criterion 'fromat'\n  fix: did you mean 'format'?" in said
    assert "goals.0.pass_rate: must be above 0 and below 1, not 1.0\n  fix: no number of" in said


def test_a_goal_on_what_only_an_uncalibrated_judge_says_names_that_judge(repo: GateRepo):
    repo.write(
        "prompts/whole.prompt.yml",
        "version: 1.0.0\nmodel: sim:clerk-1\nrubric: {kind: binary}\n"
        "messages:\n  - {role: user, content: 'Is it whole? {{answer}}'}\n",
    )
    judged = repo.read(EVAL).replace(")]", '), rubric("whole").with_criterion("completeness")]')
    repo.write(EVAL, judged.replace("json_parses\n", "json_parses, rubric\n"))
    setting(repo, GOALS.replace('"format"', '"completeness"'))
    said = repo.regauge("refine", NAME, "--dry-run", code=2)
    assert "goals.1.criterion: the judge 'whole', which counts under completeness, is" in said
    assert "fix: label outputs or improve the judge, then: regauge judges calibrate whole" in said
