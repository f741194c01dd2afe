"""The matching of atoms between two texts: the same, reworded, or moved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

from regauge.statements._nodes import normalise
from regauge.statements._numbering import numbering, references

if TYPE_CHECKING:
    from regauge.statements._nodes import Node, Tree

# Sentences that share less than half of their words are two, not one reworded.
_ALIKE = 0.5
# So many signs tell one block from another.
_HELD = 60
_WORDS = re.compile(r"\w+")
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Match:
    """The matching of the atoms of two trees.

    Attributes:
        order: The atoms of both in one order, by their numbers; those that are the same or
            reworded come as a pair.
        moved: Atoms of the text before that are in another place after.
        same: The pairs that say the same, moved ones too.
    """

    order: tuple[tuple[int | None, int | None], ...]
    moved: dict[int, int]
    same: dict[int, int]


@lru_cache(maxsize=256)
def match(before: Tree, after: Tree) -> Match:
    """Match the atoms of two texts; numbers that only follow from their order do not count."""
    old, new = _keys(before), _keys(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    opcodes = matcher.get_opcodes()
    same = {
        a_from + n: b_from + n
        for tag, a_from, a_to, b_from, _ in opcodes
        if tag == "equal"
        for n in range(a_to - a_from)
    }
    gone = [n for n in range(len(old)) if n not in same]
    come = [n for n in range(len(new)) if n not in same.values()]
    moved: dict[int, int] = {}
    for first in gone:
        twin = next((n for n in come if new[n] == old[first] and n not in moved.values()), None)
        if twin is not None:
            moved[first] = twin
    same |= moved
    order: list[tuple[int | None, int | None]] = []
    for tag, a_from, a_to, b_from, b_to in opcodes:
        if tag == "equal":
            order += zip(range(a_from, a_to), range(b_from, b_to), strict=True)
            continue
        pairs = _reworded(
            [
                (n, before.of(before.atoms[n]), before.atoms[n].kind)
                for n in range(a_from, a_to)
                if n not in moved
            ],
            [
                (n, after.of(after.atoms[n]), after.atoms[n].kind)
                for n in range(b_from, b_to)
                if n not in moved.values()
            ],
        )
        a, b = a_from, b_from
        for first, second in [*pairs, (a_to, b_to)]:
            # What came instead of something is behind it.
            for n in range(max(first - a, second - b)):
                order += [(a + n, None)] if a + n < first else []
                order += [(None, b + n)] if b + n < second else []
            if first < a_to:
                order.append((first, second))
            a, b = first + 1, second + 1
    pairs = [(a, b) for a, b in order if a is not None and b is not None]
    # A reference that no longer meets its step is the same statement still.
    same |= {a: b for a, b in pairs if before.of(before.atoms[a]) == after.of(after.atoms[b])}
    return Match(tuple(order), moved, same)


def owner(tree: Tree, atom: Node) -> Node | None:
    """The numbered node that an atom belongs to: its heading, or the entry around it."""
    if atom.kind == "heading":
        return atom
    return next((node for node in reversed(tree.path(atom)) if node.kind == "entry"), None)


@lru_cache(maxsize=256)
def _keys(tree: Tree) -> list[str]:
    """The key of each atom: references by their target, headings without their number."""
    targets: list[tuple[int, int, str]] = []
    for reference in references(tree):
        if reference.target is not None:
            target = normalise(tree.of(reference.target).split("\n", 1)[0])
            targets.append((reference.start, reference.end, f"<{target.lstrip('0123456789.) ')}>"))
    for chain in numbering(tree):
        targets += [
            (item.start, item.end, "#") for item in chain.items if item.node.kind == "heading"
        ]
    targets.sort()
    keys: list[str] = []
    for atom in tree.atoms:
        parts: list[str] = []
        at = atom.start
        for start, end, text in targets:
            if atom.start <= start and end <= atom.end:
                parts += [tree.text[at:start], text]
                at = end
        key = "".join([*parts, tree.text[at : atom.end]])
        # Marks alone, such as a fence without text, say nothing but themselves; data is no heading.
        kind = "data" if atom.kind == "data" else atom.kind in {"sentence", "clause"}
        keys.append(f"{kind} {normalise(key) or key}{_held_first(tree, atom)}")
    return keys


def _held_first(tree: Tree, atom: Node) -> str:
    """The beginning of a tag's block: of several blocks with one name, each has its own tags."""
    block = tree.parent(atom)
    if atom.kind != "tag" or block is None or block.kind != "block":
        return ""
    return normalise(tree.text[block.children[0].end : block.children[-1].start])[:_HELD]


def _reworded(
    gone: list[tuple[int, str, str]], come: list[tuple[int, str, str]]
) -> list[tuple[int, int]]:
    """Atoms that say nearly the same, in the order of both texts."""
    pairs: list[tuple[int, int]] = []
    last = -1
    for atom_id, text, kind in gone:
        near = [
            (alike(text, other), -number)
            for number, other, its in come
            if number > last and (its == kind or {its, kind} == {"sentence", "clause"})
        ]
        best = max(near, default=(0.0, 0))
        if best[0] >= _ALIKE:
            last = -best[1]
            pairs.append((atom_id, last))
    return pairs


def alike(first: str, second: str) -> float:
    """The share that two statements have in common, from 0 to 1, in words or unspaced signs."""
    old, new = tokens(first), tokens(second)
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def tokens(text: str) -> list[str]:
    """The words of a text in lower case; its signs, in scripts without spaces."""
    folded = text.casefold()
    return list(folded) if _WIDE.search(folded) else _WORDS.findall(folded)
