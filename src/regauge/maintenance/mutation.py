"""One run of `regauge mutate`: mutants are measured, and cases for unguarded text searched."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from regauge.errors import DatasetError, MissingRecordingError, UsageError
from regauge.gate import REVISION_FIRST, policy_of
from regauge.judges.model.response import ResponseError
from regauge.model_id import is_simulated
from regauge.mutate import (
    MODEL,
    ClassificationPolicy,
    DraftBenches,
    EvalBench,
    ModelCaseProposer,
    MutationProgress,
    UnmeasuredMutants,
    VariantProposer,
    add_cases,
    estimate_calls,
    eval_facts,
    find_unguarded,
    is_open,
    measure,
    model_changes,
    mutants_of,
    report_of,
    suggest,
)
from regauge.providers import parse_model_id
from regauge.refine.proposers.model import ProposerCalls
from regauge.reports import money
from regauge.runner import PlannedTrial
from regauge.scaffold import append_case, redact_case
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from regauge.mutate import (
        GuardSuggestion,
        MeasuredClasses,
        Mutant,
        MutantRow,
        MutantsFile,
        Mutation,
        MutationReport,
        MutationSubject,
        Operator,
        UnguardedInstruction,
    )
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.runner import EvalSession

# Calls per suggestion, measured on simulated suites; see the reference.
_CALLS = 60
# The share of single deletions of this repository's prompts that no case guards.
_OPEN_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationOptions:
    """The choice of mutants and of suggestions.

    Attributes:
        counts_model: Whether mutants of the operator `model` count in the score.
        limit: The most mutants; None for all.
        proposers: Proposers of golden cases; empty for none.
        refiner: The refiner model; empty for that of `regauge refine`.
    """

    operators: Sequence[Operator]
    counts_model: bool
    limit: int | None
    proposers: tuple[str, ...]
    refiner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationEstimate:
    """The calls of mutants with missing trials, without those of judges.

    Attributes:
        measured_before: Mutants without missing trials.
        cost_usd: None if a price is unknown.
    """

    prompt: str
    mutants: int
    cases: int
    measured_before: int
    calls: int
    cost_usd: float | None


@dataclass(frozen=True, kw_only=True)
class MutationRun:
    """The mutants of a prompt, and the trials on its evals.

    Attributes:
        evals: The evals; they stay open.
        earlier: The committed results; None without any.
        print_note: Called with each note for the user.
        meter: A context that shows the progress.
    """

    evals: EvalSession
    subject: MutationSubject
    options: MutationOptions
    earlier: MutantsFile | None
    print_note: Callable[[str], object]
    meter: Callable[[Callable[[], str]], AbstractContextManager[object]]

    @cached_property
    def earlier_rows(self) -> dict[str, MutantRow]:
        """Committed results that are still valid, by the id of the mutant; for suggestions."""
        earlier, subject = self.earlier, self.subject
        key = subject.prompt.digest, subject.key, subject.model
        if not self.options.proposers or earlier is None or not earlier.holds_for(*key):
            return {}
        return {row.id: row for row in earlier.mutants if row.kind != "undecided"}

    @cached_property
    def all_mutants(self) -> Sequence[Mutant]:
        """All mutants of the prompt.

        Raises:
            UsageError: The operators make none.
        """
        mutants = mutants_of(self.subject.prompt, self._active_operators())
        if not mutants:
            message = f"{self.subject.prompt.name} has no text that these operators can edit"
            raise UsageError(message, fix="name others with --operators")
        return mutants

    @cached_property
    def mutants(self) -> Sequence[Mutant]:
        """The mutants of this run: at most `limit`, spread over the prompt."""
        open_mutants = [
            mutant for mutant in self.all_mutants if is_open(self.earlier_rows.get(mutant.id))
        ]
        number, limit = len(open_mutants), self.options.limit
        if limit is None or limit >= number:
            return open_mutants
        return [open_mutants[index * number // limit] for index in range(limit)]

    @cached_property
    def unknown(self) -> Sequence[Mutant]:
        """The mutants of this run without an earlier result."""
        return [mutant for mutant in self.mutants if mutant.id not in self.earlier_rows]

    @cached_property
    def measured(self) -> MeasuredClasses:
        """The classes of mutants; trials run as far as the record mode allows."""
        mutants = self.unknown
        without = sum(case.baseline is None for case in self.subject.cases)
        if without:
            self.print_note(
                f"{plural(without, 'case')} without a baseline for these judges, so trials of the"
                " base run too\n  fix: regauge baseline update"
            )
        rows = self.earlier.mutants if self.earlier is not None else []
        first = {row.id: row.cases for row in rows if row.kind == "killed"}
        marks = {row.id: row.reason for row in rows if row.kind == "equivalent"}
        # A broken case kills a mutant even if the project only warns about it.
        policy = ClassificationPolicy(
            gate=replace(policy_of(self.evals.project.settings.gate), on_broken="block")
        )
        subject, progress = self.subject, MutationProgress()

        async def run() -> MeasuredClasses:
            async with self.evals.open_trials() as trials:
                with closing(EvalBench(subject, trials)) as bench:
                    eval_ = subject.prompt, mutants, subject.cases, bench, policy
                    return await measure(*eval_, first=first, marks=marks, progress=progress)

        with self.meter(lambda: progress_text(progress, "mutant", self.evals.budget.cost_usd)):
            return run_stoppable(run())

    @cached_property
    def report(self) -> MutationReport:
        """The report, with an estimate for mutants without trials."""
        report = report_of(self.subject, self.measured, earlier=self.earlier)
        left = {row.id for row in report.mutants if not row.measured}
        if not left:
            return report
        calls, usd = self._estimate([mutant for mutant in self.mutants if mutant.id in left])
        missing = UnmeasuredMutants(
            mutants=len(left), calls=calls, cost_usd=usd, eval=eval_facts(self.subject.cases)
        )
        return report.model_copy(update={"missing": missing})

    @property
    def rows(self) -> list[MutantRow]:
        """The results, with those of earlier runs."""
        return [*self.earlier_rows.values(), *self.report.mutants]

    @cached_property
    def _unguarded(self) -> Sequence[UnguardedInstruction]:
        subject = self.subject
        golden = {key: member.case for key, member in subject.members.items()}
        return find_unguarded(subject.prompt, self.mutants, self.rows, subject.cases, golden)

    def suggest(self) -> list[GuardSuggestion]:
        """Search for cases that guard instructions; completions in the local store are used first.

        Returns:
            One suggestion for each unguarded instruction; empty without proposers.
        """
        if not self.options.proposers:
            return []
        members = self.subject.members
        golden = {key: member.case for key, member in members.items()}
        ids = {case.id for member in members.values() for case in member.eval.dataset}
        return add_cases(self._search(), golden, ids)

    def estimate(self) -> MutationEstimate:
        """Estimate the calls of mutants with missing trials, and of suggestions."""
        left = {result.mutant.id for result in self.measured.results if result.outcome.unmeasured}
        missing = [mutant for mutant in self.unknown if mutant.id in left]
        searches = 0.0
        if self.options.proposers:
            searches = len(self._unguarded) + _OPEN_SHARE * len(self.unknown)
        calls, usd = self._estimate(
            missing, stored_calls=self.measured.base_calls, extra_calls=round(_CALLS * searches)
        )
        return MutationEstimate(
            prompt=self.subject.prompt.name,
            mutants=len(self.unknown),
            cases=len(self.subject.cases),
            measured_before=len(self.unknown) - len(missing),
            calls=calls,
            cost_usd=usd,
        )

    def _estimate(
        self, mutants: Sequence[Mutant], *, stored_calls: int = 0, extra_calls: int = 0
    ) -> tuple[int, float | None]:
        """Estimate the calls of mutants, and their cost; None if a price is unknown."""
        # Results of an earlier prompt or suite are the best guess: ids depend on the text only.
        earlier, subject = self.earlier, self.subject
        kinds = {row.id: row.kind for row in earlier.mutants} if earlier is not None else {}
        calls = extra_calls + estimate_calls(
            subject.prompt, mutants, subject.cases, kinds, recorded_calls=stored_calls
        )
        members = subject.members.values()
        draws = [PlannedTrial(member, REVISION_FIRST) for member in members if member.plan()]
        costs = [answer.cost_usd for answer in self.evals.missing_completions(draws)]
        priced = [cost for cost in costs if cost is not None]
        is_priced = draws and len(priced) == len(costs)
        return calls, calls * sum(priced) / len(draws) if is_priced else None

    @property
    def _refiner(self) -> str:
        """The refiner model; empty if only a target runs the prompt, and no setting names one."""
        settings, subject = self.evals.project.settings, self.subject
        has_target = any(member.eval.target is not None for member in subject.members.values())
        default = subject.prompt.model or settings.model or "" if has_target else subject.model
        return self.options.refiner or settings.refine.model or default

    def _active_operators(self) -> list[Operator]:
        """The operators; the operator `model` gets changes from the refiner model."""
        operators = list(self.options.operators)
        if all(operator.name != MODEL for operator in operators):
            return operators
        refiner = self._refiner
        if not refiner or is_simulated(refiner):
            reason = f"{refiner} is simulated and" if refiner else "no model is named, which"
            self.print_note(f"{reason} proposes no mutants")
            return operators

        async def propose() -> list[Mutation]:
            async with self.evals.open_trials() as trials:
                model_id = parse_model_id(refiner, location="--refiner-model")
                prompt = self.subject.prompt
                calls = ProposerCalls.of_trials(trials, prompt, command="mutate")
                return await model_changes(prompt, model_id, calls)

        changes: list[Mutation] = []
        try:
            changes = run_stoppable(propose())
        except MissingRecordingError:
            self.print_note(f"{refiner} was not called yet, so its mutants are unknown")
        except ResponseError as error:
            self.print_note(f"the response of {refiner} cannot be read: {error}")

        def proposed(prompt: Prompt) -> Sequence[Mutation]:
            del prompt
            return changes

        return [
            replace(operator, mutate=proposed, scored=self.options.counts_model)
            if operator.name == MODEL
            else operator
            for operator in operators
        ]

    def _search(self) -> list[GuardSuggestion]:
        names, model, problems = self.options.proposers, self._refiner, self._unguarded
        if "model" in names and (not model or is_simulated(model)):
            reason = f"{model} is simulated and writes no cases" if model else "no model is named"
            self.print_note(f"{reason}; rules vary cases")
            names = ("rules",)
        progress = MutationProgress()
        judges = dict.fromkeys(check for case in self.subject.cases for check in case.checks)
        unread: list[str] = []

        async def search() -> list[GuardSuggestion]:
            async with self.evals.open_trials() as trials:
                proposers = [
                    ModelCaseProposer(
                        model=parse_model_id(model, location="--refiner-model"),
                        call_model=ProposerCalls.of_trials(
                            trials, self.subject.prompt, command="mutate"
                        ),
                        judges=list(judges),
                        unreadable=unread,
                    )
                    if name == "model"
                    else VariantProposer()
                    for name in names
                ]
                with closing(DraftBenches(self.evals, self.subject, trials)) as benches:
                    return await suggest(problems, proposers, benches, progress)

        with self.meter(lambda: progress_text(progress, "instruction", self.evals.budget.cost_usd)):
            suggestions = run_stoppable(search())
        if unread:
            count = plural(len(unread), "response")
            self.print_note(f"{count} of {model} cannot be read: {unread[0]}")
        return suggestions


def progress_text(progress: MutationProgress, noun: str, spent_usd: float | None) -> str:
    """The state of a search on one line."""
    done = f"{progress.done} of {plural(progress.mutants, noun)}"
    return f"regauge: {done}, {plural(progress.calls, 'trial')}, {money(spent_usd)}"


def append_suggestions(
    project: Project, suggestions: Sequence[GuardSuggestion], subject: MutationSubject
) -> tuple[list[tuple[str, str]], list[str]]:
    """Append suggested cases to their golden datasets, each id once.

    Returns:
        The id and place of each added case, and the errors of the others.
    """
    places: dict[str, tuple[str, str]] = {}
    errors: list[str] = []
    for suggestion in suggestions:
        case, draft = suggestion.case, suggestion.draft
        if case is None or draft is None or str(case["id"]) in places:
            continue
        dataset = subject.members[draft.like].eval.dataset.name
        document = redact_case(project, dict(case))
        try:
            path, line = append_case(project, subject.prompt.name, document, dataset=dataset)
        except (UsageError, DatasetError) as error:
            errors.append(f"{document['id']}: {error}")
        else:
            place = f"{project.relative(path).as_posix()}:{line}"
            places[str(case["id"])] = str(document["id"]), place
    return [*places.values()], errors
