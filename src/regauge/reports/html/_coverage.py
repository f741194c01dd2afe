"""The mutants of a prompt as a page: its text with a mark on each line, as in code coverage."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.mutate import UNSCORED
from regauge.reports.html._page import render_page
from regauge.reports.mutants import (
    CLASSES,
    NOT_MEASURED,
    WORST_FIRST,
    class_words,
    missing_lines,
    score_lines,
    score_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regauge.mutate import Mutant, MutantRow, MutationReport
    from regauge.prompts import Prompt

_SCRIPTS = ("dom.js", "diff.js", "page.js", "coverage.js")
# From this number, lines before the first instruction are folded.
_FOLDED_FROM = 8
# A line counts as guarded only if all of its mutants were measured.
_ORDER = [
    *(CLASSES[kind].word for kind in WORST_FIRST if kind not in {"killed", "equivalent"}),
    NOT_MEASURED,
    *(CLASSES[kind].word for kind in ("killed", "equivalent")),
]
_TONES = {words.word: words.tone for words in CLASSES.values()}
_MEANINGS = {
    "guarded": "a critical or required case breaks without it, or the suite is worse",
    **{words.word: words.meaning for words in CLASSES.values() if words.meaning},
    NOT_MEASURED: "left out of this run, or without completions",
    "equivalent": "marked with a reason; it does not count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _MutantView:
    """One mutant on the page.

    Attributes:
        word: The word for its class.
        row: The measurement; None without one.
        edit: The changed lines of a message; empty for other parts of the prompt.
    """

    mutant: Mutant
    word: str
    row: MutantRow | None
    edit: tuple[str, ...]

    @property
    def tone(self) -> str:
        """The color of its class."""
        return _TONES.get(self.word, "quiet")

    @property
    def obeyed(self) -> str:
        """The reaction of the model, if the text is an order in the input."""
        return (CLASSES[self.row.kind].obeyed if self.row is not None else "") or self.word


@dataclass(slots=True, kw_only=True)
class _PromptLine:
    """One line of the prompt file.

    Attributes:
        word: The worst class of its mutants; empty without any.
        follows: Whether its statement begins on an earlier line.
    """

    number: int
    text: str
    mutants: list[_MutantView]
    word: str = ""
    follows: bool = False

    @property
    def tone(self) -> str:
        """The color of its class."""
        return _TONES.get(self.word, "quiet")

    @property
    def cases(self) -> list[str]:
        """The cases of its mutants, without repeats."""
        rows = [
            mutant.row
            for mutant in self.mutants
            if mutant.row is not None and mutant.word == self.word
        ]
        return list(dict.fromkeys(case for row in rows for case in row.cases))


def coverage_html(
    report: MutationReport, prompt: Prompt, mutants: Iterable[Mutant], judges: Iterable[str]
) -> str:
    """The page of a mutation report.

    Args:
        report: The mutation report.
        prompt: The prompt.
        mutants: All mutants of the prompt, with unmeasured ones.
        judges: All judges of its cases.
    """
    rows = {row.id: row for row in report.mutants}
    results = [_coverage_line(mutant, rows.get(mutant.id), prompt) for mutant in mutants]
    scored = [result for result in results if result.mutant.operator != UNSCORED]
    words = [result.word for result in scored]
    lines = _lines(scored, prompt)
    first = next((number for number, line in enumerate(lines) if line.word), 0)
    head = first if first >= _FOLDED_FROM else 0
    return render_page(
        "coverage",
        scripts=_SCRIPTS,
        styles=("coverage.css",),
        report=report,
        title=f"{report.prompt}: {score_text(report)}",
        tone="good" if {*words} <= {"guarded", "equivalent"} else "warn",
        head=lines[:head],
        lines=lines[head:],
        classes=[
            (word, _TONES.get(word, "quiet"), words.count(word), meaning)
            for word, meaning in _MEANINGS.items()
            if word in words
        ],
        scored=sorted(scored, key=lambda result: result.mutant.place.line),
        orders=[result for result in results if result.mutant.operator == UNSCORED],
        judges=list(
            dict.fromkeys(
                [*judges, *(name for row in rows.values() if row.cases for name in row.judges)]
            )
        ),
        scores=list(score_lines(report)),
        missing=list(missing_lines(report)),
    )


def _coverage_line(mutant: Mutant, row: MutantRow | None, prompt: Prompt) -> _MutantView:
    word = class_words(row) if row is not None else NOT_MEASURED
    edit: list[str] = []
    for before, after in zip(prompt.messages, mutant.prompt.messages, strict=False):
        if before.content != after.content:
            old, new = (before.content or "").split("\n"), (after.content or "").split("\n")
            diff = difflib.unified_diff(old, new, n=0, lineterm="")
            edit += [line for line in list(diff)[2:] if line[:2] != "@@"]
    return _MutantView(mutant=mutant, word=word, row=row, edit=tuple(edit))


def _lines(results: Sequence[_MutantView], prompt: Prompt) -> list[_PromptLine]:
    lines = [
        _PromptLine(number=number, text=text, mutants=[])
        for number, text in enumerate(prompt.source.split("\n"), start=1)
    ]
    while len(lines) > 1 and not lines[-1].text.strip():
        lines.pop()
    for result in results:
        lines[min(result.mutant.place.line, len(lines)) - 1].mutants.append(result)
    for line in lines:
        line.word = min((mutant.word for mutant in line.mutants), key=_ORDER.index, default="")
    for result in results:
        for line in _wrapped_lines(result.mutant, lines, prompt):
            if not line.mutants and (not line.word or _ORDER.index(result.word) < _rank(line)):
                line.word, line.follows = result.word, True
    return lines


def _rank(line: _PromptLine) -> int:
    return _ORDER.index(line.word)


def _wrapped_lines(
    mutant: Mutant, lines: Sequence[_PromptLine], prompt: Prompt
) -> Iterator[_PromptLine]:
    """The continuation lines of a statement in the prompt file."""
    place = mutant.place
    number = place.part.removeprefix("messages[").removesuffix("]")
    if not number.isdigit():
        return
    content = prompt.messages[int(number)].content or ""
    statement_lines = content[place.start : place.end].split("\n")[1:]
    for text, line in zip(statement_lines, lines[place.line :], strict=False):
        if not text.strip() or text.strip() not in line.text:
            return
        yield line
