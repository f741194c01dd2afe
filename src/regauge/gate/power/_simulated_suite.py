"""A suite to simulate: main's history of its cases, and what that leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.power._simulation import play
from regauge.stats import log_marginal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.engine import IntArray
    from regauge.gate.power._simulation import FloatArray, Played

# Shapes of Beta distributions: cases that hardly ever fail, seldom, often, nearly always.
_KINDS = ((200.0, 0.2), (50.0, 1.0), (3.0, 1.0), (1.0, 20.0))
_FITTING = 30
# Cases that main passes at least so often are what one broken case is taken from.
_STABLE = 0.9
# Cases times runs of an unchanged prompt, which take about a third of a second.
_SIZE = 160_000
_RUNS_LEAST, _RUNS_MOST = 100, 2_000


def lowered(drop: float) -> Callable[[FloatArray], FloatArray]:
    """Every pass probability lower by the same, down to 0.

    >>> lowered(0.1)(np.array([1.0, 0.05])).tolist()
    [0.9, 0.0]
    """
    return lambda p: np.clip(p - drop, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSuite:
    """Cases to simulate.

    Attributes:
        main: Passes and trials of main's history; shape (cases,).
        family: How many cells are tested together.
        prompts: The columns of the cases of each prompt.
    """

    main: tuple[IntArray, IntArray]
    policy: GatePolicy
    family: int
    prompts: tuple[IntArray, ...]

    @classmethod
    def of(
        cls,
        histories: Sequence[Count],
        policy: GatePolicy,
        *,
        cells: int | None = None,
        cases: int | None = None,
        prompts: Sequence[str] = (),
    ) -> SimulatedSuite | None:
        named = list(prompts) or [""] * len(histories)
        known = [
            (count, prompt) for count, prompt in zip(histories, named, strict=True) if count.trials
        ]
        if not known:
            return None
        per_case = 1.0 if cells is None else max(1.0, cells / len(known))
        if cases is not None:
            # As many as wanted, in the shares of the suite.
            known.sort(key=lambda one: one[0].passed / one[0].trials)
            known = [(known[i * len(known) // cases][0], "") for i in range(cases)]
        columns: dict[str, list[int]] = {}
        for column, (_, prompt) in enumerate(known):
            columns.setdefault(prompt, []).append(column)
        return cls(
            main=(
                np.array([count.passed for count, _ in known], dtype=np.int64),
                np.array([count.trials for count, _ in known], dtype=np.int64),
            ),
            policy=policy,
            family=round(per_case * len(known)),
            prompts=tuple(np.array(own, dtype=np.int64) for own in columns.values()),
        )

    @property
    def runs(self) -> int:
        """How many runs of an unchanged prompt are simulated."""
        return int(np.clip(_SIZE // self.main[0].size, _RUNS_LEAST, _RUNS_MOST))

    @property
    def stable(self) -> IntArray:
        """The cases that main passes nearly always."""
        s, m = self.main
        return np.nonzero(s >= _STABLE * m)[0]

    def breaking_one(self, p: FloatArray) -> FloatArray:
        """One stable case of each run never passes, another one in the next run."""
        stable = self.stable
        q = p.copy()
        runs = np.arange(len(p))
        q[runs, stable[runs % stable.size]] = 0.0
        return q

    def play(self, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int) -> Played:
        rng = np.random.default_rng(seed)
        p = _pass_probabilities(*self.main, runs, rng)
        shape = (*p.shape, self.policy.case.cap)
        q = change(p)
        return play(
            self.policy,
            (np.broadcast_to(self.main[0], p.shape), np.broadcast_to(self.main[1], p.shape)),
            candidate=rng.random(shape, dtype=np.float32) < q[..., np.newaxis],
            fresh=rng.random(shape, dtype=np.float32) < p[..., np.newaxis],
            family=self.family,
            prompts=self.prompts,
        )


def _pass_probabilities(
    s: IntArray, m: IntArray, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Pass probabilities drawn from what the history leaves open; shape (runs, cases).

    How many cases are stable, wavering or hopeless is taken from the suite itself: the weights of
    the mixture are fitted to all histories (empirical Bayes, by expectation maximisation; Robbins
    1956, Dempster, Laird & Rubin, JRSS B 1977), and each case then drawn from its posterior.
    """
    chances = np.exp([log_marginal(s, m, shape=shape) for shape in _KINDS])
    shares = chances / chances.sum(axis=0)
    for _ in range(_FITTING):
        shares = shares.mean(axis=1, keepdims=True) * chances
        shares /= shares.sum(axis=0)
    thresholds = np.cumsum(shares, axis=0)[:, np.newaxis]
    kind = np.sum(rng.random((runs, s.size)) > thresholds[:-1], axis=0)
    shapes = np.array(_KINDS)
    return np.asarray(rng.beta(shapes[kind, 0] + s, shapes[kind, 1] + m - s), dtype=np.float64)
