"""The installed deepeval: what its metrics are without an import, and how it is imported.

deepeval reads its settings while it is imported: from the environment, where it trips over common
names such as `LOG_LEVEL`, from `.env` files and from a key file, whose content it puts into
`os.environ`. So its settings module is loaded first and fixed: no telemetry, no files, no prints.
The environment of the process is neither changed nor consulted.

This and more rests on parts of deepeval that it does not document. Each goes through `part`, which
names the version that moved it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import logging
import math
import sys
import threading
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from importlib.util import find_spec, module_from_spec
from pathlib import Path, PurePath
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._deepeval import METRICS
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

    from regauge.digests import JSON


_INSTALL: Final = "\n  fix: install it: pip install 'deepeval>=4.3,<5'"


@functools.cache
def _folder() -> Path:
    spec = find_spec("deepeval")
    if spec is None or spec.origin is None:
        raise UsageError(f"deepeval is not installed{_INSTALL}")
    return Path(spec.origin).parent


@functools.cache
def installed_version() -> str:
    """The version, from the package's metadata.

    Raises:
        UsageError: deepeval is not installed.
    """
    from importlib.metadata import PackageNotFoundError, version  # it takes 20 ms

    try:
        return version("deepeval")
    except PackageNotFoundError as error:
        raise UsageError(f"deepeval is not installed{_INSTALL}") from error


@functools.cache
def templates_digest() -> str:
    """The SHA-256 of the prompt templates that metrics are made of.

    Raises:
        UsageError: deepeval is not installed.
    """
    total = hashlib.sha256()
    folder = _folder() / "templates" / "metrics"
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@functools.cache
def _exported() -> tuple[str, ...]:
    """The names of `deepeval.metrics.__all__`, read from the source.

    Raises:
        UsageError: The list is not where it was.
    """
    path = _folder() / "metrics" / "__init__.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets
        ):
            names: list[str] = ast.literal_eval(statement.value)
            return tuple(name for name in names if name not in METRICS.words("no_metrics"))
    raise UsageError(
        f"deepeval {installed_version()} no longer lists its metrics in {path}\n"
        "  fix: pip install 'deepeval==4.3.1', or install a newer regauge"
    )


def metric_name(name: str) -> str:
    """The full name of a metric; `Metric` at its end may be left out.

    Raises:
        UsageError: The installed deepeval has no such metric.

    >>> metric_name("Faithfulness")
    'FaithfulnessMetric'
    """
    exported = _exported()
    for full in (name, f"{name}Metric"):
        if full in exported:
            return full
    both_forms = [*exported, *(full.removesuffix("Metric") for full in exported)]
    hint = did_you_mean(name, both_forms) or f"there are {', '.join(exported)}"
    raise UsageError(f"deepeval {installed_version()} has no metric {name!r}; {hint}")


def kind_of(metric: object) -> str:
    """The full name of a metric of deepeval's own; empty for those of a project.

    Args:
        metric: The full name, a class, a metric, or something that makes one.

    >>> kind_of("FaithfulnessMetric")
    'FaithfulnessMetric'
    """
    if isinstance(metric, str):
        return metric
    kind: type = metric if isinstance(metric, type) else type(metric)
    return kind.__name__ if kind.__module__.partition(".")[0] == "deepeval" else ""


def asks_model(metric: object, options: Mapping[str, Any]) -> bool:
    """Return whether a metric calls a model, by what it is and by its options.

    >>> asks_model("ExactMatchMetric", {}), asks_model("FaithfulnessMetric", {})
    (False, True)
    """
    match kind_of(metric):
        case "JsonCorrectnessMetric":  # the model only puts the reason into words
            return bool(options.get("include_reason", getattr(metric, "include_reason", False)))
        case "ToolCorrectnessMetric":
            return bool(options.get("available_tools", getattr(metric, "available_tools", None)))
        case name:
            return name not in METRICS.words("no_model")


_PLAIN: Final = (bool, int, str, type(None))


def fingerprint(value: object) -> JSON:
    """A value as JSON that changes when the value would judge differently.

    Functions and classes count by their source, functions by what they enclose too, objects by
    their class and public attributes, without the results of a measurement, the model and the
    threshold. Shared and circular references are numbered, so a graph differs from a tree.

    >>> fingerprint({"steps": ["look"], "limit": 2})
    {'steps': ['look'], 'limit': 2}
    """
    return _Walk().of(value)


class _Walk:
    """One walk through one value."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # an id is only unique while its object lives

    def of(self, value: object) -> JSON:  # noqa: C901, PLR0911 - one per type
        if isinstance(value, Enum):
            return self.of(value.value)
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
        self._kept.append(value)
        if inspect.isroutine(value):
            return self._function(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            if all(isinstance(key, str) for key in pairs):
                return {str(key): self.of(part) for key, part in pairs.items()}
            return [[self.of(key), self.of(part)] for key, part in pairs.items()]
        if isinstance(value, (list, tuple)):
            return [self.of(part) for part in cast("list[object]", value)]
        if isinstance(value, AbstractSet):
            return sorted((self.of(part) for part in cast("AbstractSet[object]", value)), key=str)
        return self._object(value)

    def _function(self, value: Any) -> JSON:
        """By source, and by the parts that differ in functions of one line or with closures."""
        code: CodeType | None = getattr(value, "__code__", None)
        made: dict[str, JSON] = {"source": _source(value)}
        if code is not None:
            # Only they share lines; pytest rewrites the asserts of others, and so their code.
            if code.co_name == "<lambda>":
                made["constants"] = _constants(code)
            cells: tuple[CellType, ...] = getattr(value, "__closure__", None) or ()
            # A cell that nothing was put into yet compares as empty.
            made["encloses"] = [self.of(cell.cell_contents) for cell in cells if cell != CellType()]
        return made

    def _object(self, value: object) -> JSON:
        kept: dict[str, Any] = getattr(value, "__dict__", {})
        return {
            "class": self.of(type(value)),
            "with": {
                name: self.of(kept[name])
                for name in sorted(kept)
                if not name.startswith("_") and name not in METRICS.words("results")
            },
        }


def _source(value: Any) -> str:
    """The source of what a project wrote, the name of what an installed library brings."""
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
    if isinstance(value, frozenset):  # its order is another in every process
        return sorted(repr(part) for part in cast("frozenset[object]", value))
    return repr(value)


_SETTINGS_MODULE: Final = "deepeval.config.settings"
_BUILT_ON_IT: Final = "regauge.judges._deepeval.live"
_NAME: Final = "deepeval"  # of the package, and of its logger
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
"""deepeval's settings, whatever the environment has; the rest are its defaults."""

_lock: Final = threading.Lock()


def moved(name: str, why: str) -> JudgeError:
    """The error for a part of deepeval that is not where regauge needs it.

    Args:
        name: The part, by its path.
        why: What regauge needs it for.
    """
    return JudgeError(
        f"deepeval {installed_version()} has moved or changed {name!r}, which regauge needs: {why}"
        "\n  fix: pip install 'deepeval==4.3.1', or install a newer regauge",
        judge=_NAME,
    )


def part(owner: Any, name: str, why: str) -> Any:
    """An undocumented part of deepeval.

    Args:
        owner: The module or class that has it.
        name: Its name there.
        why: What regauge needs it for.

    Raises:
        JudgeError: The installed version does not have it there.
    """
    if not hasattr(owner, name):
        module = getattr(owner, "__module__", "")
        place = f"{module}.{owner.__qualname__}" if module else owner.__name__
        raise moved(f"{place}.{name}", why)
    return getattr(owner, name)


def loaded() -> bool:
    """Return whether `load` has come to its end in this process."""
    return _BUILT_ON_IT in sys.modules and hasattr(sys.modules[_BUILT_ON_IT], "LOADED")


def import_requests() -> None:
    """Import what deepeval needs of HTTP, on the thread of the run.

    requests filters a warning of its own while it is imported. Filters belong to the whole process:
    on another thread, a test that ends in between shows the warning.
    """
    with suppress(ImportError):
        importlib.import_module("requests")


def load() -> None:
    """Import deepeval and what here is built on it, once and quietly; from any thread.

    Raises:
        JudgeError: A part that regauge needs is missing in the installed version.
        ImportError: deepeval is not installed, or something that it needs.
    """
    try:
        import_quietly()
        importlib.import_module(_BUILT_ON_IT)
    except ImportError as error:
        if error.name is None or not error.name.startswith(f"{_NAME}."):
            raise
        missing = str(getattr(error, "name_from", None) or "")  # of Python 3.12 and newer
        raise moved(f"{error.name}.{missing}".rstrip("."), "its judges import it") from error


def import_quietly() -> None:
    """Import deepeval alone; a judge needs `load`.

    Raises:
        JudgeError: The settings of the installed version are not where they were.
        ImportError: deepeval is not installed, or something that it needs.
    """
    with _lock:
        ahead = {} if _NAME in sys.modules else _settings_ahead()
        package = importlib.import_module(_NAME)
        importlib.import_module(f"{_NAME}.metrics")
        for name, module in ahead.items():  # loaded when there was no package to be part of
            vars(package).setdefault(name, module)
        settings: Any = importlib.import_module(_SETTINGS_MODULE)
        if not getattr(settings, "_regauge_settled", False):  # the project imported it itself
            _settle(settings)
        # It would print about this while it is imported.
        settings.get_settings().DEEPEVAL_FILE_SYSTEM = "READ_ONLY"


def _settings_ahead() -> dict[str, ModuleType]:
    """Load and fix the settings before the package runs, which reads them at its first line.

    Returns:
        The modules of the package that this loaded, by name.
    """
    spec = find_spec(_NAME)
    if spec is None:
        raise ModuleNotFoundError("No module named 'deepeval'", name=_NAME)
    sys.modules[_NAME] = module_from_spec(spec)  # it finds its modules and runs nothing
    try:
        _settle(importlib.import_module(_SETTINGS_MODULE))
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


def _settle(settings: ModuleType) -> None:
    """Fix the settings: what comes after neither reads the environment nor writes to it."""
    module: Any = settings
    fields = part(part(module, "Settings", _QUIET), "model_fields", _QUIET)
    for name in SETTINGS:
        if name not in fields:
            raise moved(f"{_SETTINGS_MODULE}.Settings.{name}", _QUIET)
    for name in ("autoload_dotenv", "_merge_legacy_keyfile_into_env", "_calc_env_fingerprint"):
        part(module, name, _QUIET)
    part(module, "_settings_singleton", _QUIET)
    part(module, "get_settings", _QUIET)
    module.autoload_dotenv = _nothing
    module._merge_legacy_keyfile_into_env = _nothing  # noqa: SLF001 - no public switch is enough
    module._calc_env_fingerprint = _same_always  # noqa: SLF001
    module.Settings.settings_customise_sources = _Sources()
    module._settings_singleton = None  # noqa: SLF001
    module._regauge_settled = True  # noqa: SLF001
    logging.getLogger(_NAME).setLevel(logging.CRITICAL)


def _nothing(*_: object, **__: object) -> None:
    return None


def _same_always() -> str:
    return "regauge"


class _Sources:
    """Where the settings come from: `SETTINGS`, and nowhere else."""

    def __call__(self, settings_cls: Any, *_: object, **__: object) -> tuple[Any, ...]:
        from pydantic_settings import InitSettingsSource

        return (InitSettingsSource(settings_cls, init_kwargs=dict(SETTINGS)),)
