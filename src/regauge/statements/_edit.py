"""Edits, compares and merges texts by node; keeps list numbers and references to them in step."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.statements._parse import FORMS, normalise, parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from regauge.statements._parse import Node, Tree


_ROMAN = (
    *("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"),
    *("x", "xi", "xii", "xiii", "xiv", "xv"),
)
_HAN = (*"一二三四五六七八九十", *(f"十{numeral}" for numeral in "一二三四五六七八九"), "二十")
# Numerals by the one that begins them; a single letter may be a Roman number, too.
_NUMERALS = {
    "①": tuple("①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"),
    "一": _HAN,
    "i": _ROMAN,
    "I": tuple(map(str.upper, _ROMAN)),
    "a": tuple(ascii_lowercase),
    "A": tuple(ascii_uppercase),
}


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number of an entry or heading, with its range in the text."""

    node: Node
    value: int
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Numbered nodes that count up by one."""

    items: tuple[Numbered, ...]
    word: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a numbered node.

    Attributes:
        target: The node; None if no node has that number.
        kind: The numerals, as in `Numbered`.
    """

    start: int
    end: int
    value: int
    target: Node | None
    kind: str = "1"


def numbering(tree: Tree) -> tuple[Chain, ...]:
    """The numbered nodes of a text, in chains that count up."""
    chains: list[list[Numbered]] = []
    words: list[str] = []
    last: dict[tuple[object, ...], int] = {}
    for node in tree.nodes("entry", "heading"):
        options, style, word = _read_numbers(tree, node)
        continued_chain = next(
            (
                (last[option.kind, *style], option)
                for option in options
                if (option.kind, *style) in last
                and chains[last[option.kind, *style]][-1].value == option.value - 1
            ),
            None,
        )
        if continued_chain is not None:
            chains[continued_chain[0]].append(continued_chain[1])
            continue
        if options:
            first = next((option for option in options if option.value == 1), options[0])
            last[first.kind, *style] = len(chains)
            chains.append([first])
            words.append(word)
    return tuple(Chain(tuple(items), word) for items, word in zip(chains, words, strict=True))


def number_text(kind: str, value: int) -> str | None:
    """A number in a list's numerals; None if it has no such numeral."""
    if kind == "1":
        return str(value)
    if kind == "１":
        return "".join(chr(ord("０") + int(digit)) for digit in str(value))
    numerals = _NUMERALS[kind]
    return numerals[value - 1] if value <= len(numerals) else None


def references(tree: Tree) -> tuple[Reference, ...]:
    """The references of a text to its steps, rules and sections."""
    chains = [chain for chain in numbering(tree) if len(chain.items) > 1]
    found_references: list[Reference] = []
    markers = {place for c in chains for item in c.items for place in range(item.start, item.end)}
    for match in FORMS.reference.finditer(tree.text):
        if match.start("first") in markers:
            continue
        word = (match["word"] or "").casefold()
        for number in re.finditer(r"\d+", tree.text[match.start("first") : match.end()]):
            start = match.start("first") + number.start()
            items = [i for chain in chains for i in chain.items if i.value == int(number[0])]
            item = _target(chains, items, word, match.start())
            end = start + len(number[0])
            node = item.node if item is not None else None
            found_references.append(Reference(start, end, int(number[0]), node))
    return (*found_references, *_find_mentions(tree, chains))


def _find_mentions(tree: Tree, chains: list[Chain]) -> Iterator[Reference]:
    """The references to a step by its letter, or by its number in brackets."""
    text = tree.text
    starts = {item.start for chain in chains for item in chain.items}
    for match in FORMS.mention.finditer(text):
        group = "letter" if match["letter"] else "inner"
        items = [
            item
            for chain in chains
            for item in chain.items
            if text[item.start : item.end] == match[group]
            # Other numbers in brackets are not steps.
            and (not match[group].isdecimal() or text[item.end : item.end + 1] == match["close"])
        ]
        word = (match["word"] or "").casefold()
        item = _target(chains, items, word, match.start())
        if item is not None and match.start(group) not in starts:
            yield Reference(*match.span(group), item.value, item.node, item.kind)


def _target(
    chains: list[Chain], items: Collection[Numbered], word: str, offset: int
) -> Numbered | None:
    """The best of some items: in a chain with the same word, the chain around, or the longest."""

    def rank(chain: Chain) -> tuple[bool, bool, bool, int]:
        has_word = bool(word) and chain.word.casefold()[:4] == word[:4]
        heads = chain.items[0].node.kind == "heading"
        sectional = word[:4] in {"sect", "absc", "part", "para"}
        around = chain.items[0].node.start <= offset < chain.items[-1].node.end
        return has_word, heads == sectional, around, len(chain.items)

    pairs = [(chain, item) for chain in chains for item in chain.items if item in items]
    best = max(pairs, key=lambda pair: rank(pair[0]), default=None)
    return best[1] if best is not None else None


def _read_numbers(tree: Tree, node: Node) -> tuple[list[Numbered], tuple[object, ...], str]:
    """The possible numbers of a node, the style of its marker, and the word before."""
    text = tree.text_of(node)
    if node.kind == "heading":
        match = FORMS.headed.match(text)
        if match is None:
            return [], (), ""
        word = match["word"] or ""
        return list(_values(node, match, "number")), ("heading", node.level, word), word
    match, offset = FORMS.marker.match(text.split("\n", 1)[0]), 0
    if match is not None and not _numeral_group(match):  # a bullet, as in "- Step 1: Read."
        offset = match.start("rest")
        match = FORMS.marker.match(match["rest"])
    group = _numeral_group(match) if match is not None else ""
    if match is None or not group:
        return [], (), ""
    indent = node.start - (tree.text.rfind("\n", 0, node.start) + 1)
    prefix = (match["number"] or "").rpartition(".")[0]
    ends = match["close"] or match["dot"] or match["wide"]
    style = (indent, match["open"], ends, match["word"], prefix)
    return list(_values(node, match, group, offset)), style, match["word"] or ""


def _numeral_group(match: re.Match[str]) -> str:
    """The group of a marker that has its number; empty for a bullet."""
    return next((name for name in ("nth", "circled", "number") if match[name]), "")


def _values(node: Node, match: re.Match[str], group: str, offset: int = 0) -> Iterator[Numbered]:
    text = match[group].rpartition(".")[2]
    start = node.start + offset + match.end(group) - len(text)
    if text.isdecimal():
        kinds = [("1" if text.isascii() else "１", int(text))]
    else:
        kinds = [(kind, its.index(text) + 1) for kind, its in _NUMERALS.items() if text in its]
    for kind, value in kinds:
        yield Numbered(node, value, kind, start, start + len(text))


# Sentences that share less than half of their words are two, not one reworded.
_ALIKE = 0.5
# Enough characters to distinguish two blocks.
_BLOCK_START_CHARS = 60
_WORDS = re.compile(r"\w+")
_ENDS = ".!?\u2026\u3002\uff01\uff1f"
_SENTENCE_END = re.compile(rf"[{_ENDS}]+")
_LAST_MARK = re.compile(rf"[{_ENDS}]+\Z")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_LABEL = re.compile(r"\W*(?P<label>\w[^:：|\n]{0,40}?)\W?\s*[:：|]")
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Match:
    """A matching of the atoms of two trees, by their indexes.

    Attributes:
        order: The atoms of both trees in one order; equal and reworded atoms come as a pair.
        moves: Atoms before, each with its equal at another place after.
        equal: The pairs with the same statement, including moves.
    """

    order: tuple[tuple[int | None, int | None], ...]
    moves: dict[int, int]
    equal: dict[int, int]


@lru_cache(maxsize=256)
def match(before: Tree, after: Tree) -> Match:
    """Match the atoms of two texts; numbers that follow from the order are ignored."""
    old, new = _keys(before), _keys(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    opcodes = matcher.get_opcodes()
    equal = {
        a_from + n: b_from + n
        for tag, a_from, a_to, b_from, _ in opcodes
        if tag == "equal"
        for n in range(a_to - a_from)
    }
    old_atoms = [n for n in range(len(old)) if n not in equal]
    new_atoms = [n for n in range(len(new)) if n not in equal.values()]
    moves: dict[int, int] = {}
    for first in old_atoms:
        twin = next(
            (n for n in new_atoms if new[n] == old[first] and n not in moves.values()), None
        )
        if twin is not None:
            moves[first] = twin
    equal |= moves
    order: list[tuple[int | None, int | None]] = []
    for tag, a_from, a_to, b_from, b_to in opcodes:
        if tag == "equal":
            order += zip(range(a_from, a_to), range(b_from, b_to), strict=True)
            continue
        old_atoms = [n for n in range(a_from, a_to) if n not in moves]
        new_atoms = [n for n in range(b_from, b_to) if n not in moves.values()]
        pairs = _find_reworded(before, old_atoms, after, new_atoms)
        a, b = a_from, b_from
        for first, second in [*pairs, (a_to, b_to)]:
            # A replacement is placed behind what it replaces.
            for n in range(max(first - a, second - b)):
                order += [(a + n, None)] if a + n < first else []
                order += [(None, b + n)] if b + n < second else []
            if first < a_to:
                order.append((first, second))
            a, b = first + 1, second + 1
    pairs = [(a, b) for a, b in order if a is not None and b is not None]
    # A reference whose step changed is still the same statement.
    old, new = ([labelled(tree, atom) for atom in tree.atoms] for tree in (before, after))
    equal |= {a: b for a, b in pairs if old[a] == new[b]}
    return Match(tuple(order), moves, equal)


def owner(tree: Tree, atom: Node) -> Node | None:
    """The numbered node of an atom: a heading, or the entry around the atom."""
    if atom.kind == "heading":
        return atom
    return next((node for node in reversed(tree.path(atom)) if node.kind == "entry"), None)


@lru_cache(maxsize=256)
def _keys(tree: Tree) -> list[str]:
    """The keys of the atoms: references by their target, headings without their number."""
    targets: list[tuple[int, int, str]] = []
    for reference in references(tree):
        if reference.target is not None:
            node = reference.target
            start = _content_start(tree, node) if node.kind == "entry" else node.start
            target = normalise(tree.text[start : node.end].split("\n", 1)[0])
            targets.append((reference.start, reference.end, f"<{target.lstrip('0123456789.) ')}>"))
    for chain in numbering(tree):
        targets += [
            (item.start, item.end, "#") for item in chain.items if item.node.kind == "heading"
        ]
    targets.sort()
    keys: list[str] = []
    for atom in tree.atoms:
        parts: list[str] = []
        first = position = atom.end - len(labelled(tree, atom))
        for start, end, text in targets:
            if first <= start and end <= atom.end:
                parts += [tree.text[position:start], text]
                position = end
        key = "".join([*parts, tree.text[position : atom.end]])
        # Marks alone, such as a fence without text, are their own key; data is not a heading.
        kind = "data" if atom.kind == "data" else atom.kind in {"sentence", "clause"}
        keys.append(f"{kind} {normalise(key) or key}{_block_start(tree, atom)}")
    return keys


def _block_start(tree: Tree, atom: Node) -> str:
    """The beginning of a tag's block; it distinguishes the tags of blocks with the same name."""
    block = tree.parent(atom)
    if atom.kind != "tag" or block is None or block.kind != "block":
        return ""
    return normalise(tree.text[block.children[0].end : block.children[-1].start])[
        :_BLOCK_START_CHARS
    ]


def _find_reworded(
    before: Tree, old_atoms: Sequence[int], after: Tree, new_atoms: Sequence[int]
) -> list[tuple[int, int]]:
    """Pairs of atoms with the same label or similar wording, in the order of both texts."""
    pairs: list[tuple[int, int]] = []
    last = -1
    labels = _unique_labels(before, old_atoms), _unique_labels(after, new_atoms)
    for number in old_atoms:
        atom = before.atoms[number]
        label = labels[0].get(number)
        near = [
            (
                (label is not None and label == labels[1].get(n))
                + alike(before.text_of(atom), after.text_of(after.atoms[n])),
                -n,
            )
            for n in new_atoms
            if n > last
            and (after.atoms[n].kind == atom.kind or {after.atoms[n].kind, atom.kind} <= _INLINE)
        ]
        best = max(near, default=(0.0, 0))
        if best[0] >= _ALIKE:
            last = -best[1]
            pairs.append((number, last))
    return pairs


def _unique_labels(tree: Tree, atoms: Iterable[int]) -> dict[int, str]:
    """The labels of atoms such as `red: it burns` or `| red | it burns |`, if they are unique."""
    labels = {n: label for n in atoms if (label := label_of(tree, tree.atoms[n]))}
    counts = Counter(labels.values())
    return {n: label for n, label in labels.items() if counts[label] == 1}


def label_of(tree: Tree, atom: Node) -> str:
    """The label of an atom, in lower case; empty without one."""
    label = _LABEL.match(labelled(tree, atom))
    return normalise(label["label"]) if label else ""


def labelled(tree: Tree, atom: Node) -> str:
    """The text of an atom, with the label of an enumeration before its first entry.

    >>> tree = parse("kind: red, green or blue")
    >>> [labelled(tree, atom) for atom in tree.atoms]
    ['kind: red', 'green or blue']
    """
    sentence = tree.parent(atom) if atom.kind == "clause" else None
    first = sentence.children[0] if sentence is not None else atom
    starts_sentence = first.kind == "gap" and first.end == atom.start
    return tree.text[first.start if starts_sentence else atom.start : atom.end]


def alike(first: str, second: str) -> float:
    """The similarity of two statements, from 0 to 1, by words or unspaced characters."""
    old, new = tokens(first), tokens(second)
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def tokens(text: str) -> list[str]:
    """The words of a text in lower case; its characters, in scripts without spaces."""
    lower = text.casefold()
    return list(lower) if _WIDE.search(lower) else _WORDS.findall(lower)


Position = Literal["after", "before"]
Patch = tuple[int, int, str]
_INLINE = frozenset({"sentence", "clause"})
_WIDE_STOPS = frozenset("。！？．")


def delete(tree: Tree, node: Node) -> str:
    r"""The text without a node, and without parents that would be empty.

    >>> tree = parse("1. Read.\n2. Think.\n3. Reply as in step 2.")
    >>> delete(tree, next(tree.nodes("entry")))
    '1. Think.\n2. Reply as in step 1.'
    """
    return renumber(tree, _patch(tree.text, [_deletion(tree, node)]))


def insert(tree: Tree, anchor: Node, text: str, position: Position = "after") -> str:
    r"""The text with a new node next to another one, in its format.

    >>> tree = parse("1. Read.\n2. Reply.")
    >>> insert(tree, next(tree.nodes("entry")), "Think.")
    '1. Read.\n2. Think.\n3. Reply.'
    """
    return renumber(tree, _patch(tree.text, [_insertion(tree, anchor, text, position)]))


def replace(tree: Tree, node: Node, text: str) -> str:
    """The text with a reworded node; an entry keeps its bullet or number."""
    start = node.start
    if node.kind == "entry":
        start, text = _content_start(tree, node), _unmark(text)
    return renumber(tree, _patch(tree.text, [(start, node.end, text)]))


def move(tree: Tree, node: Node, anchor: Node, position: Position = "after") -> str:
    r"""The text with a node in another place.

    >>> tree = parse("1. Read.\n2. Think.\n3. Reply.")
    >>> first, _, last = tree.nodes("entry")
    >>> move(tree, last, first, "before")
    '1. Reply.\n2. Read.\n3. Think.'
    """
    start = _content_start(tree, node) if node.kind == "entry" else node.start
    deletion = _deletion(tree, node)
    insertion = _insertion(tree, anchor, tree.text[start : node.end], position)
    return renumber(tree, _patch(tree.text, [deletion, insertion]))


def renumber(before: Tree, text: str) -> str:
    r"""A later text with renumbered lists and updated references.

    A list is renumbered if its entries counted up in the text before.

    >>> renumber(parse("1. Read.\n2. Reply."), "1. Read.\n1. Think.\n2. Reply.")
    '1. Read.\n2. Think.\n3. Reply.'
    """
    if text == before.text:
        return text
    chains = numbering(before)
    if all(len(chain.items) < 2 for chain in chains):  # noqa: PLR2004 - nothing counts up
        return text
    after = parse(text)
    matching = match(before, after)
    pairs = [
        *matching.equal.items(),
        *((a, b) for a, b in matching.order if a is not None and b is not None),
    ]
    twin_atoms = {before.atoms[a]: after.atoms[b] for a, b in pairs}
    # A moved atom with a reference matches by its words alone: numbers are those of before.
    twin_ids = {id(twin) for twin in twin_atoms.values()}
    unmatched_atoms = {
        after.text_of(twin): twin for twin in after.atoms if id(twin) not in twin_ids
    }
    for before_atom in before.atoms:
        moved_atom = unmatched_atoms.get(before.text_of(before_atom))
        if before_atom not in twin_atoms and moved_atom is not None:
            twin_atoms[before_atom] = moved_atom
    twins = {
        id(old): new
        for atom, twin in twin_atoms.items()
        if (old := owner(before, atom)) and (new := owner(after, twin))
    }
    patches, values = _numbers(before, after, twins)
    for reference in references(before):
        atom = next((atom for atom in twin_atoms if atom.start <= reference.start < atom.end), None)
        twin = twins.get(id(reference.target)) if reference.target is not None else None
        if atom is None or twin is None or before.text_of(atom) != after.text_of(twin_atoms[atom]):
            continue
        value = values.get(id(twin), reference.value)
        number = number_text(reference.kind, value)
        if value != reference.value and number is not None:
            start = twin_atoms[atom].start + reference.start - atom.start
            patches.append((start, start + reference.end - reference.start, number))
    return _patch(text, patches)


def _numbers(
    before: Tree, after: Tree, twins: dict[int, Node]
) -> tuple[list[Patch], dict[int, int]]:
    """Patches for the numbers in a later text, and the new number by node."""
    having = {id(item.node): item for chain in numbering(after) for item in chain.items}
    values = {key: item.value for key, item in having.items()}
    origin = {id(its): key for key, its in twins.items()}
    chains = numbering(before)
    chain_of = {
        id(item.node): number for number, chain in enumerate(chains) for item in chain.items
    }
    counting_chains = {n for n, chain in enumerate(chains) if len(chain.items) > 1}
    mixed_chains = _find_mixed_chains(before, chain_of)
    following: dict[int, int] = {}
    patches: list[Patch] = []
    for group in _groups(after):
        numbered = [having[id(node)] for node in group if id(node) in having]
        chains_now = [chain_of.get(origin.get(id(item.node), 0)) for item in numbered]
        group_chains = [
            number for number in chains_now if number is not None and number not in mixed_chains
        ]
        if len(numbered) != len(group) or not group_chains:
            continue
        number = max(sorted(set(group_chains)), key=group_chains.count)
        if number not in counting_chains:
            continue
        value = following.get(number, chains[number].items[0].value)
        for item in numbered:
            digits = number_text(numbered[0].kind, value)
            if value != item.value and digits is not None:
                patches.append((item.start, item.end, digits))
            values[id(item.node)] = value
            value += 1
        following[number] = value
    return patches, values


def _groups(tree: Tree) -> Iterable[list[Node]]:
    """Yield the entries of each list, and the numbered headings of each depth, in order."""
    for node in tree.nodes("list"):
        yield [child for child in node.children if child.kind == "entry"]
    for above in tree.nodes("text", "section", "block"):
        heads = [child.children[0] for child in above.children if child.kind == "section"]
        for level in sorted({head.level for head in heads}):
            numbered = {id(item.node) for chain in numbering(tree) for item in chain.items}
            group = [head for head in heads if head.level == level and id(head) in numbered]
            if group:
                yield group


def _find_mixed_chains(tree: Tree, chain_of: dict[int, int]) -> set[int]:
    """The chains that share a list with others, so the list does not count up."""
    mixed_chains: set[int] = set()
    for group in _groups(tree):
        chains = {chain_of[id(node)] for node in group if id(node) in chain_of}
        if len(chains) > 1:
            mixed_chains |= chains
    return mixed_chains


def _deletion(tree: Tree, node: Node) -> Patch:
    """The patch that deletes a node."""
    parent = tree.parent(node)
    while parent is not None and parent.kind != "text" and _children_with_text(parent) == [node]:
        node, parent = parent, tree.parent(parent)
    text = tree.text
    if node.kind in _INLINE and parent is not None:
        siblings = [sibling for sibling in _children_with_text(parent) if sibling.kind in _INLINE]
        index = siblings.index(node) if node in siblings else 0
        following = siblings[index + 1 : index + 2]
        if following and not (index and "\n" in text[node.end : following[0].start]):
            after = following[0].start
            lowered = node.kind == "clause" and index == 0 and text[node.start].isupper()
            return (node.start, after + lowered, text[after].upper() if lowered else "")
        if index:
            return (siblings[index - 1].end, node.end, "")
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


def _insertion(tree: Tree, anchor: Node, text: str, position: Position) -> Patch:
    if anchor.kind in _INLINE:
        space = "" if text[-1:] in _WIDE_STOPS or tree.text_of(anchor)[-1:] in _WIDE_STOPS else " "
        offset = anchor.end if position == "after" else anchor.start
        return (offset, offset, space + text if position == "after" else text + space)
    line = tree.text.rfind("\n", 0, anchor.start) + 1
    indent = tree.text[line : anchor.start]
    indent = indent if not indent.strip() else ""
    if anchor.kind == "entry":
        marker = tree.text[anchor.start : _content_start(tree, anchor)]
        below = "\n" + indent + " " * len(marker)
        text = marker + _unmark(text).replace("\n", below)
    else:
        text = text.replace("\n", "\n" + indent)
    joint = _joint(tree, anchor)
    if position == "after":
        return (anchor.end, anchor.end, joint + indent + text)
    return (anchor.start, anchor.start, text + joint + indent)


def _joint(tree: Tree, node: Node) -> str:
    """The line breaks between a node and its neighbours."""
    parent = tree.parent(node)
    near = parent.children if parent is not None else ()
    breaks = (
        tree.text_of(gap).count("\n")
        for gap in near
        if gap.kind == "gap" and (gap.start == node.end or gap.end == node.start)
    )
    return "\n" * min(2, next(filter(None, breaks), 1))


def _content_start(tree: Tree, entry: Node) -> int:
    marker = FORMS.marker.match(tree.text_of(entry))
    return entry.start + (marker.start("rest") if marker else 0)


def _unmark(text: str) -> str:
    marker = FORMS.marker.match(text)
    return text[marker.start("rest") :] if marker and not marker["word"] else text


def _patch(text: str, patches: Iterable[Patch]) -> str:
    parts: list[str] = []
    offset = 0
    for start, end, new in sorted(patches):
        if start < offset:
            continue
        parts += [text[offset:start], new]
        offset = end
    return "".join([*parts, text[offset:]])


class MergeError(ValueError):
    """Two texts change the same statement."""


@dataclass(frozen=True, slots=True)
class AtomChange:
    """The change of one atom between two texts.

    Attributes:
        was: The atom in the text before; None if added.
        now: The atom in the text after; None if removed.
    """

    kind: Literal["added", "removed", "reworded", "moved"]
    was: Node | None
    now: Node | None


# A piece of a composed text: its atom's index by tree, and the tree whose words it has.
_Item: TypeAlias = tuple[dict[int, int], int]


@dataclass(frozen=True)
class TextComparison:
    """A comparison of two texts by atom; numbers that follow from the order are ignored."""

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
    def replaced_by_added(self) -> dict[int, AtomChange]:
        """The change removed at the same place, by the id of the added change."""
        changes: dict[int, AtomChange] = {}
        for first, second in pairwise(self._steps):
            if first and second and first.kind == "removed" and second.kind == "added":
                changes[id(second)] = first
        return changes

    @property
    def removed_texts(self) -> tuple[str, ...]:
        """The old texts of removed and reworded atoms."""
        return tuple(
            self.old_text(change)
            for change in self.changes
            if change.was and change.kind != "moved"
        )

    @property
    def added_texts(self) -> tuple[str, ...]:
        """The new texts of added and reworded atoms."""
        return tuple(
            self.new_text(change)
            for change in self.changes
            if change.now and change.kind != "moved"
        )

    def old_text(self, change: AtomChange) -> str:
        """The old text of an atom, with its label if that changed too; empty for an added one."""
        return self._texts(change)[0]

    def new_text(self, change: AtomChange) -> str:
        """The new text of an atom, with its label if that changed too; empty for a removed one."""
        return self._texts(change)[1]

    def _texts(self, change: AtomChange) -> tuple[str, str]:
        sides = ((self.before, change.was), (self.after, change.now))
        texts = [tree.text_of(node) if node else "" for tree, node in sides]
        full = [labelled(tree, node) if node else "" for tree, node in sides]
        labels = [label.removesuffix(text) for label, text in zip(full, texts, strict=True)]
        was, now = texts if labels[0] == labels[1] else full
        return was, now

    def compose(self, changes: Collection[AtomChange]) -> str:
        """The text before with some of the changes, renumbered."""
        selected_ids = set(map(id, changes))
        items: list[_Item] = []
        replaced_place: dict[int, int] = {}
        for (a, b), change in zip(self._match.order, self._steps, strict=True):
            is_selected = id(change) in selected_ids
            if a is not None and b is not None:
                items.append(({0: a, 1: b}, int(is_selected)))
            elif b is not None and is_selected:
                items.append((replaced_place | {1: b}, 1))
            elif a is not None and not is_selected:
                items.append(({0: a}, 0))
            # A replacement is placed where the removed atom was.
            replaced_place = {0: a} if a is not None and b is None and is_selected else {}
        return renumber(self.before, _assemble((self.before, self.after), items))

    @cached_property
    def misled(self) -> tuple[str, ...]:
        """The unchanged statements whose references now point to another step."""
        twins: dict[int, Node | None] = {}
        for a, b in self._match.equal.items():
            twins[id(owner(self.before, self.before.atoms[a]))] = owner(
                self.after, self.after.atoms[b]
            )
        twin_ids = {id(node) for node in twins.values()}
        targets_after = {
            (self.after.leaf_at(reference.start), reference.value): reference.target
            for reference in references(self.after)
        }
        twin_atoms = {
            self.before.atoms[a]: self.after.atoms[b] for a, b in self._match.equal.items()
        }
        misled_texts: list[str] = []
        for reference in references(self.before):
            atom = self.before.leaf_at(reference.start)
            twin = twin_atoms.get(atom)
            text = self.before.text_of(atom)
            if reference.target is None or twin is None or text != self.after.text_of(twin):
                continue
            target = targets_after.get((twin, reference.value))
            # A new step may replace the old target.
            is_new = target is not None and id(target) not in twin_ids
            if target is None or not (is_new or target is twins.get(id(reference.target))):
                misled_texts.append(text)
        return tuple(misled_texts)

    @cached_property
    def _match(self) -> Match:
        return match(self.before, self.after)

    @cached_property
    def _steps(self) -> tuple[AtomChange | None, ...]:
        """The change at each place in the order of atoms; a move is at both its places."""
        was, now = self.before.atoms, self.after.atoms
        moves = {a: AtomChange("moved", was[a], now[b]) for a, b in self._match.moves.items()}
        moves_after = {b: moves[a] for a, b in self._match.moves.items()}
        steps: list[AtomChange | None] = []
        for a, b in self._match.order:
            if a is not None and b is not None:
                is_equal = self._match.equal.get(a) == b
                steps.append(None if is_equal else AtomChange("reworded", was[a], now[b]))
            elif b is not None:
                steps.append(moves_after.get(b) or AtomChange("added", None, now[b]))
            elif a is not None:
                steps.append(moves.get(a) or AtomChange("removed", was[a], None))
        return tuple(steps)


def compare(before: Tree, after: Tree) -> TextComparison:
    """Compare two texts, statement by statement."""
    return TextComparison(before, after)


def merge(base: Tree, first: Tree, second: Tree) -> str:
    """Merge the changes that two texts make to a base.

    >>> from regauge.statements import parse
    >>> texts = "Be brief. Use JSON.", "Be brief. Use YAML.", "Be kind. Use JSON."
    >>> merge(*map(parse, texts))
    'Be kind. Use YAML.'

    Raises:
        MergeError: Both texts change the same statement.
    """
    trees = (base, first, second)
    sides = [_side(base, tree) for tree in trees[1:]]
    items: list[_Item] = []
    for a in range(-1, len(base.atoms)):
        replaced_places: dict[int, int] = {}
        if a >= 0:
            twins = [side[0].get(a) for side in sides]
            changed = [n for n, twin in enumerate(twins) if twin is None or not twin[1]]
            if len(changed) > 1:
                lines = [
                    twin and trees[n + 1].text_of(trees[n + 1].atoms[twin[0]])
                    for n, twin in enumerate(twins)
                ]
                if lines[0] != lines[1]:
                    raise MergeError(f"{base.text_of(base.atoms[a])!r} is changed twice")
            places = {0: a} | {n + 1: twin[0] for n, twin in enumerate(twins) if twin is not None}
            if all(twins):
                items.append((places, changed[0] + 1 if changed else 0))
            else:
                replaced_places = places
        for n, (_, additions) in enumerate(sides):
            for b in additions.get(a, ()):
                items.append((replaced_places | {n + 1: b}, n + 1))
                replaced_places = {}
    return renumber(base, _assemble(trees, items))


def _side(base: Tree, tree: Tree) -> tuple[dict[int, tuple[int, bool]], dict[int, list[int]]]:
    """The twin of each base atom, with whether it is unchanged, and the atoms added behind it."""
    matching = match(base, tree)
    twins: dict[int, tuple[int, bool]] = {}
    additions: dict[int, list[int]] = {}
    last = -1
    for a, b in matching.order:
        if a is not None:
            last = a
            if b is not None:
                twins[a] = b, matching.equal.get(a) == b
        elif b is not None:
            additions.setdefault(last, []).append(b)
    return twins, additions


def _assemble(trees: Sequence[Tree], items: Iterable[_Item]) -> str:
    """The text of atoms from several trees, each with the gap before it in its tree."""
    out = ""
    last = dict.fromkeys(range(len(trees)), -1)
    places: dict[int, int] = {}
    neighbours: dict[int, int] = {}
    mark: re.Match[str] | None = None
    for places, source in items:
        body = trees[source].text_of(trees[source].atoms[places[source]])
        # The gap has the marks that end the text before it. A reworded atom keeps its own, but for
        # the layout of its line.
        order = sorted(places, key=lambda tree: (tree not in neighbours, tree != source, tree))
        following = [tree for tree in order if last[tree] == places[tree] - 1]
        # The first atom of a text follows nothing.
        if following and bool(out) == bool(places[following[0]]):
            home = following[0]
            before = _gap(trees[home], places[home])
            mark = mark or (
                _own_mark(trees[home], places[home] - 1) if home in neighbours else None
            )
            # Only there does a clause begin its sentence.
            cased = trees[home].text_of(trees[home].atoms[places[home]])
            body = cased if source not in following and cased[1:] == body[1:] else body
            if 0 in following and (0 in neighbours or not out):
                first = _gap(trees[0], places[0])
                before = first if _shape(first) == _shape(before) else before
        else:
            before = _gap_of_orphan(trees[source], places[source])
            before = before if out else before.lstrip("\n ")
        begins = not out and places[source] > 0 and not _LETTERS.search(before)
        if begins and body[:1].islower() and trees[source].atoms[places[source]].kind == "clause":
            body = body[0].upper() + body[1:]
        out = _join_gap(out, mark, before) + body
        # A clause is without the mark that ends its sentence.
        mark = _SENTENCE_END.match(_gap_after(trees[source], places[source]))
        last |= places
        neighbours = places
    ends = [tree for tree in sorted(places) if places[tree] == len(trees[tree].atoms) - 1]
    ending = trees[ends[0] if ends else 0]
    mark = mark or (_own_mark(ending, len(ending.atoms) - 1) if ends else None)
    return _join_gap(out, mark, ending.text[ending.atoms[-1].end if ending.atoms else 0 :])


def _join_gap(text: str, mark: re.Match[str] | None, gap: str) -> str:
    """A text and the gap behind it, with one mark that ends the sentence before the gap."""
    own_mark = _SENTENCE_END.match(gap)
    if text.endswith(tuple(_ENDS)):
        return text + gap[own_mark.end() if own_mark else 0 :]
    is_between = not gap.strip() or "\n" in gap[: len(gap) - len(gap.lstrip())]
    return text + (mark[0] if mark and not own_mark and is_between else "") + gap


def _own_mark(tree: Tree, number: int) -> re.Match[str] | None:
    """The mark at the end of an atom that is a whole sentence."""
    return _LAST_MARK.search(tree.text_of(tree.atoms[number]))


def _gap_after(tree: Tree, number: int) -> str:
    """The text behind an atom, to the next one."""
    following = tree.atoms[number + 1 :]
    return tree.text[tree.atoms[number].end : following[0].start if following else len(tree.text)]


def _shape(gap: str) -> str:
    """The words and line ends of a gap, which differ in marks alone if they are equal."""
    return re.sub(r"[^\w\n]|\d", "", gap)


def _gap(tree: Tree, number: int) -> str:
    """The text between an atom and the one before it."""
    start = tree.atoms[number - 1].end if number else 0
    return tree.text[start : tree.atoms[number].start]


def _gap_of_orphan(tree: Tree, number: int) -> str:
    """The gap before an atom whose neighbour is missing: it begins its line or entry."""
    for index in range(number, -1, -1):
        if "\n" in (gap := _gap(tree, index)) or not index:
            return gap if "\n" in gap else f"\n{gap}"
    return "\n"
