"""Cuts Markdown that is too long for GitHub, without leaving anything open."""

from __future__ import annotations

import re

__all__ = ["BODY_CHARS_MAX", "cut_markdown", "github_length"]

# GitHub takes 65,536 characters of a comment, an issue or a pull request.
BODY_CHARS_MAX = 65_536
_FENCE = re.compile(r"\s*(?P<ticks>`{3,})(?P<rest>.*)")
_NOTICE = "**Cut here: {left} of {all} lines do not fit into one comment.** {where}"


def github_length(text: str) -> int:
    """How long a text is to GitHub: a character beyond the basic plane counts twice.

    >>> github_length("ab"), github_length("✅"), github_length("🎉")
    (2, 1, 2)
    """
    return len(text) + sum(character > "\uffff" for character in text)


def cut_markdown(text: str, *, where: str = "", chars_max: int = BODY_CHARS_MAX) -> str:
    """The text, or as many whole lines of it as fit, with a last line that says so.

    A fence or a folded block that the cut would leave open is closed.

    Args:
        text: Markdown.
        where: Says where all of it can be read.
        chars_max: How long it may be, in characters as GitHub counts them; from 1000.
    """
    if github_length(text) <= chars_max:
        return text
    lines = text.splitlines()
    notice = _NOTICE.format(left=len(lines), all=len(lines), where=where)
    used = github_length(notice) + 2
    kept: list[str] = []
    open_ = _Open()
    for line in lines:
        after = open_.after(line)
        if used + github_length(line) + 1 + github_length(after.closed()) > chars_max:
            break
        used += github_length(line) + 1
        kept.append(line)
        open_ = after
    said = _NOTICE.format(left=len(lines) - len(kept), all=len(lines), where=where).rstrip()
    return "\n".join(kept) + open_.closed() + f"\n\n{said}"


class _Open:
    """What is open at one place of a text."""

    __slots__ = ("_fence", "_folds")

    def __init__(self, *, fence: str = "", folds: int = 0) -> None:
        self._fence = fence
        self._folds = folds

    def after(self, line: str) -> _Open:
        """What is open after a further line."""
        found = _FENCE.match(line)
        if self._fence:
            ends = found and not found["rest"].strip() and len(found["ticks"]) >= len(self._fence)
            return _Open(folds=self._folds) if ends else self
        if found:
            return _Open(fence=found["ticks"], folds=self._folds)
        folds = self._folds + line.count("<details>") - line.count("</details>")
        return _Open(folds=max(folds, 0))

    def closed(self) -> str:
        """What closes it all."""
        fence = f"\n{self._fence}" if self._fence else ""
        return fence + "\n\n</details>" * self._folds
