"""Older versions of a prompt, found through git and `prompts.lock`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from regauge.errors import GitError, PromptError
from regauge.prompts._git import Commit, Repository
from regauge.prompts._lock import lock_of
from regauge.prompts._parse import parse_prompt, prompt_name
from regauge.prompts._semver import Semver
from regauge.prompts._yaml import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from regauge.prompts._lock import LockEntry
    from regauge.prompts._prompt import Prompt

__all__ = [
    "State",
    "VersionRecord",
    "load_version",
    "prompt_at",
    "states",
    "text_at",
    "version_records",
]

_VERSION_LINE = re.compile(r"""^["']?version["']?[ \t]*:[ \t]+["']?([^\s"'#,}]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The text of a prompt file in one commit.

    Attributes:
        stated: The version that the text states; None where it states none that can be read.
        beside: Reads a file next to the prompt in that commit.
    """

    commit: Commit
    text: str
    stated: Semver | None
    beside: Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """One version of a prompt.

    Attributes:
        digest: As released, or where it was never released as the newest commit has it; None
            where no readable text of an unreleased version is left.
        released: Whether `prompts.lock` holds it.
        date: The day of the first commit with that content, or what the changelog says.
        commit: That commit; empty where no commit has it.
        text: What the changelog says about it.
    """

    version: Semver
    digest: str | None
    contract_digest: str | None
    released: bool
    date: str = ""
    commit: str = ""
    text: str = ""


def load_version(path: Path, version: Semver) -> Prompt:
    """One version of the prompt in a file: its released state, or else the newest that states it.

    Raises:
        GitError: Neither the file nor any commit holds it.
    """
    name = prompt_name(path)
    entry = lock_of(path).get(name, version)
    working = _parsed(_read_or_empty(path), path)
    if working is not None and working.version == version and _is(working, entry):
        return working
    repository = Repository.at(path.parent)
    found = states(path, repository)
    stating = [state for state in found if state.stated == version]
    for state in stating:
        prompt = _parsed(state.text, path, state.beside)
        if prompt is not None and _is(prompt, entry):
            return prompt
    if entry is not None and stating:
        raise GitError(
            f"{name}@{version} was released with digest {entry.digest[:12]}, but no commit that"
            " states this version has that content\n"
            "  fix: commit a prompt together with its bump; `regauge lint` tells when it changed"
        )
    if entry is not None and not repository.shallow():
        raise GitError(
            f"{name}@{version} was released, but never committed, and {path.name} no"
            " longer holds it\n"
            "  fix: commit a prompt and prompts.lock together, right after the bump"
        )
    known = ", ".join(dict.fromkeys(str(s.stated) for s in found if s.stated is not None))
    message = f"no commit has version {version} of {path}"
    raise repository.missing(message + (f"; there are: {known}" if known else ""))


def text_at(path: Path, ref: str) -> str:
    """The text of a prompt file at a branch, tag or commit, found under its older names too.

    Raises:
        GitError: There is no such commit, or the prompt is not in it.
    """
    repository = Repository.at(path.parent)
    commit = repository.commit(ref)
    names = [repository.inside(path)]
    data = repository.read(commit, names[0])
    if data is None:
        names = list(dict.fromkeys(c.path for c in repository.history(names[0])))
        places = [(commit, name) for name in names]
        data = next((d for d in repository.read_all(places) if d is not None), None)
    if data is None:
        raise repository.missing(f"{ref} ({commit[:9]}) has no {repository.inside(path)}")
    return data.decode("utf-8", "replace")


def prompt_at(path: Path, ref: str) -> Prompt:
    """A prompt at a branch, tag or commit.

    Raises:
        GitError: There is no such commit, or the prompt is not in it.
        PromptError: Its text there cannot be read.
    """
    repository = Repository.at(path.parent)
    commit = repository.commit(ref)
    beside = _beside(repository, commit, repository.inside(path))
    return parse_prompt(text_at(path, ref), path=path, committed=beside)


def _beside(repository: Repository, commit: str, name: str) -> Callable[[str], bytes | None]:
    """Reads a file next to a prompt as a commit has it."""
    folder = PurePosixPath(name).parent
    return lambda inner: repository.read(commit, (folder / inner).as_posix())


def states(path: Path, repository: Repository) -> list[State]:
    """What the commits say, newest first; commits that left the text alone are left out."""
    commits = repository.history(repository.inside(path))
    texts = repository.read_all((commit.hash, commit.path) for commit in commits)
    found: list[State] = []
    for commit, data in zip(commits, texts, strict=True):
        if data is not None:
            text = data.decode("utf-8", "replace")
            beside = _beside(repository, commit.hash, commit.path)
            stated = _stated(text, path)
            found.append(State(commit=commit, text=text, stated=stated, beside=beside))
    return found


def version_records(path: Path, repository: Repository | None) -> list[VersionRecord]:
    """Every version that the lock, git or the changelog knows, newest first."""
    name = prompt_name(path)
    entries = {entry.version: entry for entry in lock_of(path).of(name)}
    found = states(path, repository) if repository is not None else []
    working = _parsed(_read_or_empty(path), path)
    versions = set(entries) | {state.stated for state in found if state.stated is not None}
    if working is not None and working.version is not None:
        versions.add(working.version)
    records = [_record(version, entries.get(version), found, working, path) for version in versions]
    return sorted(records, key=lambda record: record.version, reverse=True)


def _record(
    version: Semver,
    entry: LockEntry | None,
    found: list[State],
    working: Prompt | None,
    path: Path,
) -> VersionRecord:
    stating = [state for state in found if state.stated == version]
    # The first commit with the released content dates a release; of what was never released, the
    # newest state counts.
    ordered = reversed(stating) if entry is not None else iter(stating)
    candidates = ((state.commit, _parsed(state.text, path, state.beside)) for state in ordered)
    matching = ((c, p) for c, p in candidates if p is not None and _is(p, entry))
    commit, prompt = next(matching, (None, None))
    if prompt is None and working is not None and working.version == version:
        prompt = working
    notes = [
        note
        for source in (working, prompt)
        if source is not None
        for note in source.changelog
        if note.version == str(version)
    ]
    date = commit.date[:10] if commit is not None else ""
    known = entry if entry is not None else prompt
    return VersionRecord(
        version=version,
        digest=known.digest if known is not None else None,
        contract_digest=known.contract_digest if known is not None else None,
        released=entry is not None,
        date=date or next((note.date for note in notes if note.date), ""),
        commit=commit.hash if commit is not None else "",
        text=notes[0].text if notes else "",
    )


def _is(prompt: Prompt, entry: LockEntry | None) -> bool:
    """Whether a prompt has the content that was released, where something was."""
    return entry is None or (prompt.digest, prompt.contract_digest) == (
        entry.digest,
        entry.contract_digest,
    )


def _stated(text: str, path: Path) -> Semver | None:
    """The version a text states; only a text of unusual form needs to be parsed for it."""
    match = _VERSION_LINE.search(text)
    if match is None:
        prompt = _parsed(text, path, lambda _: b"[]") if "version" in text else None
        return prompt.version if prompt is not None else None
    try:
        return Semver.parse(match[1])
    except ValueError:
        return None


def _parsed(
    text: str, path: Path, committed: Callable[[str], bytes | None] | None = None
) -> Prompt | None:
    try:
        return parse_prompt(text, path=path, committed=committed)
    except PromptError:
        return None


def _read_or_empty(path: Path) -> str:
    try:
        return read_text(path)
    except PromptError:
        return ""
