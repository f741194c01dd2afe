"""The trials of mutants under a change, with those of the gate as their base."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.gate import StoredNumbers, policy_of
from regauge.mutate._classify import ClassificationPolicy
from regauge.mutate._run import MutationProgress, measure
from regauge.mutate._subject import EvalBench, subject_of
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from regauge.gate import CaseReport, GateCase, GateResult, SuiteBase
    from regauge.mutate._operators import Mutant
    from regauge.mutate._types import Case, Classification
    from regauge.prompts import Prompt
    from regauge.runner import EvalSession

_TICK_S = 1.0
# Cases whose status in the gate agrees with the base's record.
_USUAL = frozenset({"passed", "unchanged", "flaky", "known-failing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialClasses:
    """The classes of mutants by id, or the reason why they were not measured."""

    by_id: Mapping[str, Classification] = field(default_factory=dict[str, "Classification"])
    reason: str = ""


@dataclass(kw_only=True)
class GuardTrials:
    """The trials of a prompt's mutants.

    Attributes:
        group: The evals of the prompt.
        on_progress: Called with a line of text every second.
        count: Number of trials so far, including replayed ones.
    """

    session: EvalSession
    decided: GateResult
    prompt: Prompt
    group: Sequence[SuiteBase]
    on_progress: Callable[[str], None]
    count: int = 0

    def run(self, mutants: Sequence[Mutant], only: Collection[str] | None = None) -> TrialClasses:
        """Measure the classes of some mutants.

        Args:
            only: The keys of the cases to run; None runs all.
        """
        if not mutants:
            return TrialClasses()
        if self.decided.decision != "accept":
            return TrialClasses(reason="the gate does not accept the change")
        if any(suite.partial for suite in self.group):
            return TrialClasses(reason="only some cases were selected")
        try:
            return TrialClasses(by_id=run_stoppable(self._measure(mutants, only)))
        except RegaugeError as error:
            return TrialClasses(reason=str(error).partition("\n")[0])

    async def _measure(
        self, mutants: Sequence[Mutant], only: Collection[str] | None
    ) -> dict[str, Classification]:
        planned_cases = [case for suite in self.group for case in suite.planned_cases]
        subject = subject_of(self.session, planned_cases, self.prompt.name)
        cases = self._with_records(subject.cases)
        gate = replace(
            policy_of(self.decided.comparison.base_commit.newest.settings.gate), on_broken="block"
        )
        if only is not None:
            selected_cases = [case for case in cases if case.key in only]
            # These cases get their share of the level of all checks.
            share = len(selected_cases) / len(cases)
            gate = replace(gate, case=replace(gate.case, alpha=gate.case.alpha * share))
            cases = selected_cases
        policy = ClassificationPolicy(gate=gate)
        progress = MutationProgress()
        ticker = asyncio.ensure_future(self._tick(progress))
        numbers = StoredNumbers(self.session)
        try:
            async with self.session.open_trials() as trials:
                with closing(EvalBench(subject, trials, numbers.of_candidate)) as bench:
                    measurement = await measure(
                        self.prompt, mutants, cases, bench, policy, progress=progress
                    )
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
        self.count += measurement.calls + measurement.base_calls
        return {result.mutant.id: result.outcome for result in measurement.results}

    def _with_records(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases with the base's record, if the gate found no evidence against it.

        The change's own baseline does not count. Without a record, trials of the gate are used.
        """
        reports = {
            comparison.case.key: (comparison.case, _is_usual(report))
            for comparison, report in zip(
                self.decided.compared_cases, self.decided.outcome.cases, strict=True
            )
        }
        return with_base_records(cases, self.group, reports)

    async def _tick(self, progress: MutationProgress) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.on_progress(
                f"regauge gate: {progress.done} of {plural(progress.mutants, 'changed line')} of"
                f" {self.prompt.name} mutated, {plural(progress.calls, 'trial')}"
            )


def with_base_records(
    cases: Sequence[Case],
    group: Sequence[SuiteBase],
    gate_cases: Mapping[tuple[str, str], tuple[GateCase, bool]],
) -> list[Case]:
    """Return the cases with the base's record.

    Args:
        cases: Those of all evals of the group, in their order.
        gate_cases: Each case of the gate, and whether the base's record is valid for the change.
    """
    case_names = [(suite, member.case.id) for suite in group for member in suite.planned_cases]
    cases_with_base: list[Case] = []
    for case, (suite, id_) in zip(cases, case_names, strict=True):
        gate_case, is_valid = gate_cases[suite.name, id_]
        baseline = gate_case.baseline if is_valid else None
        baseline_case = suite.baseline.cases.get(id_) if suite.baseline is not None else None
        case_with_base = case.with_baseline(
            baseline, baseline_case.output_digests if baseline_case else ()
        )
        cases_with_base.append(
            replace(case_with_base, tier=gate_case.tier, strict=gate_case.strict)
        )
    return cases_with_base


def _is_usual(report: CaseReport) -> bool:
    """Return whether the base's record of a case is also valid for the change."""
    fixed = report.candidate.passed and report.before.passed <= report.before.failed
    return report.status in _USUAL and not fixed
