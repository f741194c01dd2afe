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
_LIMITS: Final[tuple[Literal["usd", "calls", "tokens"], ...]] = ("usd", "calls", "tokens")


@dataclass(slots=True)
class Charge:
    """The actual cost of one call, in US dollars and tokens; None while it is expected."""

    actual_usd: float | None = None
    actual_tokens: int | None = None

    def settle(self, actual_usd: float | None, actual_tokens: int | None) -> None:
        """Note the actual cost."""
        self.actual_usd, self.actual_tokens = actual_usd, actual_tokens


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of calls: US dollars, tokens and their number."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: CallCost, *, times: int = 1) -> CallCost:
        """The sum with a multiple of another cost."""
        return CallCost(
            self.usd + times * other.usd,
            self.tokens + times * other.tokens,
            self.calls + times * other.calls,
        )


@dataclass(slots=True)
class Budget:
    """The limits and the spending of a run.

    Attributes:
        limit_usd: US dollars for all processes of the run; None for no limit.
        processes: The number of processes that share the run, each with an equal part.
        limit_tokens: Input and output tokens for all processes; None for no limit.
        limit_calls: Calls for all processes; None for no limit.
        finished: The finished calls; failed ones count only if they cost something.
        reserved: The expected cost of calls in progress.
        is_cost_unknown: Whether a finished call has no price.
        excess: The highest ratio of actual to expected cost; 0 before the first call. Later calls
            reserve this multiple of their expected cost.
    """

    limit_usd: float | None
    processes: int = 1
    limit_tokens: int | None = None
    limit_calls: int | None = None
    finished: CallCost = field(default=CallCost())
    reserved: CallCost = field(default=CallCost())
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
    def is_limited(self) -> bool:
        """Return whether anything has a limit."""
        return self.limits_usage or self.limit_calls is not None

    @property
    def cost_usd(self) -> float | None:
        """The cost of finished calls; None if one has no price."""
        return None if self.is_cost_unknown else self.finished.usd

    def may_fit_later(self, expected_usd: float) -> bool:
        """Return whether a call fits if calls in progress cost less than reserved."""
        alone = CallCost(self.finished.usd + expected_usd * (self.excess or 1.0))
        return (
            self.reserved.usd > 0
            and self._exceeds("usd", self._committed(expected_usd))
            and not self._exceeds("usd", alone)
        )

    def _committed(self, expected_usd: float) -> CallCost:
        """The cost of finished calls, calls in progress and the next one, scaled by `excess`."""
        excess = self.excess or (_UNKNOWN_EXCESS if self.reserved.usd else 1.0)
        return CallCost(self.finished.usd + (self.reserved.usd + expected_usd) * excess)

    @contextmanager
    def charge(self, expected_usd: float, *, tokens: int = 0) -> Generator[Charge]:
        """Reserve the expected cost and tokens of a call while it is in progress.

        A failed call counts no cost, as providers do not bill it.

        Raises:
            BudgetError: The call could exceed a limit.
        """
        if self._exceeds("usd", self._committed(expected_usd)):
            committed_usd = self.finished.usd + self.reserved.usd
            raise self._error(
                "usd",
                f"${committed_usd:.4f} spent or under way, and the next call is expected"
                f" to cost ${expected_usd:.4f}",
            )
        expected = CallCost(expected_usd, tokens, 1)
        after = self.finished.plus(self.reserved).plus(expected)
        if self._exceeds("calls", after):
            raise self._error("calls", f"one more call makes it {after.calls}")
        if self._exceeds("tokens", after):
            raise self._error("tokens", f"one more call makes it {after.tokens}")
        charge = Charge()
        self.reserved = self.reserved.plus(expected)
        try:
            yield charge
            self.is_cost_unknown |= charge.actual_usd is None
            self.finished = self.finished.plus(CallCost(calls=1))
        finally:
            self.reserved = self.reserved.plus(expected, times=-1)
            cost = CallCost(charge.actual_usd or 0.0, charge.actual_tokens or 0)
            self.finished = self.finished.plus(cost)
            if charge.actual_usd is not None and expected_usd:
                self.excess = max(self.excess, 1.0, charge.actual_usd / expected_usd)

    def check_case(self, cost: CallCost) -> None:
        """Raise a BudgetError if a new case and those in progress exceed a limit.

        Args:
            cost: The remaining cost of these cases.
        """
        after = self.finished.plus(cost)
        for noun in _LIMITS:
            if self._exceeds(noun, after):
                amount = f"${after.usd:.4f}" if noun == "usd" else f"{getattr(after, noun)} {noun}"
                raise self._error(
                    noun,
                    f"the cases that have begun and this one would take about {amount}, with all"
                    " trials and judges",
                )

    def _exceeds(self, noun: Literal["usd", "calls", "tokens"], cost: CallCost) -> bool:
        limit: float | None = getattr(self, f"limit_{noun}")
        return limit is not None and getattr(cost, noun) > limit / self.processes + 1e-12

    def _error(self, noun: Literal["usd", "calls", "tokens"], reason: str) -> BudgetError:
        limit: float = getattr(self, f"limit_{noun}")
        amount = f"{limit:g} {noun}"
        if noun == "usd":
            cents = f"{limit:.2f}"
            amount = f"${cents if float(cents) == limit else f'{limit:g}'}"
        part = f" (a part of it in each of {self.processes} processes)" * (self.processes > 1)
        return BudgetError(
            f"the budget of {amount}{part} is reached: {reason}\n"
            f"  completions so far are kept: the same command with a larger --budget-{noun}"
            " continues where this one stopped",
            limit=noun,
        )


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
        self._costs: dict[tuple[str, str, int], CallCost] = {}
        self._highest: CallCost | None = None
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
            cost = self._costs.pop((*key, planned_trial.trial), CallCost())
            if key in self._unfinished:
                highest = self._highest or CallCost()
                self._highest = CallCost(
                    max(highest.usd, cost.usd),
                    max(highest.tokens, cost.tokens),
                    max(highest.calls, cost.calls),
                )
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
        key = (case_request.prompt, case_request.case, case_request.trial)
        cost = CallCost(charge.actual_usd or 0.0, charge.actual_tokens or 0, 1)
        self._costs[key] = self._costs.get(key, CallCost()).plus(cost)

    def _check(self, trials: int, highest: CallCost) -> None:
        remaining = sum(self._unfinished.values()) + trials
        cost = CallCost().plus(highest, times=remaining)
        for under_way in self._costs.values():
            cost = cost.plus(under_way, times=-1)
        self._budget.check_case(cost)
