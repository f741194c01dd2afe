"""Repositories whose files and settings name programs, and commands that read them."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from ._project import Project, commit_all, copied, recorded_tickets
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["GIT"]

_PROMPT = "prompts/ticket-kind.prompt.yml"
_CALLS: tuple[tuple[str, ...], ...] = (
    ("lint",),
    ("lint", "--base", "main"),
    ("log", "ticket-kind"),
    ("diff", "ticket-kind"),
    ("diff", "ticket-kind", "1.0.0"),
    ("diff", "ticket-kind", "main~1", "main"),
    ("show", "ticket-kind"),
    ("show", "ticket-kind@1.0.0"),
    ("show", _PROMPT),
    ("bump", "ticket-kind", "minor", "-m", "x"),
    ("doctor", "--offline"),
    ("gate", "main", "--dry-run"),
    ("gate", "main"),
    ("record", "--dry-run"),
    ("baseline", "update", "--dry-run"),
    ("refine", "ticket-kind", "--dry-run"),
    ("refine", "ticket-kind", "--branch", "repaired"),
    ("report", "--comment", "--dry-run"),
    (
        "runs",
        "list",
    ),
    ("log", "ticket-kind", "--runs"),
    ("pytest", "evals", "--record=none"),
    ("pytest", "evals", "--gate", "main"),
)


def _program(project: Project) -> str:
    """A program that leaves a trace, in a directory that git does not look into."""
    path = project.root.parent / "program.sh"
    path.write_text(
        f'#!/bin/sh\necho "$0 $@" >> "{project.root.parent}/started"\nexit 0\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def _started(project: Project) -> str:
    path = project.root.parent / "started"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _nested(project: Project, name: str, program: str) -> Path:
    """A repository below a directory of the project: its git files next to the project's."""
    project.git("init", "-q", "--bare", f"{name}/bare")
    directory = project.root / name
    for path in (directory / "bare").iterdir():
        shutil.move(str(path), directory / path.name)
    (directory / "bare").rmdir()
    for setting, value in {
        "core.bare": "false",
        "core.worktree": str(directory),
        "core.fsmonitor": program,
        "core.pager": program,
        "core.sshCommand": program,
        "diff.external": program,
    }.items():
        project.git("config", "-f", f"{name}/config", setting, value)
    return directory


def _nested_prompts(project: Project) -> None:
    _nested(project, "prompts", _program(project))


def _nested_golden(project: Project) -> None:
    _nested(project, "fixtures/golden", _program(project))


def _nested_evals(project: Project) -> None:
    _nested(project, "evals", _program(project))


def _nested_promisor(project: Project) -> None:
    """Its objects are not there, and its remote is a program."""
    program = _program(project)
    directory = _nested(project, "prompts", program)
    shutil.copytree(project.root / ".git" / "objects", directory / "objects", dirs_exist_ok=True)
    head = project.git("rev-parse", "HEAD")
    (directory / "HEAD").write_text(f"{head}\n", encoding="utf-8")
    tree = project.git("rev-parse", "HEAD^{tree}")
    (directory / "objects" / tree[:2] / tree[2:]).unlink(missing_ok=True)
    for setting, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program} %S",
        "protocol.ext.allow": "always",
    }.items():
        project.git("config", "-f", "prompts/config", setting, value)


def _settings(project: Project) -> None:
    program = _program(project)
    for setting in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.alternateRefsCommand",
        "core.gitProxy",
        "sequence.editor",
        "diff.external",
        "gpg.program",
        "gpg.ssh.program",
        "credential.helper",
        "pager.log",
        "pager.diff",
        "pager.show",
        "interactive.diffFilter",
        "uploadpack.packObjectsHook",
        "trailer.x.command",
    ):
        project.git("config", setting, program)
    for name in ("log", "diff", "status", "show", "rev-parse", "cat-file", "ls-files"):
        project.git("config", f"alias.{name}", f"!{program}")
    for setting in ("log.showSignature", "commit.gpgSign", "tag.gpgSign", "push.gpgSign"):
        project.git("config", setting, "true")


def _attributes(project: Project) -> None:
    """Filters, textconv, diff and merge drivers for every file."""
    program = _program(project)
    for setting in (
        *("filter.x.clean", "filter.x.smudge", "filter.x.process"),
        *("diff.x.textconv", "diff.x.command", "merge.x.driver"),
    ):
        project.git("config", setting, program)
    project.git("config", "filter.x.required", "true")
    info = project.root / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("* filter=x diff=x merge=x\n", encoding="utf-8")
    (project.root / _PROMPT).touch()


def _hooks(project: Project) -> None:
    program = _program(project)
    for directory in (project.root / ".git" / "hooks", project.root / "hooks"):
        directory.mkdir(exist_ok=True)
        for name in (
            *("post-checkout", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
            *("reference-transaction", "post-index-change", "pre-push", "pre-auto-gc"),
            *("fsmonitor-watchman", "query-watchman", "post-rewrite", "applypatch-msg"),
        ):
            shutil.copy(program, directory / name)
    project.git("config", "core.hooksPath", "hooks")


def _included(project: Project) -> None:
    """Settings of a file in the work tree, and of the work tree's own settings."""
    program = _program(project)
    text = f"[core]\n\tfsmonitor = {program}\n[diff]\n\texternal = {program}\n"
    project.write({"prompts/settings": text})
    project.git("config", "include.path", "../prompts/settings")
    project.git("config", "includeIf.gitdir:/.path", "../prompts/settings")
    project.git("config", "extensions.worktreeConfig", "true")
    (project.root / ".git" / "config.worktree").write_text(text, encoding="utf-8")


def _elsewhere(project: Project) -> None:
    """`.git` is a file that names a directory in the work tree."""
    program = _program(project)
    shutil.move(str(project.root / ".git"), project.root / "prompts" / "repository")
    (project.root / ".git").write_text("gitdir: prompts/repository\n", encoding="utf-8")
    for setting in ("core.fsmonitor", "diff.external", "core.pager"):
        project.git("config", setting, program)


def _promisor(project: Project) -> None:
    """The project's own history lacks a blob, and its remote is a program."""
    program = _program(project)
    blob = project.git("rev-parse", f"main~1:{_PROMPT}")
    (project.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    for setting, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program} %S",
        "remote.origin.uploadpack": program,
        "remote.origin.vcs": "x",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        project.git("config", setting, value)


def _submodule(project: Project) -> None:
    """A submodule whose own settings name a program."""
    program = _program(project)
    inner = Project(project.root / "prompts" / "inner")
    inner.root.mkdir()
    inner.git("init", "-q", "-b", "main")
    inner.write({"a.txt": "a"})
    commit_all(inner)
    for setting in ("core.fsmonitor", "diff.external"):
        inner.git("config", setting, program)
    project.write({".gitmodules": '[submodule "x"]\n\tpath = prompts/inner\n\turl = ./x\n'})
    project.git("config", "submodule.x.update", f"!{program}")
    project.git("config", "status.submoduleSummary", "true")
    project.git("config", "diff.submodule", "diff")
    project.git("add", "-A")


_REPOSITORIES: dict[str, Callable[[Project], None]] = {
    "a repository in prompts/": _nested_prompts,
    "a repository in fixtures/golden/": _nested_golden,
    "a repository in evals/": _nested_evals,
    "a partial clone in prompts/": _nested_promisor,
    "settings": _settings,
    "attributes": _attributes,
    "hooks": _hooks,
    "included settings": _included,
    "a repository elsewhere": _elsewhere,
    "a partial clone": _promisor,
    "a submodule": _submodule,
}
# Plain git in the same place, which does start the program: the repository is hostile.
_PLAIN: dict[str, tuple[str, ...]] = {
    "a repository in prompts/": ("-C", "prompts", "status"),
    "a repository in fixtures/golden/": ("-C", "fixtures/golden", "status"),
    "a repository in evals/": ("-C", "evals", "status"),
    "settings": ("status",),
    "attributes": ("diff", "--no-index", "pyproject.toml", _PROMPT),
    "included settings": ("status",),
    "a repository elsewhere": ("status",),
    "a partial clone": ("show", f"main~1:{_PROMPT}"),
    "a submodule": ("-C", "prompts/inner", "status"),
}


def _tries(shared: Path) -> Iterator[Try]:
    base = recorded_tickets(shared)
    base.edit(_PROMPT, "one word.", "in one word.")
    assert base.regauge("bump", "ticket-kind", "minor", "-m", "In").code == 0
    assert base.regauge("record").code == 0
    commit_all(base, "in")
    for repository, make in _REPOSITORIES.items():
        for call in _CALLS:
            name = f"{repository}: {' '.join(call)}"
            yield Try(name=name, failure=partial(_runs_a_program, base, make, call))
        if repository in _PLAIN:
            yield Try(
                name=f"{repository}: plain git starts it",
                failure=partial(_harmless, base, make, _PLAIN[repository]),
            )


def _runs_a_program(
    base: Project, make: Callable[[Project], None], call: tuple[str, ...], root: Path
) -> str:
    project = copied(base, root)
    make(project)
    _forget(project)
    ended = project.pytest(*call[1:]) if call[0] == "pytest" else project.regauge(*call)
    if "Traceback (most recent call last)" in ended.err:
        return f"traceback: {ended.tail(2)}"
    return _started(project)[:300]


def _harmless(
    base: Project, make: Callable[[Project], None], call: tuple[str, ...], root: Path
) -> str:
    project = copied(base, root)
    make(project)
    _forget(project)
    project.run(["git", *call])
    return "" if _started(project) else "plain git starts nothing, so the drill shows nothing"


def _forget(project: Project) -> None:
    """What git started while the repository was made hostile."""
    (project.root.parent / "started").unlink(missing_ok=True)


GIT = Drill(
    name="git",
    about="commands next to a hostile repository that started a program of it",
    tries=_tries,
    quick=20,
)
