"""`checks`: judges that a golden case brings of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import EvalProject

NO_JUDGES = """\
from regauge import golden

@golden("triage")
def test_triage(result):
    result.check()
"""
CRITICAL = {"field_equals": {"path": "severity", "expected": "critical"}}
WARNING = {"field_equals": {"path": "severity", "expected": "warning"}}


@pytest.fixture
def checked(live: EvalProject) -> EvalProject:
    """Every answer is `{"severity": "critical", "reason": "it says so itself"}`."""
    live.eval(NO_JUDGES)
    return live


def test_each_case_is_judged_by_its_own_checks(checked: EvalProject):
    checked.golden(
        [
            checked.case(0, checks=["json_parses", {"contains": "critical"}]),
            checked.case(1, checks=[{"contains": "Berlin"}, {"not": {"matches": "sorry"}}]),
        ]
    )
    result = checked.run()
    result.assert_outcomes(passed=1, failed=1)
    said = result.stdout.str()
    assert "✗ checks: contains(Berlin): " in said
    assert "sorry" not in said


def test_script_assertions_of_promptfoo_are_checks_and_replay(checked: EvalProject):
    checked.write(
        "asserts/severity.js",
        "module.exports = (output, {vars}) => JSON.parse(output).severity === 'critical';\n",
    )
    checked.write(
        "asserts/reason.py",
        "import json\ndef get_assert(output, context):\n    return len(json.loads(output)['reason']) > 3\n",
    )
    loop = {"code": "while (true) {}\nreturn true;", "timeout_s": 0.5}
    checked.golden(
        [
            checked.case(
                0,
                checks=[
                    {"javascript": "output.includes('critical')"},
                    {"javascript": {"file": "asserts/severity.js"}},
                    {"promptfoo_python": {"file": "asserts/reason.py"}},
                    {"not": {"javascript": "context.vars.nothing === 1"}},
                ],
            ),
            checked.case(1, checks=[{"javascript": "JSON.parse(output).severity === 'info'"}]),
            checked.case(2, checks=[{"javascript": loop}]),
        ]
    )
    for options in ([], ["--record=none"]):
        result = checked.run(*options)
        result.stdout.fnmatch_lines(
            ["*it took longer than 0.5 s*", "*1 failed, 1 passed, 1 unmeasured*"]
        )


def test_checks_stand_beside_the_judges_of_the_eval(checked: EvalProject):
    checked.judged_by("max_words(1)")
    checked.golden([checked.case(0), checked.case(1, checks=["json_parses"])])
    result = checked.run()
    result.assert_outcomes(failed=2)
    assert "✓ checks" in result.stdout.str()


def test_a_case_without_any_judge_is_unmeasured(checked: EvalProject):
    checked.golden([checked.case(0), checked.case(1, checks=["json_parses"])])
    result = checked.run()
    assert result.ret == 1
    assert "every judge abstained: checks" in result.stdout.str()


def test_an_eval_without_judges_and_checks_is_refused(checked: EvalProject):
    result = checked.run()
    assert result.ret != 0
    assert "the eval has no judges" in result.stdout.str()
    assert "or give the golden cases `checks`" in result.stdout.str()


def test_a_weighted_share_of_the_checks_suffices(checked: EvalProject):
    rows: list[tuple[float | None, list[Any], bool]] = [
        (None, [CRITICAL, WARNING], False),
        (0.5, [CRITICAL, WARNING], True),
        (0.51, [CRITICAL, WARNING], False),
        (0.7, [CRITICAL | {"weight": 3}, WARNING], True),
        (0.8, [CRITICAL | {"weight": 0.7}, "json_parses", WARNING | {"weight": 0.3}], True),
        (0.1, [CRITICAL, WARNING | {"tier": "critical"}], False),
        (None, [CRITICAL, WARNING | {"tier": "tracked"}], True),
    ]
    checked.golden(
        checked.case(number, checks=checks, **({} if pass_at is None else {"pass_at": pass_at}))
        for number, (pass_at, checks, _) in enumerate(rows)
    )
    checked.run()
    outcomes = {row["case"]: row["outcome"] for row in checked.rows()}
    passes = [outcomes[f"disk-{number:03}"] == "passed" for number in range(len(rows))]
    assert passes == [row[2] for row in rows]
    assert {*outcomes.values()} == {"passed", "failed"}


def test_a_check_is_called_by_its_metric(checked: EvalProject):
    checked.golden([checked.case(0, checks=[WARNING | {"metric": "severity is right"}])])
    result = checked.run()
    assert "checks: severity is right: severity is 'critical'" in result.stdout.str()


def test_checks_that_make_no_sense_are_refused_with_their_place(checked: EvalProject):
    """Each in a dataset of its own, so that one run shows all of them."""
    rows = [
        ({"checks": [{"contans": "x"}]}, "checks of disk-000: no judge 'contans'"),
        ({"checks": [{"contains": "x", "weight": 0}]}, "the weight 0 is not a number above 0"),
        ({"checks": [{"contains": "x", "tier": "high"}]}, "no such tier: 'high'"),
        ({"checks": [{"contains": "x", "metric": ""}]}, "the metric '' is not a name"),
        ({"checks": [{"contains": "x", "matches": "y"}]}, "not a judge"),
        ({"checks": {"contains": "x"}}, "checks is {'contains': 'x'}"),
        ({"checks": []}, "checks is []"),
        ({"checks": ["json_parses"], "pass_at": 1.5}, "pass_at is 1.5"),
        ({"checks": ["json_parses"], "pass_at": True}, "pass_at is True"),
        ({"pass_at": 0.5}, "pass_at without checks"),
        ({"check": ["json_parses"]}, "did you mean 'checks'?"),
    ]
    (checked.root / "evals/test_triage.py").unlink()
    for number, row in enumerate(rows):
        name = f"row-{number}"
        checked.prompt(name=name)
        checked.golden([checked.case(0, **row[0])], name=name)
        checked.eval(NO_JUDGES.replace('"triage"', f'"{name}"'), name=f"test_{number}")
    result = checked.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = checked.not_collected(result)
    wrong = [
        (number, message)
        for number, (_, message) in enumerate(rows)
        for part in (message, f"fixtures/golden/row-{number}.jsonl:1")
        if part not in said.get(f"test_{number}", "")
    ]
    assert wrong == []


def test_lint_refuses_checks_before_any_recording(checked: EvalProject):
    checked.golden([checked.case(0, checks=[{"paragraph_starts_with": -1}])])
    done = checked.command("lint")
    assert done.returncode == 1
    assert (
        "fixtures/golden/triage.jsonl:1: checks of disk-000: paragraph_starts_with" in done.stdout
    )


def test_all_wrong_checks_of_a_case_are_reported_together(checked: EvalProject):
    specs = [{"contans": "x"}, {"max_words": 3}, {"max_words": {"n": 3, "feld": "a"}}, {"not": 3}]
    turns = [{"user": "Hi", "checks": [{"matches": "("}]}]
    checked.golden([checked.case(0, checks=specs, turns=turns), checked.case(1, checks=["max"])])
    done = checked.command("lint")
    place = "fixtures/golden/triage.jsonl"
    for message in (
        f"{place}:1: checks of disk-000: no judge 'contans'; did you mean 'contains'?",
        f"{place}:1: checks of disk-000: max_words: got an unexpected keyword argument 'feld'; did",
        f"{place}:1: checks of disk-000: not a judge: 3",
        f"{place}:1: checks of disk-000: matches: '(' is not a regular expression",
        f"{place}:2: checks of disk-001: no judge 'max'",
    ):
        assert message in done.stdout, done.stdout


def test_a_table_holds_checks_as_json(checked: EvalProject):
    checked.write("fixtures/golden/triage.jsonl", "").unlink()
    text = "critical: disk 1 is full"
    cells = [
        ("good", json.dumps([CRITICAL]), ""),
        ("bad", json.dumps([CRITICAL, WARNING]), ""),
        ("half", json.dumps([CRITICAL, WARNING]), "0.5"),
    ]
    rows = "".join(
        '{},{},"{}",{}\n'.format(name, text, checks.replace('"', '""'), share)
        for name, checks, share in cells
    )
    checked.write("fixtures/golden/triage.csv", f"id,inputs.text,checks,pass_at\n{rows}")
    checked.run().assert_outcomes(passed=2, failed=1)


def test_judges_are_named_wherever_judges_are_given(checked: EvalProject):
    checked.write(
        "evals/words.py", "def calm(output):\n    return ('!' not in output, 'an exclamation')\n"
    )
    checked.settings(pytest='pythonpath = ["evals"]')
    checked.judged_by('"json_parses", {"not": {"contains": "sorry"}}')
    checked.golden(
        [
            checked.case(0, checks=[{"as_judge": "words:calm"}]),
            checked.case(1, checks=[{"as_judge": {"function": "words:calm", "name": "quiet"}}]),
        ]
    )
    checked.run().assert_outcomes(passed=2)
    before = checked.rows()[0]["verdicts"][-1]["judge_digest"]
    checked.write("evals/words.py", "def calm(output):\n    return False, 'never'\n")
    result = checked.run()
    result.assert_outcomes(failed=2)
    assert "checks: quiet: never" in result.stdout.str()
    assert checked.rows()[0]["verdicts"][-1]["judge_digest"] != before


@pytest.mark.parametrize(
    ("judges", "message"),
    [
        ('{"contans": "x"}', "no judge 'contans'; did you mean 'contains'?"),
        ('{"as_judge": "calm"}', "fix: write package.module:function"),
        ('{"as_judge": "absent:calm"}', "No module named 'absent'"),
        ('{"panel": ["json_parses", "json_parses"]}', "is not an LLM judge"),
    ],
)
def test_a_name_that_is_no_judge_is_refused(checked: EvalProject, judges: str, message: str):
    checked.judged_by(judges)
    result = checked.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert message in result.stdout.str()
