"""Makes the document of a decision: from what a gate run left, or again from its record."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from regauge.gate import (
    MessageContext,
    case_message,
    case_to_json,
    cause_of_case,
    control_note,
    critical_note,
    policy_to_json,
    reason_message,
)
from regauge.reports._decision import (
    AnswerDocument,
    AuditDocument,
    CaseDocument,
    CheckDocument,
    CountDocument,
    DecisionDocument,
    PromptDocument,
    RefusalDocument,
    RuleDocument,
)
from regauge.reports._gate_calls import calls_of
from regauge.reports._gate_console import broke_words
from regauge.reports._next_step import next_step
from regauge.reports._prompt_decisions import prompt_document, rule_document
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.gate import Arm, CaseReport, Compared, Count, Decided, GateOutcome

__all__ = [
    "AnswerFailure",
    "case_document",
    "decision_document",
    "reasons_of",
    "shown_answer",
]

_SHOWN_ANSWERS = frozenset({"broken", "fixed", "undecided", "drifted", "new"})
# Cases share their counts: a document for each would be most of the memory of a large gate.
_COUNTS_MAX = 1024
# What is counted over cases, in the order it is said: of one of them, and of several.
_SUMS: Mapping[str, tuple[str, str]] = {
    "critical": ("is critical and broke", "are critical and broke"),
    "new": ("misses the bar of new cases", "miss the bar of new cases"),
    "removed": (
        "is gone without a word in the changelog",
        "are gone without a word in the changelog",
    ),
    "unmeasured": ("has no verdict", "have no verdict"),
    "not-recorded": ("needs trials that are not recorded", "need trials that are not recorded"),
    "undecided": ("may have got worse", "may have got worse"),
    "drifted": ("also fails on main today", "also fail on main today"),
}


class AnswerFailure(NamedTuple):
    """Why a check failed an answer; the fields are those of `AnswerDocument`."""

    judge: str
    reason: str
    expected: JSON
    output: JSON


def decision_document(
    decided: Decided,
    *,
    nodes: Mapping[int, str],
    again: str,
    missing: str,
    operating_line: str = "",
    loosened: Sequence[str] = (),
) -> DecisionDocument:
    """The document of a decision.

    Args:
        decided: What the gate run left.
        nodes: The pytest item of each planned case, by the case's identity.
        again: The command that decides again.
        missing: The command that makes missing trials; empty where no trial is missing.
        operating_line: How often this gate is wrong.
        loosened: Options of the command that are looser than the base's policy.
    """
    outcome = decided.outcome
    prompts = [prompt_document(decided, one) for one in decided.suites]
    relative = decided.at.project.relative
    unmeasured = [rule_document("unmeasured", one, relative) for one in decided.unmeasured]
    document = DecisionDocument(
        decision=decided.decision,
        exit_code=decided.exit_code,
        provisional=decided.provisional,
        ref=decided.at.ref,
        base_commit=decided.at.commit,
        reasons=[
            *_audit_reasons(decided),
            *(one.message for one in decided.refusals),
            *reasons_of(outcome, prompts, unmeasured, not_run=decided.not_run),
        ],
        refusals=[
            RefusalDocument(part=one.part, message=one.message, details=[*one.details], fix=one.fix)
            for one in decided.refusals
        ],
        audit=_audit(decided),
        not_run=decided.not_run,
        notes=[
            *decided.notes,
            *_audit_notes(decided),
            *filter(None, [control_note(outcome), critical_note(outcome)]),
        ],
        rejected_before=decided.rejected_before,
        judge_change_accepted=decided.judge_change_accepted,
        moved_bars=[*decided.moved_bars],
        caveats=[*decided.caveats],
        base_unavailable=[*decided.base_unavailable],
        loosened=[*loosened],
        prompts=prompts,
        unmeasured=unmeasured,
        cases=[
            _case(decided, compared, report, nodes)
            for compared, report in zip(decided.compared, outcome.cases, strict=True)
        ],
        calls=calls_of(decided),
        operating_line=operating_line,
        again=again,
        policy=policy_to_json(outcome.policy),
        cells=[_cell(compared) for compared in decided.compared],
    )
    return document.model_copy(update={"next": next_step(document, missing)})


def reasons_of(
    outcome: GateOutcome,
    prompts: Sequence[PromptDocument],
    unmeasured: Sequence[RuleDocument],
    *,
    not_run: int = 0,
) -> list[str]:
    """What decides and is said of no single case: rules of versions, prompts as a whole, sums."""
    found: list[str] = []
    if rules := sum(len(prompt.rules) for prompt in prompts):
        found.append(f"{plural(rules, 'rule')} of versions broken")
    found += [
        f"{prompt.prompt}: {prompt.anchor.message}"
        for prompt in prompts
        if prompt.anchor is not None and prompt.anchor.blocks
    ]
    found += [f"not measured: {one.path}: {one.message}" for one in unmeasured]
    found += [
        reason_message(reason, outcome, case_messages={})
        for reason in outcome.reasons
        if not reason.case
    ]
    if broken := _count_of("broken", outcome):
        found.append(broke_words(broken, len(outcome.cases)))
    for kind, words in _SUMS.items():
        if count := _count_of(kind, outcome):
            of = plural(len(outcome.cases) + not_run, "case")
            found.append(f"{count} of {of} {words[count > 1]}")
    if not_run:
        found.append(f"{plural(not_run, 'case')} not run: the decision needs no trial")
    return found


def _count_of(kind: str, outcome: GateOutcome) -> int:
    return sum(reason.kind == kind and bool(reason.case) for reason in outcome.reasons)


def case_document(
    outcome: GateOutcome,
    report: CaseReport,
    *,
    stored: bool,
    unmeasured: str,
    across_models: bool,
    node: str,
    at: str,
    answers: Callable[[Arm, str], Iterator[AnswerDocument]],
) -> CaseDocument:
    """The document of one case.

    Args:
        outcome: Of the run.
        report: Of the case.
        stored: Whether main's history was drawn before this run.
        unmeasured: Why trials have no verdict, on one line.
        across_models: Whether the arms have models of their own.
        node: The pytest item.
        at: Where the case stands.
        answers: The answers of an arm, with what one check, or any, says of them.
    """
    context = MessageContext(
        cells=outcome.cells,
        stored=stored,
        unmeasured=unmeasured,
        across_models=across_models,
        provisional=outcome.policy.provisional,
    )
    passing, failing = _evidence(report, answers)
    return CaseDocument(
        prompt=report.prompt,
        case=report.case,
        tier=report.tier,
        state=report.state,
        verdict=report.verdict,
        blocks=any(
            (reason.prompt, reason.case) == (report.prompt, report.case)
            and reason.leads_to != "accept"
            for reason in outcome.reasons
        ),
        message=case_message(report, context),
        accepted=report.accepted,
        edit_sensitive=report.edit_sensitive,
        node=node,
        at=at,
        before=_count(report.history),
        today=_count(report.today),
        candidate=_count(report.candidate),
        checks=[
            CheckDocument(
                check=check.check,
                verdict=check.verdict,
                before=_count(check.history),
                today=_count(check.today),
                candidate=_count(check.candidate),
                paired=_count(check.paired),
                direction=check.direction,
                e_value=check.e_value,
                bound=check.bound,
                e_today=check.e_today,
            )
            for check in report.checks
        ],
        passing=passing,
        failing=failing,
    )


def _audit(decided: Decided) -> AuditDocument | None:
    audit = decided.audit
    if audit is None:
        return None
    return AuditDocument(
        trials=audit.trials,
        better=audit.better,
        worse=audit.worse,
        p_value=audit.p_value,
        level=audit.level,
        result=audit.result,
        message=audit.message,
        fix=audit.fix if audit.result == "better" else "",
    )


def _audit_notes(decided: Decided) -> Iterator[str]:
    if decided.audit is not None and decided.audit.result == "base-worse":
        yield decided.audit.message


def _audit_reasons(decided: Decided) -> Iterator[str]:
    audit = decided.audit
    if audit is not None and audit.result == "better":
        yield audit.message


def _cell(compared: Compared) -> dict[str, Any]:
    return {**case_to_json(compared.case), "graded": sorted(compared.graded)}


def _case(
    decided: Decided, compared: Compared, report: CaseReport, nodes: Mapping[int, str]
) -> CaseDocument:
    kept = compared.case.history

    def answers(arm: Arm, check: str) -> Iterator[AnswerDocument]:
        for trial in decided.trials.get((*compared.case.key, arm), ()):
            if trial.answer is not None and trial.error is None:
                completion = trial.answer.completion
                text = completion.text if completion.text is not None else completion.refusal
                failures = [
                    AnswerFailure(
                        one.judge, one.verdict.reason, one.verdict.expected, one.verdict.actual
                    )
                    for one in trial.failures
                ]
                yield from shown_answer(arm, trial.number, text or "", failures, check)

    return case_document(
        decided.outcome,
        report,
        stored=kept is not None and kept.whole.trials > 0,
        unmeasured=cause_of_case(decided, *compared.case.key),
        across_models=_across_models(compared),
        node=nodes.get(id(compared.candidate), ""),
        at=compared.candidate.case.at if compared.candidate is not None else "",
        answers=answers,
    )


def _across_models(compared: Compared) -> bool:
    candidate, main = compared.candidate, compared.main
    return candidate is not None and main is not None and candidate.suite.model != main.suite.model


def shown_answer(
    arm: Arm, trial: int, text: str, failures: Sequence[AnswerFailure], check: str
) -> Iterator[AnswerDocument]:
    """An answer as evidence; none where it failed for another reason than the case did."""
    failed = [one for one in failures if not check or one.judge == check]
    if failed or not failures:
        first = failed[0]._asdict() if failed else {}
        yield AnswerDocument(arm=arm, trial=trial, text=text, **first)


def _evidence(
    report: CaseReport, answers: Callable[[Arm, str], Iterator[AnswerDocument]]
) -> tuple[AnswerDocument | None, AnswerDocument | None]:
    """One answer that passed and one that failed, of the arms that the verdict sets apart."""
    if report.verdict not in _SHOWN_ANSWERS:
        return None, None
    good: Arm = "candidate" if report.verdict == "fixed" else "main"
    bad: Arm = "main" if report.verdict == "fixed" else "candidate"
    check = report.decisive.check if report.decisive is not None else ""
    of_good, of_bad = list(answers(good, check)), list(answers(bad, check))
    return (
        next((answer for answer in (*of_good, *of_bad) if not answer.judge), None),
        next((answer for answer in (*of_bad, *of_good) if answer.judge), None),
    )


@lru_cache(maxsize=_COUNTS_MAX)
def _count(count: Count) -> CountDocument:
    return CountDocument(passed=count.passed, trials=count.trials)
