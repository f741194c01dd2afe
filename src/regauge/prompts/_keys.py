"""The keys of prompt files: the parser reads by them, and `regauge.schemas` makes the JSON Schema.

A field without a default is a required key, and one that may be None is ignored without a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from regauge.prompts._types import INPUT_NAME, SEMVER, Role
from regauge.yaml_document import Keywords

RubricKind = Literal["graded", "binary", "choice", "pair"]
FormatName = Literal["text", "json_object", "json_schema"]
TOOL_NAME: Final = r"[A-Za-z0-9_-]{1,64}"


Version = Annotated[str, Keywords({"pattern": f"^{SEMVER}$"})]
Share = Annotated[float, Keywords({"minimum": 0, "maximum": 1})]
NonEmpty = Annotated[str, Keywords({"minLength": 1})]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterKeys:
    """Sent with every request; snake_case and camelCase are equal."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    min_p: float | None = None
    max_tokens: Annotated[int, Keywords({"minimum": 1})] | None = None
    seed: int | None = None
    top_k: int | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    logprobs: Any = None
    logit_bias: Any = None


OWN_KEYS: Final = {"model": "model"} | dict.fromkeys(("messages", "input", "system"), "messages")
"""Parameters that would replace the prompt's model or messages, each with the key to write."""

# Other spellings of a parameter.
PARAMETER_ALIASES: Final = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatKeys:
    """A response format in the form of the OpenAI API."""

    type: FormatName
    json_schema: Any = None
    jsonSchema: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """A file with tools.

    Attributes:
        file: Its path, below the folder of the prompt.
    """

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolKeys:
    """A function that the model may call.

    Attributes:
        parameters: A JSON Schema.
    """

    name: Annotated[str, Keywords({"pattern": f"^{TOOL_NAME}$"})]
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionKeys:
    """A tool in the form of the OpenAI API."""

    type: Literal["function"]
    function: ToolKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class InputKeys:
    """An input.

    Attributes:
        required: By default true without a default.
        default: The value if a case does not have it.
    """

    description: str = ""
    required: bool = True
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInputKeys(InputKeys):
    """An input in a list."""

    name: Annotated[str, Keywords({"pattern": f"^{INPUT_NAME}$"})]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleKeys:
    """The ends of a scale; `min` is 0 by default."""

    max: float
    min: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricKeys:
    """Makes the prompt a judge.

    Attributes:
        choices: The score of each label, from 0 to 1.
        reference: The judge compares with a reference.
        ties: A pair may be a tie.
        pass_at: The least score that passes.
    """

    kind: RubricKind
    scale: ScaleKeys | None = None
    choices: Annotated[dict[str, Share], Keywords({"minProperties": 2})] | None = None
    reference: bool = False
    ties: bool = False
    pass_at: Share = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceableKeys:
    """A section that `regauge refine` may replace.

    Attributes:
        section: Its first line: '## Labels', 'Labels:' or '<labels>'.
        message: The role of its message, if two messages have the line.
        words: The limit of words and marks in its text.
    """

    section: NonEmpty
    message: Role | None = None
    words: Annotated[int, Keywords({"minimum": 1})] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageKeys:
    """A message.

    Attributes:
        content: The text, with {{name}} for an input.
        tool_calls: Calls of the assistant: id, name and arguments.
        tool_call_id: The call whose result a message of the role `tool` is.
    """

    role: Role
    content: str = ""
    tool_calls: Annotated[list[dict[str, Any]], Keywords({"minItems": 1})] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryKeys:
    """The messages of an input, inserted here.

    Attributes:
        history: The name of the input.
    """

    history: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementKeys:
    """A statement about a golden case, for the gate."""

    case: NonEmpty
    reason: NonEmpty


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogKeys:
    """The changes of a version.

    Attributes:
        accepted: Cases that may break from this version on.
        removed: Cases that were removed.
    """

    version: Version
    text: str
    date: str = ""
    accepted: AcknowledgementKeys | list[AcknowledgementKeys] | None = None
    removed: AcknowledgementKeys | list[AcknowledgementKeys] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorKeys:
    """A judge of the rows of `testData`; one of the keys besides `name`."""

    name: str = ""
    string: Any = None
    judge: Any = None
    llm: Any = None
    uses: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKeys:
    """A prompt of regauge.

    Attributes:
        name: A title for readers; the file name is the name of the prompt.
        description: Its use, for readers.
        version: The semantic version; `regauge bump` raises it.
        owner: The owner, for readers.
        model: `provider:model`; by default the model of the project.
        modelParameters: Sent with every request; snake_case and camelCase are equal.
        responseFormat: `text`, `json_object` or `json_schema`.
        jsonSchema: The schema of the output, with `responseFormat: json_schema`.
        tools: Functions that the model may call.
        toolChoice: `auto`, `none`, `required` or the name of a tool.
        parallelToolCalls: A response may have several tool calls.
        inputs: The variables of the messages.
        rubric: Makes the prompt a judge.
        replaceable: Sections that `regauge refine` may replace.
        messages: The messages, with {{name}} for an input.
        testData: Rows of inputs, for the tools of GitHub.
        evaluators: Judges of the rows of `testData`.
        changelog: The changes of each version, newest first.
    """

    name: str | None = None
    description: str | None = None
    version: Version | None = None
    owner: str | None = None
    model: str | None = None
    modelParameters: ParameterKeys | None = None
    responseFormat: FormatName | FormatKeys | None = None
    jsonSchema: dict[str, Any] | str | None = None
    tools: FileKeys | list[ToolKeys | FunctionKeys | FileKeys] | None = None
    toolChoice: str | None = None
    parallelToolCalls: bool | None = None
    inputs: list[str | NamedInputKeys] | dict[str, str | InputKeys | None] | None = None
    rubric: RubricKeys | None = None
    replaceable: list[NonEmpty | ReplaceableKeys] | None = None
    messages: Annotated[list[MessageKeys | HistoryKeys], Keywords({"minItems": 1})]
    testData: list[dict[str, Any]] | None = None
    evaluators: list[EvaluatorKeys] | None = None
    changelog: list[ChangelogKeys] | None = None
