"""The benchmark's families whose instructions do not stand one to a line, and modules of others."""

from __future__ import annotations

import random
import types

import pytest

from benchmarks.refine import TASKS, WOVEN, WRITTEN
from benchmarks.refine_tasks._bench import Trial, measured
from benchmarks.refine_tasks._scenarios import SCENARIOS, run_one, trial_of
from benchmarks.refine_tasks._simulated import Proposals
from benchmarks.refine_tasks._statements import lost_statements
from benchmarks.refine_tasks._task import ForeignTask, load_task, with_faults
from benchmarks.refine_tasks.commits import TASK as COMMITS
from benchmarks.refine_tasks.manifests import TASK as MANIFESTS
from regauge.refine.edits import EditError

FAMILIES = pytest.mark.parametrize("task", [MANIFESTS, COMMITS], ids=lambda task: task.name)
FULL = 0.97


@FAMILIES
def test_a_fault_spoils_its_own_instruction_and_no_other(task):
    """Also of those that stand in the same line."""
    healthy = task.said(task.healthy_prompt())
    assert {rate for rate, _ in healthy.values()} == {FULL}
    for kind in task.kinds:
        for name in task.names:
            said = task.said(task.seed_fault(kind, name, random.Random(1)))
            assert [other for other in task.names if said[other][0] != FULL] == [name]


@FAMILIES
def test_a_reflection_model_that_always_repairs_leads_back_to_full_quality(task):
    able = Proposals(p_fix=1.0, p_leak=0.0, p_drop=0.0, p_fluff=0.0)
    spoilt = task.seed_fault("delete", task.names[1], random.Random(1))
    said = {task.proposal(spoilt, {}, task.names[1], able, seed) for seed in range(20)}
    assert any(task.true_quality(one) > task.true_quality(spoilt) + 0.01 for one in said)


@pytest.mark.parametrize(
    ("task", "index"),
    [(MANIFESTS, 11), (COMMITS, 20)],
    ids=["a clause of a paragraph", "an entry of a list"],
)
def test_what_speaks_against_a_check_goes_once_trials_show_it_and_the_rest_of_its_line_stays(
    task, index
):
    with trial_of(task, SCENARIOS["single"], "rules", index) as (trial, label):
        was = trial.prompt
    row, _ = run_one(task, SCENARIOS["single"], "rules", index)
    assert label.startswith("contradict/")
    assert row.repaired
    assert not row.lost
    assert len(row.prompt.splitlines()) - len(was.splitlines()) in {0, 1}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_fault_of_a_written_family_costs_quality_and_can_be_undone(name):
    """Without the loss of a statement, watched or not."""
    task = load_task(f"benchmarks/refine_tasks/{name}.py")
    healthy = task.healthy_prompt()
    held = task.statements(healthy).total()
    assert held >= 2 * len(task.names)
    for kind, rule in task.faults:
        spoilt = task.seed_fault(kind, rule, random.Random(1))
        assert task.said(spoilt)[rule][0] < FULL, (kind, rule)
        assert task.true_quality(spoilt) < task.true_quality(healthy) - 0.01
        able = Proposals(p_fix=1.0, p_leak=0.0, p_drop=0.0, p_fluff=0.0)
        revised = {task.proposal(spoilt, {}, rule, able, seed) for seed in range(12)}
        best = max(revised, key=task.true_quality)
        assert task.true_quality(best) > task.true_quality(healthy) - 0.004, (kind, rule)
        assert not lost_statements(healthy, spoilt, best, task.statements), (kind, rule)


@pytest.mark.parametrize("name", [*TASKS, *WOVEN, *WRITTEN])
def test_as_many_statements_are_unwatched_as_watched_and_each_counts_when_it_is_lost(name):
    task = load_task(name)
    healthy = task.healthy_prompt()
    cases = task.cases(12, 1, "va")
    trial = Trial(prompt=healthy, train=cases, holdout=cases, seed=0, how=Proposals())
    one = measured(task, trial, healthy, 0, 0, 0.0)
    none = measured(task, trial, "", 0, 0, 0.0)
    assert (one.lost, one.lost_unwatched) == (0, 0)
    assert none.lost_unwatched >= len(task.names) - 1
    assert none.lost - none.lost_unwatched >= len(task.names) - 1


def module(**members: object) -> ForeignTask:
    """A family as a stranger may write it."""
    made = types.ModuleType("strange")
    vars(made).update(
        {
            "REQ": [("brief", "Be brief.", (), "Be long.", "", 0.1, "too long")],
            "healthy_prompt": lambda: "Be brief. Use JSON.",
            "seed_fault": _spoilt,
            **members,
        }
    )
    return ForeignTask(made)


def _spoilt(kind: str, name: str, rng: random.Random) -> str:
    del rng
    new = {"delete": "", "contradict": "Be long."}[kind]
    return "Be brief. Use JSON.".replace({"brief": "Be brief.", "json": "Use JSON."}[name], new)


def test_a_list_that_is_about_something_else_names_no_faults():
    assert module(KINDS=["fix", "feat"]).kinds == ("delete", "contradict")
    assert module(KINDS=["contradict", "feat"]).kinds == ("contradict",)


def test_two_faults_of_one_line_are_seeded_together():
    both = with_faults(module(), [("contradict", "brief"), ("delete", "json")], random.Random(1))
    assert both.split() == ["Be", "long."]
    with pytest.raises(EditError, match="two faults change"):
        with_faults(module(), [("contradict", "brief"), ("delete", "brief")], random.Random(1))


def test_a_module_keeps_its_habits_but_for_what_a_scenario_is_about():
    class Clumsy:
        p_fix, p_drop, p_leak = 0.2, 0.7, 0.1

    class Model:
        def __init__(self, habits: Clumsy, _seed: int) -> None:
            self.habits = habits

        def propose(self, _text: str) -> str:
            return f"{self.habits.p_fix} {self.habits.p_drop} {self.habits.p_leak}"

    strange = module(ProposerCfg=Clumsy, FakeReflectionLM=Model)
    leaky = Proposals(p_leak=0.5)
    assert strange.proposal("", {}, "brief", Proposals(), 1) == "0.2 0.7 0.1"
    assert strange.proposal("", {}, "brief", leaky, 1) == "0.2 0.7 0.5"
