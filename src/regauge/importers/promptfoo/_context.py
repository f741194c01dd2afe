"""The shared state of one configuration: files, notes and rendering."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import InvalidFileError
from regauge.importers._source import SourceError, place_of, placed
from regauge.importers._suite import ROLES, content_text, text_of
from regauge.importers._templates import TemplateError, has_logic, render
from regauge.importers.promptfoo._providers import LEXICON, model_of
from regauge.recordings import map_texts
from regauge.scaffold import NewFile
from regauge.strict_json import is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.importers._description import NoteKind, SourcePlace
    from regauge.importers._suite import ImportedSuite

_ENVIRONMENT = re.compile(r"\{\{-?\s*env\.(?P<name>\w+)[^}]*\}\}|\$\{(?P<shell>\w+)\}")
_IMPORTED = re.compile(r"^(?:from|import)[ \t]+([A-Za-z]\w*)", re.MULTILINE | re.ASCII)
_RUBRIC_NAMES = {"rubric": "reference", "output": "answer", "criteria": "reference"}


class Context:
    """The context of one configuration.

    Args:
        suite: The source.
        path: The configuration.
    """

    def __init__(self, suite: ImportedSuite, path: Path) -> None:
        self.suite = suite
        self.imported = suite.imported
        self.repository = suite.repository
        self.root = suite.root
        self.base = path.parent

    def note(self, kind: NoteKind, place: SourcePlace, text: str) -> None:
        """Add a line to the report."""
        self.imported.note(kind, place, text)

    def render(self, text: str, values: Mapping[str, Any], place: SourcePlace) -> str:
        """Render a template; one that cannot be rendered stays as it is."""
        if not has_logic(text):
            return text
        if match := _ENVIRONMENT.search(text):
            name = match["name"] or match["shell"]
            note = f"a template reads the environment variable {name}; it was left empty"
            self.note("manual", place, note)
        try:
            return render(text, values)
        except TemplateError as error:
            self.note("manual", place, f"a template is not rendered: {error}")
            return text

    def note_environment(self, values: Mapping[str, Any], place: SourcePlace) -> None:
        """Note variables with a template that reads the environment, which stays as it is."""
        for name, value in values.items():
            match = _ENVIRONMENT.search(value) if isinstance(value, str) else None
            if match is not None and match["name"]:
                text = f"`{name}` reads the environment variable {match['name']}; write its value"
                self.note("manual", place, text)

    def render_all(self, value: Any, values: Mapping[str, Any], place: SourcePlace) -> Any:
        """Render all texts of a value."""
        return map_texts(value, lambda text: self.render(text, values, place))

    def refer(self, path: Path, place: SourcePlace) -> str:
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
            self.note("changed", place, f"code was copied to {copy}; files that it loads were not")
        return copy

    def note_packages(self, file: Path, place: SourcePlace) -> None:
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
            note = f"{relative} needs {', '.join(missing)}: install before a run"
            self.note("manual", place, note)

    def grader(self, provider: object, default: object, place: SourcePlace) -> str:
        """The model of an LLM judge; empty for the project's judge model."""
        for options in (provider, default):
            model = options.get("text") if is_mapping(options) and "id" not in options else options
            if model:
                return model_of(model, place, self)
        return ""

    def rubric(self, prompt: object, place: SourcePlace) -> str:
        """The name of the rubric for a `rubricPrompt`; empty if it cannot be read."""
        text = prompt
        if isinstance(prompt, str) and prompt.startswith("file://"):
            try:
                text = self.repository.read_text(self.repository.resolve(prompt, self.base))
            except SourceError as error:
                note = f"`rubricPrompt`: {error}; the criterion alone is judged"
                self.note("manual", place, note)
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
            self.note("manual", place, "`rubricPrompt` has no {{output}}; the criterion is judged")
            return ""
        rubric: dict[str, JSON] = {"kind": "graded"}
        if "{{reference}}" in rubric_text:
            rubric["reference"] = True
        words = f"{self.imported.name}-rubric"
        return self.suite.rubric(words, rubric, contents, "`rubricPrompt`", place)


_CODE: Final = re.compile(r"\.(?:js|mjs|cjs|ts|mts|cts|py|sh|rb|go|exe|bat)(?::[\w$.]+)?\Z")
_REMOTE: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_INCLUDED: Final = re.compile(r"\{%-?\s*include\s+(['\"])(?P<path>[^'\"]+)\1\s*-?%\}")
_PATH_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePrompt:
    """One prompt.

    Attributes:
        raw: Its template.
        label: Its label, else its id or file.
        names: Names that tests and providers use for it.
        config: Overrides of the provider's configuration.
    """

    raw: str
    label: str
    names: frozenset[str]
    config: Mapping[str, Any]
    place: SourcePlace


def read_prompts(source: Any, context: Context, place: SourcePlace) -> list[SourcePrompt]:
    """Read the prompts of a configuration, with notes about code and missing files."""
    if is_mapping(source):  # an old form: labels by file
        items = [
            ({"id": key, "label": label}, place_of(source, key, otherwise=place))
            for key, label in source.items()
        ]
    else:
        items = [*placed(source if is_list(source) else [source], place)]
    return [prompt for item, item_place in items for prompt in _prompt(item, context, item_place)]


def _prompt(item: Any, context: Context, place: SourcePlace) -> Iterator[SourcePrompt]:
    body = mapping_of(item)
    text = item if isinstance(item, str) else ""
    if body:
        key = next((key for key in ("raw", "content", "prompt", "id", "file") if key in body), "")
        text = text_of(body[key]) if body.get(key) else ""
        if key in {"content", "prompt"}:
            note = f"`{key}` is no key of a prompt in promptfoo, which reads `raw`; it was taken"
            context.note("changed", place, note)
    if not text:
        context.note("dropped", place, "a prompt has no text")
        return
    label = str(body.get("label") or "")
    names = {str(body[key]) for key in ("id", "label") if body.get(key)}
    for raw, file_name in _texts(text, context, place):
        yield SourcePrompt(
            raw=_include(raw, context, place),
            label=label or str(body.get("id") or "").removeprefix("file://") or file_name,
            names=frozenset({*names, text, file_name} - {""}),
            config=mapping_of(body.get("config")),
            place=place,
        )


def _include(raw: str, context: Context, place: SourcePlace) -> str:
    """Insert the files that a template includes, one level deep."""

    def content(match: re.Match[str]) -> str:
        for base in (context.base, context.repository.root):
            try:
                path = context.repository.resolve(match["path"], base)
                return context.repository.read_text(path).rstrip("\n")
            except SourceError as error:
                problem = str(error)
        context.note("manual", place, f"a part of the prompt is missing: {problem}")
        return ""

    return _INCLUDED.sub(content, raw)


def _texts(text: str, context: Context, place: SourcePlace) -> Iterator[tuple[str, str]]:
    """The texts of a prompt, with the file of each; empty for a text that names no file."""
    is_file_url = text.startswith("file://")
    reference = text.strip()
    if problem := _unread(reference, is_file_url=is_file_url):
        context.note("manual", place, f"{problem}; write it as a prompt file and an eval")
        return
    if not (is_file_url or _looks_like_path(reference)):
        yield text, ""
        return
    try:
        paths = context.repository.find(reference, context.base)
    except SourceError as error:
        if is_file_url or re.search(r"\.(?:txt|md|json|ya?ml|j2|jsonl|csv)\Z", reference):
            context.note("manual", place, f"the prompt is not imported: {error}")
        else:
            yield text, ""
        return
    for path in paths:
        try:
            for raw in _file_texts(path, context):
                yield raw, context.repository.relative(path)
        except (SourceError, InvalidFileError) as error:
            context.note("manual", place, f"the prompt is not imported: {error}")


def _unread(reference: str, *, is_file_url: bool) -> str:
    """The reason why a prompt cannot be read; empty if it can."""
    is_code = _looks_like_path(reference) and _CODE.search(reference)
    if reference.startswith(("exec:", "python:")) or is_code:
        return "the prompt is made by code, which is not run"
    if not is_file_url and _REMOTE.match(reference) and "\n" not in reference:
        return "the prompt is on a server, which is not called"
    return ""


def _looks_like_path(text: str) -> bool:
    if "\n" in text or "{{" in text or len(text) > _PATH_MAX:
        return False
    parts = text.split(":")
    suffixes = {
        PurePosixPath(part.replace("\\", "/")).suffix.removeprefix(".") for part in parts[-2:]
    }
    return (
        bool(suffixes & LEXICON.words("prompt_suffixes"))
        or "*" in text
        or "/" in text
        or "\\" in text
    )


def _file_texts(path: Path, context: Context) -> list[str]:
    text = context.repository.read_text(path)
    suffix = path.suffix.lower()
    if suffix == ".txt":
        parts = re.split(r"^[ \t]*---[ \t]*$", text, flags=re.MULTILINE)
        return [part.strip() for part in parts if part.strip()]
    if suffix == ".jsonl":
        return [line for line in text.split("\n") if line.strip()]
    if suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text, newline="")))
        head = [cell.strip().lower() for cell in rows[0]] if rows else []
        column = head.index("prompt") if "prompt" in head else 0
        body = rows[1:] if "prompt" in head else rows
        return [row[column] for row in body if len(row) > column and row[column].strip()]
    return [text] if text.strip() else []


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
