"""The policy of a gate: steps, bounds and error rates, as values.

The defaults were chosen together with `benchmarks/gate.py`, so that unchanged prompts of simulated
suites are rejected in at most 5 % of runs. A larger error rate or p-value (`alpha`, `screen`,
`levels`, `trigger`) or a smaller e-value (`suspect`, `clear`, `serious`) finds smaller losses, and
raises false alarms or calls per case; more steps and pairs find them for more calls. The benchmark
prints all three, so run it before a default changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor, fsum, log

# A first round of about so many trials: more find smaller losses, and every gate pays for them.
_FIRST_ROUND = 100
FIRST_DRAWS_MOST = 24
"""The most trials of a case in a first round; beyond, calls grow faster than what they find."""
# A baseline of about so many trials, and the least and most of a case in it.
_BASELINE, _BASELINE_LEAST, _BASELINE_MOST = 200, 12, 48
# All an undecided test may spend, those of later runs that continue it included.
_ERROR_TOTAL = 0.05


def auto_first_draws(cases: int) -> int:
    """Trials of every case in the first round: about 100 in all.

    >>> [auto_first_draws(cases) for cases in (1, 8, 20, 40, 99, 140)]
    [24, 13, 5, 3, 1, 1]
    """
    return min(FIRST_DRAWS_MOST, max(1, floor(_FIRST_ROUND / max(cases, 1) + 0.5)))


def auto_baseline_trials(cases: int) -> int:
    """Trials of every case in a complete baseline: about 200 in all, and at least 12 of a case.

    >>> [auto_baseline_trials(cases) for cases in (1, 5, 8, 17, 140)]
    [48, 40, 25, 12, 12]
    """
    return min(_BASELINE_MOST, max(_BASELINE_LEAST, ceil(_BASELINE / max(cases, 1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePolicy:
    """When one case counts as broken.

    The first round makes suspects; each step draws more of them. Evidence is compared with the
    record of base, and what that names has to be confirmed by trials of both sides side by side.

    Attributes:
        alpha: The nominal error rate of naming cases, over all cells of a run; the real one is
            far smaller, because the e-value is loose.
        steps: Further trials of a suspect at each look.
        late: Further steps where only the evidence of today is too little.
        more: Trials beyond these, for a run that continues an undecided one.
        suspect: A failure in the first round makes a suspect from this e-value on.
        suspect_of_many: The same for a case with at least `many` trials in the first round.
        many: Trials of a case from which `suspect_of_many` applies.
        serious: From this e-value on the base is drawn next to the candidate.
        paired_from: From this look on base is drawn for every suspect; the first round is look 1.
        clear: Below this e-value a suspect is cleared.
        confirm: The e-value side by side that confirms a single named cell.
        drifted: From this ratio on the base's fresh trials follow the candidate's record.
        undecided: At the cap, from this e-value against the record on, a case may be undecided.
        undecided_today: The same for the e-value side by side.
        keep_on: From this e-value side by side on, the late steps are worth their calls.
        passes_ahead: So are they where base passes this number of trials more than the candidate.
        untold: Where the base follows the candidate's record and passes that many trials more at
            the cap, a candidate that passed none cannot be distinguished from it: the case is
            undecided.
        control_min: Fresh trials of the base without which a case is neither named nor drifted.
    """

    alpha: float = 0.05
    steps: tuple[int, ...] = (2, 3, 4, 6, 8)
    late: tuple[int, ...] = (8, 8)
    more: tuple[int, ...] = ()
    suspect: float = 0.25
    suspect_of_many: float = 1.0
    many: int = 3
    serious: float = 10.0
    paired_from: int = 3
    clear: float = 1.0
    confirm: float = 20.0
    drifted: float = 10.0
    undecided: float = 20.0
    undecided_today: float = 5.0
    keep_on: float = 2.0
    passes_ahead: int = 4
    untold: int = 2
    control_min: int = 3

    def __post_init__(self) -> None:
        _check_rate("alpha", self.alpha)
        if not self.steps or min((*self.steps, *self.late, *self.more)) < 1:
            raise ValueError("a case needs steps of at least one trial each")
        bounds = (self.serious, self.clear, self.confirm, self.drifted, self.undecided)
        if min(*bounds, self.suspect, self.suspect_of_many, self.keep_on) <= 0:
            raise ValueError("bounds of e-values must be above 0")
        if self.control_min < 0:
            raise ValueError(f"control_min must be 0 or more, not {self.control_min}")

    @property
    def all_steps(self) -> tuple[int, ...]:
        """The trials of every step there can be."""
        return (*self.steps, *self.late, *self.more)

    @property
    def cap(self) -> int:
        """The most further trials of a suspect, after the first round."""
        return sum(self.all_steps)

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
    """When a suite counts as worse: the base's record asks, trials side by side answer.

    Attributes:
        alpha: The error rate side by side, in equal parts for each look, divided by the number of
            changed prompts.
        screen: Up to these p-values against the record, round by round, both sides are drawn side
            by side.
        extend: Up to this p-value another round of the candidate is drawn.
        pairs: Trials of each side and case for each look side by side, in units of the first round.
        futile: Above these p-values the looks end early: nothing points to a loss. The last one
            also holds for looks of a run that continues.
        small: Below this number of cases half of the pairs are drawn.
        control: So many cases of the base are drawn once in the first round.
        control_p: Up to this p-value the base counts as below its record there.
        more: Pairs of every case for each further look of a run that continues.
    """

    alpha: float = 0.036
    screen: tuple[float, ...] = (0.010, 0.006, 0.004)
    extend: float = 0.06
    pairs: tuple[int, ...] = (2, 3, 5)
    futile: tuple[float, ...] = (0.30, 0.25)
    small: int = 30
    control: int = 8
    control_p: float = 0.05
    more: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("alpha", "extend", "control_p"):
            _check_rate(name, getattr(self, name))
        if not self.screen or not self.pairs or not self.futile:
            raise ValueError("a suite needs rounds, looks and bounds for each of them")
        for level in (*self.screen, *self.futile):
            _check_rate("a level of screen and futile", level)
        if min((*self.pairs, *self.more)) < 1 or min(self.small, self.control) < 0:
            raise ValueError("pairs must be at least 1, small and control at least 0")

    @property
    def rounds(self) -> int:
        """The most rounds of the candidate against the record."""
        return len(self.screen)

    @property
    def levels(self) -> tuple[float, ...]:
        """The p-value that blocks at each look side by side."""
        return _levels((self.alpha / len(self.pairs),) * len(self.pairs), self.more)

    def pairs_of_look(self, number: int, *, cases: int, first_draws: int) -> int:
        """Trials of each side and case for a look, counted from 0."""
        return _pairs(self.pairs, self.more, number, cases, first_draws, small=self.small)

    def extra_round(self, first_draws: int) -> int:
        """Trials of the candidate for each case in every further round."""
        return max(1, first_draws // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetPolicy:
    """The weighing of broken against fixed cases: all cases, both sides side by side.

    Attributes:
        pairs: As in `SuitePolicy`.
        levels: Up to these p-values, look by look, the suite is worse; divided by the number of
            changed prompts.
        better: Up to this p-value it is better.
        trigger: Up to this p-value the other cases are better, which asks for the weighing although
            no single case counts as fixed.
        small: As in `SuitePolicy`.
        more: As in `SuitePolicy`.
    """

    pairs: tuple[int, ...] = (2, 3, 3)
    levels: tuple[float, ...] = (0.015, 0.012, 0.012)
    better: float = 0.05
    trigger: float = 0.01
    small: int = 30
    more: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for level in (*self.levels, self.better, self.trigger):
            _check_rate("a level of net", level)
        if len(self.pairs) != len(self.levels) or min((*self.pairs, *self.more)) < 1:
            raise ValueError("net needs pairs and a level for each look")

    @property
    def all_levels(self) -> tuple[float, ...]:
        """The p-value that rejects at each look."""
        return _levels(self.levels, self.more)

    def pairs_of_look(self, number: int, *, cases: int, first_draws: int) -> int:
        """Trials of each side and case for a look, counted from 0."""
        return _pairs(self.pairs, self.more, number, cases, first_draws, small=self.small)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPolicy:
    """When a case that must not fail blocks, whatever the base does.

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
        """The number of trials needed after `failures` among the first."""
        return self.first if self.strict or not failures else self.first + self.more

    def blocks(self, failures: int) -> bool:
        """Return whether this number of failures blocks."""
        return failures >= (1 if self.strict else self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPolicy:
    """When a version counts as worse than an old one, whose counts are kept.

    Attributes:
        trials: Trials of each case that are kept of the old version.
        small: Below this number of cases twice the trials of a baseline are kept.
        trigger: Up to this p-value against the kept counts the old version is drawn again.
        confirm: Up to this p-value between both versions of today the loss is confirmed.
    """

    trials: int = 24
    small: int = 17
    trigger: float = 0.0005
    confirm: float = 0.01

    def trials_of(self, cases: int, *, baseline_trials: int) -> int:
        """Trials of each case that are kept.

        >>> AnchorPolicy().trials_of(140, baseline_trials=12)
        24
        >>> AnchorPolicy().trials_of(8, baseline_trials=25)
        50
        """
        return 2 * baseline_trials if cases < self.small else self.trials


def _pairs(
    units: tuple[int, ...],
    more: tuple[int, ...],
    number: int,
    cases: int,
    first_draws: int,
    *,
    small: int,
) -> int:
    if number >= len(units):
        return more[number - len(units)]
    return max(1, round(units[number] * first_draws * (1 if cases >= small else 0.5)))


def _levels(levels: tuple[float, ...], more: tuple[int, ...]) -> tuple[float, ...]:
    """The levels, and half of what is left of 5 % for each look of runs that continue."""
    left = max(0.0, _ERROR_TOTAL - fsum(levels))
    halves = accumulate(more, lambda level, _: level / 2, initial=left)
    return (*levels, *list(halves)[1:])


def _check_rate(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value!r}")
