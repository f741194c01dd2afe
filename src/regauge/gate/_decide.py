"""The gate of a session: comparison with the base version, decision and estimate."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic
from regauge.gate._audit import audit_fresh, recorded_outcomes, today_is_worse
from regauge.gate._bar import is_reformatted, moved_files, moved_judging, moved_settings
from regauge.gate._base import check_locks, compare_with_base
from regauge.gate._commit import find_base
from regauge.gate._coverage import coverage_of
from regauge.gate._decision_log import DecisionLog, LoggedDecision, candidate_of, key_of_comparison
from regauge.gate._engine import Gate
from regauge.gate._reach import NotMeasured, caveats_of_targets, undeclared_changes
from regauge.gate._record import StoredNumbers, stored_number
from regauge.gate._refusal import (
    edited_code,
    edited_records,
    is_set_up,
    refusal_of_bars,
    refusal_of_trials,
    shorten_list,
)
from regauge.gate._result import (
    Bill,
    Comparison,
    GateResult,
    anchor_report,
    bill_trials,
    collect_compared_cases,
    suite_names,
)
from regauge.gate._run import GateRun, is_base_unavailable
from regauge.gate._types import with_more_trials
from regauge.gate.power import unchanged_calls
from regauge.recordings import replacements_in
from regauge.runner import PlannedTrial, calls_of
from regauge.wording import cause_line, first_of, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.gate._audit import AuditReport
    from regauge.gate._bar import MovedBar
    from regauge.gate._base import SuiteBase
    from regauge.gate._commit import BaseCommit
    from regauge.gate._decision_log import GatedChange
    from regauge.gate._result import CaseComparison
    from regauge.gate._run import GateProgress
    from regauge.gate._types import GateOutcome, GatePolicy, Side
    from regauge.gate.baselines import Baseline
    from regauge.project import Project
    from regauge.runner import EvalSession, PlannedCase, Trial


_LOG = "gate/decisions.jsonl"
# A message fits on one line with this number of names.
_NAMES_MAX = 3
_FILES_MAX = 5


def compare(
    session: EvalSession,
    ref: str,
    *,
    baseline: Baseline | None = None,
    accept_judge_change: str = "",
    omissions: Sequence[Diagnostic] = (),
    is_filtered: bool = False,
) -> Comparison:
    """Compare the planned cases with the base version.

    Args:
        session: A planned session.
        ref: Branch, tag or commit.
        baseline: Replaces the committed baseline of its prompt.
        accept_judge_change: Reason to accept changed judges or a lowered bar.
        omissions: Omissions of the run that the user did not select.
        is_filtered: Whether the user selected some of the evals.

    Raises:
        GitError: There is no base version.
        RegaugeError: A file of either version cannot be read.
    """
    by_suite: dict[int, list[PlannedCase]] = {}
    for planned_case in session.plan.cases:
        by_suite.setdefault(id(planned_case.suite), []).append(planned_case)
    base_commit = find_base(session.project, ref)
    session.embeddings.trust(base_commit.read)
    groups = list(by_suite.values())
    evals = [group[0].suite for group in groups]
    suites = [
        replace(
            compare_with_base(
                group[0].suite,
                base_commit,
                across_models=bool(session.options.models),
                baseline=baseline
                if baseline is not None and baseline.prompt == group[0].suite.prompt.name
                else None,
                siblings=[
                    suite
                    for suite in evals
                    if suite is not group[0].suite
                    and suite.prompt.path == group[0].suite.prompt.path
                    and suite.dataset.path == group[0].suite.dataset.path
                ],
            ),
            name=name,
            planned_cases=group,
        )
        for name, group in zip(suite_names(evals), groups, strict=True)
    ]
    prompt_changed = any(case.state == "changed" for suite in suites for case in suite.cases)
    is_noted = (
        bool(accept_judge_change) or base_commit.newest.settings.gate.on_judge_change == "note"
    )
    refusals = [refusal for suite in suites for refusal in suite.refusals]
    refused = [refusal for refusal in refusals if refusal.prompt_changed or not is_noted]
    if (trials := refusal_of_trials(base_commit)) is not None:
        refused.append(trials)
    bars = list(_bars(base_commit, suites, session.project, prompt_changed=prompt_changed))
    if bars and not accept_judge_change and (prompt_changed or not is_noted):
        refused.append(refusal_of_bars(bars, base_commit))
    coverage = coverage_of(base_commit, evals, omissions=omissions, is_filtered=is_filtered)
    unmeasured = [*omissions, *coverage.unmeasured]
    if not suites and not unmeasured:
        unmeasured = [_nothing_selected(base_commit)]
    notes = [*_notes(base_commit, suites), *coverage.notes]
    if not refused:  # a refusal lists these
        notes += [refusal.note for refusal in refusals]
        notes += [f"this change lowers its own bar: {bar}" for bar in bars]
    code = edited_code(base_commit, evals)
    records = list(edited_records(base_commit))
    notes += [note for _, note in records]
    if code:
        notes.append(
            "the change also edits code or data of this gate or its workflow:"
            f" {first_of(code, _FILES_MAX)}"
        )
    command = f"regauge gate {base_commit.ref}"
    not_measured = (
        *_not_measured(base_commit, suites, code),
        *(NotMeasured(text=name, command=command) for name in coverage.unselected),
    )
    notes += filter(None, (edit.note for edit in not_measured))
    if accept_judge_change and (refusals or bars):
        notes.append(f"the change of judges was accepted: {accept_judge_change}")
    elif accept_judge_change:
        notes.append("no judge changed, so there was nothing to accept")
    return Comparison(
        base_commit=base_commit,
        suites=suites,
        notes=tuple(notes),
        refusals=tuple(dict.fromkeys(refused)),
        unmeasured=unmeasured,
        locks=check_locks(base_commit),
        judge_change_accepted=accept_judge_change if refusals or bars else "",
        moved_bars=tuple(map(str, bars)),
        caveats=(
            *_caveats(base_commit, suites, bars, code, prompt_changed=prompt_changed),
            *(f"{name} edited" for name in dict.fromkeys(name for name, _ in records)),
        ),
        not_measured=not_measured,
    )


def decide(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    on_progress: Callable[[GateProgress], None],
    copies_per_case: int = 1,
    more_trials: int = 0,
    change: GatedChange | None = None,
) -> GateResult:
    """Run the trials and decide; a refused or rejected change gets none.

    Args:
        session: Runs and records the trials.
        comparison: The comparison.
        policy: Acceptance policy.
        on_progress: Called every second during calls.
        copies_per_case: Trials of each case that evals without trials reuse.
        more_trials: Further trials of each suspect, for an undecided comparison. An accepted or
            rejected one keeps its decision.
        change: Pull request or branch whose earlier decisions are counted.
    """
    compared_cases = collect_compared_cases(comparison.suites)
    run_cases = compared_cases
    if comparison.refusals:
        run_cases = []
    elif comparison.errors or any(
        # A case was removed without an entry in the changelog.
        compared_case.case.state == "removed" and not compared_case.case.accepted
        for compared_case in compared_cases
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
    try:
        outcome = run.decide()
        outcomes = run.first_outcomes()
        audit = None if session.options.record == "none" else _audit_candidates(session, run)
    finally:
        comparison.base_commit.checkout.remove()
    unavailable = _unavailable_bases(run)
    notes += [f"the base of {name}: {reason}" for name, reason in unavailable.items()]
    notes += session.progress.notes
    for caveat, note in _edited_case_notes(comparison, outcome):
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
            suite.name: report
            for suite in comparison.suites
            if (report := anchor_report(suite, outcomes)) is not None
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


def _nothing_selected(base_commit: BaseCommit) -> Diagnostic:
    directory = base_commit.project.root / "evals"
    message, fix = "no case of any eval was selected", ""
    if any(base_commit.evals.values()) and not any(directory.rglob("*.py")):
        message = "the change deletes the last eval, so the gate has nothing to compare"
        fix = "put an eval back, or merge after a review, and take the gate out of the workflow"
    place = base_commit.project.relative(directory)
    return Diagnostic(path=place, line=None, message=message, fix=fix)


def draw_part(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    on_progress: Callable[[GateProgress], None],
) -> GateRun:
    """Run a shard's trials of the first round, on both sides, without a decision.

    The control trials of a whole comparison are left to the run that decides.

    Args:
        session: Runs and records the trials.
        comparison: The comparison; a refused one gets no trials.
        policy: Acceptance policy.
        on_progress: Called every second during calls.
    """
    compared_cases = [] if comparison.refusals else collect_compared_cases(comparison.suites)
    elsewhere: dict[str, int] = {}
    for suite in comparison.suites:
        changed = sum(case.state == "changed" for case in suite.cases)
        dataset = suite.candidate.dataset
        elsewhere[suite.name] = round(changed * dataset.excluded / max(1, len(dataset)))
    policy = replace(
        policy,
        provisional=session.options.record == "none",
        suite=replace(policy.suite, control=0),
    )
    run = GateRun(
        compared_cases, policy, session=session, on_progress=on_progress, elsewhere=elsewhere
    )
    try:
        run.draw_first_round()
    finally:
        comparison.base_commit.checkout.remove()
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
            name = compared_case.candidate.suite.prompt.name
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
    for suite in comparison.suites:
        if (baseline := suite.baseline) is None:
            continue
        names = [
            case.id
            for case in suite.candidate.dataset
            if (base_trials := baseline.cases.get(case.id)) is not None
            and base_trials.digest != case.digest[: len(base_trials.digest)]
            and not base_trials.total.failed
            and (count := today.get((suite.name, case.id))) is not None
            and count.failed > count.passed
        ]
        if names:
            fail = "edited case fails" if len(names) == 1 else "edited cases fail"
            note = (
                f"{len(names)} {fail} on the base, which passed before the edit, so nothing shows"
                f" whether the prompt broke them: {', '.join(names)}"
            )
            yield f"{len(names)} {fail} on the base since the edit", note


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


def _bars(
    base_commit: BaseCommit, suites: Sequence[SuiteBase], project: Project, *, prompt_changed: bool
) -> Iterator[MovedBar]:
    """The bars that a change lowers: today's if it changes a prompt, else those of its base."""
    changed = [suite for suite in suites if suite.prompt_changed]
    bar = base_commit.newest if changed else base_commit
    yield from moved_settings(bar.settings, project.settings)
    for suite in suites:
        yield from suite.bars
    yield from moved_files(bar, project.labels_dir, new_stems={})
    if prompt_changed:
        # The gate reads baselines at the tip; an older one is no lower bar.
        evals = [suite.candidate for suite in suites]
        new_stems = {base_commit.eval_name(suite): suite.prompt.name for suite in evals}
        directory = project.fixtures_dir / "baselines"
        yield from moved_files(base_commit, directory, new_stems=new_stems)
    yield from moved_judging(
        bar,
        [
            (suite.candidate, suite.baseline is not None and bar is base_commit)
            for suite in suites
            if not suite.refusals
        ],
    )


def _caveats(
    base_commit: BaseCommit,
    suites: Sequence[SuiteBase],
    bars: Sequence[MovedBar],
    code: Sequence[str],
    *,
    prompt_changed: bool,
) -> Iterator[str]:
    """Notes for the reader of an accepted change."""
    if bars:
        yield f"{plural(len(bars), 'lowered bar')} let through"
    datasets = {suite.candidate.dataset.name for suite in suites}
    deleted_datasets = {Path(name).name.split(".")[0] for name in base_commit.deleted_datasets()}
    if deleted := sorted((deleted_datasets - datasets).union(base_commit.deleted_prompts())):
        yield f"{', '.join(deleted)} removed"
    if new_prompts := [suite.name for suite in suites if suite.base is None]:
        yield f"{', '.join(new_prompts)} new"
    if removed := sum(case.state == "removed" for suite in suites for case in suite.cases):
        yield f"{plural(removed, 'case')} removed"
    if base_commit.uncommitted:
        yield f"uncommitted {shorten_list(sorted(base_commit.uncommitted), _NAMES_MAX)}"
    if prompt_changed:
        yield from _caveats_of_prompts(base_commit, suites)
        yield from caveats_of_targets(base_commit, suites)
    if deleted_evals := _deleted_evals(base_commit, code):
        yield f"{shorten_list(deleted_evals, _NAMES_MAX)} deleted"
        code = [name for name in code if name not in deleted_evals]
    if not _has_trials(suites):
        code = [name for name in code if is_set_up(base_commit, name)]
    if code:
        yield f"code or data of the gate edited ({shorten_list(code, _NAMES_MAX)})"


def _deleted_evals(base_commit: BaseCommit, code: Sequence[str]) -> list[str]:
    """The changed files of code that had evals on the base and are gone."""
    top, renamed = base_commit.repository.top, {*base_commit.renamed.values()}
    return [
        name
        for name in code
        if base_commit.evals.get(name) and name not in renamed and not (top / name).exists()
    ]


def _has_trials(suites: Sequence[SuiteBase]) -> bool:
    """Return whether any case runs, and its judges with it."""
    return any(case.state in {"changed", "new"} for suite in suites for case in suite.cases)


def _not_measured(
    base_commit: BaseCommit,
    suites: Sequence[SuiteBase],
    code: Sequence[str],
) -> Iterator[NotMeasured]:
    """The edits that run no trial, and the commands that measure them."""
    yield from undeclared_changes(base_commit, suites)
    edited = sum(len(suite.edited) for suite in suites if not suite.prompt_changed)
    if edited:
        yield NotMeasured(text=f"{plural(edited, 'edited case')}", command="pytest evals")
    deleted = _deleted_evals(base_commit, code)
    judging = [
        name
        for name in code
        if name not in deleted
        and not is_set_up(base_commit, name)
        and not is_reformatted(base_commit, name)
    ]
    if judging and not _has_trials(suites):
        text = f"edited code or data of evals ({shorten_list(judging, _NAMES_MAX)})"
        yield NotMeasured(text=text, command="pytest evals")


def _caveats_of_prompts(base_commit: BaseCommit, suites: Sequence[SuiteBase]) -> Iterator[str]:
    changed = [suite for suite in suites if suite.prompt_changed]
    if edited := sum(len(suite.edited) for suite in changed):
        yield f"{plural(edited, 'case')} edited"
    if newer := sum(len(suite.newer) for suite in changed):
        yield f"{plural(newer, 'newer case')} of {base_commit.ref} not compared"
    if prompts := [suite.name for suite in changed if suite.other_judges]:
        yield f"judges differ from the baseline of {', '.join(prompts)}"
    # Judges read redacted completions.
    if base_commit.project.settings.redact != base_commit.settings.redact:
        yield "redact in [tool.regauge] edited"


def _notes(base_commit: BaseCommit, suites: Sequence[SuiteBase]) -> Iterator[str]:
    if base_commit.uncommitted:
        yield "files differ from what is committed; they were compared as they are"
    for name in (*base_commit.deleted_prompts(), *base_commit.deleted_datasets()):
        yield f"{name} is gone: {base_commit.ref} has it"
    for suite in suites:
        yield from suite.notes
        if suite.partial:
            yield (
                f"only {len(suite.planned_cases)} of {len(suite.candidate.dataset)} cases of"
                f" {suite.name} were selected; the rest is not compared"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """The estimate of a gate run; its length depends on the first trials.

    Attributes:
        cases: Number of compared cases, without unchanged ones.
        recorded: Recorded trials of the first round; their verdicts count as recorded, too.
        first: The first round.
        likely: All rounds on average if nothing got worse; None if the base has no baseline.
        worst: Upper limit: every case up to the cap, and both sides paired.
        rejected: Reasons that reject the change without any trial.
    """

    cases: int
    recorded: int
    first: Bill
    likely: Bill | None
    worst: Bill
    rejected: tuple[str, ...] = ()


def estimate(session: EvalSession, comparison: Comparison, policy: GatePolicy) -> GateEstimate:
    """Estimate the first round, its recorded part and possible further rounds.

    Raises:
        RegaugeError: Recordings cannot be read, or a request cannot be built.
    """
    compared_cases = collect_compared_cases(comparison.suites)
    draws = list(_first_round(compared_cases, policy, StoredNumbers(session)))
    missing = [draw for draw in draws if not session.completions.has(draw.planned_case, draw.key)]
    first = replace(bill_trials(missing, session), trials=len(draws))
    first_keys = {
        (draw.planned_case.suite.prompt.name, draw.planned_case.case.id) for draw in draws
    }
    changed = [
        compared_case
        for compared_case in compared_cases
        if compared_case.case.state == "changed" and _name_candidate(compared_case) in first_keys
    ]
    keys = {_name_candidate(compared_case) for compared_case in changed}
    first_trials = sum(
        (draw.planned_case.suite.prompt.name, draw.planned_case.case.id) in keys for draw in draws
    )
    return GateEstimate(
        cases=len(first_keys),
        recorded=len(draws) - len(missing),
        first=first,
        likely=_estimate_likely(changed, first, first_trials, policy, session),
        worst=sum(_estimate_worst(changed, policy, session), first),
        rejected=tuple(str(diagnostic) for diagnostic in comparison.errors),
    )


def _estimate_likely(
    changed: Sequence[CaseComparison],
    first: Bill,
    first_trials: int,
    policy: GatePolicy,
    session: EvalSession,
) -> Bill | None:
    """All rounds if nothing got worse, on average over pass rates that fit the baseline.

    Args:
        first_trials: Trials of the changed cases in the first round.
    """
    if not changed:
        return first
    recorded = [
        compared_case for compared_case in changed if compared_case.case.baseline is not None
    ]
    calls = unchanged_calls(
        [
            compared_case.case.baseline.total
            for compared_case in recorded
            if compared_case.case.baseline is not None
        ],
        policy,
        checks=sum(len(compared_case.case.checks) for compared_case in recorded),
        prompts=[compared_case.case.prompt for compared_case in recorded],
    )
    if calls is None:
        return None
    further = max(0.0, calls - first_trials / len(changed))
    return first + bill_trials(_follow_up_draws(changed), session).times(further)


def _estimate_worst(
    changed: Sequence[CaseComparison], policy: GatePolicy, session: EvalSession
) -> Iterator[Bill]:
    """The most trials that may follow the first round, by prompt and tier."""
    caps: Mapping[str, int] = {
        "critical": policy.critical.first + policy.critical.extra,
        "required": policy.case.cap,
        "tracked": 0,
    }
    prompts: dict[str, list[CaseComparison]] = {}
    for compared_case in changed:
        prompts.setdefault(compared_case.case.prompt, []).append(compared_case)
    for cases in prompts.values():
        first = policy.first_trials_of(len(cases))
        size = {"cases": len(cases), "first_trials": first}
        suite, net = policy.suite, policy.net
        pairs = [suite.pairs_of_look(number, **size) for number in range(len(suite.levels))]
        net_pairs = [net.pairs_of_look(number, **size) for number in range(len(net.all_levels))]
        screens = (suite.rounds - 1) * suite.extra_round(first)
        of_suite = max(screens + 2 * sum(pairs), 2 * sum(net_pairs))
        for tier, cap in caps.items():
            draws = _follow_up_draws([case for case in cases if case.case.tier == tier])
            of_case = 2 * cap if tier == "required" else cap
            yield bill_trials(draws, session).times(of_case + of_suite)


def _follow_up_draws(cases: Sequence[CaseComparison]) -> list[PlannedTrial]:
    return [
        PlannedTrial(compared_case.follow_up, 0)
        for compared_case in cases
        if compared_case.follow_up is not None
    ]


def _name_candidate(compared_case: CaseComparison) -> tuple[str, str]:
    planned_case = compared_case.candidate
    return (
        (planned_case.suite.prompt.name, planned_case.case.id)
        if planned_case is not None
        else ("", "")
    )


def _first_round(
    compared_cases: Sequence[CaseComparison], policy: GatePolicy, numbers: StoredNumbers
) -> Iterator[PlannedTrial]:
    by_key = {compared_case.case.key: compared_case for compared_case in compared_cases}
    for request in Gate(
        [compared_case.case for compared_case in compared_cases], policy
    ).pending_trials():
        case = by_key[request.prompt, request.case]
        planned_case = case.candidate if request.side == "candidate" else case.base
        if planned_case is None or planned_case.error is not None:
            continue
        for number in request.trials:
            planned_case.plan()
            of_base = request.side == "base"
            yield PlannedTrial(
                planned_case,
                stored_number("base", number)
                if of_base
                else numbers.of_candidate(planned_case, number),
            )
