"""IMPORT.md: what became of a suite, and every line that needs a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.importers._description import Imported, Note, NoteKind, Place

__all__ = ["report_markdown"]

_TITLES: Final[Mapping[NoteKind, str]] = {
    "person": "Needs a person",
    "changed": "Changed",
    "dropped": "Dropped",
}


def report_markdown(format_name: str, imported: Imported, files: Iterable[str]) -> str:
    """The report as Markdown.

    Args:
        files: The files that are written, below the project's root.
    """
    cases = sum(map(len, imported.datasets.values()))
    measured = imported.assertions - imported.unmeasured
    parts = [
        f"# Import from {format_name}\n",
        f"Source: {', '.join(map(_code, imported.sources))}\n",
        (
            f"{plural(len(imported.evals), 'eval')}, {plural(cases, 'golden case')},"
            f" {plural(imported.assertions, 'assertion')}: {measured} with a judge,"
            f" {imported.unmeasured} unmeasured.\n"
        ),
        (
            "An assertion without a counterpart is the judge `unmeasured`: its case is unmeasured"
            " until you replace or remove it.\n"
        ),
    ]
    for kind, title in _TITLES.items():
        notes = [note for note in imported.notes if note.kind == kind]
        parts.append(f"## {title}\n")
        parts.append("\n".join(_grouped(notes)) + "\n" if notes else "Nothing.\n")
    parts.append("## Files\n")
    parts.append("\n".join(f"- {_code(path)}" for path in files) + "\n")
    return "\n".join(parts)


def _grouped(notes: Sequence[Note]) -> list[str]:
    """A line for each text, with all its places."""
    places: dict[str, list[Place]] = {}
    for note in notes:
        places.setdefault(note.text, []).append(note.place)
    return [f"- {_listed(found)}: {_escaped(text)}" for text, found in places.items()]


def _listed(places: Sequence[Place]) -> str:
    """All places: those of one file share its name."""
    by_path: dict[str, list[int | None]] = {}
    for place in places:
        by_path.setdefault(place.path, []).append(place.line)
    shown: list[str] = []
    for path, lines in by_path.items():
        numbers = [str(line) for line in dict.fromkeys(lines) if line is not None]
        shown.append(_code(f"{path}:{','.join(numbers)}" if numbers else path))
    return ", ".join(shown)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _escaped(text: str) -> str:
    """Text of the source as plain Markdown: no HTML, no mention."""
    return text.replace("<", "&lt;").replace("@", "@\u200b")
