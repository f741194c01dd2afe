"""Targets of providers that are endpoints, programs and code; an import runs none of them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.importers._source import SourceError
from regauge.importers.promptfoo._models import ENVIRONMENT, SECRET_MIN, without_environment
from regauge.recordings import map_texts
from regauge.scaffold import NewFile
from regauge.strict_json import mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._source import SourceTree
    from regauge.importers.promptfoo._context import Context
    from regauge.importers.promptfoo._providers import SourceProvider

_MS: Final = 1000
_FILE: Final = re.compile(r"(?:file://|python:)?(?P<path>.+?\.\w+)(?::(?P<function>\w+))?\Z")
_SECRET: Final = re.compile(
    r"key|token|secret|password|passwd|authorization|credential|cookie", re.IGNORECASE
)
_JSON_PATH: Final = re.compile(
    r"(?:\(?\s*\(?\s*(?:json|data|response|res|r|output)\s*(?:,[^)]*)?\)?\s*=>\s*)?\(?\s*"
    r"(?:json|data|response|res|r)"
    r"(?P<path>(?:\??\.?\[(?:\d+|'[^']+'|\"[^\"]+\")\]|\??\.[A-Za-z_$][\w$]*)+)\s*\)?\s*;?"
)
_SLOT: Final = re.compile(r"\{\{\s*(?P<path>(?P<root>\w+)(?:\.\w+)*)\s*(?:\|[^}]*)?\}\}")
_UNSUPPORTED: Final = (
    "request", "session", "sessionParser", "auth", "signatureAuth", "transformRequest", "tls",
    "queryParams",
)  # fmt: skip


def _http_target(provider: SourceProvider, names: Container[str]) -> dict[str, JSON]:
    """The table of a target for an HTTP provider.

    Args:
        names: The inputs of its cases.
    """
    config, context = provider.config, provider.context
    address = provider.id if "://" in provider.id else str(config.get("url") or "")
    slots = _slots(provider.context, names)
    url = slots(without_environment(address, context))
    if not re.match(r"https?://[^/{]", url):
        context.note("manual", "the URL of the HTTP provider is not complete; correct `url`")
        url = f"http://127.0.0.1:9/{url.partition('://')[2] or url}"
    table: dict[str, JSON] = {"kind": "http", "url": url}
    default = "POST" if config.get("body") is not None else "GET"
    method = str(config.get("method") or default).upper()
    if method not in {"GET", "POST", "PUT", "PATCH"}:
        context.note("manual", f"the method {method} has no counterpart; the target uses POST")
    elif method != "POST":
        table["method"] = method
    if headers := _headers(config, context):
        table["headers_env"] = headers
    body = _json_body(config.get("body"), context, slots)
    if body is not None:
        table["body"] = body
    parser = config.get("transformResponse", config.get("responseParser"))
    if parser is not None:
        path = json_path(str(parser))
        if path:
            table["text"] = path
        else:
            text = "`transformResponse` is code that is not run; set `text` of the target"
            context.note("manual", text)
    for key in _UNSUPPORTED:
        if config.get(key):
            context.note("manual", f"`{key}` of the HTTP provider has no counterpart")
    return table


def _slots(context: Context, names: Container[str]) -> Callable[[str], str]:
    """Return a function that converts slots of a text for a target; unknown ones become empty."""

    def slot(match: re.Match[str]) -> str:
        if match["root"] in names:
            return f"{{{{{match['path']}}}}}"
        context.note("manual", f"the request inserts {match[0]}, which no test has; it is empty")
        return ""

    return lambda text: _SLOT.sub(slot, text)


def _headers(config: Mapping[str, Any], context: Context) -> dict[str, JSON]:
    """The environment variables of headers; values are not copied."""
    headers = config.get("headers")
    names: dict[str, JSON] = {}
    for header, value in mapping_of(headers).items():
        if header.lower() in {"content-type", "accept", "content-length"}:
            continue
        match = ENVIRONMENT.fullmatch(str(value).strip())
        name = (match["name"] or match["shell"]) if match else re.sub(r"\W+", "_", header).upper()
        names[header] = name
        if match:
            continue
        if _SECRET.search(header):
            words = str(value).split()
            context.imported.secrets.update(
                word for word in words if len(word) >= SECRET_MIN and "{{" not in word
            )
        text = (
            f"the value of the header {header} was not copied; set the environment variable {name}"
        )
        context.note("manual", text)
    return names


def _json_body(body: Any, context: Context, slots: Callable[[str], str]) -> JSON:
    """The body as JSON with converted slots; None if it is not JSON."""
    if isinstance(body, str):
        quoted = re.sub(
            r"(?<![\"\w])\{\{\s*(\w+)\s*(?:\|\s*dump)?\s*\}\}(?![\"\w])", r'"{{\1}}"', body
        )
        try:
            body = json.loads(quoted)
        except ValueError:
            context.note("manual", "the body is not JSON; the target sends all inputs instead")
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


def _safe_config(provider: SourceProvider) -> dict[str, Any]:
    """The configuration of a code provider, without keys."""
    config: dict[str, Any] = {}
    for key, value in provider.config.items():
        text = value if isinstance(value, str) else ""
        is_variable = key.lower().endswith(("tokens", "envar", "env")) or ENVIRONMENT.search(text)
        if text and _SECRET.search(key) and not is_variable:
            if len(text) >= SECRET_MIN:
                provider.context.imported.secrets.add(text)
            note = f"the value of `{key}` was not copied; read it from the environment"
            provider.context.note("manual", note)
        else:
            config[key] = value
    return config


def target_of(
    provider: SourceProvider,
    name: str,
    prompt_input: str,
    *,
    own_prompt: bool,
    names: Container[str],
) -> dict[str, JSON]:
    """The table of a target; code gets an adapter that calls it.

    Args:
        prompt_input: The input with the rendered prompt.
        own_prompt: Whether the rendered prompt is a variable of the test.
        names: The inputs of its cases.

    Raises:
        SourceError: The code does not exist, or is outside of the project.
    """
    if provider.kind == "http":
        return _http_target(provider, names)
    adapter = _Adapter(provider, name, prompt_input, own_prompt=own_prompt)
    write = {"command": adapter.command, "python": adapter.python}
    table = write.get(provider.kind, adapter.javascript)()
    timeout = provider.config.get("timeout")
    if isinstance(timeout, int | float) and timeout >= _MS:
        table["timeout_s"] = timeout / _MS
    return table


class _Adapter:
    """A file that calls a provider that is code or a program, for a target.

    Raises:
        SourceError: The configuration is outside of the project.
    """

    def __init__(
        self,
        provider: SourceProvider,
        name: str,
        prompt_input: str,
        *,
        own_prompt: bool,
    ) -> None:
        self._provider = provider
        self._prompt = json.dumps(prompt_input)
        self._own_prompt = own_prompt
        self._context = context = provider.context
        self._module = re.sub(r"\W+", "_", name)
        if self._module.startswith("test_") or self._module.endswith("_test"):
            # pytest collects files of such names.
            self._module = f"call_{self._module}_target"
        if not context.base.is_relative_to(context.root):
            problem = "its code is outside of this project; run the import in its repository"
            raise SourceError(problem)
        self._config = _safe_config(provider)

    def command(self) -> dict[str, JSON]:
        """The table of a command target, for a program that promptfoo starts.

        Raises:
            SourceError: It names no command, or its code is outside of the repository.
        """
        context = self._context
        command = self._provider.id.removeprefix("exec:").strip()
        if not command:
            raise SourceError("it names no command")
        program_files: list[Path] = []
        for word in command.split():
            looks_like_file = re.match(r"\.{1,2}/|.*\.(?:py|sh|rb|[cm]?[jt]s)\Z", word)
            if looks_like_file and (context.base / word).is_file():
                program = context.repository.resolve(word, context.base)
                program_files += _loaded_files(program, context.repository)
            elif looks_like_file and not (context.base / word).exists():
                self._context.note("manual", f"{word} of the command does not exist")
        folder = context.base.relative_to(context.root).as_posix()
        path = self._write(
            ".py",
            "command.py.txt",
            f"exec:{command}",
            command=json.dumps(command),
            folder=json.dumps(folder),
        )
        text = f"{path} runs the command as promptfoo does; name what else it loads in `files`"
        self._context.note("changed", text)
        return self._program(["python", path], program_files)

    def python(self) -> dict[str, JSON]:
        """The table of a target that is a function of a Python file.

        Raises:
            SourceError: The file does not exist, is not read, or cannot be imported.
        """
        context = self._context
        file, function = self._code()
        place = context.refer(file)
        code = PurePosixPath(place)
        if not re.fullmatch(r"[A-Za-z_]\w*", code.stem):
            raise SourceError(f"{place} has a name that Python does not import")
        path = self._write(
            ".py",
            "provider.py.txt",
            place,
            path=place,
            function=function or "call_api",
            folder=json.dumps(code.parent.as_posix()),
            module=code.stem,
        )
        context.note_packages(file)
        text = f"{path} calls the provider"
        if names := _environment_of([file], context.repository):
            text += f", which reads the environment variables {', '.join(names)}"
        self._context.note("changed", text)
        return {"kind": "python", "callable": f"evals.targets.{self._module}:call_provider"}

    def javascript(self) -> dict[str, JSON]:
        """The table of a command target, for a JavaScript file that node loads.

        Raises:
            SourceError: The file does not exist, or is not read.
        """
        file, _ = self._code()
        place = self._context.refer(file)
        loaded = f"./{place}"
        path = self._write(
            ".mjs", "provider.mjs.txt", loaded, path=loaded, path_json=json.dumps(loaded)
        )
        text = f"{path} calls the JavaScript provider with node, which needs the packages it loads"
        self._context.note("changed", text)
        loaded_files = _loaded_files(file, self._context.repository)
        options: list[str] = []
        if typed := next((path for path in loaded_files if path.suffix in {".ts", ".mts"}), None):
            options = ["--experimental-strip-types"]
            name = self._context.repository.relative(typed)
            text = f"{name} is TypeScript: node runs it from version 22.6; or put npx tsx in `argv`"
            self._context.note("manual", text)
        return self._program(["node", *options, path], loaded_files, place)

    def _code(self) -> tuple[Path, str]:
        """The file and the function of the provider.

        Raises:
            SourceError: It does not exist, or is not read.
        """
        context = self._context
        match = _FILE.fullmatch(self._provider.id)
        if match is None:
            raise SourceError(f"{self._provider.id} names no file")
        path = context.repository.resolve(match["path"], context.base)
        if not path.is_file():
            raise SourceError(f"{context.repository.relative(path)} does not exist")
        return path, match["function"] or ""

    def _write(self, suffix: str, template: str, identifier: str, **values: str) -> str:
        """Add the file, and return its path.

        Args:
            suffix: The suffix of the file.
            template: The file of its template.
            identifier: The provider's id, for its own code.
            values: Further fields of the template.
        """
        config = {"id": identifier, "config": self._config}
        with_prompt = f"dict(variables, **{{{self._prompt}: prompt}})"
        source = files("regauge.importers.promptfoo").joinpath("templates", template)
        text = source.read_text("utf-8").format(
            config=json.dumps(config, ensure_ascii=False, default=str),
            prompt_input=self._prompt,
            variables=with_prompt if self._own_prompt else "variables",
            others="inputs" if self._own_prompt else "others",
            **values,
        )
        path = f"evals/targets/{self._module}{suffix}"
        self._context.imported.files.append(NewFile(path=path, text=text))
        return path

    def _program(self, argv: list[str], files: list[Path], *additional: str) -> dict[str, JSON]:
        """The table of a program with its files, and the variables that it may get."""
        root = self._context.root
        below = [path.relative_to(root).as_posix() for path in files if path.is_relative_to(root)]
        table: dict[str, JSON] = {
            "kind": "command",
            "argv": argv,
            "files": [*dict.fromkeys([argv[-1], *additional, *below])],
        }
        if names := _environment_of(files, self._context.repository):
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
    """The text of a file; empty for a program that is not text."""
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
