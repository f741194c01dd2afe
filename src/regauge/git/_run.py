"""Runs git without prompts, in fixed words, and without programs that a repository names."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from regauge.errors import GitError
from regauge.git._programs import add_settings, override_programs, parse_settings
from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    # What `git replace` puts over a commit is no part of its history.
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
# For objects that a partial clone is still to fetch. `file` and remote helpers start programs.
_LAZY_PROTOCOLS: Final = ("http", "https", "ssh")


def git(directory: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Run a git command and return its output.

    Args:
        directory: In the repository.
        arguments: The command; paths in it are literal.
        given: Its standard input.

    Raises:
        GitError: git is not installed, takes longer than a minute, or fails.
    """
    done = run_git(directory, *arguments, given=given)
    if done.returncode != 0:
        raise failure_of(done, arguments[0])
    return done.stdout


def run_git(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    literal: bool = True,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """Run a git command at the top of the repository that a directory is in.

    Args:
        directory: In the repository; git itself runs at the top, see `work_tree`.
        arguments: The command.
        given: Its standard input.
        extra: Environment variables.
        literal: Treat paths in the command literally.
        timeout_s: Of the command, in seconds.

    Raises:
        GitError: git is not installed, the directory is in no repository, or git takes too long.
    """
    top = work_tree(directory)
    if top is None:
        raise GitError(
            f"{directory} is not in a git repository\n  fix: git init, then commit the project"
        )
    environ = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    environ |= _FIXED
    listed = _list_settings(top, frozenset(environ.items()), _settings_written(top), timeout_s)
    if listed.returncode != 0:
        return listed
    environ = add_settings(environ, override_programs(parse_settings(listed.stdout)))
    environ.setdefault("GIT_PROXY_COMMAND", "")
    if arguments[0] not in _NETWORK:
        allowed = environ.get("GIT_ALLOW_PROTOCOL", ":".join(_LAZY_PROTOCOLS)).split(":")
        environ["GIT_ALLOW_PROTOCOL"] = ":".join(p for p in _LAZY_PROTOCOLS if p in allowed)
    return _run(
        top,
        *arguments,
        environ=environ | dict(extra or {}),
        given=given,
        literal=literal,
        timeout_s=timeout_s,
    )


def _settings_written(top: Path) -> tuple[int, ...]:
    """When the repository's own files of settings were last written, in nanoseconds."""
    directory = common = top / ".git"
    with suppress(OSError, ValueError):  # it is a directory, but in a linked work tree
        pointer = read_regular(directory).decode()
        directory = common = top / pointer.removeprefix("gitdir:").strip()
        common = directory / read_regular(directory / "commondir").decode().strip()
    written: list[int] = []
    for file in (common / "config", directory / "config.worktree"):
        with suppress(OSError, ValueError):
            written.append(file.stat().st_mtime_ns)
    return tuple(written)


@lru_cache(maxsize=8)
def _list_settings(
    top: Path, environ: frozenset[tuple[str, str]], written: tuple[int, ...], timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """List the settings of a repository, which starts no program.

    Args:
        top: The repository.
        environ: All environment variables.
        written: When the repository's own settings were last written.
        timeout_s: Of the command, in seconds.
    """
    del written
    words = ("config", "--list", "--show-scope", "-z")
    return _run(top, *words, environ=dict(environ), timeout_s=timeout_s)


def work_tree(directory: Path) -> Path | None:
    """The nearest directory, upwards, that holds `.git`; None outside a repository.

    A clone can put `HEAD`, `config` and `objects/` into any directory, but never `.git`.
    """
    here = directory.resolve()
    return next((d for d in (here, *here.parents) if os.path.lexists(d / ".git")), None)


def _run(
    top: Path,
    *arguments: str,
    environ: Mapping[str, str],
    given: bytes = b"",
    literal: bool = True,
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    settings = [word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))]
    command = ["git", "--no-pager", *(("--literal-pathspecs",) if literal else ()), *settings]
    try:
        return subprocess.run(  # noqa: S603 - no shell, and refs stand behind --end-of-options
            [*command, "-C", str(top), *arguments],
            input=given,
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
