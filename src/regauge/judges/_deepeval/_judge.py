"""A deepeval metric as a judge: measured through the run, its verdict made by a threshold here."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import digest_of
from regauge.errors import JudgeError, RegaugeError, UnmeasuredError
from regauge.judges._answer import Answer
from regauge.judges._asking import Measurement, outside_run
from regauge.judges._deepeval import FIELDS, METRICS
from regauge.judges._deepeval._ask import Asking, texts_in
from regauge.judges._deepeval._installed import (
    fingerprint,
    import_requests,
    installed_version,
    kind_of,
    load,
    loaded,
    moved,
    templates_digest,
)
from regauge.judges._types import Verdict, abstained, failed, number, passed, shown
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._asking import JudgeCalls
    from regauge.judges._deepeval import Fields
    from regauge.providers import Completion, ModelId


_VERSION: Final = 2  # raised when this adapter may measure differently
_THRESHOLD: Final = 0.5
_USUAL_CALLS: Final = 3
_KEPT: Final = 50  # verdicts shown of one measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepevalJudge:
    """A metric of deepeval, bound to a project.

    Attributes:
        metric: deepeval's name of it, a class, something that makes one, or a metric to copy.
        options: What its class is called with.
        name: What people read.
        fields: Where the fields of a test case come from.
        model: Who is asked; None for metrics that make no calls.
        parameters: How it is asked.
        threshold: What the score is held to; None for the metric's own.
        criterion: What it is about; no part of any digest.
        measurement_digest: Over metric, options, fields, model, parameters, and deepeval's version
            and prompts.
    """

    metric: Any
    options: Mapping[str, Any]
    name: str
    fields: Fields
    model: ModelId | None
    parameters: Mapping[str, JSON]
    threshold: float | None
    criterion: Criterion = "relevance"
    measurement_digest: str = field(init=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as `provider:model`."""
        return (str(self.model),) if self.model else ()

    @property
    def usual_calls(self) -> int:
        """The calls of a metric: extraction, verdicts, explanation; of `GEval` its own steps."""
        if self.metric != "GEval":
            return _USUAL_CALLS
        return 1 if "evaluation_steps" in self.options else 2

    def __post_init__(self) -> None:
        # Worked out once: the sources of a project's metrics are part of it.
        digest = digest_of(
            {
                "kind": "deepeval",
                "version": _VERSION,
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

    @property
    def digest(self) -> str:
        """Over the measurement and the threshold."""
        return digest_of({"measurement": self.measurement_digest, "threshold": self.threshold})

    def prepare(self) -> None:
        """Import deepeval, which takes a second or two."""
        load()

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Raise: outside a run there is no model to call.

        Raises:
            JudgeError: Always.
        """
        del completion
        raise outside_run(self.name, case)

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Measure, and hold the score to the threshold.

        Raises:
            JudgeError: Nothing could be measured.
            UnmeasuredError: The model could not be asked.
        """
        return self.verdict_of(await self.measure_with(completion, case, calls))

    async def measure_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Measurement:
        """Run the metric on one completion of one case.

        Raises:
            JudgeError: A field is missing, a reply could not be read, or the metric is broken.
            UnmeasuredError: The model could not be asked.
        """
        if not (completion.text or "").strip() and not completion.tool_calls:
            said = Answer.of(completion, case).nothing()
            code = said.code if completion.text is None else "no_text"
            return Measurement(score=None, reason=said.reason, details={"code": code})
        fields = self.fields.values(completion, case)
        if not loaded():
            import_requests()
            await _in_own_thread(self.prepare)
        from regauge.judges._deepeval import live

        asking = Asking(calls, model=self._asked(), parameters=self.parameters, judge=self.name)
        seed = digest_of({"judge": self.measurement_digest, "fields": fields})
        try:
            with live.asking_through(asking, seed=seed):
                metric = self._made(live)
                test_case = live.test_case(metric, fields)
                asking.judge_fields(_shown_fields(fields, test_case))
                metric = await live.run(metric, test_case, lambda: self._made(live))
                if kind_of(metric) and asking.bypassed:
                    raise moved(live.TEMPLATES, live.FENCES)  # noqa: TRY301 - as any other failure
                better = live.higher_is_better(metric)
                winner = getattr(metric, "winner", None) if live.is_arena(metric) else None
        except asyncio.CancelledError:
            asking.abandon()
            raise
        except Exception as error:
            await asking.close()
            raise self._failure(asking.failure or error, case, metrics=live) from error
        if asking.failure is not None:  # the metric swallowed it and went on
            raise self._failure(asking.failure, case, metrics=live) from asking.failure
        await asking.close()
        score = metric.score if winner is None else float(winner == "answer")
        count = _judged(metric, score, test_case, judge=self.name)
        return _measurement(metric, score, count, better=better)

    def verdict_of(self, measurement: Measurement) -> Verdict:
        """Hold a measured score to the threshold.

        Raises:
            JudgeError: The measurement is of no use.
        """
        details = measurement.details
        if measurement.score is None:
            code = str(details.get("code") or "nothing_to_judge")
            if code in {"no_text", "refused"}:
                return failed(measurement.reason, code=code)
            return abstained(measurement.reason, code=code)
        score = float(measurement.score)
        if not 0 <= score <= 1:
            raise JudgeError(f"{self.name}: {score!r} is no score from 0 to 1", judge=self.name)
        own = details.get("threshold")
        limit = self.threshold
        if limit is None:
            limit = float(own) if isinstance(own, (int, float)) else _THRESHOLD
        rising = details.get("better") != "lower"
        well = score >= limit if rising else score <= limit
        wanted = f"{'at least' if rising else 'at most'} {number(limit)} wanted"
        why = f": {measurement.reason}" if measurement.reason else ""
        reason = f"{self.name} {number(score)}, {wanted}{why}"
        held = score if rising else 1 - score
        verdict = (
            passed(reason, score=held, actual=number(score))
            if well
            else failed(
                reason,
                code="below_threshold" if rising else "above_threshold",
                score=held,
                expected=wanted,
                actual=number(score),
            )
        )
        facts = {name: details[name] for name in ("metric", "judged") if name in details}
        return replace(verdict, details={**verdict.details, **facts})

    def _asked(self) -> ModelId:
        from regauge.providers import ModelId

        return self.model or ModelId(provider="none", model="none")

    def _made(self, metrics: Any) -> Any:
        return metrics.make(
            self.metric, self.options, name=self.name, fields=tuple(self.fields.declared)
        )

    def _failure(self, error: Exception, case: GoldenCase, *, metrics: Any) -> Exception:
        """The error as one of regauge's; regauge's own stay unchanged."""
        if isinstance(error, UnmeasuredError):
            return error
        if isinstance(error, RegaugeError):
            return JudgeError(str(error), judge=self.name)
        if isinstance(error, metrics.MissingTestCaseParamsError):
            missing = [name for name in FIELDS if f"'{name}'" in str(error)]
            listed = ", ".join(map(repr, missing))
            places = ", ".join(f'"{name}": "inputs.{name}"' for name in missing)
            return JudgeError(
                f"{self.name}: case {case.id!r} has no {listed}, which the metric requires"
                f" ({case.at})\n  fix: add it to the case, or name its place in the judge, as in"
                f" fields={{{places}}}"
                if missing
                else f"{self.name}: case {case.id!r} cannot be judged: {error} ({case.at})",
                judge=self.name,
            )
        if isinstance(error, KeyError):
            return JudgeError(
                f"{self.name}: a response of {self.model} has an unknown name or lacks one:"
                f" {error}",
                judge=self.name,
            )
        return JudgeError(
            f"{self.name} broke on case {case.id!r}: {type(error).__name__}: {error}",
            judge=self.name,
        )


async def _in_own_thread(work: Callable[[], None]) -> None:
    """Wait for an import, and leave the loop's own threads to those who look up hosts."""
    with_own_thread = ThreadPoolExecutor(1, thread_name_prefix="deepeval-import")
    try:
        await asyncio.get_running_loop().run_in_executor(with_own_thread, work)
    finally:
        with_own_thread.shutdown(wait=False)


def _shown_fields(fields: Mapping[str, JSON], test_case: object) -> dict[str, str]:
    """The fields as prompts show them: those of the test case, and each text in them."""
    shown = {
        name: str(value)
        for name in FIELDS
        if (value := getattr(test_case, name, None)) is not None and str(value).strip()
    }
    for name, value in fields.items():
        for place, text in enumerate(texts_in(value)):
            shown.setdefault(f"{name}{place}" if place else name, text)
    return shown


def _measurement(metric: Any, score: Any, count: _Judged, *, better: bool) -> Measurement:
    details: dict[str, JSON] = {
        "metric": str(getattr(metric, "__name__", type(metric).__name__)),
        "threshold": getattr(metric, "threshold", None),
        "better": "higher" if better else "lower",
    }
    if count.count is not None:
        details["judged"] = {"what": count.what, "count": count.count}
    verdicts: object = getattr(metric, "verdicts", None)
    if isinstance(verdicts, list) and verdicts:
        some = cast("list[object]", verdicts)[:_KEPT]
        details["verdicts"] = [_shown(verdict) for verdict in some]
    breakdown: object = getattr(metric, "score_breakdown", None)
    if isinstance(breakdown, dict):
        parts = cast("dict[object, object]", breakdown).items()
        details["breakdown"] = shown({str(key): str(part) for key, part in parts})
    reason = " ".join(str(getattr(metric, "reason", None) or "").split())
    if count.vacuous:
        return Measurement(
            score=None,
            reason=f"nothing to judge: {plural(0, count.what.rstrip('s'))} in the answer",
            details={**details, "code": "nothing_to_judge", "score": float(score)},
        )
    return Measurement(score=float(score), reason=reason, details=details)


def _shown(verdict: Any) -> JSON:
    dump = getattr(verdict, "model_dump", None)
    value: Any = dump(mode="json") if callable(dump) else str(verdict)
    return shown(value)


class _Judged:
    """The number of verdicts of a metric.

    Attributes:
        what: What they are, such as `claims`; empty where the metric counts nothing.
        count: How many; None where the metric counts nothing.
        vacuous: Whether there was nothing to judge, so that the score says nothing.
    """

    __slots__ = ("count", "vacuous", "what")

    def __init__(self, what: str = "", count: int | None = None, *, vacuous: bool = False) -> None:
        self.what = what
        self.count = count
        self.vacuous = vacuous


def _judged(metric: Any, score: object, test_case: Any, *, judge: str) -> _Judged:
    """Check a finished metric.

    Raises:
        JudgeError: The score is none from 0 to 1, verdicts are missing or too many, or the
            installed deepeval keeps them elsewhere.
    """
    if type(score) not in {int, float, bool} or not math.isfinite(float(score)):  # type: ignore[arg-type]  # it is a number
        raise _broken(judge, f"its score is {score!r}, which is no number")
    number = float(score)  # type: ignore[arg-type]  # it is a number
    if not 0 <= number <= 1:
        raise _broken(judge, f"its score is {number:g}, which is not from 0 to 1")
    kind = kind_of(metric)
    counted = METRICS.entry("items").get(kind)
    verdicts = _verdicts(metric)
    if counted and (verdicts is None or _list(getattr(metric, counted, None)) is None):
        raise moved(f"{kind}.{counted}", "a measurement without items is no evidence")
    if verdicts is None:
        return _Judged()
    asked, answered = (
        _list(getattr(metric, name, None)) for name in ("assessment_questions", "coverage_verdicts")
    )
    if asked is not None and answered is not None:
        _same_count(judge, len(answered), len(asked), "questions")
    judged = METRICS.entry("judged_items")
    for name in (*judged, *METRICS.entry("found_items")):
        items = _list(getattr(metric, name, None))
        if items is not None:
            _same_count(judge, len(verdicts), len(items), name)
            return _Judged(name, len(items), vacuous=not items and name in judged)
    for base in type(metric).__mro__:
        if part := METRICS.entry("per_part").get(base.__name__):
            items = _list(getattr(test_case, part, None)) or []
            _same_count(judge, len(verdicts), len(items), f"entries of {part}")
    return _Judged("verdicts", len(verdicts), vacuous=not verdicts)


def _verdicts(metric: Any) -> list[Any] | None:
    for attribute in ("verdicts", "alignment_verdicts"):
        found = _list(getattr(metric, attribute, None))
        if found is not None:
            return found
    groups = _list(getattr(metric, "verdicts_list", None))
    if groups is None:
        return None
    return [verdict for group in groups for verdict in group.verdicts]


def _list(value: object) -> list[Any] | None:
    return list(cast("list[object]", value)) if isinstance(value, list) else None


def _same_count(judge: str, verdicts: int, items: int, what: str) -> None:
    if verdicts != items:
        raise _broken(judge, f"the model gave {plural(verdicts, 'verdict')} for {items} {what}")


def _broken(judge: str, why: str) -> JudgeError:
    return JudgeError(
        f"{judge}: the measurement cannot be trusted: {why}\n"
        "  fix: see the judge's replies in fixtures/recordings/judges, or use a better judge model",
        judge=judge,
    )
