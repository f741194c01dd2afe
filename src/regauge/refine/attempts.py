"""Edits tried before, their fates, and how often the held-out cases decided."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import TypeAdapter

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.refine.edits import changed_places, changed_statements, kind_of, near_duplicates
from regauge.regular_file import read_regular
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.refine.edits import Edit, PromptText

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
AGAINST: frozenset[Finding] = frozenset(
    {"refuted", "overfit", "suite-refused", "redundant", _BY_PERSON}
)
_CHANCES: dict[Finding, int] = {"undecided": 2, "screened-out": 2, "confirmed": 2, "accepted": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One edit and the result of it.

    Attributes:
        before: The shape of the text it was applied to.
        after: The shape of what it made of it.
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

    @classmethod
    def from_texts(
        cls,
        before: PromptText,
        after: PromptText,
        cluster: str,
        finding: Finding,
        *,
        detail: str = "",
        cycle: int = 0,
    ) -> Attempt:
        """The result of a test of the edit that leads from one text to another."""
        added, removed = changed_statements(before, after)
        return cls(
            before=before.shape,
            after=after.shape,
            cluster=cluster,
            added=added,
            removed=removed,
            finding=finding,
            detail=detail,
            cycle=cycle,
            places=changed_places(before, after),
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Attempt:
        """Read what `asdict` makes of it; a ValueError for any other document."""
        return TypeAdapter(cls).validate_python(document)


@dataclass(frozen=True, slots=True)
class Memory:
    """All edits that were tried, and all texts that were the best one once."""

    tried: tuple[Attempt, ...] = ()
    incumbents: tuple[str, ...] = ()

    def with_tried(self, *entries: Attempt) -> Memory:
        """With more entries at the end."""
        return Memory((*self.tried, *entries), self.incumbents)

    def with_incumbent(self, text: PromptText) -> Memory:
        """With a text to which nothing may lead back."""
        return Memory(self.tried, (*self.incumbents, text.shape))

    def refuses(self, cluster: str, before: PromptText, after: PromptText) -> str:
        """The reason why an edit is not to be tried; empty when it may."""
        if after.shape in self.incumbents:
            return "it leads back to a text that was replaced"
        changed, places = changed_statements(before, after), changed_places(before, after)
        same = [
            t
            for t in self.tried
            if t.after == after.shape
            # A person refuses an edit, and not the text as such, to which others may lead.
            and (t.finding != _BY_PERSON or t.before == before.shape or _holds(changed, _lines(t)))
        ]
        against = next((t for t in same if t.finding in AGAINST), None)
        if against is not None:
            return f"this text was tried before: {against.finding}"
        for finding, chances in _CHANCES.items():
            if sum(t.finding == finding for t in same) >= chances:
                return f"this text was tried {chances} times before: {finding}"
        near = next(
            (
                t
                for t in self.lessons(cluster)
                if t.finding in AGAINST
                # A rule may be followed in one place and not in another; what a person does not
                # want is not wanted anywhere.
                and (t.places == places or t.finding == _BY_PERSON)
                and near_duplicates(changed, _lines(t))
            ),
            None,
        )
        return f"nearly the same edit was tried before: {near.finding}" if near else ""

    def lessons(self, cluster: str) -> tuple[Attempt, ...]:
        """Earlier edits for the same failures, with their results."""
        return tuple(t for t in self.tried if t.cluster == cluster)


def _lines(tried: Attempt) -> tuple[str, str]:
    return tried.added, tried.removed


def _holds(edited: tuple[str, str], its: tuple[str, str]) -> bool:
    """Return whether an edit does all that another one does."""
    return all(
        set(theirs.split("\n")) <= {*own.split("\n"), ""}
        for own, theirs in zip(edited, its, strict=True)
    )


Fate = Literal[
    "kept",  # it is part of what the run proposes
    "not-verified",  # it was accepted, and the run ended before its verification
    "outdone",  # it passed its test, and another one did better
    "rolled-back",  # the gate, the fresh trials or the holdout spoke against it
    "simplified",  # a later edit made it needless
    "undecided",  # the trials of its test did not settle it
    "refuted",  # it helped nothing, or made another check worse
    "not-tested",  # it helped on a few cases, and others were tested before
    "screened-out",  # it helped on none of a few failing cases
    "guarded",  # a guard refused it before anything was spent
]
FATES: tuple[Fate, ...] = get_args(Fate)

Grouping = Literal["ops", "strategy", "proposer"]

# Fates of edits whose worth was measured.
_MEASURED = frozenset({"kept", "outdone", "rolled-back", "undecided", "refuted", "screened-out"})


NO_PRIOR = 0.5
"""Of a strategy that no earlier run measured."""


def named(edit: Edit) -> dict[str, float | int | str]:
    """The edit of a decision, for the trail: its proposer, its strategy, its operations."""
    kinds = sorted({kind_of(op) for op in edit.ops})
    return {
        "edit": edit.digest[:16],
        "proposer": edit.proposer,
        "strategy": edit.strategy,
        "ops": "+".join(kinds),
    }


def fates_of(
    decisions: Iterable[Mapping[str, Any]], accepted: Iterable[Edit], *, proposes: bool
) -> list[dict[str, JSON]]:
    """Every edit that a run's decisions are about, with the result of it in the end."""
    held = {named(edit)["edit"] for edit in accepted}
    results: dict[str, dict[str, JSON]] = {}
    for decision in decisions:
        numbers = decision["numbers"]
        fate = _fate(str(decision["event"]), numbers)
        if "edit" not in numbers or fate is None:
            continue
        if fate == "guarded" and numbers["edit"] in results:
            continue  # it was tried, and came back
        facts = {key: numbers[key] for key in ("proposer", "strategy", "ops")}
        results[numbers["edit"]] = {"edit": numbers["edit"], **facts, "fate": fate}
    for entry in results.values():
        if entry["edit"] in held:
            entry["fate"] = "kept" if proposes else "not-verified"
    return list(results.values())


@dataclass(frozen=True, slots=True)
class FateTable:
    """The results of edits of each kind, counted over runs."""

    counts: Mapping[str, Mapping[Fate, int]]

    @classmethod
    def from_entries(cls, entries: Iterable[Mapping[str, Any]], by: Grouping) -> FateTable:
        """Count what `fates_of` found."""
        counts: dict[str, Counter[Fate]] = {}
        for entry in entries:
            kind = str(entry.get(by, ""))
            if kind and entry.get("fate") in FATES:
                counts.setdefault(kind, Counter())[entry["fate"]] += 1
        return cls({kind: counts[kind] for kind in sorted(counts)})

    @property
    def fates(self) -> tuple[Fate, ...]:
        """The fates that any edit met."""
        return tuple(fate for fate in FATES if any(row.get(fate) for row in self.counts.values()))

    def measured(self, kind: str) -> int:
        """Of how many edits of a kind the worth was measured."""
        row = self.counts.get(kind, {})
        return sum(count for fate, count in row.items() if fate in _MEASURED)

    def share_kept(self, kind: str) -> float | None:
        """The share of measured edits of a kind that was kept; None while none was measured."""
        measured = self.measured(kind)
        return self.counts[kind].get("kept", 0) / measured if measured else None

    def prior(self, kind: str) -> float:
        """The probability that the next edit of a kind is kept; near 0.5 for little data."""
        return (self.counts.get(kind, {}).get("kept", 0) + 1) / (self.measured(kind) + 2)


def strategy_prior(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The probability that the next edit of each strategy is kept, from earlier runs."""
    table = FateTable.from_entries(entries, "strategy")
    return {strategy: round(table.prior(strategy), 4) for strategy in table.counts}


def _fate(event: str, numbers: Mapping[str, Any]) -> Fate | None:
    match event:
        case "screened":
            return "not-tested" if numbers.get("better") else "screened-out"
        case "confirmed":
            return "outdone"
        case "set-aside":
            return "not-verified"
        case "guarded" | "refuted" | "undecided" | "rolled-back" | "simplified":
            return event
        case _:
            return None


# Datasets change and grow; older ones are not asked for again.
_HOLDOUTS_KEPT = 50


class LookLedger:
    """The looks at a prompt's holdout, over all runs."""

    def __init__(self, project: Project, prompt: str, holdout: Iterable[str]) -> None:
        self._project = project
        self._path = project.state_dir / "refine" / f"{prompt}.looks.json"
        self._key = digest_of(sorted(holdout))
        self._looks: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        """The looks so far; none where the ledger cannot be read."""
        self._looks = frozenset(self._all().get(self._key, ()))
        return self._looks

    def add(self, looks: frozenset[str]) -> None:
        """Write down further looks; saying one twice changes nothing."""
        if looks <= self._looks:
            return
        self._looks |= looks
        ledger = self._all()
        ledger[self._key] = sorted({*ledger.pop(self._key, ()), *looks})
        kept = dict([*ledger.items()][-_HOLDOUTS_KEPT:])
        self._project.prepare_state_dir("refine")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, (json.dumps(kept, indent=1) + "\n").encode())

    def _all(self) -> dict[str, list[str]]:
        try:
            document: Any = read_json(read_regular(self._path))
            return {str(key): [*map(str, looks)] for key, looks in document.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
