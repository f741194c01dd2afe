"""Import of Prompty: prompts with their sample inputs, in `.prompty` files."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import InvalidFileError, UsageError
from regauge.importers._front_matter import FilePrompt
from regauge.importers._handlebars import to_jinja
from regauge.importers._source import SourceError
from regauge.importers._suite import ImportedSuite
from regauge.strict_json import is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from regauge.importers._description import Imported

_ROLE: Final = re.compile(
    r"^[ \t]*#?[ \t]*(system|developer|user|assistant)[ \t]*(?:\[[^\]\n]*\])?[ \t]*:[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_LOOP: Final = re.compile(
    r"\{%-?\s*for\s+(\w+)\s+in\s+(?P<name>\w+)\s*-?%\}\s*#?\s*\{\{\s*\1\.role\s*\}\}\s*:\s*"
    r"\{\{\s*\1\.content\s*\}\}\s*\{%-?\s*endfor\s*-?%\}"
)
_ENVIRONMENT: Final = re.compile(r"(?i)\$\{env:(\w+)(?::([^}]*))?\}")
_FILE: Final = re.compile(r"\$\{file:([^}]+)\}")
_VENDORS: Final = {"azure_openai": "azure", "foundry": "azure", "azure": "azure"}
_ENDPOINT: Final = {
    "azure_endpoint": "apiHost",
    "endpoint": "apiHost",
    "base_url": "baseUrl",
    "api_key": "apiKey",
    "apiKey": "apiKey",
}
_DECLARES: Final = ("type", "kind", "default", "description", "sample", "example", "required")
_MODEL: Final = ("api", "apiType", "configuration", "connection", "id", "options", "parameters",
                 "provider")  # fmt: skip
_CONNECTION: Final = ("azure_deployment", "model", "name", "type", *_ENDPOINT)
_OUTPUTS: Final = ("outputs", "outputSchema")
_READ: Final = ("$schema", "description", "inputs", "inputSchema", "kind", "model", "name",
                "sample", "template", "tools", *_OUTPUTS)  # fmt: skip
_IMAGE: Final = re.compile(r"!\[[^\]\n]*\]\([^)\n]+\)")
_THREAD: Final = r"^[ \t]*\{\{[ \t]*(%s)[ \t]*\}\}[ \t]*$"
_FIX: Final = "name a .prompty file, or a directory with them"


def read_prompty(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read prompts with their sample inputs.

    Args:
        path: A file, or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or none can be imported.
        InvalidFileError: The only one cannot be parsed.
    """
    suite = ImportedSuite(path, root=root, name=name, title="Prompty")
    suite.read(suite.files(".prompty"), lambda file: _read(file, suite))
    return suite.finish(_FIX)


def _read(file: Path, suite: ImportedSuite) -> None:
    prompt = FilePrompt(file, suite, suite.stem(file))
    if not prompt.front:
        raise UsageError(f"{suite.repository.relative(file)} has no front matter", fix=_FIX)
    prompt.copy_texts("name", "description")
    _read_inputs(prompt)
    _read_model(prompt)
    prompt.note_unread(prompt.front, *_READ)
    template = mapping_of(prompt.front.get("template"))
    prompt.note_unread(template, "format", "parser", "type", above="template.")
    input_bodies = [(name, mapping_of(body)) for name, body in _declared_inputs(prompt.front)]
    threads = {
        name for name, body in input_bodies if body.get("kind", body.get("type")) == "thread"
    }
    threads |= {loop["name"] for loop in _LOOP.finditer(prompt.body)}
    is_mustache = "mustache" in str(prompt.front.get("template", ""))
    for image in _IMAGE.finditer(prompt.body):
        prompt.note("manual", f"`{image[0]}`: an image for Prompty, copied as text")
    for role, text in _messages(_LOOP.sub(r"{{\g<name>}}", prompt.body), threads):
        is_translated = is_mustache and role != "history"
        prompt.messages.append((role, prompt.translate(to_jinja, text) if is_translated else text))
    prompt.add()


def _messages(body: str, threads: set[str]) -> Iterator[tuple[str, str]]:
    """The messages below role markers; text before the first marker is a system message."""
    marks = [*_ROLE.finditer(body)]
    starts = [("system", 0), *((mark[1].lower(), mark.end()) for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(body)]
    thread = re.compile(_THREAD % "|".join(map(re.escape, threads or {"\0"})), re.MULTILINE)
    for (role, start), end in zip(starts, ends, strict=True):
        for number, part in enumerate(thread.split(body[start:end])):
            if number % 2:
                yield "history", part
            elif part.strip():
                yield role, part.strip()


def _declared_inputs(front: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The declared inputs by name, from mappings or lists."""
    schema = mapping_of(front.get("inputSchema"))
    for declarations in (front.get("inputs"), schema.get("properties")):
        if is_mapping(declarations):
            yield from declarations.items()
        for item in list_of(declarations):
            if is_mapping(item) and isinstance(item.get("name"), str):
                yield item["name"], item


def _read_inputs(prompt: FilePrompt) -> None:
    front = prompt.front
    for name, body in _declared_inputs(front):
        if not is_mapping(body) or not any(key in body for key in _DECLARES):
            prompt.declare_input(name)
            prompt.values[name] = body
            continue
        prompt.note_unread(body, *_DECLARES, "isRequired", "name", above=f"inputs.{name}.")
        default = body.get("default")
        required = body.get("required", body.get("isRequired", True)) is not False
        prompt.declare_input(name, body.get("description"), default, required=required)
        sample = body.get("sample", body.get("example", default))
        if sample is not None:
            prompt.values[name] = sample
    sample_value = front.get("sample")
    if isinstance(sample_value, str):
        match = _FILE.fullmatch(sample_value)
        sample_value = _read_reference(match[1] if match else sample_value, prompt)
    schema = mapping_of(front.get("inputSchema"))
    prompt.note_unread(schema, "examples", "properties", above="inputSchema.")
    for first in list_of(schema.get("examples"))[:1]:
        prompt.values.update(mapping_of(first))
    prompt.values.update(mapping_of(sample_value))


def _read_reference(reference: str, prompt: FilePrompt) -> Any:
    """The document of a file that a prompt refers to.

    Raises:
        UsageError: It cannot be read.
    """
    repository = prompt.suite.repository
    try:
        return repository.read_yaml(repository.resolve(reference, prompt.file.parent))
    except (SourceError, InvalidFileError) as error:
        fix = "name a JSON or YAML file of its repository"
        raise UsageError(f"{prompt.place}: {error}", fix=fix) from error


def _read_endpoint(endpoint: Mapping[str, Any], prompt: FilePrompt) -> dict[str, str]:
    """The options of promptfoo for an endpoint; texts of the environment are noted."""
    options: dict[str, str] = {}
    for key, option in _ENDPOINT.items():
        value = endpoint.get(key)
        variable = _ENVIRONMENT.search(value) if isinstance(value, str) else None
        if variable and option == "apiKey":
            options["apiKeyEnvar"] = variable[1]
        elif variable:
            text = f"the environment variable {variable[1]} is `{key}`, and is not read"
            prompt.note("manual", text, key, table=endpoint)
        elif isinstance(value, str):
            options[option] = value
    return options


def _read_model(prompt: FilePrompt) -> None:
    model_value = prompt.front.get("model")
    model = {"id": model_value} if isinstance(model_value, str) else mapping_of(model_value)
    api = model.get("api", model.get("apiType", "chat"))
    if api not in ("chat", "agent", "responses", "completion", None):
        raise UsageError(f"{prompt.place}: it is a prompt of {api}, not of chat", fix=_FIX)
    key = "configuration" if "configuration" in model else "connection"
    endpoint = mapping_of(model.get(key))
    if is_mapping(model_value):
        prompt.note_unread(model, *_MODEL, above="model.")
    prompt.note_unread(endpoint, *_CONNECTION, above=f"model.{key}.")
    names = (endpoint.get("azure_deployment"), model.get("id"), endpoint.get("name"),
             endpoint.get("model"))  # fmt: skip
    name = next((candidate for candidate in names if isinstance(candidate, str) and candidate), "")
    kind = str(model.get("provider") or endpoint.get("type") or "")
    vendor = _VENDORS.get(kind, "azure" if "azure_deployment" in endpoint else kind)
    parameters = mapping_of(model.get("parameters", model.get("options")))
    config = cast("dict[str, Any]", copy(parameters))  # a copy keeps the lines
    for option, value in parameters.items():
        if isinstance(value, str):
            config[option] = _FILE.sub(r"file://\1", value)
    config |= _read_endpoint(endpoint, prompt)
    if variable := _ENVIRONMENT.fullmatch(name):
        name = variable[2] or ""
        text = f"the environment variable {variable[1]} names the model, and is not read"
        prompt.note("manual", text, "model")
    if prompt.front.get("tools"):
        prompt.note("manual", "its tools: write them in `tools`", "tools")
    if any(key in prompt.front for key in _OUTPUTS):
        prompt.note("manual", "the schema of its output: write `jsonSchema`", *_OUTPUTS)
    prompt.set_model(f"{vendor}:{name}" if vendor and name else name, config)
