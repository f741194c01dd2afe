"""A target of the base version: its code, its deployment or its outputs, called for the base."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import GitError, ProviderError
from regauge.git import git
from regauge.project import CommandTarget, HttpTarget, PythonTarget
from regauge.targets import CommitFiles, load_target

if TYPE_CHECKING:
    from regauge.gate.base._commit import BaseCommit
    from regauge.targets import Target

__all__ = ["Checkout", "target_of_base"]


class Checkout:
    """The files of a commit in a directory of their own, a detached worktree; made when needed."""

    def __init__(self, root: Path, commit: str, *, prefix: str) -> None:
        self._root = root
        self._commit = commit
        self._prefix = prefix
        self._directory: Path | None = None

    def project(self) -> Path:
        """The project's root in it.

        Raises:
            ProviderError: It cannot be made.
        """
        if self._directory is None:
            directory = Path(tempfile.mkdtemp(prefix="regauge-base-")).resolve()
            try:
                git(self._root, "worktree", "add", "--detach", str(directory), self._commit)
            except GitError as error:
                shutil.rmtree(directory, ignore_errors=True)
                raise ProviderError(
                    f"the code of the base cannot be checked out: {error}", kind="unavailable"
                ) from error
            self._directory = directory
        return self._directory / self._prefix

    def remove(self) -> None:
        """Remove it, if it was made."""
        directory, self._directory = self._directory, None
        if directory is None:
            return
        try:
            git(self._root, "worktree", "remove", "--force", str(directory))
        except GitError:
            shutil.rmtree(directory, ignore_errors=True)


def target_of_base(target: Target, at: BaseCommit) -> Target | None:
    """A target as the base version has it; None where the base has no such target.

    A function and a program run in a checkout of the base; an endpoint is that which `base` names;
    recorded outputs are those of the base.

    Raises:
        PromptError: A prompt that it declares cannot be read there.
        DatasetError: Its outputs cannot be read there.
    """
    project = at.project
    inline = isinstance(target.settings, PythonTarget) and target.settings.callable == target.name
    settings = at.settings.targets.get(target.name, target.settings if inline else None)
    if settings is None:
        return None
    files = CommitFiles(repository=at.repository, commit=at.commit, prefix=at.prefix)
    base = load_target(
        target.name, settings, root=project.root, files=files, missing_ok=True, like=target
    )
    if inline and not any(_digests(base)):
        return None  # the base has no such module
    if isinstance(settings, PythonTarget | CommandTarget):
        return replace(base, checkout=at.checkout.project)
    if isinstance(settings, HttpTarget):
        name = settings.base or (
            target.settings.base if isinstance(target.settings, HttpTarget) else None
        )
        called = at.settings.targets.get(name or "") or project.settings.targets.get(name or "")
        if called is None:
            why = f"no target {name!r} is declared" if name else "the target has no `base`"
            fix = "name the target that is the deployment of the base as `base`"
            return replace(base, unavailable=f"the base has no deployment: {why}\n  fix: {fix}")
        return replace(base, called=called)
    return base


def _digests(target: Target) -> list[object]:
    files = target.identity["files"]
    return [*files.values()] if isinstance(files, dict) else []
