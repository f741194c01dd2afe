"""`pytest evals --suggest`: after a failed run, what small revision would repair it."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regauge.errors import RegaugeError
from regauge.model_id import is_simulated
from regauge.refine.refinement import Refinement, RunOptions
from regauge.refine.report import evidence_lines, headline
from regauge.refine.runs import begin_run, only_one, recall, remember_status
from regauge.refine.subject import declared_goals
from regauge.reports import StyledLine, Suggestion
from regauge.runner import EvalSession, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.runner import EvalResult, Suite

# A suggestion comes at the end of a test run: a fix or two, with a diff that one screen holds.
_CYCLES = 2
_DIFF_LINES_MAX = 40


class Suggesting:
    """Looks for repairs of the prompts that failed, one after the other, within what is left.

    Args:
        session: Of the run; it is over by the time anything is looked for.
        cycles: Rounds of edit and test for each prompt; None is a small number.
        again: Makes the suite of an eval again, for another session.
    """

    def __init__(
        self,
        session: EvalSession,
        *,
        cycles: int | None,
        again: Callable[[EvalSession, Suite], Suite],
    ) -> None:
        self._session = session
        self._cycles = cycles or _CYCLES
        self._again = again
        self._failed: dict[str, Suite] = {}

    def note(self, result: EvalResult) -> None:
        """Remember a prompt whose case failed; tracked cases do not count."""
        if result.outcome == "failed" and result.case.tier != "tracked":
            self._failed.setdefault(result.suite.prompt.name, result.suite)

    def made(self, say: Callable[[str], None]) -> list[Suggestion]:
        """A suggestion for every prompt that failed; a reason is printed where none can be made."""
        spent = self._session.budget.spent_usd
        made: list[Suggestion] = []
        for name, suite in sorted(self._failed.items()):
            say(f"{name}: looking for a small revision that fixes it")
            try:
                made.append(self._one(name, suite, spent))
            except RegaugeError as error:
                made.append(Suggestion(prompt=name, headline=f"{name}: {error}", stop="error"))
            spent += made[-1].usd
        return made

    def _one(self, name: str, suite: Suite, spent: float) -> Suggestion:
        options, project = self._session.options, self._session.project
        if options.record == "none" and not is_simulated(str(suite.model)):
            return Suggestion(
                prompt=name,
                stop="record-none",
                headline=f"{name}: no suggestion, as --record=none asks no model"
                f" (regauge refine {name} would)",
            )
        left = None if options.budget_usd is None else max(0.0, options.budget_usd - spent)
        evals = EvalSession(
            project,
            replace(options, record="missing", budget_usd=left),
            environ=os.environ,
        )
        try:
            again = self._again(evals, suite)
            refinement = Refinement(
                evals,
                [PlannedCase(again, case) for case in again.dataset],
                _options(evals, name, self._cycles, left),
                lambda key: recall(project, name, key),
            )
            refinement.check_calls()
            facts: dict[str, Any] = {
                "command": ["pytest", "--suggest"],
                "evals": "",
                "words": ["--record=missing"],
                "file": str(project.relative(refinement.subject.prompt.path)),
                "options": refinement.options.to_json(),
            }
            with only_one(project, name, "pytest --suggest"):
                run = begin_run(project, name, facts)
                state = refinement.run(run, lambda _: None)
                today = datetime.now(UTC).date().isoformat()
                result = refinement.finish(run, state, date=today)
                remember_status(run, state)
        finally:
            evals.close()
        return _suggestion(result, run.markdown.read_text(encoding="utf-8"))


def suggestion_lines(suggestions: list[Suggestion]) -> list[StyledLine]:
    """The lines of the summary on suggestions."""
    lines: list[StyledLine] = []
    for suggestion in suggestions:
        lines.append(
            StyledLine(f"suggestion: {suggestion.headline}", "good" if suggestion.diff else "plain")
        )
        diff = suggestion.diff.splitlines()
        lines += [StyledLine(f"  {line}", _tone(line)) for line in diff[:_DIFF_LINES_MAX]]
        if len(diff) > _DIFF_LINES_MAX:
            lines.append(StyledLine(f"  ... {len(diff) - _DIFF_LINES_MAX} more lines", "quiet"))
        lines += [StyledLine(f"  {text}") for text in suggestion.evidence]
        if suggestion.run:
            simulated = " (simulated)" if suggestion.simulated else ""
            lines.append(
                StyledLine(f"  {suggestion.calls} calls{simulated}, ${suggestion.usd:.4f}", "quiet")
            )
            do = "apply" if suggestion.diff else "show"
            lines.append(StyledLine(f"  regauge refine {do} {suggestion.run}", "quiet"))
    return lines


def _tone(line: str) -> Any:
    return {"+": "good", "-": "bad"}.get(line[:1], "quiet")


def _options(evals: EvalSession, prompt: str, cycles: int, usd: float | None) -> RunOptions:
    """The cheapest proposer alone, and few cycles."""
    settings = evals.project.settings.refine
    return RunOptions(
        proposers=("rules",),
        cycles=cycles,
        calls=settings.budget_calls,
        usd=usd,
        frozen=tuple(settings.frozen),
        goals=declared_goals(evals.project, prompt),
    )


def _suggestion(result: Mapping[str, Any], markdown: str) -> Suggestion:
    revision = result["revision"]
    return Suggestion(
        prompt=result["prompt"],
        run=result["run"],
        stop=result["stop"]["reason"],
        headline=headline(result),
        diff=revision["diff"] if revision is not None else "",
        evidence=evidence_lines(result),
        markdown=markdown,
        calls=result["spent"]["calls"],
        usd=result["spent"]["usd"],
        simulated=result["simulated"],
    )
