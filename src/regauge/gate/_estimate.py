"""Estimates of a gate run before any call: at first, probably, and at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.gate._decided import Bill, bill_draws, compared_cases
from regauge.gate._numbers import StoredNumbers, stored_number
from regauge.gate.engine import Gate
from regauge.gate.power import unchanged_calls
from regauge.runner import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.gate._decide import Comparison
    from regauge.gate._decided import Compared
    from regauge.gate._policy import GatePolicy
    from regauge.runner import EvalSession

__all__ = ["GateEstimate", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """The estimate of a gate run; its length depends on the first trials.

    Attributes:
        cases: How many are compared; unchanged ones are not among them.
        recorded: Trials of the first wave that have an answer already; what judges say of it is
            taken to be recorded with it.
        first: The first wave.
        likely: All waves, on average, if nothing got worse; None where main has no history.
        worst: More than any run takes: every case drawn to the cap, and both arms side by side.
        rejected: Why the change is rejected as it is, without any trial; empty where it is not.
    """

    cases: int
    recorded: int
    first: Bill
    likely: Bill | None
    worst: Bill
    rejected: tuple[str, ...] = ()


def estimate(session: EvalSession, comparison: Comparison, policy: GatePolicy) -> GateEstimate:
    """Count the first wave and what of it is recorded, and what may follow.

    Raises:
        RegaugeError: Recordings cannot be read, or a case cannot be asked.
    """
    compared = compared_cases(comparison.suites)
    wanted = list(_first_wave(compared, policy, StoredNumbers(session)))
    missing = [draw for draw in wanted if not session.answers.has(draw.planned, draw.key)]
    first = replace(bill_draws(missing, session), trials=len(wanted))
    drawn = {(draw.planned.suite.prompt.name, draw.planned.case.id) for draw in wanted}
    changed = [one for one in compared if one.case.state == "changed" and _asked(one) in drawn]
    keys = {_asked(one) for one in changed}
    at_first = sum(
        (draw.planned.suite.prompt.name, draw.planned.case.id) in keys for draw in wanted
    )
    return GateEstimate(
        cases=len(drawn),
        recorded=len(wanted) - len(missing),
        first=first,
        likely=_likely(changed, first, at_first, policy, session),
        worst=sum(_at_most(changed, policy, session), first),
        rejected=tuple(str(fault) for fault in comparison.errors),
    )


def _likely(
    changed: Sequence[Compared],
    first: Bill,
    at_first: int,
    policy: GatePolicy,
    session: EvalSession,
) -> Bill | None:
    """All waves where nothing got worse, on average over what main's record leaves open.

    Args:
        at_first: Trials of the first round, of the changed cases.
    """
    if not changed:
        return first
    known = [one for one in changed if one.case.history is not None]
    calls = unchanged_calls(
        [one.case.history.whole for one in known if one.case.history is not None],
        policy,
        cells=sum(len(one.case.checks) for one in known),
        prompts=[one.case.prompt for one in known],
    )
    if calls is None:
        return None
    further = max(0.0, calls - at_first / len(changed))
    return first + bill_draws(_again(changed), session).times(further)


def _at_most(
    changed: Sequence[Compared], policy: GatePolicy, session: EvalSession
) -> Iterator[Bill]:
    """The most trials that may follow the first wave, by prompt and tier."""
    caps: Mapping[str, int] = {
        "critical": policy.critical.first + policy.critical.more,
        "required": policy.case.cap,
        "tracked": 0,
    }
    prompts: dict[str, list[Compared]] = {}
    for one in changed:
        prompts.setdefault(one.case.prompt, []).append(one)
    for cases in prompts.values():
        first = policy.first_draws_of(len(cases))
        size = {"cases": len(cases), "first_draws": first}
        suite, net = policy.suite, policy.net
        pairs = [suite.pairs_of_look(look, **size) for look in range(len(suite.levels))]
        weighed = [net.pairs_of_look(look, **size) for look in range(len(net.all_levels))]
        screens = (suite.rounds - 1) * suite.extra_round(first)
        of_suite = max(screens + 2 * sum(pairs), 2 * sum(weighed))
        for tier, cap in caps.items():
            again = _again([case for case in cases if case.case.tier == tier])
            of_case = 2 * cap if tier == "required" else cap
            yield bill_draws(again, session).times(of_case + of_suite)


def _again(cases: Sequence[Compared]) -> list[Draw]:
    return [Draw(case.again, 0) for case in cases if case.again is not None]


def _asked(one: Compared) -> tuple[str, str]:
    planned = one.candidate
    return (planned.suite.prompt.name, planned.case.id) if planned is not None else ("", "")


def _first_wave(
    compared: Sequence[Compared], policy: GatePolicy, numbers: StoredNumbers
) -> Iterator[Draw]:
    by_key = {one.case.key: one for one in compared}
    for wanted in Gate([one.case for one in compared], policy).wanted():
        one = by_key[wanted.prompt, wanted.case]
        planned = one.candidate if wanted.arm == "candidate" else one.main
        if planned is None or planned.error is not None:
            continue
        for number in wanted.trials:
            planned.plan()
            of_main = wanted.arm == "main"
            yield Draw(
                planned,
                stored_number("main", number) if of_main else numbers.of_candidate(planned, number),
            )
