"""The gate itself: which trials it wants next, and what they decide."""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.gate._outcome import GateOutcome
from regauge.gate._types import Wanted
from regauge.gate.engine._case_test import CaseStage
from regauge.gate.engine._decision import (
    case_report,
    critical_policy,
    decided_by,
    reasons_for,
    with_blocks,
)
from regauge.gate.engine._drawn import Drawn, Request
from regauge.gate.engine._suite_test import SuiteStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from regauge.gate._outcome import CaseReport
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm, GateCase, NotRecorded, TrialFacts


class Gate:
    """Compares a candidate with main, wave by wave.

    Ask what is `wanted`, draw all of it in any order, `observe` each trial, and ask again until
    nothing is wanted. The same trials always give the same outcome, whatever order they land in.
    """

    def __init__(
        self,
        cases: Iterable[GateCase],
        policy: GatePolicy,
        *,
        elsewhere: Mapping[str, int] | None = None,
    ) -> None:
        """Begin with the cases of all prompts that are compared together.

        Args:
            cases: The cases.
            policy: What the change is held to.
            elsewhere: By prompt, about how many changed cases other shards have.

        Raises:
            ValueError: If two cases have the same prompt and id.
        """
        self._policy = policy
        given = list(cases)
        changed = Counter(case.prompt for case in given if case.state == "changed")
        changed.update(elsewhere)
        self._first = {case.prompt: policy.first_draws_of(changed[case.prompt]) for case in given}
        self._drawn = [
            Drawn(
                case,
                first=self._first_trials_of(case),
                seeds=max(policy.first_history, self._first[case.prompt]),
                replay=policy.provisional,
            )
            for case in given
        ]
        self._by_key = {one.case.key: one for one in self._drawn}
        if len(self._by_key) < len(self._drawn):
            raise ValueError("two cases of one prompt have the same id")
        self._case_stage: CaseStage | None = None
        # What was found of single cases; what is drawn for the suites changes nothing in it.
        self._settled: tuple[CaseReport, ...] = ()
        self._suites: list[SuiteStage] = []
        self._pending: list[tuple[Drawn, Arm, range, bool]] = []
        self._waiting = 0
        self._finished = False
        self._waves = self._process()
        self._advance()

    def first_draws(self, prompt: str) -> int:
        """Trials of every case of a prompt in the first round."""
        return self._first[prompt]

    def wanted(self) -> tuple[Wanted, ...]:
        """The trials of this wave that have not been observed; empty when all is decided.

        Trials of both arms that are compared side by side come next to each other, pair by pair.
        Asking twice gives the same trials. A trial that was observed is never wanted again.
        """
        found: list[Wanted] = []
        paired: dict[tuple[str, str], dict[Arm, list[int]]] = {}
        for one, arm, asked, is_paired in self._pending:
            if is_paired:
                waiting = [number for number in asked if one.waits_for(arm, number)]
                paired.setdefault(one.case.key, {})[arm] = waiting
                continue
            found += [_wanted(one.case.key, arm, run) for run in _runs(one, arm, asked)]
        for key, arms in paired.items():
            # Which arm of a pair comes first changes from pair to pair.
            pairs = zip_longest(arms.get("candidate", []), arms.get("main", []))
            for turn, (new, of_main) in enumerate(pairs):
                both: list[tuple[Arm, int | None]] = [("candidate", new), ("main", of_main)]
                for arm, number in both if turn % 2 else reversed(both):
                    if number is not None:
                        found.append(_wanted(key, arm, range(number, number + 1)))
        return tuple(found)

    def observe(
        self,
        prompt: str,
        case: str,
        arm: Arm,
        number: int,
        facts: TrialFacts | NotRecorded | None,
    ) -> None:
        """Take in one wanted trial.

        Args:
            number: As in `Wanted.trials`.
            facts: None where the trial could not be measured, after all retries; `not-recorded`
                where only recordings may be used and there is none.

        Raises:
            ValueError: If the trial is not wanted.
        """
        one = self._by_key.get((prompt, case))
        if one is None or not one.waits_for(arm, number):
            raise ValueError(
                f"trial {number} of {arm} for case {case!r} of {prompt!r} is not wanted"
            )
        one.take(arm, number, facts)
        self._waiting -= 1
        if not self._waiting:
            self._advance()

    def outcome(self) -> GateOutcome:
        """The decision so far; final once no trials are requested.

        Before that, cases that wait for trials count as unmeasured.
        """
        suites = tuple(stage.report() for stage in self._suites)
        cases = with_blocks(self._settled or self._case_reports(), suites, self._policy)
        reasons = reasons_for(cases, suites, self._policy)
        decision = decided_by(reasons)
        if not self._finished and decision != "reject":
            decision = "unmeasured"
        return GateOutcome(
            decision=decision,
            cases=cases,
            suites=suites,
            reasons=reasons,
            policy=self._policy,
            cells=len(self._case_stage.cells) if self._case_stage is not None else 0,
            candidate_trials=self._measured("candidate"),
            main_trials=self._measured("main"),
            finished=self._finished,
            first_draws=self._first,
        )

    def _process(self) -> Iterator[list[Request]]:
        """The waves from beginning to end; what they show is weighed between them."""
        compared = [one for one in self._drawn if one.case.state in {"changed", "new"}]
        changed = [one for one in compared if one.case.state == "changed"]
        by_prompt: dict[str, list[Drawn]] = {}
        for one in changed:
            by_prompt.setdefault(one.case.prompt, []).append(one)
        yield list(self._first_wave(compared, by_prompt))
        self._case_stage = CaseStage(
            [one for one in changed if one.case.tier == "required"], self._policy
        )
        yield from _together([self._critical_trials(compared), self._case_stage.waves()])
        for one in compared:
            one.settle()
        self._settled = self._case_reports()
        named = [case for case in self._settled if case.tier == "required" and not case.accepted]
        spared = [case for case in self._settled if case.accepted and case.verdict == "broken"]
        self._suites = [
            SuiteStage(
                prompt,
                cases,
                self._policy,
                prompts=len(by_prompt),
                first_draws=self._first[prompt],
                broken=[c.case for c in named if (c.prompt, c.verdict) == (prompt, "broken")],
                fixed=[c.case for c in named if (c.prompt, c.verdict) == (prompt, "fixed")],
                accepted=[c.case for c in spared if c.prompt == prompt],
            )
            for prompt, cases in by_prompt.items()
        ]
        blocked = any(case.blocks for case in self._settled) or any(
            suite.rejects_cases for suite in self._suites
        )
        yield from _together([suite.waves(blocked=blocked) for suite in self._suites])

    def _first_wave(
        self, compared: list[Drawn], by_prompt: Mapping[str, list[Drawn]]
    ) -> Iterator[Request]:
        for one in compared:
            yield Request(one, "candidate", one.first)
            yield Request(one, "main", one.seeds)
        for cases in by_prompt.values():
            stored = sorted((case for case in cases if case.stored), key=_hash_of)
            for one in stored[: self._policy.suite.control]:
                yield Request(one, "main", 1)

    def _first_trials_of(self, case: GateCase) -> int:
        first = self._first[case.prompt]
        if case.tier == "critical":
            return max(first, self._policy.critical.first)
        if case.state == "new":
            return self._policy.new_trials if case.tier == "required" else 1
        return first

    def _critical_trials(self, compared: list[Drawn]) -> Iterator[list[Request]]:
        """Further trials of critical cases that failed."""
        wave: list[Request] = []
        for one in compared:
            if one.case.tier == "critical":
                failures = sum(facts.passed is False for facts in one.facts("candidate"))
                wanted = critical_policy(one, self._policy).trials_wanted(failures)
                wave.append(Request(one, "candidate", wanted))
        yield wave

    def _case_reports(self) -> tuple[CaseReport, ...]:
        return tuple(case_report(one, self._case_stage, self._policy) for one in self._drawn)

    def _advance(self) -> None:
        """Go on to the next wave that asks for a trial not yet drawn."""
        while not self._waiting and not self._finished:
            wave = next(self._waves, None)
            self._finished = wave is None
            self._pending = []
            for one, arm, stop, paired in wave or ():
                if trials := one.ask(arm, stop):
                    self._pending.append((one, arm, trials, paired))
                    self._waiting += len(trials)

    def _measured(self, arm: Arm) -> int:
        return sum(sum(1 for _ in one.facts(arm)) for one in self._drawn)


def _together(processes: list[Iterator[list[Request]]]) -> Iterator[list[Request]]:
    """The waves of several processes side by side."""
    nothing: list[Request] = []
    for waves in zip_longest(*processes, fillvalue=nothing):
        yield list(chain.from_iterable(waves))


def _wanted(key: tuple[str, str], arm: Arm, trials: range) -> Wanted:
    prompt, case = key
    return Wanted(prompt=prompt, case=case, arm=arm, trials=trials)


def _hash_of(one: Drawn) -> str:
    """An order of cases that nothing but their records decides."""
    before = one.history()
    return digest_of({"case": [*one.case.key], "before": [before.passed, before.trials]})


def _runs(one: Drawn, arm: Arm, asked: range) -> Iterator[range]:
    """The parts of a range that are still waited for."""
    start: int | None = None
    for number in asked:
        if one.waits_for(arm, number):
            start = number if start is None else start
        elif start is not None:
            yield range(start, number)
            start = None
    if start is not None:
        yield range(start, asked.stop)
