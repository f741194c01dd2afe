"""What a gate would ask for at first, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.gate._compared import compared_cases
from regauge.gate._engine import Gate
from regauge.gate._numbers import stored_number
from regauge.providers import estimate_requests
from regauge.runner import Draw, price_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.gate._decide import Comparison
    from regauge.gate._policy import GatePolicy
    from regauge.runner import EvalSession

__all__ = ["GateEstimate", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """The first wave of a gate: what follows depends on what it shows.

    Attributes:
        cases: How many are compared; unchanged ones are not among them.
        trials: Of the first wave, of both arms.
        recorded: Those that have an answer already.
        calls: Calls to make: an answer for each of the rest.
        judge_calls: About how many calls the judges of those answers make, one for each judge.
        tokens: About how many tokens the answers use, in and out.
        cost_usd: About what the answers cost; None when a price is unknown.
        most: Trials of the candidate that a case may have at most.
    """

    cases: int
    trials: int
    recorded: int
    calls: int
    judge_calls: int
    tokens: int
    cost_usd: float | None
    most: int


def estimate(session: EvalSession, comparison: Comparison, policy: GatePolicy) -> GateEstimate:
    """Count the first wave, and what of it is recorded.

    Raises:
        RegaugeError: Recordings cannot be read, or a case cannot be asked.
    """
    compared = compared_cases(comparison.suites)
    by_key = {one.case.key: one for one in compared}

    def draws() -> Iterator[Draw]:
        for wanted in Gate([one.case for one in compared], policy).wanted():
            one = by_key[wanted.prompt, wanted.case]
            planned = one.candidate if wanted.arm == "candidate" else one.main
            if planned is None or planned.error is not None:
                continue
            for number in wanted.trials:
                draw = Draw(planned, stored_number(wanted.arm, number))
                planned.digest = planned.digest or planned.request(draw.trial).digest
                yield draw

    wanted = list(draws())
    missing = [draw for draw in wanted if not session.answers.has(draw.planned, draw.key)]
    settings = session.project.settings
    about = estimate_requests(
        (draw.planned.request(draw.trial) for draw in missing),
        price=lambda request: price_for(settings, request),
    )
    return GateEstimate(
        cases=len({id(draw.planned.case) for draw in wanted}),
        trials=len(wanted),
        recorded=len(wanted) - len(missing),
        calls=len(missing),
        judge_calls=sum(len(draw.planned.suite.model_judges) for draw in missing),
        tokens=about.input_tokens + about.output_tokens,
        cost_usd=about.cost_usd,
        most=policy.case.cap,
    )
