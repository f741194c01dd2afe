"""Where a rule may go: the end of each section, written as its neighbours are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from regauge.statements import content_words, insert, normalise, parse

if TYPE_CHECKING:
    from regauge.refine.edits._text import PromptText
    from regauge.statements import Node, Tree

__all__ = ["Home", "homes", "says", "statement_words", "steps_for", "with_rule"]


@dataclass(frozen=True, slots=True)
class Home:
    """A place for a rule: behind an entry of a list, or behind a sentence.

    Attributes:
        heading: Of the section it is in.
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
    entries = [one for one in above.children if one.kind == "entry"]
    about = content_words(rule)
    needing = (one for one in entries if content_words(tree.of(one)) & about)
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
    """The last entries of the lists that instruct; those within entries do not count."""
    return [
        node.children[-1]
        for node in tree.nodes("list")
        if not tree.is_data(node)
        and all(above.kind != "entry" for above in tree.path(node))
        and "{{" not in tree.of(node.children[-1])
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
