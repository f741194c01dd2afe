"""Prompts in files with YAML front matter: Prompty (`.prompty`) and Dotprompt (`.prompt`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import Diagnostic, InvalidFileError, UsageError
from regauge.importers._source import SourceError, place_of
from regauge.importers._suite import ImportedSuite, Row, literal
from regauge.importers._templates import (
    TemplateError,
    render,
    split_template,
    to_jinja,
    variables_of,
)
from regauge.importers.promptfoo._context import Context
from regauge.importers.promptfoo._providers import model_id, prompt_parameters
from regauge.strict_json import as_list, is_mapping, list_of, mapping_of
from regauge.wording import cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers._description import Imported, SourcePlace

_SHOWN_MAX: Final = 60


@dataclass(slots=True, kw_only=True)
class FilePrompt:
    """A prompt as its file has it.

    Attributes:
        document: Keys of a prompt file, without messages and inputs.
        messages: Roles with their templates in Jinja; the role `history` with an input.
        inputs: The declarations by name, as in a prompt file.
        values: The sample inputs.
        front: The front matter.
    """

    name: str
    place: SourcePlace
    document: dict[str, JSON] = field(default_factory=dict[str, "JSON"])
    messages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    inputs: dict[str, JSON] = field(default_factory=dict[str, "JSON"])
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    front: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def place_of_key(self, *keys: str) -> SourcePlace:
        """The line of the first existing key of the front matter."""
        key = next((key_name for key_name in keys if key_name in self.front), None)
        return place_of(self.front, key, otherwise=self.place) if key else self.place


def read_front_matter(file: Path, suite: ImportedSuite) -> tuple[Mapping[str, Any], str]:
    """The front matter of a file, and the text below it.

    Raises:
        InvalidFileError: It is no YAML, no mapping, or has no end.
        SourceError: The file cannot be read.
    """
    place = suite.repository.relative(file)
    lines = suite.repository.read_text(file).split("\n")
    if lines[0].rstrip() != "---":
        return {}, "\n".join(lines)
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    text = "\n".join(["", *lines[1:end]])
    document = suite.repository.read_yaml(file, text) if end else None
    if not end or not (document is None or is_mapping(document)):
        message = "its front matter is no mapping" if end else "its front matter has no end"
        fix = "write `key: value` lines between two lines `---`"
        raise InvalidFileError([Diagnostic(path=Path(place), line=1, message=message, fix=fix)])
    return mapping_of(document), "\n".join(lines[end + 1 :])


def set_model(
    prompt: FilePrompt, name: str, config: Mapping[str, Any], file: Path, suite: ImportedSuite
) -> None:
    """Set the model, its parameters, the form of the output and the tools.

    Args:
        name: A provider id of promptfoo, such as `azure:gpt-4o`.
        config: A provider's `config` of promptfoo: `apiHost`, `apiKey`, `temperature` and others.
    """
    context = Context(suite, file)
    if name and (model := model_id(name, config, context, prompt.place_of_key("model"))):
        prompt.document["model"] = model
    elif name:
        text = f"the model {name} has no counterpart: set `model`"
        suite.imported.note("manual", prompt.place_of_key("model"), text)
    prompt.document.update(
        prompt_parameters(config, context, prompt.place_of_key("config", "model"))
    )


def set_schema(prompt: FilePrompt, schema: Any, suite: ImportedSuite) -> None:
    """Set the output's JSON schema; one that is no object is left out."""
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
    suite.imported.note("manual", prompt.place_of_key("output"), text)


def add_prompt(prompt: FilePrompt, suite: ImportedSuite) -> None:
    """Add a prompt, and a golden case of its sample inputs.

    Raises:
        UsageError: Its template has no counterpart in a prompt file.
    """
    try:
        messages, input_names, computed = _split(prompt.messages)
        cases = {key: render(part, prompt.values) for key, part in computed.items()}
    except TemplateError as error:
        raise refused(prompt.place, error) from error
    imported = suite.imported
    for key, part in computed.items():
        preview = cut(" ".join(part.split()), _SHOWN_MAX)
        text = f"`{preview}` became the input {key}, which each case gives as text"
        imported.note("changed", prompt.place, text)
    document = dict(prompt.document)
    if input_declarations := [prompt.inputs[key] for key in input_names if key in prompt.inputs]:
        undeclared = [{"name": key} for key in input_names if key not in prompt.inputs]
        document["inputs"] = [*input_declarations, *undeclared]
    judges: Sequence[JSON] = ()
    if "jsonSchema" in document:
        judges = [suite.check({"json_matches_schema": {}}, "output schema", prompt.place)]
    values = {**cases, **prompt.values}
    row = Row(place=prompt.place, inputs={k: values[k] for k in input_names if k in values})
    rows = [row] if prompt.values or not input_names else []
    if not rows:
        text = f"it has no sample inputs: write fixtures/golden/{prompt.name}.jsonl and an eval"
        imported.note("manual", prompt.place, text)
    else:
        judges = suite.scored(prompt.name, rows, judges)
    suite.add_eval(prompt.name, rows, messages=messages, document=document, judges=judges)


def _split(
    parts: Sequence[tuple[str, str]],
) -> tuple[list[dict[str, JSON]], list[str], dict[str, str]]:
    """The messages, their inputs, and the templates of computed inputs by name."""
    messages: list[dict[str, JSON]] = []
    input_names: dict[str, None] = {}
    computed: dict[str, str] = {}
    for role, template in parts:
        if role == "history":
            messages.append({"history": template})
            input_names[template] = None
            continue
        split = split_template(template, prefix=f"part{len(messages) + 1}")
        text = split.text
        for key, part in split.computed.items():
            if variables_of(part):
                computed[key] = part
            else:
                text = text.replace(f"{{{{{key}}}}}", literal(render(part, {})))
        messages.append({"role": role, "content": text})
        names = [*sorted(split.names), *(key for key in split.computed if key in computed)]
        input_names.update(dict.fromkeys(names))
    if not messages:
        raise TemplateError("it has no message")
    return messages, list(input_names), computed


def _declare_input(
    name: str, about: object = None, default: JSON = None, *, required: bool = True
) -> JSON:
    """The declaration of an input, as in a prompt file."""
    entry: dict[str, JSON] = {"name": name}
    if isinstance(about, str) and about:
        entry["description"] = about
    if default is not None:
        entry["default"] = default
    elif not required:
        entry["required"] = False
    return entry


def read_reference(reference: str, file: Path, suite: ImportedSuite) -> Any:
    """The document of a file that a prompt refers to.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return suite.repository.read_yaml(suite.repository.resolve(reference, file.parent))
    except (SourceError, InvalidFileError) as error:
        place = suite.repository.relative(file)
        fix = "name a JSON or YAML file of its repository"
        raise UsageError(f"{place}: {error}", fix=fix) from error


def refused(place: SourcePlace, error: TemplateError) -> UsageError:
    """The error of a template that no prompt file can hold."""
    return UsageError(
        f"{place}: its template cannot be imported: {error}",
        fix="simplify it, or write the prompt by hand: regauge new prompt",
    )


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
_DECLARES: Final = ("type", "kind", "default", "description", "sample", "example", "required")
_ENDPOINT: Final = {
    "azure_endpoint": "apiHost",
    "endpoint": "apiHost",
    "base_url": "baseUrl",
    "api_key": "apiKey",
    "apiKey": "apiKey",
}
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
    front, body = read_front_matter(file, suite)
    if not front:
        raise UsageError(f"{suite.repository.relative(file)} has no front matter", fix=_FIX)
    prompt = FilePrompt(name=suite.stem(file), place=suite.place(file), front=front)
    for key in ("name", "description"):
        if isinstance(front.get(key), str):
            prompt.document[key] = front[key]
    _read_inputs(front, prompt, file, suite)
    _read_model(front, prompt, file, suite)
    input_bodies = [(name, mapping_of(body)) for name, body in _declared_inputs(front)]
    threads = {
        name for name, body in input_bodies if body.get("kind", body.get("type")) == "thread"
    }
    threads |= {loop["name"] for loop in _LOOP.finditer(body)}
    body = _LOOP.sub(r"{{\g<name>}}", body)
    for role, text in _messages(body, threads):
        prompt.messages.append((role, _template(text, front, prompt, role)))
    add_prompt(prompt, suite)


def _template(text: str, front: Mapping[str, Any], prompt: FilePrompt, role: str) -> str:
    if role == "history" or "mustache" not in str(front.get("template", "")):
        return text
    try:
        return to_jinja(text)
    except TemplateError as error:
        raise refused(prompt.place, error) from error


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


def _read_inputs(
    front: Mapping[str, Any], prompt: FilePrompt, file: Path, suite: ImportedSuite
) -> None:
    for name, body in _declared_inputs(front):
        if not is_mapping(body) or not any(key in body for key in _DECLARES):
            prompt.inputs[name] = _declare_input(name)
            prompt.values[name] = body
            continue
        default = body.get("default")
        required = body.get("required", body.get("isRequired", True)) is not False
        about = body.get("description")
        prompt.inputs[name] = _declare_input(name, about, default, required=required)
        sample = body.get("sample", body.get("example", default))
        if sample is not None:
            prompt.values[name] = sample
    sample_value = front.get("sample")
    if isinstance(sample_value, str):
        match = _FILE.fullmatch(sample_value)
        sample_value = read_reference(match[1] if match else sample_value, file, suite)
    for first in list_of(mapping_of(front.get("inputSchema")).get("examples"))[:1]:
        prompt.values.update(mapping_of(first))
    prompt.values.update(mapping_of(sample_value))


def _read_model(
    front: Mapping[str, Any], prompt: FilePrompt, file: Path, suite: ImportedSuite
) -> None:
    model_value = front.get("model")
    model = {"id": model_value} if isinstance(model_value, str) else mapping_of(model_value)
    api = model.get("api", model.get("apiType", "chat"))
    if api not in ("chat", "agent", "responses", "completion", None):
        raise UsageError(f"{prompt.place}: it is a prompt of {api}, not of chat", fix=_FIX)
    endpoint = mapping_of(model.get("configuration", model.get("connection")))
    names = (endpoint.get("azure_deployment"), model.get("id"), endpoint.get("name"),
             endpoint.get("model"))  # fmt: skip
    name = next((candidate for candidate in names if isinstance(candidate, str) and candidate), "")
    kind = str(model.get("provider") or endpoint.get("type") or "")
    vendor = _VENDORS.get(kind, "azure" if "azure_deployment" in endpoint else kind)
    config = {
        key: _FILE.sub(r"file://\1", value) if isinstance(value, str) else value
        for key, value in mapping_of(model.get("parameters", model.get("options"))).items()
    }
    for key, option in _ENDPOINT.items():
        value = endpoint.get(key)
        variable = _ENVIRONMENT.search(value) if isinstance(value, str) else None
        if variable and option == "apiKey":
            config["apiKeyEnvar"] = variable[1]
        elif variable:
            text = f"the environment variable {variable[1]} is `{key}`, and is not read"
            suite.imported.note("manual", prompt.place_of_key("model"), text)
        elif isinstance(value, str):
            config[option] = value
    if variable := _ENVIRONMENT.fullmatch(name):
        name = variable[2] or ""
        text = f"the environment variable {variable[1]} names the model, and is not read"
        suite.imported.note("manual", prompt.place_of_key("model"), text)
    if front.get("tools"):
        suite.imported.note(
            "manual", prompt.place_of_key("tools"), "its tools: write them in `tools`"
        )
    set_model(prompt, f"{vendor}:{name}" if vendor and name else name, config, file, suite)


_KEY: Final = re.compile(
    r"(?P<name>[^?(]+)(?P<optional>\?)?(?:\((?P<kind>\w+)(?:,(?P<about>.*))?\))?"
)
_SCALARS: Final = ("string", "number", "integer", "boolean", "null", "any")
_MARK: Final = "\0%s\0"
_MARKED: Final = re.compile(r"\0(\w+)\0")
_DOTPROMPT_VENDORS: Final = {"googleai": "google", "vertexai": "vertex", "googleAI": "google"}
_ROLES: Final = {"model": "assistant"}
_DOTPROMPT_FIX: Final = "name a .prompt file, or a directory with them"


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
    suite.read(files, lambda file: _read_dotprompt(file, suite))
    return suite.finish(_DOTPROMPT_FIX)


def _read_dotprompt(file: Path, suite: ImportedSuite) -> None:
    front, body = read_front_matter(file, suite)
    words = "" if file == suite.path else file.name.removesuffix(".prompt").replace(".", "-")
    prompt = FilePrompt(name=suite.name(words), place=suite.place(file), front=front)
    if isinstance(front.get("description"), str):
        prompt.document["description"] = front["description"]
    input_section = mapping_of(front.get("input"))
    prompt.inputs.update(
        _inputs(input_section.get("schema"), mapping_of(input_section.get("default")))
    )
    prompt.values.update(mapping_of(input_section.get("default")))
    model = front.get("model")
    vendor, _, name = model.partition("/") if isinstance(model, str) else ("", "", "")
    model_name = f"{_DOTPROMPT_VENDORS.get(vendor, vendor)}:{name}" if name else vendor
    set_model(prompt, model_name, mapping_of(front.get("config")), file, suite)
    output = mapping_of(front.get("output"))
    if "schema" in output:
        set_schema(prompt, _schema(output["schema"]), suite)
    elif output.get("format") == "json":
        prompt.document["responseFormat"] = "json_object"
    if front.get("tools"):
        text = "its tools are named and defined elsewhere: write them in `tools`"
        suite.imported.note("manual", prompt.place_of_key("tools"), text)
    try:
        text = to_jinja(
            body, partial=lambda name: _partial(name, file, suite), helper=_helper(prompt, suite)
        )
    except TemplateError as error:
        raise refused(prompt.place, error) from error
    prompt.messages.extend(_dotprompt_messages(text))
    add_prompt(prompt, suite)


def _helper(prompt: FilePrompt, suite: ImportedSuite) -> Any:
    """The marks that divide a prompt into messages; media and sections are noted."""

    def text_of_mark(inner: str) -> str | None:
        word, _, rest = inner.partition(" ")
        if word == "role":
            role = rest.strip().strip("\"'")
            return _MARK % _ROLES.get(role, role)
        if word == "history":
            return _MARK % "history"
        if word in {"media", "section"}:
            suite.imported.note("manual", prompt.place, f"`{{{{{inner}}}}}`: not imported")
            return ""
        return None

    return text_of_mark


def _dotprompt_messages(text: str) -> Iterator[tuple[str, str]]:
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
                raise UsageError(f"the role {role!r} has no counterpart", fix=_DOTPROMPT_FIX)
            yield role, part.strip()


def _partial(name: str, file: Path, suite: ImportedSuite) -> str:
    try:
        path = suite.repository.resolve(f"_{name}.prompt", file.parent)
        return read_front_matter(path, suite)[1].strip("\n")
    except (SourceError, InvalidFileError) as error:
        raise TemplateError(str(error)) from error


def _inputs(schema: Any, defaults: Mapping[str, Any]) -> dict[str, JSON]:
    inputs: dict[str, JSON] = {}
    json_schema = mapping_of(_schema(schema))
    for name, body in mapping_of(json_schema.get("properties")).items():
        about = mapping_of(body).get("description")
        required = name in list_of(json_schema.get("required"))
        inputs[name] = _declare_input(name, about, defaults.get(name), required=required)
    for name, value in defaults.items():
        inputs.setdefault(name, _declare_input(name, default=value))
    return inputs


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
