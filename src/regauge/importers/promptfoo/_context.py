"""The state that all parts of one configuration share: its files, its notes, and rendering."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from regauge.importers._description import ImportedFile
from regauge.importers._source import SourceError, is_list, is_mapping
from regauge.importers._templates import TemplateError, has_logic, render
from regauge.importers.promptfoo._models import model_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.importers._description import NoteKind, Place
    from regauge.importers._suite import Suite

__all__ = ["Context"]

_ENVIRONMENT = re.compile(r"\{\{-?\s*env\.(?P<name>\w+)[^}]*\}\}|\$\{(?P<shell>\w+)\}")
_IMPORTED = re.compile(r"^(?:from|import)[ \t]+([A-Za-z]\w*)", re.MULTILINE | re.ASCII)
_RUBRIC_NAMES = {"rubric": "reference", "output": "answer", "criteria": "reference"}


class Context:
    """One configuration as it is read.

    Args:
        suite: The source as a whole.
        path: The configuration.
    """

    def __init__(self, suite: Suite, path: Path) -> None:
        self.suite = suite
        self.imported = suite.imported
        self.repository = suite.repository
        self.root = suite.root
        self.base = path.parent

    def note(self, kind: NoteKind, place: Place, text: str) -> None:
        """Add a line to the report."""
        self.imported.note(kind, place, text)

    def render(self, text: str, values: Mapping[str, Any], place: Place) -> str:
        """A text with its template filled in; a template that cannot be rendered stays."""
        if not has_logic(text):
            return text
        if match := _ENVIRONMENT.search(text):
            name = match["name"] or match["shell"]
            self.note(
                "person",
                place,
                f"a template reads the environment variable {name}; it was left empty",
            )
        try:
            return render(text, values)
        except TemplateError as error:
            self.note("person", place, f"a template is not rendered: {error}")
            return text

    def render_all(self, value: Any, values: Mapping[str, Any], place: Place) -> Any:
        """A value with all its texts rendered."""
        if isinstance(value, str):
            return self.render(value, values, place)
        if is_mapping(value):
            parts = value
            return {key: self.render_all(part, values, place) for key, part in parts.items()}
        if is_list(value):
            return [self.render_all(part, values, place) for part in value]
        return value

    def refer(self, path: Path, place: Place) -> str:
        """The path below the root of a code file, which is copied where it is outside.

        Raises:
            SourceError: It cannot be read.
        """
        text = self.repository.read_text(path)
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        copy = (PurePosixPath("evals/promptfoo") / self.repository.relative(path)).as_posix()
        if all(file.path != copy for file in self.imported.files):
            self.imported.files.append(ImportedFile(path=copy, text=text))
            self.note("changed", place, f"code was copied to {copy}; files that it loads were not")
        return copy

    def note_packages(self, file: Path, place: Place) -> None:
        """Name the packages that a Python file imports and that are not installed.

        Raises:
            SourceError: It cannot be read.
        """
        names = set(_IMPORTED.findall(self.repository.read_text(file)))
        near = (file.parent, self.base, self.root)
        missing = sorted(
            name
            for name in names
            if find_spec(name) is None
            and not any((folder / one).exists() for folder in near for one in (name, f"{name}.py"))
        )
        if missing:
            shown = self.repository.relative(file)
            self.note("person", place, f"{shown} needs {', '.join(missing)}: install before a run")

    def grader(self, own: object, default: object, place: Place) -> str:
        """The model of an LLM judge; empty for the project's."""
        for given in (own, default):
            model = given.get("text") if is_mapping(given) and "id" not in given else given
            if model:
                return model_of(model, place, self)
        return ""

    def rubric(self, prompt: object, place: Place) -> str:
        """The name of the rubric for a `rubricPrompt`; empty where it cannot be read."""
        from regauge.importers.promptfoo._prompts import chat_messages

        text = prompt
        if isinstance(prompt, str) and prompt.startswith("file://"):
            try:
                text = self.repository.read_text(self.repository.resolve(prompt, self.base))
            except SourceError as error:
                self.note(
                    "person", place, f"`rubricPrompt`: {error}; the criterion alone is judged"
                )
                return ""
        contents: list[JSON] = [
            {
                "role": message.get("role", "user"),
                "content": re.sub(
                    r"\{\{-?\s*(\w+)[^}]*\}\}",
                    lambda match: f"{{{{{_RUBRIC_NAMES.get(match[1], match[1])}}}}}",
                    str(message.get("content", "")),
                ),
            }
            for message in chat_messages(text) or [{"role": "user", "content": str(text)}]
        ]
        joined = str(contents)
        if "{{answer}}" not in joined:
            self.note("person", place, "`rubricPrompt` has no {{output}}; the criterion is judged")
            return ""
        rubric: dict[str, JSON] = {"kind": "graded"}
        if "{{reference}}" in joined:
            rubric["reference"] = True
        name = self.suite.rubric(
            f"{self.imported.name}-rubric",
            {"modelParameters": {"temperature": 0}, "rubric": rubric, "messages": contents},
        )
        self.note(
            "person",
            place,
            f"`rubricPrompt` became the rubric {name}: remove its output format, then calibrate it",
        )
        return name
