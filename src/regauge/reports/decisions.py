"""The document of a decision, from a gate run, with the diff of each changed prompt."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from regauge.errors import ProviderError
from regauge.gate import (
    EXIT_CODES,
    GateCase,
    MessageContext,
    case_message,
    cause_of_case,
    control_note,
    critical_note,
    final_decision,
    reason_message,
)
from regauge.model_id import is_simulated
from regauge.project import TARGET_KINDS
from regauge.providers import shown_messages, shown_output, sum_if_known
from regauge.reports._documents import (
    AuditDocument,
    CallsDocument,
    CaseDocument,
    DecisionDocument,
    NextDocument,
    OutputDocument,
    PromptDocument,
    RefusalDocument,
    RuleDocument,
)
from regauge.reports._gate_console import broke_words
from regauge.reports._next_step import lasting_fix, next_step
from regauge.reports.mutants import guards_document
from regauge.runner import CallTotals
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.errors import Diagnostic
    from regauge.evidence import CaseStatus, SuiteReport
    from regauge.gate import (
        CaseComparison,
        CaseReport,
        EvalBase,
        FinalDecision,
        GateOutcome,
        GateResult,
        Side,
    )
    from regauge.mutate import ChangedGuards
    from regauge.prompts import Prompt
    from regauge.reports._documents import GuardsDocument
    from regauge.runner import SourcedCompletion, Trial
# As `git diff` shows.
_CONTEXT_LINES = 3
# The order of the sections of a prompt file in a diff; others come between.
_SECTIONS = {"messages": 0, "version": 2, "changelog": 2}
# Sections that a decision shows next to the diff.
_STATED = frozenset({"version", "changelog"})
_KEY = re.compile(r"([A-Za-z]\w*):")


def calls_of(decided: GateResult) -> CallsDocument:
    """The trials of a gate run by kind, and the usage of live calls."""
    kinds: Counter[str] = Counter()
    totals: list[CallTotals] = []
    for (prompt, _, side), trials in decided.trials.items():
        first_trials = decided.outcome.first_trials.get(prompt, 1)
        for number, trial in enumerate(trials):
            if trial.sourced_completion is not None:
                first = "first" if number < first_trials else "follow_up"
                kinds["base" if side == "base" else first] += 1
                totals += _usage_of(trial, trial.sourced_completion)
    return CallsDocument(
        first=kinds["first"],
        follow_up=kinds["follow_up"],
        base=kinds["base"],
        live=sum(call_totals.live for call_totals in totals),
        input_tokens=sum(call_totals.input_tokens for call_totals in totals),
        output_tokens=sum(call_totals.output_tokens for call_totals in totals),
        cost_usd=sum_if_known(call_totals.spent_usd for call_totals in totals),
    )


def _usage_of(trial: Trial, answer: SourcedCompletion) -> Iterator[CallTotals]:
    """The usage of a trial's live calls: the prompt's, then the judges'."""
    if answer.source == "live":
        yield CallTotals().plus(answer.completion, live=True)
    for verdict in trial.verdicts:
        if verdict.calls is not None and verdict.calls.live:
            yield verdict.calls


def prompt_document(
    decided: GateResult, eval_base: EvalBase, guards: Iterable[ChangedGuards] = ()
) -> PromptDocument:
    """The document of one prompt."""
    eval_, base = eval_base.candidate, eval_base.base
    base_commit = decided.comparison.base_commit
    project = base_commit.project
    return PromptDocument(
        prompt=eval_base.name,
        dataset=eval_.dataset.name,
        path=str(project.relative(eval_.prompt.path)),
        state="new" if base is None else "unchanged" if eval_base.unchanged else "changed",
        version=eval_.version or None,
        base_version=(base.version or None) if base else None,
        digest=eval_.prompt.digest,
        base_digest=base.prompt.digest if base else None,
        model=str(eval_.model),
        base_model=str(base.model) if base else None,
        simulated=is_simulated(str(eval_.model)),
        line=changed_line(eval_.prompt, base.prompt) if base is not None else 1,
        diff=_prompt_diff(decided, eval_base),
        counts=status_counts(decided.outcome, eval_base.name),
        test=suite_test(decided.outcome, eval_base.name),
        anchor=decided.anchors.get(eval_base.name),
        guards=[
            guards_document(guard_changes, decided.comparison.base_commit.ref)
            for guard_changes in guards
            if guard_changes.eval == eval_base.name
        ],
        rules=[
            rule_document(rule, diagnostic, project.relative)
            for rule, diagnostic in decided.rules(eval_base)
        ],
    )


def rule_document(
    rule: str, diagnostic: Diagnostic, relative: Callable[[Path], Path]
) -> RuleDocument:
    """The document of an error; `relative` shortens its path."""
    return RuleDocument(
        rule=rule,
        message=diagnostic.message,
        fix=diagnostic.fix,
        path=str(relative(diagnostic.path)),
        line=diagnostic.line,
    )


def _prompt_diff(decided: GateResult, eval_base: EvalBase) -> str:
    base, path = eval_base.base, eval_base.candidate.prompt.path
    evals = (eval_ for eval_ in decided.comparison.evals if eval_.candidate.prompt.path == path)
    if next(evals) is not eval_base:
        return ""
    if base is None or base.prompt.source == eval_base.candidate.prompt.source:
        return ""
    place = str(decided.comparison.base_commit.project.relative(path))
    files = f"{place} ({decided.comparison.base_commit.ref})", place
    return "\n".join(
        prompt_diff(base.prompt.source, eval_base.candidate.prompt.source, files=files)
    )


def suite_test(outcome: GateOutcome, prompt: str) -> SuiteReport | None:
    """The suite test of a prompt; None if not run."""
    report = next((suite for suite in outcome.suites if suite.prompt == prompt), None)
    if report is None or report.status != "unmeasured":
        return report
    return replace(report, difference=None)  # the measured rest of the cases shows none


def status_counts(outcome: GateOutcome, prompt: str) -> dict[CaseStatus, int]:
    """The number of cases of a prompt by status."""
    return dict(Counter(case.status for case in outcome.cases if case.prompt == prompt))


_SHOWN_STATUSES = frozenset({"broken", "fixed", "undecided", "drifted", "new"})
# Reasons to count over cases, in order, in singular and plural.
_SUMS: Mapping[str, tuple[str, str]] = {
    "critical": ("is critical and broke", "are critical and broke"),
    "new": ("misses the bar of new cases", "miss the bar of new cases"),
    "removed": (
        "is gone without a word in the changelog",
        "are gone without a word in the changelog",
    ),
    "unmeasured": ("has no verdict", "have no verdict"),
    "not-recorded": ("needs trials that are not recorded", "need trials that are not recorded"),
    "no-base": ("needs trials of the base", "need trials of the base"),
    "undecided": ("may have got worse", "may have got worse"),
    "drifted": ("also fails on base today", "also fail on base today"),
}


def decision_document(
    decided: GateResult,
    *,
    nodes: Mapping[int, str],
    rerun_command: str,
    missing: str,
    sensitivity: str = "",
    looser_options: Sequence[str] = (),
    guards: Sequence[ChangedGuards] = (),
) -> DecisionDocument:
    """The document of a decision.

    Args:
        decided: The result of the gate run.
        nodes: The pytest item of each planned case, by `id` of the case.
        rerun_command: The command that decides again.
        missing: The command that runs missing trials; empty if none is missing.
        sensitivity: The sensitivity of this gate.
        looser_options: Options of the command that are looser than the base's policy.
        guards: The instructions that lose or get a guard.
    """
    comparison, outcome, audit = decided.comparison, decided.outcome, decided.audit
    prompts = [prompt_document(decided, eval_, guards) for eval_ in comparison.evals]
    decision = held_to_floor(decided.decision, prompts)
    relative = comparison.base_commit.project.relative
    unmeasured = [
        rule_document("unmeasured", diagnostic, relative) for diagnostic in comparison.unmeasured
    ]
    document = DecisionDocument(
        decision=decision,
        exit_code=EXIT_CODES[decision],
        provisional=decided.provisional,
        ref=comparison.base_commit.ref,
        base_commit=comparison.base_commit.commit,
        reasons=[
            *([audit.message] if audit and audit.result == "better" else []),
            *dict.fromkeys(refusal.message for refusal in comparison.refusals),
            *reasons_of(
                outcome,
                prompts,
                unmeasured,
                base_unavailable=decided.base_unavailable,
                not_run=decided.not_run,
            ),
        ],
        refusals=[
            RefusalDocument.model_validate(refusal, from_attributes=True)
            for refusal in comparison.refusals
        ],
        audit=AuditDocument.model_validate(audit, from_attributes=True) if audit else None,
        not_run=decided.not_run,
        notes=[
            *decided.notes,
            *([audit.message] if audit and audit.result == "base-worse" else []),
            *filter(None, [control_note(outcome), critical_note(outcome)]),
        ],
        rejected_before=decided.rejected_before,
        judge_change_accepted=comparison.judge_change_accepted,
        moved_bars=[*comparison.moved_bars],
        caveats=[*comparison.caveats],
        not_measured=[
            NextDocument.model_validate(edit, from_attributes=True)
            for edit in comparison.not_measured
        ],
        base_unavailable=[*decided.base_unavailable],
        looser_options=[*looser_options],
        prompts=prompts,
        unmeasured=unmeasured,
        cases=[
            case_document(
                outcome, comparison_case.case, report, _evidence(decided, comparison_case, nodes)
            )
            for comparison_case, report in zip(decided.compared_cases, outcome.cases, strict=True)
        ],
        calls=calls_of(decided),
        sensitivity=sensitivity,
        rerun_command=rerun_command,
        policy=outcome.policy,
        gate_cases=[comparison_case.case for comparison_case in decided.compared_cases],
    )
    fix = lasting_fix(
        (error.kind if isinstance(error, ProviderError) else type(error).__name__, str(error))
        for error in decided.errors()
    )
    options = [eval_.candidate.evals_option for eval_ in comparison.evals]
    evals_option = next(filter(None, options), None)
    step = next_step(document, missing, fix=fix, evals_option=evals_option or ())
    return document.model_copy(update={"next": step})


def held_to_floor(decision: FinalDecision, prompts: Iterable[PromptDocument]) -> FinalDecision:
    """The decision, after the check for enough guarded instructions."""
    below = {guards.below for prompt in prompts for guards in prompt.guards}
    if decision == "refused":
        return decision
    return final_decision(
        decision, broken="floor" in below, unmeasured="open" in below and decision == "accept"
    )


def _floor_words(guards: GuardsDocument) -> str:
    floor = f"the floor of {100 * (guards.floor or 0):g} %"
    if guards.below == "floor":
        share = 100 * guards.guarded / guards.total
        return f"{share:.0f} % of its instructions are guarded, below {floor}"
    return (
        f"{guards.guarded} of {guards.total} instructions are guarded;"
        f" {guards.open} without a class decide whether that is below {floor}"
    )


def reasons_of(
    outcome: GateOutcome,
    prompts: Sequence[PromptDocument],
    unmeasured: Sequence[RuleDocument],
    *,
    base_unavailable: Collection[str] = (),
    not_run: int = 0,
) -> list[str]:
    """The deciding reasons, except on single cases: versions, prompts, totals."""
    reasons: list[str] = []
    if rules := sum(len(prompt.rules) for prompt in prompts):
        reasons.append(f"{plural(rules, 'rule')} of versions broken")
    reasons += [
        f"{prompt.prompt}: {prompt.anchor.message}"
        for prompt in prompts
        if prompt.anchor is not None and prompt.anchor.blocks
    ]
    reasons += [
        f"{guards.prompt}: {_floor_words(guards)}"
        for prompt in prompts
        for guards in prompt.guards
        if guards.below
    ]
    reasons += [f"not measured: {omission.path}: {omission.message}" for omission in unmeasured]
    reasons += [
        reason_message(reason, outcome, case_messages={}, base_unavailable=base_unavailable)
        for reason in outcome.reasons
        if not reason.case
    ]
    counts = Counter(
        "no-base"
        if reason.kind == "not-recorded" and reason.prompt in base_unavailable
        else reason.kind
        for reason in outcome.reasons
        if reason.case
    )
    if counts["broken"]:
        reasons.append(broke_words(counts["broken"], len(outcome.cases)))
    for kind, words in _SUMS.items():
        if count := counts[kind]:
            of = plural(len(outcome.cases) + not_run, "case")
            reasons.append(f"{count} of {of} {words[count > 1]}")
    if not_run:
        reasons.append(f"{plural(not_run, 'case')} not run: the decision needs no trial")
    return reasons


class CaseEvidence(NamedTuple):
    """The evidence of a run or its record on one case.

    Attributes:
        node: The pytest item.
        location: The file and line of the case.
        unmeasured: The reason why trials have no verdict, on one line.
        across_models: Whether the sides have different models.
        base_unavailable: Whether the base's target cannot be called.
        outputs: Returns the documents of each measured trial of a side, see `output_documents`.
    """

    node: str
    location: str
    unmeasured: str
    across_models: bool
    base_unavailable: bool
    outputs: Callable[[Side], Iterable[list[OutputDocument]]]


def case_document(
    outcome: GateOutcome, case: GateCase, report: CaseReport, evidence: CaseEvidence
) -> CaseDocument:
    """The document of one case."""
    context = MessageContext(
        checks=outcome.checks,
        has_baseline=case.baseline is not None and case.baseline.total.trials > 0,
        unmeasured=evidence.unmeasured,
        across_models=evidence.across_models,
        provisional=outcome.policy.provisional,
        base_unavailable=evidence.base_unavailable,
        is_recorded=case.recorded,
    )
    passing, failing = _passing_and_failing(report, evidence)
    return CaseDocument(
        prompt=report.prompt,
        case=report.case,
        tier=report.tier,
        state=report.state,
        status=report.status,
        blocks=any(
            (reason.prompt, reason.case) == case.key and reason.leads_to != "accept"
            for reason in outcome.reasons
        ),
        message=case_message(report, context),
        accepted=report.accepted,
        edit_sensitive=report.edit_sensitive,
        node=evidence.node,
        location=evidence.location,
        before=report.before,
        today=report.today,
        candidate=report.candidate,
        checks=list(report.checks),
        passing=passing,
        failing=failing,
    )


def _evidence(
    decided: GateResult, comparison: CaseComparison, nodes: Mapping[int, str]
) -> CaseEvidence:
    candidate, base = comparison.candidate, comparison.base

    def read_outputs(side: Side) -> Iterator[list[OutputDocument]]:
        for trial in decided.trials.get((*comparison.case.key, side), ()):
            if trial.sourced_completion is not None and trial.error is None:
                completion = trial.sourced_completion.completion
                text = shown_output(completion.text, completion.refusal, shown_messages(completion))
                failures = [
                    (
                        failure.judge,
                        failure.verdict.reason,
                        failure.verdict.expected,
                        failure.verdict.actual,
                    )
                    for failure in trial.failures
                ]
                yield output_documents(side, trial.number, text, failures)

    return CaseEvidence(
        node=nodes.get(id(candidate), ""),
        location=candidate.case.location if candidate is not None else "",
        unmeasured=cause_of_case(decided, *comparison.case.key),
        across_models=candidate is not None
        and base is not None
        and are_models(str(base.eval.model), str(candidate.eval.model)),
        base_unavailable=comparison.case.prompt in decided.base_unavailable,
        outputs=read_outputs,
    )


def are_models(base: str, candidate: str) -> bool:
    """Return whether two sides have different models, and none is a target."""
    kinds = {side.partition(":")[0] for side in (base, candidate)}
    return base != candidate and not kinds.intersection(TARGET_KINDS)


def output_documents(
    side: Side, trial: int, text: str | None, failures: Iterable[tuple[str, str, Any, Any]]
) -> list[OutputDocument]:
    """The output of a trial once for each judge that failed it, or once if it passed.

    Args:
        side: The side of the trial.
        trial: Its number.
        text: The output.
        failures: Of each judge that failed it: name, reason, expected and compared value.
    """
    output = OutputDocument(side=side, trial=trial, text=text or "")
    names = ("judge", "reason", "expected", "output")
    documents = [
        output.model_copy(update=dict(zip(names, failure, strict=True))) for failure in failures
    ]
    return documents or [output]


def _passing_and_failing(
    report: CaseReport, evidence: CaseEvidence
) -> tuple[OutputDocument | None, OutputDocument | None]:
    """A passing and a failing output as evidence for the status of a case.

    An output that failed on another check than the case is not evidence.
    """
    if report.status not in _SHOWN_STATUSES:
        return None, None
    good: Side = "candidate" if report.status == "fixed" else "base"
    bad: Side = "base" if report.status == "fixed" else "candidate"
    check = report.decisive.check if report.decisive is not None else ""

    def documents(side: Side) -> Iterator[OutputDocument]:
        for outputs in evidence.outputs(side):
            matching = (output for output in outputs if output.judge in {"", check} or not check)
            yield from islice(matching, 1)

    of_good, of_bad = list(documents(good)), list(documents(bad))
    return (
        next((output for output in (*of_good, *of_bad) if not output.judge), None),
        next((output for output in (*of_bad, *of_good) if output.judge), None),
    )


def changed_line(head: Prompt, base: Prompt) -> int:
    """The first changed line, of the messages if there is one."""
    lines = SequenceMatcher(
        None, base.source.splitlines(), head.source.splitlines(), autojunk=False
    )
    begins = head.lines.get("messages", 1)
    spans = [(j1 + 1, j2) for tag, _, _, j1, j2 in lines.get_opcodes() if tag != "equal"]
    of_messages = (max(first, begins) for first, last in spans if max(first, last) >= begins)
    return next(of_messages, spans[0][0] if spans else 1)


def prompt_diff(before: str, now: str, *, files: tuple[str, str]) -> list[str]:
    """A unified diff of two states of a prompt file, by section.

    The messages come first. Version and changelog appear only if nothing else changed.
    """
    old, new = _sections(before), _sections(now)
    lines: list[str] = []
    for name in sorted({**old, **new}, key=lambda name: _SECTIONS.get(name, 1)):
        start, section = old.get(name, (0, []))
        new_start, new_section = new.get(name, (0, []))
        if lines and name in _STATED:
            continue
        matcher = SequenceMatcher(None, section, new_section, autojunk=False)
        for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
            lines += _hunk(group, (start, section), (new_start, new_section))
    if not lines:  # sections in another order
        return list(unified_diff(before.splitlines(), now.splitlines(), *files, lineterm=""))
    return [f"--- {files[0]}", f"+++ {files[1]}", *lines]


def _sections(source: str) -> dict[str, tuple[int, list[str]]]:
    """The lines of each top-level key of a prompt file, with the number of lines before them."""
    sections: dict[str, tuple[int, list[str]]] = {}
    name = ""
    for number, line in enumerate(source.splitlines()):
        if (key := _KEY.match(line)) is not None:
            name = key[1]
        sections.setdefault(name, (number, []))[1].append(line)
    return sections


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]],
    old: tuple[int, Sequence[str]],
    new: tuple[int, Sequence[str]],
) -> Iterator[str]:
    (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
    before, now = f"{old[0] + i1 + 1},{i2 - i1}", f"{new[0] + j1 + 1},{j2 - j1}"
    yield f"@@ -{before} +{now} @@"
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            yield from (f" {line}" for line in old[1][first:last])
            continue
        yield from (f"-{line}" for line in old[1][first:last])
        yield from (f"+{line}" for line in new[1][new_first:new_last])
