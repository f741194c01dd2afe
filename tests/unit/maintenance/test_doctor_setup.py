"""What `regauge doctor` says of git and of prompt files."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.maintenance.doctor import check_git, check_prompts
from regauge.project import Project
from regauge.prompts import load_prompt, lock_of

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.maintenance.doctor import DoctorResult

PROMPT = "version: 1.0.0\nmodel: sim:clerk-1\nmessages:\n  - role: user\n    content: Hi\n"


def shown(result: DoctorResult) -> tuple[str, str, str]:
    return result.check, result.level, result.message


class Shop:
    """A project in a repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "prompts").mkdir(parents=True)
        (root / "pyproject.toml").write_text("[tool.regauge]\n")
        self.project = Project.find(root)

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def prompt(self, name: str, text: str = PROMPT, *, release: bool = True) -> None:
        (self.root / f"prompts/{name}.prompt.yml").write_text(text)
        if release:
            lock = lock_of(self.project.prompts_dir)
            lock.add(load_prompt(name, root=self.root)).save()

    def prompts(self) -> list[tuple[str, str, str]]:
        return [shown(result) for result in check_prompts(self.project)]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return Shop(tmp_path / "shop")


def test_the_state_of_the_repository_is_named(shop: Shop, tmp_path: Path):
    levels = []
    for commands in (
        [],
        [["init", "-q"]],
        [["add", "-A"], ["commit", "-q", "-m", "a"]],
        [["commit", "-q", "-m", "b", "--allow-empty"], ["status"]],
    ):
        for command in commands:
            shop.git(*command)
        levels.append(shown(check_git(shop.project))[1:])
    assert levels == [
        ("warning", "this is not a git repository: no older versions, no gate"),
        ("warning", "nothing is committed yet"),
        ("ok", "a repository; everything is committed"),
        ("ok", "a repository; everything is committed"),
    ]
    shop.prompt("a")
    assert shown(check_git(shop.project))[2] == "a repository; files differ from what is committed"
    source = f"file://{shop.root}"
    shop.git("clone", "-q", "--depth=1", source, str(tmp_path / "shallow"))
    result = check_git(Project.find(tmp_path / "shallow"))
    assert shown(result) == (
        "git",
        "warning",
        "a shallow clone: older versions of prompts are not in it",
    )
    assert result.fix == "git fetch --unshallow; in CI: fetch-depth: 0"


def test_released_prompts_are_counted(shop: Shop):
    assert shop.prompts() == [("prompts", "error", "there are no prompt files")]
    shop.prompt("a")
    assert shop.prompts() == [("prompts", "ok", "1 file loads, and is released")]
    shop.prompt("b")
    assert shop.prompts() == [("prompts", "ok", "2 files load, and are released")]


def test_a_project_of_targets_needs_no_prompt(shop: Shop):
    text = '[tool.regauge.targets.bot]\nkind = "python"\ncallable = "bot:ask"\n'
    (shop.root / "pyproject.toml").write_text(text)
    assert list(check_prompts(Project.find(shop.root))) == []


def test_errors_and_warnings_of_prompts_are_named(shop: Shop):
    shop.prompt("a", PROMPT.replace("content: Hi", "content: Hello"))
    shop.prompt("a", release=False)
    (found,) = shop.prompts()
    assert found[:2] == ("prompts", "error")
    assert "is still 1.0.0, which is released" in found[2]
    odd = "  tempratur: 0\n"
    shop.prompt("a", PROMPT.replace("Hi", "Hello") + f"modelParameters:\n{odd}", release=False)
    results = shop.prompts()
    assert {check for check, _, _ in results} == {"prompts"}
    assert [level for _, level, _ in results if level != "error"] == ["warning"]
    shop.prompt("b", PROMPT + f"modelParameters:\n{odd}")
    warnings = [message for _, level, message in shop.prompts() if level == "warning"]
    assert len(warnings) == 1
    assert warnings[0].startswith("2 warnings; the first: ")


def test_a_machine_without_git_is_an_error_of_git_and_of_the_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shop = Shop(tmp_path)
    shop.git("init", "-q")
    shop.prompt("first", release=False)
    monkeypatch.setenv("PATH", "")
    git = check_git(shop.project)
    (prompts, *_) = check_prompts(shop.project)
    assert (git.check, git.level, git.fix) == ("git", "error", "install git")
    assert (prompts.check, prompts.level) == ("prompts", "error")
    assert "git" in prompts.message
