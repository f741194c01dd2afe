"""Reads what a model proposes: operations as JSON, or a whole text, which is read as edits."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from regauge.judges.model._reply import ReplyFault
from regauge.prompts import Message
from regauge.refine.edits import Edit, EditError, PromptText, op_from_json, ops_between
from regauge.refine.loop import REWRITE, Critique, CritiqueKind
from regauge.strict_json import no_constant, unique

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.edits import Op
    from regauge.refine.guards import OpenSection

__all__ = [
    "NoEditError",
    "critique_in",
    "edit_in",
    "edit_of_text",
    "lessons_in",
    "numbered",
    "object_in",
]

# Reasoning models write their thoughts before the reply; a server may strip the opening tag.
_TAGS: Final = "(?:think|thinking|thought|reasoning)>"
_THOUGHTS: Final = re.compile(rf"\A(?:\s*<{_TAGS}.*?</{_TAGS})+", re.DOTALL | re.IGNORECASE)
_THOUGHT_ENDS: Final = re.compile(rf"</{_TAGS}", re.IGNORECASE)
_THINKS: Final = re.compile(rf"\s*<{_TAGS}", re.IGNORECASE)
# Models break lines inside strings; nothing else of JSON is given away.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=no_constant, strict=False
)
_ATTEMPTS_MAX: Final = 2_000
_BEGINS: Final = re.compile(r'\{\s*"')
_NUMBER = re.compile(r"\s*\d{1,4}\| ?")
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_OPS_MAX = 3
_LIKE_THE_PROMPT = 0.4
_WHOLE_KEYS = ("prompt", "new_prompt", "revised_prompt")
_QUOTES_MAX = 5
_LESSONS_MAX = 4
_LESSON_CHARS = 300


class NoEditError(ReplyFault):
    """A reply that can be read and proposes no edit of this prompt."""


def numbered(text: PromptText) -> str:
    """The prompt with its lines numbered, message by message: `[system]`, `1| You are ...`."""
    parts: list[str] = []
    for index, message in enumerate(text.messages):
        lines = [line for line in text.lines if line.message == index]
        parts.append(f"[{message.role}]")
        parts += [f"{line.number + 1}| {line.text}".rstrip() for line in lines]
    return "\n".join(parts)


def critique_in(reply: str, *, by: str) -> Critique:
    """The critique that a reply states.

    Raises:
        ReplyFault: It states none.
    """
    said = object_in(reply, "hypothesis")
    kind, why, quotes = said.get("kind"), said.get("hypothesis"), said.get("quotes", [])
    if kind not in get_args(CritiqueKind) or not isinstance(why, str) or not why.strip():
        raise ReplyFault(f"a critique has a `kind` and a `hypothesis`, not {kind!r} and {why!r}")
    lines = [line for line in quotes if isinstance(line, str)] if isinstance(quotes, list) else []
    return Critique(
        kind=cast("CritiqueKind", kind),
        hypothesis=" ".join(why.split()),
        quotes=tuple(_NUMBER.sub("", line, count=1) for line in lines[:_QUOTES_MAX]),
        by=by,
    )


def lessons_in(reply: str) -> tuple[str, ...]:
    """The lessons that a reply states.

    Raises:
        ReplyFault: It states none.
    """
    said = object_in(reply, "lessons").get("lessons")
    if not isinstance(said, list) or not all(isinstance(lesson, str) for lesson in said):
        raise ReplyFault("the reply has no list of `lessons`")
    lessons = (" ".join(str(lesson).split())[:_LESSON_CHARS] for lesson in said)
    return tuple(lesson for lesson in lessons if lesson)[:_LESSONS_MAX]


def edit_in(reply: str, text: PromptText, *, by: str, sections: Sequence[OpenSection] = ()) -> Edit:
    """The edit that a reply proposes.

    A whole new prompt instead of operations is read as the operations that lead to it.

    Args:
        reply: What the model wrote.
        text: The prompt as it is.
        by: Who proposes.
        sections: Those that may be replaced as a whole; they tell which message is meant.

    Raises:
        NoEditError: It proposes nothing.
        ReplyFault: It cannot be read.
    """
    try:
        said = object_in(reply, "ops", *_WHOLE_KEYS)
    except ReplyFault:
        whole = _unfenced(_without_thoughts(reply))
        if _likeness(whole, text) < _LIKE_THE_PROMPT:
            raise
        return edit_of_text(whole, text, by=by)
    for key in _WHOLE_KEYS:
        whole_text = said.get(key)
        if isinstance(whole_text, str) and "ops" not in said:
            return edit_of_text(whole_text, text, by=by)
    given = said.get("ops")
    if not isinstance(given, list):
        raise ReplyFault("`ops` is not a list of operations")
    if not given:
        raise NoEditError("the reply proposes no operations")
    if len(given) > _OPS_MAX:
        raise ReplyFault(f"the reply proposes {len(given)} operations, more than {_OPS_MAX}")
    why = said.get("rationale", "")
    return Edit(
        ops=tuple(_op(one, text, sections) for one in given),
        strategy=_strategy(given),
        proposer=by,
        rationale=" ".join(why.split()) if isinstance(why, str) else "",
    )


def object_in(reply: str, *keys: str) -> dict[str, JSON]:
    """The last JSON object of a reply that has one of the keys: alone, fenced or between prose.

    A model's thoughts before its reply are left out.

    >>> object_in('<think>{"ops": 1}?</think>Here it is: {"ops": []}', "ops")
    {'ops': []}

    Raises:
        ReplyFault: There is none.
    """
    body = _without_thoughts(reply)
    if not body.strip():
        raise ReplyFault("the reply has no text")
    objects = list(_objects(body))
    found = [one for one in objects if not one.keys().isdisjoint(keys)]
    if found:
        return found[-1]
    begun = _BEGINS.search(body)
    if begun and not objects:
        raise ReplyFault("its JSON is cut off or broken: every bracket and quote has to be closed")
    missing = " or ".join(f"`{key}`" for key in keys[:1])
    raise ReplyFault(f"it holds not one JSON object with the key {missing}")


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    """The outermost JSON objects of a text."""
    at = 0
    for _ in range(_ATTEMPTS_MAX):
        start = text.find("{", at)
        if start < 0:
            return
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
        else:
            yield value


def _without_thoughts(reply: str) -> str:
    """A reply without the thoughts before it.

    Raises:
        ReplyFault: It ends inside them.
    """
    if reply.lstrip().startswith(("{", "```")):
        return reply  # tags in it are the text of an edit
    body = _THOUGHTS.sub("", reply, count=1)
    if _THINKS.match(body):
        raise ReplyFault("the reply ends inside its thoughts")
    end = _THOUGHT_ENDS.search(body)
    return body[end.end() :] if end else body


def edit_of_text(whole: str, text: PromptText, *, by: str, rationale: str = "") -> Edit:
    """The edit that leads to a new text of one message, that which is most like it.

    Raises:
        NoEditError: It is no new text, or too far from the prompt to be one.
    """
    if _likeness(whole, text) < _LIKE_THE_PROMPT:
        raise NoEditError("the reply is a text that has little to do with the prompt")
    index = max(range(len(text.messages)), key=lambda n: _ratio(whole, text.messages[n].content))
    old = text.messages[index]
    # White space around a text is not what anybody wanted to change.
    tail = old.content[len(old.content.rstrip()) :]
    new = Message(role=old.role, content=whole.strip("\n").rstrip() + tail)
    after = PromptText(messages=(*text.messages[:index], new, *text.messages[index + 1 :]))
    ops = ops_between(text, after)
    if not ops:
        raise NoEditError("the reply is the prompt as it is")
    return Edit(ops=ops, strategy=REWRITE, proposer=by, rationale=rationale)


def _op(given: JSON, text: PromptText, sections: Sequence[OpenSection]) -> Op:
    document: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
    line = document.get("line")
    if isinstance(line, str):
        document["line"] = _meant(line, text)
        if document.get("op") == "replace_section":
            document = {**document, **_section_meant(document, sections)}
    new = document.get("text")
    if isinstance(new, str) and _NUMBER.match(new) and _NUMBER.match(str(line)):
        document["text"] = _NUMBER.sub("", new, count=1)
    if document.get("op") == "delete":
        document.pop("text", None)
    try:
        return op_from_json(document)
    except EditError as error:
        raise ReplyFault(str(error)) from error


def _meant(line: str, text: PromptText) -> str:
    """A line of the prompt, also where the number before it was copied along; no other is tried."""
    there = {known.text.strip() for known in text.lines}
    bare = _NUMBER.sub("", line, count=1)
    return bare if line.strip() not in there and bare.strip() in there else line


def _section_meant(document: Mapping[str, Any], sections: Sequence[OpenSection]) -> dict[str, Any]:
    """Which message has the section, and its new text without what stays around it."""
    heading, text = str(document["line"]).strip(), document.get("text")
    found: dict[str, Any] = {"line": heading}
    meant = [one.message for one in sections if one.heading == heading]
    if len(meant) == 1:
        found["message"] = meant[0]
    if isinstance(text, str):
        lines = text.strip("\n").split("\n")
        if all(_NUMBER.match(line) for line in lines if line.strip()):
            lines = [_NUMBER.sub("", line, count=1) for line in lines]
        if lines[0].strip() == heading:
            lines = lines[1:]
        if lines and heading.startswith("<") and lines[-1].strip() == f"</{heading[1:]}":
            lines = lines[:-1]
        found["text"] = "\n".join(lines)
    return found


def _strategy(given: list[JSON]) -> str:
    kinds = {str(one.get("op")) for one in given if isinstance(one, dict)}
    if kinds <= {"insert_after", "insert_before"}:
        return "model-add"
    return f"model-{kinds.pop().replace('_', '-')}" if len(kinds) == 1 else "model-edit"


def _unfenced(reply: str) -> str:
    found = _FENCE.fullmatch(reply.strip())
    return found["body"] if found else reply.strip()


def _likeness(whole: str, text: PromptText) -> float:
    """How much of a text are lines of the prompt, or of one of its messages the lines it has."""
    there = {line.text.strip() for line in text.lines if line.text.strip()}
    said = {line.strip() for line in whole.splitlines() if line.strip()}
    return len(there & said) / len(said) if said else 0.0


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(a=one.split("\n"), b=other.split("\n"), autojunk=False).ratio()
