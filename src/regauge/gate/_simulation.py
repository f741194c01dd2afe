"""Many runs of the gate at once, on counts alone: what its error rates come from.

The tests and rules are those of the gate itself; only the bookkeeping of single trials is left
out. Each case has one check, and a head-to-head after drift is not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate._case_test import CellTest, End
from regauge.gate._suite_test import goes_on, main_drifted, round_bound
from regauge.stats import suite_p_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regauge.gate._case_test import BoolArray, IntArray, Tallies
    from regauge.gate._policy import GatePolicy

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
) -> Played:
    """Run the gate on trials that are all known beforehand.

    Args:
        main: Passes and trials of main's history; shape (runs, cases).
        candidate: Whether each trial of the candidate passes; shape (runs, cases, trials), with
            as many trials as the policy's cap.
        fresh: The same of main in this run.
        family: How many cells are tested together; as many as cases if None.
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
    suite = _play_suites(
        policy, main, passes, fresh_passes, drawn=drawn, controls=controls, blocked=named
    )
    return Played(
        broken=named,
        worse=suite[0],
        drifted=suite[1]
        | np.any((worse.ends == End.DRIFTED) | (better.ends == End.DRIFTED), axis=1),
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


def _play_suites(
    policy: GatePolicy,
    main: Tallies,
    passes: IntArray,
    fresh_passes: IntArray,
    *,
    drawn: IntArray,
    controls: IntArray,
    blocked: BoolArray,
) -> tuple[BoolArray, BoolArray]:
    """Which suites are worse, and which drifted; further trials are added in place."""
    s, m = main
    worse, drifted = np.zeros(len(s), dtype=np.bool_), np.zeros(len(s), dtype=np.bool_)
    going = np.nonzero(~blocked)[0]
    for number in range(1, policy.suite.rounds + 1):
        if not going.size:
            break
        trials = policy.first_draws + number - 1
        drawn[going] = np.maximum(drawn[going], trials)
        k = passes[going][..., trials]
        p = suite_p_value(s[going], m[going], k, trials)
        found = p <= round_bound(policy.suite, number, prompts=1)
        hits = going[found]
        if hits.size:
            today = fresh_passes[hits][..., trials]
            controls[hits] = np.maximum(controls[hits], trials)
            drift = main_drifted(
                policy.suite,
                p_history=suite_p_value(s[hits], m[hits], today, trials),
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
