"""Ways to take a revision: the prompt's file, a commit on a branch, a push; and the way back."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.errors import Fault, GitError, PromptError, UsageError
from regauge.git import failure_of, run_git, work_tree
from regauge.prompts import Repository, bump, lock_of, parse_prompt
from regauge.refine.edits import ReplaceSection, kind_of
from regauge.refine.runs import read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.prompts import Part, Prompt
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Accepted
    from regauge.refine.runs import Run
    from regauge.refine.subject import Subject

_TIMEOUT_S = 120


def git_says(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """What git says to a command; empty where it fails and may."""
    done = run_git(directory, *arguments, given=given, extra=extra, timeout_s=_TIMEOUT_S)
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    if check:
        raise failure_of(done, arguments[0])
    return ""


_NOTES = {
    "restore": "Put back what an earlier release said for {check}",
    "add-rule": "Say what {check} wants",
    "set-number": "Give the number that {check} wants",
    "set-value": "Correct the statement on {check}",
    "set-unit": "Give the unit that {check} wants",
    "move-last": "Say last what {check} wants",
    "move": "Say elsewhere what {check} wants",
    "take-out": "Take out a statement that {check} failed for",
    "replace-hindering": "Say what {check} wants instead of a statement that it failed for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A prompt file as it is proposed.

    Attributes:
        version: What it states; empty where it states none.
        lock: The whole of `prompts.lock` with the new version; empty where nothing is released.
    """

    text: str
    version: str
    lock: str
    note: str
    why_version: str


def revised(
    subject: Subject, text: PromptText, accepted: Sequence[Accepted], *, date: str
) -> Revision:
    """The prompt's file with its new text and version.

    A new rule is a minor version, other wording a patch. A text that a release had keeps that
    release's version; a version that was never released stays as it is.
    """
    path = subject.prompt.path
    written = subject.written(text)
    prompt = parse_prompt(written, path=path)
    lock = lock_of(path)
    note = "; ".join(dict.fromkeys(note_of(edit) for edit in accepted))
    stated = prompt.version
    released = stated and lock.get(prompt.name, stated)
    why = ""
    if stated is None:
        why = "it has none"
    elif not released:
        why = "it is not released yet"
    elif released.digest == prompt.digest:
        why = f"it says what {stated} said when it was released"
    if why:
        version = str(stated or "")
        return Revision(text=written, version=version, lock="", note=note, why_version=why)
    # More lines than before are a new rule, the same number is other wording.
    longer = len(text.lines) > len(subject.text.lines)
    replaced = any(isinstance(op, ReplaceSection) for one in accepted for op in one.edit.ops)
    part: Part = "minor" if longer or replaced else "patch"
    why = "a new rule" if longer else "other wording"
    why = "a section was replaced" if replaced else why
    bumped = bump(written, part, path=path, lock=lock, note=note, date=date, allow_unchanged=True)
    return Revision(
        text=bumped.prompt.source,
        version=str(bumped.prompt.version),
        lock=str(bumped.lock),
        note=note,
        why_version=why,
    )


def apply_run(run: Run, path: Path) -> list[Path]:
    """Write what a run proposes; both files are written, or none."""
    read_whole(run)
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to apply")
    before, after = run.before.read_bytes(), run.revision.read_bytes()
    if path.read_bytes() == after:
        raise UsageError(f"{path} is what run {run.id} proposes already")
    check_unchanged(run, path)
    proposed = run.directory / "prompts.lock"
    lock_path = lock_of(path).path
    old_lock = lock_path.read_bytes() if lock_path.is_file() else None
    (run.directory / "applied.sha256").write_text(_sha(after) + "\n")
    try:
        write_whole(path, after)
        if not proposed.is_file():
            return [path]
        # Other prompts may have been released since: only our line is added to what is there.
        write_whole(lock_path, str(lock_of(path).add(_prompt(after, path))).encode())
    except BaseException as error:
        write_whole(path, before)
        if old_lock is not None:
            write_whole(lock_path, old_lock)
        if isinstance(error, OSError):
            fault = Fault(path=path, line=None, message=f"cannot be written: {error}")
            raise PromptError([fault]) from error
        raise
    return [path, lock_path]


def check_unchanged(run: Run, path: Path) -> None:
    """See that a prompt's file is what a run began with, or what it proposes."""
    if path.read_bytes() not in {run.before.read_bytes(), run.revision.read_bytes()}:
        raise UsageError(
            f"{path} changed since run {run.id} began, so what it verified is not what there is\n"
            f"  fix: restore the file, or start a new run: regauge refine {parse_name(run)}"
        )


def roll_back(run: Run, path: Path) -> list[Path]:
    """Put back what a run replaced; a released version that was committed is not taken back."""
    applied = run.directory / "applied.sha256"
    if not applied.is_file():
        raise UsageError(f"run {run.id} was not applied, so there is nothing to take back")
    now = path.read_bytes()
    if _sha(now) != applied.read_text().strip():
        raise UsageError(
            f"{path} changed since run {run.id} was applied\n  fix: see what it was: {run.before}"
        )
    lock = lock_of(path)
    prompt = parse_prompt(now.decode(), path=path)
    entry = str((prompt.version and lock.get(prompt.name, prompt.version)) or "")
    ours = (run.directory / "prompts.lock").is_file() and bool(entry)
    if ours and _committed(lock.path, entry):
        raise UsageError(
            f"{prompt.name} {prompt.version} is released and committed\n"
            "  fix: git revert the commit; or release its old text: regauge bump"
        )
    write_whole(path, run.before.read_bytes())
    if ours:
        lines = [line for line in str(lock).splitlines(keepends=True) if line.strip() != entry]
        write_whole(lock.path, "".join(lines).encode())
    applied.unlink()
    return [path, lock.path] if ours else [path]


def parse_name(run: Run) -> str:
    """The prompt that a run is about."""
    return str(run.facts().get("prompt", ""))


def note_of(accepted: Accepted) -> str:
    """What the changelog says of an edit."""
    check = accepted.cluster.check
    known = _NOTES.get(accepted.edit.strategy)
    if known:
        return known.format(check=check)
    kinds = {kind_of(op) for op in accepted.edit.ops}
    verbs = {
        "insert": "Add a rule for",
        "replace": "Reword a rule for",
        "delete": "Drop a rule against",
        "replace_section": f"Replace {accepted.edit.ops[0].anchor.line.strip()!r} for",
    }
    return f"{verbs[kinds.pop()] if len(kinds) == 1 else 'Revise rules for'} {check}"


def _committed(lock: Path, entry: str) -> bool:
    """Whether the last commit has a line of the lock; not where there is no git."""
    try:
        repository = Repository.at(lock.parent)
        data = repository.read(repository.commit("HEAD"), repository.inside(lock))
    except GitError:
        return False
    return data is not None and entry in data.decode("utf-8", "replace")


def _prompt(data: bytes, path: Path) -> Prompt:
    return parse_prompt(data.decode(), path=path)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    """
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to commit")
    head, files = check_not_committed(run, path)
    name = name or f"refine/{path.name.removesuffix('.prompt.yml')}-{run.id}"
    words = f"{message.rstrip()}\n\n{_RUN}: {run.id}"
    return commit_files(path, head, files, name=name, message=words, renew=renew)


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

    Raises:
        UsageError: There is such a branch already, or it is checked out.
        GitError: git cannot do it.
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
    for known in (one.removeprefix("refs/heads/") for one in names):
        if known == name and renew and is_proposal(path, f"refs/heads/{name}"):
            continue
        if known in {name, *above} or known.startswith(f"{name}/"):
            raise UsageError(f"there is a branch {known!r} already\n  fix: --branch ANOTHER-NAME")


def check_not_committed(run: Run, path: Path) -> tuple[str, dict[str, bytes]]:
    """See that a commit of what a run proposes would not be empty."""
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
    """Those of a prompt's file and its lock that differ from the last commit."""
    root = path.resolve().parent
    files = [path.resolve(), lock_of(path).path.resolve()]
    return [
        file
        for file in files
        if git_says(root, "status", "--porcelain", "--ignore-submodules=dirty", "--", str(file))
    ]


def _same(root: Path, commit: str, *, tree: str, head: str) -> bool:
    return _commit_of(root, f"{commit}~1") == head and _tree_of(root, commit) == tree


def _tree_of(root: Path, commit: str) -> str:
    return _commit_of(root, f"{commit}^{{tree}}")


def _commit_of(root: Path, name: str) -> str:
    return git_says(root, "rev-parse", "--verify", "--quiet", name, check=False)


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
    said = git_says(path.resolve().parent, *_LS_REMOTE, remote, f"refs/heads/{branch}")
    return said.split(maxsplit=1)[0] if said else ""


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
    """Whether the current commit holds what a commit of the remote does not; not where unknown."""
    root = path.resolve().parent
    return (
        bool(_commit_of(root, f"{tip}^{{commit}}"))
        and git_says(root, "rev-list", "--count", f"{tip}..HEAD") != "0"
    )


def push(path: Path, branch: Branch, remote: str = "origin") -> None:
    """Push a branch; an earlier proposal that is there gives way, and nothing else does.

    Raises:
        UsageError: Somebody has committed on that branch.
        GitError: It was refused.
    """
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
