"""What an earlier version of a prompt said and this one does not, with where it stood."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.refine.edits import Anchor, Delete, Insert, Replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.edits import Line, Op, PromptText

__all__ = ["Lost", "lost_blocks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """One place where an earlier version differs.

    Attributes:
        below: The line of the prompt that the place is below; None at its beginning.
        instead: What the prompt says there now, and the version did not; may be nothing.
        lines: What the version said there; may be nothing. Blank lines among them are kept.
        apart: Whether a blank line stood before it.
    """

    below: Line | None
    instead: tuple[Line, ...]
    lines: tuple[str, ...]
    apart: bool = False

    @property
    def text(self) -> str:
        """All that the place is about."""
        return "\n".join((*self.lines, *(line.text for line in self.instead)))

    def ops(self) -> list[tuple[Op, ...]]:
        """Edits that bring the earlier wording back: the smallest that make sense each alone."""
        if not self.instead:
            return [(self._inserted(self.lines),)] if self.below is not None else []
        said = [line for line in self.lines if line.strip()]
        if len(said) == len(self.instead):
            return [
                (Replace(_anchor(now), was),) for now, was in zip(self.instead, said, strict=True)
            ]
        if not said:
            return [(Delete(_anchor(line)),) for line in self.instead]
        first, *rest = self.instead
        return [
            (
                Replace(_anchor(first), "\n".join(self.lines)),
                *(Delete(_anchor(line)) for line in rest),
            )
        ]

    def _inserted(self, lines: Sequence[str]) -> Op:
        assert self.below is not None
        return Insert(_anchor(self.below), "\n".join((*([""] if self.apart else []), *lines)))


def lost_blocks(text: PromptText, version: str) -> list[Lost]:
    """The places where a version differs, in the order of the prompt.

    Blank lines are no difference; those within what was lost come back with it.

    Args:
        text: The prompt.
        version: The messages of the earlier version, one after the other.
    """
    raw = version.split("\n")
    old = [n for n, line in enumerate(raw) if line.strip()]
    now = [line for line in text.lines if line.kind != "blank"]
    matcher = difflib.SequenceMatcher(
        a=[" ".join(raw[n].split()) for n in old],
        b=[" ".join(line.text.split()) for line in now],
        autojunk=False,
    )
    found: list[Lost] = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        lines = raw[old[a_from] : old[a_to - 1] + 1] if a_to > a_from else []
        found.append(
            Lost(
                below=now[b_from - 1] if b_from else None,
                instead=tuple(now[b_from:b_to]),
                lines=tuple(lines),
                apart=a_to > a_from > 0 and old[a_from] - old[a_from - 1] > 1,
            )
        )
    return found


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)
