"""Providers: models with endpoints and parameters; endpoints, programs and code as targets."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from regauge.errors import InvalidFileError
from regauge.importers._description import slug
from regauge.importers._source import SourceError, place_of, placed
from regauge.lexicon import Lexicon
from regauge.providers.remote import load_gaps
from regauge.recordings import map_texts
from regauge.scaffold import NewFile
from regauge.strict_json import as_list, is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import SourcePlace
    from regauge.importers._source import SourceTree
    from regauge.importers.promptfoo._context import Context


LEXICON: Final = Lexicon("regauge.importers.promptfoo")
_HOME_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
ENVIRONMENT: Final = re.compile(
    r"\{\{-?\s*env\.(?P<name>\w+)\s*(?:\|\s*default\(\s*['\"](?P<default>[^'\"]*)['\"][^)]*\))?\s*"
    r"-?\}\}|\$\{(?P<shell>\w+)(?::-(?P<other>[^}]*))?\}"
)
_CODE: Final = re.compile(r"(?:file://|python:|exec:).*|.*\.(?:py|[cm]?js|[cm]?ts)(?::\w+)?")
_URL_KEYS: Final = ("apiBaseUrl", "baseUrl", "base_url", "baseURL")
_SECRET_MIN: Final = 8


def is_code(name: str) -> bool:
    """Return whether a provider is a program."""
    return _CODE.fullmatch(name) is not None


def without_environment(text: str, context: Context, place: SourcePlace) -> str:
    """Replace environment variables in a text by their defaults."""

    def default(match: re.Match[str]) -> str:
        name = match["name"] or match["shell"]
        value = match["default"] or match["other"] or ""
        replacement = value or "nothing"
        note = f"the environment variable {name} is not read; {replacement!r} replaces it"
        context.note("changed", place, note)
        return value

    return ENVIRONMENT.sub(default, text)


def model_of(value: object, place: SourcePlace, context: Context) -> str:
    """The model id of a grader; empty if it is no model."""
    body = value if is_mapping(value) else {"id": value}
    name = str(body.get("id"))
    if label := context.imported.labels.get(name):
        return label
    settings = mapping_of(body.get("config"))
    full_name = "" if is_code(name) else without_environment(name, context, place)
    model = model_id(full_name, settings, context, place) if full_name else ""
    if not model:
        problem = "is code" if is_code(name) else "has no counterpart"
        context.note(
            "manual", place, f"the grader {name} {problem}; the project's judge model grades"
        )
    return model


def model_id(name: str, config: Mapping[str, Any], context: Context, place: SourcePlace) -> str:
    """The id of a model; empty for none. Its endpoint becomes a table of the settings."""
    family, mode, model = _parts(name, config, context, place)
    endpoint: Mapping[str, str] | None = LEXICON.entry("endpoints").get(family)
    if endpoint is None or not model or "{{" in model or " " in model:
        return ""
    table: dict[str, JSON] = {}
    table_name = endpoint.get("name", family)
    if mode == "responses" and family in {"openai", "azure"}:
        table_name, table["api"] = f"{table_name}-responses", "responses"
    url = _url(family, config, context, place)
    if url and family == "anthropic":
        table["api"] = "anthropic"
    if url and family in {"openai", "anthropic"}:
        table_name = f"{table_name}-{_host_name(url)}"
    if url or "url" in endpoint:
        table["base_url"] = url or endpoint["url"]
    elif family in LEXICON.entry("clouds"):
        table.update(_cloud(family, config, context, place))
    home_key = _HOME_KEYS.get(family, "")
    key = _key_name(config, endpoint.get("key_env", home_key), context, place)
    if key and (table or key != home_key) and "api_key_command" not in table:
        table["api_key_env"] = key
    return f"{_declare(table_name, table, context) if table else table_name}:{model}"


def replaced_by_model(name: str, config: Mapping[str, Any]) -> str:
    """The model that replaces an agent; `own` for the project's model, empty for none."""
    family, _, mode = name.partition(":")
    if family in {"openai", "anthropic"} and mode.partition(":")[0] in LEXICON.words("agents"):
        model = config.get("model")
        return f"{family}:{model}" if isinstance(model, str) and model else "own"
    is_known = LEXICON.entry("same").get(family, family) in LEXICON.entry("endpoints")
    is_model = family in LEXICON.words("vendors") or (is_known and not mode)
    return "own" if is_model else ""


def _parts(
    name: str, config: Mapping[str, Any], context: Context, place: SourcePlace
) -> tuple[str, str, str]:
    """The family, mode and model of a provider's id; an empty model if it is none."""
    family, _, rest = name.partition(":")
    if not rest:
        bare = LEXICON.entry("bare").items()
        family = next((vendor for begin, vendor in bare if name.startswith(begin)), name)
        rest = name if family != name else ""
        if rest:
            context.note("changed", place, f"{name} names no provider; {family} serves it")
    mode, _, model = rest.partition(":")
    if mode not in LEXICON.words("modes"):
        mode, model = ("", "") if mode in LEXICON.words("other_modes") else ("chat", rest)
    if not model and mode:
        model = str(config.get("model") or config.get("deployment_id") or "")
    return LEXICON.entry("same").get(family, family), mode, model


def _url(family: str, config: Mapping[str, Any], context: Context, place: SourcePlace) -> str:
    """The URL of an endpoint that is not the vendor's; empty for the vendor's."""
    address = next((config[key] for key in _URL_KEYS if isinstance(config.get(key), str)), "")
    host = config.get("apiHost")
    if not address and isinstance(host, str) and host:
        suffix = "/openai/v1" if family == "azure" else "/v1"
        address = f"{host if '://' in host else f'https://{host}'}".rstrip("/") + suffix
    url = re.sub(r"[?#].*", "", without_environment(address, context, place)).rstrip("/")
    if "@" in url.partition("//")[2].partition("/")[0]:
        context.note("manual", place, "the URL holds a user or password, which was not copied")
        url = re.sub(r"//[^/]*@", "//", url)
    if url and not re.match(r"https?://[^/]", url):
        context.note("manual", place, "the URL of the endpoint is not complete; write base_url")
        return "http://127.0.0.1:9/v1"
    vendor = {"https://api.openai.com/v1", "https://api.anthropic.com"}
    return "" if url in {*vendor, LEXICON.entry("endpoints")[family].get("url", "")} else url


def _cloud(
    family: str, config: Mapping[str, Any], context: Context, place: SourcePlace
) -> dict[str, JSON]:
    """The endpoint of a cloud, with placeholders for names that no configuration has."""
    context.note("manual", place, LEXICON.entry("clouds")[family])
    if family == "azure":
        return {"base_url": "https://RESOURCE.openai.azure.com/openai/v1"}
    if family == "bedrock":
        region = config.get("region") or "us-east-1"
        return {"base_url": f"https://bedrock-runtime.{region}.amazonaws.com/openai/v1"}
    project = config.get("projectId") or "PROJECT"
    region = config.get("region") or "global"
    path = f"v1/projects/{project}/locations/{region}/endpoints/openapi"
    return {
        "base_url": f"https://aiplatform.googleapis.com/{path}",
        "api_key_command": ["gcloud", "auth", "print-access-token"],
    }


def _host_name(url: str) -> str:
    host, _, port = re.sub(r"^[a-z]+://", "", url).partition("/")[0].partition(":")
    if host in {"localhost", "127.0.0.1"}:
        return f"local-{port}" if port else "local"
    silent = {"api", "www", "com", "ai", "io", "net", "org", "cn"}
    return slug("-".join(word for word in host.split(".") if word not in silent), otherwise="own")


def _declare(name: str, table: Mapping[str, JSON], context: Context) -> str:
    """Declare a table of the settings, and return its name."""
    tables = context.imported.providers
    base, number = name, 2
    while name in tables and dict(tables[name]) != dict(table):
        name, number = f"{base}-{number}", number + 1
    tables[name] = table
    return name


def _key_name(config: Mapping[str, Any], default: str, context: Context, place: SourcePlace) -> str:
    """The environment variable of a key; a literal key is noted, not copied."""
    variable = config.get("apiKeyEnvar")
    if isinstance(variable, str) and re.fullmatch(r"[A-Za-z_]\w*", variable):
        return variable
    key = config.get("apiKey", config.get("api_key"))
    if not isinstance(key, str) or not key:
        return default
    match = ENVIRONMENT.fullmatch(key.strip())
    if match:
        return str(match["name"] or match["shell"])
    if plain := re.fullmatch(r"\$(\w+)", key.strip()):
        return plain[1]
    name = default or "API_KEY"
    if len(key) >= _SECRET_MIN:
        context.imported.secrets.add(key)
    note = f"a key is in the file; it was not copied. Set the environment variable {name}"
    context.note("manual", place, note)
    return name


def prompt_parameters(
    config: Mapping[str, Any], context: Context, place: SourcePlace
) -> dict[str, JSON]:
    """The keys of a prompt file for the configuration of a model."""
    flat = dict(config)
    for nested in ("generationConfig", "options", "passthrough"):
        inner = flat.pop(nested, None)
        if is_mapping(inner):
            flat = {**inner, **flat}
    names: Mapping[str, str] = LEXICON.entry("parameters")
    parameters: dict[str, JSON] = {}
    for key, value in flat.items():
        name = names.get(key)
        if name is not None and isinstance(value, str) == (name == "reasoningEffort"):
            parameters.setdefault(name, value)
    effort = mapping_of(flat.get("reasoning")).get("effort")
    if isinstance(effort, str):
        parameters["reasoningEffort"] = effort
    ignored = sorted(key for key in flat if key not in names and key not in LEXICON.words("silent"))
    if ignored:
        context.note("dropped", place, f"settings of the provider: {', '.join(ignored)}")
    document: dict[str, JSON] = {"modelParameters": parameters} if parameters else {}
    response_format = flat.get("response_format", flat.get("responseFormat"))
    document.update(_response_format(response_format, context, place))
    if tools := _tools(flat.get("tools") or flat.get("functions"), context, place):
        document["tools"] = tools
        choice = flat.get("tool_choice", flat.get("toolChoice"))
        if is_mapping(choice):
            choice = mapping_of(choice.get("function")).get("name")
        if isinstance(choice, str):
            document["toolChoice"] = choice
    return document


def _load(value: Any, context: Context, place: SourcePlace) -> Any:
    """A value, or the content of the file that it names."""
    if isinstance(value, str) and value.startswith("file://"):
        try:
            return context.repository.read_yaml(context.repository.resolve(value, context.base))
        except (SourceError, InvalidFileError) as error:
            context.note("manual", place, f"not imported: {error}")
            return None
    return value


def _response_format(value: Any, context: Context, place: SourcePlace) -> dict[str, JSON]:
    loaded = mapping_of(_load(value, context, place))
    kind = str(loaded.get("type"))
    if kind == "json_schema":
        schema = _load(loaded.get("json_schema", loaded.get("schema")), context, place)
        if is_mapping(schema):
            return {"responseFormat": "json_schema", "jsonSchema": cast("JSON", schema)}
    return {"responseFormat": kind} if kind in {"json_object", "text"} else {}


def _tools(value: Any, context: Context, place: SourcePlace) -> list[JSON]:
    value = _load(value, context, place)
    loaded = [_load(item, context, place) for item in list_of(value)]
    items = [part for item in loaded for part in as_list(item)]
    tools = [tool for item in items if (tool := _tool(item))]
    if len(tools) < len(items):
        context.note("dropped", place, "a tool of the vendor is not offered to the model")
    return cast("list[JSON]", tools)


def _tool(item: Any) -> dict[str, JSON]:
    """Convert a tool for a prompt file; empty if a prompt file cannot have it."""
    body = mapping_of(item)
    function = mapping_of(body.get("function", body))
    name = function.get("name")
    if not isinstance(name, str) or str(body.get("type", "function")) not in {"function", "custom"}:
        return {}
    tool: dict[str, JSON] = {"name": name}
    if isinstance(function.get("description"), str):
        tool["description"] = function["description"]
    for key in ("inputSchema", "input_schema", "parameters"):
        if is_mapping(function.get(key)):
            tool["parameters"] = function[key]
    return tool


_Kind: TypeAlias = Literal["model", "python", "javascript", "http", "command", "echo", "other"]
_DEPTH_MAX: Final = 4
_LISTED: Final = re.compile(r"file://.*\.(?:ya?ml|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProvider:
    """One provider.

    Attributes:
        kind: `model` for a model that takes chats, `echo` for the prompt itself, `other` without a
            counterpart; else the kind of a target.
        names: Names that tests use for it.
        model: Its model id; empty for the project's model.
        parameters: Keys of a prompt file from its configuration.
        prompts: The prompts that it runs; empty for all.
    """

    kind: _Kind
    id: str
    label: str
    config: Mapping[str, Any]
    place: SourcePlace
    names: frozenset[str]
    model: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    prompts: tuple[str, ...] = ()
    transform: str = ""


def read_providers(
    config: Mapping[str, Any], context: Context, place: SourcePlace
) -> list[SourceProvider]:
    """The providers of a configuration."""
    key = "providers" if "providers" in config else "targets"
    key_place = place_of(config, key, otherwise=place)
    return [
        _provider(name, body, context, provider_place)
        for name, body, provider_place in _named_providers(config.get(key), context, key_place, 0)
    ]


def _named_providers(
    value: Any, context: Context, place: SourcePlace, depth: int
) -> Iterator[tuple[str, Mapping[str, Any], SourcePlace]]:
    """The id and the keys of each provider, including those in files."""
    if value is None or depth > _DEPTH_MAX:
        return
    if is_list(value):
        for part, part_place in placed(value, place):
            yield from _named_providers(part, context, part_place, depth + 1)
        return
    name, body = _name_of(value)
    if not name:
        context.note("manual", place, "a provider has no `id`")
    elif _LISTED.fullmatch(name):
        try:
            path = context.repository.resolve(name, context.base)
            yield from _named_providers(
                context.repository.read_yaml(path), context, place, depth + 1
            )
        except (SourceError, InvalidFileError) as error:
            context.note("manual", place, f"a provider is not imported: {error}")
    else:
        yield name, body, place


def _name_of(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, str):
        return value, {}
    body = mapping_of(value)
    if isinstance(body.get("id"), str):
        return body["id"], body
    if len(body) == 1:
        name, inner = next(iter(body.items()))
        if inner is None or is_mapping(inner):
            return name, inner or {}
    return "", {}


def _provider(
    name: str, body: Mapping[str, Any], context: Context, place: SourcePlace
) -> SourceProvider:
    settings = dict(mapping_of(body.get("config")))
    label = str(body.get("label") or "")
    full = without_environment(name, context, place).strip()
    kind = _kind_of_provider(full)
    model = model_id(full, settings, context, place) if kind == "model" else ""
    if kind == "model" and not model and (replacement := replaced_by_model(full, settings)):
        model = model_id(replacement, settings, context, place) if ":" in replacement else ""
        text = f"the provider {full} has no counterpart: {model or 'the model of the project'}"
        text += " gets the prompt instead, without tools of an agent; or write a target"
        context.note("manual", place, text)
    elif kind == "other" or (kind == "model" and not model):
        kind = "other"
        text = "has no counterpart; write a target for it, see test-an-application"
        context.note("manual", place, f"the provider {full or name} {text}")
    return SourceProvider(
        kind=kind,
        id=full,
        label=label,
        config=settings,
        place=place,
        names=frozenset({name, full, label} - {""}),
        model=model,
        parameters=_parameters_of(model, settings, context, place) if kind == "model" else {},
        prompts=tuple(map(str, list_of(body.get("prompts")))),
        transform=str(body.get("transform") or settings.get("transform") or ""),
    )


def _parameters_of(
    model: str, config: Mapping[str, Any], context: Context, place: SourcePlace
) -> dict[str, JSON]:
    """The keys of a prompt file without those that the model's endpoint rejects.

    Another endpoint with the API of a vendor is assumed to accept them.
    """
    document = prompt_parameters(config, context, place)
    name, _, model_name = model.partition(":")
    table = context.imported.providers.get(name, {})
    api = str(table.get("api", "anthropic" if name == "anthropic" else "openai"))
    url = str(table.get("base_url", "https://api.openai.com/v1" if api == "openai" else ""))
    parameters = mapping_of(document.get("modelParameters"))
    keys = {re.sub(r"([A-Z])", r"_\1", key).lower(): key for key in parameters}
    if document.get("responseFormat") == "json_object":
        keys["json_object"] = "responseFormat"
    rejected = {
        parameter
        for gap in load_gaps()
        if api in gap.apis and re.search(gap.url, url) and re.match(gap.model, model_name)
        for parameter in gap.names
        if parameter in keys
    }
    if not rejected:
        return document
    if api == "anthropic" and "base_url" in table:
        context.imported.providers[name] = {**table, "accepts": sorted(rejected)}
        return document
    names = ", ".join(sorted(rejected))
    context.note("changed", place, f"{model} rejects or ignores {names}; the prompt has none")
    rejected_keys = {keys[name] for name in rejected}
    accepted = {key: value for key, value in parameters.items() if key not in rejected_keys}
    rest = {key: value for key, value in document.items() if key != "modelParameters"}
    if "json_object" in rejected:
        rest.pop("responseFormat", None)
    return {**({"modelParameters": accepted} if accepted else {}), **rest}


def _kind_of_provider(name: str) -> _Kind:
    if name == "echo":
        return "echo"
    if name in {"http", "https"} or name.startswith(("http://", "https://")):
        return "http"
    if name.startswith("exec:"):
        return "command"
    if re.search(r"\.(?:go|rb)(?::\w+)?\Z", name):
        return "other"
    if is_code(name):
        return "python" if re.search(r"\.py(?::\w+)?\Z", name) else "javascript"
    return "model"


# Targets of providers that are endpoints, programs and code; an import runs none of them.

_MS: Final = 1000
_FILE: Final = re.compile(r"(?:file://|python:)?(?P<path>.+?\.\w+)(?::(?P<function>\w+))?\Z")
_SECRET: Final = re.compile(
    r"key|token|secret|password|passwd|authorization|credential|cookie", re.IGNORECASE
)
_NO_SECRET: Final = ("tokens", "envar", "env")
_JSON_PATH: Final = re.compile(
    r"(?:\(?\s*\(?\s*(?:json|data|response|res|r|output)\s*(?:,[^)]*)?\)?\s*=>\s*)?\(?\s*"
    r"(?:json|data|response|res|r)"
    r"(?P<path>(?:\??\.?\[(?:\d+|'[^']+'|\"[^\"]+\")\]|\??\.[A-Za-z_$][\w$]*)+)\s*\)?\s*;?"
)
_SLOT: Final = re.compile(r"\{\{\s*(?P<path>(?P<root>\w+)(?:\.\w+)*)\s*(?:\|[^}]*)?\}\}")
_PLAIN_HEADERS: Final = ("content-type", "accept", "content-length")
_UNSUPPORTED: Final = (
    "request", "session", "sessionParser", "auth", "signatureAuth", "transformRequest", "tls",
    "queryParams",
)  # fmt: skip
_METHODS: Final = ("GET", "POST", "PUT", "PATCH")


def _http_target(
    provider: SourceProvider, context: Context, *, names: Container[str]
) -> dict[str, JSON]:
    """The table of a target for an HTTP provider.

    Args:
        names: The inputs of its cases.
    """
    config, place = provider.config, provider.place
    address = provider.id if "://" in provider.id else str(config.get("url") or "")
    slots = _slots(provider, context, names)
    url = slots(without_environment(address, context, place))
    if not re.match(r"https?://[^/{]", url):
        context.note("manual", place, "the URL of the HTTP provider is not complete; correct `url`")
        url = f"http://127.0.0.1:9/{url.partition('://')[2] or url}"
    table: dict[str, JSON] = {"kind": "http", "url": url}
    default = "POST" if config.get("body") is not None else "GET"
    method = str(config.get("method") or default).upper()
    if method not in _METHODS:
        text = f"the method {method} has no counterpart; the target uses POST"
        context.note("manual", place, text)
    elif method != "POST":
        table["method"] = method
    if headers := _headers(provider, context):
        table["headers_env"] = headers
    body = _json_body(config.get("body"), provider, context, slots)
    if body is not None:
        table["body"] = body
    parser = config.get("transformResponse", config.get("responseParser"))
    if parser is not None:
        path = json_path(str(parser))
        if path:
            table["text"] = path
        else:
            text = "`transformResponse` is code that is not run; set `text` of the target"
            context.note("manual", place, text)
    for key in _UNSUPPORTED:
        if config.get(key):
            context.note("manual", place, f"`{key}` of the HTTP provider has no counterpart")
    return table


def _slots(
    provider: SourceProvider, context: Context, names: Container[str]
) -> Callable[[str], str]:
    """Return a function that converts slots of a text for a target; unknown ones become empty."""

    def slot(match: re.Match[str]) -> str:
        if match["root"] in names:
            return f"{{{{{match['path']}}}}}"
        note = f"the request inserts {match[0]}, which no test has; it is empty"
        context.note("manual", provider.place, note)
        return ""

    return lambda text: _SLOT.sub(slot, text)


def _headers(provider: SourceProvider, context: Context) -> dict[str, JSON]:
    """The environment variables of headers; values are not copied."""
    headers = provider.config.get("headers")
    names: dict[str, JSON] = {}
    for header, value in mapping_of(headers).items():
        if header.lower() in _PLAIN_HEADERS:
            continue
        match = ENVIRONMENT.fullmatch(str(value).strip())
        name = (match["name"] or match["shell"]) if match else re.sub(r"\W+", "_", header).upper()
        names[header] = name
        if match:
            continue
        if _SECRET.search(header):
            words = str(value).split()
            context.imported.secrets.update(
                word for word in words if len(word) >= _SECRET_MIN and "{{" not in word
            )
        text = (
            f"the value of the header {header} was not copied; set the environment variable {name}"
        )
        context.note("manual", provider.place, text)
    return names


def _json_body(
    body: Any, provider: SourceProvider, context: Context, slots: Callable[[str], str]
) -> JSON:
    """The body as JSON with converted slots; None if it is no JSON."""
    if isinstance(body, str):
        quoted = re.sub(
            r"(?<![\"\w])\{\{\s*(\w+)\s*(?:\|\s*dump)?\s*\}\}(?![\"\w])", r'"{{\1}}"', body
        )
        try:
            body = json.loads(quoted)
        except ValueError:
            text = "the body is no JSON; the target sends all inputs instead"
            context.note("manual", provider.place, text)
            return None
    return cast("JSON", map_texts(body, slots))


def json_path(code: str) -> str:
    """The JSON path of code that only selects a part of a response; empty for other code.

    >>> json_path("json.choices[0].message.content")
    '$.choices[0].message.content'
    >>> json_path("(json) => json.text")
    '$.text'
    """
    code = code.strip()
    if picked := re.search(r"\boutput:\s*((?:json|data)[\w.\[\]?]+)", code):
        code = picked[1]
    match = _JSON_PATH.fullmatch(code.removeprefix("return ").strip())
    if match is None:
        return ""
    path = match["path"].replace("?.", ".").replace(".[", "[")
    return "$" + re.sub(r"\[['\"]([^'\"]+)['\"]\]", r".\1", path)


def _code_of(provider: SourceProvider, context: Context) -> tuple[Path, str]:
    """The file and the function of a provider that is code.

    Raises:
        SourceError: It does not exist, or is not read.
    """
    match = _FILE.fullmatch(provider.id)
    if match is None:
        raise SourceError(f"{provider.id} names no file")
    path = context.repository.resolve(match["path"], context.base)
    if not path.is_file():
        raise SourceError(f"{context.repository.relative(path)} does not exist")
    return path, match["function"] or ""


def _safe_config(provider: SourceProvider, context: Context) -> dict[str, Any]:
    """The configuration of a code provider, without keys."""
    config: dict[str, Any] = {}
    for key, value in provider.config.items():
        text = value if isinstance(value, str) else ""
        is_variable = key.lower().endswith(_NO_SECRET) or ENVIRONMENT.search(text)
        if text and _SECRET.search(key) and not is_variable:
            if len(text) >= _SECRET_MIN:
                context.imported.secrets.add(text)
            note = f"the value of `{key}` was not copied; read it from the environment"
            context.note("manual", provider.place, note)
        else:
            config[key] = value
    return config


def target_of(
    provider: SourceProvider,
    name: str,
    prompt_input: str,
    context: Context,
    *,
    own_prompt: bool,
    names: Container[str],
) -> dict[str, JSON]:
    """The table of a target; code gets an adapter that calls it.

    Raises:
        SourceError: The code does not exist.
    """
    if provider.kind == "http":
        return _http_target(provider, context, names=names)
    timeout = provider.config.get("timeout")
    table: dict[str, JSON] = {}
    if isinstance(timeout, int | float) and timeout >= _MS:
        table["timeout_s"] = timeout / _MS
    module = re.sub(r"\W+", "_", name)
    if module.startswith("test_") or module.endswith("_test"):
        module = f"call_{module}_target"  # pytest collects files of such names
    if not context.base.is_relative_to(context.root):
        raise SourceError("its code is outside of this project; run the import in its repository")
    folder = context.base.relative_to(context.root).as_posix()
    options: dict[str, Any] = {
        "config": _safe_config(provider, context),
        "prompt_input": prompt_input,
        "own_prompt": own_prompt,
    }
    if provider.kind == "command":
        return {**_command(provider, module, folder, options, context), **table}
    file, function = _code_of(provider, context)
    place = context.refer(file, provider.place)
    if provider.kind == "python":
        code = PurePosixPath(place)
        if not re.fullmatch(r"[A-Za-z_]\w*", code.stem):
            raise SourceError(f"{place} has a name that Python does not import")
        text = _fill_adapter(
            "provider.py.txt",
            place,
            options,
            path=place,
            function=function or "call_api",
            folder=json.dumps(code.parent.as_posix()),
            module=code.stem,
        )
        context.imported.files.append(NewFile(path=f"evals/targets/{module}.py", text=text))
        context.note_packages(file, provider.place)
        note = f"evals/targets/{module}.py calls the provider"
        if names := _environment_of([file], context.repository):
            note += f", which reads the environment variables {', '.join(names)}"
        context.note("changed", provider.place, note)
        return {"kind": "python", "callable": f"evals.targets.{module}:call_provider", **table}
    path = f"evals/targets/{module}.mjs"
    loaded = f"./{place}"
    text = _fill_adapter(
        "provider.mjs.txt", loaded, options, path=loaded, path_json=json.dumps(loaded)
    )
    context.imported.files.append(NewFile(path=path, text=text))
    text = f"{path} calls the JavaScript provider with node, which needs the packages it loads"
    context.note("changed", provider.place, text)
    files = _loaded_files(file, context.repository)
    if typed := next((path for path in files if path.suffix in {".ts", ".mts"}), None):
        name = context.repository.relative(typed)
        text = f"{name} is TypeScript: node runs it from version 22.6; or put npx tsx in `argv`"
        context.note("manual", provider.place, text)
    argv = ["node", *(["--experimental-strip-types"] if typed else []), path]
    return {"kind": "command", "argv": argv, **_program(path, files, context, place), **table}


def _command(
    provider: SourceProvider,
    module: str,
    folder: str,
    options: Mapping[str, Any],
    context: Context,
) -> dict[str, JSON]:
    """The table of a command target, for a program that promptfoo starts.

    Raises:
        SourceError: It names no command, or its code is outside of the repository.
    """
    command = provider.id.removeprefix("exec:").strip()
    if not command:
        raise SourceError("it names no command")
    path = f"evals/targets/{module}.py"
    files: list[Path] = []
    for word in command.split():
        looks_like_file = re.match(r"\.{1,2}/|.*\.(?:py|sh|rb|[cm]?[jt]s)\Z", word)
        if looks_like_file and (context.base / word).is_file():
            program = context.repository.resolve(word, context.base)
            files += _loaded_files(program, context.repository)
        elif looks_like_file and not (context.base / word).exists():
            note = f"{word} of the command does not exist"
            context.note("manual", provider.place, note)
    text = _fill_adapter(
        "command.py.txt",
        f"exec:{command}",
        options,
        command=json.dumps(command),
        folder=json.dumps(folder),
    )
    context.imported.files.append(NewFile(path=path, text=text))
    note = f"{path} runs the command as promptfoo does; name what else it loads in `files`"
    context.note("changed", provider.place, note)
    argv: list[JSON] = ["python", path]
    return {"kind": "command", "argv": argv, **_program(path, files, context)}


def _program(adapter: str, files: list[Path], context: Context, *arguments: str) -> dict[str, JSON]:
    """The files of a program, and the variables of the environment that it may get."""
    below = [
        path.relative_to(context.root).as_posix()
        for path in files
        if path.is_relative_to(context.root)
    ]
    names = _environment_of(files, context.repository)
    table: dict[str, JSON] = {"files": [*dict.fromkeys([adapter, *arguments, *below])]}
    if names:
        table["env"] = [f"{name}?" for name in names]
    return table


# The files that a program loads and the environment variables it reads, found in its text.

_FILES_MAX: Final = 100
_SUFFIXES: Final = ("", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js", "/index.ts")
_IMPORT: Final = re.compile(
    r"(?:\bfrom|\bimport|\brequire\(|\bimport\()\s*[\"'](\.{1,2}/[^\"'\n]{1,500})[\"']"
)
_VARIABLE: Final = re.compile(
    r"process\.env(?:\.([A-Za-z_]\w*)|\[\s*[\"']([A-Za-z_]\w*)[\"']\s*\])"
    r"|os\.(?:environ(?:\.get)?|getenv)\s*[\[(]\s*[\"']([A-Za-z_]\w*)[\"']"
    r"|\$\{?([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)


def _loaded_files(file: Path, repository: SourceTree) -> list[Path]:
    """A file of JavaScript, and those of its repository that it imports, in their order."""
    files = [file]
    for path in files:
        for reference in _references(path, repository):
            if reference not in files and len(files) < _FILES_MAX:
                files.append(reference)
    return files


def _references(path: Path, repository: SourceTree) -> Iterator[Path]:
    for name in _IMPORT.findall(_text_of(path, repository)):
        for suffix in _SUFFIXES:
            try:
                loaded = repository.resolve(f"./{name}{suffix}", path.parent)
            except SourceError:
                continue
            if loaded.is_file() and "node_modules" not in loaded.parts:
                yield loaded
                break


def _text_of(path: Path, repository: SourceTree) -> str:
    """The text of a file; empty for a program that is no text."""
    try:
        return repository.read_text(path)
    except SourceError:
        return ""


def _environment_of(files: list[Path], repository: SourceTree) -> list[str]:
    """The environment variables that files read, as far as their text names them."""
    names: set[str] = set()
    for path in files:
        groups = _VARIABLE.findall(_text_of(path, repository))
        names.update(name for group in groups for name in group if name)
    return sorted(names - {"PATH", "HOME", "LANG", "NODE_ENV"})


def _fill_adapter(template: str, identifier: str, options: Mapping[str, Any], **values: str) -> str:
    """The text of an adapter that calls a provider.

    Args:
        template: The file of the adapter's template.
        identifier: The provider's id, for its own code.
        options: `config`, `prompt_input`, and `own_prompt`: whether the rendered prompt is a
            variable of the test.
        values: Further fields of the template.
    """
    adapter_config = {"id": identifier, "config": dict(options["config"])}
    prompt = json.dumps(options["prompt_input"])
    with_prompt = f"dict(variables, **{{{prompt}: prompt}})"
    text = files("regauge.importers.promptfoo").joinpath("templates", template).read_text("utf-8")
    return text.format(
        config=json.dumps(adapter_config, ensure_ascii=False, default=str),
        prompt_input=prompt,
        variables=with_prompt if options["own_prompt"] else "variables",
        others="inputs" if options["own_prompt"] else "others",
        **values,
    )
