"""Output in GitHub Actions, whose runner executes lines of a log that look like commands.

The runner reads two forms: `::name ...::` at the beginning of a line, after blanks, and `##[name]`
anywhere in a line (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
It compares by the rules of a culture, so characters that have no weight there, such as a zero-width
space, may stand between the characters of a marker. Here all that is not printable ASCII counts as
such a character.
"""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from _typeshed import ReadableBuffer as Buffer

_MARKER = re.compile(r"((?:\A|(?<=[\r\n]))[^!-~\r\n]*:[^ -~\r\n]*):|(#[^ -~\r\n]*#[^ -~\r\n]*)\[")
_INVISIBLE = re.compile(r"[^ -~]")


def in_github_actions(environ: Mapping[str, str]) -> bool:
    """Return whether a workflow runs this, so that its log is read for commands."""
    return environ.get("GITHUB_ACTIONS") == "true"


def break_commands(text: str) -> str:
    r"""Escape what the runner would execute.

    The last character of a marker becomes an escape that JSON reads as the same character, so
    JSON on standard output keeps its meaning.

    >>> print(break_commands("  ::error::x\na ##[group]b\nsee std::vector"))
      :\u003aerror::x
    a ##\u005bgroup]b
    see std::vector
    """
    return _MARKER.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"{match[1]}\\u003a" if match[1] is not None else f"{match[2]}\\u005b"


class _Guard(io.RawIOBase):
    """A binary stream that passes on what is written to it, with workflow commands broken.

    Markers that are spread over several writes are broken, too.

    Args:
        target: Gets the output.
        active: Whether commands are broken; without it they pass as they are.
        redact: Takes secrets out of the text of each write.
    """

    def __init__(
        self, target: BinaryIO, *, active: bool, redact: Callable[[str], str] | None
    ) -> None:
        self._target = target
        self._redact = redact
        self.active = active
        # As much of the unfinished line as decides what the next characters are.
        self._line = ""

    def write(self, data: Buffer, /) -> int:
        """Write `data`, with commands broken."""
        consumed = output = bytes(data)
        if self._redact is not None:
            output = self._redact(consumed.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        # One byte, one character: all that is beyond ASCII stays beyond it.
        text = self._line + output.decode("latin-1")
        if self.active:
            output = break_commands(text)[len(self._line) :].encode("latin-1")
        self._target.write(output)
        self._line = _unfinished(text)
        return len(consumed)

    def write_command(self, command: bytes) -> None:
        """Write a line that the runner is to execute."""
        start = b"\n" if self._line else b""
        self._target.write(start + command + b"\n")
        self._line = ""

    def writable(self) -> bool:
        """Return True: a stream is there to be written to."""
        return True

    def flush(self) -> None:
        """Flush the stream behind this one."""
        self._target.flush()

    def isatty(self) -> bool:
        """Return whether the stream behind this one is a terminal."""
        return self._target.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream behind this one."""
        return self._target.fileno()


def _unfinished(text: str) -> str:
    """The part of the last line of `text` that matters: its beginning, or its final hashes."""
    line = text[max(text.rfind("\r"), text.rfind("\n")) + 1 :]
    visible = _INVISIBLE.sub("", line)
    start = visible.lstrip(" ")
    if start in {"", ":"}:
        return start
    return "x" + "#" * min(2, len(visible) - len(visible.rstrip("#")))


class GuardedOutput:
    """Standard output and standard error, in which workflow commands can be broken.

    Args:
        active: Whether commands are broken from the start; else from `activate` on.
        redact_errors: Takes secrets out of what is written to standard error.
    """

    def __init__(self, *, active: bool, redact_errors: Callable[[str], str] | None = None) -> None:
        self._before = sys.stdout, sys.stderr
        self._guards: list[_Guard] = []
        self._active = active
        self._own = self._guard(sys.stdout, None), self._guard(sys.stderr, redact_errors)
        sys.stdout, sys.stderr = self._own

    def activate(self) -> None:
        """Break commands from now on."""
        for guard in self._guards:
            guard.active = True

    @contextmanager
    def errors_pass(self) -> Generator[None]:
        """Within the block, standard error passes as it is: it belongs to others."""
        errors = self._guards[-1:]
        before = [guard.active for guard in errors]
        for guard in errors:
            guard.active = False
        try:
            yield
        finally:
            for guard, active in zip(errors, before, strict=True):
                guard.active = active

    @contextmanager
    def flushed(self) -> Generator[None]:
        """Write standard output before the block ends.

        Raises:
            OSError: It cannot be written, such as on a full disk.
        """
        try:
            yield
        finally:
            self._own[0].flush()

    def restore(self) -> None:
        """Put the streams back that were there before."""
        for stream in self._own:
            try:
                stream.flush()
            except OSError:
                _discard(stream)
        if (sys.stdout, sys.stderr) == self._own:
            sys.stdout, sys.stderr = self._before

    def _guard(self, stream: TextIO, redact: Callable[[str], str] | None) -> TextIO:
        target = getattr(stream, "buffer", None)
        if target is None:
            return stream
        stream.flush()
        guard = _Guard(target, active=self._active, redact=redact)
        self._guards.append(guard)
        return io.TextIOWrapper(
            cast("BinaryIO", guard),
            encoding=stream.encoding,
            # Outputs may hold any character, and a terminal may know a few of them.
            errors="backslashreplace" if stream.errors == "strict" else stream.errors,
            line_buffering=getattr(stream, "line_buffering", False),
            write_through=True,  # ours has no buffer, so that the order of lines is kept
        )


def _discard(stream: TextIO) -> None:
    """Let a stream that cannot be written take everything; Python writes its rest at the end."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def print_command(command: str, stream: TextIO) -> None:
    """Print a line that the runner is to execute, on a guarded stream, too."""
    stream.flush()
    guard = getattr(stream, "buffer", None)
    if isinstance(guard, _Guard):
        guard.write_command(command.encode("utf-8", "backslashreplace"))
    else:
        stream.write(f"{command}\n")
    stream.flush()
