"""A changed rule of regauge is told from a changed declaration, by the digest it had."""

from __future__ import annotations

from regauge.judges import as_judge, contains, max_words, not_, sentence_count
from regauge.judges._registry import changed_rule, rule_versions
from regauge.judges._rule import negated_digest
from regauge.judges._rule_factory import rule_digest
from regauge.judges.output import READING_VERSION

RULE = sentence_count(exactly=2)
NOW = rule_versions()["sentence_count"]
OLDER = rule_digest("sentence_count", RULE.params, version=NOW - 1, reading=READING_VERSION)
WORDS = f"sentence_count (version {NOW - 1}.{READING_VERSION}, now {NOW}.{READING_VERSION})"


def test_a_rule_of_an_older_version_is_named_with_both_versions():
    assert changed_rule(RULE, OLDER, {}) == WORDS


def test_so_is_a_rule_that_is_negated():
    assert changed_rule(not_(RULE), negated_digest(OLDER), {}) == WORDS


def test_the_first_reading_of_outputs_counts():
    digest = rule_digest("max_words", max_words(3).params, version=1, reading=1)
    assert changed_rule(max_words(3), digest, {}).startswith("max_words (version 1.1, now ")


def test_another_declaration_and_a_function_of_the_author_are_no_change_of_regauge():
    assert changed_rule(sentence_count(exactly=3), OLDER, {}) == ""
    assert changed_rule(contains("a"), OLDER, {}) == ""
    assert changed_rule(as_judge(bool), OLDER, {}) == ""
