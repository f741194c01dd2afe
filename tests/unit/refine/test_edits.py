"""Edits: anchors that are met exactly, and a way back from each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from regauge.prompts import parse_prompt, set_contents
from regauge.refine.edits import (
    Anchor,
    Delete,
    Edit,
    EditError,
    Insert,
    PromptText,
    Replace,
    apply,
    are_near_duplicates,
    op_from_json,
    ops_between,
)

lines = st.sampled_from(["", "# Rules", "- Be brief.", "- Be kind.", "  - Be kind.", "{{input}}"])
texts = st.lists(lines, min_size=1, max_size=8).map("\n".join)
prompts = st.builds(PromptText.from_contents, texts, texts)
TEXT = PromptText.from_contents("Hello.\n- Be brief.\n- Be kind.\n- Be brief.", "{{input}}")


@given(before=prompts, after=prompts)
def test_the_operations_between_two_texts_make_one_of_the_other(before, after):
    made = apply(before, ops_between(before, after))
    for was, now, wanted in zip(before.messages, made.messages, after.messages, strict=True):
        tail = was.content[len(was.content.rstrip()) :]
        assert now.content == wanted.content.rstrip() + tail, "white space at the end stays"


def test_the_operations_of_a_long_text_change_no_line_that_is_frequent():
    many = ["- Be brief.", *(f"- Rule {number}." for number in range(120))]
    before = "\n".join(line for rule in many for line in (rule, ""))
    after = before.replace("- Rule 60.", "- Rule sixty.\n\n- Be kind.")
    ops = ops_between(*(PromptText.from_contents(text, "{{input}}") for text in (before, after)))
    assert [type(op) for op in ops] == [Replace, Insert, Insert]


@pytest.mark.parametrize("gone", ["Two.", "One."])
def test_the_header_of_a_block_stays_when_a_paragraph_goes(gone):
    def file(*paragraphs: str) -> str:
        body = "\n\n".join(f"      {one}" for one in paragraphs)
        return f"model: sim:clerk-1\nmessages:\n  - role: system\n    content: |\n{body}\n"

    path = Path("a.prompt.yml")
    text = PromptText(messages=parse_prompt(file("One.", "Two."), path=path).messages)
    after = apply(text, [Delete(Anchor(gone))])
    written = set_contents(file("One.", "Two."), [after.messages[0].content], path=path)
    assert "    content: |\n" in written
    if gone == "Two.":
        assert written == file("One.")


@given(before=prompts, after=prompts)
def test_an_edit_is_the_same_after_it_was_written_down(before, after):
    ops = ops_between(before, after)
    if not ops:
        return
    edit = Edit(ops=ops, strategy="rewrite", proposer="model:m", rationale="why")

    again = Edit.from_json(edit.to_json())

    assert again == edit
    assert again.digest == edit.digest


@pytest.mark.parametrize(
    ("op", "says"),
    [
        (Delete(Anchor("- Be loud.")), "no line of the prompt is '- Be loud.'"),
        (Delete(Anchor("- Be brief.")), "2 lines of the prompt are '- Be brief.'"),
        (Delete(Anchor("- Be brief.", 2)), "there is no occurrence 2"),
        (Delete(Anchor("- Be kind.", None, 1)), "no line of the prompt is"),
        (Replace(Anchor("- Be kind."), "x", "e"), "'e' occurs 1 times"),
        (Replace(Anchor("- Be kind."), "x", "loud"), "'loud' occurs 0 times"),
    ],
)
def test_an_anchor_that_is_not_met_exactly_is_an_error(op, says):
    if "occurs 1" in says:
        assert apply(TEXT, [op]).full_text.count("x") == says.count("occurs 1")
        return
    with pytest.raises(EditError, match=says.replace(".", r"\.")):
        apply(TEXT, [op])


def test_two_operations_on_one_line_are_an_error():
    anchor = Anchor("- Be kind.")
    with pytest.raises(EditError, match="two operations change the line"):
        apply(TEXT, [Delete(anchor), Replace(anchor, "- Be gentle.")])


def test_all_anchors_are_looked_up_in_the_text_before_the_edit():
    made = apply(
        TEXT,
        [
            Delete(Anchor("- Be brief.", 0)),
            Insert(Anchor("- Be brief.", 1), "- Be clear."),
            Insert(Anchor("Hello."), "You help.", "before"),
        ],
    )

    assert made.messages[0].content == "You help.\nHello.\n- Be kind.\n- Be brief.\n- Be clear."


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"op": "insert_after"},
        {"op": "insert_after", "line": "x"},
        {"op": "replace", "line": "x", "text": "  "},
        {"op": "rewrite", "line": "x", "text": "y"},
        {"op": "delete", "line": ""},
        {"op": "insert_after", "line": "x", "text": 3},
    ],
)
def test_what_is_no_operation_is_an_error_that_says_so(document):
    with pytest.raises(EditError):
        op_from_json(document)


@given(words=st.lists(st.sampled_from(["json", "brief", "kind", "table"]), max_size=4))
def test_an_edit_is_a_near_duplicate_of_itself_in_other_words(words):
    one = f"- Please always give {' '.join(words)}."

    assert are_near_duplicates([one, ""], [f"-  {' '.join(reversed(words))}!", ""])


def test_edits_on_other_subjects_are_no_duplicates():
    assert not are_near_duplicates(["- Answer in JSON.", ""], ["- Answer in tables.", ""])
    assert not are_near_duplicates(["- Be kind.", ""], ["", "- Be kind."])
