"""Judges: what says whether an output is good, and the rules that come with regauge.

A rule is a pure function of one output: `_rule.py` is the value, `_rule_factory.py` the decorator,
and `rules` holds those that come with regauge, one module for each subject. The `__all__` of such a
module names its rules; everything else finds them there. Judges that call a model are in `model`
and `_deepeval`, on the contract of `_asking.py`; `calibration` compares them with human labels,
which decides whether they block. `_registry.py` finds judges by name.

>>> from regauge.judges import max_words
>>> max_words(40, field="reason").name
'max_words(40, field=reason)'
"""

# ruff: noqa: F403 - a rule is named in the `__all__` of its module alone
from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.judges._answer import (
        Answer as Answer,
    )
    from regauge.judges._answer import (
        Expected as Expected,
    )
    from regauge.judges._answer import (
        expected as expected,
    )
    from regauge.judges._asking import (
        EXTERNAL as EXTERNAL,
    )
    from regauge.judges._asking import (
        JudgeCalls as JudgeCalls,
    )
    from regauge.judges._asking import (
        JudgeContext as JudgeContext,
    )
    from regauge.judges._asking import (
        Measurement as Measurement,
    )
    from regauge.judges._asking import (
        MemoisedJudge as MemoisedJudge,
    )
    from regauge.judges._asking import (
        ModelJudge as ModelJudge,
    )
    from regauge.judges._asking import (
        Standing as Standing,
    )
    from regauge.judges._asking import (
        UnboundJudge as UnboundJudge,
    )
    from regauge.judges._asking import (
        calibrated_judges as calibrated_judges,
    )
    from regauge.judges._asking import (
        criterion_of as criterion_of,
    )
    from regauge.judges._asking import (
        is_semantic as is_semantic,
    )
    from regauge.judges._asking import (
        standing_of as standing_of,
    )
    from regauge.judges._asking import (
        usual_calls as usual_calls,
    )
    from regauge.judges._case_checks import (
        CaseChecks as CaseChecks,
    )
    from regauge.judges._case_checks import (
        is_case_checks as is_case_checks,
    )
    from regauge.judges._case_checks import (
        judge_of_checks as judge_of_checks,
    )
    from regauge.judges._case_checks import (
        versions_of_checks as versions_of_checks,
    )
    from regauge.judges._deepeval import (
        deepeval as deepeval,
    )
    from regauge.judges._deepeval._judge import (
        DeepevalJudge as DeepevalJudge,
    )
    from regauge.judges._evaluators import (
        cases_from_test_data as cases_from_test_data,
    )
    from regauge.judges._evaluators import (
        judges_from_evaluators as judges_from_evaluators,
    )
    from regauge.judges._external import (
        command_judge as command_judge,
    )
    from regauge.judges._external import (
        http_judge as http_judge,
    )
    from regauge.judges._function import (
        AsyncFunctionJudge as AsyncFunctionJudge,
    )
    from regauge.judges._function import (
        Judged as Judged,
    )
    from regauge.judges._function import (
        JudgeFunction as JudgeFunction,
    )
    from regauge.judges._function import (
        as_judge as as_judge,
    )
    from regauge.judges._promptfoo import (
        javascript as javascript,
    )
    from regauge.judges._promptfoo import (
        promptfoo_python as promptfoo_python,
    )
    from regauge.judges._registry import (
        JudgeDescription as JudgeDescription,
    )
    from regauge.judges._registry import (
        changed_rule as changed_rule,
    )
    from regauge.judges._registry import (
        describe as describe,
    )
    from regauge.judges._registry import (
        judge_from_spec as judge_from_spec,
    )
    from regauge.judges._registry import (
        judge_kinds as judge_kinds,
    )
    from regauge.judges._registry import (
        reference_page as reference_page,
    )
    from regauge.judges._registry import (
        with_prompt_schema as with_prompt_schema,
    )
    from regauge.judges._rule import (
        Check as Check,
    )
    from regauge.judges._rule import (
        Rule as Rule,
    )
    from regauge.judges._rule import (
        on_answer as on_answer,
    )
    from regauge.judges._rule import (
        on_text as on_text,
    )
    from regauge.judges._rule_factory import (
        RuleFactory as RuleFactory,
    )
    from regauge.judges._rule_factory import (
        rule as rule,
    )
    from regauge.judges._semantic import (
        Embedder as Embedder,
    )
    from regauge.judges._semantic import (
        EmbeddingModel as EmbeddingModel,
    )
    from regauge.judges._semantic import (
        SemanticJudge as SemanticJudge,
    )
    from regauge.judges._semantic import (
        means_like as means_like,
    )
    from regauge.judges._types import (
        Judge as Judge,
    )
    from regauge.judges._types import (
        Outcome as Outcome,
    )
    from regauge.judges._types import (
        Verdict as Verdict,
    )
    from regauge.judges._types import (
        abstained as abstained,
    )
    from regauge.judges._types import (
        broken_judge as broken_judge,
    )
    from regauge.judges._types import (
        failed as failed,
    )
    from regauge.judges._types import (
        graded as graded,
    )
    from regauge.judges._types import (
        passed as passed,
    )
    from regauge.judges.model._ask import (
        shipped_rubric as shipped_rubric,
    )
    from regauge.judges.model._claims import (
        verified_claims as verified_claims,
    )
    from regauge.judges.model._panel import (
        pairwise as pairwise,
    )
    from regauge.judges.model._panel import (
        panel as panel,
    )
    from regauge.judges.model._rubric import (
        rubric as rubric,
    )
    from regauge.judges.rules._combine import *
    from regauge.judges.rules._counts import *
    from regauge.judges.rules._documents import *
    from regauge.judges.rules._infrastructure import *
    from regauge.judges.rules._json import *
    from regauge.judges.rules._run import *
    from regauge.judges.rules._safety import *
    from regauge.judges.rules._similarity import *
    from regauge.judges.rules._text import *
    from regauge.judges.rules._values import *
else:
    __getattr__ = names_of(
        __name__,
        {
            "_answer": "Answer Expected expected",
            "_asking": (
                "EXTERNAL JudgeCalls JudgeContext Measurement MemoisedJudge ModelJudge Standing"
                " UnboundJudge calibrated_judges criterion_of is_semantic standing_of"
                " usual_calls"
            ),
            "_case_checks": "CaseChecks is_case_checks judge_of_checks versions_of_checks",
            "_evaluators": "cases_from_test_data judges_from_evaluators",
            "_external": "command_judge http_judge",
            "_function": "AsyncFunctionJudge Judged JudgeFunction as_judge",
            "_deepeval": "deepeval",
            "_deepeval._judge": "DeepevalJudge",
            "_promptfoo": "javascript promptfoo_python",
            "_registry": (
                "JudgeDescription changed_rule describe judge_from_spec judge_kinds reference_page"
                " with_prompt_schema"
            ),
            "_rule": "Check Rule on_answer on_text",
            "_rule_factory": "RuleFactory rule",
            "_semantic": "Embedder EmbeddingModel SemanticJudge means_like",
            "_types": "Judge Outcome Verdict abstained broken_judge failed graded passed",
            "model._claims": "verified_claims",
            "model._ask": "shipped_rubric",
            "model._panel": "pairwise panel",
            "model._rubric": "rubric",
        },
        whole=[
            "rules._text",
            "rules._counts",
            "rules._json",
            "rules._values",
            "rules._run",
            "rules._safety",
            "rules._combine",
            "rules._similarity",
            "rules._documents",
            "rules._infrastructure",
        ],
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
