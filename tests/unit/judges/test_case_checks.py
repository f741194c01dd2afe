"""The verdict on the checks of a case: a weighted share, with critical, tracked and advisory ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from regauge.judges import abstained, failed, min_chars, passed
from regauge.judges._case_checks import _CaseCheck, _verdict

REASON = "no labels"


def opinion(outcome: str, weight: float = 1, tier: Any = "required", **more: Any) -> Any:
    """A check and its verdict; with `judge`, an advisory one."""
    judge = more.pop("judge", "")
    name = more.pop("name", outcome)
    check = _CaseCheck(
        judge=min_chars(1),
        weight=weight,
        tier=tier,
        metric=name,
        uncalibrated={judge: REASON} if judge else {},
    )
    verdicts = {
        "pass": passed("good"),
        "fail": failed(f"{name} is bad", code=more.pop("code", "too_long"), **more),
        "abstain": abstained("no opinion", code="none"),
    }
    return check, verdicts[outcome]


PASS, FAIL, ABSTAIN = opinion("pass"), opinion("fail"), opinion("abstain")


@pytest.mark.parametrize(
    ("opinions", "pass_at", "outcome", "score", "reason"),
    [
        ([PASS], 1, "pass", 1, "every check passes"),
        ([PASS, ABSTAIN], 1, "pass", 1, "every check passes"),
        ([FAIL], 1, "fail", 0, "fail is bad"),
        ([PASS, FAIL], 1, "fail", 0.5, "fail is bad"),
        ([PASS, FAIL], 0.5, "pass", 0.5, "1 of 2 by weight, 1 wanted; fail is bad"),
        ([PASS, FAIL], 0.51, "fail", 0.5, "1 of 2 by weight, 1.02 wanted; fail is bad"),
        ([opinion("pass", 3), FAIL], 0.75, "pass", 0.75, "3 of 4 by weight, 3 wanted; fail is bad"),
        ([opinion("pass", 0.1), opinion("pass", 0.7), opinion("fail", 0.2)], 0.8, "pass", 0.8,
         "0.8 of 1 by weight, 0.8 wanted; fail is bad"),
        ([FAIL], 0, "pass", 0, "0 of 1 by weight, 0 wanted; fail is bad"),
        ([PASS, opinion("fail", tier="critical")], 0.5, "fail", 0.5, "1 of 2 by weight, 1 wanted; fail is bad"),
        ([opinion("pass", tier="critical"), FAIL], 0.5, "pass", 0.5, "1 of 2 by weight, 1 wanted; fail is bad"),
        ([PASS, opinion("fail", tier="tracked")], 1, "pass", 1, "every check passes"),
        ([PASS, opinion("fail", judge="tone")], 1, "pass", 1, "every check passes"),
        ([PASS, opinion("fail", tier="critical", judge="tone")], 1, "pass", 1, "every check passes"),
        ([FAIL, opinion("fail", name="b")], 1, "fail", 0, "fail is bad; b is bad"),
        ([ABSTAIN], 1, "abstain", 0, "every check abstains, is tracked or advisory"),
        ([ABSTAIN, opinion("fail", tier="tracked")], 1, "abstain", 0, "every check abstains, is tracked or advisory"),
        ([ABSTAIN, opinion("fail", judge="tone")], 1, "abstain", 0, "every check abstains, is tracked or advisory"),
        ([opinion("pass", judge="tone")], 1, "abstain", 0, "every check is advisory"),
    ],
)  # fmt: skip
def test_checks_pass_by_the_weight_of_those_that_decide(
    opinions: list[Any], pass_at: float, outcome: str, score: float, reason: str
):
    verdict = _verdict(opinions, pass_at)
    assert (verdict.outcome, verdict.score, verdict.reason) == (
        outcome, pytest.approx(score), reason.replace("fail is bad", "fail: fail is bad").replace("b is bad", "b: b is bad"),
    )  # fmt: skip


def test_a_failure_has_the_code_and_values_of_its_only_failed_check():
    known = opinion("fail", expected="x", actual="y", name="a")
    (alone, both, mixed) = (
        _verdict([PASS, known], 1),
        _verdict([known, opinion("fail", name="b")], 1),
        _verdict([known, opinion("fail", name="b", code="no_json")], 1),
    )
    assert (alone.code, alone.expected, alone.actual) == ("too_long", "x", "y")
    assert (both.code, both.expected, both.actual) == ("too_long", None, None)
    assert mixed.code == "not_all"
    assert [verdict.details["failed"] for verdict in (alone, both)] == [["a"], ["a", "b"]]


def test_checks_that_all_are_advisory_name_what_to_calibrate():
    one = opinion("fail", judge="tone", name="a")
    verdict = _verdict([one, one, opinion("pass", judge="my judge", name="b")], 1)
    assert verdict.code == "all_advisory"
    assert verdict.details["why"] == (
        "every check is advisory: a (no labels), b (no labels)\n"
        "  fix: regauge judges calibrate tone && regauge judges calibrate 'my judge'"
    )
    assert _verdict([ABSTAIN], 1).code == "all_abstain"
    assert _verdict([one, ABSTAIN], 1).code == "all_advisory"


@settings(max_examples=30)
@given(
    weights=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1, 3]), st.booleans()), min_size=1),
    pass_at=st.sampled_from([0, 0.3, 0.5, 0.8, 1]),
)
def test_one_check_more_that_passes_never_makes_a_case_fail(
    weights: list[tuple[float, bool]], pass_at: float
):
    opinions = [opinion("pass" if ok else "fail", weight) for weight, ok in weights]
    before, after = _verdict(opinions, pass_at), _verdict([*opinions, PASS], pass_at)
    assert after.score >= before.score
    assert before.outcome == "fail" or after.outcome == "pass"
