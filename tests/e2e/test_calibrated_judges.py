"""What a judge that asks a model decides in a run: nothing, until its calibration says it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.labelled import EVAL, RUBRIC, labels, told, write_labels

if TYPE_CHECKING:
    from _pytest.pytester import RunResult

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


@pytest.fixture
def answered(judged: EvalProject, endpoint: Endpoint) -> EvalProject:
    """The judge will call the answer to disk-003 bad, and all others good."""

    def answer(text: str) -> str:
        if "<answer-" in text:
            return told(text)
        return "It is bad: fail" if "disk 3" in text else "It is good: pass"

    endpoint.answer = answer
    write_labels(judged, labels(right=19, wrong=1))
    return judged


def informing(result: RunResult) -> str:
    """What the summary says of judges that do not decide."""
    _, _, said = result.stdout.str().partition("advisory judges:\n")
    return said.partition("\n")[0].strip()


def test_a_judge_informs_until_it_is_calibrated_and_then_decides(answered: EvalProject):
    uncalibrated = answered.run()
    uncalibrated.assert_outcomes(passed=5)
    assert informing(uncalibrated) == ("triage: tone (no calibration record), passed 4, failed 1")
    assert answered.command("report", "--format=md").stdout.count("no calibration record") == 1

    assert answered.command("judges", "calibrate", "tone").returncode == 0
    calibrated = answered.run("--record=none")
    calibrated.assert_outcomes(passed=4, failed=1)
    calibrated.stdout.fnmatch_lines(["*disk-003*"])
    assert informing(calibrated) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rubric", "its rubric or parameters changed since it was calibrated"),
        ("model", "it was calibrated with local:clerk, not with local:other"),
        ("labels", "its labels changed since it was calibrated"),
        ("policy", "the floor is 0.90"),
    ],
)
def test_what_a_record_does_not_speak_for_informs(answered: EvalProject, change: str, said: str):
    assert answered.command("judges", "calibrate", "tone", "--repeats=1").returncode == 0
    arguments: list[str] = []
    match change:
        case "rubric":
            answered.write("prompts/judges/tone.prompt.yml", RUBRIC.replace("polite", "kind"))
        case "model":
            arguments.append("--judge-model=local:other")
        case "labels":
            write_labels(answered, labels(right=17, wrong=0))
        case _:
            answered.settings(
                'judge_model = "local:clerk"\n[tool.regauge.calibration]\nfloor = 0.9'
            )
    result = answered.run(*arguments)
    result.assert_outcomes(passed=5)
    assert said in informing(result)


def test_a_case_whose_only_judge_informs_is_unmeasured(answered: EvalProject):
    answered.eval(EVAL.replace("min_chars(1), ", ""))
    result = answered.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*5 unmeasured*"])
    assert answered.command("judges", "calibrate", "tone", "--repeats=1").returncode == 0
    answered.run("--record=none").assert_outcomes(passed=4, failed=1)


def test_every_verdict_says_whether_it_gates(answered: EvalProject):
    def standings() -> set[tuple[str, bool]]:
        return {
            (verdict["judge"], verdict.get("blocking", True))
            for row in answered.rows()
            for verdict in row["verdicts"]
        }

    answered.run()
    assert standings() == {("min_chars(1)", True), ("tone", False)}
    answered.command("judges", "calibrate", "tone", "--repeats=1")
    answered.run("--record=none")
    assert standings() == {("min_chars(1)", True), ("tone", True)}
