"""Messages about whole prompts, in plain counts, and the words of reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.gate._outcome import GateOutcome, Reason, SuiteReport

__all__ = [
    "control_note",
    "critical_note",
    "difference_text",
    "reason_message",
    "suite_message",
]

# What main should show of a case before it is called critical.
_CRITICAL_TRIALS = 20


def suite_message(report: SuiteReport) -> str:
    r"""The result of all cases of one prompt together.

    >>> from regauge.gate import SuiteReport
    >>> suite_message(SuiteReport(prompt="triage", verdict="passed", cases=40))
    'triage: 40 cases compared; no loss against the baseline.'
    """
    return f"{report.prompt}: {_sentence(report)}"


def difference_text(report: SuiteReport) -> str:
    """The headline numbers of one prompt: points up or down with the interval, fixed, broken.

    >>> from regauge.gate import SuiteReport
    >>> from regauge.stats import RateDifference
    >>> difference = RateDifference(main=0.5, candidate=0.644, low=0.08, high=0.21)
    >>> difference_text(
    ...     SuiteReport(
    ...         prompt="p", verdict="passed", cases=90, broken=5, fixed=15, difference=difference
    ...     )
    ... )
    '+14.4 points (+8.0 to +21.0): 15 fixed, 5 broken'
    """
    parts: list[str] = []
    if report.difference is not None:
        points, low, high = (
            f"{100 * value:+.1f}"
            for value in (report.difference.value, report.difference.low, report.difference.high)
        )
        parts.append(f"{points} points ({low} to {high})")
    if report.fixed or report.broken:
        counts = [(report.fixed, "fixed"), (report.broken, "broken")]
        more_broken = report.broken > report.fixed
        ordered = reversed(counts) if more_broken else counts
        parts.append(", ".join(f"{count} {word}" for count, word in ordered))
    return ": ".join(parts)


def control_note(outcome: GateOutcome) -> str:
    """Prompts whose main is below its record in the first round; empty where none is.

    The lamp has few trials: where it is off, nothing is said.
    """
    lit = [
        f"{suite.prompt} (passed {suite.control.main}, p = {suite.control.p_history:.2g})"
        for suite in outcome.suites
        if suite.control is not None and suite.control.below
    ]
    return f"main is below its record today: {', '.join(lit)}" if lit else ""


def _sentence(report: SuiteReport) -> str:
    if report.net:
        return _weighed(report)
    if report.pairs and report.verdict in {"worse", "unconfirmed"}:
        last = report.pairs[-1]
        confirmed = "confirmed" if report.verdict == "worse" else "not confirmed"
        return (
            f"{_asked(report)}, {confirmed} side by side ({_p(min(last.p_values.values()))}): the"
            f" candidate passed {last.candidate} trials, main {last.main}."
        )
    compared = f"{plural(report.cases, 'case')} compared"
    match report.verdict:
        case "undecided":
            needs = plural(report.needs, "live trial")
            asked = f"{_asked(report)}, not yet tested side by side: that " if report.asked else ""
            return f"{asked}needs {needs}{'' if asked else ' to judge the prompt as a whole'}."
        case "unmeasured":
            return "trials of it have no verdict."
        case "passed":
            return f"{compared}; no loss against the baseline."
        case _:
            return f"{compared}."


def _asked(report: SuiteReport) -> str:
    """Failures next to those the baseline predicts, and how likely that is by chance."""
    last = report.rounds[-1]
    stable = (
        f", and {report.stable_failed} failed in cases that main never failed"
        if report.stable_failed
        else ""
    )
    words = (
        f"{last.fails} of {last.drawn} trials failed; main's baseline predicts"
        f" {_decimal(last.expected)}{stable}"
    )
    lower = [check for check in report.asked if check]
    if lower:
        words += f"; scores of {', '.join(lower)} are lower"
    asking = [last.scores[check] if check else last.p_value for check in report.asked] or [
        last.p_value
    ]
    return f"{words} ({_p(min(asking))})"


def _weighed(report: SuiteReport) -> str:
    last = report.net[-1]
    points = 100 * (last.candidate.rate - last.main.rate)
    sides = f"the candidate passed {last.candidate} where main passed {last.main} today"
    counts = f"{report.broken} broken, {report.fixed} fixed"
    match report.verdict:
        case "worse":
            return f"{counts}: worse on the whole side by side ({_p(last.p_worse)}); {sides}."
        case "passed" if last.p_better <= last.bound or points > 0:
            return f"{counts}: better on the whole side by side ({_p(last.p_better)}); {sides}."
        case "passed":
            return f"{counts}: not worse on the whole side by side; {sides}."
        case "unmeasured":
            return f"{counts}: trials that weigh them have no verdict."
        case _ if report.needs:
            needed = plural(report.needs, "live trial")
            return f"{counts}: to weigh them takes {needed}."
        case _:
            return (
                f"{counts}: {points:+.1f} points side by side ({_p(last.p_worse)}), which is"
                f" neither worse nor as good; {sides}. Add trials (--more-trials 8)."
            )


def reason_message(
    reason: Reason, outcome: GateOutcome, *, case_messages: Mapping[tuple[str, str], str]
) -> str:
    """One reason of a decision, in words that need nothing else.

    Args:
        reason: One of the outcome's.
        outcome: What the gate decided.
        case_messages: What `case_message` says, by prompt and case.
    """
    if reason.case:
        return case_messages[reason.prompt, reason.case]
    if reason.kind == "accepted-max":
        accepted = f"{len(outcome.accepted_broken)} of {plural(len(outcome.cases), 'case')}"
        limit = outcome.policy.accepted_max
        return f"{accepted} accepted by the author's word; accepted_max = {limit}"
    suite = next((suite for suite in outcome.suites if suite.prompt == reason.prompt), None)
    return suite_message(suite) if suite is not None else f"{reason.prompt}: {reason.kind}"


def critical_note(outcome: GateOutcome) -> str:
    """How sure main's record makes the critical cases that were drawn; empty without any.

    A case that never failed in m trials may still fail up to 3/m of the time (rule of three).
    """
    drawn = [case for case in outcome.cases if case.tier == "critical" and case.candidate.trials]
    bounds = [case.failure_bound for case in drawn if case.failure_bound is not None]
    thin = [case for case in drawn if case.history.trials < _CRITICAL_TRIALS or case.history.failed]
    if not drawn:
        return ""
    words = plural(len(drawn), "critical case")
    if bounds:
        words += (
            f"; what main never failed may still fail up to {100 * max(bounds):.0f} of 100 times,"
            " so few trials there are of it"
        )
    if thin:
        words += (
            f"; {len(thin)} without {_CRITICAL_TRIALS} of {_CRITICAL_TRIALS} on main, which a"
            " critical case should have"
        )
    return words


def _decimal(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _p(p_value: float) -> str:
    """A p-value as text.

    >>> _p(0.0312), _p(1e-12)
    ('p = 0.031', 'p < 0.000001')
    """
    if p_value < 1e-6:  # noqa: PLR2004 - the digits below
        return "p < 0.000001"
    text = f"{p_value:.2g}"
    return f"p = {float(text):f}".rstrip("0") if "e" in text else f"p = {text}"
