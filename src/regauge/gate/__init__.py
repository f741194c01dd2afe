"""The merge gate: decides whether a prompt performs as well as on the base, from its trials.

`_comparison.py` compares a change with its base, eval by eval (`_base.py`); `_decide.py` runs the
comparison and decides. `_engine.py` decides on counts alone, `_run.py` runs the trials that it
requests, and `baselines.py` stores trials of the base. `_estimate.py` estimates the cost of a gate,
`power.py` its sensitivity; `_messages.py` writes the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.evidence import (
        NO_TRIALS as NO_TRIALS,
        AuditReport as AuditReport,
        CaseTier as CaseTier,
        CheckReport as CheckReport,
        Count as Count,
        SuiteReport as SuiteReport,
    )
    from regauge.gate._accepted import find_accepted as find_accepted
    from regauge.gate._anchor import (
        AnchorComparison as AnchorComparison,
        CheckChange as CheckChange,
        accepted_since as accepted_since,
        anchor_eval as anchor_eval,
        anchor_version as anchor_version,
        changes_between as changes_between,
        compare_baselines as compare_baselines,
        stored_anchor as stored_anchor,
    )
    from regauge.gate._audit import (
        audit_by_steps as audit_by_steps,
        audit_fresh as audit_fresh,
        fresh_counts as fresh_counts,
        recorded_outcomes as recorded_outcomes,
        today_is_worse as today_is_worse,
    )
    from regauge.gate._base import (
        EvalBase as EvalBase,
        entry_errors as entry_errors,
    )
    from regauge.gate._baseline_sessions import (
        SESSIONS as SESSIONS,
        Drift as Drift,
        EvalTrials as EvalTrials,
        Recheck as Recheck,
        RecheckEval as RecheckEval,
        TopUp as TopUp,
        TopUpEval as TopUpEval,
        TopUpPolicy as TopUpPolicy,
        add_session as add_session,
        draws_of as draws_of,
        merge_baselines as merge_baselines,
        run_baseline_trials as run_baseline_trials,
        top_up as top_up,
    )
    from regauge.gate._commit import (
        BaseCommit as BaseCommit,
        base_branch as base_branch,
        find_base as find_base,
        target_of_base as target_of_base,
    )
    from regauge.gate._comparison import (
        Comparison as Comparison,
        compare as compare,
    )
    from regauge.gate._decide import (
        decide as decide,
        run_part as run_part,
    )
    from regauge.gate._decision_log import (
        GatedChange as GatedChange,
    )
    from regauge.gate._engine import (
        Gate as Gate,
        is_flaky as is_flaky,
    )
    from regauge.gate._estimate import (
        Bill as Bill,
        bill_trials as bill_trials,
        estimate as estimate,
    )
    from regauge.gate._messages import (
        MessageContext as MessageContext,
        case_message as case_message,
        control_note as control_note,
        critical_note as critical_note,
        reason_message as reason_message,
    )
    from regauge.gate._replay import (
        ReplayEvidence as ReplayEvidence,
    )
    from regauge.gate._result import (
        EXIT_CODES as EXIT_CODES,
        CaseComparison as CaseComparison,
        FinalDecision as FinalDecision,
        GateResult as GateResult,
        collect_compared_cases as collect_compared_cases,
        final_decision as final_decision,
    )
    from regauge.gate._run import (
        GateRun as GateRun,
        is_base_unavailable as is_base_unavailable,
    )
    from regauge.gate._suites import (
        screen as screen,
        screen_bound as screen_bound,
    )
    from regauge.gate._trials import (
        CANDIDATE_FIRST as CANDIDATE_FIRST,
        CONTROL_FIRST as CONTROL_FIRST,
        EVALS_COPIES as EVALS_COPIES,
        EVALS_FIRST as EVALS_FIRST,
        GATE_TRIALS as GATE_TRIALS,
        REVISION_FIRST as REVISION_FIRST,
        StoredNumbers as StoredNumbers,
        facts_of_row as facts_of_row,
        facts_of_trial as facts_of_trial,
        stored_number as stored_number,
    )
    from regauge.gate._types import (
        CRITICAL_TRIALS as CRITICAL_TRIALS,
        BaseTrials as BaseTrials,
        CaseReport as CaseReport,
        GateCase as GateCase,
        GateOutcome as GateOutcome,
        GatePolicy as GatePolicy,
        OnBroken as OnBroken,
        PolicyOptions as PolicyOptions,
        Side as Side,
        TrialFacts as TrialFacts,
        policy_of as policy_of,
        tier_held as tier_held,
    )
    from regauge.gate.baselines import (
        Baseline as Baseline,
    )
    from regauge.gate.power import (
        DetectableDrop as DetectableDrop,
        Rate as Rate,
        SensitivityLine as SensitivityLine,
        cases_needed as cases_needed,
        first_trials_needed as first_trials_needed,
        sensitivity_line as sensitivity_line,
        sensitivity_line_of as sensitivity_line_of,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)
