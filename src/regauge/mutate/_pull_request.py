"""The instructions that lose or gain a guard by a change of a prompt, its cases or its judges.

Classes of unchanged text are the committed ones of the base. Changed text is measured with the
trials of the gate as its base, so only mutants are run.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import RegaugeError
from regauge.gate import (
    REVISION_FIRST,
    Bill,
    StoredNumbers,
    bill_trials,
    collect_compared_cases,
    policy_of,
)
from regauge.mutate._classify import ClassificationPolicy
from regauge.mutate._operators import choose_operators, mutants_of
from regauge.mutate._report import judge_digests, mutants_path, parse_mutants, short_digest
from regauge.mutate._run import MutationProgress, estimate_calls, measure
from regauge.mutate._subject import EvalBench, member_key, subject_of
from regauge.runner import PlannedTrial
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import Dataset, GoldenCase
    from regauge.gate import BaseCommit, CaseReport, Comparison, GateCase, GateResult, SuiteBase
    from regauge.mutate._operators import Mutant, Operator
    from regauge.mutate._report import Guards, MutantRow, MutantsFile
    from regauge.mutate._types import Case, Classification, MutantClass
    from regauge.prompts import Prompt
    from regauge.runner import Eval, EvalSession

# Texts with less similarity are not edits of each other.
_EDITED = 0.5
_TICK_S = 1.0
_UNGUARDED = frozenset({"survived", "no-effect", "harmful"})
# Cases whose status in the gate agrees with the base's record.
_USUAL = frozenset({"passed", "unchanged", "flaky", "known-failing"})


ChangeKind: TypeAlias = Literal["deleted", "added", "edited", "unguarded", "guarded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardChange:
    """An instruction that a change deletes, adds, edits, guards, or leaves unguarded.

    Attributes:
        line: The line in the prompt file; in the base's file for a deleted instruction.
        before: Its class on the base; None if unknown or new.
        after: Its class now; None if not measured or deleted.
        causes: What removed its guard, such as `deletes case X`.
        cases: The cases that guard it now, that changed, or that improved; for a deleted
            instruction, the cases that guarded it.
        reason: The reason if it was not measured.
    """

    kind: ChangeKind
    line: int
    text: str
    before: MutantClass | None = None
    after: MutantClass | None = None
    causes: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCount:
    """The number of guarded instructions of a prompt.

    Attributes:
        total: All except equivalent ones.
        open: Those that are undecided or not measured.
    """

    guarded: int
    total: int
    open: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGuards:
    """The guarded instructions of a prompt under a change, next to those of its base.

    Attributes:
        suite: The first of its evals, by its name in the gate.
        base: None if the base has no committed classes.
        trials: Number of trials of mutants for the change, including replayed ones.
        notes: Remarks on the counts.
        floor: The minimum share of guarded instructions, in the base's settings.
    """

    prompt: str
    suite: str
    now: GuardCount
    base: GuardCount | None
    changes: tuple[GuardChange, ...]
    trials: int = 0
    notes: tuple[str, ...] = ()
    floor: float | None = None

    @property
    def below(self) -> Literal["", "floor", "open"]:
        """`floor` if the share is below the floor, `open` if mutants without a class decide it."""
        if self.floor is None or not self.now.total:
            return ""
        least = self.floor * self.now.total
        if self.now.guarded + self.now.open < least:
            return "floor"
        return "open" if self.now.guarded < least else ""


def changed_guards(
    session: EvalSession, decided: GateResult, *, on_progress: Callable[[str], None]
) -> list[ChangedGuards]:
    """Return the guarded instructions under a gated change, for each prompt that it touches.

    Mutants are only run if the change is accepted so far; Ctrl-C keeps every trial.

    Args:
        on_progress: Called with a line of text every second while models run.
    """
    changes = _changes(session, decided.comparison)
    measured = (
        change.guards(_Measurement(session, decided, change, on_progress)) for change in changes
    )
    return [guards for guards in measured if guards is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEstimate:
    """The mutants that a gate will measure if it accepts a change of a prompt.

    Attributes:
        mutants: Number of mutants.
        bill: The estimated trials and cost.
    """

    prompt: str
    mutants: int
    bill: Bill


def estimate_guards(session: EvalSession, comparison: Comparison) -> list[GuardEstimate]:
    """Estimate the trials of mutants under a change, before any trial."""
    estimates = (change.estimate() for change in _changes(session, comparison))
    return [estimate for estimate in estimates if estimate is not None]


def _changes(session: EvalSession, comparison: Comparison) -> list[_Change]:
    """Return each prompt with its evals; empty if the base's settings turn mutants off."""
    base = comparison.base_commit
    groups: dict[Path, tuple[Prompt, list[SuiteBase]]] = {}
    if not base.newest.settings.mutate.pull_request:
        return []
    for suite in comparison.suites:
        target = suite.candidate.target
        for prompt in (suite.candidate.prompt,) if target is None else target.prompts:
            groups.setdefault(prompt.path, (prompt, []))[1].append(suite)
    return [_Change(session, base, prompt, group) for prompt, group in groups.values()]


@dataclass(slots=True)
class _Classes:
    """The mutants of one side that count, each with its class."""

    mutants: dict[str, Mutant]
    kinds: dict[str, MutantClass | None] = field(default_factory=dict[str, "MutantClass | None"])

    def count(self) -> GuardCount:
        kinds = [self.kinds.get(id_) for id_ in self.mutants]
        counted_kinds = [kind for kind in kinds if kind != "equivalent"]
        return GuardCount(
            guarded=counted_kinds.count("killed"),
            total=len(counted_kinds),
            open=counted_kinds.count(None) + counted_kinds.count("undecided"),
        )


class _Change:
    """One prompt with its evals, and the effect of a change on its guards before any trial.

    Attributes:
        rows: The committed rows of the base, by id.
        edits: Deleted, edited and added instructions, each with its earlier text.
        causes: By instruction id, what removed its guard.
        changed_mutants: The mutants that are measured on all cases.
        candidates: Instructions without a guard that new or edited cases may guard.
        new_cases: The keys of these cases.
    """

    def __init__(
        self,
        session: EvalSession,
        base_commit: BaseCommit,
        prompt: Prompt,
        group: Sequence[SuiteBase],
    ) -> None:
        self.prompt, self.group = prompt, group
        self._session, self._base_commit = session, base_commit
        self._settings = base_commit.newest.settings
        self._suites = [suite.candidate for suite in group]
        self._notes: list[str] = []
        base_prompt = base_commit.prompt(prompt)
        operators = choose_operators(
            self._settings.mutate.operators,
            warn=lambda text: self._notes.append(" ".join(text.split())),
        )
        self.head = _Classes(_scored_mutants(prompt, operators))
        self.base = _Classes(_scored_mutants(base_prompt, operators) if base_prompt else {})
        file = self._load_base_file()
        self.has_file = file is not None
        self.rows = self._rows(file, base_prompt)
        name = base_commit.prompt_name(prompt)
        before = _by_key(
            (s, base_commit.dataset(s.dataset, prompt=name) or s.dataset) for s in self._suites
        )
        now = _by_key((suite, suite.dataset) for suite in self._suites)
        self.causes = self._note_classes(file, before, now)
        self.new_cases = frozenset(
            key
            for key, case in now.items()
            if (old := before.get(key)) is None or old.digest != case.digest
        )
        head, base = self.head.mutants, self.base.mutants
        self.edits = _edits(
            [mutant for id_, mutant in base.items() if id_ not in head],
            [mutant for id_, mutant in head.items() if id_ not in base],
        )
        new = [after for _, after in self.edits if after is not None]
        self.changed_mutants = [*new, *(head[id_] for id_ in self.causes)]
        self.candidates = [
            mutant
            for id_, mutant in head.items()
            if self.new_cases and self.head.kinds.get(id_) in _UNGUARDED
        ]

    def _note_classes(
        self,
        file: MutantsFile | None,
        before: Mapping[str, GoldenCase],
        now: Mapping[str, GoldenCase],
    ) -> dict[str, tuple[str, ...]]:
        """Store the committed classes of both sides; return what removed guards of the head."""
        guards = file.guards if file is not None else None
        judges = judge_digests(self._suites)
        reduced = _is_reduced(before, now)
        causes: dict[str, tuple[str, ...]] = {}
        for id_, row in self.rows.items():
            if _loss_causes(row, before, None, guards):
                continue  # the base itself has lost the guard
            self.base.kinds[id_] = row.kind
            lost_causes = _loss_causes(row, now, judges, guards)
            if row.kind == "killed" and not row.cases and reduced:
                lost_causes = ("changes cases of the suite",)
            if not lost_causes:
                self.head.kinds[id_] = row.kind
            elif id_ in self.head.mutants:
                causes[id_] = lost_causes
        return causes

    def estimate(self) -> GuardEstimate | None:
        """Estimate the mutants to measure; None without any."""
        planned_cases = [trial_bill for member in self.group for trial_bill in member.planned_cases]
        if not (self.changed_mutants or self.candidates) or any(
            member.partial for member in self.group
        ):
            return None
        subject = subject_of(self._session, planned_cases, self.prompt.name)
        kinds = {id_: row.kind for id_, row in self.rows.items() if id_ not in self.causes}
        gate_cases = {
            member.case.key: (member.case, True) for member in collect_compared_cases(self.group)
        }
        cases = _with_base(subject.cases, self.group, gate_cases)
        trials = estimate_calls(self.prompt, self.changed_mutants, cases, kinds)
        new_cases = [case for case in cases if case.key in self.new_cases]
        trials += estimate_calls(self.prompt, self.candidates, new_cases, kinds)
        draws = [
            PlannedTrial(trial_bill, REVISION_FIRST)
            for trial_bill in subject.members.values()
            if trial_bill.plan()
        ]
        trial_bill = bill_trials(draws, self._session)
        return GuardEstimate(
            prompt=self.prompt.name,
            mutants=len({mutant.id for mutant in (*self.changed_mutants, *self.candidates)}),
            bill=trial_bill.times(trials / len(draws)) if draws else Bill(trials=trials),
        )

    def guards(self, measurement: _Measurement) -> ChangedGuards | None:
        """Return the guards under the change; None if they are unchanged."""
        head, base = self.head, self.base
        new_guards = {
            id_: result
            for id_, result in measurement.run(self.candidates, self.new_cases)[0].items()
            if result.kind == "killed"
        }
        if not self.edits and not self.causes and not new_guards:
            return None
        classes, reason = measurement.run(self.changed_mutants)
        for id_, result in (*classes.items(), *new_guards.items()):
            head.kinds[id_] = result.kind

        def change(
            kind: ChangeKind,
            mutant: Mutant,
            before: MutantClass | None,
            causes: tuple[str, ...] = (),
        ) -> GuardChange:
            result = new_guards.get(mutant.id) if kind == "guarded" else classes.get(mutant.id)
            is_decided = result is not None and result.kind != "undecided"
            return GuardChange(
                kind=kind,
                line=mutant.place.line,
                text=mutant.text,
                before=before,
                after=result.kind if result is not None and is_decided else None,
                causes=causes,
                cases=result.cases if result is not None and is_decided else (),
                reason="" if is_decided else result.reason if result is not None else reason,
            )

        changes: list[GuardChange] = []
        for old, new in self.edits:
            before = base.kinds.get(old.id) if old is not None else None
            if new is not None:
                changes.append(change("edited" if old is not None else "added", new, before))
            elif old is not None:
                cases = tuple(self.rows[old.id].cases) if before == "killed" else ()
                changes.append(
                    GuardChange(
                        kind="deleted",
                        line=old.place.line,
                        text=old.text,
                        before=before,
                        cases=cases,
                    )
                )
        changes += [
            change("unguarded", head.mutants[id_], base.kinds[id_], lost_causes)
            for id_, lost_causes in self.causes.items()
        ]
        changes += [change("guarded", head.mutants[id_], base.kinds.get(id_)) for id_ in new_guards]
        return ChangedGuards(
            prompt=self.prompt.name,
            suite=self.group[0].name,
            now=head.count(),
            base=base.count() if self.has_file else None,
            changes=tuple(changes),
            trials=measurement.trials,
            notes=tuple(self._notes),
            floor=self._settings.mutate.floor,
        )

    def _load_base_file(self) -> MutantsFile | None:
        """Load the committed classes of the base; the change's own file does not count."""
        name = self._base_commit.prompt_name(self.prompt)
        path = mutants_path(self._base_commit.project, name)
        data = self._base_commit.read(path)
        if data is None:
            self._notes.append(
                f"{self._base_commit.ref} has no {self._base_commit.project.relative(path)}, so"
                " instructions that this change leaves as they are have no class; run there:"
                f" regauge mutate {name}"
            )
            return None
        try:
            return parse_mutants(data.decode(errors="replace"), path, name)
        except RegaugeError as error:
            self._notes.append(
                f"classes of {self._base_commit.ref} cannot be read: {error}".split("\n")[0]
            )
            return None

    def _rows(self, file: MutantsFile | None, base: Prompt | None) -> dict[str, MutantRow]:
        """Return the committed classes by id; empty if they are those of another model."""
        if file is None:
            return {}
        prompt_models = [suite.model for suite in self._suites if suite.target is None]
        model = str((prompt_models or [self._suites[0].model])[0])
        if file.model != model:
            self._notes.append(
                f"classes of {self._base_commit.ref} hold for {file.model}, not for {model}"
            )
            return {}
        if base is not None and file.digest != base.digest:
            self._notes.append(
                f"classes of {self._base_commit.ref} are older than its prompt; run there:"
                f" regauge mutate {file.prompt}"
            )
        return {row.id: row for row in file.mutants}


@dataclass
class _Measurement:
    """The measurement of a prompt's mutants, with the trials of the gate as their base."""

    session: EvalSession
    decided: GateResult
    change: _Change
    on_progress: Callable[[str], None]
    trials: int = 0

    def run(
        self, mutants: Sequence[Mutant], only: Collection[str] | None = None
    ) -> tuple[dict[str, Classification], str]:
        """Return the classes of some mutants, and the reason if they are not measured.

        Args:
            only: The keys of the cases to run; None runs all.
        """
        if not mutants:
            return {}, ""
        if self.decided.decision != "accept":
            return {}, "the gate does not accept the change"
        if any(suite.partial for suite in self.change.group):
            return {}, "only some cases were selected"
        try:
            return run_stoppable(self._measure(mutants, only)), ""
        except RegaugeError as error:
            return {}, str(error).partition("\n")[0]

    async def _measure(
        self, mutants: Sequence[Mutant], only: Collection[str] | None
    ) -> dict[str, Classification]:
        planned_cases = [case for suite in self.change.group for case in suite.planned_cases]
        subject = subject_of(self.session, planned_cases, self.change.prompt.name)
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
                        self.change.prompt, mutants, cases, bench, policy, progress=progress
                    )
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
        self.trials += measurement.calls + measurement.base_calls
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
        return _with_base(cases, self.change.group, reports)

    async def _tick(self, progress: MutationProgress) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.on_progress(
                f"regauge gate: {progress.done} of {plural(progress.mutants, 'changed line')} of"
                f" {self.change.prompt.name} mutated, {plural(progress.calls, 'trial')}"
            )


def _with_base(
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


def _scored_mutants(prompt: Prompt, operators: Sequence[Operator]) -> dict[str, Mutant]:
    return {mutant.id: mutant for mutant in mutants_of(prompt, operators) if mutant.scored}


def _by_key(pairs: Iterable[tuple[Eval, Dataset]]) -> dict[str, GoldenCase]:
    cases: dict[str, GoldenCase] = {}
    for suite, dataset in pairs:
        for case in dataset:
            cases[member_key(case, suite, cases)] = case
    return cases


def _is_usual(report: CaseReport) -> bool:
    """Return whether the base's record of a case is also valid for the change."""
    fixed = report.candidate.passed and report.before.passed <= report.before.failed
    return report.status in _USUAL and not fixed


def _loss_causes(
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


def _is_reduced(before: Mapping[str, GoldenCase], now: Mapping[str, GoldenCase]) -> bool:
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


def _edits(
    old: Sequence[Mutant], new: Sequence[Mutant]
) -> list[tuple[Mutant | None, Mutant | None]]:
    """Return deleted and added instructions; an edited one with its earlier text."""
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
    edits: list[tuple[Mutant | None, Mutant | None]] = [
        (by_id.get(partner.get(mutant.id, "")), mutant) for mutant in new
    ]
    edits += [(mutant, None) for mutant in old if mutant.id not in partner.values()]
    return edits
