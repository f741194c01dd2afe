"""The line that says how far long work has come."""

from __future__ import annotations

import io
from threading import Event

import pytest

from regauge.cli._terminal import Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    written = Terminal()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "12")
    return written


def test_on_a_terminal_one_line_is_renewed_and_gone_in_the_end(monkeypatch: pytest.MonkeyPatch):
    terminal = terminal_of(monkeypatch)
    asked = Event()

    def line() -> str:
        asked.set()
        return "3 of 4 \x1banswers"

    with Meter(line):
        assert asked.wait(60)
    assert terminal.getvalue() == "\r3 of 4 \\x1b\x1b[K\r\x1b[K"


def test_a_command_that_is_done_at_once_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    terminal = terminal_of(monkeypatch)
    with Meter(lambda: "never") as meter:
        meter.update("too soon")
    assert not terminal.getvalue()


def test_elsewhere_there_is_nothing_but_lines(monkeypatch: pytest.MonkeyPatch):
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setattr("regauge.cli._terminal._LOG_S", 0.0)
    with Meter() as meter:
        meter.update("1 of 4")
        meter.update("2 of 4")
    assert written.getvalue() == "1 of 4\n2 of 4\n"


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(True, [0.5, 1.2, 9.9, 19.9]), (False, [10.0, 20.0])]
)
def test_a_text_is_shown_if_none_was_for_an_interval(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, shown: list[float]
):
    written = terminal_of(monkeypatch)
    monkeypatch.setattr(written, "isatty", lambda: is_terminal)
    seconds = [0.0, 0.4, 0.5, 0.9, 1.2, 9.9, 10.0, 19.9, 20.0]
    clock = iter([0.0, *seconds])
    monkeypatch.setattr("regauge.cli._terminal.time.monotonic", lambda: next(clock))
    meter = Meter()
    for second in seconds:
        meter.update(f"{second}")
    texts = [f"\r{second}\x1b[K" if is_terminal else f"{second}\n" for second in shown]
    assert written.getvalue() == "".join(texts)


@pytest.mark.parametrize("shown", [False, True])
def test_a_line_that_was_shown_is_cleared_for_other_output_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, *, shown: bool
):
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr("regauge.cli._terminal._TERMINAL_S", 0.0)
    cleared = "\r\x1b[K" if shown else ""
    with Meter() as meter:
        if shown:
            meter.update("1 of 4")
        before = len(terminal.getvalue())
        with meter.aside():
            assert terminal.getvalue()[before:] == cleared
    assert terminal.getvalue()[before:] == 2 * cleared
