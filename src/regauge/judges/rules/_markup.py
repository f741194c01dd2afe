"""Answers that are or hold XML or HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.parsers import expat

from regauge.judges._evidence import around, listed, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["contains_html", "contains_xml", "html_parses", "xml_parses"]

_XML_OPENING = re.compile(r"<([A-Za-z_][\w.:-]*)(?=[\s/>])")
# How many characters are read for elements that turn out to be none.
_WASTED_CHARS_MAX = 2_000_000


class _Rejected(Exception):  # noqa: N818 - it leaves the parser's call-backs, nothing else
    """The document uses what a plain answer has no use for."""


class _Elements:
    """The element paths of an XML document from its root, such as `a.b`."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self._open: list[str] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        """An element begins."""
        self._open.append(name)
        self.paths.add(".".join(self._open))

    def end(self, _name: str) -> None:
        """An element ends."""
        self._open.pop()

    def doctype(self, _name: str, _system: object, _public: object, internal: int) -> None:
        """A document type declaration begins."""
        if internal:
            raise _Rejected("declares entities of its own")


def _xml(text: str) -> set[str] | str:
    """The element paths of an XML document, or why it is none."""
    elements = _Elements()
    parser = expat.ParserCreate()
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.StartDoctypeDeclHandler = elements.doctype
    try:
        # The text is decoded already, so a declared encoding must not be applied again.
        parser.Parse(re.sub(r"""(<\?xml[^>]*?)\sencoding=["'][^"']*["']""", r"\1", text), True)  # noqa: FBT003 - the last part
    except (expat.ExpatError, _Rejected, ValueError) as error:
        return str(error)
    return elements.paths


def _missing(paths: set[str], elements: Sequence[str]) -> list[str]:
    return [element for element in elements if element not in paths]


@rule(codes=("xml_invalid", "missing_element"))
def xml_parses(*, elements: Sequence[str] = (), field: str | None = None) -> Check:
    """The whole answer is one well-formed XML document.

    Entities of its own (an internal DTD) are refused, for they can blow a parser up.

    Args:
        elements: Element paths from the root that must occur, such as `report.summary`.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(xml_parses(elements=["a.b"]).check_text("<a><b>1</b></a>"))
    pass: well-formed XML
    >>> print(xml_parses().check_text("<a><b></a>"))
    fail: not XML: mismatched tag: line 1, column 8
    """

    def check(text: str) -> Verdict:
        paths = _xml(text)
        if isinstance(paths, str):
            return failed(f"not XML: {paths}", code="xml_invalid")
        missing = _missing(paths, elements)
        if missing:
            return failed(
                f"no element {listed(missing)}",
                code="missing_element",
                score=1 - len(missing) / len(elements),
            )
        return passed("well-formed XML")

    return on_text(field, check)


def _fragments(text: str) -> Iterator[tuple[str, set[str]]]:
    """The well-formed XML elements of a text, outermost ones, with their paths."""
    at, wasted = 0, 0
    while wasted < _WASTED_CHARS_MAX:
        opening = _XML_OPENING.search(text, at)
        if opening is None:
            return
        at = opening.end()
        end = _element_end(text, opening)
        if end is None:
            wasted += len(text) - opening.start()
            continue
        fragment = text[opening.start() : end]
        paths = _xml(fragment)
        if isinstance(paths, str):
            wasted += len(fragment)
            continue
        at = end
        yield fragment, paths


def _element_end(text: str, opening: re.Match[str]) -> int | None:
    """Where the element ends that opens here; None when it never does."""
    name = re.escape(opening[1])
    depth = 0
    for tag in re.compile(rf"<(/?){name}(?=[\s/>])[^<>]*?(/?)>").finditer(text, opening.start()):
        if tag[1]:
            depth -= 1
        elif not tag[2]:
            depth += 1
        if depth <= 0:
            return tag.end()
    return None


@rule(codes=("xml_missing", "missing_element"))
def contains_xml(*, elements: Sequence[str] = (), field: str | None = None) -> Check:
    """A well-formed XML element stands somewhere in the answer.

    Args:
        elements: Element paths, from its root, that must occur in one of them.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_xml().check_text("Here: <a>1</a>."))
    pass: contains '<a>1</a>'
    """

    def check(text: str) -> Verdict:
        least: list[str] | None = None
        for fragment, paths in _fragments(text):
            missing = _missing(paths, elements)
            if not missing:
                return passed(f"contains {quote(fragment)}")
            least = missing if least is None or len(missing) < len(least) else least
        if least is None:
            return failed("contains no well-formed XML element", code="xml_missing")
        return failed(f"no element {listed(least)}", code="missing_element")

    return on_text(field, check)


_ELEMENT_NAMES = """
a abbr address area article aside audio b base bdi bdo blockquote body br button canvas caption
center cite code col colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset
figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input
ins kbd label legend li link main map mark menu meta meter nav noscript object ol optgroup option
output p param picture pre progress q rp rt ruby s samp script search section select slot small
source span strike strong style sub summary sup svg table tbody td template textarea tfoot th
thead time title tr track tt u ul var video wbr
"""
_ELEMENTS = frozenset(_ELEMENT_NAMES.split())
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905 - reads better
_OPTIONAL_END_NAMES = """
html head body p li dt dd rt rp optgroup option colgroup caption thead tbody tfoot tr td th
"""
_OPTIONAL_END = frozenset(_OPTIONAL_END_NAMES.split())
_HTML_TAG = re.compile(
    r"</?([A-Za-z][A-Za-z0-9]*)(?=[\s/>])[^<>]*>|<!doctype\s+html", re.IGNORECASE
)


_HTML_CHARS_MAX = 200_000


class _Html(HTMLParser):
    """Finds out what a document of HTML does wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        self.elements = 0
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - of HTMLParser
        self.elements += 1
        if tag not in _ELEMENTS and "-" not in tag and "svg" not in self._open:
            self.fault = self.fault or f"no element of HTML is called {tag!r}"
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        while self._open and self._open[-1] != tag and self._open[-1] in _OPTIONAL_END:
            self._open.pop()
        if self._open and self._open[-1] == tag:
            self._open.pop()
        elif tag != "p":
            self.fault = self.fault or f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            self.fault = self.fault or f"text outside any element: {quote(data.strip(), 40)}"

    def verdict(self) -> str:
        """What is wrong; empty when nothing is."""
        unclosed = [tag for tag in self._open if tag not in _OPTIONAL_END]
        if not self.fault and unclosed:
            self.fault = f"<{unclosed[-1]}> is never closed"
        return self.fault or ("" if self.elements else "no element")


@rule(codes=("html_invalid",))
def html_parses(*, field: str | None = None) -> Check:
    """The whole answer is HTML: known elements, properly nested, no text outside them.

    End tags that HTML lets one leave out, such as `</li>`, may be missing.

    Args:
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(html_parses().check_text("<ul><li>one<li>two</ul>"))
    pass: HTML of 3 elements
    >>> print(html_parses().check_text("<div>one"))
    fail: not HTML: <div> is never closed
    """

    def check(text: str) -> Verdict:
        # An open tag at the end makes the parser start over at every `<`.
        if text.rfind("<") > text.rfind(">"):
            return failed("not HTML: the last tag is never closed", code="html_invalid")
        if len(text) > _HTML_CHARS_MAX:
            return failed(f"longer than {_HTML_CHARS_MAX} characters", code="html_invalid")
        parser = _Html()
        try:
            parser.feed(text)
            parser.close()
        except (AssertionError, ValueError) as error:
            return failed(f"not HTML: {error}", code="html_invalid")
        fault = parser.verdict()
        if fault:
            return failed(f"not HTML: {fault}", code="html_invalid")
        return passed(f"HTML of {parser.elements} elements")

    return on_text(field, check)


@rule(codes=("html_missing",))
def contains_html(*, field: str | None = None) -> Check:
    """A tag of HTML stands somewhere in the answer.

    Args:
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_html().check_text("one<br>two"))
    pass: a tag: 'one<br>two'
    >>> print(contains_html().check_text("a < b and <name>"))
    fail: contains no tag of HTML
    """

    def check(text: str) -> Verdict:
        for tag in _HTML_TAG.finditer(text):
            if tag[1] is None or tag[1].lower() in _ELEMENTS:
                return passed(f"a tag: {around(text, *tag.span())}")
        return failed("contains no tag of HTML", code="html_missing")

    return on_text(field, check)
