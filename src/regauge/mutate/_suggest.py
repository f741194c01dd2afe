"""Golden cases that guard an instruction: some trials choose a case, others prove it.

A proposer makes drafts from the cases that are nearest to the instruction. A draft is chosen if the
prompt passes it and the mutant fails it; it is offered if the prompt then passes five fresh trials
of five, and the mutant fails five of five.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from regauge.digests import digest_of
from regauge.errors import BudgetError, MissingRecordingError, RegaugeError, UsageError
from regauge.mutate._types import CaseRanking
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
"""Fresh trials of each side that a suggestion has to pass, or to fail without a miss."""
# Behind the trials that choose, and so far apart that each draft has trials of its own.
_PROVING_FIRST = 500
# A draft that fails two trials needs no further three.
_PROVING_BATCHES = (2, 3)
# Drafts that are proven, and looked at, for one mutant: they bound its calls.
_PROVEN_MAX = 6
_CHOSEN_MAX = 24
_NEAREST = 4
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A golden case that may guard an instruction.

    Attributes:
        like: The key of the case whose eval, tags, tier and split it takes.
        existing: The key of the case that it adds checks to; empty for a new case.
        reason: Why the proposer expects it to guard the instruction.
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
        """The digest of what is run and judged."""
        return digest_of([dict(self.inputs), self.expected, list(self.checks), self.like])


def keeps_checks(draft: Draft, like: GoldenCase) -> bool:
    """Return whether a draft has the checks of the case that it is like, and no others."""
    return bool(like.checks) and draft.checks == like.checks


@dataclass(frozen=True, slots=True, kw_only=True)
class UnguardedInstruction:
    """An instruction without a guard, as proposers receive it.

    Attributes:
        row: Its line, class and evidence.
        nearest: Cases by key, those that changed or share most with its text first.
        taken: The inputs of all cases, by digest: no draft repeats them.
    """

    prompt: Prompt
    mutant: Mutant
    row: MutantRow
    nearest: Mapping[str, GoldenCase]
    taken: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrials:
    """Trials of a draft that may choose it: of the prompt, and without the instruction."""

    prompt: tuple[JudgedTrial, ...]
    mutant: tuple[JudgedTrial, ...]

    @property
    def chooses(self) -> bool:
        """True if the prompt passes each trial and the mutant none."""
        return all(trial.facts.passed is True for trial in self.prompt) and all(
            trial.facts.passed is False for trial in self.mutant
        )


class Look(Protocol):
    """Runs a draft with and without the instruction."""

    async def __call__(self, draft: Draft, trials: int = 1) -> DraftTrials:
        """The first trials of a draft; a draft that cannot run is a UsageError."""
        ...


class DraftProposer(Protocol):
    """Makes drafts for an instruction, the likeliest first."""

    def drafts(self, problem: UnguardedInstruction, look: Look) -> AsyncGenerator[Draft, None]:
        """The drafts; each is tested before the next one is made."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSuggestion:
    """The result for one instruction.

    Attributes:
        draft: The case that guards it; None where none does.
        judges: The checks that fail without the instruction.
        output: An output of the prompt.
        mutant_output: An output without the instruction.
        case: The golden case as a line of the dataset; None for checks of an existing case.
        calls: Trials that the search took.
        reason: Why there is no case.
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
    """True if no case guards an instruction, or its class is unknown."""
    return row is None or row.kind in {"survived", "no-effect"}


def problems_of(
    prompt: Prompt,
    mutants: Sequence[Mutant],
    rows: Sequence[MutantRow],
    cases: Sequence[Case],
    golden: Mapping[str, GoldenCase],
) -> list[UnguardedInstruction]:
    """The instructions whose deletion no case notices, in the order of the rows.

    Conversations are left out of their nearest cases: a varied message changes all later ones.
    """
    by_id = {mutant.id: mutant for mutant in mutants}
    ranking = CaseRanking(cases)
    taken = frozenset(digest_of(dict(case.inputs)) for case in golden.values())
    problems: list[UnguardedInstruction] = []
    for row in rows:
        mutant = by_id.get(row.id)
        if mutant is None or not is_open(row):
            continue
        ranked = ranking.rank(mutant.text, mutant.section, first=row.cases)
        keys = [case.key for case, _ in ranked if golden[case.key].script is None]
        nearest = {key: golden[key] for key in keys[:_NEAREST]}
        problems.append(
            UnguardedInstruction(
                prompt=prompt, mutant=mutant, row=row, nearest=nearest, taken=taken
            )
        )
    return problems


async def suggest(
    problems: Sequence[UnguardedInstruction],
    proposers: Sequence[DraftProposer],
    bench_of: Callable[[Draft], Bench],
    progress: MutationProgress,
) -> list[GuardSuggestion]:
    """Look for a case for each instruction.

    Args:
        bench_of: Draws trials of a draft under the key of the case that it is like; a draft that
            is no valid case is a UsageError.
    """
    at_once = asyncio.Semaphore(_AT_ONCE)
    progress.mutants, progress.done = len(problems), 0

    async def suggest_for(problem: UnguardedInstruction) -> GuardSuggestion:
        async with at_once:
            search = _Search(problem, bench_of, progress)
            suggestion = await search.run(proposers)
        progress.done += 1
        return suggestion

    return await asyncio.gather(*(suggest_for(problem) for problem in problems))


@dataclass
class _Search:
    """The search for a case that guards one instruction."""

    problem: UnguardedInstruction
    bench_of: Callable[[Draft], Bench]
    progress: MutationProgress
    calls: int = field(default=0, init=False)
    _seen: set[tuple[str, bool, int]] = field(
        default_factory=set[tuple[str, bool, int]], init=False
    )
    _tried: set[str] = field(default_factory=set[str], init=False)
    _proven: int = field(default=0, init=False)
    _alike: int = field(default=0, init=False)
    _reason: str = field(default="", init=False)

    async def run(self, proposers: Sequence[DraftProposer]) -> GuardSuggestion:
        """Try drafts until one is proven."""
        row = self.problem.row
        if not self.problem.nearest:
            return GuardSuggestion(row=row, status="none", reason="every case is a conversation")
        try:
            for proposer in proposers:
                suggestion = await self._try(proposer)
                if suggestion is not None:
                    return suggestion
        except BudgetError:
            return self._open("out of budget")
        except MissingRecordingError:
            return self._open("not recorded", unmeasured=True)
        except RegaugeError as error:
            return self._open(str(error).partition("\n")[0], unmeasured=True)
        alike = f"{plural(self._alike, 'variant')} had the same output without the text"
        reason = self._reason or (alike if self._alike else "no proposer made a draft")
        return GuardSuggestion(row=row, status="none", reason=reason, calls=self.calls)

    def _open(self, reason: str, *, unmeasured: bool = False) -> GuardSuggestion:
        return GuardSuggestion(
            row=self.problem.row,
            status="undecided",
            reason=reason,
            calls=self.calls,
            unmeasured=unmeasured,
        )

    async def _try(self, proposer: DraftProposer) -> GuardSuggestion | None:
        drafts = proposer.drafts(self.problem, self._look)
        try:
            async for draft in drafts:
                if len(self._tried) >= _CHOSEN_MAX or self._proven >= _PROVEN_MAX:
                    return None
                if draft.digest in self._tried or not await self._chooses(draft):
                    continue
                suggestion = await self._prove(draft)
                if suggestion is not None:
                    return suggestion
        finally:
            await drafts.aclose()
        return None

    async def _chooses(self, draft: Draft) -> bool:
        self._tried.add(draft.digest)
        if not draft.existing and digest_of(dict(draft.inputs)) in self.problem.taken:
            self._reason = "drafts repeat the inputs of a case"
            return False
        try:
            looked = await self._look(draft)
        except UsageError as error:
            self._reason = f"a draft cannot be used: {str(error).partition(chr(10))[0]}"
            return False
        if not looked.chooses:
            self._reason = _why_not(looked)
        return looked.chooses

    async def _look(self, draft: Draft, trials: int = 1) -> DraftTrials:
        looked = await self._draw_both(draft, range(trials))
        self._alike += trials == 1 and looked.prompt[0].output == looked.mutant[0].output
        return looked

    async def _prove(self, draft: Draft) -> GuardSuggestion | None:
        """Run fresh trials, which no draft was chosen by."""
        at = _PROVING_FIRST + PROVING_TRIALS * self._proven
        self._proven += 1
        seen = DraftTrials(prompt=(), mutant=())
        for size in _PROVING_BATCHES:
            made = await self._draw_both(draft, range(at, at + size))
            at += size
            seen = DraftTrials(prompt=seen.prompt + made.prompt, mutant=seen.mutant + made.mutant)
            if not seen.chooses:
                self._reason = f"a draft was not proven: {_why_not(seen)}"
                return None
        failed = [
            check
            for check in seen.mutant[0].facts.checks
            if all(trial.facts.checks.get(check) is False for trial in seen.mutant)
        ]
        return GuardSuggestion(
            row=self.problem.row,
            status="offered",
            draft=draft,
            judges=tuple(failed),
            output=seen.prompt[0].output,
            mutant_output=seen.mutant[0].output,
            calls=self.calls,
        )

    async def _draw_both(self, draft: Draft, numbers: range) -> DraftTrials:
        bench = self.bench_of(draft)
        prompt, mutant = await asyncio.gather(
            self._draw(bench, draft, numbers, mutated=False),
            self._draw(bench, draft, numbers, mutated=True),
        )
        return DraftTrials(prompt=prompt, mutant=mutant)

    async def _draw(
        self, bench: Bench, draft: Draft, numbers: range, *, mutated: bool
    ) -> tuple[JudgedTrial, ...]:
        inputs = digest_of(dict(draft.inputs))
        new = {(inputs, mutated, number) for number in numbers} - self._seen
        self._seen |= new
        self.calls += len(new)
        self.progress.calls += len(new)
        prompt = self.problem.mutant.prompt if mutated else None
        made = await bench.draw(prompt, [(draft.like, number) for number in numbers])
        for trial in made:
            if isinstance(trial, Exception):
                raise trial
        return tuple(trial for trial in made if not isinstance(trial, Exception))


def _why_not(looked: DraftTrials) -> str:
    failed = [trial.facts.passed is not True for trial in looked.prompt]
    kept = [trial.facts.passed is not False for trial in looked.mutant]
    if any(failed):
        return f"the prompt fails {sum(failed)} of {len(failed)}"
    return f"without the text {sum(kept)} of {len(kept)} pass"


def with_cases(
    suggestions: Sequence[GuardSuggestion], golden: Mapping[str, GoldenCase], ids: Collection[str]
) -> list[GuardSuggestion]:
    """Suggestions with their golden cases, marked with their origin and for review.

    Two cases with the same inputs would count one input twice: of different ones, the first stays.

    Args:
        golden: The cases by key.
        ids: The ids of all cases of the datasets.
    """
    used = {*ids}
    met: dict[str, tuple[str, Mapping[str, JSON]]] = {}
    cases: list[GuardSuggestion] = []
    for suggestion in suggestions:
        draft = suggestion.draft
        if draft is None or draft.existing:
            cases.append(suggestion)
            continue
        inputs = digest_of(dict(draft.inputs))
        if inputs not in met:
            name = _free(f"guards-{suggestion.row.id}", used)
            used.add(name)
            met[inputs] = draft.digest, _document(name, suggestion.row, draft, golden[draft.like])
        digest, case = met[inputs]
        if digest == draft.digest:
            cases.append(replace(suggestion, case=case))
        else:
            reason = f"its case has the inputs of {case['id']}: add that one, then run again"
            cases.append(replace(suggestion, status="none", draft=None, reason=reason))
    return cases


def _free(name: str, used: Collection[str]) -> str:
    numbered = (f"{name}-{number}" for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in used)


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
        # What is held out must not be learned from, in other words either.
        document["split"] = "holdout"
    origin = f"regauge mutate --suggest ({draft.proposer}), after case {like.id}"
    document["source"] = f"{origin}: {like.source}" if like.source else origin
    if like.licence:
        document["licence"] = like.licence
    every = f"{PROVING_TRIALS} of {PROVING_TRIALS}"
    document["note"] = (
        f"Review the inputs and the expectation. Guards line {row.line}, {cut(row.text, _NOTED)!r}:"
        f" passes {every} trials, fails {every} without it."
    )
    return document
