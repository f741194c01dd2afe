"""The class of a mutant, on prompts whose every instruction has a known effect."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.mutate import make_family, run_family, summary
from regauge.digests import digest_of
from regauge.errors import BudgetError, MissingRecordingError, ProviderError
from regauge.gate import BaseTrials, Count, GatePolicy, TrialFacts
from regauge.mutate import (
    Case,
    Classification,
    ClassificationPolicy,
    JudgedTrial,
    MeasuredClasses,
    choose_operators,
    estimate_calls,
    measure,
    mutants_of,
)
from regauge.prompts import Message, Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LINES = ("Guard alpha.", "Guard beta.", "Decorate gamma.", "Ignore delta.", "Harm epsilon.")
SUBJECTS = ("alpha", "beta", "gamma", "delta", "epsilon")


def prompt(lines: Sequence[str] = LINES) -> Prompt:
    content = "\n".join(f"- {line}" for line in lines)
    messages = (
        Message(role="system", content=content),
        Message(role="user", content="{{text}}"),
    )
    return Prompt(name="p", path=Path("p.prompt.yml"), messages=messages)


class World:
    """Cases of five subjects; deleting a line changes the outputs of its subject's cases.

    Args:
        fails: Replaces trials of mutants by errors, from a number of trials on.
    """

    def __init__(self, *, cases: int = 40, fails: Exception | None = None, after: int = 0) -> None:
        self.subjects = [SUBJECTS[n % 5] for n in range(cases)]
        self.fails, self.after = fails, after
        self.drawn: list[tuple[str, int]] = []

    def cases(self, **more) -> list[Case]:
        found: list[Case] = []
        for number, subject in enumerate(self.subjects):
            passed = 0 if subject == "epsilon" else 12
            count = Count(passed=passed, trials=12)
            answer = self.trial(None, number).facts.output_digest
            baseline = BaseTrials(checks={"right": count}, total=count, distinct_outputs=1)
            known = {"baseline": baseline, "repeats": 12, "output_digest": answer} | more
            found.append(
                Case(key=str(number), text=f"a {subject} case", checks=("right",), **known)
            )
        return found

    def trial(self, mutant: Prompt | None, number: int) -> JudgedTrial:
        text = (mutant or prompt()).messages[0].content
        subject = self.subjects[number]
        missing = subject not in text
        passed = missing if subject == "epsilon" else not (missing and subject in {"alpha", "beta"})
        changed = missing and subject != "delta"
        output = json.dumps({"label": "ok" if passed else "no", "note": f"{number} {changed}"})
        return JudgedTrial(
            facts=TrialFacts(checks={"right": passed}, output_digest=digest_of(output)),
            output=output,
        )

    async def run_trials(
        self, mutant: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        found: list[JudgedTrial | Exception] = []
        for case, number in trials:
            if mutant is not None:
                self.drawn.append((case, number))
                if self.fails is not None and len(self.drawn) > self.after:
                    found.append(self.fails)
                    continue
            found.append(self.trial(mutant, int(case)))
        return found


def measured(
    world: World,
    cases: Sequence[Case] | None = None,
    operators: str | None = None,
    first: Mapping[str, Sequence[str]] | None = None,
):
    base = prompt()
    mutants = mutants_of(base, choose_operators(operators))
    policy = ClassificationPolicy(gate=GatePolicy())
    return asyncio.run(measure(base, mutants, cases or world.cases(), world, policy, first=first))


def classes(found: MeasuredClasses) -> dict[str, str]:
    return {one.mutant.text.split()[-1].strip("."): one.outcome.kind for one in found.results}


def found_of(found: MeasuredClasses, subject: str) -> Classification:
    return next(one.outcome for one in found.results if subject in one.mutant.text)


EXPECTED = {
    "alpha": "killed",
    "beta": "killed",
    "gamma": "survived",
    "delta": "no-effect",
    "epsilon": "harmful",
}


def test_each_class_is_found_with_its_cases_judges_and_evidence():
    found = measured(World())
    assert classes(found) == EXPECTED
    killed = found_of(found, "alpha")
    assert killed.judges == ("right",)
    assert killed.evidence["passed"] == "0 of 4"
    assert killed.evidence["base"] == "12 of 12"
    assert killed.calls <= 6
    survivor = found_of(found, "gamma")
    assert {int(key) % 5 for key in survivor.cases} == {2}
    assert survivor.evidence["outputs"][0]["base"] != survivor.evidence["outputs"][0]["mutant"]
    assert {int(key) % 5 for key in found_of(found, "epsilon").cases} == {4}


def test_without_a_baseline_the_base_is_tried_where_something_changes():
    world = World()
    found = measured(world, world.cases(baseline=None, repeats=0, output_digest=""))
    assert classes(found) == EXPECTED
    assert found.base_calls > 0


def test_cases_that_share_words_come_first_so_that_killed_mutants_are_cheap():
    killed = [
        one.outcome.calls
        for one in measured(World(cases=140)).results
        if one.outcome.kind == "killed"
    ]
    assert max(killed) <= 6


def test_cases_that_killed_a_mutant_before_come_first_without_changing_its_class():
    cases = [replace(case, text="a case") for case in World().cases()]
    before = measured(World(), cases)
    killers = {
        result.mutant.id: result.outcome.cases
        for result in before.results
        if result.outcome.kind == "killed"
    }
    assert len(killers) == 2
    again = measured(World(), cases, first=killers)
    assert classes(again) == classes(before) == EXPECTED
    assert again.calls < before.calls


def test_a_block_without_effect_is_tried_once_for_all_its_instructions():
    world = World()
    whole = measured(world)
    base = prompt(("Guard alpha.", "Ignore zeta.", "Ignore eta."))
    two = base.messages[0].content.replace(
        "- Ignore zeta.\n- Ignore eta.", "Ignore zeta. Ignore eta."
    )
    messages = (Message(role="system", content=two), base.messages[1])
    changed = Prompt(name="p", path=base.path, messages=messages)
    mutants = mutants_of(changed, choose_operators(None))
    found = asyncio.run(
        measure(changed, mutants, world.cases(), _Steady(), ClassificationPolicy(gate=GatePolicy()))
    )
    inferred = [one.outcome for one in found.results if one.outcome.evidence.get("block")]
    assert [one.calls for one in inferred] == [0, 0]
    assert {one.kind for one in inferred} == {"no-effect"}
    assert whole.calls > found.calls


class _Steady(World):
    def trial(self, mutant: Prompt | None, number: int) -> JudgedTrial:
        del mutant
        return super().trial(None, number)


def test_a_tracked_case_kills_nothing():
    world = World()
    cases = [
        replace(case, tier="tracked", blocks=False) if case.key == "0" else case
        for case in world.cases()
        if case.key == "0" or "alpha" not in case.text
    ]
    found = found_of(measured(world, cases), "alpha")
    assert (found.kind, found.cases) == ("survived", ("0",))


def test_two_failures_of_a_critical_case_kill():
    world = World()
    cases = world.cases(tier="critical")
    killed = found_of(measured(world, cases), "alpha")
    assert killed.kind == "killed"
    assert killed.evidence["tier"] == "critical"
    assert killed.evidence["passed"] == "0 of 2"


def test_out_of_budget_is_undecided_and_nothing_more_is_drawn():
    world = World(fails=BudgetError("the budget of 5 calls is reached"), after=5)
    found = measured(world)
    reasons = {one.outcome.reason for one in found.results if one.outcome.kind == "undecided"}
    assert reasons == {"out of budget"}
    assert "no-effect" not in classes(found).values()


@pytest.mark.parametrize(
    "error",
    [
        MissingRecordingError(prompt="p", case="1", trial=0, stale=False),
        ProviderError("it is down", kind="server"),
        ValueError("a judge of a user"),
    ],
)
def test_a_trial_that_could_not_be_made_is_never_a_class(error: Exception):
    found = measured(World(fails=error))
    assert {one.outcome.kind for one in found.results} == {"undecided"}
    assert all(one.outcome.unmeasured for one in found.results)


@pytest.mark.parametrize(
    ("error", "reason", "unmeasured"),
    [
        (BudgetError("the budget of 5 calls is reached"), "out of budget", False),
        (
            MissingRecordingError(prompt="p", case="1", trial=0, stale=False),
            "not recorded",
            True,
        ),
        (ProviderError("it is down", kind="server"), "it is down", True),
        (ValueError("a judge of a user"), "ValueError: a judge of a user", True),
    ],
)
def test_without_trials_of_the_base_a_change_has_no_class(
    error: Exception, reason: str, *, unmeasured: bool
):
    class Baseless(World):
        async def run_trials(self, mutant, trials):
            if mutant is None:
                return [error] * len(trials)
            return await super().run_trials(mutant, trials)

    world = Baseless()
    found = measured(world, world.cases(baseline=None, output_digest="", repeats=0))
    outcomes = [one.outcome for one in found.results]
    assert {outcome.kind for outcome in outcomes} == {"undecided"}
    assert {outcome.reason.partition("\n")[0] for outcome in outcomes} == {reason}
    assert {outcome.unmeasured for outcome in outcomes} == {unmeasured}


def test_the_classes_do_not_depend_on_the_order_in_which_trials_land():
    class Slow(World):
        async def run_trials(self, mutant, trials):
            await asyncio.sleep(0.001 * (len(self.drawn) % 3))
            return await super().run_trials(mutant, trials)

    one, other = measured(World()), measured(Slow())
    assert [a.outcome for a in one.results] == [b.outcome for b in other.results]


def test_an_estimate_is_near_the_truth_where_the_base_varies():
    """Cases without repeated outputs take more calls, in proportion to their share."""
    calls: dict[int, tuple[int, int]] = {}
    for every in (2, 4):
        world = World(cases=100)
        cases = [
            replace(case, repeats=0, output_digest="") if number % every == 0 else case
            for number, case in enumerate(world.cases())
        ]
        mutants = mutants_of(prompt(), choose_operators(None))
        estimated = estimate_calls(prompt(), mutants, cases, {})
        calls[every] = (estimated, measured(world, cases).calls)
    assert all(made / 2.5 <= estimated <= 2.5 * made for estimated, made in calls.values()), calls
    assert calls[2][0] > calls[4][0]


def test_an_estimate_is_near_what_a_measurement_takes():
    world = World(cases=100)
    found = measured(world)
    mutants = [one.mutant for one in found.results]
    known = {one.mutant.id: one.outcome.kind for one in found.results}
    about = estimate_calls(prompt(), mutants, world.cases(), known)
    assert found.calls / 1.5 <= about <= found.calls * 1.5


@pytest.mark.parametrize("mix", ["typical", "flaky"])
def test_families_with_known_truth_are_classed_rightly(mix: str):
    found = summary([run_family(make_family(100, 40, mix), mix)])
    assert found["right"] >= 0.9, found
    assert found["calls_per_killed_median"] <= 10
    assert found["calls_per_case_of_others"] <= 1.5
