"""A candidate next to the anchor: the sum of what changed since an old version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.evidence import Count
from regauge.gate.baselines import compare_with_anchor
from regauge.stats import AnchorPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.gate._decided import SuiteBase
    from regauge.gate.baselines import AnchorComparison

__all__ = ["AnchorReport", "anchor_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReport:
    """The report of the gate on an old version.

    Attributes:
        version: The anchor's.
        comparison: The candidate's first round next to it, or the base's record where the candidate
            has no trials; None where nothing can be compared.
        of_base: Whether it is the base's record.
        base_lost: Whether `regauge baseline update` confirmed a loss of the base.
        lost: Whether the base lost and the candidate does not make up for it.
        blocks: Whether that rejects the change.
    """

    version: str
    comparison: AnchorComparison | None
    of_base: bool
    base_lost: bool
    lost: bool
    blocks: bool

    @property
    def message(self) -> str:
        """The difference since the anchor, or why it is not measured."""
        if self.comparison is None:
            return (
                f"since {self.version}: not measured: the baseline keeps no trials of it that can"
                " be compared; regauge baseline update runs them with the next version"
            )
        words = f"{self.comparison} on the base" if self.of_base else str(self.comparison)
        if self.lost:
            words += "; the base's loss is confirmed, and this change does not make up for it"
        elif self.base_lost:
            words += "; the base's loss is confirmed"
        return words


def anchor_report(
    one: SuiteBase, outcomes: Mapping[tuple[str, str], Sequence[bool | None]]
) -> AnchorReport | None:
    """The report of one eval; None where it has no anchor.

    Args:
        outcomes: Whether the candidate's trials of the first round passed, by suite and case.
    """
    known = one.base.anchor
    if known is None:
        return None
    digests = {case.id: case.digest for case in one.suite.dataset}
    record: dict[str, Count] = {}
    counts: dict[str, Count] = {}
    for case in one.base.cases:
        if case.case not in digests:
            continue
        if case.history is not None:
            record[case.case] = case.history.whole
        judged = [
            passed for passed in outcomes.get((one.name, case.case), ()) if passed is not None
        ]
        if judged:
            counts[case.case] = Count(passed=sum(judged), trials=len(judged))
        elif case.state == "unchanged" and case.case in record:
            counts[case.case] = record[case.case]
    of_base = not any(outcomes.get((one.name, case.case)) for case in one.base.cases)
    comparison = None
    if known.anchor is not None:
        comparison = compare_with_anchor(
            known.anchor, record if of_base else counts, digests, accepted=known.accepted
        )
    base_lost = known.base is not None and known.base.confirmed
    lost = (
        base_lost
        and not of_base
        and comparison is not None
        and comparison.p_value <= AnchorPolicy().confirm
    )
    return AnchorReport(
        version=known.version,
        comparison=comparison,
        of_base=of_base,
        base_lost=base_lost,
        lost=lost,
        blocks=lost and one.base.at.newest.settings.gate.on_anchor_loss == "block",
    )
