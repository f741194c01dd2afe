"""The model calls of one measurement: each one goes through the run, and its reply is checked."""

from __future__ import annotations

import asyncio
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from regauge.errors import JudgeError
from regauge.judges._evidence import quote
from regauge.judges.deepeval._fence import fence_arguments, fence_prompt, texts_in
from regauge.judges.deepeval._replies import (
    Unreadable,
    read_grade,
    read_reply,
    response_format,
)
from regauge.judges.model._ask import again
from regauge.judges.model._delimited import fence_note, with_note
from regauge.providers import CompletionRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from pydantic import BaseModel

    from regauge.digests import JSON
    from regauge.judges._asking import JudgeCalls
    from regauge.providers import Completion, ModelId

__all__ = ["ASKS_PER_CALL", "Asking", "SyncInLoopError"]

T = TypeVar("T")

ASKS_PER_CALL: Final = 2
"""How often a call is made in all when its replies cannot be read."""

_UNREADABLE: Final = "it was not the one JSON object that was asked for"
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
        self._called = False
        self._fields: Mapping[str, str] = {}
        self._derived: dict[str, None] = {}
        self._nonces: dict[str, str | None] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def model_name(self) -> str:
        """Who is asked, as `provider:model`."""
        return str(self._model)

    def judge_fields(self, fields: Mapping[str, str]) -> None:
        """Set the fields of the test case, as prompts show them."""
        self._fields = fields

    def fill(self, fill: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]) -> str:
        """A prompt out of a template, with fences around what the template is filled with.

        Args:
            fill: Makes the prompt out of the arguments.
            arguments: By name, as the metric gives them.
        """
        fenced = fence_arguments(arguments, self._fields)
        prompt = fill(fenced.value)
        self._nonces[prompt] = fenced.nonce
        return prompt

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
    def bypassed(self) -> bool:
        """Whether there were calls, and none of their prompts came from a template."""
        return self._called and not self._nonces

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
        return await self._kept(
            self._first_read(request, read_grade, shared=False, what="as a grade")
        )

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

        def read(reply: Completion) -> BaseModel | str | Unreadable:
            return read_reply(reply, schema)

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
        read: Callable[[Completion], T | Unreadable],
        *,
        shared: bool,
        what: str,
    ) -> T:
        """The first reply that can be read."""
        if self._closed:
            raise JudgeError(f"{self._judge}: the measurement is over", judge=self._judge)
        request = request.for_trial(0 if shared else self._calls.trial)
        why, raw = "", None
        for attempt in range(ASKS_PER_CALL):
            reply = await self._complete(request if not attempt else again(request, _UNREADABLE))
            raw = reply.text if reply.text is not None else reply.refusal
            found = read(reply)
            if not isinstance(found, Unreadable):
                self._derived.update(dict.fromkeys(texts_in(_plain_value(found))))
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

        self._called = True
        if prompt in self._nonces:
            nonce = self._nonces[prompt]
        else:  # a metric that wrote its prompt itself
            texts = dict.fromkeys((*self._fields.values(), *self._derived))
            fenced = fence_prompt(prompt, texts)
            prompt, nonce = fenced.value, fenced.nonce
        messages: tuple[Message, ...] = (Message(role="user", content=prompt),)
        if nonce is not None:
            messages = with_note(messages, fence_note(nonce))
        parameters = {
            name: value
            for name, value in self._parameters.items()
            if weighed or name not in _WEIGHED
        }
        return CompletionRequest(
            provider=self._model.provider,
            model=self._model.model,
            messages=messages,
            parameters=parameters,
            response_format=form,
            origin=f"deepeval judge {self._judge!r}",
        )


def _plain_value(reply: object) -> object:
    """A reply as plain values."""
    if isinstance(reply, str):
        return reply
    dump = getattr(reply, "model_dump", None)
    return dump() if callable(dump) else getattr(reply, "text", None)


@functools.lru_cache(maxsize=256)
def _form_of(schema: type[BaseModel]) -> Mapping[str, JSON]:
    """The form of a reply; pydantic takes longer for it than a measurement for all the rest."""
    return response_format(schema.__name__, schema.model_json_schema())
