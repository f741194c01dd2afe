"""The budget of a run: cost, tokens and calls, reserved before and counted after each call."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from regauge.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Generator

    from regauge.runner._plan import CaseRequest, PlannedTrial


# The assumed ratio of actual to expected cost before the first call has ended.
_UNKNOWN_EXCESS: Final = 4.0


@dataclass(slots=True)
class Charge:
    """The actual cost of one call, in US dollars and tokens; None while it is expected."""

    actual_usd: float | None = None
    actual_tokens: int | None = None

    def settle(self, actual_usd: float | None, actual_tokens: int | None) -> None:
        """Note the actual cost."""
        self.actual_usd, self.actual_tokens = actual_usd, actual_tokens


@dataclass(slots=True)
class Budget:
    """The limits and the spending of a run.

    Attributes:
        limit_usd: US dollars for all processes of the run; None for no limit.
        processes: The number of processes that share the run, each with an equal part.
        spent_usd: The cost of finished calls.
        is_cost_unknown: Whether a finished call has no price.
        reserved_usd: The expected cost of calls in progress.
        limit_tokens: Input and output tokens for all processes; None for no limit.
        spent_tokens: The tokens of finished calls.
        reserved_tokens: The expected tokens of calls in progress.
        limit_calls: Calls for all processes; None for no limit.
        calls: The number of finished calls and calls in progress; failed calls do not count.
        calls_under_way: The number of calls in progress.
        excess: The highest ratio of actual to expected cost; 0 before the first call. Later calls
            reserve this multiple of their expected cost.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
    reserved_usd: float = field(default=0.0)
    processes: int = 1
    limit_tokens: int | None = None
    spent_tokens: int = 0
    reserved_tokens: int = 0
    limit_calls: int | None = None
    calls: int = 0
    calls_under_way: int = 0
    excess: float = 0.0
    is_cost_unknown: bool = False

    def limit(self, calls: int) -> None:
        """Limit the calls of all processes."""
        self.limit_calls = calls

    @property
    def limits_usage(self) -> bool:
        """Return whether cost or tokens have a limit."""
        return self.limit_usd is not None or self.limit_tokens is not None

    @property
    def cost_usd(self) -> float | None:
        """The cost of finished calls; None if one has no price."""
        return None if self.is_cost_unknown else self.spent_usd

    @property
    def _share_usd(self) -> float:
        return float("inf") if self.limit_usd is None else self.limit_usd / self.processes + 1e-12

    @property
    def _part_text(self) -> str:
        count = self.processes
        return f" (a part of it in each of {count} processes)" if count > 1 else ""

    def may_fit_later(self, expected_usd: float) -> bool:
        """Return whether a call fits if calls in progress cost less than reserved."""
        fits_now = self._committed(expected_usd) <= self._share_usd
        alone = self.spent_usd + expected_usd * (self.excess or 1.0)
        return not fits_now and self.reserved_usd > 0 and alone <= self._share_usd

    def _committed(self, expected_usd: float) -> float:
        """The cost of finished calls, calls in progress and the next one, scaled by `excess`."""
        if not self.reserved_usd + expected_usd:
            return self.spent_usd
        excess = self.excess or (_UNKNOWN_EXCESS if self.reserved_usd else 1.0)
        return self.spent_usd + (self.reserved_usd + expected_usd) * excess

    @contextmanager
    def charge(self, expected_usd: float, *, tokens: int = 0) -> Generator[Charge]:
        """Reserve the expected cost and tokens of a call while it is in progress.

        A failed call counts no cost, as providers do not bill it.

        Raises:
            BudgetError: The call could exceed a limit.
        """
        if self._committed(expected_usd) > self._share_usd:
            committed = self.spent_usd + self.reserved_usd
            cents = f"{self.limit_usd:.2f}"
            limit = cents if float(cents) == self.limit_usd else f"{self.limit_usd:g}"
            raise BudgetError(
                f"the budget of ${limit}{self._part_text}"
                f" is reached: ${committed:.4f} spent or under way, and the next call is expected"
                f" to cost ${expected_usd:.4f}\n"
                "  completions so far are kept: the same command with a larger --budget-usd"
                " continues where this one stopped"
            )
        self._check_counts(tokens)
        charge = Charge()
        self.reserved_usd += expected_usd
        self.reserved_tokens += tokens
        self.calls += 1
        self.calls_under_way += 1
        try:
            yield charge
        except BaseException:
            self.calls -= 1
            raise
        else:
            self.is_cost_unknown |= charge.actual_usd is None
        finally:
            self.calls_under_way -= 1
            self.reserved_usd -= expected_usd
            self.reserved_tokens -= tokens
            if charge.actual_usd is not None:
                self.spent_usd += charge.actual_usd
                if expected_usd:
                    self.excess = max(self.excess, 1.0, charge.actual_usd / expected_usd)
            if charge.actual_tokens is not None:
                self.spent_tokens += charge.actual_tokens

    @property
    def is_limited(self) -> bool:
        """Return whether anything has a limit."""
        return self.limits_usage or self.limit_calls is not None

    def check_case(self, usd: float, *, tokens: int, calls: int) -> None:
        """Raise a BudgetError if a new case and those in progress exceed a limit.

        Args:
            usd: The remaining cost of these cases, in US dollars.
            tokens: Their remaining tokens.
            calls: Their remaining calls.
        """
        amounts: tuple[tuple[float | None, float, Literal["usd", "calls", "tokens"]], ...] = (
            (self.limit_usd, self.spent_usd + usd, "usd"),
            (self.limit_calls, self.calls - self.calls_under_way + calls, "calls"),
            (self.limit_tokens, self.spent_tokens + tokens, "tokens"),
        )
        for limit, after, noun in amounts:
            if limit is not None and after > limit / self.processes + 1e-12:
                budget_text = f"${limit:g}" if noun == "usd" else f"{limit:g} {noun}"
                needed_text = f"${after:.4f}" if noun == "usd" else f"{after:.0f} {noun}"
                raise BudgetError(
                    f"the budget of {budget_text}{self._part_text} is reached: the cases that"
                    f" have begun and this one would take about {needed_text}, with all trials and"
                    " judges\n"
                    f"  completions so far are kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )

    def _check_counts(self, tokens: int) -> None:
        """Raise a BudgetError if one more call exceeds the limit of calls or tokens."""
        committed_tokens = self.spent_tokens + self.reserved_tokens
        counts: tuple[tuple[int | None, int, Literal["calls", "tokens"]], ...] = (
            (self.limit_calls, self.calls + 1, "calls"),
            (self.limit_tokens, committed_tokens + tokens, "tokens"),
        )
        for limit, after, noun in counts:
            if limit is not None and after > limit / self.processes:
                raise BudgetError(
                    f"the budget of {limit} {noun}{self._part_text} is reached: one more call"
                    f" makes it {after}\n"
                    f"  completions so far are kept: the same command with a larger"
                    f" --budget-{noun} continues where this one stopped",
                    limit=noun,
                )


@dataclass(slots=True)
class _Cost:
    """The cost of a trial's calls."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def cover(self, other: _Cost) -> None:
        """Raise each number to at least that of another cost."""
        self.usd = max(self.usd, other.usd)
        self.tokens = max(self.tokens, other.tokens)
        self.calls = max(self.calls, other.calls)


class CasesInBudget:
    """Starts a case only if all its trials and judgements fit in the budget.

    So the budget pays for complete cases, not for completions that are never judged. The first
    case runs alone to measure the cost of a trial. For one event loop.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._trials: dict[tuple[str, str], int] = {}
        self._active: Counter[tuple[str, str]] = Counter()
        self._unfinished: dict[tuple[str, str], int] = {}
        self._costs: dict[tuple[str, str, int], _Cost] = {}
        self._highest: _Cost | None = None
        self._progressed = asyncio.Event()

    @contextmanager
    def trial(self, planned_trial: PlannedTrial) -> Generator[None]:
        """Count the calls of a trial within the block."""
        eval_ = planned_trial.planned_case.eval
        several = eval_.trials > 1 or eval_.model_judges or planned_trial.planned_case.converses
        if not several or not self._budget.is_limited:
            yield
            return
        key = (eval_.prompt.name, planned_trial.planned_case.case.id)
        self._trials[key] = eval_.trials
        self._active[key] += 1
        try:
            yield
        finally:
            self._active[key] -= 1
            cost = self._costs.pop((*key, planned_trial.trial), None)
            if key in self._unfinished:
                self._highest = self._highest or _Cost()
                self._highest.cover(cost or _Cost())
                self._unfinished[key] -= 1
                if not self._unfinished[key]:
                    del self._unfinished[key]
            self._progressed.set()

    async def admit(self, case_request: CaseRequest) -> None:
        """Wait until the case of a call may start.

        Raises:
            BudgetError: The rest of the budget cannot finish the case.
        """
        key = (case_request.prompt, case_request.case)
        if not self._active[key]:
            return
        while key not in self._unfinished:
            if self._highest is None and any(
                self._active[unfinished] for unfinished in self._unfinished
            ):
                self._progressed.clear()
                await self._progressed.wait()
                continue
            if self._highest is not None:
                self._check(self._trials[key], self._highest)
            self._unfinished[key] = self._trials[key]

    def add(self, case_request: CaseRequest, charge: Charge) -> None:
        """Add the cost of a call."""
        if not self._active[case_request.prompt, case_request.case]:
            return
        trial_cost = self._costs.setdefault(
            (case_request.prompt, case_request.case, case_request.trial), _Cost()
        )
        trial_cost.usd += charge.actual_usd or 0.0
        trial_cost.tokens += charge.actual_tokens or 0
        trial_cost.calls += 1

    def _check(self, trials: int, highest: _Cost) -> None:
        remaining = sum(self._unfinished.values()) + trials
        under_way = list(self._costs.values())
        self._budget.check_case(
            remaining * highest.usd - sum(trial.usd for trial in under_way),
            tokens=remaining * highest.tokens - sum(trial.tokens for trial in under_way),
            calls=remaining * highest.calls - sum(trial.calls for trial in under_way),
        )
