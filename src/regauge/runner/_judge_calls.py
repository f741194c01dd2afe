"""The model calls of one judgement in a run, and what they used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import UnmeasuredError
from regauge.runner._question import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.providers import Completion, CompletionRequest
    from regauge.recordings import RecordingKey
    from regauge.runner._plan import Draw
    from regauge.runner._trial import SourcedCompletion

__all__ = ["CallTotals", "RunCalls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """What the model calls of a judgement, or of many, used.

    Attributes:
        calls: How many there were; one that judgements of a run share counts for the first.
        live: Those of them that this run paid for.
        retries: How many attempts came to nothing.
        cost_usd: Of all of them, at what they cost when they were made; None where a price is
            not known.
        latency_s: Of all of them, one after the other, in seconds.
    """

    calls: int = 0
    live: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    latency_s: float = 0.0

    def plus(self, answer: SourcedCompletion) -> CallTotals:
        """With one more call."""
        completion = answer.completion
        live = answer.source == "live"
        cost_usd = completion.cost_usd
        return CallTotals(
            calls=self.calls + 1,
            live=self.live + live,
            retries=self.retries + (completion.attempts - 1 if live else 0),
            input_tokens=self.input_tokens + completion.usage.input_tokens,
            output_tokens=self.output_tokens + completion.usage.output_tokens,
            cost_usd=_sum(self.cost_usd, cost_usd),
            spent_usd=_sum(self.spent_usd, cost_usd) if live else self.spent_usd,
            latency_s=round(self.latency_s + completion.latency_s, 6),
        )

    def to_json(self) -> dict[str, JSON]:
        """What holds for a replay, too."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "latency_s": self.latency_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> CallTotals:
        """The totals that `to_json` wrote; what is missing or no number counts as nothing."""

        def number(name: str) -> float:
            value = document.get(name)
            return value if isinstance(value, (int, float)) else 0

        cost_usd = document.get("cost_usd", 0.0)
        return cls(
            calls=int(number("calls")),
            input_tokens=int(number("input_tokens")),
            output_tokens=int(number("output_tokens")),
            cost_usd=cost_usd if isinstance(cost_usd, (int, float)) else None,
            latency_s=number("latency_s"),
        )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else round(one + other, 9)


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
        planned = self.draw.planned
        question = Question.of_judge(
            request, suite=planned.suite, case=planned.case, judge=self.judge
        )
        self.asked[question.key] = None
        try:
            answer = await self.ask(question, self.judge, self.draw)
        except UnmeasuredError as error:
            self.failure = self.failure or error
            raise
        if question.key not in self.counted:
            self.counted.add(question.key)
            self.totals = self.totals.plus(answer)
        return answer.completion
