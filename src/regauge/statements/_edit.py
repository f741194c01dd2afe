"""Edits of nodes; the numbers of lists and the references to them follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.statements._numbering import number_text, numbering, references
from regauge.statements._parse import MARKER, normalise, parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from regauge.statements._parse import Node, Tree


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
        gone = [n for n in range(a_from, a_to) if n not in moved]
        come = [n for n in range(b_from, b_to) if n not in moved.values()]
        pairs = _find_reworded(before, gone, after, come)
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
    old, new = ([tree.text_of(atom) for atom in tree.atoms] for tree in (before, after))
    same |= {a: b for a, b in pairs if old[a] == new[b]}
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
            target = normalise(tree.text_of(reference.target).split("\n", 1)[0])
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


def _find_reworded(
    before: Tree, gone: Iterable[int], after: Tree, come: Iterable[int]
) -> list[tuple[int, int]]:
    """Atoms that say nearly the same, by their numbers, in the order of both texts."""
    pairs: list[tuple[int, int]] = []
    last = -1
    for number in gone:
        atom = before.atoms[number]
        near = [
            (alike(before.text_of(atom), after.text_of(after.atoms[n])), -n)
            for n in come
            if n > last
            and (after.atoms[n].kind == atom.kind or {after.atoms[n].kind, atom.kind} <= _INLINE)
        ]
        best = max(near, default=(0.0, 0))
        if best[0] >= _ALIKE:
            last = -best[1]
            pairs.append((number, last))
    return pairs


def alike(first: str, second: str) -> float:
    """The share that two statements have in common, from 0 to 1, in words or unspaced signs."""
    old, new = tokens(first), tokens(second)
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def tokens(text: str) -> list[str]:
    """The words of a text in lower case; its signs, in scripts without spaces."""
    folded = text.casefold()
    return list(folded) if _WIDE.search(folded) else _WORDS.findall(folded)


Where = Literal["after", "before"]
Patch = tuple[int, int, str]
_INLINE = frozenset({"sentence", "clause"})
_WIDE_STOPS = frozenset("。！？．")


def delete(tree: Tree, node: Node) -> str:
    r"""The text without a node, and without what would be empty then.

    >>> tree = parse("1. Read.\n2. Think.\n3. Answer as in step 2.")
    >>> delete(tree, next(tree.nodes("entry")))
    '1. Think.\n2. Answer as in step 1.'
    """
    return renumber(tree, _patch(tree.text, [_deletion(tree, node)]))


def insert(tree: Tree, at: Node, text: str, where: Where = "after") -> str:
    r"""The text with another node next to one, written as that is.

    >>> tree = parse("1. Read.\n2. Answer.")
    >>> insert(tree, next(tree.nodes("entry")), "Think.")
    '1. Read.\n2. Think.\n3. Answer.'
    """
    return renumber(tree, _patch(tree.text, [_insertion(tree, at, text, where)]))


def replace(tree: Tree, node: Node, text: str) -> str:
    """The text with another wording of a node; an entry keeps its bullet or number."""
    start = node.start
    if node.kind == "entry":
        start, text = _content_start(tree, node), _unmark(text)
    return renumber(tree, _patch(tree.text, [(start, node.end, text)]))


def move(tree: Tree, node: Node, at: Node, where: Where = "after") -> str:
    r"""The text with a node in another place.

    >>> tree = parse("1. Read.\n2. Think.\n3. Answer.")
    >>> first, _, last = tree.nodes("entry")
    >>> move(tree, last, first, "before")
    '1. Answer.\n2. Read.\n3. Think.'

    Raises:
        ValueError: The place is within the node.
    """
    if node.start <= at.start < node.end:
        raise ValueError("a node cannot be moved into itself")
    start = _content_start(tree, node) if node.kind == "entry" else node.start
    gone = _deletion(tree, node)
    come = _insertion(tree, at, tree.text[start : node.end], where)
    if gone[0] < come[0] < gone[1]:
        come = (gone[1], gone[1], come[2])
    return renumber(tree, _patch(tree.text, [gone, come]))


def renumber(before: Tree, text: str) -> str:
    r"""A later text with the numbers of its lists, and the references to them, in step.

    A list is numbered again where its entries counted up in the text before.

    >>> renumber(parse("1. Read.\n2. Answer."), "1. Read.\n1. Think.\n2. Answer.")
    '1. Read.\n2. Think.\n3. Answer.'
    """
    if text == before.text:
        return text
    chains = numbering(before)
    if all(len(chain.items) < 2 for chain in chains):  # noqa: PLR2004 - nothing counts up
        return text
    after = parse(text)
    matched = match(before, after)
    pairs = [
        *matched.same.items(),
        *((a, b) for a, b in matched.order if a is not None and b is not None),
    ]
    written = {before.atoms[a]: after.atoms[b] for a, b in pairs}
    twins = {
        id(old): new
        for atom, twin in written.items()
        if (old := owner(before, atom)) and (new := owner(after, twin))
    }
    patches, values = _numbers(before, after, twins)
    for reference in references(before):
        atom = next((atom for atom in written if atom.start <= reference.start < atom.end), None)
        twin = twins.get(id(reference.target)) if reference.target is not None else None
        if atom is None or twin is None or before.text_of(atom) != after.text_of(written[atom]):
            continue
        value = values.get(id(twin), reference.value)
        if value != reference.value:
            start = written[atom].start + reference.start - atom.start
            patches.append((start, start + reference.end - reference.start, str(value)))
    return _patch(text, patches)


def _numbers(
    before: Tree, after: Tree, twins: dict[int, Node]
) -> tuple[list[Patch], dict[int, int]]:
    """The changed numbers of a later text, and the number of each of its numbered nodes."""
    having = {id(item.node): item for chain in numbering(after) for item in chain.items}
    values = {key: each.value for key, each in having.items()}
    origin = {id(its): key for key, its in twins.items()}
    chains = numbering(before)
    chain_of = {
        id(item.node): number for number, chain in enumerate(chains) for item in chain.items
    }
    counted = {n for n, chain in enumerate(chains) if len(chain.items) > 1}
    mixed = _find_mixed(before, chain_of)
    following: dict[int, int] = {}
    patches: list[Patch] = []
    for group in _groups(after):
        numbered = [having[id(node)] for node in group if id(node) in having]
        chains_now = [chain_of.get(origin.get(id(each.node), 0)) for each in numbered]
        held = [number for number in chains_now if number is not None and number not in mixed]
        if len(numbered) != len(group) or not held:
            continue
        number = max(sorted(set(held)), key=held.count)
        if number not in counted:
            continue
        value = following.get(number, chains[number].items[0].value)
        for each in numbered:
            digits = number_text(numbered[0].kind, value)
            if value != each.value and digits is not None:
                patches.append((each.start, each.end, digits))
            values[id(each.node)] = value
            value += 1
        following[number] = value
    return patches, values


def _groups(tree: Tree) -> Iterable[list[Node]]:
    """The entries of each list, and the numbered headings of each depth, in their order."""
    for node in tree.nodes("list"):
        yield [child for child in node.children if child.kind == "entry"]
    for above in tree.nodes("text", "section", "block"):
        heads = [child.children[0] for child in above.children if child.kind == "section"]
        for level in sorted({head.level for head in heads}):
            numbered = {id(item.node) for chain in numbering(tree) for item in chain.items}
            group = [head for head in heads if head.level == level and id(head) in numbered]
            if group:
                yield group


def _find_mixed(tree: Tree, chain_of: dict[int, int]) -> set[int]:
    """The chains that share a list with others: its author does not count up."""
    mixed: set[int] = set()
    for group in _groups(tree):
        chains = {chain_of[id(node)] for node in group if id(node) in chain_of}
        if len(chains) > 1:
            mixed |= chains
    return mixed


def _deletion(tree: Tree, node: Node) -> Patch:
    """The range that is cut out with a node."""
    parent = tree.parent(node)
    while parent is not None and parent.kind != "text" and _children_with_text(parent) == [node]:
        node, parent = parent, tree.parent(parent)
    text = tree.text
    if node.kind in _INLINE and parent is not None:
        siblings = [sibling for sibling in _children_with_text(parent) if sibling.kind in _INLINE]
        at = siblings.index(node) if node in siblings else 0
        breaks = (
            at and "\n" in text[node.end : siblings[at + 1].start] if at + 1 < len(siblings) else at
        )
        if at + 1 < len(siblings) and not breaks:
            after = siblings[at + 1].start
            lowered = node.kind == "clause" and at == 0 and text[node.start].isupper()
            return (node.start, after + lowered, text[after].upper() if lowered else "")
        if at:
            return (siblings[at - 1].end, node.end, "")
        if parent.kind == "entry":
            below = next(sibling for sibling in _children_with_text(parent) if sibling is not node)
            return (node.start, below.start, "")
    start = text.rfind("\n", 0, node.start) + 1
    if text[start : node.start].strip():
        return (node.start, node.end, "")
    end = text.find("\n", node.end)
    if end < 0 or text[node.end : end].strip():
        return (max(0, start - 1), node.end, "") if end < 0 else (node.start, node.end, "")
    above_blank = start == 0 or text[:start].endswith("\n\n")
    after = end + 1
    while above_blank and after < len(text) and text[after] == "\n":
        after += 1
    return (start, after, "")


def _children_with_text(node: Node) -> list[Node]:
    return [child for child in node.children if child.kind not in {"gap", "marker"}]


def _insertion(tree: Tree, at: Node, text: str, where: Where) -> Patch:
    if at.kind in _INLINE:
        space = "" if text[-1:] in _WIDE_STOPS or tree.text_of(at)[-1:] in _WIDE_STOPS else " "
        place = at.end if where == "after" else at.start
        return (place, place, space + text if where == "after" else text + space)
    line = tree.text.rfind("\n", 0, at.start) + 1
    indent = tree.text[line : at.start]
    indent = indent if not indent.strip() else ""
    if at.kind == "entry":
        marker = tree.text[at.start : _content_start(tree, at)]
        below = "\n" + indent + " " * len(marker)
        text = marker + _unmark(text).replace("\n", below)
    else:
        text = text.replace("\n", "\n" + indent)
    joint = _joint(tree, at)
    if where == "after":
        return (at.end, at.end, joint + indent + text)
    return (at.start, at.start, text + joint + indent)


def _joint(tree: Tree, at: Node) -> str:
    """The line breaks between a node and its neighbours."""
    parent = tree.parent(at)
    near = parent.children if parent is not None else ()
    breaks = (
        tree.text_of(gap).count("\n")
        for gap in near
        if gap.kind == "gap" and (gap.start == at.end or gap.end == at.start)
    )
    return "\n" * min(2, next(filter(None, breaks), 1))


def _content_start(tree: Tree, entry: Node) -> int:
    marker = MARKER.match(tree.text_of(entry))
    return entry.start + (marker.start("rest") if marker else 0)


def _unmark(text: str) -> str:
    marker = MARKER.match(text)
    return text[marker.start("rest") :] if marker and not marker["word"] else text


def _patch(text: str, patches: Iterable[Patch]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(patches):
        if start < at:
            continue
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


class MergeError(ValueError):
    """Two texts change the same statement of a third one."""


@dataclass(frozen=True, slots=True)
class AtomChange:
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
class TextComparison:
    """Two texts, atom by atom. Numbers that follow from an order are no change."""

    before: Tree
    after: Tree

    @cached_property
    def changes(self) -> tuple[AtomChange, ...]:
        """The changes, in the order of the text after."""
        return tuple(
            change
            for (_, b), change in zip(self._match.order, self._steps, strict=True)
            if change is not None and (b is not None or change.kind == "removed")
        )

    @cached_property
    def instead(self) -> dict[int, AtomChange]:
        """By the id of an added change what was removed in that very place."""
        changes: dict[int, AtomChange] = {}
        for first, second in pairwise(self._steps):
            if first and second and first.kind == "removed" and second.kind == "added":
                changes[id(second)] = first
        return changes

    @property
    def removed(self) -> tuple[str, ...]:
        """The words of atoms that are gone, or stand in other words."""
        return tuple(
            self.before.text_of(change.was)
            for change in self.changes
            if change.was and change.kind != "moved"
        )

    @property
    def added(self) -> tuple[str, ...]:
        """The words of atoms that are new, or stand in other words."""
        return tuple(
            self.after.text_of(change.now)
            for change in self.changes
            if change.now and change.kind != "moved"
        )

    def compose(self, changes: Collection[AtomChange]) -> str:
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
        return renumber(self.before, _assemble((self.before, self.after), items))

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
                messages.append(self.before.text_of(atom))
        return tuple(messages)

    @cached_property
    def _match(self) -> Match:
        return match(self.before, self.after)

    @cached_property
    def _steps(self) -> tuple[AtomChange | None, ...]:
        """For every place in the order of atoms the change there; a move is at both its places."""
        was, now = self.before.atoms, self.after.atoms
        moves = {a: AtomChange("moved", was[a], now[b]) for a, b in self._match.moved.items()}
        came = {b: moves[a] for a, b in self._match.moved.items()}
        steps: list[AtomChange | None] = []
        for a, b in self._match.order:
            if a is not None and b is not None:
                same = self._match.same.get(a) == b
                steps.append(None if same else AtomChange("reworded", was[a], now[b]))
            elif b is not None:
                steps.append(came.get(b) or AtomChange("added", None, now[b]))
            elif a is not None:
                steps.append(moves.get(a) or AtomChange("removed", was[a], None))
        return tuple(steps)


def compare(before: Tree, after: Tree) -> TextComparison:
    """Compare two texts, statement by statement."""
    return TextComparison(before, after)


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
                    twin and trees[n + 1].text_of(trees[n + 1].atoms[twin[0]])
                    for n, twin in enumerate(kept)
                ]
                if lines[0] != lines[1]:
                    raise MergeError(f"{base.text_of(base.atoms[a])!r} is changed twice")
            places = {0: a} | {n + 1: twin[0] for n, twin in enumerate(kept) if twin is not None}
            if all(kept):
                items.append((places, changed[0] + 1 if changed else 0))
            else:
                gone = places
        for n, (_, added) in enumerate(sides):
            for b in added.get(a, ()):
                items.append((gone | {n + 1: b}, n + 1))
                gone = {}
    return renumber(base, _assemble(trees, items))


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


def _assemble(trees: Sequence[Tree], items: Iterable[_Item]) -> str:
    """The text of atoms out of several trees, each behind what is in front of it there."""
    out = ""
    last = dict.fromkeys(range(len(trees)), -1)
    places: dict[int, int] = {}
    for places, source in items:
        body = trees[source].text_of(trees[source].atoms[places[source]])
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
