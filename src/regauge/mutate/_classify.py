"""One mutant against the suite: cases by relevance, until one is broken.

The tests are those of the gate: e-values of single cases against the base's record, e-BH bounds
over all checks, the rule of critical cases, and the permutation test of the suite. The trials of
the base are those of its record, so only mutants are run.
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
from regauge.mutate._types import Classification, missing_reason
from regauge.stats import e_bh, log_e_value, suite_p_value
from regauge.wording import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.gate import GatePolicy
    from regauge.mutate._types import Bench, Case, JudgedTrial, MutantClass
    from regauge.prompts import Prompt
    from regauge.stats import Direction


# Trials of the base for a case without a baseline. With fewer, a case that now always fails needs
# more trials of every mutant than are saved once on the base.
_TRIALS = 12


class BaseRun:
    """The base's record and outputs, shared by all mutants.

    Attributes:
        calls: Number of requested trials of the base.
        outputs: Compares outputs.
    """

    def __init__(self, cases: Sequence[Case], bench: Bench) -> None:
        self.cases: Mapping[str, Case] = {case.key: case for case in cases}
        self.calls = 0
        self.outputs = Outputs()
        self._bench = bench
        self._trials: dict[str, list[JudgedTrial]] = defaultdict(list)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def collect_trials(self, key: str, more_trials: int = 0) -> BaseTrials:
        """Return the base's record of a case: of the baseline, or of new trials.

        Args:
            key: The key of the case.
            more_trials: Number of trials beyond the record, if it is too short to decide.
        """
        baseline = self.cases[key].baseline
        if baseline is not None and baseline.total.trials:
            return _add(baseline, await self._record(key, more_trials)) if more_trials else baseline
        return await self._record(key, _TRIALS + more_trials)

    async def _record(self, key: str, trials: int) -> BaseTrials:
        judged_trials = await self._first_trials(key, trials)
        checks = {
            check: Count(passed=bits.count(True), trials=len(bits) - bits.count(None))
            for check in self.cases[key].checks
            for bits in [[trial.facts.checks.get(check) for trial in judged_trials]]
        }
        passed = [trial.facts.passed for trial in judged_trials]
        all_checks = Count(passed=passed.count(True), trials=len(passed) - passed.count(None))
        return BaseTrials(checks=checks, total=all_checks)

    async def first_trial(self, key: str) -> JudgedTrial:
        """Return the trial of a case that its eval replays."""
        return (await self._first_trials(key, 1))[0]

    async def is_usual(self, key: str) -> bool:
        """Return whether the first trial has the only output of the baseline."""
        case = self.cases[key]
        if not case.repeats:
            return False
        return (await self.first_trial(key)).facts.output_digest.startswith(case.output_digest)

    async def texts(self, key: str, count: int) -> list[str]:
        """Return this number of base outputs for a case, or more if they are known to be equal."""
        if await self.is_usual(key):
            return [(await self.first_trial(key)).output] * self.cases[key].repeats
        return [trial.output for trial in await self._first_trials(key, count)]

    async def _first_trials(self, key: str, count: int) -> list[JudgedTrial]:
        """Return the first trials of the base for a case; the same for every caller."""
        async with self._locks[key]:
            judged_trials = self._trials[key]
            missing = range(len(judged_trials), count)
            if missing:
                new_trials = await self._bench.run_trials(
                    None, [(key, number) for number in missing]
                )
                # The first trial is that of the evals, which is recorded.
                self.calls += sum(number > 0 for number in missing)
                for trial in new_trials:
                    if isinstance(trial, RegaugeError):
                        raise trial
                    if isinstance(trial, Exception):
                        raise UnmeasuredError(f"{type(trial).__name__}: {trial}") from trial
                    judged_trials.append(trial)
            return judged_trials[:count]


def _add(baseline: BaseTrials, other: BaseTrials) -> BaseTrials:
    checks = {check: count + other.checks[check] for check, count in baseline.checks.items()}
    return BaseTrials(checks=checks, total=baseline.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationPolicy:
    """Bounds and numbers of trials for a mutant.

    Attributes:
        gate: The gate's bounds for broken cases and worse suites.
        changed: The significance level of the test for changed outputs, over all its stages.
        base_outputs: Outputs of the base for a case with varying outputs.
        more_base_outputs: The same for a case under close comparison.
        fresh: New trials of such a case.
        fresh_cases: Number of cases under close comparison.
        extra: Additional trials of the cases most similar to the mutated text, most relevant first.
    """

    gate: GatePolicy
    changed: float = 0.01
    base_outputs: int = 4
    more_base_outputs: int = 12
    fresh: int = 4
    fresh_cases: int = 3
    extra: tuple[int, ...] = (3, 3, 1, 1)


# Trials of a mutant per batch: single ones first, since most mutants show at once. Fewer batches
# take more trials, more batches take longer.
_BATCHES = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8)
# By the number of trials of a suspect: additional trials of the base. Twelve passing trials cannot
# show that a case now passes every third time.
_EXTENSIONS = {8: 12, 14: 24}
_SHOWN_OUTPUTS = 3
_SHOWN_NEAREST = 3
_SHOWN_CHARACTERS = 400


@dataclass
class MutantClassifier:
    """The classification of one prompt text.

    Attributes:
        ranking: The cases with their relevance, most relevant first.
        calls: Number of trials, including replayed ones.
    """

    prompt: Prompt
    ranking: Sequence[tuple[Case, float]]
    base: BaseRun
    bench: Bench
    policy: ClassificationPolicy
    calls: int = field(default=0, init=False)
    _trials: dict[str, list[JudgedTrial]] = field(
        default_factory=dict[str, "list[JudgedTrial]"], init=False
    )
    _baseline: dict[str, BaseTrials] = field(default_factory=dict[str, BaseTrials], init=False)
    _errors: list[Exception] = field(default_factory=list[Exception], init=False)
    _unmeasured_cases: set[str] = field(default_factory=set[str], init=False)

    def __post_init__(self) -> None:
        self._case_policy = self.policy.gate.case
        blocking = [case for case in self.base.cases.values() if case.blocks]
        self._check_count = sum(len(case.checks) for case in blocking)

    async def run(self) -> Classification:
        """Run trials until the class is known."""
        try:
            return replace(await self._run(), calls=self.calls)
        except RegaugeError as error:
            reason, unmeasured = missing_reason(error)
        nearest: list[JSON] = [case.key for case, score in self.ranking if score > 0]
        return Classification(
            kind="undecided",
            reason=reason,
            unmeasured=unmeasured,
            calls=self.calls,
            evidence={"nearest": nearest[:_SHOWN_NEAREST]} if unmeasured else {},
        )

    async def _run(self) -> Classification:
        for batch in _batches([case.key for case, _ in self.ranking]):
            await self._run_trials(batch)
            if (result := await self._decide_suspects()) is not None:
                return result
        if (result := await self._repeat_relevant_cases()) is not None:
            return result
        return await self._classify()

    async def _run_trials(self, keys: Iterable[str]) -> None:
        """Run one more trial of each of some cases."""
        trials = [(key, len(self._trials.setdefault(key, []))) for key in keys]
        self.calls += len(trials)
        new_trials = await self.bench.run_trials(self.prompt, trials)
        for (key, _), trial in zip(trials, new_trials, strict=True):
            if isinstance(trial, BudgetError | MissingRecordingError) or _has_no_key(trial):
                raise trial
            if isinstance(trial, Exception):
                self._errors.append(trial)
                self._unmeasured_cases.add(key)
            else:
                self._trials[key].append(trial)

    async def _decide_suspects(self) -> Classification | None:
        """Run the most suspicious case until no suspect is left, or one is broken."""
        while True:
            await self._load_baselines()
            if (result := self._find_broken()) is not None:
                return result
            suspects = [
                (evidence, -rank, case.key)
                for rank, (case, _) in enumerate(self.ranking)
                if (evidence := self._case_evidence(case)) is not None
            ]
            if not suspects:
                return None
            key = max(suspects)[2]
            await self._run_trials([key])
            await self._extend_baseline(key)

    async def _extend_baseline(self, key: str) -> None:
        """Run more trials of the base if its record is too short to decide."""
        trial_count = len(self._trials[key])
        if trial_count in _EXTENSIONS and key in self._baseline and not self._errors:
            self._baseline[key] = await self.base.collect_trials(key, _EXTENSIONS[trial_count])

    async def _load_baselines(self) -> None:
        """Load the base's record of every tested case that may be broken."""
        for key, trials in self._trials.items():
            if key in self._baseline or not trials:
                continue
            baseline = self.base.cases[key].baseline
            if baseline is None or not baseline.total.trials:
                passed = all(trial.facts.passed is not False for trial in trials)
                if passed and (await self.base.first_trial(key)).facts.passed is not False:
                    continue
            self._baseline[key] = await self.base.collect_trials(key)

    async def _repeat_relevant_cases(self) -> Classification | None:
        """Run additional trials of the cases most similar to the mutated text."""
        relevant_cases = [
            case.key
            for case, score in self.ranking
            if score > 0 and case.key not in self._unmeasured_cases
        ]
        for key, extra_trials in zip(relevant_cases, self.policy.extra, strict=False):
            while len(self._trials[key]) <= extra_trials and key not in self._unmeasured_cases:
                await self._run_trials([key])
                if (result := await self._decide_suspects()) is not None:
                    return result
        return None

    def _count(self, key: str, check: str) -> tuple[int, int]:
        bits = [trial.facts.checks.get(check) for trial in self._trials[key]]
        return bits.count(True), len(bits) - bits.count(None)

    def _evidence(self, key: str, check: str, direction: Direction) -> float:
        record = self._record(key, check)
        passed, trials = self._count(key, check)
        if not trials or record is None or not record.trials:
            return -np.inf
        return _log_e(record.passed, record.trials, passed, trials, direction)

    def _record(self, key: str, check: str) -> Count | None:
        baseline = self._baseline.get(key)
        return baseline.checks.get(check) if baseline is not None else None

    def _case_evidence(self, case: Case) -> float | None:
        """Return the evidence if further trials of a case may name it; else None."""
        key, policy = case.key, self._case_policy
        trial_count = len(self._trials.get(key, ()))
        if not trial_count or key in self._unmeasured_cases:
            return None
        if case.tier == "critical" and case.blocks:
            failed = sum(trial.facts.passed is False for trial in self._trials[key])
            rule = replace(self.policy.gate.critical, strict=case.strict)
            return float(failed) if failed and trial_count < rule.count_trials(failed) else None
        if trial_count > sum(policy.steps):
            return None
        evidence_values = [
            evidence
            for check in case.checks
            for direction in ("worse", "better")
            if (evidence := self._check_evidence(case, check, direction)) is not None
        ]
        return max(evidence_values, default=None)

    def _check_evidence(self, case: Case, check: str, direction: Direction) -> float | None:
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
        bound = self._case_policy.log_bound(max(self._check_count, 1))
        return evidence if log(least) <= evidence < bound else None

    def _significant_checks(self, direction: Direction) -> list[tuple[Case, str, float]]:
        """Return the checks above the gate's bound."""
        tested_cases = [case for case, _ in self.ranking if self._trials.get(case.key)]
        if direction == "worse":
            cases = [case for case in tested_cases if case.blocks and case.tier != "critical"]
        else:
            cases = [case for case in tested_cases if self._is_failing(case)]
        checks = [
            (case, check, self._evidence(case.key, check, direction))
            for case in cases
            for check in case.checks
        ]
        if not checks:
            return []
        evidence = np.array([check[2] for check in checks])
        size = max(self._check_count, len(checks))
        bound = e_bh(evidence, alpha=self._case_policy.alpha, checks=size)
        return [check for check in checks if check[2] >= float(bound.log_bound)]

    def _is_failing(self, case: Case) -> bool:
        baseline = self._baseline.get(case.key)
        share_max = self.policy.gate.improved_at_most
        return baseline is not None and baseline.total.passed <= share_max * baseline.total.trials

    def _find_broken(self) -> Classification | None:
        for case, _ in self.ranking:
            if case.tier != "critical" or not case.blocks:
                continue
            failures = [o for o in self._trials.get(case.key, ()) if o.facts.passed is False]
            rule = replace(self.policy.gate.critical, strict=case.strict)
            if rule.blocks(len(failures)):
                judges = {
                    check for o in failures for check, ok in o.facts.checks.items() if ok is False
                }
                return self._classification(
                    "killed", [case.key], sorted(judges), {"tier": "critical"}
                )
        broken_checks = self._significant_checks("worse")
        if not broken_checks:
            return None
        return self._classify_by_checks("killed", broken_checks)

    def _classify_by_checks(
        self, kind: MutantClass, checks: Sequence[tuple[Case, str, float]]
    ) -> Classification:
        keys, judges = [case.key for case, *_ in checks], [check for _, check, _ in checks]
        evidence = exp(min(max(evidence for *_, evidence in checks), 700.0))
        return self._classification(kind, keys, judges, {"e_value": float(f"{evidence:.3g}")})

    def _classification(
        self,
        kind: MutantClass,
        keys: Sequence[str],
        judges: Sequence[str],
        evidence: dict[str, JSON],
    ) -> Classification:
        trials = self._trials[keys[0]]
        passed = sum(trial.facts.passed is True for trial in trials)
        record = self._baseline.get(keys[0])
        return Classification(
            kind=kind,
            cases=tuple(dict.fromkeys(keys)),
            judges=tuple(dict.fromkeys(judges)),
            evidence={
                "passed": f"{passed} of {len(trials)}",
                "base": str(record.total) if record is not None else "",
                **evidence,
                "cases_run": len(self._trials),
            },
        )

    async def _classify(self) -> Classification:
        """Classify a mutant that broke no case, after all cases were run."""
        suite = await self._test_suite("worse")
        if suite is not None:
            return Classification(kind="killed", evidence=suite)
        fixed_checks = self._significant_checks("better")
        if self._errors:
            return _unmeasured_result(self._errors[0])
        undecided_case = self._find_undecided()
        if undecided_case:
            reason = f"the gate leaves {undecided_case} undecided"
            return Classification(kind="undecided", reason=reason, cases=(undecided_case,))
        trial_facts: dict[str, JSON] = {"cases_run": len(self._trials)}
        if fixed_checks:
            return self._classify_by_checks("harmful", fixed_checks)
        better = await self._test_suite("better")
        if better is not None:
            return Classification(kind="harmful", evidence={**better, **trial_facts})
        return await self._classify_by_outputs(trial_facts)

    def _find_undecided(self) -> str:
        """Return a case that the gate would leave undecided at its trial limit."""
        cap = sum(self._case_policy.steps)
        least = log(self._case_policy.undecided)
        undecided_cases = (
            case.key
            for case, _ in self.ranking
            if case.blocks
            and len(self._trials.get(case.key, ())) > cap
            and any(self._evidence(case.key, check, "worse") >= least for check in case.checks)
        )
        return next(undecided_cases, "")

    async def _test_suite(self, direction: Direction) -> dict[str, JSON] | None:
        """Return the evidence that the whole suite is worse or better; None if it is neither.

        The first trials of all cases select, as in the gate; a second trial of each case confirms.
        """
        keys = [case.key for case, _ in self.ranking if case.key in self._baseline]
        level = screen_bound(self.policy.gate.suite, 0, prompts=1)
        p_value = self._suite_p_value(keys, 0, direction)
        if p_value > level:
            return None
        await self._run_trials([key for key in keys if len(self._trials[key]) < 2])  # noqa: PLR2004 - a second trial
        fresh = self._suite_p_value(keys, 1, direction)
        if fresh > level:
            return None
        return {"suite": direction, "p_value": float(f"{fresh:.2g}")}

    def _suite_p_value(self, keys: Sequence[str], number: int, direction: Direction) -> float:
        rows: list[tuple[int, int, int, int]] = []
        for key in keys:
            trials = self._trials.get(key, [])
            passed = trials[number].facts.passed if len(trials) > number else None
            record = self._baseline[key].total
            rows.append((record.passed, record.trials, int(bool(passed)), int(passed is not None)))
        if not rows:
            return 1.0
        s, m, k, r = (np.array(column) for column in zip(*rows, strict=True))
        if direction == "worse":
            return float(screen((s, m), (k, r)).p_value)
        return float(suite_p_value(s, m, k, r, direction="better"))

    async def _classify_by_outputs(self, trial_facts: dict[str, JSON]) -> Classification:
        """Classify by outputs: do they differ from the base's by more than these vary?"""
        base, policy = self.base, self.policy
        seed = int(digest_of([self.prompt.digest])[:8], 16)
        base_texts = {
            key: await base.texts(key, policy.base_outputs)
            for key, trials in self._trials.items()
            if trials
        }
        first_outputs = {key: self._trials[key][0].output for key in base_texts}
        novel_cases = [
            key
            for key, output in first_outputs.items()
            if base.outputs.is_novel(output, base_texts[key])
        ]
        if not novel_cases:
            return Classification(kind="no-effect", evidence=trial_facts)
        result = Classification(
            kind="survived",
            cases=tuple(novel_cases),
            evidence={
                "changed": len(novel_cases),
                "outputs": [
                    {
                        "case": key,
                        "base": cut(base_texts[key][0], _SHOWN_CHARACTERS),
                        "mutant": cut(first_outputs[key], _SHOWN_CHARACTERS),
                    }
                    for key in novel_cases[:_SHOWN_OUTPUTS]
                ],
                **trial_facts,
            },
            novel_cases=frozenset(novel_cases),
        )
        if all(case.repeats > 1 for case in base.cases.values()):
            return result  # every case is known to have the same output each time
        noise = base.outputs.noise(base_texts.values())
        p_value = await self._relevant_p_value(noise, seed) / _SHARES[0]
        if p_value > policy.changed:
            output_pairs = [
                (base_texts[key], first_outputs[key], await base.is_usual(key))
                for key in base_texts
            ]
            p_value = (
                base.outputs.first_trials_p_value(output_pairs, noise=noise, seed=seed) / _SHARES[1]
            )
        if p_value > policy.changed:
            p_value = (
                await self._fresh_p_value(novel_cases, base_texts, first_outputs, noise, seed)
                / _SHARES[2]
            )
        if self._errors:
            return _unmeasured_result(self._errors[0])
        rounded = float(f"{min(1.0, p_value):.2g}")
        if p_value > policy.changed:
            return Classification(kind="no-effect", evidence={"p_value": rounded, **trial_facts})
        return replace(result, evidence={"p_value": rounded, **result.evidence})

    async def _relevant_p_value(self, noise: dict[str, float], seed: int) -> float:
        """Return the p-value for the cases most similar to the mutated text, with all their trials.

        Their order was known before any trial, so the test is unbiased.
        """
        relevant_cases = [
            case.key for case, score in self.ranking if score > 0 and self._trials[case.key]
        ]
        cases: list[tuple[list[str], list[str]]] = []
        p_values: list[float] = []
        for key in relevant_cases[: len(self.policy.extra)]:
            texts = await self.base.texts(key, self.policy.more_base_outputs)
            cases.append((texts, [trial.output for trial in self._trials[key]]))
            if len(cases) in {1, len(self.policy.extra)}:
                p_values.append(self.base.outputs.difference_p_value(cases, noise=noise, seed=seed))
        return min(p_values, default=1.0) * max(len(p_values), 1)

    async def _fresh_p_value(
        self,
        novel_cases: Sequence[str],
        base_texts: dict[str, list[str]],
        first_outputs: dict[str, str],
        noise: dict[str, float],
        seed: int,
    ) -> float:
        """Return the p-value for trials that did not select the cases."""
        base, policy = self.base, self.policy
        relevance = {case.key: score for case, score in self.ranking}
        relevance_max = max(relevance.values(), default=0.0) or 1.0

        def promise(key: str) -> float:
            distance = base.outputs.distance
            across = [distance(first_outputs[key], text, noise) for text in base_texts[key]]
            within = [
                distance(text, other, noise)
                for number, text in enumerate(base_texts[key])
                for other in base_texts[key][:number]
            ]
            excess = sum(across) / len(across) - (sum(within) / len(within) if within else 0.0)
            return excess * (1 + relevance[key] / relevance_max)

        selected_cases = sorted(novel_cases, key=promise, reverse=True)[: policy.fresh_cases]
        cases: list[tuple[list[str], list[str]]] = []
        p_value = 1.0
        for key in selected_cases:
            texts = await base.texts(key, policy.more_base_outputs)
            before = len(self._trials[key])
            for _ in range(policy.fresh):
                await self._run_trials([key])
            cases.append((texts, [trial.output for trial in self._trials[key][before:]]))
            p_value = base.outputs.difference_p_value(cases, noise=noise, seed=seed)
            # Each test has an equal share of the level.
            p_value *= len(selected_cases)
            if p_value <= policy.changed * _SHARES[2]:
                break
        return p_value


# Shares of the level: the most relevant cases, the first trials of all, and new trials of those
# that differ most.
_SHARES = (0.4, 0.2, 0.4)


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    """Yield the cases in small batches: trials next to a killing case are wasted."""
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


def _unmeasured_result(error: Exception) -> Classification:
    text = str(error) if isinstance(error, RegaugeError) else f"{type(error).__name__}: {error}"
    return Classification(kind="undecided", reason=text.partition("\n")[0], unmeasured=True)
