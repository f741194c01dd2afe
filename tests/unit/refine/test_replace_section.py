"""A section that is replaced: as a whole, below the same heading, with a way back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from regauge.refine.edits import (
    Anchor,
    Delete,
    Edit,
    EditError,
    PromptText,
    ReplaceSection,
    apply,
    op_from_json,
    section_at,
    section_text,
)

pieces = st.sampled_from(
    ["", "  ", "- Be brief.", "### Deeper", "```", "## Form", "Keys:", "</tone>", "{{x}}", "a"]
)
bodies = st.lists(pieces, min_size=1, max_size=6).map("\n".join)
ABOVE = "You help.\n\n## Labels"
BELOW = "## Form\nAnswer in JSON.\n<tone>\nBe kind.\n</tone>\nKeys:\n- a\n\nEnd."
TEXT = PromptText.from_contents(f"{ABOVE}\n\n- now\n- later\n\n{BELOW}", "{{x}}")
AT = Anchor("## Labels", None, 0)


@given(body=bodies, heading=st.sampled_from(["## Labels", "<tone>", "Keys:", "## Form"]))
def test_what_is_outside_the_section_stays_to_the_byte(body, heading):
    """Either the new text is all of the section, or the edit is refused."""
    ops = [ReplaceSection(Anchor(heading, None, 0), body)]
    try:
        after = apply(TEXT, ops)
    except EditError:
        return

    was = section_text(TEXT, *section_at(TEXT, ops[0].anchor))
    assert apply(after, [ReplaceSection(ops[0].anchor, was)]) == TEXT
    old, new = TEXT.messages[0].content, after.messages[0].content
    at = old.index(was, old.index(heading))
    assert new == old[:at] + body + old[at + len(was) :]
    assert after.messages[1] == TEXT.messages[1]


@given(body=bodies.filter(str.strip))
def test_it_is_the_same_after_it_was_written_down(body):
    edit = Edit(ops=(ReplaceSection(AT, body.strip("\n ")),), strategy="s", proposer="model:m")
    document = edit.to_json()
    assert document["ops"][0]["op"] == "replace_section"  # type: ignore[call-overload, index]
    assert Edit.from_json(document) == edit
    assert Edit.from_json(document).digest == edit.digest


def test_blank_lines_around_a_new_text_are_left_out_when_it_is_read():
    op = op_from_json({"op": "replace_section", "line": "## Labels", "text": "\n\n  - x\n \n"})
    assert op == ReplaceSection(Anchor("## Labels"), "  - x")


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (ReplaceSection(Anchor("## Tone"), "x"), "no message has the line '## Tone'"),
        (ReplaceSection(Anchor("- now"), "x"), "no message has the line '- now'"),
        (ReplaceSection(AT, "- now\n## Form\n- x"), "would not stay inside the section"),
        (ReplaceSection(AT, "```\n- x"), "would not stay inside the section"),
        (ReplaceSection(Anchor("Keys:"), "- a\n\n- b"), "would not stay inside the section"),
        (
            ReplaceSection(Anchor("<tone>"), "x\n</tone>\ny"),
            "would not stay inside the section",
        ),
        (ReplaceSection(Anchor("<tone>"), "x\n```\ny"), "would not stay inside the section"),
    ],
)
def test_a_text_that_would_leave_its_section_is_refused(op, said):
    with pytest.raises(EditError, match=said):
        apply(TEXT, [op])


def test_a_heading_of_two_messages_needs_the_message_and_a_section_comes_alone():
    twice = PromptText.from_contents("# A\nx", "# A\ny")
    with pytest.raises(EditError, match="2 messages have the line '# A'"):
        apply(twice, [ReplaceSection(Anchor("# A"), "z")])
    assert apply(twice, [ReplaceSection(Anchor("# A", None, 1), "z")]).full_text == "# A\nx\n# A\nz"
    with pytest.raises(EditError, match="an edit that does nothing else"):
        apply(TEXT, [ReplaceSection(AT, "- now"), Delete(Anchor("End."))])
