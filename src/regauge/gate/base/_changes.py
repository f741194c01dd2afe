"""What a change does to golden cases, and what its author says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import Fault
from regauge.prompts import Semver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.datasets import Dataset, GoldenCase
    from regauge.gate._types import CaseState
    from regauge.prompts import Prompt

__all__ = ["Acknowledged", "acknowledged", "case_state"]

_VERSIONS_LOOKED_AT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """What the changelog of a change says that its base version did not say yet.

    Attributes:
        accepted: Why a case may fare worse, by its id.
        removed: Why a case is gone, by its id.
        broke_before: In how many of the last versions of the base version's changelog a case was
            accepted as broken, by its id.
        faults: Acknowledgements that speak of no case they could be about.
    """

    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    broke_before: Mapping[str, int] = field(default_factory=dict[str, int])
    faults: tuple[Fault, ...] = ()


def acknowledged(
    head: Prompt, base: Prompt | None, *, cases: Iterable[str], gone: Iterable[str]
) -> Acknowledged:
    """What an author newly accepts; what an older change accepted does not count again.

    Args:
        cases: The ids of the golden cases as they are.
        gone: The ids of those that only the base version has.
    """
    known, missing = frozenset(cases), frozenset(gone)
    before = _said(base) if base is not None else frozenset[tuple[str, str, str]]()
    accepted: dict[str, str] = {}
    removed: dict[str, str] = {}
    faults: list[Fault] = []
    for entry in head.changelog:
        for key, given, found, among in (
            ("accepted", entry.accepted, accepted, known),
            ("removed", entry.removed, removed, missing),
        ):
            for one in given:
                if (key, entry.version, one.case) in before:
                    continue
                if one.case in among:
                    found.setdefault(one.case, one.reason)
                    continue
                faults.append(_pointless(head, key, one.case, one.line, known))
    return Acknowledged(
        accepted=accepted,
        removed=removed,
        broke_before=_broke_before(base) if base is not None else {},
        faults=tuple(faults),
    )


def _broke_before(base: Prompt) -> Counter[str]:
    """Of the last versions, the one that is weighed now being the last of all."""
    entries = sorted(base.changelog, key=lambda entry: Semver.parse(entry.version), reverse=True)
    return Counter(
        case
        for entry in entries[: _VERSIONS_LOOKED_AT - 1]
        for case in {one.case for one in entry.accepted}
    )


def case_state(
    case: GoldenCase, *, before: Dataset | None, request: str, base_request: str | None
) -> CaseState:
    """How a case stands to its base version.

    Args:
        before: The base version's golden cases; None where they are those of today.
        request: The digest of what the candidate is asked.
        base_request: The digest of what main is asked; None where main cannot be asked this case.
    """
    if base_request is None:
        return "new"
    if before is not None and case.id not in before:
        return "new"
    return "unchanged" if request == base_request else "changed"


def _said(base: Prompt) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        (key, entry.version, one.case)
        for entry in base.changelog
        for key, given in (("accepted", entry.accepted), ("removed", entry.removed))
        for one in given
    )


def _pointless(head: Prompt, key: str, case: str, line: int, known: frozenset[str]) -> Fault:
    if key == "accepted":
        message = f"`accepted` names {case!r}, which is no golden case of {head.name}"
        return Fault(path=head.path, line=line, message=message, fix="name a case by its id")
    state = "which is still there" if case in known else "which the base version does not have"
    message = f"`removed` names {case!r}, {state}"
    return Fault(path=head.path, line=line, message=message, fix="take it out of the changelog")
