"""Asks a judge's model and reads its reply; a reply that cannot be read is asked for once more."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from regauge.errors import JudgeError, UsageError
from regauge.judges.model._numbers import ReplyFault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from typing import Any

    from regauge.judges._asking import JudgeCalls
    from regauge.providers import Completion, CompletionRequest

__all__ = ["REDUCERS", "Ballot", "Reducer", "again", "ask", "check_reducer", "count", "together"]

Reducer = Literal["median", "mean", "majority", "min", "all"]

REDUCERS: tuple[Reducer, ...] = get_args(Reducer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """What votes come to.

    Attributes:
        score: From 0 to 1; for `majority` and `all` the share of votes that pass.
        passes: Whether that passes.
        agreement: The share of votes that say pass or fail as most of them do.
    """

    score: float
    passes: bool
    agreement: float


def check_reducer(reducer: str, *, judge: str) -> None:
    """Refuse a word that is no reducer.

    Raises:
        UsageError: It is none.
    """
    if reducer not in REDUCERS:
        known = ", ".join(REDUCERS)
        raise UsageError(f"{judge}: no reducer {reducer!r}\n  fix: write one of {known}")


def count(scores: Sequence[float], reducer: Reducer, *, at_least: float) -> Ballot:
    """Make one score of several, at least one.

    >>> count([1.0, 0.5, 0.0], "median", at_least=0.5).passes
    True
    >>> count([1.0, 1.0, 0.0], "all", at_least=0.5).passes
    False
    """
    passing = sum(score >= at_least for score in scores)
    share = passing / len(scores)
    agreement = max(share, 1 - share)
    match reducer:
        case "majority":
            return Ballot(score=share, passes=2 * passing > len(scores), agreement=agreement)
        case "all":
            return Ballot(score=share, passes=passing == len(scores), agreement=agreement)
        case "median":
            score = statistics.median(scores)
        case "mean":
            score = statistics.fmean(scores)
        case "min":
            score = min(scores)
    return Ballot(score=score, passes=score >= at_least, agreement=agreement)


T = TypeVar("T")

_AGAIN = """\
Your reply to this could not be read: {wrong}. Reply again, with that object alone."""


async def ask(
    request: CompletionRequest,
    read: Callable[[Completion], T],
    *,
    calls: JudgeCalls,
    judge: str,
) -> T:
    """What a reply says.

    Args:
        request: What is asked.
        read: Reads the reply, or raises `ReplyFault`.
        calls: How it is asked.
        judge: Who asks, for errors.

    Raises:
        JudgeError: Neither the first reply nor the second can be read.
        UnmeasuredError: The model could not be asked.
    """
    completion = await calls.complete(request)
    try:
        return read(completion)
    except ReplyFault as fault:
        if completion.text is None or completion.finish_reason != "stop":
            raise _unreadable(fault, completion, judge, asked="") from fault
        wrong = fault.wrong
    completion = await calls.complete(again(request, wrong))
    try:
        return read(completion)
    except ReplyFault as fault:
        raise _unreadable(fault, completion, judge, asked=", asked twice") from fault


def again(request: CompletionRequest, wrong: str) -> CompletionRequest:
    """The request that repeats another one and states what was wrong with its reply."""
    # Not a message of its own: some models take no two of one role in a row.
    *before, last = request.messages
    note = _AGAIN.format(wrong=wrong)
    repeated = replace(last, content=f"{last.content.rstrip()}\n\n{note}\n")
    return replace(request, messages=(*before, repeated))


async def together(asking: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them come to, once the last is done.

    Raises:
        JudgeError: One of them failed. The others were paid for, so nobody broke them off.
        UnmeasuredError: As before.
    """
    found = await asyncio.gather(*asking, return_exceptions=True)
    done: list[T] = []
    for one in found:
        if isinstance(one, BaseException):
            raise one
        done.append(one)
    return done


def _unreadable(fault: ReplyFault, reply: Completion, judge: str, *, asked: str) -> JudgeError:
    if reply.finish_reason == "length":
        fix = "raise maxTokens of the judge's prompt"
    elif reply.refusal or reply.finish_reason == "content_filter":
        fix = "word the judge's prompt otherwise, or choose another judge model"
    else:
        fix = "choose a judge model that keeps to a JSON schema; the run record has the reply"
    return JudgeError(
        f"{judge}: no verdict from {reply.provider}:{reply.model}{asked}: {fault}\n  fix: {fix}",
        judge=judge,
        raw=reply.text if reply.text is not None else reply.refusal,
    )
