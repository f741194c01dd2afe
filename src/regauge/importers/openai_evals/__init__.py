"""OpenAI Evals: evals of the API as exported, and the registry of the package `evals`."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final, cast

from regauge.importers._suite import ImportedSuite
from regauge.importers.openai_evals._api import read_definition
from regauge.importers.openai_evals._registry import read_registry

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.importers._description import Imported


_CLASS: Final = re.compile(r"^\s+[\"']?class[\"']?\s*:", re.MULTILINE)
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def read_openai_evals(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read definitions of the API (JSON) or of the registry (YAML); no code of them runs.

    Args:
        path: A file, or a directory such as an export.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or none can be imported.
        InvalidFileError: The only one cannot be parsed.
    """
    suite = ImportedSuite(path, root=root, name=name, title="OpenAI Evals")
    files = suite.files(
        ".json",
        ".yaml",
        ".yml",
        accepts=lambda t: '"testing_criteria"' in t or _CLASS.search(t) is not None,
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
    return any(_is_similar(_normalize(output), _normalize(str(answer))) for answer in answers)


def _normalize(text: str) -> str:
    words = re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION))
    return " ".join(words.split())


def _is_similar(text: str, other: str) -> bool:
    if not text or not other:
        return text == other
    return text in other or other in text
