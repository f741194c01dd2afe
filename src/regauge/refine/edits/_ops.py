"""Operations on anchored lines of a prompt, as values and as plain documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import RegaugeError

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = [
    "Anchor",
    "Delete",
    "EditError",
    "Insert",
    "Op",
    "Replace",
    "ReplaceSection",
    "kind_of",
    "op_from_json",
    "op_to_json",
]


class EditError(RegaugeError):
    """An edit does not fit the text: its anchor is missing, stands twice, or is taken."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """One line of the text, found by what it says.

    Attributes:
        line: The whole line; white space around it may be left out.
        occurrence: Which of several equal lines, from 0; None where there must be only one.
    """

    line: str
    occurrence: int | None = None
    message: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """New lines after or before the anchor."""

    anchor: Anchor
    text: str
    where: Literal["after", "before"] = "after"


@dataclass(frozen=True, slots=True)
class Replace:
    """Another text for the anchor's line, or for the one place in it that says `find`."""

    anchor: Anchor
    text: str
    find: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """The anchor's line goes."""

    anchor: Anchor


@dataclass(frozen=True, slots=True)
class ReplaceSection:
    """Another text for the whole section that the anchor begins; it comes alone in its edit."""

    anchor: Anchor
    text: str


Op: TypeAlias = Insert | Replace | Delete | ReplaceSection


def op_from_json(document: JSON, *, blank: bool = False) -> Op:
    """One operation, as `to_json` writes it and as a model is asked to.

    Args:
        document: The operation.
        blank: Whether it may be about a blank line, or bring one in, as a rewrite does that was
            taken apart; a model that says nothing means nothing.

    Raises:
        EditError: The document is no operation.
    """
    if not isinstance(document, dict):
        raise EditError(f"an operation is a JSON object, not {type(document).__name__}")
    kind, line, text = document.get("op"), document.get("line"), document.get("text", "")
    if not isinstance(line, str) or not (blank or line.strip()) or not isinstance(text, str):
        raise EditError("an operation names the `line` it is about, and a `text` where it adds one")
    occurrence, message = document.get("occurrence"), document.get("message")
    anchor = Anchor(
        line,
        occurrence if type(occurrence) is int else None,
        message if type(message) is int else None,
    )
    match kind:
        case "insert_after" | "insert_before" if text.strip() or blank:
            return Insert(anchor, text, "after" if kind == "insert_after" else "before")
        case "replace" if text.strip() or blank:
            find = document.get("find")
            return Replace(anchor, text, find if isinstance(find, str) else "")
        case "delete":
            return Delete(anchor)
        case "replace_section" if text.strip():
            return ReplaceSection(anchor, _without_blank_ends(text))
        case "insert_after" | "insert_before" | "replace" | "replace_section":
            raise EditError(f"{kind} needs a `text`")
        case _:
            raise EditError(
                f"there is no operation {kind!r}; there are insert_after, insert_before, replace,"
                " delete, replace_section"
            )


def op_to_json(op: Op) -> dict[str, JSON]:
    """The operation as a plain document."""
    kind = f"insert_{op.where}" if isinstance(op, Insert) else kind_of(op)
    document: dict[str, JSON] = {"op": kind, "line": op.anchor.line}
    if op.anchor.occurrence is not None:
        document["occurrence"] = op.anchor.occurrence
    if op.anchor.message is not None:
        document["message"] = op.anchor.message
    if not isinstance(op, Delete):
        document["text"] = op.text
    if isinstance(op, Replace) and op.find:
        document["find"] = op.find
    return document


def kind_of(op: Op) -> str:
    """What kind of operation it is, in one word: `insert`, `replace`, `delete`, ..."""
    return "replace_section" if isinstance(op, ReplaceSection) else type(op).__name__.lower()


def _without_blank_ends(text: str) -> str:
    """A text without blank lines before and after it; how far its lines are in stays."""
    lines = text.split("\n")
    told = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[told[0] : told[-1] + 1])
