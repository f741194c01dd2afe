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
    position_flips,
    spearman,
)
from regauge.stats._audit import AUDIT_STEPS, FULL_AUDIT, AuditStep, audit_p_value
from regauge.stats._bootstrap import bootstrap_interval
from regauge.stats._counts import Direction
from regauge.stats._discoveries import EBound, benjamini_hochberg, e_bh
from regauge.stats._drift import log_drift_ratio
from regauge.stats._evidence import (
    CANDIDATE_MIXTURE,
    MAIN_MIXTURE,
    BetaComponent,
    failures_needed,
    log_e_value,
    log_marginal,
)
from regauge.stats._head_to_head import sign_flip_p_value, sign_test_p_value
from regauge.stats._intervals import (
    Interval,
    clopper_pearson,
    flaky_probability,
    rule_of_three,
    wilson,
)
from regauge.stats._policy import CasePolicy, CriticalPolicy, SuitePolicy
from regauge.stats._scores import score_p_value
from regauge.stats._spread import (
    Arms,
    VarianceFall,
    steadier_p_value,
    variance_fall,
    verdict_variance,
)
from regauge.stats._suite import expected_failures, failure_weight, suite_p_value

__all__ = [
    "AUDIT_STEPS",
    "CANDIDATE_MIXTURE",
    "FULL_AUDIT",
    "MAIN_MIXTURE",
    "Arms",
    "AuditStep",
    "BetaComponent",
    "CasePolicy",
    "ConfusionMatrix",
    "CriticalPolicy",
    "Direction",
    "EBound",
    "Interval",
    "PositionFlips",
    "SuitePolicy",
    "VarianceFall",
    "accuracy",
    "audit_p_value",
    "benjamini_hochberg",
    "bootstrap_interval",
    "clopper_pearson",
    "cohen_kappa",
    "confusion_matrix",
    "e_bh",
    "expected_failures",
    "failure_weight",
    "failures_needed",
    "flaky_probability",
    "kendall_tau_b",
    "log_drift_ratio",
    "log_e_value",
    "log_marginal",
    "position_flips",
    "rule_of_three",
    "score_p_value",
    "sign_flip_p_value",
    "sign_test_p_value",
    "spearman",
    "steadier_p_value",
    "suite_p_value",
    "variance_fall",
    "verdict_variance",
    "wilson",
]
