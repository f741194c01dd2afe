"""The document of a decision, from a gate run, with the diff of each changed prompt."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher, unified_diff
from typing import TYPE_CHECKING, Any

from regauge.errors import RecordingError
from regauge.gate import (
    EXIT_CODES,
    GateCase,
    MessageContext,
    case_message,
    control_note,
    critical_note,
    final_decision,
    reason_message,
    sensitivity_line_of,
)
from regauge.model_id import is_simulated
from regauge.project import TARGET_KINDS
from regauge.providers import shown_output, sum_if_known
from regauge.reports._documents import (
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
from regauge.reports._writer import rows_of
from regauge.reports.mutants import guards_document
from regauge.runner import EvalResult
from regauge.wording import cause_line, plural

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
    from regauge.reports._documents import GuardsDocument, Rows
    from regauge.runner import PlannedCase

# As `git diff` shows.
_CONTEXT_LINES = 3
# The order of the sections of a prompt file in a diff; others come between.
_SECTIONS = {"messages": 0, "version": 2, "changelog": 2}
# Sections that a decision shows next to the diff.
_STATED = frozenset({"version", "changelog"})
_TOKENS = ("input_tokens", "output_tokens")
_KEY = re.compile(r"([A-Za-z]\w*):")


def rows_of_gate(decided: GateResult, nodes: Mapping[int, str]) -> Rows:
    """The rows of a gate run's trials, as in its record.

    Args:
        nodes: The pytest item of each planned case, by `id` of the case.
    """
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for comparison in decided.compared_cases:
        node = nodes.get(id(comparison.candidate), "")
        sides: tuple[tuple[Side, PlannedCase | None], ...] = (
            ("candidate", comparison.candidate),
            ("base", comparison.base),
        )
        for side, planned_case in sides:
            trials = tuple(decided.trials.get((*comparison.case.key, side), ()))
            if planned_case is not None and trials:
                eval_, case = planned_case.eval, planned_case.case
                result = EvalResult(eval=eval_, case=case, trials=trials, node_id=node)
                rows[*comparison.case.key, side] = list(rows_of(result, side=side))
    return rows


def calls_of(rows: Rows, first_trials: Mapping[str, int]) -> CallsDocument:
    """The trials of a gate run by kind, and the usage of live calls.

    Args:
        first_trials: Trials of every case in the first round, by eval.
    """
    kinds: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    costs_usd: list[float | None] = []
    for (prompt, _, side), trials in rows.items():
        for number, row in enumerate(trials):
            if row["source"] is None:
                continue
            first = "first" if number < first_trials.get(prompt, 1) else "follow_up"
            kinds["base" if side == "base" else first] += 1
            usages = [verdict.get("usage") for verdict in row["verdicts"]]
            if row["source"] == "live":
                usages.insert(0, {**row, "live": 1, "spent_usd": row["cost_usd"]})
            for usage in usages:
                if usage and usage["live"]:
                    kinds["live"] += usage["live"]
                    tokens.update({name: usage[name] for name in _TOKENS})
                    costs_usd.append(usage["spent_usd"])
    return CallsDocument(
        first=kinds["first"],
        follow_up=kinds["follow_up"],
        base=kinds["base"],
        live=kinds["live"],
        cost_usd=sum_if_known(costs_usd),
        input_tokens=tokens["input_tokens"],
        output_tokens=tokens["output_tokens"],
    )


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
    looser_options: Sequence[str] = (),
    guards: Sequence[ChangedGuards] = (),
) -> DecisionDocument:
    """The document of a decision.

    Args:
        decided: The result of the gate run.
        nodes: The pytest item of each planned case, by `id` of the case.
        rerun_command: The command that decides again.
        missing: The command that runs missing trials; empty if none is missing.
        looser_options: Options of the command that are looser than the base's policy.
        guards: The instructions that lose or get a guard.
    """
    comparison, outcome, audit = decided.comparison, decided.outcome, decided.audit
    prompts = [prompt_document(decided, eval_, guards) for eval_ in comparison.evals]
    decision = held_to_floor(decided.decision, prompts)
    rows = rows_of_gate(decided, nodes)
    cases = [compared_case.case for compared_case in decided.compared_cases]
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
        audit=audit,
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
        cases=case_documents(
            outcome,
            cases,
            rows,
            prompts=prompts,
            locations={
                compared_case.case.key: _location_of(compared_case, nodes)
                for compared_case in decided.compared_cases
            },
            base_unavailable=decided.base_unavailable,
        ),
        calls=calls_of(rows, outcome.first_trials),
        sensitivity=sensitivity_of(outcome),
        rerun_command=rerun_command,
        policy=outcome.policy,
        gate_cases=cases,
    )
    options = [eval_.candidate.evals_option for eval_ in comparison.evals]
    evals_option = next(filter(None, options), None)
    step = next_step(document, missing, fix=lasting_fix(rows), evals_option=evals_option or ())
    return document.model_copy(update={"next": step})


def _location_of(compared_case: CaseComparison, nodes: Mapping[int, str]) -> tuple[str, str]:
    """The pytest item of a case, and its file and line."""
    candidate = compared_case.candidate
    if candidate is None:
        return "", ""
    return nodes.get(id(candidate), ""), candidate.case.location


def sensitivity_of(outcome: GateOutcome) -> str:
    """The sensitivity of a gate, from its own baselines; empty without any."""
    line = sensitivity_line_of(outcome)
    return str(line) if line is not None else ""


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
        reason_message(reason, outcome, base_unavailable=base_unavailable)
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


def case_documents(
    outcome: GateOutcome,
    cases: Sequence[GateCase],
    rows: Rows,
    *,
    prompts: Iterable[PromptDocument],
    locations: Mapping[tuple[str, str], tuple[str, str]],
    base_unavailable: Collection[str],
) -> list[CaseDocument]:
    """The documents of all cases.

    Args:
        outcome: The outcome of the gate.
        cases: Its cases.
        rows: The rows of their trials.
        prompts: Their prompts.
        locations: The pytest item of each case, and its file and line.
        base_unavailable: The prompts whose target on the base cannot be called.
    """
    other_models = {
        prompt.prompt
        for prompt in prompts
        if prompt.base_model and are_models(prompt.base_model, prompt.model)
    }
    blocking = {
        (reason.prompt, reason.case) for reason in outcome.reasons if reason.leads_to != "accept"
    }
    documents: list[CaseDocument] = []
    for case, report in zip(cases, outcome.cases, strict=True):
        context = MessageContext(
            checks=outcome.checks,
            has_baseline=case.baseline is not None and case.baseline.total.trials > 0,
            unmeasured=_unmeasured_cause(rows, case),
            across_models=case.prompt in other_models,
            provisional=outcome.policy.provisional,
            base_unavailable=case.prompt in base_unavailable,
            is_recorded=case.recorded,
        )
        passing, failing = _passing_and_failing(report, rows)
        node, location = locations[case.key]
        documents.append(
            CaseDocument(
                prompt=report.prompt,
                case=report.case,
                tier=report.tier,
                state=report.state,
                status=report.status,
                blocks=case.key in blocking,
                message=case_message(report, context),
                accepted=report.accepted,
                edit_sensitive=report.edit_sensitive,
                node=node,
                location=location,
                before=report.before,
                today=report.today,
                candidate=report.candidate,
                checks=list(report.checks),
                passing=passing,
                failing=failing,
            )
        )
    return documents


def _unmeasured_cause(rows: Rows, case: GateCase) -> str:
    """The cause of unmeasured trials of a case, on one line."""
    for side, prefix in (("candidate", ""), ("base", "base: ")):
        causes = (row["cause"] for row in rows.get((*case.key, side), ()) if row["cause"])
        if cause := next(causes, None):
            if cause["kind"] == RecordingError.__name__:
                # A full disk affects every case.
                return "; ".join(line.strip() for line in cause["message"].splitlines())
            return f"{prefix}{cause_line(cause['message'])}"
    return ""


def are_models(base: str, candidate: str) -> bool:
    """Return whether two sides have different models, and none is a target."""
    kinds = {side.partition(":")[0] for side in (base, candidate)}
    return base != candidate and not kinds.intersection(TARGET_KINDS)


def _outputs(rows: Rows, key: tuple[str, str, Side], check: str) -> Iterator[OutputDocument]:
    """An output of each measured trial that passed, or that a check failed.

    Args:
        check: The check; empty for any.
    """
    for row in rows.get(key, ()):
        if row["cause"] is not None or row["source"] is None:
            continue
        text = shown_output(row["output"], row["refusal"], row.get("messages", ()))
        output = OutputDocument(side=key[2], trial=row["trial"], text=text or "")
        failures = [
            verdict
            for verdict in row["verdicts"]
            if verdict["outcome"] == "fail" and verdict.get("blocking", True)
        ]
        matching = (verdict for verdict in failures if not check or verdict["judge"] == check)
        if (failure := next(matching, None)) is not None:
            yield output.model_copy(
                update={
                    "judge": failure["judge"],
                    "reason": failure["reason"],
                    "expected": failure.get("expected"),
                    "output": failure.get("actual"),
                }
            )
        elif not failures:
            yield output


def _passing_and_failing(
    report: CaseReport, rows: Rows
) -> tuple[OutputDocument | None, OutputDocument | None]:
    """A passing and a failing output as evidence for the status of a case.

    An output that failed on another check than the case is not evidence.
    """
    if report.status not in _SHOWN_STATUSES:
        return None, None
    good: Side = "candidate" if report.status == "fixed" else "base"
    bad: Side = "base" if report.status == "fixed" else "candidate"
    check = report.decisive.check if report.decisive is not None else ""
    of_good, of_bad = (
        list(_outputs(rows, (report.prompt, report.case, side), check)) for side in (good, bad)
    )
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
