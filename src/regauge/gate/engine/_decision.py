"""From what was found to one decision, with every reason for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.gate._outcome import Reason, accepted_broken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.gate._outcome import CaseReport, Decision, ReasonKind, SuiteReport
    from regauge.gate._policy import GatePolicy

# Of several reasons the first here decides.
_STRONGEST_FIRST: tuple[Decision, ...] = ("reject", "unmeasured", "undecided", "accept")


def with_blocks(
    cases: Sequence[CaseReport], suites: Sequence[SuiteReport], policy: GatePolicy
) -> tuple[CaseReport, ...]:
    """The cases, where broken ones note whether they keep the change from being accepted."""
    by_prompt = {suite.prompt: suite for suite in suites}
    return tuple(
        replace(case, blocks=_of_broken(policy, by_prompt.get(case.prompt)) != "accept")
        if _is_broken(case)
        else case
        for case in cases
    )


def reasons_for(
    cases: Sequence[CaseReport], suites: Sequence[SuiteReport], policy: GatePolicy
) -> tuple[Reason, ...]:
    """Everything the decision rests on or a reader should know, what decides first."""
    by_prompt = {suite.prompt: suite for suite in suites}
    found = [reason for case in cases for reason in _of_case(case, policy, by_prompt)]
    found += [reason for suite in suites for reason in _of_suite(suite, policy)]
    spared = accepted_broken(cases)
    if policy.accepted_max is not None and len(spared) > policy.accepted_max:
        found.append(Reason(kind="accepted-max", leads_to="reject", prompt=spared[0].prompt))
    return tuple(sorted(found, key=lambda reason: _STRONGEST_FIRST.index(reason.leads_to)))


def decided_by(reasons: Sequence[Reason]) -> Decision:
    """What all reasons together lead to."""
    return reasons[0].leads_to if reasons else "accept"


def _is_broken(case: CaseReport) -> bool:
    return case.verdict == "broken" and case.tier == "required" and not case.accepted


def _of_broken(policy: GatePolicy, suite: SuiteReport | None) -> Decision:
    """What a broken case leads to."""
    if policy.on_broken == "warn":
        return "accept"
    if policy.on_broken == "block" or suite is None or not suite.net:
        return "reject"
    return _weighed(suite)


def _weighed(suite: SuiteReport) -> Decision:
    """What the weighing of broken and fixed cases leads to."""
    match suite.verdict:
        case "worse":
            return "reject"
        case "undecided":
            return "undecided"
        case "unmeasured":
            return "unmeasured"
        case _:
            return "accept"


def _of_case(
    case: CaseReport, policy: GatePolicy, suites: Mapping[str, SuiteReport]
) -> Iterator[Reason]:
    if case.accepted and case.state != "unchanged":
        yield _single(case, "accepted", "accept")
    suite = suites.get(case.prompt)
    match case.verdict:
        case "broken" if case.tier == "critical":
            yield _single(case, "critical", "reject")
        case "broken" if not case.accepted:
            yield _single(case, "broken", _of_broken(policy, suite))
        case "new" if case.bar is not None and case.candidate.failed > case.bar.failed:
            kind: ReasonKind = "critical" if case.tier == "critical" else "new"
            yield _single(case, kind, "reject" if case.blocks else "accept")
        case "removed" if case.blocks:
            yield _single(case, "removed", "reject")
        case "unmeasured" | "undecided" if case.missing or case.needs:
            yield _without_trials(case, policy)
        case "unmeasured":
            yield _single(case, "unmeasured", "unmeasured")
        case "undecided":
            weighed = suite is not None and suite.net and suite.verdict in {"passed", "worse"}
            leads_to = "accept" if weighed else _if_blocking(policy.on_undecided)
            yield _single(case, "undecided", leads_to)
        case "drifted":
            yield _single(case, "drifted", _if_blocking(policy.on_drifted))
        case _:
            return


def _without_trials(case: CaseReport, policy: GatePolicy) -> Reason:
    kind: ReasonKind = "unmeasured" if case.missing else "not-recorded"
    if case.verdict == "unmeasured":
        return _single(case, kind, "unmeasured")
    return _single(case, kind, "accept" if policy.provisional else "undecided")


def _of_suite(suite: SuiteReport, policy: GatePolicy) -> Iterator[Reason]:
    if suite.net:
        kind: ReasonKind = "not-recorded" if suite.needs else "net"
        yield _whole(suite, kind, _weighed(suite))
        return
    match suite.verdict:
        case "worse":
            last = suite.pairs[-1]
            lower = min(last.p_values, key=last.p_values.__getitem__)
            yield _whole(suite, "scores" if lower else "suite", "reject", lower)
        case "undecided":
            # Recordings that ask for pairs show a loss; without the pairs nobody knows whose it is.
            left = policy.provisional and not _asks_for_pairs(suite)
            yield _whole(suite, "not-recorded", "accept" if left else "undecided")
        case "unmeasured":
            yield _whole(suite, "unmeasured", "unmeasured")
        case "unconfirmed":
            yield _whole(suite, "suite", "accept")
        case _:
            return


def _asks_for_pairs(suite: SuiteReport) -> bool:
    """Whether the candidate is worse than the base's record, which pairs of today would test."""
    last = suite.rounds[-1] if suite.rounds else None
    return last is not None and min([last.p_value, *last.scores.values()]) <= last.bound


def _single(case: CaseReport, kind: ReasonKind, leads_to: Decision) -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=case.prompt, case=case.case)


def _whole(suite: SuiteReport, kind: ReasonKind, leads_to: Decision, check: str = "") -> Reason:
    return Reason(kind=kind, leads_to=leads_to, prompt=suite.prompt, check=check)


def _if_blocking(choice: str) -> Decision:
    return "undecided" if choice == "block" else "accept"
