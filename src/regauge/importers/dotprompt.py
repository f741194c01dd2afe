"""Import of Dotprompt: prompts with their default inputs, in `.prompt` files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import InvalidFileError, UsageError
from regauge.importers._front_matter import FilePrompt, read_front_matter
from regauge.importers._handlebars import to_jinja
from regauge.importers._source import SourceError
from regauge.importers._suite import ImportedSuite
from regauge.importers._templates import TemplateError
from regauge.strict_json import as_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import Imported

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
        InvalidFileError: The only one cannot be parsed.
    """
    suite = ImportedSuite(path, root=root, name=name, title="Dotprompt")
    files = [
        file
        for file in suite.files(".prompt")
        if file == suite.path or not file.name.startswith("_")
    ]
    suite.read(files, lambda file: _read(file, suite))
    return suite.finish(_FIX)


def _read(file: Path, suite: ImportedSuite) -> None:
    words = "" if file == suite.path else file.name.removesuffix(".prompt").replace(".", "-")
    prompt = FilePrompt(file, suite, suite.name(words))
    front = prompt.front
    prompt.copy_texts("description")
    input_section = prompt.section("input")
    defaults = mapping_of(input_section.get("default"))
    _declare_inputs(prompt, input_section.get("schema"), defaults)
    prompt.values.update(defaults)
    model = front.get("model")
    vendor, _, name = model.partition("/") if isinstance(model, str) else ("", "", "")
    model_name = f"{_VENDORS.get(vendor, vendor)}:{name}" if name else vendor
    prompt.set_model(model_name, prompt.section("config"))
    output = prompt.section("output")
    if "schema" in output:
        _set_schema(prompt, _schema(output["schema"]))
    elif output.get("format") == "json":
        prompt.document["responseFormat"] = "json_object"
    if front.get("tools"):
        text = "its tools are named and defined elsewhere: write them in `tools`"
        prompt.note("manual", text, "tools")
    read = ("config", "description", "input", "model", "output", "tools", "$schema")
    prompt.note_unread(front, *read)
    prompt.note_unread(input_section, "default", "schema", above="input.")
    formats = ("format",) if output.get("format") in {"json", "text"} else ()
    prompt.note_unread(output, "schema", *formats, above="output.")

    def translate(text: str) -> str:
        return to_jinja(
            text,
            partial=lambda name: _read_partial(name, prompt),
            helper=lambda inner: _translate_mark(inner, prompt),
        )

    prompt.messages.extend(_messages(prompt.translate(translate, prompt.body)))
    prompt.add()


def _translate_mark(inner: str, prompt: FilePrompt) -> str | None:
    """The marks that divide a prompt into messages; media and sections are noted."""
    word, _, rest = inner.partition(" ")
    if word == "role":
        role = rest.strip().strip("\"'")
        return _MARK % _ROLES.get(role, role)
    if word == "history":
        return _MARK % "history"
    if word in {"media", "section"}:
        prompt.note("manual", f"`{{{{{inner}}}}}`: not imported")
        return ""
    return None


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


def _read_partial(name: str, prompt: FilePrompt) -> str:
    suite = prompt.suite
    try:
        path = suite.repository.resolve(f"_{name}.prompt", prompt.file.parent)
        return read_front_matter(path, suite)[1].strip("\n")
    except (SourceError, InvalidFileError) as error:
        raise TemplateError(str(error)) from error


def _declare_inputs(prompt: FilePrompt, schema: Any, defaults: Mapping[str, Any]) -> None:
    json_schema = mapping_of(_schema(schema))
    required = list_of(json_schema.get("required"))
    for name, body in mapping_of(json_schema.get("properties")).items():
        about = mapping_of(body).get("description")
        prompt.declare_input(name, about, defaults.get(name), required=name in required)
    for name, value in defaults.items():
        if name not in prompt.inputs:
            prompt.declare_input(name, default=value)


def _schema(schema: Any) -> Any:
    """Convert Picoschema to JSON Schema; JSON Schema and names stay."""
    if isinstance(schema, str):
        kind, _, about = (part.strip() for part in schema.partition(","))
        if kind not in _SCALARS:
            return schema
        json_schema: dict[str, JSON] = {} if kind == "any" else {"type": kind}
        return {**json_schema, "description": about} if about else json_schema
    if not is_mapping(schema) or schema.get("type") in (*_SCALARS, "object", "array"):
        return schema
    if "$ref" in schema or "$schema" in schema or is_mapping(schema.get("properties")):
        return schema
    properties: dict[str, Any] = {}
    required: list[str] = []
    extra: Any = False
    for key, body in schema.items():
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
        return {"enum": as_list(body)}
    return _schema(body)


def _set_schema(prompt: FilePrompt, schema: Any) -> None:
    """Set the output's JSON schema; one that is not an object is left out."""
    body = mapping_of(schema)
    inner = mapping_of(body.get("schema", body))
    if inner.get("type") == "object" or "properties" in inner:
        prompt.document["responseFormat"] = "json_schema"
        name = body.get("name")
        schema_name = name if isinstance(name, str) and "schema" in body else "answer"
        prompt.document["jsonSchema"] = {
            "name": re.sub(r"\W+", "_", schema_name, flags=re.ASCII)[:64],
            "schema": cast("JSON", inner),
        }
        return
    prompt.document["responseFormat"] = "json_object"
    text = "the schema of the output is elsewhere, or no object: write `jsonSchema`"
    prompt.note("manual", text, "output")
