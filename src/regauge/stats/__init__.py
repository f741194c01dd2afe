"""The statistics of the gate and of calibration: pure functions of counts and scores.

Nothing here reads a file, a clock or a global; what is drawn at random takes a seed.
A *cell* is one case under one required check; counts of cells come as arrays.

>>> from regauge.stats import failures_needed, CasePolicy
>>> failures_needed(12, 12, log_bound=CasePolicy().log_bound(cells=100))
4
"""

from __future__ import annotations

from regauge.stats._agreement import (
    ConfusionMatrix,
    PositionFlips,
    accuracy,
    cohen_kappa,
    confusion_matrix,
    kendall_tau_b,
    of_all,
    position_flips,
    spearman,
)
from regauge.stats._evidence import (
    CANDIDATE_MIXTURE,
    MAIN_MIXTURE,
    BetaComponent,
    EBound,
    draw_pass_rates,
    e_bh,
    failures_needed,
    log_drift_ratio,
    log_e_value,
    log_marginal,
    pass_rate_grid,
)
from regauge.stats._intervals import (
    Direction,
    Interval,
    bootstrap_interval,
    clopper_pearson,
    flaky_probability,
    rate_difference,
    rule_of_three,
    wilson,
)
from regauge.stats._permutation import (
    AUDIT_STEPS,
    FULL_AUDIT,
    Arms,
    AuditStep,
    VarianceFall,
    audit_p_value,
    expected_failures,
    failure_weight,
    score_p_value,
    steadier_p_value,
    suite_p_value,
    variance_fall,
    verdict_variance,
)
from regauge.stats._policy import (
    FIRST_DRAWS_MOST,
    AnchorPolicy,
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
    auto_baseline_trials,
    auto_first_draws,
)

__all__ = [
    "AUDIT_STEPS",
    "CANDIDATE_MIXTURE",
    "FIRST_DRAWS_MOST",
    "FULL_AUDIT",
    "MAIN_MIXTURE",
    "AnchorPolicy",
    "Arms",
    "AuditStep",
    "BetaComponent",
    "CasePolicy",
    "ConfusionMatrix",
    "CriticalPolicy",
    "Direction",
    "EBound",
    "Interval",
    "NetPolicy",
    "PositionFlips",
    "SuitePolicy",
    "VarianceFall",
    "accuracy",
    "audit_p_value",
    "auto_baseline_trials",
    "auto_first_draws",
    "bootstrap_interval",
    "clopper_pearson",
    "cohen_kappa",
    "confusion_matrix",
    "draw_pass_rates",
    "e_bh",
    "expected_failures",
    "failure_weight",
    "failures_needed",
    "flaky_probability",
    "kendall_tau_b",
    "log_drift_ratio",
    "log_e_value",
    "log_marginal",
    "of_all",
    "pass_rate_grid",
    "position_flips",
    "rate_difference",
    "rule_of_three",
    "score_p_value",
    "spearman",
    "steadier_p_value",
    "suite_p_value",
    "variance_fall",
    "verdict_variance",
    "wilson",
]
