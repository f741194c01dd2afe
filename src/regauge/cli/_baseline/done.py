"""What a session of `regauge baseline update` asks of each eval, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.gate.baselines import LandedSuite
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.cli._baseline.anchor import AskedAnchor
    from regauge.gate import AuditReport, Count
    from regauge.gate.baselines import AskedSuite, Baseline, CellChange, Drift, StoredHistory
    from regauge.runner import Suite

__all__ = ["AskedEval", "AskedPrompt", "Done", "summary"]

_NAMED_MAX = 5


@dataclass(slots=True, kw_only=True, eq=False)
class AskedEval:
    """One eval, what this session draws for its history, and what came of it."""

    suite: Suite
    asked: AskedSuite
    landed: LandedSuite = field(default_factory=LandedSuite)
    redrawn: LandedSuite | None = None
    drift: Drift | None = None
    audit: AuditReport | None = None
    audited: str = ""
    anchor: AskedAnchor | None = None


@dataclass(slots=True, kw_only=True)
class AskedPrompt:
    """What the command knows of one prompt.

    Attributes:
        older: The file of the baseline under an older name, which the new one replaces.
    """

    name: str
    baseline: Baseline
    older: Path | None = None
    suites: list[AskedEval] = field(default_factory=list["AskedEval"])


@dataclass(slots=True, kw_only=True)
class Done:
    """What came of one eval of a prompt.

    Attributes:
        drawn: Trials that were added to the history.
        lacking: What completes the history; empty when it is complete.
        changes: What surely fares otherwise than with the version before.
        landed: The trials of the history.
        drift: What fresh trials say of the history that was complete; None where none were made.
        redrawn: Those trials.
        audit: Committed completions next to fresh trials; None where none were compared.
        anchor: The comparison with an old version; None where there is none to compare with.
    """

    prompt: str
    history: StoredHistory
    drawn: int
    complete: bool
    waits_h: float
    lacking: str = ""
    written: str
    changes: tuple[CellChange, ...]
    landed: LandedSuite
    drift: Drift | None = None
    redrawn: LandedSuite | None = None
    audit: AuditReport | None = None
    anchor: AskedAnchor | None = None

    @property
    def worse(self) -> bool:
        """Whether main is worse than the version before, the anchor, its history or recordings."""
        drifted = self.drift is not None and self.drift.worse
        lost = self.anchor is not None and self.anchor.lost
        if lost or (self.audit is not None and self.audit.result == "better"):
            return True
        return drifted or any(change.direction == "worse" for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        key = self.history.key
        return {
            "prompt": self.prompt,
            "version": self.history.version,
            "prompt_digest": key.prompt,
            "model": key.model,
            "dataset": key.dataset,
            "drawn": self.drawn,
            "unmeasured": sum(landed.unmeasured.total() for landed in self._landed()),
            "complete": self.complete,
            "waits_h": self.waits_h,
            "sessions": len(self.history.sessions),
            "file": self.written,
            "changes": [_change(change) for change in self.changes],
            "drift": _drift(self.drift) if self.drift is not None else None,
            "audit": _audit(self.audit) if self.audit is not None else None,
            "anchor": self.anchor.to_json() if self.anchor is not None else None,
            "anchor_lost": self.anchor is not None and self.anchor.lost,
        }

    def lines(self, before: StoredHistory | None) -> Iterator[str]:
        """For people.

        Args:
            before: The history of the version before, where it was compared with.
        """
        if self.drift is not None:
            yield from _drift_lines(self.prompt, self.drift)
        if self.audit is not None and self.audit.result != "agree":
            yield f"{self.prompt}: {self.audit.message}"
            if self.audit.result == "better":
                yield f"  fix: {self.audit.fix}"
        if self.drawn:
            state = f"not complete yet: {self.lacking}" if self.lacking else "complete"
            yield f"{self.prompt}: {summary(self.history)}, {state}"
        if before is not None:
            yield f"  compared with {before.version or before.key.prompt[:12]}:"
            for change in self.changes:
                yield f"  {change}"
            if not self.changes:
                yield "  no case surely fares otherwise"
        if self.anchor is not None:
            yield f"  {self.anchor.line()}"
        if self.written:
            yield f"  wrote {self.written}: commit it"

    def unmeasured(self) -> Iterator[str]:
        """Which trials do not count, and why."""
        for landed in self._landed():
            if not landed.unmeasured:
                continue
            for why, count in landed.unmeasured.most_common(3):
                yield f"{self.prompt}: {_trials_do(count)} not count: {why}"
            cases = sorted(landed.unmeasured_cases)
            more = ", ..." if len(cases) > _NAMED_MAX else ""
            yield f"  cases: {', '.join(cases[:_NAMED_MAX])}{more}"

    def _landed(self) -> list[LandedSuite]:
        of_anchor = self.anchor.landed if self.anchor is not None else []
        again = [self.redrawn] if self.redrawn is not None else []
        return [*again, self.landed, *of_anchor]


def summary(history: StoredHistory) -> str:
    """How many trials of how many cases a history has."""
    drawn = [len(case.drawn) for case in history.cases.values()]
    if not drawn:
        return "no trials"
    least, most = min(drawn), max(drawn)
    trials = plural(most, "trial") if least == most else f"{least} to {most} trials"
    sessions = plural(len(history.sessions), "session")
    return f"{plural(len(drawn), 'case')} with {trials} each from {sessions}"


def _trials_do(count: int) -> str:
    return "1 trial does" if count == 1 else f"{count} trials do"


def _drift_lines(prompt: str, drift: Drift) -> Iterator[str]:
    yield f"{prompt}: fresh trials passed {drift.now}; {drift.before} when the baseline was drawn"
    for change in drift.changes:
        yield f"  {change}"
    suite = drift.suite
    if suite is not None and drift.suite_worse:
        yield (
            f"  all cases together fare worse: {plural(suite.fails, 'failure')} in"
            f" {drift.now.trials}, {suite.expected:.1f} expected,"
            f" p = {min([suite.p_value, *suite.scores.values()]):.2g}"
        )
    if drift.served:
        yield f"  answered by {', '.join(drift.served)} now, who never answered before"
    yield "  a new history begins" if drift.stale else "  main fares as its history says"


def _drift(drift: Drift) -> dict[str, Any]:
    suite = drift.suite
    return {
        "worse": drift.worse,
        "before": _count(drift.before),
        "now": _count(drift.now),
        "suite_worse": drift.suite_worse,
        "p_value": suite.p_value if suite is not None else None,
        "bound": suite.bound if suite is not None else None,
        "scores": dict(suite.scores) if suite is not None else {},
        "changes": [_change(change) for change in drift.changes],
        "served": list(drift.served),
    }


def _audit(audit: AuditReport) -> dict[str, Any]:
    return {**asdict(audit), "prompts": [*audit.prompts], "message": audit.message}


def _change(change: CellChange) -> dict[str, Any]:
    return {
        "case": change.case,
        "check": change.check,
        "direction": change.direction,
        "before": _count(change.before),
        "now": _count(change.now),
        "e_value": change.e_value,
        "bound": change.bound,
    }


def _count(count: Count) -> dict[str, int]:
    return {"passed": count.passed, "trials": count.trials}
