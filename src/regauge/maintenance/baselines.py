"""Runs `regauge baseline update`: fresh trials of the base, their comparison, and what is kept."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.errors import FaultyFileError, GitError, RegaugeError
from regauge.gate import (
    Redraw,
    RedrawSuite,
    SuiteTrials,
    TopUp,
    TopUpSuite,
    accepted_since,
    add_session,
    anchor_suite,
    anchor_version,
    audit_by_steps,
    audit_fresh,
    bill_draws,
    changes_between,
    compare_histories,
    draw_trials,
    draws_of,
    fresh_counts,
    merge_histories,
    policy_of,
    recorded_outcomes,
    redraw_trials,
    stored_anchor,
    stored_number,
    today_is_worse,
    top_up,
)
from regauge.gate.baselines import (
    AnchorTrials,
    Baseline,
    baseline_of,
    baseline_path,
    key_of,
    save_baseline,
)
from regauge.maintenance.baseline_views import trials_each
from regauge.maintenance.batches import ProjectBatches
from regauge.prompts import Repository, load_prompt, lock_of, read_prompt_text
from regauge.reports import in_batch, money, progress_line, quantity
from regauge.runner import PlannedCase, PlannedTrial
from regauge.stats import AnchorPolicy
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from regauge.gate import AnchorComparison, AuditReport, CellChange, Drift, TopUpPolicy
    from regauge.gate.baselines import StoredHistory
    from regauge.maintenance.batches import BatchOptions
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.runner import Eval, EvalSession


@dataclass(slots=True, kw_only=True, eq=False)
class AnchorUpdate:
    """The trials of the anchor in this session, and their comparison with the record.

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
    head: Eval
    suite: Eval | None = None
    stored: AnchorTrials | None = None
    cases: tuple[PlannedCase, ...] = ()
    trouble: str = ""
    asked: TopUpSuite | None = None
    landed: list[SuiteTrials] = field(default_factory=list[SuiteTrials])
    drew: bool = False
    comparison: AnchorComparison | None = None

    @property
    def lost(self) -> bool:
        """Return whether this session confirmed a loss against the anchor."""
        return self.drew and self.comparison is not None and self.comparison.confirmed

    def take(self, landed: SuiteTrials, *, now: datetime) -> None:
        """Add the trials of this session to those that are kept."""
        if self.asked is None:
            return
        self.landed.append(landed)
        before = self.stored.drawn_for if self.stored is not None else ""
        history = add_session(self.asked.top_up, landed.facts, now=now, models=landed.models)
        if history.cases:
            self.drew = self.drew or any(landed.facts.values())
            self.stored = AnchorTrials(history=history, drawn_for=before)

    def compare(self, history: StoredHistory, *, complete: bool) -> None:
        """Hold the version of today against the anchor; it is suspected once it is complete."""
        if self.stored is None:
            return
        accepted = accepted_since(self.head.prompt, self.version)
        comparison = compare_histories(self.stored, history, accepted=accepted)
        if comparison is not None and not complete:
            comparison = replace(comparison, suspected=False)
        self.comparison = comparison

    def second_drawing(self, now: datetime, policy: TopUpPolicy) -> TopUpSuite | None:
        """The anchor next to the version of today; None where the kept trials do not ask for it."""
        suspected = self.comparison is not None and self.comparison.suspected
        if not suspected or self.suite is None or not self.cases:
            return None
        histories = (self.stored.history,) if self.stored is not None else ()
        again = replace(policy, per_session=policy.complete_trials, sessions=1, any_time=True)
        asked = _top_up(self.suite, histories, self.cases, now=now, policy=again, restart=True)
        return TopUpSuite(top_up=asked, cases=self.cases)

    def replace_with(
        self, asked: TopUpSuite, landed: SuiteTrials, history: StoredHistory, *, now: datetime
    ) -> None:
        """Keep the second drawing instead, once every case was measured, and compare again."""
        self.landed.append(landed)
        measured = {case for case, trials in landed.facts.items() if trials}
        if measured != {*asked.top_up.trials_by_case}:
            return
        drawn = add_session(asked.top_up, landed.facts, now=now, models=landed.models)
        self.stored = AnchorTrials(history=drawn, drawn_for=history.key.prompt)
        self.drew = True
        self.compare(history, complete=True)

    def line(self) -> str:
        """The difference since the anchor, or why it is not measured."""
        comparison = self.comparison
        if comparison is None:
            why = self.trouble or "its trials run with those of the next version"
            return f"since {self.version}: not measured: {why}"
        words = str(comparison)
        if comparison.confirmed:
            words += f"; a loss, confirmed with fresh trials of both (p = {comparison.p_value:.2g})"
        elif comparison.suspected:
            why = f": {self.trouble}" if self.trouble else ""
            words += f"; {self.version} was not measured again, so this is not confirmed{why}"
        elif comparison.redrawn:
            words += f"; not confirmed with fresh trials of both (p = {comparison.p_value:.2g})"
        return words

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        comparison = self.comparison
        return {
            "version": self.version,
            "message": self.line(),
            "cases": comparison.cases if comparison is not None else 0,
            "difference": asdict(comparison.difference) if comparison is not None else None,
            "p_value": comparison.p_value if comparison is not None else None,
            "redrawn": comparison is not None and comparison.redrawn,
            "confirmed": comparison is not None and comparison.confirmed,
            "trouble": self.trouble,
        }


def ask_anchor(
    suite: Eval,
    planned: Sequence[PlannedCase],
    baseline: Baseline,
    current: TopUp,
    *,
    setting: str,
    policy: TopUpPolicy,
    now: datetime,
) -> AnchorUpdate | None:
    """The anchor of an eval; None where the setting or the prompt names none.

    It is drawn only next to a version whose own baseline fills.

    Args:
        planned: The cases of today.
        baseline: Of the prompt.
        current: What is drawn of the version of today.
        setting: `anchor` of the settings.
        policy: The plan for filling a baseline of this number of cases.
    """
    head = suite.prompt
    released = [entry.version for entry in lock_of(head.path).entries_of(head.name)]
    version = anchor_version(setting, released, current=head.version)
    if version is None:
        return None
    anchor = AnchorUpdate(version=str(version), head=suite)
    try:
        anchor.suite = anchor_suite(suite, version)
    except (FaultyFileError, GitError) as error:
        anchor.trouble = str(error).splitlines()[0].replace(str(head.path), head.path.name)
        anchor.stored = stored_anchor([baseline], anchor.version, key_of(suite))
        return anchor
    key = key_of(anchor.suite)
    anchor.stored = next(
        (kept for kept in baseline.anchors if not kept.history.key.differences(key)), None
    )
    if anchor.stored is None and (history := baseline.find(key)) is not None:
        anchor.stored = AnchorTrials(history=replace(history, audit_digest=""))
    cases = (PlannedCase(anchor.suite, case.case) for case in planned)
    anchor.cases = tuple(case for case in cases if _renders(case))
    if left_out := len(planned) - len(anchor.cases):
        of = plural(len(planned), "case")
        anchor.trouble = f"the prompt of {version} cannot be rendered for {left_out} of {of}"
    if current.trials_by_case and anchor.cases:
        most = AnchorPolicy().trials_of(len(suite.dataset), baseline_trials=policy.complete_trials)
        share = max(policy.per_session, -(-most // policy.sessions))
        plan = replace(policy, complete_trials=most, per_session=share, sessions=1, any_time=True)
        stored = (anchor.stored.history,) if anchor.stored is not None else ()
        asked = _top_up(anchor.suite, stored, anchor.cases, now=now, policy=plan)
        anchor.asked = TopUpSuite(top_up=asked, cases=anchor.cases)
    return anchor


def _top_up(
    suite: Eval,
    stored: tuple[StoredHistory, ...],
    cases: Sequence[PlannedCase],
    *,
    now: datetime,
    policy: TopUpPolicy,
    restart: bool = False,
) -> TopUp:
    return top_up(
        Baseline(prompt=suite.prompt.name, histories=stored),
        key_of(suite),
        version=str(suite.prompt.version or ""),
        cases={case.case.id: case.case.digest for case in cases},
        now=now,
        policy=policy,
        restart=restart,
    )


def _renders(planned: PlannedCase) -> bool:
    try:
        planned.suite.request(planned.case, 0)
    except RegaugeError:
        return False
    return True


# A line of a terminal holds about so many ids.
_NAMED_MAX = 5


@dataclass(slots=True, kw_only=True, eq=False)
class EvalUpdate:
    """One eval, the trials that this session makes for its history, and their result.

    Attributes:
        landed: The trials of the history.
        redrawn: Fresh trials that a complete history is compared with; None where none were made.
        drift: That comparison.
        audit: Committed completions next to fresh trials; None where none were compared.
        audited: The state of the recordings that was audited.
        anchor: The comparison with an old version; None where there is none to compare with.
        history: With the trials of this session, once they are kept.
        lacking: What completes the history; empty when it is complete.
        written: The file of the baseline, if it changed.
        changes: The checks whose pass rate certainly changed since the version before.
        accepted: Cases whose losses the changelog accepts.
    """

    suite: Eval
    asked: TopUpSuite
    anchor: AnchorUpdate | None = None
    landed: SuiteTrials = field(default_factory=SuiteTrials)
    redrawn: SuiteTrials | None = None
    drift: Drift | None = None
    audit: AuditReport | None = None
    audited: str = ""
    history: StoredHistory = field(init=False)
    lacking: str = ""
    written: str = ""
    changes: tuple[CellChange, ...] = ()
    accepted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.history = self.top_up.history

    @property
    def top_up(self) -> TopUp:
        """The trials that this session makes."""
        return self.asked.top_up

    @property
    def prompt(self) -> str:
        """The name of the prompt."""
        return self.suite.prompt.name

    @property
    def worse(self) -> bool:
        """Return whether the base is worse than the version before, the anchor or its record."""
        return bool(
            (self.drift is not None and self.drift.worse)
            or (self.anchor is not None and self.anchor.lost)
            or (self.audit is not None and self.audit.result == "better")
            or any(change.direction == "worse" for change in self.changes)
        )

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        key = self.history.key
        return {
            "prompt": self.prompt,
            "version": self.history.version,
            "prompt_digest": key.prompt,
            "model": key.model,
            "dataset": key.dataset,
            "drawn": self._drawn,
            "unmeasured": sum(landed.unmeasured.total() for landed in self._landed_suites()),
            "complete": not self.lacking,
            "waits_h": self.top_up.waits_h,
            "sessions": len(self.history.sessions),
            "file": self.written,
            "changes": [_change(change) for change in self.changes],
            "drift": _drift(self.drift) if self.drift is not None else None,
            "audit": {**asdict(self.audit), "message": self.audit.message} if self.audit else None,
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
        if self._drawn:
            state = f"not complete yet: {self.lacking}" if self.lacking else "complete"
            yield f"{self.prompt}: {summary(self.history)}, {state}"
        if before is not None:
            yield f"  compared with {before.version or before.key.prompt[:12]}:"
            yield from (f"  {change}" for change in self.changes)
            if not self.changes:
                yield "  no case's pass rate certainly changed"
            if self.accepted:
                yield f"  losses accepted in the changelog: {', '.join(self.accepted)}"
        if self.anchor is not None:
            yield f"  {self.anchor.line()}"
        if self.written:
            yield f"  wrote {self.written}: commit it"

    def unmeasured(self) -> Iterator[str]:
        """The trials that do not count, with the reason."""
        for landed in self._landed_suites():
            if not landed.unmeasured:
                continue
            for why, count in landed.unmeasured.most_common(3):
                yield f"{self.prompt}: {plural(count, 'trial does', 'trials do')} not count: {why}"
            cases = sorted(landed.unmeasured_cases)
            more = ", ..." if len(cases) > _NAMED_MAX else ""
            yield f"  cases: {', '.join(cases[:_NAMED_MAX])}{more}"

    @property
    def _drawn(self) -> int:
        return sum(len(trials) for trials in self.landed.facts.values())

    def _landed_suites(self) -> list[SuiteTrials]:
        of_anchor = self.anchor.landed if self.anchor is not None else []
        again = [self.redrawn] if self.redrawn is not None else []
        return [*again, self.landed, *of_anchor]


def summary(history: StoredHistory) -> str:
    """The number of trials and of cases in a history."""
    if not history.cases:
        return "no trials"
    sessions = plural(len(history.sessions), "session")
    return f"{plural(len(history.cases), 'case')} with {trials_each(history)} from {sessions}"


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
        yield f"  answered by {', '.join(drift.new_models)} now, who never answered before"
    yield "  a new history begins" if drift.stale else "  fresh trials agree with the baseline"


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
        "served": drift.new_models,
    }


def _change(change: CellChange) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if name != "since"}


@dataclass(slots=True, kw_only=True)
class PromptUpdate:
    """The evals of one prompt, and its baseline.

    Attributes:
        older: The file of the baseline under an older name, which the new one replaces.
    """

    name: str
    baseline: Baseline
    older: Path | None = None
    suites: list[EvalUpdate] = field(default_factory=list[EvalUpdate])


# Recorded trials of each case that are audited at most.
_AUDITED_NUMBERS = 24


def uncommitted_notes(project: Project, prompts: Iterable[Prompt]) -> Iterator[str]:
    """Notes on prompts with local histories only, which the gate cannot read."""
    repository = Repository.find(project.root)
    if repository is None or not repository.has_commits():
        return
    # An eval may ask for a released version, which is not what the file says.
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
    """Runs the command and remembers the result of it.

    Attributes:
        project: Whose baselines.
        policy: The plan for filling a baseline of this number of cases.
        redraw: How many fresh trials of each case a complete history is compared with; 0 is none.
        dry_run: Whether only the estimate is made.
        print_line: Takes each line for people.
        meter: Shows how far the work has come, as long as it is entered.
        batch: What is done with batches; None for live calls.
        pending: What is under way in batches, so that nothing is kept yet.
    """

    project: Project
    policy: Callable[[int], TopUpPolicy]
    redraw: int
    dry_run: bool
    print_line: Callable[[str], None]
    meter: Callable[[Callable[[], str]], AbstractContextManager[object]]
    batch: BatchOptions | None
    pending: list[str] = field(default_factory=list[str])
    unmeasured: list[str] = field(default_factory=list[str])
    _batches: dict[str, Any] | None = None
    _now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    _done: list[EvalUpdate] = field(default_factory=list[EvalUpdate])
    _estimates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _left_out: Sequence[PlannedCase] = ()

    @property
    def worse(self) -> bool:
        """Return whether the base is worse than the version before, or than its history."""
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
        """Do what is due for every eval that was collected.

        Raises:
            UsageError: An eval has no judge that decides.
            BaselineError: A baseline cannot be read or written.
        """
        self._left_out = evals.left_out
        prompts = self._plan(evals)
        every = [asked for prompt in prompts for asked in prompt.suites]
        for asked in every:
            self._estimate(evals, asked)
        for note in uncommitted_notes(self.project, [asked.suite.prompt for asked in every]):
            self.print_line(note)
        if self.dry_run:
            return
        try:
            with self.meter(lambda: progress_line(evals.progress, evals.budget)):
                if self.batch is not None:
                    self._take_batches(every, evals, self.batch)
                else:
                    self._draw_live(prompts, every, evals)
        finally:
            evals.close()
        if not self.pending:
            for prompt in prompts:
                self._keep(prompt)

    def _draw_live(
        self, prompts: list[PromptUpdate], every: list[EvalUpdate], evals: EvalSession
    ) -> None:
        self._draw(every, evals)
        complete = [asked for asked in every if self._due(asked)]
        if complete:
            self._draw_again(complete, evals)
        if evals.options.record != "none":
            self._audit(prompts, evals)
        self._compare_with_anchors(every, evals)

    def _take_batches(
        self, every: list[EvalUpdate], evals: EvalSession, options: BatchOptions
    ) -> None:
        """Take the trials that batches brought; a session is kept once all of them are there.

        An audit of recordings waits for live trials.
        """
        for asked in every:
            asked.audited = asked.top_up.history.audit_digest
        batches = ProjectBatches(self.project, evals, options, environ=os.environ)
        with batches.open():
            self._draw(every, evals)
            if not batches.open_calls:
                self._compare_with_anchors(every, evals)
            troubles = batches.start()
            batches.tidy()
        for line in batches.warnings():
            self.print_line(line)
        self._batches = batches.to_json()
        self.pending = [*batches.sentences(), *troubles]
        if batches.open_calls and not self.pending:
            self.pending = ["the session is kept once all of its trials are measured"]

    def _draw(self, asked: list[EvalUpdate], evals: EvalSession) -> None:
        anchors = [each.anchor for each in asked if each.anchor and each.anchor.asked]
        of_anchors = [anchor.asked for anchor in anchors if anchor.asked is not None]
        suites = [each.asked for each in asked]
        landed = draw_trials([*suites, *of_anchors], session=evals, on_progress=lambda _: None)
        for each, got in zip(asked, landed, strict=False):
            each.landed = got
        for anchor, got in zip(anchors, landed[len(asked) :], strict=True):
            anchor.take(got, now=self._now)

    def _compare_with_anchors(self, every: list[EvalUpdate], evals: EvalSession) -> None:
        """Hold each version against its anchor; where it is worse, draw the anchor again today."""
        for asked in every:
            if asked.anchor is None:
                continue
            history, after = self._after(asked)
            asked.anchor.compare(history, complete=after.complete)
            again = asked.anchor.second_drawing(self._now, self.policy(len(asked.suite.dataset)))
            if again is not None:
                (landed,) = draw_trials([again], session=evals, on_progress=lambda _: None)
                asked.anchor.replace_with(again, landed, history, now=self._now)

    def _draw_again(self, complete: list[EvalUpdate], evals: EvalSession) -> None:
        """Hold complete histories against fresh trials; those that no longer agree begin again."""
        policy = policy_of(self.project.settings.gate)
        redraws = [
            RedrawSuite(
                redraw=Redraw(
                    each.top_up.history,
                    {planned.case.id: planned.case.digest for planned in each.asked.cases},
                    policy,
                    prompt=each.prompt,
                    trials=self.redraw,
                    prompts=len(complete),
                ),
                checks=each.top_up.history.key.judges,
                cases=self._today(each.asked.cases),
            )
            for each in complete
        ]
        landed = redraw_trials(redraws, session=evals, on_progress=lambda _: None)
        stale: list[EvalUpdate] = []
        for each, asked, got in zip(complete, redraws, landed, strict=True):
            each.redrawn, each.drift = got, asked.redraw.drift(models=got.models)
            if each.drift.stale:
                baseline = Baseline(prompt=each.prompt, histories=(each.top_up.history,))
                restarted = self._top_up(each.suite, baseline, restart=True)
                each.asked = replace(each.asked, top_up=restarted)
                stale.append(each)
        if stale:
            self._draw(stale, evals)

    def _audit(self, prompts: list[PromptUpdate], evals: EvalSession) -> None:
        """Compare committed completions with fresh trials, once for each state of them.

        The trials of this session serve where there are any; complete histories repeat few.
        """
        reader = evals.replay_session()
        try:
            for prompt in prompts:
                for suite in prompt.suites:
                    self._audit_eval(suite, prompt.baseline, evals, reader)
        finally:
            reader.close()

    def _audit_eval(
        self, asked: EvalUpdate, baseline: Baseline, evals: EvalSession, reader: EvalSession
    ) -> None:
        name, history = asked.prompt, asked.top_up.history
        checks = sorted(history.key.judges)
        cases = {planned.case.id: planned for planned in asked.asked.cases}
        audited = [(name, planned, checks) for planned in cases.values()]
        recorded = recorded_outcomes(reader, audited, numbers=lambda _: _AUDITED_NUMBERS)
        state = digest_of([[x.case, x.series, x.number, x.recorded_at] for x in recorded])
        landed = asked.landed if asked.landed.facts else asked.redrawn
        facts = landed.facts if landed is not None else {}
        if not recorded or history.audit_digest == state:
            asked.audited = history.audit_digest
            return
        if facts:
            fresh = {
                (name, case): [trials[number].passed for number in sorted(trials)]
                for case, trials in facts.items()
            }
            report = audit_fresh(recorded, fresh)
        elif asked.top_up.complete:
            again = {planned.case.id: planned for planned in self._today(asked.asked.cases)}
            report = audit_by_steps(evals, recorded, again, checks, seed=self._commit())
        else:
            return
        asked.audited = state
        better = report is not None and report.result == "better"
        if report is not None and better and self._base_is_worse(asked, baseline, evals):
            report = replace(report, result="base-worse")
        asked.audit = report

    def _base_is_worse(self, asked: EvalUpdate, baseline: Baseline, evals: EvalSession) -> bool:
        """Return whether the base passes less today than in its history, or the version before.

        Of a new version nothing is known but what this session drew.
        """
        history, suite = asked.top_up.history, asked.suite
        if not history.cases:
            before = baseline.find_previous(history.key)
            if before is None or not before.version:
                return False
            try:
                prompt = load_prompt(suite.prompt.name, before.version, root=self.project.root)
            except RegaugeError:  # no commit holds it
                return False
            history, suite = before, replace(suite, prompt=prompt)
        measured = {
            planned.case.id: (PlannedCase(suite, planned.case), stored.total)
            for planned in asked.asked.cases
            if (stored := history.history(planned.case.id, planned.case.digest)) is not None
        }
        if not measured:
            return False
        today = fresh_counts(
            evals,
            self._today(planned for planned, _ in measured.values()),
            sorted(history.key.judges),
            nth=_AUDITED_NUMBERS,
        )
        return today_is_worse(
            [count for _, count in measured.values()], [today[id_] for id_ in measured]
        )

    def _today(self, cases: Iterable[PlannedCase]) -> tuple[PlannedCase, ...]:
        """Cases whose fresh trials are those of this day, in UTC, and of no day before."""
        day = self._now.date().isoformat()
        return tuple(replace(planned, partner=day) for planned in cases)

    def _commit(self) -> str:
        """The commit that is checked out; empty outside git."""
        repository = Repository.find(self.project.root)
        if repository is None or not repository.has_commits():
            return ""
        return repository.commit("HEAD")

    def _due(self, asked: EvalUpdate) -> bool:
        """Return whether a history is complete, and to be compared with fresh trials."""
        top_up = asked.top_up
        return bool(self.redraw and top_up.complete and top_up.history.cases)

    def _plan(self, evals: EvalSession) -> list[PromptUpdate]:
        by_suite: dict[Eval, list[PlannedCase]] = {}
        for planned in evals.plan.cases:
            by_suite.setdefault(planned.suite, []).append(planned)
        prompts: dict[str, PromptUpdate] = {}
        for suite, cases in by_suite.items():
            name = suite.prompt.name
            if name not in prompts:
                baseline, older = baseline_of(self.project, suite)
                prompts[name] = PromptUpdate(
                    name=name, baseline=baseline or Baseline(prompt=name), older=older
                )
            key = key_of(suite)
            prompt = prompts[name]
            if any(not each.top_up.history.key.differences(key) for each in prompt.suites):
                continue  # another eval measures the very same
            asked = TopUpSuite(top_up=self._top_up(suite, prompt.baseline), cases=tuple(cases))
            anchor = ask_anchor(
                suite,
                cases,
                prompt.baseline,
                asked.top_up,
                setting=self.project.settings.gate.anchor,
                policy=self.policy(len(suite.dataset)),
                now=self._now,
            )
            prompt.suites.append(EvalUpdate(suite=suite, asked=asked, anchor=anchor))
        return list(prompts.values())

    def _top_up(self, suite: Eval, baseline: Baseline, *, restart: bool = False) -> TopUp:
        return top_up(
            baseline,
            key_of(suite),
            version=str(suite.prompt.version or ""),
            cases={case.id: case.digest for case in suite.dataset},
            now=self._now,
            policy=self.policy(len(suite.dataset)),
            critical={case.id for case in suite.dataset if case.tier == "critical"},
            deselected=self._find_deselected(suite),
            restart=restart,
        )

    def _find_deselected(self, suite: Eval) -> set[str]:
        """The cases of an eval that settings of pytest or a conftest.py deselect."""
        return {planned.case.id for planned in self._left_out if planned.suite is suite}

    def _estimate(self, evals: EvalSession, asked: EvalUpdate) -> None:
        """Say what this session draws, before the first call."""
        suite, asked_suite = asked.suite, asked.asked
        again = self._due(asked)
        draws = draws_of(asked_suite)
        if again:
            numbers = [stored_number("base", nth) for nth in range(self.redraw)]
            today = self._today(asked_suite.cases)
            draws = [PlannedTrial(planned, number) for number in numbers for planned in today]
        cases = len(asked_suite.cases) if again else len(asked_suite.top_up.trials_by_case)
        facts = {"prompt": asked.prompt, "model": str(suite.model), "cases": cases, "redraw": again}
        cost = self._bill(evals, draws, facts)
        self._estimates[-1]["waits_h"] = asked.top_up.waits_h
        label = f"{asked.prompt}@{suite.version or '-'} ({suite.model})"
        if asked.top_up.waits_h:
            self.print_line(
                f"{label}: no trials now, sessions are {self._apart()} apart; the next may"
                f" begin in {asked.top_up.waits_h:.1f} h, or now with --new-session"
            )
        elif not draws:
            self.print_line(f"{label}: complete, {summary(asked.top_up.history)}")
        else:
            fresh = "complete, compared with " if again else ""
            trials = f"{plural(len(draws), 'trial')} of {plural(cases, 'case')}"
            self.print_line(f"{label}: {fresh}{trials}, {cost}")
        anchor = asked.anchor
        if anchor is not None and anchor.asked is not None and (draws := draws_of(anchor.asked)):
            top_up = anchor.asked.top_up
            facts = {
                "prompt": asked.prompt,
                "anchor": anchor.version,
                "model": top_up.history.key.model,
                "cases": len(top_up.trials_by_case),
            }
            cost = self._bill(evals, draws, facts)
            self.print_line(
                f"  and its anchor {anchor.version}: {plural(len(draws), 'trial')}, {cost}"
            )

    def _bill(self, evals: EvalSession, draws: list[PlannedTrial], facts: dict[str, Any]) -> str:
        """Note the calls and cost of trials that have no completion yet, and return them."""
        bill = bill_draws(
            [x for x in draws if not evals.completions.has(x.planned_case, x.key)], evals
        )
        self._estimates.append({**facts, **asdict(bill), "trials": len(draws)})
        judged = f" + about {bill.judge_calls} of judges" if bill.judge_calls else ""
        return (
            f"{plural(bill.calls, 'call')}{judged}: about {quantity(bill.tokens)} tokens,"
            f" {money(bill.cost_usd)}{in_batch(bill.batch_cost_usd)}"
        )

    def _after(self, asked: EvalUpdate) -> tuple[StoredHistory, TopUp]:
        """The history with the trials of this session, and the trials that are still missing."""
        top, landed = asked.top_up, asked.landed
        history = add_session(top, landed.facts, now=self._now, models=landed.models)
        history = replace(history, audit_digest=asked.audited)
        baseline = Baseline(prompt=asked.prompt, histories=(history,))
        return history, self._top_up(asked.suite, baseline)

    def _keep(self, prompt: PromptUpdate) -> None:
        """Write the baseline of a prompt, and compare it with the version before."""
        for asked in prompt.suites:
            asked.history, after = self._after(asked)
            lacking = [] if after.complete else [self._lacking(after)]
            if left_out := len(self._find_deselected(asked.suite)):
                lacking.append(f"{plural(left_out, 'case')} left out")
            asked.lacking = "; ".join(lacking)
        path = baseline_path(self.project, prompt.name)
        anchors = [asked.anchor for asked in prompt.suites if asked.anchor is not None]
        baseline = merge_histories(
            prompt.baseline,
            [(asked.history, not asked.lacking) for asked in prompt.suites],
            anchors=[anchor.stored for anchor in anchors if anchor.stored is not None],
            anchor_versions={anchor.version for anchor in anchors},
        )
        written = bool(baseline.histories) and save_baseline(path, baseline)
        if written and prompt.older is not None:
            prompt.older.unlink(missing_ok=True)
        for asked in prompt.suites:
            asked.written = str(self.project.relative(path)) if written else ""
            made = asked.top_up.trials_by_case
            before = prompt.baseline.find_previous(asked.history.key) if made else None
            if before is not None:
                accepted = accepted_since(asked.suite.prompt, before.version)
                asked.changes = changes_between(before, asked.history, accepted=accepted)
                asked.accepted = tuple(sorted({*accepted} & asked.history.cases.keys()))
            for line in asked.lines(before):
                self.print_line(line)
            self.unmeasured += asked.unmeasured()
            self._done.append(asked)

    def _lacking(self, after: TopUp) -> str:
        apart = f", {self._apart()} apart" if after.sessions > 1 else f" in {self._apart()}"
        sessions = plural(after.sessions, "more session", "more sessions")
        if after.sessions_others < after.sessions:
            sessions += f" for critical cases, {after.sessions_others} for others"
        return f"{sessions}{apart}"

    def _apart(self) -> str:
        hours = self.policy(1).apart_h
        return "an hour" if hours == 1 else f"{hours:g} h"
