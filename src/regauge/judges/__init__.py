"""Judges, which score outputs, and the built-in rules.

A rule is a pure function of one output: `_rule.py` is the value, `_rule_factory.py` the decorator.
`rules` has the built-in ones, one module for each subject, whose `__all__` names its rules. LLM
judges are in `model` and `_deepeval`, on the contract of `_types.py`. `calibration` compares them
with human labels; calibrated judges are blocking. `_registry.py` finds judges by name.

>>> from regauge.judges import max_words
>>> max_words(40, field="reason").name
'max_words(40, field=reason)'
"""

# ruff: noqa: F403, I001 - a rule is named in the `__all__` of its module alone; modules are
# searched in order, those with the most used rules first
from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.judges.output import (
        JudgedOutput as JudgedOutput,
        Expected as Expected,
        expected as expected,
    )
    from regauge.judges._types import (
        EXTERNAL_JUDGES as EXTERNAL_JUDGES,
        JudgeCalls as JudgeCalls,
        JudgeContext as JudgeContext,
        Measurement as Measurement,
        MemoisedJudge as MemoisedJudge,
        ModelJudge as ModelJudge,
        JudgeStatus as JudgeStatus,
        UnboundJudge as UnboundJudge,
        calibrated_judges as calibrated_judges,
        criterion_of as criterion_of,
        is_semantic as is_semantic,
        judge_status as judge_status,
        usual_calls as usual_calls,
    )
    from regauge.judges._case_checks import (
        CHECKS as CHECKS,
        CaseChecks as CaseChecks,
        is_case_checks as is_case_checks,
        build_checks_judge as build_checks_judge,
        check_versions as check_versions,
    )
    from regauge.judges._deepeval import deepeval as deepeval
    from regauge.judges._deepeval._judge import DeepevalJudge as DeepevalJudge
    from regauge.judges._evaluators import (
        cases_from_test_data as cases_from_test_data,
        judges_from_evaluators as judges_from_evaluators,
    )
    from regauge.judges._external import command_judge as command_judge, http_judge as http_judge
    from regauge.judges._function import (
        AsyncFunctionJudge as AsyncFunctionJudge,
        JudgeResult as JudgeResult,
        JudgeFunction as JudgeFunction,
        as_judge as as_judge,
    )
    from regauge.judges._promptfoo import (
        javascript as javascript,
        promptfoo_python as promptfoo_python,
    )
    from regauge.judges._registry import (
        JudgeDescription as JudgeDescription,
        changed_rule as changed_rule,
        describe as describe,
        judge_from_spec as judge_from_spec,
        judge_kinds as judge_kinds,
        registered_judges as registered_judges,
        with_prompt_schema as with_prompt_schema,
    )
    from regauge.judges._rule import (
        Check as Check,
        Rule as Rule,
        on_output as on_output,
        on_text as on_text,
    )
    from regauge.judges._rule_factory import RuleFactory as RuleFactory, rule as rule
    from regauge.judges.rules._safety import (
        PersonalKind as PersonalKind,
        personal_data as personal_data,
    )
    from regauge.judges.rules._similarity import (
        Embedder as Embedder,
        EmbeddingModel as EmbeddingModel,
        SemanticJudge as SemanticJudge,
        means_like as means_like,
    )
    from regauge.judges._types import (
        Judge as Judge,
        Outcome as Outcome,
        Verdict as Verdict,
        abstained as abstained,
        broken_judge as broken_judge,
        failed as failed,
        graded as graded,
        passed as passed,
    )
    from regauge.judges.model.requests import shipped_rubric as shipped_rubric
    from regauge.judges.model._claims import verified_claims as verified_claims
    from regauge.judges.model._panel import panel as panel
    from regauge.judges.model._rubric import pairwise as pairwise, rubric as rubric
    from regauge.judges.rules._text import *
    from regauge.judges.rules._counts import *
    from regauge.judges.rules._json import *
    from regauge.judges.rules._answers import *
    from regauge.judges.rules._invented import *
    from regauge.judges.rules._run import *
    from regauge.judges.rules._safety import *
    from regauge.judges.rules._combine import *
    from regauge.judges.rules._similarity import *
    from regauge.judges.rules._documents import *
    from regauge.judges.rules._infrastructure import *
else:
    __getattr__, __dir__ = lazy_names(__name__)
