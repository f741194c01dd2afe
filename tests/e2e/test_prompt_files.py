"""`pytest some.prompt.yml`: a prompt file with its own data is a suite of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inline_snapshot import snapshot

if TYPE_CHECKING:
    from tests.conftest import EvalProject

GREETING = """\
name: Greeting
model: sim:clerk-1
messages:
  - role: user
    content: "Answer in JSON with the keys title and reason: {{topic}}"
testData:
  - topic: disk full
    expected: title
  - topic: node down
    expected: title
evaluators:
"""
HAS_TITLE = "  - name: has title\n    string:\n      contains: '{{expected}}'\n"
HAS_UNICORN = "  - name: has unicorn\n    string:\n      contains: unicorn\n"
CHOICE = """\
  - name: to the point
    llm:
      modelId: sim/clerk-1
      systemPrompt: You grade answers.
      prompt: "Does the answer name {{topic}}, and give a {{expected}}?\\n\\nAnswer:\\n{{completion}}"
      choices:
        - {choice: "yes", score: 1}
        - {choice: partly, score: 0.5}
        - {choice: "no", score: 0}
"""
FLUENT = "  - name: fluent\n    uses: github/fluency\n"


def test_every_row_of_a_named_prompt_file_is_an_item(project: EvalProject):
    project.write("more/greeting.prompt.yml", GREETING + HAS_TITLE)
    run = project.pytest("more/greeting.prompt.yml", "-v")
    run.assert_outcomes(passed=2)
    run.stdout.fnmatch_lines(["*greeting.prompt.yml::testData-1 PASSED*"])
    assert (project.root / "fixtures" / "recordings" / "greeting.jsonl").is_file()
    project.pytest("more/greeting.prompt.yml::testData-2", "--record=none").assert_outcomes(
        passed=1
    )


def test_evals_name_a_recorded_prompt_file_that_was_left_out(project: EvalProject):
    project.write("prompts/greeting.prompt.yml", GREETING + HAS_TITLE)
    project.pytest("prompts/greeting.prompt.yml").assert_outcomes(passed=2)
    project.golden([project.case(1)])
    project.judged_by("max_words(9)")
    run = project.pytest("evals")
    run.stdout.fnmatch_lines(
        [
            "*greeting has recordings or a baseline*",
            "  fix: *: pytest evals prompts/greeting.prompt.yml",
        ]
    )
    both = project.pytest("evals", "prompts/greeting.prompt.yml")
    assert "unmeasured: " not in both.stdout.str()


def test_an_evaluator_is_any_judge_of_regauge(project: EvalProject):
    project.write(
        "greeting.prompt.yml",
        GREETING + "  - name: a title\n    judge: {contains: {expected: expected}}\n"
        "  - name: short\n    judge: {max_words: 1}\n",
    )
    run = project.pytest("greeting.prompt.yml")
    run.assert_outcomes(failed=2)
    said = run.stdout.str()
    assert "✓ a title" in said
    assert "✗ short: " in said
    project.write("greeting.prompt.yml", GREETING + "  - name: x\n    judge: {max_word: 1}\n")
    refused = project.pytest("greeting.prompt.yml").stdout.str()
    assert "the evaluator 'x': no judge 'max_word'; did you mean 'max_words'?" in refused


def test_two_workers_run_it_too(project: EvalProject):
    project.write("greeting.prompt.yml", GREETING + HAS_TITLE)
    project.pytest("greeting.prompt.yml", "-n2").assert_outcomes(passed=2)


def test_a_row_that_an_evaluator_fails_is_a_failure_with_its_reason(project: EvalProject):
    project.write("greeting.prompt.yml", GREETING + HAS_TITLE + HAS_UNICORN)
    run = project.pytest("greeting.prompt.yml")
    run.assert_outcomes(failed=2)
    run.stdout.fnmatch_lines(["*has unicorn*", "*again: pytest greeting.prompt.yml::testData-1"])


def test_an_evaluator_that_asks_a_model_is_asked_and_informs(project: EvalProject):
    """Nobody has said yet that it agrees with people, so a rule decides beside it."""
    project.settings('judge_model = "sim:clerk-1"')
    project.write("greeting.prompt.yml", GREETING + HAS_TITLE + FLUENT + CHOICE)
    run = project.pytest("greeting.prompt.yml")
    run.assert_outcomes(passed=2)
    run.stdout.fnmatch_lines(["*greeting: fluent (no calibration record)*"])
    said = {v["judge"]: v for row in project.rows() for v in row["verdicts"]}
    assert set(said) == {"has title", "fluent", "to the point"}
    assert said["fluent"]["score"] in {0, 0.25, 0.5, 0.75, 1}
    assert said["to the point"]["score"] in {0, 0.5, 1}
    asked = project.recordings("judges/greeting")
    assert {line["model"] for line in asked} == {"sim:clerk-1"}
    project.pytest("greeting.prompt.yml", "--record=none").assert_outcomes(passed=2)


def test_an_evaluator_that_asks_a_model_needs_one(project: EvalProject):
    project.write("greeting.prompt.yml", GREETING + HAS_TITLE + FLUENT)
    run = project.pytest("greeting.prompt.yml")
    assert run.ret != 0
    assert "no model is set for the judge 'fluent'" in "\n".join(run.outlines + run.errlines)


def test_a_replay_names_the_command_that_records_the_file(project: EvalProject):
    project.write("greeting.prompt.yml", GREETING + HAS_TITLE)
    run = project.pytest("greeting.prompt.yml", "--record=none")
    assert run.ret == 1
    run.stdout.fnmatch_lines(["*record them: pytest greeting.prompt.yml --record missing"])


def test_a_file_without_data_or_evaluators_is_an_error(project: EvalProject):
    project.write("greeting.prompt.yml", GREETING.split("testData", maxsplit=1)[0])
    run = project.pytest("greeting.prompt.yml")
    assert run.ret == 2
    said = [line for line in run.outlines if line.startswith("greeting.prompt.yml: ")]
    assert said == snapshot(
        ["greeting.prompt.yml: it has no `testData`, so nothing would be measured"]
    )


def test_prompt_files_that_nobody_names_are_not_collected(project: EvalProject):
    project.write("prompts/greeting.prompt.yml", GREETING + HAS_TITLE)
    project.write("settings.yml", "messages: none\n")
    project.pytest("evals").assert_outcomes(passed=5)
    assert project.pytest("settings.yml").ret != 0
