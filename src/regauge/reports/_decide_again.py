"""A decision again, from the record of a gate run, without calls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.gate import (
    EXIT_CODES,
    Gate,
    GateCase,
    facts_of_row,
    final_decision,
)
from regauge.reports._console import prompt_of_eval
from regauge.reports._next_step import lasting_fix, next_step
from regauge.reports.decisions import (
    case_documents,
    held_to_floor,
    reasons_of,
    sensitivity_of,
    status_counts,
    suite_test,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.gate import (
        Baseline,
        GateOutcome,
        GatePolicy,
    )
    from regauge.gate.baselines import StoredBaseline
    from regauge.reports._documents import (
        DecisionDocument,
        PromptDocument,
        Rows,
    )


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
    cases = document.gate_cases
    if baseline is not None:
        cases = _with_baseline(cases, document, baseline, recorded)
    outcome = _outcome(cases, policy, recorded)
    audit = document.audit if document.audit and document.audit.result == "better" else None
    is_broken = any(
        prompt.rules or (prompt.anchor is not None and prompt.anchor.blocks)
        for prompt in document.prompts
    )
    decision = held_to_floor(
        final_decision(
            outcome.decision,
            broken=is_broken or audit is not None,
            unmeasured=bool(document.unmeasured),
        ),
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
    reasons = reasons_of(
        outcome,
        prompts,
        document.unmeasured,
        base_unavailable=document.base_unavailable,
        not_run=document.not_run,
    )
    decided = document.model_copy(
        update={
            "decision": decision,
            "exit_code": EXIT_CODES[decision],
            "reasons": [audit.message, *reasons] if audit is not None else reasons,
            "prompts": prompts,
            "cases": case_documents(
                outcome,
                cases,
                recorded,
                prompts=document.prompts,
                locations={
                    (case.prompt, case.case): (case.node, case.location) for case in document.cases
                },
                base_unavailable=document.base_unavailable,
            ),
            "calls": document.calls.model_copy(update={"live": 0, "cost_usd": 0.0}),
            "sensitivity": sensitivity_of(outcome),
            "policy": policy,
            "looser_options": [*document.looser_options, *looser_options],
            "gate_cases": cases,
            "rerun_command": rerun_command or document.rerun_command,
        }
    )
    missing = " ".join([document.rerun_command, *looser_options])
    if document.decision in {"unmeasured", "undecided"}:
        missing = document.next.command
    step = next_step(decided, missing, fix=lasting_fix(recorded))
    return decided.model_copy(update={"next": step})


def _outcome(cases: Sequence[GateCase], policy: GatePolicy, recorded: Rows) -> GateOutcome:
    """The gate's decision on recorded trials only."""
    gate = Gate(cases, policy)
    by_key = {case.key: case for case in cases}
    while requests := gate.pending_trials():
        for request in requests:
            trials = recorded.get((request.prompt, request.case, request.side), [])
            case = by_key[request.prompt, request.case]
            for number in request.trials:
                facts = (
                    facts_of_row(trials[number], case.checks, graded=case.graded)
                    if number < len(trials)
                    else "not-recorded"
                )
                gate.observe(request.prompt, request.case, request.side, number, facts)
    return gate.outcome()


def _by_case(document: DecisionDocument, rows: Iterable[dict[str, Any]]) -> Rows:
    """The trials by eval, case and side, sorted by number."""
    keys = {case.node: (case.prompt, case.case) for case in document.cases if case.node}
    by_case: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        key = keys.get(row["node"])
        if key is not None and row.get("side") is not None:
            by_case[*key, row["side"]].append(row)
    for trials in by_case.values():
        trials.sort(key=lambda row: row["trial"])
    return by_case


def _with_baseline(
    cases: Sequence[GateCase], document: DecisionDocument, baseline: Baseline, recorded: Rows
) -> list[GateCase]:
    """The cases, with the baselines of their prompts."""
    baselines: dict[str, StoredBaseline] = {}
    for prompt in document.prompts:
        own_cases = [case for case in cases if case.prompt == prompt.prompt]
        if prompt_of_eval(prompt.prompt) == baseline.prompt and own_cases:
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
