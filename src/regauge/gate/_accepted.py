"""States of cases against the base, and changes of cases that changelogs accept."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic
from regauge.evidence import NO_TRIALS
from regauge.gate._types import CRITICAL_TRIALS, tier_held
from regauge.prompts import Semver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.datasets import Dataset, GoldenCase
    from regauge.evidence import CaseState, CaseTier
    from regauge.gate.baselines import StoredBaseline
    from regauge.prompts import Prompt


# Versions whose accepted breaks make a case edit-sensitive; more keep it so for longer.
_VERSIONS_LOOKED_AT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedChange:
    """The changelog entries that are new since the base version.

    Attributes:
        accepted: Reason why a case may pass less often, by id.
        removed: Reason why a case was removed, by id.
        broke_before: Number of recent versions of the base that accept a case as broken, by id.
        errors: Errors in entries that name no such case.
    """

    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    broke_before: Mapping[str, int] = field(default_factory=dict[str, int])
    errors: tuple[Diagnostic, ...] = ()


def find_accepted(
    head: Prompt, base: Prompt | None, *, cases: Iterable[str], removed_cases: Iterable[str]
) -> AcceptedChange:
    """Find the cases that the author newly accepts; earlier entries do not count again.

    Args:
        cases: Ids of the current golden cases.
        removed_cases: Ids of cases that only the base version has.
    """
    ids, missing = frozenset(cases), frozenset(removed_cases)
    before = _accepted_entries(base) if base is not None else frozenset[tuple[str, str, str]]()
    accepted: dict[str, str] = {}
    removed: dict[str, str] = {}
    errors: list[Diagnostic] = []
    for entry in head.changelog:
        for key, entries, reasons, among in (
            ("accepted", entry.accepted, accepted, ids),
            ("removed", entry.removed, removed, missing),
        ):
            for case_entry in entries:
                if (key, entry.version, case_entry.case) in before:
                    continue
                if case_entry.case in among:
                    reasons.setdefault(case_entry.case, case_entry.reason)
                    continue
                errors.append(_pointless_entry(head, key, case_entry.case, case_entry.line, ids))
    return AcceptedChange(
        accepted=accepted,
        removed=removed,
        broke_before=_broke_before(base) if base is not None else {},
        errors=tuple(errors),
    )


def _broke_before(base: Prompt) -> Counter[str]:
    """The number of recent versions with an accepted break, by case, the current one included."""
    entries = [*base.changelog]
    with suppress(ValueError):  # versions of targets are free texts, newest first
        entries = sorted(entries, key=lambda entry: Semver.parse(entry.version), reverse=True)
    return Counter(
        case
        for entry in entries[: _VERSIONS_LOOKED_AT - 1]
        for case in {accepted.case for accepted in entry.accepted}
    )


def case_state(
    case: GoldenCase, *, before: Dataset | None, request: str, base_request: str | None
) -> CaseState:
    """The state of a case relative to its base version.

    Args:
        before: Golden cases of the base version; None if they are today's.
        request: Digest of the candidate's request.
        base_request: Digest of the base's request; None if it cannot be built.
    """
    if base_request is None:
        return "new"
    if before is not None and case.id not in before:
        return "new"
    return "unchanged" if request == base_request else "changed"


def _accepted_entries(base: Prompt) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        (key, entry.version, case_entry.case)
        for entry in base.changelog
        for key, entries in (("accepted", entry.accepted), ("removed", entry.removed))
        for case_entry in entries
    )


def _pointless_entry(
    head: Prompt, key: str, case: str, line: int, ids: frozenset[str]
) -> Diagnostic:
    if key == "accepted":
        message = f"`accepted` names {case!r}, which is not a golden case of {head.name}"
        return Diagnostic(
            path=head.path, line=line or None, message=message, fix="name a case by its id"
        )
    state = "which is still there" if case in ids else "which the base version does not have"
    message = f"`removed` names {case!r}, {state}"
    return Diagnostic(
        path=head.path, line=line or None, message=message, fix="take it out of the changelog"
    )


def proven_tier(case: GoldenCase, baseline: StoredBaseline | None, *, tier: CaseTier) -> CaseTier:
    """The tier that applies to a case: a critical one is required until the base has proven it."""
    trials = baseline.find_trials(case.id, case.digest) if baseline is not None else None
    return tier_held(tier, trials.total if trials is not None else NO_TRIALS, CRITICAL_TRIALS)
