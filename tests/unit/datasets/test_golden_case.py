"""Golden cases and the split of an id."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from regauge.datasets import GoldenCase, Script, Turn, split_of

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
shares = st.floats(0, 1)


def case(**values):
    return GoldenCase(**{"id": "a", "inputs": {"x": 1}, "split": "train", **values})


def test_the_split_follows_the_definition_in_the_docs():
    fraction = int.from_bytes(hashlib.sha256(b"\0KubeletDown").digest()[:8], "big") / 2**64
    assert split_of("KubeletDown", holdout=fraction + 0.001) == "holdout"
    assert split_of("KubeletDown", holdout=fraction - 0.001) == "train"


def test_the_split_of_known_ids_never_changes():
    """A changed split would leak held-out cases into refinement, so these are for good."""
    names = ("a", "b", "c", "case-1", "case-2", "case-3", "KubeletDown", "Watchdog")
    held_out = {name for name in names if split_of(name) == "holdout"}
    assert held_out == {"a", "case-1", "KubeletDown"}


@given(ids, shares, shares)
def test_a_larger_holdout_only_moves_cases_from_train_to_holdout(case_id, one, other):
    small, large = sorted((one, other))
    if split_of(case_id, holdout=small) == "holdout":
        assert split_of(case_id, holdout=large) == "holdout"


@given(ids)
def test_a_holdout_of_none_or_all_takes_none_or_all(case_id):
    assert split_of(case_id, holdout=0) == "train"
    assert split_of(case_id, holdout=1) == "holdout"


@given(st.text("abcdef", max_size=5), st.floats(0.05, 0.95))
def test_the_share_held_out_is_the_share_asked_for(salt, holdout):
    names = [split_of(f"case-{n}", salt=salt, holdout=holdout) for n in range(2000)]
    assert abs(names.count("holdout") / 2000 - holdout) < 0.06


def test_another_salt_deals_the_cases_anew():
    one, other = ([split_of(f"c{n}", salt=salt) for n in range(100)] for salt in ("", "x"))
    assert one != other


@pytest.mark.parametrize("holdout", [-0.1, 1.1, float("nan")])
def test_a_holdout_that_is_no_share_is_refused(holdout):
    with pytest.raises(ValueError, match="from 0 to 1"):
        split_of("a", holdout=holdout)


def test_the_digest_changes_with_what_is_asked_and_expected_only():
    same = case(tags=("t",), tier="tracked", split="holdout", source="s", note="n", location="x:1")
    assert case().digest == same.digest
    others = [case(id="b"), case(inputs={"x": 2}), case(expected=False)]
    assert len({case().digest, *(other.digest for other in others)}) == 4


def test_equal_cases_hash_alike_and_asking_for_the_digest_changes_neither():
    one, other = case(), case()
    assert one.digest
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1
    assert "digest" not in repr(one)


def test_every_key_of_a_record_arrives_in_its_case(load):
    record = {
        "id": "a",
        "inputs": {"x": 1},
        "expected": {"y": 2},
        "tags": ["t", "u"],
        "tier": "critical",
        "split": "holdout",
        "source": "the web",
        "licence": "CC0",
        "note": "seen once",
        "checks": [{"contains": "z"}, "is_json"],
        "pass_at": 0.5,
        "turns": [{"user": "Hi", "expected": "Hello", "checks": ["is_json"]}],
        "max_steps": 3,
    }
    (case,) = load(json.dumps(record))
    assert case == GoldenCase(
        id="a",
        inputs={"x": 1},
        expected={"y": 2},
        tags=("t", "u"),
        tier="critical",
        split="holdout",
        source="the web",
        licence="CC0",
        location="fixtures/golden/demo.jsonl:1",
        note="seen once",
        checks=({"contains": "z"}, "is_json"),
        pass_at=0.5,
        script=Script(turns=(Turn(user="Hi", expected="Hello", checks=("is_json",)),), max_steps=3),
    )
    assert case.golden == {
        "expected": {"y": 2},
        "checks": [{"contains": "z"}, "is_json"],
        "turns": [{"expected": "Hello", "checks": ("is_json",)}],
    }


def test_the_digest_of_a_case_follows_what_changes_its_verdict():
    case = GoldenCase(id="a", inputs={"x": 1}, expected=2, split="train")
    other = replace(
        case, tags=("t",), tier="tracked", split="holdout", source="s", note="n", licence="l",
        location="f:1", pass_at=0.5,
    )  # fmt: skip
    assert other.digest == case.digest
    checked = replace(case, checks=("is_json",))
    others = [
        replace(case, id="b"),
        replace(case, inputs={"x": 2}),
        replace(case, expected=3),
        checked,
        replace(checked, pass_at=0.5),
        replace(case, script=Script()),
        replace(case, script=Script(max_steps=9)),
        replace(case, script=Script(turns=(Turn(user="Hi"),))),
        replace(case, script=Script(turns=(Turn(user="Hi", expected="x"),))),
    ]
    assert len({case.digest, *(other.digest for other in others)}) == len(others) + 1
    assert case.golden == 2
    assert replace(case, script=Script(turns=(Turn(user="Hi"),))).golden == 2
