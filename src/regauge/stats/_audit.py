"""Whether recorded trials pass more often than fresh ones, as after a selective re-recording."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final

__all__ = ["AUDIT_STEPS", "FULL_AUDIT", "AuditStep", "audit_p_value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    """One step of an audit.

    Attributes:
        passed: The share of recorded passes that is repeated, with those of the steps before.
        failed: The same of recorded failures.
        level: Up to this p-value the recordings are better than fresh trials.
        further: Up to this p-value the next step follows.
    """

    passed: Fraction
    failed: Fraction
    level: float
    further: float = 0.0

    def shares(self, recorded: int, *, least: int = 20) -> tuple[Fraction, Fraction]:
        """The shares for so many recorded trials, of which at least `least` are repeated.

        >>> AUDIT_STEPS[0].shares(40)
        (Fraction(1, 2), Fraction(3, 5))
        """
        passed = max(self.passed, min(Fraction(1), Fraction(least, max(recorded, 1))))
        return passed, max(self.failed, passed)


FULL_AUDIT: Final = (AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.01),)
"""Every recorded trial is compared: fresh ones are there."""

AUDIT_STEPS: Final = (
    AuditStep(passed=Fraction(1, 10), failed=Fraction(3, 5), level=0.003, further=0.20),
    AuditStep(passed=Fraction(2, 5), failed=Fraction(1), level=0.003, further=0.20),
    AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.004),
)
"""Few recorded trials are repeated, and more where these leave a doubt. The levels sum to 1 %."""


def audit_p_value(
    better: int,
    worse: int,
    *,
    passed: Fraction = Fraction(1),
    failed: Fraction = Fraction(1),
) -> float:
    """The exact one-sided p-value that recorded trials pass more often than fresh ones.

    A recorded trial and a fresh one of the same request are exchangeable if nobody selected.
    Among the pairs that differ, each is then as likely to have passed first as second; repeating
    passes and failures in different shares shifts the odds by their ratio.

    >>> audit_p_value(8, 0), audit_p_value(0, 3)
    (0.00390625, 1.0)
    >>> round(audit_p_value(4, 1, passed=Fraction(1, 10), failed=Fraction(3, 5)), 5)
    0.00184

    Args:
        better: Pairs whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        passed: The share of recorded passes that was repeated.
        failed: The share of recorded failures that was repeated.
    """
    trials = better + worse
    rate = passed / (passed + failed)
    tail = sum(
        comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(better, trials + 1)
    )
    return float(tail) if better else 1.0
