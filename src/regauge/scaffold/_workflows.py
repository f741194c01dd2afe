"""Workflows of GitHub Actions, fitted to the repository they are written into."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import yaml

from regauge.errors import GitError
from regauge.git import run_git, work_tree
from regauge.scaffold._piece import Piece, template

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.project import Project
    from regauge.scaffold._install import Install

__all__ = ["WORKFLOWS", "Repository", "WorkflowContext", "workflow", "workflow_path"]

WORKFLOWS = ("evals", "comment", "baseline", "refine")
_FOLDER = ".github/workflows"
_MAIN = "branches: [main]"
_KEY = "OPENAI_API_KEY"
_PRICES = "[tool.regauge.providers.openai]"
_INSTALL = "run: INSTALL"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What workflows have to know of their repository.

    Attributes:
        branch: The default branch, as far as git knows it here; `main` where it does not.
        prefix: Where the project is below the root of the repository, with a slash at its end;
            empty where it is the root, or where there is no repository yet.
    """

    branch: str = "main"
    prefix: str = ""

    @classmethod
    def of(cls, root: Path) -> Repository:
        """The repository that a directory is in."""
        there = _said(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
        branch = there.partition("/")[2]
        if not branch:
            known = _said(root, "for-each-ref", "--format=%(refname:short)", "refs/heads")
            current = _said(root, "symbolic-ref", "--short", "HEAD")
            usual = (name for name in ("main", "master") if name in known.splitlines())
            branch = next(usual, current or "main")
        top = work_tree(root)
        inside = root.resolve().relative_to(top).as_posix() if top is not None else "."
        return cls(branch=branch, prefix="" if inside == "." else f"{inside}/")

    @property
    def notes(self) -> list[str]:
        """What keeps workflows that are written here from running, if anything does."""
        if not self.prefix:
            return []
        note = (
            f"GitHub runs workflows at the root of a repository alone: move {self.prefix}{_FOLDER}"
            f" there, and give their jobs `working-directory: {self.prefix.rstrip('/')}`"
        )
        return [note]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContext:
    """What a workflow takes from its project.

    Attributes:
        repository: Where it will run.
        install: Installs regauge.
        provider: Of the project's model, as `[tool.regauge.providers]` names it.
        keys: Variables with keys of providers, and the secrets of the repository with them.
    """

    repository: Repository
    install: Install
    provider: str = "openai"
    keys: tuple[str, ...] = (_KEY,)

    @classmethod
    def of_project(cls, project: Project, *, repository: Repository, install: Install) -> Self:
        """The context of workflows in a project.

        Raises:
            ConfigError: The settings cannot be read.
        """
        settings = project.settings
        provider = str(settings.model or "").partition(":")[0]
        declared = settings.providers
        named = [
            name
            for settings in declared.values()
            for name in (settings.api_key_env, *settings.headers_env.values())
            if name is not None and _VARIABLE.fullmatch(name)
        ]
        first = declared[provider].api_key_env if provider in declared else None
        # openai is there without being declared.
        if not named or (provider == "openai" and "openai" not in declared):
            named.insert(0, _KEY)
        elif first in named:
            named.insert(0, first)
        return cls(
            repository=repository,
            install=install,
            provider=provider if first is not None else "openai",
            keys=tuple(dict.fromkeys(named)),
        )


def workflow(name: str, context: WorkflowContext) -> Piece:
    """The file of one of `WORKFLOWS`."""
    branch = context.repository.branch
    quoted = branch if _PLAIN.fullmatch(branch) else json.dumps(branch)
    lines: list[str] = []
    for line in template(f"{name}.yml").splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == _INSTALL:
            lines += _run(context.install.script, indent)
        elif line.strip().startswith(f"{_KEY}: "):
            # The token of the job has its own line where a step writes to GitHub.
            keys = [key for key in context.keys if name == "evals" or key != "GITHUB_TOKEN"]
            lines += [line.replace(_KEY, key) for key in keys]
        else:
            lines.append(line)
    text = "".join(f"{line}\n" for line in lines)
    text = text.replace(_MAIN, f"branches: [{quoted}]")
    text = text.replace(_PRICES, f"[tool.regauge.providers.{context.provider}]")
    return Piece(path=workflow_path(name), text=text)


def workflow_path(name: str) -> str:
    """The path of a workflow below the root."""
    return f"{_FOLDER}/{name}.yml"


def _run(script: str, indent: str) -> list[str]:
    """A script as the value of `run`, in one line where YAML reads the same text back."""
    line = f"run: {script}"
    try:
        plain = "\n" not in script and yaml.safe_load(line) == {"run": script}
    except yaml.YAMLError:
        plain = False
    if plain:
        return [f"{indent}{line}"]
    block = [f"{indent}  {part}" if part else "" for part in script.split("\n")]
    return [f"{indent}run: |", *block]


def _said(root: Path, *command: str) -> str:
    try:
        done = run_git(root, *command)
    except GitError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
