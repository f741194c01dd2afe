"""Hides what is expected of a case: a placeholder that says what kind of value it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.digests import JSON

__all__ = ["Masked", "is_public", "masked"]

_KEPT_CHARS = 1  # of a single character nobody learns an answer
_STRETCH_WORDS = 5
_LABEL_WORDS = 4
_WORD = re.compile(r"\w[\w'/:.-]*\w|\w")


@dataclass(frozen=True, slots=True)
class Masked:
    """An expected value without its content.

    Attributes:
        shape: The value with a placeholder for each of its parts.
        hidden: Each text that is hidden, with its placeholder; the longest first.
    """

    shape: JSON
    hidden: tuple[tuple[str, str], ...]

    def text(self, said: str) -> str:
        """A text without what is hidden, be it whole or in stretches of some words."""
        for secret, placeholder in self.hidden:
            said = re.sub(_bounded(secret), placeholder, said, flags=re.IGNORECASE)
            for stretch in _stretches(secret):
                said = re.sub(_bounded(stretch), placeholder, said, flags=re.IGNORECASE)
        return said


def masked(expected: JSON, *, public: str = "") -> Masked:
    """An expected value, hidden.

    Args:
        public: Texts that everybody sees, such as the prompt. Texts of the value that are words
            of it, such as a label, stay as they are.

    >>> it = masked({"severity": "critical", "minutes": 16})
    >>> it.shape
    {'severity': '<severity: text>', 'minutes': '<minutes: number>'}
    >>> it.text("severity is 'info', 'critical' wanted")
    "severity is 'info', '<severity: text>' wanted"
    >>> masked({"severity": "critical"}, public="critical, warning or info").shape
    {'severity': 'critical'}
    """
    hidden = {
        secret: mark
        for secret, mark in _leaves(expected, "")
        if len(secret) > _KEPT_CHARS and not is_public(secret, public)
    }
    ranked = sorted(hidden.items(), key=lambda pair: (-len(pair[0]), pair[0]))
    return Masked(_shape(expected, "", public), tuple(ranked))


def is_public(value: JSON, public: str) -> bool:
    """Whether a short text is among public words; a number may stand there by chance."""
    return (
        isinstance(value, str)
        and any(character.isalpha() for character in value)
        and len(value.split()) <= _LABEL_WORDS
        and re.search(_bounded(value), public) is not None
    )


def _shape(value: JSON, name: str, public: str) -> JSON:
    match value:
        case Mapping():
            return {key: _shape(part, key, public) for key, part in value.items()}
        case list():
            return [_shape(part, name, public) for part in value[:1]]
        case None:
            return None
        case str() if is_public(value, public):
            return value
        case _:
            return _mark(value, name)


def _mark(value: JSON, name: str) -> str:
    kind = "text"
    if isinstance(value, bool):
        kind = "yes or no"
    elif isinstance(value, (int, float)):
        kind = "number"
    return f"<{name}: {kind}>" if name else f"<expected {kind}>"


def _leaves(value: JSON, name: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            for key, part in value.items():
                yield from _leaves(part, key)
        case list():
            for part in value:
                yield from _leaves(part, name)
        case None | bool():
            return
        case str():
            yield value.strip(), _mark(value, name)
            for line in value.splitlines():
                yield line.strip(), _mark(value, name)
        case _:
            yield str(value), _mark(value, name)


def _bounded(secret: str) -> str:
    """A text as a pattern: any white space, and no part of a longer word."""
    words = [re.escape(word) for word in secret.split()]
    return r"(?<!\w)" + r"(?:\s|\\n)+".join(words) + r"(?!\w)"


def _stretches(secret: str) -> Iterator[str]:
    """Runs of some words of a longer text."""
    places = [found.span() for found in _WORD.finditer(secret)]
    for n in range(len(places) - _STRETCH_WORDS + 1):
        yield secret[places[n][0] : places[n + _STRETCH_WORDS - 1][1]]
