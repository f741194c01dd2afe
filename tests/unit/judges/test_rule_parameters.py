"""Parameters that a rule of a project takes: their names, their digests, and types it cannot take."""

from __future__ import annotations

import inspect
import itertools
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regauge import judges
from regauge.errors import JudgeError, UsageError
from regauge.judges import Check, on_text, passed, promptfoo_python, rule
from regauge.judges._registry import _builtin_rules, judge_kinds
from regauge.judges._rule_factory import RuleFactory
from regauge.judges.output import JudgedOutput
from tests.unit.judges.samples import CASE, completion


@rule()
def spells(*words: object, file: object = None, **named: object) -> Check:
    """The words are spelled as in a dictionary."""
    return on_text(None, lambda _: passed("ok"))


def test_every_type_of_parameter_is_in_name_and_digest():
    rules = [
        spells("a"),
        spells("a", "b c"),
        spells(file=Path("words/en.txt")),
        spells(file=Path("other/en.txt")),
        spells(file={"b", "a"}),
        spells(file=[1, 2, 3, 4]),
        spells(file={"a": 1}),
        spells(lower=True),
    ]
    assert [each.name for each in rules] == [
        "spells(a)",
        "spells(a, 'b c')",
        "spells(file=en.txt)",
        "spells(file=en.txt)",
        str(rules[4].name),
        "spells(file=[1, 2, 3, …])",
        "spells(file={…})",
        "spells(lower=True)",
    ]
    assert len({each.digest for each in rules}) == len(rules)
    assert rules[0].advice() == ""
    assert rules[0].with_name("words").name == "words"
    assert spells(file={"a", "b"}).digest == rules[4].digest
    assert spells(file=Path("words/en.txt")).digest == rules[2].digest


def test_a_parameter_that_no_document_can_hold_is_refused():
    with pytest.raises(UsageError, match="spells: a parameter cannot be a object: <object"):
        spells(file=object())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("check.txt", "x", "is not a Python file"),
        ("check.py", "get_assert = 3", "'get_assert' of .* is not a function"),
        ("check.py", "", "has no function 'get_assert'"),
        ("check.py", "\udcff", "cannot be read: "),
    ],
)
def test_a_file_without_an_assertion_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=message):
        promptfoo_python(file=name)


@pytest.mark.parametrize(
    ("rule", "value", "said"),
    [
        (judges.contains_any(judges.expected("v")), ["full"], "pass"),
        (judges.contains_any(judges.expected("v")), ["full", 3], "texts is a text, not 3"),
        (judges.max_words(judges.expected("v")), 4, "pass"),
        (judges.max_words(judges.expected("v")), 3, "fail"),
        (judges.max_words(judges.expected("v")), "3", "a whole number from 0 up, not '3'"),
        (judges.max_words(judges.expected("v")), -1, "a whole number from 0 up, not -1"),
        (judges.similarity("The disk.", at_least=judges.expected("v")), 0.5, "pass"),  # type: ignore[arg-type]
        (judges.similarity("The disk.", at_least=judges.expected("v")), 1.5, "at_least"),  # type: ignore[arg-type]
        (judges.similarity("The disk.", measure=judges.expected("v")), "partial", "pass"),  # type: ignore[arg-type]
        (judges.similarity("The disk.", measure=judges.expected("v")), "parts", "measure"),  # type: ignore[arg-type]
    ],
)
def test_parameters_of_a_case_follow_the_rules_of_parameters(
    rule: judges.Rule, value: object, said: str
):
    case = replace(CASE, expected={"v": value})
    output = JudgedOutput.from_completion(completion("The disk is full."), case)
    if said in {"pass", "fail"}:
        assert rule.examine(output).outcome == said
        return
    with pytest.raises(JudgeError, match=r"^expected of case 'disk-full': ") as caught:
        rule.examine(output)
    assert said in str(caught.value)


def test_a_parameter_of_a_case_without_expected_names_the_case():
    output = JudgedOutput.from_completion(completion("Full."), replace(CASE, expected=None))
    with pytest.raises(JudgeError, match=r"max_words: case 'disk-full' has no expected \("):
        judges.max_words(judges.expected()).examine(output)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"expected\(5\): a path is a text"):
        judges.expected(5)  # type: ignore[arg-type]


VALUE = judges.expected("v")


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        (judges.equals({"a": [VALUE]}), '{"a": ["full"]}', '{"a": ["free"]}'),
        (judges.json_like({"a": VALUE}), '{"a": "full", "b": 1}', '{"a": "free"}'),
        (judges.field_equals("a", [VALUE]), '{"a": ["full"]}', '{"a": ["free"]}'),
        (judges.field_equals("a[*].b", {"c": VALUE}), '{"a": [{"b": {"c": "full"}}]}', '{"a": []}'),
        (judges.field_in("a", ["half", VALUE]), '{"a": "full"}', '{"a": "free"}'),
        (judges.answer_is(["half", VALUE]), "ANSWER: Full", "ANSWER: free"),
        (judges.choice_is([VALUE], options=["full", "free"]), "full", "free"),
        (judges.rouge_n(["half", VALUE]), "full", "free"),
        (judges.one_of(["half", VALUE]), "full", "free"),
        (judges.json_matches_schema({"const": VALUE}), '"full"', '"free"'),
    ],
    ids=lambda part: part.kind if isinstance(part, judges.Rule) else "",
)
def test_a_value_of_the_case_may_be_anywhere_in_a_parameter(
    rule: judges.Rule, right: str, wrong: str
):
    case = replace(CASE, expected={"v": "full"})
    assert rule.check(completion(right), case).outcome == "pass"
    assert rule.check(completion(wrong), case).outcome == "fail"
    assert (~rule).check(completion(wrong), case).outcome == "pass"
    with pytest.raises(JudgeError, match=r"has no expected\.v"):
        rule.check(completion(right), replace(CASE, expected={}))


def test_a_list_of_the_case_is_no_entry_of_a_list():
    case = replace(CASE, expected={"v": ["full"]})
    with pytest.raises(JudgeError, match="options is a list of texts, not "):
        judges.one_of(["half", VALUE]).check(completion("full"), case)


ODD: list[Any] = [
    None, True, 0, -1, 1.5, math.nan, 10**400, "", "nope", "(((", "a b", "\udcff", [], [""], ["a"],
    [1], [None], [[]], {}, {"a": 1}, {"a": ["x"]}, {"a": {}},
]  # fmt: skip
NO_JSON: list[Any] = [b"x", set(), object(), len, {1: 2}, {("a",): None}, judges.no_comma()]
FIRST: list[Any] = ["a", ["a"], {"a": "b"}, judges.no_comma(), [judges.no_comma()]]


@pytest.mark.parametrize("rule", _builtin_rules().values(), ids=lambda rule: rule.kind)
def test_a_rule_is_made_of_odd_parameters_or_refused(rule: Any):
    named = [
        part.name for part in rule.signature.parameters.values() if "VAR" not in part.kind.name
    ]
    for value in [*ODD, *NO_JSON]:
        for first in FIRST:
            for arguments in [(value,), (first, value)]:
                with suppress(UsageError):
                    rule(*arguments)
            for name, before in itertools.product(named, [(), (first,)]):
                with suppress(UsageError):
                    rule(*before, **{name: value})


@pytest.mark.parametrize("kind", judge_kinds())
def test_a_judge_of_a_file_is_made_of_odd_parameters_or_refused(kind: str):
    given = {"means_like": {"model": "openai:small"}}.get(kind, {})
    make = judge_kinds()[kind]
    signature = make.signature if isinstance(make, RuleFactory) else inspect.signature(make)
    for value in ODD:
        for spec in (value, *({**given, name: value} for name in signature.parameters)):
            with suppress(UsageError):
                judges.judge_from_spec({kind: spec})
