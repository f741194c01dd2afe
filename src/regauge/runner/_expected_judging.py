"""Expected calls of LLM judges: from recorded judgements, else from the judge's first requests."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from regauge.errors import MissingRecordingError
from regauge.judges import usual_calls
from regauge.providers import (
    Completion,
    CompletionRequest,
    Usage,
    approximate_tokens,
    cost_of,
    parse_model_id,
)
from regauge.recordings import RecordingKey
from regauge.runner._expected_usage import JUDGE_OUTPUT, output_sample
from regauge.runner._providers import price_for
from regauge.runner._question import Question, judges_file
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.recordings import Recording
    from regauge.runner._answers import Answers
    from regauge.runner._expected_usage import ExpectedUsage
    from regauge.runner._plan import Draw

__all__ = ["ExpectedCalls", "ExpectedJudging"]

_INSTRUCTIONS: Final = 400  # tokens of a judge's request are seldom fewer
_SAMPLES: Final = 12  # cases whose first requests are made where a judge has no recordings
_NUMBERS: Final = 50  # the most calls of one request per judgement that recordings are read as


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """Calls, with their tokens and cost.

    Attributes:
        calls: On average, so not a whole number.
        cost_usd: In US dollars; None where a price is not known.
    """

    calls: float = 0.0
    tokens: float = 0.0
    cost_usd: float | None = 0.0

    def __add__(self, other: ExpectedCalls) -> ExpectedCalls:
        known = self.cost_usd is not None and other.cost_usd is not None
        return ExpectedCalls(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )

    def times(self, share: float) -> ExpectedCalls:
        """A part or a multiple of them."""
        return ExpectedCalls(
            calls=share * self.calls,
            tokens=share * self.tokens,
            cost_usd=None if self.cost_usd is None else share * self.cost_usd,
        )


@dataclass(slots=True)
class _Judgements:
    """Recorded judgements of one judge.

    Attributes:
        judged: By what identifies a judgement.
        models: Per model, its calls and their usage.
    """

    judged: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    calls: int = 0
    models: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))

    def add(self, judgement: tuple[object, ...], recording: Recording) -> None:
        self.judged.add(judgement)
        self.calls += 1
        self.models[recording.model] += recording.completion.usage


class ExpectedJudging:
    """The expected calls of LLM judges about completions.

    A judgement takes as many calls as recorded judgements of the same case took on average, else
    as those of the same judge. Judges that share a call share its recording, so it counts once.
    A judge without recordings is run up to its first requests, with a completion of the expected
    length; judges that follow them up know how many calls they usually make.

    Args:
        answers: Where recordings are.
        usage: The expected tokens of one call.
    """

    def __init__(self, answers: Answers, settings: Settings, usage: ExpectedUsage) -> None:
        self._answers = answers
        self._settings = settings
        self._usage = usage
        self._recorded: dict[str, dict[tuple[str, str | None], _Judgements]] = {}
        self._completions: dict[str, dict[str, Recording]] = {}

    def of_draws(self, judge: ModelJudge, draws: Sequence[Draw]) -> ExpectedCalls:
        """What one judge takes for completions of one prompt.

        Args:
            judge: One of the judges of the draws.
            draws: At least one; all of one prompt.
        """
        recorded = self._judgements(draws[0].planned.suite.prompt.name)
        whole = recorded.get((judge.name, None))
        if whole is None:
            return self._unrecorded(judge, draws)
        return sum(
            (
                self._mean(judge, recorded.get((judge.name, draw.planned.case.id), whole))
                for draw in draws
            ),
            ExpectedCalls(),
        )

    def _mean(self, judge: ModelJudge, judgements: _Judgements) -> ExpectedCalls:
        """What a recorded judgement takes on average, at what its models cost now."""
        share = 1 / len(judgements.judged)
        usages = judgements.models
        if not set(usages) <= set(judge.models):  # it called other models then
            total = sum(usages.values(), Usage())
            costs = [self._cost_usd(model, total) for model in judge.models]
            share_usd = 1 / max(1, len(costs))
        else:
            costs = [self._cost_usd(model, usage) for model, usage in usages.items()]
            share_usd = 1.0
        known = [cost for cost in costs if cost is not None]
        return ExpectedCalls(
            calls=judgements.calls,
            tokens=sum(usage.input_tokens + usage.output_tokens for usage in usages.values()),
            cost_usd=share_usd * sum(known) if len(known) == len(costs) else None,
        ).times(share)

    def _cost_usd(self, model: str, usage: Usage) -> float | None:
        called = parse_model_id(model)
        request = CompletionRequest(
            provider=called.provider, model=called.model, messages=(), parameters={}
        )
        return cost_of(usage, price_for(self._settings, request))

    def _unrecorded(self, judge: ModelJudge, draws: Sequence[Draw]) -> ExpectedCalls:
        """What judgements take by the judge's first requests, less those of judges before it."""
        samples = draws[:: max(1, len(draws) // _SAMPLES)]
        asked: dict[RecordingKey, list[Question]] = defaultdict(list)
        total = ExpectedCalls()
        for draw in samples:
            completion = self._sample(draw)
            judges = draw.planned.suite.model_judges
            before = judges[: [one.name for one in judges].index(judge.name)]
            shared = {
                RecordingKey.of(request)
                for other in before
                for request in first_requests(other, draw, completion)
            }
            requests = first_requests(judge, draw, completion)
            own = [one for one in requests if RecordingKey.of(one) not in shared]
            for request in own:
                question = Question.of_judge(request, draw=draw, judge=judge)
                asked[question.key].append(question)
            further = usual_calls(judge) - len(requests)
            if further > 0 and (own or not requests):
                total += self._further(judge, draw, requests).times(further)
        for first, *others in asked.values():
            if not others:
                total += self._of_question(first)
        once = [first for first, *others in asked.values() if others]  # for all cases together
        return sum(map(self._of_question, once), total.times(len(draws) / len(samples)))

    def _of_question(self, question: Question) -> ExpectedCalls:
        usage = self._usage.of_question(question)
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=cost_of(usage, price_for(self._settings, question.request)),
        )

    def _further(
        self, judge: ModelJudge, draw: Draw, requests: Sequence[CompletionRequest]
    ) -> ExpectedCalls:
        """A call whose text is not known yet.

        It is as long as the first requests, or as the prompt's request and completion together.
        """
        whole = self._usage.of_draw(draw)
        first = sum(map(approximate_tokens, requests)) // max(1, len(requests))
        read = max(first, whole.input_tokens + whole.output_tokens, _INSTRUCTIONS)
        usage = Usage(input_tokens=read, output_tokens=JUDGE_OUTPUT)
        costs = [self._cost_usd(model, usage) for model in judge.models]
        known = [cost for cost in costs if cost is not None]
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=sum(known) / max(1, len(costs)) if len(known) == len(costs) else None,
        )

    def _sample(self, draw: Draw) -> Completion:
        """A recorded completion of the case, else a text of the expected length."""
        case, request = draw.planned.case, draw.planned.request(draw.trial)
        file = self._answers.file(draw.planned.suite.prompt.name)
        recorded = file.get(draw.key) or self._latest(draw.planned.suite.prompt.name).get(case.id)
        if recorded is not None:
            return recorded.completion
        tokens = self._usage.of_draw(draw).output_tokens
        return Completion(
            text=output_sample(request, case.expected, tokens=tokens),
            finish_reason="stop",
            usage=Usage(),
            model=request.model,
            provider=request.provider,
            latency_s=0.0,
        )

    def _latest(self, prompt: str) -> Mapping[str, Recording]:
        """A recorded completion of each case, the last by time."""
        if prompt not in self._completions:
            by_time = sorted(self._answers.file(prompt), key=lambda one: one.recorded_at)
            self._completions[prompt] = {one.case: one for one in by_time}
        return self._completions[prompt]

    def _judgements(self, prompt: str) -> Mapping[tuple[str, str | None], _Judgements]:
        """The recorded judgements of completions of a prompt, by judge and case, and by judge."""
        known = self._recorded.get(prompt)
        if known is None:
            found: dict[tuple[str, str | None], _Judgements] = defaultdict(_Judgements)
            by_judge: dict[str, list[Recording]] = defaultdict(list)
            for one in self._answers.file(judges_file(prompt)):
                by_judge[one.judge or ""].append(one)
            trials = {one.key.trial for one in self._answers.file(prompt)}
            for name, recordings in by_judge.items():
                calls = _calls_per_request(recordings, trials)
                for one in recordings:
                    judge_digest = str(one.request.get("judge_digest"))
                    judgement = (one.case, one.version, judge_digest, one.key.trial // calls)
                    found[name, None].add(judgement, one)
                    found[name, one.case].add(judgement, one)
            known = self._recorded[prompt] = found
        return known


def _calls_per_request(recordings: Sequence[Recording], trials: set[int]) -> int:
    """How often a judgement makes the same request, such as one per vote.

    A judge numbers the calls of trial n from n times that number, so each call's number belongs to
    a recorded trial once it is divided by it.
    """
    numbers = {one.key.trial for one in recordings}
    return next((n for n in range(1, _NUMBERS) if {x // n for x in numbers} <= trials), 1)


@dataclass(slots=True)
class _FirstRequests:
    """Takes the first requests of a judgement and answers none of them."""

    draw: Draw
    requests: list[CompletionRequest] = field(default_factory=list["CompletionRequest"])

    @property
    def trial(self) -> int:
        return self.draw.trial

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        planned = self.draw.planned
        raise MissingRecordingError(
            prompt=planned.suite.prompt.name,
            case=planned.case.id,
            trial=self.draw.trial,
            stale=False,
        )


def first_requests(
    judge: ModelJudge, draw: Draw, completion: Completion
) -> list[CompletionRequest]:
    """The requests a judge makes before it needs a response; none where it cannot judge."""
    calls = _FirstRequests(draw)

    async def judge_sample() -> None:
        await judge.judge_with(completion, draw.planned.case, calls)

    with suppress(Exception):  # without a response every judge ends in an error
        run_stoppable(judge_sample())
    return list({RecordingKey.of(one): one for one in calls.requests}.values())
