"""The policy of a gate: steps, bounds and error rates, as values.

The defaults were chosen together with `benchmarks/gate.py`, so that unchanged prompts of simulated
suites are rejected in at most 5 % of runs. These find smaller losses, for more false alarms or more
calls: a larger error rate or p-value (`alpha`, `screen`, `levels`, `trigger`), a smaller e-value
(`suspect`, `clear`, `serious`), more steps or pairs. The benchmark prints detection, false alarms
and calls, so run it before a default changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor, fsum, log

# The approximate size of a first round: more trials find smaller losses, and every gate pays.
_FIRST_ROUND = 100
FIRST_TRIALS_MAX = 24
"""The maximum trials of a case in a first round; with more, calls grow faster than detection."""
# The approximate size of a baseline, and its minimum and maximum trials of a case.
_BASELINE, _BASELINE_LEAST, _BASELINE_MOST = 200, 12, 48
# The total error rate of an undecided test, with later runs that continue it.
_ERROR_TOTAL = 0.05


def auto_first_trials(cases: int) -> int:
    """Trials per case in the first round: about 100 in all.

    >>> [auto_first_trials(cases) for cases in (1, 8, 20, 40, 99, 140)]
    [24, 13, 5, 3, 1, 1]
    """
    return min(FIRST_TRIALS_MAX, max(1, floor(_FIRST_ROUND / max(cases, 1) + 0.5)))


def auto_baseline_trials(cases: int) -> int:
    """Trials per case in a complete baseline: about 200 in all, and at least 12 per case.

    >>> [auto_baseline_trials(cases) for cases in (1, 5, 8, 17, 140)]
    [48, 40, 25, 12, 12]
    """
    return min(_BASELINE_MOST, max(_BASELINE_LEAST, ceil(_BASELINE / max(cases, 1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePolicy:
    """The rules by which one case counts as broken.

    The first round finds suspects, and each step re-runs them. Evidence is compared with the
    baseline; broken cases have to be confirmed by trials of both sides side by side.

    Attributes:
        alpha: The nominal error rate over all checks of a run; the real rate is far smaller,
            because the e-value is loose.
        steps: Further trials of a suspect at each look.
        late_steps: Further steps if only the side-by-side evidence is insufficient.
        extra_steps: Steps beyond these, for a run that continues an undecided one.
        suspect: The minimum e-value of a case that failed in the first round to be a suspect.
        suspect_of_many: The same for a case with at least `many_trials` trials in the first round.
        many_trials: Trials of a case from which `suspect_of_many` applies.
        serious: The minimum e-value at which the base is run next to the candidate.
        paired_from: The look from which base is run for every suspect; the first round is look 1.
        clear: Below this e-value a suspect is cleared.
        confirm: The side-by-side e-value that confirms a single broken check.
        drifted: The minimum likelihood ratio at which the base counts as drifted.
        undecided: The minimum e-value against the baseline of a case that is undecided at the cap.
        undecided_today: The same for the side-by-side e-value.
        late_from: The minimum side-by-side e-value that allows the late steps.
        base_lead: The lead of the base, in passed trials, that also allows the late steps.
        indistinct_lead: A case is undecided if the candidate passed no trial and the base drifted,
            yet leads by this number of passed trials at the cap.
        control_min: Fresh base trials without which a case is neither broken nor drifted.
    """

    alpha: float = 0.05
    steps: tuple[int, ...] = (2, 3, 4, 6, 8)
    late_steps: tuple[int, ...] = (8, 8)
    extra_steps: tuple[int, ...] = ()
    suspect: float = 0.25
    suspect_of_many: float = 1.0
    many_trials: int = 3
    serious: float = 10.0
    paired_from: int = 3
    clear: float = 1.0
    confirm: float = 20.0
    drifted: float = 10.0
    undecided: float = 20.0
    undecided_today: float = 5.0
    late_from: float = 2.0
    base_lead: int = 4
    indistinct_lead: int = 2
    control_min: int = 3

    def __post_init__(self) -> None:
        _check_rate("alpha", self.alpha)
        if not self.steps or min((*self.steps, *self.late_steps, *self.extra_steps)) < 1:
            raise ValueError("a case needs steps of at least one trial each")
        bounds = (self.serious, self.clear, self.confirm, self.drifted, self.undecided)
        if min(*bounds, self.suspect, self.suspect_of_many, self.late_from) <= 0:
            raise ValueError("bounds of e-values must be above 0")
        if self.control_min < 0:
            raise ValueError(f"control_min must be 0 or more, not {self.control_min}")

    @property
    def all_steps(self) -> tuple[int, ...]:
        """The trials of all steps, in order."""
        return (*self.steps, *self.late_steps, *self.extra_steps)

    @property
    def cap(self) -> int:
        """The maximum trials of a suspect after the first round."""
        return sum(self.all_steps)

    def log_bound(self, checks: int, *, broken: int = 1) -> float:
        """The natural logarithm of n/(K alpha): the bound of each of K broken cases.

        Raises:
            ValueError: If `broken` is not 1 to `checks`.
        """
        if not 1 <= broken <= checks:
            raise ValueError(f"broken must be 1 to checks, not {broken} of {checks}")
        return log(checks / (broken * self.alpha))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePolicy:
    """The rules by which a suite counts as worse: screened by baseline, confirmed side by side.

    Attributes:
        alpha: The error rate side by side, in equal parts for each look, divided by the number of
            changed prompts.
        screen: The maximum p-values against the baseline, by round, that start side-by-side trials.
        extend: The maximum p-value that starts another round of the candidate.
        pairs: Trials per side and case for each side-by-side look, in units of the first round.
        futile: Above these p-values the looks end early. The last one also applies to looks of a
            run that continues.
        small: Below this number of cases the pairs are halved.
        control: The number of base cases that are run once in the first round.
        control_p: The maximum p-value at which the base counts as below its baseline there.
        extra_pairs: Pairs of every case for each further look of a run that continues.
    """

    alpha: float = 0.036
    screen: tuple[float, ...] = (0.010, 0.006, 0.004)
    extend: float = 0.06
    pairs: tuple[int, ...] = (2, 3, 5)
    futile: tuple[float, ...] = (0.30, 0.25)
    small: int = 30
    control: int = 8
    control_p: float = 0.05
    extra_pairs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("alpha", "extend", "control_p"):
            _check_rate(name, getattr(self, name))
        if not self.screen or not self.pairs or not self.futile:
            raise ValueError("a suite needs rounds, looks and bounds for each of them")
        for level in (*self.screen, *self.futile):
            _check_rate("a level of screen and futile", level)
        if min((*self.pairs, *self.extra_pairs)) < 1 or min(self.small, self.control) < 0:
            raise ValueError("pairs must be at least 1, small and control at least 0")

    @property
    def rounds(self) -> int:
        """The maximum rounds of the candidate against the baseline."""
        return len(self.screen)

    @property
    def levels(self) -> tuple[float, ...]:
        """The blocking p-value at each side-by-side look."""
        return _levels((self.alpha / len(self.pairs),) * len(self.pairs), self.extra_pairs)

    def pairs_of_look(self, number: int, *, cases: int, first_trials: int) -> int:
        """Trials of each side and case for a look, counted from 0."""
        return _pairs(self.pairs, self.extra_pairs, number, cases, first_trials, small=self.small)

    def extra_round(self, first_trials: int) -> int:
        """Trials of the candidate per case in every further round."""
        return max(1, first_trials // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetPolicy:
    """The rules of the net test: broken against fixed cases, with all cases side by side.

    Attributes:
        pairs: As in `SuitePolicy`.
        levels: The maximum p-values, by look, at which the suite is worse; divided by the number
            of changed prompts.
        better: The maximum p-value at which it is better.
        trigger: The maximum p-value for better remaining cases that starts the net test although
            no single case counts as fixed.
        small: As in `SuitePolicy`.
        extra_pairs: As in `SuitePolicy`.
    """

    pairs: tuple[int, ...] = (2, 3, 3)
    levels: tuple[float, ...] = (0.015, 0.012, 0.012)
    better: float = 0.05
    trigger: float = 0.01
    small: int = 30
    extra_pairs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for level in (*self.levels, self.better, self.trigger):
            _check_rate("a level of net", level)
        if len(self.pairs) != len(self.levels) or min((*self.pairs, *self.extra_pairs)) < 1:
            raise ValueError("net needs pairs and a level for each look")

    @property
    def all_levels(self) -> tuple[float, ...]:
        """The rejecting p-value at each look."""
        return _levels(self.levels, self.extra_pairs)

    def pairs_of_look(self, number: int, *, cases: int, first_trials: int) -> int:
        """Trials of each side and case for a look, counted from 0."""
        return _pairs(self.pairs, self.extra_pairs, number, cases, first_trials, small=self.small)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPolicy:
    """The rules by which a critical case blocks, independent of the base.

    Attributes:
        first: Trials of every critical case.
        extra: Further trials after any failure among the first.
        failures: The number of failures that blocks.
        strict: Whether one failure blocks.
    """

    first: int = 3
    extra: int = 5
    failures: int = 2
    strict: bool = False

    def __post_init__(self) -> None:
        if self.first < 1 or self.extra < 0 or not 1 <= self.failures <= self.first + self.extra:
            raise ValueError("a critical case needs trials, and no more failures than trials")

    def count_trials(self, failures: int) -> int:
        """The number of trials needed after `failures` among the first."""
        return self.first if self.strict or not failures else self.first + self.extra

    def blocks(self, failures: int) -> bool:
        """Return whether this number of failures blocks."""
        return failures >= (1 if self.strict else self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPolicy:
    """The rules by which a version counts as worse than an old one with stored counts.

    Attributes:
        trials: Stored trials per case of the old version.
        small: Below this number of cases twice the trials of a baseline are stored.
        trigger: The maximum p-value against the stored counts at which the old version is re-run.
        confirm: The maximum p-value between fresh trials of both versions that confirms the loss.
    """

    trials: int = 24
    small: int = 17
    trigger: float = 0.0005
    confirm: float = 0.01

    def trials_of(self, cases: int, *, baseline_trials: int) -> int:
        """Stored trials per case.

        >>> AnchorPolicy().trials_of(140, baseline_trials=12)
        24
        >>> AnchorPolicy().trials_of(8, baseline_trials=25)
        50
        """
        return 2 * baseline_trials if cases < self.small else self.trials


def _pairs(
    units: tuple[int, ...],
    extra_pairs: tuple[int, ...],
    number: int,
    cases: int,
    first_trials: int,
    *,
    small: int,
) -> int:
    if number >= len(units):
        return extra_pairs[number - len(units)]
    return max(1, round(units[number] * first_trials * (1 if cases >= small else 0.5)))


def _levels(levels: tuple[float, ...], extra_pairs: tuple[int, ...]) -> tuple[float, ...]:
    """The levels; each look of a continued run adds half of the error rate that remains."""
    left = max(0.0, _ERROR_TOTAL - fsum(levels))
    halves = accumulate(extra_pairs, lambda level, _: level / 2, initial=left)
    return (*levels, *list(halves)[1:])


def _check_rate(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value!r}")
