"""What the gate says, in plain counts."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.errors import UsageError
from regauge.evidence import NetReport, PairsReport, RoundReport
from regauge.gate import (
    BaseTrials,
    CaseReport,
    CheckReport,
    Count,
    GateCase,
    GatePolicy,
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

CONTEXT = MessageContext(cells=100)


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
        before=before,
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
        "before": before,
        "today": today,
        "checks": (check,),
    }
    return CaseReport(**{**values, **more})


def decided(verdict: str, new: Count, before: Count, today: Count, **more: Any) -> CaseReport:
    """A case whose check was tested side by side."""
    found = report(verdict, new, before, today, **more)
    paired = count(min(new.passed, today.trials), today.trials)
    checks = tuple(replace(check, paired=paired, direction="worse") for check in found.checks)
    return replace(found, checks=checks)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            decided("broken", count(0, 6), count(12, 12), count(5, 5)),
            (
                "failed 6 of 6 new trials; base passed 12 of 12 before. Side by side today: the"
                " candidate 0 of 5, base 5 of 5."
            ),
        ),
        (
            report("broken", count(6, 8), count(12, 12), tier="critical", bar=count(7, 8)),
            (
                "failed 2 of 8 new trials (bar: 7 of 8). It is critical, so it blocks whatever base"
                " does."
            ),
        ),
        (
            decided("broken", count(0, 6), count(12, 12), count(5, 5), broke_before=1),
            (
                "failed 6 of 6 new trials; base passed 12 of 12 before. Side by side today: the"
                " candidate 0 of 5, base 5 of 5. It broke in 1 version before as well, and was"
                " accepted: it is edit-sensitive; consider the tier `tracked`."
            ),
        ),
        (
            report("fixed", count(5, 5), count(0, 12)),
            "passes 5 of 5; base passed 0 of 12.",
        ),
        (
            report("flaky", count(2, 3), count(9, 12)),
            "failed once, passed 2 of 2 other trials; base fails 3 of 12. Not blocking.",
        ),
        (
            report("mixed", count(0, 1), count(12, 12), tier="tracked"),
            "failed its only trial; base passed 12 of 12. Tracked, not blocking.",
        ),
        (
            decided("undecided", count(16, 24), count(12, 12), count(23, 23)),
            (
                "passed 16 of 24; base passed 12 of 12 before, 23 of 23 today. Probably worse, not"
                " certain among 100 checks. Add trials (--more-trials 8), or mark the case critical."
            ),
        ),
        (
            decided("undecided", count(0, 40), count(12, 12), count(8, 39)),
            (
                "passed 0 of 40, side by side 0 of 39; base passes only 8 of 39 today (12 of 12"
                " before): the difference may be chance. Add trials (--more-trials 8), or mark the case"
                " critical."
            ),
        ),
        (
            report("undecided", count(0, 1), count(12, 12), needs=5, recorded=1),
            "needs 5 live trials; only 1 is recorded.",
        ),
        (
            decided("drifted", count(0, 6), count(12, 12), count(0, 5)),
            (
                "failed 6 of 6 trials; base also fails today: passed 0 of 5 (12 of 12 before). Side by"
                " side the candidate is not worse."
            ),
        ),
        (
            report("known-failing", count(0, 1), count(0, 12)),
            "base fails 12 of 12 trials; unchanged.",
        ),
        (
            report("new", count(3, 3), state="new", bar=count(3, 3)),
            "no history; passed 3 of 3 (bar: 3 of 3).",
        ),
        (
            report("new", count(2, 3), state="new", bar=count(3, 3), blocks=True),
            (
                "no history; passed 2 of 3 (bar: 3 of 3). It misses its bar: field_equals failed 1"
                " of 3. To report it without blocking: `tier: tracked`."
            ),
        ),
        (report("unmeasured", missing=1), "its only trial has no verdict (HTTP 429)."),
        (report("unchanged"), "the request is the same to the byte; not run."),
        (
            report("removed", blocks=True),
            (
                "base has this case and it is gone. Put it back, or say why in the changelog entry of"
                " the prompt: `removed: [{case: late-return, reason: ...}]`."
            ),
        ),
    ],
    ids=lambda value: value.verdict if isinstance(value, CaseReport) else "",
)
def test_a_case_is_told_in_counts(found: CaseReport, words: str):
    context = MessageContext(cells=100, unmeasured="HTTP 429")
    assert case_message(found, context) == f"refund-policy/late-return: {words}"


def test_a_suspect_of_a_replay_is_left_to_the_audit():
    found = report("undecided", count(0, 1), count(12, 12), needs=2, recorded=1)
    assert case_message(found, MessageContext(cells=9, provisional=True)) == (
        "refund-policy/late-return: failed 1 of 1 recorded trials; base passed 12 of 12. Left to the"
        " audit: a run with a key tests it side by side."
    )


def test_base_that_was_drawn_beside_the_candidate_is_not_called_history():
    found = report("broken", count(0, 6), count(3, 3), count(3, 3))
    said = case_message(found, MessageContext(cells=20, stored=False))
    assert "failed 6 of 6 new trials; base passed 3 of 3 in this run." in said


def test_a_case_with_several_checks_names_the_one_that_broke():
    broken = report("broken", count(0, 6), count(12, 12))
    fine = CheckReport(
        check="json_parses",
        verdict="passed",
        before=count(12, 12),
        today=count(0, 0),
        candidate=count(6, 6),
    )
    several = report("broken", count(0, 6), count(12, 12), checks=(fine, *broken.checks))
    assert "failed field_equals in 6 of 6 new trials; base passed 12 of 12 before." in case_message(
        several, CONTEXT
    )


def a_round(p_value: float, **more: Any) -> RoundReport:
    return RoundReport(
        trials=1, drawn=100, fails=11, expected=7.5, p_value=p_value, bound=0.01, **more
    )


def look(p_value: float, check: str = "") -> PairsReport:
    return PairsReport(
        base=count(190, 200), candidate=count(170, 200), p_values={check: p_value}, bound=0.012
    )


ASKED: dict[str, Any] = {
    "prompt": "p",
    "cases": 100,
    "rounds": (a_round(5.69e-4),),
    "asked": ("",),
    "stable_failed": 3,
}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"verdict": "worse", "pairs": (look(0.0012),)},
            (
                "11 of 100 trials failed; the base's baseline predicts 7.5, and 3 failed in cases that"
                " base never failed (p = 0.00057), confirmed side by side"
                " (p = 0.0012): the candidate passed 170 of 200 trials, base 190 of 200."
            ),
        ),
        (
            {"verdict": "unconfirmed", "pairs": (look(0.31),), "stable_failed": 0},
            (
                "11 of 100 trials failed; the base's baseline predicts 7.5"
                " (p = 0.00057), not confirmed side by side (p = 0.31): the candidate passed 170 of"
                " 200 trials, base 190 of 200."
            ),
        ),
        (
            {
                "verdict": "worse",
                "rounds": (a_round(0.4, scores={"grace": 1e-4, "tone": 0.5}),),
                "asked": ("grace",),
                "pairs": (look(1e-9, "grace"),),
                "stable_failed": 0,
            },
            (
                "11 of 100 trials failed; the base's baseline predicts 7.5; scores of grace are"
                " lower (p = 0.0001), confirmed side by side (p < 0.000001):"
                " the candidate passed 170 of 200 trials, base 190 of 200."
            ),
        ),
        (
            {"verdict": "undecided", "needs": 400, "stable_failed": 0},
            (
                "11 of 100 trials failed; the base's baseline predicts 7.5"
                " (p = 0.00057), not yet tested side by side: that needs 400 live trials."
            ),
        ),
        ({"verdict": "passed", "asked": ()}, "100 cases compared; no loss against the baseline."),
    ],
)
def test_a_prompt_as_a_whole_is_told_in_counts(more: dict[str, Any], words: str):
    """Never with a cause that was not measured."""
    assert suite_message(SuiteReport(**{**ASKED, **more})) == f"p: {words}"


@pytest.mark.parametrize(
    ("verdict", "worse", "better", "passed", "words"),
    [
        ("worse", 1e-4, 0.999, 140, "5 broken, 2 fixed: worse on the whole side by side (p ="),
        (
            "passed",
            0.9,
            0.01,
            190,
            "5 broken, 2 fixed: better on the whole side by side (p = 0.01)",
        ),
        ("passed", 0.5, 0.5, 160, "5 broken, 2 fixed: not worse on the whole side by side;"),
        ("undecided", 0.1, 0.9, 155, "5 broken, 2 fixed: -2.5 points side by side (p = 0.1)"),
    ],
)
def test_broken_and_fixed_cases_are_weighed_in_words(
    verdict: Any, worse: float, better: float, passed: int, words: str
):
    weighed = NetReport(
        base=count(160, 200),
        candidate=count(passed, 200),
        p_worse=worse,
        p_better=better,
        bound=0.015,
    )
    found = SuiteReport(prompt="p", verdict=verdict, cases=100, broken=5, fixed=2, net=(weighed,))
    assert suite_message(found).startswith(f"p: {words}")


counts = st.integers(0, 12).flatmap(
    lambda trials: st.integers(0, trials).map(lambda passed: count(passed, trials))
)
histories = st.builds(
    BaseTrials,
    checks=st.dictionaries(st.sampled_from(["a", "b"]), counts),
    whole=counts,
    scores=st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.floats(0, 1)).map(tuple)),
    sessions=st.lists(st.text(max_size=5)).map(tuple),
    distinct_answers=st.integers(0, 12),
)


@given(history=st.none() | histories, case=st.text(), accepted=st.text())
def test_a_case_comes_back_from_its_record_as_it_was(
    history: BaseTrials | None, case: str, accepted: str
):
    one = GateCase(prompt="p", case=case, checks=("a", "b"), history=history, accepted=accepted)
    assert case_to_json(one) == json.loads(json.dumps(asdict(one)))
    assert case_from_json(json.loads(json.dumps(case_to_json(one)))) == one


def test_a_policy_comes_back_from_its_record_as_it_was():
    policy = with_more_trials(GatePolicy(on_broken="warn", first_draws=2), 24)
    assert policy.more == 24
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy
    with pytest.raises(UsageError, match="cannot be read"):
        policy_from_json({"case": {}})
    with pytest.raises(UsageError, match="read it with the regauge that wrote it"):
        case_from_json({"prompt": "p"})
