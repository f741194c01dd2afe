"""Models of providers: their ids, endpoints, keys and parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import InvalidFileError
from regauge.importers._description import slug
from regauge.importers._source import SourceError
from regauge.lexicon import Lexicon
from regauge.strict_json import as_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context

LEXICON: Final = Lexicon("regauge.importers.promptfoo")
ENVIRONMENT: Final = re.compile(
    r"\{\{-?\s*env\.(?P<name>\w+)\s*(?:\|\s*default\(\s*['\"](?P<default>[^'\"]*)['\"][^)]*\))?\s*"
    r"-?\}\}|\$\{(?P<shell>\w+)(?::-(?P<other>[^}]*))?\}"
)
_CODE: Final = re.compile(r"(?:file://|python:|exec:).*|.*\.(?:py|[cm]?js|[cm]?ts)(?::\w+)?")
_URL_KEYS: Final = ("apiBaseUrl", "baseUrl", "base_url", "baseURL")
# A copied key is masked wherever its text occurs, so a short one could be an ordinary word. Lower
# masks shorter keys and more words. Chosen by hand; tests pass with 6 and with 12.
SECRET_MIN: Final = 8


def is_code(name: str) -> bool:
    """Return whether a provider is a program."""
    return _CODE.fullmatch(name) is not None


def without_environment(text: str, context: Context) -> str:
    """Replace environment variables in a text by their defaults."""

    def default(match: re.Match[str]) -> str:
        name = match["name"] or match["shell"]
        value = match["default"] or match["other"] or ""
        replacement = value or "nothing"
        note = f"the environment variable {name} is not read; {replacement!r} replaces it"
        context.note("changed", note)
        return value

    return ENVIRONMENT.sub(default, text)


def model_of(value: object, context: Context) -> str:
    """The model id of a grader; empty if it is not a model."""
    body = value if is_mapping(value) else {"id": value}
    name = str(body.get("id"))
    if label := context.imported.labels.get(name):
        return label
    settings = mapping_of(body.get("config"))
    full_name = "" if is_code(name) else without_environment(name, context)
    model = model_id(full_name, settings, context) if full_name else ""
    if not model:
        problem = "is code" if is_code(name) else "has no counterpart"
        context.note("manual", f"the grader {name} {problem}; the project's judge model grades")
    return model


def model_id(name: str, config: Mapping[str, Any], context: Context) -> str:
    """The id of a model; empty for none. Its endpoint becomes a table of the settings."""
    family, mode, model = _parts(name, config, context)
    endpoint: Mapping[str, str] | None = LEXICON.entry("endpoints").get(family)
    if endpoint is None or not model or "{{" in model or " " in model:
        return ""
    table: dict[str, JSON] = {}
    table_name = endpoint.get("name", family)
    if mode == "responses" and family in {"openai", "azure"}:
        table_name, table["api"] = f"{table_name}-responses", "responses"
    url = _url(family, config, context)
    if url and family == "anthropic":
        table["api"] = "anthropic"
    if url and family in {"openai", "anthropic"}:
        table_name = f"{table_name}-{_host_name(url)}"
    if url or "url" in endpoint:
        table["base_url"] = url or endpoint["url"]
    elif family in LEXICON.entry("clouds"):
        table.update(_cloud(family, config, context))
    home_key = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}.get(family, "")
    key = _key_name(config, endpoint.get("key_env", home_key), context)
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


def _parts(name: str, config: Mapping[str, Any], context: Context) -> tuple[str, str, str]:
    """The family, mode and model of a provider's id; an empty model if it is none."""
    family, _, rest = name.partition(":")
    if not rest:
        bare = LEXICON.entry("bare").items()
        family = next((vendor for begin, vendor in bare if name.startswith(begin)), name)
        rest = name if family != name else ""
        if rest:
            context.note("changed", f"{name} names no provider; {family} serves it")
    mode, _, model = rest.partition(":")
    if mode not in LEXICON.words("modes"):
        mode, model = ("", "") if mode in LEXICON.words("other_modes") else ("chat", rest)
    if not model and mode:
        model = str(config.get("model") or config.get("deployment_id") or "")
    return LEXICON.entry("same").get(family, family), mode, model


def _url(family: str, config: Mapping[str, Any], context: Context) -> str:
    """The URL of an endpoint that is not the vendor's; empty for the vendor's."""
    address = next((config[key] for key in _URL_KEYS if isinstance(config.get(key), str)), "")
    host = config.get("apiHost")
    if not address and isinstance(host, str) and host:
        suffix = "/openai/v1" if family == "azure" else "/v1"
        address = f"{host if '://' in host else f'https://{host}'}".rstrip("/") + suffix
    url = re.sub(r"[?#].*", "", without_environment(address, context)).rstrip("/")
    if "@" in url.partition("//")[2].partition("/")[0]:
        context.note("manual", "the URL holds a user or password, which was not copied")
        url = re.sub(r"//[^/]*@", "//", url)
    if url and not re.match(r"https?://[^/]", url):
        context.note("manual", "the URL of the endpoint is not complete; write base_url")
        return "http://127.0.0.1:9/v1"
    vendor = {"https://api.openai.com/v1", "https://api.anthropic.com"}
    return "" if url in {*vendor, LEXICON.entry("endpoints")[family].get("url", "")} else url


def _cloud(family: str, config: Mapping[str, Any], context: Context) -> dict[str, JSON]:
    """The endpoint of a cloud, with placeholders for names that no configuration has."""
    context.note("manual", LEXICON.entry("clouds")[family])
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


def _key_name(config: Mapping[str, Any], default: str, context: Context) -> str:
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
    if len(key) >= SECRET_MIN:
        context.imported.secrets.add(key)
    note = f"a key is in the file; it was not copied. Set the environment variable {name}"
    context.note("manual", note)
    return name


def prompt_parameters(config: Mapping[str, Any], context: Context) -> dict[str, JSON]:
    """The keys of a prompt file for the configuration of a model."""
    flat = dict(config)
    contexts = {key: context.locate(config, key) for key in config}
    for nested in ("generationConfig", "options", "passthrough"):
        inner = flat.pop(nested, None)
        if is_mapping(inner):
            flat = {**inner, **flat}
            contexts |= {key: contexts[nested].locate(inner, key) for key in inner}
    names: Mapping[str, str] = LEXICON.entry("parameters")
    parameters: dict[str, JSON] = {}
    for key, value in flat.items():
        name = names.get(key)
        if name is not None and isinstance(value, str) == (name == "reasoningEffort"):
            parameters.setdefault(name, value)
    effort = mapping_of(flat.get("reasoning")).get("effort")
    if isinstance(effort, str):
        parameters["reasoningEffort"] = effort
    for key in [key for key in flat if key not in names and key not in LEXICON.words("silent")]:
        contexts[key].note("dropped", f"setting of the provider: {key}")
    document: dict[str, JSON] = {"modelParameters": parameters} if parameters else {}
    response_format = flat.get("response_format", flat.get("responseFormat"))
    document.update(_response_format(response_format, context))
    if tools := _tools(flat.get("tools") or flat.get("functions"), context):
        document["tools"] = tools
        choice = flat.get("tool_choice", flat.get("toolChoice"))
        if is_mapping(choice):
            choice = mapping_of(choice.get("function")).get("name")
        if isinstance(choice, str):
            document["toolChoice"] = choice
    return document


def _load(value: Any, context: Context) -> Any:
    """A value, or the content of the file that it names."""
    if isinstance(value, str) and value.startswith("file://"):
        try:
            return context.repository.read_yaml(context.repository.resolve(value, context.base))
        except (SourceError, InvalidFileError) as error:
            context.note("manual", f"not imported: {error}")
            return None
    return value


def _response_format(value: Any, context: Context) -> dict[str, JSON]:
    loaded = mapping_of(_load(value, context))
    kind = str(loaded.get("type"))
    if kind == "json_schema":
        schema = _load(loaded.get("json_schema", loaded.get("schema")), context)
        if is_mapping(schema):
            return {"responseFormat": "json_schema", "jsonSchema": cast("JSON", schema)}
    return {"responseFormat": kind} if kind in {"json_object", "text"} else {}


def _tools(value: Any, context: Context) -> list[JSON]:
    value = _load(value, context)
    loaded = [_load(item, context) for item in list_of(value)]
    items = [part for item in loaded for part in as_list(item)]
    tools = [tool for item in items if (tool := _tool(item))]
    if len(tools) < len(items):
        context.note("dropped", "a tool of the vendor is not offered to the model")
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
