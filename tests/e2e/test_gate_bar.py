"""A change cannot lower the bar it is measured by: tiers, settings, labels, baselines, code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.gate_repo import (
    BASELINE,
    CERTIFICATE_LINE,
    EVAL,
    GOLDEN,
    NAME,
    PROMPT,
    REWORDED,
    GateRepo,
    label_definitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

WHY = "The tier was wrong from the start"
LABELS = "fixtures/labels/tone.jsonl"
CALIBRATION = "fixtures/labels/tone.calibration.json"
RECORDINGS = f"fixtures/recordings/{NAME}.jsonl"
NOTE = '[tool.regauge.gate]\non_judge_change = "note"\n'


@pytest.fixture(scope="module")
def known_repo(tmp_path_factory: pytest.TempPathFactory) -> GateRepo:
    """A base with a baseline, labels, and recordings that are committed."""
    repo = GateRepo(tmp_path_factory.mktemp("bar"))
    repo.write(".gitignore", ".regauge/\n__pycache__/\n")
    repo.write(LABELS, '{"id": 1}\n{"id": 2}\n')
    repo.write(CALIBRATION, "{}\n")
    repo.regauge("baseline", "update", "--trials", "12")
    repo.pytest("--record=missing", code=1)
    repo.commit("Measure the base")
    return repo


@pytest.fixture
def repo(known_repo: GateRepo, request: pytest.FixtureRequest) -> GateRepo:
    known_repo.branch(request.node.name.partition("[")[0])
    return known_repo


def set_tier(repo: GateRepo, case: str, tier: str) -> None:
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    for line in lines:
        if line["id"] == case:
            line["tier"] = tier
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))


def set_checks(repo: GateRepo, checks: list[object], **more: object) -> None:
    """Give every case these checks and no others."""
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    for line in lines:
        line.pop("checks", None)
        line.update({"checks": checks, **more} if checks else {})
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))


def break_prompt(repo: GateRepo) -> None:
    """Release a version without the definitions of the severities."""
    repo.release(
        "minor", (label_definitions(repo.read(PROMPT)), "      - critical, warning, info\n")
    )


def broken(repo: GateRepo) -> list[str]:
    return [case for case, verdict in repo.verdicts().items() if verdict == "broken"]


def test_the_tier_of_a_case_comes_from_the_base(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    case = broken(repo)[0]
    set_tier(repo, case, "tracked")
    output = repo.gate(code=2)
    assert f"tier of {case}: required -> tracked" in output
    assert "--accept-judge-change 'WHY'" in output
    repo.gate("--accept-judge-change", WHY, code=1)
    assert repo.decision()["moved_bars"] == [f"tier of {case}: required -> tracked"]
    assert case in broken(repo)


def test_settings_that_decide_come_from_the_base(repo: GateRepo):
    repo.settings(None, '[tool.regauge.gate]\nalpha_case = 1e-300\non_new = "warn"\n')
    break_prompt(repo)
    output = repo.gate(code=2)
    assert "alpha_case in [tool.regauge.gate]: 0.05 -> 1e-300" in output
    assert 'on_new in [tool.regauge.gate]: "block" -> "warn"' in output
    repo.gate("--accept-judge-change", WHY, code=1)
    assert repo.decision()["policy"]["case"]["alpha"] == 0.05


def test_a_lowered_bar_alone_is_refused_and_let_through_with_a_reason(repo: GateRepo):
    set_tier(repo, json.loads(repo.read(GOLDEN).splitlines()[0])["id"], "tracked")
    repo.commit("Lower a tier")
    repo.gate(code=2)
    repo.gate("--accept-judge-change", WHY, code=0)
    assert repo.decision()["judge_change_accepted"] == WHY


def test_a_raised_bar_and_new_cases_need_no_word(repo: GateRepo):
    first = json.loads(repo.read(GOLDEN).splitlines()[0])
    set_tier(repo, first["id"], "critical")
    line = {**first, "id": "another", "inputs": {**first["inputs"], "name": "Another"}}
    repo.write(GOLDEN, repo.read(GOLDEN) + json.dumps(line) + "\n")
    repo.settings(None, "[tool.regauge.gate]\nalpha_case = 0.1\n")
    repo.write(LABELS, repo.read(LABELS) + '{"id": 3}\n')
    repo.commit("Raise the bar")
    repo.gate(code=0)
    assert repo.decision()["moved_bars"] == []


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        (LABELS, lambda text: text.replace('"id": 1', '"id": 9')),
        (CALIBRATION, lambda text: text.replace("{}", '{"passes": true}')),
        (BASELINE, lambda text: text.replace('"passed": 12', '"passed": 6')),
    ],
)
def test_labels_calibrations_and_baselines_come_from_the_base(
    repo: GateRepo, path: str, edit: Callable[[str], str]
):
    repo.write(path, edit(repo.read(path)))
    break_prompt(repo)
    assert f"{path} changed" in repo.gate(code=2)


def test_a_baseline_without_a_change_of_a_prompt_is_let_through(repo: GateRepo):
    repo.write(BASELINE, repo.read(BASELINE).replace('"passed": 12', '"passed": 12 '))
    repo.commit("Update the baseline")
    repo.gate(code=0)


def test_replaced_recordings_and_code_next_to_a_prompt_are_named(repo: GateRepo):
    first, *others = repo.read(RECORDINGS).splitlines(keepends=True)
    line = json.loads(first)
    line["completion"]["text"] = "{}"
    repo.write(RECORDINGS, "".join([json.dumps(line) + "\n", *others]))
    repo.write(EVAL, repo.read(EVAL) + "\n# more\n")
    repo.write(".github/workflows/evals.yml", "on: push\n")
    break_prompt(repo)
    output = repo.gate(code=1)
    case = line["case"]
    assert f"{RECORDINGS} replaces what was recorded for requests of the base: {case}" in output
    assert f"code that runs in this gate or its workflow: .github/workflows/evals.yml, {EVAL}" in (
        output
    )


def test_an_expectation_next_to_a_changed_prompt_comes_from_the_base(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    case = broken(repo)[0]
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    (line,) = [line for line in lines if line["id"] == case]
    now = "info" if line["expected"]["severity"] != "info" else "warning"
    line["expected"] = {"severity": now}
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    output = repo.gate(code=2)
    assert f"expected of {case}: " in output
    assert f'-> {{"severity": "{now}"}}' in output


def test_another_expectation_without_a_change_of_the_prompt_is_no_lower_bar(repo: GateRepo):
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    lines[0]["expected"] = {"severity": "info"}
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    repo.commit("Relabel a case")
    repo.gate(code=0)


def test_an_edited_case_is_put_to_the_base_as_well(repo: GateRepo):
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    edited = lines[0]
    edited["inputs"]["summary"] += " Now."
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    repo.release("patch", ("You decide how urgently", "Decide how urgently"))
    repo.gate(code=0)
    (case,) = [case for case in repo.decision()["cases"] if case["case"] == edited["id"]]
    assert case["state"] == "changed"
    assert case["before"]["trials"] >= 1
    assert f"compared on the new ones: {edited['id']}" in " ".join(repo.decision()["notes"])


def test_an_option_that_loosens_the_policy_stands_in_the_headline(repo: GateRepo):
    break_prompt(repo)
    output = repo.gate("--on-undecided", "warn", code=1)
    assert "(with --on-undecided warn)" in output
    assert repo.decision()["loosened"] == ["--on-undecided warn"]


def test_a_rule_of_the_base_about_changed_judges_counts(repo: GateRepo):
    repo.settings(None, NOTE)
    repo.commit("Note changes of judges")
    repo.branch("next", of="HEAD")
    repo.edit(EVAL, 'field_equals("severity")', 'field_equals("severity", ignore_case=True)')
    repo.commit("Judge otherwise")
    repo.regauge("gate", "HEAD~1", code=0)
    assert CERTIFICATE_LINE not in repo.read(PROMPT)


def test_trials_that_a_change_commits_are_refused(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    repo.git("add", "-f", ".regauge/gate")
    repo.commit("Bring trials along")
    assert "git rm -r --cached .regauge" in repo.gate(code=2)
    repo.git("rm", "-r", "-q", "--cached", ".regauge")
    repo.commit("Leave them out")
    repo.gate(code=1)


@pytest.mark.parametrize(
    ("checks", "more", "moved"),
    [
        ([], {}, 'KubeAPIDown: ["json_parses"] -> not set'),
        (
            ["json_parses", "is_lower_case"],
            {"pass_at": 0.5},
            "KubeAPIDown: pass_at 1 -> pass_at 0.5",
        ),
    ],
)
def test_a_check_of_a_case_cannot_be_removed_or_loosened(
    repo: GateRepo, checks: list[object], more: dict[str, object], moved: str
):
    repo.branch("checked")
    set_checks(repo, ["json_parses"])
    repo.commit("Check each case")
    repo.branch("loosened", of="checked")
    set_checks(repo, checks, **more)
    repo.release("minor", REWORDED)
    assert f"checks of {moved}" in repo.regauge("gate", "checked", code=2)


def test_a_check_of_a_case_can_be_added(repo: GateRepo):
    set_checks(repo, ["json_parses"])
    repo.release("minor", REWORDED)
    repo.gate(code=0)
    assert repo.decision()["moved_bars"] == []
