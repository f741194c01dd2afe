"""What lines say: sentences, clauses and entries of lists, each replaced or left out alone."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regauge.refine.edits import (
    Anchor,
    EditError,
    PromptText,
    Replace,
    merged,
    one_by_one,
    said_in,
    statements,
    written_like,
)

DENSE = "You review manifests. Block what runs as root, and quote at most five findings."
TERSE = "subject: imperative, at most 50 characters, no full stop"


def said(line: str, part: str):
    return next(one for one in statements(PromptText.of(line)) if one.part == part)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (DENSE, ["You review manifests.", "Block what runs as root", "quote at most five findings"]),
        ("- Fill every key; use null where nothing is said.", ["Fill every key", "use null where nothing is said"]),
        (TERSE, ["subject: imperative", "subject: at most 50 characters", "subject: no full stop"]),
        ("- Return one JSON object, no prose around it.", []),
        ("Name hosts, e.g. web-1, and ports.", []),
        ("- warning: somebody has to look at it.", []),
        ("3. Times are in UTC. Dates have dashes.", ["Times are in UTC.", "Dates have dashes."]),
        ("Answer: {{question}}", []),
    ],
)  # fmt: skip
def test_a_line_says_one_thing_or_several(line: str, parts: list[str]):
    assert list(said_in(line)) == (parts or [line])


@pytest.mark.parametrize(
    ("line", "part", "rule", "instead", "left_out"),
    [
        (
            DENSE,
            "Block what runs as root",
            "- Block what has no limit.",
            DENSE.replace("runs as root", "has no limit"),
            "You review manifests. Quote at most five findings.",
        ),
        (
            DENSE,
            "quote at most five findings",
            "Say JSON only.",
            "You review manifests. Block what runs as root, and say JSON only.",
            "You review manifests. Block what runs as root.",
        ),
        (
            TERSE,
            "at most 50 characters",
            "subject: short",
            "subject: imperative, short, no full stop",
            "subject: imperative, no full stop",
        ),
        (
            TERSE,
            "imperative",
            "- subject: short",
            "subject: short, at most 50 characters, no full stop",
            "subject: at most 50 characters, no full stop",
        ),
    ],
)
def test_a_statement_is_replaced_or_left_out_and_the_rest_of_its_line_stays(
    line: str, part: str, rule: str, instead: str, left_out: str
):
    one = said(line, part)
    assert one.instead(rule).text == instead
    made = one.left_out()
    assert isinstance(made, Replace)
    assert made.text == left_out


WORDS = st.sampled_from(["hosts", "times", "labels", "owners", "ranges", "limits"])
SENTENCES = st.lists(
    st.builds("Give {} and {} in order.".format, WORDS, WORDS), min_size=2, max_size=5, unique=True
)


@given(sentences=SENTENCES, at=st.integers(min_value=0, max_value=4))
def test_what_is_left_out_is_gone_and_nothing_else(sentences: list[str], at: int):
    gone = sentences[at % len(sentences)]
    made = said(" ".join(sentences), gone).left_out()
    assert isinstance(made, Replace)
    assert made.text == " ".join(one for one in sentences if one != gone)


@given(old=SENTENCES, new=SENTENCES)
def test_each_change_of_a_rewritten_line_comes_alone_and_none_is_forgotten(
    old: list[str], new: list[str]
):
    op = Replace(Anchor(" ".join(old)), " ".join(new))
    texts = [set(said_in(one.text)) for one in one_by_one(op)]
    assert all(text <= {*old, *new} for text in texts)
    assert set(new) - set(old) <= {one for text in texts for one in text}


def test_a_rewritten_line_that_only_says_less_is_no_change_worth_trying():
    assert one_by_one(Replace(Anchor(DENSE), "You review manifests.")) == []


def test_an_entry_that_comes_first_in_a_list_is_joined_as_the_others_are():
    now = TERSE.removeprefix("subject: imperative, ")
    op = Replace(Anchor(f"subject: {now}"), "subject: short, imperative, no full stop")
    made = [one.text for one in one_by_one(op)]
    assert "subject: short, at most 50 characters, no full stop" not in made
    assert f"subject: {now}".replace("at most 50 characters", "imperative") in made
    front = Replace(Anchor(f"subject: {now}"), f"subject: short, {now}")
    assert [one.text for one in one_by_one(front)] == [front.text]


def test_the_cure_in_a_rewritten_paragraph_comes_without_what_was_lost_beside_it():
    rewritten = "You review manifests. Quote at most five findings. Say JSON only. Be kind."
    made = [one.text for one in one_by_one(Replace(Anchor(DENSE), rewritten))]
    assert made == [f"{DENSE} Say JSON only.", f"{DENSE} Be kind."]


@given(base=SENTENCES, one=SENTENCES)
def test_a_change_put_together_with_none_is_that_change(base: list[str], one: list[str]):
    was, now = PromptText.of(" ".join(base)), PromptText.of(" ".join(one))
    assert merged(was, now, was) == merged(was, was, now) == now


@given(base=SENTENCES, first=st.integers(0, 4), second=st.integers(0, 4))
def test_changes_of_two_statements_of_one_line_are_put_together_either_way(
    base: list[str], first: int, second: int
):
    first, second = first % len(base), second % len(base)
    assume(first != second)

    def changed(*places: int) -> PromptText:
        said = [f"Say {n}." if n in places else one for n, one in enumerate(base)]
        return PromptText.of(" ".join(said))

    made = merged(changed(), changed(first), changed(second))
    assert made == merged(changed(), changed(second), changed(first)) == changed(first, second)


def test_two_changes_of_one_statement_cannot_be_put_together():
    texts = [PromptText.of(f"Be brief. Use {form}.") for form in ("JSON", "YAML", "XML")]
    with pytest.raises(EditError, match="'Use JSON\\.' is changed twice"):
        merged(*texts)


@pytest.mark.parametrize(
    ("line", "in_its_place", "below_it"),
    [
        ("- Be brief.", "- Say JSON only.", "- Say JSON only."),
        ("  * Be brief.", "  * Say JSON only.", "  * Say JSON only."),
        ("3. Be brief.", "3. Say JSON only.", "4. Say JSON only."),
        ("Be brief.", "Say JSON only.", "Say JSON only."),
    ],
)
def test_a_rule_is_written_as_its_neighbours_are(line: str, in_its_place: str, below_it: str):
    place = PromptText.of(line).lines[0]
    assert written_like("- Say JSON only.", place) == in_its_place
    assert written_like("- Say JSON only.", place, below=True) == below_it
