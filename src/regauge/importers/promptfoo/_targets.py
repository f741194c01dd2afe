"""Targets of providers that are endpoints, programs and code; an import runs none of them."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.importers._source import SourceError, mapping_of
from regauge.importers.promptfoo._models import ENVIRONMENT, without_environment
from regauge.recordings import map_texts
from regauge.scaffold import NewFile

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._source import SourceTree
    from regauge.importers.promptfoo._context import Context
    from regauge.importers.promptfoo._models import SourceProvider

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
_SECRET_MIN: Final = 8
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
            _PYTHON,
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
    text = _fill_adapter(_JAVASCRIPT, loaded, options, path=loaded, path_json=json.dumps(loaded))
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
        _COMMAND,
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
    try:
        names = _IMPORT.findall(repository.read_text(path))
    except SourceError:
        return
    for name in names:
        for suffix in _SUFFIXES:
            try:
                loaded = repository.resolve(f"./{name}{suffix}", path.parent)
            except SourceError:
                continue
            if loaded.is_file() and "node_modules" not in loaded.parts:
                yield loaded
                break


def _environment_of(files: list[Path], repository: SourceTree) -> list[str]:
    """The environment variables that files read, as far as their text names them."""
    names: set[str] = set()
    for path in files:
        try:
            text = repository.read_text(path)
        except SourceError:
            continue
        names.update(name for groups in _VARIABLE.findall(text) for name in groups if name)
    return sorted(names - {"PATH", "HOME", "LANG", "NODE_ENV"})


# Programs that call providers as promptfoo does.

_PYTHON = '''\
"""Calls {function} of {path}, a Python provider of promptfoo."""

import asyncio
import inspect
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / {folder}))

import {module} as provider

OPTIONS = json.loads({config!r})


def call_provider(case):
    variables = dict(case.inputs)
    prompt = variables.pop({prompt_input})
    context = {{"vars": {variables}}}
    response = provider.{function}(prompt, OPTIONS, context)
    if inspect.isawaitable(response):
        response = asyncio.run(response)
    if response.get("error"):
        raise RuntimeError(str(response["error"]))
    output = response.get("output")
    return {{"text": output if isinstance(output, str) else json.dumps(output)}}
'''

_JAVASCRIPT = """\
// Calls {path}, a JavaScript provider of promptfoo, with the inputs of a case.
import {{ readFileSync }} from "node:fs";
import {{ pathToFileURL }} from "node:url";

process.on("uncaughtException", (error) => {{
  console.error(String(error));
  process.exit(1);
}});

const options = {config};
const inputs = JSON.parse(readFileSync(0, "utf8"));
const {{ [{prompt_input}]: prompt, ...others }} = inputs;
const vars = {others};
console.log = console.error;
const loaded = await import(pathToFileURL({path_json}));
let provider = loaded.default?.default ?? loaded.default ?? loaded;
if (typeof provider === "function" && provider.prototype?.callApi) {{
  provider = new provider({{ id: {path_json}, ...options }});
}}
const call = typeof provider === "function" ? provider : provider.callApi.bind(provider);
const response = await call(prompt, {{ vars, prompt: {{ raw: prompt, label: prompt }} }}, options);
const result = typeof response === "string" ? {{ output: response }} : response;
if (result.error) {{
  console.error(result.error);
  process.exit(1);
}}
const {{ output }} = result;
const text = typeof output === "string" ? output : JSON.stringify(output);
process.stdout.write(JSON.stringify({{ text }}), () => process.exit(0));
"""

_COMMAND = '''\
"""Runs a command with the prompt as its last argument but two, as promptfoo does."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = {command}
OPTIONS = json.loads({config!r})

variables = json.load(sys.stdin)
prompt = variables.pop({prompt_input})
context = {{"vars": {variables}}}
words = shlex.split(COMMAND)
try:
    done = subprocess.run(
        [*words, prompt, json.dumps(OPTIONS), json.dumps(context)],
        cwd=ROOT / {folder},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
except OSError as error:
    sys.exit(f"{{words[0]}} cannot be started: {{error.strerror}}")
if done.returncode:
    sys.exit(done.returncode)
sys.stdout.write(json.dumps({{"text": done.stdout.strip()}}))
'''


def _fill_adapter(template: str, identifier: str, options: Mapping[str, Any], **values: str) -> str:
    """The text of an adapter that calls a provider.

    Args:
        identifier: The provider's id, for its own code.
        options: `config`, `prompt_input`, and `own_prompt`: whether the rendered prompt is a
            variable of the test.
        values: Further fields of the template.
    """
    adapter_config = {"id": identifier, "config": dict(options["config"])}
    prompt = json.dumps(options["prompt_input"])
    with_prompt = f"dict(variables, **{{{prompt}: prompt}})"
    return template.format(
        config=json.dumps(adapter_config, ensure_ascii=False, default=str),
        prompt_input=prompt,
        variables=with_prompt if options["own_prompt"] else "variables",
        others="inputs" if options["own_prompt"] else "others",
        **values,
    )
