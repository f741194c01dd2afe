"""Judges that ask a model inside a run: recorded, replayed, budgeted, counted, informing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.judge_source import MEMOISED, MODEL_JUDGE, MODEL_JUDGES_GATE

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

JUDGE = 'asking("fair", model="local:judge")'


def scores(text: str) -> str:
    """What the endpoint says: a score to judges, a severity to prompts."""
    if text.startswith("judge "):
        return json.dumps({"score": 0.9})
    return json.dumps({"severity": "critical", "reason": "it says so itself"})


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A project with a rule and a judge that asks a model; it gates."""
    endpoint.answer = scores
    live.golden([live.case(number) for number in range(3)])
    live.judged_by(f"min_chars(1), {JUDGE}", more=MODEL_JUDGE + MODEL_JUDGES_GATE)
    return live


def asked_of_judge(endpoint: Endpoint) -> int:
    return endpoint.models["judge"]


def test_a_judges_calls_are_recorded_and_replayed(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.run().assert_outcomes(passed=3)
    assert asked_of_judge(endpoint) == 3
    lines = judged.recordings("judges/triage")
    assert [(line["case"], line["judge"], line["prompt"]) for line in lines] == [
        (f"disk-{number:03}", "fair", "triage") for number in range(3)
    ]
    assert len(judged.recordings()) == 3, "the prompt's own recordings stay apart"
    endpoint.forget()
    judged.run("--record=none").assert_outcomes(passed=3)
    assert endpoint.total == 0


def test_what_judges_use_is_counted_apart(judged: EvalProject) -> None:
    judged.settings(
        provider='prices = { "clerk" = { input_per_million = 1.0, output_per_million = 2.0 },'
        ' "judge" = { input_per_million = 10.0, output_per_million = 20.0 } }\n'
    )
    live = judged.run()
    replay = judged.run("--record=none")
    for result, word in ((live, "3, 3 live"), (replay, "3")):
        result.stdout.fnmatch_lines([f"judge calls: triage, {word}, 330 tokens, $0.0036, *"])
    for record, paid in zip(judged.records(), (0.0036, 0.0), strict=True):
        [suite] = record["evals"]
        assert suite["cost_usd"] == pytest.approx(3 * 0.00012)
        assert suite["judge_usage"]["cost_usd"] == pytest.approx(0.0036)
        assert suite["judge_usage"]["spent_usd"] == pytest.approx(paid)
        assert (suite["judge_usage"]["calls"], suite["judge_usage"]["input_tokens"]) == (3, 300)
    verdicts = {one["judge"]: one for one in judged.rows()[0]["verdicts"]}
    assert verdicts["fair"]["usage"]["calls"] == 1
    assert verdicts["fair"]["usage"]["latency_s"] > 0
    assert "usage" not in verdicts["min_chars(1)"]


def test_a_judge_that_is_not_calibrated_changes_no_outcome(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda text: scores(text).replace("0.9", "0.1")
    judged.judged_by(f"min_chars(1), {JUDGE}", more=MODEL_JUDGE)
    result = judged.run()
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["advisory judges:", "  triage: fair (no calibration record*), passed 0, failed 3"]
    )
    verdict = judged.rows()[0]["verdicts"][1]
    assert (verdict["outcome"], verdict["blocking"]) == ("fail", False)


def test_reports_say_which_judges_inform_and_what_they_used(judged: EvalProject) -> None:
    judged.judged_by(f"min_chars(1), {JUDGE}", more=MODEL_JUDGE)
    judged.run("-k", "disk-000", "--junitxml=junit.xml")
    junit = (judged.root / "junit.xml").read_text(encoding="utf-8")
    assert 'name="regauge.advisory.fair" value="no calibration record' in junit
    assert 'name="regauge.judge_calls.fair" value="1"' in junit
    [record] = judged.records()
    said = judged.command("report", record["id"]).stdout
    assert "Judges made 1 model call: 110 tokens, ?." in said
    assert "- triage: fair (no calibration record" in said
    assert record["options"]["rejudge"] is False
    table = judged.command("report", record["id"], "--format", "csv").stdout
    columns = table.splitlines()[0].split(",")
    assert {"blocking.fair", "calls.fair", "cost_usd.fair", "latency_s.fair"} <= {*columns}
    assert "gates.min_chars(1)" not in columns


def test_a_failed_case_shows_what_informing_judges_say(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    judged.golden([judged.case(0, ok=False)])
    judged.judged_by(f"lambda output, case: case.expected['ok'], {JUDGE}", more=MODEL_JUDGE)
    result = judged.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*· fair (advisory): pass (0.90): 0.9 from the model"])


def test_a_case_whose_judges_only_inform_is_unmeasured(judged: EvalProject) -> None:
    judged.judged_by(JUDGE, more=MODEL_JUDGE)
    result = judged.run()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*a case without blocking judges: fair (no calibration record*"])
    assert {row["outcome"] for row in judged.rows()} == {"unmeasured"}


def test_the_judge_model_of_the_run_goes_before_that_of_the_settings(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    judged.settings('judge_model = "local:usual"')
    judged.judged_by('min_chars(1), asking("fair")', more=MODEL_JUDGE + MODEL_JUDGES_GATE)
    judged.run().assert_outcomes(passed=3)
    judged.run("--judge-model=local:other").assert_outcomes(passed=3)
    assert (endpoint.models["usual"], endpoint.models["other"]) == (3, 3)


def test_a_replay_without_judge_calls_names_judge_count_and_command(judged: EvalProject) -> None:
    judged.run()
    (judged.root / "fixtures/recordings/judges/triage.jsonl").unlink()
    (judged.root / ".regauge/store.sqlite3").unlink()
    result = judged.run("--record=none")
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        [
            "needs recording: triage, judge fair, 3 judgements of 3 cases",
            "  about 3 calls of local:judge: about * tokens, cost unknown (no price declared)",
            "  record them: regauge record triage",
        ]
    )


def test_each_trial_is_judged_by_calls_of_its_own(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.run("--trials=2").assert_outcomes(passed=3)
    assert asked_of_judge(endpoint) == 6
    assert {line["trial"] for line in judged.recordings("judges/triage")} == {0, 1}


def test_recording_anew_asks_judges_anew(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.run()
    endpoint.forget()
    judged.run("--record=all").assert_outcomes(passed=3)
    assert (asked_of_judge(endpoint), endpoint.total) == (3, 6)


def test_workers_judge_each_answer_once(judged: EvalProject, endpoint: Endpoint) -> None:
    judged.golden([judged.case(number) for number in range(8)])
    judged.run("-n2").assert_outcomes(passed=8)
    assert asked_of_judge(endpoint) == 8
    assert not endpoint.twice
    assert len(judged.recordings("judges/triage")) == 8
    [record] = judged.records()
    assert record["evals"][0]["judge_usage"]["calls"] == 8


def test_a_worker_that_is_done_ends_the_calls_that_another_one_waits_for(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    """It makes calls ahead for cases that run on the other worker, and ends before it."""
    judged.golden([judged.case(number) for number in range(8)])
    endpoint.latency_of = dict.fromkeys(judged.case(7)["inputs"].values(), 2.0)
    judged.run("-n2").assert_outcomes(passed=8)
    assert not endpoint.twice


def test_a_failing_judge_fails_the_case_with_its_reason(
    judged: EvalProject, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda text: scores(text).replace("0.9", "0.1")
    result = judged.run("-k", "disk-001")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*✗ fair: 0.1 from the model"])


# --- measurements -----------------------------------------------------------------------------

MEASURING = 'asking("fair", model="local:judge", kind=Memoised)'


@pytest.fixture
def measured(judged: EvalProject) -> EvalProject:
    """The same project, with a judge whose measurements are recorded."""
    judged.judged_by(f"min_chars(1), {MEASURING}", more=MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE)
    return judged


def works(project: EvalProject) -> int:
    """How often the judge measured since this was asked last."""
    path = project.root / "measured.txt"
    count = len(path.read_text()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return count


def test_a_replay_measures_nothing(measured: EvalProject, endpoint: Endpoint) -> None:
    measured.run().assert_outcomes(passed=3)
    assert works(measured) == 3
    assert len((measured.root / "prepared.txt").read_text()) == 1, "once for all cases"
    assert len(measured.recordings("verdicts/triage")) == 3
    endpoint.forget()
    replay = measured.run("--record=none")
    replay.assert_outcomes(passed=3)
    replay.stdout.fnmatch_lines(["judge calls: triage, 3, 330 tokens, *"])
    assert (works(measured), endpoint.total) == (0, 0)


def test_rejudging_measures_from_recorded_calls(measured: EvalProject, endpoint: Endpoint) -> None:
    measured.run()
    works(measured)
    endpoint.forget()
    measured.run("--record=none", "--rejudge").assert_outcomes(passed=3)
    assert (works(measured), endpoint.total) == (3, 0)


def test_workers_write_their_measurements_to_one_file(
    measured: EvalProject, endpoint: Endpoint
) -> None:
    measured.golden([measured.case(number) for number in range(8)])
    measured.run("-n2").assert_outcomes(passed=8)
    assert len(measured.recordings("verdicts/triage")) == 8
    works(measured)
    endpoint.forget()
    measured.run("-n2", "--record=none").assert_outcomes(passed=8)
    assert (works(measured), endpoint.total) == (0, 0)


def test_workers_add_up_what_they_could_not_replay(
    measured: EvalProject, endpoint: Endpoint
) -> None:
    measured.golden([measured.case(number) for number in range(8)])
    measured.run()
    for path in ("judges/triage.jsonl", "verdicts/triage.jsonl"):
        (measured.root / "fixtures/recordings" / path).unlink()
    (measured.root / ".regauge/store.sqlite3").unlink()
    result = measured.run("-n2", "--record=none")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["needs recording: triage, judge fair, 8 judgements of 8 cases"])


def test_another_threshold_takes_no_new_measurement(
    measured: EvalProject, endpoint: Endpoint
) -> None:
    measured.run()
    works(measured)
    measured.judged_by(
        f"min_chars(1), {MEASURING[:-1]}, at_least=0.95)",
        more=MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE,
    )
    measured.run("--record=none").assert_outcomes(failed=3)
    assert works(measured) == 0


def test_another_question_takes_a_new_measurement(
    measured: EvalProject, endpoint: Endpoint
) -> None:
    measured.run()
    works(measured)
    measured.judged_by(
        f"min_chars(1), {MEASURING[:-1]}, question='Is it kind?')",
        more=MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE,
    )
    assert measured.run("--record=none").ret != 0
    works(measured)
    endpoint.forget()
    measured.run().assert_outcomes(passed=3)
    assert (works(measured), endpoint.total) == (3, 3)


def test_loading_a_judge_keeps_no_call_waiting(judged: EvalProject) -> None:
    """Whoever is loaded here ends only when all other judges have had their replies."""
    waits = """
import threading
replies = threading.Semaphore(0)

class Quick(Asking):
    async def judge_with(self, completion, case, calls):
        verdict = await super().judge_with(completion, case, calls)
        replies.release()
        return verdict

class Slow(Memoised):
    def prepare(self):
        for _ in range(3):
            assert replies.acquire(timeout=30), "the others were kept waiting"
"""
    judged.judged_by(
        "min_chars(1), asking('quick', 'local:judge', kind=Quick),"
        " asking('slow', 'local:judge', '?', kind=Slow)",
        more=MODEL_JUDGE + MEMOISED + waits + MODEL_JUDGES_GATE,
    )
    judged.run().assert_outcomes(passed=3)


def test_a_judge_is_loaded_on_the_main_thread_before_the_first_test(judged: EvalProject) -> None:
    """Warning filters that a package sets on another thread are lost at the end of a test."""
    heavy = """
import os, threading

class Heavy(Memoised):
    def prepare(self):
        assert threading.current_thread() is threading.main_thread()
        assert "test_triage" not in os.environ.get("PYTEST_CURRENT_TEST", "")
"""
    judged.judged_by(
        "min_chars(1), asking('heavy', 'local:judge', kind=Heavy)",
        more=MODEL_JUDGE + MEMOISED + heavy + MODEL_JUDGES_GATE,
    )
    judged.run().assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("options", "budget", "cases"),
    [
        ("", "--budget-calls=13", (6, 6)),
        (", trials=2", "--budget-calls=13", (3, 3)),
        ("", "--budget-usd=0.0012", (2, 5)),
        ("", "--budget-tokens=1200", (3, 5)),
    ],
)
def test_a_budget_finishes_the_cases_that_it_begins(
    judged: EvalProject,
    endpoint: Endpoint,
    options: str,
    budget: str,
    cases: tuple[int, int],
) -> None:
    """All trials and judges of a case: what is paid for is measured, and nothing is paid twice."""
    judged.settings(
        provider='prices = { "clerk" = { input_per_million = 1.0, output_per_million = 2.0 },'
        ' "judge" = { input_per_million = 1.0, output_per_million = 2.0 } }\n'
    )
    judged.golden([judged.case(number) for number in range(28)])
    judged.judged_by(JUDGE, more=MODEL_JUDGE + MODEL_JUDGES_GATE, options=options)
    run = judged.run(budget)
    per_case = 4 if options else 2
    passed = run.parseoutcomes()["passed"]
    assert cases[0] <= passed <= cases[1]
    assert endpoint.total == passed * per_case
    run.stdout.fnmatch_lines(["*the budget of * is reached: *"])
    judged.run().assert_outcomes(passed=28)
    assert endpoint.total == 28 * per_case
