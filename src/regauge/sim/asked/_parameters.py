"""The parameters that the simulated model takes, with the ranges of the real interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON

__all__ = ["BadParameterError", "Sampling", "read_parameters"]

_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
}
_COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    "max_tokens": (1, 1_000_000),
    "max_completion_tokens": (1, 1_000_000),
    "n": (1, 128),
    "top_logprobs": (0, 20),
}
_STOPS_MAX: Final = 4


class BadParameterError(ValueError):
    """A parameter outside its range; `parameter` names it."""

    def __init__(self, message: str, *, parameter: str) -> None:
        self.parameter = parameter
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What the parameters of a request mean here.

    Attributes:
        temperature: From 0 to 2; 1 when the request does not say.
        tokens_max: The longest answer in tokens, or None.
        seed: Added to the trial number.
    """

    temperature: float
    tokens_max: int | None
    stop: tuple[str, ...]
    seed: int
    n: int


def _number(name: str, value: JSON, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadParameterError(f"Invalid type for '{name}': expected a number.", parameter=name)
    if not least <= value <= most:
        side = "minimum" if value < least else "maximum"
        raise BadParameterError(
            f"Invalid '{name}': {value} is outside its range; the {side} is "
            f"{least if value < least else most}.",
            parameter=name,
        )
    return float(value)


def read_parameters(parameters: Mapping[str, JSON]) -> Sampling:
    """Check and read the parameters; those without an effect here are only checked.

    Raises:
        BadParameterError: One is of the wrong type or outside its range.
    """
    numbers: dict[str, float] = {}
    for name, (least, most) in (*_RANGES.items(), *_COUNTS.items()):
        value = parameters.get(name)
        if value is None:
            continue
        numbers[name] = _number(name, value, least, most)
        if name in _COUNTS and not numbers[name].is_integer():
            raise BadParameterError(
                f"Invalid type for '{name}': expected an integer.", parameter=name
            )
    stop = parameters.get("stop")
    stops = [stop] if isinstance(stop, str) else list(cast("Sequence[JSON]", stop or ()))
    if len(stops) > _STOPS_MAX or not all(isinstance(text, str) for text in stops):
        raise BadParameterError(
            f"Invalid 'stop': expected at most {_STOPS_MAX} texts.", parameter="stop"
        )
    seed = parameters.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadParameterError("Invalid type for 'seed': expected an integer.", parameter="seed")
    limit = numbers.get("max_completion_tokens", numbers.get("max_tokens"))
    return Sampling(
        temperature=numbers.get("temperature", 1.0),
        tokens_max=int(limit) if limit is not None else None,
        stop=tuple(str(text) for text in stops if text),
        seed=seed if isinstance(seed, int) else 0,
        n=int(numbers.get("n", 1)),
    )
