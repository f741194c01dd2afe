"""From an accepted text to a file: its version, its changelog, the lock; and the way back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.errors import Fault, GitError, PromptError, UsageError
from regauge.prompts import Repository, bump, lock_of, parse_prompt, set_contents
from regauge.refine.edits import ReplaceSection, kind_of
from regauge.refine.trail import read_whole
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regauge.prompts import Part, Prompt
    from regauge.refine.edits import PromptText
    from regauge.refine.loop import Accepted
    from regauge.refine.trail import Run
    from regauge.refine.workbench import Subject

__all__ = ["Revision", "apply_run", "check_unchanged", "note_of", "revised", "roll_back"]

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
        text: The whole file.
        version: What it states; empty where it states none.
        lock: The whole of `prompts.lock` with the new version; empty where nothing is released.
        note: The line of the changelog.
        why_version: Why the version is what it is.
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

    Args:
        subject: The prompt as it was.
        text: What it is to say.
        accepted: The edits that led there.
        date: For the changelog, such as `2025-06-30`.
    """
    path = subject.prompt.path
    written = subject.written(text)
    prompt = parse_prompt(written, path=path)
    lock = lock_of(path)
    note = "; ".join(dict.fromkeys(note_of(edit) for edit in accepted))
    stated = prompt.version
    if stated is None:
        return Revision(text=written, version="", lock="", note=note, why_version="it has none")
    released = lock.get(prompt.name, stated)
    if released is None:
        return Revision(
            text=written,
            version=str(stated),
            lock="",
            note=note,
            why_version="it is not released yet",
        )
    if released.digest == prompt.digest:
        return Revision(
            text=written,
            version=str(stated),
            lock="",
            note=note,
            why_version=f"it says what {stated} said when it was released",
        )
    # More lines than before are a new rule, the same number is other wording.
    longer = len(text.lines) > len(subject.text.lines)
    replaced = any(isinstance(op, ReplaceSection) for one in accepted for op in one.edit.ops)
    part: Part = "minor" if longer or replaced else "patch"
    bumped = bump(written, part, path=path, lock=lock, note=note, date=date, allow_unchanged=True)
    return Revision(
        text=bumped.prompt.source,
        version=str(bumped.prompt.version),
        lock=str(bumped.lock),
        note=note,
        why_version="a section was replaced"
        if replaced
        else "a new rule"
        if longer
        else "other wording",
    )


def apply_run(run: Run, path: Path) -> list[Path]:
    """Write what a run proposes; both files are written, or none.

    Returns:
        The files that changed.

    Raises:
        UsageError: It proposes nothing, or the prompt changed since.
        TrailError: Its trail or its files are not what it wrote.
        PromptError: A file cannot be written; what was there is there.
    """
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to apply")
    read_whole(run)
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
    """See that a prompt's file is what a run began with, or what it proposes.

    Raises:
        UsageError: It is something else, which the proposal would undo.
    """
    if path.read_bytes() not in {run.before.read_bytes(), run.revision.read_bytes()}:
        raise UsageError(
            f"{path} changed since run {run.id} began, so what it verified is not what there is\n"
            f"  fix: put the file back, or refine it anew: regauge refine {parse_name(run)}"
        )


def roll_back(run: Run, path: Path) -> list[Path]:
    """Put back what a run replaced; a released version that was committed is not taken back.

    Returns:
        The files that changed.

    Raises:
        UsageError: The run was not applied, or the prompt changed since.
    """
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
    entry = prompt.version and lock.get(prompt.name, prompt.version)
    ours = (run.directory / "prompts.lock").is_file()
    if ours and entry and not _committed(lock.path, str(entry)):
        write_whole(path, run.before.read_bytes())
        lines = [line for line in str(lock).splitlines(keepends=True) if line.strip() != str(entry)]
        write_whole(lock.path, "".join(lines).encode())
        applied.unlink()
        return [path, lock.path]
    if ours and entry:
        old = parse_prompt(run.before.read_text(encoding="utf-8"), path=path)
        text = set_contents(now.decode(), [m.content for m in old.messages], path=path)
        note = f"Take back {prompt.version}"
        back = bump(text, "patch", path=path, lock=lock, note=note, allow_unchanged=True)
        write_whole(path, back.prompt.source.encode())
        back.lock.save()
        applied.unlink()
        return [path, lock.path]
    write_whole(path, run.before.read_bytes())
    applied.unlink()
    return [path]


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
    added = sum(bool(line.strip()) for line in accepted.edit.added.split("\n"))
    if added > len(accepted.edit.ops) and "replace_section" not in kinds:
        gone = sum(kind_of(op) in {"replace", "delete"} for op in accepted.edit.ops)
        if gone:
            return f"Put {plural(added, 'line')} in place of {gone} for {check}"
        return f"Add {plural(added, 'line')} for {check}"
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
