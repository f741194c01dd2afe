"""Parses a text in any language into a tree of sections, lists and sentences."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from regauge.statements._sentences import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
_EXAMPLE_TAG = re.compile(r"</?(?:few|shots?|examples?|samples?|demos?)\b", re.IGNORECASE)
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
        return any(
            parent.kind in {"example", "data"}
            or (parent.kind == "block" and _EXAMPLE_TAG.match(self.text_of(parent.children[0])))
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
    """A statement in lower case, with single spaces and without marks at its ends.

    >>> normalise("  Reply in  JSON. ")
    'reply in json'
    """
    return " ".join(text.casefold().split()).strip(_EDGE)


_NUMERAL = r"\d{1,3}(?:\.\d{1,3})*|[a-zA-Z]|[ivxIVX]{2,5}|[０-９]{1,2}|[一二三四五六七八九十]{1,3}"
MARKER = re.compile(
    r"(?P<mark>[-*+•‣◦▪●○・–—][ \t]+|\[\^[^\]\s]+\]:[ \t]+"
    rf"|(?P<open>[(（]?)(?P<number>{_NUMERAL})(?:(?P<close>[)）])[ \t]*|(?P<dot>[.:])[ \t]+"
    r"|(?P<wide>[、．：])[ \t]*)"
    r"|(?P<circled>[①-⑳])[ \t]*"
    r"|(?P<word>[^\W\d_]{1,12})[ \t]?(?P<nth>\d{1,2}|[０-９]{1,2})[ \t]*[:：.)][ \t]*)"
    r"(?=\S)(?P<rest>.*)"
)
_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r"(=|-)\1{2,}\s*$")
_TITLE = re.compile(r"(?:\*\*[^*]+\*\*|__[^_]+__|【[^】]+】|[■◆▼□◇][^。]*)[:：]?\s*$")
_LABELLED = re.compile(r"\S[^\n]{0,100}[:：]\s*$")
_TAG = re.compile(r"<(/?)([^\W\d][\w.:-]*)(?:\s[^<>]*)?>\s*$")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_RULE = re.compile(r"(?:[-*_][ \t]*){3,}$")
_LABEL = re.compile(r"(?:\*\*|__)?([^\W\d_][\w -]{0,24}?)[ \t]*\d*(?:\*\*|__)?[ \t]*[:：]")
_ARROW = re.compile(r"[^\n]*\S\s+(?:->|→|=>|⇒)\s+\S")
_INPUT_LABEL = re.compile(
    r"input|question|q|user|message|eingabe|frage|nachricht|entrée|entrada|pregunta|pergunta"
    r"|utilisateur|usuario|domanda|vraag|入力|質問|输入|问题|вход|вопрос|입력|질문"
)
_OUTPUT_LABEL = re.compile(
    r"output|answer|a|assistant|response|result|label|ausgabe|antwort|ergebnis|sortie|réponse"
    r"|salida|saída|respuesta|resposta|uscita|risposta|uitvoer|antwoord|出力|回答|答え|输出|答案"
    r"|выход|ответ|출력|답변"
)
_EXAMPLE = re.compile(
    r"(?:\*\*|__)?(?:example|beispiel|exemple|ejemplo|exemplo|esempio|voorbeeld|пример|例|示例|예)"
    r"[ \t]*\d*(?:\*\*|__)?[ \t]*[:：]",
    re.IGNORECASE,
)
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

    def _line(self, number: int) -> str:
        return self._visible[number]

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
            if not self._line(index) or _RULE.match(self._line(index)):
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
        line = self._line(index)
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
        return self._line(index + 1) if index + 1 < end else ""

    def _has_body(self, index: int, end: int) -> bool:
        """Return whether the line below one that ends with a colon is more than an input."""
        below = self._line_below(index, end)
        if not below and index + 2 < end:
            return self._marker(index + 2) is not None
        return bool(below) and not below.startswith("{{")

    def _fence_end(self, index: int, end: int) -> int:
        match = _FENCE.match(self._line(index))
        assert match is not None
        mark = match[0]
        closed = (
            n
            for n in range(index + 1, end)
            if self._line(n).startswith(mark) and not self._line(n).strip(mark[0])
        )
        return next(closed, end - 1)

    def _heading_level(self, index: int, end: int) -> int:
        line = self._line(index)
        if match := _HEADING.match(line):
            return len(match[1])
        if _TITLE.match(line):
            return _TITLE_LEVEL
        if line and (match := _UNDERLINE.match(self._line_below(index, end))):
            is_title = (
                self._marker(index) is None and not line.startswith("|") and line[-1] not in ".。"
            )
            above = index == 0 or not self._line(index - 1)
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
            if _FENCE.match(self._line(last)):
                last = self._fence_end(last, end) + 1
                continue
            other = self._heading_level(last, end)
            if other and other <= level:
                break
            last += 1
        while last > body and not self._line(last - 1):
            last -= 1
        blocks = self._blocks(body, last)
        stop = max(self._end(last - 1), heading.end)
        return self._tile("section", heading.start, stop, [heading, *blocks], level), last

    def _colon_end(self, body: int, end: int) -> int:
        """The first line behind a colon's block: up to a blank line, or one list."""
        if not self._line(body):
            body += 1
        if self._marker(body) is not None:
            return self._list(body, end)[1]
        index = body
        while index < end and self._line(index) and not self._heading_level(index, end):
            index = (
                self._fence_end(index, end) + 1 if _FENCE.match(self._line(index)) else index + 1
            )
        return index

    def _tagged_node(self, index: int, end: int) -> tuple[Node, int]:
        """A block between two tags on lines of their own, or a single tag."""
        tag = _TAG.match(self._line(index))
        assert tag is not None
        depth = 0
        if not tag[1] and not tag[0].rstrip().endswith("/>"):
            for number in range(index, end):
                other = _TAG.match(self._line(number))
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
        while last + 1 < end and self._line(last + 1).startswith("|"):
            last += 1
        rows = [self._leaf("row", n, n) for n in range(index, last + 1)]
        return self._tile("table", rows[0].start, rows[-1].end, rows), last + 1

    def _json_end(self, index: int, end: int) -> int:
        """The last line of a JSON document that begins here; the line before if none does."""
        line = self._line(index)
        if (
            line[:1] not in {"{", "["}
            or line.startswith("{{")
            or not re.match(r'[{\[]\s*(?:["{\[]|$)', line)
        ):
            return index - 1
        depth = 0
        for number in range(index, min(end, index + 200)):
            unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "", self._line(number))
            depth += sum(unquoted.count(sign) for sign in "{[") - sum(
                unquoted.count(s) for s in "}]"
            )
            if depth <= 0:
                return number if unquoted.rstrip(" ,")[-1:] in {"}", "]"} else index - 1
        return index - 1

    def _marker(self, index: int) -> re.Match[str] | None:
        """The marker of a list entry at the beginning of a line; None for none."""
        match = MARKER.match(self._line(index))
        if match is None or _RULE.match(self._line(index)):
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
        """Return whether another line has the next or previous number: "Step 1:", "Step 2:"."""
        if not number.isdecimal():
            return False
        near = "|".join(str(int(number) + step) for step in (-1, 1))
        begins = re.compile(rf"{re.escape(word)}[ \t]?0?(?:{near})[ \t]*[:：.)]")
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
            if not self._line(index):
                after = next((n for n in range(index, end) if self._line(n)), end)
                if after == end or not self._continues(after, indent, style):
                    break
                index = after
            if not self._continues(index, indent, style):
                break
            last = index + 1
            while last < end and not self._ends_entry(last, end, indent):
                last += 1
            while not self._line(last - 1):
                last -= 1
            entries.append(self._entry(index, last))
            index = last
        return self._tile("list", entries[0].start, entries[-1].end, entries), index

    def _continues(self, index: int, indent: int, style: tuple[object, ...]) -> bool:
        return (
            self._marker(index) is not None
            and abs(self._indent(index) - indent) < _SLACK
            and self._style(index) == style
            and not self._heading_level(index, index + 1)
        )

    def _ends_entry(self, index: int, end: int, indent: int) -> bool:
        """Return whether a line ends the entry above it, because it is not indented further."""
        if not self._line(index):
            below = next((n for n in range(index, end) if self._line(n)), end)
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
                first += 1  # noqa: PLW2901 - lines above the first label are no example
            alternates = (
                turns[:1]
                and _INPUT_LABEL.fullmatch(turns[0])
                and any(map(_OUTPUT_LABEL.fullmatch, turns[1:]))
            )
            is_marked = self._marker(first) is not None
            is_repeated = len(set(turns)) > 1 and counts[turns] > 1 and not is_marked
            has_title = _EXAMPLE.match(self._line(first)) and not is_marked
            alone = end - first == 1 and self._line(first).endswith((":", "："))
            if alternates or is_repeated or (has_title and not alone):
                spans[first] = end
        for (a, b), (c, d) in pairwise(runs):
            # An input and its output with a blank line between them.
            if c - b == 1 and labels[a, b] and labels[c, d]:
                is_input, is_output = (
                    _INPUT_LABEL.fullmatch(labels[a, b][0]),
                    _OUTPUT_LABEL.fullmatch(labels[c, d][0]),
                )
                if is_input and is_output:
                    spans.setdefault(a, d)
        texts = [self.text[self.lines[a][0] : self.lines[b - 1][1]] for a, b in spans.items()]
        inputs = [a for a, text in zip(spans, texts, strict=True) if "{{" in text]
        spans = {a: b for a, b in spans.items() if a not in inputs}
        arrows = [n for n, line in enumerate(self._visible) if self._maps(line)]
        for arrow in arrows:
            if {arrow - 1, arrow + 1} & set(arrows):
                spans.setdefault(arrow, arrow + 1)
        return spans

    def _maps(self, line: str) -> bool:
        return bool(_ARROW.match(line)) and not MARKER.match(line) and "{{" not in line

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
        marked = ((self._marker(n), self._line(n)) for n in range(first, end))
        matches = (_LABEL.match(marker["rest"] if marker else line) for marker, line in marked)
        return [label[1].strip().casefold() for label in matches if label]


def _ascii_digits(text: str) -> str:
    return "".join(str(int(sign)) if sign.isdecimal() else sign for sign in text)
