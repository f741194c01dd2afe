"""Entry points of other packages: one that is broken is named, with its package and a fix."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from regauge.errors import UsageError
from regauge.importers import load_importer
from regauge.judges import judge_from_spec
from regauge.mutate._operators import OPERATORS, choose_operators
from regauge.on_demand import load_point, registered_points
from regauge.providers.registry import load_provider
from tests import processes

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

FIX = "  fix: install another version of odd-package, or remove it"
MODULE = """\
def good(): return 1
five = 5
def polite():
    from regauge.judges import contains
    return contains("please")
def nothing(prompt): return ()
"""


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "points_good.py").write_text(MODULE)
    (tmp_path / "points_exit.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "points_broken.py").write_text("raise ValueError('two\\n  lines')\n")
    info = tmp_path / "odd_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[regauge.odd]\ngood = points_good:good\nfive = points_good:five\ngone = points_good:gone\n"
        "missing = points_missing:x\nexit = points_exit:x\nbroken = points_broken:x\n"
        "[regauge.judges]\nbroken = points_broken:x\npolite = points_good:polite\n"
        "[regauge.mutation_operators]\nbroken = points_broken:x\nnothing = points_good:nothing\n"
        "[regauge.importers]\nown = points_good:gone\nodd = points_good:good\n[regauge.proposers]\nown = points_exit:x\n"
        "[regauge.providers]\nown = points_missing:x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return registered_points("regauge.odd")


def test_what_can_be_called_is_loaded(points):
    assert load_point(points["good"], "judge")() == 1


def test_a_format_of_another_package_is_loaded_and_a_misspelled_one_is_named(points):
    assert load_importer("odd").__name__ == "good"
    with pytest.raises(UsageError, match=r"no format 'odds'\n  fix: did you mean 'odd'\?"):
        load_importer("odds")
    with pytest.raises(UsageError, match=r"fix: one of braintrust, .*, odd, .*own, "):
        load_importer("xyz")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("five", "judge 'five' (points_good:five) is not a class or function, but 5"),
        ("gone", "cannot be loaded: module 'points_good' has no attribute 'gone'"),
        ("missing", "cannot be loaded: No module named 'points_missing'"),
        ("exit", "cannot be loaded: SystemExit: 3"),
        ("broken", "cannot be loaded: ValueError: two lines"),
    ],
)
def test_a_broken_one_is_named_with_a_fix(points, name: str, reason: str):
    with pytest.raises(UsageError) as error:
        load_point(points[name], "judge")
    problem, fix = str(error.value).split("\n")
    assert reason in problem
    assert fix == FIX


@pytest.mark.usefixtures("points")
def test_a_broken_judge_does_not_stop_another_one():
    assert judge_from_spec("polite").name == "contains(please)"
    with pytest.raises(UsageError, match="judge 'broken'"):
        judge_from_spec("broken")
    with pytest.raises(UsageError, match="did you mean 'polite'"):
        judge_from_spec("polit")


@pytest.mark.usefixtures("points")
def test_a_broken_operator_stops_only_runs_that_name_it():
    assert {operator.name for operator in choose_operators(None)} <= {x.name for x in OPERATORS}
    assert [operator.name for operator in choose_operators("nothing")] == ["nothing"]
    for names in ("broken", "all"):
        with pytest.raises(UsageError, match="operator 'broken'"):
            choose_operators(names)
    warnings: list[str] = []
    every = {operator.name for operator in choose_operators("all", warn=warnings.append)}
    assert {"nothing"} | {operator.name for operator in OPERATORS} >= every > {"nothing"}
    assert [text.splitlines()[1] for text in warnings] == [FIX]
    with pytest.raises(UsageError, match="operator 'broken'"):
        choose_operators("nothing, broken", warn=warnings.append)
    with pytest.raises(UsageError, match="did you mean 'nothing'"):
        choose_operators("nothin")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("opnai", "did you mean 'openai'?"), ("zz", "there are anthropic, openai, ")],
)
def test_an_unknown_api_is_named_with_the_closest_ones(name: str, hint: str):
    with pytest.raises(UsageError) as error:
        load_provider(name)
    assert f"fix: {hint}" in str(error.value)
    assert f"install the package that registers {name!r}" in str(error.value)


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    place = tmp_path / "project"
    place.mkdir()
    (place / "pyproject.toml").write_text("[tool.regauge]\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return processes.run("regauge", *words, cwd=place, env=env)


@pytest.mark.usefixtures("points")
def test_the_list_of_judges_names_a_broken_one_and_lists_the_others(tmp_path: Path):
    done = run(tmp_path, "judges", "list", "--json")
    assert done.returncode == 0
    assert {"polite", "max_words"} <= {judge["name"] for judge in json.loads(done.stdout)}
    assert done.stderr.splitlines() == [
        "warning: judge 'broken' (points_broken:x) cannot be loaded: ValueError: two lines",
        FIX,
    ]


@pytest.mark.usefixtures("points")
def test_the_doctor_loads_what_packages_register(tmp_path: Path):
    done = run(tmp_path, "doctor", "--offline", "--json")
    assert done.returncode == 1
    results = [r for r in json.loads(done.stdout)["results"] if r["check"] == "packages"]
    broken = [r["message"].partition(" cannot")[0] for r in results if r["level"] == "error"]
    assert broken == [
        "judge 'broken' (points_broken:x)",
        "format 'own' (points_good:gone)",
        "operator 'broken' (points_broken:x)",
        "proposer 'own' (points_exit:x)",
        "provider 'own' (points_missing:x)",
    ]
    assert {r["fix"] for r in results if r["level"] == "error"} == {FIX.removeprefix("  fix: ")}
    [loaded] = [r["message"] for r in results if r["level"] == "ok"]
    assert loaded == "judge polite, format odd, operator nothing, provider sim"
