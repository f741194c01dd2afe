"""What single items of `pytest evals --gate` report, and what a gate refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.labelled import EVAL as JUDGED_BY_RUBRIC, RUBRIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

BODY = """\
from regauge import golden
from regauge.judges import min_chars

@golden("triage", judges=[min_chars(1)])
def test_triage(result):
    result.check()
    assert result.case.id != "disk-001", "my own demand"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first committed project is kept, for the others to be copies of it."""
    return tmp_path_factory.mktemp("built") / "project"


@pytest.fixture
def gated(project: EvalProject, built: Path) -> EvalProject:
    """The small project, committed on `main`."""
    if built.exists():
        shutil.copytree(built, project.root, dirs_exist_ok=True)
    else:
        shutil.copytree(committed(project).root, built)
    return project


def committed(project: EvalProject) -> EvalProject:
    project.write(".gitignore", ".regauge/\n__pycache__/\nfixtures/recordings/\n")
    project.golden([project.case(number) for number in range(3)])
    project.eval(BODY)
    project.command("bump", "triage")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "somebody@example.org"),
        ("config", "user.name", "Somebody"),
        ("add", "-A"),
        ("commit", "-q", "-m", "main"),
        ("checkout", "-q", "-b", "reword"),
    ):
        git(project, *words)
    return project


def git(project: EvalProject, *words: str) -> None:
    subprocess.run(["git", *words], cwd=project.root, check=True, capture_output=True)


def reword(project: EvalProject) -> None:
    project.prompt(system="Tell how severe the alert is. Answer with JSON: severity and reason.")
    assert project.command("bump", "triage", "minor", "-m", "Reword").returncode == 0


@pytest.mark.parametrize("call", ["pytest.skip('no')", "pytest.xfail('no')"], ids=["skip", "fails"])
def test_a_case_that_is_skipped_after_its_judges_did_not_pass(gated: EvalProject, call: str):
    leave = f"result.check()\n    import pytest\n    result.case.id == 'disk-001' and {call}"
    gated.eval(BODY[: BODY.index("result.check()")] + leave)
    git(gated, "commit", "-qam", "Skip")
    git(gated, "branch", "-f", "main")
    node = "evals/test_triage.py::test_triage[disk-001]"
    assert gated.run().ret == 1
    record = gated.records()[-1]
    assert [*record["failed_tests"]] == [node]
    assert (record["evals"][0]["passed"], record["evals"][0]["failed"]) == (2, 1)
    reword(gated)
    headline = "gate: accepted against main*; 1 test failed apart from judges"
    result = gated.run("--gate=main")
    assert result.ret == 1
    result.stdout.fnmatch_lines([headline])
    again = gated.command("gate", "--from", "latest")
    assert again.returncode == 1
    assert "; 1 test failed apart from judges" in again.stdout
    assert "next: fix the tests that failed apart from judges" in again.stdout


def test_an_assertion_of_ones_own_is_absolute_whatever_the_gate_says(gated: EvalProject):
    reword(gated)
    result = gated.run("--gate=main", "-v", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1, passed=2)
    assert result.ret == 1
    text = result.stdout.str()
    assert "AssertionError: my own demand" in text
    assert "gate: accepted against main" in text
    (record,) = gated.records()
    assert record["decision"]["decision"] == "accept"
    node = "evals/test_triage.py::test_triage[disk-001]"
    assert record["failed_tests"] == {node: "AssertionError: my own demand"}
    sides = {(row["case"], row["side"]) for row in gated.rows()}
    assert sides == {(f"disk-00{n}", side) for n in range(3) for side in ("candidate", "base")}
    note = "this command does not run assertions and fixtures of evals/test_triage.py:"
    assert note not in text
    estimate = gated.command("gate", "main", "--dry-run").stdout
    assert re.search(rf"{note}\d+: pytest evals --gate main runs them", estimate)


def test_messages_run_evals_that_are_not_in_evals(gated: EvalProject):
    (gated.root / "evals").rename(gated.root / "quality")
    git(gated, "add", "-A")
    git(gated, "commit", "-qm", "Move the evals")
    git(gated, "branch", "-f", "main")
    messages = [
        gated.command(*words.split()).stdout
        for words in ("runs list", "log triage --runs", "new case triage disk-9 --input text=x")
    ]
    messages.append(gated.command("gate", "main", "--evals", "quality").stdout)
    commands = [re.findall(r"(?m): (pytest.*?)(?: runs them)?$", text) for text in messages]
    assert commands == [
        ["pytest"],
        ["pytest -k triage"],
        ["pytest -k disk-9"],
        ["pytest --gate main"],
    ]
    gated.pytest("-k", "disk-9").assert_outcomes(passed=1, deselected=3)


def test_lint_names_accepted_cases_that_no_dataset_has(gated: EvalProject):
    reword(gated)
    path = gated.root / "prompts/triage.prompt.yml"
    text = path.read_text(encoding="utf-8")
    case = "    {key}: [{{case: {case}, reason: rare}}]\n"
    removed = case.format(key="removed", case="disk-001").replace(
        "}]\n", "}, {case: disk-8, reason: gone}]\n"
    )
    entries = case.format(key="accepted", case="disk-9") + removed
    path.write_text(
        text.replace("    text: Reword\n", f"    text: Reword\n{entries}"), encoding="utf-8"
    )
    line = text[: text.index("    text: Reword")].count("\n") + 2
    problems = [
        f"prompts/triage.prompt.yml:{line}: `accepted` names 'disk-9', which is not a golden case of",
        f"prompts/triage.prompt.yml:{line + 1}: `removed` names 'disk-001', which is still there",
        f"prompts/triage.prompt.yml:{line + 1}: `removed` names 'disk-8', which the base version",
    ]
    linted = gated.command("lint")
    assert linted.returncode == 1
    rejected = gated.command("gate", "main")
    for problem in problems:
        assert f"error: {problem}" in linted.stdout
        assert problem.partition(": ")[2] in rejected.stdout
    git(gated, "commit", "-qam", "Accept")
    # The base no longer shows which cases there were.
    assert all(f"warning: {problem}" in gated.command("lint").stdout for problem in problems[:2])
    assert f"error: {problems[0]}" in gated.command("lint", "--base", "main").stdout
    # Entries of an earlier version are history.
    path.write_text(path.read_text("utf-8").replace("role: user", "role: developer"), "utf-8")
    assert gated.command("bump", "triage", "minor", "-m", "Again").returncode == 0
    linted = gated.command("lint")
    assert linted.returncode == 0
    assert "names 'disk" not in linted.stdout


def test_an_accepted_gate_names_passed_outputs_that_are_cut_off(gated: EvalProject):
    path = gated.root / "prompts/triage.prompt.yml"
    path.write_text(f"{path.read_text()}modelParameters: {{maxTokens: 2}}\n", encoding="utf-8")
    assert gated.command("bump", "triage", "minor", "-m", "Be short").returncode == 0
    accepted = gated.command("gate", "main")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    number = re.search(r"(\d+) passed outputs of triage empty or cut off\n", accepted.stdout)
    assert number, accepted.stdout
    note = rf"note: {number[1]} of {number[1]} passed outputs of triage are empty or cut off"
    assert re.search(rf"{note}, and none of \d+ on the base\n", accepted.stdout)
    assert json.loads(gated.command("gate", "--from", "latest", "--json").stdout)["caveats"]
    comment = gated.command("report", "latest").stdout
    assert f"\n- cut off: {number[1]} passed outputs of triage; raise maxTokens\n" in comment

    other = "note: run \\S+ is of commit [0-9a-f]{12}, and this checkout is [0-9a-f]{12}\n"
    assert not re.search(other, gated.command("gate", "--from", "latest").stdout)
    git(gated, "commit", "-qam", "Be short")
    assert re.search(other, gated.command("gate", "--from", "latest").stdout)
    git(gated, "checkout", "-qB", "main")
    reword(gated)
    path.write_text(f"{path.read_text()}modelParameters: {{maxTokens: 2}}\n", encoding="utf-8")
    assert gated.command("bump", "triage", "minor", "-m", "Reword").returncode == 0
    assert "cut off" not in gated.command("gate", "main").stdout


def test_cases_that_nothing_changed_for_cost_nothing(gated: EvalProject):
    """They are skipped where nothing is recorded, and judged by their own body where it is."""
    result = gated.run("--gate=main")
    result.assert_outcomes(skipped=3)
    assert "gate: accepted against main" in result.stdout.str()
    assert "0 trials" in result.stdout.str()
    gated.run()
    result = gated.run("--gate=main", "-v", "--color=yes")
    plain = pytest.LineMatcher(re.sub(r"\x1b\[\d+m", "", result.stdout.str()).splitlines())
    plain.fnmatch_lines(["*disk-000? UNCHANGED*", "*disk-001? FAILED*"])
    assert "\x1b[32mUNCHANGED" in result.stdout.str()
    assert result.ret == 1
    assert gated.records()[-1]["decision"]["cases"][0]["status"] == "unchanged"


def test_a_replay_without_recordings_is_unmeasured_item_by_item(gated: EvalProject):
    reword(gated)
    result = gated.run("--gate=main", "--record=none")
    text = result.stdout.str()
    assert result.ret == 1
    assert "3 unmeasured" in text
    assert "gate: unmeasured against main" in text
    assert "evals --gate=main --record=missing\n" in text
    assert "triage/disk-000: none of its trials is recorded; it needs" in text
    assert "0 trials (0 initial, 0 follow-up, 0 on base), no calls" in text


def test_a_gate_does_not_share_its_run_with_workers(gated: EvalProject):
    result = gated.run("--gate=main", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "fix: leave out -n, or add -n 0" in result.stderr.str()


def test_a_gate_of_nothing_is_no_success(gated: EvalProject):
    reword(gated)
    result = gated.run("--gate=main", "-k", "nothing-is-called-so")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    some = gated.run("--gate=main", "-k", "disk-000")
    assert some.ret == 0
    assert "only 1 of 3 cases of triage were selected" in some.stdout.str()


def test_a_judge_that_only_informs_is_asked_about_first_trials_alone(gated: EvalProject):
    """It has its say, and costs nothing for what is drawn again or for main."""
    gated.settings('judge_model = "sim:clerk-1"')
    gated.write("prompts/judges/tone.prompt.yml", RUBRIC)
    gated.eval(JUDGED_BY_RUBRIC)
    git(gated, "add", "-A")
    git(gated, "commit", "-q", "-m", "Judge tone")
    git(gated, "branch", "-f", "main")
    reword(gated)
    # What modules of evals print, and plugins once all is done, is no part of the JSON.
    gated.write(
        "evals/conftest.py", "def pytest_unconfigure():\n    print('bye')\nprint('hello')\n"
    )
    estimate = json.loads(gated.command("gate", "main", "--dry-run", "--json").stdout)
    first = 24 * estimate["cases"]
    assert estimate["first"]["judge_calls"] == estimate["worst"]["judge_calls"] == first
    assert estimate["worst"]["calls"] > estimate["first"]["calls"] == estimate["first"]["trials"]
    assert estimate["likely"] is None
    gated.run("--gate=main")
    judged = {(row["side"], row["trial"]): len(row["verdicts"]) for row in gated.rows()}
    assert judged["candidate", 3000] == 2
    assert judged["base", 1000] == 1


def test_an_interrupted_gate_goes_on_where_it_stopped_and_pays_for_nothing_twice(
    live: EvalProject, endpoint: Endpoint, wait_until: Callable[..., None]
):
    committed(live)
    live.golden([live.case(number) for number in range(40)])
    git(live, "commit", "-q", "-a", "-m", "More cases")
    git(live, "branch", "-f", "main")
    reword(live)
    endpoint.latency_s = 0.2
    run = live.start("--gate=main", "--concurrency=8")
    wait_until(lambda: endpoint.total > 12, process=run)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "gate: interrupted before it decided; completions so far are saved" in said
    assert "Task was destroyed" not in said

    run = live.start_command("gate", "main", "--concurrency=8")
    asked = endpoint.total
    wait_until(lambda: endpoint.total > asked + 8, process=run)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == 130, said
    assert "interrupted: completions so far are saved, the same command continues" in said

    endpoint.latency_s = 0.0
    asked = endpoint.total
    capped = live.command("gate", "main", "--budget-tokens=1000")
    assert capped.returncode == 3, capped.stdout
    assert "the budget of 1000 tokens is reached" in capped.stdout
    assert asked < endpoint.total < 240
    done = live.command("gate", "main")
    assert done.returncode == 0, done.stdout + done.stderr
    # Calls that were under way when it was interrupted may have reached the endpoint.
    assert 240 <= endpoint.total <= 240 + 2 * 8
    calls = endpoint.total
    assert live.command("gate", "main").returncode == 0
    assert endpoint.total == calls


TWO_EVALS = """\
from regauge import golden
from regauge.judges import max_chars, min_chars

@golden("triage", judges=[min_chars(1)])
def test_triage(result):
    result.check()

@golden("triage", judges=[max_chars(5)])
def test_short(result):
    result.check()
"""


def test_two_evals_of_one_prompt_are_told_apart(gated: EvalProject):
    gated.golden([gated.case(0, tier="critical"), gated.case(1), gated.case(2)])
    gated.eval(TWO_EVALS)
    git(gated, "commit", "-q", "-a", "-m", "Two evals")
    git(gated, "branch", "-f", "main")
    gated.prompt(system="Tell how severe it is. Answer with JSON: severity and reason.")
    gated.run("--gate=main").assert_outcomes(skipped=6)
    decision = gated.records()[-1]["decision"]
    assert [len(prompt["rules"]) for prompt in decision["prompts"]] == [1, 0]
    assert decision["not_run"] == 6
    assert gated.command("gate", "--from", "latest").returncode == 1
    gated.command("bump", "triage", "minor", "-m", "Say less")
    gated.run("--gate=main").assert_outcomes(passed=3, xfailed=3)
    decision = gated.records()[-1]["decision"]
    assert [prompt["prompt"] for prompt in decision["prompts"]] == [
        "triage (test_triage)",
        "triage (test_short)",
    ]
    notes = [note.partition(":")[0] for note in decision["notes"] if "1 critical case is" in note]
    assert notes == ["triage (test_triage)", "triage (test_short)"]
    comment = gated.command("report", "latest", "--comment", "--dry-run").stdout
    rows = [line.split(" | ") for line in comment.splitlines() if line.startswith("| triage")]
    assert [row[0] for row in rows] == ["| triage (test&#95;triage)", "| triage (test&#95;short)"]
    assert rows[0][-2:] == rows[1][-2:]
    assert "-" not in {cell.strip(" |") for cell in rows[0][-2:]}
    again = gated.command("gate", "--from", "latest", "--json")
    assert json.loads(again.stdout)["cases"] == decision["cases"]


def test_an_estimate_counts_the_calls_that_evals_share_once(gated: EvalProject):
    estimates: list[dict[str, Any]] = []
    for text in (TWO_EVALS.rpartition("\n@golden")[0], TWO_EVALS):
        gated.eval(text)
        gated.prompt()
        git(gated, "commit", "-q", "-a", "-m", "Evals")
        git(gated, "branch", "-f", "main")
        gated.prompt(system="Tell how severe it is. Answer with JSON: severity and reason.")
        estimates.append(json.loads(gated.command("gate", "main", "--dry-run", "--json").stdout))
    alone, both = estimates
    for part in ("first", "worst"):
        assert both[part]["calls"] == alone[part]["calls"] > 0
        assert both[part]["trials"] == 2 * alone[part]["trials"]


def test_a_removed_case_is_counted_among_those_that_were_not_run(gated: EvalProject):
    path = gated.root / "fixtures/golden/triage.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(others), encoding="utf-8")
    gated.prompt(system="Tell how severe it is. Answer with JSON: severity and reason.")
    gated.command("bump", "triage", "minor", "-m", "Say less")
    done = gated.command("gate", "main")
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(first)["id"] in done.stdout
    assert "1 of 3 cases is gone without a word in the changelog" in done.stdout
    assert "2 cases not run: the decision needs no trial" in done.stdout
    assert gated.records()[-1]["decision"]["not_run"] == 2


def test_a_gate_names_the_recordings_that_cannot_be_read(gated: EvalProject):
    gated.prompt(system="Tell how severe it is. Answer with JSON: severity and reason.")
    gated.command("bump", "triage", "minor", "-m", "Say less")
    gated.write("fixtures/recordings/triage.jsonl", '{"case": "disk-000"\n')
    alone, within_pytest = gated.command("gate", "main"), gated.run("--gate=main")
    assert alone.returncode == 3
    assert within_pytest.ret == pytest.ExitCode.USAGE_ERROR
    for output in (
        alone.stdout + alone.stderr,
        within_pytest.stdout.str() + within_pytest.stderr.str(),
    ):
        assert "INTERNALERROR" not in output
        assert "Traceback" not in output
        assert "fixtures/recordings/triage.jsonl:1: not a recording" in output
        assert "fix: delete the line" in output


PLAIN = "def test_plain():\n    pass\n"
ACTION = Path(__file__).parents[2] / ".github" / "actions" / "regauge" / "run.sh"


# As the action calls Python: -m MODULE, and -I -c PROGRAM.
PYTHON = """\
import os, runpy, sys
_, option, *words = sys.argv
if option == "-m":
    sys.argv, sys.path[0] = words, os.getcwd()
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
else:
    sys.argv = [words[0], *words[2:]]
    exec(words[1], {"__name__": "__main__"})
"""


@pytest.fixture
def python(tmp_path: Path, as_program: Callable[[Path], Path]) -> Path:
    """A Python that need not load regauge."""
    script = tmp_path / "python"
    script.write_text(PYTHON, encoding="utf-8")
    return as_program(script)


def ran_action(project: EvalProject, python: Path) -> tuple[int, dict[str, str]]:
    """The exit code of the action with the command `gate`, and its outputs."""
    outputs = project.root / "outputs"
    environ = {
        "INPUT_COMMAND": "gate",
        "INPUT_BASE": "main",
        "INPUT_PYTHON": str(python),
        "INPUT_REPORT": "run-record",
        "GITHUB_OUTPUT": str(outputs),
    }
    done = subprocess.run(
        ["bash", str(ACTION)],
        check=False,
        cwd=project.root,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
    )
    sys.stdout.write(done.stdout + done.stderr)
    said = outputs.read_text().splitlines()[-2:]
    return done.returncode, dict(line.split("=", 1) for line in said)


def renamed(project: EvalProject) -> None:
    git(project, "mv", "evals/test_triage.py", "evals/triage.py")


def deleted(project: EvalProject) -> None:
    git(project, "rm", "-q", "evals/test_triage.py")


def all_deselected(project: EvalProject) -> None:
    project.settings(pytest="")
    text = (project.root / "pyproject.toml").read_text()
    project.write("pyproject.toml", text.replace('addopts = ["', 'addopts = ["-k", "plain", "'))


def one_deselected(project: EvalProject) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\naddopts = -p regauge --import-mode=importlib -k 'not disk-001'\n",
    )


def pinned(project: EvalProject) -> None:
    project.eval(BODY.replace("judges=", "version='1.0.0', judges="))


def emptied_by_conftest(project: EvalProject) -> None:
    project.write("conftest.py", "collect_ignore_glob = ['*/test_triage.py']\n")


def dataset_renamed(project: EvalProject) -> None:
    git(project, "mv", "fixtures/golden/triage.jsonl", "fixtures/golden/other.jsonl")
    project.prompt(name="other")
    renamed(project)


def prompt_copied(project: EvalProject) -> None:
    """The prompt that is used from now on has no eval."""
    git(project, "checkout", "main", "--", "prompts")
    project.prompt(name="triage-new", system="Say nothing.")


def change_next_to_a_plain_test(
    project: EvalProject, leave_out: Callable[[EvalProject], None]
) -> None:
    project.eval(PLAIN, name="test_plain")
    reword(project)
    leave_out(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Change")


LEFT_OUT = [
    renamed,
    deleted,
    all_deselected,
    one_deselected,
    pinned,
    emptied_by_conftest,
    dataset_renamed,
    prompt_copied,
]


@pytest.mark.parametrize("leave_out", LEFT_OUT)
def test_a_change_that_leaves_its_evals_out_is_unmeasured(
    gated: EvalProject, leave_out: Callable[[EvalProject], None]
):
    """Next to a test that passes, in pytest and in the command."""
    change_next_to_a_plain_test(gated, leave_out)
    result = gated.run("--gate=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "gate: unmeasured against main" in text
    assert "not measured: " in text
    assert gated.records()[-1]["decision"]["decision"] == "unmeasured"
    said = gated.command("gate", "main", "--json")
    assert said.returncode == 3, said.stdout + said.stderr
    decision = json.loads(said.stdout)
    assert decision["unmeasured"][0]["fix"]


def test_an_unmeasured_gate_is_unmeasured_in_the_action_and_read_again(
    gated: EvalProject, python: Path
):
    change_next_to_a_plain_test(gated, renamed)
    code, outputs = ran_action(gated, python)
    assert (code, outputs) == (3, {"exit-code": "3", "decision": "unmeasured"})
    assert gated.command("gate", "--from", "latest").returncode == 3


def test_a_gate_without_evals_directory_is_unmeasured(gated: EvalProject, python: Path):
    git(gated, "rm", "-rq", "evals")
    git(gated, "commit", "-q", "-m", "No evals")
    shutil.rmtree(gated.root / "evals", ignore_errors=True)
    said = gated.command("gate", "main")
    assert said.returncode == 3
    assert "there is no directory 'evals', so nothing is measured" in said.stderr
    gated.write("run-record/run.json", '{"decision": {"decision": "accept"}}')
    assert ran_action(gated, python) == (3, {"exit-code": "3", "decision": ""})


def test_a_run_without_collected_tests_gates_as_well(gated: EvalProject):
    """A bare `pytest` whose settings look elsewhere for tests."""
    gated.write("tests/test_plain.py", PLAIN)
    gated.settings(pytest='testpaths = ["tests"]')
    result = gated.pytest("--gate=main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "gate: unmeasured against main" in result.stdout.str()
    assert gated.pytest().ret == 0


def test_a_skipped_eval_fails_a_gate_that_accepts(gated: EvalProject):
    gated.eval(
        BODY.replace("@golden", "@pytest.mark.skip\n@golden").replace(
            "from", "import pytest\nfrom", 1
        )
    )
    git(gated, "commit", "-qam", "Skip")
    git(gated, "branch", "-f", "main")
    reword(gated)
    result = gated.run("--gate=main")
    assert "gate: accepted against main" in result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unmeasured: 3 cases skipped, so not measured" in result.stdout.str()


def test_a_hook_that_raises_costs_neither_the_summary_nor_the_report(gated: EvalProject):
    gated.write(
        "evals/conftest.py",
        "def pytest_regauge_recorded(record):\n    raise OSError('no chat')\n",
    )
    message = "evals/conftest.py:2: pytest_regauge_recorded raised OSError: no chat"
    result = gated.run("-k", "disk-002", "--report=exported")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert message in result.stdout.str()
    assert "1 passed" in result.stdout.str()
    assert (gated.root / "exported/run.json").exists()
    decided = gated.command("gate", "main")
    assert decided.returncode == 0, decided.stdout + decided.stderr
    assert f"warning: {message}" in decided.stderr
