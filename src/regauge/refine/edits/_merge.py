"""Two changes of one text, put together statement by statement."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from regauge.prompts import Message
from regauge.refine.edits._ops import EditError
from regauge.refine.edits._statements import pieces
from regauge.refine.edits._text import PromptText

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["merged"]


def merged(base: PromptText, one: PromptText, other: PromptText) -> PromptText:
    """A text with the changes that two texts make to the same one.

    >>> base = PromptText.of("Be brief. Use JSON. Give times in UTC.")
    >>> one = PromptText.of("Be brief. Use YAML. Give times in UTC.")
    >>> other = PromptText.of("Be brief. Use JSON. Give dates in UTC.")
    >>> merged(base, one, other).whole
    'Be brief. Use YAML. Give dates in UTC.'

    Raises:
        EditError: Both change the same statement.
    """
    return PromptText(
        messages=tuple(
            Message(role=was.role, content=_content(was.content, mine.content, its.content))
            for was, mine, its in zip(base.messages, one.messages, other.messages, strict=True)
        )
    )


def _content(base: str, one: str, other: str) -> str:
    was = pieces(base)
    changes = sorted(
        (*_changes(was, pieces(other)), *_changes(was, pieces(one))), key=lambda change: change[:2]
    )
    made: list[str] = []
    at = 0
    for start, end, brought in changes:
        if start < at:
            raise EditError(f"{''.join(was[start:at]).strip()!r} is changed twice")
        made += [*was[at:start], *brought]
        at = end
    return "".join([*made, *was[at:]])


def _changes(was: Sequence[str], now: Sequence[str]) -> list[tuple[int, int, Sequence[str]]]:
    matched = SequenceMatcher(None, was, now, autojunk=False)
    return [(a, b, now[c:d]) for tag, a, b, c, d in matched.get_opcodes() if tag != "equal"]
