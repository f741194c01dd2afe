"""Markdown, as CommonMark defines it: bullets, highlights, placeholders and code fences."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, Rule, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, abstained, failed
from regauge.judges.rules._counts import counted
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.judges._answer import Answer

__all__ = ["bullet_count", "highlight_count", "in_fence", "placeholder_count"]

# The parser of inline marks takes more than linear time; longer paragraphs are read in pieces.
_INLINE_CHARS_MAX = 2_000
# What follows is not read: a count is then a lower limit.
_CHARS_MAX = 100_000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:[^\n]*\n)*?---[ \t]*(?:\n|\Z)")
_BULLET_SIGN = re.compile(r"^[^\S\n]*[•‣◦▪●∙·]\s", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?<![\w\])])\[(?!\^|[xX]\])(?=[^\[\]\n]*[^\W\d_])[^\[\]\n]*\](?!\()")


@functools.cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Models write HTML and Markdown side by side; what stands in tags is read as Markdown.
    return MarkdownIt("commonmark", {"html": False}).disable("inline")


def _blocks(text: str) -> Sequence[Any]:
    """The block tokens of a text, without front matter."""
    tokens: Sequence[Any] = _parser().parse(_FRONT_MATTER.sub("", text, count=1))
    return tokens


def _inline(text: str, marks: str) -> Iterator[list[Any]]:
    """The inline tokens of each block with one of these marks, code aside."""
    parser = _parser()
    for block in _blocks(text):
        if block.type != "inline" or not any(mark in block.content for mark in marks):
            continue
        content = str(block.content)
        pieces = [content] if len(content) <= _INLINE_CHARS_MAX else content.splitlines()
        for piece in pieces:
            for start in range(0, len(piece), _INLINE_CHARS_MAX):
                tokens: list[Any] = []
                chunk = piece[start : start + _INLINE_CHARS_MAX]
                parser.inline.parse(chunk, parser, {}, tokens)
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
    for tokens in _inline(text, "["):
        depth, plain = 0, ""
        for token in tokens:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            plain += token.content if token.type.startswith("text") and not depth else " "
        count += len(_PLACEHOLDER.findall(plain))
    return count


def _up_to_limit(count: Callable[[str], int]) -> Callable[[str], int | tuple[int, int]]:
    """A count of the start of a long text: the range that the whole can have."""

    def limited(text: str) -> int | tuple[int, int]:
        least = count(text[:_CHARS_MAX])
        return least if len(text) <= _CHARS_MAX else (least, least + len(text) - _CHARS_MAX)

    return limited


@rule(codes=("too_few", "too_many"), version=2)
def bullet_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    r"""The output has so many bullets: items of Markdown lists with `-`, `*` or `+`, or `•`.

    Nested items count, and so do those in quotes. Numbered items, horizontal rules, front matter
    and lines in code do not.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(bullet_count(at_most=3).check_text("Do:\n* this\n- that"))
    pass: 2 bullets, at most 3 wanted
    """
    return counted(
        "bullet_count",
        _up_to_limit(_count_bullets),
        "bullet",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("too_few", "too_many"), version=2)
def placeholder_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The output has so many placeholders in square brackets, such as `[name]`.

    Links, images, notes such as `[1]`, check boxes, indexes such as `a[i]` and code are none.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(placeholder_count(exactly=0).check_text("Dear [name],"))
    fail: 1 placeholder, exactly 0 wanted
    """
    return counted(
        "placeholder_count",
        _up_to_limit(_count_placeholders),
        "placeholder",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("too_few", "too_many"), version=2)
def highlight_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The output has so many highlighted parts: emphasis or strong text of Markdown.

    `*one*`, `_two_`, `**three**`, `__four__`; `***both***` is one part. Code is none.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(highlight_count(at_least=2).check_text("It is *full*, **now**."))
    pass: 2 highlights, at least 2 wanted
    """
    return counted(
        "highlight_count",
        _up_to_limit(_count_highlights),
        "highlight",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("no_fence",), version=2)
def in_fence(
    judge: Rule,
    *,
    languages: Sequence[str] = (),
    nth: int = 1,
    required: bool = True,
    field: str | None = None,
) -> Check:
    r"""Apply any rule to what stands in a code fence of the answer.

    Args:
        judge: The rule.
        languages: Only fences of these languages count, such as `yaml`; any by default.
        nth: Which of them, from 1.
        required: Without such a fence the answer fails; otherwise it is judged as a whole.
        field: Judge this part of a JSON answer instead of the whole.

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
