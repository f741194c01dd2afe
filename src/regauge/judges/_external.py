"""`command_judge(...)` and `http_judge(...)`: judges that are programs or web services."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.judges._function import ResultReader
from regauge.judges._types import (
    DeclaredJudge,
    JudgeStatus,
    RunOnlyJudge,
    calibration_status,
    is_number,
    shorten_name,
)
from regauge.judges.external_calls import CommandCalls, HttpCalls
from regauge.judges.output import JudgedOutput
from regauge.providers import CompletionRequest
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext, Verdict
    from regauge.project import Criterion, Project
    from regauge.providers import Completion, Provider


_FORMS: Final = (
    'respond with {"pass": true, "score": 0.8, "reason": "..."}, where `pass` or `score` may be'
    " left out; or with pass, fail or a score from 0 to 1, and a reason on the next line"
)
_WORDS: Final = {"pass": True, "true": True, "fail": False, "false": False}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_METHODS: Final = ("POST", "PUT", "PATCH")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# A deterministic judge repeats one in four judgements as a check; repeating more finds a wrong
# declaration earlier and costs more calls. An hour is beyond any judge of one output.
_REPEAT_EVERY: Final = 4
_TIMEOUT_MAX_S: Final = 3_600


def command_judge(
    command: Sequence[str],
    *,
    env: Sequence[str] = (),
    pass_at: float = 0.5,
    timeout_s: float = 60,
    deterministic: bool = False,
    files: Sequence[str] = (),
    version: str = "",
    name: str | None = None,
) -> DeclaredJudge[ExternalJudge]:
    """Run a program that reads a JSON document and writes a verdict.

    [Protocol and limits](../how-to/write-a-judge.md#use-a-program-or-a-web-service).

    Args:
        command: The program and its arguments; it runs in the project, without a shell.
        env: Environment variables to pass.
        pass_at: The score from 0 to 1 that passes.
        timeout_s: Seconds until the judge gives up, without a verdict.
        deterministic: The same input always gives the same verdict: the judge is blocking without
            calibration, and a random quarter of the inputs is sent twice.
        files: Further project files that change the verdict.
        version: Any text; a new one makes recorded verdicts stale.
        name: The name in reports.

    Raises:
        UsageError: A parameter is invalid.

    >>> command_judge(["node", "judges/brief.js"], deterministic=True).name
    'command_judge(node judges/brief.js)'
    """
    kind = "command_judge"
    arguments = _check_texts(command, kind, "command", 'command_judge(["node", "judge.js"])')
    if not arguments or not arguments[0]:
        raise UsageError(f"{kind}: the command is empty", fix='command_judge(["node", "judge.js"])')
    names = _check_texts(env, kind, "env", 'env=["TOKEN"]')
    return _declare(
        ExternalJudge(
            kind=kind,
            arguments=arguments,
            env={variable: variable for variable in names},
            pass_at=pass_at,
            timeout_s=timeout_s,
            deterministic=deterministic,
            files=dict.fromkeys(
                _check_texts(files, kind, "files", 'files=["judges/rules.json"]'), ""
            ),
            version=version,
            name=name or f"{kind}({shorten_name(' '.join(arguments))})",
        )
    )


def http_judge(
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    pass_at: float = 0.5,
    timeout_s: float = 60,
    deterministic: bool = False,
    version: str = "",
    name: str | None = None,
) -> DeclaredJudge[ExternalJudge]:
    """Send a JSON document to a web service that responds with a verdict.

    Document and verdict are those of `command_judge`. Redirects are not followed; retries are those
    of model calls.

    Args:
        url: The address.
        method: `POST`, `PUT` or `PATCH`.
        headers: For each header, the environment variable with its value.
        pass_at: The score from 0 to 1 that passes.
        timeout_s: Seconds until the judge gives up, without a verdict.
        deterministic: The same input always gives the same verdict: the judge is blocking without
            calibration, and a random quarter of the inputs is sent twice.
        version: Any text; a new one makes recorded verdicts stale.
        name: The name in reports.

    Raises:
        UsageError: A parameter is invalid.

    >>> http_judge("https://judge.example/v1", headers={"Authorization": "JUDGE_AUTH"}).name
    'http_judge(judge.example/v1)'
    """
    kind = "http_judge"
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        sound, parts = False, urlsplit("")
    if not sound or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{kind}: {url!r} is not an address\n  fix: begin it with https://")
    if parts.username is not None or parts.password is not None:
        fix = 'put it into an environment variable: headers={"Authorization": "VARIABLE"}'
        raise UsageError(f"{kind}: the address holds a user name or a password", fix=fix)
    if method not in _METHODS:
        raise UsageError(f"{kind}: no method {method!r}\n  fix: one of {', '.join(_METHODS)}")
    pairs = cast("Mapping[object, object]", headers or {})
    for header, variable in pairs.items():
        if not isinstance(header, str) or not _HEADER.fullmatch(header):
            raise UsageError(f"{kind}: {header!r} is not a name of a header")
        if header.lower() in {"host", "content-length", "content-type", "transfer-encoding"}:
            raise UsageError(f"{kind}: the header {header!r} is set by regauge\n  fix: remove it")
        if not isinstance(variable, str):
            raise UsageError(f"{kind}: {variable!r} is not a name of an environment variable")
    return _declare(
        ExternalJudge(
            kind=kind,
            arguments=(method, url),
            env=dict(headers or {}),
            pass_at=pass_at,
            timeout_s=timeout_s,
            deterministic=deterministic,
            files={},
            version=version,
            name=name or f"{kind}({shorten_name(parts.netloc + parts.path)})",
        )
    )


def _check_texts(texts: object, kind: str, parameter: str, example: str) -> tuple[str, ...]:
    values = cast("Sequence[object]", texts)
    if not isinstance(texts, list | tuple) or not all(isinstance(value, str) for value in values):
        raise UsageError(f"{kind}: {parameter} is a list of texts, not {texts!r}\n  fix: {example}")
    if any("\0" in str(value) for value in values):
        raise UsageError(f"{kind}: {parameter} holds a NUL character")
    return tuple(map(str, values))


def _declare(judge: ExternalJudge) -> DeclaredJudge[ExternalJudge]:
    """Declare a judge, whose files are read once it is bound."""

    def make(name: str, context: JudgeContext) -> ExternalJudge:
        bound = replace(judge, name=name, root=context.project.root)
        return replace(bound, files=_file_digests(bound))

    return DeclaredJudge(name=judge.name, criterion=None, make=make)


def _file_digests(judge: ExternalJudge) -> Mapping[str, str]:
    """The digest of each file of a judge: declared files, and arguments that are files.

    Raises:
        UsageError: A declared file cannot be read.
    """
    digests: dict[str, str] = {}
    for name in judge.files:
        try:
            digests[name] = digest_of((judge.root / name).read_bytes().hex())
        except OSError as error:
            message = f"{judge.name}: {name!r} cannot be read: {error.strerror or error}"
            raise UsageError(message, fix="name files from the root of the project") from error
    for name in judge.arguments if judge.kind == "command_judge" else ():
        path = judge.root / name
        inside = path.is_file() and path.resolve().is_relative_to(judge.root.resolve())
        if inside and not Path(name).is_absolute():
            digests[name] = digest_of(path.read_bytes().hex())
    return digests


@dataclass(frozen=True, kw_only=True, eq=False)
class ExternalJudge(RunOnlyJudge):
    """A judge that is a program or a web service.

    Attributes:
        kind: `command_judge` or `http_judge`.
        arguments: The program and its arguments, or the method and the URL.
        env: Names of environment variables, for headers by header name.
        pass_at: The least score that passes.
        timeout_s: The time limit of a call, in seconds.
        deterministic: The same judgement always has the same verdict.
        version: Any text, part of the digest.
        files: Project files, each with the digest of its content; empty until it is bound.
        root: The root of the project that it is bound to.
    """

    kind: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    pass_at: float
    timeout_s: float
    deterministic: bool
    version: str
    files: Mapping[str, str]
    root: Path = Path()
    criterion: Criterion = "correctness"

    def __post_init__(self) -> None:
        """Validate the parameters, which may have any type.

        Raises:
            UsageError: A parameter is invalid.
        """
        kind = self.kind
        for variable in self.env.values():
            if not _VARIABLE.fullmatch(variable):
                raise UsageError(
                    f"{kind}: {variable!r} is not a name of an environment variable\n"
                    "  fix: give the name; the value stays out of files and recordings"
                )
        for parameter, maximum in (("pass_at", 1), ("timeout_s", _TIMEOUT_MAX_S)):
            value: object = getattr(self, parameter)
            if not is_number(value) or not 0 <= value <= maximum or (maximum > 1 and not value):
                raise UsageError(f"{kind}: {parameter} is a number up to {maximum}, not {value!r}")
        if not isinstance(cast("object", self.deterministic), bool):
            raise UsageError(f"{kind}: deterministic is true or false, not {self.deterministic!r}")
        for parameter in ("version", "name"):
            text: object = getattr(self, parameter)
            if not isinstance(text, str):
                raise UsageError(
                    f"{kind}: {parameter} is a text, not {text!r}\n  fix: put it in quotes"
                )

    @property
    def models(self) -> tuple[str, ...]:
        """The name of the judge for calibration records, instead of a model."""
        return (f"{self.kind}:{self._model}",)

    @property
    def _model(self) -> str:
        return shorten_name("-".join(self.arguments[-1].split()) or "-")

    @cached_property
    def _parameters(self) -> dict[str, JSON]:
        return {
            "protocol": 1,
            "arguments": list(self.arguments),
            "env": dict(self.env),
            "version": self.version,
            "files": dict(self.files),
        }

    def _identity(self) -> dict[str, JSON]:
        return {  # without the time limit, which changes no verdict
            "kind": self.kind,
            **self._parameters,
            "pass_at": self.pass_at,
            "deterministic": self.deterministic,
        }

    @cached_property
    def _calls(self) -> Provider:
        if self.kind == "command_judge":
            return CommandCalls(
                timeout_s=self.timeout_s,
                check=self._verdict,
                arguments=self.arguments,
                env=tuple(self.env.values()),
                directory=self.root,
            )
        return HttpCalls(
            timeout_s=self.timeout_s,
            check=self._verdict,
            method=self.arguments[0],
            url=self.arguments[1],
            headers=self.env,
        )

    def status_in(self, project: Project) -> JudgeStatus:
        """Blocking if declared deterministic; otherwise by calibration."""
        if self.deterministic:
            return JudgeStatus(blocking=True, reason="declared deterministic")
        return calibration_status(self, project)

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Call the program or service; a deterministic one twice for a quarter of the outputs.

        Raises:
            JudgeError: Two responses to the same judgement differ.
            UnmeasuredError: There is no response, or it has no verdict.
        """
        output = JudgedOutput.from_completion(completion, case)
        if output.text is None and not completion.tool_calls:
            return output.no_text_verdict()
        request = self._request(completion, case, calls.trial)
        first = self._verdict((await calls.complete(request)).text or "")
        # Random to the judge, and the same in every replay.
        if not self.deterministic or int(request.digest[:8], 16) % _REPEAT_EVERY:
            return first
        second_request = request.for_trial(request.trial + 1)
        second = self._verdict((await calls.complete(second_request)).text or "")
        if (first.outcome, first.score) != (second.outcome, second.score):
            raise JudgeError(
                f"{self.name} is declared deterministic, and its verdicts on case {case.id!r}"
                f" differ: {first}; {second}\n"
                "  fix: make it give the same verdict every time, or remove deterministic and"
                " calibrate it",
                judge=self.name,
            )
        return first

    def _request(self, completion: Completion, case: GoldenCase, trial: int) -> CompletionRequest:
        from regauge.prompts import Message

        # Without latency and cost, which differ in each run: equal judgements are equal requests.
        document: dict[str, JSON] = {
            "protocol": 1,
            "output": completion.text,
            "case": case.id,
            "inputs": dict(case.inputs),
            "expected": case.expected,
            "completion": {
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "tool_calls": [
                    {"name": call.name, "arguments": call.arguments}
                    for call in completion.tool_calls
                ],
            },
        }
        text = json.dumps(document, ensure_ascii=False, sort_keys=True)
        return CompletionRequest(
            provider=self.kind,
            model=self._model,
            messages=(Message(role="user", content=text),),
            parameters=self._parameters,
            trial=2 * trial,
            origin=self.name,
            provider_override=self._calls,
        )

    def _verdict(self, text: str) -> Verdict:
        """Parse the verdict in a response.

        Raises:
            JudgeError: There is none.
        """
        reader = ResultReader(label=self.name, at_least=self.pass_at, forms=_FORMS)
        word, _, reason = text.strip().partition("\n")
        plain = word.strip().casefold()
        result: object
        if plain in _WORDS:
            result = _WORDS[plain]
        elif _NUMBER.fullmatch(plain):
            result = float(plain)
        else:
            try:
                result, reason = read_json(text), ""
            except ValueError as error:
                start = repr(text[:200]) if text else "nothing"
                raise JudgeError(
                    f"{self.name} responded with {start}, which is not a verdict\n  fix: {_FORMS}",
                    judge=self.name,
                    raw=text,
                ) from error
        verdict = reader.verdict((result, reason.strip()) if reason.strip() else result)
        return replace(verdict, reason=" ".join(verdict.reason.split())[:2_000])
