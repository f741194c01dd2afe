"""Markdown: escaped untrusted text, code blocks, folded blocks and tables."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Characters with a meaning inside a table cell, in Markdown, to GitHub or in HTML. Lists, headings
# and rules begin a line, so they are impossible in cells; a colon matters in addresses only.
_SPECIAL = re.compile(
    r"(?P<sha>(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z]))|(?P<parted>[@#]|:(?=//)|www(?=\.)|GH(?=-\d))"
    r"|[\\`*_\[\]|<>~&$]",
    re.IGNORECASE,
)
# GitHub detects mentions, references and commits after decoding entities, so a space without width
# separates them. It reads 7 to 40 hexadecimal digits as a commit.
_SPACE = "&#8203;"
_SHA_PART = 6


def escape_markdown(text: str) -> str:
    """Reduce untrusted text to one plain line: no markup, link or mention.

    >>> escape_markdown("a|b @c")
    'a&#124;b &#64;&#8203;c'
    >>> escape_markdown("GH-7 as of deadbeef")
    'GH&#8203;-7 as of deadbe&#8203;ef'
    >>> escape_markdown("1.0: fine (so far), well-known!")
    '1.0: fine (so far), well-known!'
    """
    return _SPECIAL.sub(_escape, " ".join(text.split()))


def _escape(match: re.Match[str]) -> str:
    text = match[0]
    if match["sha"]:
        return _SPACE.join(
            text[start : start + _SHA_PART] for start in range(0, len(text), _SHA_PART)
        )
    if match["parted"]:
        return (text if text.isalpha() else f"&#{ord(text)};") + _SPACE
    return f"&#{ord(text)};"


def fence_lines(
    lines: Sequence[str],
    *,
    lines_max: int = sys.maxsize,
    chars_max: int = sys.maxsize,
    indent: str = "",
    language: str = "diff",
) -> Iterator[str]:
    """A code block that its lines cannot close, truncated to the limits."""
    kept_lines: list[str] = []
    chars_left = chars_max
    for line in lines[:lines_max]:
        if chars_left <= 0:
            break
        kept_lines.append(line if len(line) <= chars_left else f"{line[:chars_left]}…")
        chars_left -= len(line)
    if len(lines) > len(kept_lines):
        kept_lines.append(f"… {len(lines) - len(kept_lines)} more lines")
    fence = "`" * max(3, 1 + longest_fence(kept_lines))
    yield f"{indent}{fence}{language}"
    yield from (f"{indent}{line}" for line in kept_lines)
    yield f"{indent}{fence}"


def longest_fence(lines: Sequence[str]) -> int:
    """The length of the longest run of backticks in some lines."""
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def fold_lines(
    title: str, lines: Iterable[str], *, indent: str = "", is_open: bool = False
) -> Iterator[str]:
    """A folded block; the title is escaped already."""
    yield f"{indent}<details{' open' if is_open else ''}><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield f"{indent}</details>"


def table_lines(
    heads: Sequence[str], rows: Iterable[Iterable[str]], *, numbers: slice
) -> Iterator[str]:
    """A table, whose cells are escaped already.

    Args:
        heads: The headings.
        rows: A cell per heading.
        numbers: The columns that are aligned right.
    """
    aligns = ["---"] * len(heads)
    aligns[numbers] = ["--:"] * len(aligns[numbers])
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(aligns)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
