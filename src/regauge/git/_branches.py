"""Commits on branches of their own, which touch neither work tree nor index; and their push."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import GitError, UsageError
from regauge.git._run import failure_of, run_git, work_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A push or fetch over a slow line takes its time; a prompt for a password never ends.
_TIMEOUT_S = 120
# The last line of our commits: with the tree in it, one that was amended is no longer ours.
_TREE = "Refinement-tree"


def git_says(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """The output of a git command; empty if it fails and may fail."""
    done = run_git(directory, *arguments, given=given, extra=extra, timeout_s=_TIMEOUT_S)
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    if check:
        raise failure_of(done, arguments[0])
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch with one commit more than where it began."""

    name: str
    commit: str


def commit_files(
    path: Path, head: str, files: Mapping[str, bytes], *, name: str, message: str, renew: bool
) -> Branch:
    """Commit contents of files on a branch of its own; work tree and index stay as they are.

    Args:
        path: A file of the repository.
        head: The commit to start from.
        files: What files are to hold, by their paths in the repository.
        name: Of the branch.
        message: Of the commit; its last lines may be trailers.
        renew: Whether a branch of an earlier proposal gives way.
    """
    root = path.resolve().parent
    there = _commit_of(root, f"refs/heads/{name}")
    if there and not (renew and is_proposal(path, there)):
        raise UsageError(f"there is a branch {name!r} already\n  fix: --branch ANOTHER-NAME")
    tree = _tree(root, head, files)
    if there and _same(root, there, tree=tree, head=head):
        return Branch(name=name, commit=there)
    if there and current_branch(path) == name:
        raise UsageError(
            f"the branch {name!r} is checked out, so it cannot be renewed\n"
            "  fix: git switch to the branch that the proposal is for"
        )
    words = f"{message}\n{_TREE}: {tree}\n"
    commit = git_says(root, "commit-tree", tree, "-p", head, given=words.encode())
    git_says(root, "update-ref", f"refs/heads/{name}", commit, there or "0" * len(commit))
    return Branch(name=name, commit=commit)


def check_branch(path: Path, name: str, *, renew: bool = False) -> None:
    """See that a branch of a name can be made."""
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
    for existing in (ref.removeprefix("refs/heads/") for ref in names):
        if existing == name and renew and is_proposal(path, f"refs/heads/{name}"):
            continue
        if existing in {name, *above} or existing.startswith(f"{name}/"):
            raise UsageError(
                f"there is a branch {existing!r} already\n  fix: --branch ANOTHER-NAME"
            )


def current_branch(path: Path) -> str:
    """The branch that is checked out; empty where a commit is."""
    return git_says(path.resolve().parent, "symbolic-ref", "-q", "--short", "HEAD", check=False)


def is_proposal(path: Path, commit: str) -> bool:
    """Return whether a commit is a proposal of `commit_on_branch`, without a user's work."""
    root = path.resolve().parent
    trailers = git_says(
        root, "log", "-1", f"--format=%(trailers:key={_TREE},valueonly)", commit, check=False
    )
    return bool(trailers) and trailers == _tree_of(root, commit)


def differing(files: Sequence[Path]) -> list[Path]:
    """Those of some files that differ from the last commit."""
    status = ("status", "--porcelain", "--ignore-submodules=dirty", "--")
    return [file for file in files if git_says(file.parent, *status, str(file))]


def _same(root: Path, commit: str, *, tree: str, head: str) -> bool:
    return _commit_of(root, f"{commit}~1") == head and _tree_of(root, commit) == tree


def _tree_of(root: Path, commit: str) -> str:
    return _commit_of(root, f"{commit}^{{tree}}")


def _commit_of(root: Path, name: str) -> str:
    return git_says(root, "rev-parse", "--verify", "--quiet", name, check=False)


def _tree(root: Path, head: str, files: Mapping[str, bytes]) -> str:
    """The tree of `head` with other contents of some files, made in an index of its own."""
    import tempfile

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


# A remote in the settings of a repository may name other programs for both ends.
_UPLOAD = "--upload-pack=git-upload-pack"
_LS_REMOTE = ("ls-remote", _UPLOAD, "--heads")
_FETCH = ("fetch", _UPLOAD, "--quiet", "--no-tags", "--no-write-fetch-head")
_PUSH = ("push", "--receive-pack=git-receive-pack", "--no-verify", "--quiet")


def remote_address(path: Path, remote: str = "origin") -> str:
    """The address of a remote; empty where there is none."""
    return git_says(path.resolve().parent, "remote", "get-url", remote, check=False)


def remote_tip(path: Path, branch: str, remote: str = "origin") -> str:
    """The commit that a branch of the remote is at; empty where there is no such branch."""
    _refuse_remote_inside(path, remote)
    listing = git_says(path.resolve().parent, *_LS_REMOTE, remote, f"refs/heads/{branch}")
    return listing.split(maxsplit=1)[0] if listing else ""


def _refuse_remote_inside(path: Path, remote: str) -> None:
    """Refuse a remote in a directory of this repository: its hooks would run on a push."""
    top = work_tree(path.parent)
    if top is None:
        return
    for kind in ((), ("--push",)):
        urls = git_says(top, "remote", "get-url", "--all", *kind, remote, check=False)
        for url in urls.splitlines():
            directory = (top / url.removeprefix("file://")).resolve()
            if directory.is_relative_to(top) and directory.exists():
                raise UsageError(
                    f"the remote {remote!r} is a directory of this repository: {url}\n"
                    f"  fix: git remote set-url {remote} ADDRESS"
                )


def has_unpushed(path: Path, tip: str) -> bool:
    """Return whether the current commit has work that no remote has; False if unknown."""
    root = path.resolve().parent
    return (
        bool(_commit_of(root, f"{tip}^{{commit}}"))
        and git_says(root, "rev-list", "--count", f"{tip}..HEAD") != "0"
    )


def push(path: Path, branch: Branch, remote: str = "origin") -> None:
    """Push a branch; an earlier proposal that is there gives way, and nothing else does."""
    root, ref = path.resolve().parent, f"refs/heads/{branch.name}"
    there = remote_tip(path, branch.name, remote)
    if there == branch.commit:
        return
    if there:
        git_says(root, *_FETCH, remote, ref)
        if not is_proposal(path, there):
            raise UsageError(
                f"{branch.name} at {remote} has commits that are not of a refinement run\n"
                "  fix: merge or close what is there, or name another branch: --branch NAME"
            )
    # What is there now has to be what was looked at.
    lease = f"--force-with-lease={ref}:{there}"
    git_says(root, *_PUSH, lease, remote, f"{branch.commit}:{ref}")
