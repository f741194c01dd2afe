"""A git repository: its commits, their files, and the working tree."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from regauge.errors import GitError
from regauge.files import LFS_POINTER
from regauge.git import git, top_level, work_tree

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    """One git repository on disk.

    Attributes:
        top: The directory of its work tree.
    """

    top: Path
    # What is in a commit never changes, and a gate reads the prompt and its lock of the base
    # several times: each time would be a process.
    _contents: dict[tuple[str, str], bytes | None] = field(
        default_factory=dict[tuple[str, str], "bytes | None"], init=False, repr=False, compare=False
    )
    _listings: dict[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[str, ...]],
        init=False,
        repr=False,
        compare=False,
    )

    _submodules: dict[str, dict[str, str]] = field(
        default_factory=dict[str, dict[str, str]], init=False, repr=False, compare=False
    )

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
            top = top_level(start)
        except GitError as error:
            if "not a git repository" in str(error) or "must be run in a work tree" in str(error):
                return None
            raise
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
            raise GitError(
                f"{path} is outside the git repository {self.top}\n"
                "  fix: move it into the repository; a link to it is not enough"
            )
        return resolved.relative_to(self.top).as_posix()

    def check_inside(self, path: Path) -> None:
        """Check that a file is in the repository, also if it is a link.

        Raises:
            GitError: It is not.
        """
        self.inside(path.resolve())

    def commit(self, ref: str) -> str:
        """The full hash of the commit of a branch, tag or hash.

        Raises:
            GitError: There is no such commit.
        """
        try:
            arguments = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            return self._text("rev-parse", *arguments).strip()
        except GitError as error:
            fix = "git fetch, or look at `git branch -a` for names"
            hint = (
                self._shallow_hint()
                or f"  fix: {fix if self.has_commits() else 'commit something first'}"
            )
            raise GitError(f"git knows no commit {ref!r}\n{hint}") from error

    def names(self, *places: str) -> list[str]:
        """The short names of refs; by default local and remote branches, and tags."""
        places = places or ("refs/heads", "refs/remotes", "refs/tags")
        return self._text("for-each-ref", "--format=%(refname:short)", *places).split()

    def refs_named(self, name: str) -> list[str]:
        """The full names of all branches and tags with a name."""
        places = [f"refs/{kind}/{name}" for kind in ("heads", "remotes", "tags")]
        lines = self._text("for-each-ref", "--format=%(refname)", *places).splitlines()
        return [place for place in places if place in lines]

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
        """Read a file in a commit; None if the commit has no such file.

        Args:
            commit: The full hash.
            path: From the top of the repository.
        """
        place = commit, path
        if place in self._contents:
            return self._contents[place]
        (data,) = self.read_all([place])
        self._keep(place, data)
        return data

    def _keep(self, place: tuple[str, str], data: bytes | None) -> None:
        if data is None or len(data) <= _CACHED_MAX:
            self._contents[place] = data

    def prefetch(self, commit: str, *, paths: Iterable[str], directories: Iterable[str]) -> None:
        """Read files, and the listings of directories, that `read` and `files` then return.

        Args:
            commit: The full hash.
            paths: Of the files, from the top of the repository.
            directories: From the top of the repository.
        """
        places = [(commit, path) for path in paths]
        for place, data in zip(places, self.read_all(places), strict=True):
            self._keep(place, data)
        directories = [*directories]
        names = self._list_tree(commit, *directories)
        for directory in directories:
            prefix = "" if directory == "." else f"{directory}/"
            self._listings[commit, directory] = tuple(n for n in names if n.startswith(prefix))

    def read_all(self, places: Iterable[tuple[str, str]]) -> list[bytes | None]:
        """Read files in commits with one process; None for each missing one.

        Symbolic links are followed inside the commit; a link out of it is a missing file.

        Args:
            places: Pairs of commit and path.
        """
        places = list(places)
        if not places:
            return []
        contents: list[bytes | None] = []
        # The protocol is line by line, so a path with a line break cannot be requested.
        object_names = [f"{commit}:{path}" if "\n" not in path else "-" for commit, path in places]
        names = "".join(f"{name}\n" for name in object_names)
        data = self._run("cat-file", "--batch", "--follow-symlinks", stdin=names)
        position = 0
        for _ in places:
            end = data.index(b"\n", position)
            header = data[position:end].split(b" ")
            position = end + 1
            if len(header) < 3 or not header[-1].isdigit() or header[-2] not in _OBJECT_KINDS:  # noqa: PLR2004  # "missing" has no size
                contents.append(None)
                if header[0] in _LINK_KINDS:  # the path that it leads to
                    position += int(header[-1]) + 1
                continue
            size = int(header[-1])
            contents.append(data[position : position + size] if header[-2] == b"blob" else None)
            position += size + 1
        return [
            self._read_in_submodule(*place) if content is None else self._read_lfs(content)
            for place, content in zip(places, contents, strict=True)
        ]

    def _read_lfs(self, data: bytes) -> bytes:
        """The content of a pointer of Git LFS, if this clone has it; other data as it is."""
        if not data.startswith(LFS_POINTER) or (match := _LFS_DIGEST.search(data)) is None:
            return data
        digest = match[1].decode()
        directory = self.top / self._text("rev-parse", "--git-common-dir").strip()
        file = directory / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
        content = file.read_bytes() if file.is_file() else b""
        return content if hashlib.sha256(content).hexdigest() == digest else data

    def _read_in_submodule(self, commit: str, path: str) -> bytes | None:
        for folder, inner_commit in self.submodules(commit).items():
            if path.startswith(f"{folder}/"):
                inner = Repository(self.top / folder)
                return inner.read(inner_commit, path.removeprefix(f"{folder}/"))
        return None

    def submodules(self, commit: str) -> dict[str, str]:
        """The commits of submodules in a commit, by path; of those that are checked out."""
        if commit not in self._submodules:
            has_any = (self.top / ".gitmodules").is_file()
            lines = self._text("ls-tree", "-r", "-z", commit).split("\0") if has_any else []
            links = (line.removeprefix("160000 commit ").partition("\t") for line in lines)
            self._submodules[commit] = {
                path: inner_commit
                for inner_commit, _, path in links
                if " " not in inner_commit and path and (self.top / path / ".git").exists()
            }
        return self._submodules[commit]

    def read_beside(self, commit: str, path: str, name: str) -> bytes | None:
        """Read a file in a commit by its path from the folder of another one; None for no file."""
        return self.read(commit, (PurePosixPath(path).parent / name).as_posix())

    def contents(self, path: Path) -> list[tuple[Commit, bytes]]:
        """The commits that touched a file and did not remove it, newest first, with its content.

        Of a symbolic link, those of its target come first.
        """
        is_link = path.is_symlink() and path.resolve().is_relative_to(self.top)
        places = [path.resolve(), path] if is_link else [path]
        by_hash: dict[str, Commit] = {}
        for place in places:
            for commit in self.history(self.inside(place)):
                by_hash.setdefault(commit.hash, commit)
        commits = [*by_hash.values()]
        contents = self.read_all((commit.hash, commit.path) for commit in commits)
        pairs = zip(commits, contents, strict=True)
        return [(commit, data) for commit, data in pairs if data is not None]

    def history(self, path: str) -> list[Commit]:
        """The commits that touched a file, newest first, followed through renames."""
        return [commit for commit in self._log("--follow", "--", path) if commit.path]

    def history_of(self, paths: Iterable[str]) -> list[Commit]:
        """The commits that touched any of these files or directories, newest first."""
        return self._log("--", *paths)

    def _log(self, *arguments: str) -> list[Commit]:
        output = ("--name-only", "-z", "--format=%x01%H%x02%aI%x02%s")
        try:
            text = self._text("log", "--no-ext-diff", "--no-textconv", *output, *arguments)
        except GitError:
            if self.has_commits():
                raise
            return []
        commits: list[Commit] = []
        for record in text.split("\x01")[1:]:
            head, _, names = record.partition("\0")
            commit, date, subject = head.split("\x02", 2)
            name = names.strip("\n\0").split("\0")[0]
            commits.append(Commit(hash=commit, date=date, subject=subject, path=name))
        return commits

    def merge_base(self, ref: str, *, tip: str = "") -> str:
        """The merge base of HEAD and a branch, tag or hash.

        Args:
            ref: The branch, tag or hash.
            tip: The full hash of its commit, if it is known.

        Raises:
            GitError: There is no such commit, nothing is committed yet, or this clone has no
                common commit.
        """
        other = tip or self.commit(ref)
        try:
            return self._text("merge-base", "HEAD", other).strip()
        except GitError as error:
            if not self.has_commits():
                message = "nothing is committed yet, so there is nothing to compare with"
                raise GitError(message) from error
            hint = self._shallow_hint() or (
                "  fix: compare with a branch that this one came from; if its history was"
                " rewritten, rebase on it"
            )
            raise GitError(f"HEAD and {ref!r} have no commit in common\n{hint}") from error

    def files(self, commit: str, directory: str) -> list[str]:
        """The paths of all files in a directory of a commit, sorted.

        Args:
            commit: The full hash.
            directory: From the top of the repository.
        """
        place = commit, directory
        if place not in self._listings:
            self._listings[place] = self._list_tree(commit, directory)
        return [*self._listings[place]]

    def _list_tree(self, commit: str, *directories: str) -> tuple[str, ...]:
        places = (f"{directory}/" for directory in directories)
        text = self._text("ls-tree", "-r", "-z", "--name-only", commit, "--", *places)
        names = {name for name in text.split("\0") if name}
        for folder, inner_commit in self.submodules(commit).items():
            inner = Repository(self.top / folder)
            for directory in map(PurePosixPath, directories):
                if directory.is_relative_to(folder):
                    inside = directory.relative_to(folder).as_posix()
                elif PurePosixPath(folder).is_relative_to(directory):
                    inside = "."
                else:
                    continue
                names.update(f"{folder}/{name}" for name in inner.files(inner_commit, inside))
        return tuple(sorted(names))

    def read_files(self, commit: str, directory: str, suffix: str) -> dict[str, bytes]:
        """Read all files with a suffix in a directory of a commit, by path."""
        paths = [name for name in self.files(commit, directory) if name.endswith(suffix)]
        new_places = [(commit, path) for path in paths if (commit, path) not in self._contents]
        contents = {
            **self._contents,
            **dict(zip(new_places, self.read_all(new_places), strict=True)),
        }
        return {path: contents[commit, path] or b"" for path in paths}

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

    def links(self) -> list[str]:
        """The tracked symbolic links, from the top."""
        lines = self._text("ls-files", "--stage", "-z").split("\0")
        return [line.partition("\t")[2] for line in lines if line.startswith("120000 ")]

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
# Size of the largest file that is kept once read, in bytes.
_CACHED_MAX = 1 << 20
_LFS_DIGEST = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)
_MAIN_BRANCHES = ("main", "master", "trunk")
_LINK_KINDS = {b"symlink", b"dangling", b"loop", b"notdir"}
_OBJECT_KINDS = {b"blob", b"tree", b"commit", b"tag"}


def check_links(root: Path, paths: Iterable[Path]) -> None:
    """Check that files of a project are in its git repository, also through links.

    Args:
        root: The root of the project; files elsewhere are not checked.
        paths: The files.

    Raises:
        GitError: A link leads out of the repository.
    """
    for path in paths:
        # `resolve` fails on a link that leads to itself, which the reader of the file reports.
        real_path = Path(os.path.realpath(path))
        if path.absolute().is_relative_to(root) and not real_path.is_relative_to(root.resolve()):
            repository = Repository.find(root)
            if repository is not None:
                repository.check_inside(path)
