"""Filling a baseline: what each session draws, what is kept, what is compared."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from regauge.errors import UsageError
from regauge.gate import (
    TopUp,
    TopUpPolicy,
    accepted_since,
    add_session,
    changes_between,
    merge_baselines,
    top_up,
)
from regauge.gate._trials import (
    BASELINE_FIRST,
    CANDIDATE_FIRST,
    CONTROL_FIRST,
    EVALS_FIRST,
    REVISION_FIRST,
    stored_number,
)
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import Baseline, BaselineKey, StoredBaseline
from regauge.prompts import parse_prompt

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
KEY = BaselineKey(prompt="a" * 64, model="sim:clerk-1", dataset="greet", judges={"tone": "b" * 64})
CASES = {"ann": "1" * 64, "bob": "2" * 64}
POLICY = TopUpPolicy(complete_trials=12, per_session=4, apart_h=1.0)


def facts(*, passed: bool = True, answer: str = "0") -> TrialFacts:
    return TrialFacts(checks={"tone": passed}, output_digest=answer * 64)


def ask(
    baseline: Baseline,
    *,
    key: BaselineKey = KEY,
    cases: dict[str, str] | None = None,
    now: datetime = NOW,
    policy: TopUpPolicy = POLICY,
) -> TopUp:
    return top_up(baseline, key, version="1.0.0", cases=cases or CASES, now=now, policy=policy)


def draw(
    asked: TopUp,
    *,
    now: datetime = NOW,
    failing: frozenset[str] = frozenset(),
    served: tuple[str, ...] = ("clerk-1 v1",),
) -> StoredBaseline:
    landed = {
        case: {number: facts(passed=case not in failing) for number in asked.numbers(case)}
        for case in asked.trials_by_case
    }
    return add_session(asked, landed, now=now, models=served)


def filled(
    key: BaselineKey = KEY, *, failing: frozenset[str] = frozenset(), sessions: int = 3
) -> StoredBaseline:
    baseline = Baseline(prompt="greet")
    stored_baseline = StoredBaseline(key=key)
    for day in range(sessions):
        now = NOW + timedelta(days=day)
        stored_baseline = draw(ask(baseline, key=key, now=now), now=now, failing=failing)
        baseline = Baseline(prompt="greet", baselines=(stored_baseline,))
    return stored_baseline


def test_the_first_session_draws_four_trials_of_each_case_from_number_100():
    asked = ask(Baseline(prompt="greet"))
    assert asked.trials_by_case == {"ann": 4, "bob": 4}
    assert list(asked.numbers("ann")) == [100, 101, 102, 103]


def test_the_next_session_waits_an_hour_unless_it_is_forced():
    baseline = Baseline(prompt="greet", baselines=(filled(sessions=1),))
    soon = ask(baseline, now=NOW + timedelta(minutes=15))
    assert (soon.trials_by_case, soon.waits_h, soon.complete) == ({}, 0.75, False)
    forced = replace(POLICY, any_time=True)
    assert ask(baseline, now=NOW, policy=forced).trials_by_case == {"ann": 4, "bob": 4}
    assert list(ask(baseline, now=NOW + timedelta(hours=1)).numbers("bob")) == [104, 105, 106, 107]


def test_twelve_trials_of_three_sessions_are_complete():
    baseline = filled()
    asked = ask(Baseline(prompt="greet", baselines=(baseline,)), now=NOW + timedelta(days=9))
    assert asked.complete
    assert {len(case.numbers) for case in baseline.cases.values()} == {12}
    assert [session.id for session in baseline.sessions] == [
        "2026-11-21T09:00:00Z",
        "2026-11-22T09:00:00Z",
        "2026-11-23T09:00:00Z",
    ]


def test_twelve_trials_of_one_session_are_one_look_and_not_complete():
    policy = replace(POLICY, per_session=12)
    baseline = draw(ask(Baseline(prompt="greet"), policy=policy))
    later = ask(
        Baseline(prompt="greet", baselines=(baseline,)), now=NOW + timedelta(days=1), policy=policy
    )
    assert later.trials_by_case == {"ann": 1, "bob": 1}


def test_a_case_that_changed_or_is_new_starts_anew_and_one_that_is_gone_is_forgotten():
    baseline = Baseline(prompt="greet", baselines=(filled(),))
    cases = {"ann": "9" * 64, "cy": "3" * 64}
    asked = ask(baseline, cases=cases, now=NOW + timedelta(days=9))
    assert asked.trials_by_case == {"ann": 4, "cy": 4}
    assert list(asked.numbers("ann")) == [112, 113, 114, 115]
    stored_baseline = draw(asked, now=NOW + timedelta(days=9))
    assert {case: known.numbers for case, known in stored_baseline.cases.items()} == {
        "ann": (112, 113, 114, 115),
        "cy": (112, 113, 114, 115),
    }


def test_trials_that_could_not_be_measured_are_drawn_again_and_count_nowhere():
    asked = ask(Baseline(prompt="greet"))
    baseline = add_session(
        asked, {"ann": {100: facts(), 102: facts(passed=False)}}, now=NOW, models={"clerk-1"}
    )
    assert baseline.cases["ann"].numbers == (100, 102)
    assert "bob" not in baseline.cases
    again = ask(Baseline(prompt="greet", baselines=(baseline,)), now=NOW + timedelta(days=1))
    assert (again.trials_by_case, again.first) == ({"ann": 4, "bob": 4}, 103)


def test_a_session_without_a_measured_trial_is_none():
    asked = ask(Baseline(prompt="greet"))
    assert add_session(asked, {"ann": {}}, now=NOW, models=()) == asked.baseline


def test_a_model_that_nobody_saw_before_under_the_same_name_starts_a_new_history():
    baseline = Baseline(prompt="greet", baselines=(filled(sessions=2),))
    day = NOW + timedelta(days=5)
    other = draw(ask(baseline, now=day), now=day, served=("clerk-1 v2",))
    assert [len(case.numbers) for case in other.cases.values()] == [4, 4]
    assert len(other.sessions) == 1
    mixed = draw(ask(baseline, now=day), now=day, served=("clerk-1 v1", "clerk-1 v2"))
    assert [len(case.numbers) for case in mixed.cases.values()] == [12, 12]


def test_used_up_numbers_are_an_error():
    baseline = filled(sessions=1)
    (session,) = baseline.sessions
    full = replace(baseline, sessions=(replace(session, last=CONTROL_FIRST - 2),))
    with pytest.raises(UsageError, match="trial numbers 100 to 999 of dataset 'greet' are used up"):
        ask(Baseline(prompt="greet", baselines=(full,)), now=NOW + timedelta(days=9))


NEW = replace(KEY, prompt="c" * 64)


def test_the_version_before_is_kept_until_the_new_one_is_complete():
    old = filled()
    baseline = Baseline(prompt="greet", baselines=(old,))
    new = draw(ask(baseline, key=NEW))
    merge = merge_baselines(baseline, [(new, False)])
    assert (merge.baselines, merge.previous) == ((new,), (old,))
    done = filled(NEW)
    assert merge_baselines(merge, [(done, True)]) == Baseline(prompt="greet", baselines=(done,))


def test_histories_of_other_models_stay_as_long_as_the_prompt():
    old, elsewhere = filled(), filled(replace(KEY, model="openai:gpt-5-mini"))
    baseline = Baseline(prompt="greet", baselines=(old, elsewhere))
    assert merge_baselines(baseline, [(old, True)]).baselines == (old, elsewhere)
    assert merge_baselines(baseline, [(filled(NEW), True)]).baselines == (filled(NEW),)


def test_baselines_of_evals_that_were_not_collected_stay():
    other, older = (filled(replace(key, dataset="second")) for key in (KEY, NEW))
    baseline = Baseline(prompt="greet", baselines=(filled(), other), previous=(older,))
    merge = merge_baselines(baseline, [(filled(NEW), True)], is_partial=True)
    assert (merge.baselines, merge.previous) == ((filled(NEW), other), (older,))
    judged = filled(replace(KEY, judges={"length": "d" * 64}))
    siblings = Baseline(prompt="greet", baselines=(filled(), judged))
    merge = merge_baselines(siblings, [(filled(NEW), True)], is_partial=True)
    assert merge.baselines == (filled(NEW), judged)
    all_evals = merge_baselines(baseline, [(filled(NEW), True)])
    assert (all_evals.baselines, all_evals.previous) == ((filled(NEW),), ())


def test_a_run_that_measured_nothing_changes_nothing():
    baseline = Baseline(prompt="greet", baselines=(filled(),))
    assert merge_baselines(baseline, [(StoredBaseline(key=NEW), False)]) == baseline


def test_a_changed_judge_starts_a_new_history_and_is_not_compared():
    key = replace(KEY, judges={"tone": "d" * 64})
    baseline = Baseline(prompt="greet", baselines=(filled(),))
    assert ask(baseline, key=key).trials_by_case == {"ann": 4, "bob": 4}
    assert baseline.find_previous(key) is None
    assert merge_baselines(baseline, [(draw(ask(baseline, key=key)), False)]).previous == ()


def test_a_version_that_broke_a_case_is_found_after_the_merge_with_its_counts():
    before, now = filled(), filled(NEW, failing=frozenset({"bob"}))
    (change,) = changes_between(before, now)
    assert str(change) == snapshot(
        "bob: tone worse: passed 0 of 12; 12 of 12 with the version before"
    )
    assert change.e_value > change.bound == pytest.approx(40)
    (repaired,) = changes_between(now, before)
    assert (repaired.case, repaired.direction) == ("bob", "better")


def test_cases_that_may_change_or_cannot_be_compared_are_not_reported():
    before, now = filled(), filled(NEW, failing=frozenset({"bob"}))
    assert changes_between(before, now, accepted={"bob"}) == ()
    other = replace(now, cases={"bob": replace(now.cases["bob"], digest="9" * 16)})
    assert changes_between(before, other) == ()
    assert changes_between(before, before) == ()


def test_what_the_changelog_accepts_counts_from_the_version_that_says_so():
    prompt = parse_prompt(
        "version: 1.2.0\nchangelog:\n"
        "  - {version: 1.2.0, text: x, accepted: {case: bob, reason: He moved.}}\n"
        "  - {version: 1.1.0, text: x, accepted: [{case: ann, reason: She left.}]}\n"
        "messages:\n  - {role: user, content: Hi}\n",
        path=Path("p.prompt.yml"),
    )
    assert accepted_since(prompt, "1.1.0") == {"bob"}
    assert accepted_since(prompt, "1.0.0") == {"ann", "bob"}
    assert accepted_since(prompt, "") == {"ann", "bob"}


@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0, 5), st.booleans()), max_size=30))
def test_however_sessions_fall_no_number_is_drawn_twice_and_the_end_is_complete(
    sessions: list[tuple[int, float, bool]],
):
    baseline, now = Baseline(prompt="greet"), NOW
    drawn: set[int] = set()
    for per_session, pause_h, lost in [*sessions, *[(4, 2.0, False)] * 16]:
        now += timedelta(hours=pause_h)
        asked = ask(baseline, now=now, policy=replace(POLICY, per_session=per_session))
        landed = {
            case: {number: facts() for number in asked.numbers(case) if not (lost and number % 2)}
            for case in asked.trials_by_case
        }
        fresh = {number for trials in landed.values() for number in trials}
        assert not fresh & drawn
        drawn |= fresh
        stored_baseline = add_session(asked, landed, now=now, models={"clerk-1"})
        baseline = merge_baselines(baseline, [(stored_baseline, False)])
    (stored_baseline,) = baseline.baselines
    assert ask(baseline, now=now + timedelta(days=1)).complete
    for case in stored_baseline.cases.values():
        assert len(case.numbers) >= 12
        assert len(stored_baseline.sessions_of(case)) >= 3


def test_every_purpose_has_numbers_of_its_own():
    firsts = [EVALS_FIRST, BASELINE_FIRST, CONTROL_FIRST, REVISION_FIRST, CANDIDATE_FIRST]
    assert firsts == sorted(set(firsts))
    assert stored_number("candidate", 0) == CANDIDATE_FIRST
    most = REVISION_FIRST - CONTROL_FIRST
    assert CONTROL_FIRST <= stored_number("base", 0) < stored_number("base", most) <= REVISION_FIRST


def test_critical_cases_need_twenty_trials():
    baseline = Baseline(prompt="greet", baselines=(filled(),))
    asked = top_up(
        baseline,
        KEY,
        version="1.0.0",
        cases=CASES,
        now=NOW + timedelta(days=9),
        policy=POLICY,
        critical={"ann"},
    )
    assert asked.trials_by_case == {"ann": 4}
