"""The words of messages: counts, excerpts, names that were meant, and text for a terminal."""

from __future__ import annotations

import doctest

import pytest

from regauge import wording
from regauge.wording import (  # fmt: skip
    cause_line,
    closest,
    cut,
    did_you_mean,
    first_of,
    plural,
    printable,
    snake_case,
)


def test_the_examples_run():
    assert doctest.testmod(wording).failed == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a\\x0db"),
        ("\x00\x08\x0b\x1f", "\\x00\\x08\\x0b\\x1f"),
        ("\x7f\x85\x9f", "\\x7f\\x85\\x9f"),
        ("\xa0é ÿ\u0100", "\xa0é ÿ\u0100"),
        ("\u061c\u200b\u200e\u200f", "\\u061c\\u200b\\u200e\\u200f"),
        ("\u202a\u202e\u2066\u2069\ufeff", "\\u202a\\u202e\\u2066\\u2069\\ufeff"),
        ("\u2028\u2060", "\\u2028\\u2060"),
        ("\ud800", "\\ud800"),
        ("\u200d🎉", "\u200d🎉"),
    ],
)
def test_what_moves_a_cursor_or_reorders_text_is_escaped(text: str, shown: str):
    assert printable(text) == shown


@pytest.mark.parametrize(("most", "text"), [(0, "..."), (4, "abcd..."), (5, "abcde"), (6, "abcde")])
def test_a_text_is_cut_only_where_more_follows(most: int, text: str):
    assert cut("abcde", most) == text


def test_counts_and_lists():
    assert [plural(n, "case") for n in range(3)] == ["0 cases", "1 case", "2 cases"]
    assert plural(1, "reply", "replies") == "1 reply"
    assert [first_of("abc", n) for n in (1, 2, 3)] == ["a and 2 more", "a, b and 1 more", "a, b, c"]
    assert first_of([], 2) == ""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", ""),
        ("one", "one"),
        ("one:", "one:"),
        ("one:\n  two", "one: two"),
        ("one\ntwo", "one"),
        ("one:\ntwo\n  three  ", "one: three"),
        ("one:\n  fix: two", "one:"),
    ],
)
def test_the_cause_of_an_error_is_one_line(message: str, line: str):
    assert cause_line(message) == line


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("messages", "messages"),
        ("mesages", "messages"),
        ("TestData", "testData"),
        ("test-data", "testData"),
        ("mess", ""),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_the_name_that_was_meant(name: str, meant: str):
    assert closest(name, ["testData", "messages"]) == meant
    assert did_you_mean(name, ["testData", "messages"]) == (
        f"did you mean {meant!r}?" if meant else ""
    )
    assert closest(name, []) == ""


def test_names_in_snake_case():
    names = ("aB", "a-b", "A", "a1B", "AB", "maxTokens2Go")
    assert [snake_case(name) for name in names] == ["a_b", "a_b", "a", "a1_b", "ab", "max_tokens2_go"]  # fmt: skip
