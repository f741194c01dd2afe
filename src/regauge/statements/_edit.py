"""Edits of nodes; the numbers of lists and the references to them follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from regauge.statements._match import match, owner
from regauge.statements._numbering import number_text, numbering, references
from regauge.statements._parse import MARKER, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.statements._nodes import Node, Tree
    from regauge.statements._numbering import Numbered

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
    return renumber(tree, _patched(tree.text, [_deletion(tree, node)]))


def insert(tree: Tree, at: Node, text: str, where: Where = "after") -> str:
    r"""The text with another node next to one, written as that is.

    >>> tree = parse("1. Read.\n2. Answer.")
    >>> insert(tree, next(tree.nodes("entry")), "Think.")
    '1. Read.\n2. Think.\n3. Answer.'
    """
    return renumber(tree, _patched(tree.text, [_insertion(tree, at, text, where)]))


def replace(tree: Tree, node: Node, text: str) -> str:
    """The text with another wording of a node; an entry keeps its bullet or number."""
    start = node.start
    if node.kind == "entry":
        start, text = _content_start(tree, node), _unmarked(text)
    return renumber(tree, _patched(tree.text, [(start, node.end, text)]))


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
    return renumber(tree, _patched(tree.text, [gone, come]))


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
        if atom is None or twin is None or before.of(atom) != after.of(written[atom]):
            continue
        value = values.get(id(twin), reference.value)
        if value != reference.value:
            start = written[atom].start + reference.start - atom.start
            patches.append((start, start + reference.end - reference.start, str(value)))
    return _patched(text, patches)


def _numbers(
    before: Tree, after: Tree, twins: dict[int, Node]
) -> tuple[list[Patch], dict[int, int]]:
    """The changed numbers of a later text, and the number of each of its numbered nodes."""
    having: dict[int, tuple[int, Numbered]] = {}
    for chain in numbering(after):
        having |= {id(item.node): (len(chain.items), item) for item in chain.items}
    values = {key: each.value for key, (_, each) in having.items()}
    origin = {id(its): key for key, its in twins.items()}
    chains = numbering(before)
    chain_of = {
        id(item.node): number for number, chain in enumerate(chains) for item in chain.items
    }
    counted = {n for n, chain in enumerate(chains) if len(chain.items) > 1}
    mixed = _mixed(before, chain_of)
    following: dict[int, int] = {}
    patches: list[Patch] = []
    for group in _groups(after):
        numbered = [having[id(node)][1] for node in group if id(node) in having]
        chains_now = [chain_of.get(origin.get(id(each.node), 0)) for each in numbered]
        held = [number for number in chains_now if number is not None and number not in mixed]
        if len(numbered) != len(group) or not held:
            continue
        number = max(sorted(set(held)), key=held.count)
        if number not in counted:
            continue
        value = following.get(number, chains[number].first)
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


def _mixed(tree: Tree, chain_of: dict[int, int]) -> set[int]:
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
        space = "" if text[-1:] in _WIDE_STOPS or tree.of(at)[-1:] in _WIDE_STOPS else " "
        place = at.end if where == "after" else at.start
        return (place, place, space + text if where == "after" else text + space)
    line = tree.text.rfind("\n", 0, at.start) + 1
    indent = tree.text[line : at.start]
    indent = indent if not indent.strip() else ""
    if at.kind == "entry":
        marker = tree.text[at.start : _content_start(tree, at)]
        below = "\n" + indent + " " * len(marker)
        text = marker + _unmarked(text).replace("\n", below)
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
    for gap in near:
        if (
            gap.kind == "gap"
            and (gap.start == at.end or gap.end == at.start)
            and "\n" in tree.of(gap)
        ):
            return "\n" * min(2, tree.of(gap).count("\n"))
    return "\n"


def _content_start(tree: Tree, entry: Node) -> int:
    marker = MARKER.match(tree.of(entry))
    return entry.start + (marker.start("rest") if marker else 0)


def _unmarked(text: str) -> str:
    marker = MARKER.match(text)
    return text[marker.start("rest") :] if marker and not marker["word"] else text


def _patched(text: str, patches: Iterable[Patch]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(patches):
        if start < at:
            continue
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])
