"""The tests of a whole suite: against the baseline, then paired.

The arrays have one row per run, as in `_cases.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regauge.digests import digest_of
from regauge.evidence import (
    NO_TRIALS,
    ControlReport,
    NetReport,
    PairsReport,
    RoundReport,
    SuiteReport,
)
from regauge.gate._cases import Request, tallies_of
from regauge.stats import (
    expected_failures,
    failure_weight,
    rate_difference,
    score_p_value,
    suite_p_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from regauge.gate._cases import BoolArray, IntArray, Tallies
    from regauge.stats import Direction, NetPolicy, SuitePolicy

    FloatArray = NDArray[np.float64]
    from collections.abc import Collection, Iterator, Mapping

    from regauge.evidence import Count, SuiteStatus
    from regauge.gate._cases import CaseTrials
    from regauge.gate._types import GatePolicy, Side

_SIDES: tuple[Side, ...] = ("base", "candidate")
# Bounds are rounded before the comparison, so that reports show the exact bound.
_BOUND_DIGITS = 9


class Pairs(NamedTuple):
    """Passes and trials of both sides in one round of pairs; shape (runs, cases)."""

    base: Tallies
    candidate: Tallies


class ScreenResult(NamedTuple):
    """The result of a round against the baseline.

    Attributes:
        p_value: The smaller of two: with larger weights for stable cases, or with equal weights.
        equal: Whether equal weights gave the p-value; the paired test uses the same weights.
    """

    p_value: FloatArray
    equal: BoolArray


def screen(base: Tallies, candidate: Tallies) -> ScreenResult:
    """Test the candidate's trials of every case against the baseline.

    The smaller p-value is used because the screen decides nothing.
    """
    weighted = suite_p_value(*base, *candidate)
    equal = suite_p_value(*base, *candidate, weights=1)
    return ScreenResult(np.minimum(weighted, equal), equal < weighted)


def rest_better(base: Tallies, candidate: Tallies, broken: BoolArray) -> FloatArray:
    """The p-value that cases other than broken ones pass more often than in the baseline."""
    rest = (~broken).astype(np.int64)
    (s, m), (k, r) = base, candidate
    return suite_p_value(s * rest, m * rest, k * rest, r * rest, direction="better", weights=1)


def pair_weights(base: Tallies, rounds: Sequence[Pairs], equal: ArrayLike) -> IntArray:
    """The weight of a failure of each case, from the baseline and all pairs of both sides."""
    fails, trials = base[1] - base[0], base[1]
    for pairs in rounds:
        for passed, paired_trials in pairs:
            fails, trials = fails + paired_trials - passed, trials + paired_trials
    is_equal = np.asarray(equal)[..., np.newaxis]
    return np.where(is_equal, 1, failure_weight(fails, trials))


def pairs_p_value(
    rounds: Sequence[Pairs], weights: ArrayLike, *, direction: Direction = "worse"
) -> FloatArray:
    """The exact p-value of all rounds; trials are exchanged within case and round only."""
    base_passed, base_trials, candidate_passed, candidate_trials = (
        np.concatenate(sides, axis=-1)
        for sides in zip(*((*pairs.base, *pairs.candidate) for pairs in rounds), strict=True)
    )
    case_weights = np.broadcast_to(np.asarray(weights), rounds[0].base[0].shape)
    all_weights = np.concatenate([case_weights] * len(rounds), axis=-1)
    return suite_p_value(
        base_passed,
        base_trials,
        candidate_passed,
        candidate_trials,
        weights=all_weights,
        direction=direction,
    )


def candidate_lead(rounds: Sequence[Pairs]) -> FloatArray:
    """The pass rates of the candidate minus those of the base, summed over cases."""
    base_passes, base_trials = _add_up([pairs.base for pairs in rounds])
    passes, trials = _add_up([pairs.candidate for pairs in rounds])
    has_both = (base_trials > 0) & (trials > 0)
    base_rates = base_passes / np.maximum(base_trials, 1)
    candidate_rates = passes / np.maximum(trials, 1)
    return np.asarray(np.sum((candidate_rates - base_rates) * has_both, axis=-1))


def screen_bound(policy: SuitePolicy, number: int, *, prompts: int) -> float:
    """The largest p-value of round `number`, from 0, that requests paired trials."""
    return round(policy.screen[number] / prompts, _BOUND_DIGITS)


def screen_extends(policy: SuitePolicy, number: int, p_value: ArrayLike) -> BoolArray:
    """Return whether another round is worth its calls if this one requests no pairs."""
    return (np.asarray(p_value) <= policy.extend) & (number + 1 < policy.rounds)


def pairs_bound(policy: SuitePolicy, number: int, *, prompts: int, tests: int = 1) -> float:
    """The largest p-value of look `number`, from 0, that blocks.

    Prompts share the error rate, and so do the tests of one prompt: that of all cases, and one for
    each check with scores.
    """
    return round(policy.levels[number] / prompts / tests, _BOUND_DIGITS)


def pairs_continue(policy: SuitePolicy, number: int, p_value: ArrayLike) -> BoolArray:
    """Return whether another look exists and may still block."""
    futile = policy.futile[min(number, len(policy.futile) - 1)]
    return (np.asarray(p_value) <= futile) & (number + 1 < len(policy.levels))


def net_bound(policy: NetPolicy, number: int, *, prompts: int) -> float:
    """The largest p-value of look `number`, from 0, that rejects."""
    return round(policy.all_levels[number] / prompts, _BOUND_DIGITS)


def _add_up(sides: Sequence[Tallies]) -> Tallies:
    passes = np.sum([passed for passed, _ in sides], axis=0)
    return passes, np.sum([trials for _, trials in sides], axis=0)


@dataclass(slots=True)
class SuiteCase:
    """One case of a suite, with the numbers of the trials that its tests use.

    Attributes:
        blocks: Trials of the candidate against the baseline, by round.
        pairs: Paired trials of each side, by look.
    """

    case_trials: CaseTrials
    blocks: list[range]
    pairs: Mapping[Side, list[range]] = field(default_factory=lambda: {"base": [], "candidate": []})

    @property
    def candidate(self) -> Count:
        """Trials of the candidate against the baseline."""
        return self.case_trials.count("candidate", self.blocks)

    def paired(self, side: Side) -> Count:
        """All paired trials of one side."""
        return self.case_trials.count(side, self.pairs[side])


class SuiteStage:
    """The suite tests of one prompt, on all cases that the base has trials of."""

    def __init__(
        self,
        prompt: str,
        cases: Sequence[CaseTrials],
        policy: GatePolicy,
        *,
        prompts: int,
        first_trials: int,
        broken: Collection[str] = (),
        fixed: Collection[str] = (),
        accepted: Collection[str] = (),
    ) -> None:
        """Begin after the tests of single cases.

        Args:
            cases: Changed cases of the prompt.
            prompts: Number of changed prompts, which share the error rate.
            first_trials: Trials of every case in the first round.
            broken: Broken required cases, without accepted ones.
            fixed: Fixed cases.
            accepted: Broken cases that the changelog accepts; only these are left out.
        """
        self.prompt = prompt
        self._policy = policy
        self._prompts = prompts
        self._first = first_trials
        self._cases = [
            SuiteCase(case, [range(first_trials)])
            for case in cases
            if case.count_baseline().trials and case.case.case not in accepted
        ]
        no_weight = {
            case.case.case for case in cases if case.case.edited or case.case.tier == "tracked"
        }
        self._broken, self._unweighed = frozenset(broken), frozenset(no_weight.difference(broken))
        self._fixed_count = len(fixed)
        self._weighed_fixes = frozenset(fixed) - self._unweighed
        self._graded = graded_checks([case.case_trials for case in self._cases])
        self._rounds: list[RoundReport] = []
        self._suspects: tuple[str, ...] = ()
        self._look_count = 0
        self._pairs: list[PairsReport] = []
        self._net: list[NetReport] = []
        self._status: SuiteStatus = "untested"
        self._missing = (0, 0)
        self._recorded = all(case.case_trials.case.recorded for case in self._cases)
        self.needs_net_test = self._needs_net_test()

    @property
    def rejects_cases(self) -> bool:
        """Return whether broken cases reject the change without a net test."""
        match self._policy.on_broken:
            case "block":
                return bool(self._broken)
            case "net":
                return bool(self._broken) and not self.needs_net_test
            case "warn":
                return False

    def rounds(self, *, blocked: bool) -> Iterator[list[Request]]:
        """The trials of each test; results are evaluated between them.

        Args:
            blocked: Whether the change is already rejected, so that no more trials are run.
        """
        if not self._cases:
            return
        self._rounds.append(self._round(0))
        if blocked:
            smallest = min([self._rounds[0].p_value, *self._rounds[0].scores.values()])
            # A doubt without a paired test is not a result.
            if smallest > self._policy.suite.extend and not self.needs_net_test:
                self._status = "passed"
        elif self.needs_net_test:
            yield from self._run_net_test()
        else:
            yield from self._compare()

    def report(self) -> SuiteReport:
        """The report of the suite test."""
        sides = [
            (case.paired("base"), case.paired("candidate"))
            if self._look_count
            else (case.case_trials.count_baseline(), case.candidate)
            for case in self._cases
        ]
        return SuiteReport(
            prompt=self.prompt,
            status=self._status,
            cases=len(self._cases),
            first_trials=self._first,
            rounds=tuple(self._rounds),
            suspects=self._suspects,
            pairs=tuple(self._pairs),
            net=tuple(self._net),
            broken=len(self._broken),
            fixed=self._fixed_count,
            difference=rate_difference(
                *tallies_of([base for base, _ in sides]), *tallies_of([new for _, new in sides])
            ),
            side_by_side=self._look_count > 0,
            control=self._control(),
            stable_failed=sum(
                not case.case_trials.count_baseline().failed and case.candidate.failed > 0
                for case in self._cases
            ),
            unrecorded_trials=self._missing[1],
        )

    def _needs_net_test(self) -> bool:
        """Return whether broken cases are weighed against fixed ones."""
        if self._policy.on_broken != "net" or not self._broken or not self._cases:
            return False
        if self._weighed_fixes:
            return True
        base, candidate = self._record(), self._candidate()
        no_rest = self._broken | self._unweighed
        broken = np.array([case.case_trials.case.case in no_rest for case in self._cases])
        return float(rest_better(base, candidate, broken)) <= self._policy.net.trigger

    def _compare(self) -> Iterator[list[Request]]:
        """Test against the baseline; on a suspected loss, with pairs."""
        policy = self._policy.suite
        for number in range(policy.rounds):
            if number:
                yield self._more_trials()
                self._rounds.append(self._round(number))
            self._note_missing()
            last = self._rounds[-1]
            p_values = {"": last.p_value, **last.scores}
            self._suspects = tuple(check for check, p in p_values.items() if p <= last.bound)
            if self._suspects:
                yield from self._side_by_side()
                return
            if not screen_extends(policy, number, min(p_values.values())):
                break
        self._set_status("passed")

    def _more_trials(self) -> list[Request]:
        """Further trials of every case, without cases that have missing trials."""
        requests: list[Request] = []
        extra = self._policy.suite.extra_round(self._first)
        for case in self._cases:
            if not any(case.case_trials.gaps()):
                start = case.case_trials.requested_count("candidate")
                case.blocks.append(range(start, start + extra))
                requests.append(Request(case.case_trials, "candidate", start + extra))
        return requests

    def _round(self, number: int) -> RoundReport:
        base, candidate = self._record(), self._candidate()
        result = screen(base, candidate)
        scores = {
            check: self._score_p_value(
                check,
                [case.case_trials.baseline_scores(check) for case in self._cases],
                [case.case_trials.scores("candidate", check, case.blocks) for case in self._cases],
            )
            for check in self._graded
        }
        return RoundReport(
            trials=max(sum(map(len, case.blocks)) for case in self._cases),
            total_trials=int(candidate[1].sum()),
            fails=int((candidate[1] - candidate[0]).sum()),
            expected=float(expected_failures(*base, candidate[1])),
            p_value=float(result.p_value),
            equal=bool(result.equal),
            bound=screen_bound(self._policy.suite, number, prompts=self._prompts),
            scores=scores,
        )

    def _side_by_side(self) -> Iterator[list[Request]]:
        """Pairs of every case until they confirm the loss, or stop suggesting one."""
        policy = self._policy.suite
        tests = 1 + len(self._graded)
        number = 0
        while True:
            pairs = policy.pairs_of_look(number, cases=len(self._cases), first_trials=self._first)
            yield self._next_round(pairs)
            p_values = {check: self._p_value(check) for check in self._suspects}
            bound = pairs_bound(policy, number, prompts=self._prompts, tests=tests)
            base, candidate = self._totals()
            self._pairs.append(
                PairsReport(base=base, candidate=candidate, p_values=p_values, bound=bound)
            )
            self._note_pairs()
            lower = self._policy.on_broken != "net" or self._candidate_lead() < 0
            confirmed_tests = [
                check for check, p in p_values.items() if p <= bound and (check or lower)
            ]
            if confirmed_tests:
                self._status = "worse"
                return
            smallest = min(p_values.values())
            if self._recorded or any(self._missing) or not pairs_continue(policy, number, smallest):
                self._set_status("unconfirmed")
                return
            number += 1

    def _run_net_test(self) -> Iterator[list[Request]]:
        """Pairs of every case with weight until broken and fixed ones are weighed."""
        policy = self._policy.net
        self._cases = [
            case for case in self._cases if case.case_trials.case.case not in self._unweighed
        ]
        for number in range(len(policy.all_levels)):
            pairs = policy.pairs_of_look(number, cases=len(self._cases), first_trials=self._first)
            yield self._next_round(pairs)
            sides = self._sides()
            worse = float(pairs_p_value(sides, 1))
            better = float(pairs_p_value(sides, 1, direction="better"))
            bound = net_bound(policy, number, prompts=self._prompts)
            base, candidate = self._totals()
            self._net.append(
                NetReport(
                    base=base, candidate=candidate, p_worse=worse, p_better=better, bound=bound
                )
            )
            self._note_pairs()
            if worse <= bound:
                self._status = "worse"
                return
            if better <= policy.better or self._recorded or any(self._missing):
                break
        enough = bool(self._net) and (
            self._net[-1].p_better <= policy.better or self._candidate_lead() >= 0
        )
        self._set_status("passed" if enough else "undecided")

    def _next_round(self, pairs: int) -> list[Request]:
        """Pairs of every case; of recorded outputs all, as there are no others.

        The screen has used recorded trials before. The bound of this test applies to them all the
        same, so a change without a loss is rejected no more often.
        """
        self._look_count += 1
        requests: list[Request] = []
        for case in self._cases:
            for side, numbers in case.pairs.items():
                if self._recorded:
                    numbers.append(range(sum(1 for _ in case.case_trials.facts(side))))
                else:
                    start = case.case_trials.requested_count(side)
                    numbers.append(range(start, start + pairs))
            requests += [] if self._recorded else case.case_trials.request_pairs(pairs)
        return requests

    def _sides(self) -> list[Pairs]:
        def tallies_of_look(side: Side, index: int) -> Tallies:
            return tallies_of(
                [case.case_trials.count(side, [case.pairs[side][index]]) for case in self._cases]
            )

        return [
            Pairs(tallies_of_look("base", index), tallies_of_look("candidate", index))
            for index in range(self._look_count)
        ]

    def _totals(self) -> tuple[Count, Count]:
        """All pairs of all cases, by side."""
        return (
            sum((case.paired("base") for case in self._cases), NO_TRIALS),
            sum((case.paired("candidate") for case in self._cases), NO_TRIALS),
        )

    def _candidate_lead(self) -> float:
        return float(candidate_lead(self._sides()))

    def _p_value(self, check: str) -> float:
        """The p-value of the pairs: for all cases, or for the scores of a check."""
        if not check:
            sides = self._sides()
            weights = pair_weights(self._record(), sides, self._rounds[-1].equal)
            return float(pairs_p_value(sides, weights))
        base, candidate = (
            [
                case.case_trials.scores(side, check, [case.pairs[side][index]])
                for index in range(self._look_count)
                for case in self._cases
            ]
            for side in _SIDES
        )
        return self._score_p_value(check, base, candidate)

    def _score_p_value(
        self, check: str, base: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]
    ) -> float:
        return scores_p_value(
            (self.prompt, check), base, candidate, min_effect=self._policy.min_effect
        )

    def _record(self) -> Tallies:
        return tallies_of([case.case_trials.count_baseline() for case in self._cases])

    def _candidate(self) -> Tallies:
        return tallies_of([case.candidate for case in self._cases])

    def _control(self) -> ControlReport | None:
        """Control trials of the base in the first round: an outage check, which decides nothing."""
        controls = [
            (case.count_baseline(), case.count("base", [range(case.seeds, case.seeds + 1)]))
            for case in (case.case_trials for case in self._cases)
            if case.has_baseline
        ]
        checked = [(before, now) for before, now in controls if now.trials]
        if not checked:
            return None
        before, now = (tallies_of(side) for side in zip(*checked, strict=True))
        return ControlReport(
            base=sum((now for _, now in checked), NO_TRIALS),
            p_baseline=float(suite_p_value(*before, *now, weights=1)),
            bound=self._policy.suite.control_p,
        )

    def _set_status(self, status: SuiteStatus) -> None:
        """Set the status, unless trials for it are missing."""
        unmeasured, not_recorded = self._missing
        self._status = "unmeasured" if unmeasured else "undecided" if not_recorded else status

    def _note_missing(self) -> None:
        gaps: list[tuple[int, int]] = []
        for case in self._cases:
            # A replay's first round may be shorter.
            shorter = case.case_trials.replay and any(
                case.case_trials.facts("candidate", 0, self._first)
            )
            blocks = case.blocks[1:] if shorter else case.blocks
            gaps.append(case.case_trials.count_missing("candidate", blocks))
        self._add_missing(gaps)

    def _note_pairs(self) -> None:
        self._add_missing(
            [
                case.case_trials.count_missing(side, case.pairs[side])
                for case in self._cases
                for side in _SIDES
            ]
        )

    def _add_missing(self, gaps: Sequence[tuple[int, int]]) -> None:
        self._missing = (sum(gap for gap, _ in gaps), sum(gap for _, gap in gaps))


def graded_checks(cases: Sequence[CaseTrials]) -> tuple[str, ...]:
    """The checks with fractional scores on the base, sorted by name."""
    checks = {check for case in cases for check in case.case.checks}
    return tuple(
        sorted(
            check
            for check in checks
            if any(0 < score < 1 for case in cases for score in case.baseline_scores(check))
        )
    )


def scores_p_value(
    place: tuple[str, str],
    base: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    *,
    min_effect: float,
) -> float:
    """The p-value of the scores of one check; its prompt and name seed the permutations."""
    prompt, check = place
    seed = int(digest_of({"prompt": prompt, "check": check})[:8], 16)
    return score_p_value(base, candidate, seed=seed, min_effect=min_effect)
