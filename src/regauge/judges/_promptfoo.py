"""promptfoo assertions that are scripts: JavaScript in V8, and Python."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib.util
import json
import math
import posixpath
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.files import read_regular
from regauge.judges._function import sources_of
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, is_number, passed
from regauge.judges.output import JsonProblem, JudgedOutput, MissingValue
from regauge.project import Project
from regauge.strict_json import mapping_of
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON
    from regauge.judges._rule import Check


# Larger limits let one assertion slow the run and fill the run record.
_REASON_MAX: Final = 2_000
_COMPONENTS_MAX: Final = 50
_TIMEOUT_MAX_S: Final = 600
_MEMORY_MIN_MB: Final = 16
_MEMORY_MAX_MB: Final = 4_096


# -- results ---------------------------------------------------------------------------------------


def _verdict(
    result: object, *, label: str, pass_at: float | None, graded_too: bool = False
) -> Verdict:
    """Convert a result to a verdict as promptfoo does.

    Args:
        result: A flag, a number, a mapping with `pass`, `score` and `reason`, or anything else.
        label: The name of the judge, for errors.
        pass_at: The least number that passes; None for any above 0.
        graded_too: `pass_at` applies to the score of a mapping, too.

    Raises:
        JudgeError: promptfoo refuses the result.
    """
    match result:
        case bool():
            true = passed("it returned true")
            return true if result else failed("it returned false", code="false")
        case int() | float():
            score = 0.0 if math.isnan(result) else min(1.0, max(0.0, float(result)))
            condition = "above 0" if pass_at is None else f"at least {pass_at:g}"
            reason = f"it returned {result:g}, {condition} wanted"
            if result > 0 if pass_at is None else result >= pass_at:
                return passed(reason, score=score)
            return failed(reason, code="low_score", score=score)
        case Mapping():
            return _verdict_on_mapping(
                cast("Mapping[str, Any]", result), label, pass_at if graded_too else None
            )
        case None:
            return failed("it returned nothing; is a `return` missing?", code="no_result")
        case str():
            return failed(f"it returned a text: {quote(result, 400)}", code="no_result")
        case _:
            raise _no_verdict(label, result)


def _threw(message: str) -> Verdict:
    return failed(" ".join(message.split())[:_REASON_MAX], code="threw")


def _verdict_on_mapping(result: Mapping[str, Any], label: str, pass_at: float | None) -> Verdict:
    flag = result.get("pass", result.get("pass_"))
    score, reason = result.get("score"), result.get("reason")
    if ("pass" in result or "pass_" in result) and not flag and flag is not False:
        return failed(f"it returned pass: {flag!r:.100}, not False", code="no_result")
    if not isinstance(flag, bool) or not is_number(score) or not isinstance(reason, str):
        raise _no_verdict(label, dict(result))
    value = float(score)
    clamped = 0.0 if math.isnan(value) else min(1.0, max(0.0, value))
    text = " ".join(reason.split())[:_REASON_MAX] or f"it returned {str(flag).lower()}"
    if flag and pass_at is not None and value < pass_at:
        text, flag = f"the score is {value:g}, at least {pass_at:g} wanted: {text}", False
    verdict = passed(text, score=clamped) if flag else failed(text, code="false", score=clamped)
    parts = result.get("componentResults", result.get("component_results"))
    if not isinstance(parts, list) or not parts:
        return verdict
    components = [_component(part) for part in cast("list[object]", parts)[:_COMPONENTS_MAX]]
    return replace(verdict, details={**verdict.details, "components": components})


def _component(part: object) -> JSON:
    """The report entry of one part of a result."""
    fields = mapping_of(part)
    reason = fields.get("reason")
    return {
        "pass": fields.get("pass", fields.get("pass_")) is True,
        "score": fields["score"] if type(fields.get("score")) in {int, float} else None,
        "reason": reason[:_REASON_MAX] if isinstance(reason, str) else "",
    }


def _no_verdict(label: str, result: object) -> JudgeError:
    return JudgeError(
        f"{label} returned {result!r:.400}, which is not a verdict\n"
        "  fix: return true or false, a number, or pass, score and reason together",
        judge=label,
        raw=repr(result),
    )


# -- arguments of an assertion ---------------------------------------------------------------------


def _output(output: JudgedOutput, *, parse_json: bool) -> JSON:
    """The first argument of an assertion: a text, its JSON, or tool calls if there is no text."""
    completion = output.completion
    if output.text is None and completion is not None and completion.tool_calls:
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in completion.tool_calls
        ]
    if parse_json and not isinstance(output.json, JsonProblem):
        return output.json
    return output.text


# Keys that only promptfoo has; reading one leaves the case unmeasured.
_UNAVAILABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("prompt", "trace", "metadata", "logProbs", "provider", "providerResponse"),
    "test": ("assert", "metadata", "options", "provider", "threshold"),
    "provider": ("config", "label"),
    "providerResponse": ("cost", "guardrails", "latencyMs", "metadata", "raw", "sessionId"),
}


def _context(
    output: JudgedOutput, value: JSON, config: Mapping[str, JSON] | None
) -> dict[str, JSON]:
    """The second argument of an assertion, without the keys in `_UNAVAILABLE`."""
    expected = output.expected_at(())
    inputs = {**(expected if isinstance(expected, Mapping) else {}), **output.inputs}
    test: dict[str, JSON] = {"vars": inputs}
    if output.case is not None:
        test["description"] = output.case.id
    context: dict[str, JSON] = {"vars": inputs, "test": test}
    if not isinstance(expected, MissingValue):
        context["expected"] = expected
    if config is not None:
        context["config"] = dict(config)
    completion = output.completion
    if completion is None:
        return context
    usage, latency_s = completion.usage, completion.latency_s
    response: dict[str, JSON] = {
        "output": value,
        "finishReason": completion.finish_reason,
        "latencyMs": None if latency_s is None else round(latency_s * 1000),
        "tokenUsage": {
            "prompt": usage.input_tokens,
            "completion": usage.output_tokens,
            "total": usage.input_tokens + usage.output_tokens,
        },
        "cost": completion.cost_usd,
    }
    context["provider"] = {"id": f"{completion.provider}:{completion.model}"}
    context["providerResponse"] = {
        key: value for key, value in response.items() if value is not None
    }
    if completion.logprobs:
        context["logProbs"] = [token.logprob for token in completion.logprobs]
    return context


def _check_parameters(kind: str, code: str | None, file: str | None, pass_at: object) -> None:
    """Validate parameters.

    Raises:
        UsageError: Parameters are missing, invalid or contradictory.
    """
    if (code is None) == (file is None):
        raise UsageError(f"{kind}: give either `code` or `file`")
    text = code if code is not None else file
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{kind}: {'code' if file is None else 'file'} is empty")
    if pass_at is not None and (not is_number(pass_at) or math.isnan(pass_at)):
        raise UsageError(f"{kind}: pass_at is a number, not {pass_at!r}")


def _locate(kind: str, file: object) -> tuple[Path, str, Path]:
    """Split `path:function` into the file and the function, and find the root of the project.

    Raises:
        UsageError: There is no such file.
    """
    text = str(file).removeprefix("file://")
    path, colon, function = text.rpartition(":")
    if not colon or not function.replace(".", "").isidentifier():
        path, function = text, ""
    root = Project.find().root
    existing = next((base / path for base in (Path.cwd(), root) if (base / path).is_file()), None)
    if existing is None:
        fix = f"name it from the root of the project, {root}"
        raise UsageError(f"{kind}: there is no file {path!r}", fix=fix)
    return existing.resolve(), function, root.resolve()


def _read(kind: str, path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{kind}: {path} cannot be read: {error}") from error


# -- JavaScript ------------------------------------------------------------------------------------


_TYPESCRIPT: Final = (".ts", ".mts", ".cts", ".tsx", ".jsx")
_MODULE_ENDS: Final = ("", ".js", ".cjs", ".mjs", ".json", "/index.js")
_REQUIRED: Final = re.compile(
    r"""(?:\brequire\s*\(\s*|\bfrom\s+|^\s*import\s+)(["'])(\.\.?/[^"'\n]+)\1""", re.MULTILINE
)
_IMPORT: Final = re.compile(
    r"""^[ \t]*import\s+(?:(?P<names>[\w$*{}\s,]+?)\s+from\s+)?"""
    r"""(?P<path>"[^"\n]+"|'[^'\n]+')[ \t]*;?""",
    re.MULTILINE,
)
_EXPORT: Final = re.compile(
    r"^[ \t]*export\s+(?:(?P<default>default)\b|(?P<list>\{[^}]*\})[ \t]*;?"
    r"|(?=(?:async\s+)?(?:function\b\s*\*?|class\b|const\b|let\b|var\b)\s*(?P<name>[\w$]+)))[ \t]*",
    re.MULTILINE,
)


def _module_name(path: Path, root: Path) -> str:
    """The path of a file from the root of the project, for digests and messages."""
    return posixpath.relpath(path.as_posix(), root.as_posix())


def _modules(kind: str, path: Path, root: Path) -> dict[str, str]:
    """The source of a file and of the project files that it requires, by name.

    Raises:
        UsageError: A file cannot be read.
    """
    parts: dict[str, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = _module_name(file, root)
        if name in parts:
            continue
        text = _read(kind, file)
        parts[name] = text
        for match in _REQUIRED.finditer(text):
            near = file.parent / match[2]
            ends = (near.with_name(near.name + end) if end else near for end in _MODULE_ENDS)
            if module := next((path for path in ends if path.is_file()), None):
                waiting.append(module.resolve())
    return parts


def _module_to_function(text: str) -> str:
    """Convert an ECMAScript module to a function body; leave a CommonJS module unchanged."""
    if not _IMPORT.search(text) and not _EXPORT.search(text):
        return text
    names: list[str] = []

    def exported(match: re.Match[str]) -> str:
        if match["default"]:
            return "module.exports.default = "
        if match["list"]:
            for part in match["list"].strip("{}").split(","):
                local, _, other = (word.strip() for word in part.partition(" as "))
                if local:
                    names.append(f"module.exports.{other or local} = {local};")
            return ""
        names.append(f"module.exports.{match['name']} = {match['name']};")
        return ""

    body = _EXPORT.sub(exported, _IMPORT.sub(_import_to_require, text))
    return f"{body}\n{' '.join(names)}"


def _import_to_require(match: re.Match[str]) -> str:
    """Convert an `import` to calls of `require`, without changing line numbers."""
    call = f"require({match['path']})"
    lines = "\n" * match[0].count("\n")
    if match["names"] is None:
        return f"{call};{lines}"
    single, _, braces = match["names"].partition("{")
    statements: list[str] = []
    for name in filter(None, (part.strip() for part in single.split(","))):
        if name.startswith("*"):
            statements.append(f"const {name.rpartition(' ')[2]} = {call};")
        else:
            statements.append(f"const {name} = ((m) => m.default ?? m)({call});")
    if braces:
        inside = re.sub(r"\s+as\s+", ": ", " ".join(braces.strip(" \t\n}").split()))
        statements.append(f"const {{{inside}}} = {call};")
    return " ".join(statements) + lines


@functools.cache
def _assertion_source() -> str:
    text = Path(__file__).with_name("assertion.js").read_text(encoding="utf-8")
    # An expression, below comments.
    return text[text.index("(request)") :]


def _javascript_contents(document: Mapping[str, object]) -> JSON:
    """The source of an assertion's files; None for inline code."""
    if document["file"] is None:
        return None
    path, _, root = _locate("javascript", document["file"])
    return dict(_modules("javascript", path, root))


@rule(about="correctness", required_module="py_mini_racer", contents=_javascript_contents)
def javascript(
    code: str | None = None,
    *,
    file: str | None = None,
    function: str = "",
    pass_at: float | None = None,
    config: Mapping[str, JSON] | None = None,
    parse_json: bool = False,
    timeout_s: float = 5,
    memory_mb: int = 256,
) -> Check:
    """A JavaScript assertion, as promptfoo runs it, in V8.

    An expression, a function body with `return`, or a module that exports a function, with `output`
    and `context`: `vars` (the inputs, and the keys of `expected`), `expected`, `config`, `test`,
    `provider`, `providerResponse`, `logProbs`. It returns a boolean, a number, or `{pass, score,
    reason}`; a promise is awaited. An exception fails the output. Files, network, clock,
    environment and modules other than `assert` and the project's own give no verdict.

    Args:
        code: The expression or function body.
        file: The path of a JavaScript file, or `path:function`.
        function: The function that the file exports; the default export without it.
        pass_at: The least number that passes; any above 0 by default.
        config: The value of `context.config`.
        parse_json: `output` is the parsed value where the output is JSON.
        timeout_s: Seconds until it is ended.
        memory_mb: Megabytes that it may take.

    Fails as: false, low_score, threw, no_result

    >>> print(javascript("output.length < 10").check_text("disk full"))
    pass: it returned true
    """
    kind = "javascript"
    _check_parameters(kind, code, file, pass_at)
    _check_limits(kind, timeout_s, memory_mb)
    request: dict[str, Any] = {"code": code, "file": None, "name": "", "modules": {}}
    label = f"javascript({quote(code, 40)})" if code is not None else f"javascript({file})"
    if file is not None:
        path, file_function, root = _locate(kind, file)
        sources = _modules(kind, path, root)
        request |= {
            "file": _module_name(path, root),
            "name": file_function or function,
            "modules": {
                name: text if name.endswith(".json") else _module_to_function(text)
                for name, text in sources.items()
            },
        }

    def check(output: JudgedOutput) -> Verdict:
        from regauge.judges._v8 import ScriptLimitError, run_script

        value = _output(output, parse_json=parse_json)
        if value is None:
            return output.no_text_verdict()
        if any(name.endswith(_TYPESCRIPT) for name in request["modules"]):
            raise JudgeError(
                f"{label} gives no verdict: it is not JavaScript\n"
                "  fix: compile it to JavaScript, and name that file",
                judge=label,
            )
        context = {
            **request,
            "absent": _UNAVAILABLE,
            "output": value,
            "context": _context(output, value, config),
        }
        try:
            response = run_script(
                _assertion_source(), context, timeout_s=timeout_s, memory_mb=memory_mb
            )
        except ScriptLimitError as error:
            raise JudgeError(f"{label} gives no verdict: {error}", judge=label) from error
        return _verdict_on_response(response, label, pass_at)

    return check


def _check_limits(kind: str, timeout_s: object, memory_mb: object) -> None:
    for name, value, minimum, maximum in (
        ("timeout_s", timeout_s, 0.01, _TIMEOUT_MAX_S),
        ("memory_mb", memory_mb, _MEMORY_MIN_MB, _MEMORY_MAX_MB),
    ):
        if not is_number(value) or not minimum <= value <= maximum:
            raise UsageError(
                f"{kind}: {name} is a number from {minimum:g} to {maximum}, not {value!r}"
            )
    if not isinstance(memory_mb, int):
        raise UsageError(f"{kind}: memory_mb is a whole number, not {memory_mb!r}")


# Reasons why a response has no verdict, with their fixes; braces are filled from the response.
_NO_VERDICT: Final = {
    "missing": (
        "it uses {name}, which is not available",
        "give the assertion what it needs as an input of the case, or use a Python judge",
    ),
    "syntax": ("{message}{at}", "correct its syntax"),
    "no-function": (
        "the file exports no function {name!r}",
        "set module.exports to the function, or name one that is exported",
    ),
    "pending": ("its promise is never settled", "resolve the promise"),
    "broken": ("{name}: {message}{at}", "correct the assertion"),
}


def _verdict_on_response(response: Mapping[str, Any], label: str, pass_at: float | None) -> Verdict:
    """Convert a response of the engine to a verdict.

    Raises:
        JudgeError: There is none.
    """
    location = f" at {response['at']}" if response.get("at") else ""
    match response["kind"]:
        case "value":
            return _verdict(response["value"], label=label, pass_at=pass_at)
        case "number":
            return _verdict(float(response["value"]), label=label, pass_at=pass_at)
        case "graded":
            graded = {**response, "score": float(response["score"])}
            return _verdict(graded, label=label, pass_at=pass_at)
        case "unsound":
            return failed(f"it returned {response['value']}, not false", code="no_result")
        case "threw":
            return _threw(f"it threw {response['name']}: {response['message']}{location}")
        case "other":
            raise _no_verdict(label, response["value"])
        case kind:
            reason, fix = _NO_VERDICT[kind]
            reason = reason.format_map({"name": "error", **response, "at": location})
            raise JudgeError(f"{label} gives no verdict: {reason}\n  fix: {fix}", judge=label)


# -- Python ----------------------------------------------------------------------------------------


class _Context(dict[str, Any]):
    """The second argument of a Python assertion, or a part of it."""

    def __init__(self, values: Mapping[str, Any], part: str = "") -> None:
        super().__init__(values)
        self._absent = _UNAVAILABLE.get(part, ())
        for name in _UNAVAILABLE if not part else ():
            if name in self:
                self[name] = _Context(self[name], name)

    def __missing__(self, key: str) -> object:
        if key in self._absent:
            raise JudgeError(
                f"the context of an assertion has no {key!r} here", judge="promptfoo_python"
            )
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; a key that only promptfoo has raises, in spite of a default."""
        return self[key] if key in self or key in self._absent else default


# Exceptions that depend on the output; all others leave the case unmeasured.
_OUTPUT_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def _compile(kind: str, code: str) -> Callable[..., object]:
    """Compile inline Python: an expression, or a body with `return`.

    Raises:
        UsageError: The code is not Python.
    """
    body = code.strip("\n").rstrip()
    inside = textwrap.indent(textwrap.dedent(body), "    ") if "\n" in body else ""
    source = (
        f"import json\n\ndef main(output, context):\n{inside or f'    return {body.strip()}'}\n"
    )
    try:
        program = compile(source, f"<{kind}>", "exec")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{kind}: the code is not Python: {error}\n{code}") from error
    names: dict[str, Any] = {"__name__": kind}
    exec(program, names)  # noqa: S102 - the user's own code, as every function judge is
    return cast("Callable[..., object]", names["main"])


@functools.cache
def _module(path: Path, content: str) -> Any:
    """Load a file as a module, which can import files next to it."""
    name = f"regauge_assertion_{digest_of([path.as_posix(), content])[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    near = str(path.parent)
    # promptfoo runs the file from its directory, so its imports have no other name; the entry goes
    # once the file is loaded.
    sys.path.insert(0, near)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(near)
    return module


class _Unimportable:
    """The function of a file that cannot be imported; calling it leaves the case unmeasured."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __call__(self, *_: object) -> object:
        raise JudgeError(self._reason, judge="promptfoo_python")


def _load(kind: str, file: object, function: str) -> Callable[..., object]:
    """Load the function of a file.

    Raises:
        UsageError: There is no such file, or no such function in it.
    """
    path, file_function, _ = _locate(kind, file)
    name, content = file_function or function, _read(kind, path)
    if path.suffix != ".py":
        raise UsageError(f"{kind}: {file} is not a Python file")
    try:
        module: Any = _module(path, content)
        for part in name.split("."):
            module = getattr(module, part)
    except AttributeError:
        raise UsageError(f"{kind}: {file} has no function {name!r}") from None
    except ModuleNotFoundError as error:
        return _Unimportable(
            f"{kind}: {file} cannot be imported: {error}\n"
            f"  fix: install the package of {error.name!r}"
        )
    except Exception as error:  # noqa: BLE001 - the user's code raised it
        return _Unimportable(f"{kind}: {file} cannot be imported: {type(error).__name__}: {error}")
    if not callable(module):
        raise UsageError(f"{kind}: {name!r} of {file} is not a function")
    call: Callable[..., object] = module
    return call


def _python_contents(document: Mapping[str, object]) -> JSON:
    """The source of an assertion's file and of the project code that it uses."""
    file, kind = document["file"], "promptfoo_python"
    if file is None:
        return {}
    path, _, _ = _locate(kind, file)
    function = _load(kind, file, str(document["function"]))
    uses = [] if isinstance(function, _Unimportable) else [*sources_of(function)]
    return {"file": _read(kind, path), "uses": uses}


@rule(about="correctness", contents=_python_contents)
def promptfoo_python(
    code: str | None = None,
    *,
    file: str | None = None,
    function: str = "get_assert",
    pass_at: float | None = None,
    config: Mapping[str, JSON] | None = None,
    parse_json: bool = False,
) -> Check:
    """A Python assertion of promptfoo: `get_assert(output, context)` of a file, or inline code.

    It runs in the process of the run; `context` and results are those of `javascript`.
    `AssertionError`, `ValueError`, `TypeError` and errors of look-up or arithmetic fail the output;
    other exceptions give no verdict.

    Args:
        code: The expression or function body.
        file: The path of a Python file, or `path:function`.
        function: The function of the file.
        pass_at: The least number or score that passes; any number above 0 by default.
        config: The value of `context["config"]`.
        parse_json: `output` is the parsed value where the output is JSON.

    Fails as: false, low_score, threw, no_result

    >>> print(promptfoo_python("len(output) < 10").check_text("disk full"))
    pass: it returned true
    """
    kind = "promptfoo_python"
    _check_parameters(kind, code, file, pass_at)
    label = f"{kind}({quote(code, 40)})" if code is not None else f"{kind}({file})"
    call = _compile(kind, code) if code is not None else _load(kind, file, function)

    def check(output: JudgedOutput) -> Verdict:
        value = _output(output, parse_json=parse_json)
        if value is None:
            return output.no_text_verdict()
        context = _Context(_context(output, value, config))
        try:
            result = call(value, context)
            if asyncio.iscoroutine(result):
                from regauge.judges.external_calls import start_thread

                # The context of the run closes the network in a replay.
                context_run, coroutine = contextvars.copy_context().run, result
                result = start_thread(lambda: context_run(asyncio.run, coroutine)).result()
        except JudgeError:
            raise
        except _OUTPUT_ERRORS as error:
            return _threw(f"it raised {type(error).__name__}: {error}")
        except Exception as error:
            raise JudgeError(
                f"{label} raised {type(error).__name__}: {error}", judge=label
            ) from error
        return _verdict(_python_result(result), label=label, pass_at=pass_at, graded_too=True)

    return check


def _python_result(result: object) -> object:
    """Parse a text result as promptfoo does: a flag, a number or JSON."""
    if not isinstance(result, str):
        return result
    word = result.strip()
    if word.lower() in {"true", "false"}:
        return word.lower() == "true"
    try:
        return json.loads(word) if word.startswith("{") else float(word)
    except ValueError:
        return result
