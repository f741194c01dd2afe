"""Every exception that regauge raises on purpose, and the exit code each one means.

A message says what went wrong, which file, case or model it concerns, and what to do next.
Facts are attributes: `message` and `fix` of every error, and more of some.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong at one place of one file.

    Attributes:
        path: The file.
        line: The line, counted from 1; None when the file as a whole is at fault.
        message: What is wrong, without the place.
        fix: What to do about it; empty when the message already says so.
    """

    path: Path
    line: int | None = None
    message: str
    fix: str = ""

    @classmethod
    def unreadable(cls, path: Path, error: OSError) -> Fault:
        """A file that the system does not let read, or a directory in its place."""
        if isinstance(error, IsADirectoryError):
            message = "a directory stands where this file should be"
            fix = "move it away, and put the file back (git checkout, if it was committed)"
            return cls(path=path, line=None, message=message, fix=fix)
        what, fix = explain_os_error(error)
        return cls(path=path, line=None, message=f"cannot be read: {what}", fix=fix)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line is not None else str(self.path)
        return f"{place}: {self.message}" + (f"\n  fix: {self.fix}" if self.fix else "")


_FIX: Final = "\n  fix: "


class RegaugeError(Exception):
    """The root of the tree.

    Args:
        text: What went wrong; it may end with its fix, on a line of its own after `  fix: `.
        fix: What to do about it, where the text does not end with it.

    Attributes:
        exit_code: What the command line returns for it.
        regauge_words: Says that the message is written for people, who need no traceback.
    """

    exit_code: ClassVar[int] = 2
    regauge_words: ClassVar[bool] = True

    def __init__(self, text: str = "", *, fix: str = "") -> None:
        super().__init__(f"{text}{_FIX}{fix}" if fix else text)

    @property
    def message(self) -> str:
        """The message without the fix; all of it for several errors."""
        text = str(self)
        return text.partition(_FIX)[0] if text.count(_FIX) == 1 else text

    @property
    def fix(self) -> str:
        """The fix; empty if there is none, or several."""
        text = str(self)
        return text.partition(_FIX)[2] if text.count(_FIX) == 1 else ""


class UsageError(RegaugeError):
    """A command, an option or an argument that makes no sense."""


class FaultyFileError(RegaugeError):
    """A file that cannot be used; all its errors are listed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class ConfigError(FaultyFileError):
    """`[tool.regauge]` of pyproject.toml is unusable."""


class PromptError(FaultyFileError):
    """A prompt file that cannot be used."""


class RenderError(PromptError):
    """A prompt that cannot be rendered with the inputs of a case."""


class LockError(FaultyFileError):
    """`prompts.lock` and the prompt files contradict each other."""


class DatasetError(FaultyFileError):
    """A golden dataset that cannot be used."""


class MachineError(RegaugeError):
    """The disk is full, file descriptors are used up, or access is denied."""

    @classmethod
    def explaining(cls, error: OSError, path: Path | None = None) -> MachineError:
        """The sentence for an error of the system.

        Args:
            error: The error.
            path: The file, where the error does not name it.
        """
        what, fix = explain_os_error(error)
        place = path or error.filename
        return cls((f"{place}: " if place else "") + what, fix=fix)


def has_no_descriptor(error: BaseException) -> TypeGuard[OSError]:
    """Return whether no file descriptor is left, for this process or the machine."""
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


def find_no_descriptor() -> OSError | None:
    """The error of the system where no file can be opened; SQLite hides it."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if has_no_descriptor(error) else None
    return None


def explain_os_error(error: OSError) -> tuple[str, str]:
    """The meaning of an error of the system, with its fix; empty if the error is plain."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        fix = "make room, then run the same command again: it continues with what is kept"
        return "no space is left on the disk", fix
    if error.errno == errno.EFBIG:
        fix = "raise the limit (ulimit -f), then run the same command again"
        return "the file is larger than this process may write", fix
    if has_no_descriptor(error):
        fix = "raise the limit, as with ulimit -n 1024, or lower --concurrency"
        return "too many files and connections are open", fix
    if error.errno == errno.ENAMETOOLONG:
        return "the name is too long for a file", "choose a shorter name"
    if error.errno == errno.ELOOP:
        return "a symbolic link that leads to itself", "remove the link, or point it at a file"
    return error.strerror or str(error), ""


class GitError(RegaugeError):
    """git is missing, or it has no such version."""


class GitHubError(RegaugeError):
    """GitHub cannot be reached, or refuses the request.

    Attributes:
        kind: A stable word for the cause: `authentication`, `permission`, `not-found`, `disabled`,
            `invalid`, `rate-limit`, `server`, `connection`, `malformed` or `refused`.
        status: The HTTP status, if there is one.
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
        place: Where it is kept, as people write it.
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
    """A judge without a verdict; neither a fail nor a pass.

    Attributes:
        judge: The name of the judge.
        raw: What the judge's model said, when it said something unreadable.
        traceback: Of the code that raised; empty where none did.
    """

    def __init__(
        self, message: str, *, judge: str, raw: str | None = None, traceback: str = ""
    ) -> None:
        self.judge = judge
        self.raw = raw
        self.traceback = traceback
        super().__init__(message)


class RecordingError(FaultyFileError):
    """A recordings file that cannot be read; nothing of it was changed."""

    exit_code: ClassVar[int] = 3


class MissingRecordingError(UnmeasuredError):
    """A replay has no recording of a completion or judge response.

    Attributes:
        prompt: The prompt's name.
        case: The case id.
        trial: The trial number, from 0.
        stale: Whether an answer to an older version of the prompt is recorded for this case.
        judge: The judge whose model's reply it is; None for an answer to the prompt.
    """

    def __init__(
        self, *, prompt: str, case: str, trial: int, stale: bool, judge: str | None = None
    ) -> None:
        self.prompt = prompt
        self.case = case
        self.trial = trial
        self.stale = stale
        self.judge = judge
        which = f"case {case!r} of prompt {prompt!r}" + (f", trial {trial}" if trial else "")
        if judge is not None:
            super().__init__(
                f"no recorded reply for judge {judge!r}: {which}\n"
                f"  record it: regauge record {shlex.quote(prompt)}"
            )
            return
        why = "the recorded answer is for an older request" if stale else "no recorded answer"
        super().__init__(f"{why}: {which}\n  record it: pytest evals --record=missing -k {case!r}")


class MissingOutputError(MissingRecordingError):
    """The output file of a `recorded` target has no line for a trial.

    Attributes:
        file: The file, below `fixtures`.
    """

    def __init__(self, *, prompt: str, case: str, trial: int, file: str) -> None:
        super().__init__(prompt=prompt, case=case, trial=trial, stale=False)
        self.file = file
        line = json.dumps({"case": case, "trial": trial, "text": "..."}, ensure_ascii=False)
        what = f"fixtures/{file} has no line for case {case!r}, trial {trial}"
        self.args = (f"{what}\n  fix: add one: {line}",)


class BudgetError(UnmeasuredError):
    """The budget was reached; another run continues.

    Attributes:
        limit: What was limited.
    """

    def __init__(self, message: str, *, limit: Literal["usd", "tokens", "calls"] = "usd") -> None:
        self.limit: Literal["usd", "tokens", "calls"] = limit
        super().__init__(message)
