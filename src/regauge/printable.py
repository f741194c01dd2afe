"""Text of others, such as a model's answer, in a form that does nothing to a terminal."""

from __future__ import annotations

import re

# Control characters except tab and newline, and the marks that reorder or hide text.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def printable(text: str) -> str:
    r"""Text without the characters that move a cursor, change a title or reorder what is read.

    Lone surrogates, which no encoding takes, become their escapes too.

    >>> printable("a\x1b[31mb\r\n\u202e")
    'a\\x1b[31mb\n\\u202e'
    """
    text = _HARMFUL.sub(_escape, text.replace("\r\n", "\n"))
    return text.encode("utf-8", "backslashreplace").decode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte
