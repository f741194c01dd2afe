"""What the gate is told to hold itself to: looks, bounds and error rates, as values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePolicy:
    """When one case counts as broken by the candidate.

    Attributes:
        alpha: The nominal error rate of naming cases, over all cells of a run; the real one is
            far smaller, because the e-value is loose.
        looks: After how many trials of the candidate evidence is looked at, rising; the last is
            the cap.
        serious: From this e-value on every further look draws main as often as the candidate.
        clear: Below this e-value the case is cleared, from the second look on.
        drifted: From this ratio on main's fresh trials are said to follow the candidate's record.
        inconclusive: At the cap, from this e-value on, the case is inconclusive and not flaky.
        control_min: Fresh trials of main without which nothing is named or called drifted.
    """

    alpha: float = 0.05
    looks: tuple[int, ...] = (1, 3, 6, 10, 16, 24)
    serious: float = 10.0
    clear: float = 1.0
    drifted: float = 10.0
    inconclusive: float = 20.0
    control_min: int = 3

    def __post_init__(self) -> None:
        _check_rate("alpha", self.alpha)
        rising = all(first < second for first, second in pairwise(self.looks))
        if not self.looks or self.looks[0] < 1 or not rising:
            raise ValueError(f"looks must rise from at least 1, not {self.looks}")
        if min(self.serious, self.clear, self.drifted, self.inconclusive) <= 0:
            raise ValueError("bounds of e-values must be above 0")
        if self.control_min < 0:
            raise ValueError(f"control_min must be 0 or more, not {self.control_min}")

    @property
    def cap(self) -> int:
        """The most trials of the candidate for one case."""
        return self.looks[-1]

    def next_look(self, trials: int) -> int | None:
        """How many trials the next look needs after `trials`; None at the cap.

        >>> CasePolicy().next_look(3), CasePolicy().next_look(24)
        (6, None)
        """
        return next((look for look in self.looks if look > trials), None)

    def log_bound(self, cells: int, *, named: int = 1) -> float:
        """The natural logarithm of n/(K alpha): what names a case when K cases are named.

        Raises:
            ValueError: If `named` is not 1 to `cells`.
        """
        if not 1 <= named <= cells:
            raise ValueError(f"named must be 1 to cells, not {named} of {cells}")
        return log(cells / (named * self.alpha))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePolicy:
    """When a suite counts as worse although no single case does.

    Attributes:
        alpha: The error rate, divided by the number of changed prompts.
        spend: The share of `alpha` for each round of one more trial of every case; sums to at
            most 1.
        extend: The next round is drawn only up to this p-value.
        control: Main's control round is below its history up to this p-value, and the candidate
            is below today's main up to it too.
    """

    alpha: float = 0.01
    spend: tuple[float, ...] = (0.5, 0.25, 0.25)
    extend: float = 0.10
    control: float = 0.05

    def __post_init__(self) -> None:
        for name in ("alpha", "extend", "control"):
            _check_rate(name, getattr(self, name))
        if not self.spend or min(self.spend) <= 0 or fsum(self.spend) > 1:
            raise ValueError(f"spend must be shares above 0 that sum to at most 1: {self.spend}")

    @property
    def rounds(self) -> int:
        """The most rounds there are."""
        return len(self.spend)

    def bound(self, round_number: int, *, prompts: int = 1) -> float:
        """The greatest p-value that blocks in a round, counted from 1.

        >>> SuitePolicy().bound(1), SuitePolicy().bound(2, prompts=5)
        (0.005, 0.0005)

        Raises:
            ValueError: If there is no such round, or no prompt.
        """
        if not 1 <= round_number <= self.rounds or prompts < 1:
            raise ValueError(f"no round {round_number} of {self.rounds} for {prompts} prompts")
        return self.alpha / prompts * self.spend[round_number - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPolicy:
    """When a case that must not fail blocks, whatever main does.

    Attributes:
        first: Trials of every critical case.
        more: Further trials after any failure among the first.
        failures: So many failures among all of them block.
        strict: One failure blocks.
    """

    first: int = 3
    more: int = 5
    failures: int = 2
    strict: bool = False

    def __post_init__(self) -> None:
        if self.first < 1 or self.more < 0 or not 1 <= self.failures <= self.first + self.more:
            raise ValueError("a critical case needs trials, and no more failures than trials")

    def trials_wanted(self, failures: int) -> int:
        """How many trials are needed after `failures` among the first."""
        return self.first if self.strict or not failures else self.first + self.more

    def blocks(self, failures: int) -> bool:
        """Whether so many failures block."""
        return failures >= (1 if self.strict else self.failures)


def _check_rate(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value!r}")
