"""The gate as a state machine: it requests trials, receives their facts, and decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby, zip_longest
from math import exp
from typing import TYPE_CHECKING, assert_never

from regauge.digests import digest_of
from regauge.evidence import CheckReport, Count
from regauge.gate._cases import CaseStage, CaseTrials, CheckState, Request
from regauge.gate._suites import SuiteStage
from regauge.gate._types import CaseReport, GateOutcome, Reason, TrialRequest, accepted_broken
from regauge.stats import flaky_probability, rule_of_three

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.evidence import CaseStatus, SuiteReport
    from regauge.gate._types import (
        Decision,
        GateCase,
        GatePolicy,
        NotRecorded,
        ReasonKind,
        Side,
        TrialFacts,
    )
    from regauge.stats import CriticalPolicy


# The first of these among the checks of a case is the status of the case.
_WORST_FIRST: tuple[CaseStatus, ...] = (
    "broken",
    "unmeasured",
    "undecided",
    "drifted",
    "fixed",
    "flaky",
    "mixed",
    "known-failing",
    "passed",
)
# Posterior probability from which a case is flaky (docs/how-to/handle-flaky-cases.md); a smaller
# one lists more cases that only failed by chance.
_SURE = 0.95
# Larger e-values are cut: a float overflows soon after.
_LARGEST_LOG = 700.0


def case_report(case_trials: CaseTrials, stage: CaseStage | None, policy: GatePolicy) -> CaseReport:
    """The result of a case; pending trials count as unmeasured."""
    case = case_trials.case
    unmeasured, not_recorded = case_trials.gaps()
    baseline = case_trials.count_baseline()
    stop = case_trials.case_stop
    verdicts = [facts.passed for facts in case_trials.facts("candidate", 0, stop)]
    report = CaseReport(
        prompt=case.prompt,
        case=case.case,
        tier=case.tier,
        state=case.state,
        status="passed",
        blocks=False,
        candidate=Count.of(verdicts),
        before=baseline,
        today=case_trials.paired("base"),
        checks=tuple(_check_report(case_trials, check, stage) for check in case.checks),
        accepted=case.accepted,
        broke_before=case.broke_before,
        repeat_count=case_trials.repeat_count,
        unmeasured_trials=unmeasured,
        unrecorded_trials=not_recorded,
        recorded=len(verdicts),
        flaky=is_flaky(baseline.passed, baseline.trials),
    )
    match case.state:
        case "unchanged":
            return replace(report, status="unchanged", checks=())
        case "removed":
            return replace(report, status="removed", blocks=not case.accepted, checks=())
        case "new" | "changed":
            return _report_by_tier(report, case_trials, policy)
        case _:
            assert_never(case.state)


def critical_policy(case_trials: CaseTrials, policy: GatePolicy) -> CriticalPolicy:
    """The policy for a critical case."""
    return replace(policy.critical, strict=policy.critical.strict or case_trials.case.strict)


@lru_cache(maxsize=4096)
def is_flaky(passed: int, trials: int) -> bool:
    """Return whether a record has mixed results.

    >>> is_flaky(9, 12), is_flaky(12, 12), is_flaky(0, 0)
    (True, False, False)
    """
    return trials > 0 and flaky_probability(passed, trials) > _SURE


def _report_by_tier(report: CaseReport, case_trials: CaseTrials, policy: GatePolicy) -> CaseReport:
    """The report of a case with trials, by the rule of its tier and state."""
    if report.tier == "critical":
        return _report_critical(report, critical_policy(case_trials, policy))
    if report.tier == "tracked":
        # Tracked cases are not tested.
        if report.state == "new":
            status: CaseStatus = "new"
        elif report.candidate.failed:
            status = _failing_status(report.candidate, report.before, flaky=report.flaky)
        else:
            status = "passed"
        return replace(report, status=_missing_status(report) or status)
    if report.state == "new":
        return _report_new(report, policy)
    worst = next(
        status for status in _WORST_FIRST if any(check.status == status for check in report.checks)
    )
    # A base that cannot be called is no better than a candidate that passes.
    if worst == "broken" or (_only_fix_waits(report) and not case_trials.lacks_base):
        return replace(report, status=worst)
    return replace(report, status=_missing_status(report) or worst)


def _report_critical(report: CaseReport, rule: CriticalPolicy) -> CaseReport:
    """Failures count whatever the base does; missing trials cannot make up for them."""
    failed, new = report.candidate.failed, report.state == "new"
    blocks = rule.blocks(failed)
    if blocks:
        status: CaseStatus = "new" if new else "broken"
    elif (missing := _missing_status(report)) is not None:
        status = missing
    elif new:
        status = "new"
    elif failed:
        status = "flaky" if report.flaky else "mixed"
    else:
        status = "passed"
    trials = rule.first if rule.strict else rule.first + rule.extra
    passes = trials if rule.strict else trials - rule.failures + 1
    before = report.before
    return replace(
        report,
        status=status,
        blocks=blocks,
        bar=Count(passed=passes, trials=trials),
        failure_bound=rule_of_three(before.trials) if before.trials and not before.failed else None,
    )


def _report_new(report: CaseReport, policy: GatePolicy) -> CaseReport:
    bar = Count(passed=policy.new_passes, trials=policy.new_trials)
    missed = report.candidate.failed > bar.failed
    status: CaseStatus = "new" if missed else _missing_status(report) or "new"
    blocks = missed and policy.on_new == "block" and not report.accepted
    return replace(report, status=status, blocks=blocks, bar=bar)


def _missing_status(report: CaseReport) -> CaseStatus | None:
    """The status of a case with missing trials; None if all are there."""
    if report.unmeasured_trials:
        return "unmeasured"
    if report.unrecorded_trials:
        return "undecided" if report.recorded else "unmeasured"
    return None


def _only_fix_waits(report: CaseReport) -> bool:
    """Return whether a short recording only leaves open whether the case was fixed."""
    return not report.unmeasured_trials and all(
        check.status in {"passed", "known-failing"} for check in report.checks
    )


def _check_report(case_trials: CaseTrials, check: str, stage: CaseStage | None) -> CheckReport:
    candidate, baseline = (
        case_trials.candidate(check, case_trials.case_stop),
        case_trials.count_baseline(check),
    )
    flaky = is_flaky(baseline.passed, baseline.trials)
    report = CheckReport(
        check=check,
        status=_untested_status(
            case_trials.candidate(check, case_trials.first),
            baseline,
            lacking=any(case_trials.gaps()),
            flaky=flaky,
        ),
        before=baseline,
        today=case_trials.paired("base", check),
        candidate=candidate,
        paired=case_trials.paired("candidate", check),
    )
    tested = stage.find_test(case_trials, check) if stage is not None else None
    if tested is None:
        return report
    test, column = tested
    state = CheckState(int(test.states[0, column]))
    if state == CheckState.DRIFTED and not case_trials.has_baseline:
        # All trials of the base are of this run, so the case is mixed, not drifted.
        state = CheckState.MIXED
    better = stage is not None and test is stage.better
    today = float(test.log_today[0, column])
    return replace(
        report,
        status=_fixed_status(state, candidate, flaky=flaky)
        if better
        else _broken_status(state, case_trials, candidate, baseline, flaky=flaky),
        direction="better" if better else "worse",
        e_value=exp(min(float(test.log_e[0, column]), _LARGEST_LOG)),
        bound=round(exp(float(test.log_bound[0])), 6),
        e_today=exp(min(today, _LARGEST_LOG)) if report.today.trials else None,
    )


def _untested_status(
    candidate: Count, baseline: Count, *, lacking: bool, flaky: bool
) -> CaseStatus:
    """The status of a check without a test."""
    if not candidate.trials:
        # A check that always abstains shows nothing; one that abstains only now may hide a failure.
        return "unmeasured" if lacking else "undecided" if baseline.trials else "passed"
    if not candidate.failed:
        return "passed"
    if not baseline.trials:
        return "undecided"
    return _failing_status(candidate, baseline, flaky=flaky)


def _broken_status(
    state: CheckState, case_trials: CaseTrials, candidate: Count, baseline: Count, *, flaky: bool
) -> CaseStatus:
    match state:
        case CheckState.CONFIRMED:
            return "broken"
        case CheckState.DRIFTED:
            return "drifted"
        case CheckState.UNDECIDED:
            return "undecided"
        case CheckState.OPEN | CheckState.MISSING:
            return "unmeasured"
        case CheckState.CLEARED | CheckState.MIXED | CheckState.UNTESTED:
            if state != CheckState.CLEARED and not candidate.passed and case_trials.repeat_count:
                # A cache repeats one failure, which may be rare.
                return "undecided"
            return _failing_status(candidate, baseline, flaky=flaky)
        case _:
            assert_never(state)


def _fixed_status(state: CheckState, candidate: Count, *, flaky: bool) -> CaseStatus:
    match state:
        case CheckState.CONFIRMED:
            return "fixed"
        case CheckState.DRIFTED:
            return "drifted"
        case _ if not candidate.failed:
            return "passed"
        case _:
            return "flaky" if flaky else "mixed"


def _failing_status(candidate: Count, baseline: Count, *, flaky: bool) -> CaseStatus:
    """The status of failures that no test calls broken."""
    if 2 * baseline.passed < baseline.trials and not candidate.passed:
        return "known-failing"
    return "flaky" if flaky else "mixed"


# The first of these among the reasons decides.
_STRONGEST_FIRST: tuple[Decision, ...] = ("reject", "unmeasured", "undecided", "accept")


def with_blocks(
    cases: Sequence[CaseReport], suites: Sequence[SuiteReport], policy: GatePolicy
) -> tuple[CaseReport, ...]:
    """Set `blocks` of the broken cases that keep the change from being accepted."""
    by_prompt = {suite.prompt: suite for suite in suites}
    return tuple(
        replace(case, blocks=_broken_decision(policy, by_prompt.get(case.prompt)) != "accept")
        if case.status == "broken" and case.tier == "required" and not case.accepted
        else case
        for case in cases
    )


def reasons_for(
    cases: Sequence[CaseReport], suites: Sequence[SuiteReport], policy: GatePolicy
) -> tuple[Reason, ...]:
    """The reasons of a decision and notes for the reader, strongest first."""
    by_prompt = {suite.prompt: suite for suite in suites}
    reasons = [reason for case in cases for reason in _case_reasons(case, policy, by_prompt)]
    reasons += [reason for suite in suites for reason in _suite_reasons(suite, policy)]
    accepted_cases = accepted_broken(cases)
    if policy.accepted_max is not None and len(accepted_cases) > policy.accepted_max:
        reasons.append(
            Reason(kind="accepted-max", leads_to="reject", prompt=accepted_cases[0].prompt)
        )
    return tuple(sorted(reasons, key=lambda reason: _STRONGEST_FIRST.index(reason.leads_to)))


def _broken_decision(policy: GatePolicy, suite: SuiteReport | None) -> Decision:
    """The decision that a broken case leads to."""
    if policy.on_broken == "warn":
        return "accept"
    if policy.on_broken == "block" or suite is None or not suite.net:
        return "reject"
    return _net_decision(suite)


def _net_decision(suite: SuiteReport) -> Decision:
    """The decision that weighing broken against fixed cases leads to."""
    match suite.status:
        case "worse":
            return "reject"
        case "undecided":
            return "undecided"
        case "unmeasured":
            return "unmeasured"
        case _:
            return "accept"


def _case_reasons(
    case: CaseReport, policy: GatePolicy, suites: Mapping[str, SuiteReport]
) -> Iterator[Reason]:
    if case.accepted and case.state != "unchanged":
        yield _case_reason(case, "accepted", "accept")
    suite = suites.get(case.prompt)
    match case.status:
        case "broken" if case.tier == "critical":
            yield _case_reason(case, "critical", "reject")
        case "broken" if not case.accepted:
            yield _case_reason(case, "broken", _broken_decision(policy, suite))
        case "new" if case.bar is not None and case.candidate.failed > case.bar.failed:
            kind: ReasonKind = "critical" if case.tier == "critical" else "new"
            yield _case_reason(case, kind, "reject" if case.blocks else "accept")
        case "removed" if case.blocks:
            yield _case_reason(case, "removed", "reject")
        case "unmeasured" | "undecided" if case.unmeasured_trials or case.unrecorded_trials:
            yield _missing_reason(case, policy)
        case "unmeasured":
            yield _case_reason(case, "unmeasured", "unmeasured")
        case "undecided":
            is_weighed = suite is not None and suite.net and suite.status in {"passed", "worse"}
            accepts = is_weighed or _may_break(case)
            leads_to = "accept" if accepts else _if_blocking(policy.on_undecided)
            yield _case_reason(case, "undecided", leads_to)
        case "drifted":
            yield _case_reason(case, "drifted", _if_blocking(policy.on_drifted))
        case _:
            return


def _missing_reason(case: CaseReport, policy: GatePolicy) -> Reason:
    kind: ReasonKind = "unmeasured" if case.unmeasured_trials else "not-recorded"
    if case.status == "unmeasured":
        return _case_reason(case, kind, "unmeasured")
    accepts = policy.provisional or (_may_break(case) and not case.unmeasured_trials)
    return _case_reason(case, kind, "accept" if accepts else "undecided")


def _may_break(case: CaseReport) -> bool:
    return bool(case.accepted) and case.tier != "critical"


def _suite_reasons(suite: SuiteReport, policy: GatePolicy) -> Iterator[Reason]:
    if suite.net:
        kind: ReasonKind = "not-recorded" if suite.unrecorded_trials else "net"
        yield _suite_reason(suite, kind, _net_decision(suite))
        return
    match suite.status:
        case "worse":
            last = suite.pairs[-1]
            lower = min(last.p_values, key=last.p_values.__getitem__)
            yield _suite_reason(suite, "scores" if lower else "suite", "reject", lower)
        case "undecided":
            # Recordings that request pairs show a loss; only the pairs show its side.
            last_round = suite.rounds[-1] if suite.rounds else None
            needs_pairs = last_round is not None and (
                min([last_round.p_value, *last_round.scores.values()]) <= last_round.bound
            )
            provisional = policy.provisional and not needs_pairs
            yield _suite_reason(suite, "not-recorded", "accept" if provisional else "undecided")
        case "unmeasured":
            yield _suite_reason(suite, "unmeasured", "unmeasured")
        case "unconfirmed":
            yield _suite_reason(suite, "suite", "accept")
        case _:
            return


def _case_reason(case: CaseReport, kind: ReasonKind, leads_to: Decision) -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=case.prompt, case=case.case)


def _suite_reason(
    suite: SuiteReport, kind: ReasonKind, leads_to: Decision, check: str = ""
) -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=suite.prompt, check=check)


def _if_blocking(choice: str) -> Decision:
    return "undecided" if choice == "block" else "accept"


class Gate:
    """Compares a candidate with the base, round by round.

    Run all `pending_trials` in any order, `observe` each result, and repeat until none are pending.
    The same trials always give the same outcome, in whatever order they arrive.
    """

    def __init__(
        self,
        cases: Iterable[GateCase],
        policy: GatePolicy,
        *,
        elsewhere: Mapping[str, int] | None = None,
    ) -> None:
        """Begin with the cases of all prompts that are compared together.

        Args:
            cases: The cases.
            policy: Acceptance policy.
            elsewhere: Approximate number of changed cases in other shards, by prompt.

        Raises:
            ValueError: If two cases have the same prompt and id.
        """
        self._policy = policy
        gate_cases = list(cases)
        changed = Counter(case.prompt for case in gate_cases if case.state == "changed")
        changed.update(elsewhere)
        self._first = {
            case.prompt: policy.first_trials_of(changed[case.prompt]) for case in gate_cases
        }
        self._cases = [
            CaseTrials(
                case,
                first=self._first_trials_of(case),
                seeds=max(policy.first_baseline, self._first[case.prompt]),
                replay=policy.provisional or case.recorded,
            )
            for case in gate_cases
        ]
        self._by_key = {case.case.key: case for case in self._cases}
        if len(self._by_key) < len(self._cases):
            raise ValueError("two cases of one prompt have the same id")
        self._case_stage: CaseStage | None = None
        # Reports of single cases, which trials for the suites do not change.
        self._reports: tuple[CaseReport, ...] = ()
        self._suites: list[SuiteStage] = []
        self._pending: list[tuple[CaseTrials, Side, range, bool]] = []
        self._pending_count = 0
        self._finished = False
        self._rounds = self._process()
        self._advance()

    def first_trials(self, prompt: str) -> int:
        """Trials of every case of a prompt in the first round."""
        return self._first[prompt]

    def pending_trials(self) -> tuple[TrialRequest, ...]:
        """The trials of this round without a result; empty when all is decided.

        Paired trials of both sides come next to each other, pair by pair. Repeated calls return the
        same trials; an observed trial is never requested again.
        """
        requests: list[TrialRequest] = []
        paired: dict[tuple[str, str], dict[Side, list[int]]] = {}
        for case, side, numbers, is_paired in self._pending:
            if is_paired:
                pending = [number for number in numbers if case.is_pending(side, number)]
                paired.setdefault(case.case.key, {})[side] = pending
                continue
            requests += [
                TrialRequest(prompt=case.case.prompt, case=case.case.case, side=side, trials=run)
                for run in _pending_runs(case, side, numbers)
            ]
        for key, sides in paired.items():
            # The sides take turns at coming first.
            pairs = zip_longest(sides.get("candidate", []), sides.get("base", []))
            for turn, (new, of_base) in enumerate(pairs):
                turn_order: list[tuple[Side, int | None]] = [("candidate", new), ("base", of_base)]
                for side, number in turn_order if turn % 2 else reversed(turn_order):
                    if number is not None:
                        only = range(number, number + 1)
                        requests.append(
                            TrialRequest(prompt=key[0], case=key[1], side=side, trials=only)
                        )
        return tuple(requests)

    def observe(
        self,
        prompt: str,
        case: str,
        side: Side,
        number: int,
        facts: TrialFacts | NotRecorded | None,
    ) -> None:
        """Add the result of one pending trial.

        Args:
            number: Number as in `TrialRequest.trials`.
            facts: Result of the trial; None if it is unmeasured after all retries; `not-recorded`
                if only recordings may be used and it has none; `unavailable` if the base's target
                cannot be called.

        Raises:
            ValueError: If the trial is not pending.
        """
        case_trials = self._by_key.get((prompt, case))
        if case_trials is None or not case_trials.is_pending(side, number):
            raise ValueError(
                f"trial {number} of {side} for case {case!r} of {prompt!r} is not wanted"
            )
        case_trials.add(side, number, facts)
        self._pending_count -= 1
        if not self._pending_count:
            self._advance()

    def outcome(self) -> GateOutcome:
        """The decision so far; final once no trials are pending.

        Before that, cases with pending trials count as unmeasured.
        """
        suites = tuple(stage.report() for stage in self._suites)
        cases = with_blocks(self._reports or self._case_reports(), suites, self._policy)
        reasons = reasons_for(cases, suites, self._policy)
        decision = reasons[0].leads_to if reasons else "accept"
        if not self._finished and decision != "reject":
            decision = "unmeasured"
        return GateOutcome(
            decision=decision,
            cases=cases,
            suites=suites,
            reasons=reasons,
            policy=self._policy,
            checks=len(self._case_stage.checks) if self._case_stage is not None else 0,
            base_trials=sum(sum(1 for _ in case.facts("base")) for case in self._cases),
            finished=self._finished,
            first_trials=self._first,
        )

    def _process(self) -> Iterator[list[Request]]:
        """The rounds from beginning to end; results are evaluated between them."""
        compared_cases = [
            case_trials
            for case_trials in self._cases
            if case_trials.case.state in {"changed", "new"}
        ]
        changed = [
            case_trials for case_trials in compared_cases if case_trials.case.state == "changed"
        ]
        by_prompt: dict[str, list[CaseTrials]] = {}
        for case_trials in changed:
            by_prompt.setdefault(case_trials.case.prompt, []).append(case_trials)
        yield list(self._first_round(compared_cases, by_prompt))
        self._case_stage = CaseStage(
            [case_trials for case_trials in changed if case_trials.case.tier == "required"],
            self._policy,
        )
        yield from _merge_rounds([self._critical_trials(compared_cases), self._case_stage.rounds()])
        for case_trials in compared_cases:
            case_trials.end_case_test()
        self._reports = self._case_reports()
        required_reports = [
            case for case in self._reports if case.tier == "required" and not case.accepted
        ]
        accepted_reports = [
            case for case in self._reports if case.accepted and case.status == "broken"
        ]
        self._suites = [
            SuiteStage(
                prompt,
                cases,
                self._policy,
                prompts=len(by_prompt),
                first_trials=self._first[prompt],
                broken=[
                    c.case for c in required_reports if (c.prompt, c.status) == (prompt, "broken")
                ],
                fixed=[
                    c.case for c in required_reports if (c.prompt, c.status) == (prompt, "fixed")
                ],
                accepted=[c.case for c in accepted_reports if c.prompt == prompt],
            )
            for prompt, cases in by_prompt.items()
        ]
        blocked = any(case.blocks for case in self._reports) or any(
            suite.rejects_cases for suite in self._suites
        )
        yield from _merge_rounds([suite.rounds(blocked=blocked) for suite in self._suites])

    def _first_round(
        self, compared_cases: list[CaseTrials], by_prompt: Mapping[str, list[CaseTrials]]
    ) -> Iterator[Request]:
        for case_trials in compared_cases:
            yield Request(case_trials, "candidate", case_trials.first)
            yield Request(case_trials, "base", case_trials.seeds)
        for cases in by_prompt.values():
            cases_with_baseline = sorted(
                (case for case in cases if case.has_baseline), key=_hash_of
            )
            for case_trials in cases_with_baseline[: self._policy.suite.control]:
                yield Request(case_trials, "base", 1)

    def _first_trials_of(self, case: GateCase) -> int:
        first = self._first[case.prompt]
        if case.tier == "critical":
            return max(first, self._policy.critical.first)
        if case.state == "new":
            return self._policy.new_trials if case.tier == "required" else 1
        return first

    def _critical_trials(self, compared_cases: list[CaseTrials]) -> Iterator[list[Request]]:
        """Further trials of critical cases that failed."""
        requests: list[Request] = []
        for case in compared_cases:
            if case.case.tier == "critical":
                failures = sum(facts.passed is False for facts in case.facts("candidate"))
                trials = critical_policy(case, self._policy).count_trials(failures)
                requests.append(Request(case, "candidate", trials))
        yield requests

    def _case_reports(self) -> tuple[CaseReport, ...]:
        return tuple(case_report(case, self._case_stage, self._policy) for case in self._cases)

    def _advance(self) -> None:
        """Continue to the next round with a new trial."""
        while not self._pending_count and not self._finished:
            requests = next(self._rounds, None)
            self._finished = requests is None
            self._pending = []
            for case, side, stop, paired in requests or ():
                if trials := case.request(side, stop):
                    self._pending.append((case, side, trials, paired))
                    self._pending_count += len(trials)


def _merge_rounds(processes: list[Iterator[list[Request]]]) -> Iterator[list[Request]]:
    """The rounds of several processes side by side."""
    empty_round: list[Request] = []
    for rounds in zip_longest(*processes, fillvalue=empty_round):
        yield list(chain.from_iterable(rounds))


def _hash_of(case: CaseTrials) -> str:
    """A sort key of cases that depends on their records only."""
    before = case.count_baseline()
    return digest_of({"case": [*case.case.key], "before": [before.passed, before.trials]})


def _pending_runs(case: CaseTrials, side: Side, numbers: range) -> Iterator[range]:
    """The pending parts of a range."""
    for is_pending, run in groupby(numbers, lambda number: case.is_pending(side, number)):
        if is_pending:
            first, *later = run
            yield range(first, first + 1 + len(later))
