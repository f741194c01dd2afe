"""The exceptions of regauge, with their exit codes.

A message states the problem, the file, case or model, and the fix. Every error has the attributes
`message` and `fix`; some have more.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def split_location(location: str) -> tuple[str, int | None]:
    """The file and the line of a golden case or a label.

    >>> split_location("fixtures/golden/triage.jsonl:12")
    ('fixtures/golden/triage.jsonl', 12)
    """
    path, _, line = location.rpartition(":")
    return path, int(line) if line.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error or warning about a line of a file.

    Attributes:
        path: The file.
        line: The line, from 1; None for the file as a whole.
        message: The problem, without its place.
        fix: The fix; empty if the message implies it.
    """

    path: Path
    line: int | None = None
    message: str
    fix: str = ""

    @classmethod
    def unreadable(cls, path: Path, error: OSError) -> Diagnostic:
        """The error for a file that cannot be read, or a directory at its path."""
        problem, fix = _explain_path_error(error)
        is_directory = isinstance(error, IsADirectoryError)
        message = problem if is_directory else f"cannot be read: {problem}"
        return cls(path=path, line=None, message=message, fix=fix)

    @classmethod
    def at_location(cls, location: str, message: str, fix: str = "") -> Diagnostic:
        """The error of a golden case or a label, by its place."""
        path, line = split_location(location)
        return cls(path=Path(path), line=line, message=message, fix=fix)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line is not None else str(self.path)
        return f"{place}: {self.message}" + (f"\n  fix: {self.fix}" if self.fix else "")


_FIX: Final = "\n  fix: "


class RegaugeError(Exception):
    """The root of the tree.

    Args:
        text: The problem; it may end with the fix, on its own line after `  fix: `.
        fix: The fix, unless the text ends with it.

    Attributes:
        exit_code: The exit code of the command line.
        regauge_words: Marks a message for users, who need no traceback.
    """

    exit_code: ClassVar[int] = 2
    regauge_words: ClassVar[bool] = True

    def __init__(self, text: str = "", *, fix: str = "") -> None:
        super().__init__(f"{text}{_FIX}{fix}" if fix else text)

    @property
    def message(self) -> str:
        """The message without the fix; the full text of several errors."""
        text = str(self)
        return text.partition(_FIX)[0] if text.count(_FIX) == 1 else text

    @property
    def fix(self) -> str:
        """The fix; empty if there is none, or several."""
        text = str(self)
        return text.partition(_FIX)[2] if text.count(_FIX) == 1 else ""

    def reworded(self, text: str) -> Self:
        """The same error with another text."""
        # A copy would be constructed again, for which some classes need more than a text.
        error = type(self).__new__(type(self), text)
        vars(error).update(vars(self))
        return error


class UsageError(RegaugeError):
    """An invalid command, option or argument."""


class InvalidFileError(RegaugeError):
    """A file that cannot be used, with all its errors."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))

    @classmethod
    def at_place(cls, path: Path, message: str, fix: str = "", *, line: int | None = None) -> Self:
        """One error, at its place."""
        return cls([Diagnostic(path=path, line=line, message=message, fix=fix)])

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Diagnostic, ...]]]:
        # Another process passes it on, such as one that reads shards.
        return type(self), (self.diagnostics,)


def find_errors(load: Callable[[Path], object], paths: Iterable[Path]) -> list[Diagnostic]:
    """The errors of all files that cannot be loaded."""
    diagnostics: list[Diagnostic] = []
    for path in paths:
        try:
            load(path)
        except InvalidFileError as error:
            diagnostics.extend(error.diagnostics)
    return diagnostics


class ConfigError(InvalidFileError):
    """`[tool.regauge]` of pyproject.toml is unusable."""


class PromptError(InvalidFileError):
    """A prompt file that cannot be used."""


class RenderError(PromptError):
    """A prompt that cannot be rendered with the inputs of a case."""


class LockError(InvalidFileError):
    """`prompts.lock` and the prompt files contradict each other."""


class DatasetError(InvalidFileError):
    """A golden dataset that cannot be used."""


class MachineError(RegaugeError):
    """The disk is full, file descriptors are used up, or access is denied."""

    @classmethod
    def from_os_error(cls, error: OSError, path: Path | None = None) -> MachineError:
        """Explain an error of the system.

        Args:
            error: The error.
            path: The file, if the error does not name it.
        """
        problem, fix = _explain_path_error(error)
        place = path or error.filename
        return cls((f"{place}: " if place else "") + problem, fix=fix)


def has_no_descriptor(error: BaseException) -> TypeGuard[OSError]:
    """Return whether this process or the machine has no file descriptor left."""
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


def find_no_descriptor() -> OSError | None:
    """The error of opening a file without descriptors, which SQLite hides; None without one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if has_no_descriptor(error) else None
    return None


_MAKE_ROOM: Final = (
    "no space is left on the disk",
    "make room, then run the same command again: it continues with what is kept",
)
_NO_DESCRIPTOR: Final = (
    "too many files and connections are open",
    "raise the limit, as with ulimit -n 1024, or lower --concurrency",
)
_PROBLEMS: Final = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EFBIG: (
        "the file is larger than this process may write",
        "raise the limit (ulimit -f), then run the same command again",
    ),
    errno.EMFILE: _NO_DESCRIPTOR,
    errno.ENFILE: _NO_DESCRIPTOR,
    errno.ENAMETOOLONG: ("the name is too long for a file", "choose a shorter name"),
    errno.ELOOP: (
        "a symbolic link that leads to itself",
        "remove the link, or point it at a file",
    ),
}


def explain_os_error(error: OSError) -> tuple[str, str]:
    """Describe an error of the system, with its fix; an empty fix if there is none to add."""
    return _PROBLEMS.get(error.errno or 0, (error.strerror or str(error), ""))


def _explain_path_error(error: OSError) -> tuple[str, str]:
    """The same, with fixes that suit any file."""
    problem, fix = explain_os_error(error)
    match error:
        case IsADirectoryError():
            problem = "there is a directory at the path of this file"
            fix = "move it away, and put the file back (git checkout, if it was committed)"
        case NotADirectoryError():
            problem = "there is a file at the path of a directory above"
            fix = "move the file away, and put the directory back"
        case PermissionError():
            fix = "give permission for it, as with chmod u+rw, or run as its owner"
        case _:
            pass
    return problem, fix


class GitError(RegaugeError):
    """A git command failed, or git is not installed."""


class GitHubError(RegaugeError):
    """GitHub cannot be reached, or refuses the request.

    Attributes:
        kind: The cause: `authentication`, `permission`, `not-found`, `disabled`, `invalid`,
            `rate-limit`, `server`, `connection`, `malformed` or `refused`.
        status: The HTTP status; None without a response.
    """

    def __init__(
        self, message: str, *, kind: str, status: int | None = None, fix: str = ""
    ) -> None:
        self.kind = kind
        self.status = status
        super().__init__(message, fix=fix)


class StoreError(RegaugeError):
    """The run history cannot be written or read; the runs themselves are safe.

    Attributes:
        place: Its file or URL, without passwords.
    """

    def __init__(self, place: str, message: str, fix: str) -> None:
        self.place = place
        super().__init__(f"history in {place}: {message}", fix=fix)


class UnmeasuredError(RegaugeError):
    """Something was not measured: neither a pass nor a fail."""

    exit_code: ClassVar[int] = 3


class PendingError(UnmeasuredError):
    """A completion of a batch that is not there yet."""


class ProviderError(UnmeasuredError):
    """A model call failed, or its response is unusable.

    Attributes:
        kind: A stable code, such as `connection`, `timeout`, `rate-limit`, `authentication`,
            `bad-request`, `server` or `malformed`.
        status: The HTTP status, when there was one.
        attempts: Attempts.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        attempts: int = 1,
        fix: str = "",
    ) -> None:
        self.kind = kind
        self.status = status
        self.attempts = attempts
        super().__init__(message, fix=fix)


class JudgeError(UnmeasuredError):
    """A judge failed to return a verdict; neither a fail nor a pass.

    Attributes:
        judge: The name of the judge.
        raw: The unreadable response of the judge's model; None without one.
        traceback: The traceback of the code that raised; empty without one.
    """

    def __init__(
        self, message: str, *, judge: str, raw: str | None = None, traceback: str = ""
    ) -> None:
        self.judge = judge
        self.raw = raw
        self.traceback = traceback
        super().__init__(message)


class RecordingError(InvalidFileError):
    """A recordings file that cannot be read; it was not changed."""

    exit_code: ClassVar[int] = 3


class MissingRecordingError(UnmeasuredError):
    """A replay has no recording of a completion or judge response.

    Attributes:
        prompt: The prompt's name.
        case: The case id.
        trial: The trial number, from 0.
        stale: Whether an older version of the prompt has a recording for this case.
        judge: The judge whose response is missing; None for a completion of the prompt.

    Args:
        evals: The directory of the eval, if it is not `evals`.
    """

    def __init__(
        self,
        *,
        prompt: str,
        case: str,
        trial: int,
        stale: bool,
        judge: str | None = None,
        evals: str = "",
    ) -> None:
        self.prompt = prompt
        self.case = case
        self.trial = trial
        self.stale = stale
        self.judge = judge
        subject = f"case {case!r} of prompt {prompt!r}" + (f", trial {trial}" if trial else "")
        if judge is not None:
            words = ["regauge", "record", prompt, *(["--evals", evals] if evals else [])]
            super().__init__(
                f"no recorded response for judge {judge!r}: {subject}\n"
                f"  record it: {shlex.join(words)}"
            )
            return
        reason = "the recording is of an older request" if stale else "no recorded completion"
        command = f"pytest {shlex.quote(evals or 'evals')} --record=missing -k {case!r}"
        super().__init__(f"{reason}: {subject}\n  record it: {command}")


class MissingOutputError(MissingRecordingError):
    """The output file of a `recorded` target has no line for a trial.

    Attributes:
        file: The file, below `fixtures`.
    """

    def __init__(self, *, prompt: str, case: str, trial: int, file: str) -> None:
        super().__init__(prompt=prompt, case=case, trial=trial, stale=False)
        self.file = file
        line = json.dumps({"case": case, "trial": trial, "text": "..."}, ensure_ascii=False)
        problem = f"fixtures/{file} has no line for case {case!r}, trial {trial}"
        self.args = (f"{problem}\n  fix: add a line to fixtures/{file}: {line}",)


class BudgetError(UnmeasuredError):
    """The budget was reached; another run continues.

    Attributes:
        limit: The exhausted limit.
    """

    def __init__(self, message: str, *, limit: Literal["usd", "tokens", "calls"] = "usd") -> None:
        self.limit: Literal["usd", "tokens", "calls"] = limit
        super().__init__(message)
