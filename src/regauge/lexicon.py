"""Patterns, word lists and tables in TOML files next to the code that reads them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache, lru_cache
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
        return _compile(self, f"(?&{name})", tuple(parts.items()))

    def patterns(self, name: str) -> dict[Any, re.Pattern[str]]:
        """The patterns of a table."""
        texts = self.entry(name).items()
        return {key: _compile(self, _join_lines(text), ()) for key, text in texts}

    def words(self, name: str) -> frozenset[str]:
        """The words of an entry."""
        if name not in self._words:
            self._words[name] = frozenset(self.entry(name).split())
        return self._words[name]


@lru_cache(maxsize=1_000)  # parts may be texts of prompts
def _compile(
    lexicon: Lexicon, text: str, named_parts: tuple[tuple[str, str], ...]
) -> re.Pattern[str]:
    parts = dict(named_parts)
    while match := _REFERENCE.search(text):
        part, word = match.groups()
        replacement = parts.get(part) or _join_lines(lexicon.entry(part))
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
