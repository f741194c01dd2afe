"""Rules for cases that guard an instruction: expectations, checks and inputs, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.datasets import GoldenCase
from regauge.mutate._variants import (
    _differs,
    _expected,
    _limits,
    _OutputViews,
    _text_checks,
    _vary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON


def views(texts: Sequence[str]) -> list[_OutputViews]:
    return [_OutputViews.from_text(text) for text in texts]


@pytest.mark.parametrize(
    ("before", "outputs", "expected"),
    [
        ({"a": 1, "b": 2}, ['{"a": 3, "c": 4}', '{"a": 3}'], {"a": 3, "b": 2}),
        ({"a": 1}, ['{"a": 3}', '{"a": 4}'], {"a": 1}),
        ({"a": 1}, ["no object"], {"a": 1}),
        ("yes", [" no ", "no"], "no"),
        ("yes", ["no", "never"], "yes"),
        ("yes", ["no, this is a whole sentence of the model"], "yes"),
        (3, ["4", "4"], 4),
        (3, ["4", "5"], 3),
        (3, ["true", "true"], 3),
        ([1], ["[2]", "```json\n[2]\n```"], [2]),
        (None, ["4", "4"], None),
    ],
)
def test_an_expectation_has_the_values_that_all_outputs_share(
    before: JSON, outputs: list[str], expected: JSON
):
    assert _expected(before, views(outputs)) == expected


@pytest.mark.parametrize(
    ("expected", "outputs", "differs"),
    [
        ({"a": 1}, ['{"a": 2}', "no object"], True),
        ({"a": 1}, ['{"a": 2}', '{"a": 1, "b": 2}'], False),
        ("yes", ["no", "never"], True),
        ("yes", ["no", " yes "], False),
        (3, ["4", "3.0"], False),
        (3, ["4"], True),
    ],
)
def test_an_expectation_guards_if_no_output_of_the_mutant_meets_it(
    expected: JSON, outputs: list[str], *, differs: bool
):
    assert _differs(expected, views(outputs)) is differs


def test_the_values_of_an_output_have_paths():
    (view,) = views(['{"a": [{"b": 1}, 2], "c": "x"}'])
    assert view.leaves == {"a[0].b": 1, "a[1]": 2, "c": "x"}
    assert views(["no JSON"])[0].leaves == {"": "no JSON"}


@pytest.mark.parametrize(
    ("base", "mutant", "text", "check"),
    [
        (3, 4, "At most 3 words.", {"max_words": {"n": 3}}),
        (3, 3, "At most 3 words.", None),
        (4, 5, "At most 3 words.", None),
        (3, 9, "Use 8, 7 or 3 words.", {"max_words": {"n": 8}}),
        (5, 4, "At least 5 words.", {"min_words": {"n": 5}}),
        (5, 5, "At least 5 words.", None),
        (4, 3, "At least 5 words.", None),
    ],
)
def test_a_limit_of_words_that_the_mutant_breaks_is_a_check(
    base: int, mutant: int, text: str, check: JSON
):
    checks = [
        found
        for found, reason in _text_checks("", ["w " * base], ["w " * mutant], text)
        if reason == "the text limits the length"
    ]
    assert checks == ([] if check is None else [check])


def test_a_check_of_a_part_names_its_field():
    (check, _), *_ = _text_checks("a.b", ["one"], ["one two three"], "At most 2 words.")
    assert check == {"max_words": {"n": 2, "field": "a.b"}}


def test_a_number_of_a_case_is_moved_next_to_each_limit():
    assert [*_limits("Disk at 80 % of 99", "Critical over 95 %, warning over 0.")] == [
        "Disk at 94 % of 99", "Disk at 96 % of 99", "Disk at 0 % of 99", "Disk at 1 % of 99",
    ]  # fmt: skip
    assert not [*_limits("No number", "over 95")]


def test_a_case_without_a_text_has_no_variants():
    case = GoldenCase(id="n", inputs={"n": 3}, expected=None, split="train")
    assert not [*_vary(case, "Name the disk.", [case])]


OTHER = "Another report came."
WEB = "The disk is full. It was noon."
EXCHANGED = ("The disk is full.", "It was noon.")


@pytest.mark.parametrize(
    ("text", "instruction", "variants"),
    [
        # Sentences that share words with the instruction, and the others.
        (WEB, "- Name the disk.", (*EXCHANGED, OTHER)),
        ("The disk is full.\nThe disk is big.", "- Name the disk.", (OTHER,)),
        (WEB, "- Be kind.", (OTHER,)),
        # A definition of at least four words is a sentence, added and alone; so is each of its parts.
        (WEB, "- warning: disk is full", (*EXCHANGED, OTHER)),
        (WEB, "- warning: the disk is slow", (*EXCHANGED, "The disk is slow.", f"{WEB} The disk is slow.", OTHER)),
        (
            WEB,
            "- warning: the disk is slow, or a node is down",
            (*EXCHANGED, "The disk is slow.", f"{WEB} The disk is slow.", "A node is down.", f"{WEB} A node is down.", OTHER),
        ),
        # Numbers on both sides of a limit.
        ("Full at 80%", "- warning: over 90%", ("Full at 89%", "Full at 91%", OTHER)),
        # Texts of less than a third of the words are left out.
        ("The disk is full of old logs and of new ones. Noon.", "- Name noon.", ("The disk is full of old logs and of new ones.",)),
    ],
)  # fmt: skip
def test_a_text_varies_by_its_sentences_by_definitions_and_by_other_texts(
    text: str, instruction: str, variants: tuple[str, ...]
):
    cases = [
        GoldenCase(id=str(n), inputs={"text": one, "n": n}, expected="warning", split="train")
        for n, one in enumerate([text, OTHER, " "])
    ]
    end = "" if text.endswith(".") else "."
    texts = [inputs["text"] for inputs in _vary(cases[0], instruction, cases)]
    assert texts == [*variants, f"{text}{end} {OTHER}"]
    assert all(inputs["n"] == 0 for inputs in _vary(cases[0], instruction, cases))
