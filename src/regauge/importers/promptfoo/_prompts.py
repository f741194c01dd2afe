"""The prompts of a configuration, from its texts and files."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import InvalidFileError
from regauge.importers._source import SourceError
from regauge.importers._suite import text_of
from regauge.importers.promptfoo._models import LEXICON
from regauge.strict_json import is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.importers.promptfoo._context import Context

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
    context: Context


def read_prompts(source: Any, context: Context) -> list[SourcePrompt]:
    """Read the prompts of a configuration, with notes about code and missing files."""
    if is_mapping(source):  # an old form: labels by file
        items = [
            ({"id": key, "label": label}, context.locate(source, key))
            for key, label in source.items()
        ]
    else:
        items = [*context.locate_items(source if is_list(source) else [source])]
    return [prompt for item, item_context in items for prompt in _prompt(item, item_context)]


def _prompt(item: Any, context: Context) -> Iterator[SourcePrompt]:
    body = mapping_of(item)
    text = item if isinstance(item, str) else ""
    if body:
        key = next((key for key in ("raw", "content", "prompt", "id", "file") if key in body), "")
        text = text_of(body[key]) if body.get(key) else ""
        if key in {"content", "prompt"}:
            note = f"`{key}` is not a key of a prompt in promptfoo, which reads `raw`; it was taken"
            context.note("changed", note)
    if not text:
        context.note("dropped", "a prompt has no text")
        return
    label = str(body.get("label") or "")
    names = {str(body[key]) for key in ("id", "label") if body.get(key)}
    for raw, file_name in _texts(text, context):
        yield SourcePrompt(
            raw=_include(raw, context),
            label=label or str(body.get("id") or "").removeprefix("file://") or file_name,
            names=frozenset({*names, text, file_name} - {""}),
            config=mapping_of(body.get("config")),
            context=context,
        )


def _include(raw: str, context: Context) -> str:
    """Insert the files that a template includes, one level deep."""

    def content(match: re.Match[str]) -> str:
        for base in (context.base, context.repository.root):
            try:
                path = context.repository.resolve(match["path"], base)
                return context.repository.read_text(path).rstrip("\n")
            except SourceError as error:
                problem = str(error)
        context.note("manual", f"a part of the prompt is missing: {problem}")
        return ""

    return _INCLUDED.sub(content, raw)


def _texts(text: str, context: Context) -> Iterator[tuple[str, str]]:
    """The texts of a prompt, with the file of each; empty for a text that names no file."""
    is_file_url = text.startswith("file://")
    reference = text.strip()
    if problem := _reading_problem(reference, is_file_url=is_file_url):
        context.note("manual", f"{problem}; write it as a prompt file and an eval")
        return
    if not (is_file_url or _looks_like_path(reference)):
        yield text, ""
        return
    try:
        paths = context.repository.find(reference, context.base)
    except SourceError as error:
        if is_file_url or re.search(r"\.(?:txt|md|json|ya?ml|j2|jsonl|csv)\Z", reference):
            context.note("manual", f"the prompt is not imported: {error}")
        else:
            yield text, ""
        return
    for path in paths:
        try:
            for raw in _file_texts(path, context):
                yield raw, context.repository.relative(path)
        except (SourceError, InvalidFileError) as error:
            context.note("manual", f"the prompt is not imported: {error}")


def _reading_problem(reference: str, *, is_file_url: bool) -> str:
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
