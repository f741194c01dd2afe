"""Judges: what says whether an answer is good, and the rules that come with regauge.

A rule is a pure function of one answer: `_rule.py` is the value, `_rule_factory.py` the decorator,
and `rules` holds those that come with regauge, grouped by what they look at. Judges that ask a
model are in `model` and `deepeval`, on the contract of `_asking.py`; `calibration` holds them
against labels of people, and `_standing.py` says whether they decide. `_advice.py` says what a
prompt should say for a rule.

>>> from regauge.judges import max_words
>>> max_words(40, field="reason").name
'max_words(40, field=reason)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges.deepeval import deepeval  # a package of this name stands beside it
from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.judges._answer import Answer, Expected, expected
    from regauge.judges._asking import (
        JudgeCalls,
        JudgeContext,
        Measurement,
        MemoisedJudge,
        ModelJudge,
        Standing,
        UnboundJudge,
        usual_calls,
    )
    from regauge.judges._case_checks import judge_of_checks
    from regauge.judges._criteria import criterion_of
    from regauge.judges._evaluators import (
        cases_from_test_data,
        judges_from_evaluators,
    )
    from regauge.judges._function import AsyncFunctionJudge, Judged, JudgeFunction, as_judge
    from regauge.judges._reference import JudgeDescription, describe, reference_page
    from regauge.judges._registry import judge_from_spec, judge_kinds
    from regauge.judges._rule import Check, Rule, on_answer, on_text
    from regauge.judges._rule_factory import RuleFactory, rule
    from regauge.judges._semantic import Embedder, EmbeddingModel, SemanticJudge, means_like
    from regauge.judges._standing import standing_of
    from regauge.judges._types import Judge, Outcome, Verdict, abstained, failed, graded, passed
    from regauge.judges.deepeval import DeepevalJudge
    from regauge.judges.model._claims import verified_claims
    from regauge.judges.model._pairwise import pairwise
    from regauge.judges.model._panel import panel
    from regauge.judges.model._rubric import rubric
    from regauge.judges.rules._choices import answer_is, choice_is
    from regauge.judges.rules._combine import all_of, any_of, at_least, not_, weighted
    from regauge.judges.rules._counts import (
        line_count,
        max_chars,
        max_words,
        min_chars,
        min_words,
        sentence_count,
        word_count,
    )
    from regauge.judges.rules._documents import csv_parses, python_parses, yaml_parses
    from regauge.judges.rules._edges import ends_with, starts_with
    from regauge.judges.rules._facts import (
        finish_reason_is,
        max_cost_usd,
        max_latency_s,
        max_tokens,
        never_calls,
        perplexity,
        tool_call_count,
        tool_calls_match,
        tools_called,
    )
    from regauge.judges.rules._fields import field, field_equals, field_in, has_keys
    from regauge.judges.rules._form import (
        is_lower_case,
        is_quoted,
        is_upper_case,
        no_comma,
        one_of,
    )
    from regauge.judges.rules._infrastructure import kubernetes_manifests, terraform_parses
    from regauge.judges.rules._invention import no_new_names, no_new_numbers, no_new_times
    from regauge.judges.rules._json_like import json_like
    from regauge.judges.rules._json_values import contains_json, json_matches_schema, json_parses
    from regauge.judges.rules._language import is_language
    from regauge.judges.rules._leak import no_prompt_leak
    from regauge.judges.rules._likeness import edit_distance, similarity
    from regauge.judges.rules._markdown import (
        bullet_count,
        highlight_count,
        in_fence,
        placeholder_count,
    )
    from regauge.judges.rules._markup import contains_html, contains_xml, html_parses, xml_parses
    from regauge.judges.rules._meaning import near_in_meaning
    from regauge.judges.rules._meteor import meteor
    from regauge.judges.rules._numbers import number_near
    from regauge.judges.rules._occurrences import match_count, text_count
    from regauge.judges.rules._overlap import bleu, chrf, gleu, rouge_l, rouge_n
    from regauge.judges.rules._paragraphs import (
        paragraph_count,
    )
    from regauge.judges.rules._patterns import matches
    from regauge.judges.rules._personal import no_personal_data
    from regauge.judges.rules._refusal import is_refusal
    from regauge.judges.rules._secrets import no_secrets
    from regauge.judges.rules._sections import has_sections
    from regauge.judges.rules._sql import sql_parses
    from regauge.judges.rules._text import (
        contains,
        contains_all,
        contains_any,
        equals,
        not_contains,
    )
    from regauge.judges.rules._tools import calls, calls_exactly, calls_in_order
    from regauge.judges.rules._urls import no_urls_of, urls_only_of
else:
    __getattr__ = names_of(
        __name__,
        {
            "_answer": "Answer Expected expected",
            "_asking": (
                "JudgeCalls JudgeContext Measurement MemoisedJudge ModelJudge Standing UnboundJudge"
                " usual_calls"
            ),
            "_criteria": "criterion_of",
            "_case_checks": "judge_of_checks",
            "_evaluators": "cases_from_test_data judges_from_evaluators",
            "_function": "AsyncFunctionJudge Judged JudgeFunction as_judge",
            "_reference": "JudgeDescription describe reference_page",
            "_registry": "judge_from_spec judge_kinds",
            "_rule": "Check Rule on_answer on_text",
            "_rule_factory": "RuleFactory rule",
            "_semantic": "Embedder EmbeddingModel SemanticJudge means_like",
            "_standing": "standing_of",
            "_types": "Judge Outcome Verdict abstained failed graded passed",
            "deepeval": "DeepevalJudge",
            "model._claims": "verified_claims",
            "model._pairwise": "pairwise",
            "model._panel": "panel",
            "model._rubric": "rubric",
            "rules._choices": "answer_is choice_is",
            "rules._combine": "all_of any_of at_least not_ weighted",
            "rules._counts": (
                "line_count max_chars max_words min_chars min_words sentence_count word_count"
            ),
            "rules._documents": "csv_parses python_parses yaml_parses",
            "rules._edges": "ends_with starts_with",
            "rules._facts": (
                "finish_reason_is max_cost_usd max_latency_s max_tokens never_calls "
                "perplexity tool_call_count tool_calls_match tools_called"
            ),
            "rules._fields": "field field_equals field_in has_keys",
            "rules._form": ("is_lower_case is_quoted is_upper_case no_comma one_of"),
            "rules._infrastructure": "kubernetes_manifests terraform_parses",
            "rules._invention": "no_new_names no_new_numbers no_new_times",
            "rules._json_like": "json_like",
            "rules._json_values": "contains_json json_matches_schema json_parses",
            "rules._language": "is_language",
            "rules._leak": "no_prompt_leak",
            "rules._likeness": "edit_distance similarity",
            "rules._markdown": "bullet_count highlight_count in_fence placeholder_count",
            "rules._markup": "contains_html contains_xml html_parses xml_parses",
            "rules._meaning": "near_in_meaning",
            "rules._meteor": "meteor",
            "rules._numbers": "number_near",
            "rules._occurrences": "match_count text_count",
            "rules._overlap": "bleu chrf gleu rouge_l rouge_n",
            "rules._paragraphs": "paragraph_count",
            "rules._patterns": "matches",
            "rules._personal": "no_personal_data",
            "rules._refusal": "is_refusal",
            "rules._secrets": "no_secrets",
            "rules._sections": "has_sections",
            "rules._sql": "sql_parses",
            "rules._text": "contains contains_all contains_any equals not_contains",
            "rules._tools": "calls calls_exactly calls_in_order",
            "rules._urls": "no_urls_of urls_only_of",
        },
    )

__all__ = [
    "Answer",
    "AsyncFunctionJudge",
    "Check",
    "DeepevalJudge",
    "Embedder",
    "EmbeddingModel",
    "Expected",
    "Judge",
    "JudgeCalls",
    "JudgeContext",
    "JudgeDescription",
    "JudgeFunction",
    "Judged",
    "Measurement",
    "MemoisedJudge",
    "ModelJudge",
    "Outcome",
    "Rule",
    "RuleFactory",
    "SemanticJudge",
    "Standing",
    "UnboundJudge",
    "Verdict",
    "abstained",
    "all_of",
    "answer_is",
    "any_of",
    "as_judge",
    "at_least",
    "bleu",
    "bullet_count",
    "calls",
    "calls_exactly",
    "calls_in_order",
    "cases_from_test_data",
    "choice_is",
    "chrf",
    "contains",
    "contains_all",
    "contains_any",
    "contains_html",
    "contains_json",
    "contains_xml",
    "criterion_of",
    "csv_parses",
    "deepeval",
    "describe",
    "edit_distance",
    "ends_with",
    "equals",
    "expected",
    "failed",
    "field",
    "field_equals",
    "field_in",
    "finish_reason_is",
    "gleu",
    "graded",
    "has_keys",
    "has_sections",
    "highlight_count",
    "html_parses",
    "in_fence",
    "is_language",
    "is_lower_case",
    "is_quoted",
    "is_refusal",
    "is_upper_case",
    "json_like",
    "json_matches_schema",
    "json_parses",
    "judge_from_spec",
    "judge_kinds",
    "judge_of_checks",
    "judges_from_evaluators",
    "kubernetes_manifests",
    "line_count",
    "match_count",
    "matches",
    "max_chars",
    "max_cost_usd",
    "max_latency_s",
    "max_tokens",
    "max_words",
    "means_like",
    "meteor",
    "min_chars",
    "min_words",
    "near_in_meaning",
    "never_calls",
    "no_comma",
    "no_new_names",
    "no_new_numbers",
    "no_new_times",
    "no_personal_data",
    "no_prompt_leak",
    "no_secrets",
    "no_urls_of",
    "not_",
    "not_contains",
    "number_near",
    "on_answer",
    "on_text",
    "one_of",
    "pairwise",
    "panel",
    "paragraph_count",
    "passed",
    "perplexity",
    "placeholder_count",
    "python_parses",
    "reference_page",
    "rouge_l",
    "rouge_n",
    "rubric",
    "rule",
    "sentence_count",
    "similarity",
    "sql_parses",
    "standing_of",
    "starts_with",
    "terraform_parses",
    "text_count",
    "tool_call_count",
    "tool_calls_match",
    "tools_called",
    "urls_only_of",
    "usual_calls",
    "verified_claims",
    "weighted",
    "word_count",
    "xml_parses",
    "yaml_parses",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
