"""Calls of models, each within the budget of the run."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from regauge.errors import BudgetError, ProviderError, RecordingError, UnmeasuredError
from regauge.providers import Usage, cost_of
from regauge.runner._expected import ExpectedUsage
from regauge.runner._providers import Providers, batch_cost, price_for
from regauge.runner._result import SourcedCompletion

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping
    from contextlib import AbstractContextManager

    from regauge.cluster import Cluster
    from regauge.errors import PendingError
    from regauge.project import Project
    from regauge.providers import Completion, Provider
    from regauge.recordings import RecordingKey
    from regauge.runner._answers import Completions
    from regauge.runner._plan import CaseRequest, PlannedTrial
    from regauge.runner._spec import RunOptions
    from regauge.targets import Target

# The assumed ratio of actual to expected cost before the first call has ended.
_UNKNOWN_EXCESS: Final = 4.0


@dataclass(slots=True)
class Charge:
    """The expected and the actual cost of one call, in US dollars and tokens."""

    expected_usd: float
    expected_tokens: int = 0
    actual_usd: float | None = None
    actual_tokens: int | None = None


@dataclass(slots=True)
class Budget:
    """The limits and the spending of a run.

    Attributes:
        limit_usd: US dollars for all processes of the run; None for no limit.
        processes: The number of processes that share the run, each with an equal part.
        spent_usd: The cost of finished calls.
        reserved_usd: The expected cost of calls in progress.
        limit_tokens: Input and output tokens for all processes; None for no limit.
        spent_tokens: The tokens of finished calls.
        reserved_tokens: The expected tokens of calls in progress.
        limit_calls: Calls for all processes; None for no limit.
        calls: The number of finished calls and calls in progress; failed calls do not count.
        calls_under_way: The number of calls in progress.
        excess: The highest ratio of actual to expected cost; 0 before the first call. Later calls
            reserve this multiple of their expected cost.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
    reserved_usd: float = field(default=0.0)
    processes: int = 1
    limit_tokens: int | None = None
    spent_tokens: int = 0
    reserved_tokens: int = 0
    limit_calls: int | None = None
    calls: int = 0
    calls_under_way: int = 0
    excess: float = 0.0

    @property
    def limits_usage(self) -> bool:
        """Return whether cost or tokens have a limit."""
        return self.limit_usd is not None or self.limit_tokens is not None

    @property
    def _share_usd(self) -> float:
        return float("inf") if self.limit_usd is None else self.limit_usd / self.processes + 1e-12

    def may_fit_later(self, expected_usd: float) -> bool:
        """Return whether a call fits if calls in progress cost less than reserved."""
        fits_now = self._committed(expected_usd) <= self._share_usd
        alone = self.spent_usd + expected_usd * (self.excess or 1.0)
        return not fits_now and self.reserved_usd > 0 and alone <= self._share_usd

    def _committed(self, expected_usd: float) -> float:
        """The cost of finished calls, calls in progress and the next one, scaled by `excess`."""
        if not self.reserved_usd + expected_usd:
            return self.spent_usd
        excess = self.excess or (_UNKNOWN_EXCESS if self.reserved_usd else 1.0)
        return self.spent_usd + (self.reserved_usd + expected_usd) * excess

    @contextmanager
    def charge(self, expected_usd: float, *, tokens: int = 0) -> Generator[Charge]:
        """Reserve the expected cost and tokens of a call while it is in progress.

        A failed call counts no cost, as providers do not bill it.

        Raises:
            BudgetError: The call could exceed a limit.
        """
        if self._committed(expected_usd) > self._share_usd:
            committed = self.spent_usd + self.reserved_usd
            cents = f"{self.limit_usd:.2f}"
            limit = cents if float(cents) == self.limit_usd else f"{self.limit_usd:g}"
            part = f" (a part of it in each of {self.processes} processes)"
            raise BudgetError(
                f"the budget of ${limit}{part if self.processes > 1 else ''}"
                f" is reached: ${committed:.4f} spent or under way, and the next call is expected"
                f" to cost ${expected_usd:.4f}\n"
                "  completions so far are kept: the same command with a larger --budget-usd"
                " continues where this one stopped"
            )
        self._check_counts(tokens)
        charge = Charge(expected_usd, tokens)
        self.reserved_usd += expected_usd
        self.reserved_tokens += tokens
        self.calls += 1
        self.calls_under_way += 1
        try:
            yield charge
        except BaseException:
            self.calls -= 1
            raise
        finally:
            self.calls_under_way -= 1
            self.reserved_usd -= expected_usd
            self.reserved_tokens -= tokens
            if charge.actual_usd is not None:
                self.spent_usd += charge.actual_usd
                if expected_usd:
                    self.excess = max(self.excess, 1.0, charge.actual_usd / expected_usd)
            if charge.actual_tokens is not None:
                self.spent_tokens += charge.actual_tokens

    @property
    def is_limited(self) -> bool:
        """Return whether anything has a limit."""
        return self.limits_usage or self.limit_calls is not None

    def check_case(self, usd: float, *, tokens: int, calls: int) -> None:
        """Raise a BudgetError if a new case and those in progress exceed a limit.

        Args:
            usd: The remaining cost of these cases, in US dollars.
            tokens: Their remaining tokens.
            calls: Their remaining calls.
        """
        amounts: tuple[tuple[float | None, float, Literal["usd", "calls", "tokens"]], ...] = (
            (self.limit_usd, self.spent_usd + usd, "usd"),
            (self.limit_calls, self.calls - self.calls_under_way + calls, "calls"),
            (self.limit_tokens, self.spent_tokens + tokens, "tokens"),
        )
        for limit, after, noun in amounts:
            if limit is not None and after > limit / self.processes + 1e-12:
                budget_text = f"${limit:g}" if noun == "usd" else f"{limit:g} {noun}"
                needed_text = f"${after:.4f}" if noun == "usd" else f"{after:.0f} {noun}"
                raise BudgetError(
                    f"the budget of {budget_text} is reached: the cases that have begun and this"
                    f" one would take about {needed_text}, with all trials and judges\n"
                    f"  completions so far are kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )

    def _check_counts(self, tokens: int) -> None:
        """Raise a BudgetError if one more call exceeds the limit of calls or tokens."""
        committed_tokens = self.spent_tokens + self.reserved_tokens
        counts: tuple[tuple[int | None, int, Literal["calls", "tokens"]], ...] = (
            (self.limit_calls, self.calls + 1, "calls"),
            (self.limit_tokens, committed_tokens + tokens, "tokens"),
        )
        for limit, after, noun in counts:
            if limit is not None and after > limit / self.processes:
                raise BudgetError(
                    f"the budget of {limit} {noun} is reached: one more call makes it {after}\n"
                    f"  completions so far are kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )


@dataclass(slots=True)
class _Cost:
    """The cost of a trial's calls."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def cover(self, other: _Cost) -> None:
        """Raise each number to at least that of another cost."""
        self.usd = max(self.usd, other.usd)
        self.tokens = max(self.tokens, other.tokens)
        self.calls = max(self.calls, other.calls)


class CasesInBudget:
    """Starts a case only if all its trials and judgements fit in the budget.

    So the budget pays for complete cases, not for completions that are never judged. The first
    case runs alone to measure the cost of a trial. For one event loop.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._trials: dict[tuple[str, str], int] = {}
        self._active: Counter[tuple[str, str]] = Counter()
        self._unfinished: dict[tuple[str, str], int] = {}
        self._costs: dict[tuple[str, str, int], _Cost] = {}
        self._highest: _Cost | None = None
        self._progressed = asyncio.Event()

    @contextmanager
    def trial(self, planned_trial: PlannedTrial) -> Generator[None]:
        """Count the calls of a trial within the block."""
        suite = planned_trial.planned_case.suite
        several = suite.trials > 1 or suite.model_judges or planned_trial.planned_case.converses
        if not several or not self._budget.is_limited:
            yield
            return
        key = (suite.prompt.name, planned_trial.planned_case.case.id)
        self._trials[key] = suite.trials
        self._active[key] += 1
        try:
            yield
        finally:
            self._active[key] -= 1
            cost = self._costs.pop((*key, planned_trial.trial), None)
            if key in self._unfinished:
                self._highest = self._highest or _Cost()
                self._highest.cover(cost or _Cost())
                self._unfinished[key] -= 1
                if not self._unfinished[key]:
                    del self._unfinished[key]
            self._progressed.set()

    async def admit(self, case_request: CaseRequest) -> None:
        """Wait until the case of a call may start.

        Raises:
            BudgetError: The rest of the budget cannot finish the case.
        """
        key = (case_request.prompt, case_request.case)
        if not self._active[key]:
            return
        while key not in self._unfinished:
            if self._highest is None and any(
                self._active[unfinished] for unfinished in self._unfinished
            ):
                self._progressed.clear()
                await self._progressed.wait()
                continue
            if self._highest is not None:
                self._check(self._trials[key], self._highest)
            self._unfinished[key] = self._trials[key]

    def add(self, case_request: CaseRequest, charge: Charge) -> None:
        """Add the cost of a call."""
        if not self._active[case_request.prompt, case_request.case]:
            return
        trial_cost = self._costs.setdefault(
            (case_request.prompt, case_request.case, case_request.trial), _Cost()
        )
        trial_cost.usd += charge.actual_usd or 0.0
        trial_cost.tokens += charge.actual_tokens or 0
        trial_cost.calls += 1

    def _check(self, trials: int, highest: _Cost) -> None:
        remaining = sum(self._unfinished.values()) + trials
        under_way = list(self._costs.values())
        self._budget.check_case(
            remaining * highest.usd - sum(trial.usd for trial in under_way),
            tokens=remaining * highest.tokens - sum(trial.tokens for trial in under_way),
            calls=remaining * highest.calls - sum(trial.calls for trial in under_way),
        )


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


class Drawing:
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

        Raises:
            UnmeasuredError: There is no completion.
        """
        task = self._under_way.get(case_request.key)
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
            return await asyncio.shield(task)
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
            charge.actual_usd, charge.actual_tokens = expected_usd, tokens
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
            charge.actual_usd = completion.cost_usd
            actual = completion.usage
            charge.actual_tokens = actual.input_tokens + actual.output_tokens
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
