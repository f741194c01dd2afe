"""What the gate says of a whole suite when no single case is clearly broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from regauge.evidence import NetReport, PairsReport, RoundReport, SuiteReport
from regauge.gate import BaseTrials, Count, Gate, GateCase, GatePolicy, TrialFacts
from regauge.gate._engine import _case_reasons, _suite_reasons
from regauge.gate._types import CaseReport, with_more_trials
from tests.unit.gate.engine.drive import (
    ONE,
    Tally,
    cases_called,
    others,
    run,
    scripted,
    with_policy,
)


def failing(number, script="0111", *, base="1", prompt="triage", **more):
    """Cases whose trials go as the script says, again and again."""
    return [
        scripted(script * 20, base=base * 20, name=f"f-{i}", prompt=prompt, **more)
        for i in range(number)
    ]


def once(number, **more):
    """Cases that fail their first trial and pass from then on."""
    return [scripted("01", name=f"once-{i}", **more) for i in range(number)]


def test_failures_spread_over_stable_cases_block_although_no_case_is_named():
    """The record asks, and both sides side by side answer."""
    outcome = run([*failing(12, "001", tier="tracked"), *others(88)])
    suite = outcome.suites[0]
    assert (suite.status, outcome.decision) == ("worse", "reject")
    assert [(r.kind, r.leads_to) for r in outcome.reasons] == [("suite", "reject")]
    assert suite.rounds[0].p_value == pytest.approx(13.0**-12)
    assert (suite.cases, suite.rounds[0].fails, suite.rounds[0].expected) == (100, 12, 0)
    assert (suite.suspects, suite.stable_failed) == (("",), 12)
    (look,) = suite.pairs
    assert (str(look.base), str(look.candidate)) == ("200 of 200", "188 of 200")
    assert look.p_values[""] == pytest.approx(2.0**-12)
    assert look.bound == pytest.approx(0.012)


def test_the_day_test_is_exact():
    """One round of 2 pairs of 140 cases; the candidate fails once in 8 of them: 2 to the -8."""
    outcome = run([*failing(8, "001", tier="tracked"), *others(132)])
    assert outcome.suites[0].pairs[0].p_values[""] == pytest.approx(2.0**-8, rel=1e-6)


def test_the_counts_of_the_published_message_are_those_of_the_gate():
    """11 of 100 failed where 7.5 are predicted: 1 in 1,756."""
    outcome = run(
        [
            *once(3),
            *others(82),
            *[scripted("01", was="9/12", name=f"wavers-{i}") for i in range(3)],
            *[scripted("1", was="9/12", name=f"wavered-{i}") for i in range(7)],
            *[scripted("0", was="0/12", name=f"never-{i}", base="0") for i in range(5)],
        ]
    )
    suite = outcome.suites[0]
    first = suite.rounds[0]
    assert (first.fails, first.expected, suite.stable_failed) == (11, 7.5, 3)
    assert 1 / first.p_value == pytest.approx(1756, abs=1)
    assert (suite.status, outcome.decision) == ("unconfirmed", "accept")


@pytest.mark.parametrize("base", ["01", "1"])
def test_what_the_record_asks_and_no_pair_confirms_is_accepted(base):
    """A provider that has moved, or bad luck: side by side both sides are alike."""
    outcome = run([*once(12, tier="tracked", base=base), *others(88)])
    suite = outcome.suites[0]
    assert (suite.status, outcome.decision) == ("unconfirmed", "accept")
    assert [(r.kind, r.leads_to) for r in outcome.reasons] == [("suite", "accept")]
    assert suite.side_by_side


def test_both_sides_fallen_alike_are_not_blamed_on_the_prompt():
    script = "011"
    outcome = run([*failing(12, script, base=script, tier="tracked"), *others(88)])
    assert outcome.suites[0].pairs[-1].p_values[""] > 0.2
    assert outcome.decision == "accept"


@pytest.mark.parametrize(
    ("base", "verdict", "decision"),
    [("!", "unmeasured", "unmeasured"), ("-", "undecided", "undecided")],
)
def test_without_trials_of_base_a_suite_is_not_blamed(base, verdict, decision):
    cases = [*failing(12, tier="tracked", base=base), *others(88)]
    outcome = run(cases)
    assert (outcome.suites[0].status, outcome.decision) == (verdict, decision)
    provisional = run(cases, with_policy(provisional=True))
    assert provisional.decision == decision


def test_a_doubtful_round_asks_for_another_trial_of_every_case():
    tally = Tally()
    outcome = run([*once(1, tier="tracked", was="20/20"), *others(30)], order=tally)
    suite = outcome.suites[0]
    assert [r.trials for r in suite.rounds] == [1, 2]
    assert suite.rounds[0].p_value == pytest.approx(1 / 21)
    assert (suite.status, tally.candidate) == ("passed", 2 * 31)


def test_the_error_rate_is_shared_out_to_prompts():
    summary = [*failing(2, prompt="summary", tier="tracked"), *others(20, prompt="summary")]
    one = run([*failing(12, tier="tracked"), *others(20)])
    two = run([*failing(12, tier="tracked"), *others(20), *summary])
    assert one.suites[0].pairs[0].bound == pytest.approx(0.012)
    assert [s.rounds[0].bound for s in two.suites] == pytest.approx([0.005, 0.005])
    assert two.suites[0].pairs[0].bound == pytest.approx(0.006)


def test_a_broken_case_spares_the_suite_its_further_rounds():
    outcome = run([scripted("0"), *once(2), *others(60)])
    suite = outcome.suites[0]
    assert outcome.decision == "reject"
    assert (suite.status, len(suite.rounds), suite.pairs) == ("untested", 1, ())


def test_cases_that_were_not_measured_leave_the_rest_of_the_suite_to_be_judged():
    outcome = run([*failing(12, "001", tier="tracked"), scripted("!", name="lost"), *others(95)])
    assert outcome.decision == "reject"
    assert outcome.suites[0].status == "worse"
    assert {r.kind for r in outcome.reasons} == {"suite", "unmeasured"}


def test_without_any_history_base_of_the_same_run_is_the_record():
    broken = failing(20, "0", was=None, tier="tracked")
    outcome = run([*broken, *others(80, was=None)])
    assert (outcome.suites[0].status, outcome.decision) == ("worse", "reject")
    assert outcome.suites[0].control is None


def test_a_broken_case_that_the_policy_lets_pass_still_weighs_on_its_suite():
    cases = [*failing(12, "0"), *others(88)]
    outcome = run(cases, with_policy(on_broken="warn"))
    assert (outcome.suites[0].status, outcome.decision) == ("worse", "reject")
    assert len(cases_called("broken", outcome)) == 12


@pytest.mark.parametrize(("edited", "decision"), [(False, "accept"), (True, "reject")])
def test_a_fix_of_a_case_that_the_change_edits_outweighs_no_broken_case(edited, decision):
    broken = [scripted("0", name=f"broken-{n}") for n in range(3)]
    fixed = [scripted("1", base="0", was=None, name=f"fixed-{n}", edited=edited) for n in range(8)]
    outcome = run([*broken, *fixed, *others(4)])
    assert outcome.decision == decision
    assert (outcome.suites[0].broken, outcome.suites[0].fixed) == (3, 8)


@pytest.mark.parametrize(("tier", "decision"), [("required", "accept"), ("tracked", "reject")])
def test_a_fix_of_a_tracked_case_outweighs_no_broken_case(tier, decision):
    broken = [scripted("0", name=f"broken-{n}") for n in range(3)]
    fixed = [scripted("1", base="0", was="0/12", name=f"fixed-{n}", tier=tier) for n in range(8)]
    assert run([*broken, *fixed, *others(4)]).decision == decision


@pytest.mark.parametrize(("fixes", "decision"), [(8, "accept"), (1, "undecided")])
def test_edited_cases_are_left_out_where_others_are_weighed(fixes, decision):
    broken = [scripted("0", name=f"broken-{n}", edited=True) for n in range(2)]
    fixed = [scripted("1", base="0", was="0/12", name=f"fixed-{n}") for n in range(fixes)]
    edited = [scripted("1", base="0", was=None, name=f"e-{n}", edited=True) for n in range(8)]
    outcome = run([*broken, *fixed, *edited, *others(4)])
    assert outcome.decision == decision, outcome.suites


def test_a_cached_completion_counts_once_side_by_side_too():
    """Each side sticks to one completion: without the guard the pairs would look certain."""
    kept = BaseTrials(
        checks={"right": Count(passed=9, trials=12)},
        total=Count(passed=9, trials=12),
        distinct_outputs=12,
    )
    names = [f"c{i}" for i in range(60)]
    gate = Gate(
        [
            GateCase(prompt="p", case=name, checks=("right",), baseline=kept, tier="tracked")
            for name in names
        ],
        ONE,
    )
    while wanted := gate.pending_trials():
        for one in wanted:
            for number in one.trials:
                passed = int(one.case[1:]) % (2 if one.side == "candidate" else 3) > 0
                facts = TrialFacts(checks={"right": passed}, output_digest=one.side)
                gate.observe("p", one.case, one.side, number, facts)
    (suite,) = gate.outcome().suites
    assert suite.status == "unconfirmed"
    assert {look.base.trials for look in suite.pairs} == {60}


def test_base_below_its_record_in_the_first_round_is_shown_and_decides_nothing():
    outcome = run([scripted("1", base="0", name=f"c{i}") for i in range(40)], GatePolicy())
    (suite,) = outcome.suites
    assert suite.control is not None
    assert suite.control.below
    assert str(suite.control.base) == "0 of 8"
    assert outcome.decision == "accept"


def test_a_run_that_continues_looks_further_where_something_points_to_a_loss():
    cases = [scripted("001", name=f"f-{i}", tier="tracked") for i in range(3)] + others(97)
    outcome = run(cases)
    assert (outcome.decision, len(outcome.suites[0].pairs)) == ("accept", 3)
    more = run(cases, with_more_trials(ONE, 24)).suites[0]
    assert [look.bound for look in more.pairs][3:] == pytest.approx([0.007, 0.0035, 0.00175])


def graded(number, candidate, *, low=0.0, base=(0.8, 0.85, 0.9)):
    """Cases with scores near 0.85 on main; every trial passes its check."""
    baseline = BaseTrials(
        checks={"helpful": Count(passed=12, trials=12)},
        total=Count(passed=12, trials=12),
        scores={"helpful": (0.8, 0.85, 0.9) * 4},
        sessions=("a",),
    )
    cases = [
        GateCase(prompt="p", case=f"c{i}", checks=("helpful",), baseline=baseline)
        for i in range(number)
    ]
    gate = Gate(cases, replace(ONE, min_effect=low))
    while wanted := gate.pending_trials():
        for one in wanted:
            for trial in one.trials:
                score = candidate if one.side == "candidate" else base[trial % 3]
                facts = TrialFacts(checks={"helpful": True}, scores={"helpful": score})
                gate.observe("p", one.case, one.side, trial, facts)
    return gate.outcome()


def test_lower_scores_block_although_every_check_still_passes():
    outcome = graded(30, 0.75)
    suite = outcome.suites[0]
    assert (suite.status, outcome.decision) == ("worse", "reject")
    assert [(r.kind, r.check) for r in outcome.reasons] == [("scores", "helpful")]
    assert suite.suspects == ("helpful",)
    # The error rate of the prompt is shared by the cases and the one check with scores.
    assert suite.pairs[0].p_values["helpful"] <= suite.pairs[0].bound == pytest.approx(0.006)


@pytest.mark.parametrize(("score", "low"), [(0.85, 0.0), (0.75, 0.1)])
def test_scores_as_before_or_lower_by_less_than_matters_pass(score, low):
    outcome = graded(30, score, low=low)
    assert (outcome.suites[0].status, outcome.decision) == ("passed", "accept")


@pytest.mark.parametrize(
    ("candidate", "verdict", "decision"),
    [(0.7, "unconfirmed", "accept"), (0.6, "worse", "reject")],
)
def test_scores_that_fell_on_base_too_are_compared_side_by_side(candidate, verdict, decision):
    """Main is at 0.7 today, and 0.85 before."""
    outcome = graded(8, candidate, base=(0.7, 0.72, 0.68))
    suite = outcome.suites[0]
    assert (suite.status, outcome.decision) == (verdict, decision)


NONE = Count(passed=0, trials=0)
NET = NetReport(base=NONE, candidate=NONE, p_worse=1.0, p_better=1.0, bound=0.05)


def pairs(**p_values: float) -> PairsReport:
    return PairsReport(base=NONE, candidate=NONE, p_values=p_values, bound=0.05)


def look(p_value: float, **scores: float) -> RoundReport:
    return RoundReport(
        trials=2, total_trials=8, fails=3, expected=1.0, p_value=p_value, bound=0.01, scores=scores
    )


@pytest.mark.parametrize(
    ("parts", "reasons"),
    [
        ({"status": "passed"}, []),
        ({"status": "untested"}, []),
        ({"status": "unmeasured"}, ["unmeasured unmeasured"]),
        ({"status": "unconfirmed"}, ["suite accept"]),
        ({"status": "worse", "pairs": (pairs(tone=0.5), pairs(**{"": 0.01, "tone": 0.2}))}, ["suite reject"]),
        ({"status": "worse", "pairs": (pairs(**{"": 0.2, "tone": 0.01}),)}, ["scores reject tone"]),
        ({"status": "undecided"}, ["not-recorded undecided"]),
        ({"status": "undecided", "provisional": True}, ["not-recorded accept"]),
        ({"status": "undecided", "provisional": True, "rounds": (look(0.02),)}, ["not-recorded accept"]),
        ({"status": "undecided", "provisional": True, "rounds": (look(0.01),)}, ["not-recorded undecided"]),
        ({"status": "undecided", "provisional": True, "rounds": (look(0.0), look(0.02))}, ["not-recorded accept"]),
        ({"status": "undecided", "provisional": True, "rounds": (look(0.2, tone=0.01),)}, ["not-recorded undecided"]),
        ({"status": "passed", "net": (NET,)}, ["net accept"]),
        ({"status": "worse", "net": (NET,)}, ["net reject"]),
        ({"status": "undecided", "net": (NET,)}, ["net undecided"]),
        ({"status": "unmeasured", "net": (NET,)}, ["net unmeasured"]),
        ({"status": "undecided", "net": (NET,), "unrecorded_trials": 1}, ["not-recorded undecided"]),
        ({"status": "passed", "unrecorded_trials": 1}, []),
    ],
)  # fmt: skip
def test_the_status_of_a_prompt_leads_to_a_reason(parts: dict[str, Any], reasons: list[str]):
    parts = {**parts}
    policy = GatePolicy(provisional=parts.pop("provisional", False))
    suite = SuiteReport(prompt="p", cases=4, **parts)
    texts = [f"{r.kind} {r.leads_to} {r.check}".strip() for r in _suite_reasons(suite, policy)]
    assert texts == reasons


@pytest.mark.parametrize(
    ("parts", "options", "reasons"),
    [
        ({"status": "passed"}, {}, []),
        ({"status": "passed", "accepted": "Late."}, {}, ["accepted accept"]),
        ({"status": "unchanged", "state": "unchanged", "accepted": "Late."}, {}, []),
        ({"status": "broken"}, {}, ["broken reject"]),
        ({"status": "broken", "net": "passed"}, {}, ["broken accept"]),
        ({"status": "broken", "net": "worse"}, {}, ["broken reject"]),
        ({"status": "broken", "net": "undecided"}, {}, ["broken undecided"]),
        ({"status": "broken", "net": "passed"}, {"on_broken": "block"}, ["broken reject"]),
        ({"status": "broken"}, {"on_broken": "warn"}, ["broken accept"]),
        ({"status": "broken", "accepted": "Late."}, {}, ["accepted accept"]),
        ({"status": "broken", "tier": "critical"}, {"on_broken": "warn"}, ["critical reject"]),
        ({"status": "broken", "tier": "critical", "accepted": "Late."}, {}, ["accepted accept", "critical reject"]),
        ({"status": "removed", "state": "removed", "blocks": True}, {}, ["removed reject"]),
        ({"status": "removed", "state": "removed"}, {}, []),
        ({"status": "new", "bar": 2, "failed": 2}, {}, []),
        ({"status": "new", "failed": 3}, {}, []),
        ({"status": "new", "bar": 2, "failed": 3}, {}, ["new accept"]),
        ({"status": "new", "bar": 2, "failed": 3, "blocks": True}, {}, ["new reject"]),
        ({"status": "new", "bar": 2, "failed": 3, "tier": "critical", "blocks": True}, {}, ["critical reject"]),
        ({"status": "unmeasured"}, {}, ["unmeasured unmeasured"]),
        ({"status": "unmeasured", "unmeasured_trials": 1}, {}, ["unmeasured unmeasured"]),
        ({"status": "unmeasured", "unrecorded_trials": 1}, {}, ["not-recorded unmeasured"]),
        ({"status": "undecided", "unmeasured_trials": 1}, {}, ["unmeasured undecided"]),
        ({"status": "undecided", "unrecorded_trials": 1}, {}, ["not-recorded undecided"]),
        ({"status": "undecided", "unrecorded_trials": 1}, {"provisional": True}, ["not-recorded accept"]),
        ({"status": "undecided"}, {}, ["undecided undecided"]),
        ({"status": "undecided"}, {"on_undecided": "warn"}, ["undecided accept"]),
        ({"status": "undecided", "net": "passed"}, {}, ["undecided accept"]),
        ({"status": "undecided", "net": "worse"}, {}, ["undecided accept"]),
        ({"status": "undecided", "net": "undecided"}, {}, ["undecided undecided"]),
        ({"status": "drifted"}, {}, ["drifted accept"]),
        ({"status": "drifted"}, {"on_drifted": "block"}, ["drifted undecided"]),
    ],
)  # fmt: skip
def test_the_status_of_a_case_leads_to_a_reason(
    parts: dict[str, Any], options: dict[str, Any], reasons: list[str]
):
    parts = {**parts}
    net, bar, failed = parts.pop("net", ""), parts.pop("bar", None), parts.pop("failed", 0)
    case = CaseReport(
        **{"prompt": "p", "case": "c", "tier": "required", "state": "changed", "blocks": False} | parts,
        candidate=Count(passed=0, trials=failed),
        before=NONE,
        today=NONE,
        checks=(),
        bar=None if bar is None else Count(passed=0, trials=bar),
    )  # fmt: skip
    suites = {"p": SuiteReport(prompt="p", cases=1, status=net, net=(NET,))} if net else {}
    policy = GatePolicy(**options)
    texts = [f"{r.kind} {r.leads_to}" for r in _case_reasons(case, policy, suites)]
    assert texts == reasons
