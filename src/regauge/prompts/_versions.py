"""Prompts by name, path and version: their files, `prompts.lock`, and the commits of git."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from regauge.errors import Diagnostic, GitError, LockError, PromptError, UsageError
from regauge.files import read_regular, write_whole
from regauge.prompts._parse import SUFFIXES, parse_or_none, parse_prompt, prompt_name
from regauge.prompts._repository import Repository
from regauge.prompts._types import Semver
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.errors import InvalidFileError
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._repository import Commit

LOCK_NAME = "prompts.lock"
# Far above any prompt: a larger file is an attack or a mistake.
_BYTES_MAX = 1024 * 1024
_HEADER = """\
# Released prompt versions: name@version, digest of its behaviour, digest of its contract.
# Lines are only added, by `regauge bump`; `regauge lint` checks them against the files and git.
"""
_LINE = re.compile(r"(?P<name>\S.*)@(?P<version>[^\s@]+) (?P<digest>\S+) (?P<contract>\S+)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEEP_BOTH = "keep both sides' lines, or bump again where both released the same version"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """One released version.

    Attributes:
        line: Its line in the file, from 1; 0 for a new entry.
    """

    name: str
    version: Semver
    digest: str
    contract_digest: str
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.name}@{self.version} {self.digest} {self.contract_digest}"

    def matches(self, prompt: Prompt) -> bool:
        """Return whether a prompt has the released content."""
        return (self.digest, self.contract_digest) == (prompt.digest, prompt.contract_digest)


@dataclass(frozen=True, slots=True)
class PromptLock:
    """The released versions of all prompts of a project."""

    path: Path
    entries: tuple[LockEntry, ...] = ()

    @classmethod
    def load(cls, path: Path) -> PromptLock:
        """Read a lock; a missing file has no entries.

        Raises:
            LockError: Lines are not entries, or a version has two digests.
        """
        text = _read_text(path, LockError)
        return cls(path) if text is None else cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> PromptLock:
        """Parse the text of a lock.

        Raises:
            LockError: As `load`.
        """
        diagnostics: list[Diagnostic] = []
        entries: dict[tuple[str, Semver], LockEntry] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            entry = _entry(line.strip(), number)
            if isinstance(entry, str):
                marker = line[:7] in {"<<<<<<<", "=======", ">>>>>>>"}
                fix = _KEEP_BOTH if marker else "restore the line from git, or remove it"
                diagnostics.append(Diagnostic(path=path, line=number, message=entry, fix=fix))
                continue
            twin = entries.setdefault((entry.name, entry.version), entry)
            if twin != entry:
                message = (
                    f"{entry.name}@{entry.version} has another digest than on line {twin.line}"
                )
                fix = "keep the line that was released first, and bump the other's prompt again"
                diagnostics.append(Diagnostic(path=path, line=number, message=message, fix=fix))
        if diagnostics:
            raise LockError(diagnostics)
        return cls(path, tuple(entries.values()))

    def entries_of(self, name: str) -> list[LockEntry]:
        """The released versions of one prompt, oldest first."""
        entries = (entry for entry in self.entries if entry.name == name)
        return sorted(entries, key=lambda entry: entry.version)

    def get(self, name: str, version: Semver) -> LockEntry | None:
        """The entry of a released version; None for one that is not released."""
        return next((entry for entry in self.entries_of(name) if entry.version == version), None)

    def add(self, prompt: Prompt) -> PromptLock:
        """Add the version of a prompt to the released ones.

        Raises:
            LockError: The prompt has no version, or it is released with other content.
        """
        if prompt.version is None:
            message = "a prompt without a version cannot be released"
            fix = f"regauge bump {quote(prompt.name)} major"
            raise LockError.at_place(prompt.path, message, fix, line=1)
        entry = LockEntry(
            name=prompt.name,
            version=prompt.version,
            digest=prompt.digest,
            contract_digest=prompt.contract_digest,
        )
        twin = self.get(entry.name, entry.version)
        if twin == entry:
            return self
        if twin is not None:
            raise LockError(self.check(prompt))
        return replace(self, entries=(*self.entries, entry))

    def save(self) -> None:
        """Write the file atomically."""
        write_whole(self.path, str(self).encode())

    def check(self, prompt: Prompt) -> list[Diagnostic]:
        """The errors of a prompt file against its released versions."""
        released = self.entries_of(prompt.name)
        if prompt.version is None:
            problem = _dropped_version(prompt, released)
        elif (entry := self.get(prompt.name, prompt.version)) is not None:
            problem = _changed_since(prompt, entry)
        else:
            problem = _not_released(prompt, prompt.version, released)
        if problem is None:
            return []
        line = prompt.lines.get("version", 1)
        return [Diagnostic(path=prompt.path, line=line, message=problem[0], fix=problem[1])]

    def needs_major(self, prompt: Prompt) -> LockEntry | None:
        """The release whose contract a prompt changes without a new major version; None for none.

        Prereleases have no contract.
        """
        version = prompt.version
        stable = [entry for entry in self.entries_of(prompt.name) if not entry.version.prerelease]
        before = [entry for entry in stable if version is None or entry.version < version]
        if not before or before[-1].contract_digest == prompt.contract_digest:
            return None
        is_major = version is not None and version.major > before[-1].version.major
        return None if is_major else before[-1]

    def check_since(self, ref: str, *, name: str = "") -> list[Diagnostic]:
        """The entries that a commit has and that are missing or changed here.

        Args:
            ref: The commit, branch or tag; ignored without a git repository or commits.
            name: The prompt whose entries are checked; empty for all.

        Raises:
            GitError: `ref` names no commit, or git is not installed.
        """
        repository = Repository.find(self.path.parent)
        if repository is None or (ref == "HEAD" and not repository.has_commits()):
            return []
        try:
            inside = repository.inside(self.path)
        except GitError:
            return []
        data = repository.read(repository.commit(ref), inside)
        if data is None:
            return []
        try:
            older = PromptLock.parse(data.decode("utf-8", "replace"), self.path)
        except LockError:
            # An invalid previous lock cannot be compared.
            return []
        if older.entries and not self.path.exists():
            fix = f"restore it: git checkout {ref} -- {quote(f':/{inside}')}"
            message = f"the lock was removed; {ref} has it"
            return [Diagnostic(path=self.path, message=message, fix=fix)]
        if name:
            older = replace(older, entries=(*older.entries_of(name),))
        return self.check_against(older, ref)

    def check_against(self, older: PromptLock, ref: str) -> list[Diagnostic]:
        """Entries of an older lock that are missing or changed in this one."""
        diagnostics: list[Diagnostic] = []
        for entry in older.entries:
            current = self.get(entry.name, entry.version)
            which = f"{entry.name}@{entry.version}"
            if current is None:
                message = f"{which} was removed; {ref} has it, and the lock is only added to"
                diagnostics.append(
                    Diagnostic(path=self.path, line=None, message=message, fix=f"add back: {entry}")
                )
            elif current != entry:
                message = f"{which} has another digest than in {ref}"
                fix = f"restore the line: {entry}"
                diagnostics.append(
                    Diagnostic(path=self.path, line=current.line, message=message, fix=fix)
                )
        return diagnostics

    def __str__(self) -> str:
        lines = sorted(self.entries, key=lambda entry: (entry.name, entry.version))
        return _HEADER + "".join(f"{entry}\n" for entry in lines)


def lock_of(prompts: Path) -> PromptLock:
    """Load the lock of a `prompts/` directory, or of a prompt file below one."""
    if prompts.is_dir():
        return PromptLock.load(prompts / LOCK_NAME)
    # The lock of a link is next to the link, not to its target.
    for directory in Path(os.path.abspath(prompts)).parents:  # noqa: PTH100 - follows no link
        if (directory / LOCK_NAME).is_file() or directory.name == "prompts":
            return PromptLock.load(directory / LOCK_NAME)
        if (directory / ".git").exists():
            break
    return PromptLock(prompts.parent / LOCK_NAME)


def _dropped_version(prompt: Prompt, released: list[LockEntry]) -> tuple[str, str] | None:
    if not released:
        return None
    last = released[-1].version
    bump = f"regauge bump {quote(prompt.name)} PART"
    fix = f"write `version: {last}` back, then {bump} if anything changed"
    return f"has no version, but {last} was released", fix


def _changed_since(prompt: Prompt, entry: LockEntry) -> tuple[str, str] | None:
    contract = entry.contract_digest != prompt.contract_digest
    if entry.digest == prompt.digest and not contract:
        return None
    subject = "the contract (jsonSchema, inputs, tools)" if contract else "the content"
    message = f"{subject} changed, but the version is still {entry.version}, which is released"
    return message, f"regauge bump {quote(prompt.name)} {'major' if contract else 'minor'}"


def _not_released(
    prompt: Prompt, version: Semver, released: list[LockEntry]
) -> tuple[str, str] | None:
    bump = f"regauge bump {quote(prompt.name)}"
    if released and version < released[-1].version:
        last = released[-1].version
        fix = f"write `version: {last}`, then {bump} PART if anything changed"
        return f"version {version} is older than {last}, which is released", fix
    lock = PromptLock(prompt.path, tuple(released))
    if (broken := lock.needs_major(prompt)) is not None:
        message = f"the contract (jsonSchema, inputs, tools) changed since {broken.version}"
        return f"{message}, but {version} is not a new major version", f"{bump} major"
    return f"version {version} is not in {LOCK_NAME}", bump


def _entry(line: str, number: int) -> LockEntry | str:
    match = _LINE.fullmatch(line)
    if match is None:
        return "this line is not `name@version digest digest`"
    if not (_DIGEST.fullmatch(match["digest"]) and _DIGEST.fullmatch(match["contract"])):
        return "a digest is 64 hexadecimal digits"
    try:
        version = Semver.parse(match["version"])
    except ValueError as error:
        return str(error)
    return LockEntry(
        name=match["name"],
        version=version,
        digest=match["digest"],
        contract_digest=match["contract"],
        line=number,
    )


CANDIDATES_ENV: Final = "REGAUGE_CANDIDATES"
"""The environment variable of a target process with the directory of candidate texts."""

LOADED_SUFFIX: Final = ".loaded"
"""The suffix of the file that marks a candidate text as loaded."""


def prompt_files(prompts_dir: Path) -> list[Path]:
    """The prompt files below a directory, sorted, without hidden files and directories.

    A directory with the name of a prompt file is included; reading it reports the error.
    """
    paths: list[Path] = []
    for directory, names, files in os.walk(prompts_dir):
        names[:] = [name for name in names if not name.startswith(".")]
        # macOS writes `._<name>` next to files on other file systems.
        visible = [name for name in files if not name.startswith(".")]
        paths += [Path(directory, name) for name in (*names, *visible) if name.endswith(SUFFIXES)]
    return sorted(paths)


def find_prompt(
    name: str | Path, *, root: Path | None = None, also: Sequence[str] = (), fix: str = ""
) -> Path:
    """Find the file of a prompt by its name or its path.

    Args:
        name: The name or the path.
        root: A directory of the project; by default the working directory.
        also: Further names to suggest for a misspelt one.
        fix: The fix if no known name is similar; by default a list of the prompts.

    Raises:
        PromptError: There is no such prompt, or several files have its name.
    """
    text = str(name)
    if isinstance(name, Path) or text.endswith((".yml", ".yaml")):
        return _by_path(Path(name), root)
    from regauge.project import Project

    prompts_dir = Project.find(root).prompts_dir
    files = prompt_files(prompts_dir)
    names_by_path = {path: prompt_name(path) for path in files}
    matching = [
        path
        for path, prompt in names_by_path.items()
        # With or without the directories below `prompts/`.
        if text in {prompt, (path.relative_to(prompts_dir).parent / prompt).as_posix()}
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        places = ", ".join(str(path) for path in matching)
        message = f"several prompts are named {text!r}: {places}"
        fix = "rename all but one: names of prompts are unique"
        raise PromptError.at_place(prompts_dir, message, fix)
    names = list(names_by_path.values())
    fix = did_you_mean(text, [*names, *also]) or fix
    if not fix:
        names += also
        names_text = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")  # noqa: PLR2004  # a line's worth
        fix = f"prompts here: {names_text}" if names else f"write {prompts_dir / text}.prompt.yml"
    if text in Project.find(root).settings.targets:
        fix = f"it is a target, which has no prompt file: regauge log {text} lists its states"
    message = f"there is no prompt {text!r}"
    raise PromptError.at_place(prompts_dir, message, fix)


def load_prompt(
    name_or_path: str | Path, version: str | None = None, *, root: Path | None = None
) -> Prompt:
    """Load a prompt from its file, or an older version of it from git.

    Args:
        name_or_path: A name such as `alert-severity`, or a path that ends in `.yml` or `.yaml`.
        version: A version such as `1.1.0`, as released, or from the newest commit with it; by
            default the file.
        root: A directory of the project; by default the working directory.

    Raises:
        PromptError: There is no such prompt, or its file is invalid.
        GitError: No commit has that version.
        UsageError: The version is invalid.
    """
    path = find_prompt(name_or_path, root=root)
    if version is None:
        candidates = os.environ.get(CANDIDATES_ENV)
        file = _candidate(path, Path(candidates)) if candidates else path
        text = read_prompt_text(file)
        return parse_prompt(text, path=path)
    try:
        number = Semver.parse(version)
    except ValueError as error:
        raise UsageError(f"{error}\n  fix: write three numbers, such as 1.0.0") from error
    return load_version(path, number)


def read_prompt_text(path: Path) -> str:
    """Read the text of a prompt file, with its line ends and byte order mark.

    Raises:
        PromptError: The file cannot be read, is larger than 1 MiB or is not UTF-8.
    """
    try:
        size = path.stat().st_size
    except OSError:  # an error of reading, too
        size = 0
    if size > _BYTES_MAX:
        message = f"{size / _BYTES_MAX:.1f} MiB is more than a prompt file may have (1 MiB)"
        fix = "keep long inputs in fixtures and give them as inputs"
        raise PromptError.at_place(path, message, fix)
    text = _read_text(path, PromptError)
    if text is None:
        raise PromptError.at_place(path, "there is no such prompt file")
    return text


def _read_text(path: Path, error_class: type[InvalidFileError]) -> str | None:
    """The text of a file; None for a missing one."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise error_class([Diagnostic.unreadable(path, error)]) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        fix = "save the file as UTF-8"
        raise error_class.at_place(path, message, fix, line=line) from error


def _candidate(path: Path, directory: Path) -> Path:
    """The candidate file of `regauge refine` for a prompt file; without one, the prompt file."""
    candidate = directory / f"{prompt_name(path)}{SUFFIXES[0]}"
    if not candidate.is_file():
        return path
    candidate.with_suffix(LOADED_SUFFIX).touch()
    return candidate


def _by_path(path: Path, root: Path | None) -> Path:
    candidates = [path] if root is None or path.is_absolute() else [root / path, path]
    for candidate in candidates:
        # Reading a directory with the name of a prompt file reports the error.
        if candidate.is_file() or (candidate.is_dir() and candidate.name.endswith(SUFFIXES)):
            return candidate
    message = "this is a directory" if path.is_dir() else "there is no such prompt file"
    raise PromptError.at_place(path, message)


_VERSION_LINE = re.compile(r"""^["']?version["']?[ \t]*:[ \t]+["']?([^\s"'#,}]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """The text of a prompt file in one commit.

    Attributes:
        stated_version: None if the text states no readable version.
        read_sibling: Called with the name of a file next to the prompt, for its content in that
            commit; None if it has no such file.
    """

    commit: Commit
    text: str
    stated_version: Semver | None
    read_sibling: Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """One version of a prompt.

    Attributes:
        digest: As released; for an unreleased version, of its newest commit, or None if no valid
            text is left.
        contract_digest: The digest of the contract, like `digest`.
        released: It is in `prompts.lock`.
        date: The day of the first commit with that content, else that of the changelog.
        commit: The hash of that commit; empty for none.
        text: The changelog text.
    """

    version: Semver
    digest: str | None
    contract_digest: str | None
    released: bool
    date: str = ""
    commit: str = ""
    text: str = ""


def load_version(path: Path, version: Semver) -> Prompt:
    """Load a version of a prompt: as released, else from the newest commit that states it.

    Raises:
        GitError: Neither the file nor any commit has the version.
    """
    lock, text = lock_of(path), _read_or_empty(path)
    name = prompt_name(path)
    entry, working = lock.get(name, version), parse_or_none(text, path)
    if (
        working is not None
        and working.version == version
        and (entry is None or entry.matches(working))
    ):
        return working
    repository = Repository.open(path.parent)
    released = list_states(path, repository)
    stating = [state for state in released if state.stated_version == version]
    for state in stating:
        prompt = parse_or_none(state.text, path, state.read_sibling)
        if prompt is not None and (entry is None or entry.matches(prompt)):
            return prompt
    if entry is not None and stating:
        raise GitError(
            f"{name}@{version} was released with digest {entry.digest[:12]}, but no commit that"
            " states this version has that content\n"
            "  fix: commit a prompt together with its bump; `regauge lint` reports when it changed"
        )
    if entry is not None and not repository.is_shallow():
        raise GitError(
            f"{name}@{version} was released, but never committed, and {path.name} no"
            " longer holds it\n"
            "  fix: commit a prompt and prompts.lock together, right after the bump"
        )
    versions = ", ".join(
        dict.fromkeys(str(s.stated_version) for s in released if s.stated_version is not None)
    )
    message = f"no commit has version {version} of {path}"
    raise repository.missing_error(message + (f"; there are: {versions}" if versions else ""))


def text_at(path: Path, ref: str) -> str:
    """The text of a prompt file at a branch, tag or commit, also under its older names.

    Raises:
        GitError: There is no such commit, or the prompt is not in it.
    """
    repository = Repository.open(path.parent)
    return _text_in(repository, repository.commit(ref), path, ref)


def _text_in(repository: Repository, commit: str, path: Path, ref: str) -> str:
    names = [repository.inside(path)]
    data = repository.read(commit, names[0])
    if data is None:
        names = list(dict.fromkeys(c.path for c in repository.history(names[0])))
        places = [(commit, name) for name in names]
        data = next((d for d in repository.read_all(places) if d is not None), None)
    if data is None:
        raise repository.missing_error(f"{ref} ({commit[:9]}) has no {repository.inside(path)}")
    return data.decode("utf-8", "replace")


def prompt_at(path: Path, ref: str) -> Prompt:
    """Load a prompt at a branch, tag or commit.

    Raises:
        GitError: There is no such commit, or the prompt is not in it.
        PromptError: Its text is invalid.
    """
    repository = Repository.open(path.parent)
    commit = repository.commit(ref)
    read_sibling = partial(repository.read_beside, commit, repository.inside(path))
    text = _text_in(repository, commit, path, ref)
    return parse_prompt(text, path=path, committed=read_sibling)


def list_states(path: Path, repository: Repository) -> list[ReleaseState]:
    """The states of a prompt in git, newest first, one for each commit that changed it."""
    texts = [
        (commit, data.decode("utf-8", "replace")) for commit, data in repository.contents(path)
    ]
    return [
        ReleaseState(
            commit=commit,
            text=text,
            stated_version=_stated_version(text),
            read_sibling=partial(repository.read_beside, commit.hash, commit.path),
        )
        for commit, text in texts
    ]


def version_records(path: Path, repository: Repository | None) -> list[VersionRecord]:
    """All versions in the lock, git and the changelog, newest first."""
    name = prompt_name(path)
    entries = {entry.version: entry for entry in lock_of(path).entries_of(name)}
    committed = list_states(path, repository) if repository is not None else []
    working = parse_or_none(_read_or_empty(path), path)
    versions = set(entries) | {
        state.stated_version for state in committed if state.stated_version is not None
    }
    if working is not None and working.version is not None:
        versions.add(working.version)
    records = [
        _record(version, entries.get(version), committed, working, path) for version in versions
    ]
    return sorted(records, key=lambda record: record.version, reverse=True)


def _record(
    version: Semver,
    entry: LockEntry | None,
    committed: list[ReleaseState],
    working: Prompt | None,
    path: Path,
) -> VersionRecord:
    stating = [state for state in committed if state.stated_version == version]
    # A release has the date of the first commit with its content, an unreleased version that of the
    # newest.
    ordered_states = reversed(stating) if entry is not None else iter(stating)
    candidates = (
        (state.commit, parse_or_none(state.text, path, state.read_sibling))
        for state in ordered_states
    )
    matching = ((c, p) for c, p in candidates if p and (entry is None or entry.matches(p)))
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
    digests = entry if entry is not None else prompt
    return VersionRecord(
        version=version,
        digest=digests.digest if digests is not None else None,
        contract_digest=digests.contract_digest if digests is not None else None,
        released=entry is not None,
        date=date or next((note.date for note in notes if note.date), ""),
        commit=commit.hash if commit is not None else "",
        text=notes[0].text if notes else "",
    )


def _stated_version(text: str) -> Semver | None:
    """The version that a text states; parse the text only if its form is unusual."""
    match = _VERSION_LINE.search(text)
    if match is None:
        prompt = parse_or_none(text, Path(), lambda _: b"[]") if "version" in text else None
        return prompt.version if prompt is not None else None
    try:
        return Semver.parse(match[1])
    except ValueError:
        return None


def _read_or_empty(path: Path) -> str:
    try:
        return read_prompt_text(path)
    except PromptError:
        return ""
