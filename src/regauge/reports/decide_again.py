"""Decides again from a run record: other settings, another baseline, no model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.gate import (
    EXIT_CODES,
    Gate,
    GateCase,
    case_from_json,
    case_to_json,
    facts_of_row,
    final_decision,
    operating_line_of,
    policy_from_json,
    policy_to_json,
)
from regauge.reports._next_step import next_step
from regauge.reports._prompt_decisions import suite_test, verdict_counts
from regauge.reports.decisions import (
    AnswerFailure,
    case_document,
    reasons_of,
    shown_answer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.gate import Arm, Baseline, GateOutcome, GatePolicy
    from regauge.gate.baselines import StoredHistory
    from regauge.reports._decision import AnswerDocument, DecisionDocument, PromptDocument

__all__ = ["decide_again", "policy_of_decision"]

Rows = dict[tuple[str, str, str], list[dict[str, Any]]]


def policy_of_decision(document: DecisionDocument) -> GatePolicy:
    """What the change was held to."""
    return policy_from_json(document.policy)


def decide_again(
    document: DecisionDocument,
    rows: Iterable[dict[str, Any]],
    policy: GatePolicy,
    *,
    loosened: Sequence[str] = (),
    baseline: Baseline | None = None,
    again: str = "",
) -> DecisionDocument:
    """The decision that the trials of a run lead to; a trial it lacks is one not recorded.

    Args:
        document: What the run came to.
        rows: Its trials.
        policy: What to hold the change to now.
        loosened: Options that are looser than the policy of the run.
        baseline: Main's histories, in place of those the run knew.
        again: The command that decides so again.

    Raises:
        UsageError: The record cannot be read, or the baseline is about something else.
    """
    known = _by_case(document, rows)
    cases = [case_from_json({k: v for k, v in c.items() if k != "graded"}) for c in document.cells]
    if baseline is not None:
        cases = _with_baseline(cases, document, baseline, known)
    graded = {
        case.key: frozenset(c["graded"]) for case, c in zip(cases, document.cells, strict=True)
    }
    outcome = _outcome(cases, policy, graded, known)
    selected = document.audit is not None and document.audit.result == "better"
    lost = any(one.anchor is not None and one.anchor.blocks for one in document.prompts)
    rules = selected or lost or any(prompt.rules for prompt in document.prompts)
    decision = final_decision(outcome.decision, broken=rules, unmeasured=bool(document.unmeasured))
    prompts = [
        prompt.model_copy(
            update={
                "counts": verdict_counts(outcome, prompt.prompt),
                "test": suite_test(outcome, prompt.prompt),
            }
        )
        for prompt in document.prompts
    ]
    line = operating_line_of(outcome)
    decided = document.model_copy(
        update={
            "decision": decision,
            "exit_code": EXIT_CODES[decision],
            "reasons": [
                *([document.audit.message] if selected and document.audit is not None else []),
                *reasons_of(outcome, prompts, document.unmeasured, not_run=document.not_run),
            ],
            "prompts": prompts,
            "cases": list(_cases(outcome, cases, document, known)),
            "calls": document.calls.model_copy(update={"live": 0, "cost_usd": 0.0}),
            "operating_line": str(line) if line is not None else "",
            "policy": policy_to_json(policy),
            "loosened": [*document.loosened, *loosened],
            "cells": [{**case_to_json(case), "graded": sorted(graded[case.key])} for case in cases],
            "again": again or document.again,
        }
    )
    missing = document.next.command if document.decision in {"unmeasured", "undecided"} else ""
    return decided.model_copy(update={"next": next_step(decided, missing)})


def _outcome(
    cases: Sequence[GateCase],
    policy: GatePolicy,
    graded: Mapping[tuple[str, str], frozenset[str]],
    known: Rows,
) -> GateOutcome:
    """What the gate comes to when it is shown the trials of the record, and no others."""
    gate = Gate(cases, policy)
    checks = {case.key: case.checks for case in cases}
    while wanted := gate.wanted():
        for one in wanted:
            trials = known.get((one.prompt, one.case, one.arm), [])
            key = (one.prompt, one.case)
            for number in one.trials:
                facts = (
                    facts_of_row(trials[number], checks[key], graded=graded[key])
                    if number < len(trials)
                    else "not-recorded"
                )
                gate.observe(one.prompt, one.case, one.arm, number, facts)
    return gate.outcome()


def _by_case(document: DecisionDocument, rows: Iterable[dict[str, Any]]) -> Rows:
    """The trials by what the gate calls their suite, case and arm, in the order of numbers."""
    keys = {case.node: (case.prompt, case.case) for case in document.cases if case.node}
    found: Rows = defaultdict(list)
    for row in rows:
        key = keys.get(row["node"])
        if key is not None and row.get("arm") is not None:
            found[*key, row["arm"]].append(row)
    for trials in found.values():
        trials.sort(key=lambda row: row["trial"])
    return found


def _cases(
    outcome: GateOutcome, cases: Sequence[GateCase], document: DecisionDocument, known: Rows
) -> Iterator[Any]:
    models = {one.prompt: one.base_model not in {None, one.model} for one in document.prompts}
    before = {(case.prompt, case.case): case for case in document.cases}
    for case, report in zip(cases, outcome.cases, strict=True):

        def answers(arm: Arm, check: str, case: GateCase = case) -> Iterator[AnswerDocument]:
            for row in known.get((*case.key, arm), ()):
                if row["cause"] is None and row["source"] is not None:
                    failures = [
                        AnswerFailure(
                            verdict["judge"],
                            verdict["reason"],
                            verdict.get("expected"),
                            verdict.get("actual"),
                        )
                        for verdict in row["verdicts"]
                        if verdict["outcome"] == "fail" and verdict.get("gates", True)
                    ]
                    text = row["answer"] if row["answer"] is not None else row["refusal"] or ""
                    yield from shown_answer(arm, row["trial"], text, failures, check)

        causes = [
            row["cause"]["message"]
            for row in known.get((*case.key, "candidate"), ())
            if row["cause"]
        ]
        yield case_document(
            outcome,
            report,
            stored=case.history is not None and case.history.whole.trials > 0,
            unmeasured=causes[0].splitlines()[0] if causes else "",
            across_models=models[case.prompt],
            node=before[case.key].node,
            at=before[case.key].at,
            answers=answers,
        )


def _with_baseline(
    cases: Sequence[GateCase], document: DecisionDocument, baseline: Baseline, known: Rows
) -> list[GateCase]:
    """The cases of the baseline's prompt with its histories in place of their own."""
    stored: dict[str, StoredHistory] = {}
    for prompt in document.prompts:
        own = [case for case in cases if case.prompt == prompt.prompt]
        if prompt.prompt.split(" (")[0] == baseline.prompt and own:
            found = _stored(prompt, baseline, own)
            stored |= {prompt.prompt: found} if found is not None else {}
    if not stored:
        raise UsageError(
            f"the baseline of {baseline.prompt!r} knows nothing of what this run compared with\n"
            "  fix: name a baseline of the same prompt, base version, model and judges"
        )
    changed: list[GateCase] = []
    for case in cases:
        digest = next((row["case_digest"] for row in known.get((*case.key, "candidate"), ())), None)
        history = stored.get(case.prompt)
        if history is not None and case.state == "changed" and digest is not None:
            changed.append(replace(case, history=history.history(case.case, digest)))
        else:
            changed.append(case)
    return changed


def _stored(
    prompt: PromptDocument, baseline: Baseline, cases: Sequence[GateCase]
) -> StoredHistory | None:
    """The history of what a prompt was compared with; of several datasets that of these cases."""
    names = {case.case for case in cases}
    checks = {check for case in cases for check in case.checks}
    fitting = [
        one
        for one in (*baseline.histories, *baseline.previous)
        if (one.key.prompt, one.key.model) == (prompt.base_digest, prompt.base_model)
        and checks == {*one.key.judges}
        and names & {*one.cases}
    ]
    return max(fitting, key=lambda one: len(names & {*one.cases}), default=None)
