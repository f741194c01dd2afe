"""What all parts of one configuration share: its files, its notes, and rendering."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from regauge.importers._description import ImportedFile, ImportedPrompt
from regauge.importers._names import slug, unique
from regauge.importers._source import SourceError, is_list, is_mapping
from regauge.importers._templates import TemplateError, has_logic, render

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.digests import JSON
    from regauge.importers._description import Imported, NoteKind, Place
    from regauge.importers._source import Repository

__all__ = ["Context"]

_ENVIRONMENT = re.compile(r"\{\{-?\s*env\.(?P<name>\w+)[^}]*\}\}|\$\{(?P<shell>\w+)\}")
_JUDGE_MODEL = "openai:gpt-5.4-mini"
_RUBRIC_NAMES = {"rubric": "reference", "output": "answer", "criteria": "reference"}


class Context:
    """One configuration as it is read.

    Args:
        imported: What all configurations become.
        repository: The files that may be read.
        path: The configuration.
        root: The project's root.
        model_of: The model id of a provider, with its settings noted.
    """

    def __init__(
        self,
        imported: Imported,
        *,
        repository: Repository,
        path: Path,
        root: Path,
        model_of: Callable[[object, Place, Context], str],
    ) -> None:
        self.imported = imported
        self.repository = repository
        self.path = path
        self.base = path.parent
        self.root = root.resolve()
        self._model_of = model_of
        self._rubrics: dict[str, str] = {}

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

    def grader(self, own: object, default: object, place: Place) -> str:
        """The model of an LLM judge; empty for the project's."""
        for given in (own, default):
            model = given.get("text") if is_mapping(given) and "id" not in given else given
            if model:
                return self._model_of(model, place, self)
        return ""

    def need_judge_model(self, place: Place) -> None:
        """Have the project name a model for LLM judges."""
        settings = self.imported.settings
        model = settings.setdefault("judge_model", _JUDGE_MODEL)
        why = f"promptfoo chooses a grader by the keys that are set; judge_model is {model} here"
        self.note("changed", place, why)

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
        key = str(text)
        if key in self._rubrics:
            return self._rubrics[key]
        messages = chat_messages(text) or [{"role": "user", "content": str(text)}]
        contents = [
            {
                "role": message.get("role", "user"),
                "content": re.sub(
                    r"\{\{-?\s*(\w+)[^}]*\}\}",
                    lambda match: f"{{{{{_RUBRIC_NAMES.get(match[1], match[1])}}}}}",
                    str(message.get("content", "")),
                ),
            }
            for message in messages
        ]
        joined = "\n".join(str(message["content"]) for message in contents)
        if "{{answer}}" not in joined:
            self.note("person", place, "`rubricPrompt` has no {{output}}; the criterion is judged")
            self._rubrics[key] = ""
            return ""
        taken = [prompt.name for prompt in self.imported.prompts]
        name = unique(f"{slug(self.imported.name, otherwise='promptfoo')}-rubric", taken)
        rubric: dict[str, JSON] = {"kind": "graded"}
        if "{{reference}}" in joined:
            rubric["reference"] = True
        self.imported.prompts.append(
            ImportedPrompt(
                name=name,
                document={
                    "name": name,
                    "modelParameters": {"temperature": 0},
                    "rubric": rubric,
                    "messages": cast("JSON", contents),
                },
                rubric=True,
            )
        )
        self.note(
            "person",
            place,
            f"`rubricPrompt` became the rubric {name}: remove its output format, then calibrate it",
        )
        self._rubrics[key] = name
        return name
