"""Messages about single cases and whole prompts, in plain counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.gate._types import CRITICAL_TRIALS
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from regauge.evidence import CaseStatus, Count, SuiteReport
    from regauge.gate._types import CaseReport, GateOutcome, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """The facts of a run that messages about cases use.

    Attributes:
        checks: Number of checks tested together.
        has_baseline: Whether the base has trials from before this run.
        unmeasured: Cause of missing verdicts, on one line.
        across_models: Whether two models are compared, and not only two prompts.
        provisional: Whether recorded trials alone decided.
        base_unavailable: Whether the base's target cannot be called.
        is_recorded: Whether the target is a file of outputs, which no run adds to.
    """

    checks: int
    has_baseline: bool = True
    unmeasured: str = ""
    across_models: bool = False
    provisional: bool = False
    base_unavailable: bool = False
    is_recorded: bool = False


def case_message(report: CaseReport, context: MessageContext) -> str:
    """The result of one case and its meaning, as a message."""
    return f"{report.prompt}/{report.case}: {_TEXTS[report.status](report, context)}"


def _broken_text(report: CaseReport, context: MessageContext) -> str:
    if report.tier == "critical" and report.bar is not None:
        return (
            f"failed {_failed(report.candidate)} new trials (bar: {report.bar}). It is critical,"
            " so it blocks whatever base does."
        )
    new, today, before = _counts(report)
    decisive = report.decisive
    check = f" {decisive.check} in" if decisive is not None and len(report.checks) > 1 else ""
    side = "the other model" if context.across_models else "the candidate"
    words = f"failed{check} {_failed(new)} new trials; base passed {before} before."
    if not context.has_baseline:
        words = f"failed{check} {_failed(new)} new trials; base passed {before} in this run."
    if decisive is not None and today.trials:
        words += f" Side by side today: {side} {decisive.paired}, base {today}."
    if report.edit_sensitive:
        words += (
            f" It broke in {plural(report.broke_before, 'version')} before as well, and was"
            " accepted: it is edit-sensitive; consider the tier `tracked`."
        )
    return f"{words} {_repeat_text(report)}" if report.repeat_count else words


def _fixed_text(report: CaseReport, _: MessageContext) -> str:
    return f"passes {_counts(report)[0]}; base passed {_base(report)}."


def _drifted_text(report: CaseReport, _: MessageContext) -> str:
    """The text if both sides are worse than the record, for an unknown cause."""
    new, today, before = _counts(report)
    decisive = report.decisive
    if decisive is not None and decisive.direction == "better":
        return (
            f"passed {new}; base also passes today, {today} ({before} before). The prompt did not"
            " fix it."
        )
    return (
        f"failed {_failed(new)} trials; base also fails today: passed {today} ({before} before)."
        " Side by side the candidate is not worse."
    )


def _known_failing_text(report: CaseReport, _: MessageContext) -> str:
    return f"base fails {_failed(_base(report))} trials; unchanged."


def _new_case_text(report: CaseReport, _: MessageContext) -> str:
    bar = f" (bar: {report.bar})" if report.bar is not None else ""
    passed = f"no baseline; passed {report.candidate}{bar}."
    if not report.blocks:
        return passed
    failed = ", ".join(
        f"{check.check} failed {_failed(check.candidate)}"
        for check in report.checks
        if check.candidate.failed
    )
    details = f": {failed}" if failed else ""
    return f"{passed} It misses its bar{details}. To report it without blocking: `tier: tracked`."


def _passed_text(report: CaseReport, _: MessageContext) -> str:
    if not report.candidate.trials:
        return "not run."
    return f"passed {report.candidate}; base passed {_base(report)}."


def _unchanged_text(_report: CaseReport, _: MessageContext) -> str:
    return "the request is the same to the byte; not run."


def _unmeasured_text(report: CaseReport, context: MessageContext) -> str:
    if context.is_recorded and not report.recorded:
        return "the file of outputs has none of it."
    if report.unrecorded_trials and not report.unmeasured_trials:
        live_trials = plural(report.unrecorded_trials, "live trial")
        return f"none of its trials is recorded; it needs {live_trials}."
    requested_trials = report.candidate.trials + report.unmeasured_trials
    cause = f" ({context.unmeasured})" if context.unmeasured else ""
    if requested_trials == 1:
        return f"its only trial has no verdict{cause}."
    trials = f"{report.unmeasured_trials or 'some'} of {requested_trials or 'its'} trials"
    return f"{trials} have no verdict{cause}."


def _mixed_text(report: CaseReport, _: MessageContext) -> str:
    """The text for mixed and flaky cases: failures of both sides."""
    new, today, before = _counts(report)
    base = before + today
    fails = f"base fails {_failed(base)}" if base.failed else f"base passed {base}"
    if new.trials > 1 and new.failed == 1:
        words = f"failed once, passed {new.passed} of {new.trials - 1} other trials"
    elif new.failed:
        words = "failed its only trial" if new.trials == 1 else f"failed {_failed(new)} trials"
    else:
        words = f"passed {new}"
    tracked = "Tracked, not blocking." if report.tier == "tracked" else "Not blocking."
    return f"{words}; {fails}. {tracked}"


def _undecided_text(report: CaseReport, context: MessageContext) -> str:
    new, today, before = _counts(report)
    if report.unrecorded_trials:
        return _unrecorded_text(report, context)
    if report.repeat_count and not new.passed:
        return f"passed {new}; base passed {before + today}. {_repeat_text(report)}"
    decisive = report.decisive
    if decisive is not None and today.passed < today.trials and 2 * today.passed < today.trials:
        return (
            f"passed {new}, side by side {decisive.paired}; base passes only {today} today"
            f" ({before} before): the difference may be chance. {_MORE_TRIALS_HINT}"
        )
    side = f", {today} today" if today.trials else ""
    return (
        f"passed {new}; base passed {before} before{side}. Probably worse, not certain among"
        f" {context.checks} checks. {_MORE_TRIALS_HINT}"
    )


def _unrecorded_text(report: CaseReport, context: MessageContext) -> str:
    new, _, before = _counts(report)
    if context.provisional:
        return (
            f"failed {_failed(new)} recorded trials; base passed {before}. Left to the audit: a run"
            " with a key tests it side by side."
        )
    if context.is_recorded:
        return f"failed {_failed(new)} outputs; base passed {before}. There are no more outputs."
    if context.base_unavailable:
        earlier = f"; base passed {before} before" if before.trials else ""
        return f"failed {_failed(new)} new trials{earlier}. Base cannot be called to compare."
    few = {0: "none is recorded", 1: "only 1 is recorded"}
    recorded = few.get(report.recorded, f"only {report.recorded} are recorded")
    return f"needs {plural(report.unrecorded_trials, 'live trial')}; {recorded}."


def _removed_text(report: CaseReport, _: MessageContext) -> str:
    if report.accepted:
        return "removed, as listed in the changelog."
    return removal_text(report.case)


def removal_text(case: str) -> str:
    """The fix of a case that was removed without an entry in the changelog."""
    return (
        "base has this case and it is gone. Put it back, or give a reason in the changelog of the"
        f" prompt: `removed: [{{case: {case}, reason: ...}}]`."
    )


def _repeat_text(report: CaseReport) -> str:
    times = "time" if report.repeat_count == 1 else "times"
    return (
        f"The same completion was returned {report.repeat_count} {times} and counts once: a"
        " cache, or a fixed seed."
    )


_MORE_TRIALS_HINT = "Add trials (--more-trials 8), or mark the case critical."
_TEXTS: Final[Mapping[CaseStatus, Callable[[CaseReport, MessageContext], str]]] = {
    "broken": _broken_text,
    "fixed": _fixed_text,
    "flaky": _mixed_text,
    "mixed": _mixed_text,
    "undecided": _undecided_text,
    "drifted": _drifted_text,
    "known-failing": _known_failing_text,
    "new": _new_case_text,
    "passed": _passed_text,
    "unchanged": _unchanged_text,
    "removed": _removed_text,
    "unmeasured": _unmeasured_text,
}


def _counts(report: CaseReport) -> tuple[Count, Count, Count]:
    """Candidate, base today and base before: of the decisive check, or of the case."""
    decisive = report.decisive
    if decisive is None:
        return report.candidate, report.today, report.before
    return decisive.candidate, decisive.today, decisive.before


def _base(report: CaseReport) -> Count:
    _, today, before = _counts(report)
    return before + today


def _failed(count: Count) -> str:
    return f"{count.failed} of {count.trials}"


def suite_message(report: SuiteReport, *, base_unavailable: bool = False) -> str:
    r"""The result of all cases of one prompt together.

    >>> from regauge.gate import SuiteReport
    >>> suite_message(SuiteReport(prompt="triage", status="passed", cases=40))
    'triage: 40 cases compared; no loss against the baseline.'
    """
    if base_unavailable and report.status == "undecided" and report.suspects:
        return f"{report.prompt}: {_loss_text(report)}, and base cannot be called to compare."
    return f"{report.prompt}: {_suite_text(report)}"


def control_note(outcome: GateOutcome) -> str:
    """Prompts whose base is worse than its baseline in the first round; empty without any.

    The outage check has few trials: without evidence, it adds no text.
    """
    below = [
        f"{suite.prompt} (passed {suite.control.base}, p = {suite.control.p_baseline:.2g})"
        for suite in outcome.suites
        if suite.control is not None and suite.control.below
    ]
    return f"base is below its record today: {', '.join(below)}" if below else ""


def _suite_text(report: SuiteReport) -> str:
    if report.net:
        return _net_text(report)
    if report.pairs and report.status in {"worse", "unconfirmed"}:
        last = report.pairs[-1]
        result = "confirmed" if report.status == "worse" else "not confirmed"
        least = _p_text(min(last.p_values.values()))
        return (
            f"{_loss_text(report)}, {result} side by side ({least}): the"
            f" candidate passed {last.candidate} trials, base {last.base}."
        )
    intro = f"{plural(report.cases, 'case')} compared"
    match report.status:
        case "undecided":
            live_trials = plural(report.unrecorded_trials, "live trial")
            loss = f"{_loss_text(report)}, not yet tested side by side: " if report.suspects else ""
            purpose = "" if loss else " to judge the prompt as a whole"
            return f"{loss}{'that ' if loss else ''}needs {live_trials}{purpose}."
        case "unmeasured":
            return "trials of it have no verdict."
        case "passed":
            return f"{intro}; no loss against the baseline."
        case _:
            return f"{intro}."


def _loss_text(report: SuiteReport) -> str:
    """Failures compared with those the baseline predicts, and their probability."""
    last = report.rounds[-1]
    stable = (
        f", and {report.stable_failed} failed in cases that base never failed"
        if report.stable_failed
        else ""
    )
    words = (
        f"{last.fails} of {last.total_trials} trials failed; the baseline predicts"
        f" {f'{last.expected:.1f}'.removesuffix('.0')}{stable}"
    )
    lower = [check for check in report.suspects if check]
    if lower:
        words += f"; scores of {', '.join(lower)} are lower"
    p_values = [last.scores[check] if check else last.p_value for check in report.suspects] or [
        last.p_value
    ]
    return f"{words} ({_p_text(min(p_values))})"


def _net_text(report: SuiteReport) -> str:
    last = report.net[-1]
    points = 100 * (last.candidate.rate - last.base.rate)
    sides = f"the candidate passed {last.candidate} where base passed {last.base} today"
    counts = f"{report.broken} broken, {report.fixed} fixed"
    better = _p_text(last.p_better)
    match report.status:
        case "worse":
            return f"{counts}: worse on the whole side by side ({_p_text(last.p_worse)}); {sides}."
        case "passed" if points > 0:
            return f"{counts}: better on the whole side by side ({better}); {sides}."
        case "passed":
            return f"{counts}: not worse on the whole side by side; {sides}."
        case "unmeasured":
            return f"{counts}: trials that weigh them have no verdict."
        case _ if report.unrecorded_trials:
            live_trials = plural(report.unrecorded_trials, "live trial")
            return f"{counts}: to weigh them takes {live_trials}."
        case _:
            return (
                f"{counts}: {points:+.1f} points side by side ({_p_text(last.p_worse)}), which is"
                f" neither worse nor as good; {sides}. Add trials (--more-trials 8)."
            )


def reason_message(
    reason: Reason, outcome: GateOutcome, *, base_unavailable: Collection[str] = ()
) -> str:
    """A reason that is not of a single case, as a message of its own.

    Args:
        reason: A reason of the outcome.
        outcome: Outcome of the gate.
        base_unavailable: Prompts whose target on the base cannot be called.
    """
    if reason.kind == "accepted-max":
        accepted = f"{len(outcome.accepted_broken)} of {plural(len(outcome.cases), 'case')}"
        limit = outcome.policy.accepted_max
        return f"{accepted} accepted by the author's word; accepted_max = {limit}"
    suite = next((suite for suite in outcome.suites if suite.prompt == reason.prompt), None)
    if suite is None:
        return f"{reason.prompt}: {reason.kind}"
    return suite_message(suite, base_unavailable=reason.prompt in base_unavailable)


def critical_note(outcome: GateOutcome) -> str:
    """The failure rate that the baseline leaves open for critical cases; empty without any.

    A case that never failed in m trials may still fail up to 3/m of the time (rule of three).
    """
    critical_cases = [
        case for case in outcome.cases if case.tier == "critical" and case.candidate.trials
    ]
    bounds = [case.failure_bound for case in critical_cases if case.failure_bound is not None]
    thin = [
        case
        for case in critical_cases
        if case.before.trials < CRITICAL_TRIALS or case.before.failed
    ]
    if not critical_cases:
        return ""
    words = plural(len(critical_cases), "critical case")
    if bounds:
        bound = f"{100 * max(bounds):.0f} %"
        words += f"; cases that base never failed may still fail up to {bound} of trials"
    if thin:
        words += (
            f"; {len(thin)} without {CRITICAL_TRIALS} of {CRITICAL_TRIALS} on base, which a"
            " critical case should have"
        )
    return words


def _p_text(p_value: float) -> str:
    """A p-value as text.

    >>> _p_text(0.0312), _p_text(1e-12)
    ('p = 0.031', 'p < 0.000001')
    """
    if p_value < 1e-6:  # noqa: PLR2004 - the digits below
        return "p < 0.000001"
    text = f"{p_value:.2g}"
    return f"p = {float(text):f}".rstrip("0") if "e" in text else f"p = {text}"
