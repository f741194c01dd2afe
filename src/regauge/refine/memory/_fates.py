"""What became of edits: of each in one run, and by kind over many runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from regauge.refine.edits import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.edits import Edit

__all__ = [
    "FATES",
    "NO_PRIOR",
    "Fate",
    "FateTable",
    "Grouping",
    "fates_of",
    "named",
    "strategy_prior",
]

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
    """Which edit a decision is about, for the trail: who thought of it, how, and what it does."""
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
    """Every edit that a run's decisions are about, with what became of it in the end.

    Args:
        decisions: Out of its trail, in their order.
        accepted: The edits that the run held to at its end.
        proposes: Whether it proposes them.
    """
    held = {named(edit)["edit"] for edit in accepted}
    found: dict[str, dict[str, JSON]] = {}
    for decision in decisions:
        numbers = decision["numbers"]
        fate = _fate(str(decision["event"]), numbers)
        if "edit" not in numbers or fate is None:
            continue
        if fate == "guarded" and numbers["edit"] in found:
            continue  # it was tried, and came back
        facts = {key: numbers[key] for key in ("proposer", "strategy", "ops")}
        found[numbers["edit"]] = {"edit": numbers["edit"], **facts, "fate": fate}
    for entry in found.values():
        if entry["edit"] in held:
            entry["fate"] = "kept" if proposes else "not-verified"
    return list(found.values())


@dataclass(frozen=True, slots=True)
class FateTable:
    """How often edits of each kind met each fate, over runs.

    Attributes:
        counts: By kind and fate.
    """

    counts: Mapping[str, Mapping[Fate, int]]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]], by: Grouping) -> FateTable:
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
        """How likely the next edit of a kind is kept: its share, and near a half while few were."""
        return (self.counts.get(kind, {}).get("kept", 0) + 1) / (self.measured(kind) + 2)


def strategy_prior(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How likely the next edit of each strategy is kept, by what earlier runs came to."""
    table = FateTable.of(entries, "strategy")
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
