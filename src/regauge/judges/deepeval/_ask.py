"""The model calls of one measurement: each one goes through the run, and its reply is checked."""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from regauge.errors import JudgeError
from regauge.judges._evidence import quote
from regauge.judges._json_text import JsonFault, find_json, parse_json
from regauge.judges.deepeval._schema import response_format
from regauge.providers import CompletionRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pydantic import BaseModel

    from regauge.digests import JSON
    from regauge.judges._asking import JudgeCalls
    from regauge.providers import Completion, ModelId

__all__ = ["ASKS_PER_CALL", "Asking", "SyncInLoopError"]

T = TypeVar("T")

ASKS_PER_CALL: Final = 2
"""How often a call is made in all when its replies cannot be read."""

_FENCED: Final = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*", re.DOTALL)
_STEPS_SCHEMA: Final = "Steps"
_WEIGHED: Final = frozenset({"logprobs", "top_logprobs"})
_GRADE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    }
)


class SyncInLoopError(Exception):
    """A metric asked without awaiting, in the very thread that would have to answer it."""


class Asking:
    """What one measurement asks, and whether any of it failed.

    Attributes:
        failure: The first call that failed. A metric that swallows it gets no score for that.
    """

    def __init__(
        self, calls: JudgeCalls, *, model: ModelId, parameters: Mapping[str, JSON], judge: str
    ) -> None:
        self.failure: Exception | None = None
        self._calls = calls
        self._model = model
        self._parameters = parameters
        self._judge = judge
        self._home = asyncio.get_running_loop()
        self._closed = False
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def model_name(self) -> str:
        """Who is asked, as `provider:model`."""
        return str(self._model)

    async def ask(self, prompt: object, schema: type[BaseModel] | None) -> BaseModel | str:
        """The reply to a prompt: an instance of the schema, or a text where there is none.

        Raises:
            JudgeError: No reply could be read, though it was asked again.
            UnmeasuredError: The model could not be asked.
        """
        work = self._ask(str(prompt), schema)
        if asyncio.get_running_loop() is self._home:
            return await work
        # The metric runs in a loop of its own, in a thread of its own.
        return await asyncio.wrap_future(self._from_thread(work))

    def ask_sync(self, prompt: object, schema: type[BaseModel] | None) -> BaseModel | str:
        """`ask`, for metrics that do not await.

        Raises:
            SyncInLoopError: This is the thread of the run; waiting here would be for ever.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._home:
            raise SyncInLoopError
        reply: BaseModel | str = self._from_thread(self._ask(str(prompt), schema)).result()
        return reply

    @property
    def weighs(self) -> bool:
        """Whether grades are to be weighed by how likely their tokens were."""
        return self._parameters.get("logprobs") is True

    async def ask_grade(self, prompt: object) -> Completion:
        """The reply to a prompt that wants a reason and a score, tokens and all.

        Raises:
            JudgeError: No reply could be read, though it was asked again.
            UnmeasuredError: The model could not be asked.
        """
        request = self._request(str(prompt), response_format("ReasonScore", _GRADE), weighed=True)
        return await self._kept(self._first_read(request, _grade, shared=False, what="as a grade"))

    async def close(self) -> None:
        """Let what is under way come to its end, for it is paid, and ask nothing more."""
        self._closed = True
        while self._pending:
            await asyncio.wait(set(self._pending))

    def abandon(self) -> None:
        """Stop what is under way, so that no thread waits for it."""
        self._closed = True
        for future in self._pending:
            future.cancel()

    def _from_thread(self, work: Coroutine[Any, Any, T]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._home)

    async def _ask(self, prompt: str, schema: type[BaseModel] | None) -> BaseModel | str:
        request = self._request(prompt, _form_of(schema) if schema else None)
        # Steps are made of the criteria alone, so every case and trial shares one reply.
        shared = schema is not None and schema.__name__ == _STEPS_SCHEMA
        what = f"as {schema.__name__}" if schema else "as text"

        def read(reply: Completion) -> BaseModel | str | _Unreadable:
            return _read(reply, schema)

        reading: Coroutine[Any, Any, BaseModel | str] = self._first_read(
            request, read, shared=shared, what=what
        )
        return await self._kept(reading)

    async def _kept(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        try:
            return await task
        except Exception as error:
            self.failure = self.failure or error
            raise

    async def _first_read(
        self,
        request: CompletionRequest,
        read: Callable[[Completion], T | _Unreadable],
        *,
        shared: bool,
        what: str,
    ) -> T:
        """The first reply that can be read."""
        if self._closed:
            raise JudgeError(f"{self._judge}: the measurement is over", judge=self._judge)
        first = 0 if shared else self._calls.trial * ASKS_PER_CALL
        why, raw = "", None
        for trial in range(first, first + ASKS_PER_CALL):
            reply = await self._complete(request.for_trial(trial))
            raw = reply.text if reply.text is not None else reply.refusal
            found = read(reply)
            if not isinstance(found, _Unreadable):
                return found
            why = found.why
        said = "nothing" if raw is None else quote(raw, 200)
        raise JudgeError(
            f"{self._judge}: {self.model_name} gave no reply that can be read {what}, asked"
            f" {ASKS_PER_CALL} times: {why}\n  it said {said}",
            judge=self._judge,
            raw=raw,
        )

    async def _complete(self, request: CompletionRequest) -> Completion:
        try:
            return await self._calls.complete(request)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # deepeval takes these for a model without structured output, and asks again.
            raise JudgeError(
                f"{self._judge}: the call broke: {type(error).__name__}: {error}",
                judge=self._judge,
            ) from error

    def _request(
        self, prompt: str, form: Mapping[str, JSON] | None, *, weighed: bool = False
    ) -> CompletionRequest:
        from regauge.prompts import Message

        parameters = {
            name: value
            for name, value in self._parameters.items()
            if weighed or name not in _WEIGHED
        }
        return CompletionRequest(
            provider=self._model.provider,
            model=self._model.model,
            messages=(Message(role="user", content=prompt),),
            parameters=parameters,
            response_format=form,
            origin=f"deepeval judge {self._judge!r}",
        )


@functools.lru_cache(maxsize=256)
def _form_of(schema: type[BaseModel]) -> Mapping[str, JSON]:
    """The form of a reply; pydantic takes longer for it than a measurement for all the rest."""
    return response_format(schema.__name__, schema.model_json_schema())


class _Unreadable:
    """Why a reply cannot be used."""

    def __init__(self, why: str) -> None:
        self.why = why


def _read(reply: Completion, schema: type[BaseModel] | None) -> BaseModel | str | _Unreadable:
    text = _whole(reply)
    return text if schema is None or isinstance(text, _Unreadable) else _fitted(text, schema)


def _grade(reply: Completion) -> Completion | _Unreadable:
    """The reply itself, once it is known to hold what deepeval is going to read."""
    text = _whole(reply)
    if isinstance(text, _Unreadable):
        return text
    value = _json_in(text)
    if isinstance(value, JsonFault):
        return _Unreadable(f"the reply is not JSON: {value.message}")
    if not isinstance(value, Mapping) or not isinstance(value.get("reason"), str):
        return _Unreadable("the reply has no reason")
    score = value.get("score")
    if type(score) not in {int, float}:
        return _Unreadable(f"the score is {score!r}")
    return reply


def _whole(reply: Completion) -> str | _Unreadable:
    if reply.text is None or not reply.text.strip():
        return _Unreadable("it refused" if reply.refusal else "it said nothing")
    if reply.finish_reason in {"length", "content_filter"}:
        return _Unreadable(f"the reply was cut off (finish_reason {reply.finish_reason})")
    return reply.text


def _fitted(text: str, schema: type[BaseModel]) -> BaseModel | _Unreadable:
    value = _json_in(text)
    if isinstance(value, JsonFault):
        return _Unreadable(f"the reply is not JSON: {value.message}")
    try:
        read = schema.model_validate(value)
    except ValueError as error:
        # pydantic's first complaint, in its words
        complaints = cast("list[dict[str, Any]]", getattr(error, "errors", list)())
        first = complaints[0] if complaints else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        return _Unreadable(f"the reply does not fit: {where}: {first['msg']}")
    if not _all_finite(read.model_dump()):
        return _Unreadable("a number of the reply is not finite")
    return read


def _json_in(text: str) -> JSON | JsonFault:
    """The JSON that a reply is; one fenced block, or the only object within prose, will do."""
    fenced = _FENCED.fullmatch(text)
    value = parse_json(fenced[1] if fenced else text.strip())
    if isinstance(value, JsonFault) and text.rstrip().endswith(("}", "`")):
        objects = [part for part in find_json(text) if isinstance(part, dict)]
        if len(objects) == 1:
            return objects[0]
    return value


def _all_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_all_finite(part) for part in cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return all(_all_finite(part) for part in cast("list[object]", value))
    return True
