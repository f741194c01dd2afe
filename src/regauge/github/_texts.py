"""The texts that regauge writes: marked, so that a later run finds them, and cut to fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regauge.errors import UsageError

# GitHub takes 65,536 characters of a comment, an issue or a pull request.
BODY_CHARS_MAX = 65_536
_FENCE = re.compile(r"\s*(?P<ticks>`{3,})(?P<rest>.*)")
_NOTICE = "**Cut here: {left} of {all} lines do not fit into one comment.** {where}"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MARK = re.compile(r"<!-- regauge (?P<name>[a-z0-9._-]+)(?: (?P<made_at>[0-9T:+.Z-]+))? -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The hidden first line: which of regauge's texts this is, and when its content was made.

    Attributes:
        name: Texts of one name replace each other; lower-case letters, digits, `.`, `_`, `-`.
        made_at: ISO 8601 in UTC; an older text does not replace a newer one. Empty where the
            latest always counts.
    """

    name: str
    made_at: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} does not name a comment\n"
                "  fix: up to 64 of a-z, 0-9, '.', '_' and '-', a letter or a digit first"
            )

    def on(self, body: str) -> str:
        r"""The text below its mark, instead of one that is there.

        >>> Mark(name="gate").on("fine")
        '<!-- regauge gate -->\nfine'
        """
        first, _, rest = body.partition("\n")
        words = f"{self.name} {self.made_at}".rstrip()
        return f"<!-- regauge {words} -->\n{rest if _MARK.fullmatch(first.strip()) else body}"

    def found_on(self, body: str) -> Mark | None:
        r"""The mark of a text, if it is one of this name; a quoted mark is none.

        >>> Mark(name="gate").found_on("<!-- regauge gate 2026-01-31T10:00:00+00:00 -->\nfine")
        Mark(name='gate', made_at='2026-01-31T10:00:00+00:00')
        """
        match = _MARK.match(body)
        if match is None or match["name"] != self.name:
            return None
        return Mark(name=self.name, made_at=match["made_at"] or "")


def is_marked(body: str) -> bool:
    """Return whether a text has the mark of one of regauge's, of any name."""
    return _MARK.match(body) is not None


def github_length(text: str) -> int:
    """The length of a text on GitHub: a character beyond the basic plane counts twice.

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
    ending = _NOTICE.format(left=len(lines) - len(kept), all=len(lines), where=where).rstrip()
    return "\n".join(kept) + open_.closed() + f"\n\n{ending}"


class _Open:
    """The Markdown that is open at one place of a text."""

    __slots__ = ("_fence", "_folds")

    def __init__(self, *, fence: str = "", folds: int = 0) -> None:
        self._fence = fence
        self._folds = folds

    def after(self, line: str) -> _Open:
        """The Markdown that is open after a further line."""
        match = _FENCE.match(line)
        if self._fence:
            ends = match and not match["rest"].strip() and len(match["ticks"]) >= len(self._fence)
            return _Open(folds=self._folds) if ends else self
        if match:
            return _Open(fence=match["ticks"], folds=self._folds)
        folds = self._folds + line.count("<details>") - line.count("</details>")
        return _Open(folds=max(folds, 0))

    def closed(self) -> str:
        """The text that closes all open Markdown."""
        fence = f"\n{self._fence}" if self._fence else ""
        return fence + "\n\n</details>" * self._folds
