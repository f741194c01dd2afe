"""Word lists, patterns and tables of judges: TOML files in `data`, read on first use."""

from __future__ import annotations

import operator
import re
from functools import cached_property
from typing import Any, Final

from regauge.lexicon import read_tables

_REFERENCE: Final = re.compile(r"\(\?&(\w+)(?::(\w+))?\)")
_STRIPPED: Final = operator.methodcaller("strip", " ")


class WordData:
    """The contents of one file of `data`.

    A pattern may take several lines, which are joined without the white space around them. In it,
    `(?&name)` is the pattern of that name, and `(?&name:word)` the same with `word` for `{}`.

    Args:
        name: The file without `.toml`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._patterns: dict[tuple[str, ...], re.Pattern[str]] = {}
        self._words: dict[str, frozenset[str]] = {}

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The contents of the file."""
        return read_tables("regauge.judges", "data", f"{self._name}.toml")

    def pattern(self, name: str, /, **given: str) -> re.Pattern[str]:
        """The pattern of a name, with further patterns that it refers to."""
        key = (name, *given.values())
        if key in self._patterns:
            return self._patterns[key]
        text = f"(?&{name})"
        while match := _REFERENCE.search(text):
            part, word = match.groups()
            filled = given.get(part) or "".join(map(_STRIPPED, self.tables[part].splitlines()))
            if word:
                filled = _REFERENCE.sub(rf"(?&\1:{word})", filled).replace("{}", word)
            text = f"{text[: match.start()]}{filled}{text[match.end() :]}"
        self._patterns[key] = re.compile(text)
        return self._patterns[key]

    def words(self, name: str) -> frozenset[str]:
        """The words of a list, which stand between white space."""
        if name not in self._words:
            self._words[name] = frozenset(self.tables[name].split())
        return self._words[name]
