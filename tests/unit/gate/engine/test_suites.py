"""What the gate says of a whole suite when no single case is clearly broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regauge.gate import Count, Gate, GateCase, GatePolicy, History, TrialFacts
from tests.unit.gate.engine.drive import others, run, scripted, with_policy


def failing_once(number, *, main="1", prompt="triage", **more):
    """Cases that fail their first trial and pass from then on."""
    return [
        scripted("01", main=main, name=f"once-{i}", prompt=prompt, **more) for i in range(number)
    ]


def test_failures_spread_over_stable_cases_block_although_no_case_is_named():
    outcome = run([*failing_once(4), *others(96)])
    suite = outcome.suites[0]
    assert {case.verdict for case in outcome.cases} == {"flaky", "pass"}
    assert (suite.verdict, outcome.decision) == ("regressed", "reject")
    assert [r.kind for r in outcome.reasons] == ["suite"]
    assert suite.rounds[0].p_value == pytest.approx(13.0**-4)
    assert (suite.cases, suite.rounds[0].fails, suite.rounds[0].expected) == (100, 4, 0)
    assert suite.stable_failed == 4
    assert suite.control is not None
    assert (str(suite.control.main), suite.control.p_history) == ("100 of 100", 1.0)


def test_the_counts_of_the_published_message_are_those_of_the_gate():
    """11 of 100 failed where 7.5 are predicted: 1 in 1,756."""
    outcome = run(
        [
            *failing_once(3),
            *others(82),
            *[scripted("01", was="9/12", name=f"wavers-{i}") for i in range(3)],
            *[scripted("1", was="9/12", name=f"wavered-{i}") for i in range(7)],
            *[scripted("0", was="0/12", name=f"never-{i}") for i in range(5)],
        ]
    )
    suite = outcome.suites[0]
    first = suite.rounds[0]
    assert (first.fails, first.expected, suite.stable_failed) == (11, 7.5, 3)
    assert 1 / first.p_value == pytest.approx(1756, abs=1)


def test_main_below_its_history_means_the_model_changed_and_both_are_drawn_side_by_side():
    outcome = run([*failing_once(4, main="01"), *others(96)])
    suite = outcome.suites[0]
    assert (suite.verdict, outcome.decision) == ("drifted", "accept")
    assert suite.head_to_head is not None
    assert str(suite.head_to_head.main) == str(suite.head_to_head.candidate) == "300 of 300"
    assert [(r.kind, r.leads_to) for r in outcome.reasons] == [("drifted", "accept")]
    blocked = run([*failing_once(4, main="01"), *others(96)], with_policy(on_drifted="block"))
    assert blocked.decision == "undecided"


def test_a_candidate_that_loses_side_by_side_is_rejected_whatever_drifted():
    """Alike in the first round; in the fresh trials main passes and the candidate does not."""
    candidate = [scripted("0", main="01", name=f"c-{i}", tier="tracked") for i in range(10)]
    outcome = run([*candidate, *others(50)])
    suite = outcome.suites[0]
    assert suite.head_to_head is not None
    assert (suite.verdict, outcome.decision) == ("regressed", "reject")
    assert [r.kind for r in outcome.reasons] == ["head-to-head"]


@pytest.mark.parametrize(
    ("main", "verdict", "decision"),
    [("!", "unmeasured", "unmeasured"), ("-", "undecided", "undecided")],
)
def test_without_the_control_of_main_a_suite_is_not_blamed(main, verdict, decision):
    tracked = [replace(o, case=replace(o.case, tier="tracked")) for o in failing_once(4, main=main)]
    outcome = run([*tracked, *others(96)])
    assert (outcome.suites[0].verdict, outcome.decision) == (verdict, decision)


def test_a_doubtful_round_asks_for_another_trial_of_every_case():
    tracked = [scripted("01", name=f"t-{i}", tier="tracked") for i in range(2)]
    outcome = run([*tracked, *others(30)])
    suite = outcome.suites[0]
    assert [r.trials for r in suite.rounds] == [1, 2, 3]
    assert suite.rounds[0].p_value == pytest.approx(13.0**-2)
    assert (suite.verdict, outcome.candidate_trials) == ("pass", 3 * 32)


def test_the_error_rate_is_shared_out_to_prompts():
    one = run([*failing_once(3), *others(20)])
    two = run(
        [
            *failing_once(3),
            *others(20),
            *failing_once(2, prompt="summary"),
            *others(20, prompt="summary"),
        ]
    )
    assert one.suites[0].rounds[0].bound == pytest.approx(0.005)
    assert [s.rounds[0].bound for s in two.suites] == pytest.approx([0.0025, 0.0025])
    assert [s.verdict for s in two.suites] == ["regressed", "pass"]


def test_a_broken_case_spares_the_suite_its_further_rounds():
    outcome = run([scripted("0"), *failing_once(2), *others(60)])
    suite = outcome.suites[0]
    assert outcome.decision == "reject"
    assert (suite.verdict, len(suite.rounds), suite.control) == ("untested", 1, None)


def test_cases_that_were_not_measured_leave_the_rest_of_the_suite_to_be_judged():
    outcome = run([*failing_once(4), scripted("!", name="lost"), *others(95)])
    assert outcome.decision == "reject"
    assert outcome.suites[0].verdict == "regressed"
    assert {r.kind for r in outcome.reasons} == {"suite", "unmeasured"}


def test_without_any_history_a_worse_suite_needs_no_control_of_main():
    """All of main's trials are of today already."""
    outcome = run([*failing_once(12, was=None), *others(88, was=None)])
    suite = outcome.suites[0]
    assert (suite.verdict, suite.control) == ("regressed", None)
    assert outcome.decision == "reject"


@pytest.mark.parametrize(
    ("later", "verdict", "decision"),
    [("!", "unmeasured", "unmeasured"), ("-", "undecided", "undecided")],
)
def test_trials_that_are_missing_side_by_side_leave_the_suite_open(later, verdict, decision):
    """Case by case the other trials are compared; one case without them is one too many."""
    lost = scripted("1", main=f"1{later}", name="lost", tier="tracked")
    tracked = [scripted("01", main="01", name=f"t-{i}", tier="tracked") for i in range(4)]
    outcome = run([*tracked, lost, *others(60)])
    suite = outcome.suites[0]
    assert suite.head_to_head is not None
    assert suite.head_to_head.main.trials == 3 * 64
    assert (suite.verdict, outcome.decision) == (verdict, decision)


def graded(number, candidate, *, low=0.0, main=(0.8, 0.85, 0.9)):
    """Cases with scores near 0.85 on main; every trial passes its check."""
    history = History(
        checks={"helpful": Count(passed=12, trials=12)},
        whole=Count(passed=12, trials=12),
        scores={"helpful": (0.8, 0.85, 0.9) * 4},
        sessions=("a",),
    )
    cases = [
        GateCase(prompt="p", case=f"c{i}", checks=("helpful",), history=history)
        for i in range(number)
    ]
    gate = Gate(cases, GatePolicy(min_effect=low))
    while wanted := gate.wanted():
        for one in wanted:
            for trial in one.trials:
                score = candidate if one.arm == "candidate" else main[trial % 3]
                facts = TrialFacts(checks={"helpful": True}, scores={"helpful": score})
                gate.observe("p", one.case, one.arm, trial, facts)
    return gate.outcome()


def test_lower_scores_block_although_every_check_still_passes():
    outcome = graded(30, 0.75)
    suite = outcome.suites[0]
    assert (suite.verdict, outcome.decision) == ("regressed", "reject")
    assert [(r.kind, r.check) for r in outcome.reasons] == [("scores", "helpful")]
    assert suite.rounds[0].scores["helpful"] <= suite.rounds[0].score_bound
    # The error rate of the prompt is shared by the cases and the one check with scores.
    assert suite.rounds[0].bound == suite.rounds[0].score_bound == pytest.approx(0.0025)
    assert suite.control is not None
    assert suite.control.check == "helpful"


@pytest.mark.parametrize(("score", "low"), [(0.85, 0.0), (0.75, 0.1)])
def test_scores_as_before_or_lower_by_less_than_matters_pass(score, low):
    outcome = graded(30, score, low=low)
    assert (outcome.suites[0].verdict, outcome.decision) == ("pass", "accept")


@pytest.mark.parametrize(
    ("candidate", "verdict", "decision"), [(0.7, "drifted", "accept"), (0.6, "regressed", "reject")]
)
def test_scores_that_fell_on_main_too_are_compared_side_by_side(candidate, verdict, decision):
    """Main is at 0.7 today; in the first round one trial of each does not tell 0.6 from it."""
    outcome = graded(4, candidate, main=(0.7, 0.72, 0.68))
    suite = outcome.suites[0]
    assert (suite.verdict, outcome.decision) == (verdict, decision)
    assert suite.head_to_head is not None
    assert suite.head_to_head.check == "helpful"
