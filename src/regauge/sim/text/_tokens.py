"""How the simulated model counts and cuts: one token is four characters, begun or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts import Message

__all__ = ["count_message_tokens", "count_tokens", "cut"]

_CHARS_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 4


def count_tokens(text: str) -> int:
    """Characters divided by four, rounded up.

    >>> count_tokens("12345")
    2
    """
    return -(-len(text) // _CHARS_PER_TOKEN)


def count_message_tokens(messages: Sequence[Message]) -> int:
    """The tokens of a conversation: those of each message's text, and four for its frame."""
    return sum(count_tokens(m.content) + _TOKENS_PER_MESSAGE for m in messages)


def cut(text: str, tokens: int) -> str:
    """The text as far as so many tokens reach.

    >>> cut("12345678", 1)
    '1234'
    """
    return text[: tokens * _CHARS_PER_TOKEN]
