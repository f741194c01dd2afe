"""What holds in every run, whatever a world answers and whatever is proposed."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.refine._policy import RefinePolicy, RunLimits
from tests.unit.refine.world import LINES, TRAIN, adding, deleting, replacing, without, world

AGAINST = {"refuted", "overfit", "suite-refused"}
WORDS = ("brief", "JSON", "UTC", "jason", "loud", "tables", "rhymes", "at length")
policies = st.builds(
    RefinePolicy,
    limits=st.builds(
        RunLimits,
        calls=st.integers(60, 260),
        model_calls=st.integers(0, 8),
        cycles=st.integers(1, 4),
        candidates=st.integers(1, 8),
        failed_cycles=st.integers(1, 3),
    ),
)


def wild_world(seed: int, policy: RefinePolicy, *, variance: bool = False):
    """Texts are as good as a die says; proposals are lines from a small store, again and again."""
    rates: dict[tuple[str, str], float] = {}
    dice = random.Random(seed)

    def rate(text, check):
        fixed = random.Random(f"{seed}{text}{check}")
        return rates.setdefault((text, check), fixed.choice([0.1, 0.5, 0.9, 0.97, 1.0]))

    def propose(state, action):
        rules = [line.text for line in state.text.lines if line.text.startswith("- ")]
        made = [adding(f"- Write {dice.choice(WORDS)}.") for _ in range(2)]
        if rules:
            made.append(deleting(dice.choice(rules)))
            made.append(replacing(dice.choice(rules), dice.choice(list(LINES.values()))))
        return made

    return world(
        without("json"),
        policy,
        proposers=("rules", "model"),
        critics=frozenset({"model"}),
        propose=propose,
        fix_flaky=variance,
        passes=lambda text, _, check: dice.random() < rate(text, check),
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), policy=policies, variance=st.booleans())
def test_every_run_ends_within_its_limits_and_settles_nothing_twice(seed, policy, variance):
    here = wild_world(seed, policy, variance=variance)

    state = here.run()

    limits = policy.limits
    assert state.stop is not None
    assert state.spending.calls <= limits.calls
    assert state.spending.model_calls <= limits.model_calls + 1
    assert state.cycle <= limits.cycles
    assert state.tested <= limits.candidates + 1
    settled: set[str] = set()
    for entry in state.memory.attempts:
        # What is taken back was accepted before, and is not tried anew.
        if entry.result not in {"suite-refused", "overfit", "undecided"}:
            assert entry.after not in settled, entry
        if entry.result in AGAINST:
            settled.add(entry.after)
        elif entry.result == "accepted":
            settled.add(entry.before)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), policy=policies, variance=st.booleans())
def test_nothing_is_proposed_that_a_later_stage_refused(seed, policy, variance):
    here = wild_world(seed, policy, variance=variance)

    state = here.run()

    assert state.stop.proposal == bool(state.accepted and "accepted" in here.events)
    refused = {t.after for t in state.memory.attempts if t.result in AGAINST}
    if state.stop.proposal:
        assert state.text.shape not in refused
        assert here.events.index("accepted") > here.events.index("suite-accept")
        assert state.text == state.accepted[-1].text
        drawn_before = {(t, c, n) for t, c, n in here.drawn if n >= here.config.first_trial}
        fresh = {
            (o.text, o.case, o.trial)
            for seen in state.fresh.counted_outcomes.values()
            for o in seen
        }
        assert not drawn_before & fresh
    lost = [
        line
        for line in here.config.base.lines
        if line.text.strip() and line.text not in state.text.full_text
    ]
    assert len(lost) <= len(state.accepted)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6))
def test_the_same_answers_make_the_same_run(seed):
    one, other = (wild_world(seed, RefinePolicy()) for _ in range(2))

    assert one.run() == other.run()
    assert one.events == other.events
    assert one.drawn == other.drawn


def test_train_cases_alone_are_shown_to_proposers():
    shown: list[str] = []
    here = world(
        without("json"),
        propose=lambda s, _: shown.extend(s.mode.cases) or [],
    )

    here.run()

    assert shown
    assert set(shown) <= set(TRAIN)
