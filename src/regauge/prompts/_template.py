"""Templates: `{{name}}` placeholders, compiled once and filled in a single pass."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON

__all__ = ["NAME", "Template", "compile_template", "first_lines", "input_text", "odd_braces"]

# A dot or a hyphen is a letter like any other: nothing is looked up inside a value.
NAME = re.compile(r"[^\W\d][\w.\-]*")
_PLACEHOLDER = re.compile(
    r"\{\{[ \t]*"
    rf"(?:(?P<name>{NAME.pattern})"
    r"""|"(?P<double>\{\{|\}\})"|'(?P<single>\{\{|\}\})')"""
    r"[ \t]*\}\}"
)
# One encoder for all: `json.dumps` would make one for every value.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ODD = re.compile(r"\{\{[^{}\n]{0,80}\}\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A text cut at its placeholders.

    Attributes:
        pieces: Literal texts and, at the positions in `slots`, room for a value.
        slots: Pairs of a position in `pieces` and the name that belongs there.
    """

    pieces: tuple[str, ...]
    slots: tuple[tuple[int, str], ...]

    def fill(self, texts: Mapping[str, str]) -> str:
        """Put the texts in; they are not looked at, so nothing in them is expanded."""
        pieces = list(self.pieces)
        for position, name in self.slots:
            pieces[position] = texts[name]
        return "".join(pieces)


def compile_template(text: str) -> Template:
    """Cut a text at its placeholders.

    `{{"{{"}}` stands for two literal braces. Whatever else stands between double braces and is no
    name stays as it is.

    >>> compile_template('{{ a }} is not {{"{{"}}a}} nor {{{{a}}}}').fill({"a": "{{b}}"})
    '{{b}} is not {{a}} nor {{{{b}}}}'
    """
    pieces: list[str] = []
    slots: list[tuple[int, str]] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        pieces.append(text[end : match.start()])
        if match["name"]:
            slots.append((len(pieces), match["name"]))
            pieces.append("")
        else:
            pieces.append(match["double"] or match["single"])
        end = match.end()
    pieces.append(text[end:])
    return Template(tuple(pieces), tuple(slots))


def first_lines(text: str, start: int, end: int) -> dict[str, int]:
    r"""By name: the line of its first placeholder between two offsets, the first line being 1.

    >>> first_lines("{{ a }}\n{{b}} {{a}}", 0, 20)
    {'a': 1, 'b': 2}
    """
    lines: dict[str, int] = {}
    line, counted = 1, 0
    for match in _PLACEHOLDER.finditer(text, start, end):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if match["name"]:
            lines.setdefault(match["name"], line)
    return lines


def odd_braces(text: str) -> Iterator[str]:
    """What looks like a placeholder to a reader but is plain text to a template.

    >>> list(odd_braces("{{ x }} {{ x | upper }} {{{{ y }}}} {{}}"))
    ['{{ x | upper }}', '{{{{ y }}}}', '{{}}']
    """
    for match in _ODD.finditer(text):
        start, end = match.span()
        if _PLACEHOLDER.fullmatch(match[0]) is None:
            yield match[0]
        elif text.endswith("{{", 0, start) and text.startswith("}}", end):
            yield "{{" + match[0] + "}}"


def input_text(value: JSON) -> str:
    """What a value looks like inside a prompt: a text as it is, anything else as JSON.

    Raises:
        TypeError: The value is no JSON value.
        ValueError: The value holds NaN or an infinity, or contains itself.
    """
    if isinstance(value, str):
        return value
    return _ENCODER.encode(value)
