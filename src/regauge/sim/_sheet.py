"""The contents of a judging prompt: criteria, and the texts to apply them to."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.sim._evidence import statements_of
from regauge.sim._text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.prompts import Message

__all__ = ["Sheet", "joined", "listed", "read_sheet", "text_of"]

Part = Literal[
    "answer", "expected", "source", "input", "text", "items", "criteria", "bands", "first",
    "second", "question", "contestants", "mapping", "task", "talk", "role", "topics", "tools",
    "score", "findings", "rest",
]  # fmt: skip

# Headings of the texts in a prompt, each with the part that it means.
_HEADINGS: Final[dict[Part, str]] = {
    "answer": "actual output|llm actual output|ai output|ai response|response|actual outcome"
    "|llm message|agent visible output|assistant messages?|assistant output|answer|candidate|output"
    "|steps taken|agent['’]s steps|execution trace|trace|generated json",  # noqa: RUF001 - texts in the wild hold this character
    "expected": "expected output|expected outcome|reference|reference answer|expected"
    "|expected json schema",
    "source": "retrieval contexts?|contexts?|original text|reference context|source|document"
    "|report|previous knowledge",
    "input": "input|user input|user message|latest user message|user messages",
    "text": "text|excerpt",
    "items": "claims|summary claims|statements|opinions|prompt instructions|questions"
    "|based on these (?:extracted pii|advice|misuse|role violation) statements|tool calls"
    "|exchanges",
    "criteria": "evaluation steps|evaluation criteria|criteria",
    "bands": "rubric",
    "question": "question|intention|user intention",
    "contestants": "contestants",
    "mapping": "dummy-to-real mapping",
    "task": "task|user task|user['’]s task|plan|agent plan",  # noqa: RUF001 - texts in the wild hold this character
    "talk": "conversation|turns|per-turn fields|messages|previous turns",
    "role": "role|chatbot role",
    "topics": "relevant topics",
    "tools": "available tools|tools used by agent|tools called|available resources"
    "|available prompts",
    "score": r"[\w ]* score",
    "findings": "contradictions|reasons?|unsupportive reasons|reasons (?:why|for)[^:\\n]*"
    "|attritions|irrelevancies|incompletenesses|contradicting information[^:\\n]*"
    "|out of character responses|dag traversal|goal evaluations|all tool[^:\\n]*"
    "|true positive reasons",
    "rest": "parameters|threshold|success|expected role|factual alignments|supportive reasons"
    "|extra information[^:\\n]*|statement in the[^:\\n]*|metric name|plan evaluations"
    "|user intentions",
}
_TAGS: Final[dict[str, Part]] = {
    "answer": "answer", "completion": "answer", "output": "answer", "candidate": "answer",
    "response": "answer", "summary": "answer",
    "reference": "expected", "expected": "expected", "runbook": "expected",
    "source": "source", "report": "source", "document": "source", "context": "source",
    "claim": "items", "claims": "items", "statement": "items", "statements": "items",
    "questions": "items", "question": "question", "findings": "items",
    "a": "first", "answer_a": "first", "answer_1": "first", "first": "first",
    "b": "second", "answer_b": "second", "answer_2": "second", "second": "second",
}  # fmt: skip
_HEADING: Final = re.compile(
    "^[*_#]*(?:"
    + "|".join(f"(?P<{part}>{words})" for part, words in _HEADINGS.items())
    + r")[ \t]*(?:\([^)\n]*\))?[*_]*:[*_]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_TAG: Final = re.compile(
    r"<(?P<close>/?)(?P<name>[A-Za-z]\w*?)(?P<mark>[-_:][0-9A-Za-z]{6,}|[ \t][^<>\n]*)?>"
)
# The tags around the texts in a metric's template; the headings outside of them name these texts.
_FIELD_OPENS: Final = re.compile(r"<field\.(?P<name>\w+)-(?P<mark>[0-9a-f]{12})>\n")
_EXAMPLES_END: Final = re.compile(r"=+ ?END OF EXAMPLES? ?=+|Now complete the task below:")
_TAIL: Final = re.compile(
    r"\n(?:\*\*[ \t]*\n+IMPORTANT|IMPORTANT:|-{3,}[ \t]*\n\**(?:Example|IMPORTANT)"
    r"|\**Example (?:JSON|Output)|JSON:|===END OF INSTRUCTIONS)"
)

_TOOL_CALL: Final = re.compile(r"^ *\[?(ToolCall\(.*?^ *\))", re.DOTALL | re.MULTILINE)
_ANY_NAME: Final = "NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One judging prompt, taken apart.

    Attributes:
        criteria: Everything that says how to judge.
        parts: The texts to judge by, by what they are.
        others: Named texts whose name says nothing known, in order.
    """

    criteria: str
    parts: Mapping[Part, str]
    others: tuple[tuple[str, str], ...] = ()

    def text(self, *names: Part) -> str:
        """The first of these parts that is there; empty when none is."""
        return next((self.parts[name] for name in names if self.parts.get(name)), "")

    @property
    def judged(self) -> str:
        """The judged text."""
        return self.text("answer", "text", "talk", "first")

    @property
    def ground(self) -> str:
        """The text to compare with: a source, else an input or any other text."""
        others = "\n".join(text for _, text in self.others)
        return joined(self.text("source")) or others or self.text("input", "task", "tools")


def _pieces(text: str) -> list[tuple[str, str]]:
    """The text in order: between tags under their name, and outside them under no name."""
    tags = list(_TAG.finditer(text))
    closing: dict[tuple[str, str], list[int]] = {}
    for index, tag in enumerate(tags):
        if tag["close"]:
            closing.setdefault((tag["name"], tag["mark"] or ""), []).append(index)
    pieces: list[tuple[str, str]] = []
    index = end = 0
    while index < len(tags):
        tag = tags[index]
        # A tag with attributes is closed by its bare name.
        mark = tag["mark"] or ""
        places = closing.get((tag["name"], "" if mark[:1].isspace() else mark), [])
        place = bisect_right(places, index)
        if tag["close"] or tag["name"] == _ANY_NAME or place == len(places):
            index += 1
            continue
        close = tags[places[place]]
        pieces += [("", text[end : tag.start()]), (tag["name"], text[tag.end() : close.start()])]
        index, end = places[place] + 1, close.end()
    return [*pieces, ("", text[end:])]


def _tagged(messages: Sequence[Message]) -> Sheet | None:
    parts: dict[Part, str] = {}
    others: list[tuple[str, str]] = []
    outside: list[str] = []
    for message in messages:
        for tag, body in _pieces(message.content):
            name = tag.lower()
            part = _TAGS.get(name)
            if not name:
                outside.append(body)
            elif part is None or part in parts:
                others.append((name, body))
            else:
                parts[part] = body.strip()
    if not parts.keys() & {"answer", "first", "source", "items"}:
        return None
    told = "\n".join(outside).split("\n\n")
    # How the texts are marked is no criterion to judge them by.
    criteria = "\n\n".join(text for text in told if f"<{_ANY_NAME}" not in text)
    return Sheet(criteria=criteria, parts=parts, others=tuple(others))


def _unfenced(messages: Sequence[Message]) -> tuple[str, list[tuple[int, int]]]:
    """A conversation without tags around fields, and where those fields are.

    The words that explain the tags are left out, too.
    """
    text = "\n\n".join(
        message.content
        for message in messages
        if not (message.role == "system" and f"<{_ANY_NAME}-" in message.content)
    )
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    at = length = 0
    while (tag := _FIELD_OPENS.search(text, at)) is not None:
        closing = f"\n</field.{tag['name']}-{tag['mark']}>"
        end = text.find(closing, tag.end())
        if end < 0:
            break
        before, inside = text[at : tag.start()], text[tag.end() : end]
        pieces += [before, inside]
        spans.append((length + len(before), length + len(before) + len(inside)))
        at, length = end + len(closing), spans[-1][1]
    return "".join([*pieces, text[at:]]), spans


def text_of(messages: Sequence[Message]) -> str:
    """The text of a conversation, without tags around the fields of a metric."""
    if any(_FIELD_OPENS.search(message.content) for message in messages):
        return _unfenced(messages)[0]
    return "\n\n".join(message.content for message in messages)


def _headed(messages: Sequence[Message]) -> Sheet:
    if any(_FIELD_OPENS.search(message.content) for message in messages):
        text, fields = _unfenced(messages)
    else:
        text, fields = "\n\n".join(message.content for message in messages), []

    def is_outside(match: re.Match[str]) -> bool:
        return not any(start <= match.start() < end for start, end in fields)

    ends = filter(is_outside, _EXAMPLES_END.finditer(text))
    begin = max((match.end() for match in ends), default=0)
    heads = list(filter(is_outside, _HEADING.finditer(text, begin)))
    parts: dict[Part, str] = {}
    first = heads[0].start() if heads else len(text)
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        body = text[head.end() : end]
        tail = _TAIL.search(body)
        body = (body[: tail.start()] if tail is not None else body).strip().strip("-").strip()
        part: Any = head.lastgroup
        if body:
            # What comes last is what is asked about; what came before is an example of it.
            parts[part] = body
    criteria = parts.pop("criteria", "")
    return Sheet(criteria=criteria or text[:first], parts=parts)


def read_sheet(messages: Sequence[Message]) -> Sheet:
    """Take a judging prompt apart, by tags where it has them, else by its headings."""
    return _tagged(messages) or _headed(messages)


def joined(text: str) -> str:
    """A text that is shown as a list of texts, put together again."""
    return "\n".join(listed(text)) if text.lstrip().startswith("[") else text


def _literal(text: str) -> Any:
    """The JSON or Python value of a text; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def listed(text: str) -> list[str]:
    r"""A list as a prompt shows one: JSON, Python, bullets, or one entry a line.

    >>> listed("['a b', 'c']"), listed("- a b\n- c")
    (['a b', 'c'], ['a b', 'c'])
    """
    body = text.strip()
    calls = _TOOL_CALL.findall(body)
    if calls:
        return [" ".join(call.split()) for call in calls]
    if body.startswith(("[", "{")):
        value = _literal(body)
        if value is None:  # instructions may follow the list
            value = _literal(body.partition("\n")[0])
        if is_object(value):
            value = next((inner for inner in value.values() if is_list(inner)), [value])
        if is_list(value):
            return [
                entry if isinstance(entry, str) else json.dumps(entry, default=str)
                for entry in value
            ]
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) > 1:
        return [re.sub(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+", "", line).strip() for line in lines]
    return list(statements_of(body)) or ([body] if body else [])
