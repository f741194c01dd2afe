"""Parameters of a request that the simulated model refuses, as a provider does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regauge.errors import ProviderError
from regauge.prompts import Attachment, Message
from regauge.providers import CompletionRequest
from regauge.sim._answer import BadParameterError, SimulatedProvider, read_parameters


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


IMAGE = Attachment(kind="image", path="shots/a.png", sha256="a" * 64)
UNREAD = "has an attachment, which the simulated model does not read\n  fix: use a model that does"


@pytest.mark.parametrize(
    ("changes", "message", "status"),
    [
        (
            {"model": "clerk-9"},
            "there is no simulated model 'clerk-9'\n  fix: write sim:clerk-1",
            404,
        ),
        (
            {"model": "clerk-9", "origin": "prompts/a.prompt.yml"},
            "there is no simulated model 'clerk-9' (prompts/a.prompt.yml)\n",
            404,
        ),
        ({"attachments": (IMAGE,)}, f"the prompt {UNREAD}", None),
        (
            {"attachments": (IMAGE,), "origin": "prompts/a.prompt.yml"},
            f"prompts/a.prompt.yml {UNREAD}",
            None,
        ),
        (
            {"parameters": {"n": 0}},
            "the simulated model does not take the parameters: Invalid 'n': 0 is outside",
            400,
        ),
    ],
)
def test_a_request_that_the_model_cannot_take_is_refused_with_its_place(
    changes: dict[str, Any], message: str, status: int | None
):
    fields: dict[str, Any] = {"provider": "sim", "model": "clerk-1", "parameters": {}, **changes}
    attachments = fields.pop("attachments", ())
    messages = (Message(role="user", content="What is it? a.png", attachments=attachments),)
    request = CompletionRequest(messages=messages, **fields)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(SimulatedProvider().complete(request))
    assert str(caught.value).startswith(message)
    assert (caught.value.kind, caught.value.status) == ("bad-request", status)
