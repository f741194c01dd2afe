"""Prompts of Dotprompt, as Genkit uses them: `.prompt` files in Handlebars."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import FaultyFileError, UsageError
from regauge.importers._handlebars import to_jinja
from regauge.importers._prompt_files import (
    FilePrompt,
    Input,
    add_prompt,
    read_front_matter,
    refused,
    set_model,
    set_schema,
)
from regauge.importers._source import SourceError, is_list, is_mapping, mapping_of
from regauge.importers._suite import Suite
from regauge.importers._templates import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import Imported

__all__ = ["read_dotprompt"]

_KEY: Final = re.compile(
    r"(?P<name>[^?(]+)(?P<optional>\?)?(?:\((?P<kind>\w+)(?:,(?P<about>.*))?\))?"
)
_SCALARS: Final = ("string", "number", "integer", "boolean", "null", "any")
_MARK: Final = "\0%s\0"
_MARKED: Final = re.compile(r"\0(\w+)\0")
_VENDORS: Final = {"googleai": "google", "vertexai": "vertex", "googleAI": "google"}
_ROLES: Final = {"model": "assistant"}
_FIX: Final = "name a .prompt file, or a directory with them"


def read_dotprompt(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read prompts with their default inputs; files that begin with `_` are partials.

    Args:
        path: A file, or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or none can be imported.
        FaultyFileError: The only one cannot be parsed.
    """
    suite = Suite(path, root=root, name=name, title="Dotprompt")
    files = [
        file
        for file in suite.files(".prompt")
        if file == suite.path or not file.name.startswith("_")
    ]
    suite.read(files, lambda file: _read(file, suite))
    return suite.finish(_FIX)


def _read(file: Path, suite: Suite) -> None:
    front, body = read_front_matter(file, suite)
    words = "" if file == suite.path else file.name.removesuffix(".prompt").replace(".", "-")
    prompt = FilePrompt(name=suite.name(words), place=suite.place(file), front=front)
    if isinstance(front.get("description"), str):
        prompt.document["description"] = front["description"]
    given = mapping_of(front.get("input"))
    prompt.inputs.update(_inputs(given.get("schema"), mapping_of(given.get("default"))))
    prompt.values.update(mapping_of(given.get("default")))
    model = front.get("model")
    vendor, _, name = model.partition("/") if isinstance(model, str) else ("", "", "")
    named = f"{_VENDORS.get(vendor, vendor)}:{name}" if name else vendor
    set_model(prompt, named, mapping_of(front.get("config")), file, suite)
    output = mapping_of(front.get("output"))
    if "schema" in output:
        set_schema(prompt, _schema(output["schema"]), suite)
    elif output.get("format") == "json":
        prompt.document["responseFormat"] = "json_object"
    if front.get("tools"):
        text = "its tools are named and defined elsewhere: write them in `tools`"
        suite.imported.note("person", prompt.at("tools"), text)
    try:
        text = to_jinja(
            body, partial=lambda name: _partial(name, file, suite), helper=_helper(prompt, suite)
        )
    except TemplateError as error:
        raise refused(prompt.place, error) from error
    prompt.messages.extend(_messages(text))
    add_prompt(prompt, suite)


def _helper(prompt: FilePrompt, suite: Suite) -> Any:
    """The marks that divide a prompt into messages; media and sections are noted."""

    def text_of_mark(inner: str) -> str | None:
        word, _, rest = inner.partition(" ")
        if word == "role":
            role = rest.strip().strip("\"'")
            return _MARK % _ROLES.get(role, role)
        if word == "history":
            return _MARK % "history"
        if word in {"media", "section"}:
            suite.imported.note("person", prompt.place, f"`{{{{{inner}}}}}`: not imported")
            return ""
        return None

    return text_of_mark


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """The messages of a text; what precedes the first role is of the user."""
    role, *parts = ["user", *_MARKED.split(text)]
    for number, part in enumerate(parts):
        if number % 2:
            role = part
            if role == "history":
                yield "history", "history"
                role = "assistant"
        elif part.strip():
            if role not in {"system", "developer", "user", "assistant"}:
                raise UsageError(f"the role {role!r} has no counterpart", fix=_FIX)
            yield role, part.strip()


def _partial(name: str, file: Path, suite: Suite) -> str:
    try:
        path = suite.repository.resolve(f"_{name}.prompt", file.parent)
        return read_front_matter(path, suite)[1].strip("\n")
    except (SourceError, FaultyFileError) as error:
        raise TemplateError(str(error)) from error


def _inputs(schema: Any, defaults: Mapping[str, Any]) -> dict[str, Input]:
    found: dict[str, Input] = {}
    made = mapping_of(_schema(schema))
    required = made.get("required")
    for name, body in mapping_of(made.get("properties")).items():
        about = mapping_of(body).get("description")
        found[name] = Input(
            description=about if isinstance(about, str) else "",
            default=defaults.get(name),
            required=is_list(required) and name in required,
        )
    for name, value in defaults.items():
        found.setdefault(name, Input(default=value))
    return found


def _schema(given: Any) -> Any:
    """A schema of Picoschema as JSON Schema; JSON Schema stays, a name does too."""
    if isinstance(given, str):
        kind, _, about = (part.strip() for part in given.partition(","))
        if kind not in _SCALARS:
            return given
        made: dict[str, JSON] = {} if kind == "any" else {"type": kind}
        return {**made, "description": about} if about else made
    if not is_mapping(given) or given.get("type") in (*_SCALARS, "object", "array"):
        return given
    if "$ref" in given or "$schema" in given or is_mapping(given.get("properties")):
        return given
    properties: dict[str, Any] = {}
    required: list[str] = []
    extra: Any = False
    for key, body in given.items():
        match = _KEY.fullmatch(key)
        if match is None:  # `(*)`
            extra = _schema(body)
            continue
        name = match["name"].strip()
        value = _part(match["kind"] or "", body)
        if match["about"]:
            value = {**mapping_of(value), "description": match["about"].strip()}
        properties[name] = value
        if not match["optional"]:
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": cast("JSON", required),
        "additionalProperties": extra,
    }


def _part(kind: str, body: Any) -> Any:
    if kind == "array":
        return {"type": "array", "items": _schema(body)}
    if kind == "enum":
        return {"enum": list(body) if is_list(body) else [body]}
    return _schema(body)
