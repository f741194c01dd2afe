"""The model calls of one measurement: routed through the run, with checked responses."""

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
from regauge.judges.model.requests import (
    add_note,
    fence_note,
    nonce_of,
    optional_parameters,
    repeat_request,
)
from regauge.judges.model.response import ResponseError, text_of
from regauge.judges.output import JsonProblem, find_json, parse_json
from regauge.providers import CompletionRequest
from regauge.strict_json import DuplicateKeyError, is_list, is_mapping, mappings_in, unique, walk
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator

    from pydantic import BaseModel

    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls
    from regauge.providers import Completion, ModelId


_IN_PARTS: Final = frozenset({"test_case_content", "text"})
"""The variables with several fields, each below its heading."""

_HEADINGS: Final = re.compile(r"\s*(?:[A-Z][A-Za-z ]{0,40}:\n)?\s*")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?%?")
# In a prompt without variables, text of this length is recognised anywhere; shorter text only if it
# fills a line or a pair of quotes.
_SHINGLE: Final = 24


def fence_arguments(
    arguments: Mapping[str, Any], replacements: Mapping[str, str]
) -> tuple[Mapping[str, Any], str | None]:
    """Put fences around the untrusted arguments of a template.

    The second value is the nonce of the tags; None without untrusted arguments.

    Args:
        arguments: The arguments, by variable.
        replacements: The fields of the test case, as in prompts.
    """
    texts = {
        name: str(value)
        for name, value in arguments.items()
        if name not in METRICS.words("trusted") and not _is_harmless(value)
    }
    if not texts:
        return arguments, None
    nonce = nonce_of(texts)
    fenced_arguments = {
        name: _fence_value(name, value, nonce, replacements) if name in texts else value
        for name, value in arguments.items()
    }
    return fenced_arguments, nonce


def fence_prompt(prompt: str, texts: Collection[str]) -> tuple[str, str | None]:
    """Put fences around all parts of these texts in a metric's own prompt."""
    covered = bytearray(len(prompt))
    for text in texts:
        for form in _forms(text):
            if len(form) < _SHINGLE:
                for match in _alone_pattern(form).finditer(prompt):
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
    position = 0
    for start, end in runs:
        pieces += [prompt[position:start], _fence("text", prompt[start:end], nonce)]
        position = end
    return "".join([*pieces, prompt[position:]]), nonce


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a value, at any depth."""
    return (part for part in walk(value) if isinstance(part, str))


def _is_harmless(value: object) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str):
        return not value.strip() or _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, (list, tuple, dict)) and not value


def _fence(name: str, text: str, nonce: str) -> str:
    return f"<field.{name}-{nonce}>\n{text}\n</field.{name}-{nonce}>"


def _fence_value(name: str, value: Any, nonce: str, replacements: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        parts = _fence_parts(value, nonce, replacements) if name in _IN_PARTS else None
        return parts or _fence(name, value, nonce)
    if isinstance(value, (list, tuple)):
        entries = [
            entry if _is_harmless(entry) else _fence_value(name, entry, nonce, replacements)
            for entry in cast("Sequence[Any]", value)
        ]
        return _List(entries, text=_fence(name, str(cast("object", value)), nonce))
    return _Object(value, name=name, nonce=nonce)


def _fence_parts(text: str, nonce: str, replacements: Mapping[str, str]) -> str | None:
    """Put a fence around each field in a text of several; None if it has other text."""
    names = {field: name for name, field in replacements.items() if field.strip()}
    if not names:
        return None
    longest = sorted(names, key=len, reverse=True)
    pieces: list[str] = []
    position = 0
    for match in re.finditer("|".join(map(re.escape, longest)), text):
        pieces += [text[position : match.start()], _fence(names[match[0]], match[0], nonce)]
        position = match.end()
    pieces.append(text[position:])
    return "".join(pieces) if all(map(_HEADINGS.fullmatch, pieces[::2])) else None


class _List(list[Any]):
    """A list whose text and entries are fenced."""

    def __init__(self, entries: Sequence[Any], *, text: str) -> None:
        super().__init__(entries)
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class _Object:
    """An object whose text and attributes are fenced."""

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
        return _fence_value(name, value, self._nonce, {})


def _forms(text: str) -> list[str]:
    """The forms of a text in a prompt: unchanged, stripped, as JSON or as a Python literal."""
    bare = text.strip()
    forms = (text, bare, json.dumps(bare)[1:-1], json.dumps(bare, ensure_ascii=False)[1:-1])
    return [form for form in dict.fromkeys((*forms, repr(bare)[1:-1])) if form.strip()]


def _alone_pattern(form: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<=[\n\"'`>])|(?<=: )|(?<![\s\S])){re.escape(form)}(?=[ \t]*(?:\n|$)|[\"'`<])"
    )


def _cover_shingles(prompt: str, texts: Collection[str], covered: bytearray) -> None:
    """Cover every part of a prompt that occurs in a text and is at least as long as a shingle."""
    shingles = {
        form[position : position + _SHINGLE]
        for text in texts
        for form in _forms(text)
        for position in range(len(form) - _SHINGLE + 1)
    }
    for position in range(len(prompt) - _SHINGLE + 1):
        if prompt[position : position + _SHINGLE] in shingles:
            covered[position : position + _SHINGLE] = b"\x01" * _SHINGLE


_DROPPED: Final = frozenset({"default", "title", "examples"})
_FENCED_BLOCK: Final = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*", re.DOTALL)
_PROSE_VERDICT: Final = re.compile(
    r"\b(?:verdict|score|winner)\b[*_`\"' \t]{0,4}(?:is|of|:|=)[*_`\"' \t]{0,4}"
    r"(?P<value>[0-9]+(?:\.[0-9]+)?|[A-Za-z]+)",
    re.IGNORECASE,
)


def read_response(response: Completion, schema: type[BaseModel] | None) -> BaseModel | str:
    """Read a response as an instance of the schema, or as text without a schema.

    Raises:
        ResponseError: It is neither.
    """
    text = text_of(response)
    if schema is None:
        return text
    value = _read_json(text)
    try:
        try:
            instance = schema.model_validate(value)
        except ValueError:
            # `Yes.` is read as `yes`, as deepeval does.
            instance = schema.model_validate(_normalise_verdicts(value))
    except ValueError as error:
        # The first error of pydantic.
        complaints = cast("list[dict[str, Any]]", getattr(error, "errors", list)())
        first = complaints[0] if complaints else {"loc": (), "msg": str(error)}
        place = ".".join(str(part) for part in first["loc"])
        raise ResponseError(f"the response does not fit: {place}: {first['msg']}") from error
    numbers = (part for part in walk(instance.model_dump()) if isinstance(part, float))
    if not all(map(math.isfinite, numbers)):
        raise ResponseError("a number of the response is not finite")
    return instance


def read_grade(response: Completion) -> Completion:
    """Check that a response has the reason and score that deepeval reads, and return it.

    Raises:
        ResponseError: It has not.
    """
    value = _read_json(text_of(response))
    if not isinstance(value, Mapping) or not isinstance(value.get("reason"), str):
        raise ResponseError("the response has no reason")
    score = value.get("score")
    if type(score) not in {int, float}:
        raise ResponseError(f"the score is {score!r}")
    return response


def _normalise_verdicts(value: object) -> object:
    """The value with verdicts in lower case and without marks."""
    if is_list(value):
        return [*map(_normalise_verdicts, value)]
    if not is_mapping(value):
        return value
    return {
        name: part.strip(" .!*\n").lower()
        if name == "verdict" and isinstance(part, str)
        else _normalise_verdicts(part)
        for name, part in value.items()
    }


def _read_json(text: str) -> JSON:
    """Read the JSON in a response: all of it, one fenced block, or the only object within prose.

    Raises:
        ResponseError: It has none, or its prose contradicts it.
    """
    block = _FENCED_BLOCK.fullmatch(text)
    body = block[1] if block else text.strip()
    value = parse_json(body)
    if isinstance(value, JsonProblem) and text.rstrip().endswith(("}", "`")):
        objects = [part for part in find_json(text) if isinstance(part, dict)]
        if len(objects) == 1:
            body, value = text[text.find("{") : text.rfind("}") + 1], objects[0]
            if _contradicts(text.partition(body)[0], value):
                value = JsonProblem("it states one verdict in words and another one in its object")
    try:
        json.loads(body, object_pairs_hook=unique)
    except DuplicateKeyError as error:
        value = JsonProblem(str(error)) if not isinstance(value, JsonProblem) else value
    except (ValueError, RecursionError):
        pass
    if isinstance(value, JsonProblem):
        raise ResponseError(f"the response is not JSON: {value.message}")
    return value


def _contradicts(prose: str, value: object) -> bool:
    """Return whether prose states a verdict or a score that the object does not have."""
    results = (
        part.get(name, "") for part in mappings_in(value) for name in ("verdict", "score", "winner")
    )
    object_values = {
        str(result).strip().casefold().removesuffix(".0") for result in results if result != ""
    }
    return any(
        match["value"].casefold().removesuffix(".0") not in object_values
        for match in _PROSE_VERDICT.finditer(prose)
        if object_values
    )


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, JSON]:
    """The value of `response_format` in a request, for a schema from pydantic.

    In strict mode all properties are required, and no others are allowed. A schema with free keys
    is sent without strict mode.

    >>> response_format("Reason", {"type": "object", "properties": {"reason": {"type": "string"}}})
    ... # doctest: +ELLIPSIS
    {'type': 'json_schema', 'json_schema': {'name': 'Reason', 'strict': True, 'schema': {...}}}
    """
    free = _has_free_keys(schema)
    final_schema = schema if free else _make_strict(schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": not free, "schema": dict(final_schema)},
    }


def _has_free_keys(schema: object) -> bool:
    return any(
        (node.get("type") == "object" and not node.get("properties"))
        or node.get("additionalProperties") not in (None, False)
        for node in mappings_in(schema)
    )


def _make_strict(value: object, *, names: bool = False) -> Any:
    """A part of a schema in strict mode; with `names`, its keys are properties, not keywords."""
    if is_list(value):
        return [*map(_make_strict, value)]
    if not is_mapping(value):
        return value
    if names:
        return {key: _make_strict(part) for key, part in value.items()}
    strict: dict[str, Any] = {
        key: _make_strict(part, names=key in {"properties", "$defs"})
        for key, part in value.items()
        if key not in _DROPPED
    }
    if "properties" in strict:
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


T = TypeVar("T")

ATTEMPTS_PER_CALL: Final = 2
"""The maximum attempts of a call with unreadable responses."""

_GRADE: Final[Mapping[str, Any]] = MappingProxyType(
    {"type": "object", "properties": {"reason": {"type": "string"}, "score": {"type": "number"}}}
)


class SyncInLoopError(Exception):
    """A metric called its model without awaiting, in the thread that runs the call."""


class MetricCalls:
    """The model calls of one measurement.

    Attributes:
        failure: The error of the first failed call; the measurement fails even if the metric hides
            it.
        model_name: The model, as `provider:model`.
        rng: The random generator of a metric that shuffles; the same in every replay.
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
        self.rng = random.Random(seed)  # noqa: S311 - an order, not a secret
        self._calls = calls
        self._model = model
        self.model_name = str(model)
        self._parameters = parameters
        self._judge = judge
        self._home = asyncio.get_running_loop()
        self._closed = False
        self._has_calls = False
        self._fields: Mapping[str, str] = {}
        self._response_texts: dict[str, None] = {}
        self._nonces: dict[str, str | None] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    def set_fields(self, fields: Mapping[str, str]) -> None:
        """Set the fields of the test case, as in prompts."""
        self._fields = fields

    def fill(self, fill: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]) -> str:
        """Fill a template, with fences around its untrusted arguments.

        Args:
            fill: Called with the fenced arguments; returns the prompt.
            arguments: The metric's arguments, by variable.
        """
        fenced_arguments, nonce = fence_arguments(arguments, self._fields)
        prompt = fill(fenced_arguments)
        self._nonces[prompt] = nonce
        return prompt

    async def complete(self, prompt: object, schema: type[BaseModel] | None) -> BaseModel | str:
        """Return the response to a prompt: an instance of the schema, or text without a schema.

        Raises:
            JudgeError: All responses are unreadable.
            UnmeasuredError: The model could not be called.
        """
        work = self._read_response(str(prompt), schema)
        if asyncio.get_running_loop() is self._home:
            return await work
        # The metric runs in its own loop, in its own thread.
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    def complete_sync(self, prompt: object, schema: type[BaseModel] | None) -> BaseModel | str:
        """`complete`, for metrics that do not await.

        Raises:
            SyncInLoopError: This is the thread of the run, where waiting would block forever.
        """
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is self._home:
                raise SyncInLoopError
        work = self._read_response(str(prompt), schema)
        return asyncio.run_coroutine_threadsafe(work, self._home).result()

    @property
    def bypassed_templates(self) -> bool:
        """Return whether there were calls, but no prompt came from a template."""
        return self._has_calls and not self._nonces

    @property
    def uses_logprobs(self) -> bool:
        """Return whether grades are weighted by the log-probabilities of their tokens."""
        return self._parameters.get("logprobs") is True

    async def complete_grade(self, prompt: object) -> Completion:
        """Return the completion for a prompt that requests a reason and a score, with tokens.

        Raises:
            JudgeError: All responses are unreadable.
            UnmeasuredError: The model could not be called.
        """
        request = self._request(
            str(prompt), response_format("ReasonScore", _GRADE), with_logprobs=True
        )
        return await self._track(self._call_until_readable(request, read_grade, form="as a grade"))

    async def close(self) -> None:
        """Finish the running calls, which are paid for, and start no more."""
        self._closed = True
        while self._pending:
            await asyncio.wait(set(self._pending))

    def abandon(self) -> None:
        """Cancel the running calls, so that no thread waits for them."""
        self._closed = True
        for future in self._pending:
            future.cancel()

    async def _read_response(self, prompt: str, schema: type[BaseModel] | None) -> BaseModel | str:
        request = self._request(prompt, _response_format_of(schema) if schema else None)
        # Steps depend on the criteria alone, so all cases and trials share one response.
        if schema is not None and schema.__name__ == "Steps":
            request = request.for_trial(0)
        form = f"as {schema.__name__}" if schema else "as text"
        read = functools.partial(read_response, schema=schema)
        return await self._track(self._call_until_readable(request, read, form=form))

    async def _track(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        try:
            return await task
        except Exception as error:
            self.failure = self.failure or error
            raise

    async def _call_until_readable(
        self, request: CompletionRequest, read: Callable[[Completion], T], *, form: str
    ) -> T:
        """The first readable response."""
        if self._closed:
            raise JudgeError(f"{self._judge}: the measurement is over", judge=self._judge)
        problem, raw = "", None
        for attempt in range(ATTEMPTS_PER_CALL):
            response = await self._complete(
                request if not attempt else repeat_request(request, ResponseError.wrong)
            )
            raw = response.text if response.text is not None else response.refusal
            try:
                value = read(response)
            except ResponseError as error:
                problem = str(error)
            else:
                self._response_texts.update(dict.fromkeys(texts_in(_plain_value(value))))
                return value
        quoted = "nothing" if raw is None else quote(raw, 200)
        raise JudgeError(
            f"{self._judge}: no response of {self.model_name} can be read {form} after"
            f" {ATTEMPTS_PER_CALL} attempts: {problem}\n  last response: {quoted}",
            judge=self._judge,
            raw=raw,
        )

    async def _complete(self, request: CompletionRequest) -> Completion:
        try:
            return await self._calls.complete(request)
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # deepeval reads these as missing structured output, and repeats the call.
            raise JudgeError(
                f"{self._judge}: the call broke: {type(error).__name__}: {error}", judge=self._judge
            ) from error

    def _request(
        self,
        prompt: str,
        response_format: Mapping[str, JSON] | None,
        *,
        with_logprobs: bool = False,
    ) -> CompletionRequest:
        from regauge.prompts import Message

        self._has_calls = True
        if prompt in self._nonces:
            nonce = self._nonces[prompt]
        else:  # a metric's own prompt
            texts = dict.fromkeys((*self._fields.values(), *self._response_texts))
            prompt, nonce = fence_prompt(prompt, texts)
        messages: tuple[Message, ...] = (Message(role="user", content=prompt),)
        if nonce is not None:
            messages = add_note(messages, fence_note(nonce))
        parameters = {
            name: value
            for name, value in self._parameters.items()
            if with_logprobs or name not in {"logprobs", "top_logprobs"}
        }
        return CompletionRequest(
            provider=self._model.provider,
            model=self._model.model,
            messages=messages,
            parameters=parameters,
            response_format=response_format,
            origin=f"deepeval judge {self._judge!r}",
            optional=optional_parameters(parameters),
            trial=self._calls.trial,
        )


def _plain_value(response: object) -> object:
    """A response as plain values."""
    if isinstance(response, str):
        return response
    dump = getattr(response, "model_dump", None)
    return dump() if callable(dump) else getattr(response, "text", None)


@functools.lru_cache(maxsize=256)
def _response_format_of(schema: type[BaseModel]) -> Mapping[str, JSON]:
    """The response format of a schema, cached: pydantic takes longer than a whole measurement."""
    return response_format(schema.__name__, schema.model_json_schema())
