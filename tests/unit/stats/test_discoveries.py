from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import e_bh

logs = st.lists(st.floats(-20, 20), max_size=12)


@settings(max_examples=25, deadline=None)
@given(log_e=logs, alpha=st.floats(0.001, 1))
def test_k_is_the_largest_number_with_so_many_e_values_above_its_bound(log_e, alpha):
    n = max(len(log_e), 1)
    fits = [k for k in range(1, n + 1) if sum(e >= np.log(n / (k * alpha)) for e in log_e) >= k]
    bound = e_bh(log_e, alpha=alpha)
    assert int(bound.count) == max(fits, default=0)
    assert float(bound.log_bound) == pytest.approx(np.log(n / (max(int(bound.count), 1) * alpha)))
    assert int(bound.is_reached(log_e).sum()) == int(bound.count)


def test_cells_never_drawn_count_in_the_family():
    drawn = np.log([2500.0, 30.0])
    alone = e_bh(np.concatenate([drawn, np.full(98, -np.inf)]), alpha=0.05)
    assert e_bh(drawn, alpha=0.05, checks=100).log_bound == alone.log_bound
    assert alone.is_reached(np.append(drawn, np.full(98, -np.inf))).nonzero()[0].tolist() == [0]


def test_several_strong_cells_lower_the_bound_for_each_other():
    two = e_bh(np.log([1500.0, 1500.0]), alpha=0.05, checks=100)
    assert (int(two.count), round(float(np.exp(two.log_bound)))) == (2, 1000)
    assert int(e_bh(np.log([1500.0, 10.0]), alpha=0.05, checks=100).count) == 0


@settings(max_examples=25, deadline=None)
@given(log_e=logs.filter(len), more=st.floats(0, 10))
def test_more_evidence_in_one_cell_never_takes_a_discovery_away(log_e, more):
    before = e_bh(log_e, alpha=0.05)
    after = e_bh([log_e[0] + more, *log_e[1:]], alpha=0.05)
    assert int(after.count) >= int(before.count)
    assert float(after.log_bound) <= float(before.log_bound)


def test_families_side_by_side_are_judged_each_by_itself():
    log_e = np.log([[5000.0, 1.0], [50.0, 1.0], [60.0, 45.0]])
    bound = e_bh(log_e, alpha=0.05)
    assert bound.count.tolist() == [1, 1, 2]
    assert bound.is_reached(log_e).tolist() == [[True, False], [True, False], [True, True]]


def test_no_cell_at_all_is_no_discovery():
    assert int(e_bh([], alpha=0.05).count) == 0


@pytest.mark.parametrize("alpha", [0, -1, 1.5, float("nan")])
def test_a_rate_out_of_range_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be above 0"):
        e_bh([1.0], alpha=alpha)


def test_a_family_smaller_than_its_cells_is_refused():
    with pytest.raises(ValueError, match="a family of 1 checks cannot have 2 e-values"):
        e_bh([1.0, 2.0], alpha=0.05, checks=1)


def test_an_e_value_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        e_bh([float("nan")], alpha=0.05)
