"""OpenAI Evals: evals of the API as exported, and the registry of the package `evals`."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final, cast

from regauge.importers._suite import Suite
from regauge.importers.openai_evals._api import is_definition, read_definition
from regauge.importers.openai_evals._registry import is_registry, read_registry

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.importers._description import Imported

__all__ = ["fuzzy_match", "read_openai_evals"]

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def read_openai_evals(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read definitions of the API (JSON) or of the registry (YAML); no code of them runs.

    Args:
        path: A file, or a directory such as an export.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or none can be imported.
        FaultyFileError: The only one cannot be parsed.
    """
    suite = Suite(path, root=root, name=name, title="OpenAI Evals")
    files = suite.files(
        ".json", ".yaml", ".yml", where=lambda t: is_definition(t) or is_registry(t)
    )

    def read(file: Path) -> None:
        if file.suffix in {".yaml", ".yml"}:
            read_registry(file, suite)
        else:
            read_definition(file, suite)

    suite.read(files, read)
    return suite.finish(
        "name a directory that docs/how-to/export-openai-evals.md writes, an eval object as JSON,"
        " or a YAML file of a registry"
    )


def fuzzy_match(output: str, case: GoldenCase) -> bool:
    """Return whether the output or a text of `expected` contains the other.

    Case, ASCII punctuation, English articles and runs of white space do not count.
    """
    expected = case.expected
    answers = cast("list[object]", expected) if isinstance(expected, list) else [expected]
    return any(_alike(_normalized(output), _normalized(str(answer))) for answer in answers)


def _normalized(text: str) -> str:
    words = re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION))
    return " ".join(words.split())


def _alike(one: str, other: str) -> bool:
    if not one or not other:
        return one == other
    return one in other or other in one
