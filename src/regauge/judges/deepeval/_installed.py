"""What is known of the installed deepeval without importing it: version, prompts, metrics."""

from __future__ import annotations

import ast
import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from regauge.errors import UsageError
from regauge.wording import did_you_mean

__all__ = ["NO_MODEL", "installed_version", "metric_name", "templates_digest"]

NO_MODEL: Final = frozenset(
    {"ExactMatchMetric", "PatternMatchMetric", "ToolPermissionMetric", "AgentLoopDetectionMetric"}
)
"""The metrics that ask nobody."""

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
    """The names of `deepeval.metrics.__all__`, read from the source."""
    path = _folder() / "metrics" / "__init__.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets
        ):
            names: list[str] = ast.literal_eval(statement.value)
            return tuple(name for name in names if name not in _NO_METRICS)
    return ()


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
