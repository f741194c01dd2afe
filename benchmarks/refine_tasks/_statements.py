"""The statements of a prompt, watched by a check or not, and which of them an edit loses.

It reads a text on its own, without the parser of the product, which it measures.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lost_statements", "statements"]

_MARK = re.compile(r"^\s*(?:[-*+・●]|\d+[.)、]|[①-⑳])\s*")
_END = re.compile(r"(?<=[.!?;])\s+(?=[^\W_]|[`\"'({])|(?<=[。！？])")  # noqa: RUF001
# A number that only refers to another place follows that place.
_REFERENCE = re.compile(
    r"\b(steps?|rules?|points?|sections?|paragraphs?|Schritte?s?n?|Punkte?s?|Regeln?|Absatz)\s+\d+|"
    r"(手順|項目|規則)\s*\d+",
    re.IGNORECASE,
)


def statements(text: str) -> Counter[str]:
    """Sentences and whole lines of data, without marks, numbering, case and final full stops."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        body = _MARK.sub("", line).strip()
        is_data = bool(re.search(r"[{}<>|]", body))
        for piece in [body] if is_data else _END.split(body):
            if re.search(r"\w", plain := _plain(piece)):
                found[plain] += 1
    return found


def lost_statements(
    healthy: str,
    before: str,
    after: str,
    split: Callable[[str], Counter[str]] = statements,
) -> Counter[str]:
    """The statements that a healthy prompt and a faulty one share and that a revision lacks."""
    shared = split(healthy) & split(before)
    whole = _plain(" ".join(after.split()))
    gone = shared - split(after)
    return Counter({one: n for one, n in gone.items() if whole.count(one) < shared[one]})


def _plain(text: str) -> str:
    said = _REFERENCE.sub(r"\1\2 #", " ".join(text.split()))
    return said.strip(" .;。").casefold()
