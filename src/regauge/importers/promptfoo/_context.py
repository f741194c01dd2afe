"""The shared state of one configuration: files, notes and rendering."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from regauge.importers._source import SourceError, place_of
from regauge.importers._suite import ROLES, content_text, text_of
from regauge.importers._templates import TemplateError, has_logic, render
from regauge.importers.promptfoo._models import model_of
from regauge.recordings import map_texts
from regauge.scaffold import NewFile
from regauge.strict_json import is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers._description import NoteKind, SourcePlace
    from regauge.importers._suite import ImportedSuite

_ENVIRONMENT = re.compile(r"\{\{-?\s*env\.(?P<name>\w+)[^}]*\}\}|\$\{(?P<shell>\w+)\}")
_IMPORTED = re.compile(r"^(?:from|import)[ \t]+([A-Za-z]\w*)", re.MULTILINE | re.ASCII)
_RUBRIC_NAMES = {"rubric": "reference", "output": "answer", "criteria": "reference"}


class Context:
    """The context of one configuration, at one place of its files.

    Args:
        suite: The source.
        path: The configuration.
        place: The place that notes name; the configuration by default.
    """

    def __init__(self, suite: ImportedSuite, path: Path, place: SourcePlace | None = None) -> None:
        self.suite = suite
        self.imported = suite.imported
        self.repository = suite.repository
        self.root = suite.root
        self.path = path
        self.base = path.parent
        self.place = place or suite.place(path)

    def move_to(self, place: SourcePlace) -> Context:
        """The context at another place."""
        return Context(self.suite, self.path, place)

    def locate(self, container: object, key: str | int | None = None) -> Context:
        """The context at a value of a file; at this place for a value without a line."""
        return self.move_to(place_of(container, key, otherwise=self.place))

    def locate_items(self, items: Sequence[Any]) -> Iterator[tuple[Any, Context]]:
        """The items of a list, each with its context."""
        return ((item, self.locate(items, number)) for number, item in enumerate(items))

    def note(self, kind: NoteKind, text: str) -> None:
        """Add a line to the report."""
        self.imported.note(kind, self.place, text)

    def render(self, text: str, values: Mapping[str, Any]) -> str:
        """Render a template; one that cannot be rendered stays as it is."""
        if not has_logic(text):
            return text
        if match := _ENVIRONMENT.search(text):
            name = match["name"] or match["shell"]
            note = f"a template reads the environment variable {name}; it was left empty"
            self.note("manual", note)
        try:
            return render(text, values)
        except TemplateError as error:
            self.note("manual", f"a template is not rendered: {error}")
            return text

    def note_environment(self, values: Mapping[str, Any]) -> None:
        """Note variables with a template that reads the environment, which stays as it is."""
        for name, value in values.items():
            match = _ENVIRONMENT.search(value) if isinstance(value, str) else None
            if match is not None and match["name"]:
                text = f"`{name}` reads the environment variable {match['name']}; write its value"
                self.note("manual", text)

    def render_all(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Render all texts of a value."""
        return map_texts(value, lambda text: self.render(text, values))

    def refer(self, path: Path) -> str:
        """The path of a code file below the root; a file outside is copied.

        Raises:
            SourceError: It cannot be read.
        """
        text = self.repository.read_text(path)
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        copy = (PurePosixPath("evals/promptfoo") / self.repository.relative(path)).as_posix()
        if all(file.path != copy for file in self.imported.files):
            self.imported.files.append(NewFile(path=copy, text=text))
            self.note("changed", f"code was copied to {copy}; files that it loads were not")
        return copy

    def note_packages(self, file: Path) -> None:
        """Note imports of a Python file that are not installed.

        Raises:
            SourceError: It cannot be read.
        """
        names = set(_IMPORTED.findall(self.repository.read_text(file)))
        near = (file.parent, self.base, self.root)
        missing = sorted(
            name
            for name in names
            if find_spec(name) is None
            and not any(
                (folder / candidate).exists()
                for folder in near
                for candidate in (name, f"{name}.py")
            )
        )
        if missing:
            relative = self.repository.relative(file)
            self.note("manual", f"{relative} needs {', '.join(missing)}: install before a run")

    def grader(self, provider: object, default: object) -> str:
        """The model of an LLM judge; empty for the project's judge model."""
        for options in (provider, default):
            model = options.get("text") if is_mapping(options) and "id" not in options else options
            if model:
                return model_of(model, self)
        return ""

    def rubric(self, prompt: object) -> str:
        """The name of the rubric for a `rubricPrompt`; empty if it cannot be read."""
        text = prompt
        if isinstance(prompt, str) and prompt.startswith("file://"):
            try:
                text = self.repository.read_text(self.repository.resolve(prompt, self.base))
            except SourceError as error:
                self.note("manual", f"`rubricPrompt`: {error}; the criterion alone is judged")
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
        rubric_text = str(contents)
        if "{{answer}}" not in rubric_text:
            self.note("manual", "`rubricPrompt` has no {{output}}; the criterion is judged")
            return ""
        rubric: dict[str, JSON] = {"kind": "graded"}
        if "{{reference}}" in rubric_text:
            rubric["reference"] = True
        words = f"{self.imported.name}-rubric"
        return self.suite.rubric(words, rubric, contents, "`rubricPrompt`", self.place)


def chat_messages(text: object) -> list[dict[str, Any]] | None:
    """The messages of a chat in JSON or YAML; None for another text.

    >>> chat_messages('[{"role": "user", "content": "Hi {{name}}"}]')
    [{'role': 'user', 'content': 'Hi {{name}}'}]
    """
    value = text
    if isinstance(text, str):
        stripped = text.strip()
        if stripped[:1] in {"[", "{"}:
            try:
                value = json.loads(stripped)
            except (ValueError, RecursionError):
                value = None
        if (value is None or value is text) and re.match(r"- +\"?role\"?:|messages:", stripped):
            import yaml

            try:
                value = yaml.safe_load(stripped)
            except (yaml.YAMLError, RecursionError, ValueError):
                return None
    if is_mapping(value):
        value = value.get("messages")
    if not is_list(value):
        return None
    if not value or not all(mapping_of(message).get("role") in ROLES for message in value):
        return None
    return [{**message, "content": _content(message.get("content"))} for message in value]


def _content(content: Any) -> str:
    """The text of a message's content, which may have parts."""
    text = content_text(content)
    return text_of("" if content is None else content) if text is None else text
