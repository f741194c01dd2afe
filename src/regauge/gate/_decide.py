"""Gates the planned cases of a session: base version, comparison, decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.errors import Fault
from regauge.gate._anchor_report import anchor_report
from regauge.gate._audit import audit_fresh, recorded_outcomes, today_is_worse
from regauge.gate._decided import Decided, SuiteBase, compared_cases, suite_names
from regauge.gate._decision_log import (
    DecisionLog,
    LoggedDecision,
    candidate_of,
    key_of_comparison,
)
from regauge.gate._policy import with_more_trials
from regauge.gate._run import GateRun, is_base_unavailable
from regauge.gate.base import (
    check_locks,
    compare_with_base,
    coverage_of,
    edited_code,
    edited_notes,
    find_base,
    moved_files,
    moved_judging,
    moved_settings,
    refusal_of_bars,
    refusal_of_trials,
)
from regauge.recordings import replacements_in
from regauge.runner import Draw, calls_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.gate._audit import AuditReport
    from regauge.gate._decided import Compared
    from regauge.gate._decision_log import Change
    from regauge.gate._outcome import GateOutcome
    from regauge.gate._policy import GatePolicy
    from regauge.gate._run import GateProgress
    from regauge.gate.base import BaseCommit, MovedBar, Refusal, RuleBreach
    from regauge.gate.baselines import Baseline
    from regauge.project import Project
    from regauge.runner import EvalSession, PlannedCase

__all__ = ["Comparison", "compare", "decide", "draw_part"]

_LOG = "gate/decisions.jsonl"
_NAMES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """The comparison that a gate will run.

    Attributes:
        at: The base version.
        suites: All suites, changed or not.
        notes: What a reader should know.
        refusals: Why nothing is compared; empty where the change is compared.
        unmeasured: What the run leaves out and the user did not select so; then it is not accepted.
        locks: What `prompts.lock` lost against the base version; each rejects the change.
        judge_change_accepted: Why main may have been judged otherwise, where it was; empty else.
        moved_bars: Parts of the bar that the change lowers; the base's decide.
        caveats: What else the change edits that an accepted prompt was measured by.
    """

    at: BaseCommit
    suites: Sequence[SuiteBase]
    notes: Sequence[str]
    refusals: Sequence[Refusal] = ()
    unmeasured: Sequence[Fault] = ()
    locks: Sequence[RuleBreach] = ()
    judge_change_accepted: str = ""
    moved_bars: Sequence[str] = ()
    caveats: Sequence[str] = ()

    @property
    def errors(self) -> list[Fault]:
        """Broken rules of versions and changelogs: they reject the change whatever trials show."""
        found = [fault for suite in self.suites for fault in suite.base.faults]
        breaches = [breach for suite in self.suites for breach in suite.base.breaches]
        found += [breach.fault for breach in (*breaches, *self.locks)]
        return list(dict.fromkeys(found))


def compare(
    session: EvalSession,
    ref: str,
    *,
    baseline: Baseline | None = None,
    accept_judge_change: str = "",
    owed: Sequence[Fault] = (),
    narrowed: bool = False,
) -> Comparison:
    """Work out what of the planned cases changed since the base version.

    Args:
        session: Once it is planned.
        ref: A branch, tag or commit.
        baseline: Taken instead of the one that is committed, for its prompt.
        accept_judge_change: Why judges may change where no prompt does, or the bar may be lowered.
        owed: What the run leaves out without a word of the user.
        narrowed: Whether the user selected some of the evals.

    Raises:
        GitError: There is no base version.
        RegaugeError: A file of either version cannot be read.
    """
    by_suite: dict[int, list[PlannedCase]] = {}
    for planned in session.plan.cases:
        by_suite.setdefault(id(planned.suite), []).append(planned)
    at = find_base(session.project, ref)
    session.embeddings.trust(at.read)
    groups = list(by_suite.values())
    suites = [
        SuiteBase(
            name=name,
            planned=group,
            base=compare_with_base(
                group[0].suite,
                at,
                across_models=bool(session.options.models),
                baseline=baseline
                if baseline is not None and baseline.prompt == group[0].suite.prompt.name
                else None,
            ),
        )
        for name, group in zip(
            suite_names([group[0].suite for group in groups]), groups, strict=True
        )
    ]
    prompt_changed = any(case.state == "changed" for suite in suites for case in suite.base.cases)
    noted = bool(accept_judge_change) or at.newest.settings.gate.on_judge_change == "note"
    refusals = [refusal for suite in suites for refusal in suite.base.refusals]
    refused = [refusal for refusal in refusals if refusal.prompt_changed or not noted]
    if (trials := refusal_of_trials(at)) is not None:
        refused.append(trials)
    bars = list(_bars(at, suites, session.project, prompt_changed=prompt_changed))
    if bars and not accept_judge_change and (prompt_changed or not noted):
        refused.append(refusal_of_bars(bars, at))
    coverage = coverage_of(at, [suite.suite for suite in suites], owed=owed, narrowed=narrowed)
    unmeasured = [*owed, *coverage.unmeasured]
    if not suites and not unmeasured:
        evals = session.project.relative(session.project.root / "evals")
        unmeasured = [Fault(path=evals, line=None, message="no case of any eval was selected")]
    notes = [*_notes(at, suites), *coverage.notes]
    if not refused:  # a refusal lists these
        notes += [refusal.note for refusal in refusals]
        notes += [f"this change lowers its own bar: {bar}" for bar in bars]
    notes += edited_notes(at, [suite.suite for suite in suites], prompt_changed=prompt_changed)
    if accept_judge_change and (refusals or bars):
        notes.append(f"the change of judges was accepted: {accept_judge_change}")
    elif accept_judge_change:
        notes.append("no judge was found to have changed, so there was nothing of it to accept")
    return Comparison(
        at=at,
        suites=suites,
        notes=tuple(notes),
        refusals=tuple(dict.fromkeys(refused)),
        unmeasured=unmeasured,
        locks=check_locks(at),
        judge_change_accepted=accept_judge_change if refusals or bars else "",
        moved_bars=tuple(map(str, bars)),
        caveats=tuple(_caveats(at, suites, bars, prompt_changed=prompt_changed)),
    )


def decide(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    waiting: Callable[[GateProgress], None],
    copied: int = 1,
    more: int = 0,
    change: Change | None = None,
) -> Decided:
    """Make the trials it takes, and decide; a refused or rejected change gets none.

    Args:
        session: Finds recorded answers, asks models and keeps what they say.
        comparison: What is compared.
        policy: What the change is held to.
        waiting: Called every second while models answer.
        copied: How many trials of each case are kept as trials of the evals, too, where these
            have none.
        more: Further trials of each suspect, for a comparison that was undecided. An accepted or
            rejected one stays what it is.
        change: The pull request or branch; its earlier decisions are counted.
    """
    compared = compared_cases(comparison.suites)
    run_cases = compared
    if comparison.refusals:
        run_cases = []
    elif comparison.errors or any(_removed(one) for one in compared):
        run_cases = [one for one in compared if one.case.state in {"unchanged", "removed"}]
    log = DecisionLog(session.project.state_dir / _LOG)
    key = key_of_comparison(compared, policy, endpoint_of=session.answers.endpoint)
    candidate = candidate_of(compared)
    notes = [*comparison.notes, *_replaced_notes(session, compared)]
    known = log.find(key)
    steps = [*(known.more if known is not None else ())]
    if more and known is not None and known.final:
        notes.append(f"decided before ({known.decision}), so --more-trials was not used")
    elif more:
        steps.append(more)
    for step in steps:
        policy = with_more_trials(policy, step)
    policy = replace(policy, provisional=session.options.record == "none")
    run = GateRun(run_cases, policy, session=session, waiting=waiting, copied=copied)
    try:
        outcome = run.decide()
        outcomes = run.first_outcomes()
        audit = None if session.options.record == "none" else _audited(session, run)
    finally:
        comparison.at.checkout.remove()
    unavailable = _unavailable_bases(run)
    notes += [f"the base of {name}: {why}" for name, why in unavailable.items()]
    notes += session.progress.notes
    notes += _spoilt_notes(comparison, outcome)
    rejected_before = log.rejected_before(change, candidate) if change is not None else 0
    if change is not None and rejected_before:
        were = "was" if rejected_before == 1 else "were"
        versions = plural(rejected_before, "version")
        notes.append(f"{versions} of this {change.noun} {were} rejected before")
    decided = Decided(
        at=comparison.at,
        suites=comparison.suites,
        compared=run.compared,
        outcome=outcome,
        trials=run.trials,
        audit=audit,
        anchors={
            suite.name: report
            for suite in comparison.suites
            if (report := anchor_report(suite, outcomes)) is not None
        },
        not_run=len(compared) - len(run_cases),
        refusals=comparison.refusals,
        locks=comparison.locks,
        unmeasured=comparison.unmeasured,
        judge_change_accepted=comparison.judge_change_accepted,
        moved_bars=comparison.moved_bars,
        caveats=comparison.caveats,
        base_unavailable=unavailable,
        rejected_before=rejected_before,
        notes=notes,
    )
    keeps = session.options.record != "none" and not decided.not_run
    if keeps and decided.decision not in {"unmeasured", "refused"}:
        log.add(
            LoggedDecision(
                key=key,
                change=str(change or ""),
                candidate=candidate,
                decision=decided.decision,
                more=tuple(steps),
            )
        )
    return decided


def draw_part(
    session: EvalSession,
    comparison: Comparison,
    policy: GatePolicy,
    *,
    waiting: Callable[[GateProgress], None],
) -> GateRun:
    """Run a shard's part of the first wave, in both arms; nothing is decided.

    Main's control of a whole comparison is left to the run that decides.

    Args:
        session: Finds recorded answers, asks models and keeps what they say.
        comparison: What is compared; a refused one gets no trial.
        policy: What the change is held to.
        waiting: Called every second while models answer.
    """
    compared = [] if comparison.refusals else compared_cases(comparison.suites)
    elsewhere: dict[str, int] = {}
    for suite in comparison.suites:
        changed = sum(case.state == "changed" for case in suite.base.cases)
        dataset = suite.suite.dataset
        elsewhere[suite.name] = round(changed * dataset.left_out / max(1, len(dataset)))
    policy = replace(
        policy,
        provisional=session.options.record == "none",
        suite=replace(policy.suite, control=0),
    )
    run = GateRun(compared, policy, session=session, waiting=waiting, elsewhere=elsewhere)
    try:
        run.draw_first_wave()
    finally:
        comparison.at.checkout.remove()
    return run


def _unavailable_bases(run: GateRun) -> dict[str, str]:
    """By prompt, why the target of its base cannot be called: what, and the last line."""
    found: dict[str, str] = {}
    for (prompt, _, arm), trials in run.trials.items():
        for trial in trials if arm == "main" else ():
            if is_base_unavailable(trial.error):
                first, *others = str(trial.error).partition("\n  fix: ")[0].splitlines()
                found[prompt] = " ".join([first, *others[-1:]])
    return found


def _audited(session: EvalSession, run: GateRun) -> AuditReport | None:
    """Compare the candidate's committed completions with its first trials; no further call.

    Only where they disagree main is run again: it may be below its own record today.
    """
    candidates = [
        (one.case.prompt, one.candidate, one.case.checks)
        for one in run.compared
        if one.candidate is not None and run.trials.get((*one.case.key, "candidate"))
    ]
    if not candidates:
        return None
    reader = session.reading()
    try:
        recorded = recorded_outcomes(reader, candidates, numbers=run.gate.first_draws)
    finally:
        reader.close()
    report = audit_fresh(recorded, run.first_outcomes())
    if report is None or report.result == "agree":
        return report
    counts = run.base_today()
    worse = today_is_worse([before for before, _ in counts], [today for _, today in counts])
    return replace(report, result="base-worse") if worse else report


def _replaced_notes(session: EvalSession, compared: Sequence[Compared]) -> Iterator[str]:
    """Notes on candidates of which only some committed completions were recorded again."""
    digests: dict[str, set[str]] = {}
    for one in compared:
        if one.candidate is not None and one.case.state != "unchanged":
            name = one.candidate.suite.prompt.name
            digests.setdefault(name, set()).add(one.candidate.digest)
            if one.candidate.converses:
                _, made = calls_of(Draw(one.candidate, 0), session.answers.find_call)
                digests[name] |= {question.key.digest for question in made}
    for name, of_prompt in digests.items():
        for found in replacements_in(session.answers.file(name), digests=of_prompt):
            yield f"recordings of {name}: {found}"


def _spoilt_notes(comparison: Comparison, outcome: GateOutcome) -> Iterator[str]:
    """Notes on edited cases that the base fails, though it passed them before the edit."""
    today = {(case.prompt, case.case): case.before + case.today for case in outcome.cases}
    for suite in comparison.suites:
        if (history := suite.base.history) is None:
            continue
        names = [
            case.id
            for case in suite.suite.dataset
            if (kept := history.cases.get(case.id)) is not None
            and kept.digest != case.digest[: len(kept.digest)]
            and not kept.whole.failed
            and (count := today.get((suite.name, case.id))) is not None
            and count.failed > count.passed
        ]
        if names:
            fail = "edited case fails" if len(names) == 1 else "edited cases fail"
            yield (
                f"{len(names)} {fail} on the base, which passed before the edit, so nothing shows"
                f" whether the prompt broke them: {', '.join(names)}"
            )


def _bars(
    at: BaseCommit, suites: Sequence[SuiteBase], project: Project, *, prompt_changed: bool
) -> Iterator[MovedBar]:
    """The bars that a change lowers: today's if it changes a prompt, else those of its base."""
    changed = [suite for suite in suites if suite.base.prompt_changed]
    bar = at.newest if changed else at
    yield from moved_settings(bar.settings, project.settings)
    for one in suites:
        yield from one.base.bars
    yield from moved_files(bar, project.labels_dir)
    if prompt_changed:
        # The gate reads baselines of today already; an older one is no lower bar.
        yield from moved_files(at, project.fixtures_dir / "baselines")
    yield from moved_judging(
        bar,
        [
            (one.suite, one.base.history is not None and bar is at)
            for one in changed
            if not one.base.refusals
        ],
    )


def _caveats(
    at: BaseCommit,
    suites: Sequence[SuiteBase],
    bars: Sequence[MovedBar],
    *,
    prompt_changed: bool,
) -> Iterator[str]:
    """Notes for the reader of an accepted change."""
    if bars:
        yield f"{plural(len(bars), 'lowered bar')} let through"
    if gone := at.deleted_prompts():
        yield f"{', '.join(gone)} removed"
    if added := [suite.name for suite in suites if suite.base.suite is None]:
        yield f"{', '.join(added)} new"
    if removed := sum(case.state == "removed" for suite in suites for case in suite.base.cases):
        yield f"{plural(removed, 'case')} removed"
    if at.uncommitted:
        yield f"uncommitted {_few(sorted(at.uncommitted))}"
    if prompt_changed:
        yield from _caveats_of_prompts(at, suites)


def _caveats_of_prompts(at: BaseCommit, suites: Sequence[SuiteBase]) -> Iterator[str]:
    changed = [suite for suite in suites if suite.base.prompt_changed]
    if edited := sum(len(one.base.edited) for one in changed):
        yield f"{plural(edited, 'case')} edited"
    if newer := sum(len(one.base.newer) for one in changed):
        yield f"{plural(newer, 'newer case')} of {at.ref} not compared"
    if judged := [one.name for one in changed if one.base.other_judges]:
        yield f"judges differ from the baseline of {', '.join(judged)}"
    # Judges read completions without what is redacted.
    if at.project.settings.redact != at.settings.redact:
        yield "redact in [tool.regauge] edited"
    if code := edited_code(at, [suite.suite for suite in suites]):
        yield f"code of the gate edited ({_few(code)})"


def _few(names: Sequence[str]) -> str:
    """The first of many names."""
    return ", ".join(names[:_NAMES_MAX]) + (", ..." if names[_NAMES_MAX:] else "")


def _removed(one: Compared) -> bool:
    """Return whether a case of main is gone, and the changelog does not accept that."""
    return one.case.state == "removed" and not one.case.accepted


def _notes(at: BaseCommit, suites: Sequence[SuiteBase]) -> Iterator[str]:
    if at.dirty:
        yield "files differ from what is committed; they were compared as they are"
    for name in (*at.deleted_prompts(), *at.deleted_datasets()):
        yield f"{name} is gone: {at.ref} has it"
    for suite in suites:
        yield from suite.base.notes
        if suite.partial:
            yield (
                f"only {len(suite.planned)} of {len(suite.suite.dataset)} cases of {suite.name}"
                " were selected; nothing is said of the rest"
            )
