"""Import of other tools' suites as files of a project.

A format is a function that reads a path into an `Imported`; one writer writes all formats. Formats
of other packages are entry points of the group `regauge.importers`.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Final, Protocol, cast

from regauge.errors import UsageError
from regauge.importers._description import (  # noqa: TC001 - a name of this package
    Imported as Imported,
    ImportedCase as ImportedCase,
    ImportedEval as ImportedEval,
    ImportedPrompt as ImportedPrompt,
    NoteKind as NoteKind,
    ReportNote as ReportNote,
    SourcePlace as SourcePlace,
    case_ids as case_ids,
    slug as slug,
)
from regauge.importers._source import SourceTree as SourceTree
from regauge.importers._writer import (
    count_text as count_text,
    plan_files as plan_files,
    report_markdown as report_markdown,
    write_files as write_files,
)
from regauge.on_demand import GROUPS, load_point, registered_points
from regauge.scaffold import NewFile
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OWN: Final[Mapping[str, str]] = {
    "braintrust": "regauge.importers.platforms:read_braintrust",
    "deepeval": "regauge.importers.deepeval:read_deepeval",
    "dotprompt": "regauge.importers.dotprompt:read_dotprompt",
    "inspect": "regauge.importers.inspect_logs:read_inspect",
    "langsmith": "regauge.importers.platforms:read_langsmith",
    "openai-evals": "regauge.importers.openai_evals:read_openai_evals",
    "promptfoo": "regauge.importers.promptfoo:read_promptfoo",
    "prompty": "regauge.importers.prompty:read_prompty",
}


ImportedFile = NewFile
"""A file of the project with its text."""


class Importer(Protocol):
    """A function that reads files of another tool; it runs none of their code.

    Raises:
        UsageError: The path holds nothing of this format.
        InvalidFileError: A file cannot be read at all.
    """

    def __call__(self, path: Path, /, *, root: Path, name: str = "") -> Imported:
        """Read a file or a directory.

        Args:
            path: The file or directory; it exists.
            root: The project's root. Code of the source below it is referred to where it is.
            name: The stem of the names of written files; by default from the path.
        """
        ...


def importer_names() -> list[str]:
    """The names of all formats."""
    return sorted({*_OWN, *registered_points(GROUPS["format"])})


def load_importer(name: str) -> Importer:
    """The format of a name.

    Raises:
        UsageError: There is none, or it cannot be loaded.
    """
    if name in _OWN:
        return cast("Importer", pkgutil.resolve_name(_OWN[name]))
    point = registered_points(GROUPS["format"]).get(name)
    if point is not None:
        return cast("Importer", load_point(point, "format"))
    names = importer_names()
    fix = did_you_mean(name, names) or f"one of {', '.join(names)}"
    raise UsageError(f"there is no format {name!r}\n  fix: {fix}")
