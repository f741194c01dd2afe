"""Sections of a prompt that are replaced as a whole: all or nothing, and no line outside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.prompts import Message, SectionError, section_below
from regauge.refine.edits._text import PromptText

if TYPE_CHECKING:
    from regauge.prompts import Section
    from regauge.refine.edits._ops import Anchor

__all__ = ["section_at", "section_text", "with_section"]


def section_at(text: PromptText, anchor: Anchor) -> tuple[int, Section]:
    """The message that holds the section which a line begins, and its place in there.

    Raises:
        SectionError: No line begins it, or several do.
    """
    found: list[tuple[int, Section]] = []
    why = SectionError(f"no line of the prompt begins a section with {anchor.line!r}")
    for index, message in enumerate(text.messages):
        if anchor.message not in {None, index}:
            continue
        if all(line.strip() != anchor.line.strip() for line in message.content.split("\n")):
            continue
        try:
            found.append((index, section_below(message.content, anchor.line)))
        except SectionError as error:
            why = error
    if len(found) > 1:
        raise SectionError(f"{len(found)} messages have a section {anchor.line!r}")
    if not found:
        raise why
    return found[0]


def section_text(text: PromptText, index: int, place: Section) -> str:
    """What a section says, without its heading or tags and without blank lines around it."""
    return "\n".join(text.messages[index].content.split("\n")[place.first : place.end])


def with_section(text: PromptText, anchor: Anchor, new: str) -> PromptText:
    r"""The text with another section below the same heading or between the same tags.

    >>> from regauge.refine.edits import Anchor
    >>> text = PromptText.of("# Form\nAnswer in XML.\n\n# Tone\nBe brief.")
    >>> with_section(text, Anchor("# Form"), "Answer in JSON.").whole
    '# Form\nAnswer in JSON.\n\n# Tone\nBe brief.'

    Raises:
        SectionError: There is no such section, or the new text would not be all of it, as with a
            heading that ends the section.
    """
    index, place = section_at(text, anchor)
    old = text.messages[index]
    lines = old.content.split("\n")
    lines[place.first : place.end] = new.split("\n")
    made = Message(role=old.role, content="\n".join(lines))
    after = PromptText(messages=(*text.messages[:index], made, *text.messages[index + 1 :]))
    try:
        kept = section_text(after, *section_at(after, anchor)) == new and not _opens_fence(new)
    except SectionError:
        kept = False
    if not kept:
        raise SectionError(f"the new text of {anchor.line!r} would not stay inside the section")
    return after


def _opens_fence(text: str) -> bool:
    """Whether a code block of a text is not closed in it, and takes in what follows."""
    fences = [line for line in text.split("\n") if line.lstrip().startswith(("```", "~~~"))]
    return len(fences) % 2 == 1
