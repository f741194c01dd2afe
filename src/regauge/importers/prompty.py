"""Prompts of Prompty: `.prompty` files, of the first and the second version of the format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import UsageError
from regauge.importers._handlebars import to_jinja
from regauge.importers._prompt_files import (
    FilePrompt,
    Input,
    add_prompt,
    read_front_matter,
    read_reference,
    refused,
    set_model,
)
from regauge.importers._source import is_mapping, list_of, mapping_of
from regauge.importers._suite import Suite
from regauge.importers._templates import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from regauge.importers._description import Imported

__all__ = ["read_prompty"]

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
        FaultyFileError: The only one cannot be parsed.
    """
    suite = Suite(path, root=root, name=name, title="Prompty")
    suite.read(suite.files(".prompty"), lambda file: _read(file, suite))
    return suite.finish(_FIX)


def _read(file: Path, suite: Suite) -> None:
    front, body = read_front_matter(file, suite)
    if not front:
        raise UsageError(f"{suite.repository.relative(file)} has no front matter", fix=_FIX)
    prompt = FilePrompt(name=suite.stem(file), place=suite.place(file), front=front)
    for key in ("name", "description"):
        if isinstance(front.get(key), str):
            prompt.document[key] = front[key]
    _read_inputs(front, prompt, file, suite)
    _read_model(front, prompt, file, suite)
    threads = {name for name, kind in _kinds(front) if kind == "thread"}
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
    """The messages below role markers; text before the first is of the system."""
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


def _declared(front: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The declarations of inputs, which are mappings or lists with names."""
    schema = mapping_of(front.get("inputSchema"))
    for given in (front.get("inputs"), schema.get("properties")):
        if is_mapping(given):
            yield from given.items()
        for item in list_of(given):
            if is_mapping(item) and isinstance(item.get("name"), str):
                yield item["name"], item


def _kinds(front: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, body in _declared(front):
        yield name, mapping_of(body).get("kind", mapping_of(body).get("type"))


def _read_inputs(front: Mapping[str, Any], prompt: FilePrompt, file: Path, suite: Suite) -> None:
    for name, body in _declared(front):
        if not is_mapping(body) or not any(key in body for key in _DECLARES):
            prompt.inputs[name] = Input()
            prompt.values[name] = body
            continue
        default = body.get("default")
        required = body.get("required", body.get("isRequired", True)) is not False
        about = body.get("description")
        prompt.inputs[name] = Input(
            description=about if isinstance(about, str) else "", default=default, required=required
        )
        sample = body.get("sample", body.get("example", default))
        if sample is not None:
            prompt.values[name] = sample
    given = front.get("sample")
    if isinstance(given, str):
        match = _FILE.fullmatch(given)
        given = read_reference(match[1] if match else given, file, suite)
    for first in list_of(mapping_of(front.get("inputSchema")).get("examples"))[:1]:
        prompt.values.update(mapping_of(first))
    prompt.values.update(mapping_of(given))


def _read_model(front: Mapping[str, Any], prompt: FilePrompt, file: Path, suite: Suite) -> None:
    given = front.get("model")
    model = {"id": given} if isinstance(given, str) else mapping_of(given)
    api = model.get("api", model.get("apiType", "chat"))
    if api not in ("chat", "agent", "responses", "completion", None):
        raise UsageError(f"{prompt.place}: it is a prompt of {api}, not of chat", fix=_FIX)
    endpoint = mapping_of(model.get("configuration", model.get("connection")))
    names = (endpoint.get("azure_deployment"), model.get("id"), endpoint.get("name"),
             endpoint.get("model"))  # fmt: skip
    name = next((one for one in names if isinstance(one, str) and one), "")
    kind = str(model.get("provider") or endpoint.get("type") or "")
    vendor = _VENDORS.get(kind, "azure" if "azure_deployment" in endpoint else kind)
    config = {
        key: _FILE.sub(r"file://\1", value) if isinstance(value, str) else value
        for key, value in mapping_of(model.get("parameters", model.get("options"))).items()
    }
    for key, own in _ENDPOINT.items():
        value = endpoint.get(key)
        variable = _ENVIRONMENT.search(value) if isinstance(value, str) else None
        if variable and own == "apiKey":
            config["apiKeyEnvar"] = variable[1]
        elif variable:
            text = f"the environment variable {variable[1]} is `{key}`, and is not read"
            suite.imported.note("person", prompt.at("model"), text)
        elif isinstance(value, str):
            config[own] = value
    if variable := _ENVIRONMENT.fullmatch(name):
        name = variable[2] or ""
        text = f"the environment variable {variable[1]} names the model, and is not read"
        suite.imported.note("person", prompt.at("model"), text)
    if front.get("tools"):
        suite.imported.note("person", prompt.at("tools"), "its tools: write them in `tools`")
    set_model(prompt, f"{vendor}:{name}" if vendor and name else name, config, file, suite)
