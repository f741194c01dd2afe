"""All mutants of a prompt: whole blocks first, and their parts if something depends on them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from regauge.mutate._classify import BaseRun, MutantClassifier
from regauge.mutate._operators import Mutant, Mutation, probe_groups
from regauge.mutate._types import CaseRanking, Classification, Result

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from regauge.mutate._classify import ClassificationPolicy
    from regauge.mutate._types import Bench, Case
    from regauge.prompts import Prompt

# A block is only run if it may save more trials than a killed block takes.
_PROBE_SAVES = 40
# A block with nearly the same mutants as the one around it is skipped.
_NEARLY = 0.8
# Mutants measured at once; the rate limits of the provider apply in any case.
_AT_ONCE = 8


@dataclass(slots=True, kw_only=True)
class MutationProgress:
    """The progress of a measurement.

    Attributes:
        mutants: Number of mutants to measure.
        done: Number of mutants with a class.
        calls: Trials so far, including those of blocks and of the base.
    """

    mutants: int = 0
    done: int = 0
    calls: int = 0

    def start(self, mutants: int) -> None:
        """Start the count of mutants."""
        self.mutants, self.done = mutants, 0

    def count(self, *, calls: int = 0, done: int = 0) -> None:
        """Count trials, and mutants that have a class."""
        self.calls += calls
        self.done += done


@dataclass(slots=True, kw_only=True)
class _Block:
    change: Mutation
    ids: frozenset[str]
    blocks: list[_Block] = field(default_factory=list["_Block"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredClasses:
    """The classes of the mutants of a prompt.

    Attributes:
        calls: Trials of mutants and blocks.
        base_calls: Trials of the base that are missing in its baseline.
    """

    results: tuple[Result, ...]
    calls: int
    base_calls: int


async def measure(
    prompt: Prompt,
    mutants: Sequence[Mutant],
    cases: Sequence[Case],
    bench: Bench,
    policy: ClassificationPolicy,
    *,
    first: Mapping[str, Collection[str]] | None = None,
    marks: Mapping[str, str] | None = None,
    progress: MutationProgress | None = None,
) -> MeasuredClasses:
    """Find the class of every mutant.

    The classes depend on the trials only, not on their order.

    Args:
        first: By mutant id, the cases that killed it before.
        marks: By mutant id, the reason why it is equivalent; it is not run.
    """
    marks = marks or {}
    left = [mutant for mutant in mutants if mutant.id not in marks]
    run = _Run(
        mutants={mutant.id: mutant for mutant in left},
        base=BaseRun(cases, bench),
        ranking=CaseRanking(cases),
        bench=bench,
        policy=policy,
        first=first or {},
        progress=progress or MutationProgress(),
    )
    run.progress.start(len(left))
    await run.measure_mutants(_nest_blocks(prompt, left, len(cases)), run.mutants.keys(), None)
    for id_, reason in marks.items():
        run.outcomes[id_] = Classification(kind="equivalent", reason=reason)
    results = tuple(
        Result(mutant=mutant, outcome=run.outcomes[mutant.id])
        for mutant in mutants
        if mutant.id in run.outcomes
    )
    return MeasuredClasses(results=results, calls=run.calls, base_calls=run.base.calls)


@dataclass(kw_only=True)
class _Run:
    mutants: Mapping[str, Mutant]
    base: BaseRun
    ranking: CaseRanking
    bench: Bench
    policy: ClassificationPolicy
    first: Mapping[str, Collection[str]]
    progress: MutationProgress
    outcomes: dict[str, Classification] = field(default_factory=dict[str, "Classification"])
    calls: int = 0
    at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def measure_mutants(
        self, blocks: Sequence[_Block], ids: Collection[str], only: Collection[str] | None
    ) -> None:
        """Measure some mutants: those in blocks by their blocks, the others one by one."""
        inside = {id_ for block in blocks for id_ in block.ids}
        alone = [self.mutants[id_] for id_ in self.mutants if id_ in ids and id_ not in inside]
        await asyncio.gather(
            *(self._measure_block(block, only) for block in blocks),
            *(self._measure_mutant(mutant, only) for mutant in alone),
        )

    async def _measure_block(self, block: _Block, only: Collection[str] | None) -> None:
        change = block.change
        result = await self._classify(change, only)
        if result.kind == "no-effect":
            evidence = {**result.evidence, "block": change.text.partition("\n")[0][:80]}
            for id_ in block.ids:
                self._note(id_, replace(result, evidence=evidence, calls=0))
            return
        # Cases that the whole block does not change are not changed by its parts.
        changed_cases = result.novel_cases if result.kind == "survived" else only
        await self.measure_mutants(block.blocks, block.ids, changed_cases)

    async def _measure_mutant(self, mutant: Mutant, only: Collection[str] | None) -> None:
        result = await self._classify(mutant, only, first=self.first.get(mutant.id, ()))
        self._note(mutant.id, result)

    async def _classify(
        self, edit: Mutation, only: Collection[str] | None, first: Collection[str] = ()
    ) -> Classification:
        ranking = self.ranking.rank(edit.text, edit.section, first=first)
        if only is not None:
            ranking = [case for case in ranking if case[0].key in only]
        async with self.at_once:
            classifier = MutantClassifier(edit.prompt, ranking, self.base, self.bench, self.policy)
            try:
                return await classifier.run()
            finally:
                self.calls += classifier.calls
                self.progress.calls = self.calls + self.base.calls

    def _note(self, id_: str, result: Classification) -> None:
        self.outcomes[id_] = result
        self.progress.count(done=1)


def _nest_blocks(prompt: Prompt, mutants: Sequence[Mutant], cases: int) -> list[_Block]:
    """Return the blocks, each nested in the one around it."""
    top: list[_Block] = []
    for change, ids in probe_groups(prompt, mutants):
        block = _Block(change=change, ids=frozenset(ids))
        level, size = top, len(mutants)
        around = next((other for other in level if block.ids <= other.ids), None)
        while around is not None:
            level, size = around.blocks, len(around.ids)
            around = next((other for other in level if block.ids <= other.ids), None)
        if len(block.ids) < _NEARLY * size and len(block.ids) * cases >= _PROBE_SAVES:
            level.append(block)
    return top


# Shares of killed mutants without an earlier class: between the suites of `benchmarks/mutate.py`
# that guard nearly all and half of the instructions; lower if no case has a word of the text. They
# only change estimates: by 0.1 more or less in the last two, the estimates that tests hold move by
# up to 1 % and 7 %.
_KILLED_SHARE = {
    "delete-field": 0.95,
    "delete-tool": 0.95,
    "delete-parameter": 0.95,
    "delete-description": 0.05,
}
_KILLED_SHARE_OTHERS = 0.6
_KILLED_SHARE_UNMENTIONED = 0.2
# Fitted to simulated suites (`benchmarks/mutate.py`). Cases with varying outputs take more trials:
# per killed mutant, per other mutant beyond one trial of each case, and once of the base.
_KILLED_CALLS, _KILLED_CALLS_VARYING = 5.0, 5.0
_OTHER_CALLS, _OTHER_CALLS_VARYING = 8.0, 0.25
_BASE_CALLS, _BASE_CALLS_VARYING = 100.0, 4.5
_BASE_CALLS_VARYING_MAX = 10.0
# Without a baseline: outputs of every case, and the record of a few.
_BASE_CALLS_PER_CASE = 3.5


def estimate_calls(
    prompt: Prompt,
    mutants: Sequence[Mutant],
    cases: Sequence[Case],
    kinds: Mapping[str, str] | None = None,
    *,
    recorded_calls: int = 0,
) -> int:
    """Estimate the trials of a measurement, of mutants and of the base.

    Args:
        recorded_calls: Trials of the base that are recorded.
        kinds: The classes of an earlier measurement, by mutant id. Without it the share of killed
            mutants is a guess.
    """
    if not mutants or not cases:
        return 0
    kinds = kinds or {}
    ranking = CaseRanking(cases)
    share = {
        mutant.id: float(kinds[mutant.id] == "killed")
        if mutant.id in kinds
        else _killed_share(mutant, ranking)
        for mutant in mutants
    }
    varying = sum(case.baseline is not None and not case.repeats for case in cases)
    other_calls = len(cases) + _OTHER_CALLS + _OTHER_CALLS_VARYING * varying
    killed_calls = _KILLED_CALLS + _KILLED_CALLS_VARYING * varying / len(cases)

    def calls_within(blocks: Sequence[_Block], ids: Collection[str]) -> float:
        inside = {id_ for block in blocks for id_ in block.ids}
        alone = [share[id_] for id_ in ids if id_ not in inside]
        return sum(share * killed_calls + (1 - share) * other_calls for share in alone) + sum(
            calls_of_block(block) for block in blocks
        )

    def calls_of_block(block: _Block) -> float:
        # Neighbours are similar: a block survives more often than independent parts would.
        survives = prod(1 - share[id_] for id_ in block.ids) ** 0.5
        parts = calls_within(block.blocks, block.ids)
        return survives * other_calls + (1 - survives) * (killed_calls + parts)

    total = calls_within(_nest_blocks(prompt, mutants, len(cases)), share.keys())
    base_calls = _BASE_CALLS_PER_CASE * sum(case.baseline is None for case in cases)
    base_calls += min(
        _BASE_CALLS + _BASE_CALLS_VARYING * varying, _BASE_CALLS_VARYING_MAX * varying
    )
    return round(total + max(0.0, base_calls - recorded_calls))


def _killed_share(mutant: Mutant, ranking: CaseRanking) -> float:
    share = _KILLED_SHARE.get(mutant.operator, _KILLED_SHARE_OTHERS)
    mentioned = ranking.rank(mutant.text)[0][1] > 0
    return share if mentioned else min(share, _KILLED_SHARE_UNMENTIONED)
