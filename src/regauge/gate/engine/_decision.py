"""From what was found to one decision, with every reason for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.gate._outcome import Reason
from regauge.stats import sign_test_p_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate._outcome import CaseReport, Decision, ReasonKind, SuiteReport
    from regauge.gate._policy import GatePolicy

# Of several things the first here decides.
_STRONGEST_FIRST: tuple[Decision, ...] = ("reject", "unmeasured", "undecided", "accept")
# With `case_flips: net` more cases must have broken than were repaired, at this level.
_NET_ALPHA = 0.05


def flips_block(cases: Sequence[CaseReport], policy: GatePolicy) -> bool:
    """Whether broken cases, accepted ones apart, keep the change from being accepted."""
    broken = sum(1 for case in cases if _broken(case))
    match policy.case_flips:
        case "block":
            return broken > 0
        case "net":
            repaired = sum(1 for case in cases if case.verdict == "improved")
            return broken > 0 and sign_test_p_value(broken, repaired) <= _NET_ALPHA
        case "warn":
            return False


def reasons_for(
    cases: Sequence[CaseReport], suites: Sequence[SuiteReport], policy: GatePolicy
) -> tuple[Reason, ...]:
    """Everything the decision rests on or a reader should know, what decides first."""
    flips: Decision = "reject" if flips_block(cases, policy) else "accept"
    found = [reason for case in cases for reason in _of_case(case, policy, flips)]
    found += [reason for suite in suites for reason in _of_suite(suite, policy)]
    return tuple(sorted(found, key=lambda reason: _STRONGEST_FIRST.index(reason.leads_to)))


def decided_by(reasons: Sequence[Reason]) -> Decision:
    """What all reasons together lead to."""
    return reasons[0].leads_to if reasons else "accept"


def _broken(case: CaseReport) -> bool:
    return case.verdict == "regressed" and case.tier == "required" and not case.accepted


def _of_case(case: CaseReport, policy: GatePolicy, flips: Decision) -> Iterator[Reason]:
    if case.accepted and case.state != "unchanged":
        yield _single(case, "accepted", "accept")
    match case.verdict:
        case "regressed" if case.tier == "critical":
            yield _single(case, "critical", "reject")
        case "regressed" if not case.accepted:
            yield _single(case, "regressed", flips)
        case "new" if case.bar is not None and case.candidate.failed > case.bar.failed:
            kind: ReasonKind = "critical" if case.tier == "critical" else "new"
            yield _single(case, kind, "reject" if case.blocks else "accept")
        case "removed" if case.blocks:
            yield _single(case, "removed", "reject")
        case "unmeasured" | "undecided" if case.missing or case.needs:
            yield _without_trials(case)
        case "unmeasured":
            yield _single(case, "unmeasured", "unmeasured")
        case "undecided":
            yield _single(case, "undecided", _if_blocking(policy.on_undecided))
        case "drifted":
            yield _single(case, "drifted", _if_blocking(policy.on_drifted))
        case _:
            return


def _without_trials(case: CaseReport) -> Reason:
    kind: ReasonKind = "unmeasured" if case.missing else "not-recorded"
    return _single(case, kind, "unmeasured" if case.verdict == "unmeasured" else "undecided")


def _of_suite(suite: SuiteReport, policy: GatePolicy) -> Iterator[Reason]:
    match suite.verdict:
        case "regressed":
            last = suite.rounds[-1]
            lower = min(last.scores, key=last.scores.__getitem__, default="")
            if suite.head_to_head is not None:
                yield _whole(suite, "head-to-head", "reject", suite.head_to_head.check)
            elif last.p_value <= last.bound:
                yield _whole(suite, "suite", "reject")
            else:
                yield _whole(suite, "scores", "reject", lower)
        case "drifted":
            yield _whole(suite, "drifted", _if_blocking(policy.on_drifted))
        case "undecided":
            yield _whole(suite, "not-recorded", "undecided")
        case "unmeasured":
            yield _whole(suite, "unmeasured", "unmeasured")
        case _:
            return


def _single(case: CaseReport, kind: ReasonKind, leads_to: Decision) -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=case.prompt, case=case.case)


def _whole(suite: SuiteReport, kind: ReasonKind, leads_to: Decision, check: str = "") -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=suite.prompt, check=check)


def _if_blocking(choice: str) -> Decision:
    return "undecided" if choice == "block" else "accept"
