"""The numbers of the simulated model's rules, published in docs/simulated-model.md."""

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
        model: The name in completions.
        version: Part of the fingerprint; changes if any request may have another completion.
        seed: The seed of all random numbers; another seed has other completions.
        floor: The probability of one kind of failure for the clearest instruction.
        steepness: Its growth as clarity falls from 1 to 0.
        near_label: The probability of the wrong label if two labels fit equally well.
        near_width: The margin between two labels at which it has fallen to 1/e.
        drift: The change of the model since, from 0 to 1, as if its provider changed it without a
            new name. The same request may then have another completion.
        drift_shown: Whether the fingerprint shows the drift. Off by default, since a silent change
            is the harder case.
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
    """Random numbers, as a function of the document, the trial and the kind of failure only.

    The wording of the prompt changes the probability, never the number. So a harmless rewording
    changes few outputs.

    Attributes:
        document: A digest of the document.
        number: The trial number plus the seed.
        temperature: From 0 to 2.
        tokens: The length of the instructions.
    """

    rules: Rules
    document: str = ""
    number: int
    temperature: float
    tokens: int = 0

    def with_seed(self, text: str, *, tokens: int = 0) -> Dice:
        """Return the dice of a request, seeded by this text."""
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12)
        return replace(self, document=digest.hexdigest(), tokens=tokens)

    def _hash(self, *parts: str) -> float:
        text = "\x1f".join((self.rules.seed, self.document, *parts))
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=7).digest()
        return int.from_bytes(digest) / 2**56

    def throw(self, kind: str) -> float:
        """Return a number from 0 to 1. Cold trials nearly always repeat it, hot ones never."""
        jitter = _JITTER_COLD + (1 - _JITTER_COLD) * min(self.temperature, 1.0)
        number = str(self.number)
        is_drawn = self._hash(kind, number, "redraw") < jitter
        return self._hash(kind, number) if is_drawn else self._hash(kind)

    def probability(self, clarity: float) -> float:
        """Return the probability of one kind of failure, by the clarity from 0 to 1."""
        clarity = min(max(clarity, 0.0), 1.0) * (1 - self.rules.drift)
        p = self.rules.floor * math.exp(self.rules.steepness * (1 - clarity))
        p *= 1 + self.temperature
        p *= 1 + max(0, self.tokens - _TOKENS_FREE) / _TOKENS_DOUBLE
        return min(p, _P_MAX)

    def happens(self, kind: str, probability: float) -> bool:
        """Return whether something of this probability happens now."""
        return self.throw(kind) < probability

    def fails(self, kind: str, clarity: float) -> bool:
        """Return whether this kind of failure happens now."""
        return self.happens(kind, self.probability(clarity))

    def picks_second(self, margin: float) -> bool:
        """Return whether the second-best label is chosen instead of the best."""
        rules = self.rules
        p = rules.near_label * math.exp(-margin / rules.near_width) + rules.floor
        p = p * (1 + self.temperature) + _DRIFT_LABEL * rules.drift
        return self.happens("label", min(p, _P_MAX))

    def pick(self, kind: str, count: int) -> int:
        """Return an index below `count`."""
        return min(int(self.throw("pick " + kind) * count), count - 1)
