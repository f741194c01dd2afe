"""What an edit gained: counted over the cases that were drawn under both texts, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from regauge.refine.analysis import CheckOutcome, Outcome, Tally, gain_of

trials = st.lists(st.booleans(), max_size=4)
cases = st.dictionaries(st.sampled_from("abcdef"), st.tuples(trials, trials))


def tally(drawn: dict[str, tuple[list[bool], list[bool]]]) -> Tally:
    """Trials of the texts `old` and `new`, by case."""
    return Tally().with_outcomes(
        Outcome(text=text, case=case, trial=n, checks=(CheckOutcome(check="json", passed=passed),))
        for case, sides in drawn.items()
        for text, side in zip(("old", "new"), sides, strict=True)
        for n, passed in enumerate(side)
    )


@given(drawn=cases)
def test_a_gain_lies_in_its_interval_and_turns_round_with_the_texts(drawn):
    shared = [case for case, (old, new) in drawn.items() if old and new]

    gain = gain_of(tally(drawn), "new", "old", sorted(drawn), "json")

    if gain is None:
        assert shared == []
        return
    assert gain.cases == len(shared)
    assert gain.before.trials == sum(len(drawn[case][0]) for case in shared)
    assert gain.after.passed == sum(sum(drawn[case][1]) for case in shared)
    assert -1 <= gain.low <= gain.mean <= gain.high <= 1
    loss = gain_of(tally(drawn), "old", "new", sorted(drawn), "json")
    assert loss is not None
    assert (loss.low, loss.high) == pytest.approx((-gain.high, -gain.low))


def test_more_cases_make_the_interval_narrower_and_more_trials_of_one_do_not():
    broken, repaired = [False] * 2, [True] * 2
    few = gain_of(tally(dict.fromkeys("ab", (broken, repaired))), "new", "old", "ab", "json")
    more = gain_of(
        tally(dict.fromkeys("abcdef", (broken, repaired))), "new", "old", "abcdef", "json"
    )
    deep = gain_of(
        tally(dict.fromkeys("ab", (broken * 9, repaired * 9))), "new", "old", "ab", "json"
    )
    assert few is not None
    assert more is not None
    assert deep is not None
    assert few.low < more.low < more.mean == 1
    assert deep.low == few.low
