"""Calls of the refiner model: counted, limited, in a form the model takes."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from regauge.errors import ProviderError
from regauge.judges._types import quote
from regauge.judges.model._ask import again
from regauge.judges.model._delimited import with_note
from regauge.judges.model._reply import ReplyFault
from regauge.lexicon import Lexicon
from regauge.prompts import Message
from regauge.providers import approximate_tokens
from regauge.refine.loop._state import Critiqued, Looked, Proposed, Spent, TrialsDone
from regauge.refine.proposers._protocol import Ideas, Looks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion, CompletionRequest
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Interrupted
    from regauge.refine.proposers._protocol import Ask, Problem, Proposer

_RE = Lexicon("regauge.refine", "calls")

Parsed = TypeVar("Parsed")

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
# Enough for the thoughts of reasoning models at their default effort.
_MORE_TOKENS: Final = 16_000
# The beginning of a fault says what it is.
_FAULT_CHARS: Final = 300


class NoCallsLeftError(Exception):
    """The model calls of a run are used up."""


class ProposerCalls:
    """Puts requests to a model; counts the replies and stops at the limit."""

    def __init__(
        self,
        ask: Callable[[CompletionRequest], Awaitable[Completion]],
        calls_max: int,
        forget: Callable[[CompletionRequest], None] | None = None,
    ) -> None:
        self._ask = ask
        self._calls_max = calls_max
        self._forget = forget
        self.calls = 0
        self.usd = 0.0

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's reply."""
        if self.calls >= self._calls_max:
            raise NoCallsLeftError
        completion = await self._ask(request)
        self.calls += 1
        self.usd += completion.cost_usd or 0.0
        return completion

    def forget(self, request: CompletionRequest) -> None:
        """Drop the reply to a request: a later run gets another one."""
        if self._forget is not None:
            self._forget(request)

    @property
    def spent(self) -> Spent:
        """The cost of the calls."""
        return Spent(model_calls=self.calls, usd=self.usd)


@dataclass(slots=True, kw_only=True)
class ModelForm:
    """The form in which a model takes requests, learned from what it refuses.

    Attributes:
        max_tokens: Of every reply; None is what the packaged prompts set.
        temperature: Of every request; None is what the packaged prompts set.
        context_tokens: What a request and its reply may take together.
        dropped: Parameters that the model refused in this run, `system` among them where it takes
            no system message.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    context_tokens: int | None = None
    dropped: set[str] = field(default_factory=set[str])
    _raised: bool = False
    _input_max: int | None = None

    async def read(
        self,
        compose: Callable[[int], CompletionRequest | None],
        parse: Callable[[str], Parsed],
        ask: Ask,
    ) -> Parsed:
        """The reply, parsed; an unreadable reply is requested again.

        Args:
            compose: The request without its last n cases; None where it has fewer.
            parse: Reads a reply; a `ReplyFault` says what is wrong with it.
            ask: Gets one reply.
        """
        fault: ReplyFault | None = None
        repeated = False
        while True:
            request, completion = await self._completed(compose, fault, ask)
            try:
                return parse(_text_of(completion))
            except NoEditError:
                raise
            except ReplyFault as error:
                ask.forget(request)
                if completion.finish_reason == "length":
                    if self._raised or self.max_tokens is not None:
                        raise _cut_off(completion, request) from error
                    self._raised = True
                elif repeated:
                    raise
                else:
                    fault, repeated = error, True

    async def _completed(
        self,
        compose: Callable[[int], CompletionRequest | None],
        fault: ReplyFault | None,
        ask: Ask,
    ) -> tuple[CompletionRequest, Completion]:
        while True:
            request = self._fitting(compose, fault)
            try:
                return request, await ask(request)
            except ProviderError as error:
                if not self._learn(request, error, shortens=compose(1) is not None):
                    raise

    def _fitting(
        self, compose: Callable[[int], CompletionRequest | None], fault: ReplyFault | None
    ) -> CompletionRequest:
        """The request with as many of its cases as fit."""
        without = 0
        while (composed := compose(without)) is not None:
            request = self._formed(composed, fault)
            tokens = approximate_tokens(request)
            reply = request.parameters.get("max_tokens", 0)
            reserved = reply if isinstance(reply, int) else 0
            fits = self.context_tokens is None or tokens + reserved <= self.context_tokens
            if fits and (self._input_max is None or tokens <= self._input_max):
                return request
            without += 1
        raise _too_long()

    def _formed(self, request: CompletionRequest, fault: ReplyFault | None) -> CompletionRequest:
        parameters: dict[str, JSON] = dict(request.parameters)
        if self.temperature is not None:
            parameters["temperature"] = self.temperature
        if self.max_tokens is not None:
            parameters["max_tokens"] = self.max_tokens
        if self._raised:
            parameters["max_tokens"] = self._more_tokens(parameters.get("max_tokens"))
        for name in self.dropped:
            parameters.pop(name, None)
        messages, response_format = request.messages, request.response_format
        if response_format is not None and "response_format" in self.dropped:
            schema = json.dumps(response_format.get("json_schema"))
            messages = with_note(
                messages, f"Reply with one JSON object that fits this JSON schema:\n{schema}"
            )
            response_format = None
        request = replace(
            request, parameters=parameters, messages=messages, response_format=response_format
        )
        if fault is not None:
            request = again(request, quote(str(fault), _FAULT_CHARS))
        if "system" in self.dropped:
            whole = "\n\n".join(message.content.rstrip() for message in request.messages)
            request = replace(request, messages=(Message(role="user", content=f"{whole}\n"),))
        return request

    def _more_tokens(self, usual: JSON) -> int:
        most = max(_MORE_TOKENS, 4 * usual if isinstance(usual, int) else 0)
        if self.context_tokens is not None:
            most = min(most, self.context_tokens // 2)
        return most

    def _learn(self, request: CompletionRequest, error: ProviderError, *, shortens: bool) -> bool:
        """Change the form after a refusal; False where nothing is left to change."""
        text = str(error)
        unsupported = error.kind == "not-found" and _RE.unsupported.search(text)
        if not (error.kind == "bad-request" or unsupported or error.status == _TOO_LARGE):
            return False
        limited = bool({*_LIMITS} & {*request.parameters})
        if _RE.context.search(text) or error.status == _TOO_LARGE:
            if self._raised and limited:
                self.dropped.add("max_tokens")
            elif shortens:
                self._input_max = approximate_tokens(request) - 1
            elif limited:
                self.dropped.add("max_tokens")
            else:
                raise _too_long(error)
            return True
        param = str(getattr(error, "param", "")).split(".")[0]
        sent = {*request.parameters}
        if request.response_format is not None:
            sent.add("response_format")
        if param in _LIMITS:
            param = "max_tokens"
        if param not in sent:
            param = self._suspect(sent, text, request)
        if not param:
            raise _refused(error)
        self.dropped.add(param)
        return True

    def _suspect(self, sent: set[str], text: str, request: CompletionRequest) -> str:
        """The likeliest parameter for a refusal that names none."""
        named = [name for name in sorted(sent) if name in text]
        if re.search(r"json|schema|structured|grammar", text, re.IGNORECASE):
            named.append("response_format")
        if _RE.no_system.search(text):
            named.append("system")
        possible = [*named, "response_format", "temperature", "max_tokens", "system"]
        if any(message.role != "user" for message in request.messages):
            sent = {*sent, "system"}
        return next((name for name in possible if name in sent), "")


# The HTTP status of a request that is too large.
_TOO_LARGE: Final = 413


def _refused(error: ProviderError) -> ReplyFault:
    return ReplyFault(
        f"the model refuses the request in every form: {_first_line(error)}\n"
        "  fix: let another model propose, with --refiner-model"
    )


def _too_long(error: ProviderError | None = None) -> ReplyFault:
    said = f": {_first_line(error)}" if error is not None else ""
    return ReplyFault(
        f"the request does not fit into the model's context, even without any case{said}\n"
        "  fix: let another model propose, with --refiner-model, or change `context_tokens` or"
        " `max_tokens` in [tool.regauge.refine]"
    )


def _first_line(error: ProviderError) -> str:
    return str(error).split("\n", 1)[0]


def _text_of(completion: Completion) -> str:
    """The text of a reply; one that is cut off may be readable all the same."""
    if completion.refusal:
        raise ReplyFault(f"the model refused: {quote(completion.refusal)}")
    if completion.finish_reason == "content_filter":
        raise ReplyFault("the reply was withheld by a content filter")
    if not completion.text or not completion.text.strip():
        raise ReplyFault("the reply has no text")
    return completion.text


def _cut_off(completion: Completion, request: CompletionRequest) -> ReplyFault:
    tokens = completion.usage.output_tokens or request.parameters.get("max_tokens", "")
    thoughts = "" if (completion.text or "").strip() else ", all spent on reasoning"
    return ReplyFault(
        f"the reply is cut off after {tokens} tokens{thoughts}\n"
        "  fix: raise `max_tokens` in [tool.regauge.refine], or let another model propose, with"
        " --refiner-model"
    )


MakesCalls: TypeAlias = "Callable[[CompletionRequest], Awaitable[Completion]]"
Forgets: TypeAlias = "Callable[[CompletionRequest], None]"


async def looked(
    proposer: Proposer, calls_max: int, ask: MakesCalls, forget: Forgets | None = None
) -> Looked:
    """Return whether a proposer's model can be read at all, before trials are paid."""
    assert isinstance(proposer, Looks)
    calls, fault = ProposerCalls(ask, calls_max, forget), ""
    with suppress(NoCallsLeftError):
        fault = await proposer.look(calls)
    return Looked(proposer=proposer.name, fault=fault, spent=calls.spent)


async def criticised(
    proposer: Proposer, problem: Problem, ask: MakesCalls, forget: Forgets | None = None
) -> Critiqued:
    """A proposer's critique, with what it took."""
    calls = ProposerCalls(ask, problem.model_calls, forget)
    try:
        critique, refused = await proposer.criticise(problem, calls), ""
    except ReplyFault as fault:
        critique, refused = None, f"the critique cannot be read: {fault}"
    except NoCallsLeftError:
        critique, refused = None, ""
    return Critiqued(critique=critique, spent=calls.spent, refused=refused)


async def proposed(
    proposer: Proposer, problem: Problem, ask: MakesCalls, forget: Forgets | None = None
) -> Proposed:
    """A proposer's edits, with what they and the trials of its search took."""
    calls, drawn = ProposerCalls(ask, problem.model_calls, forget), Spent()

    async def search(text: PromptText, cases: Sequence[str]) -> TrialsDone | Interrupted:
        nonlocal drawn
        assert problem.draw is not None
        done = await problem.draw(text, cases)
        if isinstance(done, TrialsDone):
            drawn += done.spent
        return done

    try:
        ideas = await proposer.propose(
            replace(problem, draw=None if problem.draw is None else search), calls
        )
    except NoCallsLeftError:
        ideas = Ideas(refused=("no calls of the model are left",))
    return Proposed(
        edits=ideas.edits, refused=ideas.refused, spent=calls.spent + drawn, unread=ideas.unread
    )


class NoEditError(ReplyFault):
    """A reply that can be read and proposes no edit of this prompt."""
