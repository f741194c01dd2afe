"""Golden cases that guard an instruction: some trials select a case, others prove it.

A proposer makes drafts from the cases nearest to the instruction. A draft is selected if the prompt
passes it and the mutant fails it. It is offered if the prompt then passes five of five new trials,
and the mutant fails five of five.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from regauge.digests import digest_of
from regauge.errors import RegaugeError, UsageError
from regauge.mutate._types import CaseRanking, missing_reason
from regauge.wording import cut, plural

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.mutate._operators import Mutant
    from regauge.mutate._report import MutantRow
    from regauge.mutate._run import MutationProgress
    from regauge.mutate._types import Bench, Case, JudgedTrial
    from regauge.prompts import Prompt

SuggestionStatus: TypeAlias = Literal["offered", "none", "undecided"]

PROVING_TRIALS = 5
"""New trials of each side: a suggestion has to pass all with the prompt, and fail all without."""
# After the trials that select; each draft has its own numbers.
_PROVING_FIRST = 500
# After two failures the other three trials are skipped.
_PROVING_BATCHES = (2, 3)
# The maximum of proven and of tested drafts per mutant: they bound its calls.
_PROVEN_MAX = 6
_CHOSEN_MAX = 24
_NEAREST = 4
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A golden case that may guard an instruction.

    Attributes:
        like: The key of the case that sets its eval, tags, tier and split.
        existing: The key of the case that it adds checks to; empty for a new case.
        reason: The proposer's reason.
    """

    inputs: Mapping[str, JSON]
    expected: JSON = None
    checks: tuple[JSON, ...] = ()
    like: str
    existing: str = ""
    proposer: str
    reason: str = ""

    @property
    def digest(self) -> str:
        """The digest of the inputs, expectation and checks."""
        return digest_of([dict(self.inputs), self.expected, list(self.checks), self.like])


def keeps_checks(draft: Draft, like: GoldenCase) -> bool:
    """Return whether a draft has exactly the checks of the case that it is like."""
    return bool(like.checks) and draft.checks == like.checks


@dataclass(frozen=True, slots=True, kw_only=True)
class UnguardedInstruction:
    """An instruction without a guard, as proposers receive it.

    Attributes:
        row: Its line, class and evidence.
        nearest: Cases by key; those that changed or share most with its text first.
        used_inputs: The digests of the inputs of all cases: no draft repeats them.
    """

    prompt: Prompt
    mutant: Mutant
    row: MutantRow
    nearest: Mapping[str, GoldenCase]
    used_inputs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrials:
    """Trials that may select a draft: with the prompt, and without the instruction."""

    prompt: tuple[JudgedTrial, ...]
    mutant: tuple[JudgedTrial, ...]

    @property
    def is_promising(self) -> bool:
        """Return whether the prompt passes each trial and the mutant none."""
        return all(trial.facts.passed is True for trial in self.prompt) and all(
            trial.facts.passed is False for trial in self.mutant
        )


class DraftRunner(Protocol):
    """A function that runs a draft with and without the instruction."""

    async def __call__(self, draft: Draft, trials: int = 1) -> DraftTrials:
        """Run the first trials of a draft; an invalid draft is a UsageError."""
        ...


class DraftProposer(Protocol):
    """A source of drafts for an instruction."""

    def drafts(
        self, problem: UnguardedInstruction, run_draft: DraftRunner
    ) -> AsyncGenerator[Draft, None]:
        """Yield the drafts, likeliest first; each is tested before the next one is made."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSuggestion:
    """The result for one instruction.

    Attributes:
        draft: The case that guards it; None without one.
        judges: The checks that fail without the instruction.
        output: An output of the prompt.
        mutant_output: An output without the instruction.
        case: The golden case as a line of the dataset; None for checks of an existing case.
        calls: Trials of the search.
        reason: The reason if there is no case.
        unmeasured: True if trials are missing for another reason than the budget.
    """

    row: MutantRow
    status: SuggestionStatus
    draft: Draft | None = None
    judges: tuple[str, ...] = ()
    output: str = ""
    mutant_output: str = ""
    case: Mapping[str, JSON] | None = None
    calls: int = 0
    reason: str = ""
    unmeasured: bool = False


def is_open(row: MutantRow | None) -> bool:
    """Return whether no case guards an instruction, or its class is unknown."""
    return row is None or row.kind in {"survived", "no-effect"}


def find_unguarded(
    prompt: Prompt,
    mutants: Sequence[Mutant],
    rows: Sequence[MutantRow],
    cases: Sequence[Case],
    golden: Mapping[str, GoldenCase],
) -> list[UnguardedInstruction]:
    """Return the instructions whose deletion no case detects, in the order of the rows.

    Conversations are not among the nearest cases: a varied message changes all later ones.
    """
    by_id = {mutant.id: mutant for mutant in mutants}
    case_ranking = CaseRanking(cases)
    used_inputs = frozenset(digest_of(dict(case.inputs)) for case in golden.values())
    problems: list[UnguardedInstruction] = []
    for row in rows:
        mutant = by_id.get(row.id)
        if mutant is None or not is_open(row):
            continue
        ranking = case_ranking.rank(mutant.text, mutant.section, first=row.cases)
        keys = [case.key for case, _ in ranking if golden[case.key].script is None]
        nearest = {key: golden[key] for key in keys[:_NEAREST]}
        problems.append(
            UnguardedInstruction(
                prompt=prompt, mutant=mutant, row=row, nearest=nearest, used_inputs=used_inputs
            )
        )
    return problems


async def suggest(
    problems: Sequence[UnguardedInstruction],
    proposers: Sequence[DraftProposer],
    bench_of: Callable[[Draft], Bench],
    progress: MutationProgress,
) -> list[GuardSuggestion]:
    """Search for a case for each instruction.

    Args:
        bench_of: Called with a draft; returns the bench of its trials under the key of the case
            that it is like. An invalid draft is a UsageError.
    """
    at_once = asyncio.Semaphore(_AT_ONCE)
    progress.start(len(problems))

    async def suggest_for(problem: UnguardedInstruction) -> GuardSuggestion:
        async with at_once:
            search = _Search(problem, bench_of, progress)
            suggestion = await search.run(proposers)
        progress.count(done=1)
        return suggestion

    return await asyncio.gather(*(suggest_for(problem) for problem in problems))


@dataclass
class _Search:
    """The search for a case that guards one instruction."""

    problem: UnguardedInstruction
    bench_of: Callable[[Draft], Bench]
    progress: MutationProgress
    calls: int = field(default=0, init=False)
    _counted_trials: set[tuple[str, bool, int]] = field(
        default_factory=set[tuple[str, bool, int]], init=False
    )
    _tried_digests: set[str] = field(default_factory=set[str], init=False)
    _proof_count: int = field(default=0, init=False)
    _same_output_count: int = field(default=0, init=False)
    _reason: str = field(default="", init=False)

    async def run(self, proposers: Sequence[DraftProposer]) -> GuardSuggestion:
        """Test drafts until one is proven."""
        row = self.problem.row
        if not self.problem.nearest:
            return GuardSuggestion(row=row, status="none", reason="every case is a conversation")
        try:
            for proposer in proposers:
                suggestion = await self._try(proposer)
                if suggestion is not None:
                    return suggestion
        except RegaugeError as error:
            reason, unmeasured = missing_reason(error)
            return GuardSuggestion(
                row=row, status="undecided", reason=reason, calls=self.calls, unmeasured=unmeasured
            )
        same_output_reason = (
            f"{plural(self._same_output_count, 'variant')} had the same output without the text"
        )
        reason = self._reason or (
            same_output_reason if self._same_output_count else "no proposer made a draft"
        )
        return GuardSuggestion(row=row, status="none", reason=reason, calls=self.calls)

    async def _try(self, proposer: DraftProposer) -> GuardSuggestion | None:
        drafts = proposer.drafts(self.problem, self._run_draft)
        try:
            async for draft in drafts:
                if len(self._tried_digests) >= _CHOSEN_MAX or self._proof_count >= _PROVEN_MAX:
                    return None
                if draft.digest in self._tried_digests or not await self._is_promising(draft):
                    continue
                suggestion = await self._prove(draft)
                if suggestion is not None:
                    return suggestion
        finally:
            await drafts.aclose()
        return None

    async def _is_promising(self, draft: Draft) -> bool:
        self._tried_digests.add(draft.digest)
        if not draft.existing and digest_of(dict(draft.inputs)) in self.problem.used_inputs:
            self._reason = "drafts repeat the inputs of a case"
            return False
        try:
            draft_trials = await self._run_draft(draft)
        except UsageError as error:
            self._reason = f"a draft cannot be used: {str(error).partition(chr(10))[0]}"
            return False
        if not draft_trials.is_promising:
            self._reason = _failure_reason(draft_trials)
        return draft_trials.is_promising

    async def _run_draft(self, draft: Draft, trials: int = 1) -> DraftTrials:
        draft_trials = await self._run_both(draft, range(trials))
        self._same_output_count += (
            trials == 1 and draft_trials.prompt[0].output == draft_trials.mutant[0].output
        )
        return draft_trials

    async def _prove(self, draft: Draft) -> GuardSuggestion | None:
        """Run new trials, which did not select the draft."""
        first_number = _PROVING_FIRST + PROVING_TRIALS * self._proof_count
        self._proof_count += 1
        draft_trials = DraftTrials(prompt=(), mutant=())
        for size in _PROVING_BATCHES:
            new_trials = await self._run_both(draft, range(first_number, first_number + size))
            first_number += size
            draft_trials = DraftTrials(
                prompt=draft_trials.prompt + new_trials.prompt,
                mutant=draft_trials.mutant + new_trials.mutant,
            )
            if not draft_trials.is_promising:
                self._reason = f"a draft was not proven: {_failure_reason(draft_trials)}"
                return None
        failed = [
            check
            for check in draft_trials.mutant[0].facts.checks
            if all(trial.facts.checks.get(check) is False for trial in draft_trials.mutant)
        ]
        return GuardSuggestion(
            row=self.problem.row,
            status="offered",
            draft=draft,
            judges=tuple(failed),
            output=draft_trials.prompt[0].output,
            mutant_output=draft_trials.mutant[0].output,
            calls=self.calls,
        )

    async def _run_both(self, draft: Draft, numbers: range) -> DraftTrials:
        bench = self.bench_of(draft)
        prompt, mutant = await asyncio.gather(
            self._run_trials(bench, draft, numbers, is_mutated=False),
            self._run_trials(bench, draft, numbers, is_mutated=True),
        )
        return DraftTrials(prompt=prompt, mutant=mutant)

    async def _run_trials(
        self, bench: Bench, draft: Draft, numbers: range, *, is_mutated: bool
    ) -> tuple[JudgedTrial, ...]:
        inputs = digest_of(dict(draft.inputs))
        new = {(inputs, is_mutated, number) for number in numbers} - self._counted_trials
        self._counted_trials |= new
        self.calls += len(new)
        self.progress.count(calls=len(new))
        prompt = self.problem.mutant.prompt if is_mutated else None
        trials = await bench.run_trials(prompt, [(draft.like, number) for number in numbers])
        for trial in trials:
            if isinstance(trial, Exception):
                raise trial
        return tuple(trial for trial in trials if not isinstance(trial, Exception))


def _failure_reason(draft_trials: DraftTrials) -> str:
    failed = [trial.facts.passed is not True for trial in draft_trials.prompt]
    passes = [trial.facts.passed is not False for trial in draft_trials.mutant]
    if any(failed):
        return f"the prompt fails {sum(failed)} of {len(failed)}"
    return f"without the text {sum(passes)} of {len(passes)} pass"


def add_cases(
    suggestions: Sequence[GuardSuggestion], golden: Mapping[str, GoldenCase], ids: Collection[str]
) -> list[GuardSuggestion]:
    """Return suggestions with their golden cases, marked with their origin and for review.

    Of cases with the same inputs only the first stays, so that no input counts twice.

    Args:
        golden: The cases by key.
        ids: The ids of all cases of the datasets.
    """
    used_ids = {*ids}
    cases_by_inputs: dict[str, tuple[str, Mapping[str, JSON]]] = {}
    cases: list[GuardSuggestion] = []
    for suggestion in suggestions:
        draft = suggestion.draft
        if draft is None or draft.existing:
            cases.append(suggestion)
            continue
        inputs = digest_of(dict(draft.inputs))
        if inputs not in cases_by_inputs:
            name = _free_id(f"guards-{suggestion.row.id}", used_ids)
            used_ids.add(name)
            cases_by_inputs[inputs] = (
                draft.digest,
                _document(name, suggestion.row, draft, golden[draft.like]),
            )
        digest, case = cases_by_inputs[inputs]
        if digest == draft.digest:
            cases.append(replace(suggestion, case=case))
        else:
            reason = f"its case has the inputs of {case['id']}: add that one, then run again"
            cases.append(replace(suggestion, status="none", draft=None, reason=reason))
    return cases


def _free_id(name: str, used_ids: Collection[str]) -> str:
    numbered = (f"{name}-{number}" for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in used_ids)


REVIEW_TAG = "review"
"""The tag of golden cases that a user has not reviewed yet."""
_NOTED = 80


def _document(name: str, row: MutantRow, draft: Draft, like: GoldenCase) -> dict[str, JSON]:
    document: dict[str, JSON] = {"id": name, "inputs": dict(draft.inputs)}
    if draft.expected is not None:
        document["expected"] = draft.expected
    if draft.checks:
        document["checks"] = list(draft.checks)
        if keeps_checks(draft, like) and like.pass_at is not None:
            document["pass_at"] = like.pass_at
    document["tags"] = [*dict.fromkeys((*like.tags, REVIEW_TAG))]
    document["tier"] = "required"
    if like.split == "holdout":
        # A variant of a held-out case stays held out.
        document["split"] = "holdout"
    origin = f"regauge mutate --suggest ({draft.proposer}), after case {like.id}"
    document["source"] = f"{origin}: {like.source}" if like.source else origin
    if like.licence:
        document["licence"] = like.licence
    all_trials = f"{PROVING_TRIALS} of {PROVING_TRIALS}"
    document["note"] = (
        f"Review the inputs and the expectation. Guards line {row.line}, {cut(row.text, _NOTED)!r}:"
        f" passes {all_trials} trials, fails {all_trials} without it."
    )
    return document
