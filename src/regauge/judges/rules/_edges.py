"""How an answer begins and ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.judges._evidence import listed, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._text import wanted_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ends_with", "starts_with"]


@rule(codes=("wrong_start",))
def starts_with(
    *texts: str, ignore_case: bool = False, strip: bool = False, field: str | None = None
) -> Check:
    """The answer starts with this text, or with one of these.

    Args:
        texts: One of them must stand at the start.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        strip: Leave out white space around the answer first.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(starts_with("## Meaning").check_text("## Meaning of it"))
    pass: starts with '## Meaning'
    """
    edge = Edge(at_start=True, ignore_case=ignore_case, strip=strip)
    return _edge(texts, edge, field=field)


@rule(codes=("wrong_end",))
def ends_with(
    *texts: str,
    ignore_case: bool = False,
    strip: bool = False,
    strip_quotes: bool = False,
    field: str | None = None,
) -> Check:
    """The answer ends with this text, or with one of these.

    Args:
        texts: One of them must stand at the end.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        strip: Leave out white space around the answer first.
        strip_quotes: Then leave out double quotation marks around it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(ends_with(".", "!").check_text("Done"))
    fail: ends with 'Done', not with '.', '!'
    """
    edge = Edge(at_start=False, ignore_case=ignore_case, strip=strip, strip_quotes=strip_quotes)
    return _edge(texts, edge, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Which end of an answer is compared, and what is left out before."""

    at_start: bool
    ignore_case: bool
    strip: bool
    strip_quotes: bool = False

    def of(self, text: str) -> str:
        """The text whose edge counts."""
        text = text.strip() if self.strip else text
        return text.strip('"') if self.strip_quotes else text


def _edge(texts: Sequence[str], edge: Edge, *, field: str | None) -> Check:
    verb, kind = ("starts", "starts_with") if edge.at_start else ("ends", "ends_with")
    parts = wanted_texts(texts, kind)
    wanted = tuple(part.casefold() for part in parts) if edge.ignore_case else parts
    longest = max(len(part) for part in parts) + 10

    def check(text: str) -> Verdict:
        whole = edge.of(text)
        compared = whole.casefold() if edge.ignore_case else whole
        holds = compared.startswith if edge.at_start else compared.endswith
        for part, cased in zip(parts, wanted, strict=True):
            if holds(cased):
                return passed(f"{verb} with {quote(part)}")
        found = whole[:longest] if edge.at_start else whole[-longest:]
        return failed(
            f"{verb} with {quote(found)}, not with {listed(parts)}",
            code="wrong_start" if edge.at_start else "wrong_end",
            expected=parts,
            actual=found,
        )

    return on_text(field, check)
