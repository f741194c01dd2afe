"""Compares two runs case by case: outcomes and answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["CaseChange", "CaseSide", "Change", "SuiteComparison", "compare_rows"]

Change = Literal["worse", "better", "unmeasured", "measured", "removed", "added", "answer"]
_ORDER: tuple[Change, ...] = (
    "worse",
    "unmeasured",
    "better",
    "measured",
    "removed",
    "added",
    "answer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSide:
    """One case in one run.

    Attributes:
        passed: Trials of it that passed, of `measured` that have an outcome.
        answer: Of the trial that shows the change: one that passed next to one that failed, or the
            first whose text differs.
        judge: Who failed that trial, empty where none did; `reason` is its word.
    """

    passed: int
    measured: int
    trials: int
    answer: str | None
    judge: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """A case that is not the same in two runs.

    Attributes:
        change: `answer` when the outcome is the same and only the text differs.
        before: In the first run; None where it has no such case.
        after: In the second run; None where it has no such case.
    """

    case: str
    change: Change
    before: CaseSide | None
    after: CaseSide | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteComparison:
    """One prompt on one dataset in two runs.

    Attributes:
        before: Version, digest and model in the first run; None where it has no such suite.
        after: The same of the second run.
        changes: The worst first, then in the order of the runs.
        same: Cases with the same outcome and the same answer.
    """

    prompt: str
    dataset: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changes: Sequence[CaseChange]
    same: int

    def count(self, change: Change) -> int:
        """The number of cases with this change."""
        return sum(one.change == change for one in self.changes)


@dataclass(slots=True)
class _Cases:
    """The rows of one suite in one run, by case."""

    facts: Mapping[str, Any] | None = None
    rows: dict[str, list[Mapping[str, Any]]] = field(
        default_factory=dict[str, "list[Mapping[str, Any]]"]
    )


def compare_rows(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> list[SuiteComparison]:
    """The suites of two runs, case by case.

    Suites are matched by prompt and dataset, so that two models can be compared; where a run has
    several models for one of them, by the model too. What a gate drew of main is left out.

    Args:
        before: The rows of one run, in the shape of `TrialRow`.
        after: Those of the other.
    """
    first, second = list(before), list(after)
    by_model = _several_models(first) | _several_models(second)
    old, new = _suites(first, by_model), _suites(second, by_model)
    return [
        _compared(key, old.get(key, _Cases()), new.get(key, _Cases()))
        for key in dict.fromkeys([*old, *new])
    ]


def _several_models(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    models: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.get("arm") != "main":
            models[row["prompt"], row["dataset"]].add(row["model"])
    return {suite for suite, named in models.items() if len(named) > 1}


def _suites(
    rows: Iterable[Mapping[str, Any]], by_model: set[tuple[str, str]]
) -> dict[tuple[str, str, str], _Cases]:
    suites: dict[tuple[str, str, str], _Cases] = {}
    for row in rows:
        if row.get("arm") == "main":
            continue
        suite = (row["prompt"], row["dataset"])
        cases = suites.setdefault((*suite, row["model"] if suite in by_model else ""), _Cases())
        if cases.facts is None:
            cases.facts = {name: row[name] for name in ("version", "prompt_digest", "model")}
        cases.rows.setdefault(row["case"], []).append(row)
    return suites


def _compared(key: tuple[str, str, str], old: _Cases, new: _Cases) -> SuiteComparison:
    changes: list[CaseChange] = []
    same = 0
    for case in dict.fromkeys([*old.rows, *new.rows]):
        change = _case_change(case, old.rows.get(case, []), new.rows.get(case, []))
        if change is None:
            same += 1
        else:
            changes.append(change)
    changes.sort(key=lambda one: _ORDER.index(one.change))
    return SuiteComparison(
        prompt=key[0],
        dataset=key[1],
        before=old.facts,
        after=new.facts,
        changes=changes,
        same=same,
    )


def _case_change(
    case: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> CaseChange | None:
    """The change of a case; None without one."""
    old, new = _in_order(old), _in_order(new)
    change = _change(old, new)
    if change is None:
        return None
    shown: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    if change == "answer":
        shown = next((a, b) for a, b in zip(old, new, strict=False) if _text(a) != _text(b))
    else:
        shown = (
            _first(old, "failed" if change == "better" else "passed"),
            _first(new, "passed" if change == "better" else "failed"),
        )
    return CaseChange(
        case=case, change=change, before=_side(old, shown[0]), after=_side(new, shown[1])
    )


def _change(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Change | None:
    if not old:
        return "added"
    if not new:
        return "removed"
    (passed, measured), (passes, measures) = _counts(old), _counts(new)
    if not measured or not measures:
        if measured:
            return "unmeasured"
        return "measured" if measures else None
    # In whole numbers, so that 1/3 and 2/6 are the same.
    gain = passes * measured - passed * measures
    if gain:
        return "better" if gain > 0 else "worse"
    # A run may have drawn more often than the other.
    texts = zip(map(_text, old), map(_text, new), strict=False)
    return "answer" if any(one != other for one, other in texts) else None


def _side(rows: Sequence[Mapping[str, Any]], shown: Mapping[str, Any] | None) -> CaseSide | None:
    if shown is None:
        return None
    judge, reason = _failure(shown)
    passed, measured = _counts(rows)
    return CaseSide(
        passed=passed,
        measured=measured,
        trials=len(rows),
        answer=_text(shown),
        judge=judge,
        reason=reason,
    )


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: row["trial"])


def _first(rows: Sequence[Mapping[str, Any]], outcome: str) -> Mapping[str, Any] | None:
    """The first row with an outcome, else the first of all."""
    return next(iter([*(row for row in rows if row["outcome"] == outcome), *rows]), None)


def _counts(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """The number of passed trials, and of measured ones."""
    outcomes = [row["outcome"] for row in rows]
    return outcomes.count("passed"), len(outcomes) - outcomes.count("unmeasured")


def _text(row: Mapping[str, Any]) -> str | None:
    answer: str | None = row["answer"]
    return answer if answer is not None else row["refusal"]


def _failure(row: Mapping[str, Any]) -> tuple[str, str]:
    """The judge that failed a trial or left it unmeasured, with its reason."""
    for verdict in row["verdicts"]:
        if verdict["outcome"] == "fail" and verdict.get("gates", True):
            return verdict["judge"], verdict["reason"]
    cause = row["cause"]
    return (cause["kind"], cause["message"]) if cause else ("", "")
