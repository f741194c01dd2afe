"""Functions as judges."""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast, overload

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.judges._rule import Rule, advice_of_docstring, first_sentence
from regauge.judges._types import Verdict, broken_judge, failed, graded, passed
from regauge.judges.output import JudgedOutput, MissingValue
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion


JudgeResult: TypeAlias = "bool | float | Verdict | Mapping[str, object] | tuple[object, ...] | None"
"""The result of a judge function: see `as_judge`."""

JudgeFunction: TypeAlias = "Callable[..., JudgeResult] | Callable[..., Awaitable[JudgeResult]]"
"""A function that judges an output; its parameters are filled by name."""

ResultT = TypeVar("ResultT", bound="JudgeResult")


def _expected(output: JudgedOutput) -> object:
    expected = output.expected_at(())
    return None if isinstance(expected, MissingValue) else expected


# The values of parameters, by name.
_VALUES: Final[Mapping[str, Callable[[JudgedOutput], object]]] = {
    "output": lambda output: output.text,
    "case": lambda output: output.case,
    "expected": _expected,
    "inputs": lambda output: output.inputs,
    "completion": lambda output: output.completion,
}
_BY_PLACE: Final = ("output", "case")
_RESULT_KEYS: Final = {"pass", "passed", "score", "reason"}
_FORMS: Final = (
    "return True, False, a score from 0 to 1, a Verdict, (result, reason), or a dictionary with"
    " `pass` or `score`, and `reason`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReader:
    """Converts results to verdicts: `True`, 0.8, `(False, "reason")`, `{"score": 0.8}`.

    Attributes:
        label: The name of the judge, for reasons and errors.
        at_least: The least score that passes.
        forms: The accepted results, for errors.
    """

    label: str
    at_least: float
    forms: str = _FORMS

    def verdict(self, result: object) -> Verdict:
        """Convert a result to a verdict.

        Raises:
            JudgeError: The result is not a verdict.
        """
        if isinstance(result, Mapping):
            return self._from_mapping(cast("Mapping[str, Any]", result))
        if not isinstance(result, tuple):
            return self._from_value(result, "", result)
        pair = cast("tuple[object, ...]", result)
        if len(pair) != 2 or not isinstance(pair[1], str):  # noqa: PLR2004 - a result, a reason
            raise self.no_verdict(pair)
        return self._from_value(pair[0], pair[1], pair)

    def _from_mapping(self, result: Mapping[str, Any]) -> Verdict:
        flags = [result[key] for key in ("pass", "passed") if result.get(key) is not None]
        score, reason = result.get("score"), result.get("reason")
        flag = flags[0] if flags else None
        sound = all(isinstance(flag_value, bool) and flag_value is flag for flag_value in flags)
        sound = sound and {*result} <= _RESULT_KEYS and isinstance(reason, str | None)
        if not sound or (flag is None and score is None):
            raise self.no_verdict(result)
        if score is None:
            return self._from_value(flag, reason or "", result)
        verdict = self._from_value(score, reason or "", result)
        if flag is None or (verdict.outcome == "pass") is flag:
            return verdict
        # The flag decides; the score is only its degree.
        if flag:
            return passed(verdict.reason, score=verdict.score)
        return failed(verdict.reason, code=self.label, score=verdict.score)

    def _from_value(self, value: object, reason: str, result: object) -> Verdict:
        label = self.label
        if getattr(value, "shape", None) == ():
            value = cast("Any", value).item()  # a scalar of numpy or torch
        if isinstance(value, bool):
            if value:
                return passed(reason or f"{label} returned true")
            return failed(reason or f"{label} returned false", code=label)
        if isinstance(value, int | float) and 0 <= value <= 1:  # NaN is not
            reason = reason or f"{label} returned {value:g}, {self.at_least:g} wanted"
            return graded(float(value), at_least=self.at_least, reason=reason, code=label)
        raise self.no_verdict(result)

    def no_verdict(self, result: object, hint: str = "") -> JudgeError:
        """The error for a result that is not a verdict."""
        return JudgeError(
            f"{self.label} returned {result!r:.400}{hint}\n  {self.forms}",
            judge=self.label,
            raw=repr(result),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Function:
    """A function and the values of its parameters.

    Attributes:
        call: The function.
        results: The reader of its results.
        by_place: The names of the values of positional parameters.
        by_name: The names of the values of keyword parameters, by parameter.
        asserts: It contains an `assert`, so that returning None passes.
    """

    call: Callable[..., object]
    results: ResultReader
    by_place: tuple[str, ...]
    by_name: Mapping[str, str]
    asserts: bool

    @property
    def label(self) -> str:
        """The name of the judge, for reasons and errors."""
        return self.results.label

    def failure(self, error: Exception, output: JudgedOutput) -> Verdict:
        """Convert an assertion error to a verdict.

        Raises:
            JudgeError: It is another error.
        """
        if isinstance(error, JudgeError):
            raise error
        if isinstance(error, AssertionError):
            first = str(error).strip().partition("\n")[0]
            return failed(f"assertion: {first or self.label}", code=self.label)
        case = f" on case {output.case.id!r}" if output.case else ""
        is_empty = output.text is not None and not output.text.strip()
        place = f"{case} with an empty output" if is_empty else case
        text = f"{self.label} raised {type(error).__name__}{place}: {error}"
        raise broken_judge(text, error, judge=self.label) from error

    def call_with(self, output: JudgedOutput) -> object:
        """Call the function; an output without text has a verdict already.

        Raises:
            JudgeError: No case was given, and the function judges one.
        """
        value_names = {*self.by_place, *self.by_name.values()}
        if output.case is None and "case" in value_names:
            label = self.label
            raise JudgeError(f"{label}: a function judges a case; none was given", judge=label)
        if output.text is None and "output" in value_names:
            return output.no_text_verdict()
        return self.call(
            *(_VALUES[name](output) for name in self.by_place),
            **{key: _VALUES[name](output) for key, name in self.by_name.items()},
        )

    def verdict(self, result: object) -> Verdict:
        """Convert a result of the function to a verdict.

        Raises:
            JudgeError: The result is not a verdict.
        """
        if isinstance(result, Verdict):
            return result
        if result is None and self.asserts:
            return passed(f"every assertion of {self.label} holds")
        if result is None:
            raise self.results.no_verdict(
                None, "\n  it has no `assert`, and returns nothing: is a `return` missing?"
            )
        return self.results.verdict(result)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsyncFunctionJudge:
    """An `async` function as a judge.

    Attributes:
        name: The name in reports.
        digest: The digest of its source.
        description: The first line of its docstring.
    """

    function: _Function
    name: str
    digest: str
    description: str = ""

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: The function raised, or returned no verdict.
        """
        output = JudgedOutput.from_completion(completion, case)
        try:
            result = self.function.call_with(output)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - sorted by kind
            return self.function.failure(error, output)
        return self.function.verdict(result)


@overload
def as_judge(
    function: Callable[..., Awaitable[ResultT]], *, name: str | None = None, at_least: float = 0.5
) -> AsyncFunctionJudge: ...


@overload
def as_judge(
    function: Callable[..., ResultT], *, name: str | None = None, at_least: float = 0.5
) -> Rule: ...


def as_judge(
    function: Callable[..., object], *, name: str | None = None, at_least: float = 0.5
) -> Rule | AsyncFunctionJudge:
    """Make a judge of a function, sync or async.

    See [write a judge](../how-to/write-a-judge.md) for parameters and results. The digest covers
    its source, and that of the project code that it uses by name.

    Args:
        function: The function; in YAML, `package.module:function`.
        name: The name in reports.
        at_least: The least that passes.

    Raises:
        UsageError: A parameter of the function cannot be filled.

    >>> from regauge.judges import as_judge
    >>> def calm(output):
    ...     return "!" not in output, "an exclamation mark"
    >>> print(as_judge(calm).check_text("Help!"))
    fail: an exclamation mark
    """
    if not callable(function):
        raise UsageError(
            f"as_judge: {function!r} is not a function", fix="write package.module:function"
        )
    label: str = name or getattr(function, "__name__", "") or type(function).__name__
    by_place, by_name = _map_parameters(function, label)
    source = _source(function)
    function_of = _Function(
        call=function,
        results=ResultReader(label=label, at_least=at_least),
        by_place=by_place,
        by_name=by_name,
        asserts=_asserts(source),
    )
    identity: dict[str, JSON] = {"kind": "function", "name": label, "least": at_least}
    if helpers := _helper_sources(function):
        identity["helpers"] = helpers
    digest = digest_of({**identity, "source": source})
    if _is_async(function):
        return AsyncFunctionJudge(
            function=function_of,
            name=label,
            digest=digest,
            description=first_sentence(function.__doc__),
        )

    def examine(output: JudgedOutput) -> Verdict:
        try:
            result = function_of.call_with(output)
        except Exception as error:  # noqa: BLE001 - sorted by kind
            return function_of.failure(error, output)
        return function_of.verdict(result)

    return Rule(
        kind="function",
        params={},
        name=label,
        digest=digest,
        examine=examine,
        description=first_sentence(function.__doc__),
        compose=advice_of_docstring,
    )


def as_rule(value: object) -> object:
    """Convert a function to a rule, for combinations; return anything else unchanged.

    Raises:
        UsageError: The function is `async`, or one of its parameters cannot be filled.
    """
    if isinstance(value, Rule | type) or hasattr(value, "judge") or not callable(value):
        return value
    if _is_async(value):
        raise UsageError(
            f"{getattr(value, '__name__', value)} is async, and only rules can be combined\n"
            "  fix: give it to the eval on its own"
        )
    return as_judge(cast("Callable[..., bool]", value))


def _map_parameters(
    function: Callable[..., object], label: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of the values for a function's parameters, positional and by keyword.

    Raises:
        UsageError: A parameter cannot be filled.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return _BY_PLACE, {}  # written in C, without a signature
    by_name = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    by_place = [
        parameter
        for parameter in parameters
        if parameter.kind in {parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    ]
    if (
        any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        and not by_place
        and not by_name
    ):
        return _BY_PLACE, {}
    if not any(_value_name(parameter) for parameter in parameters):
        required = [parameter for parameter in by_place if parameter.default is parameter.empty]
        _refuse(required[len(_BY_PLACE) :] + _find_unfillable(by_name), function, label)
        return _BY_PLACE[: len(required)], {}
    _refuse(_find_unfillable([*by_place, *by_name]), function, label)
    positional = [*takewhile(_value_name, by_place)]
    return (
        tuple(map(_value_name, positional)),
        {
            parameter.name: _value_name(parameter)
            for parameter in [*by_place[len(positional) :], *by_name]
            if _value_name(parameter)
        },
    )


def _value_name(parameter: inspect.Parameter) -> str:
    """The name of the value for a parameter; empty for none."""
    name = parameter.name.strip("_")
    return name if name in _VALUES else ""


def _find_unfillable(parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters with neither a default nor a value."""
    return [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and not _value_name(parameter)
    ]


def _refuse(
    unfilled: Sequence[inspect.Parameter], function: Callable[..., object], label: str
) -> None:
    if not unfilled:
        return
    name = unfilled[0].name
    near = did_you_mean(name, _VALUES)
    raise UsageError(
        f"{label}: nothing fills the parameter {name!r} of the function at {_place(function)}\n"
        f"  fix: take parameters of these names: {', '.join(_VALUES)}"
        + (f"; {near}" if near else "")
    )


def _is_async(function: Callable[..., object]) -> bool:
    call: object = getattr(type(function), "__call__", None)  # noqa: B004 - of a callable object
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        call
    )


def _asserts(source: str) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return False  # a lambda in the middle of an expression has no assertions
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def _source(function: object) -> str:
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]  # any callable may come
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return json.dumps([type(function).__module__, type(function).__qualname__])
        return repr((code.co_code, code.co_names, [str(part) for part in code.co_consts]))


def sources_of(function: object) -> list[str]:
    """The source of a function, and of the project's code that it uses."""
    return [_source(function), *_helper_sources(function)]


def _helper_sources(function: object) -> list[str]:
    """The source of the project code that a function uses by name, without installed packages."""
    sources: set[str] = set()
    waiting = [inspect.unwrap(function)] if callable(function) else []
    seen = {*map(id, waiting)}
    while waiting:
        current = waiting.pop()
        code = getattr(current, "__code__", None)
        if code is None or not _is_project_file(code.co_filename):
            continue
        names = {*_names_in(code)}
        scope = {name: current.__globals__[name] for name in names & {*current.__globals__}}
        sources |= {*_assignments(current.__globals__, names)}
        for module in [value for value in scope.values() if isinstance(value, ModuleType)]:
            file = getattr(module, "__file__", None)
            if _is_project_file(file):
                scope |= {name: vars(module)[name] for name in names & {*vars(module)}}
                sources |= {*_assignments(vars(module), names)}
        for value in scope.values():
            helper = inspect.unwrap(value) if callable(value) else value
            if not isinstance(helper, FunctionType | type) or id(helper) in seen:
                continue
            seen.add(id(helper))
            file = getattr(sys.modules.get(helper.__module__), "__file__", None)
            members: Iterable[object] = [helper]
            if isinstance(helper, type):
                members = vars(helper).values() if _is_project_file(file) else ()
            functions = [member for member in members if isinstance(member, FunctionType)]
            if any(_is_project_file(member.__code__.co_filename) for member in functions):
                sources.add(_source(helper))
            waiting += functions
    return sorted(sources - {_source(function)})


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that code reads, also in functions that it defines."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names_in(part)


def _assignments(
    scope: Mapping[str, object], names: set[str], *, seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """The source of the assignments to names at the top of a module, its own and imported ones."""
    file = str(scope.get("__file__"))
    if file in seen or not _is_project_file(file):
        return
    for node in _parse_file(file).body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = (name for name in ast.walk(node) if isinstance(name, ast.Name))
            if any(name.id in names for name in targets if isinstance(name.ctx, ast.Store)):
                yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            source = sys.modules.get(_absolute_name(node, str(scope.get("__package__") or "")))
            imported = {alias.name for alias in node.names if (alias.asname or alias.name) in names}
            if source is not None and imported:
                yield from _assignments(vars(source), imported, seen=seen | {file})


def _absolute_name(node: ast.ImportFrom, package: str) -> str:
    parents = package.split(".")[: 1 - node.level or None] if node.level else []
    return ".".join(filter(None, [*parents, node.module]))


def _parse_file(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _is_project_file(file: str | None) -> bool:
    """Return whether a file is outside Python, regauge and installed packages."""
    if file is None or not Path(file).is_file():
        return False
    paths = sysconfig.get_paths()
    library_dirs = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    library_dirs.append(str(Path(__file__).parents[1]))
    return not any(Path(file).is_relative_to(other) for other in library_dirs)


def _place(function: object) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
