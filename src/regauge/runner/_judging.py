"""Keeps the functions of users off the network while they judge a replay.

Nothing in the interpreter changes but for the time of the call: two methods of `socket.socket` and
`socket.getaddrinfo` are replaced while such a function runs, and what they do changes for the
function alone, in its thread or task. Other threads and tests connect as before.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    JudgeError,
    MissingRecordingError,
    PendingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.judges import JudgedOutput, Measurement, Rule, Verdict, broken_judge, criterion_of
from regauge.recordings import MeasurementLine, MeasurementsFile, map_texts
from regauge.runner._answers import FileCache
from regauge.runner._plan import CaseRequest, save_file
from regauge.runner._result import CallTotals, JudgedVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Generator, Mapping
    from pathlib import Path
    from typing import TypeAlias, TypeGuard

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, MemoisedJudge, ModelJudge
    from regauge.project import Project, RecordMode
    from regauge.providers import Completion, CompletionRequest
    from regauge.recordings import RecordingKey
    from regauge.runner._plan import Draw, PartFiles
    from regauge.runner._result import SourcedCompletion
    from regauge.runner._suite import Eval


_addresses: Final[ContextVar[list[str] | None]] = ContextVar("regauge_addresses", default=None)
_lock: Final = threading.Lock()
_METHODS: Final = ("connect", "connect_ex", "sendto")


class _ClosedError(OSError):
    """The view of the function."""


class _Patch:
    """The replaced names; in place while at least one function runs."""

    def __init__(self) -> None:
        self._users = 0
        self._kept: list[tuple[Any, str, Any, Any]] = []

    def begin(self) -> None:
        with _lock:
            self._users += 1
            if self._users == 1:
                for name in _METHODS:
                    self._replace(socket.socket, name, _guard(getattr(socket.socket, name)))
                self._replace(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))

    def end(self) -> None:
        with _lock:
            self._users -= 1
            while not self._users and self._kept:
                owner, name, own, guard = self._kept.pop()
                if _own(owner, name) is not guard:
                    continue  # it was replaced again meanwhile
                if own is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)

    def _replace(self, owner: Any, name: str, guard: Any) -> None:
        # None where the name is inherited: to delete the guard is to restore it.
        self._kept.append((owner, name, _own(owner, name), guard))
        setattr(owner, name, guard)


def _own(owner: Any, name: str) -> Any:
    """The attribute of an object itself; None where it is inherited."""
    return cast("dict[str, Any]", owner.__dict__).get(name)


_patch: Final = _Patch()


@contextmanager
def no_network(judge: str, *, active: bool) -> Generator[None]:
    """Refuse connections of the function that runs inside, whatever it makes of the refusal.

    Args:
        judge: The name of the judge, for the error.
        active: Whether connections are refused at all.

    Raises:
        JudgeError: It tried to connect to another machine, or to a port of this one.
    """
    if not active:
        yield
        return
    tried: list[str] = []
    token = _addresses.set(tried)
    _patch.begin()
    try:
        yield
    except Exception as error:
        if tried:
            raise _refused_error(judge, tried[0]) from error
        raise
    finally:
        _patch.end()
        _addresses.reset(token)
    if tried:
        raise _refused_error(judge, tried[0])


def _refused_error(judge: str, address: str) -> JudgeError:
    return JudgeError(
        f"{judge} opens a connection to {address}, and a run with --record=none opens none\n"
        "  fix: have the judge recorded: rubric(...), command_judge(...) or http_judge(...)",
        judge=judge,
    )


def _guard(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: socket.socket, *arguments: Any) -> Any:
        tried = _addresses.get()
        if tried is not None and self.family in {socket.AF_INET, socket.AF_INET6}:
            _note(tried, arguments[-1])
        return original(self, *arguments)

    return method


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        tried = _addresses.get()
        if tried is not None and host is not None and not _is_numeric(host):
            _note(tried, (host, *arguments))
        return original(host, *arguments, **options)

    return getaddrinfo


def _note(tried: list[str], address: Any) -> None:
    parts: tuple[Any, ...] = address if isinstance(address, tuple) else (address,)  # pyright: ignore[reportUnknownVariableType]
    tried.append(
        ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in parts[:2])
    )
    raise _ClosedError("the network is closed: this run has --record=none")


def _is_numeric(host: Any) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


ModelVerdicts: TypeAlias = "Mapping[str, JudgedVerdict | UnmeasuredError]"
_COMPARE_LABELS = frozenset({"choice_is", "equals", "field_equals"})


async def judge_trial(
    draw: Draw, answer: SourcedCompletion, *, opinions: ModelVerdicts, offline: bool
) -> Trial:
    """Let every judge say its verdict; one that cannot makes the trial unmeasured.

    Args:
        draw: The case and the number of the trial.
        answer: What is judged.
        opinions: The verdicts of LLM judges so far, by name.
        offline: Whether functions of users are kept off the network.
    """
    suite, case = draw.planned.suite, draw.planned.case
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    judged = JudgedOutput.from_completion(
        answer.completion, case
    )  # rules share it: its JSON is parsed once
    for judge in suite.judges:
        try:
            judged_verdict = opinions.get(judge.name) or JudgedVerdict(
                judge=judge.name,
                judge_digest=judge.digest,
                verdict=await _verdict(judge, judged, answer.completion, case, offline=offline),
                criterion=criterion_of(judge),
                labels=isinstance(judge, Rule) and judge.kind in _COMPARE_LABELS,
            )
            if isinstance(judged_verdict, UnmeasuredError):
                raise judged_verdict
            verdicts.append(judged_verdict)
        except UnmeasuredError as broken:
            error = error or broken
    return Trial(
        number=draw.trial,
        request_digest=draw.planned.digest,
        answer=answer,
        verdicts=tuple(verdicts),
        error=error or _undecided(suite, verdicts),
    )


def _undecided(suite: Eval, verdicts: list[JudgedVerdict]) -> UnmeasuredError | None:
    """The reason why the verdicts, each of them there, decide nothing; None when they do."""
    deciding = [verdict for verdict in verdicts if verdict.gates]
    if not deciding:
        named = "; ".join(f"{verdict.judge} ({verdict.standing})" for verdict in verdicts)
        return UnmeasuredError(
            f"a case without judges that gate: {named}\n"
            "  fix: add a rule, or calibrate a judge: regauge judges calibrate NAME"
        )
    if all(judged_verdict.verdict.outcome == "abstain" for judged_verdict in deciding):
        names = ", ".join(judge.name for judge in suite.judges if suite.standing(judge).blocking)
        why = [
            f"\n  {judged_verdict.judge}: {judged_verdict.verdict.details.get('why')}"
            for judged_verdict in deciding
            if judged_verdict.verdict.code == "all_advisory"
        ]
        return JudgeError(f"every judge abstained: {names}{''.join(why)}", judge=names)
    return None


async def _verdict(
    judge: Judge, answer: JudgedOutput, completion: Completion, case: GoldenCase, *, offline: bool
) -> Verdict:
    """One verdict; a judge that breaks is an error, never a fail and never a pass."""
    try:
        if not isinstance(judge, Rule):
            with no_network(judge.name, active=offline):
                return checked_verdict(judge.name, await judge.judge(completion, case))
        if judge.is_builtin or not offline:
            return checked_verdict(judge.name, judge.examine(answer))
        with no_network(judge.name, active=True):
            return checked_verdict(judge.name, judge.examine(answer))
    except UnmeasuredError:
        raise
    except RegaugeError as error:
        raise JudgeError(f"judge {judge.name}: {error}", judge=judge.name) from error
    except BaseException as error:
        if passes_through(error):
            raise
        text = f"judge {judge.name} broke: {type(error).__name__}: {error}"
        raise broken_judge(text, error, judge=judge.name) from error


def checked_verdict(judge: str, result: object) -> Verdict:
    """The verdict, if it is one; its values were checked when it was made.

    Raises:
        JudgeError: It is none.
    """
    if isinstance(result, Verdict):
        return result
    raise JudgeError(f"judge {judge}: it returned {result!r:.400}, not a Verdict", judge=judge)


def passes_through(error: BaseException) -> bool:
    """Return whether an exception ends more than a judge: Ctrl-C, or the run's own tasks.

    Everything else that is no `Exception`, such as `pytest.skip` or `sys.exit`, is a judge that
    broke.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs, so nothing can be cancelled
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


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
    ask: Callable[[CaseRequest, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]]
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
        question = CaseRequest.of_judge(request, draw=self.draw, judge=self.judge)
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
        in_shard = part.own if part is not None else None
        self._directory = project.recordings_dir / "verdicts"
        self._mode = mode
        self._redact = redact
        self._unpublished = unpublished
        self._files = FileCache(
            lambda name: MeasurementsFile(self._directory / f"{name}.jsonl", in_shard=in_shard)
        )
        self._fresh: set[str] = set()
        self._lock = threading.Lock()

    def file(self, prompt: str) -> MeasurementsFile:
        """The committed measurements of answers to a prompt.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(prompt)

    def find(self, prompt: str, key: str, *, fresh: bool) -> MeasurementLine | None:
        """The measurement, or None.

        Args:
            prompt: Whose answer.
            key: See `measurement_key`.
            fresh: Whether only what this run measured counts.
        """
        if (fresh or self._mode == "all") and key not in self._fresh:
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
        measured = replace(cleaned, measurement=json.loads(cleaned.encode())["measurement"])
        with self._lock:
            self._fresh.add(line.key)
        self.file(prompt).put(measured, replace=True)
        return measured

    def finish(self) -> Mapping[Path, int]:
        """Write new measurements; returns how many lines of each file changed.

        Raises:
            RecordingError: A file cannot be written.
        """
        if self._mode == "none":
            return {}
        for file in self._files if self._unpublished else ():
            file.prune({x.key for x in file.find_unused(()) if x.trial not in self._unpublished})
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
    """

    def __init__(
        self,
        *,
        ask: Callable[[CaseRequest, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]],
        measurements: Measurements,
        rejudge: Callable[[Draw], bool],
    ) -> None:
        self._ask = ask
        self._measurements = measurements
        self._rejudge = rejudge
        self._counted: set[RecordingKey] = set()
        self._used: dict[str, Used] = {}
        self._prepared: dict[int, tuple[ModelJudge, Future[None]]] = {}
        self._lock = threading.Lock()

    def asking(
        self,
        ask: Callable[[CaseRequest, ModelJudge, Draw], Coroutine[Any, Any, SourcedCompletion]],
    ) -> ModelJudging:
        """The same judges and what is known of them, with replies from elsewhere."""
        other = copy(self)
        other._ask = ask  # noqa: SLF001 - of its own class
        return other

    def used(self, prompt: str) -> Used:
        """The recordings that judgements of a prompt's completions have used so far."""
        return self._used.setdefault(prompt, Used())

    def prepare(self, judge: ModelJudge, *, here: bool = False) -> Future[None]:
        """Load what a judge measures with, once for each judge; in a thread unless `here`."""
        with self._lock:
            prepared = self._prepared.get(id(judge))
            if prepared is not None:
                return prepared[1]
            future: Future[None] = Future()
            self._prepared[id(judge)] = (judge, future)
        # Who stops waiting for it does not end it for the others.
        future.set_running_or_notify_cancel()
        if _is_memoised(judge) and here:
            _prepare(judge, future)
        elif _is_memoised(judge):
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
                verdict, totals = await self._find_or_measure(judge, draw, completion, calls)
            else:
                verdict = await judge.judge_with(completion, case, calls)
                checked_verdict(judge.name, verdict)
                totals = calls.totals
            calls.check()
        except BaseException as error:
            if passes_through(error):
                raise
            explained = _explain(judge, error, calls)
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
            gates=standing.blocking,
            standing=standing.reason,
            calls=totals,
        )

    async def _find_or_measure(
        self, judge: MemoisedJudge, draw: Draw, completion: Completion, calls: RunCalls
    ) -> tuple[Verdict, CallTotals]:
        """The verdict on a recorded measurement, or on one made now."""
        prompt, case = draw.planned.suite.prompt.name, draw.planned.case
        key = measurement_key(judge, completion, case, trial=draw.trial)
        line = self._measurements.find(prompt, key, fresh=self._rejudge(draw))
        if line is None:
            await asyncio.wrap_future(self.prepare(judge))
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
                    calls=tuple(calls.asked),
                    totals=calls.totals.to_json(),
                ),
            )
            totals = calls.totals
        else:
            totals = CallTotals.from_json(line.totals)
        used = self.used(prompt)
        used.measurements.add(key)
        used.calls.update(line.calls)
        # What a replay will find decides, so that both come to the same verdict.
        verdict = judge.verdict_of(Measurement.from_json(line.measurement))
        return checked_verdict(judge.name, verdict), totals


def _is_memoised(judge: ModelJudge) -> TypeGuard[MemoisedJudge]:
    # To ask `isinstance` of a protocol takes as long as to judge by a rule.
    return hasattr(judge, "measure_with")


def _prepare(judge: MemoisedJudge, future: Future[None]) -> None:
    try:
        judge.prepare()
    except BaseException as error:
        future.set_exception(error)  # it belongs to the callers that wait
        if isinstance(error, KeyboardInterrupt):
            raise
    else:
        future.set_result(None)


def _explain(judge: ModelJudge, error: BaseException, calls: RunCalls) -> UnmeasuredError:
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
