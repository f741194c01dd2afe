"""Models of providers: their ids, endpoints, keys and parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from regauge.errors import InvalidFileError
from regauge.importers._description import slug
from regauge.importers._source import (
    SourceError,
    is_list,
    is_mapping,
    list_of,
    mapping_of,
    place_of,
    placed,
)
from regauge.providers.remote import load_gaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.importers._description import SourcePlace
    from regauge.importers.promptfoo._context import Context


class _Endpoint(NamedTuple):
    """The endpoint of a provider.

    Attributes:
        name: The name of its table; by default the provider's.
    """

    url: str = ""
    key_env: str = ""
    name: str = ""


# OpenAI-compatible endpoints from their documentation.
_ENDPOINTS: Final[Mapping[str, _Endpoint]] = {
    "openai": _Endpoint(),
    "anthropic": _Endpoint(),
    "openrouter": _Endpoint("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "ollama": _Endpoint("http://127.0.0.1:11434/v1"),
    "google": _Endpoint(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "gemini"
    ),
    "groq": _Endpoint("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": _Endpoint("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": _Endpoint("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together": _Endpoint("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": _Endpoint("https://api.x.ai/v1", "XAI_API_KEY"),
    "perplexity": _Endpoint("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "fireworks": _Endpoint("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "cerebras": _Endpoint("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "github": _Endpoint("https://models.github.ai/inference", "GITHUB_TOKEN"),
    "huggingface": _Endpoint("https://router.huggingface.co/v1", "HF_TOKEN"),
    "cohere": _Endpoint("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "deepinfra": _Endpoint("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "nvidia": _Endpoint("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "alibaba": _Endpoint(
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    "moonshot": _Endpoint("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "litellm": _Endpoint("http://127.0.0.1:4000/v1", "LITELLM_API_KEY"),
    "localai": _Endpoint("http://127.0.0.1:8080/v1"),
    "lmstudio": _Endpoint("http://127.0.0.1:1234/v1"),
    "llamafile": _Endpoint("http://127.0.0.1:8080/v1"),
    "llama": _Endpoint("http://127.0.0.1:8080/v1"),
    "vllm": _Endpoint("http://127.0.0.1:8000/v1"),
    "docker": _Endpoint("http://127.0.0.1:12434/engines/v1"),
    "azure": _Endpoint(key_env="AZURE_API_KEY"),
    "vertex": _Endpoint(),
    "bedrock": _Endpoint(key_env="AWS_BEARER_TOKEN_BEDROCK"),
}
_MODES: Final = ("chat", "completion", "completions", "messages", "responses", "converse")
# Providers of models that are written without one, by prefix of the model.
_BARE: Final = {
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude-": "anthropic",
    "gemini-": "google",
}
_OTHER: Final = (
    "assistant", "embedding", "embeddings", "image", "realtime", "transcription", "speech",
    "moderation", "tts", "video", "codex-sdk", "codex-app-server", "claude-agent-sdk",
    "claude-code", "agents", "live", "chatkit",
)  # fmt: skip
# Providers that a model can replace: agents by their vendor, and vendors of models.
_AGENTS: Final = (
    "codex-sdk", "codex-app-server", "claude-agent-sdk", "claude-code", "agents", "chatkit",
)  # fmt: skip
_VENDORS: Final = (
    "adaline", "ai21", "aimlapi", "bam", "cloudflare-ai", "cloudflare-gateway", "databricks",
    "envoy", "helicone", "hyperbolic", "ibm", "jfrog", "llama.cpp", "nscale", "portkey",
    "replicate", "sagemaker", "sambanova", "snowflake", "text-generation-webui", "watsonx",
)  # fmt: skip
_SAME: Final = {
    "openai-responses": "openai",
    "azureopenai": "azure",
    "palm": "google",
    "togetherai": "together",
}
_HOME_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_CLOUDS: Final = {
    "azure": "the endpoint of Azure is missing; write base_url in [tool.regauge.providers.azure]",
    "vertex": "models of Vertex need the project and a command that prints a token",
    "bedrock": "models of Bedrock need a bearer token, and a name that its OpenAI endpoint knows",
}
_PARAMETERS: Final = {
    "temperature": "temperature",
    "max_tokens": "maxTokens",
    "maxTokens": "maxTokens",
    "max_completion_tokens": "maxTokens",
    "max_output_tokens": "maxTokens",
    "maxOutputTokens": "maxTokens",
    "num_predict": "maxTokens",
    "top_p": "topP",
    "topP": "topP",
    "seed": "seed",
    "stop": "stop",
    "stop_sequences": "stop",
    "stopSequences": "stop",
    "presence_penalty": "presencePenalty",
    "presencePenalty": "presencePenalty",
    "frequencyPenalty": "frequencyPenalty",
    "frequency_penalty": "frequencyPenalty",
    "reasoning_effort": "reasoningEffort",
}
_SILENT: Final = frozenset(
    {
        "apiKey", "apiKeyEnvar", "apiBaseUrl", "apiHost", "apiVersion", "baseUrl", "base_url",
        "showThinking", "cost", "inputCost", "outputCost", "organization", "timeout", "maxRetries",
        "api_key", "functions", "tools", "tool_choice", "toolChoice", "response_format",
        "responseFormat", "reasoning", "apiKeyRequired", "generationConfig", "env", "model",
        "deployment_id", "projectId", "region", "transform",
    }
)  # fmt: skip
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
    name = body.get("id")
    if not isinstance(name, str):
        return ""
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
    endpoint = _ENDPOINTS.get(family)
    if endpoint is None or not model or "{{" in model or " " in model:
        return ""
    table: dict[str, JSON] = {}
    table_name = endpoint.name or family
    if mode == "responses" and family in {"openai", "azure"}:
        table_name, table["api"] = f"{table_name}-responses", "responses"
    url = _url(family, config, context, place)
    if url and family == "anthropic":
        table["api"] = "anthropic"
    if url and family in {"openai", "anthropic"}:
        table_name = f"{table_name}-{_host_name(url)}"
    if url or endpoint.url:
        table["base_url"] = url or endpoint.url
    elif family in _CLOUDS:
        table.update(_cloud(family, config, context, place))
    home_key = _HOME_KEYS.get(family, "")
    key = _key_name(config, endpoint.key_env or home_key, context, place)
    if key and (table or key != home_key) and "api_key_command" not in table:
        table["api_key_env"] = key
    return f"{_declare(table_name, table, context) if table else table_name}:{model}"


def replaced_by_model(name: str, config: Mapping[str, Any]) -> str:
    """The model that replaces an agent; `own` for the project's model, empty for none."""
    family, _, mode = name.partition(":")
    if family in {"openai", "anthropic"} and mode.partition(":")[0] in _AGENTS:
        model = config.get("model")
        return f"{family}:{model}" if isinstance(model, str) and model else "own"
    is_model = family in _VENDORS or (_SAME.get(family, family) in _ENDPOINTS and not mode)
    return "own" if is_model else ""


def _parts(
    name: str, config: Mapping[str, Any], context: Context, place: SourcePlace
) -> tuple[str, str, str]:
    """The family, mode and model of a provider's id; an empty model if it is none."""
    family, _, rest = name.partition(":")
    if not rest:
        family = next((vendor for begin, vendor in _BARE.items() if name.startswith(begin)), name)
        rest = name if family != name else ""
        if rest:
            context.note("changed", place, f"{name} names no provider; {family} serves it")
    mode, _, model = rest.partition(":")
    if mode not in _MODES:
        mode, model = ("", "") if mode in _OTHER else ("chat", rest)
    if not model and mode:
        model = str(config.get("model") or config.get("deployment_id") or "")
    return _SAME.get(family, family), mode, model


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
    vendor = {"https://api.openai.com/v1", "https://api.anthropic.com", _ENDPOINTS[family].url}
    return "" if url in vendor else url


def _cloud(
    family: str, config: Mapping[str, Any], context: Context, place: SourcePlace
) -> dict[str, JSON]:
    """The endpoint of a cloud, with placeholders for names that no configuration has."""
    context.note("manual", place, _CLOUDS[family])
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
    parameters: dict[str, JSON] = {}
    for key, value in flat.items():
        name = _PARAMETERS.get(key)
        if name is not None and isinstance(value, str) == (name == "reasoningEffort"):
            parameters.setdefault(name, value)
    effort = mapping_of(flat.get("reasoning")).get("effort")
    if isinstance(effort, str):
        parameters["reasoningEffort"] = effort
    ignored = sorted(key for key in flat if key not in _PARAMETERS and key not in _SILENT)
    if ignored:
        context.note("dropped", place, f"settings of the provider: {', '.join(ignored)}")
    document: dict[str, JSON] = {"modelParameters": parameters} if parameters else {}
    response_format = flat.get("response_format", flat.get("responseFormat"))
    document.update(_response_format(response_format, context, place))
    if tools := _tools(flat.get("tools") or flat.get("functions"), context, place):
        document["tools"] = tools
        document.update(_tool_choice(flat.get("tool_choice", flat.get("toolChoice"))))
    return document


def _tool_choice(choice: Any) -> dict[str, JSON]:
    if is_mapping(choice):
        choice = mapping_of(choice.get("function")).get("name")
    return {"toolChoice": choice} if isinstance(choice, str) else {}


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
        return {}
    return {"responseFormat": kind} if kind in {"json_object", "text"} else {}


def _tools(value: Any, context: Context, place: SourcePlace) -> list[JSON]:
    value = _load(value, context, place)
    loaded = [_load(item, context, place) for item in list_of(value)]
    items = [part for item in loaded for part in (item if is_list(item) else [item])]
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
