"""Reads what a model proposes: operations as JSON, or a whole text, which is read as edits."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, cast, get_args

from regauge.judges.model._reply import ReplyFault, json_object
from regauge.prompts import Message
from regauge.refine.edits import Edit, EditError, PromptText, op_from_json, ops_between
from regauge.refine.loop import REWRITE, Critique, CritiqueKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.edits import Op
    from regauge.refine.guards import OpenSection

__all__ = ["critique_in", "edit_in", "edit_of_text", "lessons_in", "numbered"]

_NUMBER = re.compile(r"\s*\d{1,4}\| ?")
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_OPS_MAX = 3
_LIKE_THE_PROMPT = 0.4
_WHOLE_KEYS = ("prompt", "new_prompt", "revised_prompt")
_QUOTES_MAX = 5
_LESSONS_MAX = 4
_LESSON_CHARS = 300


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
    said = json_object(reply)
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
    said = json_object(reply).get("lessons")
    if not isinstance(said, list) or not all(isinstance(lesson, str) for lesson in said):
        raise ReplyFault("the reply has no list of `lessons`")
    lessons = (" ".join(str(lesson).split())[:_LESSON_CHARS] for lesson in said)
    return tuple(lesson for lesson in lessons if lesson)[:_LESSONS_MAX]


def edit_in(reply: str, text: PromptText, *, by: str, sections: Sequence[OpenSection] = ()) -> Edit:
    """The edit that a reply proposes.

    A reply that is a whole new prompt, in place of operations, is read as the operations that
    lead to it.

    Args:
        reply: What the model wrote.
        text: The prompt as it is.
        by: Who proposes.
        sections: Those that may be replaced as a whole; they tell which message is meant.

    Raises:
        ReplyFault: It proposes nothing that can be read.
    """
    try:
        said = json_object(reply)
    except ReplyFault:
        whole = _unfenced(reply)
        if _likeness(whole, text) < _LIKE_THE_PROMPT:
            raise
        return edit_of_text(whole, text, by=by)
    for key in _WHOLE_KEYS:
        whole_text = said.get(key)
        if isinstance(whole_text, str) and "ops" not in said:
            return edit_of_text(whole_text, text, by=by)
    given = said.get("ops")
    if not isinstance(given, list) or not given:
        raise ReplyFault("the reply proposes no operations")
    if len(given) > _OPS_MAX:
        raise ReplyFault(f"the reply proposes {len(given)} operations, more than {_OPS_MAX}")
    why = said.get("rationale", "")
    return Edit(
        ops=tuple(_op(one, text, sections) for one in given),
        strategy=_strategy(given),
        proposer=by,
        rationale=" ".join(why.split()) if isinstance(why, str) else "",
    )


def edit_of_text(whole: str, text: PromptText, *, by: str, rationale: str = "") -> Edit:
    """The edit that leads to a new text of one message, that which is most like it.

    Raises:
        ReplyFault: It is no new text, or too far from the prompt to be one.
    """
    if _likeness(whole, text) < _LIKE_THE_PROMPT:
        raise ReplyFault("the reply is a text that has little to do with the prompt")
    index = max(range(len(text.messages)), key=lambda n: _ratio(whole, text.messages[n].content))
    old = text.messages[index]
    # White space around a text is not what anybody wanted to change.
    tail = old.content[len(old.content.rstrip()) :]
    new = Message(role=old.role, content=whole.strip("\n").rstrip() + tail)
    after = PromptText(messages=(*text.messages[:index], new, *text.messages[index + 1 :]))
    ops = ops_between(text, after)
    if not ops:
        raise ReplyFault("the reply is the prompt as it is")
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
