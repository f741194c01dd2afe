"""Keeps the functions of users off the network while they judge a replay.

Nothing in the interpreter changes but for the time of the call: two methods of `socket.socket` and
`socket.getaddrinfo` are replaced while such a function runs, and what they do changes for the
function alone, in its thread or task. Other threads and tests connect as before.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import JudgeError, RegaugeError, UnmeasuredError
from regauge.judges import Answer, Rule, Verdict, broken_judge, criterion_of
from regauge.runner._result import JudgedVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import TypeAlias

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.providers import Completion
    from regauge.runner._result import SourcedCompletion
    from regauge.runner._suite import Suite

__all__ = [
    "Said",
    "checked_verdict",
    "judge_trial",
    "judge_trial_now",
    "no_network",
    "passes_through",
]

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
                    self._replace(socket.socket, name, _guarded(getattr(socket.socket, name)))
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
            raise _refused(judge, tried[0]) from error
        raise
    finally:
        _patch.end()
        _addresses.reset(token)
    if tried:
        raise _refused(judge, tried[0])


def _refused(judge: str, address: str) -> JudgeError:
    return JudgeError(
        f"{judge} opens a connection to {address}, and a run with --record=none opens none\n"
        "  fix: have the judge recorded: rubric(...), command_judge(...) or http_judge(...)",
        judge=judge,
    )


def _guarded(original: Callable[..., Any]) -> Callable[..., Any]:
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


Said: TypeAlias = "Mapping[str, JudgedVerdict | UnmeasuredError]"
_NOTHING: Said = MappingProxyType({})
_COMPARE_LABELS = frozenset({"choice_is", "equals", "field_equals"})


async def judge_trial(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    suite: Suite,
    case: GoldenCase,
    said: Said = _NOTHING,
    offline: bool = False,
) -> Trial:
    """Let every judge say its verdict; one that cannot makes the trial unmeasured.

    Args:
        number: Of the trial.
        request_digest: Of what was asked.
        answer: What is judged.
        suite: Whose judges judge.
        case: The case.
        said: What judges that ask a model have said already, by name.
        offline: Whether functions of users are kept off the network.
    """
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    judged = Answer.of(answer.completion, case)  # rules share it: its JSON is parsed once
    for judge in suite.judges:
        try:
            given = said.get(judge.name) or JudgedVerdict(
                judge=judge.name,
                judge_digest=judge.digest,
                verdict=await _verdict(judge, judged, answer.completion, case, offline=offline),
                criterion=criterion_of(judge),
                labels=isinstance(judge, Rule) and judge.kind in _COMPARE_LABELS,
            )
            if isinstance(given, UnmeasuredError):
                raise given
            verdicts.append(given)
        except UnmeasuredError as broken:
            error = error or broken
    return Trial(
        number=number,
        request_digest=request_digest,
        answer=answer,
        verdicts=tuple(verdicts),
        error=error or _undecided(suite, verdicts),
    )


def judge_trial_now(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    suite: Suite,
    case: GoldenCase,
    said: Said = _NOTHING,
    offline: bool = False,
) -> Trial:
    """The same, for a thread without an event loop."""
    judging = judge_trial(
        number, request_digest, answer, suite=suite, case=case, said=said, offline=offline
    )
    if not all(isinstance(judge, Rule) or judge.name in said for judge in suite.judges):
        return asyncio.run(judging)
    try:
        judging.send(None)
    except StopIteration as done:  # rules wait for nothing
        trial: Trial = done.value
        return trial
    raise AssertionError("a rule waited")


def _undecided(suite: Suite, verdicts: list[JudgedVerdict]) -> UnmeasuredError | None:
    """The reason why the verdicts, each of them there, decide nothing; None when they do."""
    deciding = [given for given in verdicts if given.gates]
    if not deciding:
        named = "; ".join(f"{given.judge} ({given.standing})" for given in verdicts)
        return UnmeasuredError(
            f"a case without judges that gate: {named}\n"
            "  fix: add a rule, or calibrate a judge: regauge judges calibrate NAME"
        )
    if all(given.verdict.outcome == "abstain" for given in deciding):
        names = ", ".join(judge.name for judge in suite.judges if suite.standing(judge).gates)
        why = [
            f"\n  {one.judge}: {one.verdict.details.get('why')}"
            for one in deciding
            if one.verdict.code == "all_advisory"
        ]
        return JudgeError(f"every judge abstained: {names}{''.join(why)}", judge=names)
    return None


async def _verdict(
    judge: Judge, answer: Answer, completion: Completion, case: GoldenCase, *, offline: bool
) -> Verdict:
    """One verdict; a judge that breaks is an error, never a fail and never a pass."""
    try:
        if not isinstance(judge, Rule):
            with no_network(judge.name, active=offline):
                return checked_verdict(judge.name, await judge.judge(completion, case))
        if judge.own or not offline:
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


def checked_verdict(judge: str, given: object) -> Verdict:
    """The verdict, if it is one; its values were checked when it was made.

    Raises:
        JudgeError: It is none.
    """
    if isinstance(given, Verdict):
        return given
    raise JudgeError(f"judge {judge}: it returned {given!r:.400}, not a Verdict", judge=judge)


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
