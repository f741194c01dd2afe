"""Short texts of many layouts as rows of data: how each is read, edited, compared and merged."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from regauge.statements import (
    MergeError,
    compare,
    content_words,
    delete,
    guess_language,
    insert,
    is_negated,
    merge,
    move,
    numbering,
    parse,
    references,
    replace,
)
from tests.transcripts import DATA, held_rows, read_rows
from tests.unit.statements.test_transcripts import nodes_of

if TYPE_CHECKING:
    from regauge.statements import Tree

ROWS = DATA / "statements.jsonl"


def read(text: str) -> dict[str, Any]:
    """What is in a text: its nodes, numbers, references, and what its statements are about."""
    tree = parse(text)
    return {
        "language": guess_language(text),
        "nodes": [*nodes_of(tree, tree.root)],
        "counts": [
            [chain.word, " ".join(f"{item.kind}{item.value}" for item in chain.items)]
            for chain in numbering(tree)
        ],
        "refers": [
            [text[one.start : one.end], one.target and tree.text_of(one.target)]
            for one in references(tree)
        ],
        "about": [
            [
                tree.heading(one),
                is_negated(tree.text_of(one)),
                " ".join(sorted(content_words(tree.text_of(one)))),
            ]
            for one in tree.statements
        ],
    }


def edit(tree: Tree) -> dict[str, Any]:
    """A text after each edit of each node."""
    nodes = [*tree.nodes("entry", "sentence", "section", "clause", "example", "row", "heading")]
    # Entries such as `Step 2:` are entries only where they count up.
    entries = [node for node in tree.nodes("entry") if not re.match(r"\w+ \d", tree.text_of(node))]
    return {
        "without": [delete(tree, node) for node in nodes],
        "after": [insert(tree, node, "Be new.") for node in nodes],
        "before": [insert(tree, node, "Be new.", "before") for node in nodes],
        "instead": [replace(tree, node, "- Be new.") for node in nodes],
        "moved": [
            moved
            for first, second in pairwise(entries)
            if first.end <= second.start
            for moved in (move(tree, first, second, "after"), move(tree, second, first, "before"))
        ],
    }


def compare_texts(tree: Tree, other: str) -> dict[str, Any]:
    """The changes to another text, each also alone."""
    found = compare(tree, parse(other))
    return {
        "changes": [
            [
                change.kind,
                found.old_text(change),
                found.new_text(change),
                id(change) in found.replaced_by_added,
                found.compose([change]),
            ]
            for change in found.changes
        ],
        "misled": [*found.misled],
        "all": found.compose(found.changes),
    }


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of these texts as it is now."""
    given = {name: row[name] for name in ("text", "other", "third") if name in row}
    tree = parse(row["text"])
    made = {**given, **read(row["text"]), **edit(tree)}
    if "other" in row:
        made |= compare_texts(tree, row["other"])
    if "third" in row:
        try:
            made["merged"] = merge(tree, parse(row["other"]), parse(row["third"]))
        except MergeError as error:
            made["merged"] = f"refused: {error}"
    return made


@pytest.mark.parametrize(
    "row",
    held_rows(ROWS, lambda: map(row_of, read_rows(ROWS))),
    ids=lambda row: json.dumps(row["text"])[1:40],
)
def test_a_text_is_read_edited_and_compared_as_its_row_has_it(row: dict[str, Any]):
    assert row_of(row) == row
