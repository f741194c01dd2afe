"""Parses a text in any language into a tree of sections, lists and sentences.

Sentences are split in any script by Unicode rules (UAX 29), with abbreviations.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_RE = Lexicon("regauge.statements", "languages")
FORMS = Lexicon("regauge.statements", "forms")
"""The forms of lists, examples, clauses and references."""
_LATIN = ("en", "de", "fr", "es", "pt", "it", "nl", "tr")
# Languages that write "3." for "third"; Slavic, Nordic and Hungarian ones have no list here.
_ORDINAL_DOTS = frozenset({"de", "tr", ""})
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e]+[^\W_]*)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\uac00-\ud7af]")
# Grammar of Japanese; content is written in the other two scripts or in longer runs of this one.
_KANA = re.compile(r"[\u3040-\u309f]")


@cache
def _common() -> dict[str, frozenset[str]]:
    """The function words by language; under the empty name those of all languages."""
    languages = {name: frozenset(words.split()) for name, words in _RE.entry("common").items()}
    return {**languages, "": frozenset[str]().union(*languages.values())}


@cache
def _negations() -> dict[str, re.Pattern[str]]:
    return _RE.patterns("negation")


def guess_language(text: str) -> str:
    """Guess the language code of a text, such as `de`; empty if unknown.

    >>> guess_language("Reply in one sentence."), guess_language("Antworte in einem Satz.")
    ('en', 'de')
    """
    letters = sum(sign.isalpha() for sign in text)
    for name, script in _SCRIPTS:
        if letters and 4 * len(script.findall(text)) >= letters:
            return name
    if not letters:
        return ""
    words = [word.casefold() for word in _WORD.findall(text)]
    hits = {name: sum(word in _common()[name] for word in words) for name in _LATIN}
    best = max(hits, key=lambda name: hits[name])
    # In any text of a language at least one word in eight is a function word.
    return best if hits[best] >= max(1, len(words) / 8) else ""


def is_negated(text: str) -> bool | None:
    """Return whether a sentence forbids or negates; None for an unknown language."""
    language = guess_language(text)
    if language:
        return bool(_negations()[language].search(text))
    # Short texts have too few function words, but a negation of any language counts.
    return True if any(_negations()[name].search(text) for name in _LATIN) else None


def negations(text: str) -> Iterator[re.Match[str]]:
    """Yield the negations of a text, in its language."""
    language = guess_language(text)
    return _negations()[language].finditer(text) if language else iter(())


def content_words(text: str) -> frozenset[str]:
    """The content words of a text, stemmed.

    Scripts without spaces between words yield pairs of characters.

    >>> sorted(content_words("Write every timestamp in `UTC`; timestamps end in Z."))
    ['end', 'timestamp', 'utc', 'z']
    >>> sorted(content_words("Wohngebäude in 東京都"))
    ['wohngebäud', '京都', '東京']
    """
    language = guess_language(text)
    common = _common()[language if language in _LATIN else ""]
    words: set[str] = set()
    for match in _WORD.findall(text):
        if _UNSPACED.search(match):
            pairs = [match[n : n + 2] for n in range(max(1, len(match) - 1))]
            words |= {pair for pair in pairs if not all(map(_KANA.match, pair))}
        elif not match.isdigit() and (word := match.casefold()) not in common:
            words.add(stem(word))
    return frozenset(words)


def stem(word: str) -> str:
    """A word without its most common endings; crude, but the same for both compared texts."""
    # The plural's first, so that "greetings" and "greeting" end up the same.
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 - a stem
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    # "value" has to meet "values", and "close" "closed".
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004 - a stem


_STOP = re.compile(r"[.!?…‽؟۔।॥።。！？．]+[\"'”’»›)\]）」』】*_`]*")
_WIDE = frozenset("。！？．।॥")
_LAST_WORD = re.compile(r"[^\s(\[\"'“„«]*$")
_LEAD = re.compile(r"[\w`][\w` /-]{0,30}[:：]\s*(?=[^\s:：])")
_ENTRY = re.compile(r",\s+|、|，")
# A joint between fewer words joins the entries of an enumeration, and not two clauses.
_CLAUSE_WORDS = 3
# An entry of more words is a clause that happens to have a comma.
_ENTRY_WORDS = 8
# The last letter of a sentence is within so many signs of its end.
_NEAR = 20
# A line this long, and this share of the longest line, was wrapped.
_WRAPPED, _FULL = 50, 0.7

Span = tuple[int, int]


def sentences(text: str, start: int, end: int) -> Iterator[tuple[Span, list[Span]]]:
    """Yield the sentences in a range of a text, each with its clauses.

    A sentence with one clause has an empty list; clauses exclude marks and conjunctions.
    """
    for begin, stop in _sentences(text, start, end):
        text_inside = text[begin:stop].strip()
        if text_inside:
            first = text.index(text_inside, begin)
            yield (first, first + len(text_inside)), _clauses(text, first, first + len(text_inside))


def _sentences(text: str, start: int, end: int) -> Iterator[Span]:
    begin = start
    for stop in sorted({*_stops(text, start, end), *_line_ends(text, start, end), end}):
        yield begin, stop
        begin = stop


def _stops(text: str, start: int, end: int) -> Iterator[int]:
    inside = text[start:end]
    ordinals = "." in inside and guess_language(inside) in _ORDINAL_DOTS
    for stop in _STOP.finditer(text, start, end):
        after = stop.end()
        if after == end:
            continue
        if stop[0][0] in _WIDE or stop[0][-1] in _WIDE:
            yield after
            continue
        if not text[after].isspace() or _sentence_continues(text, after, end):
            continue
        word = _LAST_WORD.search(text, start, stop.start())
        word_before = word[0] if word else ""
        if stop[0] == "." and (
            word_before.casefold().rstrip(".") in _RE.words("abbreviations")
            or (len(word_before) == 1 and word_before.isalpha() and word_before.isupper())
            or (ordinals and word_before.isdecimal() and len(word_before) < 3)  # noqa: PLR2004 - "3. Mai"
        ):
            continue
        yield after


def _sentence_continues(text: str, offset: int, end: int) -> bool:
    """Return whether the next word is in lower case, so the sentence continues.

    A field in backticks begins a sentence, and so does a Latin word behind a script without case.
    """
    last_letter = next(
        (sign for sign in reversed(text[max(0, offset - _NEAR) : offset]) if sign.isalpha()), "A"
    )
    if last_letter.lower() == last_letter.upper() or text[offset:end].lstrip().startswith("`"):
        return False
    return next((sign for sign in text[offset:end] if sign.isalpha()), "").islower()


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield line breaks that end a sentence without a mark: the line was not wrapped.

    A paragraph is wrapped if one of its lines continues in lower case, or its script has no case.
    """
    lines = text[start:end].split("\n")
    longest = max(map(len, lines))
    continuations = [
        line.lstrip()[:1].islower() and not _LEAD.match(line.lstrip()) for line in lines[1:]
    ]
    broken = any(continuations) or not any(sign.islower() for sign in text[start:end])
    offset = start
    for line, below, continues in zip(lines, lines[1:], continuations, strict=False):
        offset += len(line) + 1
        begins = below.lstrip()
        width = 2 * len(line) if line and ord(line[-1]) > 0x2E80 else len(line)  # noqa: PLR2004
        full = broken and width >= _WRAPPED and len(line) >= _FULL * longest
        if not continues and not (full and begins[:1].isalnum() and not _LEAD.match(begins)):
            yield offset


def _clauses(text: str, start: int, end: int) -> list[Span]:
    """The ranges of a sentence's clauses, or of the entries of a list within it."""
    body = end
    while body > start and _STOP.match(text[body - 1]):
        body -= 1
    entries = _entries(text, start, body)
    if entries:
        return entries
    clauses = _split(FORMS.clause_joint, text, start, body)
    if len(clauses) > 1 and all(_words(text[a:b]) >= _CLAUSE_WORDS for a, b in clauses):
        return clauses
    return []


def _entries(text: str, start: int, end: int) -> list[Span]:
    """The entries of an enumeration behind a label: `Fields: a, b, c`."""
    lead = _LEAD.match(text, start, end)
    if lead is None or ":" in text[lead.end() : end] or "{{" in text[start:end]:
        return []
    parts = _split(_ENTRY, text, lead.end(), end)
    short = all(_words(text[a:b]) <= _ENTRY_WORDS for a, b in parts)
    return parts if len(parts) > 1 and short else []


def _words(text: str) -> int:
    """The number of words by spaces; two wide characters count as one word."""
    wide = sum(ord(sign) > 0x2E80 for sign in text)  # noqa: PLR2004 - scripts without spaces
    return len(text.split()) + wide // 2


def _split(separator: re.Pattern[str], text: str, start: int, end: int) -> list[Span]:
    cuts = [(match.start(), match.end()) for match in separator.finditer(text, start, end)]
    starts, ends = [start, *(b for _, b in cuts)], [*(a for a, _ in cuts), end]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


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
    "clause",  # a part of a sentence that is a statement by itself
    "example",  # an input with its output
    "table",
    "row",
    "data",  # a code block or a JSON document
    "gap",  # white space and marks between other nodes
]

_ATOMS = frozenset({"heading", "tag", "example", "row", "data"})
_SLOT = re.compile(r"\{\{[^{}]*\}\}")
_EDGE = " \t\n\r.,;:!?。．！？、，；：।॥؟۔*_`\"'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One node; its children, one after the other, cover its range.

    Attributes:
        start: The offset of its first character in the text; `end` is behind the last one.
        level: Depth of a heading, from 1; 0 for other nodes.
    """

    kind: Kind
    start: int
    end: int
    children: tuple[Node, ...] = ()
    level: int = 0

    def walk(self) -> Iterator[Node]:
        """Yield the node and all its descendants, in text order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Tree:
    """A text and its nodes."""

    text: str
    root: Node

    def text_of(self, node: Node) -> str:
        """The text of a node."""
        return self.text[node.start : node.end]

    def nodes(self, *kinds: Kind) -> Iterator[Node]:
        """Yield all nodes of some kinds, in text order."""
        return (node for node in self.root.walk() if node.kind in kinds)

    @cached_property
    def leaves(self) -> tuple[Node, ...]:
        """The nodes without children."""
        return tuple(node for node in self.root.walk() if not node.children)

    @cached_property
    def atoms(self) -> tuple[Node, ...]:
        """The smallest meaningful nodes, in text order.

        A sentence with several clauses counts clause by clause, an example as a whole.
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
        """The parent of a node; None for the root."""
        return self._parents.get(id(node))

    def path(self, node: Node) -> tuple[Node, ...]:
        """The ancestors of a node, from the root on."""
        nodes: list[Node] = []
        above = self.parent(node)
        while above is not None:
            nodes.append(above)
            above = self.parent(above)
        return tuple(reversed(nodes))

    def leaf_at(self, offset: int) -> Node:
        """The leaf at an offset."""
        last = self.leaves[-1] if self.leaves else self.root
        return next((leaf for leaf in self.leaves if leaf.start <= offset < leaf.end), last)

    def heading(self, node: Node) -> str:
        """The nearest heading or tag above a node; empty for none."""
        for above in reversed(self.path(node)):
            if above.kind in {"section", "block"} and above.children[0] is not node:
                return self.text_of(above.children[0]).strip()
        return ""

    def is_data(self, node: Node) -> bool:
        """Return whether a node is data or an example, so it does not instruct."""
        text = self.text_of(node)
        if "{{" in text and not _SLOT.sub("", text).strip(_EDGE + "<>/"):
            return True
        around = (*self.path(node), node)
        tags = [self.text_of(block.children[0]) for block in around if block.kind == "block"]
        in_example = any(map(FORMS.example_tag.match, tags))
        return in_example or any(parent.kind in {"example", "data"} for parent in around)

    def _atoms(self, node: Node) -> Iterator[Node]:
        if node.kind in _ATOMS or (node.kind in {"sentence", "clause"} and not node.children):
            yield node
            return
        for child in node.children:
            if child.kind not in {"gap", "marker"}:
                yield from self._atoms(child)


def normalise(text: str) -> str:
    """A statement in lower case, with single spaces and without marks at its ends.

    >>> normalise("  Reply in  JSON. ")
    'reply in json'
    """
    return " ".join(text.casefold().split()).strip(_EDGE)


_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r"(=|-)\1{2,}\s*$")
_TITLE = re.compile(r"(?:\*\*[^*]+\*\*|__[^_]+__|【[^】]+】|[■◆▼□◇][^。]*)[:：]?\s*$")
_LABELLED = re.compile(r"\S[^\n]{0,100}[:：]\s*$")
_TAG = re.compile(r"<(/?)([^\W\d][\w.:-]*)(?:\s[^<>]*)?>\s*$")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_RULE = re.compile(r"(?:[-*_][ \t]*){3,}$")
_LABEL = re.compile(r"(?:\*\*|__)?([^\W\d_][\w -]{0,24}?)[ \t]*\d*(?:\*\*|__)?[ \t]*[:：]")
_ARROW = re.compile(r"[^\n]*\S\s+(?:->|→|=>|⇒)\s+\S")
_TITLE_LEVEL, _COLON_LEVEL = 6, 7
_UNDERLINED_LEVELS = 2
# Entries of one list may be a little further in than others.
_SLACK = 2


@lru_cache(maxsize=1024)
def parse(text: str) -> Tree:
    r"""Parse any text into a tree.

    >>> tree = parse("# Rules\n1. Be brief. Use JSON.\n2. Stop.")
    >>> [tree.text_of(node) for node in tree.statements]
    ['Be brief.', 'Use JSON.', 'Stop.']
    """
    return Tree(text, _Parser(text).root())


class _Parser:
    """Reads lines into blocks, and blocks into nodes.

    Attributes:
        lines: Start and end offset of each line, without its line break.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[tuple[int, int]] = []
        start = 0
        for line in text.split("\n"):
            self.lines.append((start, start + len(line)))
            start += len(line) + 1
        self._visible = [self.text[start:end].strip() for start, end in self.lines]
        self._example_ends = self._examples()

    def root(self) -> Node:
        return self._tile("text", 0, len(self.text), self._blocks(0, len(self.lines)))

    def _tile(
        self, kind: Kind, start: int, end: int, children: Iterable[Node], level: int = 0
    ) -> Node:
        """A node covered by its children, with gaps between them."""
        tiles: list[Node] = []
        position = start
        for child in children:
            if child.start > position:
                tiles.append(Node(kind="gap", start=position, end=child.start))
            tiles.append(child)
            position = child.end
        if position < end:
            tiles.append(Node(kind="gap", start=position, end=end))
        return Node(kind=kind, start=start, end=end, children=tuple(tiles), level=level)

    def _indent(self, number: int) -> int:
        start, end = self.lines[number]
        line = self.text[start:end].expandtabs(4)
        return len(line) - len(line.lstrip())

    def _start(self, number: int) -> int:
        """The offset of the first word in a line."""
        start, end = self.lines[number]
        return start + len(self.text[start:end]) - len(self.text[start:end].lstrip())

    def _end(self, number: int) -> int:
        start, end = self.lines[number]
        return start + len(self.text[start:end].rstrip())

    def _leaf(self, kind: Kind, first: int, last: int, level: int = 0) -> Node:
        return Node(kind=kind, start=self._start(first), end=self._end(last), level=level)

    def _blocks(self, first: int, end: int) -> list[Node]:
        """The blocks of a range of lines; `end` is exclusive."""
        nodes: list[Node] = []
        index = first
        while index < end:
            if not self._visible[index] or _RULE.match(self._visible[index]):
                index += 1
                continue
            node, index = self._block(index, end)
            nodes.append(node)
        return nodes

    def _block(self, index: int, end: int) -> tuple[Node, int]:
        form = self._form(index, end)
        if form in {"fence", "json"}:
            last = self._fence_end(index, end) if form == "fence" else self._json_end(index, end)
            return self._leaf("data", index, last), last + 1
        if form == "example":
            last = min(self._example_ends[index], end)
            return self._leaf("example", index, last - 1), last
        readers = {
            "tag": self._tagged_node,
            "table": self._table,
            "entry": self._list,
            "heading": self._section,
            "label": self._section,
        }
        return readers.get(form, self._text_block)(index, end)

    def _text_block(self, index: int, end: int) -> tuple[Node, int]:
        last = self._text_end(index, end)
        return self._paragraph(self._start(index), self._end(last - 1)), last

    def _text_end(self, index: int, end: int) -> int:
        """The first line behind a text line and its continuations."""
        return next((n for n in range(index + 1, end) if self._form(n, end)), end)

    def _form(self, index: int, end: int) -> str:
        """The kind of a line by its form; empty for a continuation."""
        line = self._visible[index]
        forms = {
            "blank": not line or _RULE.match(line),
            "fence": _FENCE.match(line),
            "tag": _TAG.match(line),
            "heading": line and self._heading_level(index, end),
            "table": line.startswith("|") and self._line_below(index, end).startswith("|"),
            "example": index in self._example_ends,
            "json": line and self._json_end(index, end) >= index,
            "entry": line and self._marker(index) is not None,
            "label": _LABELLED.match(line) and "{{" not in line and self._has_body(index, end),
        }
        return next((form for form, is_so in forms.items() if is_so), "")

    def _line_below(self, index: int, end: int) -> str:
        return self._visible[index + 1] if index + 1 < end else ""

    def _has_body(self, index: int, end: int) -> bool:
        """Return whether the line below one that ends with a colon is more than an input."""
        below = self._line_below(index, end)
        if not below and index + 2 < end:
            return self._marker(index + 2) is not None
        return bool(below) and not below.startswith("{{")

    def _fence_end(self, index: int, end: int) -> int:
        match = _FENCE.match(self._visible[index])
        assert match is not None
        mark = match[0]
        closed = (
            n
            for n in range(index + 1, end)
            if self._visible[n].startswith(mark) and not self._visible[n].strip(mark[0])
        )
        return next(closed, end - 1)

    def _heading_level(self, index: int, end: int) -> int:
        line = self._visible[index]
        if match := _HEADING.match(line):
            return len(match[1])
        if _TITLE.match(line):
            return _TITLE_LEVEL
        if line and (match := _UNDERLINE.match(self._line_below(index, end))):
            is_title = (
                self._marker(index) is None and not line.startswith("|") and line[-1] not in ".。"
            )
            above = index == 0 or not self._visible[index - 1]
            return (1 if match[1] == "=" else 2) * (is_title and above)
        return 0

    def _section(self, index: int, end: int) -> tuple[Node, int]:
        level = self._heading_level(index, end) or _COLON_LEVEL
        below = _UNDERLINE.match(self._line_below(index, end))
        underlined = level <= _UNDERLINED_LEVELS and below is not None
        heading = self._leaf("heading", index, index + underlined, level)
        body = index + 1 + underlined
        last = self._colon_end(body, end) if level == _COLON_LEVEL else body
        while level != _COLON_LEVEL and last < end:
            if _FENCE.match(self._visible[last]):
                last = self._fence_end(last, end) + 1
                continue
            other = self._heading_level(last, end)
            if other and other <= level:
                break
            last += 1
        while not self._visible[last - 1]:
            last -= 1
        blocks = self._blocks(body, last)
        stop = max(self._end(last - 1), heading.end)
        return self._tile("section", heading.start, stop, [heading, *blocks], level), last

    def _colon_end(self, body: int, end: int) -> int:
        """The first line behind a colon's block: up to a blank line, or one list."""
        if not self._visible[body]:
            body += 1
        if self._marker(body) is not None:
            return self._list(body, end)[1]
        index = body
        while index < end and self._visible[index] and not self._heading_level(index, end):
            index = (
                self._fence_end(index, end) + 1 if _FENCE.match(self._visible[index]) else index + 1
            )
        return index

    def _tagged_node(self, index: int, end: int) -> tuple[Node, int]:
        """A block between two tags on lines of their own, or a single tag."""
        tag = _TAG.match(self._visible[index])
        assert tag is not None
        depth = 0
        if not tag[1] and not tag[0].rstrip().endswith("/>"):
            for number in range(index, end):
                other = _TAG.match(self._visible[number])
                if other is None or other[2] != tag[2]:
                    continue
                depth += -1 if other[1] else 1
                if depth == 0:
                    opening, closing = (
                        self._leaf("tag", index, index),
                        self._leaf("tag", number, number),
                    )
                    inner = self._blocks(index + 1, number)
                    children = [opening, *inner, closing]
                    node = self._tile("block", opening.start, closing.end, children)
                    return node, number + 1
        return self._leaf("tag", index, index), index + 1

    def _table(self, index: int, end: int) -> tuple[Node, int]:
        last = index
        while last + 1 < end and self._visible[last + 1].startswith("|"):
            last += 1
        rows = [self._leaf("row", n, n) for n in range(index, last + 1)]
        return self._tile("table", rows[0].start, rows[-1].end, rows), last + 1

    def _json_end(self, index: int, end: int) -> int:
        """The last line of a JSON document that begins here; the line before if none does."""
        line = self._visible[index]
        if (
            line[:1] not in {"{", "["}
            or line.startswith("{{")
            or not re.match(r'[{\[]\s*(?:["{\[]|$)', line)
        ):
            return index - 1
        depth = 0
        for number in range(index, min(end, index + 200)):
            unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "", self._visible[number])
            depth += sum(unquoted.count(sign) for sign in "{[") - sum(
                unquoted.count(s) for s in "}]"
            )
            if depth <= 0:
                return number if unquoted.rstrip(" ,")[-1:] in {"}", "]"} else index - 1
        return index - 1

    def _marker(self, index: int) -> re.Match[str] | None:
        """The marker of a list entry at the beginning of a line; None for none."""
        match = FORMS.marker.match(self._visible[index])
        if match is None or _RULE.match(self._visible[index]):
            return None
        if match["word"]:
            return match if self._in_series(match["word"], match["nth"]) else None
        number = match["number"] or ""
        if number.isalpha() and match["dot"] == ":":
            return None  # "a:" labels something
        if number.isalpha() and number.isupper() and match["dot"] and len(number) == 1:
            # "A. Miller" is a name, unless B follows or goes before.
            near = {chr(ord(number) + 1), chr(ord(number) - 1)}
            return (
                match
                if any(re.match(rf"{n}[.)]\s", line) for line in self._visible for n in near)
                else None
            )
        if match["dot"] == ":" and not self._in_series("", number):
            return None
        return match

    def _in_series(self, word: str, number: str) -> bool:
        """Return whether another line has a number near: "Step 1:" and "Step 2:", or "Step 3:"."""
        if not number.isdecimal():
            return False
        near = "|".join(str(int(number) + step) for step in (-2, -1, 1, 2))
        begins = re.compile(rf"(?:\*\*|__)?{re.escape(word)}[ \t]?0?(?:{near})[ \t]*[:：.)*_]")
        return any(begins.match(_ascii_digits(line)) for line in self._visible)

    def _style(self, index: int) -> tuple[object, ...]:
        """The style of an entry's marker, shared by all entries of a list."""
        marker = self._marker(index)
        assert marker is not None
        number = marker["number"] or marker["nth"] or marker["circled"] or ""
        shape = "1" if number[:1].isdigit() else "a" if number else marker["mark"].strip()[:2]
        return (
            shape,
            marker["open"],
            marker["close"] or marker["dot"] or marker["wide"],
            marker["word"],
        )

    def _list(self, index: int, end: int) -> tuple[Node, int]:
        indent, style = self._indent(index), self._style(index)
        entries: list[Node] = []
        while index < end:
            if not self._visible[index]:
                after = next((n for n in range(index, end) if self._visible[n]), end)
                if after == end or not self._continues_item(after, indent, style):
                    break
                index = after
            if not self._continues_item(index, indent, style):
                break
            last = index + 1
            while last < end and not self._ends_entry(last, end, indent):
                last += 1
            while not self._visible[last - 1]:
                last -= 1
            entries.append(self._entry(index, last))
            index = last
        return self._tile("list", entries[0].start, entries[-1].end, entries), index

    def _continues_item(self, index: int, indent: int, style: tuple[object, ...]) -> bool:
        return (
            self._marker(index) is not None
            and abs(self._indent(index) - indent) < _SLACK
            and self._style(index) == style
            and not self._heading_level(index, index + 1)
        )

    def _ends_entry(self, index: int, end: int, indent: int) -> bool:
        """Return whether a line ends the entry above it, because it is not indented further."""
        if not self._visible[index]:
            below = next((n for n in range(index, end) if self._visible[n]), end)
            return below == end or self._indent(below) <= indent + 1
        return self._indent(index) <= indent + (self._marker(index) is not None and 1)

    def _entry(self, first: int, end: int) -> Node:
        opening = self._marker(first)
        assert opening is not None
        start = self._start(first)
        begin = start + opening.start("rest")
        marker = Node(kind="marker", start=start, end=start + len(opening["mark"].rstrip()))
        body = self._text_end(first, end)
        head = self._paragraph(begin, self._end(body - 1)).children
        children = [marker, *head, *self._blocks(body, end)]
        return self._tile("entry", start, self._end(end - 1), children)

    def _paragraph(self, start: int, end: int) -> Node:
        nodes: list[Node] = []
        for (first, last), clauses in sentences(self.text, start, end):
            parts = [Node(kind="clause", start=a, end=b) for a, b in clauses]
            if len(parts) > 1:
                nodes.append(self._tile("sentence", first, last, parts))
            else:
                nodes.append(Node(kind="sentence", start=first, end=last))
        return self._tile("paragraph", start, end, nodes)

    def _examples(self) -> dict[int, int]:
        """The line behind each example, by its first line."""
        runs = self._runs()
        labels = {run: tuple(self._labels(*run)) for run in runs}
        counts = Counter(labels.values())
        spans: dict[int, int] = {}
        for first, end in runs:
            turns = labels[first, end]
            while turns and first < end - 1 and not self._labels(first, first + 1):
                first += 1  # noqa: PLW2901 - lines above the first label are not an example
            alternates = (
                turns[:1]
                and FORMS.input_label.fullmatch(turns[0])
                and any(map(FORMS.output_label.fullmatch, turns[1:]))
            )
            is_marked = self._marker(first) is not None
            is_repeated = len(set(turns)) > 1 and counts[turns] > 1 and not is_marked
            has_title = FORMS.example.match(self._visible[first]) and not is_marked
            alone = end - first == 1 and self._visible[first].endswith((":", "："))
            if alternates or is_repeated or (has_title and not alone):
                spans[first] = end
        for (a, b), (c, d) in pairwise(runs):
            # An input and its output with a blank line between them.
            if c - b == 1 and labels[a, b] and labels[c, d]:
                is_input, is_output = (
                    FORMS.input_label.fullmatch(labels[a, b][0]),
                    FORMS.output_label.fullmatch(labels[c, d][0]),
                )
                if is_input and is_output:
                    spans.setdefault(a, d)
        texts = [self.text[self.lines[a][0] : self.lines[b - 1][1]] for a, b in spans.items()]
        inputs = [a for a, text in zip(spans, texts, strict=True) if "{{" in text]
        spans = {a: b for a, b in spans.items() if a not in inputs}
        arrows = [
            n
            for n, line in enumerate(self._visible)
            if _ARROW.match(line) and not FORMS.marker.match(line) and "{{" not in line
        ]
        for arrow in arrows:
            if {arrow - 1, arrow + 1} & set(arrows):
                spans.setdefault(arrow, arrow + 1)
        return spans

    def _runs(self) -> list[tuple[int, int]]:
        """Ranges of lines without blank lines, headings, tags or fences."""
        runs: list[tuple[int, int]] = []
        fence = ""
        first = 0
        for number, line in enumerate([*self._visible, ""]):
            mark = _FENCE.match(line)
            outside = not fence and not mark
            if mark and (not fence or line == fence):
                fence = "" if fence else mark[0]
            if not line or not outside or _HEADING.match(line) or _TAG.match(line):
                if number > first:
                    runs.append((first, number))
                first = number + 1
        return runs

    def _labels(self, first: int, end: int) -> list[str]:
        """The labels of the lines of a run."""
        marked = ((self._marker(n), self._visible[n]) for n in range(first, end))
        matches = (_LABEL.match(marker["rest"] if marker else line) for marker, line in marked)
        return [label[1].strip().casefold() for label in matches if label]


def _ascii_digits(text: str) -> str:
    return "".join(str(int(sign)) if sign.isdecimal() else sign for sign in text)
