"""Patterns of JavaScript as patterns of the judge `matches`: what matches stays the same."""

from __future__ import annotations

import pytest
import regex  # type: ignore[import-untyped]

from regauge.importers.promptfoo._javascript import python_pattern


@pytest.mark.parametrize(
    ("source", "matching", "other"),
    [
        ("^a$", "a", "a\n"),
        ("(?m)^a$", "b\na\nc", "ba"),
        ("(?i)a", "A", "b"),
        ("(?s)a.b", "a\nb", "ab"),
        (r"\u{41}b", "Ab", "u{41}b"),
        (r"(?<q>['\"])x\k<q>", "'x'", "'x\""),
        (r"a\/b\-c", "a/b-c", r"a\/b-c"),
        (r"\y", "y", "x"),
        ("[[a]b", "[b", "b"),
        (r"[\]$]b", "$b", "b"),
        ("a[^]b", "a\nb", "ab"),
        ("a[^x]b", "ayb", "axb"),
        ("[]|a", "a", "]"),
    ],
)
def test_a_pattern_of_javascript_matches_the_same_texts(source: str, matching: str, other: str):
    options = python_pattern(source)
    flags = {"ignore_case": regex.I, "multiline": regex.M, "dotall": regex.S}
    pattern = regex.compile(options.pop("pattern"), sum(flags[name] for name in options))
    assert pattern.search(matching)
    assert not pattern.search(other)


def test_a_pattern_that_python_does_not_compile_is_refused():
    with pytest.raises(ValueError, match="missing"):
        python_pattern("(a")
