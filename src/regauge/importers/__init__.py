"""Suites of other tools, read into one description and written as files of a project.

A format is a function that reads a path into an `Imported`; one writer writes any of them. Formats
of other packages are entry points of the group `regauge.importers`.
"""

from __future__ import annotations

from regauge.importers._description import (
    Imported,
    ImportedCase,
    ImportedEval,
    ImportedFile,
    ImportedPrompt,
    Note,
    NoteKind,
    Place,
)
from regauge.importers._formats import ENTRY_POINTS, Importer, importer_names, load_importer
from regauge.importers._names import case_ids, slug
from regauge.importers._source import Repository
from regauge.importers._writer import plan_files, report_markdown, write_files

__all__ = [
    "ENTRY_POINTS",
    "Imported",
    "ImportedCase",
    "ImportedEval",
    "ImportedFile",
    "ImportedPrompt",
    "Importer",
    "Note",
    "NoteKind",
    "Place",
    "Repository",
    "case_ids",
    "importer_names",
    "load_importer",
    "plan_files",
    "report_markdown",
    "slug",
    "write_files",
]
