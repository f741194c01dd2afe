"""The model calls of one judgement in a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import UnmeasuredError
from regauge.runner._call_totals import CallTotals
from regauge.runner._question import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from regauge.judges import ModelJudge
    from regauge.providers import Completion, CompletionRequest
    from regauge.recordings import RecordingKey
    from regauge.runner._plan import Draw
    from regauge.runner._trial import SourcedCompletion

__all__ = ["RunCalls"]


@dataclass(slots=True, kw_only=True)
class RunCalls:
    """What a run hands to a judge for one judgement: the protocol `JudgeCalls`.

    Attributes:
        ask: Gets one reply to a judge about a draw: recorded, from the local store, or live.
        counted: The calls that judgements of this run have counted already.
        asked: What was asked, in the order in which it was, each once.
        totals: What the calls used that no other judgement counted before.
        failure: Why the first call that failed did.
    """

    judge: ModelJudge
    draw: Draw
    ask: Callable[[Question, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]]
    counted: set[RecordingKey] = field(default_factory=set["RecordingKey"])
    asked: dict[RecordingKey, None] = field(default_factory=dict["RecordingKey", None])
    totals: CallTotals = field(default_factory=CallTotals)
    failure: UnmeasuredError | None = None

    @property
    def trial(self) -> int:
        """Which draw is judged, from 0."""
        return self.draw.trial

    def check(self) -> None:
        """Hold that every call was answered, whatever the judge made of one that was not.

        Raises:
            UnmeasuredError: The first that was not.
        """
        if self.failure is not None:
            raise self.failure

    async def complete(self, request: CompletionRequest) -> Completion:
        """The model's reply: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        question = Question.of_judge(request, draw=self.draw, judge=self.judge)
        self.asked[question.key] = None
        try:
            answer = await self.ask(question, self.judge, self.draw)
        except UnmeasuredError as error:
            self.failure = self.failure or error
            raise
        if question.key not in self.counted:
            self.counted.add(question.key)
            self.totals = self.totals.plus(answer.completion, live=answer.source == "live")
        return answer.completion
