"""Regular expressions of JavaScript as those of Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["python_pattern"]

# Letters that mean something after a backslash in both; JavaScript reads others as themselves.
_ESCAPES: Final = frozenset("dDwWsSbBtnrfvxuckpP0123456789")
_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
_FLAG_NAMES: Final = {"i": "ignore_case", "m": "multiline", "s": "dotall"}


def python_pattern(source: str) -> dict[str, JSON]:
    r"""The parameters of `matches` for a pattern of JavaScript.

    `$` ends the whole text there, and `(?i)` in front is an error there that people mean as a flag.

    Raises:
        ValueError: Python does not compile it.

    >>> python_pattern(r"(?i)^ok$")
    {'pattern': '^ok\\Z', 'ignore_case': True}
    """
    import regex  # type: ignore[import-untyped]

    options: dict[str, JSON] = {}
    if flags := _FLAGS.match(source):
        options = {_FLAG_NAMES[flag]: True for flag in flags[1]}
        source = source[flags.end() :]
    pattern = _translated(source, multiline="multiline" in options)
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(str(error)) from error
    return {"pattern": pattern, **options}


def _translated(source: str, *, multiline: bool) -> str:
    parts: list[str] = []
    in_class = False
    at = 0
    while at < len(source):
        character = source[at]
        following = source[at + 1 : at + 2]
        at += 1
        if character == "\\" and following:
            at += 1
            if following == "u" and (match := re.match(r"\{([0-9A-Fa-f]{1,6})\}", source[at:])):
                at += match.end()
                parts.append(re.escape(chr(int(match[1], 16))))
            elif following == "k" and (match := re.match(r"<(\w+)>", source[at:])):
                at += match.end()
                parts.append(f"(?P={match[1]})")
            elif following == "/" or (following.isalpha() and following not in _ESCAPES):
                parts.append(following)
            else:
                parts.append(character + following)
        elif in_class:
            in_class = character != "]"
            parts.append("\\[" if character == "[" else character)
        elif character == "[":
            if source.startswith("^]", at) or source.startswith("]", at):
                parts.append(r"[\s\S]" if following == "^" else r"(?!)")
                at += 2 if following == "^" else 1
            else:
                in_class = True
                parts.append(character)
        elif character == "$" and not multiline:
            parts.append(r"\Z")
        else:
            parts.append(character)
    return "".join(parts)
