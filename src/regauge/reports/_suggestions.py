"""What `--suggest` found, as Markdown: for a comment on a pull request and a job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.printable import printable
from regauge.reports._console import money
from regauge.reports._verbatim import fenced, inline_code, shown_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.reports._schema import Suggestion

__all__ = ["suggestion_blocks", "taking_lines"]

# A comment has room for a few of them; each takes up to a dozen lines of prose beside its diff.
_SHOWN_MAX = 3
_LINES_MAX = 80
_CHARS_MAX = 6000
_LINE_CHARS_MAX = 600


def suggestion_blocks(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """A folded block for each suggested revision: evidence, cost, how to take it, the diff.

    Everything a model or a file says is escaped.
    """
    revisions = [one for one in suggestions if one.diff]
    for one in revisions[:_SHOWN_MAX]:
        yield ""
        yield f"<details><summary>Suggested revision: {_line(one.headline)}</summary>"
        yield ""
        yield from (f"- {_line(text)}" for text in one.evidence)
        yield f"- Cost: {shown_text(cost_of(one))}."
        yield from (f"- {text}" for text in taking_lines(one))
        yield ""
        diff = printable(one.diff).splitlines()
        yield from fenced(diff, lines_max=_LINES_MAX, chars_max=_CHARS_MAX)
        yield ""
        yield "</details>"
    others = [one for one in suggestions if not one.diff]
    if others or len(revisions) > _SHOWN_MAX:
        yield ""
        yield from (f"- No revision is suggested: {_line(one.headline)}" for one in others)
        yield from (
            f"- Suggested revision: {_line(one.headline)}" for one in revisions[_SHOWN_MAX:]
        )


def taking_lines(suggestion: Suggestion) -> list[str]:
    """How a person gets a suggested revision into the prompt's file, as Markdown."""
    here = inline_code(f"regauge refine apply {suggestion.run}")
    anew = inline_code(f"regauge refine {suggestion.prompt} --proposers=rules --apply")
    return [
        f"Take it: {here} where it was found; anywhere else {anew}, which looks for it anew.",
        f"See why: {inline_code(f'regauge refine show {suggestion.run}')}",
    ]


def cost_of(suggestion: Suggestion) -> str:
    """What a suggestion took.

    >>> from regauge.reports import Suggestion
    >>> cost_of(Suggestion(prompt="p", stop="improved", headline="", calls=7, simulated=True))
    '7 calls of the simulated model, free'
    """
    model = " of the simulated model" if suggestion.simulated else ""
    price = money(suggestion.usd) if suggestion.usd else "free"
    calls = "1 call" if suggestion.calls == 1 else f"{suggestion.calls} calls"
    return f"{calls}{model}, {price}"


def _line(text: str) -> str:
    return shown_text(text if len(text) <= _LINE_CHARS_MAX else f"{text[:_LINE_CHARS_MAX]}…")
