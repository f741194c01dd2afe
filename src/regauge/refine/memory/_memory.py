"""What was tried: no edit that was refuted comes back, under whatever name; no text returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from regauge.refine.edits import changed_places, changed_statements, near_duplicates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.digests import JSON
    from regauge.refine.edits import PromptText

__all__ = [
    "Finding",
    "Memory",
    "Tried",
]

Finding = Literal[
    "guarded",
    "screened-out",
    "refuted",
    "undecided",
    "confirmed",
    "overfit",
    "suite-refused",
    "accepted",
    "redundant",
    "rejected-by-person",
]

# Findings that speak against an edit itself. One that is undecided may be tried again with more
# trials, and one that was screened out may have met bad luck. A guard looks at each edit again.
_BY_PERSON: Finding = "rejected-by-person"
_AGAINST: frozenset[Finding] = frozenset(
    {"refuted", "overfit", "suite-refused", "redundant", _BY_PERSON}
)
_CHANCES: dict[Finding, int] = {"undecided": 2, "screened-out": 2, "confirmed": 2, "accepted": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One edit and what became of it.

    Attributes:
        before: The shape of the text it was applied to.
        after: The shape of what it made of it.
        cluster: The failures it was meant for.
        added: The lines it brought in.
        removed: The lines it took out.
        detail: In words, for the next proposal and for people.
        cycle: Of the run that tried it.
        places: The headings under which it put something, line by line.
    """

    before: str
    after: str
    cluster: str
    added: str
    removed: str
    finding: Finding
    detail: str = ""
    cycle: int = 0
    places: str = ""

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> Tried:
        """What `to_json` wrote.

        Raises:
            ValueError: A key is missing or the finding is none.
        """
        if document.get("finding") not in get_args(Finding):
            raise ValueError(f"there is no finding {document.get('finding')!r}")
        cycle = document.get("cycle", 0)
        try:
            return cls(
                before=str(document["before"]),
                after=str(document["after"]),
                cluster=str(document["cluster"]),
                added=str(document["added"]),
                removed=str(document["removed"]),
                finding=cast("Finding", document["finding"]),
                detail=str(document.get("detail", "")),
                cycle=cycle if isinstance(cycle, int) else 0,
                places=str(document.get("places", "")),
            )
        except KeyError as error:
            raise ValueError(f"a tried edit has no {error}") from error


@dataclass(frozen=True, slots=True)
class Memory:
    """All edits that were tried, and all texts that were the best one once."""

    tried: tuple[Tried, ...] = ()
    incumbents: tuple[str, ...] = ()

    def with_tried(self, *entries: Tried) -> Memory:
        """With more entries at the end."""
        return Memory((*self.tried, *entries), self.incumbents)

    def with_incumbent(self, text: PromptText) -> Memory:
        """With a text to which nothing may lead back."""
        return Memory(self.tried, (*self.incumbents, text.shape))

    def refuses(self, cluster: str, before: PromptText, after: PromptText) -> str:
        """Why an edit is not to be tried; empty when it may.

        Args:
            cluster: What it is meant for.
            before: The text as it is.
            after: The text as it would be.
        """
        if after.shape in self.incumbents:
            return "it leads back to a text that was replaced"
        mine, places = changed_statements(before, after), changed_places(before, after)
        same = [
            t
            for t in self.tried
            if t.after == after.shape
            # A person refuses an edit, and not the text as such, to which others may lead.
            and (t.finding != _BY_PERSON or t.before == before.shape or _holds(mine, _lines(t)))
        ]
        against = next((t for t in same if t.finding in _AGAINST), None)
        if against is not None:
            return f"this text was tried before: {against.finding}"
        for finding, chances in _CHANCES.items():
            if sum(t.finding == finding for t in same) >= chances:
                return f"this text was tried {chances} times before: {finding}"
        near = next(
            (
                t
                for t in self._refuted(cluster)
                # A rule may be followed in one place and not in another; what a person does not
                # want is not wanted anywhere.
                if (t.places == places or t.finding == _BY_PERSON)
                and near_duplicates(mine, _lines(t))
            ),
            None,
        )
        return f"nearly the same edit was tried before: {near.finding}" if near else ""

    def lessons(self, cluster: str) -> tuple[Tried, ...]:
        """What was tried for the same failures."""
        return tuple(t for t in self.tried if t.cluster == cluster)

    def _refuted(self, cluster: str) -> Iterable[Tried]:
        return (t for t in self.tried if t.cluster == cluster and t.finding in _AGAINST)


def _lines(tried: Tried) -> tuple[str, str]:
    return tried.added, tried.removed


def _holds(mine: tuple[str, str], its: tuple[str, str]) -> bool:
    """Whether an edit does all that another one does."""
    return all(
        set(theirs.split("\n")) <= {*own.split("\n"), ""}
        for own, theirs in zip(mine, its, strict=True)
    )
