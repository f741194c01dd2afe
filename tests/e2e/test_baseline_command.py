"""`regauge baseline`: what main is known for, drawn, kept and shown."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from inline_snapshot import snapshot

from tests.conftest import PRICES
from tests.github_server import Fault, GitHubServer

if TYPE_CHECKING:
    import pytest

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def keep_twelve(project: EvalProject) -> None:
    """Have a baseline be complete with 12 trials of each case."""
    project.settings(provider=f"{PRICES}[tool.regauge.gate]\nbaseline_trials = 12\n")


def baseline(project: EvalProject, name: str = "triage") -> dict[str, Any]:
    path = project.root / "fixtures" / "baselines" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_baseline_is_filled_session_by_session(live: EvalProject, endpoint: Endpoint):
    keep_twelve(live)
    live.golden([*(live.case(number) for number in range(3)), live.case(3, ok=False)])
    estimated = live.command("baseline", "update", "--dry-run")
    assert (estimated.returncode, estimated.stdout) == snapshot(
        (
            0,
            "triage@1.0.0 (local:clerk): 16 trials of 4 cases, 16 calls: about 5.2k tokens, $0.0100\n",
        )
    )
    assert endpoint.total == 0
    assert not (live.root / "fixtures" / "baselines").exists()

    first = live.command("baseline", "update")
    assert (first.returncode, first.stdout, first.stderr) == snapshot(
        (
            0,
            """\
triage@1.0.0 (local:clerk): 16 trials of 4 cases, 16 calls: about 5.2k tokens, $0.0100
triage: 4 cases with 4 trials each from 1 session, not complete yet: 2 more sessions, an hour apart
  wrote fixtures/baselines/triage.json: commit it
""",
            "",
        )
    )
    assert endpoint.total == 16
    assert live.recordings() == []
    assert live.records() == []

    soon = live.command("baseline", "update", "triage")
    assert re.sub(r"in \d\.\d h", "in N h", soon.stdout) == snapshot(
        "triage@1.0.0 (local:clerk): no trials now, sessions are an hour apart; the next may begin in N h, or now with --new-session\n"
    )
    assert endpoint.total == 16

    forced = live.command("baseline", "update", "--new-session", "--trials", "8", "--json")
    assert endpoint.total == 48
    (done,) = json.loads(forced.stdout)["done"]
    assert (done["trials"], done["sessions"], done["complete"]) == (32, 2, False)

    (stored_baseline,) = baseline(live)["baselines"]
    cases = {
        name: (case["passed"], case["trials"]) for name, case in stored_baseline["cases"].items()
    }
    assert cases == snapshot(
        {"disk-000": (12, 12), "disk-001": (12, 12), "disk-002": (12, 12), "disk-003": (0, 12)}
    )

    shown = live.command("baseline", "show", "triage")
    text = re.sub(r"session \S+:", "session TIME:", shown.stdout)
    assert re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text) == snapshot("""\
triage@1.0.0  DIGEST  local:clerk
  4 cases of triage, 12 trials each from 2 sessions; 75.0 % passed
  session TIME: trials 100-103, served by clerk
  session TIME: trials 104-111, served by clerk
  judge agrees  DIGEST
  judge min_chars(1)  DIGEST
  disk-003  0 of 12  agrees failed 12
  3 cases passed every time
""")
    (document,) = json.loads(live.command("baseline", "show", "--json").stdout)
    assert [(case["case"], case["passed"], case["flaky"]) for case in document["cases"]][-1] == (
        "disk-003",
        0,
        False,
    )


def test_what_could_not_be_measured_is_named_and_does_not_count(
    live: EvalProject, endpoint: Endpoint
):
    stopped = live.command("baseline", "update", "--budget-usd", "0.001", "--concurrency", "1")
    assert stopped.returncode == 3
    assert "trials do not count: the budget was reached" in stopped.stderr
    assert "  cases: disk-" in stopped.stderr
    asked = endpoint.total
    assert 0 < asked < 20

    none = live.command("baseline", "update", "--record=none", "--new-session")
    assert none.returncode == 3
    assert "no completion is recorded, and --record=none makes no calls" in none.stderr


def test_a_session_that_was_cut_off_asks_only_for_the_rest(live: EvalProject, endpoint: Endpoint):
    keep_twelve(live)
    live.command("baseline", "update")
    assert endpoint.total == 20
    (live.root / "fixtures" / "baselines" / "triage.json").unlink()
    live.command("baseline", "update")
    assert endpoint.total == 20
    assert len(baseline(live)["baselines"][0]["cases"]) == 5


def test_a_version_that_broke_a_case_is_reported_after_the_merge(
    live: EvalProject, endpoint: Endpoint
):
    keep_twelve(live)
    live.judged_by("not_(contains('never'))")
    live.command("baseline", "update", "--trials", "12")
    live.prompt(system="Say it otherwise.", version="1.1.0")
    answer = endpoint.answer
    endpoint.answer = lambda text: "never" if "disk 3" in text else answer(text)
    broken = live.command("baseline", "update", "--trials", "8", "--new-session")
    assert broken.returncode == 1
    assert broken.stdout == snapshot("""\
triage@1.1.0 (local:clerk): 40 trials of 5 cases, 40 calls: about 12.4k tokens, $0.0244
triage: 5 cases with 8 trials each from 1 session, not complete yet: 2 more sessions, an hour apart
  compared with 1.0.0:
  disk-003: not contains(never) worse: passed 0 of 8; 12 of 12 with the version before
  wrote fixtures/baselines/triage.json: commit it
""")
    assert [len(baseline(live)[part]) for part in ("baselines", "previous")] == [1, 1]


def test_losses_that_the_changelog_accepts_are_named(live: EvalProject, endpoint: Endpoint):
    keep_twelve(live)
    live.judged_by("not_(contains('never'))")
    live.command("baseline", "update", "--trials", "12")
    prompt = live.prompt(system="Say it otherwise.", version="1.1.0")
    changelog = (
        "changelog:\n  - version: 1.1.0\n    text: Shorter\n"
        "    accepted:\n      - case: disk-003\n        reason: Wanted\n"
    )
    prompt.write_text(prompt.read_text() + changelog)
    answer = endpoint.answer
    endpoint.answer = lambda text: "never" if "disk 3" in text else answer(text)
    update = live.command("baseline", "update", "--trials", "8", "--new-session")
    assert update.returncode == 0, update.stdout + update.stderr
    accepted = (
        "  no case's pass rate certainly changed\n  losses accepted in the changelog: disk-003\n"
    )
    assert accepted in update.stdout


def test_critical_cases_that_need_more_sessions_are_said_to(live: EvalProject):
    keep_twelve(live)
    live.golden([live.case(0, tier="critical"), *(live.case(number) for number in range(1, 4))])
    update = live.command("baseline", "update")
    assert "yet: 4 more sessions for critical cases, 2 for others, an hour apart" in update.stdout


def test_a_model_that_drifts_under_a_complete_history_is_told_and_a_new_history_begins(
    live: EvalProject, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    keep_twelve(live)
    live.judged_by("not_(contains('never'))")
    live.command("baseline", "update", "--trials", "12")
    path = live.root / "fixtures" / "baselines" / "triage.json"
    one = re.search(
        r'\{"id": "\S+", "trials": "100-111", "models": \["clerk"\]\}', path.read_text()
    )
    assert one is not None
    three = [one[0].replace("100-111", trials) for trials in ("100-103", "104-107", "108-111")]
    path.write_text(path.read_text().replace(one[0], ",\n        ".join(three)))

    fine = live.command("baseline", "update", "--recheck", "1")
    assert (fine.returncode, fine.stdout) == snapshot(
        (
            0,
            """\
triage@1.0.0 (local:clerk): complete, compared with 5 trials of 5 cases, 5 calls: about 1.6k tokens, $0.0031
triage: fresh trials passed 5 of 5; 60 of 60 when the baseline was made
  fresh trials agree with the baseline
""",
        )
    )
    assert endpoint.total == 65

    answer = endpoint.answer
    endpoint.answer = lambda text: "never" if "disk 3" in text else answer(text)
    with GitHubServer() as server:
        for name, value in {
            "GITHUB_TOKEN": "workflow",
            "GITHUB_REPOSITORY": server.repo,
            "GITHUB_API_URL": server.api_url,
        }.items():
            monkeypatch.setenv(name, value)
        wait = Fault(429, {"message": "later"}, {"Retry-After": "0"})
        server.faults["POST /issues"] = [wait]
        drifted = live.command("baseline", "update", "--recheck", "2", "--issue")
        (issue,) = server.issues
    assert "GitHub returned 429; retrying in" in drifted.stderr
    assert (drifted.returncode, drifted.stdout) == snapshot(
        (
            1,
            """\
triage@1.0.0 (local:clerk): complete, compared with 10 trials of 5 cases, 5 calls: about 1.6k tokens, $0.0031
triage: fresh trials passed 9 of 10; 60 of 60 when the baseline was made
  disk-003: not contains(never) worse: passed 1 of 7; 12 of 12 when the baseline was made
  a new baseline begins
triage: 5 cases with 4 trials each from 1 session, not complete yet: 2 more sessions, an hour apart
  wrote fixtures/baselines/triage.json: commit it
""",
        )
    )
    assert endpoint.total == 65 + 5 + 5 + 20  # first trials, suspects, the new stored_baseline
    assert issue["body"].splitlines()[1:] == snapshot(
        [
            "Fresh trials of the default branch fail where earlier ones passed.",
            "",
            "**triage 1.0.0 (local:clerk)**",
            "",
            "The prompt is the same, so the model or a judge changed: fresh trials passed 9 of 10, 60 of 60 when the baseline was made. A new baseline begins.",
            "",
            "| case | check | passed before | passes now |",
            "|---|---|--:|--:|",
            "| `disk-003` | not contains(never) | 12 of 12 | 1 of 7 |",
            "",
            "Revert the change, propose another (`regauge refine`), or list cases that may pass less often under `accepted` in the prompt's changelog. If the model changed, compare another one: `regauge gate --model`.",
        ]
    )
    (stored_baseline,) = baseline(live)["baselines"]
    drawn = {
        name: (case["numbers"], case["passed"]) for name, case in stored_baseline["cases"].items()
    }
    assert drawn["disk-003"] == ("112-115", 0)
    assert [session["trials"] for session in stored_baseline["sessions"]] == ["112-115"]


def test_a_baseline_that_cannot_be_read_stops_before_anything_is_drawn(
    live: EvalProject, endpoint: Endpoint
):
    live.write("fixtures/baselines/triage.json", "{\n<<<<<<< HEAD\n}\n")
    stopped = live.command("baseline", "update")
    assert (stopped.returncode, stopped.stderr) == snapshot(
        (
            2,
            """\
error: fixtures/baselines/triage.json:2: a merge conflict was left here
  fix: take the last copy that was whole from git, or delete the file; then run: regauge baseline update triage
""",
        )
    )
    assert endpoint.total == 0
    for command in ("lint", "doctor"):
        found = live.command(command)
        assert found.returncode == 1
        assert "fixtures/baselines/triage.json:2: a merge conflict was left here" in found.stdout
        assert "or delete the file; then run: regauge baseline update triage" in found.stdout
    live.prompt(name="fresh")
    fresh = live.command("baseline", "show", "fresh")
    assert "there is no baseline of 'fresh'" in fresh.stderr
    assert "fix: regauge baseline update fresh" in fresh.stderr
    missing = live.command("baseline", "show", "nothing")
    assert (missing.returncode, missing.stderr) == snapshot(
        (
            2,
            """\
error: prompts: there is no prompt 'nothing'
  fix: prompts here: fresh, triage
""",
        )
    )


def test_cases_that_settings_deselect_are_not_announced(live: EvalProject, endpoint: Endpoint):
    text = (live.root / "pyproject.toml").read_text(encoding="utf-8")
    live.write(
        "pyproject.toml", text.replace('"-p", "regauge"', '"-p", "regauge", "-k", "not 001"')
    )
    live.command("baseline", "update")
    narrower = text.replace('"-p", "regauge"', '"-p", "regauge", "-k", "002"')
    live.write("pyproject.toml", narrower)
    endpoint.forget()
    done = live.command("baseline", "update", "--new-session")
    assert done.returncode == 0
    planned, *_, state, _ = done.stdout.splitlines()
    assert "4 of 5 cases of triage are there and are not run, such as disk-000" in planned
    assert "(local:clerk): 14 trials of 1 case, 14 calls" in done.stdout
    assert state == (
        "triage: 4 cases with 14 to 28 trials each from 2 sessions, not complete yet: 1 more session"
        " in an hour; 4 cases left out"
    )
    assert endpoint.total == 14
    (stored_baseline,) = baseline(live)["baselines"]
    assert len(stored_baseline["cases"]) == 4
