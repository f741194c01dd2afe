"""Guarded instructions in a pull request: the gate with `pull_request` of `[tool.regauge.mutate]`."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import test_mutate
from tests.e2e.test_mutate import EVAL, Mutating
from tests.fakes import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import EvalProject

SETTINGS = "[tool.regauge.mutate]\npull_request = true\n"
LIMIT = "      - Keep the reason below 12 words.\n"
GREETING = "      - Greet the reader kindly.\n"
DRILL = "      - Use severity info for a drill.\n"
PROMPT = test_mutate.PROMPT.replace(GREETING, GREETING + DRILL)


def follow(text: str) -> str:
    """Does what the other tests' model does, and knows drills."""
    request = text.rsplit("\n", maxsplit=1)[-1]
    if "JSON" in text and "info for a drill" in text and request.startswith("drill"):
        return json.dumps({"severity": "info", "reason": "it says so itself"})
    if "JSON" in text and "kindly" in text and request.startswith("hello"):
        return json.dumps({"severity": "none", "reason": "it says so itself"})
    return test_mutate.follow(text)


class PullRequest(Mutating):
    """`main` with a baseline and committed classes; then a branch.

    Args:
        built: A copy of such a project, with the same settings and endpoint.
    """

    def __init__(
        self,
        project: EvalProject,
        endpoint: Endpoint,
        settings: str = SETTINGS,
        *,
        built: Path | None = None,
    ) -> None:
        super().__init__(project, endpoint)
        endpoint.answer = follow
        drill = {"inputs": {"text": "drill: nothing is wrong"}, "expected": {"severity": "info"}}
        self.cases.append({"id": "drill", **drill})
        if built is None:
            self._build(settings)
        else:
            shutil.copytree(built, project.root, dirs_exist_ok=True)
        endpoint.forget()

    def _build(self, settings: str) -> None:
        project = self.project
        project.write(".gitignore", ".regauge/\nfixtures/recordings/\n__pycache__/\n")
        self.settings(settings)
        project.golden(self.cases)
        project.write("prompts/triage.prompt.yml", PROMPT)
        self.git("init", "-q", "-b", "main")
        self.command("bump", "triage")
        self.command("baseline", "update")
        self.regauge()
        self.commit()
        self.git("checkout", "-q", "-b", "change")

    def settings(self, text: str) -> None:
        self.project.settings(provider=f"[tool.regauge.gate]\nbaseline_trials = 12\n{text}")

    def command(self, *words: str) -> str:
        done = self.project.command(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.project.root, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change")

    def edit(self, old: str, new: str) -> None:
        """Edit the prompt in a new version."""
        assert old in PROMPT
        text = PROMPT.replace(old, new).replace("version: 1.0.0", "version: 1.1.0")
        self.project.write("prompts/triage.prompt.yml", text)
        self.command("bump", "triage")

    def gate(self, *words: str, code: int = 0) -> str:
        done = self.project.command("gate", "main", *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    @property
    def guards(self) -> dict[str, Any]:
        [guards] = self.project.records()[-1]["decision"]["prompts"][0]["guards"]
        return guards


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(served: Endpoint) -> Endpoint:
    """One for all of these tests: a project that is built once names it."""
    return served


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the first test, as it was before the test; no directory until then."""
    return tmp_path_factory.mktemp("built") / "project"


@pytest.fixture
def pull(live: EvalProject, endpoint: Endpoint, built: Path) -> PullRequest:
    if built.exists():
        return PullRequest(live, endpoint, built=built)
    pull = PullRequest(live, endpoint)
    shutil.copytree(live.root, built)
    return pull


def test_an_added_line_is_mutated_and_the_others_are_as_on_main(pull: PullRequest):
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    text = pull.gate()
    assert "instructions guarded: 3 of 7 (3 of 6 on main)" in text
    assert (
        'adds line 12 "- Sign with your name.": not guarded: no output changes without it' in text
    )
    assert pull.guards["changes"][0]["after"] == "no-effect"
    mutants = [one for one in pull.endpoint.calls if one.count("\n      - ") == 0]
    assert mutants

    report = pull.project.root / "report"
    pull.command("report", "-o", "report.html")
    pull.command("report", "-o", "report.md")
    for file in (report.with_suffix(".html"), report.with_suffix(".md")):
        shown = file.read_text().replace("\\", "")
        assert "instructions guarded: 3 of 7 (3 of 6 on main)" in shown
        assert "no output changes without it" in shown


def test_a_dry_run_of_the_gate_counts_the_mutants_of_changed_lines(pull: PullRequest):
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    about = json.loads(pull.gate("--dry-run", "--json"))
    [mutants] = about["mutants"]
    assert (mutants["prompt"], mutants["mutants"]) == ("triage", 1)
    assert "then, if accepted: 1 mutant of triage, about " in pull.gate("--dry-run")
    assert pull.endpoint.total == 0
    pull.gate()
    took = len([one for one in pull.endpoint.calls if one.count("\n      - ") == 0])
    assert took / 2 <= mutants["bill"]["trials"] <= took * 2


def test_a_dry_run_without_a_changed_line_counts_no_mutant(pull: PullRequest):
    assert json.loads(pull.gate("--dry-run", "--json"))["mutants"] == []


def test_a_new_line_that_fixes_a_case_is_guarded_by_it(pull: PullRequest):
    pull.git("checkout", "-q", "main")
    pull.edit(DRILL, "")
    pull.command("baseline", "update")
    pull.command("mutate", "triage")
    pull.commit()
    pull.git("checkout", "-q", "-b", "repair")
    text = PROMPT.replace("version: 1.0.0", "version: 1.2.0")
    pull.project.write("prompts/triage.prompt.yml", text)
    pull.command("bump", "triage")
    text = pull.gate()
    assert "1 fixed" in text
    assert 'adds line 12 "- Use severity info for a drill.": guarded by drill' in text
    assert "instructions guarded: 3 of 6 (2 of 5 on main)" in text


def test_a_deleted_line_without_a_guard_is_named_though_the_gate_accepts(pull: PullRequest):
    pull.edit(GREETING, "")
    text = pull.gate()
    assert "instructions guarded: 3 of 5 (3 of 6 on main)" in text
    assert (
        'deletes line 11 "- Greet the reader kindly." of main, which no case guards: the gate'
        " cannot see the loss" in text
    )


def test_a_deleted_case_is_named_with_the_line_that_it_alone_guards(pull: PullRequest):
    pull.project.golden(pull.cases[:-1])
    text = pull.gate(code=1)
    assert (
        'line 12 "- Use severity info for a drill.": this change deletes case drill, the only one'
        " known to guard it; not measured again: the gate does not accept the change" in text
    )
    assert "instructions guarded: 2 of 6 (3 of 6 on main), 1 not measured" in text
    assert pull.endpoint.total == 0


@pytest.mark.parametrize("guard", ["expectation", "tier", "judge"])
def test_a_weaker_guard_is_no_guard(pull: PullRequest, guard: str):
    """What the base's classes say needs no call, whatever the gate makes of the change."""
    drill = pull.cases[-1]
    match guard:
        case "expectation":
            cause = "edits case drill"
            pull.project.golden([*pull.cases[:-1], {**drill, "expected": {"severity": "x"}}])
        case "tier":
            cause = "sets tier = tracked in case drill"
            pull.project.golden([*pull.cases[:-1], {**drill, "tier": "tracked"}])
        case _:
            cause = "removes judge field_equals(severity)"
            pull.project.eval(EVAL.replace('field_equals("severity"), ', ""))
    pull.project.command("gate", "main", "--record", "none")
    [change] = [one for one in pull.guards["changes"] if "drill." in one["text"]]
    assert f"this change {cause}, the only one known to guard it" in change["message"]
    assert pull.endpoint.total == 0


def test_another_case_that_still_guards_a_line_is_found(pull: PullRequest):
    rows = json.loads(pull.file.read_text())["mutants"]
    [guard] = next(one["cases"] for one in rows if "12 words" in one["text"])
    text = PROMPT.replace(GREETING, "").replace(
        "version: 1.0.0\n",
        "version: 1.1.0\nchangelog:\n  - version: 1.1.0\n    text: Fewer cases.\n    removed:\n"
        f"      - case: {guard}\n        reason: It repeats another.\n",
    )
    pull.project.write("prompts/triage.prompt.yml", text)
    pull.command("bump", "triage")
    pull.project.golden([one for one in pull.cases if one["id"] != guard])
    text = pull.gate()
    assert f"this change deletes case {guard}; still guarded by case-" in text
    assert "instructions guarded: 3 of 5 (3 of 6 on main)" in text


def test_a_replay_knows_what_main_has_committed_and_no_more(pull: PullRequest):
    pull.edit(GREETING, "      - Greet the reader as a friend.\n")
    pull.gate()
    assert "not measured" not in pull.gate("--record", "none")
    for kept in pull.project.root.glob(".regauge/**/*.sqlite3*"):
        kept.unlink()
    text = pull.gate("--record", "none")
    assert 'edits line 11 "- Greet the reader as a friend.": not measured: not recorded' in text
    assert "instructions guarded: 3 of 6 (3 of 6 on main), 1 not measured" in text


def test_classes_of_the_change_itself_do_not_count(pull: PullRequest):
    rows = json.loads(pull.file.read_text())
    for row in rows["mutants"]:
        row |= {"class": "equivalent", "reason": "trust me"}
    pull.file.write_text(json.dumps(rows))
    pull.edit(GREETING, "")
    assert "instructions guarded: 3 of 5 (3 of 6 on main)" in pull.gate()


def test_below_the_floor_of_main_a_change_is_not_accepted(live: EvalProject, endpoint: Endpoint):
    pull = PullRequest(live, endpoint, f"{SETTINGS}floor = 0.5\n")
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    text = pull.gate(code=1)
    assert "rejected" in text
    assert "triage: 43 % of its instructions are guarded, below the floor of 50 %" in text
    assert "regauge mutate triage" in text.rpartition("next:")[2]
    again = pull.project.command("gate", "--from", "latest")
    assert (again.returncode, "below the floor" in again.stdout) == (1, True), again.stdout

    for kept in pull.project.root.glob(".regauge/**/*.sqlite3*"):
        kept.unlink()
    text = pull.gate("--record", "none", code=3)
    assert "1 without a class decide whether that is below the floor of 50 %" in text
    assert "--record=missing" in text.rpartition("next:")[2]

    pull.settings(f"{SETTINGS}floor = 0.1\n")
    text = pull.gate(code=2)
    assert "floor in [tool.regauge.mutate]: 0.5 -> 0.1" in text


def test_without_the_setting_nothing_is_mutated(live: EvalProject, endpoint: Endpoint):
    pull = PullRequest(live, endpoint, "")
    pull.settings(SETTINGS)
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    assert "instructions guarded" not in pull.gate()
    assert pull.project.records()[-1]["decision"]["prompts"][0]["guards"] == []


def test_out_of_budget_leaves_changed_lines_unmeasured(pull: PullRequest):
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    text = pull.gate("--budget-calls", "105")
    assert 'adds line 12 "- Sign with your name.": not measured: out of budget' in text


def test_a_prompt_that_a_target_loads_is_mutated_through_it(pull: PullRequest):
    pull.git("checkout", "-q", "main")
    pull.project.write("app.py", test_mutate.TARGET)
    pull.settings(
        f'{SETTINGS}[tool.regauge.targets.app]\nkind = "python"\ncallable = "app:run"\n'
        'files = ["app.py"]\nprompts = ["triage"]\n'
    )
    pull.project.eval(
        EVAL.replace('"triage", judges', '"service", target="app", dataset="triage", judges')
    )
    pull.file.unlink()
    (pull.project.root / "fixtures/baselines/triage.json").unlink()
    pull.command("baseline", "update")
    pull.command("mutate", "app")
    pull.commit()
    pull.git("checkout", "-q", "-b", "service")
    pull.edit(GREETING, f"{GREETING}      - Sign with your name.\n")
    text = pull.gate()
    assert "instructions of triage guarded: 2 of 7 (2 of 6 on main)" in text
    assert "no output changes without it" in text


def test_a_new_case_guards_a_line_that_had_no_guard(pull: PullRequest):
    greeted = {"inputs": {"text": "hello: good morning"}, "expected": {"severity": "none"}}
    pull.project.golden([*pull.cases, {"id": "hello", **greeted}])
    text = pull.gate()
    assert "instructions guarded: 4 of 6 (3 of 6 on main)" in text
    assert 'line 11 "- Greet the reader kindly.": now guarded by hello' in text
