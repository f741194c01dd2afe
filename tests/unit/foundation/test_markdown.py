"""Markdown of untrusted text: blocks that nothing closes, and tables."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from regauge.markdown import escape_markdown, fence_lines, fold_lines, longest_fence, table_lines


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\n b", "a b"),
        ("`*_[]|<>~&$\\", "&#96;&#42;&#95;&#91;&#93;&#124;&#60;&#62;&#126;&#38;&#36;&#92;"),
        ("@ann #7", "&#64;&#8203;ann &#35;&#8203;7"),
        ("http://a www.a", "http&#58;&#8203;//a www&#8203;.a"),
        ("a: b", "a: b"),
        ("GH-7 gh-x", "GH&#8203;-7 gh-x"),
        ("abcdef", "abcdef"),
        ("abcdef0", "abcdef&#8203;0"),
        ("0123456789abc", "012345&#8203;6789ab&#8203;c"),
        ("xabcdef0", "xabcdef0"),
        ("0" * 41, "0" * 41),
    ],
)
def test_untrusted_text_is_one_plain_line(text: str, escaped: str):
    assert escape_markdown(text) == escaped


@given(st.lists(st.text("`a\u00e9", max_size=8)), st.integers(0, 5), st.integers(0, 20))
def test_a_block_is_closed_by_its_last_line_alone(lines: list[str], lines_max: int, chars_max: int):
    first, *kept, last = fence_lines(lines, lines_max=lines_max, chars_max=chars_max)
    fence = first.removesuffix("diff")
    assert (set(fence), last) == ({"`"}, fence)
    assert len(fence) >= 3
    assert not any(fence in line for line in kept)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, ["abc", "de", "f"]),
        ({"lines_max": 3}, ["abc", "de", "f"]),
        ({"lines_max": 2}, ["abc", "de", "… 1 more lines"]),
        ({"lines_max": 0}, ["… 3 more lines"]),
        ({"chars_max": 6}, ["abc", "de", "f"]),
        ({"chars_max": 5}, ["abc", "de", "… 1 more lines"]),
        ({"chars_max": 4}, ["abc", "d…", "… 1 more lines"]),
        ({"chars_max": 3}, ["abc", "… 2 more lines"]),
        ({"chars_max": 2}, ["ab…", "… 2 more lines"]),
    ],
)
def test_a_block_is_cut_at_its_limits(limits: dict[str, int], kept: list[str]):
    shown = list(fence_lines(["abc", "de", "f"], **limits, indent="  ", language="text"))
    assert shown == ["  ```text", *(f"  {line}" for line in kept), "  ```"]


def test_a_fence_is_longer_than_any_in_the_block():
    assert longest_fence([]) == 0
    assert longest_fence(["a", "`b` ````c"]) == 4
    assert list(fence_lines(["```"])) == ["````diff", "```", "````"]
    assert list(fence_lines(["``"])) == ["```diff", "``", "```"]


def test_folded_blocks_and_tables():
    assert list(fold_lines("More", ["a", "b"], indent=" ")) == [
        " <details><summary>More</summary>",
        "",
        "a",
        "b",
        "",
        " </details>",
    ]
    assert list(table_lines(["a", "b", "c"], [["1", "2", "3"]], numbers=slice(1, None))) == [
        "| a | b | c |",
        "|---|--:|--:|",
        "| 1 | 2 | 3 |",
    ]
