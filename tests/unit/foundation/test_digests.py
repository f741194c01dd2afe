from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from regauge.digests import JSON, canonical_json, digest_of

if TYPE_CHECKING:
    import random

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def shuffled(value: JSON, chance: random.Random) -> JSON:
    if isinstance(value, dict):
        items = [(key, shuffled(inner, chance)) for key, inner in value.items()]
        chance.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(inner, chance) for inner in value]
    return value


@given(json_values, st.randoms())
def test_the_order_of_keys_does_not_change_a_digest(value: JSON, chance: random.Random):
    assert digest_of(shuffled(value, chance)) == digest_of(value)


@given(json_values)
def test_canonical_json_is_json_of_the_same_value(value: JSON):
    assert json.loads(canonical_json(value)) == value


@given(json_values, json_values)
def test_values_that_differ_have_digests_that_differ(one: JSON, other: JSON):
    if canonical_json(one) != canonical_json(other):
        assert digest_of(one) != digest_of(other)


def test_what_json_has_no_word_for_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of({"score": float("nan")})


def test_a_lone_surrogate_has_a_digest():
    assert digest_of("\ud800") != digest_of("\ud801")
