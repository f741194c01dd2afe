"""The words in which two answers differ: the page's own script, in a real browser."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.e2e.html.conftest import Browsing

SOURCE = (files("regauge.reports.html") / "assets" / "diff.js").read_text(encoding="utf-8")
WORDS = st.lists(st.sampled_from(["a", "b", "c", " ", ".", "né"]), max_size=14)


@pytest.fixture(scope="module")
def script(browsing: Browsing) -> Page:
    page = browsing.new_page(scripts=True)
    page.evaluate(f"() => {{ {SOURCE}\nObject.assign(window, {{ wordDiff, shortest }}); }}")
    return page


def longest(a: list[str], b: list[str]) -> int:
    """How many words two lists have in common, in order."""
    reach = [0] * (len(b) + 1)
    for word in a:
        before = reach[:]
        for n, other in enumerate(b):
            reach[n + 1] = before[n] + 1 if word == other else max(before[n + 1], reach[n])
    return reach[-1]


def test_both_texts_are_whole_and_differ_in_as_few_words_as_they_can(script: Page):
    @settings(max_examples=120, deadline=None, suppress_health_check=[*HealthCheck])
    @given(WORDS, WORDS)
    def holds(a: list[str], b: list[str]) -> None:
        found = script.evaluate("([a, b]) => shortest(a, b)", [a, b])
        assert [word for kind, word in found if kind != "ins"] == a
        assert [word for kind, word in found if kind != "del"] == b
        assert sum(kind == "same" for kind, _ in found) == (longest(a, b) if a and b else 0)
        before, after = "".join(a), "".join(b)
        left, right = script.evaluate("([a, b]) => wordDiff(a, b)", [before, after])
        assert "".join(text for _, text in left) == before
        assert "".join(text for _, text in right) == after
        assert {kind for kind, _ in left} <= {"same", "del"}
        assert {kind for kind, _ in right} <= {"same", "ins"}
        same = ["".join(text for kind, text in side if kind == "same") for side in (left, right)]
        assert same[0] == same[1]

    holds()


def test_a_word_is_marked_and_not_the_letters_in_it(script: Page):
    found = script.evaluate("wordDiff('It is critical, really.', 'It is a warning, really.')")
    assert found == [
        [["same", "It is "], ["del", "critical"], ["same", ", really."]],
        [["same", "It is "], ["ins", "a warning"], ["same", ", really."]],
    ]


def test_texts_that_share_little_are_marked_whole_and_long_ones_not_at_all(script: Page):
    before, after = ("".join(f"{word}{n} " for n in range(2000)) for word in "ab")
    left, right = script.evaluate("([a, b]) => wordDiff(a, b)", [before, after])
    assert "".join(text for _, text in left) == before
    assert "".join(text for _, text in right) == after
    assert script.evaluate("wordDiff('a'.repeat(60001), 'b')") is None
