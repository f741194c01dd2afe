"""`provider:model`: a model, and who serves it."""

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
    """A model and who serves it, written `provider:model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def is_simulated(model: str) -> bool:
    """Return whether `provider:model` is a simulated model."""
    return model.partition(":")[0] == SIMULATED


def parse_model_id(text: str, *, at: str = "") -> ModelId:
    """Read `provider:model`; `provider/model`, as other tools write it, means the same.

    Args:
        text: What was written. The first `:` or `/` ends the provider, so models may hold both.
        at: Where it was written, for the message.

    Raises:
        UsageError: There is no provider in front, or no model behind it.

    >>> str(parse_model_id("openai/gpt-5.4-mini"))
    'openai:gpt-5.4-mini'
    >>> parse_model_id("local:llama3:8b").model
    'llama3:8b'
    """
    match = _MODEL_ID.fullmatch(text.strip())
    if match is None:
        place = f"{at}: " if at else ""
        if re.search(r"\S\s+\S", text):
            fix = f"write {''.join(text.split())!r}, or the name that the provider lists"
            raise UsageError(f"{place}the model {text!r} has a space", fix=fix)
        name = text.strip(" :/") or "MODEL"
        raise UsageError(
            f"{place}{text!r} does not say who serves the model\n"
            f"  fix: write provider:model, such as openai:{name} or sim:clerk-1; a provider of your"
            " own is a table [tool.regauge.providers.<name>] in pyproject.toml"
        )
    return ModelId(provider=match[1], model=match[2])
