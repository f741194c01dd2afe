"""What holds for every rule and every text."""

from __future__ import annotations

import json
import time
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import regauge.judges
from regauge.errors import UsageError
from regauge.judges import (
    JudgedOutput,
    Rule,
    RuleFactory,
    Verdict,
    all_of,
    any_of,
    ifeval,
    json_like,
    judge_from_spec,
    not_,
    number_near,
)
from tests.unit.judges.samples import CASE, ODD_TEXTS, RULES, completion

if TYPE_CHECKING:
    from decimal import Decimal
    from random import Random

NEGATABLE = [rule for rule in RULES if not rule.opposite]

SHARED = {"json_invalid", "missing_field", "null_field", "no_text", "refused", "ok"}
FACTORIES = {
    made.kind: made
    for module in (regauge.judges, ifeval)
    for name in module.__all__
    if isinstance(made := getattr(module, name), RuleFactory)
}
relaxed = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
texts = st.one_of(
    st.text(max_size=80),
    st.text(alphabet=st.characters(codec=None), max_size=40),
    st.sampled_from(ODD_TEXTS),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part),
        max_leaves=6,
    ).map(json.dumps),
    st.lists(
        st.sampled_from(
            [
                "a",
                "The",
                "#",
                "##",
                "\n",
                "*",
                "-",
                ",",
                "{",
                "}",
                '"',
                "<a>",
                "</a>",
                ":",
                "1",
                ".",
            ]
        )
    ).map(" ".join),
)


def named(rule: Rule) -> str:
    return rule.name


def verdict_of(rule: Rule, text: str | None) -> Verdict:
    return rule.check(completion(text), CASE)


def assert_sound(verdict: Verdict) -> None:
    assert 0 <= verdict.score <= 1
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert verdict.code
    assert verdict.cost_usd == 0
    fields = {"e": verdict.expected, "a": verdict.actual, "d": dict(verdict.details)}
    json.dumps(fields, allow_nan=False)


def test_there_is_a_sample_of_every_kind():
    assert set(FACTORIES) - {rule.kind for rule in RULES} == {"near_in_meaning", "unmeasured"}


@pytest.mark.parametrize("rule", NEGATABLE, ids=named)
def test_no_odd_text_makes_a_rule_raise_or_say_both(rule: Rule):
    for text in ODD_TEXTS:
        verdict, opposite = verdict_of(rule, text), verdict_of(not_(rule), text)
        assert_sound(verdict)
        assert_sound(opposite)
        if verdict.outcome != "abstain":
            assert {verdict.outcome, opposite.outcome} == {"pass", "fail"}
            assert opposite.score == pytest.approx(1 - verdict.score)


@given(text=texts)
@relaxed
def test_a_rule_and_its_negation_never_agree(text: str):
    for rule in NEGATABLE:
        verdict, opposite = verdict_of(rule, text), verdict_of(not_(rule), text)
        assert_sound(verdict)
        assert (verdict.outcome == "abstain") == (opposite.outcome == "abstain"), rule
        if verdict.outcome != "abstain":
            assert {verdict.outcome, opposite.outcome} == {"pass", "fail"}, rule
        assert verdict_of(not_(not_(rule)), text).outcome == verdict.outcome, rule


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_failure_carries_a_code_that_the_reference_names(rule: Rule):
    nested = SHARED | {code for made in FACTORIES.values() for code in made.codes}
    nests = rule.kind in {"each_turn", "field", "in_fence", "in_turn"}
    allowed = nested if nests else SHARED | set(FACTORIES[rule.kind].codes)
    for text in ODD_TEXTS:
        verdict = verdict_of(rule, text)
        if verdict.outcome == "fail":
            assert verdict.code in allowed
        elif verdict.outcome == "pass" and not nests:
            assert verdict.code == "ok"


@pytest.mark.parametrize("rule", NEGATABLE, ids=named)
def test_an_answer_without_text_passes_no_rule_that_reads_text(rule: Rule):
    about_completions = {
        "calls",
        "calls_exactly",
        "calls_in_order",
        "javascript",
        "promptfoo_python",
        "never_calls",
        "perplexity",
        "finish_reason_is",
        "max_cost_usd",
        "max_latency_s",
        "max_steps",
        "max_tokens",
        "tool_call_count",
        "tool_calls_match",
        "tools_called",
        "is_refusal",
    }
    for tried in (rule, not_(rule)):
        verdict = verdict_of(tried, None)
        assert_sound(verdict)
        if rule.kind not in about_completions:
            assert verdict.outcome == "fail"
            assert verdict.code == "no_text"


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_long_text_ends_in_a_verdict(rule: Rule):
    """Were time to grow with the square of the length, a megabyte would take twenty seconds."""
    length = 125_000
    for unit in ("The Disk is full. ", '{"a": [1, '):
        text = (unit * (length // len(unit) + 1))[:length]
        start = time.process_time()
        assert_sound(verdict_of(rule, text))
        assert time.process_time() - start < 20 / 64


@given(text=st.none() | texts, left=st.sampled_from(NEGATABLE), right=st.sampled_from(NEGATABLE))
@relaxed
def test_combinations_obey_their_algebra(text: str | None, left: Rule, right: Rule):
    answer = JudgedOutput.from_completion(completion(text), CASE)
    both, one = all_of(left, right).examine(answer), any_of(left, right).examine(answer)
    assert both.outcome == all_of(right, left).examine(answer).outcome
    assert one.outcome == any_of(right, left).examine(answer).outcome
    assert all_of(left, left).examine(answer).outcome == left.examine(answer).outcome
    assert any_of(left, left).examine(answer).outcome == left.examine(answer).outcome
    assert not_(both_rule := all_of(left, right)).examine(answer).outcome == (
        any_of(not_(left), not_(right)).examine(answer).outcome
    ), both_rule
    if both.outcome == "pass":
        assert one.outcome == "pass"
    assert both.score <= one.score or "abstain" in {both.outcome, one.outcome}


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_says_the_same_twice_and_its_digest_names_it(rule: Rule):
    for text in ODD_TEXTS[:10]:
        assert verdict_of(rule, text) == verdict_of(rule, text)
    others = [other.digest for other in RULES if other is not rule]
    assert rule.digest not in others
    if not rule.opposite:  # a rule that has an opposite has no negation
        assert not_(rule).digest not in [rule.digest, *others]
    json.dumps(rule.params)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=3), part),
    max_leaves=8,
)


@given(wanted=values, more=values, shuffle=st.randoms())
@relaxed
def test_a_value_is_like_itself_with_more_keys_and_in_any_order(
    wanted: Any, more: Any, shuffle: Random
):
    def change(value: Any) -> Any:
        if isinstance(value, dict):
            keys = cast("dict[str, Any]", value)
            return {"further": more} | {key: change(part) for key, part in keys.items()}
        if isinstance(value, list):
            entries = [change(part) for part in cast("list[Any]", value)]
            return shuffle.sample(entries, len(entries))
        return value

    text = json.dumps(change(wanted))
    assert json_like(wanted, ordered=False).check_text(text).outcome == "pass"
    assert json_like(wanted, extra="none").check_text(json.dumps(wanted)).score == 1


@given(number=st.decimals(-(10**9), 10**9, places=2), mark=st.sampled_from(["", ","]))
@relaxed
def test_a_number_is_read_as_it_is_formatted(number: Decimal, mark: str):
    english = f"{number:{mark}.2f}"
    german = english.translate(str.maketrans(".,", ",."))
    for text in (english, german, f"It is {english}.", f"{german} ms"):
        assert number_near(float(number)).check_text(text).outcome == "pass", text


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_line_ends_and_accents_are_read_alike(rule: Rule):
    for text in (
        "# Café\n\nThe disk is full.\n\n- a\n- b\n",
        '{"severity": "info",\n "reason": "é"}',
        "é,b\n1,2\n",
    ):
        given = verdict_of(rule, text)
        assert verdict_of(rule, text.replace("\n", "\r\n")) == given
        assert verdict_of(rule, unicodedata.normalize("NFD", text)) == given


@settings(max_examples=20, deadline=None)
@given(
    value=st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.lists(st.integers(0, 3) | st.text(max_size=2), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2)
)
@pytest.mark.parametrize("kind", sorted(FACTORIES))
def test_no_value_in_a_file_makes_a_rule_raise_anything_but_an_error_for_its_author(
    kind: str, value: Any
):
    with suppress(UsageError):
        judge_from_spec({kind: value})
