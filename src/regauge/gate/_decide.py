"""The decision of a gate: its trials, the audit of recordings, and notes for the reader."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.gate._audit import audit_fresh, recorded_outcomes, today_is_worse
from regauge.gate._decision_log import DecisionLog, LoggedDecision, candidate_of, key_of_comparison
from regauge.gate._result import GateResult, anchor_report, collect_compared_cases
from regauge.gate._run import GateRun, is_base_unavailable
from regauge.gate._types import with_more_trials
from regauge.recordings import replacements_in
from regauge.runner import PlannedTrial, calls_of
from regauge.wording import cause_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.evidence import AuditReport
    from regauge.gate._comparison import Comparison
    from regauge.gate._decision_log import GatedChange
    from regauge.gate._result import CaseComparison
    from regauge.gate._types import GateOutcome, GatePolicy, Side
    from regauge.runner import EvalSession, RunProgress, Trial


_LOG = "gate/decisions.jsonl"
# A message fits on one line with this number of names.
_NAMES_MAX = 3
_FILES_MAX = 5


def decide(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    on_progress: Callable[[int, RunProgress], None],
    copies_per_case: int = 1,
    more_trials: int = 0,
    change: GatedChange | None = None,
) -> GateResult:
    """Run the trials and decide; a refused or rejected change gets none.

    Args:
        session: Runs and records the trials.
        comparison: The comparison.
        policy: Acceptance policy.
        on_progress: Called every second during calls, with the number of the round.
        copies_per_case: Trials of each case that evals without trials reuse.
        more_trials: Further trials of each suspect, for an undecided comparison. An accepted or
            rejected one keeps its decision.
        change: Pull request or branch whose earlier decisions are counted.
    """
    compared_cases = collect_compared_cases(comparison.evals)
    run_cases = compared_cases
    if comparison.refusals:
        run_cases = []
    elif comparison.errors or any(
        compared_case.case.is_removed_silently for compared_case in compared_cases
    ):
        run_cases = [
            compared_case
            for compared_case in compared_cases
            if compared_case.case.state in {"unchanged", "removed"}
        ]
    log = DecisionLog(session.project.state_dir / _LOG)
    key = key_of_comparison(compared_cases, policy, endpoint_of=session.completions.endpoint)
    candidate = candidate_of(compared_cases)
    notes = [*comparison.notes, *_replaced_notes(session, compared_cases)]
    logged = log.find(key)
    steps = [*(logged.more_trials if logged is not None else ())]
    if more_trials and logged is not None and logged.final:
        notes.append(f"decided before ({logged.decision}), so --more-trials was not used")
    elif more_trials:
        steps.append(more_trials)
    for step in steps:
        policy = with_more_trials(policy, step)
    policy = replace(policy, provisional=session.options.record == "none")
    run = GateRun(
        run_cases, policy, session=session, on_progress=on_progress, copies_per_case=copies_per_case
    )
    outcome = run.decide()
    outcomes = run.first_outcomes()
    audit = None if session.options.record == "none" else _audit_candidates(session, run)
    unavailable = _unavailable_bases(run)
    notes += [f"the base of {name}: {reason}" for name, reason in unavailable.items()]
    notes += session.progress.notes
    for caveat, note in (
        *_edited_case_notes(comparison, outcome),
        *_cut_output_notes(run.trials),
    ):
        comparison = replace(comparison, caveats=(*comparison.caveats, caveat))
        notes.append(note)
    notes += _advisory_notes(run.trials)
    rejected_before = log.rejected_before(change, candidate) if change is not None else 0
    if change is not None and rejected_before:
        were = "was" if rejected_before == 1 else "were"
        versions = plural(rejected_before, "version")
        notes.append(f"{versions} of this {change.noun} {were} rejected before")
    decided = GateResult(
        comparison=comparison,
        compared_cases=run.compared_cases,
        outcome=outcome,
        trials=run.trials,
        audit=audit,
        anchors={
            eval_.name: report
            for eval_ in comparison.evals
            if (report := anchor_report(eval_, outcomes)) is not None
        },
        not_run=len(compared_cases) - len(run_cases),
        base_unavailable=unavailable,
        rejected_before=rejected_before,
        notes=notes,
    )
    is_logged = session.options.record != "none" and not decided.not_run
    if is_logged and decided.decision not in {"unmeasured", "refused"}:
        log.add(
            LoggedDecision(
                key=key,
                change=str(change or ""),
                candidate=candidate,
                decision=decided.decision,
                more_trials=tuple(steps),
            )
        )
    return decided


def run_part(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    on_progress: Callable[[int, RunProgress], None],
) -> GateRun:
    """Run a shard's trials of the first round, on both sides, without a decision.

    The control trials of a whole comparison are left to the run that decides.

    Args:
        session: Runs and records the trials.
        comparison: The comparison; a refused one gets no trials.
        policy: Acceptance policy.
        on_progress: Called every second during calls, with the number of the round.
    """
    compared_cases = [] if comparison.refusals else collect_compared_cases(comparison.evals)
    elsewhere: dict[str, int] = {}
    for eval_ in comparison.evals:
        changed = sum(case.state == "changed" for case in eval_.cases)
        dataset = eval_.candidate.dataset
        elsewhere[eval_.name] = round(changed * dataset.excluded / max(1, len(dataset)))
    policy = replace(
        policy,
        provisional=session.options.record == "none",
        suite=replace(policy.suite, control=0),
    )
    run = GateRun(
        compared_cases, policy, session=session, on_progress=on_progress, elsewhere=elsewhere
    )
    run.run_first_round()
    return run


def _unavailable_bases(run: GateRun) -> dict[str, str]:
    """The reason why the target of a base cannot be called, by prompt."""
    reasons: dict[str, str] = {}
    for (prompt, _, side), trials in run.trials.items():
        for trial in trials if side == "base" else ():
            if is_base_unavailable(trial.error):
                reasons[prompt] = cause_line(str(trial.error))
    return reasons


def _audit_candidates(session: EvalSession, run: GateRun) -> AuditReport | None:
    """Compare the candidate's committed completions with its first trials, without further calls.

    If they disagree, the base is re-run: it may be worse than its baseline today.
    """
    candidates = [
        (compared_case.case.prompt, compared_case.candidate, compared_case.case.checks)
        for compared_case in run.compared_cases
        if compared_case.candidate is not None
        and run.trials.get((*compared_case.case.key, "candidate"))
    ]
    if not candidates:
        return None
    reader = session.replay_session()
    try:
        recorded = recorded_outcomes(reader, candidates, numbers=run.gate.first_trials)
    finally:
        reader.close()
    report = audit_fresh(recorded, run.first_outcomes())
    if report is None or report.result == "agree":
        return report
    counts = run.base_today()
    worse = today_is_worse([before for before, _ in counts], [today for _, today in counts])
    return replace(report, result="base-worse") if worse else report


def _replaced_notes(
    session: EvalSession, compared_cases: Sequence[CaseComparison]
) -> Iterator[str]:
    """Notes on candidates of which only some committed completions were recorded again."""
    digests: dict[str, set[str]] = {}
    for compared_case in compared_cases:
        if compared_case.candidate is not None and compared_case.case.state != "unchanged":
            name = compared_case.candidate.eval.prompt.name
            digests.setdefault(name, set()).add(compared_case.candidate.digest)
            if compared_case.candidate.converses:
                _, calls = calls_of(
                    PlannedTrial(compared_case.candidate, 0), session.completions.find_call
                )
                digests[name] |= {call.key.digest for call in calls}
    for name, of_prompt in digests.items():
        for replaced in replacements_in(session.completions.file(name), digests=of_prompt):
            yield f"recordings of {name}: {replaced}"


def _edited_case_notes(comparison: Comparison, outcome: GateOutcome) -> Iterator[tuple[str, str]]:
    """Caveats and notes on edited cases that the base fails and passed before the edit."""
    today = {(case.prompt, case.case): case.before + case.today for case in outcome.cases}
    for eval_ in comparison.evals:
        if (baseline := eval_.baseline) is None:
            continue
        names = [
            case.id
            for case in eval_.candidate.dataset
            if (base_trials := baseline.cases.get(case.id)) is not None
            and base_trials.digest != case.digest[: len(base_trials.digest)]
            and not base_trials.total.failed
            and (count := today.get((eval_.name, case.id))) is not None
            and count.failed > count.passed
        ]
        if names:
            fail = "edited case fails" if len(names) == 1 else "edited cases fail"
            note = (
                f"{len(names)} {fail} on the base, which passed before the edit, so nothing shows"
                f" whether the prompt broke them: {', '.join(names)}"
            )
            yield f"{len(names)} {fail} on the base since the edit", note


def _cut_output_notes(
    trials: Mapping[tuple[str, str, Side], Sequence[Trial]],
) -> Iterator[tuple[str, str]]:
    """Caveats and notes on passed outputs that are empty or cut off, unlike those of the base."""
    totals: Counter[tuple[str, Side]] = Counter()
    cut: Counter[tuple[str, Side]] = Counter()
    for (name, _, side), case_trials in trials.items():
        for trial in case_trials:
            if trial.outcome == "passed" and trial.sourced_completion is not None:
                totals[name, side] += 1
                cut[name, side] += trial.sourced_completion.completion.is_cut_off
    for name, side in [*cut]:
        if side == "candidate" and cut[name, side] and not cut[name, "base"]:
            text = f"{cut[name, side]} of {totals[name, side]} passed outputs of {name}"
            number = totals[name, "base"]
            on_base = f", and none of {number} on the base" if number else ""
            yield (
                f"{cut[name, side]} passed outputs of {name} empty or cut off",
                f"{text} are empty or cut off{on_base}",
            )


def _advisory_notes(
    trials: Mapping[tuple[str, str, Side], Sequence[Trial]],
) -> Iterator[str]:
    """Notes on advisory judges that failed trials of the candidate."""
    counts: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for (name, _, side), case_trials in trials.items():
        for trial in case_trials if side == "candidate" else ():
            for judged_verdict in trial.verdicts:
                if not judged_verdict.blocking:
                    key = (name, judged_verdict.judge, judged_verdict.status_reason)
                    counts[key][judged_verdict.verdict.outcome] += 1
    for (name, judge, reason), outcomes in counts.items():
        if outcomes["fail"]:
            yield (
                f"the judge {judge} failed {outcomes['fail']} of {outcomes.total()} trials of"
                f" {name}, and is only advisory ({reason})"
            )
