"""What holds of the gate whatever is drawn, and that its simulation is the same gate."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.gate import Gate, GateCase, TrialFacts
from regauge.gate._cases import CheckTest, OpenCheckCounts
from regauge.gate._types import with_more_trials
from regauge.gate.power import simulate
from regauge.stats import CasePolicy
from tests.unit.gate.engine.drive import (
    ONE,
    Scripted,
    Tally,
    answer_all,
    baseline,
    run,
    scripted,
    with_policy,
)

SCRIPTS_OF_BITS = st.text(alphabet="01", min_size=1, max_size=12)
SCRIPTS = st.text(alphabet="110.!-", min_size=1, max_size=12)
HISTORIES = st.sampled_from([None, "12/12", "11/12", "9/12", "3/12", "0/12", "3/3", "20/20"])


@st.composite
def cases(draw: st.DrawFn) -> list[Scripted]:
    """A few cases of one or two prompts, of every tier and state."""
    return [
        scripted(
            draw(SCRIPTS),
            base=draw(SCRIPTS),
            was=draw(HISTORIES),
            name=f"c{number}",
            prompt=draw(st.sampled_from(["triage", "summary"])),
            tier=draw(st.sampled_from(["required", "required", "critical", "tracked"])),
            state=draw(st.sampled_from(["changed", "changed", "changed", "new", "unchanged"])),
            accepted=draw(st.sampled_from(["", "", "", "wanted"])),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


POLICIES = st.builds(
    with_policy,
    first_trials=st.integers(1, 3),
    on_broken=st.sampled_from(["block", "net", "warn"]),
    provisional=st.booleans(),
    on_undecided=st.sampled_from(["block", "warn"]),
    on_drifted=st.sampled_from(["block", "warn"]),
    on_new=st.sampled_from(["block", "warn"]),
)


@settings(max_examples=150, deadline=None)
@given(cases(), POLICIES, st.integers(0, 1000))
def test_every_run_ends_within_its_caps_whatever_order_its_trials_land_in(
    given_cases, policy, seed
):
    """`answer_all` fails if a trial is wanted twice."""
    tally = Tally()
    in_order = run(given_cases, policy, order=tally)
    shuffled = run(
        given_cases, policy, order=lambda trials: random.Random(seed).sample(trials, len(trials))
    )
    assert in_order == shuffled
    assert in_order.finished
    first = policy.first_trials
    most = policy.case.cap + first * (1 + policy.suite.rounds + sum(policy.suite.pairs))
    assert tally.candidate <= most * len(given_cases)
    assert in_order.base_trials <= (most + policy.first_baseline) * len(given_cases)


@settings(max_examples=150, deadline=None)
@given(cases(), POLICIES)
def test_nothing_is_accepted_while_a_case_is_unmeasured(given_cases, policy):
    outcome = run(given_cases, policy)
    verdicts = {case.status for case in outcome.cases}
    if "unmeasured" in verdicts or {s.status for s in outcome.suites} & {"unmeasured"}:
        assert outcome.decision in {"unmeasured", "reject"}
    assert outcome.decision == (outcome.reasons[0].leads_to if outcome.reasons else "accept")


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet="01", min_size=24, max_size=24),
    st.sets(st.integers(0, 23), max_size=8),
    st.sampled_from(["12/12", "20/20", "11/12", "9/12", "6/12"]),
)
def test_a_failure_more_never_saves_a_case(script, worse_at, was):
    """As long as main is as before; a failing main would point at the model instead."""

    def decision(answers):
        return run([scripted(answers, was=was)], with_policy(on_undecided="warn")).decision

    worse = "".join("0" if i in worse_at else bit for i, bit in enumerate(script))
    if decision(script) == "reject":
        assert decision(worse) == "reject"


class Kept:
    """Trials that are all known beforehand, for the simulation."""

    def __init__(self, candidate, base):
        self._bits = {"candidate": candidate, "base": base}
        self._asked = {side: np.zeros(bits.shape[:2], int) for side, bits in self._bits.items()}

    def draw(self, side, trials, where, count):
        del trials
        start = self._asked[side][where]
        counts = np.broadcast_to(count, start.shape)
        self._asked[side][where] += counts
        passes = np.zeros(start.shape, int)
        for place in np.ndindex(start.shape):
            row, case = where[0][place], where[1][place]
            passes[place] = self._bits[side][row, case, start[place] :][: counts[place]].sum()
        return passes


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 2), st.integers(0, 16))
def test_the_simulation_of_error_rates_is_the_same_gate(seed, first_trials, prompts, more):
    """Trial by trial and all at once, from the same passes and failures."""
    rng = np.random.default_rng(seed)
    n, policy = 26, with_more_trials(replace(ONE, first_trials=first_trials), more)
    p = rng.choice([0.999, 0.9, 0.6, 0.02], size=(1, n), p=[0.7, 0.1, 0.1, 0.1])
    q = np.where(rng.random(p.shape) < rng.choice([0.0, 0.1]), rng.random(p.shape), p)
    today = q if rng.random() < 0.2 else p
    s = rng.binomial(12, p)
    candidate = rng.random((1, n, 200)) < q[..., np.newaxis]
    base = rng.random((1, n, 200)) < today[..., np.newaxis]
    columns = [np.arange(start, n, prompts) for start in range(prompts)]
    played = simulate(policy, (s, np.full_like(s, 12)), Kept(candidate, base), prompts=columns)
    gate = Gate(
        [
            GateCase(
                prompt=f"p{i % prompts}",
                case=str(i),
                checks=("right",),
                baseline=baseline(f"{s[0, i]}/12"),
            )
            for i in range(n)
        ],
        policy,
    )
    trials = 0
    while wanted := gate.pending_trials():
        for one in wanted:
            trials += len(one.trials)
            passes = (candidate if one.side == "candidate" else base)[0, int(one.case)]
            for number in one.trials:
                facts = TrialFacts(checks={"right": bool(passes[number])})
                gate.observe(one.prompt, one.case, one.side, number, facts)
    outcome = gate.outcome()
    verdicts = [case.status for case in outcome.cases]
    assert bool(played.blocked[0]) == (outcome.decision == "reject")
    assert bool(played.undecided[0]) == (outcome.decision == "undecided")
    assert played.broken[0] == verdicts.count("broken")
    assert played.fixed[0] == verdicts.count("fixed")
    assert bool(played.worse[0]) == ("worse" in [suite.status for suite in outcome.suites])
    assert bool(played.paired[0]) == any(suite.pairs for suite in outcome.suites)
    assert played.calls[0] == trials


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SCRIPTS_OF_BITS, HISTORIES), min_size=1, max_size=6))
def test_a_prompt_that_changed_nothing_is_accepted(scripts):
    """Both sides give the very same trials: nothing can be told apart side by side."""
    cases = [
        scripted("1" + bits, base=bits, was=was or "12/12", name=f"c{i}")
        for i, (bits, was) in enumerate(scripts)
    ]
    assert run(cases, with_policy(on_undecided="warn")).decision == "accept"


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=7, max_size=7),
)
def test_swapping_passes_and_fails_turns_broken_into_fixed(passed, pairs):
    """The test of one check is the same in both directions."""
    policy = CasePolicy()
    base = np.array([[passed]]), np.array([[12]])
    other = np.array([[12 - passed]]), np.array([[12]])
    one, none = np.array([[1]]), np.array([[0]])
    worse = CheckTest(policy, base, (none, one))
    better = CheckTest(policy, other, (one, one), direction="better", passes_at_most=1.0)
    k, kd, b, r, n = 0, 0, 0, 1, 0
    assert worse.tested.tolist() == better.tested.tolist()
    for number, (new, of_base) in enumerate(pairs):
        k, kd, b, r, n = k + new, kd + new, b + of_base, r + 3, n + 3
        worse.evaluate(number, seen((k, r), (b, n), (kd, n)))
        better.evaluate(number, seen((r - k, r), (n - b, n), (n - kd, n)))
        assert worse.states.tolist() == better.states.tolist()


def seen(*counts):
    return OpenCheckCounts(*((np.array([passed]), np.array([trials])) for passed, trials in counts))


def test_a_later_wave_is_only_wanted_once_the_one_before_is_in():
    cases = [scripted("0", name="a"), scripted("1", name="b")]
    gate = Gate([one.case for one in cases], ONE)
    gate.observe("triage", "a", "candidate", 0, cases[0].facts("candidate", 0))
    assert [(w.case, w.trials) for w in gate.pending_trials()] == [("b", range(1))]
    gate.observe("triage", "b", "candidate", 0, cases[1].facts("candidate", 0))
    assert {(w.case, w.side, w.trials) for w in gate.pending_trials()} == {
        ("a", side, range(number, number + 1))
        for side, number in (("candidate", 1), ("candidate", 2), ("base", 0), ("base", 1))
    }
    gate.observe("triage", "a", "candidate", 2, cases[0].facts("candidate", 2))
    assert len(gate.pending_trials()) == 3
    assert answer_all(gate, {one.case.key: one for one in cases}).finished


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"first_trials": 0}, "first_trials must be at least 1"),
        ({"baseline_trials": 0}, "baseline_trials must be at least 1"),
        ({"min_effect": 1.0}, "min_effect"),
        ({"new_passes": 4}, "new_passes must be 0 to new_trials, not 4 of 3"),
        ({"first_baseline": 0}, "first_baseline must be at least 1"),
    ],
)
def test_a_policy_that_cannot_be_held_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        with_policy(**wrong)
