"""The numbers that the simulated model lives by, published in docs/simulated-model.md."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Final

from regauge.errors import UsageError

_JITTER_COLD: Final = 0.02
_TOKENS_FREE: Final = 1_000
_TOKENS_DOUBLE: Final = 4_000
_P_MAX: Final = 0.95
_DRIFT_LABEL: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One behaviour of the simulated model. Another value is another model.

    Attributes:
        model: The name that completions report.
        version: Part of the fingerprint; changes whenever the same request may answer otherwise.
        seed: What every throw of the dice begins with; another seed draws other answers.
        floor: The probability of one kind of failure when the instruction is as clear as can be.
        steepness: How fast that grows as clarity falls from 1 to 0.
        near_label: The probability of the wrong label where two labels fit equally well.
        near_width: The margin between two labels at which that has fallen to 1/e.
        drift: How far the model has moved since, from 0 to 1: what happens at a provider who
            changes a model under its name. The same request may then be answered otherwise.
        drift_shown: Whether the fingerprint tells of the drift. Silent providers are the harder
            case, so it does not by itself.
    """

    model: str = "clerk-1"
    version: str = "1"
    seed: str = "1"
    floor: float = 0.005
    steepness: float = 6.4
    near_label: float = 0.3
    near_width: float = 0.03
    drift: float = 0.0
    drift_shown: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.drift <= 1:
            raise UsageError(f"drift is a number from 0 to 1, not {self.drift:g}")

    @property
    def fingerprint(self) -> str:
        """The value of `system_fingerprint`, which marks the model as simulated."""
        drift_text = f"-drift-{self.drift:g}" if self.drift and self.drift_shown else ""
        return f"simulated-{self.model}-{self.version}{drift_text}"


CLERK_1: Final = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dice:
    """Chance, as a function of the document, the draw and what may go wrong: nothing else.

    The wording of the prompt moves the probability, never the throw, so a harmless rewording
    changes few answers.

    Attributes:
        document: What identifies the document.
        draw: Which draw this is.
        temperature: From 0 to 2.
        tokens: The length of the instructions.
    """

    rules: Rules
    document: str
    draw: int
    temperature: float
    tokens: int

    def seeded(self, text: str, *, tokens: int = 0) -> Dice:
        """The dice of a request whose chance this text decides."""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12)
        return replace(self, document=digest.hexdigest(), tokens=tokens)

    def _hash(self, *parts: str) -> float:
        text = "\x1f".join((self.rules.seed, self.document, *parts))
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=7).digest()
        return int.from_bytes(digest) / 2**56

    def throw(self, kind: str) -> float:
        """A number from 0 to 1. Cold draws nearly always repeat, hot ones never."""
        jitter = _JITTER_COLD + (1 - _JITTER_COLD) * min(self.temperature, 1.0)
        draw = str(self.draw)
        if self._hash(kind, draw, "redraw") < jitter:
            return self._hash(kind, draw)
        return self._hash(kind)

    def probability(self, clarity: float) -> float:
        """The probability of one kind of failure at this clarity of an instruction, 0 to 1."""
        clarity = min(max(clarity, 0.0), 1.0) * (1 - self.rules.drift)
        p = self.rules.floor * math.exp(self.rules.steepness * (1 - clarity))
        p *= 1 + self.temperature
        p *= 1 + max(0, self.tokens - _TOKENS_FREE) / _TOKENS_DOUBLE
        return min(p, _P_MAX)

    def fails(self, kind: str, clarity: float) -> bool:
        """Return whether this kind of failure happens now."""
        return self.throw(kind) < self.probability(clarity)

    def picks_second(self, margin: float) -> bool:
        """Return whether the second-best label is taken instead of the best."""
        rules = self.rules
        p = rules.near_label * math.exp(-margin / rules.near_width) + rules.floor
        p = p * (1 + self.temperature) + _DRIFT_LABEL * rules.drift
        return self.throw("label") < min(p, _P_MAX)

    def pick(self, kind: str, count: int) -> int:
        """An index below `count`."""
        return min(int(self.throw("pick " + kind) * count), count - 1)
