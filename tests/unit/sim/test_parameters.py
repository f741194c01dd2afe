"""Parameters of a request that the simulated model refuses, as a provider does."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.sim._answer import BadParameterError, read_parameters


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 2.1, "Invalid 'temperature': 2.1 is outside its range; the maximum is 2."),
        ("temperature", -0.1, "the minimum is 0."),
        ("temperature", "hot", "Invalid type for 'temperature': expected a number."),
        ("temperature", True, "expected a number."),
        ("top_p", 1.1, "the maximum is 1."),
        ("presence_penalty", -2.1, "the minimum is -2."),
        ("frequency_penalty", 2.1, "the maximum is 2."),
        ("max_tokens", 0, "the minimum is 1."),
        ("max_completion_tokens", 0, "the minimum is 1."),
        ("n", 129, "the maximum is 128."),
        ("n", 1.5, "Invalid type for 'n': expected an integer."),
        ("top_logprobs", 21, "the maximum is 20."),
        ("stop", ["a", "b", "c", "d", "e"], "Invalid 'stop': expected at most 4 texts."),
        ("stop", [1], "expected at most 4 texts."),
        ("seed", 1.0, "Invalid type for 'seed': expected an integer."),
        ("seed", True, "expected an integer."),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(name: str, value: Any, message: str):
    with pytest.raises(BadParameterError) as error:
        read_parameters({name: value})
    assert message in str(error.value)
    assert error.value.parameter == name


def test_parameters_at_their_limits_are_taken():
    sampling = read_parameters(
        {"temperature": 2, "n": 128, "stop": ["a", "", "b", "c"], "seed": 7, "max_tokens": 1}
    )
    assert (sampling.temperature, sampling.n, sampling.seed) == (2.0, 128, 7)
    assert (sampling.stop, sampling.tokens_max) == (("a", "b", "c"), 1)
    assert read_parameters({"stop": "x"}).stop == ("x",)


def test_a_request_without_parameters_has_the_defaults_of_a_provider():
    sampling = read_parameters({})
    assert (sampling.temperature, sampling.n, sampling.seed, sampling.stop) == (1.0, 1, 0, ())
    assert sampling.tokens_max is None
    both = read_parameters({"max_tokens": 5, "max_completion_tokens": 3})
    assert both.tokens_max == 3
