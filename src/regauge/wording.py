"""Texts of messages: counts, excerpts, the closest name, untrusted text for a terminal."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun; `nouns` is an irregular plural.

    >>> plural(1, "case"), plural(2, "case"), plural(0, "reply", "replies")
    ('1 case', '2 cases', '0 replies')
    """
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def quote(text: str, limit: int = 80) -> str:
    r"""Quote a text; long text loses its middle, control characters become escapes.

    >>> quote("one\ntwo")
    "'one\\ntwo'"
    """
    if len(text) > limit:
        head = limit * 2 // 3
        text = f"{text[:head]} … {text[head - limit :]}"
    return repr(text)


def first_of(names: Iterable[object], limit: int) -> str:
    """The first names, and the number of the others.

    >>> first_of(["a", "b", "c"], 2), first_of(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    texts = [str(name) for name in names]
    rest = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + rest


def eval_names(evals: Iterable[tuple[str, str, str]]) -> list[str]:
    """A unique name for each eval: its prompt's, with the part that distinguishes it.

    Args:
        evals: The prompt, dataset and function of each.

    >>> eval_names([("triage", "triage", "test_triage")])
    ['triage']
    >>> eval_names([("triage", "mails", "test_a"), ("triage", "chats", "test_b")])
    ['triage (mails)', 'triage (chats)']
    >>> eval_names([("triage", "mails", "test_a"), ("triage", "mails", "test_b")])
    ['triage (test_a)', 'triage (test_b)']
    """
    evals = [*evals]
    prompts = Counter(prompt for prompt, _, _ in evals)
    datasets = Counter((prompt, dataset) for prompt, dataset, _ in evals)
    names: list[str] = []
    for prompt, dataset, function in evals:
        part = dataset if datasets[prompt, dataset] == 1 else function
        name = f"{prompt} ({part})" if prompts[prompt] > 1 else prompt
        number = 2
        while name in names:  # two files have a function of one name
            name = f"{prompt} ({part}, {number})"
            number += 1
        names.append(name)
    return names


def table_lines(
    rows: Sequence[Sequence[str]], *, texts: Collection[int] | None = None
) -> list[str]:
    """Format rows as lines with aligned columns.

    Args:
        rows: The rows, each with all cells.
        texts: The columns that are aligned to the left; None for all.

    >>> table_lines([["case", "trials"], ["a", "12"]], texts=[0])
    ['case  trials', 'a         12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if texts is None or column in texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def cause_line(message: str) -> str:
    r"""The cause of an error on one line, without its fix.

    A first line that ends with a colon continues with the last one, as of a traceback.

    >>> cause_line("app:reply cannot be imported:\n  File x\nValueError: no key\n  fix: set it")
    'app:reply cannot be imported: ValueError: no key'
    >>> cause_line("HTTP 500\nthe body")
    'HTTP 500'
    """
    first, *rest = message.partition("\n  fix: ")[0].splitlines() or [""]
    return f"{first} {rest[-1].strip()}" if first.endswith(":") and rest else first


def cut(text: str, length: int) -> str:
    """Truncate a text, with a mark if characters are missing.

    Args:
        length: The characters to keep, without the mark.

    >>> cut("a long text", 6), cut("short", 6)
    ('a long...', 'short')
    """
    return text if len(text) <= length else f"{text[:length]}..."


def percent(share: float, *, digits: int = 1) -> str:
    """A share from 0 to 1 as a percentage; 100 % and 0 % only if exact.

    >>> percent(1), percent(0.987), percent(0.9999), percent(0.9999, digits=0), percent(0.0001)
    ('100 %', '98.7 %', '99.9 %', '99 %', '0.1 %')
    """
    step = 10**-digits
    value = round(100 * share, digits)
    if 0 < share < 1:
        value = min(max(value, step), 100 - step)
    return f"{value:g} %"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question with the closest name; empty if no name is close.

    >>> did_you_mean("test_data", ["testData", "messages"])
    "did you mean 'testData'?"
    """
    near = closest(name, names)
    return f"did you mean {near!r}?" if near else ""


def closest(name: str, names: Iterable[str]) -> str:
    """The name closest to a misspelling; empty if no name is close.

    A cutoff of 0.7 finds nearly all misspellings by one letter, as the 0.6 of `difflib` does, with
    a seventh of its wrong suggestions.

    >>> closest("Crtical", ["critical", "required"]), closest("urgent", ["critical", "required"])
    ('critical', '')
    """
    from difflib import get_close_matches  # imported only for an error

    by_form = {snake_case(candidate): candidate for candidate in names}
    close = get_close_matches(snake_case(name), by_form, n=1, cutoff=0.7)
    return by_form[close[0]] if close else ""


def snake_case(name: str) -> str:
    """The snake_case form of a camelCase or kebab-case name.

    >>> snake_case("maxCompletionTokens"), snake_case("top-p"), snake_case("topP")
    ('max_completion_tokens', 'top_p', 'top_p')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).lower()


# Control characters except tab and newline, and the marks that reorder or hide text.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def encodable(text: str) -> str:
    r"""A text with lone surrogates, which have no encoding, as JSON escapes them.

    >>> encodable("\ud800 \xe9")
    '\\ud800 é'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    r"""Escape characters that move a cursor, change a title or reorder text.

    Lone surrogates, which have no encoding, are escaped too.

    >>> printable("a\x1b[31mb\r\n\u202e")
    'a\\x1b[31mb\n\\u202e'
    """
    text = _HARMFUL.sub(_escape, text.replace("\r\n", "\n"))
    return text.encode("utf-8", "backslashreplace").decode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte
