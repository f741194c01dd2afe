"""Criteria stated in evals and golden cases: `rubric(criterion=...)`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.labelled import write_labels

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

NO_JUDGES = """\
from regauge import golden

@golden("triage")
def test_triage(result):
    result.check()
"""
POLITE = {"rubric": {"criterion": "is polite", "pass_at": 0.7}}
SEVERE = {"field_equals": {"path": "severity", "expected": "critical"}}


def says(text: str) -> str:
    """A score that a criterion or an answer asks for with `score N`; 4 without."""
    if "<criterion-" not in text:
        return json.dumps({"severity": "critical", "reason": "it says so itself"})
    criteria = text.partition("<criterion-")[2].partition("</criterion-")[0]
    numbered = re.findall(r"^\d+\. (.*)$", criteria, re.MULTILINE)
    if numbered:
        return json.dumps(
            {
                "verdicts": [
                    {"number": place, "reasoning": f"of {one}", "score": score_in(one)}
                    for place, one in enumerate(numbered, start=1)
                ]
            }
        )
    return json.dumps({"reasoning": "as asked", "score": score_in(text)})


def score_in(text: str) -> int:
    found = re.search(r"score (\d)", text)
    return int(found[1]) if found else 4


def labels(**more: Any) -> list[dict[str, Any]]:
    """Half of them meet the criterion, and the judge's model says so."""
    return [
        {
            "id": f"l{number:02}",
            "inputs": {"criterion": "is polite", "input": "Is the disk full?", **more},
            "output": f"answer {number}, score {5 if number % 2 else 1}",
            "label": "pass" if number % 2 else "fail",
            "author": "Ada",
        }
        for number in range(40)
    ]


@pytest.fixture
def project(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    endpoint.answer = says
    live.settings('judge_model = "local:judge"')
    live.golden([live.case(0)])
    return live


@pytest.fixture
def calibrated(project: EvalProject, endpoint: Endpoint) -> EvalProject:
    """The rubric `criterion` is calibrated for `local:judge`."""
    write_labels(project, labels(), "criterion")
    done = project.command("judges", "calibrate", "criterion", "--repeats=1")
    assert (done.returncode, done.stderr) == (0, "")
    endpoint.forget()
    return project


def test_a_stated_criterion_is_advisory_until_its_rubric_is_calibrated(project: EvalProject):
    project.judged_by('min_chars(1), rubric(criterion="is polite, score 1")')
    result = project.run()
    result.assert_outcomes(passed=1)
    assert (
        "rubric(is polite, score 1) (no calibration record), passed 0, failed 1"
        in result.stdout.str()
    )


def test_one_calibration_serves_every_stated_criterion(calibrated: EvalProject, endpoint: Endpoint):
    calibrated.judged_by(
        'rubric(criterion="is polite", pass_at=0.7), rubric(criterion="is brief, score 2")'
    )
    result = calibrated.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*rubric(is brief, score 2)*score 2: as asked*"])
    assert "inform" not in result.stdout.str()
    assert endpoint.models["judge"] == 2
    listed = calibrated.command("judges", "calibrate").stdout
    assert "blocking  criterion (local:judge) on triage: calibrated on 20" in listed
    endpoint.forget()
    calibrated.run("--record=none").assert_outcomes(failed=1)
    assert endpoint.total == 0


def test_another_criterion_is_another_call_and_another_threshold_is_none(
    calibrated: EvalProject, endpoint: Endpoint
):
    calibrated.judged_by('rubric(criterion="is polite")')
    calibrated.run().assert_outcomes(passed=1)
    calibrated.judged_by('rubric(criterion="is rude")')
    result = calibrated.run("--record=none")
    assert result.ret != 0
    assert "unmeasured" in result.stdout.str()
    endpoint.forget()
    calibrated.judged_by('rubric(criterion="is polite", pass_at=0.6)')
    calibrated.run("--record=none").assert_outcomes(passed=1)
    assert endpoint.total == 0


@pytest.mark.parametrize("more", ["pass_at=0.9", "votes=3", 'model="local:other"'])
def test_a_calibration_says_nothing_of_another_instrument(calibrated: EvalProject, more: str):
    calibrated.judged_by(f'min_chars(1), rubric(criterion="is polite, score 1", {more})')
    result = calibrated.run()
    result.assert_outcomes(passed=1)
    assert "rubric(is polite, score 1) (" in result.stdout.str()


def test_several_criteria_are_asked_in_one_call(project: EvalProject, endpoint: Endpoint):
    project.judged_by('min_chars(1), rubric(criterion=["is polite", "names a time, score 2"])')
    result = project.run()
    result.assert_outcomes(passed=1)
    assert endpoint.models["judge"] == 1
    assert "(no calibration record), passed 0, failed 1" in result.stdout.str()
    [row] = project.rows()
    verdict = row["verdicts"][1]
    assert (verdict["score"], verdict["reason"]) == (
        0.25,
        "score 2: names a time, score 2: of names a time, score 2",
    )
    assert [one["score"] for one in verdict["details"]["votes"][0]["criteria"]] == [0.75, 0.25]


def test_several_criteria_have_a_calibration_of_their_own(
    calibrated: EvalProject, endpoint: Endpoint
):
    calibrated.judged_by('rubric(criterion=["is polite, score 5", "is brief, score 1"])')
    assert "criteria" in calibrated.run("--record=missing").stdout.str()
    rows = [
        row | {"inputs": {"criterion": ["is polite", f"is brief, {row['output'][-7:]}"]}}
        for row in labels()
    ]
    write_labels(calibrated, rows, "criteria")
    done = calibrated.command("judges", "calibrate", "criteria", "--repeats=1")
    assert (done.returncode, done.stderr) == (0, "")
    result = calibrated.run()
    result.assert_outcomes(failed=1)
    assert "inform" not in result.stdout.str()


def test_a_reply_that_leaves_a_criterion_out_is_no_verdict(
    project: EvalProject, endpoint: Endpoint
):
    def one_only(text: str) -> str:
        if "<criterion-" in text:
            verdicts = [{"number": 1, "reasoning": "of the first", "score": 5}]
            return json.dumps({"verdicts": verdicts})
        return says(text)

    endpoint.answer = one_only
    project.judged_by('min_chars(1), rubric(criterion=["is polite", "names a time"])')
    result = project.run()
    assert result.ret != 0
    assert "does not have 2 verdicts" in result.stdout.str()


def test_cases_state_criteria_of_their_own(calibrated: EvalProject, endpoint: Endpoint):
    calibrated.eval(NO_JUDGES)
    rude = {"rubric": {"criterion": "is rude, score 1", "pass_at": 0.7}}
    calibrated.golden(
        [
            calibrated.case(0, checks=[POLITE, SEVERE]),
            calibrated.case(1, checks=[rude, SEVERE | {"weight": 3}], pass_at=0.75),
            calibrated.case(2, checks=[rude | {"metric": "rude"}, SEVERE]),
            calibrated.case(3, checks=[{"rubric": {"criterion": ["is polite", "is brief"]}}]),
        ]
    )
    result = calibrated.run()
    assert endpoint.models["judge"] == 4
    said = result.stdout.str()
    assert "checks: rude: score 1: as asked" in said
    outcomes = {row["case"]: row["outcome"] for row in calibrated.rows()}
    assert outcomes == {
        "disk-000": "passed",
        "disk-001": "passed",
        "disk-002": "failed",
        "disk-003": "unmeasured",
    }
    endpoint.forget()
    calibrated.run("--record=none")
    assert {row["case"]: row["outcome"] for row in calibrated.rows()} == outcomes
    assert endpoint.total == 0


def test_an_uncalibrated_check_decides_nothing(project: EvalProject):
    project.eval(NO_JUDGES)
    poor = {"rubric": {"criterion": "is polite, score 1"}}
    project.golden([project.case(0, checks=[poor, SEVERE]), project.case(1, checks=[poor])])
    result = project.run()
    assert {row["case"]: row["outcome"] for row in project.rows()} == {
        "disk-000": "passed",
        "disk-001": "unmeasured",
    }
    result.stdout.fnmatch_lines(
        [
            "advisory judges:",
            "*checks: rubric(is polite, score 1) (no calibration record), passed 0, failed 2",
        ]
    )
    for form in ("html", "md"):
        text = project.command("report", "latest", "--format", form).stdout
        assert "checks: rubric(is polite, score 1)" in text.replace("\\", "")
    [verdict] = project.rows()[0]["verdicts"]
    assert "advisory: rubric(is polite, score 1): fail" in verdict["reason"]
    assert "(no calibration record)" in verdict["reason"]
    result.stdout.fnmatch_lines(
        [
            "*every judge abstained: checks",
            "*checks: every check is advisory: rubric(is polite, score 1) (no calibration record)",
            "*fix: regauge judges calibrate criterion",
        ]
    )


BRIEF = {"rubric": {"criterion": "is brief, score 1", "pass_at": 0.7}}


def test_the_criteria_of_a_case_are_asked_in_one_call(project: EvalProject, endpoint: Endpoint):
    project.eval(NO_JUDGES)
    other = {"rubric": {"criterion": "is calm", "votes": 2}}
    project.golden([project.case(0, checks=[POLITE, BRIEF | {"metric": "brief"}, SEVERE, other])])
    result = project.run()
    assert endpoint.models["judge"] == 3
    result.stdout.fnmatch_lines(
        [
            "*checks: brief (no calibration record), passed 0, failed 1",
        ]
    )
    [verdict] = project.rows()[0]["verdicts"]
    said = {row["check"]: (row["outcome"], row["score"]) for row in verdict["details"]["checks"]}
    assert said["brief"] == ("fail", 0.0)
    assert said["rubric(is polite)"] == ("pass", 0.75)


def test_criteria_that_are_calibrated_one_by_one_stay_blocking(
    calibrated: EvalProject, endpoint: Endpoint
):
    calibrated.eval(NO_JUDGES)
    calibrated.golden([calibrated.case(0, checks=[POLITE, BRIEF])])
    calibrated.run().assert_outcomes(failed=1)
    assert endpoint.models["judge"] == 2
    rows = [
        row | {"inputs": {"criterion": ["is polite", f"is brief, {row['output'][-7:]}"]}}
        for row in labels()
    ]
    write_labels(calibrated, rows, "criteria")
    done = calibrated.command("judges", "calibrate", "criteria", "--repeats=1")
    assert (done.returncode, done.stderr) == (0, "")
    endpoint.forget()
    result = calibrated.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*checks: rubric(is brief, score 1): score 1: *"])
    assert endpoint.models["judge"] == 1
    assert "advisory" not in result.stdout.str()


def test_a_rubric_of_criteria_needs_one(project: EvalProject, endpoint: Endpoint):
    project.judged_by('rubric("criterion")')
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert 'fix: rubric(criterion="is polite")' in result.stdout.str()
    assert endpoint.total == 0


def test_a_case_may_name_any_llm_judge(calibrated: EvalProject, endpoint: Endpoint):
    calibrated.write(
        "prompts/judges/better.prompt.yml",
        "version: 1.0.0\nrubric: {kind: pair}\nmessages:\n"
        '  - {role: user, content: "Pair? {{first}} {{second}}"}\n',
    )
    calibrated.eval(NO_JUDGES)
    rude = {"rubric": {"criterion": "is rude", "model": "local:other"}}
    checks = [
        SEVERE,
        {"panel": [{"rubric": {"criterion": "is polite"}}, rude]},
        {"pairwise": {"rubric": "better", "against": {"expected": "other"}}},
        {"verified_claims": {"source": "text", "field": "reason"}},
        {"deepeval": {"metric": "ExactMatch", "fields": {"expected_output": "inputs.text"}}},
    ]
    calibrated.golden([calibrated.case(0, checks=checks, expected={"other": "fine"})])

    def says_all(text: str) -> str:
        if text.startswith("Pair?"):
            return json.dumps({"reasoning": "so", "winner": "first"})
        if text.startswith("The text:"):
            return json.dumps({"claims": []})
        return says(text)

    endpoint.answer = says_all
    calibrated.loaded = ("quiet_deepeval",)
    calibrated.run().assert_outcomes(passed=1)
    [verdict] = calibrated.rows()[0]["verdicts"]
    assert [row["check"] for row in verdict["details"]["checks"]][1:] == [
        "panel(rubric(is polite), rubric(is rude))",
        "better",
        "verified_claims(text, field=reason)",
        "ExactMatch",
    ]


def test_a_case_may_name_a_rubric_of_the_project(calibrated: EvalProject, endpoint: Endpoint):
    calibrated.write(
        "prompts/judges/right.prompt.yml",
        "version: 1.0.0\nrubric: {kind: graded, scale: {min: 1, max: 5}}\nmessages:\n"
        '  - {role: user, content: "Right? {{answer}}"}\n',
    )
    calibrated.eval(NO_JUDGES)
    calibrated.golden([calibrated.case(0, checks=[{"rubric": "right"}, SEVERE])])

    def says_of_right(text: str) -> str:
        low = json.dumps({"reasoning": "so", "score": 1})
        return low if text.startswith("Right?") else says(text)

    endpoint.answer = says_of_right
    calibrated.run().assert_outcomes(passed=1)
    assert "right: fail" in calibrated.rows()[0]["verdicts"][0]["reason"]


def test_criteria_that_make_no_sense_are_refused_with_their_place(project: EvalProject):
    """Each in a dataset of its own, so that one run shows all of them."""
    rows = [
        ({"rubric": {"criterion": ""}}, "a criterion is a sentence, not ''"),
        ({"rubric": {"criterion": []}}, "one call takes 1 to 20 criteria, not 0"),
        ({"rubric": {"criterion": ["is a", "is a"]}}, "'is a' is stated twice"),
        ({"rubric": {"criterion": "is a", "pass_at": 2}}, "pass_at is a score from 0 to 1"),
        ({"rubric": {"criterion": "is a", "name": "tone"}}, "the name of a rubric, or a criterion"),
        ({"rubric": {"criteria": "is a"}}, "unexpected keyword argument 'criteria'"),
        ({"rubric": {"criterion": "is a", "pass_att": 1}}, "did you mean 'pass_at'?"),
        ({"rubric": {"criterion": "is a", "x": 1}}, "it takes rubric(name=None, *, criterion="),
        ({"rubric": "tonee"}, "there is no prompt 'tonee'"),
        ({"not": {"rubric": {"criterion": "is a"}}}, "only rules can be negated"),
        ({"any_of": {"judges": [{"rubric": {"criterion": "is a"}}]}}, "any_of"),
    ]
    (project.root / "evals/test_triage.py").unlink()
    for number, row in enumerate(rows):
        name = f"row-{number}"
        project.prompt(name=name)
        project.golden([project.case(0, checks=[row[0]])], name=name)
        project.eval(NO_JUDGES.replace('"triage"', f'"{name}"'), name=f"test_{number}")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = project.not_collected(result)
    wrong = [
        (number, message)
        for number, (_, message) in enumerate(rows)
        for part in (message, f"fixtures/golden/row-{number}.jsonl:1", "checks of disk-000")
        if part not in said.get(f"test_{number}", "")
    ]
    assert wrong == []


def test_a_project_may_word_the_rubric_itself(calibrated: EvalProject, endpoint: Endpoint):
    calibrated.write(
        "prompts/judges/criterion.prompt.yml",
        "version: 1.0.0\nrubric: {kind: graded, scale: {min: 1, max: 5}}\nmessages:\n"
        '  - {role: user, content: "Met? {{criterion}} {{answer}}"}\n',
    )
    calibrated.judged_by('min_chars(1), rubric(criterion="is polite")')
    seen: list[str] = []

    def note(text: str) -> str:
        seen.append(text)
        return says(text)

    endpoint.answer = note
    result = calibrated.run()
    assert any(text.startswith("Met?") for text in seen)
    assert "rubric or parameters changed since it was calibrated" in result.stdout.str()
