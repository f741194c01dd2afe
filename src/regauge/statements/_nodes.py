"""Nodes of a text, each with its range of characters, and the tree they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal[
    "text",  # the whole of it
    "section",  # a heading with all below it
    "heading",
    "block",  # two tags with all between them
    "tag",
    "list",
    "entry",
    "marker",  # a bullet or number
    "paragraph",
    "sentence",
    "clause",  # a part of a sentence that says something by itself
    "example",  # an input with its output
    "table",
    "row",
    "data",  # a code block or a JSON document
    "gap",  # white space and marks between other nodes
]

_ATOMS = frozenset({"heading", "tag", "example", "row", "data"})
_SLOT = re.compile(r"\{\{[^{}]*\}\}")
_EXAMPLE_TAG = re.compile(r"</?(?:few|shots?|examples?|samples?|demos?)\b", re.IGNORECASE)
_EDGE = " \t\n\r.,;:!?。．！？、，；：।॥؟۔*_`\"'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One node; its children, one after the other, cover its range.

    Attributes:
        start: Offset of its first character in the text; `end` is behind its last one.
        level: Depth of a heading, from 1; 0 for other nodes.
    """

    kind: Kind
    start: int
    end: int
    children: tuple[Node, ...] = ()
    level: int = 0

    def walk(self) -> Iterator[Node]:
        """The node and all below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Tree:
    """A text and its nodes."""

    text: str
    root: Node

    def of(self, node: Node) -> str:
        """The characters of a node."""
        return self.text[node.start : node.end]

    def nodes(self, *kinds: Kind) -> Iterator[Node]:
        """All nodes of some kinds, in the order of the text."""
        return (node for node in self.root.walk() if node.kind in kinds)

    @cached_property
    def leaves(self) -> tuple[Node, ...]:
        """The nodes without children."""
        return tuple(node for node in self.root.walk() if not node.children)

    @cached_property
    def atoms(self) -> tuple[Node, ...]:
        """The smallest nodes that say something by themselves, in the order of the text.

        A sentence of several clauses is taken clause by clause, an example as a whole.
        """
        return tuple(self._atoms(self.root))

    @cached_property
    def statements(self) -> tuple[Node, ...]:
        """The atoms that instruct: sentences and clauses, outside examples and data."""
        return tuple(
            atom
            for atom in self.atoms
            if atom.kind in {"sentence", "clause"} and not self.is_data(atom)
        )

    @cached_property
    def _parents(self) -> dict[int, Node]:
        return {id(child): node for node in self.root.walk() for child in node.children}

    def parent(self, node: Node) -> Node | None:
        """The node above another one."""
        return self._parents.get(id(node))

    def path(self, node: Node) -> tuple[Node, ...]:
        """The nodes above another one, from the root on."""
        nodes: list[Node] = []
        above = self.parent(node)
        while above is not None:
            nodes.append(above)
            above = self.parent(above)
        return tuple(reversed(nodes))

    def at(self, offset: int) -> Node:
        """The leaf at an offset."""
        last = self.leaves[-1] if self.leaves else self.root
        return next((leaf for leaf in self.leaves if leaf.start <= offset < leaf.end), last)

    def heading(self, node: Node) -> str:
        """The heading or tag that a node stands under; empty where there is none."""
        for above in reversed(self.path(node)):
            if above.kind in {"section", "block"} and above.children[0] is not node:
                return self.of(above.children[0]).strip()
        return ""

    def is_data(self, node: Node) -> bool:
        """Return whether a node shows or holds something and does not instruct."""
        if "{{" in self.of(node) and not _SLOT.sub("", self.of(node)).strip(_EDGE + "<>/"):
            return True
        return any(
            parent.kind in {"example", "data"}
            or (parent.kind == "block" and _EXAMPLE_TAG.match(self.of(parent.children[0])))
            for parent in (*self.path(node), node)
        )

    def _atoms(self, node: Node) -> Iterator[Node]:
        if node.kind in _ATOMS or (node.kind in {"sentence", "clause"} and not node.children):
            yield node
            return
        for child in node.children:
            if child.kind not in {"gap", "marker"}:
                yield from self._atoms(child)


def normalise(text: str) -> str:
    """A statement without case, spacing and marks at its ends.

    >>> normalise("  Answer in  JSON. ")
    'answer in json'
    """
    return " ".join(text.casefold().split()).strip(_EDGE)
