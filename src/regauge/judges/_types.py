"""`Judge` and `Verdict`, and quotations in reasons: short, on one line, escaped."""

from __future__ import annotations

import json
import math
import sysconfig
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from regauge.digests import JSON, digest_of
from regauge.errors import JudgeError, UsageError
from regauge.project import CRITERIA
from regauge.wording import did_you_mean, quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from regauge.datasets import GoldenCase
    from regauge.judges.rules._similarity import SemanticJudge
    from regauge.project import Criterion, Project
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest


# A quotation fits on a line of a terminal; a value in a run record fits on a screen.
_VALUE_CHARS = 2_000
# The name of a judge fits in a column.
_NAME_CHARS = 60


def shorten_name(text: str) -> str:
    """Shorten a name to the width of a column."""
    return text if len(text) <= _NAME_CHARS else f"{text[: _NAME_CHARS - 1]}…"


def quote_around(text: str, start: int, end: int, margin: int = 20) -> str:
    """Quote a part of a text, with the text around it."""
    begin, stop = max(0, start - margin), min(len(text), max(end, start) + margin)
    before, after = ("…" if begin else ""), ("…" if stop < len(text) else "")
    return quote(f"{before}{text[begin:stop]}{after}", 120)


def truncate_value(value: JSON) -> JSON:
    """Truncate a value for a verdict; the result is always JSON."""
    if value is None:  # the most frequent value
        return value
    if isinstance(value, str):
        return value if len(value) <= _VALUE_CHARS else value[:_VALUE_CHARS] + "…"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (Mapping, Sequence)):
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return "a value that JSON cannot hold"
        return value if len(text) <= _VALUE_CHARS else text[:_VALUE_CHARS] + "…"
    return value


def format_number(value: float) -> str:
    """Format a number with up to four decimals.

    >>> format_number(0.5), format_number(3.0)
    ('0.5', '3')
    """
    return f"{value:.4f}".rstrip("0").rstrip(".")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; True and False are not.

    >>> is_number(1), is_number(0.5), is_number(True)
    (True, True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


_QUOTED_MAX: Final = 6


def quote_list(values: Sequence[JSON]) -> str:
    """Quote the first values of a list, followed by the number of others."""
    head = ", ".join(
        quote(value) if isinstance(value, str) else quote(json.dumps(value, default=str))[1:-1]
        for value in values[:_QUOTED_MAX]
    )
    return head + (f" and {len(values) - _QUOTED_MAX} more" if len(values) > _QUOTED_MAX else "")


def quote_value(value: JSON) -> str:
    """Quote a value: a text unchanged, anything else as JSON.

    >>> quote_value("info"), quote_value([1, None])
    ("'info'", "'[1, null]'")
    """
    return quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


Outcome = Literal["pass", "fail", "abstain"]

NO_OUTPUT_CODES = frozenset({"no_text", "refused", "threw", "no_result"})
"""Codes of failures for a missing output, which a negation leaves unchanged."""

_OUTCOMES = frozenset({"pass", "fail", "abstain"})
_NO_DETAILS: Mapping[str, JSON] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of one judge on one completion.

    Attributes:
        outcome: `abstain` for no opinion, which counts neither way.
        score: From 0 (worst) to 1 (best).
        reason: One line that quotes the evidence.
        expected: The expected value; None for none to show.
        actual: The judged value; None for none to show.
        cost_usd: The cost in US dollars; 0 for rules.
        details: Data for programs. Rules set `code`: `ok`, or a stable failure code such as
            `too_long`.
    """

    outcome: Outcome
    score: float
    reason: str
    expected: JSON = None
    actual: JSON = None
    cost_usd: float = 0.0
    details: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            ValueError: A value is invalid.
        """
        # Untyped callers may pass any type.
        score, cost, reason = cast("tuple[object, ...]", (self.score, self.cost_usd, self.reason))
        if self.outcome not in _OUTCOMES:
            problem = f"the outcome is {self.outcome!r}, not 'pass', 'fail' or 'abstain'"
        elif not isinstance(score, int | float) or not 0 <= score <= 1:  # NaN is not
            problem = f"the score is {self.score!r}, not a number from 0 to 1"
        elif not isinstance(reason, str):
            problem = f"the reason is {self.reason!r}, not a text"
        elif not isinstance(cost, int | float) or not 0 <= cost < math.inf:
            problem = f"the cost is {self.cost_usd!r}, not an amount in US dollars"
        else:
            return
        raise ValueError(problem)

    @property
    def code(self) -> str:
        """The `code` of `details`; empty without one."""
        code = self.details.get("code", "")
        return code if isinstance(code, str) else ""

    def __str__(self) -> str:
        share = f" ({self.score:.2f})" if 0 < self.score < 1 else ""
        return f"{self.outcome}{share}: {self.reason}"


class Judge(Protocol):
    """Anything that can judge a completion; implement it, do not subclass it."""

    @property
    def name(self) -> str:
        """The name in reports: short, unique among the judges of one eval."""
        ...

    @property
    def digest(self) -> str:
        """The identity of the judge, which changes when the judge may judge differently."""
        ...

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: There is no verdict, neither a pass nor a fail.
        """
        ...


_OK: Mapping[str, JSON] = MappingProxyType({"code": "ok"})


def passed(
    reason: str, *, score: float = 1.0, expected: JSON = None, actual: JSON = None
) -> Verdict:
    """A verdict that passes."""
    return Verdict(
        outcome="pass",
        score=score,
        reason=reason,
        expected=truncate_value(expected),
        actual=truncate_value(actual),
        details=_OK,
    )


def failed(
    reason: str,
    *,
    code: str,
    score: float = 0.0,
    expected: JSON = None,
    actual: JSON = None,
    details: Mapping[str, JSON] = _NO_DETAILS,
) -> Verdict:
    """A verdict that fails, for the stable reason `code`."""
    return Verdict(
        outcome="fail",
        score=score,
        reason=reason,
        expected=truncate_value(expected),
        actual=truncate_value(actual),
        details={"code": code, **details},
    )


def graded(
    score: float,
    *,
    at_least: float,
    reason: str,
    code: str,
    expected: JSON = None,
    actual: JSON = None,
) -> Verdict:
    """A verdict that passes if a score, clamped to [0, 1], reaches a threshold."""
    clamped = min(1.0, max(0.0, score))
    if clamped >= at_least:
        return passed(reason, score=clamped, expected=expected, actual=actual)
    return failed(reason, code=code, score=clamped, expected=expected, actual=actual)


def abstained(reason: str, *, code: str) -> Verdict:
    """A verdict without an opinion."""
    return Verdict(outcome="abstain", score=0.0, reason=reason, details={"code": code})


# Files that raise because of user code: `pytest.skip`, an invalid `Verdict`, a dataclass.
_RAISING_FILES = (
    str(Path("_pytest", "outcomes.py")),
    str(Path("regauge", "judges", "_types.py")),
    "<string>",
)
_PACKAGE_DIR = str(Path(__file__).parents[1])


def broken_judge(text: str, error: BaseException, *, judge: str) -> JudgeError:
    """The error for a judge that raised, with its line and its traceback.

    Args:
        text: The message, on one line.
        error: The exception.
        judge: The name of the judge.
    """
    raised = traceback.extract_tb(error.__traceback__)
    # The frames of regauge are above those of the judge.
    first = next(
        (n for n, frame in enumerate(raised) if not frame.filename.startswith(_PACKAGE_DIR)), 0
    )
    frames = raised[first:]
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    judge_frames = [
        frame for frame in frames if not frame.filename.endswith(_RAISING_FILES)
    ] or frames
    place = (
        [frame for frame in judge_frames if not frame.filename.startswith(libraries)]
        or judge_frames
    )[-1:]
    location = "".join(
        f"\n  at {frame.filename}:{frame.lineno}: {frame.line}".rstrip(" :") for frame in place
    )
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    lines += traceback.format_exception_only(error)
    return JudgeError(f"{text}{location}", judge=judge, traceback="".join(lines).rstrip())


def criterion_of(judge: object) -> Criterion:
    """The criterion of a judge; correctness if it has none."""
    criterion: object = getattr(judge, "criterion", None)
    return criterion if criterion in CRITERIA else "correctness"


def parse_criterion(word: str, *, judge: str) -> Criterion:
    """Parse the name of a criterion.

    Args:
        word: The name.
        judge: The judge, for the error.

    Raises:
        UsageError: There is no such criterion.
    """
    if word not in CRITERIA:
        hint = did_you_mean(word, CRITERIA) or f"there are {', '.join(CRITERIA)}"
        raise UsageError(f"{judge}: there is no criterion {word!r}\n  fix: {hint}")
    return word


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDeclaration:
    """A judge as an eval declares it.

    Attributes:
        name: The name in reports.
        criterion: The criterion, no part of the digest; None for that of its parts.
    """

    name: str
    criterion: Criterion | None

    def with_name(self, name: str) -> Self:
        """Rename the judge in reports."""
        return replace(self, name=name)

    def with_criterion(self, criterion: str) -> Self:
        """Count the judge under another criterion.

        Raises:
            UsageError: There is no such criterion.
        """
        return replace(self, criterion=parse_criterion(criterion, judge=self.name))


Judge_co = TypeVar("Judge_co", bound="RunOnlyJudge", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJudge(JudgeDeclaration, Generic[Judge_co]):
    """An LLM judge as an eval declares it.

    Attributes:
        make: Called with the name and the context, for the judge.
    """

    make: Callable[[str, JudgeContext], Judge_co] = field(repr=False)

    def bind(self, context: JudgeContext) -> Judge_co:
        """Build the judge.

        Raises:
            UsageError: No judge model is set, or a parameter is invalid.
            PromptError: The rubric cannot be loaded.
        """
        judge = self.make(self.name, context)
        if self.criterion is None or self.criterion == judge.criterion:
            return judge
        return replace(judge, criterion=self.criterion)


@dataclass(frozen=True, kw_only=True)
class RunOnlyJudge(ABC):
    """A judge that judges in runs only.

    Attributes:
        name: The name in reports, and of the labels and the calibration record.
        criterion: The criterion; no part of the digest.
    """

    name: str
    criterion: Criterion = "relevance"

    @abstractmethod
    def _identity(self) -> Mapping[str, JSON]:
        """The content of the digest: everything that may change a verdict."""

    @property
    def digest(self) -> str:
        """The digest of everything that may change a verdict."""
        return self._digest

    # A separate property, because pyright refuses a cached one for the protocol.
    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(self._identity()))

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Raise an error, as calls outside a run are not recorded.

        Raises:
            JudgeError: Always.
        """
        del completion
        raise JudgeError(
            f"{self.name} calls a model, which only a run can do; case {case.id!r} stays"
            " unmeasured\n  fix: run it with pytest evals",
            judge=self.name,
        )


EXTERNAL_JUDGES: Final = frozenset({"command_judge", "http_judge"})
"""The provider names in recordings of calls of programs and web services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeContext:
    """The context of declared judges, one per eval.

    Attributes:
        project: The project with the rubrics.
        model: The default judge model, as `provider:model`; None if unset.
        prompt: The prompt whose outputs are judged; None without one.
        loaded: The loaded rubrics, by name and version.
    """

    project: Project
    model: str | None = None
    prompt: Prompt | None = None
    loaded: dict[tuple[str, str | None], Prompt] = field(
        default_factory=dict[tuple[str, str | None], "Prompt"], compare=False, repr=False
    )


class JudgeCalls(Protocol):
    """The model calls of one judgement: one judge, one completion, one case."""

    @property
    def trial(self) -> int:
        """The number of the judged trial, from 0.

        A judge that repeats a request k times numbers the requests from `trial * k` to
        `trial * k + k - 1`, so that each judgement has its own completions.
        """
        ...

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return a completion: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        ...


@runtime_checkable
class ModelJudge(Judge, Protocol):
    """A judge that calls a model, in runs only: its `judge` raises JudgeError.

    Its digest covers rubric, parameters, models and versions. Its name is that of its labels and
    of its calibration record.

    A judge with a variable number of calls may have a property `usual_calls`, for estimates. A
    judge that uses the calibration of other judges has a property `calibrated`, these judges.
    """

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as `provider:model`."""
        ...

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: There is no verdict, neither a pass nor a fail.
            UnmeasuredError: The model could not be called.
        """
        ...


def calibrated_judges(judge: ModelJudge) -> tuple[ModelJudge, ...]:
    """The judges whose calibration applies to a judge: itself, unless it names others."""
    judges: object = getattr(judge, "calibrated", None)
    return cast("tuple[ModelJudge, ...]", judges) if isinstance(judges, tuple) else (judge,)


def is_semantic(judge: object) -> TypeGuard[SemanticJudge]:
    """Return whether a judge compares embeddings, without importing its module for others."""
    if not hasattr(judge, "embedder"):
        return False
    from regauge.judges.rules._similarity import SemanticJudge

    return isinstance(judge, SemanticJudge)


def usual_calls(judge: ModelJudge) -> int:
    """The usual number of calls per judgement; 1 if the judge sets none."""
    calls: object = getattr(judge, "usual_calls", 1)
    return calls if isinstance(calls, int) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of a judge, before a threshold turns it into a verdict.

    Attributes:
        score: The score on the judge's own scale; None if there was nothing to judge.
        reason: The reason of the judge or its model.
        details: Further data for `verdict_of` and for reports.
    """

    score: float | None
    reason: str
    details: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])

    def to_json(self) -> dict[str, JSON]:
        """Convert to JSON, for files."""
        return {"score": self.score, "reason": self.reason, "details": dict(self.details)}

    @classmethod
    def from_json(cls, document: JSON) -> Measurement:
        """Parse the result of `to_json`.

        Raises:
            ValueError: The document is invalid.
        """
        if not isinstance(document, dict):
            raise ValueError("a measurement is a JSON object")  # noqa: TRY004 - one kind for callers
        fields = cast("dict[str, Any]", document)
        score, reason, details = (fields.get(key) for key in ("score", "reason", "details"))
        if score is not None and type(score) not in {int, float}:
            raise ValueError(f"the score is {score!r}, neither a number nor null")
        if type(reason) is not str or type(details) is not dict:
            raise ValueError("a measurement has a `reason`, a text, and `details`, an object")
        return cls(score=score, reason=reason, details=cast("dict[str, JSON]", details))


@runtime_checkable
class MemoisedJudge(ModelJudge, Protocol):
    """A judge whose measurements are recorded next to its model calls.

    A run with a recorded measurement only calls `verdict_of`. So slow imports belong into
    `prepare` or `measure_with`, not into binding, digests or `verdict_of`.
    """

    @property
    def measurement_digest(self) -> str:
        """The digest of everything that may change a measurement, without thresholds."""
        ...

    def prepare(self) -> None:
        """Load the resources of `measure_with`; called in another thread, maybe more than once."""
        ...

    async def measure_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Measurement:
        """Measure one completion of one case.

        Raises:
            JudgeError: There is no measurement.
            UnmeasuredError: The model could not be called.
        """
        ...

    def verdict_of(self, measurement: Measurement) -> Verdict:
        """Apply thresholds to a measurement: a pure function.

        `judge_with` returns the same verdict as `verdict_of(await measure_with(...))`.

        Raises:
            JudgeError: The measurement is invalid, such as a score that is not a number.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStatus:
    """The status of a judge's verdicts: blocking or advisory.

    Attributes:
        blocking: They decide outcomes; advisory verdicts change none.
        reason: The reason, such as `no calibration record`.
    """

    blocking: bool
    reason: str


@runtime_checkable
class UnboundJudge(Protocol):
    """A judge as an eval declares it, before it is bound to a project."""

    def bind(self, context: JudgeContext) -> Judge | ModelJudge:
        """Build the judge.

        Raises:
            UsageError: No judge model is set, or a parameter is invalid.
            PromptError: The rubric cannot be loaded.
        """
        ...


def judge_status(judge: ModelJudge, project: Project) -> JudgeStatus:
    """The status of a judge's verdicts in a project.

    A judge is blocking if its calibration record has the current digests of judge and labels and
    meets `[tool.regauge.calibration]`. A method `status_in(project)` of the judge has precedence.
    """
    status_in: Callable[[Project], JudgeStatus] | None = getattr(judge, "status_in", None)
    if status_in is not None:
        return status_in(project)
    (calibrated,) = calibrated_judges(judge)
    return calibration_status(calibrated, project)


def calibration_status(judge: ModelJudge, project: Project) -> JudgeStatus:
    """The status of a judge's verdicts by its calibration record."""
    # Imported here, because rules need no calibration records.
    from regauge.judges.calibration import UncalibratedError, current_calibration, shortfall

    try:
        calibration = current_calibration(judge, project)
    except UncalibratedError as error:
        return JudgeStatus(blocking=False, reason=str(error))
    missing = shortfall(calibration, project.settings.calibration)
    if missing:
        return JudgeStatus(blocking=False, reason=missing)
    return JudgeStatus(blocking=True, reason=f"calibrated on {calibration.date}")
