"""Broken project files under every command: a sentence, a documented exit code, no loss."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ._broken_files import COMMANDS, FORMS
from ._project import Project, commit_all, ticket_project
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FILES"]

_RUBRIC = """\
name: Tone
version: 1.0.0
rubric:
  kind: binary
messages:
  - role: system
    content: Is it about tickets?
  - role: user
    content: "{{answer}}"
"""
_EVAL = """\
from regauge import golden
from regauge.judges import equals, rubric


@golden("ticket-kind", judges=[equals(), rubric("tone")])
def test_ticket_kind(result):
    result.check()


@golden("yaml-kind", judges=[equals()])
def test_yaml_kind(result):
    result.check()


@golden("csv-kind", judges=[equals()])
def test_csv_kind(result):
    result.check()


@golden("parquet-kind", judges=[equals()])
def test_parquet_kind(result):
    result.check()
"""
_BROKEN = (
    "pyproject.toml",
    "evals/conftest.py",
    "evals/test_ticket_kind.py",
    "prompts/ticket-kind.prompt.yml",
    "prompts/judges/tone.prompt.yml",
    "prompts/prompts.lock",
    "fixtures/golden/ticket-kind.jsonl",
    "fixtures/golden/yaml-kind.yaml",
    "fixtures/golden/csv-kind.csv",
    "fixtures/golden/parquet-kind.parquet",
    "fixtures/labels/tone.jsonl",
    "fixtures/labels/tone.calibration.json",
    "fixtures/baselines/ticket-kind.json",
    "fixtures/recordings/ticket-kind.jsonl",
    "fixtures/recordings/judges/ticket-kind.jsonl",
    "fixtures/recordings/judges/calibration/tone.jsonl",
    ".regauge/runs/*/run.json",
    ".regauge/runs/*/trials.jsonl",
    ".regauge/store.sqlite3",
    ".regauge/history.sqlite3",
    ".regauge/gate/trials.sqlite3",
    ".regauge/gate/decisions.jsonl",
    ".regauge/refine/*/run.json",
    ".regauge/refine/*/result.json",
    ".regauge/refine/*/trail.jsonl",
    ".regauge/refine/*/revision.prompt.yml",
    ".regauge/refine/*/before.prompt.yml",
    ".regauge/refine/*/revision.md",
    ".regauge/refine/*/revision.diff",
    ".regauge/refine/*/prompts.lock",
    ".regauge/refine/*.looks.json",
    ".regauge/refine/*.memory.json",
    ".regauge/refine/*.lock",
)


def _tries(shared: Path) -> Iterator[Try]:
    base = _project(shared)
    for form in FORMS:
        for name in _BROKEN:
            if form != "nothing" or name == _BROKEN[0]:
                yield Try(name=f"{name}: {form}", failure=partial(_commands, base.root, name, form))


def _project(shared: Path) -> Project:
    """A project that holds a file of each kind."""
    project = ticket_project(shared, pyproject='[tool.regauge]\njudge_model = "sim:clerk-1"\n')
    prompt = (project.root / "prompts/ticket-kind.prompt.yml").read_text(encoding="utf-8")
    case = {"id": "a", "inputs": {"ticket": "An error"}, "expected": "bug"}
    labels = [
        {"id": f"l{number}{label}", "case": "add-tag", "answer": f"{word} {number}", "label": label}
        for number in range(4)
        for word, label in (("ticket", "pass"), ("no", "fail"))
    ]
    project.write(
        {
            "evals/conftest.py": "# What the evals share.\n",
            "evals/test_ticket_kind.py": _EVAL,
            "output.txt": "An output.\n",
            "prompts/judges/tone.prompt.yml": _RUBRIC,
            **{f"prompts/{kind}-kind.prompt.yml": prompt for kind in ("yaml", "csv", "parquet")},
            "fixtures/golden/yaml-kind.yaml": json.dumps([case]) + "\n",
            "fixtures/golden/csv-kind.csv": "id,inputs.ticket,expected\na,An error,bug\n",
            "fixtures/labels/tone.jsonl": "".join(json.dumps(each) + "\n" for each in labels),
        }
    )
    to_parquet = (
        "import pandas; pandas.read_csv('fixtures/golden/csv-kind.csv')"
        ".to_parquet('fixtures/golden/parquet-kind.parquet')"
    )
    assert project.run([sys.executable, "-c", to_parquet]).code == 0
    project.git("init", "-q", "-b", "main")
    names = ("tone", *(f"{kind}-kind" for kind in ("ticket", "yaml", "csv", "parquet")))
    _done(project, *(["bump", name] for name in names), ["record"])
    _done(project, ["judges", "calibrate", "tone"], codes=(0, 1))
    _done(project, ["baseline", "update", "--trials", "3"])
    commit_all(project)
    project.git("checkout", "-q", "-b", "change")
    project.edit(
        "prompts/ticket-kind.prompt.yml",
        "      - billing: it is about an invoice, a payment or a refund.\n",
        "",
    )
    _done(project, ["bump", "ticket-kind", "minor", "-m", "Less"], ["record"])
    _done(project, ["refine", "ticket-kind"], codes=(0, 1))
    for _ in range(2):
        assert project.pytest("evals", "-q").code == 1
    _done(
        project, ["gate", "main"], ["record"], ["record", "--prune"], ["runs", "list"], codes=(0, 1)
    )
    return project


def _done(project: Project, *commands: list[str], codes: tuple[int, ...] = (0,)) -> None:
    for command in commands:
        ended = project.regauge(*command)
        assert ended.code in codes, f"{command}: {ended.text}"


def _commands(base: Path, name: str, form: str, root: Path) -> str:
    project = Project(root / "project")
    script = "from drill_kinds._broken_files import main; main()"
    arguments = [str(base), str(project.root), name, form]
    command = [sys.executable, "-c", script, *arguments]
    # Root may read every file, unless it gives that up.
    if os.geteuid() == 0 and (setpriv := shutil.which("setpriv")):
        command = [setpriv, "--bounding-set", "-dac_override,-dac_read_search", *command]
    done = subprocess.run(
        command,
        env=project.env(PYTHONPATH=str(Path(__file__).parents[1])),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"the drill itself ended with {done.returncode}: {done.stderr[-300:]}"
    wrong: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return "".join(f"\n    {command}: {why}" for command, why in wrong.items())


FILES = Drill(
    name="files",
    about=f"broken files under {len(COMMANDS)} commands: tracebacks, hangs, losses, no place",
    tries=_tries,
    quick=12,
)
