"""Several models in one run: the items, the table, the record, and what is refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

MODELS = ("--model=local:clerk", "--model=local:apprentice")
JUDGES = "field_equals('severity')"


def worse(text: str) -> str:
    """An apprentice knows the severity of every fourth disk alone."""
    number = int(text.split("disk ")[1].split(maxsplit=1)[0])
    return json.dumps({"severity": "critical" if number % 4 == 0 else "info"})


@pytest.fixture
def compared(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """Twenty cases that the model `clerk` passes and `apprentice` mostly fails."""
    endpoint.answer_of["apprentice"] = worse
    live.golden(
        [live.case(number) | {"expected": {"severity": "critical"}} for number in range(20)]
    )
    live.judged_by(JUDGES)
    return live


def table(text: str) -> list[str]:
    """The lines of the table, each without latencies."""
    lines = [line for line in text.splitlines() if re.match(r"prompt  |triage  |\| ", line)]
    return [re.sub(r"\b[\d.]+ m?s\b", "T", re.sub(r"  +", "  ", line)) for line in lines]


def test_every_case_runs_with_each_model_and_one_table_compares_them(compared: EvalProject):
    result = compared.run(*MODELS, "-v")
    result.assert_outcomes(passed=25, failed=15)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*::test_triage[[]disk-000-local:clerk] PASSED*",
            "*::test_triage[[]disk-000-local:apprentice] PASSED*",
            "*::test_triage[[]disk-001-local:clerk] PASSED*",
            "*::test_triage[[]disk-001-local:apprentice] FAILED*",
        ]
    )
    assert table(result.stdout.str()) == snapshot(
        [
            "prompt  version  model  cases  passed  failed  tracked  unmeasured  pass rate  difference to the first  tokens  cost  p50  p95  completions",
            "triage  1.0.0  local:clerk  20  20  0  0  0  100 % (84 to 100)  -  2.2k  $0.0024  T  T  20 live",
            "triage  1.0.0  local:apprentice  20  5  15  0  0  25 % (11 to 47)  -75.0 points (-96.5 to -53.5), worse, p < 0.001  2.2k  ?  T  T  20 live",
        ]
    )
    [record] = compared.records()
    assert [suite["model"] for suite in record["evals"]] == ["local:clerk", "local:apprentice"]
    first, second = (suite["comparison"] for suite in record["evals"])
    assert first["difference"] is None
    assert (second["difference"], second["cases"], second["outcome"]) == (-0.75, 20, "worse")
    # Fifteen cases differ, all in one direction: 2 x 2^-15.
    assert second["p_value"] == pytest.approx(2 * 0.5**15)
    report = table(compared.command("report").stdout)
    assert report[:3] == snapshot(
        [
            "| prompt | version | model | cases | passed | failed | tracked | unmeasured | pass rate (95 % interval) | difference to the first | tokens | cost | p50 | p95 |",
            "| triage | 1.0.0 | local:clerk | 20 | 20 | 0 | 0 | 0 | 100 % (84 to 100) | - | 2.2k | $0.0024 | T | T |",
            "| triage | 1.0.0 | local:apprentice | 20 | 5 | 15 | 0 | 0 | 25 % (11 to 47) | -75.0 points (-96.5 to -53.5), worse, p < 0.001 | 2.2k | ? | T | T |",
        ]
    )
    assert report[4] == snapshot(
        "| triage `disk-001`, local:apprentice | 0 | field&#95;equals(severity) | severity is 'info', not 'critical' |"
    )


def test_recordings_of_all_models_replay_together_and_alone(
    compared: EvalProject, endpoint: Endpoint
):
    compared.run(*MODELS)
    endpoint.forget()
    compared.run("--record=none", *MODELS).assert_outcomes(passed=25, failed=15)
    compared.run("--record=none", "--model=local:apprentice").assert_outcomes(passed=5, failed=15)
    compared.run("--record=none").assert_outcomes(passed=20)
    assert endpoint.total == 0
    missing = compared.run("--record=none", *MODELS, "--model=local:third", "-k", "disk-000")
    missing.stdout.fnmatch_lines(["*record them: regauge record triage --model local:third"])
    assert missing.ret == 1


def test_the_settings_name_models_of_plain_runs(compared: EvalProject, endpoint: Endpoint):
    compared.settings('models = ["local:apprentice", "local:clerk"]')
    compared.run("-k", "disk-001").assert_outcomes(passed=1, failed=1)
    assert [suite["model"] for suite in compared.records()[-1]["evals"]] == [
        "local:apprentice",
        "local:clerk",
    ]
    compared.run("-k", "disk-001", "--model=local:clerk").assert_outcomes(passed=1)
    endpoint.forget()
    assert compared.command("record").returncode == 0
    assert endpoint.models == {"apprentice": 19, "clerk": 19}
    assert "recordings" not in compared.command("lint").stdout
    compared.settings('models = ["local:clerk", "local:clerk"]')
    assert "'local:clerk' is listed twice" in compared.complaint(compared.run())


def test_workers_share_a_run_of_several_models(compared: EvalProject):
    compared.run(*MODELS, "-n", "2").assert_outcomes(passed=25, failed=15)
    suites = compared.records()[-1]["evals"]
    assert [suite["model"] for suite in suites] == ["local:clerk", "local:apprentice"]
    assert suites[1]["comparison"]["difference"] == -0.75


def test_a_prompt_file_runs_with_each_model(live: EvalProject, endpoint: Endpoint):
    endpoint.answer_of["apprentice"] = lambda _: "something else"
    live.write(
        "prompts/plain.prompt.yml",
        "messages:\n  - role: user\n    content: '{{text}}'\nmodel: local:clerk\n"
        "testData:\n  - text: 'warning: hot'\nevaluators:\n"
        "  - name: says\n    string: {contains: warning}\n",
    )
    result = live.pytest("prompts/plain.prompt.yml", *MODELS, "-v")
    result.assert_outcomes(passed=1, failed=1)
    assert live.records()[-1]["evals"][1]["comparison"]["difference"] == -1.0


def test_models_that_cannot_be_compared_are_refused(live: EvalProject, endpoint: Endpoint):
    assert live.complaint(live.run(*MODELS, "--gate=main")) == snapshot("""\
ERROR: --gate takes one model, not 2: local:clerk, local:apprentice
  fix: leave one --model; to gate a change of model: regauge migrate --to MODEL\
""")
    assert live.complaint(live.run(*MODELS, "--suggest")) == snapshot("""\
ERROR: --suggest takes one model, not 2: local:clerk, local:apprentice
  fix: leave one --model; to gate a change of model: regauge migrate --to MODEL\
""")
    assert live.complaint(live.run(*MODELS, MODELS[0])) == snapshot("""\
ERROR collecting evals/test_triage.py
--model names local:clerk twice
  fix: name each model once
ERROR evals/test_triage.py - --model names local:clerk twice\
""")
    live.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "def answer(text):\n    return text\n\n"
        "@golden('triage', target='evals.test_triage:answer', judges=[min_chars(1)])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    refused = live.run(*MODELS)
    assert refused.stderr.str() == snapshot("""\
ERROR: --model changes prompts, and every selected eval tests a target, such as triage
  fix: leave out --model, or select evals of prompts
""")
    assert refused.ret == 4
    in_workers = live.run(*MODELS, "-n2")
    assert in_workers.stderr.str() == refused.stderr.str()
    assert "INTERNALERROR" not in in_workers.stdout.str()
    assert in_workers.ret == 4
    assert endpoint.total == 0


def test_finished_runs_are_compared_with_the_first(compared: EvalProject):
    compared.run("--model=local:clerk")
    compared.run("--model=local:apprentice")
    compared.run("--model=local:clerk", "--trials=2")
    runs = [record["id"] for record in compared.records()]
    said = compared.command("runs", "compare", *runs).stdout
    assert [line.split("  ")[0] for line in said.splitlines()[:3]] == ["A", "B", "C"]
    assert table(said) == snapshot(
        [
            "prompt  version  model  cases  passed  failed  tracked  unmeasured  pass rate  difference to the first  tokens  cost  p50  p95  completions",
            "triage  1.0.0  local:clerk A  20  20  0  0  0  100 % (84 to 100)  -  2.2k  $0.0024  T  T  20 live",
            "triage  1.0.0  local:apprentice B  20  5  15  0  0  25 % (11 to 47)  -75.0 points (-96.5 to -53.5), worse, p < 0.001  2.2k  ?  T  T  20 live",
            "triage  1.0.0  local:clerk C  20  20  0  0  0  100 % (84 to 100)  +0.0 points (-7.5 to 7.5), p = 1  4.4k  $0.0048  T  T  20 replayed, 20 live",
        ]
    )
    assert said.count("1/1     0/1     2/2     disk-0") == 15
    assert said.endswith("\n5 cases with the same pass rate in all runs\n")
    document = json.loads(compared.command("runs", "compare", *runs, "--json").stdout)
    assert document["runs"] == runs
    assert [one["model"] for one in document["models"]] == [
        "local:clerk A",
        "local:apprentice B",
        "local:clerk C",
    ]
    assert document["cases"][0]["counts"] == {"A": [1, 1], "B": [0, 1], "C": [2, 2]}
    compared.command("runs", "compare", *runs, "-o", "runs.md")
    assert "| triage | 1.0.0 | local:apprentice B | 20 | 5 | 15 |" in (
        compared.root / "runs.md"
    ).read_text(encoding="utf-8")
    compared.command("runs", "compare", *runs, "-o", "runs.html")
    page = (compared.root / "runs.html").read_text(encoding="utf-8")
    assert '"models":[["candidate","local:clerk A"],["model-1","local:apprentice B"]' in page
    wrong = compared.command("runs", "compare", *runs, "-o", "runs.pdf")
    assert (wrong.returncode, "end the name with .md or .html" in wrong.stderr) == (2, True)
