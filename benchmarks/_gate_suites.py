"""Suites with known pass probabilities, and what a change does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Chances: TypeAlias = NDArray[np.float64]
    Sampler: TypeAlias = Callable[[np.random.Generator, int], Chances]

# From here on a case counts as stable; below `FLAKY` and from `WEAK` on as flaky.
STABLE, FLAKY, WEAK = 0.97, 0.95, 0.5


def _always(value: float) -> Sampler:
    return lambda _, size: np.full(size, value)


def _beta(passes: float, fails: float) -> Sampler:
    return lambda rng, size: rng.beta(passes, fails, size)


def _between(low: float, high: float) -> Sampler:
    return lambda rng, size: rng.uniform(low, high, size)


# Shares of cases, and how often a case of that share passes on main.
MIXES: dict[str, tuple[tuple[float, Sampler], ...]] = {
    "typical": (
        (0.60, _always(0.999)),
        (0.22, _beta(50, 1)),
        (0.13, _between(0.5, 0.95)),
        (0.05, _beta(1, 40)),
    ),
    "clean": ((0.90, _always(0.999)), (0.08, _beta(50, 1)), (0.02, _between(0.5, 0.95))),
    "noisy": (
        (0.30, _always(0.999)),
        (0.25, _beta(30, 1)),
        (0.35, _between(0.3, 0.95)),
        (0.10, _beta(1, 40)),
    ),
    "agentic": ((1.0, _beta(0.70, 0.45)),),
}
SCENARIOS = (
    "A/A",
    "drop2",
    "drop5",
    "drop10",
    "flip1",
    "flip3",
    "half1",
    "swap3",
    "dead3",
    "fix3",
    "drift",
    "cache",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How often each case passes.

    Attributes:
        main: When main's history was drawn.
        today: On main in this run.
        candidate: With the changed prompt.
        cached: Cases that a cache answers: one answer per arm, again and again.
    """

    main: Chances
    today: Chances
    candidate: Chances
    cached: frozenset[int] = frozenset()


def suite(rng: np.random.Generator, mix: str, cases: int) -> Chances:
    """Pass probabilities on main of the cases of one suite."""
    shares = [share for share, _ in MIXES[mix]]
    kind = rng.choice(len(shares), size=cases, p=shares)
    p = np.empty(cases)
    for number, (_, sampler) in enumerate(MIXES[mix]):
        chosen = kind == number
        p[chosen] = sampler(rng, int(chosen.sum()))
    return p


def changed(rng: np.random.Generator, scenario: str, p: Chances) -> Chance:
    """What one scenario makes of a suite."""
    name = scenario.rstrip("0123456789.")
    size = float(scenario[len(name) :] or 0)
    q = p.copy()
    match name:
        case "A/A":
            pass
        case "drop":
            q = np.clip(p - size / 100, 0, 1)
        case "flip":
            q[_some(rng, p, STABLE, 1, size)] = 0.0
        case "half":
            q[_some(rng, p, STABLE, 1, size)] = 0.5
        case "swap":
            q[_some(rng, p, STABLE, 1, size)] = 0.0
            q[_some(rng, p, 0, FLAKY, size)] = 1.0
        case "dead":
            q[_some(rng, p, WEAK, FLAKY, size)] = 0.0
        case "fix":
            q[_some(rng, p, 0, WEAK, size)] = 1.0
        case "drift":
            # The provider changed: both arms lose the same, and only the history does not know.
            q = np.clip(p - 0.05, 0, 1)
            q[_some(rng, p, STABLE, 1, 3)] = 0.0
            return Chance(main=p, today=q, candidate=q)
        case "cache":
            # Nothing changed, but one in five wavering cases is not drawn anew for each trial.
            stuck = np.nonzero((p > 0.3) & (p < STABLE) & (rng.random(p.size) < 0.2))[0]
            return Chance(main=p, today=p, candidate=q, cached=frozenset(stuck.tolist()))
        case _:
            raise SystemExit(f"no scenario {scenario!r}; there are: {', '.join(SCENARIOS)}")
    return Chance(main=p, today=p, candidate=q)


def _some(
    rng: np.random.Generator, p: Chances, low: float, high: float, size: float
) -> NDArray[np.int64]:
    """So many cases, or as many as there are, that pass with a probability in a range."""
    fit = np.nonzero((p >= low) & (p <= high))[0]
    return rng.permutation(fit)[: int(size)]
