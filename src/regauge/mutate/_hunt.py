"""One mutant against the suite: cases in the order of their relevance, until one is broken.

The tests are the gate's: e-values of single cases against the base's record, the bounds of e-BH
over all cells, the rule of critical cases, and the permutation test of the whole suite. Trials of
the base are those of its record, so trials of mutants alone are drawn.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice, repeat
from math import exp, log
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    MissingRecordingError,
    ProviderError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.gate import BaseTrials, Count, screen, screen_bound
from regauge.mutate._outputs import Outputs
from regauge.mutate._types import Classification
from regauge.stats import e_bh, log_e_value, suite_p_value
from regauge.wording import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.gate import GatePolicy
    from regauge.mutate._types import Bench, Case, JudgedTrial, MutantClass
    from regauge.prompts import Prompt
    from regauge.stats import Direction


# Trials of the base for a case without a baseline: with fewer, the e-value of a case that always
# fails now needs more trials of every mutant than the base costs once.
_TRIALS = 12


class BaseRun:
    """The base's record and outputs, shared by all mutants.

    Attributes:
        calls: Trials of the base that were asked for.
        outputs: Compares outputs.
    """

    def __init__(self, cases: Sequence[Case], bench: Bench) -> None:
        self.cases: Mapping[str, Case] = {case.key: case for case in cases}
        self.calls = 0
        self.outputs = Outputs()
        self._bench = bench
        self._drawn: dict[str, list[JudgedTrial]] = defaultdict(list)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def repeats_itself(self) -> bool:
        """True if every case is known to give the same output each time."""
        return all(case.repeats > 1 for case in self.cases.values())

    async def history(self, key: str, more: int = 0) -> BaseTrials:
        """The base's record of a case: of the baseline, or trials that are drawn now.

        Args:
            more: So many trials beyond these, where the record decides nothing.
        """
        stored = self.cases[key].history
        if stored is not None and stored.total.trials:
            return _add(stored, await self._record(key, more)) if more else stored
        return await self._record(key, _TRIALS + more)

    async def _record(self, key: str, trials: int) -> BaseTrials:
        drawn = await self._first(key, trials)
        checks = {
            check: Count(passed=bits.count(True), trials=len(bits) - bits.count(None))
            for check in self.cases[key].checks
            for bits in [[trial.facts.checks.get(check) for trial in drawn]]
        }
        passed = [trial.facts.passed for trial in drawn]
        whole = Count(passed=passed.count(True), trials=len(passed) - passed.count(None))
        return BaseTrials(checks=checks, total=whole)

    async def first(self, key: str) -> JudgedTrial:
        """The trial of a case that its eval replays."""
        return (await self._first(key, 1))[0]

    async def is_usual(self, key: str) -> bool:
        """True if the first trial gave the one output that the baseline has of a case."""
        case = self.cases[key]
        if not case.repeats:
            return False
        return (await self.first(key)).facts.output_digest.startswith(case.answer)

    async def texts(self, key: str, count: int) -> list[str]:
        """Outputs of the base for a case: this number, or more where they are known to be equal."""
        if await self.is_usual(key):
            return [(await self.first(key)).output] * self.cases[key].repeats
        return [trial.output for trial in await self._first(key, count)]

    async def _first(self, key: str, count: int) -> list[JudgedTrial]:
        """The first trials of the base for a case; the same for every caller."""
        async with self._locks[key]:
            drawn = self._drawn[key]
            missing = range(len(drawn), count)
            if missing:
                made = await self._bench.draw(None, [(key, number) for number in missing])
                # The first one is that of the evals, which is recorded.
                self.calls += sum(number > 0 for number in missing)
                for trial in made:
                    if isinstance(trial, RegaugeError):
                        raise trial
                    if isinstance(trial, Exception):
                        raise UnmeasuredError(f"{type(trial).__name__}: {trial}") from trial
                    drawn.append(trial)
            return drawn[:count]


def _add(history: BaseTrials, other: BaseTrials) -> BaseTrials:
    checks = {check: count + other.checks[check] for check, count in history.checks.items()}
    return BaseTrials(checks=checks, total=history.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntPolicy:
    """Bounds and numbers of trials for a mutant.

    Attributes:
        gate: The bounds of the gate, which name a case broken or a suite worse.
        changed: The level of the test whether outputs changed, for its stages together.
        base_outputs: Outputs of the base for a case whose outputs vary.
        more_base_outputs: The same for a case that is looked at closely.
        fresh: Fresh trials of such a case.
        fresh_cases: Cases that are looked at for their differences.
        extra: Further trials of the cases that share most with the mutated text, most relevant
            first.
    """

    gate: GatePolicy
    changed: float = 0.01
    base_outputs: int = 4
    more_base_outputs: int = 12
    fresh: int = 4
    fresh_cases: int = 3
    extra: tuple[int, ...] = (3, 3, 1, 1)


# Trials of a mutant for each look: single ones first, since most mutants show at once; fewer looks
# take more trials, more looks take longer.
_BATCHES = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8)
# A suspect with so many trials is weighed against so many more of the base: twelve trials that all
# pass cannot show that a case now passes every third time.
_LONGER = {8: 12, 14: 24}
_SHOWN_OUTPUTS = 3
_SHOWN_NEAREST = 3
_SHOWN_CHARACTERS = 400


@dataclass
class Hunt:
    """Looks for the class of one prompt text.

    Attributes:
        ranked: The cases with their relevance, most relevant first.
        calls: Trials that were drawn or replayed.
    """

    prompt: Prompt
    ranked: Sequence[tuple[Case, float]]
    base: BaseRun
    bench: Bench
    policy: HuntPolicy
    calls: int = field(default=0, init=False)
    _drawn: dict[str, list[JudgedTrial]] = field(
        default_factory=dict[str, "list[JudgedTrial]"], init=False
    )
    _history: dict[str, BaseTrials] = field(default_factory=dict[str, BaseTrials], init=False)
    _errors: list[Exception] = field(default_factory=list[Exception], init=False)
    _over: set[str] = field(default_factory=set[str], init=False)

    def __post_init__(self) -> None:
        self._case_policy = self.policy.gate.case
        blocking = [case for case in self.base.cases.values() if case.blocks]
        self._cells = sum(len(case.checks) for case in blocking)

    async def run(self) -> Classification:
        """Draw until the class is known."""
        try:
            return replace(await self._run(), calls=self.calls)
        except BudgetError:
            return Classification(kind="undecided", reason="out of budget", calls=self.calls)
        except MissingRecordingError:
            result = Classification(kind="undecided", reason="not recorded", unmeasured=True)
        except RegaugeError as error:
            result = _unmeasured(error)
        nearest: list[JSON] = [case.key for case, score in self.ranked if score > 0]
        evidence = {"nearest": nearest[:_SHOWN_NEAREST]}
        return replace(result, calls=self.calls, evidence=evidence)

    async def _run(self) -> Classification:
        for batch in _batches([case.key for case, _ in self.ranked]):
            await self._draw(batch)
            if (result := await self._settle()) is not None:
                return result
        if (result := await self._look_again()) is not None:
            return result
        return await self._classify()

    async def _draw(self, keys: Iterable[str]) -> None:
        """One more trial of each of some cases."""
        trials = [(key, len(self._drawn.setdefault(key, []))) for key in keys]
        self.calls += len(trials)
        made = await self.bench.draw(self.prompt, trials)
        for (key, _), trial in zip(trials, made, strict=True):
            if isinstance(trial, BudgetError | MissingRecordingError) or _has_no_key(trial):
                raise trial
            if isinstance(trial, Exception):
                self._errors.append(trial)
                self._over.add(key)
            else:
                self._drawn[key].append(trial)

    async def _settle(self) -> Classification | None:
        """Draw the most suspicious case until no suspect is left, or one is broken."""
        while True:
            await self._learn()
            if (result := self._broken()) is not None:
                return result
            suspects = [
                (evidence, -rank, case.key)
                for rank, (case, _) in enumerate(self.ranked)
                if (evidence := self._suspicion(case)) is not None
            ]
            if not suspects:
                return None
            key = max(suspects)[2]
            await self._draw([key])
            await self._weigh_again(key)

    async def _weigh_again(self, key: str) -> None:
        """Have more trials of the base where its record is too short to decide."""
        drawn = len(self._drawn[key])
        if drawn in _LONGER and key in self._history and not self._errors:
            self._history[key] = await self.base.history(key, _LONGER[drawn])

    async def _learn(self) -> None:
        """Have the base's record of every drawn case, where something can follow from it."""
        for key, drawn in self._drawn.items():
            if key in self._history or not drawn:
                continue
            stored = self.base.cases[key].history
            if stored is None or not stored.total.trials:
                passed = all(trial.facts.passed is not False for trial in drawn)
                if passed and (await self.base.first(key)).facts.passed is not False:
                    continue
            self._history[key] = await self.base.history(key)

    async def _look_again(self) -> Classification | None:
        """Further trials of the cases that share most with the mutated text."""
        shared = [
            case.key for case, score in self.ranked if score > 0 and case.key not in self._over
        ]
        for key, more in zip(shared, self.policy.extra, strict=False):
            while len(self._drawn[key]) <= more and key not in self._over:
                await self._draw([key])
                if (result := await self._settle()) is not None:
                    return result
        return None

    def _count(self, key: str, check: str) -> tuple[int, int]:
        bits = [trial.facts.checks.get(check) for trial in self._drawn[key]]
        return bits.count(True), len(bits) - bits.count(None)

    def _evidence(self, key: str, check: str, direction: Direction) -> float:
        record = self._record(key, check)
        passed, trials = self._count(key, check)
        if not trials or record is None or not record.trials:
            return -np.inf
        return _log_e(record.passed, record.trials, passed, trials, direction)

    def _record(self, key: str, check: str) -> Count | None:
        history = self._history.get(key)
        return history.checks.get(check) if history is not None else None

    def _suspicion(self, case: Case) -> float | None:
        """The evidence of a case that further trials may name; None where they would not."""
        key, policy = case.key, self._case_policy
        drawn = len(self._drawn.get(key, ()))
        if not drawn or key in self._over:
            return None
        if case.tier == "critical" and case.blocks:
            failed = sum(trial.facts.passed is False for trial in self._drawn[key])
            rule = replace(self.policy.gate.critical, strict=case.strict)
            return float(failed) if failed and drawn < rule.trials_wanted(failed) else None
        if drawn > sum(policy.steps):
            return None
        evidence_of = [
            evidence
            for check in case.checks
            for direction in ("worse", "better")
            if (evidence := self._doubt(case, check, direction)) is not None
        ]
        return max(evidence_of, default=None)

    def _doubt(self, case: Case, check: str, direction: Direction) -> float | None:
        record = self._record(case.key, check)
        if record is None or not record.trials:
            return None
        passed, trials = self._count(case.key, check)
        policy = self._case_policy
        if direction == "worse":
            if not case.blocks or passed == trials or not record.passed:
                return None
            least = policy.suspect if trials < 2 else policy.clear  # noqa: PLR2004 - a first trial
        else:
            rare = record.passed <= self.policy.gate.improved_at_most * record.trials
            if not trials or (trials == 1 and not passed) or not rare:
                return None
            least = policy.clear
        evidence = self._evidence(case.key, check, direction)
        return evidence if log(least) <= evidence < self._bound() else None

    def _bound(self) -> float:
        return self._case_policy.log_bound(max(self._cells, 1))

    def _name_cases(self, direction: Direction) -> list[tuple[Case, str, float]]:
        """The cells that the gate's bound names."""
        drawn = [case for case, _ in self.ranked if self._drawn.get(case.key)]
        if direction == "worse":
            cases = [case for case in drawn if case.blocks and case.tier != "critical"]
        else:
            cases = [case for case in drawn if self._is_failing(case)]
        cells = [
            (case, check, self._evidence(case.key, check, direction))
            for case in cases
            for check in case.checks
        ]
        if not cells:
            return []
        evidence = np.array([cell[2] for cell in cells])
        size = max(self._cells, len(cells))
        bound = e_bh(evidence, alpha=self._case_policy.alpha, cells=size)
        return [cell for cell in cells if cell[2] >= float(bound.log_bound)]

    def _is_failing(self, case: Case) -> bool:
        history = self._history.get(case.key)
        most = self.policy.gate.improved_at_most
        return history is not None and history.total.passed <= most * history.total.trials

    def _broken(self) -> Classification | None:
        for case, _ in self.ranked:
            if case.tier != "critical" or not case.blocks:
                continue
            failures = [o for o in self._drawn.get(case.key, ()) if o.facts.passed is False]
            rule = replace(self.policy.gate.critical, strict=case.strict)
            if rule.blocks(len(failures)):
                judges = {
                    check for o in failures for check, ok in o.facts.checks.items() if ok is False
                }
                return self._classified("killed", [case.key], sorted(judges), {"tier": "critical"})
        named = self._name_cases("worse")
        if not named:
            return None
        return self._decided_by("killed", named)

    def _decided_by(
        self, kind: MutantClass, cells: Sequence[tuple[Case, str, float]]
    ) -> Classification:
        keys, judges = [case.key for case, *_ in cells], [check for _, check, _ in cells]
        evidence = exp(min(max(evidence for *_, evidence in cells), 700.0))
        return self._classified(kind, keys, judges, {"e_value": float(f"{evidence:.3g}")})

    def _classified(
        self,
        kind: MutantClass,
        keys: Sequence[str],
        judges: Sequence[str],
        evidence: dict[str, JSON],
    ) -> Classification:
        drawn = self._drawn[keys[0]]
        passed = sum(trial.facts.passed is True for trial in drawn)
        record = self._history.get(keys[0])
        return Classification(
            kind=kind,
            cases=tuple(dict.fromkeys(keys)),
            judges=tuple(dict.fromkeys(judges)),
            evidence={
                "passed": f"{passed} of {len(drawn)}",
                "base": str(record.total) if record is not None else "",
                **evidence,
                "cases_drawn": len(self._drawn),
            },
        )

    async def _classify(self) -> Classification:
        """The class of a mutant that broke no case, after all of them were drawn."""
        suite = await self._suite("worse")
        if suite is not None:
            return Classification(kind="killed", evidence=suite)
        fixed = self._name_cases("better")
        if self._errors:
            return _unmeasured(self._errors[0])
        unsettled = self._unsettled()
        if unsettled:
            reason = f"the gate leaves {unsettled} undecided"
            return Classification(kind="undecided", reason=reason, cases=(unsettled,))
        drawn: dict[str, JSON] = {"cases_drawn": len(self._drawn)}
        if fixed:
            return self._decided_by("harmful", fixed)
        better = await self._suite("better")
        if better is not None:
            return Classification(kind="harmful", evidence={**better, **drawn})
        return await self._changed(drawn)

    def _unsettled(self) -> str:
        """A case that the gate would leave undecided at the cap of its trials."""
        cap = sum(self._case_policy.steps)
        least = log(self._case_policy.undecided)
        unsettled = (
            case.key
            for case, _ in self.ranked
            if case.blocks
            and len(self._drawn.get(case.key, ())) > cap
            and any(self._evidence(case.key, check, "worse") >= least for check in case.checks)
        )
        return next(unsettled, "")

    async def _suite(self, direction: Direction) -> dict[str, JSON] | None:
        """The evidence that the whole suite is worse or better; None where it is neither.

        The first trials of all cases ask, as in the gate; a further trial of each case answers.
        """
        keys = [case.key for case, _ in self.ranked if case.key in self._history]
        level = screen_bound(self.policy.gate.suite, 0, prompts=1)
        p_value = self._suite_p(keys, 0, direction)
        if p_value > level:
            return None
        await self._draw([key for key in keys if len(self._drawn[key]) < 2])  # noqa: PLR2004 - a second trial
        fresh = self._suite_p(keys, 1, direction)
        if fresh > level:
            return None
        return {"suite": direction, "p_value": float(f"{fresh:.2g}")}

    def _suite_p(self, keys: Sequence[str], number: int, direction: Direction) -> float:
        rows: list[tuple[int, int, int, int]] = []
        for key in keys:
            drawn = self._drawn.get(key, [])
            passed = drawn[number].facts.passed if len(drawn) > number else None
            record = self._history[key].total
            rows.append((record.passed, record.trials, int(bool(passed)), int(passed is not None)))
        if not rows:
            return 1.0
        s, m, k, r = (np.array(column) for column in zip(*rows, strict=True))
        if direction == "worse":
            return float(screen((s, m), (k, r)).p_value)
        return float(suite_p_value(s, m, k, r, direction="better"))

    async def _changed(self, drawn: dict[str, JSON]) -> Classification:
        """The class by outputs: do they differ from the base's by more than these do anyway?"""
        base, policy = self.base, self.policy
        seed = int(digest_of([self.prompt.digest])[:8], 16)
        base_texts = {
            key: await base.texts(key, policy.base_outputs)
            for key, made in self._drawn.items()
            if made
        }
        first = {key: self._drawn[key][0].output for key in base_texts}
        novel = [
            key for key, output in first.items() if base.outputs.novel(output, base_texts[key])
        ]
        if not novel:
            return Classification(kind="no-effect", evidence=drawn)
        result = Classification(
            kind="survived",
            cases=tuple(novel),
            evidence={
                "changed": len(novel),
                "outputs": [
                    {
                        "case": key,
                        "base": cut(base_texts[key][0], _SHOWN_CHARACTERS),
                        "mutant": cut(first[key], _SHOWN_CHARACTERS),
                    }
                    for key in novel[:_SHOWN_OUTPUTS]
                ],
                **drawn,
            },
            novel=frozenset(novel),
        )
        if base.repeats_itself:
            return result
        noise = base.outputs.noise(base_texts.values())
        p_value = await self._relevant_p(noise, seed) / _SHARES[0]
        if p_value > policy.changed:
            whole = [(base_texts[key], first[key], await base.is_usual(key)) for key in base_texts]
            p_value = base.outputs.first_trials_p(whole, noise=noise, seed=seed) / _SHARES[1]
        if p_value > policy.changed:
            p_value = await self._fresh_p(novel, base_texts, first, noise, seed) / _SHARES[2]
        if self._errors:
            return _unmeasured(self._errors[0])
        rounded = float(f"{min(1.0, p_value):.2g}")
        if p_value > policy.changed:
            return Classification(kind="no-effect", evidence={"p_value": rounded, **drawn})
        return replace(result, evidence={"p_value": rounded, **result.evidence})

    async def _relevant_p(self, noise: dict[str, float], seed: int) -> float:
        """The p-value on the cases that share most with the mutated text, with all their trials.

        Their order was known before any trial, so these trials have chosen nothing.
        """
        shared = [case.key for case, score in self.ranked if score > 0 and self._drawn[case.key]]
        cases: list[tuple[list[str], list[str]]] = []
        p_values: list[float] = []
        for key in shared[: len(self.policy.extra)]:
            texts = await self.base.texts(key, self.policy.more_base_outputs)
            cases.append((texts, [trial.output for trial in self._drawn[key]]))
            if len(cases) in {1, len(self.policy.extra)}:
                p_values.append(self.base.outputs.difference_p(cases, noise=noise, seed=seed))
        return min(p_values, default=1.0) * max(len(p_values), 1)

    async def _fresh_p(
        self,
        novel: Sequence[str],
        base_texts: dict[str, list[str]],
        first: dict[str, str],
        noise: dict[str, float],
        seed: int,
    ) -> float:
        """The p-value on trials that did not choose the cases."""
        base, policy = self.base, self.policy
        relevance = {case.key: score for case, score in self.ranked}
        most = max(relevance.values(), default=0.0) or 1.0

        def promise(key: str) -> float:
            apart = base.outputs.apart
            across = [apart(first[key], text, noise) for text in base_texts[key]]
            within = [
                apart(text, other, noise)
                for number, text in enumerate(base_texts[key])
                for other in base_texts[key][:number]
            ]
            excess = sum(across) / len(across) - (sum(within) / len(within) if within else 0.0)
            return excess * (1 + relevance[key] / most)

        chosen = sorted(novel, key=promise, reverse=True)[: policy.fresh_cases]
        cases: list[tuple[list[str], list[str]]] = []
        p_value = 1.0
        for number, key in enumerate(chosen):
            texts = await base.texts(key, policy.more_base_outputs)
            before = len(self._drawn[key])
            for _ in range(policy.fresh):
                await self._draw([key])
            cases.append((texts, [trial.output for trial in self._drawn[key][before:]]))
            p_value = base.outputs.difference_p(cases, noise=noise, seed=seed + number)
            # Each look has an equal share of the level.
            p_value *= len(chosen)
            if p_value <= policy.changed * _SHARES[2]:
                break
        return p_value


# Shares of the level: the most relevant cases, the first trials of all, and a closer look at those
# that differ most.
_SHARES = (0.4, 0.2, 0.4)


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    """The cases, few at a time: what is drawn next to a killing case is wasted."""
    left = iter(keys)
    for size in chain(_BATCHES, repeat(_BATCHES[-1])):
        batch = list(islice(left, size))
        if not batch:
            return
        yield batch


@lru_cache(maxsize=65536)
def _log_e(base_passed: int, base: int, passed: int, trials: int, direction: Direction) -> float:
    return float(log_e_value(base_passed, base, passed, trials, direction=direction))


def _has_no_key(result: JudgedTrial | Exception) -> TypeGuard[ProviderError]:
    """Return whether no call can succeed."""
    return isinstance(result, ProviderError) and result.kind == "authentication"


def _unmeasured(error: Exception) -> Classification:
    text = str(error) if isinstance(error, RegaugeError) else f"{type(error).__name__}: {error}"
    return Classification(kind="undecided", reason=text.partition("\n")[0], unmeasured=True)
