"""The gate from end to end: a real repository, branches, processes, the simulated model."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from regauge.sim import Rules
from regauge.sim.server import SimServerOptions
from tests import processes
from tests.gate_repo import (
    BASELINE,
    CERTIFICATE_LINE,
    EVAL,
    FIXABLE,
    FLAKY,
    GOLDEN,
    NAME,
    PROMPT,
    REWORDED,
    GateRepo,
    label_definitions,
)
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BARE_LABELS = "      - critical\n      - warning\n      - info\n"
RESTORED = (
    "        - the error budget burns for 2 or 15 minutes\n",
    CERTIFICATE_LINE + "        - the error budget burns for 2 or 15 minutes\n",
)


@pytest.fixture(scope="module")
def known_repo(tmp_path_factory: pytest.TempPathFactory) -> GateRepo:
    """Main with a baseline of twelve trials of each case."""
    repo = GateRepo(tmp_path_factory.mktemp("gated"))
    repo.regauge("baseline", "update", "--trials", "12")
    repo.commit("Say how main fares")
    return repo


@pytest.fixture
def repo(known_repo: GateRepo, request: pytest.FixtureRequest) -> GateRepo:
    """A branch of its own for each test."""
    known_repo.branch(request.node.name.partition("[")[0])
    return known_repo


def test_a_prompt_without_its_definitions_is_rejected_and_the_broken_cases_are_named(
    repo: GateRepo,
):
    repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
    said = repo.gate("--output", "comment.md", code=1)
    verdicts = repo.verdicts()
    broken = [case for case, verdict in verdicts.items() if verdict == "broken"]
    assert len(broken) >= 3
    assert not {*FIXABLE} & {*broken}
    assert f"gate: rejected against main ({repo.git('rev-parse', 'main')[:9]})" in said
    assert "alert-severity 1.0.0 → 1.1.0 (simulated)" in said
    assert f"{NAME}/{broken[0]}: failed field_equals(severity) in" in said
    for case in broken:
        assert case in said
    assert re.search(r"^  \d+ cases: field_equals\(severity\): expected", said, re.MULTILINE)
    assert "new trials; base passed 12 of 12 before. Side by side today: the candidate 0 of" in said
    assert re.search(r"-\d+\.\d points \(95 % interval -\d+\.\d to -\d+\.\d\); \d+ broken", said)
    assert re.search(rf"^next: revert or edit .*: regauge refine {NAME}$", said, re.MULTILINE)
    assert re.search(r"^sees: 1 broken case .* false alarm < 1 %$", said, re.MULTILINE)
    comment = repo.read("comment.md")
    assert comment.startswith("<!-- regauge gate -->\n### ❌ regauge gate: rejected")
    assert "--- passed (base, trial 1000)" in comment
    assert "+++ failed (candidate, trial 3000)" in comment

    first = repo.decision()
    again = json.loads(repo.regauge("gate", "--from", "latest", "--json", code=1))
    for key in ("decision", "reasons", "cases", "gate_cases", "sensitivity"):
        assert again[key] == first[key]
    assert again["calls"]["live"] == 0
    said = repo.regauge("gate", "--from", "latest", "--on-broken", "warn", code=4)
    assert "; continue: regauge gate main --output comment.md --on-broken warn\n" in said
    assert "not yet tested side by side: that needs" in said

    # Where main always failed, nothing broke; what main did under other judges says nothing.
    baseline = json.loads(repo.read(BASELINE))
    (stored_baseline,) = baseline["baselines"]
    for case in stored_baseline["cases"].values():
        case |= {"passed": 0, "failed": {"field_equals(severity)": case["trials"]}}
    repo.write("failing.json", json.dumps(baseline))
    said = repo.regauge("gate", "--from", "latest", "--baseline", "failing.json", code=None)
    assert "broken:" not in said
    assert "known failing:" in said
    stored_baseline["judges"]["field_equals(severity)"] = stored_baseline["judges"].pop(
        "json_parses(kind=object)"
    )
    repo.write("failing.json", json.dumps(baseline))
    said = repo.regauge("gate", "--from", "latest", "--baseline", "failing.json", code=2)
    assert "does not match the base of this run" in said
    said = repo.regauge("gate", "--from", "latest", "--baseline", "none.json", code=2)
    assert "'none.json' does not exist" in said
    repo.git("clean", "-fdq")

    reasons = "".join(f"      - case: {case}\n        reason: Fine.\n" for case in broken)
    text = "    text: What changed\n"
    repo.edit(PROMPT, text, f"{text}    accepted:\n{reasons}")
    said = repo.regauge("gate", "main", code=None)
    assert f"({len(broken)} of {len(verdicts)} cases accepted by the author)" in said
    assert f" main ({repo.git('rev-parse', 'main')[:9]}): {len(broken)} broken of " in said
    assert f", without {len(broken)} accepted cases; " in said
    assert "accepted by the changelog: Fine." in said
    assert not any(case["blocks"] for case in repo.decision()["cases"])
    assert "cases broke" not in said


def test_the_markdown_of_a_decision_is_alone_on_standard_output(repo: GateRepo):
    repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
    repo.gate(code=1)
    words = ("gate", "--from", "latest", "--output", "-")
    piped = processes.run("regauge", *words, cwd=repo.root, env={**os.environ})
    assert piped.stdout.startswith("<!-- regauge gate -->\n### ❌ regauge gate: rejected")
    assert "gate: rejected against main" in piped.stderr
    assert not (repo.root / "-").exists()
    assert "both write to standard output" in repo.regauge(*words, "--json", code=2)


def test_a_broken_log_of_decisions_is_one_sentence(repo: GateRepo):
    repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
    repo.gate(code=1)
    log = repo.root / ".regauge/gate/decisions.jsonl"
    log.write_bytes(b"[" * 100_000 + b"\n\xff\n" + log.read_bytes())
    repo.gate(code=1)
    log.unlink()
    log.mkdir()
    printed = repo.gate(code=2)
    assert "decisions.jsonl: there is a directory at the path of this file" in printed
    assert "INTERNALERROR" not in printed
    log.rmdir()


def test_a_harmless_rewording_is_accepted_and_flaky_cases_do_not_block(repo: GateRepo):
    """Told by pytest, item by item; the branch holds a merge, and nothing is checked out."""
    repo.release("minor", REWORDED)
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "Main has moved on.\n")
    repo.commit("Move on")
    repo.git("checkout", "-q", "-")
    repo.git("merge", "-q", "--no-edit", "main")
    repo.git("checkout", "-q", "--detach")
    repo.write("notes.txt", "not committed\n")
    said = repo.pytest("--gate", "main", "-v", code=0)
    verdicts = repo.verdicts()
    assert set(verdicts.values()) <= {"passed", "flaky", "mixed", "known-failing"}
    for case in FLAKY[:1]:
        assert verdicts[case] == "flaky"
        assert f"test_alert_severity[{case}] FLAKY" in said
    for case in FIXABLE:
        assert f"test_alert_severity[{case}] XFAIL" in said
        assert f"{NAME}/{case}: base fails 12 of 12 trials; unchanged." in said
    assert ". Not blocking." in said
    assert f"gate: accepted against main ({repo.git('rev-parse', 'main')[:9]})" in said
    decision = repo.decision()
    calls = decision["calls"]
    assert calls["first"] == 4 * len(verdicts)
    assert calls["first"] + calls["follow_up"] + calls["base"] < 6 * len(verdicts)
    assert "files differ from what is committed" in "\n".join(decision["notes"])
    estimate = json.loads(repo.regauge("gate", "main", "--dry-run", "--json"))
    trials = [estimate[part]["trials"] for part in ("first", "likely", "worst")]
    assert estimate["recorded"] == 4 * len(verdicts) + 8 == trials[0] < trials[1] < trials[2]
    assert estimate["first"]["calls"] == 0
    assert calls["first"] + calls["follow_up"] + calls["base"] <= trials[2]


def test_a_prompt_that_says_what_was_missing_is_accepted_and_the_fixed_cases_are_named(
    repo: GateRepo,
):
    repo.release("minor", RESTORED)
    said = repo.gate(code=0)
    assert "fixed" in said
    for case in FIXABLE:
        assert repo.verdicts()[case] == "fixed"
    first, other = FIXABLE
    assert re.search(rf"{NAME}/{first}: passes \d+ of \d+; base passed 0 of \d+\.", said), said
    assert f"    also {other}\n" in said


def test_broken_cases_mark_the_changed_line_in_github_actions(repo: GateRepo):
    repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
    with repo.environment(GITHUB_ACTIONS="true"):
        said = repo.gate(code=1)
    assert f"::error file={PROMPT},line=" in said


def test_an_edit_without_a_new_version_is_rejected_with_the_command_that_gives_one(
    repo: GateRepo,
):
    repo.edit(PROMPT, *REWORDED)
    repo.commit("Reword")
    with repo.environment(GITHUB_ACTIONS="true"):
        said = repo.gate("--accept-judge-change", "none changed", code=1)
    assert "note: no judge changed, so there was nothing to accept" in said
    assert "its content changed, but its version is still 1.0.0" in said
    assert f"fix: regauge bump {NAME} minor -m 'WHAT CHANGED'" in said
    assert f"::error file={PROMPT},line=6,title=regauge%3A {NAME}::" in said
    assert "broken" not in repo.verdicts().values()


def test_a_change_that_is_judged_otherwise_is_not_compared(repo: GateRepo):
    repo.edit(EVAL, 'field_equals("severity")', 'field_equals("severity", ignore_case=True)')
    repo.commit("Judge otherwise")
    said = repo.gate(code=2)
    assert "judge 'field_equals(severity)' is gone" in said
    assert "fix: if the judges are meant to change: regauge gate main --accept-judge-change" in said
    assert "judge 'field_equals(severity)' is gone" in repo.pytest("--gate", "main", code=2)

    why = "The field may be written as models like."
    said = repo.gate("--accept-judge-change", why, code=0)
    assert f"note: the change of judges was accepted: {why}" in said
    assert "is judged differently than on the base (judge 'field_equals(severity" in said
    assert set(repo.verdicts().values()) == {"unchanged"}
    assert repo.decision()["judge_change_accepted"] == why
    repo.pytest("--gate", "main", "--accept-judge-change", why, code=0)
    assert repo.decision()["judge_change_accepted"] == why
    assert "has no reason" in repo.gate("--accept-judge-change", " ", code=2)

    repo.settings(None, '[tool.regauge.gate]\non_judge_change = "note"\n')
    assert 'on_judge_change in [tool.regauge.gate]: "refuse" -> "note"' in repo.gate(code=2)

    repo.settings(None)
    repo.release("minor", REWORDED)
    said = repo.gate("--accept-judge-change", why, code=2)
    assert "fix: merge the change of the judges on its own" in said


def test_an_eval_that_is_taken_away_takes_no_case_along_without_a_word(repo: GateRepo):
    repo.write("prompts/other.prompt.yml", OTHER)
    repo.write("fixtures/golden/other.jsonl", '{"id": "one", "inputs": {"text": "disk is full"}}\n')
    repo.write("evals/test_other.py", EVAL_OF_OTHER)
    repo.regauge("bump", "other")
    repo.git("rm", "-q", EVAL)
    repo.commit("Measure something else")
    said = repo.gate(code=3)
    assert "gate: unmeasured against main" in said
    assert f"not measured: {GOLDEN}: no collected eval measures this golden dataset" in said
    assert f"fix of {GOLDEN}: put its eval back" in said
    assert repo.pytest("--gate=main", code=1).count("not measured: ") == 1
    assert json.loads(repo.regauge("gate", "--from", "latest", "--json", code=3))["exit_code"] == 3
    assert "it is not compared" in repo.gate("--prompt", "other", code=0)
    repo.git("rm", "-q", GOLDEN)
    repo.commit("Give up its cases")
    said = repo.gate(code=3)
    assert "alert-severity has recordings or a baseline, and no collected eval measures it" in said
    repo.git("rm", "-q", BASELINE)
    shutil.rmtree(repo.root / "fixtures/recordings")
    repo.commit("Give it up")
    assert "this change removes it and its eval" in repo.gate(code=0)


def test_a_fork_without_recordings_is_unmeasured_and_a_budget_can_be_gone_on_with(
    repo: GateRepo, tmp_path: Path
):
    repo.release("minor", (REWORDED[0], "You judge alerts of a Kubernetes platform: how urgently"))
    fork = tmp_path / "fork"
    shutil.copytree(repo.root, fork, ignore=shutil.ignore_patterns(".regauge", "recordings"))
    here, repo.root = repo.root, fork
    try:
        said = repo.gate("--record=none", code=3)
        assert set(repo.verdicts().values()) == {"unmeasured"}
        assert "gate: unmeasured against main" in said
        assert "next: make the missing trials: regauge gate main --record=missing" in said
        said = repo.gate("--budget-calls", "5", code=3)
        assert "the budget of 5 calls is reached" in said
        assert repo.decision()["calls"]["live"] == 5
        repo.gate("--budget-calls", "300", code=0)
        assert repo.decision()["calls"]["live"] > 5
    finally:
        repo.root = here


def test_a_base_version_that_cannot_be_had_says_how_to_get_it(repo: GateRepo, tmp_path: Path):
    said = repo.regauge("gate", "origin/nowhere", code=2)
    assert "there is no branch, tag or commit 'origin/nowhere'" in said
    said = repo.pytest("--gate", "origin/nowhere", code=4)
    assert "there is no branch, tag or commit 'origin/nowhere'" in said
    repo.release("minor", REWORDED)
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.root}", str(tmp_path / "shallow"))
    here, repo.root = repo.root, tmp_path / "shallow"
    try:
        repo.git("fetch", "-q", "--depth", "1", "origin", "main:main")
        assert "git fetch --unshallow" in repo.gate(code=2)
    finally:
        repo.root = here


def test_a_model_that_drifted_under_its_name_is_not_blamed_on_the_change(
    tmp_path: Path, drifting: tuple[str, str]
):
    before, after = drifting
    repo = GateRepo(tmp_path, base_url=before)
    repo.regauge("baseline", "update", "--trials", "12")
    repo.settings(after)
    repo.commit("Say how main fares, and ask elsewhere")
    repo.branch("reword")
    repo.release("minor", REWORDED)
    said = repo.gate(code=0)
    verdicts = list(repo.verdicts().values())
    assert "broken" not in verdicts
    assert repo.decision()["prompts"][0]["test"]["status"] == "unconfirmed"
    assert re.search(r"the baseline predicts .*\(p [=<] [\d.]+\), not confirmed side by side", said)
    assert "base is below its record today" in said
    assert "gate: accepted against main" in said

    repo.branch("another-model")
    repo.settings(before, f'[tool.regauge.providers.other]\nbase_url = "{after}"\n')
    why = "The server moved"
    said = repo.gate("--model", "other:clerk-1", "--accept-judge-change", why, code=1)
    assert "alert-severity 1.0.0, local:clerk-1 → other:clerk-1: " in said
    side_by_side = (
        r"base passed \d+ of 12 before. Side by side today: the other model 0 of 5, base 5"
    )
    assert re.search(side_by_side, said)


@pytest.fixture
def drifting() -> Iterator[tuple[str, str]]:
    """Where a model is served as it was, and as it is after it drifted."""
    now = SimServerOptions(rules=Rules(drift=0.6))
    with SimServer() as before, SimServer(now) as after:
        yield before.base_url, after.base_url


def test_a_renamed_prompt_is_followed_and_one_that_is_gone_is_said(repo: GateRepo):
    for path in (PROMPT, GOLDEN):
        repo.git("mv", path, path.replace(NAME, "alert-level"))
    repo.edit(EVAL, '"alert-severity"', '"alert-level"')
    repo.regauge("bump", "alert-level")
    repo.commit("Rename")
    said = repo.gate(code=0)
    assert "alert-level was called alert-severity in main" in said
    assert set(repo.verdicts().values()) == {"unchanged"}
    repo.git("rm", "-q", "prompts/alert-level.prompt.yml")
    repo.write("prompts/other.prompt.yml", OTHER)
    repo.write("fixtures/golden/other.jsonl", '{"id": "one", "inputs": {"text": "disk is full"}}\n')
    repo.write(EVAL, EVAL_OF_OTHER)
    repo.regauge("bump", "other")
    repo.commit("Another prompt in its place")
    said = repo.gate(code=0)
    assert "alert-severity is gone: main has it" in said
    assert "other/one: no baseline; passed 3 of 3 (bar: 3 of 3)." in said


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_renamed_dataset_keeps_its_baseline_in_the_gate(repo: GateRepo, suffix: str):
    path = f"fixtures/golden/alerts.{suffix}"
    if suffix == "jsonl":
        repo.git("mv", GOLDEN, path)
    else:
        cases = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
        repo.git("rm", "-q", GOLDEN)
        repo.write(path, json.dumps(cases, indent=1))
    repo.edit(EVAL, '@golden("alert-severity", ', '@golden("alert-severity", dataset="alerts", ')
    repo.release("minor", REWORDED)
    said = repo.gate(code=0)
    assert "base has no baseline" not in said
    assert "not measured" not in said
    assert {case["before"]["trials"] for case in repo.decision()["cases"]} == {12}


OTHER = """\
name: Other
version: 1.0.0
model: sim:clerk-1
messages:
  - role: user
    content: 'Summarise in one sentence: {{text}}'
"""
EVAL_OF_OTHER = """\
from regauge import golden
from regauge.judges import min_chars

@golden("other", judges=[min_chars(1)])
def test_other(result):
    result.check()
"""
