"""Every verdict of a case, and what it does to the decision, through the gate's front door."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from regauge.gate import Gate, GateCase, GatePolicy, TrialFacts
from regauge.gate._types import with_more_trials
from regauge.stats import CriticalPolicy
from tests.unit.gate.engine.drive import (
    ONE,
    Scripted,
    Tally,
    baseline,
    cases_called,
    count,
    others,
    run,
    scripted,
    with_policy,
)

# A script of 24 trials of which 16 pass, and evidence stays between cleared and named throughout.
_PROBABLY_WORSE = "001010011111011101111101"


@pytest.mark.parametrize(
    ("script", "verdict", "decision", "candidate", "today"),
    [
        pytest.param({"candidate": "1"}, "passed", "accept", "1/1", "0/0", id="passed"),
        pytest.param({"candidate": "0"}, "broken", "reject", "0/6", "5/5", id="broken"),
        pytest.param(
            {"candidate": "01", "was": "9/12"}, "flaky", "accept", "2/3", "0/0", id="flaky"
        ),
        pytest.param(
            {"candidate": "01"}, "mixed", "accept", "5/6", "5/5", id="one failure of a stable case"
        ),
        pytest.param(
            {"candidate": "0", "base": "0"}, "drifted", "accept", "0/24", "0/23", id="drifted"
        ),
        pytest.param(
            {"candidate": "0", "was": "0/12"},
            "known-failing",
            "accept",
            "0/1",
            "0/0",
            id="known failing",
        ),
        pytest.param(
            {"candidate": "0", "was": "2/12"},
            "known-failing",
            "accept",
            "0/1",
            "0/0",
            id="hardly ever passed",
        ),
        pytest.param(
            {"candidate": "1", "was": "0/12", "base": "0"},
            "fixed",
            "accept",
            "6/6",
            "0/5",
            id="fixed",
        ),
        pytest.param(
            {"candidate": "1", "was": "0/12", "base": "1"},
            "drifted",
            "accept",
            "24/24",
            "23/23",
            id="base passes it today as well",
        ),
        pytest.param(
            {"candidate": "10", "was": "0/12", "base": "0"},
            "mixed",
            "accept",
            "1/6",
            "0/5",
            id="passed once",
        ),
        pytest.param(
            {"candidate": "111", "was": None, "state": "new"},
            "new",
            "accept",
            "3/3",
            "0/0",
            id="new",
        ),
        pytest.param(
            {"candidate": "101", "was": None, "state": "new"},
            "new",
            "reject",
            "2/3",
            "0/0",
            id="new, below its bar",
        ),
        pytest.param(
            {"candidate": "11!", "was": None, "state": "new"},
            "unmeasured",
            "unmeasured",
            "2/2",
            "0/0",
            id="new, not all measured",
        ),
        pytest.param(
            {"candidate": "10!", "was": None, "state": "new"},
            "new",
            "reject",
            "1/2",
            "0/0",
            id="new, below its bar whatever the last trial is",
        ),
        pytest.param({"state": "unchanged"}, "unchanged", "accept", "0/0", "0/0", id="unchanged"),
        pytest.param({"state": "removed"}, "removed", "reject", "0/0", "0/0", id="removed"),
        pytest.param(
            {"state": "removed", "accepted": "a duplicate"},
            "removed",
            "accept",
            "0/0",
            "0/0",
            id="removed, said so",
        ),
        pytest.param({"candidate": "!"}, "unmeasured", "unmeasured", "0/0", "0/0", id="no answer"),
        pytest.param(
            {"candidate": "0!"}, "unmeasured", "unmeasured", "0/1", "2/2", id="no second answer"
        ),
        pytest.param(
            {"candidate": "-"}, "unmeasured", "unmeasured", "0/0", "0/0", id="nothing recorded"
        ),
        pytest.param(
            {"candidate": "0-"}, "undecided", "undecided", "0/1", "2/2", id="too little recorded"
        ),
        pytest.param(
            {"candidate": "0", "base": "!"},
            "unmeasured",
            "unmeasured",
            "0/3",
            "0/0",
            id="main not measured",
        ),
        pytest.param(
            {"candidate": "0", "base": "-"},
            "undecided",
            "undecided",
            "0/3",
            "0/0",
            id="main not recorded",
        ),
        pytest.param(
            {"candidate": "."}, "undecided", "undecided", "0/0", "0/0", id="no opinion any more"
        ),
        pytest.param(
            {"candidate": "1", "tier": "critical"}, "passed", "accept", "3/3", "0/0", id="critical"
        ),
        pytest.param(
            {"candidate": "101", "tier": "critical"},
            "mixed",
            "accept",
            "7/8",
            "0/0",
            id="critical, failed once",
        ),
        pytest.param(
            {"candidate": "10101", "tier": "critical", "was": "2/12"},
            "broken",
            "reject",
            "6/8",
            "0/0",
            id="critical, failed twice as main does",
        ),
        pytest.param(
            {"candidate": "101", "tier": "critical", "strict": True},
            "broken",
            "reject",
            "2/3",
            "0/0",
            id="strict",
        ),
        pytest.param(
            {"candidate": "00!", "tier": "critical"},
            "broken",
            "reject",
            "0/2",
            "0/0",
            id="critical, failed often enough before answers stopped",
        ),
        pytest.param(
            {"candidate": "0", "tier": "critical", "was": None, "state": "new"},
            "new",
            "reject",
            "0/8",
            "0/0",
            id="new and critical",
        ),
        pytest.param(
            {"candidate": "01", "tier": "tracked"}, "mixed", "accept", "0/1", "0/0", id="tracked"
        ),
        pytest.param(
            {"candidate": "0", "tier": "tracked", "was": None, "state": "new"},
            "new",
            "accept",
            "0/1",
            "0/0",
            id="new and tracked",
        ),
        pytest.param(
            {"candidate": "0", "accepted": "the label is gone"},
            "broken",
            "accept",
            "0/6",
            "5/5",
            id="accepted",
        ),
    ],
)
def test_a_case_gets_the_verdict_its_trials_give_it(script, verdict, decision, candidate, today):
    outcome = run([scripted(**script), *others(40)])
    case = outcome.cases[0]
    assert (case.status, outcome.decision) == (verdict, decision)
    assert (case.candidate, case.today) == (count(candidate), count(today))
    assert outcome.finished


def test_a_case_that_is_probably_worse_stays_undecided_at_the_cap():
    """16 of 24 where base passed 35 of 35: e is 251, and 100 checks ask for 2,000."""
    outcome = run([scripted(_PROBABLY_WORSE), *others(99)])
    case = outcome.cases[0]
    assert (case.status, outcome.decision) == ("undecided", "undecided")
    assert (str(case.candidate), str(case.before + case.today)) == ("16 of 24", "35 of 35")
    assert case.decisive is not None
    assert case.decisive.e_value == pytest.approx(251, abs=0.5)
    assert case.decisive.bound == pytest.approx(2000)
    assert (
        run([scripted(_PROBABLY_WORSE), *others(99)], with_policy(on_undecided="warn")).decision
        == "accept"
    )


def test_too_short_a_recording_never_passes_and_says_what_it_needs():
    outcome = run([scripted("0-"), *others(40)], with_policy(on_undecided="warn"))
    case = outcome.cases[0]
    assert outcome.decision == "undecided"
    assert (case.unrecorded_trials, case.recorded) == (2, 1)
    assert {(r.kind, r.leads_to) for r in outcome.reasons} == {("not-recorded", "undecided")}


def test_a_repair_that_cannot_be_confirmed_from_recordings_holds_nothing_up():
    outcome = run([scripted("1-", was="0/12"), *others(40)])
    assert (outcome.cases[0].status, outcome.decision) == ("passed", "accept")


def test_evidence_that_is_enough_rejects_although_an_answer_is_missing():
    """Five failures, and one trial without an answer."""
    outcome = run([scripted("0000!0"), *others(9)])
    case = outcome.cases[0]
    assert (case.status, case.unmeasured_trials, outcome.decision) == ("broken", 1, "reject")


@pytest.mark.parametrize(
    ("script", "policy", "decision"),
    [
        ({"candidate": "0", "base": "0"}, {"on_drifted": "block"}, "undecided"),
        ({"candidate": "0", "was": None, "state": "new"}, {"on_new": "warn"}, "accept"),
        ({"candidate": "0"}, {"on_broken": "warn"}, "accept"),
        ({"candidate": "0"}, {"on_broken": "net"}, "reject"),
        ({"candidate": "0"}, {"on_broken": "block"}, "reject"),
        ({"candidate": "0", "tier": "critical"}, {"on_broken": "warn"}, "reject"),
        (
            {"candidate": "1101", "tier": "critical"},
            {"critical": CriticalPolicy(first=4, extra=0, failures=1)},
            "reject",
        ),
    ],
)
def test_a_policy_says_what_a_verdict_leads_to(script, policy, decision):
    assert run([scripted(**script), *others(40)], with_policy(**policy)).decision == decision


def flipped(broken: int, fixed: int) -> list[Scripted]:
    """Cases that the change broke and fixed, among others that always pass."""
    return [
        *[scripted("0", name=f"broken-{i}", was="12/12") for i in range(broken)],
        *[scripted("1", name=f"fixed-{i}", was="0/12", base="0") for i in range(fixed)],
        *others(80),
    ]


@pytest.mark.parametrize(
    ("broken", "fixed", "decision", "looks"),
    [(1, 0, "reject", 0), (5, 15, "accept", 1), (12, 5, "reject", 1), (5, 5, "accept", 3)],
)
def test_broken_cases_are_weighed_against_fixed_ones(broken, fixed, decision, looks):
    outcome = run(flipped(broken, fixed))
    (suite,) = outcome.suites
    assert (outcome.decision, len(suite.net)) == (decision, looks)
    assert (
        (suite.broken, suite.fixed)
        == (broken, fixed)
        == (
            len(cases_called("broken", outcome)),
            len(cases_called("fixed", outcome)),
        )
    )
    assert suite.difference is not None
    assert suite.difference.low <= (fixed - broken) / len(outcome.cases) <= suite.difference.high
    assert {case.blocks for case in cases_called("broken", outcome)} == {decision == "reject"}
    assert {r.kind for r in outcome.reasons} == {"broken", *(["net"] if looks else [])}


def test_a_net_just_below_zero_is_undecided_and_more_trials_go_on():
    cases = flipped(6, 5)
    outcome = run(cases)
    assert (outcome.decision, len(outcome.suites[0].net)) == ("undecided", 3)
    more = run(cases, with_more_trials(ONE, 16))
    assert len(more.suites[0].net) == 5
    levels = [look.bound for look in more.suites[0].net]
    assert levels == pytest.approx([0.015, 0.012, 0.012, 0.0055, 0.00275])


def test_a_critical_case_is_not_outweighed():
    critical = scripted("0", name="critical", was="20/20", tier="critical")
    assert run([critical, *flipped(0, 15)]).decision == "reject"


def test_what_the_author_accepted_is_listed_and_does_not_weigh_on_the_suite():
    broken = [scripted("0", name=f"gone-{i}", accepted="label retired") for i in range(8)]
    outcome = run([*broken, *others(40)])
    assert outcome.decision == "accept"
    assert [r.kind for r in outcome.reasons] == ["accepted"] * 8
    assert outcome.suites[0].cases == 40


def test_accepting_cases_that_did_not_break_leaves_them_in_the_suite_test():
    outcome = run([*others(40), scripted("1", name="fine", accepted="ok")])
    assert outcome.suites[0].cases == 41


@pytest.mark.parametrize(("limit", "decision"), [(8, "accept"), (7, "reject"), (0, "reject")])
def test_a_change_cannot_accept_more_broken_cases_than_the_limit(limit: int, decision: str):
    broken = [scripted("0", name=f"gone-{i}", accepted="label retired") for i in range(8)]
    outcome = run([*broken, *others(40)], GatePolicy(accepted_max=limit))
    assert outcome.decision == decision
    assert [r.kind for r in outcome.reasons].count("accepted-max") == (limit < 8)


@pytest.mark.parametrize(("candidate", "decision"), [("1", "accept"), ("10", "reject")])
def test_a_new_case_counts_as_accepted_only_where_it_misses_its_bar(candidate: str, decision: str):
    new = scripted(candidate, name="n", was=None, state="new", accepted="label retired")
    outcome = run([new, *others(9)], GatePolicy(accepted_max=0))
    assert outcome.decision == decision
    assert len(outcome.accepted_broken) == (decision == "reject")


def test_without_any_history_base_is_drawn_in_the_same_run():
    tally = Tally()
    outcome = run([scripted("1", was=None), *others(40, was=None)], order=tally)
    assert outcome.decision == "accept"
    assert (tally.candidate, outcome.base_trials) == (41, 3 * 41)
    assert str(outcome.cases[0].before) == "3 of 3"


def test_a_broken_case_is_found_without_any_history():
    outcome = run([scripted("0", was=None), *others(9, was=None)])
    case = outcome.cases[0]
    assert (case.status, outcome.decision) == ("broken", "reject")
    assert case.today.passed == case.today.trials >= 3


@pytest.mark.parametrize("base", ["!", "-"])
def test_without_history_and_without_base_nothing_is_decided(base):
    outcome = run([scripted("1", was=None, base=base), *others(5)])
    assert outcome.cases[0].status in {"unmeasured", "undecided"}
    assert outcome.decision != "accept"


@pytest.mark.parametrize(
    ("candidate", "status", "decision"),
    [("1", "passed", "accept"), ("0", "undecided", "undecided")],
)
def test_a_base_that_cannot_be_called_keeps_no_case_that_passes(candidate, status, decision):
    outcome = run([scripted(candidate, was=None, base="x"), *others(5)])
    assert (outcome.cases[0].status, outcome.decision) == (status, decision)


def test_more_first_trials_find_a_failure_that_one_would_miss():
    assert run([scripted("10"), *others(9)]).decision == "accept"
    outcome = run([scripted("10"), *others(9)], with_policy(first_trials=2))
    assert (outcome.cases[0].status, outcome.decision) == ("broken", "reject")


def test_each_check_of_a_case_is_a_cell_and_the_broken_one_is_named():
    base = baseline("12/12")
    case = GateCase(
        prompt="p",
        case="c",
        checks=("json", "label"),
        baseline=replace(base, checks=dict.fromkeys(("json", "label"), count("12/12"))),
    )
    gate = Gate([case], GatePolicy())
    while wanted := gate.pending_trials():
        for one in wanted:
            for number in one.trials:
                good = one.side == "base"
                facts = TrialFacts(checks={"json": True, "label": good})
                gate.observe("p", "c", one.side, number, facts)
    outcome = gate.outcome()
    report = outcome.cases[0]
    assert (outcome.checks, outcome.decision) == (2, "reject")
    assert [(c.check, c.status) for c in report.checks] == [
        ("json", "passed"),
        ("label", "broken"),
    ]
    assert report.decisive is not None
    assert report.decisive.check == "label"
    assert log(report.decisive.bound or 0) == pytest.approx(GatePolicy().case.log_bound(2))


@pytest.mark.parametrize(
    ("passed", "distinct", "base_repeats", "verdict"),
    [
        pytest.param("3/3", 2, True, "undecided", id="out of a cache, of few"),
        pytest.param("1/1", 1, True, "broken", id="one that cannot vary"),
        pytest.param("12/12", 12, True, "undecided", id="out of a cache, as main's today"),
        pytest.param("12/12", 12, False, "broken", id="a refusal, always in the same words"),
        pytest.param("12/12", 2, True, "broken", id="a label, the same by nature"),
    ],
)
def test_an_answer_out_of_a_cache_is_no_trial_of_its_own(passed, distinct, base_repeats, verdict):
    case = GateCase(
        prompt="p", case="c", checks=("right",), baseline=baseline(passed, distinct=distinct)
    )
    gate = Gate([case], GatePolicy())
    while wanted := gate.pending_trials():
        for one in wanted:
            for number in one.trials:
                text = "same" if one.side == "candidate" or base_repeats else f"{number}"
                facts = TrialFacts(checks={"right": one.side == "base"}, output_digest=text)
                gate.observe("p", "c", one.side, number, facts)
    found = gate.outcome().cases[0]
    assert found.status == verdict
    assert found.repeat_count == (found.candidate.trials - 1 if verdict == "undecided" else 0)


def test_without_history_a_case_that_base_fails_too_is_mixed_and_nothing_drifted():
    outcome = run([scripted("0", base="1110", was=None), *others(5, was=None)])
    assert (outcome.cases[0].status, outcome.decision) == ("mixed", "accept")


def test_a_base_that_passes_less_than_before_does_not_end_the_test():
    """Today 3 trials in 5 pass; the candidate never does, and today's pairs alone show it."""
    outcome = run([scripted("0", base="10110" * 9), *others(20)])
    case = outcome.cases[0]
    assert (case.status, outcome.decision) == ("broken", "reject")
    decisive = case.decisive
    assert decisive is not None
    assert decisive.e_today is not None
    assert decisive.e_today >= 20
    assert decisive.paired.passed == 0
    assert decisive.today.passed < decisive.today.trials


def test_where_base_hardly_passes_today_the_difference_cannot_be_told():
    """One in five today, 12 of 12 before: too little to blame the prompt, or to clear it."""
    outcome = run([scripted("0", base="00010" * 9), *others(139)])
    case = outcome.cases[0]
    assert (case.status, outcome.decision) == ("undecided", "undecided")
    assert (str(case.candidate), str(case.today)) == ("0 of 40", "8 of 39")
    assert run([scripted("0", base="0"), *others(139)]).cases[0].status == "drifted"


def test_flaky_is_what_the_record_of_base_calls_so_and_mixed_the_rest():
    outcome = run([scripted("01", was=was, name=was) for was in ("9/12", "12/12", "11/12")])
    assert [case.status for case in outcome.cases] == ["flaky", "mixed", "mixed"]


def test_small_suites_get_more_first_trials_and_each_prompt_its_own():
    """About 100 trials in the first round; 8 of main look for an outage and decide nothing."""
    cases = [*others(40), *others(8, prompt="summary")]
    tally = Tally()
    outcome = run(cases, GatePolicy(), order=tally)
    assert outcome.first_trials == {"triage": 3, "summary": 13}
    assert (tally.candidate, outcome.base_trials) == (40 * 3 + 8 * 13, 16)
    assert [str(suite.control.base) for suite in outcome.suites if suite.control] == ["8 of 8"] * 2
    assert (outcome.decision, {case.today.trials for case in outcome.cases}) == ("accept", {0})


def test_pairs_of_both_sides_are_wanted_next_to_each_other():
    gate = Gate([scripted().case], ONE)
    gate.observe("triage", "c", "candidate", 0, TrialFacts(checks={"right": False}))
    asked = [(one.side, one.trials.start) for one in gate.pending_trials()]
    assert asked == [("base", 0), ("candidate", 1), ("candidate", 2), ("base", 1)]


def test_a_run_that_continues_draws_only_more():
    """16 of 24 is undecided; 8 more trials that all fail decide."""
    cases = [scripted(_PROBABLY_WORSE + "0" * 16), *others(99)]
    assert run(cases).decision == "undecided"
    outcome = run(cases, with_more_trials(ONE, 16))
    assert (outcome.cases[0].status, outcome.decision) == ("broken", "reject")


@pytest.mark.parametrize(
    ("script", "verdict", "decision"),
    [
        pytest.param({"candidate": "0-"}, "undecided", "accept", id="a suspect runs out"),
        pytest.param({"candidate": "-"}, "unmeasured", "unmeasured", id="nothing recorded"),
        pytest.param({"candidate": "1-"}, "passed", "accept", id="a shorter first round"),
        pytest.param(
            {"candidate": "00!", "tier": "critical"}, "broken", "reject", id="enough to reject"
        ),
        pytest.param({"candidate": "0" * 9, "base": "1" * 9}, "broken", "reject", id="recorded"),
    ],
)
def test_a_provisional_replay_leaves_to_the_audit_what_is_not_recorded(script, verdict, decision):
    policy = with_policy(provisional=True, first_trials=2)
    outcome = run([scripted(**script), *others(40)], policy)
    assert (outcome.cases[0].status, outcome.decision) == (verdict, decision)


def test_a_critical_case_that_never_failed_says_how_much_that_proves():
    case = run([scripted(tier="critical", was="20/20"), *others(5)]).cases[0]
    assert case.failure_bound == pytest.approx(0.15)
    assert run([scripted(tier="critical", was="19/20")]).cases[0].failure_bound is None


def test_a_case_that_base_fails_now_and_then_is_listed_as_flaky():
    outcome = run([scripted(was="9/12"), scripted(name="stable")])
    assert [case.flaky for case in outcome.cases] == [True, False]


def test_a_trial_that_is_not_wanted_is_refused():
    gate = Gate([scripted().case], ONE)
    for case, number in (("c", 1), ("other", 0)):
        with pytest.raises(ValueError, match="not wanted"):
            gate.observe("triage", case, "candidate", number, None)
    gate.observe("triage", "c", "candidate", 0, TrialFacts(checks={"right": True}))
    with pytest.raises(ValueError, match="not wanted"):
        gate.observe("triage", "c", "candidate", 0, None)


def test_two_cases_of_one_name_are_refused():
    with pytest.raises(ValueError, match="same id"):
        Gate([scripted().case, scripted().case], GatePolicy())


def test_before_all_is_drawn_nothing_is_accepted():
    gate = Gate([scripted().case], GatePolicy())
    outcome = gate.outcome()
    assert (outcome.decision, outcome.finished) == ("unmeasured", False)


def test_nothing_to_compare_is_accepted_at_once():
    outcome = run([])
    assert (outcome.decision, outcome.checks, outcome.finished) == ("accept", 0, True)
