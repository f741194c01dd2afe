"""The budget of a run, checked before every call; no estimate exceeds it."""

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
    from regauge.runner._answers import Answers
    from regauge.runner._plan import CaseRequest, Draw
    from regauge.runner._spec import RunOptions
    from regauge.targets import Target

# Until a first call shows it, calls may cost so many times what is expected of them.
_UNKNOWN_EXCESS: Final = 4.0


@dataclass(slots=True)
class Charge:
    """The money and tokens of one call: what was expected, then what it took."""

    expected_usd: float
    expected_tokens: int = 0
    actual_usd: float | None = None
    actual_tokens: int | None = None


@dataclass(slots=True)
class Budget:
    """Keeps count of what calls cost, and of the calls themselves.

    Attributes:
        limit_usd: In US dollars, for all processes of the run together; None is no limit.
        processes: How many processes share the run; each may spend an equal part.
        spent_usd: What finished calls cost.
        reserved_usd: What calls under way are expected to cost.
        limit_tokens: Tokens in and out, for all processes; None is no limit.
        spent_tokens: What finished calls used.
        reserved_tokens: What calls under way are expected to use.
        limit_calls: For all processes; None is no limit.
        calls: How many were made or are under way; one that failed does not count.
        calls_under_way: How many of these are.
        excess: The most that a call cost, as a multiple of what was expected; 0 before the first.
            Later calls are reserved at that rate, so that a limit holds whatever they cost.
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
    def limited(self) -> bool:
        """Return whether money or tokens have a limit."""
        return self.limit_usd is not None or self.limit_tokens is not None

    @property
    def _share_usd(self) -> float:
        return float("inf") if self.limit_usd is None else self.limit_usd / self.processes + 1e-12

    def may_fit_later(self, expected_usd: float) -> bool:
        """Return whether a call fits only once calls under way cost less than reserved."""
        fits = self._committed(expected_usd) <= self._share_usd
        alone = self.spent_usd + expected_usd * (self.excess or 1.0)
        return not fits and self.reserved_usd > 0 and alone <= self._share_usd

    def _committed(self, expected_usd: float) -> float:
        """The cost spent, under way and next, scaled by actual against expected cost."""
        if not self.reserved_usd + expected_usd:
            return self.spent_usd
        excess = self.excess or (_UNKNOWN_EXCESS if self.reserved_usd else 1.0)
        return self.spent_usd + (self.reserved_usd + expected_usd) * excess

    @contextmanager
    def charge(self, expected_usd: float, *, tokens: int = 0) -> Generator[Charge]:
        """Reserve the expected cost and tokens of a call while it is under way.

        A call that fails costs nothing here: providers do not bill what they did not answer.

        Raises:
            BudgetError: With this call the run could exceed its limit.
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
                "  what has been answered is kept: the same command with a larger --budget-usd"
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
    def counts(self) -> bool:
        """Return whether anything has a limit."""
        return self.limited or self.limit_calls is not None

    def check_case(self, usd: float, *, tokens: int, calls: int) -> None:
        """Raise a BudgetError if a case does not fit, with those that have begun.

        Args:
            usd: The cost of all of them, without what is spent.
            tokens: Likewise.
            calls: Likewise.
        """
        amounts: tuple[tuple[float | None, float, Literal["usd", "calls", "tokens"]], ...] = (
            (self.limit_usd, self.spent_usd + usd, "usd"),
            (self.limit_calls, self.calls - self.calls_under_way + calls, "calls"),
            (self.limit_tokens, self.spent_tokens + tokens, "tokens"),
        )
        for limit, after, noun in amounts:
            if limit is not None and after > limit / self.processes + 1e-12:
                whole = f"${limit:g}" if noun == "usd" else f"{limit:g} {noun}"
                needed = f"${after:.4f}" if noun == "usd" else f"{after:.0f} {noun}"
                raise BudgetError(
                    f"the budget of {whole} is reached: the cases that have begun and this one"
                    f" would take about {needed}, with all trials and judges\n"
                    f"  what has been answered is kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )

    def _check_counts(self, tokens: int) -> None:
        """Raise a BudgetError where one more call, or its tokens, would be too many."""
        used = self.spent_tokens + self.reserved_tokens
        counts: tuple[tuple[int | None, int, Literal["calls", "tokens"]], ...] = (
            (self.limit_calls, self.calls + 1, "calls"),
            (self.limit_tokens, used + tokens, "tokens"),
        )
        for limit, after, noun in counts:
            if limit is not None and after > limit / self.processes:
                raise BudgetError(
                    f"the budget of {limit} {noun} is reached: one more call makes it {after}\n"
                    f"  what has been answered is kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )


@dataclass(slots=True)
class _Cost:
    """The cost of the calls of one trial."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def cover(self, other: _Cost) -> None:
        """Raise each number to that of the other."""
        self.usd = max(self.usd, other.usd)
        self.tokens = max(self.tokens, other.tokens)
        self.calls = max(self.calls, other.calls)


class CasesInBudget:
    """Begins a case under a budget only if all its trials and judges fit in.

    A budget would otherwise pay completions of many cases and the judges of few. The first case
    runs alone and shows the cost of a trial. For one event loop.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._trials: dict[tuple[str, str], int] = {}
        self._active: Counter[tuple[str, str]] = Counter()
        self._unfinished: dict[tuple[str, str], int] = {}
        self._spent: dict[tuple[str, str, int], _Cost] = {}
        self._most: _Cost | None = None
        self._moved = asyncio.Event()

    @contextmanager
    def trial(self, draw: Draw) -> Generator[None]:
        """Within the block, the calls of a trial are made."""
        suite = draw.planned.suite
        several = suite.trials > 1 or suite.model_judges or draw.planned.converses
        if not several or not self._budget.counts:
            yield
            return
        key = (suite.prompt.name, draw.planned.case.id)
        self._trials[key] = suite.trials
        self._active[key] += 1
        try:
            yield
        finally:
            self._active[key] -= 1
            cost = self._spent.pop((*key, draw.trial), None)
            if key in self._unfinished:
                self._most = self._most or _Cost()
                self._most.cover(cost or _Cost())
                self._unfinished[key] -= 1
                if not self._unfinished[key]:
                    del self._unfinished[key]
            self._moved.set()

    async def admit(self, question: CaseRequest) -> None:
        """Wait until the case of a call may begin.

        Raises:
            BudgetError: It could not be finished.
        """
        key = (question.prompt, question.case)
        if not self._active[key]:
            return
        while key not in self._unfinished:
            if self._most is None and any(
                self._active[unfinished] for unfinished in self._unfinished
            ):
                self._moved.clear()
                await self._moved.wait()
                continue
            if self._most is not None:
                self._check(self._trials[key], self._most)
            self._unfinished[key] = self._trials[key]

    def add(self, question: CaseRequest, charge: Charge) -> None:
        """Count a call that is paid."""
        if not self._active[question.prompt, question.case]:
            return
        spent = self._spent.setdefault((question.prompt, question.case, question.trial), _Cost())
        spent.usd += charge.actual_usd or 0.0
        spent.tokens += charge.actual_tokens or 0
        spent.calls += 1

    def _check(self, trials: int, most: _Cost) -> None:
        remaining = sum(self._unfinished.values()) + trials
        under_way = list(self._spent.values())
        self._budget.check_case(
            remaining * most.usd - sum(trial.usd for trial in under_way),
            tokens=remaining * most.tokens - sum(trial.tokens for trial in under_way),
            calls=remaining * most.calls - sum(trial.calls for trial in under_way),
        )


@dataclass(slots=True)
class DrawProgress:
    """Counts of draws; written by the drawing loop, read by reports.

    Attributes:
        total: Draws that have no answer at the start.
        landed: Draws that have one now.
        failed: Draws that ended without one.
        judge_calls: Replies that models of judges gave.
        notes: Warnings for the user, such as about a worker of a cluster.
    """

    total: int = 0
    landed: int = 0
    failed: int = 0
    judge_calls: int = 0
    notes: list[str] = field(default_factory=list[str])
    _started: float = field(default=0.0)

    def start(self, total: int) -> None:
        """Begin counting."""
        self.total = total
        self._started = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end at the pace so far; None before the first answer."""
        done = self.landed + self.failed
        return self.elapsed_s / done * (self.total - done) if done else None


@asynccontextmanager
async def ticking(tick: Callable[[], None], *, every_s: float) -> AsyncGenerator[None]:
    """Call `tick` now and then while the block runs."""

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


class Writes:
    """Performs writes together that the event loop asks for at once. For one event loop.

    A transaction costs several times what a row in it does, and answers land in bursts.

    Args:
        together: Opens the transaction.
    """

    def __init__(self, together: Callable[[], AbstractContextManager[None]]) -> None:
        self._together = together
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def do(self, write: Callable[[], _T]) -> _T:
        """The result of `write`, once it is kept.

        Raises:
            Exception: What `write` raised, or what kept the transaction from ending; then nothing
                of it is kept.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((write, future))
        return await future

    def _flush(self) -> None:
        # What was cancelled meanwhile is written all the same: an answer that landed is paid for.
        waiting, self._waiting = self._waiting, []
        self._perform(waiting)

    def _perform(self, waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]]) -> None:
        try:
            with self._together():
                results = [write() for write, _ in waiting]
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            if len(waiting) > 1:
                for each in waiting:  # one write must not fail the others
                    self._perform([each])
            elif not waiting[0][1].done():
                waiting[0][1].set_exception(error)
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)


Written = TypeVar("Written")

# Polls of the store while another process makes the completion, which takes seconds: short enough
# to add no visible delay, long enough to leave SQLite alone.
_ASK_AGAIN_S = 0.05
# Every look is a transaction that keeps other processes from writing.
_ASK_AGAIN_MAX_S = 0.8


class Batches(Protocol):
    """Completions that come in batches: none of them is waited for."""

    def find(self, question: CaseRequest) -> Completion | None:
        """The collected completion of a call; None where it is to be requested.

        Raises:
            PendingError: It is under way, or cannot come in a batch.
        """
        ...

    def request(self, question: CaseRequest) -> PendingError:
        """Add a call to the next batch; returns the reason why it has no completion yet.

        Raises:
            ProviderError: The endpoint takes no such request.
        """
        ...


class Drawing:
    """Asks models for one run; every answer is kept the moment it lands.

    Args:
        workers: How many processes share the run; each takes its share of the concurrency.
        batches: Where completions come from instead of live calls; None for live calls.
        cluster: Its workers make the calls; None makes them here.
        note: Takes warnings for the user.

    Attributes:
        paid: The answers that this process asked a model for.
        cases: The cases that begin within the budget.
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
        note: Callable[[str], None] = lambda _: None,
        batches: Batches | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self._settings = project.settings
        self._batches = batches
        self._options = options
        self._answers = answers
        self._budget = budget
        self._usage = ExpectedUsage(answers)
        self._providers = Providers(
            project,
            environ,
            concurrency=options.concurrency,
            workers=workers,
            note=note,
            cluster=cluster,
        )
        self.paid: set[RecordingKey] = set()
        self._writes = Writes(answers.together)
        self._store_error: RecordingError | None = None
        self._under_way: dict[RecordingKey, asyncio.Task[SourcedCompletion]] = {}
        self.cases = CasesInBudget(budget)

    def ahead(self) -> int:
        """The limit of trials that run or wait for a judge: twice the concurrency."""
        return self._options.ahead or 2 * self._providers.width

    async def ask(self, question: CaseRequest) -> SourcedCompletion:
        """Get one answer, and keep it; who asks the same at the same time shares it.

        Raises:
            UnmeasuredError: There is none.
        """
        task = self._under_way.get(question.key)
        if task is None:
            self._refuse_huge(question)
            collected = None if self._batches is None else self._collect(question, self._batches)
            task = asyncio.ensure_future(self._ask(question, collected))
            self._under_way[question.key] = task
            task.add_done_callback(lambda done: self._finish(question.key, done))
        # A call that is paid for continues when its caller has stopped waiting for it.
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._store_error is not None and task.cancelled():
                raise RecordingError(self._store_error.faults) from None
            raise

    async def end_target(self, target: Target) -> None:
        """End the process of a target."""
        await self._providers.end_target(target)

    async def aclose(self) -> None:
        """End what is under way, and give back connections."""
        under_way = tuple(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._providers.aclose()

    def _finish(self, key: RecordingKey, task: asyncio.Task[SourcedCompletion]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # all who waited have it; maybe no one does any more

    def _collect(self, question: CaseRequest, batches: Batches) -> Completion:
        """The completion that a batch brought; without one the call goes into the next batch."""
        collected = batches.find(question)
        if collected is not None:
            return collected
        expected_usd, tokens = self._expected(question)
        with self._budget.charge(expected_usd, tokens=tokens) as charge:
            pending = batches.request(question)
            # A batch is paid for once it has started.
            charge.actual_usd, charge.actual_tokens = expected_usd, tokens
        raise pending

    async def _ask(self, question: CaseRequest, collected: Completion | None) -> SourcedCompletion:
        if self._store_error is not None:
            raise RecordingError(self._store_error.faults)
        key = question.key
        pause_s = _ASK_AGAIN_S
        while (claim := await self._store(lambda: self._answers.claim(question))) == "taken":
            await asyncio.sleep(pause_s)
            if pause_s == _ASK_AGAIN_MAX_S:
                # Where nothing can be written, the process with the claim cannot give it back.
                await self._store(lambda: self._answers.check_writable(question))
            pause_s = min(1.5 * pause_s, _ASK_AGAIN_MAX_S)
        if claim == "recorded":  # by another process, in the meantime
            landed = self._answers.find(question.answer_key)
            assert landed is not None
            return landed
        try:
            completion = collected or await self._completion(question)
            self.paid.add(key)
            # Judges see what a replay will show them, so that both come to the same verdicts.
            stored = await self._store(lambda: self._answers.keep(question, completion))
        except BaseException as error:
            with suppress(RecordingError):
                self._answers.release(question)
            if isinstance(error, ProviderError):
                # Gateways repeat the key they refuse.
                error.args = (self._answers.redact(str(error)),)
            raise
        return SourcedCompletion(completion=stored, source="live")

    async def _completion(self, question: CaseRequest) -> Completion:
        """Call the model, within the budget."""
        request = question.request
        provider: Provider
        if question.target is not None:
            provider = self._providers.of_target(question.target)
        else:
            provider = request.provider_override or self._providers.find(request.provider)
        expected_usd, expected_tokens = self._expected(question)
        await self.cases.admit(question)
        while self._budget.may_fit_later(expected_usd):  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(_ASK_AGAIN_S)
        with self._budget.charge(expected_usd, tokens=expected_tokens) as charge:
            completion = await provider.complete(request)
            charge.actual_usd = completion.cost_usd
            actual = completion.usage
            charge.actual_tokens = actual.input_tokens + actual.output_tokens
        self.cases.add(question, charge)
        self._usage.add(question, completion)
        return completion

    def _refuse_huge(self, question: CaseRequest) -> None:
        """Refuse a request of more text than anyone sends without a question.

        Raises:
            UnmeasuredError: It is longer than the settings allow.
        """
        request = question.request
        size_mb = sum(len((message.content or "").encode()) for message in request.messages) / 1e6
        if question.target is not None or size_mb <= self._settings.request_mb_max:
            return
        usage = self._usage.of_question(question)
        cost_usd = cost_of(usage, price_for(self._settings, request))
        cost = "an unknown amount" if cost_usd is None else f"${cost_usd:.2f}"
        part = "" if question.judge is None else f" of judge {question.judge!r}"
        place = question.case_at and f" (case at {question.case_at})"
        raise UnmeasuredError(
            f"the request{part} was not sent: {size_mb:.1f} MB of text, about"
            f" {usage.input_tokens:,} tokens, would cost {cost}{place}",
            fix="shorten the inputs of the case, or allow it with"
            f" `request_mb_max = {math.ceil(size_mb)}` in [tool.regauge] of pyproject.toml",
        )

    async def _store(self, write: Callable[[], Written]) -> Written:
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

    def _expected(self, question: CaseRequest) -> tuple[float, int]:
        """The expected cost and tokens of a call; 0 without a limit."""
        usage = self._usage.of_question(question) if self._budget.limited else Usage()
        tokens = usage.input_tokens + usage.output_tokens
        return self._expected_usd(question, usage), tokens

    def _expected_usd(self, question: CaseRequest, usage: Usage) -> float:
        """The expected cost of a call; a budget needs a price."""
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
        if self._batches is not None:
            cost_usd = batch_cost(self._settings, request.provider, cost_usd)
        if cost_usd is None:
            raise BudgetError(
                f"a budget is set, but nothing says what {request.provider}:{request.model} costs\n"
                f"  fix: add prices to [tool.regauge.providers.{request.provider}] in"
                " pyproject.toml, or run without a budget"
            )
        return cost_usd
