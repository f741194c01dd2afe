"""Properties of a case for JUnit and other readers, which share what two cases have in common."""

from __future__ import annotations

from hypothesis import given, strategies as st

from regauge.pytest_output import share_properties

NAMES = st.sampled_from(["regauge.tier", "regauge.passed", "regauge.score.a", "regauge.case"])
VALUES = st.sampled_from(["a", "required", 1, 1.0, True, 0, 0.0, False, None, ("x",)])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=5)


@given(pairs=PROPERTIES, before=PROPERTIES)
def test_shared_properties_are_those_of_the_case(pairs, before):
    shared = share_properties(iter(pairs), before)
    assert shared == pairs
    assert [type(value) for _, value in shared] == [type(value) for _, value in pairs]


@given(pairs=PROPERTIES)
def test_equal_properties_of_two_cases_are_one_object(pairs):
    other = [(name, value) for name, value in pairs]
    shared = share_properties(other, pairs)
    assert all(one is another for one, another in zip(shared, pairs, strict=True))
