"""Ways to take a revision: the prompt's file or a commit on a branch; and the way back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.errors import Fault, GitError, PromptError, UsageError
from regauge.git import commit_files, differing
from regauge.prompts import Repository, bump, lock_of, parse_prompt
from regauge.refine.edits import ReplaceSection, kind_of
from regauge.refine.runs import read_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regauge.git import Branch
    from regauge.prompts import Part
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Accepted
    from regauge.refine.runs import Run
    from regauge.refine.subject import Subject

_NOTES = {
    "restore": "Put back what an earlier release said for {check}",
    "add-rule": "Say what {check} wants",
    "set-number": "Give the number that {check} wants",
    "set-value": "Correct the statement on {check}",
    "set-unit": "Give the unit that {check} wants",
    "move-last": "Say last what {check} wants",
    "move": "Say elsewhere what {check} wants",
    "take-out": "Take out a statement that {check} failed for",
    "remove-unused": "Remove {check}",
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
    if stated is None or not released or released.digest == prompt.digest:
        why = "it is not released yet" if stated else "it has none"
        why = f"it says what {stated} said when it was released" if released else why
        version = str(stated or "")
        return Revision(text=written, version=version, lock="", note=note, why_version=why)
    part: Part = "patch"
    why = "other wording"
    if any(isinstance(op, ReplaceSection) for one in accepted for op in one.edit.ops):
        part, why = "minor", "a section was replaced"
    elif len(text.lines) > len(subject.text.lines):
        part, why = "minor", "a new rule"
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
        write_whole(
            lock_path, str(lock_of(path).add(parse_prompt(after.decode(), path=path))).encode()
        )
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
            f"  fix: restore the file, or start a new run: regauge refine {run.prompt}"
        )


def roll_back(run: Run, path: Path) -> list[Path]:
    """Put back what a run replaced; a released version that was committed is not taken back."""
    applied = run.directory / "applied.sha256"
    if not applied.is_file():
        raise UsageError(f"run {run.id} was not applied, so there is nothing to roll back")
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


def note_of(accepted: Accepted) -> str:
    """The note of the changelog on an edit."""
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
    """Return whether the last commit has a line of the lock; not where there is no git."""
    try:
        repository = Repository.at(lock.parent)
        data = repository.read(repository.commit("HEAD"), repository.inside(lock))
    except GitError:
        return False
    return data is not None and entry in data.decode("utf-8", "replace")


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_RUN = "Refinement-run"


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


def uncommitted(path: Path) -> list[Path]:
    """Those of a prompt's file and its lock that differ from the last commit."""
    return differing([path.resolve(), lock_of(path).path.resolve()])
