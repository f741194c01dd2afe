"""Runs the conversation of a case: the user's turns, the model's calls and the results of tools.

`converse` is the one loop. It receives the completion of each call from its caller: from recordings
alone (`replay`), or from recordings and the models. Each call is a recording of its own, found by
the messages so far.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from regauge.datasets import GoldenCase, Script, error_content
from regauge.digests import digest_of
from regauge.errors import DatasetError, Fault, PromptError, RegaugeError, UnmeasuredError
from regauge.project import PythonTarget
from regauge.prompts import Message, content_of, load_prompt
from regauge.providers import CompletionRequest, Usage, parse_model_id, sum_if_known, transcript
from regauge.runner._plan import CaseRequest
from regauge.runner._result import SourcedCompletion
from regauge.strict_json import read_json
from regauge.targets import WorkingFiles, find_modules, load_target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.prompts import Prompt, ToolCall
    from regauge.providers import ModelId
    from regauge.runner._plan import Draw
    from regauge.runner._result import AnswerSource
    from regauge.targets import Target

_END: Final = "[END]"
_HISTORY: Final = "conversation"


class ConversationError(UnmeasuredError):
    """A conversation cannot go on: a tool without a result, no end, a user without words."""


class _NotRecordedError(Exception):
    """A replay needs a call that is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A prompt that a model plays the user with."""

    prompt: Prompt
    model: ModelId


@dataclass(frozen=True, kw_only=True)
class Partners:
    """Everything that takes part in the conversations of a suite, except what is tested.

    Attributes:
        personas: By the name that cases use.
        functions: The targets that answer tool calls, by callable.
    """

    personas: Mapping[str, Persona] = field(default_factory=dict[str, Persona])
    functions: Mapping[str, Target] = field(default_factory=dict[str, "Target"])

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of all personas."""
        return tuple(persona.prompt for persona in self.personas.values())

    def digest_of(self, script: Script) -> str:
        """The digest of all that a conversation depends on besides the tested prompt."""
        content: dict[str, JSON] = script.to_json()
        if script.persona:
            persona = self.personas[script.persona]
            content["persona"] = {"digest": persona.prompt.digest, "model": str(persona.model)}
        if script.tools is not None and script.tools.functions:
            called = set(script.tools.functions.values())
            content["functions"] = {name: self.functions[name].digest for name in sorted(called)}
        return digest_of(content)

    def inputs_of(self, case: GoldenCase, persona: str, prompt: Prompt) -> Mapping[str, JSON]:
        """The inputs of a case without those that its persona alone uses."""
        own = self.personas[persona].prompt.variables - prompt.variables
        return {name: value for name, value in case.inputs.items() if name not in own}


def bind_partners(cases: Iterable[GoldenCase], project: Project, *, offline: bool) -> Partners:
    """Load the personas and the functions that cases name.

    Args:
        cases: The cases.
        project: Where prompts and code are.
        offline: Whether no process may be started to find the modules of a function.

    Raises:
        DatasetError: A case names a persona that cannot play.
        PromptError: The prompt of a persona is faulty.
    """
    personas: dict[str, Persona] = {}
    functions: dict[str, Target] = {}
    faults: list[Fault] = []
    for case in cases:
        if case.script is None:
            continue
        name = case.script.persona
        if name and name not in personas:
            try:
                personas[name] = _persona(name, project)
            except PromptError as error:
                if error.faults[0].path != project.prompts_dir:
                    raise
                faults.append(
                    _fault(case, f"persona: {error.faults[0].message}", error.faults[0].fix)
                )
            except ValueError as error:
                message, _, fix = str(error).partition("\n  fix: ")
                faults.append(_fault(case, message, fix))
        for called in case.script.tools.functions.values() if case.script.tools else ():
            if called not in functions:
                functions[called] = _function(called, project, offline=offline)
    if faults:
        raise DatasetError(faults)
    return Partners(personas=personas, functions=functions)


def _persona(name: str, project: Project) -> Persona:
    prompt = load_prompt(name, root=project.root)
    if _HISTORY not in prompt.variables:
        raise ValueError(
            f"the persona {name!r} does not see the conversation\n"
            f"  fix: put {{{{{_HISTORY}}}}} into a message of its prompt"
        )
    model = prompt.model or project.settings.model
    if model is None:
        raise ValueError(
            f"the persona {name!r} has no model\n"
            "  fix: add `model: provider:model` to its prompt, or set `model` in [tool.regauge]"
        )
    return Persona(prompt=prompt, model=parse_model_id(model, location=name))


def _function(called: str, project: Project, *, offline: bool) -> Target:
    settings = PythonTarget(callable=called)
    discover = None
    if not offline:
        discover = lambda: find_modules(settings, root=project.root, environ=os.environ)  # noqa: E731
    target = load_target(
        called,
        settings,
        root=project.root,
        files=WorkingFiles(project.root),
        discover=discover,
    )
    return replace(target, is_tool=True)


def _fault(case: GoldenCase, message: str, fix: str) -> Fault:
    from pathlib import Path

    path, _, line = case.location.rpartition(":")
    return Fault(
        path=Path(path), line=int(line) if line.isdigit() else None, message=message, fix=fix
    )


def replay(
    draw: Draw, find: Callable[[CaseRequest], SourcedCompletion | None]
) -> SourcedCompletion | None:
    """The conversation of a draw from recordings alone; None where a call is not recorded.

    Raises:
        ConversationError: It cannot go on, whatever is recorded.
        RegaugeError: The case cannot be asked.
    """

    async def call(question: CaseRequest) -> SourcedCompletion:
        recorded = find(question)
        if recorded is None:
            raise _NotRecordedError
        return recorded

    running = converse(draw, call)
    try:
        running.send(None)
    except StopIteration as done:  # nothing waits
        answer: SourcedCompletion = done.value
        return answer
    except _NotRecordedError:
        return None
    raise AssertionError("a replay waited")


def calls_of(
    draw: Draw, find: Callable[[CaseRequest], SourcedCompletion | None]
) -> tuple[SourcedCompletion | None, list[CaseRequest]]:
    """The conversation of a draw as `replay` gives it, and its calls that are recorded."""
    made: list[CaseRequest] = []

    def noted(question: CaseRequest) -> SourcedCompletion | None:
        recorded = find(question)
        if recorded is not None:
            made.append(question)
        return recorded

    try:
        return replay(draw, noted), made
    except RegaugeError:
        return None, made


async def converse(
    draw: Draw, call: Callable[[CaseRequest], Awaitable[SourcedCompletion]]
) -> SourcedCompletion:
    """The conversation of a draw, as one completion with all its messages.

    Args:
        draw: A trial of a case with a script.
        call: Makes one call, or finds it.

    Raises:
        ConversationError: It cannot go on.
        UnmeasuredError: A call has no completion.
    """
    conversation = _Conversation(draw, call)
    number = 0
    while (user := await conversation.user(number)) is not None:
        number += 1
        if user:
            content, attachments = content_of(user)
            conversation.add(Message(role="user", content=content, attachments=attachments))
        if not await conversation.answer(number):
            break
    return conversation.whole()


class _Conversation:
    """One conversation while it runs.

    Args:
        draw: Its trial.
        call: Makes one call, or finds it.
    """

    def __init__(
        self, draw: Draw, call: Callable[[CaseRequest], Awaitable[SourcedCompletion]]
    ) -> None:
        script = draw.planned.case.script
        assert script is not None
        self._draw = draw
        self._suite = draw.planned.suite
        self._case = draw.planned.case
        self._script = script
        self._call = call
        self._opening = replace(self._suite.request(self._case, draw.trial), conversation="")
        self._messages: list[Message] = []
        self._answers: list[SourcedCompletion] = []

    def add(self, message: Message) -> None:
        """Add a message."""
        self._messages.append(message)

    async def user(self, number: int) -> JSON:
        """The next message of the user; None where the conversation is over.

        Args:
            number: The turns so far.
        """
        if not self._script.persona:
            turns = self._script.turns
            if number == 0 and not turns:
                return ""
            if number >= len(turns):  # without turns, the prompt itself was the only one
                return None
            if not turns[number].user:
                self._check_opening()
            return turns[number].user
        text = await self._persona()
        if _END in text:
            if number == 0:
                raise self._error(
                    f"the persona {self._script.persona!r} ended before its first message",
                    "let its prompt begin the conversation",
                )
            return None
        if number == self._script.max_turns:
            raise self._error(
                f"no end within {number} turns of the persona {self._script.persona!r}",
                f"raise `max_turns`, or let the persona write {_END} when it is done",
            )
        return text

    def _check_opening(self) -> None:
        """See that the prompt asks what the first turn does not."""
        opening = self._opening.messages
        if not opening or opening[-1].role not in {"user", "tool"}:
            raise self._error(
                "turn 1 has no `user`, and the prompt does not end with a message of the user",
                "write the user's message of turn 1",
            )

    async def _persona(self) -> str:
        """The next words of the persona, who sees what users see: no calls, no results."""
        persona = self._suite.partners.personas[self._script.persona]
        seen = [
            message
            for message in self._messages
            if message.role in {"user", "assistant"} and message.content
        ]
        variables = persona.prompt.variables
        inputs: dict[str, JSON] = {
            name: value for name, value in self._case.inputs.items() if name in variables
        }
        inputs[_HISTORY] = transcript(
            [{"role": message.role, "content": message.content} for message in seen]
        )
        request = CompletionRequest(
            provider=persona.model.provider,
            model=persona.model.model,
            messages=persona.prompt.render(inputs, case_at=self._case.location),
            parameters=persona.prompt.parameters,
            response_format=persona.prompt.response_format,
            trial=self._draw.trial,
            origin=str(persona.prompt.path.name),
        )
        question = self._question(request, asker=persona.prompt.digest)
        text = (await self._call(question)).completion.text
        if not text or not text.strip():
            raise self._error(
                f"the persona {self._script.persona!r} wrote nothing", "correct its prompt"
            )
        return text.strip()

    async def answer(self, turn: int) -> bool:
        """One turn of what is tested, with its tool calls; whether the conversation continues."""
        for _ in range(self._script.max_steps):
            answer = await self._call(self._question(self._request()))
            self._answers.append(answer)
            completion = answer.completion
            self.add(
                Message(
                    role="assistant",
                    content=completion.text or completion.refusal or "",
                    tool_calls=completion.tool_calls,
                )
            )
            if completion.refusal or completion.finish_reason == "content_filter":
                return False
            if not completion.tool_calls or self._suite.target is not None:
                return True
            for made in completion.tool_calls:
                content = await self._result(made, turn)
                self.add(Message(role="tool", content=content, tool_call_id=made.id))
        raise self._error(
            f"turn {turn} did not end within {self._script.max_steps} calls of the model",
            "raise `max_steps` of the case, or let the prompt state when to stop calling tools",
        )

    def _request(self) -> CompletionRequest:
        """The next request for what is tested."""
        if self._suite.target is not None:
            # A target calls its tools itself.
            messages: list[JSON] = [
                {"role": message.role, "content": _plain_content(message)}
                for message in self._messages
            ]
            inputs = {**self._case.inputs, "messages": messages}
            case = replace(self._case, inputs=inputs, script=None)
            return self._suite.request(case, self._draw.trial)
        opening = self._opening
        return replace(opening, messages=(*opening.messages, *self._messages))

    async def _result(self, call: ToolCall, turn: int) -> str:
        """The result of a tool."""
        try:
            arguments: JSON = read_json(call.arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return error_content("the arguments are not a JSON object")
        tools = self._script.tools
        if tools is not None and (called := tools.find_function(call.name)) is not None:
            target = self._suite.partners.functions[called]
            case = GoldenCase(
                id=self._case.id, inputs=arguments, split="train", location=self._case.location
            )
            # The same call can have another result later in a conversation.
            request = replace(
                target.request(case, self._draw.trial, origin=f"tool {call.name}"),
                messages=tuple(self._messages),
            )
            question = self._question(request, asker=target.digest, target=target)
            return (await self._call(question)).completion.text or ""
        content = tools.find(call.name, arguments) if tools is not None else None
        if content is not None:
            return content
        problem = f"no result for the call {call.name}({call.arguments}) in turn {turn}"
        if tools is None:
            raise self._error(
                problem, "write fixtures/tools/NAME.yml with its results, and add `tools: NAME`"
            )
        raise self._error(
            problem,
            f"add it to fixtures/tools/{tools.name}.yml under `{call.name}:` as `- args:"
            f' {call.arguments or "{}"}` with a `result:`, or `"*": error` for all other calls',
        )

    def _question(
        self, request: CompletionRequest, *, asker: str = "", target: Target | None = None
    ) -> CaseRequest:
        return replace(
            CaseRequest.of_draw(self._draw, request=request),
            asker_digest=asker or self._suite.prompt.digest,
            target=target if asker else self._suite.target,
        )

    def _error(self, what: str, fix: str) -> ConversationError:
        return ConversationError(
            f"case {self._case.id!r}: {what} ({self._case.location})\n  fix: {fix}"
        )

    def whole(self) -> SourcedCompletion:
        """The conversation as one completion; tokens, cost and latency of all its calls."""
        completions = [answer.completion for answer in self._answers]
        last = completions[-1]
        latency_s = sum_if_known(completion.latency_s for completion in completions)
        messages = self._messages
        opening = self._opening.messages
        if messages[0].role != "user" and opening and opening[-1].role == "user":
            messages = [opening[-1], *messages]
        calls = tuple(call for completion in completions for call in completion.tool_calls)
        context = dict.fromkeys(text for completion in completions for text in completion.context)
        completion = replace(
            last,
            tool_calls=calls,
            messages=tuple(replace(message, attachments=()).to_json() for message in messages),
            context=tuple(context),
            usage=sum((completion.usage for completion in completions), Usage()),
            latency_s=None if latency_s is None else round(latency_s, 4),
            cost_usd=sum_if_known(completion.cost_usd for completion in completions),
            attempts=sum(completion.attempts for completion in completions) - len(completions) + 1,
            logprobs=(),
        )
        sources: set[AnswerSource] = {answer.source for answer in self._answers}
        source: AnswerSource = "recording"
        for worse in ("store", "live"):
            source = worse if worse in sources else source
        return SourcedCompletion(completion=completion, source=source)


def _plain_content(message: Message) -> JSON:
    """The content of a message for a target: a text, or parts as a case writes them."""
    if not message.attachments:
        return message.content
    return [
        part if isinstance(part, str) else {part.kind: part.path, "sha256": part.sha256}
        for part in message.parts
    ]
