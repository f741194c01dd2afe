"""One session of `regauge baseline update`: plan, estimate, draw, keep, compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._baseline_text import uncommitted_notes
from regauge.cli._terminal import counted, echo
from regauge.gate.baselines import (
    AskedSuite,
    Baseline,
    accepted_since,
    applied,
    baseline_path,
    changes_between,
    draw_trials,
    draws_of,
    key_of,
    load_baseline,
    merged,
    save_baseline,
    top_up,
)
from regauge.reports import money, progress_line, quantity
from regauge.runner import Plan, missing_answers

if TYPE_CHECKING:
    from regauge.gate.baselines import CellChange, LandedSuite, StoredHistory, TopUpPolicy
    from regauge.project import Project
    from regauge.runner import EvalSession, PlannedCase, Suite

__all__ = ["BaselineUpdate"]


@dataclass(slots=True, kw_only=True)
class _Prompt:
    """What the command knows of one prompt."""

    name: str
    baseline: Baseline
    suites: list[tuple[Suite, AskedSuite]] = field(default_factory=list["tuple[Suite, AskedSuite]"])


@dataclass(slots=True, kw_only=True)
class _Done:
    """What came of one eval of a prompt."""

    prompt: str
    history: StoredHistory
    drawn: int
    complete: bool
    waits_h: float
    written: str
    changes: tuple[CellChange, ...]
    landed: LandedSuite

    def to_json(self) -> dict[str, Any]:
        key = self.history.key
        return {
            "prompt": self.prompt,
            "version": self.history.version,
            "prompt_digest": key.prompt,
            "model": key.model,
            "dataset": key.dataset,
            "drawn": self.drawn,
            "unmeasured": self.landed.unmeasured.total(),
            "complete": self.complete,
            "waits_h": self.waits_h,
            "sessions": len(self.history.sessions),
            "file": self.written,
            "changes": [
                {
                    "case": change.case,
                    "check": change.check,
                    "direction": change.direction,
                    "before": {"passed": change.before.passed, "trials": change.before.trials},
                    "now": {"passed": change.now.passed, "trials": change.now.trials},
                    "e_value": change.e_value,
                    "bound": change.bound,
                }
                for change in self.changes
            ],
        }


class BaselineUpdate:
    """Runs the command and remembers what came of it.

    Args:
        project: Whose baselines.
        policy: How histories are filled.
        dry_run: Whether only the estimate is made.
        quiet: Whether nothing but errors is printed.
    """

    def __init__(
        self, project: Project, policy: TopUpPolicy, *, dry_run: bool, quiet: bool
    ) -> None:
        self._project = project
        self._policy = policy
        self._dry_run = dry_run
        self._quiet = quiet
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._done: list[_Done] = []
        self._estimates: list[dict[str, Any]] = []
        self.unmeasured: list[str] = []

    @property
    def worse(self) -> bool:
        """Whether a case fares worse than with the version before."""
        return any(change.direction == "worse" for one in self._done for change in one.changes)

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
        asked = [suite for prompt in prompts for _, suite in prompt.suites]
        for prompt in prompts:
            for suite, one in prompt.suites:
                self._estimate(evals, prompt, suite, one)
        for note in uncommitted_notes(
            self._project, [suite.prompt for prompt in prompts for suite, _ in prompt.suites]
        ):
            self._say(note)
        if self._dry_run:
            return
        try:
            landed = draw_trials(
                asked,
                session=evals,
                waiting=lambda progress: click.echo(
                    progress_line(progress, evals.budget), err=True
                ),
            )
        finally:
            evals.close()
        at = iter(landed)
        for prompt in prompts:
            self._keep(prompt, [(suite, one, next(at)) for suite, one in prompt.suites])

    def _plan(self, evals: EvalSession) -> list[_Prompt]:
        by_suite: dict[Suite, list[PlannedCase]] = {}
        for planned in evals.plan.cases:
            by_suite.setdefault(planned.suite, []).append(planned)
        found: dict[str, _Prompt] = {}
        for suite, cases in by_suite.items():
            name = suite.prompt.name
            if name not in found:
                path = baseline_path(self._project, name)
                known = load_baseline(path, shown=self._project.relative(path))
                found[name] = _Prompt(name=name, baseline=known or Baseline(prompt=name))
            key = key_of(suite)
            if any(not one.asked.history.key.differences(key) for _, one in found[name].suites):
                continue  # another eval measures the very same
            asked = top_up(
                found[name].baseline,
                key,
                version=str(suite.prompt.version or ""),
                cases={case.id: case.digest for case in suite.dataset},
                now=self._now,
                policy=self._policy,
                critical={case.id for case in suite.dataset if case.tier == "critical"},
            )
            found[name].suites.append((suite, AskedSuite(asked=asked, cases=tuple(cases))))
        return list(found.values())

    def _estimate(self, evals: EvalSession, prompt: _Prompt, suite: Suite, one: AskedSuite) -> None:
        """Say what this session draws, before the first call."""
        draws = draws_of(one)
        missing = [d for d in draws if not evals.answers.has(d.planned, d.key)]
        plan = Plan(cases=one.cases, missing=missing)
        costs = missing_answers(plan, evals.answers, self._project.settings, options=evals.options)
        tokens = sum(cost.tokens for cost in costs)
        prices = [cost.cost_usd for cost in costs]
        cost_usd = None if None in prices else sum(price for price in prices if price is not None)
        self._estimates.append(
            {
                "prompt": prompt.name,
                "model": str(suite.model),
                "cases": len(one.asked.wanted),
                "trials": len(draws),
                "calls": len(missing),
                "tokens": tokens,
                "cost_usd": cost_usd,
                "waits_h": one.asked.waits_h,
            }
        )
        label = f"{prompt.name}@{suite.prompt.version or '-'} ({suite.model})"
        if one.asked.waits_h:
            self._say(
                f"{label}: the next session may begin in {one.asked.waits_h:.1f} h;"
                " --force-session begins it now"
            )
        elif not draws:
            self._say(f"{label}: complete, {_summary(one.asked.history)}")
        else:
            judged = " and what judges ask" if suite.model_judges else ""
            self._say(
                f"{label}: {counted(len(draws), 'trial')} of"
                f" {counted(len(one.asked.wanted), 'case')},"
                f" {counted(len(missing), 'call')}{judged}: about {quantity(tokens)} tokens,"
                f" {money(cost_usd)}"
            )

    def _keep(self, prompt: _Prompt, landed: list[tuple[Suite, AskedSuite, LandedSuite]]) -> None:
        """Write the baseline of a prompt, and compare it with the version before."""
        histories = [
            applied(one.asked, got.facts, now=self._now, served=got.served)
            for _, one, got in landed
        ]
        after = [
            top_up(
                Baseline(prompt=prompt.name, histories=(history,)),
                history.key,
                version=history.version,
                cases=one.asked.digests,
                now=self._now,
                policy=self._policy,
                critical=one.asked.critical,
            )
            for history, (_, one, _) in zip(histories, landed, strict=True)
        ]
        updated = [(history, left.complete) for history, left in zip(histories, after, strict=True)]
        path = baseline_path(self._project, prompt.name)
        baseline = merged(prompt.baseline, updated)
        written = bool(baseline.histories) and save_baseline(path, baseline)
        shown = str(self._project.relative(path))
        for (suite, one, got), (history, complete) in zip(landed, updated, strict=True):
            before = prompt.baseline.before(history.key) if one.asked.wanted else None
            changes = (
                changes_between(
                    before, history, accepted=accepted_since(suite.prompt, before.version)
                )
                if before is not None
                else ()
            )
            done = _Done(
                prompt=prompt.name,
                history=history,
                drawn=sum(len(trials) for trials in got.facts.values()),
                complete=complete,
                waits_h=one.asked.waits_h,
                written=shown if written else "",
                changes=changes,
                landed=got,
            )
            self._done.append(done)
            self._tell(done, before)

    def _tell(self, done: _Done, before: StoredHistory | None) -> None:
        if done.drawn:
            state = "complete" if done.complete else "not complete yet"
            self._say(f"{done.prompt}: {_summary(done.history)}, {state}")
        if before is not None:
            self._say(f"  compared with {before.version or before.key.prompt[:12]}:")
            for change in done.changes:
                self._say(f"  {change}")
            if not done.changes:
                self._say("  no case surely fares otherwise")
        if done.written:
            self._say(f"  wrote {done.written}: commit it")
        if done.landed.unmeasured:
            cases = sorted(done.landed.unmeasured_cases)
            named = ", ".join(cases[:5]) + (", ..." if len(cases) > 5 else "")  # noqa: PLR2004  # a line's worth
            self.unmeasured += [
                f"{done.prompt}: {_trials_do(count)} not count: {why}"
                for why, count in done.landed.unmeasured.most_common(3)
            ]
            self.unmeasured.append(f"  cases: {named}")

    def _say(self, text: str) -> None:
        if not self._quiet:
            echo(text)


def _summary(history: StoredHistory) -> str:
    drawn = [len(case.drawn) for case in history.cases.values()]
    if not drawn:
        return "no trials"
    least, most = min(drawn), max(drawn)
    trials = counted(most, "trial") if least == most else f"{least} to {most} trials"
    sessions = counted(len(history.sessions), "session")
    return f"{counted(len(drawn), 'case')} with {trials} each from {sessions}"


def _trials_do(count: int) -> str:
    return "1 trial does" if count == 1 else f"{count} trials do"
