"""The tests of one prompt's whole suite in one run: against the record, then side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.digests import digest_of
from regauge.gate._outcome import ControlReport, NetReport, PairsReport, RoundReport, SuiteReport
from regauge.gate._types import NONE_DRAWN
from regauge.gate.engine._drawn import Request
from regauge.gate.engine._suite_test import (
    Pairs,
    day_bound,
    day_goes_on,
    net_bound,
    pair_weights,
    pairs_p_value,
    passes_ahead,
    rest_better,
    screen,
    screen_bound,
    screen_extends,
)
from regauge.stats import expected_failures, rate_difference, score_p_value, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from regauge.gate._outcome import SuiteVerdict
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.engine._case_test import IntArray, Tallies
    from regauge.gate.engine._drawn import Drawn

# A wave side by side: for each case, the numbers of the candidate's and of main's trials.
Wave = list[tuple[range, range]]


class SuiteStage:
    """All cases of one prompt that main has trials of, taken together."""

    def __init__(
        self,
        prompt: str,
        drawn: Sequence[Drawn],
        policy: GatePolicy,
        *,
        prompts: int,
        first_draws: int,
        broken: Collection[str] = (),
        fixed: Collection[str] = (),
        accepted: Collection[str] = (),
    ) -> None:
        """Begin once single cases are settled.

        Args:
            drawn: The changed cases of the prompt.
            prompts: How many prompts changed; they share the error rate.
            first_draws: Trials of every case in the first round.
            broken: The required cases that count as broken, without those that are accepted.
            fixed: The cases that count as fixed.
            accepted: Broken cases that the changelog accepts; only these are left out.
        """
        self.prompt = prompt
        self._policy = policy
        self._prompts = prompts
        self._first = first_draws
        self._drawn = [
            one for one in drawn if one.history().trials and one.case.case not in accepted
        ]
        self._broken, self._fixed = frozenset(broken), frozenset(fixed)
        self._graded = _graded(self._drawn)
        self._blocks: list[list[range]] = [[range(first_draws)] for _ in self._drawn]
        self._rounds: list[RoundReport] = []
        self._asked: tuple[str, ...] = ()
        self._waves: list[Wave] = []
        self._pairs: list[PairsReport] = []
        self._net: list[NetReport] = []
        self._verdict: SuiteVerdict = "untested"
        self._missing = (0, 0)
        self.weighs = self._weighs()

    @property
    def rejects_cases(self) -> bool:
        """Whether broken cases reject the change, with nothing to weigh them against."""
        match self._policy.on_broken:
            case "block":
                return bool(self._broken)
            case "net":
                return bool(self._broken) and not self.weighs
            case "warn":
                return False

    def waves(self, *, blocked: bool) -> Iterator[list[Request]]:
        """The trials each test needs; the tests are made between them.

        Args:
            blocked: Whether something has already rejected the change, so nothing more is spent.
        """
        if not self._drawn:
            return
        self._rounds.append(self._round(0))
        if blocked:
            smallest = min([self._rounds[0].p_value, *self._rounds[0].scores.values()])
            # A doubt that was not followed up is no result.
            if smallest > self._policy.suite.extend and not self.weighs:
                self._verdict = "passed"
        elif self.weighs:
            yield from self._weigh()
        else:
            yield from self._compare()

    def report(self) -> SuiteReport:
        """What was found."""
        stable = sum(
            1
            for one, blocks in zip(self._drawn, self._blocks, strict=True)
            if not one.history().failed and one.count("candidate", blocks).failed
        )
        if self._waves:
            arms = [
                (
                    one.count("main", [wave[i][1] for wave in self._waves]),
                    one.count("candidate", [wave[i][0] for wave in self._waves]),
                )
                for i, one in enumerate(self._drawn)
            ]
        else:
            arms = [
                (one.history(), one.count("candidate", blocks))
                for one, blocks in zip(self._drawn, self._blocks, strict=True)
            ]
        return SuiteReport(
            prompt=self.prompt,
            verdict=self._verdict,
            cases=len(self._drawn),
            first_draws=self._first,
            rounds=tuple(self._rounds),
            asked=self._asked,
            pairs=tuple(self._pairs),
            net=tuple(self._net),
            broken=len(self._broken),
            fixed=len(self._fixed),
            difference=rate_difference(
                [main.passed for main, _ in arms],
                [main.trials for main, _ in arms],
                [new.passed for _, new in arms],
                [new.trials for _, new in arms],
            ),
            side_by_side=bool(self._waves),
            control=self._control(),
            stable_failed=stable,
            needs=self._missing[1],
        )

    def _weighs(self) -> bool:
        """Whether broken cases have to be weighed against fixed ones."""
        if self._policy.on_broken != "net" or not self._broken or not self._drawn:
            return False
        if self._fixed:
            return True
        main, candidate = self._record(), self._candidate()
        broken = np.array([one.case.case in self._broken for one in self._drawn])
        return float(rest_better(main, candidate, broken)) <= self._policy.net.trigger

    def _compare(self) -> Iterator[list[Request]]:
        """Against the record; where that asks for it, side by side."""
        policy = self._policy.suite
        for number in range(policy.rounds):
            if number:
                yield self._next_round()
                self._rounds.append(self._round(number))
            self._note_missing(self._blocks)
            last = self._rounds[-1]
            p_values = {"": last.p_value, **last.scores}
            self._asked = tuple(check for check, p in p_values.items() if p <= last.bound)
            if self._asked:
                yield from self._side_by_side()
                return
            if not screen_extends(policy, number, min(p_values.values())):
                break
        self._end("passed")

    def _next_round(self) -> list[Request]:
        """Further trials of every case; none of those whose trials ran out."""
        wave: list[Request] = []
        extra = self._policy.suite.extra_round(self._first)
        for one, blocks in zip(self._drawn, self._blocks, strict=True):
            if not any(one.gaps()):
                start = one.asked("candidate")
                blocks.append(range(start, start + extra))
                wave.append(Request(one, "candidate", start + extra))
        return wave

    def _round(self, number: int) -> RoundReport:
        main, candidate = self._record(), self._candidate()
        found = screen(main, candidate)
        scores = {
            check: self._score_p_value(
                check,
                [one.history_scores(check) for one in self._drawn],
                [
                    one.scores("candidate", check, blocks)
                    for one, blocks in zip(self._drawn, self._blocks, strict=True)
                ],
            )
            for check in self._graded
        }
        return RoundReport(
            trials=max(sum(len(block) for block in blocks) for blocks in self._blocks),
            drawn=int(candidate[1].sum()),
            fails=int((candidate[1] - candidate[0]).sum()),
            expected=float(expected_failures(*main, candidate[1])),
            p_value=float(found.p_value),
            equal=bool(found.equal),
            bound=screen_bound(self._policy.suite, number, prompts=self._prompts),
            scores=scores,
        )

    def _side_by_side(self) -> Iterator[list[Request]]:
        """Pairs of every case until they confirm the loss, or nothing points to one."""
        policy = self._policy.suite
        tests = 1 + len(self._graded)
        number = 0
        while True:
            pairs = policy.pairs_of_look(number, cases=len(self._drawn), first_draws=self._first)
            yield self._next_wave(pairs)
            p_values = {check: self._p_value(check) for check in self._asked}
            bound = day_bound(policy, number, prompts=self._prompts, tests=tests)
            main, candidate = self._totals()
            self._pairs.append(
                PairsReport(main=main, candidate=candidate, p_values=p_values, bound=bound)
            )
            self._note_pairs()
            lower = self._policy.on_broken != "net" or self._ahead() < 0
            confirmed = [check for check, p in p_values.items() if p <= bound and (check or lower)]
            if confirmed:
                self._verdict = "worse"
                return
            if any(self._missing) or not day_goes_on(policy, number, min(p_values.values())):
                self._end("unconfirmed")
                return
            number += 1

    def _weigh(self) -> Iterator[list[Request]]:
        """Pairs of every case until broken and fixed ones are weighed."""
        policy = self._policy.net
        for number in range(len(policy.all_levels)):
            pairs = policy.pairs_of_look(number, cases=len(self._drawn), first_draws=self._first)
            yield self._next_wave(pairs)
            arms = self._arms()
            worse = float(pairs_p_value(arms, 1))
            better = float(pairs_p_value(arms, 1, direction="better"))
            bound = net_bound(policy, number, prompts=self._prompts)
            main, candidate = self._totals()
            self._net.append(
                NetReport(
                    main=main, candidate=candidate, p_worse=worse, p_better=better, bound=bound
                )
            )
            self._note_pairs()
            if worse <= bound:
                self._verdict = "worse"
                return
            if better <= policy.better or any(self._missing):
                break
        enough = bool(self._net) and (self._net[-1].p_better <= policy.better or self._ahead() >= 0)
        self._end("passed" if enough else "undecided")

    def _next_wave(self, pairs: int) -> list[Request]:
        wave: list[Request] = []
        numbers: Wave = []
        for one in self._drawn:
            start, of_main = one.asked("candidate"), one.asked("main")
            numbers.append((range(start, start + pairs), range(of_main, of_main + pairs)))
            wave += one.side_by_side(pairs)
        self._waves.append(numbers)
        return wave

    def _arms(self) -> list[Pairs]:
        return [
            Pairs(
                _tallies(
                    [
                        one.count("main", [main])
                        for one, (_, main) in zip(self._drawn, wave, strict=True)
                    ]
                ),
                _tallies(
                    [
                        one.count("candidate", [new])
                        for one, (new, _) in zip(self._drawn, wave, strict=True)
                    ]
                ),
            )
            for wave in self._waves
        ]

    def _totals(self) -> tuple[Count, Count]:
        """All pairs of all cases, by arm."""
        arms = [
            (one.count("main", [main]), one.count("candidate", [new]))
            for wave in self._waves
            for one, (new, main) in zip(self._drawn, wave, strict=True)
        ]
        return (
            sum((main for main, _ in arms), NONE_DRAWN),
            sum((new for _, new in arms), NONE_DRAWN),
        )

    def _ahead(self) -> float:
        return float(passes_ahead(self._arms()))

    def _p_value(self, check: str) -> float:
        """Side by side: of all cases, or of the scores of a check."""
        if not check:
            arms = self._arms()
            weights = pair_weights(self._record(), arms, self._rounds[-1].equal)
            return float(pairs_p_value(arms, weights))
        strata = [
            (one.scores("main", check, [main]), one.scores("candidate", check, [new]))
            for wave in self._waves
            for one, (new, main) in zip(self._drawn, wave, strict=True)
        ]
        return self._score_p_value(check, [main for main, _ in strata], [new for _, new in strata])

    def _score_p_value(
        self, check: str, main: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]
    ) -> float:
        seed = int(digest_of({"prompt": self.prompt, "check": check})[:8], 16)
        return score_p_value(main, candidate, seed=seed, min_effect=self._policy.min_effect)

    def _record(self) -> Tallies:
        return _tallies([one.history() for one in self._drawn])

    def _candidate(self) -> Tallies:
        return _tallies(
            [
                one.count("candidate", blocks)
                for one, blocks in zip(self._drawn, self._blocks, strict=True)
            ]
        )

    def _control(self) -> ControlReport | None:
        """Main's few trials of the first round: a lamp for an outage, which decides nothing."""
        drawn = [
            (one.history(), one.count("main", [range(one.seeds, one.seeds + 1)]))
            for one in self._drawn
            if one.stored
        ]
        lit = [(before, now) for before, now in drawn if now.trials]
        if not lit:
            return None
        before, now = (_tallies(arm) for arm in zip(*lit, strict=True))
        return ControlReport(
            main=sum((now for _, now in lit), NONE_DRAWN),
            p_history=float(suite_p_value(*before, *now, weights=1)),
            bound=self._policy.suite.control_p,
        )

    def _end(self, verdict: SuiteVerdict) -> None:
        """Keep a verdict, unless trials are missing that it needs."""
        unmeasured, not_recorded = self._missing
        self._verdict = "unmeasured" if unmeasured else "undecided" if not_recorded else verdict

    def _note_missing(self, blocks: Sequence[Sequence[range]]) -> None:
        unmeasured = not_recorded = 0
        for one, own in zip(self._drawn, blocks, strict=True):
            # The first round of a replay is as long as its recordings.
            shorter = one.replay and any(one.facts("candidate", 0, self._first))
            gaps = one.missing("candidate", own[1:] if shorter else own)
            unmeasured, not_recorded = unmeasured + gaps[0], not_recorded + gaps[1]
        self._missing = (unmeasured, not_recorded)

    def _note_pairs(self) -> None:
        unmeasured = not_recorded = 0
        for wave in self._waves:
            for one, (new, main) in zip(self._drawn, wave, strict=True):
                for gaps in (one.missing("candidate", [new]), one.missing("main", [main])):
                    unmeasured, not_recorded = unmeasured + gaps[0], not_recorded + gaps[1]
        self._missing = (unmeasured, not_recorded)


def _graded(drawn: Sequence[Drawn]) -> tuple[str, ...]:
    """Checks whose scores on main carry more than pass or fail, by name."""
    checks = {check for one in drawn for check in one.case.checks}
    return tuple(
        sorted(
            check
            for check in checks
            if any(0 < score < 1 for one in drawn for score in one.history_scores(check))
        )
    )


def _tallies(counts: Sequence[Count]) -> Tallies:
    passed: IntArray = np.array([count.passed for count in counts], dtype=np.int64)
    return passed, np.array([count.trials for count in counts], dtype=np.int64)
