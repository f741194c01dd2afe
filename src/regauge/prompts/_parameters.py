"""`modelParameters`: one name per parameter, whichever way a file spells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.prompts._yaml import line_of
from regauge.wording import did_you_mean, snake_case

if TYPE_CHECKING:
    import yaml

    from regauge.digests import JSON
    from regauge.prompts._reader import Reader

__all__ = ["read_parameters"]

_NUMBERS = {"temperature", "top_p", "frequency_penalty", "presence_penalty", "min_p"}
_INTEGERS = {"max_tokens", "seed", "top_k", "top_logprobs"}
_TEXTS = {"reasoning_effort", "verbosity", "service_tier"}
_OTHERS = {"stop", "logprobs", "logit_bias"}
_KNOWN = _NUMBERS | _INTEGERS | _TEXTS | _OTHERS
_ALIASES = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens"}
# How many answers there are and how they arrive is decided by a run, not by a prompt.
_NOT_OURS = {"n": "draw several answers with `--trials`", "stream": "remove it"}


def read_parameters(
    reader: Reader, node: yaml.Node, lines: dict[str, int]
) -> dict[str, JSON] | None:
    """The parameters under their snake_case names; None when the node is no mapping.

    A parameter that is not known keeps its spelling and is warned about.
    """
    entries = reader.mapping(node, "modelParameters", "write `temperature: 0` and such below it")
    if entries is None:
        return None
    parameters: dict[str, JSON] = {}
    spelled: dict[str, str] = {}
    for written, (key, value_node) in entries.items():
        name = snake_case(written)
        name = _ALIASES.get(name, name)
        value = reader.json(value_node, f"modelParameters.{written}")
        if name in _NOT_OURS:
            reader.warn(line_of(key), f"modelParameters.{written} is ignored", _NOT_OURS[name])
            continue
        if name not in _KNOWN:
            fix = did_you_mean(written, _KNOWN) or "check the provider's spelling"
            what = f"modelParameters.{written} is not a known parameter; it is sent as is"
            reader.warn(line_of(key), what, fix)
            name = written
        elif value is None:
            continue
        elif (problem := _problem(name, value)) is not None:
            reader.fault(value_node, f"modelParameters.{written} must be {problem}")
            continue
        if name in parameters and parameters[name] != value:
            both = f"{spelled[name]} and {written} say the same thing with different values"
            reader.fault(key, f"modelParameters: {both}", "keep one of them")
            continue
        parameters[name] = value
        spelled[name] = written
        lines[f"modelParameters.{name}"] = line_of(key)
    return parameters


def _problem(name: str, value: JSON) -> str | None:
    """What a value of a known parameter must be, or None where it is that."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _NUMBERS and not is_number:
        return "a number"
    if name in _INTEGERS:
        if not isinstance(value, int) or isinstance(value, bool):
            return "a whole number"
        if name == "max_tokens" and value < 1:
            return "at least 1"
    if name in _TEXTS and not isinstance(value, str):
        return "a text"
    if name == "stop":
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return "a text or a list of texts"
    return None
