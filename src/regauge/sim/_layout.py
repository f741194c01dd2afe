"""The parts of the messages: instructions, document and examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts import Message

__all__ = ["Layout", "Shot", "lay_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One example: an input and the answer that was given to it."""

    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The messages, taken apart.

    Attributes:
        instructions: Everything that tells what to do, in order.
        document: What the last user message carries, delimiters taken off.
        parts: The document's own delimited parts, by their tag: `<name>..</name>`.
        shots: Examples given as earlier user and assistant turns.
    """

    instructions: str
    document: str
    parts: tuple[tuple[str, str], ...] = ()
    shots: tuple[Shot, ...] = ()


_HTML: Final = frozenset(
    """a b i u p br hr h1 h2 h3 h4 h5 h6 em strong sub sup div span img pre code table thead
    tbody tr td th ul ol li details html body head""".split()  # noqa: SIM905 - it reads as a list
)
_TAG: Final = re.compile(
    r"^[ \t]*<(?P<tag>[A-Za-z][\w-]*)>[ \t]*\n?(?P<body>.*?)\n?[ \t]*</(?P=tag)>[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_FENCED: Final = re.compile(
    r"^(?P<mark>```|~~~|\"\"\"|'''|-{3,}|={3,}|#{3,})[ \t]*[\w-]*[ "
    r"\t]*\n(?P<body>.*)\n(?P=mark)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_HEADING: Final = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?[*_]*(?:(?:the|this|here is the|input|raw|source|original"
    r"|incident|log|"
    r"following)[ \t]+)*(?:report|input|document|text|alert|incident|article|message|content|data|"
    r"ticket|logs?|email|transcript|context|passage|issue|comment|body)[*_]*[ \t]*:[*_]*[ \t]*"
    r"(?P<rest>.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_VERBS: Final = (
    "summari[sz]e|summary of|classify|categori[sz]e|extract|write|return|reply|answer|respond"
    "|output"
    "|produce|generate|create|list|translate|rewrite|rephrase|give|tell|explain|describe|decide"
    "|determine|identify|find|assess|rate|evaluate|judge|analy[sz]e|read|use|do not|don't|never"
    "|always|you are|you're|your task|act as|please|given|based on|keep|include|make|put|must"
    "|only|format|choose|pick|select|convert|draft|provide|state|name|mark|label|compare|what|which"
    "|who|when|where|why|how|is|are|does|did|can|could|should|if|in (?:at most|one|two|three|json)"
    "|at most|no more than|here is|below is|the following|think|consider|review|fix|refactor"
    "|shorten"
    "|correct|proofread|count"
)
_IMPERATIVE: Final = re.compile(rf"^[\W_]*(?:{_VERBS})\b", re.IGNORECASE)
_SENTENCE_BREAK: Final = re.compile(r"\n[ \t]*\n")
_FIELD_LINE: Final = re.compile(r"^[ \t]*[\w][\w ./-]{0,30}:(?:[ \t]|$)", re.MULTILINE)


def is_instruction(text: str) -> bool:
    """Return whether a paragraph starts as something that is asked for.

    >>> is_instruction("Summarize the report."), is_instruction("The pod restarted twice.")
    (True, False)
    """
    return _IMPERATIVE.match(text) is not None


def _tagged(text: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    parts: list[tuple[str, str]] = []
    outside: list[str] = []
    end = 0
    for match in _TAG.finditer(text):
        if match["tag"].lower() in _HTML:
            continue
        outside.append(text[end : match.start()])
        parts.append((match["tag"], match["body"]))
        end = match.end()
    if not parts:
        return None
    outside.append(text[end:])
    left = "\n".join(piece for piece in outside if piece.strip())
    # Tags deep inside a long document are part of it, not a frame around it.
    if len(left) > 2 * sum(len(body) for _, body in parts) and not is_instruction(left):
        return None
    return left, tuple(parts)


def _by_paragraph(text: str) -> tuple[str, str]:
    """Leading and trailing paragraphs that ask for something, and what lies between them."""
    paragraphs = _SENTENCE_BREAK.split(text)
    first, last = 0, len(paragraphs)
    while first < last and is_instruction(paragraphs[first]):
        first += 1
    while last > first + 1 and is_instruction(paragraphs[last - 1]) and first:
        last -= 1
    asked = paragraphs[:first] + paragraphs[last:]
    return "\n\n".join(asked), "\n\n".join(paragraphs[first:last])


@lru_cache(maxsize=2_000)
def _split_user(text: str, *, has_system: bool) -> tuple[str, str, tuple[tuple[str, str], ...]]:  # noqa: C901, PLR0911 - one line for each kind reads best
    """Instructions, document and delimited parts of a user message."""
    tagged = _tagged(text)
    if tagged is not None:
        left, parts = tagged
        return left, "\n\n".join(body for _, body in parts), parts
    fenced = _FENCED.search(text)
    if fenced is not None and not text[: fenced.start()].strip():
        return text[fenced.end() :].strip(), fenced["body"], ()
    if fenced is not None and is_instruction(text):
        return text[: fenced.start()] + text[fenced.end() :], fenced["body"], ()
    heading = _HEADING.search(text)
    if heading is not None and (heading.start() == 0 or is_instruction(text)):
        before, rest = text[: heading.start()], text[heading.start("rest") :]
        if len(_FIELD_LINE.findall(text)) > 1 and not before.strip():
            return "", text, ()
        after, document = "", rest
        paragraphs = _SENTENCE_BREAK.split(rest)
        while len(paragraphs) > 1 and is_instruction(paragraphs[-1]) and before.strip():
            after = paragraphs.pop() + "\n\n" + after
            document = "\n\n".join(paragraphs)
        return before + "\n\n" + after, document, ()
    asked, document = _by_paragraph(text)
    if document.strip() and (asked.strip() or has_system):
        return asked, document, ()
    if has_system:
        return "", text, ()
    lead, _, rest = text.partition("\n")
    if rest.strip() and is_instruction(lead):
        return lead, rest, ()
    head, colon, tail = text.partition(": ")
    if colon and tail.strip() and is_instruction(head) and "\n" not in head:
        return head, tail, ()
    return text, "", ()


def lay_out(messages: Sequence[Message]) -> Layout:
    """Take a conversation apart; see docs/simulated-model.md, "Reading the prompt"."""
    system = [m.content for m in messages if m.role in ("system", "developer")]
    turns = [m for m in messages if m.role in ("user", "assistant")]
    last = max((i for i, m in enumerate(turns) if m.role == "user"), default=-1)
    if last < 0:
        return Layout(instructions="\n\n".join(system), document="")
    shots: list[Shot] = []
    asked: list[str] = []
    for before, after in pairwise(turns[: last + 1]):
        if before.role == "user" and after.role == "assistant":
            instructions, document, _ = _split_user(before.content, has_system=bool(system))
            shots.append(Shot(input=document or before.content, output=after.content))
            asked.append(instructions)
        elif before.role == "user":
            asked.append(before.content)
    instructions, document, parts = _split_user(turns[last].content, has_system=bool(system))
    texts = dict.fromkeys(t.strip() for t in (*system, *asked, instructions) if t.strip())
    return Layout(
        instructions="\n\n".join(texts), document=document, parts=parts, shots=tuple(shots)
    )
