"""Record modes: what is replayed, what is asked, and what a reader is told to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inline_snapshot import snapshot

if TYPE_CHECKING:
    import pytest

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

NO_SOCKETS = """\
import socket

def refuse(*args, **kwargs):
    raise AssertionError("a replay opened a socket")

socket.socket.connect = socket.socket.connect_ex = refuse
"""


def _without(project: EvalProject, ids: set[str]) -> None:
    """Take recordings of cases away, in the committed file and in the local store."""
    path = project.root / "fixtures" / "recordings" / "triage.jsonl"
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if not any(f'"{one}"' in line for one in ids)
    ]
    path.write_text("".join(kept), encoding="utf-8")
    for store in project.root.glob(".regauge/store.sqlite3*"):
        store.unlink()


def test_a_replay_opens_no_socket_and_writes_nothing(live: EvalProject, endpoint: Endpoint):
    live.run().assert_outcomes(passed=5)
    recorded = (live.root / "fixtures" / "recordings" / "triage.jsonl").read_bytes()
    for store in live.root.glob(".regauge/store.sqlite3*"):
        store.unlink()
    live.write("evals/conftest.py", NO_SOCKETS)
    result = live.run("--record=none")
    result.assert_outcomes(passed=5)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*5 replayed"])
    assert endpoint.total == 5
    assert (live.root / "fixtures" / "recordings" / "triage.jsonl").read_bytes() == recorded
    assert not (live.root / ".regauge" / "store.sqlite3").exists()
    assert {row["source"] for row in live.rows()} == {"recording"}


def test_a_replay_says_what_needs_recording_and_what_that_costs(
    live: EvalProject, endpoint: Endpoint
):
    live.run()
    _without(live, {"disk-001", "disk-003"})
    endpoint.forget()
    live.write("evals/conftest.py", NO_SOCKETS)
    result = live.run("--record=none")
    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 3, "unmeasured": 2}
    assert endpoint.total == 0
    assert live.complaint(result) == snapshot("""\
unmeasured: 2 cases of triage (MissingRecordingError)
  disk-001, disk-003
needs recording: triage, 2 cases
  2 completions of local:clerk: about 220 tokens, $0.0002
  record them: regauge record triage\
""")


def test_an_edited_prompt_needs_recording_in_ci_and_is_recorded_elsewhere(
    live: EvalProject, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    live.run()
    endpoint.forget()
    live.prompt(system="State how severe the alert is. Answer with JSON: severity and reason.")
    monkeypatch.setenv("CI", "1")
    result = live.run()
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    assert endpoint.total == 0
    assert live.complaint(result) == snapshot("""\
unmeasured: 5 cases of triage (MissingRecordingError)
  disk-000, disk-001, disk-002, disk-003, disk-004
needs recording: triage, 5 cases, 5 of them recorded for an older request
  5 completions of local:clerk: about 530 tokens, $0.0006
  record them: regauge record triage\
""")

    monkeypatch.delenv("CI")
    live.run().assert_outcomes(passed=5)
    assert endpoint.total == 5
    # Answers to the old prompt stay until they are pruned: another branch may need them.
    assert len(live.recordings()) == 10
    monkeypatch.setenv("CI", "true")
    live.run().assert_outcomes(passed=5)
    assert endpoint.total == 5


def test_only_what_is_missing_is_asked(live: EvalProject, endpoint: Endpoint):
    live.run()
    before = live.recordings()
    _without(live, {"disk-002"})
    endpoint.forget()
    result = live.run("--record=missing")
    result.assert_outcomes(passed=5)
    assert list(endpoint.calls) == ["critical: disk 2 is full"]
    result.stdout.fnmatch_lines(
        ["*4 replayed, 1 live", "recorded: 1 completion* in *triage.jsonl*"]
    )
    # Time, latency and the like belong to the new answer alone.
    after = live.recordings()
    assert [one for one in after if one["case"] != "disk-002"] == [
        one for one in before if one["case"] != "disk-002"
    ]


def test_recording_equal_answers_anew_changes_no_byte(live: EvalProject, endpoint: Endpoint):
    live.run()
    path = live.root / "fixtures" / "recordings" / "triage.jsonl"
    before = path.read_bytes()
    endpoint.forget()
    result = live.run("--record=all")
    result.assert_outcomes(passed=5)
    assert endpoint.total == 5
    assert path.read_bytes() == before
    assert "recorded:" not in result.stdout.str()
    assert {row["source"] for row in live.rows()} == {"live"}


def test_recording_anew_replaces_answers_that_differ(live: EvalProject, endpoint: Endpoint):
    live.run()
    endpoint.answer = lambda text: f"about {text}"
    result = live.run("--record=all", "-k", "disk-001")
    result.assert_outcomes(passed=1)
    texts = [line["completion"]["text"] for line in live.recordings()]
    assert [text.startswith("about") for text in texts] == [False, True, False, False, False]


def test_answers_of_the_local_store_are_published(live: EvalProject, endpoint: Endpoint):
    live.run()
    path = live.root / "fixtures" / "recordings" / "triage.jsonl"
    before = path.read_bytes()
    path.unlink()
    endpoint.forget()
    live.run().assert_outcomes(passed=5)
    assert endpoint.total == 0
    assert path.read_bytes() == before
    assert {row["source"] for row in live.rows()} == {"store"}


def test_another_model_is_recorded_beside_the_first(live: EvalProject, endpoint: Endpoint):
    live.run()
    endpoint.forget()
    live.run("--model=local:apprentice", "-k", "disk-000").assert_outcomes(passed=1)
    assert endpoint.models == {"apprentice": 1}
    assert sorted({line["model"] for line in live.recordings()}) == [
        "local:apprentice",
        "local:clerk",
    ]
    live.run("--record=none").assert_outcomes(passed=5)
    live.run("--record=none", "--model=local:apprentice", "-k", "disk-000").assert_outcomes(
        passed=1
    )
    missing = live.run("--record=none", "--model=local:apprentice", "--trials=2")
    assert missing.parseoutcomes() == {"unmeasured": 5}
    # The command has to ask the same model, as often.
    missing.stdout.fnmatch_lines(["*regauge record triage --model local:apprentice --trials 2*"])


def test_further_trials_are_further_draws(live: EvalProject, endpoint: Endpoint):
    live.golden([live.case(0)])
    live.run()
    live.run("--trials=3").assert_outcomes(passed=1)
    assert endpoint.total == 3
    assert [line["trial"] for line in live.recordings()] == [0, 1, 2]
    live.run("--trials=3", "--record=none").assert_outcomes(passed=1)
    (suite,) = live.records()[-1]["evals"]
    assert (suite["cases"], suite["trials"], suite["replays"]) == (1, 3, 3)


def test_secrets_reach_no_file_and_no_judge(
    live: EvalProject, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOCAL_KEY", "not-for-your-eyes-7")
    live.settings('redact = ["badge: .*"]', provider='api_key_env = "LOCAL_KEY"\n')
    live.golden([live.case(0), live.case(1)])
    endpoint.answer = lambda text: f'say "not-for-your-eyes-7"\nbadge: 4711\n{text}'
    live.judged_by(
        "contains('4711'), says",
        more=(
            "def says(output, case):\n"
            "    return Verdict(outcome='pass', score=1.0, reason=output)\n"
        ),
    )
    seen = []
    for arguments in (("--junitxml=junit.xml", "--report", "kept"), ("--record=none",)):
        result = live.run(*arguments)
        # A judge comes to the same verdict on the answer and on its replay.
        result.assert_outcomes(failed=2)
        assert "not-for-your-eyes" not in result.stdout.str()
        rows = live.rows()
        assert rows[0]["output"].splitlines() == [
            'say "[redacted by regauge]"',
            "[redacted by regauge]",
            "critical: disk 0 is full",
        ]
        seen.append([row["verdicts"] for row in rows])
    assert seen[0] == seen[1]
    for path in live.root.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"not-for-your-eyes" not in content, path
            assert b"badge: 4711" not in content, path


def test_the_run_record_can_be_kept_elsewhere(project: EvalProject):
    project.run("--report", "kept/here").assert_outcomes(passed=5)
    names = sorted(path.name for path in (project.root / "kept" / "here").iterdir())
    assert names == ["run.json", "trials.jsonl"]
    shown = project.command("report", "kept/here")
    assert shown.returncode == 0
    assert "5 cases, none failed" in shown.stdout
