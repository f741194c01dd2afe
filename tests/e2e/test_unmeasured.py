"""Ways to keep a run of evals from measuring something: none of them is green."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import EvalProject

HEAD = """\
import pytest
from regauge import Verdict, golden
from regauge.judges import min_chars
"""
EVAL = """
@golden("triage", judges=[min_chars(1)])
def test_triage(result):
    result.check()
"""
FAILING = "\n\ndef never(output, case):\n    return False\n"
PLAIN = "def test_plain():\n    pass\n"


def eval_of(*, above: str = "", judges: str = "min_chars(1)", body: str = "result.check()") -> str:
    return (
        f"{HEAD}{FAILING}\n{above}\n@golden('triage', judges=[{judges}])\n"
        f"def test_triage(result):\n    {body}\n"
    )


UNMEASURED = {
    "skip mark": eval_of(above="@pytest.mark.skip(reason='not today')"),
    "skipif mark": eval_of(above="@pytest.mark.skipif(True, reason='not today')"),
    "module mark": eval_of(above="pytestmark = pytest.mark.skip('not today')\n"),
    "fixture that skips": eval_of(
        above="@pytest.fixture\ndef moody():\n    pytest.skip('not today')\n\n"
        "@pytest.mark.usefixtures('moody')"
    ),
    "skip in the body": eval_of(body="pytest.skip('not today')"),
    "skip after the check": eval_of(body="result.check(); pytest.skip('not today')"),
    "importorskip in the body": eval_of(body="pytest.importorskip('no_such_module')"),
    "unittest's skip": eval_of(body="import unittest; raise unittest.SkipTest('not today')"),
    "xfail in the body": eval_of(body="pytest.xfail('not today')"),
    "xfail that does not run": eval_of(above="@pytest.mark.xfail(run=False, reason='not today')"),
    "empty parameters": eval_of(above="@pytest.mark.parametrize('x', [])").replace(
        "(result)", "(result, x)"
    ),
    "fixture result of its own": eval_of(
        above="@pytest.fixture\ndef result(request):\n"
        "    return type('R', (), {'check': lambda self: None})()\n"
    ),
    "judge that skips": eval_of(
        above="def skips(output, case):\n    pytest.skip('not today')\n", judges="skips"
    ),
    "judge that xfails": eval_of(
        above="def xfails(output, case):\n    pytest.xfail('not today')\n", judges="xfails"
    ),
    "judge that exits": eval_of(
        above="def exits(output, case):\n    raise SystemExit(0)\n", judges="exits"
    ),
    "judge that exits pytest": eval_of(
        above="def exits(output, case):\n    pytest.exit('bye', returncode=0)\n", judges="exits"
    ),
    "judge that is cancelled": eval_of(
        above="import asyncio\n\ndef gone(output, case):\n    raise asyncio.CancelledError\n",
        judges="gone",
    ),
    "async judge that skips": eval_of(
        above="class Skips:\n    name = digest = 'skips'\n"
        "    async def judge(self, completion, case):\n        pytest.skip('not today')\n",
        judges="Skips()",
    ),
    **{
        f"verdict with {what}": eval_of(
            above=f"def odd(output, case):\n    return Verdict({fields})\n", judges="odd"
        )
        for what, fields in {
            "a score that is not a number": "outcome='pass', score=float('nan'), reason=''",
            "an endless score": "outcome='pass', score=float('inf'), reason=''",
            "a score above 1": "outcome='pass', score=7, reason=''",
            "a cost that is not a number": (
                "outcome='pass', score=1.0, reason='', cost_usd=float('nan')"
            ),
            "an unknown outcome": "outcome='passed', score=1.0, reason=''",
            "no reason": "outcome='pass', score=1.0, reason=None",
        }.items()
    },
}
FAILED = {
    "swallowed check": eval_of(
        judges="never",
        body="try:\n        result.check()\n    except BaseException:\n        pass",
    ),
    "suppressed check": eval_of(
        judges="never",
        body="with pytest.raises(AssertionError):\n        result.check()",
    ),
    "early return": eval_of(judges="never", body="return\n    result.check()"),
    "outcome written over": eval_of(
        judges="never", body="result.outcome = 'passed'\n    result.check()"
    ),
    "skip of a failed case": eval_of(judges="never", body="pytest.skip('not today')"),
    "xfail of a failed case": eval_of(judges="never", body="pytest.xfail('not today')"),
}


@pytest.fixture(scope="module")
def recorded() -> dict[str, bytes]:
    """What the first project recorded, for those that are the same."""
    return {}


@pytest.fixture
def quick(project: EvalProject, recorded: dict[str, bytes]) -> EvalProject:
    """Two cases, recorded, next to a test that passes."""
    project.golden([project.case(0), project.case(1)])
    project.eval(HEAD + EVAL)
    project.eval(PLAIN, name="test_plain")
    recordings = project.root / "fixtures/recordings/triage.jsonl"
    if not recorded:
        assert project.run().ret == 0
        shutil.rmtree(project.root / ".regauge")
        recorded["triage"] = recordings.read_bytes()
    recordings.parent.mkdir(exist_ok=True)
    recordings.write_bytes(recorded["triage"])
    return project


def all_of(project: EvalProject, ways: dict[str, str]) -> dict[str, str]:
    """Write an eval for every way next to the others; the way of each file."""
    (project.root / "evals/test_triage.py").unlink()
    names = {f"test_way_{number}": way for number, way in enumerate(ways)}
    for name, way in names.items():
        project.eval(ways[way], name=name)
    return names


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_an_eval_that_is_kept_from_its_verdict_is_unmeasured(
    quick: EvalProject, workers: Sequence[str]
):
    names = all_of(quick, UNMEASURED)
    result = quick.run("--record=none", "-v", "--junitxml=junit.xml", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "<skipped" not in (quick.root / "junit.xml").read_text(encoding="utf-8")
    text = result.stdout.str()
    own = next(name for name, way in names.items() if way == "fixture result of its own")
    for name, way in names.items():
        said = [line for line in text.splitlines() if f"/{name}.py::" in line]
        if name == own:
            assert any("unmeasured: 2 cases had no result: " in line for line in said), way
        else:
            assert sum("UNMEASURED" in line for line in said) >= 2, way
    assert "skipped" not in text.splitlines()[-1]
    text = next(quick.root.glob(".regauge/runs/*/trials.jsonl")).read_text()
    rows = [json.loads(row, parse_constant=pytest.fail) for row in text.splitlines()]
    reasons = [row["cause"]["message"] for row in rows if f"/{own}.py::" in row["node"]]
    assert reasons == ["the test ended without a result"] * 2


def test_a_failed_case_fails_whatever_its_body_does(quick: EvalProject):
    all_of(quick, FAILED)
    result = quick.run("--record=none")
    result.assert_outcomes(failed=2 * len(FAILED), passed=1)
    assert "never: never returned false" in result.stdout.str()


def test_a_skipped_case_says_why_and_how_to_mean_it(quick: EvalProject):
    quick.eval(UNMEASURED["skip mark"])
    result = quick.run("--junitxml=junit.xml")
    assert result.parseoutcomes() == {"passed": 1, "unmeasured": 2}
    result.stdout.fnmatch_lines(
        [
            "unmeasured: 2 cases of triage (UnmeasuredError)",
            "  disk-000, disk-001",
            "  skipped, so not measured: not today (evals/test_triage.py:9)",
            "    fix: take the skip out; *; to leave it out, use the command line: -k 'not disk-000'",
        ]
    )
    assert 'errors="2" failures="0" skipped="0"' in (quick.root / "junit.xml").read_text()
    (suite,) = quick.records()[-1]["evals"]
    assert suite["unmeasured"] == 2


def test_reports_stay_json_whatever_a_judge_states(quick: EvalProject):
    quick.eval(
        eval_of(
            above="NAN = float('nan')\n\ndef odd(output, case):\n"
            "    return Verdict(outcome='fail', score=0.0, reason='', expected=NAN, actual=[NAN],"
            " details={'n': {'x': float('inf')}})\n",
            judges="odd",
        )
    )
    quick.run().assert_outcomes(failed=2, passed=1)
    shown = quick.command("report", "--format", "json").stdout
    rows = json.loads(shown, parse_constant=pytest.fail)["rows"]
    assert rows[0]["verdicts"][0]["actual"] == ["nan"]
    assert rows[0]["verdicts"][0]["details"] == {"n": {"x": "inf"}}


def test_a_tracked_case_and_an_expected_failure_stay_what_they_are(quick: EvalProject):
    quick.eval(eval_of(above="@pytest.mark.xfail", judges="never"))
    assert quick.run("--record=none").parseoutcomes() == {"passed": 1, "xfailed": 2}


def test_an_unmeasured_case_with_an_xfail_mark_is_named_once(quick: EvalProject):
    quick.eval(eval_of(above="@pytest.mark.xfail"))
    quick.run()
    shutil.rmtree(quick.root / ".regauge")
    quick.write("fixtures/recordings/triage.jsonl", "{\n")
    result = quick.run("--record=none")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "had no result" not in result.stdout.str()
    assert "triage.jsonl:1: " in result.stdout.str()


def test_plain_tests_are_skipped_as_ever(quick: EvalProject):
    quick.eval(
        "import pytest\n\n@pytest.mark.skip\ndef test_a():\n    pass\n\n"
        "def test_b():\n    pytest.xfail('known')\n",
        name="test_plain",
    )
    result = quick.run()
    assert result.parseoutcomes() == {"passed": 2, "skipped": 1, "xfailed": 1}
    assert result.ret == 0


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only"])
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_a_run_without_calls_of_tests_measures_nothing(
    quick: EvalProject, option: str, workers: Sequence[str]
):
    result = quick.run(option, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("where", ["body", "fixture"])
def test_a_run_that_ends_early_with_code_0_is_not_green(quick: EvalProject, where: str):
    leave = "pytest.exit('bye', returncode=0)"
    quick.eval(
        eval_of(body=leave)
        if where == "body"
        else eval_of(
            above=f"@pytest.fixture(autouse=True)\ndef gone():\n    {leave}\n",
        )
    )
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "had no turn before the run ended" in result.stdout.str()


def test_hooks_that_keep_items_from_running_are_noticed(quick: EvalProject):
    quick.write("conftest.py", "def pytest_runtest_protocol(item):\n    return True\n")
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "2 of 2 planned cases had no turn" in result.stdout.str()
    quick.write("conftest.py", "def pytest_collection_modifyitems(items):\n    del items[-1]\n")
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 of 2 cases of triage are there and are not run" in result.stdout.str()
    quick.write(
        "conftest.py",
        """\
import pytest

def pytest_collection_modifyitems(items):
    items[:] = []

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
""",
    )
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "2 of 2 cases of triage are there and are not run" in result.stdout.str()


SETTINGS = {
    "-k": "-k 'not disk-001'",
    "-m": "-m 'not slow'",
    "--deselect": "--deselect evals/test_triage.py::test_triage[disk-001]",
    "--ignore": "--ignore evals/test_triage.py",
    "--ignore-glob": "--ignore-glob '*triage*'",
    "python_files": "-o python_files=test_plain.py",
    "python_functions": "-o python_functions=test_plain",
}


@pytest.mark.parametrize("way", SETTINGS)
def test_settings_that_leave_cases_out_are_no_selection(quick: EvalProject, way: str):
    quick.eval(HEAD + "\n\n@pytest.mark.slow" + EVAL)
    options = "-p regauge --import-mode=importlib " + SETTINGS[way]
    quick.write("pytest.ini", f"[pytest]\naddopts = {options}\nmarkers = slow\n")
    result = quick.run("-W", "ignore")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unmeasured: " in result.stdout.str()
    assert "select them on the command line" in result.stdout.str()


@pytest.mark.parametrize("place", ["pyproject.toml", "tox.ini", "setup.cfg", "PYTEST_ADDOPTS"])
def test_settings_are_no_selection_wherever_they_are(
    quick: EvalProject, monkeypatch: pytest.MonkeyPatch, place: str
):
    if place == "PYTEST_ADDOPTS":
        monkeypatch.setenv(place, SETTINGS["-k"])
    elif place == "pyproject.toml":
        quick.settings()
        text = (quick.root / place).read_text()
        quick.write(place, text.replace('addopts = ["', 'addopts = ["-k", "not disk-001", "'))
    else:
        section = "[tool:pytest]" if place == "setup.cfg" else "[pytest]"
        quick.write(place, f"{section}\naddopts = -p regauge {SETTINGS['-k']}\n")
        quick.write("pyproject.toml", "[tool.regauge]\n")
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "unmeasured: fixtures/golden/triage.jsonl: 1 of 2 cases of triage are there and *",
        ]
    )


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "disk-000"),
        ("-vk", "disk-000"),
        ("--deselect", "evals/test_triage.py::test_triage[disk-001]"),
        ("evals/test_triage.py::test_triage[disk-000]",),
        ("evals/test_plain.py",),
        ("evals", "-k", "plain"),
    ],
)
def test_what_a_user_leaves_out_is_not_owed(quick: EvalProject, words: tuple[str, ...]):
    paths = () if words[0].startswith("evals") else ("evals",)
    assert quick.pytest(*paths, *words).ret == 0


GONE = {
    "file renamed": ("evals/triage.py", HEAD + EVAL),
    "function renamed": ("evals/test_triage.py", HEAD + EVAL.replace("test_triage", "triage")),
    "file deleted": ("evals/test_more.py", PLAIN),
    "switched off": ("evals/test_triage.py", HEAD + "if False:" + EVAL.replace("\n", "\n    ")),
    "shadowed": ("evals/test_triage.py", HEAD + EVAL + "\n\ndef test_triage():\n    pass\n"),
    "module skip": (
        "evals/test_triage.py",
        HEAD + "pytest.skip('not today', allow_module_level=True)\n" + EVAL,
    ),
    "module importorskip": (
        "evals/test_triage.py",
        HEAD + "pytest.importorskip('no_such_module')\n" + EVAL,
    ),
    "not a test": ("evals/test_triage.py", HEAD + EVAL + "\ntest_triage.__test__ = False\n"),
    "collect_ignore": ("evals/conftest.py", "collect_ignore = ['test_triage.py']\n"),
    "another dataset": (
        "evals/test_triage.py",
        HEAD + EVAL.replace("judges", "dataset='x', judges"),
    ),
}


@pytest.mark.parametrize(
    ("way", "workers"), [*((way, ()) for way in GONE), ("file renamed", ["-n2"])]
)
def test_an_eval_that_is_not_collected_any_more_is_unmeasured(
    quick: EvalProject, way: str, workers: Sequence[str]
):
    path, text = GONE[way]
    if way != "collect_ignore":
        (quick.root / "evals/test_triage.py").unlink()
    quick.golden([quick.case(0)], name="x") if way == "another dataset" else None
    quick.write(path, text)
    result = quick.run(*workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unmeasured: " in result.stdout.str()
    assert result.parseoutcomes().get("passed")


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_settings_that_end_a_run_without_evals_are_one_error(
    quick: EvalProject, workers: Sequence[str]
):
    (quick.root / "evals/test_triage.py").unlink()
    quick.write(*GONE["file renamed"])
    quick.settings("trials = 0")
    result = quick.run(*workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("pyproject.toml:6: tool.regauge.trials: must be") == 1
    assert "INTERNALERROR" not in result.stdout.str()


def test_evals_of_a_version_measure_no_newer_one(quick: EvalProject):
    quick.command("bump", "triage")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "somebody@example.org"),
        ("config", "user.name", "Somebody"),
        ("add", "-A"),
        ("commit", "-q", "-m", "main"),
    ):
        subprocess.run(["git", *words], cwd=quick.root, check=True, capture_output=True)
    quick.prompt(system="Say nothing.", version="1.1.0")
    quick.eval(HEAD + EVAL.replace("judges", "version='1.0.0', judges"))
    result = quick.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "unmeasured: prompts/*: evals of triage measure version 1.0.0, and none measures *",
            "  fix: take `version` out of @golden, or add an eval without it",
        ]
    )


@pytest.mark.parametrize("option", ["--collect-only", "--help", "--fixtures", "--version"])
def test_settings_that_end_a_run_before_it_begins_are_refused(
    quick: EvalProject, monkeypatch: pytest.MonkeyPatch, option: str
):
    assert quick.run(option).ret == 0
    monkeypatch.setenv("PYTEST_ADDOPTS", option)
    result = quick.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"settings of pytest add {option}, so nothing would be measured" in result.stderr.str()


NO_PARSING = """\
from _pytest._code import code

def refuse(*_, **__):
    raise AssertionError("a file was parsed")

code.getstatementrange_ast = refuse
"""
STOPS = "def pytest_collection_finish(session):\n    session.shouldstop = 'enough'\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [("", "5 unmeasured in"), (STOPS, "! enough !")],
    ids=["unmeasured", "stopped"],
)
def test_no_file_is_parsed_for_frames_that_are_not_shown(
    project: EvalProject, more: str, said: str
):
    project.write("conftest.py", NO_PARSING + more)
    text = project.run("--record=none").stdout.str()
    assert said in text
    assert "INTERNALERROR" not in text
    assert "a file was parsed" not in text
