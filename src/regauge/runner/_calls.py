"""Calls of models, each within the budget of the run."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from regauge.errors import BudgetError, ProviderError, RecordingError, UnmeasuredError
from regauge.providers import Usage, cost_of
from regauge.runner._budget import Budget, CasesInBudget
from regauge.runner._expected import ExpectedUsage
from regauge.runner._providers import Providers, batch_cost, price_for
from regauge.runner._result import SourcedCompletion

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractContextManager

    from regauge.cluster import Cluster
    from regauge.errors import PendingError
    from regauge.project import Project
    from regauge.providers import Completion, Provider
    from regauge.recordings import RecordingKey
    from regauge.runner._completions import Completions
    from regauge.runner._plan import CaseRequest
    from regauge.runner._spec import RunOptions
    from regauge.targets import Target


@dataclass(slots=True)
class RunProgress:
    """The progress of a run's trials.

    Attributes:
        total: Trials without a completion at the start.
        completed: Trials that have one now.
        failed: Trials that ended without one.
        judge_calls: Responses from models of judges.
        notes: Warnings for the user, such as about a worker of a cluster.
    """

    total: int = 0
    completed: int = 0
    failed: int = 0
    judge_calls: int = 0
    notes: list[str] = field(default_factory=list[str])
    _started: float = field(default=0.0)

    def start(self, total: int) -> None:
        """Start the count and the clock."""
        self.total = total
        self._started = time.monotonic()

    def expect(self, trials: int) -> None:
        """Add trials to the total."""
        self.total += trials

    def count(self, *, failed: bool = False) -> None:
        """Count a trial that has a completion, or that ended without one."""
        self.failed += failed
        self.completed += not failed

    def count_judge_call(self) -> None:
        """Count a response from the model of a judge."""
        self.judge_calls += 1

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end at the pace so far; None before the first completion."""
        done = self.completed + self.failed
        return self.elapsed_s / done * (self.total - done) if done else None


@asynccontextmanager
async def ticking(tick: Callable[[], None], *, every_s: float) -> AsyncGenerator[None]:
    """Call `tick` every `every_s` seconds while the block runs."""

    async def run() -> None:
        while True:
            await asyncio.sleep(every_s)
            tick()

    ticker = asyncio.ensure_future(run())
    try:
        yield
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker


_T = TypeVar("_T")


class BatchedWrites:
    """Joins simultaneous writes in one transaction. For one event loop.

    A transaction costs several times what a row in it does, and completions arrive in bursts.

    Args:
        together: Called to open the transaction.
    """

    def __init__(self, together: Callable[[], AbstractContextManager[None]]) -> None:
        self._together = together
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def perform(self, write: Callable[[], _T]) -> _T:
        """The result of `write`, after the transaction.

        Raises:
            Exception: The error of `write`, or of the transaction, which then has no effect.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((write, future))
        return await future

    def _flush(self) -> None:
        # Cancelled writes are performed, too: their completions are paid for.
        waiting, self._waiting = self._waiting, []
        self._perform(waiting)

    def _perform(self, waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]]) -> None:
        try:
            with self._together():
                results = [write() for write, _ in waiting]
        except Exception as error:  # noqa: BLE001 - the caller of each write receives it
            if len(waiting) > 1:
                for entry in waiting:  # one write must not fail the others
                    self._perform([entry])
            elif not waiting[0][1].done():
                waiting[0][1].set_exception(error)
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)


WriteResult = TypeVar("WriteResult")

# Polls of the store while another process makes the call, which takes seconds: short enough to add
# no visible delay, long enough to leave SQLite alone.
_POLL_S = 0.05
# Every poll is a transaction that keeps other processes from writing.
_POLL_MAX_S = 0.8


class Batches(Protocol):
    """Completions from batches, which arrive in a later run."""

    def find(self, case_request: CaseRequest) -> Completion | None:
        """The collected completion of a call; None if it is not requested yet.

        Raises:
            PendingError: It is in progress, or batches cannot have it.
        """
        ...

    def request(self, case_request: CaseRequest) -> PendingError:
        """Add a call to the next batch; returns the error of the pending completion.

        Raises:
            ProviderError: The endpoint does not support the request.
        """
        ...


class LiveCalls:
    """Calls models for one run, and stores each completion on arrival.

    Args:
        workers: The number of processes that share the run and its concurrency.
        batches: The batches to use instead of live calls; None for live calls.
        cluster: The cluster whose workers make the calls; None for calls from this process.
        note: Called with each warning for the user.

    Attributes:
        cases: The cases in progress within the budget.
    """

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        *,
        completions: Completions,
        budget: Budget,
        environ: Mapping[str, str],
        workers: int,
        note: Callable[[str], None] = lambda _: None,
        batches: Batches | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self._settings = project.settings
        self._batches = batches
        self._options = options
        self._completions = completions
        self._budget = budget
        self._usage = ExpectedUsage(completions)
        self._providers = Providers(
            project,
            environ,
            concurrency=options.concurrency,
            workers=workers,
            note=note,
            cluster=cluster,
        )
        self._writes = BatchedWrites(completions.together)
        self._store_error: RecordingError | None = None
        self._under_way: dict[RecordingKey, asyncio.Task[SourcedCompletion]] = {}
        self.cases = CasesInBudget(budget)

    def ahead(self) -> int:
        """The most trials that run or wait for a judge: twice the concurrency by default."""
        return self._options.ahead or 2 * self._providers.width

    async def complete(self, case_request: CaseRequest) -> SourcedCompletion:
        """Make one call and store the completion; simultaneous equal calls share it.

        The first of them has it as live, the others from the store: it is paid for once.

        Raises:
            UnmeasuredError: There is no completion.
        """
        task = self._under_way.get(case_request.key)
        is_shared = task is not None
        if task is None:
            self._refuse_huge(case_request)
            from_batch = (
                None if self._batches is None else self._collect(case_request, self._batches)
            )
            task = asyncio.ensure_future(self._request(case_request, from_batch))
            self._under_way[case_request.key] = task
            task.add_done_callback(lambda done: self._finish(case_request.key, done))
        # A call that is paid for continues when its caller has stopped waiting for it.
        try:
            sourced = await asyncio.shield(task)
            return replace(sourced, source="store") if is_shared else sourced
        except asyncio.CancelledError:
            if self._store_error is not None and task.cancelled():
                raise RecordingError(self._store_error.diagnostics) from None
            raise

    async def end_target(self, target: Target) -> None:
        """End the process of a target."""
        await self._providers.end_target(target)

    async def aclose(self) -> None:
        """Cancel calls in progress and close connections."""
        under_way = tuple(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._providers.aclose()

    def _finish(self, key: RecordingKey, task: asyncio.Task[SourcedCompletion]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # callers have it, unless all were cancelled

    def _collect(self, case_request: CaseRequest, batches: Batches) -> Completion:
        """The completion from a batch; without one, the call joins the next batch."""
        from_batch = batches.find(case_request)
        if from_batch is not None:
            return from_batch
        expected_usd, tokens = self._expected(case_request)
        with self._budget.charge(expected_usd, tokens=tokens) as charge:
            pending = batches.request(case_request)
            # A batch is paid for once it has started.
            charge.settle(expected_usd, tokens)
        raise pending

    async def _request(
        self, case_request: CaseRequest, from_batch: Completion | None
    ) -> SourcedCompletion:
        if self._store_error is not None:
            raise RecordingError(self._store_error.diagnostics)
        pause_s = _POLL_S
        while (
            claim := await self._store(lambda: self._completions.claim(case_request))
        ) == "taken":
            await asyncio.sleep(pause_s)
            if pause_s == _POLL_MAX_S:
                # On a full disk, the process with the claim cannot release it.
                await self._store(lambda: self._completions.check_writable(case_request))
            pause_s = min(1.5 * pause_s, _POLL_MAX_S)
        if claim == "recorded":  # by another process meanwhile
            stored_completion = self._completions.find(case_request.completion_key)
            assert stored_completion is not None
            return stored_completion
        try:
            completion = from_batch or await self._completion(case_request)
            # Judges see the completion of a replay, so that both give the same verdicts.
            kept_completion = await self._store(
                lambda: self._completions.keep(case_request, completion)
            )
        except BaseException as error:
            with suppress(RecordingError):
                self._completions.release(case_request)
            if isinstance(error, ProviderError):
                # A gateway may quote the key that it rejects.
                error.args = (self._completions.redact(str(error)),)
            raise
        return SourcedCompletion(completion=kept_completion, source="live")

    async def _completion(self, case_request: CaseRequest) -> Completion:
        """Call the model, within the budget."""
        request = case_request.request
        provider: Provider
        if case_request.target is not None:
            provider = self._providers.of_target(case_request.target)
        else:
            provider = request.provider_override or self._providers.find(request.provider)
        expected_usd, expected_tokens = self._expected(case_request)
        await self.cases.admit(case_request)
        while self._budget.may_fit_later(expected_usd):  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(_POLL_S)
        with self._budget.charge(expected_usd, tokens=expected_tokens) as charge:
            completion = await provider.complete(request)
            actual_usd, usage = completion.cost_usd, completion.usage
            if usage == Usage() and case_request.target is None:
                # Without token counts in the response, the expected ones count.
                charge.settle(expected_usd if actual_usd is None else actual_usd, expected_tokens)
            else:
                charge.settle(actual_usd, usage.input_tokens + usage.output_tokens)
        self.cases.add(case_request, charge)
        self._usage.add(case_request, completion)
        return completion

    def _refuse_huge(self, case_request: CaseRequest) -> None:
        """Refuse a request above `request_mb_max`.

        Raises:
            UnmeasuredError: The request is too long.
        """
        request = case_request.request
        size_mb = sum(len((message.content or "").encode()) for message in request.messages) / 1e6
        if case_request.target is not None or size_mb <= self._settings.request_mb_max:
            return
        usage = self._usage.of_request(case_request)
        cost_usd = cost_of(usage, price_for(self._settings, request))
        cost = "an unknown amount" if cost_usd is None else f"${cost_usd:.2f}"
        part = "" if case_request.judge is None else f" of judge {case_request.judge!r}"
        place = case_request.case_at and f" (case at {case_request.case_at})"
        raise UnmeasuredError(
            f"the request{part} was not sent: {size_mb:.1f} MB of text, about"
            f" {usage.input_tokens:,} tokens, would cost {cost}{place}",
            fix="shorten the inputs of the case, or allow it with"
            f" `request_mb_max = {math.ceil(size_mb)}` in [tool.regauge] of pyproject.toml",
        )

    async def _store(self, write: Callable[[], WriteResult]) -> WriteResult:
        """Write to the local store; a failure ends all calls, as no completion could be stored."""
        try:
            return await self._writes.perform(write)
        except RecordingError as error:
            if self._store_error is None:
                self._store_error = error
                for task in self._under_way.values():
                    if task is not asyncio.current_task():
                        task.cancel()
            raise

    def _expected(self, case_request: CaseRequest) -> tuple[float, int]:
        """The expected cost and tokens of a call; 0 without a limit."""
        usage = self._usage.of_request(case_request) if self._budget.limits_usage else Usage()
        tokens = usage.input_tokens + usage.output_tokens
        return self._expected_usd(case_request, usage), tokens

    def _expected_usd(self, case_request: CaseRequest, usage: Usage) -> float:
        """The expected cost of a call, in US dollars; 0 without a limit.

        Raises:
            BudgetError: The price is unknown.
        """
        if self._budget.limit_usd is None:
            return 0.0
        request = case_request.request
        if case_request.target is not None:
            if case_request.target.settings.cost_usd is None:
                raise BudgetError(
                    f"a budget is set, and the price of a call of {case_request.model} is not\n"
                    "  fix: set cost_usd of the target in pyproject.toml, or limit the calls with"
                    " --budget-calls"
                )
            return case_request.target.settings.cost_usd
        cost_usd = cost_of(usage, price_for(self._settings, request))
        if self._batches is not None:
            cost_usd = batch_cost(self._settings, request.provider, cost_usd)
        if cost_usd is None:
            raise BudgetError(
                f"a budget is set, but {request.provider}:{request.model} has no price\n"
                f"  fix: add prices to [tool.regauge.providers.{request.provider}] in"
                " pyproject.toml, or run without a budget"
            )
        return cost_usd
