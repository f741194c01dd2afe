"""Judges completions: rules and functions of users, LLM judges, and their measurements.

In a replay, functions of users have no network: `socket.socket` and `socket.getaddrinfo` are
patched while one runs. The patch applies to the thread or task of the function alone.
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
from regauge.runner._completions import FileCache
from regauge.runner._plan import CaseRequest, save_file
from regauge.runner._result import CallTotals, JudgedVerdict, MissingVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Generator, Mapping
    from pathlib import Path
    from typing import TypeAlias, TypeGuard

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, MemoisedJudge, ModelJudge
    from regauge.project import Project, RecordMode
    from regauge.providers import Completion, CompletionRequest
    from regauge.recordings import RecordingKey
    from regauge.runner._eval import Eval
    from regauge.runner._plan import PlannedTrial, ShardFiles
    from regauge.runner._result import SourcedCompletion


_addresses: Final[ContextVar[list[str] | None]] = ContextVar("regauge_addresses", default=None)
_lock: Final = threading.Lock()
_METHODS: Final = ("connect", "connect_ex", "sendto")


class _ClosedError(OSError):
    """The error that the function sees."""


@dataclass(slots=True)
class _Patch:
    """The patch of `socket`, active while at least one function runs."""

    _users: int = 0
    _replacements: list[tuple[Any, str, Any, Any]] = field(
        default_factory=list[tuple[Any, str, Any, Any]]
    )

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
            while not self._users and self._replacements:
                owner, name, original, guard = self._replacements.pop()
                if _own_attribute(owner, name) is not guard:
                    continue  # other code replaced it meanwhile
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    def _replace(self, owner: Any, name: str, guard: Any) -> None:
        # None where the name is inherited: to delete the guard is to restore it.
        self._replacements.append((owner, name, _own_attribute(owner, name), guard))
        setattr(owner, name, guard)


def _own_attribute(owner: Any, name: str) -> Any:
    """The attribute of the object itself; None if it is inherited."""
    return cast("dict[str, Any]", owner.__dict__).get(name)


_patch: Final = _Patch()


@contextmanager
def no_network(judge: str, *, active: bool) -> Generator[None]:
    """Refuse network connections within the block.

    Args:
        judge: The name of the judge, for the error.
        active: Whether to refuse connections.

    Raises:
        JudgeError: The block tried to connect, even if it caught the refusal.
    """
    if not active:
        yield
        return
    addresses: list[str] = []
    token = _addresses.set(addresses)
    _patch.begin()
    try:
        yield
    except Exception as error:
        if addresses:
            raise _refused_error(judge, addresses[0]) from error
        raise
    finally:
        _patch.end()
        _addresses.reset(token)
    if addresses:
        raise _refused_error(judge, addresses[0])


def _refused_error(judge: str, address: str) -> JudgeError:
    return JudgeError(
        f"{judge} opens a connection to {address}, and a run with --record=none opens none\n"
        "  fix: have the judge recorded: rubric(...), command_judge(...) or http_judge(...)",
        judge=judge,
    )


def _guard(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: socket.socket, *arguments: Any) -> Any:
        addresses = _addresses.get()
        if addresses is not None and self.family in {socket.AF_INET, socket.AF_INET6}:
            _note(addresses, arguments[-1])
        return original(self, *arguments)

    return method


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        addresses = _addresses.get()
        if addresses is not None and host is not None and not _is_numeric(host):
            _note(addresses, (host, *arguments))
        return original(host, *arguments, **options)

    return getaddrinfo


def _note(addresses: list[str], address: Any) -> None:
    parts: tuple[Any, ...] = address if isinstance(address, tuple) else (address,)  # pyright: ignore[reportUnknownVariableType]
    addresses.append(
        ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in parts[:2])
    )
    raise _ClosedError("the network is closed: this run has --record=none")


def _is_numeric(host: Any) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


ModelVerdicts: TypeAlias = "Mapping[str, JudgedVerdict | MissingVerdict]"
_COMPARE_LABELS = frozenset({"choice_is", "equals", "field_equals"})


async def judge_trial(
    planned_trial: PlannedTrial,
    sourced: SourcedCompletion,
    *,
    model_verdicts: ModelVerdicts,
    offline: bool,
) -> Trial:
    """Collect the verdicts of all judges; a missing verdict makes the trial unmeasured.

    Args:
        planned_trial: The case and the number of the trial.
        sourced: The completion to judge.
        model_verdicts: The verdicts of LLM judges, by name.
        offline: Whether functions of users have no network.
    """
    eval_, case = planned_trial.planned_case.eval, planned_trial.planned_case.case
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    lost_calls: list[CallTotals] = []
    # Rules share it: its JSON is parsed once.
    judged_output = JudgedOutput.from_completion(sourced.completion, case)
    for judge in eval_.judges:
        try:
            judged_verdict = model_verdicts.get(judge.name) or JudgedVerdict(
                judge=judge.name,
                judge_digest=judge.digest,
                verdict=await _verdict(
                    judge, judged_output, sourced.completion, case, offline=offline
                ),
                criterion=criterion_of(judge),
                labels=isinstance(judge, Rule) and judge.kind in _COMPARE_LABELS,
            )
            if isinstance(judged_verdict, MissingVerdict):
                lost_calls.append(judged_verdict.calls)
                error = error or judged_verdict.error
            else:
                verdicts.append(judged_verdict)
        except UnmeasuredError as broken:
            error = error or broken
    return Trial(
        number=planned_trial.trial,
        request_digest=planned_trial.planned_case.digest,
        sourced_completion=sourced,
        verdicts=tuple(verdicts),
        error=error or _undecided_error(eval_, verdicts),
        lost_calls=tuple(calls for calls in lost_calls if calls.calls),
    )


def _undecided_error(eval_: Eval, verdicts: list[JudgedVerdict]) -> UnmeasuredError | None:
    """The error if no blocking judge decided; None if one did."""
    deciding = [verdict for verdict in verdicts if verdict.blocking]
    if not deciding:
        judge_list = "; ".join(f"{verdict.judge} ({verdict.status_reason})" for verdict in verdicts)
        return UnmeasuredError(
            f"a case without blocking judges: {judge_list}\n"
            "  fix: add a rule, or calibrate a judge: regauge judges calibrate NAME"
        )
    if all(judged_verdict.verdict.outcome == "abstain" for judged_verdict in deciding):
        names = ", ".join(judge.name for judge in eval_.judges if eval_.status_of(judge).blocking)
        reasons = [
            f"\n  {judged_verdict.judge}: {judged_verdict.verdict.details.get('why')}"
            for judged_verdict in deciding
            if judged_verdict.verdict.code == "all_advisory"
        ]
        return JudgeError(f"every judge abstained: {names}{''.join(reasons)}", judge=names)
    return None


async def _verdict(
    judge: Judge, sourced: JudgedOutput, completion: Completion, case: GoldenCase, *, offline: bool
) -> Verdict:
    """The verdict of one judge; an exception is an error, neither a fail nor a pass."""
    try:
        if not isinstance(judge, Rule):
            with no_network(judge.name, active=offline):
                return checked_verdict(judge.name, await judge.judge(completion, case))
        if judge.is_builtin or not offline:
            return checked_verdict(judge.name, judge.examine(sourced))
        with no_network(judge.name, active=True):
            return checked_verdict(judge.name, judge.examine(sourced))
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
    """The result of a judge, if it is a verdict.

    Raises:
        JudgeError: It is not a `Verdict`.
    """
    if isinstance(result, Verdict):
        return result
    raise JudgeError(f"judge {judge}: it returned {result!r:.400}, not a Verdict", judge=judge)


def passes_through(error: BaseException) -> bool:
    """Return whether an exception ends the run rather than one judge: Ctrl-C, or a cancelled task.

    All others, even `pytest.skip` and `sys.exit`, are errors of the judge.
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
    """The model calls of one judgement: the protocol `JudgeCalls`.

    Attributes:
        get_response: Called with each request; returns a recorded, stored or live response.
        counted_keys: The calls that other judgements of the run have counted.
        requests: The keys of the requests in order, each once.
        totals: The usage of calls that no other judgement has counted.
        failure: The error of the first failed call; None without one.
    """

    judge: ModelJudge
    planned_trial: PlannedTrial
    get_response: Callable[
        [CaseRequest, ModelJudge, PlannedTrial], Coroutine[Any, Any, SourcedCompletion]
    ]
    counted_keys: set[RecordingKey] = field(default_factory=set["RecordingKey"])
    requests: dict[RecordingKey, None] = field(default_factory=dict["RecordingKey", None])
    totals: CallTotals = field(default_factory=CallTotals)
    failure: UnmeasuredError | None = None

    @property
    def trial(self) -> int:
        """The number of the judged trial, from 0."""
        return self.planned_trial.trial

    def check(self) -> None:
        """Check that every call had a response, even if the judge caught the error.

        Raises:
            UnmeasuredError: A call failed.
        """
        if self.failure is not None:
            raise self.failure

    async def complete(self, request: CompletionRequest) -> Completion:
        """The model's response: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        case_request = CaseRequest.of_judge(
            request, planned_trial=self.planned_trial, judge=self.judge
        )
        self.requests[case_request.key] = None
        try:
            sourced = await self.get_response(case_request, self.judge, self.planned_trial)
        except UnmeasuredError as error:
            self.failure = self.failure or error
            raise
        if case_request.key not in self.counted_keys:
            self.counted_keys.add(case_request.key)
            self.totals = self.totals.plus(sourced.completion, live=sourced.source == "live")
        return sourced.completion


class Measurements:
    """The measurements of a run, one file per prompt; for several threads.

    Args:
        project: The project with the recordings.
        mode: `none` only reads; `all` finds only measurements of this run.
        redact: Removes secrets from a text.
        unpublished: The trials whose measurements `finish` does not write.
        part: The shard, with the files it writes; None for a run of all cases.

    Attributes:
        file: Reads the committed measurements of a prompt's completions, once. Raises a
            `RecordingError` for lines that cannot be read.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        redact: Callable[[str], str],
        unpublished: Container[int] = (),
        part: ShardFiles | None = None,
    ) -> None:
        self._part = part
        in_shard = part.may_hold if part is not None else None
        self._directory = project.recordings_dir / "verdicts"
        self._mode = mode
        self._redact = redact
        self._unpublished = unpublished
        self._files = FileCache(
            lambda name: MeasurementsFile(self._directory / f"{name}.jsonl", in_shard=in_shard)
        )
        self.file = self._files.file
        self._fresh: set[str] = set()

    def find(self, prompt: str, key: str, *, fresh: bool) -> MeasurementLine | None:
        """The measurement, or None.

        Args:
            prompt: The prompt.
            key: The key, see `measurement_key`.
            fresh: Whether only measurements of this run count.
        """
        if (fresh or self._mode == "all") and key not in self._fresh:
            return None
        return self.file(prompt).get(key)

    def keep(self, prompt: str, line: MeasurementLine) -> MeasurementLine:
        """Keep a measurement for `finish` to write.

        Returns:
            The line as a replay will find it, without secrets.

        Raises:
            ValueError: The measurement cannot be written as JSON.
        """
        clean = map_texts(line.measurement, self._redact)
        cleaned = replace(line, measurement=clean)
        measured = replace(cleaned, measurement=json.loads(cleaned.encode())["measurement"])
        self._fresh.add(line.key)
        self.file(prompt).put(measured, replace=True)
        return measured

    def finish(self) -> Mapping[Path, int]:
        """Write new measurements; returns the number of changed lines by file.

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
    """The key of a measurement: judge, case, completion and trial, without latency and cost."""
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
class UsedRecordings:
    """The recordings that the judgements of a prompt used."""

    calls: set[RecordingKey] = field(default_factory=set["RecordingKey"])
    measurements: set[str] = field(default_factory=set[str])


class ModelJudging:
    """The LLM judges of a run.

    Args:
        get_response: Called with each request; returns a recorded, stored or live response.
        measurements: The recorded measurements.
        rejudge: Called with a trial; returns whether to ignore its recorded measurements.
    """

    def __init__(
        self,
        *,
        get_response: Callable[
            [CaseRequest, ModelJudge, PlannedTrial], Coroutine[Any, Any, SourcedCompletion]
        ],
        measurements: Measurements,
        rejudge: Callable[[PlannedTrial], bool],
    ) -> None:
        self._get_response = get_response
        self._measurements = measurements
        self._rejudge = rejudge
        self._counted_keys: set[RecordingKey] = set()
        self._used_recordings: dict[str, UsedRecordings] = {}
        self._prepared: dict[int, tuple[ModelJudge, Future[None]]] = {}
        self._lock = threading.Lock()

    def with_responses(
        self,
        get_response: Callable[
            [CaseRequest, ModelJudge, PlannedTrial], Coroutine[Any, Any, SourcedCompletion]
        ],
    ) -> ModelJudging:
        """The same judges and recordings, with another source of responses."""
        other = copy(self)
        other._get_response = get_response  # noqa: SLF001 - of its own class
        return other

    def used_recordings(self, prompt: str) -> UsedRecordings:
        """The recordings that judgements of a prompt's completions have used so far."""
        return self._used_recordings.setdefault(prompt, UsedRecordings())

    def prepare(self, judge: ModelJudge, *, in_this_thread: bool = False) -> Future[None]:
        """Load the libraries and models of a judge once, in another thread by default."""
        with self._lock:
            prepared = self._prepared.get(id(judge))
            if prepared is not None:
                return prepared[1]
            future: Future[None] = Future()
            self._prepared[id(judge)] = (judge, future)
        # A cancelled caller does not cancel it for the others.
        future.set_running_or_notify_cancel()
        if _is_memoised(judge) and in_this_thread:
            _prepare(judge, future)
        elif _is_memoised(judge):
            threading.Thread(
                target=_prepare, args=(judge, future), name="regauge-prepare", daemon=True
            ).start()
        else:
            future.set_result(None)
        return future

    async def verdict(
        self, judge: ModelJudge, planned_trial: PlannedTrial, completion: Completion
    ) -> JudgedVerdict | MissingVerdict:
        """The verdict of one judge on one trial, or the reason why there is none."""
        eval_, case = planned_trial.planned_case.eval, planned_trial.planned_case.case
        calls = RunCalls(
            judge=judge,
            planned_trial=planned_trial,
            get_response=self._get_response,
            counted_keys=self._counted_keys,
        )
        try:
            if _is_memoised(judge):
                verdict, totals = await self._find_or_measure(
                    judge, planned_trial, completion, calls
                )
            else:
                verdict = await judge.judge_with(completion, case, calls)
                checked_verdict(judge.name, verdict)
                totals = calls.totals
            calls.check()
        except BaseException as error:
            if passes_through(error):
                raise
            return MissingVerdict(error=_explain(judge, error, calls), calls=calls.totals)
        finally:
            self.used_recordings(eval_.prompt.name).calls.update(calls.requests)
        status = eval_.status_of(judge)
        return JudgedVerdict(
            judge=judge.name,
            judge_digest=judge.digest,
            verdict=replace(verdict, cost_usd=totals.cost_usd or 0.0),
            criterion=criterion_of(judge),
            blocking=status.blocking,
            status_reason=status.reason,
            calls=totals,
        )

    async def _find_or_measure(
        self,
        judge: MemoisedJudge,
        planned_trial: PlannedTrial,
        completion: Completion,
        calls: RunCalls,
    ) -> tuple[Verdict, CallTotals]:
        """The verdict on a recorded or new measurement, with the usage of its calls."""
        prompt, case = planned_trial.planned_case.eval.prompt.name, planned_trial.planned_case.case
        key = measurement_key(judge, completion, case, trial=planned_trial.trial)
        line = self._measurements.find(prompt, key, fresh=self._rejudge(planned_trial))
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
                    trial=planned_trial.trial,
                    measurement=measurement.to_json(),
                    calls=tuple(calls.requests),
                    totals=calls.totals.to_json(),
                ),
            )
            totals = calls.totals
        else:
            totals = CallTotals.from_json(line.totals)
        used_recordings = self.used_recordings(prompt)
        used_recordings.measurements.add(key)
        used_recordings.calls.update(line.calls)
        # The recorded form decides, so that a replay gives the same verdict.
        verdict = judge.verdict_of(Measurement.from_json(line.measurement))
        return checked_verdict(judge.name, verdict), totals


def _is_memoised(judge: ModelJudge) -> TypeGuard[MemoisedJudge]:
    # `isinstance` with a protocol takes as long as a rule.
    return hasattr(judge, "measure_with")


def _prepare(judge: MemoisedJudge, future: Future[None]) -> None:
    try:
        judge.prepare()
    except BaseException as error:
        future.set_exception(error)  # callers that wait receive it
        if isinstance(error, KeyboardInterrupt):
            raise
    else:
        future.set_result(None)


def _explain(judge: ModelJudge, error: BaseException, calls: RunCalls) -> UnmeasuredError:
    """The error of a missing verdict: of the failed call if any, else of the judge."""
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
