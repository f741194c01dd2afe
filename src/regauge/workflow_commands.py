"""Output in GitHub Actions, whose runner executes lines of a log that look like commands.

The runner reads two forms: `::name ...::` at the beginning of a line, after blanks, and `##[name]`
anywhere in a line (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>).
It ignores characters without weight, such as a zero-width space, between the characters of a
marker. Here, all characters but printable ASCII count as such.
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
    """Return whether a workflow runs this process, so that its log may execute commands."""
    return environ.get("GITHUB_ACTIONS") == "true"


def break_commands(text: str) -> str:
    r"""Escape markers of commands.

    The last character of a marker becomes its JSON escape, so JSON on standard output keeps its
    meaning.

    >>> print(break_commands("  ::error::x\na ##[group]b\nsee std::vector"))
      :\u003aerror::x
    a ##\u005bgroup]b
    see std::vector
    """
    return _MARKER.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"{match[1]}\\u003a" if match[1] is not None else f"{match[2]}\\u005b"


class _Guard(io.RawIOBase):
    """A binary stream that escapes workflow commands, also across several writes.

    Args:
        target: The stream to write to.
        active: Whether commands are escaped.
        redact: Removes secrets from the text of each write; None for none.
    """

    def __init__(
        self, target: BinaryIO, *, active: bool, redact: Callable[[str], str] | None
    ) -> None:
        self._target = target
        self._redact = redact
        self.active = active
        # The part of the unfinished line that may begin a marker.
        self._line = ""

    def write(self, data: Buffer, /) -> int:
        """Write `data`, with commands escaped."""
        consumed = output = bytes(data)
        if self._redact is not None:
            output = self._redact(consumed.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        # One character for each byte; bytes beyond ASCII stay beyond it.
        text = self._line + output.decode("latin-1")
        if self.active:
            output = break_commands(text)[len(self._line) :].encode("latin-1")
        self._target.write(output)
        self._line = _marker_start(text)
        return len(consumed)

    def write_command(self, command: bytes) -> None:
        """Write a line for the runner to execute."""
        start = b"\n" if self._line else b""
        self._target.write(start + command + b"\n")
        self._line = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def flush(self) -> None:
        """Flush the stream behind this one, if it is still open."""
        if not self._target.closed:
            self._target.flush()

    def isatty(self) -> bool:
        """Return whether the stream behind this one is a terminal."""
        return self._target.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream behind this one."""
        return self._target.fileno()


def _marker_start(text: str) -> str:
    """The part of an unfinished line that may begin a marker: its start, or its last hashes."""
    line = text[max(text.rfind("\r"), text.rfind("\n")) + 1 :]
    visible = _INVISIBLE.sub("", line)
    start = visible.lstrip(" ")
    if start in {"", ":"}:
        return start
    return "x" + "#" * min(2, len(visible) - len(visible.rstrip("#")))


class GuardedOutput:
    """Standard output and standard error, with workflow commands escaped.

    Args:
        active: Whether commands are escaped from the start; else after `activate`.
        redact_errors: Removes secrets from standard error; None for none.
    """

    def __init__(self, *, active: bool, redact_errors: Callable[[str], str] | None = None) -> None:
        self._before = sys.stdout, sys.stderr
        self._guards: list[_Guard] = []
        self._active = active
        output, self._errors = self._guard(sys.stdout, None), self._guard(sys.stderr, redact_errors)
        self._streams = output, self._errors
        sys.stdout, sys.stderr = self._streams

    def activate(self) -> None:
        """Escape commands from now on."""
        for guard in self._guards:
            guard.active = True

    @contextmanager
    def errors_pass(self) -> Generator[None]:
        """Leave standard error as it is within the block."""
        guard = getattr(self._errors, "buffer", None)
        if not isinstance(guard, _Guard):
            yield
            return
        before, guard.active = guard.active, False
        try:
            yield
        finally:
            guard.active = before

    @contextmanager
    def flushed(self) -> Generator[None]:
        """Flush standard output at the end of the block.

        Raises:
            OSError: Standard output cannot be written, such as on a full disk.
        """
        try:
            yield
        finally:
            self._streams[0].flush()

    def restore(self) -> None:
        """Restore the original streams."""
        for stream in self._streams:
            try:
                stream.flush()
            except OSError:
                _discard(stream)
        if (sys.stdout, sys.stderr) == self._streams:
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
            # Outputs may hold characters that the terminal's encoding does not have.
            errors="backslashreplace" if stream.errors == "strict" else stream.errors,
            line_buffering=getattr(stream, "line_buffering", False),
            write_through=True,  # without a buffer, so that lines stay in order
        )


def _discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to nowhere; Python flushes it at exit."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def print_command(command: str, stream: TextIO) -> None:
    """Print a line for the runner to execute, also on a guarded stream."""
    stream.flush()
    guard = getattr(stream, "buffer", None)
    if isinstance(guard, _Guard):
        guard.write_command(command.encode("utf-8", "backslashreplace"))
    else:
        stream.write(f"{command}\n")
    stream.flush()
