"""Makes the document of a decision from what a gate run left."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from regauge.gate import (
    MessageContext,
    case_message,
    case_to_json,
    cause_of_case,
    policy_to_json,
    reason_message,
)
from regauge.reports._decision import (
    AnswerDocument,
    CallsDocument,
    CaseDocument,
    CheckDocument,
    CountDocument,
    DecisionDocument,
    PromptDocument,
    RuleDocument,
    SuiteTestDocument,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.gate import Arm, CaseReport, Compared, Count, Decided, SuiteBase, SuiteReport
    from regauge.runner import Trial

__all__ = ["decision_document"]

_SHOWN_ANSWERS = frozenset({"regressed", "improved", "undecided", "drifted", "new"})
_SIMULATED_PROVIDER = "sim"


def decision_document(
    decided: Decided, *, again: str, go_on: str, operating_line: str = ""
) -> DecisionDocument:
    """The document of a decision.

    Args:
        decided: What the gate run left.
        again: The command that decides again.
        go_on: The command that draws what is missing; empty when nothing is.
        operating_line: How often this gate is wrong.
    """
    outcome = decided.outcome
    cases = [
        _case(decided, compared, report)
        for compared, report in zip(decided.compared, outcome.cases, strict=True)
    ]
    return DecisionDocument(
        decision=decided.decision,
        exit_code=decided.exit_code,
        ref=decided.at.ref,
        base_commit=decided.at.commit,
        reasons=list(_reasons(decided)),
        notes=list(decided.notes),
        prompts=[_prompt(decided, one) for one in decided.suites],
        cases=cases,
        calls=_calls(decided),
        operating_line=operating_line,
        again=again,
        go_on=go_on,
        policy=policy_to_json(outcome.policy),
        cells=[_cell(compared) for compared in decided.compared],
    )


def _cell(compared: Compared) -> dict[str, Any]:
    node = compared.candidate or compared.main
    return {
        **case_to_json(compared.case),
        "graded": sorted(compared.graded),
        "dataset": node.suite.dataset.name if node is not None else "",
        "name": node.suite.prompt.name if node is not None else compared.case.prompt,
    }


def _reasons(decided: Decided) -> Iterator[str]:
    """What decides and is said of no single case: rules of versions, prompts as a whole, sums."""
    rules = sum(1 for one in decided.suites for _ in decided.rules(one))
    if rules:
        yield f"{rules} {'rule' if rules == 1 else 'rules'} of versions broken; see below"
    outcome = decided.outcome
    weighty = [
        reason
        for reason in outcome.reasons
        if not reason.case and (reason.leads_to != "accept" or reason.kind == "drifted")
    ]
    for reason in weighty:
        yield reason_message(reason, outcome, case_messages={})
    for kind, words in (("regressed", "broke"), ("critical", "broke (critical)")):
        count = sum(
            reason.kind == kind and reason.leads_to == "reject" for reason in outcome.reasons
        )
        if count:
            yield f"{count} of {len(outcome.cases)} cases {words}"
    missing = sum(case.verdict == "unmeasured" for case in outcome.cases)
    if missing:
        yield f"{missing} of {len(outcome.cases)} cases have no verdict"


def _case(decided: Decided, compared: Compared, report: CaseReport) -> CaseDocument:
    kept = compared.case.history
    context = MessageContext(
        cells=decided.outcome.cells,
        cap=decided.outcome.policy.case.cap,
        stored=kept is not None and kept.whole.trials > 0,
        unmeasured=cause_of_case(decided, report.prompt, report.case),
    )
    passing, failing = _evidence(decided, report)
    return CaseDocument(
        prompt=report.prompt,
        case=report.case,
        tier=report.tier,
        state=report.state,
        verdict=report.verdict,
        blocks=any(
            (reason.prompt, reason.case) == (report.prompt, report.case)
            and reason.leads_to != "accept"
            for reason in decided.outcome.reasons
        ),
        message=case_message(report, context),
        accepted=report.accepted,
        at=compared.candidate.case.at if compared.candidate is not None else "",
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
                e_value=check.e_value,
                bound=check.bound,
            )
            for check in report.checks
        ],
        passing=passing,
        failing=failing,
    )


def _evidence(
    decided: Decided, report: CaseReport
) -> tuple[AnswerDocument | None, AnswerDocument | None]:
    """One answer that passed and one that failed, of the arms that the verdict sets apart."""
    if report.verdict not in _SHOWN_ANSWERS:
        return None, None
    arms: tuple[Arm, Arm] = ("main", "candidate")
    if report.verdict == "improved":
        arms = ("candidate", "main")
    decisive = report.decisive
    check = decisive.check if decisive is not None else ""
    good = (*_answers(decided, report, arms[0], check), *_answers(decided, report, arms[1], check))
    bad = (*_answers(decided, report, arms[1], check), *_answers(decided, report, arms[0], check))
    return (
        next((answer for answer in good if not answer.judge), None),
        next((answer for answer in bad if answer.judge), None),
    )


def _answers(
    decided: Decided, report: CaseReport, arm: Arm, check: str
) -> Iterator[AnswerDocument]:
    for trial in decided.trials.get((report.prompt, report.case, arm), ()):
        if trial.answer is None or trial.error is not None:
            continue
        failed = [one for one in trial.failures if not check or one.judge == check]
        if trial.failures and not failed:
            continue  # it failed for another reason than the case did
        completion = trial.answer.completion
        yield AnswerDocument(
            arm=arm,
            trial=trial.number,
            text=completion.text if completion.text is not None else completion.refusal or "",
            judge=failed[0].judge if failed else "",
            reason=failed[0].verdict.reason if failed else "",
        )


def _prompt(decided: Decided, one: SuiteBase) -> PromptDocument:
    suite, main = one.suite, one.base.suite
    test = next((each for each in decided.outcome.suites if each.prompt == one.name), None)
    counts = Counter[str](case.verdict for case in decided.outcome.cases if case.prompt == one.name)
    project = decided.at.project
    return PromptDocument(
        prompt=one.name,
        path=str(project.relative(suite.prompt.path)),
        state="new" if main is None else "unchanged" if one.base.unchanged else "changed",
        version=str(suite.prompt.version) if suite.prompt.version else None,
        base_version=str(main.prompt.version) if main and main.prompt.version else None,
        digest=suite.prompt.digest,
        base_digest=main.prompt.digest if main else None,
        model=str(suite.model),
        base_model=str(main.model) if main else None,
        simulated=suite.model.provider == _SIMULATED_PROVIDER,
        diff=_prompt_diff(decided, one),
        counts=dict(counts),
        test=_test(test) if test is not None else None,
        rules=[
            RuleDocument(
                rule=rule,
                message=fault.message,
                fix=fault.fix,
                path=str(project.relative(fault.path)),
                line=fault.line,
            )
            for rule, fault in decided.rules(one)
        ],
    )


def _prompt_diff(decided: Decided, one: SuiteBase) -> str:
    main = one.base.suite
    if main is None or main.prompt.source == one.suite.prompt.source:
        return ""
    path = str(decided.at.project.relative(one.suite.prompt.path))
    lines = unified_diff(
        main.prompt.source.splitlines(),
        one.suite.prompt.source.splitlines(),
        f"{path} ({decided.at.ref})",
        path,
        lineterm="",
    )
    return "\n".join(lines)


def _test(report: SuiteReport) -> SuiteTestDocument:
    values = asdict(report)
    del values["prompt"]
    return SuiteTestDocument.model_validate(values)


def _calls(decided: Decided) -> CallsDocument:
    first = again = main = live = input_tokens = output_tokens = 0
    cost_usd: float | None = 0.0
    for (_, _, arm), trials in decided.trials.items():
        for trial in trials:
            if arm == "main":
                main += 1
            elif trial.number < decided.outcome.policy.first_draws:
                first += 1
            else:
                again += 1
            for used in _used(trial):
                live += used["live"]
                input_tokens += used["input_tokens"]
                output_tokens += used["output_tokens"]
                cost_usd = _sum(cost_usd, used["spent_usd"])
    return CallsDocument(
        first=first,
        again=again,
        main=main,
        live=live,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
    )


def _used(trial: Trial) -> Iterator[Mapping[str, Any]]:
    """What the calls of a trial used: the prompt's own, then those of its judges."""
    if trial.answer is not None and trial.answer.source == "live":
        completion = trial.answer.completion
        yield {
            "live": 1,
            "input_tokens": completion.usage.input_tokens,
            "output_tokens": completion.usage.output_tokens,
            "spent_usd": completion.cost_usd,
        }
    for judged in trial.verdicts:
        if judged.calls is not None and judged.calls.live:
            yield asdict(judged.calls)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _count(count: Count) -> CountDocument:
    return CountDocument(passed=count.passed, trials=count.trials)
