"""Writes small projects and runs regauge in them as a user does: in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "TICKETS",
    "Ended",
    "Project",
    "commit_all",
    "copied",
    "kill_group",
    "pytest_command",
    "recorded_tickets",
    "stub_project",
    "ticket_project",
]

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "SYSTEMROOT")
_SECONDS = 240

# The simulated model puts each of these where it belongs.
TICKETS = {
    "export-fails": ("The export to CSV fails with an error since this morning.", "bug"),
    "blank-page": ("After login the page is blank and an error is in the console.", "bug"),
    "upload-fails": ("The upload fails with an error on large files.", "bug"),
    "paid-twice": ("I paid the March invoice twice. Can I get a refund?", "billing"),
    "wrong-invoice": ("The invoice of May shows a payment that I did not make.", "billing"),
    "refund-late": ("The refund of my last payment did not arrive.", "billing"),
    "invoice-copy": ("Please send me a copy of the invoice for the payment in June.", "billing"),
    "add-colleague": ("How do I add a colleague to my team?", "question"),
    "change-name": ("How do I change the name of my project?", "question"),
    "add-tag": ("How can I add or change a tag?", "question"),
}

_TICKET_PROMPT = """\
name: Kind of a support ticket
version: 1.0.0
model: sim:clerk-1
modelParameters:
  temperature: 0
messages:
  - role: system
    content: |
      Put the support ticket into one of these categories:
      - bug: something fails. There is an error. A page is blank.
      - billing: it is about an invoice, a payment or a refund.
      - question: how to add or change something.

      Answer with the category only, one word.
  - role: user
    content: |
      <ticket>
      {{ticket}}
      </ticket>
"""

_TICKET_EVAL = """\
from regauge import golden
from regauge.judges import equals, one_of


@golden("ticket-kind", judges=[one_of(["bug", "billing", "question"]), equals()])
def test_ticket_kind(result):
    result.check()
"""

_PYTEST = '[tool.pytest.ini_options]\naddopts = ["-p", "no:deepeval"]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended: its exit code (negative for a signal) and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    def tail(self, lines: int = 6) -> str:
        """The last lines, for a report."""
        return " | ".join(line for line in self.text.splitlines() if line.strip())[-160 * lines :]


class Project:
    """A directory with a project, and an environment that holds nothing of the caller's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root.parent / f".home-of-{root.name}"
        self.environ: dict[str, str] = {}

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert before in text, f"{name} holds no {before!r}"
        path.write_text(text.replace(before, after), encoding="utf-8")

    def env(self, **more: str) -> dict[str, str]:
        self.home.mkdir(exist_ok=True)
        environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
        bin_dir = str(Path(sys.executable).parent)
        return {
            **environ,
            "PATH": os.pathsep.join([bin_dir, environ.get("PATH", "")]),
            "HOME": str(self.home),
            "COLUMNS": "100",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "drill",
            "GIT_AUTHOR_EMAIL": "drill@localhost",
            "GIT_COMMITTER_NAME": "drill",
            "GIT_COMMITTER_EMAIL": "drill@localhost",
            **self.environ,
            **more,
        }

    def regauge(self, *args: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ended:
        return self.run([sys.executable, "-m", "regauge", *args], env=env, stdin=stdin)

    def pytest(self, *args: str, env: Mapping[str, str] | None = None) -> Ended:
        return self.run(pytest_command(*args), env=env)

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> Ended:
        """Run a command to its end; after four minutes it is killed, and says so by its code."""
        with self.start(command, env=env) as process:
            try:
                out, err = process.communicate(stdin, timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                kill_group(process.pid)
                out, err = process.communicate()
        return Ended(code=process.returncode, out=out, err=err)

    def start(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.env(**(env or {})),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def git(self, *args: str) -> str:
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", *args]
        done = subprocess.run(
            command, cwd=self.root, env=self.env(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"git {args}: {done.stderr}"
        return done.stdout.strip()

    def files(self, *suffixes: str) -> Iterator[Path]:
        """The project's files but those of git, with one of the suffixes, or all."""
        for path in sorted(self.root.rglob("*")):
            inside = ".git" not in path.relative_to(self.root).parts
            if inside and path.is_file() and (not suffixes or path.suffix in suffixes):
                yield path

    def last_rows(self) -> list[dict[str, object]]:
        """A row for each trial of the newest run."""
        runs = sorted((self.root / ".regauge" / "runs").iterdir())
        text = (runs[-1] / "trials.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def pytest_command(*args: str) -> list[str]:
    """Pytest with regauge and xdist; other plugins of this environment only take time."""
    others = {plugin.name for plugin in entry_points(group="pytest11")} - {"regauge", "xdist"}
    without = [word for name in sorted(others) for word in ("-p", f"no:{name}")]
    return [sys.executable, "-m", "pytest", *without, *args]


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def commit_all(project: Project, message: str = "x") -> None:
    project.git("add", "-A")
    project.git("commit", "-q", "--allow-empty", "-m", message)


def ticket_project(root: Path, *, pyproject: str = "") -> Project:
    """Ten tickets and the simulated model, in a repository whose base is `main`."""
    project = Project(root / "project")
    project.root.mkdir(parents=True)
    cases = [
        {"id": name, "inputs": {"ticket": ticket}, "expected": kind}
        for name, (ticket, kind) in TICKETS.items()
    ]
    project.write(
        {
            "pyproject.toml": _PYTEST + pyproject,
            "prompts/ticket-kind.prompt.yml": _TICKET_PROMPT,
            "fixtures/golden/ticket-kind.jsonl": _lines(cases),
            "evals/test_ticket_kind.py": _TICKET_EVAL,
            ".gitignore": ".regauge/\n__pycache__/\n",
        }
    )
    return project


def recorded_tickets(root: Path, **settings: str) -> Project:
    """The tickets with their recordings and a released prompt, committed on `main`."""
    project = ticket_project(root, **settings)
    project.git("init", "-q", "-b", "main")
    for step in (["bump", "ticket-kind"], ["record"]):
        ended = project.regauge(*step)
        assert ended.code == 0, ended.text
    commit_all(project, "base")
    return project


def copied(project: Project, root: Path) -> Project:
    """A copy of a project in a directory of a try."""
    copy = Project(root / "project")
    shutil.copytree(project.root, copy.root, symlinks=True)
    return copy


def stub_project(
    root: Path,
    base_url: str,
    *,
    inputs: Sequence[str],
    judges: str = "lambda output, case: True",
    files: Mapping[str, str] | None = None,
    settings: str = "",
    provider: str = "",
) -> Project:
    """Cases of one text each, whose outputs come from an endpoint of the drill's own.

    The request for case 7 holds the words `case 7:` and the text.
    """
    project = Project(root / "project")
    project.root.mkdir(parents=True)
    cases = [
        {"id": f"c{number}", "inputs": {"text": f"case {number}: {text}"}, "expected": text}
        for number, text in enumerate(inputs)
    ]
    project.write(
        {
            "pyproject.toml": _PYTEST
            + textwrap.dedent(f"""
                [tool.regauge]
                model = "stub:m-1"
                judge_model = "stub:j-1"
                {settings}
                [tool.regauge.providers.stub]
                base_url = "{base_url}"
                vary_seed = true
                {provider}
                """),
            "prompts/notes.prompt.yml": textwrap.dedent("""\
                name: Notes
                version: 1.0.0
                modelParameters:
                  temperature: 0
                  seed: 1
                messages:
                  - role: user
                    content: |
                      Repeat. {{text}}
                """),
            "fixtures/golden/notes.jsonl": _lines(cases),
            "evals/test_notes.py": textwrap.dedent(f"""\
                from regauge import golden
                from regauge.judges import *


                @golden("notes", judges=[{judges}])
                def test_notes(result):
                    result.check()
                """),
            ".gitignore": ".regauge/\n__pycache__/\n",
            **(files or {}),
        }
    )
    return project


def _lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
