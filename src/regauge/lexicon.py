"""Patterns and word lists that are data: `lexicon.toml` next to the code that reads with them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Lexicon:
    """One table of a package's `lexicon.toml`; its patterns are attributes, compiled when used."""

    package: str
    table: str

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("__"):
            raise AttributeError(name)
        pattern = self.__dict__[name] = re.compile("".join(self.entry(name)))
        return pattern

    def entry(self, name: str) -> Any:
        """An entry as the file has it: the parts of a pattern, a text, a list or a table."""
        return read_tables(self.package, "lexicon.toml")[self.table][name]

    def patterns(self, name: str) -> dict[Any, re.Pattern[str]]:
        """The patterns of a table."""
        return {key: re.compile("".join(parts)) for key, parts in self.entry(name).items()}

    def words(self, name: str) -> frozenset[str]:
        """The words of a text."""
        return frozenset(self.entry(name).split())


@cache
def read_tables(package: str, *path: str) -> dict[str, Any]:
    """The tables of a TOML file in a package; each file is read once."""
    return tomllib.loads(files(package).joinpath(*path).read_text("utf-8"))
