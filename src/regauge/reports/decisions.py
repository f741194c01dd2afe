"""The document of a decision, from a gate run or again from its record."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from difflib import SequenceMatcher, unified_diff
from typing import TYPE_CHECKING, Any, NamedTuple

from regauge.errors import ProviderError, UsageError
from regauge.gate import (
    EXIT_CODES,
    Gate,
    GateCase,
    MessageContext,
    case_from_json,
    case_message,
    case_to_json,
    cause_of_case,
    control_note,
    critical_note,
    facts_of_row,
    final_decision,
    operating_line_of,
    policy_to_json,
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
from regauge.reports.mutants import guards_document
from regauge.runner import CallTotals
from regauge.wording import cause_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.errors import Diagnostic
    from regauge.evidence import CaseStatus, SuiteReport
    from regauge.gate import (
        Baseline,
        CaseComparison,
        CaseReport,
        FinalDecision,
        GateOutcome,
        GatePolicy,
        GateResult,
        Side,
        SuiteBase,
    )
    from regauge.gate.baselines import StoredBaseline
    from regauge.mutate import ChangedGuards
    from regauge.prompts import Prompt
    from regauge.reports._documents import GuardsDocument
    from regauge.runner import SourcedCompletion, Trial


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


# Kinds of failures that persist in further calls: of targets, services, conversations, judges.
_LASTING = frozenset({
    "import", "outside", "signature", "malformed", "too-large", "closed",
    "exception", "crash", "command", "unavailable", "connection", "timeout",
    "authentication", "permission", "quota", "not-found", "bad-request", "redirect",
    "ConversationError", "JudgeError", "MissingOutputError",
})  # fmt: skip


def lasting_fix(errors: Iterable[tuple[str, str]]) -> str:
    """The fix of the first failure that would persist, of the base last; empty without one.

    Args:
        errors: Pairs of kind and message.
    """
    base_last = sorted(errors, key=lambda error: error[0] == "unavailable")
    fixes = (message.partition("\n  fix: ")[2] for kind, message in base_last if kind in _LASTING)
    return next(filter(None, fixes), "")


def next_step(document: DecisionDocument, missing: str = "", *, fix: str = "") -> NextDocument:
    """The next step after a decision.

    Args:
        document: The decision.
        missing: The command that runs missing trials; empty if none is missing.
        fix: The fix to make first; empty without one.
    """
    match document.decision:
        case "accept":
            return _after_accepting(document)
        case "refused":
            return NextDocument(text="; ".join(dict.fromkeys(r.fix for r in document.refusals)))
        case "reject":
            return _after_rejecting(document)
        case "undecided":
            step = "continue"
            if document.base_unavailable:
                step = (
                    "the base cannot be called: merge after a review of these cases, or"
                    f" {fix or 'have it run here'} and continue"
                )
            elif fix:
                step = f"{fix}, and continue"
            elif "--more-trials" in missing:
                step = (
                    "mark the cases that matter as critical, or continue with the workflow's input"
                    " `more-trials` or this command"
                )
            text = f"undecided is not accepted (exit code 4); {step}"
            return NextDocument(text=text, command=missing)
        case "unmeasured":
            fixes = dict.fromkeys(omission.fix for omission in document.unmeasured if omission.fix)
            open_ = any(guards.below for prompt in document.prompts for guards in prompt.guards)
            action = "measure the changed lines with a key" if open_ else "make the missing trials"
            text = "; ".join(fixes) or (f"{fix}; then {action}" if fix else action)
            return NextDocument(text=text, command=missing)


def _after_accepting(document: DecisionDocument) -> NextDocument:
    changed = [prompt.prompt for prompt in document.prompts if prompt.state != "unchanged"]
    if document.not_measured:
        # The command that runs more measures the other edits, too.
        command = max((edit.command for edit in document.not_measured), key=len)
        return NextDocument(text="measure what ran no trial before the merge", command=command)
    if document.provisional and any(case.status == "undecided" for case in document.cases):
        command = f"regauge gate {document.ref} --record=missing"
        return NextDocument(text="have undecided cases tested before the merge", command=command)
    if not changed:
        return NextDocument(text="merge")
    names = dict.fromkeys(name.partition(" (")[0] for name in changed)
    return NextDocument(
        text="merge, then update the baseline on the base branch",
        command=f"regauge baseline update {' '.join(names)}",
    )


def _after_rejecting(document: DecisionDocument) -> NextDocument:
    steps = list(dict.fromkeys(_steps(document)))
    blocking = [case.prompt for case in document.cases if case.status == "broken" and case.blocks]
    tests = ((prompt.prompt, prompt.test) for prompt in document.prompts)
    worse = [name for name, test in tests if test is not None and test.status == "worse"]
    targets = {
        prompt.prompt
        for prompt in document.prompts
        if prompt.model.partition(":")[0] in TARGET_KINDS
    }
    names = [name for name in (*blocking, *worse) if name not in targets]
    if targets.intersection((*blocking, *worse)):
        accept = ", or accept broken cases in its `changelog`" if blocking else ""
        steps.append(f"revert or edit the code of the target{accept}")
    if names:
        accept = ", accept broken cases in its changelog" if blocking else ""
        steps.append(f"revert or edit the prompt{accept}, or search for a fix")
        name = names[0].partition(" (")[0]
        return NextDocument(text="; ".join(steps), command=f"regauge refine {name}")
    return NextDocument(text="; ".join(steps) or "revert or edit the prompt")


def _steps(document: DecisionDocument) -> Iterator[str]:
    """The fixes for the reasons of a rejection, apart from a worse prompt."""
    for prompt in document.prompts:
        yield from (rule.fix or rule.message for rule in prompt.rules)
    if document.audit is not None and document.audit.result == "better":
        yield document.audit.fix
    blocking = {case.status for case in document.cases if case.blocks}
    if "removed" in blocking:
        yield "put the removed cases back, or list them under `removed` in the changelog"
    if "new" in blocking:
        yield "fix the new cases, or mark them `tier: tracked`"
    for prompt in document.prompts:
        if prompt.anchor is not None and prompt.anchor.blocks:
            yield f"win back what {prompt.prompt} lost since {prompt.anchor.version}"
        for guards in prompt.guards:
            if guards.below == "floor":
                command = f"regauge mutate {guards.prompt}"
                yield f"add golden cases or judges for unguarded lines ({command})"


# As `git diff` shows.
_CONTEXT_LINES = 3
# The order of the sections of a prompt file in a diff; others come between.
_SECTIONS = {"messages": 0, "version": 2, "changelog": 2}
# Sections that a decision shows next to the diff.
_STATED = frozenset({"version", "changelog"})
_KEY = re.compile(r"([A-Za-z]\w*):")


def prompt_document(
    decided: GateResult, suite_base: SuiteBase, guards: Iterable[ChangedGuards] = ()
) -> PromptDocument:
    """The document of one prompt."""
    suite, base = suite_base.candidate, suite_base.base
    base_commit = decided.comparison.base_commit
    project = base_commit.project
    return PromptDocument(
        prompt=suite_base.name,
        path=str(project.relative(suite.prompt.path)),
        state="new" if base is None else "unchanged" if suite_base.unchanged else "changed",
        version=suite.version or None,
        base_version=(base.version or None) if base else None,
        digest=suite.prompt.digest,
        base_digest=base.prompt.digest if base else None,
        model=str(suite.model),
        base_model=str(base.model) if base else None,
        simulated=is_simulated(str(suite.model)),
        line=_changed_line(suite.prompt, base.prompt) if base is not None else 1,
        diff=_prompt_diff(decided, suite_base),
        counts=status_counts(decided.outcome, suite_base.name),
        test=suite_test(decided.outcome, suite_base.name),
        anchor=decided.anchors.get(suite_base.name),
        guards=[
            guards_document(guard_changes, decided.comparison.base_commit.ref)
            for guard_changes in guards
            if guard_changes.suite == suite_base.name
        ],
        rules=[
            rule_document(rule, diagnostic, project.relative)
            for rule, diagnostic in decided.rules(suite_base)
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


def _changed_line(head: Prompt, base: Prompt) -> int:
    """The first changed line, of the messages if there is one."""
    lines = SequenceMatcher(
        None, base.source.splitlines(), head.source.splitlines(), autojunk=False
    )
    begins = head.lines.get("messages", 1)
    spans = [(j1 + 1, j2) for tag, _, _, j1, j2 in lines.get_opcodes() if tag != "equal"]
    of_messages = (max(first, begins) for first, last in spans if max(first, last) >= begins)
    return next(of_messages, spans[0][0] if spans else 1)


def _prompt_diff(decided: GateResult, suite_base: SuiteBase) -> str:
    base = suite_base.base
    if base is None or base.prompt.source == suite_base.candidate.prompt.source:
        return ""
    path = str(decided.comparison.base_commit.project.relative(suite_base.candidate.prompt.path))
    files = f"{path} ({decided.comparison.base_commit.ref})", path
    return "\n".join(
        prompt_diff(base.prompt.source, suite_base.candidate.prompt.source, files=files)
    )


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
    operating_line: str = "",
    looser_options: Sequence[str] = (),
    guards: Sequence[ChangedGuards] = (),
) -> DecisionDocument:
    """The document of a decision.

    Args:
        decided: The result of the gate run.
        nodes: The pytest item of each planned case, by `id` of the case.
        rerun_command: The command that decides again.
        missing: The command that runs missing trials; empty if none is missing.
        operating_line: The sensitivity of this gate.
        looser_options: Options of the command that are looser than the base's policy.
        guards: The instructions that lose or get a guard.
    """
    comparison, outcome, audit = decided.comparison, decided.outcome, decided.audit
    prompts = [prompt_document(decided, suite, guards) for suite in comparison.suites]
    decision = _held_to_floor(decided.decision, prompts)
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
            _case_document(
                outcome, comparison_case.case, report, _evidence(decided, comparison_case, nodes)
            )
            for comparison_case, report in zip(decided.compared_cases, outcome.cases, strict=True)
        ],
        calls=calls_of(decided),
        operating_line=operating_line,
        rerun_command=rerun_command,
        policy=policy_to_json(outcome.policy),
        gate_cases=[
            {**case_to_json(comparison_case.case), "graded": sorted(comparison_case.graded)}
            for comparison_case in decided.compared_cases
        ],
    )
    fix = lasting_fix(
        (error.kind if isinstance(error, ProviderError) else type(error).__name__, str(error))
        for error in decided.errors()
    )
    return document.model_copy(update={"next": next_step(document, missing, fix=fix)})


def _held_to_floor(decision: FinalDecision, prompts: Iterable[PromptDocument]) -> FinalDecision:
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


class _Evidence(NamedTuple):
    """The evidence of a run or its record on one case.

    Attributes:
        node: The pytest item.
        location: The file and line of the case.
        unmeasured: The reason why trials have no verdict, on one line.
        across_models: Whether the sides have different models.
        base_unavailable: Whether the base's target cannot be called.
        outputs: Returns the output and the failed checks of each measured trial of a side.
    """

    node: str
    location: str
    unmeasured: str
    across_models: bool
    base_unavailable: bool
    outputs: Callable[[Side], Iterable[tuple[OutputDocument, list[OutputDocument]]]]


def _case_document(
    outcome: GateOutcome, case: GateCase, report: CaseReport, evidence: _Evidence
) -> CaseDocument:
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
) -> _Evidence:
    candidate, base = comparison.candidate, comparison.base

    def read_outputs(side: Side) -> Iterator[tuple[OutputDocument, list[OutputDocument]]]:
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
                yield _output_documents(side, trial.number, text, failures)

    return _Evidence(
        node=nodes.get(id(candidate), ""),
        location=candidate.case.location if candidate is not None else "",
        unmeasured=cause_of_case(decided, *comparison.case.key),
        across_models=candidate is not None
        and base is not None
        and _are_models(str(base.suite.model), str(candidate.suite.model)),
        base_unavailable=comparison.case.prompt in decided.base_unavailable,
        outputs=read_outputs,
    )


def _are_models(base: str, candidate: str) -> bool:
    """Return whether two sides have different models, and none is a target."""
    kinds = {side.partition(":")[0] for side in (base, candidate)}
    return base != candidate and not kinds.intersection(TARGET_KINDS)


def _output_documents(
    side: Side, trial: int, text: str | None, failures: Iterable[tuple[str, str, Any, Any]]
) -> tuple[OutputDocument, list[OutputDocument]]:
    """The document of an output, and one per judge that failed it, with the judge's reason."""
    output = OutputDocument(side=side, trial=trial, text=text or "")
    fields = ("judge", "reason", "expected", "output")
    return output, [
        output.model_copy(update=dict(zip(fields, failure, strict=True))) for failure in failures
    ]


def _passing_and_failing(
    report: CaseReport, evidence: _Evidence
) -> tuple[OutputDocument | None, OutputDocument | None]:
    """A passing and a failing output as evidence for the status of a case.

    An output that failed on another check than the case is no evidence.
    """
    if report.status not in _SHOWN_STATUSES:
        return None, None
    good: Side = "candidate" if report.status == "fixed" else "base"
    bad: Side = "base" if report.status == "fixed" else "candidate"
    check = report.decisive.check if report.decisive is not None else ""

    def documents(side: Side) -> Iterator[OutputDocument]:
        for output, failures in evidence.outputs(side):
            failed = [failure for failure in failures if not check or failure.judge == check]
            if failed or not failures:
                yield failed[0] if failed else output

    of_good, of_bad = list(documents(good)), list(documents(bad))
    return (
        next((output for output in (*of_good, *of_bad) if not output.judge), None),
        next((output for output in (*of_bad, *of_good) if output.judge), None),
    )


Rows = dict[tuple[str, str, str], list[dict[str, Any]]]


def decide_again(
    document: DecisionDocument,
    rows: Iterable[dict[str, Any]],
    policy: GatePolicy,
    *,
    looser_options: Sequence[str] = (),
    baseline: Baseline | None = None,
    rerun_command: str = "",
) -> DecisionDocument:
    """Decide again on the trials of a run; missing trials count as not recorded.

    Args:
        document: The decision of the run.
        rows: The rows of the run.
        policy: The policy to apply.
        looser_options: Options that are looser than the policy of the run.
        baseline: Another baseline to use; None for that of the run.
        rerun_command: The command that decides again; empty to keep the old one.

    Raises:
        UsageError: The record cannot be read, or the baseline does not match.
    """
    recorded = _by_case(document, rows)
    cases = [
        case_from_json({k: v for k, v in c.items() if k != "graded"}) for c in document.gate_cases
    ]
    if baseline is not None:
        cases = _with_baseline(cases, document, baseline, recorded)
    graded = {
        case.key: frozenset(c["graded"]) for case, c in zip(cases, document.gate_cases, strict=True)
    }
    outcome = _outcome(cases, policy, graded, recorded)
    selected = document.audit is not None and document.audit.result == "better"
    has_loss = any(
        prompt.anchor is not None and prompt.anchor.blocks for prompt in document.prompts
    )
    rules = selected or has_loss or any(prompt.rules for prompt in document.prompts)
    decision = _held_to_floor(
        final_decision(outcome.decision, broken=rules, unmeasured=bool(document.unmeasured)),
        document.prompts,
    )
    prompts = [
        prompt.model_copy(
            update={
                "counts": status_counts(outcome, prompt.prompt),
                "test": suite_test(outcome, prompt.prompt),
            }
        )
        for prompt in document.prompts
    ]
    before = {(case.prompt, case.case): case for case in document.cases}
    other_models = {
        prompt.prompt
        for prompt in prompts
        if prompt.base_model and _are_models(prompt.base_model, prompt.model)
    }
    line = operating_line_of(outcome)
    decided = document.model_copy(
        update={
            "decision": decision,
            "exit_code": EXIT_CODES[decision],
            "reasons": [
                *([document.audit.message] if selected and document.audit is not None else []),
                *reasons_of(
                    outcome,
                    prompts,
                    document.unmeasured,
                    base_unavailable=document.base_unavailable,
                    not_run=document.not_run,
                ),
            ],
            "prompts": prompts,
            "cases": [
                _case_document(
                    outcome,
                    case,
                    report,
                    _recorded_evidence(
                        case,
                        before[case.key],
                        recorded,
                        across_models=case.prompt in other_models,
                        base_unavailable=case.prompt in document.base_unavailable,
                    ),
                )
                for case, report in zip(cases, outcome.cases, strict=True)
            ],
            "calls": document.calls.model_copy(update={"live": 0, "cost_usd": 0.0}),
            "operating_line": str(line) if line is not None else "",
            "policy": policy_to_json(policy),
            "looser_options": [*document.looser_options, *looser_options],
            "gate_cases": [
                {**case_to_json(case), "graded": sorted(graded[case.key])} for case in cases
            ],
            "rerun_command": rerun_command or document.rerun_command,
        }
    )
    missing = document.next.command if document.decision in {"unmeasured", "undecided"} else ""
    causes = (row["cause"] for rows_ in recorded.values() for row in rows_ if row["cause"])
    fix = lasting_fix((cause["kind"], cause["message"]) for cause in causes)
    return decided.model_copy(update={"next": next_step(decided, missing, fix=fix)})


def _outcome(
    cases: Sequence[GateCase],
    policy: GatePolicy,
    graded: Mapping[tuple[str, str], frozenset[str]],
    recorded: Rows,
) -> GateOutcome:
    """The gate's decision on recorded trials only."""
    gate = Gate(cases, policy)
    checks = {case.key: case.checks for case in cases}
    while requests := gate.pending_trials():
        for request in requests:
            trials = recorded.get((request.prompt, request.case, request.side), [])
            key = (request.prompt, request.case)
            for number in request.trials:
                facts = (
                    facts_of_row(trials[number], checks[key], graded=graded[key])
                    if number < len(trials)
                    else "not-recorded"
                )
                gate.observe(request.prompt, request.case, request.side, number, facts)
    return gate.outcome()


def _by_case(document: DecisionDocument, rows: Iterable[dict[str, Any]]) -> Rows:
    """The trials by suite, case and side, sorted by number."""
    keys = {case.node: (case.prompt, case.case) for case in document.cases if case.node}
    by_case: Rows = defaultdict(list)
    for row in rows:
        key = keys.get(row["node"])
        if key is not None and row.get("side") is not None:
            by_case[*key, row["side"]].append(row)
    for trials in by_case.values():
        trials.sort(key=lambda row: row["trial"])
    return by_case


def _recorded_evidence(
    case: GateCase,
    before: CaseDocument,
    recorded: Rows,
    *,
    across_models: bool,
    base_unavailable: bool,
) -> _Evidence:
    def read_outputs(side: Side) -> Iterator[tuple[OutputDocument, list[OutputDocument]]]:
        for row in recorded.get((*case.key, side), ()):
            if row["cause"] is None and row["source"] is not None:
                text = shown_output(row["output"], row["refusal"], row.get("messages", ()))
                failures = [
                    (verdict["judge"], verdict["reason"], verdict["expected"], verdict["actual"])
                    for verdict in row["verdicts"]
                    if verdict["outcome"] == "fail" and verdict["blocking"]
                ]
                yield _output_documents(side, row["trial"], text, failures)

    rows = recorded.get((*case.key, "candidate"), ())
    causes = [row["cause"]["message"] for row in rows if row["cause"]]
    return _Evidence(
        node=before.node,
        location=before.location,
        unmeasured=cause_line(causes[0]) if causes else "",
        across_models=across_models,
        base_unavailable=base_unavailable,
        outputs=read_outputs,
    )


def _with_baseline(
    cases: Sequence[GateCase], document: DecisionDocument, baseline: Baseline, recorded: Rows
) -> list[GateCase]:
    """The cases, with the baselines of their prompts."""
    baselines: dict[str, StoredBaseline] = {}
    for prompt in document.prompts:
        own_cases = [case for case in cases if case.prompt == prompt.prompt]
        if prompt.prompt.split(" (")[0] == baseline.prompt and own_cases:
            stored_baseline = _find_stored(prompt, baseline, own_cases)
            baselines |= {prompt.prompt: stored_baseline} if stored_baseline is not None else {}
    if not baselines:
        raise UsageError(
            f"the baseline of {baseline.prompt!r} does not match the base of this run\n"
            "  fix: name a baseline of the same prompt, base version, model and judges"
        )
    changed: list[GateCase] = []
    for case in cases:
        digest = next(
            (row["case_digest"] for row in recorded.get((*case.key, "candidate"), ())), None
        )
        stored_baseline = baselines.get(case.prompt)
        if stored_baseline is not None and case.state == "changed" and digest is not None:
            changed.append(replace(case, baseline=stored_baseline.find_trials(case.case, digest)))
        else:
            changed.append(case)
    return changed


def _find_stored(
    prompt: PromptDocument, baseline: Baseline, cases: Sequence[GateCase]
) -> StoredBaseline | None:
    """The baseline of a prompt's base, for the dataset of these cases; None without one."""
    names = {case.case for case in cases}
    checks = {check for case in cases for check in case.checks}
    fitting = [
        stored_baseline
        for stored_baseline in (*baseline.baselines, *baseline.previous)
        if (stored_baseline.key.prompt, stored_baseline.key.model)
        == (prompt.base_digest, prompt.base_model)
        and checks == {*stored_baseline.key.judges}
        and names & {*stored_baseline.cases}
    ]
    return max(
        fitting, key=lambda stored_baseline: len(names & {*stored_baseline.cases}), default=None
    )
