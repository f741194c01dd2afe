"""Judges that ask a model: how an eval declares one, and how it asks.

An eval names a judge such as `rubric("incident-faithfulness")`. Binding a suite turns that
declaration into a `ModelJudge`. For every completion it judges, a run hands it a `JudgeCalls`,
through which each of its model calls is recorded, replayed, budgeted, retried and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, cast, runtime_checkable

from regauge.criteria import CRITERIA
from regauge.errors import JudgeError, UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._semantic import SemanticJudge
    from regauge.judges._types import Judge, Verdict
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest


def criterion_of(judge: object) -> Criterion:
    """The criterion of a judge; correctness if it states none."""
    said = getattr(judge, "criterion", None)
    for criterion in CRITERIA:
        if said == criterion:
            return criterion
    return "correctness"


def criterion_named(word: str, *, judge: str) -> Criterion:
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
class Declared:
    """A judge as an eval declares it.

    Attributes:
        name: What people read.
        criterion: What it is about, which is no part of a digest; None where its parts say it.
    """

    name: str
    criterion: Criterion | None

    def named(self, name: str) -> Self:
        """The same judge under a name of your choice."""
        return replace(self, name=name)

    def judging(self, criterion: str) -> Self:
        """The same judge, counted under another criterion.

        Raises:
            UsageError: There is no such criterion.
        """
        return replace(self, criterion=criterion_named(criterion, judge=self.name))


def outside_run(judge: str, case: GoldenCase) -> JudgeError:
    """The error of a judge that asks a model, and is asked itself where nothing is recorded."""
    return JudgeError(
        f"{judge} asks a model, which only a run can do; case {case.id!r} stays unmeasured\n"
        "  fix: run it with pytest evals",
        judge=judge,
    )


EXTERNAL: Final = frozenset({"command_judge", "http_judge"})
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
class ModelJudge(Protocol):
    """A judge that asks a model.

    One whose later calls depend on responses to earlier ones may have a property `usual_calls`:
    how many calls a judgement usually takes, for estimates before any is recorded. One whose
    verdicts rest on the calibration of other judges has a property `calibrated`, these judges.
    """

    @property
    def name(self) -> str:
        """The name for users; labels and calibration are filed under it."""
        ...

    @property
    def digest(self) -> str:
        """Over everything that may change a verdict: rubric, parameters, models, versions."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as `provider:model`."""
        ...

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge outside a run, where nothing is recorded.

        Raises:
            JudgeError: Always; only a run knows how to ask.
        """
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
    named: object = getattr(judge, "calibrated", None)
    return cast("tuple[ModelJudge, ...]", named) if isinstance(named, tuple) else (judge,)


def is_semantic(judge: object) -> TypeGuard[SemanticJudge]:
    """Tell a judge that compares vectors, without loading its module for the others."""
    if not hasattr(judge, "embedder"):
        return False
    from regauge.judges._semantic import SemanticJudge

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
        given = cast("dict[str, Any]", document)
        score, reason, details = (given.get(key) for key in ("score", "reason", "details"))
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
class Standing:
    """The status of a judge's verdicts: blocking or advisory.

    Attributes:
        gates: Whether they decide; otherwise they inform, and change no outcome.
        reason: Why, such as `no calibration record`, for a person.
    """

    gates: bool
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


def standing_of(judge: ModelJudge, project: Project) -> Standing:
    """The status of a judge's verdicts in a project.

    A judge decides when its calibration record is about this very judge (rubric, parameters,
    models) and the labels as they are, and meets `[tool.regauge.calibration]`. A judge that has
    `standing_in(project)` answers for itself.
    """
    own: Callable[[Project], Standing] | None = getattr(judge, "standing_in", None)
    if own is not None:
        return own(project)
    (calibrated,) = calibrated_judges(judge)
    return calibrated_standing(calibrated, project)


def calibrated_standing(judge: ModelJudge, project: Project) -> Standing:
    """The status of a judge's verdicts by its own calibration record."""
    # Rules alone read no records, and need nothing to read them with.
    from regauge.judges.calibration._record import UncalibratedError, current_calibration, shortfall

    try:
        calibration = current_calibration(judge, project)
    except UncalibratedError as error:
        return Standing(gates=False, reason=str(error))
    missing = shortfall(calibration, project.settings.calibration)
    if missing:
        return Standing(gates=False, reason=missing)
    return Standing(gates=True, reason=f"calibrated on {calibration.date}")
