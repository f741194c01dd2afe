"""Evals are ordinary pytest items: what pytest and its plugins do with items, they do here."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from inline_snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def test_each_case_is_one_item_that_can_be_selected_by_its_id(project: EvalProject):
    result = project.run("-v", "-k", "disk-001 or disk-003")
    assert result.ret == 0
    result.assert_outcomes(passed=2, deselected=3)
    result.stdout.fnmatch_lines(
        ["*::test_triage?disk-001? PASSED*", "*::test_triage?disk-003? PASSED*"]
    )
    assert [row["case"] for row in project.rows()] == ["disk-001", "disk-003"]
    assert [line["case"] for line in project.recordings()] == ["disk-001", "disk-003"]


def test_a_failed_case_is_repeated_from_the_directory_of_the_run(
    project: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    project.judged_by("max_words(1)")
    monkeypatch.chdir(project.root / "evals")
    (again,) = re.findall("again: pytest (.*)", project.pytest("-k", "disk-001").stdout.str())
    project.pytest(*shlex.split(again)).assert_outcomes(failed=1)


def test_a_root_directory_above_the_project_does_not_hide_it(project: EvalProject):
    above = project.root.parent
    result = project.run("evals", f"--rootdir={above}", "-k", "disk-001")
    assert result.ret == 0
    result.assert_outcomes(passed=1, deselected=4)
    assert [row["case"] for row in project.rows()] == ["disk-001"]


def test_an_eval_of_another_project_is_refused_with_the_command_that_runs_it(project: EvalProject):
    other = project.root / "other"
    for name in ("pyproject.toml", "evals/test_triage.py", "prompts/triage.prompt.yml"):
        path = other / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((project.root / name).read_text(encoding="utf-8"), encoding="utf-8")
    result = project.run("evals", "other/evals")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            f"other/evals/test_triage.py is an eval of the project in {other}",
            f"  fix: cd {other} && pytest evals/test_triage.py",
        ]
    )
    assert project.run("evals", "-k", "disk-001").ret == 0


def test_collecting_asks_nobody_and_opens_nothing(live: EvalProject, endpoint: Endpoint):
    result = live.run("--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["evals/test_triage.py::test_triage?disk-004?", "", "5 tests*"])
    assert endpoint.total == 0
    assert not (live.root / ".regauge").exists()
    assert not (live.root / "fixtures" / "recordings").exists()
    assert "regauge" not in result.stdout.str()


def test_workers_share_the_concurrency(live: EvalProject, endpoint: Endpoint):
    live.golden(live.case(number) for number in range(24))
    endpoint.latency_s = 0.1
    others_in_flight: list[int] = []
    severity = endpoint.answer

    def answer(text: str):
        others_in_flight.append(endpoint.total - endpoint.answered.total())
        return severity(text)

    endpoint.answer = answer
    live.run("-n2", "--concurrency=3").assert_outcomes(passed=24)
    assert 0 < max(others_in_flight) < 3


def test_stopping_at_the_first_failure_stops_spending(live: EvalProject, endpoint: Endpoint):
    endpoint.latency_s = 0.02
    live.golden(live.case(number, ok=number != 17) for number in range(100))
    result = live.run("-x")
    assert result.ret == 1
    result.assert_outcomes(passed=17, failed=1)
    assert endpoint.total <= 50
    assert not endpoint.twice
    # What was paid for beyond the failure is kept for the next run.
    assert len(live.recordings()) >= 18


def test_a_replay_that_stops_reports_what_had_its_turn(live: EvalProject):
    """Rules judge replayed answers some cases ahead, of which nothing is to be seen."""
    live.golden(
        live.case(number, expected={"severity": "none" if number == 3 else "critical"})
        for number in range(9)
    )
    live.judged_by("field_equals('severity'), max_words(40)", body="print('turn'); result.check()")
    live.run()
    result = live.run("--record=none", "-x")
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)
    assert [(row["case"], row["outcome"]) for row in live.rows()] == [
        ("disk-000", "passed"),
        ("disk-001", "passed"),
        ("disk-002", "passed"),
        ("disk-003", "failed"),
    ]
    assert live.rows()[3]["node"] == "evals/test_triage.py::test_triage[disk-003]"
    assert result.outlines.count("turn") == 1  # as captured of the case that failed


def test_failed_cases_run_again_alone(project: EvalProject):
    project.golden(project.case(number, ok=number != 3) for number in range(5))
    project.run().assert_outcomes(passed=4, failed=1)
    again = project.run("--lf", "-v")
    again.assert_outcomes(failed=1)
    assert [row["case"] for row in project.rows()] == ["disk-003"]


def test_unmeasured_cases_count_as_failed_for_a_run_of_the_last_failures(project: EvalProject):
    project.run("-k", "not disk-004").assert_outcomes(passed=4)
    assert project.run("--record=none").ret == 1
    assert project.run("--lf").parseoutcomes() == {"passed": 1}
    assert [row["case"] for row in project.rows()] == ["disk-004"]


def test_junit_files_carry_what_was_measured(project: EvalProject):
    project.golden(
        [
            project.case(0),
            project.case(1, ok=False),
            project.case(2, ok=False, tier="tracked"),
            project.case(3, inputs={"other": "x"}),
        ]
    )
    assert project.run("--junitxml=junit.xml").ret == 1
    suite = ET.parse(project.root / "junit.xml").getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == snapshot(
        {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    )
    # The order and names of the xunit2 schema: properties first, then one outcome.
    assert [[child.tag for child in case] for case in suite] == snapshot(
        [
            ["properties"],
            ["properties", "failure"],
            ["properties", "skipped"],
            ["properties", "error"],
        ]
    )
    assert all(set(case.attrib) == {"classname", "name", "time"} for case in suite)
    named = {one.get("name"): one.get("value") for one in suite[1][0]}
    assert float(named.pop("regauge.latency_s") or "") >= 0
    assert str(named.pop("regauge.prompt")).startswith("triage@1.0.0 (")
    assert named == snapshot(
        {
            "regauge.case": "disk-001",
            "regauge.tier": "required",
            "regauge.model": "sim:clerk-1",
            "regauge.trials": "1",
            "regauge.passed": "0",
            "regauge.cost_usd": "0.0",
            "regauge.source": "live",
            "regauge.score.min_chars(1)": "1.0",
            "regauge.score.agrees": "0.0",
        }
    )
    assert suite[1][1].get("message") == snapshot("agrees: agrees returned false")
    assert suite[2][1].get("message") == snapshot("tracked case: agrees: agrees returned false")


def test_fixtures_and_captured_output_work_as_in_any_test(project: EvalProject):
    project.golden([project.case(0), project.case(1, ok=False)])
    project.write(
        "evals/conftest.py",
        "import pytest\n\n@pytest.fixture\ndef shelf():\n    return []\n\n"
        "@pytest.fixture(autouse=True)\ndef before():\n    print('before')\n",
    )
    project.eval(
        "import pytest\nfrom regauge import golden\n\n"
        "def agrees(output, case):\n    return case.expected['ok']\n\n"
        "@pytest.mark.parametrize('word', ['a', 'b'])\n"
        "@golden('triage', judges=[agrees])\n"
        "def test_triage(result, shelf, tmp_path, word):\n"
        "    assert shelf == []\n    shelf.append(word)\n"
        "    print('looked at', result.case.id, word, result.output != '')\n"
        "    (tmp_path / 'seen').write_text(word)\n    result.check()\n"
    )
    result = project.run()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*Captured stdout*", "looked at disk-001 a True"])
    result.stdout.no_fnmatch_line("looked at disk-000*")
    assert project.records()[0]["evals"][0]["cases"] == 4


def test_methods_and_several_evals_of_one_prompt_share_answers(
    live: EvalProject, endpoint: Endpoint
):
    live.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars, max_chars\n\n"
        "class TestTriage:\n"
        "    @golden('triage', judges=[min_chars(1)])\n"
        "    def test_long(self, result):\n        result.check()\n\n"
        "    @golden('triage', judges=[max_chars(500)])\n"
        "    def test_short(self, result):\n        result.check()\n"
    )
    live.run().assert_outcomes(passed=10)
    assert endpoint.total == 5
    assert len(live.recordings()) == 5


def test_every_item_says_where_it_stands(project: EvalProject):
    """All cases of a function stand in one place, which is looked up once."""
    eval_of = "@golden('triage', judges=[min_chars(1)])\ndef {}(result):\n    result.check()\n"
    lines = ["from regauge import golden", "from regauge.judges import min_chars", ""]
    own = "class Own(pytest.Function):\n    def reportinfo(self): return self.path, 41, 'own'\n"
    project.eval(
        "\n".join(lines)
        + eval_of.format("test_first")
        + "class TestTriage:\n    "
        + eval_of.format("test_second")
        .replace("\n", "\n    ")
        .replace("(result)", "(self, result)")
    )
    project.write(
        "evals/conftest.py",
        f"import pytest\n\n{own}\n"
        "@pytest.hookimpl(wrapper=True)\n"
        "def pytest_pycollect_makeitem(name):\n"
        "    items = yield\n"
        "    if name == 'test_first':\n"
        "        items[0].__class__ = Own\n"
        "    return items\n\n"
        "def pytest_runtest_logstart(nodeid, location):\n"
        "    print('at', *location)\n",
    )
    result = project.run("-s", "-k", "disk-000 or disk-001 or disk-002")
    assert result.ret == 0
    assert [line.partition("at ")[2] for line in result.outlines if "at evals" in line] == [
        "evals/test_triage.py 41 own",
        "evals/test_triage.py 2 test_first[disk-001]",
        "evals/test_triage.py 2 test_first[disk-002]",
        "evals/test_triage.py 6 TestTriage.test_second[disk-000]",
        "evals/test_triage.py 6 TestTriage.test_second[disk-001]",
        "evals/test_triage.py 6 TestTriage.test_second[disk-002]",
    ]


def test_two_workers_come_to_what_one_process_does(live: EvalProject, endpoint: Endpoint):
    endpoint.latency_s = 0.02
    live.golden(live.case(number, ok=number % 7 != 0) for number in range(40))
    together = live.run("-n2")
    together.assert_outcomes(passed=34, failed=6)
    assert together.ret == 1
    assert endpoint.total == 40
    assert not endpoint.twice
    (record,) = live.records()
    assert record["status"] == "finished"
    counts = {key: record["evals"][0][key] for key in ("cases", "passed", "failed", "trials")}
    assert counts == {"cases": 40, "passed": 34, "failed": 6, "trials": 40}
    rows = {row["node"]: row["outcome"] for row in live.rows()}
    assert len(live.recordings()) == 40
    together.stdout.fnmatch_lines(
        ["recorded: * completions in fixtures/recordings/triage.jsonl; *"]
    )

    alone = live.run("--record=none")
    alone.assert_outcomes(passed=34, failed=6)
    assert {row["node"]: row["outcome"] for row in live.rows()} == rows
    assert endpoint.total == 40


def test_two_workers_record_anew_without_paying_twice(live: EvalProject, endpoint: Endpoint):
    live.golden(live.case(number) for number in range(20))
    live.run("-n2", "--record=all").assert_outcomes(passed=20)
    assert endpoint.total == 20
    assert not list(live.root.glob(".regauge/runs/*/trials.*.jsonl"))
    endpoint.forget()
    # The session is finished: the next run draws anew, and does not take these answers.
    live.run("--record=all", "-k", "disk-000 or disk-001").assert_outcomes(passed=2)
    assert endpoint.total == 2


def test_two_workers_say_what_needs_recording(project: EvalProject):
    result = project.run("-n2", "--record=none")
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    result.stdout.fnmatch_lines(["needs recording: triage, 5 cases", "*regauge record triage"])


def test_the_order_of_items_does_not_matter(live: EvalProject, endpoint: Endpoint):
    live.write(
        "evals/conftest.py",
        "import random\n\ndef pytest_collection_modifyitems(items):\n"
        "    random.Random(7).shuffle(items)\n",
    )
    live.golden(live.case(number) for number in range(30))
    live.run().assert_outcomes(passed=30)
    assert endpoint.total == 30
    cases = [row["case"] for row in live.rows()]
    assert cases != sorted(cases)
    stored = [line["case"] for line in live.recordings()]
    assert stored == sorted(stored)


def test_async_evals_run_where_pytest_asyncio_is_installed(project: EvalProject):
    project.judged_by(
        "Slow()",
        more=(
            "import asyncio, pytest\n\nclass Slow:\n    name = 'slow'\n    digest = 'd'\n"
            "    async def judge(self, completion, case):\n"
            "        await asyncio.sleep(0)\n"
            "        return Verdict(outcome='pass', score=1.0, reason='fine')\n\n"
            "@pytest.mark.asyncio\n@golden('triage', judges=[Slow()])\n"
            "async def test_async(result):\n    await asyncio.sleep(0)\n    result.check()\n"
        ),
    )
    project.run("-p", "asyncio").assert_outcomes(passed=10)


def test_the_plugin_loads_by_itself_beside_other_plugins(project: EvalProject, monkeypatch):
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    text = (project.root / "pyproject.toml").read_text()
    # deepeval's own plugin takes seconds to load and reads `.env`.
    project.write("pyproject.toml", text.replace('"-p", "regauge"', '"-p", "no:deepeval"'))
    project.golden([project.case(0)])
    result = project.run()
    result.assert_outcomes(passed=1)


def test_pytest_rewrites_the_asserts_of_evals_and_none_of_regauge(project: EvalProject):
    project.eval(
        "import regauge.runner\nfrom regauge import golden\n"
        "from regauge.judges import min_chars\n\n"
        "@golden('triage', judges=[min_chars(1)])\ndef test_triage(result):\n"
        "    for name, loader in (('eval', __loader__), ('ours', regauge.runner.__loader__)):\n"
        "        print('loader of', name, type(loader).__name__)\n"
    )
    result = project.run("-s", "-k", "disk-001")
    result.stdout.fnmatch_lines(
        ["*loader of eval AssertionRewritingHook", "*ours SourceFileLoader"]
    )


def test_a_run_without_evals_is_left_alone(project: EvalProject):
    project.golden([]).unlink()
    project.eval("def test_plain():\n    pass\n")
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "regauge ==" not in result.stdout.str()
    assert not (project.root / ".regauge").exists()


def test_the_terminal_keeps_no_report_of_an_eval_that_it_does_not_show(project: EvalProject):
    project.write("evals/test_plain.py", "def test_plain():\n    pass\n")
    project.write(
        "conftest.py",
        "def pytest_terminal_summary(terminalreporter):\n"
        "    for status in ('', 'passed'):\n"
        "        reports = terminalreporter.stats[status]\n"
        "        phases = [f'{report.fspath} {report.when}' for report in reports]\n"
        "        print('kept', status or 'hidden', len(phases), sorted({*phases}))\n",
    )
    project.run("-k", "plain or disk-001").stdout.fnmatch_lines(
        [
            "kept hidden 2 ['evals/test_plain.py setup', 'evals/test_plain.py teardown']",
            "kept passed 2 ['evals/test_plain.py call', 'evals/test_triage.py call']",
        ]
    )


def test_durations_show_the_set_up_of_evals(project: EvalProject):
    result = project.run("-k", "disk-001", "--durations=0", "-vv")
    result.stdout.fnmatch_lines(["*s setup    evals/test_triage.py::test_triage?disk-001?"])


@pytest.mark.parametrize(
    ("options", "companion"),
    [
        (["--max-cycles=3"], "--suggest"),
        (["--more-trials=3"], "--gate REF"),
        (["--accept-judge-change=why"], "--gate REF"),
    ],
)
def test_an_option_without_its_companion_is_refused(
    project: EvalProject, options: list[str], companion: str
):
    result = project.run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"  fix: add {companion}, or leave it out"])


AGAIN = """\
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_test_that_a_plugin_runs_again_is_one_case(
    project: EvalProject, workers: tuple[str, ...]
):
    project.write("conftest.py", AGAIN)
    project.judged_by(
        "min_chars(1)",
        more="runs = []",
        body="runs.append(result.case.id); assert runs.count(result.case.id) == 2",
    )
    result = project.run(*workers)
    assert result.ret == pytest.ExitCode.OK
    assert len(project.rows()) == len({row["case"] for row in project.rows()}) == 5
    assert project.records()[0]["failed_tests"] == {}
    project.judged_by("min_chars(1)", body="assert result.case.id != 'disk-001'")
    assert project.run(*workers).ret == pytest.ExitCode.TESTS_FAILED
    assert len(project.rows()) == 5
    node = "evals/test_triage.py::test_triage[disk-001]"
    assert [*project.records()[1]["failed_tests"]] == [node]


NO_FIXTURE = (
    "import pytest\n\n@pytest.fixture(autouse=True)\ndef database():\n"
    "    raise ConnectionError('no database')\n"
)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_a_run_whose_tests_all_fail_in_their_set_up_has_a_record(
    project: EvalProject, workers: Sequence[str]
):
    project.golden([project.case(0), project.case(1)])
    project.run().assert_outcomes(passed=2)
    project.write("evals/conftest.py", NO_FIXTURE)
    result = project.run(*workers)
    result.assert_outcomes(errors=2)
    record = project.records()[-1]
    assert len(project.records()) == 2
    suite = record["evals"][0]
    assert (suite["cases"], suite["passed"], suite["unmeasured"]) == (2, 0, 2)
    nodes = [f"evals/test_triage.py::test_triage[disk-00{number}]" for number in range(2)]
    assert record["failed_tests"] == dict.fromkeys(nodes, "ConnectionError: no database")
    (reason,) = {row["cause"]["message"] for row in project.rows()}
    assert reason == "the test failed before its case was judged: ConnectionError: no database"
    report = project.command("report", "latest").stdout
    assert "2 cases, none failed, 2 unmeasured; 2 tests failed apart from judges" in report


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_set_up_that_succeeds_at_last_is_measured_once(
    project: EvalProject, workers: tuple[str, ...]
):
    turns = "turns = []\n\ndef pytest_runtest_setup(item):\n    turns.append(item.name)\n"
    project.write("conftest.py", f"{AGAIN}\n{turns}    assert turns.count(item.name) > 1\n")
    assert project.run(*workers).ret == pytest.ExitCode.OK
    assert project.records()[-1]["failed_tests"] == {}
    assert [row["outcome"] for row in project.rows()] == ["passed"] * 5


@pytest.mark.parametrize(
    "options",
    [
        ["--continue-on-collection-errors"],
        ["--continue-on-collection-errors", "--maxfail=9"],
        ["-n2"],
    ],
    ids=["alone", "with maxfail", "two workers"],
)
def test_files_of_evals_that_cannot_be_collected_are_in_the_record(
    project: EvalProject, options: Sequence[str]
):
    """Workers of xdist run their items after errors of collection, without an option."""
    project.eval("import no_such_module\n", name="test_a")
    project.eval("def test_b(\n", name="test_b")
    project.judged_by("", name="test_c")
    project.write("tests/test_d.py", "import no_such_module\n")
    result = project.pytest("evals", "tests", *options)
    result.assert_outcomes(passed=5, errors=4)
    assert project.records()[-1]["failed_tests"] == {
        "evals/test_a.py": "ModuleNotFoundError: No module named 'no_such_module'",
        "evals/test_b.py": "SyntaxError: '(' was never closed (test_b.py, line 1)",
        "evals/test_c.py": (
            "evals/test_c.py:5: the eval has no judges, so nothing would be measured"
        ),
    }
    assert "5 cases, none failed; 3 tests failed apart from judges" in (
        project.command("report", "latest").stdout
    )


TEARDOWN_FAILS = """\
import pytest

@pytest.fixture(autouse=True)
def database(request):
    yield
    assert "disk-001" not in request.node.name, "connection lost"
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_a_case_whose_test_fails_after_its_judges_did_not_pass(
    project: EvalProject, workers: Sequence[str]
):
    project.write("evals/conftest.py", TEARDOWN_FAILS)
    project.judged_by(
        "min_chars(1)",
        body="result.check(); assert result.case.id != 'disk-002', 'mine'",
    )
    result = project.run(*workers)
    result.assert_outcomes(passed=4, failed=1, errors=1)
    record = project.records()[-1]
    assert len(record["failed_tests"]) == 2
    suite = record["evals"][0]
    assert (suite["cases"], suite["passed"], suite["failed"]) == (5, 3, 2)
    outcomes = {row["case"]: (row["outcome"], row["case_outcome"]) for row in project.rows()}
    assert {case for case, pair in outcomes.items() if pair == ("passed", "failed")} == {
        "disk-001",
        "disk-002",
    }
    report = project.command("report", "latest").stdout
    assert "2 of 5 cases failed; 2 tests failed apart from judges" in report
    assert "60.0 % (3/5)" in project.command("log", "triage", "--runs").stdout


def test_plain_tests_next_to_evals_are_in_the_record_if_they_fail(project: EvalProject):
    plain = "def test_plain():\n    assert 1 == 2, 'my own'\n"
    for path in ("evals/test_plain.py", "evals/deep/test_plain.py", "tests/test_plain.py"):
        project.write(path, plain)
    result = project.pytest("evals", "tests")
    result.assert_outcomes(passed=5, failed=3)
    record = project.records()[-1]
    assert record["failed_tests"] == {
        f"evals/{name}::test_plain": "AssertionError: my own"
        for name in ("deep/test_plain.py", "test_plain.py")
    }
    assert record["evals"][0]["cases"] == 5
    assert "5 cases, none failed; 2 tests failed apart from judges" in (
        project.command("report", "latest").stdout
    )
    project.run("-k", "plain").assert_outcomes(failed=2, deselected=5)
    assert len(project.records()) == 1


@pytest.mark.parametrize(
    ("plugin", "workers"),
    [("pytest_repeat", ()), ("repeat", ("-n2",))],
    ids=["pytest_repeat-alone", "repeat-two workers"],
)
def test_repeats_of_evals_are_refused_as_they_judge_the_same_completions(
    project: EvalProject, workers: Sequence[str], plugin: str
):
    project.eval("def test_plain():\n    pass\n", name="test_plain")
    repeat = ("-p", plugin, "--count=2")
    result = project.run(*repeat, *workers)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "evals/test_triage.py::test_triage: repeats judge the same completions again",
            "  fix: leave out --count and the mark `repeat`; --trials N runs N trials of each case",
        ]
    )
    assert project.records() == []
    project.pytest("evals/test_plain.py", *repeat).assert_outcomes(passed=2)
    text = (project.root / "evals/test_triage.py").read_text(encoding="utf-8")
    mark = "@pytest.mark.repeat(2)\n@golden("
    project.eval(f"import pytest\n{text}".replace("@golden(", mark))
    assert project.run("-p", plugin, *workers).ret != pytest.ExitCode.OK
