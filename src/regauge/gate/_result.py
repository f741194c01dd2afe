"""The result of a gate run: cases, calls, the outcome of the engine, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from regauge.errors import BudgetError, MissingOutputError, MissingRecordingError
from regauge.evidence import AnchorReport, AuditReport, Count
from regauge.gate._anchor import compare_with_anchor
from regauge.gate._types import Decision
from regauge.runner import PlannedCase
from regauge.stats import AnchorPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.errors import Diagnostic, UnmeasuredError
    from regauge.gate._anchor import AnchorComparison
    from regauge.gate._base import BaseAnchor, EvalBase
    from regauge.gate._comparison import Comparison
    from regauge.gate._types import GateCase, GateOutcome, Side
    from regauge.runner import Eval, Trial


def anchor_report(
    eval_: EvalBase, outcomes: Mapping[tuple[str, str], Sequence[bool | None]]
) -> AnchorReport | None:
    """The anchor report of one eval; None without an anchor.

    Args:
        outcomes: Outcomes of the candidate's first round, by eval and case.
    """
    anchor = eval_.anchor
    if anchor is None:
        return None
    comparison, of_base = _compare_first_round(eval_, anchor, outcomes)
    base_lost = anchor.base is not None and anchor.base.is_confirmed
    if comparison is None:
        return AnchorReport(
            version=anchor.version,
            message=f"since {anchor.version}: not measured: the baseline keeps no trials of it that"
            " can be compared; regauge baseline update runs them with the next version",
            of_base=of_base,
            base_lost=base_lost,
        )
    has_loss = base_lost and not of_base and comparison.p_value <= AnchorPolicy().confirm
    message = f"{comparison} on the base" if of_base else str(comparison)
    if base_lost:
        message += "; the base's loss is confirmed"
    if has_loss:
        message += ", and this change does not make up for it"
    return AnchorReport(
        version=anchor.version,
        message=message,
        cases=comparison.cases,
        difference=comparison.difference,
        p_value=comparison.p_value,
        of_base=of_base,
        base_lost=base_lost,
        has_loss=has_loss,
        blocks=has_loss and eval_.base_commit.newest.settings.gate.on_anchor_loss == "block",
    )


def _compare_first_round(
    eval_: EvalBase, anchor: BaseAnchor, outcomes: Mapping[tuple[str, str], Sequence[bool | None]]
) -> tuple[AnchorComparison | None, bool]:
    """Compare the candidate with the anchor, or the base if the candidate has no trials (True)."""
    digests = {case.id: case.digest for case in eval_.candidate.dataset}
    record: dict[str, Count] = {}
    counts: dict[str, Count] = {}
    for case in eval_.cases:
        if case.baseline is not None:
            record[case.case] = case.baseline.total
        count = Count.of(outcomes.get((eval_.name, case.case), ()))
        if count.trials:
            counts[case.case] = count
        elif case.state == "unchanged" and case.case in record:
            counts[case.case] = record[case.case]
    of_base = not any(outcomes.get((eval_.name, case.case)) for case in eval_.cases)
    if anchor.anchor is None:
        return None, of_base
    sides = record if of_base else counts
    return compare_with_anchor(anchor.anchor, sides, digests, accepted=anchor.accepted), of_base


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseComparison:
    """One case of a gate run.

    Attributes:
        case: Input of the engine.
        candidate: The candidate's case; None if it was removed.
        follow_up: The same with blocking judges only, for further trials: advisory judges have
            judged the first trials, and may cost more than the completion.
        base: The base's case with the same judges; None if it has none. Its trials belong to the
            candidate's request: those of another version may be older.
    """

    case: GateCase
    candidate: PlannedCase | None
    follow_up: PlannedCase | None
    base: PlannedCase | None


def collect_compared_cases(evals: Iterable[EvalBase]) -> list[CaseComparison]:
    """The cases of all evals, in their order; removed ones count if nothing was left out."""
    cases: list[CaseComparison] = []
    for eval_ in evals:
        planned_cases = {planned_case.case.id: planned_case for planned_case in eval_.planned_cases}
        follow_up = _with_deciding_judges(eval_.candidate, eval_)
        base = _with_deciding_judges(eval_.base, eval_) if eval_.base else None
        for case in eval_.cases:
            candidate = planned_cases.get(case.case)
            if candidate is None and (case.state != "removed" or eval_.partial):
                continue
            cases.append(
                CaseComparison(
                    case=replace(case, prompt=eval_.name),
                    candidate=candidate,
                    follow_up=PlannedCase(follow_up, candidate.case)
                    if candidate is not None
                    else None,
                    base=PlannedCase(base, candidate.case, partner=candidate.digest)
                    if base is not None and candidate is not None and case.state == "changed"
                    else None,
                )
            )
    return cases


def _with_deciding_judges(eval_: Eval, base: EvalBase) -> Eval:
    """An eval with its blocking judges only."""
    checks = {check for case in base.cases for check in case.checks}
    return replace(eval_, judges=tuple(judge for judge in eval_.judges if judge.name in checks))


# A refused change is not compared.
FinalDecision: TypeAlias = Decision | Literal["refused"]
EXIT_CODES: Final[dict[FinalDecision, int]] = {
    "accept": 0,
    "reject": 1,
    "refused": 2,
    "unmeasured": 3,
    "undecided": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateResult:
    """A decision and its evidence.

    Attributes:
        comparison: The comparison.
        compared_cases: Cases, in the order of the outcome's.
        trials: Trials of the run, by eval, case and side.
        audit: Comparison of the candidate's committed completions with its first trials; None if
            nothing could be compared.
        anchors: Comparison with an old version, by eval.
        not_run: Number of cases not run because the change is refused or rejected anyway.
        base_unavailable: Reason why the target of the base cannot be called, by prompt.
        rejected_before: Number of rejected other versions of the pull request or branch.
        notes: Notes for the reader.
    """

    comparison: Comparison
    compared_cases: Sequence[CaseComparison]
    outcome: GateOutcome
    trials: Mapping[tuple[str, str, Side], Sequence[Trial]]
    audit: AuditReport | None = None
    anchors: Mapping[str, AnchorReport] = field(default_factory=dict[str, "AnchorReport"])
    not_run: int = 0
    base_unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected_before: int = 0
    notes: Sequence[str] = field(default_factory=tuple[str, ...])

    @property
    def decision(self) -> FinalDecision:
        """The engine's decision, unless the change is refused, unmeasured or breaks a rule.

        Selected recordings reject it, too, and so does a loss against the anchor if the base's
        settings block it.
        """
        if self.comparison.refusals:
            return "refused"
        selected = self.audit is not None and self.audit.result == "better"
        blocked = any(anchor.blocks for anchor in self.anchors.values())
        return final_decision(
            self.outcome.decision,
            broken=bool(self.comparison.errors) or selected or blocked,
            unmeasured=bool(self.comparison.unmeasured),
        )

    @property
    def provisional(self) -> bool:
        """Return whether only stored trials of the candidate count, which its author recorded."""
        candidates = (trials for (_, _, side), trials in self.trials.items() if side == "candidate")
        return self.outcome.policy.provisional and any(candidates)

    def rules(self, eval_: EvalBase) -> Iterator[tuple[str, Diagnostic]]:
        """The broken rules of versions and changelog of an eval, by name.

        Rules of a prompt belong to its first eval, and those of the lock to the first eval of
        all.
        """
        path = eval_.candidate.prompt.path
        evals = self.comparison.evals
        if eval_ is next(of_path for of_path in evals if of_path.candidate.prompt.path == path):
            for breach in eval_.breaches:
                yield breach.rule, breach.error
            for error in eval_.changelog_errors:
                yield "changelog", error
        if eval_ is evals[0]:
            for breach in self.comparison.locks:
                yield breach.rule, breach.error

    def errors(self) -> Iterator[UnmeasuredError]:
        """The errors of all unmeasured trials."""
        for trials in self.trials.values():
            for trial in trials:
                if trial.error is not None:
                    yield trial.error

    @property
    def unmeasured_cause(self) -> str:
        """The cause of unmeasured trials: `recordings`, `budget`, `completions` or empty."""
        errors = list(self.errors())
        if any(isinstance(error, BudgetError) for error in errors):
            return "budget"
        # A run cannot make outputs that are missing in a file.
        makeable = [error for error in errors if not isinstance(error, MissingOutputError)]
        if any(isinstance(error, MissingRecordingError) for error in makeable):
            return "recordings"
        return "completions" if errors else ""


def final_decision(decision: Decision, *, broken: bool, unmeasured: bool) -> Decision:
    """The decision of a gate, from the outcome of the engine.

    >>> final_decision("accept", broken=False, unmeasured=True)
    'unmeasured'

    Args:
        decision: Decision of the engine.
        broken: Whether the change breaks a version rule and is rejected.
        unmeasured: Whether the run left something out, so that the change is not accepted.
    """
    if broken or decision == "reject":
        return "reject"
    return "unmeasured" if unmeasured else decision
