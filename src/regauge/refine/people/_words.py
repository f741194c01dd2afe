"""Words of people, made fit to be kept: no hidden text, no quotation, no end that is missed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from regauge.printable import printable
from regauge.refine.people._orders import orders_in

__all__ = ["cut", "own_words"]

_CHARS_MAX: Final = 600
_HIDDEN: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def own_words(text: str) -> tuple[str, Counter[str]]:
    """What somebody said themselves, and how much of it is left out, by what it is.

    Comments of HTML, which nobody sees, quoted lines and orders in another's name are left out.
    """
    shown, hidden = _HIDDEN.subn("", text)
    lines = [line.rstrip() for line in _INVISIBLE.sub("", shown).split("\n")]
    own = [line for line in lines if not line.lstrip().startswith(">")]
    orders = orders_in(own)
    kept = [line for number, line in enumerate(own) if number not in orders]
    left_out = Counter(
        {
            "line in another's name": len(orders),
            "quoted line": len(lines) - len(own),
            "hidden comment": hidden,
        }
    )
    return cut("\n".join(kept).strip()), left_out


def cut(text: str, most: int = _CHARS_MAX) -> str:
    """A text as far as it is kept."""
    said = printable(text)
    return said if len(said) <= most else f"{said[: most - 1].rstrip()}…"
