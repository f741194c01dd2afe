"""Numbers of list entries and headings, and references to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

from regauge.statements._parse import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_HEADED = re.compile(
    r"(?:#{1,6}[ \t]+)?(?:(?P<word>[^\W\d_]{2,12})[ \t]*)?(?P<number>\d{1,2})[.:)：]?(?=\s|$)"
)
_WORDS = (
    r"steps?|rules?|points?|items?|sections?|examples?|parts?|paragraphs?|numbers?|no\.|entry"
    r"|schritt(?:e|en|s)?|regeln?|punkte?n?|abschnitte?s?|nummer|nr\.|beispiele?"
    r"|étapes?|règles?|consignes?|pasos?|reglas?|puntos?|ejemplos?|passos?|regras?|pontos?"
    r"|pass[oi]|regol[ae]|punt[oi]|stap(?:pen)?|regels?|adım|kural|шаг\w*|правил\w*|пункт\w*"
)
_REFERENCE = re.compile(
    rf"(?:\b(?P<word>{_WORDS})[ \t]*|(?:ステップ|手順|規則|ルール|項目|步骤|规则|第)[ \t]*)"
    r"(?P<first>\d{1,2})(?P<more>(?:(?:[ \t]*[,、/–-][ \t]*|[ \t]+(?:to|and|or|bis|und|oder|à|et|ou"
    r"|a|y|o|e|tot|en|of|и|или)[ \t]+|から|と|至|到|和)\d{1,2}\b)*)(?!\d|[.,]\d|[ \t]*%)",
    re.IGNORECASE,
)


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
    """

    start: int
    end: int
    value: int
    target: Node | None


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
    for match in _REFERENCE.finditer(tree.text):
        if any(item.start <= match.start("first") < item.end for c in chains for item in c.items):
            continue
        word = (match["word"] or "").casefold()
        for number in re.finditer(r"\d+", tree.text[match.start("first") : match.end()]):
            start = match.start("first") + number.start()
            target = _target(chains, int(number[0]), word, match.start())
            end = start + len(number[0])
            found_references.append(Reference(start, end, int(number[0]), target))
    return tuple(found_references)


def _target(chains: list[Chain], value: int, word: str, offset: int) -> Node | None:
    """The node with a number: in a chain with the same word, the chain around, or the longest."""

    def rank(chain: Chain) -> tuple[bool, bool, bool, int]:
        has_word = bool(word) and chain.word.casefold()[:4] == word[:4]
        heads = chain.items[0].node.kind == "heading"
        sectional = word[:4] in {"sect", "absc", "part", "para"}
        around = chain.items[0].node.start <= offset < chain.items[-1].node.end
        return has_word, heads == sectional, around, len(chain.items)

    having = [chain for chain in chains if any(item.value == value for item in chain.items)]
    best = max(having, key=rank, default=None)
    if best is None:
        return None
    return next(item.node for item in best.items if item.value == value)


def _read_numbers(tree: Tree, node: Node) -> tuple[list[Numbered], tuple[object, ...], str]:
    """The possible numbers of a node, the style of its marker, and the word before."""
    text = tree.text_of(node)
    if node.kind == "heading":
        match = _HEADED.match(text)
        if match is None:
            return [], (), ""
        word = match["word"] or ""
        return list(_values(node, match, "number")), ("heading", node.level, word), word
    match = MARKER.match(text.split("\n", 1)[0])
    if match is None:
        return [], (), ""
    indent = node.start - (tree.text.rfind("\n", 0, node.start) + 1)
    group = next((name for name in ("nth", "circled", "number") if match[name]), "")
    if not group:
        return [], (), ""
    prefix = (match["number"] or "").rpartition(".")[0]
    ends = match["close"] or match["dot"] or match["wide"]
    style = (indent, match["open"], ends, match["word"], prefix)
    return list(_values(node, match, group)), style, match["word"] or ""


def _values(node: Node, match: re.Match[str], group: str) -> Iterator[Numbered]:
    text = match[group].rpartition(".")[2]
    start = node.start + match.end(group) - len(text)
    if text.isdecimal():
        kinds = [("1" if text.isascii() else "１", int(text))]
    else:
        kinds = [(kind, its.index(text) + 1) for kind, its in _NUMERALS.items() if text in its]
    for kind, value in kinds:
        yield Numbered(node, value, kind, start, start + len(text))
