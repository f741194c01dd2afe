"""The calls and cost of a gate, before it runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.gate._engine import Gate
from regauge.gate._messages import removal_text
from regauge.gate._result import collect_compared_cases
from regauge.gate._trials import StoredNumbers
from regauge.gate.power import unchanged_calls
from regauge.providers import sum_if_known
from regauge.runner import PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.gate._comparison import Comparison
    from regauge.gate._result import CaseComparison
    from regauge.gate._types import GatePolicy
    from regauge.runner import EvalSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The calls and cost of some trials.

    Attributes:
        trials: Trials of both sides.
        calls: Calls for completions that are not recorded.
        judge_calls: Estimated calls of judges.
        tokens: Estimated input and output tokens of all calls.
        cost_usd: Estimated cost; None if a price is unknown.
        batch_cost_usd: Estimated cost in a batch.
    """

    trials: int = 0
    calls: int = 0
    judge_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    batch_cost_usd: float | None = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            trials=self.trials + other.trials,
            calls=self.calls + other.calls,
            judge_calls=self.judge_calls + other.judge_calls,
            tokens=self.tokens + other.tokens,
            cost_usd=sum_if_known((self.cost_usd, other.cost_usd)),
            batch_cost_usd=sum_if_known((self.batch_cost_usd, other.batch_cost_usd)),
        )

    def times(self, share: float) -> Bill:
        """The bill multiplied by a number."""
        return Bill(
            trials=round(share * self.trials),
            calls=round(share * self.calls),
            judge_calls=round(share * self.judge_calls),
            tokens=round(share * self.tokens),
            cost_usd=None if self.cost_usd is None else share * self.cost_usd,
            batch_cost_usd=None if self.batch_cost_usd is None else share * self.batch_cost_usd,
        )


def bill_trials(trials: Sequence[PlannedTrial], session: EvalSession) -> Bill:
    """The calls and cost of trials that have no completion yet."""
    completions = session.missing_completions(trials)
    judgements = session.missing_judgements(trials)
    missing_calls = [*completions, *judgements]
    return Bill(
        trials=len(trials),
        calls=sum(missing.calls for missing in completions),
        judge_calls=sum(missing.calls for missing in judgements),
        tokens=sum(missing.tokens for missing in missing_calls),
        cost_usd=sum_if_known(missing.cost_usd for missing in missing_calls),
        batch_cost_usd=sum_if_known(missing.batch_cost_usd for missing in missing_calls),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEstimate:
    """The estimate of a gate run; its length depends on the first trials.

    Attributes:
        cases: Number of compared cases, without unchanged ones.
        recorded: Recorded trials of the first round; their verdicts count as recorded, too.
        first: The first round.
        likely: All rounds on average if nothing got worse; None if the base has no baseline.
        worst: Upper limit: every case up to the cap, and both sides paired.
        rejected: Reasons that reject the change without any trial.
    """

    cases: int
    recorded: int
    first: Bill
    likely: Bill | None
    worst: Bill
    rejected: tuple[str, ...] = ()


def estimate(session: EvalSession, comparison: Comparison, policy: GatePolicy) -> GateEstimate:
    """Estimate the first round, its recorded part and possible further rounds.

    Raises:
        RegaugeError: Recordings cannot be read, or a request cannot be built.
    """
    compared_cases = collect_compared_cases(comparison.evals)
    first_round = list(_first_round(compared_cases, policy, StoredNumbers(session)))
    planned_trials = [planned_trial for _, planned_trial in first_round]
    missing = [
        planned_trial
        for planned_trial in planned_trials
        if not session.completions.has(planned_trial.planned_case, planned_trial.key)
    ]
    first = replace(bill_trials(missing, session), trials=len(planned_trials))
    trial_counts = Counter(id(compared_case) for compared_case, _ in first_round)
    changed = [
        compared_case
        for compared_case in compared_cases
        if compared_case.case.state == "changed" and trial_counts[id(compared_case)]
    ]
    first_trials = sum(trial_counts[id(compared_case)] for compared_case in changed)
    return GateEstimate(
        cases=len(trial_counts),
        recorded=len(planned_trials) - len(missing),
        first=first,
        likely=_estimate_likely(changed, first, first_trials, policy, session),
        worst=sum(_estimate_worst(changed, policy, session), first),
        rejected=(
            *map(str, comparison.errors),
            *(
                f"{case.prompt}/{case.case}: {removal_text(case.case)}"
                for case in (compared_case.case for compared_case in compared_cases)
                if case.is_removed_silently
            ),
        ),
    )


def _estimate_likely(
    changed: Sequence[CaseComparison],
    first: Bill,
    first_trials: int,
    policy: GatePolicy,
    session: EvalSession,
) -> Bill | None:
    """All rounds if nothing got worse, on average over pass rates that fit the baseline.

    Args:
        first_trials: Trials of the changed cases in the first round.
    """
    if not changed:
        return first
    recorded = [
        compared_case for compared_case in changed if compared_case.case.baseline is not None
    ]
    calls = unchanged_calls(
        [
            compared_case.case.baseline.total
            for compared_case in recorded
            if compared_case.case.baseline is not None
        ],
        policy,
        checks=sum(len(compared_case.case.checks) for compared_case in recorded),
        prompts=[compared_case.case.prompt for compared_case in recorded],
    )
    if calls is None:
        return None
    further = max(0.0, calls - first_trials / len(changed))
    return first + bill_trials(_follow_up_trials(changed), session).times(further)


def _estimate_worst(
    changed: Sequence[CaseComparison], policy: GatePolicy, session: EvalSession
) -> Iterator[Bill]:
    """The most trials that may follow the first round, by tier of evals that may share calls."""
    caps: Mapping[str, int] = {
        "critical": policy.critical.first + policy.critical.extra,
        "required": policy.case.cap,
        "tracked": 0,
    }
    groups: dict[tuple[Path, Path], list[CaseComparison]] = {}
    for compared_case in changed:
        if compared_case.follow_up is not None:
            eval_ = compared_case.follow_up.eval
            key = (eval_.prompt.path, eval_.dataset.path)
            groups.setdefault(key, []).append(compared_case)
    for cases in groups.values():
        sizes = Counter(compared_case.case.prompt for compared_case in cases)
        of_suite = max(_trials_of_suite(size, policy) for size in sizes.values())
        for tier, cap in caps.items():
            planned_trials = _follow_up_trials([case for case in cases if case.case.tier == tier])
            of_case = 2 * cap if tier == "required" else cap
            yield bill_trials(planned_trials, session).times(of_case + of_suite)


def _trials_of_suite(cases: int, policy: GatePolicy) -> int:
    """The most trials per case of the tests of a whole prompt with `cases` compared cases."""
    size = {"cases": cases, "first_trials": policy.first_trials_of(cases)}
    suite, net = policy.suite, policy.net
    pairs = [suite.pairs_of_look(number, **size) for number in range(len(suite.levels))]
    net_pairs = [net.pairs_of_look(number, **size) for number in range(len(net.all_levels))]
    screens = (suite.rounds - 1) * suite.extra_round(size["first_trials"])
    return max(screens + 2 * sum(pairs), 2 * sum(net_pairs))


def _follow_up_trials(cases: Sequence[CaseComparison]) -> list[PlannedTrial]:
    return [
        PlannedTrial(compared_case.follow_up, 0)
        for compared_case in cases
        if compared_case.follow_up is not None
    ]


def _first_round(
    compared_cases: Sequence[CaseComparison], policy: GatePolicy, numbers: StoredNumbers
) -> Iterator[tuple[CaseComparison, PlannedTrial]]:
    """The trials of the first round, each with its case."""
    by_key = {compared_case.case.key: compared_case for compared_case in compared_cases}
    for request in Gate(
        [compared_case.case for compared_case in compared_cases], policy
    ).pending_trials():
        case = by_key[request.prompt, request.case]
        planned_case = case.candidate if request.side == "candidate" else case.base
        if planned_case is None or planned_case.error is not None:
            continue
        for number in request.trials:
            planned_case.plan()
            yield case, numbers.planned_trial(planned_case, request.side, number)
