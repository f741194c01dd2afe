"""Gets one answer: from another process that is just fetching it, or from the model."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import BudgetError, ProviderError, RecordingError
from regauge.providers import Usage, cost_of
from regauge.runner._expected_usage import ExpectedUsage
from regauge.runner._providers import Providers, price_for
from regauge.runner._trial import SourcedCompletion
from regauge.runner._writes import Writes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.project import Project
    from regauge.providers import Completion, Provider
    from regauge.recordings import RecordingKey
    from regauge.runner._answers import Answers
    from regauge.runner._budget import Budget
    from regauge.runner._options import RunOptions
    from regauge.runner._question import Question

__all__ = ["Drawing"]

Written = TypeVar("Written")

_ASK_AGAIN_S = 0.05
# Every look is a transaction that keeps other processes from writing.
_ASK_AGAIN_MAX_S = 0.8


class Drawing:
    """Asks models for one run; every answer is kept the moment it lands.

    Args:
        workers: How many processes share the run; each takes its share of the concurrency.

    Attributes:
        paid: The answers that this process asked a model for.
    """

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        *,
        answers: Answers,
        budget: Budget,
        environ: Mapping[str, str],
        workers: int,
    ) -> None:
        self._settings = project.settings
        self._options = options
        self._answers = answers
        self._budget = budget
        self._usage = ExpectedUsage(answers)
        self._providers = Providers(
            project, environ, concurrency=options.concurrency, workers=workers
        )
        self.paid: set[RecordingKey] = set()
        self._writes = Writes(answers.together)
        self._store_error: RecordingError | None = None
        self._under_way: dict[RecordingKey, asyncio.Task[SourcedCompletion]] = {}

    def ahead(self) -> int:
        """How many draws may be under way or waiting to be judged: twice the concurrency."""
        return self._options.ahead or 2 * self._providers.width

    async def ask(self, question: Question) -> SourcedCompletion:
        """Get one answer, and keep it; who asks the same at the same time shares it.

        Raises:
            UnmeasuredError: There is none.
        """
        task = self._under_way.get(question.key)
        if task is None:
            task = asyncio.ensure_future(self._ask(question))
            self._under_way[question.key] = task
            task.add_done_callback(lambda done: self._landed(question.key, done))
        # A call that is paid for continues when its caller has stopped waiting for it.
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._store_error is not None and task.cancelled():
                raise RecordingError(self._store_error.faults) from None
            raise

    async def aclose(self) -> None:
        """End what is under way, and give back connections."""
        under_way = tuple(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._providers.aclose()

    def _landed(self, key: RecordingKey, task: asyncio.Task[SourcedCompletion]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # all who waited have it; maybe nobody does any more

    async def _ask(self, question: Question) -> SourcedCompletion:
        if self._store_error is not None:
            raise RecordingError(self._store_error.faults)
        key = question.key
        pause_s = _ASK_AGAIN_S
        while (claim := await self._stored(lambda: self._answers.claim(question))) == "taken":
            await asyncio.sleep(pause_s)
            if pause_s == _ASK_AGAIN_MAX_S:
                # Where nothing can be written, whoever has the claim cannot give it back.
                await self._stored(lambda: self._answers.check_writable(question))
            pause_s = min(1.5 * pause_s, _ASK_AGAIN_MAX_S)
        if claim == "answered":  # by another process, in the meantime
            landed = self._answers.find(
                question.file, key, provider=question.request.provider, trial=question.trial
            )
            assert landed is not None
            return landed
        try:
            completion = await self._completion(question)
            self.paid.add(key)
            # Judges see what a replay will show them, so that both come to the same verdicts.
            kept = await self._stored(lambda: self._answers.keep(question, completion))
        except BaseException as error:
            with suppress(RecordingError):
                self._answers.release(question)
            if isinstance(error, ProviderError):
                # Gateways repeat the key they refuse.
                error.args = (self._answers.redact(str(error)),)
            raise
        return SourcedCompletion(completion=kept, source="live")

    async def _completion(self, question: Question) -> Completion:
        """Call the model, within the budget."""
        request = question.request
        provider: Provider
        if question.target is not None:
            provider = self._providers.of_target(question.target)
        else:
            provider = request.answered_by or self._providers.of(request.provider)
        usage = self._usage.of_question(question) if self._budget.limited else Usage()
        expected_usd = self._expected_usd(question, usage)
        expected_tokens = usage.input_tokens + usage.output_tokens
        while self._budget.may_fit_later(expected_usd):  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(_ASK_AGAIN_S)
        with self._budget.charge(expected_usd, tokens=expected_tokens) as charge:
            completion = await provider.complete(request)
            charge.actual_usd = completion.cost_usd
            actual = completion.usage
            charge.actual_tokens = actual.input_tokens + actual.output_tokens
        self._usage.add(question, completion)
        return completion

    async def _stored(self, write: Callable[[], Written]) -> Written:
        """Write to the local store; once it fails, all calls end: no completion could be kept."""
        try:
            return await self._writes.do(write)
        except RecordingError as error:
            if self._store_error is None:
                self._store_error = error
                for task in self._under_way.values():
                    if task is not asyncio.current_task():
                        task.cancel()
            raise

    def _expected_usd(self, question: Question, usage: Usage) -> float:
        """What a call is expected to cost; a budget cannot be kept without a price."""
        if self._budget.limit_usd is None:
            return 0.0
        request = question.request
        if question.target is not None:
            if question.target.settings.cost_usd is None:
                raise BudgetError(
                    f"a budget is set, and the price of a call of {question.model} is not\n"
                    "  fix: set cost_usd of the target in pyproject.toml, or limit the calls with"
                    " --budget-calls"
                )
            return question.target.settings.cost_usd
        cost_usd = cost_of(usage, price_for(self._settings, request))
        if cost_usd is None:
            raise BudgetError(
                f"a budget is set, but nothing says what {request.provider}:{request.model} costs\n"
                f"  fix: add prices to [tool.regauge.providers.{request.provider}] in"
                " pyproject.toml, or run without a budget"
            )
        return cost_usd
