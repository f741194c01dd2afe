"""What is remembered of edits that were tried."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, strategies as st

from regauge.refine.attempts import Attempt, Memory
from regauge.refine.edits import PromptText, apply, changed_places, changed_statements
from tests.unit.refine.world import HEALTHY, JSON, adding, deleting, without

AGAINST = ("refuted", "overfit", "suite-refused", "rejected-by-person")


def entry(before, after, result="refuted", mode="json/missing"):
    added, removed = changed_statements(before, after)
    return Attempt(
        before=before.shape, after=after.shape, failure_mode=mode, added_text=added, removed_text=removed,
        result=result, places=changed_places(before, after),
    )  # fmt: skip


@pytest.mark.parametrize("result", AGAINST)
def test_what_was_settled_is_refused(result):
    before = without("json")
    after = apply(before, adding("- Answer in yaml.").ops)

    assert result in Memory().with_attempts(entry(before, after, result)).refuses(
        "json/missing", before, after
    )


def test_a_person_refuses_an_edit_and_not_the_text_that_another_edit_leads_to():
    before, other = without("json", "utc"), without("json")
    memory = Memory().with_attempts(entry(before, HEALTHY, "rejected-by-person"))

    assert "rejected-by-person" in memory.refuses("utc/missing", before, HEALTHY)
    assert not memory.refuses("json/missing", other, HEALTHY)

    more = without("json", "utc", "short")
    assert "rejected-by-person" in memory.refuses("json/missing", more, HEALTHY), "it is in there"


@pytest.mark.parametrize("result", ["undecided", "screened-out"])
def test_what_is_not_settled_has_a_second_chance_and_no_third(result):
    before = without("json")
    after = apply(before, adding("- Answer in yaml.").ops)
    once = Memory().with_attempts(entry(before, after, result))

    assert not once.refuses("json/missing", before, after)
    assert "2 times" in once.with_attempts(entry(before, after, result)).refuses(
        "json/missing", before, after
    )


def test_nearly_the_same_edit_for_the_same_failures_is_refused():
    before = without("json")
    one = apply(before, adding("- Please answer in yaml format only!").ops)
    other = apply(before, adding("- Answer only in yaml format.").ops)
    memory = Memory().with_attempts(entry(before, one))

    assert "nearly the same" in memory.refuses("json/missing", before, other)
    assert not memory.refuses("utc/missing", before, other)


def test_a_rule_that_did_not_help_in_one_place_may_be_tried_in_another():
    before = PromptText.from_contents(
        "# Form\n- Be short.\n# Content\n- Give times in UTC.\n{{input}}"
    )
    here = apply(before, adding(JSON, "- Be short.").ops)
    there = apply(before, adding(JSON, "- Give times in UTC.").ops)

    assert not Memory().with_attempts(entry(before, here)).refuses("json/missing", before, there)
    guarded = Memory().with_attempts(entry(before, here, "guarded"))
    assert not guarded.refuses("json/missing", before, here), "a guard's suspicion proves nothing"


def test_a_rejection_by_a_person_holds_in_all_places():
    before = PromptText.from_contents(
        "# Form\n- Be short.\n# Content\n- Give times in UTC.\n{{input}}"
    )
    here = apply(before, adding("- Answer only in yaml format.", "- Be short.").ops)
    there = apply(
        before, adding("- Please answer only in yaml format!", "- Give times in UTC.").ops
    )
    for result, word in {"refuted": "", "rejected-by-person": "nearly the same"}.items():
        refused = (
            Memory()
            .with_attempts(entry(before, here, result))
            .refuses("json/missing", before, there)
        )
        assert bool(refused) is bool(word)
        assert word in refused


def test_the_inverse_of_an_accepted_edit_is_refused():
    before = without("json")
    after = apply(before, adding(JSON).ops)
    memory = Memory().with_incumbent(before).with_incumbent(after)

    assert "leads back" in memory.refuses("x", after, apply(after, deleting(JSON).ops))


def test_white_space_makes_no_other_text():
    before = without("json")
    after = apply(before, adding("- Answer in yaml.").ops)
    spaced = apply(before, adding("-  Answer   in yaml.").ops)
    memory = Memory().with_attempts(entry(before, after))

    assert "tried before" in memory.refuses("json/missing", before, spaced)


@given(times=st.integers(1, 4))
def test_to_remember_a_refuted_edit_twice_changes_no_answer(times):
    before = without("json")
    after = apply(before, adding("- Answer in yaml.").ops)
    one = Memory().with_attempts(entry(before, after))
    many = Memory().with_attempts(*[entry(before, after)] * times)

    for text in (after, HEALTHY, before):
        assert one.refuses("json/missing", before, text) == many.refuses(
            "json/missing", before, text
        )


def test_an_entry_is_the_same_after_it_was_written_down():
    made = entry(without("json"), HEALTHY)

    assert Memory.from_json([asdict(made)]) == Memory((made,))
    with pytest.raises(ValueError, match=r"(?s)result.*'good'"):
        Memory.from_json([{**asdict(made), "result": "good"}])
