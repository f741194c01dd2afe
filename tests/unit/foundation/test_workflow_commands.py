"""Lines that a runner of workflows would execute are escaped, however they are written."""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO

import pytest
from hypothesis import given, strategies as st

from regauge.workflow_commands import (
    _MARKER,
    GuardedOutput,
    break_commands,
    in_github_actions,
    print_command,
)

PIECES = st.text(st.sampled_from("::##[\n\r a\u200b\té"), max_size=12)


class Streams:
    """Standard streams of a process, in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, encoding: str = "utf-8") -> None:
        self.buffers = io.BytesIO(), io.BytesIO()
        for name, buffer in zip(("stdout", "stderr"), self.buffers, strict=True):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(buffer, encoding=encoding))

    def text(self, number: int = 0) -> str:
        return self.buffers[number].getvalue().decode()


def say(text: str, stream: TextIO) -> None:
    stream.write(f"{text}\n")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("::error::x", ":\\u003aerror::x"),
        ("  ::error::x", "  :\\u003aerror::x"),
        ("a\n::x", "a\n:\\u003ax"),
        ("a\r::x", "a\r:\\u003ax"),
        ("a ::x", "a ::x"),
        (":\u200b:x", ":\u200b\\u003ax"),
        ("a ##[group]", "a ##\\u005bgroup]"),
        ("#\u200b#\u200b[x", "#\u200b#\u200b\\u005bx"),
        ("# [x", "# [x"),
        ("std::vector", "std::vector"),
    ],
)
def test_a_marker_of_a_command_is_escaped(text: str, escaped: str):
    assert break_commands(text) == escaped


@given(st.lists(PIECES, max_size=6))
def test_no_command_appears_in_whatever_parts_it_is_written(pieces: list[str]):
    with pytest.MonkeyPatch.context() as monkeypatch:
        streams = Streams(monkeypatch)
        output = GuardedOutput(active=True)
        for piece in pieces:
            sys.stdout.write(piece)
        output.restore()
        text = streams.text()
    assert _MARKER.search(text) is None
    plain = text.replace("\\u003a", ":").replace("\\u005b", "[")
    assert plain == "".join(pieces)


def test_only_a_workflow_has_commands():
    assert in_github_actions({"GITHUB_ACTIONS": "true"})
    assert not in_github_actions({"GITHUB_ACTIONS": "1"})
    assert not in_github_actions({})


def test_commands_are_escaped_from_the_moment_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    streams = Streams(monkeypatch)
    before = sys.stdout, sys.stderr
    output = GuardedOutput(active=False)
    say("::a", sys.stdout)
    output.activate()
    say("::b", sys.stdout)
    say("::c", sys.stderr)
    with output.errors_pass():
        say("::d", sys.stderr)
        say("::e", sys.stdout)
    say("::f", sys.stderr)
    output.restore()
    assert (sys.stdout, sys.stderr) == before
    assert streams.text() == "::a\n:\\u003ab\n:\\u003ae\n"
    assert streams.text(1) == ":\\u003ac\n::d\n:\\u003af\n"


def test_output_stays_escaped_where_errors_have_no_descriptor(monkeypatch: pytest.MonkeyPatch):
    streams = Streams(monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    output = GuardedOutput(active=True)
    with output.errors_pass():
        say("::a", sys.stdout)
    output.restore()
    assert streams.text() == ":\\u003aa\n"


def test_secrets_are_removed_from_errors_alone(monkeypatch: pytest.MonkeyPatch):
    streams = Streams(monkeypatch)
    output = GuardedOutput(active=False, redact_errors=lambda text: text.replace("größe", "***"))
    say("größe", sys.stdout)
    say("größe", sys.stderr)
    output.restore()
    assert (streams.text(), streams.text(1)) == ("größe\n", "***\n")


def test_a_command_of_our_own_begins_a_line(monkeypatch: pytest.MonkeyPatch):
    streams = Streams(monkeypatch)
    output = GuardedOutput(active=True)
    print_command("::notice::one", sys.stdout)
    sys.stdout.write("text")
    print_command("::notice::größe", sys.stdout)
    sys.stdout.write("::x")
    output.restore()
    assert streams.text() == "::notice::one\ntext\n::notice::größe\n:\\u003ax"
    plain = io.StringIO()
    print_command("::notice::two", plain)
    assert plain.getvalue() == "::notice::two\n"


def test_characters_that_the_terminal_does_not_have_are_escaped(monkeypatch: pytest.MonkeyPatch):
    streams = Streams(monkeypatch, encoding="ascii")
    output = GuardedOutput(active=False)
    say("größe", sys.stdout)
    output.restore()
    assert streams.text() == "gr\\xf6\\xdfe\n"


def test_a_stream_without_bytes_and_one_that_was_replaced_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    plain: Any = io.StringIO()
    monkeypatch.setattr(sys, "stdout", plain)
    output = GuardedOutput(active=True)
    assert sys.stdout is plain
    other: Any = io.StringIO()
    sys.stdout = other
    output.restore()
    assert sys.stdout is other
