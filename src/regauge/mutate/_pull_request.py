"""A change of a prompt, its cases or its judges: the instructions that lose or get a guard.

Classes of unchanged text are those that the base has committed. Changed text is measured with the
trials of the gate as its base, so that trials of mutants alone are drawn.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import RegaugeError
from regauge.gate import (
    REVISION_FIRST,
    Bill,
    StoredNumbers,
    bill_draws,
    collect_compared_cases,
    policy_of,
)
from regauge.mutate._hunt import HuntPolicy
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

# Texts that share less are no edit of each other.
_EDITED = 0.5
_TICK_S = 1.0
_UNGUARDED = frozenset({"survived", "no-effect", "harmful"})
# Cases of which the gate found nothing but what the base's record predicts.
_USUAL = frozenset({"passed", "unchanged", "flaky", "known-failing"})


ChangeKind: TypeAlias = Literal["deleted", "added", "edited", "unguarded", "guarded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardChange:
    """An instruction that a change deletes, adds, edits, guards, or takes the guard of.

    Attributes:
        line: Of the prompt file; of the base's where the change deletes the instruction.
        before: Its class on the base; None where that is not known, and without one there.
        after: Its class now; None where it was not measured, and where it is deleted.
        causes: What took its guard away, such as `deletes case X`.
        cases: The cases that guard it now, that changed, or that got better; of a deleted
            instruction those that guarded it.
        reason: Why it was not measured.
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
        counted: All but equivalent ones.
        open: Those that are undecided or not measured.
    """

    guarded: int
    counted: int
    open: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGuards:
    """The guarded instructions of a prompt under a change, next to those of its base.

    Attributes:
        suite: The first of its evals, by the name that the gate gives it.
        base: None where the base has no committed classes.
        trials: Those of mutants that were drawn or replayed for the change.
        notes: What a reader should know of the counts.
        floor: The least share of guarded instructions, as the base's settings have it.
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
        if self.floor is None or not self.now.counted:
            return ""
        least = self.floor * self.now.counted
        if self.now.guarded + self.now.open < least:
            return "floor"
        return "open" if self.now.guarded < least else ""


def changed_guards(
    session: EvalSession, decided: GateResult, *, saying: Callable[[str], None]
) -> list[ChangedGuards]:
    """Guarded instructions under a gated change, for each prompt that it touches.

    Nothing is drawn unless the change is accepted so far; Ctrl-C keeps every trial.

    Args:
        saying: Called every second while models answer.
    """
    changes = [
        _Change(session, decided.comparison.base_commit, *group)
        for group in _groups(decided.comparison)
    ]
    measured = (change.guards(_Measurement(session, decided, change, saying)) for change in changes)
    return [guards for guards in measured if guards is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEstimate:
    """The mutants that a gate will measure if it accepts a change of a prompt.

    Attributes:
        mutants: How many.
        bill: About what their trials take.
    """

    prompt: str
    mutants: int
    bill: Bill


def estimate_guards(session: EvalSession, comparison: Comparison) -> list[GuardEstimate]:
    """Estimate the trials of mutants under a change, before any trial."""
    changes = [_Change(session, comparison.base_commit, *group) for group in _groups(comparison)]
    return [estimated for change in changes if (estimated := change.estimate()) is not None]


def _groups(change: Comparison) -> list[tuple[Prompt, list[SuiteBase]]]:
    """Each prompt with its evals; none where the base does not ask for mutants."""
    groups: dict[Path, tuple[Prompt, list[SuiteBase]]] = {}
    if not change.base_commit.newest.settings.mutate.pull_request:
        return []
    for suite in change.suites:
        target = suite.suite.target
        for prompt in (suite.suite.prompt,) if target is None else target.prompts:
            groups.setdefault(prompt.path, (prompt, []))[1].append(suite)
    return [*groups.values()]


@dataclass(slots=True)
class _Classes:
    """Mutants of one side that count, each with its class."""

    mutants: dict[str, Mutant]
    kinds: dict[str, MutantClass | None] = field(default_factory=dict[str, "MutantClass | None"])

    def count(self) -> GuardCount:
        kinds = [self.kinds.get(id_) for id_ in self.mutants]
        counted = [kind for kind in kinds if kind != "equivalent"]
        return GuardCount(
            guarded=counted.count("killed"),
            counted=len(counted),
            open=counted.count(None) + counted.count("undecided"),
        )


class _Change:
    """One prompt with its evals, and the effect of a change on its guards before any trial.

    Attributes:
        rows: The committed rows of the base, by id.
        edits: Deleted, edited and added instructions, each with its earlier text.
        causes: By the id of an instruction, what took its guard away.
        changed: The mutants that are measured on all cases.
        candidates: Instructions without a guard that new or edited cases may guard.
        added: The keys of these cases.
    """

    def __init__(
        self, session: EvalSession, at: BaseCommit, prompt: Prompt, group: Sequence[SuiteBase]
    ) -> None:
        self.prompt, self.group = prompt, group
        self._session, self._at = session, at
        self._settings = at.newest.settings
        self._suites = [suite.suite for suite in group]
        self._notes: list[str] = []
        base_prompt = at.prompt(prompt)
        operators = choose_operators(self._settings.mutate.operators)
        self.head = _Classes(_scored_mutants(prompt, operators))
        self.base = _Classes(_scored_mutants(base_prompt, operators) if base_prompt else {})
        file = self._committed()
        self.has_file = file is not None
        self.rows = self._rows(file, base_prompt)
        name = at.prompt_name(prompt)
        before = _by_key((s, at.dataset(s.dataset, prompt=name) or s.dataset) for s in self._suites)
        now = _by_key((suite, suite.dataset) for suite in self._suites)
        self.causes = self._note_classes(file, before, now)
        self.added = frozenset(
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
        self.changed = [*new, *(head[id_] for id_ in self.causes)]
        self.candidates = [
            mutant
            for id_, mutant in head.items()
            if self.added and self.head.kinds.get(id_) in _UNGUARDED
        ]

    def _note_classes(
        self,
        file: MutantsFile | None,
        before: Mapping[str, GoldenCase],
        now: Mapping[str, GoldenCase],
    ) -> dict[str, tuple[str, ...]]:
        """Note the committed classes of both sides; returns what took guards of the head away."""
        guards = file.guards if file is not None else None
        judges = judge_digests(self._suites)
        reduced = _is_reduced(before, now)
        causes: dict[str, tuple[str, ...]] = {}
        for id_, row in self.rows.items():
            if _lost(row, before, None, guards):
                continue  # the base itself has lost the guard
            self.base.kinds[id_] = row.kind
            gone = _lost(row, now, judges, guards)
            if row.kind == "killed" and not row.cases and reduced:
                gone = ("changes cases of the suite",)
            if not gone:
                self.head.kinds[id_] = row.kind
            elif id_ in self.head.mutants:
                causes[id_] = gone
        return causes

    def estimate(self) -> GuardEstimate | None:
        """The mutants to measure; None without any."""
        planned = [each for member in self.group for each in member.planned_cases]
        if not (self.changed or self.candidates) or any(member.partial for member in self.group):
            return None
        subject = subject_of(self._session, planned, self.prompt.name)
        kinds = {id_: row.kind for id_, row in self.rows.items() if id_ not in self.causes}
        gated = {
            member.case.key: (member.case, True) for member in collect_compared_cases(self.group)
        }
        cases = _with_base(subject.cases, self.group, gated)
        trials = estimate_calls(self.prompt, self.changed, cases, kinds)
        added = [case for case in cases if case.key in self.added]
        trials += estimate_calls(self.prompt, self.candidates, added, kinds)
        draws = [
            PlannedTrial(each, REVISION_FIRST) for each in subject.members.values() if each.plan()
        ]
        each = bill_draws(draws, self._session)
        return GuardEstimate(
            prompt=self.prompt.name,
            mutants=len({mutant.id for mutant in (*self.changed, *self.candidates)}),
            bill=each.times(trials / len(draws)) if draws else Bill(trials=trials),
        )

    def guards(self, measurement: _Measurement) -> ChangedGuards | None:
        """The guards under the change; None where they are as on the base."""
        head, base = self.head, self.base
        newly = {
            id_: result
            for id_, result in measurement.run(self.candidates, self.added)[0].items()
            if result.kind == "killed"
        }
        if not self.edits and not self.causes and not newly:
            return None
        measured, reason = measurement.run(self.changed)
        for id_, result in (*measured.items(), *newly.items()):
            head.kinds[id_] = result.kind

        def change(
            kind: ChangeKind,
            mutant: Mutant,
            before: MutantClass | None,
            causes: tuple[str, ...] = (),
        ) -> GuardChange:
            result = newly.get(mutant.id) if kind == "guarded" else measured.get(mutant.id)
            decided = result is not None and result.kind != "undecided"
            return GuardChange(
                kind=kind,
                line=mutant.place.line,
                text=mutant.text,
                before=before,
                after=result.kind if result is not None and decided else None,
                causes=causes,
                cases=result.cases if result is not None and decided else (),
                reason="" if decided else result.reason if result is not None else reason,
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
            change("unguarded", head.mutants[id_], base.kinds[id_], gone)
            for id_, gone in self.causes.items()
        ]
        changes += [change("guarded", head.mutants[id_], base.kinds.get(id_)) for id_ in newly]
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

    def _committed(self) -> MutantsFile | None:
        """The classes that the base has committed; those of the change's own file do not count."""
        name = self._at.prompt_name(self.prompt)
        path = mutants_path(self._at.project, name)
        data = self._at.read(path)
        if data is None:
            self._notes.append(
                f"{self._at.ref} has no {self._at.project.relative(path)}, so instructions that"
                f" this change leaves as they are have no class; run there: regauge mutate {name}"
            )
            return None
        try:
            return parse_mutants(data.decode(errors="replace"), path, name)
        except RegaugeError as error:
            self._notes.append(f"classes of {self._at.ref} cannot be read: {error}".split("\n")[0])
            return None

    def _rows(self, file: MutantsFile | None, base: Prompt | None) -> dict[str, MutantRow]:
        """The committed classes by id; none where they are those of another model."""
        if file is None:
            return {}
        asked = [suite.model for suite in self._suites if suite.target is None]
        model = str((asked or [self._suites[0].model])[0])
        if file.model != model:
            self._notes.append(f"classes of {self._at.ref} hold for {file.model}, not for {model}")
            return {}
        if base is not None and file.digest != base.digest:
            self._notes.append(
                f"classes of {self._at.ref} are older than its prompt; run there:"
                f" regauge mutate {file.prompt}"
            )
        return {row.id: row for row in file.mutants}


@dataclass
class _Measurement:
    """Measures mutants of one prompt with the trials of the gate as their base."""

    session: EvalSession
    decided: GateResult
    change: _Change
    saying: Callable[[str], None]
    trials: int = 0

    def run(
        self, mutants: Sequence[Mutant], only: Collection[str] | None = None
    ) -> tuple[dict[str, Classification], str]:
        """The classes of some mutants, or why they are not measured.

        Args:
            only: The keys of the cases that are run; None runs all.
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
        planned = [each for suite in self.change.group for each in suite.planned_cases]
        subject = subject_of(self.session, planned, self.change.prompt.name)
        cases = self._with_records(subject.cases)
        gate = replace(
            policy_of(self.decided.comparison.base_commit.newest.settings.gate), on_broken="block"
        )
        if only is not None:
            chosen = [case for case in cases if case.key in only]
            # Of all checks of the suite, these have their part of the level.
            share = len(chosen) / len(cases)
            gate = replace(gate, case=replace(gate.case, alpha=gate.case.alpha * share))
            cases = chosen
        policy = HuntPolicy(gate=gate)
        progress = MutationProgress()
        ticker = asyncio.ensure_future(self._tick(progress))
        numbers = StoredNumbers(self.session)
        try:
            async with self.session.open_trials() as trials:
                with EvalBench(subject, trials, numbers.of_candidate) as bench:
                    measured = await measure(
                        self.change.prompt, mutants, cases, bench, policy, progress=progress
                    )
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
        self.trials += measured.calls + measured.base_calls
        return {result.mutant.id: result.outcome for result in measured.results}

    def _with_records(self, cases: Sequence[Case]) -> list[Case]:
        """The cases with the base's record, where the gate found nothing that speaks against it.

        The change's own baseline does not count. Without a record trials of the gate are one.
        """
        reports = {
            each.case.key: (each.case, _is_usual(report))
            for each, report in zip(
                self.decided.compared_cases, self.decided.outcome.cases, strict=True
            )
        }
        return _with_base(cases, self.change.group, reports)

    async def _tick(self, progress: MutationProgress) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.saying(
                f"regauge gate: {progress.done} of {plural(progress.mutants, 'changed line')} of"
                f" {self.change.prompt.name} mutated, {plural(progress.calls, 'trial')}"
            )


def _with_base(
    cases: Sequence[Case],
    group: Sequence[SuiteBase],
    gated: Mapping[tuple[str, str], tuple[GateCase, bool]],
) -> list[Case]:
    """The cases with the base's record.

    Args:
        cases: Those of all evals of the group, in their order.
        gated: Each as the gate has it, and whether the base's record holds for the change.
    """
    planned = [(suite, each.case.id) for suite in group for each in suite.planned_cases]
    based: list[Case] = []
    for case, (suite, id_) in zip(cases, planned, strict=True):
        compared, holds = gated[suite.name, id_]
        history = compared.history if holds else None
        kept = suite.base.history.cases.get(id_) if suite.base.history is not None else None
        same = history is not None and kept is not None and len(kept.output_digests) == 1
        based.append(
            replace(
                case,
                history=history,
                repeats=history.total.trials if history is not None and same else 0,
                answer=kept.output_digests[0] if kept is not None and same else "",
                tier=compared.tier,
                strict=compared.strict,
            )
        )
    return based


def _scored_mutants(prompt: Prompt, operators: Sequence[Operator]) -> dict[str, Mutant]:
    return {mutant.id: mutant for mutant in mutants_of(prompt, operators) if mutant.scored}


def _by_key(pairs: Iterable[tuple[Eval, Dataset]]) -> dict[str, GoldenCase]:
    cases: dict[str, GoldenCase] = {}
    for suite, dataset in pairs:
        for case in dataset:
            cases[member_key(case, suite, cases)] = case
    return cases


def _is_usual(report: CaseReport) -> bool:
    """Return whether the base's record of a case holds for the change, too."""
    fixed = report.candidate.passed and report.before.passed <= report.before.failed
    return report.verdict in _USUAL and not fixed


def _lost(
    row: MutantRow,
    cases: Mapping[str, GoldenCase],
    judges: Mapping[str, str] | None,
    guards: Guards | None,
) -> tuple[str, ...]:
    """The causes that took the guard of a killed mutant away; empty if it is guarded as before.

    A mutant ends at the first cases that break, so these are the only ones known.

    Args:
        judges: None where those of this side are not known.
    """
    if row.kind != "killed" or guards is None:
        return ()
    causes = {key: _cause_of_case(row, key, cases.get(key), guards) for key in row.cases}
    gone = [f"{cause} {key}" for key, cause in causes.items() if cause]
    rejudged = [
        f"{'changes' if name in judges else 'removes'} judge {name}"
        for name in row.judges
        if judges is not None and judges.get(name, "") != guards.judges.get(name, judges.get(name))
    ]
    # A judge that is left may have failed another case.
    unjudged = rejudged and (len(rejudged) == len(row.judges) or len(row.cases) > 1)
    if unjudged or (gone and len(gone) == len(row.cases)):
        return (*gone, *rejudged)
    return ()


def _is_reduced(before: Mapping[str, GoldenCase], now: Mapping[str, GoldenCase]) -> bool:
    """Return whether cases of the base are gone, edited or in another tier."""
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
    """Deleted and added instructions; an edited one with its earlier text."""
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
