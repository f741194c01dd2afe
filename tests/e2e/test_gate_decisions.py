"""The whole document of a decision, for one change after the other of a project with a history.

Each row edits the project of `tests/stored_project.py`, commits, and compares with `main`. Model
and judges are the simulated model and rules, so every trial and each number is the same again.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.place import Place
from tests.stored_project import PROJECT, make_project, run_git
from tests.transcripts import assert_as_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "alert-severity"
PROMPT = f"prompts/{NAME}.prompt.yml"
GOLDEN = f"fixtures/golden/{NAME}.jsonl"
EVAL = "evals/test_alert_severity.py"
SETTINGS = "pyproject.toml"
BASELINE = f"fixtures/baselines/{NAME}.json"
CASE = "AlertmanagerClusterDown"
NOTE = "  - version: 1.1.0\n    date: 2026-11-23"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("gated") / "shop"
    make_project(root)
    run_git(root, "checkout", "--quiet", "-b", "change")
    return root


class Change(Place):
    """A branch of the project, and the edits of one row."""

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text("utf-8")
        edited = re.sub(old, new, text, count=1, flags=re.DOTALL)
        assert edited != text, path
        self.write(path, edited)

    def git(self, *words: str) -> None:
        run_git(self.root, *words)

    def bump(self, part: str = "minor", name: str = NAME) -> None:
        self.regauge("bump", name, part, "-m", "Edit")

    def cases(self, edit: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        rows = [json.loads(line) for line in (self.root / GOLDEN).read_text("utf-8").splitlines()]
        edited = [row for row in map(edit, rows) if row is not None]
        self.write(GOLDEN, "".join(json.dumps(row) + "\n" for row in edited))

    def case(self, **values: Any) -> None:
        """Set keys of one case; None takes it out."""
        self.cases(lambda row: {**row, **values} if row["id"] == CASE else row)

    def reword(self) -> None:
        """Another text that changes what the model answers to no case."""
        self.edit(PROMPT, "You are the on-call engineer", "You are an on-call engineer")


def better(at: Change) -> None:
    at.reword()
    at.bump()


def worse(at: Change) -> None:
    shutil.copytree(PROJECT / "changed/prompts", at.root / "prompts", dirs_exist_ok=True)


def accepted(at: Change) -> None:
    worse(at)
    at.edit(
        PROMPT,
        "    text: Fewer entries.\n",
        "    text: Fewer entries.\n    accepted:\n"
        f"      - {{case: {CASE}, reason: Rare}}\n      - {{case: no-such-case, reason: Gone}}\n",
    )


def removed(at: Change) -> None:
    at.cases(lambda row: None if row["id"] == CASE else row)


def removed_with_reason(at: Change) -> None:
    better(at)
    removed(at)
    at.edit(
        PROMPT,
        "    text: Edit\n",
        f"    text: Edit\n    removed:\n      - {{case: {CASE}, reason: x}}\n",
    )


def new_case(at: Change) -> None:
    better(at)
    rows = (at.root / GOLDEN).read_text("utf-8").splitlines()
    row = json.loads(rows[0])
    at.write(GOLDEN, "\n".join([*rows, json.dumps({**row, "id": "added"})]) + "\n")


def weaker_schema(at: Change) -> None:
    at.edit(PROMPT, r"required: \[severity, reason\]", "required: [severity]")
    at.bump("major")


def contract(at: Change) -> None:
    weaker_schema(at)
    for path in (PROMPT, "prompts/prompts.lock"):
        at.edit(path, "2.0.0", "1.2.0")


def renamed(at: Change) -> None:
    at.git("mv", PROMPT, "prompts/severity.prompt.yml")
    for directory, suffix in (("baselines", "json"), ("recordings", "jsonl")):
        place = f"fixtures/{directory}"
        at.git("mv", f"{place}/{NAME}.{suffix}", f"{place}/severity.{suffix}")
    at.edit(EVAL, '"alert-severity"', f'"severity", dataset="{NAME}"')
    at.edit("prompts/severity.prompt.yml", "You are the on-call", "You are an on-call")
    at.bump(name="severity")


def deleted(at: Change) -> None:
    for path in (PROMPT, GOLDEN, EVAL, BASELINE, f"fixtures/recordings/{NAME}.jsonl"):
        (at.root / path).unlink()


def without_eval(at: Change) -> None:
    better(at)
    at.git("rm", "--quiet", EVAL)
    at.write("evals/README.md", "x\n")


def new_prompt(at: Change) -> None:
    text = (at.root / PROMPT).read_text("utf-8")
    at.write(
        "prompts/other.prompt.yml",
        re.sub(r"changelog:.*?inputs:", "inputs:", text, flags=re.DOTALL),
    )
    at.bump("major", "other")


def settings(at: Change) -> None:
    better(at)
    at.edit(
        SETTINGS, "baseline_trials = 5", 'baseline_trials = 4\non_broken = "warn"\nmin_effect = 0.5'
    )


def without_judge(at: Change) -> None:
    better(at)
    at.edit(EVAL, '        field_equals\\("severity"\\),\n', "")


def own_judge(at: Change) -> None:
    better(at)
    at.write("evals/rules.py", "LIMIT = 40\n")
    at.edit(
        EVAL,
        "SEVERITIES = ",
        "from pathlib import Path\n\nLIMIT = len(Path('evals/rules.py').read_text()) + 29\nSEVERITIES = ",
    )
    at.edit(EVAL, r"max_words\(40", "max_words(LIMIT")


def tracked_state(at: Change) -> None:
    better(at)
    at.write(".regauge/gate/trials.txt", "x")
    at.git("add", "--force", ".regauge/gate/trials.txt")


def replaced_recordings(at: Change) -> None:
    better(at)
    at.edit(f"fixtures/recordings/{NAME}.jsonl", '"warning', '"info')
    at.edit(BASELINE, r'"passed": ', r'"passed": 1')


def unlocked(at: Change) -> None:
    better(at)
    lines = (at.root / "prompts/prompts.lock").read_text("utf-8")
    at.write("prompts/prompts.lock", lines.replace("1.0.0", "0.9.0"))


def workflow(at: Change) -> None:
    better(at)
    at.write(".github/workflows/evals.yml", "on: push\n")
    at.write("requirements.txt", "regauge\n")
    at.write("notes.md", "x\n")


ROWS: dict[str, tuple[Callable[[Change], object], tuple[str, ...]]] = {
    "nothing": (lambda _: None, ()),
    "docs": (lambda at: at.write("notes.md", "x\n"), ()),
    "better": (better, ()),
    "better-part": (better, ("--prompt", NAME)),
    "better-replayed": (better, ("--record=none",)),
    "not-bumped": (Change.reword, ()),
    "worse": (worse, ()),
    "worse-net": (worse, ("--on-broken=block", "--on-undecided=warn")),
    "worse-warn": (worse, ("--on-broken=warn",)),
    "worse-more": (worse, ("--more-trials=8",)),
    "accepted": (accepted, ()),
    "removed": (removed, ()),
    "removed-with-reason": (removed_with_reason, ()),
    "new-case": (new_case, ()),
    "edited-case": (lambda at: (better(at), at.case(expected={"severity": "info"})), ()),
    "edited-case-alone": (lambda at: at.case(note="Seen again", tags=["new"]), ()),
    "edited-input-alone": (lambda at: at.cases(lambda row: {**row, "inputs": {**row["inputs"], "summary": ""}}), ()),
    "lower-tier": (lambda at: (better(at), at.case(tier="tracked")), ()),
    "critical": (lambda at: (worse(at), at.case(tier="critical")), ()),
    "weaker-schema": (weaker_schema, ()),
    "contract": (contract, ()),
    "older": (lambda at: (at.reword(), at.edit(PROMPT, "version: 1.1.0", "version: 1.0.1")), ()),
    "unlocked": (unlocked, ()),
    "renamed": (renamed, ()),
    "deleted": (deleted, ()),
    "without-eval": (without_eval, ()),
    "new-prompt": (new_prompt, ()),
    "settings": (settings, ()),
    "settings-accepted": (settings, ("--accept-judge-change", "As agreed")),
    "without-judge": (without_judge, ()),
    "own-judge": (own_judge, ()),
    "tracked-state": (tracked_state, ()),
    "replaced-recordings": (replaced_recordings, ()),
    "another-model": (lambda at: (at.edit(PROMPT, "sim:clerk-1", "sim:poet-1"), at.bump()), ()),
    "model-option": (better, ("--model", "sim:clerk-1")),
    "workflow": (workflow, ()),
    "estimate": (better, ("--dry-run",)),
}  # fmt: skip


def brief(document: dict[str, Any]) -> dict[str, Any]:
    """A decision without its settings, and with one case of each status whole."""
    if "decision" not in document:
        return document
    statuses: set[str] = set()
    lines: list[Any] = []
    for case in document["cases"]:
        is_known = case["status"] in statuses
        statuses.add(case["status"])
        lines.append(f"{case['case']}: {case['message']}" if is_known else case)
    kept = {key: part for key, part in document.items() if key not in {"policy", "gate_cases"}}
    return kept | {"cases": lines, "gate_cases": document["gate_cases"][:1]}


def without_day(text: str) -> str:
    """A text without run ids and times."""
    text = re.sub(r"20\d{6}-\d{6}-\w{4}", "RUN", text)
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+(\+00:00|Z)?", "TIME", text)


@pytest.mark.parametrize("row", ROWS)
def test_a_change_has_the_decision_that_it_had(row: str, template: Path, tmp_path: Path):
    shutil.copytree(template, tmp_path / "shop", symlinks=True)
    at = Change(tmp_path / "shop")
    edit, options = ROWS[row]
    edit(at)
    at.git("add", "--all")
    run_git(at.root, "commit", "--quiet", "--allow-empty", "-m", row, date="25T10:00:00")
    done = at.process("regauge", "gate", "main", "--json", *options)
    assert "Traceback" not in done.stderr, done.stderr
    text = done.stdout
    if text.startswith("{"):
        text = json.dumps(brief(json.loads(text)), indent=1, ensure_ascii=False)
    ended = f"exit {done.returncode}\n{without_day(text)}\n{done.stderr}"
    assert_as_written(ended.replace(str(at.root), "/shop"), f"gated/{row}")
