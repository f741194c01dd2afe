"""Judges' models that talk nonsense, object, are gone, cost too much or are cut off."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import PRICES
from tests.fakes import Endpoint
from tests.judge_source import MEMOISED, MODEL_JUDGE, MODEL_JUDGES_GATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests import processes
    from tests.conftest import EvalProject

SOURCE = MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE
GOOD = '{"score": 0.9}'
NONSENSE: dict[str, str | dict[str, Any]] = {
    "disk-000": "x" * 1_000_000,
    "disk-001": '{"score": 0.9',
    "disk-002": '{"score": [1]}',
    "disk-003": '{"score": NaN}',
    "disk-004": {"content": None},
    "disk-005": {"content": None, "refusal": "I do not judge."},
    "disk-006": '{"score": 1e9}',
    "disk-007": "",
}


def said_of(text: str) -> str:
    return GOOD if text.startswith("judge ") else text


def judges(*calls: str) -> str:
    return ", ".join(["min_chars(1)", *calls])


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A project with a rule and a judge that asks a model; it gates."""
    endpoint.answer = said_of
    live.judged_by(judges('asking("fair", model="local:judge")'), more=SOURCE)
    return live


def of_judge(endpoint: Endpoint) -> set[str]:
    return {text for text in endpoint.calls if text.startswith("judge ")}


@pytest.mark.parametrize("kind", ["Asking", "Memoised"])
def test_replies_that_cannot_be_read_are_unmeasured_and_kept(
    judged: EvalProject, endpoint: Endpoint, kind: str
):
    def answer(text: str) -> str | dict[str, Any]:
        return NONSENSE.get(text.split(":", maxsplit=1)[0].removeprefix("judge "), GOOD)

    endpoint.answer = answer
    judged.judged_by(judges(f'asking("fair", "local:judge", kind={kind})'), more=SOURCE)
    judged.golden([judged.case(number) for number in range(len(NONSENSE) + 1)])
    result = judged.run()
    assert result.parseoutcomes() == {"passed": 1, "unmeasured": len(NONSENSE)}
    assert result.ret == 1
    rows = {row["case"]: row for row in judged.rows()}
    causes = {case: rows[case]["cause"] for case in NONSENSE}
    assert {cause["kind"] for cause in causes.values()} == {"JudgeError"}
    assert all("fair" in cause["message"] for cause in causes.values())
    assert causes["disk-001"]["raw"] == NONSENSE["disk-001"]
    assert causes["disk-000"]["raw"].endswith(f"… {1_000_000 - 4000} more characters")
    replies = {line["case"]: line for line in judged.recordings("judges/triage")}
    assert replies["disk-000"]["completion"]["text"] == NONSENSE["disk-000"]
    assert replies["disk-005"]["completion"]["refusal"] == "I do not judge."
    # A measurement without a verdict is not kept: a mended judge measures again.
    measured = {line["case"] for line in judged.recordings("verdicts/triage")}
    assert measured == ({"disk-008"} if kind == "Memoised" else set())
    endpoint.forget()
    again = judged.run("--record=none")
    assert again.parseoutcomes() == {"passed": 1, "unmeasured": len(NONSENSE)}
    assert endpoint.total == 0


def test_a_judge_that_is_down_leaves_cases_unmeasured_and_answers_kept(judged: EvalProject):
    judged.settings(
        provider=PRICES
        + '[tool.regauge.providers.gone]\nbase_url = "http://127.0.0.1:9/v1"\nmax_attempts = 2\n'
    )
    judged.judged_by(judges('asking("fair", "gone:judge")'), more=SOURCE)
    result = judged.run()
    assert result.parseoutcomes() == {"unmeasured": 5}
    said = result.stdout.str()
    assert said.count("unmeasured: 5 cases of triage (connection)") == 1
    assert "judge fair: " in said
    assert len(judged.recordings()) == 5
    assert judged.recordings("judges/triage") == []
    recorded = judged.command("record")
    assert recorded.returncode == 3
    assert "5 judgements missing: judge fair: " in recorded.stderr


def test_a_storm_of_objections_ends_with_the_stated_deadline(judged: EvalProject):
    with Endpoint(object_to_each=1) as storm:
        judged.settings(
            provider=f'{PRICES}[tool.regauge.providers.storm]\nbase_url = "{storm.base_url}"\n'
            "deadline_s = 1\n"
        )
        judged.judged_by(judges('asking("fair", "storm:judge")'), more=SOURCE)
        result = judged.run()
        assert storm.objections >= 5
    assert result.parseoutcomes() == {"unmeasured": 5}
    result.stdout.fnmatch_lines(["unmeasured: 5 cases of triage (rate-limit)"])
    assert {row["cause"]["kind"] for row in judged.rows()} == {"rate-limit"}
    assert len(judged.recordings()) == 5


def test_judges_are_asked_again_where_the_provider_objects(judged: EvalProject, endpoint: Endpoint):
    endpoint.object_to_each = 3
    judged.golden([judged.case(number) for number in range(20)])
    judged.run("--concurrency=8").assert_outcomes(passed=20)
    assert not endpoint.twice
    (suite,) = judged.records()[0]["evals"]
    assert suite["judge_usage"]["retries"] + suite["retries"] == endpoint.objections >= 10
    assert suite["judge_usage"]["retries"] > 0


def test_a_budget_ends_in_the_middle_of_judging_and_is_gone_on_from(
    judged: EvalProject, endpoint: Endpoint
):
    judged.settings(
        provider='prices = { "clerk" = { input_per_million = 0.0, output_per_million = 0.0 },'
        ' "judge" = { input_per_million = 0.0, output_per_million = 1000.0 } }\n'
    )
    judged.golden([judged.case(number) for number in range(20)])
    # A reply costs 1 cent; what the next one is expected to cost is learned from those before.
    result = judged.run("--budget-usd=0.1", "--concurrency=1")
    outcomes = result.parseoutcomes()
    left = outcomes["unmeasured"]
    assert 0 < left < 20
    assert outcomes["passed"] == 20 - left
    result.stdout.fnmatch_lines([f"unmeasured: {left} cases of triage (BudgetError)"])
    paid = set(endpoint.answered)
    endpoint.forget()
    judged.run().assert_outcomes(passed=20)
    assert not paid & set(endpoint.calls)
    assert len(of_judge(endpoint)) == left


def test_calls_of_a_judge_that_gives_no_verdict_are_counted(
    judged: EvalProject, endpoint: Endpoint
):
    judged.golden([judged.case(number) for number in range(4)])
    endpoint.answer = lambda text: "not JSON" if text.startswith("judge ") else text
    assert judged.run("--trials=2").ret == 1
    (summary,) = judged.records()[-1]["evals"]
    usage = summary["judge_usage"]
    assert summary["unmeasured"] == 4
    calls = [count for text, count in endpoint.calls.items() if text.startswith("judge ")]
    assert usage["calls"] == usage["live"] == sum(calls) == 8
    assert usage["input_tokens"] > 0


def test_no_reply_that_was_paid_for_is_asked_again_after_a_kill(
    judged: EvalProject,
    endpoint: Endpoint,
    wait_until: Callable[..., None],
    kill: Callable[[processes.Started], None],
):
    judged.golden([judged.case(number) for number in range(60)])
    judged.judged_by(
        judges(
            'asking("fair", "local:judge", kind=Memoised)', 'asking("kind", "local:judge", "?")'
        ),
        more=SOURCE.replace('f"judge {case.id}', 'f"judge {self.name} {case.id}'),
    )
    endpoint.latency_s = 0.05
    first = judged.start("--concurrency=8")
    wait_until(lambda: len(of_judge(endpoint)) >= 40, process=first)
    kill(first)
    assert judged.recordings("judges/triage") == []
    endpoint.latency_s = 0.0
    judged.run("--concurrency=8").assert_outcomes(passed=60)
    # Only what was on its way when the run was killed is asked again.
    assert len([text for text, count in endpoint.calls.items() if count > 1]) <= 8
    assert len(judged.recordings("judges/triage")) == 120
    assert len(judged.recordings("verdicts/triage")) == 60


def test_ctrl_c_keeps_replies_of_judges(
    judged: EvalProject, endpoint: Endpoint, wait_until: Callable[..., None]
):
    judged.golden([judged.case(number) for number in range(60)])
    endpoint.latency_s = 0.1
    run = judged.start("--concurrency=8")
    wait_until(lambda: len(of_judge(endpoint)) >= 16, process=run)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "Task was destroyed" not in said
    assert "never retrieved" not in said
    assert len(judged.recordings("judges/triage")) >= 8
    endpoint.latency_s = 0.0
    judged.run().assert_outcomes(passed=60)
    assert len(endpoint.twice) <= 8


def test_a_run_that_stops_at_the_first_failure_asks_judges_little(
    judged: EvalProject, endpoint: Endpoint
):
    judged.golden([judged.case(number) for number in range(120)])
    endpoint.answer = lambda text: '{"score": 0.1}' if text.startswith("judge ") else text
    judged.run("-x").assert_outcomes(failed=1)
    assert len(of_judge(endpoint)) <= 33


def test_a_question_that_all_judgements_share_is_asked_once(
    judged: EvalProject, endpoint: Endpoint
):
    endpoint.latency_s = 0.02
    judged.judged_by(judges('asking("fair", "local:judge", kind=Stepping)'), more=SOURCE)
    for mode in ("missing", "all"):
        endpoint.forget()
        judged.run(f"--record={mode}").assert_outcomes(passed=5)
        assert endpoint.calls["judge by which steps?"] == 1
        assert judged.records()[-1]["evals"][0]["judge_usage"]["calls"] == 6
    judged.run("--record=none").assert_outcomes(passed=5)
    assert judged.records()[-1]["evals"][0]["judge_usage"]["calls"] == 6


@pytest.mark.parametrize("kind", ["Asking", "Memoised"])
def test_a_judge_cannot_make_up_a_verdict_where_its_model_was_silent(
    judged: EvalProject, kind: str
):
    stubborn = f"""
class Stubborn({kind}):
    async def scored(self, completion, case, calls):
        try:
            return await super().scored(completion, case, calls)
        except Exception:
            return 1.0
"""
    judged.judged_by(judges('asking("fair", "local:judge", kind=Stubborn)'), more=SOURCE + stubborn)
    judged.run()
    for path in ("judges", "verdicts"):
        (judged.root / f"fixtures/recordings/{path}/triage.jsonl").unlink(missing_ok=True)
    (judged.root / ".regauge/store.sqlite3").unlink()
    for _ in range(2):
        result = judged.run("--record=none")
        assert result.parseoutcomes() == {"unmeasured": 5}
    judged.use("http://127.0.0.1:9/v1")
    judged.settings(provider="max_attempts = 1")
    assert judged.run().parseoutcomes() == {"unmeasured": 5}
    assert judged.recordings("verdicts/triage") == []


def test_a_judge_that_breaks_says_where(judged: EvalProject):
    judged.judged_by(
        judges('asking("fair", "local:judge")'),
        more=SOURCE + "\n\ndef broken(self, score):\n    return score.nonsense\n\n"
        "Asking.verdict = broken\n",
    )
    result = judged.run("-k", "disk-001")
    assert result.parseoutcomes() == {"unmeasured": 1, "deselected": 4}
    result.stdout.fnmatch_lines(["*judge fair broke: AttributeError*", "*test_triage.py:*"])


def test_a_judge_without_a_provider_is_found_before_anything_is_asked(
    judged: EvalProject, endpoint: Endpoint
):
    judged.judged_by(judges('asking("fair", "lcoal:judge")'), more=SOURCE)
    result = judged.run()
    assert result.ret != 0
    assert "there is no provider 'lcoal'" in result.stdout.str()
    assert endpoint.total == 0


def test_secrets_in_a_reply_reach_no_file(
    judged: EvalProject, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "opensesame-0123456789")
    endpoint.answer = lambda text: (
        'opensesame-0123456789 {"score": 0.9' if text.startswith("judge ") else text
    )
    judged.run()
    for path in judged.root.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            assert b"opensesame" not in path.read_bytes(), path
