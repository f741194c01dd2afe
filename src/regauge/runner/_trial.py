"""A trial: one completion of one case under one version, judged, with its trial number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from regauge.criteria import Criterion
    from regauge.errors import UnmeasuredError
    from regauge.judges import Verdict
    from regauge.providers import Completion
    from regauge.runner._call_totals import CallTotals

__all__ = ["AnswerSource", "JudgedVerdict", "SourcedCompletion", "Trial", "TrialOutcome"]

AnswerSource: TypeAlias = Literal["recording", "store", "live"]
TrialOutcome: TypeAlias = Literal["passed", "failed", "unmeasured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedCompletion:
    """A completion and where it came from: a recording, the local store, or the model."""

    completion: Completion
    source: AnswerSource


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedVerdict:
    """A verdict, with the judge that gave it.

    Attributes:
        gates: Whether it decides; otherwise it informs, and changes no outcome.
        standing: Why, for a judge that asks a model.
        criterion: What kind of quality it is about.
        calls: What its model calls used; None for a judge that makes none.
        labels: Whether the judge compares labels, so that what it expected and got is one.
    """

    judge: str
    judge_digest: str
    verdict: Verdict
    criterion: Criterion = "correctness"
    gates: bool = True
    standing: str = ""
    calls: CallTotals | None = None
    labels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One draw of one case.

    Attributes:
        number: Which draw, from 0.
        request_digest: Of what was asked; empty when the case could not be rendered.
        answer: What came back; None when nothing did.
        verdicts: In the order of the eval's judges.
        error: Why there is no answer or no verdict; then the trial is unmeasured.
    """

    number: int
    request_digest: str
    answer: SourcedCompletion | None
    verdicts: tuple[JudgedVerdict, ...] = ()
    error: UnmeasuredError | None = None

    @property
    def outcome(self) -> TrialOutcome:
        """`failed` when a judge failed it; `passed` when at least one passed it and none failed.

        Judges that inform have no say in it.
        """
        if self.error is not None or self.answer is None:
            return "unmeasured"
        outcomes = {judged.verdict.outcome for judged in self.verdicts if judged.gates}
        if "fail" in outcomes:
            return "failed"
        return "passed" if "pass" in outcomes else "unmeasured"

    @property
    def failures(self) -> tuple[JudgedVerdict, ...]:
        """The verdicts that failed it."""
        return tuple(
            judged for judged in self.verdicts if judged.gates and judged.verdict.outcome == "fail"
        )
