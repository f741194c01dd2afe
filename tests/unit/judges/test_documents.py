"""Documents and n-grams against readers and formulas that are written here again."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from regauge.judges import chrf
from regauge.judges.rules._documents import yaml_documents


@given(number=st.integers())
def test_integers_of_yaml_keep_their_value_in_every_base(number: int):
    sign, digits = ("-", -number) if number < 0 else ("", number)
    assert yaml_documents(f"a: {number}\nb: {sign}{digits}") == [{"a": number, "b": number}]
    assert yaml_documents(f"- 0o{digits:o}\n- 0x{digits:x}") == [[digits, digits]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!x 1", "1"),
        ("!x [1, 2]", [1, 2]),
        ("!x {a: 1}", {"a": 1}),
        ("!x [{a: [1]}]", [{"a": [1]}]),
    ],
)
def test_tags_that_are_not_known_leave_the_value(text: str, value: object):
    assert yaml_documents(text) == [value]


def grams(parts: list[str] | str, order: int) -> Counter[tuple[str, ...]]:
    places = range(len(parts) - order + 1)
    return Counter(tuple(parts[place : place + order]) for place in places)


def chrf_by_formula(text: str, reference: str, words: int) -> float:
    """The mean over orders of F2, of all orders that both texts have."""
    pairs = [
        (grams("".join(text.split()), n), grams("".join(reference.split()), n)) for n in range(1, 7)
    ]
    pairs += [(grams(text.split(), n), grams(reference.split(), n)) for n in range(1, words + 1)]
    precisions: list[float] = []
    recalls: list[float] = []
    for own, other in pairs:
        if own and other:
            hits = (own & other).total()
            precisions.append(hits / own.total())
            recalls.append(hits / other.total())
    if not precisions:
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


WORDS = st.lists(st.sampled_from(["disk", "full", "is", "the", "on", "db"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(text=WORDS.map(" ".join), reference=WORDS.map(" ".join), words=st.integers(0, 3))
def test_chrf_is_the_formula_for_any_order_of_words(text: str, reference: str, words: int):
    expected = chrf_by_formula(text, reference, words)
    verdict = chrf(reference, words=words, at_least=0.0).check_text(text)
    assert verdict.score == pytest.approx(expected, abs=1e-4)
