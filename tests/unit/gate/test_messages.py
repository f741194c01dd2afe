"""What the gate says, in plain counts."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from regauge.evidence import ControlReport, NetReport, PairsReport, RoundReport
from regauge.gate import (
    BaseTrials,
    CaseReport,
    CheckReport,
    Count,
    GateCase,
    GateOutcome,
    GatePolicy,
    MessageContext,
    SuiteReport,
    case_message,
    control_note,
    critical_note,
    reason_message,
)
from regauge.gate._messages import suite_message
from regauge.gate._types import Reason, with_more_trials

CONTEXT = MessageContext(checks=100)


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
        status=verdict,  # type: ignore[arg-type]  # a word of the table below
        before=before,
        today=today,
        candidate=candidate,
    )
    values: dict[str, Any] = {
        "prompt": "refund-policy",
        "case": "late-return",
        "tier": "required",
        "state": "changed",
        "status": verdict,
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


def bettered(verdict: str, new: Count, before: Count, today: Count) -> CaseReport:
    """A case whose check was tested for being fixed."""
    found = decided(verdict, new, before, today)
    return replace(
        found, checks=tuple(replace(check, direction="better") for check in found.checks)
    )


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
            report("undecided", count(0, 1), count(12, 12), unrecorded_trials=5, recorded=1),
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
            "no baseline; passed 3 of 3 (bar: 3 of 3).",
        ),
        (
            report("new", count(2, 3), state="new", bar=count(3, 3), blocks=True),
            (
                "no baseline; passed 2 of 3 (bar: 3 of 3). It misses its bar: field_equals failed 1"
                " of 3. To report it without blocking: `tier: tracked`."
            ),
        ),
        (
            decided(
                "broken", count(0, 6), count(12, 12), count(5, 5), broke_before=2, repeat_count=1
            ),
            (
                "failed 6 of 6 new trials; base passed 12 of 12 before. Side by side today: the"
                " candidate 0 of 5, base 5 of 5. It broke in 2 versions before as well, and was"
                " accepted: it is edit-sensitive; consider the tier `tracked`. The same completion"
                " was returned 1 time and counts once: a cache, or a fixed seed."
            ),
        ),
        (
            bettered("drifted", count(24, 24), count(0, 12), count(23, 23)),
            (
                "passed 24 of 24; base also passes today, 23 of 23 (0 of 12 before). The prompt did"
                " not fix it."
            ),
        ),
        (
            report("known-failing", count(0, 1), count(1, 12), count(0, 2)),
            "base fails 13 of 14 trials; unchanged.",
        ),
        (
            report("fixed", count(5, 6), count(0, 12), count(1, 5)),
            "passes 5 of 6; base passed 1 of 17.",
        ),
        (report("passed", count(3, 3), count(11, 12)), "passed 3 of 3; base passed 11 of 12."),
        (report("passed"), "not run."),
        (report("new", count(1, 1), state="new", tier="tracked"), "no baseline; passed 1 of 1."),
        (
            report("new", count(0, 3), state="new", bar=count(3, 3), blocks=True, checks=()),
            (
                "no baseline; passed 0 of 3 (bar: 3 of 3). It misses its bar. To report it without"
                " blocking: `tier: tracked`."
            ),
        ),
        (
            report("unmeasured", unrecorded_trials=1),
            "none of its trials is recorded; it needs 1 live trial.",
        ),
        (
            report("unmeasured", unrecorded_trials=3),
            "none of its trials is recorded; it needs 3 live trials.",
        ),
        (
            report("unmeasured", count(1, 2), unrecorded_trials=3, unmeasured_trials=2),
            "2 of 4 trials have no verdict (HTTP 429).",
        ),
        (report("unmeasured", count(1, 1)), "its only trial has no verdict (HTTP 429)."),
        (report("unmeasured", count(2, 3)), "some of 3 trials have no verdict (HTTP 429)."),
        (report("unmeasured"), "some of its trials have no verdict (HTTP 429)."),
        (
            report("mixed", count(0, 4), count(11, 12), count(3, 4)),
            "failed 4 of 4 trials; base fails 2 of 16. Not blocking.",
        ),
        (
            report("mixed", count(4, 6), count(12, 12)),
            "failed 2 of 6 trials; base passed 12 of 12. Not blocking.",
        ),
        (
            report("flaky", count(2, 2), count(9, 12)),
            "passed 2 of 2; base fails 3 of 12. Not blocking.",
        ),
        (
            report("undecided", count(0, 0), count(12, 12), unrecorded_trials=1),
            "needs 1 live trial; none is recorded.",
        ),
        (
            report("undecided", count(0, 2), count(12, 12), unrecorded_trials=5, recorded=2),
            "needs 5 live trials; only 2 are recorded.",
        ),
        (
            report("undecided", count(0, 1), count(12, 12), count(3, 3), repeat_count=5),
            (
                "passed 0 of 1; base passed 15 of 15. The same completion was returned 5 times and"
                " counts once: a cache, or a fixed seed."
            ),
        ),
        (
            report("undecided", count(1, 3), count(12, 12), repeat_count=5),
            (
                "passed 1 of 3; base passed 12 of 12 before. Probably worse, not certain among 100"
                " checks. Add trials (--more-trials 8), or mark the case critical."
            ),
        ),
        (
            decided("undecided", count(0, 8), count(12, 12), count(4, 8)),
            (
                "passed 0 of 8; base passed 12 of 12 before, 4 of 8 today. Probably worse, not"
                " certain among 100 checks. Add trials (--more-trials 8), or mark the case critical."
            ),
        ),
        (report("removed", accepted="a duplicate"), "removed, as listed in the changelog."),
        (report("unmeasured", unmeasured_trials=1), "its only trial has no verdict (HTTP 429)."),
        (report("unchanged"), "the request is the same to the byte; not run."),
        (
            report("removed", blocks=True),
            (
                "base has this case and it is gone. Put it back, or give a reason in the changelog of"
                " the prompt: `removed: [{case: late-return, reason: ...}]`."
            ),
        ),
    ],
    ids=lambda value: value.status if isinstance(value, CaseReport) else "",
)
def test_a_case_is_told_in_counts(found: CaseReport, words: str):
    context = MessageContext(checks=100, unmeasured="HTTP 429")
    assert case_message(found, context) == f"refund-policy/late-return: {words}"


def test_without_a_cause_a_missing_verdict_is_told_alone():
    found = report("unmeasured", count(1, 2), unmeasured_trials=2)
    assert case_message(found, CONTEXT).endswith(": 2 of 4 trials have no verdict.")


def test_between_two_models_the_candidate_is_the_other_model():
    found = decided("broken", count(0, 6), count(12, 12), count(5, 5))
    said = case_message(found, MessageContext(checks=9, across_models=True))
    assert said.endswith("Side by side today: the other model 0 of 5, base 5 of 5.")


def test_the_check_with_the_most_evidence_speaks_for_a_case():
    """Also where another one of the same verdict comes first."""
    found = decided("broken", count(0, 6), count(12, 12), count(5, 5))
    (check,) = found.checks
    weaker = replace(check, check="json_parses", candidate=count(3, 6), e_value=30.0)
    several = replace(found, checks=(weaker, replace(check, e_value=900.0)))
    assert "failed field_equals in 6 of 6 new trials" in case_message(several, CONTEXT)


def test_a_suspect_of_a_replay_is_left_to_the_audit():
    found = report("undecided", count(0, 1), count(12, 12), unrecorded_trials=2, recorded=1)
    assert case_message(found, MessageContext(checks=9, provisional=True)) == (
        "refund-policy/late-return: failed 1 of 1 recorded trials; base passed 12 of 12. Left to the"
        " audit: a run with a key tests it side by side."
    )


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"base_unavailable": True}, "failed 1 of 1 new trials; base passed 12 of 12 before. Base"),
        ({"is_recorded": True}, "failed 1 of 1 outputs; base passed 12 of 12. There are no more"),
    ],
)
def test_trials_that_no_run_can_make_are_not_asked_for(context: dict[str, bool], words: str):
    found = report("undecided", count(0, 1), count(12, 12), unrecorded_trials=2, recorded=1)
    message = case_message(found, MessageContext(checks=9, **context))
    assert message.startswith(f"refund-policy/late-return: {words}")


def test_base_that_was_drawn_beside_the_candidate_is_not_called_history():
    found = report("broken", count(0, 6), count(3, 3), count(3, 3))
    said = case_message(found, MessageContext(checks=20, has_baseline=False))
    assert "failed 6 of 6 new trials; base passed 3 of 3 in this run." in said


def test_a_case_with_several_checks_names_the_one_that_broke():
    broken = report("broken", count(0, 6), count(12, 12))
    fine = CheckReport(
        check="json_parses",
        status="passed",
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
        trials=1, total_trials=100, fails=11, expected=7.5, p_value=p_value, bound=0.01, **more
    )


def look(p_value: float, check: str = "") -> PairsReport:
    return PairsReport(
        base=count(190, 200), candidate=count(170, 200), p_values={check: p_value}, bound=0.012
    )


ASKED: dict[str, Any] = {
    "prompt": "p",
    "cases": 100,
    "rounds": (a_round(5.69e-4),),
    "suspects": ("",),
    "stable_failed": 3,
}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"status": "worse", "pairs": (look(0.0012),)},
            (
                "11 of 100 trials failed; the baseline predicts 7.5, and 3 failed in cases that"
                " base never failed (p = 0.00057), confirmed side by side"
                " (p = 0.0012): the candidate passed 170 of 200 trials, base 190 of 200."
            ),
        ),
        (
            {"status": "unconfirmed", "pairs": (look(0.31),), "stable_failed": 0},
            (
                "11 of 100 trials failed; the baseline predicts 7.5"
                " (p = 0.00057), not confirmed side by side (p = 0.31): the candidate passed 170 of"
                " 200 trials, base 190 of 200."
            ),
        ),
        (
            {
                "status": "worse",
                "rounds": (a_round(0.4, scores={"grace": 1e-4, "tone": 0.5}),),
                "suspects": ("grace",),
                "pairs": (look(1e-9, "grace"),),
                "stable_failed": 0,
            },
            (
                "11 of 100 trials failed; the baseline predicts 7.5; scores of grace are"
                " lower (p = 0.0001), confirmed side by side (p < 0.000001):"
                " the candidate passed 170 of 200 trials, base 190 of 200."
            ),
        ),
        (
            {"status": "undecided", "unrecorded_trials": 400, "stable_failed": 0},
            (
                "11 of 100 trials failed; the baseline predicts 7.5"
                " (p = 0.00057), not yet tested side by side: that needs 400 live trials."
            ),
        ),
        (
            {"status": "undecided", "unrecorded_trials": 1, "suspects": ()},
            "needs 1 live trial to judge the prompt as a whole.",
        ),
        (
            {
                "status": "worse",
                "rounds": (a_round(0.03, scores={"tone": 0.004, "grace": 0.002}),),
                "suspects": ("tone", "grace"),
                "pairs": (look(0.5), look(0.009, "tone")),
                "stable_failed": 0,
            },
            (
                "11 of 100 trials failed; the baseline predicts 7.5; scores of tone, grace are"
                " lower (p = 0.002), confirmed side by side (p = 0.009): the candidate passed 170 of"
                " 200 trials, base 190 of 200."
            ),
        ),
        (
            # The last round and the last look speak, and what asked for pairs decides.
            {
                "status": "unconfirmed",
                "rounds": (a_round(0.05), a_round(0.012, scores={"tone": 0.9})),
                "pairs": (look(0.2), look(0.3)),
                "stable_failed": 1,
            },
            (
                "11 of 100 trials failed; the baseline predicts 7.5, and 1 failed in cases that"
                " base never failed (p = 0.012), not confirmed side by side (p = 0.3): the candidate"
                " passed 170 of 200 trials, base 190 of 200."
            ),
        ),
        ({"status": "unmeasured", "pairs": (look(0.2),)}, "trials of it have no verdict."),
        ({"status": "untested", "cases": 1}, "1 case compared."),
        (
            {"status": "passed", "suspects": ()},
            "100 cases compared; no loss against the baseline.",
        ),
    ],
)
def test_a_prompt_as_a_whole_is_told_in_counts(more: dict[str, Any], words: str):
    """Never with a cause that was not measured."""
    assert suite_message(SuiteReport(**{**ASKED, **more})) == f"p: {words}"


SIDES = "the candidate passed {} of 200 where base passed 160 of 200 today"


@pytest.mark.parametrize(
    ("verdict", "worse", "better", "passed", "words"),
    [
        ("worse", 1e-4, 0.999, 140, f"worse on the whole side by side (p = 0.0001); {SIDES}."),
        ("passed", 0.9, 0.01, 190, f"better on the whole side by side (p = 0.01); {SIDES}."),
        ("passed", 0.5, 0.5, 160, f"not worse on the whole side by side; {SIDES}."),
        # Better is only what passed more trials.
        ("passed", 0.4, 0.6, 161, f"better on the whole side by side (p = 0.6); {SIDES}."),
        ("passed", 0.9, 0.016, 160, f"not worse on the whole side by side; {SIDES}."),
        ("unmeasured", 0.5, 0.5, 160, "trials that weigh them have no verdict."),
        (
            "undecided",
            0.1,
            0.9,
            155,
            (
                f"-2.5 points side by side (p = 0.1), which is neither worse nor as good; {SIDES}."
                " Add trials (--more-trials 8)."
            ),
        ),
        (
            "undecided",
            0.6,
            0.4,
            163,
            (
                f"+1.5 points side by side (p = 0.6), which is neither worse nor as good; {SIDES}."
                " Add trials (--more-trials 8)."
            ),
        ),
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
    earlier = replace(weighed, candidate=count(0, 200), p_worse=0.7, p_better=0.7, bound=0.9)
    found = SuiteReport(
        prompt="p", status=verdict, cases=100, broken=5, fixed=2, net=(earlier, weighed)
    )
    assert suite_message(found) == f"p: 5 broken, 2 fixed: {words.format(passed)}"


def test_weighing_from_a_short_recording_says_what_it_takes():
    weighed = NetReport(
        base=count(1, 2), candidate=count(1, 2), p_worse=0.5, p_better=0.5, bound=0.1
    )
    found = SuiteReport(
        prompt="p",
        status="undecided",
        cases=9,
        broken=1,
        fixed=3,
        net=(weighed,),
        unrecorded_trials=1,
    )
    assert suite_message(found) == "p: 1 broken, 3 fixed: to weigh them takes 1 live trial."


def outcome_of(
    *cases: CaseReport, suites: tuple[SuiteReport, ...] = (), **more: Any
) -> GateOutcome:
    return GateOutcome(
        decision="accept",
        cases=cases,
        suites=suites,
        reasons=(),
        policy=GatePolicy(**more),
        checks=1,
        base_trials=0,
        finished=True,
    )


def lamp(prompt: str, p_baseline: float) -> SuiteReport:
    control = ControlReport(base=count(5, 8), p_baseline=p_baseline, bound=0.05)
    return SuiteReport(prompt=prompt, status="passed", cases=9, control=control)


def test_prompts_whose_base_is_below_its_record_today_are_named():
    """At the bound, too; one without a lamp, or with one that is off, is not."""
    dark = SuiteReport(prompt="q", status="passed", cases=9)
    found = outcome_of(suites=(lamp("p", 0.05), dark, lamp("r", 0.06), lamp("s", 0.0123)))
    assert control_note(found) == (
        "base is below its record today: p (passed 5 of 8, p = 0.05), s (passed 5 of 8, p = 0.012)"
    )
    assert control_note(outcome_of(suites=(dark, lamp("r", 0.06)))) == ""


def critical(**more: Any) -> CaseReport:
    return replace(report("passed", count(3, 3), count(20, 20), tier="critical"), **more)


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([report("passed", count(3, 3), count(2, 2))], ""),
        ([critical(candidate=NOTHING)], ""),
        ([critical()], "1 critical case"),
        (
            [critical(failure_bound=0.15), critical(failure_bound=0.3, before=count(10, 10))],
            (
                "2 critical cases; cases that base never failed may still fail up to 30 % of"
                " trials; 1 without 20 of 20 on base, which a critical case"
                " should have"
            ),
        ),
        (
            [critical(before=count(19, 19)), critical(before=count(39, 40))],
            ("2 critical cases; 2 without 20 of 20 on base, which a critical case should have"),
        ),
    ],
)
def test_what_the_record_proves_of_critical_cases_is_told(cases: list[CaseReport], words: str):
    assert critical_note(outcome_of(*cases)) == words


def test_a_reason_is_told_in_the_words_of_its_prompt_or_its_limit():
    gone = replace(report("broken", count(0, 3)), accepted="label retired")
    found = outcome_of(
        gone, report("passed"), suites=(lamp("q", 0.5), lamp("p", 0.5)), accepted_max=0
    )

    def message_of(**of: Any) -> str:
        reason = Reason(leads_to="reject", **of)
        return reason_message(reason, found)

    assert message_of(kind="accepted-max", prompt="p") == (
        "1 of 2 cases accepted by the author's word; accepted_max = 0"
    )
    assert (
        message_of(kind="suite", prompt="p") == "p: 9 cases compared; no loss against the baseline."
    )
    assert message_of(kind="suite", prompt="unknown") == "unknown: suite"


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (1e-6, "p = 0.000001"),
        (9.9e-7, "p < 0.000001"),
        (5.5e-5, "p = 0.000055"),
        (2e-5, "p = 0.00002"),
        (0.0312, "p = 0.031"),
        (1.0, "p = 1"),
    ],
)
def test_a_p_value_is_never_written_with_an_exponent(p_value: float, words: str):
    found = SuiteReport(**{**ASKED, "status": "worse", "pairs": (look(p_value),)})
    assert f"confirmed side by side ({words}):" in suite_message(found)


@pytest.mark.parametrize(
    ("expected", "words"), [(7.0, "predicts 7,"), (0.04, "predicts 0,"), (10.0, "predicts 10,")]
)
def test_predicted_failures_have_one_decimal_at_most(expected: float, words: str):
    rounds = (replace(a_round(0.001), expected=expected),)
    found = SuiteReport(**{**ASKED, "status": "undecided", "rounds": rounds})
    assert words in suite_message(found)


counts = st.integers(0, 12).flatmap(
    lambda trials: st.integers(0, trials).map(lambda passed: count(passed, trials))
)
baselines = st.builds(
    BaseTrials,
    checks=st.dictionaries(st.sampled_from(["a", "b"]), counts),
    total=counts,
    scores=st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.floats(0, 1)).map(tuple)),
    sessions=st.lists(st.text(max_size=5)).map(tuple),
    distinct_outputs=st.integers(0, 12),
)


@given(baseline=st.none() | baselines, case=st.text(), accepted=st.text())
def test_a_case_comes_back_from_its_record_as_it_was(
    baseline: BaseTrials | None, case: str, accepted: str
):
    one = GateCase(prompt="p", case=case, checks=("a", "b"), baseline=baseline, accepted=accepted)
    cases = TypeAdapter(GateCase)
    assert cases.dump_python(one, mode="json") == json.loads(json.dumps(asdict(one)))
    assert cases.validate_json(cases.dump_json(one)) == one


def test_a_policy_comes_back_from_its_record_as_it_was():
    policy = with_more_trials(GatePolicy(on_broken="warn", first_trials=2), 24)
    assert policy.more_trials == 24
    policies = TypeAdapter(GatePolicy)
    assert policies.validate_json(policies.dump_json(policy)) == policy
