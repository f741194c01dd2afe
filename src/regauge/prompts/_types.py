"""The values that a prompt file is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.prompts._semver import Semver

__all__ = [
    "Acknowledgement",
    "ChangelogEntry",
    "Evaluator",
    "InputSpec",
    "Message",
    "PromptVersion",
    "Role",
    "ToolCall",
]

Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A function the model wants called; `arguments` is the text it wrote, JSON or not."""

    id: str
    name: str
    arguments: str

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for recordings and digests."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: a template in a prompt, plain text once rendered.

    Attributes:
        tool_calls: The calls that a message of the assistant makes; `content` may be empty then.
        tool_call_id: The call that a message of the role `tool` answers.
        history: In a prompt: whether the list of messages in the input that `content` names is
            inserted here.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    history: bool = False

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for digests and reports; what is not set is left out."""
        document: dict[str, JSON] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            document["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.tool_call_id:
            document["tool_call_id"] = self.tool_call_id
        if self.history:
            document["history"] = True
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One declared input.

    Attributes:
        required: Whether every case must give it.
        default: What stands in for it where it is not required and not given; None leaves nothing.
    """

    name: str
    description: str = ""
    required: bool = True
    default: JSON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What an author says of one golden case, for the gate and for whoever reads the change.

    Attributes:
        line: Where it stands in the prompt file, from 1.
    """

    case: str
    reason: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogEntry:
    """What one version changed, in the words of the prompt file.

    Attributes:
        date: As the file writes it, such as `2025-06-30`; empty where it says nothing.
        accepted: Golden cases that may fare worse from this version on, because it is wanted.
        removed: Golden cases that were taken away.
    """

    version: str
    text: str
    date: str = ""
    accepted: tuple[Acknowledgement, ...] = ()
    removed: tuple[Acknowledgement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """One entry of `evaluators` as the file states it; judges give it a meaning.

    Attributes:
        kind: The key that says what it is: `string`, `judge`, `llm` or `uses`.
        body: What stands under that key.
        line: Where the entry starts in the prompt file, counted from 1.
    """

    name: str
    kind: str
    body: JSON
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptVersion:
    """The identity of one state of one prompt.

    Attributes:
        version: What the file claims; None where it claims nothing.
        digest: The digest of what changes the prompt's behaviour.
    """

    name: str
    version: Semver | None
    digest: str

    def __str__(self) -> str:
        version = self.version if self.version is not None else "unversioned"
        return f"{self.name}@{version} ({self.digest[:12]})"
