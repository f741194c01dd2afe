"""Run `regauge baseline update`: fresh trials of the base, their comparison, new baselines."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.errors import RegaugeError
from regauge.gate import (
    EvalTrials,
    Recheck,
    RecheckEval,
    TopUp,
    TopUpEval,
    accepted_since,
    add_session,
    audit_by_steps,
    audit_fresh,
    bill_trials,
    changes_between,
    draws_of,
    fresh_counts,
    merge_baselines,
    policy_of,
    recorded_outcomes,
    run_baseline_trials,
    stored_number,
    today_is_worse,
    top_up,
)
from regauge.gate.baselines import Baseline, baseline_of, key_of, save_baseline
from regauge.maintenance.anchors import AnchorUpdate
from regauge.maintenance.baseline_views import trials_each
from regauge.maintenance.batches import ProjectBatches
from regauge.maintenance.collection import left_out_errors
from regauge.prompts import Repository, load_prompt, read_prompt_text
from regauge.reports import in_batch, money, progress_line, quantity
from regauge.runner import PlannedCase, PlannedTrial
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from regauge.gate import AuditReport, CheckChange, Drift, TopUpPolicy
    from regauge.gate.baselines import StoredBaseline
    from regauge.maintenance.batches import BatchOptions
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.runner import Eval, EvalSession


# About as many ids as fit in a line of a terminal.
_NAMED_MAX = 5


@dataclass(slots=True, kw_only=True, eq=False)
class EvalUpdate:
    """One eval, its trials in this session, and their result.

    Attributes:
        request: The trials of this session.
        session_trials: The finished trials for the baseline.
        rechecked: Fresh trials to compare with a complete baseline; None without any.
        drift: That comparison.
        audit: Committed completions compared with fresh trials; None without any.
        audit_digest: The digest of the audited recordings.
        anchor: The comparison with an old version; None without one.
        baseline: The baseline, with this session's trials once they are saved.
        missing_text: The sessions that the baseline still needs; empty if it is complete.
        written_file: The file of the baseline; empty if it did not change.
        changes: The checks whose pass rate certainly changed since the previous version.
        accepted: Cases whose losses the changelog accepts.
    """

    eval: Eval
    request: TopUpEval
    anchor: AnchorUpdate | None = None
    session_trials: EvalTrials = field(default_factory=EvalTrials)
    rechecked: EvalTrials | None = None
    drift: Drift | None = None
    audit: AuditReport | None = None
    audit_digest: str = ""
    baseline: StoredBaseline = field(init=False)
    missing_text: str = ""
    written_file: str = ""
    changes: tuple[CheckChange, ...] = ()
    accepted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.baseline = self.top_up.baseline

    @property
    def top_up(self) -> TopUp:
        """The trials of this session."""
        return self.request.top_up

    @property
    def prompt(self) -> str:
        """The name of the prompt."""
        return self.eval.prompt.name

    @property
    def worse(self) -> bool:
        """Return whether base is worse than its baseline, the previous version or the anchor."""
        return bool(
            (self.drift is not None and self.drift.worse)
            or (self.anchor is not None and self.anchor.has_loss)
            or (self.audit is not None and self.audit.result == "better")
            or any(change.direction == "worse" for change in self.changes)
        )

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        key = self.baseline.key
        return {
            "prompt": self.prompt,
            "version": self.baseline.version,
            "prompt_digest": key.prompt,
            "model": key.model,
            "dataset": key.dataset,
            "trials": self._trial_count,
            "unmeasured": sum(trials.unmeasured.total() for trials in self._all_trials()),
            "complete": not self.missing_text,
            "waits_h": self.top_up.waits_h,
            "sessions": len(self.baseline.sessions),
            "file": self.written_file,
            "changes": [_change(change) for change in self.changes],
            "drift": _drift(self.drift) if self.drift is not None else None,
            "audit": {**asdict(self.audit), "message": self.audit.message} if self.audit else None,
            "anchor": self.anchor.to_json() if self.anchor is not None else None,
            "anchor_lost": self.anchor is not None and self.anchor.has_loss,
        }

    def lines(self, before: StoredBaseline | None) -> Iterator[str]:
        """Lines for the user.

        Args:
            before: The baseline of the previous version; None without a comparison.
        """
        if self.drift is not None:
            yield from _drift_lines(self.prompt, self.drift)
        if self.audit is not None and self.audit.result != "agree":
            yield f"{self.prompt}: {self.audit.message}"
            if self.audit.result == "better":
                yield f"  fix: {self.audit.fix}"
        if self._trial_count:
            state = f"not complete yet: {self.missing_text}" if self.missing_text else "complete"
            yield f"{self.prompt}: {summary(self.baseline)}, {state}"
        if before is not None:
            yield f"  compared with {before.version or before.key.prompt[:12]}:"
            yield from (f"  {change}" for change in self.changes)
            if not self.changes:
                yield "  no case's pass rate certainly changed"
            if self.accepted:
                yield f"  losses accepted in the changelog: {', '.join(self.accepted)}"
        if self.anchor is not None:
            yield f"  {self.anchor.line()}"
        if self.written_file:
            yield f"  wrote {self.written_file}: commit it"

    def unmeasured(self) -> Iterator[str]:
        """Trials that do not count, with the reason."""
        for trials in self._all_trials():
            if not trials.unmeasured:
                continue
            for reason, count in trials.unmeasured.most_common(3):
                noun = plural(count, "trial does", "trials do")
                yield f"{self.prompt}: {noun} not count: {reason}"
            cases = sorted(trials.unmeasured_cases)
            ellipsis = ", ..." if len(cases) > _NAMED_MAX else ""
            yield f"  cases: {', '.join(cases[:_NAMED_MAX])}{ellipsis}"

    @property
    def _trial_count(self) -> int:
        return sum(len(trials) for trials in self.session_trials.facts.values())

    def _all_trials(self) -> list[EvalTrials]:
        anchor_trials = self.anchor.session_trials if self.anchor is not None else []
        fresh_trials = [self.rechecked] if self.rechecked is not None else []
        return [*fresh_trials, self.session_trials, *anchor_trials]


def summary(baseline: StoredBaseline) -> str:
    """The number of cases, trials and sessions of a baseline."""
    if not baseline.cases:
        return "no trials"
    sessions = plural(len(baseline.sessions), "session")
    return f"{plural(len(baseline.cases), 'case')} with {trials_each(baseline)} from {sessions}"


def _drift_lines(prompt: str, drift: Drift) -> Iterator[str]:
    yield f"{prompt}: fresh trials passed {drift.now}; {drift.before} when the baseline was made"
    for change in drift.changes:
        yield f"  {change}"
    suite = drift.suite
    if suite is not None and drift.suite_worse:
        yield (
            f"  all cases together pass less often: {plural(suite.fails, 'failure')} in"
            f" {drift.now.trials}, {suite.expected:.1f} expected,"
            f" p = {min([suite.p_value, *suite.scores.values()]):.2g}"
        )
    if drift.new_models:
        yield f"  completions come from {', '.join(drift.new_models)} now, as never before"
    yield "  a new baseline begins" if drift.stale else "  fresh trials agree with the baseline"


def _drift(drift: Drift) -> dict[str, Any]:
    suite = drift.suite
    return {
        "worse": drift.worse,
        "before": asdict(drift.before),
        "now": asdict(drift.now),
        "suite_worse": drift.suite_worse,
        "p_value": suite and suite.p_value,
        "bound": suite and suite.bound,
        "scores": dict(suite.scores) if suite is not None else {},
        "changes": [_change(change) for change in drift.changes],
        "new_models": drift.new_models,
    }


def _change(change: CheckChange) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if name != "since"}


@dataclass(slots=True, kw_only=True)
class PromptUpdate:
    """The evals of one prompt, and its baseline.

    Attributes:
        older: The baseline file under an old name, which the new file replaces; None without one.
    """

    baseline: Baseline
    older: Path | None = None
    evals: list[EvalUpdate] = field(default_factory=list[EvalUpdate])


# Recorded trials per case that an audit compares at most.
_AUDITED_NUMBERS = 24


def uncommitted_notes(project: Project, prompts: Iterable[Prompt]) -> Iterator[str]:
    """Notes on prompts that differ from the committed file, whose baseline no gate can use."""
    repository = Repository.find(project.root)
    if repository is None or not repository.has_commits():
        return
    # An eval may use a released version instead of the file.
    by_path = {
        prompt_used.path: prompt_used
        for prompt_used in prompts
        if read_prompt_text(prompt_used.path) == prompt_used.source
    }
    texts = repository.read_all(("HEAD", repository.inside(path)) for path in by_path)
    for prompt, data in zip(by_path.values(), texts, strict=True):
        if data is None or data.decode("utf-8", "replace") != prompt.source:
            yield f"note: {project.relative(prompt.path)} is not as committed; commit it first"


@dataclass(slots=True, kw_only=True, eq=False)
class BaselineUpdate:
    """One run of the command, with its results.

    Attributes:
        project: The project.
        policy: The plan for filling a baseline of this number of cases.
        recheck: Fresh trials per case to compare with a complete baseline; 0 for none.
        dry_run: Whether to stop after the estimate.
        print_line: Called with each line for the user.
        meter: A context that shows progress.
        batch: The batch options; None for live calls.
        is_partial: Whether only a part of the project's evals may be collected.
        pending: Calls under way in batches; with any, nothing is saved yet.
        unmeasured: Lines on trials that do not count.
    """

    project: Project
    policy: Callable[[int], TopUpPolicy]
    recheck: int
    dry_run: bool
    print_line: Callable[[str], None]
    meter: Callable[[Callable[[], str]], AbstractContextManager[object]]
    batch: BatchOptions | None
    is_partial: bool
    pending: list[str] = field(default_factory=list[str])
    unmeasured: list[str] = field(default_factory=list[str])
    _batches: dict[str, Any] | None = None
    _now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    _done: list[EvalUpdate] = field(default_factory=list[EvalUpdate])
    _estimates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _left_out: Sequence[PlannedCase] = ()

    @property
    def worse(self) -> bool:
        """Return whether the base of any eval is worse than before."""
        return any(done.worse for done in self._done)

    def to_json(self) -> dict[str, Any]:
        """The plan, the work done and the results, as a document."""
        return {
            "dry_run": self.dry_run,
            "planned": self._estimates,
            "done": [done.to_json() for done in self._done],
            **({} if self._batches is None else {"batches": self._batches}),
        }

    def run(self, evals: EvalSession) -> None:
        """Update the baselines of all collected evals.

        Raises:
            UsageError: An eval has no blocking judge.
            BaselineError: A baseline cannot be read or written.
        """
        self._left_out = evals.left_out
        self.is_partial |= bool(left_out_errors(evals))
        prompts = self._plan(evals)
        updates = [update for prompt in prompts for update in prompt.evals]
        for update in updates:
            self._estimate(evals, update)
        for note in uncommitted_notes(self.project, [update.eval.prompt for update in updates]):
            self.print_line(note)
        if self.dry_run:
            return
        try:
            with self.meter(lambda: progress_line(evals.progress, evals.budget)):
                if self.batch is not None:
                    self._take_batches(updates, evals, self.batch)
                else:
                    self._draw(updates, evals)
                    self._recheck(updates, evals)
                    if evals.options.record != "none":
                        self._audit(prompts, evals)
                    self._compare_with_anchors(updates, evals)
        finally:
            evals.close()
        if not self.pending:
            for prompt in prompts:
                self._save(prompt)

    def _take_batches(
        self, updates: list[EvalUpdate], evals: EvalSession, options: BatchOptions
    ) -> None:
        """Add trials from batches; a session is saved once all of its trials are measured.

        Recordings are audited with live trials only.
        """
        for update in updates:
            update.audit_digest = update.top_up.baseline.audit_digest
        batches = ProjectBatches(evals, options)
        with batches.open():
            self._draw(updates, evals)
            if not batches.has_open_calls:
                self._compare_with_anchors(updates, evals)
            troubles = batches.start()
            batches.tidy()
        for line in batches.warnings():
            self.print_line(line)
        self._batches = batches.to_json()
        self.pending = [*batches.sentences(), *troubles]
        if batches.has_open_calls and not self.pending:
            self.pending = ["the session is kept once all of its trials are measured"]

    def _draw(self, updates: list[EvalUpdate], evals: EvalSession) -> None:
        requests = [update.request for update in updates]
        anchors = [update.anchor for update in updates if update.anchor is not None]
        of_anchors = [(x, x.request) for x in anchors if x.request is not None]
        trials_by_eval = run_baseline_trials(
            [*requests, *(request for _, request in of_anchors)], session=evals
        )
        for update, trials in zip(updates, trials_by_eval, strict=False):
            update.session_trials = trials
        for (anchor, request), trials in zip(
            of_anchors, trials_by_eval[len(updates) :], strict=True
        ):
            anchor.add_trials(request, trials, now=self._now)

    def _compare_with_anchors(self, updates: list[EvalUpdate], evals: EvalSession) -> None:
        """Compare each version with its anchor; re-run both if the version seems worse."""
        for update in updates:
            if update.anchor is None:
                continue
            baseline, after = self._extend_baseline(update)
            update.anchor.compare(baseline, complete=after.complete)
            request = update.anchor.plan_rerun(self._now, self.policy(len(update.eval.dataset)))
            if request is not None:
                (trials,) = run_baseline_trials([request], session=evals)
                update.anchor.replace_trials(request, trials, baseline, now=self._now)

    def _recheck(self, updates: list[EvalUpdate], evals: EvalSession) -> None:
        """Compare complete baselines with fresh trials; restart those that no longer agree."""
        complete = [update for update in updates if self._needs_recheck(update)]
        if not complete:
            return
        policy = policy_of(self.project.settings.gate)
        rechecks = [
            RecheckEval(
                recheck=Recheck(
                    update.top_up.baseline,
                    {case.case.id: case.case.digest for case in update.request.cases},
                    policy,
                    prompt=update.prompt,
                    trials=self.recheck,
                    prompts=len(complete),
                ),
                checks=update.top_up.baseline.key.judges,
                cases=self._today(update.request.cases),
            )
            for update in complete
        ]
        recheck_results = run_baseline_trials(rechecks, session=evals)
        stale: list[EvalUpdate] = []
        for update, recheck, trials in zip(complete, rechecks, recheck_results, strict=True):
            update.rechecked, update.drift = trials, recheck.recheck.drift(models=trials.models)
            if update.drift.stale:
                baseline = Baseline(prompt=update.prompt, baselines=(update.top_up.baseline,))
                restarted = self._top_up(update.eval, baseline, restart=True)
                update.request = replace(update.request, top_up=restarted)
                stale.append(update)
        if stale:
            self._draw(stale, evals)

    def _audit(self, prompts: list[PromptUpdate], evals: EvalSession) -> None:
        """Compare committed completions with fresh trials, once per state of the recordings.

        The session's trials are reused; complete baselines need few further ones.
        """
        with closing(evals.replay_session()) as reader:
            for prompt in prompts:
                for eval_ in prompt.evals:
                    self._audit_eval(eval_, prompt.baseline, evals, reader)

    def _audit_eval(
        self, update: EvalUpdate, baseline: Baseline, evals: EvalSession, reader: EvalSession
    ) -> None:
        name, stored_baseline = update.prompt, update.top_up.baseline
        checks = sorted(stored_baseline.key.judges)
        cases = {case.case.id: case for case in update.request.cases}
        audited_cases = [(name, case, checks) for case in cases.values()]
        recorded = recorded_outcomes(reader, audited_cases, numbers=lambda _: _AUDITED_NUMBERS)
        state = digest_of([[x.case, x.series, x.number, x.recorded_at] for x in recorded])
        trials = update.session_trials if update.session_trials.facts else update.rechecked
        facts = trials.facts if trials is not None else {}
        if not recorded or stored_baseline.audit_digest == state:
            update.audit_digest = stored_baseline.audit_digest
            return
        if facts:
            fresh = {
                (name, case): [trials[number].passed for number in sorted(trials)]
                for case, trials in facts.items()
            }
            report = audit_fresh(recorded, fresh)
        elif update.top_up.complete:
            fresh_cases = {case.case.id: case for case in self._today(update.request.cases)}
            audit = audit_by_steps(evals, recorded, fresh_cases, checks, seed=self._commit())
            report = run_stoppable(audit)
        else:
            return
        update.audit_digest = state
        better = report is not None and report.result == "better"
        if report is not None and better and self._base_is_worse(update, baseline, evals):
            report = replace(report, result="base-worse")
        update.audit = report

    def _base_is_worse(self, update: EvalUpdate, baseline: Baseline, evals: EvalSession) -> bool:
        """Return whether base passes less today than in its baseline.

        A new version has no baseline; then the previous version is run again.
        """
        stored_baseline, eval_ = update.top_up.baseline, update.eval
        if not stored_baseline.cases:
            before = baseline.find_previous(stored_baseline.key)
            if before is None or not before.version:
                return False
            try:
                prompt = load_prompt(eval_.prompt.name, before.version, root=self.project.root)
            except RegaugeError:  # no commit holds it
                return False
            stored_baseline, eval_ = before, replace(eval_, prompt=prompt)
        measured_cases = {
            case.case.id: (PlannedCase(eval_, case.case), case_trials.total)
            for case in update.request.cases
            if (case_trials := stored_baseline.find_trials(case.case.id, case.case.digest))
            is not None
        }
        if not measured_cases:
            return False
        today = fresh_counts(
            evals,
            self._today(case for case, _ in measured_cases.values()),
            sorted(stored_baseline.key.judges),
            nth=_AUDITED_NUMBERS,
        )
        return today_is_worse(
            [count for _, count in measured_cases.values()], [today[id_] for id_ in measured_cases]
        )

    def _today(self, cases: Iterable[PlannedCase]) -> tuple[PlannedCase, ...]:
        """The cases, with trial numbers of this day (UTC) only."""
        day = self._now.date().isoformat()
        return tuple(replace(case, partner=day) for case in cases)

    def _commit(self) -> str:
        """The checked-out commit; empty outside git."""
        repository = Repository.find(self.project.root)
        if repository is None or not repository.has_commits():
            return ""
        return repository.commit("HEAD")

    def _needs_recheck(self, update: EvalUpdate) -> bool:
        """Return whether to compare a complete baseline with fresh trials."""
        top_up = update.top_up
        return bool(self.recheck and top_up.complete and top_up.baseline.cases)

    def _plan(self, evals: EvalSession) -> list[PromptUpdate]:
        by_eval: dict[Eval, list[PlannedCase]] = {}
        for case in evals.plan.cases:
            by_eval.setdefault(case.eval, []).append(case)
        prompts: dict[str, PromptUpdate] = {}
        for eval_, cases in by_eval.items():
            name = eval_.prompt.name
            if name not in prompts:
                baseline, older = baseline_of(self.project, eval_)
                baseline = baseline or Baseline(prompt=name)
                prompts[name] = PromptUpdate(baseline=baseline, older=older)
            key = key_of(eval_)
            prompt = prompts[name]
            if any(not update.top_up.baseline.key.differences(key) for update in prompt.evals):
                continue  # another eval measures the same
            request = TopUpEval(top_up=self._top_up(eval_, prompt.baseline), cases=tuple(cases))
            anchor = AnchorUpdate.plan(
                eval_,
                cases,
                prompt.baseline,
                request.top_up,
                setting=self.project.settings.gate.anchor,
                policy=self.policy(len(eval_.dataset)),
                now=self._now,
            )
            prompt.evals.append(EvalUpdate(eval=eval_, request=request, anchor=anchor))
        return list(prompts.values())

    def _top_up(self, eval_: Eval, baseline: Baseline, *, restart: bool = False) -> TopUp:
        return top_up(
            baseline,
            key_of(eval_),
            version=str(eval_.prompt.version or ""),
            cases={case.id: case.digest for case in eval_.dataset},
            now=self._now,
            policy=self.policy(len(eval_.dataset)),
            critical={case.id for case in eval_.dataset if case.tier == "critical"},
            deselected=self._find_deselected(eval_),
            restart=restart,
        )

    def _find_deselected(self, eval_: Eval) -> set[str]:
        """The cases of an eval that pytest settings or a conftest.py deselect."""
        return {case.case.id for case in self._left_out if case.eval is eval_}

    def _estimate(self, evals: EvalSession, update: EvalUpdate) -> None:
        """Print the planned trials and their cost, before the first call."""
        eval_, request = update.eval, update.request
        is_recheck = self._needs_recheck(update)
        draws = draws_of(request)
        if is_recheck:
            numbers = [stored_number("base", nth) for nth in range(self.recheck)]
            today = self._today(request.cases)
            draws = [PlannedTrial(case, number) for number in numbers for case in today]
        cases = len(request.cases) if is_recheck else len(request.top_up.trials_by_case)
        facts = {
            "prompt": update.prompt,
            "model": str(eval_.model),
            "cases": cases,
            "recheck": is_recheck,
        }
        cost = self._bill(evals, draws, facts)
        self._estimates[-1]["waits_h"] = update.top_up.waits_h
        label = f"{update.prompt}@{eval_.version or '-'} ({eval_.model})"
        if update.top_up.waits_h:
            self.print_line(
                f"{label}: no trials now, sessions are {self._interval_text()} apart; the next may"
                f" begin in {update.top_up.waits_h:.1f} h, or now with --new-session"
            )
        elif not draws:
            self.print_line(f"{label}: complete, {summary(update.top_up.baseline)}")
        else:
            fresh = "complete, compared with " if is_recheck else ""
            trials = f"{plural(len(draws), 'trial')} of {plural(cases, 'case')}"
            self.print_line(f"{label}: {fresh}{trials}, {cost}")
        anchor = update.anchor
        if anchor is None or anchor.request is None:
            return
        if draws := draws_of(anchor.request):
            top_up = anchor.request.top_up
            facts = {
                "prompt": update.prompt,
                "anchor": anchor.version,
                "model": top_up.baseline.key.model,
                "cases": len(top_up.trials_by_case),
            }
            cost = self._bill(evals, draws, facts)
            self.print_line(
                f"  and its anchor {anchor.version}: {plural(len(draws), 'trial')}, {cost}"
            )

    def _bill(self, evals: EvalSession, draws: list[PlannedTrial], facts: dict[str, Any]) -> str:
        """Add trials to the estimates; return the calls and cost of those without a completion."""
        bill = bill_trials(
            [x for x in draws if not evals.completions.has(x.planned_case, x.key)], evals
        )
        self._estimates.append({**facts, **asdict(bill), "trials": len(draws)})
        judge_calls = f" + about {bill.judge_calls} of judges" if bill.judge_calls else ""
        return (
            f"{plural(bill.calls, 'call')}{judge_calls}: about {quantity(bill.tokens)} tokens,"
            f" {money(bill.cost_usd)}{in_batch(bill.batch_cost_usd)}"
        )

    def _extend_baseline(self, update: EvalUpdate) -> tuple[StoredBaseline, TopUp]:
        """The baseline with this session's trials, and the trials still missing."""
        plan, trials = update.top_up, update.session_trials
        stored_baseline = add_session(plan, trials.facts, now=self._now, models=trials.models)
        stored_baseline = replace(stored_baseline, audit_digest=update.audit_digest)
        baseline = Baseline(prompt=update.prompt, baselines=(stored_baseline,))
        return stored_baseline, self._top_up(update.eval, baseline)

    def _save(self, prompt: PromptUpdate) -> None:
        """Write the baseline of a prompt; compare it with the previous version."""
        for update in prompt.evals:
            update.baseline, after = self._extend_baseline(update)
            lacking = [] if after.complete else [self._describe_missing(after)]
            if left_out := len(self._find_deselected(update.eval)):
                lacking.append(f"{plural(left_out, 'case')} left out")
            update.missing_text = "; ".join(lacking)
        path = self.project.baseline_path(prompt.baseline.prompt)
        anchors = [update.anchor for update in prompt.evals if update.anchor is not None]
        baseline = merge_baselines(
            prompt.baseline,
            [(update.baseline, not update.missing_text) for update in prompt.evals],
            anchors=[
                anchor.stored_trials for anchor in anchors if anchor.stored_trials is not None
            ],
            anchor_versions={anchor.version for anchor in anchors},
            is_partial=self.is_partial,
        )
        is_changed = bool(baseline.baselines) and save_baseline(path, baseline)
        if is_changed and prompt.older is not None:
            prompt.older.unlink(missing_ok=True)
        for update in prompt.evals:
            update.written_file = str(self.project.relative(path)) if is_changed else ""
            has_trials = update.top_up.trials_by_case
            before = prompt.baseline.find_previous(update.baseline.key) if has_trials else None
            if before is not None:
                accepted = accepted_since(update.eval.prompt, before.version)
                update.changes = changes_between(before, update.baseline, accepted=accepted)
                update.accepted = tuple(sorted({*accepted} & update.baseline.cases.keys()))
            for line in update.lines(before):
                self.print_line(line)
            self.unmeasured += update.unmeasured()
            self._done.append(update)

    def _describe_missing(self, after: TopUp) -> str:
        interval = self._interval_text()
        interval = f", {interval} apart" if after.sessions > 1 else f" in {interval}"
        sessions = plural(after.sessions, "more session", "more sessions")
        if after.sessions_others < after.sessions:
            sessions += f" for critical cases, {after.sessions_others} for others"
        return f"{sessions}{interval}"

    def _interval_text(self) -> str:
        hours = self.policy(1).apart_h
        return "an hour" if hours == 1 else f"{hours:g} h"
