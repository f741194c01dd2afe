"""After a merge: how the new version of a prompt fares against the record of the one before."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Literal

import numpy as np

from regauge.prompts import Semver
from regauge.stats import e_bh, log_e_value

if TYPE_CHECKING:
    from collections.abc import Collection

    from regauge.gate._types import Count
    from regauge.gate.baselines._baseline import StoredHistory
    from regauge.prompts import Prompt
    from regauge.stats import Direction

__all__ = ["CellChange", "accepted_since", "changes_between"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """One check of one case that surely fares otherwise than it did.

    Attributes:
        e_value: The evidence.
        bound: What it had to reach among all cells.
        since: When it fared as `before` says.
    """

    case: str
    check: str
    direction: Literal["worse", "better"]
    before: Count
    now: Count
    e_value: float
    bound: float
    since: str = "with the version before"

    def __str__(self) -> str:
        verb = "worse" if self.direction == "worse" else "better"
        return f"{self.case}: {self.check} {verb}: passed {self.now}; {self.before} {self.since}"


def changes_between(
    before: StoredHistory,
    now: StoredHistory,
    *,
    alpha: float = 0.05,
    accepted: Collection[str] = (),
) -> tuple[CellChange, ...]:
    """The cells that fare worse or better, by the gate's own test of one case.

    It finds what the one or few trials of a gate cannot: a case that now fails every other time.

    Args:
        alpha: The false discovery rate, over all cells, for each direction.
        accepted: Cases that may fare worse because it is wanted.
    """
    cells = [
        (case_id, check, case.checks[check], now.cases[case_id].checks[check])
        for case_id, case in sorted(before.cases.items())
        if case_id in now.cases and now.cases[case_id].digest == case.digest
        for check in sorted(case.checks)
        if check in now.cases[case_id].checks
    ]
    if not cells:
        return ()
    found: list[CellChange] = []
    directions: tuple[Direction, ...] = ("worse", "better")
    for direction in directions:
        log_e = log_e_value(
            [old.passed for *_, old, _ in cells],
            [old.trials for *_, old, _ in cells],
            [new.passed for *_, new in cells],
            [new.trials for *_, new in cells],
            direction=direction,
        )
        bound = float(np.asarray(e_bh(log_e, alpha=alpha).log_bound).item())
        found += [
            CellChange(
                case=case_id,
                check=check,
                direction=direction,
                before=old,
                now=new,
                e_value=exp(min(float(evidence), 700.0)),
                bound=exp(bound),
            )
            for (case_id, check, old, new), evidence in zip(cells, log_e, strict=True)
            if evidence >= bound and not (direction == "worse" and case_id in accepted)
        ]
    return tuple(found)


def accepted_since(prompt: Prompt, version: str) -> frozenset[str]:
    """The cases that the changelog accepts in versions after one."""
    since = Semver.parse(version) if version else None
    return frozenset(
        one.case
        for entry in prompt.changelog
        if since is None or Semver.parse(entry.version) > since
        for one in entry.accepted
    )
