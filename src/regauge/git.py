"""Git as a program: commands, files and branches, without programs that a repository names.

Settings of the user, the system and the environment keep working: credential helpers, an ssh
command, filters. Those of `.git/config`, of the files it includes and of `config.worktree` do not:
an archive, a `.git` file or a bare repository in a directory can bring them.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from regauge.errors import GitError, UsageError
from regauge.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_REPOSITORY_SCOPES: Final = frozenset({"local", "worktree"})
# The last part of each key that git or git-lfs starts as a program, and the value without one.
_PROGRAMS: Final = {
    "alternaterefscommand": "",
    "askpass": "",
    "clean": "",
    "cmd": "",
    "command": "",
    "defaultkeycommand": "",
    "difffilter": "",
    "driver": "",
    "editor": "",
    "external": "",
    "fsmonitor": "false",
    "helper": "",
    "packobjectshook": "",
    "pager": "",
    "process": "",
    "program": "",
    "recentobjectshook": "",
    "smudge": "",
    "sshcommand": "ssh",
    "textconv": "",
}
_HELPER: Final = "credential.helper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of `git config --list`.

    Attributes:
        scope: `system`, `global`, `command`, `local` or `worktree`.
        key: Section and name in lower case.
        value: Empty where the file states none.
    """

    scope: str
    key: str
    value: str

    @property
    def default(self) -> str | None:
        """The value that starts no program; None for a setting that cannot start one."""
        section, _, rest = self.key.partition(".")
        name = rest.rpartition(".")[2]
        if section == "filter" and name == "required":
            return "false"
        if section == "lfs" and name == "path":
            return ""
        return _PROGRAMS.get(name)


def parse_settings(output: bytes) -> list[Setting]:
    """Read the output of `git config --list --show-scope -z`."""
    fields = output.decode("utf-8", "surrogateescape").split("\0")
    pairs = zip(fields[::2], (text.partition("\n") for text in fields[1::2]), strict=False)
    return [Setting(scope=scope, key=key, value=value) for scope, (key, _, value) in pairs]


def override_programs(settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Settings that disable each program of the repository and restore those of the user.

    >>> evil = Setting(scope="local", key="core.sshcommand", value="./evil")
    >>> override_programs([evil])
    [('core.sshcommand', 'ssh')]
    >>> override_programs([Setting(scope="global", key="core.sshcommand", value="ssh -4"), evil])
    [('core.sshcommand', 'ssh'), ('core.sshcommand', 'ssh -4')]
    """
    defaults = {
        setting.key: default
        for setting in settings
        if setting.scope in _REPOSITORY_SCOPES and (default := setting.default) is not None
    }
    overrides: list[tuple[str, str]] = []
    for key, default in defaults.items():
        overrides.append((key, default))
        # A helper of one URL hides the general ones, so these are restored under its key as well.
        keys = {key, _HELPER} if key.startswith("credential.") else {key}
        overrides += [
            (key, setting.value)
            for setting in settings
            if setting.scope not in _REPOSITORY_SCOPES and setting.key in keys
        ]
    return overrides


def add_settings(environ: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Add git settings to an environment, after the existing ones."""
    before = environ.get("GIT_CONFIG_COUNT", "0")
    count = int(before) if before.isdecimal() else 0
    new_environ = dict(environ)
    for number, (key, value) in enumerate(settings, start=count):
        new_environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    if settings:
        new_environ["GIT_CONFIG_COUNT"] = str(count + len(settings))
    return new_environ


# A hook runs with these set for the repository of the hook, which need not be the project's.
_INHERITED: Final = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
)
_FIXED: Final = {
    "LC_ALL": "C",
    # Replacements of commits by `git replace` are not part of the history.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_SETTINGS: Final = {
    "color.ui": "false",
    "core.quotePath": "false",
    "log.showSignature": "false",
    # Programs: files of a repository in a directory, hooks, remote helpers, submodules, upkeep.
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}
_NETWORK: Final = frozenset({"fetch", "ls-remote", "push"})
# It reads small files only.
_SETTINGS_TIMEOUT_S: Final = 10
# For missing objects of a partial clone. `file` and remote helpers start programs.
_LAZY_PROTOCOLS: Final = ("http", "https", "ssh")


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a git command and return its output.

    Args:
        directory: A directory in the repository.
        arguments: The command; paths in it are literal.
        stdin: Standard input.

    Raises:
        GitError: git is not installed, takes longer than a minute, or fails.
    """
    done = run_git(directory, *arguments, stdin=stdin)
    if done.returncode != 0:
        raise failure_of(done, arguments[0])
    return done.stdout


def run_git(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    literal: bool = True,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """Run a git command at the top of the repository that a directory is in.

    Args:
        directory: A directory in the repository; git itself runs at the top, see `work_tree`.
        arguments: The command.
        stdin: Standard input.
        extra: Further environment variables.
        literal: Whether paths in the command are literal.
        timeout_s: Seconds for the command.

    Raises:
        GitError: git is not installed, the directory is in no repository, or git takes too long.
    """
    top = work_tree(directory)
    if top is None:
        fix = "git init, then commit the project"
        raise GitError(f"{directory} is not in a git repository", fix=fix)
    environ = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    environ |= _FIXED
    listing = _list_settings(top, frozenset(environ.items()), _settings_mtimes(top))
    if listing.returncode != 0:
        return listing
    environ = add_settings(environ, override_programs(parse_settings(listing.stdout)))
    environ.setdefault("GIT_PROXY_COMMAND", "")
    if arguments[0] not in _NETWORK:
        allowed = environ.get("GIT_ALLOW_PROTOCOL", ":".join(_LAZY_PROTOCOLS)).split(":")
        environ["GIT_ALLOW_PROTOCOL"] = ":".join(p for p in _LAZY_PROTOCOLS if p in allowed)
    return _run(
        top,
        *arguments,
        environ=environ | dict(extra or {}),
        stdin=stdin,
        literal=literal,
        timeout_s=timeout_s,
    )


def _settings_mtimes(top: Path) -> tuple[int, ...]:
    """Modification times of the repository's own settings files, in nanoseconds."""
    directory = common = top / ".git"
    with suppress(OSError, ValueError):  # a file only in a linked work tree
        pointer = read_regular(directory).decode()
        directory = common = top / pointer.removeprefix("gitdir:").strip()
        common = directory / read_regular(directory / "commondir").decode().strip()
    times: list[int] = []
    for file in (common / "config", directory / "config.worktree"):
        with suppress(OSError, ValueError):
            times.append(file.stat().st_mtime_ns)
    return tuple(times)


@lru_cache(maxsize=8)
def _list_settings(
    top: Path, environ: frozenset[tuple[str, str]], mtimes: tuple[int, ...]
) -> subprocess.CompletedProcess[bytes]:
    """List the settings of a repository, which starts no program.

    Args:
        top: The repository.
        environ: All environment variables.
        mtimes: Modification times of the repository's own settings, as a cache key.
    """
    del mtimes
    words = ("config", "--list", "--show-scope", "-z")
    return _run(top, *words, environ=dict(environ), timeout_s=_SETTINGS_TIMEOUT_S)


def top_level(start: Path) -> Path:
    """The top of the work tree that git finds from a directory that holds `.git`.

    Raises:
        GitError: git is not installed, or refuses the repository.
    """
    return _top_level(start, frozenset(os.environ.items()), _settings_mtimes(start))


@lru_cache(maxsize=8)
def _top_level(start: Path, environ: frozenset[tuple[str, str]], mtimes: tuple[int, ...]) -> Path:
    del environ, mtimes  # the cache key
    output = git(start, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(output.removesuffix(b"\n"))).resolve()


def work_tree(directory: Path) -> Path | None:
    """The nearest directory, upwards, that holds `.git`; None outside a repository.

    A clone can put `HEAD`, `config` and `objects/` into any directory, but never `.git`.
    """
    start = directory.resolve()
    return next((d for d in (start, *start.parents) if os.path.lexists(d / ".git")), None)


def find_ignored(root: Path, names: Iterable[str]) -> frozenset[str]:
    """The untracked files below a directory that git ignores; none outside of a repository."""
    prefix = f"{root.resolve().as_posix()}/"
    paths = "\0".join(f"{prefix}{name}" for name in names)
    if not paths:
        return frozenset()  # git would have nothing to look for
    try:
        done = run_git(
            root, "check-ignore", "-z", "--stdin", stdin=os.fsencode(paths), literal=False
        )
    except GitError:
        return frozenset()
    ignored = os.fsdecode(done.stdout).split("\0") if done.returncode == 0 else ()
    return frozenset(path.removeprefix(prefix) for path in ignored)


def _run(
    top: Path,
    *arguments: str,
    environ: Mapping[str, str],
    stdin: bytes = b"",
    literal: bool = True,
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    settings = [word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))]
    command = ["git", "--no-pager", *(("--literal-pathspecs",) if literal else ()), *settings]
    try:
        return subprocess.run(  # noqa: S603 - no shell, and refs stand behind --end-of-options
            [*command, "-C", str(top), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            env=environ,
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        fix = "install git: versions of prompts are read from it"
        raise GitError(f"the program `git` was not found\n  fix: {fix}") from error
    except OSError as error:
        raise GitError(f"git {arguments[0]} did not work: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {arguments[0]} took longer than {timeout_s:g} s") from error


def failure_of(done: subprocess.CompletedProcess[bytes], command: str) -> GitError:
    """The error of a failed command, with git's own message."""
    message = done.stderr.decode("utf-8", "replace").strip()
    return GitError(f"git {command} failed: {message or f'exit code {done.returncode}'}")


# Long enough for a push over a slow line; a password prompt would never end.
_TIMEOUT_S = 120
# The trailer of our commits. It holds the tree, so an amended commit is no longer ours.
_TREE = "Refinement-tree"


def git_text(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    extra: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """Run a git command and return its output as text; empty if it fails without `check`."""
    done = run_git(directory, *arguments, stdin=stdin, extra=extra, timeout_s=_TIMEOUT_S)
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    if check:
        raise failure_of(done, arguments[0])
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch with one new commit."""

    name: str
    commit: str


def commit_files(
    path: Path, head: str, files: Mapping[str, bytes], *, name: str, message: str, renew: bool
) -> Branch:
    """Commit files on a new branch; the work tree and the index stay as they are.

    Args:
        path: A file of the repository.
        head: The parent commit.
        files: The new contents, by path in the repository.
        name: The branch's name.
        message: The commit message; its last lines may be trailers.
        renew: Whether to replace the branch of an earlier proposal.
    """
    root = path.resolve().parent
    tip = _commit_of(root, f"refs/heads/{name}")
    if tip and not (renew and is_proposal(path, tip)):
        raise UsageError(f"there is a branch {name!r} already\n  fix: --branch ANOTHER-NAME")
    tree = _tree(root, head, files)
    if tip and _commit_of(root, f"{tip}~1") == head and _tree_of(root, tip) == tree:
        return Branch(name=name, commit=tip)
    if tip and current_branch(path) == name:
        fix = "switch to the branch that the proposal is for: git switch BRANCH"
        raise UsageError(f"the branch {name!r} is checked out, so it cannot be renewed", fix=fix)
    words = f"{message}\n{_TREE}: {tree}\n"
    commit = git_text(root, "commit-tree", tree, "-p", head, stdin=words.encode())
    git_text(root, "update-ref", f"refs/heads/{name}", commit, tip or "0" * len(commit))
    return Branch(name=name, commit=commit)


def check_branch(path: Path, name: str, *, renew: bool = False) -> None:
    """Check that a branch with this name can be created.

    Raises:
        UsageError: The name is invalid or taken.
    """
    root = path.resolve().parent
    git_text(root, "rev-parse", "--git-dir")
    try:
        git_text(root, "check-ref-format", f"refs/heads/{name}")
    except GitError as error:
        message = f"git allows no branch of the name {name!r}\n  fix: a name such as refine/mine"
        raise UsageError(message) from error
    parts = name.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts))]
    names = git_text(root, "for-each-ref", "--format=%(refname)", "refs/heads/").split()
    for existing in (ref.removeprefix("refs/heads/") for ref in names):
        if existing == name and renew and is_proposal(path, f"refs/heads/{name}"):
            continue
        if existing in {name, *above} or existing.startswith(f"{name}/"):
            raise UsageError(f"there is a branch {existing!r} already", fix="--branch ANOTHER-NAME")


def current_branch(path: Path) -> str:
    """The branch that is checked out; empty with a detached HEAD."""
    return git_text(path.resolve().parent, "symbolic-ref", "-q", "--short", "HEAD", check=False)


def is_proposal(path: Path, commit: str) -> bool:
    """Return whether a commit was created by `commit_files` and not amended since."""
    root = path.resolve().parent
    trailers = git_text(
        root, "log", "-1", f"--format=%(trailers:key={_TREE},valueonly)", commit, check=False
    )
    return bool(trailers) and trailers == _tree_of(root, commit)


def find_changed_files(files: Sequence[Path]) -> list[Path]:
    """The files that differ from the last commit."""
    status = ("status", "--porcelain", "--ignore-submodules=dirty", "--")
    return [file for file in files if git_text(file.parent, *status, str(file))]


def _tree_of(root: Path, commit: str) -> str:
    return _commit_of(root, f"{commit}^{{tree}}")


def _commit_of(root: Path, name: str) -> str:
    return git_text(root, "rev-parse", "--verify", "--quiet", name, check=False)


def _tree(root: Path, head: str, files: Mapping[str, bytes]) -> str:
    """Write the tree of `head` with changed files, through a temporary index."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        environ = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        top = Path(git_text(root, "rev-parse", "--show-toplevel"))
        git_text(top, "read-tree", head, extra=environ)
        for inside, data in files.items():
            blob = git_text(top, "hash-object", "-w", "--stdin", stdin=data)
            mode = git_text(top, "ls-files", "--format=%(objectmode)", "--", inside, extra=environ)
            entry = f"{mode or '100644'},{blob},{inside}"
            git_text(top, "update-index", "--add", "--cacheinfo", entry, extra=environ)
        return git_text(top, "write-tree", extra=environ)


_REMOTE = "origin"
# A remote in the settings of a repository may name other programs for both ends.
_UPLOAD = "--upload-pack=git-upload-pack"
_LS_REMOTE = ("ls-remote", _UPLOAD, "--heads")
_FETCH = ("fetch", _UPLOAD, "--quiet", "--no-tags", "--no-write-fetch-head")
_PUSH = ("push", "--receive-pack=git-receive-pack", "--no-verify", "--quiet")


def remote_address(path: Path) -> str:
    """The address of the remote; empty where there is none."""
    return git_text(path.resolve().parent, "remote", "get-url", _REMOTE, check=False)


def remote_tip(path: Path, branch: str) -> str:
    """The commit that a branch of the remote is at; empty where there is no such branch."""
    _refuse_remote_inside(path)
    listing = git_text(path.resolve().parent, *_LS_REMOTE, _REMOTE, f"refs/heads/{branch}")
    return listing.split(maxsplit=1)[0] if listing else ""


def _refuse_remote_inside(path: Path) -> None:
    """Refuse a remote in a directory of this repository: its hooks would run on a push."""
    top = work_tree(path.parent)
    if top is None:
        return
    for kind in ((), ("--push",)):
        urls = git_text(top, "remote", "get-url", "--all", *kind, _REMOTE, check=False)
        for url in urls.splitlines():
            directory = (top / url.removeprefix("file://")).resolve()
            if directory.is_relative_to(top) and directory.exists():
                message = f"the remote {_REMOTE!r} is a directory of this repository: {url}"
                raise UsageError(message, fix=f"git remote set-url {_REMOTE} ADDRESS")


def has_unpushed(path: Path, tip: str) -> bool:
    """Return whether the current commit has commits that `tip` does not have; False if unknown."""
    root = path.resolve().parent
    return (
        bool(_commit_of(root, f"{tip}^{{commit}}"))
        and git_text(root, "rev-list", "--count", f"{tip}..HEAD") != "0"
    )


def push(path: Path, branch: Branch) -> None:
    """Push a branch; it replaces an earlier proposal on the remote, and nothing else."""
    root, ref = path.resolve().parent, f"refs/heads/{branch.name}"
    tip = remote_tip(path, branch.name)
    if tip == branch.commit:
        return
    if tip:
        git_text(root, *_FETCH, _REMOTE, ref)
        if not is_proposal(path, tip):
            message = f"{branch.name} at {_REMOTE} has commits that are not of a refinement run"
            fix = "merge or close that branch, or name another one: --branch NAME"
            raise UsageError(message, fix=fix)
    # The remote branch must still be the one that was checked.
    lease = f"--force-with-lease={ref}:{tip}"
    git_text(root, *_PUSH, lease, _REMOTE, f"{branch.commit}:{ref}")
