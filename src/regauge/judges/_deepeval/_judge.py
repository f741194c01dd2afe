"""A deepeval metric as a judge: measured through the run, with a threshold for its verdict."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import functools
import hashlib
import importlib
import inspect
import logging
import math
import sys
import threading
from collections.abc import Mapping, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.util import find_spec, module_from_spec
from pathlib import Path, PurePath
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from regauge.digests import digest_of
from regauge.errors import JudgeError, RegaugeError, UnmeasuredError, UsageError
from regauge.judges._deepeval import FIELDS, METRICS
from regauge.judges._deepeval._requests import MetricCalls, texts_in
from regauge.judges._types import (
    Measurement,
    RunOnlyJudge,
    Verdict,
    abstained,
    failed,
    format_number,
    passed,
    truncate_value,
)
from regauge.judges.output import JudgedOutput
from regauge.strict_json import as_list, is_list, is_mapping
from regauge.wording import did_you_mean, plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._deepeval import Fields
    from regauge.judges._types import JudgeCalls
    from regauge.providers import Completion, ModelId


_NAME: Final = "deepeval"  # of the package, and of its logger


@functools.cache
def _folder() -> Path:
    spec = find_spec(_NAME)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@functools.cache
def installed_version() -> str:
    """The version, from the package's metadata."""
    from importlib.metadata import version  # it takes 20 ms

    return version(_NAME)


@functools.cache
def templates_digest() -> str:
    """The SHA-256 of the metrics' prompt templates."""
    total = hashlib.sha256()
    folder = _folder() / "templates" / "metrics"
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@functools.cache
def _find_metric_names() -> tuple[str, ...]:
    """The names in `deepeval.metrics.__all__`, read from the source.

    Raises:
        UsageError: The installed version has no such list.
    """
    path = _folder() / "metrics" / "__init__.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return tuple(name for name in names if name not in METRICS.words("no_metrics"))
    message = f"deepeval {installed_version()} no longer lists its metrics in {path}"
    raise UsageError(message, fix="pip install 'deepeval==4.3.1', or install a newer regauge")


def metric_name(name: str) -> str:
    """The full name of a metric; `Metric` at its end may be left out.

    Raises:
        UsageError: The installed deepeval has no such metric.

    >>> metric_name("Faithfulness")
    'FaithfulnessMetric'
    """
    exported = _find_metric_names()
    for full in (name, f"{name}Metric"):
        if full in exported:
            return full
    both_forms = [*exported, *(full.removesuffix("Metric") for full in exported)]
    hint = did_you_mean(name, both_forms) or "deepeval.metrics has them all"
    raise UsageError(f"deepeval {installed_version()} has no metric {name!r}; {hint}")


def kind_of(metric: object) -> str:
    """The full name of one of deepeval's metrics; empty for a project's metric.

    Args:
        metric: The full name, a class, a metric, or a factory.

    >>> kind_of("FaithfulnessMetric")
    'FaithfulnessMetric'
    """
    if isinstance(metric, str):
        return metric
    kind: type = metric if isinstance(metric, type) else type(metric)
    return kind.__name__ if kind.__module__.partition(".")[0] == "deepeval" else ""


def _class_in(path: Path, name: str) -> ast.ClassDef | None:
    statements = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    classes = [part for part in statements if isinstance(part, ast.ClassDef)]
    return next((part for part in classes if part.name == name), None)


@functools.cache
def _option_names(metric: str) -> frozenset[str]:
    """The arguments of a metric's class, read from the source; empty if they are not there."""
    folder = _folder() / "metrics"
    imports = ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body
    for part in imports:
        if isinstance(part, ast.ImportFrom) and metric in {alias.name for alias in part.names}:
            path = folder / f"{str(part.module).replace('.', '/')}.py"
            for method in getattr(_class_in(path, metric), "body", ()):
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    names = [name.arg for name in (*method.args.args, *method.args.kwonlyargs)]
                    return frozenset(() if method.args.kwarg else names[1:])
    return frozenset()


_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "GEval": ("llm_test_case", "SingleTurnParams"),
    "ArenaGEval": ("llm_test_case", "SingleTurnParams"),
    "ConversationalGEval": ("conversational_test_case", "MultiTurnParams"),
    "ToolCorrectnessMetric": ("llm_test_case", "ToolCallParams"),
}


@functools.cache
def _part_names(metric: str) -> tuple[str, ...]:
    """The values of `evaluation_params`, read from the source; empty if they are not there."""
    module, name = _PARTS.get(metric, ("", ""))
    members = getattr(_class_in(_folder() / "test_case" / f"{module}.py", name), "body", ())
    return tuple(
        part.value.value
        for part in members
        if isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def check_options(metric: object, options: Mapping[str, Any], *, label: str) -> None:
    """Check the options of one of deepeval's metrics, without an import of deepeval.

    Raises:
        UsageError: The metric takes no such option, or cannot work with its value.
    """
    kind = kind_of(metric) if options else ""
    names = _option_names(kind) if kind else frozenset[str]()
    if names and (unknown := next((option for option in options if option not in names), "")):
        hint = did_you_mean(unknown, names) or "remove it"
        raise UsageError(f"{label}: {kind} takes no option {unknown!r}; {hint}")
    for option in ("criteria", "evaluation_steps", "evaluation_params"):
        value: object = options.get(option)
        blank = not value.strip() if isinstance(value, str) else value in ([], ())
        if kind.endswith("GEval") and blank:
            raise UsageError(f"{label}: {option} is empty; write it, or remove {option}")
    allowed = _part_names(kind)
    for part in as_list(options.get("evaluation_params") or []):
        if allowed and isinstance(part, str) and part not in allowed:
            hint = did_you_mean(part, allowed) or f"there are {', '.join(allowed)}"
            raise UsageError(f"{label}: evaluation_params has no {part!r}; {hint}")


def calls_model(metric: object, options: Mapping[str, Any]) -> bool:
    """Return whether a metric calls a model, by its kind and options.

    >>> calls_model("ExactMatchMetric", {}), calls_model("FaithfulnessMetric", {})
    (False, True)
    """
    match kind_of(metric):
        case "JsonCorrectnessMetric":  # the model only writes the reason
            return bool(options.get("include_reason", getattr(metric, "include_reason", False)))
        case "ToolCorrectnessMetric":
            return bool(options.get("available_tools", getattr(metric, "available_tools", None)))
        case name:
            return name not in METRICS.words("no_model")


_PLAIN: Final = (bool, int, str, type(None))


def fingerprint(value: object) -> JSON:
    """A value as JSON that changes with everything that can change a measurement.

    Functions are represented by their source and enclosed values, classes by their source. Objects
    are represented by class and public attributes, without results, model and threshold. Shared and
    circular references are numbered, so a graph differs from a tree.

    >>> fingerprint({"steps": ["look"], "limit": 2})
    {'steps': ['look'], 'limit': 2}
    """
    return _Walk().to_json(value)


class _Walk:
    """Converts one value to JSON."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._visited: list[object] = []  # an id is only unique while its object lives

    def to_json(self, value: object) -> JSON:  # noqa: C901, PLR0911 - one per type
        if isinstance(value, Enum):
            return self.to_json(value.value)
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, PurePath):
            return value.as_posix()
        if isinstance(value, type):
            return {"source": _source(value)}
        if id(value) in self._seen:
            return {"again": self._seen[id(value)]}
        self._seen[id(value)] = len(self._seen)
        self._visited.append(value)
        if inspect.isroutine(value):
            return self._function(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            if all(isinstance(key, str) for key in pairs):
                return {str(key): self.to_json(part) for key, part in pairs.items()}
            return [[self.to_json(key), self.to_json(part)] for key, part in pairs.items()]
        if isinstance(value, (list, tuple)):
            return [self.to_json(part) for part in cast("list[object]", value)]
        if isinstance(value, AbstractSet):
            return sorted(
                (self.to_json(part) for part in cast("AbstractSet[object]", value)), key=str
            )
        return self._object(value)

    def _function(self, value: Any) -> JSON:
        """The source of a function, with a lambda's constants and a closure's values."""
        code: CodeType | None = getattr(value, "__code__", None)
        document: dict[str, JSON] = {"source": _source(value)}
        if code is not None:
            # Only lambdas share lines; pytest rewrites the code of other functions with asserts.
            if code.co_name == "<lambda>":
                document["constants"] = _constants(code)
            cells: tuple[CellType, ...] = getattr(value, "__closure__", None) or ()
            # A cell without a value equals an empty one.
            document["encloses"] = [
                self.to_json(cell.cell_contents) for cell in cells if cell != CellType()
            ]
        return document

    def _object(self, value: object) -> JSON:
        attributes: dict[str, Any] = getattr(value, "__dict__", {})
        return {
            "class": self.to_json(type(value)),
            "with": {
                name: self.to_json(attributes[name])
                for name in sorted(attributes)
                if not name.startswith("_") and name not in METRICS.words("results")
            },
        }


def _source(value: Any) -> str:
    """The source of a project's function or class; the name of a library's."""
    name = f"{value.__module__}.{value.__qualname__}"
    if str(value.__module__).partition(".")[0] in {"deepeval", "builtins", "pydantic"}:
        return name
    try:
        return f"{name}\n{inspect.getsource(value)}"
    except (OSError, TypeError):
        return name


def _constants(code: CodeType) -> list[JSON]:
    """The constants in a function and in functions within it, by name and value."""
    return [*code.co_names, *(_constant(value) for value in code.co_consts)]


def _constant(value: object) -> JSON:
    if isinstance(value, CodeType):
        return _constants(value)
    if isinstance(value, frozenset):  # its order differs between processes
        return sorted(repr(part) for part in cast("frozenset[object]", value))
    return repr(value)


_SETTINGS_MODULE: Final = "deepeval.config.settings"
_BUILT_ON_IT: Final = "regauge.judges._deepeval.live"
_QUIET: Final = "it keeps telemetry, .env files and key files out of the run"
SETTINGS: Final[Mapping[str, Any]] = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": True,
    "DEEPEVAL_DISABLE_DOTENV": True,
    "DEEPEVAL_EVAL_MODE": "llm",
    "DEEPEVAL_MODE": "stable",
    "DEEPEVAL_DISABLE_TIMEOUTS": True,  # providers and the run have their own
    "DEEPEVAL_GRPC_LOGGING": True,  # otherwise it sets variables of gRPC
    "DEEPEVAL_VERBOSE_MODE": False,
    "CONFIDENT_OPEN_BROWSER": False,
    "LOG_LEVEL": logging.CRITICAL,
}
"""deepeval's settings, independent of the environment; all others have their defaults."""

_lock: Final = threading.Lock()


def moved_error(name: str, purpose: str) -> JudgeError:
    """The error for a part of deepeval that the installed version has moved.

    Args:
        name: The path of the part.
        purpose: The reason why regauge needs it.
    """
    return JudgeError(
        f"deepeval {installed_version()} has moved or changed {name!r}, which regauge needs:"
        f" {purpose}\n  fix: pip install 'deepeval==4.3.1', or install a newer regauge",
        judge=_NAME,
    )


def require_part(owner: Any, name: str, purpose: str) -> Any:
    """Return an undocumented part of deepeval.

    Args:
        owner: Its module or class.
        name: Its name there.
        purpose: The reason why regauge needs it.

    Raises:
        JudgeError: The installed version does not have it there.
    """
    if not hasattr(owner, name):
        module = getattr(owner, "__module__", "")
        place = f"{module}.{owner.__qualname__}" if module else owner.__name__
        raise moved_error(f"{place}.{name}", purpose)
    return getattr(owner, name)


def is_loaded() -> bool:
    """Return whether `load` is finished in this process."""
    return _BUILT_ON_IT in sys.modules and hasattr(sys.modules[_BUILT_ON_IT], "LOADED")


def import_requests() -> None:
    """Import deepeval's HTTP library, in the thread of the run.

    requests filters one of its warnings while it is imported. Filters apply to the whole process:
    imported in another thread, it would show the warning in a test that ends meanwhile.
    """
    with suppress(ImportError):
        importlib.import_module("requests")


def load() -> None:
    """Import deepeval and the modules that use it, once and quietly; from any thread.

    Raises:
        JudgeError: The installed version has moved a part that regauge needs.
        ImportError: A dependency of deepeval is not installed.
    """
    try:
        import_quietly()
        importlib.import_module(_BUILT_ON_IT)
    except ImportError as error:
        if error.name is None or not error.name.startswith(f"{_NAME}."):
            raise
        missing = str(getattr(error, "name_from", None) or "")  # of Python 3.12 and newer
        raise moved_error(f"{error.name}.{missing}".rstrip("."), "its judges import it") from error


def import_quietly() -> None:
    """Import deepeval alone; a judge needs `load`.

    Raises:
        JudgeError: The installed version has moved its settings.
        ImportError: A dependency of deepeval is not installed.
    """
    with _lock:
        ahead = {} if _NAME in sys.modules else _settings_ahead()
        package = importlib.import_module(_NAME)
        importlib.import_module(f"{_NAME}.metrics")
        for name, module in ahead.items():  # loaded before their package
            vars(package).setdefault(name, module)
        settings: Any = importlib.import_module(_SETTINGS_MODULE)
        if not getattr(settings, "_regauge_settled", False):  # the project imported it itself
            _fix_settings(settings)
        # Set after the import, during which it would print a message.
        settings.get_settings().DEEPEVAL_FILE_SYSTEM = "READ_ONLY"


def _settings_ahead() -> dict[str, ModuleType]:
    """Load and fix the settings before the package, which reads them at its first line.

    Returns:
        The loaded modules of the package, by name.
    """
    spec = find_spec(_NAME)
    assert spec is not None
    sys.modules[_NAME] = module_from_spec(spec)  # finds its modules without running the package
    try:
        _fix_settings(importlib.import_module(_SETTINGS_MODULE))
    except BaseException:
        for name in [name for name in sys.modules if name.startswith(f"{_NAME}.")]:
            del sys.modules[name]
        raise
    finally:
        del sys.modules[_NAME]
    return {
        name.partition(".")[2]: module
        for name, module in sys.modules.items()
        if name.startswith(f"{_NAME}.") and name.count(".") == 1
    }


def _fix_settings(settings: ModuleType) -> None:
    """Fix the settings, so that deepeval neither reads nor writes the environment."""
    module: Any = settings
    fields = require_part(require_part(module, "Settings", _QUIET), "model_fields", _QUIET)
    for name in SETTINGS:
        if name not in fields:
            raise moved_error(f"{_SETTINGS_MODULE}.Settings.{name}", _QUIET)
    for name in ("autoload_dotenv", "_merge_legacy_keyfile_into_env", "_calc_env_fingerprint"):
        require_part(module, name, _QUIET)
    require_part(module, "_settings_singleton", _QUIET)
    require_part(module, "get_settings", _QUIET)
    module.autoload_dotenv = _do_nothing
    module._merge_legacy_keyfile_into_env = _do_nothing  # noqa: SLF001 - no public switch is enough
    module._calc_env_fingerprint = lambda: "regauge"  # noqa: SLF001
    module.Settings.settings_customise_sources = staticmethod(_sources)
    module._settings_singleton = None  # noqa: SLF001
    module._regauge_settled = True  # noqa: SLF001
    logging.getLogger(_NAME).setLevel(logging.CRITICAL)


def _do_nothing(*_: object, **__: object) -> None:
    return None


def _sources(settings_cls: Any, *_: object, **__: object) -> tuple[Any, ...]:
    """The only source of settings: `SETTINGS`."""
    from pydantic_settings import InitSettingsSource

    return (InitSettingsSource(settings_cls, init_kwargs=dict(SETTINGS)),)


_VERSION: Final = 2  # increased when this adapter may measure differently
# deepeval's own threshold, and the calls of most of its metrics, for estimates.
_THRESHOLD: Final = 0.5
_USUAL_CALLS: Final = 3
_VERDICTS_SHOWN_MAX: Final = 50  # verdicts shown of one measurement


@dataclass(frozen=True, kw_only=True)
class DeepevalJudge(RunOnlyJudge):
    """A judge with a deepeval metric, bound to a project.

    Attributes:
        metric: deepeval's name for it, a class, a factory, or a metric to copy.
        options: The arguments of its class.
        fields: The sources of the test case's fields.
        model: The judge's model; None for metrics that make no calls.
        parameters: The parameters of its calls.
        threshold: The passing score; None for the metric's own.
        measurement_digest: The digest of metric, options, fields, model, parameters, and deepeval's
            version and prompts.
    """

    metric: Any
    options: Mapping[str, Any]
    fields: Fields
    model: ModelId | None
    parameters: Mapping[str, JSON]
    threshold: float | None
    measurement_digest: str = field(init=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as `provider:model`."""
        return (str(self.model),) if self.model else ()

    @property
    def usual_calls(self) -> int:
        """The expected calls: extraction, verdicts, explanation; for `GEval` steps and score."""
        if self.metric != "GEval":
            return _USUAL_CALLS
        return 1 if "evaluation_steps" in self.options else 2

    def __post_init__(self) -> None:
        # Version 2 ignored the parameters of this metric.
        is_newer = self.metric == "ToolCorrectnessMetric" and "evaluation_params" in self.options
        # Computed once, since it includes the sources of a project's metrics.
        digest = digest_of(
            {
                "kind": "deepeval",
                "version": _VERSION + is_newer,
                "metric": fingerprint(self.metric),
                "options": fingerprint(self.options),
                "fields": self.fields.to_json(),
                "model": str(self.model),
                "parameters": dict(self.parameters),
                "deepeval": installed_version(),
                "templates": templates_digest(),
            }
        )
        object.__setattr__(self, "measurement_digest", digest)

    def _identity(self) -> dict[str, JSON]:
        return {"measurement": self.measurement_digest, "threshold": self.threshold}

    def prepare(self) -> None:
        """Import deepeval, which takes a second or two."""
        load()

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Measure, and compare the score with the threshold.

        Raises:
            JudgeError: The measurement failed.
            UnmeasuredError: The model could not be called.
        """
        return self.verdict_of(await self.measure_with(completion, case, calls))

    async def measure_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Measurement:
        """Run the metric on one completion of one case.

        Raises:
            JudgeError: A field is missing, a response is unreadable, or the metric failed.
            UnmeasuredError: The model could not be called.
        """
        if not (completion.text or "").strip() and not completion.tool_calls:
            empty = JudgedOutput.from_completion(completion, case).no_text_verdict()
            code = empty.code if completion.text is None else "no_text"
            return Measurement(score=None, reason=empty.reason, details={"code": code})
        fields = self.fields.values(completion, case)
        if not is_loaded():
            import_requests()
            await in_own_thread(self.prepare)
        from regauge.judges._deepeval import live

        metric_calls = MetricCalls(
            calls,
            model=self._call_model(),
            parameters=self.parameters,
            judge=self.name,
            seed=digest_of({"judge": self.measurement_digest, "fields": fields}),
        )
        try:
            with live.route_calls(metric_calls):
                metric = self._make(live)
                test_case = live.make_test_case(metric, fields)
                metric_calls.set_fields(_shown_fields(fields, test_case))
                metric = await live.run_metric(metric, test_case, lambda: self._make(live))
                if kind_of(metric) and metric_calls.bypassed_templates:
                    raise moved_error(live.TEMPLATES, live.FENCES)  # noqa: TRY301 - as any other failure
                better = live.higher_is_better(metric)
                winner = getattr(metric, "winner", None) if live.is_arena(metric) else None
        except asyncio.CancelledError:
            metric_calls.abandon()
            raise
        except Exception as error:  # noqa: BLE001 - of a metric, which may be the user's
            await metric_calls.close()
            failure = self._failure(metric_calls.failure or error, case, metrics=live)
            raise failure from failure.__cause__
        await metric_calls.close()
        if metric_calls.failure is not None:  # the metric hid the error
            failure = self._failure(metric_calls.failure, case, metrics=live)
            raise failure from failure.__cause__
        score = metric.score if winner is None else float(winner == "answer")
        count = _check_metric(metric, score, test_case, judge=self.name)
        return _make_measurement(metric, score, count, better=better)

    def verdict_of(self, measurement: Measurement) -> Verdict:
        """Compare a measured score with the threshold.

        Raises:
            JudgeError: The score is not from 0 to 1.
        """
        details = measurement.details
        if measurement.score is None:
            code = str(details.get("code") or "nothing_to_judge")
            if code in {"no_text", "refused"}:
                return failed(measurement.reason, code=code)
            return abstained(measurement.reason, code=code)
        score = float(measurement.score)
        if not 0 <= score <= 1:
            raise JudgeError(f"{self.name}: {score!r} is not a score from 0 to 1", judge=self.name)
        limit = self.threshold
        if limit is None:
            metric_limit = details.get("threshold")
            limit = float(metric_limit) if isinstance(metric_limit, (int, float)) else _THRESHOLD
        rising = details.get("better") != "lower"
        passes = score >= limit if rising else score <= limit
        limit_text = f"{'at least' if rising else 'at most'} {format_number(limit)} wanted"
        explanation = f": {measurement.reason}" if measurement.reason else ""
        reason = f"{self.name} {format_number(score)}, {limit_text}{explanation}"
        judge_score = score if rising else 1 - score
        verdict = (
            passed(reason, score=judge_score, actual=format_number(score))
            if passes
            else failed(
                reason,
                code="below_threshold" if rising else "above_threshold",
                score=judge_score,
                expected=limit_text,
                actual=format_number(score),
            )
        )
        facts = {name: details[name] for name in ("metric", "judged") if name in details}
        return replace(verdict, details={**verdict.details, **facts})

    def _call_model(self) -> ModelId:
        from regauge.providers import ModelId

        return self.model or ModelId(provider="none", model="none")

    def _make(self, metrics: Any) -> Any:
        return metrics.make_metric(
            self.metric, self.options, name=self.name, fields=tuple(self.fields.paths)
        )

    def _failure(self, error: Exception, case: GoldenCase, *, metrics: Any) -> Exception:
        """The error of a measurement as one of regauge's errors, with its cause."""
        if isinstance(error, UnmeasuredError):
            return error  # never its own cause: deepeval follows causes to their end
        explained = self._explain(error, case, metrics=metrics)
        explained.__cause__ = error
        return explained

    def _explain(self, error: Exception, case: GoldenCase, *, metrics: Any) -> JudgeError:
        if isinstance(error, RegaugeError):
            return JudgeError(str(error), judge=self.name)
        if isinstance(error, metrics.MissingTestCaseParamsError):
            missing = [name for name in FIELDS if f"'{name}'" in str(error)]
            names = ", ".join(map(repr, missing))
            places = ", ".join(f'"{name}": "inputs.{name}"' for name in missing)
            return JudgeError(
                f"{self.name}: case {case.id!r} has no {names}, which the metric requires"
                f" ({case.location})\n  fix: add it to the case, or name its place in the judge:"
                f" fields={{{places}}}"
                if missing
                else f"{self.name}: case {case.id!r} cannot be judged: {error} ({case.location})",
                judge=self.name,
            )
        if isinstance(error, KeyError):
            return JudgeError(
                f"{self.name}: a name in a response of {self.model} is unknown or missing: {error}",
                judge=self.name,
            )
        return JudgeError(
            f"{self.name} broke on case {case.id!r}: {type(error).__name__}: {error}",
            judge=self.name,
        )


async def in_own_thread(work: Callable[[], object]) -> None:
    """Run blocking work in its own thread; the loop's few threads also look up hosts."""
    from regauge.judges.external_calls import start_thread

    context_run = contextvars.copy_context().run
    await asyncio.wrap_future(start_thread(functools.partial(context_run, work)))


def _shown_fields(fields: Mapping[str, JSON], test_case: object) -> dict[str, str]:
    """The fields as in prompts: those of the test case, and each text in them."""
    settings = {
        name: str(value)
        for name in FIELDS
        if (value := getattr(test_case, name, None)) is not None and str(value).strip()
    }
    for name, value in fields.items():
        for place, text in enumerate(texts_in(value)):
            settings.setdefault(f"{name}{place}" if place else name, text)
    return settings


def _make_measurement(metric: Any, score: Any, count: _ItemCount, *, better: bool) -> Measurement:
    details: dict[str, JSON] = {
        "metric": str(getattr(metric, "__name__", type(metric).__name__)),
        "threshold": getattr(metric, "threshold", None),
        "better": "higher" if better else "lower",
    }
    if count.number is not None:
        details["judged"] = {"what": count.noun, "count": count.number}
    verdicts: object = getattr(metric, "verdicts", None)
    if is_list(verdicts) and verdicts:
        details["verdicts"] = [*map(_describe, verdicts[:_VERDICTS_SHOWN_MAX])]
    breakdown: object = getattr(metric, "score_breakdown", None)
    if is_mapping(breakdown):
        texts = {str(key): str(part) for key, part in breakdown.items()}
        details["breakdown"] = truncate_value(texts)
    reason = " ".join(str(getattr(metric, "reason", None) or "").split())
    if count.vacuous:
        return Measurement(
            score=None,
            reason=f"nothing to judge: {plural(0, count.noun.rstrip('s'))} in the output",
            details={**details, "code": "nothing_to_judge", "score": float(score)},
        )
    return Measurement(score=float(score), reason=reason, details=details)


def _describe(verdict: Any) -> JSON:
    dump = getattr(verdict, "model_dump", None)
    value: Any = dump(mode="json") if callable(dump) else str(verdict)
    return truncate_value(value)


class _ItemCount(NamedTuple):
    """The number of items that a metric judged.

    Attributes:
        noun: The noun for them, such as `claims`; empty if the metric counts no items.
        number: Their number; None if the metric counts no items.
        vacuous: Whether there was nothing to judge, so that the score is meaningless.
    """

    noun: str = ""
    number: int | None = None
    vacuous: bool = False


def _check_metric(metric: Any, score: object, test_case: Any, *, judge: str) -> _ItemCount:
    """Check a finished metric and count its items.

    Raises:
        JudgeError: The score is not from 0 to 1, the number of verdicts does not match, or the
            installed deepeval has moved them.
    """
    if type(score) not in {int, float, bool} or not math.isfinite(float(score)):  # type: ignore[arg-type]  # it is a number
        raise _broken_error(judge, f"its score is {score!r}, which is not a number")
    number = float(score)  # type: ignore[arg-type]  # it is a number
    if not 0 <= number <= 1:
        raise _broken_error(judge, f"its score is {number:g}, which is not from 0 to 1")
    kind = kind_of(metric)
    items_name = METRICS.entry("items").get(kind)
    verdicts = _verdicts(metric)
    if items_name and (verdicts is None or _list(getattr(metric, items_name, None)) is None):
        raise moved_error(f"{kind}.{items_name}", "a measurement without items is not evidence")
    if verdicts is None:
        return _ItemCount()
    questions, question_verdicts = (
        _list(getattr(metric, name, None)) for name in ("assessment_questions", "coverage_verdicts")
    )
    if questions is not None and question_verdicts is not None:
        _check_count(judge, len(question_verdicts), len(questions), "questions")
    judged_items = METRICS.entry("judged_items")
    for name in (*judged_items, *METRICS.entry("found_items")):
        items = _list(getattr(metric, name, None))
        if items is not None:
            _check_count(judge, len(verdicts), len(items), name)
            return _ItemCount(name, len(items), vacuous=not items and name in judged_items)
    for base in type(metric).__mro__:
        if part := METRICS.entry("per_part").get(base.__name__):
            items = _list(getattr(test_case, part, None)) or []
            _check_count(judge, len(verdicts), len(items), f"entries of {part}")
    return _ItemCount("verdicts", len(verdicts), vacuous=not verdicts)


def _verdicts(metric: Any) -> list[Any] | None:
    for attribute in ("verdicts", "alignment_verdicts"):
        steps = _list(getattr(metric, attribute, None))
        if steps is not None:
            return steps
    groups = _list(getattr(metric, "verdicts_list", None))
    if groups is None:
        return None
    return [verdict for group in groups for verdict in group.verdicts]


def _list(value: object) -> list[Any] | None:
    return value if is_list(value) else None


def _check_count(judge: str, verdicts: int, items: int, noun: str) -> None:
    if verdicts != items:
        raise _broken_error(
            judge, f"the model gave {plural(verdicts, 'verdict')} for {items} {noun}"
        )


def _broken_error(judge: str, reason: str) -> JudgeError:
    return JudgeError(
        f"{judge}: the measurement cannot be trusted: {reason}\n"
        "  fix: see the judge's responses in fixtures/recordings/judges, or use a better judge"
        " model",
        judge=judge,
    )
