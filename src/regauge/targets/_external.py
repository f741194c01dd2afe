"""HTTP endpoints and programs as targets: one request or process per case."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from regauge.errors import ProviderError, UsageError
from regauge.judges.external_calls import (
    WINDOWS_ENV,
    build_headers,
    environment_values,
    run_program,
    send,
)
from regauge.judges.output import MISSING, MissingValue, parse_path, value_at
from regauge.prompts import CANDIDATES_ENV, input_text
from regauge.strict_json import is_sequence, read_json
from regauge.targets._output import OUTPUT_MAX
from regauge.wording import cut, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges.output import Steps
    from regauge.project import CommandTarget, HttpTarget


_PLACEHOLDER: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_EACH: Final = "[*]"
_ONE_EACH: Final = 2


class HttpCaller:
    """Sends each case to an endpoint, without following redirects.

    Args:
        name: The name of the target.
        settings: The settings of the target.
        environ: The environment with the values of headers.

    Raises:
        UsageError: A JSON path is invalid.
    """

    def __init__(self, name: str, settings: HttpTarget, *, environ: Mapping[str, str]) -> None:
        self._name = name
        self._settings = settings
        self._environ = environ
        self._paths: dict[str, tuple[str, list[Steps]]] = {}
        for part in ("text", "tool_calls", "context", "usage", "messages", "cost"):
            path: str | None = getattr(settings, part)
            if path is None:
                continue
            try:
                steps = [
                    parse_path(piece.removeprefix("."))
                    for piece in path.removeprefix("$").split(_EACH)
                ]
            except UsageError as error:
                raise UsageError(
                    f"pyproject.toml: tool.regauge.targets.{name}.{part}: {error}"
                ) from error
            self._paths[part] = path, steps

    async def call(self, case: GoldenCase, *, timeout_s: float) -> JSON:
        """The output in the response.

        Raises:
            ProviderError: There is no response, or a declared part is missing.
        """
        settings = self._settings
        values = environment_values(settings.headers_env.values(), self._environ)
        inputs = case.inputs
        document: JSON = (
            inputs if settings.body is None else _fill(settings.body, inputs, lambda value: value)
        )
        sends = settings.method != "GET" or settings.body is not None
        url = _fill(settings.url, inputs, lambda value: quote(input_text(value), safe=""))
        data = json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")
        body = await send(
            settings.method,
            str(url),
            body=data if sends else None,
            headers=build_headers(settings.headers_env, values),
            timeout_s=timeout_s,
            output_max=OUTPUT_MAX,
            accepted=range(200, 300) if settings.status is None else settings.status,
        )
        if len(body) > OUTPUT_MAX:
            message = f"{settings.url}: the response is larger than {OUTPUT_MAX:,} bytes"
            raise ProviderError(message, fix="respond with the output alone", kind="too-large")
        return self._output(body)

    def _output(self, body: bytes) -> JSON:
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _malformed_error(
                f"{self._settings.url}: the response is not UTF-8: {error}"
            ) from error
        if not self._paths:
            return text
        try:
            document: JSON = read_json(text)
        except ValueError as error:
            raise _malformed_error(
                f"{self._settings.url}: the response is not JSON: {error}: {cut(text, 200)!r}"
            ) from error
        fields: dict[str, JSON] = {}
        for part, (path, steps) in self._paths.items():
            value = _value_at(document, steps)
            if isinstance(value, MissingValue):
                keys = f"; it has {', '.join(document)}" if isinstance(document, Mapping) else ""
                preview = cut(text, 200)
                message = f"{self._settings.url}: the response has no {path}{keys}: {preview!r}"
                fix = f"correct `{part}` of the target {self._name} in pyproject.toml"
                raise ProviderError(message, fix=fix, kind="malformed")
            if part == "text" and not isinstance(value, str | None):
                value = json.dumps(value, ensure_ascii=False)
            fields["cost_usd" if part == "cost" else part] = value
        if "text" not in fields and "messages" not in fields:
            fields["text"] = text
        return fields


def _value_at(document: JSON, steps: Sequence[Steps]) -> JSON | MissingValue:
    """The value at a path; `[*]` between two parts gives the list of all values."""
    value = value_at(document, steps[0])
    if len(steps) == 1 or isinstance(value, MissingValue):
        return value
    if isinstance(value, str) or not isinstance(value, Sequence):
        return MISSING
    values: list[JSON] = []
    for item in value:
        inner = _value_at(item, steps[1:])
        if isinstance(inner, MissingValue):
            return inner
        values += inner if len(steps) > _ONE_EACH and isinstance(inner, list) else [inner]
    return values


def _fill(template: JSON, inputs: Mapping[str, JSON], convert: Callable[[JSON], JSON]) -> JSON:
    """Fill a template with inputs; a text that is one placeholder becomes the value itself.

    Raises:
        ProviderError: The case does not have an input.
    """
    if isinstance(template, Mapping):
        return {key: _fill(value, inputs, convert) for key, value in template.items()}
    if is_sequence(template):
        return [_fill(value, inputs, convert) for value in template]
    if not isinstance(template, str):
        return template
    pieces: list[JSON] = [*_PLACEHOLDER.split(template)]  # texts, and names at odd places
    for place in range(1, len(pieces), 2):
        name = str(pieces[place]).strip()
        if name not in inputs:
            message = f"the case has no input {name!r}; it has {', '.join(inputs)}"
            fix = did_you_mean(name, inputs) or "correct `url` or `body` of the target"
            raise ProviderError(message, fix=fix, kind="bad-request")
        pieces[place] = convert(inputs[name])
    parts = [piece for piece in pieces if piece != ""]
    if len(parts) == 1 and template.startswith("{{"):
        return parts[0]
    return "".join(map(input_text, parts))


def _malformed_error(message: str) -> ProviderError:
    fix = (
        "correct `url`: it responds with one JSON document, no stream or web page; to judge plain"
        " text, remove the JSON paths of the target"
    )
    return ProviderError(f"{message}\n  fix: {fix}", kind="malformed")


_GUARD: Final = Path(__file__).with_name("_guard.py")
_ALWAYS: Final = (*WINDOWS_ENV, "PATH", "HOME", "LANG", CANDIDATES_ENV)


class CommandCaller:
    """Starts a program for each case, which ends with this process in any event.

    Args:
        settings: The settings of the target.
        root: The working directory of the program.
        environ: The environment, of which the program receives some variables.
    """

    def __init__(self, settings: CommandTarget, *, root: Path, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._root = root
        self._environ = environ
        # The guard of a program reads this pipe, which closes at the end of this process.
        self._pipe = os.pipe()

    async def call(self, case: GoldenCase, *, timeout_s: float) -> JSON:
        """The output of the program: text, or an object as JSON.

        Raises:
            ProviderError: The program cannot be started, fails, takes too long, or writes too much.
        """
        variables = environment_values(
            (
                name.removesuffix("?")
                for name in self._settings.env
                if not name.endswith("?") or self._environ.get(name[:-1])
            ),
            self._environ,
        )
        environ = {
            name: self._environ[name] for name in _ALWAYS if name in self._environ
        } | variables
        self._check_program(environ.get("PATH"))
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(self._pipe[0])]
        on_windows = sys.platform == "win32"  # it passes no pipes on
        body = await run_program(
            [*([] if on_windows else guard), *self._settings.argv],
            json.dumps(case.inputs, ensure_ascii=False).encode("utf-8", "backslashreplace"),
            environ=environ,
            directory=self._root,
            timeout_s=timeout_s,
            output_max=OUTPUT_MAX,
            secrets=variables.values(),
            pass_fds=() if on_windows else (self._pipe[0],),
        )
        if len(body) > OUTPUT_MAX:
            fix = "write the output alone to standard output"
            raise ProviderError(
                f"the command wrote more than {OUTPUT_MAX:,} bytes", fix=fix, kind="too-large"
            )
        try:
            text = body.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            message = f"the command wrote what is not UTF-8: {error}"
            raise ProviderError(message, fix="write UTF-8", kind="malformed") from error
        if not text:
            message = "the command wrote nothing to standard output"
            raise ProviderError(message, fix="write the output as text or JSON", kind="malformed")
        try:
            document: JSON = read_json(text)
        except ValueError:
            return text
        return document if isinstance(document, dict) else text

    def _check_program(self, path: str | None) -> None:
        """Check that the program can be started.

        Raises:
            ProviderError: It does not exist, or is not executable.
        """
        program = self._settings.argv[0]
        file = self._root / program if "/" in program else program
        if shutil.which(file, path=path) is not None:
            return
        if isinstance(file, Path) and file.is_file():
            fix = "make it so with chmod +x, or begin `argv` with its interpreter"
            message = f"the program {program!r} is not executable"
        else:
            message = f"the program {program!r} is not found"
            fix = "correct `argv` of the target; the program is looked for in PATH, a path in"
            fix = f"{fix} {self._root}"
        raise ProviderError(message, kind="not-found", fix=fix)

    async def aclose(self) -> None:
        """Close the pipe, so that guards end running programs."""
        for end in self._pipe:
            os.close(end)
