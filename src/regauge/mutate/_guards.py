"""Guards of instructions that a change removes: causes, and trials of mutants under it."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from shlex import quote
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.gate import StoredNumbers, policy_of
from regauge.mutate._classify import ClassificationPolicy
from regauge.mutate._report import mutants_path, parse_mutants, short_digest
from regauge.mutate._run import MutationProgress, measure
from regauge.mutate._subject import EvalBench, subject_of
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.gate import BaseCommit, CaseReport, EvalBase, GateCase, GateResult
    from regauge.mutate._operators import Mutant
    from regauge.mutate._report import Guards, MutantRow
    from regauge.mutate._types import Case, Classification
    from regauge.prompts import Prompt
    from regauge.runner import Eval, EvalSession


# Texts with less similarity are not edits of each other.
_EDITED = 0.5
_TICK_S = 1.0
# Cases whose status in the gate agrees with the base's record.
_USUAL = frozenset({"passed", "unchanged", "flaky", "known-failing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseClasses:
    """The committed classes of the mutants of a base.

    Attributes:
        rows: By id; empty if they hold for another model.
        guards: The cases and judges that they hold for; None if unknown.
        notes: Remarks on them.
        has_file: Whether the base has any.
    """

    rows: Mapping[str, MutantRow] = field(default_factory=dict[str, "MutantRow"])
    guards: Guards | None = None
    notes: tuple[str, ...] = ()
    has_file: bool = False


def load_base_classes(
    base_commit: BaseCommit, prompt: Prompt, base_prompt: Prompt | None, evals: Sequence[Eval]
) -> BaseClasses:
    """Load the committed classes of the base; the change's own file does not count.

    Args:
        prompt: The prompt of the change.
        base_prompt: The same prompt on the base; None if it is new.
        evals: Its evals.
    """
    ref, name = base_commit.ref, base_commit.prompt_name(prompt)
    path = mutants_path(base_commit.project, name)
    data = base_commit.read(path)
    if data is None:
        note = (
            f"{ref} has no {base_commit.project.relative(path)}, so instructions that this change"
            f" leaves as they are have no class; run there: regauge mutate {quote(name)}"
        )
        return BaseClasses(notes=(note,))
    try:
        file = parse_mutants(data.decode(errors="replace"), path, name)
    except RegaugeError as error:
        return BaseClasses(notes=(f"classes of {ref} cannot be read: {error}".split("\n")[0],))
    prompt_models = [eval_.model for eval_ in evals if eval_.target is None]
    model = str((prompt_models or [evals[0].model])[0])
    if file.model != model:
        note = f"classes of {ref} hold for {file.model}, not for {model}"
        return BaseClasses(notes=(note,), has_file=True)
    rows = {row.id: row for row in file.mutants}
    classes = BaseClasses(rows=rows, guards=file.guards, has_file=True)
    if base_prompt is None or file.digest == base_prompt.digest:
        return classes
    command = f"regauge mutate {quote(file.prompt)}"
    note = f"classes of {ref} are older than its prompt; run there: {command}"
    return replace(classes, notes=(note,))


def loss_causes(
    row: MutantRow,
    cases: Mapping[str, GoldenCase],
    judges: Mapping[str, str] | None,
    guards: Guards | None,
) -> tuple[str, ...]:
    """Return what removed the guard of a killed mutant; empty if it is still guarded.

    A mutant ends at the first cases that break, so no other guards are known.

    Args:
        judges: The digests of this side's judges by name; None if unknown.
    """
    if row.kind != "killed" or guards is None:
        return ()
    causes = {key: _cause_of_case(row, key, cases.get(key), guards) for key in row.cases}
    lost_cases = [f"{cause} {key}" for key, cause in causes.items() if cause]
    changed_judges = [
        f"{'changes' if name in judges else 'removes'} judge {name}"
        for name in row.judges
        if judges is not None and judges.get(name, "") != guards.judges.get(name, judges.get(name))
    ]
    # A remaining judge may have failed another case.
    has_no_judge = changed_judges and (len(changed_judges) == len(row.judges) or len(row.cases) > 1)
    if has_no_judge or (lost_cases and len(lost_cases) == len(row.cases)):
        return (*lost_cases, *changed_judges)
    return ()


def is_reduced(before: Mapping[str, GoldenCase], now: Mapping[str, GoldenCase]) -> bool:
    """Return whether cases of the base are deleted, edited or in another tier."""
    return any(
        (case := now.get(key)) is None or (case.digest, case.tier) != (old.digest, old.tier)
        for key, old in before.items()
    )


def _cause_of_case(row: MutantRow, key: str, case: GoldenCase | None, guards: Guards) -> str:
    if case is None:
        return "deletes case"
    if case.tier == "tracked" or (
        row.evidence.get("tier") == "critical" and case.tier != "critical"
    ):
        return f"sets tier = {case.tier} in case"
    digest = short_digest(case.digest)
    return "edits case" if guards.cases.get(key, digest) != digest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdits:
    """The instructions that a change edits, adds and deletes.

    Attributes:
        new: Each edited or added one, after its earlier text; None for an added one.
    """

    new: Sequence[tuple[Mutant | None, Mutant]]
    deleted: Sequence[Mutant]


def pair_edits(old: Sequence[Mutant], new: Sequence[Mutant]) -> TextEdits:
    """Pair the instructions of two texts, the most similar first."""
    pairs = sorted(
        (
            (ratio, before.id, after.id)
            for before in old
            for after in new
            if before.operator == after.operator
            and (ratio := SequenceMatcher(None, before.text, after.text).ratio()) >= _EDITED
        ),
        reverse=True,
    )
    partner: dict[str, str] = {}
    for _, before, after in pairs:
        if after not in partner and before not in partner.values():
            partner[after] = before
    by_id = {mutant.id: mutant for mutant in old}
    return TextEdits(
        new=[(by_id.get(partner.get(mutant.id, "")), mutant) for mutant in new],
        deleted=[mutant for mutant in old if mutant.id not in partner.values()],
    )


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
    group: Sequence[EvalBase]
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
        if any(eval_.partial for eval_ in self.group):
            return TrialClasses(reason="only some cases were selected")
        try:
            return TrialClasses(by_id=run_stoppable(self._measure(mutants, only)))
        except RegaugeError as error:
            return TrialClasses(reason=str(error).partition("\n")[0])

    async def _measure(
        self, mutants: Sequence[Mutant], only: Collection[str] | None
    ) -> dict[str, Classification]:
        planned_cases = [case for eval_ in self.group for case in eval_.planned_cases]
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
    group: Sequence[EvalBase],
    gate_cases: Mapping[tuple[str, str], tuple[GateCase, bool]],
) -> list[Case]:
    """Return the cases with the base's record.

    Args:
        cases: Those of all evals of the group, in their order.
        gate_cases: Each case of the gate, and whether the base's record is valid for the change.
    """
    case_names = [(eval_, member.case.id) for eval_ in group for member in eval_.planned_cases]
    cases_with_base: list[Case] = []
    for case, (eval_, id_) in zip(cases, case_names, strict=True):
        gate_case, is_valid = gate_cases[eval_.name, id_]
        baseline = gate_case.baseline if is_valid else None
        baseline_case = eval_.baseline.cases.get(id_) if eval_.baseline is not None else None
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
