"""The changes of an edit in statements: units as a user counts them, losses, places."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.lexicon import Lexicon
from regauge.refine.edits import EditError, PromptText, count_words, ops_between
from regauge.statements import (
    MergeError,
    alike,
    compare,
    content_words,
    insert,
    merge,
    normalise,
    parse,
    renumber,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.refine.edits import Edit
    from regauge.statements import Change, Comparison, Node, Tree

_RE = Lexicon("regauge.refine", "changes")

# So much of a clause that is gone has another one of its sentence.
_RECAST = 0.5
# A renaming changes no more words than these in one statement.
_RENAMED_MAX = 3


Unit: TypeAlias = "list[tuple[int, Change]]"
"""One change as a user counts it: a moved step, a new example, a renamed key."""


def comparisons(before: PromptText, after: PromptText) -> tuple[Comparison, ...]:
    """Both texts, message by message."""
    if len(before.trees) != len(after.trees):
        raise EditError("messages were added or removed")
    return tuple(compare(was, now) for was, now in zip(before.trees, after.trees, strict=True))


def followed(before: PromptText, after: PromptText) -> PromptText:
    """A later text with numbers and references in step."""
    if len(before.messages) != len(after.messages):
        return after
    for index, tree in enumerate(before.trees):
        after = after.with_content(index, renumber(tree, after.messages[index].content))
    return after


def edit_between(edit: Edit, before: PromptText, after: PromptText) -> Edit:
    """An edit with the operations that lead to another text."""
    return replace(edit, ops=ops_between(before, after))


def merged(base: PromptText, one: PromptText, other: PromptText) -> PromptText:
    """A text with the changes that two texts make to the same one."""
    try:
        for index, trees in enumerate(zip(base.trees, one.trees, other.trees, strict=True)):
            base = base.with_content(index, merge(*trees))
    except MergeError as error:
        raise EditError(str(error)) from error
    return base


def units_of(before: PromptText, after: PromptText) -> list[Unit]:
    """The changes between two texts, as a person sees them; numbers that follow are none."""
    return _units(comparisons(before, after))


def _units(compared: Sequence[Comparison]) -> list[Unit]:
    groups: dict[object, Unit] = {}
    for index, found in enumerate(compared):
        taken = _recast(index, found)
        for change in found.changes:
            key = _key(index, found, change)
            if (old := found.instead.get(id(change))) and change.kind == "added":
                # What comes instead of something belongs to it.
                taken.setdefault(key, _key(index, found, old))
            groups.setdefault(taken.get(key, key), []).append((index, change))
    return [*groups.values()]


def _only_removes(unit: Unit) -> bool:
    return all(change.kind == "removed" for _, change in unit)


def without_losses(before: PromptText, after: PromptText) -> PromptText:
    """A later text with the statements that it only lost, where it does other things as well."""
    compared = comparisons(before, after)
    units = _units(compared)
    kept = [change for unit in units if not _only_removes(unit) for change in unit]
    if not kept or len(kept) == sum(map(len, units)):
        return after
    return _composed(before, compared, kept)


def parts_of(before: PromptText, after: PromptText) -> Iterator[PromptText]:
    """Texts with a part of the changes each, where a part stands on its own.

    A part takes nothing out that the whole keeps, and is not only a loss. Of a list or paragraph
    that is new, each entry and sentence is a part as well.
    """
    compared = comparisons(before, after)
    units = _units(compared)
    for unit in units:
        if len(units) > 1 and not _only_removes(unit):
            yield _composed(before, compared, unit)
        if any(change.was and change.was.kind == "clause" for _, change in unit):
            continue  # a sentence that was written again is one change
        added = [(index, change) for index, change in unit if change.kind == "added"]
        pieces = [list(group) for _, group in groupby(added, lambda one: _piece(compared, one))]
        if len(pieces) > 1 or len(added) < len(unit):
            for piece in pieces:
                index, change = piece[0]
                if change.now and not _RE.dependent.match(compared[index].after.of(change.now)):
                    yield _composed(before, compared, piece)


def changed_lines(before: PromptText, after: PromptText) -> tuple[str, str]:
    """The lines that are only in the text after, and those that are only in the text before."""
    old = [line.text for line in before.lines]
    new = [line.text for line in after.lines]
    kept, had = set(old), set(new)
    return (
        "\n".join(text for text in new if text not in kept),
        "\n".join(text for text in old if text not in had),
    )


def changed_statements(before: PromptText, after: PromptText) -> tuple[str, str]:
    """The statements that a text adds or rewords, and those that it takes out or rewords."""
    compared = comparisons(before, after)
    return (
        "\n".join(said for found in compared for said in found.added),
        "\n".join(said for found in compared for said in found.removed),
    )


def changed_places(before: PromptText, after: PromptText) -> str:
    """The headings under which the text after says something new."""
    places = {
        f"{index} {found.after.heading(change.now)}"
        for index, found in enumerate(comparisons(before, after))
        for change in found.changes
        if change.now is not None
    }
    return "\n".join(sorted(places))


def lost_statements(before: PromptText, after: PromptText) -> list[str]:
    """The statements that are gone: neither moved nor reworded, and not said elsewhere."""
    found = comparisons(before, after)
    says = Counter(_said(one.after, atom) for one in found for atom in one.after.atoms)
    return [
        one.before.of(change.was)
        for one in found
        for change in one.changes
        if change.was is not None
        and change.kind == "removed"
        and change.was.kind != "heading"  # alone it states nothing
        and not says[_said(one.before, change.was)]
    ]


def lost_words(before: PromptText, after: PromptText) -> int:
    """The lost words of statements: of deleted ones, and out of reworded ones."""
    lost = sum(map(count_words, lost_statements(before, after)))
    for comparison in comparisons(before, after):
        for change in comparison.changes:
            if change.kind == "reworded" and change.was and change.now:
                lost += (
                    _tokens(comparison.before.of(change.was))
                    - _tokens(comparison.after.of(change.now))
                ).total()
    return lost


def _said(tree: Tree, atom: Node) -> str:
    """The text of an atom without its numbers: a repeated list differs in those."""
    return re.sub(r"\d+", "#", normalise(tree.of(atom)))


def _tokens(text: str) -> Counter[str]:
    return Counter(_RE.token.findall(text.casefold()))


def _key(index: int, found: Comparison, change: Change) -> object:
    """The property that changes of one unit share: block, renaming or inputs."""
    was = found.before.of(change.was) if change.was else ""
    now = found.after.of(change.now) if change.now else ""
    if change.kind != "moved" and sorted(_RE.slot.findall(was)) != sorted(_RE.slot.findall(now)):
        return "inputs"
    if change.kind == "reworded":
        renamed = _renamed(was, now)
        return ("renamed", *renamed) if renamed else id(change)
    if change.kind == "added" and change.now:
        return "added", index, id(_block(found.after, change.now, _fresh(found, "added")))
    if change.kind == "removed" and change.was:
        return "removed", index, id(_block(found.before, change.was, _fresh(found, "removed")))
    return id(change)


def _renamed(was: str, now: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The few words that a statement loses and gains; None where they are many."""
    old, new = _tokens(was) - _tokens(now), _tokens(now) - _tokens(was)
    if 0 < old.total() <= _RENAMED_MAX and new.total() <= _RENAMED_MAX:
        return tuple(sorted(old.elements())), tuple(sorted(new.elements()))
    return None


def new_statements(
    before: PromptText, after: PromptText, is_known: Callable[[str], bool]
) -> Iterator[str]:
    """The statements that a text adds or rewords, without those that get a few known words.

    A corrected label or unit is no new statement, whatever stands next to it.
    """
    for found in comparisons(before, after):
        for change in found.changes:
            if change.now is None or change.kind == "moved":
                continue
            now = found.after.of(change.now)
            renamed = _renamed(found.before.of(change.was), now) if change.was else None
            if renamed is None or not is_known(" ".join(renamed[1])):
                yield now


def _recast(index: int, found: Comparison) -> dict[object, object]:
    """By the key of each change of a sentence whose clauses swap words the key of its first.

    What one clause loses another one has: none of these changes stands on its own.
    """
    joined: dict[object, object] = {}
    clauses = [
        one for one in found.changes if "clause" in {n.kind for n in (one.was, one.now) if n}
    ]
    for one, other in product(clauses, clauses):
        if (
            one.was
            and one.kind == "removed"
            and other.now
            and other.kind != "moved"
            and alike(found.before.of(one.was), found.after.of(other.now)) >= _RECAST
        ):
            around = found.before.parent(one.was), found.after.parent(other.now)
            ours = [
                _key(index, found, change)
                for change in clauses
                if (change.was and found.before.parent(change.was) is around[0])
                or (change.now and found.after.parent(change.now) is around[1])
            ]
            joined |= dict.fromkeys(ours, ours[0])
    return joined


def _fresh(found: Comparison, kind: str) -> set[int]:
    return {
        id(change.now if kind == "added" else change.was)
        for change in found.changes
        if change.kind == kind
    }


def _block(tree: Tree, atom: Node, fresh: set[int]) -> Node:
    """The largest node around an atom that is new as a whole; two tags belong together."""
    parent = tree.parent(atom)
    if atom.kind == "tag" and parent is not None and parent.kind == "block":
        return parent
    found = atom
    atoms = {id(one) for one in tree.atoms}
    for above in reversed(tree.path(atom)):
        held = {id(one) for one in above.walk() if id(one) in atoms}
        if above.kind == "text" or not held <= fresh:
            break
        found = above
    return found


def _piece(compared: Sequence[Comparison], one: tuple[int, Change]) -> int:
    """The block that an added statement belongs to: its entry, example, row or section."""
    index, change = one
    tree = compared[index].after
    assert change.now is not None
    path = tree.path(change.now)
    fresh = _fresh(compared[index], "added")
    blocks = [one for one in path if one.kind in {"section", "block", "table"}]
    whole = next((block for block in blocks if id(block.children[0]) in fresh), None)
    if whole is None and change.now.kind == "clause":
        clauses = [child for child in path[-1].children if child.kind == "clause"]
        whole = path[-1] if all(id(clause) in fresh for clause in clauses) else None
    return id(whole or change.now)


def _composed(
    before: PromptText, compared: Sequence[Comparison], changes: Sequence[tuple[int, Change]]
) -> PromptText:
    text = before
    for index, found in enumerate(compared):
        mine = [change for at, change in changes if at == index]
        if mine:
            text = text.with_content(index, found.compose(mine))
    return text


@dataclass(frozen=True, slots=True)
class Home:
    """A place for a rule: behind an entry of a list, or behind a sentence.

    Attributes:
        words: What the section is about.
        where: Behind the entry, or in front of it.
    """

    message: int
    node: Node
    heading: str
    words: frozenset[str]
    where: Literal["after", "before"] = "after"


def homes(text: PromptText) -> list[Home]:
    """The places of a prompt: the last entries of its lists, or else its last sentences."""
    has_lists = any(True for tree in text.trees for _ in _lists(tree))
    found: dict[tuple[int, str], Home] = {}
    for index, tree in enumerate(text.trees):
        nodes = _lists(tree) if has_lists else _sentences(tree)
        for node in nodes:
            heading = tree.heading(node)
            known = found.get((index, heading))
            words = content_words(f"{heading} {tree.of(tree.parent(node) or node)}")
            words |= known.words if known else frozenset()
            found[index, heading] = Home(index, node, heading, words)
    return list(found.values())


def steps_for(text: PromptText, home: Home, rule: str) -> list[Home]:
    """Further places in a numbered list, where order counts: its start, and what needs the rule.

    What needs it is the first entry that speaks of the same.
    """
    tree = text.trees[home.message]
    above = tree.parent(home.node)
    if home.node.kind != "entry" or above is None or not tree.of(home.node)[0].isdigit():
        return []
    entries = [child for child in above.children if child.kind == "entry"]
    about = content_words(rule)
    needing = (entry for entry in entries if content_words(tree.of(entry)) & about)
    found = dict.fromkeys((next(needing, entries[0]), entries[0]))
    return [replace(home, node=one, where="before") for one in found]


def with_rule(text: PromptText, home: Home, rule: str) -> PromptText:
    r"""The text with a rule in a place, written as its neighbours are.

    >>> from regauge.refine.edits import PromptText
    >>> text = PromptText.of("# Rules\n1. Be brief.\n2. Use JSON.\n\n{{input}}")
    >>> with_rule(text, homes(text)[0], "- Be kind.").messages[0].content
    '# Rules\n1. Be brief.\n2. Use JSON.\n3. Be kind.\n\n{{input}}'
    """
    tree, node = text.trees[home.message], home.node
    bare = _bare(rule)
    if node.kind == "entry":
        return text.with_content(home.message, insert(tree, node, bare, home.where))
    # Where sentences have lines of their own, so has the rule.
    start = tree.text.rfind("\n", 0, node.start) + 1
    indent = tree.text[start : node.start]
    ends = tree.text[node.end : node.end + 1] in {"", "\n"}
    inline = not ends or bool(indent.strip())
    joint = " " if inline else f"\n{indent}"
    content = tree.text[: node.end] + joint + bare + tree.text[node.end :]
    return text.with_content(home.message, content)


def says(text: PromptText, rule: str) -> list[tuple[int, Node]]:
    """The statements of a prompt that say what a rule says; empty unless all of it is said."""
    wanted = statement_words(parse(_bare(rule)))
    found: dict[str, tuple[int, Node]] = {}
    for index, tree in enumerate(text.trees):
        found |= {said: (index, node) for said, node in statement_words(tree).items()}
    return [found[one] for one in wanted] if wanted and wanted.keys() <= found.keys() else []


def statement_words(tree: Tree) -> dict[str, Node]:
    """The statements of a text by their words; an entry of `label: a, b` also with the label."""
    found: dict[str, Node] = {}
    for node in tree.statements:
        found.setdefault(normalise(tree.of(node)), node)
        sentence = tree.parent(node)
        if node.kind == "clause" and sentence is not None and sentence.children[0].kind == "gap":
            label = tree.of(sentence.children[0])
            found.setdefault(normalise(label + tree.of(node)), node)
    return found


def _lists(tree: Tree) -> list[Node]:
    """The last entries of the lists that instruct; footnotes and those within entries do not."""
    return [
        node.children[-1]
        for node in tree.nodes("list")
        if not tree.is_data(node)
        and all(above.kind != "entry" for above in tree.path(node))
        and "{{" not in tree.of(node.children[-1])
        and not tree.of(node).startswith("[^")
    ]


def _sentences(tree: Tree) -> list[Node]:
    return [
        node
        for node in tree.nodes("sentence")
        if not tree.is_data(node)
        and "{{" not in tree.of(node)
        and len(content_words(tree.of(node))) > 1
    ]


def _bare(rule: str) -> str:
    tree = parse(rule.strip())
    marker = next(tree.nodes("marker"), None)
    return tree.text if marker is None or marker.start else tree.text[marker.end :].strip()
