"""The values in a prompt file: versions, templates, messages, inputs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import total_ordering
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON

Part = Literal["major", "minor", "patch"]

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER: Final = rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
_SEMVER_PATTERN = re.compile(SEMVER)


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version, ordered by precedence: 1.0.0-rc.1 is before 1.0.0.

    Build metadata (`+...`) is refused, as it has no precedence.

    >>> Semver.parse("1.2.3").bump("minor")
    Semver(major=1, minor=3, patch=0, prerelease=())
    >>> Semver.parse("1.10.0") > Semver.parse("1.9.0") > Semver.parse("1.9.0-rc.2")
    True
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a version such as `1.2.3` or `2.0.0-rc.1`.

        Raises:
            ValueError: The text is not three numbers joined by dots.
        """
        match = _SEMVER_PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a version such as 1.2.3")
        major, minor, patch, prerelease = match.groups()
        return cls(
            int(major), int(minor), int(patch), tuple(prerelease.split(".")) if prerelease else ()
        )

    def bump(self, part: Part) -> Semver:
        """The next version; a prerelease becomes its release if that is the next version."""
        if self.prerelease:
            released = Semver(self.major, self.minor, self.patch)
            zeros = {"major": (self.minor, self.patch), "minor": (self.patch,), "patch": ()}
            if not any(zeros[part]):
                return released
        if part == "major":
            return Semver(self.major + 1, 0, 0)
        if part == "minor":
            return Semver(self.major, self.minor + 1, 0)
        return Semver(self.major, self.minor, self.patch + 1)

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        return f"{core}-{'.'.join(self.prerelease)}" if self.prerelease else core

    def __lt__(self, other: Semver) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[object, ...]:
        # Numbers rank below words, fewer identifiers below more, and a release above all of its
        # prereleases.
        identifiers = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease
        )
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


# Dots and hyphens are part of a name: values have no attributes.
INPUT_NAME: Final = r"[^\W\d][\w.\-]*"
NAME = re.compile(INPUT_NAME)
_PLACEHOLDER = re.compile(
    r"\{\{[ \t]*"
    rf"(?:(?P<name>{NAME.pattern})"
    r"""|"(?P<double>\{\{|\}\})"|'(?P<single>\{\{|\}\})')"""
    r"[ \t]*\}\}"
)
# A shared encoder, because `json.dumps` makes one for every value.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ODD = re.compile(r"\{\{[^{}\n]{0,80}\}\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A text split at its placeholders.

    Attributes:
        pieces: Literal texts, with an empty text at each position in `slots`.
        slots: Pairs of a position in `pieces` and the name of its value.
    """

    pieces: tuple[str, ...]
    slots: tuple[tuple[int, str], ...]

    def fill(self, texts: Mapping[str, str]) -> str:
        """Insert the texts, without expanding placeholders in them."""
        pieces = list(self.pieces)
        for position, name in self.slots:
            pieces[position] = texts[name]
        return "".join(pieces)

    @property
    def pattern(self) -> re.Pattern[str]:
        r"""The pattern of filled templates, with a group for each name; white space may differ.

        >>> compile_template("<a>{{ a }}</a>").pattern.fullmatch("<a>x y</a>\n")["a"]
        'x y'
        """
        names = dict(self.slots)
        parts: list[str] = []
        for position, piece in enumerate(self.pieces):
            name = names.get(position)
            if name is None:
                parts.append(r"\s*".join(re.escape(word) for word in re.split(r"\s+", piece)))
            else:
                named_before = f"(?P<{name}>" in "".join(parts)
                parts.append(f"(?P={name})" if named_before else f"(?P<{name}>.*?)")
        return re.compile(rf"\s*{''.join(parts)}\s*", re.DOTALL)


def compile_template(text: str) -> Template:
    """Split a text at its placeholders.

    `{{"{{"}}` is two literal braces. Double braces without a name stay unchanged.

    >>> compile_template('{{ a }} is not {{"{{"}}a}} nor {{{{a}}}}').fill({"a": "{{b}}"})
    '{{b}} is not {{a}} nor {{{{b}}}}'
    """
    pieces: list[str] = []
    slots: list[tuple[int, str]] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        pieces.append(text[end : match.start()])
        if match["name"]:
            slots.append((len(pieces), match["name"]))
            pieces.append("")
        else:
            pieces.append(match["double"] or match["single"])
        end = match.end()
    pieces.append(text[end:])
    return Template(tuple(pieces), tuple(slots))


def placeholder_lines(text: str, start: int, end: int) -> dict[str, int]:
    r"""The line of the first placeholder of each name between two offsets, from 1.

    >>> placeholder_lines("{{ a }}\n{{b}} {{a}}", 0, 20)
    {'a': 1, 'b': 2}
    """
    lines: dict[str, int] = {}
    line, counted_to = 1, 0
    for match in _PLACEHOLDER.finditer(text, start, end):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        if match["name"]:
            lines.setdefault(match["name"], line)
    return lines


_TEMPLATE_TAG: Final = re.compile(r"\{%[-+]?\s*(?:if|elif|for|set|unless)\s[^%{}\n]{1,200}%\}")
# A text full of braces is in another template language; a few warnings suffice.
_ODD_MAX: Final = 20


def template_warnings(text: str) -> Iterator[tuple[str, str, str]]:
    """The parts of a template that look like placeholders, conditions or loops and stay text.

    Yields:
        The part, the problem and the fix; each part once.

    >>> parts = template_warnings("{{ x }} {{ x | upper }} {{{{ y }}}} {{}} {% if x %} 5 {% 6 %}")
    >>> [part for part, _, _ in parts]
    ['{{ x | upper }}', '{{{{ y }}}}', '{{}}', '{% if x %}']
    >>> [*template_warnings("{{'{{'}} x {{'}}'}}")]
    []
    """
    odd: dict[str, str] = {}
    text = _PLACEHOLDER.sub(lambda match: match[0] if match["name"] else "", text)
    for match in _ODD.finditer(text):
        start, end = match.span()
        if _PLACEHOLDER.fullmatch(match[0]) is None:
            odd[match[0]] = f"{match[0]} holds no name of an input, so it stays text"
        elif text.endswith("{{", 0, start) and text.startswith("}}", end):
            outer = "{{" + match[0] + "}}"
            inner = match[0].strip("{} ")
            odd[outer] = f"{outer} is {{{{{inner}}}}} between two literal pairs of braces"
    fix = "write {{name}} for an input; see the reference for literal braces"
    yield from ((part, problem, fix) for part, problem in islice(odd.items(), _ODD_MAX))
    fix = "write the text as it is to be sent; a template has {{name}} alone"
    for tag in islice(dict.fromkeys(_TEMPLATE_TAG.findall(text)), _ODD_MAX):
        yield tag, f"{tag} is plain text, not a condition or a loop", fix


def input_text(value: JSON) -> str:
    """Write a value for a prompt: a text unchanged, any other value as JSON.

    Raises:
        TypeError: The value is not a JSON value.
        ValueError: The value has NaN or an infinity, or contains itself.
    """
    if isinstance(value, str):
        return value
    return _ENCODER.encode(value)


_Fields: TypeAlias = "dict[str, object]"
_SUM: Final = "sha256"
ATTACHMENT_KINDS: Final = ("image", "pdf")
"""The kinds of attachments, as keys of an input."""

Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of a model.

    Attributes:
        id: The id of the call.
        name: The name of the tool.
        arguments: The text of the model, JSON or not.
    """

    id: str
    name: str
    arguments: str

    def to_json(self) -> dict[str, JSON]:
        """Convert to JSON, for recordings and digests."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An image or a PDF file in a message.

    Attributes:
        path: The path from the fixtures folder, with `/`.
        sha256: The SHA-256 of the file; empty if no dataset read it.
        start: The offset of `name` in the text of the message.
    """

    kind: Literal["image", "pdf"]
    path: str
    sha256: str
    start: int = 0

    @property
    def name(self) -> str:
        """The text for it in messages and reports.

        >>> Attachment(kind="image", path="shots/a.png", sha256="").name
        '[image: shots/a.png]'
        """
        return f"[{self.kind}: {self.path}]"

    def to_json(self) -> dict[str, JSON]:
        """Convert to JSON, for digests."""
        return {"kind": self.kind, "sha256": self.sha256, "start": self.start}


def attachment_of(value: object) -> Attachment | None:
    """Parse an attachment, as `{"image": "path", "sha256": "..."}`; None for another value."""
    if not isinstance(value, dict) or not value or len(fields := cast("_Fields", value)) > 2:  # noqa: PLR2004 - path and digest
        return None
    for kind in ATTACHMENT_KINDS:
        path, sha256 = fields.get(kind), fields.get("sha256", "")
        if isinstance(path, str) and isinstance(sha256, str) and not fields.keys() - {kind, _SUM}:
            return Attachment(kind=kind, path=path, sha256=sha256)
    return None


def content_of(value: object) -> tuple[str, tuple[Attachment, ...]]:
    """Split a content into its text and attachments: a text, or a list of both.

    >>> content_of(["Look: ", {"image": "shots/a.png", "sha256": "0"}])[0]
    'Look: [image: shots/a.png]'

    Raises:
        ValueError: It is neither.
    """
    text = ""
    attachments: list[Attachment] = []
    for part in cast("list[object]", value) if isinstance(value, list) else [value]:
        inner = part
        if isinstance(part, dict) and cast("_Fields", part).get("type") == "text":
            inner = cast("_Fields", part).get("text")
        if isinstance(inner, str):
            text += inner
        elif attachment := attachment_of(inner):
            attachments.append(replace(attachment, start=len(text)))
            text += attachment.name
        else:
            raise ValueError(
                'has a part that is neither text nor `{"image": "path"}` or `{"pdf": "path"}`'
            )
    return text, tuple(attachments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: a template in a prompt, plain text once rendered.

    Attributes:
        tool_calls: The calls of an assistant message, whose `content` may be empty.
        tool_call_id: The call whose result a message of the role `tool` is.
        history: In a prompt: insert the messages in the input that `content` names.
        attachments: The images and files in `content`, in order, in user messages only.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    history: bool = False
    attachments: tuple[Attachment, ...] = ()

    @property
    def parts(self) -> Iterator[str | Attachment]:
        """The texts and attachments of the content, in order."""
        end = 0
        for attachment in self.attachments:
            if before := self.content[end : attachment.start]:
                yield before
            yield attachment
            end = attachment.start + len(attachment.name)
        if rest := self.content[end:]:
            yield rest

    def to_json(self) -> dict[str, JSON]:
        """Convert to JSON without unset values, for digests and reports."""
        document: dict[str, JSON] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            document["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.tool_call_id:
            document["tool_call_id"] = self.tool_call_id
        if self.history:
            document["history"] = True
        if self.attachments:
            document["attachments"] = [part.to_json() for part in self.attachments]
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One declared input.

    Attributes:
        required: Every case must have it.
        default: The value if a case does not have it; None for an empty text.
    """

    name: str
    description: str = ""
    required: bool = True
    default: JSON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A statement of the author about one golden case, for the gate and reviewers.

    Attributes:
        case: The id of the case.
        reason: The reason.
        line: The line in the prompt file, from 1.
    """

    case: str
    reason: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogEntry:
    """The changes of one version, from the prompt file.

    Attributes:
        version: The version, as in the file.
        text: The description of the changes.
        date: The date, such as `2025-06-30`; empty for none.
        accepted: The golden cases that may pass less often from this version on.
        removed: The golden cases that were removed.
    """

    version: str
    text: str
    date: str = ""
    accepted: tuple[Acknowledgement, ...] = ()
    removed: tuple[Acknowledgement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """One entry of `evaluators` in the file.

    Attributes:
        name: The name of the judge.
        kind: `string`, `judge`, `llm` or `uses`.
        body: The value of that key.
        line: The line in the prompt file, from 1.
    """

    name: str
    kind: str
    body: JSON
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptVersion:
    """The identity of a state of a prompt.

    Attributes:
        version: The version in the file; None for none.
        digest: The digest of the behaviour.
    """

    name: str
    version: Semver | None
    digest: str

    def __str__(self) -> str:
        version = self.version if self.version is not None else "unversioned"
        return f"{self.name}@{version} ({self.digest[:12]})"
