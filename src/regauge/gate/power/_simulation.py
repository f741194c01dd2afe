"""Many runs of the gate at once, on counts alone: what its error rates come from.

The tests and rules are those of the gate itself; only the bookkeeping of single trials is left
out. Each case has one check, and a head-to-head after drift is not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regauge.gate.engine import CellTest, End, goes_on, main_drifted, round_bound
from regauge.stats import suite_p_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from regauge.gate._policy import GatePolicy
    from regauge.gate.engine import BoolArray, IntArray, Tallies

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What each run came to; every array has shape (runs,).

    Attributes:
        broken: A single case was named.
        worse: The suite as a whole was found worse.
        drifted: A case or the suite was said to have drifted.
        undecided: A case stayed undecided.
        repaired: How many cases were named as improved.
        calls: Trials of both arms together.
    """

    broken: BoolArray
    worse: BoolArray
    drifted: BoolArray
    undecided: BoolArray
    repaired: IntArray
    calls: IntArray

    @property
    def blocked(self) -> BoolArray:
        """Whether the run rejects the change."""
        return self.broken | self.worse


def play(
    policy: GatePolicy,
    main: Tallies,
    *,
    candidate: BoolArray,
    fresh: BoolArray,
    family: int | None = None,
    prompts: Sequence[IntArray] | None = None,
) -> Played:
    """Run the gate on trials that are all known beforehand.

    Args:
        main: Passes and trials of main's history; shape (runs, cases).
        candidate: Whether each trial of the candidate passes; shape (runs, cases, trials), with
            as many trials as the policy's cap.
        fresh: The same of main in this run.
        family: How many cells are tested together; as many as cases if None.
        prompts: The columns of the cases of each prompt; all cases are of one prompt if None.
    """
    passes, fresh_passes = _running(candidate), _running(fresh)
    s, m = main
    first = policy.first_draws
    k = passes[..., first]
    cells = s.shape[1] if family is None else family
    broken, repaired = (
        (k < first) & (s > 0),
        (k == first) & (m > 0) & (s <= policy.improved_at_most * m),
    )
    worse = CellTest(policy.case, main, suspects=broken, family=cells, first_draws=first)
    better = CellTest(
        policy.case,
        main,
        suspects=repaired,
        family=cells,
        first_draws=first,
        direction="better",
    )
    drawn, controls = np.full(s.shape, first), np.zeros(s.shape, dtype=np.int64)
    for test in (worse, better):
        _look_on(test, passes, fresh_passes, drawn=drawn, controls=controls)
    named = _any(worse, End.NAMED)
    spent = _Spent(candidate=drawn, main=controls)
    suite_worse, suite_drifted = np.zeros_like(named), np.zeros_like(named)
    columns: Sequence[IntArray] = prompts or [np.arange(s.shape[1], dtype=np.int64)]
    for own in columns:
        found = _play_suite(
            policy, _Suite(s, m, passes, fresh_passes, own), spent, blocked=named, of=len(columns)
        )
        suite_worse |= found[0]
        suite_drifted |= found[1]
    return Played(
        broken=named,
        worse=suite_worse,
        drifted=suite_drifted | _any(worse, End.DRIFTED) | _any(better, End.DRIFTED),
        undecided=_any(worse, End.INCONCLUSIVE),
        repaired=np.asarray(np.sum(better.ends == End.NAMED, axis=1), dtype=np.int64),
        calls=np.asarray(np.sum(drawn + controls, axis=1), dtype=np.int64),
    )


def _look_on(
    test: CellTest,
    passes: IntArray,
    fresh_passes: IntArray,
    *,
    drawn: IntArray,
    controls: IntArray,
) -> None:
    """Take all looks of one test; trials are added to `drawn` and `controls` in place."""
    before = test.looks[0]
    for number, look in enumerate(test.looks):
        where = test.open
        if not where[0].size:
            return
        if number:
            drawn[where] = look
            controls[where] += np.where(test.serious, look - before, 0)
        k, n = passes[*where, look], controls[where]
        test.look(
            number,
            candidate=(k, np.full_like(k, look)),
            fresh=(fresh_passes[*where, n], n),
        )
        before = look


class _Spent(NamedTuple):
    """How many trials of each case have been drawn, by arm; added to in place."""

    candidate: IntArray
    main: IntArray


class _Suite(NamedTuple):
    """All cases, and the columns of those of one prompt."""

    main_passes: IntArray
    main_trials: IntArray
    passes: IntArray
    fresh_passes: IntArray
    columns: IntArray


def _play_suite(
    policy: GatePolicy, suite: _Suite, spent: _Spent, *, blocked: BoolArray, of: int
) -> tuple[BoolArray, BoolArray]:
    """In which runs the suite of one prompt of several is worse, and in which it drifted."""
    worse, drifted = np.zeros_like(blocked), np.zeros_like(blocked)
    going = np.nonzero(~blocked)[0]
    for number in range(1, policy.suite.rounds + 1):
        if not going.size:
            break
        trials = policy.first_draws + number - 1
        here = np.ix_(going, suite.columns)
        spent.candidate[here] = np.maximum(spent.candidate[here], trials)
        k = suite.passes[(*here, trials)]
        p = suite_p_value(suite.main_passes[here], suite.main_trials[here], k, trials)
        found = p <= round_bound(policy.suite, number, prompts=of)
        hits = going[found]
        if hits.size:
            there = np.ix_(hits, suite.columns)
            today = suite.fresh_passes[(*there, trials)]
            spent.main[there] = np.maximum(spent.main[there], trials)
            before = suite.main_passes[there], suite.main_trials[there]
            drift = main_drifted(
                policy.suite,
                p_history=suite_p_value(*before, today, trials),
                p_candidate=suite_p_value(today, trials, k[found], trials),
            )
            worse[hits], drifted[hits] = ~drift, drift
        going = going[~found & goes_on(policy.suite, number, p)]
    return worse, drifted


def _any(test: CellTest, end: End) -> BoolArray:
    """Which runs have a cell that ended so."""
    return np.asarray(np.any(test.ends == end, axis=1), dtype=np.bool_)


def _running(trials: BoolArray) -> IntArray:
    """Passes among the first 0, 1, 2, ... trials; one longer than `trials` on the last axis."""
    none = np.zeros((*trials.shape[:-1], 1), dtype=np.int64)
    return np.concatenate([none, np.cumsum(trials, axis=-1, dtype=np.int64)], axis=-1)
