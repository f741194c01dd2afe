"""The page on the layout of the code, and docstrings of packages, name what is there."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT

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
