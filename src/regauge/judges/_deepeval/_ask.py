"""The model calls of one measurement: each one goes through the run, and its reply is checked."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from regauge.errors import JudgeError
from regauge.judges._deepeval import METRICS
from regauge.judges._output import JsonFault, find_json, parse_json
from regauge.judges._types import quote
from regauge.judges.model._ask import (
    add_note,
    fence_note,
    nonce_of,
    optional_parameters,
    repeat_request,
)
from regauge.judges.model._reply import ReplyFault
from regauge.providers import CompletionRequest
from regauge.strict_json import DuplicateKeyError, unique, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator

    from pydantic import BaseModel

    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls
    from regauge.providers import Completion, ModelId


_IN_PARTS: Final = frozenset({"test_case_content", "text"})
"""The variables that hold several fields, each below its heading."""

_HEADINGS: Final = re.compile(r"\s*(?:[A-Z][A-Za-z ]{0,40}:\n)?\s*")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?%?")
# In a prompt without variables, text of this length is recognised wherever it is; shorter text
# only where it fills a line or a pair of quotes.
_SHINGLE: Final = 24


def fence_arguments(
    arguments: Mapping[str, Any], replacements: Mapping[str, str]
) -> tuple[Mapping[str, Any], str | None]:
    """The arguments of a template, with fences around all that is not the metric's declaration.

    The second value is the mark of the tags; None where nothing had to be fenced.

    Args:
        arguments: By the name of the variable.
        replacements: The fields of the test case, as prompts show them.
    """
    texts = {
        name: str(value)
        for name, value in arguments.items()
        if name not in METRICS.words("trusted") and not _is_harmless(value)
    }
    if not texts:
        return arguments, None
    nonce = nonce_of(texts)
    made = {
        name: _fenced_value(name, value, nonce, replacements) if name in texts else value
        for name, value in arguments.items()
    }
    return made, nonce


def fence_prompt(prompt: str, texts: Collection[str]) -> tuple[str, str | None]:
    """A prompt that a metric wrote itself, with fences around what it has of these texts."""
    covered = bytearray(len(prompt))
    for text in texts:
        for form in _forms(text):
            if len(form) < _SHINGLE:
                for match in _alone(form).finditer(prompt):
                    covered[match.start() : match.end()] = b"\x01" * len(match[0])
            elif form in prompt:
                for match in re.finditer(re.escape(form), prompt):
                    covered[match.start() : match.end()] = b"\x01" * len(form)
    _cover_shingles(prompt, texts, covered)
    runs = [(match.start(), match.end()) for match in re.finditer(b"\x01+", bytes(covered))]
    if not runs:
        return prompt, None
    nonce = nonce_of({"prompt": prompt, **{str(i): text for i, text in enumerate(texts)}})
    pieces: list[str] = []
    at = 0
    for start, end in runs:
        pieces += [prompt[at:start], _fence("text", prompt[start:end], nonce)]
        at = end
    return "".join([*pieces, prompt[at:]]), nonce


def texts_in(value: object) -> Iterator[str]:
    """All texts in a value, however deep."""
    return (part for part in walk(value) if isinstance(part, str))


def _is_harmless(value: object) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str):
        return not value.strip() or _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, (list, tuple, dict)) and not value


def _fence(name: str, text: str, nonce: str) -> str:
    return f"<field.{name}-{nonce}>\n{text}\n</field.{name}-{nonce}>"


def _fenced_value(name: str, value: Any, nonce: str, replacements: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        parts = _in_parts(value, nonce, replacements) if name in _IN_PARTS else None
        return parts or _fence(name, value, nonce)
    if isinstance(value, (list, tuple)):
        entries = [
            entry if _is_harmless(entry) else _fenced_value(name, entry, nonce, replacements)
            for entry in cast("Sequence[Any]", value)
        ]
        return _List(entries, whole=_fence(name, str(cast("object", value)), nonce))
    return _Object(value, name=name, nonce=nonce)


def _in_parts(text: str, nonce: str, replacements: Mapping[str, str]) -> str | None:
    """A text of several fields with a fence around each; None where something else is in it."""
    names = {field: name for name, field in replacements.items() if field.strip()}
    if not names:
        return None
    longest = sorted(names, key=len, reverse=True)
    pieces: list[str] = []
    at = 0
    for match in re.finditer("|".join(map(re.escape, longest)), text):
        pieces += [text[at : match.start()], _fence(names[match[0]], match[0], nonce)]
        at = match.end()
    pieces.append(text[at:])
    return "".join(pieces) if all(map(_HEADINGS.fullmatch, pieces[::2])) else None


class _List(list[Any]):
    """A list that prints itself in a fence and whose entries have fences of their own."""

    def __init__(self, entries: Sequence[Any], *, whole: str) -> None:
        super().__init__(entries)
        self._whole = whole

    def __str__(self) -> str:
        return self._whole

    __repr__ = __str__


class _Object:
    """An object that prints itself and its attributes in a fence."""

    def __init__(self, value: Any, *, name: str, nonce: str) -> None:
        self._value = value
        self._name = name
        self._nonce = nonce

    def __str__(self) -> str:
        return _fence(self._name, str(self._value), self._nonce)

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        return self._part(name, getattr(self._value, name))

    def __getitem__(self, key: Any) -> Any:
        return self._part(str(key), self._value[key])

    def __iter__(self) -> Iterator[Any]:
        return (self._part(self._name, part) for part in self._value)

    def __len__(self) -> int:
        return len(self._value)

    def _part(self, name: str, value: Any) -> Any:
        if _is_harmless(value) or callable(value):
            return value
        return _fenced_value(name, value, self._nonce, {})


def _forms(text: str) -> list[str]:
    """The forms of a text in a prompt: as it is, stripped, in JSON or in a Python literal."""
    bare = text.strip()
    forms = (text, bare, json.dumps(bare)[1:-1], json.dumps(bare, ensure_ascii=False)[1:-1])
    return [form for form in dict.fromkeys((*forms, repr(bare)[1:-1])) if form.strip()]


def _alone(form: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<=[\n\"'`>])|(?<=: )|(?<![\s\S])){re.escape(form)}(?=[ \t]*(?:\n|$)|[\"'`<])"
    )


def _cover_shingles(prompt: str, texts: Collection[str], covered: bytearray) -> None:
    """Cover every part of a prompt that is a part of a text, at least as long as a shingle."""
    shingles = {
        form[at : at + _SHINGLE]
        for text in texts
        for form in _forms(text)
        for at in range(len(form) - _SHINGLE + 1)
    }
    if not shingles:
        return
    for at in range(len(prompt) - _SHINGLE + 1):
        if prompt[at : at + _SHINGLE] in shingles:
            covered[at : at + _SHINGLE] = b"\x01" * _SHINGLE


_DROPPED: Final = frozenset({"default", "title", "examples"})
_FENCED: Final = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*", re.DOTALL)
_IN_WORDS: Final = re.compile(
    r"\b(?:verdict|score|winner)\b[*_`\"' \t]{0,4}(?:is|of|:|=)[*_`\"' \t]{0,4}"
    r"(?P<value>[0-9]+(?:\.[0-9]+)?|[A-Za-z]+)",
    re.IGNORECASE,
)


def read_reply(reply: Completion, schema: type[BaseModel] | None) -> BaseModel | str:
    """The reply as its schema has it, or its text where there is none.

    Raises:
        ReplyFault: It is neither.
    """
    text = _whole(reply)
    return text if schema is None else _fit(text, schema)


def read_grade(reply: Completion) -> Completion:
    """The reply itself, once it is known to hold what deepeval is going to read.

    Raises:
        ReplyFault: It does not.
    """
    value = _json_in(_whole(reply))
    if not isinstance(value, Mapping) or not isinstance(value.get("reason"), str):
        raise ReplyFault("the reply has no reason")
    score = value.get("score")
    if type(score) not in {int, float}:
        raise ReplyFault(f"the score is {score!r}")
    return reply


def _whole(reply: Completion) -> str:
    if reply.text is None or not reply.text.strip():
        raise ReplyFault("it refused" if reply.refusal else "it said nothing")
    if reply.finish_reason in {"length", "content_filter"}:
        raise ReplyFault(f"the reply was cut off (finish_reason {reply.finish_reason})")
    return reply.text


def _fit(text: str, schema: type[BaseModel]) -> BaseModel:
    value = _json_in(text)
    try:
        try:
            read = schema.model_validate(value)
        except ValueError:
            # `Yes.` will do for `yes`, as it does for deepeval.
            read = schema.model_validate(_plainly(value))
    except ValueError as error:
        # pydantic's first complaint, in its words
        complaints = cast("list[dict[str, Any]]", getattr(error, "errors", list)())
        first = complaints[0] if complaints else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise ReplyFault(f"the reply does not fit: {where}: {first['msg']}") from error
    numbers = (part for part in walk(read.model_dump()) if isinstance(part, float))
    if not all(map(math.isfinite, numbers)):
        raise ReplyFault("a number of the reply is not finite")
    return read


def _plainly(value: object) -> object:
    """A value with the verdicts in it in lower case and bare."""
    if isinstance(value, list):
        return [_plainly(part) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        name: part.strip(" .!*\n").lower()
        if name == "verdict" and isinstance(part, str)
        else _plainly(part)
        for name, part in cast("dict[str, object]", value).items()
    }


def _json_in(text: str) -> JSON:
    """The JSON that a reply is; one fenced block, or the only object within prose, will do.

    Raises:
        ReplyFault: It is none, or states something else next to it.
    """
    fenced = _FENCED.fullmatch(text)
    body = fenced[1] if fenced else text.strip()
    value = parse_json(body)
    if isinstance(value, JsonFault) and text.rstrip().endswith(("}", "`")):
        objects = [part for part in find_json(text) if isinstance(part, dict)]
        if len(objects) == 1:
            body, value = text[text.find("{") : text.rfind("}") + 1], objects[0]
            if _contradicts(text.partition(body)[0], value):
                value = JsonFault("it states one verdict in words and another one in its object")
    try:
        json.loads(body, object_pairs_hook=unique)
    except DuplicateKeyError as fault:
        value = JsonFault(str(fault)) if not isinstance(value, JsonFault) else value
    except (ValueError, RecursionError):
        pass
    if isinstance(value, JsonFault):
        raise ReplyFault(f"the reply is not JSON: {value.message}")
    return value


def _contradicts(prose: str, value: object) -> bool:
    """Return whether prose states a verdict or a score that the object after it does not have."""
    objects = (cast("Mapping[str, object]", p) for p in walk(value) if isinstance(p, Mapping))
    results = (part.get(name, "") for part in objects for name in ("verdict", "score", "winner"))
    stated = {str(each).strip().casefold().removesuffix(".0") for each in results if each != ""}
    return any(
        match["value"].casefold().removesuffix(".0") not in stated
        for match in _IN_WORDS.finditer(prose)
        if stated
    )


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, JSON]:
    """The value of `response_format` in a request, for a schema from pydantic.

    Strict mode wants every property required and no others. A schema with free keys cannot say
    so, and goes over the wire as one that is not strict.

    >>> response_format("Reason", {"type": "object", "properties": {"reason": {"type": "string"}}})
    ... # doctest: +ELLIPSIS
    {'type': 'json_schema', 'json_schema': {'name': 'Reason', 'strict': True, 'schema': {...}}}
    """
    free = _has_free_keys(schema)
    made = schema if free else _strict(schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": not free, "schema": dict(made)},
    }


def _has_free_keys(schema: object) -> bool:
    nodes = (cast("Mapping[str, object]", p) for p in walk(schema) if isinstance(p, Mapping))
    return any(
        (node.get("type") == "object" and not node.get("properties"))
        or node.get("additionalProperties") not in (None, False)
        for node in nodes
    )


def _strict(value: object, *, names: bool = False) -> Any:
    """A part of a schema; `names` says that its keys are names of properties, not keywords."""
    if isinstance(value, list):
        return [_strict(part) for part in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    node = cast("Mapping[str, object]", value)
    if names:
        return {key: _strict(part) for key, part in node.items()}
    made: dict[str, Any] = {
        key: _strict(part, names=key in {"properties", "$defs"})
        for key, part in node.items()
        if key not in _DROPPED
    }
    if "properties" in made:
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    return made


T = TypeVar("T")

ASKS_PER_CALL: Final = 2
"""The most attempts of a call whose replies cannot be read."""

_UNREADABLE: Final = "it was not the one JSON object that was asked for"
_STEPS_SCHEMA: Final = "Steps"
_WEIGHED: Final = frozenset({"logprobs", "top_logprobs"})
_GRADE: Final[Mapping[str, Any]] = MappingProxyType(
    {"type": "object", "properties": {"reason": {"type": "string"}, "score": {"type": "number"}}}
)


class SyncInLoopError(Exception):
    """A metric asked without awaiting, in the very thread that would have to answer it."""


class Asking:
    """The requests of one measurement, and whether any of them failed.

    Attributes:
        failure: The first call that failed. A metric that swallows it gets no score for that.
        model_name: The model, as `provider:model`.
        draws: The lots of a metric that shuffles; the same in every replay.
    """

    def __init__(
        self,
        calls: JudgeCalls,
        *,
        model: ModelId,
        parameters: Mapping[str, JSON],
        judge: str,
        seed: str,
    ) -> None:
        self.failure: Exception | None = None
        self.draws = random.Random(seed)  # noqa: S311 - an order, not a secret
        self._calls = calls
        self._model = model
        self.model_name = str(model)
        self._parameters = parameters
        self._judge = judge
        self._home = asyncio.get_running_loop()
        self._closed = False
        self._called = False
        self._fields: Mapping[str, str] = {}
        self._derived: dict[str, None] = {}
        self._nonces: dict[str, str | None] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    def judge_fields(self, fields: Mapping[str, str]) -> None:
        """Set the fields of the test case, as prompts show them."""
        self._fields = fields

    def fill(self, fill: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]) -> str:
        """A prompt out of a template, with fences around what the template is filled with.

        Args:
            fill: Makes the prompt out of the arguments.
            arguments: By name, as the metric gives them.
        """
        fenced, nonce = fence_arguments(arguments, self._fields)
        prompt = fill(fenced)
        self._nonces[prompt] = nonce
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
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    def ask_sync(self, prompt: object, schema: type[BaseModel] | None) -> BaseModel | str:
        """`ask`, for metrics that do not await.

        Raises:
            SyncInLoopError: This is the thread of the run; waiting here would be for ever.
        """
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is self._home:
                raise SyncInLoopError
        work = self._ask(str(prompt), schema)
        return asyncio.run_coroutine_threadsafe(work, self._home).result()

    @property
    def bypassed(self) -> bool:
        """Return whether there were calls, and none of their prompts came from a template."""
        return self._called and not self._nonces

    @property
    def weighs(self) -> bool:
        """Return whether grades are to be weighed by how likely their tokens were."""
        return self._parameters.get("logprobs") is True

    async def ask_grade(self, prompt: object) -> Completion:
        """The reply to a prompt that wants a reason and a score, tokens and all.

        Raises:
            JudgeError: No reply could be read, though it was asked again.
            UnmeasuredError: The model could not be asked.
        """
        request = self._request(str(prompt), response_format("ReasonScore", _GRADE), weighed=True)
        return await self._track(self._first_read(request, read_grade, what="as a grade"))

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

    async def _ask(self, prompt: str, schema: type[BaseModel] | None) -> BaseModel | str:
        request = self._request(prompt, _form_of(schema) if schema else None)
        # Steps are made of the criteria alone, so every case and trial shares one reply.
        if schema is not None and schema.__name__ == _STEPS_SCHEMA:
            request = request.for_trial(0)
        what = f"as {schema.__name__}" if schema else "as text"
        read = functools.partial(read_reply, schema=schema)
        return await self._track(self._first_read(request, read, what=what))

    async def _track(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        try:
            return await task
        except Exception as error:
            self.failure = self.failure or error
            raise

    async def _first_read(
        self, request: CompletionRequest, read: Callable[[Completion], T], *, what: str
    ) -> T:
        """The first reply that can be read."""
        if self._closed:
            raise JudgeError(f"{self._judge}: the measurement is over", judge=self._judge)
        why, raw = "", None
        for attempt in range(ASKS_PER_CALL):
            reply = await self._complete(
                request if not attempt else repeat_request(request, _UNREADABLE)
            )
            raw = reply.text if reply.text is not None else reply.refusal
            try:
                value = read(reply)
            except ReplyFault as fault:
                why = str(fault)
            else:
                self._derived.update(dict.fromkeys(texts_in(_plain_value(value))))
                return value
        quoted = "nothing" if raw is None else quote(raw, 200)
        raise JudgeError(
            f"{self._judge}: {self.model_name} gave no reply that can be read {what}, asked"
            f" {ASKS_PER_CALL} times: {why}\n  it said {quoted}",
            judge=self._judge,
            raw=raw,
        )

    async def _complete(self, request: CompletionRequest) -> Completion:
        try:
            return await self._calls.complete(request)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # deepeval takes these for a model without structured output, and asks again.
            raise JudgeError(
                f"{self._judge}: the call broke: {type(error).__name__}: {error}", judge=self._judge
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
            prompt, nonce = fence_prompt(prompt, texts)
        messages: tuple[Message, ...] = (Message(role="user", content=prompt),)
        if nonce is not None:
            messages = add_note(messages, fence_note(nonce))
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
            optional=optional_parameters(parameters),
            trial=self._calls.trial,
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
