"""The model calls of one judgement in a run."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    JudgeError,
    MissingRecordingError,
    PendingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.judges import Measurement, broken_judge, criterion_of
from regauge.recordings import MeasurementLine, MeasurementsFile, map_texts
from regauge.runner._answers import Opened
from regauge.runner._judging import checked_verdict, passes_through
from regauge.runner._plan import Question
from regauge.runner._result import CallTotals, JudgedVerdict
from regauge.runner._shards import save_file

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Mapping
    from pathlib import Path
    from typing import Any, TypeGuard

    from regauge.datasets import GoldenCase
    from regauge.judges import MemoisedJudge, ModelJudge, Verdict
    from regauge.project import Project, RecordMode
    from regauge.providers import Completion, CompletionRequest
    from regauge.recordings import RecordingKey
    from regauge.runner._lookahead import AheadWindow
    from regauge.runner._plan import Draw
    from regauge.runner._result import SourcedCompletion
    from regauge.runner._shards import PartFiles

__all__ = ["Measurements", "ModelJudging", "RunCalls", "Used", "measurement_key"]


@dataclass(slots=True, kw_only=True)
class RunCalls:
    """The calls of a judge for one judgement: the protocol `JudgeCalls`.

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
        """The number of the judged trial, from 0."""
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


class Measurements:
    """The measurements a run may use, one file per prompt; for several threads.

    Args:
        project: Whose recordings.
        mode: `none` only reads; `all` finds only what this run measured.
        redact: Takes secrets out of a text.
        unpublished: Trials whose measurements `finish` does not write.
        part: What a shard runs, and where its measurements go; None for a whole run.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        redact: Callable[[str], str],
        unpublished: Container[int] = (),
        part: PartFiles | None = None,
    ) -> None:
        self._part = part
        own = part.own if part is not None else None
        self._directory = project.recordings_dir / "verdicts"
        self._mode = mode
        self._redact = redact
        self._unpublished = unpublished
        self._files = Opened(
            lambda name: MeasurementsFile(self._directory / f"{name}.jsonl", own=own)
        )
        self._fresh: set[str] = set()
        self._lock = threading.Lock()

    def file(self, prompt: str) -> MeasurementsFile:
        """The committed measurements of answers to a prompt.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(prompt)

    def find(self, prompt: str, key: str, *, anew: bool) -> MeasurementLine | None:
        """The measurement, or None.

        Args:
            prompt: Whose answer.
            key: See `measurement_key`.
            anew: Whether only what this run measured counts.
        """
        if (anew or self._mode == "all") and key not in self._fresh:
            return None
        return self.file(prompt).get(key)

    def keep(self, prompt: str, line: MeasurementLine) -> MeasurementLine:
        """Keep a measurement for `finish` to write.

        Returns:
            The line as a replay will find it, that is without secrets.

        Raises:
            ValueError: The measurement holds what JSON has no word for.
        """
        clean = map_texts(line.measurement, self._redact)
        cleaned = replace(line, measurement=clean)
        kept = replace(cleaned, measurement=json.loads(cleaned.encode())["measurement"])
        with self._lock:
            self._fresh.add(line.key)
        self.file(prompt).put(kept, replace=True)
        return kept

    def finish(self) -> Mapping[Path, int]:
        """Write new measurements; returns how many lines of each file changed.

        Raises:
            RecordingError: A file cannot be written.
        """
        if self._mode == "none":
            return {}
        for file in self._files if self._unpublished else ():
            file.prune({x.key for x in file.unused(()) if x.trial not in self._unpublished})
        return {
            file.path: changed for file in self._files if (changed := save_file(file, self._part))
        }


def measurement_key(
    judge: MemoisedJudge, completion: Completion, case: GoldenCase, *, trial: int
) -> str:
    """The key of a measurement: judge, case, completion and trial.

    How fast and at what price the answer came does not count.
    """
    return digest_of(
        {
            "judge": judge.measurement_digest,
            "case": case.digest,
            "text": completion.text,
            "refusal": completion.refusal,
            "finish_reason": completion.finish_reason,
            "tool_calls": [[call.name, call.arguments] for call in completion.tool_calls],
            "trial": trial,
            **({"messages": completion.messages} if completion.messages else {}),
        }
    )


@dataclass(frozen=True, slots=True)
class Used:
    """The recordings of a prompt that its judgements used."""

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
        window: AheadWindow | None = None,
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
        """The recordings that judgements of a prompt's completions have used so far."""
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
    except BaseException as error:  # noqa: BLE001 - it belongs to the callers that wait
        future.set_exception(error)
    else:
        future.set_result(None)


def _explained(judge: ModelJudge, error: BaseException, calls: RunCalls) -> UnmeasuredError:
    """The reason for a missing verdict; a failed call comes before its consequences."""
    if calls.failure is not None:
        if isinstance(calls.failure, (MissingRecordingError, BudgetError, PendingError)):
            return calls.failure
        return _of_call(judge, calls.failure)
    if isinstance(error, UnmeasuredError):
        return error
    if isinstance(error, RegaugeError):
        return _of_call(judge, error)
    text = f"judge {judge.name} broke: {type(error).__name__}: {error}"
    return broken_judge(text, error, judge=judge.name)


def _of_call(judge: ModelJudge, failure: RegaugeError) -> JudgeError:
    judge_error = JudgeError(f"judge {judge.name}: {failure}", judge=judge.name)
    judge_error.__cause__ = failure
    return judge_error
