"""One session of `regauge baseline update`: plan, estimate, draw, keep, compare."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regauge.cli._baseline.anchor import ask_anchor
from regauge.cli._baseline.done import AskedEval, AskedPrompt, Done, summary
from regauge.cli._baseline.text import uncommitted_notes
from regauge.cli._terminal.meter import Meter
from regauge.cli._terminal.text import echo
from regauge.digests import digest_of
from regauge.errors import RegaugeError
from regauge.gate import (
    audit_by_steps,
    audit_fresh,
    bill_draws,
    fresh_counts,
    policy_of,
    recorded_outcomes,
    stored_number,
    today_is_worse,
)
from regauge.gate.baselines import (
    AskedRedraw,
    AskedSuite,
    Baseline,
    Redraw,
    accepted_since,
    applied,
    baseline_of,
    baseline_path,
    changes_between,
    draw_trials,
    draws_of,
    key_of,
    merged,
    redraw_trials,
    save_baseline,
    top_up,
)
from regauge.prompts import Repository, load_prompt
from regauge.reports import money, progress_line, quantity
from regauge.runner import Draw, PlannedCase
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from regauge.cli._baseline.anchor import AskedAnchor
    from regauge.gate import Bill
    from regauge.gate.baselines import StoredHistory, TopUp, TopUpPolicy
    from regauge.project import Project
    from regauge.runner import EvalSession, Suite

__all__ = ["BaselineUpdate"]

# Recorded trials of each case that are audited at most.
_AUDITED_NUMBERS = 24


class BaselineUpdate:
    """Runs the command and remembers what came of it.

    Args:
        project: Whose baselines.
        policy: How the baseline of so many cases is filled.
        redraw: How many fresh trials of each case a complete history is held against; 0 is none.
        dry_run: Whether only the estimate is made.
        quiet: Whether nothing but errors is printed.
    """

    def __init__(
        self,
        project: Project,
        policy: Callable[[int], TopUpPolicy],
        *,
        redraw: int = 0,
        dry_run: bool,
        quiet: bool,
    ) -> None:
        self._project = project
        self._policy = policy
        self._redraw = redraw
        self._dry_run = dry_run
        self._quiet = quiet
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._done: list[Done] = []
        self._estimates: list[dict[str, Any]] = []
        self.unmeasured: list[str] = []

    @property
    def worse(self) -> bool:
        """Whether main fares worse than with the version before, or than its history says."""
        return any(one.worse for one in self._done)

    def to_json(self) -> dict[str, Any]:
        """What was planned, done and found."""
        return {
            "dry_run": self._dry_run,
            "planned": self._estimates,
            "done": [one.to_json() for one in self._done],
        }

    def run(self, evals: EvalSession) -> None:
        """Do what is due for every eval that was collected.

        Raises:
            UsageError: An eval has no judge that decides.
            BaselineError: A baseline cannot be read or written.
        """
        prompts = self._plan(evals)
        for prompt in prompts:
            for asked in prompt.suites:
                self._estimate(evals, prompt, asked)
        for note in uncommitted_notes(
            self._project, [one.suite.prompt for prompt in prompts for one in prompt.suites]
        ):
            self._say(note)
        if self._dry_run:
            return
        every = [asked for prompt in prompts for asked in prompt.suites]
        try:
            with Meter(lambda: progress_line(evals.progress, evals.budget)):
                self._draw(every, evals)
                complete = [asked for asked in every if self._due(asked)]
                if complete:
                    self._draw_again(complete, evals)
                if evals.options.record != "none":
                    self._audit(prompts, evals)
                self._compare_with_anchors(every, evals)
        finally:
            evals.close()
        for prompt in prompts:
            self._keep(prompt)

    def _draw(self, asked: list[AskedEval], evals: EvalSession) -> None:
        anchors = [one.anchor for one in asked if one.anchor is not None]
        of_anchors = [anchor.asked for anchor in anchors if anchor.asked is not None]
        suites = [one.asked for one in asked]
        landed = draw_trials([*suites, *of_anchors], session=evals, waiting=lambda _: None)
        for one, got in zip(asked, landed[: len(asked)], strict=True):
            one.landed = got
        drawn = [anchor for anchor in anchors if anchor.asked is not None]
        for anchor, got in zip(drawn, landed[len(asked) :], strict=True):
            anchor.take(got, now=self._now)

    def _compare_with_anchors(self, every: list[AskedEval], evals: EvalSession) -> None:
        """Hold each version against its anchor; where it is worse, draw the anchor again today."""
        for one in every:
            if one.anchor is None:
                continue
            history, after = self._after(one)
            one.anchor.compare(history, complete=after.complete)
            again = one.anchor.second_drawing(self._now, self._policy(len(one.suite.dataset)))
            if again is not None:
                (landed,) = draw_trials([again], session=evals, waiting=lambda _: None)
                one.anchor.replace_with(again, landed, history, now=self._now)

    def _draw_again(self, complete: list[AskedEval], evals: EvalSession) -> None:
        """Hold complete histories against fresh trials; what they no longer tell begins anew."""
        policy = policy_of(self._project.settings.gate)
        redraws = [
            AskedRedraw(
                redraw=Redraw(
                    one.asked.asked.history,
                    {planned.case.id: planned.case.digest for planned in one.asked.cases},
                    policy,
                    prompt=one.suite.prompt.name,
                    trials=self._redraw,
                    prompts=len(complete),
                ),
                checks=one.asked.asked.history.key.judges,
                cases=self._today(one.asked.cases),
            )
            for one in complete
        ]
        landed = redraw_trials(redraws, session=evals, waiting=lambda _: None)
        stale: list[AskedEval] = []
        for one, asked, got in zip(complete, redraws, landed, strict=True):
            one.redrawn, one.drift = got, asked.redraw.drift(served=got.served)
            if one.drift.stale:
                known = Baseline(prompt=one.suite.prompt.name, histories=(one.asked.asked.history,))
                one.asked = replace(one.asked, asked=self._top_up(one.suite, known, anew=True))
                stale.append(one)
        if stale:
            self._draw(stale, evals)

    def _audit(self, prompts: list[AskedPrompt], evals: EvalSession) -> None:
        """Compare committed completions with fresh trials, once for each state of them.

        The trials of this session serve where there are any; complete histories repeat few.
        """
        reader = evals.reading()
        try:
            for prompt in prompts:
                for one in prompt.suites:
                    self._audit_eval(one, prompt.baseline, evals, reader)
        finally:
            reader.close()

    def _audit_eval(
        self, one: AskedEval, baseline: Baseline, evals: EvalSession, reader: EvalSession
    ) -> None:
        name, history = one.suite.prompt.name, one.asked.asked.history
        checks = sorted(history.key.judges)
        cases = {planned.case.id: planned for planned in one.asked.cases}
        recorded = recorded_outcomes(
            reader,
            [(name, planned, checks) for planned in cases.values()],
            numbers=lambda _: _AUDITED_NUMBERS,
        )
        state = digest_of([[x.case, x.series, x.number, x.recorded_at] for x in recorded])
        landed = one.landed if one.landed.facts else one.redrawn
        facts = landed.facts if landed is not None else {}
        if not recorded or history.audited == state:
            one.audited = history.audited
            return
        if facts:
            fresh = {
                (name, case): [trials[number].passed for number in sorted(trials)]
                for case, trials in facts.items()
            }
            report = audit_fresh(recorded, fresh)
        elif one.asked.asked.complete:
            again = {planned.case.id: planned for planned in self._today(one.asked.cases)}
            report = audit_by_steps(evals, recorded, again, checks, seed=self._commit())
        else:
            return
        one.audited = state
        better = report is not None and report.result == "better"
        if report is not None and better and self._base_is_worse(one, baseline, evals):
            report = replace(report, result="base-worse")
        one.audit = report

    def _base_is_worse(self, one: AskedEval, baseline: Baseline, evals: EvalSession) -> bool:
        """Whether the base passes less today than its history, or the version before than its own.

        Of a new version nothing is known but what this session drew.
        """
        history, suite = one.asked.asked.history, one.suite
        if not history.cases:
            before = baseline.before(history.key)
            if before is None or not before.version:
                return False
            try:
                prompt = load_prompt(suite.prompt.name, before.version, root=self._project.root)
            except RegaugeError:  # no commit holds it
                return False
            history, suite = before, replace(suite, prompt=prompt)
        known = {
            planned.case.id: (PlannedCase(suite, planned.case), stored.whole)
            for planned in one.asked.cases
            if (stored := history.history(planned.case.id, planned.case.digest)) is not None
        }
        if not known:
            return False
        today = fresh_counts(
            evals,
            self._today(planned for planned, _ in known.values()),
            sorted(history.key.judges),
            nth=_AUDITED_NUMBERS,
        )
        return today_is_worse([count for _, count in known.values()], [today[id_] for id_ in known])

    def _today(self, cases: Iterable[PlannedCase]) -> tuple[PlannedCase, ...]:
        """Cases whose fresh trials are those of this day, in UTC, and of no day before."""
        day = self._now.date().isoformat()
        return tuple(replace(planned, partner=day) for planned in cases)

    def _commit(self) -> str:
        """The commit that is checked out; empty outside git."""
        repository = Repository.find(self._project.root)
        if repository is None or not repository.has_commits():
            return ""
        return repository.commit("HEAD")

    def _due(self, asked: AskedEval) -> bool:
        """Whether a history is complete, and to be held against fresh trials."""
        top_up = asked.asked.asked
        return bool(self._redraw and top_up.complete and top_up.history.cases)

    def _plan(self, evals: EvalSession) -> list[AskedPrompt]:
        by_suite: dict[Suite, list[PlannedCase]] = {}
        for planned in evals.plan.cases:
            by_suite.setdefault(planned.suite, []).append(planned)
        found: dict[str, AskedPrompt] = {}
        for suite, cases in by_suite.items():
            name = suite.prompt.name
            if name not in found:
                known, older = baseline_of(self._project, suite)
                found[name] = AskedPrompt(
                    name=name, baseline=known or Baseline(prompt=name), older=older
                )
            key = key_of(suite)
            prompt = found[name]
            if any(not one.asked.asked.history.key.differences(key) for one in prompt.suites):
                continue  # another eval measures the very same
            asked = AskedSuite(asked=self._top_up(suite, prompt.baseline), cases=tuple(cases))
            anchor = ask_anchor(
                suite,
                cases,
                prompt.baseline,
                asked.asked,
                setting=self._project.settings.gate.anchor,
                policy=self._policy(len(suite.dataset)),
                now=self._now,
            )
            prompt.suites.append(AskedEval(suite=suite, asked=asked, anchor=anchor))
        return list(found.values())

    def _top_up(self, suite: Suite, baseline: Baseline, *, anew: bool = False) -> TopUp:
        return top_up(
            baseline,
            key_of(suite),
            version=str(suite.prompt.version or ""),
            cases={case.id: case.digest for case in suite.dataset},
            now=self._now,
            policy=self._policy(len(suite.dataset)),
            critical={case.id for case in suite.dataset if case.tier == "critical"},
            anew=anew,
        )

    def _estimate(self, evals: EvalSession, prompt: AskedPrompt, asked: AskedEval) -> None:
        """Say what this session draws, before the first call."""
        suite, one = asked.suite, asked.asked
        again = self._due(asked)
        draws = (
            [
                Draw(planned, stored_number("main", nth))
                for nth in range(self._redraw)
                for planned in self._today(one.cases)
            ]
            if again
            else draws_of(one)
        )
        bill = self._bill(evals, draws)
        cases = len(one.cases) if again else len(one.asked.wanted)
        self._estimates.append(
            {
                "prompt": prompt.name,
                "model": str(suite.model),
                "cases": cases,
                "redraw": again,
                "trials": len(draws),
                "calls": bill.calls,
                "judge_calls": bill.judge_calls,
                "tokens": bill.tokens,
                "cost_usd": bill.cost_usd,
                "waits_h": one.asked.waits_h,
            }
        )
        label = f"{prompt.name}@{suite.prompt.version or '-'} ({suite.model})"
        if one.asked.waits_h:
            self._say(
                f"{label}: no trial is drawn, sessions are {self._apart()} apart; the next may"
                f" begin in {one.asked.waits_h:.1f} h, or now with --force-session"
            )
        elif not draws:
            self._say(f"{label}: complete, {summary(one.asked.history)}")
        else:
            judged = f" + about {bill.judge_calls} of judges" if bill.judge_calls else ""
            fresh = "complete, held against " if again else ""
            self._say(
                f"{label}: {fresh}{plural(len(draws), 'trial')} of {plural(cases, 'case')},"
                f" {plural(bill.calls, 'call')}{judged}: about {quantity(bill.tokens)} tokens,"
                f" {money(bill.cost_usd)}"
            )

        if asked.anchor is not None and asked.anchor.asked is not None:
            self._estimate_anchor(evals, prompt, asked.anchor, asked.anchor.asked)

    def _estimate_anchor(
        self, evals: EvalSession, prompt: AskedPrompt, anchor: AskedAnchor, asked: AskedSuite
    ) -> None:
        draws = draws_of(asked)
        if not draws:
            return
        bill = self._bill(evals, draws)
        self._estimates.append(
            {
                "prompt": prompt.name,
                "anchor": anchor.version,
                "model": asked.asked.history.key.model,
                "cases": len(asked.asked.wanted),
                "trials": len(draws),
                "calls": bill.calls,
                "judge_calls": bill.judge_calls,
                "tokens": bill.tokens,
                "cost_usd": bill.cost_usd,
            }
        )
        self._say(
            f"  and its anchor {anchor.version}: {plural(len(draws), 'trial')},"
            f" {plural(bill.calls, 'call')}"
            + (f" + about {bill.judge_calls} of judges" if bill.judge_calls else "")
            + f": about {quantity(bill.tokens)} tokens, {money(bill.cost_usd)}"
        )

    def _bill(self, evals: EvalSession, draws: list[Draw]) -> Bill:
        """What draws take that have no completion yet."""
        return bill_draws([x for x in draws if not evals.answers.has(x.planned, x.key)], evals)

    def _after(self, one: AskedEval) -> tuple[StoredHistory, TopUp]:
        """The history with the trials of this session, and what it still lacks."""
        top, landed = one.asked.asked, one.landed
        history = applied(top, landed.facts, now=self._now, served=landed.served)
        history = replace(history, audited=one.audited)
        known = Baseline(prompt=one.suite.prompt.name, histories=(history,))
        return history, self._top_up(one.suite, known)

    def _keep(self, prompt: AskedPrompt) -> None:
        """Write the baseline of a prompt, and compare it with the version before."""
        updated: list[tuple[StoredHistory, bool]] = []
        lacking: list[str] = []
        for one in prompt.suites:
            history, after = self._after(one)
            updated.append((history, after.complete))
            lacking.append("" if after.complete else self._lacking(after))
        path = baseline_path(self._project, prompt.name)
        anchors = [one.anchor for one in prompt.suites if one.anchor is not None]
        baseline = merged(
            prompt.baseline,
            updated,
            anchors=[anchor.stored for anchor in anchors if anchor.stored is not None],
            anchor_versions={anchor.version for anchor in anchors},
        )
        written = bool(baseline.histories) and save_baseline(path, baseline)
        if written and prompt.older is not None:
            prompt.older.unlink(missing_ok=True)
        shown = str(self._project.relative(path))
        for one, (history, complete), lacks in zip(prompt.suites, updated, lacking, strict=True):
            wanted = one.asked.asked.wanted
            before = prompt.baseline.before(history.key) if wanted else None
            changes = (
                changes_between(
                    before, history, accepted=accepted_since(one.suite.prompt, before.version)
                )
                if before is not None
                else ()
            )
            done = Done(
                prompt=prompt.name,
                history=history,
                drawn=sum(len(trials) for trials in one.landed.facts.values()),
                complete=complete,
                lacking=lacks,
                waits_h=one.asked.asked.waits_h,
                written=shown if written else "",
                changes=changes,
                landed=one.landed,
                drift=one.drift,
                redrawn=one.redrawn,
                audit=one.audit,
                anchor=one.anchor,
            )
            self._done.append(done)
            self._tell(done, before)

    def _lacking(self, after: TopUp) -> str:
        apart = f", {self._apart()} apart" if after.sessions > 1 else f" in {self._apart()}"
        return f"{plural(after.sessions, 'more session', 'more sessions')}{apart}"

    def _apart(self) -> str:
        hours = self._policy(1).apart_h
        return "an hour" if hours == 1 else f"{hours:g} h"

    def _tell(self, done: Done, before: StoredHistory | None) -> None:
        for line in done.lines(before):
            self._say(line)
        self.unmeasured += done.unmeasured()

    def _say(self, text: str) -> None:
        if not self._quiet:
            echo(text)
