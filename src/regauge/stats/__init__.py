"""The statistics of the gate and of calibration: pure functions of counts and scores.

The functions read no file, clock or global; random draws take a seed. A *check* is one
required judge on one case; counts of checks are arrays.

>>> from regauge.stats import failures_needed, CasePolicy
>>> failures_needed(12, 12, log_bound=CasePolicy().log_bound(checks=100))
4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.stats._agreement import (
        Sampled as Sampled,
        Side as Side,
        accuracy as accuracy,
        cohen_kappa as cohen_kappa,
        confusion_matrix as confusion_matrix,
        kendall_tau_b as kendall_tau_b,
        of_all as of_all,
        position_flips as position_flips,
        spearman as spearman,
    )
    from regauge.stats._evidence import (
        BetaComponent as BetaComponent,
        draw_pass_rates as draw_pass_rates,
        e_bh as e_bh,
        failures_needed as failures_needed,
        log_drift_ratio as log_drift_ratio,
        log_e_value as log_e_value,
        pass_rate_grid as pass_rate_grid,
    )
    from regauge.stats._intervals import (
        Direction as Direction,
        Interval as Interval,
        bootstrap_interval as bootstrap_interval,
        clopper_pearson as clopper_pearson,
        flaky_probability as flaky_probability,
        rate_difference as rate_difference,
        rule_of_three as rule_of_three,
        wilson as wilson,
    )
    from regauge.stats._permutation import (
        AUDIT_STEPS as AUDIT_STEPS,
        FULL_AUDIT as FULL_AUDIT,
        AuditStep as AuditStep,
        audit_p_value as audit_p_value,
        expected_failures as expected_failures,
        failure_weight as failure_weight,
        score_p_value as score_p_value,
        suite_p_value as suite_p_value,
    )
    from regauge.stats._policy import (
        FIRST_TRIALS_MAX as FIRST_TRIALS_MAX,
        AnchorPolicy as AnchorPolicy,
        CasePolicy as CasePolicy,
        CriticalPolicy as CriticalPolicy,
        NetPolicy as NetPolicy,
        SuitePolicy as SuitePolicy,
        auto_baseline_trials as auto_baseline_trials,
        auto_first_trials as auto_first_trials,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)
