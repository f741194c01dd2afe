"""`Judge` and `Verdict`, and how a reason quotes text and values: short, on one line, escaped."""

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

from regauge.criteria import CRITERIA
from regauge.digests import JSON, digest_of
from regauge.errors import JudgeError, UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.judges.rules._similarity import SemanticJudge
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest


# A quoted part fits on a line of a terminal; a value in a record fits on a screen.
_QUOTE_CHARS = 80
_VALUE_CHARS = 2_000


def quote(text: str, limit: int = _QUOTE_CHARS) -> str:
    r"""Text in quotes; long text loses its middle, control characters become escapes.

    >>> quote("one\ntwo")
    "'one\\ntwo'"
    """
    if len(text) > limit:
        head = limit * 2 // 3
        text = f"{text[:head]} … {text[head - limit :]}"
    return repr(text)


def quote_around(text: str, start: int, end: int, margin: int = 20) -> str:
    """The part of a text that decided, quoted with what stands around it."""
    begin, stop = max(0, start - margin), min(len(text), max(end, start) + margin)
    before, after = ("…" if begin else ""), ("…" if stop < len(text) else "")
    return quote(f"{before}{text[begin:stop]}{after}", 120)


def truncate_value(value: JSON) -> JSON:
    """A value as a verdict may carry it: cut where it is long, and always writable as JSON."""
    if value is None:  # most values
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
    """A number without a tail of zeros.

    >>> format_number(0.5), format_number(3.0)
    ('0.5', '3')
    """
    return f"{value:.4f}".rstrip("0").rstrip(".")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number: to Python, True is one, too.

    >>> is_number(1), is_number(0.5), is_number(True)
    (True, True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def quote_list(values: Sequence[JSON], limit: int = 6) -> str:
    """Values in quotes with commas, the rest counted."""
    head = ", ".join(
        quote(value) if isinstance(value, str) else quote(json.dumps(value, default=str))[1:-1]
        for value in values[:limit]
    )
    return head + (f" and {len(values) - limit} more" if len(values) > limit else "")


def quote_value(value: JSON) -> str:
    """A value as a reason quotes it: a text as it is, anything else as JSON.

    >>> quote_value("info"), quote_value([1, None])
    ("'info'", "'[1, null]'")
    """
    return quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


Outcome = Literal["pass", "fail", "abstain"]

NO_OUTPUT_CODES = frozenset({"no_text", "refused", "threw", "no_result"})
"""Codes of failures without an opinion on the output; a negation leaves such a verdict as it is."""

_OUTCOMES = frozenset({"pass", "fail", "abstain"})
_NO_DETAILS: Mapping[str, JSON] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of one judge on one completion.

    Attributes:
        outcome: An `abstain` counts nowhere.
        score: Between 0 (worst) and 1 (best).
        reason: One line, with the evidence quoted.
        expected: The wanted value, if it can be shown.
        actual: The value that was judged.
        cost_usd: In US dollars; 0 for rules.
        details: For programs. Rules state `code`: `ok`, or a stable failure code such as
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
        """Refuse values that cannot be counted or written.

        Raises:
            ValueError: One of them.
        """
        # Callers without types may give anything.
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
        """The name for users: short, unique among the judges of one eval."""
        ...

    @property
    def digest(self) -> str:
        """Changes whenever the judge may judge differently."""
        ...

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: No verdict could be reached; that is neither a pass nor a fail.
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
    """A verdict that passes when a score, held within [0, 1], reaches a threshold."""
    clamped = min(1.0, max(0.0, score))
    if clamped >= at_least:
        return passed(reason, score=clamped, expected=expected, actual=actual)
    return failed(reason, code=code, score=clamped, expected=expected, actual=actual)


def abstained(reason: str, *, code: str) -> Verdict:
    """A verdict without an opinion."""
    return Verdict(outcome="abstain", score=0.0, reason=reason, details={"code": code})


# They raise for the code of a user: `pytest.skip`, a bad `Verdict`, the `__init__` of a dataclass.
_RAISING_FILES = (
    str(Path("_pytest", "outcomes.py")),
    str(Path("regauge", "judges", "_types.py")),
    "<string>",
)
_PACKAGE_DIR = str(Path(__file__).parents[1])


def broken_judge(text: str, error: BaseException, *, judge: str) -> JudgeError:
    """The error of a judge that raised, with its line and its traceback.

    Args:
        text: What raised, in a line.
        error: What it raised.
        judge: The name of the judge.
    """
    raised = traceback.extract_tb(error.__traceback__)
    # The frames of regauge are above those of the judge.
    first = next(
        (n for n, frame in enumerate(raised) if not frame.filename.startswith(_PACKAGE_DIR)), 0
    )
    frames = raised[first:]
    judge_frames = [
        frame for frame in frames if not frame.filename.endswith(_RAISING_FILES)
    ] or frames
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
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
    """The criterion of a judge; correctness if it states none."""
    criterion: object = getattr(judge, "criterion", None)
    return criterion if criterion in CRITERIA else "correctness"


def parse_criterion(word: str, *, judge: str) -> Criterion:
    """The criterion of a name.

    Args:
        word: The name.
        judge: Of which judge it was said.

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
        name: What people read.
        criterion: What it is about, which is no part of a digest; None where its parts say it.
    """

    name: str
    criterion: Criterion | None

    def with_name(self, name: str) -> Self:
        """The same judge under a name of your choice."""
        return replace(self, name=name)

    def with_criterion(self, criterion: str) -> Self:
        """The same judge, counted under another criterion.

        Raises:
            UsageError: There is no such criterion.
        """
        return replace(self, criterion=parse_criterion(criterion, judge=self.name))


Judge_co = TypeVar("Judge_co", bound="ModelJudge", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJudge(JudgeDeclaration, Generic[Judge_co]):
    """A judge that calls a model, as an eval declares it; `make` knows its parameters.

    Attributes:
        make: Makes the judge itself, of this declaration (its name and its criterion) and of the
            context.
    """

    make: Callable[[JudgeDeclaration, JudgeContext], Judge_co] = field(repr=False)

    def bind(self, context: JudgeContext) -> Judge_co:
        """The judge itself.

        Raises:
            UsageError: Nothing says which model judges, or a parameter makes no sense.
            PromptError: The rubric cannot be loaded.
        """
        return self.make(self, context)


@dataclass(frozen=True, kw_only=True)
class RunOnlyJudge(ABC):
    """A judge that only a run can ask, known by a digest over what it is made of.

    Attributes:
        name: What people read; labels and calibration are filed under it.
        criterion: What it is about; no part of the digest.
    """

    name: str
    criterion: Criterion

    @abstractmethod
    def _identity(self) -> Mapping[str, JSON]:
        """Everything that may change a verdict."""

    @property
    def digest(self) -> str:
        """Over everything that may change a verdict, worked out once."""
        return self._digest

    # A property of its own: to pyright a cached one is not what the protocol asks for.
    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(self._identity()))

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Raise: outside a run nothing is recorded.

        Raises:
            JudgeError: Always.
        """
        del completion
        raise JudgeError(
            f"{self.name} asks a model, which only a run can do; case {case.id!r} stays"
            " unmeasured\n  fix: run it with pytest evals",
            judge=self.name,
        )


EXTERNAL_JUDGES: Final = frozenset({"command_judge", "http_judge"})
"""Under which provider names the calls of programs and web services are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeContext:
    """The context that a declaration is bound with, once per suite.

    Attributes:
        project: Where rubrics are.
        model: The judge model of judges that name none, as `provider:model`: `judge_model` of
            `[tool.regauge]`; None where nothing says one.
        prompt: The prompt whose outputs are judged; None without one.
        loaded: The rubrics that were read, by name and version.
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

        A judge that asks one question k times per judgement asks it as the request's trials
        `trial * k` to `trial * k + k - 1`, so that no two judgements share an answer.
        """
        ...

    async def complete(self, request: CompletionRequest) -> Completion:
        """The model's reply: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        ...


@runtime_checkable
class ModelJudge(Judge, Protocol):
    """A judge that asks a model, in a run alone: its `judge` raises JudgeError.

    Its digest is over rubric, parameters, models and versions; labels and calibration are filed
    under its name.

    One whose later calls depend on responses to earlier ones may have a property `usual_calls`:
    how many calls a judgement usually takes, for estimates before any is recorded. One whose
    verdicts rest on the calibration of other judges has a property `calibrated`, these judges.
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
            JudgeError: No verdict could be reached; that is neither a pass nor a fail.
            UnmeasuredError: The model could not be asked.
        """
        ...


def calibrated_judges(judge: ModelJudge) -> tuple[ModelJudge, ...]:
    """The judges whose calibration a judge rests on: itself, unless it names others."""
    judges: object = getattr(judge, "calibrated", None)
    return cast("tuple[ModelJudge, ...]", judges) if isinstance(judges, tuple) else (judge,)


def is_semantic(judge: object) -> TypeGuard[SemanticJudge]:
    """Tell a judge that compares vectors, without loading its module for the others."""
    if not hasattr(judge, "embedder"):
        return False
    from regauge.judges.rules._similarity import SemanticJudge

    return isinstance(judge, SemanticJudge)


def usual_calls(judge: ModelJudge) -> int:
    """The usual number of calls per judgement, as far as the judge knows it; else 1."""
    calls: object = getattr(judge, "usual_calls", 1)
    return calls if isinstance(calls, int) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of a judge, before a threshold makes a verdict of it.

    Attributes:
        score: On the judge's own scale; None when there was nothing to judge.
        reason: Why, as the judge's model or the judge puts it.
        details: Everything `verdict_of` needs besides, and what readers may want to see.
    """

    score: float | None
    reason: str
    details: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for a file."""
        return {"score": self.score, "reason": self.reason, "details": dict(self.details)}

    @classmethod
    def from_json(cls, document: JSON) -> Measurement:
        """The measurement that `to_json` wrote.

        Raises:
            ValueError: It is no such document.
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

    A run that finds the measurement of a completion asks nothing and measures nothing: it takes
    the verdict from `verdict_of` alone. So whatever is slow to load is loaded by `prepare` or
    `measure_with`, never when the judge is made or bound, nor by a digest or `verdict_of`.
    """

    @property
    def measurement_digest(self) -> str:
        """Over everything that may change a measurement; a threshold is not part of it."""
        ...

    def prepare(self) -> None:
        """Load what `measure_with` needs. Called in a thread of its own, maybe more than once."""
        ...

    async def measure_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Measurement:
        """Measure one completion of one case.

        Raises:
            JudgeError: Nothing could be measured.
            UnmeasuredError: The model could not be asked.
        """
        ...

    def verdict_of(self, measurement: Measurement) -> Verdict:
        """The verdict on a measurement: pure, and the place where thresholds are applied.

        `judge_with` gives the same verdict as `verdict_of(await measure_with(...))`.

        Raises:
            JudgeError: The measurement makes no sense, such as a score that is no number.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStatus:
    """The status of a judge's verdicts: blocking or advisory.

    Attributes:
        blocking: Whether they decide; otherwise they inform, and change no outcome.
        reason: Why, such as `no calibration record`, for a person.
    """

    blocking: bool
    reason: str


@runtime_checkable
class UnboundJudge(Protocol):
    """A judge as an eval declares it, before it is known which project it is for."""

    def bind(self, context: JudgeContext) -> Judge | ModelJudge:
        """The judge itself.

        Raises:
            UsageError: Nothing says which model judges, or a parameter makes no sense.
            PromptError: The rubric cannot be loaded.
        """
        ...


def judge_status(judge: ModelJudge, project: Project) -> JudgeStatus:
    """The status of a judge's verdicts in a project.

    A judge decides when its calibration record is about this very judge (rubric, parameters,
    models) and the labels as they are, and meets `[tool.regauge.calibration]`. A judge that has
    `status_in(project)` answers for itself.
    """
    status_in: Callable[[Project], JudgeStatus] | None = getattr(judge, "status_in", None)
    if status_in is not None:
        return status_in(project)
    (calibrated,) = calibrated_judges(judge)
    return calibration_status(calibrated, project)


def calibration_status(judge: ModelJudge, project: Project) -> JudgeStatus:
    """The status of a judge's verdicts by its own calibration record."""
    # Rules alone read no records, and need nothing to read them with.
    from regauge.judges.calibration._record import UncalibratedError, current_calibration, shortfall

    try:
        calibration = current_calibration(judge, project)
    except UncalibratedError as error:
        return JudgeStatus(blocking=False, reason=str(error))
    missing = shortfall(calibration, project.settings.calibration)
    if missing:
        return JudgeStatus(blocking=False, reason=missing)
    return JudgeStatus(blocking=True, reason=f"calibrated on {calibration.date}")
