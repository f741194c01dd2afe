"""The instructions that lose or gain a guard by a change of a prompt, its cases or its judges.

Classes of unchanged text are the committed ones of the base. Changed text is measured with the
trials of the gate as its base, so only mutants are run.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from shlex import quote
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
    from regauge.gate import BaseCommit, CaseReport, Comparison, EvalBase, GateCase, GateResult
    from regauge.mutate._operators import Mutant, Operator
    from regauge.mutate._report import Guards, MutantRow
    from regauge.mutate._types import Case, Classification, MutantClass
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
        eval: The first of its evals, by its name in the gate.
        base: None if the base has no committed classes.
        trials: Number of trials of mutants for the change, including replayed ones.
        notes: Remarks on the counts.
        floor: The minimum share of guarded instructions, in the base's settings.
    """

    prompt: str
    eval: str
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
        change.guards(
            GuardTrials(
                session=session,
                decided=decided,
                prompt=change.prompt,
                group=change.group,
                on_progress=on_progress,
            )
        )
        for change in changes
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
    groups: dict[Path, tuple[Prompt, list[EvalBase]]] = {}
    if not base.newest.settings.mutate.pull_request:
        return []
    for eval_ in comparison.evals:
        target = eval_.candidate.target
        for prompt in (eval_.candidate.prompt,) if target is None else target.prompts:
            groups.setdefault(prompt.path, (prompt, []))[1].append(eval_)
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
        head: The mutants of the change, with the classes that they keep.
        base: The mutants of the base, with their committed classes.
        causes: By instruction id, what removed its guard.
        new_cases: The keys of new or edited cases.
    """

    def __init__(
        self,
        session: EvalSession,
        base_commit: BaseCommit,
        prompt: Prompt,
        group: Sequence[EvalBase],
    ) -> None:
        self.prompt, self.group = prompt, group
        self._session = session
        self._settings = base_commit.newest.settings.mutate
        self._notes: list[str] = []
        operators = choose_operators(
            self._settings.operators, warn=lambda text: self._notes.append(" ".join(text.split()))
        )
        evals = [eval_.candidate for eval_ in group]
        base_prompt = base_commit.prompt(prompt)
        self._base_classes = load_base_classes(base_commit, prompt, base_prompt, evals)
        self._notes += self._base_classes.notes
        self.head = _Classes(_scored_mutants(prompt, operators))
        self.base = _Classes(_scored_mutants(base_prompt, operators) if base_prompt else {})
        name = base_commit.prompt_name(prompt)
        before = _by_key(
            (eval_, base_commit.dataset(eval_.dataset, prompt=name) or eval_.dataset)
            for eval_ in evals
        )
        now = _by_key((eval_, eval_.dataset) for eval_ in evals)
        self.causes = self._note_classes(before, now, judge_digests(evals))
        self.new_cases = frozenset(
            key
            for key, case in now.items()
            if (old := before.get(key)) is None or old.digest != case.digest
        )

    def _note_classes(
        self,
        before: Mapping[str, GoldenCase],
        now: Mapping[str, GoldenCase],
        judges: Mapping[str, str],
    ) -> dict[str, tuple[str, ...]]:
        """Store the committed classes of both sides; return what removed guards of the head."""
        guards = self._base_classes.guards
        reduced = is_reduced(before, now)
        causes: dict[str, tuple[str, ...]] = {}
        for id_, row in self._base_classes.rows.items():
            if loss_causes(row, before, None, guards):
                continue  # the base itself has lost the guard
            self.base.kinds[id_] = row.kind
            lost_causes = loss_causes(row, now, judges, guards)
            if row.kind == "killed" and not row.cases and reduced:
                lost_causes = ("changes cases of the suite",)
            if not lost_causes:
                self.head.kinds[id_] = row.kind
            elif id_ in self.head.mutants:
                causes[id_] = lost_causes
        return causes

    @cached_property
    def edits(self) -> TextEdits:
        """The instructions whose text differs."""
        head, base = self.head.mutants, self.base.mutants
        return pair_edits(
            [mutant for id_, mutant in base.items() if id_ not in head],
            [mutant for id_, mutant in head.items() if id_ not in base],
        )

    @cached_property
    def changed_mutants(self) -> list[Mutant]:
        """The mutants to measure on all cases: of new texts, and those that lost their guard."""
        new = (mutant for _, mutant in self.edits.new)
        return [*new, *(self.head.mutants[id_] for id_ in self.causes)]

    @cached_property
    def candidates(self) -> list[Mutant]:
        """Instructions without a guard that new or edited cases may guard."""
        return [
            mutant
            for id_, mutant in self.head.mutants.items()
            if self.new_cases and self.head.kinds.get(id_) in {"survived", "no-effect", "harmful"}
        ]

    def estimate(self) -> GuardEstimate | None:
        """Estimate the mutants to measure; None without any."""
        planned_cases = [trial_bill for member in self.group for trial_bill in member.planned_cases]
        if not (self.changed_mutants or self.candidates) or any(
            member.partial for member in self.group
        ):
            return None
        subject = subject_of(self._session, planned_cases, self.prompt.name)
        rows = self._base_classes.rows
        kinds = {id_: row.kind for id_, row in rows.items() if id_ not in self.causes}
        gate_cases = {
            member.case.key: (member.case, True) for member in collect_compared_cases(self.group)
        }
        cases = with_base_records(subject.cases, self.group, gate_cases)
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

    def guards(self, trials: GuardTrials) -> ChangedGuards | None:
        """Return the guards under the change; None if they are unchanged."""
        candidates = trials.run(self.candidates, self.new_cases)
        new_guards = {
            id_: result for id_, result in candidates.by_id.items() if result.kind == "killed"
        }
        if not (self.edits.new or self.edits.deleted or self.causes or new_guards):
            return None
        measured = trials.run(self.changed_mutants)
        for id_, result in (*measured.by_id.items(), *new_guards.items()):
            self.head.kinds[id_] = result.kind
        head, base = self.head.mutants, self.base.kinds
        changes = [
            *(
                _change(
                    "edited" if old is not None else "added",
                    mutant,
                    base.get(old.id) if old is not None else None,
                    measured,
                )
                for old, mutant in self.edits.new
            ),
            *(self._deletion(mutant) for mutant in self.edits.deleted),
            *(
                _change("unguarded", head[id_], base[id_], measured, causes)
                for id_, causes in self.causes.items()
            ),
            *(_change("guarded", head[id_], base.get(id_), candidates) for id_ in new_guards),
        ]
        return ChangedGuards(
            prompt=self.prompt.name,
            eval=self.group[0].name,
            now=self.head.count(),
            base=self.base.count() if self._base_classes.has_file else None,
            changes=tuple(changes),
            trials=trials.count,
            notes=tuple(self._notes),
            floor=self._settings.floor,
        )

    def _deletion(self, mutant: Mutant) -> GuardChange:
        kind = self.base.kinds.get(mutant.id)
        cases = self._base_classes.rows[mutant.id].cases if kind == "killed" else ()
        return GuardChange(
            kind="deleted",
            line=mutant.place.line,
            text=mutant.text,
            before=kind,
            cases=tuple(cases),
        )


def _change(
    kind: ChangeKind,
    mutant: Mutant,
    before: MutantClass | None,
    measured: TrialClasses,
    causes: tuple[str, ...] = (),
) -> GuardChange:
    result = measured.by_id.get(mutant.id)
    is_decided = result is not None and result.kind != "undecided"
    return GuardChange(
        kind=kind,
        line=mutant.place.line,
        text=mutant.text,
        before=before,
        after=result.kind if result is not None and is_decided else None,
        causes=causes,
        cases=result.cases if result is not None and is_decided else (),
        reason="" if is_decided else result.reason if result is not None else measured.reason,
    )


def _scored_mutants(prompt: Prompt, operators: Sequence[Operator]) -> dict[str, Mutant]:
    return {mutant.id: mutant for mutant in mutants_of(prompt, operators) if mutant.scored}


def _by_key(pairs: Iterable[tuple[Eval, Dataset]]) -> dict[str, GoldenCase]:
    cases: dict[str, GoldenCase] = {}
    for eval_, dataset in pairs:
        for case in dataset:
            cases[member_key(case, eval_, cases)] = case
    return cases
