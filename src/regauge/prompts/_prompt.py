"""A prompt: the content of its file, its digests and its rendering."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from regauge.digests import digest_of
from regauge.errors import Diagnostic, RenderError
from regauge.prompts._tools import conversation_of, is_conversation
from regauge.prompts._types import (
    Message,
    PromptVersion,
    attachment_of,
    compile_template,
    input_text,
)
from regauge.wording import closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.prompts._replaceable import Replaceable
    from regauge.prompts._tools import RubricSpec
    from regauge.prompts._types import (
        Attachment,
        ChangelogEntry,
        Evaluator,
        InputSpec,
        Semver,
        Template,
    )


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One valid prompt file.

    Attributes:
        name: The file name without `.prompt.yml`.
        path: The path of the file.
        title: The file's `name` key, by default `name`.
        model: The model, such as `sim:clerk-1`; None if the file sets none.
        parameters: `modelParameters` in snake_case, with `tool_choice` and `parallel_tool_calls`.
        response_format: The response format in OpenAI's form; None for plain text.
        tools: The tools in OpenAI's form.
        tool_files: The files with tools, below the folder of the prompt.
        rubric: The form of the verdict; None for a prompt that is not a rubric.
        messages: The templates, in order.
        inputs: The declared `inputs`; None if all variables are inputs.
        replaceable: The sections that the refinement loop may replace entirely.
        warnings: The warnings about the file.
        lines: The line, from 1, of places such as `messages`, `messages[0]`, `version`,
            `inputs.NAME`, `variables.NAME` and `modelParameters.temperature`.
        source: The text of the file.
    """

    name: str
    path: Path
    messages: tuple[Message, ...]
    title: str = ""
    description: str = ""
    version: Semver | None = None
    model: str | None = None
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    response_format: Mapping[str, JSON] | None = None
    tools: tuple[Mapping[str, JSON], ...] = ()
    tool_files: tuple[str, ...] = ()
    inputs: tuple[InputSpec, ...] | None = None
    replaceable: tuple[Replaceable, ...] = ()
    changelog: tuple[ChangelogEntry, ...] = ()
    owner: str | None = None
    test_data: tuple[Mapping[str, JSON], ...] = ()
    evaluators: tuple[Evaluator, ...] = ()
    rubric: RubricSpec | None = None
    warnings: tuple[Diagnostic, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict[str, int], repr=False, compare=False)
    source: str = field(default="", repr=False, compare=False)

    @cached_property
    def digest(self) -> str:
        """The digest of the behaviour: messages, model, parameters, format, tools and rubric."""
        behaviour: dict[str, JSON] = {
            "messages": [m.to_json() for m in self.messages],
            "model": self.model,
            "parameters": self.parameters,
            "response_format": self.response_format,
        }
        if self.tools:
            behaviour["tools"] = self.tools
        if self.rubric is not None:
            behaviour["rubric"] = self.rubric.to_json()
        return digest_of(behaviour)

    @property
    def output_schema(self) -> JSON:
        """The JSON schema of the output; None without one."""
        # The schema's name and `strict` change its enforcement, not the output.
        wrapped = (self.response_format or {}).get("json_schema")
        return wrapped.get("schema") if isinstance(wrapped, dict) else None

    @cached_property
    def contract_digest(self) -> str:
        """The digest of the contract: output schema, inputs and tools, without descriptions."""
        inputs: list[JSON]
        if self.inputs is None:
            inputs = [{"name": name, "required": True, "default": None} for name in self.variables]
        else:
            inputs = [
                {"name": spec.name, "required": spec.required, "default": spec.default}
                for spec in self.inputs
            ]
        schema = self.output_schema
        if schema is None and self.response_format is not None:
            schema = self.response_format["type"]
        contract: dict[str, JSON] = {
            "inputs": sorted(inputs, key=digest_of),
            "schema": _without_annotations(schema),
        }
        if self.tools:
            functions = [cast("dict[str, JSON]", tool["function"]) for tool in self.tools]
            contract["tools"] = sorted(
                (
                    {
                        "name": function.get("name"),
                        "parameters": _without_annotations(function.get("parameters")),
                    }
                    for function in functions
                ),
                key=digest_of,
            )
        return digest_of(contract)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the placeholders in the templates."""
        return frozenset(name for _, t in self._templates for _, name in t.slots)

    @property
    def id(self) -> PromptVersion:
        """The name and state of the prompt."""
        return PromptVersion(name=self.name, version=self.version, digest=self.digest)

    def render(self, inputs: Mapping[str, JSON], *, case_at: str = "") -> tuple[Message, ...]:
        """Fill the templates in a single pass, without expanding values.

        A text is inserted unchanged, any other value as JSON, a history as its messages.

        Args:
            inputs: A value for each required input, and none for unused names.
            case_at: The location of the case, such as `fixtures/golden/x.jsonl:12`, for errors.

        Raises:
            RenderError: An input is missing, unused or no JSON value; a list of messages is used as
                text, or a history is invalid.
        """
        case = f" (case at {case_at})" if case_at else ""
        if self.warnings and self._conditions:
            problem = f"is plain text: a template has no filters or conditions{case}"
            fix = "write the text of one branch, or make it an input of the golden cases"
            raise RenderError(
                [
                    replace(warning, message=f"{tag} {problem}", fix=fix)
                    for tag, warning in self._conditions
                ]
            )
        if len(inputs) != len(self.variables) or not self.variables.issuperset(inputs):
            inputs = self._complete(inputs, case)
        try:
            texts = {
                name: value if isinstance(value, str) else input_text(value)
                for name, value in inputs.items()
            }
            if any(message.history for message in self.messages) or any(
                isinstance(value, list | dict) for value in inputs.values()
            ):
                return self._with_parts(inputs, texts, case)
        except (TypeError, ValueError) as error:
            raise self._unwritable_error(inputs, case) from error
        return tuple(_fill(message, template, texts) for message, template in self._templates)

    def inputs_in(self, messages: Sequence[tuple[str, str]]) -> dict[str, str] | None:
        """Infer inputs from rendered messages.

        Args:
            messages: Pairs of role and text; white space between words may differ.

        Returns:
            The texts of all inputs; None if a template with an input matches no message.
        """
        inputs: dict[str, str] = {}
        for message, template in self._templates:
            if not template.slots or message.history:
                continue
            pattern = template.pattern
            texts = [text for role, text in messages if role == message.role]
            match = next(filter(None, map(pattern.fullmatch, texts)), None)
            if match is None:
                return None
            inputs |= match.groupdict()
        return inputs if inputs.keys() == self.variables else None

    def _with_parts(
        self, inputs: Mapping[str, JSON], texts: Mapping[str, str], case: str
    ) -> tuple[Message, ...]:
        """Render the messages with histories and attachments."""
        messages: list[Message] = []
        diagnostics: list[Diagnostic] = []
        attachments = {
            name: part for name, value in inputs.items() if (part := attachment_of(value))
        }
        texts = {**texts, **{name: part.name for name, part in attachments.items()}}
        for message, template in self._templates:
            names = [name for _, name in template.slots]
            if not message.history:
                diagnostics += [
                    self._error(
                        f"variables.{name}",
                        f"input {name!r} is a list of messages, and used as text{case}",
                        f"write `- history: {name}` among the messages",
                    )
                    for name in names
                    if is_conversation(inputs[name])
                ]
                diagnostics += [
                    self._misplaced_error(name, part, message, case)
                    for name, part in attachments.items()
                    if name in names and (message.role != "user" or not part.sha256)
                ]
                rendered = _fill(message, template, texts)
                parts = _places(template, texts, attachments)
                messages.append(replace(rendered, attachments=parts) if parts else rendered)
                continue
            try:
                messages += conversation_of(inputs[names[0]] or [])
            except ValueError as error:
                problem = f"history {names[0]!r}: {error}{case}"
                fix = "give a list of messages with `role` and `content`"
                diagnostics.append(self._error(f"variables.{names[0]}", problem, fix))
        if diagnostics:
            raise RenderError(diagnostics)
        return tuple(messages)

    def _misplaced_error(
        self, name: str, part: Attachment, message: Message, case: str
    ) -> Diagnostic:
        """The error for an attachment in a message that cannot have one."""
        if message.role == "user":
            problem = f"input {name!r} names {part.kind} {part.path!r}, read by no dataset{case}"
            fix = "write the case into a file below fixtures/golden"
        else:
            problem = f"input {name!r} is an attachment in a {message.role} message{case}"
            fix = "use it in a message with role: user"
        return self._error(f"variables.{name}", problem, fix)

    @cached_property
    def _templates(self) -> tuple[tuple[Message, Template], ...]:
        return tuple((message, compile_template(message.content)) for message in self.messages)

    def _complete(self, inputs: Mapping[str, JSON], case: str) -> Mapping[str, JSON]:
        """Add the defaults to the inputs, or raise an error for missing and unused ones."""
        defaults = {
            spec.name: "" if spec.default is None else spec.default
            for spec in self.inputs or ()
            if not spec.required
        }
        missing = sorted(self.variables - inputs.keys() - defaults.keys())
        unused = sorted(name for name in inputs if name not in self.variables)
        if not missing and not unused:
            return {name: inputs.get(name, defaults.get(name)) for name in self.variables}
        diagnostics = [
            self._error(
                f"variables.{name}",
                f"input {name!r} is missing{case}",
                _suggest_rename(name, unused) or f"give the case a value for {name!r}",
            )
            for name in missing
        ]
        diagnostics += [
            self._unused_error(name, case) for name in unused if not closest(name, missing)
        ]
        raise RenderError(diagnostics)

    @cached_property
    def _conditions(self) -> tuple[tuple[str, Diagnostic], ...]:
        """The conditions and loops on an input, which are plain text, each with its warning."""
        return tuple(
            (tag[1], warning)
            for warning in self.warnings
            if (tag := re.match(r"(\{%.*%\}) is plain text", warning.message))
            and any(re.search(rf"\b{re.escape(name)}\b", tag[1]) for name in self.variables)
        )

    def _unused_error(self, name: str, case: str) -> Diagnostic:
        """The error for an input without a use, or with a filter or a condition."""
        pattern = rf"(\{{\{{.*?\b{re.escape(name)}\b.*?\}}\}}) holds no name of an input"
        for warning in self.warnings:
            if match := re.match(pattern, warning.message):
                return replace(
                    warning,
                    message=f"{match[1]} is plain text: a template has no filters or conditions"
                    f"{case}",
                    fix=f"write {{{{{name}}}}}, and change the value in the golden cases",
                )
        return self._error(
            f"inputs.{name}",
            f"input {name!r} is used by no message{case}",
            f"remove it from the case, or use {{{{{name}}}}} in a message",
        )

    def _unwritable_error(self, inputs: Mapping[str, JSON], case: str) -> RenderError:
        diagnostics: list[Diagnostic] = []
        for name, value in inputs.items():
            try:
                input_text(value)
            except (TypeError, ValueError) as error:
                message = f"input {name!r} cannot be written as JSON: {error}{case}"
                diagnostics.append(
                    self._error(f"variables.{name}", message, "give text or JSON values")
                )
        return RenderError(diagnostics)

    def _error(self, place: str, message: str, fix: str) -> Diagnostic:
        line = self.lines.get(place, self.lines.get("messages"))
        return Diagnostic(path=self.path, line=line, message=message, fix=fix)


# Keywords of JSON Schema that allow and forbid nothing, that name schemas, and that hold values.
_ANNOTATIONS = frozenset({"$comment", "deprecated", "description", "examples", "title"})
_NAMING = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_VALUES = frozenset({"const", "default", "dependentRequired", "enum"})


def _without_annotations(schema: JSON) -> JSON:
    """A JSON schema without descriptions and other keywords that allow and forbid nothing.

    >>> _without_annotations({"properties": {"title": {"type": "string", "title": "Title"}}})
    {'properties': {'title': {'type': 'string'}}}
    """
    if isinstance(schema, list):
        return [_without_annotations(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    constraints: dict[str, JSON] = {}
    for key, value in schema.items():
        if key in _NAMING and isinstance(value, dict):
            constraints[key] = {name: _without_annotations(part) for name, part in value.items()}
        elif key not in _ANNOTATIONS:
            constraints[key] = value if key in _VALUES else _without_annotations(value)
    return constraints


def _fill(message: Message, template: Template, texts: Mapping[str, str]) -> Message:
    content = template.fill(texts)
    if not message.tool_calls and not message.tool_call_id:
        return Message(role=message.role, content=content)
    return replace(message, content=content)


def _places(
    template: Template, texts: Mapping[str, str], attachments: Mapping[str, Attachment]
) -> tuple[Attachment, ...]:
    """The attachments of a message, each with its offset in the text."""
    if not attachments:
        return ()
    names = dict(template.slots)
    places: list[Attachment] = []
    start = 0
    for position, piece in enumerate(template.pieces):
        name = names.get(position)
        if name is not None and name in attachments:
            places.append(replace(attachments[name], start=start))
        start += len(piece if name is None else texts[name])
    return tuple(places)


def _suggest_rename(missing: str, unused: list[str]) -> str:
    close = closest(missing, unused)
    return f"the case gives {close!r}, which no message uses: is it {missing!r}?" if close else ""
