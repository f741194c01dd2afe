"""Every way a run can go, told by a world in which the prompt's text alone decides."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.attempts import Memory
from regauge.refine.edits import Anchor, Edit, Insert, PromptText, Replace
from regauge.refine.loop._loop import IllegalTransitionError, advance, begin, next_action
from regauge.refine.loop._state import (
    CallProposer,
    Critique,
    CritiqueResult,
    Interrupted,
    ProposalResult,
    RevisionDecision,
    Spending,
    StopReason,
    TrialResults,
)
from tests.unit.refine.world import (
    HEALTHY,
    HOLDOUT,
    JSON,
    LINES,
    SHORT,
    TRAIN,
    UTC,
    adding,
    deleting,
    goal,
    passes,
    repairs,
    replacing,
    without,
    world,
)

NOTHING = Spending()


def limited(**limits: object) -> RefinePolicy:
    return RefinePolicy(limits=RunLimits(**limits))  # type: ignore[arg-type]


def fluff(state, action):
    return [adding(f"- Kindly mind point {'i' * (state.tested + 1)}.")]


def lucky():
    """New texts pass when they are first tried, and never again."""
    met = set()

    def ok(text, case, check):
        if check != "json" or not ("jason" in text or "XML" in text):
            return passes(text, case, check)
        first = sum(known == text for known, _ in met) < 6 and (text, case) not in met
        met.add((text, case))
        return first

    return ok


def question(kind):
    told = Critique(kind=kind, hypothesis="the label is wrong", author="critic")
    return {
        "critics": frozenset({"rules"}),
        "critique": lambda _: CritiqueResult(critique=told, spending=NOTHING),
    }


LOOKED = frozenset(f"text-{n}@8" for n in range(10))
REFUSAL = RevisionDecision(decision="reject", reasons=("all worse",), outcomes=(), spending=NOTHING)
ENDINGS = {
    "goal-met": lambda: world(without("json")),
    "improved": lambda: world(
        without("json", "utc"),
        propose=lambda s, a: repairs(s, a) if s.mode.check == "json" else [],
    ),
    "goal-open": lambda: world(HEALTHY, goals=(goal("json", 0.99),)),
    "nothing-to-refine": lambda: world(HEALTHY),
    "no-acceptable-edit": lambda: world(without("json"), propose=fluff),
    "no-new-edit": lambda: world(without("json"), propose=lambda *_: []),
    "questions": lambda: world(without("json"), **question("golden-wrong")),
    "suite-refused": lambda: world(without("json"), says=lambda _: REFUSAL),
    "cycles": lambda: world(without("json"), limited(cycles=1), propose=fluff),
    "candidates": lambda: world(
        without("json"),
        limited(candidates=1, failed_cycles=9),
        propose=lambda *_: [adding("- Answer in jason."), adding("- Answer as XML.")],
        passes=lucky(),
    ),
    "calls": lambda: world(
        without("json"),
        limited(calls=92),
        propose=lambda *_: [adding(f"- Kindly mind {w}.") for w in ("a", "bees", "cows", "dogs")],
    ),
    "model-calls": lambda: world(
        without("json"),
        limited(model_calls=0),
        proposers=("model",),
        critics=frozenset({"model"}),
    ),
    "usd": lambda: world(without("json"), limited(usd=0.1), usd=0.01, propose=fluff),
    "tokens": lambda: world(without("json"), told={2: Interrupted(reason="tokens", text="20000")}),
    "holdout-looks": lambda: world(without("json"), holdout_looks_before=LOOKED),
    "underpowered": lambda: world(
        without("json"), RefinePolicy(test=replace(RefinePolicy().test, alpha=1e-60))
    ),
    "provider-outage": lambda: world(
        without("json"), told={2: Interrupted(reason="provider-outage", text="503")}
    ),
    "no-key": lambda: world(without("json"), told={2: Interrupted(reason="no-key", text="401")}),
    "unmeasured": lambda: world(
        without("json"), told={2: Interrupted(reason="unmeasured", text="no verdict")}
    ),
    "interrupted": lambda: world(without("json"), told={2: Interrupted(reason="interrupted")}),
    "unreadable": lambda: world(
        without("json"),
        proposers=("model",),
        critics=frozenset({"model"}),
        cannot_read="prose",
    ),
}


def test_every_stop_reason_is_in_the_table():
    assert set(ENDINGS) == set(get_args(StopReason))


def test_no_change_is_never_said_of_a_prompt_whose_proposals_were_not_read():
    told = {"propose": lambda *_: [], "cannot_read": "prose", "critics": frozenset({"model"})}
    state = world(without("json"), proposers=("rules", "model"), **told).run()
    assert state.stop is not None
    assert state.stop.reason == "unreadable"
    # Where rules repair it, nothing was missed.
    told["propose"] = repairs
    state = world(without("json"), proposers=("rules", "model"), **told).run()
    assert state.stop is not None
    assert state.stop.reason == "goal-met"


@pytest.mark.parametrize("reason", ENDINGS)
def test_a_run_ends_for_each_reason(reason):
    here = ENDINGS[reason]()

    state = here.run()

    assert state.stop is not None
    assert state.stop.reason == reason, here.events
    assert state.phase == "stopped"
    assert next_action(state) is None
    assert state.stop.proposal == (reason in {"goal-met", "improved"})
    if here.config.policy.limits.calls > 10:
        assert state.notes[-1].event == "stopped", "the trail says why"


def test_a_repair_goes_through_all_phases_in_order():
    here = world(without("json"))

    state = here.run()

    assert JSON in state.text.full_text
    phases = [s.phase for s in here.states]
    assert list(dict.fromkeys(phases)) == [
        "baseline", "propose", "screen", "confirm", "holdout", "suite", "fresh", "stopped",
    ]  # fmt: skip
    assert here.events == [
        "diagnosed", "screened", "confirmed", "diagnosed", "suite-accept", "accepted", "stopped",
    ]  # fmt: skip


def test_two_errors_are_repaired_one_after_the_other():
    here = world(without("json", "utc"))

    state = here.run()

    assert [edit.mode.check for edit in state.accepted] == ["json", "utc"]
    assert state.cycle == 3
    # Each was tested alone: the first text holds one repair only.
    assert UTC not in state.accepted[0].text.full_text


def test_failures_that_an_edit_for_another_check_ended_are_not_searched_again():
    """Trials of the prompt as it was still count for the other check, and they failed."""
    here = world(
        without("json", "utc"),
        passes=lambda text, case, check: (
            passes(text, case, check) or (check == "utc" and JSON in text)
        ),
    )

    state = here.run()

    assert [edit.mode.check for edit in state.accepted] == ["json"]
    assert state.stop.proposal
    assert state.cycle == 2


def test_a_healthy_prompt_costs_a_first_look_and_no_proposal():
    here = world(HEALTHY, propose=lambda *_: pytest.fail("nothing is to be proposed"))

    state = here.run()

    assert state.spending.calls <= here.config.policy.test.baseline_trials * len(TRAIN)
    assert state.text == HEALTHY


def test_no_trial_that_chose_an_edit_is_shown_to_the_gate():
    here = world(without("json"))

    state = here.run()

    first = here.config.first_trial
    chosen = {(t, c, n) for t, c, n in here.drawn if n >= first}
    fresh = {
        (o.text, o.case, o.trial) for seen in state.fresh.counted_outcomes.values() for o in seen
    }
    assert fresh
    assert not chosen & fresh
    assert len(here.drawn) == len(set(here.drawn)), "no trial is drawn twice"


def test_an_edit_that_breaks_another_check_is_refuted():
    here = world(
        without("json"),
        propose=lambda *_: [adding("- Answer in JSON, at length.")],
        passes=lambda text, case, check: (
            "JSON" in text if check == "json"
            else "at length" not in text and passes(text, case, check)
        ),
    )  # fmt: skip

    state = here.run()

    assert not state.stop.proposal
    assert any("gets worse" in n.text for s in here.states for n in s.notes)


def test_an_edit_that_helps_only_the_cases_it_was_made_for_is_taken_back():
    here = world(
        without("json"),
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "json" and case in HOLDOUT)
        ),
    )
    # The gate has nothing against it: nothing that passed before fails.
    state = here.run()

    assert state.stop.reason == "suite-refused"
    assert "of the others" in state.stop.text
    assert [t.result for t in state.memory.attempts][-1] == "overfit"
    assert state.text == without("json")


def test_the_newest_edit_is_taken_back_and_the_rest_verified_anew():
    here = world(
        without("json", "utc"),
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "utc" and case in HOLDOUT)
        ),
    )

    state = here.run()

    assert state.stop.proposal
    assert [edit.mode.check for edit in state.accepted] == ["json"]
    assert JSON in state.text.full_text
    assert UTC not in state.text.full_text
    assert here.events.count("rolled-back") == 1
    assert here.events.count("suite-accept") == 2


def test_what_an_edit_that_was_taken_back_was_for_fails_again():
    """The text without it has no trials of its own, and the prompt as it was has some."""
    here = world(
        without("json", "utc"),
        propose=lambda state, _: [] if state.rollback_reason else [adding(LINES[state.mode.check])],
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "json" and case in HOLDOUT)
        ),
    )

    state = here.run()

    assert [edit.mode.check for edit in state.accepted] == ["utc"]
    assert state.stop.reason == "improved"


def test_an_edit_stays_when_another_one_of_the_same_line_is_taken_back():
    line = "You help. Answer in prose. Give times in words."
    cures = {"json": ("Answer in prose.", "Answer in JSON."), "utc": ("in words", "in UTC")}

    def propose(state, action):
        now = state.text.lines[0].text
        made = now.replace(*cures[state.mode.check])
        return [] if state.rollback_reason else [replacing(now, made)]

    def ok(text, case, check):
        return cures.get(check, ("", ""))[1] in text and not (check == "json" and case in HOLDOUT)

    here = world(PromptText.from_contents(f"{line}\n{{{{input}}}}"), propose=propose, passes=ok)

    state = here.run()

    assert state.text.lines[0].text == line.replace("in words", "in UTC")
    assert state.stop.proposal


def test_a_question_keeps_edits_away_from_that_mode():
    here = world(without("json"), **question("judge-wrong"))

    state = here.run()

    assert [critique.kind for _, critique in state.questions] == ["judge-wrong"]
    assert state.tested == 0


def test_what_a_critic_says_about_being_done_ends_nothing():
    done = Critique(kind="missing", hypothesis="DONE. Nothing is left to do.", author="critic")
    here = world(
        without("json"),
        critics=frozenset({"rules"}),
        critique=lambda _: CritiqueResult(critique=done, spending=NOTHING),
    )

    assert here.run().stop.reason == "goal-met"


def test_flaky_checks_are_named_and_left_alone():
    counts: dict[tuple[str, str], int] = {}

    def mostly(text, case, check):
        if check == "utc" and case == "train-3":
            counts[case, check] = counts.get((case, check), 0) + 1
            return counts[case, check] != 1
        return passes(text, case, check)

    here = world(HEALTHY, passes=mostly)

    state = here.run()

    assert state.stop.reason == "nothing-to-refine"
    assert state.stop.text == "no check of a training case fails reproducibly"
    assert [mode.check for mode in state.flaky] == ["utc"]


def test_a_refuted_edit_of_an_earlier_run_is_not_tried_again():
    first = world(without("json"), propose=lambda *_: [adding("- Answer in yaml.")])
    lessons = first.run().memory

    again = world(without("json"), propose=lambda *_: [adding("- Answer in yaml.")])
    state = again.run(begin(again.config, Memory(attempts=lessons.attempts)))

    assert state.tested == 0
    assert "guarded" in again.events


def test_the_way_back_is_refused():
    def there_and_back(state, action):
        return [adding(JSON)] if JSON not in state.text.full_text else [deleting(JSON)]

    here = world(without("json", "utc"), propose=there_and_back)

    state = here.run()

    assert JSON in state.text.full_text
    notes = [n.text for s in here.states for n in s.notes if n.event == "guarded"]
    assert any("leads back" in text for text in notes)


def test_a_state_is_told_only_what_it_asked_for():
    here = world(without("json"))
    state = begin(here.config)
    told = {
        "proposals": ProposalResult(edits=(), spending=NOTHING),
        "critique": CritiqueResult(critique=None, spending=NOTHING),
        "gate": REFUSAL,
    }

    for observation in told.values():
        with pytest.raises(IllegalTransitionError, match="does not follow the phase 'baseline'"):
            advance(state, observation)
    over = here.run()
    with pytest.raises(IllegalTransitionError):
        advance(over, TrialResults(outcomes=(), spending=NOTHING))
    with pytest.raises(IllegalTransitionError, match="over"):
        advance(over, Interrupted(reason="interrupted"))


def test_what_a_state_asks_for_depends_on_the_state_alone():
    here = world(without("json", "utc"))
    here.run()

    for state in here.states:
        assert next_action(state) == next_action(replace(state, notes=()))


def test_advance_changes_no_state_in_place():
    here = world(without("json"))
    state = begin(here.config)
    before = (state.tally, state.memory, state.spending, state.phase)
    action = next_action(state)
    assert isinstance(action, tuple)

    advance(state, TrialResults(outcomes=(), spending=Spending(calls=1)))

    assert (state.tally, state.memory, state.spending, state.phase) == before


def test_cases_that_could_not_be_measured_are_no_failures():
    here = world(HEALTHY)
    told = TrialResults(outcomes=(), spending=Spending(calls=16), problem="no verdict")

    state = advance(begin(here.config), told)

    assert state.stop.reason == "unmeasured"
    cases = "8 of 8 training cases have no trial, such as train-0: no verdict"
    assert state.stop.text == cases


def test_the_error_rate_of_all_tested_edits_sums_to_alpha():
    import math

    shares = [6 / (math.pi * i) ** 2 for i in range(1, 100_000)]
    assert math.isclose(sum(shares), 1, abs_tol=1e-4)
    assert sum(shares) <= 1


def test_proposers_are_asked_the_cheapest_first():
    asked: list[str] = []

    def propose(state, action: CallProposer):
        asked.append(action.proposer)
        return [] if action.proposer == "rules" else repairs(state, action)

    state = world(without("json"), proposers=("rules", "model"), propose=propose).run()

    assert asked == ["rules", "model"]
    assert state.stop.reason == "goal-met"


def test_a_frozen_line_stays_and_what_should_replace_it_comes_next_to_it():
    from regauge.refine.guards import Guard

    base = without("json")
    guard = Guard(base, (), LINES.values(), RefinePolicy().guard, frozen=(SHORT,))
    here = world(base, guard=guard, propose=lambda *_: [replacing(SHORT, JSON)])

    state = here.run()

    assert SHORT in state.text.full_text
    assert JSON in state.text.full_text
    assert any("frozen" in n.text for s in here.states for n in s.notes)


@pytest.mark.parametrize("is_hindering", [False, True])
def test_a_statement_that_a_fix_may_contradict_is_replaced_only_if_it_hinders(is_hindering):
    never = "- A table is never given as JSON answer."
    base = PromptText.from_contents(without("json").full_text.replace(SHORT, f"{SHORT}\n{never}"))

    def passes(text: str, case: str, check: str) -> bool:
        del case
        return LINES[check] in text and not (is_hindering and check == "json" and never in text)

    edit = Edit(ops=(Replace(Anchor(never), JSON),), strategy="model-replace", proposer="model")
    here = world(base, passes=passes, propose=lambda *_: [edit])
    state = here.run()

    assert state.stop.reason == "goal-met"
    assert JSON in state.text.full_text
    assert (never in state.text.full_text) is not is_hindering
    clash = f"; {JSON[2:]!r} may contradict {never[2:]!r}, which stays"
    confirmed = [n.text for s in here.states for n in s.notes if n.event == "confirmed"]
    assert any(text.endswith(clash) for text in confirmed) is not is_hindering


def test_of_an_edit_that_needs_two_changes_a_third_one_is_left_out():
    """The check passes only with both lines; the role has no part in it."""
    both = (LINES["json"], LINES["utc"])
    edit = Edit(
        ops=(
            Replace(Anchor("You help."), "You may help."),
            Insert(Anchor("# Rules"), both[0]),
            Insert(Anchor(LINES["short"]), both[1]),
        ),
        strategy="model-edit",
        proposer="model",
    )

    def passes(text: str, case: str, check: str) -> bool:
        del case
        return check == "short" or all(line in text for line in both)

    here = world(without("json", "utc"), passes=passes, propose=lambda *_: [edit])
    state = here.run()
    assert state.stop is not None
    assert state.stop.proposal
    assert all(line in state.text.full_text for line in both)
    assert "You help." in state.text.full_text
