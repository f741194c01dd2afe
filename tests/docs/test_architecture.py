"""The page on the layout of the code, and docstrings of packages, name what is there."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.place import Place

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted((ROOT / "src/regauge").rglob("__init__.py"))


def test_the_layers_of_the_page_are_those_that_are_kept():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    table = PAGE.partition("|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == [
        {part.removeprefix("regauge.") for part in layer.split(" | ")} for layer in kept
    ]


def test_every_place_the_page_names_is_there():
    places = re.findall(r"`((?:src|tests)/[^`]+)`", PAGE)
    assert len(places) > 20
    assert not [place for place in places if not (ROOT / place).exists()]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_every_file_that_a_package_speaks_of_is_there(package: Path):
    doc = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    named = re.findall(r"`(\w+\.py)`", doc)
    assert not [name for name in named if not (package.parent / name).exists()]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The functions that a replay of one recorded case enters, in the order of their first calls."""
    place = Place(tmp_path_factory.mktemp("walk"))
    place.regauge("init", "--yes")
    place.evals("--record=missing")
    golden = next((place.root / "fixtures/golden").glob("*.jsonl"))
    case = json.loads(golden.read_text(encoding="utf-8").splitlines()[0])["id"]
    command = ["tests.docs.call_trace", "calls.json", "evals", "--record=none", "-k", case]
    traced = place.process(*command, PYTHONPATH=str(ROOT))
    assert "1 passed" in traced.stdout, traced.stdout + traced.stderr
    return [(file, name) for file, name in json.loads((place.root / "calls.json").read_text())]


def test_a_case_passes_the_stations_of_the_page_in_their_order(calls: list[tuple[str, str]]):
    walk = PAGE.partition("## A case to its verdict\n")[2].partition("\n## ")[0]
    stations = re.findall(r"^\d+\. `src/regauge/([^`]+)`, `([^`]+)`:", walk, re.MULTILINE)
    assert len(stations) == len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) == 10
    assert [call for call in calls if call in stations] == stations


def test_a_case_goes_through_few_files_and_functions(calls: list[tuple[str, str]]):
    assert len({file for file, _ in calls}) <= 68
    assert len(calls) <= 440
