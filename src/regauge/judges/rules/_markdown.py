"""Markdown, as CommonMark defines it: bullets, highlights, placeholders, fences, sections."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, Rule, on_answer, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, abstained, failed, passed
from regauge.judges.rules._counts import Count, count_rule
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.judges._answer import Answer

__all__ = [
    "bullet_count",
    "has_sections",
    "highlight_count",
    "in_fence",
    "placeholder_count",
]

# The parser of inline marks takes more than linear time; longer paragraphs are read in pieces.
_INLINE_CHARS_MAX = 2_000
# What follows is not read: a count is then a lower limit.
_CHARS_MAX = 100_000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:[^\n]*\n)*?---[ \t]*(?:\n|\Z)")
_BULLET_SIGN = re.compile(r"^[^\S\n]*[•‣◦▪●∙·]\s", re.MULTILINE)
_CLOSED = re.compile(r"\](?!\()")
_PLACEHOLDER = re.compile(r"(?<![\w\])])\[(?!\^|[xX]\])(?=[^\[\]\n]*[^\W\d_])[^\[\]\n]*\](?!\()")


@functools.cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Models write HTML and Markdown side by side; what stands in tags is read as Markdown.
    return MarkdownIt("commonmark", {"html": False}).disable("inline")


def _blocks(text: str, found: dict[str, Any] | None = None) -> Sequence[Any]:
    """The block tokens of a text, without front matter; `found` receives its references."""
    tokens: Sequence[Any] = _parser().parse(_FRONT_MATTER.sub("", text, count=1), found)
    return tokens


def _inline(text: str, marks: str) -> Iterator[list[Any]]:
    """The inline tokens of each block with one of these marks, code aside."""
    parser = _parser()
    found: dict[str, Any] = {}
    blocks = _blocks(text, found)
    references = {
        label: reference
        for label, reference in found.get("references", {}).items()
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
    """The language that a fence names, such as `yaml`."""
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
    if not _CLOSED.search(text):  # the parser of links takes long for brackets that stay open
        return count
    for tokens in _inline(text, "["):
        depth, plain = 0, ""
        for token in tokens:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            plain += token.content if token.type.startswith("text") and not depth else " "
        count += len(_PLACEHOLDER.findall(plain))
    return count


def _count_start(count: Callable[[str], int], text: str) -> Count:
    """A count of the start of a long text: the range that the whole can have."""
    least = count(text[:_CHARS_MAX])
    return least if len(text) <= _CHARS_MAX else (least, least + len(text) - _CHARS_MAX)


@count_rule(
    "bullet",
    wanted="Write {bounds} bullets{inside}, each on a line that begins with `-`.",
    version=2,
)
def bullet_count(text: str) -> Count:
    r"""The number of bullets: Markdown list items with `-`, `*`, `+` or `•`.

    Nested and quoted items count. Numbered items, horizontal rules, front matter and code do not.

    >>> print(bullet_count(at_most=3).check_text("Do:\n* this\n- that"))
    pass: 2 bullets, at most 3 wanted
    """
    return _count_start(_count_bullets, text)


@count_rule(
    "placeholder",
    wanted="Use {bounds} placeholders in square brackets{inside}, like `[name]`.",
    denied="Use {unbounded} placeholders in square brackets{inside}.",
    version=2,
)
def placeholder_count(text: str) -> Count:
    """The number of placeholders in square brackets, such as `[name]`.

    Links, images, notes such as `[1]`, check boxes, indexes such as `a[i]` and code do not count.

    >>> print(placeholder_count(exactly=0).check_text("Dear [name],"))
    fail: 1 placeholder, exactly 0 wanted
    """
    return _count_start(_count_placeholders, text)


@count_rule(
    "highlight",
    wanted="Highlight {bounds} parts{inside} between asterisks, like `*this*`.",
    denied="Highlight {unbounded} parts{inside} between asterisks.",
    version=2,
)
def highlight_count(text: str) -> Count:
    """The number of highlights: emphasis or strong text in Markdown.

    `*one*`, `_two_`, `**three**`, `__four__`; `***both***` is one. Code does not count.

    >>> print(highlight_count(at_least=2).check_text("It is *full*, **now**."))
    pass: 2 highlights, at least 2 wanted
    """
    return _count_start(_count_highlights, text)


@rule(codes=("no_fence",), version=2)
def in_fence(
    judge: Rule,
    *,
    languages: Sequence[str] = (),
    nth: int = 1,
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

    >>> from regauge.judges import json_parses
    >>> print(in_fence(json_parses()).check_text("Here:\n```json\n[1]\n```"))
    pass: in the code fence: an array of JSON
    """
    if nth < 1:
        raise UsageError(f"in_fence: fences count from 1, not {nth}")
    wanted = frozenset(language.lower() for language in languages)
    examine = judge.examine

    def check(answer: Answer) -> Verdict:
        bodies = [
            str(token.content)
            for token in _blocks((answer.text or "")[:_CHARS_MAX])
            if token.type == "fence" and (not wanted or _language(token.info) in wanted)
        ]
        if len(bodies) < nth and len(answer.text or "") > _CHARS_MAX:
            return abstained(f"no such fence in the first {_CHARS_MAX} characters", code="too_long")
        if len(bodies) < nth:
            if not required:
                return examine(answer)
            kinds = f" of {listed(sorted(wanted))}" if wanted else ""
            return failed(
                f"{plural(len(bodies), 'code fence')}{kinds}, {nth} wanted", code="no_fence"
            )
        verdict = examine(answer.part(bodies[nth - 1]))
        return Verdict(
            outcome=verdict.outcome,
            score=verdict.score,
            reason=f"in the code fence: {verdict.reason}",
            expected=verdict.expected,
            actual=verdict.actual,
            details=verdict.details,
        )

    return on_answer(field, check)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_BOLD = re.compile(r" {0,3}(?:\*\*|__)([^*_]+?)(?:\*\*|__)[ \t]*:?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
# Emoji and their selectors, and the space after them.
_ORNAMENTS = frozenset({"So", "Sk", "Mn", "Cf", "Zs"})
_MARKS = re.compile(r"[*_`]")
_NUMBERING = re.compile(r"^\s*(?:(?:\d+(?:\.\d+)+[.)]?|\d+[.)])\s+|[一二三四五六七八九十]+、)")


@dataclass(slots=True)
class Section:
    """A heading, and whether there is text below it, up to the next of its level or above."""

    title: str
    level: int
    filled: bool = False


def _headings(text: str, *, bold: bool) -> Iterator[tuple[str, int, str]]:
    """Every line with its heading level (0 for none) and title; -1 -2 name the line before."""
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


def sections_of(text: str, *, bold: bool = False) -> list[Section]:
    r"""The sections of a Markdown text, in order; headings in code fences are none.

    >>> [(part.level, part.title) for part in sections_of("# A\n## B\ntext")]
    [(1, 'A'), (2, 'B')]
    """
    found: list[Section] = []
    open_: list[Section] = []
    has_text = False  # whether the line before is text; a line below it can make it a title
    for line, level, title in _headings(text, bold=bold):
        if has_text and level >= 0:
            for section in open_:
                section.filled = True
        has_text = level == 0 and bool(line.strip())
        if level == 0:
            continue
        while open_ and open_[-1].level >= abs(level):
            open_.pop()
        for section in open_:
            section.filled = True
        open_.append(Section(title.strip(), abs(level)))
        found.append(open_[-1])
    if has_text:
        for section in open_:
            section.filled = True
    return found


@functools.lru_cache(maxsize=4096)
def _plain(title: str) -> str:
    bare = _NUMBERING.sub("", _MARKS.sub("", title), count=1)
    words = " ".join(bare.split()).rstrip(":\uff1a ").casefold()
    start = 0
    while start < len(words) and unicodedata.category(words[start]) in _ORNAMENTS:
        start += 1
    return words[start:] or words


@rule(
    codes=("missing_section", "empty_section", "section_order"),
    about="format",
    wanted=(
        "Write the section{titles:s} {titles:bare}, each under its own Markdown "
        "heading{level:level}. | Keep them in this order{ordered:flag}. | Leave "
        "none of them empty{filled:flag}."
    ),
    denied="Do not write the section{titles:s} {titles:bare}.",
)
def has_sections(
    *titles: str,
    level: int | None = None,
    ordered: bool = False,
    filled: bool = True,
    bold: bool = False,
    field: str | None = None,
) -> Check:
    r"""The output is Markdown with these sections.

    Case, emphasis, numbering and a final colon of titles are ignored. The score is the share of
    present titles.

    Args:
        titles: The headings.
        level: Only headings of this level, 1 to 6.
        ordered: They must come in this order.
        filled: Each must have content.
        bold: A bold line counts as a heading.
        field: Judge this part of a JSON output.

    >>> print(has_sections("Meaning", "Impact").check_text("## Meaning\nThe disk is full."))
    fail (0.50): no section 'Impact'
    """
    if not titles:
        raise UsageError("has_sections: name at least one section")
    if level is not None and level not in range(1, 7):
        raise UsageError(f"has_sections: a level is a number from 1 to 6, not {level!r}")
    wanted = [(title, _plain(title)) for title in titles]

    def check(text: str) -> Verdict:
        places: dict[str, int] = {}
        empty: set[str] = set()
        sections = sections_of(text, bold=bold)
        for place, section in enumerate(sections):
            if level is not None and section.level != level:
                continue
            title = _plain(section.title)
            if title not in places or title in empty:
                places[title] = place
                (empty.discard if section.filled else empty.add)(title)
        missing = [title for title, key in wanted if key not in places]
        if missing:
            return failed(
                f"no section {listed(missing)}",
                code="missing_section",
                score=1 - len(missing) / len(wanted),
                expected=titles,
                actual=[part.title for part in sections[:20]],
                details={"missing": missing},
            )
        bare = [title for title, key in wanted if key in empty]
        if filled and bare:
            return failed(
                f"nothing stands below {listed(bare)}",
                code="empty_section",
                score=1 - len(bare) / len(wanted),
                details={"empty": bare},
            )
        order = [places[key] for _, key in wanted]
        if ordered and order != sorted(order):
            actual = [title for _, title in sorted(zip(order, titles, strict=True))]
            return failed(
                f"the order is {listed(actual)}",
                code="section_order",
                expected=titles,
                actual=actual,
            )
        return passed(f"has {listed(titles)}")

    return on_text(field, check)
