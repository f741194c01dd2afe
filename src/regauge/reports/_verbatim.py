"""Text of others in Markdown as it is: nothing in it can end the place it stands in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["escape_markdown", "fenced", "inline_code", "shown_name", "shown_text"]

# What has a meaning inside a table cell, in Markdown, to GitHub or in HTML. A list, a heading or a
# rule begins a line, which a cell never does; a colon matters in an address alone.
_SPECIAL = re.compile(
    r"(?P<sha>(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z]))|(?P<parted>[@#]|:(?=//)|www(?=\.)|GH(?=-\d))"
    r"|[\\`*_\[\]|<>~&$]",
    re.IGNORECASE,
)
# GitHub looks for mentions, references and commits after entities are read: a space without width
# parts them. It takes 7 to 40 hexadecimal digits for a commit.
_SPACE = "&#8203;"
_SHA_PART = 6
_NAME = re.compile(r"[A-Za-z0-9_.+/~^-]{1,250}")


def escape_markdown(text: str) -> str:
    """Text that a table cell shows as it is: no markup, no link, no mention, on one line.

    >>> escape_markdown("a|b @c")
    'a&#124;b &#64;&#8203;c'
    >>> escape_markdown("GH-7 as of deadbeef")
    'GH&#8203;-7 as of deadbe&#8203;ef'
    >>> escape_markdown("1.0: fine (so far), well-known!")
    '1.0: fine (so far), well-known!'
    """
    return _SPECIAL.sub(_escaped, " ".join(text.split()))


def shown_text(text: str) -> str:
    """Text of others that is shown as it is, and moves no cursor where it is printed."""
    return escape_markdown(printable(text))


def shown_name(text: str) -> str:
    """An id, a path or a commit as code, which can be copied and which GitHub links nowhere.

    Names of other characters than those of ids are escaped.

    >>> shown_name("alert/case-deadbeef"), shown_name("a|b")
    ('`alert/case-deadbeef`', 'a&#124;b')
    """
    return f"`{text}`" if _NAME.fullmatch(text) else shown_text(text)


def fenced(
    lines: Sequence[str], *, lines_max: int, chars_max: int, indent: str = ""
) -> Iterator[str]:
    """A block of a diff, cut where it is longer than that."""
    shown: list[str] = []
    chars_left = chars_max
    for line in lines[:lines_max]:
        if chars_left <= 0:
            break
        shown.append(line if len(line) <= chars_left else f"{line[:chars_left]}…")
        chars_left -= len(line)
    if len(lines) > len(shown):
        shown.append(f"… {len(lines) - len(shown)} more lines")
    fence = "`" * max(3, 1 + _longest_run(shown))
    yield f"{indent}{fence}diff"
    yield from (f"{indent}{line}" for line in shown)
    yield f"{indent}{fence}"


def inline_code(text: str) -> str:
    """A command as inline code, whatever is in it.

    >>> inline_code("pytest -k `x`")
    '`` pytest -k `x` ``'
    """
    text = " ".join(printable(text).split())
    fence = "`" * (1 + _longest_run([text]))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _longest_run(lines: Sequence[str]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def _escaped(match: re.Match[str]) -> str:
    text = match[0]
    if match["sha"]:
        return _SPACE.join(
            text[start : start + _SHA_PART] for start in range(0, len(text), _SHA_PART)
        )
    if match["parted"]:
        return (text if text.isalpha() else f"&#{ord(text)};") + _SPACE
    return f"&#{ord(text)};"
