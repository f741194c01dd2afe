from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import AUDIT_STEPS, FULL_AUDIT, audit_p_value

SHARES = st.fractions(Fraction(1, 20), 1, max_denominator=20)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), SHARES, SHARES)
def test_it_is_the_binomial_tail(worse, better, passes, fails):
    stats = pytest.importorskip("scipy.stats")
    share = float(passes / (passes + fails))
    expected = stats.binom.sf(worse - 1, worse + better, share)
    found = audit_p_value(worse, better, passed=passes, failed=fails)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def audited(steps, recorded, q, rng):
    """Whether an audit accuses recordings, and the fresh trials it takes."""
    order = rng.random(recorded.size)
    fresh = rng.random(recorded.size) < q
    drawn = np.zeros(recorded.size, bool)
    for step in steps:
        passes, fails = step.shares(recorded.size)
        drawn = order < np.where(recorded, float(passes), float(fails))
        worse = int((recorded & ~fresh & drawn).sum())
        better = int((~recorded & fresh & drawn).sum())
        p = audit_p_value(worse, better, passed=passes, failed=fails)
        if p <= step.level:
            return True, int(drawn.sum())
        if p > step.further:
            break
    return False, int(drawn.sum())


@pytest.mark.parametrize(("drop", "again", "least", "most"), [(0, 0, 0, 0.01), (0.1, 5, 0.8, 1)])
@pytest.mark.parametrize("steps", [AUDIT_STEPS, FULL_AUDIT])
def test_honest_recordings_are_hardly_ever_accused_and_chosen_ones_mostly(
    drop, again, least, most, steps
):
    """140 cases; a case that fails is recorded again, up to five times."""
    rng = np.random.default_rng([int(10 * drop), again])
    found, calls, runs = 0, 0, 400
    for _ in range(runs):
        p = rng.choice([0.999, 0.97, 0.7, 0.03], size=140, p=[0.6, 0.22, 0.13, 0.05])
        q = np.clip(p - drop, 0, 1)
        recorded = np.logical_or.reduce([rng.random(140) < q for _ in range(1 + again)])
        accused, drawn = audited(steps, recorded, q, rng)
        found, calls = found + accused, calls + drawn
    assert least * runs <= found <= most * runs + 2
    if steps is AUDIT_STEPS and not drop:
        assert calls / runs <= 0.33 * 140


@given(discordant=st.integers(0, 60), passes=SHARES, fails=SHARES, level=st.floats(0, 1))
def test_honest_recordings_are_accused_no_more_often_than_the_level(
    discordant, passes, fails, level
):
    """A recorded trial and a fresh one are exchangeable, so each order of the two is as likely."""
    share = float(passes / (passes + fails))
    accused = sum(
        comb(discordant, worse) * share**worse * (1 - share) ** (discordant - worse)
        for worse in range(discordant + 1)
        if audit_p_value(worse, discordant - worse, passed=passes, failed=fails) <= level
    )
    assert accused <= level + 1e-9
