"""Messages about single cases, in plain counts."""

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
        stored: Whether main's history was drawn before this run.
        unmeasured: Why trials have no verdict, on one line.
        across_models: Whether two models are compared, and not only two prompts.
        provisional: Whether recorded trials alone decided.
    """

    cells: int
    stored: bool = True
    unmeasured: str = ""
    across_models: bool = False
    provisional: bool = False


def case_message(report: CaseReport, context: MessageContext) -> str:
    """What happened to one case, and what that means."""
    return f"{report.prompt}/{report.case}: {_SENTENCES[report.verdict](report, context)}"


def _broken(report: CaseReport, context: MessageContext) -> str:
    if report.tier == "critical" and report.bar is not None:
        return (
            f"failed {_failed(report.candidate)} new trials (bar: {report.bar}). It is critical,"
            " so it blocks whatever main does."
        )
    new, today, before = _counts(report)
    decisive = report.decisive
    check = f" {decisive.check} in" if decisive is not None and len(report.checks) > 1 else ""
    arm = "the other model" if context.across_models else "the candidate"
    words = f"failed{check} {_failed(new)} new trials; main passed {before} before."
    if not context.stored:
        words = f"failed{check} {_failed(new)} new trials; main passed {before} in this run."
    if decisive is not None and today.trials:
        words += f" Side by side today: {arm} {decisive.paired}, main {today}."
    if report.edit_sensitive:
        words += (
            f" It broke in {plural(report.broke_before, 'version')} before as well, and was"
            " accepted: it is edit-sensitive; consider the tier `tracked`."
        )
    return f"{words} {_repeated(report)}" if report.repeated else words


def _fixed(report: CaseReport, context: MessageContext) -> str:
    del context
    return f"passes {_new(report)}; main passed {_main(report)}."


def _drifted(report: CaseReport, context: MessageContext) -> str:
    """Both arms are worse than the record; why was not measured."""
    del context
    new, today, before = _counts(report)
    decisive = report.decisive
    if decisive is not None and decisive.direction == "better":
        return (
            f"passed {new}; main also passes today, {today} ({before} before). The prompt did not"
            " fix it."
        )
    return (
        f"failed {_failed(new)} trials; main also fails today: passed {today} ({before} before)."
        " Side by side the candidate is not worse."
    )


def _known_failing(report: CaseReport, context: MessageContext) -> str:
    del context
    return f"main fails {_failed(_main(report))} trials; unchanged."


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
    return f"{passed} It misses its bar{why}. To report it without blocking: `tier: tracked`."


def _passed(report: CaseReport, context: MessageContext) -> str:
    del context
    if not report.candidate.trials:
        return "not run."
    return f"passed {report.candidate}; main passed {_main(report)}."


def _unchanged(report: CaseReport, context: MessageContext) -> str:
    del report, context
    return "the request is the same to the byte; not run."


def _unmeasured(report: CaseReport, context: MessageContext) -> str:
    if report.needs and not report.missing:
        return f"none of its trials is recorded; it needs {_trials(report.needs, 'live ')}."
    asked = report.candidate.trials + report.missing
    why = f" ({context.unmeasured})" if context.unmeasured else ""
    if asked == 1:
        return f"its only trial has no verdict{why}."
    return f"{report.missing or 'some'} of {asked or 'its'} trials have no verdict{why}."


def _mixed(report: CaseReport, context: MessageContext) -> str:
    """Of flaky cases, too: what failed, and how main does."""
    del context
    new, today, before = _counts(report)
    main = before + today
    fails = f"main fails {_failed(main)}" if main.failed else f"main passed {main}"
    if new.trials > 1 and new.failed == 1:
        words = f"failed once, passed {new.passed} of {new.trials - 1} other trials"
    elif new.failed:
        words = "failed its only trial" if new.trials == 1 else f"failed {_failed(new)} trials"
    else:
        words = f"passed {new}"
    tracked = "Tracked, not blocking." if report.tier == "tracked" else "Not blocking."
    return f"{words}; {fails}. {tracked}"


def _undecided(report: CaseReport, context: MessageContext) -> str:
    new, today, before = _counts(report)
    if report.needs and context.provisional:
        return (
            f"failed {_failed(new)} recorded trials; main passed {before}. Left to the audit: a run"
            " with a key tests it side by side."
        )
    if report.needs:
        there = {0: "none is recorded", 1: "only 1 is recorded"}
        recorded = there.get(report.recorded, f"only {report.recorded} are recorded")
        return f"needs {_trials(report.needs, 'live ')}; {recorded}."
    if report.repeated and not new.passed:
        return f"passed {new}; main passed {before + today}. {_repeated(report)}"
    decisive = report.decisive
    if decisive is not None and today.passed < today.trials and 2 * today.passed < today.trials:
        return (
            f"passed {new}, side by side {decisive.paired}; main passes only {today} today"
            f" ({before} before): the difference cannot be told. {_MORE}"
        )
    side = f", {today} today" if today.trials else ""
    return (
        f"passed {new}; main passed {before} before{side}. Probably worse, not certain among"
        f" {context.cells} checks. {_MORE}"
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
        f"The same completion came back {report.repeated} {times} and counts once: a cache, or a"
        " fixed seed."
    )


_MORE = "Add trials (--more-trials 8), or mark the case critical."
_SENTENCES: Final[Mapping[CaseVerdict, Callable[[CaseReport, MessageContext], str]]] = {
    "broken": _broken,
    "fixed": _fixed,
    "flaky": _mixed,
    "mixed": _mixed,
    "undecided": _undecided,
    "drifted": _drifted,
    "known-failing": _known_failing,
    "new": _new_case,
    "passed": _passed,
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
