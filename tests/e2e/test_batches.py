"""`--batch` and `--collect`: what is missing comes in batches, and nothing is paid twice."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from tests import processes
from tests.batch_server import BatchServer
from tests.conftest import PRICES, EvalProject, quiet_environment
from tests.e2e.test_embeddings import JUDGE as MEANING, Embeddings
from tests.fakes import severity_of
from tests.judge_source import MODEL_JUDGE, MODEL_JUDGES_GATE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from _pytest.pytester import Pytester

_COLLECT = "collect the results with: regauge record --collect"


@pytest.fixture
def provider() -> Iterator[BatchServer]:
    with BatchServer() as served:
        yield served


@pytest.fixture
def batched(
    pytester: Pytester, provider: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> EvalProject:
    """A project whose provider takes batches at half the price."""
    quiet_environment(monkeypatch)
    made = EvalProject(pytester, base_url=provider.base_url)
    made.settings(provider=f"batch_price = 0.5\nmax_attempts = 2\n{PRICES}")
    return made


def _without_times(lines: list[dict[str, Any]], *, cost: float = 1.0) -> list[dict[str, Any]]:
    """Recordings without times and latencies, and with the cost of a live call."""
    found = [json.loads(json.dumps(line)) for line in lines]
    for line in found:
        del line["recorded_at"], line["completion"]["latency_s"]
        line["completion"]["cost_usd"] = round(line["completion"]["cost_usd"] * cost, 9)
    return found


def _state(project: EvalProject) -> Path:
    return project.root / ".regauge" / "batches"


def _said(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{6}-0", "NAME", done.stdout), done.stderr


def test_recordings_of_a_batch_equal_those_of_a_live_run(
    batched: EvalProject, provider: BatchServer
):
    assert batched.command("record", "--trials=2").returncode == 0
    live = batched.recordings()
    (batched.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    for path in (batched.root / ".regauge").glob("store*"):
        path.unlink()

    assert _said(batched.command("record", "--trials=2", "--batch")) == snapshot(
        (
            3,
            "10 completions under way; collect the results with: regauge record --trials=2 --collect\n",
            "",
        )
    )
    assert provider.live.total() == 10
    assert _said(batched.command("record", "--trials=2", "--collect")) == snapshot(
        (
            0,
            "10 of 10 completions recorded\n  wrote fixtures/recordings/triage.jsonl: commit it\n",
            "",
        )
    )
    recorded = batched.recordings()
    assert _without_times(recorded, cost=2) == _without_times(live)
    assert {line["completion"]["latency_s"] for line in recorded} == {None}
    batched.run("--record=none", "--trials=2").assert_outcomes(passed=5)

    again = batched.command("record", "--trials=2", "--batch")
    assert (again.returncode, again.stdout) == (0, "nothing is missing\n")
    assert set(provider.paid.values()) == {2}
    assert [path.suffix for path in _state(batched).iterdir()] == [".json"]


def test_a_dry_run_states_both_prices(batched: EvalProject, provider: BatchServer):
    assert _said(batched.command("record", "--batch", "--dry-run")) == snapshot(
        (
            0,
            """\
needs recording: triage, 5 cases
  5 completions of local:clerk: about 1.6k tokens, $0.0031, $0.0016 in a batch
  record them: regauge record triage
""",
            "",
        )
    )
    assert not provider.batches
    batched.settings(provider=PRICES)
    assert "in a batch" not in batched.command("record", "--dry-run").stdout


def test_what_is_under_way_is_not_submitted_again(batched: EvalProject, provider: BatchServer):
    provider.faults.running = True
    assert batched.command("record", "--batch").returncode == 3
    batched.golden(batched.case(number) for number in range(7))
    more = batched.command("record", "--batch")
    assert (more.returncode, more.stdout) == (3, f"7 completions under way; {_COLLECT}\n")
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [5, 2]
    waiting = batched.command("record", "--collect")
    noted = batched.command("record", "--model=local:other", "--trials=1")
    assert noted.stdout.startswith("note: batches with 7 calls are under way; live calls are paid")
    assert (waiting.returncode, waiting.stdout) == (3, f"7 completions under way; {_COLLECT}\n")
    provider.faults.running = False
    assert batched.command("record", "--collect").returncode == 0
    assert set(provider.paid.values()) == {1}
    assert len([line for line in batched.recordings() if line["model"] == "local:clerk"]) == 7


def test_a_file_cut_in_the_middle_loses_nothing(batched: EvalProject, provider: BatchServer):
    batched.golden(batched.case(number) for number in range(20))
    assert batched.command("record", "--batch").returncode == 3
    provider.faults.cut = 0.5
    first = batched.command("record", "--batch")
    assert first.returncode == 3
    assert "cut off" in first.stdout
    some = len(batched.recordings())
    assert 0 < some < 20
    provider.faults.cut = 1.0
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 20
    assert set(provider.paid.values()) == {1}


def test_results_that_cannot_be_fetched_for_now_are_fetched_later(
    batched: EvalProject, provider: BatchServer
):
    assert batched.command("record", "--batch").returncode == 3
    for _ in range(2):
        provider.faults.content_errors = 2  # as often as the settings allow
        failed = batched.command("record", "--batch")
        assert failed.returncode == 3, failed.stdout + failed.stderr
        assert "cannot be fetched now: " in failed.stdout
        assert "500" in failed.stdout
        assert batched.recordings() == []
    provider.faults.content_errors = 1  # tried again by itself
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5
    assert len(provider.batches) == 1
    assert set(provider.paid.values()) == {1}


def test_results_that_stay_cut_off_are_submitted_again(batched: EvalProject, provider: BatchServer):
    assert batched.command("record", "--batch").returncode == 3
    provider.faults.cut, provider.faults.stays_cut = 0.5, True
    assert batched.command("record", "--collect").returncode == 3
    assert len(provider.batches) == 1
    assert "stay cut off" in batched.command("record", "--collect").stdout
    provider.faults.cut = 1.0
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5


def test_an_expired_batch_brings_what_it_has(batched: EvalProject, provider: BatchServer):
    provider.faults.expired = 3
    assert batched.command("record", "--batch").returncode == 3
    partial = batched.command("record", "--collect")
    assert _said(partial) == snapshot(
        (
            3,
            """\
3 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
2 calls failed in a batch, of cases such as disk-003: batch_expired: This request could not be executed.
2 calls failed; submit them again with: regauge record --batch
""",
            "",
        )
    )
    assert len(batched.recordings()) == 3
    provider.faults.expired = None
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert set(provider.paid.values()) == {1}


def test_doubled_unknown_and_unreadable_lines_are_left(batched: EvalProject, provider: BatchServer):
    faults = provider.faults
    faults.doubled = faults.unknown = faults.malformed = True
    assert batched.command("record", "--batch").returncode == 3
    assert _said(batched.command("record", "--collect")) == snapshot(
        (
            0,
            """\
5 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
1 line left: .regauge/batches/NAME.results-0.jsonl:2: not JSON
1 result of an unknown call left: request-of-others-1
""",
            "",
        )
    )
    assert len(batched.recordings()) == 5


def test_a_failed_call_is_named_and_submitted_again(batched: EvalProject, provider: BatchServer):
    text = batched.case(2)["inputs"]["text"]
    provider.faults.failing = {text}
    assert batched.command("record", "--batch").returncode == 3
    assert _said(batched.command("record", "--collect")) == snapshot(
        (
            3,
            """\
4 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
1 call failed in a batch, of case disk-002: 400: invalid_request_error: no such text
1 call failed; submit them again with: regauge record --batch
""",
            "",
        )
    )
    again = batched.command("record", "--batch")
    assert again.returncode == 3
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [5, 1]


def test_a_batch_that_is_not_valid_is_named_and_submitted_again(
    batched: EvalProject, provider: BatchServer
):
    provider.faults.invalid = True
    assert batched.command("record", "--batch").returncode == 3
    assert _said(batched.command("record", "--collect")) == snapshot(
        (
            3,
            """\
5 calls failed in a batch, of cases such as disk-000: batch failed: invalid_json_line: This line is not valid. (line 1)
5 calls failed; submit them again with: regauge record --batch
""",
            "",
        )
    )
    provider.faults.invalid = False
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0


def test_an_upload_that_fails_is_tried_again(batched: EvalProject, provider: BatchServer):
    provider.faults.upload_errors = 1
    assert batched.command("record", "--batch").returncode == 3
    assert len(provider.batches) == 1
    batched.golden(batched.case(number) for number in range(6))
    provider.faults.upload_errors = 2
    failed = batched.command("record", "--batch")
    assert failed.returncode == 3
    assert "1 call of local:clerk not submitted" in failed.stderr
    assert "nothing is missing" not in failed.stdout
    assert batched.command("record", "--batch").returncode == 3
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [5, 1]


@pytest.mark.parametrize(
    ("api", "moment"),
    [  # Anthropic's has no upload of its own.
        *(("openai", moment) for moment in ("upload", "start", "started")),
        *(("anthropic", moment) for moment in ("start", "started")),
    ],
)
def test_a_killed_command_pays_nothing_twice(
    batched: EvalProject,
    provider: BatchServer,
    kill: Callable[[processes.Started], None],
    api: str,
    moment: str,
):
    if api == "anthropic":
        _use_anthropic(batched)
    provider.faults.hangs = moment
    env = {**os.environ}
    words = ("regauge", "record", "--batch")
    started = processes.start(*words, cwd=batched.root, env=env, loaded=batched.loaded)
    assert provider.waiting.wait(30)
    kill(started)
    provider.faults.hangs = ""
    # What started is found, and has ended by now; files of what never started go.
    assert batched.command("record", "--batch").returncode == (0 if moment == "started" else 3)
    assert len([*_state(batched).glob("*.json")]) == len(provider.batches)
    assert batched.command("record", "--collect").returncode == 0
    assert len(provider.batches) == 1
    assert set(provider.paid.values()) == {1}
    assert len(batched.recordings()) == 5


@pytest.mark.parametrize(
    ("api", "running"),
    [
        *(("openai", running) for running in (False, True)),
        ("anthropic", True),
        ("untagged", False),
        ("inline", True),
    ],
)
def test_batches_are_found_again_where_their_state_is_gone(
    batched: EvalProject, provider: BatchServer, api: str, *, running: bool
):
    """As in CI, where the next job begins without `.regauge`."""
    if api == "anthropic":
        _use_anthropic(batched)
    provider.faults.untagged = api == "untagged"
    provider.faults.inline = api == "inline"
    provider.faults.running = running
    assert batched.command("record", "--batch").returncode == 3
    _forget(batched)
    again = batched.command("record", "--batch")
    assert again.returncode == (3 if running else 0)
    assert len(provider.batches) == 1
    if running and api in {"anthropic", "inline"}:
        # A batch of another machine may hold the calls, so these are not submitted again.
        assert not [*(batched.root / ".regauge/batches").glob("*.jsonl")]
    provider.faults.running = False
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5


def test_a_started_batch_is_found_again_where_its_requests_are_gone(
    batched: EvalProject, provider: BatchServer
):
    provider.faults.running = True
    assert batched.command("record", "--batch").returncode == 3
    (path,) = _state(batched).glob("*.jsonl")
    path.unlink()
    assert "5 completions under way" in batched.command("record", "--collect").stdout
    # Another key finds no batch, which is no reason to pay for it twice.
    batches = {**provider.batches}
    provider.batches.clear()
    said = batched.command("record", "--batch").stdout
    assert f"use the key that started it, or remove .regauge/batches/{path.name}" in said
    assert "5 completions under way" in said
    provider.batches.update(batches)
    provider.faults.running = False
    assert batched.command("record", "--collect").returncode == 0
    assert set(provider.paid.values()) == {1}


def test_deleted_results_are_submitted_again(batched: EvalProject, provider: BatchServer):
    assert batched.command("record", "--batch").returncode == 3
    provider.faults.gone = True
    said = batched.command("record", "--collect").stdout
    assert "cannot be fetched now: the provider has no such file" in said
    assert "5 calls failed; submit" in batched.command("record", "--collect").stdout
    provider.faults.gone = False
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5


def _forget(project: EvalProject) -> None:
    shutil.rmtree(project.root / ".regauge")


def _use_anthropic(project: EvalProject) -> None:
    project.loaded = ("anthropic", "anthropic.resources.messages")
    project.settings(provider=f'api = "anthropic"\nbatch_price = 0.5\nmax_attempts = 2\n{PRICES}')


def _assert_a_batch_that_expires_equals_a_live_run(
    batched: EvalProject, provider: BatchServer
) -> None:
    assert batched.command("record").returncode == 0
    live = batched.recordings()
    (batched.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    _forget(batched)
    provider.faults.expired = 4
    assert batched.command("record", "--batch").returncode == 3
    partial = batched.command("record", "--collect")
    assert "batch_expired" in partial.stdout
    provider.faults.expired = None
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert _without_times(batched.recordings(), cost=2) == _without_times(live)
    assert set(provider.paid.values()) == {1}


def test_anthropics_batches_bring_the_recordings_of_a_live_run(
    batched: EvalProject, provider: BatchServer
):
    _use_anthropic(batched)
    _assert_a_batch_that_expires_equals_a_live_run(batched, provider)


def test_batches_without_files_bring_the_recordings_of_a_live_run(
    batched: EvalProject, provider: BatchServer
):
    """As at OpenRouter: a batch holds its requests, and then its results."""
    provider.faults.inline = True
    _assert_a_batch_that_expires_equals_a_live_run(batched, provider)


def test_results_inside_a_batch_are_fetched_once(batched: EvalProject, provider: BatchServer):
    provider.faults.inline = True
    assert batched.command("record", "--batch").returncode == 3
    _forget(batched)  # so that the batch is looked into before it is collected
    assert batched.command("record", "--collect").returncode == 0
    assert [*provider.shown.values()] == [1]


def test_an_invalid_batch_without_files_is_named(batched: EvalProject, provider: BatchServer):
    provider.faults.inline = provider.faults.invalid = True
    assert batched.command("record", "--batch").returncode == 3
    assert "This line is not valid." in batched.command("record", "--collect").stdout
    provider.faults.invalid = False
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5


def test_files_are_written_and_collected_by_hand(batched: EvalProject, provider: BatchServer):
    provider.faults.no_batches = True
    done = batched.command("record", "--batch", "--no-submit")
    assert _said(done) == snapshot(
        (
            3,
            "5 completions of local:clerk written to .regauge/batches/NAME.jsonl; run the file, then: regauge record --collect RESULTS.jsonl\n",
            "",
        )
    )
    (path,) = _state(batched).glob("*.jsonl")
    assert str(path.relative_to(batched.root)) in done.stdout
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    assert {(one["method"], one["url"]) for one in requests} == {("POST", "/v1/chat/completions")}
    results = [
        {
            "id": "vllm-1",
            "custom_id": one["custom_id"],
            "response": {
                "status_code": 200,
                "request_id": "r",
                "body": provider.completion(one["body"]),
            },
            "error": None,
        }
        for one in requests
    ]
    text = "".join(f"{json.dumps(one)}\n" for one in results)
    batched.write("half.jsonl", text[: len(text) // 2])
    assert _said(batched.command("record", "--collect", "half.jsonl")) == snapshot(
        (
            3,
            """\
2 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
1 line left: half.jsonl:3: cut off
3 completions of local:clerk written to .regauge/batches/NAME.jsonl; run the file, then: regauge record --collect RESULTS.jsonl
""",
            "",
        )
    )
    other = json.loads(json.dumps(results[0]))
    other["response"]["body"]["choices"][0]["message"]["content"] = "another"
    again = [results[0], results[0], other]
    batched.write("again.jsonl", "".join(f"{json.dumps(one)}\n" for one in again))
    said = batched.command("record", "--collect", "again.jsonl").stdout
    assert "1 line left: again.jsonl:3: contradicts an earlier result of " in said
    batched.write("whole.jsonl", text)
    assert _said(batched.command("record", "--collect", "whole.jsonl")) == snapshot(
        (
            0,
            "3 of 3 completions recorded\n  wrote fixtures/recordings/triage.jsonl: commit it\n",
            "",
        )
    )
    assert len(batched.recordings()) == 5
    again = batched.command("record", "--collect", "whole.jsonl", "half.jsonl")
    assert again.returncode == 0
    assert not [*_state(batched).glob("*.jsonl")]


def test_results_of_an_earlier_prompt_are_named_and_left(
    batched: EvalProject, provider: BatchServer
):
    provider.faults.no_batches = True
    batched.command("record", "--batch", "--no-submit")
    (path,) = _state(batched).glob("*.jsonl")
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    results = [
        {
            "custom_id": request["custom_id"],
            "response": {"status_code": 200, "body": provider.completion(request["body"])},
        }
        for request in requests
    ]
    batched.write("results.jsonl", "".join(f"{json.dumps(result)}\n" for result in results))
    prompt = batched.root / "prompts/triage.prompt.yml"
    prompt.write_text(prompt.read_text().replace("severity", "urgency", 1))
    done = batched.command("record", "--collect", "results.jsonl")
    assert "5 results of calls not made now left: " in done.stdout
    assert batched.recordings() == []


def test_files_of_other_systems_are_read_and_a_compressed_one_is_named(
    batched: EvalProject, provider: BatchServer
):
    provider.faults.no_batches = True
    assert batched.command("record", "--batch", "--no-submit").returncode == 3
    (path,) = _state(batched).glob("*.jsonl")
    results = [
        {
            "custom_id": request["custom_id"],
            "response": {"status_code": 200, "body": provider.completion(request["body"])},
        }
        for request in map(json.loads, path.read_text().splitlines())
    ]
    content = b"\xef\xbb\xbf" + b"".join(json.dumps(one).encode() + b"\r\n" for one in results)
    packed = batched.root / "results.jsonl.gz"
    packed.write_bytes(gzip.compress(content))
    refused = batched.command("record", "--collect", packed.name)
    assert (refused.returncode, refused.stderr) == snapshot(
        (
            2,
            """\
error: 'results.jsonl.gz' is compressed
  fix: gunzip results.jsonl.gz
""",
        )
    )
    packed.rename(batched.root / "results.jsonl")
    assert batched.command("record", "--collect", "results.jsonl").returncode == 2
    for other, words in {
        json.dumps(
            results
        ).encode(): "is one JSON array, not a result per line\n  fix: jq -c '.[]'",
        content.decode().encode("utf-16"): "is UTF-16\n  fix: iconv -f UTF-16",
    }.items():
        (batched.root / "results.jsonl").write_bytes(other)
        assert words in batched.command("record", "--collect", "results.jsonl").stderr
    (batched.root / "results.jsonl").write_bytes(content)
    done = batched.command("record", "--collect", "results.jsonl")
    assert (done.returncode, "left" in done.stdout) == (0, False), done.stdout
    assert len(batched.recordings()) == 5


def test_an_endpoint_without_batches_leaves_its_files(batched: EvalProject, provider: BatchServer):
    provider.faults.no_batches = True
    done = batched.command("record", "--batch")
    assert done.returncode == 3
    assert "takes no batches (404)" in done.stdout
    assert "run the file, then: regauge record --collect RESULTS.jsonl" in done.stdout


def test_simulated_models_are_named_as_live_only(project: EvalProject):
    assert _said(project.command("record", "--batch")) == snapshot(
        (3, "not by batch: 5 calls of sim:clerk-1, simulated; record live: regauge record\n", "")
    )
    assert project.recordings() == []


def test_a_limit_of_tokens_goes_under_its_other_name(batched: EvalProject, provider: BatchServer):
    text = (batched.root / "prompts" / "triage.prompt.yml").read_text()
    batched.write("prompts/triage.prompt.yml", f"{text}\nmodelParameters:\n  maxTokens: 50\n")
    provider.faults.old_limit = True
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--batch").returncode == 3
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5


def test_a_budget_holds_for_what_is_submitted(batched: EvalProject, provider: BatchServer):
    done = batched.command("record", "--batch", "--budget-usd=0.0008")
    assert done.returncode == 3
    assert "the budget of $0.0008 is reached" in done.stderr
    assert "0 of 5 completions recorded" in done.stdout
    (batch,) = provider.batches.values()
    assert 0 < len(batch["requests"]) < 5


def test_calls_beyond_a_budget_are_one_line_whatever_each_would_cost(batched: EvalProject):
    batched.prompt(user="{{text}}")
    long_texts = ({"text": "much text " * 100 * number} for number in range(1, 6))
    batched.golden(batched.case(n) | {"inputs": text} for n, text in enumerate(long_texts))
    done = batched.command("record", "--batch", "--budget-usd=0")
    assert done.returncode == 3
    assert "5 completions missing: the budget of $0.00 is reached" in done.stderr
    assert done.stderr.count("the budget of") == 1


def test_secrets_and_wrong_use(
    batched: EvalProject, provider: BatchServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOCAL_KEY", "sk-a-secret-of-this-test-0123456789")
    batched.settings(provider=f'api_key_env = "LOCAL_KEY"\n{PRICES}')
    secret = os.environ["LOCAL_KEY"]

    def leak(text: str) -> str:
        return json.dumps({"severity": "info", "reason": f"{secret} {text}"})

    provider.answer = leak
    assert batched.command("record", "--batch").returncode == 3
    (batch,) = provider.batches.values()
    assert "secret" not in json.dumps(batch["metadata"])
    assert batched.command("record", "--collect").returncode == 0
    assert "secret-of-this" not in json.dumps(batched.recordings())
    for words, message in {
        ("--no-submit",): "--no-submit goes with --batch",
        ("--batch", "--collect"): "--batch and --collect exclude each other",
        ("--batch", "--refresh"): "--refresh does not go with --batch",
        ("--collect", "nothing.jsonl"): "there is no file 'nothing.jsonl'",
    }.items():
        refused = batched.command("record", *words)
        assert refused.returncode == 2
        assert message in refused.stderr


_PRICES = """\
batch_price = 0.5
prices.clerk = { input_per_million = 1.0, output_per_million = 2.0 }
prices.judge = { input_per_million = 10.0, output_per_million = 20.0 }
"""
_JUDGE = 'asking("fair", model="local:judge"), asking("firm", model="local:judge", calls=2)'


def _scores(text: str) -> str:
    """A score to judges, a severity to prompts."""
    return json.dumps({"score": 0.9}) if text.startswith("judge ") else severity_of(text)


def test_judge_calls_follow_in_batches_of_their_own(batched: EvalProject, provider: BatchServer):
    provider.answer = _scores
    batched.settings(
        provider='batch_price = 0.5\nprices = { "clerk" = { input_per_million = 1.0,'
        ' output_per_million = 2.0 }, "judge" = { input_per_million = 10.0,'
        " output_per_million = 20.0 } }\n"
    )
    batched.judged_by(f"min_chars(1), {_JUDGE}", more=MODEL_JUDGE + MODEL_JUDGES_GATE)
    assert batched.command("record").returncode == 0
    live = [batched.recordings(), batched.recordings("judges/triage")]
    shutil.rmtree(batched.root / "fixtures" / "recordings")
    _forget(batched)

    assert batched.command("record", "--batch").returncode == 3
    collected = batched.command("record", "--collect")
    assert _said(collected) == snapshot(
        (
            3,
            """\
5 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
5 judge calls missing; submit them with: regauge record --batch
""",
            "",
        )
    )
    assert _said(batched.command("record", "--batch")) == snapshot(
        (3, "5 judge calls under way; collect the results with: regauge record --collect\n", "")
    )
    assert _said(batched.command("record", "--batch")) == snapshot(
        (
            3,
            """\
10 judge calls recorded
  wrote fixtures/recordings/judges/triage.jsonl: commit it
5 judge calls under way; collect the results with: regauge record --collect
""",
            "",
        )
    )
    assert _said(batched.command("record", "--batch")) == snapshot(
        (
            0,
            """\
5 judge calls recorded
  wrote fixtures/recordings/judges/triage.jsonl: commit it
""",
            "",
        )
    )
    models = [batch["requests"][0]["body"]["model"] for batch in provider.batches.values()]
    assert models == ["clerk", "judge", "judge"]
    batch = [batched.recordings(), batched.recordings("judges/triage")]
    assert [_without_times(lines, cost=2) for lines in batch] == [
        _without_times(lines) for lines in live
    ]
    assert set(provider.paid.values()) == {1}
    batched.run("--record=none").assert_outcomes(passed=5)


def test_a_conversation_takes_a_batch_for_each_turn(batched: EvalProject, provider: BatchServer):
    turns = [{"user": "critical: the first disk"}, {"user": "info: the second disk"}]
    batched.golden([batched.case(0), {**batched.case(1), "turns": turns}])
    assert batched.command("record").returncode == 0
    live = batched.recordings()
    shutil.rmtree(batched.root / "fixtures" / "recordings")
    _forget(batched)
    for step in range(3):
        done = batched.command("record", "--batch")
        assert done.returncode == (3 if step < 2 else 0)
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [2, 1]
    assert _without_times(batched.recordings(), cost=2) == _without_times(live)


def test_a_baseline_is_filled_by_batch(batched: EvalProject, provider: BatchServer):
    provider.answer = _scores
    batched.settings(provider=_PRICES)
    batched.judged_by(
        'min_chars(1), asking("fair", model="local:judge")', more=MODEL_JUDGE + MODEL_JUDGES_GATE
    )
    dry = batched.command("baseline", "update", "--dry-run")
    assert "in a batch" in dry.stdout
    assert _said(batched.command("baseline", "update", "--batch")) == snapshot(
        (
            3,
            """\
triage@1.0.0 (local:clerk): 70 trials of 5 cases, 70 calls + about 70 of judges: about 29.1k tokens, $0.1628, $0.0814 in a batch
70 completions under way; collect the results with: regauge baseline update --collect
""",
            "",
        )
    )
    assert not (batched.root / "fixtures" / "baselines").exists()
    provider.faults.expired = 3
    again = batched.command("baseline", "update", "--batch")
    assert (again.returncode, again.stderr) == (3, "")
    provider.faults.expired = None
    assert batched.command("baseline", "update", "--batch").returncode == 3
    assert not (batched.root / "fixtures" / "baselines").exists()
    while (done := batched.command("baseline", "update", "--batch")).returncode == 3:
        assert len(provider.batches) < 6
    assert (done.returncode, done.stderr) == (0, "")
    path = batched.root / "fixtures" / "baselines" / "triage.json"
    assert "wrote fixtures/baselines/triage.json: commit it" in done.stdout
    assert provider.live.total() == 0
    filled = path.read_bytes()
    assert batched.command("baseline", "update", "--collect").returncode == 0
    assert path.read_bytes() == filled
    refused = batched.command("baseline", "update", "--batch", "--recheck=1")
    assert (refused.returncode, "--recheck does not go with" in refused.stderr) == (2, True)


@pytest.mark.parametrize("damage", ["{", '{"schema_version": 2}'])
def test_state_that_cannot_be_read_is_named(
    batched: EvalProject, provider: BatchServer, damage: str
):
    assert batched.command("record", "--batch").returncode == 3
    (path,) = _state(batched).glob("*.json")
    path.write_text(damage)
    refused = batched.command("record", "--batch")
    assert refused.returncode == 2
    assert f"{path.name} cannot be read" in refused.stderr
    path.unlink()
    assert batched.command("record", "--batch").returncode == 0
    assert len(provider.batches) == 1


def test_each_model_has_a_file_of_its_own(batched: EvalProject, provider: BatchServer):
    models = ("--model=local:clerk", "--model=local:other")
    assert batched.command("record", "--batch", *models).returncode == 3
    asked = [
        {one["body"]["model"] for one in batch["requests"]} for batch in provider.batches.values()
    ]
    assert asked == [{"clerk"}, {"other"}]
    assert batched.command("record", "--collect", *models).returncode == 0
    assert len(batched.recordings()) == 10


@pytest.mark.parametrize(("limits", "sizes"), [((2, 10**9), [2, 2, 1]), ((9, 1), [1] * 5)])
def test_files_are_split_at_the_limits(
    batched: EvalProject, provider: BatchServer, limits: tuple[int, int], sizes: list[int]
):
    code = (
        "from regauge.cli import main; from regauge.providers.batches import LIMITS;"
        f" LIMITS['openai'] = {limits}; main(['record', '--batch'])"
    )
    done = processes.run("-c", code, cwd=batched.root, env={**os.environ})
    assert (done.returncode, done.stderr) == (3, "")
    assert [len(batch["requests"]) for batch in provider.batches.values()] == sizes
    assert batched.command("record", "--collect").returncode == 0
    assert len(batched.recordings()) == 5
    assert set(provider.paid.values()) == {1}


def test_two_commands_at_once_submit_one_batch(batched: EvalProject, provider: BatchServer):
    provider.faults.running = True
    started = [
        processes.start("regauge", "record", "--batch", cwd=batched.root, env={**os.environ})
        for _ in range(2)
    ]
    for one in started:
        assert f"5 completions under way; {_COLLECT}" in one.communicate(timeout=60)[0]
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [5]


def test_targets_are_named_as_live_only(batched: EvalProject, provider: BatchServer):
    batched.write("app/__init__.py", "")
    batched.write("app/pipeline.py", 'def answer(text):\n    return f"critical: {text}"\n')
    batched.settings(
        provider=f"batch_price = 0.5\n{PRICES}"
        '[tool.regauge.targets.app]\nkind = "python"\ncallable = "app.pipeline:answer"\n'
    )
    batched.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        '@golden("triage", target="app", judges=[min_chars(1)])\n'
        "def test_app(result):\n    result.check()\n",
        name="test_app",
    )
    done = batched.command("record", "--batch")
    assert done.returncode == 3
    assert done.stdout == snapshot("""\
not by batch: 5 calls of target python:app; record live: regauge record
5 completions under way; collect the results with: regauge record --collect
""")
    assert [len(batch["requests"]) for batch in provider.batches.values()] == [5]
    assert batched.command("record", "--collect").returncode == 3
    assert batched.command("record").returncode == 0
    assert set(provider.paid.values()) == {1}
    assert not provider.live


def test_vectors_are_requested_live(batched: EvalProject, provider: BatchServer):
    with Embeddings() as vectors:
        batched.settings(
            provider=f"batch_price = 0.5\n{PRICES}"
            f'[tool.regauge.providers.vectors]\nbase_url = "{vectors.base_url}"\n'
        )
        batched.golden(
            batched.case(number) | {"expected": {"meaning": "critical: it says so"}}
            for number in range(5)
        )
        batched.judged_by(MEANING)
        assert batched.command("record", "--batch").returncode == 3
        assert not vectors.texts
        done = batched.command("record", "--collect")
        assert done.returncode == 0
        assert "5 of 5 completions recorded" in done.stdout
        assert re.search(r"\d+ vectors? recorded", done.stdout)


def test_what_a_killed_command_left_half_written_goes(batched: EvalProject, provider: BatchServer):
    assert batched.command("record", "--batch", "--no-submit").returncode == 3
    (state,) = _state(batched).glob("*.json")
    state.unlink()
    (_state(batched) / "20260101T000000Z-abcdef-0.jsonl.part").write_text("{")
    assert batched.command("record", "--batch").returncode == 3
    (path,) = _state(batched).glob("*.jsonl")
    assert path.stem != state.stem
    path.unlink()  # the batch has started: its requests are at the provider
    assert batched.command("record", "--collect").returncode == 0
    assert set(provider.paid.values()) == {1}


@pytest.mark.parametrize("option", ["--batch", "--collect"])
def test_a_batch_leaves_out_what_the_local_store_has(
    batched: EvalProject, provider: BatchServer, option: str
):
    batched.command("record")
    recorded = batched.recordings()
    (batched.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    assert _said(batched.command("record", option)) == (
        0,
        "wrote fixtures/recordings/triage.jsonl (5 completions from the local store): commit it\n",
        "",
    )
    assert batched.recordings() == recorded
    assert (provider.batches, provider.live.total()) == ({}, 5)
