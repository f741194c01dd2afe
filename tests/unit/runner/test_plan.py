from __future__ import annotations

import json
import subprocess
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import Shard
from regauge.datasets._dataset import shard_of
from regauge.errors import Diagnostic, RecordingError, RenderError
from regauge.project import Project
from regauge.recordings import RecordingKey
from regauge.runner import PlannedCase
from regauge.runner._plan import assign_dataset, plan_cases

if TYPE_CHECKING:
    from pathlib import Path


def test_the_draws_without_an_answer_are_missing_in_the_order_of_the_cases(made: Any):
    suite = made.suite(trials=2)
    cases = [PlannedCase(suite, made.case(number)) for number in range(3)]
    first = plan_cases(cases, has_completion=lambda *_: False)
    assert [(draw.planned_case.case.id, draw.trial) for draw in first.missing] == [
        (f"c{number}", trial) for number in range(3) for trial in range(2)
    ]
    known = {RecordingKey(cases[1].digest, 0), RecordingKey(cases[2].digest, 1)}
    second = plan_cases(cases, has_completion=lambda _, key: key in known)
    assert len(second.missing) == 4
    assert len(list(second.planned_trials())) == 6
    assert first.digest == second.digest


def test_a_plan_is_told_by_what_is_asked_how_often(made: Any):
    def digest(*numbers: int, trials: int = 1) -> str:
        suite = made.suite(trials=trials)
        cases = [PlannedCase(suite, made.case(number)) for number in numbers]
        return plan_cases(cases, has_completion=lambda *_: True).digest

    assert digest(1, 2) == digest(1, 2)
    assert len({digest(1, 2), digest(1), digest(2, 1), digest(1, 2, trials=2)}) == 4


def test_what_cannot_be_asked_is_kept_out_and_says_why(made: Any, tmp_path: Any):
    suite = made.suite()
    lacking = PlannedCase(suite, made.case(1, inputs={}))
    broken = PlannedCase(suite, made.case(2))
    fine = PlannedCase(suite, made.case(3))

    def answered(planned: PlannedCase, key: RecordingKey) -> bool:
        if planned is broken:
            raise RecordingError([Diagnostic(path=tmp_path, line=1, message="unreadable")])
        return False

    plan = plan_cases([lacking, broken, fine], has_completion=answered)
    assert [draw.planned_case for draw in plan.missing] == [fine]
    errors = [case.error for case in plan.cases]
    assert [*map(type, errors)] == [RenderError, RecordingError, type(None)]
    for case in plan.cases[:2]:
        with pytest.raises(type(case.error)):
            case.plan()
    assert [lacking.error, broken.error, fine.error] == [None, None, None]


def test_shards_by_time_follow_the_committed_latencies(tmp_path: Path):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", *identity, *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def line(case: str, trial: int, seconds: object, **more: object) -> str:
        document = {"case": case, "trial": trial, "completion": {"latency_s": seconds}}
        return json.dumps(document | more) + "\n"

    def assigned() -> set[str]:
        shard = Shard(number=shard_of("talk", 2), count=2, assigned_by="time")
        found = assign_dataset(shard, golden, prompt="talk", project=Project(root=tmp_path))
        assert len(found.plan) == 64
        return {*(found.case_ids or ())}

    golden = tmp_path / "fixtures/golden/talk.jsonl"
    golden.parent.mkdir(parents=True)
    golden.write_text("".join(f'{{"id": "{name}", "inputs": {{}}}}\n' for name in "abcd"))
    assert assigned() == {"a", "c"}
    recorded = tmp_path / "fixtures/recordings/talk.jsonl"
    (recorded.parent / "judges").mkdir(parents=True)
    slow = line("d", 0, 60) + line("a", 1, 1) + line("b", 0, 1) + line("c", 0, 1)
    odd = line("a", 1000, 99) + line("a", 0, None) + line("a", 0, "x") + "[]\n{\n"
    recorded.write_text(slow + odd)
    assert assigned() == {"d"}
    (recorded.parent / "judges/talk.jsonl").write_text(line("b", 5000, 90, judge="tone"))
    assert assigned() == {"b"}
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    recorded.write_text("")
    (recorded.parent / "judges/talk.jsonl").write_text("")
    assert assigned() == {"b"}
    git("commit", "-qam", "two")
    assert assigned() == {"a", "c"}


def test_two_draws_are_told_apart_by_case_and_trial(made: Any):
    suite = made.suite(trials=2)
    plan = plan_cases(
        [PlannedCase(suite, made.case(1)), PlannedCase(suite, made.case(1))],
        has_completion=lambda *_: False,
    )
    assert len({draw.id for draw in plan.missing}) == 4
    assert len({draw.planned_case.digest for draw in plan.missing}) == 1


@pytest.mark.parametrize("heavy", ["openai", "deepeval", "pandas", "click", "rich", "anyio"])
def test_the_runner_loads_nothing_heavy(heavy: str, modules_loaded_by: Any):
    assert heavy not in modules_loaded_by("import regauge.runner")


@pytest.mark.parametrize("module", ["regauge", "regauge.pytest_plugin", "regauge.hookspecs"])
def test_importing_the_package_or_the_plugin_costs_next_to_nothing(
    module: str, modules_loaded_by: Any
):
    loaded = modules_loaded_by(f"import {module}")
    heavy = {"openai", "deepeval", "pandas", "numpy", "pydantic", "yaml", "click", "rich"}
    assert not heavy & loaded
    small = {module, "regauge.on_demand"}
    assert not {name for name in loaded if name.startswith("regauge.")} - small


def test_a_run_of_pytest_without_evals_loads_next_to_nothing(
    tmp_path: Path, modules_loaded_by: Any
):
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    pass\n", encoding="utf-8")
    arguments = [f"--rootdir={tmp_path}", "-pno:cacheprovider", "-pno:deepeval", str(tmp_path)]
    loaded = modules_loaded_by(f"import pytest\nassert pytest.main({arguments!r}) == 0")
    assert {name for name in loaded if name.startswith("regauge.")} == {
        "regauge.errors",
        "regauge.hookspecs",
        "regauge.on_demand",
        "regauge.pytest_omissions",
        "regauge.pytest_plugin",
        "regauge.wording",
    }


def test_the_simulated_model_is_loaded_by_its_entry_point_when_it_is_called(
    modules_loaded_by: Any,
):
    for module in ("regauge.runner", "regauge.cli.record", "regauge.cli.sim"):
        loaded = modules_loaded_by(f"import {module}")
        assert not {name for name in loaded if name.startswith("regauge.sim")}
    assert {n for n in modules_loaded_by("import regauge.sim") if "regauge.sim" in n} == {
        "regauge.sim"
    }
    [point] = entry_points(group="regauge.providers", name="sim")
    assert point.value == "regauge.sim:SimulatedProvider"
