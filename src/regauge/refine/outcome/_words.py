"""Words of models and files in a rationale: they stay words, whatever is in them."""

from __future__ import annotations

import re

from regauge.printable import printable

__all__ = ["code", "fenced", "plain"]

# What means something in Markdown, to GitHub or in HTML; a colon does in an address alone. An
# underscore inside a word means nothing.
_SPECIAL = re.compile(r"[\\`*\[\]#|<>@~&$]|\b_|_\b|:(?=//)|www(?=\.)", re.IGNORECASE)


def plain(text: object) -> str:
    """Text of others as words: no markup, no mention, no second line."""
    line = " ".join(printable(str(text)).split())
    return _SPECIAL.sub(_escaped, line)


def _escaped(found: re.Match[str]) -> str:
    first, rest = found[0][0], found[0][1:]
    # Mentions are looked for after entities are read: a space without width parts them.
    return f"&#{ord(first)};{'&#8203;' if first in '@#' else ''}{rest}"


def code(text: object) -> str:
    """Text of others inside one pair of backticks, also in a table."""
    return " ".join(printable(str(text)).split()).replace("`", "'").replace("|", "\\|")


def fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text).rstrip()}\n{fence}"
