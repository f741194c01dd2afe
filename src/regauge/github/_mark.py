"""The hidden first line by which a later run finds what an earlier one wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regauge.errors import UsageError

__all__ = ["Mark", "is_marked"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MARK = re.compile(r"<!-- regauge (?P<name>[a-z0-9._-]+)(?: (?P<made_at>[0-9T:+.Z-]+))? -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Says which of regauge's texts this is, and when what it tells was made.

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
        r"""The text below its mark, in place of one that is there.

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
        found = _MARK.match(body)
        if found is None or found["name"] != self.name:
            return None
        return Mark(name=self.name, made_at=found["made_at"] or "")


def is_marked(body: str) -> bool:
    """Whether a text has the mark of one of regauge's, of whatever name."""
    return _MARK.match(body) is not None
