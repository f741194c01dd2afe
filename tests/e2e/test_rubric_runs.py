"""Rubrics, panels, pairs and verified claims in runs of pytest, and what a changed rubric does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.judge_source import MODEL_JUDGES_GATE

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

GRADED = """\
version: 1.0.0
model: local:judge
modelParameters: {temperature: 0}
rubric: {kind: graded, scale: {min: 1, max: 5}, pass_at: 0.5}
messages:
  - {role: system, content: "Is the severity right?"}
  - {role: user, content: "{{text}} {{answer}}"}
"""
PAIR = """\
version: 1.0.0
model: local:judge
rubric: {kind: pair}
messages:
  - {role: user, content: "{{first}} {{second}}"}
"""


def says(text: str) -> str:
    """A severity to prompts; to judges what their texts call for, by the number of the disk."""
    if "<first-" in text:
        return json.dumps({"reasoning": "by its place", "winner": "first"})
    if "<answer-" in text:
        score = 2 if "disk 1 " in text else 4
        return json.dumps({"reasoning": "as it is", "score": score})
    return json.dumps({"severity": "critical", "reason": "it says so itself"})


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A project whose answers are judged by the rubric `right`; it gates."""
    endpoint.answer = says
    live.golden([live.case(number) for number in range(3)])
    live.write("prompts/judges/right.prompt.yml", GRADED)
    live.judged_by('min_chars(1), rubric("right")', more=MODEL_JUDGES_GATE)
    return live


def test_a_rubric_judges_is_recorded_and_replays(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.run().assert_outcomes(passed=2, failed=1)
    assert endpoint.models["judge"] == 3
    assert {line["judge"] for line in judged.recordings("judges/triage")} == {"right"}
    endpoint.forget()
    replay = judged.run("--record=none")
    replay.assert_outcomes(passed=2, failed=1)
    replay.stdout.fnmatch_lines(["*right*score 2: as it is*"])
    assert endpoint.total == 0
    [failed] = [row for row in judged.rows() if row["case"] == "disk-001"]
    verdict = next(one for one in failed["verdicts"] if one["judge"] == "right")
    assert (verdict["outcome"], verdict["score"]) == ("fail", 0.25)


def test_a_changed_rubric_makes_its_recordings_stale_and_says_so(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    assert judged.command("bump", "right").returncode == 0
    judged.run()
    judged.write("prompts/judges/right.prompt.yml", GRADED.replace("Is the", "Was the"))
    lint = judged.command("lint")
    assert lint.returncode == 1
    assert (
        "prompts/judges/right.prompt.yml:1: the content changed, but the version is still 1.0.0"
        in lint.stdout
    )
    endpoint.forget()
    replay = judged.run("--record=none")
    assert replay.ret != 0
    assert "right" in replay.stdout.str()
    assert endpoint.total == 0


def test_a_threshold_of_its_own_needs_no_new_call(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.run()
    endpoint.forget()
    judged.judged_by('min_chars(1), rubric("right", pass_at=0.2)', more=MODEL_JUDGES_GATE)
    judged.run("--record=none").assert_outcomes(passed=3)
    judged.write("prompts/judges/right.prompt.yml", GRADED.replace("pass_at: 0.5", "pass_at: 0.9"))
    judged.judged_by('min_chars(1), rubric("right")', more=MODEL_JUDGES_GATE)
    judged.run("--record=none").assert_outcomes(failed=3)
    assert endpoint.total == 0


def test_a_panel_asks_every_model_and_votes_are_draws(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    judged.judged_by(
        'panel([rubric("right", votes=2), rubric("right", model="local:other")])',
        more=MODEL_JUDGES_GATE,
    )
    judged.run().assert_outcomes(passed=2, failed=1)
    assert (endpoint.models["judge"], endpoint.models["other"]) == (6, 3)
    lines = judged.recordings("judges/triage")
    assert sorted(line["trial"] for line in lines if line["model"] == "local:judge") == [
        *[0] * 3,
        *[1] * 3,
    ]
    endpoint.forget()
    judged.run("--record=none").assert_outcomes(passed=2, failed=1)
    assert endpoint.total == 0


def test_a_pair_that_follows_the_order_leaves_its_cases_unmeasured(judged: EvalProject) -> None:
    judged.write("prompts/judges/better.prompt.yml", PAIR)
    judged.golden([judged.case(0, expected={"reference": "critical"})])
    judged.judged_by('pairwise("better")', more=MODEL_JUDGES_GATE)
    result = judged.run()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["unmeasured: 1 case of triage*", "*every judge abstained: better"])
    [row] = judged.rows()
    [verdict] = row["verdicts"]
    assert (verdict["outcome"], verdict["details"]["code"]) == ("abstain", "order_flip")


def test_mistakes_are_named_before_anything_is_asked(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    for judges, why in (
        ('rubric("rihgt")', "*there is no prompt 'rihgt'*"),
        ('rubric("factualty")', "*did you mean 'factuality'?*"),
        ('rubric("is short and kind")', '*fix: rubric(criterion="is short and kind")*'),
        ('rubric("triage")', "*needs a rubric, and this prompt has no `rubric:`*"),
        ('pairwise("right")', "*needs a rubric of the kind pair*"),
        ('verified_claims("text")', "*no model is set for the judge*"),
    ):
        judged.judged_by(judges, more=MODEL_JUDGES_GATE)
        result = judged.run()
        assert result.ret != 0
        result.stdout.fnmatch_lines([why])
    assert endpoint.total == 0


def test_a_rubric_is_shown_released_and_compared_like_any_prompt(judged: EvalProject) -> None:
    assert judged.command("bump", "right").returncode == 0
    shown = judged.command("show", "judges/right").stdout
    assert "right 1.0.0" in shown
    assert "rubric     graded, 1 to 5, passes at 0.5" in shown
    judged.write("prompts/judges/right.prompt.yml", GRADED.replace("max: 5", "max: 7"))
    minor = judged.command("bump", "right", "minor")
    assert "the contract of right (jsonSchema, inputs, tools) changed" in minor.stderr


def test_replies_that_cannot_be_read_leave_their_cases_unmeasured(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    diagnostics: dict[int, object] = {
        0: '{"reasoning": "a", "score": NaN}',
        1: '{"reasoning": "a", "score": true}',
        2: {"content": None},
        3: {"content": None, "refusal": "I would rather not."},
        4: "x" * 1_000_000,
        5: '{"reasoning": "and so it',
        6: '{"reasoning": "a", "score": 4, "score": 5}',
        7: '{"reasoning": "a", "score": 4}',
    }

    def answer(text: str) -> object:
        if "<answer-" not in text:
            return says(text)
        return next(
            diagnostic for number, diagnostic in diagnostics.items() if f"disk {number} " in text
        )

    endpoint.answer = answer  # type: ignore[assignment]  # messages, too
    judged.golden([judged.case(number) for number in diagnostics])
    result = judged.run()
    result.assert_outcomes(passed=1)
    rows = {row["case"]: row for row in judged.rows()}
    causes = {case: row["cause"] for case, row in rows.items() if row["cause"]}
    assert sorted(causes) == [f"disk-{number:03}" for number in range(7)]
    assert {cause["kind"] for cause in causes.values()} == {"JudgeError"}
    assert causes["disk-003"]["raw"] == "I would rather not."
    assert causes["disk-001"]["raw"] == diagnostics[1]
    assert len(causes["disk-004"]["raw"]) < 10_000
    replay = judged.run("--record=none")
    replay.assert_outcomes(passed=1)
    replay.stdout.fnmatch_lines(["*1 passed, 7 unmeasured in *"])
