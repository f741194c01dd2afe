"""A proposal as a commit on a branch of its own; the working tree is left alone."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import GitError, UsageError
from regauge.prompts import Repository, lock_of, parse_prompt
from regauge.refine.outcome._apply import check_unchanged
from regauge.refine.outcome._git import git_says
from regauge.refine.trail import read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.refine.trail import Run

__all__ = [
    "Branch",
    "check_branch",
    "check_not_committed",
    "commit_on_branch",
    "current_branch",
    "is_proposal",
    "uncommitted",
]

# The last lines of our commits. With the tree in it, one that was amended is no longer ours.
_RUN, _TREE = "Refinement-run", "Refinement-tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch with one commit more than where it began."""

    name: str
    commit: str


def commit_on_branch(
    run: Run, path: Path, *, name: str, message: str, renew: bool = False
) -> Branch:
    """Commit what a run proposes on a branch of its own, from the current commit.

    Neither the working tree nor the index is touched, so what is not committed yet stays so.

    Args:
        run: Proposes a revision.
        path: The prompt's file.
        name: Of the branch; empty for `refine/<prompt>-<run>`.
        message: Of the commit.
        renew: Whether an earlier proposal on that branch gives way to this one.

    Raises:
        UsageError: The run proposes nothing, the prompt changed since, the last commit says
            already what is proposed, or there is such a branch already.
        GitError: git cannot do it.
    """
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to commit")
    head, files = check_not_committed(run, path)
    name = name or f"refine/{path.name.removesuffix('.prompt.yml')}-{run.id}"
    root = path.resolve().parent
    there = git_says(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}", check=False)
    if there and not (renew and is_proposal(path, there)):
        raise UsageError(
            f"there is a branch {name!r} already\n"
            f"  fix: regauge refine apply {run.id} --branch ANOTHER-NAME"
        )
    tree = _tree(root, head, files)
    if there and _same(root, there, tree=tree, head=head):
        return Branch(name=name, commit=there)
    if there and current_branch(path) == name:
        raise UsageError(
            f"the branch {name!r} is checked out, so it cannot be renewed\n"
            "  fix: git switch to the branch that the proposal is for"
        )
    words = f"{message.rstrip()}\n\n{_RUN}: {run.id}\n{_TREE}: {tree}\n"
    commit = git_says(root, "commit-tree", tree, "-p", head, given=words.encode())
    git_says(root, "update-ref", f"refs/heads/{name}", commit, there or "0" * len(commit))
    return Branch(name=name, commit=commit)


def check_branch(path: Path, name: str, *, renew: bool = False) -> None:
    """See that a branch of a name can be made.

    Args:
        path: A prompt's file, in the repository.
        name: Of the branch.
        renew: Whether an earlier proposal on that branch gives way.

    Raises:
        UsageError: git allows no such name, or there is such a branch, or one that stands in its
            way.
        GitError: It is in no repository.
    """
    root = path.resolve().parent
    git_says(root, "rev-parse", "--git-dir")
    try:
        git_says(root, "check-ref-format", f"refs/heads/{name}")
    except GitError as error:
        message = f"git allows no branch of the name {name!r}\n  fix: a name such as refine/mine"
        raise UsageError(message) from error
    parts = name.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts))]
    names = git_says(root, "for-each-ref", "--format=%(refname)", "refs/heads/").split()
    for known in (one.removeprefix("refs/heads/") for one in names):
        if known == name and renew and is_proposal(path, f"refs/heads/{name}"):
            continue
        if known in {name, *above} or known.startswith(f"{name}/"):
            raise UsageError(f"there is a branch {known!r} already\n  fix: --branch ANOTHER-NAME")


def check_not_committed(run: Run, path: Path) -> tuple[str, dict[str, bytes]]:
    """See that a commit of what a run proposes would not be empty.

    Returns:
        The last commit, and what the files are to be, by their paths in the repository.

    Raises:
        UsageError: The last commit says it already, or the prompt changed since the run began.
        TrailError: The run's trail or its files are not what it wrote.
        GitError: There is no commit.
    """
    read_whole(run)
    check_unchanged(run, path)
    repository = Repository.at(path.resolve().parent)
    head = repository.commit("HEAD")
    text = run.revision.read_bytes()
    files = {repository.inside(path): text}
    if (run.directory / "prompts.lock").is_file():
        lock = lock_of(path)
        released = lock.add(parse_prompt(text.decode(), path=path))
        files[repository.inside(lock.path)] = str(released).encode()
    if repository.read_all((head, file) for file in files) != [*files.values()]:
        return head, files
    said = f"HEAD says already what run {run.id} proposes"
    if path.read_bytes() == text:
        raise UsageError(f"{said}, and so does {path}: there is nothing to commit")
    raise UsageError(
        f"{said}: the fault is only in the working tree, so there is nothing to commit\n"
        f"  fix: regauge refine apply {run.id}; or git checkout HEAD -- {path}"
    )


def current_branch(path: Path) -> str:
    """The branch that is checked out; empty where a commit is."""
    return git_says(path.resolve().parent, "symbolic-ref", "-q", "--short", "HEAD", check=False)


def is_proposal(path: Path, commit: str) -> bool:
    """Whether a commit is a proposal as `commit_on_branch` made it: nobody's work is in it."""
    root = path.resolve().parent
    said = git_says(
        root, "log", "-1", f"--format=%(trailers:key={_TREE},valueonly)", commit, check=False
    )
    return bool(said) and said == _tree_of(root, commit)


def uncommitted(path: Path) -> list[Path]:
    """Those of a prompt's file and its lock that differ from the last commit.

    Raises:
        GitError: It is in no repository.
    """
    root = path.resolve().parent
    files = [path.resolve(), lock_of(path).path.resolve()]
    return [
        file
        for file in files
        if git_says(root, "status", "--porcelain", "--ignore-submodules=dirty", "--", str(file))
    ]


def _same(root: Path, commit: str, *, tree: str, head: str) -> bool:
    parent = git_says(root, "rev-parse", "--verify", "--quiet", f"{commit}~1", check=False)
    return parent == head and _tree_of(root, commit) == tree


def _tree_of(root: Path, commit: str) -> str:
    return git_says(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}", check=False)


def _tree(root: Path, head: str, files: Mapping[str, bytes]) -> str:
    """The tree of `head` with other contents of some files, made in an index of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        own = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        top = Path(git_says(root, "rev-parse", "--show-toplevel"))
        git_says(top, "read-tree", head, extra=own)
        for inside, data in files.items():
            blob = git_says(top, "hash-object", "-w", "--stdin", given=data)
            mode = git_says(top, "ls-files", "--format=%(objectmode)", "--", inside, extra=own)
            entry = f"{mode or '100644'},{blob},{inside}"
            git_says(top, "update-index", "--add", "--cacheinfo", entry, extra=own)
        return git_says(top, "write-tree", extra=own)
