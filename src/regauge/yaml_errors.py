"""Explanations of YAML errors: the line, the problem and the fix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml


@dataclass(frozen=True, slots=True)
class _Mistake:
    """An explanation of a message of YAML's parser.

    Attributes:
        words: A pattern of the context and the problem, joined by ` | `.
        fix: The fix.
        problem: The problem; empty for the parser's own text.
        at_start: Whether to report the line where the broken part begins.
    """

    words: str
    fix: str
    problem: str = ""
    at_start: bool = False


_UNCLOSED = "close it, or remove it"
# The first match counts.
_MISTAKES = (
    _Mistake(r"'\\t'", "indent with spaces: YAML allows no tab there"),
    _Mistake(
        "single document", "keep one document in one file", problem="a second document starts here"
    ),
    _Mistake(
        "undefined alias", "define it with `&name` above, or quote the text that starts with `*`"
    ),
    _Mistake(
        "simple key",
        "indent it as far as the text it belongs to",
        problem="this line is neither `key: value` nor part of the text above",
        at_start=True,
    ),
    _Mistake(
        "flow node",
        _UNCLOSED,
        problem="a `[` or `{` above is not closed, or has no value between its commas",
    ),
    _Mistake(
        "flow sequence", _UNCLOSED, problem="the `[` of this line is not closed", at_start=True
    ),
    _Mistake(
        "flow mapping", _UNCLOSED, problem="the `{` of this line is not closed", at_start=True
    ),
    _Mistake("quoted scalar.*escape", "double the backslash, or use single quotes"),
    _Mistake(
        "quoted scalar",
        "close the quote, or write a long text as a block after `|`",
        problem="the quote of this line is not closed",
        at_start=True,
    ),
    _Mistake(
        "mapping values are not allowed",
        "quote a text that holds `: `, or indent a key below the one that it belongs to",
    ),
    _Mistake("cannot start any token", "quote the text that starts with it"),
    _Mistake(
        "a block (mapping|collection)",
        "indent this line as its neighbours, or quote the whole text",
        problem="this line does not fit the lines above it",
    ),
    _Mistake("", "quote the text, or write it as a block after `|`"),
)


def explain_yaml_error(error: yaml.MarkedYAMLError) -> tuple[int | None, str, str]:
    r"""The line, from 1, the problem and the fix of a syntax error.

    >>> import yaml
    >>> def explain(text):
    ...     try:
    ...         yaml.compose(text)
    ...     except yaml.MarkedYAMLError as error:
    ...         return explain_yaml_error(error)
    >>> explain('a: [1, 2\nb: 3')
    (1, 'the `[` of this line is not closed', 'close it, or remove it')
    >>> explain('a: b\n  c: d')[0::2]
    (2, 'quote a text that holds `: `, or indent a key below the one that it belongs to')
    >>> explain('a: [1,\n\n')[0]
    1
    >>> explain('- a\nb: 1')[1]
    'this line does not fit the lines above it'
    """
    explanation = " | ".join(filter(None, (error.context, error.problem)))
    mistake = next(entry for entry in _MISTAKES if re.search(entry.words, explanation))
    problem_mark = error.problem_mark or error.context_mark
    mark = (error.context_mark if mistake.at_start else None) or problem_mark
    problem = mistake.problem or error.problem or error.context or "cannot be parsed"
    return (_line_of(mark) if mark is not None else None), problem, mistake.fix


def _line_of(mark: yaml.Mark) -> int:
    """The line of a mark, from 1; at the end of a text, its last line that is not blank."""
    line = mark.line + 1
    if mark.buffer is None or mark.buffer[mark.pointer :].strip("\0\r\n\t "):
        return line
    before = mark.buffer[: mark.pointer].replace("\r\n", "\n")
    return max(1, line - before[len(before.rstrip()) :].count("\n"))
