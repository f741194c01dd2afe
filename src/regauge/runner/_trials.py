"""Makes trials: an answer, from where it is found or from the model, and all verdicts on it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from regauge.errors import MissingOutputError, MissingRecordingError, RegaugeError, UnmeasuredError
from regauge.judges import MemoisedJudge, Rule
from regauge.project import RecordedTarget
from regauge.recordings import RecordingKey
from regauge.runner._conversation import converse, replay
from regauge.runner._judging import ModelJudging, judge_trial
from regauge.runner._plan import CaseRequest, Draw
from regauge.runner._result import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.judges import ModelJudge
    from regauge.runner._answers import Answers
    from regauge.runner._drawing import Drawing, DrawProgress
    from regauge.runner._judging import Measurements, ModelVerdicts, Used
    from regauge.runner._missing import Misses
    from regauge.runner._plan import AnswerKey
    from regauge.runner._result import JudgedVerdict, SourcedCompletion
    from regauge.targets import Target


# Trials that wait for a call, at 2 kB each: twice as many as two providers take at most. More take
# more memory; with fewer, calls wait for trials that are only judged.
_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTrial:
    """A trial for which every model has been asked, and no rule yet.

    Attributes:
        answer: What is judged.
        opinions: The verdicts of LLM judges on it, by name.
    """

    answer: SourcedCompletion
    opinions: ModelVerdicts

    @property
    def failure(self) -> UnmeasuredError | None:
        """The reason why a judge has no verdict; None when all have."""
        return next((x for x in self.opinions.values() if isinstance(x, UnmeasuredError)), None)


class Trials:
    """Makes trials of any case of any suite, planned or not, under any number.

    For one event loop at a time; many trials may be made at once.

    Args:
        answers: Where answers are looked for.
        measurements: What judges measured before.
        misses: Where judgements are noted that would need a model where none may be asked.
        progress: Counts what is asked.
        rejudge: Whether what judges measured is worked out again from their calls.
        offline: Whether functions of users are kept off the network while they judge.
        drawing: Asks models; None where none may be asked.
    """

    def __init__(
        self,
        *,
        answers: Answers,
        measurements: Measurements,
        misses: Misses,
        progress: DrawProgress,
        rejudge: bool,
        offline: bool = False,
        drawing: Drawing | None = None,
    ) -> None:
        self._answers = answers
        self._misses = misses
        self._progress = progress
        self._drawing = drawing
        self._offline = offline
        self._judging = ModelJudging(
            ask=self._reply,
            measurements=measurements,
            rejudge=lambda draw: rejudge or answers.independent(draw.trial),
        )

    async def make(self, draw: Draw) -> Trial:
        """The judged trial of one draw; what goes wrong makes it an unmeasured one."""
        try:
            asked = await self.ask(draw)
        except RegaugeError as error:
            return unmeasured_trial(draw, error)
        return await judge_trial(draw, asked.answer, opinions=asked.opinions, offline=self._offline)

    async def make_all(
        self, draws: Sequence[Draw], *, landed: Callable[[], None] = lambda: None
    ) -> list[Trial]:
        """The judged trials of many draws, in their order; many are made at once.

        Args:
            draws: What to make.
            landed: Called after each trial.
        """
        made: dict[int, Trial] = {}
        waiting = iter(enumerate(draws))

        async def make_some() -> None:
            for place, draw in waiting:
                made[place] = await self.make(draw)
                landed()
                await asyncio.sleep(0)  # replayed trials wait for nothing else

        await asyncio.gather(*(make_some() for _ in range(min(len(draws), _AT_ONCE))))
        return [made[place] for place in range(len(draws))]

    async def ask(self, draw: Draw) -> AskedTrial:
        """Get an answer, and what the judges that ask a model say of it.

        Raises:
            UnmeasuredError: There is no answer.
            RegaugeError: The case cannot be asked, or recordings cannot be read.
        """
        with nullcontext() if self._drawing is None else self._drawing.cases.trial(draw):
            draw.planned.plan()
            answer = self._answers.find_draw(draw)
            if answer is None:
                answer = await self._draw(draw)
            return AskedTrial(answer=answer, opinions=await self.judged(draw, answer))

    async def judged(self, draw: Draw, answer: SourcedCompletion) -> ModelVerdicts:
        """The verdicts of the judges that call models on a completion, requested together."""
        judges = draw.planned.suite.model_judges
        if not judges:
            return {}
        verdicts = await asyncio.gather(*[self._opinion(judge, draw, answer) for judge in judges])
        return {judge.name: verdict for judge, verdict in zip(judges, verdicts, strict=True)}

    async def end_target(self, target: Target) -> None:
        """End the process of a target."""
        if self._drawing is not None:
            await self._drawing.end_target(target)

    async def copy(self, draws: Mapping[Draw, int]) -> None:
        """Keep judged draws under other numbers as well; those that are recorded stay.

        Judges find the calls they made about a draw under numbers that follow the other one.
        """
        copied: list[tuple[Draw, Draw, SourcedCompletion]] = []
        with self._answers.together(min(draws.values(), default=0)):
            for draw, number in draws.items():
                target = Draw(draw.planned, number)
                answer = self._copy(draw, target)
                if answer is not None:
                    copied.append((draw, target, answer))
        await asyncio.gather(*[self._judge_copy(*copy) for copy in copied])

    def _copy(self, draw: Draw, target: Draw) -> SourcedCompletion | None:
        """Keep an answer, or all calls of a conversation, under another number, too."""

        def copy(answer: AnswerKey) -> SourcedCompletion | None:
            key = replace(answer.key, trial=target.trial)
            return self._answers.copy(answer, answer._replace(key=key, trial=target.trial))

        if not draw.planned.converses:
            return copy(draw.answer_key)
        copies: list[SourcedCompletion] = []

        def find(question: CaseRequest) -> SourcedCompletion | None:
            made = copy(question.answer_key)
            if made is not None:
                copies.append(made)
            return self._answers.find_call(question)

        answer = replay(draw, find)
        return answer if copies else None

    async def _judge_copy(self, draw: Draw, target: Draw, answer: SourcedCompletion) -> None:
        judges = draw.planned.suite.model_judges
        if not judges:
            return
        made = self._judging.used(draw.planned.suite.prompt.name).calls

        async def copied(question: CaseRequest, judge: ModelJudge, _: Draw) -> SourcedCompletion:
            digest, trial = question.key.digest, question.key.trial
            # A judge numbers its calls from a multiple of the trial's number.
            for factor in {key.trial // draw.trial for key in made if key.digest == digest}:
                own = RecordingKey(digest, trial + factor * (draw.trial - target.trial))
                answer = question.answer_key._replace(key=own, trial=draw.trial)
                self._answers.copy(answer, question.answer_key)
            return await self._reply(question, judge, target)

        judging = self._judging.asking(copied)
        for judge in judges:
            with suppress(UnmeasuredError):
                await judging.verdict(judge, target, answer.completion)

    def prepare(self, draws: Sequence[Draw]) -> None:
        """Load what will measure the answers of these draws."""
        for suite in {id(draw.planned.suite): draw.planned.suite for draw in draws}.values():
            for judge in suite.model_judges:
                if isinstance(judge, MemoisedJudge):
                    self._judging.prepare(judge, here=True)

    def find(self, draw: Draw) -> SourcedCompletion:
        """The answer of a draw, where nothing has to be asked.

        Raises:
            MissingRecordingError: There is none.
            RegaugeError: The case cannot be asked, or recordings cannot be read.
        """
        draw.planned.plan()
        answer = self._answers.find_draw(draw)
        if answer is None:
            raise self._missing(draw)
        return answer

    def conclude(self, draw: Draw, asked: AskedTrial) -> Trial:
        """Let the rules judge, too; for a thread without an event loop."""
        judging = judge_trial(draw, asked.answer, opinions=asked.opinions, offline=self._offline)
        judges = draw.planned.suite.judges
        if not all(isinstance(judge, Rule) or judge.name in asked.opinions for judge in judges):
            return asyncio.run(judging)
        try:
            judging.send(None)
        except StopIteration as done:  # rules wait for nothing
            trial: Trial = done.value
            return trial
        raise AssertionError("a rule waited")

    async def answer(self, question: CaseRequest) -> SourcedCompletion:
        """The answer to any question, of no case: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        recorded = self._answers.find_call(question)
        if recorded is not None:
            return recorded
        if self._drawing is None:
            raise MissingRecordingError(
                prompt=question.prompt, case=question.case, trial=question.key.trial, stale=False
            )
        return await self._drawing.ask(question)

    def forget(self, question: CaseRequest) -> None:
        """Drop the answer to a question from the local store, so that the next one is live."""
        self._answers.forget(question)

    def used(self, prompt: str) -> Used:
        """The recordings that judgements of a prompt's completions have used so far."""
        return self._judging.used(prompt)

    async def _call(self, question: CaseRequest) -> SourcedCompletion:
        """The completion of a call: recorded, from the local store, or live."""
        recorded = self._answers.find_call(question)
        if recorded is None:
            assert self._drawing is not None
            return await self._drawing.ask(question)
        paid_here = self._drawing is not None and question.key in self._drawing.paid
        return replace(recorded, source="live") if paid_here else recorded

    async def _draw(self, draw: Draw) -> SourcedCompletion:
        target = draw.planned.suite.target
        if self._drawing is None or (target is not None and target.outputs is not None):
            raise self._missing(draw)
        try:
            if draw.planned.converses:
                answer = await converse(draw, self._call)
            else:
                answer = await self._drawing.ask(CaseRequest.of_draw(draw))
        except Exception:
            self._progress.failed += 1
            raise
        self._progress.landed += 1
        return answer

    def _missing(self, draw: Draw) -> MissingRecordingError:
        planned = draw.planned
        settings = None if planned.suite.target is None else planned.suite.target.settings
        if isinstance(settings, RecordedTarget):
            return MissingOutputError(
                prompt=planned.suite.prompt.name,
                case=planned.case.id,
                trial=draw.trial,
                file=settings.path,
            )
        return MissingRecordingError(
            prompt=planned.suite.prompt.name,
            case=planned.case.id,
            trial=draw.trial,
            stale=self._answers.has_older(planned),
        )

    async def _opinion(
        self, judge: ModelJudge, draw: Draw, answer: SourcedCompletion
    ) -> JudgedVerdict | UnmeasuredError:
        try:
            return await self._judging.verdict(judge, draw, answer.completion)
        except UnmeasuredError as error:
            return error

    async def _reply(
        self, question: CaseRequest, judge: ModelJudge, draw: Draw
    ) -> SourcedCompletion:
        """A reply to a judge: recorded, from the local store, or live."""
        recorded = self._answers.find_call(question)
        if recorded is None and self._drawing is None:
            self._misses.note(judge, draw)
            raise MissingRecordingError(
                prompt=question.prompt,
                case=question.case,
                trial=draw.trial,
                stale=False,
                judge=judge.name,
            )
        reply = await self._call(question)
        self._progress.judge_calls += recorded is None
        return reply


def unmeasured_trial(draw: Draw, error: RegaugeError) -> Trial:
    """The trial of a draw that has no answer."""
    if not isinstance(error, UnmeasuredError):
        unmeasured = UnmeasuredError(str(error))
        unmeasured.__cause__ = error
        error = unmeasured
    return Trial(number=draw.trial, request_digest=draw.planned.digest, answer=None, error=error)
