"""Texts as trees of sections, lists, entries, sentences and examples, each with its range.

`parse` reads a text in any language; the leaves of a tree, joined, are the text.
`delete`, `insert`, `replace` and `move` edit nodes and update numbers and references.
`compare` compares two texts by statement; numbers are ignored.
"""

from __future__ import annotations

from regauge.statements._edit import (
    AtomChange as AtomChange,
    MergeError as MergeError,
    TextComparison as TextComparison,
    alike as alike,
    compare as compare,
    delete as delete,
    insert as insert,
    labelled as labelled,
    merge as merge,
    move as move,
    numbering as numbering,
    references as references,
    renumber as renumber,
    replace as replace,
    tokens as tokens,
)
from regauge.statements._parse import (
    Node as Node,
    Tree as Tree,
    content_words as content_words,
    guess_language as guess_language,
    is_negated as is_negated,
    negations as negations,
    normalise as normalise,
    parse as parse,
    stem as stem,
)
