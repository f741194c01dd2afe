"""Lets judges that ask a model say their verdicts, and turns what goes wrong into an error."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.errors import (
    BudgetError,
    JudgeError,
    MissingRecordingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.judges import Measurement, criterion_of
from regauge.recordings import MeasurementLine
from regauge.runner._call_totals import CallTotals
from regauge.runner._judge_calls import RunCalls
from regauge.runner._judging import broken_judge, checked_verdict, passes_through
from regauge.runner._measurements import measurement_key
from regauge.runner._trial import JudgedVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeGuard

    from regauge.judges import MemoisedJudge, ModelJudge, Verdict
    from regauge.providers import Completion
    from regauge.recordings import RecordingKey
    from regauge.runner._measurements import Measurements
    from regauge.runner._plan import Draw
    from regauge.runner._question import Question
    from regauge.runner._trial import SourcedCompletion
    from regauge.runner._window import Window

__all__ = ["ModelJudging", "Used"]


@dataclass(frozen=True, slots=True)
class Used:
    """What judgements of one prompt took from its recordings."""

    calls: set[RecordingKey] = field(default_factory=set["RecordingKey"])
    measurements: set[str] = field(default_factory=set[str])


class ModelJudging:
    """The judges of a run that ask a model.

    Args:
        ask: Gets one reply to a judge about a draw: recorded, from the local store, or live.
        measurements: What judges measured before.
        rejudge: Whether what was measured before this run does not count for a draw.
        window: How far models are asked ahead; None where they are not.
    """

    def __init__(
        self,
        *,
        ask: Callable[[Question, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]],
        measurements: Measurements,
        rejudge: Callable[[Draw], bool],
        window: Window | None = None,
    ) -> None:
        self._ask = ask
        self._measurements = measurements
        self._rejudge = rejudge
        self._window = window
        self._counted: set[RecordingKey] = set()
        self._used: dict[str, Used] = {}
        self._prepared: dict[int, tuple[ModelJudge, Future[None]]] = {}
        self._lock = threading.Lock()

    def asking(
        self,
        ask: Callable[[Question, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]],
    ) -> ModelJudging:
        """The same judges and what is known of them, with replies from elsewhere."""
        other = copy(self)
        other._ask = ask  # noqa: SLF001 - of its own class
        return other

    def used(self, prompt: str) -> Used:
        """What judgements of answers to a prompt took from its recordings so far."""
        return self._used.setdefault(prompt, Used())

    def prepare(self, judge: ModelJudge) -> Future[None]:
        """Have what a judge measures with loaded, in a thread of its own; once for each judge."""
        with self._lock:
            known = self._prepared.get(id(judge))
            if known is not None:
                return known[1]
            future: Future[None] = Future()
            self._prepared[id(judge)] = (judge, future)
        # Who stops waiting for it does not end it for the others.
        future.set_running_or_notify_cancel()
        if _is_memoised(judge):
            threading.Thread(
                target=_prepare, args=(judge, future), name="regauge-prepare", daemon=True
            ).start()
        else:
            future.set_result(None)
        return future

    async def verdict(self, judge: ModelJudge, draw: Draw, completion: Completion) -> JudgedVerdict:
        """The verdict of one judge on one draw.

        Raises:
            UnmeasuredError: There is none.
        """
        suite, case = draw.planned.suite, draw.planned.case
        calls = RunCalls(judge=judge, draw=draw, ask=self._ask, counted=self._counted)
        try:
            if _is_memoised(judge):
                verdict, totals = await self._measured(judge, draw, completion, calls)
            else:
                verdict = await judge.judge_with(completion, case, calls)
                checked_verdict(judge.name, verdict)
                totals = calls.totals
            calls.check()
        except BaseException as error:
            if passes_through(error):
                raise
            explained = _explained(judge, error, calls)
            if explained is error:
                raise
            raise explained from explained.__cause__
        finally:
            self.used(suite.prompt.name).calls.update(calls.asked)
        standing = suite.standing(judge)
        return JudgedVerdict(
            judge=judge.name,
            judge_digest=judge.digest,
            verdict=replace(verdict, cost_usd=totals.cost_usd or 0.0),
            criterion=criterion_of(judge),
            gates=standing.gates,
            standing=standing.reason,
            calls=totals,
        )

    async def _measured(
        self, judge: MemoisedJudge, draw: Draw, completion: Completion, calls: RunCalls
    ) -> tuple[Verdict, CallTotals]:
        """The verdict on a recorded measurement, or on one made now."""
        prompt, case = draw.planned.suite.prompt.name, draw.planned.case
        key = measurement_key(judge, completion, case, trial=draw.trial)
        line = self._measurements.find(prompt, key, anew=self._rejudge(draw))
        if line is None:
            await self._ready(judge, draw)
            measurement = await judge.measure_with(completion, case, calls)
            calls.check()
            checked_verdict(judge.name, judge.verdict_of(measurement))
            line = self._measurements.keep(
                prompt,
                MeasurementLine(
                    key=key,
                    case=case.id,
                    judge=judge.name,
                    trial=draw.trial,
                    measurement=measurement.to_json(),
                    asked=tuple(calls.asked),
                    totals=calls.totals.to_json(),
                ),
            )
            totals = calls.totals
        else:
            totals = CallTotals.from_json(line.totals)
        used = self.used(prompt)
        used.measurements.add(key)
        used.calls.update(line.asked)
        # What a replay will find decides, so that both come to the same verdict.
        verdict = judge.verdict_of(Measurement.from_json(line.measurement))
        return checked_verdict(judge.name, verdict), totals

    async def _ready(self, judge: MemoisedJudge, draw: Draw) -> None:
        prepared = self.prepare(judge)
        aside = nullcontext() if self._window is None else self._window.aside(draw.id)
        if not prepared.done():
            with aside:
                await asyncio.wrap_future(prepared)
        prepared.result()


def _is_memoised(judge: ModelJudge) -> TypeGuard[MemoisedJudge]:
    # To ask `isinstance` of a protocol takes as long as to judge by a rule.
    return hasattr(judge, "measure_with")


def _prepare(judge: MemoisedJudge, future: Future[None]) -> None:
    try:
        judge.prepare()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
        future.set_exception(error)
    else:
        future.set_result(None)


def _explained(judge: ModelJudge, error: BaseException, calls: RunCalls) -> UnmeasuredError:
    """Why there is no verdict: what a call could not get goes before what came of that."""
    if calls.failure is not None:
        if isinstance(calls.failure, (MissingRecordingError, BudgetError)):
            return calls.failure
        return _of_call(judge, calls.failure)
    if isinstance(error, UnmeasuredError):
        return error
    if isinstance(error, RegaugeError):
        return _of_call(judge, error)
    return broken_judge(judge.name, error)


def _of_call(judge: ModelJudge, failure: RegaugeError) -> JudgeError:
    told = JudgeError(f"judge {judge.name}: {failure}", judge=judge.name)
    told.__cause__ = failure
    return told
