"""Words of people, made fit to be kept: no hidden text, no quotation, no end that is missed."""

from __future__ import annotations

import re
from typing import Final

from regauge.printable import printable
from regauge.refine.people._orders import takes_over

__all__ = ["cut", "own_words"]

_CHARS_MAX: Final = 600
_HIDDEN: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def own_words(text: str) -> tuple[str, int]:
    """What somebody said themselves, and how many lines spoke to a model in another's name.

    Comments of HTML, which nobody sees, and quoted lines are left out.
    """
    shown = _INVISIBLE.sub("", _HIDDEN.sub("", text))
    lines = [line.rstrip() for line in shown.split("\n") if not line.lstrip().startswith(">")]
    kept = [line for line in lines if not takes_over(line)]
    return cut("\n".join(kept).strip()), len(lines) - len(kept)


def cut(text: str, most: int = _CHARS_MAX) -> str:
    """A text as far as it is kept."""
    said = printable(text)
    return said if len(said) <= most else f"{said[: most - 1].rstrip()}…"
