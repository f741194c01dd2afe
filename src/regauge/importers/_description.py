"""The description of an imported suite in regauge's terms, and its names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.scaffold import NewFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.digests import JSON

NoteKind: TypeAlias = Literal["manual", "changed", "dropped"]
"""`manual` needs a decision or code, `changed` behaves differently, `dropped` is not imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A line of a source file.

    Attributes:
        path: Below the repository of the source, with slashes.
        line: From 1; None for the file as a whole.
    """

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNote:
    """One line of the report.

    Attributes:
        place: The line of the source.
        text: One sentence, without the place and without secrets.
    """

    kind: NoteKind
    place: SourcePlace
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPrompt:
    """A prompt file, or a rubric.

    Attributes:
        name: The name of the file, without its suffix.
        document: The keys of the file: `messages` and others.
        rubric: Whether it is the prompt of an LLM judge.
    """

    name: str
    document: Mapping[str, JSON]
    rubric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCase:
    """A golden case.

    Attributes:
        document: The keys of a case, `id` and `inputs` at least.
        place: The line of the source.
    """

    document: Mapping[str, JSON]
    place: SourcePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEval:
    """An eval function.

    Attributes:
        prompt: The prompt's name; with a target, the name of the eval.
        dataset: The golden dataset.
        target: The target that it tests instead of a prompt; empty for none.
        model: `provider:model` instead of the prompt's; empty for none.
        judges: Judges of all cases, as names with parameters.
    """

    prompt: str
    dataset: str
    target: str = ""
    model: str = ""
    judges: Sequence[JSON] = ()


@dataclass(slots=True, kw_only=True)
class Imported:
    """A suite, or several, as files of a project; a format fills it.

    Attributes:
        name: The stem of the names of its files.
        sources: The files that were read first, for the report.
        datasets: Golden cases by dataset.
        providers: Tables `[tool.regauge.providers.<name>]`.
        targets: Tables `[tool.regauge.targets.<name>]`.
        files: Any further files, such as code that a judge or a target needs.
        settings: Further settings of `[tool.regauge]`, for projects without that table.
        assertions: The number of assertions read.
        unmeasured: Those of them without a counterpart.
        secrets: Keys in the source; the writer masks them everywhere.
        labels: Models by the names that a configuration gives them.
    """

    name: str
    sources: list[str] = field(default_factory=list[str])
    prompts: list[ImportedPrompt] = field(default_factory=list[ImportedPrompt])
    datasets: dict[str, Sequence[ImportedCase]] = field(
        default_factory=dict[str, Sequence[ImportedCase]]
    )
    evals: list[ImportedEval] = field(default_factory=list[ImportedEval])
    files: list[NewFile] = field(default_factory=list[NewFile])
    providers: dict[str, Mapping[str, JSON]] = field(
        default_factory=dict[str, "Mapping[str, JSON]"]
    )
    targets: dict[str, Mapping[str, JSON]] = field(default_factory=dict[str, "Mapping[str, JSON]"])
    settings: dict[str, JSON] = field(default_factory=dict[str, "JSON"])
    notes: list[ReportNote] = field(default_factory=list[ReportNote])
    assertions: int = 0
    unmeasured: int = 0
    secrets: set[str] = field(default_factory=set[str])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    _existing_notes: set[ReportNote] = field(
        default_factory=set[ReportNote], init=False, repr=False
    )

    def note(self, kind: NoteKind, place: SourcePlace, text: str) -> None:
        """Add a line to the report; the same line is added once."""
        note = ReportNote(kind=kind, place=place, text=" ".join(text.split()))
        if note not in self._existing_notes:
            self._existing_notes.add(note)
            self.notes.append(note)

    def rename(self, name: str) -> None:
        """Replace the stem of the names of its files."""
        self.name = name

    def count(self, *, assertions: int = 0, unmeasured: int = 0) -> None:
        """Count assertions, and those without a counterpart."""
        self.assertions += assertions
        self.unmeasured += unmeasured

    def drop(self, prompt: ImportedPrompt) -> None:
        """Remove a prompt with its evals."""
        self.prompts.remove(prompt)
        self.evals = [one_eval for one_eval in self.evals if one_eval.prompt != prompt.name]

    @property
    def needs_manual_work(self) -> bool:
        """Return whether a line of the report needs a decision or code."""
        return any(note.kind == "manual" for note in self.notes)


_LENGTH_MAX = 60


def slug(text: str, *, otherwise: str = "") -> str:
    """Lower-case words of ASCII letters and digits, with hyphens.

    >>> slug("Handles 409: picks another task!")
    'handles-409-picks-another-task'
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain.replace("'", "")).strip("-")
    if len(words) > _LENGTH_MAX:
        words = words[: _LENGTH_MAX + 1].rpartition("-")[0] or words[:_LENGTH_MAX]
    return words if words and words not in {"and", "or", "not"} else otherwise


def unique_name(name: str, names: Iterable[str]) -> str:
    """Make a name unique among `names`, with a number if necessary."""
    existing = set(names)
    number, candidate = 2, name
    while candidate in existing:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def case_ids(texts: Iterable[str]) -> list[str]:
    """An id for each text, all different; a text without ASCII letters gets a number.

    >>> case_ids(["Late order", "late order", "迟"])
    ['late-order', 'late-order-2', 'case-3']
    """
    ids: dict[str, None] = {}
    counts: dict[str, int] = {}
    for number, text in enumerate(texts, start=1):
        words = slug(text, otherwise=f"case-{number}")
        name = words
        while name in ids:
            counts[words] = counts.get(words, 1) + 1
            name = f"{words}-{counts[words]}"
        ids[name] = None
    return list(ids)
