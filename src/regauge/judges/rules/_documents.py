"""Documents: Markdown as CommonMark defines it, YAML, CSV, Python, XML, HTML."""

from __future__ import annotations

import ast
import csv
import functools
import io
import re
import unicodedata
import warnings
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.parsers import expat

from regauge.errors import UsageError
from regauge.judges._rule import Check, Rule, listing, on_output, on_text
from regauge.judges._rule_factory import Name, Names, Place, Whole, rule
from regauge.judges._types import Verdict, abstained, failed, passed, quote_around, quote_list
from regauge.judges.output import MissingValue, parse_integer, parse_path, value_at
from regauge.judges.rules._counts import Count, count_rule
from regauge.lexicon import Lexicon
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.judges.output import JudgedOutput

__all__ = [
    "bullet_count",
    "contains_html",
    "contains_xml",
    "csv_parses",
    "has_sections",
    "highlight_count",
    "html_parses",
    "in_fence",
    "placeholder_count",
    "python_parses",
    "xml_parses",
    "yaml_parses",
]

# The parser of inline marks takes more than linear time; longer paragraphs are parsed in pieces.
_INLINE_CHARS_MAX = 2_000
# The rest of a longer text is not counted; the count is then a range.
_CHARS_MAX = 100_000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:[^\n]*\n)*?---[ \t]*(?:\n|\Z)")
_BULLET_SIGN = re.compile(r"^[^\S\n]*[•‣◦▪●∙·]\s", re.MULTILINE)
_CLOSED = re.compile(r"\](?!\()")
_PLACEHOLDER = re.compile(r"(?<![\w\])])\[(?!\^|[xX]\])(?=[^\[\]\n]*[^\W\d_])[^\[\]\n]*\](?!\()")


@functools.cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Models mix HTML and Markdown; the text in tags is parsed as Markdown.
    return MarkdownIt("commonmark", {"html": False}).disable("inline")


def _blocks(text: str, parsed: dict[str, Any] | None = None) -> Sequence[Any]:
    """The block tokens of a text, without front matter; its references are added to `parsed`."""
    tokens: Sequence[Any] = _parser().parse(_FRONT_MATTER.sub("", text, count=1), parsed)
    return tokens


def _inline(text: str, marks: str) -> Iterator[list[Any]]:
    """The inline tokens of each block with one of these marks, without code."""
    parser = _parser()
    parsed: dict[str, Any] = {}
    blocks = _blocks(text, parsed)
    references = {
        label: reference
        for label, reference in parsed.get("references", {}).items()
        if any(mark in reference["href"] for mark in "/.#@")  # "[Name]: Ada" defines no link
    }
    for block in blocks:
        if block.type != "inline" or not any(mark in block.content for mark in marks):
            continue
        content = str(block.content)
        pieces = [content] if len(content) <= _INLINE_CHARS_MAX else content.splitlines()
        for piece in pieces:
            for start in range(0, len(piece), _INLINE_CHARS_MAX):
                tokens: list[Any] = []
                chunk = piece[start : start + _INLINE_CHARS_MAX]
                parser.inline.parse(chunk, parser, {"references": references}, tokens)
                yield tokens


def _language(info: str) -> str:
    """The language of a fence, such as `yaml`."""
    return info.strip().partition(" ")[0].strip("{}.").lower()


def _count_bullets(text: str) -> int:
    count, kinds = 0, list[bool]()
    for token in _blocks(text):
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                kinds.append(token.type == "bullet_list_open")
            case "bullet_list_close" | "ordered_list_close":
                kinds.pop()
            case "list_item_open":
                count += kinds[-1]
            case "inline":
                count += len(_BULLET_SIGN.findall(token.content))
            case _:
                pass
    return count


def _count_highlights(text: str) -> int:
    count = 0
    for tokens in _inline(text, "*_"):
        depth = 0
        for token in tokens:
            if token.type in {"em_open", "strong_open"}:
                count += depth == 0
                depth += 1
            elif token.type in {"em_close", "strong_close"}:
                depth -= 1
    return count


def _count_placeholders(text: str) -> int:
    count = 0
    if not _CLOSED.search(text):  # the parser of links is slow for unclosed brackets
        return count
    for tokens in _inline(text, "["):
        depth, plain = 0, ""
        for token in tokens:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            plain += token.content if token.type.startswith("text") and not depth else " "
        count += len(_PLACEHOLDER.findall(plain))
    return count


def _count_start(count: Callable[[str], int], text: str) -> Count:
    """Count in the start of a long text, and return the range for all of it."""
    least = count(text[:_CHARS_MAX])
    return least if len(text) <= _CHARS_MAX else (least, least + len(text) - _CHARS_MAX)


@count_rule("bullet", version=2)
def bullet_count(text: str) -> Count:
    r"""The number of bullets: Markdown list items with `-`, `*`, `+` or `•`.

    Nested and quoted items count. Numbered items, horizontal rules, front matter and code do not.

    Advice: Write {bounds} bullets{inside}, each on a line that begins with `-`.

    >>> print(bullet_count(at_most=3).check_text("Do:\n* this\n- that"))
    pass: 2 bullets, at most 3 wanted
    """
    return _count_start(_count_bullets, text)


@count_rule("placeholder", version=2)
def placeholder_count(text: str) -> Count:
    """The number of placeholders in square brackets, such as `[name]`.

    Links, images, notes (`[1]`), check boxes, indexes (`a[i]`) and code do not count.

    Advice: Use {bounds} placeholders in square brackets{inside}, like `[name]`.
    Negated: Use {unbounded} placeholders in square brackets{inside}.

    >>> print(placeholder_count(exactly=0).check_text("Dear [name],"))
    fail: 1 placeholder, exactly 0 wanted
    """
    return _count_start(_count_placeholders, text)


@count_rule("highlight", version=2)
def highlight_count(text: str) -> Count:
    """The number of highlights: emphasis or strong text in Markdown.

    `*one*`, `_two_`, `**three**`, `__four__`; `***both***` is one. Code does not count.

    Advice: Highlight {bounds} parts{inside} between asterisks, like `*this*`.
    Negated: Highlight {unbounded} parts{inside} between asterisks.

    >>> print(highlight_count(at_least=2).check_text("It is *full*, **now**."))
    pass: 2 highlights, at least 2 wanted
    """
    return _count_start(_count_highlights, text)


def _advise_fence(judge: Rule, *, field: str | None, negated: bool) -> str:
    inner = judge.parts[0].advice(field=field, negated=negated)
    languages = judge.params.get("languages")
    marking = f" marked {listing('or', '`')(languages)}" if languages else ""
    inner = inner.replace(", no Markdown", "").replace(", no code fence", "")
    return f"Put it into a code fence{marking}. {inner}".rstrip()


@rule(version=3, compose=_advise_fence)
def in_fence(
    judge: Rule,
    *,
    languages: Sequence[str] = (),
    nth: Place = 1,
    required: bool = True,
    field: str | None = None,
) -> Check:
    r"""Apply any rule to the content of a code fence.

    Args:
        judge: The rule.
        languages: Only fences of these languages.
        nth: The fence to judge, from 1.
        required: Without such a fence, fail; if false, judge the whole output.
        field: Judge this part of a JSON output.

    Fails as: no_fence

    >>> from regauge.judges import json_parses
    >>> print(in_fence(json_parses()).check_text("Here:\n```json\n[1]\n```"))
    pass: in the code fence: an array of JSON
    """
    allowed = frozenset(language.lower() for language in languages)
    examine = judge.examine

    def check(output: JudgedOutput) -> Verdict:
        bodies = [
            str(token.content).removesuffix("\n")
            for token in _blocks((output.text or "")[:_CHARS_MAX])
            if token.type == "fence" and (not allowed or _language(token.info) in allowed)
        ]
        if len(bodies) < nth and len(output.text or "") > _CHARS_MAX:
            return abstained(f"no such fence in the first {_CHARS_MAX} characters", code="too_long")
        if len(bodies) < nth:
            if not required:
                return examine(output)
            kinds = f" of {quote_list(sorted(allowed))}" if allowed else ""
            return failed(
                f"{plural(len(bodies), 'code fence')}{kinds}, {nth} wanted", code="no_fence"
            )
        verdict = examine(output.part(bodies[nth - 1]))
        return replace(verdict, reason=f"in the code fence: {verdict.reason}")

    return on_output(field, check)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_BOLD = re.compile(r" {0,3}(?:\*\*|__)([^*_]+?)(?:\*\*|__)[ \t]*:?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
# Emoji and their selectors, and the space after them.
_ORNAMENTS = frozenset({"So", "Sk", "Mn", "Cf", "Zs"})
_MARKS = re.compile(r"[*_`]")
_LINK = re.compile(r"\[([^][]*)\](?:\([^()\s]*\)|\[[^][]*\])")
_COMMENT = re.compile(r"^[ \t]*<!--(?:(?!-->|<!--).)*-->[ \t]*$", re.MULTILINE | re.DOTALL)
_NUMBERING = re.compile(r"^\s*(?:(?:\d+(?:\.\d+)+[.)]?|\d+[.)])\s+|[一二三四五六七八九十]+、)")


@dataclass(slots=True)
class MarkdownSection:
    """A heading.

    Attributes:
        title: The text of the heading.
        level: From 1 to 6; 7 for a bold line.
        has_content: There is text before the next heading of this or a higher level.
    """

    title: str
    level: int
    has_content: bool = False


def _headings(text: str, *, bold: bool) -> Iterator[tuple[str, int, str]]:
    """Each line, its heading level and title: 0 for no heading, -1 or -2 for the line before."""
    fence, previous = "", ""
    for line in text.splitlines():
        if not line:
            previous = ""
            yield line, 0, ""
            continue
        level, title = 0, ""
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        elif atx := _ATX.match(line):
            level, title = len(atx[1]), atx[2] or ""
        elif bold and (strong := _BOLD.match(line)):
            level, title = 7, strong[1]
        elif previous.strip() and (under := _UNDERLINE.match(line)):
            level, title = (-1 if under[1][0] == "=" else -2), previous
        previous = "" if fence or level else line
        yield line, level, title


def sections_of(text: str, *, bold: bool = False) -> list[MarkdownSection]:
    r"""The sections of a Markdown text, in order, without headings in code fences.

    >>> [(part.level, part.title) for part in sections_of("# A\n## B\ntext")]
    [(1, 'A'), (2, 'B')]
    """
    sections: list[MarkdownSection] = []
    open_: list[MarkdownSection] = []
    has_text = False  # of the previous line, which an underline turns into a title
    for line, level, title in _headings(_COMMENT.sub("", text), bold=bold):
        if has_text and level >= 0:
            for section in open_:
                section.has_content = True
        has_text = level == 0 and bool(line.strip())
        if level == 0:
            continue
        while open_ and open_[-1].level >= abs(level):
            open_.pop()
        for section in open_:
            section.has_content = True
        open_.append(MarkdownSection(title.strip(), abs(level)))
        sections.append(open_[-1])
    if has_text:
        for section in open_:
            section.has_content = True
    return sections


@functools.lru_cache(maxsize=4096)
def _plain_title(title: str) -> str:
    bare = _NUMBERING.sub("", _MARKS.sub("", _LINK.sub(r"\1", title)), count=1)
    words = " ".join(bare.split()).rstrip(":\uff1a ").casefold()
    start = 0
    while start < len(words) and unicodedata.category(words[start]) in _ORNAMENTS:
        start += 1
    return words[start:] or words


@rule(version=2, about="format")
def has_sections(
    *titles: Name,
    level: int | None = None,
    ordered: bool = False,
    filled: bool = True,
    bold: bool = False,
    field: str | None = None,
) -> Check:
    r"""The output is Markdown with these sections.

    Case, emphasis, links, numbering and a final colon of titles are ignored. The score is the share
    of present titles.

    Args:
        titles: The headings.
        level: Only headings of this level, 1 to 6.
        ordered: They must come in this order.
        filled: Each must have content.
        bold: A bold line counts as a heading.
        field: Judge this part of a JSON output.

    Fails as: missing_section, empty_section, section_order
    Advice: Write the section{titles:s} {titles:bare}, each under its own Markdown
        heading{level:level}. | Keep them in this order{ordered:flag}. | Leave none of them
        empty{filled:flag}.
    Negated: Do not write the section{titles:s} {titles:bare}.

    >>> print(has_sections("Meaning", "Impact").check_text("## Meaning\nThe disk is full."))
    fail (0.50): no section 'Impact'
    """
    if not titles:
        raise UsageError("has_sections: name at least one section")
    if level is not None and level not in range(1, 7):
        raise UsageError(f"has_sections: a level is a number from 1 to 6, not {level!r}")
    expected = [(title, _plain_title(title)) for title in titles]

    def check(text: str) -> Verdict:
        places: dict[str, int] = {}
        empty: set[str] = set()
        sections = sections_of(text, bold=bold)
        for place, section in enumerate(sections):
            if level is not None and section.level != level:
                continue
            title = _plain_title(section.title)
            if title not in places or title in empty:
                places[title] = place
                (empty.discard if section.has_content else empty.add)(title)
        missing = [title for title, key in expected if key not in places]
        if missing:
            return failed(
                f"no section {quote_list(missing)}",
                code="missing_section",
                score=1 - len(missing) / len(expected),
                expected=titles,
                actual=[part.title for part in sections[:20]],
                details={"missing": missing},
            )
        bare = [title for title, key in expected if key in empty]
        if filled and bare:
            return failed(
                f"nothing below {quote_list(bare)}",
                code="empty_section",
                score=1 - len(bare) / len(expected),
                details={"empty": bare},
            )
        order = [places[key] for _, key in expected]
        if ordered and order != sorted(order):
            actual = [title for _, title in sorted(zip(order, titles, strict=True))]
            return failed(
                f"the order is {quote_list(actual)}",
                code="section_order",
                expected=titles,
                actual=actual,
            )
        return passed(f"has {quote_list(titles)}")

    return on_text(field, check)


# Longer or deeper outputs fail: parsing time grows with the length, and each level takes several of
# the 1,000 frames of Python's stack.
_YAML_CHARS_MAX = 100_000
_YAML_DEPTH_MAX = 200


def _yaml_composer() -> Any:
    """Return a composer of YAML nodes with redefinable anchors and a nesting limit.

    libyaml parses events if it is installed; its own composer has no nesting limit.
    """
    import yaml

    names: Any = yaml
    compiled: Any = getattr(yaml, "CSafeLoader", None)
    reader: Any = compiled or names.SafeLoader
    base: Any = type("Nodes", (names.composer.Composer, compiled), {}) if compiled else reader

    class Composer(base):  # type: ignore[misc]
        def __init__(self, stream: str) -> None:
            reader.__init__(self, stream)
            self.anchors: dict[str | None, Any] = {}
            self.depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if not self.check_event(yaml.AliasEvent):
                self.anchors.pop(self.peek_event().anchor, None)
            self.depth += 1
            if self.depth > _YAML_DEPTH_MAX:
                raise yaml.YAMLError("nested too deeply")
            above: Any = super()
            node = above.compose_node(parent, index)
            self.depth -= 1
            return node

    return Composer


@functools.cache
def _yaml_loader() -> Any:
    """Return a loader of YAML 1.2 that refuses duplicate keys and ignores tags such as `!Ref`."""
    import yaml

    from regauge.yaml_document import scalar_resolvers

    base: Any = _yaml_composer()

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers = scalar_resolvers()

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as PyYAML calls it
            for place, (key, value) in enumerate(node.value):
                if not isinstance(key, yaml.ScalarNode):  # a list or a mapping, as YAML allows
                    name = str(self.construct_object(key, deep=True))
                    mark = key.start_mark
                    text = yaml.ScalarNode("tag:yaml.org,2002:str", name, mark, key.end_mark)
                    node.value[place] = (text, value)
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(
                        problem=problem, problem_mark=key.start_mark
                    )
                seen.add((key.tag, key.value))
            parent: Any = super()
            return parent.construct_mapping(node, deep=deep)

        def tagged(self, _suffix: str, node: Any) -> Any:
            if isinstance(node, yaml.ScalarNode):
                return node.value
            is_list = isinstance(node, yaml.SequenceNode)
            return (self.construct_sequence if is_list else self.construct_mapping)(node, deep=True)

        def integer(self, node: Any) -> float:
            digits = str(node.value)
            base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
            return parse_integer(digits) if base == 10 else int(digits, base)  # noqa: PLR2004

    Loader.add_multi_constructor("!", Loader.tagged)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.integer)
    return Loader


def yaml_documents(text: str) -> list[Any] | str:
    """Parse the documents of a YAML 1.2 text; return the reason if it is invalid."""
    import yaml

    if len(text) > _YAML_CHARS_MAX:
        return f"longer than {_YAML_CHARS_MAX} characters"
    try:
        return list(yaml.load_all(text, Loader=_yaml_loader()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        return f"{error.problem or error.context or 'broken'}{place}"
    except RecursionError:
        return "nested too deeply"
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError) as error:
        return " ".join(str(error).split())[:200]


def _container(document: object) -> str:
    """The kind of a document: `object`, `array` or `scalar`."""
    if isinstance(document, dict):
        return "object"
    return "array" if isinstance(document, list) else "scalar"


@rule(version=3, about="format")
def yaml_parses(
    *,
    kind: Literal["object", "array", "any"] = "object",
    keys: Names = (),
    field: str | None = None,
) -> Check:
    r"""The whole output is YAML 1.2, of one or several documents.

    A duplicate key is an error. `on`, `yes` and dates are texts; custom tags such as `!Ref` are
    ignored.

    Args:
        kind: The type of each document. Any prose is a YAML text, so `any` checks little.
        keys: Required paths, such as `metadata.name`.
        field: Judge this part of a JSON output.

    Fails as: yaml_invalid, wrong_type, missing_field
    Advice: {fill} YAML only: no prose around it, no code fence. | Give it the key{keys:s}
        {keys:code}.
    Negated: Do not {fill} YAML alone.

    >>> print(yaml_parses(keys=["on"]).check_text("name: ci\non: push"))
    pass: YAML, 1 document
    >>> print(yaml_parses().check_text("name: [ci"))
    fail: not YAML: did not find expected ',' or ']' at line 2, column 1
    """
    expected = [(key, parse_path(key)) for key in keys]

    def check(text: str) -> Verdict:
        documents = yaml_documents(text)
        if isinstance(documents, str):
            return failed(f"not YAML: {documents}", code="yaml_invalid")
        for document in documents or [None]:
            container = _container(document)
            if kind not in ("any", container):
                return failed(f"YAML, but {container} instead of {kind}", code="wrong_type")
            missing = [
                key
                for key, steps in expected
                if isinstance(value_at(document, steps), MissingValue)
            ]
            if missing:
                return failed(f"no field {quote_list(missing)}", code="missing_field")
        return passed(f"YAML, {plural(len(documents), 'document')}")

    return on_text(field, check)


@rule(version=2, about="format")
def csv_parses(
    *,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    min_rows: Whole = 1,
    field: str | None = None,
) -> Check:
    r"""The whole output is CSV with a header and rows of the same width.

    Args:
        columns: Required names in the header, in any order.
        delimiter: The separator of values.
        min_rows: The least number of rows.
        field: Judge this part of a JSON output.

    Fails as: csv_invalid, missing_column, too_few
    Advice: {fill} a CSV table only, with a header and nothing around it. | Its columns are
        {columns:code}.
    Negated: Do not {fill} a CSV table.

    >>> print(csv_parses(columns=["pod", "cpu"]).check_text("pod,cpu\na,1\nb,2\n"))
    pass: CSV, 2 columns, 2 rows
    >>> print(csv_parses().check_text("pod,cpu\na\n"))
    fail: row 2 has 1 value, the header has 2
    """
    if len(delimiter) != 1:
        raise UsageError(f"csv_parses: a delimiter is one character, not {delimiter!r}")
    if spaced := [name for name in columns if name != name.strip()]:
        raise UsageError(f"csv_parses: write {spaced[0]!r} without white space around it")

    def check(text: str) -> Verdict:
        try:
            plain = text.removeprefix("\ufeff")
            reader = csv.reader(io.StringIO(plain, newline=""), delimiter=delimiter, strict=True)
            rows = [row for row in reader if row]
        except csv.Error as error:
            return failed(f"not CSV: {error}", code="csv_invalid")
        if not rows or len(rows[0]) < 2:  # noqa: PLR2004 - prose is a table of one column
            return failed("not CSV: no header of two columns or more", code="csv_invalid")
        header = [name.strip() for name in rows[0]]
        for place, row in enumerate(rows[1:], start=2):
            if len(row) != len(header):
                return failed(
                    f"row {place} has {plural(len(row), 'value')}, the header has {len(header)}",
                    code="csv_invalid",
                )
        missing = [name for name in columns if name not in header]
        if missing:
            return failed(f"no column {quote_list(missing)}", code="missing_column", actual=header)
        if len(rows) - 1 < min_rows:
            reason = f"{plural(len(rows) - 1, 'row')}, at least {min_rows} wanted"
            return failed(reason, code="too_few")
        return passed(f"CSV, {len(header)} columns, {plural(len(rows) - 1, 'row')}")

    return on_text(field, check)


@rule(about="format")
def python_parses(*, functions: Names = (), field: str | None = None) -> Check:
    r"""The whole output is Python that parses, by the grammar of the running Python.

    Args:
        functions: Required functions or classes at the top level.
        field: Judge this part of a JSON output.

    Fails as: python_invalid, missing_function
    Advice: {fill} Python code only: no prose around it, no code fence. | Define the
        function{functions:s} {functions:code}.
    Negated: Do not {fill} Python code alone.

    >>> print(python_parses(functions=["main"]).check_text("def main():\n    pass"))
    pass: Python that parses
    >>> print(python_parses().check_text("def main(:"))
    fail: not Python: invalid syntax at line 1
    """
    if wrong := [name for name in functions if not name.isidentifier()]:
        raise UsageError(f"python_parses: no function can have the name {wrong[0]!r}")

    def check(text: str) -> Verdict:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError as error:
            return failed(f"not Python: {error.msg} at line {error.lineno}", code="python_invalid")
        except (ValueError, RecursionError, MemoryError) as error:
            problem = str(error) or "nested too deeply"
            return failed(f"not Python: {problem}", code="python_invalid")
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        defined = {node.name for node in tree.body if isinstance(node, kinds)}
        missing = [name for name in functions if name not in defined]
        if missing:
            return failed(f"does not define {quote_list(missing)}", code="missing_function")
        return passed("Python that parses")

    return on_text(field, check)


_XML_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z_][\w.:-]*)(?=[\s/>])[^<>]*?(?P<empty>/?)>")
# The most characters to parse for elements that are not well-formed.
_WASTED_CHARS_MAX = 2_000_000


def _xml(text: str) -> set[str] | str:
    """The element paths of an XML document, such as `a.b`, or the reason why it is invalid.

    Paths with prefixes are included without them, too.
    """
    paths: set[str] = set()
    names: list[str] = []

    def start(name: str, _attributes: dict[str, str]) -> None:
        names.append(name)
        paths.add(".".join(names))
        paths.add(".".join(part.rpartition(":")[2] for part in names))

    def doctype(_name: str, _system: object, _public: object, internal: int) -> None:
        if internal:
            raise ValueError("declares entities of its own")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _name: names.pop()
    parser.StartDoctypeDeclHandler = doctype
    try:
        # The text is decoded already, so a declared encoding must not be applied again.
        parser.Parse(re.sub(r"""(<\?xml[^>]*?)\sencoding=["'][^"']*["']""", r"\1", text), True)  # noqa: FBT003 - the last part
    except (expat.ExpatError, ValueError) as error:
        return str(error)
    return paths


@rule(about="format")
def xml_parses(*, elements: Names = (), field: str | None = None) -> Check:
    """The whole output is one well-formed XML document.

    Documents that define entities (an internal DTD) are refused.

    Args:
        elements: Required element paths, such as `report.summary`.
        field: Judge this part of a JSON output.

    Fails as: xml_invalid, missing_element
    Advice: {fill} one well-formed XML document only: no prose around it, no code fence. | Use the
        element{elements:s} {elements:code}.
    Negated: Do not {fill} an XML document alone.

    >>> print(xml_parses(elements=["a.b"]).check_text("<a><b>1</b></a>"))
    pass: well-formed XML
    >>> print(xml_parses().check_text("<a><b></a>"))
    fail: not XML: mismatched tag: line 1, column 8
    """
    if wrong := [name for name in elements if re.search(r"[\s<>/]", name)]:
        raise UsageError(f"xml_parses: write paths of elements such as 'a.b', not {wrong[0]!r}")

    def check(text: str) -> Verdict:
        paths = _xml(text)
        if isinstance(paths, str):
            return failed(f"not XML: {paths}", code="xml_invalid")
        missing = [element for element in elements if element not in paths]
        if missing:
            return failed(
                f"no element {quote_list(missing)}",
                code="missing_element",
                score=1 - len(missing) / len(elements),
            )
        return passed("well-formed XML")

    return on_text(field, check)


def _fragments(text: str) -> Iterator[tuple[str, set[str]]]:
    """The outermost well-formed XML elements of a text, with their paths."""
    position, wasted = 0, 0
    for start, end in sorted(_elements(text)):
        if start < position or wasted > _WASTED_CHARS_MAX:
            continue
        fragment = text[start:end]
        paths = _xml(fragment)
        if isinstance(paths, str):
            wasted += len(fragment)
            continue
        position = end
        yield fragment, paths


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each element of a text, by tags of the same name only."""
    open_: dict[str, list[int]] = {}
    for tag in _XML_TAG.finditer(text):
        starts = open_.setdefault(tag["name"], [])
        if not tag["close"]:
            starts.append(tag.start())
        if (tag["close"] or tag["empty"]) and starts:
            yield starts.pop(), tag.end()


@rule(about="format")
def contains_xml(*, elements: Names = (), field: str | None = None) -> Check:
    """The output contains a well-formed XML element.

    Args:
        elements: Required element paths, such as `report.summary`.
        field: Judge this part of a JSON output.

    Fails as: xml_missing, missing_element
    Advice: Include well-formed XML{inside}. | Use the element{elements:s} {elements:code}.
    Negated: Do not use any XML elements{inside}.

    >>> print(contains_xml().check_text("Here: <a>1</a>."))
    pass: contains '<a>1</a>'
    """

    def check(text: str) -> Verdict:
        least: list[str] | None = None
        for fragment, paths in _fragments(text):
            missing = [element for element in elements if element not in paths]
            if not missing:
                return passed(f"contains {quote(fragment)}")
            least = missing if least is None or len(missing) < len(least) else least
        if least is None:
            return failed("contains no well-formed XML element", code="xml_missing")
        return failed(f"no element {quote_list(least)}", code="missing_element")

    return on_text(field, check)


_HTML: Final = Lexicon("regauge.judges", file="data/formats.toml")
_HTML_TAG = re.compile(
    r"</?([A-Za-z][A-Za-z0-9]*)(?=[\s/>])[^<>]*>|<!doctype\s+html", re.IGNORECASE
)
# Longer outputs fail, as parsing time grows with the length.
_HTML_CHARS_MAX = 200_000
_FOREIGN = {"svg", "math"}  # elements with elements of other languages


class _Html(HTMLParser):
    """Finds the first error of an HTML document."""

    def __init__(self) -> None:
        super().__init__()
        self.error = ""
        self.elements = 0
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - of HTMLParser
        self.elements += 1
        if tag not in _HTML.words("elements") and "-" not in tag and not _FOREIGN & {*self._open}:
            self.error = self.error or f"no element of HTML is called {tag!r}"
        if tag not in _HTML.words("void_elements"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _HTML.words("void_elements"):
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _HTML.words("void_elements"):
            return
        while (
            self._open
            and self._open[-1] != tag
            and self._open[-1] in _HTML.words("optional_end_tags")
        ):
            self._open.pop()
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.error = self.error or f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            self.error = self.error or f"text outside any element: {quote(data.strip(), 40)}"

    def verdict(self) -> str:
        """The error; empty without one."""
        unclosed = [tag for tag in self._open if tag not in _HTML.words("optional_end_tags")]
        if not self.error and unclosed:
            self.error = f"<{unclosed[-1]}> is never closed"
        return self.error or ("" if self.elements else "no element")


@rule(version=3, about="format")
def html_parses(*, field: str | None = None) -> Check:
    """The whole output is HTML: known elements, properly nested, without text outside.

    End tags that HTML makes optional, such as `</li>`, may be missing.

    Args:
        field: Judge this part of a JSON output.

    Fails as: html_invalid
    Advice: {fill} HTML only: known elements, properly nested, no text outside them.
    Negated: Do not {fill} HTML alone.

    >>> print(html_parses().check_text("<ul><li>one<li>two</ul>"))
    pass: HTML of 3 elements
    >>> print(html_parses().check_text("<div>one"))
    fail: not HTML: <div> is never closed
    """

    def check(text: str) -> Verdict:
        # An unclosed tag at the end makes the parser restart at every `<`.
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
        reason = parser.verdict()
        if reason:
            return failed(f"not HTML: {reason}", code="html_invalid")
        return passed(f"HTML of {parser.elements} elements")

    return on_text(field, check)


@rule(version=2, about="format")
def contains_html(*, field: str | None = None) -> Check:
    """The output contains an HTML tag.

    Args:
        field: Judge this part of a JSON output.

    Fails as: html_missing
    Advice: Include HTML{inside}.
    Negated: Do not use any HTML tags{inside}.

    >>> print(contains_html().check_text("one<br>two"))
    pass: a tag: 'one<br>two'
    >>> print(contains_html().check_text("a < b and <name>"))
    fail: contains no tag of HTML
    """

    def check(text: str) -> Verdict:
        for tag in _HTML_TAG.finditer(text):
            if tag[1] is None or tag[1].lower() in _HTML.words("elements"):
                return passed(f"a tag: {quote_around(text, *tag.span())}")
        return failed("contains no tag of HTML", code="html_missing")

    return on_text(field, check)
