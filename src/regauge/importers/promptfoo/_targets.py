"""Targets of providers that are endpoints, programs and code."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.importers._source import SourceError, is_list, is_mapping, mapping_of
from regauge.importers.promptfoo._models import ENVIRONMENT, without_environment

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context
    from regauge.importers.promptfoo._providers import SourceProvider

__all__ = ["code_of", "http_target", "json_path", "safe_config"]

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
_PLAIN_HEADERS: Final = ("content-type", "accept", "content-length")
_UNSUPPORTED: Final = (
    "request",
    "session",
    "sessionParser",
    "auth",
    "signatureAuth",
    "transformRequest",
    "tls",
    "queryParams",
)
_SECRET_MIN: Final = 8
_METHODS: Final = ("GET", "POST", "PUT", "PATCH")


def http_target(provider: SourceProvider, context: Context) -> dict[str, JSON]:
    """The table of a target for an HTTP provider."""
    config, place = provider.config, provider.place
    given = provider.id if "://" in provider.id else str(config.get("url") or "")
    url = _plain_slots(without_environment(given, context, place))
    if not re.match(r"https?://[^/{]", url):
        context.note("person", place, "the URL of the HTTP provider is not complete; correct `url`")
        url = f"http://127.0.0.1:9/{url.partition('://')[2] or url}"
    table: dict[str, JSON] = {"kind": "http", "url": url}
    default = "POST" if config.get("body") is not None else "GET"
    method = str(config.get("method") or default).upper()
    if method not in _METHODS:
        context.note(
            "person", place, f"the method {method} has no counterpart; the target uses POST"
        )
    elif method != "POST":
        table["method"] = method
    if headers := _headers(provider, context):
        table["headers_env"] = headers
    body = _json_body(config.get("body"), provider, context)
    if body is not None:
        table["body"] = body
    parser = config.get("transformResponse", config.get("responseParser"))
    if parser is not None:
        path = json_path(str(parser))
        if path:
            table["text"] = path
        else:
            why = "`transformResponse` is code that is not run; set `text` of the target"
            context.note("person", place, why)
    for key in _UNSUPPORTED:
        if config.get(key):
            context.note("person", place, f"`{key}` of the HTTP provider has no counterpart")
    return table


def _headers(provider: SourceProvider, context: Context) -> dict[str, JSON]:
    """The environment variables of headers, whose values are not copied."""
    given = provider.config.get("headers")
    names: dict[str, JSON] = {}
    for header, value in mapping_of(given).items():
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
        why = (
            f"the value of the header {header} was not copied; set the environment variable {name}"
        )
        context.note("person", provider.place, why)
    return names


def _json_body(body: Any, provider: SourceProvider, context: Context) -> JSON:
    """The body as JSON with plain slots; None where it is no JSON."""
    if isinstance(body, str):
        quoted = re.sub(
            r"(?<![\"\w])\{\{\s*(\w+)\s*(?:\|\s*dump)?\s*\}\}(?![\"\w])", r'"{{\1}}"', body
        )
        try:
            body = json.loads(quoted)
        except ValueError:
            why = "the body is no JSON; the target sends all inputs instead"
            context.note("person", provider.place, why)
            return None
    return _body(body)


def _body(value: Any) -> JSON:
    if isinstance(value, str):
        return _plain_slots(value)
    if is_mapping(value):
        return {key: _body(part) for key, part in value.items()}
    if is_list(value):
        return [_body(part) for part in value]
    return cast("JSON", value)


def _plain_slots(text: str) -> str:
    return re.sub(r"\{\{\s*(\w+)\s*(?:\|[^}]*)?\}\}", r"{{\1}}", text)


def json_path(code: str) -> str:
    """The JSON path of code that only picks a part of a response; empty for other code.

    >>> json_path("json.choices[0].message.content")
    '$.choices[0].message.content'
    >>> json_path("(json) => json.answer")
    '$.answer'
    """
    code = code.strip()
    if picked := re.search(r"\boutput:\s*((?:json|data)[\w.\[\]?]+)", code):
        code = picked[1]
    match = _JSON_PATH.fullmatch(code.removeprefix("return ").strip())
    if match is None:
        return ""
    path = match["path"].replace("?.", ".").replace(".[", "[")
    return "$" + re.sub(r"\[['\"]([^'\"]+)['\"]\]", r".\1", path)


def code_of(provider: SourceProvider, context: Context) -> tuple[Path, str]:
    """The file of a provider that is code, and the function that it names.

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


def safe_config(provider: SourceProvider, context: Context) -> dict[str, Any]:
    """The configuration of a provider of code, without its keys."""
    kept: dict[str, Any] = {}
    for key, value in provider.config.items():
        text = value if isinstance(value, str) else ""
        named = key.lower().endswith(_NO_SECRET) or ENVIRONMENT.search(text)
        if text and _SECRET.search(key) and not named:
            if len(text) >= _SECRET_MIN:
                context.imported.secrets.add(text)
            why = f"the value of `{key}` was not copied; read it from the environment"
            context.note("person", provider.place, why)
        else:
            kept[key] = value
    return kept
