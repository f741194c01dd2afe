"""Judges that ask a model: how an eval declares one, and how it asks.

An eval names a judge such as `rubric("incident-faithfulness")`. Binding a suite turns that
declaration into a `ModelJudge`. For every completion it judges, a run hands it a `JudgeCalls`,
through which each of its model calls is recorded, replayed, budgeted, retried and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.judges._types import Judge, Verdict
    from regauge.project import Project
    from regauge.providers import Completion, CompletionRequest

__all__ = ["JudgeCalls", "JudgeContext", "ModelJudge", "UnboundJudge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeContext:
    """What a declaration is bound with, once per suite.

    Attributes:
        project: Where rubrics are.
        model: The judge model of judges that name none, as `provider:model`: `judge_model` of
            `[tool.regauge]`; None where nothing says one.
    """

    project: Project
    model: str | None = None


class JudgeCalls(Protocol):
    """The model calls of one judgement: one judge, one completion, one case."""

    @property
    def trial(self) -> int:
        """Which draw is judged, from 0.

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
    """A judge that asks a model."""

    @property
    def name(self) -> str:
        """What people read; labels and calibration are filed under it."""
        ...

    @property
    def digest(self) -> str:
        """Over everything that may change a verdict: rubric, parameters, models, versions."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Who is asked, as `provider:model`."""
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
