"""How far a judge agrees: known numbers, and what holds for any labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from regauge.judges.calibration import (
    Judgement,
    Label,
    LabelledVerdict,
    _margin_of_perfect,
    _RaterLabels,
    find_disagreements,
    measure_agreement,
)
from regauge.maintenance.calibrations import disagreement_lines
from regauge.stats import wilson

OTHER = {"pass": "fail", "fail": "pass"}


def answer(number, says, *said, score=None):
    """A label of an answer, and what the judge said of it, repeat by repeat."""
    return LabelledVerdict(
        label=Label(id=f"l{number}", case="c", outputs=("x",), value=says),
        judgements=tuple(
            Judgement(opinions=(word,), score=float(word == "pass") if score is None else score)
            for word in said
        ),
    )


def pair(number, says, *winners):
    return LabelledVerdict(
        label=Label(id=f"l{number}", case="c", outputs=("x", "y"), value=says),
        judgements=(Judgement(opinions=winners),),
    )


def graded(number, says, score):
    return answer(number, says, "pass", score=score)


def outcomes(both_pass, missed, let_through, both_fail):
    """That many of each: people and judge, pass and fail."""
    table = [("pass", "pass", both_pass), ("pass", "fail", missed)]
    table += [("fail", "pass", let_through), ("fail", "fail", both_fail)]
    rows = [(human, judge) for human, judge, count in table for _ in range(count)]
    return [answer(number, human, judge) for number, (human, judge) in enumerate(rows)]


def test_a_perfect_judge_keeps_the_doubt_of_few_labels():
    found = measure_agreement("outcomes", outcomes(20, 0, 0, 20))
    assert found.verdicts == 40
    for estimate in (found.accuracy, found.kappa, found.spearman, found.kendall):
        assert (estimate.value, estimate.high) == (1, 1)
    assert (found.accuracy.low, found.kappa.low, found.spearman.low) == (0.9124, 0.8248, 0.8248)
    assert found.confusion.counts == ((20, 0), (0, 20))
    assert (found.base_rate, found.majority_accuracy) == (0.5, 0.5)
    assert found.disagreements == ()


def test_an_inverted_judge_is_as_wrong_as_can_be():
    found = measure_agreement("outcomes", outcomes(0, 20, 20, 0))
    assert (found.accuracy.value, found.kappa.value) == (0, -1)
    assert found.kappa.high < -0.7
    assert len(found.disagreements) == 40


def test_a_judge_at_chance_has_a_kappa_of_nothing():
    found = measure_agreement("outcomes", outcomes(10, 10, 10, 10))
    assert found.accuracy.value == 0.5
    assert found.kappa.value == 0
    assert found.kappa.low < 0 < found.kappa.high


def test_the_numbers_of_a_known_table():
    # The table of https://en.wikipedia.org/wiki/Cohen's_kappa: 20, 5, 10, 15.
    found = measure_agreement("outcomes", outcomes(20, 5, 10, 15))
    assert found.accuracy.value == 0.7
    assert found.kappa.value == 0.4
    assert (found.base_rate, found.majority_accuracy) == (0.5, 0.5)
    assert found.confusion.labels == ("pass", "fail")
    assert found.confusion.counts == ((20, 5), (10, 15))
    assert found.kappa.low < 0.4 < found.kappa.high


def test_a_judge_that_always_passes_agrees_by_chance_only():
    found = measure_agreement("outcomes", outcomes(30, 0, 10, 0))
    assert (found.accuracy.value, found.majority_accuracy, found.kappa.value) == (0.75, 0.75, 0)
    assert found.spearman is None


def test_labels_that_never_vary_leave_kappa_open():
    assert measure_agreement("outcomes", outcomes(40, 0, 0, 0)).kappa is None


@pytest.mark.parametrize("more", [0, 1, 5])
def test_disagreements_are_shown_up_to_a_screen_and_the_others_counted(more):
    judged = [answer(number, "pass", "fail") for number in range(20 + more)]
    lines = disagreement_lines("outcomes", [*judged, answer(99, "fail", "fail")])
    assert f"judge and labels disagree on {20 + more} of {21 + more}:" in lines
    assert sum(line.startswith("  l") for line in lines) == 20
    assert [line for line in lines if "see --json" in line] == (
        [f"  and {more} more, see --json"] if more else []
    )


def test_the_widest_disagreements_on_scores_come_first():
    judged = [graded(1, 0.0, 0.5), graded(2, 0.0, 1.0), graded(3, 0.5, 0.5), graded(4, 1.0, 1.0)]
    lines = disagreement_lines("scores", judged)
    assert [line.split()[0].strip(":") for line in lines if line.startswith("  l")] == ["l2", "l1"]


def test_no_opinion_and_no_verdict_are_counted_apart():
    judged = [
        *outcomes(2, 0, 0, 2),
        answer(7, "pass", "abstain"),
        answer(8, "fail", "unreadable"),
    ]
    found = measure_agreement("outcomes", judged)
    assert (found.verdicts, found.abstained, found.unreadable) == (4, 1, 1)
    assert found.accuracy.value == 1
    assert found.disagreements == ()


def test_a_judge_without_any_verdict_has_no_numbers():
    found = measure_agreement("scores", [answer(1, 0.5, "abstain")])
    assert (found.verdicts, found.accuracy, found.kappa, found.base_rate) == (0, None, None, None)


def test_self_consistency_is_the_share_of_judgements_that_repeat():
    judged = [
        answer(1, "pass", "pass", "pass", "pass"),
        answer(2, "pass", "pass", "fail", "pass"),
    ]
    assert measure_agreement("outcomes", judged).self_consistency == pytest.approx(
        (1 + 1 / 3) / 2, abs=1e-4
    )
    assert measure_agreement("outcomes", outcomes(1, 0, 0, 1)).self_consistency is None


def test_scores_are_taken_to_the_levels_that_people_used():
    judged = [
        graded(n, says, score)
        for n, (says, score) in enumerate(
            [(0.0, 0.1), (0.0, 0.2), (0.5, 0.45), (0.5, 0.9), (1.0, 0.95), (1.0, 1.0)]
        )
    ]
    found = measure_agreement("scores", judged)
    assert found.confusion.labels == ("0", "0.5", "1")
    assert found.confusion.counts == ((2, 0, 0), (0, 1, 1), (0, 0, 2))
    assert found.accuracy.value == pytest.approx(5 / 6, abs=1e-4)
    assert found.kappa.value == 0.75
    # One of six is one step off, and by chance the mean squared step is 1.5: 1 - (1/6) / 1.5.
    assert found.weighted_kappa.value == pytest.approx(1 - 1 / 9, abs=1e-4)
    assert found.spearman.value > 0.9
    assert found.disagreements == ("l3",)
    assert [one.label.id for one in find_disagreements("scores", judged)] == ["l3"]


def test_a_pair_counts_in_both_orders_and_flips_are_named():
    judged = [
        pair(1, "a", "a", "a"),
        pair(2, "b", "b", "b"),
        pair(3, "a", "a", "b"),  # the answer shown first, both times
        pair(4, "b", "b", "a"),  # the one shown second
    ]
    found = measure_agreement("pairs", judged)
    assert found.accuracy.value == 0.75
    assert found.kappa.value == 0.5
    assert found.confusion.counts == ((3, 1), (1, 3))
    flips = found.position_flips
    assert (flips.pairs, flips.flips, flips.for_first, flips.for_second) == (4, 2, 1, 1)
    assert found.disagreements == ("l3", "l4")
    assert found.spearman is None


words = st.sampled_from(["pass", "fail"])


@given(st.lists(st.tuples(words, words), max_size=12))
@settings(max_examples=10, deadline=None)
def test_a_judge_and_its_opposite_are_mirror_images(rows):
    judged = [answer(n, human, judge) for n, (human, judge) in enumerate(rows)]
    opposite = [answer(n, human, OTHER[judge]) for n, (human, judge) in enumerate(rows)]
    found, other = measure_agreement("outcomes", judged), measure_agreement("outcomes", opposite)
    assert set(found.disagreements).isdisjoint(other.disagreements)
    assert len(found.disagreements) + len(other.disagreements) == len(rows)
    if found.accuracy is not None:
        assert found.accuracy.value + other.accuracy.value == pytest.approx(1, abs=1e-3)
    for estimate in (found.accuracy, found.kappa, found.spearman, found.kendall):
        if estimate is not None and estimate.low is not None:
            assert estimate.low <= estimate.high


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
@settings(max_examples=10, deadline=None)
@example([(1.0, 0.0), (0.9999999999999999, 0.0)])
def test_any_scores_can_be_compared(rows):
    judged = [graded(n, says, score) for n, (says, score) in enumerate(rows)]
    found = measure_agreement("scores", judged)
    assert sum(map(sum, found.confusion.counts)) == found.verdicts == len(rows)
    assert len(found.confusion.labels) <= 10


@pytest.mark.parametrize(
    ("count", "names"),
    [(3, ["0", "0.5", "1"]), (10, None), (11, ["0", "0.25", "0.5", "0.75", "1"])],
)
def test_more_than_ten_levels_are_described_by_quarters(count: int, names: list[str] | None):
    values = [number / (count - 1) for number in range(count)]
    verdicts = [
        LabelledVerdict(
            label=Label(id=f"l{number}", case="c", outputs=("x",), value=value),
            judgements=(Judgement(opinions=("pass",), score=value),),
        )
        for number, value in enumerate(values)
    ]
    labels = _RaterLabels("scores", verdicts)
    assert list(labels.names) == (names or [f"{value:g}" for value in values])


@pytest.mark.parametrize(
    ("labels", "accuracy", "share"),
    [("ppff", True, 1.0), ("ppff", False, 2.0), ("pppf", False, 1 / 0.375), ("pppp", False, None)],
)
def test_a_perfect_agreement_keeps_a_margin_that_grows_with_agreement_by_chance(
    labels: str, *, accuracy: bool, share: float | None
):
    rows: Any = [SimpleNamespace(human=label) for label in labels * 10]
    margin = 1 - wilson(40, 40).low
    expected = 1.0 if share is None else margin * share
    assert _margin_of_perfect(rows, accuracy=accuracy) == pytest.approx(expected)
