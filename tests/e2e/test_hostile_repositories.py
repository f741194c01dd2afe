"""Programs that a repository names for git: regauge starts none of them, in any command."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.git import git
from tests.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROMPT = "prompts/ticket-kind.prompt.yml"
NAME = "ticket-kind"
HOOKS = (
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-update",
    "pre-auto-gc",
    "pre-commit",
    "pre-push",
    "prepare-commit-msg",
    "reference-transaction",
    "update",
)
# What people run in a checkout of others; none of it asks for a program to be started.
CALLS = (
    ("lint", "--base", "HEAD~1"),
    ("log", NAME),
    ("diff", NAME, "1.0.0"),
    ("diff", NAME, "HEAD~1", "HEAD"),
    ("new", "case", NAME, "x", "--from-run", "latest", "--case", "wrong-price", "--dry-run"),
    ("show", NAME),
    ("show", f"{NAME}@1.0.0"),
    ("doctor", "--offline"),
    ("bump", NAME, "minor", "-m", "Edit"),
    ("gate", "HEAD~1"),
    ("refine", NAME, "--dry-run"),
    ("record", "--dry-run"),
    ("log", NAME, "--runs"),
    ("new", "workflow", "baseline", "--install", "make install"),
    ("baseline", "update", "--dry-run"),
)


class Hostile:
    """A project with two versions of a prompt, in a repository that names programs for git."""

    def __init__(self, tmp: Path, project: Path) -> None:
        self.root = tmp / "clone"
        shutil.copytree(project, self.root)
        self.place = Place(self.root)
        self.log = tmp / "ran"
        self.home = tmp / "home"
        self.home.mkdir()

    def program(self, kind: str) -> str:
        """A command for a shell: it leaves a line in the log and passes its input on."""
        return f"echo {kind} >>{self.log}; cat"

    def script(self, kind: str, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{self.program(kind)}\n")
        path.chmod(0o755)
        return path

    def git(self, *words: str, cwd: str = ".", check: bool = True) -> str:
        """Git as users run it, which does start the programs."""
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.test", *words],
            cwd=self.root / cwd,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ran(self) -> list[str]:
        """The programs that were started since the last time."""
        kinds = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return kinds

    def settings(self) -> str:
        """Settings of git with every program that it knows."""
        run = {kind: self.program(kind).replace('"', '\\"') for kind in ("conv", "clean", "smudge")}
        script = self.script("program", self.log.parent / "program.sh")
        return f"""
[core]
    fsmonitor = {self.script("fsmonitor", self.log.parent / "fsmonitor.sh")}
    hooksPath = {self.log.parent / "hooks"}
    sshCommand = {script}
    gitProxy = {script}
    askPass = {script}
    editor = {script}
    pager = {script}
    alternateRefsCommand = {script}
[credential]
    helper = {script}
[credential "https://github.com"]
    helper = {script}
[diff]
    external = {script}
[diff "evil"]
    command = {script}
    textconv = "{run["conv"]}"
[filter "evil=x"]
    clean = "{run["clean"]}"
    smudge = "{run["smudge"]}"
    required = true
[filter "evil"]
    process = {script}
    required = true
[gpg]
    program = {script}
[log]
    showSignature = true
[trailer "Refinement-tree"]
    command = {script}
[pager]
    log = {script}
    diff = {script}
[alias]
    log = "!{script}"
[protocol "ext"]
    allow = always
"""

    def hooks(self, directory: Path) -> None:
        for name in HOOKS:
            self.script(name, directory / name)

    def bare(self, directory: Path) -> None:
        """Make a directory a bare repository whose objects come from a program."""
        source = self.log.parent / "source"
        subprocess.run(["git", "clone", "-q", "--bare", str(self.root), str(source)], check=True)
        subprocess.run(["git", "-C", str(source), "unpack-objects", "-q"], input=b"", check=False)
        (source / "packed-refs").touch()
        blob = self.git("rev-parse", f"HEAD~1:{PROMPT}")
        (source / "objects" / blob[:2] / blob[2:]).unlink()
        for name in ("HEAD", "config", "objects", "refs", "packed-refs"):
            target = directory / name
            (shutil.copytree if (source / name).is_dir() else shutil.copy)(source / name, target)
        self.promise(directory / "config")

    def promise(self, config: Path) -> None:
        """Name a program that objects are fetched from."""
        text = config.read_text().replace("repositoryformatversion = 0", "")
        text += "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n"
        text += f'[remote "evil"]\n\turl = ext::sh -c echo% promisor% >>{self.log}\n'
        config.write_text(f"{text}\tpromisor = true\n{self.settings()}")


def bare_repository_with_prompts(hostile: Hostile) -> None:
    hostile.bare(hostile.root / "prompts")
    hostile.git("-C", "prompts", "log", "-p", "--follow", "--", PROMPT, check=False)


def bare_repository_with_the_project(hostile: Hostile) -> None:
    """The project is a folder of a repository, and the folder holds a bare one."""
    mono = hostile.root.parent / "mono"
    mono.mkdir()
    hostile.root.rename(mono / "app")
    hostile.root = mono / "app"
    hostile.place = Place(hostile.root)
    shutil.copytree(hostile.root / ".git", hostile.root.parent / ".git")
    hostile.git("add", "-A", cwd="..")
    hostile.git("commit", "-q", "-m", "Move", cwd="..")
    hostile.bare(hostile.root)
    shutil.rmtree(hostile.root / ".git")
    hostile.git("log", "-p", "--", PROMPT, check=False)


def settings_in_many_files(hostile: Hostile) -> None:
    """A submodule has them, an included file, and a file of the work tree."""
    for arrange in (
        hooks_and_objects_from_elsewhere,
        submodule,
        settings_in_an_included_file,
        settings_of_one_work_tree,
    ):
        arrange(hostile)
        assert hostile.ran(), arrange
    hostile.git("status", check=False)


def settings_in_an_included_file(hostile: Hostile) -> None:
    hostile.place.write(".gitattributes", "* filter=evil=x diff=evil\n*.jsonl filter=evil\n")
    hostile.place.write("settings", hostile.settings())
    hostile.git("config", "include.path", "../settings")
    (hostile.root / ".git/info/attributes").write_text("* diff=evil\n")
    hostile.git("diff", check=False)


def settings_of_one_work_tree(hostile: Hostile) -> None:
    hostile.git("config", "extensions.worktreeConfig", "true")
    (hostile.root / ".git/config.worktree").write_text(hostile.settings())
    hostile.git("status", check=False)


def hooks_and_objects_from_elsewhere(hostile: Hostile) -> None:
    hostile.hooks(hostile.root / ".git/hooks")
    hostile.hooks(hostile.root / "hooks")
    hostile.git("config", "core.hooksPath", "hooks")
    other = hostile.root / "fixtures/other"
    shutil.copytree(hostile.root / ".git/objects", other)
    (hostile.root / ".git/objects/info/alternates").write_text(f"{other}\n")
    hostile.git("update-ref", "refs/heads/x", "HEAD")


def git_file_in_prompts(hostile: Hostile) -> None:
    shutil.copytree(hostile.root / ".git", hostile.root / "fixtures/git")
    with (hostile.root / "fixtures/git/config").open("a") as config:
        config.write(hostile.settings())
    hostile.place.write("prompts/.git", "gitdir: ../fixtures/git\n")
    hostile.git("status", cwd="prompts", check=False)


def git_file_of_the_project(hostile: Hostile) -> None:
    (hostile.root / ".git").rename(hostile.root / "fixtures/git")
    with (hostile.root / "fixtures/git/config").open("a") as config:
        config.write(hostile.settings())
    hostile.place.write(".git", "gitdir: fixtures/git\n")
    hostile.git("status", check=False)


def submodule(hostile: Hostile) -> None:
    source = hostile.log.parent / "module"
    subprocess.run(["git", "clone", "-q", str(hostile.root), str(source)], check=True)
    hostile.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
        *(str(source), "fixtures/module"),
    )
    hostile.git("commit", "-q", "-m", "Module")
    with (hostile.root / ".git/modules/fixtures/module/config").open("a") as config:
        config.write(hostile.settings())
    (hostile.root / "fixtures/module/evals/conftest.py").write_text("changed\n")
    hostile.git("config", "diff.ignoreSubmodules", "none")
    hostile.git("status", check=False)


def partial_clone(hostile: Hostile) -> None:
    """Of two remotes: one is a program, and a program serves the other's directory."""
    blob = hostile.git("rev-parse", f"HEAD~1:{PROMPT}")
    (hostile.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    hostile.promise(hostile.root / ".git/config")
    hostile.git("config", "remote.other.url", str(hostile.root))
    hostile.git("config", "remote.other.uploadpack", f"echo uploadpack >>{hostile.log}; false")
    hostile.git("config", "remote.other.promisor", "true")
    hostile.git("log", "-p", "--", PROMPT, check=False)
    assert {"promisor", "uploadpack"} <= {*hostile.log.read_text().split()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two committed versions and recordings; tests copy it."""
    root = tmp_path_factory.mktemp("project") / "clone"
    root.mkdir()
    place = Place(root)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.test", "-C", str(root))
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    place.regauge("init", "--yes")
    place.evals("-p", "no:cacheprovider")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "First"], check=True)
    file = root / PROMPT
    file.write_text(file.read_text().replace("- bug: something", "- bug: anything"))
    place.regauge("bump", NAME, "patch", "-m", "Reword")
    subprocess.run([*git, "commit", "-q", "-a", "-m", "Second"], check=True)
    return root


@pytest.fixture
def hostile(tmp_path: Path, project: Path) -> Hostile:
    return Hostile(tmp_path, project)


@pytest.mark.parametrize(
    "arrange",
    [
        bare_repository_with_prompts,
        bare_repository_with_the_project,
        settings_in_many_files,
        git_file_in_prompts,
        git_file_of_the_project,
        partial_clone,
    ],
    ids=lambda arrange: arrange.__name__,
)
def test_no_command_starts_a_program_of_the_repository(
    hostile: Hostile, arrange: Callable[[Hostile], None]
):
    arrange(hostile)
    assert hostile.ran(), "git itself starts none here, so this shows nothing"
    started: dict[str, list[str]] = {}
    for call in CALLS:
        # A file whose time changed is read again, through filters.
        (hostile.root / PROMPT).touch()
        done = hostile.place.process("regauge", *call)
        assert "Traceback" not in done.stderr, (call, done.stderr)
        started[" ".join(call)] = hostile.ran()
    hostile.place.process("pytest", "evals", "-q")
    started["pytest evals"] = hostile.ran()
    assert {call: kinds for call, kinds in started.items() if kinds} == {}


def test_versions_are_found_next_to_a_bare_repository(hostile: Hostile):
    bare_repository_with_prompts(hostile)
    log = hostile.place.regauge("log", NAME)
    assert hostile.git("rev-parse", "--short=9", "HEAD~1") in log
    assert "- bug: anything" in hostile.place.regauge("diff", NAME, "1.0.0")


@pytest.mark.parametrize("file", ["config", "config.worktree"])
@pytest.mark.parametrize("linked", [False, True])
def test_settings_that_are_written_while_a_command_runs_start_no_program(
    hostile: Hostile, file: str, *, linked: bool
):
    """Settings are read once; those that are new are read again."""
    top, directory = hostile.root, hostile.root / ".git"
    settings = directory / file
    hostile.git("config", "extensions.worktreeConfig", "true")
    if linked:
        top = top.parent / "linked"
        hostile.git("worktree", "add", "-q", "--detach", str(top))
        settings = directory / ("config" if file == "config" else f"worktrees/linked/{file}")
    (top / ".gitattributes").write_text("*.yml filter=evil\n")
    for more in ("", hostile.settings()):
        settings.write_text((settings.read_text() if settings.exists() else "") + more)
        (top / PROMPT).touch()
        assert b".gitattributes" in git(top, "status", "--porcelain")
        assert hostile.ran() == []
    (top / PROMPT).touch()
    hostile.git("status", cwd=str(top), check=False)
    assert hostile.ran()
