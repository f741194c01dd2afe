"""`regauge show`, `log` and `diff` of one prompt, in this process."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.errors import RegaugeError

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = """\
version: 1.0.0
modelParameters: {tempratur: 1}
messages:
  - {role: user, content: hi}
  - role: assistant
    tool_calls: [{id: c1, name: look, arguments: {host: a}}]
  - {role: tool, tool_call_id: c1, content: up}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\n")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/triage.prompt.yml").write_text(PROMPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def run(*arguments: str) -> str:
    return CliRunner().invoke(group, arguments, catch_exceptions=False).output


def test_a_prompt_is_shown_with_its_tool_calls_and_warnings(root: Path):
    output = run("show", "triage")
    assert '\nassistant (line 5)\ncalls look({"host": "a"}) as c1\n' in output
    assert "warning: prompts/triage.prompt.yml:2: " in output


def test_a_prompt_without_versions_names_the_command_that_makes_one(root: Path):
    (root / "prompts/triage.prompt.yml").write_text(PROMPT.replace("version: 1.0.0\n", ""))
    git(root, "init", "-q", "-b", "main")
    assert "triage has no versions yet: regauge bump triage major" in run("log", "triage")
    with pytest.raises(RegaugeError, match="nothing to compare with"):
        run("diff", "triage")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    text = (root / "prompts/triage.prompt.yml").read_text()
    (root / "prompts/triage.prompt.yml").write_text(text.replace("content: hi", "content: ho"))
    output = run("diff", "triage")
    assert "--- triage@HEAD\n+++ prompts/triage.prompt.yml\n" in output
    assert "+  - {role: user, content: ho}" in output


def test_a_log_outside_of_git_has_no_days_and_says_why(root: Path):
    note = "note: not in a git repository, so no days and no commits\n"
    assert run("log", "triage").startswith(note)
    git(root, "init", "-q", "-b", "main")
    assert note not in run("log", "triage")


def test_an_eval_names_its_target_unless_evals_of_the_name_test_several(root: Path):
    (root / "app.py").write_text("def run(q): return q\ndef other(q): return q\n")
    (root / "evals").mkdir()
    evals = [
        f'@golden("{name}", target="app:{target}")\ndef test_{name}_{target}(result): ...\n'
        for name, target in [("orders", "run"), ("orders", "other"), ("stock", "other")]
    ]
    (root / "evals/test_app.py").write_text("from regauge import golden\n" + "".join(evals))
    assert "app:other" in run("show", "stock")
    assert "app:run" in run("show", "app:run")
    several = "evals named 'orders' test several targets: app:other, app:run\n  fix: name one"
    with pytest.raises(RegaugeError, match=several):
        run("show", "orders")


def test_the_identity_of_a_target_is_shown_with_its_lists_and_files(root: Path):
    (root / "pyproject.toml").write_text(
        '[tool.regauge.targets.tool]\nkind = "command"\nargv = ["cat", "é"]\nversion = "2"\n'
    )
    (root / "evals").mkdir()
    (root / "evals/test_tool.py").write_text(
        'from regauge import golden\n@golden("orders", target="tool")\ndef test_tool(result): ...\n'
    )
    lines = run("show", "tool").splitlines()
    assert lines[0] == "tool 2"
    shown = dict(line.split(maxsplit=1) for line in lines[1:])
    assert shown["argv"] == '["cat", "é"]'
    assert shown["kind"] == "command"
    assert shown["evals"] == "orders"
