"""What the gate says, in plain counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.errors import UsageError
from regauge.gate import (
    CaseReport,
    CheckReport,
    Count,
    GateCase,
    GatePolicy,
    History,
    MessageContext,
    SuiteReport,
    case_from_json,
    case_message,
    case_to_json,
    policy_from_json,
    policy_to_json,
    suite_message,
    with_more_trials,
)
from regauge.gate._outcome import ControlReport, HeadToHead, RoundReport

CONTEXT = MessageContext(cells=100, cap=24)


def count(passed: int, trials: int) -> Count:
    return Count(passed=passed, trials=trials)


NOTHING = count(0, 0)


def report(
    verdict: str,
    candidate: Count = NOTHING,
    before: Count = NOTHING,
    today: Count = NOTHING,
    **more: Any,
) -> CaseReport:
    check = CheckReport(
        check="field_equals",
        verdict=verdict,  # type: ignore[arg-type]  # a word of the table below
        history=before,
        today=today,
        candidate=candidate,
    )
    values: dict[str, Any] = {
        "prompt": "refund-policy",
        "case": "late-return",
        "tier": "required",
        "state": "changed",
        "verdict": verdict,
        "blocks": False,
        "candidate": candidate,
        "history": before,
        "today": today,
        "checks": (check,),
    }
    return CaseReport(**{**values, **more})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            report("regressed", count(0, 6), count(12, 12), count(5, 5)),
            (
                "failed 6 of 6 new trials. main passed 12 of 12 before and 5 of 5 today."
                " This prompt change broke it."
            ),
        ),
        (
            report("regressed", count(6, 8), count(12, 12), tier="critical", bar=count(7, 8)),
            (
                "a critical case; it failed 2 of 8 new trials (bar: 7 of 8)."
                " That blocks whatever main does."
            ),
        ),
        (
            report("regressed", count(0, 6), count(12, 12), count(5, 5), broke_before=1),
            (
                "failed 6 of 6 new trials. main passed 12 of 12 before and 5 of 5 today."
                " This prompt change broke it. It broke in 1 version before as well, and was"
                " accepted: it is edit-sensitive, and may serve better in the tier tracked."
            ),
        ),
        (
            report("improved", count(5, 5), count(0, 12)),
            "passes 5 of 5; main passed 0 of 12.",
        ),
        (
            report("flaky", count(2, 3), count(9, 12)),
            (
                "failed once, passed 2 of 2 other trials; main fails it 3 of 12 times too."
                " Not blocking."
            ),
        ),
        (
            report("undecided", count(16, 24), count(12, 12), count(23, 23)),
            (
                "passed 16 of 24 where main passed 35 of 35 (12 stored + 23 today). Probably worse,"
                " not certain among 100 cells. Add trials (--more-trials 24) or mark the case critical."
            ),
        ),
        (
            report("undecided", count(0, 1), count(12, 12), needs=5, recorded=1),
            "needs 5 live trials; only 1 is recorded.",
        ),
        (
            report("drifted", count(0, 6), count(12, 12), count(0, 5)),
            (
                "failed 6 of 6, but main fails it too today (passed 0 of 5; 12 of 12 before)."
                " The model or a judge changed, not the prompt."
            ),
        ),
        (
            report("known-failing", count(0, 1), count(0, 12)),
            "main fails this 12 of 12; unchanged.",
        ),
        (
            report("new", count(3, 3), state="new", bar=count(3, 3)),
            "no history; passed 3 of 3 (bar: 3 of 3).",
        ),
        (
            report("new", count(2, 3), state="new", bar=count(3, 3), blocks=True),
            (
                "no history; passed 2 of 3 (bar: 3 of 3). It misses its bar:"
                " field_equals failed 1 of 3."
            ),
        ),
        (report("unmeasured", missing=1), "its only trial has no verdict (HTTP 429)."),
        (
            report("flaky", count(0, 1), count(1, 12)),
            "failed its only trial; main fails it 11 of 12 times too. Not blocking.",
        ),
        (report("unchanged"), "the request is the same to the byte; nothing was drawn."),
        (
            report("removed", blocks=True),
            (
                "main has this case and it is gone. Put it back, or say why in the changelog entry of"
                " the prompt: `removed: [{case: late-return, reason: ...}]`."
            ),
        ),
    ],
    ids=lambda value: value.verdict if isinstance(value, CaseReport) else "",
)
def test_a_case_is_told_in_counts(found: CaseReport, words: str):
    context = MessageContext(cells=100, cap=24, unmeasured="HTTP 429")
    assert case_message(found, context) == f"refund-policy/late-return: {words}"


def test_main_that_was_drawn_beside_the_candidate_is_not_called_history():
    found = report("regressed", count(0, 6), count(3, 3), count(3, 3))
    said = case_message(found, MessageContext(cells=20, cap=24, stored=False))
    assert "main, drawn beside it, passed 6 of 6." in said


def test_a_case_with_several_checks_names_the_one_that_broke():
    broken = report("regressed", count(0, 6), count(12, 12))
    fine = CheckReport(
        check="json_parses",
        verdict="pass",
        history=count(12, 12),
        today=count(0, 0),
        candidate=count(6, 6),
    )
    several = report("regressed", count(0, 6), count(12, 12), checks=(fine, *broken.checks))
    assert "failed field_equals in 6 of 6 new trials." in case_message(several, CONTEXT)


def a_round(p_value: float, **more: Any) -> RoundReport:
    return RoundReport(trials=1, fails=11, expected=7.5, p_value=p_value, bound=0.005, **more)


def test_a_prompt_as_a_whole_is_told_in_counts():
    control = ControlReport(main=count(90, 100), p_history=0.4, p_candidate=0.01)
    found = SuiteReport(
        prompt="refund-policy",
        verdict="regressed",
        cases=100,
        rounds=(a_round(5.69e-4),),
        control=control,
        stable_failed=3,
    )
    assert suite_message(found) == (
        "refund-policy: no single case is clearly broken, but 11 of 100 first trials failed where"
        " main's record predicts 7.5; 3 of the cases main has never failed. Chance of this with an"
        " unchanged prompt: 1 in 1,757. main, drawn again today, is as before."
    )
    assert "no single case" not in suite_message(found, broken=2)
    drifted = SuiteReport(prompt="p", verdict="drifted", cases=100, control=control)
    assert "and so is main today: main, drawn again, passed 90 of 100." in suite_message(drifted)
    duel = HeadToHead(main=count(300, 300), candidate=count(200, 300), p_value=1e-12, bound=0.01)
    beaten = SuiteReport(prompt="p", verdict="regressed", cases=100, head_to_head=duel)
    assert "less than 1 in 1,000,000,000" in suite_message(beaten)


def test_scores_that_fell_are_named():
    found = SuiteReport(
        prompt="p",
        verdict="regressed",
        cases=10,
        rounds=(a_round(0.4, scores={"grace": 1e-4, "tone": 0.5}, score_bound=0.005),),
    )
    said = suite_message(found)
    assert "Scores of grace are lower; chance of this with an unchanged prompt: 1 in 10,000" in said
    assert "tone" not in said


counts = st.integers(0, 12).flatmap(
    lambda trials: st.integers(0, trials).map(lambda passed: count(passed, trials))
)
histories = st.builds(
    History,
    checks=st.dictionaries(st.sampled_from(["a", "b"]), counts),
    whole=counts,
    scores=st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.floats(0, 1)).map(tuple)),
    sessions=st.lists(st.text(max_size=5)).map(tuple),
    distinct_answers=st.integers(0, 12),
)


@given(history=st.none() | histories, case=st.text(), accepted=st.text())
def test_a_case_comes_back_from_its_record_as_it_was(
    history: History | None, case: str, accepted: str
):
    one = GateCase(prompt="p", case=case, checks=("a", "b"), history=history, accepted=accepted)
    assert case_from_json(json.loads(json.dumps(case_to_json(one)))) == one


def test_a_policy_comes_back_from_its_record_as_it_was():
    policy = with_more_trials(GatePolicy(case_flips="net", first_draws=2), 24)
    assert policy.case.cap == 48
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy
    with pytest.raises(UsageError, match="cannot be read"):
        policy_from_json({"case": {}})
    with pytest.raises(UsageError, match="read it with the regauge that wrote it"):
        case_from_json({"prompt": "p"})
