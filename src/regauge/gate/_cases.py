"""Trials of each case, and the evidence of its checks."""

from __future__ import annotations

from enum import IntEnum
from itertools import chain
from math import log
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from regauge.evidence import NO_TRIALS, Count
from regauge.stats import e_bh, log_drift_ratio, log_e_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from regauge.gate._types import BaseTrials, GateCase, GatePolicy, NotRecorded, Side, TrialFacts
    from regauge.stats import CasePolicy, Direction


# A requested trial without a result.
_PENDING = "pending"
_NOT_RECORDED = ("not-recorded", "unavailable")


class Request(NamedTuple):
    """All trials of one side of a case below a number.

    Attributes:
        paired: Whether the trials run next to those of the other side in the same round.
    """

    case_trials: CaseTrials
    side: Side
    stop: int
    paired: bool = False


class CaseTrials:
    """The trials of one case, by side and number.

    Attributes:
        case: The case.
        first: Trials of the candidate in the first round.
        seeds: Number of first trials of the base that replace a missing baseline.
        replay: Whether a recorded first round may be shorter.
        pairs: Numbers of the paired trials of the case test: candidate, base.
        case_stop: End of the candidate's trials for the case test, before those for the suite; None
            until it ends.
    """

    def __init__(self, case: GateCase, *, first: int, seeds: int, replay: bool = False) -> None:
        baseline = case.baseline
        self.case = case
        self._baseline = baseline if baseline is not None and trials_of(baseline) else None
        self.first = first
        self.seeds = seeds if self._baseline is None and case.state == "changed" else 0
        self.replay = replay
        self.pairs: list[tuple[range, range]] = []
        self._baseline_varies = (
            baseline is not None
            and baseline.distinct_outputs > 1
            and varies(baseline.distinct_outputs, trials_of(baseline))
        )
        self.case_stop: int | None = None
        self._sides: dict[Side, list[TrialFacts | NotRecorded | str | None]] = {
            "candidate": [],
            "base": [],
        }
        self._new: dict[Side, frozenset[int]] | None = None

    def request(self, side: Side, stop: int) -> range:
        """Request all trials below a number; return those that are new."""
        trials = self._sides[side]
        new = range(len(trials), max(stop, len(trials)))
        trials.extend([_PENDING] * len(new))
        return new

    def request_more(self, trials: int, *, pairs: bool) -> list[Request]:
        """Return requests for further trials of the case test, paired or of the candidate alone."""
        start, of_base = self.requested_count("candidate"), self.requested_count("base")
        if not pairs:
            return [Request(self, "candidate", start + trials)]
        self.pairs.append((range(start, start + trials), range(of_base, of_base + trials)))
        return self.request_pairs(trials)

    def request_pairs(self, trials: int) -> list[Request]:
        """Return requests for further paired trials."""
        return [
            Request(self, "candidate", self.requested_count("candidate") + trials, paired=True),
            Request(self, "base", self.requested_count("base") + trials, paired=True),
        ]

    def end_case_test(self) -> None:
        """Mark the end of the case test: later trials belong to the suite."""
        self.case_stop = len(self._sides["candidate"])

    def requested_count(self, side: Side) -> int:
        """The number of requested trials of a side."""
        return len(self._sides[side])

    def is_pending(self, side: Side, number: int) -> bool:
        """Return whether a trial was requested and has no result yet."""
        trials = self._sides[side]
        return 0 <= number < len(trials) and trials[number] is _PENDING

    def add(self, side: Side, number: int, facts: TrialFacts | NotRecorded | None) -> None:
        """Add the result of one trial."""
        self._sides[side][number] = facts
        self._new = None

    def gaps(self) -> tuple[int, int]:
        """The number of unmeasured trials of the case, and of unrecorded ones.

        A pending trial counts as unmeasured. Trials for the suite and the outage check do not
        count, nor does a replay's shorter first round if any of it is recorded.
        """
        stop = self.requested_count("candidate") if self.case_stop is None else self.case_stop
        start = self.first if self.replay and any(self.facts("candidate", 0, self.first)) else 0
        candidate = self.count_missing("candidate", [range(start, stop)])
        base = self.count_missing("base", [range(self.seeds), *(base for _, base in self.pairs)])
        first_round = self.count_missing("candidate", [range(start)])
        return candidate[0] + base[0] + first_round[0], candidate[1] + base[1]

    def count_missing(self, side: Side, numbers: Iterable[range]) -> tuple[int, int]:
        """Count the unmeasured trials among some numbers, and the unrecorded ones."""
        trials = self._sides[side]
        unmeasured = not_recorded = 0
        for number in chain.from_iterable(numbers):
            trial = trials[number] if number < len(trials) else _PENDING
            not_recorded += trial in _NOT_RECORDED
            unmeasured += trial is None or trial is _PENDING
        return unmeasured, not_recorded

    @property
    def lacks_base(self) -> bool:
        """Return whether trials that replace a baseline are not recorded."""
        return "not-recorded" in self._sides["base"][: self.seeds]

    def facts(self, side: Side, start: int = 0, stop: int | None = None) -> Iterator[TrialFacts]:
        """The measured trials of a side, by number."""
        for trial in self._sides[side][start:stop]:
            if trial is not None and not isinstance(trial, str):
                yield trial

    def candidate(self, check: str | None = None, stop: int | None = None) -> Count:
        """Trials of the candidate that count, for one check or all together."""
        stop = self.requested_count("candidate") if stop is None else stop
        return self.count("candidate", [range(stop)], check)

    def paired(self, side: Side, check: str | None = None) -> Count:
        """Paired trials of a side in the case test."""
        index = 0 if side == "candidate" else 1
        return self.count(side, [pair[index] for pair in self.pairs], check)

    def count(self, side: Side, numbers: Iterable[range], check: str | None = None) -> Count:
        """Count some trials, for one check or all together.

        A cached completion is the same trial and counts once.
        """
        trials = self._sides[side]
        new = self._new_trials(side)
        passed = measured = 0
        for number in chain.from_iterable(numbers):
            facts = trials[number] if number < len(trials) else None
            if facts is None or isinstance(facts, str) or (new is not None and number not in new):
                continue
            verdict = facts.passed if check is None else facts.checks.get(check)
            if verdict is not None:
                measured += 1
                passed += verdict
        return Count(passed=passed, trials=measured)

    def count_baseline(self, check: str | None = None) -> Count:
        """Trials of the base before this run, for one check or all together."""
        baseline = self._baseline
        if baseline is None:
            return self.count("base", [range(self.seeds)], check)
        if check is None:
            return baseline.total
        return baseline.checks.get(check, NO_TRIALS)

    def baseline_scores(self, check: str) -> Sequence[float]:
        """Scores of the base before this run."""
        baseline = self._baseline
        if baseline is None:
            return self.scores("base", check, [range(self.seeds)])
        return baseline.scores.get(check, ())

    def scores(self, side: Side, check: str, numbers: Iterable[range]) -> list[float]:
        """Scores of measured trials, by number."""
        given_scores = (
            facts.scores.get(check)
            for part in numbers
            for facts in self.facts(side, part.start, part.stop)
        )
        return [score for score in given_scores if score is not None]

    @property
    def has_baseline(self) -> bool:
        """Return whether the base has trials from before this run."""
        return self._baseline is not None

    @property
    def repeat_count(self) -> int:
        """The number of the candidate's trials that repeat a completion and do not count."""
        new = self._new_trials("candidate")
        if new is None:
            return 0
        stop = self.requested_count("candidate") if self.case_stop is None else self.case_stop
        measured = sum(1 for _ in self.facts("candidate", 0, stop))
        return measured - sum(number < stop for number in new)

    def _new_trials(self, side: Side) -> frozenset[int] | None:
        """The trials with a completion new to their side; None if all count."""
        if not self._baseline_varies:
            return None
        if self._new is None:
            self._new = (
                {"candidate": self._first_of("candidate"), "base": self._first_of("base")}
                if self._is_cached()
                else {}
            )
        return self._new.get(side)

    def _first_of(self, side: Side) -> frozenset[int]:
        seen: set[str] = set()
        new: set[int] = set()
        for number, facts in enumerate(self._sides[side]):
            if facts is None or isinstance(facts, str):
                continue
            if not facts.output_digest or facts.output_digest not in seen:
                new.add(number)
            seen.add(facts.output_digest)
        return frozenset(new)

    def _is_cached(self) -> bool:
        """Return whether completions repeat today that hardly ever did before.

        Only the base's completions count as a sign: a broken prompt may return the same every time,
        and a label is the same by nature. The base runs again before a case is broken, so this is
        known in time.
        """
        digests = [
            facts.output_digest for facts in self.facts("base", self.seeds) if facts.output_digest
        ]
        return len(digests) > 1 and not varies(len({*digests}), len(digests))


def trials_of(baseline: BaseTrials) -> int:
    """The number of trials in a baseline: that of its most often judged check."""
    return max([baseline.total.trials, *(count.trials for count in baseline.checks.values())])


def varies(distinct: int, trials: int) -> bool:
    """Return whether most completions were different.

    >>> varies(12, 12), varies(2, 12), varies(1, 2)
    (True, False, False)
    """
    return 2 * distinct > trials


BoolArray: TypeAlias = "NDArray[np.bool_]"
IntArray: TypeAlias = "NDArray[np.int64]"
Tallies: TypeAlias = "tuple[IntArray, IntArray]"


def tallies_of(counts: Sequence[Count]) -> Tallies:
    """Passes and trials as arrays."""
    passed = np.array([count.passed for count in counts], dtype=np.int64)
    return passed, np.array([count.trials for count in counts], dtype=np.int64)


class CheckState(IntEnum):
    """The state of a check."""

    UNTESTED = 0
    OPEN = 1
    CONFIRMED = 2
    DRIFTED = 3
    CLEARED = 4
    UNDECIDED = 5
    MIXED = 6
    MISSING = 7


class OpenCheckCounts(NamedTuple):
    """Passes and trials of the open checks so far, in their order.

    Attributes:
        candidate: All trials of the candidate, first round included.
        today: Paired trials of the base.
        paired: Paired trials of the candidate.
    """

    candidate: Tallies
    today: Tallies
    paired: Tallies


class CheckTest:
    """The test of many checks in one direction, look by look.

    Attributes:
        steps: Further trials of an open check for each look after the first round.
        states: `CheckState` of each check; shape (runs, checks).
        log_e: Evidence against all trials of the base at the last look.
        log_today: Evidence of the pairs alone at the last look; -inf without any.
        log_bound: Bound of `log_e` in each run at the last look; shape (runs,).
    """

    def __init__(
        self,
        policy: CasePolicy,
        base: Tallies,
        first: Tallies,
        *,
        family: int | None = None,
        direction: Direction = "worse",
        passes_at_most: float = 1.0,
    ) -> None:
        """Begin with the checks whose first round leaves a doubt.

        Args:
            base: Passes and trials of the baseline; shape (runs, checks).
            first: Passes and trials of the candidate in the first round.
            family: Number of checks tested together, if more than these.
            direction: `better` tests whether checks that the base fails are fixed.
            passes_at_most: Largest pass rate of the base for a test of `better`.
        """
        self._policy = policy
        self._direction: Direction = direction
        self._base = base
        (s, m), (k, r) = base, first
        if direction == "better":
            doubt = (r > 0) & (k == r) & (m > 0) & (s <= passes_at_most * m)
        else:
            doubt = (k < r) & (s > 0)
        self.log_e = np.full(doubt.shape, -np.inf)
        index = np.nonzero(doubt)
        self.log_e[index] = self._evidence(s[index], m[index], k[index], r[index])
        least = np.where(r >= policy.many_trials, policy.suspect_of_many, policy.suspect)
        doubt &= self.log_e >= np.log(least)
        self.steps = policy.all_steps
        self.tested = doubt
        self.states = np.where(doubt, int(CheckState.OPEN), int(CheckState.UNTESTED)).astype(
            np.int8
        )
        self.log_today = np.full(doubt.shape, -np.inf)
        self._record = np.full(doubt.shape, -np.inf)
        self._family = max(family or 1, doubt.shape[1])
        self.log_bound = np.full(len(doubt), policy.log_bound(self._family))

    @property
    def open(self) -> tuple[IntArray, ...]:
        """Runs and checks that are not decided, as indices."""
        return np.nonzero(self.states == CheckState.OPEN)

    def paired(self, number: int) -> BoolArray:
        """The open checks, in order, that need the base as well at a look, counted from 0."""
        evidence = self.log_e[self.open]
        if number + 2 >= self._policy.paired_from:
            return np.ones(evidence.shape, dtype=np.bool_)
        return np.asarray(evidence >= log(self._policy.serious))

    def evaluate(self, number: int, counts: OpenCheckCounts) -> None:
        """Decide the open checks as far as possible.

        Args:
            number: Number of the look, from 0.
            counts: Counts of the open checks.
        """
        rows, checks = index = self.open
        if not rows.size:
            return
        policy = self._policy
        # Passes and trials, in the letters of `stats`: s of m in the baseline, k of r of the
        # candidate, and in pairs b of n of the base and kd of nd of the candidate.
        s, m = self._base[0][index], self._base[1][index]
        (k, r), (b, n), (kd, nd) = counts
        evidence = self._evidence(s + b, m + n, k, r)
        today = self._evidence(b, n, kd, nd)
        self.log_e[index], self.log_today[index] = evidence, today
        before = self._evidence(s, m, k, r)
        self._record[index] = np.maximum(self._record[index], np.maximum(evidence, before))
        is_named, is_confirmed = self._name_checks(rows, checks)
        controlled = n >= policy.control_min
        ratio = log_drift_ratio((b, n), baseline=(s, m), candidate=(k, r))
        has_drifted = controlled & (ratio > log(policy.drifted))
        # The lead of the base in the tested direction, in paired trials.
        ahead = b - kd if self._direction == "worse" else (n - b) - (nd - kd)
        at_cap = number >= len(policy.steps) - 1
        # The candidate passes no pair and the base some: drift, and perhaps a break.
        never = (kd if self._direction == "worse" else nd - kd) == 0
        is_unclear = has_drifted & never & (ahead >= policy.indistinct_lead)
        # A few pairs that both sides fail cannot distinguish a rare pass of the base from none.
        drifted = has_drifted & (today < 0) & (at_cap & ~is_unclear | (ahead <= 0) & ~never)
        self.states[rows, checks] = np.select(
            [
                is_confirmed & controlled,
                drifted,
                evidence < log(policy.clear),
            ],
            [CheckState.CONFIRMED, CheckState.DRIFTED, CheckState.CLEARED],
            CheckState.OPEN,
        )
        if at_cap:
            open_checks = self.states[rows, checks] == CheckState.OPEN
            state = self._at_cap(
                number,
                is_named=is_named,
                today=today,
                ahead=ahead,
                likely=(evidence >= log(max(policy.undecided, self._family)))
                & (today >= log(policy.undecided_today)),
                has_drifted=has_drifted,
                is_unclear=is_unclear,
            )
            self.states[rows[open_checks], checks[open_checks]] = state[open_checks]

    def stop(self, row: int, check: int) -> None:
        """End the test of a check because trials of it are missing."""
        self.states[row, check] = CheckState.MISSING

    def _evidence(self, s: IntArray, m: IntArray, k: IntArray, r: IntArray) -> NDArray[np.float64]:
        return log_e_value(s, m, k, r, direction=self._direction)

    def _name_checks(self, rows: IntArray, checks: IntArray) -> tuple[BoolArray, BoolArray]:
        """The open checks above the bound by all trials, and those that the pairs confirm."""
        policy = self._policy
        runs, row = np.unique(rows, return_inverse=True)
        bounds = e_bh(self._record[runs], alpha=policy.alpha, checks=self._family)
        self.log_bound[runs] = bounds.log_bound
        live = (self.states[runs] == CheckState.OPEN) | (self.states[runs] == CheckState.CONFIRMED)
        is_named = (self._record[runs] >= bounds.log_bound[:, np.newaxis]) & live
        among = np.where(is_named, self.log_today[runs], -np.inf)
        confirm = e_bh(among, alpha=1 / policy.confirm, checks=np.maximum(is_named.sum(axis=1), 1))
        is_confirmed = is_named & (among >= confirm.log_bound[:, np.newaxis])
        return is_named[row, checks], is_confirmed[row, checks]

    def _at_cap(
        self,
        number: int,
        *,
        is_named: BoolArray,
        today: NDArray[np.float64],
        ahead: IntArray,
        likely: BoolArray,
        has_drifted: BoolArray,
        is_unclear: BoolArray,
    ) -> IntArray:
        """The end of each check after the regular steps; OPEN if it continues."""
        policy = self._policy
        worth = is_named & ((today >= log(policy.late_from)) | (ahead >= policy.base_lead))
        open_end = likely | is_unclear
        step, regular = number + 1, len(policy.steps)
        late = regular + len(policy.late_steps)
        # A continued run gives an undecided check these further steps.
        has_more_steps = step < regular + len(policy.extra_steps) or late <= step < len(self.steps)
        continues = (worth & (step < late)) | (open_end & has_more_steps)
        return np.select(
            [continues, open_end, has_drifted],
            [int(CheckState.OPEN), int(CheckState.UNDECIDED), int(CheckState.DRIFTED)],
            int(CheckState.MIXED),
        )


class CaseStage:
    """All checks of the required cases, tested both ways.

    Attributes:
        checks: Case and check of each column of the tests.
        worse: Test for broken checks.
        better: Test for fixed checks, applied to checks that the base hardly ever passes.
    """

    def __init__(self, cases: Sequence[CaseTrials], policy: GatePolicy) -> None:
        """Begin after the first round."""
        self.checks: list[tuple[CaseTrials, str]] = [
            (case, check) for case in cases for check in case.case.checks
        ]
        self._column = {(case.case.key, check): i for i, (case, check) in enumerate(self.checks)}
        base = _row([case.count_baseline(check) for case, check in self.checks])
        first = _row([case.candidate(check, case.first) for case, check in self.checks])
        self.worse = CheckTest(policy.case, base, first)
        self.better = CheckTest(
            policy.case,
            base,
            first,
            direction="better",
            passes_at_most=policy.improved_at_most,
        )

    def rounds(self) -> Iterator[list[Request]]:
        """The trials of each look; the results are evaluated between them."""
        for number, step in enumerate(self.worse.steps):
            requests = self._next_requests(number, step)
            if not requests:
                return
            yield requests
            for test in (self.worse, self.better):
                self._evaluate(test, number)

    def find_test(self, case_trials: CaseTrials, check: str) -> tuple[CheckTest, int] | None:
        """Return the test of a check and its column; None if it was not tested."""
        column = self._column.get((case_trials.case.key, check))
        if column is None:
            return None
        for test in (self.worse, self.better):
            if test.tested[0, column]:
                return test, column
        return None

    def _next_requests(self, number: int, step: int) -> list[Request]:
        cases: dict[tuple[str, str], CaseTrials] = {}
        paired: set[tuple[str, str]] = set()
        for test in (self.worse, self.better):
            columns: list[int] = test.open[1].tolist()
            for column, pair in zip(columns, test.paired(number).tolist(), strict=True):
                case = self.checks[column][0]
                cases[case.case.key] = case
                if pair:
                    paired.add(case.case.key)
        requests: list[Request] = []
        for key, case in cases.items():
            requests += case.request_more(step, pairs=key in paired)
        return requests

    def _evaluate(self, test: CheckTest, number: int) -> None:
        columns: list[int] = test.open[1].tolist()
        if not columns:
            return
        checks = [self.checks[column] for column in columns]
        counts = OpenCheckCounts(
            candidate=tallies_of([case.candidate(check) for case, check in checks]),
            today=tallies_of([case.paired("base", check) for case, check in checks]),
            paired=tallies_of([case.paired("candidate", check) for case, check in checks]),
        )
        test.evaluate(number, counts)
        for column, (case, _) in zip(columns, checks, strict=True):
            if any(case.gaps()) and test.states[0, column] != CheckState.CONFIRMED:
                test.stop(0, column)


def _row(counts: Sequence[Count]) -> Tallies:
    passed, trials = tallies_of(counts)
    return passed[np.newaxis], trials[np.newaxis]
