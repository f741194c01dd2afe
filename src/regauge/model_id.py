"""Model ids, `provider:model`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from regauge.errors import UsageError

SIMULATED: Final = "sim"
"""The provider of the simulated model."""

_MODEL_ID: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)[:/](\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelId:
    """A model and its provider, written `provider:model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def is_simulated(model: str) -> bool:
    """Return whether `provider:model` is a simulated model."""
    return model.partition(":")[0] == SIMULATED


def parse_model_id(text: str, *, location: str = "") -> ModelId:
    """Parse `provider:model`, or `provider/model` as in other tools.

    Args:
        text: The id. The first `:` or `/` ends the provider; a model may hold both.
        location: The option or file, for the message.

    Raises:
        UsageError: The provider or the model is missing.

    >>> str(parse_model_id("openai/gpt-5.4-mini"))
    'openai:gpt-5.4-mini'
    >>> parse_model_id("local:llama3:8b").model
    'llama3:8b'
    """
    match = _MODEL_ID.fullmatch(text.strip())
    if match is None:
        place = f"{location}: " if location else ""
        if re.search(r"\S\s+\S", text):
            fix = f"write {''.join(text.split())!r}, or the name that the provider lists"
            raise UsageError(f"{place}the model {text!r} has a space", fix=fix)
        name = text.strip(" :/") or "MODEL"
        if text.strip() == f"{name}:":
            raise UsageError(f"{place}{text!r} names no model", fix=f"write {name}:MODEL")
        raise UsageError(
            f"{place}{text!r} names no provider\n"
            f"  fix: write provider:model, such as openai:{name} or sim:clerk-1; a provider of your"
            " own is a table [tool.regauge.providers.<name>] in pyproject.toml"
        )
    return ModelId(provider=match[1], model=match[2])
