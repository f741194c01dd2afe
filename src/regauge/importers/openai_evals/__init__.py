"""OpenAI Evals: evals of the API as exported, and the registry of the package `evals`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.importers._suite import Suite
from regauge.importers.openai_evals._api import is_definition, read_definition
from regauge.importers.openai_evals._fuzzy import fuzzy_match
from regauge.importers.openai_evals._registry import is_registry, read_registry

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.importers._description import Imported

__all__ = ["fuzzy_match", "read_openai_evals"]


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
