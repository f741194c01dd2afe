"""Mutants that a model proposes: operations on lines become one change with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from regauge.datasets import GoldenCase
from regauge.judges.model.response import ResponseError
from regauge.mutate._model import changes_in, drafts_in
from regauge.prompts import Prompt, parse_prompt

TEXT = "Name the disk.\n- Be brief.\n- Be brief too.\n\nUse JSON."


def prompt(*contents: str) -> Prompt:
    """The text of its first message begins in line 5 of the file."""
    messages = [
        "  - role: system\n    content: |-\n"
        + "".join(f"      {line}\n" for line in text.split("\n"))
        for text in contents
    ]
    head = "version: 1.0.0\nmessages:\n"
    return parse_prompt(head + "".join(messages), path=Path("triage.prompt.yml"))


def proposed(*mutants: object) -> str:
    return json.dumps({"mutants": [*mutants]})


def edit(op: str, line: str, text: str = "", **more: str) -> dict[str, object]:
    return {"why": "so", "ops": [{"op": op, "line": line, "find": "", "text": text} | more]}


@pytest.mark.parametrize(
    ("mutant", "line", "text"),
    [
        (edit("replace", "Name the disk.", "Name it."), 5, "Name the disk. -> Name it."),
        (edit("replace", "- Be brief.", "two", find="brief"), 6, "- Be brief. -> - Be two."),
        (edit("delete", "- Be brief too."), 7, "- Be brief too. ->"),
        (edit("delete", "Use JSON."), 8, "Use JSON. ->"),
        (edit("replace", "Use JSON.", "Use YAML."), 9, "Use JSON. -> Use YAML."),
        (edit("insert_after", "Use JSON.", "Be kind."), 9, "-> Be kind."),
        (edit("insert_before", "Name the disk.", "Be kind."), 5, "-> Be kind."),
        (edit("insert_after", "Name the disk.", "Name the disk."), 6, "-> Name the disk."),
    ],
)
def test_a_change_is_shown_with_its_lines_and_place(mutant: object, line: int, text: str):
    (change,) = changes_in(proposed(mutant), prompt(TEXT))
    assert change.place.part == "messages[0]"
    assert change.place.line == line
    assert change.text.strip() == text


def test_a_change_is_placed_in_the_first_message_that_it_edits():
    (change,) = changes_in(proposed(edit("delete", "Be kind.")), prompt(TEXT, "Hello.\nBe kind."))
    assert (change.place.part, change.text.strip()) == ("messages[1]", "Be kind. ->")


def test_twenty_mutants_are_read_and_those_that_do_not_fit_left_out():
    fitting, foreign = edit("delete", "Use JSON."), edit("delete", "Name the planet.")
    changes = changes_in(proposed(foreign, *[fitting] * 19, fitting), prompt(TEXT))
    assert len(changes) == 19


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ('{"mutants": 3}', "`mutants` is not a list"),
        (proposed(3), "`ops` is not a list"),
        (proposed(edit("delete", "Name the planet."), 3), "Name the planet"),
    ],
)
def test_a_response_without_a_change_is_an_error_with_its_first_reason(response: str, error: str):
    with pytest.raises(ResponseError, match=error):
        changes_in(response, prompt(TEXT))


LINES = [f"Line {number} of them." for number in range(6)]


@given(st.lists(st.sampled_from(LINES), min_size=2, max_size=6), st.data())
def test_the_range_of_a_change_is_all_that_differs(lines: list[str], data: st.DataObject):
    """What stands before and after the range is the same in the new text."""
    text = "\n".join(lines)
    op = data.draw(st.sampled_from(["delete", "replace", "insert_after", "insert_before"]))
    unique = [line for line in lines if lines.count(line) == 1]
    if not unique:
        return
    line = data.draw(st.sampled_from(unique))
    new_text = "" if op == "delete" else data.draw(st.sampled_from([*LINES, "Another."]))
    for change in changes_in(proposed(edit(op, line, new_text)), prompt(text)):
        place, new = change.place, change.prompt.messages[0].content
        assert 0 <= place.start <= place.end <= len(text)
        assert new.startswith(text[: place.start].rstrip("\n"))
        assert new.endswith(text[place.end :].lstrip("\n"))
        assert place.line == 5 + min(text.count("\n", 0, place.start), len(lines) - 1)


LIKE = GoldenCase(
    id="full",
    inputs={"text": "The disk is full.", "limits": {"cpu": 1}},
    expected={"severity": "critical"},
    split="train",
)
INPUTS = {"text": "It rains.", "limits": {"cpu": 1}}


def drafted(*cases: object) -> list[dict[str, object]]:
    response = json.dumps({"cases": [*cases]})
    return [
        {"inputs": draft.inputs, "expected": draft.expected, "checks": [*draft.checks]}
        | {"like": draft.like, "by": draft.proposer, "why": draft.reason}
        for draft in drafts_in(response, {"full": LIKE}, proposer="model:m")
    ]


def test_a_drafted_case_has_the_expectation_of_the_case_that_it_is_like():
    usual = {"inputs": INPUTS, "expected": {"severity": "critical"}, "checks": []}
    known = usual | {"like": "full", "by": "model:m", "why": ""}
    checks = [{"contains": {"text": "x"}}, {"not": {"contains": {"text": "y"}}}]
    assert drafted({"inputs": INPUTS, "why": "so\n it is"}) == [known | {"why": "so it is"}]
    assert drafted({"inputs": INPUTS, "expected": None, "checks": checks, "why": 3}) == [
        known | {"expected": None, "checks": checks}
    ]
    assert len(drafted(*[{"inputs": INPUTS}] * 4)) == 3
    assert drafted(3, {"inputs": INPUTS}) == [known]
    assert drafted() == []


@pytest.mark.parametrize(
    ("case", "error"),
    [
        (3, "a case is an object"),
        ({"inputs": 3}, "the inputs of a case are text, limits"),
        ({"inputs": {"text": "x"}}, "the inputs of a case are text, limits"),
        ({"inputs": INPUTS | {"text": 3}}, "input text is a text"),
        ({"inputs": INPUTS | {"limits": {"file": "x"}}}, "input limits is not text, so it stays"),
        ({"inputs": INPUTS, "expected": {"file": "x"}}, "`expected` may not name a file"),
        ({"inputs": INPUTS, "checks": 3}, "`checks` is a list of at most 3"),
        ({"inputs": INPUTS, "checks": [{"json_parses": {}}] * 4}, "a list of at most 3"),
        ({"inputs": INPUTS, "checks": [{"python": "x"}]}, "may not add the check 'python'"),
        ({"inputs": INPUTS, "checks": [{}]}, "an object with one key"),
        ({"inputs": INPUTS, "checks": [{"not": {"python": "x"}}]}, "the check 'python'"),
        ({"inputs": INPUTS, "checks": [{"contains": {}, "not": {}}]}, "an object with one key"),
    ],
)
def test_a_case_that_may_not_run_is_refused_with_the_reason(case: object, error: str):
    with pytest.raises(ResponseError, match=error):
        drafted(case)


def test_a_response_without_a_list_of_cases_is_refused():
    with pytest.raises(ResponseError, match="`cases` is not a list of cases"):
        drafts_in('{"cases": 3}', {"full": LIKE}, proposer="model:m")
