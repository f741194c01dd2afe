"""What rules would have a prompt say: for every kind, for its negation, and never a case's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge import judges
from regauge.judges._registry import judge_kinds
from regauge.judges._rule import Rule, fill_template
from regauge.judges._rule_factory import RuleFactory, rule
from regauge.judges._types import Verdict, passed
from tests.unit.judges.samples import RULES

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.judges._rule import Check
    from regauge.judges.output import JudgedOutput

# Made of other rules, or without a verdict.
COMBINING = {"all_of", "any_of", "at_least", "weighted", "field", "in_fence", "not", "unmeasured"}
# No instruction moves these.
SILENT = {
    "finish_reason_is",
    "javascript",
    "max_cost_usd",
    "max_latency_s",
    "perplexity",
    "promptfoo_python",
}
TEMPLATES = {
    kind: made.template
    for kind, made in judge_kinds().items()
    if isinstance(made, RuleFactory) and made.about is not None
}
SAMPLES = {made.kind: made for made in reversed(RULES)}


def test_every_kind_of_rule_has_its_words() -> None:
    kinds = judge_kinds()
    rules = {kind for kind, made in kinds.items() if isinstance(made, RuleFactory)}
    assert rules | {"not"} == {*TEMPLATES, *COMBINING}


@pytest.mark.parametrize("made", RULES, ids=lambda made: made.name)
def test_advice_is_one_line_that_leaves_no_slot_open(made: Rule) -> None:
    opposite = made if made.opposite else ~made
    for said in (made.advice(), opposite.advice()):
        assert "\n" not in said
        assert "{" not in said.replace('{"a"', "")
        assert "  " not in said
        assert not said or (said[0].isupper() and said[-1] in ".`")
    assert made.opposite or (~~made).advice() == made.advice()
    assert made.criterion in {"format", "correctness", "completeness", "relevance"}
    assert made.description


@pytest.mark.parametrize("kind", sorted(set(TEMPLATES) - SILENT))
def test_a_rule_with_its_own_values_has_something_to_say(kind: str) -> None:
    made = WRITTEN_OUT.get(kind) or SAMPLES[kind]
    assert made.advice(), made.name


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_what_a_case_brings_itself_is_never_said(kind: str) -> None:
    hidden = {"expected": "severity"}
    params = dict.fromkeys(("to", "value", "text", "expected"), hidden)
    given = {**params, "texts": [hidden], "path": "severity", "field": None}
    for negated in (False, True):
        said = fill_template(TEMPLATES[kind], given, negated=negated)
        assert "expected" not in said.replace("expected value", "")


WRITTEN_OUT = {
    "bleu": judges.bleu("It is full."),
    "chrf": judges.chrf("It is full."),
    "contains": judges.contains("disk"),
    "edit_distance": judges.edit_distance("It is full."),
    "equals": judges.equals("OK"),
    "gleu": judges.gleu("It is full."),
    "meteor": judges.meteor("It is full."),
    "near_in_meaning": judges.near_in_meaning("a", vectors={"a": [1.0, 0.0]}, at_least=0.5),
    "rouge_l": judges.rouge_l("It is full."),
    "rouge_n": judges.rouge_n("It is full."),
    "similarity": judges.similarity("It is full."),
}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (judges.max_words(40, field="reason"), "Keep `reason` to at most 40 words."),
        (~judges.max_words(40, field="reason"), "Write more than 40 words in `reason`."),
        (judges.field_equals("severity"), ""),
        (~judges.field_equals("severity"), ""),
        (judges.field_equals("kind", "alert"), 'Set `kind` to "alert".'),
        (judges.field_in("kind", ["a", "b", "c"]), "Set `kind` to one of: a, b or c."),
        (judges.has_keys("title"), "Give the JSON object the key `title`."),
        (judges.has_keys("title", "at"), "Give the JSON object the keys `title` and `at`."),
        (judges.bullet_count(exactly=1), "Write exactly 1 bullet, each on a line that begins with `-`."),
        (judges.word_count(at_least=2, at_most=5), "Write at least 2 and at most 5 words."),
        (~judges.word_count(at_least=2, at_most=5), "Write fewer than 2 or more than 5 words."),
        (judges.json_parses(kind="object", field="raw"), "Fill `raw` with one JSON object only: no prose around it, no Markdown, no code fence."),
        (judges.not_contains("TODO"), 'Do not write "TODO".'),
        (~judges.not_contains("TODO", "FIXME"), 'Write one of "TODO" or "FIXME".'),
        (judges.urls_only_of(), "Include no URLs."),
        (judges.contains("{{name}}"), ""),
        (judges.field("meta.note", judges.max_words(5)), "Keep `meta.note` to at most 5 words."),
        (judges.in_fence(judges.json_parses()), "Put it into a code fence. Answer with one JSON value only: no prose around it."),
        (judges.all_of(judges.max_words(5), judges.field_equals("x")), "Keep the answer to at most 5 words."),
        (judges.any_of(judges.max_words(5), judges.field_equals("x")), ""),
        (~judges.all_of(judges.max_words(5), judges.contains("a")), 'Do one of the following. Write more than 5 words. Or: Do not write "a".'),
    ],
    ids=lambda part: part.name if isinstance(part, Rule) else "",
)  # fmt: skip
def test_what_a_prompt_should_say(made: Rule, said: str) -> None:
    assert made.advice() == said


def test_a_function_says_what_its_docstring_begins_with() -> None:
    def names_it(output: str, case: GoldenCase) -> bool:
        """Whether the answer names the alert

        And more that nobody needs.
        """
        return case.id in output

    made = judges.as_judge(names_it)
    assert made.advice() == "The answer names the alert."
    assert (~made).advice() == ""


def test_an_author_says_it_in_their_own_words_and_the_digest_stays() -> None:
    made = judges.max_words(40)
    said = made.with_instruction("Be brief.")
    assert said.advice() == "Be brief."
    assert said.digest == made.digest
    assert judges.all_of(said, judges.no_comma()).advice() == "Be brief. Do not use any commas."


def test_a_rule_of_somebody_else_says_nothing_until_its_author_does() -> None:
    @rule()
    def sounds_calm(*, field: str | None = None) -> Check:
        """The answer sounds calm."""

        def check(answer: JudgedOutput) -> Verdict:
            return passed(str((answer, field)))

        return check

    assert sounds_calm().advice() == ""
    assert sounds_calm().description == "The answer sounds calm."
    assert sounds_calm().with_instruction("Stay calm.").advice() == "Stay calm."


@pytest.mark.parametrize(
    ("made", "criterion"),
    [
        (judges.max_words(5), "format"),
        (~judges.max_words(5), "format"),
        (judges.all_of(judges.max_words(5), judges.json_parses()), "format"),
        (judges.all_of(judges.max_words(5), judges.contains("a")), "correctness"),
        (judges.contains("a"), "completeness"),
        (judges.field_equals("x"), "correctness"),
        (judges.is_refusal(), "relevance"),
        (judges.no_secrets(), "format"),
        (judges.max_words(5).with_criterion("relevance"), "relevance"),
        (~judges.max_words(5).with_criterion("relevance"), "relevance"),
    ],
    ids=lambda part: part.name if isinstance(part, Rule) else part,
)
def test_what_quality_a_rule_is_about(made: Rule, criterion: str) -> None:
    assert made.criterion == criterion
