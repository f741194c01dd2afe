"""`regauge log`, `runs`, `compare` and `trend`, from the project's own history."""

from __future__ import annotations

import html
import json
import re
import shutil
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot

from regauge.cli import group
from regauge.errors import StoreError, UsageError
from tests.gate_repo import GOLDEN, NAME, PROMPT, GateRepo, label_definitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

    Regauge = Callable[..., Result]


@pytest.fixture
def regauge(monkeypatch: pytest.MonkeyPatch) -> Regauge:
    def run(project: EvalProject, *arguments: str) -> Result:
        monkeypatch.chdir(project.root)
        return CliRunner().invoke(group, list(arguments))

    return run


def _shown(project: EvalProject, text: str) -> str:
    """`text` without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY-------", project.plain(text))
    text = re.sub(r"\b[0-9a-f]{9}\b", "COMMIT---", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "DIGEST------", text)


def _commit(project: EvalProject) -> None:
    for words in (
        ["init", "-q"],
        ["add", "prompts"],
        ["-c", "user.name=you", "-c", "user.email=you@example.com", "commit", "-qm", "prompt"],
    ):
        subprocess.run(["git", *words], cwd=project.root, check=True, timeout=30)


def test_log_shows_the_pass_rate_of_each_version_and_run(project: EvalProject, regauge: Regauge):
    nothing = regauge(project, "log", "triage", "--runs")
    assert nothing.output == snapshot(
        "no run of triage in .regauge/history.sqlite3 yet: pytest evals -k triage\n"
    )
    _commit(project)
    before = regauge(project, "log", "triage").output
    assert "%" not in before
    project.golden([project.case(0), *(project.case(n, ok=False) for n in range(1, 5))])
    project.run()
    project.run("-k", "disk-000")
    project.prompt(version="1.1.0", system="Say how severe the alert is, as JSON.")
    _commit(project)
    project.golden([*(project.case(n) for n in range(4)), project.case(4, ok=False)])
    project.run("--record=none")
    project.run()
    trend = regauge(project, "log", "triage", "--runs")
    assert _shown(project, trend.output) == snapshot("""\
triage · sim:clerk-1 (simulated) · 3 runs (1 more measured nothing)  ▂█·▇
version  content       day         pass rate      0 to 100 %, 95 % interval              cost  runs
1.0.0    DIGEST------  DAY-------  20.0 % (1/5)   │ ────●─────────         │  4 to 62    $0    1
1.0.0    DIGEST------  DAY-------  100.0 % (1/1)  │     ──────────────────●│  21 to 100  $0    1     other cases
1.1.0    DIGEST------  DAY-------  unmeasured     │                        │  -          ?     0     other cases
1.1.0    DIGEST------  DAY-------  80.0 % (4/5)   │         ─────────●──── │  38 to 96   $0    1     other cases
""")
    newest = regauge(project, "log", "triage", "--runs", "--limit=1").output.splitlines()
    assert newest[-1].split() == trend.output.splitlines()[-1].split()
    logged = regauge(project, "log", "triage")
    assert _shown(project, logged.stdout) == snapshot("""\
1.1.0     DAY-------  DIGEST------  COMMIT---  80.0 % (4/5)        $0          (not released)
1.0.0     DAY-------  DIGEST------  COMMIT---  20.0 % (1/5)        $0          (not released)
prompts/triage.prompt.yml: never released
""")
    assert logged.stderr == "pass rates are those of sim:clerk-1 (simulated)\n"
    document = json.loads(regauge(project, "log", "triage", "--json").stdout)
    assert [
        (row["version"], row["measured"]["passed"], row["measured"]["measured"])
        for row in document["versions"]
    ] == [("1.1.0", 4, 5), ("1.0.0", 1, 5)]
    (line,) = json.loads(regauge(project, "log", "triage", "--runs", "--json").stdout)["lines"]
    assert (line["model"], line["simulated"], line["runs"]) == ("sim:clerk-1", True, 3)
    assert [point["pass_rate"] for point in line["points"]] == [0.2, 1.0, None, 0.8]
    other = regauge(project, "log", "triage", "--runs", "--model", "openai:gpt-5-mini")
    assert "no run of triage with openai:gpt-5-mini" in other.output


TWO_EVALS = """\
import pytest
from regauge import golden
from regauge.judges import min_chars

@pytest.mark.parametrize("word", ["a", "b"])
@golden("triage", judges=[min_chars(1)], trials=2)
def test_triage(result, word):
    result.check()

def agrees(output, case):
    return case.expected["ok"]

@golden("triage", judges=[agrees], trials=2)
def test_labels(result):
    result.check()
"""


def test_completions_that_several_evals_judge_are_one_trial(project: EvalProject, regauge: Regauge):
    project.eval(TWO_EVALS)
    project.run().assert_outcomes(passed=15)
    project.golden([project.case(n, ok=n > 0) for n in range(5)])
    ran = project.run()
    ran.assert_outcomes(passed=14, failed=1)
    ran.stdout.fnmatch_lines(["triage (test_labels): all k trials pass: pass^1 80 %*"])
    first, second = (record["evals"][1] for record in project.records())
    assert first["all_of_k"] == first["one_of_k"] == [1.0, 1.0]
    assert second["all_of_k"] == second["one_of_k"] == [0.8, 0.8]
    logged = regauge(project, "log", "triage", "--runs").output
    assert "100.0 % (5/5)" in logged
    assert "80.0 % (4/5)" in logged
    compared = json.loads(regauge(project, "runs", "compare", "--json").stdout)
    (change,) = compared["evals"][1]["changes"]
    sides = [[change[side][key] for key in ("passed", "measured")] for side in ("before", "after")]
    assert sides == [[2, 2], [0, 2]]
    assert change["after"]["judge"] == "agrees"
    runs = [record["id"] for record in project.records()]
    grid = regauge(project, "runs", "compare", *runs, runs[0]).output
    assert "2/2" in grid
    assert "0/2" in grid


OWN_ASSERTION = """\
from regauge import golden
from regauge.judges import max_chars

@golden("triage", judges=[max_chars(900)], trials=2)
def test_triage(result):
    result.check()
    assert result.case.id != "disk-001", "not this one"
"""


def test_a_comparison_counts_a_failed_assertion_and_names_other_judges(
    project: EvalProject, regauge: Regauge
):
    project.golden([project.case(0), project.case(1)])
    project.eval(OWN_ASSERTION.replace("disk-001", ""))
    project.run().assert_outcomes(passed=2)
    project.eval(OWN_ASSERTION)
    project.run().assert_outcomes(passed=1, failed=1)
    project.eval(OWN_ASSERTION.replace("disk-001", "").replace("900", "1"))
    project.run().assert_outcomes(failed=2)
    first, failed, judged = (record["id"] for record in project.records())
    compared = regauge(project, "runs", "compare", first, failed).output
    assert _shown(project, compared.split("\n\n", 2)[2]) == snapshot("""\
triage  1.0.0 (DIGEST)  sim:clerk-1 (simulated): 1 worse, 1 the same
worse               2/2 -> 0/2    disk-001
      both outputs are equal
    B  test: AssertionError: not this one
""")
    compared = regauge(project, "runs", "compare", first, judged, "--no-diff").output
    assert _shown(project, compared.split("\n\n", 2)[2]) == snapshot("""\
triage  1.0.0 (DIGEST)  sim:clerk-1 (simulated): 2 worse, 0 the same
note: A and B differ in max_chars(1), max_chars(900)
worse               2/2 -> 0/2    disk-000
worse               2/2 -> 0/2    disk-001
""")
    assert "0/2     0/2" in regauge(project, "runs", "compare", first, failed, judged).output
    report = regauge(project, "runs", "compare", first, failed, "-o", "-").output
    assert "### regauge: A: 2 cases, none failed · B: 1 of 2 cases failed" in report
    assert "`disk-001`, sim:clerk-1 B | 1 | failed | AssertionError: not this one |" in report
    note = "triage: A and B differ in max_chars(1), max_chars(900)"
    report = regauge(project, "runs", "compare", first, judged, "-o", "-").output
    assert f"- note: {note}" in html.unescape(report).replace("\\", "")
    regauge(project, "runs", "compare", first, judged, "-o", "runs.html")
    page = (project.root / "runs.html").read_text(encoding="utf-8")
    assert note in page
    assert "A: 2 cases, none failed · B: 2 of 2 cases failed" in page


EVALS_THAT_DIFFER = """\
from regauge import golden

def agrees(output, case):
    return case.expected["ok"]

def differs(output, case):
    return not case.expected["ok"]

@golden("triage", judges=[agrees])
def test_agrees(result):
    result.check()

@golden("triage", judges=[differs])
def test_differs(result):
    result.check()
"""


def test_two_evals_whose_cases_change_places_are_two_changes(
    project: EvalProject, regauge: Regauge
):
    project.eval(EVALS_THAT_DIFFER)
    project.golden([project.case(0), project.case(1)])
    project.run().assert_outcomes(passed=2, failed=2)
    project.golden([project.case(0), project.case(1, ok=False)])
    ran = project.run()
    ran.assert_outcomes(passed=2, failed=2)
    ran.stdout.re_match_lines(
        [r"triage \(test_agrees\) .* 2 +1 +1 ", r"triage \(test_differs\) .* 2 +1 +1 "]
    )
    runs = [record["id"] for record in project.records()]
    compared = regauge(project, "runs", "compare", "--no-diff").output
    assert _shown(project, compared.split("\n\n", 2)[2]) == snapshot("""\
triage (test_agrees)  1.0.0 (DIGEST)  sim:clerk-1 (simulated): 1 worse, 1 the same
note: A and B differ in the golden case
worse               1/1 -> 0/1    disk-001

triage (test_differs)  1.0.0 (DIGEST)  sim:clerk-1 (simulated): 1 better, 1 the same
note: A and B differ in the golden case
better              0/1 -> 1/1    disk-001
""")
    grid = regauge(project, "runs", "compare", *runs, runs[0]).output
    assert _shown(project, grid.split("\n\n", 2)[2]) == snapshot("""\
triage (test_agrees): cases that differ
A       B       C       case
1/1     0/1     1/1     disk-001

triage (test_differs): cases that differ
A       B       C       case
0/1     1/1     0/1     disk-001

2 cases with the same pass rate in all runs
""")
    logged = regauge(project, "log", "triage", "--runs").output
    assert _shown(project, logged) == snapshot("""\
triage (test_agrees) · sim:clerk-1 (simulated) · 2 runs  █▅
version  content       day         pass rate      0 to 100 %, 95 % interval              cost  runs
1.0.0    DIGEST------  DAY-------  100.0 % (2/2)  │        ───────────────●│  34 to 100  $0    1
1.0.0    DIGEST------  DAY-------  50.0 % (1/2)   │  ──────────●─────────  │  9 to 91    $0    1     other cases

triage (test_differs) · sim:clerk-1 (simulated) · 2 runs  ▁▅
version  content       day         pass rate     0 to 100 %, 95 % interval            cost  runs
1.0.0    DIGEST------  DAY-------  0.0 % (0/2)   │●───────────────        │  0 to 66  $0    1
1.0.0    DIGEST------  DAY-------  50.0 % (1/2)  │  ──────────●─────────  │  9 to 91  $0    1     other cases
""")
    assert regauge(project, "log", "triage").stderr == snapshot("""\
note: not in a git repository, so no days and no commits
pass rates are those of sim:clerk-1 (simulated) in evals/test_triage.py::test_agrees; of all evals: regauge log triage --runs
""")


def test_evals_that_share_completions_add_no_evidence_to_a_comparison_of_models(live: EvalProject):
    live.eval(TWO_EVALS)
    live.run("--model=local:clerk", "--model=local:other").assert_outcomes(passed=30)
    comparison = live.records()[-1]["evals"][1]["comparison"]
    assert comparison["cases"] == 5


def test_answers_and_outcomes_of_two_runs_are_compared(
    live: EvalProject, endpoint: Endpoint, regauge: Regauge
):
    live.golden([live.case(0), live.case(1, ok=False), live.case(2), live.case(3), live.case(4)])
    live.run()
    first = live.records()[0]["id"]
    live.golden([live.case(0, ok=False), live.case(1), live.case(2), live.case(3), live.case(5)])
    endpoint.answer = lambda text: json.dumps(
        {
            "severity": "low\x1b[31m" if "disk 3" in text else "critical",
            "reason": "it says so itself",
        }
    )
    live.prompt(version="1.1.0", system="Say how severe the alert is, as JSON.")
    live.run()
    compared = regauge(live, "runs", "compare", first, "latest", "--outputs")
    assert compared.exit_code == 0
    output = re.sub(r" +\d+ ms", "  LATENCY", compared.output)
    output = re.sub(r"(?<=cost)    p50 +p95", "  p50  p95", re.sub("p50 +p95", "p50  p95", output))
    assert _shown(live, re.sub("cost +p50", "cost  p50", output)) == snapshot("""\
A  RUN  -
B  RUN  -

prompt  version  model          cases  passed  failed  tracked  unmeasured        pass rate  difference to the first             tokens     cost  p50  p95  completions
triage  1.0.0    local:clerk A      5       4       1        0           0  80 % (38 to 96)  -                                      550  $0.0006  LATENCY  LATENCY  5 live
triage  1.1.0    local:clerk B      5       4       1        0           0  80 % (38 to 96)  +0.0 points (-75.0 to 75.0), p = 1     550  $0.0006  LATENCY  LATENCY  5 live

triage  1.0.0 (DIGEST) -> 1.1.0 (DIGEST)  local:clerk: 1 worse, 1 better, 1 only in A, 1 only in B, 1 with another output, 1 the same
note: A and B differ in the golden case
worse               1/1 -> 0/1    disk-000
      both outputs are equal
    B  agrees: agrees returned false
better              0/1 -> 1/1    disk-001
      both outputs are equal
    A  agrees: agrees returned false
only in A           1/1 -> -      disk-004
    -{
    -  "severity": "critical",
    -  "reason": "it says so itself"
    -}
only in B           - -> 1/1      disk-005
    +{
    +  "severity": "critical",
    +  "reason": "it says so itself"
    +}
with another output 1/1 -> 1/1    disk-003
     {
    -  "severity": "critical",
    +  "severity": "low\\u001b[31m",
       "reason": "it says so itself"
     }
""")
    # A run that drew nothing, as of a gate without a change, is no run to compare with.
    runs = live.root / ".regauge/runs"
    shutil.copytree(runs / first, runs / "29991231-235959-0000")
    record = json.loads((runs / first / "run.json").read_text())
    empty = record | {"id": "29991231-235959-0000", "evals": []}
    (runs / "29991231-235959-0000/run.json").write_text(json.dumps(empty))
    assert regauge(live, "runs", "compare", "--outputs").output == compared.output
    assert regauge(live, "runs", "compare", first, "--outputs").output == compared.output
    assert regauge(live, "runs", "compare", "latest", "--outputs").output == compared.output
    named = regauge(live, "runs", "compare", "29991231-235959-0000", "latest")
    assert "note: run A has no cases\n" in named.stderr
    shutil.rmtree(runs / "29991231-235959-0000")
    short = regauge(live, "runs", "compare", first, "--no-diff").output
    assert short.splitlines()[-1] == (
        "other outputs with the same outcome: 1 (--outputs shows them)"
    )
    document = json.loads(regauge(live, "runs", "compare", first, "latest", "--json").stdout)
    assert [change["change"] for change in document["evals"][0]["changes"]] == [
        "worse",
        "better",
        "removed",
        "added",
        "output",
    ]
    itself = regauge(live, "runs", "compare", "latest", "latest")
    assert itself.stdout.splitlines()[-1].endswith("local:clerk: 5 the same")
    assert itself.stderr == "note: A and B are the same run\n"
    unknown = regauge(live, "runs", "compare", "latest", "latest", "--prompt", "triange")
    assert isinstance(unknown.exception, UsageError)
    assert "no run has the prompt 'triange'" in str(unknown.exception)


def test_runs_stay_in_the_history_when_their_directories_are_gone(
    project: EvalProject, regauge: Regauge
):
    project.run()
    (record,) = project.records()
    assert not (project.root / ".regauge" / "history.sqlite3").exists()
    assert regauge(project, "runs", "list").output.startswith(record["id"])
    shutil.rmtree(project.root / ".regauge" / "runs")
    listed = regauge(project, "runs", "list", "--json")
    assert json.loads(listed.stdout) == record
    compared = regauge(project, "runs", "compare", record["id"], record["id"][:-1])
    assert compared.output.endswith("sim:clerk-1 (simulated): 5 the same\n")
    alone = regauge(project, "runs", "compare")
    assert "there are no two runs with cases on this machine" in str(alone.exception)
    missing = regauge(project, "runs", "compare", "1999", "latest")
    assert isinstance(missing.exception, UsageError)
    assert str(missing.exception) == snapshot("""\
there is no run '1999', neither in .regauge/runs nor in .regauge/history.sqlite3
  fix: `regauge runs list` lists them\
""")


def test_of_a_gate_its_own_cases_count_once_and_those_of_main_do_not(tmp_path: Path):
    """It draws main, and it draws again what failed."""
    repo = GateRepo(tmp_path)
    repo.branch("change")
    repo.release("minor", (label_definitions(repo.read(PROMPT)), "      - critical\n"))
    repo.gate(code=1)
    cases = len(repo.read(GOLDEN).splitlines())
    (row,) = repo.regauge("runs", "list").splitlines()
    assert f"  {cases} cases, " in row
    assert ", gate: reject, " in row
    assert row.count(NAME) == 1
    (line,) = json.loads(repo.regauge("log", NAME, "--runs", "--json"))["lines"]
    (point,) = line["points"]
    assert (point["version"], point["cases"], point["trials"]) == ("1.1.0", cases, 1)
    rows = [json.loads(row) for row in repo.read(_rows_of_only_run(repo)).splitlines()]
    drawn = [row for row in rows if row["side"] == "candidate"]
    assert len(drawn) > cases
    first = {row["case"]: row for row in sorted(drawn, key=lambda row: -row["trial"])}
    assert point["passed"] == sum(row["outcome"] == "passed" for row in first.values())


def _rows_of_only_run(repo: GateRepo) -> str:
    (path,) = repo.root.glob(".regauge/runs/*/trials.jsonl")
    return str(path.relative_to(repo.root))


@pytest.mark.parametrize("line", ["{}", "[]", "no JSON"])
def test_a_run_that_cannot_be_read_is_named_and_hides_no_other(
    project: EvalProject, regauge: Regauge, line: str
):
    project.run("-k", "disk-000")
    (run,) = (project.root / ".regauge" / "runs").iterdir()
    broken = run.with_name("20260131-100000-aaaa")
    shutil.copytree(run, broken)
    (broken / "trials.jsonl").write_text(f"{line}\n", encoding="utf-8")
    shutil.copytree(broken, broken.with_name("20260201-100000-bbbb"))
    for _ in range(2):
        listed = regauge(project, "runs", "list")
        assert listed.exit_code == 0
        assert [row.split()[0] for row in listed.stdout.splitlines()] == [run.name]
        assert listed.stderr.startswith("20260131-100000-aaaa  unreadable: ")
        assert listed.stderr.endswith("\n  and 1 other run for the same reason\n")
    trend = regauge(project, "log", "triage", "--runs")
    assert "100.0 % (1/1)" in trend.stdout
    assert "20260131-100000-aaaa  unreadable: " in trend.stderr
    shutil.rmtree(run)
    (project.root / ".regauge" / "history.sqlite3").unlink()
    listed = regauge(project, "runs", "list")
    assert listed.stdout == ""
    assert listed.stderr.count("unreadable: ") == 1


@pytest.mark.parametrize("how", ["damaged", "newer", "foreign"])
def test_a_history_that_cannot_be_used_is_named_with_what_to_do(
    project: EvalProject, regauge: Regauge, how: str
):
    project.run()
    path = project.root / ".regauge" / "history.sqlite3"
    if how == "damaged":
        path.write_bytes(b"not a database at all" * 100)
        problem = "file is not a database"
    else:
        regauge(project, "runs", "list")
        with sqlite3.connect(path) as database:
            if how == "newer":
                database.execute("INSERT INTO regauge_schema VALUES (99, '9.0')")
                problem = "written by a newer regauge (schema 99, this one knows 3)"
            else:
                database.execute("DROP TABLE regauge_evals")
                problem = "no such table: regauge_evals"
        database.close()
    refused = regauge(project, "log", "triage", "--runs")
    assert isinstance(refused.exception, StoreError)
    message = str(refused.exception)
    assert f"history in .regauge/history.sqlite3: {problem}" in message
    assert "fix: " in message
    log = regauge(project, "log", "triage")
    assert log.exit_code == 0
    assert problem in log.stderr
    if how == "newer":
        return
    # What the message says to do.
    (command,) = re.findall(r"mv .*", message)
    subprocess.run(command.split(), cwd=project.root, check=True, timeout=30)
    assert "100.0 % (5/5)" in regauge(project, "log", "triage", "--runs").output


def test_a_run_loads_no_database(project: EvalProject, modules_loaded_by):
    project.write(
        "conftest.py",
        "import sys\n\ndef pytest_unconfigure():\n    print('loaded', {'psycopg', 'numpy'} & {*sys.modules})\n",
    )
    said, _ = project.start_from_nothing("-s").communicate(timeout=60)
    assert "loaded set()" in said
    assert "psycopg" not in modules_loaded_by("import regauge.cli.prompts, regauge.cli.runs")
