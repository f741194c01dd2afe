"""The looks, bounds and control of one case, played through exactly with the package's parts."""

from __future__ import annotations

from collections import defaultdict
from math import comb, log

import numpy as np
import pytest

from regauge.stats import CasePolicy, log_drift_ratio, log_e_value

POLICY = CasePolicy()
SMALLEST = 1e-13


def binomial(n: int, p: float) -> np.ndarray:
    return np.array([comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)])


# (passes of main's history, passes of the candidate, fresh passes of main, fresh draws of main)
State = tuple[int, int, int, int]


def drawn(
    states: dict[tuple[State, bool], float], *, times: int, p: float, q: float
) -> dict[State, float]:
    """Where `times` more draws of the candidate lead, and of main where it is drawn on."""
    after: dict[State, float] = defaultdict(float)
    for ((s, k, fresh, of), control), chance in states.items():
        more = times if control else 0
        together = chance * np.outer(binomial(times, q), binomial(more, p))
        for i, j in np.argwhere(together > SMALLEST).tolist():
            after[s, k + i, fresh + j, of + more] += together[i, j]
    return after


def ends(after: dict[State, float], *, look: int, m: int, cells: int) -> list[str]:
    """What each state says at a look; `on` or `on with control` where nothing is decided yet."""
    s, k, fresh, of = np.array(list(after)).T
    log_e = log_e_value(s + fresh, m + of, k, look)
    ratio = log_drift_ratio((fresh, of), history=(s, m), candidate=(k, look))
    controlled = of >= POLICY.control_min
    return np.select(
        [
            controlled & (ratio > log(POLICY.drifted)),
            controlled & (log_e >= POLICY.log_bound(cells)),
            (log_e < log(POLICY.clear)) & (look > 1),
            (log_e >= log(POLICY.inconclusive)) & (look == POLICY.cap),
            np.full(k.shape, look == POLICY.cap),
            log_e >= log(POLICY.serious),
        ],
        ["drifted", "named", "cleared", "inconclusive", "flaky", "on with control"],
        "on",
    ).tolist()


def chances(p: float, q: float, *, m: int, cells: int) -> dict[str, float]:
    """The chance of each end and the draws expected of a case that passes with p, and now q."""
    found: dict[str, float] = defaultdict(float, candidate=1.0)
    # Nothing is drawn again after a first draw that passes, or where main never passes.
    after = {(s, 0, 0, 0): mass * (1 - q) for s, mass in enumerate(binomial(m, p)) if s}
    states: dict[tuple[State, bool], float] = {}
    before = 1
    for look in POLICY.looks:
        if look > 1:
            times = look - before
            found["candidate"] += times * sum(states.values())
            found["main"] += times * sum(mass for (_, on), mass in states.items() if on)
            after = drawn(states, times=times, p=p, q=q)
        if not after:
            break
        states = {}
        for (state, mass), end in zip(
            after.items(), ends(after, look=look, m=m, cells=cells), strict=True
        ):
            if end.startswith("on"):
                states[state, end == "on with control"] = mass
            else:
                found[end] += mass
        before = look
    return found


@pytest.mark.parametrize(
    ("q", "named", "inconclusive", "candidate", "main"),
    [
        (0.0, 1.0000, 0.0000, 6.048, 5.024),
        (0.2, 0.7954, 0.0001, 6.258, 5.113),
        (0.5, 0.3974, 0.0654, 8.695, 6.558),
        (0.9, 0.0001, 0.0015, 1.877, 0.331),
        (0.999, 0.0000, 0.0000, 1.005, 0.002),
    ],
)
def test_a_broken_case_is_found_as_often_and_with_as_many_draws_as_published(
    q, named, inconclusive, candidate, main
):
    found = chances(0.999, q, m=12, cells=100)
    assert found["named"] == pytest.approx(named, abs=6e-5)
    assert found["inconclusive"] == pytest.approx(inconclusive, abs=6e-5)
    assert found["candidate"] == pytest.approx(candidate, abs=6e-4)
    assert found["main"] == pytest.approx(main, abs=6e-4)


@pytest.mark.parametrize(
    ("cells", "worst_p", "named"),
    [(20, 0.75, 7.93e-05), (100, 0.75, 3.95e-05)],
)
def test_an_unchanged_case_is_named_as_rarely_as_published(cells, worst_p, named):
    """Over all pass probabilities; times the cells, a bound on the false alarms of a run."""
    found = {p: chances(p, p, m=12, cells=cells)["named"] for p in np.arange(0.05, 1, 0.05)}
    assert max(found.values()) == pytest.approx(named, rel=2e-3)
    assert max(found, key=found.__getitem__) == pytest.approx(worst_p)
