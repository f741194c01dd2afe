"""The changed lines of a prompt file: its first one, and a diff by section."""

from __future__ import annotations

import re
from difflib import SequenceMatcher, unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.prompts import Prompt

# As `git diff` shows.
_CONTEXT_LINES = 3
# The order of the sections of a prompt file in a diff; others come between.
_SECTIONS = {"messages": 0, "version": 2, "changelog": 2}
# Sections that a decision shows next to the diff.
_STATED = frozenset({"version", "changelog"})
_KEY = re.compile(r"([A-Za-z]\w*):")


def changed_line(head: Prompt, base: Prompt) -> int:
    """The first changed line, of the messages if there is one."""
    lines = SequenceMatcher(
        None, base.source.splitlines(), head.source.splitlines(), autojunk=False
    )
    begins = head.lines.get("messages", 1)
    spans = [(j1 + 1, j2) for tag, _, _, j1, j2 in lines.get_opcodes() if tag != "equal"]
    of_messages = (max(first, begins) for first, last in spans if max(first, last) >= begins)
    return next(of_messages, spans[0][0] if spans else 1)


def prompt_diff(before: str, now: str, *, files: tuple[str, str]) -> list[str]:
    """A unified diff of two states of a prompt file, by section.

    The messages come first. Version and changelog appear only if nothing else changed.
    """
    old, new = _sections(before), _sections(now)
    lines: list[str] = []
    for name in sorted({**old, **new}, key=lambda name: _SECTIONS.get(name, 1)):
        start, section = old.get(name, (0, []))
        new_start, new_section = new.get(name, (0, []))
        if lines and name in _STATED:
            continue
        matcher = SequenceMatcher(None, section, new_section, autojunk=False)
        for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
            lines += _hunk(group, (start, section), (new_start, new_section))
    if not lines:  # sections in another order
        return list(unified_diff(before.splitlines(), now.splitlines(), *files, lineterm=""))
    return [f"--- {files[0]}", f"+++ {files[1]}", *lines]


def _sections(source: str) -> dict[str, tuple[int, list[str]]]:
    """The lines of each top-level key of a prompt file, with the number of lines before them."""
    sections: dict[str, tuple[int, list[str]]] = {}
    name = ""
    for number, line in enumerate(source.splitlines()):
        if (key := _KEY.match(line)) is not None:
            name = key[1]
        sections.setdefault(name, (number, []))[1].append(line)
    return sections


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]],
    old: tuple[int, Sequence[str]],
    new: tuple[int, Sequence[str]],
) -> Iterator[str]:
    (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
    before, now = f"{old[0] + i1 + 1},{i2 - i1}", f"{new[0] + j1 + 1},{j2 - j1}"
    yield f"@@ -{before} +{now} @@"
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            yield from (f" {line}" for line in old[1][first:last])
            continue
        yield from (f"-{line}" for line in old[1][first:last])
        yield from (f"+{line}" for line in new[1][new_first:new_last])
