"""What is read in prompts of many layouts, and what each edit of a node makes of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

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
from tests.transcripts import assert_as_written
from tests.unit.statements.texts import TEXTS, ZOO, difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.statements import Node, Tree


def nodes_of(tree: Tree, node: Node, depth: int = 0) -> Iterator[str]:
    """Each node with its words, below what it is part of."""
    level = f" {node.level}" if node.level else ""
    data = " (data)" if tree.is_data(node) else ""
    words = tree.text_of(node) if not node.children else tree.text_of(node)[:30]
    yield f"{'  ' * depth}{node.kind}{level}{data} {words!r}"
    for child in node.children:
        yield from nodes_of(tree, child, depth + 1)


@pytest.mark.parametrize("name", TEXTS)
def test_a_prompt_is_read_as_it_was_written_down(name: str):
    tree = parse(TEXTS[name])
    lines = [f"language {guess_language(TEXTS[name])}", *nodes_of(tree, tree.root)]
    for chain in numbering(tree):
        numbers = " ".join(f"{item.kind}{item.value}" for item in chain.items)
        lines.append(f"counts {chain.word!r} {numbers}: {tree.text_of(chain.items[0].node)[:20]!r}")
    for one in references(tree):
        target = "nothing" if one.target is None else repr(tree.text_of(one.target)[:30])
        lines.append(f"{tree.text[one.start : one.end]} at {one.start} means {target}")
    for statement in tree.statements:
        words = " ".join(sorted(content_words(tree.text_of(statement))))
        negated = is_negated(tree.text_of(statement))
        lines.append(f"under {tree.heading(statement)!r}, negated {negated}: {words}")
    assert_as_written("\n".join([*lines, ""]), f"statements/{name} read")


@pytest.mark.parametrize("name", TEXTS)
def test_edits_of_nodes_leave_the_text_that_was_written_down(name: str):
    text = TEXTS[name]
    tree = parse(text)
    entries = list(tree.nodes("entry"))
    sentences = list(tree.nodes("sentence"))
    made = [
        *((f"without {tree.text_of(one)!r}", delete(tree, one)) for one in tree.statements),
        *((f"without entry {tree.text_of(one)[:20]!r}", delete(tree, one)) for one in entries),
        *(
            (f"without section {tree.text_of(one)[:20]!r}", delete(tree, one))
            for one in tree.nodes("section")
        ),
        *((f"after {tree.text_of(one)[:20]!r}", insert(tree, one, "Be new.")) for one in entries),
        *(
            (f"before {tree.text_of(one)[:20]!r}", insert(tree, one, "Be new.", "before"))
            for one in [*entries, *sentences]
        ),
        *(
            (f"instead of {tree.text_of(one)[:20]!r}", replace(tree, one, "- Be new."))
            for one in [*entries, *sentences]
        ),
        *(
            (f"{tree.text_of(one)[:20]!r} {where} {tree.text_of(at)[:20]!r}", moved)
            for first, second in pairwise(entries)
            for one, at, where in ((first, second, "after"), (second, first, "before"))
            if first.end <= second.start
            for moved in [move(tree, one, at, where)]  # type: ignore[arg-type]
        ),
    ]
    lines = [f"{what}: {difference(text, after)}" for what, after in made]
    assert_as_written("\n".join([*lines, ""]), f"statements/{name} edited")


OTHERS = {
    "steps exchanged": ZOO.replace("1. Read the claim.\n2. Rep", "1. Rep").replace(
        "3. Answer", "2. Read the claim.\n3. Answer"
    ),
    "a step less": ZOO.replace("1. Read the claim.\n2. ", "1. ").replace("3. Answer", "2. Answer"),
    "reworded": ZOO.replace("never guess", "never invent a thing").replace("urgent", "very urgent"),
    "a section more": ZOO.replace("## 1.2 Tone", "## 1.2 Length\nBe short.\n\n## 1.3 Tone"),
    "less and more": ZOO.replace("a) urgent\n", "").replace(
        "The end", "Be kind to readers.\nBe quick about it."
    ),
    "joined": ZOO.replace("A ticket has one kind, and at most 3 labels.", "It has one kind."),
    "nothing": "",
}


@pytest.mark.parametrize("name", OTHERS)
def test_two_texts_are_compared_and_composed_as_it_was_written_down(name: str):
    before, after = parse(ZOO), parse(OTHERS[name])
    lines: list[str] = []
    for first, second, way in ((before, after, "there"), (after, before, "back")):
        found = compare(first, second)
        for change in found.changes:
            was = "" if change.was is None else repr(first.text_of(change.was))
            now = "" if change.now is None else repr(second.text_of(change.now))
            instead = ", instead" if id(change) in found.replaced_by_added else ""
            lines.append(f"{way}: {change.kind} {was} -> {now}{instead}")
            lines.append(f"    alone: {difference(first.text, found.compose([change]))}")
        lines.append(f"{way}, all: {difference(second.text, found.compose(found.changes))}")
        lines.append(f"{way}, removed: {found.removed_texts}")
    assert_as_written("\n".join([*lines, ""]), f"statements/{name} compared")


@pytest.mark.parametrize("first", OTHERS)
def test_changes_of_two_sides_are_merged_or_refused_as_it_was_written_down(first: str):
    base = parse(ZOO)
    lines: list[str] = []
    for second, text in OTHERS.items():
        try:
            made = merge(base, parse(OTHERS[first]), parse(text))
        except MergeError as error:
            lines.append(f"with {second}: refused, {error}")
        else:
            lines.append(f"with {second}: {difference(ZOO, made)}")
    assert_as_written("\n".join([*lines, ""]), f"statements/{first} merged")
