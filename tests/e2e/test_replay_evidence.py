"""Replayed failures that committed evidence explains, on recorded completions of GPT-4o."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[2] / "examples/real-answers"
NAME = "ruin-names"
PROMPT = f"prompts/{NAME}.prompt.yml"
BASELINE = f"fixtures/baselines/{NAME}.json"
RECORDINGS = f"fixtures/recordings/{NAME}.jsonl"
# It failed in the recorded first run; the base passed 4 of 5.
FLAKY = "ruin_names-000"


class Project:
    """The prompt `ruin-names` in a git repository, with one of its cases."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path in (PROMPT, "prompts/prompts.lock", BASELINE, RECORDINGS, "pyproject.toml"):
            self.write(path, (EXAMPLE / path).read_text(encoding="utf-8"))
        shutil.copytree(EXAMPLE / "evals", root / "evals", ignore=shutil.ignore_patterns("__*"))
        for other in (root / "evals").glob("test_*.py"):
            if other.name != "test_ruin_names.py":
                other.unlink()
        golden = (EXAMPLE / f"fixtures/golden/{NAME}.jsonl").read_text(encoding="utf-8")
        self.write(f"fixtures/golden/{NAME}.jsonl", _lines_of(golden, FLAKY))
        self.write(RECORDINGS, _lines_of(self.read(RECORDINGS), FLAKY))
        self.write(".gitignore", ".regauge/\n__pycache__/\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "dev@example.org")
        self.git("config", "user.name", "Dev")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def base_passes(self, passed: int, trials: int) -> None:
        """Write a baseline of the case with these counts."""
        document = json.loads(self.read(BASELINE))
        baseline = document["baselines"][0]
        baseline["sessions"][0]["trials"] = f"100-{99 + trials}"
        row = baseline["cases"][FLAKY]
        row |= {"trials": trials, "passed": passed, "numbers": f"100-{99 + trials}"}
        row["failed"] = {"field_equals(Answer)": trials - passed}
        if passed == trials:
            del row["failed"]
        baseline["cases"] = {FLAKY: row}
        self.write(BASELINE, json.dumps(document))

    def gate_drew(self, *passed: bool) -> None:
        """Record trials of the gate for the request of the case."""
        first: dict[str, Any] = json.loads(self.read(RECORDINGS))
        lines = [first]
        for number, ok in enumerate(passed):
            text = '{"Answer":"A"}' if ok else first["completion"]["text"]
            completion = {**first["completion"], "text": text}
            lines.append({**first, "trial": 3000 + number, "completion": completion})
        self.write(RECORDINGS, "".join(json.dumps(line) + "\n" for line in lines))

    def replay(self, *arguments: str, code: int, **environ: str) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST_"))}
        done = processes.run(
            "pytest",
            *("evals", "--record=none", "-p", "regauge", *arguments),
            cwd=self.root,
            env={**env, "COLUMNS": "160", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def _lines_of(text: str, case: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if f'"{case}"' in line)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_case_that_the_committed_baseline_calls_flaky_does_not_fail_a_replay(project: Project):
    project.commit()
    output = project.replay("-v", code=0)
    assert f"~ {FLAKY}  flaky: the base passes 4 of 5 trials" in output
    assert "NOT BLOCKING" in output
    assert "1 not blocking" in output


def test_a_case_that_the_base_always_passes_fails_a_replay(project: Project):
    project.base_passes(12, 12)
    project.commit()
    assert "1 failed" in project.replay(code=1)


def test_a_baseline_that_is_not_committed_explains_nothing(project: Project):
    project.base_passes(12, 12)
    project.commit()
    project.base_passes(6, 12)
    assert "1 failed" in project.replay(code=1)


def test_in_a_pull_request_the_baseline_of_the_base_counts(project: Project):
    project.base_passes(12, 12)
    project.commit()
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.base_passes(6, 12)
    project.commit()
    assert "1 failed" in project.replay(code=1, GITHUB_BASE_REF="main")
    project.replay(code=0)


def test_in_a_pull_request_without_its_base_nothing_is_explained(project: Project):
    project.commit()
    assert "1 failed" in project.replay(code=1, GITHUB_BASE_REF="main")


def test_a_case_that_the_changelog_of_this_version_accepts_does_not_fail_a_replay(
    project: Project,
):
    project.base_passes(12, 12)
    entry = "- version: 1.0.0\n"
    accepted = f"{entry}  accepted:\n  - case: {FLAKY}\n    reason: the joke is lost\n"
    text = project.read(PROMPT)
    assert entry in text
    project.write(PROMPT, text.replace(entry, accepted))
    project.commit()
    assert f"~ {FLAKY}  accepted in 1.0.0: the joke is lost" in project.replay(code=0)


@pytest.mark.parametrize(
    ("base", "gate", "code"),
    [
        ((12, 12), (False, True, True, True), 0),  # one failure of four is no break
        ((12, 12), (False,), 1),  # one trial alone cannot clear a case
        ((12, 12), (False, False, False), 1),
        ((0, 12), (False, False, False), 0),  # the base fails it, too
    ],
)
def test_recorded_trials_of_the_gate_decide_for_the_same_request(
    project: Project, base: tuple[int, int], gate: tuple[bool, ...], code: int
):
    project.base_passes(*base)
    project.gate_drew(*gate)
    project.commit()
    output = project.replay(code=code)
    if not code:
        assert f"~ {FLAKY}  the gate's trials: passed {sum(gate)} of {len(gate)}" in output


@pytest.mark.parametrize("report", ["json", "html", "md"])
def test_reports_count_a_failure_that_does_not_block_apart(project: Project, report: str):
    project.commit()
    project.replay(code=0)
    checks: dict[str, Callable[[str], bool]] = {
        "json": lambda text: json.loads(text)["evals"][0]["not_blocking"] == 1,
        "html": lambda text: "failed (not blocking)" in text,
        "md": lambda text: "1 case failed without blocking" in text,
    }
    done = processes.run(
        "regauge", "report", "latest", "--format", report, cwd=project.root, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert checks[report](done.stdout)


def test_workers_of_xdist_report_it_the_same_way(project: Project):
    project.commit()
    assert f"~ {FLAKY}  flaky" in project.replay("-p", "xdist", "-n", "2", code=0)
