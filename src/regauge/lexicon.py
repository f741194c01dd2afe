"""Patterns, word lists and tables in TOML files next to the code that reads them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\(\?&(\w+)(?::(\w+))?\)")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A TOML file of a package, or one table of it.

    Its patterns are attributes, compiled when used. A pattern may take several lines, which are
    joined without the spaces around them. In it, `(?&name)` is the pattern of that name, and
    `(?&name:word)` the same with `word` for `{}`.
    """

    package: str
    table: str = ""
    file: str = "lexicon.toml"
    _patterns: dict[tuple[str, ...], re.Pattern[str]] = field(
        default_factory=dict[tuple[str, ...], re.Pattern[str]]
    )
    _words: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("__"):
            raise AttributeError(name)
        pattern = self.__dict__[name] = self.pattern(name)
        return pattern

    def entry(self, name: str) -> Any:
        """An entry, as it is in the file."""
        return self.entries()[name]

    def entries(self) -> dict[str, Any]:
        """All entries."""
        tables = _read_tables(self.package, self.file)
        return tables[self.table] if self.table else tables

    def pattern(self, name: str, /, **parts: str) -> re.Pattern[str]:
        """Compile a pattern, with `parts` instead of the patterns of their names."""
        key = (name, *parts.values())
        if key not in self._patterns:
            self._patterns[key] = self._compile(f"(?&{name})", parts)
        return self._patterns[key]

    def patterns(self, name: str) -> dict[Any, re.Pattern[str]]:
        """The patterns of a table."""
        return {key: self._compile(_join_lines(text), {}) for key, text in self.entry(name).items()}

    def words(self, name: str) -> frozenset[str]:
        """The words of an entry."""
        if name not in self._words:
            self._words[name] = frozenset(self.entry(name).split())
        return self._words[name]

    def _compile(self, text: str, parts: dict[str, str]) -> re.Pattern[str]:
        while match := _REFERENCE.search(text):
            part, word = match.groups()
            replacement = parts.get(part) or _join_lines(self.entry(part))
            if word:
                replacement = _REFERENCE.sub(rf"(?&\1:{word})", replacement).replace("{}", word)
            text = f"{text[: match.start()]}{replacement}{text[match.end() :]}"
        return re.compile(text)


def _join_lines(text: str) -> str:
    return "".join(line.strip(" ") for line in text.splitlines()) if "\n" in text else text


@cache
def _read_tables(package: str, file: str) -> dict[str, Any]:
    """The tables of a TOML file in a package; each file is read once."""
    return tomllib.loads(files(package).joinpath(file).read_text("utf-8"))
