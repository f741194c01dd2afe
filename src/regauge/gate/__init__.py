"""The merge gate: is a prompt, on the evidence of its trials, as good as it was on main?

`base` finds out what a change touched, `baselines` what is known of main, and `_decided.py` brings
both together. `engine` decides on counts alone, and `_run.py` runs the trials that it requests;
`power` estimates what it can see. `_decide.py` is the way through all of them; `_messages.py` words
the outcome.
"""

from __future__ import annotations

from regauge.evidence import NONE_DRAWN, CaseTier, CheckReport, Count, SuiteReport
from regauge.gate._audit import (
    AuditedTrial,
    AuditReport,
    audit_by_steps,
    audit_fresh,
    fresh_counts,
    recorded_outcomes,
    today_is_worse,
)
from regauge.gate._decide import Comparison, compare, decide, draw_part
from regauge.gate._decided import (
    EXIT_CODES,
    Bill,
    Compared,
    Decided,
    FinalDecision,
    SuiteBase,
    bill_draws,
    cause_of_case,
    compared_cases,
    final_decision,
)
from regauge.gate._decision_log import Change
from regauge.gate._estimate import GateEstimate, estimate
from regauge.gate._messages import (
    MessageContext,
    case_message,
    control_note,
    critical_note,
    reason_message,
    suite_message,
)
from regauge.gate._numbers import (
    CANDIDATE_FIRST,
    CONTROL_FIRST,
    EVALS_COPIES,
    EVALS_FIRST,
    GATE_TRIALS,
    REVISION_FIRST,
    StoredNumbers,
    stored_number,
)
from regauge.gate._outcome import CaseReport, Decision, GateOutcome, Reason
from regauge.gate._policy import GatePolicy, OnBroken, PolicyOptions, policy_of, with_more_trials
from regauge.gate._record import (
    case_from_json,
    case_to_json,
    facts_of_row,
    facts_of_trial,
    policy_from_json,
    policy_to_json,
)
from regauge.gate._replay import ReplayEvidence
from regauge.gate._run import GateProgress, GateRun, is_base_unavailable
from regauge.gate._types import Arm, GateCase, History, TrialFacts, Wanted, tier_held
from regauge.gate.base import base_branch
from regauge.gate.baselines import Baseline
from regauge.gate.engine import Gate
from regauge.gate.power import (
    Needed,
    OperatingLine,
    Rate,
    Target,
    cases_needed,
    first_draws_needed,
    operating_line,
    operating_line_of,
)

__all__ = [
    "CANDIDATE_FIRST",
    "CONTROL_FIRST",
    "EVALS_COPIES",
    "EVALS_FIRST",
    "EXIT_CODES",
    "GATE_TRIALS",
    "NONE_DRAWN",
    "REVISION_FIRST",
    "Arm",
    "AuditReport",
    "AuditedTrial",
    "Baseline",
    "Bill",
    "CaseReport",
    "CaseTier",
    "Change",
    "CheckReport",
    "Compared",
    "Comparison",
    "Count",
    "Decided",
    "Decision",
    "FinalDecision",
    "Gate",
    "GateCase",
    "GateEstimate",
    "GateOutcome",
    "GatePolicy",
    "GateProgress",
    "GateRun",
    "History",
    "MessageContext",
    "Needed",
    "OnBroken",
    "OperatingLine",
    "PolicyOptions",
    "Rate",
    "Reason",
    "ReplayEvidence",
    "StoredNumbers",
    "SuiteBase",
    "SuiteReport",
    "Target",
    "TrialFacts",
    "Wanted",
    "audit_by_steps",
    "audit_fresh",
    "base_branch",
    "bill_draws",
    "case_from_json",
    "case_message",
    "case_to_json",
    "cases_needed",
    "cause_of_case",
    "compare",
    "compared_cases",
    "control_note",
    "critical_note",
    "decide",
    "draw_part",
    "estimate",
    "facts_of_row",
    "facts_of_trial",
    "final_decision",
    "first_draws_needed",
    "fresh_counts",
    "is_base_unavailable",
    "operating_line",
    "operating_line_of",
    "policy_from_json",
    "policy_of",
    "policy_to_json",
    "reason_message",
    "recorded_outcomes",
    "stored_number",
    "suite_message",
    "tier_held",
    "today_is_worse",
    "with_more_trials",
]
