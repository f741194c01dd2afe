"""The differences between two texts, and texts with only some of these changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.statements._edit import renumber
from regauge.statements._match import match, owner
from regauge.statements._numbering import references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from regauge.statements._match import Match
    from regauge.statements._nodes import Node, Tree


class MergeError(ValueError):
    """Two texts change the same statement of a third one."""


@dataclass(frozen=True, slots=True)
class Change:
    """One atom that two texts do not share, or have in different places.

    Attributes:
        was: The atom in the text before; None where it was added.
        now: The atom in the text after; None where it was removed.
    """

    kind: Literal["added", "removed", "reworded", "moved"]
    was: Node | None
    now: Node | None


# A piece of a composed text: which atom it is in which tree, and the tree whose words it has.
_Item: TypeAlias = tuple[dict[int, int], int]


@dataclass(frozen=True)
class Comparison:
    """Two texts, atom by atom. Numbers that follow from an order are no change."""

    before: Tree
    after: Tree

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The changes, in the order of the text after."""
        return tuple(
            change
            for (_, b), change in zip(self._match.order, self._steps, strict=True)
            if change is not None and (b is not None or change.kind == "removed")
        )

    @cached_property
    def instead(self) -> dict[int, Change]:
        """By the id of an added change what was removed in that very place."""
        changes: dict[int, Change] = {}
        for first, second in pairwise(self._steps):
            if first and second and first.kind == "removed" and second.kind == "added":
                changes[id(second)] = first
        return changes

    @property
    def removed(self) -> tuple[str, ...]:
        """The words of atoms that are gone, or stand in other words."""
        return tuple(
            self.before.of(change.was)
            for change in self.changes
            if change.was and change.kind != "moved"
        )

    @property
    def added(self) -> tuple[str, ...]:
        """The words of atoms that are new, or stand in other words."""
        return tuple(
            self.after.of(change.now)
            for change in self.changes
            if change.now and change.kind != "moved"
        )

    def compose(self, changes: Collection[Change]) -> str:
        """The text before with some of the changes, its numbers in step."""
        taken = set(map(id, changes))
        items: list[_Item] = []
        gone: dict[int, int] = {}
        for (a, b), change in zip(self._match.order, self._steps, strict=True):
            is_taken = id(change) in taken
            if a is not None and b is not None:
                items.append(({0: a, 1: b}, int(is_taken)))
            elif b is not None and is_taken:
                items.append((gone | {1: b}, 1))
            elif a is not None and not is_taken:
                items.append(({0: a}, 0))
            # What comes instead of something stands where that stood.
            gone = {0: a} if a is not None and b is None and is_taken else {}
        return renumber(self.before, _assembled((self.before, self.after), items))

    @cached_property
    def misled(self) -> tuple[str, ...]:
        """The unchanged statements whose references mean another step than before."""
        twins: dict[int, Node | None] = {}
        for a, b in self._match.same.items():
            twins[id(owner(self.before, self.before.atoms[a]))] = owner(
                self.after, self.after.atoms[b]
            )
        kept = {id(each) for each in twins.values()}
        now = {
            (self.after.at(reference.start), reference.value): reference.target
            for reference in references(self.after)
        }
        same = {self.before.atoms[a]: self.after.atoms[b] for a, b in self._match.same.items()}
        messages: list[str] = []
        for each in references(self.before):
            atom = self.before.at(each.start)
            twin = same.get(atom)
            if each.target is None or twin is None or (twin, each.value) not in now:
                continue
            target = now[twin, each.value]
            # A step that is new may stand for the one it replaces.
            if id(target) in kept and target is not twins.get(id(each.target)):
                messages.append(self.before.of(atom))
        return tuple(messages)

    @cached_property
    def _match(self) -> Match:
        return match(self.before, self.after)

    @cached_property
    def _steps(self) -> tuple[Change | None, ...]:
        """For every place in the order of atoms the change there; a move is at both its places."""
        was, now = self.before.atoms, self.after.atoms
        moves = {a: Change("moved", was[a], now[b]) for a, b in self._match.moved.items()}
        came = {b: moves[a] for a, b in self._match.moved.items()}
        steps: list[Change | None] = []
        for a, b in self._match.order:
            if a is not None and b is not None:
                same = self._match.same.get(a) == b
                steps.append(None if same else Change("reworded", was[a], now[b]))
            elif b is not None:
                steps.append(came.get(b) or Change("added", None, now[b]))
            elif a is not None:
                steps.append(moves.get(a) or Change("removed", was[a], None))
        return tuple(steps)


def compare(before: Tree, after: Tree) -> Comparison:
    """Compare two texts, statement by statement."""
    return Comparison(before, after)


def merge(base: Tree, first: Tree, second: Tree) -> str:
    """A text with the changes that two texts make to the same one.

    >>> from regauge.statements import parse
    >>> texts = "Be brief. Use JSON.", "Be brief. Use YAML.", "Be kind. Use JSON."
    >>> merge(*map(parse, texts))
    'Be kind. Use YAML.'

    Raises:
        MergeError: Both change the same statement.
    """
    trees = (base, first, second)
    sides = [_side(base, tree) for tree in trees[1:]]
    items: list[_Item] = []
    for a in range(-1, len(base.atoms)):
        gone: dict[int, int] = {}
        if a >= 0:
            kept = [side[0].get(a) for side in sides]
            changed = [n for n, twin in enumerate(kept) if twin is None or not twin[1]]
            if len(changed) > 1:
                lines = [
                    twin and trees[n + 1].of(trees[n + 1].atoms[twin[0]])
                    for n, twin in enumerate(kept)
                ]
                if lines[0] != lines[1]:
                    raise MergeError(f"{base.of(base.atoms[a])!r} is changed twice")
            places = {0: a} | {n + 1: twin[0] for n, twin in enumerate(kept) if twin is not None}
            if all(kept):
                items.append((places, changed[0] + 1 if changed else 0))
            else:
                gone = places
        for n, (_, added) in enumerate(sides):
            for b in added.get(a, ()):
                items.append((gone | {n + 1: b}, n + 1))
                gone = {}
    return renumber(base, _assembled(trees, items))


def _side(base: Tree, tree: Tree) -> tuple[dict[int, tuple[int, bool]], dict[int, list[int]]]:
    """The state of each atom of the base, and the text added behind it."""
    matched = match(base, tree)
    kept: dict[int, tuple[int, bool]] = {}
    added: dict[int, list[int]] = {}
    last = -1
    for a, b in matched.order:
        if a is not None:
            last = a
            if b is not None:
                kept[a] = b, matched.same.get(a) == b
        elif b is not None:
            added.setdefault(last, []).append(b)
    return kept, added


def _assembled(trees: Sequence[Tree], items: Iterable[_Item]) -> str:
    """The text of atoms out of several trees, each behind what is in front of it there."""
    out = ""
    last = dict.fromkeys(range(len(trees)), -1)
    places: dict[int, int] = {}
    for places, source in items:
        body = trees[source].of(trees[source].atoms[places[source]])
        # What has other words stands behind its neighbour as it does there.
        order = sorted(places, key=lambda tree: (tree != source, tree))
        follows = next((tree for tree in order if last[tree] == places[tree] - 1), None)
        if follows is not None and (out or places[follows] == 0):
            before = _gap(trees[follows], places[follows])
        else:
            before = _broken(trees[source], places[source])
            before = before if out else before.lstrip("\n ")
        if not out and body[:1].islower() and trees[source].atoms[places[source]].kind == "clause":
            body = body[0].upper() + body[1:]
        out += before + body
        last |= places
    ends = [tree for tree in sorted(places) if places[tree] == len(trees[tree].atoms) - 1]
    ending = trees[ends[0] if ends else 0]
    return out + ending.text[ending.atoms[-1].end if ending.atoms else 0 :]


def _gap(tree: Tree, number: int) -> str:
    """The text between an atom and the one before it."""
    start = tree.atoms[number - 1].end if number else 0
    return tree.text[start : tree.atoms[number].start]


def _broken(tree: Tree, number: int) -> str:
    """The same for an atom whose neighbour is missing: it begins its line or entry."""
    for at in range(number, -1, -1):
        if "\n" in (gap := _gap(tree, at)) or not at:
            return gap if "\n" in gap or at == number else f"\n{gap}"
    return "\n"
