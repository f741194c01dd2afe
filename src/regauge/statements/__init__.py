"""The tree of a text: sections, lists, entries, sentences, examples, each with its range.

`parse` reads a text in any language; the leaves of a tree, one after the other, are the text.
`delete`, `insert`, `replace` and `move` edit nodes and keep numbers and references in step.
`compare` finds the statements that two texts share, whatever their numbers.
"""

from __future__ import annotations

from regauge.statements._compare import Change, Comparison, MergeError, compare, merge
from regauge.statements._edit import delete, insert, move, renumber, replace
from regauge.statements._languages import (
    content_words,
    guess_language,
    is_negated,
    negations,
    stem,
)
from regauge.statements._match import alike, tokens
from regauge.statements._nodes import Kind, Node, Tree, normalise
from regauge.statements._numbering import Chain, Reference, numbering, references
from regauge.statements._parse import parse

__all__ = [
    "Chain",
    "Change",
    "Comparison",
    "Kind",
    "MergeError",
    "Node",
    "Reference",
    "Tree",
    "alike",
    "compare",
    "content_words",
    "delete",
    "guess_language",
    "insert",
    "is_negated",
    "merge",
    "move",
    "negations",
    "normalise",
    "numbering",
    "parse",
    "references",
    "renumber",
    "replace",
    "stem",
    "tokens",
]
