"""Suggestions at the end of a pytest run: a small revision for each failed prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from regauge.errors import RegaugeError
from regauge.model_id import is_simulated
from regauge.refine.delivery import evidence_lines, headline
from regauge.refine.refinement import Refinement, RefineOptions
from regauge.refine.runs import begin_run, lock_prompt
from regauge.refine.subject import goals_for
from regauge.reports import StyledLine, Suggestion
from regauge.runner import EvalSession, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.refine.document import RefinementResult
    from regauge.runner import Eval, EvalResult


# A suggestion ends a test run: one or two fixes, with a diff of at most one screen.
CYCLES = 2
_DIFF_LINES_MAX = 40


@dataclass(slots=True, kw_only=True, eq=False)
class RefinementSearch:
    """The search for fixes of failed prompts, one after the other, within the rest of the budget.

    Attributes:
        session: The session of the finished run.
        cycles: The most cycles of edit and test per prompt.
        rebind: Called with another session and an eval; returns the eval bound to the session.
    """

    session: EvalSession
    cycles: int
    rebind: Callable[[EvalSession, Eval], Eval]
    _failed: dict[str, Eval] = field(default_factory=dict[str, "Eval"])

    def note(self, result: EvalResult) -> None:
        """Add the prompt of a failed case; tracked cases do not count."""
        if result.outcome == "failed" and result.case.tier != "tracked":
            self._failed.setdefault(result.eval.prompt.name, result.eval)

    def suggest(self, print_line: Callable[[str], None]) -> list[Suggestion]:
        """Search a suggestion for every failed prompt; one without a fix has the reason."""
        spent_usd = self.session.budget.finished.usd
        suggestions: list[Suggestion] = []
        for name, eval_ in sorted(self._failed.items()):
            print_line(f"{name}: looking for a small revision that fixes it")
            try:
                suggestions.append(self._suggestion(name, eval_, spent_usd))
            except RegaugeError as error:
                suggestions.append(
                    Suggestion(prompt=name, headline=f"{name}: {error}", stop="error")
                )
            spent_usd += suggestions[-1].usd
        return suggestions

    def _suggestion(self, name: str, eval_: Eval, spent_usd: float) -> Suggestion:
        options, project = self.session.options, self.session.project
        if options.record == "none" and not is_simulated(str(eval_.model)):
            return Suggestion(
                prompt=name,
                stop="record-none",
                headline=f"{name}: no suggestion, as --record=none calls no model"
                f" (regauge refine {quote(name)} would)",
            )
        left_usd = None if options.budget_usd is None else max(0.0, options.budget_usd - spent_usd)
        own_options = replace(options, record="missing", budget_usd=left_usd)
        evals = EvalSession(project, own_options, environ=os.environ)
        try:
            rebound_eval = self.rebind(evals, eval_)
            refinement = Refinement(
                evals,
                [PlannedCase(rebound_eval, case) for case in rebound_eval.dataset],
                _options(evals, name, self.cycles, left_usd),
                use_attempts=True,
            )
            refinement.check_calls()
            facts: dict[str, Any] = {
                "command": ["pytest", "--suggest"],
                "evals": "",
                "words": ["--record=missing"],
                "file": str(project.relative(refinement.subject.prompt.path)),
                "options": refinement.options.to_json(),
            }
            with lock_prompt(project, name, "pytest --suggest"):
                run = begin_run(project, name, facts)
                result = refinement.finish(run, refinement.run(run, lambda _: None))
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
            do = "apply" if suggestion.diff else "show"
            lines += [
                StyledLine(
                    f"  {suggestion.calls} calls{simulated}, ${suggestion.usd:.4f}", "quiet"
                ),
                StyledLine(f"  regauge refine {do} {suggestion.run}", "quiet"),
            ]
    return lines


def _tone(line: str) -> Any:
    return {"+": "good", "-": "bad"}.get(line[:1], "quiet")


def _options(evals: EvalSession, prompt: str, cycles: int, usd: float | None) -> RefineOptions:
    """The options of a search: the cheapest proposer, few cycles."""
    settings = evals.project.settings.refine
    return RefineOptions(
        proposers=("rules",),
        cycles=cycles,
        calls=settings.budget_calls,
        usd=usd,
        frozen=tuple(settings.frozen),
        goals=goals_for(evals.project, prompt),
    )


def _suggestion(result: RefinementResult, markdown: str) -> Suggestion:
    return Suggestion(
        prompt=result.prompt,
        run=result.run,
        stop=result.stop.reason,
        headline=headline(result),
        diff=result.revision.diff if result.revision is not None else "",
        evidence=evidence_lines(result),
        markdown=markdown,
        calls=result.usage.calls,
        usd=result.usage.usd,
        simulated=result.simulated,
    )
