"""JavaScript's regular expressions and strings, in terms of ours."""

from __future__ import annotations

import re

_CLASSES = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}


def utf16(text: str) -> str:
    """A text as JavaScript sees it: one character per unit of UTF-16."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(
        chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)
    )


def translated(pattern: str) -> str:  # noqa: C901 - one scan, one branch per construct
    """A JavaScript pattern (without flags) as a pattern of `regex`.

    Raises:
        ValueError: JavaScript would refuse it.
    """
    if re.search(r"\(\?(?:P|#|[aiLmsux-]+[:)]|>|\()", pattern):
        raise ValueError("a group that JavaScript does not know")
    out: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        char = pattern[at]
        following = pattern[at + 1 : at + 2]
        if char == "\\":
            out.append(_escape(following, inside=inside))
            at += 2
            continue
        if not inside and char == "[":
            if pattern.startswith("[^]", at):
                out.append(r"[\s\S]")
                at += 3
                continue
            if pattern.startswith("[]", at):
                out.append("(?!)")
                at += 2
                continue
            inside = True
        elif inside and char == "]":
            inside = False
        elif inside and char in "[&~|":
            char = "\\" + char
        elif not inside and char == "$":
            char = r"\Z"
        elif not inside and char == ".":
            char = r"[^\n\r\u2028\u2029]"
        elif not inside and char == "{" and not re.match(r"\{\d+(?:,\d*)?\}", pattern[at:]):
            char = r"\{"
        out.append(char)
        at += 1
    return "".join(out)


def _escape(char: str, *, inside: bool) -> str:
    if char.lower() in _CLASSES:
        letters = _CLASSES[char.lower()]
        if inside:
            return letters if char.islower() else f"\\{char}"
        return f"[{letters}]" if char.islower() else f"[^{letters}]"
    if char in "bB":
        return f"\\{char}" if not inside else "\x08"
    if char in "AZzGhHKRXQENLPUa" or char == "e":
        return char
    return f"\\{char}"
