from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.errors import JudgeError, ProviderError, UnmeasuredError
from regauge.judges import Verdict
from regauge.runner import CaseFailed, EvalResult
from regauge.runner._judging import checked_verdict
from regauge.runner._result import _shorten_middle

outcomes = st.lists(st.sampled_from(["passed", "failed", "unmeasured"]), min_size=1, max_size=8)
rates = st.floats(0.01, 1.0)


def result_of(made: Any, given: list[str], pass_rate: float = 1.0) -> EvalResult:
    return made.result([made.trial(n, outcome) for n, outcome in enumerate(given)], pass_rate)


@given(given_=outcomes, pass_rate=rates)
def test_a_case_passes_fails_or_is_unmeasured_by_counting(
    made: Any, given_: list[str], pass_rate: float
):
    result = result_of(made, given_, pass_rate)
    passed, unmeasured = given_.count("passed"), given_.count("unmeasured")
    assert result.passed == passed
    assert 1 <= result.required_passes <= len(given_)
    assert result.required_passes >= pass_rate * len(given_) - 1e-6
    if result.outcome == "passed":
        assert unmeasured == 0
        assert passed >= result.required_passes
    elif result.outcome == "failed":
        # Not even if all that is unmeasured had passed.
        assert passed + unmeasured < result.required_passes
    else:
        assert unmeasured > 0
        assert passed + unmeasured >= result.required_passes


@given(given_=outcomes, pass_rate=rates, better=st.data())
def test_a_trial_that_does_better_never_makes_a_case_fail(
    made: Any, given_: list[str], pass_rate: float, better: Any
):
    at = better.draw(st.integers(0, len(given_) - 1))
    improved = [*given_]
    improved[at] = "passed"
    if result_of(made, given_, pass_rate).outcome != "failed":
        assert result_of(made, improved, pass_rate).outcome != "failed"


@given(given_=outcomes, pass_rate=rates)
def test_checking_agrees_with_the_outcome(made: Any, given_: list[str], pass_rate: float):
    result = result_of(made, given_, pass_rate)
    match result.outcome:
        case "passed":
            result.check()
        case "failed":
            with pytest.raises(CaseFailed) as failed:
                result.check()
            assert "alert" in str(failed.value)
            assert "\n" not in failed.value.short
        case "unmeasured":
            with pytest.raises(UnmeasuredError):
                result.check()


@pytest.mark.parametrize(("rate", "trials"), [(0.7, 10), (0.1, 10), (0.29, 100), (1 / 3, 3)])
def test_a_share_that_comes_out_even_asks_for_no_trial_more(made: Any, rate: float, trials: int):
    """0.7 of 10 is 7, whatever floating point makes of it."""
    assert result_of(made, ["passed"] * trials, rate).required_passes == round(rate * trials)
    assert math.ceil(0.29 * 100) == 29 + (0.29 * 100 > 29)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["a" * 1000, "b" * 2999], ["a" * 1000, "b" * 2999]),
        (["a" * 1000, "b" * 3000], ["a" * 1000, "… 1 more characters", "b" * 3000]),
        (["a" * 1500, "b" * 3500], ["a" * 1000, "… 1001 more characters", "b" * 3000]),
        (
            ["a" * 1500, "b" * 1000, "c" * 2500],
            ["a" * 1000, "… 1502 more characters", "c" * 2500],
        ),
    ],
)
def test_a_long_conversation_loses_its_middle(lines: list[str], shown: list[str]):
    assert _shorten_middle("\n".join(lines)).split("\n") == shown


def test_what_a_judge_returns_is_a_verdict():
    verdict = Verdict(outcome="pass", score=1.0, reason="")
    assert checked_verdict("tone", verdict) is verdict
    with pytest.raises(
        JudgeError, match=r"^judge tone: it returned 'yes', not a Verdict$"
    ) as caught:
        checked_verdict("tone", "yes")
    assert caught.value.judge == "tone"
    with pytest.raises(JudgeError) as caught:
        checked_verdict("tone", "y" * 1000)
    assert len(str(caught.value)) < 460


def test_what_is_unmeasured_says_why(made: Any):
    result = result_of(made, ["unmeasured", "passed"])
    assert isinstance(result.error, ProviderError)
    with pytest.raises(ProviderError, match="cannot be reached"):
        _ = result.output
    assert result_of(made, ["passed"]).json() == {"severity": "critical"}
