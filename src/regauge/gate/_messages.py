"""What the gate found of a case, in plain counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.gate._outcome import CaseReport, CaseVerdict
    from regauge.gate._types import Count

__all__ = ["MessageContext", "case_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """What messages about cases have to know of their run.

    Attributes:
        cells: How many pairs of case and check were tested together.
        cap: The most trials of one case that this gate draws.
        stored: Whether main's history was drawn before this run.
        unmeasured: Why trials have no verdict, on one line.
        across_models: Whether two models are compared, and not only two prompts.
    """

    cells: int
    cap: int
    stored: bool = True
    unmeasured: str = ""
    across_models: bool = False


def case_message(report: CaseReport, context: MessageContext) -> str:
    """What happened to one case, and what that means."""
    return f"{report.prompt}/{report.case}: {_SENTENCES[report.verdict](report, context)}"


def _regressed(report: CaseReport, context: MessageContext) -> str:
    if report.tier == "critical" and report.bar is not None:
        return (
            f"a critical case; it failed {_failed(report.candidate)} new trials"
            f" (bar: {report.bar}). That blocks whatever main does."
        )
    new, today, before = _counts(report)
    decisive = report.decisive
    check = f" {decisive.check} in" if decisive is not None and len(report.checks) > 1 else ""
    main = f"main passed {before} before" + (f" and {today} today" if today.trials else "")
    if not context.stored:
        main = f"main, drawn beside it, passed {before + today}"
    blamed = "The other model breaks it." if context.across_models else _BLAMED
    words = f"failed{check} {_failed(new)} new trials. {main}. {blamed}"
    if report.edit_sensitive:
        words += (
            f" It broke in {plural(report.broke_before, 'version')} before as well, and was"
            " accepted: it is edit-sensitive, and may serve better in the tier tracked."
        )
    return f"{words} {_repeated(report)}" if report.repeated else words


def _improved(report: CaseReport, context: MessageContext) -> str:
    del context
    return f"passes {_new(report)}; main passed {_main(report)}."


def _drifted(report: CaseReport, context: MessageContext) -> str:
    del context
    new, today, before = _counts(report)
    return (
        f"failed {_failed(new)}, but main fails it too today (passed {today}; {before} before)."
        " The model or a judge changed, not the prompt."
    )


def _known_failing(report: CaseReport, context: MessageContext) -> str:
    del context
    return f"main fails this {_failed(_main(report))}; unchanged."


def _new_case(report: CaseReport, context: MessageContext) -> str:
    del context
    bar = f" (bar: {report.bar})" if report.bar is not None else ""
    passed = f"no history; passed {report.candidate}{bar}."
    if not report.blocks:
        return passed
    failed = ", ".join(
        f"{check.check} failed {_failed(check.candidate)}"
        for check in report.checks
        if check.candidate.failed
    )
    why = f": {failed}" if failed else ""
    return f"{passed} It misses its bar{why}."


def _pass(report: CaseReport, context: MessageContext) -> str:
    del context
    if not report.candidate.trials:
        return "nothing was drawn."
    return f"passed {report.candidate}; main passed {_main(report)}."


def _unchanged(report: CaseReport, context: MessageContext) -> str:
    del report, context
    return "the request is the same to the byte; nothing was drawn."


def _unmeasured(report: CaseReport, context: MessageContext) -> str:
    if report.needs and not report.missing:
        return f"none of its trials is recorded; it needs {_trials(report.needs, 'live ')}."
    asked = report.candidate.trials + report.missing
    why = f" ({context.unmeasured})" if context.unmeasured else ""
    if asked == 1:
        return f"its only trial has no verdict{why}."
    return f"{report.missing or 'some'} of {asked or 'its'} trials have no verdict{why}."


def _flaky(report: CaseReport, context: MessageContext) -> str:
    del context
    main = _main(report)
    fails = f"main fails it {_failed(main)} times too" if main.failed else f"main passed {main}"
    new = report.candidate
    if new.trials > 1 and new.failed == 1:
        words = f"failed once, passed {new.passed} of {new.trials - 1} other trials"
    elif new.failed:
        words = "failed its only trial" if new.trials == 1 else f"failed {_failed(new)} trials"
    else:
        words = f"passed {new}"
    return f"{words}; {fails}. Not blocking."


def _undecided(report: CaseReport, context: MessageContext) -> str:
    new, today, before = _counts(report)
    if report.needs:
        there = {0: "none is recorded", 1: "only 1 is recorded"}
        recorded = there.get(report.recorded, f"only {report.recorded} are recorded")
        return f"needs {_trials(report.needs, 'live ')}; {recorded}."
    main = before + today
    split = (
        f" ({before.trials} {'stored' if context.stored else 'just now'} + {today.trials} today)"
        if today.trials
        else ""
    )
    if report.repeated and new.trials < context.cap:
        return f"passed {new} where main passed {main}{split}. {_repeated(report)}"
    return (
        f"passed {new} where main passed {main}{split}. Probably worse, not certain among"
        f" {context.cells} cells. Add trials (--more-trials {context.cap}) or mark the case"
        " critical."
    )


def _removed(report: CaseReport, context: MessageContext) -> str:
    del context
    if report.accepted:
        return "removed, as the changelog says."
    return (
        "main has this case and it is gone. Put it back, or say why in the changelog entry of the"
        f" prompt: `removed: [{{case: {report.case}, reason: ...}}]`."
    )


def _repeated(report: CaseReport) -> str:
    times = "time" if report.repeated == 1 else "times"
    return (
        f"The same answer came back {report.repeated} {times} and counts once: a cache, or a fixed"
        " seed."
    )


_BLAMED = "This prompt change broke it."
_SENTENCES: Final[Mapping[CaseVerdict, Callable[[CaseReport, MessageContext], str]]] = {
    "regressed": _regressed,
    "improved": _improved,
    "flaky": _flaky,
    "undecided": _undecided,
    "drifted": _drifted,
    "known-failing": _known_failing,
    "new": _new_case,
    "pass": _pass,
    "unchanged": _unchanged,
    "removed": _removed,
    "unmeasured": _unmeasured,
}


def _counts(report: CaseReport) -> tuple[Count, Count, Count]:
    """The candidate, main today and main before: of the check that decided, or of the case."""
    decisive = report.decisive
    if decisive is None:
        return report.candidate, report.today, report.history
    return decisive.candidate, decisive.today, decisive.history


def _new(report: CaseReport) -> Count:
    return _counts(report)[0]


def _main(report: CaseReport) -> Count:
    _, today, before = _counts(report)
    return before + today


def _failed(count: Count) -> str:
    return f"{count.failed} of {count.trials}"


def _trials(number: int, kind: str) -> str:
    return plural(number, f"{kind}trial")
