"""What the gate found of whole prompts, in plain counts, and the words of its reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.gate._outcome import GateOutcome, Reason, SuiteReport

__all__ = ["critical_note", "reason_message", "suite_message"]

# What main should show of a case before it is called critical.
_CRITICAL_TRIALS = 20


def suite_message(report: SuiteReport, *, broken: int = 0) -> str:
    """What the cases of one prompt say together.

    Args:
        report: Of the prompt.
        broken: How many of its cases are broken by themselves.
    """
    return f"{report.prompt}: {_suite_sentence(report, broken)}"


def _suite_sentence(report: SuiteReport, broken: int) -> str:
    match report.verdict:
        case "regressed":
            return _suite_regressed(report, broken)
        case "drifted":
            control = f": main, drawn again, passed {report.control.main}" if report.control else ""
            return (
                f"worse than main's history, and so is main today{control}."
                " The model or a judge changed, not the prompt."
            )
        case "undecided" if report.needs:
            return f"needs {plural(report.needs, 'live trial')} to judge the prompt as a whole."
        case "unmeasured":
            return "trials of it have no verdict."
        case _:
            compared = f"{plural(report.cases, 'case')} compared"
            return (
                f"{compared}, no worse than main." if report.verdict == "pass" else f"{compared}."
            )


def _suite_regressed(report: SuiteReport, broken: int) -> str:
    if report.head_to_head is not None:
        arms = report.head_to_head
        return (
            f"the model or a judge changed, and side by side the candidate passed {arms.candidate}"
            f" trials where main passed {arms.main}. Chance of this with an unchanged prompt:"
            f" {_chance(arms.p_value)}."
        )
    last = report.rounds[-1]
    drawn = last.trials * report.cases
    noun = "first trials" if last.trials == 1 else "trials"
    stable = (
        f"; {report.stable_failed} of the cases main has never failed"
        if report.stable_failed
        else ""
    )
    alone = "" if broken else "no single case is clearly broken, but "
    words = (
        f"{alone}{last.fails} of {drawn} {noun} failed where main's record predicts"
        f" {_decimal(last.expected)}{stable}."
    )
    if last.p_value <= last.bound:
        words += f" Chance of this with an unchanged prompt: {_chance(last.p_value)}."
    for check, p_value in last.scores.items():
        if p_value <= last.score_bound:
            words += (
                f" Scores of {check} are lower; chance of this with an unchanged prompt:"
                f" {_chance(p_value)}."
            )
    return words + (" main, drawn again today, is as before." if report.control else "")


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
    suite = next((suite for suite in outcome.suites if suite.prompt == reason.prompt), None)
    broken = sum(
        case.verdict == "regressed" and case.prompt == reason.prompt for case in outcome.cases
    )
    return (
        suite_message(suite, broken=broken)
        if suite is not None
        else f"{reason.prompt}: {reason.kind}"
    )


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


def _chance(p_value: float) -> str:
    """A small probability as people say it.

    >>> _chance(5.69e-4), _chance(0.0)
    ('1 in 1,757', 'less than 1 in 1,000,000,000')
    """
    if p_value < 1e-9:  # noqa: PLR2004 - the words beside it
        return "less than 1 in 1,000,000,000"
    return f"1 in {round(1 / p_value):,}"
