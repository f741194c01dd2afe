"""The anchor of an eval in one session of `regauge baseline update`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regauge.errors import FaultyFileError, GitError, RegaugeError
from regauge.gate.baselines import (
    Anchor,
    AskedSuite,
    Baseline,
    LandedSuite,
    TopUp,
    accepted_since,
    anchor_suite,
    anchor_version,
    applied,
    compare_histories,
    key_of,
    stored_anchor,
    top_up,
)
from regauge.prompts import lock_of
from regauge.runner import PlannedCase
from regauge.stats import AnchorPolicy
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from regauge.gate.baselines import AnchorComparison, StoredHistory, TopUpPolicy
    from regauge.runner import Suite

__all__ = ["AskedAnchor", "ask_anchor"]


@dataclass(slots=True, kw_only=True, eq=False)
class AskedAnchor:
    """What this session draws of the anchor, and what the comparison with it came to.

    Attributes:
        version: The anchor's.
        head: The eval as it is.
        suite: The same with the anchor's prompt; None where that cannot be read.
        stored: The anchor's trials so far; None without any.
        cases: Those that the anchor's prompt can be rendered with.
        trouble: Why the anchor cannot be drawn, or not for all cases; empty where it can.
        asked: What is drawn for it before the comparison; None where nothing is.
        landed: The trials that were drawn, those of a second drawing among them.
        drew: Whether any of them count.
        comparison: With the trials of both; None where nothing can be compared.
    """

    version: str
    head: Suite
    suite: Suite | None = None
    stored: Anchor | None = None
    cases: tuple[PlannedCase, ...] = ()
    trouble: str = ""
    asked: AskedSuite | None = None
    landed: list[LandedSuite] = field(default_factory=list[LandedSuite])
    drew: bool = False
    comparison: AnchorComparison | None = None

    @property
    def lost(self) -> bool:
        """Whether this session confirmed a loss against the anchor."""
        return self.drew and self.comparison is not None and self.comparison.confirmed

    def take(self, landed: LandedSuite, *, now: datetime) -> None:
        """Add the trials of this session to those that are kept."""
        if self.asked is None:
            return
        self.landed.append(landed)
        before = self.stored.drawn_for if self.stored is not None else ""
        history = applied(self.asked.asked, landed.facts, now=now, served=landed.served)
        if history.cases:
            self.drew = self.drew or any(landed.facts.values())
            self.stored = Anchor(history=history, drawn_for=before)

    def compare(self, history: StoredHistory, *, complete: bool) -> None:
        """Hold the version of today against the anchor; it is suspected once it is complete."""
        if self.stored is None:
            return
        accepted = accepted_since(self.head.prompt, self.version)
        found = compare_histories(self.stored, history, accepted=accepted)
        if found is not None and not complete:
            found = replace(found, suspected=False)
        self.comparison = found

    def second_drawing(self, now: datetime, policy: TopUpPolicy) -> AskedSuite | None:
        """The anchor next to the version of today; None where the kept trials do not ask for it."""
        suspected = self.comparison is not None and self.comparison.suspected
        if not suspected or self.suite is None or not self.cases:
            return None
        known = (self.stored.history,) if self.stored is not None else ()
        wanted = replace(policy, per_session=policy.wanted, sessions=1, any_time=True)
        return AskedSuite(
            asked=_top_up(self.suite, known, self.cases, now=now, policy=wanted, anew=True),
            cases=self.cases,
        )

    def replace_with(
        self, asked: AskedSuite, landed: LandedSuite, history: StoredHistory, *, now: datetime
    ) -> None:
        """Keep the second drawing instead, once every case was measured, and compare again."""
        self.landed.append(landed)
        if {case for case, trials in landed.facts.items() if trials} != {*asked.asked.wanted}:
            return
        drawn = applied(asked.asked, landed.facts, now=now, served=landed.served)
        self.stored = Anchor(history=drawn, drawn_for=history.key.prompt)
        self.drew = True
        self.compare(history, complete=True)

    def line(self) -> str:
        """The difference since the anchor, or why it is not measured."""
        found = self.comparison
        if found is None:
            why = self.trouble or "its trials are drawn with those of the next version"
            return f"since {self.version}: not measured: {why}"
        words = str(found)
        if found.confirmed:
            words += f"; a loss, confirmed with fresh trials of both (p = {found.p_value:.2g})"
        elif found.suspected:
            why = f": {self.trouble}" if self.trouble else ""
            words += f"; {self.version} was not measured again, so this is not confirmed{why}"
        elif found.redrawn:
            words += f"; not confirmed with fresh trials of both (p = {found.p_value:.2g})"
        return words

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        found = self.comparison
        return {
            "version": self.version,
            "message": self.line(),
            "cases": found.cases if found is not None else 0,
            "difference": {
                "main": found.difference.main,
                "candidate": found.difference.candidate,
                "low": found.difference.low,
                "high": found.difference.high,
            }
            if found is not None
            else None,
            "p_value": found.p_value if found is not None else None,
            "redrawn": found is not None and found.redrawn,
            "confirmed": found is not None and found.confirmed,
            "trouble": self.trouble,
        }


def ask_anchor(
    suite: Suite,
    planned: Sequence[PlannedCase],
    baseline: Baseline,
    current: TopUp,
    *,
    setting: str,
    policy: TopUpPolicy,
    now: datetime,
) -> AskedAnchor | None:
    """The anchor of an eval; None where the setting or the prompt names none.

    It is drawn only next to a version whose own baseline fills.

    Args:
        planned: The cases of today.
        baseline: Of the prompt.
        current: What is drawn of the version of today.
        setting: `anchor` of the settings.
        policy: How the baseline of so many cases is filled.
    """
    head = suite.prompt
    released = [entry.version for entry in lock_of(head.path).of(head.name)]
    version = anchor_version(setting, released, current=head.version)
    if version is None:
        return None
    found = AskedAnchor(version=str(version), head=suite)
    try:
        found.suite = anchor_suite(suite, version)
    except (FaultyFileError, GitError) as error:
        found.trouble = str(error).splitlines()[0].replace(str(head.path), head.path.name)
        found.stored = stored_anchor([baseline], found.version, key_of(suite))
        return found
    key = key_of(found.suite)
    found.stored = next(
        (one for one in baseline.anchors if not one.history.key.differences(key)), None
    )
    if found.stored is None and (known := baseline.find(key)) is not None:
        found.stored = Anchor(history=replace(known, audited=""))
    found.cases = tuple(
        PlannedCase(found.suite, one.case) for one in planned if _renders(found.suite, one)
    )
    if left_out := len(planned) - len(found.cases):
        of = plural(len(planned), "case")
        found.trouble = f"the prompt of {version} cannot be rendered for {left_out} of {of}"
    if current.wanted and found.cases:
        most = AnchorPolicy().trials_of(len(suite.dataset), baseline_trials=policy.wanted)
        share = max(policy.per_session, -(-most // policy.sessions))
        wanted = replace(policy, wanted=most, per_session=share, sessions=1, any_time=True)
        stored = (found.stored.history,) if found.stored is not None else ()
        found.asked = AskedSuite(
            asked=_top_up(found.suite, stored, found.cases, now=now, policy=wanted),
            cases=found.cases,
        )
    return found


def _top_up(
    suite: Suite,
    stored: tuple[StoredHistory, ...],
    cases: Sequence[PlannedCase],
    *,
    now: datetime,
    policy: TopUpPolicy,
    anew: bool = False,
) -> TopUp:
    return top_up(
        Baseline(prompt=suite.prompt.name, histories=stored),
        key_of(suite),
        version=str(suite.prompt.version or ""),
        cases={one.case.id: one.case.digest for one in cases},
        now=now,
        policy=policy,
        anew=anew,
    )


def _renders(suite: Suite, planned: PlannedCase) -> bool:
    try:
        suite.request(planned.case, 0)
    except RegaugeError:
        return False
    return True
