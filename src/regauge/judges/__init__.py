"""Judges: what says whether an answer is good, and the rules that come with regauge.

>>> from regauge.judges import max_words
>>> max_words(40, field="reason").name
'max_words(40, field=reason)'
"""

from __future__ import annotations

from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._function import JudgeFunction, as_judge
from regauge.judges._rule import Check, Rule, RuleFactory, on_answer, on_text, rule
from regauge.judges._types import Judge, Outcome, Verdict, abstained, failed, graded, passed
from regauge.judges.rules._combine import all_of, any_of, not_
from regauge.judges.rules._counts import max_chars, max_words, min_words, word_count
from regauge.judges.rules._fields import field, field_equals, field_in, has_keys
from regauge.judges.rules._json_values import contains_json, json_matches_schema, json_parses
from regauge.judges.rules._likeness import similarity
from regauge.judges.rules._secrets import no_secrets
from regauge.judges.rules._sections import has_sections
from regauge.judges.rules._text import (
    contains,
    contains_all,
    contains_any,
    ends_with,
    equals,
    matches,
    not_contains,
    starts_with,
)

__all__ = [
    "Answer",
    "Check",
    "Expected",
    "Judge",
    "JudgeFunction",
    "Outcome",
    "Rule",
    "RuleFactory",
    "Verdict",
    "abstained",
    "all_of",
    "any_of",
    "as_judge",
    "contains",
    "contains_all",
    "contains_any",
    "contains_json",
    "ends_with",
    "equals",
    "expected",
    "failed",
    "field",
    "field_equals",
    "field_in",
    "graded",
    "has_keys",
    "has_sections",
    "json_matches_schema",
    "json_parses",
    "matches",
    "max_chars",
    "max_words",
    "min_words",
    "no_secrets",
    "not_",
    "not_contains",
    "on_answer",
    "on_text",
    "passed",
    "rule",
    "similarity",
    "starts_with",
    "word_count",
]
