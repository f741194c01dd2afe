"""Which outputs differ, and by how much more than a model's outputs differ anyway."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, strategies as st

from regauge.mutate._outputs import Outputs, differences, fields_of

APART = Outputs().distance


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ('{"a": 1, "b": "x"}', '{"b": "x", "a": 1}', False),
        ('{"a": "The disk is full."}', '{"a": "the  disk is FULL"}', False),
        ('{"a": "The disk is full."}', '{"a": "The disk is empty."}', True),
        ('{"label": "info"}', '{"label": "Info"}', True),
        ('{"a": 1}', '{"a": 1.5}', True),
        ('{"a": 1}', '{"a": true}', True),
        ('{"a": [1, 2]}', '{"a": [1, 2, 3]}', True),
        ('{"a": null}', "{}", True),
        ('{"a": 1}', '```json\n{"a": 1}\n```', True),
        ("The disk, it is full!", "the disk it is full", False),
        ("disk is full", "full is disk", True),
    ],
)
def test_json_differs_by_its_fields_and_text_by_its_words(one, other, differ):
    assert (APART(one, other) > 0) is differ
    assert APART(one, other) == APART(other, one)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=6))
def test_an_output_never_differs_from_itself(value: object):
    output = json.dumps({"value": value})
    assert differences(fields_of(output), fields_of(output)) == {}


def p_value(cases: list[tuple[list[str], list[str]]]) -> float:
    outputs = Outputs()
    noise = outputs.noise(base for base, _ in cases)
    return outputs.difference_p_value(cases, noise=noise, seed=1)


def test_a_case_whose_fresh_outputs_all_differ_is_enough():
    assert p_value([(["a b"] * 12, ["a c"] * 4)]) < 0.004


def test_noise_that_the_base_has_too_is_no_change():
    rng = random.Random(0)
    found = [
        p_value(
            [
                (rng.choices(["a b", "a c"], k=6), rng.choices(["a b", "a c"], k=2))
                for _ in range(10)
            ]
        )
        for _ in range(40)
    ]
    assert sum(p <= 0.05 for p in found) <= 7
    assert sum(p <= 0.5 for p in found) >= 8


def test_one_case_cannot_prove_a_change_where_the_baseline_chose_it():
    """Of many steady cases one differs now and then; the base's own first trial is its control."""
    outputs = Outputs()
    steady = [(["a"] * 12, "a", True)] * 40
    assert outputs.first_trials_p_value([*steady, (["a"] * 12, "b", True)], noise={}, seed=1) > 0.3
    many = [(["a"] * 12, "b", True)] * 12
    assert outputs.first_trials_p_value([*steady, *many], noise={}, seed=1) < 0.002
