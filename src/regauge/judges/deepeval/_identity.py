"""What a metric is, without an import of deepeval: installed version, prompts, names, source."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from importlib.util import find_spec
from pathlib import Path, PurePath
from types import CellType, CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = [
    "UNSUPPORTED",
    "asks_model",
    "fingerprint",
    "installed_version",
    "kind_of",
    "metric_name",
    "templates_digest",
]

_NO_MODEL: Final = frozenset(
    {
        "ExactMatchMetric",
        "PatternMatchMetric",
        "ToolPermissionMetric",
        "AgentLoopDetectionMetric",
    }
)
_IMAGES: Final = "it judges images, and an output is a text"
_SOUND: Final = "it judges sound, and an output is a text"
_SERVICE: Final = "it calls a service of its own, which is no language model"
UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType({
    "JevEval": _SERVICE,
    "ConversationalJevEval": _SERVICE,
    "TextToImageMetric": _IMAGES,
    "ImageEditingMetric": _IMAGES,
    "ImageCoherenceMetric": _IMAGES,
    "ImageHelpfulnessMetric": _IMAGES,
    "ImageReferenceMetric": _IMAGES,
    "AudioGlitchMetric": _SOUND,
    "VoiceNaturalnessMetric": _SOUND,
    "TurnTakingNaturalnessMetric": _SOUND,
    "SpeechIntelligibilityMetric": _SOUND,
    "VoiceConsistencyMetric": _SOUND,
    "AgentResponsivenessMetric": _SOUND,
    "AudioIntegrityMetric": _SOUND,
    "VoiceReliabilityMetric": _SOUND,
})  # fmt: skip
"""The metrics that cannot judge here, each with the reason."""

_NO_METRICS: Final = frozenset(
    {
        "BaseMetric",
        "BaseConversationalMetric",
        "BaseArenaMetric",
        "Verdict",
        "GEvalTemplate",
        "DeepAcyclicGraph",
    }
)
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
            return tuple(name for name in names if name not in _NO_METRICS)
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
    """Whether a metric calls a model, by what it is and by its options.

    >>> asks_model("ExactMatchMetric", {}), asks_model("FaithfulnessMetric", {})
    (False, True)
    """
    match kind_of(metric):
        case "JsonCorrectnessMetric":  # the model only puts the reason into words
            return bool(options.get("include_reason", getattr(metric, "include_reason", False)))
        case "ToolCorrectnessMetric":
            return bool(options.get("available_tools", getattr(metric, "available_tools", None)))
        case name:
            return name not in _NO_MODEL


# What a metric's measurement leaves on it, and what the adapter puts in place of what was there.
_RESULTS: Final = frozenset(
    {
        "async_mode",
        "confidence",
        "error",
        "eval_mode",
        "evaluation_cost",
        "evaluation_model",
        "flaky",
        "input_tokens",
        "model",
        "output_tokens",
        "reason",
        "score",
        "score_breakdown",
        "skipped",
        "success",
        "system_one_fallback_reason",
        "system_one_model",
        "threshold",
        "using_native_model",
        "verbose_logs",
        "verbose_mode",
    }
)
_PLAIN: Final = (bool, int, str, type(None))


def fingerprint(value: object) -> JSON:
    """A value as JSON that changes when the value would judge differently.

    Functions and classes count by their source, functions by what they enclose too, objects by
    their class and public attributes, without the results of a measurement, the model and the
    threshold. Shared and circular references are numbered, so a graph is told from a tree.

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
        """By source, and by what tells apart functions that share a line or enclose values."""
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
                if not name.startswith("_") and name not in _RESULTS
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
    """What a function and those within it mention by name and by value."""
    return [*code.co_names, *(_constant(value) for value in code.co_consts)]


def _constant(value: object) -> JSON:
    if isinstance(value, CodeType):
        return _constants(value)
    if isinstance(value, frozenset):  # its order is another in every process
        return sorted(repr(part) for part in cast("frozenset[object]", value))
    return repr(value)
