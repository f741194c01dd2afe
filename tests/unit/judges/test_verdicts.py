"""The verdicts of rules on outputs that just miss them, and parameters that no rule can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regauge import judges
from regauge.errors import JudgeError, UsageError
from regauge.judges import ifeval, judge_from_spec
from regauge.judges.output import JudgedOutput
from regauge.providers import ToolCall, Usage
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from regauge.judges import Rule

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: 'a:1'}]}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
LOOSE: dict[str, Any] = {"limits": False, "unprivileged": False}


@pytest.mark.parametrize(
    ("rule", "text", "code", "reason"),
    [
        (judges.answer_is("Paris"), "It is Paris.", "no_answer", "no answer after 'ANSWER:'"),
        (judges.answer_is(["a", "b"]), "Answer: c", "wrong_answer", "the answer is 'c', not 'a', 'b'"),
        (judges.choice_is("B"), "Neither of them.", "no_choice", "states no choice"),
        (judges.contains("disk"), "the node", "missing_text", "does not contain 'disk'"),
        (judges.contains_any("a1", "b2"), "c3", "missing_text", "contains none of"),
        (judges.contains_html(), "a < b, <name>", "html_missing", "contains no tag of HTML"),
        (judges.contains_json(), "no braces", "json_missing", "contains no JSON object or array"),
        (judges.contains_json(kind="array"), '{"a": 1}', "json_missing", "contains no JSON array"),
        (judges.contains_xml(), "a < b", "xml_missing", "contains no well-formed XML element"),
        (judges.contains_xml(elements=["b"]), "so: <a>1</a>", "missing_element", "no element 'b'"),
        (judges.csv_parses(), "a sentence", "csv_invalid", "no header of two columns or more"),
        (judges.equals({"n": 1}), '{"n": 2}', "not_equal", "is another value"),
        (judges.html_parses(), "<p>one</p><p", "html_invalid", "the last tag is never closed"),
        (judges.html_parses(), "<ul><li>one</div>", "html_invalid", "not HTML: "),
        (judges.is_refusal(), "The disk is full.", "no_refusal", "does not refuse"),
        (judges.kubernetes_manifests(**LOOSE), "# nothing", "manifest_invalid", "no manifest"),
        (judges.kubernetes_manifests(kinds=["Service"], **LOOSE), POD, "missing_kind", "no 'Service'"),
        (judges.matches("^[0-9]+$"), "four", "no_match", "does not match"),
        (judges.no_prompt_leak("Grade each alert for the team.", words=3), "I grade each alert.", "prompt_leak", "repeats the prompt: 'grade each alert'"),
        (judges.not_(judges.contains("a1")), "so a1", "not_contains", "must not hold: contains"),
        (judges.number_near(4), "none", "no_number", "no number, 4 wanted"),
        (judges.number_near(4, which="only"), "3 or 4", "several_numbers", "2 numbers, one wanted: 3, 4"),
        (judges.number_near(4), "it is 7", "wrong_number", "7 is not near 4"),
        (judges.paragraph_count(at_least=1, separator="***"), "a *** *** b", "empty_paragraph", "nothing between two '***'"),
        (judges.python_parses(), "def f(:\n", "python_invalid", "at line 1"),
        (judges.python_parses(), "x = '\0'", "python_invalid", "not Python: "),
        (judges.python_parses(functions=["g", "h"]), "def g(): ...", "missing_function", "does not define 'h'"),
        (judges.xml_parses(elements=["a", "b"]), "<a/>", "missing_element", "no element 'b'"),
        (ifeval.has_postscript(), "Fixed.", "no_postscript", "no postscript"),
        (ifeval.has_title(), "<<  >> It was full.", "no_title", "no title in << >>"),
        (ifeval.response_count(2), "a ****** ****** b", "empty_response", "nothing between two '******'"),
        (ifeval.paragraph_starts_with("then", nth=3), "a\n\nb", "too_few", "2 paragraphs, so none is number 3"),
    ],
    ids=lambda value: value.name if isinstance(value, judges.Rule) else "",
)  # fmt: skip
def test_a_failure_has_a_code_and_the_reason(rule: Rule, text: str, code: str, reason: str):
    verdict = rule.check_text(text)
    assert (verdict.outcome, verdict.code) == ("fail", code)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (judges.kubernetes_manifests(kinds=["Service", "Pod"], **LOOSE), f"{POD}---\n{SERVICE}"),
        (judges.csv_parses(columns=["pod", "cpu"]), "pod,cpu\na,1\n"),
        (judges.csv_parses(delimiter=";"), "pod;cpu\na;1\n"),
        (judges.number_near(4, which="first"), "4 of 9"),
        (judges.number_near(4, which="last"), "9, so 4"),
        (judges.no_prompt_leak("Grade each alert for the team.", words=4), "I grade each one."),
        (judges.has_sections("Cause"), "<div>\n\n# Cause\n\n</div>\n\nIt was full.\n"),
        (judges.contains("STRASSE", ignore_case=True, whole_word=True), "Die Stra\xdfe"),
        (ifeval.response_count(2), "a ****** b"),
    ],
)
def test_what_is_asked_for_passes(rule: Rule, text: str):
    assert rule.check_text(text).outcome == "pass"


ORDER = {"id": 7, "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}]}
SWAPPED = '{"id": 7, "items": [{"sku": "b", "n": 1}, {"sku": "a", "n": 2}]}'


@pytest.mark.parametrize(
    ("options", "text", "outcome"),
    [
        ({}, SWAPPED, "fail"),
        ({"ordered": False}, SWAPPED, "pass"),
        ({"ignore": ["items.sku", "items.n"]}, SWAPPED, "pass"),
        ({"ignore": ["items.sku"]}, SWAPPED, "fail"),
        ({"ignore": ["items"]}, '{"id": 7, "items": 1}', "pass"),
        ({"ignore": ["id"]}, '{"id": 8, "items": []}', "fail"),
        ({"at_least": 0.2}, SWAPPED, "pass"),
        ({"at_least": 0.21}, SWAPPED, "fail"),
        ({"ordered": False, "extra": "none"}, SWAPPED, "pass"),
        ({"ordered": False, "extra": "none"}, SWAPPED.replace('"id"', '"x": 1, "id"'), "fail"),
        ({"ordered": False}, SWAPPED.replace('"id"', '"x": 1, "id"'), "pass"),
        ({"ordered": False}, SWAPPED.replace("}]", '}, {"sku": "c", "n": 1}]'), "fail"),
        ({"ordered": False, "extra": "all"}, SWAPPED.replace("}]", '}, {"sku": "c", "n": 1}]'), "pass"),
        ({"ordered": False}, SWAPPED.replace("2", "2.1"), "fail"),
        ({"ordered": False, "relative": 0.05}, SWAPPED.replace("2", "2.1"), "pass"),
        ({"ordered": False}, SWAPPED.replace("2", "2.0"), "pass"),
        ({"ordered": False}, SWAPPED.replace('"n": 1', '"n": true'), "fail"),
        ({"ordered": False}, SWAPPED.replace('"b"', '" B"'), "fail"),
        ({"ordered": False, "ignore_case": True, "ignore_space": True}, SWAPPED.replace('"b"', '" B"'), "pass"),
    ],
)  # fmt: skip
def test_json_is_compared_as_its_options_have_it(options: Any, text: str, outcome: str):
    assert judges.json_like(ORDER, **options).check_text(text).outcome == outcome


@pytest.mark.parametrize(
    ("rule", "changes", "outcome", "reason"),
    [
        (judges.max_latency_s(1), {"latency_s": None}, "abstain", "latency is unknown: a batch, or a text alone"),
        (judges.max_tokens(1), {"usage": Usage()}, "abstain", "the number of tokens is unknown"),
        (~judges.max_tokens(1), {"usage": Usage()}, "abstain", "the number of tokens is unknown"),
        (judges.finish_reason_is("stop"), {"finish_reason": "length"}, "fail", "finish_reason is 'length'"),
        (judges.tool_calls_match([{"name": "f"}]), {"tool_calls": ()}, "fail", "no tool was called"),
        (judges.tool_calls_match([{"name": "f"}]), {"tool_calls": (ToolCall(id="1", name="f", arguments="{"),)}, "fail", "the arguments of f are not JSON"),
        (judges.tool_calls_match([{"name": "f"}]), {}, "fail", "no tool 'search'; there are 'f'"),
        (judges.calls_in_order("search", "fetch"), {}, "fail", "no call of fetch after search; called 'search'"),
    ],
)  # fmt: skip
def test_a_run_is_judged_by_its_facts(
    rule: Rule, changes: dict[str, Any], outcome: str, reason: str
):
    verdict = rule.examine(JudgedOutput("ok", completion=completion("ok", **changes), case=CASE))
    assert verdict.outcome == outcome
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"a": 1, "b": 2}, "not a judge: {'a': 1, 'b': 2}\n  write its name"),
        ({"answer_is": {"to": "x", "after": " "}}, "answer_is: the marker cannot be empty"),
        ({"at_least": {"k": 3, "judges": ["no_comma", {"contains": "a"}]}}, "of 2 rules, 3 cannot be wanted"),
        ({"csv_parses": {"delimiter": ";;"}}, "a delimiter is one character, not ';;'"),
        ({"finish_reason_is": ["done"]}, "there are content_filter, length, stop, tool_calls, unknown"),
        ({"in_turn": {"turn": 0, "judge": "no_comma"}}, "in_turn: turn is "),
        ({"is_language": "xx"}, "is_language: 'xx' cannot be recognised; there are "),
        ({"json_matches_schema": "nowhere.json"}, "json_matches_schema: cannot read nowhere.json"),
        ({"matches": "(unclosed"}, "matches: '(unclosed' is not a regular expression: "),
        ({"no_prompt_leak": {"prompt": "Grade each alert.", "words": 2}}, "words counts from 3, not 2"),
        ({"not": {"tools_called": ["f"]}}, "is ambiguous\n  fix: use `never_calls`"),
        ({"paragraph_count": {"exactly": 1, "separator": ""}}, "a separator cannot be empty"),
        ({"text_count": {"text": "", "at_least": 1}}, "the text to count cannot be empty"),
        ({"tool_calls_match": [{"parameters": {}}]}, "a tool without a name: "),
        ({"weighted": {"weights": [{"judge": "no_comma"}]}}, "weighted: write {judge: ..., weight: ...}"),
        ({"weighted": {"weights": [{"judge": "no_comma", "weight": 0}]}}, "weights are numbers above 0"),
        ({"word_count": {"exactly": 1, "at_least": 1}}, "word_count: set exactly without"),
        ({"word_count": {}}, "word_count: set at_least, at_most or exactly"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)  # fmt: skip
def test_parameters_that_a_judge_cannot_have_are_refused(spec: Any, message: str):
    with pytest.raises(UsageError) as error:
        judge_from_spec(spec)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ifeval.has_postscript(" "), "has_postscript: the marker cannot be empty"),
        (lambda: ifeval.letter_count("ab", at_least=1), "one character is wanted, not 'ab'"),
        (lambda: ifeval.numbered_part_count(" ", at_least=1), "the word cannot be empty"),
        (lambda: ifeval.paragraph_starts_with(""), "the word cannot be empty"),
        (lambda: ifeval.response_count(2, separator=""), "a separator cannot be empty"),
        (lambda: judges.all_of(judges.no_comma(), "no_comma"), "takes rules, not 'no_comma'"),  # type: ignore[arg-type]
        (lambda: judges.weighted([]), "a parameter is of a type that it does not take"),  # type: ignore[arg-type]
        (lambda: judges.weighted([judges.no_comma()]), "it takes weighted(weights, "),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_a_judge_cannot_have_are_refused(make: Any, message: str):
    with pytest.raises(UsageError) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("outcome", "maybe", "the outcome is 'maybe', not 'pass', 'fail' or 'abstain'"),
        ("score", 1.1, "the score is 1.1, not a number from 0 to 1"),
        ("score", -0.1, "the score is -0.1, not"),
        ("score", float("nan"), "the score is nan, not"),
        ("score", "1", "the score is '1', not"),
        ("reason", 3, "the reason is 3, not a text"),
        ("cost_usd", -1, "the cost is -1, not an amount in US dollars"),
        ("cost_usd", float("inf"), "the cost is inf, not"),
        ("cost_usd", "1", "the cost is '1', not"),
    ],
)
def test_a_verdict_with_a_value_that_it_cannot_have_is_an_error(
    field: str, value: Any, message: str
):
    good = {"outcome": "pass", "score": 1, "reason": "ok", "cost_usd": 0}
    assert judges.Verdict(**good).cost_usd == 0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        judges.Verdict(**{**good, field: value})


def test_a_rule_on_a_run_judges_no_text():
    with pytest.raises(JudgeError, match="max_latency_s: judges a completion; only a text was"):
        judges.max_latency_s(1).check_text("ok")
