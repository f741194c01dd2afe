"""Which of several statements is the verdict of a reply, or that none of them is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.judges._evidence import listed
from regauge.judges.model._numbers import ReplyFault, TwoVerdictsFault
from regauge.judges.model._prose import statements_of_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.judges.model._prose import Statement

__all__ = ["settled", "stated_label"]

_HEADING: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_TAKEN_BACK: Final = re.compile(
    r"^\W*(?:(?:no|oh|hmm|hm|but|well)\b\W*)?"
    r"(?:wait\b|actually\b|correction\b|scratch that|strike that|on second thoughts?|"
    r"on reflection|i take (?:that|it|this) back|i was (?:wrong|mistaken)|i am wrong|"
    r"i misread|i made a mistake|rather\b|or rather|disregard (?:that|this|my)|"
    r"ignore (?:that|my)|let me (?:correct|reconsider|revise)|i (?:retract|withdraw|revise|"
    r"reconsider)|make that)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")


def settled(
    text: str, found: Sequence[Statement], value_of: Callable[[Statement], float | str]
) -> Statement:
    """The one statement that is the verdict.

    Statements that all name one verdict are that verdict, if one of them is the judge's own. Of
    statements that differ, one is the verdict where it is marked as final, comes after all others,
    and is contradicted by none that is marked as well.

    Args:
        text: The text they are in.
        found: All statements, in order, at least one.
        value_of: The verdict that a statement names.

    Raises:
        ReplyFault: The judge states none as its own, or takes it back.
        TwoVerdictsFault: Two statements differ.
    """
    own = [one for one in found if one.weight != "mention"]
    if not own:
        raise ReplyFault("the reply mentions a verdict and states none")
    last = own[-1]
    values = {one.start: value_of(one) for one in found if one in own or _reads(one, value_of)}
    if len({values.get(one.start, one.value) for one in found}) > 1:
        last = _last_word(text, found, own, values)
    if any(_TAKEN_BACK.match(line) for line in _SENTENCE.split(text[last.end :])):
        raise ReplyFault("the reply takes its verdict back")
    return last


def _last_word(
    text: str,
    found: Sequence[Statement],
    own: Sequence[Statement],
    values: Mapping[int, float | str],
) -> Statement:
    """The statement that is marked as final, where the statements differ.

    Raises:
        TwoVerdictsFault: None is, or another one contradicts it.
    """
    last = own[-1]
    stated = values[last.start]
    other = [one for one in found if values.get(one.start, one.value) != stated]
    section = max((match.start() for match in _HEADING.finditer(text, 0, last.start)), default=0)
    match last.weight:
        case "final":
            # An object ends reasoning; over a verdict in another form it has no precedence.
            rivals = {"final", "conclusion", "plain"} if last.words.startswith("{") else {"final"}
            against = [one for one in other if one.formal and one.weight in rivals]
        case "conclusion":
            # A conclusion of an earlier section is about that section.
            against = [
                one
                for one in other
                if one.weight == "final"
                or (one.weight != "mention" and one.formal)
                or (one.weight == "conclusion" and one.start >= section)
            ]
        case _:
            against = other
    if against or any(one.start > last.start for one in other):
        named = dict.fromkeys(str(values.get(one.start, one.value)) for one in found)
        raise TwoVerdictsFault(f"the reply states more than one verdict: {listed(list(named))}")
    return last


def _reads(one: Statement, value_of: Callable[[Statement], float | str]) -> bool:
    try:
        value_of(one)
    except ReplyFault:
        return False
    return True


def stated_label(text: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """The verdict that a text states in words, with its place: the better one of `names`.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.

    >>> names = {"A": "first", "B": "second"}
    >>> stated_label("B is better at first glance. Therefore, A is better.", names)
    ('first', 40)
    >>> stated_label("B is better. A is better.", names) is None
    True
    """
    try:
        found = statements_of_labels(text, names)
        if not found:
            return None
        one = settled(text, found, lambda statement: statement.value)
    except ReplyFault:
        return None
    return one.value, one.start
