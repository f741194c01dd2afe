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
from regauge.errors import DatasetError, Diagnostic, PromptError, RegaugeError, UnmeasuredError
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
    from regauge.runner._plan import PlannedTrial
    from regauge.runner._result import CompletionSource
    from regauge.targets import Target

_END: Final = "[END]"
_HISTORY: Final = "conversation"


class ConversationError(UnmeasuredError):
    """A conversation cannot continue: no result of a tool, no end, an empty user message."""


class _NotRecordedError(Exception):
    """A replay needs a call that is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A prompt for a model that plays the user."""

    prompt: Prompt
    model: ModelId


@dataclass(frozen=True, kw_only=True)
class Partners:
    """The personas and tools in the conversations of an eval.

    Attributes:
        personas: Personas by their name in cases.
        functions: Targets that return results of tools, by callable.
    """

    personas: Mapping[str, Persona] = field(default_factory=dict[str, Persona])
    functions: Mapping[str, Target] = field(default_factory=dict[str, "Target"])

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of all personas."""
        return tuple(persona.prompt for persona in self.personas.values())

    def digest_of(self, script: Script) -> str:
        """The digest of everything that a conversation depends on, except the tested prompt."""
        content: dict[str, JSON] = script.to_json()
        if script.persona:
            persona = self.personas[script.persona]
            content["persona"] = {"digest": persona.prompt.digest, "model": str(persona.model)}
        if script.tools is not None and script.tools.functions:
            function_names = set(script.tools.functions.values())
            content["functions"] = {
                name: self.functions[name].digest for name in sorted(function_names)
            }
        return digest_of(content)

    def inputs_of(self, case: GoldenCase, persona: str, prompt: Prompt) -> Mapping[str, JSON]:
        """The inputs of a case, without those of its persona."""
        persona_variables = self.personas[persona].prompt.variables - prompt.variables
        return {name: value for name, value in case.inputs.items() if name not in persona_variables}


def bind_partners(cases: Iterable[GoldenCase], project: Project, *, offline: bool) -> Partners:
    """Load the personas and functions of cases.

    Args:
        cases: The cases.
        project: The project with the prompts and the code.
        offline: Whether to start no process that finds the modules of a function.

    Raises:
        DatasetError: A persona of a case does not exist, or has no model or conversation.
        PromptError: The prompt of a persona is invalid.
    """
    personas: dict[str, Persona] = {}
    functions: dict[str, Target] = {}
    diagnostics: list[Diagnostic] = []
    for case in cases:
        if case.script is None:
            continue
        name = case.script.persona
        if name and name not in personas:
            try:
                personas[name] = _persona(name, project)
            except PromptError as error:
                if error.diagnostics[0].path != project.prompts_dir:
                    raise
                message, fix = f"persona: {error.diagnostics[0].message}", error.diagnostics[0].fix
                diagnostics.append(Diagnostic.at_location(case.location, message, fix))
            except ValueError as error:
                message, _, fix = str(error).partition("\n  fix: ")
                diagnostics.append(Diagnostic.at_location(case.location, message, fix))
        for function_name in case.script.tools.functions.values() if case.script.tools else ():
            if function_name not in functions:
                functions[function_name] = _function(function_name, project, offline=offline)
    if diagnostics:
        raise DatasetError(diagnostics)
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


def _function(name: str, project: Project, *, offline: bool) -> Target:
    settings = PythonTarget(callable=name)
    discover = None
    if not offline:
        discover = lambda: find_modules(settings, root=project.root, environ=os.environ)  # noqa: E731
    target = load_target(
        name,
        settings,
        root=project.root,
        files=WorkingFiles(project.root),
        discover=discover,
    )
    return replace(target, is_tool=True)


def replay(
    planned_trial: PlannedTrial, find: Callable[[CaseRequest], SourcedCompletion | None]
) -> SourcedCompletion | None:
    """The recorded conversation of a trial; None if a call is not recorded.

    Raises:
        ConversationError: It cannot continue, with any recordings.
        RegaugeError: The case cannot be rendered.
    """

    async def call(case_request: CaseRequest) -> SourcedCompletion:
        recorded = find(case_request)
        if recorded is None:
            raise _NotRecordedError
        return recorded

    running = converse(planned_trial, call)
    try:
        running.send(None)
    except StopIteration as done:  # nothing waits
        sourced: SourcedCompletion = done.value
        return sourced
    except _NotRecordedError:
        return None
    raise AssertionError("a replay waited")


def calls_of(
    planned_trial: PlannedTrial, find: Callable[[CaseRequest], SourcedCompletion | None]
) -> tuple[SourcedCompletion | None, list[CaseRequest]]:
    """The result of `replay` for a trial, and the recorded calls."""
    recorded_calls: list[CaseRequest] = []

    def find_and_note(case_request: CaseRequest) -> SourcedCompletion | None:
        recorded = find(case_request)
        if recorded is not None:
            recorded_calls.append(case_request)
        return recorded

    try:
        return replay(planned_trial, find_and_note), recorded_calls
    except RegaugeError:
        return None, recorded_calls


async def converse(
    planned_trial: PlannedTrial, call: Callable[[CaseRequest], Awaitable[SourcedCompletion]]
) -> SourcedCompletion:
    """The conversation of a trial, as one completion with all messages.

    Args:
        planned_trial: A trial of a case with a script.
        call: Called with each request; returns its completion.

    Raises:
        ConversationError: It cannot continue.
        UnmeasuredError: A call has no completion.
    """
    conversation = _Conversation(planned_trial, call)
    number = 0
    while (user := await conversation.next_user_message(number)) is not None:
        number += 1
        if user:
            content, attachments = content_of(user)
            conversation.add(Message(role="user", content=content, attachments=attachments))
        if not await conversation.run_turn(number):
            break
    return conversation.join()


class _Conversation:
    """A conversation in progress.

    Args:
        planned_trial: Its trial.
        call: Called with each request; returns its completion.
    """

    def __init__(
        self,
        planned_trial: PlannedTrial,
        call: Callable[[CaseRequest], Awaitable[SourcedCompletion]],
    ) -> None:
        script = planned_trial.planned_case.case.script
        assert script is not None
        self._draw = planned_trial
        self._eval = planned_trial.planned_case.eval
        self._case = planned_trial.planned_case.case
        self._script = script
        self._call = call
        self._opening = replace(
            self._eval.request(self._case, planned_trial.trial), conversation=""
        )
        self._messages: list[Message] = []
        self._turn_completions: list[SourcedCompletion] = []

    def add(self, message: Message) -> None:
        """Add a message."""
        self._messages.append(message)

    async def next_user_message(self, number: int) -> JSON:
        """The next message of the user; None at the end of the conversation.

        Args:
            number: The number of turns so far.
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
        text = await self._next_persona_message()
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
        """Check that the prompt has a user message where the first turn has none."""
        opening = self._opening.messages
        if not opening or opening[-1].role not in {"user", "tool"}:
            raise self._error(
                "turn 1 has no `user`, and the prompt does not end with a message of the user",
                "write the user's message of turn 1",
            )

    async def _next_persona_message(self) -> str:
        """The next message of the persona, which sees the texts but no tool calls or results."""
        persona = self._eval.partners.personas[self._script.persona]
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
        case_request = self._case_request(request, caller_digest=persona.prompt.digest)
        text = (await self._call(case_request)).completion.text
        if not text or not text.strip():
            raise self._error(
                f"the persona {self._script.persona!r} wrote nothing", "correct its prompt"
            )
        return text.strip()

    async def run_turn(self, turn: int) -> bool:
        """Run one turn with its tool calls; returns whether the conversation continues."""
        for _ in range(self._script.max_steps):
            sourced = await self._call(self._case_request(self._request()))
            self._turn_completions.append(sourced)
            completion = sourced.completion
            self.add(
                Message(
                    role="assistant",
                    content=completion.text or completion.refusal or "",
                    tool_calls=completion.tool_calls,
                )
            )
            if completion.refusal or completion.finish_reason == "content_filter":
                return False
            if not completion.tool_calls or self._eval.target is not None:
                return True
            for tool_call in completion.tool_calls:
                content = await self._result(tool_call, turn)
                self.add(Message(role="tool", content=content, tool_call_id=tool_call.id))
        raise self._error(
            f"turn {turn} did not end within {self._script.max_steps} calls of the model",
            "raise `max_steps` of the case, or let the prompt state when to stop calling tools",
        )

    def _request(self) -> CompletionRequest:
        """The next request to the tested prompt or target."""
        if self._eval.target is not None:
            # A target calls its tools itself.
            if "messages" in self._case.inputs:
                problem = "`messages` is the conversation that a target gets, and an input"
                raise self._error(problem, "rename the input of the case")
            messages: list[JSON] = [
                {"role": message.role, "content": _plain_content(message)}
                for message in self._messages
            ]
            inputs = {**self._case.inputs, "messages": messages}
            case = replace(self._case, inputs=inputs, script=None)
            return self._eval.request(case, self._draw.trial)
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
        if tools is not None and (function_name := tools.find_function(call.name)) is not None:
            target = self._eval.partners.functions[function_name]
            case = GoldenCase(
                id=self._case.id, inputs=arguments, split="train", location=self._case.location
            )
            # The same call can have another result later in a conversation.
            request = replace(
                target.request(case, self._draw.trial, origin=f"tool {call.name}"),
                messages=tuple(self._messages),
            )
            case_request = self._case_request(request, caller_digest=target.digest, target=target)
            return (await self._call(case_request)).completion.text or ""
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

    def _case_request(
        self, request: CompletionRequest, *, caller_digest: str = "", target: Target | None = None
    ) -> CaseRequest:
        return replace(
            CaseRequest.of_trial(self._draw, request=request),
            caller_digest=caller_digest or self._eval.prompt.digest,
            target=target if caller_digest else self._eval.target,
        )

    def _error(self, problem: str, fix: str) -> ConversationError:
        return ConversationError(
            f"case {self._case.id!r}: {problem} ({self._case.location})\n  fix: {fix}"
        )

    def join(self) -> SourcedCompletion:
        """The conversation as one completion, with the tokens, cost and latency of all calls."""
        completions = [sourced.completion for sourced in self._turn_completions]
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
        sources: set[CompletionSource] = {sourced.source for sourced in self._turn_completions}
        source: CompletionSource = "recording"
        for worse in ("store", "live"):
            source = worse if worse in sources else source
        return SourcedCompletion(completion=completion, source=source)


def _plain_content(message: Message) -> JSON:
    """The content of a message for a target: a text, or parts in the form of a case."""
    if not message.attachments:
        return message.content
    return [
        part if isinstance(part, str) else {part.kind: part.path, "sha256": part.sha256}
        for part in message.parts
    ]
