"""Older versions of a prompt, in git and `prompts.lock`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from regauge.errors import GitError, PromptError
from regauge.git import git, work_tree
from regauge.prompts._files import lock_of, read_prompt_text
from regauge.prompts._parse import parse_prompt, prompt_name
from regauge.prompts._types import Semver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from regauge.prompts._files import LockEntry
    from regauge.prompts._prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit that touched a file.

    Attributes:
        hash: The full hash, of 40 or 64 hexadecimal digits.
        date: The author's date, as ISO 8601 with the offset from UTC.
        subject: The first line of the message.
        path: The path of the file in that commit, from the top of the repository; the first of
            several, empty for a merge.
    """

    hash: str
    date: str
    subject: str
    path: str


@dataclass(frozen=True, slots=True)
class Repository:
    """One git repository on disk."""

    top: Path

    @classmethod
    def find(cls, directory: Path) -> Repository | None:
        """Find the repository of a directory; None for none.

        Raises:
            GitError: git is not installed, or refuses the repository.
        """
        start = work_tree(directory)
        if start is None:
            return None
        try:
            toplevel = git(start, "rev-parse", "--show-toplevel")
        except GitError as error:
            if "not a git repository" in str(error) or "must be run in a work tree" in str(error):
                return None
            raise
        top = Path(os.fsdecode(toplevel.removesuffix(b"\n"))).resolve()
        if not start.is_relative_to(top):
            raise GitError(
                f"{start / '.git'} names another work tree: {top}\n"
                "  fix: remove `core.worktree` from its settings, or clone the repository again"
            )
        return cls(top)

    @classmethod
    def open(cls, directory: Path) -> Repository:
        """Find the repository of a directory.

        Raises:
            GitError: There is none, or git is not installed.
        """
        repository = cls.find(directory)
        if repository is None:
            raise GitError(
                f"{directory} is not in a git repository, and git is where versions are kept\n"
                "  fix: git init, then commit the prompt"
            )
        return repository

    def inside(self, path: Path) -> str:
        """The path of a file from the top of the repository, with slashes.

        Raises:
            GitError: The file is outside the repository.
        """
        resolved = path.parent.resolve() / path.name
        if not resolved.is_relative_to(self.top):
            raise GitError(f"{path} is outside the git repository {self.top}")
        return resolved.relative_to(self.top).as_posix()

    def commit(self, ref: str) -> str:
        """The full hash of the commit of a branch, tag or hash.

        Raises:
            GitError: There is no such commit.
        """
        try:
            arguments = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            return self._text("rev-parse", *arguments).strip()
        except GitError as error:
            hint = self._shallow_hint() or "  fix: git fetch, or look at `git branch -a` for names"
            raise GitError(f"git knows no commit {ref!r}\n{hint}") from error

    def names(self, *places: str) -> list[str]:
        """The short names of refs; by default local and remote branches, and tags."""
        places = places or ("refs/heads", "refs/remotes", "refs/tags")
        return self._text("for-each-ref", "--format=%(refname:short)", *places).split()

    def remotes(self) -> list[str]:
        """The names of the remotes."""
        return self._text("remote").split()

    def reaches(self, ref: str) -> int | None:
        """The number of first-parent ancestors of a commit; None for an unknown commit."""
        try:
            text = self._text("rev-list", "--count", "--first-parent", "--end-of-options", ref)
        except GitError:
            return None
        return int(text) - 1

    def namesake(self, ref: str) -> str:
        """Suggest a branch for an unknown name; empty for none.

        `main` for `origin/main` in a clone without a remote, and vice versa.
        """
        branches = self.names("refs/heads", "refs/remotes")
        tail = ref.rpartition("/")[2]
        namesakes = [name for name in branches if name.rpartition("/")[2] == tail]
        return next(iter([*namesakes, *(name for name in branches if name in _MAIN_BRANCHES)]), "")

    def has_commits(self) -> bool:
        """Return whether there is any commit."""
        try:
            self._text("rev-parse", "--verify", "--quiet", "HEAD")
        except GitError:
            return False
        return True

    def read(self, commit: str, path: str) -> bytes | None:
        """Read a file in a commit; None if the commit has no such file."""
        return next(iter(self.read_all([(commit, path)])))

    def read_all(self, places: Iterable[tuple[str, str]]) -> list[bytes | None]:
        """Read files in commits with one process; None for each missing one.

        Args:
            places: Pairs of commit and path.
        """
        places = list(places)
        contents: list[bytes | None] = []
        # The protocol is line by line, so a path with a line break cannot be requested.
        object_names = [f"{commit}:{path}" if "\n" not in path else "-" for commit, path in places]
        data = self._run("cat-file", "--batch", stdin="".join(f"{name}\n" for name in object_names))
        position = 0
        for _ in places:
            end = data.index(b"\n", position)
            header = data[position:end].split(b" ")
            position = end + 1
            if len(header) < 3 or not header[-1].isdigit() or header[-2] not in _OBJECT_KINDS:  # noqa: PLR2004  # "missing" has no size
                contents.append(None)
                continue
            size = int(header[-1])
            contents.append(data[position : position + size] if header[-2] == b"blob" else None)
            position += size + 1
        return contents

    def history(self, path: str) -> list[Commit]:
        """The commits that touched a file, newest first, followed through renames."""
        return [commit for commit in self._log("--follow", "--", path) if commit.path]

    def history_of(self, paths: Iterable[str]) -> list[Commit]:
        """The commits that touched any of these files or directories, newest first."""
        return self._log("--", *paths)

    def _log(self, *arguments: str) -> list[Commit]:
        if not self.has_commits():
            return []
        output = ("--name-only", "-z", "--format=%x01%H%x02%aI%x02%s")
        text = self._text("log", "--no-ext-diff", "--no-textconv", *output, *arguments)
        commits: list[Commit] = []
        for record in text.split("\x01")[1:]:
            head, _, names = record.partition("\0")
            commit, date, subject = head.split("\x02", 2)
            name = names.strip("\n\0").split("\0")[0]
            commits.append(Commit(hash=commit, date=date, subject=subject, path=name))
        return commits

    def merge_base(self, ref: str) -> str:
        """The merge base of HEAD and a branch, tag or hash.

        Raises:
            GitError: There is no such commit, nothing is committed yet, or this clone has no
                common commit.
        """
        other = self.commit(ref)
        if not self.has_commits():
            raise GitError("nothing is committed yet, so there is nothing to compare with")
        try:
            return self._text("merge-base", "HEAD", other).strip()
        except GitError as error:
            hint = self._shallow_hint() or "  fix: compare with a branch that this one came from"
            raise GitError(f"HEAD and {ref!r} have no commit in common\n{hint}") from error

    def files(self, commit: str, directory: str) -> list[str]:
        """The paths of all files in a directory of a commit, sorted."""
        text = self._text("ls-tree", "-r", "-z", "--name-only", commit, "--", f"{directory}/")
        return sorted(name for name in text.split("\0") if name)

    def read_files(self, commit: str, directory: str, suffix: str) -> dict[str, bytes]:
        """Read all files with a suffix in a directory of a commit, by path."""
        paths = [name for name in self.files(commit, directory) if name.endswith(suffix)]
        contents = self.read_all((commit, path) for path in paths)
        return {path: data or b"" for path, data in zip(paths, contents, strict=True)}

    def changed(self, commit: str) -> tuple[set[str], dict[str, str]]:
        """The differences between a commit and the working tree.

        Returns:
            The paths of added, changed and removed files, untracked ones included; and for each
            renamed file, by its new path, its path in the commit.
        """
        fields = self._text(*_DIFF, "--name-status", "-z", "--find-renames", commit).split("\0")
        untracked = self._text("ls-files", "--others", "--exclude-standard", "-z", "--full-name")
        paths = {name for name in untracked.split("\0") if name}
        renamed: dict[str, str] = {}
        remaining_fields = iter(field for field in fields if field)
        for status in remaining_fields:
            path = next(remaining_fields)
            paths.add(path)
            if status[0] in "RC":
                now = next(remaining_fields)
                paths.add(now)
                if status[0] == "R":
                    renamed[now] = path
        return paths, renamed

    def tracked(self, directory: Path) -> list[str]:
        """The tracked paths at or below a directory, from the top."""
        listing = self._text("ls-files", "-z", "--", self.inside(directory))
        return [path for path in listing.split("\0") if path]

    def is_dirty(self) -> bool:
        """Return whether files differ from HEAD."""
        status = ("status", "--porcelain", "-z", "--untracked-files=normal", _SUBMODULES)
        return bool(self._text(*status).strip())

    def is_shallow(self) -> bool:
        """Return whether the repository is a shallow clone."""
        return self._text("rev-parse", "--is-shallow-repository").strip() == "true"

    def _shallow_hint(self) -> str:
        if not self.is_shallow():
            return ""
        return (
            "  fix: this clone is shallow; fetch the rest with `git fetch --unshallow`"
            " (in a workflow: `fetch-depth: 0` of actions/checkout)"
        )

    def missing_error(self, message: str) -> GitError:
        """The error for a missing commit or file, with a hint for shallow clones."""
        hint = self._shallow_hint()
        return GitError(f"{message}\n{hint}" if hint else message)

    def _text(self, *arguments: str) -> str:
        return os.fsdecode(self._run(*arguments))

    def _run(self, *arguments: str, stdin: str = "") -> bytes:
        return git(self.top, *arguments, stdin=os.fsencode(stdin))


# Otherwise git would check the files of each submodule.
_SUBMODULES = "--ignore-submodules=dirty"
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", _SUBMODULES)
_MAIN_BRANCHES = ("main", "master", "trunk")
_OBJECT_KINDS = {b"blob", b"tree", b"commit", b"tag"}


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
    name = prompt_name(path)
    entry = lock_of(path).get(name, version)
    working = _parse_or_none(_read_or_empty(path), path)
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
        prompt = _parse_or_none(state.text, path, state.read_sibling)
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
    commit = repository.commit(ref)
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
    read_sibling = _sibling_reader(repository, commit, repository.inside(path))
    return parse_prompt(text_at(path, ref), path=path, committed=read_sibling)


def _sibling_reader(
    repository: Repository, commit: str, name: str
) -> Callable[[str], bytes | None]:
    """Return a function that reads a file next to a prompt in a commit."""
    folder = PurePosixPath(name).parent
    return lambda inner: repository.read(commit, (folder / inner).as_posix())


def list_states(path: Path, repository: Repository) -> list[ReleaseState]:
    """The states of a prompt in git, newest first, one for each commit that changed it."""
    commits = repository.history(repository.inside(path))
    texts = repository.read_all((commit.hash, commit.path) for commit in commits)
    release_states: list[ReleaseState] = []
    for commit, data in zip(commits, texts, strict=True):
        if data is not None:
            text = data.decode("utf-8", "replace")
            read_sibling = _sibling_reader(repository, commit.hash, commit.path)
            version = _stated_version(text, path)
            release_states.append(
                ReleaseState(
                    commit=commit, text=text, stated_version=version, read_sibling=read_sibling
                )
            )
    return release_states


def version_records(path: Path, repository: Repository | None) -> list[VersionRecord]:
    """All versions in the lock, git and the changelog, newest first."""
    name = prompt_name(path)
    entries = {entry.version: entry for entry in lock_of(path).entries_of(name)}
    committed = list_states(path, repository) if repository is not None else []
    working = _parse_or_none(_read_or_empty(path), path)
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
        (state.commit, _parse_or_none(state.text, path, state.read_sibling))
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


def _stated_version(text: str, path: Path) -> Semver | None:
    """The version that a text states; parse the text only if its form is unusual."""
    match = _VERSION_LINE.search(text)
    if match is None:
        prompt = _parse_or_none(text, path, lambda _: b"[]") if "version" in text else None
        return prompt.version if prompt is not None else None
    try:
        return Semver.parse(match[1])
    except ValueError:
        return None


def _parse_or_none(
    text: str, path: Path, committed: Callable[[str], bytes | None] | None = None
) -> Prompt | None:
    try:
        return parse_prompt(text, path=path, committed=committed)
    except PromptError:
        return None


def _read_or_empty(path: Path) -> str:
    try:
        return read_prompt_text(path)
    except PromptError:
        return ""
